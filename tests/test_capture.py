"""`capture` around a CUDA graph: without a GPU on a recorder that replays the operations of torch, else on CUDA."""

import itertools
from typing import NamedTuple

import pytest
import torch
from torch import nn

from cuda_recorder import WHERE, count_recordings
from edgewise import SettingError, UnsupportedError, capture


class Pair(NamedTuple):
    first: torch.Tensor
    second: dict[str, torch.Tensor]


@pytest.fixture(autouse=True)
def device(monkeypatch):
    """How many calls were recorded."""
    return count_recordings(monkeypatch)


def training(learning_rate=0.1):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1)).to(WHERE)
    optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = (model(x)[:, 0] - y).square().mean()
        loss.backward()
        optimizer.step()
        return loss.detach()

    return model, step


def batches(*sizes):
    draw = torch.Generator().manual_seed(1)
    return [[torch.randn(size, *more, generator=draw).to(WHERE) for more in ((3,), ())] for size in sizes]


def test_each_call_is_one_step_whatever_was_recorded(device):
    sizes = [4, 4, 6, 4, 6, 4, 4, 6, 6, 6, 4, 6]
    (plain, step), (model, to_capture) = training(), training()
    captured = capture(to_capture, warmup=2)
    for x, y in batches(*sizes):
        expected, found = step(x, y), captured(x, y)
        torch.testing.assert_close(found, expected)
        for ours, theirs in zip(model.parameters(), plain.parameters(), strict=True):
            torch.testing.assert_close(ours, theirs)
    assert len(device) == 2


def test_results_lie_in_the_same_memory():
    captured = capture(lambda x: {"twice": 2 * x}, warmup=1)
    first, second, third = (captured(torch.full((2,), value, device=WHERE)) for value in (1.0, 2.0, 3.0))
    assert second is third
    assert (first["twice"].tolist(), third["twice"].tolist()) == ([2.0, 2.0], [6.0, 6.0])


def test_every_part_of_the_form_has_a_recording_of_its_own(device):
    marks = [object(), object()]
    captured = capture(lambda x, *more, **named: x * (len(more) + 1) + len(named), warmup=1)
    x = torch.arange(6.0, device=WHERE).reshape(2, 3)
    calls = [
        ((x,), {}),
        ((x[:1],), {}),
        ((x.t().contiguous().t(),), {}),
        ((x.double(),), {}),
        ((x, 1), {}),
        ((x, 2), {}),
        ((x, 2.0), {}),
        ((x, True), {}),
        ((x, 0.0), {}),
        ((x, -0.0), {}),
        ((x, float("nan")), {}),
        ((x, marks[0]), {}),
        ((x, marks[1]), {}),
        ((x, [1]), {}),
        ((x, (1,)), {}),
        ((x, []), {}),
        ((x, [1, 1]), {}),
        ((x,), {"a": 1}),
        ((x,), {"b": 1}),
    ]
    for _ in range(3):
        for args, named in calls:
            expected = args[0] * len(args) + len(named)
            torch.testing.assert_close(captured(*args, **named), expected)
    assert len(device) == len(calls)


def test_modes_of_torch_have_recordings_of_their_own(device):
    weight = torch.ones(2, 2, device=WHERE, requires_grad=True)
    captured, x = capture(lambda x: x @ weight, warmup=1), torch.ones(2, 2, device=WHERE)
    found = []
    for _ in range(3):
        found = [captured(x)]
        with torch.no_grad():
            found.append(captured(x))
        with torch.autocast(WHERE, torch.bfloat16):
            found.append(captured(x))
    assert [y.requires_grad for y in found] == [True, False, True]
    assert [y.dtype for y in found] == [torch.float32, torch.float32, torch.bfloat16]
    assert len(device) == 3


def test_tensors_in_containers_are_read_anew():
    captured = capture(lambda pair, *, by: pair.first + pair.second["b"] * by[0], warmup=1)
    for value in range(4):
        a, b, c = (torch.full((2,), float(value + shift), device=WHERE) for shift in range(3))
        assert captured(Pair(a, {"b": b}), by=[c]).tolist() == [value + (value + 1) * (value + 2)] * 2


def test_random_numbers_are_new_in_each_call():
    captured = capture(lambda x: nn.functional.dropout(x, 0.5), warmup=1)
    x = torch.ones(64, device=WHERE)
    found = [captured(x).clone() for _ in range(4)]
    assert not any(torch.equal(one, other) for one, other in itertools.pairwise(found))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (torch.ones(2, requires_grad=True), r"argument 1 requires a gradient; detach it"),
        ([torch.ones(1, device="meta")], r"argument 1\[0\] is on meta; move it to the GPU first"),
        ({"x": [torch.ones(1, device="meta")]}, r"argument 1\['x'\]\[0\] is on meta"),
    ],
)
def test_tensors_that_cannot_be_copied_are_refused(given, said):
    with pytest.raises(UnsupportedError, match=f"capture: {said}"):
        capture(lambda x: x)(given)
    with pytest.raises(UnsupportedError, match=said.replace("argument 1", "argument given")):
        capture(lambda *, given: given)(given=given)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (lambda number: (torch.ones(1, device=WHERE), object()), "argument 2 is another object each time"),
        (lambda number: ([torch.ones(number, device=WHERE)],), r"argument 1\[0\] has one more shape"),
    ],
)
def test_an_argument_that_is_always_new_is_named(arguments, said):
    captured = capture(lambda *given: given, warmup=1)
    for number in range(64):
        captured(*arguments(number))
    with pytest.raises(UnsupportedError, match=f"more than 64 forms of arguments, as {said}"):
        captured(*arguments(64))


def test_ever_other_combinations_are_refused():
    captured = capture(lambda *given: given, warmup=1)
    tensors = [torch.ones(size, device=WHERE) for size in range(9)]
    for first in tensors[:8]:
        for second in tensors[:8]:
            captured(first, second)
    captured(tensors[0], tensors[1])
    with pytest.raises(UnsupportedError, match="more than 64 forms of arguments, as argument 1 has one more shape"):
        captured(tensors[8], tensors[0])
    captured = capture(lambda *given: given, warmup=1)
    for first in tensors:
        for second in tensors[: 8 if first is tensors[0] else 7]:
            captured(first, second)
    with pytest.raises(UnsupportedError, match="more than 64 forms of arguments, as they come in ever other comb"):
        captured(tensors[8], tensors[7])


def test_a_step_that_waits_for_the_device_is_refused_and_changes_nothing():
    total = torch.zeros((), device=WHERE)

    def step(x):
        total.add_(x.sum())
        return x * total.item()

    captured, x = capture(step, warmup=1), torch.ones(2, device=WHERE)
    assert captured(x).tolist() == [2.0, 2.0]
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"capture: the step cannot be one CUDA graph: .*not permitted"):
            captured(x)
    assert total.item() == 2.0


def test_a_step_that_writes_into_an_argument_is_refused():
    captured, x = capture(lambda given: given["x"].add_(1), warmup=1), torch.zeros(2, device=WHERE)
    assert captured({"x": x}).tolist() == [1.0, 1.0]
    for _ in range(2):
        with pytest.raises(UnsupportedError, match=r"the step writes into argument 1\['x'\]; let it hold that tensor"):
            captured({"x": x})
    assert x.tolist() == [1.0, 1.0]


def test_without_a_gpu_a_step_is_itself(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    _, step = training()
    assert capture(step) is step


def test_a_step_runs_before_it_is_recorded():
    with pytest.raises(SettingError, match="warmup is 0; expected 1 or more calls before the one that is recorded"):
        capture(print, warmup=0)
