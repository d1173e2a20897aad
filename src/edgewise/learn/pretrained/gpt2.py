"""GPT-2 as Hugging Face stores it, `config.json` and `model.safetensors`, as our model; and our model as theirs.

Their attention projects to query, key and value at once, by a matrix (in, out) where ours are (out, in).
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from edgewise.learn.files import JsonObject
from edgewise.learn.networks.language import NextTokenModel
from edgewise.learn.networks.text_settings import TransformerSettings
from edgewise.learn.pretrained.checkpoint import (
    CheckpointConfig,
    Tensors,
    activation_name,
    check_choices,
    state_of,
    with_state,
)

LINEARS = {
    "attn.c_attn": "attention.projections",  # query, key and value, one above the other
    "attn.c_proj": "attention.output",
    "mlp.c_fc": "feed_forward.0",
    "mlp.c_proj": "feed_forward.3",
}
NORMS = {"ln_1": "attention_norm", "ln_2": "feed_forward_norm"}
PROJECTIONS = ("query", "key", "value")
SIZES = {"num_layers": "n_layer", "num_heads": "n_head", "model_dim": "n_embd", "context": "n_positions"}
DROPOUTS = ("resid_pdrop", "embd_pdrop", "attn_pdrop")
MUST_BE = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
"""Settings that a configuration must have where it has them."""


def settings_of(config: Mapping[str, object]) -> TransformerSettings:
    """The choices that a `config.json` describes.

    Raises:
        DataError: it describes another kind of model, or a choice that ours does not have.
    """
    read = CheckpointConfig(config, "gpt2", MUST_BE)
    return TransformerSettings(
        **read.sizes(SIZES, {"n_positions": 1024}),
        hidden_dim=None if config.get("n_inner") is None else read.size("n_inner"),
        position="learned",
        activation=read.activation("activation_function", "gelu_new"),
        norm_eps=read.number("layer_norm_epsilon", 1e-5),
        dropout=read.dropout(*DROPOUTS),
    )


def model_of(config: Mapping[str, object], tensors: Mapping[str, Tensor]) -> NextTokenModel:
    """The model that a checkpoint holds, in evaluation mode.

    Raises:
        DataError: a tensor is missing, left over, or has another shape than in the configuration.
    """
    settings = settings_of(config)
    named = {name.removeprefix("transformer."): tensor for name, tensor in tensors.items()}
    masks = (".attn.bias", ".attn.masked_bias")
    read = Tensors({name: tensor for name, tensor in named.items() if not name.endswith(masks)})
    read.drop_copies({"lm_head.weight": "wte.weight"})
    state = {name: _turned(other, read.take(other)) for other, name in _names(settings.num_layers).items()}
    read.check_all_taken("GPT-2")

    for name in [name for name in state if ".projections." in name]:
        pieces = zip(PROJECTIONS, state.pop(name).chunk(3), strict=True)
        state |= {name.replace("projections", projection): piece for projection, piece in pieces}
    return with_state(lambda: NextTokenModel(state["embedding.weight"].shape[0], settings), state)


def checkpoint_of(model: NextTokenModel) -> tuple[JsonObject, dict[str, Tensor]]:
    """The `config.json` and the tensors of `model.safetensors` that Hugging Face reads as the same model.

    Raises:
        DataError: the model has a choice that GPT-2 does not have.
    """
    settings = model.settings
    check_choices(settings, "GPT-2", {"position": "learned", "norm": "pre", "window": None})
    state, tensors = state_of(model), {}
    for other, name in _names(settings.num_layers).items():
        if ".projections." in name:
            state[name] = torch.cat([state[name.replace("projections", projection)] for projection in PROJECTIONS])
        tensors[f"transformer.{other}"] = _turned(other, state[name]).contiguous()

    config: JsonObject = {
        "architectures": ["GPT2LMHeadModel"],
        "model_type": "gpt2",
        "vocab_size": state["embedding.weight"].shape[0],
        **{other: getattr(settings, name) for name, other in SIZES.items()},
        "n_inner": settings.hidden_dim,
        "activation_function": activation_name(settings.activation),
        "layer_norm_epsilon": settings.norm_eps,
        **dict.fromkeys(DROPOUTS, settings.dropout),
        "tie_word_embeddings": True,
    }

    return config, tensors


def _names(num_layers: int) -> dict[str, str]:
    """Their names of all tensors, and ours."""
    names = {"wte.weight": "embedding.weight", "wpe.weight": "position.table.weight"}
    for part in ("weight", "bias"):
        names[f"ln_f.{part}"] = f"stack.last_norm.{part}"
        for layer in range(num_layers):
            for other, inner in (LINEARS | NORMS).items():
                names[f"h.{layer}.{other}.{part}"] = f"stack.blocks.{layer}.{inner}.{part}"
    return names


def _turned(name: str, tensor: Tensor) -> Tensor:
    """Their matrices are (in, out), ours (out, in)."""
    return tensor.T if name.endswith(tuple(f".{linear}.weight" for linear in LINEARS)) else tensor
