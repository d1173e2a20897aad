"""The graph that a model of links keeps: to the tensors of a file and back, and what of a damaged file is refused."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from edgewise import DataError
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.link_graph import LinkGraph
from edgewise.learn.readers.graphs.node_features import NodeFeatures


def graph(names=("a", "b", "c")):
    edges = EdgeList(np.array([0, 1]), np.array([1, 2]), np.array([[0.5], [2.0]], dtype=np.float32))
    return LinkGraph("the graph", names, NodeFeatures.of(np.array([[1.0, 0.0], [0.0, 2.0], [0.0, 0.0]])), edges)


@pytest.mark.parametrize("names", [("a", "b", "c"), ("0", "1", "2")])
def test_a_graph_comes_back_from_its_tensors_and_takes_them_out_of_the_others(names):
    written = graph(names)
    tensors = {**written.to_tensors(), "model.weight": torch.zeros(1)}
    read = LinkGraph.from_tensors(tensors)
    assert list(tensors) == ["model.weight"]
    assert (read.names, read.source) == (names, "the graph of the training")
    np.testing.assert_array_equal(read.features.to_dense(), written.features.to_dense())
    for name in ("senders", "receivers", "features"):
        np.testing.assert_array_equal(getattr(read.edges, name), getattr(written.edges, name))


def test_numbers_of_nodes_are_not_written_as_names():
    assert not graph(("0", "1", "2")).to_tensors()["graph.names"].numel()
    assert json.loads(graph().to_tensors()["graph.names"].numpy().tobytes()) == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("name", "tensor", "message"),
    [
        ("senders", None, "senders: missing or unknown"),
        ("senders", torch.tensor([0, 3]), "senders does not fit the other arrays"),
        ("receivers", torch.tensor([0]), "receivers does not fit the other arrays"),
        ("feature_columns", torch.tensor([0, 2]), "feature_columns does not fit"),
        ("edge_features", torch.tensor([1.0, 2.0]), "edge_features is float32"),
        ("edge_features", torch.tensor([[1.0], [float("inf")]]), "a feature is not finite"),
        ("feature_shape", torch.tensor([-1, 2]), "feature_shape is not a pair of counts"),
        ("rejected_ends", torch.tensor([[-2, 0]]), "rejected_ends does not fit"),
        ("rejected_ends", torch.tensor([[0, 1, 2]]), "rejected_ends does not fit"),
        ("unread", torch.tensor([3]), "unread does not fit"),
        ("names", torch.tensor(list(b'["a"]'), dtype=torch.uint8), "expected the names of 3 nodes"),
        ("names", torch.tensor(list(b"{"), dtype=torch.uint8), "names of the nodes cannot be read"),
    ],
)
def test_damaged_tensors_are_refused(name, tensor, message):
    tensors = graph().to_tensors()
    if tensor is None:
        del tensors[f"graph.{name}"]
    else:
        tensors[f"graph.{name}"] = tensor
    with pytest.raises(DataError, match=message):
        LinkGraph.from_tensors(tensors)


def test_a_count_alone_does_not_make_names():
    tensors = graph(("0", "1", "2")).to_tensors()
    tensors["graph.feature_shape"] = torch.tensor([2**40, 2])
    with pytest.raises(DataError, match="but the other arrays are small"):
        LinkGraph.from_tensors(tensors)


def test_what_could_not_be_read_comes_back_and_may_be_missing():
    written = graph()
    written = replace(written, edges=replace(written.edges, rejected_ends=np.array([[-1, 2]])), unread=(1,))
    tensors = written.to_tensors()
    older = {name: tensor for name, tensor in tensors.items() if name not in ("graph.rejected_ends", "graph.unread")}
    read = LinkGraph.from_tensors(tensors)
    assert (read.edges.rejected_ends.tolist(), list(read.unread)) == ([[-1, 2]], [1])
    read = LinkGraph.from_tensors(older)
    assert (read.edges.rejected_ends.shape, list(read.unread)) == ((0, 2), [])
