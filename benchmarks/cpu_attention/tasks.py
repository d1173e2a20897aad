"""What runs in a process of its own: a case as users call it, the peak memory of one peer, growth with huge pages."""

from dataclasses import asdict, replace

import torch

from cpu_attention.case import COMPILED, OURS, Case
from cpu_attention.machine import ALLOCATOR, HUGE_PAGES
from cpu_attention.measure import BOTH, agree, computed, timed
from cpu_attention.options import NUM_THREADS, Options
from cpu_attention.process import give_back, in_child, memory, reset_peak
from cpu_attention.pyg import TOLD
from cpu_attention.studies import growth
from cpu_attention.suite import PARTS


def as_users(part: str, cases: list[str], options: Options) -> dict[str, dict]:
    """The records of ours and PyTorch Geometric with edges as they come and the default allocator."""
    return in_child("as_users", part=part, cases=cases, options=asdict(options))


def peaks(part: str, case: str, names: list[str], options: Options) -> dict[str, float]:
    """MiB that each peer needs for one forward and backward pass, outputs and gradients included, inputs not."""
    requests = {name: {"part": part, "case": case, "peer": name, "options": asdict(options)} for name in names}
    return {name: in_child("peak", **request)["mib"] for name, request in requests.items()}


def growth_with_huge_pages(options: Options) -> dict:
    """`studies.growth` where torch asks for huge pages: memory far apart is then found without walks through tables."""
    return in_child("growth", settings=ALLOCATOR | HUGE_PAGES, options=asdict(options))


def run_as_child(request: dict) -> dict:
    """Do what the parent asked for."""
    torch.set_num_threads(NUM_THREADS)
    task, options = request["task"], Options(**request["options"])
    if task == "growth":
        return growth(options)
    entries = PARTS[request["part"]].entries
    if task == "as_users":
        return {name: _as_users(entries[name].build(options, False), options) for name in request["cases"]}
    entry = entries[request["case"]]
    _once(entry.build(replace(options, quick=True), True), request["peer"])
    case = entry.build(options, True)
    if request["peer"] == COMPILED:  # it compiles for these very sizes
        _once(case, COMPILED)
    return {"mib": peak_of(case, request["peer"])}


def _as_users(case: Case, options: Options) -> dict:
    case = only_users_peers(case)
    agree(case)
    record = timed(case, replace(options.pace, seconds=0.5, least=5))
    del case
    give_back()
    return record


def only_users_peers(case: Case) -> Case:
    """The case with ours and the layer of PyTorch Geometric as it is called by everyone."""
    kept = {name: peer for name, peer in case.peers.items() if name == OURS or name.startswith("PyG")}
    return replace(case, peers={name: peer for name, peer in kept.items() if not name.endswith(TOLD)})


def peak_of(case: Case, name: str) -> float:
    """The most memory that one call takes beyond what was there before it, in MiB."""
    give_back()
    before = reset_peak()
    results = computed(case.peers[name], BOTH, case.cotangent)
    after = memory("VmHWM")
    del results
    return round((after - before) / 2**20, 1)


def _once(case: Case, name: str) -> None:
    """One call that loads and compiles what is loaded and compiled at the first."""
    computed(case.peers[name], BOTH, case.cotangent)
