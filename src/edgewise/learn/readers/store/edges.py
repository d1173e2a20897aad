"""The tables of edges, some rows at a time: as records, with their other way, by receiver, and by sender."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch

from edgewise.errors import DataError, plural
from edgewise.learn.files import FileWriter, Scratch, mapped_array
from edgewise.learn.progress import stage
from edgewise.learn.readers.graphs.ends import ends_of
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.readers.store.layout import FileRecord, GraphStore, Manifest
from edgewise.learn.readers.store.names import NumberIndex, TextJoin
from edgewise.learn.readers.store.nodes import MAX_LISTED, CategoryEncoder, NodeArrays, Rejections
from edgewise.learn.readers.store.sort import Key, read_pieces, sorted_blocks
from edgewise.learn.tables.cell import is_missing, pa, read_number, texts_of
from edgewise.learn.tables.read import check_columns
from edgewise.learn.tables.stream import Chunk, Float32Columns, LineRuns, TableStream, with_float32_columns
from edgewise.neighborhood.index import one_way
from edgewise.neighborhood.plan import INT32_LIMIT

PIECE = 2**20
"""Records that are read together."""
UNREAD = -1
"""The sender of a record one of whose cells cannot be read."""


class EdgeColumns:
    """The columns of the tables of edges.

    Args:
        table: the table of edges.
        source: the roles of its columns.
        time: the column of times.
        imputes: whether edges that lack a number are kept, for a model to fill it.
    """

    def __init__(self, table: TableStream, source: GraphSource, time: str | None, *, imputes: bool):
        used = (*source.edge_feature_columns, *source.edge_category_columns, source.edge_type_column, time)
        ends = source.edge_columns or ends_of(table.name, table.columns, used, None)
        if len(ends) != 2:
            raise DataError(
                f"{table.name}: {plural(len(ends), 'column names', 'columns name')} nodes, expected two: sender and "
                "receiver."
            )

        self.ends = ends
        self.features = list(source.edge_feature_columns)
        self.encoders = [CategoryEncoder(name, has_role=True) for name in source.edge_category_columns]
        self.type = source.edge_type_column
        if self.type is not None:
            self.encoders.append(CategoryEncoder(self.type, has_role=True))

        self.time, self.imputes = time, imputes
        named = [*ends, *self.features, *(encoder.name for encoder in self.encoders), *([time] if time else [])]
        self.all = list(dict.fromkeys(named))  # one column may be a word and the time
        check_columns(table.name, table.columns, self.all)

    def record(self, num_nodes: int) -> np.dtype:
        """The fields of an edge."""
        node = "<i4" if num_nodes < INT32_LIMIT else "<i8"
        fields: list[tuple[str, str] | tuple[str, str, tuple[int, ...]]] = [
            ("sender", node),
            ("receiver", node),
            ("place", "<i8"),
        ]
        fields += [("features", "<f4", (len(self.features),))] if self.features else []
        fields += [("words", "<i4", (len(self.encoders),))] if self.encoders else []
        fields += [("time", "<f8")] if self.time else []
        return np.dtype(fields)

    def to_json(self) -> Manifest:
        """As the manifest has them."""
        return {
            "edge_columns": list(self.ends),
            "edge_features": self.features,
            "edge_words": {encoder.name: list(encoder.categories) for encoder in self.encoders},
            "edge_type_column": self.type,
            "edge_time_column": self.time,
        }


def write_records(
    table: TableStream, columns: EdgeColumns, nodes: GraphStore, path: Path, scratch: Scratch, limit: int
) -> Manifest:
    """Writes a record for each edge, in the order of their rows, with the numbers of its nodes; and the nodes that rows
    name which cannot be read.

    Raises:
        DataError: two nodes have one name, or no row is an edge.
    """
    return with_float32_columns(
        lambda float32_columns: _write_records(table, columns, nodes, path, scratch, limit, float32_columns)
    )


def _write_records(
    table: TableStream,
    columns: EdgeColumns,
    nodes: GraphStore,
    path: Path,
    scratch: Scratch,
    limit: int,
    float32_columns: Float32Columns,
) -> Manifest:
    rejected, dtype, places = Rejections(), columns.record(nodes.num_nodes), LineRuns()
    lookup, lost = index_of(nodes, scratch), mapped_array((nodes.num_nodes,), np.bool_, scratch.folder)

    total = written = 0
    lacks_numbers = False
    with ExitStack() as exits, stage("edges") as current:
        joins_texts = isinstance(lookup, TextJoin)
        raw = exits.enter_context(scratch.files(1))[0] if joins_texts else exits.enter_context(FileWriter(path))
        for chunk in table.chunks(columns.all):
            places.add(chunk)
            records = _records(chunk, columns, dtype, rejected, float32_columns)
            lacks_numbers |= bool(columns.features) and bool(np.isnan(records["features"]).any())
            if isinstance(lookup, TextJoin):
                for side, column in enumerate(columns.ends):
                    lookup.look_up(chunk.texts(column), 2 * records["place"] + side)
            else:
                ends = _known(lookup, chunk, columns.ends, records["sender"] != UNREAD, nodes, rejected)
                records = _with_ends(records, ends.T, lost)

            raw.write(records)
            written += len(records)
            total = chunk.first + chunk.num_rows
            current.done = total

    float32_columns.check()
    if isinstance(lookup, TextJoin):
        matches, unknown = lookup.results(2 * total, limit, nodes.manifest["source"])
        listed = {row for row, *_ in rejected.first}
        for number, name in unknown:
            row = number // 2
            if row in listed:
                continue
            listed.add(row)
            reason = f"{name!r} is not a node of {nodes.manifest['source']}" if name else "the cell names no node"
            rejected.add(row, *places.place(row), (columns.ends[number % 2], name, reason))
        written = _joined(str(raw.path), dtype, matches, path, lost)

    rejected.count = total - written
    if not total:
        raise DataError(f"{table.name}: the table is empty, expected at least one row.")
    if not written:
        _, _, line, column, _, reason = sorted(rejected.first)[0]
        raise DataError(f"{table.name}, line {line}, column {column!r}: {reason}; none of the rows is an edge.")

    with ExitStack() as exits:
        arrays, lost_ends = NodeArrays(path.parent, "", exits), np.flatnonzero(lost)
        arrays.write("lost_ends", lost_ends)
        files = {"lost_ends": arrays.file("lost_ends", np.int64, lost_ends.shape)}
    record: Manifest = {
        **columns.to_json(),
        "num_rows": total,
        "num_records": written,
        "rejected_edges": rejected.to_json(),
        "incomplete_edges": _incomplete(path if lacks_numbers else None, dtype, columns, places).to_json(),
    }
    return {**record, "files": files}


def _incomplete(path: Path | None, dtype: np.dtype, columns: EdgeColumns, places: LineRuns) -> Rejections:
    """The written edges that lack numbers; None for a path says that none does."""
    incomplete = Rejections()
    for records in [] if path is None else read_pieces(str(path), dtype, PIECE):
        is_empty = np.isnan(records["features"])
        indices = np.flatnonzero(is_empty.any(axis=1)).tolist()
        listed = indices[: max(0, MAX_LISTED - incomplete.count)]
        for index in listed:
            row = int(records["place"][index])
            names = [columns.features[column] for column in np.flatnonzero(is_empty[index])]
            incomplete.add(row, *places.place(row), *((name, "", read_number("")[1]) for name in names))
        incomplete.count += len(indices) - len(listed)
    return incomplete


def _records(
    chunk: Chunk, columns: EdgeColumns, dtype: np.dtype, rejected: Rejections, float32_columns: Float32Columns
) -> np.ndarray:
    """The records of some rows without their ends; the sender of one that cannot be read is `UNREAD`. A feature may be
    NaN, where it is missing and a model fills it."""
    is_usable = np.ones(chunk.num_rows, dtype=bool)
    records = np.zeros(chunk.num_rows, dtype)
    records["place"] = np.arange(chunk.first, chunk.first + chunk.num_rows)

    numbers = [(("features", index), name) for index, name in enumerate(columns.features)]
    for target, name in [*numbers, *([("time", columns.time)] if columns.time else [])]:
        if isinstance(target, tuple):
            values, bad = float32_columns.numbers(chunk, str(name))
            records["features"][:, target[1]] = values
        else:
            records["time"], bad = chunk.numbers(str(name))
        for row, (cell, reason) in bad.items():
            if columns.imputes and isinstance(target, tuple) and is_missing(cell):
                continue
            if is_usable[row]:
                rejected.add(chunk.first + row, chunk.file, int(chunk.lines[row]), (str(name), cell, reason))
            is_usable[row] = False

    for index, encoder in enumerate(columns.encoders):
        texts = chunk.texts(encoder.name)
        codes = encoder.encode(texts, chunk.file)
        assert codes is not None
        records["words"][:, index] = codes
        empty = {code: cell for cell, code in encoder.categories.items() if is_missing(cell)}
        reason = "the edge lacks a type" if encoder.name == columns.type else "the cell is empty"
        for row in np.flatnonzero(np.isin(codes, [*empty])).tolist() if empty else ():
            if is_usable[row]:
                cell = empty[int(codes[row])]
                rejected.add(chunk.first + row, chunk.file, int(chunk.lines[row]), (encoder.name, cell, reason))
            is_usable[row] = False

    records["sender"][~is_usable] = UNREAD
    return records


def _with_ends(records: np.ndarray, ends: np.ndarray, lost: np.ndarray) -> np.ndarray:
    """The records that are edges, with their ends.

    Args:
        records: those of some rows, without their ends.
        ends: the nodes that they name, `(record, two)`, −1 where a name is unknown.
        lost: of each node, whether a row names it that is not an edge; those of these rows are set.
    """
    is_edge: np.ndarray = (records["sender"] != UNREAD) & (ends >= 0).all(axis=1)
    lost_ends = ends[~is_edge]
    lost[lost_ends[lost_ends >= 0]] = True
    records = records[is_edge]
    records["sender"], records["receiver"] = ends[is_edge].T
    return records


def _known(
    lookup: "RowIndex | NumberIndex",
    chunk: Chunk,
    ends: Sequence[str],
    is_usable: np.ndarray,
    nodes: GraphStore,
    rejected: Rejections,
) -> np.ndarray:
    """The nodes at both ends of some rows, `(two, row)`, −1 where a name is unknown; usable ones are rejected."""
    ends_of_edges = np.empty((2, len(is_usable)), np.int64)
    is_reported = ~is_usable
    for side, column in enumerate(ends):
        numbers = chunk.whole_numbers(column)
        if numbers is None:  # some are none, and no nodes
            values = [
                int(text) if len(text) < 19 and text.isdecimal() and str(int(text)) == text else -1
                for text in chunk.texts(column).to_pylist()
            ]
            numbers = np.array(values, np.int64)

        ends_of_edges[side] = lookup.rows(numbers)
        edge_rows = np.flatnonzero((ends_of_edges[side] < 0) & ~is_reported)
        is_reported[edge_rows] = True

        texts = chunk.texts(column).take(pa.array(edge_rows[:1000])).to_pylist()
        for row, name in zip(edge_rows.tolist(), [*texts, *[""] * max(0, len(edge_rows) - 1000)], strict=True):
            reason = f"{name!r} is not a node of {nodes.manifest['source']}" if name else "the cell names no node"
            rejected.add(chunk.first + row, chunk.file, int(chunk.lines[row]), (column, name, reason))

    return ends_of_edges


def _joined(raw: str, dtype: np.dtype, matches: Iterator[np.ndarray], path: Path, lost: np.ndarray) -> int:
    """Writes the records both ends of which are nodes, which come by their places; how many they are."""
    written = 0
    waiting = np.zeros(0, np.int64)
    with FileWriter(path) as file:
        for records in read_pieces(raw, dtype, PIECE):
            while len(waiting) < 2 * len(records):
                waiting = np.concatenate([waiting, next(matches)["row"]])
            ends, waiting = waiting[: 2 * len(records)].reshape(-1, 2), waiting[2 * len(records) :]
            records = _with_ends(records, ends, lost)
            file.write(records)
            written += len(records)
    return written


class RowIndex:
    """Nodes that are called by the numbers of their rows, from 0."""

    def __init__(self, count: int):
        self.count = count

    def rows(self, names: np.ndarray) -> np.ndarray:
        """The node of each name, −1 where there is none."""
        return np.where((names >= 0) & (names < self.count), names, -1)


def index_of(nodes: GraphStore, scratch: Scratch) -> RowIndex | NumberIndex | TextJoin:
    """The index of nodes by their names; raises DataError where two nodes share a name."""
    count, naming = nodes.num_nodes, nodes.manifest["names"]
    if naming == "rows":
        return RowIndex(count)
    smallest, largest = nodes.manifest["name_bounds"]
    if naming == "numbers" and NumberIndex.fits(count, smallest, largest):
        index, names = NumberIndex(largest, scratch.folder), nodes.array("names")
        for start in range(0, count, PIECE):
            if (twice := index.add(names[start : start + PIECE])) is not None:
                name, first, second = twice
                raise DataError(
                    f"{nodes.manifest['source']}: the node '{name}' is in rows {first + 1} and {second + 1}; "
                    "names must differ."
                )
        return index

    join = TextJoin(count, scratch)
    for start in range(0, count, PIECE // 4):
        stop = min(start + PIECE // 4, count)
        if naming == "numbers":
            texts = pa.array(nodes.array("names")[start:stop]).cast(pa.large_string())
        else:
            texts = texts_of(nodes.array("name_offsets"), nodes.array("name_letters"), start, stop)
        join.add(texts, np.arange(start, stop))

    return join


def write_mirrored(
    path: Path, out: Path, dtype: np.dtype, num_nodes: int, first: int, scratch: Scratch, limit: int
) -> int:
    """Writes missing reverse edges, as `Edges.undirected` adds them, and returns their number.

    The places of those that are added begin at `first`, after all rows.
    """
    count = 0
    keys = [
        Key(lambda records: np.minimum(records["sender"], records["receiver"]).astype(np.int64), num_nodes),
        Key(lambda records: np.maximum(records["sender"], records["receiver"]).astype(np.int64), num_nodes),
    ]
    with FileWriter(out) as file, stage("edges in the other direction") as current:
        for block in sorted_blocks([str(path)], dtype, keys, scratch, limit):
            pieces = list(block.pieces)
            if not pieces:
                continue
            records = np.concatenate(pieces)
            senders, receivers = (torch.from_numpy(records[name].astype(np.int64)) for name in ("sender", "receiver"))
            added = records[one_way(senders, receivers, num_nodes).numpy()]
            added["sender"], added["receiver"] = added["receiver"].copy(), added["sender"].copy()
            added["place"] += first
            file.write(added)
            count += len(added)
            current.done += len(records)

    return count


def write_incoming(
    paths: Sequence[Path],
    dtype: np.dtype,
    columns: EdgeColumns,
    num_nodes: int,
    folder: Path,
    scratch: Scratch,
    limit: int,
) -> Manifest:
    """Writes the edges by receiver, loops by themselves."""
    count = sum(path.stat().st_size // dtype.itemsize for path in paths)
    index = np.dtype(np.int32 if max(num_nodes, count) < INT32_LIMIT else np.int64)
    num_links = num_loops = 0
    with ExitStack() as exits, stage("edges by receiver", count) as current:
        arrays = NodeArrays(folder, "", exits)
        arrays.write("incoming_offsets", np.zeros(1, index))
        key = Key(lambda records: records["receiver"].astype(np.int64), num_nodes)
        for block in sorted_blocks([str(path) for path in paths], dtype, [key], scratch, limit, then="place"):
            counts = np.zeros(block.high - block.low, np.int64)
            first = num_links
            for records in block.pieces:
                is_loop = records["sender"] == records["receiver"]
                loops, links = records[is_loop], records[~is_loop]
                counts += np.bincount(links["receiver"] - block.low, minlength=len(counts))
                joined = np.stack([links["sender"], np.arange(num_links, num_links + len(links))], axis=1)
                arrays.write("incoming_links", joined.astype(index))
                arrays.write("loops", loops["receiver"].astype(np.int64))
                for name, pairs in (("edge", links), ("loop", loops)):
                    _write_known(arrays, name, pairs)
                num_links, num_loops = num_links + len(links), num_loops + len(loops)
                current.done += len(records)

            arrays.write("incoming_offsets", (first + np.cumsum(counts)).astype(index))

        files = {
            "incoming_offsets": arrays.file("incoming_offsets", index, (num_nodes + 1,)),
            "incoming_links": arrays.file("incoming_links", index, (num_links, 2)),
            "loops": arrays.file("loops", np.int64, (num_loops,)),
        }
        for name, size in (("edge", num_links), ("loop", num_loops)):
            if columns.features:
                shape = size, len(columns.features)
                files[f"{name}_features"] = arrays.file(f"{name}_features", np.float32, shape)
            if columns.encoders:
                files[f"{name}_words"] = arrays.file(f"{name}_words", np.int32, (size, len(columns.encoders)))
            if columns.time:
                files[f"{name}_times"] = arrays.file(f"{name}_times", np.float64, (size,))

    return {"num_edges": num_links + num_loops, "num_loops": num_loops, "files": files}


def _write_known(arrays: NodeArrays, name: str, records: np.ndarray) -> None:
    """Writes the features of some edges."""
    for column, field in (("features", "features"), ("words", "words"), ("times", "time")):
        if field in (records.dtype.names or ()):
            arrays.write(f"{name}_{column}", records[field])


def write_outgoing(store: GraphStore, folder: Path, scratch: Scratch, limit: int) -> dict[str, FileRecord]:
    """Writes the edges by sender, each with its position among those by receiver."""
    offsets, links, num_nodes = store.array("incoming_offsets"), store.array("incoming_links"), store.num_nodes
    index = links.dtype
    dtype = np.dtype([("sender", index), ("receiver", index), ("place", index)])

    num_links = len(links)
    with ExitStack() as exits, stage("edges by sender", num_links) as current:
        with scratch.files(1) as (raw,):
            for start in range(0, num_links, PIECE):
                stop = min(start + PIECE, num_links)
                records = np.empty(stop - start, dtype)
                positions = np.arange(start, stop, dtype=index)  # of another type, numpy would copy all offsets
                records["sender"], records["place"] = links[start:stop, 0], positions
                records["receiver"] = np.searchsorted(offsets, positions, side="right") - 1
                raw.write(records)

        arrays = NodeArrays(folder, "", exits)
        arrays.write("outgoing_offsets", np.zeros(1, index))
        first = 0

        key = Key(lambda records: records["sender"].astype(np.int64), num_nodes)
        for block in sorted_blocks([str(raw.path)], dtype, [key], scratch, limit):
            counts = np.zeros(block.high - block.low, np.int64)
            for records in block.pieces:
                counts += np.bincount(records["sender"] - block.low, minlength=len(counts))
                arrays.write("outgoing_links", np.stack([records["receiver"], records["place"]], axis=1))
                current.done += len(records)
            ends = first + np.cumsum(counts)
            first = int(ends[-1]) if len(ends) else first
            arrays.write("outgoing_offsets", ends.astype(index))

        return {
            "outgoing_offsets": arrays.file("outgoing_offsets", index, (num_nodes + 1,)),
            "outgoing_links": arrays.file("outgoing_links", index, (num_links, 2)),
        }
