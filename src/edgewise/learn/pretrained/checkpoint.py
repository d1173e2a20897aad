"""What checkpoints in Hugging Face's layout have in common, whatever model they hold."""

from collections.abc import Callable, Mapping
from typing import TypeVar

import torch
from torch import Tensor, nn

from edgewise.choices import Activation
from edgewise.errors import DataError
from edgewise.learn.files import JsonObject
from edgewise.learn.networks.text_settings import TransformerSettings

Model = TypeVar("Model", bound=nn.Module)

ACTIVATIONS: dict[str, Activation] = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
}
"""Their names and ours; of several the first is the one that is written."""


class CheckpointConfig:
    """A `config.json`, read setting by setting.

    Raises:
        DataError: it describes another kind of model, or has another value for one of `must_be`.
    """

    def __init__(self, content: Mapping[str, object], model_type: str, must_be: Mapping[str, object]):
        if content.get("model_type") != model_type:
            raise DataError(f"config.json: model_type is {content.get('model_type')!r}, expected {model_type!r}.")
        for name, expected in must_be.items():
            if content.get(name, expected) != expected:
                raise DataError(f"config.json: {name} is {content[name]!r}; only {expected!r} can be converted.")
        self.content = content

    def size(self, name: str, default: int | None = None) -> int:
        """A whole number; raises DataError where it is missing, without a default, or something else."""
        value = self.content.get(name, default)
        if type(value) is not int:
            raise DataError(f"config.json: {name} is {value!r}, expected a whole number.")
        return value

    def sizes(self, names: Mapping[str, str], defaults: Mapping[str, int]) -> JsonObject:
        """Whole numbers by our names, from theirs."""
        return {field: self.size(other, defaults.get(other)) for field, other in names.items()}

    def number(self, name: str, default: float) -> float:
        """A number; raises DataError where it is something else."""
        value = self.content.get(name, default)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise DataError(f"config.json: {name} is {value!r}, expected a number.")
        return float(value)

    def activation(self, name: str, default: str) -> Activation:
        """An activation by our name; raises DataError where we do not have it."""
        value = self.content.get(name, default)
        if not isinstance(value, str) or value not in ACTIVATIONS:
            raise DataError(f"config.json: {name} is {value!r}; only {', '.join(ACTIVATIONS)} can be converted.")
        return ACTIVATIONS[value]

    def dropout(self, *names: str) -> float:
        """The dropout that several names share; raises DataError where they differ."""
        values = {self.number(name, 0.1) for name in names}
        if len(values) > 1:
            raise DataError(f"config.json: {', '.join(names[:-1])} and {names[-1]} differ; ours has one dropout.")
        return values.pop()


class Tensors:
    """The content of a `model.safetensors`, of which each tensor is taken once."""

    def __init__(self, tensors: Mapping[str, Tensor]):
        self.left = dict(tensors)

    def drop_copies(self, originals: Mapping[str, str]) -> None:
        """Drops tensors that repeat another one, whose name `originals` has; where that is missing the copy is it.

        Raises:
            DataError: A copy differs: the checkpoint's inputs and outputs are not tied.
        """
        for copy, original in originals.items():
            if copy not in self.left:
                continue
            tensor = self.left.pop(copy)
            if not torch.equal(self.left.setdefault(original, tensor), tensor):
                raise DataError(
                    f"model.safetensors: {copy} differs from {original}; only tied outputs can be converted."
                )

    def take(self, name: str) -> Tensor:
        """A tensor by its name; raises DataError where it is missing, or its numbers cannot be weights."""
        if name not in self.left:
            raise DataError(f"model.safetensors: no tensor {name!r}.")
        tensor = self.left.pop(name)
        if not tensor.is_floating_point():
            kind = str(tensor.dtype).removeprefix("torch.")
            raise DataError(
                f"model.safetensors: {name} is {kind}, expected float; quantized weights cannot be converted."
            )
        if not tensor.isfinite().all():
            raise DataError(f"model.safetensors: {name} holds NaN or infinity.")
        return tensor.float()

    def check_all_taken(self, model_name: str) -> None:
        """Raise DataError where a tensor is left over."""
        if self.left:
            left = ", ".join(sorted(self.left)[:5])
            raise DataError(f"model.safetensors: tensors that {model_name} does not have: {left}.")


def with_state(build: Callable[[], Model], state: Mapping[str, Tensor]) -> Model:
    """A new model with these tensors, in evaluation mode; raises DataError where their sizes are others."""
    # The weights that it begins with are replaced: making it must take no number that others would draw.
    with torch.random.fork_rng(devices=[]):
        model = build()
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise DataError(f"model.safetensors does not fit config.json: {error}") from error
    return model.eval()


def state_of(model: nn.Module) -> dict[str, Tensor]:
    """The tensors of a model, to be written."""
    return {name: value.detach().cpu() for name, value in model.state_dict().items()}


def check_choices(settings: TransformerSettings, model_name: str, choices: Mapping[str, object]) -> None:
    """Raise DataError where settings have a choice that a model of another library does not have."""
    for name, expected in choices.items():
        if getattr(settings, name) != expected:
            raise DataError(f"{name} is {getattr(settings, name)!r}; {model_name} has {expected!r}.")
    if settings.num_key_heads not in (None, settings.num_heads):
        raise DataError(f"num_key_heads is {settings.num_key_heads}; {model_name} has as many as num_heads.")


def activation_name(activation: Activation) -> str:
    """An activation by their name."""
    return next(other for other, name in ACTIVATIONS.items() if name == activation)
