"""The transformer over an extended graph: what it sees, what it learns, what it is made of."""

import torch
import torch.nn.functional as F

from batch_cases import batch_of, changed
from edgewise.learn.networks.graph_settings import NodeSettings, NodeSizes
from edgewise.learn.networks.node import NodeModel
from edgewise.learn.readers.graphs.position import laplacian_positions, random_walk_positions
from edgewise.neighborhood import EDGE_TYPES, Edges, extend_edges
from graph_cases import GRAPH, ready

EXTRAS = {"expander_degree": 2, "num_virtual_nodes": 2, "laplacian_positions": 3, "random_walk_positions": 2}
NUM_NODES = GRAPH.num_receivers


def model_of(**settings):
    sizes = NodeSizes(num_features=4, num_edge_features=len(EDGE_TYPES), num_outputs=3)
    return ready(NodeModel(sizes, NodeSettings(model="attention", num_heads=2, model_dim=8, **settings)))


def extended_batch(edges, kinds):
    torch.manual_seed(1)
    return batch_of(
        torch.randn(NUM_NODES, 4, dtype=torch.float64),
        edges,
        F.one_hot(kinds, len(EDGE_TYPES)).double(),
        nodes=torch.arange(NUM_NODES),
        position_encodings=torch.cat([laplacian_positions(GRAPH, 3), random_walk_positions(GRAPH, 2)], 1),
        num_virtual_nodes=edges.num_receivers - NUM_NODES,
    )


def whole():
    return extended_batch(*extend_edges(GRAPH, expander_degree=2, num_virtual_nodes=2))


def test_every_parameter_learns_and_only_requested_nodes_are_predicted():
    model, batch = model_of(**EXTRAS), whole()
    predicted = model(batch)
    assert predicted.shape == (NUM_NODES, 3)
    assert model.fingerprint(batch).shape == (NUM_NODES, 8)
    predicted.square().sum().backward()
    silent = {name for name, p in model.named_parameters() if p.grad is None or p.grad.abs().sum() < 1e-9}
    # A bias on all keys shifts all dot products of a row alike, which softmax does not see.
    assert {name.split("attention.")[-1] for name in silent} <= {"key.bias"}


def test_predictions_do_not_depend_on_the_order_of_nodes():
    model, batch = model_of(**EXTRAS), whole()
    # Virtual nodes stay behind the others.
    order = torch.cat([torch.randperm(NUM_NODES), torch.arange(NUM_NODES, NUM_NODES + 2)])
    place, edges, edge_order = order.argsort(), batch.graph.edges, torch.randperm(batch.graph.num_edges)
    moved = Edges(place[edges.senders[edge_order]], place[edges.receivers[edge_order]], *edges.sizes)
    order = order[:NUM_NODES]
    turned = changed(
        batch,
        node_features=batch.graph.node_features[order],
        edges=moved,
        edge_features=batch.graph.edge_features[edge_order],
        position_encodings=batch.graph.position_encodings[order],
    )
    torch.testing.assert_close(model(turned), model(batch)[order])


def test_the_kind_of_an_edge_the_virtual_nodes_and_the_positions_matter():
    model, batch = model_of(**EXTRAS), whole()
    predicted = model(batch)
    alike = changed(batch, edge_features=batch.graph.edge_features.flip(1))
    assert not torch.allclose(model(alike), predicted)
    assert not torch.allclose(model(changed(batch, position_encodings=-batch.graph.position_encodings)), predicted)
    with torch.no_grad():
        model.layers.virtual.mul_(-1)
    assert not torch.allclose(model(batch), predicted)


def test_a_virtual_node_lets_two_layers_see_everything():
    edges, kinds = extend_edges(GRAPH, num_virtual_nodes=1)
    batch = extended_batch(edges, kinds)
    for num_layers, reaches in ((1, False), (2, True)):
        model = model_of(num_virtual_nodes=1, num_layers=num_layers)
        features = batch.graph.node_features.requires_grad_()
        seen = torch.autograd.grad(model(batch)[5].sum(), features)[0].abs().sum(1) > 0
        assert bool(seen.all()) == reaches, "node 5 has no neighbor of its own"


def test_a_model_without_extras_is_made_of_what_it_always_was():
    names = dict(model_of().named_parameters())
    assert not any(name.startswith(("layers.virtual", "layers.position")) for name in names)
