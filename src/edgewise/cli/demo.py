"""`edgewise demo`: a run that needs no data, from molecules built on the spot."""

import argparse
from pathlib import Path
from typing import Any

SUMMARY = "build molecules, train on them for about a minute, and show the result"
DESCRIPTION = (
    "Build 3,000 drug-like molecules and ion pairs with RDKit, train a model to predict their Crippen logP (a property "
    "that RDKit computes, hydrogens included; nothing measured), and score it on molecules whose scaffolds it has not "
    "seen. A finished demo is shown again in seconds; an interrupted one continues."
)
NUM_ROWS = 3000
# The run's settings where they differ from the defaults. Without RDKit's descriptors, as logP is one of them.
SETTINGS: dict[str, Any] = {
    "smiles_columns": ["smiles"],
    "target_columns": ["crippen_logp"],
    "split": "scaffold",
    "molecule_descriptors": False,
    "epochs": 25,
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    parser.add_argument("-o", "--output-dir", default="runs/demo", metavar="FOLDER", help="(default: runs/demo)")
    parser.add_argument("--overwrite", action="store_true", help="run again where there is a finished demo")


def run(arguments: argparse.Namespace) -> int:
    """Builds, trains, shows."""
    from edgewise.cli import table
    from edgewise.cli.train import train
    from edgewise.train.folder import RunFolder, write_bytes

    folder = RunFolder(Path(arguments.output_dir))
    data = folder.path / "demo.csv"
    if folder.is_finished and not arguments.overwrite:
        print(f"The demo in {folder.path} is done; --overwrite runs it again.")
        table.print_scores(folder)
        say_what_next()
        return 0
    resume = folder.is_begun and not arguments.overwrite
    folder.check(overwrite=arguments.overwrite, resume=resume)
    if not (resume and data.is_file()):
        from edgewise.data.simulate import demo_table

        print(f"Building {NUM_ROWS:,} molecules and ion pairs with RDKit ...", flush=True)
        folder.path.mkdir(parents=True, exist_ok=True)
        write_bytes(data, demo_table(NUM_ROWS).to_csv(index=False).encode())
    print(
        "The target is the Crippen logP that RDKit computes, hydrogens included: a calculated property, not measured."
    )
    settings = {**SETTINGS, "data": [str(data)]}
    code = train(settings, folder, overwrite=arguments.overwrite, resume=resume, source="the demo")
    if code == 0:
        say_what_next()
    return code


def say_what_next() -> None:
    """What to type for one's own table."""
    print("The test molecules have scaffolds that no training molecule has.")
    print("Your own table: edgewise train data.csv --smiles-columns smiles --target-columns y -o runs/mine")
