"""What reads texts, out of the flags: a transformer, a recurrent network, or the model of a masked run; and how long
it is trained."""

import math
from dataclasses import dataclass, replace
from typing import TypeVar, get_args

from edgewise.errors import SettingError
from edgewise.learn.networks.text_settings import CONFIGURATIONS, EncoderName, ReaderSettings, TransformerSettings
from edgewise.learn.settings import Values
from edgewise.learn.training.settings import TrainSettings

PRETRAINED = ("edgewise masked model", 1)
"""The kind of run that can be a start, and its newest format."""
READERS = (*get_args(EncoderName), *CONFIGURATIONS)
"""What `--model` may name."""
RECURRENT = ("num_layers", "num_heads", "model_dim", "context", "dropout")
"""The sizes that a recurrent network has too."""
MIN_STEPS, EPOCHS = 400, 4
"""Much text is read so many times; a little until so many steps are done."""
Reader = TypeVar("Reader", bound=ReaderSettings)


@dataclass(frozen=True)
class PretrainedDocument:
    """What a start must know of model.json."""

    settings: TransformerSettings


def choose_reader(
    reader_type: type[Reader],
    default_sizes: TransformerSettings,
    model_name: str | None,
    choices: Values,
    sizes: Values,
    pretrained: str | None,
) -> tuple[Reader, TransformerSettings]:
    """What reads, and its sizes.

    Args:
        reader_type: The dataclass of the choices around it.
        default_sizes: The sizes by default.
        model_name: The value of `--model`: a recurrent network, or one of `CONFIGURATIONS`.
        choices: The fields of `reader_type` that the user sets.
        sizes: The sizes that the user sets.
        pretrained: The folder of a masked run, which brings its own sizes.

    Raises:
        SettingError: A name is not known, or two choices contradict each other.
        RunFolderError: The folder is not that of a finished masked run.
    """
    if model_name in get_args(EncoderName):
        choices = {**choices, "encoder": model_name}
    elif model_name is not None and model_name not in CONFIGURATIONS:
        raise SettingError(f"--model is {model_name!r}; to read texts expected one of {', '.join(READERS)}.")

    reader, start = reader_type(**choices), CONFIGURATIONS.get(model_name or "", default_sizes)
    if reader.encoder != "transformer":
        for name, value in sizes.items():
            if name not in RECURRENT and value != getattr(default_sizes, name):
                flag = f"--{name.replace('_', '-')}"
                raise SettingError(f"{flag} belongs to transformers; the {reader.encoder} has no such choice.")
    if pretrained:
        start = pretrained_settings(pretrained, model_name, reader)
        for name, value in sizes.items():
            if name != "dropout" and value != getattr(start, name):
                raise SettingError(
                    f"--{name.replace('_', '-')} is {value}, but the model of {pretrained} has "
                    f"{getattr(start, name)}; leave it out."
                )
    return reader, replace(start, **sizes)


def pretrained_settings(path: str, model_name: str | None, reader: ReaderSettings) -> TransformerSettings:
    """The choices of the model of a masked run.

    Raises:
        RunFolderError: The folder is not that of a finished masked run.
        SettingError: Another model is named.
    """
    if model_name is not None or reader.encoder != "transformer":
        raise SettingError(f"--pretrained {path} brings its own model; leave out --model.")
    return transformer_of(path, *PRETRAINED)


def transformer_of(path: str, kind: str, version: int) -> TransformerSettings:
    """The sizes of the transformer of a finished run.

    Args:
        path: The run folder.
        kind: What the run must hold, as model.json calls it.
        version: The newest version of its format.

    Raises:
        RunFolderError: The folder is not that of a finished run of this kind.
    """
    from edgewise.learn.training.document import read_document
    from edgewise.learn.training.folder import RunFolder

    folder = RunFolder.finished(path)
    content = folder.read_model(kind, version)
    return read_document(PretrainedDocument, content, folder.path / "model.json").settings


def scheduled(train: TrainSettings, num_rows: int) -> TrainSettings:
    """The recipe with a batch size, and a number of epochs that fits the training rows."""
    batch_size = train.batch_size or 64
    steps = math.ceil(num_rows / batch_size)
    epochs = train.epochs or max(EPOCHS, math.ceil(MIN_STEPS / steps))
    return replace(train, batch_size=batch_size, epochs=epochs)
