"""Batches of seeds: their order, the same samples for any number of threads, and errors from threads."""

import threading

import numpy as np
import pytest
import torch

from edgewise import Graph, SettingError, ShapeError
from edgewise.sampling import NeighborLoader, NeighborSampler
from edgewise.sampling.ahead import PREFETCH, ahead


@pytest.fixture(scope="module")
def sampler():
    index = np.random.default_rng(0).integers(0, 300, (2, 3000))
    return NeighborSampler(Graph.of(index, num_nodes=300), [4, 3], seed=1)


def fields(sample):
    return [
        t.tolist()
        for t in (sample.n_id, sample.e_id, sample.seeds, *vars(sample.graph.edges).values())
        if torch.is_tensor(t)
    ]


def test_samples_do_not_depend_on_the_number_of_threads(sampler):
    passes = []
    for num_workers in (0, 1, 3):
        loader = NeighborLoader(sampler, batch_size=32, shuffle=True, num_workers=num_workers)
        passes.append([[fields(sample) for sample in loader] for _ in range(2)])
    assert passes[0] == passes[1] == passes[2]
    assert passes[0][0] != passes[0][1]
    loader.epoch = 1
    assert [fields(sample) for sample in loader] == passes[0][1]


def test_each_batch_and_each_epoch_draws_anew(sampler):
    loader = NeighborLoader(sampler, [7] * 6, batch_size=1)
    first, second = ([sample.e_id.tolist() for sample in loader] for _ in range(2))
    assert len({tuple(each) for each in first}) > 1
    assert first != second


def test_each_seed_stands_in_one_batch(sampler):
    chosen = torch.arange(300) % 3 == 0
    loader = NeighborLoader(sampler, chosen, batch_size=30, shuffle=True)
    batches = [sample.n_id[sample.seeds] for sample in loader]
    assert [len(each) for each in batches] == [30, 30, 30, 10]
    assert torch.equal(torch.cat(batches).sort().values, chosen.nonzero().flatten())
    assert len(list(NeighborLoader(sampler, chosen, batch_size=30, drop_last=True))) == 3
    assert list(NeighborLoader(sampler, [], batch_size=4)) == []


def test_times_go_with_their_seeds(sampler):
    times = torch.arange(3000)
    timed = NeighborSampler(sampler.graph, [-1], edge_times=times)
    loader = NeighborLoader(timed, batch_size=50, times=torch.arange(300) * 10, shuffle=True)
    for sample in loader:
        limits = 10 * sample.n_id[sample.seeds][sample.graph.edges.receivers]
        assert bool((sample.e_id < limits).all())


def test_work_is_done_ahead_in_order_and_no_further():
    started, going = [], threading.Event()

    def work(item):
        started.append(item)
        going.wait(0 if item < 2 else None)
        return item

    results = ahead(work, range(100), 2)
    assert next(results) == 0
    going.set()
    assert next(results) == 1
    results.close()
    assert max(started) <= 2 * PREFETCH + 2
    assert list(ahead(str, range(5), 3)) == ["0", "1", "2", "3", "4"]


def test_an_error_of_a_thread_comes_where_its_result_would():
    results = ahead(lambda item: 1 // (item - 2), range(5), 2)
    assert [next(results), next(results)] == [-1, -1]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_what_cannot_be_loaded_is_refused(sampler):
    with pytest.raises(SettingError, match="batch_size is 0; expected at least 1"):
        NeighborLoader(sampler, batch_size=0)
    with pytest.raises(SettingError, match="num_workers is -1; expected 0 or more threads"):
        NeighborLoader(sampler, num_workers=-1)
    with pytest.raises(ShapeError, match="seeds must lie in 0 … 299; found 300"):
        NeighborLoader(sampler, [300])
    with pytest.raises(ShapeError, match=r"times is \(2,\), expected \(1,\), one per seed"):
        NeighborLoader(sampler, [3], times=[1, 2])
