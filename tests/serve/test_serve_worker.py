"""Rows of several requests are predicted together; a failing row does not fail the others."""

import asyncio
import threading
import time

import pytest
from stand_in import StandIn, molecule_row

from edgewise.errors import DataError
from edgewise.serve.lanes import ThreadLane, predict_or_reason
from edgewise.serve.limits import Limits
from edgewise.serve.worker import BusyError, Durations, Worker


def with_worker(explainer, work, **limits):
    """What `work` returns, which is given a running worker."""

    async def run():
        worker = Worker([ThreadLane(explainer)], Limits(**limits))
        worker.start()
        try:
            return await work(worker)
        finally:
            await worker.stop()

    return asyncio.run(run())


def rows_of(*names):
    return [molecule_row(name) for name in names]


def test_requests_that_come_together_are_predicted_together():
    explainer = StandIn()

    async def work(worker):
        return await asyncio.gather(*(worker.predict(rows_of("C" * n)) for n in range(1, 33)))

    found = with_worker(explainer, work, batch_wait=50)
    assert [each[0].predictions[0].value for each in found] == list(range(1, 33))
    assert explainer.batches == [32]


def test_a_full_batch_does_not_wait():
    explainer = StandIn()

    async def work(worker):
        async with asyncio.timeout(5):
            return await asyncio.gather(*(worker.predict(rows_of("C")) for _ in range(8)))

    assert len(with_worker(explainer, work, batch_wait=10_000, batch_size=4, seconds=20)) == 8
    assert explainer.batches == [4, 4]


def test_a_batch_is_no_larger_than_allowed_and_a_long_request_is_divided():
    explainer = StandIn()

    async def work(worker):
        return await asyncio.gather(*(worker.predict(rows_of(*["C"] * n)) for n in (3, 3, 9, 1, 2)))

    found = with_worker(explainer, work, batch_wait=20, batch_size=4)
    assert [len(each) for each in found] == [3, 3, 9, 1, 2]
    assert explainer.batches == [4, 4, 4, 4, 2]


def test_without_batching_each_request_is_alone():
    explainer = StandIn()

    async def work(worker):
        return await asyncio.gather(*(worker.predict(rows_of("C")) for _ in range(5)))

    with_worker(explainer, work, batching=False)
    assert explainer.batches == [1] * 5


def test_one_bad_row_fails_alone():
    explainer = StandIn()

    async def work(worker):
        asked = [worker.predict(rows_of(name)) for name in ("C", "bad", "CC", "CCC")]
        return await asyncio.gather(*asked)

    found = with_worker(explainer, work, batch_wait=20)
    assert [each[0].predictions[0].value for place, each in enumerate(found) if place != 1] == [1, 2, 3]
    assert isinstance(found[1][0], DataError)


def test_one_row_that_breaks_the_model_fails_alone():
    explainer = StandIn()

    async def work(worker):
        asked = [worker.predict(rows_of(name)) for name in ("C", "boom", "CC")]
        return await asyncio.gather(*asked, return_exceptions=True)

    found = with_worker(explainer, work, batch_wait=20)
    assert [found[0][0].predictions[0].value, found[2][0].predictions[0].value] == [1, 2]
    assert isinstance(found[1], RuntimeError)


@pytest.mark.parametrize("places", [[0], [6], [0, 1, 2], [3, 5], list(range(7)), []])
def test_unreadable_rows_are_found_wherever_they_are(places):
    rows = rows_of(*("bad" if place in places else "C" * (place + 1) for place in range(7)))
    found = predict_or_reason(StandIn(), rows)
    assert [place for place, each in enumerate(found) if isinstance(each, DataError)] == places
    assert all(each.predictions[0].value == place + 1 for place, each in enumerate(found) if place not in places)


def test_a_request_that_times_out_gets_an_error_and_is_not_computed():
    explainer = StandIn()
    explainer.gate.clear()

    async def work(worker):
        first = asyncio.ensure_future(worker.predict(rows_of("C")))
        await asyncio.sleep(0.05)
        late = asyncio.ensure_future(worker.predict(rows_of("CC")))
        results = await asyncio.gather(first, late, return_exceptions=True)
        explainer.gate.set()
        return results, await worker.predict(rows_of("CCC"))

    results, after = with_worker(explainer, work, seconds=0.3)
    assert [type(each) for each in results] == [TimeoutError] * 2
    assert after[0].predictions[0].value == 3
    assert explainer.batches == [1, 1], "the second had given up"


def test_too_many_waiting_rows_are_refused():
    explainer = StandIn()
    explainer.gate.clear()

    async def work(worker):
        running = asyncio.ensure_future(worker.predict(rows_of("C")))
        await asyncio.sleep(0.05)
        waiting = asyncio.ensure_future(worker.predict(rows_of("C", "C", "C")))
        await asyncio.sleep(0)
        with pytest.raises(BusyError):
            await worker.predict(rows_of("C", "C"))
        explainer.gate.set()
        return await asyncio.gather(running, waiting)

    assert [len(each) for each in with_worker(explainer, work, waiting=4)] == [1, 3]


def test_one_thread_runs_the_model_and_explanations_take_turns():
    explainer = StandIn()

    async def work(worker):
        asked = []
        for _ in range(4):
            asked += [worker.predict(rows_of("C")), worker.do(lambda explainer: threading.current_thread().name)]
        return await asyncio.gather(*asked)

    found = with_worker(explainer, work, batch_wait=20)
    assert {found[place] for place in (1, 3, 5, 7)} == explainer.threads
    assert explainer.batches == [4]


def test_long_rows_are_not_computed_all_at_once(monkeypatch):
    monkeypatch.setattr("edgewise.serve.lanes.BATCH_CHARACTERS", 10)
    explainer = StandIn()
    names = ["C" * size for size in (4, 5, 2, 25, 1, 1, 9)]
    assert [each.predictions[0].value for each in predict_or_reason(explainer, rows_of(*names))] == list(
        map(len, names)
    )
    assert explainer.batches == [2, 1, 1, 2, 1]


def test_rows_that_turn_out_slow_are_computed_beside_the_quick_ones():
    """The first lane leaves them alone, and answers others meanwhile."""
    quick, slow = StandIn(), StandIn()
    slow.gate.clear()

    async def run():
        worker = Worker([ThreadLane(quick), ThreadLane(slow)], Limits(batch_size=4, seconds=20))
        worker.start()
        try:
            # The second lane takes quick rows too: it is kept busy first.
            long = asyncio.ensure_future(worker.predict(rows_of("C" * 500)))
            await asyncio.sleep(0.05)
            mixed = asyncio.ensure_future(worker.predict(rows_of("C", "dense", "CC")))
            async with asyncio.timeout(10):
                for _ in range(3):
                    assert (await worker.predict(rows_of("CCC")))[0].predictions[0].value == 3
            assert not mixed.done()
            slow.gate.set()
            return await asyncio.gather(long, mixed)
        finally:
            await worker.stop()

    (long,), mixed = asyncio.run(run())
    assert [each.predictions[0].value for each in (long, *mixed)] == [500, 1, 5, 2]
    assert slow.batches == [1, 1]


def test_clients_take_turns_by_the_time_that_they_cost():
    explainer = StandIn(seconds=0.02)
    done = []

    async def work(worker):
        async def ask(client, name):
            await worker.predict(rows_of(name), client)
            done.append(client)

        greedy = [ask(("1.1.1.1", port), "C") for port in range(30)]
        modest = [ask(("2.2.2.2", 1), "CC") for _ in range(3)]
        await asyncio.gather(*greedy, *modest)

    with_worker(explainer, work, batch_size=1, batch_wait=0)
    last = max(place for place, client in enumerate(done) if client[0] == "2.2.2.2")
    assert last < 12, "thirty connections of one address count as one client"


def test_while_the_first_lane_starts_again_another_does_its_work_first():
    first, second = StandIn(), StandIn(seconds=0.05)
    started = threading.Event()

    class Restarting(ThreadLane):
        def start(self):
            started.wait(20)

    async def run():
        worker = Worker([Restarting(first), ThreadLane(second)], Limits(seconds=20, batch_wait=0))
        worker.start()
        try:
            await asyncio.sleep(0.2)
            slow = [asyncio.ensure_future(worker.predict(rows_of("C" * 500))) for _ in range(40)]
            await asyncio.sleep(0.02)
            assert (await worker.predict(rows_of("CCC")))[0].predictions[0].value == 3
            assert sum(each.done() for each in slow) < 5
            started.set()
            await asyncio.gather(*slow)
        finally:
            started.set()
            await worker.stop()

    asyncio.run(run())
    assert first.batches == []


class KilledLane(ThreadLane):
    """A lane in which a batch or job takes 60 ms and may be killed; the restart takes half of the time limit."""

    def __init__(self):
        self.num_kills = 0
        self.is_killed = False

    def start(self):
        if self.is_killed:
            time.sleep(0.2)
        self.is_killed = False

    def run(self, job, seconds):
        time.sleep(min(seconds, 0.06))
        if seconds < 0.06:
            self.is_killed = True
            self.num_kills += 1
            raise TimeoutError
        return ["predicted"] * len(job.keywords["rows"]) if hasattr(job, "keywords") else None


@pytest.mark.parametrize("is_quick", [False, True])
def test_under_overload_the_worker_answers_what_it_can_compute_and_refuses_the_others(is_quick):
    """A request comes every 40 ms: two of three can be answered. None were: the oldest started with no time left, were
    killed, and others grew as old meanwhile."""
    lane, results = KilledLane(), []

    async def ask(worker, number):
        client = (f"10.0.0.{number}", number)
        try:
            await (worker.predict(rows_of("C"), client) if is_quick else worker.do(lambda model: None, client, 5))
        except (BusyError, TimeoutError) as error:
            results.append(type(error))
        else:
            results.append(None)

    async def run():
        worker = Worker([lane], Limits(seconds=0.4, batch_size=1, batch_wait=0))
        worker.start()
        requests = []
        for number in range(75):
            requests.append(asyncio.ensure_future(ask(worker, number)))
            await asyncio.sleep(0.04)
        await asyncio.gather(*requests)
        await worker.stop()

    asyncio.run(run())
    assert results.count(None) > 35
    assert results.count(BusyError) > 5
    assert lane.num_kills <= 2


def test_needed_time_is_the_mean_and_four_deviations():
    durations, kind, other = Durations(30.0), (True, True, 5), (True, True, 9)
    durations.add(kind, 1.0)
    assert durations.needed(kind) == pytest.approx(1.5), "4/8 more than the mean, where there is no deviation"
    durations.add(kind, 2.0)
    assert durations.needed(kind) == pytest.approx(1.2 + 4 * 0.2)
    assert durations.needed(other) == 0


def test_a_killed_computation_counts_double_unless_it_had_the_whole_time():
    durations, kind = Durations(30.0), (True, True, 5)
    durations.add_killed(kind, 3.0)
    assert durations.needed(kind) == pytest.approx(6 * 1.5)
    durations.add_killed(kind, 29.9)
    assert durations.needed(kind) == pytest.approx(6 * 1.5)


def test_a_task_that_has_not_waited_starts_however_long_those_before_it_took():
    explainer = StandIn(seconds=0.5)

    async def work(worker):
        return [await worker.predict(rows_of("C" * number)) for number in (1, 2, 3)]

    results = with_worker(explainer, work, seconds=0.7)
    assert [result[0].predictions[0].value for result in results] == [1, 2, 3]
