"""Links and pairs that are none: how they are numbered, parted without a leak, drawn; which files are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgewise.errors import DataError, SettingError
from edgewise.learn.readers.graphs.edges import EdgeList
from edgewise.learn.readers.graphs.links import (
    Links,
    LinkSplits,
    PairNumbers,
    named_splits,
    random_splits,
    read_pairs_of_nodes,
    split_labels,
)
from edgewise.learn.readers.graphs.names import NodeNames
from edgewise.learn.readers.graphs.nodes import read_nodes
from edgewise.learn.readers.graphs.source import GraphSource
from edgewise.learn.tables.columns import AUTO, Columns
from edgewise.learn.tables.read import read_cells


def edges_of(pairs):
    senders, receivers = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return EdgeList(senders, receivers, np.zeros((len(senders), 0), dtype=np.float32))


@st.composite
def graphs(draw):
    """Pairs drawn at random: some twice, some loops, some both ways; how many nodes; the way they count; a seed."""
    num_nodes = draw(st.integers(14, 25))
    node = st.integers(0, num_nodes - 1)
    pairs = draw(st.lists(st.tuples(node, node), min_size=12, max_size=40))
    path = [(number, number + 1) for number in range(5)]
    return [*pairs, *path], num_nodes, draw(st.booleans()), draw(st.integers(0, 99))


def linked(graph):
    """Its edges, both ways where they go both ways, and its links."""
    pairs, num_nodes, is_directed, _ = graph
    edges = edges_of(pairs) if is_directed else edges_of(pairs).both_ways(num_nodes)
    return edges, Links.of(edges, num_nodes, is_directed)


@pytest.mark.parametrize("is_directed", [True, False])
@pytest.mark.parametrize("num_nodes", [2, 3, 7])
def test_every_pair_has_one_number(num_nodes, is_directed):
    pairs = PairNumbers(num_nodes, is_directed)
    senders, receivers = pairs.ends(np.arange(pairs.total))
    listed = {(i, j) for i in range(num_nodes) for j in range(num_nodes) if i != j and (is_directed or i < j)}
    assert set(zip(senders.tolist(), receivers.tolist())) == listed
    assert pairs.of(senders, receivers).tolist() == list(range(pairs.total))
    if not is_directed:
        assert pairs.of(receivers, senders).tolist() == list(range(pairs.total))


@pytest.mark.parametrize("is_directed", [True, False])
def test_numbers_of_a_hundred_million_nodes_are_exact(is_directed):
    pairs = PairNumbers(100_000_000, is_directed)
    large = np.array([0, 99_999_998, 99_999_997, 5, 77_777_777]), np.array([99_999_999, 99_999_999, 99_999_998, 6, 1])
    senders, receivers = pairs.ends(pairs.of(*large))
    order = (lambda i, j: (i, j)) if is_directed else (lambda i, j: (np.minimum(i, j), np.maximum(i, j)))
    np.testing.assert_array_equal(np.stack([senders, receivers]), np.stack(order(*large)))
    ends = np.array([0, pairs.total - 1])
    np.testing.assert_array_equal(pairs.of(*pairs.ends(ends)), ends)


@given(st.sets(st.integers(0, 44)))
def test_the_numbers_outside_are_all_that_are_not_known(known):
    pairs = PairNumbers(10, False)
    places = np.arange(pairs.total - len(known))
    found = pairs.outside(np.array(sorted(known), dtype=np.int64), places)
    assert found.tolist() == [number for number in range(45) if number not in known]


def test_links_by_hand():
    # 0–1 both ways and once more, 1 → 2, a loop at 2.
    edges = edges_of([(0, 1), (1, 0), (0, 1), (1, 2), (2, 2)])
    one_way, both = Links.of(edges, 3, True), Links.of(edges.both_ways(3), 3, False)
    assert (len(one_way), len(both)) == (3, 2)
    assert both.of_edge.tolist() == [0, 0, 0, 1, -1, 0, 1], "the edges that were added are the same links"
    assert one_way.of_edge.tolist() == [0, 1, 0, 2, -1]
    assert both.edge_mask(np.array([False, True])).tolist() == [False, False, False, True, True, False, True]
    assert both.contain(both.pairs.of(np.array([2, 0]), np.array([1, 2]))).tolist() == [True, False]
    assert one_way.contain(one_way.pairs.of(np.array([2, 1]), np.array([1, 2]))).tolist() == [False, True]


@given(graphs())
def test_no_link_of_the_test_is_seen_in_any_way(graph):
    (edges, links), (*_, is_directed, seed) = linked(graph), graph
    part_of_link = random_splits(links, (0.5, 0.2, 0.3), seed)
    parts = LinkSplits.of(links, part_of_link, seed=seed)
    together = np.sort(np.concatenate([parts.train, parts.val, parts.test]))
    assert together.tolist() == list(range(len(links))), "each link is in exactly one part"
    assert min(map(len, (parts.train, parts.val, parts.test))) >= 1
    seen = links.edge_mask(parts.message_passing)
    messages = set(zip(edges.senders[seen].tolist(), edges.receivers[seen].tolist()))
    for part in (parts.val, parts.test):
        for i, j in zip(*(side.tolist() for side in links.pairs.ends(links.numbers[part]))):
            assert (i, j) not in messages
            assert is_directed or (j, i) not in messages
    predicted = np.isin(links.of_edge, np.concatenate([parts.val, parts.test]))
    assert seen.tolist() == (~predicted).tolist(), "nothing else is left out, loops least of all"


@given(graphs(), st.integers(1, 2))
def test_pairs_that_are_none_are_none_of_the_whole_graph_and_all_different(graph, negatives_per_link):
    (edges, links), (*_, is_directed, seed) = linked(graph), graph
    part_of_link = random_splits(links, (0.8, 0.1, 0.1), seed)
    parts = LinkSplits.of(links, part_of_link, negatives_per_link, seed)
    assert len(parts.val_negatives) == negatives_per_link * len(parts.val)
    assert len(parts.test_negatives) == negatives_per_link * len(parts.test)
    others = np.concatenate([parts.val_negatives, parts.test_negatives])
    assert len(np.unique(others)) == len(others)
    joined = set(zip(edges.senders.tolist(), edges.receivers.tolist()))
    for i, j in zip(*(side.tolist() for side in links.pairs.ends(others))):
        assert i != j
        assert (i, j) not in joined
        assert is_directed or (j, i) not in joined
    again = LinkSplits.of(links, part_of_link, negatives_per_link, seed)
    np.testing.assert_array_equal(others, np.concatenate([again.val_negatives, again.test_negatives]))


def test_the_other_way_of_an_edge_may_be_none_where_edges_are_one_way():
    links = Links.of(edges_of([(0, 1), (1, 2), (2, 0)]), 3, True)
    parts = LinkSplits.of(links, np.array([0, 1, 2]), 1, 0)
    others = {(int(i), int(j)) for i, j in zip(*links.pairs.ends(np.append(parts.val_negatives, parts.test_negatives)))}
    assert others < {(1, 0), (2, 1), (0, 2)}


def test_every_pair_that_is_none_is_drawn_equally_often():
    links = Links.of(edges_of([(0, 1), (1, 2), (2, 3), (3, 4)]), 5, False)
    part_of_link, counts = np.array([0, 0, 1, 2]), np.zeros(links.pairs.total)
    for seed in range(600):
        parts = LinkSplits.of(links, part_of_link, 1, seed)
        counts[np.append(parts.val_negatives, parts.test_negatives)] += 1
    assert (counts[links.numbers] == 0).all()
    # Two of six each time: 200 ± 11.5.
    assert np.abs(np.delete(counts, links.numbers) - 200).max() < 58


def test_too_few_links_or_pairs_that_are_none():
    with pytest.raises(DataError, match="no links: 2 edges, all self-loops"):
        Links.of(edges_of([(0, 0), (1, 1)]), 2, False)
    with pytest.raises(DataError, match="no links: 0 edges"):
        Links.of(edges_of([]), 2, False)
    links = Links.of(edges_of([(0, 1), (1, 2)]), 4, False)
    with pytest.raises(DataError, match="2 links cannot fill train, val, test: add rows or set a split's size to 0"):
        random_splits(links, (0.8, 0.1, 0.1), 0)
    complete = Links.of(edges_of([(i, j) for i in range(5) for j in range(i)]), 5, False)
    with pytest.raises(DataError, match="0 of 10 pairs of nodes are not links, but 3 are needed beside 1 validation"):
        LinkSplits.of(complete, np.array([0] * 7 + [1, 2, 2]))
    with pytest.raises(DataError, match=r"0 of 10 pairs .* but 1 are needed"):
        LinkSplits.of(complete, np.zeros(10, dtype=np.int64))  # training has nothing to tell links from


BARE = {"need_targets": False, "find_features": True, "with_degrees": False, "with_types": False}
TABLE = "from,to,part\na,b,train\nb,a,train\nb,c,val\nc,d,test\nx,a,test\na,b,train\nd,d,\nd,a,\n"


def links_of_table(tmp_path, table=TABLE):
    (tmp_path / "nodes.csv").write_text("id\na\nb\nc\nd\n")
    (tmp_path / "edges.csv").write_text(table)
    source = GraphSource(edges=str(tmp_path / "edges.csv"))
    columns = Columns(node_column=AUTO, task_type=AUTO)
    graph = read_nodes([str(tmp_path / "nodes.csv")], columns, source, edge_splits_column="part", **BARE)
    links = Links.of(graph.edges, 4, False)
    return graph, links, named_splits(links, split_labels(graph.edges, "part"), 0)


def test_parts_by_a_column(tmp_path, monkeypatch):
    read = []
    for module in ("edges", "links"):  # the table is read once, whoever needs it
        counted = lambda path, **how: read.append(path) or read_cells(path, **how)  # noqa: E731
        monkeypatch.setattr(f"edgewise.learn.readers.graphs.{module}.read_cells", counted, raising=False)
    graph, links, part_of_link = links_of_table(tmp_path)
    assert read == [str(tmp_path / "edges.csv")]
    assert graph.edges.unused_columns == ()
    assert graph.features.shape == (4, 0), "no numbers of edges: they would tell of the test"
    ends = zip(*(side.tolist() for side in links.pairs.ends(links.numbers)))
    # The row of the unknown x is passed over, and the parts behind it stay with their edges.
    assert dict(zip(ends, part_of_link.tolist())) == {(0, 1): 0, (1, 2): 1, (2, 3): 2, (0, 3): -1}
    parts = LinkSplits.of(links, part_of_link)
    assert [part.tolist() for part in (parts.train, parts.val, parts.test)] == [[0], [1], [3]]
    assert parts.message_passing.tolist() == [True, False, True, False], "a link of no part carries messages"


def test_a_tenth_of_the_training_validates_where_the_column_names_none(tmp_path):
    ring = [f"{number},{(number + 1) % 20},{'test' if number < 4 else 'train'}" for number in range(20)]
    (tmp_path / "nodes.csv").write_text("id\n" + "\n".join(map(str, range(20))))
    (tmp_path / "edges.csv").write_text("s,r,part\n" + "\n".join(ring))
    source = GraphSource(edges=str(tmp_path / "edges.csv"))
    columns = Columns(node_column=AUTO)
    graph = read_nodes([str(tmp_path / "nodes.csv")], columns, source, edge_splits_column="part", **BARE)
    links = Links.of(graph.edges, 20, False)
    found = named_splits(links, split_labels(graph.edges, "part"), 0)
    assert np.bincount(found).tolist() == [14, 2, 4]


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (TABLE.replace("b,a,train", "b,a,test"),
         r"line 3, column 'part': 'test', but 'train' at .*line 2, column 'part', which joins the same nodes"),
        (TABLE.replace("a,b,train\nd", "a,b,\nd"), "line 7, column 'part': '', but 'train' at"),
        (TABLE.replace("b,c,val", "b,c,maybe"), "line 4, column 'part': 'maybe' is not a split, expected train, val"),
        (TABLE.replace("train", "test"), "line 2, column 'part': neither this edge nor any other .* is in train"),
        ("from,to\na,b\n", "no column 'part'"),
        ("from,to,part\n", "a header but no rows"),
        ("from,to,part\nq,r,train\n", "'q' is not a node of .*none of the rows is an edge"),
    ],
)  # fmt: skip
def test_columns_of_parts_that_are_refused(tmp_path, table, message):
    with pytest.raises(DataError, match=message):
        links_of_table(tmp_path, table)


def test_a_column_of_parts_needs_a_table_of_edges():
    with pytest.raises(
        SettingError, match="--splits-column part names a column of the table of edges, but the edges are"
    ):
        split_labels(edges_of([(0, 1)]), "part")


def test_pairs_to_predict(tmp_path):
    (tmp_path / "pairs.csv").write_text("one,other,why\na, b,x\nq,a,x\na,,x\nb,b,x\n")
    places = NodeNames(["a", "b"])
    table = read_pairs_of_nodes(str(tmp_path / "pairs.csv"), places)
    assert table.usable.tolist() == [True, False, False, False]
    assert (table.senders[0], table.receivers[0], table.num_rows) == (0, 1, 4)
    assert table.status[1:] == [
        "one: 'q' is not a node of the graph",
        "other: the cell names no node",
        "other: 'b' and itself are not a link",
    ]
    with pytest.raises(DataError, match=r"pairs.csv, line 3, one: 'q' is not a node of the graph; fix the row"):
        read_pairs_of_nodes(str(tmp_path / "pairs.csv"), places, strict=True)
    with pytest.raises(DataError, match="line 2, one: 'a' is not a node of the graph; none of the rows names two"):
        read_pairs_of_nodes(str(tmp_path / "pairs.csv"), NodeNames(["c"]))
    assert read_pairs_of_nodes(str(tmp_path / "pairs.csv"), places, ("other", "one")).senders[0] == 1
    with pytest.warns(UserWarning, match="from column 'one' to 'other'.*the training they went from 'u' to 'v'"):
        assert read_pairs_of_nodes(str(tmp_path / "pairs.csv"), places, ("u", "v")).senders[0] == 0
    (tmp_path / "one.csv").write_text("one\na\n")
    with pytest.raises(DataError, match="1 column names nodes, expected two"):
        read_pairs_of_nodes(str(tmp_path / "one.csv"), places)
