"""The numbers of each epoch: always as a CSV file, and in another logger where one is named."""

import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from edgewise.errors import MissingExtraError, SettingError
from edgewise.learn.files import write_bytes
from edgewise.learn.training.folder import csv_text

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

    from edgewise.learn.training.checkpoint import EpochRecord

COLUMNS = ("member", "epoch", "step", "learning_rate", "train_loss", "val_loss", "seconds")


class Logger(Protocol):
    """What shows numbers while a model trains, with these two methods of Lightning's loggers."""

    def log_metrics(self, numbers: dict[str, float], step: int) -> None:
        """Adds a point to each curve."""

    def finalize(self, status: str) -> None:
        """Ends the files."""


class MetricsLog:
    """Writes the history of every ensemble member to `metrics.csv`, and new epochs to another logger as well.

    Args:
        folder: The folder of the logs.
        logger: csv, tensorboard, wandb or mlflow; None is tensorboard where it is installed, else csv.
        name: What the run is called in the other logger.
    """

    def __init__(self, folder: Path, logger: str | None = None, name: str = "edgewise"):
        self.folder = folder
        self.histories: dict[int, Sequence[Mapping[str, object]]] = {}
        folder.mkdir(parents=True, exist_ok=True)
        if logger is None:
            logger = "tensorboard" if has_tensorboard() else "csv"
        self.other = None if logger == "csv" else make_logger(logger, folder, name)

    def write(self, member: int, history: "Sequence[EpochRecord]", new: bool = True) -> None:
        """Takes over the history of a member; its last record goes to the other logger where it is new.

        The whole file is written anew, so that epochs a killed run had logged but not saved are not listed twice.
        """
        self.histories[member] = history
        rows = [
            [member, *(show(record[column]) for column in COLUMNS[1:])]
            for member, records in sorted(self.histories.items())
            for record in records
        ]
        write_bytes(self.folder / "metrics.csv", csv_text(COLUMNS, rows).encode())

        if self.other is not None and new:
            last = history[-1]
            numbers = {f"member_{member}/{name}": value for name, value in last.items() if isinstance(value, float)}
            self.other.log_metrics(numbers, last["epoch"])

    def close(self) -> None:
        """Lets the other logger finish its files."""
        if self.other is not None:
            self.other.finalize("success")


def show(value: object) -> object:
    """A cell of the table; empty for a missing number."""
    if isinstance(value, float):
        return f"{value:.8g}"
    return "" if value is None else value


def has_tensorboard() -> bool:
    """Whether a package that writes TensorBoard's files is installed."""
    try:
        import tensorboard  # noqa: F401
    except ImportError:
        try:
            import tensorboardX  # noqa: F401
        except ImportError:
            return False
    return True


def check_logger(logger: str | None) -> None:
    """Raise SettingError where the package of a logger is not installed."""
    is_installed = logger != "tensorboard" or has_tensorboard()
    try:
        if logger == "wandb":
            import wandb  # noqa: F401
        elif logger == "mlflow":
            import mlflow  # noqa: F401
    except ImportError:
        is_installed = False

    if not is_installed:
        raise SettingError(
            f"--logger {logger} needs the package {logger}, which is not installed: pip install {logger}."
        )


def make_logger(logger: str, folder: Path, name: str) -> Logger:
    """The logger of that name."""
    check_logger(logger)
    if logger == "tensorboard":
        return TensorBoard(folder / "tensorboard")
    try:
        from lightning.pytorch import loggers
    except ModuleNotFoundError as error:
        raise MissingExtraError("lightning", "loggers") from error

    if logger == "wandb":
        return loggers.WandbLogger(name=name, save_dir=folder, project="edgewise")
    return loggers.MLFlowLogger("edgewise", run_name=name, save_dir=os.fspath(folder / "mlruns"))


class TensorBoard:
    """Event files for TensorBoard. Lightning's logger does the same, and takes seconds to import.

    Args:
        folder: where they go.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    @cached_property
    def writer(self) -> "SummaryWriter":
        """What writes; made at the first epoch's end, as its import takes a while."""
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            from tensorboardX import SummaryWriter  # type: ignore[no-redef]
        return SummaryWriter(os.fspath(self.folder))

    def log_metrics(self, numbers: dict[str, float], step: int) -> None:
        """Adds a point to each curve."""
        for name, value in numbers.items():
            self.writer.add_scalar(name, value, step)

    def finalize(self, status: str) -> None:
        """Ends the files."""
        self.writer.close()
