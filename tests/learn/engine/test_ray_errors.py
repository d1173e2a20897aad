"""Errors of Ray and of its workers, without a cluster: each is one of ours, and says what to do."""

import contextlib
import errno
import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgewise.errors import DataError, EdgewiseError, MissingExtraError, SettingError, WriteError
from edgewise.learn.engine import ray as engine
from edgewise.learn.engine.ray import WorkerError, cluster
from edgewise.learn.engine.workers import Workers


class Cluster:
    """A package `ray` whose workers are this process."""

    exceptions = SimpleNamespace(RayError=ZeroDivisionError)

    def __init__(self, error=None):
        self.error, self.ended = error, 0

    def is_initialized(self):
        return False

    def init(self, **_):
        if self.error is not None:
            raise self.error

    def shutdown(self):
        self.ended += 1

    def cancel(self, *_, **__):
        pass


@pytest.mark.parametrize("error", [TimeoutError("slow"), RuntimeError("no"), ValueError("bad\n\n")])
def test_whatever_ray_raises_at_its_start_says_what_to_do(monkeypatch, error):
    ray, reason = Cluster(error), str(error).strip()
    monkeypatch.setattr(engine, "import_ray", lambda: ray)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    with pytest.raises(EdgewiseError) as found, cluster():
        pass
    assert str(found.value) == (
        f"Ray could not start on this machine ({reason}); end what is left of other clusters with: ray stop; or use "
        "--engine local."
    )
    ending = f" is host:1, but no Ray cluster answers there ({reason}); start one with: ray start --head."
    with pytest.raises(SettingError) as found, cluster("host:1"):
        pass
    assert str(found.value) == f"--ray-address{ending}"
    monkeypatch.setenv("RAY_ADDRESS", "host:1")
    with pytest.raises(SettingError) as found, cluster():
        pass
    assert str(found.value) == f"the environment variable RAY_ADDRESS{ending}"
    assert ray.ended == 3, "half a cluster would stay"


def test_ctrl_c_at_the_start_is_no_error_of_ray(monkeypatch):
    monkeypatch.setattr(engine, "import_ray", lambda: Cluster(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt), cluster():
        pass


@pytest.mark.parametrize(
    "error",
    [
        DataError("a.csv, line 2: no number."),
        MissingExtraError("rdkit", "molecules"),
        WriteError("out", OSError(errno.ENOSPC, "No space left on device")),
    ],
)
def test_errors_of_workers_keep_their_type_and_message(monkeypatch, error):
    restored = pickle.loads(pickle.dumps(WorkerError.from_error(error))).to_error()
    assert (type(restored), str(restored)) == (type(error), str(error))

    def work(_):
        raise error

    class Here(Cluster):
        def remote(self, **_):
            return lambda carried: SimpleNamespace(remote=lambda *given: pickle.dumps(carried(*given)))

        def wait(self, running):
            return running, []

        def get(self, each):
            return pickle.loads(each)

    monkeypatch.setattr(engine, "import_ray", Here)
    with pytest.raises(type(error)) as found:
        Workers().map(work, [1], "working")
    assert str(found.value) == str(error)


@pytest.fixture
def trainer(monkeypatch):
    """Ray's trainer without a cluster: its `fit` calls the loop in this process, and again where it fails."""
    pytest.importorskip("ray.train")
    import ray.train
    import ray.train.torch

    class Trainer:
        attempts = 0

        def __init__(self, loop, *, train_loop_config, run_config, **_):
            self.loop, self.config, self.storage = loop, train_loop_config, Path(run_config.storage_path)

        def fit(self):
            (self.storage / "state").write_text("of Ray")
            for _ in range(3):
                Trainer.attempts += 1
                try:
                    self.loop(self.config)
                except RuntimeError as error:
                    last = error
                else:
                    return SimpleNamespace(metrics=None, return_value=None)
            raise ray.train.TrainingFailedError(f"a long report\n{last}\n")

    monkeypatch.setattr("edgewise.learn.engine.train.cluster", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(ray.train.torch, "TorchTrainer", Trainer)
    return Trainer


def lost(_):
    raise RuntimeError("of the last worker")


@pytest.mark.filterwarnings("ignore")  # of Ray, about itself
def test_a_training_that_fails_in_ray_is_one_line(trainer, tmp_path):
    from edgewise.learn.engine.train import train

    with pytest.raises(EdgewiseError, match=r"^the training in 2 Ray workers failed: of the last worker$"):
        train(lost, {}, tmp_path / "run", 2, on_gpu=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("num_workers", "attempts"), [(1, 1), (2, 2)])
def test_the_message_of_any_worker_arrives_and_it_is_not_tried_again(trainer, tmp_path, num_workers, attempts):
    from edgewise.learn.engine.train import train

    calls = []
    message = train(lambda given: calls.append(given) or "no — column", 7, tmp_path / "run", num_workers, on_gpu=False)
    assert (message, calls, trainer.attempts) == ("no — column", [7], attempts)
    assert train(lambda given: None, 7, tmp_path / "run", num_workers, on_gpu=False) is None
    assert list(tmp_path.iterdir()) == []


@pytest.mark.filterwarnings("ignore")
def test_a_training_in_ray_removes_only_what_it_wrote(trainer, tmp_path):
    from edgewise.learn.engine.train import train

    beside = tmp_path / "run.ray"
    beside.mkdir()
    (beside / "notes").write_text("precious")
    train(lambda given: None, {}, tmp_path / "run", 1, on_gpu=False)
    assert (beside / "notes").read_text() == "precious"
    assert list(tmp_path.iterdir()) == [beside]
