"""The settings of a run over texts with masked tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from edgewise.choices import TOKEN_KINDS, TokenKind
from edgewise.learn.networks.text_settings import CONFIGURATIONS, TransformerSettings, named_model
from edgewise.learn.settings import check, setting
from edgewise.learn.tables.options import TableFormat
from edgewise.learn.tasks.config import TaskSettings, Values, check_split_sizes
from edgewise.learn.tasks.pretrained import check_vocabulary
from edgewise.learn.training.settings import TrainSettings, default_threads, require

MODEL = TransformerSettings(num_layers=4, num_heads=4, model_dim=128, context=128, dropout=0.1)
RECIPE = TrainSettings(
    epochs=10,
    batch_size=4096,
    learning_rate=1e-3,
    final_learning_rate=1e-5,
    warmup=0.1,
    weight_decay=0.01,
    ema_decay=0.0,
    checkpoint="best",
    threads=default_threads(8),
)
"""The default recipe for masked tokens; the batch size counts tokens."""


@dataclass(frozen=True)
class MaskedRunSettings:
    """The settings of a run that predicts masked tokens from those around them."""

    table: TableFormat = field(default_factory=TableFormat, kw_only=True)
    """How tables and texts are written."""
    data: tuple[str, ...]
    """Text files, each line a text; or tables."""
    text_columns: tuple[str, ...] = setting((), metavar="COLUMN")
    """The columns of a table whose cells are texts."""
    model: TransformerSettings = field(default_factory=lambda: MODEL)
    """The model."""
    train: TrainSettings = RECIPE
    """The recipe; its batch size counts tokens."""
    task_type: Literal["masked"] = "masked"
    """The one task type."""
    tokens: TokenKind = setting("words", choices=TOKEN_KINDS)
    """How a text is split into tokens."""
    vocabulary_size: int = setting(8192, at_least=2, aliases=("vocab-size",))
    """Tokens of the vocabulary, at most, of words and bpe."""
    lowercase: bool = setting(False, aliases=("do-lower-case",))
    """Whether texts are lowercased."""
    mask_fraction: float = setting(0.15, above=0, below=1, aliases=("mlm-probability",))
    """The fraction of tokens that is masked."""
    split_sizes: tuple[float, ...] = setting((0.9, 0.1), metavar="FRACTION")
    """Fractions of the rows or lines for training and validation."""
    data_seed: int = setting(0, at_least=0)
    """Seed of the split."""

    def __post_init__(self) -> None:
        check(self)
        # A masked token alone has nothing around it.
        require("--context", self.model.context, self.model.context >= 2, "at least 2")
        check_split_sizes(self.split_sizes, 2)


def sizes_of_model(run: Values, groups: Mapping[str, Values]) -> Values:
    """`model` may name one of `CONFIGURATIONS`, which the rest changes."""
    check_vocabulary(run, MaskedRunSettings)
    return {"model": replace(named_model(run.get("model"), MODEL, "masked tokens"), **groups["model"])}


SETTINGS = TaskSettings(
    name="masked",
    task="edgewise.learn.tasks.masked.task:TASK",
    run_type=MaskedRunSettings,
    format="edgewise masked model",
    summary="a masked language model: hidden tokens of texts",
    example="masked texts.txt",
    predict_flags=("text_columns",),
    unused=dict.fromkeys(("loss_function", "huber_width"), "tokens are learned by cross-entropy"),
    presets=tuple(CONFIGURATIONS),
    derive=sizes_of_model,
)
