"""A Gaussian process beside the network: the textbook's mean, whatever the molecules of a row and its conditions."""

import tracemalloc

import numpy as np
import pytest
import torch
from scipy.stats import t

from batch_cases import changed
from edgewise.errors import DataError
from edgewise.learn.companions.covariance import ProcessRows, RowPairs
from edgewise.learn.companions.gaussian_process import (
    MIN_NOISE,
    NONE,
    RATE,
    GaussianProcess,
    _chosen,
    _first_logs,
    _numbers,
    _series,
    _solved,
)
from edgewise.learn.companions.noise import FREEDOMS, SHARES, blocks_of, grouped, heavy_tailed
from edgewise.learn.companions.substructures import RowSizes, with_substructures
from edgewise.learn.readers.molecules.store import MoleculeStore

SMILES = ["CCO", "CCN", "c1ccccc1", "CC(=O)O", "CCCl", "CCCCO", "c1ccccc1O", "CCBr", "CC#N", "CCCCCC"]
STORE = MoleculeStore.from_smiles(SMILES)
NUM_KINDS = 64
INPUTS = ("molecules", "descriptors", "substructures", "conditions")


def batch_of(rows, conditions):
    """Rows of molecules, with scaled descriptors."""
    store = STORE.with_scale(lambda values: np.tanh(np.nan_to_num(values) / 50))
    return with_substructures(store.batch(np.array(rows), np.asarray(conditions, np.float32)), NUM_KINDS)


CASES = {
    "one molecule": ([[number] for number in range(10)], np.zeros((10, 0))),
    "two molecules": ([[number, (3 * number + 1) % 10] for number in range(10)], np.zeros((10, 0))),
    "conditions": ([[number % 4] for number in range(10)], np.arange(20.0).reshape(10, 2) / 5),
    "both": ([[number % 3, number % 2 + 5] for number in range(10)], np.arange(10.0)[:, None] / 3),
    "series": ([[number % 2] for number in range(10)], np.stack([np.arange(10) // 4, np.arange(10) / 5], 1)),
}


def covariance(batch, logs):
    """k of every two rows, pair by pair."""
    numbers = {name: values.double().numpy() for name, values in _numbers(batch).items()}
    counts, descriptors, conditions = np.sqrt(numbers["substructures"]), numbers["descriptors"], numbers["conditions"]
    factors, molecules = np.exp(logs), batch.supervision.graph_of_row.numpy()
    num_rows = len(molecules)

    def matern(square):
        r = np.sqrt(5 * square)
        return (1 + r + r * r / 3) * np.exp(-r)

    found = np.zeros((num_rows, num_rows))
    for one in range(num_rows):
        for two in range(num_rows):
            alike, apart = 1.0, 0.0
            for mine, theirs in zip(molecules[one], molecules[two], strict=True):
                a, b = counts[mine], counts[theirs]
                alike *= a @ b / np.sqrt((a @ a) * (b @ b))
                apart += ((descriptors[mine] - descriptors[theirs]) ** 2).mean() / len(molecules[one])
            found[one, two] = factors[0] * alike + (factors[1] + factors[4] * alike) * matern(apart / factors[2])
            if conditions.shape[1]:
                near = [matern(((conditions[one] - conditions[two]) ** 2 / m).sum()) for m in np.split(factors[8:], 4)]
                is_own = (molecules[one] == molecules[two]).all()
                own = factors[6] * near[2] + factors[7] * near[3]
                found[one, two] = found[one, two] * near[0] + factors[5] * near[1] + is_own * own
    return found


@pytest.mark.parametrize("case", CASES)
def test_its_mean_is_that_of_the_textbook(case):
    """k(x, X) (K + noise / weight)⁻¹ y, for each target the rows that have it, with the covariance it has chosen; with
    conditions, noise has the variance of Student's t."""
    batch, rng = batch_of(*CASES[case]), np.random.default_rng(2)
    targets, weights = rng.standard_normal((10, 2)), np.array([1.0, 2, 1, 0.5, 1, 1, 0, 1, 1, 1])
    targets[[1, 4], 1] = np.nan
    process = GaussianProcess.fit(batch, targets, weights)
    found = process(batch).numpy()
    for output in range(2):
        logs = process.logs[output].numpy()
        known = ~np.isnan(targets[:, output]) & (weights > 0)
        k = covariance(batch, logs)
        noise = (np.exp(logs[3]) + MIN_NOISE) * weights.mean() / weights[known]
        own = k[np.ix_(known, known)]
        if batch.supervision.row_features is not None:
            noise = heavy_tailed(own, targets[known, output], noise, [np.arange(known.sum())])
        expected = k[:, known] @ np.linalg.solve(own + np.diag(noise), targets[known, output])
        np.testing.assert_allclose(found[:, output], expected, atol=1e-4)
    assert not np.allclose(process.logs[0], process.logs[1])
    assert (process.logs[:, 7:8] > -100).any() == (case == "series")


@pytest.mark.parametrize("case", CASES)
def test_the_covariance_is_chosen_by_its_likelihood(case, monkeypatch):
    """The first step of Adam moves each logarithm by the rate, to where the targets are likelier."""
    monkeypatch.setattr("edgewise.learn.companions.gaussian_process.STEPS", 1)
    batch, targets = batch_of(*CASES[case]), np.random.default_rng(4).standard_normal(10)
    rows = ProcessRows.of(**_numbers(batch))
    first, shares = _first_logs(rows.conditions.shape[1], _series(rows)), np.linspace(0.5, 2, 10)

    def unlikely(logs):
        known = covariance(batch, logs) + np.diag((np.exp(logs[3]) + MIN_NOISE) / shares)
        return (targets @ np.linalg.solve(known, targets) + np.linalg.slogdet(known)[1]) / 2

    moves = 1e-4 * np.eye(len(first))
    slopes = [unlikely(first.numpy() + move) - unlikely(first.numpy() - move) for move in moves]
    found = _chosen(rows, torch.from_numpy(targets), torch.from_numpy(shares), first) - first
    matters = np.abs(slopes) > 1e-9
    assert matters.sum() > 3
    np.testing.assert_allclose(found[matters], -RATE * np.sign(slopes)[matters], rtol=1e-3)


def left_out(covariance, targets, noise):
    """The residual and the variance of each row, learned from all others."""
    found = []
    for row in range(len(targets)):
        others = np.arange(len(targets)) != row
        known = covariance[np.ix_(others, others)] + np.diag(noise[others])
        weights = np.linalg.solve(known, covariance[others, row])
        found.append(
            (targets[row] - weights @ targets[others], covariance[row, row] - weights @ covariance[others, row])
        )
    return np.array(found).T


def test_noise_is_as_heavy_tailed_as_rows_that_are_left_out():
    """One row in twenty is far off, and says little; without such rows noise is normal."""
    rng, places = np.random.default_rng(0), np.linspace(0, 3, 60)
    covariance = np.exp(-((places[:, None] - places) ** 2))
    targets = np.sin(places) + 0.05 * rng.standard_normal(60)
    even = heavy_tailed(np.tril(covariance), targets, np.full(60, 0.05**2), [np.arange(60)])
    assert even.max() < 1.01 * even.min() and 0.5 < even.mean() / 0.05**2 < 2
    targets[::20] += 1
    noise = np.linspace(0.02, 0.04, 60)
    found = heavy_tailed(np.tril(covariance), targets, noise, [np.arange(60)])
    residuals, variances = left_out(covariance, targets, noise)
    likely = {
        (freedom, share): t.logpdf(residuals, freedom, scale=np.sqrt(variances + share * noise)).sum()
        for freedom in FREEDOMS
        for share in SHARES
    }
    freedom, share = max(likely, key=likely.get)
    squares = residuals**2 / (variances + share * noise)
    np.testing.assert_allclose(found, share * noise * (freedom + squares) / (freedom + 1), rtol=1e-6)
    assert freedom == 3 and found[::20].min() > 10 * np.median(found)


def test_many_rows_are_left_out_among_some(monkeypatch):
    """Each of nine rows is left out of its own part alone."""
    rng = np.random.default_rng(1)
    root = rng.standard_normal((9, 9))
    covariance, targets, noise = root @ root.T, rng.standard_normal(9), rng.uniform(1, 2, 9)
    monkeypatch.setattr("edgewise.learn.companions.noise.FREEDOMS", (3.0,))
    monkeypatch.setattr("edgewise.learn.companions.noise.SHARES", np.ones(1))
    parts = [np.array([0, 4, 5]), np.array([1, 2, 7, 8]), np.array([3, 6])]
    found = heavy_tailed(np.tril(covariance), targets, noise, parts)
    for own in parts:
        residuals, variances = left_out(covariance[np.ix_(own, own)], targets[own], noise[own])
        squares = residuals**2 / (variances + noise[own])
        np.testing.assert_allclose(found[own], noise[own] * (3 + squares) / 4, rtol=1e-9)


def test_measurements_that_contradict_each_other_are_found_among_many(monkeypatch):
    """Each of 60 molecules was measured twice under the same conditions, rows side by side, six with a large error."""
    monkeypatch.setattr("edgewise.learn.companions.noise.BLOCK_ROWS", 40)
    like = np.repeat(np.arange(60), 2)
    covariance, targets, bad = np.equal.outer(like, like) * 1.0, np.zeros(120), [8, 31, 50, 66, 91, 110]
    targets[bad] = 1.5
    parts = blocks_of(like)
    assert sorted(np.concatenate(parts)) == list(range(120)) and max(map(len, parts)) == 40
    noise = heavy_tailed(np.tril(covariance), targets, np.full(120, 0.02), parts)
    twins = np.isin(like, like[bad])
    assert noise[twins].min() > 30 * np.median(noise[~twins])


def test_rows_that_are_alike_stand_together():
    found = grouped(np.array([10, 11, 12, 13, 14, 15, 16]), np.array([5, 3, 5, 5, 3, 4, 5]), 2)
    assert found.tolist() == [10, 12, 11, 14, 15, 13, 16]
    order = np.random.default_rng(0).permutation(50)
    assert np.array_equal(grouped(order, order, 2), order)


def test_molecules_of_many_rows_have_something_of_their_own():
    """A molecule's own contribution is learned, and shared with no other molecule."""
    rows, conditions = np.arange(80) % 8, np.linspace(-1, 1, 80)[:, None]
    own = np.where(rows == 3, 1.0, 0.0)
    batch = batch_of(rows[:, None].tolist(), conditions)
    process = GaussianProcess.fit(batch, (conditions[:, 0] + own)[:, None], np.ones(80))
    found = process(batch_of([[3], [4], [9]], np.zeros((3, 1)))).numpy()[:, 0]
    np.testing.assert_allclose(found[:2], [1, 0], atol=0.05)
    assert abs(found[2]) < 0.4


@pytest.mark.parametrize("place", [0, 1])
def test_rows_of_a_series_are_off_together(place):
    """Ten rows at each of 48 temperatures are off by 1 or -1 from what is their molecule's own, and so is an eleventh,
    whichever column holds the temperature."""
    rng, rows = np.random.default_rng(place), np.repeat(np.arange(48) % 4, 11)
    temperature, pressure = np.repeat(rng.uniform(-2, 2, 48), 11), np.tile(np.linspace(-1, 1, 11), 48)
    own = 3 * np.sin(temperature + 2 * rows) * pressure
    targets = (own + np.repeat(rng.choice([-1.0, 1.0], 48), 11))[:, None]
    batch = batch_of(rows[:, None].tolist(), np.stack([temperature, pressure][:: 1 - 2 * place], 1))
    is_new = np.arange(len(rows)) % 11 == 5
    process = GaussianProcess.fit(batch, targets, 1.0 - is_new)
    assert np.abs(process(batch).numpy() - targets)[is_new].mean() < 0.1
    assert process.logs[0, 7].exp() > 0.05


@pytest.mark.parametrize(
    ("conditions", "series"),
    [
        ([[1, 5], [1, 6], [2, 7], [2, 8], [3, 9]], 0),  # two isotherms
        ([[1, 5], [2, 5], [3, 7], [4, 7], [5, 9]], 1),
        ([[1, 5], [1, 6], [2, 5], [3, 7]], 0),  # both are shared by two of the rows
        ([[1, 5], [2, 6], [3, 7], [4, 8]], None),
        ([[1, 5], [1, 6], [2, 7], [3, 8], [4, 9]], None),  # fewer than half
        ([[], []], None),
        ([[0, 1, 5], [0, 1, 6], [0, 1, 7], [0, 2, 8], [0, 2, 9], [0, 3, 7]], 1),  # one is the same for all
        ([[0, 1, 5], [0, 1, 6], [1, 1, 7], [0, 2, 8], [0, 2, 9], [1, 3, 7]], 1),  # one marks something
    ],
)
def test_the_condition_that_rows_of_a_series_share(conditions, series):
    batch = batch_of([[3]] * len(conditions), conditions)
    rows = ProcessRows.of(**_numbers(batch))
    assert _series(rows) == series


def test_rows_of_other_molecules_are_no_series():
    batch = batch_of([[0], [1], [2], [3]], np.ones((4, 1)))
    assert _series(ProcessRows.of(**_numbers(batch))) is None


@pytest.mark.parametrize("count", [6, 9])
@pytest.mark.parametrize("case", CASES)
def test_rows_that_judge_count_later(case, count):
    """Until then it is the process of the others alone; then all rows count, under the covariance of before."""
    batch, rng = batch_of(*CASES[case]), np.random.default_rng(3)
    targets, weights = rng.standard_normal((10, 2)), np.array([1, 2, 1, 1, 3, 1, 9, 9, 9, 5.0])
    targets[[0, 9], 1] = np.nan
    rows = batch.supervision
    conditions = None if rows.row_features is None else rows.row_features[:count]
    first = changed(batch, graph_of_row=rows.graph_of_row[:count], row_features=conditions)
    alone = GaussianProcess.fit(first, targets[:count], weights[:count])
    process = GaussianProcess.fit(batch, targets, weights, num_validation=10 - count)
    torch.testing.assert_close(process.logs, alone.logs, rtol=0, atol=0)
    torch.testing.assert_close(process(batch), alone(batch), rtol=1e-9, atol=1e-9)
    process.learn_later()
    sizes = RowSizes(*(getattr(process, name).shape[1] for name in INPUTS))
    saved = GaussianProcess.from_tensors(process.state_dict(), sizes, 2, None)
    saved.load_state_dict(process.state_dict())
    for each in (process, saved):
        found = each(batch).numpy()
        for output in range(2):
            logs, known = each.logs[output].numpy(), ~np.isnan(targets[:, output])
            own = covariance(batch, logs)[np.ix_(known, known)]
            noise = np.full(known.sum(), np.exp(logs[3]) + MIN_NOISE)
            noise /= weights[known] / weights[:count].mean()
            if batch.supervision.row_features is not None:
                first, y = known[:count].sum(), targets[known, output]
                alone_noise = heavy_tailed(own[:first, :first], y[:first], noise[:first], [np.arange(first)])
                noise = heavy_tailed(own, y, noise, [np.arange(known.sum())])
                noise[:first] = alone_noise
            expected = own @ np.linalg.solve(own + np.diag(noise), targets[known, output])
            np.testing.assert_allclose(found[known, output], expected, atol=1e-4)


def test_the_covariance_is_not_copied():
    """It may be most of the memory; torch's own is not traced."""
    count, rng = 1500, np.random.default_rng(0)
    batch = batch_of(rng.integers(10, size=(count, 1)).tolist(), np.zeros((count, 0)))
    rows = ProcessRows.of(**_numbers(batch))
    tracemalloc.start()
    _solved(rows, torch.from_numpy(rng.standard_normal(count)), torch.ones(count), _first_logs(0), count - 100)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 0.1 * 8 * count**2


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_rows_of_the_same_molecules_are_found_where_numbers_are_rounded(dtype):
    """A molecule's own part counts for them alone, on devices without float64, too."""
    batch = batch_of([[number // 2 % 10, number % 3] for number in range(60)], np.zeros((60, 1)))
    rows = ProcessRows.of(**_numbers(batch))
    rows = rows._replace(descriptors=rows.descriptors.to(dtype) + 1 / 3, conditions=rows.conditions.to(dtype))
    logs = torch.full((12,), NONE, dtype=dtype)
    logs[[2, 6, 8, 9, 10, 11]] = 0
    found = RowPairs.of(rows, rows).covariance(logs)
    expected = (batch.supervision.graph_of_row[:, None] == batch.supervision.graph_of_row).all(-1)
    torch.testing.assert_close(found, expected.to(dtype))


def test_long_chains_are_different_molecules_without_descriptors():
    """The cosine of two neighbors is above 0.999, and was taken for 1: the covariance was indefinite, and each chain
    was given what is its neighbors' own."""
    store = MoleculeStore.from_smiles(["C" * length for length in range(8, 24)], with_descriptors=False)
    rows, conditions = np.arange(96) % 16, np.linspace(-1, 1, 96)[:, None]
    batch = with_substructures(store.batch(rows[:, None], conditions), NUM_KINDS)
    found = RowPairs.of(known := ProcessRows.of(**_numbers(batch)), known)
    expected = torch.from_numpy(rows[:, None] == rows)
    assert torch.equal(torch.stack(found.same, 1), expected.nonzero())
    assert torch.linalg.eigvalsh(found.covariance(_first_logs(1))).min() > -1e-6

    own = np.random.default_rng(0).standard_normal(16)[rows]
    process = GaussianProcess.fit(batch, own[:, None], np.ones(96))
    np.testing.assert_allclose(process(batch).numpy()[:, 0], own, atol=0.05)


def test_it_learns_how_likely_noise_is():
    """A target that follows a descriptor is learned; one that follows nothing is noise."""
    batch = batch_of([[number % 10] for number in range(60)], np.zeros((60, 0)))
    told = batch.graph.graph_features[batch.supervision.graph_of_row[:, 0]].mean(1).double()
    told = ((told - told.mean()) / told.std()).numpy()[:, None]
    untold = np.random.default_rng(0).standard_normal((60, 1))
    smooth, rough = (GaussianProcess.fit(batch, y, np.ones(60)) for y in (told, untold))
    assert smooth.logs[0, 3] < -3 < rough.logs[0, 3]
    np.testing.assert_allclose(smooth(batch).numpy(), told, atol=0.1)
    assert rough(batch).std() < 0.7


def test_a_row_is_predicted_the_same_in_any_batch_and_after_padding():
    rows, conditions = CASES["both"]
    batch, targets = batch_of(rows, conditions), np.linspace(-1, 1, 10)[:, None]
    process = GaussianProcess.fit(batch, targets, np.ones(10))
    alone = [process(batch_of(rows[place : place + 1], conditions[place : place + 1])) for place in range(10)]
    torch.testing.assert_close(torch.cat(alone), process(batch), rtol=1e-9, atol=1e-9)


def test_fractions_stay_fractions():
    batch = batch_of(*CASES["one molecule"])
    targets = np.where(np.arange(10) % 2, 1.0, -1.0)[:, None]
    found = GaussianProcess.fit(batch, targets, np.ones(10), limits=((-0.2,), (0.3,)))(batch)
    assert found.min() == pytest.approx(-0.2) and found.max() == pytest.approx(0.3)


def test_rows_of_one_value_and_of_no_value():
    batch = batch_of(*CASES["one molecule"])
    targets = np.stack([np.zeros(10), np.full(10, np.nan)], 1)
    found = GaussianProcess.fit(batch, targets, np.ones(10))(batch)
    assert (found == 0).all()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [("molecules", 99, "molecules is beyond"), ("molecules", -1, "beyond"), ("coefficients", np.nan, "not finite")],
)
def test_a_damaged_one_is_refused(name, value, told):
    batch = batch_of(*CASES["one molecule"])
    process = GaussianProcess.fit(batch, np.arange(10.0)[:, None], np.ones(10))
    process.check()
    getattr(process, name)[3] = value
    with pytest.raises(DataError, match=told):
        process.check()


@pytest.mark.parametrize("case", ["one molecule", "both"])
def test_a_row_of_almost_zero_weight_has_no_influence(case):
    """Its noise would be infinite; all others are learned from."""
    batch, targets, weights = batch_of(*CASES[case]), np.arange(10.0)[:, None], np.ones(10)
    weights[3] = 5e-324
    process = GaussianProcess.fit(batch, targets, weights)
    process.check()
    assert process.coefficients[3] == 0 and (process.coefficients != 0).sum() == 9
