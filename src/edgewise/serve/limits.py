"""How much a request may ask for."""

import math
from dataclasses import dataclass

from edgewise.train.settings import require


@dataclass(frozen=True)
class Limits:
    """What is refused, and what is waited for.

    Raises:
        SettingError: A limit is not positive.
    """

    characters: int = 20_000
    """The longest text of a row."""
    smiles: int = 2_000
    """The longest SMILES of a row: an explanation takes time with the square of the atoms."""
    rows: int = 256
    """The most rows of one request."""
    body: int = 1 << 20
    """The longest body of a request, in bytes."""
    nesting: int = 16
    """How deep lists and objects may lie in each other."""
    seconds: float = 30.0
    """The longest time from a request to its answer; an explanation takes part of it too."""
    batch_size: int = 64
    """Rows of several requests that are predicted together."""
    batch_wait: float = 2.0
    """Milliseconds in which a request waits for others, to be predicted with them."""
    waiting: int = 4096
    """Rows that may wait for their turn; an explanation counts as one."""
    connections: int = 512
    """Connections that are open at once; beyond them the oldest that waits without a request is closed."""
    header_seconds: float = 10.0
    """The longest time from a connection, or from the last answer on it, to the end of the next request's headers."""
    header_bytes: int = 1 << 14
    """The longest headers of a request."""
    batching: bool = True
    """Whether the rows of several requests are predicted together."""

    def __post_init__(self):
        flags = {
            "characters": "--max-characters",
            "smiles": "--max-smiles",
            "rows": "--max-rows",
            "batch_size": "--batch-size",
            "connections": "--max-connections",
        }
        for name in (
            *("characters", "smiles", "rows", "body", "nesting", "batch_size", "waiting"),
            *("connections", "header_bytes"),
        ):
            value = getattr(self, name)
            require(flags.get(name, name), value, value >= 1, "at least 1")
        require("--timeout", self.seconds, 0 < self.seconds < math.inf, "above 0")
        require("--header-timeout", self.header_seconds, 0 < self.header_seconds < math.inf, "above 0")
        require("--batch-wait-ms", self.batch_wait, 0 <= self.batch_wait < math.inf, "at least 0")
