"""Whole commands on sets of molecules beside chemprop and a random forest, with the defaults of each.

    python benchmarks/molecules.py --chemprop PATH              all of it: hours; finished runs are not repeated
    python benchmarks/molecules.py --chemprop PATH --only esol  the sets whose names begin so
    python benchmarks/molecules.py --chemprop PATH --busy       the seconds are left out: other programs run beside it
    python benchmarks/molecules.py --models dmpnn attention     other networks than the default: the table of networks

PATH is the program `chemprop` in an environment of its own (python -m venv chemprop; chemprop/bin/pip install
chemprop==2.3.1). Each protocol is one table with a column of splits, which both programs read; they run one after the
other with one thread. Of ours stand the network alone, what stands beside it (a Gaussian process or a forest) alone,
and both, which is what `edgewise train` predicts with. The forest of the last column is the baseline that it scores on
the same rows. Of several targets each score is the mean. Written are benchmarks/results/molecules.json (every run) and
molecules.md (the tables). Chemprop's feature extraction, training and test predictions are in its seconds, ours and the
forest are in ours.
"""

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from edgewise.learn.readers.molecules.molecule import murcko_scaffold

RESULTS = Path(__file__).parent / "results"
NAME = "split"


@dataclass(frozen=True)
class Protocol:
    """A table, its targets, and how its rows are split."""

    path: str
    """The file below EDGEWISE_DATA, without `.csv`."""
    targets: tuple[str, ...]
    task_type: str
    split: Callable[[pd.DataFrame], np.ndarray]
    """`train`, `val` or `test` of each row."""
    smiles: tuple[str, ...] = ("smiles",)
    """The columns of the molecules of a row."""
    conditions: tuple[str, ...] = ()
    """Columns of numbers that belong to a row; chemprop does not run where there are some."""
    metric: str = "rmse"

    @property
    def target(self) -> str:
        """The only target."""
        (target,) = self.targets
        return target

    def table(self) -> pd.DataFrame:
        """The columns that programs read."""
        frame = pd.read_csv(Path(os.environ["EDGEWISE_DATA"]) / f"{self.path}.csv")
        return frame[[*self.smiles, *self.conditions, *self.targets]].assign(**{NAME: self.split(frame)})


def column(name: str) -> Callable[[pd.DataFrame], np.ndarray]:
    """A split that the table brings."""
    return lambda frame: frame[name].replace("valid", "val").to_numpy()


def by_row_number(frame: pd.DataFrame) -> np.ndarray:
    """row_id % 10: 0 is test, 1 validation."""
    digit = frame["row_id"].astype(int) % 10
    return np.select([digit == 0, digit == 1], ["test", "val"], "train")


def at_random(seed: int) -> Callable[[pd.DataFrame], np.ndarray]:
    """80, 10 and 10% of the rows by the order of a random permutation."""

    def split(frame: pd.DataFrame) -> np.ndarray:
        place = np.argsort(np.random.default_rng(seed).permutation(len(frame))) / len(frame)
        return np.select([place < 0.8, place < 0.9], ["train", "val"], "test")

    return split


def fold(number: int) -> Callable[[pd.DataFrame], np.ndarray]:
    """One of five folds of rows in the order of a random permutation as test rows; a tenth of all rows validates."""

    def split(frame: pd.DataFrame) -> np.ndarray:
        tenth = np.argsort(np.random.default_rng(0).permutation(len(frame))) * 10 // len(frame)
        return np.select([tenth // 2 == number, tenth == (2 * number + 2) % 10], ["test", "val"], "train")

    return split


def by_scaffold(seed: int) -> Callable[[pd.DataFrame], np.ndarray]:
    """The same with whole Murcko scaffolds, in random order."""

    def split(frame: pd.DataFrame) -> np.ndarray:
        scaffolds, number = np.unique([murcko_scaffold(smiles) for smiles in frame["smiles"]], return_inverse=True)
        order = np.random.default_rng(seed).permutation(len(scaffolds))
        rows = np.bincount(number)[order]
        before = np.empty(len(scaffolds))
        before[order] = (np.cumsum(rows) - rows) / len(frame)
        return np.select([before[number] < 0.8, before[number] < 0.9], ["train", "val"], "test")

    return split


def by_liquid(number: int) -> Callable[[pd.DataFrame], np.ndarray]:
    """One of five folds of whole ionic liquids as test rows; a tenth of the liquids validates."""

    def split(frame: pd.DataFrame) -> np.ndarray:
        _, liquid = np.unique(frame["il"].astype(str), return_inverse=True)
        size = liquid.max() + 1
        tenth = np.argsort(np.random.default_rng(0).permutation(size))[liquid] * 10 // size
        return np.select([tenth // 2 == number, tenth == (2 * number + 2) % 10], ["test", "val"], "train")

    return split


def of_set(name: str, target: str, task_type: str = "regression") -> Callable[..., Protocol]:
    """The protocols of a set of `moleculenet`, from their splits."""
    return lambda split: Protocol(f"moleculenet/{name}", (target,), task_type, split, metric=METRICS[task_type])


def of_assays(name: str, targets: tuple[str, ...]) -> Callable[..., Protocol]:
    """The protocols of a set of classes of `molecules_more`, from their splits."""
    return lambda split: Protocol(f"molecules_more/{name}", targets, "classification", split, metric="roc_auc")


METRICS = {"regression": "rmse", "classification": "roc_auc"}
LOGD, PIC50 = of_set("lipophilicity", "logD_pH7_4"), of_set("bace", "pIC50")
INHIBITOR = of_set("bace", "bace1_inhibitor", "classification")
BARRIER = of_set("bbbp", "bbb_permeable", "classification")
ESOL = of_set("esol", "log_solubility_log10_mol_per_L")
FREESOLV = of_set("freesolv", "hydration_free_energy_kcal_per_mol")
NUCLEAR = ("AR", "AR-LBD", "AhR", "Aromatase", "ER", "ER-LBD", "PPAR-gamma")
STRESS = ("ARE", "ATAD5", "HSE", "MMP", "p53")
TOX21 = of_assays("tox21", (*[f"NR-{name}" for name in NUCLEAR], *[f"SR-{name}" for name in STRESS]))
SIDER = of_assays("sider", tuple(f"SIDER{number}" for number in range(1, 28)))
CLINTOX = of_assays("clintox", ("FDA_APPROVED", "CT_TOX"))


def aqueous(split: Callable[[pd.DataFrame], np.ndarray]) -> Protocol:
    """Solubilities in water."""
    return Protocol("molecules_more/aqsoldb", ESOL(split).targets, "regression", split)


def malaria(split: Callable[[pd.DataFrame], np.ndarray]) -> Protocol:
    """Activities against the parasite of malaria."""
    return Protocol("molecules_more/malaria", ("log_ec50",), "regression", split)


def co2(split: Callable[[pd.DataFrame], np.ndarray]) -> Protocol:
    """Solubilities of CO₂ in ionic liquids."""
    ions, conditions = ("cation_smiles", "anion_smiles"), ("temperature_K", "pressure_bar")
    path = "co2_ionic_liquids/co2_ionic_liquids"
    return Protocol(path, ("x_co2_mole_fraction",), "regression", split, ions, conditions, "mae")


PROTOCOLS = {
    "lipophilicity, row_id % 10": LOGD(by_row_number),
    "lipophilicity, scaffold 0": LOGD(by_scaffold(0)),
    "bace pIC50, random 0": PIC50(at_random(0)),
    "bace pIC50, random 1": PIC50(at_random(1)),
    "bace class, random 0": INHIBITOR(at_random(0)),
    "bace class, random 1": INHIBITOR(at_random(1)),
    # The same scaffolds are test rows in both: two runs of chemprop, which draws its seed.
    **{f"bbbp, mat_split_{fold}": BARRIER(column(f"mat_split_{fold}")) for fold in range(2)},
    **{f"esol, mat_split_{fold}": ESOL(column(f"mat_split_{fold}")) for fold in range(3)},
    "freesolv, mat_split_0": FREESOLV(column("mat_split_0")),
    "freesolv, random 0": FREESOLV(at_random(0)),
    "clintox, random 0": CLINTOX(at_random(0)),
    "sider, random 0": SIDER(at_random(0)),
    "tox21, random 0": TOX21(at_random(0)),
    "aqsoldb, random 0": aqueous(at_random(0)),
    "malaria, random 0": malaria(at_random(0)),
    "co2, random 0": co2(at_random(0)),
    **{f"co2, liquids {number}": co2(by_liquid(number)) for number in range(5)},
    **{f"freesolv, fold {number} of 5": FREESOLV(fold(number)) for number in range(5)},
    **{f"esol, fold {number} of 5": ESOL(fold(number)) for number in range(5)},
    **{f"lipophilicity, fold {number} of 5": LOGD(fold(number)) for number in range(5)},
    **{f"clintox, fold {number} of 5": CLINTOX(fold(number)) for number in range(5)},
    **{f"sider, fold {number} of 5": SIDER(fold(number)) for number in range(5)},
    **{f"tox21, fold {number} of 5": TOX21(fold(number)) for number in range(5)},
    **{f"aqsoldb, fold {number} of 5": aqueous(fold(number)) for number in range(5)},
    **{f"malaria, fold {number} of 5": malaria(fold(number)) for number in range(5)},
}
SETS = (
    "esol, mat_split_0",
    "freesolv, random 0",
    "lipophilicity, row_id % 10",
    "bace pIC50, random 0",
    "bace class, random 0",
    "bbbp, mat_split_0",
    "co2, random 0",
    "co2, liquids 0",
    "aqsoldb, random 0",
    "malaria, random 0",
    "tox21, random 0",
    "clintox, random 0",
    "sider, random 0",
)
"""One split of each set: those of the table of networks."""
RANKED = ("dmpnn", "edge_attention")
"""The networks that are compared by their ranks, over the sets that have both."""
ENVIRONMENT = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "EDGEWISE_CACHE": ""}
BY_NAME = {"rmse": "RMSE", "mae": "MAE", "roc_auc": "AUC"}


def run(command: list[str]) -> tuple[float, int]:
    """The seconds and the most megabytes of a command; its output where it fails."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as printed:
        process = subprocess.Popen(command, env=ENVIRONMENT, stdout=printed, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            printed.seek(0)
            raise SystemExit(f"{' '.join(command)} failed:\n{printed.read()[-4000:]}")
    return round(time.perf_counter() - began, 1), round(usage.ru_maxrss / 1024)


def mean_of_targets(scores: dict[str, dict[str, float]], metric: str) -> float:
    """A score of all targets that have one."""
    return float(np.mean([of_target[metric] for of_target in scores.values() if of_target.get(metric) is not None]))


def score(protocol: Protocol, truth: pd.DataFrame, predicted: pd.DataFrame) -> float:
    """RMSE of numbers, area under the ROC curve of classes, of rows that have a target; the mean over the targets."""
    from sklearn.metrics import roc_auc_score

    scores = []
    for target in protocol.targets:
        is_known = truth[target].notna().to_numpy()
        labels, values = truth[target].to_numpy(float)[is_known], predicted[target].to_numpy(float)[is_known]
        if protocol.task_type == "regression":
            scores.append(np.sqrt(np.mean((labels - values) ** 2)))
        elif len(np.unique(labels)) == 2:
            scores.append(roc_auc_score(labels, values))
    return float(np.mean(scores))


def our_command(protocol: Protocol, table: Path) -> list[str]:
    """`edgewise train` with its defaults."""
    command = [sys.executable, "-m", "edgewise.cli.main", "train", "molecules", str(table), "--smiles-columns"]
    command += [*protocol.smiles, "--target-columns", *protocol.targets, "--splits-column", NAME]
    if protocol.conditions:
        command += ["--descriptors-columns", *protocol.conditions, "--bounds", "0", "1"]
    return [*command, "--task-type", protocol.task_type]


def chemprop_command(protocol: Protocol, table: Path, program: str) -> list[str]:
    """`chemprop train` with its defaults."""
    command = [program, "train", "--data-path", str(table), "--smiles-columns", *protocol.smiles, "--target-columns"]
    command += [*protocol.targets, "--splits-column", NAME, "--task-type", protocol.task_type, "--accelerator", "cpu"]
    return command


def ours(protocol: Protocol, table: Path, folder: Path, model: str | None = None) -> dict[str, Any]:
    """`edgewise train` with its defaults, but for the network where one is named: scores of test rows, and those of the
    network on validation rows, by which networks are compared."""
    folder = folder / (model or "ours")
    chosen = [] if model is None else ["--model", model]
    seconds, megabytes = run([*our_command(protocol, table), *chosen, "-o", str(folder)])
    metrics = json.loads((folder / "metrics.json").read_text())
    splits = ("validation", "test")
    parts = metrics.get("parts") or {split: {"network": metrics[split]} for split in splits}
    scores = {
        "ours": metrics["test"],
        "network": parts["test"]["network"],
        "network, validation": parts["validation"]["network"],
        "stack, validation": metrics["validation"],
        "forest": metrics["baselines"]["forest"]["test"],
    }
    if beside := [part for part in parts["test"] if part != "network"]:
        scores[COMPANION] = parts["test"][beside[0]]
    found: dict[str, Any] = {key: mean_of_targets(of_targets, protocol.metric) for key, of_targets in scores.items()}
    if covered := metrics.get("coverage", {}).get("test"):
        found["covered"] = float(np.mean(list(covered.values())))
    found["model"] = json.loads((folder / "model.json").read_text())["settings"]["model"]
    return {**found, "ours_seconds": seconds, "ours_megabytes": megabytes}


def chemprops(protocol: Protocol, table: Path, folder: Path, program: str) -> dict[str, Any]:
    """`chemprop train` with its defaults, and its predictions of the test rows."""
    command = chemprop_command(protocol, table, program)
    seconds, megabytes = run([*command, "--output-dir", str(folder / "chemprop")])
    predicted = pd.read_csv(next((folder / "chemprop").rglob("test_predictions.csv"))).drop_duplicates("smiles")
    frame = pd.read_csv(table)
    truth = frame.loc[frame[NAME] == "test"].drop_duplicates("smiles").set_index("smiles")
    names = {target: (target, f"{target}_prob", f"{target}_prob_0") for target in protocol.targets}
    columns = {next(name for name in predicted.columns if name in names[target]): target for target in protocol.targets}
    values = predicted.set_index("smiles").rename(columns=columns).reindex(truth.index)
    return {"chemprop": score(protocol, truth, values), "chemprop_seconds": seconds, "chemprop_megabytes": megabytes}


COMPANION = "companion"
COLUMNS = {
    "network": "network alone",
    COMPANION: "companion alone",
    "ours": "both: `edgewise train`",
    "chemprop": "chemprop",
    "forest": "random forest",
}
"""What is compared, and what the table calls it."""
COSTS = {
    "ours_seconds": "ours, s",
    "chemprop_seconds": "chemprop, s",
    "ours_megabytes": "ours, MB",
    "chemprop_megabytes": "chemprop, MB",
}


def numbers(found: dict[str, Any]) -> list[str]:
    """The keys of scores and costs."""
    return [key for key, value in found.items() if isinstance(value, float | int)]


def table_of(header: list[str], rows: list[list[str]]) -> str:
    """A table of Markdown."""
    return "\n".join(f"| {' | '.join(row)} |" for row in [header, ["---"] * len(header), *rows]) + "\n"


def in_bold(scores: dict[str, float], metric: str) -> dict[str, str]:
    """Scores as text, the best of them in bold."""
    best = (max if metric == "roc_auc" else min)(scores.values())
    digits = 4 if metric == "mae" else 3
    return {key: f"**{value:.{digits}f}**" if value == best else f"{value:.{digits}f}" for key, value in scores.items()}


def report(results: dict[str, dict[str, Any]], versions: str) -> str:
    """The tables."""
    folds: dict[str, list[str]] = {}
    trained = {name: of_programs for name, of_programs in results.items() if "ours" in of_programs}
    for name in trained:
        if " fold " in name:
            folds.setdefault(f"{name.split(' fold ')[0]} mean of 5 folds", []).append(name)
    means = {
        whole: {
            key: float(np.mean([results[name][key] for name in names]))
            for key in numbers(results[names[0]])
            if all(key in results[name] for name in names)
        }
        for whole, names in folds.items()
        if len(names) == 5
    }
    rows = []
    for name, found in {**trained, **means}.items():
        metric = PROTOCOLS[folds[name][0] if name in means else name].metric
        shown = in_bold({key: found[key] for key in COLUMNS if key in found}, metric)
        covered = f"{found['covered']:.1%}" if "covered" in found else "–"
        costs = [f"{found[key]:.0f}" if key in found else "–" for key in COSTS]
        rows.append([name, BY_NAME[metric], *[shown.get(key, "–") for key in COLUMNS], covered, *costs])
    parts = [
        __doc__.splitlines()[0],
        versions,
        table_of(["set, split", "metric", *COLUMNS.values(), "in the interval of 90%", *COSTS.values()], rows),
    ]
    return "\n\n".join([*parts, networks(results)])


def networks(results: dict[str, dict[str, Any]]) -> str:
    """The tables of networks: each alone, how they rank, and each with what stands beside it."""
    of_sets = {name: results[name]["networks"] for name in SETS if "networks" in results.get(name, {})}
    alone, means = compared(of_sets, ("network, validation", "network"))
    of_ranks = [
        f"{mean[model]:.2f}" if model in RANKED else "–" for mean in means.values() for model in models_of(of_sets)
    ]
    num_sets = sum(set(RANKED) <= set(of_models) for of_models in of_sets.values())
    ranked = [f"mean rank of {' and '.join(RANKED)}, {num_sets} sets", "", *of_ranks]
    stacked = {
        name: {model: scores for model, scores in found.get("networks", {}).items() if "stack" in scores}
        for name, found in results.items()
    }
    stacked = {name: of_models for name, of_models in stacked.items() if len(of_models) > 1}
    beside, _ = compared(stacked, ("stack, validation", "stack"))
    return (
        f"Networks, each alone (`--models`):\n\n{table_of(header_of(of_sets), [*alone, ranked])}"
        f"\nThe same with what stands beside them:\n\n{table_of(header_of(stacked), beside)}"
    )


def models_of(of_sets: dict[str, dict[str, Any]]) -> list[str]:
    """The networks that some set has."""
    return sorted({model for of_models in of_sets.values() for model in of_models})


def header_of(of_sets: dict[str, dict[str, Any]]) -> list[str]:
    """The first row of a table of networks."""
    columns = [f"{model}, {split}" for split in ("validation", "test") for model in models_of(of_sets)]
    return ["set, split", "metric", *columns]


def compared(of_sets: dict[str, dict[str, Any]], splits: tuple[str, str]) -> tuple[list[list[str]], dict[str, Any]]:
    """The rows of a table of networks by their validation and test scores, and the mean ranks of two of them."""
    rows: list[list[str]] = []
    ranks: dict[str, list[pd.Series]] = {split: [] for split in splits}
    for name, of_models in of_sets.items():
        metric, cells = PROTOCOLS[name].metric, []
        for split in splits:
            scores = {model: scores[split] for model, scores in of_models.items()}
            shown = in_bold(scores, metric)
            cells += [shown.get(model, "–") for model in models_of(of_sets)]
            if set(RANKED) <= set(scores):
                ranks[split].append(pd.Series(scores)[list(RANKED)].rank(ascending=metric != "roc_auc"))
        rows.append([name, BY_NAME[metric], *cells])
    return rows, {split: sum(orders) / len(orders) for split, orders in ranks.items() if orders}


def main() -> None:
    """Run what is not there yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chemprop", help="the program chemprop; without it only ours and the forest are run")
    parser.add_argument("--only", nargs="+", default=[""], help="protocols whose names begin so")
    parser.add_argument(
        "--models",
        nargs="+",
        default=[],
        help="networks that are trained on one split of each set, and on others that --only names in full",
    )
    parser.add_argument("--busy", action="store_true", help="other programs run: record scores, but no seconds")
    parser.add_argument("--again", action="store_true", help="repeat runs that are there")
    options = parser.parse_args()
    path = RESULTS / "molecules.json"
    for name, protocol in PROTOCOLS.items():
        if not name.startswith(tuple(options.only)):
            continue
        results = json.loads(path.read_text()) if path.is_file() else {}
        known = results.get(name, {})
        if options.again:
            known = {"networks": known["networks"]} if "networks" in known and not options.models else {}
        with tempfile.TemporaryDirectory() as temporary:
            folder, table = Path(temporary), Path(temporary) / "table.csv"
            protocol.table().to_csv(table, index=False)
            for model in options.models if name in (*SETS, *options.only) else ():
                if "stack" not in known.setdefault("networks", {}).get(model, {}):
                    known["networks"][model] = of_network(scores_of(ours(protocol, table, folder, model), options.busy))
            if not options.models and "network" not in known:
                found = scores_of(ours(protocol, table, folder), options.busy)
                known |= found
                if name in SETS:
                    known.setdefault("networks", {})[found["model"]] = of_network(found)
            if not options.models and options.chemprop and "chemprop" not in known and not protocol.conditions:
                known |= scores_of(chemprops(protocol, table, folder, options.chemprop), options.busy)
        if known:
            write(path, {**results, name: known})
            print(name, known, flush=True)


def scores_of(found: dict[str, Any], is_busy: bool) -> dict[str, Any]:
    """What a run has shown; without its seconds where other programs ran beside it."""
    return {key: value for key, value in found.items() if not (is_busy and key.endswith("_seconds"))}


def of_network(found: dict[str, Any]) -> dict[str, Any]:
    """What a run says of its network, alone and with what stands beside it."""
    known = {key: value for key, value in found.items() if key.startswith(("network", "stack", "ours_"))}
    return {**known, "stack": found["ours"]}


def write(path: Path, results: dict[str, dict[str, Any]]) -> None:
    """All runs, and the tables of them."""
    results = {name: results[name] for name in PROTOCOLS if name in results}
    versions = f"edgewise {importlib.metadata.version('edgewise')}, chemprop 2.3.1, one thread each."
    path.write_text(json.dumps(results, indent=1) + "\n")
    path.with_suffix(".md").write_text(report(results, versions))


if __name__ == "__main__":
    main()
