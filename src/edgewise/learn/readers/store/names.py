"""From the names of nodes to their numbers, for more names than fit into memory."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from edgewise.errors import DataError
from edgewise.learn.files import Scratch, ScratchFile, mapped_array
from edgewise.learn.readers.store.sort import Key, sorted_blocks
from edgewise.learn.tables.cell import joined, pa
from edgewise.learn.tables.read import pd

SPREAD = 8
"""Integers are dense where their range is at most this many times their count."""
SPARE = 1024
NAMES_OF_FILE = 2**21
"""Names that are looked up together, about."""
FOUND = np.dtype([("place", "<i8"), ("row", "<i8")])


class NumberIndex:
    """Nodes whose names are dense integers: a lookup table, mapped into memory.

    Args:
        largest: of the names.
        folder: on whose disk the table is.
    """

    def __init__(self, largest: int, folder: Path):
        self.table = mapped_array((largest + 1,), np.int64, folder)
        self.count = 0

    @staticmethod
    def fits(count: int, smallest: int, largest: int) -> bool:
        """Whether the names are dense enough."""
        return smallest >= 0 and largest < SPREAD * count + SPARE

    def add(self, names: np.ndarray) -> tuple[int, int, int] | None:
        """Adds the names of the next nodes; returns a repeated name and its two nodes, or None."""
        distinct, first = np.unique(names, return_index=True)
        earlier = self.table[names]
        if earlier.any():
            row = int(np.flatnonzero(earlier)[0])
            return int(names[row]), int(earlier[row]) - 1, self.count + row
        if len(distinct) < len(names):
            is_first = np.zeros(len(names), dtype=bool)
            is_first[first] = True
            row = int(np.flatnonzero(~is_first)[0])
            return int(names[row]), self.count + int(np.flatnonzero(names == names[row])[0]), self.count + row
        self.table[names] = np.arange(self.count, self.count + len(names)) + 1
        self.count += len(names)
        return None

    def rows(self, names: np.ndarray) -> np.ndarray:
        """The node of each name, −1 where there is none."""
        inside = (names >= 0) & (names < len(self.table))
        return np.where(inside, self.table[np.where(inside, names, 0)], 0) - 1


class TextJoin:
    """A join of names and nodes on disk: names and lookups are partitioned by a hash, and joined file by file.

    Args:
        count: how many names there are.
        scratch: where files are put.
    """

    schema = pa.schema([("name", pa.large_string()), ("place", pa.int64())])

    def __init__(self, count: int, scratch: Scratch):
        self.num_files = max(1, -(-count // NAMES_OF_FILE))
        self.scratch, self.exits = scratch, ExitStack()
        self.names, self.lookups = (self._open() for _ in range(2))

    def _open(self) -> list[tuple[ScratchFile, "pa.RecordBatchStreamWriter"]]:
        files = self.exits.enter_context(self.scratch.files(self.num_files))
        writers = [pa.ipc.new_stream(pa.PythonFile(file, "w"), self.schema) for file in files]
        return list(zip(files, writers, strict=True))

    def add(self, names: "pa.Array | pa.ChunkedArray", places: np.ndarray) -> None:
        """Adds the names of nodes and their numbers."""
        self._deal(self.names, names, places)

    def look_up(self, names: "pa.Array | pa.ChunkedArray", places: np.ndarray) -> None:
        """Adds names to look up, and a number for each, by which the results are sorted."""
        self._deal(self.lookups, names, places)

    def _deal(
        self,
        files: list[tuple[ScratchFile, "pa.RecordBatchStreamWriter"]],
        names: "pa.Array | pa.ChunkedArray",
        places: np.ndarray,
    ) -> None:
        texts = joined(names)
        encoded = texts.dictionary_encode()
        words = np.array([*encoded.dictionary.to_pylist(), None], dtype=object)[:-1]
        hashes = pd.util.hash_array(words, categorize=False) if len(words) else np.zeros(0, np.uint64)

        of_row = (hashes % np.uint64(self.num_files))[encoded.indices.to_numpy()]
        for number in range(self.num_files):
            rows = np.flatnonzero(of_row == number)
            if len(rows):
                part = [texts.take(pa.array(rows)), pa.array(places[rows])]
                files[number][1].write_batch(pa.record_batch(part, schema=self.schema))

    def results(self, bound: int, limit: int, source: str) -> tuple[Iterator[np.ndarray], list[tuple[int, str]]]:
        """The node of each looked-up name, −1 where unknown, sorted by number; and the first unknown names.

        Args:
            bound: all numbers are below it.
            limit: bytes that sorting may hold.
            source: the table of nodes, for messages.

        Raises:
            DataError: two nodes have one name.
        """
        for _, writer in (*self.names, *self.lookups):
            writer.close()
        self.exits.close()

        unknown: list[tuple[int, str]] = []
        with self.scratch.files(1) as (match_file,):
            for names, requests in zip(self.names, self.lookups, strict=True):
                names_of_part = self._read(names[0])
                self._check_distinct(names_of_part, source)
                among = names_of_part.column("name").combine_chunks()
                for batch in self._batches(requests[0]):
                    position = pa.compute.index_in(batch.column("name"), among).fill_null(-1).to_numpy()
                    rows = (
                        names_of_part.column("place").to_numpy()[position]
                        if len(names_of_part)
                        else position.astype(np.int64)
                    )
                    matches = np.empty(len(position), FOUND)
                    matches["place"], matches["row"] = (
                        batch.column("place").to_numpy(),
                        np.where(position < 0, -1, rows),
                    )
                    match_file.write(matches)

                    if len(unknown) < SPARE:
                        for row in np.flatnonzero(position < 0)[:SPARE].tolist():
                            unknown.append((int(matches["place"][row]), batch.column("name")[row].as_py()))

                names[0].remove()
                requests[0].remove()

        key = Key(lambda records: records["place"], bound)
        blocks = sorted_blocks([str(match_file.path)], FOUND, [key], self.scratch, limit)
        return (piece for block in blocks for piece in block.pieces), sorted(unknown)

    def _check_distinct(self, names_of_part: "pa.Table", source: str) -> None:
        counts = pa.compute.value_counts(names_of_part.column("name").combine_chunks())
        twice = counts.filter(pa.compute.greater(counts.field("counts"), 1)) if len(counts) else counts
        if len(twice):
            name = twice[0]["values"].as_py()
            rows = (
                names_of_part.filter(pa.compute.equal(names_of_part.column("name"), name)).column("place").to_pylist()
            )
            raise DataError(
                f"{source}: the node {name!r} is in rows {rows[0] + 1} and {rows[1] + 1}; names must differ."
            )

    def _read(self, file: ScratchFile) -> "pa.Table":
        with pa.OSFile(str(file.path)) as content:
            return pa.ipc.open_stream(content).read_all()

    def _batches(self, file: ScratchFile) -> Iterator["pa.RecordBatch"]:
        with pa.OSFile(str(file.path)) as content:
            yield from pa.ipc.open_stream(content)
