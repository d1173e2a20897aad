"""A table of edges: each row names two nodes and holds the features of the edge."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Bool, Float32, Int64

from edgewise.errors import DataError, plural
from edgewise.learn.readers.graphs.ends import Share, columns_of_ends
from edgewise.learn.readers.graphs.names import NodeNames, RowLabels
from edgewise.learn.readers.graphs.node_features import Categories, one_hot, words_in_use
from edgewise.learn.readers.graphs.source import AnySource, GraphSource
from edgewise.learn.tables.cell import Problems, Rejection, in_threads, missing, parse_columns
from edgewise.learn.tables.labels import words_of
from edgewise.learn.tables.read import Cells, cells_from_arrays, check_columns_exist, read_cells
from edgewise.neighborhood.index import one_way

NONE = "none"
"""The name of an empty table of edges, for prediction without edges."""
AS_FEATURES = "numbers of an edge are named with --edge-feature-columns, words with --edge-category-columns"
"""How a column of a table of edges is used."""
FIRST = 1000
"""Cells of a column that are looked at to see whether it names nodes."""
_MAX_HINTS = 100
"""Unknown names that are compared with the known ones."""


def note_of_unused(names: Sequence[str], remedy: str) -> list[str]:
    """A line that names the unused columns of a table of edges; empty without any."""
    if not names:
        return []
    shown = ", ".join(map(repr, names))
    return [f"the table of edges has {plural(len(names), 'more column')}, not used: {shown}; {remedy}"]


@dataclass(frozen=True, eq=False)
class EdgeList:
    """Edges between nodes that are counted from 0; information flows from sender to receiver."""

    senders: Int64[np.ndarray, " edge"]
    """The sender of each edge."""
    receivers: Int64[np.ndarray, " edge"]
    """The receiver of each edge."""
    features: Float32[np.ndarray, " edge edge_feature"]
    """The features of each edge, possibly of size 0."""
    num_mirrored: int = 0
    """The number of reverse edges that were added."""
    rejected: tuple[Rejection, ...] = ()
    """Rows of the table that could not be read as edges, in file order."""
    types: RowLabels | None = None
    """The type of each edge, where edges have types; without edges that were added."""
    unused_columns: tuple[str, ...] = ()
    """Columns of the table that nothing was read from."""
    splits: RowLabels | None = None
    """The word of each edge in the column of its split, where one was read; not of edges that were added."""
    lines: Int64[np.ndarray, " edge"] | None = None
    """The line of each edge in its table, as it was read."""
    categories: Categories = field(default_factory=dict)
    """The words of each column of categories."""
    columns: tuple[str, ...] = ()
    """The columns of the table that hold the ends."""
    feature_columns: tuple[str, ...] = ()
    """What the numbers of an edge are called, where arrays name them; the settings of a run name those of a table."""
    is_directed: bool | None = None
    """Whether the edges of arrays are one way, see `with_direction`; None where the settings of a run say it."""
    rejected_ends: Int64[np.ndarray, " rejected two"] = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int64))
    """The two nodes of each row in `rejected`, −1 for one that it does not name."""

    def __len__(self) -> int:
        return len(self.senders)

    @property
    def num_loops(self) -> int:
        """Edges from a node to itself."""
        return int((self.senders == self.receivers).sum())

    def with_words_of(self, is_known: Bool[np.ndarray, " edge"]) -> "EdgeList":
        """The same edges, whose features have only the words of those that are known."""
        words = words_in_use(self.categories, self.features[is_known])
        is_kept = [word in words[column] for column, known in self.categories.items() for word in known]
        num_numbers = self.features.shape[1] - len(is_kept)
        features = self.features[:, np.array([True] * num_numbers + is_kept, dtype=bool)]
        return replace(self, features=features, categories=words)

    def degrees(self, num_nodes: int) -> Int64[np.ndarray, " node two"]:
        """Incoming and outgoing edges of each node: the features of nodes without others."""
        return np.stack([np.bincount(ends, minlength=num_nodes) for ends in (self.receivers, self.senders)], axis=1)

    def num_repeated(self, num_nodes: int) -> int:
        """Edges that another one before them already is."""
        return len(self) - num_distinct(self.senders * num_nodes + self.receivers)

    def num_isolated(self, num_nodes: int) -> int:
        """Nodes that no edge but their own loop touches."""
        apart = self.senders != self.receivers
        ends = self.senders[apart], self.receivers[apart]
        # Nodes of rejected graphs are not among the `num_nodes` and lack edges; they keep their numbers.
        is_joined = np.zeros(max(end.max(initial=-1) for end in ends) + 1, dtype=bool)
        for end in ends:
            is_joined[end] = True
        return int(num_nodes - is_joined.sum())

    def ways(self, is_directed: bool) -> str:
        """The number of edges and whether they are directed, in words."""
        ways = "one way each" if is_directed else f"both ways, {self.num_mirrored:,} of them added for it"
        return f"{plural(len(self), 'edge')}, {ways}"

    def notes(self, num_nodes: int, num_repeated: int | None = None) -> list[str]:
        """Lines about loops, repeated edges and nodes without any.

        Args:
            num_nodes: how many nodes there are.
            num_repeated: where edges have types, how many repeat another one of their type.
        """
        repeated = self.num_repeated(num_nodes) if num_repeated is None else num_repeated
        counts = [
            (self.num_loops, "edge is a loop, counted as a neighbor", "edges are loops, each counted as a neighbor"),
            (repeated, "edge repeats another one, and counts again", "edges repeat another one, and count again"),
            (self.num_isolated(num_nodes), "node has no neighbor", "nodes have no neighbor"),
        ]
        return [plural(*count) for count in counts if count[0]]

    def unused(self, remedy: str, used: Sequence[str | None] = ()) -> list[str]:
        """A line that names the columns of the table that nothing is read from; none where there are none.

        Args:
            remedy: how they could be used.
            used: columns that something else is read from.
        """
        return note_of_unused([name for name in self.unused_columns if name not in used], remedy)

    def taken(self, order: np.ndarray) -> "EdgeList":
        """Some of the edges, in an order."""
        sides = {"senders": self.senders[order], "receivers": self.receivers[order]}
        return replace(self, **sides, features=self.features[order], lines=None)

    def messages(self, num_nodes: int, is_directed: bool) -> "EdgeList":
        """The edges along which messages go: in both directions, unless edges are one way."""
        return self if is_directed else self.both_ways(num_nodes)

    def resolved(self, source: AnySource) -> AnySource:
        """A source that names the columns of these edges and says their direction, so that other tables are read
        likewise."""
        return replace(
            source,
            edge_columns=self.columns or source.edge_columns,
            edge_feature_columns=self.feature_columns or source.edge_feature_columns,
            directed=source.directed if self.is_directed is None else self.is_directed,
        )

    def with_direction(self, num_nodes: int) -> "EdgeList":
        """The same edges, which say that they are one way unless each of them has its reverse.

        Where they have types, the reverse of a relation may have any name: these edges are one way, too.
        """
        is_directed = self.types is not None or self.num_loops == len(self)
        if not is_directed:
            lacking = one_way(torch.from_numpy(self.senders), torch.from_numpy(self.receivers), num_nodes)
            is_directed = len(lacking) > 0
        return replace(self, is_directed=is_directed)

    def joins(self, sender: int, receiver: int, is_directed: bool) -> Bool[np.ndarray, " edge"]:
        """Which edges go from one node to another, or between both where edges go both ways."""
        joins = (self.senders == sender) & (self.receivers == receiver)
        return joins if is_directed else joins | ((self.senders == receiver) & (self.receivers == sender))

    def both_ways(self, num_nodes: int) -> "EdgeList":
        """The same edges, followed by the missing reverse edges with the same features.

        Which those are is the rule of `Edges.undirected`: multi-edges are mirrored one by one.
        """
        return self.with_mirrored(
            one_way(torch.from_numpy(self.senders), torch.from_numpy(self.receivers), num_nodes).numpy()
        )

    def with_mirrored(self, added: Int64[np.ndarray, " added"]) -> "EdgeList":
        """The same edges, followed by the reverse of some, with the same features."""
        return EdgeList(
            np.concatenate([self.senders, self.receivers[added]]),
            np.concatenate([self.receivers, self.senders[added]]),
            np.concatenate([self.features, self.features[added]]),
            len(added),
            self.rejected,
            unused_columns=self.unused_columns,
            splits=self.splits,
            categories=self.categories,
            columns=self.columns,
            feature_columns=self.feature_columns,
            is_directed=self.is_directed,
            rejected_ends=self.rejected_ends,
        )


def read_edges(
    table: str | Path | Cells,
    names: NodeNames,
    nodes: str,
    *,
    edge_columns: Sequence[str] = (),
    feature_columns: Sequence[str] = (),
    category_columns: Sequence[str] = (),
    categories: Categories | None = None,
    type_column: str | None = None,
    known_types: Sequence[str] | None = None,
    splits_column: str | None = None,
    graph_column: str | None = None,
    imputes: bool = False,
    strict: bool = False,
    may_be_empty: bool = False,
    may_reject_all: bool = False,
    ends_are_of_training: bool = False,
) -> EdgeList:
    """Read a table of edges as written: none is mirrored or joined.

    A row that names an unknown node, or has a feature other than a finite number (empty, NaN), is skipped and listed in
    `rejected`.

    Args:
        table: .csv, .tsv, .csv.gz, .tsv.gz, .xlsx or .parquet; or its cells.
        names: the nodes by their names.
        nodes: the table of nodes, for messages.
        edge_columns: sender and receiver; by default as `ends_of` guesses.
        feature_columns: numbers of the edge.
        category_columns: words of the edge; each becomes a feature.
        categories: the words that a trained model knows; by default those that occur.
        type_column: the type of the edge; None where edges have none.
        known_types: the types that a trained model knows; by default those that occur.
        splits_column: the split of the edge, in words; None where it is not needed.
        graph_column: the graph of the edge, where names of nodes are unique only within a graph.
        imputes: leave NaN where a number is missing, for the scale to fill it.
        strict: stop at the first row that cannot be read as an edge.
        may_be_empty: whether a table without rows is one.
        may_reject_all: whether no row need be an edge.
        ends_are_of_training: whether `edge_columns` are those of the training, which the table may lack: others are
            then guessed, and said.

    Raises:
        DataError: the file cannot be used as a whole; `strict` and a row cannot; or no row is an edge.
    """
    cells = table if isinstance(table, Cells) else read_cells(table, may_be_empty=may_be_empty)
    frame = cells.frame
    used = (*feature_columns, *category_columns, type_column, splits_column, graph_column)
    share = share_of_nodes(cells, names, graph_column)
    columns = list(frame.columns)
    ends = columns_of_ends(cells.source, columns, used, share, edge_columns, are_of_training=ends_are_of_training)
    if len(ends) != 2:
        raise DataError(
            f"{cells.source}: {plural(len(ends), 'column names', 'columns name')} nodes, expected two: sender and "
            "receiver."
        )

    typed = () if type_column is None else (type_column,)
    split = () if splits_column is None else (splits_column,)
    check_columns_exist(cells, (*ends, *feature_columns, *typed, *split))
    graphs = None if graph_column is None else frame[graph_column]
    node_rows = in_threads(lambda column: names.places(frame[column], graphs), ends)
    problems = Problems()
    for column, side in zip(ends, node_rows, strict=True):
        _add_unknown(problems, cells, column, np.flatnonzero(side < 0), names, nodes, graph_column)

    features, bad_cells = parse_columns([frame[column] for column in feature_columns], np.float32)
    features = features.reshape(len(frame), len(feature_columns))
    for column, bad in zip(feature_columns, bad_cells, strict=True):
        problems.add_bad(column, bad, imputes=imputes)
    words, categories = one_hot(cells, category_columns, categories, problems)
    features = np.concatenate([features, words], axis=1)

    for column in typed:
        for row in np.flatnonzero(missing(frame[column])).tolist():
            problems.add(row, column, frame[column].iloc[row], "the edge lacks a type")

    listed = tuple(
        Rejection(cells.source, int(cells.lines[row]), *problems.first[row]) for row in sorted(problems.first)
    )
    if listed and (strict or (len(listed) == len(frame) and not may_reject_all)):
        first = listed[0]
        advice = "fix the row, or drop --strict to skip it" if strict else "none of the rows is an edge"
        raise DataError(f"{first.file}, line {first.line}, column {first.column!r}: {first.reason}; {advice}.")

    rejected_rows = np.array(sorted(problems.first), dtype=np.int64)
    lines, rejected_ends = cells.lines, np.stack([side[rejected_rows] for side in node_rows], axis=1)
    if listed:
        is_usable = np.ones(len(frame), dtype=bool)
        is_usable[list(problems.first)] = False
        frame, lines, features = frame[is_usable], lines[is_usable], features[is_usable]
        node_rows = [side[is_usable] for side in node_rows]

    types = None
    for column in typed:
        called = tuple(words_of(frame[column], known_types).to_pylist())
        types = RowLabels(called, f"{cells.source}, line ", lines, f", column {column!r}")

    splits = None
    for column in split:
        splits = RowLabels(tuple(frame[column].tolist()), f"{cells.source}, line ", lines, f", column {column!r}")
    unused = tuple(name for name in frame.columns if name not in (*ends, *used))
    senders, receivers = node_rows

    return EdgeList(
        senders,
        receivers,
        features,
        rejected=listed,
        unused_columns=unused,
        columns=ends,
        types=types,
        splits=splits,
        lines=lines,
        categories=categories,
        rejected_ends=rejected_ends,
    )


def no_edges(source: GraphSource, *more: str) -> Cells:
    """A table of edges without rows.

    Args:
        source: the columns that it must have.
        more: further ones.
    """
    ends = source.edge_columns or ("sender", "receiver")
    typed = () if source.edge_type_column is None else (source.edge_type_column,)
    names = (*ends, *source.edge_feature_columns, *source.edge_category_columns, *typed, *more)
    return cells_from_arrays({name: [""] for name in names})[0].part(0, 0)


def share_of_nodes(cells: Cells, names: NodeNames, graph_column: str | None = None) -> Share:
    """Which part of the first cells of a column name nodes."""
    first = cells.frame.iloc[:FIRST]
    graphs = None if graph_column is None else first[graph_column]
    return lambda column: (names.places(first[column], graphs) >= 0).sum() / max(1, len(first))


def _add_unknown(
    problems: Problems,
    cells: Cells,
    column: str,
    rows: np.ndarray,
    names: NodeNames,
    nodes: str,
    graph_column: str | None,
) -> None:
    """Adds the rows of a column that name an unknown node."""
    if not len(rows):
        return
    written = cells.frame[column].iloc[rows].tolist()

    graphs = [None] * len(rows) if graph_column is None else cells.frame[graph_column].iloc[rows].tolist()
    for row, cell, graph in zip(rows.tolist(), written, graphs, strict=True):
        name, home = cell.strip(), nodes if graph is None else f"the graph {graph.strip()!r} in {nodes}"
        # Only the first names are compared with all others, which takes its time.
        hint = names.hint(name) if graph is None and len(problems.first) < _MAX_HINTS else ""
        problems.add(row, column, cell, f"{name!r} is not a node of {home}{hint}" if name else "the cell names no node")


def num_distinct(codes: Int64[np.ndarray, " edge"]) -> int:
    """The number of distinct numbers, by one sort: numpy's hash of millions takes minutes."""
    ordered = torch.from_numpy(codes).sort().values
    return int((ordered[1:] != ordered[:-1]).sum()) + int(len(codes) > 0)
