"""How a graph is put into a store; free of numpy."""

from dataclasses import dataclass

from edgewise.learn.settings import check, setting

DTYPES = ("float32", "float16", "bfloat16")
"""Types for stored features; numpy lacks bfloat16, whose bits are stored as uint16."""


@dataclass(frozen=True)
class StoreSettings:
    """How a graph is put into a store."""

    dtype: str = setting("float32", choices=DTYPES)
    """The type that features of nodes are stored in: float16 and bfloat16 take half the space."""
    edge_time_column: str | None = setting(None, metavar="COLUMN")
    """The time of each edge, a number."""
    memory: int = setting(256, at_least=16)
    """Megabytes that sorting may hold, about; how far a table is larger does not matter."""

    def __post_init__(self) -> None:
        check(self)
