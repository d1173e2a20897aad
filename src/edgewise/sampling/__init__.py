"""Mini-batches of a large graph: neighborhoods sampled around seeds.

incoming    the incoming edges of each node, made once
kernels     the sampling itself, compiled by numba
sampler     NeighborSampler: seeds → Sample, a Graph that every model trains on
loader      NeighborLoader: batches of seeds, prefetched in threads
"""

from edgewise.sampling.clusters import ClusterLoader, partition
from edgewise.sampling.links import LinkLoader, LinkSample
from edgewise.sampling.loader import NeighborLoader
from edgewise.sampling.sample import Sample
from edgewise.sampling.sampler import NeighborSampler

__all__ = ["ClusterLoader", "LinkLoader", "LinkSample", "NeighborLoader", "NeighborSampler", "Sample", "partition"]
