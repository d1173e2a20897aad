"""Parallel `map` in Ray workers: results come in order, and items of lost workers are retried."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from edgewise.errors import EdgewiseError
from edgewise.learn.engine.ray import MAX_FAILURES, WorkerError, cluster, ray_error
from edgewise.learn.progress import stage

if TYPE_CHECKING:
    from ray import ObjectRef

Item = TypeVar("Item")
Result = TypeVar("Result")


@dataclass(frozen=True)
class Workers:
    """Ray workers that run in parallel."""

    count: int = 1
    """The number of items processed at a time."""
    on_gpu: bool = False
    """Whether each takes a GPU."""
    address: str | None = None
    """The address of a running cluster; None starts one on this machine."""

    def map(self, work: Callable[[Item], Result], items: Sequence[Item], name: str) -> list[Result]:
        """`work(item)` of each item, in their order.

        Args:
            work: Runs in a worker, in the current folder of the caller; if a worker is lost, another one retries the
                item, at most `MAX_FAILURES` times.
            items: The arguments of the calls.
            name: The name of the stage in the progress display.

        Raises:
            EdgewiseError: `work` raised it, or workers were lost too often. The other workers are stopped.
        """
        if not items:
            return []
        with cluster(self.address, num_cpus=self.count) as ray, stage(name, len(items)) as current:
            remote = ray.remote(num_cpus=1, num_gpus=int(self.on_gpu), max_retries=MAX_FAILURES)(_run_item)
            pending, results = list(enumerate(items)), {}
            running: dict[ObjectRef, int] = {}
            try:
                while pending or running:
                    while pending and len(running) < self.count:
                        number, item = pending.pop(0)
                        running[remote.remote(work, item, str(Path.cwd()))] = number
                    done, _ = ray.wait(list(running))
                    for reference in done:
                        number = running.pop(reference)
                        results[number], error = ray.get(reference)
                        if error is not None:
                            raise error.to_error()
                        current.done += 1
            except ray.exceptions.RayError as error:
                raise ray_error(f"{name} in {self.count} Ray workers", error) from error
            finally:
                for reference in running:
                    ray.cancel(reference, force=True)

        return [results[number] for number in range(len(items))]


def _run_item(work: Callable[[Item], Result], item: Item, folder: str) -> tuple[Result | None, WorkerError | None]:
    """The result, or an EdgewiseError as a value, so that Ray does not retry the item."""
    os.chdir(folder)
    try:
        return work(item), None
    except EdgewiseError as error:
        return None, WorkerError.from_error(error)
