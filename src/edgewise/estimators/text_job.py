"""Everything that decides a run over a table of texts."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, get_args

from edgewise.choices import TOKEN_KINDS, TokenKind
from edgewise.data.columns import Columns
from edgewise.errors import SettingError
from edgewise.estimators.config import arranged
from edgewise.estimators.settings import TableJob
from edgewise.models.text_settings import EncoderName, TextSettings
from edgewise.models.transformer_settings import CONFIGURATIONS, TransformerSettings
from edgewise.train.settings import TrainSettings, require, require_one_of

MODEL = TransformerSettings(num_layers=1, hidden_dim=256, dropout=0.3, context=512)
RECIPE = TrainSettings(
    batch_size=64,
    learning_rate=5e-4,
    final_learning_rate=1e-6,
    weight_decay=0.2,
    ema_decay=0.0,
    threads=min(os.cpu_count() or 1, 2),
)
"""How a table of texts is learned where nothing else is asked for."""
RECURRENT_RATE = 2e-3
"""The learning rate of a recurrent network, where nothing else is asked for."""
LEAST_STEPS, EPOCHS = 400, 4
"""A large table is read so many times; a small one until so many steps are done."""
PARTS = {"columns": Columns, "text": TextSettings, "model": TransformerSettings, "train": TrainSettings}
MISSING = {
    "data": "no data file was given: edgewise train reviews.csv --text-columns text --target-columns label "
    "(the file stands before flags that take several values).",
    "text_columns": "no --text-columns were given; name the column or columns that hold texts.",
}
"""What is said where a setting without a default is not given."""
PRETRAINED = ("edgewise masked model", 1)
"""The kind of run that can be a start, and its newest format."""
RECURRENT = ("num_layers", "num_heads", "model_dim", "context", "dropout")
"""The sizes that a recurrent network has too."""


@dataclass(frozen=True)
class TextJob(TableJob):
    """One training on a table of texts."""

    train: TrainSettings = RECIPE
    """The recipe."""
    text: TextSettings = field(default_factory=TextSettings)
    """What reads, and how one vector is made of all."""
    model: TransformerSettings = MODEL
    """The sizes of what reads."""
    tokens: TokenKind = "words"
    """What a text is cut into: characters, words or bpe."""
    vocabulary_size: int = 32768
    """Tokens at most, of words and bpe."""
    from_run: str | None = None
    """The folder of a masked run whose vocabulary and weights are the start."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("--tokens", self.tokens, TOKEN_KINDS)
        require("--vocabulary-size", self.vocabulary_size, self.vocabulary_size >= 2, "at least 2")

    def scheduled(self, num_rows: int) -> TrainSettings:
        """The recipe with a number of epochs that fits the training rows."""
        batch_size = self.train.batch_size or 64
        steps = math.ceil(num_rows / batch_size)
        epochs = self.train.epochs or max(EPOCHS, math.ceil(LEAST_STEPS / steps))
        return replace(self.train, batch_size=batch_size, epochs=epochs)


def pretrained_settings(path: str, named: str | None, text: TextSettings) -> TransformerSettings:
    """The choices of the model of a masked run.

    Raises:
        RunFolderError: The folder is not that of a finished masked run.
        SettingError: Another model is asked for.
    """
    from edgewise.train.folder import RunFolder

    if named is not None or text.encoder != "transformer":
        raise SettingError(f"--from {path} brings its own model; leave out --model.")
    content = RunFolder.finished(path).read_model(*PRETRAINED)
    return TransformerSettings(**content["settings"])


def text_job(config: Mapping[str, Any], source: str = "the settings") -> TextJob:
    """The job that a flat table describes.

    `model` in it may name a recurrent network (lstm, gru, rnn), or one of `CONFIGURATIONS`, which the rest changes.

    Raises:
        SettingError: A name is not known, a value is of the wrong kind, or two contradict each other.
    """
    config = dict(config)
    named = config.pop("model", None)
    config.setdefault("task_type", config.pop("task-type", "auto"))
    own, parts = arranged(config, source, TextJob, PARTS, MISSING)
    if named in get_args(EncoderName):
        parts["text"]["encoder"] = named
    elif named is not None and named not in CONFIGURATIONS:
        known = ", ".join([*get_args(EncoderName), *CONFIGURATIONS])
        raise SettingError(f"--model is {named!r}; for a table of texts expected one of {known}.")
    text = TextSettings(**parts["text"])
    given, start = parts["model"], CONFIGURATIONS.get(named or "", MODEL)
    if text.encoder != "transformer":
        for name, value in given.items():
            if name not in RECURRENT and value != getattr(MODEL, name):
                flag = f"--{name.replace('_', '-')}"
                raise SettingError(f"{flag} belongs to transformers; the {text.encoder} has no such choice.")
    if own.get("from_run"):
        start = pretrained_settings(own["from_run"], named, text)
        for name, value in given.items():
            if name != "dropout" and value != getattr(start, name):
                raise SettingError(
                    f"--{name.replace('_', '-')} is {value}, but the model of {own['from_run']} has "
                    f"{getattr(start, name)}; leave it out."
                )
    if text.encoder != "transformer":
        parts["train"].setdefault("learning_rate", RECURRENT_RATE)
    return TextJob(
        **own,
        columns=Columns(**parts["columns"]),
        text=text,
        model=replace(start, **given),
        train=replace(RECIPE, **parts["train"]),
    )
