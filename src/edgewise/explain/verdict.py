"""What was found about a symmetry, in numbers and in a sentence."""

import math
from dataclasses import dataclass
from typing import Literal

from edgewise.explain.groups import Transformation
from edgewise.formatting import percent

CONFIDENCE = 0.95
"""The confidence of a verdict about transformations that were not tried."""


@dataclass(frozen=True, eq=False)
class Law:
    """One of the two laws, f(g·x) = f(x) or f(g·x) = g·f(x), as far as it was tried."""

    deviation: float
    """The largest difference between the two sides, relative to the size of the output; ∞ where shapes differ."""
    broken_by: Transformation | None
    """Of the transformations that broke it, the one with the shortest description; None where it held."""

    @property
    def holds(self) -> bool:
        """Whether no transformation broke it."""
        return self.broken_by is None


@dataclass(frozen=True, eq=False)
class Verdict:
    """What a function does under a set of transformations; printed, it is a sentence."""

    group: str
    """The set, in words."""
    invariance: Law
    """f(g·x) = f(x)."""
    equivariance: Law | None
    """f(g·x) = g·f(x); None where no output is one that the transformations could move, such as a class."""
    num_samples: int
    """How many transformed inputs were tried; those that came out unchanged are not counted."""
    num_inputs: int
    """How many inputs were transformed: one, or one a sample where inputs were drawn."""
    unseen: float
    """With a confidence of 95 %, a smaller part of the transformations than this breaks what held, in the set of
    which fewest were tried; 0 where every one was."""
    tolerance: float
    """A law holds where no deviation is larger."""
    is_output_declared: bool
    """Whether `output_as` declares what the outputs are."""
    output_size: float
    """The largest number in the outputs, without sign; 0 where they are not fractions."""

    @property
    def kind(self) -> Literal["invariant", "equivariant", "both", "neither"]:
        """Which laws hold.

        "both": the output is one that the transformations leave as it is, such as zero, or rows that are all alike;
        "invariant" also where equivariance could not be tested.
        """
        if self.is_invariant:
            return "both" if self.is_equivariant else "invariant"
        return "equivariant" if self.is_equivariant else "neither"

    @property
    def is_invariant(self) -> bool:
        """Whether f(g·x) = f(x) held."""
        return self.invariance.holds

    @property
    def is_equivariant(self) -> bool:
        """Whether f(g·x) = g·f(x) held, with outputs that the transformations could move."""
        return self.equivariance is not None and self.equivariance.holds

    @property
    def broken_by(self) -> Transformation | None:
        """Where neither law holds, what broke equivariance, or invariance where only that was tested; else None."""
        if self.kind != "neither":
            return None
        return (self.equivariance or self.invariance).broken_by

    def __str__(self) -> str:
        found = self._broken() if self.kind == "neither" else self._held()
        kind = {"both": "both invariant and equivariant", "neither": "neither invariant nor equivariant"}
        measured = f"{self._measured()}; tolerance {self.tolerance:.3g}"
        return f"{kind.get(self.kind, self.kind)} to {self.group}: {found}; {measured}."

    def _held(self) -> str:
        inputs = "one input" if self.num_inputs == 1 else f"{self.num_inputs} inputs"
        if self.unseen == 0:
            every = "the only one" if self.num_samples == 1 else f"all {self.num_samples}"
            trust = f"held for {every} there {'is' if self.num_samples == 1 else 'are'}, on {inputs}"
        else:
            trust = (
                f"held in {self.num_samples} samples on {inputs}, so that with {CONFIDENCE:.0%} confidence fewer than "
                f"{percent(self.unseen)} of such samples break it"
            )
        return trust + ("; the output is one that stays as it is" if self.kind == "both" else "")

    def _broken(self) -> str:
        if self.equivariance is None:
            return f"invariance is broken by {self.invariance.broken_by}, and no output is one that could be moved"
        one, other = str(self.invariance.broken_by), str(self.equivariance.broken_by)
        both = f"broken by {one}" if one == other else f"invariance is broken by {one}, equivariance by {other}"
        return (
            both
            if self.is_output_declared
            else f"{both}; output_as= declares how an output is moved, if not as by default"
        )

    def _measured(self) -> str:
        laws = [law for law in (self.invariance, self.equivariance) if law is not None]
        if self.kind != "neither":
            laws = [law for law in laws if law.holds][:1]
        size = f" of the output's size ({self.output_size:.3g})" if self.output_size else ""
        return f"deviation {' and '.join(f'{law.deviation:.3g}' for law in laws)}{size}"


def unseen_part(num_samples: int) -> float:
    """Where none of so many samples broke a law, the part of all transformations that may break it.

        (1 − p)ⁿ = 1 − confidence

    The number is the upper end of the exact (Clopper–Pearson) interval for a proportion of which no case was seen.
    """
    return 1 - math.exp(math.log(1 - CONFIDENCE) / num_samples)
