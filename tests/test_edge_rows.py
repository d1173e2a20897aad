"""Edges that share rows of what they carry: the same sums as with a row for each edge."""

import pytest
import torch

from edgewise import Edges, SettingError, ShapeError, attend, attention_weights
from edgewise.backends.numba import edge_kernels
from edgewise.neighborhood import EdgeRows
from edgewise.normalize import Identity, Softmax
from edgewise.score import GAT, Additive, Constant, Cosine, Distance, GATv2, ScaledDot

NODES, EDGES, ROWS, HEADS, DIM = 30, 120, 5, 4, 16


def inputs(heads=HEADS, dim=DIM, dtype=torch.float64):
    generator = torch.Generator().manual_seed(0)

    def drawn(*shape):
        return torch.randn(shape, dtype=dtype, generator=generator).requires_grad_()

    ends = torch.randint(NODES, (2, EDGES), generator=generator)
    rows = EdgeRows(torch.randint(ROWS, (EDGES,), generator=generator), ROWS)
    nodes = [drawn(heads, NODES, dim) for _ in range(3)]
    carried = {"edge_key": drawn(heads, ROWS, dim), "edge_value": drawn(heads, ROWS, dim), "bias": drawn(heads, ROWS)}
    return Edges(*ends, NODES, NODES), rows, nodes, carried


def spread(rows, carried):
    return {name: rows.spread(x, -1 if name == "bias" else -2) for name, x in carried.items()}


def scores(heads, dim, dtype):
    vector = torch.linspace(-1, 1, heads * dim, dtype=dtype).view(heads, dim)
    return [ScaledDot(), GATv2(vector), Additive(vector), GAT(vector, vector.flip(0)), Distance(), Cosine()]


CALLS = [
    *((3, 8, torch.float32, number) for number in range(6)),
    pytest.param(4, 16, torch.float64, 0, marks=pytest.mark.nightly),
    (8, 16, torch.float64, 0),
    *(
        pytest.param(heads, 16, torch.float32, number, marks=pytest.mark.nightly)
        for heads in (4, 8)
        for number in range(6)
    ),
]
"""Each kind of sizes is compiled anew for each score and dtype: by day every score has one kind, and one score two,
in dtypes for which other tests compile them, too."""


@pytest.mark.parametrize(("heads", "dim", "dtype", "number"), CALLS, ids=str)
def test_sums_and_gradients_are_those_of_a_row_for_each_edge(heads, dim, dtype, number, monkeypatch):
    monkeypatch.setattr(edge_kernels, "CHUNK", 500)  # so that there are several chunks, each with rows of its own
    edges, rows, nodes, carried = inputs(heads, dim, dtype)
    score = scores(heads, dim, dtype)[number]
    leaves = [*nodes, *carried.values()]
    found = attend(*nodes, edges, score=score, edge_rows=rows, **carried)
    expected = attend(*nodes, edges, score=score, **spread(rows, carried))
    cotangent = torch.randn(found.shape, dtype=dtype, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    for ours, other in zip(*(torch.autograd.grad(out, leaves, cotangent) for out in (found, expected)), strict=True):
        torch.testing.assert_close(ours, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", ["gather", "reference"])
def test_other_backends_take_rows(backend):
    edges, rows, nodes, carried = inputs()
    found = attend(*nodes, edges, edge_rows=rows, backend=backend, **carried)
    torch.testing.assert_close(found, attend(*nodes, edges, edge_rows=rows, **carried), rtol=1e-5, atol=1e-6)


def test_a_learned_temperature_and_weights_take_rows():
    edges, rows, (query, key, value), carried = inputs()
    normalize = Softmax(torch.full((HEADS,), 0.5))
    found = attend(query, key, value, edges, normalize=normalize, edge_rows=rows, **carried)
    expected = attend(query, key, value, edges, normalize=normalize, **spread(rows, carried))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    del carried["edge_value"]
    found = attention_weights(query, key, edges, edge_rows=rows, **carried).values
    torch.testing.assert_close(found, attention_weights(query, key, edges, **spread(rows, carried)).values)


def test_second_derivatives_are_those_of_a_row_for_each_edge():
    edges, rows, nodes, carried = inputs()
    leaves = [nodes[0], carried["edge_key"]]

    def twice(**parts):
        first = torch.autograd.grad(attend(*nodes, edges, **parts).square().sum(), leaves, create_graph=True)
        return torch.autograd.grad(sum(x.square().sum() for x in first), leaves)

    for ours, other in zip(twice(edge_rows=rows, **carried), twice(**spread(rows, carried)), strict=True):
        torch.testing.assert_close(ours, other, rtol=1e-3, atol=1e-3)


def test_the_number_of_rows_must_fit():
    edges, rows, nodes, carried = inputs()
    with pytest.raises(ShapeError, match="axis 'edge' is 6 in edge_rows but 5 in edge_key"):
        attend(*nodes, edges, edge_rows=EdgeRows(rows.rows, 6), edge_key=carried["edge_key"])


@pytest.mark.parametrize(
    ("rows", "num_rows", "message"),
    [
        (torch.tensor([0, 5]), 2, "rows must lie in 0 … 1; found 5"),
        (torch.tensor([-1, 0]), 2, "rows must lie in 0 … 1; found -1"),
        (torch.tensor([[0, 1]]), 2, "rows must have the one axis 'edge'"),
        (torch.tensor([0.0, 1.0]), 2, "rows must be whole numbers"),
        (torch.zeros(0, dtype=torch.int64), -1, "num_rows must not be negative"),
        (torch.tensor([0]), 1.5, "num_rows must be a whole number"),
        (torch.tensor([0]), 0, "found 0"),
    ],
)
def test_rows_are_checked_where_they_enter(shapes_unchecked, rows, num_rows, message):
    with pytest.raises(ShapeError, match=message):
        EdgeRows(rows, num_rows)


def test_rows_may_be_a_list_and_are_copied(shapes_unchecked):
    edges, rows, nodes, carried = inputs()
    listed = EdgeRows(rows.rows.tolist(), ROWS)
    assert torch.equal(listed.rows, rows.rows)
    source = rows.rows.clone()
    held = EdgeRows(source, ROWS)
    expected = attend(*nodes, edges, edge_rows=held, **carried)
    source.fill_(10**9)
    for backend in ("auto", "gather", "reference"):
        computed = attend(*nodes, edges, edge_rows=held, backend=backend, **carried)
        torch.testing.assert_close(computed, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("count", [EDGES - 1, EDGES + 1, 0])
def test_there_is_a_row_for_each_edge(count):
    edges, _, nodes, carried = inputs()
    rows = EdgeRows(torch.zeros(count, dtype=torch.int64), ROWS)
    for parts in (carried, {}):
        with pytest.raises(ShapeError, match=f"axis 'edge' is {EDGES} in the neighborhood but {count} in edge_rows"):
            attend(*nodes, edges, edge_rows=rows, **parts)
    with pytest.raises(ShapeError, match="in edge_rows"):
        attention_weights(*nodes[:2], edges, edge_rows=rows, bias=carried["bias"])


def test_rows_belong_to_edges_and_are_of_their_class(shapes_unchecked):
    edges, rows, nodes, carried = inputs()
    with pytest.raises(ShapeError, match="edge_rows needs Edges, not Full"):
        attend(*nodes, edge_rows=rows)
    with pytest.raises(SettingError, match=r"edge_rows must be EdgeRows\(rows, num_rows\), not Tensor"):
        attend(*nodes, edges, edge_rows=rows.rows, **carried)


@pytest.mark.parametrize("is_bias", [False, True])
def test_shared_rows_of_constant_scores(is_bias):
    generator = torch.Generator().manual_seed(0)
    senders, receivers = torch.randint(5, (2, 40), generator=generator)
    edges, nodes = Edges(senders, receivers, 5, 5), torch.randn(5, 8, generator=generator)
    numbers = torch.tensor([1.0, -1.0], requires_grad=True)
    rows = EdgeRows(torch.randint(2, (40,), generator=generator), 2)
    parts = {"score": Constant(0.0), "bias": numbers} if is_bias else {"score": Constant(numbers)}

    def outcome(backend):
        out = attend(nodes, nodes, nodes, edges, normalize=Identity(), edge_rows=rows, backend=backend, **parts)
        return out, torch.autograd.grad(out.square().sum(), numbers)[0]

    for ours, wanted in zip(outcome("auto"), outcome("gather"), strict=True):
        torch.testing.assert_close(ours, wanted, rtol=1e-5, atol=1e-5)


def test_rows_placed_in_inference_mode_serve_a_training():
    edges, nodes = Edges(torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor([1, 1, 1, 2, 2, 0]), 5, 5), torch.randn(5, 8)
    rows, keys = EdgeRows(torch.tensor([0, 1] * 3), 2), torch.randn(2, 8)
    with torch.inference_mode():
        attend(nodes, nodes, nodes, edges, edge_key=keys, edge_rows=rows)
        edges.line_graph  # noqa: B018
    nodes.requires_grad_()
    attend(nodes, nodes, nodes, edges, edge_key=keys, edge_rows=rows).sum().backward()
    attend(nodes.repeat(2, 1)[:6], nodes.repeat(2, 1)[:6], nodes.repeat(2, 1)[:6], edges.line_graph).sum().backward()
