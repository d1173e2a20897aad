"""The role of each column of a table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, TypeVar

from edgewise.errors import SettingError
from edgewise.learn.settings import check, setting, spelled

TASK_TYPES = ("regression", "classification", "multiclass")
MISSING = ("impute", "drop")
"""How to treat a missing feature: fill it, or leave out the row, the node, the edge or the graph."""
AUTO = "auto"
"""The task type is guessed from the targets."""

ROW_ROLES = ("weight_column", "splits_column", "group_column")
"""The roles of columns that say how a row is trained on, not what is known of it."""

AnyColumns = TypeVar("AnyColumns", bound="Columns")


def check_one_role(roles: Mapping[str, Sequence[str]]) -> None:
    """Raise a SettingError for a column that has two roles, or one role twice."""
    seen: dict[str, str] = {}
    for role, names in roles.items():
        for name in names:
            if name in seen:
                again = "twice" if seen[name] == spelled(role) else f"and in {spelled(role)}"
                raise SettingError(f"Column {name!r} is named in {seen[name]} {again}: a column has one role.")
            seen[name] = spelled(role)


@dataclass(frozen=True)
class Columns:
    """Which column of a table says what."""

    smiles_columns: tuple[str, ...] = setting((), metavar="COLUMN", aliases=("smiles-column", "inchi-columns"))
    """SMILES or InChI of the molecules of a row: one column, or two for a cation and an anion."""
    target_columns: tuple[str, ...] = setting((), metavar="COLUMN", aliases=("target-column",))
    """What to predict. In a table of molecules, texts or edges this is by default every column without another role;
    for nodes and graphs it must be given."""
    descriptors_columns: tuple[str, ...] = setting((), metavar="COLUMN", aliases=("feature-columns",))
    """Numbers that belong to the row: temperature, pressure, features of a node."""
    ignore_columns: tuple[str, ...] = setting((), metavar="COLUMN")
    """Columns without a role."""
    weight_column: str | None = setting(None, metavar="COLUMN")
    """How much each row counts in training."""
    splits_column: str | None = setting(None, metavar="COLUMN")
    """The split (train, val or test) of each row."""
    group_column: str | None = setting(None, metavar="COLUMN")
    """Rows of one group stay in one split."""
    node_column: str | None = setting(None, metavar="COLUMN")
    """The names of the nodes; `auto` is a column called id, node or node_id, else the row."""
    node_type_column: str | None = setting(None, metavar="COLUMN")
    """The type of each node, where a graph has several."""
    category_columns: tuple[str, ...] = setting((), metavar="COLUMN")
    """Words of a node, such as its element: each is one-hot encoded."""
    text_columns: tuple[str, ...] = setting((), metavar="COLUMN", aliases=("text-column",))
    """Texts of a row: one column, or several that belong together, such as a title and a review."""
    task_type: str = setting("regression", choices=(*TASK_TYPES, AUTO))
    """`regression`, `classification` (two classes) or `multiclass`; `auto` is what the targets look like."""
    missing: str = setting("drop", choices=MISSING)
    """Features without a number: `impute` fills them with the median (of the training rows or graphs, or of all nodes
    or edges of one graph) and marks them; `drop` leaves out their row, edge or graph, and predicts nothing for their
    node, which stays in its graph with 0 for the feature."""

    def __post_init__(self) -> None:
        """Raise a `SettingError` for a role without a column, a column with two roles, or an unknown task."""
        check(self)
        if not self.smiles_columns and not self.text_columns and self.node_column is None:
            raise SettingError("--smiles-columns is empty: name at least one column with SMILES.")
        if self.smiles_columns and self.text_columns:
            raise SettingError("a row is a molecule or a text: name --smiles-columns or --text-columns, not both.")
        if self.node_column is not None and (self.smiles_columns or self.text_columns):
            raise SettingError("a row with --edges is a node: leave out --smiles-columns and --text-columns.")
        if self.category_columns and self.node_column is None:
            raise SettingError("--category-columns names words of the nodes of a graph; leave it out.")
        if self.text_columns and self.descriptors_columns:
            raise SettingError("--descriptors-columns belong to molecules; a row of texts has none: leave it out.")

        check_one_role(self.roles())

    def roles(self) -> dict[str, tuple[str, ...]]:
        """The columns of each role: of each field whose value is the names of columns."""
        roles = {
            field.name: getattr(self, field.name) for field in fields(self) if field.metadata["metavar"] == "COLUMN"
        }
        return {
            role: names if isinstance(names, tuple) else () if names is None else (names,)
            for role, names in roles.items()
        }

    def to_predict(self: AnyColumns, **changes: Any) -> AnyColumns:
        """The same columns in a file to predict: without targets, weights, splits and groups, and with `changes`."""
        none: dict[str, Any] = {"target_columns": (), "ignore_columns": ()}
        none |= dict.fromkeys(ROW_ROLES)
        return replace(self, **{**none, **changes})

    @property
    def imputes(self) -> bool:
        """Whether missing numbers are filled."""
        return self.missing == "impute"

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that a prediction is made from."""
        return (*self.smiles_columns, *self.text_columns, *self.descriptors_columns)
