"""A model of series: its receptive field, separate windows, the phase of a step."""

import pytest
import torch

from edgewise import Edges
from edgewise.learn.batches.series import SeriesBatch
from edgewise.learn.networks.forecast import ForecastModel
from edgewise.learn.networks.time_settings import ForecastSettings

CHAIN = Edges(torch.tensor([0, 1, 2]), torch.tensor([1, 2, 3]), 4, 4)


def model_of(**settings):
    torch.manual_seed(0)
    model = ForecastModel(ForecastSettings(num_heads=2, model_dim=8, context=3, horizon=2, **settings)).double()
    torch.nn.init.normal_(model.output.weight)
    return model.eval()


def batch(rows=2, seed=0):
    draw = torch.Generator().manual_seed(seed)
    values = torch.randn(rows, 3, 4, generator=draw, dtype=torch.float64)
    return SeriesBatch(values, torch.rand(rows, 5, generator=draw, dtype=torch.float64), CHAIN)


def test_before_it_learns_everything_stays_as_it_was():
    model = ForecastModel(ForecastSettings(context=3, horizon=2)).double()
    seen = batch()
    torch.testing.assert_close(model(seen), seen.values[:, -1].repeat(1, 2))


@pytest.mark.parametrize("layers", [1, 2])
def test_a_node_is_heard_by_those_behind_it_alone(layers):
    """0 → 1 → 2 → 3: in three steps, and what follows, node 0 reaches all; node 3 reaches itself."""
    seen = batch(1)
    for model, heard in ((model_of(num_layers=layers), [0, 1, 2, 3]), (model_of(model="gru", num_layers=layers), [0])):
        values = seen.values.clone().requires_grad_()
        predicted = model(SeriesBatch(values, seen.phases, CHAIN)).unflatten(1, (2, 4))[0, -1]
        slopes = [torch.autograd.grad(predicted[node], values, retain_graph=True)[0][0] for node in range(4)]
        assert [node for node in range(4) if slopes[node][:, 0].any()] == heard
        assert [node for node in range(4) if slopes[node][:, 3].any()] == [3]


@pytest.mark.parametrize("name", ["gaan_gru", "gru"])
def test_segments_do_not_attend_to_each_other(name):
    model, seen = model_of(model=name), batch(3)
    alone = [model(SeriesBatch(seen.values[[row]], seen.phases[[row]], CHAIN)) for row in range(3)]
    torch.testing.assert_close(model(seen), torch.cat(alone))


def test_nodes_in_another_order():
    model, seen, order = model_of(), batch(1), [2, 0, 3, 1]
    place = torch.tensor([order.index(node) for node in range(4)])
    moved = Edges(place[CHAIN.senders], place[CHAIN.receivers], 4, 4)
    predicted = model(seen).unflatten(1, (2, 4))
    again = model(SeriesBatch(seen.values[..., order], seen.phases, moved)).unflatten(1, (2, 4))
    torch.testing.assert_close(again, predicted[..., order])


def test_where_a_step_lies_in_its_period():
    seen = batch(1)
    later = SeriesBatch(seen.values, (seen.phases + 0.5) % 1, CHAIN)
    turned = SeriesBatch(seen.values, seen.phases + 1, CHAIN)
    plain, phased = model_of(), model_of(period=10)
    torch.testing.assert_close(plain(seen), plain(later))
    torch.testing.assert_close(phased(seen), phased(turned))
    assert (phased(seen) - phased(later)).abs().max() > 1e-3
