"""The numba backend: what it takes, precision, gradients, dropout, any number of threads."""

import itertools
import math
import os
import subprocess
import sys

import pytest
import torch

from cases import all_normalizers, all_scores
from edgewise import (
    GAT,
    Additive,
    Bilinear,
    Causal,
    Cosine,
    Distance,
    Dot,
    Edges,
    Entmax15,
    Full,
    GATv2,
    Identity,
    Lengths,
    Mean,
    ScaledDot,
    Segments,
    Sigmoid,
    Softmax,
    Sparsemax,
    UnsupportedError,
    Window,
    aggregate,
    attend,
    why,
)
from edgewise.backends import numba
from edgewise.backends.call import checked_call
from edgewise.backends.numba import edge_kernels
from edgewise.backends.numba import threads as pool
from edgewise.score import DotProduct
from numba_cases import FORMS, draw, generator, neighborhood_of, random_edges, run
from test_attend import assert_within_budget


@pytest.fixture
def threads():
    """A function that sets the number of threads, which is what it was when the test ends."""
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


TAKEN = {
    "edges": random_edges(12, 4, 4),
    "full": Full(),
    "causal": Causal(),
    "window": Window(1, 1),
    "segments": Segments(torch.tensor([0, 1, 4])),
    "lengths": Lengths(torch.tensor([[3], [0]])),
    "intersection": Causal() & Lengths(torch.tensor([[3], [4]])),
}
OWN_SCORES = [case for case in all_scores if case.name != "own"]


def small_problem(neighborhood, score, normalize, dtype):
    tensors = {name: draw(2, 3, 4, 5, dtype=dtype, seed=n) for n, name in enumerate(("query", "key", "value"))}
    shape = (2, 3, 12) if isinstance(neighborhood, Edges) else (2, 3, 4, 4)
    tensors["bias"] = draw(*shape, dtype=dtype, seed=5)
    if isinstance(neighborhood, Edges):
        tensors |= {"edge_key": draw(2, 3, 12, 5, dtype=dtype), "edge_value": draw(2, 3, 12, 5, dtype=dtype)}
    made = [
        case.make(*[draw(*shape, dtype=dtype).abs() if case.positive else draw(*shape, dtype=dtype)
                    for shape in case.shapes])
        for case in (score, normalize)
    ]  # fmt: skip
    return tensors, {"score": made[0], "normalize": made[1]}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("name", TAKEN)
def test_every_score_with_every_normalizer_is_taken(name, dtype):
    neighborhood = TAKEN[name]
    for score, normalize in itertools.product(OWN_SCORES, all_normalizers):
        tensors, parts = small_problem(neighborhood, score, normalize, dtype)
        call = checked_call(
            "test", tensors["query"], tensors["key"], tensors["value"], neighborhood, *parts.values(),
            tensors["bias"], tensors.get("edge_key"), tensors.get("edge_value"), 0.1,
        )  # fmt: skip
        assert numba.refusals(call) == ()
        report = why(**tensors, neighborhood=neighborhood, **parts, dropout=0.1)
        dense = isinstance(parts["score"], DotProduct) and isinstance(parts["normalize"], Softmax)
        assert report.startswith("numba runs." if name == "edges" or not dense else ("numba runs.", "sdpa runs."))


@pytest.mark.parametrize("name", ["edges", "causal"])
@pytest.mark.parametrize("score", OWN_SCORES, ids=lambda case: case.name)
def test_every_score_with_every_normalizer_runs_in_float32(name, score):
    for normalize in all_normalizers:
        tensors, parts = small_problem(TAKEN[name], score, normalize, torch.float32)
        ours = run("numba", tensors, TAKEN[name], **parts)
        theirs = run("reference", tensors, TAKEN[name], **parts)
        for n, x in theirs.items():
            assert ours[n].dtype == torch.float32
            torch.testing.assert_close(ours[n], x, rtol=1e-3, atol=2e-4, msg=lambda text, n=n: f"{n}: {text}")


def test_a_callable_of_the_users_own_is_refused_in_words():
    def manhattan(query, key):
        return -(query - key).abs().sum(-1)

    x = torch.randn(4, 5)
    report = why(x, x, x, TAKEN["edges"], score=manhattan)
    assert report.startswith("gather runs.")
    assert "numba refuses: the score manhattan is not one of the library's" in report
    with pytest.raises(UnsupportedError, match="manhattan is not one of the library's"):
        attend(x, x, x, TAKEN["edges"], score=manhattan, backend="numba")


# Odd shapes.


@pytest.mark.parametrize(
    ("kind", "dtype"),
    [
        ("dot", torch.bfloat16),
        ("cosine", torch.bfloat16),
        # Each is compiled anew; in `test_attend.py` they run by day, with other sizes.
        *(pytest.param(kind, torch.bfloat16, marks=pytest.mark.nightly) for kind in ("gat", "gatv2", "additive")),
        pytest.param("laplacian", torch.bfloat16, marks=pytest.mark.nightly),
        pytest.param("dot", torch.float16, marks=pytest.mark.nightly),
    ],
    ids=str,
)
@pytest.mark.parametrize("form", FORMS)
def test_short_numbers_are_stored_and_float32_computed_with(form, kind, dtype):
    edges = random_edges(400, 40, 30)
    neighborhood = edges if form == "edges" else Causal()
    tensors = {"query": draw(4, 30, 16), "key": draw(4, 40, 16, seed=1), "value": draw(4, 40, 16, seed=2)}
    vectors = [draw(4, 16, seed=3), draw(4, 16, seed=4)]
    tensors, vectors = ({n: x.detach().to(dtype).requires_grad_() for n, x in tensors.items()},
                        [x.detach().to(dtype).requires_grad_() for x in vectors])  # fmt: skip

    def found(backend, numbers):
        own = {n: x.detach().to(numbers).requires_grad_() for n, x in tensors.items()}
        parameters = [x.detach().to(numbers).requires_grad_() for x in vectors]
        makes = {
            "dot": (ScaledDot, 0), "cosine": (Cosine, 0), "gat": (GAT, 2), "gatv2": (GATv2, 1),
            "additive": (Additive, 1), "laplacian": (lambda: Distance("laplacian"), 0),
        }  # fmt: skip
        make, count = makes[kind]
        return run(backend, own, neighborhood, parameters[:count], score=make(*parameters[:count]))

    ours, naive, truth = found("numba", dtype), found("gather", dtype), found("reference", torch.float64)
    for name, x in ours.items():
        assert x.dtype == dtype
        assert_within_budget(str(name), x, naive[name], truth[name])


GRADIENTS = {
    "dot": (Dot, 0),
    "gatv2": (GATv2, 1),
    "additive": (Additive, 1),
    "gelu": (lambda vector: Additive(vector, "gelu"), 1),
    "bilinear": (Bilinear, -1),
    "laplacian": (lambda: Distance("laplacian"), 0),
}


@pytest.mark.parametrize("kind", GRADIENTS)
@pytest.mark.parametrize("form", FORMS)
def test_gradients_are_those_of_finite_differences(form, kind):
    make, count = GRADIENTS[kind]
    neighborhood = random_edges(9, 4, 3) if form == "edges" else Causal()
    tensors = [draw(2, 3, 3, seed=1), draw(2, 4, 3, seed=2), draw(2, 4, 2, seed=3)]
    extras = [draw(2, 9), draw(9, 3), draw(2, 9, 2)] if form == "edges" else [draw(2, 3, 4)]
    names = ["query", "key", "value", "bias", "edge_key", "edge_value"][: 3 + len(extras)]
    parameters = {0: [], 1: [draw(2, 3, seed=9)], -1: [draw(2, 3, 3, seed=9)]}[count]

    def ours(*arguments):
        named_arguments, rest = dict(zip(names, arguments)), arguments[len(names) :]
        return attend(**named_arguments, neighborhood=neighborhood, score=make(*rest), backend="numba")

    assert torch.autograd.gradcheck(ours, (*tensors, *extras, *parameters))


# The same bits on any number of threads.


@pytest.mark.parametrize("score", ["dot", "gatv2"])
@pytest.mark.parametrize("form", FORMS)
def test_the_bits_do_not_depend_on_the_number_of_threads(form, score, threads, monkeypatch):
    monkeypatch.setattr(edge_kernels, "CHUNK", 2**12)
    neighborhood = random_edges(3000, 200, 150) if form == "edges" else Causal()
    shapes = {"query": (4, 150, 24), "key": (4, 200, 24), "value": (200, 24)}
    tensors = {name: draw(*shape, dtype=torch.float32, seed=n) for n, (name, shape) in enumerate(shapes.items())}
    extra = {"bias": (4, 3000), "edge_key": (3000, 24), "edge_value": (3000, 24)}
    extra = extra if form == "edges" else {"bias": (4, 150, 200)}
    tensors |= {name: draw(*shape, dtype=torch.float32) for name, shape in extra.items()}
    parameters = [draw(4, 24, dtype=torch.float32)] if score == "gatv2" else []
    part = GATv2(*parameters) if parameters else ScaledDot()
    pieces = []
    whole = pool.threads_for
    monkeypatch.setattr(pool, "threads_for", lambda num_chunks: (pieces.append(num_chunks), whole(num_chunks))[1])
    found = {}
    for count in (1, 2, 3, 8):
        threads(count)
        torch.manual_seed(0)
        found[count] = run("numba", tensors, neighborhood, parameters, score=part, dropout=0.3)
    assert min(pieces) >= 8
    for count in (2, 3, 8):
        assert [name for name, x in found[1].items() if not torch.equal(x, found[count][name])] == []


# Dropout.


@pytest.mark.parametrize("form", FORMS)
def test_dropout_drops_the_same_weights_in_both_directions(form):
    num_queries, num_keys, rate = 40, 30, 0.4
    pairs = Full() if form == "ranges" else Full().to_edges(num_queries, num_keys)
    query, key = draw(3, num_queries, 4), draw(3, num_keys, 4, seed=1)
    value = torch.eye(num_keys, dtype=torch.float64).expand(3, -1, -1).clone().requires_grad_()
    torch.manual_seed(0)
    weights = attend(query, key, value, pairs, dropout=rate, backend="numba")
    probe = torch.randn(weights.shape, dtype=torch.float64, generator=generator())
    gradients = torch.autograd.grad((weights * probe).sum(), (query, key, value))
    plain = torch.softmax(query @ key.mT / 2, -1)
    factors = (weights / plain).detach()
    kept = factors > 0.5
    torch.testing.assert_close(factors, kept.double() / (1 - rate))
    assert abs(float(kept.double().mean()) - (1 - rate)) < 4 * math.sqrt(rate * (1 - rate) / kept.numel())
    expected = torch.autograd.grad((plain * factors @ value * probe).sum(), (query, key, value))
    torch.testing.assert_close(gradients, expected)
    for head, other in itertools.combinations(range(3), 2):
        assert 0.3 < (kept[head] == kept[other]).double().mean() < 0.7
    assert 0.3 < (kept[:, 0] == kept[:, 1]).double().mean() < 0.75
    assert 0.3 < (kept[..., 0] == kept[..., 1]).double().mean() < 0.75


@pytest.mark.parametrize("form", FORMS)
def test_dropout_comes_from_the_seed_of_torch(form):
    tensors = {"query": draw(2, 7, 5), "key": draw(2, 9, 5), "value": draw(2, 9, 3)}
    found = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        found.append(attend(**tensors, neighborhood=neighborhood_of(form), dropout=0.5, backend="numba"))
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
    again = attend(**tensors, neighborhood=neighborhood_of(form), dropout=0.5, backend="numba")
    assert not torch.equal(found[2], again)


@pytest.mark.parametrize("form", FORMS)
def test_dropout_keeps_the_mean(form):
    pairs = random_edges(60, 9, 7) if form == "edges" else Full()
    tensors = {"query": draw(2000, 7, 2), "key": draw(9, 2), "value": draw(9, 2)}
    torch.manual_seed(0)
    dropped = attend(**tensors, neighborhood=pairs, normalize=Sparsemax(), dropout=0.5, backend="numba")
    whole = attend(**tensors, neighborhood=pairs, normalize=Sparsemax(), backend="numba")
    torch.testing.assert_close(dropped.mean(0), whole.mean(0), rtol=0.0, atol=0.15)


def test_evaluating_first_does_not_hinder_training():
    """What is remembered of a shape of call must not be a tensor of inference mode."""
    x, edges = torch.randn(5, 3, 11, 8), Edges(torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3]), 11, 11)
    with torch.inference_mode():
        expected = attend(x, x, x, edges, backend="numba")
    leaf = x.clone().requires_grad_()
    out = attend(leaf, leaf, leaf, edges, backend="numba")
    out.sum().backward()
    assert torch.equal(out.detach(), expected.clone())


def test_transforms_of_torch_func_go_to_another_backend():
    x, edges = torch.randn(4, 5, 8), random_edges(12, 5, 5)
    found = torch.func.grad(lambda x: attend(x, x, x, edges).square().sum())(x)
    leaf = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(attend(leaf, leaf, leaf, edges, backend="numba").square().sum(), leaf)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(torch.func.vmap(lambda x: attend(x, x, x, edges))(x), attend(x, x, x, edges))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("normalize", [Mean(), Softmax(float("inf"))], ids=["mean", "infinite"])
def test_weights_that_do_not_look_at_the_score_have_the_batch_axes_of_its_fields(form, normalize):
    tensors = {"query": draw(7, 2), "key": draw(9, 2), "value": draw(9, 3)}
    for score in (GATv2(draw(3, 1, 2)), GAT(draw(3, 1, 2), draw(4, 2)), Distance(length=torch.ones(4))):
        out = attend(**tensors, neighborhood=neighborhood_of(form), score=score, normalize=normalize, backend="numba")
        theirs = attend(
            **tensors, neighborhood=neighborhood_of(form), score=score, normalize=normalize, backend="gather"
        )
        torch.testing.assert_close(out, theirs)


@pytest.mark.parametrize("batch", [(0,), (2, 0)], ids=str)
def test_a_batch_of_none(batch):
    value, vector = draw(*batch, 9, 3), draw(3)
    for score in (GATv2(vector), GAT(vector, vector), GATv2(draw(*batch, 3))):
        out = attend(value[..., :7, :], value, value, random_edges(), score=score, backend="numba")
        assert out.shape == (*batch, 7, 3)
        assert torch.autograd.grad(out.sum(), value)[0].shape == value.shape
    out = aggregate(value, random_edges(), "max", backend="numba")
    assert out.shape == (*batch, 7, 3)
    assert torch.autograd.grad(out.sum(), value)[0].shape == value.shape


def test_without_a_compiler_the_kernels_refuse_in_words():
    """numba reads the variable when it is imported: in a process of its own."""
    program = (
        "import torch\n"
        "from edgewise import Edges, aggregate, attend, why\n"
        "x, edges = torch.randn(3, 4), Edges([0, 1, 2], [0, 0, 1], 3, 3)\n"
        "assert attend(x, x, x, edges).shape == aggregate(x, edges, 'max').shape == x.shape\n"
        "print(why(x, x, x, edges))\n"
    )
    options = {"env": os.environ | {"NUMBA_DISABLE_JIT": "1"}, "capture_output": True, "text": True, "check": True}
    printed = subprocess.run([sys.executable, "-c", program], **options).stdout
    assert printed.startswith("gather runs.")
    assert "numba refuses: NUMBA_DISABLE_JIT is set, so that numba compiles nothing; unset it." in printed


def test_few_pairs_of_a_batch_of_none():
    none = torch.zeros(0, dtype=torch.int64)
    x = torch.randn(0, 5, 4)
    assert attend(x, x, x, Lengths(none, none) & Window(1, 2, "start")).shape == (0, 5, 4)


@pytest.mark.parametrize("neighborhood", [Full(), Full().to_edges(5)], ids=["ranges", "edges"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_vector_whose_numbers_lie_apart(neighborhood, dtype):
    x, every_other = torch.randn(3, 5, 8, dtype=dtype), torch.randn(3, 16, dtype=dtype)[:, ::2]
    for score in (GATv2(every_other), Additive(every_other, "relu"), Additive(every_other)):
        out, judge = (attend(x, x, x, neighborhood, score=score, backend=name) for name in ("numba", "reference"))
        torch.testing.assert_close(out, judge)


@pytest.mark.parametrize(("dtype", "end"), [(torch.float32, 100.0), (torch.float64, 720.0)], ids=str)
@pytest.mark.parametrize("function", ["weights", "sigmoid", "silu", "gelu", "tanh"])
def test_functions_of_scores_are_right_wherever_numbers_end(function, dtype, end):
    """e⁸⁸·⁶ is a number, whose power of two is not: a gate at −88.6 was NaN, and so was the training."""
    x = torch.cat([torch.linspace(-end, end, 20_001, dtype=dtype), torch.tensor([-1e30, 1e30], dtype=dtype)])
    x = x.unsqueeze(1).requires_grad_()
    one, itself = torch.ones_like(x), Edges(*[torch.arange(len(x))] * 2, len(x), len(x))
    if function == "weights":
        out, truth = attend(x, one, one, itself, normalize=Sigmoid(), backend="numba"), torch.sigmoid(x)
    else:
        score = Additive(torch.ones(1, dtype=dtype), function)
        out = attend(x, 0 * one, one, itself, score=score, normalize=Identity(), backend="numba")
        truth = getattr(torch, function, getattr(torch.nn.functional, function, None))(x)
    least = 2e-6 if function == "gelu" else end * torch.finfo(dtype).tiny  # what is denormal may be 0
    torch.testing.assert_close(out, truth, atol=least, rtol=1e-5)
    for found, expected in zip(torch.autograd.grad(out.sum(), x), torch.autograd.grad(truth.sum(), x), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize("backend", ["numba", "gather"])
@pytest.mark.parametrize("normalize", [Sparsemax(), Entmax15()], ids=["sparsemax", "entmax15"])
@pytest.mark.parametrize("over_edges", [True, False])
def test_weights_of_many_equal_scores_sum_to_one(normalize, backend, over_edges):
    """One larger score beside many equal ones, as of a loop or of padding: they added up to 500."""
    for count in (130, 2001, 5001):
        gaps = torch.cat([torch.linspace(0.005, 0.995, 199), torch.tensor([1 - 1e-6])])
        scores = -gaps.unsqueeze(1).repeat(1, count) * (2 if isinstance(normalize, Entmax15) else 1)
        scores[:, 0] = 0
        values = torch.stack([torch.ones(count), torch.linspace(-1, 1, count)], dim=1)
        given = {"score": Dot(), "normalize": normalize, "backend": backend}
        neighborhood, bias = Full(), scores
        if over_edges:
            neighborhood, bias = Full().to_edges(len(scores), count), scores.flatten()
        out = attend(torch.zeros(len(scores), 1), torch.zeros(count, 1), values, neighborhood, bias=bias, **given)
        exact = attend(
            torch.zeros(len(scores), 1).double(), torch.zeros(count, 1).double(), values.double(), bias=scores.double(),
            score=Dot(), normalize=normalize, backend="reference",
        )  # fmt: skip
        torch.testing.assert_close(exact[:, 0], torch.ones(len(scores)).double())
        torch.testing.assert_close(out.double(), exact, atol=1e-3, rtol=0)


@pytest.mark.parametrize("bad", [torch.nan, torch.inf])
def test_a_bias_outside_the_neighborhood_spoils_no_temperature(bad):
    x, temperature = torch.randn(5, 4), torch.tensor(2.0, requires_grad=True)
    bias = torch.zeros(5, 5).masked_fill(~Causal().to_mask(5), bad)
    found = [
        torch.autograd.grad(
            attend(x, x, x, Causal(), normalize=Softmax(temperature), bias=bias, backend=name).square().sum(),
            temperature,
        )[0]
        for name in ("numba", "reference")
    ]
    assert found[1].isfinite()
    torch.testing.assert_close(*found)


@pytest.mark.parametrize("name", ["edges", "window"])
def test_zeros_without_memory_are_zeros(name):
    """torch holds the gradients and tangents that nothing gave in no memory: a kernel would read from address 0."""
    neighborhood, shape = TAKEN[name], (4, 5)
    plain = {part: draw(*shape, dtype=torch.float32, seed=n) for n, part in enumerate(("query", "key", "value"))}
    for part in plain:
        held, zeros = ({**plain, part: x} for x in (torch._efficientzerotensor(shape), torch.zeros(shape)))
        out, wanted = (attend(**x, neighborhood=neighborhood, backend="numba") for x in (held, zeros))
        torch.testing.assert_close(out, wanted)
    for how in ("sum", "mean", "max"):
        out = aggregate(torch._efficientzerotensor(shape), neighborhood, how)
        assert torch.equal(out, torch.zeros(shape))

    value = plain["value"].requires_grad_()
    for out in (attend(**plain, neighborhood=neighborhood, backend="numba"), aggregate(value, neighborhood)):
        assert torch.equal(torch.autograd.grad(out, value, torch._efficientzerotensor(shape))[0], torch.zeros(shape))
