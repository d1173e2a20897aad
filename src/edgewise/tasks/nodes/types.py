"""Types of nodes and edges between a table and a model: what the model reads, and notes about them."""

from dataclasses import replace

import numpy as np
import torch

from edgewise.data.graphs.edges import num_distinct
from edgewise.data.graphs.node_features import NodeFeatures
from edgewise.data.graphs.nodes import NodeTable
from edgewise.data.graphs.types import BACKWARD, GraphTypes, TypeScaler, in_own_columns, left_aligned, spoken
from edgewise.errors import SettingError
from edgewise.models.graph_settings import NodeSettings
from edgewise.neighborhood import Relations, Types
from edgewise.plural import plural
from edgewise.records import NodeBatch
from edgewise.tasks.nodes.settings import REMEDY

MAX_SHOWN = 12
"""Relations that are listed with their edges."""


def check_types(table: NodeTable, model: NodeSettings) -> None:
    """Raise a SettingError where a model that looks at types finds none, or they are given to one that does not."""
    if model.is_relational and table.types is None:
        raise SettingError(
            f"--model {model.model} needs types of nodes and edges, and none are given: name --node-type-column or "
            "--edge-type-column (an .npz has node_type or edge_type; in Python, node_types or edge_types), or take "
            "another model."
        )
    if not model.is_relational and table.types is not None:
        raise SettingError(f"--model {model.model} ignores types of nodes and edges; leave them out, or {REMEDY}.")


def with_types(batch: NodeBatch, types: GraphTypes) -> NodeBatch:
    """A batch that also says of which types its nodes and edges are."""
    of_node = Types(torch.from_numpy(types.of_node), len(types.names.nodes))
    relations = Relations(batch.edges, torch.from_numpy(types.of_edge), len(types.names.relations))
    return replace(batch, types=of_node, relations=relations)


def by_type(features: NodeFeatures, types: GraphTypes, scaler: TypeScaler | None) -> NodeFeatures:
    """The features of each type side by side, in units of their spread where there is a scaler.

    What stays sparse is counted type after type, as `TypedLinear` takes it.
    """
    columns = types.names.features
    if scaler is not None:
        return NodeFeatures.of(scaler.transform(features.to_dense().astype(np.float64), types.of_node, columns))
    found = left_aligned(features, types.of_node, columns)
    return in_own_columns(found, types.of_node, columns) if features.are_sparse else found


def widths(types: GraphTypes, scaler: TypeScaler | None) -> tuple[int, ...]:
    """How many features the model sees of each type of nodes."""
    return tuple(len(own) for own in types.names.features) if scaler is None else scaler.num_features


def types_with_targets(table: NodeTable, rows: np.ndarray) -> tuple[str, ...]:
    """The types of the nodes that have a target in training."""
    assert table.types is not None
    return tuple(table.types.names.nodes[number] for number in np.unique(table.types.of_node[rows]).tolist())


def notes(table: NodeTable, rows: np.ndarray) -> list[str]:
    """What should be known of the types before the training begins, a line each."""
    types = table.types
    assert types is not None
    names, found = types.names, []
    if len(names.nodes) > 1:
        counts = np.bincount(types.of_node, minlength=len(names.nodes)).tolist()
        listed = ", ".join(f"{name} {count:,}" for name, count in zip(names.nodes, counts, strict=True))
        found.append(f"{plural(len(names.nodes), 'type')} of nodes: {listed}")
        found.append(f"learned from: {', '.join(types_with_targets(table, rows))}")
    counts = np.bincount(types.of_edge, minlength=len(names.relations)).tolist()
    each = [f"{spoken(relation)} {count:,}" for relation, count in zip(names.relations, counts, strict=True)]
    listed = ", ".join([*each[:MAX_SHOWN], *([f"and {len(each) - MAX_SHOWN} more"] if each[MAX_SHOWN:] else [])])
    found.append(f"{plural(len(names.relations), 'relation')}: {listed}")
    if any(name.startswith(BACKWARD) for _, name, _ in names.relations) and table.edges.num_mirrored:
        found.append(
            f"{BACKWARD}… are the same edges the other way, as relations of their own; --directed leaves them out"
        )
    return found


def num_repeated(table: NodeTable) -> int:
    """Edges that another one before them of the same relation already is."""
    assert table.types is not None
    edges, count = table.edges, table.num_rows
    return len(edges) - num_distinct((table.types.of_edge * count + edges.senders) * count + edges.receivers)
