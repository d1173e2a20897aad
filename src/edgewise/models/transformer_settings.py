"""What a transformer is made of: one dataclass of choices, free of torch so that the command line can show them."""

import math
from dataclasses import dataclass
from typing import Literal

from edgewise.choices import ACTIVATIONS, POSITIONS, Activation, PositionName
from edgewise.errors import SettingError


@dataclass(frozen=True)
class TransformerSettings:
    """The sizes of a stack of residual blocks, and how its nodes know where they stand."""

    num_layers: int = 4
    """Blocks."""
    num_heads: int = 4
    """Attentions side by side."""
    num_key_heads: int | None = None
    """Heads of keys and values, each shared by as many query heads; None is as many as query heads."""
    model_dim: int = 128
    """Size of a token's vector."""
    hidden_dim: int | None = None
    """Width of the feed-forward networks; None is 4 · model_dim."""
    context: int = 256
    """Tokens that are read at once in training; with learned positions the most that can be read at all."""
    position: PositionName = "rotary"
    """How order is seen: rotary, learned, sinusoidal, alibi, t5, shaw or none."""
    window: int | None = None
    """How many tokens a token attends to, itself among them; None is all before it."""
    norm: Literal["pre", "post"] = "pre"
    """Whether nodes are normalized before attention and feed-forward network, or after they are added."""
    norm_eps: float = 1e-5
    """What keeps a normalization from dividing by zero."""
    activation: Activation = "gelu"
    """In the feed-forward networks: gelu, gelu_tanh or relu."""
    dropout: float = 0.0
    """Of embeddings, of what each part of a block adds, and of attention weights, in training."""

    norm_embeddings: bool = False
    """Whether the tokens are normalized before the first block, as in BERT."""
    num_segments: int = 0
    """Kinds of texts that stand in one input, each with a learned vector (BERT's token types); 0 is none."""

    def __post_init__(self) -> None:
        if self.num_segments < 0:
            raise SettingError(f"--num-segments is {self.num_segments}; expected at least 0.")
        for name in ("num_layers", "num_heads", "num_key_heads", "model_dim", "hidden_dim", "context", "window"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise SettingError(f"--{name.replace('_', '-')} is {value}; expected at least 1.")
        if self.model_dim % self.num_heads != 0:
            raise SettingError(f"--model-dim ({self.model_dim}) must be a multiple of --num-heads ({self.num_heads}).")
        if self.num_key_heads is not None and self.num_heads % self.num_key_heads != 0:
            raise SettingError(
                f"--num-heads ({self.num_heads}) must be a multiple of --num-key-heads ({self.num_key_heads})."
            )
        choices = {"position": POSITIONS, "activation": ACTIVATIONS, "norm": ("pre", "post")}
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise SettingError(f"--{name} is {getattr(self, name)!r}; expected one of {', '.join(known)}.")
        if not 0 <= self.dropout < 1:
            raise SettingError(f"--dropout is {self.dropout}; expected at least 0 and below 1.")


def gpt2(num_layers: int, num_heads: int, model_dim: int) -> TransformerSettings:
    """The choices of GPT-2 (Radford et al. 2019) in some size."""
    return TransformerSettings(
        num_layers,
        num_heads,
        model_dim=model_dim,
        context=1024,
        position="learned",
        activation="gelu_tanh",
        dropout=0.1,
    )


def original(num_heads: int, model_dim: int, dropout: float) -> TransformerSettings:
    """The choices of the original transformer (Vaswani et al. 2017, table 3) in some size."""
    return TransformerSettings(
        6, num_heads, model_dim=model_dim, context=512, position="sinusoidal", norm="post", activation="relu",
        dropout=dropout,
    )  # fmt: skip


def bert(num_layers: int, num_heads: int, model_dim: int) -> TransformerSettings:
    """The choices of BERT (Devlin et al. 2019) in some size."""
    return TransformerSettings(
        num_layers, num_heads, model_dim=model_dim, context=512, position="learned", norm="post", norm_eps=1e-12,
        dropout=0.1, norm_embeddings=True, num_segments=2,
    )  # fmt: skip


CONFIGURATIONS: dict[str, TransformerSettings] = {
    "gpt2": gpt2(12, 12, 768),
    "gpt2-medium": gpt2(24, 16, 1024),
    "gpt2-large": gpt2(36, 20, 1280),
    "gpt2-xl": gpt2(48, 25, 1600),
    "bert-base": bert(12, 12, 768),
    "bert-large": bert(24, 16, 1024),
    "transformer-base": original(8, 512, 0.1),
    "transformer-big": original(16, 1024, 0.3),
}
"""Settings by the names of the papers' models."""


@dataclass(frozen=True)
class SamplingSettings:
    """How the next token is drawn from its probabilities."""

    num_tokens: int = 200
    """Tokens to write, at most."""
    temperature: float = 1.0
    """What scores are divided by: below 1 the likely become likelier, 0 takes the likeliest, inf draws all alike."""
    top_k: int | None = None
    """Only the k likeliest can be drawn; None is all."""
    top_p: float = 1.0
    """Only the likeliest that together have this probability can be drawn (nucleus sampling)."""
    repetition_penalty: float = 1.0
    """Scores of tokens that stand there already are divided by this where positive, multiplied where negative; 1 is no
    penalty (Keskar et al. 2019)."""
    seed: int = 0
    """Of the draws."""

    def __post_init__(self) -> None:
        expectations = {
            "num_tokens": (self.num_tokens >= 0, "at least 0"),
            "temperature": (self.temperature >= 0, "at least 0"),
            "top_k": (self.top_k is None or self.top_k >= 1, "at least 1"),
            "top_p": (0 < self.top_p <= 1, "above 0 and at most 1"),
            "repetition_penalty": (0 < self.repetition_penalty < math.inf, "above 0 and finite"),
            "seed": (0 <= self.seed < 2**63, "at least 0 and below 2^63"),
        }
        for name, (holds, expected) in expectations.items():
            if not holds:
                value = getattr(self, name)
                raise SettingError(f"--{name.replace('_', '-')} is {value}; expected {expected}.")
