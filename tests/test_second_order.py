"""Derivatives of gradients: by every way into autograd, on the default path, and with the numbers of the formula."""

import pickle
import weakref
from contextlib import nullcontext
from functools import partial

import pytest
import torch
from torch.autograd import forward_ad
from torch.autograd import functional as F
from torch.utils.checkpoint import checkpoint

from edgewise import (
    GAT,
    Additive,
    Bilinear,
    Causal,
    Constant,
    Cosine,
    Distance,
    Edges,
    Entmax15,
    Full,
    GATv2,
    Hardmax,
    Identity,
    Lengths,
    Mask,
    Mean,
    ScaledDot,
    Segments,
    Sigmoid,
    Softmax,
    Sparsemax,
    UnsupportedError,
    Window,
    aggregate,
    attend,
)
from edgewise.backends import RUNS, gather, sdpa
from edgewise.backends.numba import edge_operators, layout, range_operators
from layer_cases import DIM, NODES, drawn, ready, relations
from layer_cases import EDGES as EDGES_OF_LAYERS
from numba_cases import FORMS, draw, neighborhood_of, random_edges


def listed(senders, receivers, num_senders, num_receivers):
    ends = (torch.tensor(x, dtype=torch.int64) for x in (senders, receivers))
    return Edges(*ends, num_senders, num_receivers)


EDGES = listed([0, 1, 2, 5, 5, 5], [1, 1, 3, 0, 0, 0], 6, 6)
NEIGHBORHOODS = {
    "edges": EDGES,
    "full": Full(),
    "causal": Causal(),
    "window": Window(1, 1),
    "lengths": Lengths(torch.tensor(4)),
    "segments": Segments(torch.tensor([0, 2, 5])),
    "mask": Mask(torch.ones(6, 6).tril(1).bool()),
}
SCORES = {
    "scaled": lambda vector: ScaledDot(),
    "cosine": lambda vector: Cosine(),
    "bilinear": lambda vector: Bilinear(vector.unsqueeze(-1) * vector.unsqueeze(-2)),
    "tanh": Additive,
    "gelu": lambda vector: Additive(vector, "gelu"),
    "gatv2": GATv2,
    "gat": lambda vector: GAT(vector, vector.flip(-1)),
    "gaussian": lambda vector: Distance("gaussian", vector.square().sum(-1) + 1),
    "laplacian": lambda vector: Distance("laplacian"),
    "constant": lambda vector: Constant(0.7),
}
NORMALIZERS = {
    "softmax": lambda positive: Softmax(),
    "temperature": Softmax,
    "hardmax": lambda positive: Hardmax(),
    "straight": lambda positive: Hardmax(straight_through=True),
    "sparsemax": lambda positive: Sparsemax(),
    "entmax": lambda positive: Entmax15(),
    "sigmoid": lambda positive: Sigmoid(),
    "mean": lambda positive: Mean(),
    "identity": lambda positive: Identity(),
}
CASES = [(name, "softmax") for name in SCORES] + [("scaled", name) for name in NORMALIZERS if name != "softmax"]
CASES += [("gatv2", "entmax"), ("tanh", "temperature"), ("laplacian", "sigmoid")]


def energy(x, neighborhood, backend="auto", **options):
    return attend(x, x, x, neighborhood, backend=backend, **options).square().sum()


def inputs(form):
    """Seven queries, the last of which has no edge, nine keys; heads that some tensors share."""
    tensors = {"query": draw(2, 7, 2), "key": draw(1, 9, 2, seed=1), "value": draw(9, 3, seed=2)}
    if form == "edges":
        tensors |= {"bias": draw(2, 60, seed=3), "edge_key": draw(1, 60, 2, seed=4), "edge_value": draw(60, 3, seed=5)}
    else:
        tensors["bias"] = draw(2, 7, 9, seed=3)
    return tensors | {"vector": draw(2, 2, seed=6), "positive": draw(2, seed=7)}


def output(tensors, form, score, normalizer, backend):
    *_, vector, positive = tensors.values()
    parts = {"score": SCORES[score](vector), "normalize": NORMALIZERS[normalizer](positive.square() + 0.5)}
    given = {name: x for name, x in tensors.items() if name not in ("vector", "positive")}
    return attend(**given, neighborhood=neighborhood_of(form), backend=backend, **parts)


def gradients(out, wanted, create_graph=False):
    """Derivatives of a fixed sum in which nothing is linear."""
    probe = torch.linspace(-1, 2, out.numel(), dtype=out.dtype).view(out.shape)
    loss = (out * probe + out.square() * 0.3).sum()
    return torch.autograd.grad(loss, wanted, create_graph=create_graph, materialize_grads=True)


def twice(tensors, form, score, normalizer, backend):
    """The gradients of a sum over gradients."""
    wanted = list(tensors.values())
    first = gradients(output(tensors, form, score, normalizer, backend), wanted, create_graph=True)
    return gradients(torch.cat([x.flatten() for x in first]), wanted)


@pytest.mark.parametrize(("score", "normalizer"), CASES)
@pytest.mark.parametrize("form", FORMS)
def test_every_score_and_normalizer_is_differentiated_twice(form, score, normalizer):
    tensors = inputs(form)
    expected = twice(tensors, form, score, normalizer, "reference")
    for name, ours, theirs in zip(tensors, twice(tensors, form, score, normalizer, "numba"), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-8, atol=1e-8, msg=lambda text, n=name: f"{n}: {text}")


@pytest.mark.parametrize("form", FORMS)
def test_gradients_of_gradients_against_differences(form):
    tensors = inputs(form)

    def function(*values):
        return output(dict(zip(tensors, values, strict=True)), form, "gatv2", "softmax", "numba")

    assert torch.autograd.gradgradcheck(function, tuple(tensors.values()), fast_mode=True)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("by_blocks", [False, True], ids=["whole", "blocks"])
def test_dropout_drops_the_same_weights_in_every_derivative(form, by_blocks, monkeypatch):
    tensors = inputs(form)
    if by_blocks:
        monkeypatch.setattr(gather, "SLICE", 8)

    def function(*values):
        torch.manual_seed(3)
        *given, _, _ = values
        named = dict(zip(tensors, given))
        return attend(**named, neighborhood=neighborhood_of(form), dropout=0.4, backend="numba")

    out = function(*tensors.values())
    assert torch.autograd.gradgradcheck(function, tuple(tensors.values()), fast_mode=True)
    dropped = out[0] - function(*tensors.values())[0]
    assert not dropped.any()


@pytest.mark.filterwarnings("ignore:Using backward.. with create_graph=True:UserWarning")
@pytest.mark.parametrize("name", NEIGHBORHOODS)
def test_all_ways_into_autograd_find_one_hessian(name):
    x, neighborhood = draw(6, 4).detach(), NEIGHBORHOODS[name]

    def of_default(x):
        return energy(x, neighborhood)

    expected = F.hessian(lambda x: energy(x, neighborhood, "reference"), x)
    along = draw(6, 4, seed=1).detach()
    product = torch.einsum("ijkl,kl->ij", expected, along)
    assert expected.norm() > 1
    close = torch.testing.assert_close
    close(F.hessian(of_default, x), expected)
    close(F.hessian(of_default, x, strict=True), expected)
    close(F.hessian(of_default, x, vectorize=True), expected)
    close(F.hvp(of_default, x, along)[1], product)
    close(F.vhp(of_default, x, along)[1], product)
    close(torch.func.hessian(of_default)(x), expected)
    close(torch.func.jacrev(torch.func.grad(of_default))(x), expected)
    close(torch.func.jvp(torch.func.grad(of_default), (x,), (along,))[1], product)
    batch = torch.stack([x, along])
    close(torch.func.vmap(torch.func.hessian(of_default))(batch)[0], expected)
    leaf = x.clone().requires_grad_()
    (torch.func.grad(of_default)(leaf) * along).sum().backward()
    close(leaf.grad, product)
    leaf = x.clone().requires_grad_()
    of_default(leaf).backward(inputs=[leaf], create_graph=True)
    (gradient,), leaf.grad = [leaf.grad], None
    (gradient * along).sum().backward(inputs=[leaf])
    close(leaf.grad, product)


@pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
@pytest.mark.parametrize("name", NEIGHBORHOODS)
def test_forward_mode_and_batched_gradients(name):
    x, neighborhood = draw(6, 4).detach(), NEIGHBORHOODS[name]

    def of_default(x):
        return attend(x, x, x, neighborhood)

    expected = F.jacobian(lambda x: attend(x, x, x, neighborhood, backend="reference"), x)
    for options in ({"vectorize": True}, {"vectorize": True, "strategy": "forward-mode"}):
        torch.testing.assert_close(F.jacobian(of_default, x, **options), expected)
    torch.testing.assert_close(torch.func.jacfwd(of_default)(x), expected)
    for mode in (torch.no_grad, nullcontext):
        with forward_ad.dual_level(), mode():
            tangent = forward_ad.unpack_dual(of_default(forward_ad.make_dual(x, torch.ones_like(x)))).tangent
        torch.testing.assert_close(tangent, expected.sum((-2, -1)))
    leaf = x.clone().requires_grad_()
    out = of_default(leaf)
    (found,) = torch.func.vmap(lambda v: torch.autograd.grad(out, leaf, v, retain_graph=True))(torch.ones(1, *x.shape))
    torch.testing.assert_close(found[0], expected.sum((0, 1)))


@pytest.mark.parametrize("backend", ["numba", "sdpa"])
def test_a_backend_that_is_named_refuses_in_words_what_it_cannot_differentiate(backend):
    x = draw(6, 4).detach()
    with forward_ad.dual_level(), pytest.raises(UnsupportedError, match="forward-mode differentiation is at work"):
        energy(forward_ad.make_dual(x, x), Full(), backend)
    message = "a transform of torch.func is at work" if backend == "numba" else "differentiates a second time"
    with pytest.raises(UnsupportedError, match=message):
        torch.func.grad(lambda x: torch.func.grad(lambda x: energy(x, Full(), backend))(x).sum())(x)


@pytest.mark.parametrize("neighborhood", [EDGES, Causal(), Window(1, 1)], ids=["edges", "causal", "window"])
def test_third_derivatives(neighborhood):
    found = []
    for backend in ("auto", "numba", "reference"):
        x = draw(6, 4)
        out = energy(x, neighborhood, backend)
        for _ in range(3):
            (out,) = gradients(out, [x], create_graph=True)
        found.append(out.detach())
    torch.testing.assert_close(found[0], found[2])
    torch.testing.assert_close(found[1], found[2])


@pytest.mark.parametrize("how", ["max", "min", "mean"])
def test_aggregates(how):
    edges = random_edges()
    value, edge_value = draw(2, 9, 3), draw(60, 3, seed=1)

    def function(value, edge_value):
        return aggregate(value, edges, how, edge_value=edge_value).sin()

    assert torch.autograd.gradgradcheck(function, (value, edge_value), fast_mode=True)


@pytest.mark.parametrize("neighborhood", [EDGES, Causal()], ids=["edges", "causal"])
def test_only_some_tensors_want_gradients_and_some_have_strange_strides(neighborhood):
    tensors = {"query": draw(2, 4, 6), "key": draw(1, 6, 1), "value": draw(6, 3, seed=1)}

    def shaped(query, key, value):
        return {"query": query.transpose(-1, -2), "key": key.expand(2, 6, 4), "value": value}

    for chosen in (["query"], ["key"], ["value"], ["query", "value"]):
        found = []
        for backend in ("auto", "reference"):
            given = {name: x if name in chosen else x.detach() for name, x in tensors.items()}
            out = attend(**shaped(**given), neighborhood=neighborhood, backend=backend)
            wanted = [tensors[name] for name in chosen]
            first = gradients(out, wanted, create_graph=True)
            found.append([*first, *gradients(torch.cat([x.flatten() for x in first]), wanted)])
        torch.testing.assert_close(*found)


@pytest.mark.parametrize("neighborhood", [EDGES, Full()], ids=["edges", "full"])
def test_half_precision(neighborhood):
    dtype = torch.bfloat16
    x = draw(6, 8).detach()
    ones = torch.ones_like(x)
    expected = F.vhp(partial(energy, neighborhood=neighborhood, backend="reference"), x.to(dtype).double(), ones)[1]
    found = F.vhp(partial(energy, neighborhood=neighborhood), x.to(dtype), ones.to(dtype))[1]
    assert found.dtype == dtype
    torch.testing.assert_close(found.double(), expected, rtol=0.0, atol=expected.abs().max().item() / 20)


@pytest.mark.parametrize("name", ["edges", "full", "window"])
def test_checkpointed_and_recorded_twice(name):
    """Nothing is held of a call beside what autograd saves, so that its activations are computed again."""
    weight = draw(4, 4)

    def forces(x, run):
        (found,) = torch.autograd.grad(run(lambda x: energy(x @ weight, NEIGHBORHOODS[name]), x), x, create_graph=True)
        return found.square().sum()

    x = draw(6, 4, seed=1)
    plain = torch.autograd.grad(forces(x, lambda f, x: f(x)), weight)
    again = torch.autograd.grad(forces(x, lambda f, x: checkpoint(f, x, use_reentrant=False)), weight)
    torch.testing.assert_close(again, plain)


def test_the_hook_of_torchs_kernel_holds_no_tensor():
    x = draw(1, 1, 6, 4)
    key = x * 2
    out = attend(x, key, key)
    gone = weakref.ref(key)
    del key, out
    assert gone() is None


def test_what_torchs_kernel_drops_is_not_known():
    x = draw(6, 4)
    with pytest.raises(UnsupportedError, match="set dropout to 0 or use backend='gather'"):
        sdpa._formula(False, None, 0.5, x, x, x, None)


@pytest.mark.parametrize("form", FORMS)
def test_operators_that_a_program_calls_by_name(form, monkeypatch):
    """An exported program calls `torch.ops.edgewise`, without the way around the dispatcher."""
    tensors = inputs(form)
    expected = twice(tensors, form, "gatv2", "softmax", "reference")
    for module, name in ((edge_operators, "attend_edges"), (range_operators, "attend_ranges")):
        monkeypatch.setattr(module, name, getattr(torch.ops.edgewise, name))
    monkeypatch.setattr(layout, "launch_of", lambda lowered, edges: None)
    RUNS.clear()
    torch.testing.assert_close(twice(tensors, form, "gatv2", "softmax", "numba"), expected, rtol=1e-8, atol=1e-8)


class ForceField(torch.nn.Module):
    """Attention over edges, whose scores and keys are made of distances."""

    def __init__(self):
        super().__init__()
        self.features = torch.nn.Parameter(draw(5, 4).detach())
        self.edge = torch.nn.Linear(3, 5, dtype=torch.float64)
        self.out = torch.nn.Linear(4, 1, dtype=torch.float64)

    def forward(self, positions, neighborhood, backend):
        if isinstance(neighborhood, Edges):
            gaps = positions[neighborhood.senders] - positions[neighborhood.receivers]
            distances = gaps.square().sum(-1, keepdim=True).sqrt()
            edge = self.edge(torch.cat([distances, distances.square(), (-distances).exp()], -1)).tanh()
            parts = {"bias": edge[:, 0], "edge_key": edge[:, 1:], "edge_value": edge[:, 1:] * distances}
            query = key = value = self.features
        else:
            query = key = positions @ self.edge.weight.t()[:, :4]
            parts, value = {}, self.features
        found = attend(query, key, value, neighborhood, backend=backend, **parts)
        return self.out(found.tanh()).sum()


@pytest.mark.parametrize("name", ["edges", "full", "lengths"])
def test_training_on_forces(name):
    edges = listed([0, 1, 1, 2, 3, 0], [1, 0, 2, 1, 0, 3], 5, 5)
    neighborhood = {"edges": edges, "full": Full(), "lengths": Lengths(torch.tensor(4))}[name]
    positions, forces = draw(5, 3, seed=1), draw(5, 3, seed=2).detach()

    def loss(model, backend):
        (gradient,) = torch.autograd.grad(model(positions, neighborhood, backend), positions, create_graph=True)
        return (forces + gradient).square().mean()

    torch.manual_seed(0)
    model = ForceField()
    found = [
        torch.autograd.grad(loss(model, backend), list(model.parameters()), materialize_grads=True)
        for backend in ("auto", "gather")
    ]
    torch.testing.assert_close(*found)
    assert any(gradient.any() for gradient in found[0])
    optimizer, losses = torch.optim.Adam(model.parameters(), 0.05), []
    for _ in range(15):
        optimizer.zero_grad()
        losses.append(loss(model, "auto"))
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < 0.9 * losses[0]


@pytest.mark.parametrize("batch", [(0,), (2, 0)], ids=str)
@pytest.mark.parametrize("neighborhood", [EDGES, Window(1, 1)], ids=["edges", "window"])
def test_nothing_to_differentiate(batch, neighborhood):
    x, vector = draw(*batch, 6, 4), draw(4)
    out = attend(x, x, x, neighborhood, score=GATv2(vector), backend="numba")
    (gradient,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    assert out.shape == gradient.shape == x.shape
    assert torch.equal(torch.autograd.grad(gradient.sum() + vector.sum(), vector)[0], torch.ones(4).double())


def test_no_edges_and_no_queries():
    for num_queries in (3, 0):
        edges = listed([], [], 4, num_queries)
        query, key = draw(num_queries, 4), draw(4, 4)
        out = attend(query, key, key, edges, score=GATv2(draw(4)))
        first = gradients(out, [query, key], create_graph=True)
        for gradient in gradients(torch.cat([x.flatten() for x in first]), [query, key]):
            assert not gradient.any()


@pytest.mark.parametrize("name", ["EdgeAttention", "DirectedMessages", "SymmetricConvolution"])
@pytest.mark.parametrize("is_made_within", [False, True])
def test_what_edges_derive_in_a_transform_serves_after_it(name, is_made_within):
    """Plans and reverses are cached; kernels read them, and files keep them, when the transform is over."""
    layer, x = ready(name), drawn(NODES, DIM)
    index = torch.stack([EDGES_OF_LAYERS.senders, EDGES_OF_LAYERS.receivers])
    made = [] if is_made_within else [Edges.from_edge_index(index, NODES)]

    def loss(x):
        made.extend([Edges.from_edge_index(index, NODES)] if is_made_within else [])
        return layer(x, made[0]).square().sum()

    gradient = torch.func.grad(loss)(x)
    copy = pickle.loads(pickle.dumps(made[0]))
    assert torch.equal(copy.plan.senders, made[0].plan.senders) and torch.equal(copy.reverse, made[0].reverse)

    y = x.clone().requires_grad_()
    layer(y, copy).square().sum().backward()
    torch.testing.assert_close(gradient, y.grad)


@pytest.mark.parametrize("transform", [torch.func.grad, lambda f: lambda x: torch.func.jvp(f, (x,), (x,))[1]])
def test_relations_are_made_in_a_transform(transform):
    layer, x = ready("RelationalConvolution"), drawn(NODES, DIM)
    before = relations()
    inside, outside = (transform(lambda x, of=of: layer(x, of()).sum())(x) for of in (relations, lambda: before))
    torch.testing.assert_close(inside, outside)
