"""`edgewise simulate`: what it writes, and says."""

import json

import numpy as np
import pandas as pd
import pytest

from cli_tables import read_csv
from edgewise.cli.simulate import DEFAULTS
from edgewise.learn.readers.motion.dynamics import SYSTEMS


def test_every_system_is_offered():
    assert tuple(DEFAULTS) == SYSTEMS


@pytest.mark.parametrize("system", ["nbody", "springs", "charges"])
def test_an_archive(system, edgewise, tmp_path):
    words = ["--num-trajectories", 3, "--num-bodies", 4, "--num-steps", 200, "--keep-every", 50, "--space-dim", 2]
    code, out, err = edgewise("simulate", system, *words, "-o", tmp_path / "data.npz")
    assert (code, out) == (0, "")
    assert err.startswith("3 trajectories of 4 bodies, 5 moments up to time ")
    assert "energy drift: " in err
    with np.load(tmp_path / "data.npz") as found:
        assert found["positions"].shape == found["velocities"].shape == (3, 5, 4, 2)
        assert found["energies"].shape == (3, 5)
        assert found["masses"].shape == found["charges"].shape == (3, 4)
        assert found["couplings"].shape == (3, 4, 4)
        assert json.loads(str(found["units"]))["time"] == "1"
        first = found["positions"]
    edgewise("simulate", system, *words, "-o", tmp_path / "same.npz")
    edgewise("simulate", system, *words, "--seed", 1, "-o", tmp_path / "other.npz")
    with np.load(tmp_path / "same.npz") as same, np.load(tmp_path / "other.npz") as other:
        np.testing.assert_array_equal(same["positions"], first)
        assert not np.allclose(other["positions"], first)


def test_the_solar_system_has_units_in_every_column(edgewise, tmp_path):
    words = ["--num-steps", 100, "--keep-every", 50]
    code, _, err = edgewise("simulate", "solar", *words, "-o", tmp_path / "solar.csv")
    assert (code, err.splitlines()[0]) == (
        0, f"1 trajectory of 9 bodies, 3 moments up to time 100 days: {tmp_path}/solar.csv"
    )  # fmt: skip
    rows = read_csv(tmp_path / "solar.csv")
    assert list(rows[0]) == [
        "trajectory", "time_day", "body", "x_au", "y_au", "z_au", "vx_au_per_day", "vy_au_per_day", "vz_au_per_day",
        "mass_solar",
    ]  # fmt: skip
    assert [row["body"] for row in rows[:3]] == ["sun", "mercury", "venus"]
    assert [row["time_day"] for row in rows[::9]] == ["0.0", "50.0", "100.0"]
    edgewise("simulate", "solar", *words, "-o", tmp_path / "solar.parquet")
    assert len(pd.read_parquet(tmp_path / "solar.parquet")) == 27
    code, out, _ = edgewise("simulate", "charges", "--num-steps", 1, "--keep-every", 1, "-o", "-")
    assert out.splitlines()[0] == "trajectory,time,body,x,y,z,vx,vy,vz,mass,charge"


def test_bodies_that_nearly_meet_are_said(edgewise, tmp_path):
    code, _, err = edgewise("simulate", "charges", "--time-step", 0.05, "--num-steps", 400, "-o", tmp_path / "d.npz")
    assert (code, "trajectories drift by more than 1 %: bodies nearly met; a smaller --time-step may help" in err) == (
        0, True
    )  # fmt: skip


def test_bad_words(edgewise, tmp_path):
    for words, message in [
        (["nbody", "-o", tmp_path / "data.txt"], "expected a name that ends in .npz, .csv"),
        (["nbody", "--num-bodies", 1, "-o", tmp_path / "data.npz"], "--num-bodies 1"),
        (["nbody", "--time-step", -1, "-o", tmp_path / "data.npz"], "--time-step -1"),
        (["solar", "--num-bodies", 3, "-o", tmp_path / "data.npz"], "leave out --num-trajectories"),
        (["comets", "-o", tmp_path / "data.npz"], "invalid choice: 'comets'"),
        (["nbody", "-o", tmp_path / "none" / "data.npz"], "is not a folder"),
    ]:
        code, out, err = edgewise("simulate", *words)
        assert (code, out) == (2, ""), words
        assert message in err
    (tmp_path / "data.npz").write_bytes(b"kept")
    code, _, err = edgewise("simulate", "nbody", "-o", tmp_path / "data.npz")
    assert (code, "exists already" in err, (tmp_path / "data.npz").read_bytes()) == (2, True, b"kept")
