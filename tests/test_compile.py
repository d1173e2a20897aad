"""torch.compile(fullgraph=True) and torch.export with dynamic sizes, for sequences and for edges."""

import shutil
import warnings

import pytest
import torch
from torch import Tensor

SIZES = ["scaled_dot", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("bilinear", "distance"))]
"""Scores that are exported with any sizes; another is `strict`, and one more is in each test."""


@pytest.fixture(autouse=True)
def forget_compiled_code():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def graph(edgewise, num_nodes, num_edges, seed=0):
    generator = torch.Generator().manual_seed(seed)
    senders, receivers = torch.randint(num_nodes, (2, num_edges), generator=generator)
    return edgewise.Edges(senders, receivers, num_nodes, num_nodes)


def assert_same_with_gradients(compiled, layer, *arguments, **options):
    out, expected = compiled(*arguments, **options), layer(*arguments, **options)
    torch.testing.assert_close(out, expected)
    parameters = [p for p in layer.parameters() if p.requires_grad]
    ours = torch.autograd.grad(out.square().sum(), parameters, allow_unused=True)
    theirs = torch.autograd.grad(expected.square().sum(), parameters, allow_unused=True)
    for one, other in zip(ours, theirs):
        assert (one is None) == (other is None)
        if one is not None:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", ["full", "causal", "mask", "padding", "lengths", "causal_segments", "edges"])
def test_a_compiled_layer_is_one_graph_on_every_kind_of_neighborhood(plain_edgewise, kind):
    from edgewise.layers import MultiHeadAttention

    e = plain_edgewise
    neighborhood = {
        "full": e.Full(),
        "causal": e.Causal(),
        "mask": e.Mask(torch.rand(5, 5) < 0.5),
        "padding": e.Mask(torch.arange(5) < torch.tensor([[[3]], [[5]]])) & e.Causal(),
        "lengths": e.Lengths(torch.tensor([3, 5])),
        "causal_segments": e.Causal() & e.Segments(torch.tensor([0, 2, 5])),
        "edges": graph(e, 5, 8),
    }[kind]
    layer = MultiHeadAttention(8, 2)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert_same_with_gradients(compiled, layer, torch.randn(2, 5, 8), neighborhood=neighborhood)


@pytest.mark.parametrize("planes", ["half", "interleaved"])
def test_rotary_positions_compile_into_one_graph(plain_edgewise, planes):
    from edgewise.layers import MultiHeadAttention, RotaryPosition

    layer = MultiHeadAttention(8, 2, position=RotaryPosition(4, planes=planes))
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert_same_with_gradients(compiled, layer, torch.randn(2, 5, 8), neighborhood=plain_edgewise.Causal())


def test_a_call_that_was_made_before_compiles_into_one_graph(plain_edgewise):
    """What is remembered of its form is not read while torch traces."""
    edges, x = graph(plain_edgewise, 6, 8), torch.randn(6, 4)

    def step(x):
        return plain_edgewise.attend(x, x, x, edges)

    step(x), step(x)
    assert torch.equal(torch.compile(step, fullgraph=True, backend="aot_eager")(x), step(x))


def test_a_compiled_transform_of_torch_func_over_many_blocks(plain_edgewise, monkeypatch):
    """Torch could not compute blocks again within the transform."""
    from edgewise.backends import gather

    monkeypatch.setattr(gather, "SLICE", 20)
    mask, x = plain_edgewise.Mask(torch.rand(9, 9) < 0.6), torch.randn(9, 4)
    gradient = torch.func.grad(lambda x: plain_edgewise.attend(x, x, x, mask, backend="gather").square().sum())
    torch.testing.assert_close(torch.compile(gradient, backend="aot_eager")(x), gradient(x))


def test_the_operator_compiles_under_autocast(plain_edgewise):
    edges, x = graph(plain_edgewise, 6, 8), torch.randn(6, 4)

    def step(x):
        with torch.autocast("cpu", torch.bfloat16):
            return plain_edgewise.attend(x, x, x, edges) + plain_edgewise.attend(x, x, x, plain_edgewise.Causal())

    found = torch.compile(step, fullgraph=True, backend="aot_eager")(x)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, step(x))


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({"score": "additive"}, marks=pytest.mark.nightly),
        {"score": "gat", "edge_dim": 3},
        pytest.param({"num_key_heads": 1, "score": "distance"}, marks=pytest.mark.nightly),
        {"normalize": "entmax"},
    ],
    ids=str,
)
def test_a_compiled_layer_with_other_parts_on_edges(plain_edgewise, options):
    from edgewise.layers import MultiHeadAttention

    if "normalize" in options:
        options = {"normalize": plain_edgewise.Entmax15()}
    layer = MultiHeadAttention(8, 2, **options).double()
    edges = graph(plain_edgewise, 5, 8)
    extra = {"edge_features": torch.randn(8, 3).double()} if "edge_dim" in options else {}
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    assert_same_with_gradients(compiled, layer, torch.randn(2, 5, 8).double(), neighborhood=edges, **extra)


def test_a_compiled_layer_takes_sizes_it_was_not_compiled_for(plain_edgewise):
    from edgewise.layers import MultiHeadAttention

    layer = MultiHeadAttention(8, 2)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    for num_nodes, num_edges in ((5, 8), (9, 30), (4, 1)):
        edges = graph(plain_edgewise, num_nodes, num_edges)
        assert_same_with_gradients(compiled, layer, torch.randn(num_nodes, 8), neighborhood=edges)
        assert_same_with_gradients(compiled, layer, torch.randn(2, num_nodes, 8), neighborhood=plain_edgewise.Causal())


@pytest.mark.parametrize("score", [pytest.param("gat", marks=pytest.mark.nightly), "gatv2"])
def test_a_slope_may_be_a_symbol(plain_edgewise, score):
    """The numbers of a module as torch makes them where sizes are dynamic."""
    e = plain_edgewise

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.slope, self.vector = 0.3, torch.nn.Parameter(torch.randn(2, 4))

        def forward(self, x, edges):
            rule = e.GATv2(self.vector, self.slope) if score == "gatv2" else e.GAT(self.vector, self.vector, self.slope)
            return e.attend(x, x, x, edges, score=rule)

    layer = Layer()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager", dynamic=True)
    for slope in (0.3, 0.2, 0.1):
        layer.slope = slope
        assert_same_with_gradients(compiled, layer, torch.randn(2, 5, 4), graph(e, 5, 8))


def molecules(edgewise, num_graphs, num_rows, seed):
    """A batch of made-up molecules, and rows that name two each."""
    from edgewise.graph import Batch, Graph, Supervision

    random = torch.Generator().manual_seed(seed)
    sizes = torch.randint(2, 9, (num_graphs,), generator=random)
    offsets = torch.cat([torch.zeros(1, dtype=torch.int64), sizes.cumsum(0)])
    edges = graph(edgewise, int(offsets[-1]), 3 * int(offsets[-1]) + seed, seed)
    shapes = (offsets[-1], 5), (edges.num_edges, 4), (num_graphs, 6), (num_rows, 2), (num_rows, 1)
    nodes, edge, graphs, conditions, targets = (torch.randn(*shape, generator=random) for shape in shapes)
    rows = torch.randint(num_graphs, (num_rows, 2), generator=random)
    # Unchecked, as edges go from graph to graph.
    union = Graph.unchecked(nodes, edges, edge, graph_features=graphs, offsets=offsets)
    supervision = Supervision(graph_of_row=rows, row_features=conditions, targets=targets, weights=torch.rand(num_rows))
    return Batch(union, supervision)


@pytest.mark.parametrize(
    ("layer", "is_planned"),
    [
        ("attention", True),
        pytest.param("attention", False, marks=pytest.mark.nightly),
        ("edge_attention", True),
        pytest.param("dmpnn", True, marks=pytest.mark.nightly),  # the same class as edge_attention
    ],
)
def test_the_default_molecule_models_are_one_program_for_batches_of_all_sizes(plain_edgewise, layer, is_planned):
    from torch._dynamo.testing import CompileCounter

    from edgewise.learn.networks.property import PropertyModel, PropertySettings, PropertySizes, planned
    from edgewise.learn.training.fit import compiling
    from edgewise.learn.training.loss import TargetLoss, loss_of
    from edgewise.learn.training.settings import TrainSettings

    sizes = {"model_dim": 16, "head_dim": 16}
    settings = PropertySettings(model=layer, num_layers=2, num_head_layers=1, num_variants=3, **sizes)
    model, loss = PropertyModel(PropertySizes(5, 4, 6, 2, 2, 1), settings).train(), TargetLoss("regression", "huber")
    for part in model.modules():
        if isinstance(part, torch.nn.Dropout):
            part.p = 0.0
    counter, parameters = CompileCounter(), list(model.parameters())
    compiled = torch.compile(loss_of, fullgraph=True, dynamic=True, backend=counter)
    for seed, (num_graphs, num_rows) in enumerate([(6, 6), (4, 11), (9, 5)]):
        batch = molecules(plain_edgewise, num_graphs, num_rows, seed)
        if is_planned:
            batch = planned(batch, settings)
        with compiling(TrainSettings(compile=True)):
            found, expected = (function(model, loss, batch)[0] for function in (compiled, loss_of))
        torch.testing.assert_close(found, expected)
        grads = (torch.autograd.grad(each, parameters) for each in (found, expected))
        for one, other in zip(*grads):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
    assert counter.frame_count == 1


def test_compiled_attention_keeps_nan_where_it_is(plain_edgewise):
    from edgewise import attend

    edgewise = plain_edgewise
    mask = torch.tensor([[1, 1, 0], [0, 0, 1]]) == 1

    def run(query, key, value):
        return attend(query, key, value, edgewise.Mask(mask), normalize=edgewise.Sparsemax())

    query, key, value = torch.randn(2, 4), torch.randn(3, 4), torch.randn(3, 4)
    key[2], value[2] = torch.nan, torch.nan
    out = torch.compile(run, fullgraph=True, backend="aot_eager")(query, key, value)
    torch.testing.assert_close(out, run(query, key, value), equal_nan=True)
    assert out[0].isfinite().all()
    assert out[1].isnan().all()


@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile's own backend needs a C++ compiler")
def test_the_compiler_of_torch_itself(plain_edgewise):
    from edgewise.layers import MultiHeadAttention

    layer = MultiHeadAttention(8, 2)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*torch\.jit\.script.*", category=DeprecationWarning)
        compiled = torch.compile(layer, fullgraph=True)
        x, edges = torch.randn(5, 8), graph(plain_edgewise, 5, 8)
        torch.testing.assert_close(compiled(x, neighborhood=edges), layer(x, neighborhood=edges))


class Sequence(torch.nn.Module):
    """A causal layer, as one would export it."""

    def __init__(self, layer, causal):
        super().__init__()
        self.layer, self.causal = layer, causal

    def forward(self, x):
        return self.layer(x, neighborhood=self.causal)


class Padded(torch.nn.Module):
    """A layer over padded members; lengths in."""

    def __init__(self, layer, edgewise):
        super().__init__()
        self.layer, self.lengths, self.causal = layer, edgewise.Lengths, edgewise.Causal()

    def forward(self, x, lengths):
        return self.layer(x, neighborhood=self.causal & self.lengths(lengths))


class Graph(torch.nn.Module):
    """A layer over edges: tensors in, tensors out."""

    def __init__(self, layer, edges):
        super().__init__()
        self.layer, self.edges = layer, edges

    def forward(self, x, senders, receivers, edge):
        return self.layer(x, neighborhood=self.edges(senders, receivers, x.shape[-2], x.shape[-2]), edge_features=edge)


@pytest.mark.parametrize("score", [*SIZES, "additive", pytest.param("gat", marks=pytest.mark.nightly)])
def test_an_exported_sequence_layer_takes_any_batch_and_length(plain_edgewise, score):
    from edgewise.layers import MultiHeadAttention

    strict = score == "additive"  # once is enough
    model = Sequence(MultiHeadAttention(8, 2, score=score), plain_edgewise.Causal())
    sizes = {"x": {0: torch.export.Dim("member"), 1: torch.export.Dim("node")}}
    program = torch.export.export(model, (torch.randn(2, 5, 8),), dynamic_shapes=sizes, strict=strict).module()
    for shape in ((3, 9, 8), (1, 2, 8), (4, 65, 8)):
        x = torch.randn(shape)
        torch.testing.assert_close(program(x), model(x))


def test_an_exported_layer_over_padded_members(plain_edgewise):
    from edgewise.layers import MultiHeadAttention

    model = Padded(MultiHeadAttention(8, 2), plain_edgewise)
    member, node = torch.export.Dim("member"), torch.export.Dim("node")
    sizes = {"x": {0: member, 1: node}, "lengths": {0: member}}
    arguments = (torch.randn(2, 5, 8), torch.tensor([3, 5]))
    program = torch.export.export(model, arguments, dynamic_shapes=sizes).module()
    x, lengths = torch.randn(3, 7, 8), torch.tensor([0, 7, 2])
    torch.testing.assert_close(program(x, lengths), model(x, lengths))


@pytest.mark.parametrize("score", [*SIZES, "gat", pytest.param("additive", marks=pytest.mark.nightly)])
def test_an_exported_layer_over_edges_takes_any_number_of_nodes_and_edges(plain_edgewise, score):
    from edgewise.layers import MultiHeadAttention

    strict = score == "gat"  # once is enough
    model = Graph(MultiHeadAttention(8, 2, score=score, edge_dim=3), plain_edgewise.Edges)
    node, edge = torch.export.Dim("node"), torch.export.Dim("edge")
    sizes = {"x": {0: node}, "senders": {0: edge}, "receivers": {0: edge}, "edge": {0: edge}}
    edges = graph(plain_edgewise, 5, 8)
    arguments = (torch.randn(5, 8), edges.senders, edges.receivers, torch.randn(8, 3))
    program = torch.export.export(model, arguments, dynamic_shapes=sizes, strict=strict).module()
    for num_nodes, num_edges in ((9, 40), (3, 2)):
        edges = graph(plain_edgewise, num_nodes, num_edges)
        arguments = (torch.randn(num_nodes, 8), edges.senders, edges.receivers, torch.randn(num_edges, 3))
        torch.testing.assert_close(program(*arguments), model(*arguments))


@torch.library.custom_op("edgewise_tests::varlen", mutates_args=())
def packed_means(query: Tensor, key: Tensor, value: Tensor, own: Tensor, other: Tensor, most: int) -> Tensor:
    """Stands for torch's kernel: the mean of the values of each member, on a machine without CUDA."""
    assert int(own.diff().max()) <= most
    spans = zip(own.diff().tolist(), value.split(other.diff().tolist()))
    return torch.cat([values.mean(0, keepdim=True).nan_to_num().expand(count, -1, -1) for count, values in spans])


@packed_means.register_fake
def _(query, key, value, own, other, most):
    return torch.empty_like(query, memory_format=torch.contiguous_format)


@pytest.fixture
def for_cuda(plain_edgewise, monkeypatch):
    """The way of a call on a CUDA device, up to the kernel."""
    import torch.nn.attention.varlen as kernel

    from edgewise.backends import flex, varlen

    def stand_in(query, key, value, own, other, most_queries, most_keys, *, scale, window_size):
        return packed_means(query, key, value, own, other, most_queries)

    monkeypatch.setattr(kernel, "varlen_attn", stand_in)
    monkeypatch.setattr(varlen, "DEVICES", ("cpu",))
    monkeypatch.setattr(varlen, "DTYPES", (torch.float32,))
    monkeypatch.setitem(varlen._found, torch.device("cpu"), "")
    monkeypatch.setattr(flex, "DEVICES", ("cpu",))


@pytest.mark.parametrize("kind", ["window", "lengths", "causal_segments"])
def test_packed_sequences_are_one_graph(plain_edgewise, for_cuda, kind):
    e = plain_edgewise
    neighborhoods = {
        "window": [e.Window(2, 1)] * 2,
        "lengths": [e.Lengths(torch.tensor([[3], [200]])), e.Lengths(torch.tensor([[100], [5]]))],
        "causal_segments": [e.Causal() & e.Segments(torch.tensor(offsets)) for offsets in ([0, 250], [3, 200])],
    }[kind]

    def run(x, neighborhood):
        return e.attend(x, x, x, neighborhood)

    compiled = torch.compile(run, fullgraph=True, backend="aot_eager")
    for length, neighborhood in zip((256, 300), neighborhoods):
        x = torch.randn(2, length, 3, 8).transpose(1, 2)
        assert e.why(x, x, x, neighborhood).startswith("varlen runs.")
        torch.testing.assert_close(compiled(x, neighborhood), run(x, neighborhood))


def test_segments_made_in_the_graph_are_left_to_kernels_that_need_not_measure_them(plain_edgewise, for_cuda):
    e = plain_edgewise
    chosen = []

    def run(x, offsets):
        call = checked_call("attend", x, x, x, e.Segments(offsets), e.ScaledDot(), e.Softmax(), None, None, None, 0.0)
        chosen.append(choose(call).NAME)
        return e.attend(x, x, x, e.Segments(offsets))

    from edgewise.backends import choose
    from edgewise.backends.call import checked_call

    x, offsets = torch.randn(3, 256, 8), torch.tensor([0, 100, 256])
    out = torch.compile(run, fullgraph=True, backend="aot_eager")(x, offsets)
    assert chosen == ["sdpa"]
    torch.testing.assert_close(out, e.attend(x, x, x, e.Segments(offsets), backend="reference"))


def test_what_is_exported_takes_any_length_on_such_a_device_too(plain_edgewise, for_cuda):
    from edgewise.layers import MultiHeadAttention

    model = Sequence(MultiHeadAttention(16, 2), plain_edgewise.Window(3, 1))
    sizes = {"x": {0: torch.export.Dim("member"), 1: torch.export.Dim("node")}}
    program = torch.export.export(model, (torch.randn(2, 200, 16),), dynamic_shapes=sizes).module()
    x = torch.randn(3, 9, 16)
    torch.testing.assert_close(program(x), model(x))


@pytest.mark.parametrize(
    ("kind", "dynamic"),
    [("causal_segments", False), pytest.param("window_of_lengths", True, marks=pytest.mark.nightly)],
)
def test_flex_becomes_part_of_the_graph(plain_edgewise, for_cuda, kind, dynamic):
    e = plain_edgewise
    neighborhood = {
        "causal_segments": e.Causal() & e.Segments(torch.tensor([3, 150, 150, 290])),
        "window_of_lengths": e.Window(140, 10) & e.Lengths(torch.tensor([[290], [100]])),
    }[kind]

    def run(query, x):
        return e.attend(2 * query, x, x, neighborhood, backend="flex") + 1

    compiled = torch.compile(run, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for length in (300, 310):
        query, x = torch.randn(2, 3, length, 16), torch.randn(2, 1, length - 5, 16)
        wanted = e.attend(2 * query, x, x, neighborhood, backend="reference") + 1
        torch.testing.assert_close(compiled(query, x), wanted, rtol=1e-4, atol=1e-4)
