"""How large a molecule may be, and how long it may take; known without RDKit, for flags and settings."""

import math
from dataclasses import dataclass
from typing import ClassVar

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

    may_wait: ClassVar[bool] = True
    """Whether a molecule that may take long is waited for."""

    def __post_init__(self) -> None:
        check(self)

    def changed(self, *, max_atoms: int | None = None, molecule_timeout: float | None = None) -> "MoleculeLimits":
        """The same limits, with some replaced."""
        return MoleculeLimits(
            self.max_atoms if max_atoms is None else max_atoms,
            self.molecule_timeout if molecule_timeout is None else molecule_timeout,
        )

    @property
    def quick(self) -> "QuickLimits":
        """The same limits for those who cannot wait."""
        return QuickLimits(self.max_atoms, self.molecule_timeout)


@dataclass(frozen=True)
class QuickLimits(MoleculeLimits):
    """The same limits, where a molecule that may take long raises SlowMoleculeError before anything is computed.

    A server of many clients then computes it elsewhere, and no client waits.
    """

    may_wait: ClassVar[bool] = False


class SlowMoleculeError(RuntimeError):
    """A molecule may take long, and its limits are `QuickLimits`."""
