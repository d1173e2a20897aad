"""Molecules and graphs in a real browser: atoms, parts and nodes say the numbers of the explanation."""

import itertools
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rdkit")

from explanation_cases import IONS, graph_case, molecule_case
from page_reading import arcs, downloaded, numbers

from browsing import needs_chromium
from edgewise.explain.explanation import Curve

pytestmark = needs_chromium


def test_atoms_characters_and_numbers_are_linked(opened):
    explanation = molecule_case()
    plain = explanation.to_json()
    page = opened(explanation)
    assert numbers(page, ".molecule circle[data-value]") == plain["attributions"][0]["values"]
    assert page.eval_on_selector_all("code.smiles", "all => all.map(each => each.textContent)") == list(IONS.values())
    page.hover('.character[data-unit="7"]')
    assert page.inner_text(".details h4 >> nth=0") == "N8 of cation"
    assert numbers(page, ".details tr[data-value] >> nth=0") == [plain["attributions"][0]["values"][7]]
    page.hover('.atom[data-unit="10"]', force=True)
    assert page.locator(".character.current").get_attribute("data-unit") == "10"
    assert page.inner_text(".character.current") == "F"
    page.select_option('[data-choose="lines"]', "effect")
    page.locator('[data-choose="threshold"]').fill("0")
    page.mouse.move(5, 5)
    effects = {(link["first"], link["second"]): link["effect"] for link in plain["links"]}
    assert {(a, b): value for a, b, value in arcs(page, ".molecule path[data-from]")} == effects


def test_prediction_and_baseline_have_the_digits_in_which_they_differ(opened):
    explanation = molecule_case()
    values = np.zeros_like(explanation.attributions[0].values)
    values[0] = 25.3
    attribution = replace(explanation.attributions[0], values=values, baseline=1.7e9)
    page = opened(replace(explanation, attributions=(attribution,)))
    words = page.inner_text("p.sum")
    assert words.startswith("Their sum is 25.3: the prediction of ")
    assert words.endswith(", 1700000025, less the baseline, 1700000000.")


def test_parts_and_curves_say_their_numbers(opened):
    explanation = molecule_case()
    plain = explanation.to_json()
    page = opened(explanation)
    by_size = sorted((part["effect"] for part in plain["parts"]), key=lambda effect: -abs(effect))
    assert numbers(page, "table.parts tr[data-value]") == by_size
    page.hover("table.parts tr[data-value] >> nth=0")
    assert page.eval_on_selector_all(".character.grouped", "all => all.map(each => Number(each.dataset.unit))") == [
        10,
        11,
        12,
        13,
        14,
    ]
    for number, curve in enumerate(plain["curves"], 1):
        points = f'[data-figure="curve-{number}"] circle[data-x]'
        assert numbers(page, points, "x") == curve["at"]
        assert numbers(page, points, "y") == curve["predictions"]
        assert numbers(page, f'[data-figure="curve-{number}"] circle[data-here]', "here") == [curve["here"]]


def test_numbers_that_lie_close_differ_on_the_axes_of_a_curve(opened):
    """The ticks of some years were 2010, 2010, 2020, 2020, and the ring stood at 2020 for the row of 2015."""
    years = np.linspace(2008.0, 2022.0, 15)
    curves = (
        Curve("year", years, 1.7e5 + years, 2015.0),
        Curve("price", np.array([0.0, 3e5]), np.array([2015.0, 2015.0]), 123456.5),
        Curve("charge", np.array([-2e-4, 1e-4]), np.array([0.1, 0.2]), -1.25e-4),
    )
    page = opened(replace(molecule_case(), curves=curves))

    def texts(number, selector):
        return page.eval_on_selector_all(
            f'[data-figure="curve-{number}"] {selector}', "all => all.map(e => e.textContent)"
        )

    ticks = texts(1, "svg text")
    assert [text for text in ticks if text.startswith("20")] == ["2010", "2015", "2020"]
    assert [text for text in ticks if text.startswith("17")] == ["172010", "172015", "172020"]
    assert "2015 → 172015" in " ".join(texts(1, "circle title"))
    rings = [page.inner_text(f'[data-figure="curve-{number}"] figcaption') for number in (1, 2, 3)]
    assert [ring.rpartition("row, ")[2] for ring in rings] == ["2015.", "123456.5.", "−0.000125."]
    assert "→ 2015" in " ".join(texts(2, "circle title"))


def test_long_numbers_at_a_tick_stand_within_the_chart(opened):
    seconds = np.linspace(1700002008.0, 1700002022.0, 15)
    page = opened(replace(molecule_case(), curves=(Curve("time", seconds, seconds - 1.6999e9, seconds[0]),)))
    boxes = page.eval_on_selector_all(
        '[data-figure="curve-1"] svg text[font-size="11"]',
        "all => all.map(text => { const { x, y, width } = text.getBBox(); return [text.textContent, x, y, width]; })",
    )
    width = page.eval_on_selector('[data-figure="curve-1"] svg', "svg => svg.viewBox.baseVal.width")
    assert all(x >= 0 and x + length <= width for _, x, _, length in boxes)
    below = sorted((x, x + length) for text, x, _, length in boxes if text.startswith("17"))
    assert len(below) >= 2
    assert all(end < start for (_, end), (start, _) in itertools.pairwise(below))


def test_a_graph_is_walked_by_keyboard_and_zoomed_from_groups_to_nodes(opened):
    explanation = graph_case(2000)
    page = opened(explanation)
    canvas = page.locator("canvas.graph")
    page.wait_for_selector('canvas.graph[data-detail="groups"]')
    canvas.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_selector('canvas.graph[data-detail="nodes"]')
    assert page.inner_text(".details h4 >> nth=0") == "paper 0"
    page.keyboard.press("ArrowRight")
    assert page.inner_text(".details h4 >> nth=0") == "paper 1"
    assert numbers(page, ".details tr[data-value] >> nth=0") == [explanation.to_json()["attributions"][0]["values"][1]]
    page.keyboard.press("0")
    page.wait_for_selector('canvas.graph[data-detail="groups"]')
    for _ in range(8):
        page.keyboard.press("+")
    page.wait_for_selector('canvas.graph[data-detail="nodes"]')
    page.keyboard.press("Escape")
    assert page.inner_text(".details h4 >> nth=0") == "Most by occlusion"


def test_nodes_that_are_saved_carry_their_numbers(opened):
    explanation = graph_case()
    page = opened(explanation)
    drawn = ElementTree.fromstring(downloaded(page, "input.svg"))
    nodes = {int(each.get("data-unit")): float(each.get("data-value")) for each in drawn if each.get("data-unit")}
    assert nodes == dict(enumerate(explanation.to_json()["attributions"][0]["values"]))
    box = page.locator("canvas.graph").bounding_box()
    page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(5, 5)
    assert page.inner_text(".details h4 >> nth=0") == "paper 0"


@pytest.mark.parametrize("attends", [True, False])
def test_what_one_sees_is_what_there_is(opened, attends):
    explanation = molecule_case()
    layers = tuple(layer for layer in explanation.layers if attends or layer.is_readout)
    page = opened(replace(explanation, layers=layers))
    assert ("where it attends" in page.inner_text('[data-figure="input"]')) == attends
