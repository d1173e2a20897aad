"""Where a node stands in its sequence: without it, self-attention sees a bag of words.

Self-attention without positions is permutation equivariant: nodes in another order give the same outputs in that order.
Each position below documents what becomes of that. There are two kinds:

    of nodes   SinusoidalPosition, LearnedPosition: added to the nodes once, before the first layer
    of pairs   RotaryPosition, ALiBi, T5Position, ShawPosition: inside every attention, which sees how far key and query
               stand from each other; `MultiHeadAttention(..., position=...)`

A position is a whole number, 0 for the first node; a distance is that of the key minus that of the query.

Angles and slopes are computed in float32 where the module is in half precision, and no buffer holds them: `.half()` and
`.bfloat16()` would round it, and near position 1,000 the angles would not have a correct digit.
"""

import math
from typing import Any, Literal

import torch
from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.backends.autograd import transform_at_work
from edgewise.errors import SettingError, ShapeError
from edgewise.layers.given import require_nodes, require_positions
from edgewise.layers.heads import require_choice
from edgewise.layers.linear import is_plain
from edgewise.neighborhood import Edges, Neighborhood
from edgewise.neighborhood.checks import count, positive, require_sizes


class SinusoidalPosition(nn.Module):
    """Adds sines and cosines of the position, in wavelengths from 2π to 2π · base.

        x_t ← x_t + p_t        p_{t,2i} = sin(t / base^{2i/dim})        p_{t,2i+1} = cos(t / base^{2i/dim})

    Equivariance: gone, each node carries the place it stands at; nodes and positions permuted together give permuted
    outputs. Longer sequences than were trained on can be read, mostly badly.

    Args:
        model_dim: size of the nodes.
        base: of the wavelengths.

    Precision: as with `RotaryPosition`.
    Source: Vaswani et al. 2017, section 3.5.
    """

    def __init__(self, model_dim: int, base: float = 10_000.0):
        super().__init__()
        self.model_dim = count("SinusoidalPosition", "model_dim", model_dim)
        self.base = positive("SinusoidalPosition", "base", base)

    def forward(
        self, nodes: Float[Tensor, " *batch node model_dim"], positions: Int64[Tensor, " *places node"] | None = None
    ) -> Float[Tensor, " *batch node model_dim"]:
        """The nodes with their positions, by default 0, 1, 2, ..., added."""
        require_nodes("SinusoidalPosition", nodes, self.model_dim)
        if positions is None:
            positions = first_positions(nodes)
        else:
            require_positions("SinusoidalPosition", "positions", positions, nodes.shape[-2], [nodes.shape[:-2]])
        angles = _angles(positions, self.model_dim, self.base, nodes.dtype)
        waves = torch.stack([angles.sin(), angles.cos()], -1).flatten(-2)[..., : self.model_dim]
        return nodes + waves.to(nodes.dtype)


class LearnedPosition(nn.Module):
    """Adds a learned vector for each position: x_t ← x_t + P_t.

    Equivariance: gone, as with `SinusoidalPosition`; and positions beyond the last learned one do not exist.

    Args:
        num_positions: how many positions there are.
        model_dim: size of the nodes.

    Source: Gehring et al. 2017; GPT (Radford et al. 2018) and BERT (Devlin et al. 2019).
    """

    def __init__(self, num_positions: int, model_dim: int):
        super().__init__()
        self.num_positions = count("LearnedPosition", "num_positions", num_positions)
        self.model_dim = count("LearnedPosition", "model_dim", model_dim)
        self.table = nn.Embedding(num_positions, model_dim)
        nn.init.normal_(self.table.weight, std=0.02)

    def forward(
        self, nodes: Float[Tensor, " *batch node model_dim"], positions: Int64[Tensor, " *places node"] | None = None
    ) -> Float[Tensor, " *batch node model_dim"]:
        """The nodes with the vectors of their positions, by default 0, 1, 2, ..., added.

        Raises:
            ShapeError: by default positions, more nodes than positions; or a position that was not learned.
        """
        require_nodes("LearnedPosition", nodes, self.model_dim)
        if positions is None:
            if nodes.shape[-2] > self.num_positions:
                raise ShapeError(
                    f"LearnedPosition: {nodes.shape[-2]} nodes, but only {self.num_positions} positions were learned."
                )
            if is_plain(self.table, nn.Embedding) and self.table.max_norm is None:
                return nodes + self.table.weight[: nodes.shape[-2]]
            return nodes + self.table(first_positions(nodes))

        batch_shapes = [nodes.shape[:-2]]
        require_positions("LearnedPosition", "positions", positions, nodes.shape[-2], batch_shapes, self.num_positions)
        return nodes + self.table(positions)


class PairPosition(nn.Module):
    """What an attention layer needs of positions: it turns queries and keys, adds a bias, or puts vectors on edges.

    A subclass overrides what it needs; the rest does nothing.
    """

    biases = False
    """Whether there is a bias, which needs the distance of each pair."""
    carries = False
    """Whether there are vectors for each pair, which needs the pairs one by one, as `Edges`."""

    def turned(
        self, nodes: Float[Tensor, " *batch node key_dim"], positions: Int64[Tensor, " *position_batch node"]
    ) -> Float[Tensor, " *batch node key_dim"]:
        """Queries or keys as they take part in the score."""
        return nodes

    def bias(self, distance: Int64[Tensor, " *pair"]) -> Float[Tensor, " *pair head"]:
        """What is added to the score of a pair, where it `biases`."""
        raise NotImplementedError

    def carried(self, distance: Int64[Tensor, " edge"]) -> tuple[Tensor, Tensor]:
        """k^e and v^e of each edge, `(edge, key_dim)` and `(edge, value_dim)`, where it `carries`."""
        raise NotImplementedError


class RotaryPosition(PairPosition):
    """Turns queries and keys in the plane of two features each by an angle that grows with the position.

        q_t ← R(t) q_t,  k_t ← R(t) k_t,  R(t) the rotation by t / base^{2i/turned_dim} in plane i

    so that a dot product depends on content and on the distance of the two alone, as R(s)ᵀ R(t) = R(t − s).

    Equivariance: permutation equivariance is gone; shifting all positions alike changes nothing.

    Args:
        key_dim: size of a head's queries and keys.
        base: of the angles.
        planes: "half", feature i with feature i + turned_dim/2, as in LLaMA and GPT-NeoX; "interleaved", 2i with
            2i + 1, as in the paper.
        turned_dim: how many features, from the first on, are turned; all by default.

    Precision: angles are float32 in half precision too (float64 for float64 nodes), off by at most 2⁻²³ of themselves:
    1e-4 radians at position 1,000, 0.012 at position 100,000.
    Source: Su et al. 2021 (RoFormer), eq. 34.
    """

    def __init__(
        self,
        key_dim: int,
        base: float = 10_000.0,
        planes: Literal["half", "interleaved"] = "half",
        turned_dim: int | None = None,
    ):
        super().__init__()
        self.key_dim = count("RotaryPosition", "key_dim", key_dim)
        self.turned_dim = self.key_dim if turned_dim is None else count("RotaryPosition", "turned_dim", turned_dim)
        if self.turned_dim % 2 != 0 or self.turned_dim > key_dim:
            raise SettingError(
                f"RotaryPosition: {self.turned_dim} of {key_dim} features cannot be turned two by two; the size of a "
                "head's keys (model_dim / num_heads), or turned_dim, must be even."
            )

        require_choice("RotaryPosition", "planes", planes, ("half", "interleaved"))
        self.planes, self.base = planes, positive("RotaryPosition", "base", base)
        self.kept: tuple[tuple[str, float, int], Tensor, Tensor, Tensor] | None = None
        """The settings and the positions of the last call, and what it multiplied with."""

    def turned(self, nodes: Tensor, positions: Tensor) -> Tensor:
        if nodes.shape[-1] != self.key_dim:
            raise ShapeError(
                f"RotaryPosition: heads have {nodes.shape[-1]} features, but key_dim is {self.key_dim}; it is the size "
                "of a head's keys (model_dim / num_heads), of which turned_dim are turned."
            )
        part, unturned = nodes[..., : self.turned_dim], nodes[..., self.turned_dim :]
        # torch.compile takes no function with a forward derivative of its own, and needs none.
        turn = _Turn.forward if torch.compiler.is_compiling() else _Turn.apply
        turned = turn(part, *self._waves(positions, nodes.dtype), self.planes)
        return torch.cat([turned, unturned.expand(*turned.shape[:-1], -1)], -1) if unturned.shape[-1] > 0 else turned

    def _waves(self, positions: Tensor, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """What a feature and the other one of its plane are multiplied with."""
        is_kept = not torch.compiler.is_compiling() and _may_be_kept(positions)
        settings, kept = (self.planes, self.base, self.turned_dim), self.kept  # read once: threads share the module
        is_same = is_kept and kept is not None and kept[0] == settings and kept[2].dtype == dtype
        if is_same and kept is not None and torch.equal(kept[1], positions):
            return kept[2:]
        angles = _angles(positions, self.turned_dim, self.base, dtype)
        cos, sin = angles.cos().to(dtype), angles.sin().to(dtype)
        waves = _joined(cos, cos, self.planes), _joined(-sin, sin, self.planes)
        if is_kept:
            self.kept = (settings, positions.clone(), *waves)
        return waves

    def __getstate__(self) -> dict[str, object]:
        """Without what can be computed again."""
        return {**self.__dict__, "kept": None}


def _may_be_kept(positions: Tensor) -> bool:
    """Whether what belongs to these positions serves the next call, which mostly has the same: those of queries are
    those of keys, and of every step.

    On a GPU, comparing them would wait for it. What inference mode makes cannot take part in a training.
    """
    if type(positions) is not Tensor or positions.device.type != "cpu":
        return False
    return not torch.is_inference_mode_enabled() and not transform_at_work()


class _Turn(torch.autograd.Function):
    """Features turned in their planes: x ⊙ cos + y ⊙ ±sin, y the other feature of each plane.

    The gradient is turned back, by the same few operations."""

    generate_vmap_rule = True

    @staticmethod
    def forward(part: Tensor, cos: Tensor, sin: Tensor, planes: str) -> Tensor:
        half = part.shape[-1] // 2
        others = part.roll(half, -1) if planes == "half" else part.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
        return torch.addcmul(part * cos, others, sin)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, Tensor, Tensor, str], output: Tensor) -> None:
        part, cos, sin, ctx.planes = inputs
        ctx.shape = part.shape
        ctx.save_for_backward(cos, sin)
        ctx.save_for_forward(cos, sin)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, None, None, None]:
        cos, sin = ctx.saved_tensors
        return _Turn.apply(gradients[0], cos, -sin, ctx.planes).sum_to_size(ctx.shape), None, None, None

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        cos, sin = ctx.saved_tensors
        return _Turn.apply(tangents[0], cos, sin, ctx.planes)


def _joined(first: Tensor, second: Tensor, planes: str) -> Tensor:
    """Numbers of the first and second feature of each plane, at the places of the features."""
    return torch.cat([first, second], -1) if planes == "half" else torch.stack([first, second], -1).flatten(-2)


class ALiBi(PairPosition):
    """Subtracts the distance from the score, times a fixed slope of each head: b_ij = −m_h |i − j|.

        m_h = 2^{−8 h / H}, h = 1 … H;  where H is not a power of two: those of the power below it, then every second
        one of the power above

    Equivariance: permutation equivariance is gone; shifting all positions alike changes nothing. Meant for sequences
    longer than those trained on.

    Args:
        num_heads: H.

    Cost: a bias of O(head · query · key) numbers; over `Edges` O(head · edge).
    Source: Press et al. 2022.
    """

    biases = True

    def __init__(self, num_heads: int):
        super().__init__()
        self.num_heads = count("ALiBi", "num_heads", num_heads)

    def slopes(self, device: torch.device | str = "cpu") -> Float[Tensor, " head"]:
        """m of every head, in float32."""
        below = 2 ** math.floor(math.log2(self.num_heads))
        even_steps = 8 * torch.arange(1, below + 1, device=device)
        odd_steps = 4 * (1 + 2 * torch.arange(self.num_heads - below, device=device))
        return torch.exp2(-torch.cat([even_steps, odd_steps]).to(torch.float32) / below)

    def bias(self, distance: Tensor) -> Tensor:
        return -distance.abs()[..., None] * self.slopes(distance.device)


class T5Position(PairPosition):
    """Adds a learned number for each head and each bucket of distances: b_ij = B_{h, bucket(j − i)}.

    Half of the buckets hold one distance each; the others hold ever more, up to max_distance, the last all beyond.

    Equivariance: permutation equivariance is gone; shifting all positions alike changes nothing.

    Args:
        num_heads: H.
        num_buckets: how many numbers a head has.
        max_distance: from where on all distances share a bucket.
        is_causal: keys after the query share the bucket of distance 0; otherwise half of the buckets are theirs.

    Cost: a bias of O(head · query · key) numbers; over `Edges` O(head · edge).
    Source: Raffel et al. 2020, section 2.1, with the buckets of their code.
    """

    biases = True

    def __init__(self, num_heads: int, num_buckets: int = 32, max_distance: int = 128, is_causal: bool = False):
        super().__init__()
        num_heads = count("T5Position", "num_heads", num_heads)
        num_buckets = count("T5Position", "num_buckets", num_buckets)
        max_distance = count("T5Position", "max_distance", max_distance)
        if num_buckets < 4 or num_buckets % 2 or max_distance <= num_buckets:
            raise SettingError(
                f"T5Position: num_buckets ({num_buckets}) must be even and at least 4, and max_distance "
                f"({max_distance}) larger than it."
            )
        self.num_buckets, self.max_distance, self.is_causal = num_buckets, max_distance, is_causal
        self.table = nn.Embedding(num_buckets, num_heads)
        nn.init.normal_(self.table.weight, std=0.02)

    def bias(self, distance: Tensor) -> Tensor:
        return self.table(self.bucket(distance))

    def bucket(self, distance: Int64[Tensor, " *pair"]) -> Int64[Tensor, " *pair"]:
        """The number of the bucket that a distance falls into."""
        count = self.num_buckets if self.is_causal else self.num_buckets // 2
        apart = (-distance).clamp(min=0) if self.is_causal else distance.abs()
        near = count // 2
        far = (apart.clamp(min=1).float() / near).log() / math.log(self.max_distance / near) * (count - near)
        buckets = torch.where(apart < near, apart, (near + far.long()).clamp(max=count - 1))
        return buckets if self.is_causal else buckets + count * (distance > 0)


class ShawPosition(PairPosition):
    """Adds learned vectors of the distance to key and value: s(q_i, k_j + a_{j−i}) and v_j + b_{j−i}.

    Distances beyond max_distance count as max_distance, on either side; heads share the vectors.

    Equivariance: permutation equivariance is gone; shifting all positions alike changes nothing.

    Args:
        key_dim: size of a head's keys.
        value_dim: size of a head's values; key_dim by default.
        max_distance: how many distances on each side have vectors of their own.

    Cost: the pairs are listed as `Edges`: O(head · pair · (key_dim + value_dim)) numbers.
    Source: Shaw et al. 2018, eqs. 3 and 4.
    """

    carries = True

    def __init__(self, key_dim: int, value_dim: int | None = None, max_distance: int = 16):
        super().__init__()
        key_dim = count("ShawPosition", "key_dim", key_dim)
        value_dim = key_dim if value_dim is None else count("ShawPosition", "value_dim", value_dim)
        require_sizes("ShawPosition", 0, max_distance=max_distance)
        self.max_distance = max_distance
        number = 2 * max_distance + 1
        self.key, self.value = nn.Embedding(number, key_dim), nn.Embedding(number, value_dim)
        for table in (self.key, self.value):
            nn.init.normal_(table.weight, std=0.02)

    def carried(self, distance: Tensor) -> tuple[Tensor, Tensor]:
        row = distance.clamp(-self.max_distance, self.max_distance) + self.max_distance
        return self.key(row), self.value(row)


def first_positions(nodes: Float[Tensor, " *batch node dim"]) -> Int64[Tensor, " node"]:
    """0, 1, 2, ... for the nodes of a sequence."""
    return torch.arange(nodes.shape[-2], device=nodes.device)


def _angles(positions: Tensor, dim: int, base: float, dtype: torch.dtype) -> Tensor:
    """The angle of each pair of features, position · base^{−2i/dim} radians, in float32 or better.

    The rates are rounded once, from float64, the product once more: an angle is off by at most 2⁻²³ of itself.
    """
    exact = torch.float32 if positions.device.type == "mps" else torch.float64  # Apple's GPUs lack float64
    number = (dim + 1) // 2
    rates = torch.logspace(0, -2 * (number - 1) / dim, number, base, dtype=exact, device=positions.device)
    return positions[..., None] * rates.to(torch.promote_types(dtype, torch.float32))


def default_key_positions(
    num_queries: int, num_keys: int, start: int, positions: Tensor | None, like: Tensor
) -> Tensor:
    """Positions of new keys where they are not given: those of as many queries, else they follow on `start`."""
    if positions is not None and num_queries == num_keys:
        return positions
    return torch.arange(start, start + num_keys, device=like.device)


def default_positions(num_queries: int, key_positions: Tensor) -> Tensor:
    """Positions of queries where they are not given: those of the last new keys."""
    num_keys = key_positions.shape[-1]
    if num_queries > num_keys:
        raise ShapeError(
            f"{num_queries} queries and {num_keys} keys: with more queries than keys, positions must be given."
        )
    return key_positions[..., num_keys - num_queries :]


def distances(neighborhood: Neighborhood, positions: Tensor, key_positions: Tensor) -> Tensor:
    """How far each key stands after its query: `(edge)` for `Edges`, else `(*batch, query, key)`."""
    if isinstance(neighborhood, Edges):
        return key_positions[..., neighborhood.senders] - positions[..., neighborhood.receivers]
    return key_positions[..., None, :] - positions[..., :, None]
