"""The judge of random calls: the operator over a padded list of pairs, in plain torch, any dtype, any derivative.

Every query has as many slots as the longest neighborhood. A slot holds a key and the place of its bias or edge; the
slots that are left over are shut. Nothing here calls the library.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

Pairs = list[list[tuple[int, int, int]]]
"""For every member of the neighborhood's batch: (query, key, place), place counted over edges or cells."""


class Slots:
    """The pairs of all members as tables `(member, query, slot)`."""

    def __init__(self, members: Pairs, num_queries: int):
        rows = [[[p for p in member if p[0] == i] for i in range(num_queries)] for member in members]
        width = max((len(row) for member in rows for row in member), default=0)
        self.key = torch.zeros(len(members), num_queries, width, dtype=torch.int64)
        self.place = torch.zeros_like(self.key)
        self.open = torch.zeros_like(self.key, dtype=torch.bool)
        for m, member in enumerate(rows):
            for i, row in enumerate(member):
                for p, (_, key, place) in enumerate(row):
                    self.key[m, i, p], self.place[m, i, p], self.open[m, i, p] = key, place, True

    def over(self, own: tuple[int, ...], batch: torch.Size) -> tuple[Tensor, Tensor, Tensor]:
        """Key, place and open of every member of the batch of a call, `(*batch, query, slot)`."""
        shape = self.key.shape[1:]
        key, place, is_open = (x.view(*own, *shape).expand(*batch, *shape) for x in (self.key, self.place, self.open))
        return key, place, is_open


def attend(
    slots: Slots,
    own: tuple[int, ...],
    batch: torch.Size,
    tensors: dict[str, Tensor],
    score: Callable[[Tensor, Tensor], Tensor],
    normalize: Callable[[Tensor, Tensor], Tensor],
) -> tuple[Tensor, Tensor]:
    """The output `(*batch, query, value_dim)` and the weights `(*batch, query, slot)`, over the whole batch."""
    key_of, place, is_open = slots.over(own, batch)
    query = tensors["query"]
    query = query.expand(*batch, *query.shape[-2:]).unsqueeze(-2)
    key = _rows(tensors["key"], key_of, batch)
    if "edge_key" in tensors:
        key = key + _rows(tensors["edge_key"], place, batch)
    cell = is_open.unsqueeze(-1)
    scores = score(torch.where(cell, query, 0.0), torch.where(cell, key, 0.0))
    if "bias" in tensors:
        scores = scores + torch.where(is_open, _rows(tensors["bias"].unsqueeze(-1), place, batch).squeeze(-1), 0.0)
    weights = torch.where(is_open, normalize(scores, is_open), 0.0)
    value = _carried(tensors, key_of, place, is_open, batch)
    return (weights.unsqueeze(-1) * value).sum(-2), weights


def aggregate(slots: Slots, own: tuple[int, ...], batch: torch.Size, tensors: dict[str, Tensor], how: str) -> Tensor:
    """The sum, mean, max or min of the values of every neighborhood, 0 where it is empty."""
    key_of, place, is_open = slots.over(own, batch)
    value = _carried(tensors, key_of, place, is_open, batch)
    count = is_open.sum(-1, keepdim=True)
    if how in ("sum", "mean") or value.shape[-2] == 0:
        return value.sum(-2) / (count.clamp(min=1) if how == "mean" else 1)
    sign = 1 if how == "max" else -1
    largest = torch.where(is_open.unsqueeze(-1), sign * value, -math.inf).amax(-2)
    return torch.where(count > 0, sign * largest, 0.0)


def to_dense(slots: Slots, own: tuple[int, ...], weights: Tensor, num_keys: int) -> Tensor:
    """The weights of the slots as a table `(*batch, query, key)`."""
    key_of, _, _ = slots.over(own, weights.shape[:-2])
    return weights.new_zeros(*weights.shape[:-1], num_keys).scatter_add(-1, key_of, weights)


def _carried(tensors: dict[str, Tensor], key_of: Tensor, place: Tensor, is_open: Tensor, batch: Any) -> Tensor:
    value = _rows(tensors["value"], key_of, batch)
    if "edge_value" in tensors:
        value = value + _rows(tensors["edge_value"], place, batch)
    return torch.where(is_open.unsqueeze(-1), value, 0.0)


def _rows(x: Tensor, index: Tensor, batch: torch.Size) -> Tensor:
    """`x[index]` along the nodes: `(*batch, node, feature)` at `(*batch, query, slot)`."""
    if x.shape[-2] == 0 or index.numel() == 0:
        return x.new_zeros(*index.shape, x.shape[-1]) + x.sum() * 0
    x = x.expand(*batch, *x.shape[-2:])
    flat = index.reshape(*batch, -1, 1).expand(*batch, -1, x.shape[-1])
    return x.gather(-2, flat).reshape(*index.shape, x.shape[-1])


# Scores of `(*batch, query, 1, key_dim)` and `(*batch, query, slot, key_dim)`; parameters `(*batch, …)`.


def product(query: Tensor, key: Tensor, scale: float | None) -> Tensor:
    return (query * key).sum(-1) * (1 / math.sqrt(query.shape[-1]) if scale is None else scale)


def cosine(query: Tensor, key: Tensor) -> Tensor:
    squares = query.square().sum(-1) * key.square().sum(-1)
    return torch.where(squares == 0, 0.0, (query * key).sum(-1) / torch.where(squares == 0, 1.0, squares).sqrt())


def bilinear(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    return ((query.unsqueeze(-2) @ weight[..., None, None, :, :]).squeeze(-2) * key).sum(-1)


def additive(query: Tensor, key: Tensor, vector: Tensor, activation: Callable[[Tensor], Tensor]) -> Tensor:
    return (vector[..., None, None, :] * activation(query + key)).sum(-1)


def gat(query: Tensor, key: Tensor, query_vector: Tensor, key_vector: Tensor, slope: float) -> Tensor:
    left = (query_vector[..., None, None, :] * query).sum(-1)
    return F.leaky_relu(left + (key_vector[..., None, None, :] * key).sum(-1), slope)


def distance(query: Tensor, key: Tensor, length: Tensor | float, kind: str) -> Tensor:
    length = length[..., None, None] if isinstance(length, Tensor) else length
    squares = (query - key).square().sum(-1)
    if kind == "gaussian":
        return -squares / (2 * length**2)
    return -torch.where(squares == 0, 0.0, torch.where(squares == 0, 1.0, squares).sqrt()) / length


# Weights of `(*batch, query, slot)`, of which some are open.


def softmax(scores: Tensor, is_open: Tensor, temperature: Tensor | float = 1.0) -> Tensor:
    temperature = temperature[..., None, None] if isinstance(temperature, Tensor) else temperature
    alive = is_open & (scores > -math.inf)
    scores = torch.where(alive, scores, 0.0)
    top = torch.where(alive, scores, -math.inf).amax(-1, keepdim=True).detach() if scores.shape[-1] else scores
    grown = torch.where(alive, ((scores - torch.where(top == -math.inf, 0.0, top)) / temperature).exp(), 0.0)
    total = grown.sum(-1, keepdim=True)
    return grown / torch.where(total == 0, 1.0, total)


def hardmax(scores: Tensor, is_open: Tensor, straight_through: bool = False) -> Tensor:
    alive = torch.where(is_open, scores, -math.inf)
    top = alive.amax(-1, keepdim=True) if scores.shape[-1] else alive
    best = ((alive == top) & (alive > -math.inf)).to(scores.dtype)
    hard = best / best.sum(-1, keepdim=True).clamp(min=1)
    soft = softmax(scores, is_open)
    return hard + (soft - soft.detach()) if straight_through else hard


def simplex(scores: Tensor, is_open: Tensor, power: int) -> Tensor:
    """Sparsemax (power 1) and entmax 1.5 (power 2): max(s/power − τ, 0)^power, τ by trying every size of support."""
    alive = is_open & (scores > -math.inf)
    if not scores.shape[-1]:
        return scores
    x = torch.where(alive, scores, 0.0) / power
    top = torch.where(alive, x, -math.inf).amax(-1, keepdim=True).detach()
    x = torch.where(alive, x - torch.where(top == -math.inf, 0.0, top), -1e3)
    ordered = x.detach().double().sort(-1, descending=True).values
    count = torch.arange(1, x.shape[-1] + 1, dtype=torch.float64)
    mean = ordered.cumsum(-1) / count
    if power == 1:
        threshold = mean - 1 / count
    else:
        spread = (ordered.square().cumsum(-1) / count - mean.square()) * count
        threshold = torch.where(spread <= 1, mean - ((1 - spread).clamp(min=0) / count).sqrt(), math.inf)
    # The support is the largest set whose smallest member still lies above the threshold.
    size = (ordered > threshold).to(torch.int64).mul(torch.arange(1, x.shape[-1] + 1)).amax(-1, keepdim=True)
    support = alive & (x.detach().double() >= ordered.gather(-1, (size - 1).clamp(min=0)))
    inside = torch.where(support, x, 0.0)
    number = support.sum(-1, keepdim=True).clamp(min=1).to(x.dtype)
    mean = inside.sum(-1, keepdim=True) / number
    if power == 1:
        return torch.where(support, x - mean + 1 / number, 0.0).clamp(min=0)
    spread = torch.where(support, x - mean, 0.0).square().sum(-1, keepdim=True)
    radius = ((1 - spread).clamp(min=torch.finfo(x.dtype).tiny) / number).sqrt()
    return torch.where(support, x - mean + radius, 0.0).clamp(min=0).square()


def mean(scores: Tensor, is_open: Tensor) -> Tensor:
    return is_open.to(scores.dtype) / is_open.sum(-1, keepdim=True).clamp(min=1)
