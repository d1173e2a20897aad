"""Old calls of estimators give the same as new ones, with a note; scikit-learn's own checks pass where they apply."""

import inspect

import numpy as np
import pytest
import torch
from sklearn.utils import estimator_checks

import edgewise.learn.estimators as estimators
from edgewise import Edges, Graph, LinkPredictor, NodeClassifier
from edgewise.neighborhood import Types

FEW = {"epochs": 2, "model_dim": 8, "device": "cpu"}
RANDOM = np.random.default_rng(0)
X, Y = RANDOM.normal(size=(20, 3)), np.arange(20) % 2
INDEX = np.stack([np.arange(20), (np.arange(20) + 3) % 20])
NAMES = sorted(set(estimators.__all__) - {"GraphEdges", "GraphNodes", "NodeKFold"})


def test_types_by_their_old_names_and_in_a_graph():
    nodes, edges = ["even", "odd"] * 10, ["next"] * 20
    settings = {"model": "rgcn", **FEW}
    expected = NodeClassifier(**settings).fit(X, Y, INDEX, node_types=nodes, edge_types=edges)
    found = expected.predict_proba(X, INDEX, node_types=nodes, edge_types=edges)
    with pytest.warns(DeprecationWarning, match="NodeClassifier.fit: (node|edge)_kinds is now (node|edge)_types"):
        old = NodeClassifier(**settings).fit(X=X, y=Y, edges=INDEX, node_kinds=nodes, edge_kinds=edges)
    with pytest.warns(DeprecationWarning, match="predict_proba: (node|edge)_kinds is now (node|edge)_types"):
        np.testing.assert_array_equal(old.predict_proba(X, INDEX, node_kinds=nodes, edge_kinds=edges), found)
    ends = [(nodes[sender], "next", nodes[receiver]) for sender, receiver in INDEX.T]
    types = {"node_types": Types.of(nodes), "edge_types": Types.of(ends)}
    graph = Graph(torch.tensor(X), Edges.from_edge_index(torch.tensor(INDEX), 20), **types)
    np.testing.assert_array_equal(NodeClassifier(**settings).fit(graph, Y).predict_proba(graph), found)
    with pytest.raises(TypeError, match=r"NodeClassifier.fit\(\) got an unexpected keyword argument 'kinds'"):
        NodeClassifier(**settings).fit(X, Y, INDEX, kinds=nodes)


def test_splits_of_links_and_pairs_by_their_old_names():
    words = np.array(["train", "train", "train", "val", "test"] * 4)
    small = {"model": "gcn", "baselines": False, **FEW}
    expected = LinkPredictor(**small).fit(X, INDEX, splits=words)
    with pytest.warns(DeprecationWarning, match="LinkPredictor.fit: parts is now splits"):
        old = LinkPredictor(**small).fit(X, INDEX, parts=words)
    pairs = [[0, 5], [2, 7]]
    with pytest.warns(DeprecationWarning, match="pairs is now data"):
        np.testing.assert_array_equal(old.predict_proba(pairs=pairs), expected.predict_proba(pairs))
    assert expected.explain((0, 5)).title == expected.explain(0, 5).title
    assert expected.fingerprint().shape == (20, 8)


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
    assert fit[:2] == ["data", "y"] and {"sample_weight", "validation"} <= set(fit)
    explain = list(inspect.signature(estimator.explain).parameters)
    assert explain[0] == "item"
