"""Everything that decides a run over series on a graph."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from edgewise.data.graphs.source import GraphSource
from edgewise.errors import SettingError
from edgewise.models.time_settings import FORECAST_MODELS, ForecastSettings
from edgewise.tasks.config import arranged, check_foreign, check_three_parts
from edgewise.train.settings import TrainSettings, require, require_one_of

RECIPE = TrainSettings(
    epochs=20,
    batch_size=32,
    optimizer="adam",
    learning_rate=3e-3,
    final_learning_rate=1e-5,
    warmup=0.05,
    weight_decay=0.0,
    second_moment_decay=0.999,
    clip_norm=5.0,
    ema_decay=0.0,
    loss_function="mae",
    keep="best",
)
"""How series are learned where nothing else is asked for; the batch size counts stretches."""
PARTS = {"graph": GraphSource, "model": ForecastSettings, "train": TrainSettings}
MISSING = {
    "data": "no data file was given: edgewise train series.csv --edges edges.csv --task-type forecast "
    "(columns are nodes, rows are times)."
}


@dataclass(frozen=True)
class ForecastJob:
    """One training on series on a graph, to tell what its nodes will be."""

    data: tuple[str, ...]
    """The series, one table: columns are nodes, rows are times."""
    graph: GraphSource = field(default_factory=GraphSource)
    """Where the edges are."""
    model: ForecastSettings = field(default_factory=ForecastSettings)
    """The model."""
    train: TrainSettings = RECIPE
    """The recipe."""
    task_type: Literal["forecast"] = "forecast"
    """What is learned."""
    time_column: str | None = None
    """The column that names the steps, and is no node."""
    split_sizes: tuple[float, ...] = (0.7, 0.1, 0.2)
    """The parts of training, validation and test, in the order of time."""

    def __post_init__(self) -> None:
        require("data", len(self.data), len(self.data) == 1, "one table of series")
        check_three_parts(self.split_sizes)

    @property
    def files(self) -> tuple[str, ...]:
        """All files that are read."""
        return self.data if self.graph.edges is None else (*self.data, self.graph.edges)


def forecast_job(config: Mapping[str, Any], source: str = "the settings") -> ForecastJob:
    """The job that a flat table describes.

    Raises:
        SettingError: A name is not known, or a value is of the wrong kind.
    """
    own, parts = arranged(config, source, ForecastJob, PARTS, MISSING)
    usual = ForecastSettings()
    named = parts["model"].get("model", usual.model)
    require_one_of("--model", named, FORECAST_MODELS, "for series ")
    if named == "gru":
        check_foreign(parts["model"], usual, [name for name in vars(usual) if name != "num_heads"], named)
    for name in ("features", "edge_feature_columns"):
        if parts["graph"].get(name):
            raise SettingError(f"--{name.replace('_', '-')} does nothing for series; leave it out.")
    return ForecastJob(
        **own,
        graph=GraphSource(**parts["graph"]),
        model=ForecastSettings(**parts["model"]),
        train=replace(RECIPE, **parts["train"]),
    )
