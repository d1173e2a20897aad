"""A trained ensemble over many graphs, with all it needs to read new ones: words, scales, sizes."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch

from edgewise.data.graphs.graphs import GraphTable, read_graphs
from edgewise.data.graphs.node_features import Categories
from edgewise.data.graphs.source import GraphColumns, GraphsSource
from edgewise.data.graphs.union import Union, take
from edgewise.data.scale import ConditionScaler, TargetScaler
from edgewise.errors import DataError
from edgewise.models.graph import GraphModel
from edgewise.models.graph_settings import GraphSettings, GraphSizes, NodeSettings
from edgewise.plural import plural
from edgewise.records import GraphBatch
from edgewise.tasks.graphs.settings import GraphRunSettings
from edgewise.tasks.nodes.units import RowBatches, check_weights, with_loops
from edgewise.tasks.trained import ROWS_A_BATCH, FittedTable

NODES_A_BATCH = 100_000
"""Nodes that are computed together where no gradient is wanted, or about as many."""


@dataclass(frozen=True)
class GraphStore:
    """Graphs in the units of a model: makes batches of them, each their disjoint union."""

    features: torch.Tensor
    """(node, feature), scaled, float32."""
    edge_features: torch.Tensor
    """(edge, feature), scaled, float32."""
    senders: torch.Tensor
    """(edge), counted within their graph, as are receivers."""
    receivers: torch.Tensor
    """(edge)."""
    offsets: torch.Tensor
    """(boundary): nodes of graph g are `offsets[g]:offsets[g + 1]`."""
    edge_offsets: torch.Tensor
    """(boundary): the same for edges."""
    roots: np.ndarray | None
    """(row): the root of each, counted within the graph; None where the model needs none."""
    conditions: np.ndarray
    """(row, condition), scaled, float32."""
    has_loops: bool
    """Whether every node is to be among its own neighbors."""

    def batch(self, rows: np.ndarray) -> GraphBatch:
        """Graphs to predict."""
        union = Union.of(rows, self.offsets, self.edge_offsets, self.senders, self.receivers)
        edges, edge_features = union.edges, take(self.edge_features, union.edge_places)
        if self.has_loops:
            edges, edge_features = with_loops(edges, edge_features)
        roots = torch.zeros(0, dtype=torch.int64)
        if self.roots is not None:
            roots = torch.from_numpy(self.roots[rows]) + union.offsets[:-1]
        conditions = torch.from_numpy(self.conditions[rows])
        features = take(self.features, union.nodes)
        return GraphBatch(features, edges, edge_features, union.offsets, roots, conditions)


@dataclass(frozen=True)
class Scales:
    """The scales learned on training graphs."""

    node: ConditionScaler
    """Of the features of nodes."""
    edge: ConditionScaler
    """Of the features of edges."""
    graph: ConditionScaler
    """Of the numbers of graphs as a whole."""
    target: TargetScaler | None
    """Of the targets; None for classes."""


@dataclass(kw_only=True)
class FittedGraphs(FittedTable):
    """A trained ensemble over many graphs."""

    FORMAT = GraphRunSettings.FORMAT

    columns: GraphColumns
    """The columns it was trained on, targets by name."""
    settings: NodeSettings
    """The layers over the edges."""
    whole: GraphSettings
    """How the nodes of a graph become one vector."""
    sizes: GraphSizes
    """What the data looks like."""
    graph: GraphsSource
    """Where the edges of the training graphs were, and how they were read."""
    scales: Scales
    """The scales learned on the training graphs."""
    categories: Categories
    """The words of each column of categories of nodes."""
    edge_categories: Categories = field(default_factory=dict)
    """The words of each column of categories of edges."""

    @property
    def target_scale(self) -> TargetScaler | None:
        """From the unit of the targets to that of the model; None for classes."""
        return self.scales.target

    @property
    def rows_a_batch(self) -> int:
        """Graphs that are computed together: fewer where they are large."""
        return max(1, min(ROWS_A_BATCH, int(NODES_A_BATCH / self.sizes.typical_nodes)))

    @property
    def model_outputs(self) -> int:
        """Numbers that a model gives for a row, as it is built."""
        return self.sizes.num_outputs

    def new_member(self) -> GraphModel:
        """A model before its first step, drawn from torch's generator."""
        return GraphModel(self.sizes, self.settings, self.whole)

    def read(
        self, paths: Sequence[str], columns: GraphColumns, source: GraphsSource, *, strict: bool = False
    ) -> GraphTable:
        """Graphs to predict, with the words that the model knows."""
        return read_graphs(
            paths,
            columns,
            source,
            need_roots=self.whole.needs_roots,
            strict=strict,
            need_targets=False,
            categories=self.categories,
            edge_categories=self.edge_categories,
        )

    def batches(self, table: GraphTable) -> RowBatches:
        """The graphs as the models take them.

        Raises:
            DataError: nodes, edges or graphs have another number of features than those of the training.
        """
        scales, edges = self.scales, table.edges
        columns = {
            "nodes": (table.features, scales.node),
            "edges": (edges.features, scales.edge),
            "graphs": (table.conditions, scales.graph),
        }
        for what, (values, scale) in columns.items():
            if values.shape[1] != len(scale.mean):
                raise DataError(
                    f"{table.source}: its {what} have {plural(values.shape[1], 'feature')}, but the "
                    "model was trained on "
                    f"{len(scale.mean)}."
                )
        features, edge_features, conditions = (
            scale.transform(values.astype(np.float64)).astype(np.float32) for values, scale in columns.values()
        )
        check_weights(table.source, edges, self.settings, self.sizes)
        if self.settings.spec.reads_edge_weights:  # a weight is not scaled
            edge_features = edges.features
        starts = table.offsets[table.graph_of_edge]
        trees = table.trees
        store = GraphStore(
            torch.from_numpy(features),
            torch.from_numpy(edge_features),
            torch.from_numpy(edges.senders - starts),
            torch.from_numpy(edges.receivers - starts),
            torch.from_numpy(table.offsets),
            torch.from_numpy(table.edge_offsets),
            None if trees is None else trees.roots - table.offsets[:-1],
            conditions,
            self.settings.has_loops,
        )
        return RowBatches.of(table, scales.target, store.batch)

    def check(self) -> None:
        """Raise DataError unless the fields fit each other."""
        super().check()
        for name, size, scaler in (
            ("num_features", self.sizes.num_features, self.scales.node),
            ("num_conditions", self.sizes.num_conditions, self.scales.graph),
        ):
            if size != scaler.num_features:
                raise DataError(f"sizes.{name} is {size}, but scales have {scaler.num_features}.")
