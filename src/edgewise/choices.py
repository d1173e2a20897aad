"""What layers, models and the command line choose by name; without torch, so that --help is fast.

A `Registry` has names of this package and those that other packages add by entry points, both as `module:object`:

    [project.entry-points."edgewise.scores"]
    manhattan = "my_package.manhattan:Manhattan"
"""

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, Literal, TypeVar, get_args

from edgewise.errors import SettingError

T = TypeVar("T")
BROKEN = ImportError, AttributeError, NameError, SyntaxError, TypeError, ValueError, SettingError
"""What the import of a module raises that declares something wrong."""


@dataclass(frozen=True, eq=False)
class Registry(Generic[T]):
    """Objects by name, each imported where it is asked for: those of this package, then those of entry points."""

    noun: str
    """What one is called: `task`, `layer`, `score`, `output` or `companion`."""
    built_in: Mapping[str, "T | str"]
    """Those of this package, or where they are: `module:object`."""
    expected: Any = object
    """The class of the objects, or where it is."""
    loaded: dict[str, T] = field(default_factory=dict)
    """Those that were imported."""

    @property
    def group(self) -> str:
        """The group of entry points by which other packages add to it."""
        return f"edgewise.{self.noun}s"

    @property
    def added(self) -> dict[str, str]:
        """What other packages add: `module:object` by name.

        Raises:
            SettingError: two have one name.
        """
        references: dict[str, str] = {}
        for name, reference in entry_points_of(self.group):
            first = "edgewise itself" if name in self.built_in else references.setdefault(name, reference)
            if first != reference:
                raise SettingError(
                    f"two {self.noun}s are called {name}, those of {first} and {reference}; remove one package, or "
                    f"give its entry point of the group {self.group} another name."
                )
        return references

    def __iter__(self) -> Iterator[str]:
        return iter((*self.built_in, *self.added))

    def __len__(self) -> int:
        return len(self.built_in) + len(self.added)

    def __contains__(self, name: object) -> bool:
        return name in self.built_in or name in self.added

    def __getitem__(self, name: str) -> T:
        """The object of that name.

        Raises:
            SettingError: the name is unknown, or its entry point does not lead to such an object.
        """
        if name not in self.loaded:
            if name not in self:
                raise SettingError(f"unknown {self.noun} {name!r}; expected one of {', '.join(self)}.")
            entry = self.built_in[name] if name in self.built_in else self.added[name]
            self.loaded[name] = self._load(name, entry) if isinstance(entry, str) else entry
        return self.loaded[name]

    def items(self) -> Iterator[tuple[str, T]]:
        """Every name and its object."""
        return ((name, self[name]) for name in self)

    def _load(self, name: str, reference: str) -> T:
        """The object of an entry point, which has its name where it has one."""
        entry = f"{self.group}: the entry point {name} = {reference}"
        try:
            loaded = load(reference)
        except BROKEN as error:
            reason = f"{type(error).__name__}: {error}"
            raise SettingError(f"{entry} cannot be loaded ({reason}); correct or remove its package.") from error
        expected = load(self.expected) if isinstance(self.expected, str) else self.expected
        if not isinstance(loaded, expected):
            is_a = f"is a {type(loaded).__name__}, expected a {expected.__name__}"
            raise SettingError(f"{entry} {is_a}; name the {self.noun}.")
        if isinstance(called := getattr(loaded, "name", name), str) and called != name:
            raise SettingError(f"{entry} is called {called!r}; expected {name!r}, the name of the entry point.")
        return loaded  # type: ignore[no-any-return]


def load(reference: str) -> Any:
    """The object that `module:object` names."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


@cache
def entry_points_of(group: str) -> list[tuple[str, str]]:
    """Name and `module:object` of each entry point of a group, of all installed packages."""
    if f"[{group}]" not in _declared():
        return []
    from importlib.metadata import entry_points  # takes longer than all other imports of `--help`

    return sorted({(entry.name, entry.value) for entry in entry_points(group=group)})


@cache
def _declared() -> str:
    """What all installed packages declare."""
    files = (file for folder in sys.path for file in Path(folder or ".").glob("*-info/entry_points.txt"))
    return "\n".join(file.read_text("utf-8", "replace") for file in files)


def _scores(*names: str) -> dict[str, str]:
    return {name: f"edgewise.layers.scorer:{name}" for name in names}


SCORES: "Registry[Callable[[tuple[int, ...], int], Any]]" = Registry(
    "score",
    _scores("scaled_dot", "dot", "cosine", "bilinear", "additive", "gat", "gatv2", "distance", "constant"),
    Callable,
)
"""From the head axes of the queries and the size of queries and keys to a score, whose parameters are learned."""

NormalizerName = Literal["softmax", "hardmax", "sparsemax", "entmax15", "sigmoid", "mean", "identity"]
NORMALIZERS: tuple[str, ...] = get_args(NormalizerName)

Combine = Literal["concatenate", "weights", "tensor", "mean", "max"]
COMBINES: tuple[str, ...] = get_args(Combine)

Activation = Literal["gelu", "gelu_tanh", "relu"]
ACTIVATIONS: tuple[str, ...] = get_args(Activation)

PositionName = Literal["rotary", "learned", "sinusoidal", "alibi", "t5", "shaw", "none"]
POSITIONS: tuple[str, ...] = get_args(PositionName)

TokenKind = Literal["characters", "words", "bpe", "wordpiece"]
TOKEN_KINDS = ("characters", "words", "bpe")
"""The tokenizers that can be trained; WordPiece is only read from BERT checkpoints."""

Calibration = Literal["random", "group", "scaffold"]
"""How rows are drawn to calibrate intervals: single rows, groups, or scaffolds."""

Gaps = Literal["error", "mask", "interpolate"]
"""How missing and repeated times of a series are handled."""

CellName = Literal["lstm", "gru", "rnn"]
CELLS: tuple[str, ...] = get_args(CellName)

Aggregation = Literal["mean", "max", "sum"]

LookName = Literal["bahdanau", "dot", "general", "concat"]
LOOKS: tuple[str, ...] = get_args(LookName)

LocalName = Literal["monotonic", "predictive"]
LOCALS: tuple[str, ...] = get_args(LocalName)
