"""A disk that is full: every verb names the file it could not write, and leaves nothing beside it."""

import contextlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from cli_tables import write_csv

resource = pytest.importorskip("resource", reason="limits of a process are set as on Unix")


@contextlib.contextmanager
def files_of_at_most(size):
    """As on a disk on which there is room for so many bytes."""
    before, writes_no_bytecode = resource.getrlimit(resource.RLIMIT_FSIZE), sys.dont_write_bytecode
    # A module that is first imported here would leave half of its bytecode, at which later imports fail.
    sys.dont_write_bytecode = True
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        sys.dont_write_bytecode = writes_no_bytecode


@pytest.mark.drawn
def test_every_verb_names_the_file_that_does_not_fit(trained, edgewise, tmp_path):
    new = write_csv(tmp_path / "new.csv", {"id": ["x" * 500] * 4, "smiles": ["CCO", "CCN", "CCC", "CCCl"]})
    places = tmp_path / "out"
    places.mkdir()
    commands = [
        *((["predict", trained, new], f"predictions.{end}") for end in ("csv", "tsv", "parquet")),
        (["fingerprint", trained, new], "vectors.npz"),
        *((["explain", trained, "CCO"], f"page.{end}") for end in ("html", "svg", "png", "json")),
        (["simulate", "springs", "--num-trajectories", 2, "--num-steps", 100], "motion.npz"),
        (["simulate", "springs", "--num-trajectories", 2, "--num-steps", 100], "motion.csv"),
    ]
    for words, name in commands:
        with files_of_at_most(100):
            code, _, err = edgewise(*words, "-o", places / name)
        lines = err.splitlines()
        assert (code, len(lines)) == (2, 1), err
        assert str(places / name) in lines[0]
        assert list(places.iterdir()) == []
        assert edgewise(*words, "-o", places / name)[0] == 0, "with room for it, it is written"
        (places / name).unlink()
    run = Path(shutil.copytree(trained, tmp_path / "run"))
    assert edgewise("report", run)[0] == 0
    before = {path: path.read_bytes() for path in run.iterdir() if path.is_file()}
    with files_of_at_most(100):
        code, _, err = edgewise("report", run)
    assert (code, str(run / "report.html") in err) == (2, True)
    assert {path: path.read_bytes() for path in run.iterdir() if path.is_file()} == before


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")
def test_a_full_screen_is_one_line():
    words = [sys.executable, "-m", "edgewise", "simulate", "springs", "--num-trajectories", "1", "-o", "-"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(words, stdout=full, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
    assert done.returncode == 2
    assert done.stderr == "edgewise: error: the output cannot be written: No space left on device.\n"
