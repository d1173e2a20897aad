"""The features of molecules that were read before, on disk: RDKit's descriptors take milliseconds for each molecule.

One SQLite file, `edgewise-molecules.sqlite`, in the cache folder of the user or in `EDGEWISE_CACHE`; an empty
`EDGEWISE_CACHE` switches it off. Nothing depends on it: the callers of `FeatureCache` suppress `CACHE_ERRORS`, and
compute what is not read.
"""

import contextlib
import hashlib
import os
import sqlite3
import zlib
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import safetensors.numpy
from jaxtyping import Float64
from safetensors import SafetensorError

from edgewise.learn.readers.molecules import descriptor, feature, molecule
from edgewise.learn.readers.molecules.descriptor import DESCRIPTOR_NAMES
from edgewise.learn.readers.molecules.feature import MoleculeArrays

ENVIRONMENT_VARIABLE = "EDGEWISE_CACHE"
MAX_BYTES = 1 << 30
"""The largest size of the file, with some 700,000 molecules; beyond it the cache starts over."""
APPLICATION_ID = 0x45644765
"""Marks a database as ours; one of something else is left alone."""
CACHE_ERRORS = (OSError, sqlite3.Error, RuntimeError, UnicodeError)
"""What opening, reading or writing a damaged file raises. UnicodeError: sqlite3 decodes the names of a damaged schema
for its message, and fails. RuntimeError: a home folder that is unknown."""
Stored = tuple[str, MoleculeArrays, Float64[np.ndarray, " feature"]]
"""The canonical SMILES, atoms and bonds, and the descriptors of a molecule."""


class FeatureCache:
    """Features by the SMILES that they were computed from.

    Args:
        path: the file; made where it is missing.
    """

    def __init__(self, path: Path):
        path.parent.mkdir(parents=True, exist_ok=True)
        # Molecules may be confidential: only the user may read the file.
        path.touch(mode=0o600)
        self.connection = sqlite3.connect(path, timeout=1.0)
        application, version, pages, free_pages, page_size = (
            int(self.connection.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("application_id", "user_version", "page_count", "freelist_count", "page_size")
        )
        if pages and application != APPLICATION_ID:
            raise sqlite3.DatabaseError(f"{path} is a database of something else")

        with self.connection:
            self.connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            if version != _version() or (pages - free_pages) * page_size > MAX_BYTES:
                self.connection.execute("DROP TABLE IF EXISTS molecules")
                self.connection.execute(f"PRAGMA user_version = {_version()}")
            self.connection.execute("CREATE TABLE IF NOT EXISTS molecules (key BLOB PRIMARY KEY, content BLOB)")

    def read(self, smiles: Sequence[str]) -> dict[str, Stored]:
        """The cached features of some molecules; raises one of `CACHE_ERRORS` where the file is damaged."""
        text_of_key = {_key(text): text for text in smiles}
        question_marks = ", ".join("?" * len(text_of_key))
        query = f"SELECT key, content FROM molecules WHERE key IN ({question_marks})"
        found = self.connection.execute(query, list(text_of_key))
        # A damaged index gives keys that were not looked for.
        features = {text_of_key[key]: _unpacked(content) for key, content in found if key in text_of_key}
        return {text: stored for text, stored in features.items() if stored is not None}

    def write(self, molecules: dict[str, Stored]) -> None:
        """Adds some molecules; raises one of `CACHE_ERRORS` where the file is damaged or cannot be written."""
        rows = [(_key(text), _packed(*stored)) for text, stored in molecules.items()]
        with self.connection:
            self.connection.executemany("INSERT OR REPLACE INTO molecules VALUES (?, ?)", rows)


@contextlib.contextmanager
def feature_cache() -> Iterator[FeatureCache | None]:
    """The cache of the user, or None where there is none."""
    folder = os.environ.get(ENVIRONMENT_VARIABLE)
    if folder == "":
        yield None
        return

    try:
        default_folder = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache") / "edgewise"
        cache = FeatureCache(Path(folder or default_folder).expanduser() / "edgewise-molecules.sqlite")
    except CACHE_ERRORS:
        yield None
        return

    try:
        yield cache
    finally:
        cache.connection.close()


def _version() -> int:
    """A number of 31 bits that changes with RDKit, its descriptors, and the code that makes and stores features."""
    paths = __file__, *(module.__file__ or "" for module in (feature, molecule, descriptor))
    code = [Path(path).read_bytes() for path in paths]
    version_parts = [molecule.rdBase.rdkitVersion, *DESCRIPTOR_NAMES]
    digest = hashlib.blake2b("\n".join(version_parts).encode() + b"".join(code), digest_size=4).digest()
    return int.from_bytes(digest, "big") >> 1


def _key(smiles: str) -> bytes:
    return hashlib.blake2b(smiles.encode(errors="surrogatepass"), digest_size=16).digest()


def _packed(canonical: str, arrays: MoleculeArrays, descriptors: Float64[np.ndarray, " feature"]) -> bytes:
    letters = np.frombuffer(canonical.encode(), dtype=np.uint8)
    content = safetensors.numpy.save({"canonical": letters, "descriptors": descriptors, **vars(arrays)})
    return zlib.compress(content, 1)  # nearly all of it is zeros


def _unpacked(content: bytes) -> Stored | None:
    """None where the content is damaged."""
    try:
        arrays = safetensors.numpy.load(zlib.decompress(content))
        canonical, descriptors = arrays.pop("canonical").tobytes().decode(), arrays.pop("descriptors")
        return canonical, MoleculeArrays(**arrays), descriptors
    except (zlib.error, SafetensorError, KeyError, TypeError, ValueError):
        return None
