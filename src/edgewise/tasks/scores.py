"""Scores as tables and lines that a terminal or a page shows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.plural import plural


@dataclass(frozen=True)
class ScoreTable:
    """A table of scores: the model beside its baselines."""

    title: str
    """What is scored."""
    header: Sequence[str]
    """The first column is empty, the others name the scores."""
    rows: Sequence[Sequence[str]]
    """A row for each model."""


def number(value: Any) -> str:
    """A score to four digits; a dash where there is none."""
    return "-" if value is None else f"{value:.4g}" if abs(value) >= 1 else f"{value:.4f}"


def training_line(metrics: Mapping[str, Any]) -> str:
    """How large the model is, and how long it was trained."""
    unit = "step" if "steps" in metrics else "epoch"
    count = plural(metrics[f"{unit}s"], unit)
    return f"{metrics['parameters']:,} parameters, {count} in {metrics['training_seconds']:.0f} s"
