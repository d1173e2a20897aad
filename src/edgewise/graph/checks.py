"""Checks of the names, offsets and types of a graph, and what follows from them."""

from collections.abc import Hashable, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor

from edgewise.errors import ShapeError, plural
from edgewise.neighborhood import Edges, Types
from edgewise.neighborhood.index import one_way

REVERSE = "rev_"
"""The prefix of reverse edge types in PyTorch Geometric."""


def require_parts(edges: Any, names: Any, types: dict[str, Any]) -> None:
    """Raise a ShapeError where the edges, names or types of a graph are something else, such as an edge_index."""
    if not isinstance(edges, Edges):
        came = f"a tensor {tuple(edges.shape)} of {edges.dtype}" if isinstance(edges, Tensor) else type(edges).__name__
        raise ShapeError(
            f"Graph: edges must be Edges, not {came}; Graph.of((node_features, edge_index)) takes an edge_index (2, "
            "edge), after the features of nodes."
        )
    if isinstance(names, str | bytes):  # which Python would split into its characters
        raise ShapeError(f"Graph: names is one text, {names!r}; give a list with the name of each node.")
    for name, given in types.items():
        if not isinstance(given, Types | None):
            raise ShapeError(f"Graph: {name} must be Types, not {type(given).__name__}; Types.of({name}) makes them.")


def graph_of(offsets: Tensor, nodes: Tensor) -> Tensor:
    """The graph of each node."""
    return torch.searchsorted(offsets[1:], nodes, right=True)


def numbered(offsets: Tensor | None, num_nodes: int) -> list[int]:
    """The names of unnamed nodes: their indices within their graph."""
    bounds = [0, num_nodes] if offsets is None else offsets.tolist()
    return [node for start, stop in pairwise(bounds) for node in range(stop - start)]


def checked_names(names: tuple[Hashable, ...], graph_of_node: list[int]) -> tuple[Hashable, ...] | None:
    """The names; None if they are the indices within each graph."""
    first_node: dict[tuple[int, Hashable], int] = {}
    starts: dict[int, int] = {}
    for node, (graph, name) in enumerate(zip(graph_of_node, names)):
        starts.setdefault(graph, node)
        if name is None:
            raise ShapeError(f"Graph: node {node} is named None; give it a name.")
        if first_node.setdefault((graph, name), node) != node:
            raise ShapeError(
                f"Graph: nodes {first_node[graph, name]} and {node} are both named {name!r}, but names must be "
                f"unique; number "
                "them: names=[f'{place} {name}' for place, name in enumerate(names)]."
            )

    are_numbers = all(
        type(name) is int and name == node - starts[graph]
        for node, (graph, name) in enumerate(zip(graph_of_node, names))
    )
    return None if are_numbers else names


def check_offsets(offsets: Tensor, edges: Edges) -> None:
    """Raise a ShapeError unless the offsets split the nodes into graphs without edges between them."""
    bounds, size = offsets.tolist() if isinstance(offsets, Tensor) else offsets, edges.num_senders
    if not isinstance(offsets, Tensor) or offsets.dtype != torch.int64 or offsets.dim() != 1 or len(bounds) < 2:
        raise ShapeError(f"Graph: offsets must be int64 (graph + 1), not {bounds}.")
    if bounds[0] != 0 or bounds[-1] != size or any(start > stop for start, stop in pairwise(bounds)):
        raise ShapeError(f"Graph: offsets must rise from 0 to {size}, the number of nodes, not {bounds}.")
    ends = graph_of(offsets, edges.senders), graph_of(offsets, edges.receivers)
    if not torch.equal(*ends):
        edge = int((ends[0] != ends[1]).nonzero()[0])
        raise ShapeError(f"Graph: edge {edge} goes from graph {int(ends[0][edge])} to graph {int(ends[1][edge])}.")


def subgraph_nodes(nodes: Any, num_nodes: int, device: torch.device) -> tuple[Tensor, Tensor]:
    """The indices of the nodes of a subgraph, from indices or a mask; and the new index of each node, −1 for none."""
    nodes = torch.as_tensor(nodes, device=device)
    if nodes.dtype == torch.bool and nodes.shape == (num_nodes,):
        nodes = nodes.nonzero().flatten()
    if nodes.dim() != 1 or (nodes.numel() and (nodes.is_floating_point() or nodes.dtype == torch.bool)):
        raise ShapeError(
            f"Graph.subgraph: nodes must be indices, or a mask ({num_nodes},), not {tuple(nodes.shape)} of "
            f"{nodes.dtype}."
        )
    nodes = nodes.to(torch.int64)
    if nodes.numel() and not 0 <= int(nodes.min()) <= int(nodes.max()) < num_nodes:
        raise ShapeError(f"Graph.subgraph: nodes must lie in 0 … {num_nodes - 1}.")

    new_index = nodes.new_full((num_nodes,), -1)
    new_index[nodes] = torch.arange(len(nodes), device=nodes.device)
    if int((new_index >= 0).sum()) != len(nodes):
        raise ShapeError("Graph.subgraph: a node is repeated; give each once.")
    return nodes, new_index


def subgraph_offsets(graph_of_node: Tensor, num_graphs: int) -> Tensor:
    """The offsets of a subgraph, from the graph of each of its nodes."""
    if bool((graph_of_node.diff() < 0).any()):
        raise ShapeError("Graph.subgraph: nodes of a batch must be grouped by graph; sort them.")
    counts = torch.bincount(graph_of_node, minlength=num_graphs)
    return torch.cat([graph_of_node.new_zeros(1), counts.cumsum(0)])


def joined_offsets(graphs: Sequence[tuple[Tensor | None, int]]) -> Tensor:
    """The offsets of a union, from the offsets and the number of nodes of each graph."""
    ends, start = [0], 0
    for offsets, num_nodes in graphs:
        ends += [start + end for end in ([num_nodes] if offsets is None else offsets[1:].tolist())]
        start += num_nodes
    return torch.tensor(ends, dtype=torch.int64, device="cpu")


def refuse_virtual_nodes(verb: str, count: int) -> None:
    """Raise a ShapeError if there are virtual nodes, which belong to no part of a graph."""
    if count:
        raise ShapeError(
            f"Graph.{verb}: the graph has {plural(count, 'virtual node')}, which belong to no part of it; add them "
            "afterwards."
        )


def plain_relations(types: Types, edges: Edges) -> Types:
    """Edge types from the types of the nodes that they join, named as in PyTorch Geometric."""
    pair_codes = types.of_row[edges.senders] * types.num_types + types.of_row[edges.receivers]
    codes, of_row = pair_codes.unique(return_inverse=True)
    type_names = types.names or ()
    names = [(type_names[code // types.num_types], "to", type_names[code % types.num_types]) for code in codes.tolist()]
    return Types(of_row, len(names), tuple(names))


def check_relations(types: Types, edges: Edges, relations: Types) -> None:
    """Raise a ShapeError unless each edge type names the types of the nodes that its edges join."""
    type_names = types.names or ()
    for name in relations.names or (None,):
        if not (isinstance(name, tuple) and len(name) == 3 and name[0] in type_names and name[2] in type_names):
            raise ShapeError(
                f"Graph: the edge type {name!r} does not name the nodes it joins; as node types have names, name it "
                "(type of sender, name, type of receiver)."
            )

    for position, ends in ((0, edges.senders), (2, edges.receivers)):
        expected_types = [type_names.index(name[position]) for name in relations.names or () if isinstance(name, tuple)]
        expected = torch.tensor(expected_types, dtype=torch.int64, device=ends.device)[relations.of_row]
        if not torch.equal(expected, types.of_row[ends]):
            edge = int((expected != types.of_row[ends]).nonzero()[0])
            raise ShapeError(
                f"Graph: edge {edge} is of the type {(relations.names or ())[int(relations.of_row[edge])]}, but it "
                f"{'comes from' if position == 0 else 'goes to'} a node of type "
                f"{type_names[int(types.of_row[ends][edge])]!r}."
            )


def missing_reverses(edges: Edges, types: Types | None) -> tuple[Tensor, Types | None]:
    """The edges without a reverse edge, and the types of all edges followed by those of the added reverse edges."""
    senders, receivers, size = edges.senders, edges.receivers, edges.num_senders
    if types is None:
        return one_way(senders, receivers, size), None
    reverse_of, names = _reverses(types)
    pairs = torch.tensor(
        [min(number, reverse) for number, reverse in enumerate(reverse_of)], dtype=torch.int64, device=senders.device
    )
    added = one_way(senders, receivers, size, pairs[types.of_row])
    added_types = torch.tensor(reverse_of, dtype=torch.int64, device=senders.device)[types.of_row[added]]
    return added, Types(torch.cat([types.of_row, added_types]), len(reverse_of if names is None else names), names)


def _reverses(types: Types) -> tuple[list[int], tuple[Hashable, ...] | None]:
    """The index of the reverse of each type, and the names including the reverses."""
    if types.names is None or not all(isinstance(name, tuple) and len(name) == 3 for name in types.names):
        return list(range(types.num_types)), types.names
    names, reverse_of = list(types.names), []
    for name in types.names:
        assert isinstance(name, tuple)
        sender, relation, receiver = name
        reverse_name = relation.removeprefix(REVERSE) if str(relation).startswith(REVERSE) else f"{REVERSE}{relation}"
        reverse = name if sender == receiver else (receiver, reverse_name, sender)
        names += [] if reverse in names else [reverse]
        reverse_of.append(names.index(reverse))
    return reverse_of, tuple(names)
