"""The assertions that are shipped: what passes, what does not, and what they then say."""

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from cases import KEY_DIM, all_neighborhoods, all_normalizers, all_scores, problem
from edgewise import Additive, Causal, Edges, Softmax, UnsupportedError, attend
from edgewise.explain.symmetry import FIXED, Permutation, Translation
from edgewise.testing import assert_equivariant, assert_invariant, assert_matches_reference, check_score

CLOUD = np.random.default_rng(0).normal(size=(5, 3))


def test_symmetries_that_are_there_pass():
    assert_equivariant(lambda x: x - x.mean(0), CLOUD, Permutation())
    assert_invariant(lambda x: x - x.mean(0), CLOUD, Translation(), output_as=FIXED, samples=5)
    assert_invariant(np.sum, CLOUD, [Permutation()])


def test_symmetries_that_are_not_there_are_said_to_be_missing():
    with pytest.raises(
        AssertionError, match=r"^neither invariant nor equivariant to permutation of nodes: .*exchanged"
    ):
        assert_equivariant(lambda x: x[:1] + x, CLOUD, Permutation())
    with pytest.raises(AssertionError, match=r"^invariant to translation: "):
        assert_equivariant(lambda x: x - x.mean(0), CLOUD, Translation())
    with pytest.raises(AssertionError, match=r"^equivariant to permutation of nodes: "):
        assert_invariant(lambda x: 2 * x, CLOUD, Permutation())


@pytest.mark.parametrize("case", all_scores, ids=lambda case: case.name)
def test_the_scores_of_the_library_pass_their_own_test(case):
    score = case.make(*(x.detach() for x in problem(all_neighborhoods[0], case, all_normalizers[0]).score_parameters))
    check_score(score, batch_shape=(2, 3), key_dim=KEY_DIM)


def test_a_score_of_ones_own_passes():
    check_score(lambda query, key: -(query - key).abs().sum(-1))
    check_score(lambda query, key: (query * key).sum(-1), batch_shape=(), key_dim=7, seed=3)


def test_a_score_that_looks_at_other_pairs_does_not():
    def over_keys(query, key):
        scores = (query * key).sum(-1)
        return scores - scores.mean()

    with pytest.raises(
        AssertionError, match=r"^check_score: the score of a pair depends on other pairs\.\nTensor-likes"
    ):
        check_score(over_keys)


def test_a_score_of_another_shape_does_not():
    with pytest.raises(AssertionError) as caught:
        check_score(lambda query, key: query * key)
    assert str(caught.value) == (
        "check_score: from (*pair, *batch, key_dim) a score must give (*pair, *batch), here (5, 6, 2), not "
        "(5, 6, 2, 4)."
    )


def test_a_score_whose_gradient_depends_on_the_backend_does_not():
    def half_detached(query, key):
        # Only the reference calls a score on a table of pairs that were copied out, each with a query of its own.
        alone = query.shape[:2] == key.shape[:2] and query.dim() > 3
        return (query * (key.detach() if alone else key)).sum(-1)

    with pytest.raises(
        AssertionError, match=r"^attend\(backend='gather'\) over \w+: the gradient of \w+ is not that of"
    ):
        check_score(half_detached)


def test_calls_match_the_reference():
    x, ring = torch.randn(2, 6, 4), Edges(torch.arange(6), (torch.arange(6) + 1) % 6, 6, 6)
    edge, vector = torch.randn(6, 4), torch.randn(4)
    assert_matches_reference(x, x, x, Causal())
    gather = {"backend": "gather"}
    assert_matches_reference(x, x, x, ring, score=Additive(vector.double()), edge_key=edge, edge_value=edge, **gather)
    assert_matches_reference(x, x, x, ring, normalize=Softmax(0.5), bias=torch.randn(2, 6), **gather)
    with pytest.raises(UnsupportedError, match="backend 'sdpa' refuses"):
        assert_matches_reference(x, x, x, ring, backend="sdpa")


def test_a_backend_that_errs_is_found(monkeypatch):
    x = torch.randn(6, 4)
    monkeypatch.setattr(
        "edgewise.backends.sdpa.run",
        lambda call: F.scaled_dot_product_attention(call.query, call.key, 1.001 * call.value),
    )
    assert attend(x, x, x, backend="sdpa").shape == (6, 4)
    with pytest.raises(AssertionError, match=r"^attend\(backend='sdpa'\) over Full: the output is not that of the ref"):
        assert_matches_reference(x, x, x, backend="sdpa")
