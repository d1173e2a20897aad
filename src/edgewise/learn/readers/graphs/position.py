"""Positional encodings of nodes: eigenvectors of the Laplacian, and return probabilities of random walks.

Both see the graph as undirected and simple: i and j are joined where there is an edge from either to the other; loops,
repeated edges, and features of edges are left out. Each connected component is seen by itself, so that graphs side by
side get the positions that each would get alone. A node without neighbors gets zeros.
"""

from functools import lru_cache
from itertools import pairwise

import numpy as np
import torch
from jaxtyping import Float32
from torch import Tensor

from edgewise.errors import MissingExtraError, SettingError, ShapeError
from edgewise.learn.progress import stage
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.neighborhood import Edges

try:
    from scipy.sparse import csr_array, diags_array, eye_array, sparray
    from scipy.sparse.csgraph import connected_components
    from scipy.sparse.linalg import ArpackNoConvergence, eigsh
except ModuleNotFoundError as error:
    raise MissingExtraError("scipy", "train") from error

DENSE_NODES = 512
"""Connected components of at most this size are computed from a dense matrix; larger ones only where about half of
their eigenvectors are wanted."""
BLOCK_NUMBERS = 1 << 22
"""Numbers of the largest block of columns of a power of the adjacency matrix."""
NEARLY = 1 - 1e-6
"""Numbers above this share of the largest are as large as it, so that rounding does not choose a sign."""


def laplacian_positions(edges: Edges, num_positions: int) -> Float32[Tensor, " node position"]:
    """The eigenvectors of the normalized graph Laplacian with the smallest eigenvalues above 0.

        L = I − D^−½ A D^−½,   L φ_k = λ_k φ_k,   0 = λ_0 < λ_1 ≤ λ_2 ≤ …;   node i gets √n (φ_1i, φ_2i, …, φ_Ki)

    Nodes that are near each other get similar numbers. φ_0, which depends only on the number of neighbors, is left out;
    the factor √n, n the nodes of the connected component, makes the mean of the squares of each position 1 there.

    φ and −φ are both eigenvectors. Here the largest number of each is positive (of several, that of the first node), so
    that a graph always gets the same positions. Signs mean nothing: flip them at random in training, as `GraphPosition`
    does. Where an eigenvalue occurs several times, as in a ring, its eigenvectors are only one basis of many.

    Args:
        edges: the graph; directions, loops and repetitions are left out.
        num_positions: K. A connected component of n nodes has n − 1; further ones are 0.

    Raises:
        SettingError: K is not positive.
        ShapeError: senders and receivers are different nodes.

    Cost: O(n³) for a component of at most 512 nodes, or where K is about n / 2; else some hundred products of A with a
    vector (Lanczos' iteration), or, where they do not suffice, as on a long road, a factorization of L.
    Source: Belkin & Niyogi 2003; Dwivedi & Bresson 2021, where signs are flipped in training; the factor √n is ours.

    >>> laplacian_positions(Edges([0, 1], [1, 2], 3, 3), 2)[:, 1]
    tensor([-0.8660,  1.2247, -0.8660])
    """
    _check("laplacian_positions", "num_positions", num_positions, edges)
    adjacency = _normalized_adjacency(edges)
    num_components, component = connected_components(adjacency, directed=False)
    order = np.argsort(component, kind="stable")
    adjacency, bounds = adjacency[order][:, order], np.searchsorted(component[order], np.arange(num_components + 1))

    positions = np.zeros((edges.num_senders, num_positions), dtype=np.float32)
    for begin, end in pairwise(bounds):
        if end - begin > 1:
            vectors = _smallest_eigenvectors(adjacency[begin:end, begin:end], num_positions) * np.sqrt(end - begin)
            positions[order[begin:end], : vectors.shape[1]] = vectors

    return torch.from_numpy(positions)


def random_walk_positions(edges: Edges, num_steps: int) -> Float32[Tensor, " node step"]:
    """The probability that a random walk is back at its start after 1, 2, …, K steps.

        p_it = ((D^−1 A)^t)_ii,   t = 1 … K

    The first is 0, since loops are left out; the second separates a node with many leaves from one among others with
    many neighbors, the third counts triangles. No sign has to be chosen.

    Args:
        edges: the graph; directions, loops and repetitions are left out.
        num_steps: K.

    Raises:
        SettingError: K is not positive.
        ShapeError: senders and receivers are different nodes.

    Cost: up to O(K / 2 · node · edge), less as long as walks reach few nodes; memory for a block of columns, never for
    all pairs of nodes.
    Source: Dwivedi et al. 2022 (LSPE), random-walk positional encoding.

    >>> random_walk_positions(Edges([0, 1], [1, 2], 3, 3), 4)[:, 1]
    tensor([0.5000, 1.0000, 0.5000])
    """
    _check("random_walk_positions", "num_steps", num_steps, edges)
    # All powers of S = D^−½ A D^−½ have the diagonal of those of D^−1 A. S is symmetric, (S^{a+b})_ii = S^a_i · S^b_i,
    # so that each product gives two of them.
    adjacency, num_nodes = _normalized_adjacency(edges), edges.num_senders
    positions = np.zeros((num_nodes, num_steps), dtype=np.float32)
    width = max(1, BLOCK_NUMBERS // max(1, num_nodes))

    identity = eye_array(num_nodes, format="csc")
    for begin in range(0, num_nodes, width):
        columns = slice(begin, begin + width)
        power = identity[:, columns]
        for step in range(0, num_steps, 2):
            next_power = adjacency @ power
            if isinstance(next_power, sparray) and next_power.nnz > 0.1 * next_power.shape[0] * next_power.shape[1]:
                next_power, power = next_power.toarray(), power.toarray()
            positions[columns, step] = (power * next_power).sum(0)
            if step + 1 < num_steps:
                positions[columns, step + 1] = (next_power * next_power).sum(0)
            power = next_power

    return torch.from_numpy(positions)


@lru_cache(maxsize=1)
def cached_positions(
    edges: EdgeList, num_nodes: int, num_laplacian: int, num_random_walk: int
) -> Float32[Tensor, " node position"]:
    """Both encodings of a graph as it was read, see `both_positions`; kept for the last graph: do not write
    to them."""
    graph = Edges(torch.from_numpy(edges.senders), torch.from_numpy(edges.receivers), num_nodes, num_nodes)
    with stage("positions of nodes in the graph"):
        return both_positions(graph, num_laplacian, num_random_walk)


def both_positions(edges: Edges, num_laplacian: int, num_random_walk: int) -> Float32[Tensor, " node position"]:
    """Both encodings of a graph, concatenated, the Laplacian one first."""
    none = torch.zeros(edges.num_senders, 0)
    laplacian = laplacian_positions(edges, num_laplacian) if num_laplacian else none
    walks = random_walk_positions(edges, num_random_walk) if num_random_walk else none
    return torch.cat([laplacian, walks], -1)


def _check(owner: str, name: str, count: int, edges: Edges) -> None:
    if count < 1:
        raise SettingError(f"{owner}: {name} is {count}; expected at least 1.")
    if edges.num_senders != edges.num_receivers:
        raise ShapeError(
            f"{owner}: senders and receivers are different nodes here ({edges.num_senders} and "
            f"{edges.num_receivers}); it is defined for one set of nodes."
        )


def _normalized_adjacency(edges: Edges) -> csr_array:
    """D^−½ A D^−½ of the undirected graph without loops."""
    senders, receivers = edges.senders.cpu().numpy(), edges.receivers.cpu().numpy()
    apart = senders != receivers
    ends = np.concatenate([senders[apart], receivers[apart]]), np.concatenate([receivers[apart], senders[apart]])
    size = edges.num_senders
    adjacency = csr_array((np.ones(len(ends[0])), ends), shape=(size, size))
    adjacency.sum_duplicates()
    adjacency.data[:] = 1.0
    degrees = adjacency.sum(1)
    roots = diags_array(1 / np.sqrt(np.maximum(degrees, 1)), shape=(size, size))
    return csr_array(roots @ adjacency @ roots)


def _smallest_eigenvectors(adjacency: csr_array, num_positions: int) -> np.ndarray:
    """Eigenvectors of I − S with the smallest eigenvalues but the first, (node, position), where S is a connected
    graph."""
    size = adjacency.shape[0]
    count = min(num_positions, size - 1)
    if size <= DENSE_NODES or count + 1 >= size // 2:
        values, vectors = np.linalg.eigh(adjacency.toarray())
        values = -values
    else:
        start = np.random.default_rng(0).random(size)
        try:  # the largest of S, which only takes products with it
            values, vectors = eigsh(adjacency, count + 1, which="LA", v0=start, tol=1e-9, maxiter=100)
            values = -values
        except ArpackNoConvergence:  # the eigenvalues are too close to each other; those of the inverse are not
            laplacian = (eye_array(size) - adjacency).tocsc()
            values, vectors = eigsh(laplacian, count + 1, sigma=-1e-3, which="LM", v0=start)

    vectors = vectors[:, np.argsort(values, kind="stable")[1 : count + 1]]
    sizes = np.abs(vectors)
    first = (sizes >= NEARLY * sizes.max(0)).argmax(0)
    return vectors * np.sign(vectors[first, np.arange(count)])
