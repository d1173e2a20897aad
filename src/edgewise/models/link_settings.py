"""What is made of the vectors of two nodes; free of torch so that the command line can show it."""

from dataclasses import dataclass
from typing import Literal, get_args

from edgewise.errors import SettingError

DecoderName = Literal["dot", "hadamard_mlp", "bilinear"]
DECODERS: tuple[str, ...] = get_args(DecoderName)


@dataclass(frozen=True)
class LinkSettings:
    """What is made of the vectors of two nodes."""

    decoder: DecoderName = "dot"
    """dot, their dot product; hadamard_mlp, a network on their product number by number; bilinear, a learned matrix
    between them."""

    def __post_init__(self) -> None:
        if self.decoder not in DECODERS:
            raise SettingError(f"--decoder is {self.decoder!r}; expected one of {', '.join(DECODERS)}.")
