"""A network and its companions: the weighted mean, the weights, and the names of their tensors."""

import pytest
import torch
from torch import nn

from edgewise.learn.companions.stack import (
    Stack,
    network_of,
    shares_of,
    tensors_of,
    variants_of,
)
from edgewise.learn.outputs import EnsemblePredictions


class Constant(nn.Module):
    """Gives the same numbers for each row."""

    def __init__(self, values):
        super().__init__()
        self.register_buffer("values", torch.tensor(values))

    def forward(self, batch, trace=None):
        return self.values.expand(batch, *self.values.shape)


def stack():
    """Two variants of a network with one output, and two companions."""
    companions = {"forest": Constant([5.0]), "word-counts": Constant([9.0])}
    return Stack(Constant([[1.0], [3.0]]), companions, {"forest": 4, "word-counts": 2})


def test_the_mean_of_its_variants_by_hand():
    outputs = stack()(3)
    assert outputs.shape == (3, 8, 1)
    torch.testing.assert_close(outputs.mean(1), torch.full((3, 1), (1 + 3 + 4 * 5 + 2 * 9) / 8))


def test_a_network_without_variants_counts_as_four():
    outputs = Stack(Constant([1.0]), {"forest": Constant([4.0])}, {"forest": 2})(2)
    assert outputs.shape == (2, 6, 1)
    torch.testing.assert_close(outputs.mean(1), torch.full((2, 1), 2.0))


def test_parts_are_what_each_predicts_alone():
    copies = {"forest": 4, "word-counts": 2}
    outputs = EnsemblePredictions.of([stack()(3).numpy(), 2 * stack()(3).numpy()], copies)
    assert {name: part[:, 0].tolist() for name, part in outputs.parts.items()} == {
        "network": [3.0] * 3,
        "forest": [7.5] * 3,
        "word-counts": [13.5] * 3,
    }
    assert outputs.shares == {"network": 0.25, "forest": 0.5, "word-counts": 0.25}
    weighted = sum(outputs.shares[name] * part for name, part in outputs.parts.items())
    assert weighted == pytest.approx(outputs.mean())


def test_places_and_shares():
    assert variants_of({}, 3) == {"network": slice(0, 3)} and shares_of({}, 3) == {"network": 1.0}
    assert variants_of({"forest": 2}, 3) == {"network": slice(0, 1), "forest": slice(1, 3)}


def test_a_network_is_saved_under_its_own_names():
    member = stack()
    assert set(tensors_of(member)) == {"values", "companions.forest.values", "companions.word-counts.values"}
    assert set(tensors_of(member.network)) == {"values"}
    assert network_of(member) is network_of(member.network) is member.network
