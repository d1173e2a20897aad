"""Batches cover every row once, in an order of the seed and the epoch alone."""

import numpy as np
import pytest
import torch

from edgewise.learn.training.loader import LengthLoader, RowLoader, WindowLoader, seed_of


def rows_of(loader: RowLoader, epoch: int = 0) -> list[list[int]]:
    loader.epoch = epoch
    return [rows.tolist() for rows in loader]


@pytest.mark.parametrize(("num_rows", "batch_size"), [(10, 4), (9, 3), (65, 64), (1, 64), (7, 1)])
def test_every_row_once_in_batches_of_nearly_equal_size(num_rows, batch_size):
    loader = RowLoader(np.arange(100, 100 + num_rows), lambda rows: rows, batch_size, seed=1)
    batches = rows_of(loader)
    assert sorted(row for batch in batches for row in batch) == list(range(100, 100 + num_rows))
    sizes = [len(batch) for batch in batches]
    assert len(sizes) == len(loader) == -(-num_rows // batch_size)
    assert max(sizes) - min(sizes) <= 1
    assert max(sizes) <= batch_size


def test_order_depends_on_seed_and_epoch_and_on_nothing_else():
    def order(seed, epoch):
        return rows_of(RowLoader(np.arange(50), lambda rows: rows, 8, seed=seed), epoch)

    first = order(0, 5)
    np.random.default_rng().random(3)
    assert order(0, 5) == first
    assert order(0, 6) != first
    assert order(1, 5) != first


def test_without_a_seed_batches_are_made_once_and_keep_the_order():
    made = []
    loader = RowLoader(np.arange(5), lambda rows: made.append(1) or rows, 2)
    assert rows_of(loader) == rows_of(loader) == [[0, 1], [2, 3], [4]]
    assert len(made) == 3


def test_no_rows_are_no_batches():
    loader = RowLoader(np.zeros(0, dtype=np.int64), lambda rows: rows, 4)
    assert len(loader) == 0
    assert list(loader) == []


def test_seeds_of_neighboring_numbers_differ():
    seeds = {seed_of(seed, epoch) for seed in range(10) for epoch in range(10)}
    assert len(seeds) == 100
    assert all(0 <= seed < 2**63 for seed in seeds)


@pytest.mark.parametrize("seed", [None, 3])
def test_batches_of_about_the_same_length(seed):
    lengths = np.random.default_rng(0).integers(1, 40, 500)
    loader = LengthLoader(lengths, lambda rows: rows, 200, seed)
    for epoch in (0, 1):
        loader.epoch = epoch
        batches = list(loader)
        assert len(batches) == len(loader)
        assert sorted(np.concatenate(batches).tolist()) == list(range(500))
        assert max(len(rows) * lengths[rows].max() for rows in batches) <= 200
        padding = sum(len(rows) * lengths[rows].max() for rows in batches) / lengths.sum()
        assert padding < 1.03
    orders = []
    for epoch in (0, 1, 0):
        loader.epoch = epoch
        orders.append(np.concatenate(list(loader)).tolist())
    assert orders[0] == orders[2]
    assert (orders[0] == orders[1]) == (seed is None)


def test_a_long_row_is_a_batch_of_its_own():
    loader = LengthLoader(np.array([9, 30, 2]), lambda rows: rows.tolist(), 12)
    assert list(loader) == [[2], [0], [1]]
    assert list(LengthLoader(np.zeros(0), lambda rows: rows, 12)) == []


def windows(**options):
    return WindowLoader(torch.arange(23), 5, 2, **options)


def test_windows_in_order_predict_every_token_once():
    batches = list(windows())
    assert len(windows()) == len(batches) == 3
    assert torch.cat([batch.targets.flatten() for batch in batches]).tolist() == list(range(1, 23))
    for batch in batches:
        assert torch.equal(batch.targets, batch.tokens + 1)


def test_windows_at_random_depend_on_seed_and_epoch():
    def starts(seed, epoch):
        loader = windows(num_batches=40, seed=seed)
        loader.epoch = epoch
        return torch.cat([batch.tokens[:, 0] for batch in loader]).tolist()

    assert len(starts(0, 0)) == 80
    assert starts(0, 3) == starts(0, 3)
    assert starts(0, 3) != starts(0, 4)
    assert starts(1, 3) != starts(0, 3)
    assert set(starts(0, 0)) == set(range(18))


@pytest.mark.parametrize(("num_tokens", "expected"), [(6, 1), (7, 2), (11, 1), (12, 2), (2, 1)])
def test_the_last_window_may_be_short(num_tokens, expected):
    loader = WindowLoader(torch.arange(num_tokens), 5, 2)
    assert len(list(loader)) == len(loader) == expected


@pytest.mark.parametrize("seed", [None, 0])
def test_without_rows_there_are_no_batches(seed):
    loader = RowLoader(np.zeros(0), list, 4, seed)
    assert len(loader) == 0 and list(loader) == []


def test_a_number_of_windows_is_for_random_ones_alone():
    with pytest.raises(ValueError, match="num_batches needs a seed"):
        WindowLoader(torch.arange(23), 5, 2, num_batches=3)
