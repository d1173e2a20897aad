"""GPT-2 as Hugging Face keeps it, `config.json` and `model.safetensors`, as our model; and our model as theirs.

Their attention projects to query, key and value at once, by a matrix (in, out) where ours are (out, in).
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from edgewise.interop.checkpoint import Config, Tensors, activation_name, check_choices, state_of, with_state
from edgewise.models.language import NextTokenModel
from edgewise.models.text_settings import TransformerSettings

NORMS = {"ln_1": "attention_norm", "ln_2": "feed_forward_norm"}
LINEARS = {"attn.c_proj": "attention.output", "mlp.c_fc": "feed_forward.0", "mlp.c_proj": "feed_forward.3"}
PROJECTIONS = ("query", "key", "value")
MUST_BE = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
"""Settings that a configuration must have where it has them."""


def settings_of(config: Mapping[str, Any]) -> TransformerSettings:
    """The choices that a `config.json` describes.

    Raises:
        DataError: it describes another kind of model, or a choice that ours does not have.
    """
    read = Config(config, "gpt2", MUST_BE)
    return TransformerSettings(
        num_layers=read.size("n_layer"),
        num_heads=read.size("n_head"),
        model_dim=read.size("n_embd"),
        hidden_dim=None if config.get("n_inner") is None else read.size("n_inner"),
        context=read.size("n_positions", 1024),
        position="learned",
        activation=read.activation("activation_function", "gelu_new"),
        norm_eps=read.number("layer_norm_epsilon", 1e-5),
        dropout=read.dropout("resid_pdrop", "embd_pdrop", "attn_pdrop"),
    )


def model_of(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> NextTokenModel:
    """The model that a checkpoint holds, in evaluation mode.

    Raises:
        DataError: a tensor is missing, left over, or has another shape than in the configuration.
    """
    settings, state = settings_of(config), {}
    named = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    others = (".attn.bias", ".attn.masked_bias", "lm_head.weight")  # masks; the tied output
    read = Tensors({name: tensor for name, tensor in named.items() if not name.endswith(others)})
    take = read.take
    state["embedding.weight"], state["position.table.weight"] = take("wte.weight"), take("wpe.weight")
    for layer in range(settings.num_layers):
        theirs, ours = f"h.{layer}", f"stack.blocks.{layer}"
        for part, axis in (("weight", 1), ("bias", 0)):
            joined = take(f"{theirs}.attn.c_attn.{part}")
            for name, piece in zip(PROJECTIONS, joined.chunk(3, axis), strict=True):
                state[f"{ours}.attention.{name}.{part}"] = piece.T if part == "weight" else piece
            for other, own in LINEARS.items():
                found = take(f"{theirs}.{other}.{part}")
                state[f"{ours}.{own}.{part}"] = found.T if part == "weight" else found
            for other, own in NORMS.items():
                state[f"{ours}.{own}.{part}"] = take(f"{theirs}.{other}.{part}")
    for part in ("weight", "bias"):
        state[f"stack.last_norm.{part}"] = take(f"ln_f.{part}")
    read.check_all_taken("GPT-2")
    return with_state(lambda: NextTokenModel(state["embedding.weight"].shape[0], settings), state)


def checkpoint_of(model: NextTokenModel) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The `config.json` and the tensors of `model.safetensors` that Hugging Face reads as the same model.

    Raises:
        DataError: the model has a choice that GPT-2 does not have.
    """
    settings = model.settings
    check_choices(settings, "GPT-2", {"position": "learned", "norm": "pre", "window": None})
    own = state_of(model)
    tensors = {"wte.weight": own["embedding.weight"], "wpe.weight": own["position.table.weight"]}
    for layer in range(settings.num_layers):
        theirs, ours = f"h.{layer}", f"stack.blocks.{layer}"
        for part in ("weight", "bias"):
            joined = torch.cat([own[f"{ours}.attention.{name}.{part}"] for name in PROJECTIONS])
            tensors[f"{theirs}.attn.c_attn.{part}"] = joined.T if part == "weight" else joined
            for other, name in LINEARS.items():
                found = own[f"{ours}.{name}.{part}"]
                tensors[f"{theirs}.{other}.{part}"] = found.T if part == "weight" else found
            for other, name in NORMS.items():
                tensors[f"{theirs}.{other}.{part}"] = own[f"{ours}.{name}.{part}"]
    for part in ("weight", "bias"):
        tensors[f"ln_f.{part}"] = own[f"stack.last_norm.{part}"]
    config = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": own["embedding.weight"].shape[0],
        "n_layer": settings.num_layers,
        "n_head": settings.num_heads,
        "n_embd": settings.model_dim,
        "n_inner": settings.hidden_dim,
        "n_positions": settings.context,
        "activation_function": activation_name(settings.activation),
        "layer_norm_epsilon": settings.norm_eps,
        "resid_pdrop": settings.dropout,
        "embd_pdrop": settings.dropout,
        "attn_pdrop": settings.dropout,
        "tie_word_embeddings": True,
    }
    return config, {f"transformer.{name}": tensor.contiguous() for name, tensor in tensors.items()}
