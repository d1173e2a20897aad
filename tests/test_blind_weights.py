"""Weights that are blind to bias and edge keys still have the batch axes of these."""

import pytest
import torch

from edgewise import Constant, Edges, Full, Mean, Softmax, attend

EDGES = Edges(torch.tensor([0, 1, 1, 3]), torch.tensor([0, 0, 2, 2]), 4, 3)


@pytest.mark.parametrize("backend", ["gather", "numba"])
@pytest.mark.parametrize(
    ("neighborhood", "blind", "carried"),
    [
        (Full(), {"normalize": Mean()}, {"bias": (2, 3, 4)}),
        (EDGES, {"normalize": Mean()}, {"bias": (2, 4)}),
        (EDGES, {"normalize": Softmax(float("inf"))}, {"edge_key": (2, 4, 5)}),
        (EDGES, {"score": Constant(0.5)}, {"edge_key": (2, 4, 5)}),
    ],
    ids=["mean_of_all", "mean_of_edges", "no_cold", "constant"],
)
def test_batch_axes_of_what_is_not_looked_at(backend, neighborhood, blind, carried):
    random = torch.Generator().manual_seed(1)
    query, key, value = (torch.randn(*shape, generator=random) for shape in ((3, 5), (4, 5), (4, 2)))
    more = {name: torch.randn(*shape, generator=random) for name, shape in carried.items()}
    right = attend(query, key, value, neighborhood, backend="reference", **blind, **more)
    assert right.shape == (2, 3, 2)
    torch.testing.assert_close(attend(query, key, value, neighborhood, backend=backend, **blind, **more), right)
