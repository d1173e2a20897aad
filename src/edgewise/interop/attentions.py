"""Recorded weights in the form in which Hugging Face's models return theirs, which BertViz and its like draw."""

from jaxtyping import Float
from torch import Tensor

from edgewise.errors import ShapeError
from edgewise.graph import Trace


def attentions(trace: Trace) -> tuple[Float[Tensor, " graph head query key"], ...]:
    """One tensor `(batch, head, query, key)` for each recorded layer, zero without an edge.

        attentions(trace)        is what        model(..., output_attentions=True).attentions        is there

    Raises:
        ShapeError: the weights do not have a head axis and at most one batch axis.
    """
    tables = []
    for weights in trace.weights:
        table = weights.to_dense()
        if table.dim() not in (3, 4):
            raise ShapeError(
                f"attentions: expected weights (head, query, key) or (batch, head, query, key), not {table.dim()} axes."
            )
        tables.append(table if table.dim() == 4 else table.unsqueeze(0))
    return tuple(tables)
