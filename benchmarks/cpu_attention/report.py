"""The page of results: every table comes from the numbers in attention.json."""

import json
import re
from pathlib import Path
from typing import Any

from cpu_attention.bars import BARS, BOTH, FORWARD, Bar, Data, gather_limit_ms
from cpu_attention.case import OURS
from cpu_attention.suite import PARTS, STUDIES

NAME = "attention"
NUMBERS = re.compile(r"\[\s+-?[\d.e+-]+(?:,\s+-?[\d.e+-]+)*\s+\]")

METHOD = """\
Attention alone, without projections. All peers run in one process, one call of each in turn, after their outputs and
gradients were compared; times are medians, ± is the interquartile range. A ratio is the peer's time over ours in the
same run: how many times as long it takes.

*At their best*, as all rows are that say nothing else: edges sorted by receiver (`EdgeIndex`: PyTorch Geometric is told
so), and an allocator that keeps memory (`MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=30000000000`). *As users call it*:
edges as they come, the default allocator, a process of its own. Our plan (the edges by receiver and by sender) and
`EdgeIndex` are made before. Peak memory: one forward and backward pass in a fresh process with the default allocator,
outputs and gradients included, inputs not. The gather limit is the time in which the machine itself gathers, at random,
the rows that a forward pass needs: 512 bytes for a key, as much for a value where that is another tensor."""


def write(data: Data, folder: Path) -> None:
    """attention.json, attention.md and, where growth was measured, attention_growth.png."""
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps(data, indent=1, ensure_ascii=False)
    text = NUMBERS.sub(lambda found: " ".join(found[0].split()), text)  # a list of numbers on one line
    (folder / f"{NAME}.json").write_text(text + "\n")
    (folder / f"{NAME}.md").write_text(page(data))
    if "points" in data["parts"].get("growth", {}):
        draw_growth(data["parts"]["growth"]["points"], folder / f"{NAME}_growth.png")


def page(data: Data) -> str:
    """The whole page in Markdown."""
    sections = [
        "# Attention on a CPU",
        "Written by `python benchmarks/attention.py` from `attention.json`, which holds every single time.",
        _marks(data),
        _settings(data),
        "## What must be reached\n\n" + bars_table(data),
    ]
    for name, part in data["parts"].items():
        title = PARTS[name].title if name in PARTS else STUDIES[name]
        body = f"Left out: {part['left_out']}." if "left_out" in part else _BODIES.get(name, _cases)(data, part)
        sections.append(f"## {title}\n\n{body}")
    return "\n\n".join(section for section in sections if section) + "\n"


def bars_table(data: Data) -> str:
    """What was asked, what was measured, and whether it is enough."""
    rows = []
    for bar in BARS:
        value = bar.value(data)
        sign = "≤" if bar.at_most else "≥"
        asked = f"{sign} {_bar_number(bar, bar.asked)}"
        goal = "" if bar.goal is None else f"{sign} {_bar_number(bar, bar.goal)}"
        measured = "" if value is None else _bar_number(bar, value)
        rows.append([bar.name, asked, goal, measured, bar.beside(data), bar.verdict(data)])
    return table(["", "asked", "goal", "measured", "beside it", ""], rows)


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown; the first column is text, the others are numbers."""
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def number(value: float | None) -> str:
    """Three digits that count."""
    if value is None:
        return ""
    if value >= 99.95:
        return f"{value:,.0f}"
    return f"{value:.1f}" if value >= 9.995 else f"{value:.2f}" if value >= 0.9995 else f"{value:.3f}"


def _bar_number(bar: Bar, value: float) -> str:
    return f"{value:.0%}" if bar.percent else f"{value:.2f}×"


def _marks(data: Data) -> str:
    """What a reader must know before believing a number."""
    found = [
        f"- {name}: **{part['measured']['status']}**: {'; '.join(part['measured']['problems'])}"
        for name, part in data["parts"].items()
        if part["measured"]["status"] != "quiet"
    ]
    tiny = [name for name, part in data["parts"].items() if part["measured"]["quick"]]
    said = [f"**Tiny sizes, numbers without meaning: {', '.join(tiny)}.**"] if tiny else []
    if found:
        said.append("**Not all of this was measured on a quiet machine:**\n\n" + "\n".join(found))
    return "\n\n".join(said)


def _settings(data: Data) -> str:
    machine = data["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    caches = ", ".join(f"{name} {size}" for name, size in machine["caches"].items())
    commits = {(p["measured"]["commit"][:9], p["measured"]["changed_files"]) for p in data["parts"].values()}
    said = ", ".join(f"`{commit}`{' with changed files' if changed else ''}" for commit, changed in sorted(commits))
    ours = ", ".join(sorted({part["measured"]["ours"] for part in data["parts"].values()}))
    return (
        f"{machine['cores']} cores of {machine['processor']} ({machine['vector_instructions']}), {caches}, memory "
        f"{machine['memory']}, Linux {machine['kernel']}, Python {machine['python']}, {versions}. Commit {said}; "
        f"backend {ours}; {data['settings']['threads']} threads for everyone.\n\n{METHOD}"
    )


def _cases(data: Data, part: Data) -> str:
    """A table with a block of rows for each case."""
    records = part["cases"]
    limited = any(record.get("table") for record in records.values())
    weighed = any("memory_mib" in peer for record in records.values() for peer in record["peers"].values())
    head = ["", "", "forward, ms", "ratio", "forward + backward, ms", "ratio"]
    head += ["of the gather limit"] * limited + ["peak, MiB", "ratio"] * weighed
    rows = []
    for case, record in records.items():
        ours = record["peers"][OURS]
        for n, (name, peer) in enumerate(record["peers"].items()):
            row = [case if n == 0 else "", name, *_times(peer, ours)]
            row += [_share(data, record, peer)] * limited
            row += [number(peer.get("memory_mib")), _over(peer.get("memory_mib"), ours.get("memory_mib"))] * weighed
            rows.append(row)
        users = record.get("as_users", {}).get("peers", {})
        for name, peer in users.items():
            row = ["", f"*{name}, as users call it*", *_times(peer, users[OURS])]
            rows.append(row + [""] * (len(head) - len(row)))
        rows += [["", name, f"{reason}", *[""] * (len(head) - 3)] for name, reason in record["skipped"].items()]
    return "\n\n".join(filter(None, [_graph_line(records), table(head, rows), _notes(records)]))


def _graph_line(records: Data) -> str:
    facts = next(iter(records.values()))["facts"]
    if "edges" not in facts:
        return ""
    return (
        f"{facts['nodes']:,} nodes, {facts['edges']:,} edges, largest in-degree {facts['largest_degree']:,}, "
        f"{facts['nodes_without_edges']:,} nodes without edges; {facts['origin']}."
    )


def _notes(records: Data) -> str:
    plans = [record["plan_ms"] for record in records.values() if record.get("plan_ms") is not None]
    notes = (
        [f"Our edges, checked and planned once a graph: {number(sorted(plans)[len(plans) // 2])} ms."] if plans else []
    )
    chosen = {case: r["facts"]["left_to_itself"] for case, r in records.items() if "left_to_itself" in r["facts"]}
    notes += [f"{case}: left to itself edgewise runs {name}." for case, name in chosen.items()]
    worst = max((off for r in records.values() for off in r["largest_difference"].values()), default=None)
    allowed = max(record["tolerance"] for record in records.values())
    if worst is not None:
        notes.append(f"Largest difference between two peers: {worst:.0e} of the largest value, {allowed:.0e} allowed.")
    return " ".join(notes)


def _times(peer: Data, ours: Data) -> list[str]:
    found = []
    for mode in (FORWARD, BOTH):
        median, spread = peer[mode]["median_ms"], peer[mode]["spread_ms"]
        found += [
            f"{number(median)} ± {number(spread)}",
            "" if peer is ours else _over(median, ours[mode]["median_ms"]),
        ]
    return found


def _over(theirs: float | None, ours: float | None) -> str:
    return f"{theirs / ours:.2f}×" if theirs and ours and theirs is not ours else ""


def _share(data: Data, record: Data, peer: Data) -> str:
    limit = gather_limit_ms(data, record)
    return f"{limit / peer[FORWARD]['median_ms']:.0%}" if limit and peer is record["peers"][OURS] else ""


def _limits(data: Data, part: Data) -> str:
    rows = [
        [f"sequential, {name}", "", *(number(values[n]) for n in ("1", "2")), ""]
        for name, values in part["sequential"].items()
    ]
    for name, found in part["gather"].items():
        ahead = " / ".join(f"{found['distance'][n]}, L{found['cache'][n]}" for n in ("1", "2"))
        rates = [number(found["gb_per_s"][n]) for n in ("1", "2")]
        rows.append([f"gather of 512-byte rows, {name}", f"2 × {found['table_mib']:.1f}", *rates, ahead])
    return table(["", "tables, MiB", "1 thread, GB/s", "2 threads, GB/s", "rows asked for ahead"], rows)


def _growth(data: Data, part: Data) -> str:
    rows = []
    for point in part["points"]:
        ours, edges = point["peers"][OURS], point["edges"]
        per_edge = [1e6 * ours[mode]["median_ms"] / edges for mode in (FORWARD, BOTH)]
        limit = point["gathered_bytes"] / point["gather_gb_per_s"] * 1e-6
        others = [peer for name, peer in point["peers"].items() if name != OURS]
        theirs = [_over(others[0][m]["median_ms"], ours[m]["median_ms"]) if others else "" for m in (FORWARD, BOTH)]
        cells = [number(ours[FORWARD]["median_ms"]), number(per_edge[0]), theirs[0]]
        cells += [number(ours[BOTH]["median_ms"]), number(per_edge[1]), theirs[1]]
        share = f"{limit / ours[FORWARD]['median_ms']:.0%}"
        rows.append([f"{edges:,}", *cells, share, number(point["gather_gb_per_s"]), number(point["plan_ms"])])
    head = ["edges", "forward, ms", "ns an edge", "PyG"]
    head += ["forward + backward, ms", "ns an edge", "PyG", "of the gather limit", "gather, GB/s", "plan, ms"]
    text = "Dot products, seven random senders a node, 8 heads of 16.\n\n"
    return text + table(head, rows)


def _drawn_growth(data: Data, part: Data) -> str:
    return _growth(data, part) + "\n\n![Time against the number of edges](attention_growth.png)"


def _huge_pages(data: Data, part: Data) -> str:
    text = (
        "The same with `THP_MEM_ALLOC_ENABLE=1`: torch then asks Linux for pages of 2 MiB, which spares walks through "
        "page tables when rows lie far apart, and most page faults when gradients of a gigabyte are made. Worth "
        "setting where graphs are large.\n\n"
    )
    return text + _growth(data, part)


def _threads(data: Data, part: Data) -> str:
    rows = []
    for name, by_count in part["cases"].items():
        one, two = by_count["1"]["peers"], by_count["2"]["peers"]
        for peer in one:
            cells: list[Any] = []
            for mode in (FORWARD, BOTH):
                slow, fast = one[peer][mode]["median_ms"], two[peer][mode]["median_ms"]
                cells += [number(slow), number(fast), f"{slow / fast:.2f}×"]
            rows.append([f"{name}, {peer}", *cells])
    head = ["", "forward, 1 thread, ms", "2 threads", "gain", "forward + backward, 1 thread, ms", "2 threads", "gain"]
    return table(head, rows)


def _training(data: Data, part: Data) -> str:
    backends = part["backends"]
    own = backends["auto"]["median_ms"]
    rows = [
        [
            name,
            f"{number(b['median_ms'])} ± {number(b['spread_ms'])}",
            f"{b['median_ms'] / own:.2f}×",
            f"{b['loss']:.4f}",
        ]
        for name, b in backends.items()
    ]
    text = (
        f"{part['rows']} training rows, batches, loss, optimizer and the plan of every batch included, "
        f"{part['threads']} thread as in training. The backend `reference` is left out: it holds a table of nodes by "
        "edges.\n\n"
    )
    return text + table(["backend", "an epoch, ms", "over auto", "mean loss"], rows)


_BODIES = {
    "limits": _limits,
    "growth": _drawn_growth,
    "huge_pages": _huge_pages,
    "threads": _threads,
    "training": _training,
}


def draw_growth(points: list[Data], path: Path) -> None:
    """Time against the number of edges, both on a logarithmic axis."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 4), dpi=150)
    for mode, marker in ((FORWARD, "o"), (BOTH, "s")):
        for peer in points[0]["peers"]:
            there = [point for point in points if peer in point["peers"]]
            edges = [point["edges"] for point in there]
            seconds = [point["peers"][peer][mode]["median_ms"] / 1000 for point in there]
            style = "-" if peer == OURS else ":"
            axes.loglog(edges, seconds, style + marker, label=f"{peer}, {mode.replace('_', ' + ')}", markersize=4)
    first = points[0]["peers"][OURS][FORWARD]["median_ms"] / 1000 / points[0]["edges"]
    ends = [points[0]["edges"], points[-1]["edges"]]
    axes.loglog(ends, [first * end for end in ends], color="0.7", linewidth=1, label="linear")
    axes.set(xlabel="edges", ylabel="seconds", title="Dot-product attention, degree 7, 8 heads of 16")
    axes.legend(fontsize=7)
    axes.grid(True, which="major", alpha=0.3)
    figure.tight_layout()
    figure.savefig(path)
    pyplot.close(figure)
