"""Networks that forecast the series of the nodes of a graph."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.graph import Trace
from edgewise.layers.gated import GraphGRU
from edgewise.layers.linear import Linear
from edgewise.learn.batches.series import SeriesBatch
from edgewise.learn.networks.time_settings import ForecastSettings
from edgewise.neighborhood import Edges


class ForecastModel(nn.Module):
    """An encoder-decoder: one recurrent network reads past steps, another predicts future ones, one by one.

        s_t = cell(s_{t−1}, x_t) over the context;  then  x_{t+1} = x_t + W s_t,  s_{t+1} = cell'(s_t, x_{t+1})

    Each prediction is fed back as input, in training too. The first step starts from the last that was known.

    Source: Li et al. 2018 (DCRNN) for the two networks; Zhang et al. 2018 (GaAN) for the cell.
    """

    def __init__(self, settings: ForecastSettings):
        super().__init__()
        self.settings = settings
        input_dim = 1 if settings.period is None else 3
        self.reader, self.teller = (
            nn.ModuleList(
                cell_of(settings, input_dim if layer == 0 else settings.model_dim)
                for layer in range(settings.num_layers)
            )
            for _ in range(2)
        )
        self.output = Linear(settings.model_dim, 1)
        nn.init.zeros_(self.output.weight)
        nn.init.zeros_(self.output.bias)

    def forward(self, batch: SeriesBatch, trace: Trace | None = None) -> Float[Tensor, " row output"]:
        """The forecast of every node, step after step: (row, horizon · node), in model units."""
        states: list[Tensor | None] = [None] * self.settings.num_layers
        for step in range(self.settings.context):
            inputs = self._step_inputs(batch.values[:, step], batch.phases[:, step])
            states = self._moved(self.reader, inputs, batch.edges, states, trace)
        now, predictions = batch.values[:, -1], []
        for step in range(self.settings.horizon):
            if step:
                phase = batch.phases[:, self.settings.context + step - 1]
                states = self._moved(self.teller, self._step_inputs(now, phase), batch.edges, states, trace)
            assert states[-1] is not None
            now = now + self.output(states[-1]).squeeze(-1)
            predictions.append(now)
        return torch.stack(predictions, 1).flatten(1)

    def _moved(
        self, cells: nn.ModuleList, nodes: Tensor, edges: Edges, states: list[Tensor | None], trace: Trace | None
    ) -> list[Tensor | None]:
        """The states of all layers after one more step."""
        moved: list[Tensor | None] = []
        for cell, state in zip(cells, states, strict=True):
            if isinstance(cell, GraphGRU):
                nodes = cell(nodes, edges, state, trace=trace)
            else:
                flat = None if state is None else state.flatten(0, 1)
                nodes = cell(nodes.flatten(0, 1), flat).unflatten(0, nodes.shape[:2])
            moved.append(nodes)
        return moved

    def _step_inputs(self, values: Float[Tensor, " row node"], phase: Float[Tensor, " row"]) -> Tensor:
        """The input of a cell: the value, and the phase of the step in the period."""
        if self.settings.period is None:
            return values.unsqueeze(-1)
        angle = (2 * math.pi * phase)[:, None].expand_as(values)
        return torch.stack([values, angle.sin(), angle.cos()], -1)


def cell_of(settings: ForecastSettings, input_dim: int) -> nn.Module:
    """One step of a recurrent network over all nodes."""
    if settings.model == "gaan_gru":
        return GraphGRU(input_dim, settings.model_dim, settings.num_heads)
    return nn.GRUCell(input_dim, settings.model_dim)
