"""Folds and members of ensembles in workers of Ray: what they train is what one process trains, also where one is
killed."""

import os
import signal

import pytest

from edgewise.errors import EdgewiseError, RunFolderError
from edgewise.learn.engine.workers import Workers
from edgewise.learn.tables import delimited
from edgewise.learn.tables.options import read_limits
from edgewise.learn.tasks import parts
from edgewise.learn.tasks.folds import CrossValidation
from edgewise.learn.tasks.registry import task
from edgewise.learn.tasks.run import Run
from edgewise.learn.training.folder import RunFolder

SMILES = ["C" * (1 + n % 5) + end for n in range(10) for end in ("O", "N", "c1ccccc1", "C(=O)O")]


class Here:
    """Workers that are this process."""

    def __init__(self):
        self.items = []

    def map(self, work, items, name):
        self.items += items
        return [work(item) for item in items]


@pytest.fixture
def job(tmp_path):
    """A function: the settings of a quick run."""
    path = tmp_path / "data.csv"
    path.write_text("smiles,y\n" + "".join(f"{text},{len(text) + 0.5}\n" for text in SMILES))

    def made(**settings):
        known = {"data": [str(path)], "smiles_columns": ["smiles"], "target_columns": ["y"], "baselines": False}
        sizes = {"model_dim": 8, "num_layers": 1, "epochs": 3, "logger": "csv", "device": "cpu", "threads": 1}
        return task("molecules").settings.of(known | sizes | settings, "the test")

    return made


def content(folder):
    """What a run wrote, without what depends on the time and on where it stands."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if name.endswith(".safetensors") or name.endswith("predictions.csv"):
            found[name] = path.read_bytes()
        elif name.endswith("metrics.csv"):
            found[name] = [line.rsplit(",", 1)[0] for line in path.read_text().splitlines()]
    scores = RunFolder(folder).read_json("metrics.json")
    return {name: scores[name] for name in ("test", "validation") if name in scores} | found


def run_of(job, path, workers=None, **how):
    run = Run.prepare(task("molecules"), job, RunFolder(path), **how)
    (run if workers is None else parts.train_members(workers, run)).finish()
    return content(path)


def folds_of(job, path, workers=None, **how):
    CrossValidation(task("molecules"), job, RunFolder(path)).finish(lambda run: None, workers=workers, **how)
    return content(path)


@pytest.mark.parametrize(
    ("finish", "settings", "count"), [(run_of, {"ensemble_size": 2}, 2), (folds_of, {"num_folds": 3}, 3)]
)
def test_workers_train_what_one_process_trains(job, tmp_path, finish, settings, count):
    settings, workers = job(**settings), Here()
    whole = finish(settings, tmp_path / "whole")
    assert any(name.endswith("model.safetensors") for name in whole)
    assert finish(settings, tmp_path / "run", workers) == whole
    assert len(workers.items) == count
    assert finish(settings, tmp_path / "run", Here(), overwrite=True) == whole
    with pytest.raises(RunFolderError, match="holds a"):
        finish(settings, tmp_path / "run", Here())


def test_what_is_trained_is_left_out_when_a_run_is_resumed(job, tmp_path):
    settings, workers = job(num_folds=2), Here()
    whole = folds_of(settings, tmp_path / "run", Here())
    (tmp_path / "run/metrics.json").unlink()
    (tmp_path / "run/fold_1/metrics.json").unlink()
    assert folds_of(settings, tmp_path / "run", workers, resume=True) == whole
    assert [item[-1].name for item in workers.items] == ["fold_1"]
    settings, workers = job(ensemble_size=2), Here()
    whole = run_of(settings, tmp_path / "models", Here())
    (tmp_path / "models/metrics.json").unlink()
    (tmp_path / "models/checkpoints/member_0/finished.ckpt").unlink()
    assert run_of(settings, tmp_path / "models", workers, resume=True) == whole
    assert [item[2] for item in workers.items] == [0]


@pytest.mark.parametrize(("finish", "settings"), [(run_of, {"ensemble_size": 2}), (folds_of, {"num_folds": 2})])
def test_workers_read_within_the_limits_of_the_caller(job, tmp_path, finish, settings, monkeypatch):
    class Elsewhere(Here):
        def map(self, work, items, name):
            with read_limits():  # those of a process that has just started
                return super().map(work, items, name)

    found, read = [], delimited.current_limits

    def noted():
        found.append(read().max_columns)
        return read()

    monkeypatch.setattr(delimited, "current_limits", noted)
    with read_limits(max_columns=40_000):
        finish(job(**settings), tmp_path / "run", Elsewhere())
    assert set(found) == {40_000}


def test_a_fold_that_another_process_trains_is_refused_before_a_worker_starts(job, tmp_path):
    workers = Here()
    with (
        RunFolder(tmp_path / "run/fold_1").locked(),
        pytest.raises(RunFolderError, match="fold_1 is in use by process"),
    ):
        parts.train_folds(
            *(workers, task("molecules"), [(None, RunFolder(tmp_path / f"run/fold_{n}")) for n in range(2)]),
            overwrite=False,
            resume=False,
        )
    assert workers.items == []


@pytest.mark.nightly  # clusters start
@pytest.mark.filterwarnings("ignore")  # of Ray, about itself
def test_killed_workers_are_replaced_and_nothing_else_changes(job, tmp_path, monkeypatch):
    pytest.importorskip("ray")
    mark = tmp_path / "killed"

    def dying(work, is_chosen):  # travels by value: workers do not have this module
        def wrapped(item):
            from edgewise.learn.training.training import Training

            step = Training.train_step

            def dies(self, batch):
                step(self, batch)
                if self.step == 2 and is_chosen(item) and not mark.exists():
                    mark.touch()
                    os.kill(os.getpid(), signal.SIGKILL)

            Training.train_step = dies
            return work(item)

        return wrapped

    monkeypatch.setattr(parts, "_member", dying(parts._member, lambda item: item[2] == 1))
    monkeypatch.setattr(parts, "_fold", dying(parts._fold, lambda item: item[-1].name == "fold_1"))
    for name, finish, settings in (("models", run_of, {"ensemble_size": 2}), ("folds", folds_of, {"num_folds": 2})):
        whole = finish(job(**settings), tmp_path / f"{name}_whole")
        mark.unlink(missing_ok=True)
        assert finish(job(**settings), tmp_path / name, Workers(2)) == whole
        assert mark.exists()


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_results_come_in_order_and_errors_are_those_of_the_work(tmp_path):
    pytest.importorskip("ray")

    def work(number):
        import time

        from edgewise.errors import SettingError

        time.sleep(0.1 * (3 - number) * (number < 3))
        if number == 7:
            raise SettingError("7 is too much.")
        if number == 9:
            os._exit(1)
        return 10 * number

    workers = Workers(2)
    assert workers.map(work, [], "counting") == []
    assert workers.map(work, [0, 1, 2, 3], "counting") == [0, 10, 20, 30]
    with pytest.raises(EdgewiseError, match=r"^7 is too much\.$"):
        workers.map(work, [7, 0], "counting")
    with pytest.raises(EdgewiseError, match=r"^counting in 2 Ray workers failed: "):
        workers.map(work, [9, 0], "counting")
