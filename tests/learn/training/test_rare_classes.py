"""Classes that a model may never predict, and weights that change what probabilities mean, are warned of."""

import numpy as np

from edgewise.learn.tasks.table_notes import rare_classes

NAN = np.nan


def targets_of(*counts):
    return np.repeat(np.arange(float(len(counts))), counts)[:, None]


def test_a_rare_class_is_warned_of():
    (note,) = rare_classes(["active"], targets_of(95, 5), {"active": ["0", "1"]}, None)
    assert note.startswith("warning: only 5% of the training rows are of class 1 of 'active'")
    assert "--class-weight balanced" in note
    (weighted,) = rare_classes(["active"], targets_of(95, 5), {"active": ["0", "1"]}, "balanced")
    assert "with --class-weight balanced its probabilities are far larger than its share" in weighted


def test_what_is_not_rare_is_not():
    assert rare_classes(["y"], targets_of(80, 20), {"y": ["0", "1"]}, None) == []
    assert rare_classes(["y"], targets_of(*[10] * 7), {"y": list("abcdefg")}, None) == []
    assert rare_classes(["y"], targets_of(95, 5), {}, None) == []  # numbers
    assert rare_classes(["y"], np.full((4, 1), NAN), {"y": ["0", "1"]}, None) == []
    assert rare_classes(["y"], targets_of(9, 0), {"y": ["0", "1"]}, None) == []  # absent: said elsewhere
