"""The role of each column of a table."""

from dataclasses import dataclass
from typing import TypeVar

from edgewise.errors import SettingError

TASK_TYPES = ("regression", "classification", "multiclass")
AUTO = "auto"
"""The task is what the targets look like."""


@dataclass(frozen=True)
class Columns:
    """The role of each column of a table."""

    smiles_columns: tuple[str, ...] = ()
    """One column for each component of a row: one molecule, or a cation and an anion."""
    target_columns: tuple[str, ...] = ()
    """What is to be predicted; where it is empty, every column that has no other role."""
    descriptors_columns: tuple[str, ...] = ()
    """Numbers that belong to the row: temperature, pressure."""
    ignore_columns: tuple[str, ...] = ()
    """Columns without a role."""
    weight_column: str | None = None
    """How much each row counts in training."""
    splits_column: str | None = None
    """The split (train, val, test) of each row."""
    group_column: str | None = None
    """Rows of one group stay in one split."""
    node_column: str | None = None
    """The names of the nodes, where a row is a node of a graph; `auto` is a column that is called so, else the row."""
    node_type_column: str | None = None
    """Of which type each node is, where a graph has several."""
    category_columns: tuple[str, ...] = ()
    """Words of a node, such as its element: each becomes as many features as there are words, one of them 1."""
    text_columns: tuple[str, ...] = ()
    """Texts, where a row is no molecule: one, or several that belong together, such as a title and a review."""
    task_type: str = "regression"
    """`regression`, `classification` (two classes) or `multiclass`; `auto` is what the targets look like."""

    def __post_init__(self) -> None:
        """Raise a `SettingError` for a role without a column, a column with two roles, or an unknown task."""
        if not self.smiles_columns and not self.text_columns and self.node_column is None:
            raise SettingError("smiles_columns is empty: name at least one column with SMILES.")
        if self.smiles_columns and self.text_columns:
            raise SettingError("a row is a molecule or a text: name --smiles-columns or --text-columns, not both.")
        if self.node_column is not None and (self.smiles_columns or self.text_columns):
            raise SettingError("a row with --edges is a node: leave out --smiles-columns and --text-columns.")
        if self.category_columns and self.node_column is None:
            raise SettingError("category_columns are words of the nodes of a graph; leave out --category-columns.")
        if self.text_columns and self.descriptors_columns:
            raise SettingError("descriptors_columns belong to molecules; a row of texts has none.")
        if self.task_type not in (*TASK_TYPES, AUTO):
            raise SettingError(f"task_type is {self.task_type!r}, expected one of {', '.join(TASK_TYPES)}.")
        seen: dict[str, str] = {}
        for role, names in self.roles().items():
            for name in names:
                if name in seen:
                    raise SettingError(
                        f"Column {name!r} is named in {seen[name]} and in {role}: a column has one role."
                    )
                seen[name] = role

    def roles(self) -> dict[str, tuple[str, ...]]:
        """The columns of each role."""
        return {
            "smiles_columns": self.smiles_columns,
            "text_columns": self.text_columns,
            "node_column": () if self.node_column is None else (self.node_column,),
            "node_type_column": () if self.node_type_column is None else (self.node_type_column,),
            "target_columns": self.target_columns,
            "descriptors_columns": self.descriptors_columns,
            "category_columns": self.category_columns,
            "ignore_columns": self.ignore_columns,
            "weight_column": () if self.weight_column is None else (self.weight_column,),
            "splits_column": () if self.splits_column is None else (self.splits_column,),
            "group_column": () if self.group_column is None else (self.group_column,),
        }

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that a prediction is made from."""
        return (*self.smiles_columns, *self.text_columns, *self.descriptors_columns)


AnyColumns = TypeVar("AnyColumns", bound=Columns)
