"""Prefetching: work that threads do ahead of time, with results in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

from edgewise.errors import SettingError

Result = TypeVar("Result")

PREFETCH = 2
"""Results that are prefetched per thread."""


def ahead(work: Callable[[Any], Result], items: Iterable[Any], num_workers: int) -> Iterator[Result]:
    """`map(work, items)`, computed in threads, each up to `PREFETCH` results ahead.

    It saves time if the work releases the GIL, as numba and torch do. An error is raised where its result would come.
    If iteration stops early, running work is finished and no more is started.

    Args:
        work: computes the result of an item.
        items: read lazily.
        num_workers: number of threads; 0 computes each result when it is needed.
    """
    if num_workers < 0:
        raise SettingError(f"num_workers is {num_workers}; expected 0 or more threads.")
    if num_workers == 0:
        yield from map(work, items)
        return

    remaining = iter(items)
    with ThreadPoolExecutor(num_workers, thread_name_prefix="edgewise-sampling") as pool:
        futures = deque(pool.submit(work, item) for item in islice(remaining, PREFETCH * num_workers))
        try:
            while futures:
                result = futures.popleft().result()
                for item in islice(remaining, 1):
                    futures.append(pool.submit(work, item))
                yield result
        finally:
            for future in futures:
                future.cancel()
