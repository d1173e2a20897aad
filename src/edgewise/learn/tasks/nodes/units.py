"""A graph in the units of a model: features of its nodes scaled, loops added where a model wants them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, TypeAlias, cast

import numpy as np
import torch
import torch.nn.functional as F

from edgewise.errors import DataError, SettingError
from edgewise.formatting import plural
from edgewise.graph.records import NodeBatch, SparseFeatures
from edgewise.learn.networks.graph_settings import GraphSizes, NodeSettings, NodeSizes
from edgewise.learn.readers.graphs.edges import EdgeList, num_distinct
from edgewise.learn.readers.graphs.lost import hops_to_lost
from edgewise.learn.readers.graphs.node_features import Categories, NodeFeatures, check_categories
from edgewise.learn.readers.graphs.nodes import NodeTable
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.readers.graphs.types import BACKWARD, GraphTypes, TypeScaler, in_own_columns, in_words, left_aligned
from edgewise.learn.readers.store.table import StoredFeatures, StoredTable
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.impute import Imputer, filled_notes
from edgewise.learn.tables.scale import ConditionScaler
from edgewise.learn.tasks.nodes.settings import REMEDY
from edgewise.learn.tasks.table_notes import constant_features, names_of_features
from edgewise.neighborhood import Edges, Relations, Types

MAX_SHOWN = 12
"""Relations that are listed with their edges."""
SCALED = 2**18
"""Numbers that are scaled together, in double precision."""


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


def notes_of_types(table: NodeTable, rows: np.ndarray) -> list[str]:
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
    each = [f"{in_words(relation)} {count:,}" for relation, count in zip(names.relations, counts, strict=True)]
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


FeatureScale: TypeAlias = Literal["rows", "standard", "none"]
"""Features as parts of their sum over a node, in units of their spread, or as they are."""


def scale_of(
    features: NodeFeatures | StoredFeatures, chosen: str, types: GraphTypes | None = None
) -> tuple[FeatureScale, ConditionScaler | TypeScaler | None]:
    """How features are scaled (rows, standard or none) where `chosen` may be auto, and their spread over all nodes, or
    over those of each type."""
    if chosen == "auto":
        chosen = "rows" if features.are_words else "standard"
    scale: FeatureScale = cast(FeatureScale, chosen)
    if scale != "standard":
        return scale, None
    if types is not None:
        assert isinstance(features, NodeFeatures)
        values = features.to_dense().astype(np.float64)
        return scale, TypeScaler.fit(values, types.of_node, types.names.features)
    # Numbers that are missing in a store are known when it is prepared: their nodes are left out.
    imputer = Imputer.fit(features.parts()) if isinstance(features, NodeFeatures) else Imputer()
    return scale, ConditionScaler.fit_parts(features.parts, keep_one=True, imputer=imputer)


def with_degrees(features: NodeFeatures | StoredFeatures, edges: EdgeList | None) -> NodeFeatures | StoredFeatures:
    """The features of nodes and, behind them, the numbers of edges that come and go.

    Args:
        features: of the nodes.
        edges: between them; None where a store has them.
    """
    if isinstance(features, StoredFeatures):
        return replace(features, adds_degrees=True)
    assert edges is not None
    return features.beside(edges.degrees(features.shape[0]))


def are_degrees(features: np.ndarray | NodeFeatures | StoredFeatures, edges: EdgeList | None) -> bool:
    """Whether the features of nodes are the numbers of edges that come and go, and no others."""
    if isinstance(features, StoredFeatures):
        return features.has_degrees
    assert edges is not None
    table = features.to_dense() if isinstance(features, NodeFeatures) else features
    return np.array_equal(table, edges.degrees(len(table)))


def reading_columns(columns: Columns, feature_scale: str) -> Columns:
    """The columns as a run reads them: features that are taken as they are, or as parts of a sum, are not filled."""
    return replace(columns, missing="drop") if feature_scale in ("rows", "none") else columns


def fills(scaler: ConditionScaler | TypeScaler | None) -> bool:
    """Whether features without a number are filled."""
    each = scaler.scalers if isinstance(scaler, TypeScaler) else () if scaler is None else (scaler,)
    return any(own.imputer.median for own in each)


def names_of_node_features(fitted: Any, columns: Columns) -> list[str]:
    """The names of the features of nodes, those of words last.

    Args:
        fitted: the model.
        columns: the role of each column.
    """
    words = [f"{name!r} {word!r}" for name, known in fitted.categories.items() for word in known]
    return [*names_of_features(columns.descriptors_columns, fitted.num_columns, fitted.categories), *words]


def lacks_features(
    scaler: ConditionScaler | TypeScaler | None,
    features: np.ndarray | NodeFeatures | StoredFeatures,
    edges: EdgeList | None,
) -> bool:
    """Whether no feature of a node varies, so that all nodes look alike to layers that take means of neighbors.

    Args:
        scaler: of the features.
        features: of the nodes; where they are the numbers of edges already, nothing can be added.
        edges: between the nodes; None where a store has them.
    """
    if not isinstance(scaler, ConditionScaler) or scaler.imputer.marked:  # which numbers are missing varies
        return False
    is_constant = 0 < len(scaler.constant_columns) == len(scaler.mean)
    return is_constant and not are_degrees(features, edges)


def scaled_rows(values: np.ndarray, scale: str, scaler: ConditionScaler | TypeScaler | None) -> torch.Tensor:
    """What is known of some nodes, `(node, feature)`, in the units of a model."""
    if isinstance(scaler, ConditionScaler):
        found, step = (
            np.empty((len(values), scaler.num_features), np.float32),
            max(1, SCALED // max(1, values.shape[1])),
        )
        for start in range(0, len(values), step):
            inside = slice(start, start + step)
            found[inside] = scaler.transform(values[inside].astype(np.float64))
        return torch.from_numpy(found)
    if scale == "rows":
        sums = np.abs(values).sum(axis=1, keepdims=True)
        values = values / np.where(sums > 0, sums, 1)
    return torch.from_numpy(np.ascontiguousarray(values, dtype=np.float32))


def scaled(
    features: NodeFeatures, scale: str, scaler: ConditionScaler | TypeScaler | None, types: GraphTypes | None = None
) -> torch.Tensor | SparseFeatures:
    """What is known of each node in the units of a model."""
    if isinstance(scaler, ConditionScaler):
        return scaled_rows(features.to_dense(), scale, scaler)
    are_sparse = scaler is None and features.are_sparse
    if scale == "rows":
        sums = np.bincount(features.rows, np.abs(features.values), minlength=features.shape[0])
        shares = (features.values / sums[features.rows]).astype(np.float32)
        features = NodeFeatures.of_entries(features.rows, features.columns, shares, features.shape)
    if types is not None:
        features = by_type(features, types, scaler)
    if not are_sparse:
        return torch.from_numpy(features.to_dense())
    num_nodes, num_features = features.shape
    entries = Edges(torch.from_numpy(features.columns), torch.from_numpy(features.rows), num_features, num_nodes)
    return SparseFeatures(entries, torch.from_numpy(features.values))


@dataclass(frozen=True)
class GraphEncoding:
    """How nodes and edges of one graph become numbers: what its reading and the scales of its features fixed."""

    columns: Columns
    """The columns of the training, targets by name."""
    settings: NodeSettings
    """The layers and their sizes."""
    graph: GraphSource
    """How the edges of the training graph were read."""
    feature_scale: FeatureScale
    """How the features of nodes are scaled."""
    scaler: ConditionScaler | TypeScaler | None
    """Of the features of nodes, where they are scaled by their spread."""
    num_columns: int
    """Features of a node as they stand in the file."""
    adds_degrees: bool = False
    """Whether the numbers of edges that come and go are features as well, because no other one varies."""
    has_degrees: bool | None = None
    """Whether nothing was known of the nodes in training but their edges; None where a run does not say."""
    categories: Categories = field(default_factory=dict)
    """The words of each column of categories of nodes."""
    edge_categories: Categories = field(default_factory=dict)
    """The words of each column of categories of edges."""

    @classmethod
    def fit(
        cls,
        job: Any,
        table: Any,
        nodes: NodeFeatures | StoredFeatures,
        edges: EdgeList | None,
        types: GraphTypes | None = None,
    ) -> Self:
        """The scales of all nodes, which are all seen in training, as the model is trained on the whole graph.

        Args:
            job: the settings of the run.
            table: the rows.
            nodes: the features of the nodes.
            edges: between the nodes; None where a store has them.
            types: of nodes and edges.
        """
        scale, scaler = scale_of(nodes, job.feature_scale, types)
        if adds_degrees := lacks_features(scaler, nodes, edges):
            scale, scaler = scale_of(with_degrees(nodes, edges), job.feature_scale)
        return cls(
            columns=replace(table.columns, missing="impute" if fills(scaler) else "drop"),
            settings=job.model,
            graph=job.graph,
            feature_scale=scale,
            scaler=scaler,
            num_columns=nodes.shape[1],
            adds_degrees=adds_degrees,
            has_degrees=table.has_degrees,
            categories=table.categories,
            edge_categories=table.edge_categories if isinstance(table, StoredTable) else table.edges.categories,
        )

    @property
    def num_features(self) -> int:
        """Features of a node as the layers read them."""
        return self.scaler.num_features if isinstance(self.scaler, ConditionScaler) else self.num_columns

    @property
    def known_words(self) -> dict[str, Any]:
        """How tables of graphs to predict are read: without targets, with the words that the model knows."""
        return {"categories": self.categories, "edge_categories": self.edge_categories, "need_targets": False}

    def node_features(self, features: NodeFeatures, edges: EdgeList) -> NodeFeatures:
        """What is known of each node, before it is scaled.

        Args:
            features: as they stand in the file.
            edges: between the nodes.
        """
        if not self.adds_degrees:
            return features
        beside = with_degrees(features, edges)
        assert isinstance(beside, NodeFeatures)
        return beside

    def names_of_features(self) -> list[str]:
        """The names of the features of nodes, those of words last."""
        return names_of_node_features(self, self.columns)

    def check(self) -> None:
        """Raise DataError unless the fields fit each other."""
        check_categories("categories", self.categories, self.columns.category_columns)
        check_categories("edge_categories", self.edge_categories, self.graph.edge_category_columns)


WHOLE_GRAPH = 1 << 40
"""Rows that are computed together where each batch is the whole graph."""


def lost_within_reach(settings: NodeSettings, edges: EdgeList, num_nodes: int) -> np.ndarray:
    """How far the nearest edge that cannot be read is from each node, as `hops_to_lost` has it."""
    sees_all = settings.is_extended or settings.laplacian_positions > 0 or settings.random_walk_positions > 0
    return hops_to_lost(edges, num_nodes, settings.reach, sees_all=sees_all)


def named_columns(missing: Mapping[int, Sequence[int]], names: Sequence[str]) -> dict[int, list[str]]:
    """The names of the columns that rows lack."""
    return {row: [names[column] for column in columns if column < len(names)] for row, columns in missing.items()}


def notes_of_missing(fitted: GraphEncoding, columns: Columns, nodes: NodeFeatures | StoredFeatures) -> list[str]:
    """The warning of features of nodes that are missing and filled."""
    if isinstance(nodes, StoredFeatures) or not nodes.num_missing:
        return []
    names = names_of_node_features(fitted, columns)
    return filled_notes(nodes.to_dense()[:, : len(names)], names, "nodes", source="all nodes")


def notes_of_constants(fitted: GraphEncoding, table: Any, nodes: NodeFeatures | StoredFeatures) -> list[str]:
    """The warnings of features of nodes that do not vary, of each type.

    Args:
        fitted: the model before its first step.
        table: its rows.
        nodes: the features of its nodes.
    """
    scaler, types = fitted.scaler, getattr(table, "types", None)
    num_added = 0 if types is None else types.names.num_added
    named = table.columns.descriptors_columns
    names = names_of_features(named, fitted.num_columns - num_added, fitted.categories)
    if isinstance(scaler, ConditionScaler):
        if scaler.constant_columns and are_degrees(nodes, getattr(table, "edges", None)):
            return []
        return constant_features(scaler, names, "training nodes", adds_degrees=fitted.adds_degrees)
    found = []
    if isinstance(scaler, TypeScaler) and types is not None:
        counts = np.bincount(types.of_node, minlength=len(types.names.nodes)).tolist()
        for name, own, each, count in zip(types.names.nodes, types.names.features, scaler.scalers, counts, strict=True):
            given = [names[column] for column in own if column < len(names) and count > 1]
            adds_degrees = bool(given) and name in types.names.degrees
            found += constant_features(each, given, f"nodes of type {name!r}", adds_degrees=adds_degrees)
    return found


def check_features(source: str, known: tuple[int, int], given: tuple[int, int]) -> None:
    """Raise a DataError where nodes or edges have another number of features than those of the training graph."""
    for what, expected, count in zip(("nodes", "edges"), known, given, strict=True):
        if count != expected:
            raise DataError(f"{source}: its {what} have {count} features, but the model was trained on {expected}.")


def features_in_words(table: Any, count: int) -> str:
    """How many features nodes have, and whether they are their edges."""
    of_edges = ": how many edges come and how many go, as no other is known" if table.has_degrees else ""
    return f"{plural(count, 'feature')} of a node{of_edges}"


def check_same_kind(trained: Any, table: Any, num_columns: int) -> None:
    """Raise a DataError where edges are counted in place of features that the model knows, or the other way round.

    Args:
        trained: the ensemble.
        table: rows to predict.
        num_columns: features of a node that the model knows.
    """
    if trained.has_degrees is None or table.has_degrees == trained.has_degrees:
        return
    known = "none" if trained.has_degrees else f"{num_columns}"
    given = "no features" if table.has_degrees else "features"
    raise DataError(f"{table.source}: its nodes have {given}, but the model was trained on {known}.")


def num_edge_features(edges: EdgeList, scaler: ConditionScaler, settings: NodeSettings) -> int:
    """How many features of an edge the layers read where they are scaled; a weight is not."""
    return edges.features.shape[1] if settings.spec.reads_edge_weights else scaler.num_features


def note_of_edges(count: int, settings: NodeSettings) -> list[str]:
    """A line about features of edges that the layers ignore, or read as weights; none where there are none."""
    spec = settings.spec
    if not count or spec.has_edge_features:
        return []
    use = "ignores" if spec.ignores_edges(count) else "reads as the weight of the edge"
    return [f"{plural(count, 'feature')} of an edge, which --model {spec.name} {use}"]


def check_weights(source: str, edges: EdgeList, settings: NodeSettings, sizes: NodeSizes | GraphSizes) -> None:
    """Raise a DataError where the one feature of an edge is read as its weight, and is below 0."""
    reads_weights = settings.spec.reads_edge_weights and edges.features.shape[1] == 1
    if reads_weights and (negative := np.flatnonzero(edges.features[:, 0] < 0)).size:
        weight = edges.features[negative[0], 0]
        raise DataError(
            f"{source}: the weight of an edge is {weight:g}; --model {settings.model} reads the one feature of an edge "
            "as its weight, expected zero or more."
        )


def graph_batch(features: torch.Tensor | SparseFeatures, edges: EdgeList, has_loops: bool) -> NodeBatch:
    """A graph without rows, in the units of a model."""
    count, of_edges = features.shape[0], torch.from_numpy(edges.features)
    among = Edges(torch.from_numpy(edges.senders), torch.from_numpy(edges.receivers), count, count)
    if has_loops:
        among, of_edges = with_loops(among, of_edges)
    return NodeBatch(features, among, of_edges, torch.zeros(0, dtype=torch.int64))


def with_loops(edges: Edges, features: torch.Tensor) -> tuple[Edges, torch.Tensor]:
    """The edges and a loop of each node that had none; one more feature marks the new loops, if there are any."""
    looped = edges.with_self_loops()
    if not features.shape[1]:
        return looped, features.new_zeros(len(looped.senders), 0)
    num_added = len(looped.senders) - len(features)
    marked = F.pad(features.new_ones(num_added, 1), (features.shape[1], 0))
    return looped, torch.cat([F.pad(features, (0, 1)), marked])
