"""Sets of molecules with several targets: one model for all of them, beside one model for each.

    python benchmarks/several_targets.py              some hours; finished runs are not repeated
    python benchmarks/several_targets.py --only sider the splits whose names begin so

`edgewise train molecules` with its defaults, on the same rows: once for all targets, and for each target on the rows
that have it. Compared are the network alone and with what stands beside it, by validation and by test rows: the mean
over the targets, and for how many one model for each is ahead, with the chance that a fair coin is as far from half.
Written are benchmarks/results/several_targets.json (every target) and several_targets.md (the table).
"""

import argparse
import json
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from molecules import BY_NAME, PROTOCOLS, RESULTS, Protocol, our_command, run, table_of
from network_seeds import sign_test

SPLITS = ("clintox, random 0", "sider, random 0", "tox21, random 0")
PARTS = ("validation", "test")
WAYS = ("network", "both")
"""The network alone, and with what stands beside it."""
TOGETHER = "all targets"
"""The run with all of them."""
Scores = dict[str, dict[str, float]]
"""The score of each target, by the rows and the way."""


def trained(protocol: Protocol, folder: Path) -> Scores:
    """A run of some targets."""
    table = protocol.table().dropna(subset=list(protocol.targets), how="all")
    table.to_csv(folder / "table.csv", index=False)
    run([*our_command(protocol, folder / "table.csv"), "--no-baselines", "-o", str(folder / "run")])
    metrics = json.loads((folder / "run" / "metrics.json").read_text())
    scores = {}
    for part in PARTS:
        of_way = {
            "both": metrics[part],
            "network": metrics.get("parts", {}).get(part, {}).get("network", metrics[part]),
        }
        for way in WAYS:
            found = {target: of_way[way][target].get(protocol.metric) for target in protocol.targets}
            scores[f"{way}, {part}"] = {target: value for target, value in found.items() if value is not None}
    return scores


def report(results: dict[str, dict[str, Scores]]) -> str:
    """A row for each set, way and part: the means of the targets that both have, and who is ahead."""
    rows = []
    for name, runs in results.items():
        metric = PROTOCOLS[name].metric
        for column in (f"{way}, {part}" for way in WAYS for part in PARTS):
            joint = runs.get(TOGETHER, {}).get(column, {})
            alone = {target: runs[target][column].get(target) for target in runs if target != TOGETHER}
            both = [target for target, value in alone.items() if value is not None and target in joint]
            if both:
                pairs = np.array([[joint[target], alone[target]] for target in both])
                gains = (pairs[:, 1] - pairs[:, 0]) * (1 if metric == "roc_auc" else -1)
                means = [f"{value:.3f}" for value in pairs.mean(0)]
                rows.append([name, BY_NAME[metric], column, str(len(both)), *means, sign_test(gains)])
    header = ["set, split", "metric", "what, rows", "targets", "one model for all", "one for each", "each ahead of all"]
    return f"One model for all targets beside one for each: means over the targets.\n\n{table_of(header, rows)}"


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="splits whose names begin so")
    options = parser.parse_args()
    path = RESULTS / "several_targets.json"
    for name in SPLITS:
        protocol = PROTOCOLS[name]
        for key in (TOGETHER, *protocol.targets) if name.startswith(tuple(options.only)) else ():
            results: dict[str, Any] = json.loads(path.read_text()) if path.is_file() else {}
            if key in results.setdefault(name, {}):
                continue
            targets = protocol.targets if key == TOGETHER else (key,)
            with tempfile.TemporaryDirectory() as folder:
                results[name][key] = trained(replace(protocol, targets=targets), Path(folder))
            path.write_text(json.dumps(results, indent=1) + "\n")
            path.with_suffix(".md").write_text(report(results))
            print(name, key, results[name][key], flush=True)


if __name__ == "__main__":
    main()
