"""Graphs of a data set, explained: every number is the prediction for the graph without that part."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from edgewise import DataError, SettingError, UnsupportedError
from edgewise.explain.explanation import Explanation
from edgewise.explain.gradients import integrated_gradients
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.graphs import GraphRow, graphs_from_arrays
from edgewise.learn.readers.graphs.union import copies
from edgewise.learn.tasks.graphs import explainable as explaining
from edgewise.learn.tasks.graphs.explainable import explain_graph
from explain_cases import graph_model, some_graphs, some_trees

MODELS = ["gcn", "sage", "gin", "gat", "gatv2", "attention", "hop_attention"]


def by_name(found):
    return {each.name: each for each in found.attributions}


def predicted(trained, graph, label=None):
    """The value, or the probability of a class, of a graph of its own."""
    (found,) = trained.predict(graphs_from_arrays([graph]))[:1]
    return found.value[0] if label is None else found.probabilities[0, label]


def without_node(graph, gone):
    """The graph built anew without a node."""
    kept = np.flatnonzero(np.arange(len(graph.features)) != gone)
    place = np.cumsum(np.arange(len(graph.features)) != gone) - 1
    edges = graph.edges.taken(np.flatnonzero((graph.edges.senders != gone) & (graph.edges.receivers != gone)))
    return GraphRow(graph.features[kept], EdgeList(place[edges.senders], place[edges.receivers], edges.features))


def without_link(graph, one, other):
    """The graph built anew without the edges between two nodes."""
    ends = np.stack([graph.edges.senders, graph.edges.receivers])
    is_link = (np.sort(ends, axis=0) == np.sort([one, other])[:, None]).all(axis=0)
    assert is_link.any()
    return replace(graph, edges=graph.edges.taken(np.flatnonzero(~is_link)))


@pytest.mark.parametrize("readout", ["attention_sum", "mean"])
@pytest.mark.parametrize(
    "settings",
    [
        *({"model": model, "edge_features": 2 if model == "attention" else 0} for model in MODELS),
        {"model": "attention", "random_walk_positions": 3, "laplacian_positions": 2},
    ],
    ids=[*MODELS, "positions"],
)
def test_effects_are_those_of_graphs_built_without_the_part(settings, readout):
    """Positions too are those of what is left."""
    trained, table, graphs = graph_model(**settings, readout=readout)
    graph, found = graphs[4], explain_graph(trained, table, 4, methods=["occlusion"])
    assert isinstance(found, Explanation)
    whole = predicted(trained, graph)
    assert found.predictions[0].value == pytest.approx(whole, abs=1e-5)
    expected = [whole - predicted(trained, without_node(graph, node)) for node in range(5)]
    np.testing.assert_allclose(by_name(found)["occlusion"].values, expected, atol=1e-4)
    ends = {tuple(sorted(pair)) for pair in zip(graph.edges.senders.tolist(), graph.edges.receivers.tolist())}
    assert [(link.first, link.second) for link in found.links] == sorted(ends)
    for link in found.links:
        assert link.effect == pytest.approx(
            whole - predicted(trained, without_link(graph, link.first, link.second)), abs=1e-4
        )


@pytest.mark.parametrize("model", ["gcn", "gat", "attention"])
@pytest.mark.parametrize("features", ["none", "constant"])
def test_degrees_are_those_of_what_is_left(model, features):
    """They are features where no other one varies; a loop counts, one that the model adds does not."""
    size = 0 if features == "none" else 1
    graphs = [replace(graph, features=np.full((len(graph.features), size), 2, np.float32)) for graph in some_graphs()]
    ends = np.r_[graphs[4].edges.senders, 1], np.r_[graphs[4].edges.receivers, 1]
    graphs[4] = graph = replace(graphs[4], edges=EdgeList(*ends, np.zeros((len(ends[0]), 0), np.float32)))
    trained, table, _ = graph_model(model, graphs=graphs)
    assert table.has_degrees == (features == "none") != trained.encoder.adds_degrees

    found, whole = explain_graph(trained, table, 4, methods=["occlusion"]), predicted(trained, graph)
    expected = [whole - predicted(trained, without_node(graph, node)) for node in range(5)]
    np.testing.assert_allclose(by_name(found)["occlusion"].values, expected, atol=1e-4)
    for link in found.links:
        expected = whole - predicted(trained, without_link(graph, link.first, link.second))
        assert link.effect == pytest.approx(expected, abs=1e-4)
    assert any("degrees, which are counted again" in note for note in found.notes)


def test_degrees_of_a_tree_are_those_of_what_is_left():
    """Without the leaf 6, node 3 is a leaf itself."""
    trees = [replace(tree, features=np.zeros((len(tree.features), 0), np.float32)) for tree in some_trees()]
    trained, table, _ = graph_model("attention", readout="root", graphs=trees)
    with_leaf, without_leaf = (
        trained.predict(graphs_from_arrays([tree], need_roots=True))[0].value[0]
        for tree in (trees[5], without_node(trees[5], 6))
    )
    found = by_name(explain_graph(trained, table, 5, methods=["occlusion"]))["occlusion"].values[6]
    assert found == pytest.approx(with_leaf - without_leaf, abs=1e-5) != 0


def test_integrated_gradients_are_complete_and_members_are_averaged():
    trained, table, _ = graph_model("attention", members=3)
    found = explain_graph(trained, table, 5, methods=["integrated gradients"])
    batch = trained.batches(table).batch(np.array([5]))
    blank = batch.with_node_features(torch.zeros_like(batch.graph.node_features))
    with torch.no_grad():
        nothing = np.mean([trained.output.finish(member(blank).double()).numpy() for member in trained.members])
    assert by_name(found)["integrated gradients"].values.sum() == pytest.approx(
        found.predictions[0].value - nothing, abs=2e-3
    )
    assert any("first of 3 models" in note for note in found.notes)


@pytest.mark.parametrize("together", [1, 5, 32])
@pytest.mark.parametrize("readout", ["attention_sum", "root"])
def test_points_of_an_integral_that_are_computed_together_stay_apart(monkeypatch, refined_paths, readout, together):
    graphs = some_trees() if readout == "root" else None
    trained, table, _ = graph_model("attention", readout=readout, members=2, graphs=graphs)
    batch = trained.batches(table).batch(np.array([4]))
    features, size = batch.graph.node_features, batch.graph.num_nodes + batch.graph.num_edges
    monkeypatch.setattr(explaining, "GRADIENT_SIZE", together * size)
    found = by_name(explain_graph(trained, table, 4, methods=["integrated gradients"]))["integrated gradients"].values
    std = trained.target_scale.std[0]
    one_at_a_time = [
        integrated_gradients(lambda x, member=member: member(batch.with_node_features(x)).mean() * std, features)
        for member in trained.members
    ]
    np.testing.assert_allclose(found, np.mean(one_at_a_time, axis=0), atol=1e-5)


@pytest.mark.parametrize("model", ["gat", "attention", "gcn", "hop_attention"])
def test_layers_and_shares(model):
    trained, table, _ = graph_model(model)
    found = explain_graph(trained, table, 5)
    attends = model in ("gat", "attention")
    assert [layer.name for layer in found.layers] == [
        *(["layer 1", "layer 2", "layer 3"] if attends else []),
        "readout",
    ]
    for layer in found.layers:
        sums = np.zeros((len(layer.values), 1 if layer.is_readout else 6))
        np.add.at(sums, (slice(None), layer.receivers), layer.values)
        np.testing.assert_allclose(sums, 1, rtol=1e-5)
    shares = by_name(found)
    assert shares["attention"].values.sum() == pytest.approx(1)
    assert ("rollout" in shares) == attends
    if attends:
        assert shares["rollout"].values.sum() == pytest.approx(1)
        assert (shares["rollout"].values >= 0).all()
    else:
        assert any("do not attend from node to node" in note for note in found.notes)
    assert set(found.faithfulness.agreement) >= {"attention", "integrated gradients"}


def test_classes_and_a_graph_of_one_node():
    trained, table, graphs = graph_model(task="multiclass")
    found = explain_graph(trained, table, 3, label="2")
    assert found.explained == "target = 2"
    assert by_name(found)["occlusion"].values[1] == pytest.approx(
        predicted(trained, graphs[3], 2) - predicted(trained, without_node(graphs[3], 1), 2), abs=1e-5
    )
    alone = explain_graph(trained, table, 0)
    assert (len(alone.units), alone.links, alone.title) == (1, (), "0")
    assert alone.to_json()["units"][0]["name"] == "0"


def test_copies_of_several_graphs_keep_them_apart():
    trained, table, _ = graph_model("attention", edge_features=2)
    batch = trained.batches(table).batch(np.array([2, 4]))
    random = np.random.default_rng(0)
    nodes = random.random((5, 8)) < 0.7
    edges = random.random((5, batch.graph.num_edges)) < 0.8
    union = copies(batch, nodes, edges)
    assert union.graph.offsets.diff().tolist() == [n for line in nodes for n in (line[:3].sum(), line[3:].sum())]
    together = trained.members[0](union).detach()
    for copy in range(5):
        one = trained.members[0](copies(batch, nodes[copy : copy + 1], edges[copy : copy + 1])).detach()
        torch.testing.assert_close(together[2 * copy : 2 * copy + 2], one, rtol=1e-4, atol=1e-5)


def test_what_is_refused(monkeypatch):
    trained, table, _ = graph_model()
    with pytest.raises(DataError, match="graph 6 does not exist; they are 0 to 5"):
        explain_graph(trained, table, 6)
    with pytest.raises(SettingError, match="nobody"):
        explain_graph(trained, table, 1, target="nobody")
    monkeypatch.setattr(explaining, "MAX_NODES", 3)
    with pytest.raises(UnsupportedError, match="the graph '4' has 5 nodes; at most 3 can be explained"):
        explain_graph(trained, table, 4)
    bad = some_graphs()
    bad[2] = GraphRow(bad[2].features[:0], bad[2].edges.taken(np.arange(0)))
    with pytest.raises(DataError, match="cannot be predicted"):
        explain_graph(trained, graphs_from_arrays(bad), 2)
    rooted, table, _ = graph_model(readout="root", graphs=some_trees())
    batch = rooted.batches(table).batch(np.array([2]))
    with pytest.raises(UnsupportedError, match="a root is taken away; a tree without its root is none"):
        copies(batch, np.array([[True, False, True, True]]))


GOES_WITH = {0: {0, 3, 4}, 2: {2, 5}, 3: {3}, 4: {4}, 5: {5}, 6: {6}}
"""In the last tree, what has no way to the root without each node; node 6 has a second way."""


@pytest.mark.parametrize("model", MODELS)
def test_of_a_tree_goes_what_has_no_other_way_to_the_root(model):
    trained, table, trees = graph_model(model, readout="root", graphs=some_trees())
    tree, found = trees[5], explain_graph(trained, table, 5)
    assert found.center == 1

    def rooted(graph):
        (said,) = trained.predict(graphs_from_arrays([graph], need_roots=True))
        return said.value[0]

    def without(gone):
        left = tree
        for node in sorted(gone, reverse=True):
            left = without_node(left, node)
        return rooted(left)

    whole = rooted(tree)
    assert found.predictions[0].value == pytest.approx(whole, abs=1e-5)
    lost = by_name(found)["occlusion"].values
    for node, gone in GOES_WITH.items():
        assert lost[node] == pytest.approx(whole - without(gone), abs=1e-4), node
    blank = tree.features.copy()
    blank[1] = trained.encoder.scales.node.mean
    assert lost[1] == pytest.approx(whole - rooted(replace(tree, features=blank)), abs=1e-4)
    effects = {(link.first, link.second): link.effect for link in found.links}
    assert effects[0, 1] == pytest.approx(whole - without({0, 3, 4}), abs=1e-4)
    second_way = rooted(without_link(tree, 6, 3))
    assert effects[3, 6] == pytest.approx(whole - second_way, abs=1e-4)
    assert abs(lost).max() > 1e-2
    shares = by_name(found)
    assert shares["attention"].values.sum() == pytest.approx(1)
    if "rollout" in shares:
        assert shares["rollout"].values.sum() == pytest.approx(1, abs=1e-5)
    assert any("everything that reaches the root only through it" in note for note in found.notes)
    assert found.faithfulness.removals[0].shares[-1] == 1
