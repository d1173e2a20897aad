"""Attention over ranges of keys: every key, or a window of them. Features lie as `(*batch, node, feature)`."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from cpu_attention import plain
from cpu_attention.case import COMPILED, OURS, Case, Peer
from edgewise import Additive, Causal, Cosine, Full, Hardmax, Window, attend, why

FITS = 8 * 2**30
"""An eager peer takes part where its intermediates stay below this many bytes."""
EAGER, FUSED = "eager torch", "torch SDPA"
NUM_HEADS, HEAD_DIM = 8, 64
WINDOW_HEADS = 2
"""Fewer, for the sake of the peer that computes all pairs."""


def additive(length: int, ours: str, compiled: bool = True) -> Case:
    """Bahdanau's score in a batch of 8 with 64 features: eager torch holds a table of 64 numbers a pair, thrice."""
    batch, key_dim = 8, 64
    leaves = _leaves((batch, length, key_dim))
    vector = nn.Parameter(torch.randn(key_dim, generator=torch.Generator().manual_seed(2)))
    query, key, value = leaves.values()
    leaves["vector"] = vector
    peers = {
        OURS: lambda: attend(query, key, value, score=Additive(vector), backend=ours),
        EAGER: lambda: plain.additive(query, key, value, vector),
    }
    needed = 3 * batch * length**2 * key_dim * 4
    if compiled and needed <= FITS:
        faster = torch.compile(plain.additive, dynamic=False)
        peers[COMPILED] = lambda: faster(query, key, value, vector)
    return _case(peers, leaves, {EAGER: needed, COMPILED: needed}, length)


def cosine(length: int, ours: str) -> Case:
    """Cosines of 8 heads of 64; left to itself edgewise hands them to torch's fused kernel."""
    leaves = _leaves((NUM_HEADS, length, HEAD_DIM))
    query, key, value = leaves.values()
    one = (x.unsqueeze(0) for x in (query, key, value))
    many = tuple(one)
    peers = {
        OURS: lambda: attend(query, key, value, score=Cosine()),
        f"edgewise, backend {ours}": lambda: attend(query, key, value, score=Cosine(), backend=ours),
        f"{FUSED} of unit vectors": lambda: plain.cosine_sdpa(*many).squeeze(0),
        EAGER: lambda: plain.cosine(query, key, value),
    }
    return _case(peers, leaves, {EAGER: 6 * NUM_HEADS * length**2 * 4}, length)


def hard(length: int, ours: str) -> Case:
    """All weight on the best key, with the gradient of softmax; 8 heads of 64."""
    leaves = _leaves((NUM_HEADS, length, HEAD_DIM))
    query, key, value = leaves.values()
    normalize = Hardmax(straight_through=True)
    peers = {
        OURS: lambda: attend(query, key, value, normalize=normalize, backend=ours),
        EAGER: lambda: plain.hard(query, key, value),
    }
    return _case(peers, leaves, {EAGER: 9 * NUM_HEADS * length**2 * 4}, length)


def window(length: int, width: int, ours: str) -> Case:
    """Each query sees itself and the keys just before it; torch's fused kernel needs the whole mask for that."""
    leaves = _leaves((1, WINDOW_HEADS, length, HEAD_DIM))
    query, key, value = leaves.values()
    seen = Window(width - 1, 0)
    mask = seen.to_mask(length, length)
    peers = {
        OURS: lambda: attend(query, key, value, seen, backend=ours),
        f"{FUSED} with a mask": lambda: F.scaled_dot_product_attention(query, key, value, attn_mask=mask),
        "edgewise, backend gather": lambda: attend(query, key, value, seen, backend="gather"),
    }
    case = _case(peers, leaves, {}, length)
    case.facts["left_to_itself"] = why(query, key, value, seen).partition(" ")[0]
    return case


def dispatched(length: int, causal: bool) -> Case:
    """Scaled dot products over ranges, left to edgewise, beside the fused kernel that it should hand them to."""
    leaves = _leaves((1, NUM_HEADS, length, HEAD_DIM))
    query, key, value = leaves.values()
    neighborhood = Causal() if causal else Full()
    peers = {
        OURS: lambda: attend(query, key, value, neighborhood),
        FUSED: lambda: F.scaled_dot_product_attention(query, key, value, is_causal=causal),
    }
    return _case(peers, leaves, {}, length)


def _case(peers: dict, leaves: dict[str, Tensor], needed: dict[str, int], length: int) -> Case:
    """Without the peers that need too much memory."""
    skipped = {name: f"would take {size / 2**30:.0f} GiB" for name, size in needed.items() if size > FITS}
    value = leaves["value"]
    return Case(
        peers={name: Peer(run, leaves) for name, run in peers.items() if name not in skipped},
        cotangent=torch.randn(value.shape, generator=torch.Generator().manual_seed(1)),
        facts={"queries": length, "keys": length, "shape": list(value.shape)},
        skipped=skipped,
    )


def _leaves(shape: tuple[int, ...]) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(0)
    names = "query", "key", "value"
    return {name: torch.randn(shape, generator=generator).requires_grad_() for name in names}
