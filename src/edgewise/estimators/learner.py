"""What models that are no tables share in Python: their settings, and the folder they are kept in."""

import os
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from edgewise.errors import SettingError
from edgewise.train.folder import RunFolder


class Kept(Protocol):
    """What knows how to write itself into a run folder, and to read itself again."""

    def save(self, folder: RunFolder) -> None:
        """Writes itself."""

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote."""


Trained = TypeVar("Trained", bound=Kept)


class Learner(Generic[Trained]):
    """A model in the habit of scikit-learn; who inherits says what it is fitted to.

    Args:
        settings: any setting of `edgewise train` for its kind by its name in Python.
    """

    kind: ClassVar[Any]
    """What is trained, a `Kept`."""
    fitted_by: ClassVar[str]
    """How it is fitted, for messages."""

    def __init__(self, **settings: Any):
        self.settings = settings
        self.trained_: Trained | None = None
        self.metrics_: dict[str, Any] = {}

    @property
    def trained(self) -> Trained:
        """What has been trained; raises SettingError before."""
        if self.trained_ is None:
            raise SettingError(
                f"this {type(self).__name__} is not fitted yet; call {self.fitted_by} or load(folder) first."
            )
        return self.trained_

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a folder that `load`, and the command line, read."""
        self.trained.save(RunFolder(Path(path)))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """What `save` or `edgewise train` wrote."""
        learner = cls()
        learner.trained_ = cls.kind.load(RunFolder.finished(path))
        return learner
