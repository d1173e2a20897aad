"""PyTorch Geometric's `NeighborLoader` and `LinkNeighborLoader` over our sampler: the same batches, without pyg-lib and
torch-sparse."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import DataError, MissingExtraError, SettingError, ShapeError
from edgewise.sampling.ahead import ahead

try:
    from torch_geometric.data import Data, HeteroData
    from torch_geometric.loader import LinkLoader, NodeLoader
    from torch_geometric.loader import LinkNeighborLoader as PygLinkNeighborLoader
    from torch_geometric.loader import NeighborLoader as PygNeighborLoader

    from edgewise.interop.pyg_sampler import PygSampler
except ModuleNotFoundError as error:
    raise MissingExtraError("torch_geometric", "pyg") from error

OF_PROCESSES = ("persistent_workers", "prefetch_factor", "multiprocessing_context", "timeout", "worker_init_fn")
"""Options of torch's `DataLoader` about worker processes; threads need none of them."""


class NeighborLoader(PygNeighborLoader):
    """PyTorch Geometric's `NeighborLoader`, with numba alone: the same arguments, batches and names of their fields.

    Batches are made by PyTorch Geometric's own `NodeLoader`; only the sampling is ours. `num_workers` counts threads,
    not processes: they release the GIL, share the data, and need none of the options of processes, which are accepted.
    Samples follow from `generator`, or torch's own, and do not depend on the number of threads.

    Args:
        data: a `Data`, a `HeteroData`, or a pair of a `FeatureStore` and a `GraphStore`.
        num_neighbors: edges a node for each hop, −1 for all; or these by the type of edges.
        input_nodes: seeds or a mask; of a `HeteroData` (type, seeds).
        input_time: the time of each seed, where it is not its own `time_attr`.
        replace, subgraph_type, disjoint, temporal_strategy, time_attr, weight_attr, transform, kwargs: as there. An
            edge is sampled where its time, or that of its sender, is the seed's or earlier.

    Raises:
        SettingError: an option cannot be, or names what is not there.
        DataError: there is no edge_index.

    >>> data = Data(x=torch.eye(4), edge_index=torch.tensor([[1, 2, 3, 0], [0, 0, 1, 2]]))
    >>> batch = next(iter(NeighborLoader(data, [-1], batch_size=2)))
    >>> batch.n_id.tolist(), batch.batch_size, batch.num_sampled_edges
    ([0, 1, 2, 3], 2, [3])
    """

    def __init__(
        self,
        data: Any,
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
        _require_graph("NeighborLoader", data, num_workers, kwargs)
        if input_time is not None and time_attr is None:
            raise SettingError(
                "NeighborLoader: input_time is given, but no time_attr; name the times of nodes or edges."
            )
        if isinstance(data, HeteroData) and input_nodes is None:
            raise SettingError("NeighborLoader: name the type of the seeds: input_nodes=('paper', seeds).")
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
        NodeLoader.__init__(  # that of `PygNeighborLoader` makes a sampler of its own
            self,
            data,
            sampler,
            input_nodes=_seeds(data, input_nodes),
            input_time=input_time,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **{name: value for name, value in kwargs.items() if name not in OF_PROCESSES},
        )

    def __iter__(self) -> Iterator[Any]:
        def sample(rows: Tensor, seed: int, batch: int) -> Any:
            return self.node_sampler.sample(self.input_data[rows], seed, batch)

        return _batches(self, sample, self.num_threads)


class LinkNeighborLoader(PygLinkNeighborLoader):
    """PyTorch Geometric's `LinkNeighborLoader` in the same way as `NeighborLoader`: the ends of links are the seeds.

    Negative pairs are drawn by PyTorch Geometric's own `NegativeSampling`, from torch's generator; where there
    are some, batches are made in the thread that reads them, whatever `num_workers` says, so that they can be repeated.

    Args:
        data, num_neighbors: as of `NeighborLoader`.
        edge_label_index: the links; of a `HeteroData` (type, links). All edges where it is None.
        edge_label, edge_label_time: a label and a time for each link.
        neg_sampling, neg_sampling_ratio: negative pairs.
        replace, subgraph_type, disjoint, temporal_strategy, time_attr, weight_attr, transform, kwargs: as there.

    Raises:
        SettingError: an option cannot be, or names what is not there.
        DataError: there is no edge_index.

    >>> data = Data(x=torch.eye(4), edge_index=torch.tensor([[1, 2, 3, 0], [0, 0, 1, 2]]))
    >>> batch = next(iter(LinkNeighborLoader(data, [-1], batch_size=2)))
    >>> batch.n_id[batch.edge_label_index].tolist()
    [[1, 2], [0, 0]]
    """

    def __init__(
        self,
        data: Any,
        num_neighbors: Any,
        edge_label_index: Any = None,
        edge_label: Tensor | None = None,
        edge_label_time: Tensor | None = None,
        replace: bool = False,
        subgraph_type: Any = "directional",
        disjoint: bool = False,
        temporal_strategy: str = "uniform",
        neg_sampling: Any = None,
        neg_sampling_ratio: float | None = None,
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
        _require_graph("LinkNeighborLoader", data, num_workers, kwargs)
        if (edge_label_time is None) != (time_attr is None):
            missing, there = ("edge_label_time", "time_attr")[:: 1 if edge_label_time is None else -1]
            raise SettingError(f"LinkNeighborLoader: '{missing}' is not set, but '{there}' is; give both, or neither.")
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
        LinkLoader.__init__(  # that of `PygLinkNeighborLoader` makes a sampler of its own
            self,
            data,
            sampler,
            edge_label_index=edge_label_index,
            edge_label=edge_label,
            edge_label_time=edge_label_time,
            neg_sampling=neg_sampling,
            neg_sampling_ratio=neg_sampling_ratio,
            transform=transform,
            transform_sampler_output=transform_sampler_output,
            filter_per_worker=filter_per_worker,
            **{name: value for name, value in kwargs.items() if name not in OF_PROCESSES},
        )

    def __iter__(self) -> Iterator[Any]:
        def sample(rows: Tensor, seed: int, batch: int) -> Any:
            return self.link_sampler.sample_links(self.input_data[rows], self.neg_sampling, seed, batch)

        return _batches(self, sample, 0 if self.neg_sampling is not None else self.num_threads)


def _batches(
    loader: "NeighborLoader | LinkNeighborLoader", sample: Callable[[Tensor, int, int], Any], num_threads: int
) -> Iterator[Any]:
    """The batches of a loader in order, sampled ahead by so many threads."""
    seed = int(torch.empty((), dtype=torch.int64, device="cpu").random_(generator=loader.generator))

    def work(numbered: tuple[int, list[int]]) -> Any:
        number, rows = numbered
        batch = loader.filter_fn(sample(torch.as_tensor(rows, device="cpu"), seed, number))
        return batch.pin_memory() if loader.pin_memory and torch.cuda.is_available() else batch

    return ahead(work, enumerate(loader.batch_sampler), num_threads)


def _seeds(data: Any, input_nodes: Any) -> Any:
    """The seeds, checked.

    Raises:
        SettingError: they are of a type that the graph lacks, which reading it would add to it.
        ShapeError: they are fractions, or a mask of another size.
    """
    if isinstance(data, Data):
        return _nodes(input_nodes, data.num_nodes)
    if not isinstance(data, HeteroData):
        return input_nodes
    is_pair = isinstance(input_nodes, tuple | list) and len(input_nodes) == 2 and isinstance(input_nodes[0], str)
    name = input_nodes[0] if is_pair else input_nodes
    if isinstance(name, str) and name not in data.node_types:
        names = ", ".join(map(repr, data.node_types))
        raise SettingError(f"NeighborLoader: input_nodes are of type {name!r}; expected one of {names}.")
    return (name, _nodes(input_nodes[1], data[name].num_nodes)) if is_pair else input_nodes


def _nodes(nodes: Any, num_nodes: int | None) -> Any:
    """Indices or a mask as a tensor: PyTorch Geometric takes a mask in NumPy or a list for the nodes 0 and 1."""
    seeds = nodes if isinstance(nodes, Tensor) else torch.from_numpy(np.asarray(nodes if nodes is not None else []))
    if not seeds.numel():
        return nodes
    if seeds.is_floating_point() or (seeds.dtype == torch.bool and seeds.shape != (num_nodes,)):
        raise ShapeError(
            f"NeighborLoader: input_nodes is {seeds.dtype} {tuple(seeds.shape)}; expected whole numbers, or a mask "
            f"({num_nodes},)."
        )
    return seeds


def _require_graph(owner: str, data: Any, num_workers: int, options: dict[str, Any]) -> None:
    """Raise unless a loader can read this, with so many threads, and options of torch's `DataLoader`."""
    is_pair = isinstance(data, tuple | list) and len(data) == 2
    if not isinstance(data, Data | HeteroData) and not is_pair:
        raise DataError(
            f"{owner}: expected a Data, a HeteroData or a pair (feature_store, graph_store), not {type(data).__name__}."
        )
    if num_workers < 0:
        raise SettingError(f"{owner}: num_workers is {num_workers}; expected 0 or more threads.")
    if options.get("batch_size", 1) is None:
        raise SettingError(f"{owner}: batch_size is None; expected the number of seeds in a batch, such as 1.")
