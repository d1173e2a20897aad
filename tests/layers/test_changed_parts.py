"""What a user puts on a part of a layer, or in its place, is obeyed by every layer."""

import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrizations, parametrize, prune, weight_norm

import edgewise.layers as L
from edgewise import Causal, Mask, ShapeError
from edgewise.layers import MultiHeadAttention, RotaryPosition
from edgewise.layers.cache import LayerCache
from edgewise.layers.dropout import FeedForward
from edgewise.layers.recurrent import CELLS
from edgewise.learn.networks.head import ModulatedBlock
from layer_cases import CASES, DIM, EDGES, NODES, drawn, ready

TABLES = (nn.Linear, nn.Embedding)


def called(name, layer):
    return CASES[name].call(layer, drawn(2, NODES, DIM), EDGES)


def tables(layer):
    """The names of all linear layers and embeddings; of several attentions side by side those of the first."""
    names = [name for name, part in layer.named_modules() if isinstance(part, TABLES)]
    return [name for name in names if not name.startswith(("from_input.1", "from_input.2", "from_state."))]


def replaced(layer, name, part):
    parent, _, last = name.rpartition(".")
    setattr(layer.get_submodule(parent), last, part)


def twice(layer, name):
    """The layer with all numbers of a part doubled, which is what each of the tools does."""
    for parameter in layer.get_submodule(name).parameters():
        parameter.data.mul_(2)
    return layer


class Doubled(nn.Module):
    def forward(self, weight):
        return 2 * weight


class Wrapped(nn.Module):
    """As adapters wrap a layer: it has no weight and no sizes of its own."""

    def __init__(self, base):
        super().__init__()
        self.base = base

    def forward(self, input):
        return self.base(input) + self.base(input)


def hooked(layer, name):
    layer.get_submodule(name).register_forward_hook(lambda part, inputs, output: 2 * output)


def overridden(layer, name):
    part = layer.get_submodule(name)
    original = part.forward
    part.forward = lambda x: 2 * original(x)


def parametrized(layer, name):
    part = layer.get_submodule(name)
    for field in [name for name, _ in part.named_parameters(recurse=False)]:
        parametrize.register_parametrization(part, field, Doubled())


def new_weight_norm(layer, name):
    part = layer.get_submodule(name)
    parametrizations.weight_norm(part)
    part.parametrizations.weight.original0.data.mul_(2)
    if getattr(part, "bias", None) is not None:
        part.bias.data.mul_(2)


def old_weight_norm(layer, name):
    part = layer.get_submodule(name)
    weight_norm(part)
    part.weight_g.data.mul_(2)
    if getattr(part, "bias", None) is not None:
        part.bias.data.mul_(2)


def subclassed(layer, name):
    """A layer of low rank as adapters put it in: a subclass with a frozen product, and a change beside it."""
    part = layer.get_submodule(name)

    class Adapted(type(part)):
        def forward(self, input):
            return super().forward(input) + super().forward(input)

    part.__class__ = Adapted


def wrapped(layer, name):
    replaced(layer, name, Wrapped(layer.get_submodule(name)))


TOOLS = [hooked, overridden, parametrized, new_weight_norm, old_weight_norm, subclassed, wrapped]


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("name", CASES)
def test_every_linear_layer_and_embedding_is_called(name):
    plain = called(name, ready(name))
    for part in tables(ready(name)):
        expected = called(name, twice(ready(name), part))
        assert not torch.allclose(expected, plain), part
        for tool in TOOLS:
            layer = ready(name)
            tool(layer, part)
            torch.testing.assert_close(called(name, layer), expected, msg=f"{part} is read past {tool.__name__}")


@pytest.mark.usefixtures("shapes_unchecked")
@pytest.mark.parametrize("name", [name for name in CASES if tables(ready(name))])
def test_hooks_on_all_modules_see_every_linear_layer(name):
    layer, seen = ready(name), set()
    hook = nn.modules.module.register_module_forward_hook(lambda part, inputs, output: seen.add(id(part)))
    try:
        called(name, layer)
    finally:
        hook.remove()
    assert {part for part in tables(layer) if id(layer.get_submodule(part)) not in seen} == set()


@pytest.mark.parametrize("look", ["bahdanau", "general"])
@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("input_feeding", [True, False])
def test_a_changed_cell_of_a_decoder_is_called(cell, look, input_feeding):
    torch.manual_seed(0)
    plain = L.RecurrentDecoder(DIM, 6, DIM, cell=cell, score=look, input_feeding=input_feeding).double()
    words, source = drawn(2, 4, DIM), drawn(2, NODES, DIM)
    hooked, seen = copy.deepcopy(plain), []
    hooked.cell.register_forward_hook(lambda part, inputs, output: seen.append(part))
    torch.testing.assert_close(hooked(words, source), plain(words, source))
    assert len(seen) == 4
    for field in ("weight_ih", "weight_hh"):
        changed, expected = copy.deepcopy(plain), copy.deepcopy(plain)
        parametrize.register_parametrization(changed.cell, field, Doubled())
        getattr(expected.cell, field).data.mul_(2)
        torch.testing.assert_close(changed(words, source), expected(words, source))
        assert not torch.allclose(changed(words, source), plain(words, source))


class Shifted(nn.Dropout):
    def forward(self, input):
        return input + 1


def test_dropout_and_activation_of_a_network_are_called_where_they_were_changed():
    torch.manual_seed(0)
    block = FeedForward(nn.Linear(4, 6), nn.ReLU(), nn.Dropout(0.0), nn.Linear(6, 4), "relu").eval()
    x = torch.randn(3, 4)
    hidden = block[0](x)
    assert torch.equal(block(x), block[3](hidden.relu()))
    for place, part, expected in (
        (2, Shifted(), block[3](hidden.relu() + 1)),
        (1, nn.Tanh(), block[3](hidden.tanh())),
    ):
        changed = copy.deepcopy(block)
        changed[place] = part
        torch.testing.assert_close(changed(x), expected)
    changed = copy.deepcopy(block)
    changed[1].register_forward_hook(lambda part, inputs, output: 2 * output)
    torch.testing.assert_close(changed(x), block[3](2 * hidden.relu()))
    modulated = ModulatedBlock(4, 0, 0.0).eval()
    rows = torch.randn(3, 1, 4)
    before = modulated(rows, None)
    modulated.dropout.register_forward_hook(lambda part, inputs, output: 2 * output)
    torch.testing.assert_close(
        modulated(rows, None) - rows - modulated.second.bias, 2 * (before - rows - modulated.second.bias)
    )


@pytest.mark.parametrize("score", ["gat", "gatv2", "additive", "bilinear", "distance"])
def test_tools_of_torch_on_learned_scores(score):
    layer, nodes = MultiHeadAttention(8, 2, score=score), torch.randn(5, 8)
    before, name = layer(nodes), layer.score.names[0]
    prune.random_unstructured(layer.score, name, 1.0)
    assert not torch.equal(layer(nodes), before)
    prune.remove(layer.score, name)

    class Doubled(torch.nn.Module):
        def forward(self, tensor):
            return 2 * tensor + 1

    parametrize.register_parametrization(layer.score, name, Doubled())
    assert layer(nodes).shape == (5, 8)


def test_angles_follow_the_settings_of_now_and_are_not_saved(tmp_path):
    positions, nodes = torch.arange(64), torch.randn(1, 64, 4)
    position = RotaryPosition(4)
    position.turned(nodes, positions)
    position.base = 500.0
    wanted = RotaryPosition(4, base=500.0).turned(nodes, positions)
    torch.testing.assert_close(position.turned(nodes, positions), wanted)
    assert pickle.loads(pickle.dumps(position)).kept is None


def test_a_call_that_fails_leaves_the_cache_as_it_was():
    """The nodes of a call with a wrong mask stayed, and all later calls saw them."""
    layer, nodes = MultiHeadAttention(8, 2, position=RotaryPosition(4)), torch.randn(2, 5, 8)
    cache = LayerCache()
    layer(nodes[:, :3], neighborhood=Causal(), cache=cache)
    with pytest.raises(ShapeError, match="axis 'key' is 4 in key but 3 in Mask"):
        layer(nodes[:, 3:4], neighborhood=Mask(torch.ones(1, 3, dtype=torch.bool)), cache=cache)
    found = layer(nodes[:, 3:], neighborhood=Causal(), cache=cache)
    torch.testing.assert_close(found, layer(nodes, neighborhood=Causal())[:, 3:])


@pytest.mark.parametrize(
    ("sizes", "message"), [({"key_dim": 3}, "keys of size 4"), ({"value_dim": 1}, "values of size 4")]
)
def test_a_cache_belongs_to_layers_of_one_size(sizes, message):
    nodes, cache = torch.randn(5, 8), LayerCache()
    MultiHeadAttention(8, 2)(nodes, neighborhood=Causal(), cache=cache)
    with pytest.raises(ShapeError, match=f"LayerCache: it holds {message}, and these have"):
        MultiHeadAttention(8, 2, **sizes)(nodes, neighborhood=Causal(), cache=cache)
    assert cache.length == 5


def test_a_fixed_cache_belongs_to_one_source():
    """A source of other length was replaced by the first one."""
    layer, cache = MultiHeadAttention(8, 2), LayerCache(is_fixed=True)
    layer(torch.randn(2, 1, 8), torch.randn(2, 4, 8), cache=cache)
    with pytest.raises(ShapeError, match="the fixed cache stores 4 keys, but key has 7; take a new cache"):
        layer(torch.randn(2, 1, 8), torch.randn(2, 7, 8), cache=cache)


@pytest.mark.parametrize("is_fixed", [False, True])
def test_a_call_with_a_cache_has_the_gradients_of_one_without(is_fixed):
    """The projections of keys and values had none: the cache returned the copies that it stores."""
    layer, nodes = MultiHeadAttention(8, 2), torch.randn(2, 5, 8)
    layer(nodes, neighborhood=Causal()).square().sum().backward()
    expected = {name: weight.grad.clone() for name, weight in layer.named_parameters()}
    layer.zero_grad()
    cache = LayerCache(is_fixed)
    layer(nodes, neighborhood=Causal(), cache=cache).square().sum().backward()
    torch.testing.assert_close({name: weight.grad for name, weight in layer.named_parameters()}, expected)
    assert not cache.keys.requires_grad and not cache.values.requires_grad


def test_gradients_of_a_later_call_reach_its_own_keys_and_values_only():
    layer = MultiHeadAttention(8, 2)
    first, second = torch.randn(2, 3, 8, requires_grad=True), torch.randn(2, 2, 8, requires_grad=True)
    cache = LayerCache()
    layer(first, neighborhood=Causal(), cache=cache)
    layer(second, neighborhood=Causal(), cache=cache).square().sum().backward()
    of_call = second.grad.clone()

    second.grad = None
    whole = layer(second, torch.cat([first.detach(), second], dim=1), neighborhood=Causal())
    whole.square().sum().backward()
    torch.testing.assert_close(of_call, second.grad)
    assert first.grad is None


@pytest.mark.parametrize(
    "modes", [(torch.inference_mode, torch.no_grad), (torch.no_grad, torch.inference_mode)], ids=["out", "into"]
)
def test_a_cache_goes_on_outside_inference_mode(modes):
    """What was filled within it could not be written after it."""
    layer, nodes = MultiHeadAttention(8, 2, position=RotaryPosition(4)), torch.randn(2, 5, 8)
    cache, steps = LayerCache(), (nodes[:, :3], nodes[:, 3:])
    parts = []
    for mode, step in zip(modes, steps, strict=True):
        with mode():
            parts.append(layer(step, neighborhood=Causal(), cache=cache))
    torch.testing.assert_close(torch.cat(parts, 1), layer(nodes, neighborhood=Causal()).detach())


def test_a_cache_belongs_to_one_batch():
    layer, cache = MultiHeadAttention(8, 2), LayerCache()
    layer(torch.randn(4, 3, 8), neighborhood=Causal(), cache=cache)
    with pytest.raises(ShapeError, match=r"batch and heads \(4, 2\), and these have \(1, 2\)"):
        layer(torch.randn(1, 1, 8), neighborhood=Causal(), cache=cache)
    assert layer(torch.randn(4, 1, 8), neighborhood=Causal(), cache=cache).shape == (4, 1, 8)
