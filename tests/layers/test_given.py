"""What layers are handed: an edge_index is a list of edges; what does not fit is refused by the layer, in its words."""

import re

import pytest
import torch

import edgewise.layers as L
from edgewise import Edges, EdgewiseError, Full, Mask, SettingError, ShapeError
from edgewise.neighborhood import Relations, Types

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


def test_an_edge_index_with_features_of_edges_and_bodies():
    x, edge = drawn(5, 8), drawn(4, 3)
    attention, bodies, force = L.MultiHeadAttention(8, 2, edge_dim=3), L.EquivariantLayer(8, edge_dim=3), L.PairForce(8)
    for one, other in (
        (attention(x, neighborhood=INDEX, edge=edge), attention(x, neighborhood=EDGES, edge=edge)),
        (bodies(x, PLACES, INDEX, edge=edge).coordinates, bodies(x, PLACES, EDGES, edge=edge).coordinates),
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


PAIRS = {
    "MeanConvolution": lambda: L.MeanConvolution(8, 6),
    "SymmetricConvolution": lambda: L.SymmetricConvolution(8, 6, has_loops=False),
    "NeighborConvolution": lambda: L.NeighborConvolution(8, 6, "max"),
    "IsomorphismConvolution": lambda: L.IsomorphismConvolution(8, 6),
    "GraphAttention": lambda: L.GraphAttention(8, 6, 2, score="gatv2"),
    "GatedGraphAttention": lambda: L.GatedGraphAttention(8, num_heads=2),
}


@pytest.mark.parametrize("name", [*PAIRS, "RelationalConvolution", "RelationalAttention"])
def test_sources_and_targets(name):
    """Edges from five sources to three targets are edges among eight nodes, of which only targets receive."""
    source, target, index = drawn(5, 8), drawn(3, 8) + 1, torch.tensor([[0, 4, 4, 2, 1], [0, 0, 1, 1, 1]])
    joined, both = index + torch.tensor([[0], [5]]), torch.cat([source, target])
    if name in PAIRS:
        layer = PAIRS[name]()
        found, expected = layer((source, target), index), layer(both, joined)[5:]
    else:
        of_edge = torch.tensor([0, 1, 0, 0, 1])
        apart = Relations(Edges.from_edge_index(index, (5, 3)), of_edge, 2)
        among = Relations(Edges.from_edge_index(joined, 8), of_edge, 2)
        kinds = Types(torch.tensor([0, 1, 1, 0, 1, 0, 0, 1]), 2)
        if name == "RelationalConvolution":
            layer = L.RelationalConvolution(8, 6, 2)
            found, expected = layer((source, target), apart), layer(both, among)[5:]
        else:
            layer = L.RelationalAttention(8, 2, 2, 2)
            sides = kinds[torch.arange(5)], kinds[torch.arange(5, 8)]
            found, expected = layer((source, target), sides, apart), layer(both, kinds, among)[5:]
    if name == "SymmetricConvolution":  # sources are divided by the edges they send, which nodes of one set are not
        scale = torch.tensor([1, 1, 1, 1, 2])[index[0]] * torch.tensor([2, 3, 1])[index[1]]
        dense = torch.zeros(3, 5).index_put((index[1], index[0]), scale.rsqrt(), accumulate=True)
        expected = torch.relu(dense @ layer.linear(source))
    torch.testing.assert_close(found, expected)


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
