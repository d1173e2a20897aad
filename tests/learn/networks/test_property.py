"""The property model: order does not matter, batching does not matter, every choice trains."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from batch_cases import batch_of, changed
from edgewise.choices import COMBINES, NORMALIZERS, SCORES
from edgewise.errors import SettingError
from edgewise.graph import Batch, Trace
from edgewise.learn.networks.graph_layers import layers_for
from edgewise.learn.networks.graph_settings import PropertySettings, PropertySizes
from edgewise.learn.networks.property import PropertyModel
from edgewise.neighborhood import Edges

SMALL = PropertySettings(model_dim=8, num_heads=2, num_layers=2, head_dim=8, num_variants=3)
SIZES = PropertySizes(5, 4, 6, 2, 2, 1)


def batch(num_graphs: int = 3, num_rows: int = 5, seed: int = 0) -> Batch:
    """A cycle, a path and a lone atom, and rows that pair them."""
    random = torch.Generator().manual_seed(seed)
    counts = [4, 3, 1][:num_graphs]
    pairs = [[(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 1), (1, 2)], []][:num_graphs]
    offsets = np.concatenate([[0], np.cumsum(counts)])
    both = [(a + o, b + o) for pair, o in zip(pairs, offsets) for a, b in (*pair, *((b, a) for a, b in pair))]
    senders, receivers = (torch.tensor([edge[side] for edge in both]) for side in (0, 1))
    return batch_of(
        torch.randn(offsets[-1], 5, generator=random),
        Edges(senders, receivers, int(offsets[-1]), int(offsets[-1])),
        torch.randn(len(both), 4, generator=random),
        graph_features=torch.randn(num_graphs, 6, generator=random),
        offsets=torch.tensor(offsets),
        graph_of_row=torch.randint(0, num_graphs, (num_rows, 2), generator=random),
        row_features=torch.randn(num_rows, 2, generator=random),
        coordinates=torch.randn(offsets[-1], 3, generator=random),
    )


def model(settings: PropertySettings = SMALL, sizes: PropertySizes = SIZES) -> PropertyModel:
    """A model in evaluation mode, always with the same weights."""
    torch.manual_seed(0)
    return PropertyModel(sizes, settings).eval()


def test_renumbering_atoms_and_bonds_changes_nothing():
    whole, net = batch(), model()
    graph = whole.graph
    order = torch.cat([torch.randperm(4), 4 + torch.randperm(3), torch.tensor([7])])
    place = order.argsort()
    shuffled = torch.randperm(graph.num_edges)
    senders, receivers = place[graph.edges.senders][shuffled], place[graph.edges.receivers][shuffled]
    renumbered = changed(
        whole,
        node_features=graph.node_features[order],
        edges=Edges(senders, receivers, 8, 8),
        edge_features=graph.edge_features[shuffled],
    )
    torch.testing.assert_close(net(renumbered), net(whole), rtol=1e-5, atol=1e-6)


def test_a_row_is_predicted_the_same_alone_and_in_a_batch():
    whole, net = batch(num_rows=6), model()
    rows = whole.supervision
    for row in range(6):
        own = slice(row, row + 1)
        alone = changed(whole, graph_of_row=rows.graph_of_row[own], row_features=rows.row_features[own])
        torch.testing.assert_close(net(alone)[0], net(whole)[row], rtol=1e-5, atol=1e-6)


def test_components_have_their_places_and_conditions_interact():
    whole, net = batch(), model()
    conditions = whole.supervision.row_features[:1].expand(2, -1)
    pair = changed(whole, graph_of_row=torch.tensor([[0, 1], [1, 0]]), row_features=conditions)
    assert not torch.allclose(net(pair)[0], net(pair)[1])
    # Warming two rows by the same amount must not move them by the same amount.
    warm = changed(pair, row_features=conditions + torch.tensor([1.0, 0.0]))
    moved = net(warm) - net(pair)
    assert not torch.allclose(moved[0], moved[1], atol=1e-4)


def test_variants_differ_and_fingerprints_do_not_see_conditions():
    whole, net = batch(), model()
    outputs = net(whole)
    assert outputs.shape == (5, 3, 1)
    assert not torch.allclose(outputs[:, 0], outputs[:, 1])
    vectors = net.fingerprint(whole)
    torch.testing.assert_close(
        net.fingerprint(changed(whole, row_features=whole.supervision.row_features + 1)), vectors
    )
    assert vectors.shape == (5, 2 * (8 + 8))


def test_outputs_of_fractions_stay_between_their_ends():
    net = model(sizes=replace(SIZES, low=(-1.5,), high=(2.0,)))
    outputs = net(changed(batch(), row_features=1000 * batch().supervision.row_features))
    assert -1.5 <= outputs.min() < outputs.max() <= 2.0


@pytest.mark.parametrize("name", layers_for("molecules"))
def test_every_layer_gives_every_parameter_a_gradient(name):
    net = model(replace(SMALL, model=name)).train()
    net(batch()).square().sum().backward()
    without = [name for name, parameter in net.named_parameters() if parameter.grad is None]
    assert without == []


def test_descriptors_are_learned_from_however_many_are_dropped():
    torch.manual_seed(0)
    net = model(replace(SMALL, descriptor_dropout=0.5)).train()
    for _ in range(8):  # of a few molecules all may be dropped in a step
        net(batch()).square().sum().backward()
    assert all(parameter.grad.any() for parameter in net.encoder.describe.parameters())


@pytest.mark.parametrize(
    "choice",
    [
        *({"score": name} for name in SCORES),
        *({"normalize": name} for name in NORMALIZERS),
        *({"combine": name} for name in COMBINES),
        {"temperature": 0.0},
        {"temperature": float("inf")},
    ],
    ids=str,
)
def test_every_choice_of_the_operator_runs_and_means_something(choice):
    chosen = model(replace(SMALL, **choice))
    outputs = chosen(batch())
    assert torch.isfinite(outputs).all()
    # The bilinear score starts as the scaled dot product and learns to be another.
    like_default = (
        {"score": "scaled_dot"},
        {"score": "bilinear"},
        {"normalize": "softmax"},
        {"combine": "concatenate"},
    )
    is_default = choice in like_default
    same = outputs.shape == model()(batch()).shape and torch.allclose(outputs, model()(batch()))
    assert same == is_default


def test_a_trace_holds_the_weights_of_every_layer_and_of_the_readout():
    trace = Trace()
    outputs = model()(batch(), trace)
    torch.testing.assert_close(outputs, model()(batch()))
    assert len(trace.weights) == 3
    for weights in trace.weights:
        torch.testing.assert_close(weights.to_dense().sum(-1), torch.ones(2, weights.num_receivers))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"model": "mpnn"},
            "--model is 'mpnn'; expected one of attention, gat, gatv2, gcn, sage, gin, dmpnn, edge_attention, mat.",
        ),
        ({"model": "gat", "score": "dot"}, "--score goes with --model attention; --model gat has its own."),
        ({"model_dim": 10, "num_heads": 4}, "--model-dim (10) must be a multiple of --num-heads (4)."),
        ({"normalize": "mean", "temperature": 2.0}, "--temperature goes with --normalize softmax, not mean."),
        ({"temperature": -1.0}, "--temperature is -1.0; expected at least 0."),
        ({"num_layers": 0}, "--num-layers is 0; expected at least 1 and at most 1000."),
        ({"head_dropout": 0.9}, "--head-dropout is 0.9; expected at least 0 and at most 0.5."),
    ],
)
def test_settings_say_what_they_expect(given, message, shapes_unchecked):
    with pytest.raises(SettingError) as caught:
        PropertySettings(**given)
    assert str(caught.value) == message


def test_the_layer_fits_the_number_of_molecules():
    few, many = (PropertySettings().resolved(64, count) for count in (999, 1000))
    assert (few.model, few.num_layers, few.model_dim, few.head_dim) == ("attention", 3, 64, 128)
    assert (many.model, many.num_layers, many.model_dim, many.head_dim) == ("edge_attention", 3, 256, 256)
    assert PropertySettings(model="gin").resolved(64, 5000).numbers[:2] == (64, 128)
    assert PropertySettings(model_dim=32).resolved(64, 5000).numbers[:2] == (32, 256)
    for given in ({"score": "dot"}, {"normalize": "sigmoid"}, {"temperature": 2.0}):  # they choose attention
        assert PropertySettings(**given).resolved(64, 5000).model == "attention"
    classes = PropertySettings(head_dropout=0.0).resolved(64, 5000, is_classification=True)
    assert (classes.model, *classes.numbers) == ("edge_attention", 256, 256, 0.1, 0.3, 0.3, 0.0)
    assert (classes.descriptor_dropout, many.descriptor_dropout) == (0.3, 0.1)
    known = PropertySettings(molecule_dropout=0.2).resolved(256, 100, known_molecules=True)
    assert (known.model, *known.numbers) == ("attention", 64, 128, 0.05, 0.2, 0.05, 0.0)


def test_the_number_of_variants_fits_the_batch():
    assert [PropertySettings().resolved(size).num_variants for size in (32, 64, 128, 256)] == [8, 8, 8, 4]
    assert PropertySettings(num_variants=2).resolved(64).num_variants == 2
    with pytest.raises(SettingError, match=r"hand over settings\.resolved"):
        PropertyModel(SIZES, PropertySettings())
