"""Nodes learned from sampled neighborhoods: the same outputs where all edges are sampled, and a run that goes on."""

import numpy as np
import pytest
import scipy.sparse
import torch

from edgewise import NodeClassifier, SettingError
from edgewise.learn.estimators.nodes import NODES
from edgewise.learn.estimators.row_methods import data_of
from edgewise.learn.networks import chunks
from edgewise.learn.networks.graph_layers import layers_for
from edgewise.learn.tasks.sampled import GraphSampler, SampledLoader
from type_cases import NUM_AUTHORS, arrays_of, debate

EXTENDED = {"expander_degree": 4, "laplacian_positions": 2, "random_walk_positions": 2}


@pytest.fixture(scope="module")
def graph():
    """Two teams whose members know each other; some nodes have a loop, one of them two."""
    random = np.random.default_rng(0)
    team = np.arange(60) % 2
    senders = random.integers(0, 60, 200)
    receivers = (senders + 2 * random.integers(1, 30, 200)) % 60
    index = np.stack([np.concatenate([senders, receivers, [3, 3, 8]]), np.concatenate([receivers, senders, [3, 3, 8]])])
    return np.stack([2 * team + random.normal(size=60), random.normal(size=60)], 1), team, index


def outputs(classifier, fanouts, data, *parts, **options):
    """The outputs of each row of the first member, in sampled batches; and of the whole graph."""
    trained, table = classifier.trained_, data_of(classifier, NODES, data, {"edges": parts[0], **options})
    batches, rows = trained.batches(table), np.arange(NUM_AUTHORS, 50)
    table.rows.targets[:] = 0
    (member,) = trained.members
    with torch.no_grad():
        whole = member.eval()(batches.batch(rows))
        loader = SampledLoader(batches, GraphSampler(batches.graph, fanouts, 3).sample, rows, 7, seed=3)
        loader.epoch = 2
        order = np.random.default_rng([3, 2]).permutation(rows) - NUM_AUTHORS
        found = torch.cat([member(batch) for batch in loader])
    assert len(loader) == 5
    return found, whole[order]


@pytest.mark.parametrize(
    ("model", "options"),
    [(name, {}) for name in layers_for("nodes")] + [("attention", EXTENDED), ("gcn", {"sparse": 1})],
)
def test_samples_of_all_edges_give_the_outputs_of_the_whole_graph(graph, model, options):
    features, y, index = graph
    given = {"edge_features": np.random.default_rng(1).random((403, 1))} if model in ("attention", "gat", "gin") else {}
    if model in ("rgcn", "hgt"):
        nodes, edges, _ = debate()
        features, index, node_types, edge_types = arrays_of(nodes, edges)
        y, given = np.arange(len(features)) % 2, {"node_types": node_types, "edge_types": edge_types}
    if "sparse" in options:
        features = scipy.sparse.csr_matrix(features > 0)
    settings = {name: value for name, value in options.items() if name != "sparse"}
    settings |= {"num_hops": 2} if model == "hop_attention" else {}
    classifier = NodeClassifier(model=model, epochs=1, fanouts=[-1], model_dim=8, **settings).fit(
        features, y, index, **given
    )
    # One hop more than the model reaches: some layers divide by how many edges come to a sender.
    found, whole = outputs(classifier, [-1] * 4, features, index, **given)
    torch.testing.assert_close(found, whole, rtol=1e-4, atol=1e-5)
    few, _ = outputs(classifier, [1], features, index, **given)
    assert not torch.allclose(few, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("model", ["attention", "gat", "gatv2", "gin", "rgcn", "hgt"])
def test_chunks_of_receivers_give_the_outputs_of_the_whole_graph(graph, model, monkeypatch):
    """Layers that compute something for each edge do so for a few receivers after the other."""
    features, y, index = graph
    given = {"edge_features": np.random.default_rng(1).random((403, 2))}
    if model in ("rgcn", "hgt"):
        nodes, edges, _ = debate()
        features, index, node_types, edge_types = arrays_of(nodes, edges)
        y, given = np.arange(len(features)) % 2, {"node_types": node_types, "edge_types": edge_types}
    classifier = NodeClassifier(model=model, epochs=1, model_dim=8).fit(features, y, index, **given)
    whole = classifier.predict_proba(features, index, **given)
    sizes, together = [], chunks.Edges

    def recorded(senders, receivers, *counts):
        sizes.append(len(senders))
        return together(senders, receivers, *counts)

    monkeypatch.setattr(chunks, "MAX_EDGES", 30)
    monkeypatch.setattr(chunks, "Edges", recorded)
    np.testing.assert_allclose(classifier.predict_proba(features, index, **given), whole, rtol=1e-4, atol=1e-6)
    assert len(sizes) > 10
    assert max(sizes) <= max(30, np.bincount(index[1]).max() + 1)


def test_a_classifier_learns_from_samples(graph):
    features, team, index = graph
    settings = {"model": "sage", "model_dim": 8, "epochs": 40, "dropout": 0.2, "batch_size": 16}
    known = np.where(np.arange(60) < 40, team, -1)
    with pytest.warns(UserWarning, match="-1"):
        classifier = NodeClassifier(fanouts=(4, 3), **settings).fit(features, known, index)
    assert classifier.score(features, team, index, nodes=np.arange(60) >= 40) > 0.9
    assert NodeClassifier(fanouts=(4, 3)).get_params()["fanouts"] == (4, 3)


@pytest.mark.parametrize("fanouts", [[0], [-2], [2.5], ["many"], [True]])
def test_fanouts_that_cannot_be_are_refused(graph, fanouts):
    with pytest.raises(SettingError, match=r"fanouts has .*; expected edges a node, at least 1, or -1 for all"):
        NodeClassifier(fanouts=fanouts).fit(*graph[:2], graph[2])


def test_virtual_nodes_cannot_be_sampled(graph):
    with pytest.raises(SettingError, match="fanouts samples neighbors, but virtual nodes are joined with all nodes"):
        NodeClassifier(model="attention", num_virtual_nodes=1, fanouts=[3]).fit(*graph[:2], graph[2])
