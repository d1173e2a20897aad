"""Assertions for your tests: symmetries of a model, custom scores, and calls of the operator.

Each raises AssertionError with the differences, and returns None.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from edgewise.attend import attend
from edgewise.explain.groups import Group, Together
from edgewise.explain.symmetry import check
from edgewise.neighborhood import Causal, Edges, Full, Lengths, Mask, Neighborhood, Segments, Window
from edgewise.score import Score


def assert_invariant(
    f: Callable[..., Any], inputs: Any, group: Group | Together | Sequence[Group], **options: Any
) -> None:
    """Asserts f(g·x) = f(x) on samples.

    Args:
        f, inputs, group, options: as in `explain.symmetry.check`.

    Raises:
        AssertionError: with the verdict in words.
    """
    verdict = check(f, inputs, group, **options)
    if not verdict.is_invariant:
        raise AssertionError(str(verdict))


def assert_equivariant(
    f: Callable[..., Any], inputs: Any, group: Group | Together | Sequence[Group], **options: Any
) -> None:
    """Asserts f(g·x) = g·f(x) on samples.

    Args:
        f, inputs, group, options: as in `explain.symmetry.check`.

    Raises:
        AssertionError: with the verdict in words; also if the transformations act on no output.
    """
    verdict = check(f, inputs, group, **options)
    if not verdict.is_equivariant:
        raise AssertionError(str(verdict))


def assert_matches_reference(
    query: Float[Tensor, " *query_batch query key_dim"],
    key: Float[Tensor, " *key_batch key key_dim"],
    value: Float[Tensor, " *value_batch key value_dim"],
    neighborhood: Neighborhood = Full(),
    *,
    backend: str = "auto",
    **options: Any,
) -> None:
    """Asserts that a call of `attend` gives the same output and gradients as the reference.

    Tensors are compared in float64, so that differences are errors rather than rounding.

    Args:
        query, key, value, neighborhood, backend, options: as in `attend`, without dropout.

    Raises:
        AssertionError: names what differs: the output, or the gradient of a tensor.
        UnsupportedError: the named backend refuses the call.
    """
    tensors = {"query": query, "key": key, "value": value}
    tensors |= {name: option for name, option in options.items() if isinstance(option, Tensor)}
    other_options = {name: option for name, option in options.items() if name not in tensors}
    actual, expected = (
        _differentiated(tensors, neighborhood=neighborhood, backend=name, **other_options)
        for name in (backend, "reference")
    )

    for name in actual:
        words = f"attend(backend={backend!r}) over {type(neighborhood).__name__}: {name} is not that of the reference."
        _assert_close(actual[name], expected[name], words)


def check_score(score: Score, *, batch_shape: Sequence[int] = (2,), key_dim: int = 4, seed: int = 0) -> None:
    """Asserts that a custom score is one number per pair, the same on every neighborhood and on both backends for it.

        s_ij depends on q_i and k_j alone; attend(…, score, backend="gather") = attend(…, score, backend="reference")

    Args:
        score: a callable on pairs that broadcast, `(*pair, *batch, key_dim)` each; see `edgewise.score`.
        batch_shape: batch axes of queries and keys, heads included; those of the score's tensors, if it has any.
        key_dim: size of queries and keys.
        seed: seed of the random queries, keys and values.

    Raises:
        AssertionError: names what differs, and over which neighborhood.
    """
    random = torch.Generator().manual_seed(seed)
    query, key, value = (
        torch.randn(*batch_shape, nodes, key_dim, generator=random, dtype=torch.float64) for nodes in (5, 6, 6)
    )
    _check_pairs(score, query, key)

    mask = torch.rand(5, 6, generator=random) < 0.5
    for neighborhood in (
        Full(),
        Causal(),
        Window(1, 1),
        Lengths(torch.tensor([4])),
        Segments(torch.tensor([0, 2, 5]), torch.tensor([0, 4, 6])),
        Mask(mask),
        Edges(torch.tensor([0, 5, 2, 2, 1, 5]), torch.tensor([1, 1, 4, 0, 4, 1]), 6, 5),
    ):
        assert_matches_reference(query, key, value, neighborhood, backend="gather", score=score)


def _check_pairs(score: Score, query: Tensor, key: Tensor) -> None:
    """Asserts that the table of scores equals the score of each pair alone."""
    left, right = query.movedim(-2, 0), key.movedim(-2, 0)
    table = score(left.unsqueeze(1), right.unsqueeze(0))
    expected = (left.shape[0], *right.shape[:-1])
    if tuple(table.shape) != expected:
        raise AssertionError(
            f"check_score: from (*pair, *batch, key_dim) a score must give (*pair, *batch), here {expected}, not "
            f"{tuple(table.shape)}."
        )
    separate_scores = torch.stack(
        [torch.stack([score(query_vector, key_vector) for key_vector in right]) for query_vector in left]
    )
    _assert_close(table, separate_scores, "check_score: the score of a pair depends on other pairs.")


def _assert_close(actual: Tensor, expected: Tensor, words: str) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-8, atol=1e-8, msg=lambda text: f"{words}\n{text}")


def _differentiated(tensors: dict[str, Tensor], **arguments: Any) -> dict[str, Tensor]:
    """The output of `attend` in float64, and the gradient of a weighted sum of it for every tensor."""
    doubles: dict[str, Any] = {name: tensor.detach().double().requires_grad_() for name, tensor in tensors.items()}
    output = attend(**doubles, **arguments)
    probe = torch.linspace(-1, 1, output.numel(), dtype=output.dtype, device=output.device).reshape(output.shape)
    gradients = torch.autograd.grad((output * probe).sum(), list(doubles.values()), materialize_grads=True)
    named = {f"the gradient of {name}": gradient for name, gradient in zip(doubles, gradients)}
    return {"the output": output.detach()} | named
