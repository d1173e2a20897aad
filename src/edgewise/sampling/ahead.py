"""Work that is done ahead, in threads, while its results are used in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import Any, TypeVar

from edgewise.errors import SettingError

Result = TypeVar("Result")

AHEAD = 2
"""Results that wait for each thread."""


def ahead(work: Callable[[Any], Result], items: Iterable[Any], num_workers: int) -> Iterator[Result]:
    """`map(work, items)`, computed in threads up to `AHEAD` results each before they are used.

    It gains time where the work releases the GIL, as numba and torch do. An error of the work is raised where its
    result would come. Who stops early waits for the results that are being computed, and no more are.

    Args:
        work: from an item to a result.
        items: read when their turn comes.
        num_workers: threads; 0 computes each result when it is needed.
    """
    if num_workers < 0:
        raise SettingError(f"num_workers is {num_workers}; expected 0 or more threads.")
    if num_workers == 0:
        yield from map(work, items)
        return
    left = iter(items)
    with ThreadPoolExecutor(num_workers, thread_name_prefix="edgewise-sampling") as pool:
        waiting = deque(pool.submit(work, item) for item in islice(left, AHEAD * num_workers))
        try:
            while waiting:
                result = waiting.popleft().result()
                for item in islice(left, 1):
                    waiting.append(pool.submit(work, item))
                yield result
        finally:
            for each in waiting:
                each.cancel()
