"""`Graph`, one graph or a batch of graphs, and `Weights`, attention seen as one."""

from edgewise.graph.graph import JOIN, Graph, Weights

__all__ = ["JOIN", "Graph", "Weights"]
