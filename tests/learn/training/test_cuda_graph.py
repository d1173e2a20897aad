"""A training whose step is one CUDA graph learns what the step as it is learns."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from batch_cases import batch_of
from cuda_recorder import WHERE, count_recordings
from edgewise import Edges, SettingError
from edgewise.learn.batches.tokens import TokenBatch
from edgewise.learn.progress import Stage
from edgewise.learn.training.fit import fit
from edgewise.learn.training.loader import RowLoader, WindowLoader
from edgewise.learn.training.loss import TargetLoss, TokenLoss
from edgewise.learn.training.settings import TrainSettings
from edgewise.learn.training.training import Training

SETTINGS = TrainSettings(epochs=3, batch_size=4, learning_rate=0.05, device=WHERE, check_memory=False)
TEXT = torch.arange(200) * 7 % 11
ROWS = 12
RANDOM = np.random.default_rng(0)
FEATURES = torch.from_numpy(RANDOM.normal(size=(ROWS, 3)).astype(np.float32))
TARGETS = torch.from_numpy(RANDOM.normal(size=(ROWS, 1)).astype(np.float32))


class Characters(nn.Module):
    """The next character from the one before it."""

    def __init__(self):
        super().__init__()
        self.table, self.out = nn.Embedding(11, 8), nn.Linear(8, 11)

    def forward(self, batch):
        return self.out(torch.tanh(self.table(batch.tokens)))


class Nodes(nn.Module):
    """A value of each node from its features."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, batch):
        return self.body(batch.graph.node_features)[batch.supervision.nodes]


def windows():
    return Characters, WindowLoader(TEXT, 8, 4, 5, seed=0), WindowLoader(TEXT, 8, 4), TokenLoss()


def graph_batch(rows, graph=None):
    nowhere = torch.zeros(0, dtype=torch.int64)
    batch = batch_of(FEATURES, Edges(nowhere, nowhere, ROWS, ROWS), nodes=torch.from_numpy(np.asarray(rows)))
    batch = replace(batch, graph=graph or batch.graph)
    return batch.with_targets(TARGETS[rows], torch.ones(len(rows)))


def nodes():
    graph = graph_batch([0]).graph
    loaders = [RowLoader(np.arange(ROWS), lambda rows: graph_batch(rows, graph), 4, seed) for seed in (0, None)]
    return Nodes, *loaders, TargetLoss("regression", "mse")


@pytest.fixture(autouse=True)
def recordings(monkeypatch):
    return count_recordings(monkeypatch)


def trained(make, settings):
    make_model, train_loader, val_loader, loss = make()
    torch.manual_seed(0)
    model = make_model().to(WHERE)
    training = Training(model, loss, settings, len(train_loader), WHERE)
    training.run(train_loader, val_loader, Stage("training", None))
    return training


@pytest.mark.parametrize("make", [windows, nodes])
@pytest.mark.parametrize("ema_decay", [0.0, 0.9])
def test_it_learns_what_the_step_learns(make, ema_decay, recordings):
    settings = replace(SETTINGS, ema_decay=ema_decay)
    plain = trained(make, settings)
    assert not recordings
    captured = trained(make, replace(settings, cuda_graph=True))
    assert len(recordings) == 1
    for record, expected in zip(captured.history, plain.history, strict=True):
        for name in ("train_loss", "val_loss"):
            np.testing.assert_allclose(record[name], expected[name], rtol=1e-5)
        assert record["learning_rate"] == expected["learning_rate"]
    for name, value in captured.weights().items():
        torch.testing.assert_close(value, plain.weights()[name], rtol=1e-4, atol=1e-5)


def test_a_batch_of_another_size_has_a_recording_of_its_own(recordings):
    def of_two_sizes():
        model, _, val_loader, loss = windows()
        loader = RowLoader(np.arange(9), WindowLoader(TEXT, 8, 4).windows, 5, seed=0)  # 5 and 4 rows
        return model, loader, val_loader, loss

    trained(of_two_sizes, replace(SETTINGS, epochs=5, cuda_graph=True))
    assert len(recordings) == 2


def test_ever_other_lengths_are_refused():
    def of_ever_other_lengths():
        def window(rows):
            return TokenBatch(TEXT[None, : rows[0] + 2], targets=TEXT[None, 1 : rows[0] + 3])

        return Characters, RowLoader(np.arange(100), window, 1, seed=0), None, TokenLoss()

    with pytest.raises(SettingError, match=r"more than 64 forms .* has one more shape; leave --cuda-graph out"):
        trained(of_ever_other_lengths, replace(SETTINGS, cuda_graph=True))


@pytest.mark.parametrize("cuda_graph", [False, True])
def test_a_graph_is_sent_once_and_another_one_is_refused(cuda_graph):
    training = Training(Nodes().to(WHERE), None, replace(SETTINGS, cuda_graph=cuda_graph), 1, WHERE)
    batches = [graph_batch([0, 1]), graph_batch([2])]
    batches.insert(1, graph_batch([3], batches[0].graph))
    first, second = (training.sent(batch) for batch in batches[:2])
    assert first.graph is second.graph
    assert second.supervision.nodes.tolist() == [3]
    torch.testing.assert_close(first.graph.node_features, FEATURES.to(WHERE))
    if cuda_graph:
        with pytest.raises(SettingError, match="each step has another graph"):
            training.sent(batches[2])
    else:
        assert training.sent(batches[2]).graph is not first.graph


@pytest.mark.parametrize(
    ("changed", "message"),
    [({"device": "cpu"}, "needs an NVIDIA GPU"), ({"precision": "64"}, "precision 32 or bf16, not with 64")],
)
def test_it_needs_a_gpu_and_a_precision(changed, message, monkeypatch):
    monkeypatch.setattr("edgewise.learn.training.fit.pick_device", lambda device: changed.get("device", "cuda"))
    make_model, train_loader, val_loader, loss = windows()
    settings = replace(SETTINGS, cuda_graph=True, **changed)
    with pytest.raises(SettingError, match=message):
        fit(make_model(), train_loader, val_loader, loss, settings)
