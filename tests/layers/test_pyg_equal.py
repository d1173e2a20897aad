"""What equals each layer of PyTorch Geometric: the same outputs and gradients with the same weights.

The table in docs/layers.md lists these cases.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import pytest
import torch
import torch_geometric.nn as pyg
from torch import nn
from torch_geometric.data import HeteroData
from torch_geometric.nn.aggr import AttentionalAggregation
from torch_geometric.utils import scatter

from edgewise import Edges, Graph, SettingError, aggregate, layers
from edgewise.neighborhood import Relations

SAME = nn.Identity()
TINY = torch.tensor([[0, 1, 2, 3], [0, 0, 1, 1]])
"""The edges of PyTorch Geometric's own tests, from four sources to two targets or among four nodes."""


def mlp(input_dim, output_dim=7):
    return nn.Sequential(nn.Linear(input_dim, 6), nn.Tanh(), nn.Linear(6, output_dim))


def named(module, name):
    return dict(module.named_parameters())[name]


@dataclass
class Case:
    """One layer of theirs and what equals it."""

    theirs: Callable
    """Makes their layer for two sizes of nodes, or one number where they are the same set."""
    ours: Callable
    """Makes ours."""
    names: dict = field(default_factory=dict)
    """A parameter of theirs: that of ours which holds the same numbers, perhaps a part of it, in another shape."""
    kinds: tuple = ("same", "pair")
    """Among nodes of one set, or from sources to targets."""
    edge_dim: int = 0
    """How many features of edges, 1 for a weight; 0 for none."""
    is_same_size: bool = False
    """Whether sources and targets have features of one size."""
    call: Callable = lambda layer, x, index, *edge: layer(x, index, *edge)
    """How the layer of PyTorch Geometric is called."""
    ours_call: Callable = lambda layer, x, index, *edge: layer(x, index, *edge)
    """How our layer is called."""
    has_loops: bool = False
    """Whether the random graphs have loops."""
    size: int = 5
    """How many features nodes have; targets of a pair, 3."""


def part(start, stop):
    return lambda x: x[start:stop]


def heads(x):
    """Theirs hold (1, head, dim)."""
    return x.unsqueeze(0)


def gat(score, combine, **options):
    """Our GraphAttention: 2 heads of 4."""
    return lambda dims: layers.GraphAttention(
        dims, 8 if combine == "concatenate" else 4, 2, score=score, combine=combine, **options
    )


def theirs_gat(kind, **options):
    return lambda dims: kind(dims, 4, heads=2, add_self_loops=False, **options)


class Transformer(nn.Module):
    """Our attention and a linear layer of the node itself; one matrix makes the keys and the values of edges."""

    def __init__(self, dims, combine, edge_dim=0):
        super().__init__()
        source, target = dims if isinstance(dims, tuple) else (dims, dims)
        self.attention = layers.MultiHeadAttention(
            target, 2, key_dim=4, value_dim=4, source_dim=source, edge_dim=edge_dim or None, combine=combine
        )
        self.skip = nn.Linear(target, 8 if combine == "concatenate" else 4)
        self.edge = nn.Linear(edge_dim, 8, bias=False) if edge_dim else None

    def forward(self, x, index, edge=None):
        source, target = x if isinstance(x, tuple) else (x, x)
        given = {}
        if self.edge is not None:
            weight = self.edge.weight
            given["edge.weight"] = torch.cat([weight, weight, weight.new_zeros(2, weight.shape[1])])
        if self.attention.combine == "concatenate":
            given |= {"output.weight": torch.eye(8).to(target), "output.bias": target.new_zeros(8)}
        call = {"key": source, "neighborhood": index, "edge_features": edge}
        return torch.func.functional_call(self.attention, given, (target,), call) + self.skip(target)


TRANSFORMER = {
    f"lin_{theirs}.{part}": (f"{ours}.{part}", None)
    for theirs, ours in {
        "query": "attention.query", "key": "attention.key", "value": "attention.value", "skip": "skip"
    }.items()
    for part in ("weight", "bias")
}  # fmt: skip
LIN = {"lin.weight": ("linear.weight", None)}
GAT = {"att_src": ("key_vector", heads), "att_dst": ("vector", heads), "bias": ("bias", None)}
GAT_PAIR = {"lin_src.weight": ("linear.weight", None), "lin_dst.weight": ("target.weight", None), **GAT}
GAT_EDGE = {"lin_edge.weight": ("edge.weight", None), "att_edge": ("edge_vector", heads)}
V2 = {
    "lin_r.weight": ("linear.weight", part(0, 8)), "lin_l.weight": ("linear.weight", part(8, 16)),
    "lin_r.bias": ("linear.bias", part(0, 8)), "lin_l.bias": ("linear.bias", part(8, 16)),
    "att": ("vector", heads), "bias": ("bias", None),
}  # fmt: skip
V2_PAIR = {
    "lin_l.weight": ("linear.weight", None), "lin_r.weight": ("target.weight", None),
    "lin_l.bias": ("linear.bias", None), "lin_r.bias": ("target.bias", None),
    "att": ("vector", heads), "bias": ("bias", None),
}  # fmt: skip
SAGE = {
    "lin_l.weight": ("neighbors.weight", None),
    "lin_l.bias": ("bias", None),
    "lin_r.weight": ("itself.weight", None),
}
CONV = {
    "lin_rel.weight": ("neighbors.weight", None),
    "lin_rel.bias": ("bias", None),
    "lin_root.weight": ("itself.weight", None),
}
NETWORK = {f"nn.{name}": (f"network.{name}", None) for name in ("0.weight", "0.bias", "2.weight", "2.bias")}


def sage(how, **options):
    return lambda dims: layers.NeighborConvolution(dims, 7, how, project=False, bias=True, activation=SAME, **options)


CASES = {
    "GCNConv": Case(
        lambda dims: pyg.GCNConv(dims, 7),
        lambda dims: layers.SymmetricConvolution(dims, 7, SAME, bias=True),
        {"lin.weight": ("linear.weight", None), "bias": ("bias", None)}, ("same",),
    ),
    "GCNConv, edge weights": Case(
        lambda dims: pyg.GCNConv(dims, 7),
        lambda dims: layers.SymmetricConvolution(dims, 7, SAME, bias=True),
        {"lin.weight": ("linear.weight", None), "bias": ("bias", None)}, ("same",), 1,
    ),
    "GCNConv, no loops added": Case(
        lambda dims: pyg.GCNConv(dims, 7, add_self_loops=False, bias=False),
        lambda dims: layers.SymmetricConvolution(dims, 7, SAME, add_self_loops=False),
        {"lin.weight": ("linear.weight", None)}, ("same",), 1, has_loops=True,
    ),
    **{
        f"SAGEConv, {how}": Case(
            lambda dims, how=how: pyg.SAGEConv(dims, 7, aggr=how), sage(how), SAGE, has_loops=True
        )
        for how in ("mean", "sum", "max", "min")
    },
    "SAGEConv, normalize": Case(lambda dims: pyg.SAGEConv(dims, 7, normalize=True), sage("mean", normalize=True), SAGE),
    "SAGEConv, project": Case(
        lambda dims: pyg.SAGEConv(dims, 7, aggr="max", project=True),
        lambda dims: layers.NeighborConvolution(
            dims, 7, "max", pool_dim=dims[0] if isinstance(dims, tuple) else dims, bias=True, activation=SAME
        ),
        SAGE | {"lin.weight": ("pool.weight", None), "lin.bias": ("pool.bias", None)},
    ),
    "SAGEConv, no root": Case(
        lambda dims: pyg.SAGEConv(dims, 7, root_weight=False), sage("mean", root_weight=False),
        {name: own for name, own in SAGE.items() if name != "lin_r.weight"},
    ),
    **{
        f"GraphConv, {how}": Case(
            lambda dims, how=how: pyg.GraphConv(dims, 7, aggr=how), sage(how), CONV, edge_dim=1
        )
        for how in ("sum", "mean", "max")
    },
    "GINConv": Case(
        lambda dims: pyg.GINConv(mlp(dims), eps=0.3, train_eps=True),
        lambda dims: layers.IsomorphismConvolution(dims, 7, network=mlp(dims), epsilon=0.3),
        NETWORK | {"eps": ("epsilon", lambda x: x.reshape(1))}, is_same_size=True, has_loops=True,
    ),
    "GINConv, its own network": Case(
        lambda dims: pyg.GINConv(nn.Sequential(nn.Linear(dims, 6), nn.ReLU(), nn.Linear(6, 7)), train_eps=True),
        lambda dims: layers.IsomorphismConvolution(dims, 7, 6),
        {
            "nn.0.weight": ("first.weight", None), "nn.0.bias": ("bias", None), "nn.2.weight": ("second.weight", None),
            "nn.2.bias": ("second.bias", None), "eps": ("epsilon", lambda x: x.reshape(1)),
        },
        is_same_size=True,
    ),
    "GINEConv": Case(
        lambda dims: pyg.GINEConv(mlp(dims), edge_dim=3),
        lambda dims: layers.IsomorphismConvolution(dims, 7, network=mlp(dims), edge_dim=3, learn_epsilon=False),
        NETWORK | {"lin.weight": ("edge.weight", None), "lin.bias": ("edge.bias", None)}, edge_dim=3, is_same_size=True,
    ),
    **{
        f"GATConv, {combine}": Case(
            theirs_gat(pyg.GATConv, concat=combine == "concatenate"), gat("gat", combine), LIN | GAT, ("same", "pair"),
            is_same_size=True, has_loops=True,
        )
        for combine in ("concatenate", "mean")
    },
    "GATConv, two sizes": Case(theirs_gat(pyg.GATConv), gat("gat", "concatenate"), GAT_PAIR, ("pair",)),
    "GATConv, edge features": Case(
        theirs_gat(pyg.GATConv, edge_dim=3), gat("gat", "concatenate", edge_dim=3), LIN | GAT | GAT_EDGE, ("same",), 3
    ),
    "GATConv, edge features, two sizes": Case(
        theirs_gat(pyg.GATConv, edge_dim=3), gat("gat", "concatenate", edge_dim=3), GAT_PAIR | GAT_EDGE, ("pair",), 3
    ),
    "GATConv, residual": Case(
        theirs_gat(pyg.GATConv, residual=True, negative_slope=0.1),
        gat("gat", "concatenate", residual=True, negative_slope=0.1),
        LIN | GAT | {"res.weight": ("residual.weight", None)}, ("same",),
    ),
    **{
        f"GATv2Conv, {combine}": Case(
            theirs_gat(pyg.GATv2Conv, concat=combine == "concatenate"), gat("gatv2", combine, projection_bias=True), V2,
            is_same_size=True, has_loops=True,
        )
        for combine in ("concatenate", "mean")
    },
    "GATv2Conv, two sizes": Case(
        theirs_gat(pyg.GATv2Conv, edge_dim=3, residual=True),
        gat("gatv2", "concatenate", projection_bias=True, edge_dim=3, residual=True),
        V2_PAIR | {"lin_edge.weight": ("edge.weight", None), "res.weight": ("residual.weight", None)}, ("pair",), 3,
    ),
    "GATv2Conv, edge features": Case(
        theirs_gat(pyg.GATv2Conv, edge_dim=3), gat("gatv2", "concatenate", projection_bias=True, edge_dim=3),
        V2 | {"lin_edge.weight": ("edge.weight", None)}, ("same",), 3,
    ),
    "GATv2Conv, shared weights": Case(
        theirs_gat(pyg.GATv2Conv, share_weights=True, bias=False),
        gat("gatv2", "concatenate", share_weights=True, bias=False),
        {"lin_l.weight": ("linear.weight", None), "att": ("vector", heads)}, ("same",),
    ),
    "TransformerConv, mean": Case(
        lambda dims: pyg.TransformerConv(dims, 4, heads=2, concat=False), lambda dims: Transformer(dims, "mean"),
        TRANSFORMER, has_loops=True,
    ),
    "TransformerConv, edge features": Case(
        lambda dims: pyg.TransformerConv(dims, 4, heads=2, concat=False, edge_dim=3),
        lambda dims: Transformer(dims, "mean", 3), TRANSFORMER | {"lin_edge.weight": ("edge.weight", None)}, edge_dim=3,
    ),
    "TransformerConv, concatenate": Case(
        lambda dims: pyg.TransformerConv(dims, 4, heads=2, edge_dim=3),
        lambda dims: Transformer(dims, "concatenate", 3),
        TRANSFORMER | {"lin_edge.weight": ("edge.weight", None)}, ("same",), 3, size=8,
    ),
    **{
        f"RGCNConv, {num_bases} bases": Case(
            lambda dims, num_bases=num_bases: pyg.RGCNConv(dims, 7, 3, num_bases=num_bases),
            lambda dims, num_bases=num_bases: layers.RelationalConvolution(
                dims, 7, 3, num_bases=num_bases, bias=True, activation=SAME
            ),
            {
                "weight": ("weight", None), "comp": ("shares", None), "bias": ("bias", None),
                "root": ("itself.weight", lambda x: x.T),
            },
            call=lambda layer, x, index: layer(x, index, index.sum(0) % 3),
            ours_call=lambda layer, x, index: layer(
                x, Relations(Edges.from_edge_index(index, sizes_of(x)), index.sum(0) % 3, 3)
            ),
            has_loops=True,
        )
        for num_bases in (None, 2)
    },
    "SimpleConv": Case(
        lambda dims: pyg.SimpleConv(aggr="mean"), lambda dims: SAME,
        ours_call=lambda _, x, index: aggregate(
            x[0] if isinstance(x, tuple) else x, index, "mean", num_queries=2 if isinstance(x, tuple) else None
        ),
        kinds=("same",), has_loops=True,
    ),
}  # fmt: skip


def sizes_of(x):
    return (len(x[0]), len(x[1])) if isinstance(x, tuple) else len(x)


def drawn(*shape, dtype):
    return torch.randn(*shape, dtype=dtype)


def random_index(num_sources, num_targets, num_edges, has_loops):
    index = torch.stack([torch.randint(0, num_sources, (num_edges,)), torch.randint(0, num_targets, (num_edges,))])
    return index if has_loops else index[:, index[0] != index[1]]


def same_weights(theirs, ours, names):
    """Draw the numbers of ours and copy them into theirs; pairs of parameters, to compare gradients."""
    pairs = []
    with torch.no_grad():
        for parameter in ours.parameters():
            parameter.normal_(std=0.5)
        for name, parameter in theirs.named_parameters():
            own, read = names[name]
            read = (lambda x: x) if read is None else read
            parameter.copy_(read(named(ours, own)))
            pairs.append((parameter, named(ours, own), read))
    return pairs


def check_equal(theirs, ours, inputs, pairs, dtype):
    """Outputs and gradients of inputs and weights are the same."""
    bound = 1e-5 if dtype == torch.float32 else 1e-10
    same = partial(torch.testing.assert_close, rtol=bound, atol=bound)
    expected, found = theirs(), ours()
    same(found, expected)
    upstream = torch.randn_like(expected)
    one = torch.autograd.grad(expected, [*inputs, *(p for p, _, _ in pairs)], upstream, allow_unused=True)
    other = torch.autograd.grad(found, [*inputs, *(p for _, p, _ in pairs)], upstream, allow_unused=True)
    reads = [lambda x: x] * len(inputs) + [read for _, _, read in pairs]
    for gradient, own, read in zip(one, other, reads, strict=True):
        if gradient is None or own is None:
            assert all(part is None or not part.any() for part in (gradient, own))
        else:
            same(read(own), gradient)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["float32", "float64"])
@pytest.mark.parametrize("name", CASES)
def test_it_equals_pyg(name, dtype):
    case = CASES[name]
    torch.manual_seed(0)
    for kind in case.kinds:
        for is_tiny in (True, False):
            sizes = (4, 2) if is_tiny else (9, 6)
            sizes = sizes if kind == "pair" else (sizes[0], sizes[0])
            dims = (case.size, case.size if case.is_same_size or kind == "same" else 3)
            of_layer = dims[0] if dims[0] == dims[1] else dims
            theirs, ours = case.theirs(of_layer).to(dtype), case.ours(of_layer).to(dtype)
            pairs = same_weights(theirs, ours, case.names)
            index = TINY if is_tiny else random_index(*sizes, 30, case.has_loops or kind == "pair")
            index = index if case.has_loops or kind == "pair" else index[:, index[0] != index[1]]
            x = tuple(drawn(size, dim, dtype=dtype).requires_grad_() for size, dim in zip(sizes, dims))
            x = x if kind == "pair" else x[0]
            shape = (index.shape[1],) if case.edge_dim == 1 else (index.shape[1], case.edge_dim)
            edge = (torch.rand(shape, dtype=dtype).requires_grad_(),) if case.edge_dim else ()
            inputs = [*(x if kind == "pair" else [x]), *edge]
            arguments = (x, index, *edge)
            check_equal(
                partial(case.call, theirs, *arguments), partial(case.ours_call, ours, *arguments), inputs, pairs, dtype
            )


def test_the_table_in_the_docs_lists_them():
    page = (Path(__file__).parents[2] / "docs" / "layers.md").read_text()
    assert [name for name in CASES if f"| `{name.split(',')[0]}(" not in page] == []


@pytest.mark.parametrize("how", ["add", "mean", "max", "attention"])
def test_readouts_equal_pools(how):
    x, batch = drawn(9, 5, dtype=torch.float64).requires_grad_(), torch.tensor([0, 0, 2, 2, 2, 3, 3, 3, 3])
    if how == "attention":
        ours, gate, value = layers.Readout(5).double(), nn.Linear(5, 1).double(), nn.Linear(5, 5).double()
        theirs = AttentionalAggregation(gate, value)
        with torch.no_grad():  # q·k_i / √d is one linear layer
            gate.weight.copy_(ours.query[0] @ ours.key.weight / 5**0.5)
            gate.bias.copy_((ours.query[0] @ ours.key.bias / 5**0.5).squeeze(0))
        value.load_state_dict(ours.value.state_dict())
        pairs = [(value.weight, ours.value.weight, SAME), (value.bias, ours.value.bias, SAME)]
    else:
        ours, pairs = layers.Readout(5, aggregation="sum" if how == "add" else how), []
        theirs = getattr(pyg, f"global_{how}_pool")
    check_equal(lambda: theirs(x, batch), lambda: ours(x, batch=batch), [x], pairs, torch.float64)
    offsets = torch.tensor([0, 2, 2, 5, 9])
    for found in (ours(x, offsets), ours(x, batch=offsets), ours(x, batch=batch, num_graphs=4)):
        torch.testing.assert_close(found, theirs(x, batch))
    order = torch.randperm(9)
    torch.testing.assert_close(ours(x[order], batch=batch[order]), theirs(x, batch))
    assert ours(x, batch=batch, num_graphs=6).shape == (6, 5)
    torch.testing.assert_close(ours(x), theirs(x, torch.zeros(9, dtype=torch.int64)))
    with pytest.raises(SettingError, match=r"offsets and batch.*pass one"):
        ours(x, offsets, batch=batch)


def test_relational_attention_equals_hgt():
    torch.manual_seed(0)
    data = HeteroData()
    data["a"].x, data["b"].x = drawn(4, 8, dtype=torch.float64), drawn(5, 8, dtype=torch.float64)
    for name, sizes in {("a", "to", "b"): (4, 5), ("b", "to", "a"): (5, 4), ("b", "also", "a"): (5, 4)}.items():
        data[name].edge_index = random_index(*sizes, 12, True)
    theirs = pyg.HGTConv(8, 8, data.metadata(), heads=2).double()
    graph = Graph.of(data)
    ours = layers.RelationalAttention(8, 2, num_types=2, num_relations=3).double()

    def rows(place):
        """Our matrices of types, stacked and transposed."""
        return lambda x: x.unflatten(0, (2, 8))[place].T

    def keys_first(x):
        return torch.cat([x[8:16], x[:8], x[16:]])

    def by_head(x):
        """Ours are ordered by relation, then head; theirs by head, then relation."""
        return x.unflatten(0, (3, 2)).transpose(0, 1).flatten(0, 1)

    names = {"k_rel.weight": ("key_weight", by_head), "v_rel.weight": ("value_weight", by_head)}
    for place, kind in enumerate("ab"):
        project, out = f"kqv_lin.lins.{kind}", f"out_lin.lins.{kind}"
        names[f"{project}.weight"] = "project.weight", lambda x, p=place: keys_first(rows(p)(x))
        names[f"{project}.bias"] = "project.bias", lambda x, p=place: keys_first(x[p])
        names[f"{out}.weight"] = "output.weight", rows(place)
        names[f"{out}.bias"] = "output.bias", lambda x, p=place: x[p]
        names[f"skip.{kind}"] = "skip", lambda x, p=place: x[p : p + 1]
    for place, relation in enumerate(data.edge_types):
        names[f"p_rel.{'__'.join(relation)}"] = "prior", lambda x, p=place: x[p : p + 1]
    ours.skip = nn.Parameter(torch.ones(2, dtype=torch.float64))
    pairs = same_weights(theirs, ours, names)
    x = graph.node_features.requires_grad_()

    def call_theirs():
        found = theirs(dict(zip("ab", x.split([4, 5]))), data.edge_index_dict)
        return torch.cat([found["a"], found["b"]])

    def call_ours():
        share = ours.skip.sigmoid()[graph.node_types.of_row][:, None]
        return share * ours(x, graph.node_types, graph.relations) + (1 - share) * x

    check_equal(call_theirs, call_ours, [x], pairs, torch.float64)


def test_a_graph_network_equals_a_meta_layer():
    """The networks are ours; what they are handed, and in which order, is theirs."""
    torch.manual_seed(0)
    ours = layers.GraphNetwork(
        layers.EdgeUpdate(4, 3, 2, 6), layers.NodeUpdate(4, 6, 2, 5), layers.GlobalUpdate(5, 6, 2, 3)
    ).double()
    edge, node, whole = ours.edge.network, ours.node.network, ours.graph.network
    batch = torch.tensor([0, 0, 0, 1, 1, 1])
    index = torch.tensor([[0, 1, 2, 0, 3, 4, 4], [1, 2, 0, 2, 4, 5, 5]])

    def edge_model(source, target, features, known, graphs):
        return edge.second(edge.activation(edge.first(torch.cat([target, known[graphs], source, features], 1))))

    def node_model(x, ends, features, known, graphs):
        together = scatter(features, ends[1], dim_size=len(x))
        return node(torch.cat([together, x, known[graphs]], 1))

    def global_model(x, ends, features, known, graphs):
        of_edges = scatter(features, graphs[ends[0]], dim_size=2)
        return whole(torch.cat([of_edges, scatter(x, graphs, dim_size=2), known], 1))

    theirs = pyg.MetaLayer(edge_model, node_model, global_model)
    shapes = (6, 4), (7, 3), (2, 2)
    x, features, known = (drawn(*shape, dtype=torch.float64).requires_grad_() for shape in shapes)
    offsets = torch.tensor([0, 3, 6])
    for place in range(3):
        check_equal(
            lambda place=place: theirs(x, index, features, known, batch)[place],
            lambda place=place: ours(x, index, features, known, offsets)[place],
            [x, features, known], [(p, p, SAME) for p in ours.parameters()], torch.float64,
        )  # fmt: skip


def test_layers_run_in_pyg_sequential():
    torch.manual_seed(0)
    index, x, batch = random_index(9, 9, 20, True), torch.randn(9, 5), torch.arange(9) // 4
    pool = layers.Readout(6)
    network = pyg.Sequential(
        "x, edge_index, batch, edge_attr",
        [
            (layers.GraphAttention(5, 8, 2, edge_dim=3), "x, edge_index, edge_attr -> x"),
            nn.ReLU(),
            (layers.SymmetricConvolution(8, 8), "x, edge_index -> x"),
            (layers.NeighborConvolution(8, 8, "max"), "x, edge_index -> x"),
            (layers.IsomorphismConvolution(8, 8), "x, edge_index -> x"),
            (layers.GatedGraphAttention(8, num_heads=2), "x, edge_index -> x"),
            (layers.HopAttention(8), "x, edge_index -> x"),
            (layers.MeanConvolution(8, 6), "x, edge_index -> x"),
            (lambda nodes, graphs: pool(nodes, batch=graphs), "x, batch -> x"),
        ],
    )
    out = network(x, index, batch, torch.randn(index.shape[1], 3))
    assert out.shape == (3, 6)
    out.sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters())
    assert torch.equal(
        network[0](x, Edges.from_edge_index(index, 9), edge_of(index)), network[0](x, index, edge_of(index))
    )


def edge_of(index):
    return torch.arange(3.0 * index.shape[1]).reshape(-1, 3) / 10
