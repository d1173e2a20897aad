"""Clusters: of one size, with few edges between them; batches of clusters with all edges inside."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from edgewise import Graph, SettingError, ShapeError
from edgewise.sampling import ClusterLoader, partition


def communities(num_communities=8, size=50, seed=0):
    """Nodes in no order, nine of ten edges within their community."""
    random = np.random.default_rng(seed)
    num_nodes = num_communities * size
    senders = random.integers(0, num_nodes, 8 * num_nodes)
    near = senders // size * size + random.integers(0, size, len(senders))
    receivers = np.where(random.random(len(senders)) < 0.9, near, random.integers(0, num_nodes, len(senders)))
    return Graph.of(random.permutation(num_nodes)[np.stack([senders, receivers])], num_nodes=num_nodes)


def share_inside(graph, clusters):
    return float((clusters[graph.edges.senders] == clusters[graph.edges.receivers]).float().mean())


def test_few_edges_lie_between_clusters():
    graph = communities()
    clusters = partition(graph, 8)
    assert torch.bincount(clusters).max() <= 55
    assert share_inside(graph, torch.arange(400) % 8) < 0.2
    assert share_inside(graph, partition(graph, 8, num_rounds=0)) < share_inside(graph, clusters)
    assert share_inside(graph, clusters) > 0.6
    assert torch.equal(clusters, partition(graph, 8))
    assert not torch.equal(clusters, partition(graph, 8, seed=1))


def test_two_cliques_by_hand():
    pairs = [(a, b) for start in (0, 4) for a in range(start, start + 4) for b in range(start, start + 4) if a < b]
    clusters = partition(Graph.of(np.array([*pairs, (3, 4)]).T), 2).tolist()
    assert len(set(clusters[:4])) == len(set(clusters[4:])) == 1
    assert clusters[0] != clusters[4]


@given(st.integers(1, 30), st.lists(st.tuples(st.integers(0, 29), st.integers(0, 29)), max_size=60), st.data())
def test_every_node_has_one_cluster_of_limited_size(num_nodes, edges, data):
    index = np.array(edges, dtype=np.int64).reshape(-1, 2).T % num_nodes
    num_clusters = data.draw(st.integers(1, num_nodes))
    graph = Graph.of(index, num_nodes=num_nodes)
    clusters = partition(graph, num_clusters)
    assert 0 <= int(clusters.min()) <= int(clusters.max()) < num_clusters
    assert torch.bincount(clusters).max() <= np.ceil(1.1 * num_nodes / num_clusters)


def test_a_batch_of_clusters_has_no_blocks():
    (batch,) = ClusterLoader(Graph.of(np.array([[0, 1], [1, 2]])), [0, 0, 0])
    with pytest.raises(SettingError, match=r"which belong to no hop; use sample\.graph in all layers"):
        batch.blocks()


def test_batches_hold_their_clusters_and_all_edges_inside():
    graph = communities(4, 20)
    clusters = partition(graph, 9)
    seeds = torch.arange(0, 80, 3)
    passes = []
    for num_workers in (0, 2):
        loader = ClusterLoader(
            graph, clusters, clusters_per_batch=2, seeds=seeds, shuffle=True, seed=4, num_workers=num_workers
        )
        passes.append([[(each.n_id.tolist(), each.e_id.tolist()) for each in loader] for _ in range(2)])
        loader.epoch = 0
        batches = list(loader)
        assert len(loader) == len(batches) == -(-len(clusters.unique()) // 2)
        assert sorted(torch.cat([each.n_id for each in batches]).tolist()) == list(range(80))
        assert sorted(torch.cat([each.n_id[each.seeds] for each in batches]).tolist()) == seeds.tolist()
        for each in batches:
            expected = graph.subgraph(each.n_id).edges
            pairs = [
                sorted(zip(edges.senders.tolist(), edges.receivers.tolist(), strict=True))
                for edges in (each.graph.edges, expected)
            ]
            assert pairs[0] == pairs[1]
            assert torch.equal(each.n_id[each.graph.edges.senders], graph.edges.senders[each.e_id])
    assert passes[0] == passes[1]
    assert passes[0][0] != passes[0][1]


def test_what_cannot_be_is_refused():
    graph = Graph.of(np.array([[0, 1], [1, 2]]))
    with pytest.raises(SettingError, match="num_clusters is 4; expected 1 to 3, the number of nodes"):
        partition(graph, 4)
    with pytest.raises(SettingError, match="clusters_per_batch is 0; expected at least 1"):
        ClusterLoader(graph, [0, 0, 1], clusters_per_batch=0)
    with pytest.raises(ShapeError, match=r"clusters is \(2,\); expected the cluster of each node, \(3,\)"):
        ClusterLoader(graph, [0, 1])
    with pytest.raises(ShapeError, match="seeds must lie in 0 … 2; found 3"):
        ClusterLoader(graph, [0, 1, 1], seeds=[3])
    empty = Graph.of(np.zeros((2, 0), np.int64))
    assert partition(empty, 1).shape == (0,)
    assert list(ClusterLoader(empty, [])) == []
