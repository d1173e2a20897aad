"""Random calls of the operator: every neighborhood, score, normalizer, dtype, batch shape and view."""

import math
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

import edgewise as ew
from fuzz import judge

BATCHES = [(), (), (1,), (2,), (3,), (2, 3), (2, 3), (3, 1), (2, 1, 2), (2, 2, 2), (0,), (2, 0)]
SIZES = [0, 1, 1, 2, 3, 4, 5, 7, 9]
DIMS = [1, 2, 3, 4, 5, 8, 16]
DTYPES = [torch.float64] * 3 + [torch.float32] * 5 + [torch.bfloat16, torch.float16]
ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid, "silu": F.silu, "gelu": F.gelu}


@dataclass
class Drawn:
    """One call: what the library is handed, and what the judge needs to do the same."""

    verb: str
    dtype: torch.dtype
    batch: tuple[int, ...]
    num_queries: int
    num_keys: int
    neighborhood: Any
    own: tuple[int, ...]
    """Batch axes of the neighborhood."""
    pairs: judge.Pairs
    leaves: dict[str, Tensor] = field(default_factory=dict)
    """Tensors with memory of their own."""
    views: dict[str, tuple[str, Callable[[Tensor], Tensor]]] = field(default_factory=dict)
    """For every argument, the leaf it is a view of, and how."""
    score: str = "ScaledDot"
    normalize: str = "Softmax"
    numbers: dict[str, Any] = field(default_factory=dict)
    """Settings of the score, the normalizer and the verb that are no tensors."""
    with_gradient: tuple[str, ...] = ()

    def arguments(self, leaves: dict[str, Tensor]) -> dict[str, Tensor]:
        """Every tensor argument, made of its leaf."""
        return {name: view(leaves[leaf]) for name, (leaf, view) in self.views.items()}

    def __str__(self) -> str:
        shapes = {n: (leaf, tuple(v(self.leaves[leaf]).shape)) for n, (leaf, v) in self.views.items()}
        return (
            f"{self.verb} {self.score} {self.normalize} {self.numbers} {self.dtype} {self.batch} "
            f"{self.num_queries}x{self.num_keys} {self.neighborhood!r} {shapes} gradients of {self.with_gradient}"
        )


class Draw:
    """Draws calls, the same for the same seed."""

    def __init__(self, seed: int):
        self.random = random.Random(seed)
        self.generator = torch.Generator().manual_seed(seed)

    def call(self) -> Drawn:
        """One call."""
        pick = self.random.choice
        batch, num_queries, num_keys = pick(BATCHES), pick(SIZES), pick(SIZES)
        if self.random.random() < 0.02:
            num_queries, num_keys = self.random.randint(30, 300), self.random.randint(30, 300)
        own = self._part_of(batch)
        neighborhood, pairs, own = self._neighborhood(own, num_queries, num_keys)
        verb = pick(["attend"] * 7 + ["aggregate"] * 2 + ["attention_weights"] * 2)
        drawn = Drawn(verb, pick(DTYPES), batch, num_queries, num_keys, neighborhood, own, pairs)
        key_dim, value_dim = pick(DIMS), pick(DIMS)
        self._tensors(drawn, key_dim, value_dim)
        if verb != "aggregate":
            self._score(drawn, key_dim)
            self._normalizer(drawn)
        self._poison(drawn)
        names = sorted(drawn.leaves)
        some = self.random.random() < 0.3
        drawn.with_gradient = tuple(n for n in names if not some or self.random.random() < 0.5)
        drawn.numbers["second"] = drawn.dtype in (torch.float32, torch.float64) and self.random.random() < 0.5
        return drawn

    # Neighborhoods.

    def _neighborhood(self, own: tuple[int, ...], rows: int, columns: int) -> tuple[Any, judge.Pairs, tuple[int, ...]]:
        kind = self.random.choice(["ranges"] * 4 + ["edges"] * 4 + ["mask"] * 2 + ["joined"])
        if kind == "edges":
            number = self.random.choice([0, 1, 3, 8, 20, rows * columns]) if rows and columns else 0
            senders = [self.random.randrange(columns) for _ in range(min(number, 3000))]
            receivers = [self.random.randrange(rows) for _ in senders]
            edges = _edges(senders, receivers, columns, rows)
            return edges, [[(i, j, e) for e, (i, j) in enumerate(zip(receivers, senders))]], ()
        if kind == "joined":
            first, left, own_left = self._set(own, rows, columns)
            second, right, own_right = self._set(own, rows, columns)
            shape = torch.broadcast_shapes(own_left, own_right)
            joined = first & second if (joins := self.random.random() < 0.5) else first | second
            members = [
                a & b if joins else a | b
                for a, b in zip(_spread(left, own_left, shape), _spread(right, own_right, shape))
            ]
            return joined, _cells(members, columns), tuple(shape)
        made, members, own = self._ranges(own, rows, columns) if kind == "ranges" else self._mask(own, rows, columns)
        return made, _cells(members, columns), own

    def _set(self, own: tuple[int, ...], rows: int, columns: int) -> tuple[Any, list[set], tuple[int, ...]]:
        """A part of a union or intersection. Ranges joined with ranges mean something else, so one kind is plain."""
        if self.random.random() < 0.5 or not rows or not columns:
            return self._mask(own, rows, columns)
        pairs = [(self.random.randrange(rows), self.random.randrange(columns)) for _ in range(rows)]
        return _edges([j for _, j in pairs], [i for i, _ in pairs], columns, rows), [set(pairs)], ()

    def _mask(self, own: tuple[int, ...], rows: int, columns: int) -> tuple[Any, list[set], tuple[int, ...]]:
        shape = (*own, rows if self.random.random() < 0.7 else 1, columns if self.random.random() < 0.9 else 1)
        share = self.random.choice([0.0, 0.3, 0.6, 0.9, 1.0])
        mask = torch.rand(shape, generator=self.generator) < share
        whole = mask.expand(*own, rows, columns).reshape(math.prod(own), rows, columns)
        sized = ew.Mask(mask) if self.random.random() < 0.8 else ew.Mask(mask.expand(*own, rows, columns))
        return sized, [{(i, j) for i, j in member.nonzero().tolist()} for member in whole], own

    def _ranges(self, own: tuple[int, ...], rows: int, columns: int) -> tuple[Any, list[set], tuple[int, ...]]:
        align: Any = self.random.choice(["end", "start"])
        before, after = self.random.choice([(math.inf, math.inf), (math.inf, 0), (1, 2), (0, 0), (3, 1)])
        moving = ew.Full() if after == math.inf else ew.Causal(align) if after == 0 and before else None
        moving = moving or ew.Window(int(before), int(after), align)
        frame = self.random.choice(["none", "lengths", "both", "segments", "crossed"])
        number = math.prod(own)
        if frame == "none":
            return moving, [_windowed([(0, rows, 0, columns)], before, after, align)], ()
        if frame in ("lengths", "both"):
            keys = [self.random.randint(0, columns) for _ in range(number)]
            queries = [self.random.randint(0, rows) for _ in range(number)] if frame == "both" else None
            given = None if queries is None else torch.tensor(queries, dtype=torch.int64).view(own)
            made = ew.Lengths(torch.tensor(keys, dtype=torch.int64).view(own), given)
            members = []
            for m, length in enumerate(keys):
                last = queries[m] if queries else length if rows == columns else rows
                found = _windowed([(0, last, 0, length)], before, after, align, rows if queries is None else last)
                members.append(found)
        else:
            count = self.random.randint(0, 3)
            queries_at = [self._offsets(count, rows) for _ in range(number)]
            keys_at = [self._offsets(count, columns) for _ in range(number)] if frame == "crossed" else queries_at
            if frame == "segments" and rows > columns:
                queries_at = keys_at = [self._offsets(count, columns) for _ in range(number)]
            shaped = [torch.tensor(x, dtype=torch.int64).view(*own, count + 1) for x in (queries_at, keys_at)]
            made = ew.Segments(shaped[0]) if frame == "segments" else ew.Segments(*shaped)
            members = [
                _windowed([(*q, *k) for q, k in zip(pairwise(a), pairwise(b))], before, after, align)
                for a, b in zip(queries_at, keys_at)
            ]
        if type(moving) is ew.Full and self.random.random() < 0.5:
            return made, members, own
        return (moving & made if self.random.random() < 0.5 else made & moving), members, own

    def _offsets(self, count: int, size: int) -> list[int]:
        return sorted(self.random.randint(0, size) for _ in range(count + 1))

    # Tensors.

    def _tensors(self, drawn: Drawn, key_dim: int, value_dim: int) -> None:
        is_list = isinstance(drawn.neighborhood, ew.Edges)
        queries, keys = (drawn.num_queries, key_dim), (drawn.num_keys, key_dim)
        values = (drawn.num_keys, value_dim)
        if drawn.verb != "aggregate":
            self._leaf(drawn, "query", *queries)
            if queries == keys and self.random.random() < 0.15:
                drawn.views["key"] = drawn.views["query"]
            else:
                self._leaf(drawn, "key", *keys)
        if drawn.verb != "attention_weights":
            if drawn.verb == "attend" and values == keys and self.random.random() < 0.3:
                drawn.views["value"] = drawn.views["key"]
            else:
                self._leaf(drawn, "value", *values)
        number = drawn.neighborhood.num_edges if is_list else 0
        if is_list and drawn.verb != "aggregate" and self.random.random() < 0.3:
            self._leaf(drawn, "edge_key", number, key_dim)
        if is_list and drawn.verb != "attention_weights" and self.random.random() < 0.3:
            self._leaf(drawn, "edge_value", number, value_dim)
        if drawn.verb != "aggregate" and self.random.random() < 0.4:
            if is_list:
                self._leaf(drawn, "bias", number)
            else:
                shape = (drawn.num_queries, drawn.num_keys)
                self._leaf(drawn, "bias", *(1 if self.random.random() < 0.15 else size for size in shape))

    def _leaf(self, drawn: Drawn, name: str, *shape: int, positive: bool = False) -> None:
        """A tensor of some of the batch axes, as a view of one that owns its memory."""
        batch = self._part_of(drawn.batch)
        whole = (*batch, *shape)
        view: Callable[[Tensor], Tensor] = lambda x: x  # noqa: E731
        stored = whole
        kind = self.random.choice(["plain", "plain", "nodes first", "step", "slice", "expand"])
        if kind == "nodes first" and len(whole) >= 3:
            stored = (*whole[:-3], whole[-2], whole[-3], whole[-1])
            view = lambda x: x.transpose(-2, -3)  # noqa: E731
        elif kind == "step" and whole:
            stored = (*whole[:-1], 2 * whole[-1])
            view = lambda x: x[..., ::2]  # noqa: E731
        elif kind == "slice" and whole:
            stored = (*whole[:-1], whole[-1] + 3)
            view = lambda x: x[..., 1:-2]  # noqa: E731
        elif kind == "expand" and batch:
            stored = (*(1 for _ in batch), *shape)
            view = lambda x: x.expand(whole)  # noqa: E731
        x = torch.randn(stored, dtype=torch.float64, generator=self.generator)
        x = x.abs() + 0.5 if positive else x * self.random.choice([1.0, 1.0, 1.0, 3.0, 0.1])
        drawn.leaves[name] = x.to(drawn.dtype)
        drawn.views[name] = (name, view)

    def _part_of(self, batch: tuple[int, ...]) -> tuple[int, ...]:
        """Some of the batch axes: leading ones left out, others of size 1."""
        if self.random.random() < 0.5:
            return batch
        part = batch[self.random.randint(0, len(batch)) :]
        return tuple(1 if self.random.random() < 0.4 else size for size in part)

    def _score(self, drawn: Drawn, key_dim: int) -> None:
        names = ["ScaledDot"] * 3 + ["Dot", "Cosine", "Bilinear", "Additive", "GATv2", "GAT", "Distance", "Constant"]
        drawn.score = self.random.choice([*names, "own"])
        if drawn.score == "ScaledDot":
            drawn.numbers["scale"] = self.random.choice([None, None, 0.3, -0.5])
        if drawn.score in ("Additive", "GATv2"):
            self._leaf(drawn, "vector", key_dim)
            drawn.numbers["activation"] = self.random.choice(list(ACTIVATIONS))
        if drawn.score == "GAT":
            self._leaf(drawn, "query_vector", key_dim)
            self._leaf(drawn, "key_vector", key_dim)
        if drawn.score == "Bilinear":
            self._leaf(drawn, "weight", key_dim, key_dim)
        if drawn.score == "Distance":
            drawn.numbers["kind"] = self.random.choice(["gaussian", "laplacian"])
            if self.random.random() < 0.5:
                self._leaf(drawn, "length", positive=True)
        if drawn.score == "Constant" and "bias" in drawn.views and self.random.random() < 0.5:
            drawn.leaves["edge_weight"] = drawn.leaves.pop("bias")
            drawn.views["edge_weight"] = ("edge_weight", drawn.views.pop("bias")[1])

    def _normalizer(self, drawn: Drawn) -> None:
        names = ["Softmax"] * 5 + ["Hardmax", "Sparsemax", "Entmax15", "Sigmoid", "Mean", "Identity"]
        drawn.normalize = self.random.choice(names)
        if drawn.normalize == "Softmax":
            drawn.numbers["temperature"] = self.random.choice([1.0, 1.0, 0.3, 2.0, 0, math.inf])
            if self.random.random() < 0.2:
                self._leaf(drawn, "temperature", positive=True)
        if drawn.normalize == "Hardmax":
            drawn.numbers["straight_through"] = self.random.random() < 0.5
        if drawn.normalize != "Identity" and "bias" in drawn.leaves and self.random.random() < 0.3:
            shut = torch.rand(drawn.leaves["bias"].shape, generator=self.generator) < 0.3
            drawn.leaves["bias"].masked_fill_(shut, -math.inf)

    def _poison(self, drawn: Drawn) -> None:
        """NaN and infinity where nothing attends: keys without a query, queries without a key."""
        if self.random.random() < 0.7:
            return
        bad = self.random.choice([math.nan, math.inf, -math.inf])
        seen_keys = {j for member in drawn.pairs for _, j, _ in member}
        seen_queries = {i for member in drawn.pairs for i, _, _ in member}
        if drawn.views.get("key") == drawn.views.get("query") or drawn.views.get("value") == drawn.views.get("query"):
            return
        for names, seen, size in (
            (("key", "value"), seen_keys, drawn.num_keys),
            (("query",), seen_queries, drawn.num_queries),
        ):
            for name in {drawn.views[n][0] for n in names if n in drawn.views}:
                for node in set(range(size)) - seen:
                    _writable(drawn, name)[..., node, :] = bad
        is_table = not isinstance(drawn.neighborhood, ew.Edges)
        if is_table and "bias" in drawn.leaves:
            table = _writable(drawn, "bias")
            if table.shape[-2:] == (drawn.num_queries, drawn.num_keys):
                allowed = {(i, j) for member in drawn.pairs for i, j, _ in member}
                for i in range(drawn.num_queries):
                    for j in range(drawn.num_keys):
                        if (i, j) not in allowed:
                            table[..., i, j] = bad


def _edges(senders: list[int], receivers: list[int], num_senders: int, num_receivers: int) -> ew.Edges:
    both = (torch.tensor(x, dtype=torch.int64) for x in (senders, receivers))
    return ew.Edges(*both, num_senders, num_receivers)


def _writable(drawn: Drawn, name: str) -> Tensor:
    """The view of a leaf, or the leaf itself where the view repeats it."""
    leaf, view = drawn.leaves[name], drawn.views[name][1]
    return leaf if view(leaf).numel() > leaf.numel() else view(leaf)


def _windowed(members: Any, before: float, after: float, align: str, rows: int | None = None) -> set[tuple[int, int]]:
    """Pairs within members (first and last query, first and last key); queries up to `rows` where it is given."""
    found = set()
    for q0, q1, k0, k1 in members:
        for i in range(q0, q1 if rows is None else rows):
            at = i + k1 - q1 if align == "end" else i - q0 + k0
            found |= {(i, j) for j in range(k0, k1) if at - before <= j <= at + after}
    return found


def _spread(members: list[set], own: tuple[int, ...], shape: tuple[int, ...]) -> Iterator[set]:
    """The members of each place of a larger batch."""
    places = torch.arange(len(members)).view(own).expand(shape).flatten().tolist()
    return (members[place] for place in places)


def _cells(members: list[set], columns: int) -> judge.Pairs:
    return [sorted((i, j, i * columns + j) for i, j in member) for member in members]
