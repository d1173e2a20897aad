"""Tests the symmetries of a function on samples; it does not prove them.

    check(f, inputs, Rotation() | Translation())

`check` transforms the inputs, runs the function again and compares: f(g·x) = f(x) is invariance, f(g·x) = g·f(x)
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
from edgewise.explain.groups import Group, Together, Transformation, TransformationStep
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
    GeometricGraph,
    Leaf,
    as_numpy,
    copied,
    largest_number,
    leaves,
    remedy,
)
from edgewise.explain.sets import CyclicShift, Map, Permutation, QuarterTurn, Reflection, Rotation, Scaling, Translation
from edgewise.explain.verdict import Law, Verdict, max_unseen_share
from edgewise.neighborhood import Edges

__all__ = [
    "FIXED", "INDEX", "NODES", "PAIRS", "PIXELS", "POINTS", "VECTORS", "Axes", "CyclicShift", "GeometricGraph", "Group",
    "Law", "Map", "Permutation", "QuarterTurn", "Reflection", "Rotation", "Scaling", "Together",
    "Transformation", "TransformationStep", "Translation", "Verdict", "check",
]  # fmt: skip
Number = bool | int | float | complex | np.generic


@dataclass(frozen=True, eq=False)
class Case:
    """Inputs of the function, and its output."""

    inputs: Any
    """One argument, or a tuple of several."""
    leaves: list[Leaf]
    """The arrays and edges among them."""
    output: Any
    """The output, with numbers as arrays."""


@dataclass(frozen=True, eq=False)
class TestedFunction:
    """A function, and the meaning of its inputs and outputs."""

    f: Callable[..., Any]
    """The function."""
    inputs_as: Any
    """The meaning of the arrays among its inputs; see `check`."""
    output_as: Any
    """The meaning of the arrays among its outputs, or a function that transforms them; see `check`."""

    def case(self, inputs: Any) -> Case:
        """The function run on these inputs.

        Raises:
            SettingError: the meaning of an input is ambiguous, or the outputs cannot be compared.
        """
        input_leaves = leaves(inputs, self.inputs_as, "inputs")
        arrays = [leaf for leaf in input_leaves if not isinstance(leaf.value, Edges)]
        undeclared = [leaf.name for leaf in arrays if leaf.axes is None]
        if len(arrays) < len(input_leaves) and len(arrays) > 1 and undeclared:
            # Features of nodes, of edges and of the graph can have the same shape, and would all be accepted.
            raise SettingError(f"check: beside edges, the meaning of {undeclared[0]} is ambiguous; {remedy('inputs')}.")
        return Case(inputs, input_leaves, self.run(inputs, "as they are"))

    def run(self, inputs: Any, words: str) -> Any:
        """The output of the function for these inputs, which `words` describes; numbers become arrays.

        Raises:
            SettingError: the output has NaN, or cannot be compared.
        """
        arguments = copied(inputs)
        output = _as_arrays(self.f(*arguments) if type(arguments) is tuple else self.f(arguments), "output")
        output_leaves = leaves(output, None, "output")
        if not output_leaves:
            raise SettingError(f"check: f returns {type(output).__name__}, which cannot be compared; return an array.")

        for leaf in output_leaves:
            if np.isnan(as_numpy(leaf.value)).any():
                raise SettingError(
                    f"check: f returns NaN in {leaf.name} for the inputs {words}, so no verdict is possible; choose "
                    "inputs where f is defined."
                )

        return output

    def move_inputs(self, case: Case, transformation: Transformation) -> tuple[Any, bool]:
        """The transformed inputs, and whether they differ from the inputs."""
        moved = transformation.act(case.inputs, self.inputs_as)
        after = [as_numpy(leaf.value) for leaf in leaves(moved, self.inputs_as, "inputs")]
        before = [as_numpy(leaf.value) for leaf in case.leaves]
        return moved, not all(_same(a, b) for a, b in zip(before, after, strict=True))

    def move_output(self, case: Case, transformation: Transformation) -> tuple[Any, bool]:
        """The transformed output, and whether the transformation acted on any of it."""
        if callable(self.output_as):
            return _as_arrays(self.output_as(transformation, copied(case.output)), "output_as(…)"), True
        return transformation.act_if_possible(case.output, self.output_as, "output")


class Evidence:
    """The results for both laws so far.

    Args:
        function: the function.
        tolerance: the largest deviation that counts as rounding.
        min_size: outputs smaller than this are compared as if they had this size.
    """

    def __init__(self, function: TestedFunction, tolerance: float, min_size: float):
        self.function, self.tolerance, self.min_size = function, tolerance, min_size
        self.transformations: list[Transformation] = []
        self.deviations: tuple[list[float], list[float]] = [], []
        self.unseen: list[float] = []
        self.is_testable = False
        self.output_size = 0.0

    @property
    def num_samples(self) -> int:
        """The number of transformed inputs that were tried."""
        return len(self.transformations)

    def check_repeats(self, case: Case) -> None:
        """Raise SettingError if the function returns another output for the same inputs."""
        repeated = self.function.run(case.inputs, "as they are")
        if (gap := difference(repeated, case.output, self.min_size)) > self.tolerance:
            raise SettingError(
                f"check: f returns two outputs for the same inputs, which differ by {gap:.3g} of their size, so no "
                "verdict is possible; switch dropout off with model.eval(), or set the seed inside f."
            )

    def add(self, group: str, trials: Iterable[tuple[Transformation, Case]]) -> None:
        """Tests these transformations of a set, each on its case.

        Raises:
            SettingError: none of them changes its inputs.
        """
        before = self.num_samples
        for transformation, case in trials:
            inputs, is_moved = self.function.move_inputs(case, transformation)
            if not is_moved:  # a sample that proves nothing
                continue
            output = self.function.run(inputs, f"after {transformation}")
            expected, is_touched = self.function.move_output(case, transformation)
            self.deviations[0].append(difference(output, case.output, self.min_size))
            self.deviations[1].append(difference(output, expected, self.min_size))
            self.transformations.append(transformation)
            self.is_testable = self.is_testable or is_touched
            self.output_size = max(self.output_size, output_size(case.output), output_size(output))

        if self.num_samples == before:
            raise SettingError(
                f"check: no transformation ({group}) changes the inputs, so nothing is tested; pass inputs in general "
                "position, such as random numbers."
            )

        self.unseen.append(max_unseen_share(self.num_samples - before))

    def verdict(self, group: str, num_inputs: int) -> Verdict:
        """The verdict on both laws."""
        return Verdict(
            group=group,
            invariance=self._law(self.deviations[0]),
            equivariance=self._law(self.deviations[1]) if self.is_testable else None,
            num_samples=self.num_samples,
            num_inputs=num_inputs,
            unseen=max(self.unseen),
            tolerance=self.tolerance,
            is_output_declared=self.function.output_as is not None,
            output_size=self.output_size,
        )

    def _law(self, deviations: list[float]) -> Law:
        broken = [
            transformation for transformation, gap in zip(self.transformations, deviations) if gap > self.tolerance
        ]
        return Law(max(deviations), min(broken, key=lambda transformation: len(str(transformation)), default=None))


def difference(output: Any, other: Any, min_size: float) -> float:
    """The largest difference between two outputs, each array relative to its size; ∞ if their structures differ.

        max |a − b| / max(|a|, |b|, min_size)

    For integers and booleans it is the share of entries that differ; equal infinities do not differ.
    """
    ours, theirs = ([as_numpy(leaf.value) for leaf in leaves(tree, None, "output")] for tree in (output, other))
    if [array.shape for array in ours] != [array.shape for array in theirs]:
        return np.inf
    return max(_difference(a, b, min_size) for a, b in zip(ours, theirs))


def output_size(output: Any) -> float:
    """The largest finite absolute value among the floats of an output; 0 if there is none."""
    arrays = [as_numpy(leaf.value) for leaf in leaves(output, None, "output")]
    return max(largest_number(array) if array.dtype.kind in "fc" else 0.0 for array in arrays)


def coarsest_epsilon(trees: Iterable[Any]) -> float:
    """The largest machine epsilon among the floats in these trees; that of float64 if there are none."""
    epsilons = [float(np.finfo(np.float64).eps)]
    for tree in trees:
        for leaf in leaves(tree, None, ""):
            if isinstance(leaf.value, Tensor) and (leaf.value.is_floating_point() or leaf.value.is_complex()):
                epsilons.append(torch.finfo(leaf.value.dtype).eps)
            elif isinstance(leaf.value, np.ndarray) and leaf.value.dtype.kind in "fc":
                epsilons.append(float(np.finfo(leaf.value.dtype).eps))
    return max(epsilons)


def _difference(a: np.ndarray, b: np.ndarray, min_size: float) -> float:
    differs = a != b  # equal infinities do not differ
    if not differs.any():
        return 0.0
    if a.dtype.kind in "iub" and b.dtype.kind in "iub":
        return float(differs.mean())
    gap = np.abs(a[differs] - b[differs]).max()
    return float(gap / max(largest_number(a), largest_number(b), min_size)) if np.isfinite(gap) else np.inf


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")


def _as_arrays(output: Any, name: str) -> Any:
    """The output with its numbers as arrays; raises if it cannot be compared."""
    if isinstance(output, Number):
        output = np.asarray(output)
    if isinstance(output, tuple | list):
        parts = [_as_arrays(part, f"{name}[{i}]") for i, part in enumerate(output)]
        return type(output)(*parts) if hasattr(output, "_fields") else type(output)(parts)
    if isinstance(output, dict):
        return {key: _as_arrays(part, f"{name}[{key!r}]") for key, part in output.items()}
    if output is None or is_dataclass(output) or (isinstance(output, Array) and as_numpy(output).dtype.kind in "fciub"):
        return output

    type_words = f"an array of {output.dtype}" if isinstance(output, Array) else f"of type {type(output).__name__}"
    raise SettingError(
        f"check: {name} is {type_words}; f must return arrays, tensors, numbers or edges, or tuples and dicts of them."
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
    min_size: float = 0.0,
    seed: int = 0,
) -> Verdict:
    """Tests whether a function is invariant or equivariant to a set of transformations.

        invariant    f(g·x) = f(x)            equivariant    f(g·x) = g·f(x)

    Several sets, joined by `|` or in a list, are tested one by one and all in sequence.

    Args:
        f: any function of arrays, tensors, `Edges` and containers of them (tuples, dicts, dataclasses,
            `GeometricGraph`) that returns such, or numbers. It gets copies, which it may write into.
        inputs: its argument, or a tuple of several; or a function from a random generator to these, which draws new
            ones for every sample. They should be in general position: equal rows would hide a permutation.
        group: the transformations.
        inputs_as: what the arrays among the inputs are: one `Axes` for all, a tuple with one for each argument, a dict
            for the fields of a dataclass. By default all are points, (…, node, coordinate), and images
            (…, row, column), as the transformation needs it; the fields of a `GeometricGraph` are known.
        output_as: the same for the outputs; by default, points if they have the axes for it, else unchanged. Or a
            function (transformation, output) → output of your own.
        samples: number of transformations of each set to test; fewer if the set is smaller.
        tolerance: the largest deviation that counts as rounding. By default the square root of the machine epsilon
            of the coarsest dtype among inputs and outputs: 1.5e-8 for float64, 3.5e-4 for float32, 0.09 for
            bfloat16. Prefer float64.
        min_size: outputs smaller than this are compared as if they had this size, for functions whose output is
            zero except for rounding.
        seed: of the random generator; the same seed gives the same verdict.

    Returns:
        The verdict; `str(verdict)` is a sentence.

    Raises:
        SettingError: f is random, returns NaN or something incomparable; no input is changed; an argument is invalid.
        ShapeError: the inputs do not fit the transformations, or the outputs do not fit `output_as`.

    Cost: samples + 2 runs of f; for k > 1 sets (k + 1) · samples + 2. Drawn inputs take twice as many.

        >>> distance = lambda points: np.linalg.norm(points[0] - points[1])
        >>> verdict = check(distance, np.array([[1.0, 2.0, 0.5], [4.0, 6.0, 0.5]]), Translation())
        >>> verdict.kind, verdict.num_samples
        ('invariant', 60)
    """
    _check_settings(f, samples, tolerance, min_size)
    groups = _single_sets(group)
    generator = np.random.default_rng(seed)
    draw = inputs if callable(inputs) else None
    function = TestedFunction(f, inputs_as, output_as)
    first = function.case(draw(generator) if draw else inputs)
    if tolerance is None:
        tolerance = math.sqrt(coarsest_epsilon((first.inputs, first.output)))
    evidence = Evidence(function, tolerance, min_size)
    evidence.check_repeats(first)

    # Each set alone, and several sets also in sequence.
    for combination in [*((single,) for single in groups), *([groups] if len(groups) > 1 else [])]:
        trials = _trials(combination, generator, function, first, draw)
        evidence.add(", ".join(map(str, combination)), islice(trials, samples))
        if draw is None and next(trials, None) is None:
            evidence.unseen[-1] = 0.0  # the set was tested completely

    return evidence.verdict(", ".join(map(str, groups)), 1 if draw is None else evidence.num_samples)


def _check_settings(f: Any, samples: int, tolerance: float | None, min_size: float) -> None:
    if not callable(f):
        raise SettingError(f"check: f must be a function, not {type(f).__name__}; the inputs come after it.")
    if samples < 1:
        raise SettingError(f"check: samples must be at least 1, not {samples}.")
    for name, value in (("tolerance", tolerance), ("min_size", min_size)):
        if value is not None and not 0 <= value < math.inf:
            raise SettingError(f"check: {name} must be a non-negative finite number, not {value}.")


def _single_sets(group: Any) -> tuple[Group, ...]:
    """The joined sets as a tuple."""
    parts = group.groups if isinstance(group, Together) else group
    parts = tuple(parts) if isinstance(parts, list | tuple) else (parts,)
    singles = tuple(single for part in parts for single in (part.groups if isinstance(part, Together) else (part,)))
    for single in singles:
        if not isinstance(single, Group):
            raise SettingError(f"check: group must be a set of transformations, such as Permutation(), not {single!r}.")
    if not singles:
        raise SettingError("check: group is empty; pass a set of transformations, such as Permutation().")
    return singles


def _trials(
    combination: tuple[Group, ...],
    generator: np.random.Generator,
    function: TestedFunction,
    first: Case,
    draw: Callable[[np.random.Generator], Any] | None,
) -> Iterator[tuple[Transformation, Case]]:
    """Transformations of the first case until they end, or each of a newly drawn case."""
    if draw is None:
        yield from ((transformation, first) for transformation in _transformations(combination, generator, first))
        return
    while True:
        case = function.case(draw(generator))
        yield next(_transformations(combination, generator, case)), case


def _transformations(
    combination: tuple[Group, ...], generator: np.random.Generator, case: Case
) -> Iterator[Transformation]:
    """The transformations of a single set until it ends; for several sets, endless combinations of one of each."""
    if len(combination) == 1:
        return (Transformation((step,)) for step in combination[0].draws(generator, case.leaves))

    def endless(group: Group) -> Iterator[TransformationStep]:
        while True:
            yield from group.draws(generator, case.leaves)

    return (Transformation(steps) for steps in zip(*map(endless, combination)))
