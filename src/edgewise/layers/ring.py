"""Causal attention over texts whose tokens are split over processes: keys and values go round, queries stay.

Liu, Zaharia & Abbeel 2023, as torch has it. Its `context_parallel` knows the kernels of CUDA alone; here its ring runs
over the one of CPUs, too.
"""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from edgewise.errors import SettingError, UnsupportedError
from edgewise.neighborhood import Causal, Neighborhood
from edgewise.normalize import Normalize, Softmax
from edgewise.score import ScaledDot, Score

TOKEN_AXIS = 2
"""The axis of tokens in what the kernels take."""
PIECES = 2
"""Pieces of each text in a process, one early and one late, so that all have about as many pairs to compute."""

_RING: list[tuple[int, int]] = []
"""The ring of this process, where there is one; torch.compile and torch.export follow a list, and no ContextVar."""


@contextlib.contextmanager
def ring(rank: int, size: int) -> Iterator[None]:
    """Inside, layers attend to the tokens of all processes, and each process has its own ones of every text.

    Args:
        rank: Which process this is.
        size: How many there are; 1 changes nothing.
    """
    before = list(_RING)
    _RING[:] = [] if size == 1 else [(rank, size)]
    try:
        yield
    finally:
        _RING[:] = before


def current_ring() -> tuple[int, int] | None:
    """The rank and the number of processes among which the tokens of each text are split; None where they are not."""
    return _RING[0] if _RING else None


def places(num_tokens: int, rank: int, size: int) -> Int64[Tensor, " token"]:
    """Where the tokens of a process stand in each text.

    The text is cut into 2 · size pieces; process r has number r from the front and number r from the back.

    Args:
        num_tokens: Tokens of the whole text, a multiple of 2 · size.
        rank: Which process.
        size: How many there are.

    Raises:
        SettingError: It is no such multiple.

    >>> places(8, 0, 2).tolist(), places(8, 1, 2).tolist()
    ([0, 1, 6, 7], [2, 3, 4, 5])
    """
    if num_tokens % (PIECES * size):
        raise SettingError(
            f"{num_tokens} tokens cannot be split over {size} processes, early ones and late ones for each; use a "
            f"--context that is a multiple of {PIECES * size}."
        )
    pieces = torch.arange(num_tokens).chunk(PIECES * size)
    return torch.cat([pieces[rank], pieces[PIECES * size - 1 - rank]])


def ring_attend(
    query: Float[Tensor, " *batch query key_dim"],
    key: Float[Tensor, " *key_batch key key_dim"],
    value: Float[Tensor, " *value_batch key value_dim"],
    neighborhood: Neighborhood,
    score: Score,
    normalize: Normalize,
    *,
    is_plain: bool,
) -> Float[Tensor, " *batch query value_dim"]:
    """`attend` over the tokens of all processes.

    Args:
        query, key, value: Of the tokens of this process.
        neighborhood, score, normalize: As in `attend`.
        is_plain: Whether nothing is added to a pair, and no weight is dropped.

    Raises:
        UnsupportedError: It is not the plain causal softmax.

    Cost: that of all pairs, divided among the processes, and the keys and values of the others in the network.
    """
    is_usual = isinstance(normalize, Softmax) and float(normalize.temperature) == 1
    if type(neighborhood) is not Causal or not isinstance(score, ScaledDot) or not is_usual or not is_plain:
        raise UnsupportedError(
            "tokens split over processes need causal attention with scaled dots, softmax, no dropout and no biases; "
            "use --dropout 0, --position rotary or learned, and no --window."
        )
    scale = query.shape[-1] ** -0.5 if score.scale is None else float(score.scale)
    batch = query.shape[:-2]
    four = [x.expand(*batch, *x.shape[-2:]).reshape(-1, batch[-1], *x.shape[-2:]) for x in (query, key, value)]
    out: Tensor = RingAttention.apply(*four, scale, torch.distributed.group.WORLD)
    return out.reshape(*batch, *out.shape[-2:])


class RingAttention(torch.autograd.Function):
    """torch's ring over its fused kernel of the device."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, value: Tensor, scale: float, group: torch.distributed.ProcessGroup
    ) -> Tensor:
        """The output for the queries of this process, each `(text, head, token, dim)`."""
        name = "_scaled_dot_product_flash_attention"
        kernel = getattr(torch.ops.aten, name if query.is_cuda else f"{name}_for_cpu")
        out, logsumexp, *rest = _rings()._templated_ring_attention(
            group, TOKEN_AXIS, kernel, query, key, value, is_causal=True, dropout_p=0.0, scale=scale
        )
        ctx.save_for_backward(query, key, value, out, logsumexp)
        ctx.scale, ctx.group, ctx.rest = scale, group, rest
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> Any:
        """The gradients of the tokens of this process; those of keys and values come home round the ring."""
        name, given = "_scaled_dot_product_flash_attention", {"dropout_p": 0.0, "scale": ctx.scale}
        if ctx.rest:
            names = ("cum_seq_q", "cum_seq_k", "max_q", "max_k", "philox_seed", "philox_offset")
            given |= dict(zip(names, ctx.rest))
        kernel = getattr(torch.ops.aten, f"{name}_backward" if ctx.rest else f"{name}_for_cpu_backward")
        found = _rings()._templated_ring_attention_backward(
            *(ctx.group, TOKEN_AXIS, kernel.default, grads[0], "grad_out", *ctx.saved_tensors), is_causal=True, **given
        )
        return *found[:3], None, None


def _rings() -> Any:
    """torch's rings, which take any kernel; `context_parallel` is built on them."""
    try:
        from torch.distributed.tensor.experimental._context_parallel import _attention
    except ImportError as error:
        raise UnsupportedError(
            f"torch {torch.__version__} has no ring attention where Edgewise looks for it; use torch 2.13."
        ) from error
    return _attention
