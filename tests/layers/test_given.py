"""Arguments of layers: an edge_index is a list of edges; a layer refuses what does not fit, in its own words."""

import re

import pytest
import torch

import edgewise.layers as L
from edgewise import Edges, EdgewiseError, Full, Mask, SettingError, ShapeError, Softmax, UnsupportedError
from edgewise.graph import SparseFeatures
from edgewise.neighborhood import Relations, Types
from graph_cases import normal, ready

INDEX = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
EDGES = Edges.from_edge_index(INDEX, 5)
PLACES = torch.arange(15.0).view(5, 3)
RELATIONS, KINDS = Relations(EDGES, torch.tensor([0, 1, 0, 1]), 2), Types(torch.tensor([0, 1, 0, 1, 0]), 2)
OFFSETS = torch.tensor([0, 2, 5])
GRAPHS = {
    "MultiHeadAttention": (lambda: L.MultiHeadAttention(8, 2), lambda layer, x, e: layer(x, neighborhood=e)),
    "ALiBi": (lambda: L.MultiHeadAttention(8, 2, position=L.ALiBi(2)), lambda layer, x, e: layer(x, neighborhood=e)),
    "ResidualBlock": (lambda: L.ResidualBlock(L.MultiHeadAttention(8, 2), 8), lambda layer, x, e: layer(x, e)),
    "MeanConvolution": (lambda: L.MeanConvolution(8, 6), lambda layer, x, e: layer(x, e)),
    "SymmetricConvolution": (lambda: L.SymmetricConvolution(8, 6), lambda layer, x, e: layer(x, e)),
    "NeighborConvolution": (lambda: L.NeighborConvolution(8, 6, "max"), lambda layer, x, e: layer(x, e)),
    "IsomorphismConvolution": (lambda: L.IsomorphismConvolution(8, 6), lambda layer, x, e: layer(x, e)),
    "DirectedMessages": (lambda: L.DirectedMessages(8, 0, 6), lambda layer, x, e: layer(x, e)),
    "EdgeAttention": (lambda: L.EdgeAttention(8, 0, 6, num_heads=2), lambda layer, x, e: layer(x, e)),
    "GraphAttention": (lambda: L.GraphAttention(8, 6, 2, score="gatv2"), lambda layer, x, e: layer(x, e)),
    "GatedGraphAttention": (lambda: L.GatedGraphAttention(8, num_heads=2), lambda layer, x, e: layer(x, e)),
    "GraphGRU": (lambda: L.GraphGRU(8, 4, 2), lambda layer, x, e: layer(x, e)),
    "HopAttention": (lambda: L.HopAttention(8, 2), lambda layer, x, e: layer(x, e)),
    "MoleculeAttention": (lambda: L.MoleculeAttention(8, 2), lambda layer, x, e: layer(x, PLACES, e)),
    "EquivariantLayer": (lambda: L.EquivariantLayer(8), lambda layer, x, e: layer(x, PLACES, e).nodes),
    "GraphNetwork": (
        lambda: L.GraphNetwork(L.EdgeUpdate(8, 0, 0, 4), L.NodeUpdate(8, 4, 0, 6)),
        lambda layer, x, e: layer(x, e).nodes,
    ),
}
OTHERS = {
    "Readout": (lambda: L.Readout(8), lambda layer, x: layer(x, OFFSETS)),
    "SinusoidalPosition": (lambda: L.SinusoidalPosition(8), lambda layer, x: layer(x)),
    "LearnedPosition": (lambda: L.LearnedPosition(9, 8), lambda layer, x: layer(x)),
    "GraphPosition": (lambda: L.GraphPosition(8, 2), lambda layer, x: layer(x, PLACES[:, :2])),
    "RelationalConvolution": (lambda: L.RelationalConvolution(8, 6, 2), lambda layer, x: layer(x, RELATIONS)),
    "RelationalAttention": (lambda: L.RelationalAttention(8, 2, 2, 2), lambda layer, x: layer(x, KINDS, RELATIONS)),
    "TypedLinear": (lambda: L.TypedLinear([8, 8], 4), lambda layer, x: layer(x, KINDS)),
    "RecurrentEncoder": (lambda: L.RecurrentEncoder(8, 8), lambda layer, x: layer(x[None])),
}
EVERY = {name: (make, lambda layer, x, call=call: call(layer, x, EDGES)) for name, (make, call) in GRAPHS.items()}
EVERY |= OTHERS


def drawn(*shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("name", GRAPHS)
def test_an_edge_index_is_its_list_of_edges(name):
    make, call = GRAPHS[name]
    layer = make()
    assert torch.equal(call(layer, drawn(5, 8), INDEX), call(layer, drawn(5, 8), EDGES))


WITH_EDGES = {
    "MultiHeadAttention": lambda: L.MultiHeadAttention(8, 2, edge_dim=3),
    "IsomorphismConvolution": lambda: L.IsomorphismConvolution(8, 6, edge_dim=3),
    "DirectedMessages": lambda: L.DirectedMessages(8, 3, 6),
    "EdgeAttention": lambda: L.EdgeAttention(8, 3, 6, num_heads=2),
    "GraphAttention": lambda: L.GraphAttention(8, 6, 2, edge_dim=3),
    "EquivariantLayer": lambda: L.EquivariantLayer(8, edge_dim=3),
    "GraphNetwork": lambda: L.GraphNetwork(L.EdgeUpdate(8, 3, 0, 4), L.NodeUpdate(8, 4, 0, 6)),
}


@pytest.mark.parametrize("name", WITH_EDGES)
def test_features_of_edges_that_do_not_fit(name, shapes_unchecked):
    layer, place = WITH_EDGES[name](), (PLACES,) if name == "EquivariantLayer" else ()

    def run(x, edge):
        named = name in ("MultiHeadAttention",)
        return layer(x, neighborhood=EDGES, edge_features=edge) if named else layer(x, *place, EDGES, edge)

    wrong = (drawn(4, 2), drawn(4), drawn(3, 3), drawn(4, 3).long(), drawn(4, 3).double(), [[1.0, 2.0, 3.0]] * 4)
    for edge in (*wrong, drawn(4, 3).to_sparse()):
        with pytest.raises(ShapeError, match="|".join((name, "attend: axis 'edge' is 4 in the neighborhood but 3"))):
            run(drawn(5, 8), edge)
    with pytest.raises(ShapeError, match=r"is sparse \(torch.sparse_coo\); expected a dense tensor"):
        run(drawn(5, 8).to_sparse(), drawn(4, 3))


def test_weights_of_edges_that_are_sparse(shapes_unchecked):
    for layer in (L.NeighborConvolution(8, 6), L.SymmetricConvolution(8, 6)):
        with pytest.raises(ShapeError, match=r"edge_weight \(4,\) is sparse"):
            layer(drawn(5, 8), EDGES, drawn(4).to_sparse())


def test_nodes_have_the_dtype_of_the_network_of_a_convolution():
    network = torch.nn.Linear(8, 6, dtype=torch.float64)
    layer = L.IsomorphismConvolution(8, 6, network=network, learn_epsilon=True)  # which is float32
    assert layer(drawn(5, 8).double(), EDGES).dtype == torch.float64


def test_an_edge_index_with_features_of_edges_and_bodies():
    x, edge = drawn(5, 8), drawn(4, 3)
    attention, bodies, force = L.MultiHeadAttention(8, 2, edge_dim=3), L.EquivariantLayer(8, edge_dim=3), L.PairForce(8)
    for one, other in (
        (attention(x, neighborhood=INDEX, edge_features=edge), attention(x, neighborhood=EDGES, edge_features=edge)),
        (
            bodies(x, PLACES, INDEX, edge_features=edge).coordinates,
            bodies(x, PLACES, EDGES, edge_features=edge).coordinates,
        ),
        (force(PLACES, INDEX, edge[:, 0]), force(PLACES, EDGES, edge[:, 0])),
    ):
        assert torch.equal(one, other)


@pytest.mark.parametrize("name", ["SymmetricConvolution", "HopAttention", "GraphNetwork"])
def test_a_mask_where_edges_are_needed_is_listed(name):
    make, call = GRAPHS[name]
    layer, mask = make(), EDGES.to_mask()
    torch.testing.assert_close(call(layer, drawn(5, 8), Mask(mask)), call(layer, drawn(5, 8), EDGES))


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("name", EVERY)
def test_features_that_do_not_fit(name):
    make, call = EVERY[name]
    layer = make()
    x, owner = drawn(5, 8), name if name != "ALiBi" else "MultiHeadAttention"
    called = "query" if owner == "MultiHeadAttention" else "nodes"
    with pytest.raises(ShapeError, match=rf"^{owner}: {called} must be floating point, not .*int64\. {called}\.float"):
        call(layer, x.long())
    if name != "TypedLinear":  # whose rows may be wider than what a kind has
        fitting = {"GraphNetwork": "GraphNetwork: 7 features came where an update was made for 8"}
        expected = fitting.get(name, rf"{owner}: axis 'feature' is 7 in {called}, but the layer was made for 8")
        with pytest.raises(ShapeError, match=f"^{expected}"):
            call(layer, x[:, :7])
    if name not in ("SinusoidalPosition", "LearnedPosition"):
        with pytest.raises(ShapeError, match=rf"^{owner}: {called} are torch\.float64, but the layer's weights"):
            call(layer, x.double())
    if name != "RecurrentEncoder":
        with pytest.raises(ShapeError, match=rf"^{owner}: {called} must be a tensor, not ndarray; torch\.as_tensor"):
            call(layer, x.numpy())
        with pytest.raises(ShapeError, match=rf"^{owner}: {called} must have the axes \(…, node, feature\), not"):
            call(layer, x[0])


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("name", GRAPHS)
def test_what_is_no_neighborhood(name):
    make, call = GRAPHS[name]
    layer, x = make(), drawn(5, 8)
    for given in (None, Full, EDGES.to_mask(), INDEX.tolist(), INDEX.float()):
        with pytest.raises(SettingError, match=r"^\w+: neighborhood must be a Neighborhood or an edge_index, not "):
            call(layer, x, given)
    for given in (INDEX + 5, Edges.from_edge_index(INDEX, 4)):
        with pytest.raises(ShapeError):
            call(layer, x, given)


@pytest.mark.usefixtures("shapes_unchecked")
def test_what_users_of_other_libraries_write():
    x = drawn(5, 8)
    attention = L.MultiHeadAttention(8, 2)
    with pytest.raises(
        ShapeError, match=r"key must be floating point, .* Pass an edge_index as neighborhood=edge_index"
    ):
        attention(x, INDEX)
    with pytest.raises(ShapeError, match="key must be a tensor, not Edges; it goes to neighborhood="):
        attention(x, EDGES)
    for call in (
        lambda: L.RelationalConvolution(8, 6, 2)(x, EDGES),
        lambda: L.RelationalAttention(8, 2, 2, 2)(x, KINDS, INDEX),
        lambda: L.TypedLinear([8, 8], 4)(x, torch.zeros(5)),
        lambda: L.PairForce(8)(PLACES, EDGES, torch.ones(3)),
        lambda: L.EquivariantLayer(8)(x, PLACES[:4], EDGES),
    ):
        with pytest.raises(EdgewiseError):
            call()


PAIR_INDEX = torch.tensor([[0, 4, 4, 2, 1], [0, 0, 1, 1, 1]])
"""Edges from five sources to three targets, of which the last receives none."""
OF_EDGE, NODE_TYPES = torch.tensor([0, 1, 0, 0, 1]), Types(torch.tensor([0, 1, 1, 0, 1, 0, 0, 1]), 2)
MOVING = {"has_velocities": True, "normalize": Softmax(), "aggregation": "sum", "has_bounded_steps": True}


def relations(index, sizes):
    return Relations(Edges.from_edge_index(index, sizes), OF_EDGE, 2)


def types_of(x):
    return (NODE_TYPES[torch.arange(5)], NODE_TYPES[torch.arange(5, 8)]) if isinstance(x, tuple) else NODE_TYPES


def plain(layer, x, places, edges):
    return layer(x, edges)


PAIRS = {
    "MultiHeadAttention": (
        lambda: L.MultiHeadAttention(8, 2),
        lambda layer, x, places, edges: layer(*(x[::-1] if isinstance(x, tuple) else (x, x)), neighborhood=edges),
    ),
    "ResidualBlock": (
        lambda: L.ResidualBlock(L.MultiHeadAttention(8, 2), 8, norm="post"),
        lambda layer, x, places, edges: (
            layer(x[1], edges, source=x[0]) if isinstance(x, tuple) else layer(x, edges)
        ),
    ),
    "MeanConvolution": (lambda: L.MeanConvolution(8, 6), plain),
    "SymmetricConvolution": (lambda: L.SymmetricConvolution(8, 6, add_self_loops=False), plain),
    "NeighborConvolution": (lambda: L.NeighborConvolution(8, 6, "max"), plain),
    "IsomorphismConvolution": (lambda: L.IsomorphismConvolution(8, 6), plain),
    "GraphAttention": (lambda: L.GraphAttention(8, 6, 2, score="gatv2"), plain),
    "GatedGraphAttention": (lambda: L.GatedGraphAttention(8, num_heads=2), plain),
    "GraphGRU": (lambda: L.GraphGRU(8, 3, 2), plain),
    "GraphGRU, with a state": (
        lambda: L.GraphGRU(8, 3, 2),
        lambda layer, x, places, edges: layer(x, edges, places),  # three numbers a node, as good as any
    ),
    "MoleculeAttention": (
        lambda: L.MoleculeAttention(8, 2, bond_aggregation="mean"),
        lambda layer, x, places, edges: layer(x, places, edges, edges),
    ),
    "MoleculeAttention, exponential": (
        lambda: L.MoleculeAttention(8, 2, kernel="exponential"),
        lambda layer, x, places, edges: layer(x, places, edges, edges),
    ),
    "EquivariantLayer": (
        lambda: L.EquivariantLayer(8), lambda layer, x, places, edges: torch.cat(layer(x, places, edges)[:2], -1),
    ),
    "EquivariantLayer, moving": (
        lambda: L.EquivariantLayer(8, edge_dim=1, **MOVING),
        lambda layer, x, places, edges: torch.cat(
            layer(
                x, places, edges, edge_features=torch.arange(5.0).double()[:, None],
                velocities=places[1] + 1 if isinstance(places, tuple) else places + 1,
            ), -1
        ),
    ),
    "PairForce": (lambda: L.PairForce(8), lambda layer, x, places, edges: layer(places, edges, OF_EDGE + 1.0)),
    "GraphNetwork": (
        lambda: L.GraphNetwork(L.EdgeUpdate(8, 0, 0, 4, num_heads=2), L.NodeUpdate(8, 4, 0, 6)),
        lambda layer, x, places, edges: layer(x, edges).nodes,
    ),
    "RelationalConvolution": (
        lambda: L.RelationalConvolution(8, 6, 2),
        lambda layer, x, places, edges: layer(x, relations(edges, (5, 3) if isinstance(x, tuple) else 8)),
    ),
    "RelationalAttention": (
        lambda: L.RelationalAttention(8, 2, 2, 2),
        lambda layer, x, places, edges: layer(x, types_of(x), relations(edges, (5, 3) if isinstance(x, tuple) else 8)),
    ),
}  # fmt: skip
ONE_SET = {
    "HopAttention": (lambda: L.HopAttention(8), "use GraphAttention or a convolution, which take pairs"),
    "DirectedMessages": (lambda: L.DirectedMessages(8, 0, 6), "use NeighborConvolution, which takes pairs"),
    "EdgeAttention": (lambda: L.EdgeAttention(8, 0, 8), "use NeighborConvolution, which takes pairs"),
    "ResidualBlock": (lambda: L.ResidualBlock(L.MultiHeadAttention(8, 2), 8), "pass the targets, and source="),
}
NO_NEIGHBORHOOD = {
    "ALiBi", "Bodies", "Cache", "EdgeUpdate", "GlobalUpdate", "GraphFeatures", "GraphPosition", "LearnedGlobals",
    "LearnedPosition", "NodeStatistics", "NodeUpdate", "PairPosition", "Readout", "RecurrentDecoder",
    "RecurrentEncoder", "RotaryPosition", "ShawPosition", "SinusoidalPosition", "T5Position", "TypedLinear",
}  # fmt: skip
"""These have no edges from nodes to nodes; the updates are parts of GraphNetwork."""


def test_every_layer_takes_a_pair_or_says_why_not():
    named = {name.partition(",")[0] for name in PAIRS} | ONE_SET.keys() | NO_NEIGHBORHOOD
    assert named == set(L.__all__)


@pytest.mark.parametrize("name", PAIRS)
def test_sources_and_targets(name):
    """Edges from five sources to three targets are edges among eight nodes, of which only targets receive."""
    make, call = PAIRS[name]
    layer = ready(make())
    parts = [part.requires_grad_() for part in (normal(5, 8), normal(3, 8) + 1, normal(5, 3), normal(3, 3) + 1)]
    source, target, from_places, places = parts
    found = call(layer, (source, target), (from_places, places), PAIR_INDEX)
    if name == "SymmetricConvolution":  # sources are divided by the edges they send, which nodes of one set are not
        scale = torch.tensor([1, 1, 1, 1, 2])[PAIR_INDEX[0]] * torch.tensor([2, 3, 1])[PAIR_INDEX[1]]
        dense = torch.zeros(3, 5).double().index_put(tuple(PAIR_INDEX.flip(0)), scale.double().rsqrt(), accumulate=True)
        expected = torch.relu(dense @ layer.linear(source))
    else:
        joined = PAIR_INDEX + torch.tensor([[0], [5]])
        expected = call(layer, torch.cat([source, target]), torch.cat([from_places, places]), joined)[5:]
    torch.testing.assert_close(found, expected)
    upstream, weights = normal(*found.shape), [*parts, *layer.parameters()]
    one, other = (
        torch.autograd.grad(out, weights, upstream, allow_unused=True, materialize_grads=True)
        for out in (found, expected)
    )
    assert any(gradient.any() for gradient in one[:4])
    for ours, theirs in zip(one, other, strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("name", ONE_SET)
def test_what_has_no_meaning_for_a_pair_says_so(name):
    make, remedy = ONE_SET[name]
    with pytest.raises(UnsupportedError, match=rf"^{name}: nodes are a pair \(source, target\), but .*{remedy}"):
        make()((drawn(5, 8), drawn(3, 8)), PAIR_INDEX)


@pytest.mark.usefixtures("shapes_unchecked")
def test_what_stands_beside_a_pair_is_a_pair():
    pair, places = (drawn(5, 8), drawn(3, 8)), (drawn(5, 3), drawn(3, 3))
    cases = {
        "GraphGRU: expected state to be a pair": lambda: L.GraphGRU(8, 3, 2)(pair, PAIR_INDEX, places[1]),
        "GraphGRU: expected state to be one, not a pair": lambda: L.GraphGRU(8, 3, 2)(pair[0], PAIR_INDEX, places),
        "MoleculeAttention: expected coordinates to be a pair (source, target), as nodes are": lambda: (
            L.MoleculeAttention(8, 2)(pair, places[0], PAIR_INDEX)
        ),
        "EquivariantLayer: axis 'node' is 3 in nodes but 2 in coordinates": lambda: L.EquivariantLayer(8)(
            pair, (places[0], places[1][:2]), PAIR_INDEX
        ),
        "PairForce: expected coordinates to be a pair": lambda: L.PairForce(8)((*places, places), INDEX, OF_EDGE),
    }
    for message, call in cases.items():
        with pytest.raises(ShapeError, match=re.escape(message)):
            call()


@pytest.mark.usefixtures("shapes_unchecked")
def test_pairs_and_features_of_edges_that_do_not_fit():
    x, short = drawn(5, 8), torch.ones(3)
    layer = L.GraphAttention(8, 6, 2, edge_dim=3)
    cases = {
        "GraphAttention: nodes are a tuple of 3, expected (source, target)": lambda: layer((x, x, x), INDEX),
        "GraphAttention: axis 'feature' is 7 in target, but": lambda: layer((x, x[:, :7]), INDEX),
        "expected edge features (*batch, 4, 3), not none": lambda: layer(x, INDEX),
        "expected edge features (*batch, 4, 0), not (4, 3)": lambda: L.IsomorphismConvolution(8, 6)(
            x, INDEX, torch.ones(4, 3)
        ),
        "SymmetricConvolution: axis 'edge' is 3 in edge_weight but 4": lambda: L.SymmetricConvolution(8, 6)(
            x, INDEX, short
        ),
        "NeighborConvolution: axis 'edge' is 3 in edge_weight but 4": lambda: L.NeighborConvolution(8, 6)(
            x, INDEX, short
        ),
    }
    for message, call in cases.items():
        with pytest.raises(ShapeError, match=re.escape(message)):
            call()
    with pytest.raises(SettingError, match="share_weights is for gatv2 with one input_dim"):
        L.GraphAttention(8, 6, share_weights=True)
    with pytest.raises(SettingError, match="hidden_dim is that of its own network"):
        L.IsomorphismConvolution(8, 6, 5, network=torch.nn.Identity())


TABLES = {name: EVERY[name] for name in EVERY if "Convolution" not in name}
TABLES |= {
    "RelationalConvolution": OTHERS["RelationalConvolution"],
    "key": (lambda: L.MultiHeadAttention(8, 2), lambda layer, x: layer(drawn(5, 8), x)),
    "unprojected": (lambda: L.MultiHeadAttention(8, 2, project=False), lambda layer, x: layer(x)),
    "source": (lambda: L.GatedGraphAttention(8, num_heads=2), lambda layer, x: layer(drawn(5, 8), EDGES, source=x)),
    "sum": (lambda: L.Readout(8, "sum"), lambda layer, x: layer(x, OFFSETS)),
    "NodeStatistics": (lambda: L.NodeStatistics(8), lambda layer, x: layer(x, OFFSETS)),
    "LearnedGlobals": (lambda: L.LearnedGlobals(8), lambda layer, x: layer(x, OFFSETS)),
}
for other in ("GraphAttention", "TypedLinear", "RecurrentEncoder"):  # two read them, and one is given one graph more
    del TABLES[other]


@pytest.mark.parametrize("name", TABLES)
def test_layers_of_tables_refuse_sparse_features(name, shapes_unchecked):
    make, call = TABLES[name]
    features = SparseFeatures(Edges(torch.tensor([0, 7]), torch.tensor([1, 4]), 8, 5), torch.ones(2))
    with pytest.raises(UnsupportedError, match=r"\w+: \w+ came as sparse features, but the layer reads tables"):
        call(make(), features)


def test_statistics_are_those_of_nodes_of_their_size(shapes_unchecked):
    with pytest.raises(ShapeError, match="axis 'feature' is 8 in nodes, but the layer was made for 7"):
        L.NodeStatistics(7)(drawn(5, 8), OFFSETS)
