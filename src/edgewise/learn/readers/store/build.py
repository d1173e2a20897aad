"""Builds a store in stages; an interrupted build continues after the last finished stage.

nodes       names, features, columns                       nodes → arrays
edges       a record for each row, with the numbers of its nodes
mirrored    the other way of each edge that has none
incoming    edges by receiver, with what is known of them
outgoing    edges by sender
"""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path

import numpy as np

from edgewise.errors import DataError, WriteError, plural
from edgewise.learn.files import Scratch, remove_parts, write_bytes
from edgewise.learn.readers.graphs.edges import AS_FEATURES, note_of_unused
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.readers.store.edges import (
    EdgeColumns,
    write_incoming,
    write_mirrored,
    write_outgoing,
    write_records,
)
from edgewise.learn.readers.store.layout import (
    FORMAT,
    MANIFEST,
    OWN,
    STATE,
    VERSION,
    Config,
    FileRecord,
    FileState,
    GraphStore,
    Manifest,
    State,
    again,
    is_ours,
    is_store,
    read_state,
    write_manifest,
)
from edgewise.learn.readers.store.nodes import write_nodes
from edgewise.learn.readers.store.settings import StoreSettings
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.options import current_format
from edgewise.learn.tables.stream import TableStream

MEGABYTE = 2**20
RECORDS = ("edges", "mirrored")
"""Files that only later stages read, and that are removed at the end."""
UNREAD_CELL = "a cell that cannot be read"


class Build:
    """A store that is being built.

    Args:
        folder: where it goes; no other process may write there meanwhile.
        nodes: the table of nodes: a file, a folder of files or a pattern.
        edges: the table of edges.
        columns: the roles of the columns of nodes.
        source: those of the columns of edges, and whether these go one way.
        settings: how numbers are stored.
        words: of the command, for messages.
        overwrite: whether another store in the folder is replaced.

    Raises:
        DataError: a table cannot be used, or the folder holds something else, or a store of other tables or settings.
        WriteError: a file cannot be written.
    """

    def __init__(
        self,
        folder: Path,
        nodes: str,
        edges: str,
        columns: Columns,
        source: GraphSource,
        settings: StoreSettings,
        *,
        words: Sequence[str] = (),
        overwrite: bool = False,
    ):
        self.folder, self.settings, self.columns, self.source = folder, settings, columns, source
        self.nodes, self.edges = TableStream(nodes), TableStream(edges)
        self.edge_columns = self._edge_columns()
        self.limit = settings.memory * MEGABYTE // 8  # sorting takes a block, its order and what is written
        started = self._new_state(words)
        self.state = self._checked(started, overwrite)
        if not self.state["stages"]:
            self._begin()

        self.resumed = bool(self.state["stages"])

    def _new_state(self, words: Sequence[str]) -> State:
        """The state of a new store."""
        config: Config = {
            "columns": asdict(self.columns),
            "graph": asdict(self.source),
            "dtype": self.settings.dtype,
            "edge_time_column": self.settings.edge_time_column,
            "table": asdict(current_format()),
        }
        return {
            "format": FORMAT,
            "version": VERSION,
            "words": list(words),
            "tables": self._tables(),
            "config": json.loads(json.dumps(config)),
            "stages": {},
            "seconds": {},
        }

    def _tables(self) -> list[FileState]:
        """The files of the tables: path, size, time of the last change."""
        infos = [(path, Path(path).stat()) for path in (*self.nodes.paths, *self.edges.paths)]
        return [[path, info.st_size, info.st_mtime_ns] for path, info in infos]

    def _checked(self, started: State, overwrite: bool) -> State:
        """The state to go on from."""
        if not self.folder.exists():
            return started
        if not is_store(self.folder):
            if others := sorted(path.name for path in self.folder.iterdir() if not path.name.startswith(".edgewise-")):
                raise DataError(
                    f"{self.folder} is not a store and holds {', '.join(others[:3])}; choose an empty or a new folder "
                    "with "
                    "-o."
                )
            return started

        written = [path for name in (MANIFEST, STATE) if (path := self.folder / name).is_file()]
        if foreign := [path.name for path in written if not is_ours(path)]:
            raise DataError(
                f"{self.folder} holds {foreign[0]}, which edgewise prepare did not write; move it away, or choose "
                "another folder with -o."
            )
        if overwrite:
            return started
        if not (self.folder / STATE).is_file():
            raise DataError(
                f"{self.folder} holds a finished store; choose another folder with -o, or replace it with --overwrite."
            )

        state = read_state(self.folder)
        if state.get("version") != VERSION:
            raise DataError(
                f"{self.folder} was started by another version of Edgewise, or its {STATE} is damaged; start again "
                "with --overwrite."
            )

        other = "other settings" if state.get("config") != started["config"] else ""
        if changed := changed_files(state.get("tables", []), started["tables"]):
            other = other or f"other tables, or they have changed since: {changed}"
        if other:
            raise DataError(
                f"{self.folder} was started with {other}; start again with --overwrite, or go on with: "
                f"{again(self.folder, state)}"
            )

        return {**started, "stages": state.get("stages", {}), "seconds": state.get("seconds", {})}

    def _begin(self) -> None:
        """Makes the folder, and removes the store that was there."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            self._save()  # first, so that what a kill leaves is known for an unfinished store
            store_files = [path for path in self.folder.iterdir() if OWN.fullmatch(path.name)]
            for path in (self.folder / MANIFEST, *store_files):
                path.unlink(missing_ok=True)
        except OSError as error:
            raise error if isinstance(error, WriteError) else WriteError(self.folder, error) from error

    def _save(self) -> None:
        write_bytes(self.folder / STATE, (json.dumps(self.state, indent=1) + "\n").encode())

    def run(self) -> GraphStore:
        """Goes through the stages that are left; the finished store."""
        remove_parts(self.folder)
        self._stage("nodes", self._nodes)
        with_mirrored = not self.source.directed
        self._stage("edges", lambda scratch: self._records(scratch))
        if with_mirrored:
            self._stage("mirrored", self._mirrored)

        self._stage("incoming", self._incoming)
        self._stage("outgoing", self._outgoing)
        if changed := changed_files(self.state["tables"], self._tables()):
            raise DataError(f"{changed} changed while the tables were read; start again with --overwrite.")

        state = self.state
        manifest: Manifest = {"format": state["format"], "version": state["version"], "words": state["words"]}
        manifest |= {"tables": state["tables"], "config": state["config"], "seconds": state["seconds"]}
        manifest |= self._written()
        for record in manifest["files"].values():
            record["written"] = (self.folder / record["name"]).stat().st_mtime_ns
        write_manifest(self.folder, manifest)
        for path in (*(self._path(name) for name in RECORDS), self.folder / STATE):
            path.unlink(missing_ok=True)

        return GraphStore(self.folder)

    def _stage(self, name: str, work: Callable[[Scratch], Manifest]) -> None:
        """One stage, unless it is done."""
        if name in self.state["stages"]:
            return
        started = time.perf_counter()
        with Scratch(self.folder) as scratch:
            self.state["stages"][name] = work(scratch)
        self.state["seconds"][name] = round(time.perf_counter() - started, 2)
        self._save()

    def _path(self, name: str) -> Path:
        return self.folder / f"records_{name}.bin"

    def _finished(self, name: str, dtype: np.dtype) -> Path:
        """The records that an earlier stage wrote; raises DataError where they are not all there."""
        path, stage = self._path(name), self.state["stages"][name]
        expected = (stage["num_records"] if name == "edges" else stage["num_mirrored"]) * dtype.itemsize
        if not path.is_file() or path.stat().st_size != expected:
            raise DataError(f"{path} is missing, or was cut off or changed; start again with --overwrite.")
        return path

    @property
    def _store(self) -> GraphStore:
        """The store with the stages that are finished."""
        return GraphStore(self.folder, self._written())

    def _written(self) -> Manifest:
        """What the finished stages have written."""
        manifest: Manifest = {}
        files: dict[str, FileRecord] = {}
        for record in self.state["stages"].values():
            manifest |= record
            files |= record.get("files", {})
        return {**manifest, "files": files}

    def _nodes(self, _: Scratch) -> Manifest:
        record = write_nodes(self.nodes, self.columns, self.folder, self.settings.dtype)
        return {**record, "source": self.nodes.name}

    def _edge_columns(self) -> EdgeColumns:
        time = self.settings.edge_time_column
        return EdgeColumns(self.edges, self.source, time, imputes=self.columns.imputes)

    def _records(self, scratch: Scratch) -> Manifest:
        return write_records(self.edges, self._edge_columns(), self._store, self._path("edges"), scratch, self.limit)

    def _mirrored(self, scratch: Scratch) -> Manifest:
        count = self._store.num_nodes
        dtype = self.edge_columns.record(count)
        paths = self._finished("edges", dtype), self._path("mirrored")
        first = self.state["stages"]["edges"]["num_rows"]
        return {"num_mirrored": write_mirrored(*paths, dtype, count, first, scratch, self.limit)}

    def _incoming(self, scratch: Scratch) -> Manifest:
        count = self._store.num_nodes
        dtype = self.edge_columns.record(count)
        paths = [self._finished(name, dtype) for name in RECORDS if name in self.state["stages"]]
        return write_incoming(paths, dtype, self.edge_columns, count, self.folder, scratch, self.limit)

    def _outgoing(self, scratch: Scratch) -> Manifest:
        return {"files": write_outgoing(self._store, self.folder, scratch, self.limit)}

    def summary(self, store: GraphStore) -> list[str]:
        """A summary of the store in a few lines."""
        size = sum(stored_file.size for stored_file in store.files.values())
        lines = [
            f"{store.folder}: {plural(store.num_nodes, 'node')}, {plural(store.num_edges, 'edge')}, {store.ways}; "
            f"{plural(len(store.features), 'feature')} of a node in {store.feature_dtype}; {size / 1e6:,.1f} MB"
        ]
        kept = [name for name, words in store.words.items() if words] + list(store.manifest["numbers"])
        lines += [f"  columns that are kept beside the features: {', '.join(kept)}"] if kept else []

        dropped = [name for name, words in store.words.items() if not words and name not in store.features]
        if dropped:
            lines.append(
                f"  {', '.join(dropped)}: words with too many different values, not kept; name a column to keep it, "
                "such as with --target-columns"
            )

        unused = [name for name in self.edges.columns if name not in self.edge_columns.all]
        lines += [f"  {line}" for line in note_of_unused(unused, f"{AS_FEATURES}, times with --edge-time-column")]
        for problems, one, many in (
            (store.manifest["incomplete_nodes"], "node lacks a number", "nodes lack numbers"),
            (store.manifest["rejected_nodes"], f"node has {UNREAD_CELL}", f"nodes have {UNREAD_CELL}"),
            (store.manifest["incomplete_edges"], "edge lacks a number", "edges lack numbers"),
            (
                store.manifest["rejected_edges"],
                f"row of the edges has {UNREAD_CELL}",
                f"rows of the edges have {UNREAD_CELL}",
            ),
        ):
            if problems["count"]:
                _, file, line, column, _, reason = problems["first"][0]
                description = plural(problems["count"], one, many)
                lines.append(f"  {description}, the first in {file}, line {line}, column {column!r}: {reason}")

        return lines


def changed_files(before: Sequence[FileState], now: Sequence[FileState]) -> str:
    """The files that differ in two lists of them, as words; empty where none does."""
    pairs = [pair for pair in zip_longest(before, now) if pair[0] != pair[1]]
    return ", ".join(dict.fromkeys(str(file[0]) for pair in pairs for file in pair if file))
