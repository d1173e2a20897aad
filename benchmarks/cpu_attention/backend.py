"""One backend for everything that edgewise computes, for layers and models, which have no switch of their own."""

import contextlib
from collections.abc import Iterator

from edgewise import backends


@contextlib.contextmanager
def only(name: str) -> Iterator[None]:
    """The named backend first, then those that take what it refuses; "auto" leaves the order as it is."""
    before = backends.ORDER
    try:
        if name != "auto":
            backends.ORDER = before[[backend.NAME for backend in before].index(name) :]
        yield
    finally:
        backends.ORDER = before


def named() -> list[str]:
    """The backends there are, in their order."""
    return [backend.NAME for backend in backends.ORDER]
