"""`edgewise report`: which pictures, what stands on the page, what is refused."""

import re

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytestmark = pytest.mark.drawn


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A run that predicts accelerations of planets, and one that predicts positions of springs."""
    from edgewise.cli.main import main

    folder = tmp_path_factory.mktemp("report")
    pulls = ["--target-quantity", "accelerations"]
    small = ["--horizon", "1", "--epochs", "1", "--num-layers", "1", "--model-dim", "8"]
    data = {name: str(folder / f"{name}.npz") for name in ("solar", "springs")}
    few = ["--num-trajectories", "10", "--num-steps", "300", "--space-dim", "2"]
    for words in (
        ["simulate", "solar", "--num-steps", "600", "-o", data["solar"]],
        ["simulate", "springs", *few, "-o", data["springs"]],
        [
            "train",
            data["solar"],
            *pulls,
            "--epochs",
            "2",
            "-o",
            str(folder / "accelerations"),
        ],
        ["train", data["springs"], *small, "-o", str(folder / "positions")],
        ["train", data["springs"], *small, "--split-sizes", "0.8", "0.2", "0", "-o", str(folder / "untested")],
    ):
        assert main(words) == 0
    return folder


def test_accelerations_are_drawn_as_orbits_distances_and_a_force(runs, edgewise):
    run = runs / "accelerations"
    code, out, err = edgewise("report", run)
    assert (code, err) == (0, "")
    assert out == f"orbits.svg and .png, apart.svg and .png, force.svg and .png; all on {run}/report.html\n"
    for name in ("orbits", "apart", "force"):
        assert (run / f"{name}.png").read_bytes().startswith(b"\x89PNG")
        assert "</svg>" in (run / f"{name}.svg").read_text()
    page = (run / "report.html").read_text()
    assert page.count("<svg") == page.count("</svg>") == 4, "and the losses"
    for words in (
        "<h1>accelerations: moving bodies</h1>",
        "<td>nothing pulls</td>",
        "Force of sun on jupiter, from 0.",
        "1 test trajectory let run by it for 11 moments, a time of 110 day: ",
        "solar.npz",
    ):
        assert words in page
    first = (run / "orbits.svg").read_bytes()
    assert edgewise("report", run)[0] == 0
    assert (run / "orbits.svg").read_bytes() == first, "the same picture is the same file"


def test_positions_are_drawn_where_they_were_predicted(runs, edgewise):
    run = runs / "positions"
    code, out, _ = edgewise("report", run)
    assert (code, out) == (0, f"orbits.svg and .png; all on {run}/report.html\n")
    page = (run / "report.html").read_text()
    assert re.findall("<h2>(.*?)</h2>", page) == ["Scores", "Training", "Orbits", "Settings"]
    assert "Each time step is predicted from an earlier one." in page
    assert not (run / "force.svg").exists()


@pytest.mark.parametrize("quantity", ["positions", "accelerations"])
def test_bodies_on_a_line_and_names_with_signs_of_formulas(edgewise, tmp_path, quantity):
    times = np.arange(60.0)
    angles = times[:, None, None] / 9 + np.arange(3)[:, None]
    data = tmp_path / "line.npz"
    arrays = {"positions": np.sin(angles), "velocities": np.cos(angles) / 9}
    np.savez(data, **{name: values[None] for name, values in arrays.items()}, times=times, names=["$x^$", "_sun", "b"])
    small = ["--horizon", 1, "--num-layers", 1, "--model-dim", 8] if quantity == "positions" else []
    words = ["--target-quantity", quantity, "--epochs", 1, *small]
    code, out, err = edgewise("train", "motion", data, *words, "-o", tmp_path / "run")
    assert code == 0, err
    assert f"The report is {tmp_path / 'run'}/report.html." in out
    assert edgewise("report", tmp_path / "run")[0] == 0
    page = (tmp_path / "run/report.html").read_text()
    assert ">$x^$<" in page.replace(" ", "") or "$x^$" in page


def test_what_is_begun_again_leaves_no_old_picture(runs, edgewise, tmp_path):
    words = ["train", runs / "springs.npz", "--horizon", 1, "--epochs", 1, "--num-layers", 1, "--model-dim", 8]
    assert edgewise(*words, "-o", tmp_path / "run")[0] == 0
    assert edgewise("report", tmp_path / "run")[0] == 0
    (tmp_path / "run/report.html").write_text("old")
    assert edgewise(*words, "-o", tmp_path / "run", "--overwrite")[0] == 0
    left = {path.name for path in (tmp_path / "run").iterdir()}
    assert not left & {"orbits.svg", "orbits.png"}
    assert "Each time step is predicted from an earlier one." in (tmp_path / "run/report.html").read_text()


def test_bodies_that_were_not_tested_have_no_orbits(runs, edgewise):
    run = runs / "untested"
    assert edgewise("report", run)[1] == f"{run}/report.html\n"
    headings = re.findall("<h2>(.*?)</h2>", (run / "report.html").read_text())
    assert headings == ["Scores", "Training", "Data", "Settings"]


def test_what_is_refused(edgewise, tmp_path):
    code, out, err = edgewise("report", tmp_path / "none")
    assert (code, out) == (2, "")
    assert "is not a run folder" in err
