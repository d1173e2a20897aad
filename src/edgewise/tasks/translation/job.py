"""Everything that decides a run over pairs of texts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from edgewise.choices import CELLS
from edgewise.errors import SettingError
from edgewise.models.text_settings import CONFIGURATIONS, BeamSettings, RecurrentSettings, TransformerSettings
from edgewise.tasks.config import arranged, check_three_parts
from edgewise.train.settings import TrainSettings, require, usual_threads

ModelSettings = TransformerSettings | RecurrentSettings
MODEL = TransformerSettings(num_layers=3, model_dim=256, hidden_dim=512, context=256, dropout=0.3)
RECIPE = TrainSettings(
    epochs=30,
    batch_size=2048,
    learning_rate=2e-3,
    final_learning_rate=1e-5,
    warmup=0.1,
    weight_decay=0.01,
    ema_decay=0.0,
    keep="best",
    threads=usual_threads(8),
)
"""How a translation is learned where nothing else is asked for; the batch size counts tokens."""
MISSING = {
    "data": "no files were given: edgewise train pairs.csv --text-columns en --target-columns de --task-type "
    "translation, or edgewise train train.en train.de --task-type translation."
}


@dataclass(frozen=True)
class TranslationJob:
    """One training on texts and their translations."""

    data: tuple[str, ...]
    """One, two (train, test) or three (train, val, test) tables; or two, four or six aligned files."""
    text_columns: tuple[str, ...] = ()
    """The column of a table that is read."""
    target_columns: tuple[str, ...] = ()
    """The column of a table that is written."""
    model: ModelSettings = field(default_factory=lambda: MODEL)
    """The model."""
    train: TrainSettings = RECIPE
    """The recipe; its batch size counts tokens, padding included."""
    beam: BeamSettings = field(default_factory=BeamSettings)
    """How translations are searched for."""
    task_type: Literal["translation"] = "translation"
    """What is learned."""
    vocabulary_size: int = 8192
    """Byte pairs, of both languages together, at most."""
    label_smoothing: float = 0.1
    """The part of the probability that is wanted for all tokens alike."""
    split_sizes: tuple[float, ...] = (0.8, 0.1, 0.1)
    """The parts of training, validation and test rows of one file."""
    data_seed: int = 0
    """Seed of the split."""

    def __post_init__(self) -> None:
        check_three_parts(self.split_sizes)
        require("--label-smoothing", self.label_smoothing, 0 <= self.label_smoothing < 1, "at least 0 and below 1")
        require("--data-seed", self.data_seed, self.data_seed >= 0, "at least 0")


def translation_job(config: Mapping[str, Any], source: str = "the settings") -> TranslationJob:
    """The job that a flat table describes; `model` in it may name one of `CONFIGURATIONS`, or a recurrent cell, which
    the rest changes.

    Raises:
        SettingError: A name is not known or not one of the model's, or a value is of the wrong kind.
    """
    config = dict(config)
    model = _named(config.pop("model", None), config.get("cell"))
    _check_owner(config, model)
    kinds = {"model": type(model), "train": TrainSettings, "beam": BeamSettings}
    own, parts = arranged(config, source, TranslationJob, kinds, MISSING)
    return TranslationJob(
        **own,
        model=replace(model, **parts["model"]),
        train=replace(RECIPE, **parts["train"]),
        beam=BeamSettings(**parts["beam"]),
    )


def _named(model: Any, cell: Any) -> ModelSettings:
    """What is chosen by the names of a model and of a cell, either of which may be None."""
    if model is None:
        return MODEL if cell is None else RecurrentSettings(cell=cell)
    if model in CELLS:
        if cell not in (None, model):
            raise SettingError(f"--model {model} and --cell {cell} contradict each other; give one of them.")
        return RecurrentSettings(cell=model)
    if model not in CONFIGURATIONS:
        known = ", ".join((*CELLS, *CONFIGURATIONS))
        raise SettingError(f"--model is {model!r}; for a translation expected one of {known}.")
    return CONFIGURATIONS[model]


def _check_owner(config: Mapping[str, Any], model: ModelSettings) -> None:
    """Raise SettingError where something is set that only the other kind of model has."""
    transformer, recurrent = ({f.name for f in fields(kind)} for kind in (TransformerSettings, RecurrentSettings))
    if isinstance(model, RecurrentSettings):
        foreign, right, wrong = transformer - recurrent, "a transformer", f"--model {model.cell}"
    else:
        foreign, right, wrong = recurrent - transformer, f"--model {' or '.join(CELLS)}", "a transformer"
    for name in config:
        if name.replace("-", "_") in foreign:
            raise SettingError(f"--{name.replace('_', '-')} goes with {right}, not with {wrong}.")
