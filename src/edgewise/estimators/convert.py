"""A checkpoint folder in Hugging Face's layout as a model with its vocabulary, and back."""

import json
from pathlib import Path

from safetensors import SafetensorError
from safetensors.torch import load_file
from safetensors.torch import save as to_safetensors

from edgewise.data.text import Tokenizer
from edgewise.errors import DataError
from edgewise.estimators.language import TrainedLanguage
from edgewise.interop.gpt2 import checkpoint_of, model_of
from edgewise.train.folder import read_json, write_bytes


def from_checkpoint(folder: Path) -> TrainedLanguage:
    """What a folder with config.json, model.safetensors and a tokenizer holds.

    Raises:
        DataError: a file is missing or damaged, or describes what ours cannot be.
    """
    weights = folder / "model.safetensors"
    if not weights.is_file():
        raise DataError(f"{folder}: no model.safetensors; weights in other files (.bin) must be saved as safetensors.")
    try:
        model = model_of(read_json(folder / "config.json"), load_file(weights))
    except SafetensorError as error:
        raise DataError(f"{weights}: not a safetensors file ({error}).") from error
    tokenizer = _tokenizer(folder)
    if len(tokenizer) > model.embedding.num_embeddings:
        raise DataError(
            f"{folder}: the tokenizer has {len(tokenizer):,} tokens, the model {model.embedding.num_embeddings:,}."
        )
    return TrainedLanguage(tokenizer, model, has_end=tokenizer.end is not None)


def _tokenizer(folder: Path) -> Tokenizer:
    whole, vocabulary, merges = (folder / name for name in ("tokenizer.json", "vocab.json", "merges.txt"))
    if whole.is_file():
        return Tokenizer.from_json(whole.read_text("utf-8"), "bpe")
    if vocabulary.is_file() and merges.is_file():
        return Tokenizer.from_pairs(str(vocabulary), str(merges))
    raise DataError(f"{folder}: no tokenizer.json, and no vocab.json with merges.txt.")


def to_checkpoint(trained: TrainedLanguage, folder: Path) -> None:
    """Writes config.json, model.safetensors and tokenizer.json.

    Raises:
        DataError: the model has a choice that GPT-2 does not have.
    """
    config, tensors = checkpoint_of(trained.model)
    end = trained.tokenizer.end if trained.has_end else None
    folder.mkdir(parents=True, exist_ok=True)
    described = {**config, "bos_token_id": end, "eos_token_id": end}
    write_bytes(folder / "config.json", (json.dumps(described, indent=2) + "\n").encode())
    write_bytes(folder / "model.safetensors", to_safetensors(tensors, metadata={"format": "pt"}))
    write_bytes(folder / "tokenizer.json", trained.tokenizer.to_json().encode())
