"""`NeighborLoader` in place of PyTorch Geometric's: what its documentation says of batches and their fields."""

from itertools import pairwise

import pytest
import torch

from edgewise import DataError, SettingError

pytest.importorskip("torch_geometric")

from torch_geometric.data import Data, HeteroData
from torch_geometric.loader import NeighborLoader as Theirs
from torch_geometric.nn import GraphConv, SAGEConv, to_hetero
from torch_geometric.utils import k_hop_subgraph, trim_to_layer

from edgewise.interop.pyg import NeighborLoader


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


def test_arguments_are_those_of_pyg():
    """A script runs with its import changed: each of their parameters is one of ours, with the same default."""
    from inspect import Parameter, signature

    ours, theirs = (signature(loader.__init__).parameters for loader in (NeighborLoader, Theirs))
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
    ({"input_nodes": [3, 3], "batch_size": 2}, DataError, "given twice in a batch"),
    ({"data": [1]}, DataError, "expected a Data or HeteroData, not list"),
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
