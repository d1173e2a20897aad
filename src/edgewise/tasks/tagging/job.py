"""Everything that decides a run over sentences with tags."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from edgewise.choices import TOKEN_KINDS, TokenKind
from edgewise.models.text_settings import ReaderSettings, TransformerSettings
from edgewise.tasks.config import arranged, check_three_parts
from edgewise.tasks.pretrained import chosen
from edgewise.tasks.texts.job import RECIPE as TEXT_RECIPE
from edgewise.train.settings import TrainSettings, require, require_one_of

MODEL = TransformerSettings(num_layers=2, hidden_dim=256, dropout=0.3, context=256)
RECIPE = replace(TEXT_RECIPE, batch_size=32)
"""How tags are learned where nothing else is asked for; the batch size counts sentences."""
PARTS = {"reader": ReaderSettings, "model": TransformerSettings, "train": TrainSettings}
MISSING = {"data": "no files were given: edgewise train train.conll test.conll --task-type tagging"}


@dataclass(frozen=True)
class TaggingJob:
    """One training on sentences, to tell the tag of each word."""

    data: tuple[str, ...]
    """One, two (train, test) or three (train, val, test) files."""
    text_columns: tuple[str, ...] = ()
    """The key of the words in a JSON object; "tokens" where none is given."""
    target_columns: tuple[str, ...] = ()
    """The key of the tags; "tags" where none is given."""
    reader: ReaderSettings = field(default_factory=ReaderSettings)
    """What reads."""
    model: TransformerSettings = MODEL
    """The sizes of what reads."""
    train: TrainSettings = RECIPE
    """The recipe."""
    task_type: Literal["tagging"] = "tagging"
    """What is learned."""
    tokens: TokenKind = "words"
    """What a sentence is cut into: characters, words or bpe; the first token of a word carries its tag."""
    vocabulary_size: int = 32768
    """Tokens at most, of words and bpe."""
    from_run: str | None = None
    """The folder of a masked run whose vocabulary and weights are the start."""
    split_sizes: tuple[float, ...] = (0.8, 0.1, 0.1)
    """The parts of training, validation and test sentences of one file."""
    data_seed: int = 0
    """Seed of the split."""
    strict: bool = False
    """Whether a sentence that cannot be used stops the run instead of being listed in `rejected.csv`."""

    def __post_init__(self) -> None:
        require_one_of("--tokens", self.tokens, TOKEN_KINDS)
        require("--vocabulary-size", self.vocabulary_size, self.vocabulary_size >= 2, "at least 2")
        check_three_parts(self.split_sizes)
        require("--data-seed", self.data_seed, self.data_seed >= 0, "at least 0")


def tagging_job(config: Mapping[str, Any], source: str = "the settings") -> TaggingJob:
    """The job that a flat table describes.

    `model` in it may name a recurrent network (lstm, gru, rnn), or one of `CONFIGURATIONS`, which the rest changes.

    Raises:
        SettingError: A name is not known, a value is of the wrong kind, or two contradict each other.
    """
    config = dict(config)
    named = config.pop("model", None)
    own, parts = arranged(config, source, TaggingJob, PARTS, MISSING)
    reader, model = chosen(ReaderSettings, MODEL, named, parts["reader"], parts["model"], own.get("from_run"))
    return TaggingJob(**own, reader=reader, model=model, train=replace(RECIPE, **parts["train"]))
