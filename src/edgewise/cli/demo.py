"""`edgewise demo`: a run that needs no data, from molecules built on the spot."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgewise.errors import plural

if TYPE_CHECKING:
    from edgewise.learn.training.folder import RunFolder

DESCRIPTION = (
    "Build 3,000 molecules and ion pairs with RDKit, train a model to predict their Crippen logP (a property "
    "that RDKit computes, hydrogens included; nothing measured), and score it on molecules whose scaffolds it has not "
    "seen; then explain some of them, and score the explanations: what each atom adds to this property is known. A "
    "finished demo is shown again in seconds; an interrupted one continues."
)
NUM_ROWS = 3000
NUM_EXPLAINED = 50
"""Test molecules whose explanations are scored."""
EXPLANATIONS = "explanations"
"""The key of their scores in metrics.json."""
# The run's settings where they differ from the defaults. Without RDKit's descriptors, as logP is one of them; two
# layers, as what an atom adds is decided by its neighbors, and more dropout, as attributions then recover more of it.
SETTINGS: dict[str, Any] = {
    "smiles_columns": ["smiles"],
    "target_columns": ["crippen_logp"],
    "split": "scaffold",
    "molecule_descriptors": False,
    "epochs": 25,
    "num_layers": 2,
    "encoder_dropout": 0.2,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    parser.add_argument("-o", "--output-dir", default="runs/demo", metavar="FOLDER", help="(default: runs/demo)")
    parser.add_argument("--overwrite", action="store_true", help="run again where there is a finished demo")


def run(arguments: argparse.Namespace) -> int:
    """Builds the data, trains, and prints the results."""
    from edgewise.cli.scores import print_run
    from edgewise.cli.training import train
    from edgewise.learn.tasks.registry import task_of
    from edgewise.learn.training.folder import RunFolder

    folder = RunFolder(Path(arguments.output_dir))
    data = folder.path / "demo.csv"
    if folder.is_finished and not arguments.overwrite:
        print(f"The demo in {folder.path} is done; --overwrite runs it again.")
        print_run(task_of(folder), folder)
        print_next_steps(folder)
        return 0

    resume = folder.is_started and not arguments.overwrite
    folder.check(overwrite=arguments.overwrite, resume=resume)
    if not (resume and data.is_file()):
        from edgewise.learn.readers.molecules.simulate import demo_table

        print(f"Building {NUM_ROWS:,} molecules and ion pairs with RDKit ...", flush=True)
        with folder.claimed(overwrite=arguments.overwrite, resume=resume):
            folder.begin()
            folder.write(data.name, demo_table(NUM_ROWS).to_csv(index=False).encode())

    print(
        "The target is the Crippen logP that RDKit computes, hydrogens included: a calculated property, not measured."
    )
    settings = {**SETTINGS, "data": [str(data)]}
    code = train(settings, folder, overwrite=arguments.overwrite, resume=resume, source="the demo")
    if code == 0:
        print_next_steps(folder)

    return code


def print_next_steps(folder: "RunFolder") -> None:
    """Prints how accurate the explanations are, and the command for your own table."""
    from edgewise.cli.scores import print_table
    from edgewise.explain.numbers import formatted
    from edgewise.learn.tasks.scores import command, free_name

    print("The test molecules have scaffolds that no training molecule has.")
    scores = explanation_scores(folder)
    print_table(
        f"What each atom adds to the logP is known. Explanations of "
        f"{plural(scores['num_molecules'], 'test molecule')} rank the "
        "atoms like that (Spearman):",
        ["", "mean"],
        [[name, formatted(score)] for name, score in scores["spearman"].items()],
    )
    columns = ["--smiles-columns", *SETTINGS["smiles_columns"], "--target-columns", *SETTINGS["target_columns"]]
    output = free_name(str(folder.path.with_name("mine")))
    print("The same with the default settings; replace the table and its columns by your own:")
    print(f"  {command('train', folder.path / 'demo.csv', *columns, '-o', output)}")


def explanation_scores(folder: "RunFolder") -> dict[str, Any]:
    """How well explanations recover the contributions of atoms: as metrics.json has it, or computed and put there."""
    metrics = folder.read_object("metrics.json")
    if EXPLANATIONS in metrics:
        return metrics[EXPLANATIONS]

    from edgewise.learn.readers.molecules.simulate import SMILES_COLUMN, atom_contributions
    from edgewise.learn.tables.options import TableFormat
    from edgewise.learn.tables.read import read_cells
    from edgewise.learn.tasks.molecules.explainable import recovery
    from edgewise.learn.tasks.molecules.task import TABLE

    smiles_column = read_cells(folder.path / "demo.csv", TableFormat()).frame[SMILES_COLUMN]
    explained = [smiles_column[row] for row in folder.read_object("splits.json")["test"][:NUM_EXPLAINED]]
    spearman = recovery(TABLE.load(folder), {smiles: atom_contributions(smiles) for smiles in explained})
    metrics[EXPLANATIONS] = {"num_molecules": len(explained), "spearman": spearman}
    with folder.locked():
        folder.write_json("metrics.json", metrics)

    return metrics[EXPLANATIONS]
