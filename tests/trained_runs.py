"""Small trained runs, one of each kind: trained once in a session, for all tests and workers that only read them."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock

from cli_tables import molecules, write_csv

MOLECULES = {
    "epochs": 2, "model_dim": 8, "num_heads": 2, "num_layers": 1, "head_dim": 8, "num_variants": 2, "baselines": False,
}  # fmt: skip
TEXTS = ("a fine film", "fine acting, a fine end", "a dull film", "dull, and dull again")
TRANSLATIONS = ("gut", "gut gespielt", "fade", "fade und wieder fade")
ANIMALS = {"cat": "meows", "dog": "barks", "cow": "moos", "pig": "grunts"}


def of_molecules(folder: Path) -> tuple[str, dict[str, Any]]:
    """Forty molecules, and how long their SMILES are; intervals at 0.9 need nine validation rows."""
    smiles = molecules()
    data = write_csv(folder / "data.csv", {"smiles": smiles, "y": [len(text) for text in smiles]})
    columns = {"smiles_columns": ("smiles",), "target_columns": ("y",), "split_sizes": (0.5, 0.25, 0.25)}
    return "molecules", {"data": (str(data),), **columns, **MOLECULES}


def of_mixtures(folder: Path) -> tuple[str, dict[str, Any]]:
    """Two molecules and two numbers a row."""
    smiles = molecules()
    columns = {
        "cation": smiles,
        "anion": smiles[::-1],
        "temperature": [250 + 3 * place for place in range(40)],
        "pressure": [1 + place % 3 for place in range(40)],
        "y": [len(text) + place / 10 for place, text in enumerate(smiles)],
    }
    data = write_csv(folder / "salts.csv", columns)
    roles = {"smiles_columns": ("cation", "anion"), "descriptors_columns": ("temperature", "pressure")}
    return "molecules", {"data": (str(data),), **roles, "target_columns": ("y",), **MOLECULES}


def of_texts(folder: Path) -> tuple[str, dict[str, Any]]:
    """Texts that are good or bad, of which the model reads twelve words."""
    data = write_csv(folder / "texts.csv", {"text": TEXTS * 10, "label": ("good", "good", "bad", "bad") * 10})
    roles = {"text_columns": ("text",), "target_columns": ("label",), "task_type": "classification"}
    sizes = {"epochs": 1, "model_dim": 16, "num_heads": 2, "context": 12, "tokens": "words", "baselines": False}
    return "texts", {"data": (str(data),), **roles, **sizes}


def of_translations(folder: Path) -> tuple[str, dict[str, Any]]:
    """Texts and their translations, by a recurrent network that reads 23 tokens."""
    data = write_csv(folder / "pairs.csv", {"source": TEXTS * 5, "target": TRANSLATIONS * 5})
    roles = {"text_columns": ("source",), "target_columns": ("target",), "model": "gru"}
    sizes = {"epochs": 1, "model_dim": 16, "num_layers": 1, "context": 24, "vocabulary_size": 280, "max_length": 6}
    return "translation", {"data": (str(data),), **roles, **sizes}


def of_masked(folder: Path) -> tuple[str, dict[str, Any]]:
    """Texts of which tokens are hidden."""
    path = folder / "texts.txt"
    path.write_text("".join(f"the {animal} always {sound} .\n" for animal, sound in [*ANIMALS.items()] * 10))
    sizes = {"epochs": 1, "model_dim": 16, "num_heads": 2, "num_layers": 1, "context": 16, "batch_size": 128}
    return "masked", {"data": (str(path),), **sizes}


KINDS: dict[str, Callable[[Path], tuple[str, dict[str, Any]]]] = {
    "molecules": of_molecules,
    "mixtures": of_mixtures,
    "texts": of_texts,
    "translations": of_translations,
    "masked": of_masked,
}


class TrainedRuns:
    """Finished run folders by their kind. A test that changes one asks for a copy."""

    def __init__(self, folder: Path):
        self.folder = folder

    def __call__(self, kind: str, copy: Path | None = None) -> Path:
        """The run folder of a kind, trained at its first use in any worker; `copy` is where a copy goes."""
        folder = self.folder / kind
        with FileLock(f"{folder}.lock"):
            if not (folder / "run/metrics.json").exists():
                folder.mkdir(parents=True)
                train(kind, folder)
        return folder / "run" if copy is None else Path(shutil.copytree(folder / "run", copy))


def train(kind: str, folder: Path) -> None:
    """Trains the run of a kind, from files in the folder, as `edgewise train` does but for the report."""
    from edgewise.learn.tasks.registry import task
    from edgewise.learn.tasks.run import Run
    from edgewise.learn.training.folder import RunFolder

    name, settings = KINDS[kind](folder)
    chosen = task(name)
    job: Any = chosen.settings.of({**settings, "threads": 1}, f"the run {kind} of the tests")
    Run.prepare(chosen, job, RunFolder(folder / "run")).finish()


def shared_folder(factory: pytest.TempPathFactory) -> Path:
    """A folder that all workers of a session have in common."""
    base = factory.getbasetemp()
    found = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "trained"
    found.mkdir(exist_ok=True)
    return found
