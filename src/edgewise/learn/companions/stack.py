"""`Stack`: a network and the companions beside it, which predict together."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.graph import Trace
from edgewise.learn.companions import NETWORK

NETWORK_COPIES = 4
"""As how many variants a network without variants counts, so that a companion may weigh less than it."""


class Stack(nn.Module):
    """The mean of a network and its companions, each with its weight.

        y = (Σ_v y_v + Σ_c n_c y_c) / (V + Σ_c n_c)

    with V variants v of the network's head, and companions c. A companion counts as n_c further variants. It learns
    nothing from gradients: the network is trained alone, then companions join it. A network whose head has no variants
    counts as four that are equal.

    Args:
        network: gives `(row, variant, output)` or `(row, output)`.
        companions: by name; each gives `(row, output)`, in the units of the network or as logits.
        copies: n_c of each, 1 or more.
    """

    def __init__(self, network: nn.Module, companions: Mapping[str, nn.Module], copies: Mapping[str, int]):
        super().__init__()
        self.network, self.companions = network, nn.ModuleDict(companions)
        self.copies = {name: copies[name] for name in companions}

    def forward(self, batch: object, trace: Trace | None = None) -> Float[Tensor, " row variant output"]:
        """The outputs of every variant, those of the network first; their mean predicts."""
        return self.joined(self.network(batch, trace), {name: of(batch) for name, of in self.companions.items()})

    def joined(self, outputs: Tensor, companion_outputs: Mapping[str, Tensor]) -> Float[Tensor, " row variant output"]:
        """The same out of the outputs of the network, and those of each companion by name, `(row, output)`."""
        copied = [
            companion_outputs[name].to(outputs.dtype).unsqueeze(1).expand(-1, count, -1)
            for name, count in self.copies.items()
        ]
        return torch.cat([as_variants(outputs), *copied], 1)

    def fingerprint(self, batch: object) -> Tensor:
        """The learned vector of each row: that of the network."""
        return self.network.fingerprint(batch)  # type: ignore[operator, no-any-return]


def as_variants(outputs: Tensor) -> Float[Tensor, " row variant output"]:
    """The outputs of a network, with an axis of variants."""
    return outputs.unsqueeze(1).expand(-1, NETWORK_COPIES, -1) if outputs.ndim == 2 else outputs


def network_of(member: nn.Module) -> Any:
    """The network of a member of an ensemble, without its companions."""
    return member.network if isinstance(member, Stack) else member


def companions_of(member: nn.Module) -> dict[str, Any]:
    """The companions of a member of an ensemble, by name."""
    return dict(member.companions.items()) if isinstance(member, Stack) else {}


def joined(member: nn.Module, outputs: Tensor, companion_outputs: Mapping[str, Tensor]) -> Tensor:
    """What a member gives, out of the outputs of its network and of each companion; see `Stack.joined`."""
    return member.joined(outputs, companion_outputs) if isinstance(member, Stack) else outputs


def variants_of(copies: Mapping[str, int], num_variants: int) -> dict[str, slice]:
    """Which of all variants are the network's, and which each companion's.

    Args:
        copies: of each companion.
        num_variants: of the network and its companions together.
    """
    stop = num_variants - sum(copies.values())
    slices = {NETWORK: slice(0, stop)}
    for name, count in copies.items():
        slices[name] = slice(stop, stop + count)
        stop += count
    return slices


def shares_of(copies: Mapping[str, int], num_variants: int) -> dict[str, float]:
    """The weight of the network and of each companion; their sum is 1. Arguments as for `variants_of`."""
    slices = variants_of(copies, num_variants)
    return {name: (part.stop - part.start) / num_variants for name, part in slices.items()}


def tensors_of(member: nn.Module) -> dict[str, Tensor]:
    """The weights of a member: those of its network under their own names, then `companions.NAME.…`."""
    if not isinstance(member, Stack):
        return member.state_dict()
    # Members that share a companion save it each: a file stores a tensor under one name only.
    companions = {f"companions.{name}": tensor.clone() for name, tensor in member.companions.state_dict().items()}
    return member.network.state_dict() | companions
