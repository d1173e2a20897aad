"""Checkpoints: written whole or not at all, and read without running what a file asks for."""

import io
import pickle
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins import CheckpointIO

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
