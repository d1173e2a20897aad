"""The oracle judges the reference; the reference judges every backend: values and gradients."""

import itertools
from contextlib import suppress
from functools import cache

import pytest
import torch
from torch import Tensor

from cases import (
    PartCase,
    all_backends,
    all_neighborhoods,
    all_normalizers,
    all_scores,
    crossed,
    in_case,
    label,
    named,
    problem,
)
from edgewise import (
    GAT,
    Additive,
    Bilinear,
    Causal,
    Constant,
    Distance,
    Edges,
    Full,
    GATv2,
    Lengths,
    Mask,
    Mean,
    ScaledDot,
    Sigmoid,
    Softmax,
    UnsupportedError,
    Window,
    aggregate,
    attend,
)
from edgewise.backends import BY_NAME, gather
from edgewise.backends.call import checked_call

FASTER = [name for name in all_backends if name != "reference"]


TRIPLES: dict[str, list] = {}
"""Neighborhood, score and normalizer, by the name of the neighborhood: a test goes through all that have one."""
for triple in crossed():
    TRIPLES.setdefault(triple[0].name, []).append(triple)


@pytest.mark.parametrize("neighborhood", TRIPLES)
def test_the_reference_says_what_two_plain_loops_say(neighborhood):
    for triple in TRIPLES[neighborhood]:
        with in_case(label(triple)):
            task = problem(*triple)
            out = attend(**task.arguments, backend="reference").detach()
            torch.testing.assert_close(out, task.solution(), rtol=1e-10, atol=1e-10)


@cache
def solved_by_the_reference(neighborhood: str) -> list:
    """The problems of a neighborhood, with the output and gradients of the reference."""
    return [(label(triple), problem(*triple), problem(*triple).run("reference")) for triple in TRIPLES[neighborhood]]


@pytest.mark.parametrize("backend", FASTER)
@pytest.mark.parametrize("neighborhood", TRIPLES)
def test_a_backend_says_what_the_reference_says(neighborhood, backend):
    for name, task, (expected, expected_gradients) in solved_by_the_reference(neighborhood):
        with in_case(name):
            if refuses(backend, task):
                with pytest.raises(UnsupportedError, match=f"backend '{backend}' refuses this call: .+"):
                    task.run(backend)
                continue
            out, gradients = task.run(backend)
            torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)
            for leaf, gradient in gradients.items():
                torch.testing.assert_close(gradient, expected_gradients[leaf], rtol=1e-8, atol=1e-8)


@pytest.mark.parametrize("layout", ["bare", "deep"])
@pytest.mark.parametrize("neighborhood", all_neighborhoods, ids=lambda case: case.name)
def test_every_batch_axis_is_in_the_output_whatever_the_neighborhood_forbids(neighborhood, layout):
    """Batch axes that only the neighborhood, the score or the normalizer has; and one that none of these has."""
    scores = named(all_scores, "scaled_dot", "gat", "constant", "own")
    for score, normalize in itertools.product(scores, named(all_normalizers, "softmax", "mean")):
        task = problem(neighborhood, score, normalize, layout=layout)
        expected, expected_gradients = task.run("reference")
        assert expected.shape[:-2] == task.batch
        solution = task.solution()
        torch.testing.assert_close(expected.expand_as(solution), solution, rtol=1e-10, atol=1e-10)
        for backend in FASTER:
            if refuses(backend, task):
                continue
            out, gradients = task.run(backend)
            torch.testing.assert_close(out, expected, rtol=1e-9, atol=1e-9)
            for name, gradient in gradients.items():
                torch.testing.assert_close(gradient, expected_gradients[name], rtol=1e-8, atol=1e-8)


def refuses(backend, task):
    arguments = task.arguments
    names = ("query", "key", "value", "neighborhood", "score", "normalize", "bias", "edge_key", "edge_value")
    call = checked_call("test", *(arguments.get(name) for name in names), 0.0)
    return bool(BY_NAME[backend].refusals(call))


PRECISE = [
    (*pair, *named(all_normalizers, "softmax"))
    for neighborhood in named(all_neighborhoods, "causal_lengths_decoding", "mask_per_member", "edges")
    for pair in ((neighborhood, score) for score in all_scores)
]
DTYPES = [torch.float32, torch.bfloat16, torch.float16]


IN_HALF_PRECISION = {torch.bfloat16: ["scaled_dot", "dot", "cosine", "bilinear"], torch.float16: []}
"""Scores that the kernels of numba are compiled for by day: one kernel serves all of these. Whatever the score,
the same two functions read and write numbers of half precision, and compiling each kernel takes seconds."""


OTHER_ACTIVATIONS = ["additive_relu", "additive_sigmoid", "additive_silu", "additive_gelu"]
BY_NIGHT_IN_FLOAT32 = {"causal_lengths_decoding": ["constant", *OTHER_ACTIVATIONS], "edges": OTHER_ACTIVATIONS}
"""Scores that kernels are compiled for in single precision by night only: each has a kernel of its own, which calls the
same function as in double precision, and differs by one activation from that of `additive_tanh`."""


def marks_of(backend, score, dtype, neighborhood=None):
    """By night, what is compiled for it proves nothing of its own."""
    is_costly = score in BY_NIGHT_IN_FLOAT32.get(neighborhood, [])
    by_night = backend == "numba" and (is_costly or score not in IN_HALF_PRECISION.get(dtype, [score]))
    return [pytest.mark.nightly] if by_night else []


@pytest.mark.parametrize(
    ("backend", "triple", "dtype"),
    [
        pytest.param(name, triple, dtype, marks=marks_of(name, triple[1].name, dtype, triple[0].name))
        for name in all_backends
        for triple in PRECISE
        if not refuses(name, problem(*triple))
        for dtype in DTYPES
    ],
    ids=lambda x: label(x) if isinstance(x, tuple) else str(x),
)
def test_the_error_is_at_most_twice_that_of_plain_torch_in_the_same_precision(triple, backend, dtype):
    task = problem(*triple).to(dtype)
    out, gradients = task.run(backend)
    truth, true_gradients = task.to(torch.float64).run("reference")
    naive, naive_gradients = task.differentiate(plain_attention(task))
    assert out.dtype == dtype
    assert_within_budget("output", out, naive, truth)
    for name, gradient in gradients.items():
        assert gradient.dtype == dtype
        assert_within_budget(name, gradient, naive_gradients[name], true_gradients[name])


def assert_within_budget(name: str, ours: Tensor, naive: Tensor, truth: Tensor) -> None:
    # Beside the budget: one rounding of the result, and the noise of adding up some thirty numbers in float32.
    digits = torch.finfo(ours.dtype).eps + 32 * torch.finfo(torch.float32).eps * (ours.dtype == torch.float32)
    noise = digits * max(float(truth.abs().max()), 1.0)
    error, budget = float((ours - truth).abs().max()), 2 * float((naive - truth).abs().max()) + noise
    assert error <= budget, f"{name}: error {error:.3g}, allowed {budget:.3g}"


def plain_attention(task) -> Tensor:
    """Softmax attention as it is usually written in torch, every step in the precision of the inputs."""
    arguments, neighborhood = task.arguments, task.case[0].neighborhood
    query, key, value = (arguments[name] for name in ("query", "key", "value"))
    value = value.expand(2, *value.shape)
    if isinstance(neighborhood, Edges):
        mask = torch.arange(query.shape[-2])[:, None] == neighborhood.receivers
        key = key[..., neighborhood.senders, :] + arguments["edge_key"]
        value = value[..., neighborhood.senders, :] + arguments["edge_value"]
        bias = arguments["bias"].unsqueeze(-2)
    else:
        mask, bias = neighborhood.to_mask(query.shape[-2], key.shape[-2]), arguments["bias"]
    scores = arguments["score"](query.movedim(-2, 0).unsqueeze(1), key.movedim(-2, 0).unsqueeze(0))
    scores = scores.movedim((0, 1), (-2, -1)) + bias
    return torch.softmax(scores.masked_fill(~mask, -torch.inf), -1).nan_to_num(0.0) @ value


@pytest.mark.parametrize("backend", all_backends)
def test_a_single_query_attends_over_batched_keys(backend):
    query, key, value = torch.randn(5), torch.randn(2, 3, 7, 5), torch.randn(3, 7, 4)
    out = attend(query, key, value, backend=backend)
    assert out.shape == (2, 3, 4)
    torch.testing.assert_close(out, attend(query.expand(2, 3, 1, 5), key, value, backend="reference").squeeze(-2))


@pytest.mark.parametrize("backend", all_backends)
@pytest.mark.parametrize(
    "shape", [(), (1, 1), (7, 9), (3, 7, 9), (1, 1, 7, 9), (2, 1, 7, 9), (2, 3, 1, 9), (3, 7, 1), (9,), (1, 9)]
)
def test_a_bias_of_any_shape_that_broadcasts(backend, shape):
    query, key, value = torch.randn(2, 3, 7, 5), torch.randn(2, 3, 9, 5), torch.randn(2, 3, 9, 4)
    bias = torch.randn(shape if shape else (1,), requires_grad=True)
    out = attend(query, key, value, bias=bias, backend=backend)
    full = bias.detach().expand(2, 3, 7, 9).clone().requires_grad_()
    expected = attend(query, key, value, bias=full, backend="reference")
    torch.testing.assert_close(out, expected)
    probe = torch.randn_like(out)
    (gradient,) = torch.autograd.grad((out * probe).sum(), bias)
    (full_gradient,) = torch.autograd.grad((expected * probe).sum(), full)
    torch.testing.assert_close(gradient, full_gradient.sum_to_size(bias.shape), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", all_backends)
def test_fields_with_more_batch_axes_than_the_tensors_give_the_output_these_axes(backend):
    query, key, value = torch.randn(4, 5), torch.randn(6, 5), torch.randn(6, 3)
    weight = torch.randn(2, 3, 5, 5)
    out = attend(query, key, value, score=Bilinear(weight), backend=backend)
    assert out.shape == (2, 3, 4, 3)
    torch.testing.assert_close(out[1, 2], attend(query, key, value, score=Bilinear(weight[1, 2]), backend="reference"))


@pytest.mark.parametrize("backend", ["reference", "gather"])
@pytest.mark.parametrize("table", [True, False], ids=["table", "edges"])
def test_fields_of_every_part_with_more_batch_axes_than_the_tensors(backend, table):
    query, key, value = torch.randn(4, 5), torch.randn(6, 5), torch.randn(6, 3)
    neighborhood = Full() if table else Full().to_edges(4, 6)
    vector, temperature, length = torch.randn(2, 3, 5), torch.rand(2, 3) + 0.5, torch.rand(2, 1) + 0.5
    parts = [
        (lambda at: Additive(vector[at]), Softmax()),
        (lambda at: GAT(vector[at], vector[1, 2]), Softmax()),
        (lambda at: ScaledDot(), Softmax(temperature)),
        (lambda at: Distance("laplacian", length[at] if at == ... else length[at[0], 0]), Sigmoid()),
    ]
    for score, normalize in parts:
        out = attend(query, key, value, neighborhood, score=score(...), normalize=normalize, backend=backend)
        one = Softmax(temperature[1, 2]) if isinstance(normalize, Softmax) and out.shape[1] == 3 else normalize
        if isinstance(normalize, Softmax) and not isinstance(normalize.temperature, Tensor):
            one = normalize
        expected = attend(query, key, value, neighborhood, score=score((1, 2)), normalize=one, backend="reference")
        torch.testing.assert_close(out[1, -1], expected)


@pytest.mark.parametrize("backend", all_backends)
@pytest.mark.parametrize("zero", ["batch", "query", "key", "key_dim", "value_dim"])
def test_sizes_of_zero_pass_through(backend, zero):
    sizes = {"batch": 2, "query": 3, "key": 4, "key_dim": 6, "value_dim": 5} | {zero: 0}
    query = torch.randn(sizes["batch"], 2, sizes["query"], sizes["key_dim"], requires_grad=True)
    key = torch.randn(sizes["batch"], 2, sizes["key"], sizes["key_dim"], requires_grad=True)
    value = torch.randn(sizes["batch"], 2, sizes["key"], sizes["value_dim"], requires_grad=True)
    for neighborhood in (
        Full(),
        Causal(),
        Causal("start"),
        Window(1, 1),
        Lengths(torch.tensor([[2], [1]])[: sizes["batch"]]),
    ):
        out = attend(query, key, value, neighborhood, backend=backend)
        assert out.shape == (sizes["batch"], 2, sizes["query"], sizes["value_dim"])
        torch.testing.assert_close(out, attend(query, key, value, neighborhood, backend="reference"))
        assert (out == 0).all() or zero not in ("key",)
        for gradient in torch.autograd.grad(out.sum(), (query, key, value)):
            assert gradient.isfinite().all()


@pytest.mark.parametrize("backend", ["reference", "gather"])
def test_zero_edges_with_features_and_a_batch_of_none(backend):
    none = torch.zeros(0, dtype=torch.int64)
    for batch in ((), (3,), (0,), (0, 2)):
        query, key, value = (torch.randn(*batch, n, 4, requires_grad=True) for n in (3, 5, 5))
        edge_key, edge_value = torch.randn(*batch, 0, 4), torch.randn(0, 4)
        out = attend(
            query, key, value, Edges(none, none, 5, 3), bias=torch.randn(0), edge_key=edge_key, edge_value=edge_value,
            backend=backend,
        )  # fmt: skip
        assert out.shape == (*batch, 3, 4)
        assert (out == 0).all()
        assert all((g == 0).all() for g in torch.autograd.grad(out.sum(), (query, key, value), materialize_grads=True))


def test_a_transform_of_torch_func_over_tables_and_temperatures():
    x, masks, temperatures = torch.randn(4, 5, 3), torch.rand(4, 1, 5) < 0.5, torch.rand(4) + 0.5
    for score in (ScaledDot(), Additive(torch.randn(3))):
        out = torch.func.vmap(lambda x, m, t, s=score: attend(x, x, x, Mask(m), score=s, normalize=Softmax(t)))(
            x, masks, temperatures
        )
        torch.testing.assert_close(
            out, attend(x, x, x, Mask(masks), score=score, normalize=Softmax(temperatures), backend="reference")
        )


@pytest.mark.parametrize("backend", all_backends)
def test_one_feature_and_one_key(backend):
    query, key, value = torch.randn(3, 4, 1), torch.randn(3, 1, 1), torch.randn(3, 1, 1)
    torch.testing.assert_close(attend(query, key, value, backend=backend), value.expand(3, 4, 1))


@pytest.mark.parametrize("backend", all_backends)
def test_inputs_that_are_views_of_other_tensors(backend):
    projected = torch.randn(2, 7, 3, 3, 4)  # (member, node, what, head, dim)
    query, key, value = projected.movedim(2, 0).transpose(-2, -3)
    assert not query.is_contiguous()
    flipped = torch.randn(4, 7).T.flip(0)
    for q, k, v in ((query, key, value), (query, flipped, value.flip(-1)), (query[..., ::2], key[..., ::2], value)):
        copies = [x.contiguous() for x in (q, k, v)]
        for neighborhood in (Full(), Causal(), Mask(torch.rand(7, 7) < 0.5)):
            if backend == "numba" and isinstance(neighborhood, Mask):
                continue  # refused
            out = attend(q, k, v, neighborhood, backend=backend)
            torch.testing.assert_close(out, attend(*copies, neighborhood, backend="reference"))


@pytest.mark.parametrize("backend", all_backends)
def test_keys_shared_by_groups_of_heads(backend):
    query, key, value = torch.randn(2, 2, 3, 5, 4), torch.randn(2, 2, 1, 6, 4), torch.randn(2, 2, 1, 6, 4)
    out = attend(query, key, value, backend=backend)
    repeated = [x.expand(-1, -1, 3, -1, -1).flatten(1, 2) for x in (key, value)]
    torch.testing.assert_close(out.flatten(1, 2), attend(query.flatten(1, 2), *repeated, backend="reference"))


@pytest.mark.parametrize("backend", ["reference", "gather"])
@pytest.mark.parametrize("table", [True, False], ids=["table", "edges"])
@pytest.mark.parametrize("score", all_scores, ids=lambda case: case.name)
def test_gradients_are_those_of_finite_differences(backend, table, score):
    neighborhood = named(all_neighborhoods, "causal_more_keys" if table else "edges")[0]
    task = problem(neighborhood, score, all_normalizers[0])
    assert_gradients(task, backend)


@pytest.mark.parametrize("backend", ["reference", "gather"])
@pytest.mark.parametrize("table", [True, False], ids=["table", "edges"])
@pytest.mark.parametrize("normalize", all_normalizers, ids=lambda case: case.name)
def test_gradients_of_every_normalizer_are_those_of_finite_differences(backend, table, normalize):
    if normalize.name == "hardmax_straight_through":
        pytest.skip("its gradient is another's on purpose")
    neighborhood = named(all_neighborhoods, "causal_more_keys" if table else "edges")[0]
    assert_gradients(problem(neighborhood, all_scores[0], normalize), backend)


def assert_gradients(task, backend):
    names = list(task.leaves)

    def run(*leaves):
        found = dict(zip(names, leaves))
        changed = type(task)(
            task.case,
            {name: found[name] for name in task.tensors},
            tuple(found[f"score.{n}"] for n in range(len(task.score_parameters))),
            tuple(found[f"normalize.{n}"] for n in range(len(task.normalize_parameters))),
        )
        return attend(**changed.arguments, backend=backend)

    assert torch.autograd.gradcheck(run, tuple(task.leaves.values()), fast_mode=True)


def test_a_straight_through_hardmax_has_the_gradient_of_softmax():
    for name in ("causal_more_keys", "edges"):
        neighborhood = named(all_neighborhoods, name)[0]
        hard = problem(neighborhood, all_scores[0], named(all_normalizers, "hardmax_straight_through")[0])
        soft = type(hard)((*hard.case[:2], all_normalizers[0]), *list(vars(hard).values())[1:])
        for leaf in ("query", "key", "bias"):
            torch.testing.assert_close(hard.run("gather")[1][leaf], soft.run("gather")[1][leaf])


@pytest.mark.parametrize("triple", crossed(few=True), ids=label)
def test_many_blocks_say_what_one_block_says(triple, monkeypatch):
    task = problem(*triple)
    out, gradients = task.run("gather")
    monkeypatch.setattr(gather, "SLICE", 16)
    blocked, blocked_gradients = task.run("gather")
    torch.testing.assert_close(blocked, out, rtol=1e-10, atol=1e-10)
    for name, gradient in gradients.items():
        torch.testing.assert_close(blocked_gradients[name], gradient, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("size", [16, gather.SLICE], ids=["blocks", "one_block"])
@pytest.mark.parametrize("how", ["table", "edges", "largest", "largest_over_edges", "parameter", "mask"])
def test_what_changes_in_place_before_the_gradient_is_refused_as_by_torch(how, size, monkeypatch):
    """Blocks that are computed again read what the tensors hold by then: the gradients were wrong without a word."""
    monkeypatch.setattr(gather, "SLICE", size)
    weight, vector = torch.randn(12, 4, requires_grad=True), torch.randn(4, requires_grad=True)
    mask = torch.rand(12, 12) < 0.6
    table = Mask(mask)

    def gradient(in_place):
        x, by_mask = weight * 1.0, Mask(mask.clone())
        if how.startswith("largest"):
            out = aggregate(x, table.to_edges() if how.endswith("edges") else table, "max", backend="gather")
        else:
            score = GATv2(vector) if how == "parameter" else lambda q, k: -(q - k).abs().sum(-1)
            neighborhood = table.to_edges() if how == "edges" else by_mask
            out = attend(x, x, x, neighborhood, score=score, backend="gather")
        with torch.no_grad():
            if in_place:
                changed = {"parameter": vector, "mask": by_mask.mask}.get(how, x)
                changed.copy_(~changed if how == "mask" else changed + 1)
        return torch.autograd.grad(out.square().sum(), weight)[0]

    expected = gradient(in_place=False)
    # Of one block, torch may have saved all that the gradient needs, apart from the tensors that change.
    refused = pytest.raises(RuntimeError, match="modified by an inplace operation")
    with refused if size == 16 else suppress(RuntimeError):
        torch.testing.assert_close(gradient(in_place=True), expected)


def test_what_a_gradient_does_not_read_may_change_in_place(monkeypatch):
    """x += the mean of its neighbors: the gradient reads the neighborhood alone."""
    monkeypatch.setattr(gather, "SLICE", 16)
    weight, table = torch.randn(12, 4, requires_grad=True), Mask(torch.rand(12, 12) < 0.6)
    for score in (Constant(0.5), lambda q, k: -(q - k).abs().sum(-1)):
        x, y = weight * 1.0, weight * 1.0
        x += attend(x, x, x, table, score=score, normalize=Mean(), backend="gather")
        y = y + attend(y, y, y, table, score=score, normalize=Mean(), backend="gather")
        ours, expected = (torch.autograd.grad(z.square().sum(), weight)[0] for z in (x, y))
        torch.testing.assert_close(ours, expected)


@pytest.mark.parametrize("neighborhood", ["mask", "edges"])
def test_transforms_of_torch_func_over_many_blocks(neighborhood, monkeypatch):
    """They allow no computing again, and failed in torch."""
    monkeypatch.setattr(gather, "SLICE", 16)
    table = Mask(torch.rand(6, 6) < 0.6)
    pairs = table if neighborhood == "mask" else table.to_edges()
    x = torch.randn(6, 2, dtype=torch.float64)

    def energy(x):
        return attend(x, 0.5 * x, x.sin(), pairs, backend="gather").square().sum() + aggregate(x, pairs, "max").sum()

    leaf = x.clone().requires_grad_()
    (expected,) = torch.autograd.grad(energy(leaf), leaf)
    torch.testing.assert_close(torch.func.grad(energy)(x), expected)
    torch.testing.assert_close(torch.func.jacrev(energy)(x), expected)
    torch.testing.assert_close(torch.func.vmap(torch.func.grad(energy))(torch.stack([x, x]))[1], expected)
    torch.testing.assert_close(torch.func.hessian(energy)(x), torch.autograd.functional.hessian(energy, x))

    stack = torch.stack([x, 2 * x]).requires_grad_()
    (mapped,) = torch.autograd.grad(torch.func.vmap(energy)(stack).sum(), stack)
    torch.testing.assert_close(mapped[0], expected)


@pytest.mark.parametrize(
    ("half", "score", "backend"),
    [
        pytest.param(half, score, name, marks=marks_of(name, score.name, half))
        for half in (torch.float32, torch.bfloat16)
        for score in all_scores
        if score.shapes
        for name in all_backends
    ],
    ids=lambda x: x.name if isinstance(x, PartCase) else str(x),
)
def test_parameters_of_another_precision_than_the_tensors(backend, score, half):
    """Parameters in float32 beside tensors in bfloat16 are how mixed precision trains."""
    for name in ("causal_more_keys", "edges"):
        for normalize in named(all_normalizers, "softmax", "softmax_per_head"):
            wide = problem(*named(all_neighborhoods, name), score, normalize)
            task = type(wide)(wide.case, wide.to(half).tensors, wide.score_parameters, wide.normalize_parameters)
            if refuses(backend, task):
                continue
            out, gradients = task.run(backend)
            assert out.dtype == half
            tolerance = 1e-4 if half == torch.float32 else 0.1
            exact = type(wide)(wide.case, task.to(torch.float64).tensors, *list(vars(wide).values())[2:])
            expected, expected_gradients = exact.run("reference")
            torch.testing.assert_close(out.double(), expected, rtol=tolerance, atol=tolerance)
            for leaf, gradient in gradients.items():
                assert gradient.dtype == task.leaves[leaf].dtype
                scale = 1 + float(expected_gradients[leaf].abs().max())
                torch.testing.assert_close(
                    gradient.double(), expected_gradients[leaf], rtol=tolerance, atol=tolerance * scale
                )


def test_the_gradient_of_a_bias_under_vmap():
    torch.manual_seed(0)
    x, bias = torch.randn(3, 5, 4, requires_grad=True), torch.randn(3, 5, 5, requires_grad=True)
    batched = attend(x, x, x, Causal(), bias=bias)
    mapped = torch.func.vmap(lambda x, bias: attend(x, x, x, Causal(), bias=bias))(x, bias)
    torch.testing.assert_close(mapped, batched)
    for found, expected in zip(
        torch.autograd.grad(mapped.square().sum(), (x, bias)), torch.autograd.grad(batched.square().sum(), (x, bias))
    ):
        torch.testing.assert_close(found, expected)
