"""`edgewise demo`: built, trained, shown; then shown again."""

import json
import tomllib

import pytest

from cli_tables import SMALL, read_csv
from edgewise.cli import demo
from edgewise.explain.numbers import formatted


@pytest.mark.drawn
def test_demo_trains_on_unseen_scaffolds_and_says_what_it_is(edgewise, paste, tmp_path, monkeypatch):
    monkeypatch.setattr(demo, "NUM_ROWS", 120)
    small = {"epochs": 2, "model_dim": 8, "num_heads": 2, "num_layers": 1, "head_dim": 8}
    monkeypatch.setattr(demo, "SETTINGS", demo.SETTINGS | small)
    run = tmp_path / "demo"
    code, out, err = edgewise("demo", "-o", run)
    assert (code, err) == (0, "")
    assert "Crippen logP that RDKit computes, hydrogens included: a calculated property, not measured." in out
    assert "rmse" in out
    assert len(read_csv(run / "demo.csv")) == 120
    written = tomllib.loads((run / "config.toml").read_text())
    # The label is among RDKit's descriptors: the model must not see them.
    assert (written["split"], written["molecule-descriptors"]) == ("scaffold", False)
    assert json.loads((run / "metrics.json").read_text())["test"]["crippen_logp"]["num_rows"] > 0
    # What each atom adds is known: how well explanations find it is printed and saved.
    kept = json.loads((run / "metrics.json").read_text())["explanations"]
    assert set(kept["spearman"]) >= {"occlusion", "integrated gradients", "attention"}
    assert f"Explanations of {kept['num_molecules']} test molecules rank the atoms like that (Spearman):" in out
    assert all(-1 <= score <= 1 and formatted(score) in out for score in kept["spearman"].values())

    assert [words[1] for words in paste(out, *SMALL, "--no-baselines")] == ["predict", "train"]
    before = (run / "model.safetensors").stat().st_mtime_ns
    (tmp_path / "predictions.csv").unlink()
    (tmp_path / "mine").rename(tmp_path / "done")
    code, again, _ = edgewise("demo", "-o", run)
    assert code == 0
    assert again.startswith(f"The demo in {run} is done; --overwrite runs it again.")
    scores = out.rindex("crippen_logp: 12 test rows")
    assert out[scores:] == again[again.index("crippen_logp:") :]
    assert (run / "model.safetensors").stat().st_mtime_ns == before
    assert edgewise("demo", "-o", run, "--overwrite")[0] == 0
    assert (run / "model.safetensors").stat().st_mtime_ns > before


def test_an_interrupted_demo_continues(edgewise, tmp_path, monkeypatch):
    import edgewise.learn.tasks.run as job

    monkeypatch.setattr(demo, "NUM_ROWS", 60)
    small = {"epochs": 1, "model_dim": 8, "num_heads": 2, "num_layers": 1, "head_dim": 8, "split": "random"}
    monkeypatch.setattr(demo, "SETTINGS", demo.SETTINGS | small)
    original = job.fit

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(job, "fit", interrupted)
    assert edgewise("demo", "-o", tmp_path / "run")[0] == 130
    made = (tmp_path / "run/demo.csv").stat().st_mtime_ns
    monkeypatch.setattr(job, "fit", original)
    assert edgewise("demo", "-o", tmp_path / "run")[0] == 0
    assert (tmp_path / "run/demo.csv").stat().st_mtime_ns == made
