"""Where to compute."""

import contextlib
from collections.abc import Iterator

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
def cpu_threads(count: int) -> Iterator[None]:
    """Lets torch compute in `count` threads, and in as many as before afterwards."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)
