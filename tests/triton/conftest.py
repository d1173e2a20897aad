"""The kernels for CUDA: on a machine that has such a device they run there, on others in triton's interpreter."""

import pytest
from triton_cases import DEVICE

import edgewise.backends.triton as backend


@pytest.fixture(autouse=True)
def where_kernels_run(monkeypatch):
    """A CPU is taken for a device, where there is no other."""
    pytest.importorskip("triton")
    monkeypatch.setattr(backend, "DEVICES", (DEVICE,))
