"""A checkpoint folder in Hugging Face's layout as a model with its vocabulary, and back."""

import json
from pathlib import Path
from typing import TypeAlias

from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors

from edgewise.errors import DataError, RunFolderError
from edgewise.learn.files import write_bytes
from edgewise.learn.fitted import Fitted
from edgewise.learn.pretrained import bert, gpt2
from edgewise.learn.readers.texts.tokenizer import Tokenizer
from edgewise.learn.tasks.language import task as language
from edgewise.learn.tasks.language.task import LanguageEncoder, NextToken
from edgewise.learn.tasks.masked import task as masked
from edgewise.learn.tasks.masked.task import HiddenTokens, MaskedEncoder
from edgewise.learn.training.folder import RunFolder, read_json

Trained: TypeAlias = Fitted[LanguageEncoder, NextToken] | Fitted[MaskedEncoder, HiddenTokens]
MODEL_TYPES = ("gpt2", "bert")
SPECIAL_TOKENS = {"unknown": "unk_token", "begin": "cls_token", "mask": "mask_token", "padding": "pad_token"}
"""Special tokens: our names, and those of Hugging Face."""


def from_checkpoint(folder: Path) -> Trained:
    """The model of a folder with config.json, model.safetensors and a tokenizer.

    Raises:
        DataError: a file is missing or damaged, or the configuration is of a model that ours cannot be.
    """
    weights, config = folder / "model.safetensors", _json(folder / "config.json")
    model_type = config.get("model_type") if isinstance(config, dict) else None
    if not isinstance(config, dict) or model_type not in MODEL_TYPES:
        raise DataError(
            f"{folder}: config.json: model_type is {model_type!r}; only {', '.join(MODEL_TYPES)} can be converted."
        )
    if not weights.is_file():
        raise DataError(f"{folder}: no model.safetensors; weights in other files (.bin) must be saved as safetensors.")
    try:
        tensors = load_file(weights)
    except SafetensorError as error:
        raise DataError(f"{weights}: not a safetensors file ({error}).") from error
    tokenizer = _tokenizer(folder)
    trained: Trained
    if model_type == "bert":
        bert_network, left_out = bert.model_of(config, tensors)
        trained = masked.from_network(tokenizer, bert_network, left_out)
    else:
        has_end = tokenizer.end is not None
        trained = language.from_network(tokenizer, gpt2.model_of(config, tensors), has_end=has_end)

    num_tokens = trained.encoder.num_tokens
    if tokenizer.largest >= num_tokens:
        raise DataError(
            f"{folder}: the tokenizer has token {tokenizer.largest:,}, but the model {num_tokens:,} tokens."
        )
    return trained


def _json(path: Path) -> object:
    try:
        return read_json(path)
    except RunFolderError as error:
        raise DataError(str(error)) from error


def _tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a checkpoint, from those of its files that are there."""
    tokenizer_file, vocabulary, merges, pieces = (
        folder / name for name in ("tokenizer.json", "vocab.json", "merges.txt", "vocab.txt")
    )
    if tokenizer_file.is_file():
        try:
            return Tokenizer.from_json(tokenizer_file.read_text("utf-8"))
        except (DataError, ValueError) as error:
            raise DataError(f"{tokenizer_file} cannot be read: {error}") from error
    if vocabulary.is_file() and merges.is_file():
        return Tokenizer.from_pairs(str(vocabulary), str(merges))
    if pieces.is_file():
        path = folder / "tokenizer_config.json"
        config = _json(path) if path.is_file() else {}
        choices = config if isinstance(config, dict) else {}
        return Tokenizer.from_word_pieces(
            str(pieces), lowercase=choices.get("do_lower_case", True), strip_accents=choices.get("strip_accents")
        )
    raise DataError(f"{folder}: no tokenizer.json, and no vocab.json with merges.txt, and no vocab.txt.")


def from_run(folder: RunFolder) -> Trained:
    """The model of a run folder that can be written in Hugging Face's layout.

    Raises:
        RunFolderError: it is of another kind, or damaged.
    """
    run_format = folder.read_format()
    if run_format == language.TASK.format:
        return language.load(folder)
    if run_format == masked.TASK.format:
        return masked.load(folder)
    formats = f"{language.TASK.format} and {masked.TASK.format}"
    raise RunFolderError(f"{folder.path} holds {run_format!r}; only {formats} can be converted.")


def to_checkpoint(trained: Trained, folder: Path) -> None:
    """Writes config.json, model.safetensors, tokenizer.json and tokenizer_config.json.

    Raises:
        DataError: the model has a choice that GPT-2 or BERT does not have.
    """
    tokenizer = trained.encoder.tokenizer
    # Without a class transformers takes the tokenizer of the model's type, which overrides tokenizer.json.
    tokenizer_config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": trained.encoder.settings.context,
    }
    if isinstance(trained.output, HiddenTokens):
        config, tensors = bert.checkpoint_of(trained.model)
        config |= {"pad_token_id": tokenizer.padding}
        token_ids = {"sep_token": tokenizer.end}
        tokenizer_config["model_input_names"] = ["input_ids", "token_type_ids", "attention_mask"]
    else:
        config, tensors = gpt2.checkpoint_of(trained.model)
        end = tokenizer.end if trained.output.has_end else None
        config |= {"bos_token_id": end, "eos_token_id": end}
        token_ids = {"eos_token": end}
    token_ids |= {hf_name: getattr(tokenizer, our_name) for our_name, hf_name in SPECIAL_TOKENS.items()}
    for name, token_id in token_ids.items():
        if token_id is not None:
            tokenizer_config[name] = tokenizer.inner.id_to_token(token_id)
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (("config.json", config), ("tokenizer_config.json", tokenizer_config)):
        write_bytes(folder / name, (json.dumps(content, indent=2) + "\n").encode())
    write_bytes(folder / "model.safetensors", to_safetensors(tensors, metadata={"format": "pt"}))
    write_bytes(folder / "tokenizer.json", tokenizer.to_json().encode())
