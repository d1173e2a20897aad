"""Checkpoints: written whole or not at all, and read without running code in a file."""

import io
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

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


def check_within(path: Path, within: Any, num_batches: int) -> None:
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
    if not isinstance(within["random_on_device"], Tensor | None) or not isinstance(sums, tuple) or len(sums) != 2:
        raise damaged(path, "the state within the epoch holds other things")
    if not all(isinstance(each, Tensor) and each.numel() == 1 for each in sums):
        raise damaged(path, "the sums of the losses are no numbers")
