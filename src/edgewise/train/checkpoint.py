"""Checkpoints: written whole or not at all, and read without running code in a file."""

import io
import math
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import CheckpointIO
from torch import Tensor
from torch.optim import Optimizer

from edgewise.errors import RunFolderError
from edgewise.files import write_bytes


def save_checkpoint(content: dict[str, Any], path: Path) -> None:
    """Writes a checkpoint in one step."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_bytes(path, buffer.getbuffer())


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Reads a checkpoint: tensors, numbers, text and containers of them, nothing that runs.

    Raises:
        RunFolderError: The file is missing, damaged, or holds something else.
    """
    try:
        content = torch.load(path, weights_only=True, map_location="cpu")
    except FileNotFoundError:
        raise RunFolderError(f"{path} does not exist; train again with --overwrite.") from None
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError, EOFError, OSError) as error:
        raise damaged(path, error) from error
    except pickle.UnpicklingError as error:
        raise damaged(path, error) from error
    if not isinstance(content, dict):
        raise damaged(path, f"it holds a {type(content).__name__}, expected a dict")
    return content


def damaged(path: Path, reason: object) -> RunFolderError:
    """The error of a checkpoint that cannot be continued."""
    first = next(iter(str(reason).splitlines()), "") or type(reason).__name__
    return RunFolderError(f"{path} is damaged ({first[:200]}); train again with --overwrite.")


def read_history(path: Path, content: Mapping[str, Any]) -> tuple[list[dict[str, Any]], int]:
    """The numbers of each epoch, and the best of the epochs or −1; RunFolderError where they are something else."""
    history, best_epoch = content.get("history"), content.get("best_epoch")
    if not isinstance(history, list) or not all(isinstance(each, dict) and _is_record(each) for each in history):
        raise damaged(path, "history holds other things than the numbers of epochs")
    if type(best_epoch) is not int or not -1 <= best_epoch < len(history):
        raise damaged(path, f"best_epoch is {best_epoch!r:.60}")
    return list(history), best_epoch


def _is_record(record: dict[Any, Any]) -> bool:
    counts = all(type(record.get(name)) is int for name in ("epoch", "step"))
    numbers = all(isinstance(record.get(name), float) for name in ("learning_rate", "train_loss", "seconds"))
    return counts and numbers and "val_loss" in record and isinstance(record["val_loss"], float | None)


def check_restored(path: Path, task: Any, optimizer: Optimizer, fresh: Optimizer) -> None:
    """Raise RunFolderError where what was read cannot be trained on: other shapes, other types, or what is not finite.

    Args:
        path: The checkpoint.
        task: Has the `model`, and `averaged`, the averages of its weights.
        optimizer: As it was read: one of the Adam family.
        fresh: One as it begins.
    """
    parameters = list(task.model.parameters())
    averaged = task.averaged if task.averaged else parameters
    for average, parameter in zip(averaged, parameters, strict=True):
        if not isinstance(average, Tensor) or average.shape != parameter.shape:
            raise damaged(path, "an averaged weight has another shape")
        if not (torch.isfinite(average).all() and torch.isfinite(parameter).all()):
            raise damaged(path, "a weight is not finite")
    for group, usual in zip(optimizer.param_groups, fresh.param_groups, strict=True):
        for name, value in usual.items():
            kinds = type(value) if value is not None else (type(None), bool)
            if name != "params" and not isinstance(group.get(name), kinds):
                raise damaged(path, f"{name} of the optimizer is {group.get(name)!r:.60}")
        if not all(math.isfinite(group[name]) for name in ("lr", "eps", "weight_decay")):
            raise damaged(path, "a setting of the optimizer is not finite")
        if len(group["betas"]) != 2 or not all(isinstance(b, float) and 0 <= b < 1 for b in group["betas"]):
            raise damaged(path, f"betas of the optimizer are {group['betas']!r:.60}")
        for parameter in group["params"]:
            _check_state(path, parameter, optimizer.state.get(parameter))


def check_progress(path: Path, found: Any, usual: Any, where: str) -> None:
    """Raise RunFolderError unless counts that were read are like those of a training that begins.

    Args:
        path: The checkpoint.
        found: What was read: numbers in dictionaries and lists.
        usual: The same of a training that begins; a list there gives the form of each entry.
        where: What an error calls it.
    """
    if isinstance(usual, dict):
        if not isinstance(found, dict) or found.keys() != usual.keys():
            raise damaged(path, f"{where} has other entries")
        for name, value in usual.items():
            check_progress(path, found[name], value, f"{where}.{name}")
    elif isinstance(usual, list):
        if not isinstance(found, list) or (usual and len(found) != len(usual)):
            raise damaged(path, f"{where} is {found!r:.60}")
        for each, value in zip(found, usual):
            check_progress(path, each, value, where)
    else:
        fits = (
            found is None or isinstance(found, (bool, int, float, str)) if usual is None else type(found) is type(usual)
        )
        is_number = isinstance(found, (int, float)) and not isinstance(found, bool)
        if not fits or (is_number and not 0 <= found <= 2**53):
            raise damaged(path, f"{where} is {found!r:.60}")


def check_within(path: Path, within: Any, num_batches: float) -> None:
    """Raise RunFolderError unless this is the position in an unfinished epoch, or None."""
    if within is None:
        return
    names = {"batches", "random", "random_on_device", "sums"}
    if not isinstance(within, dict) or within.keys() != names:
        raise damaged(path, "the state within the epoch has other entries")
    random, sums, usual = within["random"], within["sums"], torch.get_rng_state()
    if type(within["batches"]) is not int or not 0 < within["batches"] <= num_batches:
        raise damaged(path, f"batches is {within['batches']!r:.60}")
    if not isinstance(random, Tensor) or (random.dtype, random.shape) != (usual.dtype, usual.shape):
        raise damaged(path, "the state of the random numbers is none")
    if not isinstance(within["random_on_device"], Tensor | None) or not isinstance(sums, dict):
        raise damaged(path, "the state within the epoch holds other things")
    for each in sums.values():
        if not isinstance(each, tuple) or not all(isinstance(x, Tensor) and x.numel() == 1 for x in each):
            raise damaged(path, "the sums of the losses are no numbers")


def _check_state(path: Path, parameter: Tensor, state: Any) -> None:
    expected = {"step": torch.Size(), "exp_avg": parameter.shape, "exp_avg_sq": parameter.shape}
    if not isinstance(state, dict) or set(state) != set(expected):
        raise damaged(path, "the state of the optimizer is not that of Adam")
    for name, shape in expected.items():
        value = state[name]
        if not isinstance(value, Tensor) or value.shape != shape or not torch.isfinite(value).all():
            raise damaged(path, f"{name} of the optimizer has another shape or is not finite")


class CheckpointFiles(CheckpointIO):
    """Lightning's checkpoints, through the functions above."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: Any, storage_options: Any = None) -> None:
        """Writes one."""
        save_checkpoint(checkpoint, Path(path))

    def load_checkpoint(self, path: Any, map_location: Any = None, weights_only: bool | None = True) -> dict[str, Any]:
        """Reads one."""
        return load_checkpoint(Path(path))

    def remove_checkpoint(self, path: Any) -> None:
        """Removes one."""
        Path(path).unlink(missing_ok=True)
