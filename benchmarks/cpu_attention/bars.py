"""What must be reached, and whether it was: computed from the numbers of a run, never written by hand."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from cpu_attention.case import OURS, OURS_IN_FLOAT32

FORWARD, BOTH = "forward", "forward_backward"
Data = dict[str, Any]
"""The content of attention.json."""


@dataclass(frozen=True)
class Bar:
    """One thing that must be reached."""

    name: str
    """Of what."""
    asked: float
    """The least that is enough, or the most."""
    goal: float | None
    """What one would like."""
    value: Callable[[Data], float | None]
    """What was measured; None where it was not."""
    beside: Callable[[Data], str] = lambda data: ""
    """What one should know with it."""
    at_most: bool = False
    """Whether less is better."""
    percent: bool = False
    """Whether it is a share."""

    def verdict(self, data: Data) -> str:
        """Goal reached, reached, missed, or not measured."""
        value = self.value(data)
        if value is None:
            return "not measured"
        if self.goal is not None and self.holds(value, self.goal):
            return "goal reached"
        return "reached" if self.holds(value, self.asked) else "**missed**"

    def holds(self, value: float, limit: float) -> bool:
        """Whether a value is on the right side of a limit."""
        return value <= limit if self.at_most else value >= limit


def peers_of(data: Data, part: str, case: str) -> Data:
    """The peers of a case; none where it was not measured."""
    return data["parts"].get(part, {}).get("cases", {}).get(case, {}).get("peers", {})


def pyg_names(peers: Data) -> list[str]:
    """The peers that are layers of PyTorch Geometric."""
    return [name for name in peers if name.startswith("PyG")]


def times_faster(peers: Data, mode: str, others: list[str]) -> float | None:
    """How many times our time the fastest of the others takes."""
    found = [peers[name][mode]["median_ms"] for name in others if mode in peers.get(name, {})]
    return min(found) / peers[OURS][mode]["median_ms"] if found and mode in peers.get(OURS, {}) else None


def gather_share(data: Data, part: str, case: str) -> float | None:
    """Our forward time as a share of the limit: what the machine's own gather of the same bytes takes."""
    record = data["parts"].get(part, {}).get("cases", {}).get(case, {})
    limit = gather_limit_ms(data, record)
    ours = record.get("peers", {}).get(OURS, {}).get(FORWARD)
    return limit / ours["median_ms"] if limit is not None and ours else None


def gather_limit_ms(data: Data, record: Data) -> float | None:
    """What gathering the bytes of a forward pass takes with two threads, in ms."""
    gather = data["parts"].get("limits", {}).get("gather", {}).get(record.get("table") or "")
    return record["gathered_bytes"] / gather["gb_per_s"]["2"] * 1e-6 if gather else None


def _ratio(name: str, part: str, case: str, mode: str, asked: float, goal: float) -> Bar:
    def value(data: Data) -> float | None:
        peers = peers_of(data, part, case)
        return times_faster(peers, mode, pyg_names(peers)[:1])

    def beside(data: Data) -> str:
        peers = peers_of(data, part, case)
        fastest = times_faster(peers, mode, pyg_names(peers))
        return f"{fastest:.2f}× its sorted `EdgeIndex`, where that is faster" if fastest else ""

    return Bar(f"{name}, {_said(mode)}, against PyG", asked, goal, value, beside)


def _against(name: str, part: str, case: str, mode: str, other: str, asked: float) -> Bar:
    return Bar(
        f"{name}, {_said(mode)}",
        asked,
        None,
        lambda data: times_faster(peers_of(data, part, case), mode, [other]),
    )


def _memory_ratio(data: Data) -> float | None:
    peers = peers_of(data, "power_law", "dot")
    others = [peers[name]["memory_mib"] for name in pyg_names(peers) if "memory_mib" in peers[name]]
    return min(others) / peers[OURS]["memory_mib"] if others and "memory_mib" in peers.get(OURS, {}) else None


def _dispatch_ratio(data: Data) -> float | None:
    ratios = [
        times_faster(record["peers"], mode, [name for name in record["peers"] if name != OURS])
        for record in data["parts"].get("dispatch", {}).get("cases", {}).values()
        for mode in (FORWARD, BOTH)
    ]
    found = [ratio for ratio in ratios if ratio]
    return 1 / min(found) if found else None


def _growth(mode: str) -> Callable[[Data], float | None]:
    def value(data: Data) -> float | None:
        ends = _decade(data, "growth")
        return ends and _per_edge(ends[1], mode) / _per_edge(ends[0], mode)

    return value


def _beside_growth(mode: str) -> Callable[[Data], str]:
    """How the machine's own gather grows, and ours with huge pages."""

    def words(data: Data) -> str:
        ends, huge = _decade(data, "growth"), _decade(data, "huge_pages")
        gather = ends and ends[0]["gather_gb_per_s"] / ends[1]["gather_gb_per_s"]
        with_huge = huge and _per_edge(huge[1], mode) / _per_edge(huge[0], mode)
        said = {"the machine's gather": gather, "with huge pages": with_huge}
        return "; ".join(f"{name}: {ratio:.2f}×" for name, ratio in said.items() if ratio)

    return words


def _decade(data: Data, part: str) -> tuple[Data, Data] | None:
    """The points at 10⁶ and 10⁷ edges."""
    points = data["parts"].get(part, {}).get("points", [])
    found = [[p for p in points if abs(p["edges"] / edges - 1) < 0.01] for edges in (1e6, 1e7)]
    return (found[0][0], found[1][0]) if all(found) else None


def _per_edge(point: Data, mode: str) -> float:
    return point["peers"][OURS][mode]["median_ms"] / point["edges"]


def _said(mode: str) -> str:
    return "forward" if mode == FORWARD else "forward + backward"


BARS: tuple[Bar, ...] = (
    _ratio("(a) dot", "power_law", "dot", FORWARD, 4.0, 5.0),
    _ratio("(a) dot", "power_law", "dot", BOTH, 3.3, 4.2),
    _ratio("(b) dot", "molecules", "dot", FORWARD, 4.0, 5.5),
    _ratio("(b) dot", "molecules", "dot", BOTH, 3.0, 4.5),
    _ratio("(c) dot", "cora", "dot", FORWARD, 4.5, 7.0),
    _ratio("(c) dot", "cora", "dot", BOTH, 3.0, 5.0),
    _ratio("(a) GATv2", "power_law", "gatv2", FORWARD, 5.0, 8.0),
    _ratio("(a) GATv2", "power_law", "gatv2", BOTH, 3.5, 5.5),
    _against("additive, L = 1,024, against eager", "additive", "L = 1,024", FORWARD, "eager torch", 20),
    _against("additive, L = 1,024, against eager", "additive", "L = 1,024", BOTH, "eager torch", 10),
    Bar("(a) dot, peak memory of forward + backward: PyG's over ours", 10, None, _memory_ratio),
    Bar("dot over ranges: our time over torch SDPA's, at worst", 1.05, None, _dispatch_ratio, at_most=True),
    Bar(
        "(a) dot, forward: share of the gather limit",
        0.70,
        0.85,
        lambda data: gather_share(data, "power_law", "dot"),
        percent=True,
    ),
    _against("(a) dot, bfloat16 against our float32", "power_law", "bf16", FORWARD, OURS_IN_FLOAT32, 1.4),
    _against("(a) dot, bfloat16 against our float32", "power_law", "bf16", BOTH, OURS_IN_FLOAT32, 1.4),
    Bar(
        "time of an edge, forward: at 10⁷ edges over at 10⁶", 1.5, None, _growth(FORWARD), _beside_growth(FORWARD), True
    ),
    Bar(
        "time of an edge, forward + backward: at 10⁷ over at 10⁶", 1.5, None, _growth(BOTH), _beside_growth(BOTH), True
    ),
)
