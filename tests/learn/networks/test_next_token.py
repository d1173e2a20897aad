"""A model of a text: what it may see, packing, decoding with a cache, and how tokens are drawn."""

import math
from dataclasses import replace

import pytest
import torch

from edgewise import SettingError, ShapeError
from edgewise.choices import POSITIONS
from edgewise.layers import Cache
from edgewise.learn.batches.tokens import TokenBatch
from edgewise.learn.networks.generate import generate, next_token
from edgewise.learn.networks.language import NextTokenModel
from edgewise.learn.networks.text_settings import CONFIGURATIONS, SamplingSettings, TransformerSettings

SMALL = TransformerSettings(num_layers=2, num_heads=2, model_dim=8, context=32)
SCORES = torch.tensor([2.0, 1.0, 0.0, -1.0])


def model_of(**changes):
    torch.manual_seed(0)
    model = NextTokenModel(11, replace(SMALL, **changes)).eval()
    for parameter in model.parameters():  # far from the start, where all scores are nearly alike
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.5)
    return model


def text(*shape, seed=1):
    return torch.randint(11, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("position", POSITIONS)
def test_no_token_sees_a_later_one(position):
    model, tokens = model_of(position=position), text(12)
    other = tokens.clone()
    other[7:] = (other[7:] + 1) % 11
    before, after = model(TokenBatch(tokens)), model(TokenBatch(other))
    torch.testing.assert_close(before[:7], after[:7])
    assert not torch.allclose(before[7:], after[7:])


def test_a_window_reaches_as_far_as_it_says_in_each_layer():
    model, tokens = model_of(window=3), text(12)
    other = tokens.clone()
    other[0] = (other[0] + 1) % 11
    before, after = model(TokenBatch(tokens)), model(TokenBatch(other))
    assert not torch.allclose(before[4], after[4])  # two layers of two tokens back
    torch.testing.assert_close(before[5:], after[5:])


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("window", [None, 4])
def test_packed_texts_are_texts_apart(position, window):
    model, texts = model_of(position=position, window=window), [text(5), text(1, seed=2), text(9, seed=3)]
    offsets = torch.tensor([0, 5, 6, 15])
    packed = model(TokenBatch(torch.cat(texts), offsets=offsets))
    torch.testing.assert_close(packed, torch.cat([model(TokenBatch(each)) for each in texts]))


@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("changes", [{}, {"window": 4}, {"num_key_heads": 1}, {"norm": "post"}], ids=str)
def test_decoding_with_a_cache_equals_one_pass(position, changes):
    model, tokens = model_of(position=position, **changes), text(3, 20)
    if position == "shaw":
        tokens = tokens[:1]
    with torch.no_grad():
        expected, cache = model(TokenBatch(tokens)), Cache()
        found = [model.scores(model.nodes(part, cache=cache)) for part in tokens.split([6, 1, 1, 12], -1)]
    torch.testing.assert_close(torch.cat(found, -2), expected)


def test_positions_that_were_not_learned():
    model = model_of(position="learned", context=8)
    with pytest.raises(ShapeError, match="9 tokens, but only 8 positions were learned"):
        model(TokenBatch(text(9)))


def test_the_configurations_of_gpt2_have_their_sizes():
    """124 million parameters, as published."""
    with torch.device("meta"):
        model = NextTokenModel(50_257, CONFIGURATIONS["gpt2"])
    assert sum(parameter.numel() for parameter in model.parameters()) == 124_439_808


@pytest.mark.parametrize("position", ["rotary", "learned"])
def test_the_likeliest_tokens_by_asking_again_each_time(position):
    model = model_of(position=position, context=8)
    prompt = text(3)
    found = list(generate(model, prompt, SamplingSettings(num_tokens=5, temperature=0)))
    tokens = prompt
    for _ in range(5):
        tokens = torch.cat([tokens, model(TokenBatch(tokens))[-1].argmax(keepdim=True)])
    assert found == tokens[3:].tolist()


def test_writing_goes_on_where_positions_end():
    model = model_of(position="learned", context=8)
    assert len(list(generate(model, text(20), SamplingSettings(num_tokens=30)))) == 30


def test_writing_stops_at_the_end_of_the_text():
    model = model_of()
    settings = SamplingSettings(num_tokens=9, temperature=0)
    written = list(generate(model, text(3), settings))
    assert list(generate(model, text(3), settings, end_token=written[4])) == written[: written.index(written[4])]


def test_what_must_not_be_written_is_not():
    model, settings = model_of(), SamplingSettings(num_tokens=60)
    assert set(generate(model, text(3), settings, forbidden=[0, 4])) <= set(range(11)) - {0, 4}


def test_the_same_seed_writes_the_same():
    model = model_of()
    first, again, other = (list(generate(model, text(3), SamplingSettings(30, seed=seed))) for seed in (1, 1, 2))
    assert first == again != other


def draws(count=4000, **settings):
    generator, found = torch.Generator().manual_seed(0), torch.zeros(4)
    for _ in range(count):
        found[next_token(SCORES, torch.tensor([0, 3]), SamplingSettings(**settings), generator)] += 1
    return found / count


@pytest.mark.parametrize(
    ("settings", "kept", "scores"),
    [
        ({}, [0, 1, 2, 3], SCORES),
        ({"temperature": 2.0}, [0, 1, 2, 3], SCORES / 2),
        ({"top_k": 2}, [0, 1], SCORES),
        ({"top_p": 0.7}, [0, 1], SCORES),  # 0.64, 0.24, 0.09, 0.03
        ({"top_p": 0.6}, [0], SCORES),
        ({"repetition_penalty": 2.0}, [0, 1, 2, 3], torch.tensor([1.0, 1.0, 0.0, -2.0])),
        ({"temperature": 0.0}, [0], SCORES),
        ({"temperature": 1e-320}, [0], SCORES),
        ({"temperature": math.inf}, [0, 1, 2, 3], torch.zeros(4)),
        ({"temperature": math.inf, "top_k": 3}, [0, 1, 2], torch.zeros(4)),
        ({"temperature": math.inf, "top_p": 0.5}, [0, 1], torch.zeros(4)),
    ],
    ids=str,
)
def test_how_often_tokens_are_drawn(settings, kept, scores):
    expected = torch.zeros(4)
    expected[kept] = scores[kept].softmax(-1)
    torch.testing.assert_close(draws(**settings), expected, atol=0.03, rtol=0)


@pytest.mark.parametrize(
    "settings",
    [
        *(
            {"temperature": -1},
            {"top_k": 0},
            {"top_p": 0},
            {"top_p": 1.5},
            {"repetition_penalty": 0},
            {"num_tokens": -1},
            {"num_tokens": 10**12},
        ),
        *({"temperature": math.nan}, {"top_p": math.nan}, {"repetition_penalty": math.inf}, {"seed": 2**64}),
    ],
    ids=str,
)
def test_draws_that_cannot_be(settings):
    name = next(iter(settings)).replace("_", "-")
    with pytest.raises(SettingError, match=f"--{name} is"):
        SamplingSettings(**settings)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model_dim": 9}, "multiple of --num-heads"),
        ({"num_key_heads": 3}, "multiple of --num-key-heads"),
        ({"context": 0}, "--context is 0"),
        ({"position": "gps"}, "--position is 'gps'"),
        ({"dropout": 1.0}, "--dropout"),
    ],
)
def test_models_that_cannot_be(changes, message, shapes_unchecked):
    with pytest.raises(SettingError, match=message):
        replace(SMALL, **changes)


@pytest.mark.parametrize("temperature", [math.inf, 1.0, 1e-30])
def test_what_is_never_drawn_stays_so_at_every_temperature(temperature):
    scores, generator = torch.tensor([1.0, -torch.inf, 0.0]), torch.Generator().manual_seed(0)
    settings = SamplingSettings(temperature=temperature)
    assert 1 not in [int(next_token(scores, torch.tensor([0]), settings, generator)) for _ in range(50)]
