"""A store against the same tables in memory: what is read, and what every model predicts, layer by layer."""

import numpy as np
import pandas as pd
import pytest
import torch

from edgewise.cli.main import main
from edgewise.learn.networks.graph_layers import LAYERS, layers_for
from edgewise.learn.networks.graph_settings import NodeSettings
from edgewise.learn.readers.graphs.nodes import read_nodes
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.readers.store import build, sort
from edgewise.learn.readers.store import graph as stored
from edgewise.learn.readers.store.data import read_store
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.split import split_rows
from edgewise.learn.tasks.nodes.settings import NodeRunSettings
from edgewise.learn.tasks.nodes.task import TABLE, read_data

NUM_NODES = 120


def tables(folder, names):
    """A table of nodes and one of edges with loops, repeated edges and a node without any."""
    random = np.random.default_rng(0)
    label = random.integers(0, 3, NUM_NODES)
    features = random.normal(size=(NUM_NODES, 3)).round(4)
    features[:, 0] += label
    element = np.array(["C", "N", "O"])[random.integers(0, 3, NUM_NODES)]
    nodes = pd.DataFrame(features, columns=["a", "b", "c"]).assign(element=element, label=np.array(list("xyz"))[label])
    nodes.insert(0, "id", names)
    ends = random.integers(0, NUM_NODES - 1, (2, 500))
    ends[:, -4:] = [[3, 3, 8, 9], [3, 3, 8, 9]]
    weight = random.random(500).round(4)
    bond = np.array(["single", "double"])[random.integers(0, 2, 500)]
    edges = pd.DataFrame({"from": names[ends[0]], "to": names[ends[1]], "weight": weight, "bond": bond})
    nodes.to_csv(folder / "nodes.csv", index=False)
    edges.to_csv(folder / "edges.csv", index=False)
    return str(folder / "nodes.csv"), str(folder / "edges.csv")


NAMES = {
    "rows": np.arange(NUM_NODES),
    "shuffled": np.random.default_rng(1).permutation(NUM_NODES) + 7,
    "far": np.random.default_rng(1).permutation(NUM_NODES) * 10**9,
    "words": np.array([f"node {number}" for number in np.random.default_rng(1).permutation(NUM_NODES)]),
}


def settings_of(data, model, source, category=()):
    columns = Columns(node_column="id", target_columns=("label",), task_type="multiclass", category_columns=category)
    options = {"num_hops": 3} if model == "hop_attention" else {}
    return NodeRunSettings(
        data=(data,), columns=columns, graph=source, model=NodeSettings(model=model, model_dim=8, **options)
    )


@pytest.mark.parametrize("names", sorted(NAMES))
@pytest.mark.parametrize("directed", [True, False])
def test_edges_are_those_of_the_tables(tmp_path, monkeypatch, names, directed):
    """Sorted through files when little may be held, whatever the nodes are called."""
    monkeypatch.setattr(build, "MEGABYTE", 30)
    nodes, edges = tables(tmp_path, NAMES[names])
    flags = ["--directed"] if directed else []
    assert main(["prepare", nodes, edges, "-o", str(tmp_path / "store"), *flags]) == 0
    columns = Columns(node_column="id", target_columns=("label",), task_type="multiclass", ignore_columns=("element",))
    table = read_nodes([nodes], columns, GraphSource(edges=edges, directed=directed))
    found = read_store(str(tmp_path / "store"), columns)
    store = found.store
    assert found.features.names == ("a", "b", "c")
    np.testing.assert_array_equal(found.features.of_rows(np.arange(NUM_NODES)), table.features.to_dense())
    np.testing.assert_array_equal(found.rows.targets, table.rows.targets)
    receivers = np.repeat(np.arange(NUM_NODES), np.diff(store.array("incoming_offsets")))
    loops = store.array("loops")
    ends = np.stack([np.append(store.array("incoming_links")[:, 0], loops), np.append(receivers, loops)])
    wanted = np.stack([table.edges.senders, table.edges.receivers])
    assert sorted(ends.T.tolist()) == sorted(wanted.T.tolist())
    outgoing = store.array("outgoing_links")
    np.testing.assert_array_equal(receivers[outgoing[:, 1]], outgoing[:, 0])
    senders = np.repeat(np.arange(NUM_NODES), np.diff(store.array("outgoing_offsets")))
    np.testing.assert_array_equal(store.array("incoming_links")[outgoing[:, 1], 0], senders)


@pytest.mark.parametrize(
    "model", [name for name in layers_for("nodes") if not (LAYERS[name].is_relational or LAYERS[name].over_edges)]
)
def test_layer_by_layer_gives_the_outputs_of_the_whole_graph(tmp_path, monkeypatch, model):
    """Exactly the same, in parts of a few nodes, with features and weights of edges where the model reads them."""
    spec = LAYERS[model]
    nodes, edges = tables(tmp_path, NAMES["words"])
    source = GraphSource(edges=edges)
    if spec.has_edge_features:
        source = GraphSource(edges=edges, edge_feature_columns=("weight",), edge_category_columns=("bond",))
    elif spec.reads_edge_weights:
        source = GraphSource(edges=edges, edge_feature_columns=("weight",))
    flags = [word for name in source.edge_feature_columns for word in ("--edge-feature-columns", name)]
    flags += [word for name in source.edge_category_columns for word in ("--edge-category-columns", name)]
    assert main(["prepare", nodes, edges, "-o", str(tmp_path / "store"), *flags]) == 0
    settings = settings_of(nodes, model, source, ("element",))
    table = read_data(settings)
    kept = settings_of(str(tmp_path / "store"), model, GraphSource(), ("element",))
    other = read_data(kept)
    splits = split_rows(table.rows)
    torch.manual_seed(0)
    first = TABLE.prepared(settings, table, splits).fitted
    second = TABLE.prepared(kept, other, splits).fitted
    assert second.encoder.sizes == first.encoder.sizes
    assert second.encoder.on_graph.categories == first.encoder.on_graph.categories
    member = first.new_member().eval()
    second.new_member().load_state_dict(member.state_dict())
    monkeypatch.setattr(stored, "MAX_BYTES", 4 * 64 * 10)
    monkeypatch.setattr(stored, "MIN_BYTES", 4 * 64 * 10)
    rows = np.array([5, 119, 3, 40, 8])
    with torch.no_grad():
        for call in (member, member.fingerprint):
            whole = call(first.batches(table).batch(rows))
            by_layer = call(second.batches(other).batch(rows))
            in_memory = call(second.encoder.batches(other, second.output.scale, whole=True).batch(rows))
            torch.testing.assert_close(by_layer, whole, rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(in_memory, whole, rtol=1e-5, atol=1e-6)


def test_records_of_one_key_that_do_not_fit_are_dealt_out_by_the_next(tmp_path):
    from edgewise.learn.files import Scratch

    random = np.random.default_rng(0)
    dtype = np.dtype([("first", "<i8"), ("second", "<i8"), ("place", "<i8")])
    records = np.zeros(5000, dtype)
    records["first"] = np.where(random.random(5000) < 0.8, 17, random.integers(0, 1000, 5000))
    records["second"], records["place"] = random.integers(0, 50, 5000), np.arange(5000)
    (tmp_path / "records").write_bytes(records.tobytes())
    keys = [sort.Key(lambda r: r["first"], 1000), sort.Key(lambda r: r["second"], 50)]
    with Scratch(tmp_path) as scratch:
        blocks = sort.sorted_blocks([str(tmp_path / "records")], dtype, keys, scratch, 100 * dtype.itemsize)
        found = [(block.low, block.high, np.concatenate(list(block.pieces))) for block in blocks]
    low = [each[0] for each in found]
    assert low == sorted(low)
    assert max(len(each[2]) for each in found) <= 200
    joined = np.concatenate([each[2] for each in found])
    assert sorted(joined["place"].tolist()) == list(range(5000))
    assert (np.diff(joined["first"]) >= 0).all()
    hub = joined[joined["first"] == 17]
    assert (np.diff(hub["second"]) >= 0).all()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["records"]
