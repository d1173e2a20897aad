"""Neighborhoods: every pair as written out by hand, as a table, a list, a drawing, a slice; and their algebra."""

import itertools
import subprocess
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from cases import HEADS, MEMBERS, all_neighborhoods
from edgewise import Causal, Edges, Full, Lengths, Mask, Segments, ShapeError, Window, aggregate, attend
from edgewise.neighborhood import Intersection, RangeIntersection, Ranges, Relations, Types, Union, checks
from edgewise.neighborhood.checks import broadcast_shape

BY_NAME = pytest.mark.parametrize("case", all_neighborhoods, ids=lambda case: case.name)


def table(case, member, head):
    mask = torch.zeros(case.num_queries, case.num_keys, dtype=torch.bool)
    for i, j in case.pairs_of(member, head):
        mask[i, j] = True
    return mask


@BY_NAME
def test_to_mask_is_the_set_of_pairs(case):
    mask = case.neighborhood.to_mask(case.num_queries, case.num_keys)
    assert mask.dtype == torch.bool
    assert mask.shape == (*case.neighborhood.batch_shape, case.num_queries, case.num_keys)
    mask = mask.expand(MEMBERS, HEADS, case.num_queries, case.num_keys)
    for member, head in itertools.product(range(MEMBERS), range(HEADS)):
        assert torch.equal(mask[member, head], table(case, member, head))
    small = case.neighborhood.table(case.num_queries, case.num_keys)
    assert torch.equal(small.expand_as(mask), mask)


@BY_NAME
def test_to_edges_is_the_list_of_pairs(case):
    if any(size != 1 for size in case.neighborhood.batch_shape):
        with pytest.raises(ShapeError, match="varies over batch axes"):
            case.neighborhood.to_edges(case.num_queries, case.num_keys)
        return
    edges = case.neighborhood.to_edges(case.num_queries, case.num_keys)
    assert (edges.num_receivers, edges.num_senders) == (case.num_queries, case.num_keys)
    assert list(zip(edges.receivers.tolist(), edges.senders.tolist())) == list(case.pairs_of(0))
    assert edges.num_edges == len(case.pairs_of(0))
    assert edges.degrees().tolist() == [sum(r == i for r, _ in case.pairs_of(0)) for i in range(case.num_queries)]


@BY_NAME
def test_a_block_is_a_slice_of_the_table_and_lies_in_the_key_span(case):
    sizes = case.num_queries, case.num_keys
    whole = case.neighborhood.to_mask(*sizes)
    for start in range(case.num_queries):
        for stop in range(start + 1, case.num_queries + 1):
            first, last = case.neighborhood.key_span(start, stop, *sizes)
            assert 0 <= first <= last <= case.num_keys
            part = case.neighborhood.block(torch.arange(start, stop), torch.arange(first, last), *sizes)
            assert torch.equal(part.expand(*whole.shape[:-2], -1, -1), whole[..., start:stop, first:last])
            assert not whole[..., start:stop, :first].any()
            assert not whole[..., start:stop, last:].any()


@BY_NAME
def test_runs_are_the_rows_of_a_range(case):
    if not isinstance(case.neighborhood, Ranges):
        pytest.skip("no range")
    start, stop = case.neighborhood.runs(torch.arange(case.num_queries), case.num_queries, case.num_keys)
    assert (start <= stop).all()
    assert (start >= 0).all()
    lengths = (stop - start).expand(*case.neighborhood.batch_shape, case.num_queries)
    mask = case.neighborhood.to_mask(case.num_queries, case.num_keys)
    assert torch.equal(lengths, mask.sum(-1).expand_as(lengths))
    assert (stop.expand_as(lengths)[lengths > 0] <= case.num_keys).all()


@BY_NAME
def test_a_head_axis_goes_right_before_the_nodes(case):
    plain = case.neighborhood.to_mask(case.num_queries, case.num_keys)
    headed = case.neighborhood.with_head_axis().to_mask(case.num_queries, case.num_keys)
    if case.neighborhood.batch_shape:
        plain = plain.unsqueeze(-3)
    assert torch.equal(headed.expand_as(plain) if headed.dim() <= plain.dim() else headed, plain.expand_as(headed))


@BY_NAME
def test_moving_keeps_the_pairs(case):
    moved = case.neighborhood.to("cpu")
    assert type(moved) is type(case.neighborhood)
    sizes = case.num_queries, case.num_keys
    assert torch.equal(moved.to_mask(*sizes), case.neighborhood.to_mask(*sizes))
    assert case.neighborhood.to("meta").to_mask(*sizes, device="meta").device.type == "meta"


def test_the_drawings_of_the_docstrings():
    for neighborhood, sizes in (
        (Causal(), (3, 5)),
        (Causal("start"), (3, 5)),
        (Window(1, 1), (3, 5)),
        (Window(1, 1, "start"), (3, 5)),
        (Causal() & Lengths(torch.tensor([2])), (3, 3)),
        (Causal() & Lengths(torch.tensor([4])), (2, 5)),
    ):
        drawn = neighborhood.draw(*sizes).splitlines()
        owners = (Causal, Window, Lengths)
        documented = "\n".join(owner.__doc__ for owner in owners)
        for line in drawn:
            assert line in documented
    assert Causal().draw(2) == "■ ·\n■ ■"
    assert Lengths(torch.tensor([1, 2])).draw(1, 2) == "■ ·\n\n■ ■"
    assert Edges(torch.tensor([1]), torch.tensor([0]), 2, 2).draw() == "· ■\n· ·"


def test_operators_flatten_and_put_ranges_first():
    mask = Mask(torch.ones(3, 3, dtype=torch.bool))
    both = Causal() & mask & Window(1, 1) & Lengths(torch.tensor(2))
    assert isinstance(both, Intersection)
    assert [type(part) for part in both.parts] == [RangeIntersection, Mask]
    assert [type(part) for part in both.parts[0].parts] == [Causal, Window, Lengths]
    either = mask | Causal() | (Full() | mask)
    assert isinstance(either, Union)
    assert len(either.parts) == 4
    assert isinstance(Causal() & Full(), RangeIntersection)
    nested = (mask | Causal()) & (mask | Full())
    assert isinstance(nested, Intersection)
    assert torch.equal(nested.to_mask(), mask.mask)


@given(st.data())
def test_and_is_intersection_and_or_is_union_of_what_does_not_align(data):
    masks = [torch.tensor(data.draw(st.lists(st.booleans(), min_size=12, max_size=12))).reshape(3, 4) for _ in range(3)]
    one, two, three = (Mask(mask) for mask in masks)
    assert torch.equal(((one & two) | three).to_mask(), (masks[0] & masks[1]) | masks[2])
    assert torch.equal((one & (two | three)).to_mask(), masks[0] & (masks[1] | masks[2]))


def test_sizes_are_taken_from_the_neighborhood_or_the_call():
    assert Full().sizes == (None, None)
    assert Mask(torch.ones(2, 3, dtype=torch.bool)).sizes == (2, 3)
    assert (Causal() & Mask(torch.ones(2, 3, dtype=torch.bool))).sizes == (2, 3)
    assert Causal().to_mask(3).shape == (3, 3)
    assert Edges(torch.tensor([0]), torch.tensor([1]), 3, 2).to_mask().shape == (2, 3)
    assert Lengths(torch.tensor([[1, 2]]), torch.tensor([[1], [3]])).batch_shape == (2, 2)


class TestEdges:
    edges = Edges(torch.tensor([0, 1, 1, 3]), torch.tensor([1, 0, 2, 3]), 5, 5)

    def pairs(self, edges):
        return list(zip(edges.senders.tolist(), edges.receivers.tolist()))

    def test_keeps_order_and_count(self):
        edges = Edges(torch.tensor([2, 0, 2, 2]), torch.tensor([0, 0, 0, 1]), 3, 2)
        assert self.pairs(edges) == [(2, 0), (0, 0), (2, 0), (2, 1)]
        assert edges.to_edges() is edges
        assert edges != Edges(edges.senders, edges.receivers, 3, 2)

    @pytest.mark.usefixtures("shapes_unchecked")
    def test_what_the_caller_changes_later_changes_no_edge_and_no_plan(self):
        numpy = pytest.importorskip("numpy")
        table, array = torch.tensor([[0, 2], [1, 0]]), numpy.array([0, 2])
        for edges in (Edges.from_edge_index(table, 3), Edges(array, table[1], 3, 3), Edges(table[0], table[1], 3, 3)):
            x = torch.eye(3)
            before = {name: aggregate(x, edges, backend=name) for name in ("numba", "gather")}
            table.fill_(2), array.fill(1)
            for name, out in before.items():
                assert torch.equal(aggregate(x, edges, backend=name), out)
                assert out[:, 2].tolist() == [1, 0, 0]
            table.copy_(torch.tensor([[0, 2], [1, 0]])), array.__setitem__(1, 2)
        offsets = torch.tensor([0, 1, 3])
        segments = Segments(offsets)
        offsets[1] = 2
        assert segments.query_offsets.tolist() == [0, 1, 3]

    def test_self_loops_are_explicit_and_added_once(self):
        looped = self.edges.with_self_loops()
        assert self.pairs(looped) == [(0, 1), (1, 0), (1, 2), (3, 3), (0, 0), (1, 1), (2, 2), (4, 4)]
        assert self.pairs(looped.with_self_loops()) == self.pairs(looped)
        assert self.pairs(self.edges) == [(0, 1), (1, 0), (1, 2), (3, 3)]

    def test_undirected_adds_the_reverses_that_are_missing(self):
        both = self.edges.undirected()
        assert self.pairs(both) == [(0, 1), (1, 0), (1, 2), (3, 3), (2, 1)]
        assert self.pairs(both.undirected()) == self.pairs(both)
        none = Edges(torch.zeros(0, dtype=torch.int64), torch.zeros(0, dtype=torch.int64), 0, 0)
        assert none.undirected().with_self_loops().num_edges == 0

    def test_undirected_mirrors_multi_edges_one_by_one(self):
        twice = Edges(torch.tensor([0, 0, 0]), torch.tensor([1, 1, 2]), 3, 3).undirected()
        assert self.pairs(twice) == [(0, 1), (0, 1), (0, 2), (1, 0), (1, 0), (2, 0)]
        assert self.pairs(twice.undirected()) == self.pairs(twice)
        # The first 0 → 1 is paired with 1 → 0, the second has no other way.
        partly = Edges(torch.tensor([0, 1, 0, 2]), torch.tensor([1, 0, 1, 2]), 3, 3).undirected()
        assert self.pairs(partly) == [(0, 1), (1, 0), (0, 1), (2, 2), (1, 0)]

    def test_undirected_has_the_counts_of_networkx(self):
        networkx = pytest.importorskip("networkx")
        senders, receivers = torch.randint(0, 5, (2, 40), generator=torch.Generator().manual_seed(0))
        graph = networkx.MultiDiGraph(list(zip(senders.tolist(), receivers.tolist())))
        both = Edges(senders, receivers, 5, 5).undirected()
        expected = [(i, j) for i, j, _ in graph.to_undirected().to_directed().edges]
        loops = [(i, i) for i, j in zip(senders.tolist(), receivers.tolist()) if i == j]
        expected = [pair for pair in expected if pair[0] != pair[1]] + loops
        assert sorted(self.pairs(both)) == sorted(expected)

    def test_from_edge_index_is_source_to_target(self):
        edges = Edges.from_edge_index(torch.tensor([[0, 2], [1, 0]]), 3)
        assert self.pairs(edges) == [(0, 1), (2, 0)]
        assert edges.to_mask()[1, 0]
        bipartite = Edges.from_edge_index(torch.tensor([[4], [1]]), (5, 2))
        assert (bipartite.num_senders, bipartite.num_receivers) == (5, 2)

    def test_from_adjacency_row_attends_to_column(self):
        sparse = pytest.importorskip("scipy.sparse")
        matrix = torch.tensor([[0.0, 2.0, 0.0], [0.5, 0.0, -1.0]])
        for adjacency in (matrix, matrix.numpy(), sparse.csr_matrix(matrix.numpy()), sparse.coo_array(matrix.numpy())):
            edges = Edges.from_adjacency(adjacency)
            assert self.pairs(edges) == [(1, 0), (0, 1), (2, 1)]
            assert (edges.num_receivers, edges.num_senders) == (2, 3)
            assert edges.senders.dtype == torch.int64

    @pytest.mark.filterwarnings("ignore:Sparse CSR tensor support is in beta state")
    def test_from_adjacency_of_torch_is_that_of_the_dense_matrix(self):
        dense = torch.tensor([[0, 1.5, 0, 2], [0, 0, 0, 0], [-3, 4, 5, 0]], requires_grad=True)
        expected = Edges.from_adjacency(dense)
        assert self.pairs(expected) == [(1, 0), (3, 0), (0, 2), (1, 2), (2, 2)]
        stored_zero = torch.sparse_coo_tensor(
            [[2, 0, 0, 0, 2, 2, 1], [2, 3, 1, 1, 0, 1, 1]], [5, 2, 1, 0.5, -3, 4, 0], check_invariants=True
        )
        for matrix in (dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc(), stored_zero, dense.bool()):
            edges = Edges.from_adjacency(matrix)
            assert torch.equal(edges.senders, expected.senders)
            assert torch.equal(edges.receivers, expected.receivers)
            assert edges.sizes == (3, 4) or matrix is stored_zero
        values = dense.detach().to_sparse().coalesce().values()
        assert torch.equal(values, dense[expected.receivers, expected.senders])
        sparse = pytest.importorskip("scipy.sparse")
        twice = sparse.csr_matrix(([1.0, -1.0, 2.0], [0, 0, 1], [0, 3]), shape=(1, 2))  # 1 − 1 at one place
        assert self.pairs(Edges.from_adjacency(twice)) == [(1, 0)]

    def test_the_classes_of_other_libraries_stay_outside(self):
        geometric = pytest.importorskip("torch_geometric")

        class Own(torch.Tensor):
            pass

        table = torch.tensor([[0, 2], [1, 0]])
        for index in (geometric.EdgeIndex(table, sparse_size=(3, 3)), table.as_subclass(Own)):
            for edges in (Edges.from_edge_index(index, 3), Edges(index[0], index[1], 3, 3)):
                held = [edges.senders, edges.receivers, *(x for x in vars(edges.plan).values() if torch.is_tensor(x))]
                assert {type(x) for x in held} == {torch.Tensor}
                assert self.pairs(edges) == [(0, 1), (2, 0)]
        own = table.as_subclass(Own)
        edges = Edges.from_edge_index(own, 3)
        own.zero_()
        assert self.pairs(edges) == [(0, 1), (2, 0)]

    def test_from_adjacency_leaves_out_stored_zeros(self):
        sparse = pytest.importorskip("scipy.sparse")
        stored = sparse.csr_matrix(([0.0, 3.0], ([0, 1], [1, 0])), shape=(2, 2))
        assert self.pairs(Edges.from_adjacency(stored)) == [(0, 1)]
        assert self.pairs(Edges.from_adjacency([[0, 1], [0, 0]])) == [(1, 0)]

    @pytest.mark.usefixtures("shapes_unchecked")
    def test_lists_arrays_and_small_integers_are_welcome(self):
        numpy = pytest.importorskip("numpy")
        expected = [(0, 1), (2, 0)]
        assert self.pairs(Edges([0, 2], [1, 0], 3, 2)) == expected
        assert self.pairs(Edges(numpy.array([0, 2], dtype=numpy.int32), torch.tensor([1, 0]).short(), 3, 2)) == expected
        assert self.pairs(Edges([], [], 3, 2)) == []
        assert Lengths([1, 2]).to_mask(1, 2).tolist() == [[[True, False]], [[True, True]]]
        assert Segments([0, 1, 2]).to_mask(2).tolist() == [[True, False], [False, True]]
        assert Mask([[True, False]]).to_mask().tolist() == [[True, False]]


def test_lengths_beyond_the_table_mean_all_of_it():
    assert Lengths(torch.tensor([9, 0])).to_mask(2, 3).sum((-1, -2)).tolist() == [6, 0]


def test_a_mask_whose_axis_serves_all_has_the_sizes_of_the_call_and_no_memory_of_its_own():
    keys, queries = Mask(torch.tensor([[True, False, True]])), Mask(torch.tensor([[True], [False]]))
    assert (keys.sizes, keys.fixed_sizes, queries.fixed_sizes) == ((1, 3), (None, 3), (2, None))
    assert keys.to_mask().tolist() == [[True, False, True]]
    assert keys.to_mask(2).tolist() == [[True, False, True]] * 2
    assert keys.to_mask(2).data_ptr() == keys.mask.data_ptr()
    assert queries.draw(2, 3) == "■ ■ ■\n· · ·"
    assert keys.to_edges(2).senders.tolist() == [0, 2, 0, 2]
    assert (keys & queries).sizes == (2, 3)
    assert (keys & queries).to_mask().tolist() == [[True, False, True], [False] * 3]
    assert (keys | queries).to_mask().tolist() == [[True] * 3, [True, False, True]]
    assert (keys & Causal()).fixed_sizes == (None, 3)
    assert (keys & Causal()).to_mask(3).tolist() == [[True, False, False], [True, False, False], [True, False, True]]
    assert (keys & keys).table(5, 3).shape == (1, 3)
    assert keys.block(torch.arange(1, 3), torch.arange(2, 3), 5, 3).tolist() == [[True], [True]]
    with pytest.raises(ShapeError, match="axis 'key' is 4 in the call but 3 in Mask"):
        keys.to_mask(2, 4)
    with pytest.raises(ShapeError, match="axis 'query' is 2 in one part but 3 in another"):
        (queries & Mask(torch.ones(3, 1, dtype=torch.bool))).to_mask()


def test_runs_lie_among_the_keys_that_there_are():
    """Kernels read the keys that a run names, whatever memory stands there."""
    for segments in (Segments(torch.tensor([0, 99])), Segments(torch.tensor([0, 3]), torch.tensor([5, 99]))):
        for neighborhood in (segments, Causal() & segments, segments & Window(2, 7, "start")):
            start, stop = neighborhood.runs(torch.arange(4), 4, 6)
            assert int(start.min()) >= 0
            assert int(stop.max()) <= 6


def test_a_cut_of_both_lengths_and_segments():
    both = Lengths(torch.tensor([4])) & Segments(torch.tensor([0, 3, 6]))
    mask = both.to_mask(6)
    assert mask.sum(-1).tolist() == [[3, 3, 3, 1, 1, 1]]
    assert torch.equal(mask, Lengths(torch.tensor([4])).to_mask(6, 6) & Segments(torch.tensor([0, 3, 6])).to_mask(6))


def test_shapes_broadcast_as_torch_has_it():
    random = np.random.default_rng(0)
    for _ in range(2000):
        shapes = [tuple(random.choice([0, 1, 1, 2, 3], random.integers(4)).tolist()) for _ in range(random.integers(4))]
        try:
            expected = torch.broadcast_shapes(*shapes)
        except RuntimeError:
            with pytest.raises(RuntimeError):
                broadcast_shape(*shapes)
        else:
            assert broadcast_shape(*shapes) == expected


def test_a_training_step_imports_no_compiler_of_torch():
    code = (
        "import sys, torch; from edgewise import Edges, attend;"
        "x = torch.randn(2, 5, 8, requires_grad=True); bond = torch.randn(1, 4, 8);"
        "attend(x, x, x, Edges([0, 1, 2, 3], [1, 2, 3, 4], 5, 5), edge_key=bond).sum().backward();"
        "print('sympy' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_offsets_on_a_device_are_checked_once_and_without_waiting(monkeypatch):
    monkeypatch.setattr(checks, "can_be_read", lambda x: False)  # as on a GPU
    for offsets, num_nodes in (([0, 2, 5], 6), ([1, 5], 5), ([0, 3, 2, 5], 5)):
        with pytest.raises(RuntimeError, match=f"Readout: offsets must begin at 0, .* number of nodes, {num_nodes}"):
            checks.check_offsets("Readout", torch.tensor(offsets), num_nodes)
    offsets, fits = torch.tensor([0, 2, 5]), []
    monkeypatch.setattr(torch, "_assert_async", lambda fit, message: fits.append(bool(fit)))
    checks.check_offsets("Readout", offsets, 5)
    checks.check_offsets("membership", offsets, 5)
    assert fits == [True]
    checks.check_offsets("membership", offsets, 6)
    assert fits == [True, False]
    monkeypatch.undo()
    checks.check_offsets("Readout", torch.tensor([0, 5], device="meta"), 7)


@pytest.mark.parametrize("is_moved", [False, True], ids=["made", "moved"])
def test_what_is_made_or_moved_in_inference_mode_serves_a_training(is_moved):
    """Torch could not save the indices for the gradient."""

    def made():
        order, offsets = torch.tensor([1, 2, 0]), torch.tensor([0, 2, 3])
        edges = Edges(torch.arange(3), order, 3, 3)
        ranges = Lengths(torch.tensor([2]), torch.tensor([2])), Segments(offsets, offsets.clone())
        return edges, *ranges, Relations(edges, order % 2, 2), Types.of(["a", "b", "a"])

    outside = made()
    with torch.inference_mode():
        structures = [x.to("meta") for x in outside] if is_moved else made()
        _ = structures[4].ranks

    def tensors(part):
        if isinstance(part, torch.Tensor):
            return [part]
        inner = part if isinstance(part, tuple | list) else getattr(part, "__dict__", {}).values()
        return [x for item in inner for x in tensors(item)]

    assert all(tensors(x) and not any(y.is_inference() for y in tensors(x)) for x in structures)
    if is_moved:
        return
    x = torch.randn(3, 4, requires_grad=True)
    edges, *_, types = structures
    for backend in ("gather", "reference"):
        attend(x, x, x, edges, score=lambda q, k: -(q - k).abs().sum(-1), backend=backend).sum().backward()
    types.join(types.split(x)).sum().backward()
