"""Tables small enough to train on in a moment."""

import csv
from pathlib import Path

SMALL = [
    "--epochs",
    "2",
    "--model-dim",
    "8",
    "--num-heads",
    "2",
    "--num-layers",
    "1",
    "--head-dim",
    "8",
    "--num-variants",
    "2",
]
"""Flags that make a training take a moment."""


def molecules() -> list[str]:
    """Forty small molecules with something to learn: longer chains, different ends."""
    ends = ("O", "N", "Cl", "C(=O)O", "c1ccccc1")
    return [f"{'C' * (1 + number // 5)}{ends[number % 5]}" for number in range(40)]


def write_csv(path: Path, columns: dict[str, list]) -> Path:
    """Writes columns as a CSV file."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*columns.values(), strict=True))
    return path


def read_csv(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file by column."""
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))
