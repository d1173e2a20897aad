"""Chunks of a long table through Ray Data: read one after the other, worked on by a pool of actors, and back in order.

A chunk and its result travel as bytes. Ray Data holds a few of each, so that memory does not grow with the table, and
replaces an actor that is lost, whose chunks others take over.
"""

import os
import pickle
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

from edgewise.errors import EdgewiseError
from edgewise.learn.engine.ray import MAX_FAILURES, WorkerError, cluster, ray_error
from edgewise.learn.engine.workers import Workers

if TYPE_CHECKING:
    import pyarrow as pa
    from ray.data import Datasource

Chunk = TypeVar("Chunk")
Result = TypeVar("Result")

STORE_BYTES = 2**29
"""What a cluster that is started here holds of chunks and results in memory."""


def map_chunks(
    workers: Workers, read: Callable[[], Iterable[Chunk]], make: Callable[[], Callable[[Chunk], Result]], name: str
) -> Generator[Result]:
    """The result of each chunk, in their order.

    Args:
        workers: How many work side by side, and where.
        read: Gives the chunks, the same ones each time. It is called in a process of the cluster, in the current
            folder of the caller, as is `make`.
        make: Makes what turns a chunk into its result, once in each worker.
        name: What is done, for errors.

    Raises:
        EdgewiseError: The error of a chunk, as `read` or `make` or its result raised it; or workers were lost too
            often.
    """
    with cluster(workers.address, num_cpus=workers.count, object_store_memory=STORE_BYTES) as ray:
        import logging

        from ray import data

        logging.getLogger("ray.data").setLevel(logging.ERROR)
        context = data.DataContext.get_current()
        context.enable_progress_bars = False
        context.execution_options.preserve_order = True

        # Otherwise small blocks are joined up to many megabytes before a worker gets one.
        context.target_min_block_size, context.target_max_block_size = 0, 1
        source = _source(read, str(Path.cwd()))
        # Reading takes no core of its own: where all have an actor, there would be none left for it.
        chunks = data.read_datasource(source, override_num_blocks=1, num_cpus=0)
        results = chunks.map_batches(
            _Actor,
            fn_constructor_args=(make, str(Path.cwd())),
            batch_size=1,
            batch_format="pyarrow",
            compute=data.ActorPoolStrategy(size=workers.count),
            num_cpus=1,
            num_gpus=int(workers.on_gpu),
            max_restarts=-1,
            max_task_retries=MAX_FAILURES,
        )

        count = 0
        try:
            for row in results.iter_rows():
                error, content = pickle.loads(row["content"])
                if error is not None:
                    raise error.to_error()
                if row["number"] != count:
                    raise EdgewiseError(f"{name}: chunk {count} did not come, but {row['number']}.")
                count += 1
                yield content
        except ray.exceptions.RayError as lost:
            raise ray_error(f"{name} in {workers.count} Ray workers", lost) from lost


def _block(number: int, error: WorkerError | None, content: object) -> "pa.Table":
    """A row of what Ray Data moves."""
    import pyarrow as pa

    packed = pickle.dumps((error, content), protocol=pickle.HIGHEST_PROTOCOL)
    return pa.table({"number": pa.array([number]), "content": pa.array([packed], pa.large_binary())})


def _source(read: Callable[[], Iterable[object]], folder: str) -> "Datasource":
    """What Ray Data reads the chunks from, in one task, which it lets wait while results are waiting."""
    from ray.data import Datasource, ReadTask
    from ray.data.block import BlockMetadata

    def blocks() -> "Iterator[pa.Table]":
        os.chdir(folder)
        number = 0
        try:
            for number, chunk in enumerate(read(), 1):
                yield _block(number - 1, None, chunk)
        except EdgewiseError as error:
            yield _block(number, WorkerError.from_error(error), None)

    class ChunkSource(Datasource):
        """Chunks."""

        def get_read_tasks(self, *_: object, **__: object) -> list[ReadTask]:
            """The one task that reads them."""
            return [ReadTask(blocks, BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None))]

        def estimate_inmemory_data_size(self) -> int | None:
            """Unknown."""
            return None

    return ChunkSource()


class _Actor:
    """A worker, which Ray Data calls with one chunk at a time."""

    def __init__(self, make: Callable[[], Callable[..., object]], folder: str):
        os.chdir(folder)
        self.work: Callable[..., object] | None = None
        self.error: WorkerError | None
        try:
            self.work, self.error = make(), None
        except EdgewiseError as error:  # raised here, Ray would make the actor again and again
            self.error = WorkerError.from_error(error)

    def __call__(self, table: "pa.Table") -> "pa.Table":
        number, packed = table["number"][0].as_py(), table["content"][0].as_py()
        error, chunk = pickle.loads(packed)
        error = error or self.error
        if error is not None or self.work is None:
            return _block(number, error, None)
        try:
            return _block(number, None, self.work(chunk))
        except EdgewiseError as wrong:
            return _block(number, WorkerError.from_error(wrong), None)
