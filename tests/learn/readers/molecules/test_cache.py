"""Features are read from disk where they were computed before, and nothing depends on it."""

import sqlite3
import stat
from pathlib import Path

import numpy as np
import pytest

from edgewise.learn.readers.molecules import bounded, cache
from edgewise.learn.readers.molecules.limits import MoleculeLimits
from edgewise.learn.readers.molecules.store import MoleculeStore

SMILES = [f"{'C' * length}{end}" for length in range(1, 23) for end in ("O", "N", "[O-].[Na+]")]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def computed(monkeypatch):
    """The molecules whose features were computed."""
    found = []
    original = bounded._features
    monkeypatch.setattr(bounded, "_POOL", bounded._Pool())  # that of an earlier test would compute them
    monkeypatch.setattr(bounded, "_features", lambda *given: found.append(given) or original(*given))
    return found


def collect(smiles=SMILES, **limits):
    return MoleculeStore.collect(smiles, limits=MoleculeLimits(**limits))


def same(one, other):
    pairs = [(one[1], other[1]), *((getattr(one[0], name), getattr(other[0], name)) for name in ARRAYS)]
    return all(np.array_equal(left, right, equal_nan=True) for left, right in pairs) and one[2] == other[2]


def raise_error(error):
    raise error


ARRAYS = ("node_features", "senders", "receivers", "edge_features", "node_offsets", "graph_features")


def test_what_was_read_before_is_the_same_and_not_computed_again(folder, computed):
    first = collect([*SMILES, "no molecule"])
    assert len(computed) == len(SMILES)
    again = collect([*SMILES, "no molecule"])
    assert len(computed) == len(SMILES) and same(first, again)
    assert first[0].canonical == again[0].canonical and "no molecule" in again[2]
    assert stat.S_IMODE((folder / "edgewise-molecules.sqlite").stat().st_mode) == 0o600
    more = collect([*SMILES, "CCS"])
    assert len(computed) == len(SMILES) + 1 and len(more[0]) == len(SMILES) + 1


def test_a_limit_holds_for_what_is_stored_too(folder, computed):
    collect()
    _, graphs, reasons = collect(max_atoms=5)
    assert len(reasons) > 40 and (graphs < 0).sum() == len(reasons)


def test_other_features_are_computed_anew(folder, computed, monkeypatch):
    collect()
    monkeypatch.setattr(cache, "_version", lambda: 7)
    collect()
    assert len(computed) == 2 * len(SMILES)
    monkeypatch.setattr(cache, "MAX_BYTES", 1)
    collect()
    assert len(computed) == 3 * len(SMILES), "a file that has grown too large begins anew"


def test_a_file_that_began_anew_is_used_again(folder, computed, monkeypatch):
    """SQLite keeps the pages of what is dropped: they do not count."""
    path, others = folder / "edgewise-molecules.sqlite", [f"N{smiles}" for smiles in SMILES]
    collect()
    size = path.stat().st_size
    collect(others)
    with cache.feature_cache() as opened:
        opened.connection.execute("DROP TABLE molecules")
    monkeypatch.setattr(cache, "MAX_BYTES", (size + path.stat().st_size) // 2)
    for _ in range(3):
        collect()
    assert len(computed) == 3 * len(SMILES)


@pytest.mark.parametrize("damage", ["file", "rows", "locked", "folder", "no home", "off"])
def test_nothing_depends_on_it(folder, computed, monkeypatch, damage):
    expected = collect()
    path = folder / "edgewise-molecules.sqlite"
    if damage == "file":
        path.write_bytes(b"no database" * 1000)
    elif damage == "rows":
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE molecules SET content = substr(content, 1, 50)")
        connection.close()
    elif damage == "folder":
        monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, str(path))
    elif damage == "no home":
        monkeypatch.delenv(cache.ENVIRONMENT_VARIABLE)
        monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
        monkeypatch.setattr(Path, "expanduser", lambda _: raise_error(RuntimeError("no home directory")))
    elif damage == "off":
        monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, "")
    other = sqlite3.connect(path if damage != "file" else ":memory:", timeout=0)
    if damage == "locked":
        other.execute("BEGIN EXCLUSIVE")
    found = collect()
    other.close()
    assert same(found, expected) and len(computed) == 2 * len(SMILES)


def test_a_database_of_something_else_is_left_alone(folder, computed):
    folder.mkdir()
    path = folder / "edgewise-molecules.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE molecules (own TEXT)")
    other.close()
    content = path.read_bytes()
    collect()
    assert path.read_bytes() == content


def test_few_molecules_touch_no_file(folder):
    collect(SMILES[:10])
    assert not folder.exists()
