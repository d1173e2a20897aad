"""Kinds of nodes and edges between a table and a model: what the model is handed, and what is said of them."""

from dataclasses import replace

import numpy as np
import torch

from edgewise.data.graphs.edges import num_distinct
from edgewise.data.graphs.node_features import NodeFeatures
from edgewise.data.graphs.nodes import NodeTable
from edgewise.data.graphs.type_features import KindScaler, one_behind_another, side_by_side
from edgewise.data.graphs.type_names import BACKWARD, spoken
from edgewise.data.graphs.types import GraphKinds
from edgewise.errors import SettingError
from edgewise.models.graph_settings import NodeSettings
from edgewise.neighborhood import Relations, Types
from edgewise.plural import plural
from edgewise.records import NodeBatch
from edgewise.tasks.nodes.job import REMEDY

MOST_SHOWN = 12
"""Relations that are listed with their edges."""


def check_kinds(table: NodeTable, model: NodeSettings) -> None:
    """Raise a SettingError where a model that looks at kinds finds none, or they are given to one that does not."""
    if model.is_relational and table.kinds is None:
        raise SettingError(
            f"--model {model.model} looks at kinds of nodes and edges, and none are given: name --node-type-column or "
            "--edge-type-column (an .npz has node_type or edge_type; in Python, node_kinds or edge_kinds), or take "
            "another model."
        )
    if not model.is_relational and table.kinds is not None:
        raise SettingError(
            f"--model {model.model} does not look at kinds of nodes and edges; leave them out, or {REMEDY}."
        )


def with_kinds(batch: NodeBatch, kinds: GraphKinds) -> NodeBatch:
    """A batch that also says of which kinds its nodes and edges are."""
    of_node = Types(torch.from_numpy(kinds.of_node), len(kinds.names.nodes))
    relations = Relations(batch.edges, torch.from_numpy(kinds.of_edge), len(kinds.names.relations))
    return replace(batch, kinds=of_node, relations=relations)


def by_kind(features: NodeFeatures, kinds: GraphKinds, scaler: KindScaler | None) -> NodeFeatures:
    """The features of each kind side by side, in units of their spread where there is a scaler.

    What stays sparse is counted kind after kind, as `KindLinear` takes it.
    """
    columns = kinds.names.features
    if scaler is not None:
        return NodeFeatures.of(scaler.transform(features.to_dense().astype(np.float64), kinds.of_node, columns))
    found = side_by_side(features, kinds.of_node, columns)
    return one_behind_another(found, kinds.of_node, columns) if features.are_sparse else found


def widths(kinds: GraphKinds, scaler: KindScaler | None) -> tuple[int, ...]:
    """How many features the model sees of each kind of nodes."""
    return tuple(len(own) for own in kinds.names.features) if scaler is None else scaler.num_features


def told_kinds(table: NodeTable, rows: np.ndarray) -> tuple[str, ...]:
    """The kinds of the nodes that have a target in training."""
    assert table.kinds is not None
    return tuple(table.kinds.names.nodes[kind] for kind in np.unique(table.kinds.of_node[rows]).tolist())


def notes(table: NodeTable, rows: np.ndarray) -> list[str]:
    """What should be known of the kinds before the training begins, a line each."""
    kinds = table.kinds
    assert kinds is not None
    names, found = kinds.names, []
    if len(names.nodes) > 1:
        counts = np.bincount(kinds.of_node, minlength=len(names.nodes)).tolist()
        listed = ", ".join(f"{name} {count:,}" for name, count in zip(names.nodes, counts, strict=True))
        found.append(f"{plural(len(names.nodes), 'kind')} of nodes: {listed}")
        found.append(f"learned from: {', '.join(told_kinds(table, rows))}")
    counts = np.bincount(kinds.of_edge, minlength=len(names.relations)).tolist()
    each = [f"{spoken(relation)} {count:,}" for relation, count in zip(names.relations, counts, strict=True)]
    listed = ", ".join([*each[:MOST_SHOWN], *([f"and {len(each) - MOST_SHOWN} more"] if each[MOST_SHOWN:] else [])])
    found.append(f"{plural(len(names.relations), 'relation')}: {listed}")
    if any(name.startswith(BACKWARD) for _, name, _ in names.relations) and table.edges.num_mirrored:
        found.append(
            f"{BACKWARD}… are the same edges the other way, as relations of their own; --directed leaves them out"
        )
    return found


def num_repeated(table: NodeTable) -> int:
    """Edges that another one before them of the same relation already is."""
    assert table.kinds is not None
    edges, count = table.edges, table.num_rows
    return len(edges) - num_distinct((table.kinds.of_edge * count + edges.senders) * count + edges.receivers)
