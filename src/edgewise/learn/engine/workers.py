"""Independent work in workers of Ray: each item once, its results in order; what a lost worker had is done again."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from edgewise.errors import EdgewiseError
from edgewise.learn.engine.ray import MAX_FAILURES, WorkerError, cluster, failure
from edgewise.learn.progress import stage

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Workers:
    """Workers of Ray that compute side by side."""

    count: int = 1
    """How many items are worked on at a time."""
    on_gpu: bool = False
    """Whether each takes a GPU."""
    address: str | None = None
    """The address of a running cluster; None starts one on this machine."""

    def map(self, work: Callable[[Item], Result], items: Sequence[Item], name: str) -> list[Result]:
        """`work(item)` of each item, in their order.

        Args:
            work: Is called in a worker, in the current folder of the caller; where a worker is lost, another one calls
                it again with the same item, `MAX_FAILURES` times at most.
            items: What it is called with, one by one.
            name: What is done, for those who watch.

        Raises:
            EdgewiseError: The error of an item, as `work` raised it; or workers were lost too often. The others are
                stopped.
        """
        if not items:
            return []
        with cluster(self.address, num_cpus=self.count) as ray, stage(name, len(items)) as current:
            remote = ray.remote(num_cpus=1, num_gpus=int(self.on_gpu), max_retries=MAX_FAILURES)(_carried)
            waiting, results = list(enumerate(items)), {}
            running: dict[Any, int] = {}
            try:
                while waiting or running:
                    while waiting and len(running) < self.count:
                        number, item = waiting.pop(0)
                        running[remote.remote(work, item, str(Path.cwd()))] = number
                    done, _ = ray.wait(list(running))
                    for reference in done:
                        number = running.pop(reference)
                        results[number], error = ray.get(reference)
                        if error is not None:
                            raise error.restored()
                        current.done += 1
            except ray.exceptions.RayError as lost:
                raise failure(f"{name} in {self.count} Ray workers", lost) from lost
            finally:
                for reference in running:
                    ray.cancel(reference, force=True)

        return [results[number] for number in range(len(items))]


def _carried(work: Callable[[Any], Any], item: Any, folder: str) -> tuple[Any, WorkerError | None]:
    """The result in a worker, or an error that would come again however often it is tried."""
    os.chdir(folder)
    try:
        return work(item), None
    except EdgewiseError as error:
        return None, WorkerError.of(error)
