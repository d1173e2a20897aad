"""The files of a store, their contents and their checksums."""

import hashlib
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NotRequired, TypeAlias, TypedDict

import numpy as np
import torch

from edgewise.errors import DataError
from edgewise.learn.files import JsonObject, parse_json, write_bytes
from edgewise.learn.progress import counted

MANIFEST, STATE = "store.json", "prepare.json"
"""The list of files of a finished store, written last; and how far a store is that is not finished."""
FORMAT, VERSION = "edgewise graph store", 1

UNREADABLE, COMPLETE, INCOMPLETE = 0, 1, 2
"""What the features of a node are: one cannot be read, all are there, or some are empty cells and the others there.

Of numbers that cannot be read, `bad_rows` and `bad_columns` say which these are, in the order of the nodes: columns are
counted as in `GraphStore.number_columns`."""
OWN = re.compile(
    r"(features|usable|bad_rows|bad_columns|line_runs|names|name_offsets|name_letters|loops|lost_ends|(words|numbers)_\d+"
    r"|(incoming|outgoing)_(offsets|links)"
    r"|(edge|loop)_(features|words|times)|records_(edges|mirrored))\.bin"
)
"""Names of the files of a store: no other file is ever removed."""
_BLOCK = 2**22


FileState: TypeAlias = list[str | int]
"""A file of a table: its path, its size, and the time of its last change."""


class FileRecord(TypedDict):
    """The entry of a file; see `StoreFile`."""

    name: str
    dtype: str
    shape: Sequence[int]
    sha256: str
    written: NotRequired[int | None]


class RejectedRecord(TypedDict):
    """Rows with cells that cannot be read."""

    count: int
    first: list[tuple[int, str, int, str, str, str]]
    """The first of the cells: the row, its file and line, the column, the cell, and what is wrong with it."""


class Config(TypedDict):
    """What a store was made with, as JSON has it."""

    columns: JsonObject
    graph: JsonObject
    dtype: str
    edge_time_column: str | None
    table: JsonObject


class Manifest(TypedDict, total=False):
    """What a store holds; of an unfinished one, what its stages have written so far."""

    format: str
    version: int
    byteorder: str
    sha256: str
    words: list[str]
    """The command that has made it."""
    tables: list[FileState]
    config: Config
    seconds: dict[str, float]
    """The time of each stage."""
    source: str
    """The table of nodes."""
    num_nodes: int
    node_files: list[str]
    """Its files, to which `line_runs` refers; left out by earlier versions, as that file is."""
    features: list[str]
    feature_dtype: str
    nonzero: list[int]
    """Of each feature, how many nodes have one that is not 0."""
    least: list[float | None]
    """The least of them that is not 0; None without any."""
    columns: dict[str, list[str]]
    """The different cells of each column that is kept as words."""
    numbers: list[str]
    """The columns that are kept as numbers."""
    names: str
    """What names are: the numbers of `rows`, `numbers` or `texts`."""
    name_bounds: list[int]
    name_column: str | None
    rejected_nodes: RejectedRecord
    incomplete_nodes: RejectedRecord
    """Nodes with empty cells among their features, and no other flaw."""
    places: dict[str, int]
    """The place of each column in the table."""
    edge_columns: list[str]
    edge_features: list[str]
    edge_words: dict[str, list[str]]
    edge_type_column: str | None
    edge_time_column: str | None
    num_rows: int
    """Rows of the table of edges."""
    num_records: int
    """Those that are edges."""
    rejected_edges: RejectedRecord
    incomplete_edges: RejectedRecord
    """Edges with empty cells among their features, and no other flaw."""
    num_mirrored: int
    """Edges that were added for the other way; left out where edges are one way."""
    num_edges: int
    num_loops: int
    files: dict[str, FileRecord]


class State(TypedDict, total=False):
    """How far a store is; empty where nothing is known of it."""

    format: str
    version: int
    words: list[str]
    tables: list[FileState]
    config: Config
    stages: dict[str, Manifest]
    seconds: dict[str, float]


@dataclass(frozen=True)
class StoreFile:
    """A file that holds one contiguous array."""

    name: str
    """Its name in the folder."""
    dtype: str
    """The type of its numbers, as numpy names it."""
    shape: tuple[int, ...]
    """The shape of the array."""
    sha256: str
    """The checksum of its bytes."""
    written: int | None = None
    """When it was last changed, in nanoseconds, as the file system had it when the store was finished."""

    @classmethod
    def of(cls, record: FileRecord) -> "StoreFile":
        """A file out of its entry in a manifest."""
        return cls(record["name"], record["dtype"], tuple(record["shape"]), record["sha256"], record.get("written"))

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return int(np.prod(self.shape, dtype=np.int64)) * np.dtype(self.dtype).itemsize


class GraphStore:
    """A graph in a folder, every array of which is mapped into memory when it is first read.

    A file that was changed or copied since the store was finished is compared with its checksum then: what the kernels
    read of it is not checked again.

    Args:
        folder: a finished store.
        manifest: the list of its files; None reads it.

    Raises:
        DataError: it is none, is not finished, is newer than can be read, or a file is missing or too short.
    """

    def __init__(self, folder: str | Path, manifest: Manifest | None = None):
        self.folder = Path(folder)
        self.manifest = read_manifest(self.folder) if manifest is None else manifest
        listed = self.manifest["files"].items()
        self.files = {name: StoreFile.of(record) for name, record in listed}
        self.num_nodes = self.manifest["num_nodes"]
        self.num_edges = self.manifest.get("num_edges", 0)
        self.features = tuple(self.manifest["features"])
        self.feature_dtype = self.manifest["feature_dtype"]
        self.words = {name: tuple(words) for name, words in self.manifest["columns"].items()}
        for file in self.files.values():
            check_size(self.folder, file)
        self._arrays: dict[str, np.ndarray] = {}

    def array(self, name: str) -> np.ndarray:
        """An array, mapped.

        Raises:
            DataError: its file is not what was written.
        """
        if name not in self._arrays:
            file = self.files[name]
            if (self.folder / file.name).stat().st_mtime_ns != file.written:
                check_content(self.folder, file)
            self._arrays[name] = mapped(self.folder / file.name, file)
        return self._arrays[name]

    @property
    def is_directed(self) -> bool:
        """Whether edges are one way, as the table has them."""
        return "num_mirrored" not in self.manifest

    @property
    def ways(self) -> str:
        """How edges go, in words."""
        if self.is_directed:
            return "one way each"
        return f"both ways, {self.manifest['num_mirrored']:,} of them added for it"

    def has(self, name: str) -> bool:
        """Whether there is such an array."""
        return name in self.files

    def feature_rows(self, rows: np.ndarray, columns: np.ndarray, *, keeps_missing: bool = False) -> np.ndarray:
        """Some features of some nodes, float32, `(row, feature)`; 0 where a cell could not be read, or was empty.

        Args:
            rows: the nodes.
            columns: the features, counted from 0.
            keeps_missing: leave NaN where a cell was empty.
        """
        features = self._feature_rows(rows, columns)
        is_unread = np.isnan(features)
        if keeps_missing and is_unread.any():
            is_unread &= self.bad_numbers(rows, columns)
        features[is_unread] = 0
        return features

    @property
    def number_columns(self) -> list[str]:
        """The columns of numbers: those of features, then those with another role."""
        return list(dict.fromkeys([*self.features, *self.manifest["numbers"]]))

    def bad_numbers(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Which numbers of some nodes could not be read, bool, `(row, column)`; empty cells are not among them.

        Args:
            rows: the nodes.
            columns: places in `number_columns`.
        """
        bad_rows = self.array("bad_rows")
        starts = np.searchsorted(bad_rows, rows)
        counts = np.searchsorted(bad_rows, rows, side="right") - starts
        lines = np.repeat(np.arange(len(rows)), counts)
        cells = np.repeat(starts - np.cumsum(counts) + counts, counts) + np.arange(len(lines))
        is_bad = np.zeros((len(rows), len(self.number_columns)), bool)
        is_bad[lines, self.array("bad_columns")[cells]] = True
        return is_bad[:, columns]

    def unread_features(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        """Which features of some nodes could not be read, or were empty, bool, `(row, feature)`."""
        return np.isnan(self._feature_rows(rows, columns))

    def _feature_rows(self, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
        features = self.array("features")[rows]
        if len(columns) != features.shape[1] or bool((columns != np.arange(features.shape[1])).any()):
            features = features[:, columns]
        if self.feature_dtype == "bfloat16":
            return torch.from_numpy(features.view(np.int16)).view(torch.bfloat16).float().numpy()
        return features.astype(np.float32, copy=False)


class _Address:
    """The place of an array in memory, for numpy."""

    def __init__(self, array: np.ndarray):
        self.array = array  # stays as long as what is made from its place
        self.__array_interface__: dict[str, object] = {**array.__array_interface__}
        self.__array_interface__["data"] = (array.__array_interface__["data"][0], False)


def mapped(path: Path, file: StoreFile) -> np.ndarray:
    """An array in a file, mapped into memory.

    numba compiles functions anew for arrays that are read-only, and torch warns of them: this one does not say so. The
    pages are read-only all the same, and nothing in the package writes to them.
    """
    if not file.size:
        return np.zeros(file.shape, file.dtype)
    return np.asarray(_Address(np.memmap(path, file.dtype, "r", shape=file.shape)))


def is_store(path: str | Path) -> bool:
    """Whether a path is a folder that holds a store, finished or not."""
    return any((Path(path) / name).is_file() for name in (MANIFEST, STATE))


def is_ours(path: Path) -> bool:
    """Whether `edgewise prepare` wrote a file that has the name of a manifest or a state, damaged or not."""
    return FORMAT.encode() in path.read_bytes()


def again(folder: Path, state: State) -> str:
    """The command that builds a store, or goes on with it."""
    import shlex

    return shlex.join(["edgewise", "prepare", *state.get("words", ["NODES", "EDGES", "-o", str(folder)])])


def read_manifest(folder: Path) -> Manifest:
    """The list of the files of a finished store; raises DataError where there is none that can be read."""
    path = folder / MANIFEST
    try:
        content: Manifest = parse_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        if (folder / STATE).is_file():
            raise DataError(
                f"{folder} is a store that is not finished; go on with: {again(folder, read_state(folder))}"
            ) from None
        raise DataError(f"{folder} is not a store: {MANIFEST} is missing; make one with edgewise prepare.") from None
    except (ValueError, RecursionError) as error:
        raise DataError(f"{path} is damaged ({error}); make the store again: edgewise prepare --overwrite.") from error

    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise DataError(f"{path} is not the list of files of a store.")
    if type(content.get("version")) is not int or content["version"] > VERSION:
        raise DataError(
            f"{path} has version {content.get('version')!r}, this Edgewise reads up to {VERSION}; upgrade it: "
            "pip install --upgrade edgewise"
        )
    if content.pop("sha256", None) != _digest(content):
        raise DataError(
            f"{path} is damaged: its checksum is not the one that was written; bring it back, or make the store again: "
            "edgewise prepare --overwrite."
        )
    if content["byteorder"] != sys.byteorder:
        raise DataError(
            f"{folder} was made on a machine that writes numbers {content['byteorder']} end first, and this one does "
            "not; make the store again on this machine: edgewise prepare."
        )

    return content


def write_manifest(folder: Path, content: Manifest) -> None:
    """Writes the list of the files of a store, with a checksum of its own."""
    content = content | {"byteorder": sys.byteorder}
    text = json.dumps({**content, "sha256": _digest(content)}, indent=1)
    write_bytes(folder / MANIFEST, (text + "\n").encode())


def _digest(content: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def read_state(folder: Path) -> State:
    """The state of an unfinished store; empty where the file is missing or damaged."""
    try:
        content: State = json.loads((folder / STATE).read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def check_size(folder: Path, file: StoreFile) -> None:
    """Raise DataError where a file is missing, or has another size than was written."""
    path = folder / file.name
    try:
        size = path.stat().st_size
    except OSError as error:
        raise DataError(
            f"{path} is missing ({error.strerror}); bring it back, or make the store again: edgewise prepare "
            "--overwrite."
        ) from error
    if size != file.size:
        raise DataError(
            f"{path} has {size:,} bytes, expected {file.size:,}: it was cut off or changed; bring it back, or make the "
            "store again: edgewise prepare --overwrite."
        )


def check_content(folder: Path, file: StoreFile) -> None:
    """Raise DataError where the content of a file is not what was written."""
    if digest_of(folder / file.name) != file.sha256:
        raise DataError(
            f"{folder / file.name} is damaged: its checksum is not the one that was written; bring it back, or make "
            f"the store again: edgewise prepare --overwrite. edgewise verify {folder} checks all files."
        )


def verify(folder: str | Path) -> GraphStore:
    """Reads every file of a store and compares its checksum.

    Raises:
        DataError: a file is missing, or is not what was written; the message names it.
    """
    store = GraphStore(folder)
    for file in counted(list(store.files.values()), "verifying"):
        check_content(store.folder, file)
    return store


def digest_of(path: Path) -> str:
    """The SHA-256 of a file."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK):
            digest.update(block)
    return digest.hexdigest()
