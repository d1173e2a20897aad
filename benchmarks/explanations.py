"""Whether explanations of molecules are true, where the truth is known: every method beside a random order.

    python benchmarks/explanations.py            trains four models, or takes those of --runs: about fifteen minutes
    python benchmarks/explanations.py --runs runs/explanations

Needs EDGEWISE_DATA, the folder with `moleculenet`. Three questions, asked on test molecules:

1. Models of Crippen's logP, which is a sum over atoms, of the demo and of ESOL: how do explanations rank the atoms
   (Spearman, mean over 50 molecules of the demo and 500 of ESOL)? And where the model is Crippen's formula itself?
2. ESOL, solubility: has each group the sign that chemists know? OH, COOH, NH2 and CONH2 raise it; CH2, rings of carbon,
   Cl and Br lower it.
3. Pairs of ESOL, and of Lipophilicity, that differ in one group, one of them a test molecule: how does the difference
   of what was measured rank beside that of what the groups are said to add (Spearman)?

Written are benchmarks/results/explanations.json and explanations.md, and the table of docs/look.md. What methods say of
a molecule is kept beside the run, so that a measurement that was ended goes on. The constants of `removal` were chosen
on validation molecules.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rdkit import Chem, rdBase
from written import write_between

from edgewise.explain.additive import contributions
from edgewise.explain.methods import METHODS
from edgewise.explain.rank import spearman
from edgewise.learn.readers.molecules.simulate import atom_contributions
from edgewise.learn.readers.molecules.variants import variants
from edgewise.learn.tasks.molecules.explainable import COMPARED_METHODS, molecule_item
from edgewise.learn.tasks.molecules.known import KnownSample, environments_of_row
from edgewise.learn.tasks.molecules.removal import noise_of
from edgewise.learn.tasks.molecules.task import TABLE
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.folder import RunFolder

RESULTS = Path(__file__).parent / "results"
RANDOM = "random order"
METHODS_HERE = (*COMPARED_METHODS, RANDOM)
NUM_MOLECULES, NUM_OF_ESOL, NUM_SIGNS, NUM_PAIRS = 50, 500, 200, 500
SMILES, LOGP, SPLIT = "smiles", "logp", "split"
SOLUBILITY, LIPOPHILICITY = "log_solubility_log10_mol_per_L", "logD_pH7_4"
SIGNS = {
    "OH": ("[OX2H;!$(O[C,S,P]=[O,S])]", 1),
    "COOH": ("C(=O)[OX2H]", 1),
    "NH2": ("[NX3H2;+0;!$(N[C,S,P]=[O,S,N])]", 1),
    "CONH2": ("C(=O)[NH2]", 1),
    "CH2": ("[CX4H2;$(C([#6])[#6])]", -1),
    "Cl": ("[Cl;$(Cl[#6])]", -1),
    "Br": ("[Br;$(Br[#6])]", -1),
}
MAX_GROUP = 6
"""Atoms of a group in which two molecules of a pair differ, at most."""


@dataclass(frozen=True)
class Run:
    """A finished run, and the attributions of its molecules by every method."""

    folder: Path

    @cached_property
    def trained(self) -> Any:
        return TABLE.load(RunFolder.finished(self.folder))

    @cached_property
    def splits(self) -> dict[str, list[int]]:
        return RunFolder(self.folder).read_object("splits.json")

    @property
    def _kept(self) -> Path:
        """A line of JSON for each molecule: what methods say of it."""
        return self.folder.with_name(f"{self.folder.name}.attributions.jsonl")

    @cached_property
    def _attributions(self) -> dict[str, dict[str, np.ndarray]]:
        lines = self._kept.read_text().splitlines() if self._kept.is_file() else []
        return {
            smiles: {name: np.array(values) for name, values in by_method.items()}
            for smiles, by_method in map(json.loads, lines)
        }

    def attributions(self, smiles: str) -> dict[str, np.ndarray]:
        """What each method says of each atom; the same random order for the same molecule."""
        if smiles not in self._attributions:
            item = molecule_item(self.trained, (smiles,))
            with cpu_threads(self.trained.threads):
                results = [METHODS[name].attribute(item) for name in COMPARED_METHODS]
            found = {result.name: result.values for result in results if result is not None}
            seed = sum(map(ord, smiles))
            found[RANDOM] = np.random.default_rng(seed).normal(size=item.num_units)
            self._attributions[smiles] = found
            with self._kept.open("a") as file:
                file.write(json.dumps([smiles, {name: values.tolist() for name, values in found.items()}]) + "\n")
        return self._attributions[smiles]


def edgewise(*words: object) -> None:
    """The command line."""
    subprocess.run([sys.executable, "-m", "edgewise.cli.main", *map(str, words)], check=True)


def trained_runs(folder: Path) -> dict[str, Run]:
    """Each with its defaults: the demo, solubility and logP of ESOL, and Lipophilicity."""
    folder.mkdir(parents=True, exist_ok=True)
    logp = read("esol")[[SMILES]]
    logp[LOGP] = [atom_contributions(text).sum() for text in logp[SMILES]]
    order = np.random.default_rng(0).permutation(len(logp))
    names = np.repeat(["test", "val", "train"], [NUM_OF_ESOL, 60, len(logp) - NUM_OF_ESOL - 60])
    logp[SPLIT] = names[np.argsort(order)]
    logp.to_csv(folder / "logp.csv", index=False)

    columns = {
        "esol": [data("esol"), "--target-columns", SOLUBILITY, "--splits-column", "mat_split_0"],
        "logp": [folder / "logp.csv", "--target-columns", LOGP, "--splits-column", SPLIT],
        "lipophilicity": [data("lipophilicity"), "--target-columns", LIPOPHILICITY],
    }
    commands: dict[str, list[object]] = {"demo": ["demo"]}
    commands |= {name: ["train", *words, "--smiles-columns", SMILES] for name, words in columns.items()}
    for name, words in commands.items():
        if not (folder / name / "metrics.json").is_file():
            edgewise(*words, "-o", folder / name)
    return {name: Run(folder / name) for name in commands}


def data(name: str) -> Path:
    """A table of MoleculeNet."""
    return Path(os.environ["EDGEWISE_DATA"]) / "moleculenet" / f"{name}.csv"


def read(name: str) -> pd.DataFrame:
    """The same, read."""
    return pd.read_csv(data(name))


def crippen_ranks(run: Run, smiles: Sequence[str]) -> dict[str, float]:
    """1: the order of the atoms by each method, and by the atoms' contributions to the logP."""
    scores = defaultdict(list)
    for text in smiles:
        truth = atom_contributions(text)
        if len(np.unique(truth)) > 1:
            for name, values in run.attributions(text).items():
                scores[name].append(np.nan_to_num(spearman(values, truth)))
    return {name: float(np.mean(values)) for name, values in scores.items()}


def formula_ranks(run: Run, chosen: Sequence[str]) -> float:
    """The same of `removal`, where Crippen's formula predicts in place of the model."""
    known = [row[0] for row in run.trained.encoder.known_rows][:1024]
    sample = KnownSample.of([(text,) for text in known], (), run.trained.encoder.limits)
    known_logp = np.array([atom_contributions(text).sum() for text in known])
    scores = []
    for smiles in chosen:
        truth, texts = atom_contributions(smiles), [smiles, *variants(Chem.MolFromSmiles(smiles))]
        atoms = [environments_of_row((text,)) for text in texts]
        logp = np.array([atom_contributions(text).sum() for text in texts])
        added = contributions(atoms, logp, noise_of(atoms), sample.inputs, known_logp)
        if len(np.unique(truth)) > 1:
            scores.append(spearman(added.values, truth))
    return float(np.mean(scores))


def groups_of(molecule: Chem.Mol) -> Iterator[tuple[str, int, list[int]]]:
    """The groups whose sign is known, with their atoms."""
    for name, (pattern, sign) in SIGNS.items():
        for atoms in molecule.GetSubstructMatches(Chem.MolFromSmarts(pattern)):
            yield name, sign, list(atoms)
    for ring in molecule.GetRingInfo().AtomRings():
        if all(molecule.GetAtomWithIdx(atom).GetAtomicNum() == 6 for atom in ring):
            yield "ring of carbon", -1, list(ring)


def sign_shares(run: Run, smiles: list[str]) -> tuple[dict[str, float], dict[str, dict[str, float]], dict[str, int]]:
    """2: the share of groups with the right sign by each method, of all groups and of each; and their number."""
    rows = [*run.splits["test"], *run.splits["val"]][:NUM_SIGNS]
    right: dict[str, dict[str, list[bool]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        for group, sign, atoms in groups_of(Chem.MolFromSmiles(smiles[row])):
            for name, values in run.attributions(smiles[row]).items():
                right[name][group].append(bool(sign * values[atoms].sum() > 0))
    overall = {name: float(np.mean([x for xs in groups.values() for x in xs])) for name, groups in right.items()}
    each = {name: {group: float(np.mean(xs)) for group, xs in groups.items()} for name, groups in right.items()}
    return overall, each, {group: len(xs) for group, xs in right[RANDOM].items()}


def cut(molecule: Chem.Mol) -> Iterator[tuple[str, list[int]]]:
    """What is left and which atoms are not, where a single bond outside rings is cut; or a hydrogen is no group."""
    count = molecule.GetNumAtoms()
    for bond in molecule.GetBonds():
        if not bond.IsInRing() and bond.GetBondType() == Chem.BondType.SINGLE:
            pieces = Chem.FragmentOnBonds(molecule, [bond.GetIdx()], dummyLabels=[(0, 0)])
            sides = Chem.GetMolFrags(pieces)
            for core, group in (sides, sides[::-1]) if len(sides) == 2 else ():
                atoms = [atom for atom in group if atom < count]
                if len(atoms) <= MAX_GROUP and 2 * len(atoms) < count:
                    yield Chem.MolFragmentToSmiles(pieces, core), atoms
    for atom in molecule.GetAtoms():
        if atom.GetTotalNumHs():
            open_molecule = Chem.RWMol(Chem.AddHs(molecule, onlyOnAtoms=[atom.GetIdx()]))
            open_molecule.GetAtomWithIdx(open_molecule.GetNumAtoms() - 1).SetAtomicNum(0)
            yield Chem.MolToSmiles(Chem.RemoveHs(open_molecule.GetMol())), []


def pair_ranks(run: Run, smiles: list[str], measured: np.ndarray) -> tuple[dict[str, float], int]:
    """3: differences that were measured beside those that the groups are said to add."""
    by_core = defaultdict(dict)
    for row, text in enumerate(smiles):
        with rdBase.BlockLogs():
            for core, atoms in cut(Chem.MolFromSmiles(text)):
                by_core[core].setdefault(row, atoms)
    test = set(run.splits["test"])
    pairs = [
        (row, atoms, other, other_atoms)
        for members in by_core.values()
        for row, atoms in members.items()
        for other, other_atoms in members.items()
        if row in test and atoms and row != other and (other not in test or row < other)
    ]
    chosen = [pairs[number] for number in np.random.default_rng(0).permutation(len(pairs))[:NUM_PAIRS]]
    differences = np.array([measured[row] - measured[other] for row, _, other, _ in chosen])
    added = defaultdict(list)
    for row, atoms, other, other_atoms in chosen:
        mine, theirs = run.attributions(smiles[row]), run.attributions(smiles[other])
        for name in mine:
            added[name].append(mine[name][atoms].sum() - theirs[name][other_atoms].sum())
    return {name: spearman(np.array(values), differences) for name, values in added.items()}, len(chosen)


def seconds_of_ten(run: Run, smiles: list[str]) -> float:
    """Ten explanations with the default methods, after a first."""
    from edgewise.learn.tasks.explainer import Explainer

    explainer = Explainer.open(run.folder)
    rows = [{SMILES: smiles[row]} for row in run.splits["test"][:11]]
    explainer.explain(rows[0])
    began = time.perf_counter()
    for row in rows[1:]:
        explainer.explain(row)
    return time.perf_counter() - began


def measure(folder: Path) -> dict[str, Any]:
    """All numbers."""
    runs = trained_runs(folder)
    esol, lipophilicity = read("esol"), read("lipophilicity")
    smiles = esol[SMILES].tolist()
    seconds = seconds_of_ten(runs["esol"], smiles)
    demo = [pd.read_csv(folder / "demo" / "demo.csv")[SMILES][row] for row in runs["demo"].splits["test"]]
    of_esol = [smiles[row] for row in runs["logp"].splits["test"]]
    shares, by_group, counts = sign_shares(runs["esol"], smiles)
    pairs, num_pairs = pair_ranks(runs["esol"], smiles, esol[SOLUBILITY].to_numpy())
    further, num_further = pair_ranks(
        runs["lipophilicity"], lipophilicity[SMILES].tolist(), lipophilicity[LIPOPHILICITY].to_numpy()
    )
    return {
        "crippen": crippen_ranks(runs["demo"], demo[:NUM_MOLECULES]),
        "crippen_formula": formula_ranks(runs["demo"], demo[:NUM_MOLECULES]),
        "crippen_of_esol": crippen_ranks(runs["logp"], of_esol),
        "crippen_formula_of_esol": formula_ranks(runs["logp"], of_esol),
        "signs": shares,
        "signs_by_group": by_group,
        "num_groups": counts,
        "pairs": pairs,
        "num_pairs": num_pairs,
        "pairs_of_lipophilicity": further,
        "num_pairs_of_lipophilicity": num_further,
        "seconds_of_ten": seconds,
    }


def line(*cells: object) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |\n"


def table(found: dict[str, Any]) -> str:
    """A line for each method."""
    order = sorted(found["signs"], key=lambda name: -found["crippen"].get(name, -1))
    shown = lambda values, name: f"{values[name]:.3f}" if name in values else "–"  # noqa: E731
    columns = {
        "order of atoms, logP of the demo": "crippen",
        "logP of ESOL": "crippen_of_esol",
        "right signs, solubility": "signs",
        "pairs, solubility": "pairs",
        "pairs, lipophilicity": "pairs_of_lipophilicity",
    }
    text = line("method", *columns) + line(*["---"] * (1 + len(columns)))
    for name in order:
        text += line(name, *(shown(found[key], name) for key in columns.values()))
    return text


def page(found: dict[str, Any]) -> str:
    """The numbers as a page."""
    text = "# Whether explanations of molecules are true\n\n`python benchmarks/explanations.py`, test molecules.\n\n"
    text += table(found) + (
        f"\nWhere Crippen's formula itself predicts, `removal` ranks its atoms by {found['crippen_formula']:.3f} "
        f"(demo) and {found['crippen_formula_of_esol']:.3f} (ESOL). {sum(found['num_groups'].values())} groups, "
        f"{found['num_pairs']} and {found['num_pairs_of_lipophilicity']} pairs. Ten explanations of ESOL took "
        f"{found['seconds_of_ten']:.1f} s.\n\nRight signs of `removal` by group:\n\n"
    )
    text += line("group", "number", "right") + line(*["---"] * 3)
    for group, count in found["num_groups"].items():
        text += line(group, count, f"{found['signs_by_group']['removal'][group]:.2f}")
    return text


def main() -> None:
    """Trains where needed, measures, writes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=Path, default=Path("runs/explanations"), help="where the runs lie")
    found = measure(parser.parse_args().runs)
    RESULTS.joinpath("explanations.json").write_text(json.dumps(found, indent=1) + "\n")
    RESULTS.joinpath("explanations.md").write_text(page(found))
    write_between("<!-- explanations -->\n", "<!-- end of explanations -->", table(found), "look.md")
    print(page(found))


if __name__ == "__main__":
    main()
