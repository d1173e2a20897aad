"""Columns of a DataFrame are taken by their names, as scikit-learn does."""

import numpy as np
import pandas as pd
import pytest

from edgewise import DataError, SettingError
from edgewise.cli.main import main
from edgewise.learn.estimators import (
    EdgeRegressor,
    Forecaster,
    GraphNodes,
    GraphRegressor,
    LanguageModel,
    LinkPredictor,
    MoleculeRegressor,
    NodeRegressor,
    TextClassifier,
    TextRegressor,
    molecules,
    texts,
)
from edgewise.learn.estimators.row_methods import predictions

SMALL = {"epochs": 1, "model_dim": 8, "num_layers": 1}
WORDS = ["good", "fine", "bad", "poor"] * 6
TEXTS = pd.DataFrame({"title": WORDS, "body": ["it is " + word for word in WORDS[::-1]]})
LABELS = np.array(["yes", "yes", "no", "no"] * 6)
MOLECULES = pd.DataFrame(
    {
        "cation": ["C" * size + "[NH3+]" for size in range(1, 13)] * 2,
        "anion": ["[Cl-]", "[Br-]"] * 12,
        "kelvin": np.linspace(280, 320, 24),
        "bar": np.linspace(1, 9, 24),
    }
)


def classifier():
    return TextClassifier(model="gru", random_state=0, **SMALL).fit(TEXTS, LABELS)


def regressor():
    return MoleculeRegressor(molecule_descriptors=False, random_state=0, **SMALL).fit(MOLECULES, MOLECULES["kelvin"])


@pytest.mark.parametrize(
    ("fit", "rows", "data"), [(classifier, texts.TEXTS, TEXTS), (regressor, molecules.MOLECULES, MOLECULES)]
)
def test_columns_are_taken_by_name(fit, rows, data, tmp_path):
    fitted = fit()
    assert fitted.feature_names_in_.tolist() == list(data.columns)
    expected = predictions(fitted, rows, data, {}).targets[0]
    fitted.save(tmp_path / "model")
    loaded = type(fitted).load(tmp_path / "model")
    assert loaded.feature_names_in_.tolist() == list(data.columns)
    turned = data[data.columns[::-1]].assign(more="not read")
    for model in (fitted, loaded):
        predicted = predictions(model, rows, turned, {}).targets[0]
        for name in ("value", "probabilities"):
            if getattr(expected, name) is not None:
                np.testing.assert_allclose(getattr(predicted, name), getattr(expected, name), atol=1e-6)
        np.testing.assert_allclose(model.fingerprint(turned), model.fingerprint(data), atol=1e-6)
        last = data.columns[-1]
        with pytest.raises(DataError, match=f"X lacks {last}, which the model was trained on"):
            model.predict(data.rename(columns={last: "other"}))
        with pytest.raises(DataError, match=f"X lacks {last}"):
            model.score(data.drop(columns=last), LABELS)


@pytest.mark.parametrize(
    ("model", "data"),
    [
        (TextClassifier(model="gru", random_state=0, **SMALL), TEXTS),
        (MoleculeRegressor(molecule_descriptors=False, random_state=0, **SMALL), MOLECULES),
    ],
)
def test_a_saved_folder_takes_the_columns_of_a_file_by_name(model, data, tmp_path):
    fitted = model.fit(data, LABELS if data is TEXTS else np.arange(24.0))
    fitted.save(tmp_path / "model")
    data[data.columns[::-1]].assign(more="not read").to_csv(tmp_path / "x.csv", index=False)
    assert main(["predict", str(tmp_path / "model"), str(tmp_path / "x.csv"), "-o", str(tmp_path / "y.csv")]) == 0
    written = pd.read_csv(tmp_path / "y.csv")
    expected = fitted.predict_proba(data)[:, 1] if data is TEXTS else fitted.predict(data)
    np.testing.assert_allclose(written["target_prob_yes" if data is TEXTS else "target_pred"], expected, rtol=1e-4)


def test_rows_for_validation_are_joined_by_name():
    held = TEXTS.iloc[:8]
    fitted = [
        TextClassifier(model="gru", random_state=0, **SMALL).fit(TEXTS, LABELS, validation=(some, LABELS[:8]))
        for some in (held, held[["body", "title"]].assign(more="not read"))
    ]
    first, second = (model.predict_proba(TEXTS) for model in fitted)
    np.testing.assert_array_equal(first, second)
    assert fitted[0].metrics_["validation"] == fitted[1].metrics_["validation"]
    renamed = held.rename(columns={"body": "other"})
    with pytest.raises(DataError, match=r"validation lacks body, .*; its columns are title, other"):
        TextClassifier(model="gru", **SMALL).fit(TEXTS, LABELS, validation=(renamed, LABELS[:8]))
    by_place = TextClassifier(model="gru", random_state=0, **SMALL).fit(
        TEXTS, LABELS, validation=(held.to_numpy(), LABELS[:8])
    )
    np.testing.assert_array_equal(by_place.predict_proba(TEXTS), first)
    with pytest.raises(DataError, match="validation has 1 column, but X has 2"):
        TextClassifier(model="gru", **SMALL).fit(TEXTS, LABELS, validation=(WORDS[:8], LABELS[:8]))


def test_targets_are_joined_and_compared_by_name():
    y = pd.DataFrame({"low": np.arange(24.0), "high": np.arange(24.0)[::-1] * 100})
    model = TextRegressor(model="gru", random_state=0, **SMALL)
    first = model.fit(TEXTS, y, validation=(TEXTS[:8], y[:8])).predict(TEXTS)
    score = model.score(TEXTS, y)
    assert model.score(TEXTS, y[["high", "low"]]) == score
    second = model.fit(TEXTS, y, validation=(TEXTS[:8], y[:8][["high", "low"]])).predict(TEXTS)
    np.testing.assert_array_equal(first, second)
    with pytest.raises(DataError, match="y lacks high"):
        model.score(TEXTS, y.rename(columns={"high": "other"}))


def test_numbers_beside_molecules_are_taken_by_name():
    smiles, numbers = MOLECULES["cation"].tolist(), MOLECULES[["kelvin", "bar"]]
    model = MoleculeRegressor(molecule_descriptors=False, random_state=0, **SMALL)
    model.fit(smiles, MOLECULES["bar"], conditions=numbers)
    expected = model.predict(smiles, conditions=numbers)
    np.testing.assert_allclose(model.predict(smiles, conditions=numbers[["bar", "kelvin"]]), expected, atol=1e-6)
    with pytest.raises(DataError, match="conditions lacks bar"):
        model.predict(smiles, conditions=numbers.rename(columns={"bar": "pascal"}))


@pytest.mark.parametrize("held_by", ["X", "conditions"])
def test_numbers_beside_molecules_are_taken_by_name_whichever_argument_holds_them(held_by, tmp_path):
    """Given by the other argument than in the training, they were taken by their order."""
    table = MOLECULES[["cation", "kelvin", "bar"]]
    smiles, turned = table["cation"].tolist(), table[["bar", "kelvin"]]
    model = MoleculeRegressor(molecule_descriptors=False, random_state=0, **SMALL)
    if held_by == "X":
        model.fit(table, table["kelvin"])
    else:
        model.fit(smiles, table["kelvin"], conditions=table[["kelvin", "bar"]])
    expected = model.predict(smiles, conditions=table[["kelvin", "bar"]].to_numpy())
    model.save(tmp_path / "run")
    for fitted in (model, MoleculeRegressor.load(tmp_path / "run")):
        np.testing.assert_allclose(fitted.predict(smiles, conditions=turned), expected, atol=1e-6)
        np.testing.assert_allclose(fitted.predict(table[["bar", "kelvin", "cation"]]), expected, atol=1e-6)
        row = turned.iloc[3]
        items = [(smiles[3], row), (smiles[3], row.to_dict()), (smiles[3], turned.iloc[[3]])]
        if held_by == "conditions":
            items.append((table[["bar", "cation", "kelvin"]].iloc[3], None))
        for item, conditions in items:
            found = fitted.explain(item, conditions=conditions, methods=["attention"])
            assert found.predictions[0].value == pytest.approx(expected[3], abs=1e-6)
    with pytest.raises(DataError, match="conditions lacks bar"):
        model.predict(smiles, conditions=turned.rename(columns={"bar": "pascal"}))


EDGES = np.array([[0, 1, 2, 3, 4, 5, 6, 7], [1, 2, 3, 4, 5, 6, 7, 0]])
NODES = pd.DataFrame({"mass": np.linspace(0, 1, 8), "charge": np.linspace(5, -5, 8)})
BONDS = pd.DataFrame({"length": np.linspace(1, 2, 8), "order": np.linspace(9, 3, 8)})


@pytest.mark.parametrize("kind", [NodeRegressor, EdgeRegressor])
def test_features_of_nodes_and_edges_are_taken_by_name(kind, tmp_path):
    y, more = np.linspace(0, 1, 8), {"edge_features": BONDS}
    model = kind(model="gat", random_state=0, **SMALL).fit(NODES, y, edges=EDGES, **more)
    expected = model.predict(NODES, edges=EDGES, **more)
    turned, bonds = NODES[["charge", "mass"]].assign(more=1.0), BONDS[["order", "length"]]
    model.save(tmp_path / "model")
    for each in (model, kind.load(tmp_path / "model")):
        np.testing.assert_allclose(each.predict(turned, edges=EDGES, edge_features=bonds), expected, atol=1e-6)
        np.testing.assert_allclose(each.predict(GraphNodes(turned, EDGES, bonds)), expected, atol=1e-6)
        with pytest.raises(DataError, match="X lacks charge"):
            each.predict(NODES.rename(columns={"charge": "spin"}), edges=EDGES, **more)
        with pytest.raises(DataError, match="edge_features lacks order"):
            each.predict(NODES, edges=EDGES, edge_features=BONDS.rename(columns={"order": "kind"}))
    assert model.feature_names_in_.tolist() == ["mass", "charge"]


@pytest.mark.parametrize("kind", [NodeRegressor, EdgeRegressor])
def test_features_in_tables_of_a_graph_are_taken_by_name(kind):
    def tables(nodes, bonds):
        ends = pd.DataFrame({"sender": list("abcdefgh"), "receiver": list("bcdefgha")})
        return nodes.assign(name=list("abcdefgh")), pd.concat([bonds, ends], axis=1)

    model = kind(model="gat", random_state=0, **SMALL).fit(tables(NODES, BONDS), np.linspace(0, 1, 8))
    expected = model.predict(tables(NODES, BONDS))
    turned = tables(NODES[["charge", "mass"]].assign(more=1.0), BONDS[["order", "length"]])
    np.testing.assert_allclose(model.predict(turned), expected, atol=1e-6)
    np.testing.assert_allclose(model.predict(NODES, EDGES, BONDS), expected, atol=1e-6)
    with pytest.raises(DataError, match="X lacks charge"):
        model.predict(tables(NODES.rename(columns={"charge": "spin"}), BONDS))
    with pytest.raises(DataError, match="edge_features lacks order"):
        model.predict(tables(NODES, BONDS.rename(columns={"order": "kind"})))
    assert model.feature_names_in_.tolist() == ["mass", "charge"]


def test_features_of_another_graph_of_links_are_taken_by_name():
    edges = np.array([(one, two) for one in range(12) for two in range(one) if (one + two) % 3 == 0]).T
    nodes = pd.DataFrame({"mass": np.linspace(0, 1, 12), "charge": np.linspace(5, -5, 12)})
    model = LinkPredictor(model="gcn", random_state=0, baselines=False, **SMALL).fit(nodes, edges=edges)
    expected = model.predict_proba([[0, 1]], nodes, edges)
    np.testing.assert_allclose(model.predict_proba([[0, 1]], nodes[["charge", "mass"]], edges), expected, atol=1e-6)
    pair = pd.DataFrame({"sender": edges[0], "receiver": edges[1]})
    for table in (nodes, nodes[["charge", "mass"]]):
        np.testing.assert_allclose(model.predict_proba([[0, 1]], (table, pair)), expected, atol=1e-6)
    of_tables = LinkPredictor(model="gcn", random_state=0, baselines=False, **SMALL).fit((nodes, pair))
    found = of_tables.predict_proba([[0, 1]], (nodes[["charge", "mass"]], pair))
    np.testing.assert_allclose(found, of_tables.predict_proba([[0, 1]], (nodes, pair)), atol=1e-6)
    with pytest.raises(DataError, match="X lacks charge"):
        model.predict_proba([[0, 1]], nodes.rename(columns={"charge": "spin"}), edges)


def test_features_of_many_graphs_are_taken_by_name():
    graphs = [(NODES * size, EDGES) for size in range(1, 9)]
    whole, y = pd.DataFrame({"a": np.arange(8.0), "b": np.arange(8.0)[::-1]}), np.arange(8.0)
    model = GraphRegressor(model="gcn", random_state=0, **SMALL).fit(graphs, y, graph_features=whole)
    expected = model.predict(graphs, graph_features=whole)
    turned = [(nodes[["charge", "mass"]], edges) for nodes, edges in graphs]
    np.testing.assert_allclose(model.predict(turned, graph_features=whole[["b", "a"]]), expected, atol=1e-6)
    with pytest.raises(DataError, match="graph 1 lacks mass"):
        model.predict([graphs[0], (NODES.rename(columns={"mass": "m"}), EDGES)], graph_features=whole[:2])
    with pytest.raises(DataError, match="graph_features lacks b"):
        model.predict(graphs, graph_features=whole.rename(columns={"b": "c"}))
    explained = model.explain(graphs[2], graph_features={"b": 5.0, "a": 2.0}, methods=["attention"])
    assert explained.predictions[0].value == pytest.approx(expected[2], abs=1e-5)


def test_features_of_edges_of_many_graphs_are_taken_by_name():
    graphs = [(NODES * size, EDGES, BONDS * size) for size in range(1, 9)]
    model = GraphRegressor(model="gat", random_state=0, **SMALL).fit(graphs, np.arange(8.0))
    expected = model.predict(graphs)
    turned = [(nodes, edges, bonds[["order", "length"]]) for nodes, edges, bonds in graphs]
    np.testing.assert_allclose(model.predict(turned), expected, atol=1e-6)
    with pytest.raises(DataError, match="graph 0 lacks order"):
        model.predict([(NODES, EDGES, BONDS.rename(columns={"order": "kind"}))])


def test_nodes_of_series_are_taken_by_name():
    steps = np.arange(60.0)
    held = pd.DataFrame({"a": np.sin(steps), "b": np.cos(steps) * 5, "c": steps / 9})
    model = Forecaster(horizon=2, context=4, random_state=0, **SMALL)
    model.fit(held, edges=np.array([[0], [1]]))
    expected = model.predict(held)
    turned = held[["c", "a", "b"]]
    np.testing.assert_allclose(model.predict(turned), expected, atol=1e-6)
    ahead = pd.DataFrame(expected + np.array([0.1, 0.2, 0.3]), columns=list("abc"))
    assert model.score(turned, ahead[["b", "c", "a"]]) == pytest.approx(model.score(held, ahead.to_numpy()))
    edges = np.array([[1], [2]])  # from a to b, as in the training
    for y in (ahead[["c", "a", "b"]], ahead, ahead.to_numpy()):
        assert model.score(turned, y, edges=edges) == pytest.approx(model.score(held, ahead.to_numpy()))
    with pytest.raises(DataError, match="X lacks c"):
        model.predict(held.rename(columns={"c": "d"}))


def test_one_row_is_explained_by_its_names():
    texts, molecules = classifier(), regressor()
    for model, data in ((texts, TEXTS), (molecules, MOLECULES)):
        expected = model.explain(data.iloc[[3]], methods=["attention"])
        turned = data.iloc[3][data.columns[::-1]]
        for item in (turned, turned.to_dict(), data.iloc[[3]][data.columns[::-1]], data.iloc[3].tolist()):
            if model is molecules and isinstance(item, list):
                continue  # the numbers are an argument there
            found = model.explain(item, methods=["attention"])
            assert found.sources == expected.sources
            assert str(found.predictions) == str(expected.predictions)  # nothing equals NaN
        with pytest.raises(DataError, match=f"item lacks {data.columns[-1]}"):
            model.explain({name: data[name][3] for name in data.columns[:-1]})
        with pytest.raises(DataError, match="item has 2 rows; an explanation is of one"):
            model.explain(data.iloc[:2])


def test_a_list_of_dicts_is_a_table_and_one_dict_is_refused():
    fitted = classifier()
    rows = [dict(reversed(row.items())) for row in TEXTS.to_dict("records")]
    np.testing.assert_array_equal(fitted.predict_proba(rows), fitted.predict_proba(TEXTS))
    with pytest.raises(DataError, match="X is a dict, where rows are expected; give a list of dicts"):
        fitted.predict({"title": "good", "body": "it is bad"})


def test_arrays_have_no_names():
    fitted = TextClassifier(model="gru", **SMALL).fit(TEXTS.to_numpy(), LABELS)
    assert not hasattr(fitted, "feature_names_in_")
    renamed = TEXTS.rename(columns={"title": "heading"})
    assert len(fitted.predict(renamed)) == len(TEXTS)
    named = fitted.fit(renamed, LABELS)
    assert named.feature_names_in_.tolist() == ["heading", "body"]
    assert not hasattr(named.fit(TEXTS.to_numpy(), LABELS), "feature_names_in_")


def test_one_token_has_no_score():
    fitted = LanguageModel(steps=1, context=4, model_dim=8, num_layers=1, num_heads=1).fit("abab" * 20)
    for text in ("a", ""):
        with pytest.raises(DataError, match="a score needs two or more"):
            fitted.score(text)
    assert fitted.score("ab") < 0


@pytest.mark.parametrize(
    "labels", [[0, 1], [2019, 2020], pd.MultiIndex.from_tuples([("film", "title"), ("film", "body")])]
)
def test_columns_that_are_not_called_by_text_are_taken_by_their_labels(labels):
    frame = TEXTS.set_axis(labels, axis=1)
    model = classifier().fit(frame, LABELS)
    swapped = frame.iloc[:, ::-1]
    np.testing.assert_array_equal(model.predict_proba(swapped), model.predict_proba(frame))
    np.testing.assert_array_equal(model.predict_proba(frame.to_numpy()), model.predict_proba(frame))


def test_a_series_with_counted_columns_keeps_its_edges():
    times = np.arange(80)[:, None]
    series = pd.DataFrame(np.sin(times / 5 + np.arange(3)))
    settings = {"context": 4, "horizon": 2, "epochs": 1, "model_dim": 8, "random_state": 0}
    model = Forecaster(**settings).fit(series, edges=np.array([[0], [1]]))
    np.testing.assert_array_equal(model.predict(series[[2, 1, 0]]), model.predict(series))


def test_a_training_that_fails_leaves_the_names_of_the_one_before():
    model = classifier()
    expected = model.predict_proba(TEXTS)
    with pytest.raises(DataError, match="y has no label"):
        model.fit(TEXTS[["body", "title"]], [None, *LABELS[1:]])
    assert model.feature_names_in_.tolist() == ["title", "body"]
    np.testing.assert_array_equal(model.predict_proba(TEXTS), expected)

    series = pd.DataFrame(np.sin(np.arange(80)[:, None] / 5 + np.arange(3)), columns=["a", "b", "c"])
    forecaster = Forecaster(context=4, horizon=2, epochs=1, model_dim=8).fit(series, edges=np.array([[0], [1]]))
    steps = forecaster.predict(series)
    with pytest.raises(SettingError, match="fewer than"):
        forecaster.fit(series[["c", "b", "a"]][:9], edges=np.array([[0], [2]]))
    np.testing.assert_array_equal(forecaster.predict(series), steps)
