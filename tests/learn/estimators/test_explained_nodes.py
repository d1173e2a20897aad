"""Nodes, explained: the subgraph predicts what the whole graph predicts, and every number is a prediction."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from batch_cases import changed
from edgewise import DataError, Edges, Graph, SettingError, Trace
from edgewise.graph import Batch, Supervision
from edgewise.learn.estimators import NodeClassifier
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.tasks import graph_explainable as explaining
from edgewise.learn.tasks.explained import Explained
from edgewise.learn.tasks.nodes.task import explain_node
from edgewise.learn.tasks.subgraph import NodePerturbation, Subgraph, border_of
from explain_cases import node_model
from type_cases import arrays_of, debate

MODELS = ["gcn", "sage", "gin", "gat", "gatv2", "attention", "hop_attention"]
SMALL = {"hop_attention": {"num_hops": 3}}


def by_name(found):
    return {each.name: each for each in found.attributions}


def made(model, **more):
    return node_model(model, **SMALL.get(model, {}), **more)


def predicted(trained, table, node, label):
    """The probability of a class, or the value, asked of the whole graph."""
    each = trained.predict(table)[0]
    return each.value[node] if each.probabilities is None else each.probabilities[node, label]


def without(table, gone):
    """The table without the edges at a node."""
    edges = table.edges
    kept = np.flatnonzero((edges.senders != gone) & (edges.receivers != gone))
    return replace(table, edges=edges.taken(kept))


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_the_part_says_what_the_whole_says(model, sparse):
    trained, table = made(model, sparse=sparse)
    graph = trained.batches(table).graph
    assert isinstance(graph.node_features, torch.Tensor) != sparse
    with torch.no_grad():
        whole = trained.members[0](Batch(graph, Supervision(nodes=torch.arange(40))))
        for node in range(40):
            near = Subgraph.of(
                graph, node, trained.encoder.on_graph.settings.reach, border_of(trained.encoder.on_graph.settings)
            )
            torch.testing.assert_close(trained.members[0](near.batch)[0], whole[node], rtol=1e-4, atol=1e-5)
            assert near.nodes[0] == node
            assert (np.diff(near.hops) >= 0).all()


def test_a_border_is_needed_where_degrees_of_senders_count():
    trained, table = made("gcn")
    graph = trained.batches(table).graph
    with torch.no_grad():
        differs = [
            not torch.allclose(
                trained.members[0](Subgraph.of(graph, node, 2, 0).batch),
                trained.members[0](Subgraph.of(graph, node, 2, 1).batch),
            )
            for node in range(40)
        ]
    assert any(differs)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("model", MODELS)
def test_occlusion_asks_the_whole_graph_without_the_node(model, sparse):
    trained, table = made(model, sparse=sparse, members=2)
    node = 7
    found = explain_node(trained, table, node, methods=["occlusion"])
    assert (found.kind, found.center, found.units[0].name) == ("graph", 0, "7")
    label = int(found.predictions[0].value)
    full = predicted(trained, table, node, label)
    assert found.predictions[0].probabilities[str(label)] == pytest.approx(full)
    assert found.explained == f"target = {label}"
    values = by_name(found)["occlusion"].values
    for unit, value in list(zip(found.units, values, strict=True))[1:12]:
        cut = predicted(trained, without(table, int(unit.name)), node, label)
        assert value == pytest.approx(full - cut, abs=2e-6)


def test_the_node_itself_loses_its_features():
    trained, table = made("gcn", task="regression", feature_scale="none")
    found = explain_node(trained, table, 7, methods=["occlusion"])
    features = table.features.to_dense()
    features[7] = 0
    blank = replace(table, features=type(table.features).of(features))
    expected = predicted(trained, table, 7, None) - predicted(trained, blank, 7, None)
    assert by_name(found)["occlusion"].values[0] == pytest.approx(expected, abs=1e-6)


def test_links_are_pairs_and_lose_both_ways():
    trained, table = made("gat")
    found = explain_node(trained, table, 7, methods=["occlusion"])
    label = int(found.predictions[0].value)
    places = [int(unit.name) for unit in found.units]
    pairs = [frozenset((link.first, link.second)) for link in found.links]
    assert len(set(pairs)) == len(pairs)
    for link in found.links[:6]:
        pair = {places[link.first], places[link.second]}
        edges = table.edges
        sides = zip(edges.senders.tolist(), edges.receivers.tolist(), strict=True)
        kept = np.array([{s, r} != pair for s, r in sides])
        cut = replace(table, edges=edges.taken(np.flatnonzero(kept)))
        assert link.effect == pytest.approx(
            predicted(trained, table, 7, label) - predicted(trained, cut, 7, label), abs=2e-6
        )


@pytest.mark.parametrize("model", ["gat", "gatv2", "attention"])
def test_layers_are_those_of_the_whole_graph(model):
    trained, table = made(model)
    found = explain_node(trained, table, 7, methods=["rollout"])
    trace = Trace()
    graph = trained.batches(table).graph
    with torch.no_grad():
        trained.members[0](Batch(graph, Supervision(nodes=torch.tensor([7]))), trace)
    places = [int(unit.name) for unit in found.units]
    assert [layer.name for layer in found.layers] == ["layer 1", "layer 2"]
    assert set(found.layers[1].receivers.tolist()) == {0}
    for layer, weights in zip(found.layers, trace.weights, strict=True):
        dense = weights.to_dense()
        for receiver in set(layer.receivers.tolist()):
            own = layer.receivers == receiver
            senders = [places[sender] for sender in layer.senders[own]]
            np.testing.assert_allclose(layer.values[:, own].sum(1), 1, rtol=1e-5)
            expected = dense[:, places[receiver]].sum(1)
            np.testing.assert_allclose(dense[:, places[receiver]][:, sorted(set(senders))].sum(1), expected, rtol=1e-5)
    assert by_name(found)["rollout"].values.sum() == pytest.approx(1, abs=1e-5)


def test_attention_over_distances_says_how_much_of_each_node_is_summed():
    trained, table = made("hop_attention", task="regression")
    found = explain_node(trained, table, 7, methods=["attention"])
    attention = by_name(found)["attention"].values
    # The answer is the sum of the numbers of each node before they are spread, times these weights.
    member, graph = trained.members[0], trained.batches(table).graph
    layers = member.layers
    with torch.no_grad():
        own = layers.output(torch.relu(layers.input(graph.node_features)))[[int(unit.name) for unit in found.units]]
        answer = member(Batch(graph, Supervision(nodes=torch.tensor([7]))))
    assert float(attention @ own[:, 0].numpy()) == pytest.approx(float(answer), abs=1e-5)
    assert found.layers == ()
    assert found.notes[-1].startswith("Attention over distances of 0, 1, 2, … hops: ")


@pytest.mark.parametrize("sparse", [False, True])
def test_integrated_gradients_sum_to_the_difference(sparse):
    trained, table = made("gatv2", task="regression", sparse=sparse, feature_scale="none")
    found = explain_node(trained, table, 7, methods=["integrated gradients"])
    blank = replace(table, features=type(table.features).of(np.zeros(table.features.shape)))
    if sparse:
        known = table.features
        nothing = known.of_entries(known.rows, known.columns, np.zeros_like(known.values), known.shape)
        blank = replace(table, features=nothing)
    expected = predicted(trained, table, 7, None) - predicted(trained, blank, 7, None)
    assert by_name(found)["integrated gradients"].values.sum() == pytest.approx(expected, abs=2e-3)


def test_hops_and_caps(monkeypatch):
    trained, table = made("gcn")
    near = explain_node(trained, table, 7, hops=1)
    far = explain_node(trained, table, 7)
    assert 1 < len(near.units) < len(far.units)
    np.testing.assert_allclose(
        by_name(near)["occlusion"].values, by_name(far)["occlusion"].values[: len(near.units)], atol=1e-9
    )
    assert len(explain_node(trained, table, 7, hops=9).units) == len(far.units)
    monkeypatch.setattr(explaining, "MAX_NODES", 4)
    monkeypatch.setattr(explaining, "MAX_REMOVALS", 2)
    monkeypatch.setattr(explaining, "MIN_REMOVALS", 2)
    few = explain_node(trained, table, 7)
    assert len(few.units) == 4
    assert np.isnan(by_name(few)["occlusion"].values).tolist() == [False, False, True, True]
    assert any(note.startswith("Only the nearest 4 of") for note in few.notes)
    assert any(note.startswith("Only the nearest 2 nodes were removed") for note in few.notes)
    assert few.faithfulness.removals[0].shares.tolist() == [0, 0.5, 1]


def test_features_of_edges_come_along():
    trained, table = made("attention", edge_features=2)
    graph = trained.batches(table).graph
    near = Subgraph.of(graph, 3, 2, 0)
    with torch.no_grad():
        whole = trained.members[0](Batch(graph, Supervision(nodes=torch.tensor([3]))))
        torch.testing.assert_close(trained.members[0](near.batch), whole, rtol=1e-4, atol=1e-5)
    found = explain_node(trained, table, 3, methods=["occlusion"])
    label = int(found.predictions[0].value)
    cut = predicted(trained, without(table, int(found.units[1].name)), 3, label)
    expected = predicted(trained, table, 3, label) - cut
    assert by_name(found)["occlusion"].values[1] == pytest.approx(expected, abs=2e-6)


@pytest.mark.parametrize("model", MODELS)
def test_a_node_without_neighbors(model):
    trained, table = made(model)
    alone = replace(table, edges=EdgeList(*np.array([[1], [2]]), np.zeros((1, 0), np.float32)))
    found = explain_node(trained, alone, 7)
    assert len(found.units) == 1
    assert found.links == ()
    assert found.faithfulness.removals[-1].method == "random"


def test_questions_are_cut_into_batches(monkeypatch):
    trained, table = made("gcn")
    near = Subgraph.of(trained.batches(table).graph, 7, 2, 1)
    questions = NodePerturbation(Explained(trained, 0, 1).of_batch, near)
    lists = [np.array([unit]) for unit in range(6)]
    together = questions.without_nodes(lists)
    monkeypatch.setattr("edgewise.learn.tasks.subgraph.BATCH_SIZE", 1)
    np.testing.assert_allclose(questions.without_nodes(lists), together, atol=1e-6)
    assert questions.without_nodes([]).shape == (0,)


def test_what_is_refused():
    trained, table = made("gcn")
    with pytest.raises(DataError, match="node 40 does not exist; they are 0 to 39"):
        explain_node(trained, table, 40)
    with pytest.raises(SettingError, match="hops is 0; expected at least 1"):
        explain_node(trained, table, 0, hops=0)
    with pytest.raises(SettingError, match="label is '9'; the classes of target are 0, 1, 2"):
        explain_node(trained, table, 0, label=9)
    status = ["ok"] * 40
    status[3] = "x: empty cell"
    with pytest.raises(DataError, match="the node '3' cannot be predicted: x: empty cell"):
        explain_node(trained, replace(table, rows=replace(table.rows, status=status)), 3)


@pytest.mark.parametrize(
    "settings",
    [
        {"expander_degree": 2},
        {"num_virtual_nodes": 2},
        {"expander_degree": 2, "num_virtual_nodes": 1, "laplacian_positions": 2},
        {"laplacian_positions": 2, "random_walk_positions": 3},
    ],
)
def test_added_edges_go_with_their_nodes_and_positions_stay(settings):
    trained, table = made("attention", **settings)
    found, node = explain_node(trained, table, 7, methods=["occlusion", "rollout"]), 7
    graph, label = trained.batches(table).graph, int(found.predictions[0].value)

    def asked(batch):
        with torch.no_grad():
            return torch.softmax(trained.members[0](batch).double(), 1)[0, label].item()

    whole = Batch(graph, Supervision(nodes=torch.tensor([node])))
    assert asked(whole) == pytest.approx(predicted(trained, table, node, label), abs=1e-6)
    assert found.predictions[0].probabilities[str(label)] == pytest.approx(asked(whole), abs=1e-5)
    senders, receivers = graph.edges.senders, graph.edges.receivers

    def without_edges(gone):
        # All that is known of the whole graph stays: positions, the draw of expander edges.
        edges = Edges(senders[~gone], receivers[~gone], graph.edges.num_senders, graph.edges.num_receivers)
        features = None if graph.edge_features is None else graph.edge_features[~gone]
        return asked(changed(whole, edges=edges, edge_features=features))

    places = [int(unit.name) for unit in found.units]
    lost = by_name(found)["occlusion"].values
    for unit in range(1, min(6, len(places))):
        gone = ((senders == places[unit]) | (receivers == places[unit])) & (senders != receivers)
        assert lost[unit] == pytest.approx(asked(whole) - without_edges(gone), abs=3e-6)
    num_own = len(table.edges) + 40
    for link in found.links[:4]:
        pair = torch.tensor([places[link.first], places[link.second]])
        gone = torch.isin(senders, pair) & torch.isin(receivers, pair) & (senders != receivers)
        gone[num_own:] = False  # expander edges between them stay: they are not links of the graph
        assert link.effect == pytest.approx(asked(whole) - without_edges(gone), abs=3e-6)
    own = set(zip(table.edges.senders.tolist(), table.edges.receivers.tolist(), strict=True))
    assert all((places[link.first], places[link.second]) in own for link in found.links)
    said = " ".join(found.notes)
    assert ("edges that the model adds to the graph" in said) == (
        "laplacian_positions" not in settings or len(settings) > 2
    )
    assert ("Positions are those of the whole graph" in said) == ("laplacian_positions" in settings)
    assert ("virtual nodes themselves" in said) == ("num_virtual_nodes" in settings)
    rollout = by_name(found)["rollout"].values
    assert rollout.sum() <= 1 + 1e-5
    assert (rollout.sum() < 0.999) == ("num_virtual_nodes" in settings)


@pytest.mark.parametrize("model", ["rgcn", "hgt"])
def test_nodes_and_edges_keep_their_kinds(model):
    nodes, edges, label = debate()
    features, index, of_node, names = arrays_of(nodes, edges)
    kinds = {"node_types": of_node, "edge_types": names}
    labels = [*[None] * 20, *label.tolist()]
    small = {"num_heads": 2} if model == "hgt" else {}
    classifier = NodeClassifier(model=model, model_dim=8, epochs=2, validation_size=0, dropout=0.0, **small)
    classifier.fit(features, labels, index, **kinds)
    node = 25
    found = classifier.explain(features, edges=index, node=node, **kinds)
    chosen = int(found.predictions[0].value)

    def asked(kept):
        proba = classifier.predict_proba(
            features, index[:, kept], node_types=kinds["node_types"], edge_types=names[kept]
        )
        return proba[node, chosen]

    everything = np.ones(index.shape[1], dtype=bool)
    whole = asked(everything)
    assert found.predictions[0].probabilities[str(chosen)] == pytest.approx(whole, abs=1e-5)
    places = [int(unit.name) for unit in found.units]
    lost = by_name(found)["occlusion"].values
    for unit in (1, 2, len(places) - 1):
        assert lost[unit] == pytest.approx(whole - asked((index != places[unit]).all(0)), abs=3e-6)
    link = found.links[0]
    pair = {places[link.first], places[link.second]}
    cut = np.array([{sender, receiver} != pair for sender, receiver in index.T.tolist()])
    assert link.effect == pytest.approx(whole - asked(cut), abs=3e-6)
    parts = {part.name: part for part in found.parts}
    assert [part.name for part in found.parts if part.kind == "type of node"] == ["author", "paper"]
    assert {places[unit] for unit in parts["author"].units} == {place for place in places if place < 20}
    assert parts["author"].effect == pytest.approx(whole - asked((index >= 20).all(0)), abs=3e-6)
    for name in ("rev_cites", "opposes"):
        part = parts[f"paper {name} paper"]
        assert (part.kind, part.effect) == ("type of edge", pytest.approx(whole - asked(names != name), abs=3e-6))
        assert min(places[unit] for unit in part.units) >= 20
    assert bool(found.layers) == (model == "hgt")
    if model == "hgt":
        assert by_name(found)["rollout"].values.sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.filterwarnings("ignore:fit. .*degree:UserWarning")
@pytest.mark.parametrize("known", ["nothing", "a constant", "numbers"])
def test_a_note_says_that_degrees_stay(known):
    """Where they are the features, what is removed does not change those of its neighbors."""
    random = np.random.default_rng(0)
    edges = np.stack([np.arange(12), random.permutation(12)])
    features = {"nothing": None, "a constant": np.ones((12, 1)), "numbers": random.normal(size=(12, 2))}[known]
    whole = Graph.of(edges) if features is None else Graph.of((features, edges))
    model = NodeClassifier(epochs=1, validation_size=0).fit(whole, np.arange(12) % 2)
    notes = model.explain(whole, node=0).notes
    assert any("Degrees are features here" in note for note in notes) == (known != "numbers")
