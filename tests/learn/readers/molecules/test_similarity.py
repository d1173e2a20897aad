"""Similarity of molecules: by hand, against the definition over sets of bits, and the first of several."""

import numpy as np
import pytest

from edgewise.errors import DataError
from edgewise.learn.readers.molecules import bounded
from edgewise.learn.readers.molecules import similarity as similarities
from edgewise.learn.readers.molecules.similarity import _comparison, compare, fingerprints, nearest, similarity


def bits_of(words):
    """Sets of bits, one a row."""
    return [set(np.flatnonzero(row).tolist()) for row in np.unpackbits(words.view(np.uint8), axis=1)]


def test_similarity_by_hand():
    rows = ["CCO", "OCC", "c1ccccc1", "CCCO"]
    found = similarity(rows, ["CCO"])
    one, two = bits_of(fingerprints(["CCO", "CCCO"]))
    expected = len(one & two) / len(one | two)
    np.testing.assert_allclose(found, [1.0, 1.0, 0.0, expected], rtol=1e-6)
    assert 0.2 < expected < 0.9


def test_fingerprints_are_the_same_from_several_processes(monkeypatch):
    smiles = ["C" * size for size in range(1, 70)] + ["c1ccccc1"]
    expected, calls = fingerprints(smiles), []
    monkeypatch.setattr(bounded, "_POOL", pool := bounded._Pool())
    monkeypatch.setattr(similarities, "POOLED_FROM", 4)
    monkeypatch.setattr(similarities, "in_blocks", lambda *given: calls.append(given) or bounded.in_blocks(*given))
    assert np.array_equal(fingerprints(smiles), expected) and not calls and not pool.runs  # nor is one started
    bounded.in_blocks(similarities._bits, ["C"])
    assert np.array_equal(fingerprints(smiles), expected) and len(calls) == 1
    monkeypatch.setattr(bounded.Process, "call", lambda *given, **more: (_ for _ in ()).throw(TimeoutError))
    assert np.array_equal(fingerprints(smiles), expected) and len(calls) == 2
    with pytest.raises(DataError, match="is not a SMILES"):
        fingerprints([*smiles, "C("])


@pytest.mark.parametrize("function", [compare, _comparison()])
def test_bits_are_compared_as_sets_are(function):
    random = np.random.default_rng(0)
    known, rows = (random.integers(0, 2**64, (count, 3), dtype=np.uint64) for count in (9, 7))
    known &= random.integers(0, 2**64, known.shape, dtype=np.uint64)
    known[4], rows[0] = 0, 0  # no bit at all
    rows[1], known[6] = known[3], known[3]  # equal, and two of them
    rows[2] = np.uint64(2**64 - 1)
    found, places = np.zeros(len(rows)), np.zeros(len(rows), dtype=np.int64)
    with np.errstate(over="ignore"):
        function(rows, known, found, places)
    sets = [[len(one & two) / len(one | two) if one | two else 1.0 for two in bits_of(known)] for one in bits_of(rows)]
    assert found.tolist() == [np.float32(max(each)) for each in sets]
    assert places.tolist() == [int(np.argmax(np.float32(each))) for each in sets]
    assert (places[0], places[1], found[1]) == (4, 3, 1.0)


def test_similarity_of_pairs_looks_at_both_and_takes_the_nearest():
    known = [("CCO", "[Cl-]"), ("CCN", "[Br-]")]
    found = similarity([("CCO", "[Cl-]"), ("CCO", "[Br-]"), ("CCN", "[Br-]"), ("[Cl-]", "CCO")], known)
    assert found[0] == found[2] == 1.0
    assert 0 < found[1] < 1
    assert found[3] < found[1]


def test_similarity_needs_something_known():
    with pytest.raises(DataError, match="similarity: known_rows is empty; hand over the training rows"):
        similarity(["C"], [])
    assert similarity([], ["C"]).shape == (0,)


def test_the_first_of_several_that_are_as_near():
    known = ["CCO", "CCCN", "c1ccccc1C", "CCO", "OCC", "CC(=O)O", "C"]
    values, places = nearest(["CCO", "c1ccccc1", "CCO", "CCCN"], known)
    assert (values[0], places.tolist()[0], places.tolist()[2], places.tolist()[3]) == (1.0, 0, 0, 1)
    assert places[1] == 2
