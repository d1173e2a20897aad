"""What models of texts are made of; free of torch so that the command line can show it."""

import math
from dataclasses import dataclass
from typing import Literal, get_args

from edgewise.choices import (
    ACTIVATIONS,
    CELLS,
    LOCALS,
    LOOKS,
    POSITIONS,
    Activation,
    CellName,
    LocalName,
    LookName,
    PositionName,
)
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


EncoderName = Literal["transformer", "lstm", "gru", "rnn"]
ReadoutName = Literal["attention", "mean", "sum", "max"]


@dataclass(frozen=True)
class ReaderSettings:
    """What reads the tokens of a text."""

    encoder: EncoderName = "transformer"
    """What reads: a transformer, or a recurrent network (lstm, gru, rnn) in both directions."""
    word_dropout: float = 0.2
    """The part of the tokens that is unknown in each step of the training."""
    head_dropout: float = 0.3
    """Of the vectors that the answer is read from, in training."""

    def __post_init__(self) -> None:
        require_one_of("encoder", self.encoder, get_args(EncoderName))
        for name in ("word_dropout", "head_dropout"):
            if not 0 <= getattr(self, name) < 1:
                flag = f"--{name.replace('_', '-')}"
                raise SettingError(f"{flag} is {getattr(self, name)}; expected at least 0 and below 1.")


@dataclass(frozen=True)
class TextSettings(ReaderSettings):
    """What reads the tokens of a text, and how their vectors become one."""

    readout: ReadoutName = "attention"
    """What makes one vector of all: attention, mean, sum or max."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_one_of("readout", self.readout, get_args(ReadoutName))


def require_one_of(name: str, value: str, known: tuple[str, ...]) -> None:
    """Raise SettingError unless the value of a setting is known."""
    if value not in known:
        raise SettingError(f"--{name} is {value!r}; expected one of {', '.join(known)}.")


@dataclass(frozen=True)
class RecurrentSettings:
    """The sizes of a recurrent encoder and decoder, and how the decoder looks back at the source.

    With a vocabulary of 8192 the sizes come to about as many parameters as those of the transformer that translates.
    """

    cell: CellName = "lstm"
    """What carries the state from word to word: lstm, gru or rnn (one tanh)."""
    look: LookName = "general"
    """How well state and source match: bahdanau, before the cell moves; or Luong's dot, general or concat, after it."""
    local: LocalName | None = None
    """Whether only a window of the source is seen, which moves on a place a word (monotonic) or to where a network says
    (predictive); None is all of the source."""
    local_window: int = 10
    """How far the window reaches on either side; read where `local` is given."""
    input_feeding: bool = True
    """Whether what was last looked up is read together with the next word (Luong et al. 2015, section 3.3)."""
    num_layers: int = 2
    """Networks of the encoder, one above the other; the decoder is one."""
    model_dim: int = 336
    """Size of a token's vector and of a state; half of an encoder's state reads forward, half backward."""
    context: int = 256
    """Tokens of a text, at most."""
    dropout: float = 0.3
    """Of embeddings, between the networks of the encoder, and before the output, in training."""

    def __post_init__(self) -> None:
        choices = {"cell": CELLS, "look": LOOKS} | ({} if self.local is None else {"local": LOCALS})
        for name, known in choices.items():
            if getattr(self, name) not in known:
                raise SettingError(f"--{name} is {getattr(self, name)!r}; expected one of {', '.join(known)}.")
        for name in ("local_window", "num_layers", "model_dim", "context"):
            value = getattr(self, name)
            if value < 1:
                raise SettingError(f"--{name.replace('_', '-')} is {value}; expected at least 1.")
        if self.local is not None and self.look == "bahdanau":
            raise SettingError("--local goes with --look dot, general or concat, not with --look bahdanau.")
        if self.local is None and self.local_window != type(self).local_window:
            raise SettingError("--local-window goes with --local monotonic or --local predictive.")
        if self.model_dim % 2 != 0:
            raise SettingError(f"--model-dim is {self.model_dim}; expected an even number, half for each direction.")
        if not 0 <= self.dropout < 1:
            raise SettingError(f"--dropout is {self.dropout}; expected at least 0 and below 1.")


@dataclass(frozen=True)
class BeamSettings:
    """How far a search looks around."""

    beam_size: int = 4
    """Texts that grow side by side; 1 always takes the likeliest token."""
    length_penalty: float = 0.6
    """α: texts are compared by ln p / ((5 + length) / 6)^α (Wu et al. 2016, eq. 14); 0 favors short ones."""
    max_length: int = 128
    """Tokens of a text, at most."""

    def __post_init__(self) -> None:
        if self.beam_size < 1:
            raise SettingError(f"--beam-size is {self.beam_size}; expected at least 1.")
        if not 0 <= self.length_penalty < math.inf:
            raise SettingError(f"--length-penalty is {self.length_penalty}; expected at least 0 and finite.")
        if self.max_length < 1:
            raise SettingError(f"--max-length is {self.max_length}; expected at least 1.")

    def score(self, log_probability: float, length: int) -> float:
        """What texts are compared by."""
        return log_probability / ((5 + length) / 6) ** self.length_penalty
