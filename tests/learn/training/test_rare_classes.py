"""Classes that a model may never predict, and weights that change what probabilities mean, are warned of."""

import numpy as np

from edgewise.learn.tasks.table_notes import rare_classes

NAN = np.nan


def targets_of(*counts):
    return np.repeat(np.arange(float(len(counts))), counts)[:, None]


def test_a_rare_class_is_warned_of():
    (note,) = rare_classes(["active"], targets_of(95, 5), {"active": ["0", "1"]}, None)
    assert note.startswith("warning: of the training rows only 5% of class 1 of 'active', which may never be")
    assert "--class-weight balanced" in note
    (note,) = rare_classes(["active"], targets_of(95, 5, 0), {"active": ["0", "1", "absent"]}, None)
    assert "5% of class 1 of 'active', which" in note  # an absent class hides no rare one
    (note,) = rare_classes(["kind"], targets_of(940, 40, 20), {"kind": ["a", "b", "c"]}, None)
    assert "only 2% of class c and 4% of class b of 'kind', each of which may never be" in note
    (note,) = rare_classes(["kind"], targets_of(992, *[1] * 8), {"kind": list("abcdefghi")}, None)
    assert "0.1% of class f and 3 more classes of 'kind'" in note


def test_weights_of_classes_change_what_probabilities_mean():
    for rare in (5, 15, 24):
        (note,) = rare_classes(["active"], targets_of(100 - rare, rare), {"active": ["0", "1"]}, "balanced")
        assert f"only {rare}% of class 1 of 'active', so with --class-weight balanced its probability is larger" in note
    assert rare_classes(["y"], targets_of(74, 26), {"y": ["0", "1"]}, "balanced") == []


def test_what_is_not_rare_is_not():
    assert rare_classes(["y"], targets_of(80, 20), {"y": ["0", "1"]}, None) == []
    assert rare_classes(["y"], targets_of(*[10] * 7), {"y": list("abcdefg")}, None) == []
    assert rare_classes(["y"], targets_of(95, 5), {}, None) == []  # numbers
    assert rare_classes(["y"], np.full((4, 1), NAN), {"y": ["0", "1"]}, None) == []
    assert rare_classes(["y"], targets_of(9, 0), {"y": ["0", "1"]}, None) == []  # absent: said elsewhere
