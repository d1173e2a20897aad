"""Explainer: run folders of three kinds, rows by the names of their fields, and what it says to bad ones."""

import contextlib
import json
import shutil

import numpy as np
import pytest
import torch

from edgewise import DataError, RunFolderError, SettingError, UnsupportedError
from edgewise.learn.estimators import MoleculeRegressor
from edgewise.learn.tables.split import Splits
from edgewise.learn.tasks.config import job_to_config
from edgewise.learn.tasks.explainer import Explainer
from edgewise.learn.tasks.nodes.settings import SETTINGS
from edgewise.learn.tasks.nodes.task import TABLE, read_data
from edgewise.learn.training.folder import RunFolder
from explain_cases import loud, text_model


def kept(trained, path):
    """A run folder of a model."""
    folder = RunFolder(path)
    folder.begin()
    trained.save(folder)
    return folder


@pytest.fixture(scope="module")
def texts(tmp_path_factory):
    folder = kept(text_model(columns=2), tmp_path_factory.mktemp("texts") / "run")
    folder.write_json("splits.json", {"train": [0, 1, 2], "val": [], "test": []})
    return Explainer.open(folder.path)


@pytest.fixture(scope="module")
def molecules(tmp_path_factory):
    small = {"epochs": 1, "model_dim": 8, "num_heads": 2, "num_layers": 1, "molecule_descriptors": False}
    rows = [(text, "[Cl-]") for text in ("C", "CC", "CCC", "CCO", "CN", "CCN", "CO", "CCCO")]
    regressor = MoleculeRegressor(**small, head_dim=8, num_variants=2, device="cpu")
    regressor.fit(rows, np.arange(8.0), conditions=np.stack([300 + np.arange(8.0), np.arange(8.0)], 1))
    path = tmp_path_factory.mktemp("molecules") / "run"
    regressor.save(path)
    return Explainer.open(path)


@pytest.fixture(scope="module")
def graph_folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("graph")
    names = [f"n{place}" for place in range(12)]
    lines = [f"{name},{place / 10},{1 - place % 3},{'ab'[place % 2]}" for place, name in enumerate(names)]
    (path / "nodes.csv").write_text("id,x,y,label\n" + "\n".join(lines) + "\nlost,?,1,a\n")
    edges = [f"{names[place]},{names[(place * 5 + 1) % 12]}" for place in range(12)]
    (path / "edges.csv").write_text("from,to\n" + "\n".join(edges) + "\n")
    settings = {"data": (str(path / "nodes.csv"),), "edges": str(path / "edges.csv"), "target_columns": ("label",)}
    job = SETTINGS.of({**settings, "model": "gat", "num_heads": 2, "model_dim": 4})
    table = read_data(job)
    rows = np.arange(12)
    trained = loud(TABLE.untrained(job, table, Splits(rows, rows[:0], rows[:0])), 1)
    folder = kept(trained, path / "run")
    folder.write_config(job_to_config(job))
    return path


@pytest.fixture(scope="module")
def graph(graph_folder):
    return Explainer.open(graph_folder / "run")


def test_texts(texts):
    assert texts.kind == "text"
    assert texts.fields == [{"name": "text_1", "type": "text"}, {"name": "text_2", "type": "text"}]
    facts = texts.facts
    assert facts["classes"] == {"target": ["bad", "good"]}
    assert (facts["training_rows"], facts["members"], facts["model"]) == (3, 1, "transformer")
    assert json.loads(json.dumps(facts)) == facts
    rows = [{"text_1": "the film", "text_2": "great"}, {"text_2": "", "text_1": "awful"}]
    predicted = texts.predict(rows)
    assert [len(each) for each in predicted] == [1, 1]
    assert set(predicted[0][0].probabilities) == {"bad", "good"}
    found = texts.explain(rows[1], label="good", top=1)
    assert found.explained == "target = good"
    assert found.predictions[0].probabilities["good"] == pytest.approx(predicted[1][0].probabilities["good"], abs=1e-6)
    assert found.layers[0].top == 1
    assert texts.predict([]) == []


def test_molecules(molecules):
    assert molecules.kind == "molecule"
    assert [(field["name"], field["type"]) for field in molecules.fields] == [
        ("smiles_1", "smiles"),
        ("smiles_2", "smiles"),
        ("condition_1", "number"),
        ("condition_2", "number"),
    ]
    row = {"smiles_1": "CCO", "smiles_2": "[Br-]", "condition_1": "301.5", "condition_2": 3}
    predicted = molecules.predict([row, row])
    assert predicted[0] == predicted[1] or predicted[0][0].value == predicted[1][0].value
    found = molecules.explain(row)
    assert found.predictions[0].value == pytest.approx(predicted[0][0].value, rel=1e-5)
    assert [curve.here for curve in found.curves] == [301.5, 3.0]
    single = molecules.explain({**row, "condition_1": np.float32(298.2)})
    assert single.curves[0].here == 298.2, "float32 has no digits more"


def test_nodes(graph, tmp_path):
    assert graph.kind == "graph"
    assert graph.fields == [{"name": "id", "type": "node"}]
    assert graph.facts["targets"] == ["label"]
    predicted = graph.predict([{"id": "n3"}, {"id": " n4 "}])
    found = graph.explain({"id": "n3"})
    assert found.title == "n3"
    for label, probability in found.predictions[0].probabilities.items():
        assert predicted[0][0].probabilities[label] == pytest.approx(probability, abs=1e-6)
    with pytest.raises(DataError, match="there is no node 'n99'; the 13 nodes are n0, n1, n2, n3, n4, …"):
        graph.predict([{"id": "n99"}])
    with pytest.raises(DataError, match="there is no node '7'"):
        graph.explain({"id": 7})
    with pytest.raises(DataError, match="the node 'lost' cannot be predicted: x: '\\?' is not a number"):
        graph.predict([{"id": "lost"}])


def test_a_graph_that_is_gone(graph_folder, tmp_path):
    moved = tmp_path / "run"
    shutil.copytree(graph_folder / "run", moved)
    config = (moved / "config.toml").read_text()
    (moved / "config.toml").write_text(config.replace("nodes.csv", "gone.csv"))
    with pytest.raises(RunFolderError, match=r"that .* was trained on cannot be read .*gone.csv"):
        Explainer.open(moved)
    (moved / "config.toml").unlink()
    with pytest.raises(RunFolderError, match="does not say which graph it was trained on"):
        Explainer.open(moved)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"text_1": "a"}, "the field 'text_2' is missing; expected text_1, text_2"),
        ({"text_1": "a", "text_2": "b", "<b>": 1}, "unknown field '<b>'; expected text_1, text_2"),
        ({"text_1": " ", "text_2": ""}, "text_1: the text is empty"),
        ({"text_1": 3, "text_2": ""}, "text_1 is a int, expected a text"),
        ({"text_1": None, "text_2": ""}, "text_1 is a NoneType, expected a text"),
        ({"text_1": "a\ud800", "text_2": ""}, "text_1 holds half a character"),
    ],
)
def test_texts_that_are_refused(texts, row, message):
    with pytest.raises(DataError, match=message):
        texts.predict([row])
    with pytest.raises(DataError, match="^row 1: " + message):
        texts.predict([{"text_1": "a", "text_2": "b"}, row])


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("warm", "condition_1: 'warm' is not a number"),
        (True, "condition_1 is a bool, expected a number"),
        (10**400, "condition_1 is inf, expected a finite number"),
        ([1], "condition_1 is a list, expected a number"),
    ],
)
def test_numbers_that_are_refused(molecules, value, message):
    row = {"smiles_1": "C", "smiles_2": "C", "condition_1": value, "condition_2": 0}
    with pytest.raises(DataError, match=message):
        molecules.explain(row)


def test_molecules_that_are_refused(molecules):
    good = {"smiles_1": "C", "smiles_2": "C", "condition_1": 1, "condition_2": 0}
    with pytest.raises(DataError, match=r"^smiles_2: "):
        molecules.explain({**good, "smiles_2": "C1"})
    with pytest.raises(DataError, match=r"^row 1: smiles_1: "):
        molecules.predict([good, {**good, "smiles_1": "nothing"}])


def test_what_cannot_be_opened(tmp_path, texts):
    with pytest.raises(RunFolderError, match="is not a run folder"):
        Explainer.open(tmp_path / "nowhere")
    other = tmp_path / "other"
    other.mkdir()
    (other / "model.safetensors").write_bytes(b"")
    (other / "model.json").write_text('{"format": "edgewise forecast model"}')
    with pytest.raises(UnsupportedError, match="holds an edgewise forecast model, which cannot be explained"):
        Explainer.open(other)
    with pytest.raises(SettingError, match="target is 'price'"):
        texts.explain({"text_1": "a", "text_2": "b"}, target="price")


@contextlib.contextmanager
def doubles():
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize(
    "context",
    [doubles, torch.inference_mode, lambda: torch.device("meta"), lambda: torch.autocast("cpu", torch.bfloat16)],
)
def test_what_is_set_in_torch_changes_nothing(texts, tmp_path, context):
    """A run opened on another default device or type failed in torch, and autocast rounded."""
    folder = kept(text_model(columns=2), tmp_path / "run")
    row = {name: "a good film" for name in (field["name"] for field in texts.fields)}
    with context():
        explainer = Explainer.open(folder.path)
        ((prediction,),), explanation = explainer.predict([row]), explainer.explain(row)
    ((expected_prediction,),) = texts.predict([row])
    assert prediction.probabilities == expected_prediction.probabilities
    for attribution, expected in zip(explanation.attributions, texts.explain(row).attributions, strict=True):
        np.testing.assert_array_equal(attribution.values, expected.values)
