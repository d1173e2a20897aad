"""An operator runs where the device of its first argument is the current one."""

from types import SimpleNamespace

import pytest
import torch

from edgewise import Edges, attend
from edgewise.neighborhood.operator import on_its_device


@pytest.mark.parametrize(("index", "entered"), [(0, []), (1, [torch.device("cuda", 1)])])
def test_the_device_of_the_tensors_is_made_the_current_one(monkeypatch, index, entered):
    found = []

    class Guard:
        def __init__(self, device):
            self.device = device

        def __enter__(self):
            found.append(self.device)

        def __exit__(self, *_):
            found.append("left")

    monkeypatch.setattr(torch.cuda, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "device", Guard)
    tensor = SimpleNamespace(device=torch.device("cuda", index))
    seen = on_its_device(lambda x, more: (x, more, list(found)))(tensor, 3)
    assert seen == (tensor, 3, entered)
    assert found == [*entered, *["left"] * len(entered)]


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="there are not two CUDA devices")
def test_a_second_device_attends_as_the_first_does():
    random = torch.Generator().manual_seed(0)
    x = torch.randn(2, 9, 4, generator=random)
    edges = Edges(torch.randint(9, (30,), generator=random), torch.randint(9, (30,), generator=random), 9, 9)
    outputs = [
        attend(x.to(device), x.to(device), x.to(device), edges.to(device), backend="triton").cpu()
        for device in ("cuda:0", "cuda:1")
    ]
    assert torch.equal(*outputs)
