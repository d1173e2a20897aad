"""Calls of the operator that were computed as another one, or ended in an error of torch."""

import pytest
import torch

from edgewise import (
    GAT,
    Additive,
    Bilinear,
    Causal,
    Edges,
    Full,
    GATv2,
    Hardmax,
    SettingError,
    ShapeError,
    Softmax,
    attend,
    attention_weights,
)
from edgewise.errors import UnsupportedError
from edgewise.layers import Readout

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


@pytest.mark.parametrize("top", [1.5, 0, -1, True, "2"])
def test_top_is_a_whole_number(top):
    with pytest.raises(SettingError, match="top must be a whole number of at least 1"):
        attention_weights(torch.eye(3), torch.eye(3), top=top)


def test_only_neighborhoods_are_joined():
    for join in (lambda: Full() & 3, lambda: Full() | torch.ones(2, 2), lambda: Causal() & None):
        with pytest.raises(SettingError, match=r"& and \| join neighborhoods"):
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


def test_weights_without_edges_are_a_graph_without_edges():
    edges = Edges(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), 3, 3)
    graph = attention_weights(torch.randn(2, 3, 4), torch.randn(2, 3, 4), edges).to_graph()
    assert graph.edges.num_edges == 0
    assert graph.edge_features.shape == (0, 2)
    assert attention_weights(torch.randn(3, 4), torch.randn(3, 4), edges).to_graph().edge_features.shape == (0, 1)
