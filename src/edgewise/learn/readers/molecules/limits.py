"""How large a molecule may be, and how long it may take; known without RDKit, for flags and settings."""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from edgewise.learn.settings import check, setting

MAX_ATOMS = 500
"""Four groups of RDKit's descriptors (BCUT2D, electrotopological states, BalabanJ, BertzCT) take time with the cube of
the atoms: 0.1 s at 250, 0.8 s at 500, 7 s at 1,000, a minute at 2,000; all others are nearly linear."""
MAX_SECONDS = 10.0
"""Seconds for one molecule: more than ten times what RDKit takes for 500 atoms."""


@dataclass(frozen=True)
class MoleculeLimits:
    """How large a molecule may be, and how long RDKit may take for it.

    Raises:
        SettingError: A limit is not positive.
    """

    max_atoms: int = setting(MAX_ATOMS, at_least=1)
    """Reject molecules of more atoms; hydrogens count only where they stay atoms of the graph."""
    molecule_timeout: float = setting(MAX_SECONDS, above=0, below=math.inf, metavar="SECONDS")
    """Reject molecules whose features take longer on one processor."""

    def __post_init__(self) -> None:
        check(self)

    def changed(self, *, max_atoms: int | None = None, molecule_timeout: float | None = None) -> "MoleculeLimits":
        """The same limits, with some replaced."""
        return MoleculeLimits(
            self.max_atoms if max_atoms is None else max_atoms,
            self.molecule_timeout if molecule_timeout is None else molecule_timeout,
        )


class SlowMoleculeError(RuntimeError):
    """A molecule may take long, where `at_once` allows only those that do not."""


_IS_AT_ONCE = ContextVar("_IS_AT_ONCE", default=False)


def is_at_once() -> bool:
    """Whether only molecules that take milliseconds may be read here."""
    return _IS_AT_ONCE.get()


@contextmanager
def at_once() -> Iterator[None]:
    """Inside, reading a molecule that may take long raises SlowMoleculeError before anything of it is computed.

    A server of many clients then computes it elsewhere, and no client waits.
    """
    before = _IS_AT_ONCE.set(True)
    try:
        yield
    finally:
        _IS_AT_ONCE.reset(before)
