"""Training equals the loop one would write by hand, and continues as if it had never stopped."""

import math
import random
import re
import signal
import sys
import time

import numpy as np
import pytest
import torch

from edgewise.errors import DataError, EdgewiseError, SettingError
from edgewise.learn.progress import monitored
from edgewise.learn.training.fit import fit
from edgewise.learn.training.loader import RowLoader, seed_of
from edgewise.learn.training.log import MetricsLog
from edgewise.learn.training.loss import TargetLoss
from edgewise.learn.training.settings import TrainSettings
from edgewise.learn.training.training import Training

SETTINGS = TrainSettings(
    epochs=6, batch_size=8, learning_rate=0.02, weight_decay=0.1, ema_decay=0.9, device="cpu", seed=5
)
LOSS = TargetLoss("regression", "mse")
TRAIN, VAL = np.arange(20), np.arange(20, 30)


class KilledError(Exception):
    """Stands for a sudden end."""


def train(model, make_batch, settings=SETTINGS, val=VAL, **details):
    loader = RowLoader(TRAIN, make_batch, settings.batch_size, settings.seed)
    val_loader = None if val is None else RowLoader(val, make_batch, 4)
    return fit(model, loader, val_loader, LOSS, settings, **details)


def same(left, right) -> bool:
    return all(torch.equal(a, b) for a, b in zip(left.state_dict().values(), right.state_dict().values(), strict=True))


def by_hand(model, make_batch, settings):
    """The loop in plain torch; returns the validation loss of the averaged weights after each epoch."""
    loader = RowLoader(TRAIN, make_batch, settings.batch_size, settings.seed)
    parameters = list(model.parameters())
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": settings.weight_decay},
        {"params": [p for p in parameters if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, betas=(0.9, settings.second_moment_decay), fused=True)
    averaged = [p.detach().clone() for p in parameters]
    val_batch, val_losses, step = make_batch(VAL), [], 0
    for epoch in range(settings.epochs):
        loader.epoch = epoch
        torch.manual_seed(seed_of(settings.seed, epoch))
        model.train()
        for batch in loader:
            for group in optimizer.param_groups:
                group["lr"] = settings.learning_rate_at(step, settings.epochs * len(loader))
            optimizer.zero_grad()
            (model(batch) - batch.targets).square().mean().backward()
            torch.nn.utils.clip_grad_norm_(parameters, settings.clip_norm)
            optimizer.step()
            step += 1
            decay = min(settings.ema_decay, (1 + step) / (10 + step))
            averaged = [decay * a + (1 - decay) * p.detach() for a, p in zip(averaged, parameters)]
        trained = [p.detach().clone() for p in parameters]
        model.eval()
        with torch.no_grad():
            for p, a in zip(parameters, averaged):
                p.copy_(a)
            val_losses.append(float((model(val_batch) - val_batch.targets).square().mean()))
            for p, t in zip(parameters, averaged if epoch == settings.epochs - 1 else trained):
                p.copy_(t)
    return val_losses


def test_fit_is_the_loop_by_hand(make_model, make_batch):
    ours, hand = make_model(), make_model()
    result = train(ours, make_batch)
    val_losses = by_hand(hand, make_batch, SETTINGS)
    assert [record["val_loss"] for record in result.history] == pytest.approx(val_losses, rel=1e-5)
    assert result.best_epoch == int(np.argmin(val_losses))
    for found, expected in zip(ours.parameters(), hand.parameters()):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    assert [record["step"] for record in result.history] == [3, 6, 9, 12, 15, 18]


def test_without_averaging_and_clipping_too(make_model, make_batch):
    settings = TrainSettings(epochs=2, batch_size=8, ema_decay=0.0, clip_norm=0.0, device="cpu")
    ours, hand = make_model(), make_model()
    train(ours, make_batch, settings)
    by_hand(hand, make_batch, TrainSettings(epochs=2, batch_size=8, ema_decay=0.0, clip_norm=math.inf, device="cpu"))
    # (1 + step) / (10 + step) is at most 0, so the averaged weights by hand are the trained ones.
    for found, expected in zip(ours.parameters(), hand.parameters()):
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("keep", ["best", "last"])
def test_an_interrupted_run_ends_with_the_same_bits(make_model, make_batch, tmp_path, monkeypatch, keep):
    settings = TrainSettings(**{**SETTINGS.__dict__, "checkpoint": keep})
    whole = make_model()
    expected = train(whole, make_batch, settings, folder=tmp_path)
    for stop in (0, 2, 5):
        folder = tmp_path / str(stop)
        folder.mkdir()
        kill_in_epoch(monkeypatch, stop)
        with pytest.raises(KilledError):
            train(make_model(), make_batch, settings, folder=folder)
        monkeypatch.undo()
        resumed = make_model()
        visited = []
        result = train(resumed, recorded(make_batch, visited), settings, folder=folder, resume=True)
        assert same(resumed, whole)
        assert [record["val_loss"] for record in result.history] == [r["val_loss"] for r in expected.history]
        # Three batches an epoch: those of the epochs already done are not made again.
        # Where there is no checkpoint yet, the memory is estimated from the first batch.
        assert visited.count("train") == 3 * (6 - stop) + (stop == 0)


@pytest.mark.parametrize("keep", ["best", "last"])
def test_short_epochs_are_saved_together(make_model, make_batch, tmp_path, monkeypatch, keep):
    """Of epochs that end within a second, one is saved before the best weights of a later one; the last always is."""
    settings = TrainSettings(**{**SETTINGS.__dict__, "checkpoint": keep})
    whole, resumed, visited = make_model(), make_model(), []
    monkeypatch.setattr("edgewise.learn.training.training.EPOCH_CHECKPOINT_SECONDS", 60.0)
    (tmp_path / "whole").mkdir()
    expected = train(whole, make_batch, settings, folder=tmp_path / "whole")
    best, last = (torch.load(tmp_path / "whole" / f"{name}.ckpt") for name in ("best", "last"))
    assert best["epoch"] == last["best_epoch"] == expected.best_epoch > 0
    assert len(last["history"]) == settings.epochs
    kill_in_epoch(monkeypatch, 5)
    with pytest.raises(KilledError):
        train(make_model(), make_batch, settings, folder=tmp_path)
    monkeypatch.undo()
    assert sorted(path.name for path in tmp_path.glob("*.ckpt")) == ["best.ckpt", "last.ckpt"]
    best, last = (torch.load(tmp_path / f"{name}.ckpt") for name in ("best", "last"))
    assert (best["epoch"], last["best_epoch"], len(last["history"])) == (0, 0, 1)
    found = train(resumed, recorded(make_batch, visited), settings, folder=tmp_path, resume=True)
    assert same(resumed, whole) and found.best_epoch == expected.best_epoch
    assert visited.count("train") == 3 * 5, "the epochs after the saved one are trained again"


@pytest.mark.parametrize("precision", ["32", "64"])
def test_a_run_that_is_killed_within_an_epoch_goes_on_there(make_model, make_batch, tmp_path, monkeypatch, precision):
    """A run of few epochs, or of one, must not begin anew: the checkpoint is there before the first epoch ends."""
    settings = TrainSettings(**{**SETTINGS.__dict__, "epochs": 2, "batch_size": 2, "precision": precision})
    whole, visited = make_model(), []
    expected = train(whole, recorded(make_batch, visited), settings)
    assert visited.count("train") == 20 + 1, "one more for the estimate of the memory"
    monkeypatch.setattr("edgewise.learn.training.training.CHECKPOINT_SECONDS", 0.0)
    monkeypatch.setattr("edgewise.learn.training.training.CHECKPOINT_SHARE", math.inf)
    for stop in (1, 7, 14):
        folder = tmp_path / str(stop)
        folder.mkdir()
        with monkeypatch.context() as patch:
            original = Training.save_within

            def dies(self, batches, original=original, stop=stop):
                if self.step == stop + 1:
                    raise KilledError
                original(self, batches)

            patch.setattr(Training, "save_within", dies)
            with pytest.raises(KilledError):
                train(make_model(), make_batch, settings, folder=folder)
        assert (folder / "last.ckpt").is_file()
        resumed, steps = make_model(), []
        with monkeypatch.context() as patch:

            def counts(self, batches, steps=steps):
                steps.append(self.step)

            patch.setattr(Training, "save_within", counts)
            result = train(resumed, make_batch, settings, folder=folder, resume=True)
        assert steps[0] == stop + 1, "no step is taken twice"
        assert same(resumed, whole)
        for found, known in zip(result.history, expected.history, strict=True):
            assert {**found, "seconds": 0} == {**known, "seconds": 0}
            assert 0 < found["seconds"] < 60


def test_writing_within_an_epoch_takes_a_small_share_of_the_time(make_model, make_batch, tmp_path, monkeypatch):
    monkeypatch.setattr("edgewise.learn.training.training.CHECKPOINT_SECONDS", 0.0)
    written = []
    original = Training.save

    def slow(self):
        original(self)
        until = time.perf_counter() + 0.05
        while time.perf_counter() < until:
            pass
        written.append(self.step)

    monkeypatch.setattr(Training, "save", slow)
    train(make_model(), make_batch, TrainSettings(epochs=1, batch_size=1, device="cpu"), val=None, folder=tmp_path)
    assert len(written) < 8, "20 steps of milliseconds"


def kill_in_epoch(monkeypatch, stop: int) -> None:
    """The process dies in the epoch, after its last step and before its end."""
    original = Training.end_epoch

    def dies(self, *details):
        if self.epoch == stop:
            raise KilledError
        original(self, *details)

    monkeypatch.setattr(Training, "end_epoch", dies)


def recorded(make_batch, visited):
    def make(rows):
        visited.append("train" if rows[0] < 20 else "val")
        return make_batch(rows)

    return make


def test_a_kill_between_the_two_checkpoints_of_an_epoch_does_no_harm(make_model, make_batch, tmp_path, monkeypatch):
    settings = TrainSettings(**{**SETTINGS.__dict__, "checkpoint": "best"})
    whole = make_model()
    train(whole, make_batch, settings)
    original = Training.save

    def dies(self):
        if self.epoch == 4:
            (self.folder / ".edgewise-0.part").write_bytes(b"half")
            raise KilledError
        original(self)

    monkeypatch.setattr(Training, "save", dies)
    with pytest.raises(KilledError):
        train(make_model(), make_batch, settings, folder=tmp_path)
    monkeypatch.undo()
    resumed = make_model()
    train(resumed, make_batch, settings, folder=tmp_path, resume=True)
    assert same(resumed, whole)


def test_a_model_with_an_unused_parameter_goes_on_too(make_model, make_batch, tmp_path, monkeypatch):
    """A parameter that has no gradient has no state of Adam either: that was taken for a damaged checkpoint."""

    def make():
        model = make_model()
        model.unused = torch.nn.Parameter(torch.ones(2, 2))
        return model

    whole, resumed = make(), make()
    train(whole, make_batch)
    kill_in_epoch(monkeypatch, 2)
    with pytest.raises(KilledError):
        train(make(), make_batch, folder=tmp_path)
    monkeypatch.undo()
    train(resumed, make_batch, folder=tmp_path, resume=True)
    assert same(resumed, whole)


def test_a_finished_member_is_not_trained_again(make_model, make_batch, tmp_path):
    first, second = make_model(), make_model()
    expected = train(first, make_batch, folder=tmp_path)

    def refuse(rows):
        raise AssertionError("no batch is needed")

    result = fit(second, RowLoader(TRAIN, refuse, 8, 0), None, LOSS, SETTINGS, folder=tmp_path, resume=True)
    assert same(first, second)
    assert result.history == expected.history


def test_resume_without_a_checkpoint_begins(make_model, make_batch, tmp_path):
    first, second = make_model(), make_model()
    train(first, make_batch)
    train(second, make_batch, folder=tmp_path, resume=True)
    assert same(first, second)


def test_checkpoints_hold_no_pickled_objects(make_model, make_batch, tmp_path):
    train(make_model(), make_batch, folder=tmp_path)
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["best.ckpt", "finished.ckpt", "last.ckpt"]
    for name in names:
        assert "state_dict" in torch.load(tmp_path / name, weights_only=True)


def test_patience_stops_and_stays_stopped(make_model, make_batch, tmp_path):
    settings = TrainSettings(
        epochs=50, batch_size=8, learning_rate=1.0, warmup=0.0, patience=3, device="cpu", ema_decay=0
    )
    model = make_model()
    result = train(model, make_batch, settings, folder=tmp_path)
    assert len(result.history) == result.best_epoch + 4 < 50
    losses = [record["val_loss"] for record in result.history]
    assert losses[result.best_epoch] == min(losses)
    # Killed after the last epoch and before the end: no epoch is added.
    (tmp_path / "finished.ckpt").unlink()
    resumed = make_model()
    assert len(train(resumed, make_batch, settings, folder=tmp_path, resume=True).history) == len(result.history)
    assert same(resumed, model)


def test_keep_best_returns_the_weights_of_the_best_epoch(make_model, make_batch):
    settings = TrainSettings(
        epochs=8,
        batch_size=8,
        learning_rate=1.0,
        final_learning_rate=1.0,
        warmup=0,
        ema_decay=0,
        checkpoint="best",
        device="cpu",
    )
    model = make_model().train()
    result = train(model, make_batch, settings)
    model.eval()
    batch = make_batch(VAL)
    with torch.no_grad():
        loss = float((model(batch) - batch.targets).square().mean())
    assert loss == pytest.approx(min(record["val_loss"] for record in result.history), rel=1e-5)
    assert result.best_epoch < 7


@pytest.mark.parametrize("val", [None, np.zeros(0, dtype=np.int64)])
def test_no_validation_rows_keep_the_last_epoch(make_model, make_batch, val):
    settings = TrainSettings(epochs=3, batch_size=8, patience=1, device="cpu")
    result = train(make_model(), make_batch, settings, val=val)
    assert len(result.history) == 3
    assert result.best_epoch == -1
    assert all(record["val_loss"] is None for record in result.history)


def test_the_caller_notices_nothing(make_model, make_batch, capfd, shapes_unchecked):
    torch.manual_seed(0)
    random.seed(0)
    threads = torch.get_num_threads() + 1
    before = torch.get_rng_state(), random.getstate(), signal.getsignal(signal.SIGINT), torch.is_grad_enabled()
    train(make_model(), make_batch, TrainSettings(**{**SETTINGS.__dict__, "threads": threads}))
    assert torch.equal(before[0], torch.get_rng_state())
    assert before[1:] == (random.getstate(), signal.getsignal(signal.SIGINT), torch.is_grad_enabled())
    assert torch.get_num_threads() == threads - 1
    assert capfd.readouterr() == ("", "")


def test_the_seed_decides(make_model, make_batch):
    models = [make_model() for _ in range(3)]
    for model, seed in zip(models, (5, 5, 6)):
        train(model, make_batch, TrainSettings(**{**SETTINGS.__dict__, "seed": seed}))
    assert same(models[0], models[1])
    assert not same(models[0], models[2])


def weighted(make_batch, weight_of_row):
    """Batches of rows, each with a weight."""

    def make(rows):
        batch = make_batch(rows)
        return batch.with_targets(batch.targets, torch.tensor([weight_of_row(row) for row in rows]))

    return make


def test_an_epoch_whose_rows_weigh_nothing_has_no_loss(make_model, make_batch, tmp_path):
    some = weighted(make_batch, lambda row: float(row % 2))
    settings = TrainSettings(epochs=1, batch_size=1, eval_steps=1, device="cpu")
    model, again = make_model(), make_model()
    result = train(model, some, settings, log=MetricsLog(tmp_path, "csv"), folder=tmp_path)
    losses = [record["train_loss"] for record in result.history]
    assert len(losses) == 20
    assert losses.count(None) == 10
    assert all(loss is None or math.isfinite(loss) for loss in losses)
    cells = [line.split(",")[4] for line in (tmp_path / "metrics.csv").read_text().splitlines()[1:]]
    assert [cell == "" for cell in cells] == [loss is None for loss in losses]
    assert train(again, some, settings, folder=tmp_path, resume=True).history == result.history
    assert same(model, again)


def test_training_rows_that_all_weigh_nothing_are_an_error(make_model, make_batch):
    none = weighted(make_batch, lambda row: float(row >= 20))  # the validation rows
    with pytest.raises(DataError, match="the training rows weigh nothing in the loss: their weights, or those of"):
        train(make_model(), none)


def test_divergence_is_an_error_not_a_result(make_model, make_batch):
    settings = TrainSettings(epochs=3, batch_size=8, learning_rate=1e30, clip_norm=0.0, device="cpu")
    with pytest.raises(
        EdgewiseError, match=r"diverged: the loss of epoch \d is not finite; try a smaller --learning-rate"
    ):
        train(make_model(), make_batch, settings)


@pytest.mark.parametrize("precision", ["bf16", "64"])
def test_other_precisions_learn_too(make_model, make_batch, precision):
    settings = TrainSettings(**{**SETTINGS.__dict__, "precision": precision, "epochs": 12})
    model, plain = make_model(), make_model()
    result = train(model, make_batch, settings)
    train(plain, make_batch, TrainSettings(**{**SETTINGS.__dict__, "epochs": 12}))
    assert result.history[-1]["val_loss"] < result.history[0]["val_loss"]
    assert all(parameter.dtype == torch.float32 for parameter in model.parameters())
    assert not same(model, plain)


def test_double_precision_reaches_the_model(make_model, make_batch):
    seen = set()
    model = make_model()
    model.body[0].register_forward_pre_hook(lambda module, inputs: seen.add((inputs[0].dtype, module.weight.dtype)))
    train(model, make_batch, TrainSettings(**{**SETTINGS.__dict__, "precision": "64", "epochs": 1}))
    assert seen == {(torch.float64, torch.float64)}


def test_what_the_machine_cannot_do_is_said(make_model, make_batch):
    with pytest.raises(SettingError, match="--precision 16 needs a GPU"):
        train(make_model(), make_batch, TrainSettings(epochs=1, batch_size=8, precision="16", device="cpu"))
    with pytest.raises(SettingError, match="hand over settings"):
        fit(make_model(), RowLoader(TRAIN, make_batch, 8, 0), None, LOSS, TrainSettings(device="cpu"))
    missing = "mps" if not torch.backends.mps.is_available() else None
    if missing:
        with pytest.raises(SettingError, match=f"--device is {missing}, which torch does not find"):
            train(make_model(), make_batch, TrainSettings(epochs=1, batch_size=8, device=missing))


def test_progress_reaches_the_end(make_model, make_batch):
    stages = []

    class Recorder:
        def begin(self, stage):
            stages.append(stage)

        def end(self, stage):
            pass

        def say(self, line):
            pass

    with monitored(Recorder()):
        train(make_model(), make_batch)
    training, *inner = [stage for stage in stages if stage.name in ("training", "validation")]
    assert (training.done, training.total) == (18, 18)
    assert re.fullmatch(r"epoch 6, loss [\d.e-]+", training.note)
    assert [stage.name for stage in inner] == ["validation"] * 6
    assert all(stage.done == stage.total for stage in inner)


def test_the_log_lists_every_epoch_of_every_member_once(make_model, make_batch, tmp_path, monkeypatch):
    log = MetricsLog(tmp_path)
    for member in "01":
        (tmp_path / member).mkdir()
    train(make_model(), make_batch, log=log, folder=tmp_path / "0")
    kill_in_epoch(monkeypatch, 4)
    with pytest.raises(KilledError):
        train(make_model(), make_batch, log=log, member=1, folder=tmp_path / "1")
    monkeypatch.undo()
    log = MetricsLog(tmp_path)
    train(make_model(), make_batch, log=log, folder=tmp_path / "0", resume=True)
    train(make_model(), make_batch, log=log, member=1, folder=tmp_path / "1", resume=True)
    lines = (tmp_path / "metrics.csv").read_text().splitlines()
    assert lines[0] == "member,epoch,step,learning_rate,train_loss,val_loss,seconds"
    assert [line.split(",")[:3] for line in lines[1:]] == [
        [str(member), str(epoch), str(3 * (epoch + 1))] for member in range(2) for epoch in range(6)
    ]
    rates = [SETTINGS.learning_rate_at(3 * epoch + 2, 18) for epoch in range(6)]
    assert [float(line.split(",")[3]) for line in lines[1:]] == pytest.approx(2 * rates), "those of the last steps"


def test_a_logger_that_is_not_installed_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(SettingError, match=r"--logger wandb needs the package wandb, .*: pip install wandb"):
        MetricsLog(tmp_path, "wandb")


def test_tensorboard_gets_its_own_files(make_model, make_batch, tmp_path):
    pytest.importorskip("tensorboard")
    log = MetricsLog(tmp_path, "tensorboard")
    train(make_model(), make_batch, log=log)
    log.close()
    assert list((tmp_path / "tensorboard").glob("events.out.tfevents.*"))
    assert len((tmp_path / "metrics.csv").read_text().splitlines()) == 7
