"""The plan of an edge list: by counting, by sorting and by hand; kept, moved, traced."""

import pickle
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from batch_cases import batch_of
from edgewise import Edges, ShapeError
from edgewise.neighborhood import Plan
from edgewise.neighborhood import plan as module

NAMES = [field.name for field in fields(Plan)]
WAYS = pytest.mark.parametrize(
    "group", [module.group_by_counting, module.group_by_sorting], ids=["counting", "sorting"]
)
DTYPES = [torch.int32, torch.int64]


@pytest.fixture(autouse=True)
def forget_compiled_code():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def tensors(plan):
    return [getattr(plan, name) for name in NAMES]


def by_hand(senders, receivers, num_senders, num_receivers):
    """The lists of a plan, group after group."""
    lists = []
    for keys, others, num_keys in ((receivers, senders, num_receivers), (senders, receivers, num_senders)):
        groups = [[edge for edge, key in enumerate(keys) if key == node] for node in range(num_keys)]
        offsets = [sum(len(group) for group in groups[:node]) for node in range(num_keys + 1)]
        edges = [edge for group in groups for edge in group]
        lists += [offsets, [others[edge] for edge in edges], edges]
    return lists


def random_edges(num_senders=6, num_receivers=6, num_edges=20, seed=0, edges=Edges):
    generator = torch.Generator().manual_seed(seed)
    senders = torch.randint(num_senders, (num_edges,), generator=generator)
    receivers = torch.randint(num_receivers, (num_edges,), generator=generator)
    return edges(senders, receivers, num_senders, num_receivers)


def lists_of(edges):
    return by_hand(edges.senders.tolist(), edges.receivers.tolist(), edges.num_senders, edges.num_receivers)


@st.composite
def edge_lists(draw):
    """Few nodes, so that there are multi-edges and loops; sorted by either end, or not; sizes that differ."""
    sizes = draw(st.tuples(st.integers(1, 7), st.integers(1, 7)))
    pairs = draw(st.lists(st.tuples(*(st.integers(0, size - 1) for size in sizes)), max_size=30))
    order = draw(st.sampled_from([None, lambda pair: pair[0], lambda pair: pair[1], lambda pair: pair[::-1]]))
    pairs = pairs if order is None else sorted(pairs, key=order)
    return [pair[0] for pair in pairs], [pair[1] for pair in pairs], *sizes


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@WAYS
@given(edge_list=edge_lists())
def test_both_ways_are_the_groups_written_out(group, dtype, edge_list):
    senders, receivers, *sizes = edge_list
    arguments = torch.tensor(senders, dtype=torch.int64), torch.tensor(receivers, dtype=torch.int64)
    grouped = group(*arguments, *sizes, dtype)
    assert [x.tolist() for x in grouped] == by_hand(senders, receivers, *sizes)
    assert {x.dtype for x in grouped} == {dtype}
    assert [x.tolist() for x in arguments] == [senders, receivers]


@WAYS
@pytest.mark.parametrize("sizes", [(0, 0), (0, 3), (3, 0), (1, 1)])
def test_no_edge_and_no_node(group, sizes):
    none = torch.zeros(0, dtype=torch.int64)
    grouped = group(none, none, *sizes, torch.int32)
    assert [x.tolist() for x in grouped] == [[0] * (sizes[1] + 1), [], [], [0] * (sizes[0] + 1), [], []]
    assert [x.tolist() for x in tensors(Edges(none, none, *sizes).plan)] == [x.tolist() for x in grouped]


def test_both_ways_agree_on_a_large_graph_with_hubs():
    generator = torch.Generator().manual_seed(0)
    senders, receivers = (5000 * torch.rand(2, 40000, generator=generator) ** 4).long()
    for one, other in ((senders, receivers), (senders, receivers.sort().values), (senders.sort().values, receivers)):
        counted = module.group_by_counting(one, other, 5000, 5001, torch.int32)
        assert all(map(torch.equal, counted, module.group_by_sorting(one, other, 5000, 5001, torch.int32)))


@WAYS
@pytest.mark.parametrize("wrong", [-1, 3, 2**40, -(2**63)])
@pytest.mark.parametrize("side", ["senders", "receivers"])
def test_a_node_that_does_not_exist_is_refused(group, side, wrong):
    """A traced program has not looked at the positions: the plan must, or it would write beyond its tensors."""
    ends = {"senders": torch.tensor([0, 2, 1]), "receivers": torch.tensor([2, 2, 0])}
    ends[side][1] = wrong
    with pytest.raises(ShapeError, match=rf"^Edges: {side} must lie in 0 … 2; found {wrong}\.$"):
        group(**ends, num_senders=3, num_receivers=3, dtype=torch.int32)


def test_the_plan_of_edges_is_made_once_and_says_what_its_fields_say():
    edges = random_edges(5, 7)
    plan = edges.plan
    assert edges.plan is plan
    assert isinstance(plan, Plan)
    assert [x.tolist() for x in tensors(plan)] == lists_of(edges)
    for i in range(edges.num_receivers):
        places = slice(plan.receiver_offsets[i], plan.receiver_offsets[i + 1])
        assert (edges.receivers[plan.receiver_edges[places]] == i).all()
        assert torch.equal(edges.senders[plan.receiver_edges[places]], plan.senders[places].long())
    assert "_plan" not in repr(edges)
    assert edges != random_edges(5, 7)


def test_columns_of_a_table_may_lie_apart():
    table = torch.tensor([[0, 1, 9], [2, 0, 9], [2, 1, 9], [0, 0, 9]])
    edges = Edges(table[:, 0], table[:, 1], 3, 2)
    assert [x.tolist() for x in tensors(edges.plan)] == lists_of(edges)


@pytest.mark.parametrize("sizes", [(9, 2, 3), (2, 9, 3), (2, 3, 9)], ids=["senders", "receivers", "edges"])
def test_one_size_that_int32_does_not_hold_makes_all_int64(monkeypatch, sizes):
    small = random_edges(*sizes)
    assert {x.dtype for x in tensors(small.plan)} == {torch.int32}
    monkeypatch.setattr(module, "INT32_LIMIT", 10)
    assert {x.dtype for x in tensors(random_edges(*sizes).plan)} == {torch.int32}
    monkeypatch.setattr(module, "INT32_LIMIT", 9)
    large = random_edges(*sizes).plan
    assert {x.dtype for x in tensors(large)} == {torch.int64}
    assert [x.tolist() for x in tensors(large)] == lists_of(small)
    with pytest.raises(ShapeError, match="trace it for these sizes"):
        module.group(small.senders, small.receivers, *sizes[:2], torch.int32)


@pytest.fixture
def compiled_afresh():
    module.counting_sort.cache_clear()
    yield
    module.counting_sort.cache_clear()


@pytest.mark.usefixtures("compiled_afresh")
def test_without_numba_torch_sorts(monkeypatch):
    monkeypatch.setitem(sys.modules, "numba", None)
    edges = random_edges()
    assert module.counting_sort() is None
    grouped = module.group(edges.senders, edges.receivers, 6, 6, torch.int32)
    assert [x.tolist() for x in grouped] == lists_of(edges)


@pytest.mark.usefixtures("compiled_afresh")
def test_without_a_folder_for_compiled_code_it_is_compiled_for_this_process(monkeypatch):
    from edgewise.neighborhood import jit

    def refuse(cache, function):
        raise RuntimeError("cannot cache function: no locator available")

    monkeypatch.setattr(jit, "njit", lambda **options: lambda function: function)
    monkeypatch.setattr(jit.CodeCache, "__init__", refuse)
    assert module.counting_sort() is module.place_by_counting
    edges = random_edges()
    assert [x.tolist() for x in module.group(edges.senders, edges.receivers, 6, 6, torch.int32)] == lists_of(edges)


def test_cached_code_is_loaded_without_the_tables_of_a_compiler():
    """numba's own way to load code imports its implementations of numpy first, which takes half a second."""
    sort = "from edgewise import Edges; import sys; Edges([1, 0], [0, 1], 2, 2).plan"
    asks = f"{sort}; print('numba.np.linalg' in sys.modules)"
    for _ in range(2):
        done = subprocess.run([sys.executable, "-c", asks], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_plan_moves_with_the_edges_where_there_is_one():
    edges = random_edges()
    assert edges.to("meta")._plan is None
    plan = edges.plan
    moved = edges.to("meta")
    assert moved._plan is not None and moved.plan is moved._plan
    assert {x.device.type for x in tensors(moved.plan)} == {"meta"}
    assert edges.plan is plan
    assert edges.to("cpu") is edges and edges._plan is plan


def test_a_plan_made_on_another_device_has_the_same_shapes():
    edges = random_edges(5, 7)
    abroad = edges.to("meta").plan
    assert [(x.shape, x.dtype) for x in tensors(abroad)] == [(x.shape, x.dtype) for x in tensors(edges.plan)]
    assert {x.device.type for x in tensors(abroad)} == {"meta"}


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_a_plan_made_on_a_gpu_is_the_same():
    edges = random_edges(50, 70, 3000)
    assert all(torch.equal(x.cpu(), y) for x, y in zip(tensors(edges.to("cuda").plan), tensors(edges.plan)))


def test_a_batch_carries_its_plan_to_the_device():
    edges = random_edges(3, 3, 4)
    plan = edges.plan
    batch = batch_of(torch.zeros(3, 2), edges, torch.zeros(4, 1), nodes=torch.tensor([0]))
    assert all(map(torch.equal, tensors(batch.to("cpu").graph.edges._plan), tensors(plan)))


def test_other_edges_do_not_inherit_the_plan():
    edges = random_edges()
    assert edges.plan is not None
    assert replace(edges, receivers=edges.senders)._plan is None
    assert edges.undirected()._plan is None
    travelled = pickle.loads(pickle.dumps(edges))
    assert all(map(torch.equal, tensors(travelled._plan), tensors(edges.plan)))


def test_a_plan_made_while_evaluating_serves_training():
    with torch.inference_mode():
        edges = random_edges()
        assert not any(x.is_inference() for x in tensors(edges.plan))
    x = torch.randn(6, 2, requires_grad=True)
    x.index_select(0, edges.plan.senders).square().sum().backward()
    assert x.grad is not None


def test_the_default_device_has_no_say():
    edges = random_edges()
    with torch.device("meta"):
        plan = edges.plan
    assert [x.tolist() for x in tensors(plan)] == lists_of(edges)


def test_threads_may_ask_at_once():
    edges = random_edges(300, 300, 5000)
    with ThreadPoolExecutor(4) as pool:
        plans = list(pool.map(lambda _: edges.plan, range(8)))
    assert all(map(torch.equal, tensors(plans[0]), tensors(plan)) for plan in plans)


# Tracing.


def received(x, plan):
    """Something that every tensor of the plan enters."""
    gathered = x.index_select(0, plan.senders) + plan.receiver_edges.unsqueeze(-1) + plan.receivers.unsqueeze(-1)
    return gathered * plan.sender_edges.unsqueeze(-1), plan.receiver_offsets, plan.sender_offsets


class Walk(torch.nn.Module):
    """Tensors in, tensors out; asks for the plan several times."""

    def __init__(self, edges):
        super().__init__()
        self.edges = edges

    def forward(self, x, senders, receivers):
        edges = self.edges(senders, receivers, x.shape[0], x.shape[0])
        assert edges.plan.senders.dtype == torch.int32
        return received(x, edges.plan)


def arguments(num_nodes, num_edges):
    edges = random_edges(num_nodes, num_nodes, num_edges)
    return torch.randn(num_nodes, 3), edges.senders, edges.receivers


def test_a_compiled_function_makes_the_plan_of_edges_it_builds(plain_edgewise):
    model = Walk(plain_edgewise.Edges)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    for sizes in ((5, 8), (9, 30), (4, 1), (3, 0)):
        given = arguments(*sizes)
        torch.testing.assert_close(compiled(*given), model(*given))
    with pytest.raises(ValueError, match=r"senders must lie in 0 … 2; found 7"):
        compiled(torch.ones(3, 3), torch.tensor([0, 7]), torch.tensor([0, 1]))


def test_a_function_is_compiled_once_for_edges_without_a_plan_and_once_for_those_with_one(plain_edgewise):
    from torch._dynamo.testing import CompileCounterWithBackend

    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(lambda x, edges: received(x, edges.plan), fullgraph=True, backend=counter, dynamic=True)
    for num_edges in (8, 11, 5):
        edges = random_edges(num_edges=num_edges, edges=plain_edgewise.Edges)
        x = torch.randn(6, 3)
        out = compiled(x, edges)
        assert edges._plan is not None  # a compiled function keeps the plan, too
        torch.testing.assert_close(out, received(x, edges.plan))
    assert counter.frame_count == 1
    torch.testing.assert_close(compiled(x, edges), out)
    assert counter.frame_count == 2


@pytest.mark.parametrize("strict", [False, True], ids=["traced", "strict"])
def test_an_exported_program_holds_the_plan_once_and_takes_any_sizes(plain_edgewise, strict):
    model = Walk(plain_edgewise.Edges)
    node, edge = torch.export.Dim("node"), torch.export.Dim("edge")
    sizes = {"x": {0: node}, "senders": {0: edge}, "receivers": {0: edge}}
    program = torch.export.export(model, arguments(5, 8), dynamic_shapes=sizes, strict=strict)
    assert [str(x.target) for x in program.graph.nodes if "edgewise" in str(x.target)] == ["edgewise.plan.default"]
    for sizes in ((9, 40), (3, 2), (1, 0)):
        given = arguments(*sizes)
        torch.testing.assert_close(program.module()(*given), model(*given))


def test_sizes_that_are_known_while_tracing_may_be_large(plain_edgewise, monkeypatch):
    monkeypatch.setattr(sys.modules["edgewise.neighborhood.plan"], "INT32_LIMIT", 6)
    edges = random_edges(edges=plain_edgewise.Edges)

    def offsets(x):
        return x + edges.plan.receiver_offsets

    out = torch.compile(offsets, fullgraph=True, backend="aot_eager")(torch.zeros(7, dtype=torch.int32))
    assert out.dtype == torch.int64
    assert out.tolist() == lists_of(edges)[0]


def test_exporting_leaves_no_stand_in_behind(plain_edgewise):
    edges = random_edges(edges=plain_edgewise.Edges)

    class Fixed(torch.nn.Module):
        def forward(self, x):
            return received(x, edges.plan)

    x = torch.randn(6, 3)
    program = torch.export.export(Fixed(), (x,), strict=False)
    assert edges._plan is None
    torch.testing.assert_close(program.module()(x), received(x, edges.plan))
    assert [part.tolist() for part in tensors(edges.plan)] == lists_of(edges)


@pytest.mark.usefixtures("plain_edgewise")
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_operator_passes_the_checks_of_torch(dtype):
    edges = random_edges(5, 7)
    torch.library.opcheck(torch.ops.edgewise.plan.default, (edges.senders, edges.receivers, 5, 7, dtype))
