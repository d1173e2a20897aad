"""One graph, checked and described: features that a model does not know, are missing, do not vary or are ignored."""

import numpy as np

from edgewise.errors import DataError, plural
from edgewise.learn.networks.graph_settings import NodeSettings
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.node_features import NodeFeatures
from edgewise.learn.readers.graphs.type_features import TypeScaler
from edgewise.learn.readers.graphs.types import GraphTypes, TypeNames
from edgewise.learn.readers.store.data import StoredFeatures, StoredNodeData
from edgewise.learn.tables.impute import filled_notes
from edgewise.learn.tables.scale import ColumnScaler
from edgewise.learn.tasks.graph_encoding import GraphEncoding, are_degrees, missing_of_edges
from edgewise.learn.tasks.table_notes import constant_features, names_of_features
from edgewise.learn.tasks.task import Prepared


def notes_of_features(
    on_graph: GraphEncoding,
    nodes: NodeFeatures | StoredFeatures,
    edges: EdgeList | None,
    types: GraphTypes | None = None,
    *,
    edge_scaler: ColumnScaler | None = None,
    source_of_edges: str = "all edges",
) -> list[str]:
    """The warnings of features that are missing and filled, or do not vary.

    Args:
        on_graph: how features become numbers.
        nodes: the features of the nodes.
        edges: between them; None where a store has them.
        types: of nodes and edges; None where there are none.
        edge_scaler: scales the features of edges, for what comes after the layers; None where nothing there reads them.
        source_of_edges: the edges whose median fills those of others.
    """
    lines = []
    names = on_graph.names_of_features(None if types is None else types.names)
    lines += filled_notes(nodes.missing_counts[: len(names)], names, "nodes", nodes.shape[0], source="all nodes")
    if edges is not None:
        reads_edges = edge_scaler is not None
        lines += notes_of_missing_edges(on_graph, edges, head_reads_edges=reads_edges, source=source_of_edges)
    lines += notes_of_constants(on_graph, nodes, edges, types)
    if edge_scaler is not None:
        lines += constant_features(edge_scaler, on_graph.names_of_edges(len(edge_scaler.mean)), "edges")
    return lines


def notes_of_constants(
    on_graph: GraphEncoding,
    nodes: NodeFeatures | StoredFeatures,
    edges: EdgeList | None = None,
    types: GraphTypes | None = None,
) -> list[str]:
    """The warnings of features of nodes that do not vary, of each type.

    Args:
        on_graph: how features become numbers.
        nodes: the features of the nodes.
        edges: between them; None where a store has them.
        types: of nodes and edges; None where there are none.
    """
    scaler, num_added = on_graph.scaler, 0 if types is None else types.names.num_added
    columns = on_graph.columns.descriptors_columns
    names = names_of_features(columns, on_graph.num_columns - num_added, on_graph.categories)
    if isinstance(scaler, ColumnScaler):
        if scaler.constant_columns and are_degrees(nodes, edges):
            return []
        return constant_features(scaler, names, "nodes", adds_degrees=on_graph.adds_degrees)
    if not isinstance(scaler, TypeScaler) or types is None:
        return []

    lines, counts = [], np.bincount(types.of_node, minlength=len(types.names.nodes)).tolist()
    of_types = zip(types.names.nodes, types.names.features, scaler.scalers, counts, strict=True)
    for type_name, features, scaler_of_type, count in of_types:
        names_of_type = [names[column] for column in features if column < len(names) and count > 1]
        adds_degrees = bool(names_of_type) and type_name in types.names.degrees
        what = f"nodes of type {type_name!r}"
        lines += constant_features(scaler_of_type, names_of_type, what, adds_degrees=adds_degrees)
    return lines


def check_graph(
    on_graph: GraphEncoding,
    source: str,
    nodes: NodeFeatures | StoredFeatures,
    edges: EdgeList | int,
    num_edge_columns: int,
    has_degrees: bool | None = None,
) -> None:
    """Raise a DataError where a graph is not like that of the training.

    Args:
        on_graph: how features become numbers.
        source: the file.
        nodes: the features of its nodes.
        edges: between them; of a store, which checks weights itself, the number of their features.
        num_edge_columns: features of an edge in training.
        has_degrees: whether edges are counted, as nothing else is known of the nodes; None where that does not matter.
    """
    if has_degrees is not None:  # first: degrees that stand for features would be counted as such
        check_same_kind(on_graph.has_degrees, has_degrees, source, on_graph.num_columns)
    num_found = edges if isinstance(edges, int) else edges.features.shape[1]
    counts = ("nodes", on_graph.num_columns, nodes.shape[1]), ("edges", num_edge_columns, num_found)
    for what, expected, count in counts:
        if count != expected:
            raise DataError(
                f"{source}: its {what} have {plural(count, 'feature')}, but the model was trained on {expected}."
            )
    if isinstance(edges, EdgeList):
        check_weights(source, edges, on_graph.settings)


def one_process(prepared: Prepared) -> str:
    """The remedy where every step computes one whole graph, which several processes cannot split."""
    return "train in one process, with a --batch-size if you like"


def features_in_words(count: int, *, has_degrees: bool) -> str:
    """How many features nodes have, and whether they are their edges."""
    of_edges = ": in- and out-degree, as no other is known" if has_degrees else ""
    return f"{plural(count, 'feature')} of a node{of_edges}"


def check_same_kind(in_training: bool | None, has_degrees: bool, source: str, num_columns: int) -> None:
    """Raise a DataError where edges are counted in place of features that the model knows, or the other way round.

    Args:
        in_training: whether they were counted in training; None where a run does not say.
        has_degrees: whether they are counted of the nodes to predict.
        source: the file of these.
        num_columns: features of a node that the model knows.
    """
    if in_training is None or has_degrees == in_training:
        return
    expected = "none" if in_training else f"{num_columns}"
    features = "no features" if has_degrees else "features"
    remedy = "; give them, of a table by the names of their columns, in that order: --feature-columns"
    raise DataError(
        f"{source}: its nodes have {features}, but the model was trained on {expected}{remedy if has_degrees else ''}."
    )


def note_of_edges(count: int, settings: NodeSettings) -> list[str]:
    """A line about features of edges that the layers ignore, or read as weights; none where there are none."""
    spec = settings.spec
    if not count or spec.has_edge_features:
        return []
    use = "ignores" if spec.ignores_edges(count) else "reads as the weight of the edge"
    return [f"{plural(count, 'feature')} of an edge, which --model {spec.name} {use}"]


def check_weights(source: str, edges: EdgeList, settings: NodeSettings) -> None:
    """Raise a DataError where the one feature of an edge is read as its weight, and is below 0."""
    reads_weights = settings.spec.reads_edge_weights and edges.features.shape[1] == 1
    if reads_weights and (negative := np.flatnonzero(edges.features[:, 0] < 0)).size:
        weight = edges.features[negative[0], 0]
        raise DataError(
            f"{source}: the weight of an edge is {weight:g}; --model {settings.model} reads the one feature of an edge "
            "as its weight, expected zero or more."
        )


def notes_of_missing_edges(
    on_graph: GraphEncoding,
    edges: EdgeList | StoredNodeData,
    *,
    head_reads_edges: bool = False,
    source: str = "all edges",
) -> list[str]:
    """The warning of features of edges that are missing and filled with the median of `source`."""
    if isinstance(edges, StoredNodeData):
        num_features = edges.num_edge_features
        num_mirrored = edges.store.manifest.get("num_mirrored", 0)
    else:
        num_features = edges.features.shape[1]
        num_mirrored = edges.num_mirrored

    counts, num_edges = missing_of_edges(edges)
    names = on_graph.names_of_edges(num_features)
    what = "edges, both ways counted," if num_mirrored else "edges"
    are_marked = head_reads_edges or not on_graph.settings.spec.reads_edge_weights
    return filled_notes(counts[: len(names)], names, what, num_edges, source=source, are_marked=are_marked)


def notes_of_kept_degrees(on_graph: GraphEncoding, has_degrees: bool, types: TypeNames | None) -> list[str]:
    """What is not counted where a part of one graph is removed and degrees are features of nodes.

    Args:
        on_graph: how the graph is read.
        has_degrees: whether the data knows nothing else of the nodes.
        types: of nodes and edges, which the model knows; None where there are none.
    """
    if not (has_degrees or on_graph.adds_degrees or (types is not None and types.degrees)):
        return []
    return ["Degrees are features here, and stay those of the whole graph, also where nodes and links are removed."]
