"""Graphs as estimators take them: whatever holds one becomes a `Graph` here, and its nodes are rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, TypeGuard, TypeVar

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor
from torch.utils.data import DataLoader

from edgewise.errors import DataError, plural, refuse_single_text
from edgewise.graph import Graph
from edgewise.graph.checks import plain_relations
from edgewise.graph.forms import library_of
from edgewise.learn.estimators.graph_arrays import (
    dense_features_of,
    edges_of,
    edges_of_matrix,
    is_matrix,
    sparse_features_of,
)
from edgewise.learn.estimators.graph_warnings import warn_of_coordinates
from edgewise.learn.estimators.labels import is_absent
from edgewise.learn.estimators.names import (
    RowsLike,
    column_names,
    columns_called,
    names_of_tables,
    node_number,
    positions_of_names,
    row_positions,
    written_names,
)
from edgewise.learn.estimators.numbers import as_numbers, unwrapped
from edgewise.learn.estimators.state import warn_caller
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.names import RowLabels
from edgewise.learn.readers.graphs.node_features import NodeFeatures, without_blanks
from edgewise.learn.tables.magnitude import require_scalable
from edgewise.neighborhood import Types

if TYPE_CHECKING:
    import pandas

Taken = TypeVar("Taken")


@dataclass(frozen=True, eq=False)
class GraphNodes:
    """The nodes of one graph as rows, for the cross-validation of scikit-learn.

    Taking some rows leaves the graph whole: an estimator sees every node and edge, and the targets of the rows alone.

        nodes = GraphNodes(graph)
        cross_val_score(NodeClassifier(), nodes, y, cv=NodeKFold(5))

    Args:
        data: A `Graph`, or what `Graph.of` takes; or features of nodes (node, feature).
        edges: The edges beside features: `Edges`, whole numbers (2, edge), sender above receiver, or a sparse matrix
            of SciPy or torch, a row a receiver. They are taken as they are: give both ways where both are meant. The
            entries of a matrix are the weights of its edges, one feature an edge, unless all are 1.
        edge_features: (edge, feature).
        node_types: (node) words or whole numbers. A column of features that is NaN in all nodes of a type is no
            feature of that type.
        edge_types: (edge) likewise.
    """

    graph: Graph
    """The graph."""
    sparse_features: NodeFeatures | None = None
    """The features of nodes, where a sparse matrix holds them; `graph` has none then."""
    rows: np.ndarray | None = None
    """The nodes or edges that are rows, by number; None where all are."""
    column_names: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of features, where DataFrames hold those of nodes (`X`) or of edges (`edge_features`)."""
    has_unit_weights: bool = False
    """Whether edges came as a matrix whose entries are all 1: not features; see `with_edge_features`."""
    row_noun: ClassVar[Literal["nodes", "edges"]] = "nodes"
    """What rows are."""

    def __init__(
        self,
        data: object,
        edges: object = None,
        edge_features: object = None,
        *,
        node_types: object = None,
        edge_types: object = None,
    ) -> None:
        extra_inputs = {"edge_features": edge_features, "node_types": node_types, "edge_types": edge_types}
        rows: GraphNodes | None = data if isinstance(data, GraphNodes) else None
        if rows is None and edges is None and not is_graph(data):
            raise DataError(f"edges is missing: give edges, or a Graph in place of X; X is {type(data).__name__}.")
        if edges is None:
            for name, values in extra_inputs.items():
                if values is not None:
                    raise DataError(f"{name} was given beside a graph that holds it; put it into the graph.")
            rows = rows or _checked(Graph.of(data), data)
        else:
            rows = _from_arrays(data, edges, **extra_inputs)
        for name, value in vars(rows).items():
            object.__setattr__(self, name, value)

    @classmethod
    def of(
        cls,
        graph: Graph,
        sparse_features: NodeFeatures | None = None,
        rows: np.ndarray | None = None,
        column_names: Mapping[str, tuple[str, ...]] | None = None,
        has_unit_weights: bool = False,
    ) -> Self:
        """Some rows of a graph."""
        nodes, names = object.__new__(cls), column_names or {}
        parts = {"graph": graph, "sparse_features": sparse_features, "rows": rows, "column_names": names}
        for name, value in (parts | {"has_unit_weights": has_unit_weights}).items():
            object.__setattr__(nodes, name, value)
        return nodes

    def with_edge_features(self, num_edge_features: int) -> Self:
        """The same for a model that was trained on so many features of an edge: without edges, none lacks them; and
        where it was trained on one, as on a matrix with other numbers, the ones of a matrix are weights."""
        are_weights = self.has_unit_weights and num_edge_features == 1
        lacks_none = not self.graph.num_edges and not self.edges.features.shape[1]
        if not num_edge_features or not (are_weights or lacks_none):
            return self
        features = torch.ones(self.graph.num_edges, num_edge_features, device="cpu")
        return self.of(**vars(self) | {"graph": replace(self.graph, edge_features=features)})

    def in_order(self, trained_names: Mapping[str, Sequence[str]]) -> Self:
        """The same with the features that a model was trained on, in the order of the training.

        Args:
            trained_names: The names of the features of nodes (`X`) and of edges (`edge_features`) in the training;
                features without names stay.

        Raises:
            DataError: One is missing.
        """
        graph, names = self.graph, dict(self.column_names)
        for argument, attribute in (("X", "node_features"), ("edge_features", "edge_features")):
            columns, wanted = names.get(argument, ()), tuple(trained_names.get(argument, ()))
            if columns and wanted and columns != wanted:
                order = positions_of_names(argument, columns, wanted)
                graph = replace(graph, **{attribute: getattr(graph, attribute)[:, order]})
                names[argument] = wanted
        return self if graph is self.graph else self.of(**vars(self) | {"graph": graph, "column_names": names})

    def __len__(self) -> int:
        return self.size if self.rows is None else len(self.rows)

    @property
    def size(self) -> int:
        """All nodes of the graph, or all edges."""
        return self.graph.num_nodes if self.row_noun == "nodes" else self.graph.num_edges

    @property
    def shape(self) -> tuple[int, int]:
        """(row, 1), for scikit-learn, which then takes rows by an array."""
        return len(self), 1

    def __getitem__(self, rows: ArrayLike | slice | tuple[ArrayLike | slice, ...]) -> Self:
        """Some rows; the graph stays whole.

        Args:
            rows: Numbers, a mask or a slice; names of nodes, as text, where these have some.

        Raises:
            DataError: They are something else, or no row is called so.
        """
        rows = rows[0] if isinstance(rows, tuple) else rows
        numbers = np.arange(self.size) if self.rows is None else self.rows
        if not isinstance(rows, slice):
            names = self.names if self.row_noun == "nodes" else None
            rows = row_positions(rows, len(self), None if names is None else [names[row] for row in numbers.tolist()])
        chosen = numbers[rows]
        return self.of(**vars(self) | {"rows": np.atleast_1d(chosen)})

    def scatter(self, values: np.ndarray, missing: float | str | bool) -> np.ndarray:
        """The values of the rows as an array over all nodes or all edges; `missing` elsewhere.

        Raises:
            DataError: The number of values differs from that of the rows.
        """
        if len(values) != len(self):
            raise DataError(f"y has {plural(len(values), 'row')}, but there are {len(self)} {self.row_noun}.")
        if self.rows is None:
            return values
        of_all = np.full((self.size, *values.shape[1:]), missing, dtype=values.dtype)
        of_all[self.rows] = values
        return of_all

    @property
    def features(self) -> NodeFeatures | None:
        """What is known of each node, NaN where a column is not a feature of its type; None where nothing is."""
        return self.sparse_features if (table := self._table()) is None else NodeFeatures.of(table)

    def _table(self) -> np.ndarray | None:
        """The features that are not sparse, as numbers that single precision can hold."""
        if (table := _features(self.graph)) is not None:
            require_scalable("the graph", "X", table)
        return table

    @property
    def edges(self) -> EdgeList:
        """The edges, with their features and the names of their types."""
        graph, features = self.graph, np.zeros((self.graph.num_edges, 0), dtype=np.float32)
        if isinstance(graph.edge_features, Tensor):
            table = graph.edge_features.detach().cpu().numpy()
            require_scalable("the graph", "edge_features", table)
            features = table.astype(np.float32)
        senders, receivers = graph.edges.senders.cpu().numpy(), graph.edges.receivers.cpu().numpy()
        columns = columns_called(self.column_names, "edge_features")
        return EdgeList(senders, receivers, features, types=_edge_names(graph), feature_columns=columns)

    @property
    def names(self) -> tuple[str, ...] | None:
        """What the nodes are called; None where they are numbered.

        Raises:
            DataError: Two names are written alike, such as 1 and "1".
        """
        names = self.graph.names
        return None if names is None else written_names(names)

    def number_of(self, node: object) -> int:
        """The place of a node: by its name in a graph with names, else by its number.

        Raises:
            DataError: No node is called so.
        """
        return node_number(node, self.names, self.graph.num_nodes)

    def taken(self, values: Taken) -> Taken:
        """The values of the rows, out of those of all nodes or edges."""
        return values[self.rows] if isinstance(values, np.ndarray) and self.rows is not None else values

    def arrays(self, missing: str = "impute") -> dict[str, Any]:
        """What `nodes_from_arrays` takes of a graph.

        Nothing is known of nodes without features; `nodes_from_arrays` then counts their edges.

        Args:
            missing: Whether NaN is a number that the scale fills, `impute`, or an error, `drop`.

        Raises:
            DataError: A number is not finite.
        """
        table, types = self._table(), self.graph.node_types
        if table is None and self.sparse_features is None:
            table = np.zeros((self.graph.num_nodes, 0), dtype=np.float32)
        named = None if types is None else RowLabels.of_array("node_types", _names_of_rows(types))
        blank = None
        if table is not None and types is not None:
            table, blank = without_blanks(table)
        features = self.sparse_features if table is None else NodeFeatures.of(table)
        assert features is not None
        values = features.values if table is None else table
        if np.isinf(values).any() or (missing == "drop" and np.isnan(values).any()):
            raise DataError("X holds NaN or an infinite number; fill it in, or leave the node out of the graph.")
        return {"features": features, "edges": self.edges, "types": named, "blank": blank, "names": self.names}


class GraphEdges(GraphNodes):
    """The edges of one graph as rows, for the cross-validation of scikit-learn; otherwise as `GraphNodes`.

    edges = GraphEdges(graph)
    cross_val_score(EdgeClassifier(), edges, y, cv=NodeKFold(5))
    """

    row_noun = "edges"


def holds_tables(data: object) -> TypeGuard["tuple[pandas.DataFrame, pandas.DataFrame]"]:
    """Whether it is a graph in tables of pandas, of nodes and of edges."""
    return isinstance(data, tuple) and len(data) > 1 and library_of(data[0]) == "pandas"


def is_graph(data: object) -> bool:
    """Whether it is a graph as a whole: ours, one of PyTorch Geometric or networkx, or (node features, edges)."""
    return isinstance(data, Graph | GraphNodes | tuple) or library_of(data) in ("pyg", "networkx")


def plain_nodes(owner: str, data: object, edges: object = None, edge_features: object = None) -> GraphNodes:
    """The nodes of a graph for an estimator that knows one type of nodes and edges.

    Raises:
        DataError: The graph has more.
    """
    return plain(owner, GraphNodes(data, edges, edge_features))


def plain(owner: str, rows: GraphNodes) -> GraphNodes:
    """The rows of a graph; a DataError where it has several types of nodes or edges."""
    if rows.graph.node_types is not None or rows.edges.types is not None:
        raise DataError(f"{owner} reads graphs of one type of nodes and edges; replace(graph, node_types=None, …).")
    return rows


def one_by_one(graphs: Any) -> RowsLike:
    """The graphs of a batch, ours or PyTorch Geometric's, one by one, also of those in a list; others as they are.

    Raises:
        DataError: It is one graph, or a loader, whose order may differ each time.
    """
    if isinstance(graphs, DataLoader):
        raise DataError("X is a DataLoader, whose graphs may come in another order each time; give loader.dataset.")
    if isinstance(graphs, Graph) or hasattr(graphs, "to_data_list"):
        return _of_batch(graphs)
    if library_of(graphs) in ("pyg", "networkx"):
        raise DataError(f"X is one graph, a {type(graphs).__name__}, where several are expected; put it into a list.")
    refuse_single_text("X", graphs)
    if isinstance(graphs, list | tuple) and any(_is_batch(graph) for graph in graphs):
        return [graph for part in graphs for graph in (_of_batch(part) if _is_batch(part) else [part])]
    return graphs


def _is_batch(graph: object) -> bool:
    return graph.offsets is not None if isinstance(graph, Graph) else hasattr(graph, "to_data_list")


def _of_batch(batch: Any) -> list:
    return batch.unbatch() if isinstance(batch, Graph) else batch.to_data_list()


def _from_arrays(
    node_features: object, edges: object, edge_features: object, node_types: object, edge_types: object
) -> GraphNodes:
    """A graph out of its parts."""
    is_sparse = hasattr(node_features, "tocoo")
    features = None if is_sparse or node_features is None else dense_features_of(node_features)
    sparse = sparse_features_of(node_features) if is_sparse else None
    read = features if sparse is None else sparse
    shape = None if read is None else tuple(read.shape)
    size = None if shape is None else shape[0]
    has_matrix = is_matrix(edges)
    if edge_types is not None and has_matrix:
        raise DataError("edge_types go with edges that have an order: give Edges, or an array (2, edge).")
    if shape is not None and shape[1] == 0:
        raise DataError(
            f"X has 0 feature(s) (shape={shape}) while a minimum of 1 is required; where nothing is "
            "known of the nodes, give None, or a graph without node_features."
        )
    edges, weights = edges_of_matrix(edges) if has_matrix else (edges, None)
    edge_list = edges_of(edges, size)
    of_edges, has_unit_weights = None, has_matrix and weights is None
    if weights is not None:
        if edge_features is None:
            edge_features = weights[:, None]
        else:
            warn_caller("edges is a matrix whose weights are not read beside edge_features; join them with these.")
    if edge_features is not None:
        table = as_numbers("edge_features", edge_features)
        require_scalable("the graph", "edge_features", table)
        of_edges = torch.as_tensor(table.astype(np.float32))
        if of_edges.ndim != 2 or len(of_edges) != edge_list.num_edges:
            raise DataError(f"edge_features is {tuple(of_edges.shape)}; expected ({edge_list.num_edges}, feature).")
    types = _types("node_types", node_types, edge_list.num_senders, "nodes")
    relations = _types("edge_types", edge_types, edge_list.num_edges, "edges")
    if types is not None and relations is not None:
        ends = plain_relations(types, edge_list)
        assert ends.names is not None
        names = zip(_names_of_rows(ends), _names_of_rows(relations))
        relations = Types.of([(sender, name, receiver) for (sender, _, receiver), name in names])
    graph = Graph(features, edge_list, of_edges, node_types=types, edge_types=relations)
    tables = {"X": node_features, "edge_features": edge_features}
    return GraphNodes.of(
        graph,
        sparse,
        column_names={name: column_names(name, table) for name, table in tables.items()},
        has_unit_weights=has_unit_weights and edge_features is None,
    )


def _types(name: str, type_of_row: object, size: int, rows: str) -> Types | None:
    if type_of_row is None:
        return None
    refuse_single_text(name, type_of_row)
    labels = np.asarray(unwrapped(type_of_row)).tolist()
    words = ["" if is_absent(label) else str(label).strip() for label in labels]
    if "" in words:
        raise DataError(f"{name}, row {words.index('')}: the type is missing; give each of the {rows} one.")
    if len(words) != size:
        raise DataError(f"{name} has {plural(len(words), 'row')}, but there are {size} {rows}.")
    return Types.of(words)


def _checked(graph: Graph, source: object) -> GraphNodes:
    """The nodes of a graph that came as a whole; its columns have names where they come from tables."""
    if isinstance(graph.edge_features, tuple):
        raise DataError("edges of different types have different features, which no estimator reads; leave them out.")
    warn_of_coordinates(graph)
    names = names_of_tables(*source[:2]) if holds_tables(source) else {}
    if not isinstance(graph.node_features, Tensor):  # each type has columns of its own
        names.pop("X", None)
    return GraphNodes.of(graph, column_names=names)


def _features(graph: Graph) -> np.ndarray | None:
    """(node, feature): one table, with the columns of each type side by side and NaN where a column is of another.

    Types stand in the order of their names: a model knows columns by number, and the same graph may hold its types in
    another order.
    """
    features, types = graph.dense_node_features, graph.node_types
    if features is None:
        return None
    if isinstance(features, Tensor):
        table = features.detach().cpu()
        return (table if table.dtype in (torch.float32, torch.float64) else table.to(torch.float32)).numpy()
    assert types is not None
    names = range(types.num_types) if types.names is None else list(map(str, types.names))
    rows_of_types = types.split(torch.arange(len(types)))
    blocks = []
    for number in sorted(range(types.num_types), key=lambda number: names[number]):
        if (part := features[number]) is not None:
            blocks.append(np.full((len(types), part.shape[1]), np.nan))
            blocks[-1][rows_of_types[number].numpy()] = part.detach().cpu().numpy()
    return np.concatenate(blocks, axis=1) if blocks else np.zeros((len(types), 0))


def _names_of_rows(types: Types) -> list:
    """The name of the type of each row, or its number."""
    names: Sequence[object] = range(types.num_types) if types.names is None else types.names
    return [names[number] for number in types.of_row.tolist()]


def _edge_names(graph: Graph) -> RowLabels | None:
    """What each edge is called; None where edges are unnamed."""
    if graph.edge_types is None:
        return None
    names = [name[1] if isinstance(name, tuple) else name for name in _names_of_rows(graph.edge_types)]
    return None if set(names) == {"to"} else RowLabels.of_array("edge_types", names)
