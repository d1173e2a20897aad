"""`NeighborLoader` in place of PyTorch Geometric's: what its documentation says of batches and their fields."""

import copy
from itertools import pairwise

import pytest
import torch

from edgewise import DataError, SettingError, ShapeError

pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import ImbalancedSampler
from torch_geometric.loader import LinkNeighborLoader as TheirLinks
from torch_geometric.loader import NeighborLoader as Theirs
from torch_geometric.nn import GraphConv, GraphSAGE, SAGEConv, to_hetero
from torch_geometric.sampler import NegativeSampling
from torch_geometric.testing import MyFeatureStore, MyGraphStore
from torch_geometric.utils import k_hop_subgraph, trim_to_layer

from edgewise.interop.pyg import LinkNeighborLoader, NeighborLoader


def index(num_senders, num_receivers, num_edges, seed=0):
    random = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randint(size, (num_edges,), generator=random) for size in (num_senders, num_receivers)])


@pytest.fixture(scope="module")
def one_type():
    return Data(
        x=torch.arange(100.0)[:, None],
        y=torch.arange(100),
        edge_index=index(100, 100, 500),
        edge_attr=torch.arange(500),
        time=torch.arange(100) % 17,
        about="a graph",
    )


@pytest.fixture(scope="module")
def two_types():
    data = HeteroData()
    data["paper"].x, data["author"].x = torch.arange(100.0)[:, None], torch.arange(100.0, 300.0)[:, None]
    ends = {"paper": 100, "author": 200}
    for number, (sender, receiver) in enumerate([("paper", "paper"), ("paper", "author"), ("author", "paper")]):
        store = data[sender, "to", receiver]
        store.edge_index = index(ends[sender], ends[receiver], 500, number)
        store.edge_attr = torch.arange(500) + 500 * number
        store.time = torch.arange(500)
    return data


@pytest.mark.parametrize("subgraph_type", ["directional", "bidirectional", "induced"])
def test_batches_of_one_type(one_type, subgraph_type):
    loader = NeighborLoader(one_type, [5, 5], batch_size=20, subgraph_type=subgraph_type)
    assert (str(loader), len(loader)) == ("NeighborLoader()", 5)
    edges = set(zip(*one_type.edge_index.tolist(), strict=True))
    for number, batch in enumerate(loader):
        assert isinstance(batch, Data)
        assert batch.batch_size == 20
        assert torch.equal(batch.input_id, torch.arange(20) + 20 * number)
        assert torch.equal(batch.n_id[:20], batch.input_id)
        assert torch.equal(batch.x[:, 0].long(), batch.n_id)
        assert torch.equal(batch.y, batch.n_id)
        assert batch.about == "a graph"
        senders, receivers = batch.n_id[batch.edge_index]
        pairs = set(zip(senders.tolist(), receivers.tolist(), strict=True))
        if subgraph_type == "bidirectional":
            assert pairs == {(b, a) for a, b in pairs}
            continue
        assert pairs <= edges
        assert torch.equal(batch.edge_attr, batch.e_id)
        assert torch.equal(one_type.edge_index[:, batch.e_id], torch.stack([senders, receivers]))
        assert sum(batch.num_sampled_nodes) == batch.num_nodes
        assert sum(batch.num_sampled_edges) == batch.num_edges
        if subgraph_type == "induced":
            assert pairs == {(a, b) for a, b in edges if {a, b} <= set(batch.n_id.tolist())}
        else:
            assert (len(batch.num_sampled_nodes), len(batch.num_sampled_edges)) == (3, 2)


def test_batches_of_several_types(two_types):
    several = {("paper", "to", "paper"): [-1, 0], ("paper", "to", "author"): [0, 2], ("author", "to", "paper"): [3, 3]}
    loader = NeighborLoader(two_types, several, ("paper", torch.arange(40, 100)), batch_size=20)
    assert len(loader) == 3
    for batch in loader:
        assert (batch["paper"].batch_size, len(batch["paper"].input_id)) == (20, 20)
        assert torch.equal(batch["paper"].n_id[:20], 40 + batch["paper"].input_id)
        assert torch.equal(batch["author"].x[:, 0].long(), 100 + batch["author"].n_id)
        for name in two_types.edge_types:
            store, whole = batch[name], two_types[name]
            ends = batch[name[0]].n_id[store.edge_index[0]], batch[name[2]].n_id[store.edge_index[1]]
            assert torch.equal(whole.edge_index[:, store.e_id], torch.stack(ends))
            assert torch.equal(whole.edge_attr[store.e_id], store.edge_attr)
            assert sum(store.num_sampled_edges) == store.num_edges
            limits = torch.tensor(several[name])
            assert (limits < 0).any() or int(torch.bincount(store.edge_index[1]).max()) <= int(limits.max())
        assert batch["paper", "to", "author"].num_sampled_edges[0] == 0
        assert [sum(batch[name].num_sampled_nodes) for name in ("paper", "author")] == [
            batch[name].num_nodes for name in ("paper", "author")
        ]


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = GraphConv(1, 8), GraphConv(8, 3)

    def forward(self, x, edge_index):
        return self.last(self.first(x, edge_index).relu(), edge_index)


def test_a_model_says_of_seeds_what_it_says_on_the_whole_graph(one_type, two_types):
    torch.manual_seed(0)
    model, seeds = Two(), torch.tensor([5, 60, 7])
    (batch,) = NeighborLoader(one_type, [-1, -1], seeds, batch_size=3)
    expected = model(one_type.x, one_type.edge_index)[seeds]
    assert torch.allclose(model(batch.x, batch.edge_index)[:3], expected, rtol=1e-4)
    nodes, *_ = k_hop_subgraph(seeds, 2, one_type.edge_index)
    assert torch.equal(batch.n_id.sort().values, nodes)
    hetero = to_hetero(Two(), two_types.metadata())
    (batch,) = NeighborLoader(two_types, [-1, -1], ("paper", seeds), batch_size=3)
    expected = hetero(two_types.x_dict, two_types.edge_index_dict)["paper"][seeds]
    assert torch.allclose(hetero(batch.x_dict, batch.edge_index_dict)["paper"][:3], expected, rtol=1e-4)


def test_layers_may_trim_a_batch(one_type):
    """PyTorch Geometric's `trim_to_layer` reads num_sampled_nodes and num_sampled_edges."""
    layers, seeds = [SAGEConv(1, 4), SAGEConv(4, 2)], torch.arange(10)
    (batch,) = NeighborLoader(one_type, [-1, -1], seeds, batch_size=10)
    x, edges, expected = batch.x, batch.edge_index, one_type.x
    for number, layer in enumerate(layers):
        x, edges, _ = trim_to_layer(number, batch.num_sampled_nodes, batch.num_sampled_edges, x, edges)
        x, expected = layer(x, edges), layer(expected, one_type.edge_index)
    assert torch.allclose(x[:10], expected[:10], rtol=1e-4)


@pytest.mark.parametrize("of", ["nodes", "edges"])
def test_times_limit_what_is_sampled(one_type, two_types, of):
    if of == "nodes":
        loader = NeighborLoader(one_type, [-1, 3], batch_size=30, time_attr="time")
        for batch in loader:
            assert bool((batch.time <= batch.time[:30][batch.batch]).all())
            assert torch.equal(batch.batch[:10], torch.arange(10))
        at_zero = NeighborLoader(one_type, [-1], [3], torch.tensor([0]), batch_size=1, time_attr="time")
        (batch,) = at_zero
        assert bool((batch.time[1:] == 0).all())
        assert batch.seed_time.tolist() == [0]
    else:
        times = torch.arange(100) * 5
        loader = NeighborLoader(two_types, [-1, -1], "paper", times, batch_size=10, time_attr="time")
        sizes = 0
        for batch in loader:
            for name in two_types.edge_types:
                limits = batch["paper"].seed_time[batch[name[2]].batch[batch[name].edge_index[1]]]
                assert bool((batch[name].time <= limits).all())
                sizes += int((batch[name].time == limits).sum())
        assert sizes > 0  # an edge at the seed's time is sampled


def test_the_latest_edges_are_sampled(one_type):
    (batch,) = NeighborLoader(
        one_type, [1], torch.arange(50), batch_size=50, time_attr="time", temporal_strategy="last"
    )
    for sender, receiver in batch.edge_index.T.tolist():
        seed = int(batch.n_id[receiver])
        senders = one_type.edge_index[0][one_type.edge_index[1] == seed]
        times = one_type.time[senders]
        assert batch.time[sender] == times[times <= one_type.time[seed]].max()


def test_weights_say_what_is_sampled(one_type):
    one_type = one_type.clone()
    one_type.weight = (torch.arange(500) % 3 == 0).float()
    for batch in NeighborLoader(one_type, [4, 4], batch_size=50, weight_attr="weight", replace=True):
        assert bool((batch.weight == 1).all())


def test_batches_follow_from_the_generator_whatever_the_number_of_threads(one_type):
    def batches(seed, num_workers):
        random = torch.Generator().manual_seed(seed)
        options = {"persistent_workers": num_workers > 0, "shuffle": True, "drop_last": True}
        loader = NeighborLoader(one_type, [2, 2], batch_size=30, generator=random, num_workers=num_workers, **options)
        assert len(loader) == 3
        return [(batch.input_id.tolist(), batch.n_id.tolist(), batch.e_id.tolist()) for batch in loader]

    assert batches(0, 0) == batches(0, 2) != batches(1, 0)
    torch.manual_seed(3)
    loader = NeighborLoader(one_type, [2, 2], torch.arange(100) < 50, batch_size=30, transform=lambda batch: batch.e_id)
    first, second = ([each.tolist() for each in loader] for _ in range(2))
    assert first != second
    torch.manual_seed(3)
    assert [each.tolist() for each in loader] == first
    called = NeighborLoader(one_type, [2], torch.arange(50, 90))(torch.tensor([3, 4]))
    assert called.n_id[:2].tolist() == [53, 54]


@pytest.mark.parametrize(("loader", "original"), [(NeighborLoader, Theirs), (LinkNeighborLoader, TheirLinks)])
def test_arguments_are_those_of_pyg(loader, original):
    """A script runs with its import changed: each of their parameters is one of ours, with the same default."""
    from inspect import Parameter, signature

    ours, theirs = (signature(loader.__init__).parameters for loader in (loader, original))
    for name, parameter in theirs.items():
        assert ours[name].default == parameter.default, name
    order = [name for name in ours if name in theirs and ours[name].kind is not Parameter.VAR_KEYWORD]
    assert all(list(theirs).index(a) < list(theirs).index(b) for a, b in pairwise(order))


REFUSED = [
    ({"num_neighbors": [-3]}, SettingError, "a fanout is -3"),
    ({"subgraph_type": "tree"}, SettingError, "subgraph_type is 'tree'; expected directional, bidirectional or"),
    ({"time_attr": "age"}, SettingError, "time_attr 'age' is of neither nodes nor edges"),
    ({"input_time": torch.zeros(1)}, SettingError, "input_time is given, but no time_attr"),
    ({"weight_attr": "age"}, SettingError, "no edges have 'age'"),
    ({"num_workers": -1}, SettingError, "num_workers is -1"),
    ({"batch_size": None}, SettingError, "batch_size is None; expected the number of seeds in a batch"),
    ({"data": [1]}, DataError, "expected a Data, a HeteroData or a pair .* not list"),
    ({"data": Data(x=torch.zeros(3, 1))}, DataError, "the data has no edge_index"),
]


@pytest.mark.parametrize(("options", "error", "message"), REFUSED)
def test_what_cannot_be_loaded_is_refused(one_type, options, error, message):
    with pytest.raises(error, match=message):
        next(iter(NeighborLoader(**{"data": one_type, "num_neighbors": [2], **options})))


def test_seeds_of_several_types_name_theirs(two_types):
    with pytest.raises(SettingError, match="name the type of the seeds"):
        NeighborLoader(two_types, [2])
    with pytest.raises(SettingError, match=r"give those of the seeds: input_time"):
        next(iter(NeighborLoader(two_types, [2], "paper", time_attr="time")))


def test_seeds_beyond_their_type_are_not_those_of_another(two_types):
    """Paper 105 was author 5, author −1 was paper 99."""
    for name, seed in (("paper", 105), ("author", -1)):
        with pytest.raises(ShapeError, match=f"seeds of type '{name}' must lie in 0 … .*; found {seed}"):
            next(iter(NeighborLoader(two_types, [2], (name, [seed]))))
    links = ("paper", "to", "author"), torch.tensor([[100], [0]])
    with pytest.raises(ShapeError, match=r"seeds of type 'paper' must lie in 0 … 99; found 100"):
        next(iter(LinkNeighborLoader(two_types, [2], links)))


def test_masks_that_are_no_tensors(one_type, two_types):
    """They were taken for the nodes 0 and 1."""
    mask = torch.arange(100) % 3 == 0
    for seeds in (mask.numpy(), mask.tolist()):
        (batch,) = NeighborLoader(one_type, [2], seeds, batch_size=100)
        assert torch.equal(batch.n_id[: batch.batch_size], mask.nonzero().flatten())
        (batch,) = NeighborLoader(two_types, [2], ("paper", seeds), batch_size=100)
        assert torch.equal(batch["paper"].n_id[: batch["paper"].batch_size], mask.nonzero().flatten())
    for seeds in (mask[:50], [0.0, 1.5]):
        with pytest.raises(ShapeError, match=r"expected whole numbers, or a mask \(100,\)"):
            NeighborLoader(one_type, [2], seeds)


def test_types_that_lack_something_are_named(two_types):
    """A wrong name was added to the graph, and all later loaders of it failed."""
    data = copy.copy(two_types)
    with pytest.raises(SettingError, match="input_nodes are of type 'papers'; expected one of 'paper', 'author'"):
        NeighborLoader(data, [2], "papers")
    assert data.node_types == ["paper", "author"]
    data["venue", "of", "paper"].edge_index = torch.zeros(2, 3, dtype=torch.int64)
    with pytest.raises(DataError, match="join nodes of type 'venue', of which nothing is known"):
        NeighborLoader(data, [2], "paper")
    data["venue"].name = "a venue"
    nothing = pytest.raises(DataError, match=r"nothing says how many nodes data\['venue'\] has; give .* x or num_nodes")
    with nothing, pytest.warns(UserWarning, match="Unable to accurately infer"):
        NeighborLoader(data, [2], "paper")
    with pytest.raises(DataError, match=r"edge_index of the data is \(3, 2\); expected \(2, edge\)"):
        NeighborLoader(Data(edge_index=torch.tensor([[0, 1], [1, 2], [2, 0]]), num_nodes=3), [2])


@pytest.mark.parametrize("form", ["directional", "induced", "bidirectional"])
def test_a_seed_that_is_given_twice_stands_twice(one_type, two_types, form):
    """So samplers that draw with replacement work, such as `ImbalancedSampler`."""
    sampler = ImbalancedSampler(torch.arange(100) % 3 // 2, num_samples=60)
    torch.manual_seed(0)
    model, repeats = Two(), 0
    for batch in NeighborLoader(one_type, [-1, -1], batch_size=20, sampler=sampler, subgraph_type=form):
        assert torch.equal(batch.n_id[:20], batch.input_id)
        assert torch.equal(batch.x[:, 0].long(), batch.n_id)
        assert form == "bidirectional" or sum(batch.num_sampled_nodes) == batch.num_nodes
        repeats += 20 - len(batch.input_id.unique())
        if form == "directional":
            assert sum(batch.num_sampled_edges) == batch.num_edges
            assert torch.equal(one_type.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])
            expected = model(one_type.x, one_type.edge_index)[batch.input_id]
            assert torch.allclose(model(batch.x, batch.edge_index)[:20], expected, rtol=1e-4)
    assert repeats > 0
    seeds = torch.tensor([4, 7, 4, 4, 9])
    (batch,) = NeighborLoader(two_types, [-1, 2], ("paper", seeds), batch_size=5)
    assert torch.equal(batch["paper"].n_id[:5], seeds)
    degrees = torch.bincount(batch["author", "to", "paper"].edge_index[1], minlength=5)
    assert degrees[0] == degrees[2] == degrees[3] == (two_types["author", "to", "paper"].edge_index[1] == 4).sum()


def test_layerwise_inference_of_pyg_takes_the_loader(one_type):
    torch.manual_seed(0)
    model = GraphSAGE(1, 8, num_layers=2, out_channels=3).eval()
    found = model.inference(NeighborLoader(one_type, [-1], batch_size=30))
    torch.testing.assert_close(found, model(one_type.x, one_type.edge_index), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("kind", [None, "binary", "triplet"])
def test_links_are_seeds(one_type, kind, disjoint):
    torch.manual_seed(0)
    links = one_type.edge_index[:, :60]
    negatives = None if kind is None else NegativeSampling(kind, 1.0 if kind == "binary" else 2)
    loader = LinkNeighborLoader(one_type, [3, 3], links, batch_size=20, neg_sampling=negatives, disjoint=disjoint)
    assert len(loader) == 3
    for number, batch in enumerate(loader):
        assert torch.equal(batch.input_id, torch.arange(20) + 20 * number)
        assert torch.equal(batch.x[:, 0].long(), batch.n_id)
        assert torch.equal(one_type.edge_index[:, batch.e_id], batch.n_id[batch.edge_index])
        if kind == "triplet":
            found = torch.stack([batch.n_id[batch.src_index], batch.n_id[batch.dst_pos_index]])
            assert batch.dst_neg_index.shape == (20, 2)
        else:
            found = batch.n_id[batch.edge_label_index][:, :20]
            assert kind is None or batch.edge_label.tolist() == [1.0] * 20 + [0.0] * 20
        assert torch.equal(found, links[:, batch.input_id])
        if disjoint:
            assert torch.equal(batch.batch[batch.edge_index[0]], batch.batch[batch.edge_index[1]])
            assert int(batch.batch.max()) == 19


def test_links_between_two_types_and_their_times(two_types):
    edge = "author", "to", "paper"
    links = two_types[edge].edge_index[:, :50]
    for batch in LinkNeighborLoader(two_types, [4, 4], (edge, links), batch_size=10, num_workers=2):
        index = batch[edge].edge_label_index
        ends = torch.stack([batch["author"].n_id[index[0]], batch["paper"].n_id[index[1]]])
        assert torch.equal(ends, links[:, batch[edge].input_id])
    times = torch.arange(50) * 10
    loader = LinkNeighborLoader(
        two_types, [4, 4], (edge, links), edge_label_time=times, time_attr="time", batch_size=10,
        neg_sampling=NegativeSampling("binary"),
    )  # fmt: skip
    for batch in loader:
        limits = times[batch[edge].input_id]
        for name in two_types.edge_types:
            trees = batch[name[2]].batch[batch[name].edge_index[1]]
            assert bool((batch[name].time <= limits[trees]).all())
    with pytest.raises(SettingError, match="'edge_label_time' is not set"):
        LinkNeighborLoader(two_types, [4], (edge, links), time_attr="time")


def test_graphs_in_stores(two_types):
    features, graphs = MyFeatureStore(), MyGraphStore()
    for name in ("paper", "author"):
        features.put_tensor(two_types[name].x, group_name=name, attr_name="x", index=None)
    for name in two_types.edge_types:
        size = tuple(two_types[end].num_nodes for end in (name[0], name[2]))
        graphs.put_edge_index(two_types[name].edge_index, edge_type=name, layout="coo", size=size)
    (batch,) = NeighborLoader((features, graphs), [3, 3], ("paper", torch.arange(20)), batch_size=20)
    assert torch.equal(batch["paper"].n_id[:20], torch.arange(20))
    for name, first in (("paper", 0), ("author", 100)):
        assert torch.equal(batch[name].x[:, 0].long(), batch[name].n_id + first)
    for name in two_types.edge_types:
        index = batch[name].edge_index
        ends = torch.stack([batch[name[0]].n_id[index[0]], batch[name[2]].n_id[index[1]]])
        assert torch.equal(two_types[name].edge_index[:, batch[name].e_id], ends)
    edge = "author", "to", "paper"
    with pytest.raises(SettingError, match="no edges have 'weight'"):
        NeighborLoader((features, graphs), [3], ("paper", torch.arange(20)), weight_attr="weight")
    (batch,) = LinkNeighborLoader((features, graphs), [3], (edge, two_types[edge].edge_index[:, :9]), batch_size=9)
    assert torch.equal(batch["author"].n_id[batch[edge].edge_label_index[0]], two_types[edge].edge_index[0, :9])


@pytest.mark.parametrize("layout", ["coo", "csc", "csr"])
def test_graphs_of_one_type_in_stores(one_type, layout):
    index = one_type.edge_index[:, one_type.edge_index[0 if layout == "csr" else 1].argsort()]
    features, graphs = MyFeatureStore(), MyGraphStore()
    times = torch.arange(100) % 7
    features.put_tensor(one_type.x, group_name=None, attr_name="x", index=None)
    features.put_tensor(times, group_name=None, attr_name="time", index=None)
    offsets = {row: torch.bincount(index[row], minlength=100).cumsum(0) for row in (0, 1)}
    begins = {row: torch.cat([torch.zeros(1, dtype=torch.int64), counts]) for row, counts in offsets.items()}
    stored = {"coo": index, "csc": (index[0], begins[1]), "csr": (begins[0], index[1])}[layout]
    graphs.put_edge_index(tuple(stored), edge_type=None, layout=layout, size=(100, 100))
    stores = features, graphs
    loaders = (
        NeighborLoader(stores, [3, 3], torch.arange(20), batch_size=20),
        NeighborLoader(stores, [3, 3], torch.arange(20), batch_size=20, time_attr="time"),
        LinkNeighborLoader(stores, [3, 3], (None, index[:, :30]), batch_size=30),
    )
    for loader in loaders:
        (batch,) = loader
        assert torch.equal(batch.x[:, 0].long(), batch.n_id)
        assert torch.equal(index[:, batch.e_id], batch.n_id[batch.edge_index])
        if batch.batch is not None:
            assert bool((batch.time <= times[batch.n_id[:20]][batch.batch]).all())
    assert torch.equal(batch.n_id[batch.edge_label_index], index[:, :30])


def test_nodes_without_edges_are_seeds_of_no_hops():
    links = index(100, 100, 40)
    one, typed = Data(num_nodes=100), HeteroData(paper={"num_nodes": 100})
    (batch,) = LinkNeighborLoader(one, [], links, batch_size=40)
    assert batch.num_sampled_nodes == [batch.num_nodes] and batch.num_sampled_edges == []
    assert torch.equal(batch.n_id[batch.edge_label_index], links)
    (batch,) = LinkNeighborLoader(typed, [], (("paper", "paper"), links), batch_size=40)
    assert torch.equal(batch["paper"].n_id[batch["paper", "paper"].edge_label_index], links)
    assert batch["paper"].num_nodes == len(links.unique())
    (batch,) = NeighborLoader(typed, [], "paper", batch_size=100)
    assert batch["paper"].n_id.tolist() == list(range(100))


@pytest.mark.parametrize("kind", ["binary", "triplet"])
def test_times_limit_pairs_that_are_no_links(one_type, kind):
    one_type.time = torch.arange(100)
    links = one_type.edge_index[:, :60]
    loader = LinkNeighborLoader(
        one_type, [4, 4], links, edge_label_time=links.amax(0) + 5, time_attr="time", batch_size=20, neg_sampling=kind
    )
    for batch in loader:
        limits = (links.amax(0) + 5)[batch.input_id]
        assert bool((batch.time <= limits[batch.batch]).all())


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int32, torch.int64])
@pytest.mark.parametrize("of", ["nodes", "edges"])
def test_times_are_whole_numbers_of_any_size(dtype, of):
    """Node 0 hears of 1 and 2, and they of nobody; the seed's time is the last one that the type can say."""
    last = torch.iinfo(dtype).max
    data = Data(x=torch.eye(3), edge_index=torch.tensor([[1, 2], [0, 0]]))
    data.time = torch.tensor([last, 5, 7] if of == "nodes" else [5, 7], dtype=dtype)
    times = {} if of == "nodes" else {"input_time": torch.tensor([last], dtype=dtype)}
    (batch,) = NeighborLoader(data, [-1], torch.tensor([0]), **times, time_attr="time", batch_size=1)
    assert batch.n_id.tolist() == [0, 1, 2]
    hetero = HeteroData()
    hetero["author"].x, hetero["paper"].x = torch.eye(2), torch.eye(1)
    hetero["author", "to", "paper"].edge_index = torch.tensor([[0, 1], [0, 0]])
    hetero["paper"].time = torch.tensor([last], dtype=dtype)
    (batch,) = NeighborLoader(hetero, [-1], ("paper", torch.tensor([0])), time_attr="time", batch_size=1)
    assert batch["author"].n_id.tolist() == [0, 1], "authors without a time are there always"
