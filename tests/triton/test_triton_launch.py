"""A kernel is started by what triton compiled for arguments alike: those that triton itself would tell apart are."""

import itertools
from collections import Counter
from contextlib import suppress

import pytest
import torch
from triton_cases import DEVICE

from edgewise import Additive, Causal, Full, Window, attend
from edgewise.backends.triton import launch
from edgewise.backends.triton.edges.tiles import HeadTable
from edgewise.backends.triton.launch import Common, described, start
from edgewise.backends.triton.ranges import layout
from edgewise.backends.triton.ranges import operators as range_operators

NUMBERS = torch.zeros(64, dtype=torch.float32)
TENSORS = [
    NUMBERS,
    NUMBERS[1:],
    NUMBERS[4:],
    NUMBERS.bfloat16(),
    NUMBERS.long(),
    NUMBERS[:0],
    torch.nn.Parameter(NUMBERS),
]
WHOLE = [0, 1, 2, 15, 16, 32, -1, -16, 2**31 - 16, 2**31 - 1, 2**31, 2**31 + 1, 2**40, -(2**31), -(2**31) - 1]
ARGUMENTS = [*TENSORS, *WHOLE, 0.5, 1.0, None]


@pytest.fixture
def specialize():
    """What triton compiles a kernel of two arguments for."""
    jit = pytest.importorskip("triton.runtime.jit")
    from triton.backends.compiler import GPUTarget
    from triton.compiler.compiler import make_backend

    def kernel(one, other):
        pass

    made = jit.JITFunction(kernel)
    backend = make_backend(GPUTarget("cuda", 90, 32))
    bind = jit.create_function_from_signature(made.signature, made.params, backend)
    return lambda *arguments: str(bind(*arguments, debug=False)[1])


def kinds_of(*arguments):
    kinds = []
    described(arguments, kinds)
    return tuple(kinds)


def test_arguments_that_triton_distinguishes_are_distinguished(specialize):
    found = {}
    for one, other in itertools.product(ARGUMENTS, repeat=2):
        table = HeadTable(*(x if isinstance(x, torch.Tensor) else NUMBERS for x in (one,)), 16, 1)
        for given in ((one, other), (table, other), (other, table), (None, table)):
            found.setdefault(kinds_of(*given), set()).add(specialize(*given))
    assert len(found) > 100
    assert all(len(alike) == 1 for alike in found.values())


def test_addresses_stand_for_tensors():
    kinds = []
    table = HeadTable(NUMBERS, 16, 1)
    assert described((table, None, 7), kinds) == ((NUMBERS.data_ptr(), 16, 1), None, 7)
    assert described((Common(table),), []) == ((NUMBERS.data_ptr(), 16, 1),)


def test_shared_arguments_are_distinguished_too():
    aligned, beside = Common((NUMBERS, 1)), Common((NUMBERS[1:], 1))
    assert kinds_of(aligned) != kinds_of(beside)
    assert kinds_of(aligned) == kinds_of(Common((NUMBERS[4:], 1)))


class Own(torch.Tensor):
    """A tensor of the caller's own type."""


def test_tensors_of_other_types_are_tensors():
    own = NUMBERS[1:].as_subclass(Own)
    assert kinds_of(own) == kinds_of(NUMBERS[1:])
    assert described((own,), []) == (NUMBERS[1:].data_ptr(),)
    with pytest.raises(TypeError, match="a kernel takes no str"):
        described(("dot",), [])


class Kernel:
    """A kernel that notes what it is compiled for, and started with."""

    def __init__(self):
        self.arg_names = ["one", "other", "B", "A"]
        self.compiled, self.started = [], []

    def __getitem__(self, grid):
        def run(*arguments, **constants):
            self.compiled.append((grid, arguments, constants))
            return self.Compiled(self)

        return run

    class Compiled:
        def __init__(self, kernel):
            self.kernel = kernel

        def __getitem__(self, grid):
            return lambda *arguments: self.kernel.started.append((grid, arguments))


@pytest.fixture
def kernel(monkeypatch):
    monkeypatch.setattr(launch.triton, "JITFunction", Kernel)
    monkeypatch.setattr(launch.torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(launch.torch.version, "hip", None)
    return Kernel()


def test_equal_arguments_are_specialized_once(kernel, monkeypatch):
    constants, options = {"A": "a", "B": "b"}, {"num_warps": 4}
    start(kernel, (5, 2), (NUMBERS, Common((NUMBERS, 3))), constants, options)
    assert kernel.compiled == [((5, 2), (NUMBERS, (NUMBERS, 3)), {**constants, **options})]
    other = torch.zeros(3)
    start(kernel, (7,), (other, Common((NUMBERS[4:], 5))), constants, options)
    assert len(kernel.compiled) == 1
    wanted = other.data_ptr(), (NUMBERS[4:].data_ptr(), 5), "b", "a"
    assert kernel.started == [((7, 1, 1), wanted)]
    start(kernel, (7,), (NUMBERS[1:], Common((NUMBERS, 3))), constants, options)
    start(kernel, (7,), (NUMBERS, Common((NUMBERS, 1))), constants, options)
    start(kernel, (7,), (NUMBERS, Common((NUMBERS, 3))), {**constants, "A": "c"}, options)
    start(kernel, (7,), (NUMBERS, Common((NUMBERS, 3))), constants, {"num_warps": 8})
    monkeypatch.setattr(launch.torch.cuda, "current_device", lambda: 1)
    start(kernel, (7,), (NUMBERS, Common((NUMBERS, 3))), constants, options)
    assert (len(kernel.compiled), len(kernel.started)) == (6, 1)


def test_a_kernel_that_is_not_compiled_is_tried_again(kernel, monkeypatch):
    """A hook of triton's may refuse, or leave it for later."""
    monkeypatch.setattr(Kernel, "Compiled", lambda *_: None)
    for _ in range(2):
        start(kernel, (5,), (NUMBERS, 3), {"A": 1, "B": 2}, {})
    assert len(kernel.compiled) == 2


def test_launches_are_specialized_every_time_on_amd_devices(kernel, monkeypatch):
    monkeypatch.setattr(launch.torch.version, "hip", "6.0")
    for _ in range(2):
        start(kernel, (5,), (NUMBERS, Common((NUMBERS, 3))), {"A": 1, "B": 2}, {})
    assert (len(kernel.compiled), kernel.started) == (2, [])


def gradients(neighborhood):
    random = torch.Generator().manual_seed(0)
    query, key, value, vector = (torch.randn(2, n, 4, generator=random) for n in (9, 11, 11, 1))
    given = [x.to(DEVICE).requires_grad_() for x in (query, key, value)]
    out = attend(*given, neighborhood, score=Additive(vector[:, 0].to(DEVICE)), backend="triton")
    return out.detach(), *torch.autograd.grad(out.square().sum(), given)


@pytest.fixture
def made(monkeypatch):
    """How often runs of a neighborhood are made, and what blocks of keys see of them."""
    counts = Counter()
    for owner, name in ((Window, "runs"), (range_operators, "_seen_from")):

        def counting(*arguments, name=name, made=getattr(owner, name)):
            counts[name] += 1
            return made(*arguments)

        monkeypatch.setattr(owner, name, counting)
    layout._kept_runs.cache_clear()
    return counts


def test_the_runs_of_a_neighborhood_without_tensors_are_made_once(made, monkeypatch):
    first = gradients(Window(3, 2))
    assert made == {"runs": 1, "_seen_from": 1}
    again = gradients(Window(3, 2))
    assert made == {"runs": 1, "_seen_from": 1}
    monkeypatch.setattr(layout, "BLOCK", 16)  # blocks of another size see other runs
    smaller = gradients(Window(3, 2))
    assert made["runs"] == 1
    for x, y, z in zip(first, again, smaller, strict=True):
        assert torch.equal(x, y)
        torch.testing.assert_close(x, z, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("owner", [layout, range_operators])
def test_nothing_is_kept_while_a_graph_is_captured(owner, made, monkeypatch):
    name = "runs" if owner is layout else "_seen_from"
    monkeypatch.setattr(owner, "is_captured", lambda device: True)
    for _ in range(2):
        gradients(Window(3, 2))
    assert made[name] == 2


def test_nothing_is_kept_of_a_mode_of_torch(made):
    """What is made under one may be no tensor that holds numbers."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    query = torch.ones(2, 9, 4, device=DEVICE)
    with FakeTensorMode(allow_non_fake_inputs=True), suppress(Exception):
        attend(query, query, query, Window(3, 2), backend="triton")
    assert attend(query, query, query, Window(3, 2), backend="triton").isfinite().all()


@pytest.mark.parametrize(
    "neighborhood", [Full(), Causal(), Causal("start"), Window(3, 2), Window(2, 3), Window(3, 2, "start")]
)
def test_runs_that_are_kept_are_those_of_the_neighborhood(neighborhood):
    with torch.inference_mode():  # what is made here is used by gradients later
        attend(*(torch.ones(2, n, 4, device=DEVICE) for n in (9, 11, 11)), neighborhood, backend="triton")
    mask = neighborhood.to_mask(9, 11).to(DEVICE)
    random = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(2, n, 4, generator=random).to(DEVICE) for n in (9, 11, 11))
    for _ in range(2):
        query.requires_grad_()
        found = attend(query, key, value, neighborhood, backend="triton")
        scores = (query @ key.transpose(-1, -2) / 2).masked_fill(~mask, float("-inf"))
        wanted = scores.softmax(-1).nan_to_num() @ value
        torch.testing.assert_close(found, wanted)
        (grad,) = torch.autograd.grad(found.square().sum(), query)
        (wanted_grad,) = torch.autograd.grad(wanted.square().sum(), query)
        torch.testing.assert_close(grad, wanted_grad.nan_to_num(), rtol=1e-4, atol=1e-5)
