"""Cells and molecules in mapped files: the same as in memory, and little of them in memory."""

import resource
import tracemalloc

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.errors import DataError, WriteError
from edgewise.learn.files import GrowingArray, copied_rows, release_memory
from edgewise.learn.readers.molecules.data import read_molecules
from edgewise.learn.tables import mapped
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.mapped import DigestIndex, GrowingTexts, MappedTexts, digests, growing, keys_of


@pytest.mark.parametrize("is_mapped", [False, True])
def test_an_array_grows_by_rows(is_mapped):
    array = growing(np.int32, (2,), is_mapped=is_mapped)
    for part in ([[1, 2]], [], [[3, 4], [5, 6]]):
        array.append(np.array(part).reshape(-1, 2))
    assert array.num_rows == 3
    found = array.mapped()
    assert (found.tolist(), found.dtype) == ([[1, 2], [3, 4], [5, 6]], np.int32)
    assert growing(np.float64, (3,), is_mapped=is_mapped).mapped().shape == (0, 3)


def test_what_was_written_into_a_mapped_array_stays_when_its_memory_is_released():
    array = GrowingArray(np.int64)
    array.append(np.arange(10_000))
    found = array.mapped()
    found[7] = -1
    release_memory([found, np.zeros(3)])
    assert found[:9].tolist() == [0, 1, 2, 3, 4, 5, 6, -1, 8]
    assert copied_rows(found, np.array([9999, 7])).tolist() == [9999, -1]


def test_a_full_disk_is_an_error_that_names_the_folder(tmp_path):
    array = GrowingArray(np.uint8, folder=tmp_path)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, hard))
    try:
        with pytest.raises(WriteError, match=f"{tmp_path} cannot be written: .*; free some space"):
            array.append(np.zeros(20_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert list(tmp_path.iterdir()) == []


@given(st.lists(st.lists(st.text(max_size=5), max_size=4), max_size=4))
def test_mapped_texts_are_the_texts(parts):
    texts = GrowingTexts()
    for part in parts:
        texts.append(pa.array(part, pa.large_string()))
    found = MappedTexts(texts)
    expected = [text for part in parts for text in part]
    assert list(found) == expected
    assert found[1:3] == tuple(expected[1:3])
    assert [found[place] for place in range(len(found))] == expected


@given(st.lists(st.lists(st.text(max_size=2), max_size=12, unique=True), max_size=8))
def test_an_index_of_digests_is_a_dict_of_texts(parts):
    known: dict[str, int] = {}
    index = DigestIndex()
    for part in parts:
        marks = digests(part)
        found = index.find(marks)
        assert found.tolist() == [known.get(text, -1) for text in part]
        new = np.flatnonzero(found < 0)
        numbers = len(known) + np.arange(len(new))
        index.add(marks[new], numbers)
        known |= {part[place]: number for place, number in zip(new.tolist(), numbers.tolist(), strict=True)}
    keys = keys_of(known)
    assert len(np.unique(keys)) == len(known)
    assert keys.tolist() == keys_of(list(known)).tolist()


CHAINS = [
    "C" * length + "OCCN(C)" * 7 + end for length in range(1, 90) for end in ("C", "O", "N", "F", "Cl", "Br", "S")
]
COLUMNS = Columns(smiles_columns=("smiles",), target_columns=("y",))


def held(path, *, with_descriptors: bool = False) -> float:
    """Bytes of memory that a table takes for each of its rows."""
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    table = read_molecules(path, COLUMNS, with_descriptors=with_descriptors)
    found = tracemalloc.get_traced_memory()[0] + pa.total_allocated_bytes() - before
    tracemalloc.stop()
    return found / len(table.rows)


def test_a_mapped_table_takes_about_100_bytes_a_row(tmp_path, monkeypatch):
    path = tmp_path / "data.csv"
    smiles = [text for text in CHAINS for _ in range(2)]
    frame = pd.DataFrame(
        {"smiles": smiles, "y": np.arange(len(smiles)) / 7, "note": ["a long note " * 9] * len(smiles)}
    )
    frame.to_csv(path, index=False)
    monkeypatch.setattr(mapped, "ROWS", 64)
    assert held(path) > 800
    monkeypatch.setattr(mapped, "MAPPED_ROWS", 500)
    assert held(path) < 250  # 100 bytes a row, and some kilobytes for columns and files


def test_files_with_different_columns_are_refused_when_mapped(tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "MAPPED_ROWS", 1)
    for name, last in (("a", "y"), ("b", "z")):
        pd.DataFrame({"smiles": ["C", "CC"], "y": [1, 2], last: [3, 4]}).to_csv(tmp_path / f"{name}.csv", index=False)
    with pytest.raises(DataError, match=r"a.csv and .*b.csv have different columns: only .*b.csv has 'z'"):
        read_molecules([tmp_path / "a.csv", tmp_path / "b.csv"], COLUMNS, with_descriptors=False)
