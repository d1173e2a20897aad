"""The figures that a rebuild must not move: one real run of each kind, at one seed.

Start it in the folder with the data sets. Runs with flags that change nothing of the arithmetic but the threads.

    python tests/frozen/figures.py new.json [NAME ...]     trains, and writes the scores of each run
    python tests/frozen/figures.py --compare old.json new.json
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ONE_THREAD = ["--threads", "1"]
PARTS = ("test", "validation", "coverage", "training")
RUNS: dict[str, list[str]] = {
    "esol": [
        "moleculenet/esol.csv",
        "--smiles-columns",
        "smiles",
        "--target-columns",
        "log_solubility_log10_mol_per_L",
        "--splits-column",
        "mat_split_0",
    ],
    "co2": [
        "co2_ionic_liquids/co2_ionic_liquids.csv",
        "--smiles-columns",
        "cation_smiles",
        "anion_smiles",
        "--descriptors-columns",
        "temperature_K",
        "pressure_bar",
        "--target-columns",
        "x_co2_mole_fraction",
        "--bounds",
        "0",
        "1",
        "--split",
        "random",
        "--split-sizes",
        "0.72",
        "0.08",
        "0.2",
        "--data-seed",
        "0",
    ],
    "sst2": ["sst2/train.csv", "sst2/dev.csv", "sst2/test.csv", "--text-columns", "text", "--target-columns", "label"],
    "shakespeare": [
        "tiny_shakespeare/input.txt",
        "--num-layers",
        "4",
        "--num-heads",
        "4",
        "--model-dim",
        "128",
        "--context",
        "64",
        "--steps",
        "2000",
    ],
    "cora_hops": ["planetoid/cora.npz", "--task-type", "multiclass", "--dropout", "0.8", "--weight-decay", "0.01"],
    "cora_gat": ["planetoid/cora.npz", "--task-type", "multiclass", "--model", "gat", "--seed", "0"],
    "cora_links": ["planetoid/cora.npz", "--task-type", "link", "--epochs", "20"],
    "forecast": [
        "speed.csv",
        "--edges",
        "roads.csv",
        "--task-type",
        "forecast",
        "--time-column",
        "minute",
        "--period",
        "288",
        "--epochs",
        "1",
    ],
    "motion": ["charges.npz", "--start", "31", "--horizon", "10", "--epochs", "5"],
    "tagging": ["tags.conll", "--task-type", "tagging", "--epochs", "3"],
}


def make_data(folder: Path) -> None:
    """The data of three runs, made from the others: speeds of roads, simulated charges, and parts of words as tags."""
    here = Path(__file__).parents[2]
    if not (folder / "speed.csv").is_file():
        tables = here / "docs" / "results" / "metr_tables.py"
        subprocess.run(
            [sys.executable, tables, "metr_la_week/metr_la_week.npz", folder / "speed.csv", folder / "roads.csv"]
        )
    edgewise("simulate", "charges", "--num-trajectories", "60", "-o", folder / "charges.npz", "--overwrite")
    words = Path("tiny_shakespeare/input.txt").read_text().split()[:20_000]
    lines = (
        f"{word} {'NAME' if word[0].isupper() else 'WORD'}" + ("\n" if place % 12 == 11 else "")
        for place, word in enumerate(words)
    )
    (folder / "tags.conll").write_text("\n".join(lines) + "\n")


def edgewise(*words: Any) -> None:
    """The command line of the package on the path."""
    subprocess.run([sys.executable, "-m", "edgewise.cli.main", *map(str, words)], check=True)


def scores(metrics: dict[str, Any]) -> dict[str, Any]:
    """What must stay equal: all scores, none of the times."""
    kept = {name: metrics[name] for name in PARTS if name in metrics}
    return kept | {"baselines": metrics.get("baselines", {}), "parameters": metrics["parameters"]}


def train(names: list[str]) -> dict[str, Any]:
    """The scores of runs, by name."""
    found = {}
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        make_data(folder)
        for name in names:
            data, *flags = RUNS[name]
            words = [folder / word if (folder / word).is_file() else word for word in flags]
            first = folder / data if (folder / data).is_file() else data
            texts = [word for word in words if str(word).startswith("sst2/")]
            rest = [word for word in words if word not in texts]
            edgewise("train", first, *texts, *rest, *ONE_THREAD, "-o", folder / name)
            found[name] = scores(json.loads((folder / name / "metrics.json").read_text()))
            print(name, json.dumps(found[name])[:200], flush=True)
    return found


def flat(value: Any, place: str = "") -> dict[str, Any]:
    """The numbers of a JSON value by their places."""
    if isinstance(value, dict):
        return {name: each for key, own in value.items() for name, each in flat(own, f"{place}.{key}").items()}
    if isinstance(value, list):
        return {name: each for key, own in enumerate(value) for name, each in flat(own, f"{place}[{key}]").items()}
    return {place: value}


def compare(old: dict[str, Any], new: dict[str, Any]) -> int:
    """Prints each run with its largest relative change; how many runs changed by more than rounding."""
    moved = 0
    for name in old:
        before, after = flat(old[name]), flat(new.get(name, {}))
        changes = [
            (abs(after[place] - value) / max(abs(value), 1e-12), place)
            for place, value in before.items()
            if isinstance(value, (int, float)) and isinstance(after.get(place), (int, float))
        ]
        lost = sorted(before.keys() - after.keys())
        largest, where = max(changes, default=(0.0, ""))
        moved += bool(lost) or largest > 1e-6
        print(f"{name}: {len(changes)} figures, largest change {largest:.1e} {where}", f"lost: {lost}" if lost else "")
    return moved


if __name__ == "__main__":
    if sys.argv[1] == "--compare":
        sys.exit(compare(*(json.loads(Path(path).read_text()) for path in sys.argv[2:4])))
    chosen = sys.argv[2:] or list(RUNS)
    target = Path(sys.argv[1]).resolve()
    known = json.loads(target.read_text()) if target.is_file() else {}
    for each in chosen:
        known |= train([each])
        target.write_text(json.dumps(known, indent=1) + "\n")
