"""The bytes that attention over edges must move, and with them the time that it takes at the measured bandwidth.

With N nodes, E edges, H heads, C = heads · features, s bytes a number, and indices of 4 bytes, idx = 4 E + 4 N:

                      every gather from memory         every tensor once (each 2 or 1 ECs a NCs)
    dot, forward      2 NCs + 2 ECs + 4 NH + idx       4 NCs + 4 NH + idx
    by receiver       4 NCs + 2 ECs + 8 NH + idx       6 NCs + 8 NH + idx
    by sender         4 NCs + 2 ECs + 8 EH + idx       6 NCs + 8 NH + idx
    GATv2, forward    2 NCs + ECs + 4 NH + idx         3 NCs + 4 NH + idx
    by receiver       4 NCs + ECs + 8 NH + idx         5 NCs + 8 NH + idx
    by sender         2 NCs + 2 ECs + 8 EH + idx       4 NCs + 8 NH + idx
    a bias            + EHs forward, + 3 EHs + 4 E backward
    features of edges + ECs forward, + 3 ECs + 4 E backward (read for both passes, their gradient written)
"""

from gpu_attention.case import BOTH, FORWARD

TANH_FLOOR_MS = 0.064
"""Of additive attention over 2,048 × 2,048 pairs of 64 features, a head, forward: one tanh for each, at 4.18 · 10¹² a
second (16 a cycle on each of the 132 multiprocessors of an H200)."""
TANH_LENGTH, TANH_DIM = 2048, 64

# For each score: rows of nodes read and written, and rows of edges gathered, in each of the three passes.
_ROWS = {"dot": ((2, 2), (4, 2), (4, 2)), "gatv2": ((2, 1), (4, 1), (2, 2))}


def edges(
    score: str, num_nodes: int, num_edges: int, heads: int, dim: int, size: int, *, bias: bool, features: bool
) -> dict[str, dict[str, int]]:
    """Bytes of the forward pass and of both, with every gather from memory and with every tensor once.

    >>> found = edges("dot", 169_000, 1_170_000, 8, 16, 4, bias=False, features=False)
    >>> [round(found[mode][kind] / 4.3e9, 3) for mode in found for kind in found[mode]]
    [0.321, 0.083, 1.062, 0.332]
    """
    node, edge = num_nodes * heads * dim * size, num_edges * heads * dim * size
    index = 4 * num_edges + 4 * num_nodes
    of_rows, of_edges = 4 * num_nodes * heads, 8 * num_edges * heads
    passes = []
    for place, (own, gathered) in enumerate(_ROWS[score]):
        statistics = (of_rows, 2 * of_rows, of_edges)[place], (of_rows, 2 * of_rows, 2 * of_rows)[place]
        passes.append((own * node + gathered * edge + statistics[0] + index, own * node + gathered * node
                       + statistics[1] + index))  # fmt: skip
    carried = int(bias) * num_edges * heads * size + int(features) * edge
    back = 3 * carried + 4 * num_edges * (int(bias) + int(features))
    forward = [passes[0][kind] + carried for kind in (0, 1)]
    both = [sum(each[kind] for each in passes) + carried + back for kind in (0, 1)]
    return {FORWARD: dict(zip(("gathered", "once"), forward)), BOTH: dict(zip(("gathered", "once"), both))}


def tanh_ms(length: int, dim: int, heads: int) -> float:
    """What the tanh units need for the forward pass of dense additive attention, in ms."""
    return TANH_FLOOR_MS * heads * (length / TANH_LENGTH) ** 2 * dim / TANH_DIM


def share(num_bytes: int, gb_per_s: float, milliseconds: float) -> float:
    """The part of the time that the bytes alone would take."""
    return num_bytes / gb_per_s * 1e-6 / milliseconds
