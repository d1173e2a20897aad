"""A model of texts in a run folder: its weights, its vocabulary, and what else it needs to be read again."""

from typing import Any

from safetensors.torch import save as to_safetensors
from torch import nn

from edgewise.choices import TokenKind
from edgewise.data.text import Tokenizer
from edgewise.train.folder import RunFolder, write_bytes


def write_model(folder: RunFolder, model: nn.Module, tokenizer: Tokenizer, content: dict[str, Any]) -> None:
    """Writes model.safetensors, tokenizer.json and, as model.json, `content`."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in model.state_dict().items()}
    folder.path.mkdir(parents=True, exist_ok=True)
    write_bytes(folder.path / "model.safetensors", to_safetensors(tensors))
    write_bytes(folder.path / "tokenizer.json", tokenizer.to_json().encode())
    folder.write_json("model.json", content)


def read_tokenizer(folder: RunFolder, kind: TokenKind) -> Tokenizer:
    """The vocabulary that `write_model` wrote."""
    return Tokenizer.from_json((folder.path / "tokenizer.json").read_text("utf-8"), kind)
