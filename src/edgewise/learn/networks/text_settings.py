"""What models of texts are made of; free of torch so that the command line can show it."""

import math
from dataclasses import dataclass
from typing import Literal

from edgewise.choices import Activation, CellName, LocalName, LookName, PositionName
from edgewise.errors import SettingError
from edgewise.learn.settings import (
    CONTEXT_ALIASES,
    MAX_DIM,
    MAX_LAYERS,
    MODEL_DIM_ALIASES,
    NUM_HEADS_ALIASES,
    NUM_LAYERS_ALIASES,
    check,
    check_heads,
    setting,
)

MAX_TOKENS = 2**20
"""Tokens that may be written at once: a mistyped number beyond it would be written without end."""


@dataclass(frozen=True)
class TransformerSettings:
    """The sizes of a stack of residual blocks, and how it encodes positions."""

    num_layers: int = setting(4, at_least=1, at_most=MAX_LAYERS, aliases=NUM_LAYERS_ALIASES)
    """Blocks."""
    num_heads: int = setting(4, at_least=1, at_most=MAX_DIM, aliases=NUM_HEADS_ALIASES)
    """Attention heads."""
    num_key_heads: int | None = setting(None, at_least=1, at_most=MAX_DIM, aliases=("num-key-value-heads",))
    """Heads of keys and values, each shared by as many query heads; None is as many as query heads."""
    model_dim: int = setting(128, at_least=1, at_most=MAX_DIM, aliases=MODEL_DIM_ALIASES)
    """Size of a token's vector."""
    hidden_dim: int | None = setting(None, at_least=1, at_most=MAX_DIM, aliases=("intermediate-size",))
    """Width of the feed-forward networks; None is 4 · model_dim."""
    context: int = setting(256, at_least=1, at_most=MAX_DIM, aliases=CONTEXT_ALIASES)
    """Tokens that are read at once in training; with learned positions the most that can be read at all."""
    position: PositionName = setting("rotary")
    """How positions are encoded."""
    window: int | None = setting(None, at_least=1)
    """How many tokens of its own text a token attends to, itself among them: those before it where a text is written,
    else those on both sides; None is all of them."""
    norm: Literal["pre", "post"] = setting("pre")
    """Normalization before attention and feed-forward network, or after the residual sum."""
    norm_eps: float = setting(1e-5, hidden=True)
    """What keeps a normalization from dividing by zero."""
    activation: Activation = setting("gelu")
    """In the feed-forward networks."""
    dropout: float = setting(0.0, at_least=0, below=1)
    """Dropout of embeddings, of the output of each sublayer, and of attention weights, in training."""
    norm_embeddings: bool = setting(False, hidden=True)
    """Whether the tokens are normalized before the first block, as in BERT."""
    num_segments: int = setting(0, at_least=0, at_most=MAX_DIM, hidden=True)
    """Types of texts in one input, each with a learned vector (BERT's token types); 0 is none."""

    def __post_init__(self) -> None:
        check(self)
        check_heads(self)
        if self.num_key_heads is not None and self.num_heads % self.num_key_heads != 0:
            raise SettingError(
                f"--num-heads ({self.num_heads}) must be a multiple of --num-key-heads ({self.num_key_heads})."
            )


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

    num_tokens: int = setting(200, at_least=0, at_most=MAX_TOKENS, aliases=("max-new-tokens",))
    """Tokens to write, at most."""
    temperature: float = setting(1.0, at_least=0)
    """Scores are divided by it: 0 takes the likeliest token, 1 samples as the model predicts, inf draws all alike."""
    top_k: int | None = setting(None, at_least=1)
    """Sample from the k likeliest tokens; None is all."""
    top_p: float = setting(1.0, above=0, at_most=1)
    """Sample from the likeliest tokens that together have this probability (nucleus sampling)."""
    repetition_penalty: float = setting(1.0, above=0, below=math.inf)
    """Above 1, tokens in the text so far become less likely: their scores are divided by this where positive,
    multiplied where negative (Keskar et al. 2019)."""
    seed: int = setting(0, at_least=0, below=2**63)
    """Seed of the sampling."""

    def __post_init__(self) -> None:
        check(self)


EncoderName = Literal["transformer", "lstm", "gru", "rnn"]
ReadoutName = Literal["attention", "mean", "sum", "max"]


@dataclass(frozen=True)
class ReaderSettings:
    """The encoder of a text."""

    encoder: EncoderName = setting("transformer", hidden=True)
    """A transformer, or a recurrent network (lstm, gru, rnn) in both directions; `--model` names it."""
    word_dropout: float = setting(0.2, at_least=0, below=1)
    """The fraction of tokens that is replaced by the unknown token or a mask in each training step."""
    head_dropout: float = setting(0.3, at_least=0, below=1)
    """Dropout of the vectors before the output layer, in training."""

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class TextSettings(ReaderSettings):
    """The encoder of a text, and how its token vectors become one."""

    readout: ReadoutName = setting("attention")
    """How token vectors become one vector of the text."""


@dataclass(frozen=True)
class RecurrentSettings:
    """The sizes of a recurrent encoder and decoder, and how the decoder attends to the source.

    With a vocabulary of 8192 the sizes come to about as many parameters as those of the transformer that translates.
    """

    cell: CellName = setting("lstm")
    """The recurrent cell: lstm, gru or rnn (one tanh)."""
    attention: LookName = setting("general")
    """The score of decoder state and source: bahdanau, before the cell moves; or Luong's dot, general or concat, after
    it."""
    local_attention: LocalName | None = setting(None)
    """Attend to a window of the source only, which moves on by one token a step (monotonic) or to where a network
    predicts (predictive); None attends to all of the source."""
    local_window: int = setting(10, at_least=1)
    """How far the window reaches on either side; used with `local_attention`."""
    input_feeding: bool = setting(True)
    """Whether the last attention output is an input of the next step (Luong et al. 2015, section 3.3)."""
    num_layers: int = setting(2, at_least=1, at_most=MAX_LAYERS, aliases=NUM_LAYERS_ALIASES)
    """Stacked networks of the encoder; the decoder is one."""
    model_dim: int = setting(336, at_least=1, at_most=MAX_DIM, even=True, aliases=MODEL_DIM_ALIASES)
    """Size of a token's vector and of a state; half of an encoder's state reads forward, half backward."""
    context: int = setting(256, at_least=1, at_most=MAX_DIM, aliases=CONTEXT_ALIASES)
    """Tokens of a text, at most."""
    dropout: float = setting(0.3, at_least=0, below=1)
    """Dropout of embeddings, between the networks of the encoder, and before the output, in training."""

    def __post_init__(self) -> None:
        check(self)
        if self.local_attention is not None and self.attention == "bahdanau":
            raise SettingError("--local-attention goes with --attention dot, general or concat, not with bahdanau.")
        if self.local_attention is None and self.local_window != type(self).local_window:
            raise SettingError("--local-window goes with --local-attention monotonic or predictive.")


@dataclass(frozen=True)
class BeamSettings:
    """How wide and how far a beam search looks."""

    beam_size: int = setting(4, at_least=1, aliases=("num-beams",))
    """Candidate texts at each step; 1 always takes the likeliest token."""
    length_penalty: float = setting(0.6, at_least=0, below=math.inf)
    """α: texts are compared by ln p / ((5 + length) / 6)^α (Wu et al. 2016, eq. 14); 0 favors short ones."""
    max_length: int = setting(128, at_least=1)
    """Tokens of a text, at most; with learned positions never more than the context."""

    def __post_init__(self) -> None:
        check(self)

    def score(self, log_probability: float, length: int) -> float:
        """What texts are compared by."""
        return log_probability / ((5 + length) / 6) ** self.length_penalty


def named_model(model: str | None, default: TransformerSettings, what: str) -> TransformerSettings:
    """The sizes that `--model` names.

    Args:
        model: One of `CONFIGURATIONS`, or None.
        default: The settings where it is None.
        what: The task, for the message.

    Raises:
        SettingError: It is none of `CONFIGURATIONS`.
    """
    if model is not None and model not in CONFIGURATIONS:
        raise SettingError(f"--model is {model!r}; for {what} expected one of {', '.join(CONFIGURATIONS)}.")
    return default if model is None else CONFIGURATIONS[model]
