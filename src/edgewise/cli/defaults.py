"""The table at the end of `edgewise train --help`: what each kind of training does where no flag says otherwise."""

from typing import Any

ROWS = (
    *("num_layers", "num_heads", "model_dim", "hidden_dim", "dropout", "context"),
    *("epochs", "batch_size", "optimizer", "learning_rate", "final_learning_rate", "warmup", "weight_decay"),
    *("clip_norm", "ema_decay", "keep"),
)
"""The flags whose defaults differ."""


def kinds() -> dict[str, tuple[Any, Any]]:
    """For each kind its model and its recipe."""
    from edgewise.models.settings import PropertySettings
    from edgewise.models.transformer_settings import TransformerSettings
    from edgewise.tasks.graphs import job as graph_job
    from edgewise.tasks.language import job as language_job
    from edgewise.tasks.links import job as link_job
    from edgewise.tasks.masked import job as masked_job
    from edgewise.tasks.nodes import job as node_job
    from edgewise.tasks.tagging import job as tagging_job
    from edgewise.tasks.texts import job as text_job
    from edgewise.tasks.translation import job as translation_job
    from edgewise.train.settings import TrainSettings

    return {
        "molecules": (PropertySettings(), TrainSettings()),
        "graph": node_job.PAPERS[node_job.NodeSettings().model],
        "graphs": (graph_job.LAYERS, TrainSettings()),
        "links": (link_job.USUAL[link_job.DEFAULT], link_job.RECIPE),
        "text": (TransformerSettings(), language_job.RECIPE),
        "classes": (text_job.MODEL, text_job.RECIPE),
        "tagging": (tagging_job.MODEL, tagging_job.RECIPE),
        "masked": (masked_job.MODEL, masked_job.RECIPE),
        "translate": (translation_job.MODEL, translation_job.RECIPE),
    }


def table_of_defaults() -> str:
    """The defaults of every kind, flags in rows; a dash where there is no such choice or it follows from the data."""
    columns = kinds()
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
