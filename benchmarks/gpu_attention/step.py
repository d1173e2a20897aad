"""A training step of the default molecule model: 64 molecules, the loss, both passes, the optimizer.

The step is timed as it is called, compiled as `edgewise train --compile` compiles it, and both captured as CUDA graphs,
each where it can be; its launches are counted. The molecules are made up: bonds as in the benchmark, features of the
sizes that the library's own have.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from edgewise.models.graph_settings import PropertySettings, PropertySizes
from edgewise.models.property import PropertyModel, planned
from edgewise.neighborhood import Edges
from edgewise.records import Batch
from edgewise.train.loss import TargetLoss, loss_of
from gpu_attention.graphs import ATOMS, bonds

NODE_FEATURES, EDGE_FEATURES, DESCRIPTORS = 63, 11, 214
"""Of an atom, a bond and a molecule, as the library computes them."""
ROWS = 64
"""Of a batch."""
CALLED, COMPILED = "as it is called", "compiled"
CAPTURED, BOTH = "captured as a CUDA graph", "compiled and captured"
WAYS = (CALLED, COMPILED, CAPTURED, BOTH)


def made_up(rows: int) -> Batch:
    """A batch of molecules and targets, on the CPU, where batches are put together."""
    graph = bonds(rows, "cpu")
    random = torch.Generator().manual_seed(0)

    def numbers(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=random)

    return Batch(
        node_features=numbers(graph.num_nodes, NODE_FEATURES),
        edges=Edges(graph.senders, graph.receivers, graph.num_nodes, graph.num_nodes),
        edge_features=numbers(graph.num_edges, EDGE_FEATURES),
        global_features=numbers(rows, DESCRIPTORS),
        offsets=ATOMS * torch.arange(rows + 1),
        graph_of_row=torch.arange(rows)[:, None],
        conditions=numbers(rows, 0),
        targets=numbers(rows, 1),
        weights=torch.ones(rows),
    )


def step_of(device: str, rows: int, *, compiled: bool = False, capturable: bool = False) -> Callable[[], Any]:
    """A function that trains a fresh model on one and the same batch for a step."""
    torch.manual_seed(0)
    sizes = PropertySizes(NODE_FEATURES, EDGE_FEATURES, DESCRIPTORS, 1, 0, 1)
    settings = replace(PropertySettings(), num_variants=8)
    batch = planned(made_up(rows), settings).to(device)
    model = PropertyModel(sizes, settings).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, fused=True, capturable=capturable)
    loss = TargetLoss("regression", "huber", 0.25)
    program = torch.compile(loss_of, dynamic=True) if compiled else loss_of

    def step() -> torch.Tensor:
        optimizer.zero_grad()
        total, weight = program(model, loss, batch)
        (total / weight).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return total.detach()

    return step
