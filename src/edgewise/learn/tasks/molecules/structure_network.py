"""The companion for new molecules: a second network, which reads structures and conditions, and no descriptors."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.graph import Batch
from edgewise.learn.companions import STRUCTURE_NETWORK
from edgewise.learn.networks.graph_settings import PropertySettings
from edgewise.learn.networks.property import PropertyModel
from edgewise.learn.outputs import Targets
from edgewise.learn.readers.molecules.data import MoleculeData
from edgewise.learn.tasks.companions import CompanionKind, FittingRows, Fresh
from edgewise.learn.tasks.molecules.encoder import FittedMolecules, MoleculesEncoder
from edgewise.learn.training.fit import fit
from edgewise.learn.training.loader import RowLoader, seed_of

EPOCHS = 16
"""Passes over the training rows."""
SETTINGS = PropertySettings(model="attention", molecule_dropout=0.5, head_dropout=0.3)
"""Those of the network; see docs/experiments/conditions.md for how they were chosen."""


class StructureNetwork(nn.Module):
    """The mean over the variants of a network of molecules.

    Args:
        network: reads a batch of molecules.
    """

    def __init__(self, network: PropertyModel):
        super().__init__()
        self.network = network

    def forward(self, batch: Batch) -> Float[Tensor, " row output"]:
        """In the units of the network beside it, or as logits."""
        return self.network(batch).mean(1)

    def check(self) -> None:
        """Nothing is left to check: the weights fit the sizes, or are refused."""


def new_network(encoder: MoleculesEncoder) -> StructureNetwork:
    """The network before its first step, drawn from torch's generator."""
    settings = replace(SETTINGS, num_variants=encoder.settings.num_variants)
    return StructureNetwork(PropertyModel(replace(encoder.sizes, num_global_features=0), settings))


def train_network(fitted: FittedMolecules, data: MoleculeData, fitting: FittingRows) -> Fresh:
    """A network that is trained on some rows."""
    recipe = replace(fitting.recipe, epochs=EPOCHS, eval_steps=None, patience=None, checkpoint=None, compile=False)
    batches = fitted.encoder.batches(data, fitted.target_scale)

    def trained(rows: np.ndarray) -> StructureNetwork:
        assert recipe.batch_size is not None
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed_of(recipe.seed))
            module = new_network(fitted.encoder)
        loader = RowLoader(rows, batches.training_batch, recipe.batch_size, recipe.seed)
        fit(module.network, loader, None, fitting.loss, recipe, member=1)  # the estimate is that of the first
        return module.eval()

    return Fresh(trained(fitting.rows), lambda: trained(np.union1d(fitting.rows, fitting.validation)))


def empty_network(encoder: MoleculesEncoder, tensors: Mapping[str, Tensor], output: Targets) -> StructureNetwork:
    """A network of the sizes of the model."""
    return new_network(encoder)


NETWORK_OF_STRUCTURES = CompanionKind(
    name=STRUCTURE_NETWORK,
    fit=train_network,
    empty=empty_network,
    explained="of a prediction comes from a second network, which reads structures and conditions without descriptors.",
    encoder_type=MoleculesEncoder,
)
