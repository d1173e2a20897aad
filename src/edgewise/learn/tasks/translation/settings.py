"""The settings of a run over pairs of texts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal, get_args

from edgewise.choices import CELLS, CellName, PositionName
from edgewise.errors import SettingError
from edgewise.learn.networks.text_settings import CONFIGURATIONS, BeamSettings, RecurrentSettings, TransformerSettings
from edgewise.learn.settings import check, setting, spelled
from edgewise.learn.tables.options import TABLES, TableFormat
from edgewise.learn.tasks.config import TaskSettings, Values, check_sizes_are_read, check_split_sizes
from edgewise.learn.training.settings import TrainSettings, default_threads

ModelSettings = TransformerSettings | RecurrentSettings
MODEL = TransformerSettings(num_layers=3, model_dim=256, hidden_dim=512, context=256, dropout=0.3)
POSITIONS = tuple(name for name in get_args(PositionName) if name != "shaw")
"""Encodings of positions; that of Shaw et al. lists its pairs, which sentences of different lengths do not share."""
RECIPE = TrainSettings(
    epochs=30,
    batch_size=2048,
    learning_rate=2e-3,
    final_learning_rate=1e-5,
    warmup=0.1,
    weight_decay=0.01,
    ema_decay=0.0,
    checkpoint="best",
    threads=default_threads(8),
)
"""The default recipe for translations; the batch size counts tokens."""


@dataclass(frozen=True)
class TranslationRunSettings:
    """The settings of a run over texts and their translations."""

    table: TableFormat = field(default_factory=TableFormat, kw_only=True)
    """How tables and texts are written."""
    data: tuple[str, ...]
    """One, two (train, test) or three (train, val, test) tables; or two, four or six aligned files."""
    text_columns: tuple[str, ...] = setting((), metavar="COLUMN")
    """The column of a table that is translated."""
    target_columns: tuple[str, ...] = setting((), metavar="COLUMN")
    """The column of a table with the translations."""
    model: ModelSettings = field(default_factory=lambda: MODEL)
    """The model."""
    train: TrainSettings = RECIPE
    """The recipe; its batch size counts tokens, padding included."""
    beam: BeamSettings = field(default_factory=BeamSettings)
    """The beam search."""
    task_type: Literal["translation"] = "translation"
    """The one task type."""
    vocabulary_size: int = setting(8192, at_least=2, aliases=("vocab-size",))
    """Byte pairs, of both languages together, at most."""
    label_smoothing: float = setting(0.1, at_least=0, below=1, aliases=("label-smoothing-factor",))
    """The share of the target probability that is spread over all tokens."""
    split_sizes: tuple[float, ...] = setting((0.8, 0.1, 0.1), metavar="FRACTION")
    """Fractions of training, validation and test rows of one file."""
    data_seed: int = setting(0, at_least=0)
    """Seed of the split."""

    def __post_init__(self) -> None:
        check(self)
        check_split_sizes(self.split_sizes, 3)
        check_sizes_are_read(self, len(self.data) == 1 or (len(self.data) == 2 and not self.data[0].endswith(TABLES)))


def sizes_of_model(run: Values, groups: Mapping[str, Values]) -> Values:
    """`model` may name one of `CONFIGURATIONS`, or a recurrent cell."""
    sizes = groups["model"]
    model = _named(run.get("model"), sizes.get("cell"))
    _check_owner(sizes, model)
    return {"model": replace(model, **sizes)}


def _named(model: Any, cell: CellName | None) -> ModelSettings:
    """What is chosen by the names of a model and of a cell, either of which may be None."""
    if model is None:
        return MODEL if cell is None else RecurrentSettings(cell=cell)
    if model in CELLS:
        if cell not in (None, model):
            raise SettingError(f"--model {model} and --cell {cell} contradict each other; give one of them.")
        return RecurrentSettings(cell=model)
    if model not in CONFIGURATIONS:
        names = ", ".join((*CELLS, *CONFIGURATIONS))
        raise SettingError(f"--model is {model!r}; for a translation expected one of {names}.")
    return CONFIGURATIONS[model]


def _check_owner(sizes: Values, model: ModelSettings) -> None:
    """Raise SettingError where something is set that only the other kind of model has."""
    transformer, recurrent = (
        {field.name for field in fields(settings)} for settings in (TransformerSettings, RecurrentSettings)
    )
    if isinstance(model, RecurrentSettings):
        unused, owner, chosen = transformer - recurrent, "a transformer", f"--model {model.cell}"
    else:
        unused, owner, chosen = recurrent - transformer, f"--model {' or '.join(CELLS)}", "a transformer"
    for name in sizes:
        if name in unused:
            raise SettingError(f"{spelled(name)} goes with {owner}, not with {chosen}.")


SETTINGS = TaskSettings(
    name="translation",
    task="edgewise.learn.tasks.translation.task:TASK",
    run_type=TranslationRunSettings,
    format="edgewise translation model",
    summary="translations of texts",
    example="translation pairs.csv --text-columns en --target-columns de",
    predict_flags=("text_columns",),
    estimators=("Translator",),
    unused=dict.fromkeys(("loss_function", "huber_width"), "tokens are learned by cross-entropy"),
    choices={"position": POSITIONS},
    presets=(*CELLS, *CONFIGURATIONS),
    derive=sizes_of_model,
)
