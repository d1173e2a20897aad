"""The weights of a model out of model.safetensors: every tensor checked before anything of their size is made."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from edgewise.errors import RunFolderError

Model = TypeVar("Model", bound=nn.Module)


def read_tensors(path: Path) -> dict[str, Tensor]:
    """The tensors of a file.

    Raises:
        RunFolderError: It is missing or damaged.
    """
    try:
        return load_file(path)
    except (OSError, SafetensorError, ValueError, KeyError, RuntimeError) as error:
        raise RunFolderError(f"{path} is damaged: {error}") from error


def filled(build: Callable[[], Model], tensors: Mapping[str, Tensor], path: Path) -> Model:
    """A model with these weights, in evaluation mode.

    Args:
        build: Makes the model; called first where tensors have shapes and no memory.
        tensors: What `state_dict` of such a model gave.
        path: The file they come from.

    Raises:
        RunFolderError: A tensor is missing, unknown, of another shape or type, or not finite.
    """
    try:
        with torch.device("meta"):
            expected = build().state_dict()
    except (RuntimeError, OverflowError) as error:
        raise RunFolderError(f"{path.parent}: model.json describes no model that can be made: {error}") from error
    check_weights(expected, tensors, path)
    with torch.random.fork_rng(devices=[]):
        model = build()
    model.load_state_dict(tensors)
    return model.eval()


def check_weights(expected: Mapping[str, Tensor], tensors: Any, path: Path) -> None:
    """Raise RunFolderError unless tensors have the names, shapes and types of a model, and are finite."""
    if not isinstance(tensors, Mapping) or not all(isinstance(name, str) for name in tensors):
        raise RunFolderError(f"{path} is damaged: it holds no weights by name; train again with --overwrite.")
    if differing := sorted(expected.keys() ^ tensors.keys()):
        what = "is missing" if differing[0] in expected else "is not known"
        raise RunFolderError(f"{path} does not fit the model: the tensor {differing[0][:80]} {what}.")
    for name, tensor in tensors.items():
        usual = expected[name]
        if not isinstance(tensor, Tensor):
            raise RunFolderError(f"{path} is damaged: {name} is a {type(tensor).__name__}, expected a tensor.")
        if tensor.shape != usual.shape or tensor.is_floating_point() != usual.is_floating_point():
            raise RunFolderError(
                f"{path} does not fit the model: {name} is {tensor.dtype} {tuple(tensor.shape)}, expected "
                f"{usual.dtype} {tuple(usual.shape)}."
            )
        if tensor.is_floating_point() and not torch.isfinite(tensor.float()).all():
            raise RunFolderError(f"{path} is damaged: {name} holds numbers that are not finite.")
