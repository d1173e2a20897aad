"""Layers know their axes, which masks they take and which they refuse; projections are called where they must be."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, spectral_norm, weight_norm

from edgewise import Causal, Edges, Full, Lengths, Mask, Segments, ShapeError
from edgewise.layers import GatedGraphAttention, MultiHeadAttention, ResidualBlock, ShawPosition
from edgewise.layers.linear import Linear

BATCH, HEADS, NODES, DIM = 2, 2, 5, 8
EDGES = Edges(torch.tensor([0, 1, 2, 4]), torch.tensor([1, 1, 0, 3]), NODES, NODES)


@pytest.fixture
def nodes():
    torch.manual_seed(0)
    return torch.randn(BATCH, NODES, DIM, dtype=torch.float64)


def layer(kind=MultiHeadAttention):
    torch.manual_seed(1)
    attention = MultiHeadAttention(DIM, HEADS)
    return (attention if kind is MultiHeadAttention else kind(attention, DIM)).double().eval()


def padding():
    return torch.tensor([[True] * 5, [True] * 3 + [False] * 2])


@pytest.mark.parametrize("kind", [MultiHeadAttention, ResidualBlock], ids=lambda kind: kind.__name__)
def test_padding_with_an_axis_of_heads_is_padding(nodes, kind):
    module = layer(kind)
    mask = Mask(padding()[:, None, None, :])
    out = module(nodes, neighborhood=mask)
    assert out.shape == nodes.shape
    expected = module(nodes, neighborhood=Mask(padding()[:, None, :].expand(BATCH, NODES, NODES)))
    torch.testing.assert_close(out, expected)
    alone = module(nodes[1:, :3], neighborhood=Full())
    torch.testing.assert_close(out[1, :3], alone[0])


@pytest.mark.parametrize("num_key_heads", [None, 1, 2, 4])
def test_a_mask_for_each_head_where_batch_and_heads_are_equal_in_number(num_key_heads):
    torch.manual_seed(0)
    module = MultiHeadAttention(8, 4, num_key_heads=num_key_heads).double()
    nodes = torch.randn(4, NODES, 8, dtype=torch.float64)
    masks = torch.rand(4, 4, NODES, NODES) < 0.6
    together = module(nodes, neighborhood=Mask(masks))
    assert together.shape == nodes.shape
    for member in range(4):
        alone = module(nodes[member], neighborhood=Mask(masks[member]))
        torch.testing.assert_close(together[member], alone)
    shared = module(nodes, neighborhood=Mask(masks[:, :1]))
    torch.testing.assert_close(shared, module(nodes, neighborhood=Mask(masks[:, 0])))


def test_joined_neighborhoods_keep_their_own_axes(nodes):
    module = layer()
    both = Lengths(torch.tensor([5, 3])) & Mask(torch.ones(BATCH, 1, NODES, NODES, dtype=torch.bool))
    torch.testing.assert_close(
        module(nodes, neighborhood=both), module(nodes, neighborhood=Lengths(torch.tensor([5, 3])))
    )
    ranges = Causal() & Lengths(torch.tensor([[5], [3]]))
    torch.testing.assert_close(
        module(nodes, neighborhood=ranges), module(nodes, neighborhood=Causal() & Lengths(torch.tensor([5, 3])))
    )


@pytest.mark.parametrize(
    "neighborhood",
    [
        Mask(torch.ones(3, NODES, NODES, dtype=torch.bool)),
        Mask(torch.ones(BATCH, 3, NODES, NODES, dtype=torch.bool)),
        Mask(torch.ones(3, HEADS, NODES, NODES, dtype=torch.bool)),
        Mask(torch.ones(1, BATCH, HEADS, NODES, NODES, dtype=torch.bool)),
        Lengths(torch.tensor([1, 2, 3])),
        Segments(torch.tensor([[0, 5]] * 3)),
        Causal() & Lengths(torch.tensor([1, 2, 3])),
    ],
    ids=["batch", "heads", "batch and heads", "an axis more", "lengths", "segments", "joined"],
)
def test_other_axes_are_refused_with_both_shapes(nodes, neighborhood):
    for module in (layer(), layer(ResidualBlock)):
        with pytest.raises(ShapeError, match=r"varies over axes .*batch axes \(2,\) and the layer 2 heads"):
            module(nodes, neighborhood=neighborhood)


def test_a_mask_of_another_batch_may_not_enlarge_one_member(nodes):
    with pytest.raises(ShapeError, match="varies over axes"):
        layer()(nodes[:1], neighborhood=Mask(torch.ones(3, NODES, NODES, dtype=torch.bool)))


def test_the_gated_layer_knows_its_axes_too(nodes):
    module = GatedGraphAttention(DIM, DIM, num_heads=HEADS).double()
    with pytest.raises(ShapeError, match="GatedGraphAttention: the neighborhood varies over axes"):
        module(nodes, Mask(torch.ones(3, NODES, NODES, dtype=torch.bool)))


class LowRank(Linear):
    """A layer as adapters put it in: the frozen product and a low-rank change."""

    def __init__(self, base):
        super().__init__(base.in_features, base.out_features)
        self.load_state_dict(base.state_dict())
        self.double()
        self.change = nn.Parameter(torch.randn(base.out_features, base.in_features, dtype=torch.float64))

    def forward(self, input):
        return super().forward(input) + input @ self.change.T


def old_weight_norm(linear):
    with pytest.warns(FutureWarning, match="weight_norm"):
        weight_norm(linear)
    linear.weight_g.data.mul_(2)
    return linear


def old_spectral_norm(linear):
    return spectral_norm(linear)


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


def parametrized(linear):
    parametrize.register_parametrization(linear, "weight", Doubled())
    return linear


def new_weight_norm(linear):
    parametrizations.weight_norm(linear)
    linear.parametrizations.weight.original0.data.mul_(2)
    return linear


def new_spectral_norm(linear):
    return parametrizations.spectral_norm(linear)


def pruned(linear):
    return prune.l1_unstructured(linear, "weight", 0.5)


def orthogonal(linear):
    return parametrizations.orthogonal(linear)


def hooked(linear):
    linear.register_forward_hook(lambda module, inputs, output: 2 * output)
    return linear


def hooked_before(linear):
    linear.register_forward_pre_hook(lambda module, inputs: (2 * inputs[0],))
    return linear


def overridden(linear):
    original = linear.forward
    linear.forward = lambda x: 2 * original(x)
    return linear


TOOLS = [
    *(LowRank, old_weight_norm, old_spectral_norm, parametrized, new_weight_norm, orthogonal),
    *(hooked, hooked_before, overridden, pruned, new_spectral_norm),
]


@pytest.mark.parametrize("tool", TOOLS, ids=lambda tool: tool.__name__)
@pytest.mark.parametrize("name", ["query", "key", "value"])
@pytest.mark.filterwarnings("ignore:.*spectral_norm:FutureWarning")
def test_what_a_user_puts_on_a_projection_is_obeyed_in_self_attention(nodes, name, tool):
    module = layer()
    plain = module(nodes)
    setattr(module, name, tool(getattr(module, name)))
    module.eval()
    changed = module(nodes)
    # A copy of the nodes is another tensor, so that each projection is called by itself.
    torch.testing.assert_close(changed, module(nodes, nodes.clone(), nodes.clone()))
    assert not torch.allclose(changed, plain)


def test_a_backward_hook_on_a_projection_is_called_in_self_attention(nodes):
    module, calls = layer(), []
    module.value.register_full_backward_hook(lambda *arguments: calls.append(1))
    module(nodes.requires_grad_()).sum().backward()
    assert calls == [1]


def test_projections_without_a_bias_are_joined(nodes):
    module = layer()
    module.key = nn.Linear(DIM, DIM, bias=False).double()
    torch.testing.assert_close(module(nodes), module(nodes, nodes.clone(), nodes.clone()))


@pytest.mark.parametrize("num_key_heads", [None, 1])
@pytest.mark.parametrize("neighborhood", [Full(), EDGES], ids=["full", "edges"])
def test_positions_of_each_member_are_those_of_the_member_alone(num_key_heads, neighborhood):
    torch.manual_seed(0)
    module = MultiHeadAttention(8, 4, num_key_heads=num_key_heads, position=ShawPosition(2, max_distance=3)).double()
    module.position.key.weight.data.normal_()
    module.position.value.weight.data.normal_()
    for batch in (4, 3):
        nodes = torch.randn(batch, NODES, 8, dtype=torch.float64)
        positions = torch.stack([torch.randperm(NODES) for _ in range(batch)])
        together = module(nodes, neighborhood=copy.copy(neighborhood), positions=positions)
        for member in range(batch):
            alone = module(nodes[member], neighborhood=neighborhood, positions=positions[member])
            torch.testing.assert_close(together[member], alone)


def test_pairs_listed_as_edges_refuse_a_neighborhood_per_member():
    """The remedy was to call `to_mask()`, on what was a mask."""
    module = MultiHeadAttention(8, 4, position=ShawPosition(2))
    padding = torch.tensor([[True, True, False], [True, True, True]])
    with pytest.raises(ShapeError, match=r"ShawPosition lists its pairs as edges.*call the layer for each member"):
        module(torch.randn(2, 3, 8), neighborhood=Mask(padding[:, None, :]))
