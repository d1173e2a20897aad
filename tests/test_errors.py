"""Every message of the operator: what it names, both sizes, the remedy."""

import math
import re

import numpy
import pytest
import torch

from edgewise import (
    Additive,
    Bilinear,
    Causal,
    Constant,
    Distance,
    Dot,
    Edges,
    EdgewiseError,
    Full,
    GATv2,
    Lengths,
    Mask,
    MeanConvolution,
    MissingExtraError,
    ScaledDot,
    Segments,
    SettingError,
    ShapeError,
    Softmax,
    Sparsemax,
    SymmetricConvolution,
    UnsupportedError,
    Window,
    aggregate,
    attend,
    attention_weights,
    why,
)
from edgewise.errors import DataError, RunFolderError, WriteError
from edgewise.layers import GraphAttention
from edgewise.score import GAT

pytestmark = pytest.mark.usefixtures("shapes_unchecked")

EDGES = Edges(torch.tensor([0, 1]), torch.tensor([1, 0]), 6, 5)


def tensors(**changed):
    """Query (2, 5, 4), key (2, 6, 4) and value (2, 6, 3), with some of them changed."""
    shapes = {"query": (2, 5, 4), "key": (2, 6, 4), "value": (2, 6, 3)}
    found = {name: torch.randn(shape) for name, shape in shapes.items()}
    return found | {name: torch.randn(x) if isinstance(x, tuple) else x for name, x in changed.items()}


SHAPES = {
    "key": (tensors(value=(2, 7, 3)), "attend: axis 'key' is 6 in key but 7 in value."),
    "key_dim": (tensors(key=(2, 6, 5)), "attend: axis 'key_dim' is 4 in query but 5 in key."),
    "batch": (tensors(key=(3, 6, 4)), "attend: axis 'batch -1' is 2 in query but 3 in key."),
    "outer batch": (
        tensors(query=(7, 2, 5, 4), value=(5, 1, 6, 3)),
        "attend: axis 'batch -2' is 7 in query but 5 in value.",
    ),
    "batch of none": (tensors(query=(0, 5, 4)), "attend: axis 'batch -1' is 0 in query but 2 in key."),
    "array": (
        tensors(query=numpy.ones((2, 5, 4))),
        "attend: query must be a tensor, not ndarray; torch.as_tensor(query) makes one of it.",
    ),
    "list": (tensors(bias=[0.5]), "attend: bias must be a tensor, not list; torch.as_tensor(bias) makes one of it."),
    "neighborhood as key": (tensors(key=EDGES), "attend: key must be a tensor, not Edges; it goes to neighborhood=."),
    "edge_index as key": (
        tensors(key=torch.tensor([[0, 1], [1, 0]])),
        "attend: key must be floating point, not torch.int64. Pass an edge_index as neighborhood=edge_index.",
    ),
    "no value": (
        tensors(value=None),
        "attend: value must be a tensor, not NoneType; without values there are weights alone: attention_weights.",
    ),
    "only one key": (
        tensors(query=(5, 4), key=(4,), value=(4,)),
        "attend: key must have the axes (…, node, feature), not shape (4,).",
    ),
    "rank of key": (tensors(key=(4,)), "attend: key must have the axes (…, node, feature), not shape (4,)."),
    "rank of value": (tensors(value=(6,)), "attend: value must have the axes (…, node, feature), not shape (6,)."),
    "rank of query": (tensors(query=()), "attend: query must have the axes (…, node, feature), not shape ()."),
    "rank of bias": (tensors(bias=()), "attend: bias must have the axes (…, query, key), not shape ()."),
    "bias key": (tensors(bias=(5, 5)), "attend: axis 'key' is 6 in key but 5 in bias."),
    "bias query": (tensors(bias=(2, 6, 6)), "attend: axis 'query' is 5 in query but 6 in bias."),
    "bias batch": (tensors(bias=(3, 5, 6)), "attend: axis 'batch -1' is 2 in query but 3 in bias."),
    "bias edge": (
        tensors(neighborhood=EDGES, bias=(2, 3)),
        "attend: axis 'edge' is 2 in the neighborhood but 3 in bias.",
    ),
    "edge_key edge": (
        tensors(neighborhood=EDGES, edge_key=(3, 4)),
        "attend: axis 'edge' is 2 in the neighborhood but 3 in edge_key.",
    ),
    "edge_key feature": (
        tensors(neighborhood=EDGES, edge_key=(2, 3)),
        "attend: axis 'key_dim' is 4 in key but 3 in edge_key.",
    ),
    "edge_value edge": (
        tensors(neighborhood=EDGES, edge_value=(1, 3)),
        "attend: axis 'edge' is 2 in the neighborhood but 1 in edge_value.",
    ),
    "edge_value feature": (
        tensors(neighborhood=EDGES, edge_value=(2, 4)),
        "attend: axis 'value_dim' is 3 in value but 4 in edge_value.",
    ),
    "edge_key without edges": (
        tensors(edge_key=(2, 4)),
        "attend: edge_key needs Edges, not Full; to_edges() makes them.",
    ),
    "edge_value without edges": (
        tensors(neighborhood=EDGES & Full(), edge_value=(2, 3)),
        "attend: edge_value needs Edges, not Intersection; to_edges() makes them.",
    ),
    "edges query": (
        tensors(neighborhood=Edges(torch.tensor([0]), torch.tensor([1]), 6, 4)),
        "attend: axis 'query' is 5 in query but 4 in Edges.",
    ),
    "edges key": (
        tensors(neighborhood=Edges(torch.tensor([0]), torch.tensor([1]), 5, 5)),
        "attend: axis 'key' is 6 in key but 5 in Edges.",
    ),
    "mask query": (
        tensors(neighborhood=Mask(torch.ones(4, 6, dtype=torch.bool))),
        "attend: axis 'query' is 5 in query but 4 in Mask.",
    ),
    "mask batch": (
        tensors(neighborhood=Mask(torch.ones(3, 5, 6, dtype=torch.bool))),
        "attend: axis 'batch -1' is 2 in query but 3 in Mask.",
    ),
    "lengths batch": (
        tensors(neighborhood=Lengths(torch.tensor([1, 2, 3]))),
        "attend: axis 'batch -1' is 2 in query but 3 in Lengths.",
    ),
    "lengths batch in a joint": (
        tensors(neighborhood=Causal() & Lengths(torch.tensor([1, 2, 3]))),
        "attend: axis 'batch -1' is 2 in query but 3 in RangeIntersection.",
    ),
    "parts": (
        tensors(neighborhood=Mask(torch.ones(5, 6, dtype=torch.bool)) | Mask(torch.ones(5, 7, dtype=torch.bool))),
        "Union: axis 'key' is 6 in one part but 7 in another.",
    ),
    "batches of parts": (
        tensors(neighborhood=Lengths(torch.tensor([1, 2])) & Lengths(torch.tensor([1, 2, 3]))),
        "RangeIntersection: axis 'batch -1' is 2 in one part but 3 in another.",
    ),
    "batches of parts of a union": (
        tensors(neighborhood=Lengths(torch.tensor([1, 2])) | Lengths(torch.tensor([1, 2, 3]))),
        "Union: axis 'batch -1' is 2 in one part but 3 in another.",
    ),
    "vector": (
        tensors(score=Additive(torch.ones(3))),
        "attend: axis 'key_dim' is 4 in key but 3 in Additive.vector.",
    ),
    "vector of one": (
        tensors(score=GATv2(torch.ones(1))),
        "attend: axis 'key_dim' is 4 in key but 1 in GATv2.vector.",
    ),
    "vector batch": (
        tensors(score=Additive(torch.ones(3, 4))),
        "attend: axis 'batch -1' is 2 in query but 3 in Additive.vector.",
    ),
    "query_vector": (
        tensors(score=GAT(torch.ones(3), torch.ones(4))),
        "attend: axis 'query_dim' is 4 in query but 3 in GAT.query_vector.",
    ),
    "key_vector": (
        tensors(score=GAT(torch.ones(4), torch.ones(3))),
        "attend: axis 'key_dim' is 4 in key but 3 in GAT.key_vector.",
    ),
    "weight rows": (
        tensors(score=Bilinear(torch.ones(3, 4))),
        "attend: axis 'query_dim' is 4 in query but 3 in Bilinear.weight.",
    ),
    "weight columns": (
        tensors(score=Bilinear(torch.ones(4, 3))),
        "attend: axis 'key_dim' is 4 in key but 3 in Bilinear.weight.",
    ),
    "length batch": (
        tensors(score=Distance(length=torch.ones(3))),
        "attend: axis 'batch -1' is 2 in query but 3 in Distance.length.",
    ),
    "temperature batch": (
        tensors(normalize=Softmax(torch.ones(3))),
        "attend: axis 'batch -1' is 2 in query but 3 in Softmax.temperature.",
    ),
    "constant": (
        tensors(neighborhood=EDGES, score=Constant(torch.ones(3))),
        "attend: axis 'edge' is 2 in the neighborhood but 3 in Constant.edge_weight.",
    ),
    "constant table": (
        tensors(score=Constant(torch.ones(5, 5))),
        "attend: axis 'key' is 6 in key but 5 in Constant.edge_weight.",
    ),
    "whole numbers": (
        tensors(query=torch.ones(2, 5, 4, dtype=torch.int64)),
        "attend: query must be floating point, not torch.int64. query.float() makes it so.",
    ),
    "boolean bias": (
        tensors(bias=torch.ones(5, 6, dtype=torch.bool)),
        "attend: bias must be floating point, not torch.bool. Pass a boolean mask as neighborhood=Mask(mask).",
    ),
    "complex": (
        tensors(value=torch.ones(2, 6, 3, dtype=torch.complex64)),
        "attend: value must be floating point, not torch.complex64.",
    ),
    "dtype": (
        tensors(value=torch.ones(2, 6, 3, dtype=torch.float64)),
        "attend: dtype is torch.float32 in query but torch.float64 in value.",
    ),
    "device": (
        tensors(key=torch.ones(2, 6, 4, device="meta")),
        "attend: query is on cpu but key is on meta.",
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_wrong_shape_names_the_axis_the_arguments_and_both_sizes(name):
    arguments, message = SHAPES[name]
    for backend in ("auto", "reference", "gather"):
        with pytest.raises(ShapeError) as caught:
            attend(**arguments, backend=backend)
        assert str(caught.value) == message


def test_what_is_on_another_device_is_named():
    x, edges = torch.ones(5, 4, device="meta"), Edges([0, 1], [1, 0], 5, 5)
    table, lengths = Mask(torch.ones(5, 5, dtype=torch.bool)), Lengths(torch.tensor(3))
    elsewhere = [edges, table, lengths, Segments([0, 5]), Causal() & lengths, table.to("meta") | edges, edges | table]
    for neighborhood in [*elsewhere, edges | table.to("meta")]:
        remedy = f"meta but {type(neighborhood).__name__} is on cpu; neighborhood.to('meta') moves it."
        for verb, call in (
            ("attend", lambda nb: attend(x, x, x, nb)),
            ("attention_weights", lambda nb: attention_weights(x, x, nb)),
            ("aggregate", lambda nb: aggregate(x, nb)),
            ("why", lambda nb: why(x, x, x, nb)),
        ):
            with pytest.raises(ShapeError, match=re.escape(f"{verb}: the tensors are on {remedy}")):
                call(neighborhood)
    for layer in (SymmetricConvolution(4, 3), MeanConvolution(4, 3), GraphAttention(4, 2)):
        with pytest.raises(ShapeError, match=re.escape("Edges is on cpu; neighborhood.to('meta') moves it.")):
            layer.to("meta")(x, edges)
    with pytest.raises(ShapeError, match=r"^attend: query is on meta but GATv2\.vector is on cpu\.$"):
        attend(x, x, x, score=GATv2(torch.ones(4)))


def test_the_verb_that_was_called_is_named():
    query, key = torch.randn(5, 4), torch.randn(6, 3)
    for verb, call in (
        ("attention_weights", lambda: attention_weights(query, key)),
        ("why", lambda: why(query, key, key)),
        ("attend", lambda: attend(query, key, key)),
    ):
        with pytest.raises(ShapeError, match=rf"^{verb}: axis 'key_dim' is 4 in query but 3 in key\.$"):
            call()
    with pytest.raises(ShapeError, match=r"^aggregate: axis 'key' is 5 in key but 6 in Edges\.$"):
        aggregate(query, EDGES)
    with pytest.raises(ShapeError, match=r"^aggregate: axis 'query' is 4 in query but 5 in Edges\.$"):
        aggregate(torch.randn(6, 3), EDGES, num_queries=4)
    with pytest.raises(ShapeError, match=r"^aggregate: value must be a tensor, not ndarray; torch\.as_tensor\(value\)"):
        aggregate(numpy.ones((6, 3)), EDGES)
    with pytest.raises(
        ShapeError, match=r"^aggregate: value must have the axes \(…, node, feature\), not shape \(6,\)"
    ):
        aggregate(torch.randn(6), EDGES)


MISUSES = {
    "mask as neighborhood": (
        lambda: attend(**tensors(neighborhood=torch.ones(5, 6, dtype=torch.bool))),
        "attend: neighborhood must be a Neighborhood or an edge_index, not a tensor (5, 6) of torch.bool; use "
        "Mask(mask), True = may attend.",
    ),
    "matrix as neighborhood": (
        lambda: attention_weights(torch.ones(5, 2), torch.ones(6, 2), torch.ones(5, 6)),
        "attention_weights: neighborhood must be a Neighborhood or an edge_index, not a tensor (5, 6) of "
        "torch.float32; use Edges.from_adjacency for a matrix; an additive mask goes to bias.",
    ),
    "class as neighborhood": (
        lambda: attend(**tensors(neighborhood=Causal)),
        "attend: neighborhood must be a Neighborhood or an edge_index, not the class Causal; write Causal(…).",
    ),
    "no neighborhood": (
        lambda: aggregate(torch.ones(2, 2), None),
        "aggregate: neighborhood must be a Neighborhood or an edge_index, not None; use Full() to attend to all keys.",
    ),
    "array as neighborhood": (
        lambda: aggregate(torch.ones(2, 2), numpy.ones((2, 1), dtype=int)),
        "aggregate: neighborhood must be a Neighborhood or an edge_index, not ndarray; Edges.from_edge_index takes "
        "arrays and lists, Edges.from_adjacency matrices.",
    ),
    "score's class": (
        lambda: attend(**tensors(score=Dot)),
        "attend: score must be an object, such as ScaledDot(), or a function, not the class Dot; write Dot(…).",
    ),
    "score's name": (
        lambda: attention_weights(torch.ones(2, 2), torch.ones(2, 2), score="dot"),
        "attention_weights: score must be an object, such as ScaledDot(), or a function, not 'dot'.",
    ),
    "normalizer's name": (
        lambda: why(**tensors(normalize="softmax")),
        "why: normalize must be an object, such as Softmax(), or a function, not 'softmax'.",
    ),
    "dropout in words": (
        lambda: attend(**tensors(dropout="0.1")),
        "attend: dropout must be at least 0 and less than 1, not '0.1'.",
    ),
    "dropout": (lambda: attend(**tensors(dropout=1.0)), "attend: dropout must be at least 0 and less than 1, not 1.0."),
    "dropout nan": (
        lambda: attend(**tensors(dropout=math.nan)),
        "attend: dropout must be at least 0 and less than 1, not nan.",
    ),
    "backend": (
        lambda: attend(**tensors(backend="fast")),
        "backend must be one of auto, sdpa, varlen, flex, uniform, triton, numba, gather, reference, not 'fast'.",
    ),
    "backend, a list": (
        lambda: attend(**tensors(backend=["numba"])),
        "backend must be one of auto, sdpa, varlen, flex, uniform, triton, numba, gather, reference, not ['numba'].",
    ),
    "how": (
        lambda: aggregate(torch.ones(2, 2), how="prod"),
        "aggregate: how must be 'sum', 'mean', 'max' or 'min', not 'prod'.",
    ),
    "top": (
        lambda: attention_weights(torch.ones(2, 2), torch.ones(2, 2), top=0),
        "attention_weights: top must be a whole number of at least 1, not 0.",
    ),
    "temperature": (lambda: Softmax(-0.1), "Softmax: temperature must not be negative, not -0.1."),
    "temperature nan": (lambda: Softmax(math.nan), "Softmax: temperature must not be negative, not nan."),
    "temperature tensor": (
        lambda: Softmax(torch.tensor([0.5, -1.0])),
        "Softmax: temperature must be positive where it is a tensor, not -1.0.",
    ),
    "temperature tensor zero": (
        lambda: Softmax(torch.tensor(0.0, requires_grad=True)),
        "Softmax: temperature must be positive where it is a tensor, not 0.0; the number 0 is Hardmax: Softmax(0).",
    ),
    "temperature word": (lambda: Softmax("hot"), "Softmax: temperature must be a number, not 'hot'."),
    "length tensor": (lambda: Distance(length=torch.tensor(-2.0)), "Distance: length must be positive, not -2.0."),
    "length nan": (lambda: Distance(length=math.nan), "Distance: length must be a number, not nan."),
    "scale": (lambda: ScaledDot(math.inf), "ScaledDot: scale must be a finite number, not inf."),
    "scale tensor": (lambda: ScaledDot(torch.tensor(2.0)), "ScaledDot: scale must be a number, not tensor(2.)."),
    "slope": (lambda: GATv2(torch.ones(3), math.nan), "GATv2: negative_slope must be a number, not nan."),
    "slope of GAT": (
        lambda: GAT(torch.ones(3), torch.ones(3), -math.inf),
        "GAT: negative_slope must be a finite number, not -inf.",
    ),
    "constant": (lambda: Constant(math.nan), "Constant: edge_weight must be a number, not nan."),
    "activation": (
        lambda: Additive(torch.ones(3), "sin"),
        "Additive: activation must be one of tanh, relu, sigmoid, silu, gelu, not 'sin'.",
    ),
    "activation, a list": (
        lambda: Additive(torch.ones(3), ["tanh"]),
        "Additive: activation must be one of tanh, relu, sigmoid, silu, gelu, not ['tanh'].",
    ),
    "kind": (lambda: Distance("cosine"), "Distance: kind must be 'gaussian' or 'laplacian', not 'cosine'."),
    "length": (lambda: Distance(length=0.0), "Distance: length must be positive, not 0.0."),
}


@pytest.mark.parametrize("name", MISUSES)
def test_a_setting_that_cannot_be(name):
    call, message = MISUSES[name]
    with pytest.raises(SettingError) as caught:
        call()
    assert str(caught.value) == message


STRUCTURES = {
    "mask dtype": (
        lambda: Mask(torch.ones(2, 3)),
        "Mask: expected bool of shape (*batch, query, key), True = may attend, not torch.float32 of shape (2, 3); "
        "an additive mask goes to bias.",
    ),
    "mask rank": (
        lambda: Mask(torch.ones(3, dtype=torch.bool)),
        "Mask: expected bool of shape (*batch, query, key), True = may attend, not torch.bool of shape (3,); "
        "an additive mask goes to bias.",
    ),
    "edge count": (lambda: Edges([0, 1], [1], 2, 2), "Edges: axis 'edge' is 2 in senders but 1 in receivers."),
    "edge rank": (
        lambda: Edges([[0, 1]], [[1, 0]], 2, 2),
        "Edges: senders must have the one axis 'edge', not shape (1, 2).",
    ),
    "sender too large": (lambda: Edges([0, 2], [1, 0], 2, 2), "Edges: senders must lie in 0 … 1; found 2."),
    "receiver negative": (lambda: Edges([0, 1], [-1, 0], 2, 2), "Edges: receivers must lie in 0 … 1; found -1."),
    "fractions": (lambda: Edges([0.5], [0], 2, 2), "Edges: senders must be whole numbers (int64), not torch.float32."),
    "booleans": (lambda: Edges([True], [0], 2, 2), "Edges: senders must be whole numbers (int64), not torch.bool."),
    "edge_index": (
        lambda: Edges.from_edge_index(torch.zeros(3, 2, dtype=torch.int64), 3),
        "from_edge_index: edge_index must be (2, edge), not (3, 2).",
    ),
    "adjacency": (
        lambda: Edges.from_adjacency(numpy.ones(3)),
        "from_adjacency: adjacency must have the axes (query, key), not shape (3,).",
    ),
    "adjacency batched": (
        lambda: Edges.from_adjacency(torch.zeros(2, 3, 3).to_sparse()),
        "from_adjacency: adjacency must have the axes (query, key), not shape (2, 3, 3).",
    ),
    "adjacency hybrid": (
        lambda: Edges.from_adjacency(torch.zeros(2, 3).to_sparse(1)),
        "from_adjacency: adjacency has the layout torch.sparse_coo with 1 dense axes; expected a dense matrix or "
        "torch's COO, CSR or CSC without dense axes; use to_dense().",
    ),
    "adjacency ragged": (
        lambda: Edges.from_adjacency([[0], [1, 2]]),
        "from_adjacency: adjacency must be a tensor, an array or a sparse matrix of torch or SciPy, not list (expected "
        "sequence of length 1 at dim 1 (got 2)).",
    ),
    "edge index of fractions": (
        lambda: Edges.from_edge_index(numpy.ones((2, 1)), 3),
        "from_edge_index: edge_index must be whole numbers (int64), not torch.float64.",
    ),
    "loops of two kinds": (
        lambda: EDGES.with_self_loops(),
        "with_self_loops: senders and receivers are different nodes (6 and 5); expected a single set of nodes.",
    ),
    "undirected of two kinds": (
        lambda: EDGES.undirected(),
        "undirected: senders and receivers are different nodes (6 and 5); expected a single set of nodes.",
    ),
    "lengths fractions": (
        lambda: Lengths([1.5]),
        "Lengths: key_lengths must be whole numbers (int64), not torch.float32.",
    ),
    "query lengths": (
        lambda: Lengths([1], [0.5]),
        "Lengths: query_lengths must be whole numbers (int64), not torch.float32.",
    ),
    "segments decrease": (
        lambda: Segments([0, 3, 2]),
        "Segments: query_offsets must not decrease; they are boundaries, as from cumsum of the sizes.",
    ),
    "segments empty": (
        lambda: Segments([]),
        "Segments: query_offsets must have an axis 'boundary' of at least 1, not (0,).",
    ),
    "segments sizes": (
        lambda: Segments([0, 1], [0, 1, 2]),
        "Segments: axis 'boundary' is 2 in query_offsets but 3 in key_offsets.",
    ),
    "sparse query": (
        lambda: attend(torch.eye(3).to_sparse(), torch.eye(3), torch.eye(3)),
        "attend: query (3, 3) is sparse (torch.sparse_coo); expected a dense tensor: query.to_dense().",
    ),
    "sparse value": (
        lambda: attend(torch.eye(3), torch.eye(3), torch.eye(3).to_sparse(), Edges([0], [1], 3, 3)),
        "attend: value (3, 3) is sparse (torch.sparse_coo); expected a dense tensor: value.to_dense().",
    ),
    "sparse sum": (
        lambda: aggregate(torch.eye(3).to_sparse()),
        "aggregate: value (3, 3) is sparse (torch.sparse_coo); expected a dense tensor: value.to_dense().",
    ),
    "sparse bias": (
        lambda: attend(torch.eye(3), torch.eye(3), torch.eye(3), Edges([0], [1], 3, 3), bias=torch.ones(1).to_sparse()),
        "attend: bias (1,) is sparse (torch.sparse_coo); expected a dense tensor: bias.to_dense().",
    ),
    "sparse edge_value": (
        lambda: aggregate(torch.eye(3), Edges([0], [1], 3, 3), edge_value=torch.ones(1, 3).to_sparse()),
        "aggregate: edge_value (1, 3) is sparse (torch.sparse_coo); expected a dense tensor: edge_value.to_dense().",
    ),
    "sparse vector": (
        lambda: attend(torch.eye(3), torch.eye(3), torch.eye(3), score=GATv2(torch.ones(3).to_sparse())),
        "attend: GATv2.vector (3,) is sparse (torch.sparse_coo); expected a dense tensor: GATv2.vector.to_dense().",
    ),
    "sparse edges": (
        lambda: Edges(torch.tensor([0]).to_sparse(), torch.tensor([1]), 2, 2),
        "Edges: senders (1,) is sparse (torch.sparse_coo); expected a dense tensor: senders.to_dense().",
    ),
    "sparse mask": (
        lambda: Mask(torch.eye(3).bool().to_sparse()),
        "Mask: mask (3, 3) is sparse (torch.sparse_coo); expected a dense tensor: mask.to_dense().",
    ),
    "align": (lambda: Causal("left"), "Causal: align must be 'end' or 'start', not 'left'."),
    "window": (lambda: Window(-1, 0), "Window: before and after must not be negative, not -1 and 0."),
    "window fraction": (lambda: Window(1.5, 0), "Window: before must be a whole number, not 1.5."),
    "window without end": (lambda: Window(0, math.inf), "Window: after must be a whole number, not inf."),
    "edges of fewer than no nodes": (
        lambda: Edges([], [], -1, 2),
        "Edges: num_senders and num_receivers must not be negative, not -1 and 2.",
    ),
    "edges of half a node": (lambda: Edges([], [], 1, 2.5), "Edges: num_receivers must be a whole number, not 2.5."),
    "lengths negative": (lambda: Lengths([3, -1]), "Lengths: key_lengths must not be negative; found -1."),
    "query lengths negative": (lambda: Lengths([3], [-2]), "Lengths: query_lengths must not be negative; found -2."),
    "segments negative": (lambda: Segments([-1, 2]), "Segments: query_offsets must not be negative; found -1."),
    "mask of another size": (
        lambda: attend(**tensors(neighborhood=Mask([[True, False]]))),
        "attend: axis 'key' is 6 in key but 2 in Mask.",
    ),
    "own score": (
        lambda: attend(**tensors(score=lambda query, key: query * key)),
        "score: <lambda> gave the shape (5, 6, 2, 4); expected (5, 6, 2), one number for each pair of queries "
        "(5, 1, 2, 4) and keys (1, 6, 2, 4), whose last axis is the features.",
    ),
    "mask of other queries": (
        lambda: attention_weights(torch.ones(2, 2), torch.ones(2, 2), queries=[True, False, True]),
        "attention_weights: a mask of queries must have the shape (2,), one for each query, not (3,).",
    ),
    "fraction of a query": (
        lambda: attention_weights(torch.ones(2, 2), torch.ones(2, 2), queries=[0.5]),
        "attention_weights: queries must be whole numbers (int64), not torch.float32.",
    ),
    "aggregate of fewer than none": (
        lambda: aggregate(torch.ones(2, 2), num_queries=-1),
        "aggregate: num_queries must not be negative, not -1.",
    ),
    "to_mask size": (
        lambda: Full().to_mask(),
        "to_mask: Full does not determine the number of queries; pass num_queries (and num_keys, if it differs).",
    ),
    "to_mask other size": (lambda: EDGES.to_mask(4), "to_mask: axis 'query' is 4 in the call but 5 in Edges."),
    "to_edges batch": (
        lambda: Lengths([1, 2]).to_edges(3),
        "to_edges: the neighborhood varies over batch axes (2,), which a list of edges cannot; use to_mask(), or "
        "Segments "
        "for packed members.",
    ),
    "to_edges size": (lambda: EDGES.to_edges(5, 7), "to_edges: axis 'key' is 7 in the call but 6 in Edges."),
    "queries": (
        lambda: attention_weights(torch.ones(3, 2), torch.ones(3, 2), queries=[0, 3]),
        "attention_weights: query 3 is chosen, but they are 0 … 2.",
    ),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_a_structure_that_cannot_be(name):
    call, message = STRUCTURES[name]
    with pytest.raises(ShapeError) as caught:
        call()
    assert str(caught.value) == message


def test_a_refusal_lists_all_of_its_reasons():
    x = torch.randn(3, 4)
    cases = {
        "the neighborhood is a list of edges": {"neighborhood": Full().to_edges(3)},
        "the score Additive is not a dot product": {"score": Additive(torch.ones(4))},
        "the score <lambda> is not a dot product": {"score": lambda query, key: (query * key).sum(-1)},
        "the normalizer Sparsemax is not Softmax": {"normalize": Sparsemax()},
        "the temperature is a tensor": {"normalize": Softmax(torch.tensor(1.0))},
        "the temperature is 0.0": {"normalize": Softmax(0.0)},
        "the temperature is inf": {"normalize": Softmax(math.inf)},
    }
    for reason, options in cases.items():
        with pytest.raises(UnsupportedError) as caught:
            attend(x, x, x, backend="sdpa", **options)
        assert str(caught.value) == f"backend 'sdpa' refuses this call: {reason}."
        if "<lambda>" not in reason:
            runs = "uniform" if reason.endswith("inf") else "numba"
            assert why(x, x, x, **options).startswith(f"{runs} runs.\n  sdpa refuses: {reason}.\n  varlen refuses: ")
    everything = {"neighborhood": Full().to_edges(3), "score": Additive(torch.ones(4)), "normalize": Sparsemax()}
    with pytest.raises(UnsupportedError, match=r"list of edges; the score Additive .*; the normalizer Sparsemax"):
        attend(x, x, x, backend="sdpa", **everything)


def test_numba_says_what_it_does_not_know():
    x = torch.randn(3, 4)
    cases = {
        "the neighborhood is a Mask, neither a list of edges nor ranges; to_edges() makes a list": {
            "neighborhood": Mask(torch.ones(3, 3) == 1)
        },
        "the score <lambda> is not one of the library's": {"score": lambda query, key: (query * key).sum(-1)},
        "the normalizer <lambda> is not one of the library's": {"normalize": lambda scores, rows: scores},
    }
    for reason, options in cases.items():
        with pytest.raises(UnsupportedError) as caught:
            attend(x, x, x, backend="numba", **options)
        assert str(caught.value) == f"backend 'numba' refuses this call: {reason}."
    user = {"score": lambda query, key: (query * key).sum(-1), "neighborhood": Full().to_edges(3)}
    assert why(x, x, x, **user) == (
        "gather runs.\n"
        "  sdpa refuses: the neighborhood is a list of edges; the score <lambda> is not a dot product.\n"
        "  varlen refuses: the tensors are on cpu.\n"
        "  flex refuses: the tensors are on cpu.\n"
        "  uniform refuses: the neighborhood is Edges, not ranges; the weights of a row are not all the same.\n"
        "  triton refuses: the tensors are on cpu; the score <lambda> is not one of the library's.\n"
        "  numba refuses: the score <lambda> is not one of the library's."
    )


def test_triton_says_what_it_does_not_know():
    x = torch.randn(3, 4)
    edges = Full().to_edges(3)
    cases = {
        "the tensors are on cpu": {"neighborhood": edges},
        "the tensors are on cpu; the score <lambda> is not one of the library's": {
            "score": lambda query, key: (query * key).sum(-1)
        },
        "the tensors are on cpu; the normalizer <lambda> is not one of the library's": {
            "normalize": lambda scores, rows: scores,
            "neighborhood": edges,
        },
    }
    for reason, options in cases.items():
        with pytest.raises(UnsupportedError) as caught:
            attend(x, x, x, backend="triton", **options)
        assert str(caught.value) == f"backend 'triton' refuses this call: {reason}."
    wide = torch.randn(3, 300)
    with pytest.raises(UnsupportedError, match="a head has 300 features, more than 256"):
        attend(wide, wide, wide, edges, backend="triton")
    with pytest.raises(UnsupportedError, match=r"the dtype is torch\.float64"):
        attend(x.double(), x.double(), x.double(), edges, backend="triton")


def test_why_says_what_runs():
    x = torch.randn(3, 4)
    assert why(x, x, x) == "sdpa runs."
    assert why(x, x, x, backend="reference") == "reference runs."
    assert why(x, x, x, score=Dot(), neighborhood=Causal()) == "sdpa runs."
    with pytest.raises(UnsupportedError, match="backend 'sdpa' refuses"):
        why(x, x, x, normalize=Sparsemax(), backend="sdpa")


def test_the_tree_of_errors_and_their_builtin_kin():
    kin = {
        ShapeError: ValueError,
        UnsupportedError: NotImplementedError,
        DataError: ValueError,
        SettingError: ValueError,
        RunFolderError: RuntimeError,
        WriteError: OSError,
        MissingExtraError: ImportError,
    }
    from edgewise import errors

    for error, builtin in kin.items():
        assert issubclass(error, EdgewiseError)
        assert issubclass(error, builtin)
        assert re.search(rf"[├└]── {error.__name__}\({builtin.__name__}\)", errors.__doc__)
    assert str(MissingExtraError("rdkit", "molecules")) == "rdkit is not installed: pip install 'edgewise[molecules]'."
