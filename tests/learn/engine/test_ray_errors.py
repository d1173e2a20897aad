"""Errors of Ray and of its workers, without a cluster: each is one of ours, and says what to do."""

import contextlib
import errno
import pickle
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


@pytest.mark.filterwarnings("ignore")  # of Ray, about itself
def test_a_training_that_fails_in_ray_is_one_line(monkeypatch, tmp_path):
    pytest.importorskip("ray.train")
    import ray.train
    import ray.train.torch

    from edgewise.learn.engine.train import train

    def fit(self):
        raise ray.train.TrainingFailedError("a long report\nof the last worker\n")

    monkeypatch.setattr("edgewise.learn.engine.train.cluster", lambda *_, **__: contextlib.nullcontext())
    monkeypatch.setattr(ray.train.torch.TorchTrainer, "__init__", lambda self, *_, **__: None)
    monkeypatch.setattr(ray.train.torch.TorchTrainer, "fit", fit)
    with pytest.raises(EdgewiseError, match=r"^the training in 2 Ray workers failed: of the last worker$"):
        train(lambda given: None, {}, tmp_path / "run", 2, on_gpu=False)
    assert list(tmp_path.iterdir()) == []
