"""A task small enough to train in milliseconds: rows of two components and one condition, without bonds."""

import numpy as np
import pytest
import torch
from torch import nn

from batch_cases import batch_of
from edgewise.graph import Batch
from edgewise.neighborhood import Edges

NUM_ROWS = 30


class TinyModel(nn.Module):
    """A network with dropout on the conditions of a batch."""

    def __init__(self, num_outputs: int = 1):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(0.2), nn.Linear(8, num_outputs))

    def forward(self, batch: Batch) -> torch.Tensor:
        return self.body(batch.supervision.row_features)


@pytest.fixture(autouse=True)
def every_epoch_is_saved():
    """The epochs here are too short for that otherwise."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgewise.learn.training.training.EPOCH_CHECKPOINT_SECONDS", 0.0)
        yield


@pytest.fixture
def make_model():
    """Makes the same model every time."""

    def make(num_outputs: int = 1) -> TinyModel:
        with torch.random.fork_rng():
            torch.manual_seed(3)
            return TinyModel(num_outputs)

    return make


@pytest.fixture
def make_batch():
    """Makes batches of rows of one fixed table."""
    random = np.random.default_rng(0)
    conditions = random.normal(size=(NUM_ROWS, 3)).astype(np.float32)
    targets = (conditions @ np.array([[1.0], [-2.0], [0.5]]) + 0.1 * random.normal(size=(NUM_ROWS, 1))).astype(
        np.float32
    )

    def make(rows: np.ndarray) -> Batch:
        nowhere = torch.zeros(0, dtype=torch.int64)
        return batch_of(
            torch.zeros(1, 1),
            Edges(nowhere, nowhere, 1, 1),
            graph_of_row=torch.zeros(len(rows), 1, dtype=torch.int64),
            row_features=torch.from_numpy(conditions[rows]),
            targets=torch.from_numpy(targets[rows]),
            weights=torch.ones(len(rows)),
        )

    return make
