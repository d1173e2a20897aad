"""The gather that the benchmark measures a GPU by adds up the given rows."""

import sys
from pathlib import Path

import pytest
import torch
from triton_cases import DEVICE

FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.mark.parametrize(("width", "block"), [(32, 8), (64, 16), (128, 32)])
def test_rows_are_added_up(monkeypatch, width, block):
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    from gpu_attention.gather_kernel import gather_rows

    random = torch.Generator().manual_seed(0)
    table = torch.randn(50, width, generator=random).to(DEVICE)
    index = torch.randint(50, (3 * 4 * block,), generator=random, dtype=torch.int32).to(DEVICE)
    out = torch.full((3, width), torch.nan, device=DEVICE)
    gather_rows[(3,)](table, index, out, WIDTH=width, BLOCK=block, STEPS=4, num_warps=1)
    torch.testing.assert_close(out, table[index.long()].view(3, -1, width).sum(1), rtol=1e-4, atol=1e-4)


def test_the_rate_of_a_gather_that_is_wrong_is_not_reported(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(FOLDER), *sys.path])
    from gpu_attention import gather_kernel, limits

    class StandIn:
        name = DEVICE

        def milliseconds(self, call, *, cold=True):
            call()
            return 2.0

    monkeypatch.setattr(limits, "SHAPES", ((8, 1),))
    monkeypatch.setattr(limits, "REPETITIONS", 2)
    rate = limits.gathering(StandIn(), 2**14, 128, 256)
    assert rate == pytest.approx(256 * 128 / 2e-3 / 1e9)
    assert limits.copying(StandIn(), 2**20) == pytest.approx(2 * 2**20 / 2e-3 / 1e9)

    class Idle:
        def __getitem__(self, grid):
            return lambda table, index, out, **more: out.zero_()

    monkeypatch.setattr(gather_kernel, "gather_rows", Idle())
    with pytest.raises(RuntimeError, match="does not add up"):
        limits.gathering(StandIn(), 2**14, 128, 256)
