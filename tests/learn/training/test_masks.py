"""Hidden tokens: how many, which, what stands there; and batches that depend on seed and epoch alone."""

import numpy as np
import pytest
import torch

from edgewise.learn.training.masks import Masking, MaskLoader, TokenChunks

MASK = 2
MASKING = Masking(MASK, np.arange(3, 50))


def pieces_of(*lengths, context=8):
    random = np.random.default_rng(0)
    return TokenChunks.of([random.integers(0, 50, length) for length in lengths], context)


def test_long_texts_are_cut_and_nothing_is_lost():
    texts = [np.arange(length) for length in (3, 0, 8, 9, 24)]
    pieces = TokenChunks.of(texts, 8)
    assert np.diff(pieces.offsets).tolist() == [3, 8, 8, 1, 8, 8, 8]
    assert (pieces.num_texts, pieces.num_cut, len(pieces)) == (5, 2, 7)
    assert pieces.numbers.tolist() == np.concatenate(texts).tolist()
    numbers, offsets = pieces.packed(np.array([3, 0]))
    assert (numbers.tolist(), offsets.tolist()) == ([8, 0, 1, 2], [0, 1, 4])
    assert len(TokenChunks.of([], 8)) == 0


def test_what_stands_at_hidden_places():
    """Over 100,000 tokens; three standard deviations of the rarest case are 0.7 percentage points."""
    numbers = np.random.default_rng(1).integers(0, 50, 100_000)
    hidden, places = MASKING(numbers, np.random.default_rng(0))
    predicted, shown = numbers[places], hidden[places]
    assert len(places) == round(0.15 * (numbers > 2).sum())
    assert (np.diff(places) > 0).all()
    assert (predicted > 2).all()
    assert np.array_equal(np.delete(hidden, places), np.delete(numbers, places))
    assert (shown == MASK).mean() == pytest.approx(0.8, abs=0.01)
    # One in 47 of those drawn at random is the same token.
    assert (shown == predicted).mean() == pytest.approx(0.1 + 0.1 / 47, abs=0.01)
    drawn = shown[(shown != MASK) & (shown != predicted)]
    assert set(drawn) == set(range(3, 50))


def test_a_short_text_has_one_hidden_place_and_one_of_special_tokens_none():
    random = np.random.default_rng(0)
    assert len(MASKING(np.array([7, 1]), random)[1]) == 1
    hidden, places = MASKING(np.array([0, 1, 2]), random)
    assert (hidden.tolist(), places.tolist()) == ([0, 1, 2], [])


@pytest.mark.parametrize("seed", [None, 3])
@pytest.mark.parametrize("batch_tokens", [1, 10, 64, 10_000])
def test_every_piece_is_in_one_batch(seed, batch_tokens):
    pieces = pieces_of(*np.random.default_rng(2).integers(1, 30, 60))
    masking = Masking(MASK, np.arange(50), part=1e-9)  # one place a batch, so that texts can be known again
    loader = MaskLoader(pieces, masking, batch_tokens, seed)
    found = []
    for batch in loader:
        tokens = batch.tokens.clone()
        tokens[batch.masked_positions] = batch.targets
        assert batch.offsets[-1] == len(tokens) > 0
        assert len(batch.masked_positions) == 1
        found.append(tokens.split(batch.offsets.diff().tolist()))
    assert len(found) == len(loader) == min(len(pieces), -(-len(pieces.numbers) // batch_tokens))
    expected = np.split(pieces.numbers, pieces.offsets[1:-1])
    assert sorted(text.tolist() for batch in found for text in batch) == sorted(text.tolist() for text in expected)
    if batch_tokens == 64:
        sizes = [sum(map(len, batch)) for batch in found]
        assert max(sizes) < 64 + 8


def test_draws_depend_on_seed_and_epoch_and_on_nothing_else():
    pieces = pieces_of(*[20] * 30)

    def drawn(seed, epoch):
        loader = MaskLoader(pieces, MASKING, 100, seed)
        loader.epoch = epoch
        return torch.cat([torch.cat([batch.tokens, batch.masked_positions]) for batch in loader]).tolist()

    first = drawn(0, 4)
    np.random.default_rng().random(3)
    assert drawn(0, 4) == first
    assert drawn(0, 5) != first
    assert drawn(1, 4) != first
    assert drawn(None, 4) == drawn(None, 5) != first


def test_nothing_is_no_batch():
    for seed in (None, 0):
        loader = MaskLoader(pieces_of(), MASKING, 100, seed)
        assert (len(loader), list(loader)) == (0, [])
