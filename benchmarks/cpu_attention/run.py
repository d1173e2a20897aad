"""Measure one part of the suite on a machine that nobody else uses."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from cpu_attention import machine, studies, tasks
from cpu_attention.case import OURS
from cpu_attention.graphs import MissingDataError
from cpu_attention.machine import wait_until_quiet
from cpu_attention.measure import agree, timed, without_what_fails_to_compile
from cpu_attention.options import NUM_THREADS, Options
from cpu_attention.process import give_back
from cpu_attention.report import NAME
from cpu_attention.suite import PARTS, Entry, Weighed

RUN_STUDY: dict[str, Callable[[Options], dict]] = {
    "limits": studies.machine_limits,
    "growth": studies.growth,
    "huge_pages": tasks.growth_with_huge_pages,
    "threads": studies.threads,
    "training": studies.training,
}


class RefusedMergeError(Exception):
    """Results of two machines do not go into one table."""


def begin(folder: Path | None, options: Options) -> dict[str, Any]:
    """An empty record of this machine, or the one in the folder.

    Raises:
        RefusedMergeError: the record there is of another machine, or of other versions.
    """
    facts = machine.facts()
    settings = {"threads": NUM_THREADS, "allocator": machine.ALLOCATOR, "heads": "8 of 16"}
    data: dict[str, Any] = {"machine": facts, "settings": settings, "parts": {}}
    path = None if folder is None else folder / f"{NAME}.json"
    if path is None or not path.is_file():
        return data
    kept = json.loads(path.read_text())
    if kept["machine"] != facts:
        differs = ", ".join(key for key in facts if kept["machine"].get(key) != facts[key])
        raise RefusedMergeError(
            f"{path} was measured elsewhere ({differs} differ); measure everything, or name another folder with --out."
        )
    return data | {"parts": kept["parts"]}


def measure_part(name: str, options: Options, *, first: bool, say: Callable[[str], None]) -> dict[str, Any]:
    """The record of one part, with what was known of the machine before and after.

    Raises:
        BusyMachineError: something else uses the machine, and the run is not forced.
        DisagreementError: two peers do not compute the same.
    """
    relaxed = options.force or options.quick
    before = wait_until_quiet(check_load=first, force=relaxed)
    try:
        part = RUN_STUDY[name](options) if name in RUN_STUDY else _cases(name, options, say)
    except MissingDataError as error:
        part = {"left_out": str(error)}
    after = machine.look()
    problems = before.reasons(machine.cores(), first) + after.reasons(machine.cores()) + part.pop("problems", [])
    busy = any("others use" in problem or "load average" in problem for problem in problems)
    part["measured"] = {
        **machine.commit(),
        "ours": options.ours,
        "quick": options.quick,
        "status": ("busy" if busy else "unsteady") if problems else "quiet",
        "problems": problems,
        "others_before": round(before.others, 4),
        "others_after": round(after.others, 4),
        "load_before": before.load,
        "load_after": after.load,
    }
    return part


def _cases(name: str, options: Options, say: Callable[[str], None]) -> dict[str, Any]:
    records, problems = {}, []
    for case, entry in PARTS[name].entries.items():
        began = time.perf_counter()
        record = measure_case(name, case, entry, options)
        say(f"  {name}, {case}: {time.perf_counter() - began:.0f} s, attempt {record['attempts']}")
        records[case] = record
        problems += [f"{case}: {problem}" for problem in record["problems"]]
    users = [case for case, entry in PARTS[name].entries.items() if entry.as_users]
    for case, record in (tasks.as_users(name, users, options) if users else {}).items():
        records[case]["as_users"] = record
        problems += [f"{case}, as users call it: {problem}" for problem in record["problems"]]
    return {"cases": records, "problems": problems}


def weighed(names: list[str], which: Weighed) -> list[str]:
    """The peers whose peak memory is measured."""
    layers = [name for name in names if name == OURS or name.startswith("PyG")]
    return {"none": [], "layers": layers, "all": names}[which]


def measure_case(part: str, name: str, entry: Entry, options: Options) -> dict[str, Any]:
    """Compare, time, and measure the peak memory of every peer."""
    case = without_what_fails_to_compile(entry.build(options, True))
    differences = agree(case)
    record: dict[str, Any] = {
        "facts": case.facts,
        "tolerance": case.tolerance,
        "largest_difference": differences,
        "table": case.table,
        "gathered_bytes": case.gathered_bytes,
        "plan_ms": case.plan_ms,
        "skipped": case.skipped,
        **timed(case, options.pace),
    }
    names = weighed(list(case.peers), entry.memory)
    del case
    give_back()  # the children need the memory, and the next case a heap that is not in pieces
    if names:
        for peer, mib in tasks.peaks(part, name, names, options).items():
            record["peers"][peer]["memory_mib"] = mib
    return record
