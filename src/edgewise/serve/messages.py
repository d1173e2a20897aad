"""What goes in and what comes out, as pydantic models: the description of the interface is made from them.

The rows of one model are not those of another, so their models are made when a server is: a text column is a string of
bounded length, a number is finite, and nothing else may stand in a row.
"""

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from edgewise.errors import DataError, MissingExtraError
from edgewise.explain.explanation import TargetPrediction
from edgewise.serve.lanes import Outcome, Predicted
from edgewise.serve.limits import Limits

try:
    from pydantic import BaseModel, ConfigDict, Field, ValidationError, WrapValidator, create_model
except ModuleNotFoundError as error:
    raise MissingExtraError("fastapi", "serve") from error

NAME = 200
"""The most characters of a node's name, or of a word that chooses what is explained."""
TOP = 1000
"""The maximal number of weights for each receiver."""
WORD = Annotated[str, Field(strict=True, min_length=1, max_length=NAME)] | None
"""A word that is listed nowhere, such as one of the row itself; or none."""
STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
ABOUT = {
    "text": "a text",
    "smiles": "a molecule as SMILES",
    "number": "a number of the row",
    "node": "the name of a node of the graph, or of one of many graphs",
}


class PredictionAnswer(BaseModel):
    """What is predicted of one target; null where there is no number."""

    name: str = Field(description="the target")
    value: float | None = Field(description="the predicted value; the number of the class for classes")
    label: str = Field(description="the predicted class, or the text that is written; empty for numbers")
    std: float | None = Field(description="the standard deviation of the target around its prediction")
    ensemble_std: float | None = Field(description="the standard deviation over the members of an ensemble")
    low: float | None = Field(description="the lower end of the interval")
    high: float | None = Field(description="the upper end")
    probabilities: dict[str, float | None] = Field(description="of each class; empty for numbers")


class RowAnswer(BaseModel):
    """The predictions of a row, or why there are none."""

    predictions: list[PredictionAnswer] = Field(description="one entry a target; empty where the row cannot be read")
    status: str = Field(description="ok; ok, and what the prediction lacks; or the error")
    error: str | None = Field(description="why the row cannot be read; null where it can")


class PredictAnswer(BaseModel):
    """The predictions of each row, in the order of the request."""

    rows: list[RowAnswer]


class ExplainAnswer(BaseModel):
    """A row explained; what stands in each list is documented in `edgewise.explain.explanation`."""

    kind: str = Field(description="text, molecule or graph")
    title: str
    sources: dict[str, str] = Field(description="the text of each column as it came; SMILES for molecules")
    predictions: list[PredictionAnswer]
    explained: str = Field(description="which number the attributions speak of")
    units: list[dict[str, Any]] = Field(description="tokens, atoms, nodes")
    links: list[dict[str, Any]] = Field(description="bonds, or the edges of a graph")
    layers: list[dict[str, Any]] = Field(description="the attention of each layer")
    attributions: list[dict[str, Any]] = Field(description="how much each unit matters, by several methods")
    parts: list[dict[str, Any]] = Field(description="what happens without whole groups of units")
    curves: list[dict[str, Any]] = Field(description="how the prediction answers to the numbers of the row")
    faithfulness: dict[str, Any] | None = Field(description="whether the attributions can be believed")
    center: int | None = Field(description="the node that is explained, in a graph; of two, the first")
    other_end: int | None = Field(description="the second, where two nodes are explained together")
    notes: list[str]


class FieldAnswer(BaseModel):
    """A cell of a row."""

    model_config = ConfigDict(extra="allow")
    name: str
    type: str = Field(description="text, smiles, number or node")
    may_be_missing: bool = Field(False, description="whether null stands for a number that the model fills")


class ModelAnswer(BaseModel):
    """What is served."""

    kind: str = Field(description="text, molecule or graph")
    fields: list[FieldAnswer] = Field(description="what a row consists of")
    facts: dict[str, Any] = Field(description="what there is to know of the model")
    limits: dict[str, float | bool] = Field(description="what a request may ask for")


class ErrorAnswer(BaseModel):
    """Why a request was refused."""

    error: str = Field(description="the reason")
    where: str | None = Field(description="the place in the request, such as rows.0.smiles; null where it has none")


@dataclasses.dataclass(frozen=True)
class Requests:
    """The models of the two kinds of requests."""

    predict: type[BaseModel]
    """`rows`: one row or more."""
    explain: type[BaseModel]
    """`row`, and what to explain of it."""

    @classmethod
    def of(cls, fields: Sequence[dict[str, Any]], facts: dict[str, Any], limits: Limits) -> "Requests":
        """The models for rows of these fields, and the targets and classes that a model knows; of those that its facts
        depend on the words that only the model knows."""
        cells: dict[str, Any] = {}
        # One of several texts may be empty; the only one may not.
        least = 0 if sum(each["type"] == "text" for each in fields) > 1 else 1
        for number, each in enumerate(fields):
            # A column may be called anything; an attribute may not.
            cells[f"cell_{number}"] = (
                _cell(each, limits, least),
                Field(alias=each["name"], description=ABOUT[each["type"]]),
            )
        row = create_model("Row", __config__=STRICT, __doc__="One row, as the model was trained on.", **cells)
        targets = [str(name) for name in facts.get("targets", ())]
        labels = [str(label) for known in facts.get("classes", {}).values() for label in known]
        is_open = facts.get("open", ())
        one = Annotated[row, WrapValidator(_row_or_problem)]  # type: ignore[valid-type]
        rows: Any = Annotated[list[one], Field(min_length=1, max_length=limits.rows)]  # type: ignore[valid-type]
        predict = create_model(
            "PredictRequest",
            __config__=STRICT,
            __doc__="Rows to predict.",
            rows=(rows, Field(description="the rows")),
        )
        explain = create_model(
            "ExplainRequest",
            __config__=STRICT,
            __doc__="A row to explain.",
            row=(row, Field(description="the row")),
            target=(
                WORD if "target" in is_open else _one_of(targets),
                Field(None, description="the target that is explained; the first by default"),
            ),
            label=(
                WORD if "label" in is_open else _one_of(labels),
                Field(None, description="the class whose probability is explained; the predicted one by default"),
            ),
            top=(
                Annotated[int, Field(strict=True, ge=1, le=TOP)] | None,
                Field(None, description="how many of the strongest weights are returned for each receiver"),
            ),
        )
        return cls(predict, explain)


@dataclasses.dataclass(frozen=True)
class Problem:
    """What is wrong with a row, whose neighbors are predicted nevertheless."""

    kind: str
    """The type of the error, as pydantic calls it."""
    place: tuple[int | str, ...]
    """Where it is in the row."""
    reason: str
    """What is wrong there."""

    def outcome(self) -> DataError:
        """The same as what the model says of a row that it cannot read."""
        where = ".".join(str(part)[:60] for part in self.place)
        return DataError(f"{where}: {self.reason}" if where else self.reason)


def _row_or_problem(row: Any, validate: Callable[[Any], Any]) -> Any:
    try:
        return validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return Problem(first["type"], first["loc"], first["msg"])


def _cell(field: dict[str, Any], limits: Limits, least: int) -> Any:
    if field["type"] == "number":
        number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
        return number | None if field.get("may_be_missing") else number
    longest = {"text": limits.characters, "smiles": limits.smiles, "node": NAME}[field["type"]]
    shortest = least if field["type"] == "text" else 1
    return Annotated[str, Field(strict=True, min_length=shortest, max_length=longest)]


def _one_of(names: Sequence[str]) -> Any:
    """One of some words, or none."""
    return Literal[tuple(dict.fromkeys(names))] | None if names else None


def cells_of(row: BaseModel) -> dict[str, Any]:
    """A row as the model takes it: cells by the names of their columns."""
    return row.model_dump(by_alias=True)


def as_row(outcome: Outcome) -> dict[str, Any]:
    """What is predicted of a row, as `RowAnswer` describes it."""
    if isinstance(outcome, Predicted):
        predictions = [as_answer(prediction) for prediction in outcome.predictions]
        return {"predictions": predictions, "status": outcome.status, "error": None}
    return {"predictions": [], "status": str(outcome), "error": str(outcome)}


def as_answer(one: TargetPrediction) -> dict[str, Any]:
    """The prediction of a target, as `PredictionAnswer` describes it."""
    plain = {each.name: _number(getattr(one, each.name)) for each in dataclasses.fields(one)}
    return {**plain, "probabilities": {name: _number(value) for name, value in one.probabilities.items()}}


def _number(value: Any) -> Any:
    """The value, and nothing in place of a number that JSON lacks."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
