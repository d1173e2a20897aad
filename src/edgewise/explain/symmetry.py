"""Which symmetries a function has: tried out, not proved.

    check(f, inputs, Rotation() | Translation())

`check` moves the inputs, runs the function again and compares: f(g·x) = f(x) is invariance, f(g·x) = g·f(x)
equivariance.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

import numpy as np

from edgewise.errors import SettingError
from edgewise.explain.groups.axes import FIXED, INDEX, NODES, PAIRS, PIXELS, POINTS, VECTORS, Axes
from edgewise.explain.groups.grid import CyclicShift, QuarterTurn
from edgewise.explain.groups.group import Group, Step, Together, Transformation
from edgewise.explain.groups.leaves import Graph
from edgewise.explain.groups.map import Map
from edgewise.explain.groups.motion import Reflection, Rotation, Scaling, Translation
from edgewise.explain.groups.permutation import Permutation
from edgewise.explain.trial import Case, Evidence, Subject, coarsest_epsilon
from edgewise.explain.verdict import Law, Verdict

__all__ = [
    "FIXED",
    "INDEX",
    "NODES",
    "PAIRS",
    "PIXELS",
    "POINTS",
    "VECTORS",
    "Axes",
    "CyclicShift",
    "Graph",
    "Group",
    "Law",
    "Map",
    "Permutation",
    "QuarterTurn",
    "Reflection",
    "Rotation",
    "Scaling",
    "Step",
    "Together",
    "Transformation",
    "Translation",
    "Verdict",
    "check",
]


def check(
    f: Callable[..., Any],
    inputs: Any,
    group: Group | Together | Sequence[Group],
    *,
    inputs_as: Any = None,
    output_as: Any = None,
    samples: int = 60,
    tolerance: float | None = None,
    least_size: float = 0.0,
    seed: int = 0,
) -> Verdict:
    """Try out whether a function is invariant or equivariant to a set of transformations.

        invariant    f(g·x) = f(x)            equivariant    f(g·x) = g·f(x)

    Of several sets, joined by `|` or in a list, each is tried alone and all one after the other.

    Args:
        f: any function of arrays, tensors, `Edges` and whatever holds them (tuples, dicts, dataclasses, `Graph`), that
            gives the like, or numbers. What it writes into its arguments is lost.
        inputs: its argument, or a tuple of several; or a function from a random generator to these, which draws new
            ones for every sample. All in general position: equal rows would hide that they change places.
        group: the transformations.
        inputs_as: what the arrays among the inputs are: one `Axes` for all, a tuple with one for each argument, a dict
            for the fields of a dataclass. By default all are points, (…, node, coordinate), and images
            (…, row, column), as the transformation needs it; of a `Graph` all is known.
        output_as: the same for the outputs; by default, points where they have the axes for it, else not moved. Or a
            function (transformation, output) → output of your own.
        samples: how many transformations of each set are tried; fewer where there are no more.
        tolerance: the largest deviation that passes for rounding. By default the square root of the machine epsilon
            of the coarsest dtype among inputs and outputs: 1.5e-8 for float64, 3.5e-4 for float32, 0.09 for
            bfloat16. Prefer float64.
        least_size: outputs smaller than this are compared as if they had this size, for functions whose output is
            zero but for rounding.
        seed: of the random generator; the same seed gives the same verdict.

    Returns:
        The verdict; `str` of it is a sentence.

    Raises:
        SettingError: f is random, gives NaN or what cannot be compared; no input is moved; a setting cannot be.
        ShapeError: the inputs do not fit the transformations, or the outputs do not fit `output_as`.

    Cost: samples + 2 runs of f; for k > 1 sets (k + 1) · samples + 2. Drawn inputs take twice as many.

        >>> distance = lambda points: np.linalg.norm(points[0] - points[1])
        >>> verdict = check(distance, np.array([[1.0, 2.0, 0.5], [4.0, 6.0, 0.5]]), Translation())
        >>> verdict.kind, verdict.num_samples
        ('invariant', 60)
    """
    _check_settings(f, samples, tolerance, least_size)
    groups = _single_sets(group)
    generator = np.random.default_rng(seed)
    draw = inputs if callable(inputs) else None
    subject = Subject(f, inputs_as, output_as)
    first = subject.case(draw(generator) if draw else inputs)
    if tolerance is None:
        tolerance = math.sqrt(coarsest_epsilon((first.inputs, first.output)))
    evidence = Evidence(subject, tolerance, least_size)
    evidence.check_repeats(first)
    for strand in _strands(groups):
        trials = _trials(strand, generator, subject, first, draw)
        evidence.add(", ".join(map(str, strand)), islice(trials, samples))
        if draw is None and next(trials, None) is None:
            evidence.none_is_left()
    return evidence.verdict(", ".join(map(str, groups)), 1 if draw is None else evidence.num_samples)


def _check_settings(f: Any, samples: int, tolerance: float | None, least_size: float) -> None:
    if not callable(f):
        raise SettingError(f"check: f must be a function, not {type(f).__name__}; the inputs come after it.")
    if samples < 1:
        raise SettingError(f"check: samples must be at least 1, not {samples}.")
    for name, value in (("tolerance", tolerance), ("least_size", least_size)):
        if value is not None and not 0 <= value < math.inf:
            raise SettingError(f"check: {name} must be a number that is not negative, not {value}.")


def _single_sets(group: Any) -> tuple[Group, ...]:
    """The sets that are joined, one by one."""
    parts = group.groups if isinstance(group, Together) else group
    parts = tuple(parts) if isinstance(parts, list | tuple) else (parts,)
    singles = tuple(one for part in parts for one in (part.groups if isinstance(part, Together) else (part,)))
    for one in singles:
        if not isinstance(one, Group):
            raise SettingError(f"check: group must be a set of transformations, such as Permutation(), not {one!r}.")
    if not singles:
        raise SettingError("check: group holds no set of transformations; name one, such as Permutation().")
    return singles


def _strands(groups: tuple[Group, ...]) -> list[tuple[Group, ...]]:
    """Each set alone and, of several, all one after the other."""
    alone: list[tuple[Group, ...]] = [(group,) for group in groups]
    return alone if len(groups) == 1 else [*alone, groups]


def _trials(
    strand: tuple[Group, ...],
    generator: np.random.Generator,
    subject: Subject,
    first: Case,
    draw: Callable[[np.random.Generator], Any] | None,
) -> Iterator[tuple[Transformation, Case]]:
    """Transformations of the first case until they end, or each of a case of its own."""
    if draw is None:
        yield from ((transformation, first) for transformation in _transformations(strand, generator, first))
        return
    while True:
        case = subject.case(draw(generator))
        yield next(_transformations(strand, generator, case)), case


def _transformations(strand: tuple[Group, ...], generator: np.random.Generator, case: Case) -> Iterator[Transformation]:
    """Of a single set until it ends; of several, one of each taken together, without end."""
    if len(strand) == 1:
        return (Transformation((step,)) for step in strand[0].draws(generator, case.leaves))
    return (Transformation(steps) for steps in zip(*(_again(group, generator, case) for group in strand)))


def _again(group: Group, generator: np.random.Generator, case: Case) -> Iterator[Step]:
    while True:
        yield from group.draws(generator, case.leaves)
