"""The types of what estimators take, for annotations; nothing here is needed when a program runs."""

from collections.abc import Sequence
from typing import Protocol, TypeAlias

from numpy.typing import ArrayLike
from pandas import DataFrame
from torch import Tensor

from edgewise.graph import Graph
from edgewise.learn.estimators.graph_input import GraphNodes
from edgewise.learn.readers.graphs.series import Series
from edgewise.neighborhood import Edges


class SparseMatrix(Protocol):
    """A sparse matrix of SciPy."""

    def tocoo(self) -> object:
        """The matrix as its entries."""


class EdgeIndexGraph(Protocol):
    """A graph with `x` and `edge_index`, such as PyTorch Geometric's `Data`."""

    @property
    def edge_index(self) -> object:
        """(2, edge): the sender of each edge above its receiver."""


class NodesAndEdges(Protocol):
    """A graph of networkx."""

    @property
    def nodes(self) -> object:
        """Its nodes."""

    @property
    def edges(self) -> object:
        """Its edges."""


Table: TypeAlias = ArrayLike | DataFrame | Tensor
"""(row) or (row, column): a list, an array, a tensor, a Series or a DataFrame."""
NodeData: TypeAlias = Table | SparseMatrix
"""(node, feature)."""
EdgesInput: TypeAlias = Edges | ArrayLike | Tensor | SparseMatrix
"""The edges beside features of nodes: `Edges`, whole numbers (2, edge), sender above receiver, or a sparse matrix, a
row a receiver."""
GraphInput: TypeAlias = Graph | GraphNodes | EdgeIndexGraph | NodesAndEdges | NodeData
"""A graph: `Graph`, PyTorch Geometric's `Data`, one of networkx, some rows of one; or the features of its nodes, which
stand beside edges."""
GraphsInput: TypeAlias = Graph | EdgeIndexGraph | Sequence[Graph | EdgeIndexGraph | NodesAndEdges | tuple[object, ...]]
"""Many graphs: a list of graphs, or of (features, edges) or (features, edges, edge_features); or a batch of graphs."""
SeriesInput: TypeAlias = Series | Table
"""(time, node)."""
