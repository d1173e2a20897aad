"""A model of texts and its run folder: how it begins, is trained there, kept, and read again."""

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors
from torch import nn

from edgewise.choices import TokenKind
from edgewise.data.text import Tokenizer
from edgewise.errors import RunFolderError
from edgewise.train.folder import RunFolder
from edgewise.train.loader import Loader, seed_of
from edgewise.train.log import MetricsLog
from edgewise.train.loss import RelativeLoss, TargetLoss, TokenLoss
from edgewise.train.settings import TrainSettings

if TYPE_CHECKING:
    from edgewise.train.fit import FitResult

Model = TypeVar("Model", bound=nn.Module)


def untrained(build: Callable[[], Model], seed: int = 0) -> Model:
    """A model before its first step; its weights depend on the seed alone, and nothing else on them."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed))
        return build()


def fit_in(
    folder: RunFolder | None,
    model: nn.Module,
    loaders: tuple[Loader, Loader | None],
    settings: TrainSettings,
    *,
    loss: TokenLoss | TargetLoss | RelativeLoss = TokenLoss(),
    resume: bool = False,
) -> "FitResult":
    """Trains a model in place; what each epoch came to, and which was best.

    Args:
        folder: where checkpoints and the numbers of each epoch go; None for nowhere.
        model: from batches to scores.
        loaders: batches to learn from, and to choose the epoch by.
        settings: the recipe, its epochs known.
        loss: what is minimized.
        resume: whether to continue from checkpoints in the folder.
    """
    # Lightning takes seconds to import, and reading a model does without it.
    from edgewise.train.fit import fit

    log = None if folder is None else MetricsLog(folder.log_folder(), settings.logger, folder.path.name)
    checkpoints = None if folder is None else folder.checkpoint_folder(0)
    result = fit(model, *loaders, loss, settings, folder=checkpoints, resume=resume, log=log)
    if log is not None:
        log.close()
    model.eval()
    return result


def training_metrics(model: nn.Module, history: list[dict[str, Any]]) -> dict[str, Any]:
    """The size of a model and how long it was trained, for `metrics.json`."""
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "training_seconds": round(sum(record["seconds"] for record in history), 2),
    }


def write_model(folder: RunFolder, model: nn.Module, tokenizer: Tokenizer, content: dict[str, Any]) -> None:
    """Writes model.safetensors, tokenizer.json and, as model.json, `content`."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    folder.write("model.safetensors", to_safetensors(tensors))
    folder.write("tokenizer.json", tokenizer.to_json().encode())
    folder.write_json("model.json", content)


def read_weights(folder: RunFolder, model: nn.Module) -> None:
    """Puts the weights that `write_model` wrote into a model of the same kind, in evaluation mode."""
    model.load_state_dict(load_file(folder.path / "model.safetensors"))
    model.eval()


def read_tokenizer(folder: RunFolder, kind: TokenKind) -> Tokenizer:
    """The vocabulary that `write_model` wrote."""
    return Tokenizer.from_json((folder.path / "tokenizer.json").read_text("utf-8"), kind)


@contextlib.contextmanager
def undamaged(folder: RunFolder) -> Iterator[None]:
    """Makes whatever goes wrong while a model is read a RunFolderError that names the folder."""
    try:
        yield
    except (KeyError, TypeError, ValueError, RuntimeError, OSError, SafetensorError) as error:
        raise RunFolderError(f"{folder.path} holds a damaged model: {error}") from error
