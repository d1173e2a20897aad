"""A trained model with all it needs to read new data: settings, sizes, scalers, members. One codec saves and loads it.

model.json          the fields of the dataclass, and the number of members
model.safetensors   the weights of all members, and further tensors
"""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from safetensors.torch import save as to_safetensors
from torch import Tensor, nn

from edgewise.errors import DataError, RunFolderError
from edgewise.learn.training.document import MAX_LAYERS, TRANSIENT, damage, read_fields, to_document, typed
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.weights import filled, read_tensors


@dataclass(kw_only=True)
class Fitted(ABC):
    """A trained model. Its fields, but the transient ones, are the content of model.json."""

    FORMAT: ClassVar[str]
    """How model.json calls it."""
    FORMAT_VERSION: ClassVar[int] = 1
    """The newest version that is read and written."""
    PREFIX: ClassVar[str] = ""
    """What the names of a member's tensors begin with; `{}` is the number of the member."""

    members: list[Any] = field(metadata=TRANSIENT, default_factory=list)
    """The models of the ensemble, in evaluation mode."""
    threads: int = field(metadata=TRANSIENT, default=1)
    """CPU threads of a prediction. More make small models slower, see `TrainSettings.threads`."""

    @abstractmethod
    def new_member(self) -> nn.Module:
        """A model before its first step, drawn from torch's generator."""

    @property
    def model(self) -> Any:
        """The first member."""
        return self.members[0]

    def check(self) -> None:  # noqa: B027 -- most have nothing to check
        """Raise DataError unless the fields fit each other, as predictions need it."""

    def save_parts(self, folder: RunFolder) -> dict[str, Tensor]:
        """Writes further files, and returns further tensors for model.safetensors."""
        return {}

    @classmethod
    def load_parts(cls, folder: RunFolder, values: Mapping[str, Any], tensors: dict[str, Tensor]) -> dict[str, Any]:
        """The transient fields that `save_parts` wrote; takes their tensors out of `tensors`.

        Raises:
            DataError: model.safetensors is damaged.
            RunFolderError: another file is damaged.
        """
        return {}

    def save(self, folder: RunFolder) -> None:
        """Writes the model to a run folder, without pickle."""
        tensors = self.save_parts(folder)
        for number, member in enumerate(self.members):
            prefix = self.PREFIX.format(number)
            tensors |= {prefix + name: value for name, value in member.state_dict().items()}
        saved = to_safetensors({name: value.detach().cpu().contiguous() for name, value in tensors.items()})
        folder.write("model.safetensors", saved)
        named = {"format": self.FORMAT, "format_version": self.FORMAT_VERSION}
        folder.write_model({**named, **to_document(self), "ensemble_size": len(self.members)})

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote.

        Raises:
            RunFolderError: It is damaged, of another format, or newer than this version.
        """
        content, path = folder.read_model(cls.FORMAT, cls.FORMAT_VERSION), folder.path / "model.json"
        weights = folder.path / "model.safetensors"
        tensors = read_tensors(weights)
        with damage(path):
            values = read_fields(cls, content)
            size = typed(int, content.get("ensemble_size", 1), "ensemble_size")
            if not 1 <= size <= MAX_LAYERS:
                raise DataError(f"ensemble_size is {size}, expected 1 to {MAX_LAYERS}.")
        with damage(weights):
            parts = cls.load_parts(folder, values, tensors)
        fitted = cls(**values, **parts)
        with damage(path):
            fitted.check()
        for number in range(size):
            prefix = cls.PREFIX.format(number)
            own = {name.removeprefix(prefix): tensors.pop(name) for name in list(tensors) if name.startswith(prefix)}
            fitted.members.append(filled(fitted.new_member, own, weights))
        if tensors:
            raise RunFolderError(f"{weights} does not fit model.json: the tensor {min(tensors)} is not known.")
        folder.check_model(content)
        return fitted
