"""Names, offsets and types of edges: what holds of them in every graph, and what follows from them."""

from collections.abc import Hashable
from itertools import pairwise

import torch
from torch import Tensor

from edgewise.errors import ShapeError
from edgewise.neighborhood import Edges, Types
from edgewise.neighborhood.index import one_way

REVERSE = "rev_"
"""What PyTorch Geometric puts before the name of the edges the other way."""


def graph_of(offsets: Tensor, nodes: Tensor) -> Tensor:
    """The graph of each of some nodes."""
    return torch.searchsorted(offsets[1:], nodes, right=True)


def numbered(offsets: Tensor | None, num_nodes: int) -> list[int]:
    """The names of nodes without names: their numbers within their graph."""
    held = [0, num_nodes] if offsets is None else offsets.tolist()
    return [node for start, stop in pairwise(held) for node in range(stop - start)]


def checked_names(names: tuple[Hashable, ...], graph_of_node: list[int]) -> tuple[Hashable, ...] | None:
    """The names; None where they are the numbers within each graph."""
    first: dict[tuple[int, Hashable], int] = {}
    starts: dict[int, int] = {}
    for place, (graph, name) in enumerate(zip(graph_of_node, names)):
        starts.setdefault(graph, place)
        if name is None:
            raise ShapeError(f"Graph: node {place} is called None; give it a name.")
        if first.setdefault((graph, name), place) != place:
            raise ShapeError(
                f"Graph: nodes {first[graph, name]} and {place} are both called {name!r}, names must differ; number "
                "them: names=[f'{place} {name}' for place, name in enumerate(names)]."
            )
    are_numbers = all(
        type(name) is int and name == place - starts[graph]
        for place, (graph, name) in enumerate(zip(graph_of_node, names))
    )
    return None if are_numbers else names


def check_offsets(offsets: Tensor, edges: Edges) -> None:
    """Raise a ShapeError unless the offsets cut the nodes into graphs that no edge leaves."""
    held, size = offsets.tolist() if isinstance(offsets, Tensor) else offsets, edges.num_senders
    if not isinstance(offsets, Tensor) or offsets.dtype != torch.int64 or offsets.dim() != 1 or len(held) < 2:
        raise ShapeError(f"Graph: offsets must be int64 (graph + 1), not {held}.")
    if held[0] != 0 or held[-1] != size or any(start > stop for start, stop in pairwise(held)):
        raise ShapeError(f"Graph: offsets must rise from 0 to {size}, the number of nodes, not {held}.")
    ends = graph_of(offsets, edges.senders), graph_of(offsets, edges.receivers)
    if not torch.equal(*ends):
        edge = int((ends[0] != ends[1]).nonzero()[0])
        raise ShapeError(f"Graph: edge {edge} goes from graph {int(ends[0][edge])} to graph {int(ends[1][edge])}.")


def plain_relations(types: Types, edges: Edges) -> Types:
    """The types of edges that have no names of their own, as PyTorch Geometric calls them."""
    code = types.of_row[edges.senders] * types.num_types + types.of_row[edges.receivers]
    found, of_row = code.unique(return_inverse=True)
    called = types.names or ()
    names = [(called[one // types.num_types], "to", called[one % types.num_types]) for one in found.tolist()]
    return Types(of_row, len(names), tuple(names))


def check_relations(types: Types, edges: Edges, relations: Types) -> None:
    """Raise a ShapeError unless each type of edges names the types of the nodes that its edges join."""
    called = types.names or ()
    for name in relations.names or (None,):
        if not (isinstance(name, tuple) and len(name) == 3 and name[0] in called and name[2] in called):
            raise ShapeError(
                f"Graph: the edge type {name!r} does not name the nodes it joins; as node types have names, name it "
                "(type of sender, name, type of receiver)."
            )
    for place, side in ((0, edges.senders), (2, edges.receivers)):
        named = [called.index(name[place]) for name in relations.names or () if isinstance(name, tuple)]
        expected = torch.tensor(named, dtype=torch.int64, device=side.device)[relations.of_row]
        if not torch.equal(expected, types.of_row[side]):
            edge = int((expected != types.of_row[side]).nonzero()[0])
            raise ShapeError(
                f"Graph: edge {edge} is of the type {(relations.names or ())[int(relations.of_row[edge])]}, but it "
                f"{'comes from' if place == 0 else 'goes to'} a node of type {called[int(types.of_row[side][edge])]!r}."
            )


def other_ways(edges: Edges, types: Types | None) -> tuple[Tensor, Types | None]:
    """The edges that have no other way, and the types of all edges with those behind them that go the other way."""
    senders, receivers, size = edges.senders, edges.receivers, edges.num_senders
    if types is None:
        return one_way(senders, receivers, size), None
    other, names = _reverses(types)
    pairs = torch.tensor([min(one, back) for one, back in enumerate(other)], dtype=torch.int64, device=senders.device)
    added = one_way(senders, receivers, size, pairs[types.of_row])
    of_added = torch.tensor(other, dtype=torch.int64, device=senders.device)[types.of_row[added]]
    return added, Types(torch.cat([types.of_row, of_added]), len(other if names is None else names), names)


def _reverses(types: Types) -> tuple[list[int], tuple[Hashable, ...] | None]:
    """The number of each type's other way, and the names with those that this needs."""
    if types.names is None or not all(isinstance(name, tuple) and len(name) == 3 for name in types.names):
        return list(range(types.num_types)), types.names
    names, other = list(types.names), []
    for name in types.names:
        assert isinstance(name, tuple)
        sender, called, receiver = name
        back = called.removeprefix(REVERSE) if str(called).startswith(REVERSE) else f"{REVERSE}{called}"
        reverse = name if sender == receiver else (receiver, back, sender)
        names += [] if reverse in names else [reverse]
        other.append(names.index(reverse))
    return other, tuple(names)
