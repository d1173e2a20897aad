"""The judge: the operator as plain loops over Python floats (float64). Nothing here knows the library.

A neighborhood is a list of pairs (query, key), in which a pair may stand more than once; a score is a function of two
lists of floats; a normalizer is a function from the scores of one row to its weights.
"""

import math
from collections.abc import Callable, Sequence

Vector = Sequence[float]
Pairs = Sequence[tuple[int, int]]


def attend(
    query: Sequence[Vector],
    key: Sequence[Vector],
    value: Sequence[Vector],
    pairs: Pairs,
    score: Callable[[Vector, Vector], float],
    normalize: Callable[[list[float]], list[float]],
    value_dim: int,
    bias: Vector | None = None,
    edge_key: Sequence[Vector] | None = None,
    edge_value: Sequence[Vector] | None = None,
) -> list[list[float]]:
    """o_i = Σ α_ij (v_j + v^e_ij); bias, edge_key and edge_value have one entry a pair."""
    out = []
    alpha = weights(query, key, pairs, score, normalize, bias, edge_key)
    for i in range(len(query)):
        row = [0.0] * value_dim
        for e, (receiver, j) in enumerate(pairs):
            if receiver == i:
                for d in range(value_dim):
                    extra = 0.0 if edge_value is None else edge_value[e][d]
                    row[d] += alpha[e] * (value[j][d] + extra)
        out.append(row)
    return out


def weights(
    query: Sequence[Vector],
    key: Sequence[Vector],
    pairs: Pairs,
    score: Callable[[Vector, Vector], float],
    normalize: Callable[[list[float]], list[float]],
    bias: Vector | None = None,
    edge_key: Sequence[Vector] | None = None,
) -> list[float]:
    """α of every pair."""
    alpha = [0.0] * len(pairs)
    for i in range(len(query)):
        row = [e for e, (receiver, _) in enumerate(pairs) if receiver == i]
        scores = []
        for e in row:
            k = list(key[pairs[e][1]])
            if edge_key is not None:
                k = [a + b for a, b in zip(k, edge_key[e], strict=True)]
            scores.append(score(query[i], k) + (0.0 if bias is None else bias[e]))
        for e, weight in zip(row, normalize(scores) if row else [], strict=True):
            alpha[e] = weight
    return alpha


# Scores of one pair.


def dot(query: Vector, key: Vector) -> float:
    return math.fsum(q * k for q, k in zip(query, key, strict=True))


def scaled_dot(query: Vector, key: Vector, scale: float | None = None) -> float:
    return dot(query, key) * (1 / math.sqrt(len(query)) if scale is None else scale)


def cosine(query: Vector, key: Vector) -> float:
    lengths = math.sqrt(dot(query, query)) * math.sqrt(dot(key, key))
    return 0.0 if lengths == 0 else dot(query, key) / lengths


def bilinear(query: Vector, key: Vector, weight: Sequence[Vector]) -> float:
    return math.fsum(query[a] * weight[a][b] * key[b] for a in range(len(query)) for b in range(len(key)))


def additive(query: Vector, key: Vector, vector: Vector, activation: Callable[[float], float]) -> float:
    return math.fsum(v * activation(q + k) for v, q, k in zip(vector, query, key, strict=True))


def gat(query: Vector, key: Vector, query_vector: Vector, key_vector: Vector, slope: float) -> float:
    return leaky_relu(dot(query_vector, query) + dot(key_vector, key), slope)


def gaussian(query: Vector, key: Vector, length: float) -> float:
    return -math.fsum((q - k) ** 2 for q, k in zip(query, key, strict=True)) / (2 * length**2)


def laplacian(query: Vector, key: Vector, length: float) -> float:
    return -math.sqrt(math.fsum((q - k) ** 2 for q, k in zip(query, key, strict=True))) / length


def manhattan(query: Vector, key: Vector) -> float:
    return -math.fsum(abs(q - k) for q, k in zip(query, key, strict=True))


def leaky_relu(x: float, slope: float) -> float:
    return x if x > 0 else slope * x


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x)) if x > -700 else 0.0


def silu(x: float) -> float:
    return x * sigmoid(x)


def gelu(x: float) -> float:
    return x * (1 + math.erf(x / math.sqrt(2))) / 2


# Weights of one row.


def softmax(scores: list[float], temperature: float = 1.0) -> list[float]:
    top = max(scores)
    if top == -math.inf:
        return [0.0] * len(scores)
    grown = [math.exp((s - top) / temperature) for s in scores]
    return [g / math.fsum(grown) for g in grown]


def hardmax(scores: list[float]) -> list[float]:
    top = max(scores)
    if top == -math.inf:
        return [0.0] * len(scores)
    best = [float(s == top) for s in scores]
    return [b / sum(best) for b in best]


def mean(scores: list[float]) -> list[float]:
    return [1 / len(scores)] * len(scores)


def identity(scores: list[float]) -> list[float]:
    return list(scores)


def sigmoids(scores: list[float]) -> list[float]:
    return [sigmoid(s) for s in scores]


def sparsemax(scores: list[float]) -> list[float]:
    return _above_threshold(scores, lambda s, threshold: max(s - threshold, 0.0))


def entmax15(scores: list[float]) -> list[float]:
    return _above_threshold([s / 2 for s in scores], lambda s, threshold: max(s - threshold, 0.0) ** 2)


def _above_threshold(scores: list[float], weight: Callable[[float, float], float]) -> list[float]:
    """The threshold at which the weights sum to one, by bisection: they fall as it rises."""
    top = max(scores)
    if top == -math.inf:
        return [0.0] * len(scores)
    scores = [s - top for s in scores]
    low, high = -1.0, 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if math.fsum(weight(s, middle) for s in scores) > 1 else (low, middle)
    return [weight(s, low) for s in scores]


# Neighborhoods of `num_queries` and `num_keys`.


def every_pair(num_queries: int, num_keys: int) -> list[tuple[int, int]]:
    return [(i, j) for i in range(num_queries) for j in range(num_keys)]


def windowed(num_queries: int, num_keys: int, before: float, after: float, align: str = "end") -> list[tuple[int, int]]:
    """Keys from `before` before to `after` after the query's own moment; causal is (∞, 0)."""
    shift = num_keys - num_queries if align == "end" else 0
    return [(i, j) for i, j in every_pair(num_queries, num_keys) if i + shift - before <= j <= i + shift + after]


def in_members(members: Sequence[tuple[int, int, int, int]], before: float, after: float, align: str = "end") -> Pairs:
    """The same within members, each (first query, one past the last, first key, one past the last)."""
    return [
        (first_query + i, first_key + j)
        for first_query, last_query, first_key, last_key in members
        for i, j in windowed(last_query - first_query, last_key - first_key, before, after, align)
    ]
