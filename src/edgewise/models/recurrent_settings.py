"""What a recurrent translation model is made of: one dataclass of choices, free of torch for the command line."""

from dataclasses import dataclass

from edgewise.choices import CELLS, LOCALS, LOOKS, CellName, LocalName, LookName
from edgewise.errors import SettingError


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
