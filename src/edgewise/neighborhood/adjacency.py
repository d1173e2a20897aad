"""The entries of a matrix that says who attends to whom: dense, or sparse as torch or SciPy hold it."""

from typing import Any

import torch
from torch import Tensor

from edgewise.errors import ShapeError
from edgewise.neighborhood.index import plain

READ = (torch.sparse_coo, torch.sparse_csr, torch.sparse_csc)


def entries(adjacency: Any) -> tuple[Tensor, Tensor, tuple[int, int]]:
    """Row and column of each entry that is not zero, row by row, then column by column; and the shape.

    Entries at one place are added up first, as every format does that lists them.

    Raises:
        ShapeError: it is no matrix, or of a layout that is not read.
    """
    if hasattr(adjacency, "tocoo"):  # SciPy's, which need not be installed
        _require_two_axes(adjacency)
        matrix = adjacency.tocsr(copy=True)
        matrix.sum_duplicates()
        rows, columns = (torch.as_tensor(places, dtype=torch.int64) for places in matrix.nonzero())
        return rows, columns, (matrix.shape[0], matrix.shape[1])
    try:
        adjacency = plain(torch.as_tensor(adjacency)).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise ShapeError(
            f"from_adjacency: adjacency must be a tensor, an array or a sparse matrix of torch or SciPy, not "
            f"{type(adjacency).__name__} ({error})."
        ) from error
    _require_two_axes(adjacency)
    shape = adjacency.shape[0], adjacency.shape[1]
    if adjacency.layout == torch.strided:
        rows, columns = adjacency.nonzero(as_tuple=True)
        return rows, columns, shape
    if adjacency.layout not in READ or adjacency.dense_dim() > 0:
        raise ShapeError(
            f"from_adjacency: adjacency has the layout {adjacency.layout} with {adjacency.dense_dim()} dense axes; "
            "expected a dense matrix or torch's COO, CSR or CSC without them: to_dense() makes one."
        )
    listed = adjacency.to_sparse_coo().coalesce()
    rows, columns = listed.indices()[:, listed.values() != 0].unbind(0)
    return rows, columns, shape


def _require_two_axes(adjacency: Any) -> None:
    shape = tuple(adjacency.shape)
    if len(shape) != 2:
        raise ShapeError(f"from_adjacency: adjacency must have the axes (query, key), not shape {shape}.")
