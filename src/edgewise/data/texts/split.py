"""Which texts train, which choose the model, and which judge it: by their files, or drawn at random from one."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Int64

from edgewise.data.tables.cell import OK

PARTS = ("train", "val", "test")


def parts_of(
    status: Sequence[str], file_of_row: Int64[np.ndarray, " row"], num_files: int, sizes: Sequence[float], seed: int
) -> dict[str, Int64[np.ndarray, " _"]]:
    """The rows of each part: files in the order train, (val), test; or one file parted at random.

    Args:
        status: `ok`, or why a row cannot be used and is in no part.
        file_of_row: which file each row stands in, counted from 0.
        num_files: one, two or three.
        sizes: parts of training, validation and test rows of one file.
        seed: of the draw.
    """
    rows = np.flatnonzero([each == OK for each in status])
    if num_files == 1:
        order, shares = np.random.default_rng(seed).permutation(rows), np.cumsum(sizes)
        cuts = np.rint(shares[:2] * len(rows)).astype(int)
        return dict(zip(PARTS, (np.sort(part) for part in np.split(order, cuts)), strict=True))
    by_file = [rows[file_of_row[rows] == number] for number in range(num_files)]
    nothing = np.zeros(0, dtype=np.int64)
    first, middle, last = by_file if len(by_file) == 3 else (by_file[0], nothing, by_file[1])
    return {"train": first, "val": middle, "test": last}
