"""Everything that decides a run over texts with hidden tokens."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from edgewise.choices import TOKEN_KINDS, TokenKind
from edgewise.models.text_settings import TransformerSettings
from edgewise.tasks.config import arranged, check_two_parts, named_model
from edgewise.train.settings import TrainSettings, require, require_one_of, usual_threads

MODEL = TransformerSettings(num_layers=4, num_heads=4, model_dim=128, context=128, dropout=0.1)
RECIPE = TrainSettings(
    epochs=10,
    batch_size=4096,
    learning_rate=1e-3,
    final_learning_rate=1e-5,
    warmup=0.1,
    weight_decay=0.01,
    ema_decay=0.0,
    keep="best",
    threads=usual_threads(8),
)
"""How hidden tokens are learned where nothing else is asked for; the batch size counts tokens."""
MISSING = {
    "data": "no files were given: edgewise train texts.txt --task-type masked, or edgewise train reviews.csv "
    "--text-columns text --task-type masked."
}


@dataclass(frozen=True)
class MaskedJob:
    """One training on texts, to tell hidden tokens from those around them."""

    data: tuple[str, ...]
    """Text files, each line a text; or tables."""
    text_columns: tuple[str, ...] = ()
    """The columns of a table whose cells are texts."""
    model: TransformerSettings = field(default_factory=lambda: MODEL)
    """The model."""
    train: TrainSettings = RECIPE
    """The recipe; its batch size counts tokens."""
    task_type: Literal["masked"] = "masked"
    """What is learned."""
    tokens: TokenKind = "words"
    """What a text is cut into: characters, words or bpe."""
    vocabulary_size: int = 8192
    """Tokens at most, of words and bpe."""
    mask_part: float = 0.15
    """How much of the tokens is to be told."""
    split_sizes: tuple[float, ...] = (0.9, 0.1)
    """The parts of the rows or lines that are trained on and validated on."""
    data_seed: int = 0
    """Seed of the split."""

    def __post_init__(self) -> None:
        require_one_of("--tokens", self.tokens, TOKEN_KINDS)
        require("--vocabulary-size", self.vocabulary_size, self.vocabulary_size >= 2, "at least 2")
        require("--mask-part", self.mask_part, 0 < self.mask_part < 1, "above 0 and below 1")
        # A hidden token alone has nothing around it.
        require("--context", self.model.context, self.model.context >= 2, "at least 2")
        require("--data-seed", self.data_seed, self.data_seed >= 0, "at least 0")
        check_two_parts(self.split_sizes)


def masked_job(config: Mapping[str, Any], source: str = "the settings") -> MaskedJob:
    """The job that a flat table describes; `model` in it may name one of `CONFIGURATIONS`, which the rest changes.

    Raises:
        SettingError: A name is not known, or a value is of the wrong kind.
    """
    config, model = named_model(config, MODEL, "hidden tokens")
    kinds = {"model": TransformerSettings, "train": TrainSettings}
    own, parts = arranged(config, source, MaskedJob, kinds, MISSING)
    return MaskedJob(**own, model=replace(model, **parts["model"]), train=replace(RECIPE, **parts["train"]))
