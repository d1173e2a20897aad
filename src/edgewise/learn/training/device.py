"""Where to compute."""

import contextlib
import ctypes
import sys
from collections.abc import Iterator
from typing import Any

import torch

from edgewise.errors import SettingError


def pick_device(device: str) -> str:
    """The device that `auto` means here; raises SettingError for one that is not here."""
    has_mps = torch.backends.mps.is_available()
    if device == "auto":
        return "cuda" if torch.cuda.is_available() else "cpu"
    if (device == "cuda" and not torch.cuda.is_available()) or (device == "mps" and not has_mps):
        raise SettingError(f"--device is {device}, which torch does not find on this machine; use --device cpu.")
    return device


@contextlib.contextmanager
def usual_tensors() -> Iterator[None]:
    """In its block tensors without a device or a type are float32 on the CPU, nothing is cast to another type, and
    gradients are computed, whatever the caller has set in torch: its tensors serve outside of inference mode, too.

    Data is read on the CPU; what is computed elsewhere is moved there by name.
    """
    dtype = torch.get_default_dtype()
    torch.set_default_dtype(torch.float32)
    try:
        with contextlib.ExitStack() as settings:
            # torch's own contexts cost a little, one of a device at every operation.
            if torch.get_default_device().type != "cpu":
                settings.enter_context(torch.device("cpu"))
            for device in ("cpu", "cuda", "mps"):
                if torch.is_autocast_enabled(device):
                    settings.enter_context(torch.autocast(device, enabled=False))
            if torch.is_inference_mode_enabled():
                settings.enter_context(torch.inference_mode(False))
            settings.enter_context(torch.enable_grad())
            yield
    finally:
        torch.set_default_dtype(dtype)


@contextlib.contextmanager
def cpu_threads(count: int) -> Iterator[None]:
    """Lets torch compute in `count` threads, and in as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextlib.contextmanager
def autocast(precision: str, device: str) -> Iterator[None]:
    """The precision of a step: mixed where `precision` is bf16 or 16, else that of the tensors.

    oneDNN lacks an LSTM in bfloat16 for processors without AVX-512, but torch requests it all the same:
    "could not create a primitive descriptor". There torch's own code computes.
    """
    kinds = {"bf16": torch.bfloat16, "16": torch.float16}
    if precision not in kinds:
        yield
        return

    onednn: Any = torch.backends.mkldnn  # torch declares its switch as a descriptor
    before = onednn.enabled
    onednn.enabled = before and (device != "cpu" or torch.ops.mkldnn._is_mkldnn_bf16_supported())
    try:
        with torch.autocast(device, kinds[precision]):
            yield
    finally:
        onednn.enabled = before


def keep_memory() -> None:
    """Lets this process keep the memory that it frees, for the next step to take.

    Each step of a training allocates and frees the same large tables. By default glibc gives them back to the system,
    which hands them out again page by page, each filled with zeros.
    The process never shrinks from then on. Elsewhere than on Linux with glibc nothing happens.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "gnu_get_libc_version"):
        return
    trim_threshold, mmap_max = -1, -4  # names of malloc.h: M_TRIM_THRESHOLD, M_MMAP_MAX
    library.mallopt(trim_threshold, -1)
    library.mallopt(mmap_max, 0)
