"""The networks of molecules, each alone, with three seeds: which of them is ahead by more than chance.

    python benchmarks/network_seeds.py              an hour and a half; finished runs are not repeated
    python benchmarks/network_seeds.py --only esol  the splits whose names begin so

Each protocol of benchmarks/molecules.py that trains in less than five minutes. `edgewise train molecules` runs with its
defaults but for the network, its seed and `--companions none`; a network that stands beside a companion is the same
network. Runs with the same rows and the same seed are compared: how many a network wins, by validation rows and by test
rows, with the chance that a fair coin is as far from half (a sign test). Folds of a set share rows, and seeds share
folds, so the chance is a rough one; the last column counts each split once, by the means of its seeds. Written are
benchmarks/results/network_seeds.json (every run) and network_seeds.md (the tables).
"""

import argparse
import itertools
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binomtest

sys.path.insert(0, str(Path(__file__).parent))

from molecules import BY_NAME, PROTOCOLS, RESULTS, Protocol, mean_of_targets, our_command, run, table_of

NETWORKS = ("attention", "dmpnn", "edge_attention")
SEEDS = (0, 1, 2)
FOLDS = [name for name in PROTOCOLS if name.startswith(("esol, fold", "freesolv, fold"))]
SPLITS = (
    *FOLDS,
    "bace pIC50, random 0",
    "bace class, random 0",
    "bbbp, mat_split_0",
    "clintox, random 0",
    "sider, random 0",
    "lipophilicity, row_id % 10",
)
PARTS = ("validation", "test")


def scores(protocol: Protocol, table: Path, folder: Path, network: str, seed: int) -> dict[str, float]:
    """The scores of one network alone, with one seed."""
    chosen = ["--model", network, "--seed", str(seed), "--companions", "none", "-o", str(folder / f"{network}_{seed}")]
    run([*our_command(protocol, table), *chosen])
    metrics = json.loads((folder / f"{network}_{seed}" / "metrics.json").read_text())
    return {part: mean_of_targets(metrics[part], protocol.metric) for part in PARTS}


def gains(results: dict[str, Any], first: str, second: str, part: str) -> dict[str, np.ndarray]:
    """By how much the first network is ahead of the second on each split: a number for each seed that both have."""
    differences = {}
    for name, networks in results.items():
        seeds = sorted(set(networks.get(first, {})) & set(networks.get(second, {})))
        if seeds:
            sign = 1 if PROTOCOLS[name].metric == "roc_auc" else -1
            pairs = [[networks[network][seed][part] for network in (first, second)] for seed in seeds]
            differences[name] = sign * np.array([one - other for one, other in pairs])
    return differences


def sign_test(differences: np.ndarray) -> str:
    """How many differences are above zero, and the chance that a fair coin is as far from half."""
    decided = differences[differences != 0]
    wins = int((decided > 0).sum())
    return f"{wins} of {len(decided)}, p = {binomtest(wins, len(decided)).pvalue:.2g}"


def report(results: dict[str, Any]) -> str:
    """The tables: means and standard deviations over the seeds, and who is ahead of whom."""
    rows = []
    for name, networks in results.items():
        cells = []
        for part, network in itertools.product(PARTS, NETWORKS):
            values = [of_seed[part] for of_seed in networks.get(network, {}).values()]
            cells.append(f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f}" if len(values) > 1 else "–")
        rows.append([name, BY_NAME[PROTOCOLS[name].metric], *cells])
    header = [f"{network}, {part}" for part, network in itertools.product(PARTS, NETWORKS)]
    pairs = []
    for part, (second, first) in itertools.product(PARTS, itertools.combinations(NETWORKS, 2)):
        ahead = gains(results, first, second, part)
        if ahead:
            runs, means = (
                np.concatenate(list(ahead.values())),
                np.array([of_split.mean() for of_split in ahead.values()]),
            )
            pairs.append([f"{first} ahead of {second}", part, sign_test(runs), sign_test(means)])
    return "\n".join(
        [
            "Networks of molecules, each alone: mean ± standard deviation of three seeds.\n",
            table_of(["set, split", "metric", *header], rows),
            table_of(["", "rows", "runs", "splits, mean of the seeds"], pairs),
        ]
    )


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[""], help="splits whose names begin so")
    options = parser.parse_args()
    path = RESULTS / "network_seeds.json"
    for name in SPLITS:
        if not name.startswith(tuple(options.only)):
            continue
        with tempfile.TemporaryDirectory() as temporary:
            folder, table = Path(temporary), Path(temporary) / "table.csv"
            PROTOCOLS[name].table().to_csv(table, index=False)
            for network, seed in itertools.product(NETWORKS, SEEDS):
                results = json.loads(path.read_text()) if path.is_file() else {}
                of_network = results.setdefault(name, {}).setdefault(network, {})
                if str(seed) in of_network:
                    continue
                of_network[str(seed)] = scores(PROTOCOLS[name], table, folder, network, seed)
                path.write_text(json.dumps(results, indent=1) + "\n")
                path.with_suffix(".md").write_text(report(results))
                print(name, network, seed, of_network[str(seed)], flush=True)


if __name__ == "__main__":
    main()
