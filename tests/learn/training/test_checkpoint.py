"""Nothing is lost: a damaged checkpoint falls back on the one before, and a failed write leaves the last good one."""

import builtins
import errno
import io
import os
import shutil
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from edgewise.errors import RunFolderError, WriteError
from edgewise.learn.progress import monitored
from edgewise.learn.training.checkpoint import latest, load_checkpoint, save_checkpoint
from edgewise.learn.training.fit import fit
from edgewise.learn.training.loader import RowLoader
from edgewise.learn.training.loss import TargetLoss
from edgewise.learn.training.settings import TrainSettings
from edgewise.learn.training.training import Training

SETTINGS = TrainSettings(epochs=5, batch_size=8, learning_rate=0.02, ema_decay=0.9, device="cpu", seed=5)


class KilledError(Exception):
    """Stands for a sudden end."""


class Notes:
    """What is noted beside the output."""

    def __init__(self):
        self.lines = []

    def begin(self, stage):
        """Shows nothing."""

    end = say = begin

    def note(self, line):
        self.lines.append(line)


@pytest.fixture
def train(make_model, make_batch):
    def train(folder, *, resume=True, keep="last"):
        settings = TrainSettings(**{**SETTINGS.__dict__, "checkpoint": keep})
        loaders = RowLoader(np.arange(20), make_batch, 8, 5), RowLoader(np.arange(20, 30), make_batch, 4)
        model = make_model()
        fit(model, *loaders, TargetLoss("regression", "mse"), settings, folder=folder, resume=resume)
        return [value.clone() for value in model.state_dict().values()]

    return train


@pytest.fixture
def stopped(train, tmp_path, monkeypatch):
    """The folder of a training that ended after three epochs."""
    original = Training.train_epoch

    def dies(self, *arguments):
        if self.epoch == 3:
            raise KilledError
        return original(self, *arguments)

    folder = tmp_path / "stopped"
    folder.mkdir()
    with monkeypatch.context() as patch:
        patch.setattr(Training, "train_epoch", dies)
        with pytest.raises(KilledError):
            train(folder)
    return folder


def flipped(content):
    """One bit of a number in the middle of the largest tensor is another."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        largest = archive.read(max(archive.infolist(), key=lambda member: member.file_size))
    place = content.index(largest) + len(largest) // 2
    return content[:place] + bytes([content[place] ^ 64]) + content[place + 1 :]


DAMAGES = {"truncated": lambda content: content[: len(content) // 2], "flipped": flipped, "empty": lambda _: b""}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_damaged_checkpoint_falls_back_on_the_one_before(train, stopped, tmp_path, damage):
    """torch reads a flipped bit as another number: the training would go on with it."""
    whole = tmp_path / "whole"
    whole.mkdir()
    expected = train(whole)
    last = stopped / "last.ckpt"
    last.write_bytes(DAMAGES[damage](last.read_bytes()))
    notes = Notes()
    with monitored(notes):
        found = train(stopped)
    assert all(map(torch.equal, found, expected))
    (line,) = [line for line in notes.lines if "damaged" in line]
    assert line.startswith(f"{last} is damaged (")
    assert line.endswith(f"; the training goes on from {stopped / 'previous.ckpt'}.")
    assert sorted(path.name for path in stopped.iterdir()) == ["best.ckpt", "finished.ckpt", "last.ckpt"]
    finished = stopped / "finished.ckpt"
    finished.write_bytes(DAMAGES[damage](finished.read_bytes()))
    assert all(map(torch.equal, train(stopped), expected)), "the result is made again from the last epoch"


def test_where_all_are_damaged_the_newest_is_named(train, stopped):
    for name in ("last.ckpt", "previous.ckpt"):
        path = stopped / name
        path.write_bytes(flipped(path.read_bytes()))
    with pytest.raises(RunFolderError, match=r"last\.ckpt is damaged .*; train again with --overwrite"):
        train(stopped)


def test_damaged_best_weights_matter_only_where_they_are_the_result(train, stopped, tmp_path):
    shutil.copytree(stopped, tmp_path / "best")
    for folder in (stopped, tmp_path / "best"):
        best = folder / "best.ckpt"
        best.write_bytes(flipped(best.read_bytes()))
    with pytest.raises(RunFolderError, match=r"best\.ckpt is damaged"):
        train(tmp_path / "best", keep="best")
    train(stopped)


def test_every_flipped_byte_of_a_checkpoint_is_found_or_harmless(tmp_path):
    content = {"state_dict": {"weight": torch.arange(64.0)}, "history": [], "best_epoch": -1}
    path = tmp_path / "last.ckpt"
    save_checkpoint(content, path)
    whole = path.read_bytes()
    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 255]) + whole[place + 1 :])
        try:
            found = load_checkpoint(path)
        except RunFolderError:
            continue
        assert torch.equal(found["state_dict"]["weight"], content["state_dict"]["weight"])
        assert (found["history"], found["best_epoch"]) == ([], -1)


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EROFS, errno.EACCES])
def test_a_disk_that_is_full_or_read_only_leaves_the_last_good_checkpoint(train, stopped, tmp_path, monkeypatch, code):
    """The error names the file; when there is room again the training goes on, and ends with the same bits."""
    whole = tmp_path / "whole"
    whole.mkdir()
    expected = train(whole)
    before = {path.name: path.read_bytes() for path in stopped.iterdir()}

    def full(*_):
        raise OSError(code, os.strerror(code))

    def no_room(path, mode="r", *arguments, original=open, **more):
        return full() if "x" in mode else original(path, mode, *arguments, **more)

    with monkeypatch.context() as patch:
        if code == errno.ENOSPC:
            patch.setattr("os.fsync", full)
        else:
            patch.setattr(builtins, "open", no_room)
        with pytest.raises(WriteError, match=r"stopped/(best|last)\.ckpt cannot be written: ") as caught:
            train(stopped)
    assert caught.value.errno == code
    assert {path.name: path.read_bytes() for path in stopped.iterdir()} == before
    assert all(map(torch.equal, train(stopped), expected))


def test_a_kill_between_the_two_names_leaves_a_checkpoint(train, stopped, tmp_path):
    whole = tmp_path / "whole"
    whole.mkdir()
    expected = train(whole)
    (stopped / "last.ckpt").unlink()
    assert latest(stopped).path.name == "previous.ckpt"
    assert all(map(torch.equal, train(stopped), expected))


def test_a_checkpoint_of_python_objects_is_refused_without_advice_to_run_them(tmp_path):
    torch.save({"state_dict": Path("x")}, tmp_path / "last.ckpt")
    with pytest.raises(RunFolderError, match="holds Python objects") as caught:
        load_checkpoint(tmp_path / "last.ckpt")
    assert "weights_only" not in str(caught.value)
