"""Who attends to whom: the graphs of the benchmark, made on the device from a seed, their edges sorted by receiver."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np
import torch
from cpu_attention.graphs import data_folder
from torch import Tensor

from edgewise import Edges

ATOMS = 25
"""Of each molecule."""
CHUNK = 2**24
"""Edges that are drawn at once."""
PLANETOID = {
    "cora": (2_708, 10_556, "cora.npz"),
    "pubmed": (19_717, 88_648, "pubmed_graph_labels_only.npz"),
}
"""Nodes, edges and the file of citation networks."""


@dataclass(frozen=True)
class Graph:
    """A list of edges, senders[e] → receivers[e], sorted by receiver."""

    senders: Tensor
    """int64 (edge)."""
    receivers: Tensor
    """int64 (edge)."""
    num_nodes: int
    """How many nodes there are."""
    origin: str
    """How it was made."""
    members: int | None = None
    """How many graphs of 25 nodes it is made of; None where it is one."""

    @property
    def num_edges(self) -> int:
        """How many edges there are."""
        return len(self.senders)

    @cached_property
    def edges(self) -> Edges:
        """As edgewise takes them."""
        return Edges(self.senders, self.receivers, self.num_nodes, self.num_nodes)

    @cached_property
    def mask(self) -> Tensor:
        """Which atoms of a molecule may attend to which, `(graph, 1, receiver, sender)`."""
        assert self.members is not None
        mask = torch.zeros(self.members, 1, ATOMS, ATOMS, dtype=torch.bool, device=self.senders.device)
        mask[self.receivers // ATOMS, 0, self.receivers % ATOMS, self.senders % ATOMS] = True
        return mask

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


@lru_cache(maxsize=1)
def named(name: str, quick: bool, device: str) -> Graph:
    """The graph of a workload; one at a time is kept, since the largest fills gigabytes."""
    if name == "a":
        return power_law(*(2_000, 14_000) if quick else (169_343, 1_170_000), 0.735, device)
    if name == "b":
        return power_law(*(5_000, 100_000) if quick else (2_449_029, 123_718_280), 0.45, device)
    if name == "reddit":
        return power_law(*(1_000, 50_000) if quick else (232_965, 114_848_857), 0.45, device)
    if name in PLANETOID:
        return planetoid(name, quick, device)
    count = 40 if quick else 16_000
    return bonds(count, device) if name == "bonds" else complete(count, device)


def planetoid(name: str, quick: bool, device: str) -> Graph:
    """A citation network, each citation in both directions; where it is missing random edges of its size."""
    num_nodes, num_edges, file = PLANETOID[name]
    path = data_folder() and data_folder() / "planetoid" / file
    if path and path.is_file() and not quick:
        with np.load(path) as arrays:
            ends, origin = torch.from_numpy(arrays["edge_index"]).to(device), f"read from planetoid/{file}"
    else:
        num_nodes, num_edges = (num_nodes // 10, num_edges // 10) if quick else (num_nodes, num_edges)
        random = torch.Generator(device).manual_seed(0)
        ends = torch.randint(num_nodes, (2, num_edges // 2), generator=random, device=device)
        ends, origin = torch.cat([ends, ends.flip(0)], 1), f"seed 0: random edges of the size of {name}, both ways"
    receivers, by_receiver = ends[1].sort(stable=True)
    return Graph(ends[0][by_receiver], receivers, num_nodes, origin)


def power_law(num_nodes: int, num_edges: int, exponent: float, device: str) -> Graph:
    """A few nodes receive very many edges, most receive few: ranks are drawn by the inverse of their distribution."""
    random = torch.Generator(device).manual_seed(0)
    share = torch.arange(1, num_nodes + 1, device=device, dtype=torch.float64) ** -exponent
    reached = (share / share.sum()).cumsum(0)
    order = torch.randperm(num_nodes, generator=random, device=device)
    receivers, senders = (torch.empty(num_edges, dtype=torch.int64, device=device) for _ in range(2))
    for first in range(0, num_edges, CHUNK):
        count = min(CHUNK, num_edges - first)
        drawn = torch.rand(count, generator=random, device=device, dtype=torch.float64)
        ranks = torch.searchsorted(reached, drawn).clamp_(max=num_nodes - 1)
        receivers[first : first + count] = order[ranks]
        senders[first : first + count] = torch.randint(num_nodes, (count,), generator=random, device=device)
    origin = (
        f"seed 0: the node of rank r receives an edge with probability ∝ r^-{exponent}, the ranks are permuted, "
        "senders are uniform"
    )
    return Graph(senders, receivers.sort().values, num_nodes, origin)


def bonds(count: int, device: str) -> Graph:
    """Molecules side by side: a chain with branches of 25 atoms, three rings, and a fourth in every other one."""
    random = torch.Generator(device).manual_seed(0)
    atom = torch.arange(1, ATOMS, device=device).expand(count, -1)
    back = 1 + torch.randint(0, 2, atom.shape, generator=random, device=device) * (atom > 1)
    place = 4 * torch.arange(4, device=device)
    starts = place + torch.randint(0, 4, (count, 4), generator=random, device=device)
    stops = starts + torch.randint(4, 7, (count, 4), generator=random, device=device)  # rings of five to seven
    one, other = torch.cat([atom, stops], 1), torch.cat([atom - back, starts], 1)
    kept = torch.ones_like(one, dtype=torch.bool)
    kept[::2, -1] = False
    shift = ATOMS * torch.arange(count, device=device)[:, None]
    ends = torch.stack([(one + shift)[kept], (other + shift)[kept]])
    both_ways = torch.cat([ends, ends.flip(0)], 1)
    receivers, by_receiver = both_ways[1].sort(stable=True)
    origin = (
        "seed 0: each atom bonds to the first or second before it, three or four more bonds close rings of five to "
        "seven places; every bond in both directions"
    )
    return Graph(both_ways[0][by_receiver], receivers, count * ATOMS, origin, count)


def complete(count: int, device: str) -> Graph:
    """Molecules side by side in which every atom attends to every atom, itself too."""
    every = torch.arange(count * ATOMS, device=device)
    receivers = every.repeat_interleave(ATOMS)
    senders = receivers // ATOMS * ATOMS + torch.arange(ATOMS, device=device).repeat(len(every))
    return Graph(senders, receivers, count * ATOMS, "every atom attends to all 25 of its molecule", count)
