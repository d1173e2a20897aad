"""The weights of a model out of model.safetensors: every tensor checked before anything of their size is made."""

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

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
        build: Makes the model; it may be of any size, as its settings come from a file.
        tensors: What `state_dict` of such a model gave.
        path: The file they come from.

    Raises:
        RunFolderError: A tensor is missing, unknown, of another shape or type, or not finite.
    """
    size = sum(tensor.numel() for tensor in tensors.values())
    try:
        with torch.random.fork_rng(devices=[]), Limited(4 * size + SLACK):
            model = build()
    except (RuntimeError, OverflowError, MemoryError, ValueError) as error:
        raise RunFolderError(f"{path.parent}: model.json describes a model that cannot be made: {error}") from error

    check_weights(model.state_dict(), tensors, path)
    model.load_state_dict(tensors)
    return model.eval()


SLACK = 1 << 26
"""Numbers that a model may hold besides its weights: tables of positions."""


class Limited(TorchFunctionMode):
    """Refuses to make tensors that have more than so many numbers together, before their memory is touched.

    Building on torch's device "meta" would make none at all, but every operation there imports torch's compiler.

    Args:
        most: how many numbers.
    """

    def __init__(self, most: int):
        super().__init__()
        self.left = most

    def __torch_function__(
        self,
        func: Callable[..., object],
        types: Sequence[type],
        args: tuple[object, ...] = (),
        kwargs: Mapping[str, object] | None = None,
    ) -> object:
        """Counts what functions make that are called with sizes."""
        if func in MAKERS:
            sizes = args[0] if args and isinstance(args[0], Sequence) else args
            numbers = [size for size in sizes if isinstance(size, int)]
            if func is torch.arange:
                numbers = [max(numbers, default=0)]
            self.left -= math.prod(numbers) ** (2 if func is torch.eye and len(numbers) == 1 else 1)
            if self.left < 0:
                raise RuntimeError(f"it has far more numbers than its weights; {func.__name__}{tuple(numbers)}")
        return func(*args, **(kwargs or {}))


MAKERS = {torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.eye, torch.arange}


def check_weights(expected: Mapping[str, Tensor], tensors: object, path: Path) -> None:
    """Raise RunFolderError unless tensors have the names, shapes and types of a model, and are finite."""
    if not isinstance(tensors, Mapping) or not all(isinstance(name, str) for name in tensors):
        raise RunFolderError(f"{path} is damaged: it does not hold weights by name; train again with --overwrite.")
    if differing := sorted(expected.keys() ^ tensors.keys()):
        problem = "is missing" if differing[0] in expected else "is not known"
        raise _misfit(path, f"the tensor {differing[0][:80]} {problem}")

    for name, tensor in tensors.items():
        usual = expected[name]
        if not isinstance(tensor, Tensor):
            raise RunFolderError(f"{path} is damaged: {name} is a {type(tensor).__name__}, expected a tensor.")
        if tensor.shape != usual.shape or tensor.is_floating_point() != usual.is_floating_point():
            actual, needed = (f"{each.dtype} {tuple(each.shape)}" for each in (tensor, usual))
            raise _misfit(path, f"{name} is {actual}, expected {needed}")
        if tensor.is_floating_point() and not torch.isfinite(tensor.float()).all():
            raise RunFolderError(f"{path} is damaged: {name} holds numbers that are not finite.")


def _misfit(path: Path, problem: str) -> RunFolderError:
    """The error of tensors that are those of another model; which file is wrong cannot be said."""
    other = "; model.json describes another model" if path.suffix == ".safetensors" else ""
    return RunFolderError(f"{path} does not fit the model: {problem}{other}.")
