"""Every public layer once more, with how it is called: what must hold of all of them is tested over this list."""

from collections.abc import Callable
from typing import Any, NamedTuple

import torch

import edgewise.layers as L
from edgewise import Edges, Softmax
from edgewise.neighborhood import Relations, Types

NODES, DIM, HEADS = 5, 8, 2
EDGES = Edges(torch.tensor([0, 1, 2, 4, 3, 1]), torch.tensor([1, 1, 0, 3, 2, 4]), NODES, NODES)
OF_EDGE = torch.tensor([0, 1, 0, 0, 1, 1])
GIVEN_PLACES = torch.tensor([3, 2, 4, 0, 8])
OFFSETS = torch.tensor([0, 2, 5])


class Case(NamedTuple):
    """A layer and a call of it; `call(layer, nodes, neighborhood)` gives one tensor."""

    make: Callable[[], torch.nn.Module]
    call: Callable[[Any, torch.Tensor, Any], torch.Tensor]
    takes: str = ""
    """What neighborhood: "heads", one that may vary over heads; "nodes", over the batch axes of nodes; "edges", one for
    all; "" for none of these, and the call has its own."""


def places(x):
    return (
        (torch.arange(3.0 * NODES, device="cpu").view(NODES, 3).sin() + torch.eye(NODES, 3, device="cpu"))
        .to(x)
        .expand(*x.shape[:-1], 3)
    )


def of_edges(x, size):
    return torch.arange(1.0 * EDGES.num_edges * size, device="cpu").view(EDGES.num_edges, size).cos().to(x)


def plain(layer, x, neighborhood):
    return layer(x, neighborhood)


def attention(layer, x, neighborhood):
    return layer(x, neighborhood=neighborhood)


def positioned(position):
    return Case(lambda: L.MultiHeadAttention(DIM, HEADS, position=position()), attention)


def relations():
    return Relations(EDGES, OF_EDGE, 2)


def types():
    return Types(torch.tensor([0, 1, 0, 1, 0], device="cpu"), 2)


def three(x):
    """x as a batch of sequences, as recurrent layers want it."""
    return x if x.dim() == 3 else x[None]


CASES = {
    "MultiHeadAttention": Case(lambda: L.MultiHeadAttention(DIM, HEADS), attention, "heads"),
    "MultiHeadAttention, cross": Case(
        lambda: L.MultiHeadAttention(DIM, HEADS),
        lambda layer, x, neighborhood: layer(x, 2 * x, 3 * x, neighborhood=neighborhood), "heads",
    ),
    "MultiHeadAttention, shared keys": Case(
        lambda: L.MultiHeadAttention(DIM, 2 * HEADS, num_key_heads=HEADS), attention, ""
    ),
    "MultiHeadAttention, edges": Case(
        lambda: L.MultiHeadAttention(DIM, HEADS, edge_dim=3),
        lambda layer, x, neighborhood: layer(x, neighborhood=EDGES, edge_features=of_edges(x, 3)),
    ),
    "ResidualBlock": Case(lambda: L.ResidualBlock(L.MultiHeadAttention(DIM, HEADS), DIM), plain, "heads"),
    "ResidualBlock, source": Case(
        lambda: L.ResidualBlock(
            L.MultiHeadAttention(DIM, HEADS), DIM, cross_attention=L.MultiHeadAttention(DIM, HEADS)
        ),
        lambda layer, x, neighborhood: layer(x, source=x, source_neighborhood=neighborhood), "heads",
    ),
    "GraphAttention": Case(lambda: L.GraphAttention(DIM, 6, HEADS), plain, "heads"),
    "GraphAttention, gatv2": Case(lambda: L.GraphAttention(DIM, 6, HEADS, score="gatv2"), plain, "heads"),
    "GraphAttention, edges": Case(
        lambda: L.GraphAttention((DIM, DIM), 6, HEADS, edge_dim=3, residual=True),
        lambda layer, x, neighborhood: layer((x, x), EDGES, of_edges(x, 3)),
    ),
    "GatedGraphAttention": Case(lambda: L.GatedGraphAttention(DIM, num_heads=HEADS), plain, "heads"),
    "GraphGRU": Case(lambda: L.GraphGRU(DIM, 4, HEADS), plain, "heads"),
    "MoleculeAttention": Case(
        lambda: L.MoleculeAttention(DIM, HEADS),
        lambda layer, x, neighborhood: layer(x, places(x), EDGES, neighborhood), "heads",
    ),
    "MoleculeAttention, bonds": Case(
        lambda: L.MoleculeAttention(DIM, HEADS), lambda layer, x, neighborhood: layer(x, places(x), neighborhood),
        "heads",
    ),
    "MeanConvolution": Case(lambda: L.MeanConvolution(DIM, 6), plain, "nodes"),
    "NeighborConvolution": Case(lambda: L.NeighborConvolution(DIM, 6), plain, "nodes"),
    "NeighborConvolution, max": Case(lambda: L.NeighborConvolution(DIM, 6, "max"), plain, "nodes"),
    "IsomorphismConvolution": Case(lambda: L.IsomorphismConvolution(DIM, 6), plain, "nodes"),
    "IsomorphismConvolution, edges": Case(
        lambda: L.IsomorphismConvolution(DIM, 6, edge_dim=3),
        lambda layer, x, neighborhood: layer(x, EDGES, of_edges(x, 3)),
    ),
    "SymmetricConvolution": Case(lambda: L.SymmetricConvolution(DIM, 6), plain, "edges"),
    "DirectedMessages": Case(lambda: L.DirectedMessages(DIM, 0, 6), plain, "edges"),
    "DirectedMessages, edges": Case(
        lambda: L.DirectedMessages(DIM, 3, 6), lambda layer, x, neighborhood: layer(x, EDGES, of_edges(x, 3))
    ),
    "EdgeAttention": Case(lambda: L.EdgeAttention(DIM, 0, 6, num_heads=2), plain, "edges"),
    "EdgeAttention, edges": Case(
        lambda: L.EdgeAttention(DIM, 3, 6, num_heads=3, normalize=Softmax()),
        lambda layer, x, neighborhood: layer(x, EDGES, of_edges(x, 3)),
    ),
    "HopAttention": Case(lambda: L.HopAttention(DIM, 2), plain, "edges"),
    "EquivariantLayer": Case(
        lambda: L.EquivariantLayer(DIM, normalize=Softmax()),
        lambda layer, x, neighborhood: torch.cat(layer(x, places(x), neighborhood)[:2], -1), "edges",
    ),
    "EquivariantLayer, moving": Case(
        lambda: L.EquivariantLayer(DIM, edge_dim=3, has_velocities=True),
        lambda layer, x, neighborhood: torch.cat(
            layer(x, places(x), EDGES, velocities=places(x), edge_features=of_edges(x, 3))[:2], -1
        ),
    ),
    "PairForce": Case(
        lambda: L.PairForce(DIM), lambda layer, x, neighborhood: layer(x, EDGES, of_edges(x, 1)[:, 0])
    ),
    "GraphNetwork": Case(
        lambda: L.GraphNetwork(
            L.EdgeUpdate(DIM, 3, 4, 6, num_heads=HEADS), L.NodeUpdate(DIM, 6, 4, 6, aggregation="attention"),
            L.GlobalUpdate(6, 6, 4, 6, node_aggregation="attention"), global_source=L.LearnedGlobals(4),
        ),
        lambda layer, x, neighborhood: layer(x, EDGES, of_edges(x, 3), offsets=OFFSETS).global_features,
    ),
    "GraphNetwork, statistics": Case(
        lambda: L.GraphNetwork(
            L.EdgeUpdate(DIM, 0, 1 + 4 * DIM, 4), L.NodeUpdate(DIM, 4, 0, 6),
            global_source=L.NodeStatistics(DIM),
        ),
        lambda layer, x, neighborhood: layer(x, neighborhood, offsets=OFFSETS).nodes, "edges",
    ),
    "RelationalConvolution": Case(
        lambda: L.RelationalConvolution(DIM, 6, 2), lambda layer, x, neighborhood: layer(x, relations())
    ),
    "RelationalAttention": Case(
        lambda: L.RelationalAttention(DIM, HEADS, 2, 2),
        lambda layer, x, neighborhood: layer(x, types(), relations()),
    ),
    "TypedLinear": Case(lambda: L.TypedLinear([DIM, 3], 4), lambda layer, x, neighborhood: layer(x, types())),
    "Readout": Case(lambda: L.Readout(DIM, num_heads=HEADS), lambda layer, x, neighborhood: layer(x, OFFSETS)),
    "GraphPosition": Case(
        lambda: L.GraphPosition(DIM, 2, 1),
        lambda layer, x, neighborhood: layer(x, places(x.flatten(0, -3)[0] if x.dim() > 2 else x), OFFSETS),
    ),
    "SinusoidalPosition": Case(lambda: L.SinusoidalPosition(DIM), lambda layer, x, neighborhood: layer(x)),
    "LearnedPosition": Case(lambda: L.LearnedPosition(9, DIM), lambda layer, x, neighborhood: layer(x)),
    "LearnedPosition, given": Case(
        lambda: L.LearnedPosition(9, DIM), lambda layer, x, neighborhood: layer(x, GIVEN_PLACES)
    ),
    "ALiBi": positioned(lambda: L.ALiBi(HEADS)),
    "RotaryPosition": positioned(lambda: L.RotaryPosition(DIM // HEADS)),
    "ShawPosition": positioned(lambda: L.ShawPosition(DIM // HEADS, max_distance=3)),
    "T5Position": positioned(lambda: L.T5Position(HEADS)),
    "RecurrentEncoder": Case(
        lambda: L.RecurrentEncoder(DIM, DIM), lambda layer, x, neighborhood: layer(three(x)),
    ),
    "RecurrentEncoder, lengths": Case(
        lambda: L.RecurrentEncoder(DIM, DIM, cell="gru"),
        lambda layer, x, neighborhood: layer(three(x), torch.arange(len(three(x)), device="cpu") + 3),
    ),
    **{
        f"RecurrentDecoder, {name}": Case(
            lambda options=options: L.RecurrentDecoder(DIM, 6, DIM, **options),
            lambda layer, x, neighborhood: layer(three(x), three(x), torch.arange(len(three(x)), device="cpu") + 3),
        )
        for name, options in {
            "bahdanau": {"cell": "gru", "score": "bahdanau"},
            "general": {"cell": "lstm"},
            "concat": {"cell": "rnn", "score": "concat", "input_feeding": False},
            "predictive": {"cell": "lstm", "local": "predictive", "window": 3},
        }.items()
    },
}  # fmt: skip
NO_LAYERS = {"Bodies", "Cache", "GraphFeatures", "PairPosition"}
"""Records, and a class that is inherited from."""
PARTS = {"EdgeUpdate", "GlobalUpdate", "LearnedGlobals", "NodeStatistics", "NodeUpdate"}
"""Layers that stand within `GraphNetwork`."""


def ready(name, dtype=torch.float64):
    """The layer, every parameter drawn anew, so that none is 0 and each matters."""
    torch.manual_seed(0)
    layer = CASES[name].make()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return layer.to(dtype).eval()


def drawn(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype, generator=torch.Generator("cpu").manual_seed(0), device="cpu")
