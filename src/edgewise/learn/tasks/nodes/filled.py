"""Missing numbers of the edges of one graph: filled, marked, and said."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgewise.errors import DataError
from edgewise.learn.networks.graph_settings import NodeSettings
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.tables.impute import Imputer, filled_notes


def completed(edges: EdgeList, imputer: Imputer, settings: NodeSettings) -> EdgeList:
    """The edges with their missing numbers filled; which those were is a further feature, but beside a weight.

    Raises:
        DataError: a number is missing, and the model fills none.
    """
    if not imputer.median and np.isnan(edges.features).any():
        raise DataError("edge_features holds NaN, which the model does not fill: it was trained with missing='drop'.")
    features = imputer.complete(edges.features, are_marked=not settings.spec.reads_edge_weights)
    return replace(edges, features=features)


def num_edge_marks(imputer: Imputer, settings: NodeSettings) -> int:
    """Features of an edge that say which numbers were filled."""
    return 0 if settings.spec.reads_edge_weights else len(imputer.marked)


def notes_of_missing_edges(edges: EdgeList, names: Sequence[str], settings: NodeSettings) -> list[str]:
    """The warning of features of edges that are missing and filled."""
    what = "edges, both ways counted," if edges.num_mirrored else "edges"
    are_marked = not settings.spec.reads_edge_weights
    return filled_notes(edges.features[:, : len(names)], names, what, source="all edges", are_marked=are_marked)
