"""Every reader under changed, drawn and coverage-guided inputs: how many were read, refused, or a find?

    python benchmarks/readers.py --minutes 30 [--seed 1] [--write]
    python benchmarks/readers.py --add counts.json --write

Runs `tests/attack/fuzz.py`, which says what a find is, or takes counts that it wrote. They are added to those of runs
before, in benchmarks/results/readers.json; with --write the table of docs/scaling.md follows.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "tests")]

from written import write_between  # noqa: E402

BEGIN, END = "<!-- fuzz: written by benchmarks/readers.py -->\n", "<!-- end of fuzz -->"
RESULTS = HERE / "results" / "readers.json"
SUMS = ("inputs", "read", "ours", "foreign", "crashed")
ENGINES = {"changes": "changes", "hypothesis": "Hypothesis", "atheris": "atheris"}


def added(before: dict[str, Any], found: list[dict[str, Any]]) -> dict[str, Any]:
    """The counts of each reader under each engine, those of one run added."""
    for each in found:
        own = before.setdefault(each["reader"], {}).setdefault(each["engine"], {**dict.fromkeys(SUMS, 0), "slowest": 0})
        for name in SUMS:
            own[name] += each.get(name, 0)
        own["slowest"] = round(max(own["slowest"], each.get("slowest", 0)), 3)
        own["finds"] = sorted({*own.get("finds", []), *(what[:200] for what in each["finds"])})
    return dict(sorted(before.items()))


def table_of(found: dict[str, Any]) -> str:
    """The counts as Markdown, a row a group of readers."""
    groups: dict[str, dict[str, int]] = {}
    for reader, engines in found.items():
        own = groups.setdefault(reader.split("/")[0], dict.fromkeys((*ENGINES, *SUMS, "readers"), 0))
        own["readers"] += 1
        for engine, counts in engines.items():
            own[engine] += counts["inputs"]
            for name in SUMS:
                own[name] += counts[name]
    total = {name: sum(own[name] for own in groups.values()) for name in (*ENGINES, *SUMS, "readers")}
    lines = [f"| readers | number | {' | '.join(ENGINES.values())} | read | refused | finds |", "|---" * 8 + "|"]
    for name, own in {**groups, "all": total}.items():
        counts = [own[name] for name in ("readers", *ENGINES, "read", "ours")] + [own["foreign"] + own["crashed"]]
        lines.append(f"| {name} | {' | '.join(f'{count:,}' for count in counts)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Runs or takes counts, and prints or writes their sums."""
    parser = argparse.ArgumentParser(description="Every reader under many inputs.")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--add", type=Path, nargs="+", default=[], help="counts that attack/fuzz.py wrote with --json")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    found = [each for path in options.add for each in json.loads(path.read_text())]
    if not options.add:
        from attack import fuzz

        found = fuzz.run(options.minutes, options.seed)["readers"]
    known = added(json.loads(RESULTS.read_text()) if RESULTS.exists() else {}, found)
    print(table_of(known))
    if options.write:
        RESULTS.write_text(json.dumps(known, indent=1) + "\n")
        write_between(BEGIN, END, table_of(known))


if __name__ == "__main__":
    main()
