"""Texts in a real browser: words, lines and matrices say the numbers of the explanation, by pointer and keyboard."""

import xml.etree.ElementTree as ElementTree

import pytest

pytest.importorskip("matplotlib")

from explanation_cases import text_case, translation_case
from page_reading import arcs, downloaded, numbers

from browsing import needs_chromium
from edgewise.explain.explanation import Explanation, TargetPrediction, Unit

pytestmark = needs_chromium


def color(value, most):
    """The shade of a signed value, reckoned as the page says that it is."""
    base = (213, 94, 0) if value >= 0 else (0, 114, 178)
    return (*base, 0.72 * abs(value) / most)


def read_color(written):
    parts = [float(part) for part in written[written.index("(") + 1 : -1].split(",")]
    return (*parts, 1.0)[:4]


def test_words_are_shaded_by_the_chosen_attribution(opened):
    explanation = text_case()
    plain = explanation.to_json()
    page = opened(explanation)
    for place, attribution in enumerate(plain["attributions"]):
        page.select_option('[data-choose="attribution"]', str(place))
        assert numbers(page, ".word") == attribution["values"]
    page.select_option('[data-choose="attribution"]', "0")
    values = plain["attributions"][0]["values"]
    most = max(abs(value) for value in values)
    shades = page.eval_on_selector_all(".word", "all => all.map(each => getComputedStyle(each).backgroundColor)")
    for value, shade in zip(values, shades, strict=True):
        assert read_color(shade) == pytest.approx(color(value, most), abs=0.01)
    # The words are the text, also behind a character that is two for the browser.
    assert page.text_content(".words p.chunk") == explanation.sources["text"]
    assert page.eval_on_selector_all(".word", "all => all.map(each => each.textContent)") == [
        u.name for u in explanation.units
    ]


def weights_to(layer, head, receiver):
    """The senders and weights of one receiver, strongest first."""
    rows = zip(layer["senders"], layer["receivers"], layer["values"][head])
    return sorted(((s, r, value) for s, r, value in rows if r == receiver), key=lambda row: -row[2])


def test_arcs_are_the_weights_of_the_layer_the_head_and_the_word(opened):
    explanation = text_case()
    layers = explanation.to_json()["layers"]
    page = opened(explanation)
    page.select_option('[data-choose="layer"]', "0")
    page.select_option('[data-choose="head"]', "2")
    page.hover('.word[data-unit="6"]')
    expected = weights_to(layers[0], 2, 6)
    assert arcs(page) == [row for row in expected if row[2] >= 0.1 * expected[0][2]]
    page.locator('[data-choose="threshold"]').fill("0.6")
    page.hover('.word[data-unit="6"]')
    assert arcs(page) == [row for row in expected if row[2] >= 0.6 * expected[0][2]]
    page.select_option('[data-choose="direction"]', "out")
    page.locator('[data-choose="threshold"]').fill("0")
    page.hover('.word[data-unit="6"]')
    assert {row[0] for row in arcs(page)} == {6}
    assert len(arcs(page)) == len(explanation.units)
    # What a click holds stays when the pointer leaves.
    page.click('.word[data-unit="3"]')
    page.mouse.move(5, 5)
    assert {row[0] for row in arcs(page)} == {3}
    assert page.inner_text(".details h4 >> nth=0") == explanation.units[3].name


def test_the_grid_picks_layer_and_head(opened):
    page = opened(text_case())
    page.click('button.head[data-layer="0"][data-head="3"]')
    assert page.input_value('[data-choose="layer"]') == "0"
    assert page.input_value('[data-choose="head"]') == "3"
    assert page.inner_text('[data-figure="matrix"] h3') == "layer 1, head 4"
    assert page.get_attribute('button.head[data-layer="0"][data-head="3"]', "aria-pressed") == "true"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("Enter")
    assert page.inner_text('[data-figure="matrix"] h3') == "layer 2, head 3"
    # A layer with one head takes the place of another whose head it does not have.
    page.select_option('[data-choose="layer"]', "2")
    assert page.input_value('[data-choose="head"]') == "0"
    assert arcs(page) == []


def cells_of(drawn):
    """The numbers of a matrix that was saved, by row and column."""
    cells = [c for c in drawn if c.get("data-row")]
    return {(int(c.get("data-row")), int(c.get("data-column"))): float(c.get("data-value")) for c in cells}


def test_the_matrix_that_is_saved_holds_the_weights(opened):
    explanation = text_case()
    layer = explanation.to_json()["layers"][1]
    page = opened(explanation)
    page.select_option('[data-choose="head"]', "1")
    drawn = ElementTree.fromstring(downloaded(page, "matrix.svg"))
    expected = zip(layer["receivers"], layer["senders"], layer["values"][1])
    assert cells_of(drawn) == {(receiver, sender): value for receiver, sender, value in expected if value > 0}
    assert downloaded(page, "matrix.png")[:8] == b"\x89PNG\r\n\x1a\n"


def test_the_matrix_of_a_layer_across_is_one_text_against_the_other(opened):
    explanation = translation_case()
    page = opened(explanation)
    layer, read = explanation.layers[2], sum(unit.source == "source" for unit in explanation.units)
    assert page.input_value('[data-choose="layer"]') == "2"
    page.select_option('[data-choose="head"]', "1")
    drawn = ElementTree.fromstring(downloaded(page, "matrix.svg"))
    expected = zip(layer.receivers - read, layer.senders, layer.values[1], strict=True)
    assert cells_of(drawn) == {(row, column): pytest.approx(value, rel=1e-6) for row, column, value in expected}
    assert {each.text for each in drawn.iter() if each.text} >= {unit.name for unit in explanation.units}
    note = page.locator(".matrix-box .note")
    assert note.inner_text() == "A row, of the translation, attends to the columns, of the source."
    assert page.locator('button.head[data-layer="2"][data-head="1"] small').inner_text().endswith(" bit")
    page.select_option('[data-choose="layer"]', "0")
    assert note.inner_text() == "A row attends to the columns."
    assert "away" in page.locator('button.head[data-layer="0"][data-head="1"] small').inner_text()


def test_across_texts_a_word_has_lines_on_its_own_side_only(opened):
    explanation = translation_case()
    read = sum(unit.source == "source" for unit in explanation.units)
    page = opened(explanation)
    page.locator('[data-choose="threshold"]').fill("0")
    assert page.locator('[data-choose="direction"]').is_disabled()
    for unit, side, heading in (
        (1, "to", "Attended to by (cross 1, mean)"),
        (read + 2, "from", "It attends to (cross"),
    ):
        page.locator(f'.word[data-unit="{unit}"]').click()
        others = read if side == "from" else len(explanation.units) - read
        assert page.locator(".arcs path").count() == others
        assert heading in page.locator("aside.details").inner_text()
        page.keyboard.press("Escape")
    # A word shows only what was computed for it.
    page.mouse.move(0, 0)
    page.locator(f'.word[data-unit="{read + 2}"]').hover()
    assert "occlusion" not in page.locator("aside.details").inner_text()
    page.locator('.word[data-unit="1"]').hover()
    assert "occlusion" in page.locator("aside.details").inner_text()
    page.select_option('[data-choose="layer"]', "0")
    assert page.locator('[data-choose="direction"]').is_enabled()


def test_lines_across_run_between_the_texts(opened):
    page = opened(translation_case())
    top, bottom = (page.locator(f'.word[data-unit="{unit}"]').bounding_box() for unit in (0, 9))
    for path in page.locator(".arcs path").all()[:5]:
        box = path.bounding_box()
        assert box["y"] >= top["y"] + top["height"] - 4
        assert box["y"] + box["height"] <= bottom["y"] + 4


def test_a_square_of_many_across_is_gone_into(opened):
    words = " ".join(f"w{place}" for place in range(300))
    page = opened(translation_case(words, words[:900]))
    canvas, whole = page.locator("canvas.matrix"), page.locator("button", has_text="whole matrix")
    assert "a square is 3 units" in page.locator(".matrix-box .note").inner_text()
    canvas.scroll_into_view_if_needed()
    canvas.click(position={"x": 300, "y": 40})
    assert whole.is_visible()
    assert "a square" not in page.locator(".matrix-box .note").inner_text()
    page.select_option('[data-choose="layer"]', "1")
    assert whole.is_hidden()
    page.select_option('[data-choose="layer"]', "2")
    canvas.focus()
    page.keyboard.press("Enter")
    assert whole.is_visible()
    page.keyboard.press("Escape")
    assert whole.is_hidden()


def test_words_are_walked_by_keyboard(opened):
    explanation = text_case()
    page = opened(explanation)
    page.focus('.word[data-unit="0"]')
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.dataset.unit") == "2"
    assert page.inner_text(".details h4 >> nth=0") == explanation.units[2].name
    page.keyboard.press("End")
    page.keyboard.press("Enter")
    page.evaluate("document.activeElement.blur()")
    assert page.inner_text(".details h4 >> nth=0") == explanation.units[-1].name
    page.focus('.word[data-unit="1"]')
    page.keyboard.press("Escape")
    assert page.inner_text(".details h4 >> nth=0") == "Most by occlusion"
    # Everything that can be pressed has a name, and words are one stop of the tab key.
    assert page.locator('.word[tabindex="0"]').count() == 1
    unnamed = "all => all.filter(each => !(each.getAttribute('aria-label') || each.textContent.trim())).length"
    assert page.eval_on_selector_all("button", unnamed) == 0


def test_the_end_of_a_line_that_is_a_unit_can_be_seen(opened):
    units = tuple(Unit("⏎" if sign == "\n" else sign, "text", n, n + 1) for n, sign in enumerate("a\nb"))
    found = Explanation("text", "a b", {"text": "a\nb"}, (TargetPrediction("y", 1.0),), "y", units)
    page = opened(found)
    assert page.eval_on_selector_all(".word", "all => all.map(each => each.dataset.sign ?? '')") == ["", "⏎", ""]
    assert page.text_content(".words p.chunk") == "a\nb"
