"""Everything that decides a run over a table of texts."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from edgewise.choices import TOKEN_KINDS, TokenKind
from edgewise.data.columns import Columns
from edgewise.models.text_settings import TextSettings, TransformerSettings
from edgewise.tasks.config import arranged
from edgewise.tasks.pretrained import chosen, scheduled
from edgewise.tasks.table_job import TableJob
from edgewise.train.settings import TrainSettings, require, require_one_of, usual_threads

MODEL = TransformerSettings(num_layers=1, hidden_dim=256, dropout=0.3, context=512)
RECIPE = TrainSettings(
    batch_size=64,
    learning_rate=5e-4,
    final_learning_rate=1e-6,
    weight_decay=0.2,
    ema_decay=0.0,
    threads=usual_threads(2),
)
"""How a table of texts is learned where nothing else is asked for."""
RECURRENT_RATE = 2e-3
"""The learning rate of a recurrent network, where nothing else is asked for."""
PARTS = {"columns": Columns, "text": TextSettings, "model": TransformerSettings, "train": TrainSettings}
MISSING = {
    "data": "no data file was given: edgewise train reviews.csv --text-columns text --target-columns label "
    "(the file stands before flags that take several values).",
    "text_columns": "no --text-columns were given; name the column or columns that hold texts.",
}
"""What is said where a setting without a default is not given."""


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
        return scheduled(self.train, num_rows)


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
    text, model = chosen(TextSettings, MODEL, named, parts["text"], parts["model"], own.get("from_run"))
    if text.encoder != "transformer":
        parts["train"].setdefault("learning_rate", RECURRENT_RATE)
    return TextJob(
        **own,
        columns=Columns(**parts["columns"]),
        text=text,
        model=model,
        train=replace(RECIPE, **parts["train"]),
    )
