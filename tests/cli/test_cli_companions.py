"""Companions beside a network: printed, shown, scored alone, and left out on request."""

import json

import pytest

from cli_tables import SMALL, molecules, read_csv, write_csv

MOLECULES = ["--smiles-columns", "smiles", "--target-columns", "y", *SMALL]
TEXTS = ["--text-columns", "text", "--target-columns", "y", "--epochs", 2, "--model-dim", 8, "--num-heads", 2]
NEW_MOLECULES = [*MOLECULES, "--descriptors-columns", "heat", "--split", "group", "--group-column", "name"]
LABELS = {
    "forest": "random forest",
    "gaussian-process": "Gaussian process",
    "structure-network": "network without descriptors",
    "word-counts": "word counts",
}
TABLES = {
    "numbers of molecules": "gaussian-process",
    "numbers of new molecules": "structure-network",
    "classes of molecules": "forest",
    "numbers of texts": "word-counts",
    "classes of texts": "word-counts",
}
"""Each kind of table, and what stands beside its network."""


def columns_of(kind):
    """The columns of a table."""
    if "molecules" in kind:
        smiles = molecules()
        numbers, classes = [len(text) + 0.25 for text in smiles], ["yes" if "O" in text else "no" for text in smiles]
        columns = {"smiles": smiles}
        if "new" in kind:
            heat = [number % 9 for number in range(9 * len(smiles))]
            smiles = [text for text in smiles for _ in range(9)]
            numbers = [len(text) + number / 4 for text, number in zip(smiles, heat, strict=True)]
            columns = {"smiles": smiles, "name": smiles, "heat": heat}
    else:
        words, rows = ["fine", "great", "dull", "weak"], range(60)
        numbers, classes = [row % 4 + row % 7 / 10 for row in rows], [("yes", "no")[row % 4 // 2] for row in rows]
        columns = {"text": [f"a {words[row % 4]} film of {row % 7} hours" for row in rows]}
    return columns | {"y": [f"{number:.2f}" for number in numbers] if "numbers" in kind else classes}


@pytest.fixture(scope="module", params=TABLES)
def run(request, tmp_path_factory):
    """A finished run, its table, the name of its companion, and the flags of its table."""
    from edgewise.cli.main import main

    folder = tmp_path_factory.mktemp(request.param.replace(" ", "_"))
    table, flags = write_csv(folder / "table.csv", columns_of(request.param)), TEXTS
    if "molecules" in request.param:
        flags = NEW_MOLECULES if "new" in request.param else MOLECULES
    assert main(["train", str(table), *map(str, flags), "-o", str(folder / "run")]) == 0
    return folder / "run", table, TABLES[request.param], flags


def name_of(flags):
    """The network that is trained with these flags."""
    return "transformer" if flags is TEXTS else "attention"


def test_the_summary_and_metrics_say_what_predicts(run, edgewise):
    folder, _, companion, flags = run
    metrics = json.loads((folder / "metrics.json").read_text())
    assert set(metrics["shares"]) == {"network", companion} and sum(metrics["shares"].values()) == pytest.approx(1)
    for split in ("test", "validation"):
        assert set(metrics["parts"][split]) == {"network", companion}
        for scores in metrics["parts"][split].values():
            assert scores["y"]["num_rows"] == metrics[split]["y"]["num_rows"]
    assert json.loads((folder / "model.json").read_text())["companions"].keys() == {companion}
    page = (folder / "report.html").read_text()
    assert f"Predicted by: network ({name_of(flags)}) " in page and f"{LABELS[companion]} alone, test" in page


def test_parts_weighted_by_their_shares_are_the_prediction(run, edgewise, tmp_path):
    folder, table, _, _ = run
    code, _, _ = edgewise("predict", folder, table, "--show-parts", "-o", tmp_path / "shown.csv")
    assert code == 0
    shares = json.loads((folder / "metrics.json").read_text())["shares"]
    column = "y_prob_yes" if "y_prob_yes" in read_csv(tmp_path / "shown.csv")[0] else "y_pred"
    for row in read_csv(tmp_path / "shown.csv"):
        parts = {name: float(row[f"{column}_{name.replace('-', '_')}"]) for name in shares}
        assert sum(shares[name] * part for name, part in parts.items()) == pytest.approx(float(row[column]), rel=1e-5)
    code, _, _ = edgewise("predict", folder, table, "-o", tmp_path / "plain.csv")
    assert code == 0 and not any("network" in name for name in read_csv(tmp_path / "plain.csv")[0])


def test_rows_that_cannot_be_read_have_the_same_columns(run, edgewise, tmp_path):
    """Files are predicted in chunks: one without a readable row had fewer columns than the others."""
    folder, table, _, flags = run
    column, cell = ("text", "") if flags is TEXTS else ("smiles", "C(")
    rows = [row | {column: cell, "y": ""} for row in read_csv(table)[:2]]
    unreadable = write_csv(tmp_path / "unreadable.csv", {name: [row[name] for row in rows] for name in rows[0]})
    edgewise("predict", folder, unreadable, "--show-parts", "-o", tmp_path / "none.csv")
    edgewise("predict", folder, table, "--show-parts", "-o", tmp_path / "shown.csv")
    assert list(read_csv(tmp_path / "none.csv")[0]) == list(read_csv(tmp_path / "shown.csv")[0])


def test_none_is_the_network_alone(run, edgewise, tmp_path):
    _, table, _, flags = run
    code, out, _ = edgewise("train", table, *flags, "--companions", "none", "-o", tmp_path / "alone")
    assert code == 0 and f"predicted by: network ({name_of(flags)}) 100%" in out
    metrics = json.loads((tmp_path / "alone/metrics.json").read_text())
    assert metrics["shares"] == {"network": 1.0} and "parts" not in metrics
    assert "companions" not in json.loads((tmp_path / "alone/model.json").read_text())


def test_a_companion_of_other_targets_is_refused(run, edgewise, tmp_path):
    _, table, companion, flags = run
    other = "gaussian-process" if companion == "forest" else "forest"
    code, _, err = edgewise("train", table, *flags, "--companions", other, "-o", tmp_path / "other")
    if flags is TEXTS:
        assert code == 2 and "--companions" in err and "none, word-counts" in err
    else:
        assert code == 2 and f"--companions {other} predicts" in err and "leave it out" in err
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(("words", "told"), [(["trees"], "'trees'"), (["none", "forest"], "none alone")])
def test_unknown_companions_are_refused(run, edgewise, tmp_path, words, told):
    _, table, companion, flags = run
    words = [companion if word == "forest" else word for word in words]
    code, _, err = edgewise("train", table, *flags, "--companions", *words, "-o", tmp_path / "unknown")
    assert code == 2 and "--companions" in err and told in err
