"""Processor seconds of the tests, by file: `--cpu-times FILE` writes them, `make durations` does so for all tests.

Seconds of the processor, of the test's process and of the processes that it started and waited for, do not depend on
what else the machine is doing; seconds on the wall do.
"""

import collections
import json
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest


class CpuTimes:
    """Measures each phase of each test; the process that writes the report adds them up."""

    def __init__(self, config: pytest.Config, path: Path):
        self.config = config
        self.path = path
        self.is_worker = hasattr(config, "workeroutput")
        self.last = 0.0
        self.by_file: dict[str, float] = collections.Counter()
        self.by_test: dict[str, float] = collections.Counter()
        self.outside = {"collection": 0.0, "peak GiB": 0.0}

    def pytest_collection_finish(self) -> None:
        self.last = self.outside["collection"] = cpu_seconds()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Iterator[None]:
        report = yield
        before, self.last = self.last, cpu_seconds()
        report.user_properties.append(("cpu seconds", self.last - before))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if self.is_worker:
            return
        seconds = dict(report.user_properties).get("cpu seconds", 0.0)
        self.by_file[report.nodeid.split("::")[0]] += seconds
        self.by_test[report.nodeid] += seconds

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        outside = getattr(node, "workeroutput", {}).get("outside", {})
        self.outside["collection"] += outside.get("collection", 0.0)
        self.outside["peak GiB"] = max(self.outside["peak GiB"], outside.get("peak GiB", 0.0))

    def pytest_sessionfinish(self) -> None:
        self.outside["peak GiB"] = max(self.outside["peak GiB"], peak_gigabytes())
        if self.is_worker:
            self.config.workeroutput["outside"] = self.outside  # type: ignore[attr-defined]

    def pytest_unconfigure(self) -> None:
        if self.is_worker:
            return
        slowest = sorted(self.by_test, key=self.by_test.__getitem__, reverse=True)[:20]
        times = {
            "cpu seconds": round(sum(self.by_file.values()) + self.outside["collection"]),
            "collection": round(self.outside["collection"], 1),
            "peak GiB": round(self.outside["peak GiB"], 2),
            "tests": len(self.by_test),
            "slowest": {name: round(self.by_test[name], 1) for name in slowest},
            "files": {name: round(seconds, 1) for name, seconds in sorted(self.by_file.items())},
        }
        self.path.write_text(json.dumps(times, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def cpu_seconds() -> float:
    """Processor seconds of this process and of the children that it waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def peak_gigabytes() -> float:
    """The most memory that this process ever held."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
