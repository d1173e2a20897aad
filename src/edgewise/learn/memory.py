"""How much memory a process can still take: that of the machine, of its control group, of its limits, or of the GPU."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path

GROUPS = Path("/sys/fs/cgroup")
OWN_GROUPS = Path("/proc/self/cgroup")
UNLIMITED = 1 << 60
"""Limits above it are none: version 1 of control groups writes its largest number instead of a word."""


def available_memory(device: str = "cpu") -> int | None:
    """The bytes that this process can still take on a device; None where the system does not report it.

    On the CPU it is the least of what the machine has left, what the control groups of the process (those of a
    container or a batch job) have left, and the limit of its address space.
    """
    if device == "cuda":
        import torch

        return torch.cuda.mem_get_info()[0]
    if device != "cpu":
        return None
    return min((*machine_memory(), *group_memory(), *limited_memory()), default=None)


def machine_memory() -> Iterator[int]:
    """What the machine has left; elsewhere than on Linux what it has at all."""
    try:
        words = Path("/proc/meminfo").read_text().split()
        yield int(words[words.index("MemAvailable:") + 1]) << 10
    except (OSError, ValueError):
        names = getattr(os, "sysconf_names", {})
        if {"SC_PHYS_PAGES", "SC_PAGE_SIZE"} <= names.keys():
            yield os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def group_memory(root: Path = GROUPS, own: Path = OWN_GROUPS) -> Iterator[int]:
    """What each control group around the process has left; files that can be dropped from memory count as free."""
    try:
        lines = own.read_text().splitlines()
    except OSError:
        return

    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            top, names = root, ("memory.max", "memory.current", "inactive_file")
        elif "memory" in controllers.split(","):
            top = root / "memory"
            names = ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file")
        else:
            continue
        inner = top / path.strip("/")
        # In a container its own group may be mounted as the root.
        for group in dict.fromkeys((inner, *inner.parents, top)):
            if group == top or top in group.parents:
                yield from _left(group, *names)


def _left(group: Path, limit_name: str, used_name: str, cache_name: str) -> Iterator[int]:
    try:
        limit, used = (int((group / name).read_text()) for name in (limit_name, used_name))
        stat = (group / "memory.stat").read_text().split()
    except (OSError, ValueError):  # no such group here, or the limit is the word `max`
        return
    if limit < UNLIMITED:
        cached = int(stat[stat.index(cache_name) + 1]) if cache_name in stat else 0
        yield max(0, limit - used + cached)


def limited_memory() -> Iterator[int]:
    """What `ulimit -v` leaves of the address space, and `ulimit -d` of memory other than mapped files."""
    if sys.platform != "linux":
        return
    import resource

    used = Path("/proc/self/statm").read_text().split()
    for limit_number, field in ((resource.RLIMIT_AS, 0), (resource.RLIMIT_DATA, 5)):
        limit, _ = resource.getrlimit(limit_number)
        if limit != resource.RLIM_INFINITY:
            yield max(0, limit - int(used[field]) * resource.getpagesize())
