"""A model that reads one text and writes another: masks, caches, beams, sizes."""

import itertools
from dataclasses import replace

import pytest
import torch

from edgewise import SettingError, ShapeError
from edgewise.layers import Cache
from edgewise.models.beam import beam_search, translate
from edgewise.models.beam_settings import BeamSettings
from edgewise.models.transformer_settings import CONFIGURATIONS, TransformerSettings
from edgewise.models.translation import TranslationModel
from edgewise.records import PairBatch

SMALL = TransformerSettings(num_layers=2, num_heads=2, model_dim=8, context=32, position="sinusoidal")
BEGIN, END = 1, 2


def model_of(**changes):
    torch.manual_seed(0)
    model = TranslationModel(9, replace(SMALL, **changes)).eval()
    for parameter in model.parameters():
        if parameter.dim() > 1:
            torch.nn.init.normal_(parameter, std=0.4)
    return model


def texts(*shape, seed=1):
    return torch.randint(3, 9, shape, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("changes", [{}, {"position": "rotary"}, {"norm": "post"}, {"num_key_heads": 1}], ids=str)
def test_padding_and_later_tokens_change_nothing(changes):
    model, source, tokens, lengths = model_of(**changes), texts(2, 6), texts(2, 5, seed=2), torch.tensor([6, 3])
    scores = model(PairBatch(source, lengths, tokens))
    other = source.clone()
    other[1, 3:] = 4
    later = tokens.clone()
    later[:, 3:] = 5
    torch.testing.assert_close(model(PairBatch(other, lengths, later))[:, :3], scores[:, :3])
    alone = model(PairBatch(source[1:, :3], torch.tensor([3]), tokens[1:]))
    torch.testing.assert_close(alone[0], scores[1])
    other[1, 2] = 3 + (other[1, 2] - 2) % 6
    assert not torch.allclose(model(PairBatch(other, lengths, tokens))[1], scores[1])


@pytest.mark.parametrize("changes", [{}, {"position": "rotary"}, {"position": "learned"}, {"window": 2}], ids=str)
def test_writing_with_a_cache_equals_one_pass(changes):
    model, source, tokens, lengths = model_of(**changes), texts(3, 6), texts(3, 7, seed=2), torch.tensor([6, 3, 4])
    with torch.no_grad():
        expected, read, cache = model(PairBatch(source, lengths, tokens)), model.read(source, lengths), Cache()
        found = [model.write(part, read, lengths, cache=cache) for part in tokens.split([2, 1, 4], 1)]
    torch.testing.assert_close(torch.cat(found, 1), expected)


def best_by_trying_all(table, settings):
    """The best of all texts of at most so many tokens, where ln p of the next token depends on the one before alone."""
    candidates = []
    for length in range(settings.max_length):
        for text in itertools.product(range(3, 6), repeat=length):
            path = [BEGIN, *text, END]
            total = sum(float(table[a, b]) for a, b in itertools.pairwise(path))
            candidates.append((settings.score(total, length + 1), list(text)))
            if length + 1 == settings.max_length:
                total -= float(table[path[-2], END])
                for last in range(3, 6):
                    cut = total + float(table[path[-2], last])
                    candidates.append((settings.score(cut, length + 1), [*text, last]))
    return max(candidates)[1]


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 2.0])
@pytest.mark.parametrize("seed", range(6))
def test_a_wide_beam_finds_the_best_text_there_is(seed, length_penalty):
    table = torch.randn(6, 6, generator=torch.Generator().manual_seed(seed))
    table[:, :2] = -torch.inf  # nobody says "begin"
    table = table.log_softmax(-1)
    settings = BeamSettings(beam_size=200, length_penalty=length_penalty, max_length=4)
    found = beam_search(lambda tokens, _: table[tokens], 2, BEGIN, END, settings)
    assert found == [best_by_trying_all(table, settings)] * 2


def test_one_beam_takes_the_likeliest_token():
    model, source, lengths = model_of(), texts(3, 5), torch.tensor([5, 2, 4])
    found = translate(model, source, lengths, BEGIN, END, BeamSettings(beam_size=1, max_length=6))
    for member, text in enumerate(found):
        tokens = [BEGIN]
        while len(tokens) < 7 and tokens[-1] != END:
            batch = PairBatch(source[member : member + 1], lengths[member : member + 1], torch.tensor([tokens]))
            tokens.append(int(model(batch)[0, -1].argmax()))
        assert text == [token for token in tokens[1:] if token != END]


def test_beams_of_a_batch_do_not_mix():
    model, source, lengths = model_of(), texts(4, 5), torch.tensor([5, 2, 4, 5])
    settings = BeamSettings(beam_size=3, max_length=8)
    together = translate(model, source, lengths, BEGIN, END, settings)
    for member in range(4):
        alone = translate(model, source[member : member + 1], lengths[member : member + 1], BEGIN, END, settings)
        assert alone == [together[member]]


def test_the_original_transformer_has_its_size():
    """65 million parameters with the 37,000 byte pairs of English and German, as published."""
    with torch.device("meta"):
        model = TranslationModel(37_000, CONFIGURATIONS["transformer-base"])
    count = sum(parameter.numel() for parameter in model.parameters())
    assert count == 37_000 * 512 + 6 * 3_152_384 + 6 * 4_204_032
    assert count == pytest.approx(65e6, rel=0.05)


def test_a_source_beyond_what_was_learned():
    model = model_of(position="learned", context=4)
    with pytest.raises(ShapeError, match="5 tokens, but only 4 positions"):
        model.read(texts(1, 5), torch.tensor([5]))


@pytest.mark.parametrize("settings", [{"beam_size": 0}, {"length_penalty": -1}, {"max_length": 0}], ids=str)
def test_beams_that_cannot_be(settings):
    with pytest.raises(SettingError, match="--" + next(iter(settings)).replace("_", "-")):
        BeamSettings(**settings)
