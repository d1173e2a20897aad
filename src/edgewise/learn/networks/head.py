"""The head: the outputs of each row from its vector and its conditions."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.errors import SettingError
from edgewise.layers.dropout import Dropout, activate_and_drop
from edgewise.layers.linear import Linear
from edgewise.learn.networks.graph_settings import PropertySettings, PropertySizes

MAX_DROPOUT = 0.9
"""The largest dropout of mixed descriptors: with all dropped, they would stay untrained, but be used to predict."""


class ConditionedHead(nn.Module):
    """A network on the vector of a row that the conditions modulate in every block, not only at its start.

    Several variants of it run side by side. They share all matrices but the last and differ by the signs that multiply
    their input. Each learns for itself, and a prediction averages them: much of what an ensemble gives, at little cost.

    Args:
        input_dim: size of the vector of a row.
        num_conditions: numbers of the row beside it; 0 for none.
        num_outputs: outputs for a row.
        head_dim: size of the vector between the blocks.
        num_layers: blocks.
        num_variants: variants; settings leave it open until the batch size is known.
        dropout: in the blocks.
        bounds: the least and the largest value of each output, where they are known.

    Source: Wen, Tran & Ba 2020 (BatchEnsemble); Gorishniy, Kotelnikov & Babenko 2025 (TabM).
    """

    low: Tensor | None
    high: Tensor | None

    def __init__(
        self,
        input_dim: int,
        num_conditions: int,
        num_outputs: int,
        *,
        head_dim: int,
        num_layers: int,
        num_variants: int | None,
        dropout: float,
        bounds: tuple[tuple[float, ...], tuple[float, ...]] | None = None,
    ):
        super().__init__()
        self.input = Linear(input_dim, head_dim)
        condition_dim = 32 if num_conditions else 0
        self.add: nn.Module | None = None

        if num_conditions:
            self.add = Linear(num_conditions, head_dim)
            self.condition = nn.Sequential(
                Linear(num_conditions, condition_dim),
                nn.SiLU(),
                Linear(condition_dim, condition_dim),
                nn.SiLU(),
            )

        self.blocks = nn.ModuleList(ModulatedBlock(head_dim, condition_dim, dropout) for _ in range(num_layers))
        if num_variants is None:
            raise SettingError("num_variants is None; hand over settings.resolved(batch_size).")
        self.num_variants = num_variants
        low, high = (None, None) if bounds is None else (torch.tensor(bound) for bound in bounds)
        self.register_buffer("low", low, persistent=False)
        self.register_buffer("high", high, persistent=False)

        # One long vector: what decays in training are matrices, and these signs must not.
        self.signs = nn.Parameter(torch.randn(self.num_variants * head_dim).sign())
        scale = 0.5 / math.sqrt(head_dim)
        self.output = nn.Parameter(scale * torch.randn(self.num_variants, head_dim, num_outputs))
        self.offset = nn.Parameter(torch.zeros(self.num_variants * num_outputs))

    def forward(
        self, vectors: Float[Tensor, " row feature"], conditions: Float[Tensor, " row condition"] | None
    ) -> Float[Tensor, " row variant output"]:
        """The outputs of every variant for each row; `conditions` are None, or not read, where there are none."""
        rows, condition = self.input(vectors), None
        if self.add is not None:
            rows, condition = rows + self.add(conditions), self.condition(conditions).unsqueeze(1)
        variants = rows.unsqueeze(1) * self.signs.view(self.num_variants, -1)
        for block in self.blocks:
            variants = block(variants, condition)

        outputs = torch.einsum("rvh,vho->rvo", variants, self.output) + self.offset.view(self.num_variants, -1)
        if self.low is None or self.high is None:
            return outputs

        # Fractions stay fractions: 0 at the low end, 1 at the high one.
        low, high = self.low.to(outputs.dtype), self.high.to(outputs.dtype)
        return low + (high - low) * torch.sigmoid(2 * outputs)


class ModulatedBlock(nn.Module):
    """h ← h + F(γ(c) ⊙ norm(h) + β(c)): conditions c scale and shift every feature.

    Source: Perez et al. 2018 (FiLM), with γ = 1 + W c.
    """

    def __init__(self, head_dim: int, condition_dim: int, dropout: float):
        super().__init__()
        self.norm = nn.LayerNorm(head_dim)
        self.modulate: nn.Linear | None = None
        if condition_dim:
            self.modulate = Linear(condition_dim, 2 * head_dim)
            nn.init.normal_(self.modulate.weight, std=0.5 / math.sqrt(condition_dim))
            nn.init.zeros_(self.modulate.bias)
        self.first, self.second = Linear(head_dim, head_dim), Linear(head_dim, head_dim)
        self.dropout = Dropout(dropout)

    def forward(
        self, rows: Float[Tensor, " row variant head_dim"], condition: Float[Tensor, " row 1 condition_dim"] | None
    ) -> Float[Tensor, " row variant head_dim"]:
        """The rows after the block."""
        normed = self.norm(rows)
        if self.modulate is not None:
            scale, shift = self.modulate(condition).chunk(2, -1)
            normed = torch.addcmul(normed + shift, normed, scale)
        return rows + self.second(activate_and_drop(self.first(normed), "silu", self.dropout))


def describer(sizes: PropertySizes, settings: PropertySettings) -> nn.Module | None:
    """From the descriptors of a molecule to a vector beside the learned one; None where there are none."""
    if not sizes.num_global_features:
        return None
    dropped = settings.numbers.descriptor_dropout
    return nn.Sequential(
        Dropout(dropped),
        Linear(sizes.num_global_features, settings.numbers.model_dim),
        nn.SiLU(),
        Dropout(min(2 * dropped, MAX_DROPOUT)),
    )
