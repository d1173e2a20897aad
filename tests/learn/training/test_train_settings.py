"""The recipe refuses numbers that it cannot have, and fits itself to a table."""

import math
import os
import subprocess
import sys

import pytest

from edgewise.errors import SettingError
from edgewise.learn.training.settings import TrainSettings


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 0}, "--epochs is 0; expected at least 1."),
        ({"batch_size": 0}, "--batch-size is 0; expected at least 1."),
        ({"learning_rate": 0.0}, "--learning-rate is 0.0; expected above 0 and finite."),
        ({"learning_rate": math.inf}, "--learning-rate is inf; expected above 0 and finite."),
        ({"final_learning_rate": -1.0}, "--final-learning-rate is -1.0; expected at least 0."),
        ({"warmup": 1.5}, "--warmup is 1.5; expected at least 0 and at most 1."),
        ({"weight_decay": -0.1}, "--weight-decay is -0.1; expected at least 0."),
        ({"second_moment_decay": 1.0}, "--second-moment-decay is 1.0; expected at least 0 and below 1."),
        ({"clip_norm": -1.0}, "--clip-norm is -1.0; expected at least 0."),
        ({"ema_decay": 1.0}, "--ema-decay is 1.0; expected at least 0 and below 1."),
        ({"huber_width": 0.0}, "--huber-width is 0.0; expected above 0."),
        ({"patience": 0}, "--patience is 0; expected at least 1."),
        ({"threads": 0}, "--threads is 0; expected at least 1 and at most 1024."),
        ({"seed": -1}, "--seed is -1; expected at least 0."),
        ({"loss_function": "l2"}, "--loss-function is 'l2'; expected one of mse, mae, huber."),
        ({"checkpoint": "all"}, "--checkpoint is 'all'; expected one of best, last."),
        ({"device": "tpu"}, "--device is 'tpu'; expected one of auto, cpu, cuda, mps."),
        ({"precision": "8"}, "--precision is '8'; expected one of 32, bf16, 16, 64."),
        ({"compile": "yes"}, "--compile is yes; expected True or False."),
        ({"logger": "paper"}, "--logger is 'paper'; expected one of csv, tensorboard, wandb, mlflow."),
    ],
)
def test_impossible_values_are_refused_by_name(change, message):
    with pytest.raises(SettingError) as caught:
        TrainSettings(**change)
    assert str(caught.value) == message


def test_nan_is_refused_everywhere():
    for name in ("learning_rate", "final_learning_rate", "warmup", "weight_decay", "clip_norm", "ema_decay"):
        with pytest.raises(SettingError):
            TrainSettings(**{name: math.nan})


def test_learning_rate_rises_straight_and_falls_along_a_cosine():
    settings = TrainSettings(learning_rate=1.0, final_learning_rate=0.2, warmup=0.1)
    rates = [settings.learning_rate_at(step, 100) for step in range(101)]
    assert rates[:10] == pytest.approx([0.1 * (step + 1) for step in range(10)])
    assert rates[10] == pytest.approx(1.0)
    assert rates[55] == pytest.approx(0.6)
    assert rates[100] == pytest.approx(0.2)
    assert rates[10:] == sorted(rates[10:], reverse=True)


@pytest.mark.parametrize("final", [2e-6, 1.0])
def test_the_learning_rate_never_rises_after_the_warmup(final):
    """A rate below the last one of the recipe, as on a graph, whose recipe keeps 0.01, stays what it is."""
    settings = TrainSettings(learning_rate=1e-6, final_learning_rate=final, warmup=0.0)
    assert {settings.learning_rate_at(step, 10) for step in range(11)} == {1e-6}


def test_a_recipe_without_warmup_starts_at_the_top():
    assert TrainSettings(learning_rate=1.0, warmup=0.0).learning_rate_at(0, 5) == 1.0


def test_resolved_fills_only_what_is_open():
    asked = TrainSettings(epochs=3, batch_size=7).resolved(10_000, 10)
    assert (asked.epochs, asked.batch_size) == (3, 7)
    assert TrainSettings().resolved(100, 100).batch_size < TrainSettings().resolved(10_000, 50).batch_size


@pytest.mark.parametrize("num_rows", [1, 50, 900, 8_000, 1_000_000])
def test_resolved_makes_at_least_one_epoch_and_enough_steps(num_rows):
    settings = TrainSettings().resolved(num_rows, num_rows)
    assert settings.epochs >= 1
    assert settings.epochs * math.ceil(num_rows / settings.batch_size) >= 1000


def test_patience_keeps_the_best_checkpoint_by_default():
    assert not TrainSettings().keeps_best
    assert TrainSettings(patience=3).keeps_best
    assert not TrainSettings(patience=3, checkpoint="last").keeps_best
    assert TrainSettings(checkpoint="best").keeps_best


@pytest.mark.parametrize(
    ("wanted", "threads"), [("3", 3), ("5,2", 5), (None, 1), ("", 1), ("0", 1), ("-2", 1), ("many", 1), ("\u0663", 1)]
)
def test_threads_are_those_of_omp_num_threads(monkeypatch, wanted, threads):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if wanted is not None:
        monkeypatch.setenv("OMP_NUM_THREADS", wanted)
    assert TrainSettings().threads == threads


def test_recipes_of_texts_follow_it_too():
    kinds = ("language", "masked", "translation", "texts")
    script = "".join(f"from edgewise.learn.tasks.{kind}.settings import RECIPE as {kind}\n" for kind in kinds)
    script += f"print(*(each.threads for each in ({', '.join(kinds)})))"
    environment = {**os.environ, "OMP_NUM_THREADS": "3"}
    found = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True)
    assert found.stdout.split() == ["3"] * 4, found.stderr
