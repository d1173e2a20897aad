"""The same mathematics in plain torch, as one would write it without a library: the peers that torch.compile gets too.

Over edges: gather both ends of every edge, score, normalize over each receiver, add up. Features lie as
`(node, head, feature)`. Over all pairs: the table of scores, then a matrix product. Features lie as
`(*batch, node, feature)`.
"""

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def dot(query: Tensor, key: Tensor, value: Tensor, senders: Tensor, receivers: Tensor) -> Tensor:
    """softmax(q·k / √d) over the edges of each receiver."""
    scores = (query.index_select(0, receivers) * key.index_select(0, senders)).sum(-1) / math.sqrt(key.shape[-1])
    return weighted_sum(scores, value, senders, receivers, len(query))


def gatv2(query: Tensor, key: Tensor, vector: Tensor, senders: Tensor, receivers: Tensor) -> Tensor:
    """softmax(a · LeakyReLU(q + k)) over the edges of each receiver; keys are the values."""
    both = query.index_select(0, receivers) + key.index_select(0, senders)
    scores = (vector * F.leaky_relu(both, 0.2)).sum(-1)
    return weighted_sum(scores, key, senders, receivers, len(query))


def gat(nodes: Tensor, query_vector: Tensor, key_vector: Tensor, senders: Tensor, receivers: Tensor) -> Tensor:
    """softmax(LeakyReLU(a·x_i + b·x_j)) over the edges of each receiver."""
    left, right = (nodes * query_vector).sum(-1), (nodes * key_vector).sum(-1)
    scores = F.leaky_relu(left.index_select(0, receivers) + right.index_select(0, senders), 0.2)
    return weighted_sum(scores, nodes, senders, receivers, len(nodes))


def convolve(nodes: Tensor, weight: Tensor, senders: Tensor, receivers: Tensor) -> Tensor:
    """Σ_j w_ij x_j, features `(node, feature)`."""
    return torch.zeros_like(nodes).index_add(0, receivers, weight.unsqueeze(-1) * nodes.index_select(0, senders))


def mean(nodes: Tensor, degrees: Tensor, senders: Tensor, receivers: Tensor) -> Tensor:
    """The mean over the edges of each receiver, 0 where it has none."""
    total = torch.zeros_like(nodes).index_add(0, receivers, nodes.index_select(0, senders))
    return total / degrees.clamp(min=1).unsqueeze(-1)


def weighted_sum(scores: Tensor, value: Tensor, senders: Tensor, receivers: Tensor, num_receivers: int) -> Tensor:
    """Softmax over each receiver, then the sum of the values with these weights."""
    index = receivers.unsqueeze(-1).expand_as(scores)
    floor = scores.new_full((num_receivers, scores.shape[1]), -math.inf)
    largest = floor.scatter_reduce(0, index, scores.detach(), "amax")
    grown = torch.exp(scores - largest.index_select(0, receivers))
    total = torch.zeros_like(floor).index_add(0, receivers, grown)
    weights = grown / total.index_select(0, receivers)
    out = value.new_zeros(num_receivers, *value.shape[1:])
    return out.index_add(0, receivers, weights.unsqueeze(-1) * value.index_select(0, senders))


def additive(query: Tensor, key: Tensor, value: Tensor, vector: Tensor) -> Tensor:
    """softmax(v · tanh(q + k)) over all keys."""
    scores = (vector * torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))).sum(-1)
    return scores.softmax(-1) @ value


def cosine(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """softmax(q·k / (‖q‖ ‖k‖)) over all keys."""
    scores = F.normalize(query, dim=-1) @ F.normalize(key, dim=-1).transpose(-2, -1)
    return scores.softmax(-1) @ value


def cosine_sdpa(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """The same through torch's fused kernel."""
    query, key = F.normalize(query, dim=-1), F.normalize(key, dim=-1)
    return F.scaled_dot_product_attention(query, key, value, scale=1.0)


def hard(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """All weight on the key with the largest q·k / √d; the gradient is that of softmax (straight through)."""
    scores = query @ key.transpose(-2, -1) / math.sqrt(key.shape[-1])
    soft = scores.softmax(-1)
    picked = F.one_hot(scores.argmax(-1), key.shape[-2]).to(soft.dtype)
    return (picked + (soft - soft.detach())) @ value
