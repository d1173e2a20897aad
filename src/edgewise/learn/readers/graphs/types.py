"""Types of the nodes and edges of a graph: found in its data, or matched with those of a model."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Bool, Int64

from edgewise.errors import DataError
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.names import RowLabels
from edgewise.learn.readers.graphs.node_features import Categories, NodeFeatures
from edgewise.learn.tables.cell import OK, missing
from edgewise.learn.tables.labels import words_of
from edgewise.learn.tables.read import Cells, check_columns_exist
from edgewise.neighborhood.index import one_way

Relation = tuple[str, str, str]
"""The type of the sender, the name of the edge (empty where edges are unnamed), the type of the receiver."""
BACKWARD = "rev_"
"""Prefix of the name of a reversed relation."""
ONE_TYPE = "node"
"""The type of all nodes where only edges have types."""


UNTRAINED_END = "had a target in training"
"""How the status of a node ends whose type the model cannot predict: `no author had a target in training`."""


@dataclass(frozen=True)
class TypeNames:
    """The types that a model knows, in the order of their numbers."""

    nodes: tuple[str, ...]
    """The types of nodes."""
    relations: tuple[Relation, ...]
    """The types of edges."""
    features: tuple[tuple[int, ...], ...]
    """The feature columns of each type of nodes, counted from 0 among those of all types."""
    predicted: tuple[str, ...] = ()
    """The types of nodes that had a target in training; empty before it."""
    degrees: tuple[str, ...] = ()
    """The types of nodes without a feature that varies: their last two features are their in- and out-degree."""

    @property
    def num_added(self) -> int:
        """Columns that are not in the data: 2 if degrees were appended, else 0."""
        return 2 if self.degrees else 0

    @property
    def num_given(self) -> int:
        """Columns of the data, at least up to the last one that is a feature of a type."""
        return max((column + 1 for columns in self.features for column in columns), default=0) - self.num_added


@dataclass(frozen=True, eq=False)
class GraphTypes:
    """The types of the nodes and edges of a graph."""

    names: TypeNames
    """Their names."""
    of_node: Int64[np.ndarray, " node"]
    """The type of each node."""
    of_edge: Int64[np.ndarray, " edge"]
    """The relation of each edge."""


@dataclass(frozen=True, eq=False)
class NodeTypes:
    """The type of each node, and the features of each type."""

    names: tuple[str, ...]
    """The types."""
    of_node: Int64[np.ndarray, " node"]
    """The type of each node, counted from 0."""
    model_types: TypeNames | None
    """The types that a model knows; None where the data defines them."""
    has_feature: Bool[np.ndarray, " type column"] | None = None
    """Which columns are features of each type; None before they are read."""

    @classmethod
    def of(
        cls, labels: RowLabels | None, num_nodes: int, source: str, model_types: TypeNames | None = None
    ) -> "NodeTypes":
        """The types of nodes: those that occur, in alphabetical order, or those that a model knows.

        Args:
            labels: the type of each node; None where all are of one type.
            num_nodes: how many nodes there are.
            source: the data, for messages.
            model_types: the types that the model knows; None takes those that occur.

        Raises:
            DataError: lengths differ, or a node lacks a type or has one that the model does not know.
        """
        if labels is None:
            if model_types is not None and model_types.nodes != (ONE_TYPE,):
                raise DataError(
                    f"{source}: its nodes lack types, but the model knows {', '.join(model_types.nodes)}; name "
                    "the column: --node-type-column (in an .npz, the array node_type; in Python, node_types)."
                )
            return cls((ONE_TYPE,), np.zeros(num_nodes, dtype=np.int64), model_types)
        if len(labels.names) != num_nodes:
            raise DataError(f"{source}: {len(labels.names)} node types were given, but there are {num_nodes} nodes.")
        if "" in labels.names:
            row_name = labels.place(labels.names.index(""))
            raise DataError(f"{row_name}: the node lacks a type; where nodes have types, each needs one.")

        names = tuple(sorted(set(labels.names))) if model_types is None else model_types.nodes
        number_of = {name: number for number, name in enumerate(names)}
        for row, name in enumerate(labels.names):
            if name not in number_of:
                raise DataError(
                    f"{labels.place(row)}: the model does not know the node type {name!r}; it knows {', '.join(names)}."
                )
        return cls(names, np.array([number_of[name] for name in labels.names], dtype=np.int64), model_types)

    def with_columns_of(self, cells: Cells, columns: Sequence[str]) -> "NodeTypes":
        """The same with features in columns of a table: those of a model, or those not empty for a whole type."""
        if self.model_types is not None:
            return self._with_model_features(len(columns))
        filled = np.array([~missing(cells.frame[column]) for column in columns], dtype=bool)
        return self._with_data_features(filled.reshape(len(columns), len(self.of_node)).T)

    def category_columns_of_types(
        self, cells: Cells, columns: Sequence[str], categories: Categories | None, num_numbers: int
    ) -> Bool[np.ndarray, " type column"]:
        """Which columns of categories are features of each type: those of a model, or those not empty for a whole type.

        Args:
            cells: the table of nodes.
            columns: those of categories.
            categories: the categories of each column that a model knows.
            num_numbers: numeric features, which come before those of categories.
        """
        check_columns_exist(cells, tuple(columns))
        if self.model_types is None or categories is None:
            filled = [~missing(cells.frame[column]) for column in columns]
            values = np.array(filled, dtype=bool).reshape(len(columns), len(self.of_node)).T
            return np.stack([values[self.of_node == number].any(axis=0) for number in range(len(self.names))])

        ends = np.cumsum([num_numbers, *map(len, categories.values())])
        spans, features = list(pairwise(ends)), self.model_types.features
        has_column = [[any(first <= feature < last for feature in row) for first, last in spans] for row in features]
        return np.array(has_column, dtype=bool).reshape(len(self.names), len(columns))

    def with_categories(self, has_column: Bool[np.ndarray, " type column"], categories: Categories) -> "NodeTypes":
        """The same with the one-hot features of categories after the numeric ones.

        Args:
            has_column: which columns of categories are features of which type.
            categories: the categories of each column.
        """
        assert self.has_feature is not None
        has_category = np.repeat(has_column, [len(column) for column in categories.values()], axis=1)
        return replace(self, has_feature=np.concatenate([self.has_feature, has_category], axis=1))

    def with_array(
        self, name: str, blank: Bool[np.ndarray, " node column"] | None, num_columns: int, *, imputes: bool = False
    ) -> "NodeTypes":
        """The same with features in an array: those of a model, or those not NaN for a whole type.

        Args:
            name: the array, for messages.
            blank: where it is NaN; None if nowhere.
            num_columns: the number of columns.
            imputes: whether NaN in a feature are left for the imputer.

        Raises:
            DataError: a feature of the type of a node is NaN.
        """
        if blank is None:
            blank = np.zeros((len(self.of_node), num_columns), dtype=bool)
        types = self._with_data_features(~blank) if self.model_types is None else self._with_model_features(num_columns)
        if not imputes and (wrong := np.argwhere(blank & ~types.foreign)).size:
            node, column = (int(index) for index in wrong[0])
            raise DataError(
                f"{name}[{node}, {column}] is NaN, but nodes of its type ({self.names[self.of_node[node]]}) have a "
                "number in this column; fill it in."
            )

        return types

    def with_missing(self, features: NodeFeatures, blank: Bool[np.ndarray, " node column"] | None) -> NodeFeatures:
        """The features with NaN where a feature of the type of a node is missing.

        Args:
            features: 0 where the data is NaN.
            blank: where the data is NaN; None if nowhere.
        """
        if blank is None or not (is_missing := blank & ~self.foreign).any():
            return features
        return NodeFeatures.of(np.where(is_missing, np.nan, features.to_dense()))

    @property
    def foreign(self) -> Bool[np.ndarray, " node column"]:
        """Where a column is not a feature of the type of a node."""
        assert self.has_feature is not None
        return ~self.has_feature[self.of_node]

    def resolve(
        self, features: NodeFeatures, edges: EdgeList, nodes: Sequence[str], is_directed: bool, source: str
    ) -> tuple[NodeFeatures, EdgeList, GraphTypes]:
        """The features, degrees of types without any, edges with reverse ones unless `is_directed`, and all types.

        Args:
            features: of the nodes.
            edges: as in the data.
            nodes: the names of the nodes.
            is_directed: whether edges keep their one direction.
            source: the data, for messages.
        """
        edges, relations, of_edge = with_relations(edges, self, nodes, is_directed=is_directed, source=source)
        degree_types = self._types_needing_degrees(features)
        features, has_feature = _with_degrees(features, self, edges, degree_types)
        columns = tuple(tuple(np.flatnonzero(row).tolist()) for row in has_feature)
        predicted = () if self.model_types is None else self.model_types.predicted
        degrees = tuple(self.names[number] for number in degree_types.tolist())
        names = TypeNames(self.names, relations, columns, predicted, degrees)

        return features, edges, GraphTypes(names, self.of_node, of_edge)

    def checked_status(self, status: list[str]) -> list[str]:
        """The status of nodes to predict; nodes of a type that had no target in training get no prediction."""
        if self.model_types is None or not self.model_types.predicted:
            return status
        reasons = [OK if name in self.model_types.predicted else f"no {name} {UNTRAINED_END}" for name in self.names]
        return [
            reasons[number] if row_status == OK else row_status
            for row_status, number in zip(status, self.of_node.tolist(), strict=True)
        ]

    def _types_needing_degrees(self, features: NodeFeatures) -> Int64[np.ndarray, " degree_type"]:
        """The types without features, and those that have degrees in a model, or no feature that varies in the data."""
        assert self.has_feature is not None
        is_bare = ~self.has_feature.any(axis=1)
        if self.model_types is not None:
            return np.flatnonzero(is_bare | np.isin(self.names, self.model_types.degrees))
        varies = features.varying(self.of_node, len(self.names)) & self.has_feature
        is_alike = ~varies.any(axis=1) & (np.bincount(self.of_node, minlength=len(self.names)) > 1)
        return np.flatnonzero(is_bare | is_alike)

    def _with_data_features(self, has_value: Bool[np.ndarray, " node column"]) -> "NodeTypes":
        values_of_type = (has_value[self.of_node == number] for number in range(len(self.names)))
        return replace(self, has_feature=np.stack([values.any(axis=0) for values in values_of_type]))

    def _with_model_features(self, num_columns: int) -> "NodeTypes":
        assert self.model_types is not None
        has_feature = np.zeros((len(self.names), num_columns), dtype=bool)
        num_given = self.model_types.num_given if self.model_types.degrees else num_columns
        for number, columns in enumerate(self.model_types.features):
            has_feature[number, [column for column in columns if column < min(num_columns, num_given)]] = True
        return replace(self, has_feature=has_feature)


def labels_of_column(cells: Cells, column: str | None, model_types: TypeNames | None) -> RowLabels | None:
    """The types of nodes in a column of their table, as a model writes them; None where none is named."""
    if column is None:
        return None
    check_columns_exist(cells, (column,))
    known = None if model_types is None else model_types.nodes
    names = tuple(words_of(cells.frame[column], known).to_pylist())
    return RowLabels(names, f"{cells.source}, line ", cells.lines, f", column {column!r}")


def in_words(relation: Relation) -> str:
    """A relation in words: `author writes paper`; `author to paper` where edges are unnamed."""
    sender, name, receiver = relation
    return f"{sender} {name or 'to'} {receiver}"


def backward(relation: Relation) -> Relation:
    """The relation of the reversed edges."""
    sender, name, receiver = relation
    return receiver, f"{BACKWARD}{name}", sender


def with_relations(
    edges: EdgeList, types: NodeTypes, nodes: Sequence[str], *, is_directed: bool, source: str
) -> tuple[EdgeList, tuple[Relation, ...], Int64[np.ndarray, " edge"]]:
    """The edges, with reverse edges added unless `is_directed`; the relations; and the relation of each edge.

    A relation is the name of an edge and the types of its ends. Undirected edges without names are mirrored as in any
    graph. Edges with names keep their direction: unless the table lists each of them both ways, all are added once more
    reversed, as a relation `rev_` and the name. Where there is a model, they are if it has that relation.

    Args:
        edges: as in the data.
        types: of the nodes.
        nodes: the names of the nodes.
        is_directed: whether edges keep their one direction.
        source: the data, for messages.

    Raises:
        DataError: the model knows types of edges and the data has none, or lacks the relation of an edge; or an edge
            has the name of a reversed relation.
    """
    model_types = types.model_types
    if edges.types is None and model_types is not None and any(name for _, name, _ in model_types.relations):
        raise DataError(
            f"{source}: its edges lack types, but the model knows {_listed(model_types.relations)}; name the "
            "column: --edge-type-column (in an .npz, the array edge_type; in Python, edge_types)."
        )

    if edges.types is None and not is_directed:
        edges = edges.both_ways(len(types.of_node))
    names = ("",) * len(edges) if edges.types is None else edges.types.names
    ends = [np.array(types.names)[types.of_node[side]].tolist() for side in (edges.senders, edges.receivers)]
    relation_of = list(zip(ends[0], names, ends[1], strict=True))
    if model_types is not None:
        _check_known(relation_of, edges, nodes, model_types, source)

    if edges.types is not None and not is_directed:
        edges, relation_of = _both_ways(edges, relation_of, len(types.of_node), model_types)
    relations = tuple(sorted(set(relation_of))) if model_types is None else model_types.relations
    number_of = {relation: number for number, relation in enumerate(relations)}
    return edges, relations, np.array([number_of[edge_relation] for edge_relation in relation_of], dtype=np.int64)


def _with_degrees(
    features: NodeFeatures, types: NodeTypes, edges: EdgeList, degree_types: Int64[np.ndarray, " degree_type"]
) -> tuple[NodeFeatures, Bool[np.ndarray, " type column"]]:
    """The features, with in- and out-degree as two more columns for some types; and which are features of each type."""
    assert types.has_feature is not None
    if not len(degree_types):
        return features, types.has_feature
    degrees = edges.degrees(features.shape[0]) * np.isin(types.of_node, degree_types)[:, None]
    has_degrees = np.zeros((len(types.has_feature), 2), dtype=bool)
    has_degrees[degree_types] = True
    return features.hstack(degrees), np.concatenate([types.has_feature, has_degrees], axis=1)


def _both_ways(
    edges: EdgeList, relation_of: list[Relation], num_nodes: int, model_types: TypeNames | None
) -> tuple[EdgeList, list[Relation]]:
    """The edges, followed by the reverse of those that lack it, or of all in groups with a reverse relation."""
    names = {name for _, name, _ in relation_of}
    _check_free(edges, names if model_types is None else names | {name for _, name, _ in model_types.relations})
    number_of = {name: number for number, name in enumerate(sorted(names))}
    number = np.array([number_of[name] for _, name, _ in relation_of], dtype=np.int64)
    senders, receivers = torch.from_numpy(edges.senders), torch.from_numpy(edges.receivers)
    lacks_reverse = np.zeros(len(edges), dtype=bool)
    lacks_reverse[one_way(senders, receivers, num_nodes, torch.from_numpy(number)).numpy()] = True

    # Edges with one name between the same two types belong together, whichever their direction.
    group_of = [(name, *sorted((sender, receiver))) for sender, name, receiver in relation_of]
    if model_types is None:
        needs_relation = lacks_reverse.tolist()
    else:
        needs_relation = [backward(relation) in model_types.relations for relation in relation_of]
    reversed_groups = {group for group, is_needed in zip(group_of, needs_relation, strict=True) if is_needed}

    is_reversed = np.array([group in reversed_groups for group in group_of], dtype=bool)
    # A loop is its own reverse.
    added = np.flatnonzero(np.where(is_reversed, edges.senders != edges.receivers, lacks_reverse))
    more = [backward(relation_of[edge]) if is_reversed[edge] else relation_of[edge][::-1] for edge in added.tolist()]
    return edges.with_mirrored(added), [*relation_of, *more]


def _check_free(edges: EdgeList, names: set[str]) -> None:
    """Raise a DataError where the data uses the name of a reversed relation."""
    assert edges.types is not None
    for edge, name in enumerate(edges.types.names):
        if name.startswith(BACKWARD) and (forward := name.removeprefix(BACKWARD)) in names:
            raise DataError(
                f"{edges.types.place(edge)}: {name!r} is the name of the reverse of {forward!r}, which is added; leave "
                "these edges out, give them another type, or add --directed where the table has both ways."
            )


def _check_known(
    relation_of: Sequence[Relation], edges: EdgeList, nodes: Sequence[str], model_types: TypeNames, source: str
) -> None:
    relations = set(model_types.relations)
    for edge, relation in enumerate(relation_of):
        if relation not in relations:
            ends = nodes[edges.senders[edge]], nodes[edges.receivers[edge]]
            row_name = source if edges.types is None else edges.types.place(edge)
            raise DataError(
                f"{row_name}: the edge from {ends[0]!r} to {ends[1]!r} is of the type {in_words(relation)!r}, "
                f"but the model knows {_listed(model_types.relations)}."
            )


def _listed(relations: Sequence[Relation]) -> str:
    return ", ".join(in_words(relation) for relation in relations)
