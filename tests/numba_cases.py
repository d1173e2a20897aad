"""What the tests of the numba backend share: how tensors and edges are drawn, and a comparison with the reference."""

import torch

from edgewise import Edges, Window, attend

FORMS = ["edges", "ranges"]


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def draw(*shape, dtype=torch.float64, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=generator(seed)).to(dtype).requires_grad_()


def random_edges(num_edges=60, num_senders=9, num_receivers=7, seed=0):
    """Edges with multi-edges, and with nodes that have none: the last receiver and the last sender."""
    senders = torch.randint(num_senders - 1, (num_edges,), generator=generator(seed))
    receivers = torch.randint(num_receivers - 1, (num_edges,), generator=generator(seed + 1))
    return Edges(senders, receivers, num_senders, num_receivers)


def neighborhood_of(form):
    """Seven queries, nine keys."""
    return random_edges() if form == "edges" else Window(3, 1)


def run(backend, tensors, neighborhood, parameters=(), **options):
    """The output, and the gradients of a fixed weighted sum of it for all that want one."""
    out = attend(**tensors, neighborhood=neighborhood, backend=backend, **options)
    probe = torch.randn(out.shape, dtype=torch.float64, generator=generator(7)).to(out.dtype)
    leaves = {n: x for n, x in [*tensors.items(), *enumerate(parameters)] if x.requires_grad}
    gradients = torch.autograd.grad((out * probe).sum(), list(leaves.values()), materialize_grads=True)
    return {"out": out.detach()} | dict(zip(leaves, gradients))


def assert_like_reference(tensors, neighborhood, parameters=(), **options):
    ours = run("numba", tensors, neighborhood, parameters, **options)
    theirs = run("reference", tensors, neighborhood, parameters, **options)
    for name, x in theirs.items():
        torch.testing.assert_close(ours[name], x, rtol=1e-9, atol=1e-9, msg=lambda text, n=name: f"{n}: {text}")


# What it takes.
