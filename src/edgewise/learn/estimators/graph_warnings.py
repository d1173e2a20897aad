"""What estimators warn of in graphs that they do not read as a whole."""

from typing import TYPE_CHECKING

from edgewise.errors import plural
from edgewise.graph import Graph
from edgewise.learn.estimators.state import warn_caller
from edgewise.learn.networks.graph_settings import NodeSettings

if TYPE_CHECKING:
    from edgewise.learn.readers.graphs.edge_data import EdgeData
    from edgewise.learn.readers.graphs.graphs import GraphData
    from edgewise.learn.readers.graphs.nodes import NodeData


def warn_of_coordinates(graph: Graph) -> None:
    """Warn where nodes have coordinates, which no estimator reads."""
    if graph.coordinates is not None:
        warn_caller(
            "coordinates of nodes are not read by estimators; where they are features, join them with node_features."
        )


def warn_of_graph_features(graph: Graph) -> None:
    """Warn where one graph has features as a whole, which tell its rows nothing."""
    if graph.graph_features is not None:
        warn_caller("graph_features are not read: they are the same for all rows of the graph.")


def warn_of_ignored_edges(settings: NodeSettings, num_features: int) -> None:
    """Warn where the layers ignore the edge features of the data."""
    if num_features and settings.spec.ignores_edges(num_features):
        warn_caller(
            f"fit: edges have {plural(num_features, 'feature')}, which model={settings.model!r} ignores; take another "
            "model, or leave them out."
        )


def warn_of_degrees(data: "NodeData | GraphData | EdgeData") -> None:
    """Warn where nothing is known of the nodes."""
    types = getattr(data, "types", None)
    if data.has_degrees or (types is not None and types.names.num_given == 0):
        warn_caller("fit: nodes without features: the in-degree and out-degree of each node are used instead.")
