"""The GPU that is measured: the time a call takes on it, its memory, its kernels, and the call as a captured graph."""

import gc
import os
import platform
import traceback
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from edgewise import capture

Call = Callable[[], Any]
OTHER_BYTES = 256 * 2**20
"""Written before every call, several times what the second cache holds: inputs then come from memory, as between the
other layers of a model."""
NO_KERNELS = ("Memcpy", "Memset", "Context Sync", "Event Sync", "Stream")
"""How the names of what a profile lists beside kernels begin."""
PACKAGES = ("torch", "triton", "numpy", "torch_geometric")


class Cuda:
    """The current CUDA device."""

    name = "cuda"
    """What tensors are made on."""

    def __init__(self) -> None:
        self.other = torch.empty(OTHER_BYTES, dtype=torch.int8, device=self.name)

    def milliseconds(self, call: Call, *, cold: bool = True) -> float:
        """How long one call takes, from its start to the end of its last kernel, by events of the device."""
        began, ended = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        torch.cuda.synchronize()
        if cold:
            self.other.zero_()
        began.record()
        results = call()
        ended.record()
        torch.cuda.synchronize()
        del results
        return began.elapsed_time(ended)

    def extra_bytes(self, call: Call) -> int:
        """The most memory that one call takes beyond what was there before it, its results included."""
        self.give_back()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        results = call()
        torch.cuda.synchronize()
        extra = torch.cuda.max_memory_allocated() - before
        del results
        return extra

    def launches(self, call: Call) -> int:
        """How many kernels one call starts; copies and fills by the driver are not counted."""
        from torch.autograd import DeviceType
        from torch.profiler import ProfilerActivity, profile

        call()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
            call()
            torch.cuda.synchronize()
        events = [event for event in seen.events() or () if event.device_type == DeviceType.CUDA]
        kernels = [event for event in events if not getattr(event, "is_user_annotation", False)]
        return sum(not event.name.startswith(NO_KERNELS) for event in kernels)

    def waits(self, call: Call) -> str:
        """Where a call makes the host wait for the device, which cannot be captured; empty where it does not.

        Only what torch itself knows to wait is seen.
        """
        for _ in range(2):  # what is made or compiled once may wait
            call()
        torch.cuda.synchronize()
        before = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("error")
        try:
            call()
        except RuntimeError as error:
            if "synchronizing" not in str(error):
                raise
            return f"it waits for the device in {_place_of(error)}"
        finally:
            torch.cuda.set_sync_debug_mode(before)
        return ""

    def captured(self, call: Call) -> Call:
        """The call as a CUDA graph: its kernels without what it takes to start them one by one."""
        captured = capture(call)
        for _ in range(4):  # three as they are, and the one that is recorded
            captured()
        return captured

    def give_back(self) -> None:
        """Free what nobody holds any more."""
        gc.collect()
        torch.cuda.empty_cache()

    def trouble(self) -> str:
        """Why nothing more can run, after an error that the device does not forget; empty where all is well."""
        try:
            torch.randint(2, (1,), device=self.name).item()
            torch.cuda.synchronize()
        except RuntimeError as error:
            return str(error).strip().splitlines()[0]
        return ""

    def facts(self) -> dict:
        """What the numbers depend on."""
        properties = torch.cuda.get_device_properties(self.name)
        return {
            "gpu": properties.name,
            "capability": f"{properties.major}.{properties.minor}",
            "multiprocessors": properties.multi_processor_count,
            "memory_gib": round(properties.total_memory / 2**30, 1),
            "l2_mib": round(getattr(properties, "L2_cache_size", 0) / 2**20, 1),
            "cuda": torch.version.cuda or "unknown",
            "python": platform.python_version(),
            "versions": {name: _version(name) for name in PACKAGES},
        }


def _place_of(error: BaseException) -> str:
    """The innermost line outside torch that an error comes from."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if f"{os.sep}torch{os.sep}" not in frame.filename] or list(frames)
    return f"{Path(own[-1].filename).name}:{own[-1].lineno}: {own[-1].line}"


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"
