"""What only a process of its own can show: start-up, what is imported, signals."""

import io
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cli_tables import SMALL, molecules, write_csv
from edgewise.cli import processes
from edgewise.cli.main import main
from edgewise.errors import EdgewiseError, SettingError
from edgewise.learn.training.checkpoint import latest
from edgewise.learn.training.folder import RunFolder

HEAVY = ("torch", "lightning", "rdkit", "pandas", "sklearn", "numba")


def python(code: str, *words: object) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code, *map(str, words)], capture_output=True, text=True, check=False, timeout=120
    )


def command(*words: object) -> list[str]:
    return [sys.executable, "-m", "edgewise.cli.main", *map(str, words)]


@pytest.mark.parametrize("words", [["--help"], ["train", "--help"], ["predict", "--help"], ["demo", "--help"]])
def test_help_imports_nothing_heavy(words):
    code = (
        "import sys\nfrom edgewise.cli.main import main\n"
        "try:\n    main(sys.argv[1:])\nexcept SystemExit as stop:\n    assert stop.code == 0\n"
        f"print('HEAVY', [name for name in {HEAVY} if name in sys.modules])"
    )
    done = python(code, *words)
    assert done.stdout.endswith("HEAVY []\n"), done
    assert "--help" in done.stdout


def test_help_answers_in_under_a_second():
    times = []
    for _ in range(3):
        began = time.perf_counter()
        subprocess.run(command("--help"), check=True, capture_output=True)
        times.append(time.perf_counter() - began)
    assert min(times) < 1


def test_no_command_imports_what_takes_seconds_and_is_not_used(tmp_path):
    """Lightning, and what it imports where it is installed, take longer to import than many a training takes."""
    smiles = molecules()
    data = write_csv(tmp_path / "data.csv", {"smiles": smiles, "y": [len(text) for text in smiles]})
    code = (
        "import sys\nfrom edgewise.cli.main import main\nfolder, data, *words = sys.argv[1:]\n"
        "commands = [['train', data, *words, '-o', folder]]\n"
        "commands += [[verb, folder, data, '-o', f'{folder}/{out}'] for verb, out in"
        " (('predict', 'out.csv'), ('fingerprint', 'out.npz'))]\n"
        "unused = {'lightning', 'pytorch_lightning', 'torchmetrics', 'transformers', 'torchvision', 'torchaudio'}\n"
        "for words in commands:\n"
        "    assert main(words) == 0\n"
        "    assert not {name.split('.')[0] for name in sys.modules} & unused, words[0]\n"
        "    assert 'torch._dynamo' not in sys.modules, words[0]\n"
    )
    done = python(code, tmp_path / "run", data, "--smiles-columns", "smiles", "--target-columns", "y", *SMALL)
    assert done.returncode == 0, done
    # No fixture reaches into it: its forest grew in a process of its own.
    assert "forest" in json.loads((tmp_path / "run/metrics.json").read_text())["baselines"]


EPOCHS = 20
"""Epochs of each of two members: enough that a run is still training when it is interrupted."""


def test_ctrl_c_then_kill_then_resume_ends_with_the_same_weights(tmp_path):
    """Interrupted twice, by Ctrl-C and by SIGKILL, and continued: the weights of a run left alone, bit for bit."""
    smiles = molecules()
    data = write_csv(tmp_path / "data.csv", {"smiles": smiles, "y": [len(text) for text in smiles]})
    words = ["train", data, "--smiles-columns", "smiles", "--target-columns", "y", *SMALL, "--no-baselines"]
    words += ["--epochs", str(EPOCHS), "--batch-size", "8", "--ensemble-size", "2", "--patience", "100"]
    assert main([str(word) for word in [*words, "-o", tmp_path / "whole"]]) == 0
    run = tmp_path / "run"

    first = start([*words, "-o", run])
    wait_for_epochs(first, run, 3)
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=60)
    assert first.returncode == 130, (out, err)
    # On a slow machine lines of progress stand above it.
    assert err.splitlines()[-1] == f"edgewise: interrupted; continue with: edgewise train --resume -o {run}"
    assert "Traceback" not in out + err
    assert not (run / "metrics.json").exists()
    done = num_epochs(run)

    second = start(["train", "--resume", "-o", run])
    wait_for_epochs(second, run, EPOCHS + 3)
    seconds = (run / "logs/metrics.csv").read_text().splitlines()[1 : 1 + done]
    second.send_signal(signal.SIGKILL)
    second.communicate(timeout=60)
    assert not (run / "metrics.json").exists()

    assert main(["train", "--resume", "-o", str(run)]) == 0
    assert (run / "model.safetensors").read_bytes() == (tmp_path / "whole/model.safetensors").read_bytes()
    lines = (run / "logs/metrics.csv").read_text().splitlines()
    # The measured seconds of an epoch would differ if it had been run again.
    assert lines[1 : 1 + done] == seconds
    assert len(lines) == 1 + 2 * EPOCHS
    ours, whole = (json.loads((folder / "metrics.json").read_text()) for folder in (run, tmp_path / "whole"))
    assert ours["test"] == whole["test"]


def start(words: list) -> subprocess.Popen:
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        command(*words),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        # A shell lets what it runs in the background ignore Ctrl-C, and so would this process.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


def num_epochs(run) -> int:
    log = run / "logs/metrics.csv"
    return len(log.read_text().splitlines()) - 1 if log.exists() else 0


def wait_for_epochs(process: subprocess.Popen, run, count: int) -> None:
    limit = time.monotonic() + 90
    while num_epochs(run) < count:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < limit
        time.sleep(0.002)


def test_a_killed_process_ends_the_others_and_the_run_is_resumed(tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("to be or not to be, that is the question\n" * 40)
    small = ["--model-dim", "8", "--num-heads", "2", "--num-layers", "1", "--context", "16", "--batch-size", "4"]
    run, limits = tmp_path / "run", ["--steps", "9000", "--eval-steps", "100", "--logger", "csv", "--no-memory-check"]
    process = start(["train", "language", text, *small, *limits, "-o", run, "--devices", "2"])
    wait_for_epochs(process, run, 2)
    (children,) = Path(f"/proc/{process.pid}/task").glob("*/children")
    ranks = [int(child) for child in children.read_text().split()]
    began = time.monotonic()
    os.kill(ranks[1], signal.SIGKILL)
    _, err = process.communicate(timeout=60)
    assert time.monotonic() - began < 10, "a run of several processes ends within seconds"
    assert process.returncode == 2
    again = f"edgewise train --resume -o {run} --devices 2"
    # A process that is ended may leave a line of its progress unfinished.
    assert err.splitlines()[-1].endswith(
        "edgewise: error: process 1 of 2 was killed (SIGKILL), and the others were ended; continue from the last "
        f"checkpoint: {again}"
    )
    assert "Traceback" not in err
    assert not any(Path(f"/proc/{rank}").exists() for rank in ranks)
    config = run / "config.toml"
    assert "devices" not in config.read_text(), "how many processes there are is no setting of the run"
    assert latest(run / "checkpoints/member_0") is not None
    assert list(run.rglob("*.part")) == []


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--devices", "0"], "is not a positive integer"),
        (["--num-nodes", "2"], "--num-nodes needs MASTER_ADDR, MASTER_PORT, NODE_RANK: "),
    ],
)
def test_processes_that_cannot_be_started(words, message, capsys):
    try:
        code = main(["train", "nodes", "nodes.csv", *words])
    except SystemExit as ended:  # a word that is not a number
        code = ended.code
    assert (code, message in capsys.readouterr().err) == (2, True)


@pytest.mark.parametrize("flag", ["--devices", "--num-nodes"])
def test_processes_are_not_started_in_one_of_several(flag, monkeypatch, capsys):
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert main(["train", "nodes", "nodes.csv", flag, "2"]) == 2
    assert capsys.readouterr().err == (
        f"edgewise: error: {flag} starts processes, but RANK and WORLD_SIZE are set, as in a process of torchrun; "
        "leave it out, or unset RANK and WORLD_SIZE.\n"
    )


@pytest.mark.parametrize("source", ["flag", "file", "resumed run"])
def test_processes_meet_on_the_device_of_the_configuration(source, tmp_path, monkeypatch):
    """Only that of a flag was read: processes with device = "cpu" in a file met on GPUs that were not there."""
    run, flags = tmp_path / "run", {"data": ["data.csv"], "output_dir": str(tmp_path / "run")}
    if source == "flag":
        flags["device"] = "cpu"
    elif source == "file":
        (tmp_path / "config.toml").write_text('device = "cpu"')
        flags["config_path"] = str(tmp_path / "config.toml")
    else:
        folder = RunFolder(run)
        folder.begin()
        folder.write_config({"data": ["data.csv"], "device": "cpu"})
        flags = {"output_dir": str(run), "resume": True}
    devices = []

    def connected(strategy, device):
        devices.append(device)
        raise SettingError("far enough")

    handler = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("edgewise.learn.training.distributed.connected", connected)
    try:
        with pytest.raises(SettingError, match="far enough"):
            processes.run_as_member(flags)
    finally:
        signal.signal(signal.SIGTERM, handler)
    assert devices == ["cpu"]
    assert "--device" not in processes.resume_command(flags).replace("--devices", ""), "the run knows it"


def test_ray_takes_the_device_of_a_configuration_file(tmp_path, monkeypatch):
    (tmp_path / "config.toml").write_text('device = "cpu"')
    (tmp_path / "data.csv").write_text("text,y\na b,1\n")
    on_gpu = []

    def train(*_, **options):
        on_gpu.append(options["on_gpu"])
        return "far enough"

    monkeypatch.setattr("edgewise.learn.engine.train.train", train)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    flags = {"data": [str(tmp_path / "data.csv")], "task": "texts", "text_columns": ["text"], "target_columns": ["y"]}
    for more in ({"config_path": str(tmp_path / "config.toml")}, {}, {"device": "cpu"}):
        with pytest.raises(EdgewiseError, match="far enough"):
            processes.run_in_ray(flags | more | {"output_dir": str(tmp_path / "run")})
    assert on_gpu == [False, True, False]


class ClosedOutput(io.StringIO):
    """A pipe whose reader has gone, which is noticed when it is written to, or only at the end."""

    def __init__(self, *, at_end):
        super().__init__()
        self.at_end = at_end

    def write(self, text):
        if not self.at_end:
            raise BrokenPipeError
        return len(text)

    def flush(self):
        raise BrokenPipeError


def test_a_training_whose_reader_goes_away_is_not_taken_for_finished(tmp_path, monkeypatch):
    """As `edgewise train … | head -1`: the exit code is that of a program that SIGPIPE ends."""
    data = write_csv(tmp_path / "edges.csv", {"a": list("abcd") * 5, "b": list("bcda") * 5, "y": range(20)})
    monkeypatch.setattr(sys, "stdout", ClosedOutput(at_end=False))
    assert main(["train", "edges", str(data), "--target-columns", "y", "-o", str(tmp_path / "run")]) == 141
    assert not (tmp_path / "run/model.json").exists()
    monkeypatch.setattr(sys, "stdout", ClosedOutput(at_end=True))
    assert main(["defaults", "nodes"]) == 0, "all was done"


def test_a_reader_that_goes_away_ends_a_prediction_quietly(trained, tmp_path):
    data = write_csv(tmp_path / "many.csv", {"smiles": ["CCO"] * 2000, "note": ["more than a pipe holds" * 9] * 2000})
    streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    # Without a buffer, Python drops the rest of a long text that the reader did not take, and says nothing.
    environment = {**os.environ, "PYTHONUNBUFFERED": ""}
    process = subprocess.Popen(command("predict", trained, data, "-o", "-"), **streams, env=environment)
    process.stdout.readline()
    process.stdout.close()
    with process.stderr:
        err = process.stderr.read()
    assert (process.wait(timeout=60), "Traceback" in err, "Broken" in err) == (141, False, False)


def test_version_and_no_verb(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("edgewise ")
    assert main([]) == 2


def test_a_table_has_the_defaults_of_every_task():
    from edgewise.cli.defaults import table_of_defaults
    from edgewise.learn.tasks.registry import settings_of

    lines = [line.split() for line in table_of_defaults().splitlines()[1:]]
    names, rows = lines[0], {line[0]: line[1:] for line in lines[1:]}
    rates = dict(zip(names, rows["--learning-rate"], strict=True))
    assert float(rates["language"]) == settings_of("language").of({"data": ["a.txt"]}).train.learning_rate
    assert float(rates["nodes"]) == settings_of("nodes").of({"data": ["a.csv"]}).train.learning_rate
    assert dict(zip(names, rows["--dropout"], strict=True))["molecules"] == "-", "it has four of its own"
