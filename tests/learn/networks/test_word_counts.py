"""Counts of words by class: worked by hand, a training row left out of them, and what a model makes of them."""

import math

import numpy as np
import pytest
import torch

from edgewise.graph.records import TextRows
from edgewise.learn.networks.text import TextModel
from edgewise.learn.networks.text_settings import TextSettings, TransformerSettings
from edgewise.learn.networks.word_counts import MAX_PAIRS, WordCounts

NAMES = ["<unk>", "great", "greatly", "greatest", "bad", "film"]
TEXTS = [np.array(text) for text in ([1, 5], [2, 5, 5], [4, 5], [4], [3, 5, 4])]
TARGETS = torch.tensor([[1.0], [1.0], [0.0], [0.0], [1.0]])


def packed(texts, targets=None):
    offsets = torch.tensor([0, *map(len, texts)]).cumsum(0)
    return TextRows(torch.from_numpy(np.concatenate(texts)), offsets, targets=targets)


def ratios(counts, texts, targets=None):
    batch = packed(texts)
    return counts(batch.tokens, batch.offsets, targets)


def ratio(positive, negative, share=4 / 7):
    return math.log((positive + 2 * share) / (negative + 2 * (1 - share))) - math.log(share / (1 - share))


def test_a_case_by_hand():
    counts = WordCounts.counted(NAMES, TEXTS, TARGETS, ())
    assert counts.sizes.num_stems == 4  # <unk, great, bad, film
    found = ratios(counts, [np.array([1, 5, 4])])[:, :, 0]
    # The pairs: great at the start (1, 0), great film (1, 0), film bad (1, 0).
    half = ratio(1, 0) / 2
    expected = [
        [ratio(1, 0), ratio(3, 0), 3 * half],
        [ratio(3, 1), ratio(3, 1), 2 * half],
        [ratio(1, 2), ratio(1, 2), half],
    ]
    torch.testing.assert_close(found, torch.tensor(expected))


def test_what_was_never_seen_says_nothing():
    counts = WordCounts.counted(NAMES, TEXTS, TARGETS, ())
    assert not ratios(counts, [np.array([0, 0])]).any()
    assert ratios(counts, [np.array([4, 1])])[0, 2].any()  # bad stands at the start of a text
    assert float(ratios(counts, [np.array([5, 1])])[1, 2, 0]) == 0.0


@pytest.mark.parametrize("num_classes", [(), (3,)])
def test_a_training_row_is_read_as_if_it_were_not_counted(num_classes):
    targets = torch.tensor([[1.0], [0.0], [2.0], [float("nan")], [1.0]]) if num_classes else TARGETS
    counts = WordCounts.counted(NAMES, TEXTS, targets, num_classes)
    together = ratios(counts, TEXTS, targets).split([len(text) for text in TEXTS])
    for row, text in enumerate(TEXTS):
        others = [place for place in range(len(TEXTS)) if place != row]
        without = WordCounts.counted(NAMES, [TEXTS[place] for place in others], targets[others], num_classes)
        torch.testing.assert_close(together[row], ratios(without, [text]))
    assert not torch.allclose(torch.cat(together), ratios(counts, TEXTS))


def test_targets_without_a_value_count_nothing():
    targets = torch.tensor([[1.0, float("nan")], [0.0, 1.0]])
    counts = WordCounts.counted(["a", "b"], [np.array([0]), np.array([0, 1])], targets, ())
    assert counts.counts[:, 0].tolist() == [[1.0, 1.0], [1.0, 0.0]]
    assert counts.rows.tolist() == [[1.0, 1.0], [1.0, 0.0]]


def test_the_most_frequent_pairs_are_kept(monkeypatch):
    assert MAX_PAIRS > 100_000
    monkeypatch.setattr("edgewise.learn.networks.word_counts.MAX_PAIRS", 1)
    counts = WordCounts.counted(["a", "b"], [np.array([0, 1]), np.array([1, 0, 1])], torch.ones(2, 1), ())
    assert counts.pairs.tolist() == [1]  # a b
    assert ratios(counts, [np.array([1, 0])])[:, 2].abs().sum() == 0


def test_many_outputs_have_fewer_pairs(monkeypatch):
    monkeypatch.setattr("edgewise.learn.networks.word_counts.MAX_PAIR_COUNTS", 12)
    for num_classes in [(2,), (6,), (12,), (13,)]:
        counts = WordCounts.counted(NAMES, TEXTS, TARGETS, num_classes)
        assert len(counts.pairs) == min(6, 12 // num_classes[0])
    assert len(WordCounts.counted(NAMES, TEXTS, TARGETS.expand(5, 4), ()).pairs) == 3
    assert not ratios(counts, TEXTS)[:, 2].any()  # no pair is left


def test_a_row_that_was_not_counted_is_left_out_of_nothing():
    counts = WordCounts.counted(NAMES, TEXTS[2:4], TARGETS[2:4], ())
    assert ratios(counts, TEXTS[:1], TARGETS[:1]).isfinite().all()


def test_rows_without_a_token_are_rows():
    none = np.zeros(0, np.int64)
    for texts in ([none, *TEXTS, none], [none] * 7):
        counts = WordCounts.counted(NAMES, texts, torch.cat([TARGETS[:1], TARGETS, TARGETS[2:3]]), ())
        assert counts.rows.flatten().tolist() == [4.0, 3.0]
        assert counts.counts[:, 5].flatten().tolist() == ([3.0, 1.0] if texts[1] is TEXTS[0] else [0.0, 0.0])


def model_with(counts, **text):
    torch.manual_seed(0)
    sizes = TransformerSettings(num_layers=1, num_heads=2, model_dim=8, hidden_dim=16)
    model = TextModel(len(NAMES), 0, 1, TextSettings(**text), sizes, None if counts is None else counts.sizes)
    if counts is not None:
        model.counts.load_state_dict(counts.state_dict())
    return model.eval()


def test_the_wide_part_is_added_to_the_deep_one():
    counts = WordCounts.counted(NAMES, TEXTS, TARGETS, ())
    model = model_with(counts)
    torch.nn.init.zeros_(model.output.weight)
    model.count_weight.data = torch.tensor([1.0, 0.5, 2.0])
    text = np.array([1, 5, 4])
    said = (ratios(counts, [text])[:, :, 0] * model.count_weight).sum() / math.sqrt(3)
    torch.testing.assert_close(model(packed([text]))[0, 0], said + model.output.bias[0])


@pytest.mark.parametrize("encoder", ["transformer", "lstm"])
def test_training_leaves_rows_out_and_every_weight_learns(encoder):
    counts = WordCounts.counted(NAMES, TEXTS, TARGETS, ())
    model = model_with(counts, encoder=encoder, word_dropout=0.0)
    batch, plain = packed(TEXTS, TARGETS), packed(TEXTS)
    torch.testing.assert_close(model(batch), model(plain))
    width = model.counts.num_columns
    assert not torch.allclose(model.train().inputs(batch)[:, -width:], model.inputs(plain)[:, -width:])
    model(batch).square().sum().backward()
    silent = [name for name, weight in model.named_parameters() if weight.grad is None or not weight.grad.any()]
    assert set(silent) <= {"readout.key.bias"}


def test_vectors_stand_for_words_and_counts():
    model = model_with(WordCounts.counted(NAMES, TEXTS, TARGETS, ()))
    batch = packed(TEXTS)
    vectors = model.inputs(batch)
    torch.testing.assert_close(model(batch, vectors=vectors), model(batch))
    changed = torch.cat([vectors[:, :-3], torch.zeros(len(vectors), 3)], 1)
    assert not torch.allclose(model(batch, vectors=changed), model(batch))
    assert model_with(None).inputs(batch).shape == (len(vectors), 8)
