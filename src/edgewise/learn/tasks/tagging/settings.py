"""The settings of a run over sentences with tags."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from edgewise.choices import TOKEN_KINDS, TokenKind
from edgewise.learn.networks.text_settings import ReaderSettings, TransformerSettings
from edgewise.learn.settings import check, setting
from edgewise.learn.tables.options import TableFormat
from edgewise.learn.tasks.config import Sign, TaskSettings, Values, check_sizes_are_read, check_split_sizes
from edgewise.learn.tasks.pretrained import ENCODER_NAMES, check_vocabulary, choose_encoder
from edgewise.learn.tasks.texts.settings import RECIPE as TEXT_RECIPE
from edgewise.learn.training.settings import TrainSettings

MODEL = TransformerSettings(num_layers=2, hidden_dim=256, dropout=0.3, context=256)
RECIPE = replace(TEXT_RECIPE, batch_size=32)
"""The default recipe for tags; the batch size counts sentences."""


@dataclass(frozen=True)
class TaggingRunSettings:
    """The settings of a run over sentences with tags."""

    table: TableFormat = field(default_factory=TableFormat, kw_only=True)
    """How tables and texts are written."""
    data: tuple[str, ...]
    """One, two (train, test) or three (train, val, test) files."""
    text_columns: tuple[str, ...] = setting((), metavar="KEY")
    """The key of the words in a JSON object; "tokens" where none is given."""
    target_columns: tuple[str, ...] = setting((), metavar="KEY")
    """The key of the tags; "tags" where none is given."""
    reader: ReaderSettings = field(default_factory=ReaderSettings)
    """The encoder of a sentence."""
    model: TransformerSettings = MODEL
    """The architecture of the encoder."""
    train: TrainSettings = RECIPE
    """The recipe."""
    task_type: Literal["tagging"] = "tagging"
    """The one task type."""
    tokens: TokenKind = setting("words", choices=TOKEN_KINDS)
    """How a sentence is split into tokens; the first token of a word carries its tag."""
    vocabulary_size: int = setting(32768, at_least=2, aliases=("vocab-size",))
    """Tokens of the vocabulary, at most."""
    lowercase: bool = setting(False, aliases=("do-lower-case",))
    """Whether texts are lowercased."""
    pretrained: str | None = setting(None, metavar="RUN", is_file=True)
    """The folder of a masked language model whose vocabulary and weights training starts from."""
    split_sizes: tuple[float, ...] = setting((0.8, 0.1, 0.1), metavar="FRACTION")
    """Fractions of training, validation and test sentences of one file."""
    data_seed: int = setting(0, at_least=0)
    """Seed of the split."""
    strict: bool = setting(False)
    """Stop at the first sentence that cannot be used instead of listing it in `rejected.csv`."""

    def __post_init__(self) -> None:
        check(self)
        check_split_sizes(self.split_sizes, 3)
        check_sizes_are_read(self, len(self.data) == 1)


def encoder_settings_of(run: Values, groups: Mapping[str, Values]) -> Values:
    """The groups reader and model; `--model` may name a recurrent network, or one of `CONFIGURATIONS`."""
    check_vocabulary(run, TaggingRunSettings)
    named, pretrained = run.get("model"), run.get("pretrained")
    reader, model = choose_encoder(ReaderSettings, MODEL, named, groups["reader"], groups["model"], pretrained)
    return {"reader": reader, "model": model}


ENDINGS = (".conll", ".iob", ".bio", ".conll.gz", ".iob.gz", ".bio.gz")
"""Endings of files of sentences with tags."""
SETTINGS = TaskSettings(
    name="tagging",
    task="edgewise.learn.tasks.tagging.task:TASK",
    run_type=TaggingRunSettings,
    format="edgewise tagging model",
    summary="a tag for each word of a sentence, such as names",
    example="tagging train.conll test.conll",
    signs=(Sign(strength=4, endings=ENDINGS, holds="holds sentences with tags"),),
    predict_flags=("text_columns",),
    estimators=("Tagger",),
    unused=dict.fromkeys(("loss_function", "huber_width"), "tags are learned by cross-entropy"),
    presets=ENCODER_NAMES,
    derive=encoder_settings_of,
)
