"""The table at the end of `edgewise train --help`: what each task does where no flag says otherwise."""

from typing import Any

from edgewise.tasks.registry import NAMES, task

ROWS = (
    *("num_layers", "num_heads", "model_dim", "hidden_dim", "dropout", "context"),
    *("epochs", "batch_size", "optimizer", "learning_rate", "final_learning_rate", "warmup", "weight_decay"),
    *("clip_norm", "ema_decay", "keep"),
)
"""The flags whose defaults differ."""


def table_of_defaults() -> str:
    """The defaults of every task, flags in rows; a dash where there is no such choice or it follows from the data."""
    columns = {name: known for name in NAMES if (known := task(name).defaults()) is not None}
    rows = [["", *columns]]
    for name in ROWS:
        cells = [shown(getattr(model, name, getattr(recipe, name, None))) for model, recipe in columns.values()]
        rows.append([f"--{name.replace('_', '-')}", *cells])
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows]
    return "Defaults by what is learned (- where it follows from the data):\n" + "\n".join(
        f"  {line}" for line in lines
    )


def shown(value: Any) -> str:
    """A default as one types it."""
    return "-" if value is None else f"{value:g}" if isinstance(value, float) else str(value)
