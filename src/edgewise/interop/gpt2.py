"""GPT-2 as Hugging Face keeps it, `config.json` and `model.safetensors`, as our model; and our model as theirs.

Their attention projects to query, key and value at once, by a matrix (in, out) where ours are (out, in).
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from edgewise.choices import Activation
from edgewise.errors import DataError
from edgewise.models.language import NextTokenModel
from edgewise.models.transformer_settings import TransformerSettings

ACTIVATIONS: dict[str, Activation] = {
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu": "gelu",
    "relu": "relu",
}
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
"""What a configuration may say, and may not say otherwise."""


def settings_of(config: Mapping[str, Any]) -> TransformerSettings:
    """The choices that a `config.json` describes.

    Raises:
        DataError: it describes another kind of model, or a choice that ours does not have.
    """
    if config.get("model_type") != "gpt2":
        raise DataError(f"config.json: model_type is {config.get('model_type')!r}, expected 'gpt2'.")
    for name, expected in MUST_BE.items():
        if config.get(name, expected) != expected:
            raise DataError(f"config.json: {name} is {config[name]}; only {expected} can be converted.")
    activation = config.get("activation_function", "gelu_new")
    if activation not in ACTIVATIONS:
        raise DataError(
            f"config.json: activation_function is {activation!r}; only {', '.join(ACTIVATIONS)} can be converted."
        )
    drops = {config.get(name, 0.1) for name in ("resid_pdrop", "embd_pdrop", "attn_pdrop")}
    if len(drops) > 1:
        raise DataError("config.json: resid_pdrop, embd_pdrop and attn_pdrop differ; ours has one dropout.")
    return TransformerSettings(
        num_layers=config["n_layer"],
        num_heads=config["n_head"],
        model_dim=config["n_embd"],
        hidden_dim=config.get("n_inner"),
        context=config.get("n_positions", 1024),
        position="learned",
        activation=ACTIVATIONS[activation],
        norm_eps=config.get("layer_norm_epsilon", 1e-5),
        dropout=drops.pop(),
    )


def model_of(config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> NextTokenModel:
    """The model that a checkpoint holds, in evaluation mode.

    Raises:
        DataError: a tensor is missing, left over, or has another shape than the configuration says.
    """
    settings, left = settings_of(config), {}
    for name, tensor in tensors.items():
        own = name.removeprefix("transformer.")
        if not own.endswith((".attn.bias", ".attn.masked_bias")) and own != "lm_head.weight":  # masks; the tied output
            left[own] = tensor
    state: dict[str, Tensor] = {}

    def take(name: str) -> Tensor:
        if name not in left:
            raise DataError(f"model.safetensors: no tensor {name!r}.")
        return left.pop(name).float()

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
    if left:
        raise DataError(f"model.safetensors: tensors that GPT-2 does not have: {', '.join(sorted(left)[:5])}.")
    with torch.random.fork_rng(devices=[]):
        model = NextTokenModel(state["embedding.weight"].shape[0], settings)
    try:
        model.load_state_dict(state)
    except RuntimeError as error:
        raise DataError(f"model.safetensors does not fit config.json: {error}") from error
    return model.eval()


def checkpoint_of(model: NextTokenModel) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """The `config.json` and the tensors of `model.safetensors` that Hugging Face reads as the same model.

    Raises:
        DataError: the model has a choice that GPT-2 does not have.
    """
    settings = model.settings
    gpt2 = {"position": "learned", "norm": "pre", "window": None}
    for name, expected in gpt2.items():
        if getattr(settings, name) != expected:
            raise DataError(f"{name} is {getattr(settings, name)!r}; GPT-2 has {expected!r}.")
    if settings.num_key_heads not in (None, settings.num_heads):
        raise DataError(f"num_key_heads is {settings.num_key_heads}; GPT-2 has as many as num_heads.")
    own = {name: value.detach().cpu() for name, value in model.state_dict().items()}
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
    activation = next(other for other, name in ACTIVATIONS.items() if name == settings.activation)
    config = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": own["embedding.weight"].shape[0],
        "n_layer": settings.num_layers,
        "n_head": settings.num_heads,
        "n_embd": settings.model_dim,
        "n_inner": settings.hidden_dim,
        "n_positions": settings.context,
        "activation_function": activation,
        "layer_norm_epsilon": settings.norm_eps,
        "resid_pdrop": settings.dropout,
        "embd_pdrop": settings.dropout,
        "attn_pdrop": settings.dropout,
        "tie_word_embeddings": True,
    }
    return config, {f"transformer.{name}": tensor.contiguous() for name, tensor in tensors.items()}
