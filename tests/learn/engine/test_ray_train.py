"""Ray Train on a cluster of this machine: a killed worker is replaced, and the run ends as an undisturbed one."""

import os
import signal

import pytest

from edgewise.cli.main import main
from edgewise.cli.processes import work_in_ray
from edgewise.cli.train import parser_of
from edgewise.learn.engine.train import train
from edgewise.learn.training.folder import RunFolder

SMALL = ("--model-dim", "8", "--num-heads", "2", "--num-layers", "1", "--context", "16", "--batch-size", "4")
QUICK = ("--epochs", "4", "--eval-steps", "20", "--logger", "csv", "--no-memory-check", "--device", "cpu")


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("to be or not to be, that is the question\n" * 40)
    return path


@pytest.mark.nightly  # a cluster starts
@pytest.mark.filterwarnings("ignore")  # of Ray, about itself
def test_a_killed_worker_is_replaced_and_the_metrics_are_those_of_an_undisturbed_run(text, tmp_path, capfd):
    pytest.importorskip("ray.train")
    words = ["language", str(text), *SMALL, *QUICK]
    assert main(["train", *words, "-o", str(tmp_path / "whole"), "--devices", "2"]) == 0
    mark, run = tmp_path / "killed", tmp_path / "run"

    def work(given):  # travels by value: workers do not have this module
        from edgewise.learn.training.training import Training

        step = Training.train_step

        def dies(self, batch):
            step(self, batch)
            if self.step == 50 and not self.group.leads and not mark.exists():
                mark.touch()
                os.kill(os.getpid(), signal.SIGKILL)

        Training.train_step = dies
        return work_in_ray(given)

    given = vars(parser_of(words).parse_args([*words, "-o", str(run)]))
    given = {name: value for name, value in given.items() if name != "run"} | {"current_folder": str(tmp_path)}
    given |= {"read_limits": {}}
    assert train(work, given, run, 2, on_gpu=False) is None
    assert mark.exists()
    found, whole = (RunFolder(tmp_path / name) for name in ("run", "whole"))
    scores = [
        {name: value for name, value in folder.read_json("metrics.json").items() if "seconds" not in name}
        for folder in (found, whole)
    ]
    assert scores[0] == scores[1]
    assert (run / "model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "run", "text.txt", "whole"]


@pytest.mark.nightly  # a cluster starts
@pytest.mark.filterwarnings("ignore")  # of Ray, about itself
def test_an_error_of_a_training_is_printed_as_without_ray(text, tmp_path, capsys):
    pytest.importorskip("ray.train")
    words = ["train", "language", str(text), *SMALL, *QUICK, "-o", str(tmp_path / "runs/a"), "--context", "100000"]
    assert main(words) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    for count in ("1", "2"):
        assert main([*words, "--engine", "ray", "--num-workers", count]) == 2
        assert capsys.readouterr().err.splitlines()[-1] == message
    assert [path.name for path in tmp_path.iterdir()] == ["text.txt"]


@pytest.fixture
def alone(tmp_path, monkeypatch):
    """The variables of one process that is started as one of several."""
    environment = {"RANK": "0", "WORLD_SIZE": "1", "EDGEWISE_RENDEZVOUS": f"file://{tmp_path / 'rendezvous'}"}
    for name, value in environment.items():
        monkeypatch.setenv(name, value)


def test_a_worker_reads_within_the_limits_of_the_command(tmp_path, alone):
    table = tmp_path / "data.csv"
    table.write_text("smiles,y\n" + "".join(f"{'C' * n},{n}\n" for n in range(1, 30)))
    words = [
        "molecules",
        str(table),
        "--smiles-columns",
        "smiles",
        "--target-columns",
        "y",
        "-o",
        str(tmp_path / "run"),
    ]
    given = vars(parser_of(words).parse_args(words)) | {
        "current_folder": str(tmp_path),
        "read_limits": {"max_columns": 1},
    }
    assert "expected at most 1;" in work_in_ray({name: value for name, value in given.items() if name != "run"})


def test_the_limits_of_the_command_travel_to_the_workers(text, tmp_path, monkeypatch):
    given = []
    monkeypatch.setattr("edgewise.learn.engine.train.train", lambda work, flags, *_, **__: given.append(flags) or "no")
    assert (
        main(["train", "language", str(text), "-o", str(tmp_path / "a"), "--engine", "ray", "--max-columns", "7"]) == 2
    )
    assert given[0]["read_limits"]["max_columns"] == 7


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--num-workers", "2"], "--num-workers is a flag of --engine ray; add --engine ray, or drop it."),
        (["--ray-address", "localhost:1"], "--ray-address is a flag of --engine ray; add --engine ray, or drop it."),
        (["--engine", "ray", "--devices", "2"], "--devices cannot be used with --engine ray; use --num-workers."),
        (
            ["--devices", "2", "--num-workers", "2"],
            "--num-workers is a flag of --engine ray; add --engine ray, or drop it.",
        ),
        (["--strategy", "fsdp"], "--strategy is for several processes; set their number with --devices."),
    ],
)
def test_flags_that_contradict_each_other(text, words, message, capsys):
    assert main(["train", "language", str(text), *words]) == 2
    assert capsys.readouterr().err == f"edgewise: error: {message}\n"


def test_ray_is_not_started_by_torchrun(text, monkeypatch, capsys):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["train", "language", str(text), "--engine", "ray"]) == 2
    message = "--engine ray starts its workers itself; start edgewise without torchrun."
    assert capsys.readouterr().err == f"edgewise: error: {message}\n"


@pytest.mark.parametrize("words", [["--num-folds", "2"], ["--ensemble-size", "2"]])
def test_a_fold_is_trained_by_one_worker(tmp_path, words, capsys):
    table = tmp_path / "data.csv"
    table.write_text("smiles,y\nC,1\n")
    words = [str(table), "--smiles-columns", "smiles", "--target-columns", "y", *words, "--strategy", "ddp"]
    assert main(["train", "molecules", *words, "--engine", "ray"]) == 2
    assert capsys.readouterr().err == (
        "edgewise: error: --strategy cannot be used here: a Ray worker trains a whole fold or member; drop it.\n"
    )


@pytest.mark.parametrize("words", [["--num-workers", "2"], ["--ensemble-size", "2"]])
def test_a_folder_in_use_is_refused_before_a_cluster_starts(tmp_path, words, monkeypatch, capsys):
    table, run = tmp_path / "data.csv", tmp_path / "run"
    table.write_text("smiles,y\n" + "".join(f"{'C' * n},{n}\n" for n in range(1, 30)))
    words = [str(table), "--smiles-columns", "smiles", "--target-columns", "y", *words, "-o", str(run)]
    monkeypatch.setattr("edgewise.learn.engine.ray.import_ray", lambda: pytest.fail("Ray is asked for"))
    with RunFolder(run).locked():
        assert main(["train", "molecules", *words, "--engine", "ray"]) == 2
    assert f"{run} is in use by process {os.getpid()} on " in capsys.readouterr().err
