"""Values known from course notes and papers, written out by hand; every backend that can must give them."""

import math

import pytest
import torch

from cases import all_backends
from edgewise import (
    GAT,
    Causal,
    Constant,
    Distance,
    Dot,
    Edges,
    Full,
    Hardmax,
    Identity,
    Mean,
    ScaledDot,
    Softmax,
    attend,
    attention_weights,
)

EVERY_BACKEND = pytest.mark.parametrize("backend", [*all_backends, "auto"])
ANY_SCORE = pytest.mark.parametrize("backend", [name for name in all_backends if name != "sdpa"])

QUERY = torch.tensor([1.0, 2.0, 3.0, 4.0])
KEYS = torch.tensor([[1.0, 2.0, 3.0, 4.0], [4.0, 5.0, 9.0, 1.0], [6.0, 2.0, 1.0, 4.0]])

WORDS = ["The", "sleepy", "child", "reads", "a", "book"]
SENTENCE = torch.tensor([[0, 0, 0], [2, 0, 1], [1, -1, -2], [2, 3, 1], [-2, 0, 0], [0, 2, 1]]).float()


def test_the_scaled_scores_of_the_three_keys():
    scores = attention_weights(QUERY, KEYS, normalize=Identity()).values
    assert scores.tolist() == [15.0, 22.5, 14.5]


def test_the_weights_of_the_three_keys():
    weights = attention_weights(QUERY, KEYS).values
    assert weights.tolist() == pytest.approx([0.00055, 0.99911, 0.00033], abs=1e-5)  # the notes truncate
    assert weights.sum().item() == pytest.approx(1.0)


@EVERY_BACKEND
def test_the_output_over_the_three_keys(backend):
    out = attend(QUERY, KEYS, KEYS, backend=backend)
    assert out.shape == (4,)
    assert [round(x, 4) for x in out.tolist()] == [3.9990, 4.9973, 8.9940, 1.0027]


def test_the_last_word_attends_to_reads_and_book():
    weights = attention_weights(SENTENCE[-1], SENTENCE, score=Dot()).values
    scores = [0, 1, -4, 7, 0, 5]
    total = sum(math.exp(s) for s in scores)
    assert weights.tolist() == pytest.approx([math.exp(s) / total for s in scores])
    by_word = dict(zip(WORDS, weights.tolist()))
    assert by_word["reads"] + by_word["book"] > 0.99
    assert by_word["reads"] > by_word["book"] > 0.1


@EVERY_BACKEND
def test_with_one_value_a_word_the_output_is_one_number(backend):
    lengths = torch.tensor([[float(len(word))] for word in WORDS])
    out = attend(SENTENCE[-1], SENTENCE, lengths, score=Dot(), backend=backend)
    assert out.shape == (1,)
    assert out.item() == pytest.approx(4.878, abs=1e-3)


@EVERY_BACKEND
def test_the_output_has_the_rank_of_the_query(backend):
    keys, values = torch.randn(11, 4), torch.randn(11, 2)
    assert attend(torch.randn(4), keys, values, backend=backend).shape == (2,)
    assert attend(torch.randn(11, 4), keys, values, backend=backend).shape == (11, 2)
    assert attend(keys, keys, keys, backend=backend).shape == (11, 4)
    assert attend(torch.randn(5, 11, 4), keys, values, backend=backend).shape == (5, 11, 2)


def test_every_row_of_a_batch_sums_to_one_and_is_scaled_by_the_feature_dimension():
    """Two published snippets divide by the square root of the number of rows, and sum the wrong axis."""
    batch = torch.randn(3, 11, 4)
    table = attention_weights(batch, batch).to_dense()
    torch.testing.assert_close(table.sum(-1), torch.ones(3, 11))
    torch.testing.assert_close(table, torch.softmax(batch @ batch.transpose(1, 2) / 2.0, -1))


@EVERY_BACKEND
@pytest.mark.parametrize("temperature", [0.0, 1.0, math.inf])
def test_temperature_zero_is_hard_one_is_soft_infinity_is_uniform(backend, temperature):
    if backend == "sdpa" and temperature != 1.0:
        pytest.skip("refused")
    out = attend(QUERY, KEYS, KEYS, normalize=Softmax(temperature), backend=backend)
    if temperature == 0.0:
        assert out.tolist() == KEYS[1].tolist()
        torch.testing.assert_close(out, attend(QUERY, KEYS, KEYS, normalize=Hardmax()))
    elif temperature == 1.0:
        assert [round(x, 4) for x in out.tolist()] == [3.9990, 4.9973, 8.9940, 1.0027]
    else:
        torch.testing.assert_close(out, KEYS.mean(0))
        torch.testing.assert_close(out, attend(QUERY, KEYS, KEYS, normalize=Mean()))


@EVERY_BACKEND
def test_without_positions_permuting_the_inputs_permutes_the_outputs(backend):
    order = torch.tensor([3, 1, 5, 0, 2, 4])
    out = attend(SENTENCE, SENTENCE, SENTENCE, backend=backend)
    moved = SENTENCE[order]
    torch.testing.assert_close(attend(moved, moved, moved, backend=backend), out[order])
    causal = attend(SENTENCE, SENTENCE, SENTENCE, Causal(), backend=backend)
    assert not torch.allclose(attend(moved, moved, moved, Causal(), backend=backend), causal[order])


@EVERY_BACKEND
def test_attention_as_search_hard_and_soft(backend):
    topics = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    contents = torch.tensor([[10.0], [20.0], [30.0]])
    typed = torch.tensor([0.1, 0.9, 0.0])
    soft = attend(typed, topics, contents, score=ScaledDot(20.0), backend=backend)
    assert soft.item() == pytest.approx(20.0, abs=1e-3)
    if backend != "sdpa":
        assert attend(typed, topics, contents, normalize=Hardmax(), backend=backend).item() == 20.0


@ANY_SCORE
def test_a_molecule_by_hand(backend):
    """Carbon dioxide, O=C=O: the carbon attends to both oxygens, each oxygen to the carbon."""
    bonds = Edges(torch.tensor([0, 2, 1, 1]), torch.tensor([1, 1, 0, 2]), 3, 3)
    features = torch.tensor([[1.0], [10.0], [3.0]])
    out = attend(features, features, features, bonds, score=Dot(), normalize=Identity(), backend=backend)
    assert out.tolist() == [[100.0], [10.0 * 1 * 1 + 30.0 * 3], [300.0]]
    bias = torch.tensor([math.log(3), 0.0, 5.0, -5.0])
    soft = attend(features, features, features, bonds, bias=bias, score=Constant(), backend=backend)
    torch.testing.assert_close(soft, torch.tensor([[10.0], [0.75 * 1 + 0.25 * 3], [10.0]]))


@ANY_SCORE
def test_edge_features_go_into_key_and_value(backend):
    edges = Edges(torch.tensor([0, 1]), torch.tensor([0, 0]), 2, 1)
    query, key, value = torch.tensor([[1.0, 1.0]]), torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[1.0], [2.0]])
    out = attend(
        query, key, value, edges, score=Dot(), normalize=Identity(), edge_key=torch.tensor([[0.0, 1.0], [3.0, 0.0]]),
        edge_value=torch.tensor([[10.0], [20.0]]), bias=torch.tensor([0.0, 1.0]), backend=backend,
    )  # fmt: skip
    assert out.tolist() == [[2 * 11.0 + 6 * 22.0]]


@ANY_SCORE
def test_graph_attention_by_hand(backend):
    edges = Edges(torch.tensor([0, 1]), torch.tensor([2, 2]), 3, 3)
    nodes = torch.tensor([[2.0], [-3.0], [1.0]])
    out = attend(nodes, nodes, nodes, edges, score=GAT(torch.tensor([1.0]), torch.tensor([1.0])), backend=backend)
    first, second = math.exp(3.0), math.exp(0.2 * -2.0)
    assert out[2].item() == pytest.approx((2.0 * first - 3.0 * second) / (first + second))
    assert out[:2].tolist() == [[0.0], [0.0]]


@ANY_SCORE
def test_nadaraya_watson_regression(backend):
    places, heights = torch.tensor([[0.0], [1.0], [3.0]]), torch.tensor([[1.0], [2.0], [0.0]])
    out = attend(torch.tensor([1.0]), places, heights, score=Distance(length=1.0), backend=backend)
    kernel = [math.exp(-0.5), 1.0, math.exp(-2.0)]
    assert out.item() == pytest.approx((kernel[0] + 2 * kernel[1]) / sum(kernel))


@ANY_SCORE
def test_a_causal_mean_is_the_running_mean(backend):
    value = torch.arange(1.0, 6.0)[:, None]
    out = attend(value, value, value, Causal(), normalize=Mean(), backend=backend)
    assert out.flatten().tolist() == pytest.approx([1.0, 1.5, 2.0, 2.5, 3.0])
    assert attend(value, value, value, Full(), normalize=Mean(), backend=backend).flatten().tolist() == pytest.approx(
        [3.0] * 5
    )
