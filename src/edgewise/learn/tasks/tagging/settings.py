"""The settings of a run over sentences with tags."""

from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self

from edgewise.choices import TOKEN_KINDS, TokenKind
from edgewise.learn.networks.text_settings import ReaderSettings, TransformerSettings
from edgewise.learn.settings import setting
from edgewise.learn.tasks.config import RunSettings, Sign, check_sizes_are_read, check_split_sizes
from edgewise.learn.tasks.pretrained import READERS, choose_reader
from edgewise.learn.tasks.texts.settings import RECIPE as TEXT_RECIPE
from edgewise.learn.training.settings import TrainSettings

MODEL = TransformerSettings(num_layers=2, hidden_dim=256, dropout=0.3, context=256)
RECIPE = replace(TEXT_RECIPE, batch_size=32)
"""How tags are learned by default; the batch size counts sentences."""


@dataclass(frozen=True)
class TaggingRunSettings(RunSettings):
    """The settings of a run over sentences with tags."""

    FORMAT = "edgewise tagging model"
    SUMMARY = "a tag for each word of a sentence, such as names"
    EXAMPLE = "tagging train.conll test.conll"
    SIGNS = (
        Sign(
            4, endings=(".conll", ".iob", ".bio", ".conll.gz", ".iob.gz", ".bio.gz"), holds="holds sentences with tags"
        ),
    )
    READS = ("text_columns",)
    ESTIMATORS = ("Tagger",)
    FOREIGN = dict.fromkeys(("loss_function", "huber_width"), "tags are learned by cross-entropy")
    PRESETS = READERS

    data: tuple[str, ...]
    """One, two (train, test) or three (train, val, test) files."""
    text_columns: tuple[str, ...] = setting((), metavar="KEY")
    """The key of the words in a JSON object; "tokens" where none is given."""
    target_columns: tuple[str, ...] = setting((), metavar="KEY")
    """The key of the tags; "tags" where none is given."""
    reader: ReaderSettings = field(default_factory=ReaderSettings)
    """What reads a sentence."""
    model: TransformerSettings = MODEL
    """The sizes of the reader."""
    train: TrainSettings = RECIPE
    """The recipe."""
    task_type: Literal["tagging"] = "tagging"
    """What is learned."""
    tokens: TokenKind = setting("words", choices=TOKEN_KINDS)
    """How a sentence is split into tokens; the first token of a word carries its tag."""
    vocabulary_size: int = setting(32768, at_least=2, aliases=("vocab-size",))
    """Tokens of the vocabulary, at most."""
    lowercase: bool = setting(False, aliases=("do-lower-case",))
    """Whether upper and lower case are the same."""
    pretrained: str | None = setting(None, metavar="RUN")
    """The folder of a masked run whose vocabulary and weights are the start."""
    split_sizes: tuple[float, ...] = setting((0.8, 0.1, 0.1), metavar="FRACTION")
    """Fractions of training, validation and test sentences of one file."""
    data_seed: int = setting(0, at_least=0)
    """Seed of the split."""
    strict: bool = setting(False)
    """Stop at the first sentence that cannot be used instead of listing it in `rejected.csv`."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_split_sizes(self.split_sizes, 3)
        check_sizes_are_read(self, len(self.data) == 1)

    @classmethod
    def build(cls, own: dict[str, Any], groups: dict[str, dict[str, Any]], **made: Any) -> Self:
        """As of every run; `model` may name a recurrent network (lstm, gru, rnn), or one of `CONFIGURATIONS`."""
        named = own.pop("model", None)
        reader, model = choose_reader(
            ReaderSettings, MODEL, named, groups["reader"], groups["model"], own.get("pretrained")
        )
        return super().build(own, groups, reader=reader, model=model)


SETTINGS = TaggingRunSettings
