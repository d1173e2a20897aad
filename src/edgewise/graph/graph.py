"""`Graph`: one graph or a batch of graphs, with the features of nodes and edges; one record from file to kernel.

Targets, weights and the choice of nodes to predict are not part of it.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from edgewise.errors import SettingError, ShapeError, plural
from edgewise.graph.checks import (
    check_offsets,
    check_relations,
    checked_names,
    graph_of,
    joined_offsets,
    missing_reverses,
    numbered,
    plain_relations,
    refuse_virtual_nodes,
    require_parts,
    subgraph_nodes,
    subgraph_offsets,
)
from edgewise.graph.features import (
    DistinctRows,
    Features,
    SparseFeatures,
    checked_features,
    concatenated,
    joined,
    repeated,
    selected_nodes,
    selected_rows,
    with_loop_features,
)
from edgewise.graph.forms import converter, graph_from
from edgewise.graph.heads import dense_table, edges_of_heads
from edgewise.graph.record import Record
from edgewise.graph.stored import StoredGraph
from edgewise.neighborhood import Edges, Relations, Types, looped, membership
from edgewise.neighborhood.index import cached_value, unchecked

if TYPE_CHECKING:
    import networkx
    import scipy.sparse
    import torch_geometric.data

JOIN = "graph.joined() makes them one, the receivers after the senders"
"""The remedy where a bipartite graph is given to something that needs a single set of nodes."""
OF_NODES = "node_features", "node_types", "coordinates", "position_encodings", "offsets", "names"
"""The fields that need a single set of nodes."""


@dataclass(frozen=True, eq=False, repr=False)
class Graph(Record):
    """A graph G(V, E, U), or a batch of graphs as their disjoint union.

    What follows from its fields (`looped`, `members`, `relations`) is made at first use, cached, and moves with it.

    >>> graph = Graph.of((torch.eye(3), torch.tensor([[0, 1], [1, 2]])))
    >>> graph.num_nodes, graph.num_edges, graph.undirected().num_edges
    (3, 2, 4)
    >>> Graph.batch([graph, graph]).offsets
    tensor([0, 3, 6])
    """

    node_features: Features | SparseFeatures | None
    """One row per node; None without features; a tuple of tables if the widths or dtypes of `node_types` differ."""
    edges: Edges
    """Sender → receiver. Senders and receivers may be two sets of nodes, if nodes carry no data."""
    edge_features: Features | None = None
    """One row per edge, in the order of `edges`; a tuple by `edge_types`, as for nodes."""
    graph_features: Tensor | None = None
    """One row per graph, `(graph, feature)`: features of the whole graph."""
    node_types: Types | None = None
    """The type of each node; None for a single type."""
    edge_types: Types | None = None
    """The type of each edge; if node types have names, (type of sender, name, type of receiver), "to" by default."""
    coordinates: Tensor | None = None
    """Where each node is, `(node, space)`."""
    offsets: Int64[Tensor, " boundary"] | None = None
    """Nodes of graph g are `offsets[g]:offsets[g + 1]`; no edge leaves its graph. None for a single graph."""
    names: tuple[Hashable, ...] | None = None
    """The names of the nodes, unique within a graph. None if they are 0, 1, 2, … ."""
    position_encodings: Tensor | None = None
    """The position of each node in the graph, `(node, encoding)`: eigenvectors, return probabilities of walks."""
    num_virtual_nodes: int = 0
    """Nodes behind all others that have edges, but no data: neither `num_nodes` nor the tables of nodes have them."""

    def __post_init__(self) -> None:
        require_parts(self.edges, self.names, {"node_types": self.node_types, "edge_types": self.edge_types})
        num_nodes, types = self.edges.num_senders - self.num_virtual_nodes, self.node_types
        for name in OF_NODES:
            if getattr(self, name) is not None and self.is_bipartite:
                raise ShapeError(f"Graph: {name} needs one set of nodes, but there are {self._sides}; {JOIN}.")
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
            "graph_features": (None, self.num_graphs), "coordinates": (None, num_nodes),
            "position_encodings": (None, num_nodes),
        }  # fmt: skip
        for name, (of_rows, size) in tables.items():
            object.__setattr__(self, name, checked_features(name, getattr(self, name), of_rows, size))
        if self.names is not None:
            object.__setattr__(self, "names", checked_names(tuple(self.names), self.graph_of_node.tolist()))

    @classmethod
    def of(cls, source: Any, **options: Any) -> "Graph":
        """A graph from another form.

            PyTorch Geometric      Data, HeteroData, Batch
            networkx               Graph, DiGraph, MultiGraph, MultiDiGraph
            sparse matrices        of SciPy or torch; rows are receivers, values are edge features
            edge_index             a tensor or array (2, edge), senders above receivers; `num_nodes=` if the last nodes
                                   have no edges
            pairs                  (node_features, edges) or (node_features, edges, edge_features)
            pandas                 a table of edges, or (nodes, edges) or (nodes, edges, graphs)
            a list of these        a batch
            Graph, Edges           unchanged

        Args:
            source: one of these.
            options: options of the form: those of `from_pyg`, `from_networkx`, `from_pandas` … in `edgewise.interop`.

        Raises:
            DataError: it is none of these, or is invalid.
        """
        return graph_from(source, cls, options)

    def to_pyg(self) -> "torch_geometric.data.Data | torch_geometric.data.HeteroData":
        """PyTorch Geometric's `Data`; `HeteroData` if node types have names; a `Batch` if there are offsets."""
        return converter("to", "pyg")(self)

    def to_networkx(self) -> "networkx.MultiDiGraph":
        """networkx's `MultiDiGraph`; for a batch: `[member.to_networkx() for member in graph.unbatch()]`."""
        return converter("to", "networkx")(self)

    def to_scipy(self, feature: int | None = None) -> "scipy.sparse.coo_array":
        """One feature of the edges as SciPy's sparse matrix, rows are receivers; True for edges without features."""
        matrix = converter("to", "scipy")(self, feature=feature)
        if self.edge_features is None:
            matrix.data = matrix.data.astype(bool)  # astype of the matrix would merge parallel edges
        return matrix

    def to_pandas(self) -> Any:
        """Three DataFrames: `nodes`, `edges` and `graphs`."""
        return converter("to", "pandas")(self)

    @property
    def num_nodes(self) -> int:
        """The number of nodes.

        Raises:
            ShapeError: senders and receivers are two sets of nodes.
        """
        if self.is_bipartite:
            raise ShapeError(f"Graph: num_nodes needs one set of nodes, but there are {self._sides}; {JOIN}.")
        return self.edges.num_senders - self.num_virtual_nodes

    @property
    def num_edges(self) -> int:
        """The number of edges."""
        return self.edges.num_edges

    @property
    def num_graphs(self) -> int:
        """The number of graphs: 1 without offsets."""
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
    def dense_node_features(self) -> Features | None:
        """The features of the nodes; sparse ones as a table."""
        features = self.node_features
        return features.to_dense() if isinstance(features, SparseFeatures) else features

    @property
    def relations(self) -> Relations:
        """The edges with their types, for layers with several relations; raises a ShapeError without types."""
        types = self.edge_types
        if types is None:
            raise ShapeError("Graph: relations needs edge_types, but the graph has none.")
        return cached_value(self, "_relations", lambda: Relations(self.edges, types.of_row, types.num_types))

    @property
    def looped(self) -> Edges:
        """The edges, followed by a loop on every node, also where one is there already."""
        return cached_value(self, "_looped", lambda: looped(self.edges))

    @property
    def members(self) -> Edges:
        """Every node as an edge from itself to its graph."""
        size, device = self.num_nodes, self.edges.senders.device
        offsets = torch.tensor([0, size], device=device) if self.offsets is None else self.offsets
        return cached_value(self, "_members", lambda: membership(offsets, size))

    @property
    def distinct_edge_features(self) -> DistinctRows | None:
        """The distinct rows of the features of `looped` edges, if `unchecked` got them."""
        return getattr(self, "_distinct_edge_features", None)

    @property
    def full_degrees(self) -> Tensor | None:
        """The edges (or weights) that come to each node in the whole graph of this part, if `unchecked` got them."""
        return getattr(self, "_full_degrees", None)

    @property
    def stored(self) -> StoredGraph | None:
        """What reads features and edges that do not fit into memory, if `unchecked` got it; `edges` are empty then."""
        return getattr(self, "_stored", None)

    @classmethod
    def unchecked(
        cls,
        node_features: Features | SparseFeatures | None,
        edges: Edges,
        edge_features: Features | None = None,
        *,
        distinct_edge_features: DistinctRows | None = None,
        full_degrees: Tensor | None = None,
        stored: StoredGraph | None = None,
        **fields: Any,
    ) -> "Graph":
        """A graph that is not checked, as a check costs time and waits for a device: loaders make it of fitting parts.

        Tables of width 0 must be None. What fields do not tell comes along, and a changed copy does not have it.
        """
        fields |= {"node_features": node_features, "edges": edges, "edge_features": edge_features}
        further = {"distinct_edge_features": distinct_edge_features, "full_degrees": full_degrees, "stored": stored}
        fields |= {f"_{name}": value for name, value in further.items() if value is not None}
        return unchecked(object.__new__(cls), **fields)

    @classmethod
    def batch(cls, graphs: Sequence["Graph"]) -> "Graph":
        """The disjoint union of graphs, in order; a batch among them adds each of its graphs. Sparse features of nodes
        become a table.

        Raises:
            ShapeError: only some have features, coordinates, types or names, or their widths or dtypes differ.
        """
        if not graphs:
            raise ShapeError("Graph.batch: graphs is empty; give at least one.")
        for graph in graphs:
            refuse_virtual_nodes("batch", graph.num_virtual_nodes)
        starts = np.cumsum([0, *(graph.num_nodes for graph in graphs)]).tolist()
        senders = torch.cat([graph.edges.senders + start for graph, start in zip(graphs, starts)])
        receivers = torch.cat([graph.edges.receivers + start for graph, start in zip(graphs, starts)])
        offsets = joined_offsets([(graph.offsets, graph.num_nodes) for graph in graphs])
        node_features, node_types = joined(
            "node", [(graph.dense_node_features, graph.node_types, graph.num_nodes) for graph in graphs]
        )
        edge_features, edge_types = joined(
            "edge", [(graph.edge_features, graph.edge_types, graph.num_edges) for graph in graphs]
        )
        names = None
        if any(graph.names is not None for graph in graphs):
            names = tuple(name for graph in graphs for name in graph.names or numbered(graph.offsets, graph.num_nodes))
        return cls(
            node_features,
            Edges(senders, receivers, starts[-1], starts[-1]),
            edge_features,
            concatenated("graph_features", [(graph.graph_features, graph.num_graphs) for graph in graphs]),
            node_types,
            edge_types,
            concatenated("coordinates", [(graph.coordinates, graph.num_nodes) for graph in graphs]),
            offsets.to(senders.device),
            names,
            concatenated("position_encodings", [(graph.position_encodings, graph.num_nodes) for graph in graphs]),
        )

    def unbatch(self) -> list["Graph"]:
        """The graphs of a batch as a list, each with its nodes and edges in order; the inverse of `batch`."""
        refuse_virtual_nodes("unbatch", self.num_virtual_nodes)
        offsets = [0, self.num_nodes] if self.offsets is None else self.offsets.tolist()
        graph_of_edge = self.graph_of_node[self.edges.senders]
        edges_by_graph = graph_of_edge.argsort(stable=True).split(
            torch.bincount(graph_of_edge, minlength=self.num_graphs).tolist()
        )
        graphs = []
        for number, (links, (start, stop)) in enumerate(zip(edges_by_graph, pairwise(offsets))):
            nodes = torch.arange(start, stop, device=links.device)
            ends = self.edges.senders[links] - start, self.edges.receivers[links] - start
            graph_features = None if self.graph_features is None else self.graph_features[number : number + 1]
            graphs.append(self.select(nodes, links, Edges(*ends, stop - start, stop - start), graph_features))
        return graphs

    def subgraph(self, nodes: Any) -> "Graph":
        """The given nodes, in this order, and the edges between them, in their original order.

        Args:
            nodes: their indices, each once; or a mask `(node)`, True for those to keep. All graphs of a batch stay,
                possibly without nodes; their nodes must stay together.

        Raises:
            ShapeError: a node is repeated or out of range, or the graphs of a batch are mixed.
        """
        refuse_virtual_nodes("subgraph", self.num_virtual_nodes)
        nodes, new_index = subgraph_nodes(nodes, self.num_nodes, self.edges.senders.device)
        offsets = None
        if self.offsets is not None:
            offsets = subgraph_offsets(self.graph_of_node[nodes], self.num_graphs)
        ends = new_index[self.edges.senders], new_index[self.edges.receivers]
        kept_edges = ((ends[0] >= 0) & (ends[1] >= 0)).nonzero().flatten()
        edges = Edges(ends[0][kept_edges], ends[1][kept_edges], len(nodes), len(nodes))
        return self.select(nodes, kept_edges, edges, self.graph_features, offsets)

    def undirected(self) -> "Graph":
        """Every edge in both directions, by the rule of `Edges.undirected`: added edges repeat the features.

        Only an edge of the same type is a reverse edge; with named node types, also one of the type `rev_` + name,
        which must have as many features, or it is a ShapeError.
        """
        edges, size = self.edges, self.edges.num_senders
        added, types = missing_reverses(edges, self.edge_types)
        senders = torch.cat([edges.senders, edges.receivers[added]])
        receivers = torch.cat([edges.receivers, edges.senders[added]])
        features = repeated(self.edge_features, self.edge_types, added, types)
        return replace(self, edges=Edges(senders, receivers, size, size), edge_features=features, edge_types=types)

    def with_self_loops(self, fill: float | None = None) -> "Graph":
        """Adds a loop to each node without one, by the rule of `Edges.with_self_loops`.

        Args:
            fill: the features of these loops; required if edges have features.

        Raises:
            SettingError: `fill` is missing or not of the features' dtype, or edges have types, which a loop lacks.
        """
        if self.edge_types is not None:
            raise SettingError(
                "Graph.with_self_loops: edges have types, but a loop has none; use replace(graph, edge_types=None)."
            )
        edges = self.edges.with_self_loops()
        features = with_loop_features(self.edge_features, edges.num_edges - self.num_edges, fill)
        return replace(self, edges=edges, edge_features=features)

    def joined(self) -> "Graph":
        """Senders and receivers as one set of nodes, the receivers after the senders.

            (j → i)  becomes  (j → num_senders + i)

        Raises:
            ShapeError: they are already one set, as nodes have data.
        """
        refuse_virtual_nodes("joined", self.num_virtual_nodes)
        for name in OF_NODES:
            if getattr(self, name) is not None:
                raise ShapeError(f"joined: senders and receivers are already one set of nodes, as it has {name}.")
        size = self.edges.num_senders + self.edges.num_receivers
        receivers = self.edges.receivers + self.edges.num_senders
        return replace(self, edges=Edges(self.edges.senders, receivers, size, size))

    def to_weights(self) -> "Weights":
        """The inverse of `Weights.to_graph`: each edge feature is a head."""
        if not isinstance(self.edge_features, Tensor):
            raise ShapeError("Graph: to_weights needs edge_features as one table for all edges.")
        edges = self.edges
        return Weights(edges.senders, edges.receivers, self.edge_features.T, edges.num_senders, edges.num_receivers)

    def select(
        self, nodes: Tensor, links: Tensor, edges: Edges, graph_features: Tensor | None, offsets: Tensor | None = None
    ) -> "Graph":
        """The given nodes and edges, by index, with their data; `edges` joins the selected nodes, and virtual ones."""
        names, types, edge_types, features = self.names, self.node_types, self.edge_types, self.node_features
        return Graph(
            selected_nodes(features, types, nodes),
            edges,
            selected_rows(self.edge_features, edge_types, links),
            graph_features,
            None if types is None else types[nodes],
            None if edge_types is None else edge_types[links],
            None if self.coordinates is None else self.coordinates[nodes],
            offsets,
            None if names is None else tuple(names[node] for node in nodes.tolist()),
            None if self.position_encodings is None else self.position_encodings[nodes],
            self.num_virtual_nodes,
        )

    def __repr__(self) -> str:
        tables = [
            f"{name}={tuple(value.shape)}" if isinstance(value, Tensor | SparseFeatures) else f"{name}={len(value)}"
            for name, value in vars(self).items()
            if value is not None and not isinstance(value, Edges | int) and not name.startswith("_")
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
    """Attention weights as a weighted graph: edge e is senders[e] → receivers[e] with weight values[…, e]."""

    senders: Int64[Tensor, " ... edge"]
    """The key of each weight; one list for all, or `(*batch, edge)` if the strongest differ between heads."""
    receivers: Int64[Tensor, " edge"]
    """The query of each weight."""
    values: Float[Tensor, " *batch edge"]
    """α; under softmax the weights of a query sum to one if all are listed."""
    num_senders: int
    """The number of keys."""
    num_receivers: int
    """The number of queries."""

    def to_dense(self) -> Float[Tensor, " *batch query key"]:
        """The weights as a dense table, zero without an edge; the weights of parallel edges add up."""
        return dense_table(self.senders, self.receivers, self.values, (self.num_receivers, self.num_senders))

    def to_graph(self, names: Sequence[Hashable] | None = None) -> Graph:
        """The weights as a graph whose edges have one feature per head (or other batch axis).

        If the heads keep different senders (`top`), each edge is listed once, with 0 in the other heads.

        Args:
            names: the names of the nodes, as in `Graph`.
        """
        names = None if names is None else tuple(names)
        ends, features = edges_of_heads(self.senders, self.receivers, self.values, self.num_senders)
        return Graph(None, Edges(*ends, self.num_senders, self.num_receivers), features, names=names)
