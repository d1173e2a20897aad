"""The page of results: every table comes from the numbers in gpu.json; where there are none, it says so."""

import json
import re
from pathlib import Path
from typing import Any

from gpu_attention.case import BOTH, FORWARD, MODES, OURS
from gpu_attention.floors import share
from gpu_attention.limits import ROWS, TABLES
from gpu_attention.step import CALLED, COMPILED, MODELS, WAYS
from gpu_attention.suite import PARTS, STUDIES
from gpu_attention.targets import NOT_YET, TARGETS, Data, held_ratio, peer_of, step_of

NAME = "gpu"
NUMBERS = re.compile(r"\[\s+-?[\d.e+-]+(?:,\s+-?[\d.e+-]+)*\s+\]")

METHOD = """\
Attention alone, without projections. All peers run in one process, one call of each in turn, by events of the device,
after their results were compared with float64; times are medians, ± is the interquartile range. 256 MiB are written
before each call, so that inputs come from memory, as they do between the other layers of a model. A ratio is the peer's
time over ours in the same run. *Replayed* is the same call captured as a CUDA graph: its kernels without what it takes
to start them one by one. Edges are sorted by receiver, and our plan is made before. PyTorch Geometric's ways are
TransformerConv and GATv2Conv between their projections; its features of edges join keys and values under dot products,
the keys alone under GATv2, and so do ours.

*Memory* is what a call is given and what it takes beside that at its peak, over what it is given and what it returns.
The plan, four numbers of 32 bits an edge and some a node, is made before and in neither.
*Of the floor* is the time in which the bytes that must move could be copied at the measured bandwidth, over ours: with
every gather from memory, and with every tensor read or written once (`benchmarks/gpu_attention/floors.py`). *Launches*
are kernels that a call starts. *Off* is how far results lie from float64 at most, as a part of the largest value of
each output and gradient, for a few rows and all that reaches them; a number in bold is more than is allowed to us."""

STEPS = """\
A step is forward, loss, backward and optimizer on one and the same batch; gradients are clipped, but for GAT. *Called*
is plain PyTorch. *Compiled* has the loss as one program, ours as `edgewise train --compile` makes it, peers' as
torch.compile does by default. *Captured* is the whole step as one CUDA graph, which is launched once. A step that waits
for the device cannot be captured."""


def write(data: Data, folder: Path) -> None:
    """gpu.json and gpu.md."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(data, indent=1, ensure_ascii=False)
    text = NUMBERS.sub(lambda found: " ".join(found[0].split()), text)  # a list of numbers on one line
    (folder / f"{NAME}.json").write_text(text + "\n")
    (folder / f"{NAME}.md").write_text(page(data))


def read(folder: Path) -> Data:
    """The content of gpu.json; empty where nothing was measured."""
    path = folder / f"{NAME}.json"
    return json.loads(path.read_text()) if path.is_file() else {}


def page(data: Data) -> str:
    """The whole page in Markdown."""
    sections = [
        "# Attention on a GPU",
        "Written by `python benchmarks/gpu.py` from `gpu.json`, which holds every single time, on a machine with one "
        "CUDA GPU (`make bench-gpu`).",
        _settings(data),
        METHOD,
        _notes(data),
        "## What must be shown, on one H200\n\n" + targets_table(data),
        f"## {STUDIES['limits']}\n\n" + _limits(data),
        *(f"## {part.title}\n\n" + _cases(data, name) for name, part in PARTS.items()),
        f"## {STUDIES['step']}\n\n" + _steps(data),
    ]
    return "\n\n".join(section for section in sections if section) + "\n"


def targets_table(data: Data) -> str:
    """What was asked, what was measured, and whether it is enough."""
    rows = []
    for target in TARGETS:
        replayed = "–" if target.replayed is None else target.replayed(data).words
        rows.append([target.name, target.asked, target.called(data).words, replayed, target.verdict(data)])
    return _table(["", "asked", "measured", "replayed", "met"], rows)


def number(value: float) -> str:
    """Three digits that count."""
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}" if value >= 0.9995 else f"{value:.3f}"


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def _settings(data: Data) -> str:
    if not data.get("machine"):
        return f"**{NOT_YET.capitalize()}**: no GPU was at hand."
    machine = data["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    parts = [part["measured"] for part in data["parts"].values()]
    commits = sorted({(part["commit"][:9], part["changed_files"]) for part in parts})
    said = ", ".join(f"`{commit}`{' with changed files' if changed else ''}" for commit, changed in commits)
    backends = ", ".join(sorted({part["ours"] for part in parts}))
    tiny = [name for name, part in data["parts"].items() if part["measured"]["quick"]]
    mark = f"**Tiny sizes, numbers without meaning: {', '.join(tiny)}.**\n\n" if tiny else ""
    return (
        f"{mark}{machine['gpu']} ({machine['multiprocessors']} multiprocessors, second cache {machine['l2_mib']:g} "
        f"MiB, {machine['memory_gib']:g} GiB), CUDA {machine['cuda']}, Python {machine['python']}, {versions}. Commit "
        f"{said}; backend {backends}."
    )


def _notes(data: Data) -> str:
    """What was cut or failed."""
    lines = [f"- {name}: {note}" for name, part in data.get("parts", {}).items() for note in part["measured"]["notes"]]
    return "**Not all that was asked for was measured:**\n\n" + "\n".join(lines) if lines else ""


def _limits(data: Data) -> str:
    found = data.get("parts", {}).get("limits", {}).get("limits") or {}
    copy = found.get("copy_gb_per_s")
    rows = [["copy, bytes read and written", NOT_YET if copy is None else number(copy)]]
    for place in TABLES:
        for row in ROWS:
            rate = found.get("gather_gb_per_s", {}).get(place, {}).get(str(row))
            rows.append([f"gather of {row}-byte rows, {place}", NOT_YET if rate is None else number(rate)])
    return _table(["", "GB/s"], rows)


def _cases(data: Data, part: str) -> str:
    """A table with a block of rows for each case that was measured; before it a line about the graph, and after it one
    about peers that came later."""
    replays, measured = PARTS[part].replays, data.get("parts", {}).get(part, {}).get("cases", {})
    head = ["case", "", "forward, ms", "ratio", *["replayed, ms"] * replays]
    head += ["forward + backward, ms", "ratio", *["replayed, ms"] * replays]
    head += ["memory, forward / both", "of the floor, gathered", "of the floor, once", "launches", "off"]
    rows: list[list[str]] = []
    missing: dict[str, None] = {}
    for case, entry in PARTS[part].entries.items():
        if measured and case not in measured:
            continue  # the notes say why
        for peer in entry.peers:
            row = _row(data, part, case, peer)
            if row or not measured:
                rows.append([case, peer, *(row if row else [NOT_YET] * (len(head) - 2))])
            else:
                missing[peer] = None
    later = f"{'; '.join(missing)}: {NOT_YET}." if missing else ""
    return "\n\n".join(filter(None, [_graph_line(data, part), _table(head, rows), later]))


def _graph_line(data: Data, part: str) -> str:
    cases = data.get("parts", {}).get(part, {}).get("cases", {})
    lines = []
    for record in cases.values():
        facts = record["facts"]
        if "edges" in facts:
            lines.append(
                f"{facts['nodes']:,} nodes, {facts['edges']:,} edges, largest in-degree {facts['largest_degree']:,}, "
                f"{facts['nodes_without_edges']:,} nodes without edges; {facts['origin']}."
            )
        elif "left_to_itself" in facts:
            lines.append(f"Left to itself edgewise runs {facts['left_to_itself']}.")
    return "\n\n".join(dict.fromkeys(lines))


def _row(data: Data, part: str, case: str, peer: str) -> list[str]:
    """The cells of a peer; none where the case was not measured."""
    found = {mode: peer_of(data, part, case, peer, mode) for mode in MODES}
    if not all(found.values()):
        return []
    cells = []
    for mode in MODES:
        ours = peer_of(data, part, case, OURS, mode)
        cells += [_time(found[mode]), "" if peer == OURS else _ratio(found[mode], ours)]
        cells += [_time(found[mode]["replay"]) if "replay" in found[mode] else "–"] * PARTS[part].replays
    ratios = (held_ratio(data, part, case, peer, mode) for mode in MODES)
    cells.append(" / ".join("–" if ratio is None else f"{ratio:.2f}" for ratio in ratios))
    cells += [_floor(data, part, case, found, kind) for kind in ("gathered", "once")]
    launches = [found[mode].get("launches") for mode in MODES]
    cells.append("–" if launches == [None, None] else " / ".join("–" if n is None else f"{n}" for n in launches))
    tolerance = data["parts"][part]["cases"][case]["tolerance"]
    offs = [found[mode]["difference"] for mode in MODES if found[mode].get("difference") is not None]
    cells.append("–" if not offs else f"{max(offs):.0e}" if max(offs) <= tolerance else f"**{max(offs):.0e}**")
    return cells


def _time(times: Data) -> str:
    if "median_ms" not in times:
        return times.get("failed", NOT_YET)
    return f"{number(times['median_ms'])} ± {number(times['spread_ms'])}"


def _ratio(theirs: Data, ours: Data) -> str:
    if "median_ms" not in theirs or "median_ms" not in ours:
        return "–"
    return f"{theirs['median_ms'] / ours['median_ms']:.2f}×"


def _floor(data: Data, part: str, case: str, found: dict[str, Any], kind: str) -> str:
    """Shares of the floor, forward and both; where the bandwidth is known."""
    copy = (data["parts"].get("limits", {}).get("limits") or {}).get("copy_gb_per_s")
    floors = data["parts"][part]["cases"][case]["floor_bytes"]
    shares = []
    for mode in (FORWARD, BOTH):
        times, moved = found[mode].get("replay", found[mode]), floors.get(mode, {}).get(kind)
        times = times if "median_ms" in times else found[mode]
        known = copy is not None and moved is not None and "median_ms" in times
        shares.append(f"{share(moved, copy, times['median_ms']):.0%}" if known else "–")
    return "–" if shares == ["–", "–"] else " / ".join(shares)


def _steps(data: Data) -> str:
    """A table with a row for each model and who trains it; a line about the batches before it."""
    rows = []
    for model, peers in MODELS.items():
        for peer in peers:
            row = [model, peer]
            for way in WAYS:
                found = step_of(data, model, peer, way)
                row.append(_time(found))
                if way in (CALLED, COMPILED):
                    launches = found.get("launches")
                    row.append(NOT_YET if not found else "–" if launches is None else f"{launches:,}")
            rows.append(row)
    head = ["case", "", "called, ms", "launches", "compiled, ms", "launches", "captured, ms", "compiled, captured, ms"]
    known = data.get("parts", {}).get("step", {}).get("facts") or {}
    lines = [f"{model}: {', '.join(_fact(*fact) for fact in sizes.items())}." for model, sizes in known.items()]
    return "\n\n".join(filter(None, [STEPS, "\n".join(f"- {line}" for line in lines), _table(head, rows)]))


def _fact(name: str, value: int | str) -> str:
    return value if isinstance(value, str) else f"{value:,} {name.replace('_', ' ')}"
