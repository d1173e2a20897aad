"""The settings of a run over series on a graph."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from edgewise.choices import Gaps
from edgewise.learn.networks.time_settings import ForecastSettings
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.settings import check, setting
from edgewise.learn.tables.options import TableFormat
from edgewise.learn.tasks.config import TaskSettings, Values, check_split_sizes
from edgewise.learn.tasks.graph_settings import check_model_reads
from edgewise.learn.training.settings import NUMBER_OUTPUTS, TrainSettings, require

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
    checkpoint="best",
)
"""The default recipe for series; the batch size counts windows."""


@dataclass(frozen=True)
class ForecastRunSettings:
    """The settings of a run over series on a graph."""

    table: TableFormat = field(default_factory=TableFormat, kw_only=True)
    """How tables and texts are written."""
    data: tuple[str, ...]
    """The series, one table: columns are nodes, rows are times."""
    graph: GraphSource = field(default_factory=GraphSource)
    """Where the edges are."""
    model: ForecastSettings = field(default_factory=ForecastSettings)
    """The model."""
    train: TrainSettings = RECIPE
    """The recipe."""
    task_type: Literal["forecast"] = "forecast"
    """The one task type."""
    time_column: str | None = setting(None, metavar="COLUMN")
    """The column of times (numbers or dates) that rows are sorted by; not a node. None keeps the order of the file."""
    gaps: Gaps = setting("error")
    """What happens to times that are missing or repeated: error refuses them; mask reads missing ones as unknown, and
    interpolate from the rows around them; both take the mean of repeated ones."""
    split_sizes: tuple[float, ...] = setting((0.7, 0.1, 0.2), metavar="FRACTION")
    """Fractions for training, validation and test, in the order of time."""
    strict: bool = setting(False)
    """Stop at the first edge that cannot be read instead of listing it in `rejected.csv`."""

    def __post_init__(self) -> None:
        check(self)
        require("data", len(self.data), len(self.data) == 1, "one table of series")
        check_split_sizes(self.split_sizes, 3)


def check_model(run: Values, groups: Mapping[str, Values]) -> Values:
    """Raise SettingError where a setting is given that the named model does not read: gru is without heads."""
    if groups["model"].get("model") == "gru":
        defaults = ForecastSettings()
        check_model_reads(groups["model"], defaults, [name for name in vars(defaults) if name != "num_heads"], "gru")
    return {}


SETTINGS = TaskSettings(
    name="forecast",
    task="edgewise.learn.tasks.forecast.task:TASK",
    run_type=ForecastRunSettings,
    format="edgewise forecast model",
    summary="future values of the nodes of a graph, from series",
    example="forecast series.csv --edges edges.csv",
    predict_flags=("edges", "gaps"),
    estimators=("Forecaster",),
    choices={"loss_function": tuple(NUMBER_OUTPUTS.built_in)},
    unused=dict.fromkeys(
        ("features", "edge_feature_columns", "edge_category_columns", "edge_type_column"),
        "the model reads the series only",
    ),
    derive=check_model,
)
