"""Calls of a form that was seen before: nothing is checked again, and nothing is stale."""

import copy
import gc
import importlib
import weakref
from dataclasses import replace

import pytest
import torch

import edgewise.backends
from edgewise import (
    GAT,
    Additive,
    Causal,
    Cosine,
    Edges,
    EdgewiseError,
    GATv2,
    Hardmax,
    Identity,
    ScaledDot,
    Sigmoid,
    Softmax,
    Sparsemax,
    attend,
)
from edgewise.backends import RUNS
from edgewise.backends.numba import edge_kernels, layout

HEADS, QUERIES, KEYS, EDGES, DIM = 2, 7, 9, 30, 8


@pytest.fixture(autouse=True)
def nothing_known():
    RUNS.clear()
    layout._launches.clear()


def draw(*shape, seed=0, dtype=torch.float64):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype).requires_grad_()


def edges_of(senders, receivers, num_receivers=QUERIES):
    index = [torch.tensor(x, dtype=torch.int64) for x in (senders, receivers)]
    return Edges(*index, KEYS, num_receivers)


def a_call(seed=0, dtype=torch.float64, **changed):
    """Arguments of `attend`, some of them changed."""
    generator = torch.Generator().manual_seed(seed)
    senders = torch.randint(KEYS, (EDGES,), generator=generator)
    receivers = torch.randint(QUERIES, (EDGES,), generator=generator)
    shapes = {"query": (QUERIES, DIM), "key": (KEYS, DIM), "value": (KEYS, DIM)}
    tensors = {name: draw(HEADS, *shape, dtype=dtype, seed=seed + i) for i, (name, shape) in enumerate(shapes.items())}
    return tensors | {"neighborhood": Edges(senders, receivers, KEYS, QUERIES)} | changed


def results(arguments, seed=5):
    """The output and the gradients of all tensors that have some."""
    torch.manual_seed(seed)
    score = arguments.get("score")
    of_score = [] if score is None else [x for x in vars(score).values() if isinstance(x, torch.Tensor)]
    wanted = [x for x in (*arguments.values(), *of_score) if isinstance(x, torch.Tensor) and x.requires_grad]
    out = attend(**arguments)
    grads = torch.autograd.grad(out.square().sum(), wanted, allow_unused=True) if out.requires_grad else ()
    return [out.detach(), *(torch.zeros_like(x) if grad is None else grad for x, grad in zip(wanted, grads))]


def assert_same(one, other):
    assert len(one) == len(other)
    for left, right in zip(one, other):
        assert left.dtype == right.dtype and torch.equal(left, right)


def by_node(x):
    """The same numbers, a node's heads together in memory."""
    return x.detach().transpose(0, 1).contiguous().transpose(0, 1).requires_grad_(x.requires_grad)


CHANGES = {
    "numbers": lambda call: call | {name: a_call(3)[name] for name in ("query", "key", "value")},
    "edges": lambda call: call | {"neighborhood": a_call(4)["neighborhood"]},
    "fewer edges": lambda call: call | {"neighborhood": edges_of([0, 1, 2], [3, 0, 0])},
    "no edges": lambda call: call | {"neighborhood": edges_of([], [])},
    "another neighborhood": lambda call: call | {"neighborhood": Causal()},
    "strides": lambda call: call | {name: by_node(call[name]) for name in ("query", "key", "value")},
    "strides of one": lambda call: call | {"key": by_node(call["key"])},
    "a shared key": lambda call: call | {"key": call["key"].detach()[:1].requires_grad_()},
    "no heads": lambda call: call | {name: call[name].detach()[0] for name in ("query", "key", "value")},
    "dtype": lambda call: a_call(dtype=torch.float32),
    "half precision": lambda call: call | {x: call[x].detach().bfloat16() for x in ("query", "key", "value")},
    "no gradients": lambda call: call | {name: call[name].detach() for name in ("query", "key", "value")},
    "gradients of one": lambda call: call | {name: call[name].detach() for name in ("query", "value")},
    "features": lambda call: call | {name: draw(HEADS, size, 5) for name, size in (("query", QUERIES), ("key", KEYS))},
    "features of values": lambda call: call | {"value": draw(HEADS, KEYS, 3)},
    "bias": lambda call: call | {"bias": draw(HEADS, EDGES)},
    "a shared bias": lambda call: call | {"bias": draw(EDGES)},
    "edge_key": lambda call: call | {"edge_key": draw(HEADS, EDGES, DIM)},
    "a shared edge_key": lambda call: call | {"edge_key": draw(EDGES, DIM)},
    "edge_value": lambda call: call | {"edge_value": draw(HEADS, EDGES, DIM)},
    "dropout": lambda call: call | {"dropout": 0.5},
    "more dropout": lambda call: call | {"dropout": 0.7},
    "backend": lambda call: call | {"backend": "gather"},
    "scale": lambda call: call | {"score": ScaledDot(0.5)},
    "score": lambda call: call | {"score": Cosine()},
    "vector": lambda call: call | {"score": GATv2(draw(HEADS, DIM))},
    "another vector": lambda call: call | {"score": GATv2(draw(HEADS, DIM, seed=9))},
    "a vector without gradients": lambda call: call | {"score": GATv2(draw(HEADS, DIM).detach())},
    "a vector of other strides": lambda call: call | {"score": GATv2(draw(DIM, HEADS).detach().t().requires_grad_())},
    "slope": lambda call: call | {"score": GATv2(draw(HEADS, DIM), 0.5)},
    "a shared vector": lambda call: call | {"score": GATv2(draw(DIM))},
    "activation": lambda call: call | {"score": Additive(draw(HEADS, DIM), "silu")},
    "another activation": lambda call: call | {"score": Additive(draw(HEADS, DIM), "gelu")},
    "one number a head": lambda call: call | {"score": GAT(draw(HEADS, DIM), draw(HEADS, DIM))},
    "temperature": lambda call: call | {"normalize": Softmax(0.5)},
    "a learned temperature": lambda call: call | {"normalize": Softmax(torch.tensor(0.5))},
    "normalizer": lambda call: call | {"normalize": Sparsemax()},
    "another normalizer": lambda call: call | {"normalize": Sigmoid()},
    "no normalizer": lambda call: call | {"normalize": Identity()},
    "the largest": lambda call: call | {"normalize": Hardmax()},
    "straight through": lambda call: call | {"normalize": Hardmax(straight_through=True)},
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_of_the_form_is_seen(change):
    """The call is known, and then so is the changed one; each time the results are those of the first time, and where
    they are not drawn, those of the reference."""
    call = a_call()
    changed = change(call)
    first = results(changed)
    RUNS.clear()
    layout._launches.clear()

    known = [results(call) for _ in range(3)]
    for _ in range(3):
        assert_same(results(changed), first)
    assert_same(results(call), known[0])
    assert_same(known[2], known[0])

    if changed.get("dropout", 0) == 0:
        precise = {torch.bfloat16: 2e-2, torch.float32: 1e-4}.get(first[0].dtype, 1e-9)
        for ours, theirs in zip(results(changed), results(changed | {"backend": "reference"}), strict=True):
            torch.testing.assert_close(ours, theirs, rtol=precise, atol=precise)


def test_a_known_call_is_neither_checked_nor_chosen(monkeypatch):
    call = a_call()
    expected = results(call)
    module = importlib.import_module("edgewise.attend")  # of which the function has the name
    for name in ("checked_call", "choose"):
        monkeypatch.setattr(module, name, None)
    assert_same(results(call), expected)
    assert_same(results(a_call(0)), expected)


WRONG = {
    "features": lambda call: call | {"query": call["query"][..., :-1]},
    "dtype": lambda call: call | {"value": call["value"].float()},
    "edges": lambda call: call | {"neighborhood": edges_of([0], [0], QUERIES + 1)},
    "bias": lambda call: call | {"bias": draw(EDGES + 1)},
    "dropout": lambda call: call | {"dropout": 1.0},
    "score": lambda call: call | {"score": ScaledDot},
    "backend": lambda call: call | {"backend": "triton"},
    "vector": lambda call: call | {"score": GATv2(draw(HEADS, DIM + 1))},
}


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
def test_a_call_that_fails_fails_again(wrong):
    call = a_call()
    for _ in range(3):
        results(call)
        with pytest.raises(EdgewiseError) as first:
            attend(**wrong(call))
        with pytest.raises(EdgewiseError) as second:
            attend(**wrong(call))
        assert str(first.value) == str(second.value)


def test_a_field_of_a_score_that_was_replaced_is_seen():
    score = GATv2(draw(HEADS, DIM))
    call = a_call(score=score)
    for _ in range(2):
        results(call)
    for field, value in (("vector", draw(HEADS, DIM, seed=7)), ("negative_slope", 0.7), ("vector", draw(DIM))):
        object.__setattr__(score, field, value)
        changed = results(call)
        assert_same(changed, results(call | {"score": replace(score)}))
        RUNS.clear()
        layout._launches.clear()
        assert_same(changed, results(call))


@pytest.mark.parametrize(
    "changed",
    [{"query": [[1.0] * DIM] * QUERIES}, {"key": torch.ones(KEYS, DIM).numpy()}, {"bias": [1.0]}, {"dropout": [0.1]}],
    ids=lambda changed: next(iter(changed)),
)
def test_what_is_not_a_tensor_or_a_number_is_refused_by_the_checks(shapes_unchecked, changed):
    """Lists and arrays cannot be looked up."""
    for _ in range(2):
        with pytest.raises(EdgewiseError, match=next(iter(changed))):
            attend(**(a_call() | changed))


def test_numbers_that_changed_in_place_are_read():
    call = a_call(score=GATv2(draw(HEADS, DIM)))
    results(call)
    with torch.no_grad():
        call["key"].mul_(2)
        call["score"].vector.add_(1)
    changed = results(call)
    RUNS.clear()
    assert_same(changed, results(call))


def test_where_torch_is_at_work_the_call_is_as_before():
    call = a_call()
    query, rest = call["query"], {name: x for name, x in call.items() if name != "query"}
    for _ in range(2):
        results(call)
    expected = attend(query, **rest)

    mapped = torch.func.vmap(lambda x: attend(x, **rest))(torch.stack([query, 2 * query]))
    torch.testing.assert_close(mapped, torch.stack([expected, attend(2 * query, **rest)]))
    _, tangent = torch.func.jvp(lambda x: attend(x, **rest), (query,), (torch.ones_like(query),))
    _, expected_tangent = torch.func.jvp(
        lambda x: attend(x, **rest, backend="reference"), (query,), (torch.ones_like(query),)
    )
    torch.testing.assert_close(tangent, expected_tangent)
    in_float32 = a_call(dtype=torch.float32)
    assert attend(**in_float32).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        assert attend(**in_float32).dtype == torch.bfloat16
    with torch.inference_mode():
        assert torch.equal(attend(query, **rest), expected)
    with torch.no_grad():
        assert not attend(query, **rest).requires_grad


def test_gradients_of_gradients_of_a_known_call():
    call = a_call()
    wanted = [call[name].detach().requires_grad_() for name in ("query", "key", "value")]

    def attended(*tensors):
        return attend(*tensors, call["neighborhood"], score=ScaledDot(0.3))

    attended(*wanted), attended(*wanted)
    assert torch.autograd.gradgradcheck(attended, wanted, atol=1e-4)


def test_a_saved_tensor_may_come_back_elsewhere():
    """Hooks that store what a forward pass saves give it back in other strides."""
    call = a_call()
    call |= {name: by_node(call[name]) for name in ("query", "key", "value")}
    expected = results(call)

    def unpacked(x):
        return x.contiguous(memory_format=torch.contiguous_format).clone(memory_format=torch.contiguous_format)

    with torch.autograd.graph.saved_tensors_hooks(lambda x: x.detach(), unpacked):
        assert_same(results(call), expected)
    with torch.autograd.graph.save_on_cpu():
        assert_same(results(call), expected)


def test_what_was_saved_must_not_be_changed():
    call = a_call()
    results(call)
    values = call["value"] * 1
    out = attend(**call | {"value": values})
    values.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_forms_hold_no_tensors_and_are_bounded(monkeypatch):
    monkeypatch.setattr("edgewise.backends.form.MAX_FORMS", 3)
    call = a_call()
    for _ in range(2):
        results(call)
    gone = [weakref.ref(x) for x in call.values()]
    del call
    gc.collect()
    assert all(reference() is None for reference in gone)

    for scale in range(1, 9):
        attend(**a_call(score=ScaledDot(float(scale))))
    assert len(RUNS.by_form) <= 3
    assert len(layout._launches.by_form) <= 3


def test_other_chunks_and_threads_do_not_change_a_known_call(monkeypatch):
    call = a_call(score=GATv2(draw(HEADS, DIM).detach()))
    expected = results(call)
    monkeypatch.setattr(edge_kernels, "CHUNK", 100)
    threads = torch.get_num_threads()
    try:
        for number in (1, 2, 3):
            torch.set_num_threads(number)
            assert_same(results(call), expected)
    finally:
        torch.set_num_threads(threads)


def test_a_copy_of_edges_has_lists_of_its_own():
    call = a_call()
    expected = results(call)
    copied = copy.deepcopy(call["neighborhood"])
    call["neighborhood"] = None
    gc.collect()
    assert_same(results(call | {"neighborhood": copied}), expected)


def test_the_order_of_backends_is_read_when_a_form_is_new(monkeypatch):
    call = a_call()
    monkeypatch.setattr(edgewise.backends, "ORDER_OVER_EDGES", (edgewise.backends.gather,))
    by_gather = results(call)
    assert_same(by_gather, results(call | {"backend": "gather"}))
