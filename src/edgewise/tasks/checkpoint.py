"""A model of texts and its run folder: how it begins, is trained there, kept, and read again."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import save as to_safetensors
from torch import nn

from edgewise.choices import TokenKind
from edgewise.data.texts.tokenizer import Tokenizer
from edgewise.errors import DataError, RunFolderError
from edgewise.train.folder import RunFolder
from edgewise.train.loader import Loader, seed_of
from edgewise.train.log import MetricsLog
from edgewise.train.loss import RelativeLoss, TargetLoss, TokenLoss
from edgewise.train.settings import TrainSettings
from edgewise.train.weights import Model, filled, read_tensors

if TYPE_CHECKING:
    from edgewise.train.fit import FitResult


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


def read_weights(folder: RunFolder, build: Callable[[], Model]) -> Model:
    """A model with the weights that `write_model` wrote, in evaluation mode.

    Args:
        folder: where they are.
        build: makes a model of the same kind.

    Raises:
        RunFolderError: model.safetensors is damaged, or belongs to another model.
    """
    path = folder.path / "model.safetensors"
    return filled(build, read_tensors(path), path)


def read_tokenizer(folder: RunFolder, kind: TokenKind, most: int | None = None) -> Tokenizer:
    """The vocabulary that `write_model` wrote.

    Args:
        folder: where it is.
        kind: what a text is cut into.
        most: the tokens that the model knows; as many as the vocabulary has where it is None.

    Raises:
        RunFolderError: it is damaged, or has more tokens than the model.
    """
    path = folder.path / "tokenizer.json"
    try:
        found = Tokenizer.from_json(path.read_text("utf-8"), kind)
    except (DataError, OSError, ValueError) as error:
        raise RunFolderError(f"{path} is damaged: {error}") from error
    most = len(found) if most is None else most
    if found.largest >= most:
        raise RunFolderError(f"{path} has the token number {found.largest}, but the model knows {most} tokens.")
    return found
