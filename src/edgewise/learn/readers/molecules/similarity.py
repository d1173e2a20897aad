"""How near molecules are to known ones: Tanimoto similarity of Morgan fingerprints, which are compared as bits."""

from collections.abc import Callable, Sequence
from functools import cache
from typing import no_type_check

import numpy as np
from jaxtyping import Float64, Int64, UInt64
from rdkit.Chem import rdFingerprintGenerator

from edgewise.errors import DataError, refuse_single_text
from edgewise.learn.readers.molecules.bounded import in_blocks, processes_run
from edgewise.learn.readers.molecules.molecule import read_molecule

RADIUS, NUM_BITS = 2, 2048
"""Radius and length of the fingerprints."""
BATCH_SIZE = 1024
"""Rows whose fingerprints are made at the same time."""
POOLED_FROM = 256
"""Molecules from which on their fingerprints are made in several processes, where these run already."""
Row = str | Sequence[str]
"""A SMILES, or those of the components of a row."""


def fingerprints(rows: Sequence[Row]) -> UInt64[np.ndarray, " row word"]:
    """Morgan fingerprints, 64 bits a word; those of the components of a row are concatenated.

    Raises:
        DataError: a string is not a molecule.
    """
    refuse_single_text("rows", rows)
    parts = [(row,) if isinstance(row, str) else tuple(row) for row in rows]
    smiles = list({smiles for row in parts for smiles in row})
    is_pooled = processes_run() and len(smiles) >= POOLED_FROM
    bits_of_smiles = [bits for bits in in_blocks(_bits, smiles) if bits is not None] if is_pooled else []
    if len(bits_of_smiles) < len(smiles):  # processes are missing, or one of them died
        bits_of_smiles = _bits(smiles)
    bits_of = dict(zip(smiles, bits_of_smiles, strict=True))
    if not parts:
        return np.zeros((0, NUM_BITS // 64), dtype=np.uint64)

    return np.stack([np.concatenate([bits_of[smiles] for smiles in row]) for row in parts])


def _bits(smiles: Sequence[str]) -> list[UInt64[np.ndarray, " word"]]:
    generator = rdFingerprintGenerator.GetMorganGenerator(radius=RADIUS, fpSize=NUM_BITS)
    fingerprints_of_smiles = (generator.GetFingerprintAsNumPy(read_molecule(text)) for text in smiles)
    return [np.packbits(bits).view(np.uint64) for bits in fingerprints_of_smiles]


def similarity(rows: Sequence[Row], known_rows: Sequence[Row]) -> Float64[np.ndarray, " row"]:
    """How close each row is to the nearest known row: Tanimoto similarity of Morgan fingerprints, from 0 to 1.

    T(a, b) = |a ∩ b| / |a ∪ b|, and 1 for two fingerprints without a bit.

    Args:
        rows: SMILES, or one tuple of SMILES a row (cation, anion).
        known_rows: the same for the training rows, at least one.

    Returns:
        The largest similarity of each row to any known row.

    Raises:
        DataError: a string is not a molecule, or `known_rows` is empty.
    """
    return nearest(rows, known_rows)[0]


def nearest(
    rows: Sequence[Row], known_rows: Sequence[Row]
) -> tuple[Float64[np.ndarray, " row"], Int64[np.ndarray, " row"]]:
    """How close each row is to the nearest known row, as in `similarity`, and which of the known rows that is.

    Raises:
        DataError: a string is not a molecule, or `known_rows` is empty.
    """
    refuse_single_text("rows", rows)
    return KnownMolecules(known_rows).nearest(rows)


class KnownMolecules:
    """Rows of molecules, to be compared with others: their fingerprints, 256 bytes for each molecule.

    Args:
        known_rows: SMILES, or one tuple of SMILES a row, at least one.

    Raises:
        DataError: a string is not a molecule, or there is none.
    """

    def __init__(self, known_rows: Sequence[Row]):
        refuse_single_text("known_rows", known_rows)
        first_rows: dict[str | tuple[str, ...], int] = {}
        for number, row in enumerate(known_rows):
            first_rows.setdefault(_key(row), number)
        if not first_rows:
            raise DataError("similarity: known_rows is empty; hand over the training rows.")
        self.bits, self.row_of_fingerprint = fingerprints(list(first_rows)), np.array(list(first_rows.values()))

    def nearest(self, rows: Sequence[Row]) -> tuple[Float64[np.ndarray, " row"], Int64[np.ndarray, " row"]]:
        """How close each row is to the nearest of these, and which that is; the first of several.

        Cost: O(row · known).
        """
        numbers: dict[str | tuple[str, ...], int] = {}
        which = np.array([numbers.setdefault(_key(row), len(numbers)) for row in rows], dtype=np.int64)
        distinct_rows = list(numbers)
        values, positions = np.zeros(len(distinct_rows)), np.zeros(len(distinct_rows), dtype=np.int64)
        for start in range(0, len(distinct_rows), BATCH_SIZE):
            batch = slice(start, start + BATCH_SIZE)
            _comparison()(fingerprints(distinct_rows[batch]), self.bits, values[batch], positions[batch])
        return values[which], self.row_of_fingerprint[positions][which]


def _key(row: Row) -> str | tuple[str, ...]:
    return row if isinstance(row, str) else tuple(row)


@cache
def _comparison() -> Callable[..., None]:
    from edgewise.neighborhood.jit import compiled

    return compiled(compare, nogil=True)


ONE, TWO, FOUR, LAST = (np.uint64(shift) for shift in (1, 2, 4, 56))
PAIRS, NIBBLES, BYTES, SUM = (np.uint64(int(two * 8, 16)) for two in ("55", "33", "0f", "01"))
"""Bits are counted in pairs, in fours, in bytes, and these are summed; compilers know it as one instruction."""


@no_type_check  # numba must compile it as it is written here
def compare(rows, known_bits, values, nearest):
    """The largest Tanimoto similarity of each row to a known row, and the first known row that has it.

    Args:
        rows, known: uint64 `(row, word)`, bits.
        values: float64 `(row)`; becomes the similarity, rounded to float32.
        places: int64 `(row)`; becomes the number of the known row.
    """
    num_words = known_bits.shape[1]
    for row in range(rows.shape[0]):
        best = np.float32(-1.0)
        for other in range(known_bits.shape[0]):
            shared, either = np.uint64(0), np.uint64(0)
            for word in range(num_words):
                one, two = rows[row, word], known_bits[other, word]
                both = one & two
                both = both - ((both >> ONE) & PAIRS)
                both = (both & NIBBLES) + ((both >> TWO) & NIBBLES)
                shared += (((both + (both >> FOUR)) & BYTES) * SUM) >> LAST
                any_ = one | two
                any_ = any_ - ((any_ >> ONE) & PAIRS)
                any_ = (any_ & NIBBLES) + ((any_ >> TWO) & NIBBLES)
                either += (((any_ + (any_ >> FOUR)) & BYTES) * SUM) >> LAST

            ratio = np.float32(1.0)
            if either > 0:
                ratio = np.float32(shared) / np.float32(either)
            if ratio > best:
                best = ratio
                nearest[row] = other

        values[row] = best
