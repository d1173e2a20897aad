"""How far a search for the best text looks around; free of torch so that the command line can show it."""

import math
from dataclasses import dataclass

from edgewise.errors import SettingError


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
