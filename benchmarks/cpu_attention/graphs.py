"""Who attends to whom: the graphs of the benchmark, made from a seed or read from the folder of data sets."""

from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from cpu_attention.options import data_folder


class MissingDataError(Exception):
    """The data set of a workload is not on this machine."""


@dataclass(frozen=True)
class Graph:
    """A list of edges, senders[e] → receivers[e]."""

    name: str
    """The workload."""
    senders: Tensor
    """int64 (edge)."""
    receivers: Tensor
    """int64 (edge)."""
    num_nodes: int
    """How many nodes there are."""
    origin: str
    """How it was made, or where it comes from."""

    @property
    def num_edges(self) -> int:
        """How many edges there are."""
        return len(self.senders)

    def by_receiver(self) -> "Graph":
        """The same edges sorted by receiver, then as they were."""
        order = torch.argsort(self.receivers, stable=True)
        return replace(self, senders=self.senders[order].contiguous(), receivers=self.receivers[order].contiguous())

    def facts(self) -> dict:
        """Its size, for the record."""
        degrees = torch.bincount(self.receivers, minlength=self.num_nodes)
        return {
            "nodes": self.num_nodes,
            "edges": self.num_edges,
            "largest_degree": int(degrees.max()),
            "nodes_without_edges": int((degrees == 0).sum()),
            "origin": self.origin,
        }


def power_law(quick: bool = False) -> Graph:
    """A few nodes receive very many edges, most receive few, as in a citation network."""
    num_nodes, num_edges = (2_000, 14_000) if quick else (170_000, 1_170_000)
    random = np.random.default_rng(0)
    share = np.arange(1, num_nodes + 1) ** -0.735
    ranked = random.choice(num_nodes, num_edges, p=share / share.sum())
    receivers = random.permutation(num_nodes)[ranked]
    senders = random.integers(0, num_nodes, num_edges)
    origin = (
        "numpy's default_rng(0): the node of rank r receives an edge with probability ∝ r^-0.735, the ranks are "
        "permuted, senders are uniform"
    )
    return _graph("power_law", senders, receivers, num_nodes, origin)


def molecules(quick: bool = False) -> Graph:
    """1,024 molecules side by side: each a chain with branches of 25 atoms, and three bonds that close rings."""
    count, size, num_rings = 32 if quick else 1024, 25, 3
    random = np.random.default_rng(0)
    atom = np.arange(1, size)
    back = np.minimum(random.geometric(0.7, (count, size - 1)), atom)  # mostly to the atom before, at times a branch
    ring_start = np.stack([random.choice(size - 6, num_rings, replace=False) for _ in range(count)])
    ring_stop = ring_start + random.integers(4, 7, ring_start.shape)  # rings of five to seven along a chain
    one = np.concatenate([np.broadcast_to(atom, back.shape), ring_stop], 1)
    other = np.concatenate([atom - back, ring_start], 1)
    shift = size * np.arange(count)[:, None, None]
    both_ways = np.stack([np.stack([one, other], -1), np.stack([other, one], -1)], -2)  # (graph, bond, way, end)
    senders, receivers = (both_ways[..., end].reshape(count, -1, 1) + shift for end in (0, 1))
    origin = (
        "numpy's default_rng(0): each atom bonds to one shortly before it, geometric(0.7) places, three more bonds "
        "close rings of five to seven places; every bond in both directions"
    )
    return _graph("molecules", senders.reshape(-1), receivers.reshape(-1), count * size, origin)


def cora(quick: bool = False) -> Graph:
    """The citation network Cora, or where it is missing a random graph of its size."""
    num_nodes, num_bonds = (300, 600) if quick else (2_708, 5_278)
    folder = data_folder()
    path = None if folder is None else folder / "planetoid" / "cora.npz"
    if path is not None and path.is_file() and not quick:
        with np.load(path) as arrays:
            senders, receivers = arrays["edge_index"]
            return _graph("cora", senders, receivers, len(arrays["y"]), "Cora (Planetoid), both directions")
    ends = np.random.default_rng(0).integers(0, num_nodes, (2, num_bonds))
    senders, receivers = np.concatenate([ends, ends[::-1]], 1)
    return _graph("cora", senders, receivers, num_nodes, "random edges in both directions, of the size of Cora")


def web(quick: bool = False) -> Graph:
    """The crawl cnr-2000: pages of one Italian domain and the links between them, page → linked page.

    Raises:
        MissingDataError: EDGEWISE_DATA does not lead to it.
    """
    folder = data_folder()
    path = None if folder is None else folder / "cnr_2000_web" / "cnr_2000.npz"
    if path is None or not path.is_file():
        raise MissingDataError("EDGEWISE_DATA does not lead to cnr_2000_web/cnr_2000.npz")
    with np.load(path) as arrays:
        boundaries, receivers = arrays["indptr"], arrays["indices"].astype(np.int64)
    num_nodes = len(boundaries) - 1
    senders = np.repeat(np.arange(num_nodes), np.diff(boundaries))
    if quick:
        num_nodes = 3_000
        inside = (senders < num_nodes) & (receivers < num_nodes)
        senders, receivers = senders[inside], receivers[inside]
    return _graph("web", senders, receivers, num_nodes, "cnr-2000 (Boldi & Vigna 2004), links as they are")


def regular(num_edges: int, degree: int = 7) -> Graph:
    """Every node receives `degree` edges from senders drawn at random."""
    num_nodes = num_edges // degree
    receivers = np.repeat(np.arange(num_nodes), degree)
    senders = np.random.default_rng(0).integers(0, num_nodes, len(receivers))
    return _graph("regular", senders, receivers, num_nodes, f"numpy's default_rng(0): {degree} random senders a node")


GRAPHS = {"power_law": power_law, "molecules": molecules, "cora": cora, "web": web}


def _graph(name: str, senders: np.ndarray, receivers: np.ndarray, num_nodes: int, origin: str) -> Graph:
    ends = [torch.from_numpy(np.ascontiguousarray(ends, dtype=np.int64)) for ends in (senders, receivers)]
    return Graph(name, *ends, num_nodes, origin)
