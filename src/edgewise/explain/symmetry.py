"""Which symmetries a function has: tried out, not proved.

    check(f, inputs, Rotation() | Translation())

`check` moves the inputs, runs the function again and compares: f(g·x) = f(x) is invariance, f(g·x) = g·f(x)
equivariance.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, is_dataclass
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import SettingError
from edgewise.explain.groups import Group, Step, Together, Transformation
from edgewise.explain.leaves import (
    FIXED,
    INDEX,
    NODES,
    PAIRS,
    PIXELS,
    POINTS,
    VECTORS,
    Array,
    Axes,
    Graph,
    Leaf,
    as_numpy,
    copied,
    largest_number,
    leaves,
    remedy,
)
from edgewise.explain.sets import CyclicShift, Map, Permutation, QuarterTurn, Reflection, Rotation, Scaling, Translation
from edgewise.explain.verdict import Law, Verdict, unseen_part
from edgewise.neighborhood import Edges

__all__ = [
    "FIXED", "INDEX", "NODES", "PAIRS", "PIXELS", "POINTS", "VECTORS", "Axes", "CyclicShift", "Graph", "Group",
    "Law", "Map", "Permutation", "QuarterTurn", "Reflection", "Rotation", "Scaling", "Step", "Together",
    "Transformation", "Translation", "Verdict", "check",
]  # fmt: skip
Number = bool | int | float | complex | np.generic


@dataclass(frozen=True, eq=False)
class Case:
    """What the function was given, and what it gave."""

    inputs: Any
    """One argument, or a tuple of several."""
    leaves: list[Leaf]
    """The arrays and edges among them."""
    output: Any
    """What came back, with numbers as arrays."""


@dataclass(frozen=True, eq=False)
class Subject:
    """A function, and how what it takes and gives is to be read."""

    f: Callable[..., Any]
    """The function."""
    inputs_as: Any
    """What the arrays among its inputs are; see `check`."""
    output_as: Any
    """What the arrays among its outputs are, or a function that moves them; see `check`."""

    def case(self, inputs: Any) -> Case:
        """The function run on these inputs.

        Raises:
            SettingError: the inputs do not say what they are, or the outputs cannot be compared.
        """
        found = leaves(inputs, self.inputs_as, "inputs")
        arrays = [leaf for leaf in found if not isinstance(leaf.value, Edges)]
        undeclared = [leaf.name for leaf in arrays if leaf.axes is None]
        if len(arrays) < len(found) and len(arrays) > 1 and undeclared:
            # Features of nodes, of edges and of the whole graph look alike: as many edges as nodes, and all would pass.
            raise SettingError(f"check: beside edges, {undeclared[0]} may be many things; {remedy('inputs')}.")
        return Case(inputs, found, self.run(inputs, "as they are"))

    def run(self, inputs: Any, words: str) -> Any:
        """What the function gives for these inputs, which the words describe, with numbers as arrays.

        Raises:
            SettingError: the output holds NaN, or what cannot be compared.
        """
        arguments = copied(inputs)
        output = _as_arrays(self.f(*arguments) if type(arguments) is tuple else self.f(arguments), "output")
        found = leaves(output, None, "output")
        if not found:
            raise SettingError(f"check: f gives no array, but {type(output).__name__}; return what is to be compared.")
        for leaf in found:
            if np.isnan(as_numpy(leaf.value)).any():
                raise SettingError(
                    f"check: f gives NaN in {leaf.name} for the inputs {words}, so no verdict can be given; choose "
                    "inputs where f is defined."
                )
        return output

    def move_inputs(self, case: Case, transformation: Transformation) -> tuple[Any, bool]:
        """The inputs after the transformation, and whether that is anything else than before."""
        moved = transformation.act(case.inputs, self.inputs_as)
        after = [as_numpy(leaf.value) for leaf in leaves(moved, self.inputs_as, "inputs")]
        before = [as_numpy(leaf.value) for leaf in case.leaves]
        return moved, not all(_same(a, b) for a, b in zip(before, after, strict=True))

    def move_output(self, case: Case, transformation: Transformation) -> tuple[Any, bool]:
        """The output after the transformation, and whether there was anything in it to be moved."""
        if callable(self.output_as):
            return _as_arrays(self.output_as(transformation, copied(case.output)), "output_as(…)"), True
        return transformation.act_where_it_can(case.output, self.output_as, "output")


class Evidence:
    """What was seen of both laws so far.

    Args:
        subject: the function.
        tolerance: the largest deviation that passes for rounding.
        least_size: outputs smaller than this are compared as if they had this size.
    """

    def __init__(self, subject: Subject, tolerance: float, least_size: float):
        self.subject, self.tolerance, self.least_size = subject, tolerance, least_size
        self.transformations: list[Transformation] = []
        self.deviations: tuple[list[float], list[float]] = [], []
        self.unseen: list[float] = []
        self.is_testable = False
        self.output_size = 0.0

    @property
    def num_samples(self) -> int:
        """How many transformed inputs were tried."""
        return len(self.transformations)

    def check_repeats(self, case: Case) -> None:
        """Raise SettingError where the function gives something else for the same inputs."""
        again = self.subject.run(case.inputs, "as they are")
        if (gap := difference(again, case.output, self.least_size)) > self.tolerance:
            raise SettingError(
                f"check: f gives two outputs for the same inputs, {gap:.3g} of their size apart, so no verdict can be "
                "given; switch dropout off with model.eval(), or set the seed inside f."
            )

    def add(self, group: str, trials: Iterable[tuple[Transformation, Case]]) -> None:
        """Try these transformations of a set, each on its case.

        Raises:
            SettingError: none of them changed its inputs.
        """
        before = self.num_samples
        for transformation, case in trials:
            inputs, is_moved = self.subject.move_inputs(case, transformation)
            if not is_moved:  # which would prove nothing
                continue
            output = self.subject.run(inputs, f"after {transformation}")
            expected, is_touched = self.subject.move_output(case, transformation)
            self.deviations[0].append(difference(output, case.output, self.least_size))
            self.deviations[1].append(difference(output, expected, self.least_size))
            self.transformations.append(transformation)
            self.is_testable = self.is_testable or is_touched
            self.output_size = max(self.output_size, output_size(case.output), output_size(output))
        if self.num_samples == before:
            raise SettingError(
                f"check: no transformation ({group}) changes the inputs, so nothing is tried; pass inputs in general "
                "position, such as random numbers."
            )
        self.unseen.append(unseen_part(self.num_samples - before))

    def verdict(self, group: str, num_inputs: int) -> Verdict:
        """What was found."""
        return Verdict(
            group=group,
            invariance=self._law(self.deviations[0]),
            equivariance=self._law(self.deviations[1]) if self.is_testable else None,
            num_samples=self.num_samples,
            num_inputs=num_inputs,
            unseen=max(self.unseen),
            tolerance=self.tolerance,
            is_output_declared=self.subject.output_as is not None,
            output_size=self.output_size,
        )

    def _law(self, deviations: list[float]) -> Law:
        broken = [one for one, gap in zip(self.transformations, deviations) if gap > self.tolerance]
        return Law(max(deviations), min(broken, key=lambda one: len(str(one)), default=None))


def difference(output: Any, other: Any, least_size: float) -> float:
    """The largest difference between two outputs, each array relative to its size; ∞ where they are built otherwise.

        max |a − b| / max(|a|, |b|, least_size)

    Of whole numbers and truth values it is the part of the entries that differ; equal infinities do not.
    """
    ours, theirs = ([as_numpy(leaf.value) for leaf in leaves(tree, None, "output")] for tree in (output, other))
    if [array.shape for array in ours] != [array.shape for array in theirs]:
        return np.inf
    return max(_difference(a, b, least_size) for a, b in zip(ours, theirs))


def output_size(output: Any) -> float:
    """The largest finite fraction in an output, without sign; 0 where there is none."""
    arrays = [as_numpy(leaf.value) for leaf in leaves(output, None, "output")]
    return max(largest_number(array) if array.dtype.kind in "fc" else 0.0 for array in arrays)


def coarsest_epsilon(trees: Iterable[Any]) -> float:
    """The largest machine epsilon among the fractions in these trees; that of float64 where there are none."""
    found = [float(np.finfo(np.float64).eps)]
    for tree in trees:
        for leaf in leaves(tree, None, ""):
            if isinstance(leaf.value, Tensor) and (leaf.value.is_floating_point() or leaf.value.is_complex()):
                found.append(torch.finfo(leaf.value.dtype).eps)
            elif isinstance(leaf.value, np.ndarray) and leaf.value.dtype.kind in "fc":
                found.append(float(np.finfo(leaf.value.dtype).eps))
    return max(found)


def _difference(a: np.ndarray, b: np.ndarray, least_size: float) -> float:
    differs = a != b  # by which infinities may be equal
    if not differs.any():
        return 0.0
    if a.dtype.kind in "iub" and b.dtype.kind in "iub":
        return float(differs.mean())
    gap = np.abs(a[differs] - b[differs]).max()
    return float(gap / max(largest_number(a), largest_number(b), least_size)) if np.isfinite(gap) else np.inf


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def _as_arrays(output: Any, name: str) -> Any:
    """The output with its numbers as arrays, known to hold nothing that cannot be compared."""
    if isinstance(output, Number):
        output = np.asarray(output)
    if isinstance(output, tuple | list):
        parts = [_as_arrays(part, f"{name}[{i}]") for i, part in enumerate(output)]
        return type(output)(*parts) if hasattr(output, "_fields") else type(output)(parts)
    if isinstance(output, dict):
        return {key: _as_arrays(part, f"{name}[{key!r}]") for key, part in output.items()}
    if output is None or is_dataclass(output) or (isinstance(output, Array) and as_numpy(output).dtype.kind in "fciub"):
        return output
    kind = f"an array of {output.dtype}" if isinstance(output, Array) else f"of type {type(output).__name__}"
    raise SettingError(
        f"check: {name} is {kind}; f must give arrays, tensors, numbers or edges, or tuples and dicts of them."
    )


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
    # Each set alone and, of several, all one after the other.
    for strand in [*((each,) for each in groups), *([groups] if len(groups) > 1 else [])]:
        trials = _trials(strand, generator, subject, first, draw)
        evidence.add(", ".join(map(str, strand)), islice(trials, samples))
        if draw is None and next(trials, None) is None:
            evidence.unseen[-1] = 0.0  # these were all there are
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

    def endless(group: Group) -> Iterator[Step]:
        while True:
            yield from group.draws(generator, case.leaves)

    return (Transformation(steps) for steps in zip(*map(endless, strand)))
