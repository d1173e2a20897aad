"""A default device of torch is for what a user makes: what the library makes lies where the tensors of the call lie."""

import networkx as nx
import numpy as np
import pandas as pd
import pytest
import scipy.sparse
import torch

from edgewise import (
    Causal,
    Cosine,
    Edges,
    Full,
    Graph,
    GraphRegressor,
    LanguageModel,
    Lengths,
    LinkPredictor,
    Mask,
    MoleculeRegressor,
    NodeClassifier,
    Segments,
    Sigmoid,
    Softmax,
    Tagger,
    TextClassifier,
    TextRegressor,
    Trace,
    Translator,
    Window,
    aggregate,
    attend,
    attention_weights,
)
from edgewise.neighborhood import EdgeRows, expander_edges, extend_edges, virtual_edges
from edgewise.sampling import ClusterLoader, LinkLoader, NeighborLoader, NeighborSampler, partition
from layer_cases import CASES, DIM, EDGES, NODES, drawn, ready

pytestmark = pytest.mark.usefixtures("shapes_unchecked")
NEIGHBORHOODS = {
    "full": Full(),
    "causal": Causal(),
    "window": Window(1, 1),
    "lengths": Lengths(torch.tensor([3, 5])),
    "segments": Segments(torch.tensor([0, 2, 5])),
    "mask": Mask(EDGES.to_mask()),
    "joined": Full() & Mask(EDGES.to_mask()) | Causal(),
    "edges": EDGES,
}
OFFSETS, SOURCE = torch.tensor([0, 2, 5]), torch.tensor([[0, 1, 2, 3, 4, 1], [1, 2, 0, 4, 3, 0]])
TIMES, SEEDS, CLUSTERS = torch.arange(6), torch.tensor([0, 3]), torch.tensor([0, 0, 1, 1, 1])


@pytest.fixture
def elsewhere():
    """On the device `meta` no number is held: whatever is made there by mistake ends in an error."""
    torch.set_default_device("meta")
    yield
    torch.set_default_device(None)


def test_estimators_compute_in_float32_whatever_the_default_is(tmp_path):
    smiles, lengths = ["C" * number for number in range(1, 9)], [float(number) for number in range(8)]
    torch.set_default_dtype(torch.float64)
    try:
        with torch.no_grad():
            fitted = MoleculeRegressor(model_dim=8, num_heads=2, epochs=1).fit(smiles, lengths)
        fitted.save(tmp_path / "run")
        loaded = MoleculeRegressor.load(tmp_path / "run")
        assert torch.get_default_dtype() == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)
    np.testing.assert_array_equal(loaded.predict(smiles), fitted.predict(smiles))


@pytest.mark.parametrize("context", [torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)])
def test_estimators_compute_gradients_in_float32_in_every_mode_of_torch(tmp_path, context):
    """In inference mode a training failed in torch, and a loaded model could not be trained; autocast rounded."""
    smiles, lengths = ["C" * number for number in range(1, 9)], [float(number) for number in range(8)]
    settings = {"model_dim": 8, "num_heads": 2, "epochs": 1}
    expected = MoleculeRegressor(**settings).fit(smiles, lengths).predict(smiles)
    with context():
        fitted = MoleculeRegressor(**settings).fit(smiles, lengths)
        fitted.save(tmp_path / "run")
        loaded = MoleculeRegressor.load(tmp_path / "run")
        predicted = loaded.predict(smiles)
        fitted.explain(smiles[0])
    np.testing.assert_array_equal(predicted, expected)
    assert not any(parameter.is_inference() for parameter in loaded.trained_.members[0].parameters())
    x = torch.randn(1, 2, 3)
    with context():
        before = torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"), (x @ x.mT).dtype
        loaded.predict(smiles)
        assert (torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu"), (x @ x.mT).dtype) == before


def test_a_graph_that_was_made_in_inference_mode_is_trained_on():
    with torch.inference_mode():
        graph = Graph(node_features=torch.randn(6, 3), edges=Edges(TIMES, TIMES.roll(1), 6, 6))
        fitted = NodeClassifier(epochs=1, model_dim=8).fit(graph, ["a", "b"] * 3)
    assert len(fitted.predict(graph)) == 6


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("backend", ["auto", "gather", "numba"])
@pytest.mark.parametrize("name", NEIGHBORHOODS)
def test_the_operator_and_its_gradients(name, backend):
    if backend == "numba" and name in ("mask", "joined"):
        return
    neighborhood = NEIGHBORHOODS[name]
    x, bias = drawn(2, NODES, 4).float().requires_grad_(), drawn(NODES, NODES).float()
    if name == "edges":
        bias = drawn(EDGES.num_edges).float()
    options = [{}, {"bias": bias.requires_grad_(), "dropout": 0.5}]
    for given in options:
        out = attend(x, x, x, neighborhood, backend=backend, **given)
        assert out.device.type == "cpu"
        assert torch.autograd.grad(out.square().sum(), x)[0].device.type == "cpu"
    out = attend(x, x, x, neighborhood, backend=backend)
    (gradient,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
    assert torch.autograd.grad(gradient.square().sum(), x)[0].device.type == "cpu"


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("name", NEIGHBORHOODS)
def test_weights_and_reductions(name):
    x, neighborhood = drawn(2, NODES, 4).float(), NEIGHBORHOODS[name]
    for top in (None, 2):
        for queries in (None, [0, 2]):
            assert attention_weights(x, x, neighborhood, top=top, queries=queries).values.device.type == "cpu"
    for how in ("sum", "mean", "max", "min"):
        assert aggregate(x, neighborhood, how).device.type == "cpu"


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize("name", CASES)
def test_layers(name):
    with torch.device("cpu"):
        layer, expected = ready(name), None
        expected = CASES[name].call(layer, drawn(2, NODES, DIM), EDGES)
    found = CASES[name].call(layer, drawn(2, NODES, DIM), EDGES)
    torch.testing.assert_close(found, expected)
    if CASES[name].takes:
        with torch.device("cpu"):
            expected = CASES[name].call(layer, drawn(2, NODES, DIM), Full())
        torch.testing.assert_close(CASES[name].call(layer, drawn(2, NODES, DIM), Full()), expected)


PARTS_ON_THE_CPU = {"MoleculeAttention", "GraphNetwork, statistics"}
"""Cases that hand over bonds or offsets of their own."""


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].takes and name not in PARTS_ON_THE_CPU])
def test_layers_on_the_device_without_values(name):
    """Shapes alone, as tools compute them that count parameters and products before there is memory for them."""
    layer, x = ready(name), drawn(NODES, DIM)
    expected = CASES[name].call(layer, x, EDGES)
    found = CASES[name].call(layer.to("meta"), x.to("meta"), EDGES.to("meta"))
    assert (found.device.type, found.shape, found.dtype) == ("meta", expected.shape, expected.dtype)


@pytest.mark.parametrize("normalize", [Softmax(), Sigmoid()], ids=str)
@pytest.mark.parametrize("name", ["full", "causal", "mask", "edges"])
def test_the_operator_on_the_device_without_values(name, normalize):
    x, neighborhood = drawn(2, NODES, DIM).to("meta"), NEIGHBORHOODS[name].to("meta")
    assert attend(x, x, x, neighborhood, normalize=normalize, score=Cosine()).shape == x.shape


@pytest.mark.usefixtures("elsewhere")
def test_neighborhoods_of_tensors():
    edges = Edges.from_edge_index(SOURCE, NODES)
    assert edges.undirected().with_self_loops().plan.senders.device.type == "cpu"
    assert edges.degrees().device.type == edges.reverse.device.type == edges.to_mask().device.type == "cpu"
    assert Edges.from_adjacency(EDGES_TABLE).num_edges == Edges.from_adjacency(EDGES_TABLE.to_sparse()).num_edges
    assert EdgeRows(TIMES, 6).rows.device.type == "cpu"
    for made in (expander_edges(9, 2), virtual_edges(5, 2), extend_edges(EDGES, num_virtual_nodes=1).edges):
        assert made.senders.device.type == "cpu"
    assert Full().to_edges(5, 5, "cpu").senders.device.type == "cpu"
    for neighborhood in NEIGHBORHOODS.values():
        assert neighborhood.to_mask(NODES, NODES, "cpu").device.type == "cpu"


EDGES_TABLE = EDGES.to_mask().float()


@pytest.mark.usefixtures("elsewhere")
def test_samplers():
    graph = Graph(None, Edges.from_edge_index(SOURCE, NODES))
    for options in ({}, {"weights": TIMES + 1.0}, {"edge_times": TIMES}, {"form": "induced"}, {"disjoint": True}):
        sampler = NeighborSampler(graph, [2, 2], **options)
        times = [9, 9] if "edge_times" in options else None
        for seeds in (SEEDS, [0, 3], np.array([0, 3])):
            assert sampler.sample(seeds, times=times).n_id[:2].tolist() == [0, 3]
        if times is None:
            assert sum(len(sample.seeds) for sample in NeighborLoader(sampler, batch_size=2)) == NODES
    pairs = LinkLoader(NeighborSampler(graph, [2]), SOURCE[0], SOURCE[1], batch_size=3)
    assert [batch.labels.tolist() for batch in pairs] == [[1.0] * 3 + [0.0] * 3] * 2
    assert sorted(partition(graph, 2).unique().tolist()) == [0, 1]
    assert [sample.n_id.tolist() for sample in ClusterLoader(graph, CLUSTERS)] == [[0, 1], [2, 3, 4]]
    assert Graph.batch([graph, graph]).num_nodes == 2 * NODES
    assert Graph.of(SOURCE.numpy()).num_nodes == NODES


@pytest.mark.usefixtures("elsewhere")
def test_a_trace_of_a_layer():
    layer, trace = None, Trace(top=2)
    with torch.device("cpu"):
        layer = ready("MultiHeadAttention")
    layer(drawn(2, NODES, DIM), trace=trace)
    assert trace.weights[0].values.device.type == "cpu"


@pytest.mark.usefixtures("elsewhere")
def test_converters():
    pairs = [("a", "b"), ("b", "c")]
    named = nx.DiGraph(pairs)
    nx.set_node_attributes(named, {"a": 1.0, "b": 2.0, "c": 3.0}, "size")
    nx.set_edge_attributes(named, "is", "type")
    frame = pd.DataFrame(pairs, columns=["sender", "receiver"])
    graphs = [
        Graph.of(named, node_attributes=["size"]),
        Graph.of(nx.DiGraph(pairs)),
        Graph.of(frame),
        Graph.of(scipy.sparse.eye_array(3).tocsr()),
        Graph.of(SOURCE),
    ]
    for graph in graphs:
        assert graph.edges.senders.device.type == "cpu"
        assert graph.node_features is None or graph.node_features.device.type == "cpu"
        for converted in (graph.to_networkx(), graph.to_pandas(), graph.to_pyg()):
            assert Graph.of(converted).num_nodes == graph.num_nodes


ESTIMATORS = {
    "words": (lambda: TextClassifier(epochs=1), ["good film", "bad film"] * 20, ["p", "n"] * 20),
    "texts": (lambda: TextRegressor(model="transformer", epochs=1), ["good film", "bad film"] * 20, [1.0, 2.0] * 20),
    "molecules": (lambda: MoleculeRegressor(epochs=1), ["CCO", "CCCN"] * 20, [1.0, 2.5] * 20),
    "tags": (lambda: Tagger(epochs=1), [["a", "b"]] * 20, [["X", "Y"]] * 20),
    "translation": (lambda: Translator(epochs=1), ["a b", "b c"] * 10, ["c d", "d e"] * 10),
}


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_estimators(name, tmp_path):
    made, data, y = ESTIMATORS[name]
    estimator = made().fit(data, y)
    predicted = estimator.predict(data[:2])
    estimator.save(tmp_path / "run")
    again = type(estimator).load(tmp_path / "run")
    with torch.device("cpu"):
        assert list(again.predict(data[:2])) == list(predicted)


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_estimators_of_graphs():
    graph = Graph(drawn(NODES, 3).float(), EDGES)
    assert len(NodeClassifier(epochs=1).fit(graph, ["a", "b", "a", "b", "a"]).predict(graph)) == NODES
    assert len(LinkPredictor(epochs=1).fit(graph).predict([(0, 1), (1, 3)])) == 2
    assert len(GraphRegressor(epochs=1).fit([graph] * 20, [1.0, 2.0] * 10).predict([graph])) == 1


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_language_model():
    model = LanguageModel(steps=2, num_layers=1, num_heads=1, model_dim=8, context=8).fit("hello world " * 40)
    assert model.generate("he", num_tokens=3).startswith("he")
