"""Links, explained: every number is the prediction for a graph that was built without the part."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from edgewise import DataError, EdgewiseError, SettingError, Trace
from edgewise.learn.estimators import LinkPredictor
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.link_graph import LinkGraph
from edgewise.learn.readers.graphs.node_features import NodeFeatures
from edgewise.learn.tasks import graph_explainable as nodes
from edgewise.learn.tasks.explainer import Explainer
from edgewise.learn.tasks.links import explainable as explaining
from edgewise.learn.tasks.links.explainable import explain_link, predict_links
from edgewise.learn.tasks.links.model import pair_scores, predict
from edgewise.learn.training.folder import RunFolder
from edgewise.view.explanation import explanation_page
from edgewise.view.picture import explanation_svg
from explain_cases import link_model

MODELS = ["gcn", "sage", "gin", "gat", "gatv2", "attention", "hop_attention"]
SMALL = {"hop_attention": {"num_hops": 2}}


def made(model="gcn", **more):
    return link_model(model, **SMALL.get(model, {}), **more)


def by_name(found):
    return {each.name: each for each in found.attributions}


def ends_of(trained, place=0):
    """A link of the graph."""
    return int(trained.encoder.graph.edges.senders[place]), int(trained.encoder.graph.edges.receivers[place])


def apart_of(trained):
    """Two nodes that no link joins, both with neighbors."""
    edges = trained.encoder.graph.edges
    linked = set(zip(edges.senders.tolist(), edges.receivers.tolist(), strict=True))
    some = sorted(set(edges.senders.tolist()) & set(edges.receivers.tolist()))
    return next((i, j) for i in some for j in some if i != j and (i, j) not in linked and (j, i) not in linked)


def without_pair(graph, one, other, *, is_directed=False):
    """The graph built anew without the edges between two nodes, or those from one to the other."""
    senders, receivers = graph.edges.senders, graph.edges.receivers
    is_gone = (senders == one) & (receivers == other)
    if not is_directed:
        is_gone |= (senders == other) & (receivers == one)
    assert is_gone.any()
    return replace(graph, edges=graph.edges.taken(np.flatnonzero(~is_gone)))


def without_node(graph, gone):
    """The graph built anew without all edges at a node."""
    kept = (graph.edges.senders != gone) & (graph.edges.receivers != gone)
    return replace(graph, edges=graph.edges.taken(np.flatnonzero(kept)))


def predicted(trained, graph, pair):
    """The probability, all edges of the graph carrying messages."""
    return float(predict(trained, *(np.array([end]) for end in pair), graph)[0])


@pytest.mark.parametrize("decoder", ["dot", "hadamard_mlp", "bilinear"])
@pytest.mark.parametrize("model", MODELS)
def test_effects_are_those_of_graphs_built_without_the_part(model, decoder):
    trained = made(model, decoder=decoder, edge_features=2 if model == "attention" else 0)
    pair = ends_of(trained)
    graph = without_pair(trained.encoder.graph, *pair)
    found, whole = explain_link(trained, *pair, methods=["occlusion"]), predicted(trained, graph, pair)
    assert (found.kind, found.explained, found.center, found.other_end) == ("graph", "link_prob", 0, 1)
    assert [unit.name for unit in found.units[:2]] == [f"n{node}" for node in pair]
    assert found.title == f"n{pair[0]} – n{pair[1]}"
    assert found.predictions[0].value == pytest.approx(whole, abs=1e-6)
    places = [int(unit.name[1:]) for unit in found.units]
    lost = by_name(found)["occlusion"].values
    for unit in range(2, min(9, len(places))):
        expected = whole - predicted(trained, without_node(graph, places[unit]), pair)
        assert lost[unit] == pytest.approx(expected, abs=3e-6)
    pairs = [frozenset((link.first, link.second)) for link in found.links]
    assert frozenset((0, 1)) not in pairs
    assert len(set(pairs)) == len(pairs)
    for link in found.links[:9]:
        cut = without_pair(graph, places[link.first], places[link.second])
        assert link.effect == pytest.approx(whole - predicted(trained, cut, pair), abs=3e-6)
    assert any(abs(link.effect) > 1e-3 for link in found.links)


@pytest.mark.parametrize("end", [0, 1])
def test_an_end_loses_its_features(end):
    trained = made("gcn", feature_scale="none")
    pair = apart_of(trained)
    found, graph = explain_link(trained, *pair, methods=["occlusion"]), trained.encoder.graph
    assert found.notes[0] == "The graph does not have this link."
    features = graph.features.to_dense()
    features[pair[end]] = 0
    blank = replace(graph, features=NodeFeatures.of(features))
    expected = predicted(trained, graph, pair) - predicted(trained, blank, pair)
    assert by_name(found)["occlusion"].values[end] == pytest.approx(expected, abs=2e-6)


def test_the_link_itself_carries_no_message_and_a_note_says_what_it_would_do():
    trained = made()
    pair = ends_of(trained)
    apart, seen = (
        predicted(trained, without_pair(trained.encoder.graph, *pair), pair),
        predicted(trained, trained.encoder.graph, pair),
    )
    assert apart != pytest.approx(seen, abs=1e-3)
    found = explain_link(trained, *pair, methods=["occlusion"])
    assert found.predictions[0].value == pytest.approx(apart, abs=1e-6)
    assert found.notes[0].endswith(f"link_prob would be {seen:.3g}.")
    other = apart_of(trained)
    expected = [apart, predicted(trained, trained.encoder.graph, other)]
    np.testing.assert_allclose(predict_links(trained, *zip(pair, other, strict=True)), expected, atol=1e-6)


def test_edges_that_are_one_way():
    trained = made("gat", directed=True)
    pair = ends_of(trained)
    there, back = (
        explain_link(trained, *pair, methods=["occlusion"]),
        explain_link(trained, *reversed(pair), methods=["occlusion"]),
    )
    assert there.title == f"n{pair[0]} → n{pair[1]}"
    graph = without_pair(trained.encoder.graph, *pair, is_directed=True)
    assert there.predictions[0].value == pytest.approx(predicted(trained, graph, pair), abs=1e-6)
    # The way back is another link: it is not in the graph, and the way there stays.
    assert back.notes[0] == "The graph does not have this link."
    assert back.notes[1].startswith("Edges are one way: the link back is another one, which the graph has")
    assert not any("the link back" in note for note in there.notes)
    assert back.predictions[0].value == pytest.approx(predicted(trained, trained.encoder.graph, pair[::-1]), abs=1e-6)


@pytest.mark.parametrize("model", ["gcn", "attention", "hop_attention"])
def test_a_subgraph_of_a_large_graph_keeps_mean_and_spread(model, monkeypatch):
    trained = made(model)
    pair = ends_of(trained)
    small = explain_link(trained, *pair, methods=["occlusion"])
    monkeypatch.setattr(explaining, "MAX_WHOLE", 10)
    large = explain_link(trained, *pair, methods=["occlusion"])
    assert large.predictions[0].value == pytest.approx(small.predictions[0].value, abs=1e-6), (
        "the part says what the whole says"
    )
    assert [unit.name for unit in large.units] == [unit.name for unit in small.units]
    graph = without_pair(trained.encoder.graph, *pair)
    batch = trained.encoder.scaled(graph).graph()
    link, places = large.links[0], [int(unit.name[1:]) for unit in large.units]
    cut = trained.encoder.scaled(without_pair(graph, places[link.first], places[link.second])).graph()
    with torch.no_grad():
        moments = trained.model.moments(trained.model.encoder(batch))
        vectors = trained.model.measured(trained.model.encoder(cut), *moments)
        expected = torch.sigmoid(trained.model.score_pairs(vectors, *(torch.tensor([end]) for end in pair)))
    assert link.effect == pytest.approx(large.predictions[0].value - float(expected), abs=3e-6)
    assert any("as the graph is large" in note for note in large.notes)
    assert any("counts too, a little" in note for note in small.notes)


@pytest.mark.parametrize("model", ["gat", "attention"])
def test_layers_are_those_of_the_whole_graph_and_rollout_is_of_both_ends(model):
    trained = made(model)
    pair = ends_of(trained)
    found, trace = explain_link(trained, *pair, methods=["rollout"]), Trace()
    with torch.no_grad():
        trained.model.encoder(trained.encoder.scaled(without_pair(trained.encoder.graph, *pair)).graph(), trace)
    places = [int(unit.name[1:]) for unit in found.units]
    assert [layer.name for layer in found.layers] == ["layer 1", "layer 2"]
    assert set(found.layers[1].receivers.tolist()) == {0, 1}
    for layer, weights in zip(found.layers, trace.weights, strict=True):
        dense = weights.to_dense()
        own = np.zeros((len(layer.values), len(places), len(places)))
        np.add.at(own, (slice(None), layer.receivers, layer.senders), layer.values)
        for receiver in set(layer.receivers.tolist()):
            np.testing.assert_allclose(own[:, receiver].sum(1), 1, rtol=1e-5)
            np.testing.assert_allclose(own[:, receiver], dense[:, places[receiver]][:, places], atol=1e-6)
    assert by_name(found)["rollout"].values.sum() == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("known", [True, False])
def test_integrated_gradients_sum_to_the_difference(known):
    trained = made("gcn", known=known, num_layers=8, **({"feature_scale": "none"} if known else {}))
    circle = EdgeList(np.arange(30), np.roll(np.arange(30), 1), np.zeros((30, 0), np.float32)).both_ways(30)
    graph = replace(trained.encoder.graph, edges=circle)
    found = explain_link(trained, 3, 18, graph=graph, methods=["integrated gradients"])
    assert len(found.units) == 30, "all that counts is shown"
    batch, model = trained.encoder.scaled(graph).graph(), trained.model
    with torch.no_grad():
        moments = model.moments(model.encoder(batch))
        vectors = model.measured(
            model.encoder(replace(batch, node_features=torch.zeros_like(batch.node_features))), *moments
        )
    nothing = 1 / (1 + np.exp(-pair_scores(trained, vectors, np.array([3]), np.array([18]))[0]))
    summed = by_name(found)["integrated gradients"].values.sum()
    assert summed == pytest.approx(found.predictions[0].value - nothing, abs=5e-3)
    assert any("learned vector of each node" in note for note in found.notes) == (not known)


@pytest.mark.parametrize("model", ["gcn", "attention"])
def test_another_order_of_the_nodes_changes_nothing(model):
    trained = made(model)
    pair, graph = ends_of(trained), trained.encoder.graph
    order = np.random.default_rng(5).permutation(30)
    place = np.argsort(order)
    turned = LinkGraph(
        "turned",
        tuple(graph.names[node] for node in order),
        NodeFeatures.of(graph.features.to_dense()[order]),
        EdgeList(place[graph.edges.senders], place[graph.edges.receivers], graph.edges.features),
    )
    one = explain_link(trained, *pair)
    other = explain_link(trained, *(int(place[end]) for end in pair), graph=turned)
    assert other.predictions[0].value == pytest.approx(one.predictions[0].value, abs=1e-5)
    for first, second in zip(one.attributions, other.attributions, strict=True):
        values = [
            dict(zip([unit.name for unit in found.units], each.values, strict=True))
            for found, each in ((one, first), (other, second))
        ]
        assert values[0].keys() == values[1].keys()
        assert all(values[0][name] == pytest.approx(values[1][name], abs=1e-4) for name in values[0])
    # Where edges go both ways, the order of the ends says nothing either.
    assert explain_link(trained, *reversed(pair)).predictions[0].value == pytest.approx(
        one.predictions[0].value, abs=1e-6
    )


def test_hops_and_caps(monkeypatch):
    trained = made()
    pair = ends_of(trained)
    near, far = explain_link(trained, *pair, hops=1), explain_link(trained, *pair)
    assert 2 < len(near.units) < len(far.units)
    np.testing.assert_allclose(
        by_name(near)["occlusion"].values, by_name(far)["occlusion"].values[: len(near.units)], atol=1e-6
    )
    monkeypatch.setattr(nodes, "MAX_NODES", 4)
    monkeypatch.setattr(nodes, "MAX_REMOVALS", 3)
    monkeypatch.setattr(nodes, "MIN_REMOVALS", 3)
    few = explain_link(trained, *pair)
    assert np.isnan(by_name(few)["occlusion"].values).tolist() == [False, False, False, True]
    assert any(note.startswith("Only the nearest 4 of") for note in few.notes)
    assert any(note.startswith("Only the nearest 3 nodes were removed") for note in few.notes)


def test_two_nodes_without_neighbors():
    trained = made("gat")
    alone = replace(trained.encoder.graph, edges=EdgeList(*np.array([[1], [2]]), np.zeros((1, 0), np.float32)))
    found = explain_link(trained, 7, 9, graph=alone)
    assert ([unit.name for unit in found.units], found.links) == (["n7", "n9"], ())
    assert "<svg" in explanation_svg(found)


def test_a_run_opens_as_a_page(tmp_path):
    trained = made("attention")
    trained.save(RunFolder(tmp_path / "run"))
    explainer = Explainer.open(tmp_path / "run")
    assert explainer.fields == [{"name": "sender", "type": "node"}, {"name": "receiver", "type": "node"}]
    assert (explainer.kind, explainer.facts["task"], explainer.facts["model"]) == ("graph", "link", "attention")
    sender, receiver = ends_of(trained)
    row = {"sender": f" n{sender}", "receiver": f"n{receiver}"}
    found = explainer.explain(row)
    assert found.to_json() == explain_link(trained, sender, receiver).to_json()
    (told_row,) = explainer.predict([row])
    assert told_row[0].value == pytest.approx(found.predictions[0].value, abs=1e-6)
    page = explanation_page([found])
    assert f"n{sender} – n{receiver}" in json.loads(page.split('id="contents">')[1].split("</script>")[0])["title"]
    for bad, message in (
        ({"sender": "zoe"}, "sender: there is no node 'zoe'; the 30 nodes are n0, n1, n2, n3, n4, …"),
        ({"receiver": f"n{sender}"}, f"the node 'n{sender}' is named twice: a link joins two different nodes"),
        ({"receiver": 7}, "receiver: there is no node '7'"),
    ):
        with pytest.raises(DataError, match=message):
            explainer.explain({**row, **bad})
        with pytest.raises(DataError, match=message):
            explainer.predict([{**row, **bad}])
    with pytest.raises(SettingError, match="label is 'yes', but link_prob is a number and has no classes"):
        explainer.explain(row, label="yes")
    with pytest.raises(SettingError, match="target is 'price'; the model predicts link_prob"):
        explainer.explain(row, target="price")


def test_from_python():
    predictor = LinkPredictor()
    predictor.trained_ = trained = made()
    pair, graph = ends_of(trained), trained.encoder.graph
    names = [graph.names[node] for node in pair]
    assert predictor.explain(names).to_json() == explain_link(trained, *pair).to_json()
    index = np.stack([graph.edges.senders, graph.edges.receivers])
    again = predictor.explain(pair, graph=graph.features.to_dense(), edges=index, hops=1)
    assert again.title == f"{pair[0]} – {pair[1]}"
    assert again.predictions[0].value == pytest.approx(predictor.explain(names).predictions[0].value, abs=1e-6)
    nodes = {"graph": np.zeros((30, 5))}
    for words, other, error, message in (
        (("n0", "n30"), {}, DataError, "no node is called 'n30'; the nodes of this graph are called n0, n1, n2"),
        ((0, "n3"), {}, DataError, "no node is called 0"),
        ((30, 0), {**nodes, "edges": index}, DataError, "node 30 does not exist; they are 0 to 29"),
        (("n3", "n3"), {}, DataError, "the node 'n3' is named twice"),
        (("n0", "n3"), nodes, DataError, "explain: there are nodes or features of edges, but no edges"),
    ):
        with pytest.raises(error, match=message):
            predictor.explain(words, **other)
    with pytest.raises(SettingError, match="hops is 0; expected at least 1"):
        predictor.explain(names, hops=0)
    with pytest.raises(EdgewiseError, match="is not fitted yet"):
        LinkPredictor().explain((0, 1))
