"""Calls of the operator that were computed as another one, or ended in an error of torch."""

import numpy as np
import pytest
import torch

from edgewise import (
    GAT,
    Additive,
    Bilinear,
    Causal,
    Distance,
    Edges,
    Full,
    GATv2,
    Hardmax,
    ScaledDot,
    SettingError,
    ShapeError,
    Softmax,
    Trace,
    attend,
    attention_weights,
)
from edgewise.errors import UnsupportedError
from edgewise.explain.heads import strongest
from edgewise.layers import GraphNetwork, GraphPosition, LearnedGlobals, NodeStatistics, NodeUpdate, Readout

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
NEIGHBORHOODS = [Full(), Causal(), Edges(torch.tensor([0, 1, 2, 3, 4, 0]), torch.tensor([1, 1, 1, 2, 0, 0]), 5, 5)]


@pytest.mark.parametrize("backend", ["auto", "reference", "gather", "sdpa", "numba"])
@pytest.mark.parametrize("temperature", [1e-19, 1e-30, 1e-38, 1e-40, 1e-300])
@pytest.mark.parametrize("neighborhood", NEIGHBORHOODS, ids=lambda each: type(each).__name__)
def test_a_temperature_that_goes_to_zero_is_hardmax(neighborhood, temperature, backend):
    torch.manual_seed(0)
    nodes = (100 * torch.randn(5, 4)).requires_grad_()
    expected = attend(nodes, nodes, nodes, neighborhood, normalize=Hardmax(), backend="reference")
    try:
        out = attend(nodes, nodes, nodes, neighborhood, normalize=Softmax(temperature), backend=backend)
    except UnsupportedError:
        assert backend != "auto"
        return
    torch.testing.assert_close(out, expected)
    (gradient,) = torch.autograd.grad(out.sum(), nodes)
    assert gradient.isfinite().all()


@pytest.mark.parametrize("backend", ["reference", "gather"])
@pytest.mark.parametrize("neighborhood", NEIGHBORHOODS, ids=lambda each: type(each).__name__)
def test_a_normalizer_that_returns_another_shape_is_refused(neighborhood, backend):
    nodes = torch.randn(5, 4)
    with pytest.raises(ShapeError, match=r"normalize: the weights have shape .*, but the scores"):
        attend(nodes, nodes, nodes, neighborhood, normalize=lambda scores, rows: scores.sum(-1), backend=backend)


@pytest.mark.parametrize("backend", ["auto", "reference", "gather", "numba"])
@pytest.mark.parametrize("temperature", [1e-19, 1e-21, 1e-30, 1e-38, 1e-40])
@pytest.mark.parametrize("neighborhood", NEIGHBORHOODS, ids=lambda each: type(each).__name__)
def test_a_temperature_that_is_a_tensor_may_go_to_zero_too(neighborhood, temperature, backend):
    torch.manual_seed(0)
    nodes = (100 * torch.randn(2, 5, 4)).requires_grad_()
    expected = attend(nodes, nodes, nodes, neighborhood, normalize=Hardmax(), backend="reference")
    for shape in ((), (2,)):
        cold = torch.full(shape, temperature, requires_grad=True)
        for score in (ScaledDot(), Distance(), GATv2(torch.ones(4))):
            expected = attend(nodes, nodes, nodes, neighborhood, score=score, normalize=Hardmax(), backend="reference")
            out = attend(nodes, nodes, nodes, neighborhood, score=score, normalize=Softmax(cold), backend=backend)
            torch.testing.assert_close(out, expected)
            for gradient in torch.autograd.grad(out.sum(), (nodes, cold)):
                assert gradient.isfinite().all()


@pytest.mark.parametrize("backend", ["auto", "reference", "gather"])
@pytest.mark.parametrize("neighborhood", NEIGHBORHOODS, ids=lambda each: type(each).__name__)
@pytest.mark.parametrize("batch", [(), (2,), (1, 2)], ids=str)
def test_what_normalizers_and_scores_return_has_the_shape_of_the_pairs(neighborhood, backend, batch):
    nodes = torch.randn(*batch, 5, 4)
    normalizers = {
        "weights have shape": lambda scores, rows: torch.stack([scores, scores]),
        "weights have the shape": lambda scores, rows: scores[..., :1],
        "weights have the type int": lambda scores, rows: 3,
        "weights have the type NoneType": lambda scores, rows: None,
    }
    for message, normalize in normalizers.items():
        with pytest.raises(ShapeError, match=message.replace("the shape", "shape")):
            attend(nodes, nodes, nodes, neighborhood, normalize=normalize, backend=backend)
    scores = {
        "gave the shape": (
            lambda query, key: (query * key).sum(), lambda query, key: (query * key).sum(-1)[None],
            lambda query, key: query * key, lambda query, key: torch.ones(3, *(query * key).shape[1:-1]),
        ),
        "gave the type float": (lambda query, key: 1.0,),
    }  # fmt: skip
    for message, functions in scores.items():
        for score in functions:
            with pytest.raises(ShapeError, match=f"score: <lambda> {message}"):
                attend(nodes, nodes, nodes, neighborhood, score=score, backend=backend)
    one_sided = attend(nodes, nodes, nodes, neighborhood, score=lambda query, key: key.sum(-1), backend=backend)
    expected = lambda query, key: (0 * query + key).sum(-1)  # noqa: E731
    torch.testing.assert_close(one_sided, attend(nodes, nodes, nodes, neighborhood, score=expected, backend=backend))


@pytest.mark.parametrize("top", [1.5, 0, -1, True, "2", float("nan")])
def test_top_of_a_trace_is_a_whole_number(top):
    with pytest.raises(SettingError, match="Trace: top must be a whole number of at least 1"):
        Trace(top=top)
    weights = attention_weights(torch.eye(3), torch.eye(3))
    with pytest.raises(SettingError, match="strongest: top must be a whole number of at least 1"):
        strongest(weights, top)


def test_top_may_be_a_number_of_numpy():
    assert attention_weights(torch.eye(3), torch.eye(3), top=np.int64(1)).senders.tolist() == [0, 1, 2]
    assert Trace(top=np.int64(2)).top == 2


@pytest.mark.parametrize("top", [1.5, 0, -1, True, "2"])
def test_top_is_a_whole_number(top):
    with pytest.raises(SettingError, match="top must be a whole number of at least 1"):
        attention_weights(torch.eye(3), torch.eye(3), top=top)


def test_only_neighborhoods_are_joined():
    for join in (
        *(lambda: Full() & 3, lambda: Full() | torch.ones(2, 2), lambda: Causal() & None),
        *(lambda: 3 | Full(), lambda: 3 & Full(), lambda: torch.ones(2, 2) & Causal(), lambda: None | Causal()),
        *(lambda: np.ones((2, 2)) & Full(), lambda: True | NEIGHBORHOODS[2], lambda: {1} & (Full() | Causal())),
    ):
        with pytest.raises(SettingError, match=r"& and \| combine neighborhoods"):
            join()


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: Additive(torch.tensor(1.0)), "Additive: vector"),
        (lambda: GATv2(torch.tensor(1.0)), "GATv2: vector"),
        (lambda: GAT(torch.ones(2), torch.tensor(1.0)), "GAT: key_vector"),
        (lambda: Bilinear(torch.ones(2)), "Bilinear: weight"),
        (lambda: Additive([1.0, 2.0]), "Additive: vector"),
    ],
)
def test_fields_of_scores_have_their_axes(make, name):
    with pytest.raises(ShapeError, match=f"{name} must be a tensor"):
        make()


@pytest.mark.parametrize("offsets", [[2, 4], [0, 3], [0, 3, 1, 4], [-1, 4], [0, 5], []])
@pytest.mark.parametrize("how", ["sum", "mean", "max", "attention"])
def test_offsets_of_a_readout_cover_the_nodes_in_order(offsets, how):
    with pytest.raises(ShapeError, match="offsets must"):
        Readout(2, how)(torch.ones(4, 2), offsets=torch.tensor(offsets, dtype=torch.int64))


@pytest.mark.parametrize("kind", [list, tuple, np.array, torch.tensor])
def test_offsets_may_be_a_list(kind):
    nodes, offsets = torch.arange(8.0).view(4, 2), kind([0, 1, 4])
    network = GraphNetwork(node=NodeUpdate(2, 0, 2, 3), global_source=LearnedGlobals(2))
    for layer, call in (
        (Readout(2, "sum"), lambda layer, offsets: layer(nodes, offsets)),
        (NodeStatistics(2), lambda layer, offsets: layer(nodes, offsets)),
        (LearnedGlobals(2), lambda layer, offsets: layer(nodes, offsets)),
        (network, lambda layer, offsets: layer(nodes, torch.zeros(2, 0, dtype=torch.int64), offsets=offsets).nodes),
    ):
        assert torch.equal(call(layer, offsets), call(layer, torch.tensor([0, 1, 4])))
        for wrong in ([2, 4], [0, 3, 1, 4], [0.0, 4.0], [0, 5]):
            with pytest.raises(ShapeError, match=r"offsets must|must be whole numbers"):
                call(layer, kind(wrong))
    by_node = Readout(2, "sum")(nodes, batch=kind([0, 1, 1, 1]))
    assert torch.equal(by_node, Readout(2, "sum")(nodes, offsets))
    position = GraphPosition(2, 1).train()
    assert position(nodes, nodes[:, :1], offsets).shape == (4, 2)
    with pytest.raises(ShapeError, match="GraphPosition: offsets must"):
        position(nodes, nodes[:, :1], kind([0, 5]))


def test_weights_without_edges_are_a_graph_without_edges():
    edges = Edges(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), 3, 3)
    graph = attention_weights(torch.randn(2, 3, 4), torch.randn(2, 3, 4), edges).to_graph()
    assert graph.edges.num_edges == 0
    assert graph.edge_features.shape == (0, 2)
    assert attention_weights(torch.randn(3, 4), torch.randn(3, 4), edges).to_graph().edge_features.shape == (0, 1)
