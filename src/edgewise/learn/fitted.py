"""`Fitted`: a trained ensemble with all it needs to read new data. One class, one way to a folder and back.

model.json          the fields of its parts, the number of members, and the checksums of the other files
model.safetensors   the weights of all members, and tensors of its parts
other files         what a field of a part says by its metadata, such as tokenizer.json
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from edgewise.errors import DataError, RunFolderError
from edgewise.learn.companions import COMPANIONS
from edgewise.learn.companions.stack import Stack, tensors_of
from edgewise.learn.files import JsonObject
from edgewise.learn.progress import counted
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.document import MAX_LAYERS, invalid_as_run_error, read_fields, read_value, to_document
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import BatchLike
from edgewise.learn.training.weights import filled, read_tensors

PART = {"part": True}
"""The metadata of the fields of `Fitted` whose own fields stand side by side in model.json."""

MAX_COPIES = 2**20
"""Copies that a companion may count as: 16 for each variant of a head, of which a user may want many."""


class Output(Protocol):
    """What the numbers of a network mean. A frozen dataclass, saved as it is."""

    def check(self) -> None:
        """Raise DataError unless the fields fit each other."""


Out_contra = TypeVar("Out_contra", contravariant=True)


class Encoder(Protocol[Out_contra]):
    """What the training rows fixed of the inputs: scales, vocabularies, sizes. A frozen dataclass, saved as it is.

    A field that is not for model.json is transient and says by its metadata where it lies: in another file,
    `write(folder, value)` and `read(folder, fields)`, or in model.safetensors, `to_tensors(value)` and
    `from_tensors(tensors)`, which takes its tensors out of those of the file.
    """

    def new_network(self, output: Out_contra) -> nn.Module:
        """A network before its first step, drawn from torch's generator."""

    def check(self, output: Out_contra) -> None:
        """Raise DataError unless the fields fit each other."""


E = TypeVar("E", bound=Encoder[Any])
Out = TypeVar("Out", bound=Output)


@dataclass(eq=False, kw_only=True)
class Fitted(Generic[E, Out]):
    """A trained ensemble."""

    format: str
    """How model.json calls the task."""
    encoder: E = field(metadata=PART)
    """What the training rows fixed of the inputs."""
    output: Out = field(metadata=PART)
    """What the numbers of the network mean."""
    companions: dict[str, int] = field(default_factory=dict)
    """What stands beside each network, and its weight, see `Stack`."""
    members: list[nn.Module] = field(default_factory=list)
    """The networks of the ensemble, in evaluation mode; those with companions are a `Stack`."""
    threads: int = 1
    """CPU threads of a prediction, see `TrainSettings.threads`."""
    prefix: str = ""
    """What the names of a member's tensors begin with; `{}` is the number of the member."""

    @property
    def model(self) -> Any:
        """The first member."""
        return self.members[0]

    def new_member(self) -> nn.Module:
        """A network before its first step."""
        return self.encoder.new_network(self.output)

    def check(self) -> None:
        """Raise DataError unless the fields of the parts fit each other."""
        self.output.check()
        self.encoder.check(self.output)

    def save(self, folder: RunFolder) -> None:
        """Writes the model to a run folder, without pickle."""
        content: JsonObject = {"format": self.format, "format_version": 1}
        tensors: dict[str, Tensor] = {}
        parts = [getattr(self, field.name) for field in fields(self) if field.metadata.get("part")]
        for part in parts:
            content |= to_document(part)
            for saved in fields(part):
                if write := saved.metadata.get("write"):
                    write(folder, getattr(part, saved.name))
                if to_tensors := saved.metadata.get("to_tensors"):
                    tensors |= to_tensors(getattr(part, saved.name))

        for number, member in enumerate(self.members):
            prefix = self.prefix.format(number)
            tensors |= {prefix + name: value for name, value in tensors_of(member).items()}
        weights = to_safetensors({name: value.detach().cpu().contiguous() for name, value in tensors.items()})
        folder.write("model.safetensors", weights)
        if self.companions:
            content["companions"] = self.companions
        folder.write_model({**content, "ensemble_size": len(self.members), "checksums": folder.checksums()})

    @classmethod
    def load(cls, folder: RunFolder, format: str, *, prefix: str | None = None, **parts: type) -> Self:
        """Reads what `save` wrote.

        Args:
            folder: where.
            format: how model.json calls the task.
            prefix: what the names of a member's tensors begin with; None is the default of the class.
            parts: the class of each part: `encoder`, `output`.

        Raises:
            RunFolderError: it is damaged, of another format, or newer than this version.
        """
        content, path = folder.read_model(format, 1), folder.path / "model.json"
        weights = folder.path / "model.safetensors"
        tensors = read_tensors(weights)
        with invalid_as_run_error(path):
            values = {name: read_fields(part, content) for name, part in parts.items()}
            size = read_value(int, content.get("ensemble_size", 1), "ensemble_size")
            companions = read_value(dict[str, int], content.get("companions", {}), "companions")
            checksums = read_value(dict[str, str], content.get("checksums", {}), "checksums")
            limits = {"ensemble_size": (size, MAX_LAYERS)}
            limits |= {f"companions.{name}": (count, MAX_COPIES) for name, count in companions.items()}
            for name, (count, most) in limits.items():
                if not 1 <= count <= most:
                    raise DataError(f"{name} is {count}, expected 1 to {most}.")

        for name, part in parts.items():
            for saved in fields(part):
                if read := saved.metadata.get("read"):
                    values[name][saved.name] = read(folder, values[name])
                if from_tensors := saved.metadata.get("from_tensors"):
                    with invalid_as_run_error(weights):
                        values[name][saved.name] = from_tensors(tensors)
        parts_of_model = {name: part(**values[name]) for name, part in parts.items()}
        with invalid_as_run_error(path):
            fitted = cls(format=format, companions=companions, **parts_of_model)
            fitted.check()
        fitted.prefix = fitted.prefix if prefix is None else prefix

        for number in range(size):
            of_member = _taken(tensors, fitted.prefix.format(number))
            fitted.members.append(fitted.read_member(of_member, weights))
        if tensors:
            raise RunFolderError(f"{weights} does not fit model.json: the tensor {min(tensors)} is unknown.")
        folder.check_model(content, checksums)
        return fitted

    def read_member(self, tensors: dict[str, Tensor], path: Path) -> nn.Module:
        """A member out of its tensors in a file: the network, and what stands beside it.

        Raises:
            RunFolderError: they are damaged.
        """
        tensors_of_companion = {name: _taken(tensors, f"companions.{name}.") for name in self.companions}
        network = filled(self.new_member, tensors, path)
        if not self.companions:
            return network

        modules: dict[str, Any] = {}
        for name, saved in tensors_of_companion.items():
            with invalid_as_run_error(path):
                modules[name] = filled(partial(self.new_companion, name, saved), saved, path)
                modules[name].check()
        return Stack(network, modules, self.companions).eval()

    def new_companion(self, name: str, tensors: Mapping[str, Tensor]) -> nn.Module:
        """A companion of the sizes that its saved tensors have, still empty.

        Raises:
            DataError: it does not go with the model, or a tensor is missing.
            SettingError: unknown companion.
        """
        kind = COMPANIONS[name]
        if not isinstance(self.encoder, kind.encoder_type):
            raise DataError(f"companions has {name!r}, which does not go with models of this task.")
        try:
            empty: nn.Module = kind.empty(self.encoder, tensors, self.output)
        except (KeyError, ValueError) as error:
            raise DataError(f"companions.{name}: the tensor {error} is missing or has another shape.") from error
        return empty


def network_outputs(
    fitted: Fitted, batch: Callable[[np.ndarray], BatchLike], num_rows: int, rows_per_batch: int, device: str
) -> list[np.ndarray]:
    """The outputs of the first member for rows 0, 1, 2, …, batch after batch.

    Args:
        fitted: the model.
        batch: makes a batch of some rows.
        num_rows: how many there are.
        rows_per_batch: how many are computed together.
        device: where to compute.
    """
    outputs, network = [], fitted.model.to(device).eval()
    with torch.no_grad(), cpu_threads(fitted.threads):
        for first in counted(range(0, num_rows, rows_per_batch), "predicting"):
            rows = np.arange(first, min(first + rows_per_batch, num_rows))
            outputs.append(network(batch(rows).to(device)).cpu().numpy())
    network.to("cpu")
    return outputs


def _taken(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose name begins with a prefix, without it; they are removed from the others."""
    names = [name for name in tensors if name.startswith(prefix)]
    return {name.removeprefix(prefix): tensors.pop(name) for name in names}
