"""A text where several are expected is an error: Python would take it apart into its characters."""

import networkx
import numpy as np
import pandas as pd
import pytest
import torch

from edgewise import DataError, Edges, SettingError, ShapeError
from edgewise.graph import Graph
from edgewise.interop.networkx import fit_arguments
from edgewise.learn.estimators import (
    Forecaster,
    GraphNodes,
    LanguageModel,
    LinkPredictor,
    MoleculeClassifier,
    MoleculeRegressor,
    NodeClassifier,
    Tagger,
    TextClassifier,
    TextRegressor,
    Translator,
)
from edgewise.learn.readers.molecules.data import molecules_from_arrays
from edgewise.learn.readers.molecules.feature import Chem
from edgewise.learn.readers.molecules.similarity import similarity
from edgewise.learn.readers.texts.data import texts_from_arrays

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
LABELS = np.array(["a", "b"] * 4)
SMALL = {"epochs": 1, "model_dim": 8, "num_layers": 1}


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: TextClassifier().fit("abcdefgh", LABELS), "X"),
        (lambda: TextClassifier().fit(np.array("abcdefgh"), LABELS), "X"),
        (lambda: TextClassifier().fit(["a text"] * 8, "abababab"), "y"),
        (lambda: TextRegressor().fit("abcdefgh", np.arange(8.0)), "X"),
        (lambda: TextClassifier().fit(["a text"] * 8, LABELS, validation=("abcdefgh", LABELS)), "X"),
        (lambda: MoleculeClassifier().fit("CCCCCCCC", LABELS), "X"),
        (lambda: MoleculeRegressor().fit("CCCCCCCC", np.arange(8.0)), "X"),
        (lambda: Tagger().fit("ab", [["A"], ["B"]]), "sentences"),
        (lambda: Tagger().fit([["a"], ["b"]], "AB"), "tags"),
        (lambda: Translator().fit("ab", ["A", "B"]), "fit: X"),
        (lambda: texts_from_arrays("ab"), "text"),
        (lambda: molecules_from_arrays("CO"), "smiles"),
        (lambda: similarity("CO", ["CO"]), "rows"),
        (lambda: similarity(["CO"], "CO"), "known_rows"),
    ],
)
def test_one_text_is_not_taken_apart(make, argument):
    with pytest.raises(DataError, match=f"{argument} is one text, .* put it into a list"):
        make()


def test_what_has_no_rows_is_not_read_as_its_keys():
    """`predict({"text": texts})` was one prediction, of the word text."""
    for held in ({"text": ["good", "bad"]}, {"good", "bad"}):
        with pytest.raises(DataError, match=f"X is a {type(held).__name__}, .*; give a list"):
            TextClassifier().fit(held, np.array([1, 0]))
        with pytest.raises(DataError, match=f"X is a {type(held).__name__}, .*; give a list"):
            MoleculeClassifier().fit(held, np.array([1, 0]))


@pytest.mark.parametrize("value", [np.array(1.5), torch.tensor(3)])
def test_an_array_without_axes_is_one_value(value):
    with pytest.raises(DataError, match=f"X is one value, {value.item()}, where several are expected; put it into a"):
        TextClassifier().fit(value, LABELS)


@pytest.mark.parametrize("value", [Chem.MolFromSmiles("CCO"), 3, 1.5])
def test_one_value_is_no_sequence(value):
    for kind in (TextClassifier, MoleculeClassifier):
        with pytest.raises(
            DataError, match=f"X is a {type(value).__name__}, where a sequence is expected; give a list"
        ):
            kind().fit(value, LABELS)


def test_molecules_of_rdkit_are_molecules():
    """They became the text `<rdkit.Chem.rdchem.Mol ...>`, which no molecule is, and NaN was predicted."""
    mols = [Chem.MolFromSmiles(text) for text in ("CCO", "c1ccccc1")]
    assert list(molecules_from_arrays(mols).store.canonical) == ["CCO", "c1ccccc1"]
    pairs = molecules_from_arrays([[mols[0], "C"], ["N", mols[1]]])
    assert [[pairs.store.canonical[place] for place in row] for row in pairs.graph_of_row] == [
        ["CCO", "C"], ["N", "c1ccccc1"]
    ]  # fmt: skip
    table = molecules_from_arrays(pd.DataFrame({"a": mols}).to_numpy()[:, 0])
    assert table.rows.usable.all()


def test_one_text_is_not_predicted_letter_by_letter():
    texts = ["a good film", "a bad film"] * 8
    fitted = TextClassifier(model="gru", **SMALL).fit(texts, np.array([1, 0] * 8))
    for method in ("predict", "predict_proba", "fingerprint"):
        with pytest.raises(DataError, match="X is one text, 'great'"):
            getattr(fitted, method)("great")
    with pytest.raises(DataError, match="X is one text"):
        fitted.score("great", np.array([1] * 5))
    with pytest.raises(DataError, match="y is one text"):
        fitted.score(["good"], "1")
    assert len(fitted.predict(["good"])) == 1


def test_names_of_nodes_are_several():
    edges = Edges.from_edge_index(torch.tensor([[0, 1], [1, 2]]), 3)
    with pytest.raises(ShapeError, match="names is one text, 'abc'"):
        Graph(torch.ones(3, 1), edges, names="abc")


EDGES = np.array([[0, 1, 2, 3, 4, 5], [1, 2, 3, 4, 5, 0]])
FEATURES, TARGETS = np.arange(12.0).reshape(6, 2), np.arange(6) % 2
CLUB = networkx.path_graph(3)


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: MoleculeRegressor().fit(["C"] * 8, "12345678"), "y"),
        (lambda: TextClassifier().fit(["a"] * 8, LABELS, sample_weight="1" * 8), "sample_weight"),
        (lambda: TextClassifier().fit(["a"] * 8, LABELS, groups="a" * 8), "groups"),
        (lambda: TextClassifier().fit(["a"] * 8, LABELS, validation="a" * 8), "validation"),
        (lambda: NodeClassifier().fit(FEATURES, TARGETS, edges=EDGES, node_types="ababab"), "node_types"),
        (lambda: GraphNodes(FEATURES, EDGES, edge_types="ababab"), "edge_types"),
        (lambda: LinkPredictor().fit(FEATURES, edges=EDGES, splits="tttttt"), "splits"),
        (lambda: Forecaster().fit("abc"), "X"),
        (lambda: Translator().fit(["ab"], "AB"), "fit: y"),
        (lambda: Translator().fit(["ab"], ["AB"], validation=("ab", "AB")), "validation: X"),
        (lambda: Graph.of(CLUB, node_attributes="age"), "node_attributes"),
        (lambda: Graph.of(CLUB, edge_attributes="weight"), "edge_attributes"),
        (lambda: fit_arguments(CLUB, features="age", target="age"), "features"),
    ],
)
def test_one_text_is_no_argument_that_has_several(make, argument):
    with pytest.raises(DataError, match=f"^{argument} is one text, .* put it into a list"):
        make()


def test_one_text_in_place_of_words_or_columns_says_what_a_row_is():
    with pytest.raises(DataError, match=r'^sentence 0 is one text, "a b"; expected a list of its words'):
        Tagger().fit(["a b"], [["A", "B"]])
    with pytest.raises(DataError, match=r'^the tags of sentence 0 is one text, "AB"; expected a list of its tags'):
        Tagger().fit([["a", "b"]], ["AB"])
    two = TextClassifier(model="gru", **SMALL).fit([["a", "b"], ["c", "d"]] * 4, LABELS)
    with pytest.raises(DataError, match=r"1 column of texts, but .* trained on 2: a row is a list of 2 texts"):
        two.predict_proba(["ab"])


def test_several_texts_in_place_of_one_are_refused():
    model = LanguageModel(steps=1, context=4, model_dim=8, num_layers=1, num_heads=1).fit("abab" * 20)
    for make in (
        lambda: model.fit(["ab"]),
        lambda: model.fit("abab" * 20, validation=["ab"]),
        lambda: model.generate(["ab"]),
        lambda: model.score(["abab"]),
    ):
        with pytest.raises(SettingError, match="takes one text, a str, not list; join several"):
            make()
    writer = Translator(**SMALL).fit(["a dog"] * 4, ["ein Hund"] * 4)
    for learned in (model, writer):
        with pytest.raises(DataError, match="explain: item is a list, where one text, a str, is expected"):
            learned.explain(["a"])


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: MoleculeRegressor().fit(["C", "CC"], pd.Series([1, "1,5"], index=["a", "b"])),
            r"row 1 \(index 'b'\) of y: '1,5' is not a number; write a point in place of the comma",
        ),
        (
            lambda: TextRegressor().fit(["a", "b"], [[1, 2], [3, "x"]]),
            "row 1 of y, column 1: 'x' is not a number; None",
        ),
        (lambda: TextRegressor().fit(["a", "b"], [1.0, 2.0], sample_weight=[1, "x"]), "row 1 of sample_weight: 'x'"),
        (
            lambda: TextRegressor().fit(["a", "b"], [1.0, 2.0], validation=(["c"], ["2 kg"])),
            "row 0 of validation of y: '2 kg' is not a number",
        ),
        (lambda: GraphNodes([["1", "x"]] * 6, EDGES), "row 0 of X, column 1: 'x' is not a number"),
        (lambda: GraphNodes(FEATURES, EDGES, [["x"]] * 6), "row 0 of edge_features, column 0: 'x' is not a number"),
        (lambda: Forecaster().fit([[1.0, "1,5"]] * 9), "row 0 of X, column 1: '1,5' is not a number; write a point"),
    ],
)
def test_what_is_no_number_is_named_with_its_row(make, message):
    with pytest.raises(DataError, match=message):
        make()


def test_missing_targets_of_pandas_are_missing():
    y = pd.DataFrame({"a": [1.0, pd.NA, 3.0, 4.0], "b": [2.0, 2.5, 1.0, 3.0]}, dtype=object)
    fitted = TextRegressor(model="gru", random_state=0, **SMALL).fit(["a b"] * 4, y)
    assert np.isfinite(fitted.score(["a b"] * 4, y))


TABLE = pd.DataFrame({"text": ["a", "b"]})


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Translator().fit(TABLE, ["A", "B"]), "fit: X is a DataFrame; give the one of its columns"),
        (lambda: Translator().fit(["a", "b"], TABLE), "fit: y is a DataFrame; give the one of its columns"),
        (lambda: Tagger().fit(TABLE, [["A"]]), "sentences is a DataFrame; give the one of its columns"),
        (
            lambda: TextRegressor().fit(iter(["a", "b"]), [1.0, 2.0]),
            "X is a list_iterator, which can be read only once",
        ),
        (lambda: Translator().fit(map(str, [1]), ["A"]), "fit: X is a map, which can be read only once; put it into"),
    ],
)
def test_tables_and_iterators_are_no_lists_of_texts(make, message):
    with pytest.raises(DataError, match=message):
        make()


@pytest.mark.parametrize(
    ("make", "where"),
    [
        (
            lambda text: TextClassifier(**SMALL).fit(["a good film", text] * 8, ["yes", "no"] * 8),
            "row 1, column 'text':",
        ),
        (lambda text: MoleculeRegressor(epochs=1).fit(["C", text] * 8, range(16)), "row 1, column 'smiles':"),
        (lambda text: Translator(**SMALL).fit(["one two", text] * 8, ["eins zwei", "zwei"] * 8), "text"),
        (lambda text: LanguageModel(**SMALL).fit(text + "la " * 500), "text"),
    ],
)
def test_half_a_character_is_refused_where_texts_enter(make, where):
    """It ended in errors of pyarrow and of tokenizers about UTF-8 and types."""
    with pytest.raises(DataError, match=rf"{where} holds half a character, '.ud800' at position 2, a lone surrogate"):
        make("a \ud800 b")


def test_half_a_character_costs_its_own_row_only():
    """It ended the prediction of all rows."""
    read = texts_from_arrays(["a good film", "a \ud800 b", "a bad film"])
    assert read.rows.status[::2] == ["ok", "ok"]
    assert read.rows.status[1] == "text: holds half a character, '\\ud800' at position 2, a lone surrogate"
    molecules = molecules_from_arrays(["C\ud800", "CC"], with_descriptors=False)
    assert molecules.rows.status[0].startswith("smiles: holds half a character")
    assert molecules.rows.status[1] == "ok"
    assert molecules.rows.rejected[0].value == "C\\ud800"
