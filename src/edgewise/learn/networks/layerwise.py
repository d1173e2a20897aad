"""A network over a graph that does not fit into memory: layer by layer, each over all nodes in parts.

    hidden_0 = features;  hidden_s[part] = step_s(hidden_{s−1}[part and its neighbors]),  part after part

Nothing is sampled: a part has all edges of its nodes, so that the result is that of the whole graph up to rounding.
Nodes between steps are stored in files that are mapped into memory.
"""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from edgewise.graph import Graph, SparseFeatures, StoredGraph, Trace
from edgewise.learn.progress import counted

BLOCK = 2**14
"""Nodes whose outputs are computed together."""


class LayerStep(NamedTuple):
    """A part of a network whose output at a node depends on the node and its neighbors alone."""

    function: Callable[..., Tensor]
    """Maps the nodes before the step, with the edges of a graph, to the nodes after it."""
    reads_edges: bool = True
    """Whether it reads neighbors."""


class GraphLayers(nn.Module):
    """A network over the edges of a graph as steps, so that a graph may be computed whole, or in parts in each step."""

    num_read = 1
    """How many of the last steps `outputs` reads; 0 for all."""

    @abstractmethod
    def steps(self) -> Sequence[LayerStep]:
        """The steps, first to last; the first reads the features of the nodes."""

    @abstractmethod
    def outputs(self, step_outputs: Sequence[Tensor], trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """The vectors of nodes before the output layer, and the output, from the nodes after the last steps."""

    def forward(self, graph: Graph, trace: Trace | None = None) -> tuple[Tensor, Tensor]:
        """The vectors of all nodes before the output layer, and the output."""
        step_outputs: list[Tensor] = []
        nodes = graph.node_features
        for step in self.steps():
            nodes = step.function(nodes, graph, trace)
            step_outputs = [*step_outputs, nodes][-self.num_read :]
        return self.outputs(step_outputs, trace)


def layer_by_layer(layers: GraphLayers, graph: StoredGraph, rows: Tensor, *, returns_vectors: bool = False) -> Tensor:
    """The outputs of some nodes, or their vectors before the output layer, exact; without gradients.

    Args:
        layers: a `GraphLayers`.
        graph: the graph.
        rows: the nodes, on the device of the layers.
        returns_vectors: whether to return the vectors.

    Cost: each step reads every edge once, but the last, which computes the rows alone; memory is that of a part.
    """
    steps, device, everyone = layers.steps(), rows.device, np.arange(graph.num_nodes)
    distinct_rows, order = np.unique(rows.cpu().numpy(), return_inverse=True)
    before: Callable[[np.ndarray], Tensor | SparseFeatures] = graph.features

    kept: list[np.ndarray] = []
    with torch.no_grad():
        for number, step in enumerate(counted(steps, "layer by layer")):
            nodes = distinct_rows if number == len(steps) - 1 else everyone
            after = _apply_step(step, before, graph, nodes, device, width_of(layers))
            kept = [*kept, after][-layers.num_read :]
            before = _Rows(after)
        outputs = torch.from_numpy(_outputs(layers, kept, distinct_rows, graph, device, returns_vectors))

    is_in_order = len(distinct_rows) == len(rows) and bool((order == np.arange(len(rows))).all())
    return (outputs if is_in_order else outputs[torch.from_numpy(order)]).to(device)


def _apply_step(
    step: LayerStep,
    before: Callable[[np.ndarray], Tensor | SparseFeatures],
    graph: StoredGraph,
    nodes: np.ndarray,
    device: torch.device,
    width: int,
) -> np.ndarray:
    """The nodes after a step, `(node, feature)`."""
    results: np.ndarray | None = None
    start = 0
    for node_rows, part, count in graph.parts(nodes, width, with_edges=step.reads_edges):
        vectors = before(node_rows)
        after = step.function(vectors.to(device), part.to(device), None)[:count].float().cpu().numpy()
        if results is None:
            results = graph.scratch((len(nodes), after.shape[1]))
        results[start : start + count] = after
        start += count
    return graph.scratch((0, 0)) if results is None else results


def _outputs(
    layers: GraphLayers,
    kept: list[np.ndarray],
    wanted: np.ndarray,
    graph: StoredGraph,
    device: torch.device,
    returns_vectors: bool,
) -> np.ndarray:
    """The outputs of the network for some nodes, from their vectors after the last steps."""
    results: np.ndarray | None = None
    for start in range(0, max(len(wanted), 1), BLOCK):
        inside = slice(start, start + BLOCK)
        # The last step computed these nodes alone, those before it all.
        rows = [vectors_of_step[wanted[inside]] for vectors_of_step in kept[:-1]] + [np.array(kept[-1][inside])]
        vectors, outputs = layers.outputs([torch.from_numpy(vectors_of_step).to(device) for vectors_of_step in rows])
        block = (vectors if returns_vectors else outputs).float().cpu().numpy()
        if results is None:
            results = graph.scratch((len(wanted), block.shape[1]))
        results[inside] = block

    assert results is not None
    return results


class _Rows:
    """Rows of an array as tensors."""

    def __init__(self, array: np.ndarray):
        self.array = array

    def __call__(self, nodes: np.ndarray) -> Tensor:
        return torch.from_numpy(self.array[nodes])


def width_of(layers: nn.Module) -> int:
    """The largest input or output width of the layers."""
    return max((max(weight.shape) for weight in layers.parameters() if weight.ndim), default=1)
