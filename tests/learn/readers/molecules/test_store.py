"""Distinct molecules once, and batches cut out of them."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from edgewise.errors import DataError
from edgewise.learn.readers.molecules.descriptor import DESCRIPTOR_NAMES
from edgewise.learn.readers.molecules.molecule_graph import molecule_graph
from edgewise.learn.readers.molecules.store import MoleculeStore

SMILES = ["CCO", "[Cl-]", "c1ccccc1O", "CC(=O)[O-]", "CCCC[n+]1ccn(C)c1", "C#N", "[Na+].[Cl-]"]
STORE = MoleculeStore.from_smiles(SMILES, with_descriptors=False).with_graph_features(np.arange(14.0).reshape(7, 2))


def test_each_molecule_is_kept_once_in_the_way_it_was_first_written():
    store, graph_of_smiles, reasons = MoleculeStore.collect(["OCC", "C1CC", "C", "CCO", "OCC", "", "[CH4]"])
    assert store.smiles == ("OCC", "C")
    assert store.canonical == ("CCO", "C")
    assert len(store) == 2
    assert graph_of_smiles.tolist() == [0, -1, 1, 0, 0, -1, 1]
    assert reasons == {
        "C1CC": "'C1CC' is not a SMILES that RDKit can read: unclosed ring.",
        "": "The SMILES is empty, expected one molecule.",
    }
    assert store.graph_features.shape == (2, len(DESCRIPTOR_NAMES))
    assert store.graph_features.dtype == torch.float64
    weight = store.graph_features[:, DESCRIPTOR_NAMES.index("MolWt")]
    torch.testing.assert_close(weight, torch.tensor([46.069, 16.043], dtype=torch.float64), atol=1e-3, rtol=0)


def test_spans_are_those_of_on_the_first_writing():
    store = MoleculeStore.from_smiles(["[H]OC", "CO"], with_descriptors=False)
    example = store.molecule_graph(0)
    assert [example.name[span.start : span.stop] for span in example.spans] == ["O", "C"]
    torch.testing.assert_close(example.node_features, store.node_features)


def test_a_string_that_is_no_molecule_is_counted_from_one():
    with pytest.raises(DataError) as caught:
        MoleculeStore.from_smiles(["C", "C", "xyz"])
    assert str(caught.value) == (
        "smiles, entry 3: 'xyz' is not a SMILES that RDKit can read: syntax error while parsing: xyz."
    )


def test_a_store_of_nothing_has_the_columns_of_a_store():
    store = MoleculeStore.from_smiles([])
    assert len(store) == 0
    assert store.node_features.shape == (0, STORE.node_features.shape[1])
    assert store.graph_features.shape == (0, len(DESCRIPTOR_NAMES))
    assert store.node_offsets.tolist() == [0]


def test_batch_by_hand():
    batch = STORE.batch([[5, 1], [0, 5]], [[1.0], [2.0]])
    batch = batch.with_targets(torch.tensor([[3.0], [math.nan]]), torch.tensor([1.0, 0.5]))
    graph, rows = batch.graph, batch.supervision
    # Graphs 0 (CCO), 1 ([Cl-]) and 5 (C#N), in the order of the store.
    assert graph.num_graphs == 3
    assert graph.offsets.tolist() == [0, 3, 4, 6]
    assert rows.graph_of_row.tolist() == [[2, 1], [0, 2]]
    assert graph.edges.senders.tolist() == [0, 1, 1, 2, 4, 5]
    assert graph.edges.receivers.tolist() == [1, 0, 2, 1, 5, 4]
    assert graph.edges.num_senders == graph.edges.num_receivers == 6
    assert graph.graph_features.tolist() == [[0.0, 1.0], [2.0, 3.0], [10.0, 11.0]]
    assert rows.row_features.tolist() == [[1.0], [2.0]]
    assert batch.targets[0, 0] == 3.0 and torch.isnan(batch.targets[1, 0])
    assert batch.weights.tolist() == [1.0, 0.5]
    dtypes = {t.dtype for t in (graph.node_features, graph.edge_features, graph.graph_features, rows.row_features)}
    assert dtypes == {torch.float32}


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12))
def test_batch_is_the_disjoint_union_of_its_molecules(rows):
    batch = STORE.batch(np.array(rows), np.zeros((len(rows), 0)))
    union, graph_of_row = batch.graph, batch.supervision.graph_of_row.tolist()
    graphs = sorted({graph for row in rows for graph in row})
    assert union.num_graphs == len(graphs)
    assert [[graphs[place] for place in row] for row in graph_of_row] == [list(row) for row in rows]
    nodes, bonds, senders, receivers, before = [], [], [], [], 0
    for graph in graphs:
        example = molecule_graph(SMILES[graph])
        nodes.append(example.node_features)
        bonds.append(example.edge_features)
        senders.append(example.edges.senders + before)
        receivers.append(example.edges.receivers + before)
        before += len(example.node_features)
    torch.testing.assert_close(union.node_features, torch.cat(nodes), rtol=0, atol=0)
    torch.testing.assert_close(union.edge_features, torch.cat(bonds), rtol=0, atol=0)
    assert union.edges.senders.tolist() == torch.cat(senders).tolist()
    assert union.edges.receivers.tolist() == torch.cat(receivers).tolist()
    assert union.offsets[-1] == before


def test_a_batch_without_edges_and_a_batch_of_one_component():
    batch = STORE.batch(torch.tensor([[1], [1]]), torch.zeros(2, 0))
    assert batch.graph.edge_features.shape == (0, STORE.edge_features.shape[1])
    assert batch.graph.edges.senders.shape == (0,)
    assert batch.supervision.graph_of_row.tolist() == [[0], [0]]
    assert batch.targets is None and batch.weights is None


def test_a_batch_is_a_copy():
    before = STORE.node_features.clone()
    STORE.batch([[0]], [[]]).graph.node_features.fill_(7)
    torch.testing.assert_close(STORE.node_features, before, rtol=0, atol=0)


@pytest.mark.parametrize(("graph", "shown"), [(-1, "-1"), (7, "7")])
def test_a_batch_of_an_unreadable_row_is_refused(graph, shown):
    with pytest.raises(DataError) as caught:
        STORE.batch([[0], [graph]], [[], []])
    assert str(caught.value) == f"batch: graph_of_row holds {shown}, expected 0 to 6: batch usable rows only."


def test_graph_features_must_fit_the_molecules():
    with pytest.raises(DataError) as caught:
        STORE.with_graph_features(np.zeros((3, 2)))
    assert str(caught.value) == (
        "with_graph_features: values has shape (3, 2), expected (7, feature): one row a molecule of the store."
    )
    assert STORE.with_graph_features(np.zeros((7, 0))).batch([[3]], [[]]).graph.graph_features is None
