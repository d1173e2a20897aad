"""PyTorch Geometric's `NeighborLoader` over our sampler: the same batches, without pyg-lib and torch-sparse."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor

from edgewise.errors import DataError, MissingExtraError, SettingError, UnsupportedError
from edgewise.graph import Graph
from edgewise.neighborhood import Edges, Types
from edgewise.sampling import NeighborSampler, Sample
from edgewise.sampling.ahead import ahead

try:
    from torch_geometric.data import Data, HeteroData
    from torch_geometric.loader import NodeLoader
    from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, NodeSamplerInput, SamplerOutput
except ModuleNotFoundError as error:
    raise MissingExtraError("torch_geometric", "pyg") from error

OF_PROCESSES = ("persistent_workers", "prefetch_factor", "multiprocessing_context", "timeout", "worker_init_fn")
"""Options of torch's `DataLoader` about worker processes; threads need none of them."""
ALWAYS = torch.iinfo(torch.int64).min
"""The time of edges that have none: before all seeds."""


class PygSampler(BaseSampler):
    """Our sampler as PyTorch Geometric's loaders call one. See `NeighborLoader` for its arguments."""

    def __init__(
        self,
        data: "Data | HeteroData",
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
        is_hetero = isinstance(data, HeteroData)
        self.node_names: Sequence[Hashable] = list(data.node_types) if is_hetero else [None]
        self.edge_names: Sequence[Hashable] = list(data.edge_types) if is_hetero else [None]
        stores = [data[name] for name in self.edge_names] if is_hetero else [data]
        for name, store in zip(self.edge_names, stores):
            if "edge_index" not in store or store.edge_index is None:
                raise DataError(f"NeighborLoader: {name or 'the data'} has no edge_index.")
        self.sizes = [int(data[name].num_nodes) if is_hetero else int(data.num_nodes) for name in self.node_names]
        self.starts = dict(zip(self.node_names, torch.tensor([0, *self.sizes]).cumsum(0).tolist()))
        self.num_edges = [store.edge_index.shape[1] for store in stores]
        ends = [(name[0], name[2]) if isinstance(name, tuple) else (None, None) for name in self.edge_names]
        senders, receivers = (
            torch.cat([store.edge_index[row].cpu() + self.starts[names[row]] for store, names in zip(stores, ends)])
            for row in (0, 1)
        )
        count = sum(self.sizes)
        graph = Graph(
            None,
            Edges(senders, receivers, count, count),
            node_types=_types(self.sizes, self.node_names) if is_hetero else None,
            edge_types=_types(self.num_edges, self.edge_names) if is_hetero else None,
        )
        self.node_time: dict[Hashable, Tensor] = {}
        edge_times = None
        if time_attr is not None:
            edge_times = self._edge_times(data, time_attr, senders)
        values = getattr(num_neighbors, "values", None)  # PyTorch Geometric's NumNeighbors
        if values is not None and not isinstance(num_neighbors, dict):
            num_neighbors = num_neighbors.get_values(self.edge_names if is_hetero else None)
        self.sampler = NeighborSampler(
            graph,
            num_neighbors,
            replace=replace,
            weights=None if weight_attr is None else _per_edge(stores, weight_attr, self.num_edges, 1.0),
            edge_times=edge_times,
            strategy=temporal_strategy,
            disjoint=disjoint,
            form="induced" if self.form == "induced" else "directional",
        )

    def sample_from_nodes(self, index: "NodeSamplerInput", **kwargs: Any) -> Any:
        """A sample around some nodes; which one, torch's generator says."""
        return self.sample(index, int(torch.empty((), dtype=torch.int64).random_()), 0)

    def sample_from_edges(self, index: Any, **kwargs: Any) -> Any:
        """Not here: links are the seeds of `edgewise.sampling.LinkLoader`."""
        raise UnsupportedError("PygSampler: links are no seeds here; use edgewise.sampling.LinkLoader.")

    def sample(self, index: "NodeSamplerInput", seed: int, batch: int) -> Any:
        """Sample number `batch` of a seed, as PyTorch Geometric writes it."""
        nodes, times = index.node.cpu(), index.time
        if not self.sampler.disjoint and len(nodes.unique()) < len(nodes):
            raise DataError(
                "NeighborLoader: a node is given twice in a batch of input_nodes; give each once, or disjoint=True."
            )
        if self.sampler.is_timed:
            if times is None:
                times = self.node_time.get(index.input_type)
                if times is None:
                    raise SettingError("NeighborLoader: edges have times; give those of the seeds: input_time=….")
                times = times[nodes]
            # Ours lie before the seed's time, theirs before or at it.
            times = (
                times + 1
                if not times.is_floating_point()
                else times.double().nextafter(torch.tensor(torch.inf).double())
            )
        sample = self.sampler.sample(nodes + self.starts[index.input_type], times=times, epoch=seed, batch=batch)
        out = self._one_type(sample) if self.edge_names == [None] else self._by_type(sample)
        if self.form == "bidirectional":
            out = out.to_bidirectional()
        out.metadata = (index.input_id, index.time)
        return out

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
        node_starts, edge_starts = (torch.tensor([0, *sizes]).cumsum(0) for sizes in (self.sizes, self.num_edges))
        per_node, per_edge = (
            (sample.n_id - node_starts[types.of_row], sample.trees),
            (sample.e_id - edge_starts[relations.of_row], ranks[edges.senders], ranks[edges.receivers]),
        )
        node, batch = ({} if x is None else dict(zip(self.node_names, types.split(x))) for x in per_node)
        edge, row, col = (dict(zip(self.edge_names, relations.split(x))) for x in per_edge)
        return HeteroSamplerOutput(
            *(node, row, col, edge, batch or None),
            _per_hop(types, self.node_names, sample.nodes_per_hop),
            _per_hop(relations, self.edge_names, sample.edges_per_hop),
        )

    def _edge_times(self, data: "Data | HeteroData", name: str, senders: Tensor) -> Tensor:
        """The time of each edge, its own or that of its sender; those of nodes are the seeds' too."""
        is_hetero = isinstance(data, HeteroData)
        stores = [data[each] for each in self.edge_names] if is_hetero else [data]
        nodes = {each: data[each] if is_hetero else data for each in self.node_names}
        of_nodes = {
            each: store[name].cpu() for each, store in nodes.items() if name in store and store.is_node_attr(name)
        }
        of_edges = [name in store and store.is_edge_attr(name) for store in stores]
        if bool(of_nodes) == any(of_edges):
            found = "nodes and edges" if of_nodes else "neither nodes nor edges"
            raise SettingError(f"NeighborLoader: time_attr {name!r} is of {found}; expected one of the two.")
        if not of_nodes:
            return _per_edge(stores, name, self.num_edges, ALWAYS)
        self.node_time = of_nodes
        first = next(iter(of_nodes.values()))
        never = torch.full((max(self.sizes),), -torch.inf if first.is_floating_point() else ALWAYS, dtype=first.dtype)
        times = [of_nodes.get(each, never[:size]) for each, size in zip(self.node_names, self.sizes)]
        return torch.cat(times)[senders]


class NeighborLoader(NodeLoader):
    """PyTorch Geometric's `NeighborLoader`, with numba alone: the same arguments, batches and names of their fields.

    Batches are made by PyTorch Geometric's own `NodeLoader`; only the sampling is ours. `num_workers` counts threads,
    not processes: they release the GIL, share the data, and need none of the options of processes, which are accepted.
    Samples follow from `generator`, or torch's own, and do not depend on the number of threads.

    Args:
        data: a `Data`, or a `HeteroData`.
        num_neighbors: edges a node for each hop, −1 for all; or these by the type of edges.
        input_nodes: seeds or a mask; of a `HeteroData` (type, seeds).
        input_time: the time of each seed, where it is not its own `time_attr`.
        replace, subgraph_type, disjoint, temporal_strategy, time_attr, weight_attr, transform, kwargs: as there. An
            edge is sampled where its time, or that of its sender, is the seed's or earlier.

    Raises:
        SettingError: an option cannot be, or names what is not there.
        DataError: there is no edge_index, or a node is given twice in a batch.

    >>> data = Data(x=torch.eye(4), edge_index=torch.tensor([[1, 2, 3, 0], [0, 0, 1, 2]]))
    >>> batch = next(iter(NeighborLoader(data, [-1], batch_size=2)))
    >>> batch.n_id.tolist(), batch.batch_size, batch.num_sampled_edges
    ([0, 1, 2, 3], 2, [3])
    """

    def __init__(
        self,
        data: "Data | HeteroData",
        num_neighbors: Any,
        input_nodes: Any = None,
        input_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        time_attr: str | None = None,
        weight_attr: str | None = None,
        transform: Callable | None = None,
        transform_sampler_output: Callable | None = None,
        is_sorted: bool = False,
        filter_per_worker: bool | None = None,
        neighbor_sampler: PygSampler | None = None,
        directed: bool = True,
        num_workers: int = 0,
        **kwargs: Any,
    ):
        if not isinstance(data, Data | HeteroData):
            raise DataError(f"NeighborLoader: expected a Data or HeteroData, not {type(data).__name__}.")
        if input_time is not None and time_attr is None:
            raise SettingError(
                "NeighborLoader: input_time is given, but no time_attr; name the times of nodes or edges."
            )
        if isinstance(data, HeteroData) and input_nodes is None:
            raise SettingError("NeighborLoader: name the type of the seeds: input_nodes=('paper', seeds).")
        if num_workers < 0:
            raise SettingError(f"NeighborLoader: num_workers is {num_workers}; expected 0 or more threads.")
        self.num_threads = num_workers
        sampler = neighbor_sampler or PygSampler(
            data,
            num_neighbors,
            replace=replace,
            subgraph_type=subgraph_type if directed else "induced",
            disjoint=disjoint,
            temporal_strategy=temporal_strategy,
            time_attr=time_attr,
            weight_attr=weight_attr,
        )
        super().__init__(
            data,
            sampler,
            input_nodes=input_nodes,
            input_time=input_time,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **{name: value for name, value in kwargs.items() if name not in OF_PROCESSES},
        )

    def __iter__(self) -> Iterator[Any]:
        seed = int(torch.empty((), dtype=torch.int64).random_(generator=self.generator))

        def work(numbered: tuple[int, list[int]]) -> Any:
            batch, rows = numbered
            found = self.filter_fn(self.node_sampler.sample(self.input_data[torch.as_tensor(rows)], seed, batch))
            return found.pin_memory() if self.pin_memory and torch.cuda.is_available() else found

        return ahead(work, enumerate(self.batch_sampler), self.num_threads)


def _types(sizes: Sequence[int], names: Sequence[Hashable]) -> Types:
    """The type of each row, where the rows of a type stand together."""
    return Types(torch.arange(len(sizes)).repeat_interleave(torch.tensor(sizes)), len(sizes), tuple(names))


def _per_edge(stores: Sequence[Any], name: str, sizes: Sequence[int], missing: float) -> Tensor:
    """A number for each edge of all types; `missing` for the types that have none."""
    if not any(name in store for store in stores):
        raise SettingError(f"NeighborLoader: no edges have {name!r}.")
    there = next(store[name] for store in stores if name in store)
    least = -torch.inf if missing == ALWAYS and there.is_floating_point() else missing
    dtype = torch.float64 if there.is_floating_point() or isinstance(missing, float) else torch.int64
    parts = [
        store[name].cpu().flatten() if name in store else torch.full((n,), least) for store, n in zip(stores, sizes)
    ]
    return torch.cat([part.to(dtype) for part in parts])


def _per_hop(types: Types, names: Sequence[Hashable], per_hop: Sequence[int]) -> dict[Hashable, list[int]]:
    """How many rows of each type each hop added."""
    hops = torch.arange(len(per_hop)).repeat_interleave(torch.tensor(per_hop))
    counts = torch.bincount(hops * len(names) + types.of_row, minlength=len(per_hop) * len(names))
    return dict(zip(names, counts.reshape(len(per_hop), len(names)).T.tolist()))
