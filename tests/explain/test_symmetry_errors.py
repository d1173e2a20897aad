"""What `check` refuses, with what came, what was expected and the remedy."""

import numpy as np
import pytest
import torch

from edgewise import Edges, SettingError, ShapeError
from edgewise.explain.symmetry import (
    FIXED,
    INDEX,
    NODES,
    PIXELS,
    POINTS,
    Axes,
    CyclicShift,
    Map,
    Permutation,
    QuarterTurn,
    Reflection,
    Rotation,
    Scaling,
    Translation,
    check,
)

pytestmark = pytest.mark.usefixtures("shapes_unchecked")

CLOUD = np.random.default_rng(0).normal(size=(5, 3))
EDGES = Edges(torch.tensor([0, 1]), torch.tensor([1, 2]), 5, 5)
SAY = "declare what the arrays are, such as inputs_as=(NODES, FIXED), a dict for the fields of a record."
SAY_OUTPUT = "declare what the arrays are, such as output_as=(NODES, FIXED), a dict for the fields of a record."


def same(*arguments):
    return arguments[0]


SHAPES = {
    "nodes": (
        lambda: check(same, (CLOUD, CLOUD[:4]), Permutation()),
        f"check: axis 'node' is 5 in inputs[0] but 4 in inputs[1]; {SAY}",
    ),
    "nodes and edges": (
        lambda: check(same, (CLOUD[:4], EDGES), Permutation()),
        f"check: axis 'node' is 4 in inputs[0] but 5 in inputs[1]; {SAY}",
    ),
    "two kinds of nodes": (
        lambda: check(lambda edges: edges.senders, Edges(torch.tensor([0]), torch.tensor([1]), 3, 2), Permutation()),
        f"check: axis 'node' is 3 in inputs but 2 in inputs; {SAY}",
    ),
    "coordinates": (
        lambda: check(same, (CLOUD, CLOUD[:, :2]), Rotation()),
        f"check: axis 'coordinate' is 3 in inputs[0] but 2 in inputs[1]; {SAY}",
    ),
    "grids": (
        lambda: check(same, (CLOUD, CLOUD.T), CyclicShift()),
        f"check: axis 'grid' is (5, 3) in inputs[0] but (3, 5) in inputs[1]; {SAY}",
    ),
    "no such axis": (
        lambda: check(same, CLOUD[0], Permutation(), inputs_as=NODES),
        f"check: inputs has shape (3,) and no axis -2; {SAY}",
    ),
    "one node": (
        lambda: check(same, CLOUD[:1], Permutation()),
        "check: permutation of nodes needs a graph of at least two nodes; the largest has 1.",
    ),
    "members of one node": (
        lambda: check(same, CLOUD, Permutation([0, 1, 2, 3, 4, 5])),
        "check: permutation of nodes needs a graph of at least two nodes; the largest has 1.",
    ),
    "offsets": (
        lambda: check(same, CLOUD, Permutation([0, 3])),
        "Permutation: offsets must rise from 0 to the number of nodes, here 5; they are [0, 3].",
    ),
    "falling offsets": (
        lambda: check(same, CLOUD, Permutation(torch.tensor([0, 4, 3, 5]))),
        "Permutation: offsets must rise from 0 to the number of nodes, here 5; they are [0, 4, 3, 5].",
    ),
    "one coordinate": (
        lambda: check(same, CLOUD[:, :1], Rotation()),
        "check: rotation needs at least two coordinates, not 1.",
    ),
    "no coordinate": (
        lambda: check(same, CLOUD[:, :0], Reflection()),
        "check: reflection needs at least one coordinate, not 0.",
    ),
    "one cell": (
        lambda: check(same, CLOUD[:1, :1], CyclicShift()),
        "check: cyclic shift needs a grid of at least two cells, not (1, 1).",
    ),
    "a line": (
        lambda: check(same, CLOUD[0], QuarterTurn()),
        "check: quarter turn needs a grid of two axes, rows and columns, not 1.",
    ),
    "whole numbers moved": (
        lambda: check(same, np.arange(6).reshape(2, 3), Translation()),
        f"check: inputs holds int64, which can be permuted but not translated, rotated or scaled; {SAY}",
    ),
    "whole numbers turned": (
        lambda: check(same, (CLOUD, torch.arange(3)), Rotation()),
        f"check: inputs[1] holds torch.int64, which can be permuted but not translated, rotated or scaled; {SAY}",
    ),
    "whole numbers scaled": (
        lambda: check(same, np.arange(6), Scaling()),
        f"check: inputs holds int64, which can be permuted but not translated, rotated or scaled; {SAY}",
    ),
    "fractions as numbers of nodes": (
        lambda: check(same, (CLOUD, CLOUD[0]), Permutation(), inputs_as=(NODES, INDEX)),
        f"check: inputs[1] holds float64, not node indices; {SAY}",
    ),
    "too large a number": (
        lambda: check(same, (CLOUD, np.array([0, 5])), Permutation(), inputs_as=(NODES, INDEX)),
        f"check: inputs[1] holds node indices from 0 to 5, but there are 5 nodes; {SAY}",
    ),
    "anchored nowhere": (
        lambda: check(same, (CLOUD, CLOUD), Translation(), inputs_as=(POINTS, Axes(is_anchored=True))),
        f"check: inputs[1] is anchored, but lacks an axis of coordinates; {SAY}",
    ),
    "output without nodes": (
        lambda: check(lambda x: x[0], CLOUD, Permutation(), output_as=NODES),
        f"check: output has shape (3,) and no axis -2; {SAY_OUTPUT}",
    ),
    "output of other nodes": (
        lambda: check(lambda x: (x, x[:2]), CLOUD, Permutation(), output_as=NODES),
        f"check: output[1] has 2 nodes along axis -2, not 5; {SAY_OUTPUT}",
    ),
    "output of other coordinates": (
        lambda: check(lambda x: {"x": x[:, :2]}, CLOUD, Rotation(), output_as={"x": POINTS}),
        f"check: output['x'] has 2 coordinates along axis -1, not 3; {SAY_OUTPUT}",
    ),
    "output of other cells": (
        lambda: check(lambda x: x[:2], CLOUD, CyclicShift(), output_as=PIXELS),
        f"check: output has a grid of (2, 3) cells, not (5, 3); {SAY_OUTPUT}",
    ),
    "output of one axis": (
        lambda: check(lambda x: x[0], CLOUD, QuarterTurn(), output_as=Axes(grid=(-1,))),
        f"check: output has a grid of 1 axis, not 2; {SAY_OUTPUT}",
    ),
    "output of another shape than what is mapped": (
        lambda: check(np.sum, CLOUD, Map("tanh", np.tanh), output_as=POINTS),
        f"check: output has shape () and dtype float64, unlike every input of tanh; {SAY_OUTPUT}",
    ),
}


@pytest.mark.parametrize("name", SHAPES)
def test_what_does_not_fit(name):
    call, message = SHAPES[name]
    with pytest.raises(ShapeError) as caught:
        call()
    assert str(caught.value) == message


SETTINGS = {
    "random": (
        lambda: check(torch.nn.Dropout(0.5), torch.ones(50, 2), Permutation()),
        "check: f returns two outputs for the same inputs, which differ by 1 of their size, so no verdict is possible; "
        "switch dropout off with model.eval(), or set the seed inside f.",
    ),
    "NaN": (
        lambda: check(lambda x: np.sqrt(np.minimum(x, np.nan)), CLOUD, Permutation()),
        "check: f returns NaN in output for the inputs as they are, so no verdict is possible; choose inputs where f "
        "is defined.",
    ),
    "NaN later": (
        lambda: check(lambda x: {"y": [x.mean() if x[0] < x[1] else np.nan]}, np.array([1.0, 2.0]), Permutation()),
        "check: f returns NaN in output['y'][0] for the inputs after nodes 0 and 1 exchanged, so no verdict is "
        "possible; choose inputs where f is defined.",
    ),
    "a word": (
        lambda: check(lambda x: (x, "five"), CLOUD, Permutation()),
        "check: output[1] is of type str; f must return arrays, tensors, numbers or edges, or tuples and "
        "dicts of them.",
    ),
    "words": (
        lambda: check(lambda x: np.array(["five"]), CLOUD, Permutation()),
        "check: output is an array of <U4; f must return arrays, tensors, numbers or edges, or tuples and "
        "dicts of them.",
    ),
    "nothing": (
        lambda: check(lambda x: None, CLOUD, Permutation()),
        "check: f returns NoneType, which cannot be compared; return an array.",
    ),
    "all rows alike": (
        lambda: check(same, np.ones((4, 2)), Permutation()),
        "check: no transformation (permutation of nodes) changes the inputs, so nothing is tested; pass inputs in "
        "general position, such as random numbers.",
    ),
    "at the origin": (
        lambda: check(same, np.zeros((4, 2)), Permutation() | Rotation()),
        "check: no transformation (permutation of nodes) changes the inputs, so nothing is tested; pass inputs in "
        "general position, such as random numbers.",
    ),
    "no nodes": (
        lambda: check(same, CLOUD, Permutation(), inputs_as=FIXED),
        f"check: permutation of nodes moves none of the inputs; {SAY}",
    ),
    "no coordinates": (
        lambda: check(same, (CLOUD, EDGES), Permutation() | Rotation(), inputs_as=NODES),
        f"check: rotation moves none of the inputs; {SAY}",
    ),
    "no place": (
        lambda: check(same, CLOUD, Translation(), inputs_as=NODES),
        f"check: translation moves none of the inputs; {SAY}",
    ),
    "no length": (
        lambda: check(same, CLOUD, Scaling(), inputs_as=NODES),
        f"check: scaling moves none of the inputs; {SAY}",
    ),
    "nothing to map": (
        lambda: check(same, CLOUD, Map("tanh", np.tanh), inputs_as=FIXED),
        f"check: tanh moves none of the inputs; {SAY}",
    ),
    "only numbers": (
        lambda: check(lambda x, y: x + y, (1.0, 2.0), Scaling()),
        f"check: scaling moves none of the inputs; {SAY}",
    ),
    "edges and two arrays": (
        lambda: check(same, (CLOUD, EDGES, CLOUD[:2]), Permutation()),
        f"check: beside edges, the meaning of inputs[0] is ambiguous; {SAY}",
    ),
    "edges and one of two arrays declared": (
        lambda: check(same, (CLOUD, EDGES, CLOUD[:2]), Permutation(), inputs_as=(NODES, None, None)),
        f"check: beside edges, the meaning of inputs[2] is ambiguous; {SAY}",
    ),
    "too few declared": (
        lambda: check(same, (CLOUD, EDGES), Permutation(), inputs_as=(NODES,)),
        "check: inputs has 2 parts, but the meaning of 1 is declared.",
    ),
    "a tuple for one array": (
        lambda: check(same, CLOUD, Permutation(), inputs_as=(NODES,)),
        f"check: inputs is one array, so its meaning must be one Axes, not ({NODES!r},).",
    ),
    "declared by name for a tuple": (
        lambda: check(same, (CLOUD, CLOUD), Permutation(), inputs_as={"x": NODES}),
        "check: inputs is not a dict, but its parts are declared by name: x.",
    ),
    "declared in a tuple for a dict": (
        lambda: check(lambda x: x["x"], {"x": CLOUD}, Permutation(), inputs_as=(NODES,)),
        f"check: the parts of inputs must be declared by name, in a dict, not ({NODES!r},).",
    ),
    "another name": (
        lambda: check(lambda x: x["x"], {"x": CLOUD, "z": 1}, Permutation(), inputs_as={"y": NODES}),
        "check: inputs has no 'y'; it has x, z.",
    ),
    "no function": (
        lambda: check(CLOUD, same, Permutation()),
        "check: f must be a function, not ndarray; the inputs come after it.",
    ),
    "a class": (
        lambda: check(same, CLOUD, Permutation),
        f"check: group must be a set of transformations, such as Permutation(), not {Permutation!r}.",
    ),
    "a word for a set": (
        lambda: check(same, CLOUD, [Permutation(), "rotation"]),
        "check: group must be a set of transformations, such as Permutation(), not 'rotation'.",
    ),
    "no set": (
        lambda: check(same, CLOUD, []),
        "check: group is empty; pass a set of transformations, such as Permutation().",
    ),
    "samples": (lambda: check(same, CLOUD, Permutation(), samples=0), "check: samples must be at least 1, not 0."),
    "tolerance": (
        lambda: check(same, CLOUD, Permutation(), tolerance=-1.0),
        "check: tolerance must be a non-negative finite number, not -1.0.",
    ),
    "tolerance NaN": (
        lambda: check(same, CLOUD, Permutation(), tolerance=np.nan),
        "check: tolerance must be a non-negative finite number, not nan.",
    ),
    "min size": (
        lambda: check(same, CLOUD, Permutation(), min_size=np.inf),
        "check: min_size must be a non-negative finite number, not inf.",
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_invalid_options_are_refused(name):
    torch.manual_seed(0)
    call, message = SETTINGS[name]
    with pytest.raises(SettingError) as caught:
        call()
    assert str(caught.value) == message


def test_a_model_with_dropout_is_welcome_in_evaluation():
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout(0.5)).double()
    with pytest.raises(SettingError, match=r"model\.eval\(\)"):
        check(model, torch.from_numpy(CLOUD), Permutation())
    assert check(model.eval(), torch.from_numpy(CLOUD), Permutation()).kind == "equivariant"
