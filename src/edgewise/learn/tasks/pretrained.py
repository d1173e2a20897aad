"""The choice of the encoder of a text from the settings: a transformer, a recurrent network, or the model of a masked
run; and of how long it is trained."""

import math
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypeVar, get_args

from edgewise.errors import SettingError
from edgewise.learn.networks.text_settings import (
    CONFIGURATIONS,
    EncoderName,
    ReaderSettings,
    TextSettings,
    TransformerSettings,
)
from edgewise.learn.settings import Values, spelled
from edgewise.learn.training.settings import TrainSettings

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

PRETRAINED_FORMAT = ("edgewise masked model", 1)
"""The kind of run whose model can be trained on, and its newest format."""
ENCODER_NAMES = (*get_args(EncoderName), *CONFIGURATIONS)
"""What `--model` may name."""
RECURRENT_SIZES = ("num_layers", "model_dim", "context", "dropout")
"""The fields of `TransformerSettings` that a recurrent encoder has too."""
VOCABULARY = ("tokens", "vocabulary_size", "lowercase")
"""The settings of a vocabulary that is learned from the training texts."""
MIN_STEPS = 400
"""Training takes at least this many steps, however little text there is."""
MIN_EPOCHS = 4
"""All text is read at least this many times."""
Reader = TypeVar("Reader", bound=ReaderSettings)


@dataclass(frozen=True)
class PretrainedDocument:
    """The part of model.json that is read of a model that is trained on."""

    settings: TransformerSettings


def check_vocabulary(run: Values, run_type: type["DataclassInstance"]) -> None:
    """Raise SettingError where a setting of the vocabulary does nothing: beside the vocabulary that `pretrained`
    brings, or the size of one that has every character."""
    defaults = {field.name: field.default for field in fields(run_type) if field.name in VOCABULARY}
    values = {name: run.get(name, default) for name, default in defaults.items()}
    changed = [name for name, value in values.items() if value != defaults[name]]
    if run.get("pretrained") is not None:
        for name in changed:
            raise SettingError(
                f"{spelled(name)} does not change the vocabulary that --pretrained {run['pretrained']} brings; "
                "leave it out."
            )
    if values["tokens"] == "characters" and "vocabulary_size" in changed:
        raise SettingError(
            "--vocabulary-size does nothing with --tokens characters, which has every character of the training "
            "texts; leave it out, or take --tokens words or bpe."
        )


def choose_encoder(
    reader_type: type[Reader],
    default_sizes: TransformerSettings,
    model_name: str | None,
    choices: Values,
    sizes: Values,
    pretrained: str | None,
) -> tuple[Reader, TransformerSettings]:
    """The choices around an encoder, which name it, and its sizes.

    Args:
        reader_type: The dataclass of the choices around it.
        default_sizes: The sizes by default.
        model_name: The value of `--model`, one of `ENCODER_NAMES`; None is a transformer, or the model of `pretrained`.
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
        raise SettingError(f"--model is {model_name!r}; to read texts expected one of {', '.join(ENCODER_NAMES)}.")

    reader, own_sizes = reader_type(**choices), CONFIGURATIONS.get(model_name or "", default_sizes)
    if reader.encoder != "transformer":
        has_heads = isinstance(reader, TextSettings) and reader.readout == "attention"
        known_sizes = (*RECURRENT_SIZES, "num_heads") if has_heads else RECURRENT_SIZES
        for name, value in sizes.items():
            if name not in known_sizes and value != getattr(default_sizes, name):
                flag = f"--{name.replace('_', '-')}"
                raise SettingError(f"{flag} belongs to transformers; the {reader.encoder} has no such choice.")
    if pretrained:
        own_sizes = pretrained_settings(pretrained, model_name, reader)
        for name, value in sizes.items():
            if name != "dropout" and value != getattr(own_sizes, name):
                raise SettingError(
                    f"--{name.replace('_', '-')} is {value}, but the model of {pretrained} has "
                    f"{getattr(own_sizes, name)}; leave it out."
                )
    return reader, replace(own_sizes, **sizes)


def pretrained_settings(path: str, model_name: str | None, reader: ReaderSettings) -> TransformerSettings:
    """The choices of the model of a masked run.

    Raises:
        RunFolderError: The folder is not that of a finished masked run.
        SettingError: Another model is named.
    """
    if model_name is not None or reader.encoder != "transformer":
        raise SettingError(f"--pretrained {path} brings its own model; leave out --model.")
    return read_transformer_settings(path, *PRETRAINED_FORMAT)


def read_transformer_settings(path: str, kind: str, version: int) -> TransformerSettings:
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


def with_schedule(train: TrainSettings, num_rows: int) -> TrainSettings:
    """The settings of a training with a batch size, and a number of epochs that fits the training rows."""
    batch_size = train.batch_size or 64
    steps = math.ceil(num_rows / batch_size)
    epochs = train.epochs or max(MIN_EPOCHS, math.ceil(MIN_STEPS / steps))
    return replace(train, batch_size=batch_size, epochs=epochs)
