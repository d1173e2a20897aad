"""Pictures and pages: what is drawn where, found again in the figures; the same numbers give the same file."""

import math
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from edgewise.view.figure import COLORS, color_of, png, svg, with_unit
from edgewise.view.force import draw_force
from edgewise.view.orbits import MAX_PANELS, Orbits, draw_apart, draw_orbits, inner_reach, last_turn, smooth
from edgewise.view.page import PageTable, Picture, page
from edgewise.view.picture import LETTER_HEIGHT, LETTER_WIDTH, label_positions

TIMES = np.linspace(0, 2, 9)


def circles(radii, turns=1.0, off=0.0):
    """(1, time, body, space) and its velocities: bodies on circles, each of its radius."""
    angles = turns * math.pi * TIMES[:, None] + off
    positions = np.stack([np.cos(angles), np.sin(angles), 0 * angles], -1) * np.array(radii)[:, None]
    speeds = np.stack([-np.sin(angles), np.cos(angles), 0 * angles], -1) * np.array(radii)[:, None] * turns * math.pi
    return positions[None], speeds[None]


def orbits_of(radii=(1.0, 2.0), num_trajectories=1, is_path=True, **details):
    (real, speeds), (prediction, told_speeds) = circles(radii), circles(radii, off=0.1)
    real, speeds, prediction, told_speeds = (
        x.repeat(num_trajectories, 0) for x in (real, speeds, prediction, told_speeds)
    )
    names, numbers = tuple(f"body {k}" for k in range(len(radii))), tuple(range(5, 5 + num_trajectories))
    moving = {"real_velocities": speeds, "predicted_velocities": told_speeds} if is_path else {}
    return Orbits(TIMES, real, prediction, names, numbers, "au", "day", **moving, **details)


def panels(figure):
    return [(axes.get_title(), axes) for axes in figure.axes]


def legend_of(figure):
    return [text.get_text() for text in figure.legends[0].get_texts()]


def test_paths_pass_through_their_moments_in_equal_axes():
    orbits = orbits_of()
    [(title, axes)] = panels(draw_orbits(orbits))
    assert (title, axes.get_aspect(), axes.get_xlabel(), axes.get_ylabel()) == ("", 1.0, "x (au)", "y (au)")
    lines = [line.get_xydata() for line in axes.get_lines()]
    # A band, a thin line and two ends for each body.
    for body in range(2):
        band, line, *ends = lines[4 * body : 4 * body + 4]
        np.testing.assert_allclose(band[::8], orbits.real[0, :, body, :2])
        np.testing.assert_allclose(line[::8], orbits.predicted[0, :, body, :2])
        np.testing.assert_allclose(ends[0][0], orbits.real[0, -1, body, :2])
        np.testing.assert_allclose(ends[1][0], orbits.predicted[0, -1, body, :2])
        np.testing.assert_allclose(np.linalg.norm(band, axis=-1), body + 1, rtol=5e-3)
        assert {axes.get_lines()[4 * body + k].get_color() for k in range(4)} == {color_of(body)}
    low, high = axes.get_xlim()
    assert low < -2 < 2 < high
    assert high - low == pytest.approx(np.diff(axes.get_ylim())[0])
    named = ["real", "predicted", "real, at the end", "predicted, at the end", "body 0", "body 1"]
    assert legend_of(draw_orbits(orbits)) == named


def test_a_panel_for_each_trajectory_or_for_the_inner_ones():
    assert [title for title, _ in panels(draw_orbits(orbits_of(num_trajectories=3)))] == [
        "trajectory 5", "trajectory 6", "trajectory 7"
    ]  # fmt: skip
    assert len(panels(draw_orbits(orbits_of(num_trajectories=6)))) == MAX_PANELS
    (whole, outer), (inner, near) = panels(draw_orbits(orbits_of((0.5, 1, 20))))
    assert (whole, inner) == ("all bodies", "the inner ones")
    assert outer.get_xlim()[1] > 20
    assert 1 < near.get_xlim()[1] < 1.5
    assert inner_reach(orbits_of((1.0, 2.0)).real[0]) is None
    assert inner_reach(np.zeros((3, 2, 2))) is None


def test_only_some_of_many_bodies_are_named():
    many = orbits_of(tuple(range(1, 16)))
    assert legend_of(draw_orbits(many))[-2:] == ["body 11", "and 3 more"]
    assert legend_of(draw_apart(many))[-1] == "body 11"


def test_predicted_positions_are_marks_on_the_real_path():
    [(_, axes)] = panels(draw_orbits(orbits_of(is_path=False)))
    band, marks = axes.get_lines()[:2]
    assert (band.get_linestyle(), marks.get_linestyle(), marks.get_marker()) == ("-", "None", "x")
    assert len(marks.get_xydata()) == len(TIMES)
    assert legend_of(draw_orbits(orbits_of(is_path=False)))[:3] == ["real", "predicted", "body 0"]


def test_the_last_turn_of_what_goes_round_often():
    angles = np.linspace(0, 20 * math.pi, 2_001)  # ten turns
    path = np.stack([np.cos(angles), np.sin(angles)], -1)
    assert len(angles) - last_turn(path) == pytest.approx(201, abs=2)
    assert last_turn(path[:500]) == 0, "two and a half turns"
    assert last_turn(np.zeros((3, 2))) == 0
    assert last_turn(np.zeros((1, 2))) == 0


def test_cubics_are_smoothed_without_an_error():
    times = np.array([0.0, 1, 3])
    cubic = (times**3)[:, None, None], (3 * times**2)[:, None, None]
    fine = smooth(times, *cubic)[:, 0, 0]
    points = np.concatenate([np.arange(8) / 8, 1 + 2 * np.arange(8) / 8, [3]])
    np.testing.assert_allclose(fine, points**3, atol=1e-12)
    assert smooth(times, cubic[0], None) is cubic[0]


def test_how_far_apart_by_body_or_in_the_median():
    [(_, axes)] = panels(draw_apart(orbits_of()))
    assert (axes.get_yscale(), axes.get_xlabel()) == ("log", "time since the beginning (day)")
    for body, line in enumerate(axes.get_lines()):
        # Chords of an angle of 0.1.
        np.testing.assert_allclose(line.get_ydata(), 2 * math.sin(0.05) * (body + 1))
        np.testing.assert_allclose(line.get_xdata(), TIMES[1:])
    assert legend_of(draw_apart(orbits_of())) == ["body 0", "body 1"]
    many = orbits_of((1.0, 2.0, 3.0), num_trajectories=2)
    many.predicted[0, 4:6], many.predicted[0, 6:] = np.inf, 1e200
    [(_, axes)] = panels(draw_apart(many))
    [line] = axes.get_lines()
    assert line.get_ydata()[0] == pytest.approx(2 * math.sin(0.05) * 2)
    assert svg(draw_apart(many)).endswith("</svg>\n"), "bodies at infinity are left out"
    assert np.isnan(panels(draw_orbits(many))[0][1].get_lines()[3].get_xydata()).all()
    assert svg(draw_orbits(many)).endswith("</svg>\n")


def test_a_force_beside_the_law_and_a_guide():
    r = np.geomspace(0.1, 10, 20)
    soft = r / (r**2 + 0.01) ** 1.5
    (_, upper), (_, lower) = panels(draw_force(r, 1.1 * soft, soft, fits=((-1.9, 0.1), None), length_unit="au"))
    law, guide, learned = (line.get_ydata() for line in upper.get_lines())
    np.testing.assert_allclose(law, soft)
    np.testing.assert_allclose(guide * r**2, guide[0] * r[0] ** 2)
    assert guide[10] == pytest.approx(learned[10])
    assert (upper.get_xscale(), upper.get_yscale(), upper.get_ylabel()) == ("log", "log", "pull")
    np.testing.assert_allclose(lower.get_lines()[1].get_ydata(), 10)
    assert (lower.get_xlabel(), lower.get_ylabel()) == ("distance r (au)", "off the law (%)")
    figure = draw_force(r, 1.1 * soft, soft, fits=((-1.9, 0.1), None))
    assert legend_of(figure) == ["the law", "∝ 1/r²", r"learned $r^{-1.900\,\pm\,0.1}$"]


def test_repulsive_forces_forces_that_change_sign_and_unknown_forces():
    r = np.geomspace(0.1, 10, 20)
    [(_, axes), _] = panels(draw_force(r, -1 / r**2, -1 / r**2))
    assert axes.get_ylabel() == "push"
    assert [line.get_label() for line in axes.get_lines()] == ["the law", "learned"], "the law is the guide"
    np.testing.assert_allclose(axes.get_lines()[1].get_ydata(), 1 / r**2)
    [(_, axes)] = panels(draw_force(r, r - 1))
    assert (axes.get_yscale(), axes.get_xlabel()) == ("linear", "distance r")
    np.testing.assert_allclose(axes.get_lines()[0].get_ydata(), r - 1)
    springs = draw_force(r, r, r)
    assert [line.get_label() for line in springs.axes[0].get_lines()] == ["the law", "learned"], (
        "no guide to what grows"
    )
    [(_, axes)] = panels(draw_force(r, 1 / r))
    assert [line.get_label() for line in axes.get_lines()] == ["∝ 1/r²", "learned"]


def test_distances_are_plain_numbers():
    for r, expected in [
        (np.geomspace(0.25, 2.4, 9), ["0.5", "1", "2"]),
        (np.geomspace(0.3, 30, 9), ["0.5", "1", "2", "5", "10", "20"]),
        (np.geomspace(1e-3, 1e3, 9), ["0.001", "0.01", "0.1", "1", "10", "100", "1000"]),
    ]:
        figure = draw_force(r, 1 / r, 1 / r)
        svg(figure)
        low, high = figure.axes[1].get_xlim()
        ticks = [tick for tick in figure.axes[1].get_xticks() if r[0] <= tick <= r[-1] * 1.001 and low <= tick <= high]
        shown = [figure.axes[1].xaxis.get_major_formatter()(tick, 0) for tick in ticks]
        assert shown == expected


def test_units_in_words_and_distinguishable_colors():
    assert with_unit("pull", "au_per_day2") == "pull (au/day²)"
    assert with_unit("energy", "solar_mass_au2_per_day2") == "energy (solar mass au²/day²)"
    assert with_unit("x", "1") == with_unit("x", "") == "x"
    assert len(set(COLORS)) == len(COLORS) == 9
    assert color_of(9) == color_of(0)


def test_the_same_numbers_give_the_same_file():
    one, other = svg(draw_orbits(orbits_of())), svg(draw_orbits(orbits_of()))
    assert one == other
    assert ElementTree.fromstring(one).tag.endswith("svg")
    assert png(draw_orbits(orbits_of())).startswith(b"\x89PNG")


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.ids, self.meant, self.cells = [], [], []

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id":
                self.ids.append(value)
            if name in ("href", "xlink:href") and value.startswith("#"):
                self.meant.append(value[1:])
            if value and "url(#" in value:
                self.meant.append(value.split("url(#")[1].split(")")[0])

    def handle_data(self, data):
        self.cells.append(data)


def test_page_contents_are_escaped_and_picture_ids_are_unique():
    drawn = svg(draw_orbits(orbits_of()))
    table = PageTable("scores", ["", "a < b"], [["<script>", "1 & 2"]])
    written = page("R & D", [("One", ["x < y", Picture(drawn, "left")]), ("Two", [table, Picture(drawn, "right")])])
    reader = Reader()
    reader.feed(written)
    for said in ("R & D", "x < y", "a < b", "<script>", "1 & 2", "left", "right"):
        assert said in reader.cells
    assert "<script>" not in written
    assert len(reader.ids) == len(set(reader.ids))
    assert reader.meant and set(reader.meant) <= set(reader.ids)
    assert "<?xml" not in written and written.count("http-equiv") == 1


def test_names_of_nodes_do_not_overlap():
    random = np.random.default_rng(0)
    places = random.uniform(-1, 1, (40, 2)) * 0.4
    names = {number: f"node {number} of many" for number in range(40)}
    found = label_positions(places, names, list(places))
    boxes = []
    for number, (x, y) in found.items():
        half = LETTER_WIDTH * len(names[number]) / 2
        boxes.append((x - half, y - LETTER_HEIGHT / 2, x + half, y + LETTER_HEIGHT / 2))
        assert np.hypot(x - places[number, 0], y - places[number, 1]) <= half + 0.1
    for place, one in enumerate(boxes):
        for other in boxes[:place]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1]
        for x, y in places:
            assert not (one[0] < x < one[2] and one[1] < y < one[3])
    assert 5 < len(found) < 40
    assert label_positions(np.array([[0.0, 0.0], [0.9, 0.9]]), {0: "a", 1: "b"}) == {0: (0.0, 0.075), 1: (0.9, 0.975)}
