"""The stack that every transformer here is made of: residual blocks over one neighborhood, and a last normalization."""

import math

from jaxtyping import Float, Int64
from torch import Tensor, nn

from edgewise.errors import ShapeError
from edgewise.graph import Trace
from edgewise.layers.attention import MultiHeadAttention
from edgewise.layers.block import ResidualBlock
from edgewise.layers.cache import Cache
from edgewise.layers.position import (
    ALiBi,
    LearnedPosition,
    PairPosition,
    RotaryPosition,
    ShawPosition,
    SinusoidalPosition,
    T5Position,
)
from edgewise.learn.batches.tokens import TokenBatch
from edgewise.learn.networks.text_settings import TransformerSettings
from edgewise.neighborhood import Causal, Full, Neighborhood, Segments, Window


class TransformerBlocks(nn.Module):
    """Residual blocks, each a self-attention over the same neighborhood and a feed-forward network.

        x ← block_L(… block_1(x))        and norm(x) at the end, where blocks normalize what comes in ("pre")

    With `Full` it is an encoder, with `Causal` a decoder.

    Args:
        settings: sizes and choices.
        is_causal: whether keys never come after their query, so that positions need not distinguish the two sides.
        has_source: whether every block also attends to the nodes of another stack.

    Source: Vaswani et al. 2017; Radford et al. 2019 for the normalization at the end and the start of the weights.
    """

    def __init__(self, settings: TransformerSettings, *, is_causal: bool = False, has_source: bool = False):
        super().__init__()
        self.blocks = nn.ModuleList(_block(settings, is_causal, has_source) for _ in range(settings.num_layers))
        norm = nn.LayerNorm(settings.model_dim, settings.norm_eps) if settings.norm == "pre" else nn.Identity()
        self.last_norm = norm
        start(self, settings.num_layers)

    def forward(
        self,
        nodes: Float[Tensor, " *batch node model_dim"],
        neighborhood: Neighborhood = Full(),
        *,
        source: Float[Tensor, " *source_batch key model_dim"] | None = None,
        source_neighborhood: Neighborhood = Full(),
        positions: Int64[Tensor, " *position_batch node"] | None = None,
        cache: Cache | None = None,
        trace: Trace | None = None,
    ) -> Float[Tensor, " *batch node model_dim"]:
        """The nodes after all blocks; with a cache they follow the nodes of earlier calls."""
        for number, block in enumerate(self.blocks):
            nodes = block(
                nodes,
                neighborhood,
                source=source,
                source_neighborhood=source_neighborhood,
                positions=positions,
                cache=None if cache is None else cache.of_layer(number),
                source_cache=None if cache is None or source is None else cache.of_source(number),
                trace=trace,
            )

        return self.last_norm(nodes)


def start(model: nn.Module, num_layers: int) -> None:
    """Weights as GPT-2 starts: normal with deviation 0.02, smaller where all layers add up; biases zero."""
    for name, layer in model.named_modules():
        if isinstance(layer, nn.Linear):
            adds = name.endswith(("attention.output", "feed_forward.3"))  # cross_attention.output too
            nn.init.normal_(layer.weight, std=0.02 / math.sqrt(2 * num_layers) if adds else 0.02)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def position_encoding_of(settings: TransformerSettings) -> LearnedPosition | SinusoidalPosition | None:
    """The position encoding that is added before the first block; None for encodings inside the attention."""
    if settings.position == "learned":
        return LearnedPosition(settings.context, settings.model_dim)
    return SinusoidalPosition(settings.model_dim) if settings.position == "sinusoidal" else None


def add_positions(
    settings: TransformerSettings, position: nn.Module | None, nodes: Tensor, positions: Tensor | None
) -> Tensor:
    """The nodes plus their position encoding; unchanged where `position` is None."""
    if position is None:
        return nodes
    check_length(settings, nodes, positions)
    return position(nodes, positions)


def causal(settings: TransformerSettings) -> Neighborhood:
    """Each token attends to itself and those before, in a window where the settings have one."""
    return Causal() if settings.window is None else Window(settings.window - 1, 0)


def around(settings: TransformerSettings) -> Neighborhood:
    """Each token attends to all of its text, or to a window of them around it where the settings have one."""
    window = settings.window
    return Full() if window is None else Window((window - 1) // 2, window // 2)


def within_texts(neighborhood: Neighborhood, batch: TokenBatch) -> tuple[Neighborhood, Tensor | None]:
    """The neighborhood within each text of a batch, and the places of the tokens; None where each row is one text."""
    if batch.offsets is None:
        return neighborhood, None
    # One text alone needs no segments, for which torch's kernels would take a table of all pairs.
    if len(batch.offsets) > 2:
        inside = Segments(batch.offsets)
        neighborhood = inside if isinstance(neighborhood, Full) else neighborhood & inside
    return neighborhood, batch.positions


def check_length(settings: TransformerSettings, nodes: Tensor, positions: Tensor | None) -> None:
    """Raise ShapeError where a token is beyond the positions that were learned."""
    if settings.position != "learned":
        return
    last = nodes.shape[-2] if positions is None else int(positions.max()) + 1 if positions.numel() > 0 else 0
    if last > settings.context:
        raise ShapeError(
            f"the text has {last} tokens, but only {settings.context} positions were learned; shorten it, or train "
            "with a longer --context or with --position rotary."
        )


def _block(settings: TransformerSettings, is_causal: bool, has_source: bool) -> ResidualBlock:
    def attention(position: PairPosition | None) -> MultiHeadAttention:
        return MultiHeadAttention(
            settings.model_dim,
            settings.num_heads,
            num_key_heads=settings.num_key_heads,
            position=position,
            dropout=settings.dropout,
        )

    return ResidualBlock(
        attention(_pair_position(settings, is_causal)),
        settings.model_dim,
        settings.hidden_dim,
        norm=settings.norm,
        norm_eps=settings.norm_eps,
        activation=settings.activation,
        dropout=settings.dropout,
        cross_attention=attention(None) if has_source else None,
    )


def _pair_position(settings: TransformerSettings, is_causal: bool) -> PairPosition | None:
    """What every attention sees of positions; each layer has its own (T5 shares one among all layers)."""
    key_dim = settings.model_dim // settings.num_heads
    match settings.position:
        case "rotary":
            return RotaryPosition(key_dim)
        case "alibi":
            return ALiBi(settings.num_heads)
        case "t5":
            return T5Position(settings.num_heads, is_causal=is_causal)
        case "shaw":
            return ShawPosition(key_dim)
    return None
