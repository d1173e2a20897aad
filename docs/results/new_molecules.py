"""Numbers of molecules unlike the few that have many training rows each: steps, dropout and size, on validation rows.

    EDGEWISE_DATA=… python docs/results/new_molecules.py [TABLE …] > new_molecules.txt

`liquids N`: CO₂ in ionic liquids; of the training rows of fold N of whole liquids a fifth of the liquids is scored.
`simulated N`: 160 molecules of ESOL at 20 random temperatures and pressures each, draw N of both, of which a fifth of
the molecules is scored; y = sigmoid(a + ln P + b / T), a from log P, b from the polar surface and the weight. A tenth
of the other rows validates. Lines are the rows, the settings, the MAE, and the seconds of the training.
"""

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rdkit import Chem
from rdkit.Chem import Crippen, Descriptors
from sklearn.model_selection import GroupKFold

from edgewise.learn.tasks.molecules.settings import SETTINGS
from edgewise.learn.tasks.molecules.task import TASK
from edgewise.learn.tasks.run import fit

DATA = Path(os.environ["EDGEWISE_DATA"])
CONDITIONS, TARGET = ["temperature_K", "pressure_bar"], "x_co2_mole_fraction"
USUAL = {"molecule_dropout": 0.1, "descriptor_dropout": 0.1, "head_dropout": 0.05}
"""As new molecules have it: rows drawn at random validate, which would have the model drop less."""
SHORT: dict[str, Any] = {"epochs": 16}
VARIANTS: dict[str, dict[str, Any]] = {
    "the default": {},
    "16 epochs": SHORT,
    "16 epochs, size 32": {**SHORT, "model_dim": 32},
    "16 epochs, dropout 0.3 and 0.3": {**SHORT, "molecule_dropout": 0.3, "descriptor_dropout": 0.3},
    "16 epochs, no descriptors": {**SHORT, "molecule_descriptors": False},
    "16 epochs, no descriptors, dropout 0.5, head 0.3": {
        **SHORT, "molecule_descriptors": False, "molecule_dropout": 0.5, "head_dropout": 0.3,
    },
}  # fmt: skip
TABLES = [f"liquids {fold}" for fold in range(5)] + [f"simulated {draw}" for draw in range(2)]


def liquids(fold: int) -> tuple[pd.DataFrame, list[str]]:
    """The rows, some of them to be scored, and the columns of their molecules."""
    frame = pd.read_csv(DATA / "co2_ionic_liquids/co2_ionic_liquids.csv")
    frame = frame.iloc[list(GroupKFold(5).split(frame, groups=frame["il"]))[fold][0]]
    names = np.random.default_rng(fold).permutation(frame["il"].unique())
    is_scored = frame["il"].isin(names[: len(names) // 5])
    return frame.assign(part=np.where(is_scored, "test", "train")), ["cation_smiles", "anion_smiles"]


def simulated(draw: int) -> tuple[pd.DataFrame, list[str]]:
    """The same of made-up rows."""
    random = np.random.default_rng(draw)
    smiles = random.permutation(pd.read_csv(DATA / "moleculenet/esol.csv")["smiles"].unique())[:160]
    molecules = [Chem.MolFromSmiles(text) for text in smiles]
    each = [[Crippen.MolLogP(m), Descriptors.TPSA(m), Descriptors.MolWt(m)] for m in molecules]
    log_p, surface, weight = (np.array(each) - np.mean(each, 0)).T / np.std(each, 0)[:, None]
    rows = np.repeat(np.arange(160), 20)
    temperature, pressure = random.uniform(280, 400, len(rows)), np.exp(random.uniform(-2, 4, len(rows)))
    score = 0.7 * log_p[rows] + np.log(pressure) + (1500 + 300 * (surface + weight)[rows]) * (1 / temperature - 1 / 330)
    table = {"smiles": smiles[rows], CONDITIONS[0]: temperature, CONDITIONS[1]: pressure}
    table |= {TARGET: 1 / (1 + np.exp(1 - score)), "part": np.where(rows < 32, "test", "train")}
    return pd.DataFrame(table), ["smiles"]


def main() -> None:
    """Trains each variant on each table, or on those that are named."""
    for which in sys.argv[1:] or TABLES:
        kind, number = which.split()
        frame, columns = {"liquids": liquids, "simulated": simulated}[kind](int(number))
        for name, changes in VARIANTS.items():
            with tempfile.NamedTemporaryFile(suffix=".csv") as file:
                frame[[*columns, *CONDITIONS, TARGET, "part"]].to_csv(file.name, index=False)
                settings = {"data": [file.name], "smiles_columns": columns, "descriptors_columns": CONDITIONS}
                settings |= {"target_columns": [TARGET], "splits_column": "part", "calibration": "random"}
                settings |= {"threads": 1, "baselines": False, **USUAL, **changes}
                prepared = TASK.prepare(SETTINGS.of(settings, "new_molecules.py"))
            began = time.perf_counter()
            fit(TASK, prepared)
            table, rows = prepared.data, prepared.splits.test
            (found,) = prepared.fitted.predict(table, rows=rows)
            error = np.abs(found.value[rows] - table.rows.targets[rows, 0]).mean()
            print(which, f"{name}: {error:.5f}, {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
