"""The settings of a run over a text, and the steps it comes to."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from edgewise.choices import TOKEN_KINDS, TokenKind
from edgewise.errors import SettingError
from edgewise.learn.networks.text_settings import CONFIGURATIONS, TransformerSettings, named_model
from edgewise.learn.settings import check, setting
from edgewise.learn.tables.options import TableFormat
from edgewise.learn.tasks.config import Sign, TaskSettings, Values, check_split_sizes
from edgewise.learn.tasks.pretrained import check_vocabulary, read_transformer_settings
from edgewise.learn.training.settings import TrainSettings, default_threads

RECIPE = TrainSettings(
    batch_size=12,
    learning_rate=2e-3,
    final_learning_rate=1e-5,
    warmup=0.05,
    weight_decay=0.1,
    ema_decay=0.0,
    threads=default_threads(8),
)
"""How a language model is trained by default; its matrices are too small for many threads."""
FINE_TUNING_RATE = 5e-5
"""The learning rate of a model that is trained further, as in Hugging Face's Trainer."""
SPLIT_SIZES = (0.9, 0.1)
"""Fractions of a text for training and validation."""
FORMAT = "edgewise language model"
"""How model.json calls the task."""
STEPS_PER_EPOCH = 1000
"""Steps between two validations, about."""


@dataclass(frozen=True)
class LanguageRunSettings:
    """The settings of a run that predicts each token of a text from those before it."""

    table: TableFormat = field(default_factory=TableFormat, kw_only=True)
    """How tables and texts are written."""
    data: tuple[str, ...]
    """The text; several are read one after the other."""
    model: TransformerSettings = field(default_factory=TransformerSettings)
    """The model."""
    train: TrainSettings = RECIPE
    """The recipe; its epochs are passes over the text."""
    task_type: Literal["language"] = "language"
    """The one task type."""
    tokens: TokenKind = setting("characters", choices=TOKEN_KINDS)
    """How a text is split into tokens."""
    vocabulary_size: int = setting(8192, at_least=2, aliases=("vocab-size",))
    """Tokens of the vocabulary, at most, of words and bpe."""
    split_sizes: tuple[float, ...] = setting(SPLIT_SIZES, metavar="FRACTION")
    """Fractions of the text, in its order, for training and validation."""
    validation_data: str | None = setting(None, is_file=True)
    """Another text for validation; then all of the first is for training."""
    steps: int = setting(2000, at_least=1, aliases=("max-iters", "max-steps"))
    """Training steps; ignored where epochs is given."""
    pretrained: str | None = setting(None, metavar="RUN", is_file=True)
    """The folder of a language model, trained or converted, that is trained further. It brings its vocabulary and its
    sizes; only dropout and a shorter context can be chosen."""

    def __post_init__(self) -> None:
        check(self)
        check_split_sizes(self.split_sizes, 2)
        if self.validation_data is not None and self.split_sizes != SPLIT_SIZES:
            raise SettingError("--split-sizes divides one text, but --validation-data names another; leave one out.")

    def schedule(self, num_tokens: int) -> tuple[int, int]:
        """How many epochs, and how many steps in each; the validation text is scored at the end of each epoch.

        Args:
            num_tokens: tokens of the training text.
        """
        steps, batch_size = self.steps, self.train.batch_size or 1
        if self.train.epochs is not None:
            steps = math.ceil(self.train.epochs * num_tokens / (batch_size * self.model.context))
        if (eval_steps := self.train.eval_steps) is not None:
            # Rounded once: an epoch of another length would be rounded up here, and then to whole validations.
            return math.ceil(steps / eval_steps), eval_steps
        epochs = max(1, round(steps / STEPS_PER_EPOCH))
        return epochs, math.ceil(steps / epochs)


def sizes_of_model(run: Values, groups: Mapping[str, Values]) -> Values:
    """`model` may name one of `CONFIGURATIONS`, which the rest changes; a pretrained model brings its own sizes."""
    check_vocabulary(run, LanguageRunSettings)
    name, pretrained = run.get("model"), run.get("pretrained")
    if pretrained is None:
        return {"model": replace(named_model(name, TransformerSettings(), "a text"), **groups["model"])}
    if name is not None:
        raise SettingError(f"--pretrained {pretrained} brings its own model; leave out --model.")
    model = sizes_to_fine_tune(pretrained, read_transformer_settings(pretrained, FORMAT, 1), groups["model"])
    return {"model": model, "train": replace(RECIPE, **{"learning_rate": FINE_TUNING_RATE, **groups["train"]})}


def sizes_to_fine_tune(path: str, sizes: TransformerSettings, changes: Values) -> TransformerSettings:
    """The sizes of a trained model with another dropout or a shorter context.

    Raises:
        SettingError: another size is changed, or the context is longer than the model was trained with.
    """
    for name, value in changes.items():
        is_shorter = name == "context" and value <= sizes.context
        if name != "dropout" and not is_shorter and value != getattr(sizes, name):
            flag = f"--{name.replace('_', '-')}"
            raise SettingError(f"{flag} is {value}, but the model of {path} has {getattr(sizes, name)}; leave it out.")
    return replace(sizes, **changes)


SETTINGS = TaskSettings(
    name="language",
    task="edgewise.learn.tasks.language.task:TASK",
    run_type=LanguageRunSettings,
    format=FORMAT,
    summary="a language model: the next token of a text",
    example="language book.txt",
    signs=(Sign(strength=2, endings=(".txt", ".txt.gz"), holds="is a text"),),
    estimators=("LanguageModel",),
    unused={
        **dict.fromkeys(("loss_function", "huber_width"), "tokens are learned by cross-entropy"),
        **dict.fromkeys(("delimiter", "decimal", "quoting", "sheet"), "a text is not a table"),
    },
    presets=tuple(CONFIGURATIONS),
    derive=sizes_of_model,
)
