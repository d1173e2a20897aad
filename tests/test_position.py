"""Positions: by hand, what they do to symmetry, masks against edges, and decoding step by step against one pass."""

import math

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from edgewise import Causal, Edges, Full, SettingError, ShapeError, Window
from edgewise.layers import (
    ALiBi,
    Cache,
    LearnedPosition,
    MultiHeadAttention,
    RotaryPosition,
    ShawPosition,
    SinusoidalPosition,
    T5Position,
)

DIM, HEADS = 16, 4
PAIRS = {
    "rotary": lambda: RotaryPosition(4),
    "rotary_interleaved": lambda: RotaryPosition(4, planes="interleaved"),
    "rotary_in_part": lambda: RotaryPosition(4, turned_dim=2),
    "alibi": lambda: ALiBi(HEADS),
    "t5": lambda: T5Position(HEADS, num_buckets=8, max_distance=9),
    "t5_causal": lambda: T5Position(HEADS, num_buckets=4, max_distance=6, is_causal=True),
    "shaw": lambda: ShawPosition(4, max_distance=3),
}


def layer(kind, **options):
    """An attention whose positions matter: what is learned of them is drawn large."""
    torch.manual_seed(0)
    made = MultiHeadAttention(DIM, HEADS, position=PAIRS[kind](), **options).double()
    for name, parameter in made.named_parameters():
        if "position" in name:
            torch.nn.init.normal_(parameter)
    return made


def nodes(*batch, number=9, seed=1):
    return torch.randn(*batch, number, DIM, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_sines_and_cosines_by_hand():
    added = SinusoidalPosition(4, base=100.0)(torch.zeros(3, 4))
    expected = [[math.sin(t), math.cos(t), math.sin(t / 10), math.cos(t / 10)] for t in range(3)]
    torch.testing.assert_close(added, torch.tensor(expected))
    torch.testing.assert_close(
        SinusoidalPosition(3)(torch.zeros(2, 3))[1, 2], torch.tensor(math.sin(10_000 ** (-2 / 3)))
    )


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's own, of forward derivatives
@pytest.mark.parametrize("planes", ["half", "interleaved"])
def test_turning_by_hand_and_its_derivatives(planes, shapes_unchecked):
    """Two planes of four features; the gradient is turned back, in every way that torch asks for it."""
    position = RotaryPosition(5, planes=planes, turned_dim=4, base=100.0).double()
    x = nodes(2, number=3)[..., :5].clone().requires_grad_()
    places = torch.tensor([[0, 1, 7], [2, 0, 1]])
    expected = x.detach().clone()
    for batch, node in ((b, n) for b in range(2) for n in range(3)):
        for plane, (i, j) in enumerate([(0, 2), (1, 3)] if planes == "half" else [(0, 1), (2, 3)]):
            angle = float(places[batch, node]) / 100 ** (2 * plane / 4)
            a, b = x[batch, node, [i, j]].tolist()
            expected[batch, node, i] = a * math.cos(angle) - b * math.sin(angle)
            expected[batch, node, j] = b * math.cos(angle) + a * math.sin(angle)
    torch.testing.assert_close(position.turned(x, places), expected)
    for given in (x, x[0]):  # one sequence at the positions of two, too
        point = given.detach().requires_grad_()
        assert torch.autograd.gradcheck(lambda part: position.turned(part, places), point, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(lambda part: position.turned(part, places), x)
    by_sample = torch.func.vmap(position.turned)(x, places)
    torch.testing.assert_close(by_sample, expected)


def test_positions_may_be_given():
    for position in (SinusoidalPosition(6), LearnedPosition(9, 6)):
        x = torch.randn(5, 6)
        given = position(x, torch.tensor([3, 0, 1, 8, 3]))
        by_default = position(torch.zeros(9, 6))
        torch.testing.assert_close(given, x + by_default[[3, 0, 1, 8, 3]])


def test_a_sequence_longer_than_what_was_learned():
    with pytest.raises(ShapeError, match="5 nodes, but only 4 positions were learned"):
        LearnedPosition(4, 6)(torch.zeros(5, 6))


def test_rotary_by_hand():
    """One plane, one radian a position: (1, 0) at position t becomes (cos t, sin t)."""
    turned = RotaryPosition(2).turned(torch.tensor([[1.0, 0.0]] * 3), torch.arange(3))
    torch.testing.assert_close(turned, torch.tensor([[math.cos(t), math.sin(t)] for t in range(3)]))


def test_the_two_layouts_of_planes_are_one_up_to_the_order_of_features():
    x, positions = torch.randn(7, 8), torch.arange(7)
    order = [0, 4, 1, 5, 2, 6, 3, 7]  # the halves, interleaved
    half = RotaryPosition(8).turned(x, positions)
    torch.testing.assert_close(RotaryPosition(8, planes="interleaved").turned(x[:, order], positions), half[:, order])


def test_rotary_leaves_the_features_it_does_not_turn():
    x = torch.randn(7, 8)
    turned = RotaryPosition(8, turned_dim=4).turned(x, torch.arange(7))
    torch.testing.assert_close(turned[:, :4], RotaryPosition(4).turned(x[:, :4], torch.arange(7)))
    assert torch.equal(turned[:, 4:], x[:, 4:])


def test_the_slopes_of_alibi_as_published():
    assert ALiBi(8).slopes().tolist() == [2.0**-n for n in range(1, 9)]
    expected = [2.0**-n for n in range(1, 9)] + [2.0 ** (-n / 2) for n in (1, 3, 5, 7)]
    torch.testing.assert_close(ALiBi(12).slopes(), torch.tensor(expected))
    torch.testing.assert_close(ALiBi(8).bias(torch.tensor([-3, 2]))[:, 0], torch.tensor([-1.5, -1.0]))


def test_the_buckets_of_t5_by_hand():
    """16 buckets a side: distances 0 to 7 have their own, then logarithmically up to 128."""
    position = T5Position(2)
    distance = torch.tensor([0, -1, -7, -8, -16, -64, -127, -128, -1000, 1, 8, 1000])
    assert position.bucket(distance).tolist() == [0, 1, 7, 8, 10, 14, 15, 15, 15, 17, 24, 31]
    causal = T5Position(2, is_causal=True)
    assert causal.bucket(torch.tensor([3, 0, -1, -15, -16, -127])).tolist() == [0, 0, 1, 15, 16, 31]


def test_shaw_by_hand():
    """The two sums of the paper, pair by pair."""
    attention = layer("shaw")
    x, position = nodes(number=6), attention.position
    query, key, value = (
        part(x).unflatten(-1, (HEADS, 4)) for part in (attention.query, attention.key, attention.value)
    )
    place = torch.tensor([[min(max(j - i, -3), 3) + 3 for j in range(6)] for i in range(6)])
    to_key, to_value = position.key.weight[place], position.value.weight[place]
    scores = torch.einsum("ihd,jhd->hij", query, key) + torch.einsum("ihd,ijd->hij", query, to_key)
    weights = (scores / 2).softmax(-1)
    heads = torch.einsum("hij,jhd->ihd", weights, value) + torch.einsum("hij,ijd->ihd", weights, to_value)
    torch.testing.assert_close(attention(x), attention.output(heads.flatten(1)))


@pytest.mark.parametrize("kind", PAIRS)
def test_only_distances_count(kind):
    attention, x = layer(kind), nodes()
    torch.testing.assert_close(attention(x, positions=torch.arange(9) + 50), attention(x))


@pytest.mark.parametrize("kind", PAIRS)
def test_permutations_are_seen_unless_positions_go_along(kind):
    attention, x = layer(kind), nodes()
    order = torch.randperm(9, generator=torch.Generator().manual_seed(3))
    expected = attention(x)[order]
    torch.testing.assert_close(attention(x[order], positions=order), expected)
    assert not torch.allclose(attention(x[order]), expected)


def test_without_positions_self_attention_is_permutation_equivariant():
    torch.manual_seed(0)
    attention, x, order = MultiHeadAttention(DIM, HEADS).double(), nodes(), torch.randperm(9)
    torch.testing.assert_close(attention(x[order]), attention(x)[order])


@pytest.mark.parametrize("neighborhood", [Causal(), Window(2, 1), Full()], ids=str)
@pytest.mark.parametrize("num_key_heads", [4, 2, 1])
@pytest.mark.parametrize("kind", PAIRS)
def test_ranges_and_their_edges_give_the_same_numbers(kind, num_key_heads, neighborhood):
    attention, x = layer(kind, num_key_heads=num_key_heads), nodes()
    torch.testing.assert_close(
        attention(x, neighborhood=neighborhood), attention(x, neighborhood=neighborhood.to_edges(9))
    )


@pytest.mark.parametrize("neighborhood", [Causal(), Window(3, 0)], ids=str)
@pytest.mark.parametrize("num_key_heads", [4, 2])
@pytest.mark.parametrize("kind", PAIRS)
def test_decoding_step_by_step_equals_one_pass(kind, num_key_heads, neighborhood):
    attention, x = layer(kind, num_key_heads=num_key_heads), nodes(number=20)
    expected = attention(x, neighborhood=neighborhood)
    with torch.no_grad():
        for steps in ([20], [1] * 20, [7, 1, 1, 11]):
            cache, found = Cache(), []
            for part in x.split(steps):
                found.append(attention(part, neighborhood=neighborhood, cache=cache.of_layer(0)))
            torch.testing.assert_close(torch.cat(found), expected)
            assert cache.length == 20


def test_what_a_cache_holds_carries_no_gradient():
    """Each step has its own backward pass, whatever was written to the cache since; earlier keys and values are
    constants."""
    attention, x = layer("rotary"), nodes(number=20)
    layer_cache, outputs = Cache().of_layer(0), []
    for part in x.split(1):
        outputs.append(attention(part, neighborhood=Causal(), cache=layer_cache))
    assert layer_cache.keys.grad_fn is None and layer_cache.values.grad_fn is None
    for out in outputs:
        out.sum().backward()
    assert attention.query.weight.grad.abs().sum() > 0

    source_cache = Cache().of_source(0)
    MultiHeadAttention(DIM, HEADS).double()(x, nodes(number=4), cache=source_cache)
    assert source_cache.keys.grad_fn is None and source_cache.values.grad_fn is None


@torch.no_grad()
@pytest.mark.parametrize("is_source", [True, False])
def test_a_cache_without_a_position_takes_more_queries_than_keys(is_source):
    attention, x, source = MultiHeadAttention(DIM, HEADS).double(), nodes(number=6), nodes(number=4)
    cache = Cache()
    layer_cache = cache.of_source(0) if is_source else cache.of_layer(0)
    torch.testing.assert_close(attention(x, source, cache=layer_cache), attention(x, source))


def batched(count):
    """Positions that are those of every member, and of each its own."""
    return torch.arange(count) + 2, torch.stack([torch.arange(count), torch.arange(count) * 2])


@torch.no_grad()
@pytest.mark.parametrize("num_key_heads", [4, 2])
@pytest.mark.parametrize("kind", PAIRS)
def test_a_fixed_cache_serves_every_call_alike(kind, num_key_heads):
    """From the second call on queries were not turned, and biases and vectors of pairs were left out."""
    attention, source = layer(kind, num_key_heads=num_key_heads), nodes(2, number=7)
    for places, key_places in zip(batched(3), batched(7)):
        cache = Cache().of_source(0)
        for seed in (2, 3):  # positions of keys are those of the first call
            x, options = nodes(2, number=3, seed=seed), {"positions": places}
            expected = attention(x, source, **options, key_positions=key_places)
            options |= {"key_positions": key_places} if seed == 2 else {}
            torch.testing.assert_close(attention(x, source, **options, cache=cache), expected)


@torch.no_grad()
@pytest.mark.parametrize("kind", [None, "alibi", "shaw"])
def test_a_fixed_cache_leaves_features_of_edges_in(kind):
    position = None if kind is None else PAIRS[kind]()
    attention = MultiHeadAttention(DIM, HEADS, edge_dim=3, position=position).double()
    x, source, cache = nodes(number=3), nodes(number=4, seed=2), Cache().of_source(0)
    edges = Edges(torch.tensor([0, 1, 3, 3]), torch.tensor([0, 0, 1, 2]), 4, 3)
    for seed in (4, 5):
        features = torch.randn(4, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
        expected = attention(x, source, neighborhood=edges, edge_features=features)
        found = attention(x, source, neighborhood=edges, edge_features=features, cache=cache)
        torch.testing.assert_close(found, expected)


def test_each_member_of_a_batch_may_have_positions_of_its_own():
    for kind in ("rotary", "alibi", "t5"):
        attention, x = layer(kind), nodes(3)
        positions = torch.stack([torch.arange(9), torch.arange(9) * 2, torch.arange(9).flip(0)])
        found = attention(x, positions=positions)
        for member in range(3):
            torch.testing.assert_close(found[member], attention(x[member], positions=positions[member]))


def test_beams_of_a_cache_change_places():
    attention, x = layer("rotary"), nodes(3, number=6)
    order = torch.tensor([2, 0, 2])
    with torch.no_grad():
        expected = attention(x[order], neighborhood=Causal())[:, 5:]
        cache = Cache()
        attention(x[:, :5], neighborhood=Causal(), cache=cache.of_layer(0))
        cache.reorder(order)
        torch.testing.assert_close(attention(x[order, 5:], neighborhood=Causal(), cache=cache.of_layer(0)), expected)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["rotary", "alibi", "shaw"])
def test_beams_take_their_own_positions_along(kind):
    """Members start at places of their own, as after padding at the start; nodes that come later may or may not."""
    attention, x = layer(kind), nodes(3, number=6)
    order = torch.tensor([2, 0, 2])
    positions = torch.stack([torch.arange(6), torch.arange(6) * 2, torch.arange(6).flip(0)])
    if kind == "shaw":  # pairs are one list for all members, and so are their distances
        positions = positions[1]
    for first in (positions[..., :4], torch.arange(4)):
        own = torch.cat([first.expand(*positions.shape[:-1], 4), positions[..., 4:]], -1)
        members = own if own.dim() == 1 else own[order]
        expected = attention(x[order], neighborhood=Causal(), positions=members)
        cache = Cache()
        attention(x[:, :4], neighborhood=Causal(), positions=first, cache=cache.of_layer(0))
        cache.reorder(order)
        for at in (4, 5):
            step = members[..., at : at + 1]
            found = attention(x[order, at : at + 1], neighborhood=Causal(), positions=step, cache=cache.of_layer(0))
            torch.testing.assert_close(found, expected[:, at : at + 1])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RotaryPosition(5), "two by two"),
        (lambda: RotaryPosition(4, turned_dim=6), "6 of 4 features"),
        (lambda: RotaryPosition(4, planes="odd"), "'half' or 'interleaved'"),
        (lambda: T5Position(2, num_buckets=7), "must be even"),
        (lambda: T5Position(2, max_distance=32), "larger"),
        (lambda: ShawPosition(4, max_distance=-1), "at least 0"),
        (lambda: ShawPosition(-4), "ShawPosition: key_dim must be a whole number of at least 1, not -4"),
        (lambda: RotaryPosition(4.0), "RotaryPosition: key_dim must be a whole number"),
        (lambda: T5Position(-1), "T5Position: num_heads must be a whole number of at least 1"),
        (lambda: T5Position(2, num_buckets=0), "num_buckets must be a whole number of at least 1"),
        (lambda: ALiBi(0), "ALiBi: num_heads must be a whole number of at least 1, not 0"),
        (lambda: ALiBi(2.5), "ALiBi: num_heads"),
        (lambda: LearnedPosition(-1, 8), "LearnedPosition: num_positions"),
        (lambda: SinusoidalPosition(0), "SinusoidalPosition: model_dim"),
    ],
)
def test_positions_that_cannot_be(make, message, shapes_unchecked):
    with pytest.raises(SettingError, match=message):
        make()


@pytest.mark.parametrize(
    ("position", "message"),
    [
        (RotaryPosition(8), "heads have 4 features, but key_dim is 8"),
        (RotaryPosition(2), "heads have 4 features, but key_dim is 2"),
        (ALiBi(3), "MultiHeadAttention: ALiBi is for 3 heads, but the layer has 4"),
        (T5Position(1), "MultiHeadAttention: T5Position is for 1 head, but the layer has 4"),
    ],
)
def test_positions_of_another_layer(position, message):
    with pytest.raises(ShapeError, match=message):
        MultiHeadAttention(DIM, HEADS, position=position)(nodes().float())


def test_positions_that_were_not_learned():
    for positions in (torch.tensor([0, 9]), torch.tensor([-1, 0])):
        with pytest.raises(ShapeError, match="LearnedPosition: positions must lie in 0 … 8; found"):
            LearnedPosition(9, 4)(torch.zeros(2, 4), positions)


@pytest.mark.parametrize("dtype", [torch.bool, torch.float32, torch.complex64])
@pytest.mark.parametrize("position", ["alibi", "rotary"])
def test_positions_are_whole_numbers(position, dtype, shapes_unchecked):
    """A mask in their place was taken for 0 and 1, or failed in torch."""
    attention = layer(position)
    with pytest.raises(ShapeError, match=rf"positions must be whole numbers \(\*batch, 5\), .* not {dtype}"):
        attention(nodes()[..., :5, :], positions=torch.ones(5, dtype=dtype))


def test_more_queries_than_keys_need_positions():
    attention = layer("alibi")
    with pytest.raises(ShapeError, match="9 queries and 4 keys"):
        attention(nodes(), nodes(number=4))


FAR = torch.arange(99_990, 100_010)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_leaves_angles_and_slopes_alone(dtype):
    """At position 100,000 a module in half precision gives what the same module in float32 does, rounded."""
    x = torch.randn(20, 64, generator=torch.Generator().manual_seed(2)).to(dtype)
    eps = torch.finfo(dtype).eps
    for planes in ("half", "interleaved"):
        turned = RotaryPosition(64, planes=planes).to(dtype).turned(x, FAR)
        expected = RotaryPosition(64, planes=planes).turned(x.float(), FAR)
        assert turned.dtype == dtype
        # Cosine, sine, two products and a sum are rounded, by eps / 2 each.
        torch.testing.assert_close(turned.float(), expected, atol=2.5 * eps * float(x.abs().max()), rtol=0)
    waves = SinusoidalPosition(64).to(dtype)(torch.zeros(20, 64, dtype=dtype), FAR)
    torch.testing.assert_close(waves.float(), SinusoidalPosition(64)(torch.zeros(20, 64), FAR), atol=eps, rtol=0)
    for position, heads in ((ALiBi(12), 12), (T5Position(4), 4)):
        expected = position.bias(-FAR)
        found = position.to(dtype).bias(-FAR)
        assert found.shape == (20, heads)
        rounded = 0.0 if heads == 12 else eps  # the numbers of T5's buckets are parameters, and so rounded
        torch.testing.assert_close(found.float(), expected, atol=0, rtol=rounded)
    # And back: nothing was lost on the way.
    there_and_back = RotaryPosition(64).to(dtype).float().turned(x.float(), FAR)
    assert torch.equal(there_and_back, RotaryPosition(64).turned(x.float(), FAR))


def test_angles_in_float32_are_as_exact_as_stated():
    """2⁻²³ of the angle, as the docstring says; sines and cosines of it add a rounding each."""
    x = torch.randn(20, 64, generator=torch.Generator().manual_seed(3))
    rates = 10_000 ** (-torch.arange(0, 64, 2, dtype=torch.float64) / 64)
    bound = 2**-23 * (FAR[:, None] * rates + 4)
    length = (x[:, :32].double().square() + x[:, 32:].double().square()).sqrt()
    position = RotaryPosition(64)
    error = (position.turned(x, FAR).double() - position.turned(x.double(), FAR)).abs()
    assert (torch.maximum(error[:, :32], error[:, 32:]) <= bound * length).all()
    zeros = torch.zeros(20, 64)
    error = (SinusoidalPosition(64)(zeros, FAR).double() - SinusoidalPosition(64)(zeros.double(), FAR)).abs()
    assert (torch.maximum(error[:, 0::2], error[:, 1::2]) <= bound).all()


@pytest.mark.parametrize("kind", ["rotary", "alibi", "t5"])
@torch.no_grad()
def test_a_layer_in_bfloat16_far_from_the_start(kind):
    """Only distances matter: at position 100,000 the layer is as far from float32 as at position 0."""
    attention = layer(kind).bfloat16()
    exact = layer(kind).float()
    exact.load_state_dict(attention.state_dict())
    x = nodes(number=20).bfloat16()
    errors = []
    for positions in (torch.arange(20), FAR):
        found = attention(x, neighborhood=Window(8, 0), positions=positions).float()
        errors.append(float((found - exact(x.float(), neighborhood=Window(8, 0), positions=positions)).norm()))
    assert errors[1] <= 2 * errors[0]


def test_waves_that_are_kept_serve_inference_and_training_in_any_order():
    """What inference mode made cannot take part in a training; what a tracer made holds no numbers."""
    position, places = RotaryPosition(4), torch.arange(3)
    x = torch.randn(2, 3, 4, requires_grad=True)
    with torch.inference_mode():
        expected = position.turned(x, places)
    with FakeTensorMode() as mode:
        assert position.turned(mode.from_tensor(x), mode.from_tensor(places)).shape == x.shape
    found = position.turned(x, places)
    torch.testing.assert_close(found, expected)
    found.square().sum().backward()
    torch.testing.assert_close(x.grad, 2 * x.detach())  # a rotation keeps lengths
    others = torch.tensor([2, 0, 5])
    torch.testing.assert_close(position.turned(x, others), RotaryPosition(4).turned(x, others))
