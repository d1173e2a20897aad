"""The numba backend on tensors of every size, layout and sharing."""

import itertools

import pytest
import torch

from cases import HEADS, KEY_DIM, all_normalizers, all_scores, named
from edgewise import (
    GAT,
    Causal,
    Constant,
    Cosine,
    Distance,
    Edges,
    Full,
    GATv2,
    ScaledDot,
    Softmax,
    Sparsemax,
    attend,
)
from edgewise.backends.numba import edge_kernels
from edgewise.backends.numba.tables import TiledSizes
from edgewise.neighborhood import EdgeRows
from edgewise.neighborhood import plan as plan_module
from numba_cases import FORMS, assert_like_reference, draw, generator, neighborhood_of, random_edges, run

OWN_SCORES = [case for case in all_scores if case.name != "own"]
BY_NIGHT = ("additive_tanh", "additive_sigmoid", "additive_silu", "additive_gelu", "gaussian", "gaussian_per_head",
            "laplacian_per_head", "constant")  # fmt: skip
IN_GROUPS_BY_DAY = [
    pytest.param(case, marks=pytest.mark.nightly if case.name in BY_NIGHT else ()) for case in OWN_SCORES
]
"""A score is one function of lanes, whatever reads them: by day two are compiled where heads come in whole groups."""


@pytest.mark.parametrize("num_heads", [1, 2, 8, 9, 12, 16])
@pytest.mark.parametrize("dims", [(1, 1), (1, 8), (3, 7), (7, 3), (9, 8), (20, 64), (64, 20), (16, 32)], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_any_size_and_number_of_heads(form, dims, num_heads):
    tensors = {
        "query": draw(num_heads, 7, dims[0]),
        "key": draw(num_heads, 9, dims[0], seed=1),
        "value": draw(num_heads, 9, dims[1], seed=2),
    }
    if form == "edges":
        tensors |= {
            "edge_key": draw(num_heads, 60, dims[0], seed=4),
            "edge_value": draw(num_heads, 60, dims[1], seed=5),
        }
        tensors["bias"] = draw(num_heads, 60, seed=6)
    vector = draw(num_heads, dims[0], seed=3)
    assert_like_reference(tensors, neighborhood_of(form))
    assert_like_reference(tensors, neighborhood_of(form), [vector], score=GATv2(vector))


@pytest.mark.parametrize("score", IN_GROUPS_BY_DAY, ids=lambda case: case.name)
def test_every_score_where_heads_come_in_whole_groups(score):
    """Reading eight heads at once gives the result of reading head by head."""
    tensors = {"query": draw(8, 7, 16), "key": draw(8, 9, 16, seed=1), "value": draw(8, 9, 32, seed=2)}
    tensors |= {"edge_key": draw(8, 60, 16, seed=3), "edge_value": draw(8, 60, 32, seed=4)}
    by_node = tuple(x.transpose(0, 1) for x in tensors.values())
    assert isinstance(edge_kernels.sizes_of(tuple(x.shape for x in by_node), 8), TiledSizes)
    tensors["bias"] = draw(8, 60, seed=5)
    sizes = {HEADS: 8, KEY_DIM: 16}
    parameters = [draw(*(sizes[size] for size in shape)) for shape in score.shapes]
    if score.positive:
        parameters = [(0.5 + x.detach().abs()).requires_grad_() for x in parameters]
    for normalize in (Softmax(), Sparsemax()):
        assert_like_reference(tensors, random_edges(), parameters, score=score.make(*parameters), normalize=normalize)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "shapes",
    [
        ((7, 5), (9, 5), (9, 3)),
        ((4, 2, 7, 5), (4, 1, 9, 5), (4, 1, 9, 3)),
        ((1, 7, 5), (3, 9, 5), (1, 9, 3)),
        ((3, 1, 7, 5), (1, 2, 9, 5), (2, 9, 3)),
        ((2, 3, 7, 5), (9, 5), (9, 3)),
        ((7, 5), (9, 5), (2, 3, 9, 3)),
    ],
    ids=str,
)
def test_heads_that_share_keys_or_values(form, shapes):
    tensors = {name: draw(*shape, seed=n) for n, (name, shape) in enumerate(zip(("query", "key", "value"), shapes))}
    extras = dict(tensors)
    if form == "edges":
        extras |= {"bias": draw(60), "edge_key": draw(60, 5), "edge_value": draw(60, 3)}
    else:
        extras["bias"] = draw(7, 9)
    for score in (ScaledDot(), Cosine()):
        assert_like_reference(tensors, neighborhood_of(form), score=score)
    for score in (ScaledDot(), Cosine(), Distance("laplacian")):
        assert_like_reference(extras, neighborhood_of(form), score=score)


@pytest.mark.parametrize("form", FORMS)
def test_a_value_that_is_the_key(form):
    query, key = draw(2, 7, 6), draw(2, 9, 6, seed=1)
    assert_like_reference({"query": query, "key": key, "value": key}, neighborhood_of(form))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("layout", ["transposed", "expanded", "sliced", "strided", "reversed_axes"])
def test_tensors_that_are_not_contiguous(form, layout):
    """Every tensor is a view of what holds the numbers."""
    views = {
        "transposed": lambda n: draw(n, 2, 8, seed=n).transpose(0, 1),
        "expanded": lambda n: draw(1, n, 8, seed=n).expand(2, n, 8),
        "sliced": lambda n: draw(2, n, 24, seed=n)[..., 8:16],
        "strided": lambda n: draw(2, 2 * n, 16, seed=n)[:, ::2, ::2],
        "reversed_axes": lambda n: draw(8, n, 2, seed=n).permute(2, 1, 0),
    }
    make = views[layout]
    tensors = {"query": make(7), "key": make(9), "value": make(9)}
    if form == "edges":
        tensors |= {"edge_key": make(60), "edge_value": make(60), "bias": make(60)[..., 3]}
    else:
        tensors["bias"] = draw(2, 9, 7).transpose(-1, -2)
    assert not all(x.is_contiguous() for x in tensors.values())
    assert_like_reference(tensors, neighborhood_of(form))


@pytest.mark.parametrize("form", FORMS)
def test_one_projection_for_queries_keys_and_values(form):
    node = random_edges(60, 9, 9) if form == "edges" else Causal()
    fused = draw(9, 3 * 2 * 8)
    query, key, value = (x.unflatten(-1, (2, 8)).movedim(0, 1) for x in fused.chunk(3, -1))
    assert_like_reference({"query": query, "key": key, "value": value}, node, [fused])


@pytest.mark.parametrize("normalize", named(all_normalizers, "softmax", "sparsemax", "entmax15"), ids=lambda x: x.name)
def test_a_hub_among_nodes_with_few_edges_or_none(normalize):
    senders = torch.cat([torch.randint(19, (5000,), generator=generator()), torch.full((500,), 3), torch.arange(19)])
    receivers = torch.cat([torch.zeros(5000), torch.randint(11, (500,), generator=generator()), torch.arange(19) % 11])
    edges = Edges(senders, receivers.long(), 20, 12)
    tensors = {"query": draw(3, 12, 4), "key": draw(3, 20, 4, seed=1), "value": draw(20, 5), "bias": draw(3, 5519)}
    tensors |= {"edge_key": draw(5519, 4, seed=2), "edge_value": draw(3, 5519, 5, seed=3)}
    ours = run("numba", tensors, edges, normalize=normalize.make())
    theirs = run("gather", tensors, edges, normalize=normalize.make())
    for name, x in theirs.items():
        torch.testing.assert_close(ours[name], x, rtol=1e-9, atol=1e-9)
    assert (ours["out"][:, 11] == 0).all()


@pytest.mark.parametrize("shape", [(0, 3), (3, 0), (0, 0)], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_queries_without_keys(form, shape):
    num_queries, num_keys = shape
    nothing = torch.zeros(0, dtype=torch.int64)
    nobody = Edges(nothing, nothing, num_keys, num_queries) if form == "edges" else Full()
    tensors = {"query": draw(2, num_queries, 5), "key": draw(2, num_keys, 5), "value": draw(2, num_keys, 3)}
    assert_like_reference(tensors, nobody)
    assert_like_reference(tensors, nobody, score=GATv2(torch.ones(5, dtype=torch.float64)))


def test_plans_that_count_in_int64(monkeypatch):
    monkeypatch.setattr(plan_module, "INT32_LIMIT", 1)
    edges = random_edges()
    assert edges.plan.senders.dtype == torch.int64
    tensors = {"query": draw(2, 7, 5), "key": draw(2, 9, 5), "value": draw(2, 9, 3), "bias": draw(2, 60)}
    assert_like_reference(tensors, edges)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("score", [ScaledDot(), Constant(0.5)], ids=lambda score: type(score).__name__)
def test_only_what_wants_a_gradient_gets_one(form, score):
    tensors = {"query": draw(2, 7, 5), "key": draw(2, 9, 5), "value": draw(9, 3)}
    if form == "edges":
        tensors |= {"bias": draw(2, 60), "edge_key": draw(60, 5), "edge_value": draw(60, 3)}
    else:
        tensors["bias"] = draw(2, 7, 9)
    for name in set(tensors) - ({"query", "key", "edge_key"} if isinstance(score, Constant) else set()):
        some = {n: x.detach().requires_grad_(n == name) for n, x in tensors.items()}
        assert_like_reference(some, neighborhood_of(form), score=score)
    out = attend(**{n: x.detach() for n, x in tensors.items()}, neighborhood=neighborhood_of(form), backend="numba")
    assert not out.requires_grad


def test_half_of_the_tensors_may_be_held_for_inference():
    with torch.inference_mode():
        edges, x = random_edges(60, 9, 9), torch.randn(2, 9, 5)
        expected = attend(x, x, x, edges, backend="reference")
        torch.testing.assert_close(attend(x, x, x, edges, backend="numba"), expected)
    y = torch.randn(2, 9, 5, requires_grad=True)
    attend(y, y, y, edges, backend="numba").sum().backward()
    assert y.grad.isfinite().all()


@pytest.mark.parametrize(
    "dims", [(8, 9_000, 16, torch.float32), (1, 17_000, 128, torch.bfloat16), (1, 5_200, 104, torch.float64)], ids=str
)
def test_outputs_that_no_cache_holds(dims):
    """They are written past the caches where rows are whole lines, and are the same as a part of them alone."""
    num_heads, num_nodes, dim, dtype = dims
    senders = torch.randint(num_nodes, (2 * num_nodes,), generator=generator())
    receivers = torch.arange(num_nodes).repeat(2)
    edges, few = Edges(senders, receivers, num_nodes, num_nodes), slice(0, 500)
    query, key, value = (draw(num_heads, num_nodes, dim, dtype=dtype, seed=seed) for seed in range(3))
    out = attend(query, key, value, edges, backend="numba")
    within = receivers < few.stop
    part = Edges(senders[within], receivers[within], num_nodes, few.stop)
    assert torch.equal(attend(query[:, few], key, value, part, backend="numba"), out[:, few])
    cotangent = draw(num_heads, num_nodes, dim, dtype=dtype, seed=3).detach()
    gradients = torch.autograd.grad(out, [query, key, value], cotangent)
    by_gather = attend(query, key, value, edges, backend="gather")
    expected = torch.autograd.grad(by_gather, [query, key, value], cotangent)
    tolerance = 0.05 if dtype == torch.bfloat16 else 1e-4
    for own, other in zip(gradients, expected, strict=True):
        assert (own - other).abs().max() <= tolerance * other.abs().max()


@pytest.mark.parametrize(
    "score",
    [pytest.param(case, marks=() if case.name == "scaled_dot" else pytest.mark.nightly) for case in OWN_SCORES],
    ids=lambda case: case.name,
)
def test_gradients_are_the_same_bits_whether_weights_are_kept_or_computed_again(score, monkeypatch):
    """The two ways of the backward pass: few edges, and many."""
    tensors = {"query": draw(2, 7, 8), "key": draw(2, 9, 8, seed=1), "value": draw(2, 9, 8, seed=2)}
    tensors |= {"edge_key": draw(2, 60, 8, seed=3), "edge_value": draw(2, 60, 8, seed=4), "bias": draw(2, 60, seed=5)}
    sizes = {HEADS: 2, KEY_DIM: 8}
    parameters = [draw(*(sizes[size] for size in shape)) for shape in score.shapes]
    if score.positive:
        parameters = [(0.5 + x.detach().abs()).requires_grad_() for x in parameters]

    def gradients():
        torch.manual_seed(0)
        out = attend(
            **tensors, neighborhood=random_edges(), score=score.make(*parameters), dropout=0.3, backend="numba"
        )
        leaves = [*tensors.values(), *parameters]
        return torch.autograd.grad(out, leaves, draw(2, 7, 8, seed=6).detach(), allow_unused=True)

    kept = gradients()
    monkeypatch.setattr(edge_kernels, "MAX_SAVED_BYTES", 0)
    for one, other in zip(kept, gradients(), strict=True):
        assert (one is None) == (other is None)
        assert one is None or torch.equal(one, other)


ONE_GATHER_BY_DAY = [(1, torch.float32, 1), (5, torch.float32, 2)]
"""Heads, dtypes and threads: seven kernels are compiled for each dtype, and again for a team of threads."""
ONE_GATHER = itertools.product([1, 5, 8], [torch.float32, torch.float64, torch.bfloat16], [1, 2])


@pytest.mark.parametrize(
    ("num_heads", "dtype", "threads"),
    [pytest.param(*call, marks=() if call in ONE_GATHER_BY_DAY else pytest.mark.nightly) for call in ONE_GATHER],
    ids=str,
)
def test_one_wide_gather_an_edge_gives_the_same_bits_as_two(num_heads, dtype, threads, monkeypatch):
    """Scores of one number a head over many edges in many chunks: a hub, rows that edges share, weights dropped."""
    senders, receivers = torch.randint(70, (2, 1500), generator=generator(1))
    receivers[:600] = 3
    edges, rows = Edges(senders, receivers, 70, 70), EdgeRows(torch.randint(40, (1500,), generator=generator(2)), 40)
    shapes = {"query": (70, 16), "key": (70, 16), "value": (70, 24)}
    carried = {"edge_key": (40, 16), "edge_value": (40, 24)}
    tensors = {name: draw(num_heads, *shape, dtype=dtype, seed=seed) for seed, (name, shape) in
               enumerate((shapes | carried).items())}  # fmt: skip
    tensors["bias"] = draw(num_heads, 40, dtype=dtype, seed=7)
    vectors = [draw(num_heads, 16, dtype=dtype, seed=seed) for seed in (8, 9)]
    monkeypatch.setattr(edge_kernels, "CHUNK", 2000)
    monkeypatch.setattr(torch, "get_num_threads", lambda: threads)

    def gradients():
        torch.manual_seed(0)
        parts = {"score": GAT(*vectors), "edge_rows": rows, "dropout": 0.2}
        out = attend(**tensors, neighborhood=edges, **parts, backend="numba")
        return torch.autograd.grad(out.float().square().sum(), [*tensors.values(), *vectors])

    kept = gradients()
    monkeypatch.setattr(edge_kernels, "MAX_SAVED_BYTES", 0)
    for wide in (2**30, 0):
        monkeypatch.setattr(edge_kernels, "WIDE_ROW", wide)
        assert all(torch.equal(one, other) for one, other in zip(kept, gradients(), strict=True))
