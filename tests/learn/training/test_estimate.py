"""What a training takes: estimated from sizes, measured in a step without a trace, refused where it does not fit."""

import numpy as np
import pytest
import torch

from edgewise.errors import SettingError
from edgewise.learn import memory
from edgewise.learn.batches.tokens import TokenBatch
from edgewise.learn.networks.language import NextTokenModel
from edgewise.learn.networks.text_settings import TransformerSettings
from edgewise.learn.progress import monitored
from edgewise.learn.training import estimate
from edgewise.learn.training.fit import fit
from edgewise.learn.training.loader import RowLoader
from edgewise.learn.training.loss import TargetLoss, TokenLoss
from edgewise.learn.training.settings import TrainSettings

LOSS = TargetLoss("regression", "mse")
SETTINGS = TrainSettings(epochs=2, batch_size=8, device="cpu")


class Screen:
    """Keeps the lines that are shown."""

    def __init__(self):
        self.lines = []

    def begin(self, stage):
        pass

    def end(self, stage):
        pass

    def say(self, line):
        self.lines.append(line)


@pytest.fixture
def reader():
    """A small language model and the loader of its one batch."""
    model = NextTokenModel(50, TransformerSettings(num_layers=2, num_heads=2, model_dim=32, context=64))
    tokens = torch.randint(50, (8, 65), generator=torch.Generator().manual_seed(0))
    batch = TokenBatch(tokens[:, :-1], targets=tokens[:, 1:])
    return model, RowLoader(np.arange(8), lambda rows: batch, 8)


def test_sizes_agree_with_a_measured_step_that_leaves_no_trace(reader):
    model, loader = reader
    before = {name: value.clone() for name, value in model.state_dict().items()}
    model.eval()
    by_size = estimate.prepared(model, TokenLoss(), loader, SETTINGS, "cpu", measures=False)
    found = estimate.prepared(model, TokenLoss(), loader, SETTINGS, "cpu", measures=True)
    assert by_size.step_seconds is None and found.step_seconds > 0
    assert 0.5 < by_size.activations / found.activations < 2
    weights = sum(value.numel() * 4 for value in model.parameters())
    assert by_size.states == found.states == 5 * weights
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not model.training
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_training_ends_with_the_same_bits_whether_or_not_a_step_was_measured(make_model, make_batch):
    models, screen = [make_model(), make_model()], Screen()
    fit(models[0], RowLoader(np.arange(20), make_batch, 8, 0), None, LOSS, SETTINGS)
    with monitored(screen):
        fit(models[1], RowLoader(np.arange(20), make_batch, 8, 0), None, LOSS, SETTINGS)
    states = [model.state_dict() for model in models]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    (line,) = screen.lines
    assert line.startswith("estimate: ") and " of memory of " in line and line.endswith(" for 2 epochs")


def test_what_cannot_fit_is_refused_before_anything_is_computed(reader, monkeypatch):
    model, loader = reader
    monkeypatch.setattr(estimate, "available_memory", lambda device: 1_000_000)
    monkeypatch.setattr(estimate, "measured", None)
    with pytest.raises(SettingError) as refused:
        fit(model, loader, None, TokenLoss(), SETTINGS)
    for words in ("the training needs about 3", "only 1 MB are available", "--batch-size", "--no-memory-check"):
        assert words in str(refused.value)
    monkeypatch.undo()
    monkeypatch.setattr(estimate, "available_memory", lambda device: 1_000_000)
    fit(model, loader, None, TokenLoss(), TrainSettings(epochs=1, batch_size=8, device="cpu", check_memory=False))


def test_a_step_stops_before_it_fills_the_memory(reader, monkeypatch):
    model, loader = reader
    by_size = estimate.prepared(model, TokenLoss(), loader, SETTINGS, "cpu", measures=False)
    # As if sizes said little: only the step itself finds out.
    monkeypatch.setattr(estimate, "COPIES", 0)
    monkeypatch.setattr(estimate, "available_memory", lambda device: by_size.states + 200_000)
    with pytest.raises(SettingError, match=r"kB for the activations of a step\), but only"):
        estimate.prepared(model, TokenLoss(), loader, SETTINGS, "cpu", measures=True)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_another_error_in_the_step_stays_what_it_is(reader, monkeypatch):
    def broken(*_):
        raise RuntimeError("of another kind")

    monkeypatch.setattr(estimate, "loss_of", broken)
    with pytest.raises(RuntimeError, match="of another kind"):
        estimate.prepared(*reader[:1], TokenLoss(), reader[1], SETTINGS, "cpu", measures=True)


def test_control_groups_bound_the_memory(tmp_path):
    own = tmp_path / "own"
    inner = tmp_path / "job" / "step"
    inner.mkdir(parents=True)
    own.write_text("0::/job/step\n")
    for group, limit, used in ((tmp_path / "job", 1000, 900), (inner, "max", 100)):
        for name, value in (("memory.max", limit), ("memory.current", used), ("memory.stat", "inactive_file 50")):
            (group / name).write_text(f"{value}\n")
    assert list(memory.group_memory(tmp_path, own)) == [150]
    old = tmp_path / "memory" / "batch"
    old.mkdir(parents=True)
    own.write_text("3:cpu,memory:/batch\n1:cpu:/x\n")
    for name, value in (("limit_in_bytes", 5000), ("usage_in_bytes", 2000)):
        (old / f"memory.{name}").write_text(f"{value}\n")
    (old / "memory.stat").write_text("total_inactive_file 7\n")
    assert list(memory.group_memory(tmp_path, own)) == [3007]
    assert list(memory.group_memory(tmp_path, tmp_path / "nowhere")) == []


def test_the_limit_of_the_address_space_counts(monkeypatch):
    resource = pytest.importorskip("resource")
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1, 1))
    assert memory.available_memory() == 0
    assert memory.available_memory("mps") is None
    monkeypatch.setattr(resource, "getrlimit", lambda kind: (1 if kind == resource.RLIMIT_DATA else -1, -1))
    assert list(memory.limited_memory()) == [0]
    monkeypatch.undo()
    assert memory.available_memory() > 1_000_000
