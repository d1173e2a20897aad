"""BERT as Hugging Face stores it, `config.json` and `model.safetensors`, as our model, and back.

Every tensor of a checkpoint is one of ours under another name. The head that predicts masked tokens may be missing
there; the parts that `LEFT_OUT` names are not in our model.
"""

from collections.abc import Mapping

from torch import Tensor

from edgewise.errors import DataError
from edgewise.learn.files import JsonObject
from edgewise.learn.networks.encoder import MaskedModel
from edgewise.learn.networks.text_settings import TransformerSettings
from edgewise.learn.pretrained.checkpoint import (
    CheckpointConfig,
    Tensors,
    activation_name,
    check_choices,
    state_of,
    with_state,
)

EMBEDDINGS = {
    "embeddings.word_embeddings": "encoder.embedding",
    "embeddings.position_embeddings": "encoder.position.table",
    "embeddings.token_type_embeddings": "encoder.segment",
}
LAYERS = {
    "attention.self.query": "attention.query",
    "attention.self.key": "attention.key",
    "attention.self.value": "attention.value",
    "attention.output.dense": "attention.output",
    "attention.output.LayerNorm": "attention_norm",
    "intermediate.dense": "feed_forward.0",
    "output.dense": "feed_forward.3",
    "output.LayerNorm": "feed_forward_norm",
}
HEAD = "cls.predictions."
HEAD_LAYERS = {f"{HEAD}transform.dense": "head.dense", f"{HEAD}transform.LayerNorm": "head.norm"}
TIED = {f"{HEAD}decoder.weight": "embeddings.word_embeddings.weight", f"{HEAD}decoder.bias": f"{HEAD}bias"}
"""Tensors that repeat another, and which; some checkpoints have the bias of the decoder alone."""
LEFT_OUT = {
    "pooler.": "the pooler",
    "cls.seq_relationship.": "the head that predicts whether two texts follow each other",
    "classifier.": "the classifier",
}
"""Parts of a checkpoint that are not in our model, by the beginnings of their names."""
MUST_BE = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "tie_word_embeddings": True,
}
"""Values that these keys of `config.json` must have where they are there."""
SIZES = {
    "num_layers": "num_hidden_layers",
    "num_heads": "num_attention_heads",
    "model_dim": "hidden_size",
    "hidden_dim": "intermediate_size",
    "context": "max_position_embeddings",
    "num_segments": "type_vocab_size",
}
DROPOUTS = ("hidden_dropout_prob", "attention_probs_dropout_prob")
CHOICES = {"position": "learned", "norm": "post", "norm_embeddings": True, "window": None}
"""Settings that our model must have to be saved as BERT."""


def settings_of(config: Mapping[str, object]) -> TransformerSettings:
    """The settings that a `config.json` describes.

    Raises:
        DataError: it describes another kind of model, or a choice that ours does not have.
    """
    read = CheckpointConfig(config, "bert", MUST_BE)
    return TransformerSettings(
        **read.sizes(SIZES, {"max_position_embeddings": 512, "type_vocab_size": 2}),
        position="learned",
        norm="post",
        norm_eps=read.number("layer_norm_eps", 1e-12),
        activation=read.activation("hidden_act", "gelu"),
        dropout=read.dropout(*DROPOUTS),
        norm_embeddings=True,
    )


def model_of(config: Mapping[str, object], tensors: Mapping[str, Tensor]) -> tuple[MaskedModel, tuple[str, ...]]:
    """The model that a checkpoint holds, in evaluation mode, without a head where there is none; and what is left out.

    Raises:
        DataError: a tensor is missing, left over, or has another shape than in the configuration.
    """
    settings, by_name = settings_of(config), {_current_name(name): tensor for name, tensor in tensors.items()}
    by_name.pop("embeddings.position_ids", None)  # 0, 1, 2, ...
    left_out = {beginning for name in by_name for beginning in LEFT_OUT if name.startswith(beginning)}
    read = Tensors({name: tensor for name, tensor in by_name.items() if not name.startswith(tuple(left_out))})
    has_head = any(name.startswith(HEAD) for name in read.left)
    if has_head:
        read.drop_copies(TIED)

    names = _our_names(settings.num_layers, has_head)
    state = {our_name: read.take(hf_name) for hf_name, our_name in names.items()}
    read.check_all_taken("BERT")
    num_tokens = state["encoder.embedding.weight"].shape[0]
    model = with_state(lambda: MaskedModel(num_tokens, settings, has_head=has_head), state)
    return model, tuple(what for beginning, what in LEFT_OUT.items() if beginning in left_out)


def checkpoint_of(model: MaskedModel) -> tuple[JsonObject, dict[str, Tensor]]:
    """The `config.json` and the tensors of `model.safetensors` that Hugging Face reads as the same model.

    Raises:
        DataError: the model has a choice that BERT does not have.
    """
    settings, has_head = model.settings, model.head is not None
    check_choices(settings, "BERT", CHOICES)
    if settings.num_segments < 1:
        raise DataError("num_segments is 0; BERT has at least 1.")
    state = state_of(model)
    names = _our_names(settings.num_layers, has_head)
    tensors = {hf_name: state[our_name].contiguous() for hf_name, our_name in names.items()}
    config: JsonObject = {
        "architectures": ["BertForMaskedLM" if has_head else "BertModel"],
        "model_type": "bert",
        "vocab_size": state["encoder.embedding.weight"].shape[0],
        **{hf_name: getattr(settings, our_name) for our_name, hf_name in SIZES.items()},
        "intermediate_size": settings.hidden_dim or 4 * settings.model_dim,
        "hidden_act": activation_name(settings.activation),
        "layer_norm_eps": settings.norm_eps,
        **dict.fromkeys(DROPOUTS, settings.dropout),
        "tie_word_embeddings": True,
    }
    if has_head:
        tensors = {name if name.startswith(HEAD) else f"bert.{name}": tensor for name, tensor in tensors.items()}

    return config, tensors


def _our_names(num_layers: int, has_head: bool) -> dict[str, str]:
    """Our name of each tensor of a checkpoint, whose names stand here without their prefix."""
    layers = {"embeddings.LayerNorm": "encoder.norm"}
    for number in range(num_layers):
        for hf_name, our_name in LAYERS.items():
            layers[f"encoder.layer.{number}.{hf_name}"] = f"encoder.stack.blocks.{number}.{our_name}"
    if has_head:
        layers |= HEAD_LAYERS
    names = {f"{hf_name}.weight": f"{our_name}.weight" for hf_name, our_name in EMBEDDINGS.items()}
    for part in ("weight", "bias"):
        names |= {f"{hf_name}.{part}": f"{our_name}.{part}" for hf_name, our_name in layers.items()}
    return names | ({f"{HEAD}bias": "head.bias"} if has_head else {})


def _current_name(name: str) -> str:
    """A name without its prefix, as it is written today: the first checkpoints say gamma and beta."""
    name = name.removeprefix("bert.")
    for old, new in (("LayerNorm.gamma", "LayerNorm.weight"), ("LayerNorm.beta", "LayerNorm.bias")):
        name = name.replace(old, new)
    return name
