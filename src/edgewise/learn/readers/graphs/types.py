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
from edgewise.learn.tables.cell import OK, missing, pa, stripped
from edgewise.learn.tables.read import Cells, check_columns_exist
from edgewise.neighborhood.index import one_way

Relation = tuple[str, str, str]
"""The type of the sender, the name of the edge (empty where edges are unnamed), the type of the receiver."""
BACKWARD = "rev_"
"""Prefix of the name of a reversed relation."""
ONE_TYPE = "node"
"""The type of all nodes where only edges have types."""


UNLEARNED = "had a target in training"
"""The end of the status of a node whose type the model cannot predict."""


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
    """The types of nodes of which nothing is known that varies: their last two features are the numbers of edges that
    come and go."""

    @property
    def num_added(self) -> int:
        """Columns that are not given: the numbers of edges of some types."""
        return 2 if self.degrees else 0

    @property
    def num_given(self) -> int:
        """Columns that are given, as far as a type has them as features."""
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
    owned: Bool[np.ndarray, " type column"] | None = None
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

    def of_cells(self, cells: Cells, columns: Sequence[str]) -> "NodeTypes":
        """The same with features in columns of a table; a column that is empty for a whole type is not its feature."""
        if self.model_types is not None:
            return self._knowing(len(columns))
        filled = np.array([~missing(cells.frame[column]) for column in columns], dtype=bool)
        return self._owning(filled.reshape(len(columns), len(self.of_node)).T)

    def owning_words(
        self, cells: Cells, columns: Sequence[str], categories: Categories | None, num_numbers: int
    ) -> Bool[np.ndarray, " type column"]:
        """Which columns of words belong to which type: those that are not empty for all of it, or as a model knows.

        Args:
            cells: the table of nodes.
            columns: of words.
            categories: the words of each that the model knows.
            num_numbers: features before those of words.
        """
        check_columns_exist(cells, tuple(columns))
        if self.model_types is None or categories is None:
            filled = [~missing(cells.frame[column]) for column in columns]
            values = np.array(filled, dtype=bool).reshape(len(columns), len(self.of_node)).T
            return np.stack([values[self.of_node == number].any(axis=0) for number in range(len(self.names))])

        ends = np.cumsum([num_numbers, *map(len, categories.values())])
        spans, features = list(pairwise(ends)), self.model_types.features
        owning = [[any(first <= column < last for column in columns) for first, last in spans] for columns in features]
        return np.array(owning, dtype=bool).reshape(len(self.names), len(columns))

    def with_words(self, owning: Bool[np.ndarray, " type column"], categories: Categories) -> "NodeTypes":
        """The same with the features of words after the numeric ones.

        Args:
            owning: which columns of words belong to which type.
            categories: the words of each.
        """
        assert self.owned is not None
        widths = [len(words) for words in categories.values()]
        return replace(self, owned=np.concatenate([self.owned, np.repeat(owning, widths, axis=1)], axis=1))

    def of_array(
        self, name: str, blank: Bool[np.ndarray, " node column"] | None, num_columns: int, *, imputes: bool = False
    ) -> "NodeTypes":
        """The same with features in an array; a column that is NaN for a whole type is not its feature.

        Args:
            name: the array, for messages.
            blank: where it is NaN; None where it nowhere is.
            num_columns: how many there are.
            imputes: whether other NaN are missing numbers, for the scale to fill them.

        Raises:
            DataError: a number is NaN where other nodes of the type have one.
        """
        if blank is None:
            blank = np.zeros((len(self.of_node), num_columns), dtype=bool)
        checked = self._owning(~blank) if self.model_types is None else self._knowing(num_columns)
        if not imputes and (wrong := np.argwhere(blank & ~checked.foreign)).size:
            node, column = (int(index) for index in wrong[0])
            raise DataError(
                f"{name}[{node}, {column}] is NaN, but other nodes of its type ({self.names[self.of_node[node]]}) have "
                "a number there; fill it in."
            )

        return checked

    def with_missing(self, features: NodeFeatures, blank: Bool[np.ndarray, " node column"] | None) -> NodeFeatures:
        """The features with NaN where a number is missing that other nodes of the type have.

        Args:
            features: 0 there.
            blank: where the data has none; None where it has all.
        """
        if blank is None or not (missing := blank & ~self.foreign).any():
            return features
        return NodeFeatures.of(np.where(missing, np.nan, features.to_dense()))

    @property
    def foreign(self) -> Bool[np.ndarray, " node column"]:
        """Where a column is not a feature of the type of a node."""
        assert self.owned is not None
        return ~self.owned[self.of_node]

    def resolve(
        self, features: NodeFeatures, edges: EdgeList, nodes: Sequence[str], is_directed: bool, source: str
    ) -> tuple[NodeFeatures, EdgeList, GraphTypes]:
        """The features with degrees where a type has none, the edges in both directions, and the types of both.

        Args:
            features: of the nodes.
            edges: as in the data.
            nodes: the names of the nodes.
            is_directed: whether edges keep their one direction.
            source: the data, for messages.
        """
        edges, relations, of_edge = related(edges, self, nodes, is_directed=is_directed, source=source)
        lacking = self._without_features(features)
        features, owned = _with_degrees(features, self, edges, lacking)
        columns = tuple(tuple(np.flatnonzero(row).tolist()) for row in owned)
        predicted = () if self.model_types is None else self.model_types.predicted
        degrees = tuple(self.names[number] for number in lacking.tolist())
        names = TypeNames(self.names, relations, columns, predicted, degrees)

        return features, edges, GraphTypes(names, self.of_node, of_edge)

    def checked_status(self, status: list[str]) -> list[str]:
        """The status of nodes to predict; nodes of a type that had no target in training get no prediction."""
        if self.model_types is None or not self.model_types.predicted:
            return status
        reasons = [f"no {name} {UNLEARNED}" if name not in self.model_types.predicted else OK for name in self.names]
        return [
            reasons[number] if row_status == OK else row_status
            for row_status, number in zip(status, self.of_node.tolist(), strict=True)
        ]

    def _without_features(self, features: NodeFeatures) -> Int64[np.ndarray, " lacking"]:
        """The types that need the numbers of their edges: those of a model, or those of which nothing varies."""
        assert self.owned is not None
        is_bare = ~self.owned.any(axis=1)
        if self.model_types is not None:
            return np.flatnonzero(is_bare | np.isin(self.names, self.model_types.degrees))
        varies = features.varying(self.of_node, len(self.names)) & self.owned
        is_alike = ~varies.any(axis=1) & (np.bincount(self.of_node, minlength=len(self.names)) > 1)
        return np.flatnonzero(is_bare | is_alike)

    def _owning(self, has_value: Bool[np.ndarray, " node column"]) -> "NodeTypes":
        return replace(
            self, owned=np.stack([has_value[self.of_node == number].any(axis=0) for number in range(len(self.names))])
        )

    def _knowing(self, num_columns: int) -> "NodeTypes":
        assert self.model_types is not None
        owned = np.zeros((len(self.names), num_columns), dtype=bool)
        num_given = self.model_types.num_given if self.model_types.degrees else num_columns
        for number, columns in enumerate(self.model_types.features):
            owned[number, [column for column in columns if column < min(num_columns, num_given)]] = True
        return replace(self, owned=owned)


def labels_of_column(cells: Cells, column: str | None) -> RowLabels | None:
    """The types of nodes in a column of their table; None where none is named."""
    if column is None:
        return None
    check_columns_exist(cells, (column,))
    texts = stripped(cells.frame[column])
    names = tuple(pa.compute.if_else(pa.array(missing(texts)), "", texts).to_pylist())
    return RowLabels(names, f"{cells.source}, line ", cells.lines, f", column {column!r}")


def in_words(relation: Relation) -> str:
    """A relation in words: `author writes paper`; `author to paper` where edges are unnamed."""
    sender, name, receiver = relation
    return f"{sender} {name or 'to'} {receiver}"


def backward(relation: Relation) -> Relation:
    """The relation of the reversed edges."""
    sender, name, receiver = relation
    return receiver, f"{BACKWARD}{name}", sender


def related(
    edges: EdgeList, types: NodeTypes, nodes: Sequence[str], *, is_directed: bool, source: str
) -> tuple[EdgeList, tuple[Relation, ...], Int64[np.ndarray, " edge"]]:
    """The edges with the missing reverse edges, the relations, and the relation of each edge.

    A relation is the name of an edge and the types of its ends. Undirected edges without names are mirrored as in any
    graph. Edges with names keep their direction: unless the table lists each of them both ways, all are added once more
    reversed, as a relation `rev_` and the name.

    Args:
        edges: as in the data.
        types: of the nodes.
        nodes: the names of the nodes.
        is_directed: whether edges keep their one direction.
        source: the data, for messages.

    Raises:
        DataError: the model does not know the relation of an edge.
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
    features: NodeFeatures, types: NodeTypes, edges: EdgeList, lacking: Int64[np.ndarray, " lacking"]
) -> tuple[NodeFeatures, Bool[np.ndarray, " type column"]]:
    """Two more columns where types lack features: their numbers of incoming and outgoing edges; and who has which."""
    assert types.owned is not None
    owned = types.owned
    if not len(lacking):
        return features, owned
    counts = edges.degrees(features.shape[0]) * np.isin(types.of_node, lacking)[:, None]
    more = np.zeros((len(owned), 2), dtype=bool)
    more[lacking] = True
    return features.hstack(counts), np.concatenate([owned, more], axis=1)


def _both_ways(
    edges: EdgeList, relation_of: list[Relation], num_nodes: int, model_types: TypeNames | None
) -> tuple[EdgeList, list[Relation]]:
    """The edges and, behind them, the reverse of those that lack it, or of all that are reversed."""
    names = {name for _, name, _ in relation_of}
    _check_free(edges, names if model_types is None else names | {name for _, name, _ in model_types.relations})
    number_of = {name: number for number, name in enumerate(sorted(names))}
    number = np.array([number_of[name] for _, name, _ in relation_of], dtype=np.int64)
    senders, receivers = torch.from_numpy(edges.senders), torch.from_numpy(edges.receivers)
    is_lonely = np.zeros(len(edges), dtype=bool)
    is_lonely[one_way(senders, receivers, num_nodes, torch.from_numpy(number)).numpy()] = True

    # Edges with one name between the same two types belong together, whichever their direction.
    group_of = [(name, *sorted((sender, receiver))) for sender, name, receiver in relation_of]
    turned = set()
    for edge, group in enumerate(group_of):
        if is_lonely[edge] if model_types is None else backward(relation_of[edge]) in model_types.relations:
            turned.add(group)

    is_turned = np.array([group in turned for group in group_of], dtype=bool)
    # A loop is its own reverse.
    added = np.flatnonzero(np.where(is_turned, edges.senders != edges.receivers, is_lonely))
    more = [backward(relation_of[edge]) if is_turned[edge] else relation_of[edge][::-1] for edge in added.tolist()]
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
                "but the "
                "model "
                f"knows {_listed(model_types.relations)}."
            )


def _listed(relations: Sequence[Relation]) -> str:
    return ", ".join(in_words(relation) for relation in relations)
