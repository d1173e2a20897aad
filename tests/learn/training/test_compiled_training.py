"""A compiled training step learns what the step as it is learns, and leaves no trace in what is kept."""

import warnings
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from batch_cases import batch_of

ROWS = 24


class Network(nn.Module):
    """A small network on the conditions of a batch, always with the same weights at first."""

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(3)
            self.body = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))

    def forward(self, batch):
        return self.body(batch.supervision.row_features)


@pytest.fixture(autouse=True)
def forget_compiled_code():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def train(plain_edgewise):
    """Trains a network on rows of one table; batches have 7, 6 or 4 rows."""
    from edgewise.learn.training.fit import fit
    from edgewise.learn.training.loader import RowLoader
    from edgewise.learn.training.loss import TargetLoss
    from edgewise.learn.training.settings import TrainSettings

    random = np.random.default_rng(0)
    conditions = random.normal(size=(ROWS, 3)).astype(np.float32)
    targets = (conditions @ np.array([[1.0], [-2.0], [0.5]])).astype(np.float32)
    nowhere = torch.zeros(0, dtype=torch.int64)

    def make_batch(rows):
        return batch_of(
            torch.zeros(1, 1),
            plain_edgewise.Edges(nowhere, nowhere, 1, 1),
            graph_of_row=torch.zeros(len(rows), 1, dtype=torch.int64),
            row_features=torch.from_numpy(conditions[rows]),
            targets=torch.from_numpy(targets[rows]),
            weights=torch.ones(len(rows)),
        )

    def run(*, compiled=False, **details):
        settings = TrainSettings(
            epochs=3, batch_size=7, learning_rate=0.02, ema_decay=0.9, device="cpu", compile=compiled
        )
        model, loss = Network(), TargetLoss("regression", "mse")
        loaders = RowLoader(np.arange(20), make_batch, 7, seed=0), RowLoader(np.arange(20, ROWS), make_batch, 4)
        return model, fit(model, *loaders, loss, settings, **details)

    return run


def assert_alike(one, other):
    found, expected = one.state_dict(), other.state_dict()
    assert found.keys() == expected.keys() == {"body.0.weight", "body.0.bias", "body.2.weight", "body.2.bias"}
    for name, tensor in found.items():
        torch.testing.assert_close(tensor, expected[name], rtol=1e-5, atol=1e-5)


def compiles_with(monkeypatch, backend):
    monkeypatch.setattr(torch, "compile", partial(torch.compile, backend=backend))


def test_what_is_learned_and_kept_is_the_same(train, tmp_path):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r".*torch\.jit\.script.*", category=DeprecationWarning)
        compiled, result = train(compiled=True, folder=tmp_path)
    plain, expected = train()
    assert_alike(compiled, plain)
    losses = [record["val_loss"] for record in result.history]
    assert losses == pytest.approx([record["val_loss"] for record in expected.history], rel=1e-5)
    for name in ("last.ckpt", "finished.ckpt"):
        names = torch.load(tmp_path / name, weights_only=True)["state_dict"]
        assert not any("_orig_mod" in each for each in names)
    assert_alike(train(folder=tmp_path, resume=True)[0], compiled)


@pytest.mark.parametrize("compiled", [False, True])
def test_a_run_is_continued_either_way(train, tmp_path, monkeypatch, compiled):
    compiles_with(monkeypatch, "aot_eager")
    with pytest.raises(KeyboardInterrupt):
        train(compiled=not compiled, folder=tmp_path, log=StopAfter(1))
    continued, result = train(compiled=compiled, folder=tmp_path, resume=True)
    assert [record["epoch"] for record in result.history] == [0, 1, 2]
    assert_alike(continued, train()[0])


class StopAfter:
    """A log that ends the process once the checkpoint of some epoch is written."""

    def __init__(self, epoch):
        self.epoch = epoch

    def write(self, member, history, new=True):
        if history[-1]["epoch"] == self.epoch:
            raise KeyboardInterrupt


def test_one_program_serves_batches_of_other_sizes(train, monkeypatch):
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("eager")
    compiles_with(monkeypatch, counter)
    train(compiled=True)
    train(compiled=True)
    assert counter.frame_count == 1


def test_a_failing_compiler_is_distinguished_from_our_own_error(train, monkeypatch):
    def broken(graph, inputs):
        raise OSError("there is no g++")

    from edgewise.errors import SettingError

    compiles_with(monkeypatch, broken)
    with pytest.raises(SettingError, match=r"--compile: torch cannot compile the training step \(.*\); leave it out\."):
        train(compiled=True)
