"""Ray Data on a cluster of this machine: each chunk once, in order, also where an actor is killed."""

import os
import signal

import pytest

from edgewise.errors import EdgewiseError
from edgewise.learn.engine.chunks import map_chunks
from edgewise.learn.engine.ray import cluster
from edgewise.learn.engine.workers import Workers

pytestmark = [pytest.mark.nightly, pytest.mark.filterwarnings("ignore")]  # a cluster starts; of Ray, about itself


@pytest.fixture(scope="module", autouse=True)
def one_cluster():
    """Ray now and then ends a process that starts one cluster after the other, without a word."""
    pytest.importorskip("ray.data")
    with cluster(num_cpus=4):
        yield


def test_each_chunk_comes_once_in_order_also_where_an_actor_is_killed(tmp_path):
    mark, made = tmp_path / "killed", tmp_path / "made"
    made.mkdir()

    def make():
        (made / str(os.getpid())).touch()

        def work(chunk):
            import time

            time.sleep(0.02 * (chunk[0] % 3))
            if chunk[0] == 60 and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            return [10 * number for number in chunk]

        return work

    read = lambda: ([number, number + 1] for number in range(0, 120, 2))  # noqa: E731
    found = list(map_chunks(Workers(2), read, make, "counting"))
    assert found == [[10 * number, 10 * number + 10] for number in range(0, 120, 2)]
    assert mark.exists()
    assert len(list(made.iterdir())) == 3


@pytest.mark.parametrize("where", ["read", "make", "work"])
def test_errors_are_those_of_the_work(where):
    def fail_in(place):
        from edgewise.errors import DataError

        if place == where:
            raise DataError(f"line 3: wrong in {where}.")

    def read():
        yield 1
        fail_in("read")

    def make():
        fail_in("make")

        def work(chunk):
            fail_in("work")
            return chunk

        return work

    with pytest.raises(EdgewiseError, match=rf"^line 3: wrong in {where}\.$"):
        list(map_chunks(Workers(1), read, make, "counting"))
