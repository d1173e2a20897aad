"""Decision trees as tensors: the probabilities of scikit-learn, whatever the classes."""

import numpy as np
import pytest
import torch
from sklearn.ensemble import RandomForestClassifier

from edgewise.errors import DataError
from edgewise.learn.companions.forest import MIN_PROBABILITY, Forest

CLASSES = {"two": (2,), "four": (4,), "two of two": (2, 2), "three and two": (3, 2), "one of two": (2,)}


def drawn(num_classes, lacks_one=False):
    rng = np.random.default_rng(5)
    rows = rng.standard_normal((200, 6)).astype(np.float32)
    labels = [(np.abs(rows[:, place]) * 2).astype(int) % count for place, count in enumerate(num_classes)]
    if lacks_one:
        labels = [np.zeros(200, int)]
    grown = [RandomForestClassifier(7, random_state=1).fit(rows[:150], each[:150]) for each in labels]
    return rows, grown


@pytest.mark.parametrize("kind", CLASSES)
def test_its_probabilities_are_those_of_scikit_learn(kind):
    num_classes, is_binary = CLASSES[kind], kind.startswith(("two", "one"))
    rows, grown = drawn(num_classes, lacks_one=kind.startswith("one"))
    forest = Forest.from_scikit_learn(grown, num_classes, is_binary=is_binary)
    logits = forest.logits(torch.from_numpy(rows)).double()
    first = 0
    for place, (each, count) in enumerate(zip(grown, num_classes, strict=True)):
        known = np.zeros((len(rows), count))
        known[:, each.classes_] = each.predict_proba(rows)
        found = logits[:, place].sigmoid() if is_binary else logits[:, first : first + count].exp()
        wanted = torch.from_numpy(known[:, 1] if is_binary else known)
        torch.testing.assert_close(found, wanted.clamp(MIN_PROBABILITY, 1 - MIN_PROBABILITY), rtol=0, atol=1e-6)
        first += count


def test_one_tree_by_hand():
    """A stump: x₁ above ½ is class 1 with probability ¾."""
    forest = Forest(2, 3, 1, (2,), is_binary=True)
    forest.feature.copy_(torch.tensor([1, 0, 0]))
    forest.threshold.copy_(torch.tensor([0.5, 0.0, 0.0]))
    forest.branches.copy_(torch.tensor([[1, 2], [1, 1], [2, 2]]))
    forest.values.copy_(torch.tensor([[0.0], [0.0], [0.75]]))
    logits = forest.logits(torch.tensor([[9.0, 0.5], [9.0, 0.6]]))
    torch.testing.assert_close(logits.sigmoid(), torch.tensor([[MIN_PROBABILITY], [0.75]]))


@pytest.mark.parametrize(
    ("name", "place", "value", "told"),
    [
        ("branches", (0, 0), 0, "lead on to its leaves"),
        ("branches", (2, 1), 1, "lead on to its leaves"),
        ("branches", (0, 1), 10**6, "lead on to its leaves"),
        ("roots", 0, -1, "roots is beyond"),
        ("feature", 0, 6, "feature is beyond"),
        ("values", (0, 0), 1.5, "not probabilities"),
    ],
)
def test_trees_that_lead_astray_are_refused(name, place, value, told):
    """A file may hold anything: a walk in a circle would never end."""
    forest = Forest.from_scikit_learn(drawn((2,))[1], (2,), is_binary=True)
    forest.check()
    getattr(forest, name)[place] = value
    with pytest.raises(DataError, match=told):
        forest.check()


def test_a_node_keeps_the_classes_of_its_own_target_alone():
    """Else 27 targets would take 27 times the memory of one for each node, and as long."""
    num_classes = (2,) * 27
    forest = Forest.from_scikit_learn([drawn((2,))[1][0]] * 27, num_classes, is_binary=True)
    assert forest.values.shape == (len(forest.feature), 1)
    assert forest.logits(torch.zeros(3, 6)).shape == (3, 27)


def test_it_is_saved_with_the_weights_and_learns_nothing():
    rows, grown = drawn((2,))
    forest = Forest.from_scikit_learn(grown, (2,), is_binary=True)
    assert not list(forest.parameters())
    other = Forest.from_tensors(forest.state_dict(), 6, (2,), is_binary=True)
    other.load_state_dict(forest.state_dict())
    assert torch.equal(other.logits(torch.from_numpy(rows)), forest.logits(torch.from_numpy(rows)))
    assert forest.logits(torch.zeros(0, 6)).shape == (0, 1)
