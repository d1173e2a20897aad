"""Types of nodes and edges: checked, described, and read by a model."""

from dataclasses import replace

import numpy as np
import torch

from edgewise.errors import SettingError, plural
from edgewise.graph import Graph
from edgewise.learn.files import JsonObject
from edgewise.learn.networks.graph_settings import RELATIONAL, NodeSettings
from edgewise.learn.readers.graphs.edges import EdgeList, num_distinct
from edgewise.learn.readers.graphs.type_features import TypeScaler
from edgewise.learn.readers.graphs.types import BACKWARD, GraphTypes, TypeNames, in_words
from edgewise.neighborhood import Types

MAX_SHOWN = 12
"""Relations that are listed with their edges."""


def check_types(types: GraphTypes | None, model: NodeSettings) -> None:
    """Raise a SettingError where a model with types gets none, or types are given to a model that ignores them."""
    if model.is_relational and types is None:
        raise SettingError(
            f"--model {model.model} needs types of nodes and edges, and none are given: name --node-type-column or "
            "--edge-type-column (an .npz has node_type or edge_type; in Python, node_types or edge_types), or take "
            "another model."
        )
    if not model.is_relational and types is not None:
        raise SettingError(f"--model {model.model} ignores types of nodes and edges; leave them out, or {RELATIONAL}.")


def with_types(graph: Graph, types: GraphTypes) -> Graph:
    """The graph with the types of its nodes and edges."""
    of_node = Types(torch.from_numpy(types.of_node), len(types.names.nodes))
    of_edge = Types(torch.from_numpy(types.of_edge), len(types.names.relations))
    return replace(graph, node_types=of_node, edge_types=of_edge)


def sizes_of_types(types: GraphTypes | None, scaler: object) -> JsonObject:
    """What `NodeSizes` holds of types; nothing where there are none."""
    if types is None:
        return {}
    widths = scaler.num_features if isinstance(scaler, TypeScaler) else tuple(map(len, types.names.features))
    return {"type_features": widths, "num_relations": len(types.names.relations)}


def names_with_targets(types: GraphTypes, rows: np.ndarray) -> TypeNames:
    """The names of types, and of which nodes of training rows are."""
    return replace(types.names, predicted=types_with_targets(types, rows))


def types_with_targets(types: GraphTypes, rows: np.ndarray) -> tuple[str, ...]:
    """The types of the nodes that have a target in training."""
    return tuple(types.names.nodes[number] for number in np.unique(types.of_node[rows]).tolist())


def notes_of_types(types: GraphTypes, edges: EdgeList, rows: np.ndarray) -> list[str]:
    """What should be known of the types before the training begins, a line each."""
    names, lines = types.names, []
    if len(names.nodes) > 1:
        counts = np.bincount(types.of_node, minlength=len(names.nodes)).tolist()
        listed = ", ".join(f"{name} {count:,}" for name, count in zip(names.nodes, counts, strict=True))
        lines.append(f"{plural(len(names.nodes), 'type')} of nodes: {listed}")
        lines.append(f"learned from: {', '.join(types_with_targets(types, rows))}")

    counts = np.bincount(types.of_edge, minlength=len(names.relations)).tolist()
    relations = [f"{in_words(relation)} {count:,}" for relation, count in zip(names.relations, counts, strict=True)]
    more = [f"and {len(relations) - MAX_SHOWN} more"] if relations[MAX_SHOWN:] else []
    lines.append(f"{plural(len(names.relations), 'relation')}: {', '.join([*relations[:MAX_SHOWN], *more])}")
    if any(name.startswith(BACKWARD) for _, name, _ in names.relations) and edges.num_mirrored:
        lines.append(
            f"{BACKWARD}… are the same edges the other way, as relations of their own; --directed leaves them out"
        )
    return lines


def num_repeated_edges(types: GraphTypes, edges: EdgeList) -> int:
    """Edges that another one before them of the same relation already is."""
    count = len(types.of_node)
    return len(edges) - num_distinct((types.of_edge * count + edges.senders) * count + edges.receivers)
