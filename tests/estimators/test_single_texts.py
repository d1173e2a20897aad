"""A text where several are expected is an error: Python would take it apart into its characters."""

import numpy as np
import pandas as pd
import pytest
import torch

from edgewise import DataError, Edges, ShapeError
from edgewise.data.molecules.feature import Chem
from edgewise.data.molecules.similarity import similarity
from edgewise.data.molecules.table import table_from_arrays
from edgewise.data.texts.table import texts_from_arrays
from edgewise.estimators import (
    MoleculeClassifier,
    MoleculeRegressor,
    Tagger,
    TextClassifier,
    TextRegressor,
    Translator,
)
from edgewise.graph import Graph

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
LABELS = np.array(["a", "b"] * 4)
SMALL = {"epochs": 1, "model_dim": 8, "num_layers": 1}


@pytest.mark.parametrize(
    ("make", "argument"),
    [
        (lambda: TextClassifier().fit("abcdefgh", LABELS), "X"),
        (lambda: TextClassifier().fit(["a text"] * 8, "abababab"), "y"),
        (lambda: TextRegressor().fit("abcdefgh", np.arange(8.0)), "X"),
        (lambda: TextClassifier().fit(["a text"] * 8, LABELS, validation=("abcdefgh", LABELS)), "X"),
        (lambda: MoleculeClassifier().fit("CCCCCCCC", LABELS), "X"),
        (lambda: MoleculeRegressor().fit("CCCCCCCC", np.arange(8.0)), "X"),
        (lambda: Tagger().fit("ab", [["A"], ["B"]]), "sentences"),
        (lambda: Tagger().fit([["a"], ["b"]], "AB"), "tags"),
        (lambda: Translator().fit("ab", ["A", "B"]), "fit"),
        (lambda: texts_from_arrays("ab"), "text"),
        (lambda: table_from_arrays("CO"), "smiles"),
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


def test_molecules_of_rdkit_are_molecules():
    """They became the text `<rdkit.Chem.rdchem.Mol ...>`, which no molecule is, and NaN was predicted."""
    mols = [Chem.MolFromSmiles(text) for text in ("CCO", "c1ccccc1")]
    assert list(table_from_arrays(mols).store.canonical) == ["CCO", "c1ccccc1"]
    pairs = table_from_arrays([[mols[0], "C"], ["N", mols[1]]])
    assert [[pairs.store.canonical[place] for place in row] for row in pairs.graph_of_row] == [
        ["CCO", "C"], ["N", "c1ccccc1"]
    ]  # fmt: skip
    table = table_from_arrays(pd.DataFrame({"a": mols}).to_numpy()[:, 0])
    assert table.usable.all()


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
