"""Requests and answers as pydantic models, from which the OpenAPI description is made.

Each served model has its own columns, so the models of rows are built when the server starts: a text column is a string
of bounded length, a number is finite, and a row must not have other fields.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

from edgewise.errors import DataError, MissingExtraError
from edgewise.explain.explanation import TargetPrediction
from edgewise.serve.lanes import Outcome, Predicted
from edgewise.serve.limits import Limits

try:
    from pydantic import BaseModel, ConfigDict, Field, ValidationError, WrapValidator, create_model
except ModuleNotFoundError as error:
    raise MissingExtraError("fastapi", "serve") from error

MAX_NAME = 200
"""The most characters of a node's name, or of a target or label that is not in a list."""
MAX_TOP = 1000
"""The most weights for each receiver."""
WORD = Annotated[str, Field(strict=True, min_length=1, max_length=MAX_NAME)] | None
"""A target or label that is not in a list, such as a word of the row; or null."""
OBJECT_EXPECTED = "expected a JSON object, {…}; GET /docs shows one"
STRICT = ConfigDict(extra="forbid", allow_inf_nan=False)
ABOUT = {
    "text": "a text",
    "smiles": "a molecule as SMILES",
    "number": "a number",
    "node": "the name of a node of the graph, or of one of many graphs",
}


class PredictionAnswer(BaseModel):
    """The prediction of one target; null where it is not a number."""

    name: str = Field(description="the target")
    value: float | None = Field(description="the predicted value; for classes the index of the class")
    label: str = Field(description="the predicted class or the generated text; empty for numbers")
    std: float | None = Field(description="standard deviation of the prediction")
    ensemble_std: float | None = Field(description="the standard deviation over the members of an ensemble")
    low: float | None = Field(description="the lower end of the interval")
    high: float | None = Field(description="the upper end")
    probabilities: dict[str, float | None] = Field(description="the probability of each class; empty for numbers")


class RowAnswer(BaseModel):
    """The predictions of a row, or the error."""

    predictions: list[PredictionAnswer] = Field(description="one for each target; empty if the row cannot be read")
    status: str = Field(description="ok; ok, and what the prediction lacks; or the error")
    error: str | None = Field(description="why the row cannot be read; null if it can")


class PredictAnswer(BaseModel):
    """The predictions of each row, in the order of the request."""

    rows: list[RowAnswer]


class ExplainAnswer(BaseModel):
    """The explanation of a row; the lists are documented in `edgewise.explain.explanation`."""

    kind: str = Field(description="text, molecule or graph")
    title: str
    sources: dict[str, str] = Field(description="the text of each column as received; SMILES for molecules")
    predictions: list[PredictionAnswer]
    explained: str = Field(description="the output that is explained")
    units: list[dict[str, Any]] = Field(description="tokens, atoms, nodes")
    links: list[dict[str, Any]] = Field(description="bonds, or the edges of a graph")
    layers: list[dict[str, Any]] = Field(description="the attention of each layer")
    attributions: list[dict[str, Any]] = Field(description="the importance of each unit, by several methods")
    parts: list[dict[str, Any]] = Field(description="the prediction without whole groups of units")
    curves: list[dict[str, Any]] = Field(description="the prediction as each numeric input varies")
    faithfulness: dict[str, Any] | None = Field(description="how faithful the attributions are to the model")
    center: int | None = Field(description="the node that is explained; the first of two")
    other_end: int | None = Field(description="the second of two nodes that are explained together")
    notes: list[str]


class FieldAnswer(BaseModel):
    """A cell of a row."""

    model_config = ConfigDict(extra="allow")
    name: str
    type: str = Field(description="text, smiles, number or node")
    may_be_missing: bool = Field(False, description="whether a number may be null, for the model to impute")


class ModelAnswer(BaseModel):
    """The model that is served."""

    kind: str = Field(description="text, molecule or graph")
    fields: list[FieldAnswer] = Field(description="the cells of a row")
    facts: dict[str, Any] = Field(description="facts about the model")
    limits: dict[str, float | bool] = Field(description="limits on requests")


class ErrorAnswer(BaseModel):
    """Why a request was refused."""

    error: str = Field(description="the reason")
    where: str | None = Field(description="the place in the request, such as rows.0.smiles; null if it has none")


@dataclasses.dataclass(frozen=True)
class Requests:
    """The pydantic models of the two types of requests."""

    predict: type[BaseModel]
    """Has `rows`, at least one."""
    explain: type[BaseModel]
    """Has `row`, and the output to explain."""

    @classmethod
    def of(cls, fields: Sequence[dict[str, Any]], facts: dict[str, Any], limits: Limits) -> "Requests":
        """The request models for rows of these fields.

        A target or label is one of those in the facts, or any word where only the model can check it (`facts["open"]`).
        """
        cells: dict[str, Any] = {}
        # A text may be empty only if there are several.
        min_length = 0 if sum(field["type"] == "text" for field in fields) > 1 else 1
        for number, field in enumerate(fields):
            # A column may have any name, an attribute may not.
            cells[f"cell_{number}"] = (
                _cell(field, limits, min_length),
                Field(alias=field["name"], description=ABOUT[field["type"]]),
            )

        row = create_model("Row", __config__=STRICT, __doc__="One row, as the model was trained on.", **cells)
        targets = [str(name) for name in facts.get("targets", ())]
        labels = [str(label) for classes in facts.get("classes", {}).values() for label in classes]
        unlisted = facts.get("open", ())
        checked_row = Annotated[row, WrapValidator(_row_or_invalid)]  # type: ignore[valid-type]
        rows: Any = Annotated[list[checked_row], Field(min_length=1, max_length=limits.rows)]  # type: ignore[valid-type]
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
                WORD if "target" in unlisted else _one_of(targets),
                Field(None, description="the target that is explained; the first by default"),
            ),
            label=(
                WORD if "label" in unlisted else _one_of(labels),
                Field(None, description="the class whose probability is explained; the predicted one by default"),
            ),
            top=(
                Annotated[int, Field(strict=True, ge=1, le=MAX_TOP)] | None,
                Field(None, description="how many of the strongest weights are returned for each receiver"),
            ),
        )

        return cls(predict, explain)


@dataclasses.dataclass(frozen=True)
class InvalidRow:
    """An invalid row; the other rows of the request are predicted nevertheless."""

    error_type: str
    """The type of the error in pydantic."""
    path: tuple[int | str, ...]
    """The path to the value in the row."""
    reason: str
    """What is wrong with the value."""

    def outcome(self) -> DataError:
        """The error, as for a row that the model cannot read."""
        where = ".".join(str(part)[:60] for part in self.path)
        return DataError(f"{where}: {self.reason}" if where else self.reason)


def _row_or_invalid(row: Any, validate: Callable[[Any], Any]) -> Any:
    try:
        return validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        return InvalidRow(first["type"], first["loc"], reason_of(first))


def reason_of(error: Mapping[str, object]) -> str:
    """What is wrong with a value, in the words of JSON: pydantic calls an object a dictionary."""
    return OBJECT_EXPECTED if error["type"] in ("model_type", "model_attributes_type") else str(error["msg"])


def _cell(field: dict[str, Any], limits: Limits, min_text: int) -> Any:
    if field["type"] == "number":
        number = Annotated[float, Field(strict=True, allow_inf_nan=False)]
        return number | None if field.get("may_be_missing") else number
    max_length = {"text": limits.characters, "smiles": limits.smiles, "node": MAX_NAME}[field["type"]]
    min_length = min_text if field["type"] == "text" else 1
    return Annotated[str, Field(strict=True, min_length=min_length, max_length=max_length)]


def _one_of(names: Sequence[str]) -> Any:
    """A type that accepts one of the names, or null."""
    return Literal[tuple(dict.fromkeys(names))] | None if names else None


def cells_of(row: BaseModel) -> dict[str, Any]:
    """The cells of a row, by column name."""
    return row.model_dump(by_alias=True)


def as_row(outcome: Outcome) -> dict[str, Any]:
    """The predictions of a row, in the form of `RowAnswer`."""
    if isinstance(outcome, Predicted):
        predictions = [as_answer(prediction) for prediction in outcome.predictions]
        return {"predictions": predictions, "status": outcome.status, "error": None}
    return {"predictions": [], "status": str(outcome), "error": str(outcome)}


def as_answer(prediction: TargetPrediction) -> dict[str, Any]:
    """The prediction of a target, in the form of `PredictionAnswer`."""
    plain = {field.name: _number(getattr(prediction, field.name)) for field in dataclasses.fields(prediction)}
    return {**plain, "probabilities": {name: _number(value) for name, value in prediction.probabilities.items()}}


def _number(value: Any) -> Any:
    """The value; None for NaN and infinity, which JSON does not have."""
    return None if isinstance(value, float) and not math.isfinite(value) else value
