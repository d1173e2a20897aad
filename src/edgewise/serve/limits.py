"""Limits on requests."""

import math
from dataclasses import dataclass

from edgewise.learn.settings import check, setting


@dataclass(frozen=True)
class Limits:
    """Limits on requests and waiting times; most are flags of `edgewise serve`.

    Raises:
        SettingError: A limit is not positive.
    """

    characters: int = setting(20_000, flag="--max-characters", at_least=1)
    """Characters of a text."""
    smiles: int = setting(2_000, flag="--max-smiles", at_least=1)
    """Characters of a SMILES: the time of an explanation grows with the square of the atoms."""
    rows: int = setting(256, flag="--max-rows", at_least=1)
    """Rows of a request."""
    body: int = setting(1 << 20, hidden=True, at_least=1)
    """The longest body of a request, in bytes."""
    nesting: int = setting(16, hidden=True, at_least=1)
    """How deeply lists and objects may be nested."""
    seconds: float = setting(30.0, flag="--timeout", metavar="SECONDS", above=0, below=math.inf)
    """The longest time from a request to its answer, explanations included."""
    batch_size: int = setting(64, at_least=1)
    """Rows of several requests that are predicted together."""
    batch_wait: float = setting(2.0, flag="--batch-wait-ms", metavar="MS", at_least=0, below=math.inf)
    """How long a request waits for others, to be predicted in one batch."""
    waiting: int = setting(4096, hidden=True, at_least=1)
    """Rows that may wait in the queue; an explanation counts as one."""
    connections: int = setting(512, flag="--max-connections", at_least=1)
    """Connections that are open at once; beyond them the oldest idle connection is closed."""
    header_seconds: float = setting(10.0, flag="--header-timeout", metavar="SECONDS", above=0, below=math.inf)
    """The longest time from a connection, or from the last answer on it, to the end of the next request's headers."""
    header_bytes: int = setting(1 << 14, hidden=True, at_least=1)
    """The longest headers of a request."""
    batching: bool = setting(True)
    """Whether the rows of several requests are predicted together."""

    def __post_init__(self) -> None:
        check(self)
