"""Our sampler as PyTorch Geometric's loaders call one: graphs and stores in, samples as it writes them out."""

from collections.abc import Hashable, Sequence
from dataclasses import replace as replaced
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch_geometric.data import Data, HeteroData
from torch_geometric.data.remote_backend_utils import num_nodes as num_nodes_in_stores
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, NodeSamplerInput, SamplerOutput
from torch_geometric.sampler.base import NumNeighbors
from torch_geometric.sampler.neighbor_sampler import edge_sample

from edgewise.errors import DataError, SettingError, ShapeError
from edgewise.graph import Graph
from edgewise.neighborhood import Edges, Types
from edgewise.sampling import NeighborSampler, Sample

NO_NODES = torch.empty(0, dtype=torch.int64, device="cpu")
ALWAYS = torch.iinfo(torch.int64).min
"""The time of edges that have none: before all seeds."""
LAST = torch.iinfo(torch.int64).max
"""The last time in whole numbers."""


class PygSampler(BaseSampler):
    """Our sampler as PyTorch Geometric's loaders call one. See `NeighborLoader` for its arguments."""

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        *,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
    ):
        self.form = str(getattr(subgraph_type, "value", subgraph_type))
        if self.form not in ("directional", "bidirectional", "induced"):
            raise SettingError(
                f"NeighborLoader: subgraph_type is {self.form!r}; expected directional, bidirectional or induced."
            )
        if isinstance(data, tuple | list):
            features, graphs = data
            data = _data_of_stores(features, graphs, time_attr)
        is_hetero = isinstance(data, HeteroData)
        self.node_names: Sequence[Hashable] = list(data.node_types) if is_hetero else [None]
        self.edge_names: Sequence[Hashable] = list(data.edge_types) if is_hetero else [None]
        no_edges = [(self.node_names[0], "to", self.node_names[0])]  # a type for nodes with types but without edges
        stores = [data[name] for name in self.edge_names] if is_hetero else [data]
        is_theirs = isinstance(num_neighbors, NumNeighbors)
        self.num_neighbors = num_neighbors if is_theirs else NumNeighbors(num_neighbors)
        self.has_hops = len(self.num_neighbors) > 0
        index_of_store = [self._edge_index(name, store) for name, store in zip(self.edge_names, stores)]
        self.sizes = [_num_nodes(name, data[name] if is_hetero else data) for name in self.node_names]
        self.starts = dict(zip(self.node_names, torch.tensor([0, *self.sizes], device="cpu").cumsum(0).tolist()))
        self.num_edges = [index.shape[1] for index in index_of_store]
        ends = [(name[0], name[2]) if isinstance(name, tuple) else (None, None) for name in self.edge_names]
        for name, of_ends in zip(self.edge_names, ends):
            if unknown := [end for end in of_ends if end not in self.node_names]:
                raise DataError(
                    f"NeighborLoader: edges of type {name} join nodes of type {unknown[0]!r}, of which nothing is "
                    f"known; give data[{unknown[0]!r}] x or num_nodes."
                )
        senders, receivers = (
            torch.cat([NO_NODES, *(i[row].cpu() + self.starts[of[row]] for i, of in zip(index_of_store, ends))])
            for row in (0, 1)
        )
        count = sum(self.sizes)
        graph = Graph(
            None,
            Edges(senders, receivers, count, count),
            node_types=_types(self.sizes, self.node_names) if is_hetero else None,
            edge_types=_types(self.num_edges or [0], self.edge_names or no_edges) if is_hetero else None,
        )
        self.node_time: dict[Hashable, Tensor] = {}
        edge_times = None
        if time_attr is not None:
            edge_times = self._edge_times(data, time_attr, senders)
        if is_theirs:
            num_neighbors = num_neighbors.get_values(self.edge_names if is_hetero else None)
        self.sampler = NeighborSampler(
            graph,
            num_neighbors if self.has_hops else [0],
            replace=replace,
            weights=None if weight_attr is None else _per_edge(stores, weight_attr, self.num_edges, 1.0),
            edge_times=edge_times,
            strategy=temporal_strategy,
            disjoint=disjoint,
            form="induced" if self.form == "induced" else "directional",
        )

    def sample_from_nodes(self, index: "NodeSamplerInput", **kwargs: Any) -> Any:
        """A sample around some nodes; which one, torch's generator says."""
        return self.sample(index, int(torch.empty((), dtype=torch.int64, device="cpu").random_()), 0)

    def sample_from_edges(self, index: Any, neg_sampling: Any = None) -> Any:
        """A sample around the ends of some links, and of pairs that are none; which ones, torch's generator says."""
        return self.sample_links(
            index, neg_sampling, int(torch.empty((), dtype=torch.int64, device="cpu").random_()), 0
        )

    def sample(self, index: "NodeSamplerInput", seed: int, batch: int) -> Any:
        """Sample number `batch` of a seed, as PyTorch Geometric writes it."""
        nodes, times = index.node.cpu(), index.time
        if self.sampler.is_timed and times is None:
            times = self.node_time.get(index.input_type)
            if times is None:
                raise SettingError("NeighborLoader: edges have times; give those of the seeds: input_time=….")
            times = times[nodes]
        out = self._around(self._in_graph(index.input_type, nodes), times, seed, batch)
        out.metadata = (index.input_id, index.time)
        return out

    def sample_links(self, index: Any, neg_sampling: Any, seed: int, batch: int) -> Any:
        """The same around links."""
        is_typed = self.node_names != [None]

        def sample(nodes: Any, times: Any) -> Any:
            nodes, times = (nodes, times) if is_typed else ({None: nodes}, None if times is None else {None: times})
            seeds = torch.cat([self._in_graph(name, rows.cpu()) for name, rows in nodes.items()])
            return self._around(seeds, None if times is None else torch.cat(list(times.values())), seed, batch)

        sizes = dict(zip(self.node_names, self.sizes)) if is_typed else self.sizes[0]
        node_time = (self.node_time or None) if is_typed else self.node_time.get(None)
        return edge_sample(index, sample, sizes, self.sampler.disjoint, node_time, neg_sampling)

    def _in_graph(self, name: Hashable, nodes: Tensor) -> Tensor:
        """Nodes of a type as nodes of the graph, where those of the next type stand behind them."""
        size = self.sizes[self.node_names.index(name)]
        if nodes.numel() and not 0 <= int(nodes.min()) <= int(nodes.max()) < size:
            outside = int(nodes.min()) if nodes.min() < 0 else int(nodes.max())
            of_type = "" if name is None else f" of type {name!r}"
            raise ShapeError(f"NeighborLoader: seeds{of_type} must lie in 0 … {size - 1}; found {outside}.")
        return nodes + self.starts[name]

    def _around(self, seeds: Tensor, times: Tensor | None, seed: int, batch: int) -> Any:
        """A sample around nodes of the whole graph, a node as often as it is given."""
        if times is not None:
            # Ours lie before the seed's time, theirs before or at it. The last moment has none after it.
            times = (
                _whole_times(times).clamp(max=LAST - 1) + 1
                if not times.is_floating_point()
                else times.double().nextafter(torch.tensor(torch.inf, device="cpu").double())
            )
        sample = self.sampler.sample(seeds, times=times, epoch=seed, batch=batch)
        if not self.sampler.disjoint:
            sample = _with_repeated_seeds(sample, self.sampler.graph)
        if not self.has_hops:
            sample = replaced(sample, nodes_per_hop=sample.nodes_per_hop[:1], edges_per_hop=())
        out = self._one_type(sample) if self.edge_names == [None] else self._by_type(sample)
        return out.to_bidirectional() if self.form == "bidirectional" else out

    def _one_type(self, sample: Sample) -> "SamplerOutput":
        edges = sample.graph.edges
        return SamplerOutput(
            *(sample.n_id, edges.senders, edges.receivers, sample.e_id, sample.trees),
            *(list(sample.nodes_per_hop), list(sample.edges_per_hop)),
        )

    def _by_type(self, sample: Sample) -> "HeteroSamplerOutput":
        """Nodes and edges counted within their types."""
        types, relations, edges = sample.graph.node_types, sample.graph.edge_types, sample.graph.edges
        assert types is not None and relations is not None
        ranks = types.ranks
        node_starts, edge_starts = (
            torch.tensor([0, *sizes], device="cpu").cumsum(0) for sizes in (self.sizes, self.num_edges)
        )
        per_node, per_edge = (
            (sample.n_id - node_starts[types.of_row], sample.trees),
            (sample.e_id - edge_starts[relations.of_row], ranks[edges.senders], ranks[edges.receivers]),
        )
        node, batch = ({} if x is None else dict(zip(self.node_names, types.split(x))) for x in per_node)
        edge, row, col = (dict(zip(self.edge_names, relations.split(x))) for x in per_edge)
        return HeteroSamplerOutput(
            *(node, row, col, edge, batch or None),
            _per_hop(types, self.node_names, sample.nodes_per_hop),
            _per_hop(relations, self.edge_names, sample.edges_per_hop) if self.edge_names else {},
        )

    def _edge_index(self, name: Hashable, store: Any) -> Tensor:
        """The edges of a type; none where there are none and no hop reads them."""
        if "edge_index" in store and store.edge_index is not None:
            if store.edge_index.dim() != 2 or store.edge_index.shape[0] != 2:
                shape = tuple(store.edge_index.shape)
                raise DataError(f"NeighborLoader: edge_index of {name or 'the data'} is {shape}; expected (2, edge).")
            return store.edge_index
        if self.has_hops:
            raise DataError(f"NeighborLoader: {name or 'the data'} has no edge_index.")
        return NO_NODES.new_empty(2, 0)

    def _edge_times(self, data: "Data | HeteroData", name: str, senders: Tensor) -> Tensor:
        """The time of each edge, its own or that of its sender; those of nodes are the seeds' too."""
        is_hetero = isinstance(data, HeteroData)
        stores = [data[edge_type] for edge_type in self.edge_names] if is_hetero else [data]
        nodes = {node_type: data[node_type] if is_hetero else data for node_type in self.node_names}
        of_nodes = {
            node_type: _whole_times(store[name])
            for node_type, store in nodes.items()
            if name in store and store.is_node_attr(name)
        }
        of_edges = [name in store and store.is_edge_attr(name) for store in stores]
        if bool(of_nodes) == any(of_edges):
            owner = "nodes and edges" if of_nodes else "neither nodes nor edges"
            raise SettingError(f"NeighborLoader: time_attr {name!r} is of {owner}; expected one of the two.")
        if not of_nodes:
            return _per_edge(stores, name, self.num_edges, ALWAYS)
        self.node_time = of_nodes
        first = next(iter(of_nodes.values()))
        never = torch.full(
            (max(self.sizes),), -torch.inf if first.is_floating_point() else ALWAYS, dtype=first.dtype, device="cpu"
        )
        times = [of_nodes.get(node_type, never[:size]) for node_type, size in zip(self.node_names, self.sizes)]
        return torch.cat(times)[senders]


def _num_nodes(name: Hashable, store: Any) -> int:
    """How many nodes there are of a type."""
    if (count := store.num_nodes) is None:
        whose = "the data" if name is None else f"data[{name!r}]"
        raise DataError(f"NeighborLoader: nothing says how many nodes {whose} has; give {whose} x or num_nodes.")
    return int(count)


def _data_of_stores(features: Any, graphs: Any, time_attr: str | None) -> Any:
    """The edges, sizes and times of a graph that stores hold, as a `Data`, or a `HeteroData` where edges have types."""
    senders, receivers, _ = graphs.coo()
    if isinstance(senders, Tensor):
        size = graphs.get_all_edge_attrs()[0].size
        data = Data(edge_index=torch.stack([senders, receivers]), num_nodes=None if size is None else max(size))
    else:
        data = HeteroData()
        of_features = [attr.group_name for attr in features.get_all_tensor_attrs() if isinstance(attr.group_name, str)]
        for name in dict.fromkeys([*(end for edge in senders for end in (edge[0], edge[2])), *of_features]):
            data[name].num_nodes = num_nodes_in_stores(features, graphs, name)
        for edge, rows in senders.items():
            data[edge].edge_index = torch.stack([rows, receivers[edge]])
    for attr in features.get_all_tensor_attrs() if time_attr is not None else ():
        if attr.attr_name == time_attr:
            of_type = data if attr.group_name is None else data[attr.group_name]
            of_type[time_attr] = features.get_tensor(attr.group_name, time_attr, index=None)
    return data


def _with_repeated_seeds(sample: Sample, graph: Graph) -> Sample:
    """A node that is several times a seed stands as often before the others, each time with the same edges."""
    seed_rows = sample.seeds.numpy()  # of each seed, among the different ones
    num_seeds, num_different = len(seed_rows), sample.nodes_per_hop[0]
    if num_seeds == num_different:
        return sample
    different, first_seeds = np.unique(seed_rows, return_index=True)
    new_rows = np.arange(len(sample.n_id)) + num_seeds - num_different
    new_rows[different] = first_seeds
    old_receivers = sample.graph.edges.receivers.numpy()
    senders, receivers, e_id = (
        new_rows[sample.graph.edges.senders.numpy()],
        new_rows[old_receivers],
        sample.e_id.numpy(),
    )
    nodes = np.concatenate([sample.n_id.numpy()[seed_rows], sample.n_id.numpy()[num_different:]])

    # The edges of each repeated seed, once more.
    copies = np.setdiff1d(np.arange(num_seeds), first_seeds)
    by_receiver = np.argsort(old_receivers, kind="stable")
    starts, stops = (np.searchsorted(old_receivers[by_receiver], seed_rows[copies], side) for side in ("left", "right"))
    counts = stops - starts
    copied = by_receiver[np.arange(counts.sum()) + np.repeat(starts - np.append(0, counts.cumsum()[:-1]), counts)]
    num_first = sample.edges_per_hop[0]  # the first hop has all edges of seeds
    senders = np.insert(senders, num_first, senders[copied])
    receivers = np.insert(receivers, num_first, np.repeat(copies, counts))
    e_id = np.insert(e_id, num_first, e_id[copied])
    per_hop = (num_seeds, *sample.nodes_per_hop[1:]), (num_first + len(copied), *sample.edges_per_hop[1:])
    return Sample.of(graph, nodes, senders, receivers, e_id, np.arange(num_seeds), *per_hop, None)


def _types(sizes: Sequence[int], names: Sequence[Hashable]) -> Types:
    """The type of each row, where the rows of a type stand together."""
    return Types(
        torch.arange(len(sizes), device="cpu").repeat_interleave(torch.tensor(sizes, device="cpu")),
        len(sizes),
        tuple(names),
    )


def _whole_times(times: Tensor) -> Tensor:
    """Times on the CPU; whole numbers of any size as int64, so that one more or none at all are numbers, too."""
    return times.cpu() if times.is_floating_point() else times.cpu().to(torch.int64)


def _per_edge(stores: Sequence[Any], name: str, sizes: Sequence[int], missing: float) -> Tensor:
    """A number for each edge of all types; `missing` for the types that have none."""
    if not any(name in store for store in stores):
        raise SettingError(f"NeighborLoader: no edges have {name!r}.")
    there = next(store[name] for store in stores if name in store)
    least = -torch.inf if missing == ALWAYS and there.is_floating_point() else missing
    dtype = torch.float64 if there.is_floating_point() or isinstance(missing, float) else torch.int64
    parts = [
        store[name].cpu().flatten() if name in store else torch.full((n,), least, device="cpu")
        for store, n in zip(stores, sizes)
    ]
    return torch.cat([part.to(dtype) for part in parts])


def _per_hop(types: Types, names: Sequence[Hashable], per_hop: Sequence[int]) -> dict[Hashable, list[int]]:
    """How many rows of each type each hop added."""
    hops = torch.arange(len(per_hop), device="cpu").repeat_interleave(torch.tensor(per_hop, device="cpu"))
    counts = torch.bincount(hops * len(names) + types.of_row, minlength=len(per_hop) * len(names))
    return dict(zip(names, counts.reshape(len(per_hop), len(names)).T.tolist()))
