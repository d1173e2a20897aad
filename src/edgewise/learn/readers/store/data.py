"""A store as a table of nodes: targets, weights and splits in memory, features and edges in their files."""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import ClassVar

import numpy as np
from jaxtyping import Float32, Int64

from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.readers.graphs.lost import NOWHERE
from edgewise.learn.readers.graphs.names import NUMBERS
from edgewise.learn.readers.graphs.node_features import Categories
from edgewise.learn.readers.graphs.nodes import contents_of_nodes
from edgewise.learn.readers.graphs.union import runs
from edgewise.learn.readers.store.edge_columns import numbers_of_edges, unknown_codes, vocabulary_of, words_of_edges
from edgewise.learn.readers.store.layout import COMPLETE, UNREADABLE, GraphStore
from edgewise.learn.tables.cell import Problems, is_missing, pa
from edgewise.learn.tables.columns import AUTO, Columns
from edgewise.learn.tables.impute import missing_by_row
from edgewise.learn.tables.labels import spellings_of
from edgewise.learn.tables.read import Cells, check_columns, pd
from edgewise.learn.tables.rows import Rows, checked_rows
from edgewise.learn.tables.stream import LineRuns

PART = 2**20
"""Numbers of features that are read together."""
FRONTIER = 2**16
"""Nodes whose edges are followed together."""
EDGE_CHUNK = 2**22
"""Numbers of edges that are read together."""
EXACT = 2**24
"""Whole numbers below it are exact in float32."""


@dataclass(frozen=True, eq=False)
class StoredFeatures:
    """The features of the nodes of a store; each word becomes a feature."""

    store: GraphStore
    """The store."""
    names: tuple[str, ...]
    """The columns of numbers, in their order."""
    categories: Categories = field(default_factory=dict)
    """The words of each column of words, in the order of their features."""
    adds_degrees: bool = False
    """Whether in- and out-degrees follow the other features."""
    fills: bool = False
    """Whether the scale fills empty cells, which are NaN then; else they are 0."""

    @property
    def has_degrees(self) -> bool:
        """Whether in- and out-degrees are the only features."""
        return not self.names and not self.categories

    @property
    def shape(self) -> tuple[int, int]:
        """(node, feature)."""
        width = len(self.names) + sum(map(len, self.categories.values()))
        return self.store.num_nodes, 2 if self.has_degrees else width + 2 * self.adds_degrees

    @cached_property
    def _places(self) -> np.ndarray:
        column_of_name = {name: column for column, name in enumerate(self.store.features)}
        return np.array([column_of_name[name] for name in self.names], dtype=np.int64)

    def of_rows(self, rows: np.ndarray) -> Float32[np.ndarray, " row feature"]:
        """The features of some nodes."""
        if self.has_degrees:
            return degrees_of(self.store, rows).astype(np.float32)
        parts = [self.store.feature_rows(rows, self._places, keeps_missing=self.fills)]
        parts += [
            one_hot_of(self.store.words[name], vocabulary)[self.codes(name)[rows]]
            for name, vocabulary in self.categories.items()
        ]
        if self.adds_degrees:
            parts.append(degrees_of(self.store, rows).astype(np.float32))
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def codes(self, name: str) -> np.ndarray:
        """The codes of a column of words."""
        return self.store.array(f"words_{name}")

    def parts(self) -> Iterator[Float32[np.ndarray, " row feature"]]:
        """Those of all nodes, some at a time."""
        size = max(1, PART // max(self.shape[1], 1))
        for start in range(0, self.shape[0], size):
            yield self.of_rows(np.arange(start, min(start + size, self.shape[0])))

    @cached_property
    def missing_counts(self) -> Int64[np.ndarray, " feature"]:
        """How many nodes lack a number in each column of numbers."""
        counts = np.zeros(len(self.names), np.int64)
        for _, values in self.incomplete():
            counts += np.isnan(values).sum(axis=0)
        return counts

    @property
    def num_missing(self) -> int:
        """Numbers that are NaN."""
        return int(self.missing_counts.sum())

    def incomplete(self) -> Iterator[tuple[Int64[np.ndarray, " row"], Float32[np.ndarray, " row column"]]]:
        """The nodes that lack numbers, which are filled, and their numbers, some at a time."""
        rows = np.flatnonzero(self.store.array("usable") != COMPLETE) if self.fills else np.zeros(0, np.int64)
        size = max(1, PART // max(len(self.names), 1))
        for start in range(0, len(rows), size):
            batch = rows[start : start + size]
            yield batch, self.store.feature_rows(batch, self._places, keeps_missing=True)

    @property
    def are_words(self) -> bool:
        """Whether they say how much a node has of a few out of many features; as `NodeFeatures` has it."""
        if self.shape[1] < 64 or self.has_degrees or self.num_missing:
            return False
        count = sum(self.store.manifest["nonzero"][column] for column in self._places.tolist())
        count += len(self.categories) * self.shape[0]
        least = [self.store.manifest["least"][column] for column in self._places.tolist()]
        return 0 < count < 0.2 * self.shape[0] * self.shape[1] and all(value is None or value > 0 for value in least)


def one_hot_of(words: Sequence[str], vocabulary: Sequence[str]) -> Float32[np.ndarray, " code word"]:
    """A row for each code of a column of words: 1 for the word, and nothing where it is not known."""
    table = np.zeros((len(words), len(vocabulary)), np.float32)
    column_of_word = {word: column for column, word in enumerate(vocabulary)}
    spelling = spellings_of(words, vocabulary)
    for code, word in enumerate(words):
        if spelling[word] in column_of_word:
            table[code, column_of_word[spelling[word]]] = 1
    return table


def degrees_of(store: GraphStore, rows: np.ndarray) -> np.ndarray:
    """Incoming and outgoing edges of some nodes, int64, loops counted."""
    degrees = np.zeros((len(rows), 2), np.int64)
    loops = store.array("loops")
    num_loops = np.searchsorted(loops, rows, side="right") - np.searchsorted(loops, rows)
    for side, name in enumerate(("incoming", "outgoing")):
        offsets = store.array(f"{name}_offsets")
        degrees[:, side] = offsets[rows + 1].astype(np.int64) - offsets[rows] + num_loops
    return degrees


def lost_ends(store: GraphStore) -> np.ndarray:
    """The nodes with edges that could not be read; none in stores that do not say whose edges they lack."""
    return store.array("lost_ends") if store.has("lost_ends") else np.zeros(0, np.int64)


def hops_in_store(store: GraphStore, reach: int, nodes: Sequence[int] | np.ndarray) -> Int64[np.ndarray, " node"]:
    """As `edgewise.learn.readers.graphs.lost.hops_from` has it."""
    hops, frontier = np.full(store.num_nodes, NOWHERE), np.asarray(nodes, dtype=np.int64)
    hops[frontier] = 0
    offsets, links = store.array("outgoing_offsets"), store.array("outgoing_links")

    for hop in range(1, reach + 1):
        for start in range(0, len(frontier), FRONTIER):
            edges, _ = runs(offsets, frontier[start : start + FRONTIER])
            receivers = links[edges, 0]
            hops[receivers[hops[receivers] == NOWHERE]] = hop
        frontier = np.flatnonzero(hops == hop) if len(frontier) else frontier

    return hops


@dataclass(frozen=True, eq=False)
class StoredNodeData:
    """The nodes of a store."""

    rows: Rows
    """A row for each node."""
    store: GraphStore
    """The files."""
    features: StoredFeatures
    """The features of each node."""
    categories: Categories = field(default_factory=dict)
    """The words of each column of words of nodes."""
    edge_categories: Categories = field(default_factory=dict)
    """The same of edges."""
    edge_columns: tuple[str, ...] = ()
    """The columns of numbers of edges, in the order of the model."""

    edges: ClassVar[None] = None
    types: ClassVar[None] = None

    @property
    def num_edges(self) -> int:
        """All edges, both ways counted."""
        return self.store.num_edges

    @property
    def has_degrees(self) -> bool:
        """Whether nothing is known of the nodes but their edges."""
        return self.features.has_degrees

    @property
    def num_edge_features(self) -> int:
        """Numbers that are known of an edge, words counted one by one."""
        return len(self.store.manifest["edge_features"]) + sum(map(len, self.edge_categories.values()))

    def edge_features(self, kind: str, places: np.ndarray) -> Float32[np.ndarray, " edge feature"]:
        """What is known of some edges, or of some loops, NaN where a number is missing; words last."""
        parts = [np.zeros((len(places), 0), np.float32)]
        if self.store.has(f"{kind}_features"):
            numbers = self.store.array(f"{kind}_features")[places]
            parts.append(numbers if self._edge_places is None else numbers[:, self._edge_places])
        parts += [table[self.store.array(f"{kind}_words")[places, column]] for column, table in self._edge_words]
        return np.concatenate(parts, axis=1)

    @cached_property
    def _edge_places(self) -> list[int] | None:
        """Where the columns of numbers stand in the store; None where they stand as the model has them."""
        names = self.store.manifest["edge_features"]
        return None if list(self.edge_columns) == names else [names.index(name) for name in self.edge_columns]

    @cached_property
    def _edge_words(self) -> list[tuple[int, Float32[np.ndarray, " code word"]]]:
        """The place in the store of each column of words of edges, and the features of each code."""
        words = self.store.manifest["edge_words"]
        columns = list(words)
        return [(columns.index(name), one_hot_of(words[name], known)) for name, known in self.edge_categories.items()]

    def edge_numbers(self) -> Iterator[tuple[str, int, Float32[np.ndarray, " edge column"]]]:
        """The numbers of all edges without words, some at a time: `edge` or `loop`, the place of the first, and
        theirs."""
        for kind in ("edge", "loop"):
            if not self.store.has(f"{kind}_features"):
                continue
            numbers = self.store.array(f"{kind}_features")
            size = max(1, EDGE_CHUNK // numbers.shape[1])
            for start in range(0, len(numbers), size):
                part = numbers[start : start + size]
                yield kind, start, part if self._edge_places is None else part[:, self._edge_places]

    @cached_property
    def missing_edge_counts(self) -> Int64[np.ndarray, " column"]:
        """How many edges lack a number in each column of numbers, both ways counted."""
        counts = np.zeros(len(self.store.manifest["edge_features"]), np.int64)
        for _, numbers in self._incomplete_edges():
            counts += np.isnan(numbers).sum(axis=0)
        return counts

    def _incomplete_edges(
        self,
    ) -> Iterator[tuple[Int64[np.ndarray, " edge 2"], Float32[np.ndarray, " edge column"]]]:
        """The ends of the edges that lack numbers, and their numbers, some at a time."""
        if not self.store.manifest["incomplete_edges"]["count"]:
            return
        for kind, start, numbers in self.edge_numbers():
            rows = np.flatnonzero(np.isnan(numbers).any(axis=1))
            places = start + rows
            if kind == "loop":
                senders = receivers = self.store.array("loops")[places]
            else:
                senders = self.store.array("incoming_links")[places, 0].astype(np.int64)
                receivers = np.searchsorted(self.store.array("incoming_offsets"), places, side="right") - 1
            yield np.stack([senders, receivers], axis=1), numbers[rows]

    def missing(self, node_names: Sequence[str], edge_names: Sequence[str]) -> dict[int, list[str]]:
        """What nodes and their edges lack, in words; as `NodeData.missing`."""
        names_of_edges = [f"{name} of an edge" for name in edge_names]
        of_nodes = ((numbers, rows, node_names) for rows, numbers in self.features.incomplete())
        of_edges = ((numbers, ends, names_of_edges) for ends, numbers in self._incomplete_edges())
        return missing_by_row(chain(of_nodes, of_edges))


def read_store(
    folder: str,
    columns: Columns,
    *,
    need_targets: bool = True,
    strict: bool = False,
    categories: Categories | None = None,
    edge_categories: Categories | None = None,
    edge_columns: tuple[str, ...] = (),
) -> StoredNodeData:
    """The nodes of a store, with the targets, weights and splits that columns name.

    Args:
        folder: a finished store.
        columns: the role of each column; without `descriptors_columns` all numbers without another role are
            features.
        need_targets: False reads nodes to predict.
        strict: stop at the first node that cannot be used.
        categories, edge_categories: the words that a trained model knows; by default those that occur.
        edge_columns: the columns of numbers of edges that a trained model reads, where they have names.

    Raises:
        SettingError: no target is named.
        DataError: it is not a finished store, a column is missing, its edges have other columns than those of the
            model, or no node can be used.
    """
    store = GraphStore(folder)
    name_column = store.manifest["name_column"] or NUMBERS
    if columns.node_column not in (AUTO, name_column):
        raise DataError(
            f"{folder}: the names of its nodes are those of column {name_column!r}, not of {columns.node_column!r}; "
            "leave out "
            "--node-column, or prepare the store again with it."
        )

    columns = replace(columns, node_column=name_column)
    present = [*dict.fromkeys([*store.features, *(name for name, words in store.words.items() if words)])]
    present += [name for name in store.manifest["numbers"] if name not in present]
    others = (columns.weight_column, columns.splits_column, columns.group_column)
    needed = (*columns.target_columns, *(name for name in others if name)) if need_targets else ()
    check_columns(str(folder), present, (*needed, *columns.descriptors_columns, *columns.category_columns))

    if need_targets and not columns.target_columns:
        raise SettingError("no --target-columns were given; name what is to be predicted for the nodes.")
    check_columns(str(folder), list(store.manifest["places"]), columns.ignore_columns)  # of the table, kept or not
    features = columns.descriptors_columns
    if not features and need_targets:
        used = {name for names in columns.roles().values() for name in names}
        features = tuple(name for name in store.features if name not in used)
        columns = replace(columns, descriptors_columns=features)

    if missing := [name for name in features if name not in store.features]:
        raise DataError(
            f"{folder}: {missing[0]!r} is not a column of numbers there; it was put into the store as words."
        )
    if missing := [name for name in columns.category_columns if not store.words.get(name)]:
        raise DataError(
            f"{folder}: {missing[0]!r} is not a column of words there; prepare the store again with --category-columns "
            f"{missing[0]}."
        )

    if columns.task_type == AUTO and any(is_fractional(store, name) for name in columns.target_columns):
        columns = replace(columns, task_type="regression")
    listed = store.manifest["rejected_nodes"]["first"] + store.manifest["incomplete_nodes"]["first"]
    cells_of = {(row, column): (cell, reason) for row, _, _, column, cell, reason in listed}
    problems, words = Problems(), {}
    for number, name in enumerate(columns.category_columns):
        vocabulary = vocabulary_of(store.words[name])
        words[name] = vocabulary if categories is None else list(categories.values())[number]

    frame = pd.DataFrame(
        {name: column_of(store, name, cells_of, is_name=name == columns.group_column) for name in needed},
        index=range(store.num_nodes),
    )
    unread = chain(
        unread_features(store, features, are_filled=columns.imputes), unlisted_numbers(store, needed, cells_of)
    )
    for row, column in unread:
        problems.add(row, column, *cells_of.get((row, column), ("", "the cell cannot be read as a number")))

    _check_words(store, words, problems)
    places = LineRuns(store.manifest["node_files"], store.array("line_runs"))
    file_of_row, lines = places.of_rows(store.num_nodes)
    cells = Cells(tuple(places.files), file_of_row, frame, lines, name=str(folder))
    contents = contents_of_nodes(store.num_nodes, lambda row: row)
    rows = checked_rows(
        cells, columns, problems, contents, strict=strict, need_targets=need_targets, may_lack_targets=True
    )

    return StoredNodeData(
        rows=rows,
        store=store,
        features=StoredFeatures(store, features, words, fills=columns.imputes),
        categories=words,
        edge_categories=words_of_edges(store, edge_categories),
        edge_columns=numbers_of_edges(store, edge_columns),
    )


def unread_features(store: GraphStore, features: Sequence[str], *, are_filled: bool) -> Iterator[tuple[int, str]]:
    """The first of some features that could not be read, of each node that has one; empty cells may be filled."""
    columns = np.array([store.features.index(name) for name in features], dtype=np.int64)
    usable = store.array("usable")
    rows = np.flatnonzero(usable == UNREADABLE if are_filled else usable != COMPLETE)
    unread = store.bad_numbers if are_filled else store.unread_features
    size = max(1, PART // max(len(store.features), 1))
    for start in range(0, len(rows) if features else 0, size):
        batch = rows[start : start + size]
        is_unread = unread(batch, columns)
        for index in np.flatnonzero(is_unread.any(axis=1)).tolist():
            yield int(batch[index]), features[int(is_unread[index].argmax())]


def unlisted_numbers(
    store: GraphStore, names: Sequence[str], listed: Container[tuple[int, str]]
) -> Iterator[tuple[int, str]]:
    """The cells of some columns that could not be read as numbers, of which the store does not list what they hold."""
    places = {name: place for place, name in enumerate(store.number_columns)}
    bad_rows, bad_columns = store.array("bad_rows"), store.array("bad_columns")
    for name in names:
        if name in places:
            rows = bad_rows[bad_columns == places[name]]
            yield from ((row, name) for row in rows.tolist() if (row, name) not in listed)


def _check_words(store: GraphStore, categories: Categories, problems: Problems) -> None:
    """Adds the nodes with unknown words."""
    for name, vocabulary in categories.items():
        unknown = unknown_codes(store.words[name], vocabulary)
        if not unknown:
            continue
        codes = store.array(f"words_{name}")
        for row in np.flatnonzero(np.isin(codes, unknown)).tolist():
            word = store.words[name][codes[row]]
            reason = f"{word!r} is not one of the {plural(len(vocabulary), 'known word')}"
            problems.add(row, name, word, "the cell is empty" if is_missing(word) else reason)


def is_fractional(store: GraphStore, name: str) -> bool:
    """Whether a column is kept as numbers, not by its different cells."""
    return not store.words.get(name)


def column_of(
    store: GraphStore, name: str, bad_cells: Mapping[tuple[int, str], tuple[str, str]], *, is_name: bool = False
) -> pd.api.extensions.ExtensionArray:
    """A column as texts, as a table of nodes has them.

    Args:
        store: the files.
        name: of the column.
        bad_cells: the text of cells that are not numbers, and the reason, by row and column.
        is_name: whether different cells must stay different, as those of groups.

    Raises:
        DataError: it is kept as a feature, which is too coarse for it.
    """
    if words := store.words.get(name):
        return pd.Categorical.from_codes(store.array(f"words_{name}"), list(words))
    if name in store.manifest["numbers"]:
        values = np.array(store.array(f"numbers_{name}"))
    elif store.feature_dtype != "float32":
        raise DataError(
            f"{store.folder}: {name!r} is stored as a feature in {store.feature_dtype}, which is too coarse for a "
            f"target; prepare the store again with --target-columns {name}."
        )
    else:
        column = np.array([store.features.index(name)])
        values = store.array("features")[:, column[0]].astype(np.float32)
        if is_name and bool((np.abs(values) >= EXACT).any()):
            raise DataError(
                f"{store.folder}: {name!r} is stored as a feature in float32, where numbers from {EXACT:,} on may be "
                f"taken for each other; prepare the store again with --group-column {name}."
            )

    texts = pa.array(values).cast(pa.large_string())
    if text_of_row := {row: cell for (row, column), (cell, _) in sorted(bad_cells.items()) if column == name}:
        is_bad = np.zeros(store.num_nodes, bool)
        is_bad[list(text_of_row)] = True
        texts = pa.compute.replace_with_mask(texts, pa.array(is_bad), pa.array(text_of_row.values(), texts.type))
    return pd.arrays.ArrowStringArray(pa.chunked_array([texts]))
