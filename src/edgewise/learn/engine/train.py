"""Training through Ray Train: workers on a local or a running cluster, replaced when they are lost."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from edgewise.learn.engine.ray import MAX_FAILURES, cluster, ray_error
from edgewise.learn.files import JsonObject

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
        folder: The run folder. Ray writes beside it, while it trains.
        num_workers: How many there are.
        on_gpu: Whether each worker takes a GPU.
        address: The address of a running cluster; None starts one on this machine.

    Raises:
        EdgewiseError: Workers were lost more than `MAX_FAILURES` times, or failed.
    """
    beside = folder.with_name(f"{folder.name}.ray")
    with cluster(address, num_cpus=num_workers):
        from ray.train import FailureConfig, RunConfig, ScalingConfig, TrainingFailedError
        from ray.train.torch import TorchConfig, TorchTrainer

        trainer = TorchTrainer(
            _loop,
            train_loop_config={"work": work, "given": given, "on_gpu": on_gpu},
            torch_config=TorchConfig(backend="cpu:gloo,cuda:nccl" if on_gpu else "gloo"),
            scaling_config=ScalingConfig(num_workers=num_workers, use_gpu=on_gpu),
            run_config=RunConfig(
                name=folder.name, storage_path=str(beside), failure_config=FailureConfig(max_failures=MAX_FAILURES)
            ),
        )
        try:
            result = trainer.fit()
        except TrainingFailedError as error:
            raise ray_error(f"the training in {num_workers} Ray workers", error) from error
        finally:
            shutil.rmtree(beside, ignore_errors=True)

    message: str | None = (result.metrics or {}).get("error")
    return message


def _loop(config: JsonObject) -> None:
    """What Ray runs in a worker."""
    import ray.train

    if config["on_gpu"]:
        import torch
        from ray.train.torch import get_device

        torch.cuda.set_device(get_device())
    ray.train.report({"error": config["work"](config["given"])})
