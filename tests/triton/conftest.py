"""The kernels for CUDA: on a machine that has such a device they run there, on others in triton's interpreter."""

import pytest
from triton_cases import DEVICE

import edgewise.backends.triton as backend
from triton_interpreter import speed_up


@pytest.fixture(scope="session", autouse=True)
def quick_interpreter(request):
    """Its repeated preparations are left out; by day it does not look for overflows."""
    pytest.importorskip("triton")
    speed_up(look_for_overflows="not nightly" not in request.config.option.markexpr)


@pytest.fixture(autouse=True)
def where_kernels_run(monkeypatch):
    """A CPU is taken for a device, where there is no other."""
    pytest.importorskip("triton")
    monkeypatch.setattr(backend, "DEVICES", (DEVICE,))


@pytest.fixture(autouse=True)
def claims_are_true(monkeypatch):
    """The interpreter notes what a kernel claims of its numbers, and does nothing with it; here it is looked at."""
    interpreter = pytest.importorskip("triton.runtime.interpreter")

    def claim(numbers, name, divisor):
        assert name == "tt.divisibility"
        assert not (numbers.data % divisor).any(), "what is claimed of addresses is wrong"

    monkeypatch.setattr(interpreter.TensorHandle, "set_attr", claim)
