"""The verdict on a symmetry, in numbers and in a sentence."""

import math
from dataclasses import dataclass
from typing import Literal

from edgewise.explain.groups import Transformation
from edgewise.explain.numbers import percent

CONFIDENCE = 0.95
"""The confidence of a verdict about transformations that were not tried."""


@dataclass(frozen=True, eq=False)
class Law:
    """One of the two laws, f(g·x) = f(x) or f(g·x) = g·f(x), as far as it was tested."""

    deviation: float
    """The largest difference between the two sides, relative to the size of the output; ∞ if shapes differ."""
    broken_by: Transformation | None
    """The transformation with the shortest description among those that broke it; None if it held."""

    @property
    def holds(self) -> bool:
        """Whether no transformation broke it."""
        return self.broken_by is None


@dataclass(frozen=True, eq=False)
class Verdict:
    """The symmetry of a function under a set of transformations; printed, it is a sentence."""

    group: str
    """The set, in words."""
    invariance: Law
    """f(g·x) = f(x)."""
    equivariance: Law | None
    """f(g·x) = g·f(x); None if the transformations act on no output, such as a class."""
    num_samples: int
    """The number of transformed inputs that were tested, without those that stayed unchanged."""
    num_inputs: int
    """The number of inputs that were transformed: one, or one per sample if inputs are drawn."""
    unseen: float
    """With a confidence of 95 %, a smaller share of the transformations than this breaks the law, in the set with the
    fewest samples; 0 if every transformation was tested."""
    tolerance: float
    """A law holds if no deviation is larger."""
    is_output_declared: bool
    """Whether `output_as` was given."""
    output_size: float
    """The largest absolute value in the outputs; 0 if they are not floats."""

    @property
    def kind(self) -> Literal["invariant", "equivariant", "both", "neither"]:
        """Which laws hold.

        "both": the transformations do not change the output, such as zero, or rows that are all equal; "invariant" also
        if equivariance could not be tested.
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
        """Whether f(g·x) = g·f(x) held, with outputs that the transformations act on."""
        return self.equivariance is not None and self.equivariance.holds

    @property
    def broken_by(self) -> Transformation | None:
        """If neither law holds, what broke equivariance, or invariance if only that was tested; else None."""
        if self.kind != "neither":
            return None
        return (self.equivariance or self.invariance).broken_by

    def __str__(self) -> str:
        summary = self._broken() if self.kind == "neither" else self._held()
        kind_words = {"both": "both invariant and equivariant", "neither": "neither invariant nor equivariant"}
        measured = f"{self._measured()}; tolerance {self.tolerance:.3g}"
        return f"{kind_words.get(self.kind, self.kind)} to {self.group}: {summary}; {measured}."

    def _held(self) -> str:
        inputs = "one input" if self.num_inputs == 1 else f"{self.num_inputs} inputs"
        if self.unseen == 0:
            all_words = "the only one" if self.num_samples == 1 else f"all {self.num_samples}"
            summary = f"held for {all_words} there {'is' if self.num_samples == 1 else 'are'}, on {inputs}"
        else:
            summary = (
                f"held in {self.num_samples} samples on {inputs}, so that with {CONFIDENCE:.0%} confidence fewer than "
                f"{percent(self.unseen)} of such samples break it"
            )
        return summary + ("; the output does not change under the transformations" if self.kind == "both" else "")

    def _broken(self) -> str:
        if self.equivariance is None:
            return f"invariance is broken by {self.invariance.broken_by}, and the transformations act on no output"
        broke_invariance, broke_equivariance = str(self.invariance.broken_by), str(self.equivariance.broken_by)
        summary = (
            f"broken by {broke_invariance}"
            if broke_invariance == broke_equivariance
            else f"invariance is broken by {broke_invariance}, equivariance by {broke_equivariance}"
        )
        return (
            summary
            if self.is_output_declared
            else f"{summary}; output_as= declares how an output is moved, if not as by default"
        )

    def _measured(self) -> str:
        laws = [law for law in (self.invariance, self.equivariance) if law is not None]
        if self.kind != "neither":
            laws = [law for law in laws if law.holds][:1]
        size = f" of the output's size ({self.output_size:.3g})" if self.output_size else ""
        return f"deviation {' and '.join(f'{law.deviation:.3g}' for law in laws)}{size}"


def max_unseen_share(num_samples: int) -> float:
    """If none of the samples broke a law, an upper bound on the share of transformations that break it.

        (1 − p)ⁿ = 1 − confidence

    The bound is the upper end of the exact (Clopper–Pearson) interval for a proportion with no observed case.
    """
    return 1 - math.exp(math.log(1 - CONFIDENCE) / num_samples)
