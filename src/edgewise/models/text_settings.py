"""How a text becomes one vector: one dataclass of choices, free of torch so that the command line can show them."""

from dataclasses import dataclass
from typing import Literal, get_args

from edgewise.errors import SettingError

EncoderName = Literal["transformer", "lstm", "gru", "rnn"]
ReadoutName = Literal["attention", "mean", "sum", "max"]


@dataclass(frozen=True)
class TextSettings:
    """What reads the tokens of a text, and how their vectors become one."""

    encoder: EncoderName = "transformer"
    """What reads: a transformer, or a recurrent network (lstm, gru, rnn) in both directions."""
    readout: ReadoutName = "attention"
    """What makes one vector of all: attention, mean, sum or max."""
    word_dropout: float = 0.2
    """The part of the tokens that is unknown in each step of the training."""
    head_dropout: float = 0.3
    """Of the text's vector, in training."""

    def __post_init__(self) -> None:
        for name, known in (("encoder", get_args(EncoderName)), ("readout", get_args(ReadoutName))):
            if getattr(self, name) not in known:
                raise SettingError(f"--{name} is {getattr(self, name)!r}; expected one of {', '.join(known)}.")
        for name in ("word_dropout", "head_dropout"):
            if not 0 <= getattr(self, name) < 1:
                flag = f"--{name.replace('_', '-')}"
                raise SettingError(f"{flag} is {getattr(self, name)}; expected at least 0 and below 1.")
