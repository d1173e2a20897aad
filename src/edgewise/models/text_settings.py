"""What reads a text, and how it becomes one vector: choices free of torch, so that the command line can show them."""

from dataclasses import dataclass
from typing import Literal, get_args

from edgewise.errors import SettingError

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
