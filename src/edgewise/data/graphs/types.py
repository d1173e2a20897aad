"""Which kind each node is of and which relation each edge: found, or held against what a model knows."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from jaxtyping import Bool, Int64

from edgewise.data.graphs.edges import EdgeList
from edgewise.data.graphs.node_features import NodeFeatures
from edgewise.data.graphs.type_names import BACKWARD, KindNames, Named, Relation, backward, spoken
from edgewise.data.tables.cell import OK, missing, pa, stripped
from edgewise.data.tables.read import Cells, check_columns_exist
from edgewise.errors import DataError
from edgewise.neighborhood.index import one_way

ONE_KIND = "node"
"""What nodes are called where only edges have names."""


@dataclass(frozen=True, eq=False)
class NodeKinds:
    """Which kind each node is of, and which features a kind has."""

    names: tuple[str, ...]
    """The kinds."""
    of_node: Int64[np.ndarray, " node"]
    """That of each node, counted from 0."""
    known: KindNames | None
    """What a model knows of kinds; None where it is found out."""
    owned: Bool[np.ndarray, " kind column"] | None = None
    """Which columns are features of which kind; None before they have been read."""

    def of_cells(self, cells: Cells, columns: Sequence[str]) -> "NodeKinds":
        """The same with the features in columns of a table: where every cell of a kind is empty, it has none there."""
        if self.known is not None:
            return self._knowing(len(columns))
        filled = np.array([~missing(cells.frame[column]) for column in columns], dtype=bool)
        return self._owning(filled.reshape(len(columns), len(self.of_node)).T)

    def of_array(self, name: str, blank: Bool[np.ndarray, " node column"] | None, num_columns: int) -> "NodeKinds":
        """The same with the features in an array: a column that is NaN in all nodes of a kind is none of its features.

        Raises:
            DataError: a number is NaN where others of the kind have one.
        """
        if blank is None:
            blank = np.zeros((len(self.of_node), num_columns), dtype=bool)
        found = self._owning(~blank) if self.known is None else self._knowing(num_columns)
        if (wrong := np.argwhere(blank & ~found.foreign)).size:
            node, column = (int(place) for place in wrong[0])
            raise DataError(
                f"{name}[{node}, {column}] is NaN, but other nodes of its kind ({self.names[self.of_node[node]]}) have "
                "a number there; fill it in."
            )
        return found

    @property
    def foreign(self) -> Bool[np.ndarray, " node column"]:
        """Where a column is no feature of the kind of a node."""
        assert self.owned is not None
        return ~self.owned[self.of_node]

    def _owning(self, has_value: Bool[np.ndarray, " node column"]) -> "NodeKinds":
        found = [has_value[self.of_node == kind].any(axis=0) for kind in range(len(self.names))]
        return replace(self, owned=np.stack(found))

    def _knowing(self, num_columns: int) -> "NodeKinds":
        assert self.known is not None
        owned = np.zeros((len(self.names), num_columns), dtype=bool)
        for kind, columns in enumerate(self.known.features):
            owned[kind, [column for column in columns if column < num_columns]] = True
        return replace(self, owned=owned)


@dataclass(frozen=True, eq=False)
class GraphKinds:
    """The kinds of the nodes and edges of a graph."""

    names: KindNames
    """What they are called."""
    of_node: Int64[np.ndarray, " node"]
    """The kind of each node."""
    of_edge: Int64[np.ndarray, " edge"]
    """The relation of each edge."""


def node_kinds(named: Named | None, num_nodes: int, source: str, known: KindNames | None = None) -> NodeKinds:
    """The kinds of nodes: those that occur, in the order of the alphabet, or those that a model knows.

    Args:
        named: what the data calls them; None where all are of one kind.
        num_nodes: how many nodes there are.
        source: what messages call the data.
        known: what the model knows; None finds out.

    Raises:
        DataError: there are not as many; a node has no kind, or one that the model does not know; or no node has.
    """
    if named is None:
        if known is not None and known.nodes != (ONE_KIND,):
            raise DataError(
                f"{source}: its nodes do not say of which kind they are, but the model knows {', '.join(known.nodes)}; "
                "name the column: --node-type-column (in an .npz, the array node_type; in Python, node_kinds)."
            )
        return NodeKinds((ONE_KIND,), np.zeros(num_nodes, dtype=np.int64), known)
    if len(named.names) != num_nodes:
        raise DataError(f"{source}: kinds of {len(named.names)} nodes were given, but there are {num_nodes}.")
    if "" in named.names:
        place = named.place(named.names.index(""))
        raise DataError(f"{place}: the node has no kind; where nodes are of several kinds, each must say which.")
    kinds = tuple(sorted(set(named.names))) if known is None else known.nodes
    number_of = {name: number for number, name in enumerate(kinds)}
    for row, name in enumerate(named.names):
        if name not in number_of:
            raise DataError(
                f"{named.place(row)}: {name!r} is no kind of nodes that the model knows; it knows {', '.join(kinds)}."
            )
    return NodeKinds(kinds, np.array([number_of[name] for name in named.names], dtype=np.int64), known)


def named_nodes(cells: Cells, column: str | None) -> Named | None:
    """What a table calls the kinds of its nodes; None where no column does."""
    if column is None:
        return None
    check_columns_exist(cells, (column,))
    texts = stripped(cells.frame[column])
    names = tuple(pa.compute.if_else(pa.array(missing(texts)), "", texts).to_pylist())
    return Named(names, f"{cells.source}, line ", cells.lines, f", column {column!r}")


def kept_kinds(
    kinds: NodeKinds, features: NodeFeatures, edges: EdgeList, nodes: Sequence[str], is_directed: bool, source: str
) -> tuple[NodeFeatures, EdgeList, GraphKinds]:
    """The features, the edges as they are taken, and the kinds of both.

    Args:
        kinds: of the nodes.
        features: of the nodes.
        edges: as the data has them.
        nodes: what the nodes are called.
        is_directed: whether edges are one way.
        source: what messages call the data.
    """
    edges, relations, of_edge = related(edges, kinds, nodes, is_directed=is_directed, source=source)
    features, owned = _with_degrees(features, kinds, edges)
    columns = tuple(tuple(np.flatnonzero(row).tolist()) for row in owned)
    names = KindNames(kinds.names, relations, columns, () if kinds.known is None else kinds.known.told)
    return features, edges, GraphKinds(names, kinds.of_node, of_edge)


def untold(status: list[str], kinds: NodeKinds) -> list[str]:
    """The status of nodes to predict: what is told of a kind that never had a target in training would mean nothing."""
    told = () if kinds.known is None else kinds.known.told
    if not told:
        return status
    reasons = [f"no {name} had a target in training" if name not in told else OK for name in kinds.names]
    return [reasons[kind] if each == OK else each for each, kind in zip(status, kinds.of_node.tolist(), strict=True)]


def _with_degrees(
    features: NodeFeatures, kinds: NodeKinds, edges: EdgeList
) -> tuple[NodeFeatures, Bool[np.ndarray, " kind column"]]:
    """Two columns more where nothing is known of some kind of nodes: how many edges come to them and go."""
    assert kinds.owned is not None
    owned, bare = kinds.owned, np.flatnonzero(~kinds.owned.any(axis=1))
    if not len(bare):
        return features, owned
    num_nodes, num_columns = features.shape
    sides = [np.bincount(side, minlength=num_nodes) for side in (edges.receivers, edges.senders)]
    counts = NodeFeatures.of(np.stack(sides, axis=1) * np.isin(kinds.of_node, bare)[:, None])
    rows = np.concatenate([features.rows, counts.rows])
    order = rows.argsort(kind="stable")
    columns = np.concatenate([features.columns, counts.columns + num_columns])[order]
    values = np.concatenate([features.values, counts.values])[order]
    joined = NodeFeatures.of_entries(rows[order], columns, values, (num_nodes, num_columns + 2))
    more = np.zeros((len(owned), 2), dtype=bool)
    more[bare] = True
    return joined, np.concatenate([owned, more], axis=1)


def related(
    edges: EdgeList, kinds: NodeKinds, nodes: Sequence[str], *, is_directed: bool, source: str
) -> tuple[EdgeList, tuple[Relation, ...], Int64[np.ndarray, " edge"]]:
    """The edges with the other way of each, where it is missing, and the relation of each.

    A relation is what an edge is called and the kinds of nodes that it joins. Where edges are not one way, those
    without names are taken both ways as in any graph. Those with a name keep their direction: unless the table has each
    of them both ways, all stand there once more, the other way, as a relation that is called `rev_` and the name.

    Args:
        edges: as the data has them, with their names where it has any.
        kinds: of the nodes.
        nodes: what the nodes are called.
        is_directed: whether edges are one way.
        source: what messages call the data.

    Raises:
        DataError: an edge has a name, or joins kinds, that the model does not know.
    """
    known = kinds.known
    if edges.kinds is None and known is not None and any(name for _, name, _ in known.relations):
        raise DataError(
            f"{source}: its edges do not say of which kind they are, but the model knows {_listed(known.relations)}; "
            "name the column: --edge-type-column (in an .npz, the array edge_type; in Python, edge_kinds)."
        )
    if edges.kinds is None and not is_directed:
        edges = edges.both_ways(len(kinds.of_node))
    names = ("",) * len(edges) if edges.kinds is None else edges.kinds.names
    ends = [np.array(kinds.names)[kinds.of_node[side]].tolist() for side in (edges.senders, edges.receivers)]
    relation_of = list(zip(ends[0], names, ends[1], strict=True))
    if known is not None:
        _check_known(relation_of, edges, nodes, known, source)
    if edges.kinds is not None and not is_directed:
        edges, relation_of = _both_ways(edges, relation_of, len(kinds.of_node), known)
    relations = tuple(sorted(set(relation_of))) if known is None else known.relations
    number_of = {relation: number for number, relation in enumerate(relations)}
    return edges, relations, np.array([number_of[each] for each in relation_of], dtype=np.int64)


def _both_ways(
    edges: EdgeList, relation_of: list[Relation], num_nodes: int, known: KindNames | None
) -> tuple[EdgeList, list[Relation]]:
    """The edges and, behind them, the other way of those that lack it, or of all that are turned."""
    names = {name for _, name, _ in relation_of}
    _check_free(edges, names if known is None else names | {name for _, name, _ in known.relations})
    number_of = {name: number for number, name in enumerate(sorted(names))}
    number = np.array([number_of[name] for _, name, _ in relation_of], dtype=np.int64)
    senders, receivers = torch.from_numpy(edges.senders), torch.from_numpy(edges.receivers)
    is_lonely = np.zeros(len(edges), dtype=bool)
    is_lonely[one_way(senders, receivers, num_nodes, torch.from_numpy(number)).numpy()] = True
    # What has one name between the same two kinds belong together, whichever way they go.
    group_of = [(name, *sorted((sender, receiver))) for sender, name, receiver in relation_of]
    turned = set()
    for edge, group in enumerate(group_of):
        if is_lonely[edge] if known is None else backward(relation_of[edge]) in known.relations:
            turned.add(group)
    is_turned = np.array([group in turned for group in group_of], dtype=bool)
    # A loop is its own other way.
    added = np.flatnonzero(np.where(is_turned, edges.senders != edges.receivers, is_lonely))
    more = [backward(relation_of[edge]) if is_turned[edge] else relation_of[edge][::-1] for edge in added.tolist()]
    return edges.with_mirrored(added), [*relation_of, *more]


def _check_free(edges: EdgeList, names: set[str]) -> None:
    """Raise a DataError where the name for edges the other way is taken."""
    assert edges.kinds is not None
    for edge, name in enumerate(edges.kinds.names):
        if name.startswith(BACKWARD) and (forward := name.removeprefix(BACKWARD)) in names:
            raise DataError(
                f"{edges.kinds.place(edge)}: {name!r} is what edges called {forward!r} are called the other way, which "
                "is added; leave them out or rename them, or say --directed where the table has both ways."
            )


def _check_known(
    relation_of: Sequence[Relation], edges: EdgeList, nodes: Sequence[str], known: KindNames, source: str
) -> None:
    relations = set(known.relations)
    for edge, each in enumerate(relation_of):
        if each not in relations:
            ends = nodes[edges.senders[edge]], nodes[edges.receivers[edge]]
            place = source if edges.kinds is None else edges.kinds.place(edge)
            raise DataError(
                f"{place}: the edge from {ends[0]!r} to {ends[1]!r} says {spoken(each)!r}, but the model knows "
                f"{_listed(known.relations)}."
            )


def _listed(relations: Sequence[Relation]) -> str:
    return ", ".join(spoken(relation) for relation in relations)
