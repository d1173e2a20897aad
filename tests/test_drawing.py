"""Neighborhoods in notebooks: a square for each cell of the table, sizes in words, text where there are too many."""

import xml.etree.ElementTree as ElementTree

import pytest
import torch

from edgewise.neighborhood import Causal, Edges, Full, Lengths, Mask, Window
from edgewise.neighborhood.drawing import GAP, MAX_MEMBERS, MAX_SIDE, SQUARE, Drawing

SPACE = "{http://www.w3.org/2000/svg}"


def squares(svg):
    """For each member, the table that the squares show and the words below."""
    root = ElementTree.fromstring(svg)
    members = []
    for group in root.findall(f"{SPACE}g"):
        places = [(int(r.get("y")), int(r.get("x")), r.get("fill") != "none") for r in group.findall(f"{SPACE}rect")]
        size = [max(place[axis] for place in places) // (SQUARE + GAP) + 1 for axis in (0, 1)]
        table = torch.zeros(size, dtype=torch.bool)
        for y, x, is_filled in places:
            table[y // (SQUARE + GAP), x // (SQUARE + GAP)] = is_filled
        members.append(table)
    return members, root.find(f"{SPACE}text").text


@pytest.mark.parametrize("neighborhood", [Causal(), Full(), Window(1, 0), Causal() | Window(0, 1)])
def test_squares_are_the_mask(neighborhood):
    [table], words = squares(neighborhood.draw(3, 5)._repr_svg_())
    assert torch.equal(table, neighborhood.to_mask(3, 5))
    assert words == "3 queries × 5 keys"


def test_members_stand_side_by_side():
    members, words = squares(Lengths(torch.tensor([1, 3])).draw(1, 4)._repr_svg_())
    assert [member.tolist() for member in members] == [[[True, False, False, False]], [[True, True, True, False]]]
    assert words == "1 query × 4 keys, 2 members"
    assert Lengths(torch.ones(MAX_MEMBERS + 1, dtype=torch.int64)).draw(2)._repr_svg_() is None


def test_the_tooltip_says_which_query_attends_to_which_key():
    edges = Edges(torch.tensor([1]), torch.tensor([0]), 2, 1)
    titles = [each.text for each in ElementTree.fromstring(edges._repr_svg_()).iter(f"{SPACE}title")]
    assert titles == ["query 0 does not attend to key 0", "query 0 attends to key 1"]


def test_a_neighborhood_is_drawn_by_itself_where_it_knows_its_sizes():
    mask = Mask(torch.tensor([[True, False], [True, True]]))
    assert mask._repr_svg_() == mask.draw()._repr_svg_()
    assert Causal()._repr_svg_() is None, "any size is as good as another"


def test_large_and_empty_ones_stay_text():
    nobody = torch.zeros(0, dtype=torch.int64)
    assert Causal().draw(MAX_SIDE)._repr_svg_() is not None
    assert Causal().draw(MAX_SIDE + 1)._repr_svg_() is None
    # Not even the text of a graph of a million nodes is made.
    assert Edges(nobody, nobody, 10**6, 10**6)._repr_svg_() is None
    assert Edges(nobody, nobody, 0, 0)._repr_svg_() is None
    assert Full().draw(0, 3)._repr_svg_() is None
    assert Full().draw(3, 0)._repr_svg_() is None


def test_a_drawing_is_a_string():
    drawn = Causal().draw(2)
    assert isinstance(drawn, Drawing)
    assert drawn == "■ ·\n■ ■"
    assert f"{drawn}" == "■ ·\n■ ■"
