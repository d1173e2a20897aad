"""One of the two processes of `test_distributed`: what it finds goes into a file, by the names of the tests."""

import contextlib
import copy
import itertools
import json
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import nn

from edgewise.errors import EdgewiseError
from edgewise.learn.tasks.registry import task
from edgewise.learn.tasks.run import Run
from edgewise.learn.training.distributed import ALONE, connected
from edgewise.learn.training.fit import fit
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import RowLoader
from edgewise.learn.training.loss import TargetLoss
from edgewise.learn.training.settings import TrainSettings
from edgewise.learn.training.training import Training

NUM_ROWS, NUM_TRAIN = 30, 21


@dataclass(frozen=True)
class Rows:
    """A batch of numbers."""

    features: torch.Tensor
    targets: torch.Tensor
    weights: torch.Tensor


class KilledError(Exception):
    """Stands for a sudden end."""


class Tiny(nn.Module):
    """Takes the features of a row; dropout makes its steps depend on the random numbers of a process."""

    def __init__(self, dropout: float = 0.0):
        super().__init__()
        torch.manual_seed(3)
        self.body = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1))
        self.unused = nn.Parameter(torch.ones(2))

    def forward(self, batch):
        return self.body(batch.features)


def make_batch(rows):
    random = np.random.default_rng(0)
    features = random.normal(size=(NUM_ROWS, 3)).astype(np.float32)
    targets = (features @ np.array([[1.0], [-2.0], [0.5]])).astype(np.float32)
    weights = random.uniform(0.1, 3, NUM_ROWS).astype(np.float32)
    targets[[4, 8]] = np.nan  # a share whose targets are missing counts nothing
    rows = np.asarray(rows, dtype=np.int64)
    return Rows(*(torch.from_numpy(each[rows]) for each in (features, targets, weights)))


LOSS = TargetLoss("regression", "mse")
SETTINGS = TrainSettings(epochs=3, batch_size=4, learning_rate=0.02, ema_decay=0.9, device="cpu", seed=5)


def train(group, *, folder=None, resume=False, dropout=0.0, settings=SETTINGS):
    """The trained weights and the history."""
    model = Tiny(dropout)
    loader = RowLoader(np.arange(NUM_TRAIN), make_batch, settings.batch_size, settings.seed)
    val_loader = RowLoader(np.arange(NUM_TRAIN, NUM_ROWS), make_batch, 4)
    own = folder if group.leads else None
    result = fit(model, loader, val_loader, LOSS, settings, folder=own, resume=resume, group=group)
    history = [{name: value for name, value in each.items() if name != "seconds"} for each in result.history]
    return [value.clone() for value in model.state_dict().values()], history


def gradients(model, loss, batches, group, settings):
    """The gradients of some batches, one after the other, dropout off."""
    training = Training(model, loss, settings, 1, "cpu", group=group)
    model.eval()
    found = []
    for batch in batches:
        mean, sums = training.losses(training.loss_in_training, batch)
        model.zero_grad()
        mean.backward()
        group.sum_gradients(training.parameters)
        found += [torch.stack(sums), *(p.grad for p in model.parameters() if p.grad is not None)]
    return found


def difference(left, right):
    """The largest difference between two lists of tensors, in parts of the largest number."""
    assert len(left) == len(right)
    largest = max(float(each.abs().max()) for each in left)
    return max(float((a - b).abs().max()) for a, b in zip(left, right)) / largest


def of_task(name, group, **settings):
    """How far the gradient of the group is from that of one process, on the same batches of a task."""
    chosen = task(name)
    prepared = chosen.prepare(chosen.settings.of(settings, "the test"))
    recipe = replace(chosen.recipe(prepared), device="cpu")
    torch.manual_seed(0)
    model = prepared.fitted.new_member()
    found = []
    for each in (group, ALONE):
        loader, _ = chosen.loaders(prepared)(recipe)
        loader.shard = each.shard
        batches = itertools.islice(loader, 2)
        found.append(gradients(copy.deepcopy(model), chosen.loss(prepared), batches, each, recipe))
    return difference(*found)


def killed_at(step, group, folder, **options):
    """Trains, and ends at a step."""
    original = Training.save_within

    def dies(self, batches):
        self.next_checkpoint = 0.0
        original(self, batches)
        if self.step == step:
            raise KilledError

    Training.save_within = dies
    with contextlib.suppress(KilledError):
        train(group, folder=folder, **options)
    Training.save_within = original


def findings(group, folder):
    found = {}
    texts = (str(folder / "text.txt"),)
    found["gradient of molecules"] = of_task(
        *("molecules", group),
        data=(str(folder / "molecules.csv"),),
        smiles_columns=("smiles",),
        target_columns=("y",),
        batch_size=7,
    )
    found["gradient of sampled nodes"] = of_task(
        *("nodes", group),
        data=(str(folder / "nodes.csv"),),
        edges=str(folder / "edges.csv"),
        target_columns=("y",),
        fanouts=(-1, -1),
        model="sage",
        batch_size=9,
    )
    place = RunFolder(folder / "whole_graph")
    chosen = task("nodes")
    nodes = {"data": (str(folder / "nodes.csv"),), "edges": str(folder / "edges.csv"), "target_columns": ("y",)}
    try:
        Run.prepare(chosen, chosen.settings.of(nodes, "the test"), place, group=group)
    except EdgewiseError as error:
        found["whole graph"] = max(group.gather(f"{type(error).__name__}: {error}"))
    assert not place.path.exists()
    found["gradient of language"] = of_task(
        "language", group, data=texts, context=16, batch_size=5, tokens="characters"
    )
    found["gradient of masked"] = of_task("masked", group, data=texts, batch_size=200)

    alone = train(ALONE)
    for strategy in ("ddp", "fsdp"):
        here = replace(group, strategy=strategy)
        weights, history = train(here)
        found[f"{strategy} trains as one process"] = difference(alone[0], weights)
        found[f"{strategy} losses"] = max(
            abs(a[name] - b[name]) for a, b in zip(alone[1], history) for name in ("train_loss", "val_loss")
        )
        place = folder / strategy
        whole = train(here, dropout=0.5)
        for step in (3, 8):
            own = place / str(step)
            own.mkdir(parents=True, exist_ok=True)
            killed_at(step, here, own, dropout=0.5)
            again = train(here, folder=own, resume=True, dropout=0.5)
            found[f"{strategy} resumed at {step}"] = again[1] == whole[1] and all(map(torch.equal, again[0], whole[0]))
        for name, before, after in (("2 to 1", here, ALONE), ("1 to 2", ALONE, here)):
            own = place / name
            own.mkdir(exist_ok=True)
            if before is here or group.leads:
                killed_at(8, before, own)
            group.agree(True)
            if after is here or group.leads:
                found[f"{strategy} {name}"] = difference(alone[0], train(after, folder=own, resume=True)[0])
            group.agree(True)
    return found


if __name__ == "__main__":
    folder = Path(sys.argv[1])
    torch.set_num_threads(1)
    with connected("ddp", "cpu") as everybody:
        result = findings(everybody, folder)
        (folder / f"found_{os.environ['RANK']}.json").write_text(json.dumps(result))
