"""Fused layers of PyTorch Geometric: the same parameters, outputs and gradients as the layers they replace."""

import copy
import io
import pickle

import pytest
import torch
import torch_geometric.nn as pyg
from torch.nn.utils import parametrize
from torch_geometric.data import HeteroData
from torch_geometric.explain import Explainer, GNNExplainer
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks

from edgewise import Edges, SettingError, UnsupportedError
from edgewise.interop import pyg_edges, pyg_layers
from edgewise.interop.pyg import fuse, fuse_report, unfuse

NEW, SMALL = "the graph is small and new", "the graph is so small"
"""Why a fused layer runs the original's forward."""
LOOPED = torch.tensor([[0, 1, 2, 3, 3, 0, 4, 1, 1, 2, 5], [0, 0, 1, 1, 2, 2, 4, 3, 3, 5, 1]])
"""Among seven nodes: loops, an edge twice, and a node that receives nothing."""
PAIRED = torch.tensor([[0, 1, 2, 3, 3, 6, 4, 1, 5], [0, 0, 1, 1, 2, 2, 4, 3, 1]])
"""From seven sources to five targets."""
T2S = {"flow": "target_to_source"}


@pytest.fixture(autouse=True)
def kernels_run_on_small_graphs(monkeypatch):
    """As the graphs here are, or what follows would compare the original with itself."""
    monkeypatch.setattr(pyg_layers, "MANY_NUMBERS", 0)


@pytest.fixture
def every_graph_is_small(monkeypatch):
    monkeypatch.setattr(pyg_layers, "MANY_NUMBERS", 1 << 30)
    monkeypatch.setattr(pyg_layers, "FEW_NUMBERS", 0)


def mlp(dim=5):
    return torch.nn.Sequential(torch.nn.Linear(dim, 6), torch.nn.ReLU(), torch.nn.Linear(6, 4))


# name: (make the layer, number of edge features or 0, whether the nodes are a pair, more arguments of the call)
ATTENTION = {
    "GAT": (lambda: pyg.GATConv(5, 4, heads=2), 0, False),
    "GAT mean of heads, no bias": (lambda: pyg.GATConv(5, 4, heads=3, concat=False, bias=False), 0, False),
    "GAT no loops, slope, residual": (
        lambda: pyg.GATConv(5, 4, heads=2, add_self_loops=False, negative_slope=0.4, residual=True), 0, False,
    ),
    "GAT edges": (lambda: pyg.GATConv(5, 4, heads=2, edge_dim=3), 3, False),
    "GAT edges, fill number": (lambda: pyg.GATConv(5, 4, heads=2, edge_dim=3, fill_value=0.5), 3, False),
    "GAT edges, fill max": (lambda: pyg.GATConv(5, 4, heads=2, edge_dim=1, fill_value="max"), 1, False),
    "GAT pair": (lambda: pyg.GATConv((5, 3), 4, heads=2, residual=True), 0, True),
    "GAT pair, edges, no loops": (lambda: pyg.GATConv((5, 3), 4, heads=2, edge_dim=3, add_self_loops=False), 3, True),
    "GAT other flow": (lambda: pyg.GATConv(5, 4, heads=2, edge_dim=3, **T2S), 3, False),
    "GAT edges that it ignores": (lambda: pyg.GATConv(5, 4), 3, False),
    "GAT two matrices, one set": (lambda: pyg.GATConv((5, 5), 4, heads=2), 0, False),
    "GATv2": (lambda: pyg.GATv2Conv(5, 4, heads=2), 0, False),
    "GATv2 shared, mean": (lambda: pyg.GATv2Conv(5, 4, heads=2, share_weights=True, concat=False), 0, False),
    "GATv2 edges, residual": (lambda: pyg.GATv2Conv(5, 4, heads=2, edge_dim=3, residual=True), 3, False),
    "GATv2 pair, no loops": (lambda: pyg.GATv2Conv((5, 3), 4, heads=2, edge_dim=1, add_self_loops=False), 1, True),
    "GATv2 other flow": (lambda: pyg.GATv2Conv(5, 4, heads=2, edge_dim=3, negative_slope=0.3, **T2S), 3, False),
    "Transformer": (lambda: pyg.TransformerConv(5, 4, heads=2), 0, False),
    "Transformer mean, beta": (lambda: pyg.TransformerConv(5, 4, heads=2, concat=False, beta=True), 0, False),
    "Transformer edges, no root": (
        lambda: pyg.TransformerConv(5, 4, heads=2, edge_dim=3, root_weight=False, bias=False), 3, False,
    ),
    "Transformer pair, edges, beta": (lambda: pyg.TransformerConv((5, 3), 4, heads=2, edge_dim=3, beta=True), 3, True),
    "Transformer other flow": (lambda: pyg.TransformerConv(5, 4, heads=2, **T2S), 0, False),
}  # fmt: skip
CONVOLUTION = {
    "GCN": (lambda: pyg.GCNConv(5, 4), 0, False),
    "GCN weights, improved": (lambda: pyg.GCNConv(5, 4, improved=True), -1, False),
    "GCN no loops, no bias": (lambda: pyg.GCNConv(5, 4, add_self_loops=False, bias=False), 0, False),
    "GCN not normalized": (lambda: pyg.GCNConv(5, 4, normalize=False), -1, False),
    "GCN not normalized, no weights": (lambda: pyg.GCNConv(5, 4, normalize=False), 0, False),
    "GCN cached": (lambda: pyg.GCNConv(5, 4, cached=True), 0, False),
    "GCN other flow": (lambda: pyg.GCNConv(5, 4, **T2S), -1, False),
    "SAGE": (lambda: pyg.SAGEConv(5, 4), 0, False),
    "SAGE wider": (lambda: pyg.SAGEConv(5, 8, bias=False), 0, False),
    "SAGE sum, normalize": (lambda: pyg.SAGEConv(5, 4, aggr="sum", normalize=True), 0, False),
    "SAGE max of ties": (lambda: pyg.SAGEConv(5, 4, aggr="max", project=True), 0, False),
    "SAGE min, no root, pair": (lambda: pyg.SAGEConv((5, 3), 4, aggr="min", root_weight=False), 0, True),
    "SAGE pair": (lambda: pyg.SAGEConv((5, 3), 4), 0, True),
    "SAGE other flow": (lambda: pyg.SAGEConv(5, 4, **T2S), 0, False),
    "GIN": (lambda: pyg.GINConv(mlp(), eps=0.3), 0, False),
    "GIN eps learned, max": (lambda: pyg.GINConv(mlp(), eps=0.3, train_eps=True, aggr="max"), 0, False),
    "Simple": (lambda: pyg.SimpleConv(), 0, False),
    "Simple weights, mean, cat": (lambda: pyg.SimpleConv("mean", combine_root="cat"), -1, False),
    "Simple weights, max, sum": (lambda: pyg.SimpleConv("max", combine_root="sum"), -1, False),
    "Simple weights, loops": (lambda: pyg.SimpleConv("add", combine_root="self_loop"), -1, False),
    "Simple loops": (lambda: pyg.SimpleConv("mean", combine_root="self_loop"), 0, False),
    "Simple pair": (lambda: pyg.SimpleConv("min"), 0, True),
}


def inputs_of(is_pair, edge_dim, dtype=torch.float64):
    """Features, edge_index and what comes after them; a weight for each edge where edge_dim is -1."""
    index = PAIRED if is_pair else LOOPED
    x = torch.randn(7, 5, dtype=dtype, requires_grad=True)
    x = (x, torch.randn(5, 3, dtype=dtype, requires_grad=True)) if is_pair else x
    shape = (index.shape[1],) if edge_dim == -1 else (index.shape[1], edge_dim)
    edge = torch.rand(*shape, dtype=dtype, requires_grad=True) if edge_dim else None
    return x, index, *([] if edge is None else [edge])


def results_of(layer, inputs, **named):
    """The output, the weights where they are asked for, and the gradients of inputs and parameters."""
    for parameter in layer.parameters():
        parameter.grad = None
    found = layer(*inputs, **named)
    out, weights = found if isinstance(found, tuple) else (found, None)
    parts = [out] if weights is None else [out, weights[1]]
    leaves = [t for one in inputs for t in (one if isinstance(one, tuple) else (one,)) if t.requires_grad]
    leaves += list(layer.parameters())
    torch.manual_seed(1)
    loss = sum((part * torch.randn_like(part)).sum() for part in parts)
    gradients = torch.autograd.grad(loss, leaves, allow_unused=True)
    return [*parts, *[torch.zeros(()) if g is None else g for g in gradients]], weights and weights[0]


def assert_same(ours, theirs, bound=1e-10):
    assert len(ours) == len(theirs)
    for own, other in zip(ours, theirs, strict=True):
        other = other.expand_as(own) if other.dim() == 0 else other
        torch.testing.assert_close(own.expand_as(other), other, rtol=bound, atol=bound)


def pair_of_layers(make, dtype=torch.float64):
    torch.manual_seed(0)
    theirs = make().to(dtype)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.normal_(std=0.5)
    return theirs, fuse(copy.deepcopy(theirs))


@pytest.mark.parametrize("name", ATTENTION | CONVOLUTION)
def test_fused_layers_equal_the_original(name):
    make, edge_dim, is_pair = (ATTENTION | CONVOLUTION)[name]
    theirs, ours = pair_of_layers(make)
    inputs = inputs_of(is_pair, edge_dim)
    for _ in range(2):  # the second call finds the edges in the cache
        assert_same(results_of(ours, inputs)[0], results_of(theirs, inputs)[0])
        assert ours.fallback is None
    assert ours.state_dict().keys() == theirs.state_dict().keys()
    assert isinstance(ours, type(theirs))
    if name in ATTENTION:
        found, index = results_of(ours, inputs, return_attention_weights=True)
        expected, other = results_of(theirs, inputs, return_attention_weights=True)
        assert_same(found, expected)
        assert torch.equal(index, other)
        assert ours.fallback is None


@pytest.mark.parametrize(
    ("make", "width", "size"),
    [
        (lambda: pyg.GATConv(5, 4, heads=2, add_self_loops=False), 5, (7, 5)),
        (lambda: pyg.GATConv(5, 4, heads=2), 5, (7, 5)),
        (lambda: pyg.SAGEConv(5, 4), 5, (7, 5)),
        (lambda: pyg.SAGEConv(5, 4), 5, None),
        (lambda: pyg.GINConv(mlp()), 5, (7, 5)),
        (lambda: pyg.SimpleConv("max"), 5, (7, 5)),
    ],
)
def test_targets_without_features(make, width, size):
    theirs, ours = pair_of_layers(make)
    x = torch.randn(7, width, dtype=torch.float64)
    torch.testing.assert_close(ours((x, None), PAIRED, size=size), theirs((x, None), PAIRED, size=size))
    assert ours.fallback is None


def test_static_graphs_and_float32():
    theirs, ours = pair_of_layers(lambda: pyg.SAGEConv(5, 4), torch.float32)
    x = torch.randn(3, 7, 5)
    torch.testing.assert_close(ours(x, LOOPED), theirs(x, LOOPED))
    assert ours.fallback is None
    theirs, ours = pair_of_layers(lambda: pyg.GATConv(5, 4, heads=2), torch.float32)
    inputs = inputs_of(False, 0, torch.float32)
    assert_same(results_of(ours, inputs)[0], results_of(theirs, inputs)[0], 1e-5)


def test_edge_index_changed_in_place_is_noticed():
    theirs, ours = pair_of_layers(lambda: pyg.GATConv(5, 4))
    x, index = torch.randn(7, 5, dtype=torch.float64), LOOPED.clone()
    before = ours(x, index)
    index[1] = index[1].flip(0)
    torch.testing.assert_close(ours(x, index), theirs(x, index))
    assert not torch.allclose(ours(x, index), before)
    index.data = LOOPED[:, :4].contiguous()
    torch.testing.assert_close(ours(x, index), theirs(x, index))


def test_edges_are_made_once_for_an_edge_index_and_go_with_it(monkeypatch):
    made = []

    def counted(*arguments):
        made.append(arguments)
        return Edges(*arguments)

    monkeypatch.setattr(pyg_edges, "Edges", counted)
    model = fuse(pyg.GAT(5, 4, num_layers=3, heads=2))
    index, before = LOOPED.clone(), len(pyg_edges._made)
    for _ in range(2):
        model(torch.randn(7, 5), index).sum().backward()
    assert len(made) == 1
    assert len(pyg_edges._made) == before + 1
    del index
    assert len(pyg_edges._made) == before


def test_training_after_inference_mode():
    for make in (lambda: pyg.GATConv(5, 4), lambda: pyg.GCNConv(5, 4)):
        _, ours = pair_of_layers(make)
        x, index = torch.randn(7, 5, dtype=torch.float64), LOOPED.clone()
        with torch.inference_mode():
            expected = ours(x, index)
            ours(x.clone(), index.clone())  # a tensor of inference mode
        out = ours(x, index)
        out.sum().backward()
        torch.testing.assert_close(out.detach(), expected.clone())


@pytest.mark.parametrize("kind", [pyg.GATConv, pyg.GATv2Conv, pyg.TransformerConv])
def test_dropout_has_the_rate_of_the_layer(kind):
    """Values are one, weights are equal: the output is the share of edges that stayed, divided by their chance."""
    torch.manual_seed(0)
    layer = fuse(
        kind(1, 1, dropout=0.3, bias=False, **({} if kind is pyg.TransformerConv else {"add_self_loops": False}))
    )
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.zero_()
        for name in ("lin", "lin_l", "lin_value"):
            if getattr(layer, name, None) is not None:
                getattr(layer, name).weight.fill_(1.0)
    nodes, degree = 500, 20
    index = torch.stack([torch.randint(nodes, (nodes * degree,)), torch.arange(nodes).repeat_interleave(degree)])
    out = layer(torch.ones(nodes, 1), index) * 0.7 * degree
    torch.testing.assert_close(out, out.round(), rtol=1e-4, atol=1e-4)  # so many edges stayed
    assert out.mean().item() == pytest.approx(14, abs=0.2)
    assert out.var().item() == pytest.approx(degree * 0.3 * 0.7, rel=0.25)
    torch.testing.assert_close(layer.eval()(torch.ones(nodes, 1), index), torch.ones(nodes, 1))


def test_weights_after_dropout_come_from_the_layer_itself():
    layer = fuse(pyg.GATConv(5, 4, dropout=0.5))
    _, (index, weights) = layer(torch.randn(7, 5), LOOPED, return_attention_weights=True)
    assert layer.fallback == "it returns the weights after dropout"
    assert weights.shape == (index.shape[1], 1)
    assert fuse_report(layer).fallbacks == {"model": "it returns the weights after dropout"}


def test_checkpoints_and_pickles_pass_between_fused_and_not():
    torch.manual_seed(0)
    theirs, other = pyg.GAT(5, 8, num_layers=2, heads=2), pyg.GAT(5, 8, num_layers=2, heads=2)
    ours = fuse(other)
    assert ours is other
    ours.load_state_dict(theirs.state_dict())
    x, index = torch.randn(7, 5), LOOPED
    expected = theirs(x, index)
    torch.testing.assert_close(ours(x, index), expected)
    theirs.load_state_dict(ours.state_dict())
    file = io.BytesIO()
    torch.save(ours, file)
    file.seek(0)
    again = torch.load(file, weights_only=False)
    assert type(again.convs[0]) is type(ours.convs[0])
    torch.testing.assert_close(again(x, index), expected)
    torch.testing.assert_close(unfuse(again)(x, index), expected)
    parameters = list(ours.parameters())
    assert unfuse(fuse(fuse(ours))) is ours
    assert [type(conv) for conv in ours.convs] == [pyg.GATConv, pyg.GATConv]
    assert all(one is two for one, two in zip(parameters, ours.parameters(), strict=True))
    torch.testing.assert_close(ours(x, index), expected)


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = pyg.SAGEConv((-1, -1), 6), pyg.GATConv((-1, -1), 4, add_self_loops=False)

    def forward(self, x, edge_index):
        return self.second(self.first(x, edge_index).relu(), edge_index)


def hetero():
    data = HeteroData()
    data["user"].x, data["item"].x = torch.randn(7, 5), torch.randn(5, 3)
    data["user", "buys", "item"].edge_index = PAIRED
    data["item", "sold_to", "user"].edge_index = PAIRED.flip(0)
    data["user", "knows", "user"].edge_index = LOOPED
    return data


@pytest.mark.parametrize("is_first", [True, False])
def test_to_hetero(is_first):
    torch.manual_seed(0)
    data = hetero()
    theirs = pyg.to_hetero(Two(), data.metadata())
    with torch.no_grad():
        expected = theirs(data.x_dict, data.edge_index_dict)  # which makes the lazy parameters
    ours = pyg.to_hetero(fuse(Two()), data.metadata()) if is_first else fuse(pyg.to_hetero(Two(), data.metadata()))
    with torch.no_grad():
        ours(data.x_dict, data.edge_index_dict)
    ours.load_state_dict(theirs.state_dict())
    found = ours(data.x_dict, data.edge_index_dict)
    assert len(fuse_report(ours).fused) == 6
    assert fuse_report(ours).fallbacks == {}
    for name, out in expected.items():
        torch.testing.assert_close(found[name], out)


def test_hetero_conv_and_sequential():
    torch.manual_seed(0)
    data = hetero()
    convs = {
        ("user", "buys", "item"): pyg.GATv2Conv((5, 3), 4, add_self_loops=False),
        ("item", "sold_to", "user"): pyg.SAGEConv((3, 5), 4),
        ("user", "knows", "user"): pyg.GCNConv(5, 4),
    }
    theirs = pyg.HeteroConv(convs)
    ours = fuse(copy.deepcopy(theirs))
    expected, found = (model(data.x_dict, data.edge_index_dict) for model in (theirs, ours))
    for name, out in expected.items():
        torch.testing.assert_close(found[name], out)
    layers = [
        (pyg.TransformerConv(5, 4), "x, edge_index -> x"),
        torch.nn.ReLU(),
        (pyg.SimpleConv(), "x, edge_index -> x"),
    ]
    theirs = pyg.Sequential("x, edge_index", layers)
    ours = fuse(copy.deepcopy(theirs))
    torch.testing.assert_close(ours(data["user"].x, LOOPED), theirs(data["user"].x, LOOPED))
    assert set(fuse_report(ours).fused) == {"module_0", "module_2"}


class Own(pyg.GATConv):
    pass


def test_what_cannot_be_swapped_is_listed():
    model = torch.nn.ModuleDict(
        {
            "gat": pyg.GATConv(5, 4),
            "own": Own(5, 4),
            "lstm": pyg.SAGEConv(5, 4, aggr="lstm"),
            "two": pyg.SAGEConv(5, 4, aggr=["mean", "max"]),
            "gcn": pyg.GCNConv(5, 4, aggr="max"),
            "cheb": pyg.ChebConv(5, 4, 2),
            "axis": pyg.SimpleConv(node_dim=0),
        }
    )
    assert fuse_report(model).not_fused["gat"] == "fuse(model) was not called"
    report = fuse_report(fuse(model))
    assert list(report.fused) == ["gat"]
    assert report.not_fused == {
        "own": "Own is a subclass of GATConv and may compute something else",
        "lstm": "aggr='lstm'; fused are add, sum, mean, max, min",
        "two": "aggr=['mean', 'max']; fused are add, sum, mean, max, min",
        "gcn": "aggr='max'; fused are add, sum",
        "cheb": "there is no fused ChebConv",
        "axis": "node_dim=0; fused is -2",
    }
    assert str(report).splitlines()[:2] == ["1 fused, 6 not fused", "  gat: GATConv(5, 4, heads=1)"]
    with pytest.warns(UserWarning, match="no layer could be fused: 0 fused, 1 not fused\n  model: not fused: there is"):
        fuse(pyg.ChebConv(5, 4, 2))
    with pytest.raises(SettingError, match=r"fuse: expected a torch\.nn\.Module, not dict"):
        fuse({})


class Doubled(torch.nn.Module):
    def forward(self, parameter):
        return 2 * parameter


def test_a_parametrization_after_fuse_leaves_the_layer_fused():
    """It makes a class for the layer alone, which was reported as not fused; `unfuse` passed it over in silence."""
    theirs = pyg.GATConv(5, 4)
    ours = fuse(copy.deepcopy(theirs))
    for layer in (theirs, ours):
        parametrize.register_parametrization(layer, "att_src", Doubled())
    x, index = inputs_of(False, 0, torch.float32)
    torch.testing.assert_close(ours(x, index), theirs(x, index))
    assert list(fuse_report(fuse(ours)).fused) == ["model"]
    with pytest.warns(UserWarning, match="unfuse: model stays fused: .*; remove its parametrizations, unfuse, and"):
        unfuse(ours)
    parametrize.remove_parametrizations(ours, "att_src", leave_parametrized=False)
    assert type(unfuse(ours)) is pyg.GATConv


@pytest.mark.filterwarnings("ignore:Converting sparse tensor to CSR", "ignore:Sparse CSR tensor support")
def test_calls_that_are_not_covered_run_the_layer_itself():
    theirs, ours = pair_of_layers(lambda: pyg.GATConv(5, 4), torch.float32)
    x = torch.randn(7, 5)
    adjacency = torch.sparse_coo_tensor(PAIRED.flip(0)[:, :8], torch.ones(8), (7, 7), check_invariants=True).coalesce()
    layer = fuse(pyg.SAGEConv(5, 4))
    original = unfuse(copy.deepcopy(layer))
    torch.testing.assert_close(layer(x, adjacency), original(x, adjacency))
    assert layer.fallback == "edge_index is torch.sparse_coo, not a plain tensor"
    with pytest.raises(IndexError):  # theirs
        ours(x, LOOPED + 3)
    assert "edge_index" in ours.fallback or "sender" in ours.fallback
    seen = []
    handle = ours.register_message_forward_hook(lambda module, inputs, out: seen.append(out.shape))
    torch.testing.assert_close(ours(x, LOOPED), theirs(x, LOOPED))
    assert seen and ours.fallback == "it has hooks on its messages"
    handle.remove()
    ours(x, LOOPED)
    assert ours.fallback is None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert ours(x, LOOPED).dtype == theirs(x, LOOPED).dtype
    assert ours.fallback.startswith("torch.autocast is on")


def test_shapes_without_numbers_and_edges_of_one_axis_run_the_layer_itself():
    """On the meta device the original gives shapes; `TransformerConv` refused one axis on small graphs alone."""
    layer = fuse(pyg.SAGEConv(5, 4)).to("meta")
    assert layer(torch.empty(7, 5, device="meta"), LOOPED.to("meta")).shape == (7, 4)
    assert layer.fallback.startswith("edge_index is on the meta device")
    transformer = fuse(pyg.TransformerConv(5, 4, edge_dim=1))
    with pytest.raises(RuntimeError, match="cannot be multiplied"):  # theirs
        transformer(torch.randn(7, 5), LOOPED, torch.randn(LOOPED.shape[1]))


def test_explainers_still_mask_messages():
    torch.manual_seed(0)
    model = fuse(pyg.GCN(5, 4, num_layers=2, out_channels=3))
    explainer = Explainer(
        model, GNNExplainer(epochs=2), explanation_type="model", edge_mask_type="object",
        model_config={"mode": "multiclass_classification", "task_level": "node", "return_type": "raw"},
    )  # fmt: skip
    x = torch.randn(7, 5)
    assert explainer(x, LOOPED, index=1).edge_mask.abs().sum() > 0
    model(x, LOOPED)
    assert fuse_report(model).fallbacks == {}


@pytest.mark.parametrize("change", ["a forward of its own", "a subclass", "hooks on all modules"])
@pytest.mark.parametrize("kind", ["sage", "gat"])
def test_linear_layers_that_a_user_changed_are_called(kind, change):
    torch.manual_seed(0)
    layer = pyg.SAGEConv(16, 4) if kind == "sage" else pyg.GATConv(8, 4, heads=2, edge_dim=3)
    linear = layer.lin_l if kind == "sage" else layer.lin_edge
    x, edge = torch.randn(9, 16 if kind == "sage" else 8), () if kind == "sage" else (torch.randn(12, 3),)
    edge_index, handle = torch.randint(9, (2, 12)), None
    if change == "a forward of its own":
        original = linear.forward
        linear.forward = lambda x: 2 * original(x)
    elif change == "a subclass":
        linear.__class__ = type("Adapted", (type(linear),), {"forward": lambda self, x: x @ self.weight.T + 1})
    else:
        handle = torch.nn.modules.module.register_module_forward_hook(
            lambda part, inputs, out: 2 * out if part is linear else None
        )
    try:
        expected, ours = layer(x, edge_index, *edge), fuse(layer)(x, edge_index, *edge)
    finally:
        if handle is not None:
            handle.remove()
    assert layer.fallback is None
    torch.testing.assert_close(ours, expected)


KINDS = {
    "GAT": (lambda: pyg.GATConv(5, 4, heads=2)),
    "GATv2": (lambda: pyg.GATv2Conv(5, 4, heads=2)),
    "Transformer": (lambda: pyg.TransformerConv(5, 4, heads=2)),
    "GCN": (lambda: pyg.GCNConv(5, 4)),
    "SAGE": (lambda: pyg.SAGEConv(5, 4)),
    "GIN": (lambda: pyg.GINConv(mlp())),
    "Simple": (lambda: pyg.SimpleConv()),
}


def doubled(function):
    return lambda *inputs, **named: 2 * function(*inputs, **named)


REPLACED = {
    "message": lambda layer: setattr(layer, "message", doubled(layer.message)),
    "update": lambda layer: setattr(layer, "update", doubled(layer.update)),
    "aggr_module": lambda layer: setattr(layer, "aggr_module", pyg.MinAggregation()),
    "a hook on aggr_module": lambda layer: layer.aggr_module.register_forward_hook(lambda part, inputs, out: 2 * out),
}


@pytest.mark.parametrize("change", REPLACED)
@pytest.mark.parametrize("name", ["GAT", "Transformer", "GCN", "SAGE", "GIN", "Simple"])
def test_parts_that_a_user_replaced_are_called(name, change):
    """They were refused before fuse, and passed over after it; another aggr_module was never seen."""
    theirs, ours = pair_of_layers(KINDS[name])
    before = copy.deepcopy(theirs)
    x = torch.randn(7, 5, dtype=torch.float64)
    for layer in (theirs, ours, before):
        REPLACED[change](layer)
    expected = theirs(x, LOOPED)
    assert change.split()[-1] in fuse_report(fuse(torch.nn.ModuleList([before, KINDS[name]()]))).not_fused["0"]
    for layer in (ours, before):
        torch.testing.assert_close(layer(x, LOOPED), expected)
    assert change.split()[-1] in ours.fallback


def test_edges_under_vmap():
    """A plan for them ended in an error of torch."""
    theirs, ours = pair_of_layers(KINDS["SAGE"])
    x, both = torch.randn(7, 5, dtype=torch.float64), torch.stack([LOOPED, LOOPED.flip(0)])
    outs = [torch.func.vmap(lambda edge_index, layer=layer: layer(x, edge_index))(both) for layer in (theirs, ours)]
    torch.testing.assert_close(*outs)
    assert "torch.func" in ours.fallback


def test_scripts_of_fused_layers_are_refused():
    model = torch.nn.ModuleList([fuse(pyg.SAGEConv(5, 4))])
    with pytest.raises(UnsupportedError, match=r"a fused SAGEConv; give it unfuse\(copy\.deepcopy\(model\)\)"):
        torch.jit.script(model)


def saved_and_loaded(layer):
    file = io.BytesIO()
    torch.save(layer, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def with_edge_mask(layer, x):
    set_masks(layer, torch.linspace(0, 1, LOOPED.shape[1]), LOOPED, apply_sigmoid=False)
    out = layer(x, LOOPED)
    clear_masks(layer)
    return out


@pytest.mark.parametrize("restore", [copy.deepcopy, lambda layer: pickle.loads(pickle.dumps(layer)), saved_and_loaded])
@pytest.mark.parametrize("name", KINDS)
def test_copies_of_a_fused_layer_keep_edge_masks(name, restore):
    """Once a copy was made, the masks of all fused layers of that class had no effect."""
    theirs, ours = pair_of_layers(KINDS[name], torch.float32)
    x = torch.randn(7, 5)
    expected = with_edge_mask(theirs, x)
    again = restore(ours)
    assert type(again) is type(ours)
    for layer in (ours, again, restore(again), unfuse(restore(ours))):
        torch.testing.assert_close(with_edge_mask(layer, x), expected)
        torch.testing.assert_close(layer(x, LOOPED), theirs(x, LOOPED))
    assert vars(type(ours)).keys().isdisjoint({"propagate", "_orig_propagate", "edge_updater"})


@pytest.mark.parametrize("name", KINDS)
def test_fused_layers_read_as_the_original(name):
    theirs, ours = pair_of_layers(KINDS[name], torch.float32)
    assert str(ours) == str(theirs)
    assert str(torch.nn.ModuleList([ours])) == str(torch.nn.ModuleList([theirs]))


@pytest.mark.parametrize("num_passes", [1, 2])
@pytest.mark.parametrize("name", [name for name in KINDS if name != "Simple"])  # which has no parameters, as they need
def test_reversible_networks_free_and_restore_their_inputs(name, num_passes):
    """`GroupAddRev` resizes the memory of what a kernel read, which `Tensor.numpy` forbids."""
    makes = {
        "GAT": lambda: pyg.GATConv(8, 8), "GATv2": lambda: pyg.GATv2Conv(8, 8), "SAGE": lambda: pyg.SAGEConv(8, 8),
        "Transformer": lambda: pyg.TransformerConv(8, 8), "GCN": lambda: pyg.GCNConv(8, 8),
        "GIN": lambda: pyg.GINConv(torch.nn.Linear(8, 8)),
    }  # fmt: skip
    theirs, ours = pair_of_layers(makes[name])
    x, results = torch.randn(7, 16, dtype=torch.float64, requires_grad=True), []
    for layer in (ours, theirs):
        features = x * 1.0
        torch.manual_seed(0)  # the layers of the other groups are copies with parameters of their own
        out = pyg.GroupAddRev(layer, num_groups=2, num_bwd_passes=num_passes)(features, LOOPED)
        assert features.untyped_storage().size() == 0
        expected = out.detach().clone()
        for _ in range(num_passes):
            gradient = torch.autograd.grad(out.sum(), features, retain_graph=True)[0]
        results.append((expected, gradient))
    assert_same(*results)


@pytest.mark.parametrize("name", KINDS)
def test_outputs_are_laid_out_as_the_original(name):
    theirs, ours = pair_of_layers(KINDS[name], torch.float32)
    is_attention = name in ("GAT", "GATv2", "Transformer")
    x = torch.randn(7, 5) if is_attention else torch.randn(3, 7, 5)  # a batch of features on one graph
    weights = {"return_attention_weights": True} if is_attention else {}
    for own, other in zip(ours(x, LOOPED, **weights), theirs(x, LOOPED, **weights), strict=True):
        tensors = (own, other) if isinstance(own, torch.Tensor) else (own[1], other[1])
        assert tensors[0].stride() == tensors[1].stride()
    out = ours(x, LOOPED)
    assert out.is_contiguous()
    assert ours.fallback is None


def test_hooks_on_a_linear_layer_still_run():
    theirs, ours = pair_of_layers(lambda: pyg.SAGEConv(5, 4))
    for layer in (theirs, ours):
        layer.lin_l.register_forward_hook(lambda module, inputs, out: 2 * out)
    x = torch.randn(7, 5, dtype=torch.float64)
    torch.testing.assert_close(ours(x, LOOPED), theirs(x, LOOPED))


@pytest.mark.parametrize("name", ATTENTION | CONVOLUTION)
def test_a_small_graph_gets_a_plan_when_it_comes_again(name, every_graph_is_small):
    """Outputs, gradients and updates are those of the original, before and after the change of the path."""
    make, edge_dim, is_pair = (ATTENTION | CONVOLUTION)[name]
    theirs, ours = pair_of_layers(make)
    inputs = [*inputs_of(is_pair, edge_dim)]
    inputs[1] = inputs[1].clone()
    for step in range(3):
        assert_same(results_of(ours, inputs)[0], results_of(theirs, inputs)[0])
        if isinstance(ours, pyg_layers.SUMS):
            assert ours.fallback.startswith(SMALL)
        else:
            assert ours.fallback is None if step else ours.fallback.startswith(NEW)
        with torch.no_grad():
            for parameter in (*theirs.parameters(), *ours.parameters()):
                parameter.mul_(0.9)
    results_of(ours, [inputs[0], inputs[1].clone(), *inputs[2:]])
    assert ours.fallback is not None  # other edges, or a copy of them, are new


def test_a_small_new_graph_is_never_planned(every_graph_is_small, monkeypatch):
    def refuse(*arguments):
        raise AssertionError("a plan is made")

    monkeypatch.setattr(pyg_edges, "checked", refuse)
    monkeypatch.setattr(pyg_layers, "checked", refuse)
    model = fuse(pyg.GCN(5, 8, num_layers=3, out_channels=2))
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    for _ in range(3):
        optimizer.zero_grad()
        model(torch.randn(7, 5), LOOPED.clone()).sum().backward()
        optimizer.step()
    assert all(reason.startswith(NEW) for reason in fuse_report(model).fallbacks.values())


@pytest.mark.parametrize("dropout", [0.0, 0.5])
@pytest.mark.parametrize("is_argument", [True, False])
@pytest.mark.parametrize("use_reentrant", [True, False])
def test_within_a_step_a_layer_stays_on_its_path(use_reentrant, is_argument, dropout, every_graph_is_small):
    """What is computed once more for the backward pass stores the same tensors and draws the same dropout."""
    from torch.utils.checkpoint import checkpoint

    torch.manual_seed(0)
    layer, index = fuse(pyg.GATConv(5, 4, heads=2, dropout=dropout)).double(), LOOPED.clone()
    x = torch.randn(7, 5, dtype=torch.float64, requires_grad=True)
    call, inputs = (layer, (x, index)) if is_argument else (lambda nodes: layer(nodes, index), (x,))
    for _ in range(3):
        gradients = []
        for run in (lambda: checkpoint(call, *inputs, use_reentrant=use_reentrant), lambda: layer(x, index)):
            x.grad = None
            layer.zero_grad()
            torch.manual_seed(1)
            run().square().sum().backward()
            gradients.append([x.grad, layer.lin.weight.grad.clone()])
        assert_same(*gradients)
        with torch.no_grad():
            layer.lin.weight.mul_(0.9)
    assert (layer.fallback is None) == (dropout == 0)
    layer.eval()
    other = LOOPED.clone()
    for evaluation in range(2):
        with torch.no_grad():
            layer(x, other)
        assert (layer.fallback is None) == (evaluation > 0)


def test_the_number_of_messages_decides(monkeypatch):
    monkeypatch.setattr(pyg_layers, "MANY_NUMBERS", 1 << 10)
    monkeypatch.setattr(pyg_layers, "FEW_NUMBERS", 1 << 8)
    layers = {
        "GAT": pyg.GATConv(3, 4, heads=2), "GCN": pyg.GCNConv(3, 8), "SAGE": pyg.SAGEConv(8, 3),
        "GIN": pyg.GINConv(mlp(8)), "Simple": pyg.SimpleConv(), "Transformer": pyg.TransformerConv(3, 2, heads=4),
    }  # fmt: skip
    for name, layer in layers.items():
        layer = fuse(layer)
        features = torch.randn(7, 3 if name in ("GAT", "GCN", "Transformer") else 8)
        for num_edges, reason in ((31, SMALL), (32, NEW), (127, NEW), (128, None)):  # of 8 numbers
            layer(features, torch.randint(7, (2, num_edges)))
            expected = SMALL if reason == NEW and isinstance(layer, pyg_layers.SUMS) else reason
            assert layer.fallback is None if expected is None else layer.fallback.startswith(expected), name
