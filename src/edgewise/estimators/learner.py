"""What estimators share in Python: the folder they are kept in; and those over other data than tables."""

import os
from pathlib import Path
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

from edgewise.errors import SettingError
from edgewise.estimators.params import Settings, load_params, save_params
from edgewise.train.folder import RunFolder, corrupt_as_run_error


class Kept(Protocol):
    """What knows how to write itself into a run folder, and to read itself again."""

    def save(self, folder: RunFolder) -> None:
        """Writes itself."""

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote."""


Trained = TypeVar("Trained", bound=Kept)


class Learner(Settings, Generic[Trained]):
    """A scikit-learn compatible model; subclasses define what it is fitted to.

    Args:
        settings: any setting of `edgewise train` for its kind by its name in Python.
    """

    kind: ClassVar[Any]
    """What is trained, a `Kept`."""
    fitted_by: ClassVar[str]
    """How it is fitted, for messages."""
    own_settings: ClassVar[tuple[str, ...]] = ("split_sizes",)
    """Settings of files that it has a use for, too."""
    trained_: Trained
    """What has been trained; there after `fit` or `load`."""
    metrics_: dict[str, Any]
    """Its scores; there after `fit` or `load`, empty where the folder has none."""

    @property
    def trained(self) -> Trained:
        """What has been trained; raises SettingError before."""
        if not hasattr(self, "trained_"):
            raise SettingError(
                f"this {type(self).__name__} is not fitted yet; call {self.fitted_by} or load(folder) first."
            )
        return self.trained_

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Writes a folder that `load`, and the command line, read.

        Raises:
            RunFolderError: the folder holds a run, and `overwrite` is False; or it is no place for one.
        """
        save_model(self.trained, self.get_params(), path, overwrite=overwrite)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """What `save` or `edgewise train` wrote, with the settings it was trained with."""
        folder = RunFolder.finished(path)
        trained = cls.kind.load(folder)
        with corrupt_as_run_error(folder.path):
            learner = cls(**load_params(folder, cls.own_settings))
        learner.trained_ = trained
        learner.metrics_ = folder.read_json("metrics.json") if folder.is_finished else {}
        return learner


def save_model(trained: Kept, params: dict[str, Any], path: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Writes a model with the settings of its estimator to a run folder, as a training would.

    Raises:
        RunFolderError: the folder holds a run, and `overwrite` is False; or it is no place for one.
    """
    with RunFolder(Path(path)).claimed(overwrite=overwrite) as folder:
        folder.begin()
        trained.save(folder)
        save_params(folder, params)
