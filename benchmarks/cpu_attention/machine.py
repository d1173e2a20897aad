"""What the benchmark runs on, and whether something else is using it: numbers from a busy machine are worthless."""

import os
import platform
import subprocess
import time
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

ROOT = Path(__file__).parents[2]
TICKS = os.sysconf("SC_CLK_TCK")
OTHERS_LIMIT = 0.05
"""The share of the machine's cores that other processes (and, on a virtual machine, its neighbors) may use."""
PATIENCE = 120.0
"""Seconds that a run waits for a quiet machine before it gives up."""
ALLOCATOR = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "30000000000"}
"""What makes the C library keep memory instead of handing it back after each call: peers at their best."""
HUGE_PAGES = {"THP_MEM_ALLOC_ENABLE": "1"}
"""What makes torch ask the system for pages of 2 MiB instead of 4 KiB, where they must be asked for (`madvise`)."""


class BusyMachineError(Exception):
    """Something else is using the machine."""


@dataclass(frozen=True)
class CpuTimes:
    """CPU seconds used since the machine started, read at one moment."""

    clock: float
    """Seconds of a clock that only goes forward."""
    all: float
    """Used by anything on any core, time stolen by a virtual machine's neighbors included."""
    own: float
    """Used by this process and the children it has waited for."""
    by_process: dict[int, tuple[str, float]] = field(default_factory=dict)
    """Used by each process: its name and seconds."""

    @classmethod
    def now(cls) -> "CpuTimes":
        """Read from /proc; where that is missing, nothing but this process is seen."""
        own = sum(os.times()[:4])
        try:
            first = Path("/proc/stat").read_text().splitlines()[0].split()[1:9]
        except OSError:
            return cls(time.monotonic(), own, own)
        user, nice, system, _idle, _wait, irq, softirq, steal = (int(ticks) / TICKS for ticks in first)
        return cls(time.monotonic(), user + nice + system + irq + softirq + steal, own, _by_process())


@dataclass(frozen=True)
class Use:
    """How much of the machine others used between two moments, and the load then."""

    others: float
    """Share of all cores that was used by others."""
    load: float
    """The load average of the last minute, ours included."""
    names: tuple[tuple[str, float], ...] = ()
    """The other processes that used most, with their shares of one core."""

    def reasons(self, num_cores: int, check_load: bool = False) -> list[str]:
        """Why these numbers are those of a busy machine; empty where it was quiet."""
        found = []
        if self.others > OTHERS_LIMIT:
            who = ", ".join(f"{name} {share:.0%} of a core" for name, share in self.names) or "no process that is seen"
            found.append(f"others use {self.others:.0%} of the machine's {num_cores} cores ({who})")
        if check_load and self.load > num_cores:
            found.append(f"the load average is {self.load:.1f} on {num_cores} cores")
        return found


def use_between(before: CpuTimes, after: CpuTimes, num_cores: int, load: float) -> Use:
    """What others did between two moments."""
    seconds = max(after.clock - before.clock, 1e-9)
    others = max(0.0, (after.all - before.all) - (after.own - before.own)) / (seconds * num_cores)
    used = {
        pid: (name, total - before.by_process.get(pid, (name, 0.0))[1])
        for pid, (name, total) in after.by_process.items()
        if pid != os.getpid()
    }
    top = sorted(((f"{name} ({pid})", spent / seconds) for pid, (name, spent) in used.items()), key=lambda x: -x[1])
    return Use(others, load, tuple((name, share) for name, share in top[:3] if share >= 0.01))


def look(seconds: float = 0.5) -> Use:
    """What others do while this process sleeps."""
    before = CpuTimes.now()
    time.sleep(seconds)
    return use_between(before, CpuTimes.now(), cores(), os.getloadavg()[0])


def wait_until_quiet(*, check_load: bool, force: bool, patience: float = PATIENCE) -> Use:
    """Look until nothing else uses the machine.

    Raises:
        BusyMachineError: something still does after `patience` seconds, and the run is not forced.
    """
    until = time.monotonic() + patience
    while True:
        use = look()
        reasons = use.reasons(cores(), check_load)
        if not reasons or force:
            return use
        if time.monotonic() > until:
            raise BusyMachineError(
                f"the machine is busy: {'; '.join(reasons)}. Wait until it is quiet, or mark the report with --force."
            )
        time.sleep(2)


def cores() -> int:
    """How many cores this machine has."""
    return os.cpu_count() or 1


def free_bytes() -> int:
    """Memory that this process could still take."""
    line = _line_of("/proc/meminfo", "MemAvailable").split()
    return 1024 * int(line[0]) if line[0].isdigit() else 2**63


def facts() -> dict:
    """What the numbers depend on: processor, memory, versions, settings."""
    return {
        "processor": _line_of("/proc/cpuinfo", "model name"),
        "family, model, stepping": [_line_of("/proc/cpuinfo", key) for key in ("cpu family", "model\t", "stepping")],
        "vector_instructions": _vectors(),
        "cores": cores(),
        "caches": _caches(),
        "memory": _line_of("/proc/meminfo", "MemTotal"),
        "huge_pages": _read("/sys/kernel/mm/transparent_hugepage/enabled"),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "versions": {name: _version(name) for name in ("torch", "numpy", "numba", "llvmlite", "torch_geometric")},
    }


def commit() -> dict:
    """The commit that is measured, and whether files differ from it (results apart)."""
    changed = _git("status", "--porcelain", "--", ".", ":!benchmarks/results")
    return {"commit": _git("rev-parse", "HEAD") or "unknown", "changed_files": bool(changed)}


def _by_process() -> dict[int, tuple[str, float]]:
    found = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        try:
            name, _, rest = (folder / "stat").read_text().partition("(")[2].rpartition(")")
        except OSError:  # it has ended
            continue
        user, system = rest.split()[11:13]
        found[int(folder.name)] = (name, (int(user) + int(system)) / TICKS)
    return found


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False)
    except OSError:  # there is no git
        return ""
    return done.stdout.strip()


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _read(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return "unknown"


def _line_of(path: str, key: str) -> str:
    lines = [line for line in _read(path).splitlines() if line.startswith(key)]
    return lines[0].partition(":")[2].strip() if lines else "unknown"


def _vectors() -> str:
    flags = _line_of("/proc/cpuinfo", "flags").split()
    return " ".join(flag for flag in ("avx", "avx2", "fma", "avx512f", "avx512_bf16") if flag in flags) or "unknown"


def _caches() -> dict[str, str]:
    folders = sorted(Path("/sys/devices/system/cpu/cpu0/cache").glob("index*"))
    return {f"L{_read(f'{f}/level')} {_read(f'{f}/type').lower()}": _read(f"{f}/size") for f in folders}
