"""Who attends to whom: index structures only, no features. Combine them with `&` and `|`.

    Full  Causal  Window  Lengths  Segments     ranges: the neighbors of a query are one contiguous run of keys
    Mask                                        any set of pairs, as a table
    Edges                                       any set of pairs, as a list; the only one that keeps multi-edges

`expander_edges`, `virtual_edges` and `extend_edges` add edges to a graph that shorten paths between distant nodes.

Two forms are enough for the backends: ranges have `runs()`, edges are lists; everything has `block()`, a slice of
the table.

`Types` and `Relations` hold the types of nodes and edges of a heterogeneous graph.
"""

from edgewise.neighborhood.extended import EDGE_TYPES, ExtendedEdges, expander_edges, extend_edges, virtual_edges
from edgewise.neighborhood.given import (
    EdgeIndex,
    GivenNeighborhood,
    derived,
    edges_of,
    is_edge_index,
    looped,
    membership,
    neighborhood_of,
    require_device,
)
from edgewise.neighborhood.mask import Mask
from edgewise.neighborhood.pairs import Edges, Intersection, Neighborhood, RangeIntersection, Ranges, Union
from edgewise.neighborhood.plan import Plan
from edgewise.neighborhood.ranges import Bounds, Causal, Full, Lengths, Segments, Window
from edgewise.neighborhood.rows import EdgeRows
from edgewise.neighborhood.types import Relations, Types

__all__ = [
    "EDGE_TYPES",
    "Bounds",
    "Causal",
    "EdgeIndex",
    "EdgeRows",
    "Edges",
    "ExtendedEdges",
    "Full",
    "GivenNeighborhood",
    "Intersection",
    "Lengths",
    "Mask",
    "Neighborhood",
    "Plan",
    "RangeIntersection",
    "Ranges",
    "Relations",
    "Segments",
    "Types",
    "Union",
    "Window",
    "derived",
    "edges_of",
    "expander_edges",
    "extend_edges",
    "is_edge_index",
    "looped",
    "membership",
    "neighborhood_of",
    "require_device",
    "virtual_edges",
]
