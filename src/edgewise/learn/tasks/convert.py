"""A checkpoint folder in Hugging Face's layout as a model with its vocabulary, and back."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TypeAlias

from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors
from torch import Tensor

from edgewise.errors import DataError, RunFolderError
from edgewise.learn.files import write_bytes
from edgewise.learn.fitted import Fitted
from edgewise.learn.pretrained import bert, gpt2
from edgewise.learn.readers.texts.tokenizer import Tokenizer
from edgewise.learn.tasks.language import task as language
from edgewise.learn.tasks.language.task import LanguageEncoder, NextToken
from edgewise.learn.tasks.masked import task as masked
from edgewise.learn.tasks.masked.task import HiddenTokens, MaskedEncoder
from edgewise.learn.tasks.tokenizer_files import read_part, read_tokenizer
from edgewise.learn.training.folder import RunFolder

Trained: TypeAlias = Fitted[LanguageEncoder, NextToken] | Fitted[MaskedEncoder, HiddenTokens]
MODEL_TYPES = ("gpt2", "bert")
SPECIAL_TOKENS = {"unknown": "unk_token", "begin": "cls_token", "mask": "mask_token", "padding": "pad_token"}
"""Special tokens: our names, and those of Hugging Face."""


def from_checkpoint(folder: Path) -> Trained:
    """The model of a folder with config.json, model.safetensors and a tokenizer.

    Raises:
        DataError: a file is missing or damaged, or the configuration is of a model that ours cannot be.
    """
    config = read_part(folder / "config.json")
    model_type = config.get("model_type") if isinstance(config, dict) else None
    if not isinstance(config, dict) or model_type not in MODEL_TYPES:
        raise DataError(
            f"{folder}: config.json: model_type is {model_type!r}; only {', '.join(MODEL_TYPES)} can be converted."
        )
    tensors, tokenizer = _tensors(folder), read_tokenizer(folder, model_type)
    trained: Trained
    if model_type == "bert":
        bert_network, left_out = bert.model_of(config, tensors)
        trained = masked.from_network(tokenizer, bert_network, left_out)
    else:
        network = gpt2.model_of(config, tensors)
        has_end = _has_end(folder, config, tokenizer, network.embedding.num_embeddings)
        trained = language.from_network(tokenizer, network, has_end=has_end)

    num_tokens = trained.encoder.num_tokens
    if tokenizer.largest >= num_tokens:
        raise DataError(
            f"{folder}: the tokenizer has token {tokenizer.largest:,}, but the model {num_tokens:,} tokens."
        )
    return trained


def _has_end(folder: Path, config: Mapping[str, object], tokenizer: Tokenizer, num_tokens: int) -> bool:
    """Whether texts end with the end token of the vocabulary; raises DataError where config.json names another token.

    Tokens beyond those of the model never come: of them transformers' default, 50256, stands in many configurations.
    """
    named = config.get("eos_token_id", tokenizer.end)
    for number in named if isinstance(named, list) else [named]:
        if number is None:
            continue
        if type(number) is not int or (number != tokenizer.end and 0 <= number < num_tokens):
            known = "none" if tokenizer.end is None else tokenizer.end
            raise DataError(
                f"{folder}: config.json: eos_token_id is {named!r}, but the end of a text is {known} by the "
                "vocabulary; name that one, or null."
            )
    # null says that the model never learned an end, though the vocabulary has a token for it.
    return tokenizer.end is not None and named is not None


def _tensors(folder: Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint, in one file or in several with an index."""
    path, index = folder / "model.safetensors", folder / "model.safetensors.index.json"
    paths = [path]
    if not path.is_file() and index.is_file():
        content = read_part(index)
        files = content.get("weight_map") if isinstance(content, dict) else None
        if not isinstance(files, dict) or not all(isinstance(name, str) for name in files.values()):
            raise DataError(f"{index}: weight_map is missing, which names the file of each tensor.")
        paths = [folder / Path(name).name for name in sorted(set(files.values()))]

    tensors: dict[str, Tensor] = {}
    for path in paths:
        if not path.is_file():
            raise DataError(
                f"{folder}: no {path.name}; weights of another format (.bin, .h5) must be saved as safetensors."
            )
        try:
            tensors |= load_file(path)
        except SafetensorError as error:
            raise DataError(f"{path}: not a safetensors file ({error}).") from error
    return tensors


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
