"""Two processes train as one: the same gradients, the same weights, and checkpoints that open in either."""

import contextlib
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from edgewise.errors import SettingError
from edgewise.learn.training.distributed import connected
from edgewise.learn.training.loader import Idle, LengthLoader, RowLoader, Shard, WindowLoader

WORKER = Path(__file__).with_name("distributed_worker.py")


def run_both(folder, *words):
    """Runs two processes that meet in a file, so that no port is open; their exit codes and errors."""
    known = {"WORLD_SIZE": "2", "EDGEWISE_RENDEZVOUS": f"file://{folder}/rendezvous", "GLOO_SOCKET_IFNAME": "lo"}
    with contextlib.ExitStack() as stack:
        processes = []
        for rank in range(2):
            own = {**os.environ, **known, "RANK": str(rank), "LOCAL_RANK": str(rank), "OMP_NUM_THREADS": "1"}
            errors = stack.enter_context(open(folder / f"errors_{rank}.txt", "w"))
            process = stack.enter_context(subprocess.Popen([sys.executable, *words], env=own, stderr=errors))
            stack.callback(process.kill)
            processes.append(process)
        codes = [process.wait(timeout=200) for process in processes]
    return codes, "".join((folder / f"errors_{rank}.txt").read_text() for rank in range(2))


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What both processes found, by name."""
    folder = tmp_path_factory.mktemp("distributed")
    random = np.random.default_rng(1)
    smiles = ["C" * n + tail for n in range(1, 8) for tail in ("O", "N", "F", "C(=O)O")]
    rows = [f"{text},{random.normal():.3f}" for text in smiles]
    (folder / "molecules.csv").write_text("\n".join(["smiles,y", *rows]) + "\n")
    nodes = [f"{n},{random.normal():.3f},{random.normal():.3f}" for n in range(40)]
    (folder / "nodes.csv").write_text("\n".join(["node,a,y", *nodes]) + "\n")
    edges = [f"{a},{b}" for a, b in random.integers(0, 40, (150, 2))]
    (folder / "edges.csv").write_text("\n".join(["sender,receiver", *edges]) + "\n")
    lines = ["".join(random.choice(list("abcde "), 30)) for _ in range(60)]
    (folder / "text.txt").write_text("\n".join(lines))
    codes, errors = run_both(folder, str(WORKER), str(folder))
    assert codes == [0, 0], errors
    first, second = (json.loads((folder / f"found_{rank}.json").read_text()) for rank in range(2))
    assert {name: first[name] for name in second} == second, "both processes find the same"
    return first


@pytest.mark.parametrize("name", ["molecules", "sampled nodes", "language", "masked"])
def test_the_gradient_is_that_of_one_process_on_the_same_batch(found, name):
    assert found[f"gradient of {name}"] <= 1e-6


def test_steps_over_a_whole_graph_are_refused_and_one_process_says_why(found):
    """The other one ends without a message of its own, and no folder is left."""
    assert found["whole graph"] == (
        "SettingError: 2 processes cannot split this training: models of nodes compute the whole graph in every step; "
        "sample neighborhoods with --fanouts 15 10 --batch-size 1024."
    )


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_two_processes_train_as_one(found, strategy):
    assert found[f"{strategy} trains as one process"] <= 1e-5
    assert found[f"{strategy} losses"] <= 1e-5


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
@pytest.mark.parametrize("step", [3, 8])
def test_two_processes_that_were_ended_within_an_epoch_end_with_the_same_bits(found, strategy, step):
    assert found[f"{strategy} resumed at {step}"] is True


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
@pytest.mark.parametrize("ways", ["2 to 1", "1 to 2"])
def test_a_checkpoint_opens_in_another_number_of_processes(found, strategy, ways):
    assert found[f"{strategy} {ways}"] <= 1e-5


@pytest.mark.parametrize("size", [2, 3, 5])
def test_processes_share_each_batch_without_overlap(size):
    def loaders():
        yield RowLoader(np.arange(17), list, 4, seed=1)
        yield RowLoader(np.arange(17), list, 4)
        yield LengthLoader(np.arange(17) % 5 + 1, list, 12, seed=1)
        windows = WindowLoader(np.arange(100), 8, 4, 3, seed=1)
        windows.windows = list
        yield windows

    for number, loader in enumerate(loaders()):
        batches = list(loader)
        shares = []
        for rank in range(size):
            one = list(loaders())[number]
            one.shard = Shard(rank, size)
            shares.append([[] if isinstance(batch, Idle) else batch for batch in one])
        together = [sorted(itertools.chain(*each)) for each in zip(*shares, strict=True)]
        assert together == [sorted(batch) for batch in batches]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({}, "RANK and WORLD_SIZE are set, but MASTER_ADDR and MASTER_PORT are not; start the processes with torchrun"),
        ({"MASTER_ADDR": "localhost"}, "RANK and WORLD_SIZE are set, but MASTER_PORT is not; start the processes with"),
        ({"MASTER_ADDR": "localhost", "MASTER_PORT": "x"}, "variable MASTER_PORT is 'x', expected a number; start"),
        ({"EDGEWISE_RENDEZVOUS": "file:///x", "RANK": "first"}, "variable RANK is 'first', expected a number; start"),
        ({"EDGEWISE_RENDEZVOUS": "file:///x", "RANK": "2"}, "RANK is 2, expected less than WORLD_SIZE, 2; start"),
    ],
)
def test_variables_that_do_not_say_where_processes_meet_are_an_error(monkeypatch, variables, message):
    for name in ("MASTER_ADDR", "MASTER_PORT", "EDGEWISE_RENDEZVOUS", "LOCAL_RANK"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"RANK": "0", "WORLD_SIZE": "2", **variables}.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(SettingError, match=message), connected("ddp", "cpu"):
        pass
