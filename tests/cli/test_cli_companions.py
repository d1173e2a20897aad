"""What stands beside the network of molecules: said, shown, scored alone, and left out on request."""

import json

import pytest

from cli_tables import SMALL, molecules, read_csv, write_csv

RUN = ["--smiles-columns", "smiles", "--target-columns", "y", *SMALL]


@pytest.fixture(scope="module", params=["regression", "classification"])
def run(request, tmp_path_factory):
    """A finished run, what it printed, its table, and the name of its companion."""
    from edgewise.cli.main import main

    folder = tmp_path_factory.mktemp(request.param)
    smiles = molecules()
    targets = [f"{len(text) + 0.25:.2f}" for text in smiles]
    if request.param == "classification":
        targets = ["yes" if "O" in text else "no" for text in smiles]
    table = write_csv(folder / "table.csv", {"smiles": smiles, "y": targets})
    assert main(["train", str(table), *map(str, RUN), "-o", str(folder / "run")]) == 0
    return folder / "run", table, {"regression": "gaussian-process", "classification": "forest"}[request.param]


def test_the_summary_and_metrics_say_what_predicts(run, edgewise):
    folder, _, companion = run
    metrics = json.loads((folder / "metrics.json").read_text())
    assert set(metrics["shares"]) == {"network", companion} and sum(metrics["shares"].values()) == pytest.approx(1)
    for split in ("test", "validation"):
        assert set(metrics["parts"][split]) == {"network", companion}
        for scores in metrics["parts"][split].values():
            assert scores["y"]["num_rows"] == metrics[split]["y"]["num_rows"]
    assert json.loads((folder / "model.json").read_text())["companions"].keys() == {companion}
    page, label = (folder / "report.html").read_text(), {"forest": "random forest"}.get(companion, "Gaussian process")
    assert "Predicted by: network (attention) " in page and f"{label} alone, test" in page


def test_parts_weighted_by_their_shares_are_the_prediction(run, edgewise, tmp_path):
    folder, table, companion = run
    code, _, _ = edgewise("predict", folder, table, "--show-parts", "-o", tmp_path / "shown.csv")
    assert code == 0
    shares = json.loads((folder / "metrics.json").read_text())["shares"]
    column = "y_pred" if companion == "gaussian-process" else "y_prob_yes"
    for row in read_csv(tmp_path / "shown.csv"):
        parts = {name: float(row[f"{column}_{name.replace('-', '_')}"]) for name in shares}
        assert sum(shares[name] * part for name, part in parts.items()) == pytest.approx(float(row[column]), rel=1e-5)
    code, _, _ = edgewise("predict", folder, table, "-o", tmp_path / "plain.csv")
    assert code == 0 and not any("network" in name for name in read_csv(tmp_path / "plain.csv")[0])


def test_none_is_the_network_alone(run, edgewise, tmp_path):
    _, table, _ = run
    code, out, _ = edgewise("train", table, *RUN, "--companions", "none", "-o", tmp_path / "alone")
    assert code == 0 and "predicted by: network (attention) 100%" in out
    metrics = json.loads((tmp_path / "alone/metrics.json").read_text())
    assert metrics["shares"] == {"network": 1.0} and "parts" not in metrics
    assert "companions" not in json.loads((tmp_path / "alone/model.json").read_text())


def test_a_companion_of_other_targets_is_refused(run, edgewise, tmp_path):
    _, table, companion = run
    other = "forest" if companion == "gaussian-process" else "gaussian-process"
    code, _, err = edgewise("train", table, *RUN, "--companions", other, "-o", tmp_path / "other")
    assert code == 2 and f"--companions {other} predicts" in err and "leave it out" in err
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(("words", "told"), [(["trees"], "'trees'"), (["none", "forest"], "none alone")])
def test_unknown_companions_are_refused(run, edgewise, tmp_path, words, told):
    _, table, _ = run
    code, _, err = edgewise("train", table, *RUN, "--companions", *words, "-o", tmp_path / "unknown")
    assert code == 2 and "--companions" in err and told in err
