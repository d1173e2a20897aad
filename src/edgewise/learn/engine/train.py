"""Training through Ray Train: workers on a local or a running cluster, replaced when they are lost."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from edgewise.learn.engine.ray import MAX_FAILURES, cluster, ray_error
from edgewise.learn.files import JsonObject, Scratch, write_bytes

Given = TypeVar("Given")
Work = Callable[[Given], str | None]
"""What a worker does, torch.distributed being connected; its result is the message of an error that comes again however
often it is tried, or None."""


def train(
    work: Work[Given], given: Given, folder: Path, num_workers: int, *, on_gpu: bool, address: str | None = None
) -> str | None:
    """Runs `work(given)` in each of several workers, all anew where one is lost; the message of an error, or None.

    `work` continues what it finds, so that a lost worker costs the steps since the last checkpoint.

    Args:
        work: What each worker does.
        given: What it is called with.
        folder: The run folder. Ray writes to a temporary folder beside it while it trains, which all machines reach.
        num_workers: How many there are.
        on_gpu: Whether each worker takes a GPU.
        address: The address of a running cluster; None starts one on this machine.

    Raises:
        EdgewiseError: Workers were lost more than `MAX_FAILURES` times, or failed.
        WriteError: Ray's folder cannot be made.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with cluster(address, num_cpus=num_workers), Scratch(folder.parent) as scratch:
        from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
        from ray.train.torch import TorchConfig, TorchTrainer

        error_file = scratch.folder / "error.txt"
        loop_config = {"work": work, "given": given, "error_file": str(error_file), "is_alone": num_workers == 1}
        trainer = TorchTrainer(
            _loop,
            train_loop_config={**loop_config, "on_gpu": on_gpu},
            torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if on_gpu else "gloo"),
            scaling_config=ScalingConfig(num_workers=num_workers, use_gpu=on_gpu),
            run_config=RunConfig(
                name=folder.name,
                storage_path=str(scratch.folder),
                failure_config=FailureConfig(max_failures=MAX_FAILURES),
            ),
        )
        try:
            trainer.fit()
        except TrainingFailedError as error:
            if not error_file.is_file():
                raise ray_error(f"the training in {num_workers} Ray workers", error) from error

        return error_file.read_text("utf-8") if error_file.is_file() else None


def _loop(config: JsonObject) -> None:
    """What Ray runs in a worker.

    A message goes through a file: Ray passes on what the first worker returns, and the error may be that of another.
    """
    error_file = Path(config["error_file"])
    if error_file.is_file():  # Ray tries again what failed, but this would fail again
        return
    if config["on_gpu"]:
        import torch
        from ray.train.torch import get_device

        torch.cuda.set_device(get_device())

    message = config["work"](config["given"])
    if message is not None:
        write_bytes(error_file, message.encode())
        if not config["is_alone"]:
            raise RuntimeError(message)  # the others may wait for this worker: Ray ends them
