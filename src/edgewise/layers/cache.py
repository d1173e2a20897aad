"""The key-value cache of a decoder: a step then costs one node, not all nodes so far."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import torch
from jaxtyping import Int64
from torch import Tensor

from edgewise.errors import ShapeError
from edgewise.neighborhood.checks import broadcast_shape


class LayerCache:
    """Keys and values of one attention layer, in memory that doubles when it is full: a step copies O(1) of them.

    Args:
        is_fixed: keep those of the first call and give them back in every later one, as cross-attention needs: the
            source, and where its nodes stand, stays the same while the target grows.
    """

    def __init__(self, is_fixed: bool = False) -> None:
        self.is_fixed = is_fixed
        self.length = 0
        self.keys: Tensor | None = None
        self.values: Tensor | None = None
        self.positions: Tensor | None = None

    def append(self, keys: Tensor, values: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Remember the keys `(*batch, head, node, dim)`, values and positions of new nodes, without their gradients.

        Args:
            keys, values: of the new nodes.
            positions: `(node)`, or with all batch axes of the keys, some of size 1: `(*batch, node)`.

        Returns:
            Those of all nodes so far; gradients flow to the new ones only.
        """
        if self.stored_source is not None:
            return self.stored_source
        if self.is_fixed:
            self.keys, self.values, self.positions = keys.detach(), values.detach(), positions
            self.length = keys.shape[-2]
            return keys, values, positions

        if self.keys is not None and self.keys.shape[:-2] != keys.shape[:-2]:
            raise ShapeError(
                f"LayerCache: it holds keys of batch and heads {tuple(self.keys.shape[:-2])}, and these have "
                f"{tuple(keys.shape[:-2])}; take a new cache for another batch, or reorder its members."
            )
        for name, held, new in (("keys", self.keys, keys), ("values", self.values, values)):
            if held is not None and held.shape[-1] != new.shape[-1]:
                raise ShapeError(
                    f"LayerCache: it holds {name} of size {held.shape[-1]}, and these have {new.shape[-1]}; take a new "
                    "cache for another layer."
                )
        start, self.length = self.length, self.length + keys.shape[-2]
        if self.positions is not None and self.positions.shape[:-1] != positions.shape[:-1]:
            batch = broadcast_shape(self.positions.shape[:-1], positions.shape[:-1])
            self.positions = self.positions.expand(*batch, -1).clone()
            positions = positions.expand(*batch, -1)

        self.keys = _with_room(self.keys, keys, start, -2)
        self.values = _with_room(self.values, values, start, -2)
        self.positions = _with_room(self.positions, positions, start, -1)
        # Earlier steps have not read this span, so that their backward passes need not notice: `data` counts apart.
        span, keys_held, values_held = slice(start, self.length), self.keys.data, self.values.data
        keys_held[..., span, :], values_held[..., span, :] = keys.detach(), values.detach()
        self.positions[..., span] = positions

        return (
            _with_gradient(self.keys[..., : self.length, :], keys),
            _with_gradient(self.values[..., : self.length, :], values),
            self.positions[..., : self.length],
        )

    @contextmanager
    def unchanged_by_errors(self) -> Iterator[None]:
        """Within it, an error leaves the cache as it was, so that the call can be made again."""
        before, is_done = vars(self).copy(), False  # buffers are written after their length alone
        try:
            yield
            is_done = True
        finally:
            if not is_done:
                vars(self).update(before)

    @property
    def stored_source(self) -> tuple[Tensor, Tensor, Tensor] | None:
        """The keys, values and positions of a fixed cache, which every later call gets; None before the first."""
        if not self.is_fixed or self.keys is None or self.values is None or self.positions is None:
            return None
        return self.keys, self.values, self.positions

    def reorder(self, members: Int64[Tensor, " member"]) -> None:
        """Keep these members of the first batch axis, in this order, such as the best beams."""
        if self.keys is not None and self.values is not None:
            self.keys, self.values = self.keys.index_select(0, members), self.values.index_select(0, members)
        if self.positions is not None and self.positions.dim() > 1 and self.positions.shape[0] > 1:
            self.positions = self.positions.index_select(0, members)


@dataclass(eq=False)
class Cache:
    """Hand it to a stack, `stack(nodes, Causal(), cache=cache)`, which then takes `nodes` to follow those before.

    It is for inference: gradients flow to the nodes of the present call, not to what the cache holds.
    """

    layers: list[LayerCache] = field(default_factory=list)
    """One for each self-attention, made when the layer first needs it."""
    sources: list[LayerCache] = field(default_factory=list)
    """One for each cross-attention, which stores the source at its first call."""

    @property
    def length(self) -> int:
        """How many nodes have been seen."""
        return self.layers[0].length if self.layers else 0

    def of_layer(self, number: int) -> LayerCache:
        """That of the layer with this number."""
        return _of(self.layers, number, False)

    def of_source(self, number: int) -> LayerCache:
        """That of the cross-attention with this number."""
        return _of(self.sources, number, True)

    def reorder(self, members: Int64[Tensor, " member"]) -> None:
        """Keep these members of the batch, in this order, in every layer."""
        for layer in self.layers + self.sources:
            layer.reorder(members)


def _of(layers: list[LayerCache], number: int, is_fixed: bool) -> LayerCache:
    while len(layers) <= number:
        layers.append(LayerCache(is_fixed))
    return layers[number]


def _with_room(buffer: Tensor | None, new: Tensor, length: int, axis: int) -> Tensor:
    """The buffer, or one of twice the size with the same content, so that the new nodes fit after `length`."""
    needed = length + new.shape[axis]
    if buffer is not None and buffer.shape[axis] >= needed and _is_writable(buffer):
        return buffer
    shape = list(new.shape)
    shape[axis] = max(needed, 2 * length, 16)
    grown = torch.empty(shape, dtype=new.dtype, device=new.device)
    if buffer is not None:
        grown.narrow(axis, 0, length).copy_(buffer.narrow(axis, 0, length))
    return grown


def _is_writable(buffer: Tensor) -> bool:
    """Whether a buffer may be written: what inference mode made, within it only. The compiler cannot trace this."""
    return torch.compiler.is_compiling() or torch.is_inference_mode_enabled() or not buffer.is_inference()


def _with_gradient(held: Tensor, new: Tensor) -> Tensor:
    """What is held, whose last nodes are the new ones; a copy with their gradient where they have one."""
    if not (new.requires_grad and torch.is_grad_enabled()):
        return held
    num_before = held.shape[-2] - new.shape[-2]
    return torch.cat([held[..., :num_before, :], new.to(held.dtype)], dim=-2)
