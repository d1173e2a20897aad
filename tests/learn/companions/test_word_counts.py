"""Counts of words by class: worked by hand, a row left out of its own counts, what is learned, saved and refused."""

import math

import numpy as np
import pytest
import torch

from edgewise.errors import DataError
from edgewise.learn.batches.tokens import TextRowBatch
from edgewise.learn.companions import word_counts
from edgewise.learn.companions.word_counts import MAX_PAIRS, FeatureCounts, WordCounts
from edgewise.learn.training.loss import TargetLoss

NAMES = ["<unk>", "great", "greatly", "greatest", "bad", "film"]
TEXTS = [np.array(text) for text in ([1, 5], [2, 5, 5], [4, 5], [4], [3, 5, 4])]
TARGETS = torch.tensor([[1.0], [1.0], [0.0], [0.0], [1.0]])
BINARY = TargetLoss("classification", "mse", num_classes=(2,))
NUMBERS = TargetLoss("regression", "mse")


def of_classes(*sizes):
    return TargetLoss("multiclass", "mse", num_classes=sizes)


def batch_of(texts):
    return TextRowBatch.pack(texts, [np.zeros(len(text), dtype=np.int64) for text in texts])


def learned(texts=TEXTS, targets=TARGETS, loss=BINARY, names=NAMES, weights=None):
    weights = torch.ones(len(targets)) if weights is None else weights
    return WordCounts.fit(names, texts, targets, weights, loss)


def with_weights_of_one(monkeypatch):
    """No weight of a kind is learned: all are 1, and there is no bias."""

    def of_one(sums, targets, weights, loss):
        return torch.ones(sums.shape[1:]), torch.zeros(sums.shape[2])

    monkeypatch.setattr(word_counts, "_weights_of_kinds", of_one)


def ratio(positive, negative, share=4 / 7):
    return math.log((positive + 2 * share) / (negative + 2 * (1 - share))) - math.log(share / (1 - share))


def test_a_case_by_hand(monkeypatch):
    with_weights_of_one(monkeypatch)
    counts = learned()
    assert counts.num_stems == 4  # <unk, great, bad, film
    by_token = counts.by_token(batch_of([np.array([1, 5, 4])]))[:, 0] * math.sqrt(3)
    # The pairs: great at the start (1, 0), great film (1, 0), film bad (1, 0).
    half = ratio(1, 0) / 2
    expected = [
        ratio(1, 0) + ratio(3, 0) + 3 * half,
        ratio(3, 1) + ratio(3, 1) + 2 * half,
        ratio(1, 2) + ratio(1, 2) + half,
    ]
    torch.testing.assert_close(by_token, torch.tensor(expected))
    torch.testing.assert_close(counts(batch_of([np.array([1, 5, 4])]))[0, 0], by_token.sum() / math.sqrt(3))


def test_numbers_by_hand(monkeypatch):
    with_weights_of_one(monkeypatch)
    counts = learned([np.array([1])] * 2, torch.tensor([[3.0], [float("nan")]]), NUMBERS)
    # The word, its stem, and the word at the start of a text: each is in one row whose number is known.
    torch.testing.assert_close(counts(batch_of([np.array([1])])), torch.tensor([[3 * 3.0 / (1 + 2)]]))


def test_what_was_never_seen_says_nothing():
    counts = learned()
    assert not counts.by_token(batch_of([np.array([0, 0])])).any()
    assert counts(batch_of([np.zeros(0, np.int64), np.array([0])])).flatten().tolist() == [float(counts.bias[0])] * 2


@pytest.mark.parametrize("loss", [BINARY, of_classes(3), NUMBERS], ids=lambda loss: loss.task_type)
def test_a_row_is_left_out_of_its_own_counts(loss, monkeypatch):
    with_weights_of_one(monkeypatch)
    targets = TARGETS if loss is BINARY else torch.tensor([[1.0], [0.0], [2.0], [float("nan")], [1.0]])
    model = learned(targets=targets, loss=loss)
    sums = FeatureCounts.of(model, TEXTS, targets, loss).sums(model, TEXTS, targets, 1)
    for row, text in enumerate(TEXTS):
        others = [place for place in range(len(TEXTS)) if place != row]
        without = learned([TEXTS[place] for place in others], targets[others], loss)
        torch.testing.assert_close(sums[row].sum(0), without(batch_of([text]))[0], atol=1e-5, rtol=1e-5)
    assert not torch.allclose(sums.sum(1), model(batch_of(TEXTS)))


def test_the_weights_of_kinds_are_those_with_the_smallest_loss():
    model = learned()
    counts = FeatureCounts.of(model, TEXTS, TARGETS, BINARY)
    of_kind = (model.weights[1] / counts.ratios()[1], model.weights[9] / counts.ratios()[9])
    assert all(math.isfinite(float(weight)) for weight in of_kind)
    sums = counts.sums(model, TEXTS, TARGETS, 1).double()
    best, bias = word_counts._weights_of_kinds(sums, TARGETS, torch.ones(5), BINARY)

    def objective(weights, bias):
        total, _ = BINARY(bias + (sums * weights).sum(1), TARGETS, None)
        return float(total + ((weights - 1) ** 2).sum() / 2 + 0.01 * bias**2 / 2)

    smallest = objective(best.double(), bias.double())
    for direction in torch.eye(4, dtype=torch.float64):
        for step in (-0.05, 0.05):
            assert objective(best + step * direction[:3, None], bias + step * direction[3]) > smallest


@pytest.mark.parametrize("loss", [BINARY, of_classes(2), NUMBERS], ids=lambda loss: loss.task_type)
def test_a_row_counts_as_much_as_it_weighs(loss):
    """Counts took each row once whatever it weighed, and the prior was as strong as the weights were small."""
    weights = torch.tensor([2.0, 1.0, 3.0, 1.0, 1.0])
    times = weights.int().tolist()
    model = learned(loss=loss, weights=weights)
    repeated = [text for text, count in zip(TEXTS, times, strict=True) for _ in range(count)]
    targets = TARGETS.repeat_interleave(weights.int(), 0)
    counts = FeatureCounts.of(model, TEXTS, TARGETS, loss, weights)
    of_repeated = FeatureCounts.of(model, repeated, targets, loss)
    torch.testing.assert_close(counts.feature_counts, of_repeated.feature_counts)
    torch.testing.assert_close(counts.ratios(), of_repeated.ratios())

    # Only ratios of weights matter.
    torch.testing.assert_close(learned(loss=loss, weights=weights / 1024).weights, model.weights)
    # A row that weighs next to nothing says as little.
    light = torch.tensor([1.0, 1e-6, 1.0, 1.0, 1.0])
    flipped = torch.cat([TARGETS[:1], 1 - TARGETS[1:2], TARGETS[2:]])
    torch.testing.assert_close(
        learned(loss=loss, weights=light).weights, learned(targets=flipped, loss=loss, weights=light).weights,
        atol=1e-4, rtol=1e-4,
    )  # fmt: skip


def test_weights_of_rows_and_classes_move_the_bias():
    even = TargetLoss("classification", "mse", num_classes=(2,), class_weights=((1.0, 10.0),))
    assert float(learned(loss=even).bias) > float(learned().bias)
    assert float(learned(weights=1 + 9 * TARGETS[:, 0]).bias) > float(learned().bias)


@pytest.mark.parametrize(
    ("targets", "loss"),
    [
        (torch.tensor([[1.0, float("nan")], [0.0, 1.0]]), TargetLoss("classification", "mse", num_classes=(2, 2))),
        (torch.tensor([[1.0, float("nan")], [0.0, 1.0]]), of_classes(2, 3)),
        (torch.tensor([[1.0, float("nan")], [0.0, float("nan")]]), NUMBERS),
    ],
    ids=["classification", "multiclass", "regression"],
)
def test_targets_without_a_value_count_nothing(targets, loss):
    model = learned([np.array([1]), np.array([1, 2])], targets, loss)
    counts = FeatureCounts.of(model, [np.array([1]), np.array([1, 2])], targets, loss)
    known = (~targets.isnan()).sum(0).float()
    if loss.task_type == "multiclass":
        known = known.repeat_interleave(torch.tensor(loss.num_classes))
    assert torch.equal(counts.row_counts[1] if loss is NUMBERS else counts.row_counts.sum(0), known)
    assert model(batch_of(TEXTS)).isfinite().all()


def test_the_most_frequent_pairs_are_kept(monkeypatch):
    assert MAX_PAIRS > 100_000
    monkeypatch.setattr(word_counts, "MAX_PAIRS", 1)
    model = learned([np.array([0, 1]), np.array([1, 0, 1])], torch.ones(2, 1), names=["a", "b"])
    assert model.pairs.tolist() == [1]  # a b
    assert model.feature_ids(torch.tensor([1, 0]), torch.tensor([0]))[:, 2].tolist() == [len(model.weights) - 1] * 2
    assert not model.weights[-1].any()


def test_many_outputs_have_fewer_pairs(monkeypatch):
    monkeypatch.setattr(word_counts, "MAX_PAIR_COUNTS", 12)
    for count in (2, 6, 12, 13):
        assert len(learned(loss=of_classes(count)).pairs) == min(6, 12 // count)
    assert len(learned(targets=TARGETS.expand(5, 4), loss=TargetLoss("classification", "mse")).pairs) == 3


def test_weights_are_learned_from_some_of_many_rows(monkeypatch):
    rows = [np.array([1 + row % 5]) for row in range(300)]
    targets = torch.tensor([[float(row % 5 < 2)] for row in range(300)])
    whole = learned(rows, targets)
    monkeypatch.setattr(word_counts, "MAX_SUMS", 300)
    monkeypatch.setattr(word_counts, "BATCH_SIZE", 32)
    some = learned(rows, targets)
    right = (some(batch_of(rows)) > 0) == (targets > 0)
    assert right.all() and not torch.equal(whole.weights, some.weights)


def test_rows_without_a_token_are_rows():
    none = np.zeros(0, np.int64)
    targets = torch.cat([TARGETS[:1], TARGETS, TARGETS[2:3]])
    for texts in ([none, *TEXTS, none], [none] * 7):
        model = learned(texts, targets)
        counts = FeatureCounts.of(model, texts, targets, BINARY)
        assert counts.row_counts.flatten().tolist() == [4.0, 3.0]
        assert counts.feature_counts[:, 5].flatten().tolist() == ([3.0, 1.0] if texts[1] is TEXTS[0] else [0.0, 0.0])
        assert model(batch_of(texts)).isfinite().all()


def test_what_is_saved_is_read_and_damage_is_refused():
    model = learned()
    tensors = model.state_dict()
    again = WordCounts.from_tensors(tensors, len(NAMES), 1)
    again.load_state_dict(tensors)
    again.check()
    torch.testing.assert_close(again(batch_of(TEXTS)), model(batch_of(TEXTS)))
    for name, value, told in (
        ("stem_of_token", 99, "stem_of_token"),
        ("stem_of_token", -1, "stem_of_token"),
        ("pairs", 10**6, "ascending"),
        ("weights", float("nan"), "weights"),
        ("bias", float("inf"), "bias"),
    ):
        damaged = WordCounts.from_tensors(tensors, len(NAMES), 1)
        damaged.load_state_dict(tensors)
        getattr(damaged, name)[0] = value
        with pytest.raises(DataError, match=told):
            damaged.check()
