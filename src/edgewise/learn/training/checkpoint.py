"""Checkpoints: written whole or not at all, and read without running code in a file."""

import io
import pickle
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NotRequired, TypeAlias, TypedDict

import torch
from torch import Tensor

from edgewise.errors import RunFolderError
from edgewise.learn.files import write_bytes
from edgewise.learn.progress import note

LAST, PREVIOUS, BEST, FINISHED = "last.ckpt", "previous.ckpt", "best.ckpt", "finished.ckpt"
"""The checkpoints of a training: the newest, the one before it, the best weights, and the result."""


class EpochRecord(TypedDict):
    """The numbers of an epoch."""

    epoch: int
    """Counted from 0."""
    step: int
    """Steps since the beginning of the training."""
    learning_rate: float
    train_loss: float | None
    """None where all rows weigh nothing."""
    val_loss: float | None
    """None without validation."""
    seconds: float


@dataclass(frozen=True)
class FitResult:
    """The history of a training; the weights are in the model."""

    history: list[EpochRecord]
    """One record an epoch, or for each validation where these come after so many steps."""
    best_epoch: int
    """The epoch of the smallest validation loss, counted from 0; -1 where nothing was validated."""

    def length(self, unit: str) -> tuple[int, int | None]:
        """How many epochs or steps there were, and after which the validation loss was smallest, counted from 1; None
        where nothing was validated."""
        counts = [record["step"] if unit == "step" else number for number, record in enumerate(self.history, 1)]
        return counts[-1] if counts else 0, counts[self.best_epoch] if self.best_epoch >= 0 else None


RandomState: TypeAlias = tuple[Tensor, Tensor | None]
"""The state of the random numbers of a process, on the CPU and on its GPU."""


class WithinEpoch(TypedDict):
    """The state of a training in the middle of an epoch."""

    batches: int
    """Batches of the epoch that are done."""
    random: Tensor
    random_on_device: Tensor | None
    """See `RandomState`, of the first process."""
    sums: tuple[Tensor, Tensor]
    """The summed losses and weights of these batches."""
    others: NotRequired[list[RandomState]]
    """The random numbers of the other processes; left out where there is one."""


@dataclass(frozen=True)
class Saved:
    """A checkpoint that was read, to be continued."""

    path: Path
    """Where it was."""
    content: dict[str, Any]
    """What it holds."""
    best: dict[str, Tensor] | None = None
    """The best weights so far, as another checkpoint holds them; None where none are needed."""

    @property
    def is_finished(self) -> bool:
        """Whether the training was over."""
        return self.path.name == FINISHED


def save_checkpoint(content: Mapping[str, object], path: Path, *, backup: Path | None = None) -> None:
    """Writes a checkpoint atomically; the one that it replaces is moved to `backup`, if given."""
    buffer = io.BytesIO()
    torch.save(content, buffer)
    write_bytes(path, buffer.getbuffer(), backup=backup)


def latest(folder: Path, *, keeps_best: bool = True) -> Saved | None:
    """The newest checkpoint of a training that is not damaged; None where there is none.

    A newer one that is damaged is passed over with a note: the steps after the older one are trained again, and the
    training ends with the same weights.

    Args:
        folder: Where the checkpoints are.
        keeps_best: Whether the best weights are needed to continue.

    Raises:
        RunFolderError: All checkpoints are damaged, or the best weights are.
    """
    failed = None
    for path in (folder / name for name in (FINISHED, LAST, PREVIOUS)):
        if not path.is_file():
            continue
        try:
            content = load_checkpoint(path)
        except RunFolderError as error:
            failed = failed or error
            continue
        if failed is not None:
            note(f"{str(failed).removesuffix('; train again with --overwrite.')}; the training goes on from {path}.")
        needs_best = keeps_best and path.name != FINISHED and read_history(path, content)[1] >= 0
        return Saved(path, content, load_checkpoint(folder / BEST).get("state_dict") if needs_best else None)

    if failed is not None:
        raise failed
    return None


def load_checkpoint(path: Path) -> dict[str, Any]:
    """Reads a checkpoint: tensors, numbers, text and containers of them, nothing that runs.

    Raises:
        RunFolderError: The file is missing, damaged, or holds something else.
    """
    try:
        # torch reads the numbers without verifying their checksums.
        with zipfile.ZipFile(path) as archive:
            if (member := archive.testzip()) is not None:
                raise damaged(path, f"the checksum of {member} is wrong")
        content = torch.load(path, weights_only=True, map_location="cpu")
    except FileNotFoundError:
        raise RunFolderError(f"{path} does not exist; train again with --overwrite.") from None
    except (RuntimeError, ValueError, TypeError, LookupError, AttributeError, EOFError, OSError) as error:
        raise damaged(path, error) from error
    except pickle.UnpicklingError as error:
        # torch's own message proposes to load it nevertheless, which would run whatever the file says.
        raise damaged(path, "it holds Python objects beside tensors, numbers and text, and is not loaded") from error
    except (zipfile.BadZipFile, zlib.error) as error:
        raise damaged(path, error) from error

    if not isinstance(content, dict):
        raise damaged(path, f"it holds a {type(content).__name__}, expected a dict")
    return content


def damaged(path: Path, reason: object) -> RunFolderError:
    """The error of a checkpoint that cannot be continued."""
    first = next(iter(str(reason).splitlines()), "") or type(reason).__name__
    return RunFolderError(f"{path} is damaged ({first[:200]}); train again with --overwrite.")


def read_history(path: Path, content: Mapping[str, object]) -> tuple[list[EpochRecord], int]:
    """The numbers of each epoch, and the best of the epochs or −1; RunFolderError where they are something else."""
    history, best_epoch = content.get("history"), content.get("best_epoch")
    if not isinstance(history, list) or not all(isinstance(record, dict) and _is_record(record) for record in history):
        raise damaged(path, "history holds other things than the numbers of epochs")
    if type(best_epoch) is not int or not -1 <= best_epoch < len(history):
        raise damaged(path, f"best_epoch is {best_epoch!r:.60}")
    return list(history), best_epoch


def _is_record(record: Mapping[object, object]) -> bool:
    counts = all(type(record.get(name)) is int for name in ("epoch", "step"))
    numbers = all(isinstance(record.get(name), float) for name in ("learning_rate", "seconds"))
    losses = all(name in record and isinstance(record[name], float | None) for name in ("train_loss", "val_loss"))
    return counts and numbers and losses


def check_within(path: Path, within: object, num_batches: int) -> None:
    """Raise RunFolderError unless this is the position in an unfinished epoch, or None."""
    if within is None:
        return
    names = {"batches", "random", "random_on_device", "sums"}
    if not isinstance(within, dict) or within.keys() - {"others"} != names:
        raise damaged(path, "the state within the epoch has other entries")
    sums, usual, others = within["sums"], torch.get_rng_state(), within.get("others", [])
    if type(within["batches"]) is not int or not 0 < within["batches"] <= num_batches:
        raise damaged(path, f"batches is {within['batches']!r:.60}")
    if not isinstance(others, list) or not all(
        isinstance(generator_state, tuple) and len(generator_state) == 2 for generator_state in others
    ):
        raise damaged(path, "the state of the other processes holds other things")

    for random, on_device in ((within["random"], within["random_on_device"]), *others):
        if not isinstance(random, Tensor) or (random.dtype, random.shape) != (usual.dtype, usual.shape):
            raise damaged(path, "the state of the random numbers is none")
        if not isinstance(on_device, Tensor | None):
            raise damaged(path, "the state within the epoch holds other things")

    if not isinstance(sums, tuple) or len(sums) != 2:
        raise damaged(path, "the state within the epoch holds other things")
    if not all(isinstance(total, Tensor) and total.numel() == 1 for total in sums):
        raise damaged(path, "the sums of the losses are not numbers")
