"""Explicit signatures: scikit-learn's own checks of them, and graphs with types that come as a whole or in parts."""

import inspect
import warnings
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.utils import estimator_checks

import edgewise.learn.estimators as estimators
from edgewise import Edges, Graph, LinkPredictor, NodeClassifier, SettingError
from edgewise.neighborhood import Types

FEW = {"epochs": 2, "model_dim": 8, "device": "cpu"}
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(20, 3)), np.arange(20) % 2
INDEX = np.stack([np.arange(20), (np.arange(20) + 3) % 20])
NAMES = sorted(set(estimators.__all__) - {"GraphEdges", "GraphNodes", "NodeKFold"})


def test_types_beside_features_and_in_a_graph():
    nodes, edges = ["even", "odd"] * 10, ["next"] * 20
    settings = {"model": "rgcn", **FEW}
    by_parts = NodeClassifier(**settings).fit(X, Y, INDEX, node_types=nodes, edge_types=edges)
    probabilities = by_parts.predict_proba(X, INDEX, node_types=nodes, edge_types=edges)

    ends = [(nodes[sender], "next", nodes[receiver]) for sender, receiver in INDEX.T]
    types = {"node_types": Types.of(nodes), "edge_types": Types.of(ends)}
    graph = Graph(torch.tensor(X), Edges.from_edge_index(torch.tensor(INDEX), 20), **types)
    np.testing.assert_array_equal(NodeClassifier(**settings).fit(graph, Y).predict_proba(graph), probabilities)
    with pytest.raises(TypeError, match="unexpected keyword argument 'kinds'"):
        NodeClassifier(**settings).fit(X, Y, INDEX, kinds=nodes)


def test_edges_of_links_may_be_y():
    words = np.array(["train", "train", "train", "val", "test"] * 4)
    small = {"model": "gcn", "baselines": False, **FEW}
    by_y, by_name = LinkPredictor(**small), LinkPredictor(**small)
    by_y.fit(X, INDEX, splits=words)
    by_name.fit(X, edges=INDEX, splits=words)
    pairs = [[0, 5], [2, 7]]
    np.testing.assert_array_equal(by_y.predict_proba(pairs), by_name.predict_proba(pairs))
    assert by_y.fingerprint().shape == (20, 8)


def test_warnings_point_to_the_line_that_called():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        NodeClassifier(**FEW).fit(None, np.arange(20) % 3 - 1, INDEX)
    assert {Path(warning.filename).name for warning in caught} == {"test_signatures.py"}
    assert len(caught) >= 2


def test_a_logger_that_would_get_nothing_is_refused():
    assert NodeClassifier(logger="csv", **FEW).fit(X, Y, INDEX).logger == "csv", "as in folders of the command line"
    for logger in ("wandb", "mlflow", "tensorboard"):
        with pytest.raises(SettingError, match=f"logger is '{logger}'; an estimator writes no logs: leave it out"):
            NodeClassifier(logger=logger, **FEW).fit(X, Y, INDEX)


@pytest.mark.parametrize("name", NAMES)
def test_the_checks_of_scikit_learn_that_apply(name):
    estimator = getattr(estimators, name)()
    names = [
        *("check_estimator_cloneable", "check_estimator_tags_renamed", "check_valid_tag_types", "check_estimator_repr"),
        *("check_no_attributes_set_in_init", "check_parameters_default_constructible", "check_mixin_order"),
    ]
    for check in names:
        if hasattr(estimator_checks, check):
            getattr(estimator_checks, check)(name, estimator)
    fit = list(inspect.signature(estimator.fit).parameters)
    assert fit[:2] == ["X", "y"] and {"sample_weight", "validation"} <= set(fit)
    explain = list(inspect.signature(estimator.explain).parameters)
    assert explain[0] == "item"
    for method in ("fit", "predict", "score", "explain"):
        listed = inspect.signature(getattr(estimator, method, estimator.fit)).parameters.values()
        assert not {parameter.kind for parameter in listed} & {
            inspect.Parameter.VAR_POSITIONAL,
            inspect.Parameter.VAR_KEYWORD,
        }
