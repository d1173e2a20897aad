"""`Graph`: one graph, or several as one, and what is known of its nodes and edges. From reading to kernel one record.

What is to be predicted (targets, weights, which nodes) is not part of it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from edgewise.errors import DataError, SettingError, ShapeError, warned_once
from edgewise.formatting import plural
from edgewise.graph.checks import (
    check_offsets,
    check_relations,
    checked_names,
    graph_of,
    numbered,
    other_ways,
    plain_relations,
)
from edgewise.graph.features import Features, behind, checked_features, joined, repeated, taken
from edgewise.graph.forms import converter, edges_of_index, edges_of_matrix, library_of
from edgewise.neighborhood import Edges, Relations, Types
from edgewise.neighborhood.checks import can_be_read
from edgewise.neighborhood.index import sent, unchecked

if TYPE_CHECKING:
    import networkx
    import scipy.sparse
    import torch_geometric.data

JOIN = "graph.joined() makes them one, the receivers behind the senders"
"""The remedy where a graph of two sets of nodes meets something that knows only one."""


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A graph G(V, E, U), or a batch of graphs as their disjoint union.

    >>> graph = Graph.of((torch.eye(3), torch.tensor([[0, 1], [1, 2]])))
    >>> graph.num_nodes, graph.num_edges, graph.undirected().num_edges
    (3, 2, 4)
    >>> Graph.batch([graph, graph]).offsets
    tensor([0, 3, 6])
    """

    node_features: Features | None
    """One row a node, of any dtype; None where nothing is known. With `node_types` of different widths or dtypes a
    tuple: one table for each type, its rows in the order of the nodes, None where the type has no features."""
    edges: Edges
    """Sender → receiver. Senders and receivers may be two sets of nodes, where nothing is known of nodes."""
    edge_features: Features | None = None
    """One row an edge, in the order of `edges`; a tuple by `edge_types`, as for nodes."""
    graph_features: Tensor | None = None
    """One row a graph, `(graph, feature)`: what is known of it as a whole."""
    node_types: Types | None = None
    """The type of each node; None where all are of one."""
    edge_types: Types | None = None
    """The type of each edge. Where node types have names, those of edges are (type of sender, name, type of receiver);
    edges that came without types are then called "to"."""
    positions: Tensor | None = None
    """Coordinates `(node, space)`."""
    offsets: Int64[Tensor, " boundary"] | None = None
    """Nodes of graph g are `offsets[g]:offsets[g + 1]`; no edge leaves its graph. None where it is one graph."""
    names: tuple[Hashable, ...] | None = None
    """What the nodes are called; names within a graph differ. None where they are 0, 1, 2, … ."""

    def __post_init__(self) -> None:
        num_nodes, types = self.edges.num_senders, self.node_types
        if isinstance(self.names, str | bytes):  # which Python would take apart into its characters
            raise ShapeError(f"Graph: names is one text, {self.names!r}; give a list with the name of each node.")
        for name in ("node_features", "node_types", "positions", "offsets", "names"):
            if getattr(self, name) is not None and self.is_bipartite:
                raise ShapeError(f"Graph: {name} needs one set of nodes, there are {self._sides}; {JOIN}.")
        rows = {"node_types": num_nodes, "edge_types": self.num_edges, "names": num_nodes}
        for name, size in rows.items():
            if getattr(self, name) is not None and len(getattr(self, name)) != size:
                raise ShapeError(f"Graph: {name} has {plural(len(getattr(self, name)), 'row')}, expected {size}.")
        if self.offsets is not None:
            check_offsets(self.offsets, self.edges)
        if types is not None and types.names is not None:
            relations = plain_relations(types, self.edges) if self.edge_types is None else self.edge_types
            check_relations(types, self.edges, relations)
            object.__setattr__(self, "edge_types", relations)
        tables = {
            "node_features": (types, num_nodes), "edge_features": (self.edge_types, self.num_edges),
            "graph_features": (None, self.num_graphs), "positions": (None, num_nodes),
        }  # fmt: skip
        for name, (of_rows, size) in tables.items():
            object.__setattr__(self, name, checked_features(name, getattr(self, name), of_rows, size))
        if self.names is not None:
            object.__setattr__(self, "names", checked_names(tuple(self.names), self.graph_of_node.tolist()))

    @classmethod
    def of(cls, held: Any, **options: Any) -> "Graph":
        """The graph that you hold in another form.

            PyTorch Geometric      Data, HeteroData, Batch
            networkx               Graph, DiGraph, MultiGraph, MultiDiGraph
            sparse matrices        of SciPy or torch; a row a receiver, its entries the features of edges
            edge_index             a tensor or array (2, edge), sender above receiver; `num_nodes=` where the last ones
                                   have no edges
            pairs                  (node_features, edges) or (node_features, edges, edge_features)
            pandas                 a table of edges, or (nodes, edges) or (nodes, edges, graphs)
            a list of these        a batch
            Graph, Edges           as they are

        Args:
            held: one of these.
            options: of the form: those of `from_pyg`, `from_networkx`, `from_pandas` … in `edgewise.interop`.

        Raises:
            DataError: it is none of these, or does not fit.
        """
        if isinstance(held, list):
            with warned_once():
                return cls.batch([cls.of(one, **options) for one in held])
        is_sparse = isinstance(held, Tensor) and held.layout != torch.strided
        if isinstance(held, Graph | Edges) or is_sparse:
            if options:
                raise SettingError(f"Graph.of: {', '.join(options)} means nothing for {type(held).__name__}; drop it.")
            if isinstance(held, Graph):
                return held
            return cls(None, held) if isinstance(held, Edges) else cls(None, *edges_of_matrix(held))
        if isinstance(held, Tensor | np.ndarray):
            return cls(None, edges_of_index(held, **options))
        library = library_of(held[0] if isinstance(held, tuple) and held else held)
        if library == "pandas" or (library is not None and not isinstance(held, tuple)):
            return converter("from", library)(*(held if isinstance(held, tuple) else [held]), **options)
        if not isinstance(held, tuple) or len(held) not in (2, 3):
            raise DataError(
                f"Graph.of: {type(held).__name__} is no graph; expected PyTorch Geometric's Data, HeteroData or Batch, "
                "a graph of networkx, a sparse matrix, an edge_index (2, edge), a pair (node_features, edges), tables "
                "of pandas, or a list of these."
            )
        nodes, edges, *features = (torch.from_numpy(part) if isinstance(part, np.ndarray) else part for part in held)
        sized = isinstance(nodes, Tensor) and isinstance(edges, Tensor) and edges.layout == torch.strided
        graph = cls.of(edges, **({"num_nodes": len(nodes)} if sized else {}), **options)
        graph = replace(graph, node_features=nodes)
        if not features:
            return graph
        return replace(graph, edge_features=features[0][:, None] if features[0].dim() == 1 else features[0])

    def to_pyg(self) -> "torch_geometric.data.Data | torch_geometric.data.HeteroData":
        """PyTorch Geometric's `Data`; `HeteroData` where node types have names; a `Batch` where there are offsets."""
        return converter("to", "pyg")(self)

    def to_networkx(self) -> "networkx.MultiDiGraph":
        """networkx's `MultiDiGraph`; of a batch write each: `[one.to_networkx() for one in graph.unbatch()]`."""
        return converter("to", "networkx")(self)

    def to_scipy(self, feature: int | None = None) -> "scipy.sparse.coo_array":
        """One feature of the edges as SciPy's sparse matrix, a row a receiver; True where edges have no features."""
        found = converter("to", "scipy")(self, feature=feature)
        if self.edge_features is None:
            found.data = found.data.astype(bool)  # astype of the matrix would join parallel edges
        return found

    def to_pandas(self) -> Any:
        """Three tables of pandas: `nodes`, `edges` and `graphs`."""
        return converter("to", "pandas")(self)

    @property
    def num_nodes(self) -> int:
        """How many nodes there are.

        Raises:
            ShapeError: senders and receivers are two sets of nodes.
        """
        if self.is_bipartite:
            raise ShapeError(f"Graph: num_nodes needs one set of nodes, there are {self._sides}; {JOIN}.")
        return self.edges.num_senders

    @property
    def num_edges(self) -> int:
        """How many edges there are."""
        return self.edges.num_edges

    @property
    def num_graphs(self) -> int:
        """How many graphs there are: 1 without offsets."""
        return 1 if self.offsets is None else self.offsets.shape[0] - 1

    @property
    def is_bipartite(self) -> bool:
        """Whether senders and receivers are two sets of nodes, by their numbers."""
        return self.edges.num_senders != self.edges.num_receivers

    @property
    def graph_of_node(self) -> Int64[Tensor, " node"]:
        """The graph of each node, PyTorch Geometric's `batch`."""
        nodes = torch.arange(self.num_nodes, device=self.edges.senders.device)
        return torch.zeros_like(nodes) if self.offsets is None else graph_of(self.offsets, nodes)

    @property
    def relations(self) -> Relations:
        """The edges with their types, as layers for several relations take them; made anew at each use.

        Raises:
            ShapeError: edges have no types.
        """
        if self.edge_types is None:
            raise ShapeError("Graph: relations needs edge_types, but there are none.")
        return Relations(self.edges, self.edge_types.of_row, self.edge_types.num_types)

    def to(self, device: torch.device | str) -> "Graph":
        """The same graph with its tensors on `device`."""
        moved: dict[str, Any] = {}
        for name, value in vars(self).items():
            if isinstance(value, Tensor):
                moved[name] = sent(value, device)
            elif isinstance(value, Edges | Types):
                moved[name] = value.to(device)
            elif name in ("node_features", "edge_features") and value is not None:
                moved[name] = tuple(None if part is None else sent(part, device) for part in value)
        return unchecked(self, **moved)

    @classmethod
    def batch(cls, graphs: Sequence["Graph"]) -> "Graph":
        """Graphs as one, their disjoint union, graph after graph; those of a batch count one by one.

        Raises:
            ShapeError: some have features, positions, types or names that others lack, or of another width or dtype.
        """
        if not graphs:
            raise ShapeError("Graph.batch: there is no graph; give at least one.")
        starts = np.cumsum([0, *(graph.num_nodes for graph in graphs)]).tolist()
        senders = torch.cat([graph.edges.senders + start for graph, start in zip(graphs, starts)])
        receivers = torch.cat([graph.edges.receivers + start for graph, start in zip(graphs, starts)])
        ends = [[graph.num_nodes] if graph.offsets is None else graph.offsets[1:].tolist() for graph in graphs]
        shifted = (end + start for own, start in zip(ends, starts) for end in own)
        offsets = torch.tensor([0, *shifted], dtype=torch.int64, device="cpu")
        node_features, node_types = joined(
            "node", [(one.node_features, one.node_types, one.num_nodes) for one in graphs]
        )
        edge_features, edge_types = joined(
            "edge", [(one.edge_features, one.edge_types, one.num_edges) for one in graphs]
        )
        names = None
        if any(one.names is not None for one in graphs):
            names = tuple(name for one in graphs for name in one.names or numbered(one.offsets, one.num_nodes))
        return cls(
            node_features,
            Edges(senders, receivers, starts[-1], starts[-1]),
            edge_features,
            behind("graph_features", [(one.graph_features, one.num_graphs) for one in graphs]),
            node_types,
            edge_types,
            behind("positions", [(one.positions, one.num_nodes) for one in graphs]),
            offsets.to(senders.device),
            names,
        )

    def unbatch(self) -> list["Graph"]:
        """The graphs one by one, each with its nodes and edges in their order; the way back from `batch`."""
        offsets = [0, self.num_nodes] if self.offsets is None else self.offsets.tolist()
        graph_of_edge = self.graph_of_node[self.edges.senders]
        places = graph_of_edge.argsort(stable=True).split(
            torch.bincount(graph_of_edge, minlength=self.num_graphs).tolist()
        )
        found = []
        for number, (inside, (start, stop)) in enumerate(zip(places, pairwise(offsets))):
            nodes = torch.arange(start, stop, device=inside.device)
            ends = self.edges.senders[inside] - start, self.edges.receivers[inside] - start
            known = None if self.graph_features is None else self.graph_features[number : number + 1]
            found.append(self.select(nodes, inside, Edges(*ends, stop - start, stop - start), known))
        return found

    def subgraph(self, nodes: Any) -> "Graph":
        """Some nodes, in this order, and the edges between them, in theirs.

        Args:
            nodes: their places, each once; or a mask `(node)`, True for those to keep. Of a batch every graph stays,
                perhaps without nodes; its nodes stand together.

        Raises:
            ShapeError: a node is named twice or is none, or the graphs of a batch are mixed.
        """
        nodes = torch.as_tensor(nodes, device=self.edges.senders.device)
        if nodes.dtype == torch.bool and nodes.shape == (self.num_nodes,):
            nodes = nodes.nonzero().flatten()
        if nodes.dim() != 1 or (nodes.numel() and (nodes.is_floating_point() or nodes.dtype == torch.bool)):
            raise ShapeError(
                f"Graph.subgraph: nodes must be places, or a mask ({self.num_nodes},), not {tuple(nodes.shape)} of "
                f"{nodes.dtype}."
            )
        nodes = nodes.to(torch.int64)
        if nodes.numel() and not 0 <= int(nodes.min()) <= int(nodes.max()) < self.num_nodes:
            raise ShapeError(f"Graph.subgraph: nodes must lie in 0 … {self.num_nodes - 1}.")
        place = nodes.new_full((self.num_nodes,), -1)
        place[nodes] = torch.arange(len(nodes), device=nodes.device)
        if int((place >= 0).sum()) != len(nodes):
            raise ShapeError("Graph.subgraph: a node is named twice; name each once.")
        offsets = None
        if self.offsets is not None:
            graphs = self.graph_of_node[nodes]
            if bool((graphs.diff() < 0).any()):
                raise ShapeError("Graph.subgraph: nodes of a batch must stand graph after graph; sort them.")
            offsets = torch.cat([graphs.new_zeros(1), torch.bincount(graphs, minlength=self.num_graphs).cumsum(0)])
        ends = place[self.edges.senders], place[self.edges.receivers]
        inside = ((ends[0] >= 0) & (ends[1] >= 0)).nonzero().flatten()
        edges = Edges(ends[0][inside], ends[1][inside], len(nodes), len(nodes))
        return self.select(nodes, inside, edges, self.graph_features, offsets)

    def undirected(self) -> "Graph":
        """Every edge in both directions, by the rule of `Edges.undirected`: edges that are added repeat the features.

        Only edges of one type are each other's other way; with named node types, also those of a type and of its
        reverse, called `rev_` and the name.
        """
        edges, size = self.edges, self.num_nodes
        added, types = other_ways(edges, self.edge_types)
        senders = torch.cat([edges.senders, edges.receivers[added]])
        receivers = torch.cat([edges.receivers, edges.senders[added]])
        features = repeated(self.edge_features, self.edge_types, added, types)
        return replace(self, edges=Edges(senders, receivers, size, size), edge_features=features, edge_types=types)

    def with_self_loops(self, fill: float | None = None) -> "Graph":
        """A loop for each node that had none, by the rule of `Edges.with_self_loops`.

        Args:
            fill: the features of these loops; needed where edges have features.

        Raises:
            SettingError: `fill` is missing, or edges have types, of which none is that of a loop.
        """
        if self.edge_types is not None:
            raise SettingError(
                "Graph.with_self_loops: edges have types, a loop has none; replace(graph, edge_types=None)."
            )
        edges, features = self.edges.with_self_loops(), self.edge_features
        if isinstance(features, Tensor):
            if fill is None:
                raise SettingError("Graph.with_self_loops: edges have features; give those of a loop: fill=0.0.")
            more = features.new_full((edges.num_edges - self.num_edges, features.shape[1]), fill)
            features = torch.cat([features, more])
        return replace(self, edges=edges, edge_features=features)

    def joined(self) -> "Graph":
        """Senders and receivers as one set of nodes, the receivers behind the senders.

            (j → i)  becomes  (j → num_senders + i)

        Raises:
            ShapeError: they are one set already, as data of the nodes shows.
        """
        for name in ("node_features", "node_types", "positions", "offsets", "names"):
            if getattr(self, name) is not None:
                raise ShapeError(f"joined: senders and receivers are one set of nodes already, which has {name}.")
        size = self.edges.num_senders + self.edges.num_receivers
        receivers = self.edges.receivers + self.edges.num_senders
        return replace(self, edges=Edges(self.edges.senders, receivers, size, size))

    def to_weights(self) -> "Weights":
        """The way back from `Weights.to_graph`: each edge feature is a head."""
        if not isinstance(self.edge_features, Tensor):
            raise ShapeError("Graph: to_weights needs edge_features, one table for all edges; there is none.")
        edges = self.edges
        return Weights(edges.senders, edges.receivers, self.edge_features.T, edges.num_senders, edges.num_receivers)

    def select(
        self, nodes: Tensor, places: Tensor, edges: Edges, graph_features: Tensor | None, offsets: Tensor | None = None
    ) -> "Graph":
        """Nodes and edges by their places here, with what is known of each; `edges` joins the selected nodes."""
        names, types, edge_types = self.names, self.node_types, self.edge_types
        return Graph(
            taken(self.node_features, types, nodes),
            edges,
            taken(self.edge_features, edge_types, places),
            graph_features,
            None if types is None else types[nodes],
            None if edge_types is None else edge_types[places],
            None if self.positions is None else self.positions[nodes],
            offsets,
            None if names is None else tuple(names[node] for node in nodes.tolist()),
        )

    def __repr__(self) -> str:
        tables = [
            f"{name}={tuple(held.shape)}" if isinstance(held, Tensor) else f"{name}={len(held)}"
            for name, held in vars(self).items()
            if held is not None and not isinstance(held, Edges)
        ]
        return f"Graph({', '.join([self._sides, plural(self.num_edges, 'edge'), *tables])})"

    @property
    def _sides(self) -> str:
        if self.is_bipartite:
            ends = plural(self.edges.num_senders, "sender"), plural(self.edges.num_receivers, "receiver")
            return f"{ends[0]} and {ends[1]}"
        return plural(self.edges.num_senders, "node")


@dataclass(frozen=True, eq=False)
class Weights:
    """Attention weights as a weighted graph: edge e carries senders[e] → receivers[e] with weight values[…, e]."""

    senders: Int64[Tensor, " ... edge"]
    """The key of each weight; one list for all, or `(*batch, edge)` where the strongest differ between heads."""
    receivers: Int64[Tensor, " edge"]
    """The query of each weight."""
    values: Float[Tensor, " *batch edge"]
    """α; a row sums to one under softmax when all of it is here."""
    num_senders: int
    """How many keys there are."""
    num_receivers: int
    """How many queries there are."""

    def to_dense(self) -> Float[Tensor, " *batch query key"]:
        """The weights as a table, zero where there is no edge; the weights of parallel edges add up."""
        cell = self.receivers * self.num_senders + self.senders
        size = self.num_receivers * self.num_senders
        table = self.values.new_zeros(*self.values.shape[:-1], size)
        if cell.dim() == 1 and can_be_read(cell) and bool((cell[1:] > cell[:-1]).all()):
            # Each cell stands once: nothing adds up, and a list as long as the table is the table.
            table = self.values.clone() if cell.shape[0] == size else table.index_copy(-1, cell, self.values)
        else:
            table = table.scatter_add(-1, cell.expand(self.values.shape), self.values)
        return table.unflatten(-1, (self.num_receivers, self.num_senders))

    def to_graph(self, names: Sequence[Hashable] | None = None) -> Graph:
        """The weights as a graph whose edges carry one feature a head (or other batch axis).

        Where the heads keep different senders (`top`), an edge stands once for each, with 0 in the other heads.

        Args:
            names: what the nodes are called, as in `Graph`.
        """
        names = None if names is None else tuple(names)
        heads = self.values.reshape(self.values.shape[:-1].numel(), self.values.shape[-1])
        senders = self.senders.expand(self.values.shape).reshape(heads.shape)
        cells = self.receivers * self.num_senders + senders
        if self.senders.dim() == 1:
            edges = Edges(self.senders, self.receivers, self.num_senders, self.num_receivers)
            return Graph(None, edges, heads.T, names=names)
        codes, place = cells.unique(return_inverse=True)
        features = heads.new_zeros(codes.shape[0], heads.shape[0])
        columns = torch.arange(heads.shape[0], device=heads.device)[:, None].expand_as(place)
        features = features.index_put((place, columns), heads, accumulate=True)
        edges = Edges(codes % self.num_senders, codes // self.num_senders, self.num_senders, self.num_receivers)
        return Graph(None, edges, features, names=names)
