"""The checker that all other tests rely on: what it refuses, and that the hook puts it on the library."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Literal

import jaxtyping
import pytest
import torch
from beartype.roar import BeartypeCallHintViolation
from jaxtyping import Float, Int
from torch import Tensor

from checker import EVERY_FURTHER, FIRST_CALLS, begin_test, check
from edgewise import Edges, attend
from edgewise.graph import Supervision
from edgewise.layers import MultiHeadAttention

X = torch.zeros(3, 4)


@check
def scaled(
    x: Float[Tensor, "row feature"], by: float = 1, *, rows: Int[Tensor, " row"] | None = None
) -> Float[Tensor, "row 2*feature"]:
    return torch.cat([by * x, x], 1 - int(by == 7))


def test_what_is_as_annotated_passes():
    assert scaled(X, 2, rows=torch.arange(3)).shape == (3, 8)
    assert scaled(torch.zeros(5, 1)).shape == (5, 2), "sizes of one call do not bind the next"


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        ((X[0],), {}),
        ((X.long(),), {}),
        ((X.numpy(),), {}),
        ((X, "2"), {}),
        ((X,), {"rows": torch.arange(4)}),
        ((X,), {"rows": torch.zeros(3)}),
        ((X, 7), {}),
    ],
    ids=["axes", "dtype", "array", "number", "size of another argument", "dtype by name", "what is returned"],
)
def test_what_is_not_is_refused(arguments, named):
    with pytest.raises(BeartypeCallHintViolation):
        scaled(*arguments, **named)


@check
def joined(how: Literal["sum", "mean"], rows: list[Float[Tensor, " row"]], names: dict[str, int]) -> Tensor:
    return torch.stack(rows).sum(0)


def test_a_call_of_a_kind_that_passed_lets_no_other_kind_pass():
    for _ in range(3):
        begin_test()
        joined("sum", [X[0]], {"a": 1})
        for wrong in (("max", [X[0]], {"a": 1}), ("sum", [X[0].long()], {"a": 1}), ("sum", [X[0]], {"a": "1"})):
            with pytest.raises(BeartypeCallHintViolation):
                joined(*wrong)
        assert scaled(X, 2).shape == (3, 8)
        with pytest.raises(BeartypeCallHintViolation):
            scaled(X, 7)


def test_of_many_calls_in_a_test_some_are_looked_at():
    for _ in range(FIRST_CALLS):
        scaled(X)
    num_refused = 0
    for _ in range(3 * EVERY_FURTHER):
        try:
            scaled(X, 7)
        except BeartypeCallHintViolation:
            num_refused += 1
    assert num_refused == 3
    begin_test()
    with pytest.raises(BeartypeCallHintViolation):
        scaled(X, 7)


def test_the_checker_can_be_switched_off(shapes_unchecked):
    assert scaled(X, 7).shape == (6, 4)


def test_an_inner_call_has_sizes_of_its_own():
    @check
    def outer(x: Float[Tensor, "row feature"]) -> Float[Tensor, "row feature"]:
        scaled(x.T)
        return x if len(x) == 3 else x[:, 1:]

    outer(X)
    with pytest.raises(BeartypeCallHintViolation):
        outer(X[:2])


@check
@dataclasses.dataclass
class Pair:
    """Two tensors of one size, and every kind of method."""

    one: Float[Tensor, " row"]
    other: Float[Tensor, " row"]

    @check
    @property
    def both(self) -> Float[Tensor, "two rows"]:
        return self.one

    @check
    @classmethod
    def made(cls, row: Float[Tensor, " row"]) -> "Pair":
        return cls(row, row) if len(row) else None

    @check
    @staticmethod
    def each(rows: int) -> Iterator[Float[Tensor, " row"]]:
        yield from torch.zeros(rows, 2)


class Squares(Sequence[int]):
    """Numbers that are computed where they are read, by a function that is checked, too."""

    def __len__(self) -> int:
        return 3

    def __getitem__(self, index):
        return square(range(3)[index])


@check
def square(number: int) -> int:
    return number**2


@check
def sum_of(numbers: Sequence[int]) -> int:
    return sum(numbers)


def test_looking_at_arguments_may_call_what_is_checked():
    assert sum_of(Squares()) == 5


def test_methods_and_dataclasses():
    assert len(list(Pair.each(3))) == 3
    for wrong in (
        lambda: Pair(X[0], X[1, :2]),
        lambda: Pair.made(X[0]).both,
        lambda: Pair.made(X[0, :0]),
        lambda: Pair.made([1.0]),
        lambda: Pair.each("3"),
    ):
        with pytest.raises((BeartypeCallHintViolation, jaxtyping.TypeCheckError)):
            wrong()


def test_it_is_on_the_functions_methods_and_records_of_the_library():
    edges = Edges(torch.tensor([0, 1]), torch.tensor([1, 0]), 3, 3)
    attend(X, X, X, edges)
    for wrong in (
        lambda: Edges([0, 1], [1, 0], 3, 3),
        lambda: attend(X, X.tolist(), X, edges),
        lambda: MultiHeadAttention("4", 2),
        lambda: MultiHeadAttention(4, 2)(X, neighborhood="edges"),
        lambda: Supervision(*["x" for _ in dataclasses.fields(Supervision)]),
    ):
        with pytest.raises(BeartypeCallHintViolation):
            wrong()
