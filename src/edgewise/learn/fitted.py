"""`Fitted`: a trained ensemble with all it needs to read new data. One class, one way to a folder and back.

model.json          the fields of its parts, and the number of members
model.safetensors   the weights of all members, and tensors of its parts
other files         what a field of a part says by its metadata, such as tokenizer.json
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Protocol, Self, TypeVar

import numpy as np
import torch
from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from edgewise.errors import DataError, RunFolderError
from edgewise.learn.progress import counted
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.document import MAX_LAYERS, damage, read_fields, to_document, typed
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.weights import filled, read_tensors

PART = {"part": True}
"""The metadata of the fields of `Fitted` whose own fields stand side by side in model.json."""


class Output(Protocol):
    """What the numbers of a network mean. A frozen dataclass, saved as it is."""

    def check(self) -> None:
        """Raise DataError unless the fields fit each other."""


class Encoder(Protocol):
    """What the training rows fixed of the inputs: scales, vocabularies, sizes. A frozen dataclass, saved as it is.

    A field that is not for model.json is transient and says by its metadata where it lies: in another file,
    `write(folder, value)` and `read(folder, fields)`, or in model.safetensors, `to_tensors(value)` and
    `from_tensors(tensors)`, which takes its tensors out of those of the file.
    """

    def new_network(self, output: Any) -> nn.Module:
        """A network before its first step, drawn from torch's generator."""

    def check(self, output: Any) -> None:
        """Raise DataError unless the fields fit each other."""


E = TypeVar("E", bound=Encoder)
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
    members: list[Any] = field(default_factory=list)
    """The networks of the ensemble, in evaluation mode."""
    threads: int = 1
    """CPU threads of a prediction. More make small models slower, see `TrainSettings.threads`."""
    prefix: str = ""
    """What the names of a member's tensors begin with; `{}` is the number of the member."""

    @property
    def model(self) -> Any:
        """The first member."""
        return self.members[0]

    def new_member(self) -> nn.Module:
        """A network before its first step."""
        return self.encoder.new_network(self.output)

    def save(self, folder: RunFolder) -> None:
        """Writes the model to a run folder, without pickle."""
        content: dict[str, Any] = {"format": self.format, "format_version": 1}
        tensors: dict[str, Tensor] = {}
        parts = [getattr(self, each.name) for each in fields(self) if each.metadata.get("part")]
        for part in parts:
            content |= to_document(part)
            for saved in fields(part):
                if write := saved.metadata.get("write"):
                    write(folder, getattr(part, saved.name))
                if to_tensors := saved.metadata.get("to_tensors"):
                    tensors |= to_tensors(getattr(part, saved.name))

        for number, member in enumerate(self.members):
            prefix = self.prefix.format(number)
            tensors |= {prefix + name: value for name, value in member.state_dict().items()}
        weights = to_safetensors({name: value.detach().cpu().contiguous() for name, value in tensors.items()})
        folder.write("model.safetensors", weights)
        folder.write_model({**content, "ensemble_size": len(self.members)})

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
        with damage(path):
            values = {name: read_fields(part, content) for name, part in parts.items()}
            size = typed(int, content.get("ensemble_size", 1), "ensemble_size")
            if not 1 <= size <= MAX_LAYERS:
                raise DataError(f"ensemble_size is {size}, expected 1 to {MAX_LAYERS}.")

        for name, part in parts.items():
            for saved in fields(part):
                if read := saved.metadata.get("read"):
                    values[name][saved.name] = read(folder, values[name])
                if from_tensors := saved.metadata.get("from_tensors"):
                    with damage(weights):
                        values[name][saved.name] = from_tensors(tensors)
        fitted = cls(format=format, **{name: part(**values[name]) for name, part in parts.items()})
        fitted.prefix = fitted.prefix if prefix is None else prefix
        with damage(path):
            fitted.output.check()
            fitted.encoder.check(fitted.output)

        for number in range(size):
            of_member = _taken(tensors, fitted.prefix.format(number))
            fitted.members.append(filled(fitted.new_member, of_member, weights))
        if tensors:
            raise RunFolderError(f"{weights} does not fit model.json: the tensor {min(tensors)} is unknown.")
        folder.check_model(content)
        return fitted


def network_outputs(
    fitted: Fitted[Any, Any], batch: Callable[[np.ndarray], Any], num_rows: int, rows_per_batch: int, device: str
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
