"""`Graph`, one graph or a batch of graphs; `Supervision`, what is predicted of it; `Weights`, attention as a graph."""

from edgewise.graph.batch import Batch, Supervision
from edgewise.graph.features import DistinctRows, SparseFeatures
from edgewise.graph.graph import JOIN, Graph, Weights
from edgewise.graph.stored import StoredGraph
from edgewise.graph.trace import Trace, WeightedGraph

__all__ = [
    "JOIN",
    "Batch",
    "DistinctRows",
    "Graph",
    "SparseFeatures",
    "StoredGraph",
    "Supervision",
    "Trace",
    "WeightedGraph",
    "Weights",
]
