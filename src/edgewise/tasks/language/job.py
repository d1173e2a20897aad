"""Everything that decides a run over a text, and the steps it comes to."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from edgewise.choices import TOKEN_KINDS, TokenKind
from edgewise.models.text_settings import TransformerSettings
from edgewise.tasks.config import arranged, check_two_parts, named_model
from edgewise.train.settings import TrainSettings, require, require_one_of, usual_threads

RECIPE = TrainSettings(
    batch_size=12,
    learning_rate=2e-3,
    final_learning_rate=1e-5,
    warmup=0.05,
    weight_decay=0.1,
    ema_decay=0.0,
    threads=usual_threads(8),
)
"""How a language model is trained where nothing else is asked for; its matrices are too small for many threads."""
STEPS_AN_EPOCH = 1000
"""Steps between two looks at the validation text, about."""
MISSING = {"data": "no text file was given: edgewise train book.txt"}


@dataclass(frozen=True)
class LanguageJob:
    """One training on a text, to tell each token from those before it."""

    data: tuple[str, ...]
    """The text; several are read one behind the other."""
    model: TransformerSettings = field(default_factory=TransformerSettings)
    """The model."""
    train: TrainSettings = RECIPE
    """The recipe; its epochs are passes over the text."""
    task_type: Literal["language"] = "language"
    """What is learned."""
    tokens: TokenKind = "characters"
    """What a text is cut into: characters, words or bpe."""
    vocabulary_size: int = 8192
    """Tokens at most, of words and bpe."""
    split_sizes: tuple[float, ...] = (0.9, 0.1)
    """The parts of the text, in its order, that are trained on and validated on."""
    steps: int = 2000
    """Steps of the training; read where epochs is not given."""

    def __post_init__(self) -> None:
        require_one_of("--tokens", self.tokens, TOKEN_KINDS)
        require("--steps", self.steps, self.steps >= 1, "at least 1")
        require("--vocabulary-size", self.vocabulary_size, self.vocabulary_size >= 2, "at least 2")
        check_two_parts(self.split_sizes)

    def schedule(self, num_tokens: int) -> tuple[int, int]:
        """How many epochs, and how many steps in each; an epoch ends with a look at the validation text.

        Args:
            num_tokens: tokens of the training text.
        """
        steps, batch_size = self.steps, self.train.batch_size or 1
        if self.train.epochs is not None:
            steps = math.ceil(self.train.epochs * num_tokens / (batch_size * self.model.context))
        epochs = max(1, round(steps / STEPS_AN_EPOCH))
        return epochs, math.ceil(steps / epochs)


def language_job(config: Mapping[str, Any], source: str = "the settings") -> LanguageJob:
    """The job that a flat table describes; `model` in it may name one of `CONFIGURATIONS`, which the rest changes.

    Raises:
        SettingError: A name is not known, or a value is of the wrong kind.
    """
    config, model = named_model(config, TransformerSettings(), "a text")
    kinds = {"model": TransformerSettings, "train": TrainSettings}
    own, parts = arranged(config, source, LanguageJob, kinds, MISSING)
    return LanguageJob(**own, model=replace(model, **parts["model"]), train=replace(RECIPE, **parts["train"]))
