"""The page that answers, driven in a real browser: type, see the prediction change, compare, download."""

import json

import pytest
from stand_in import MOLECULE, TEXT, StandIn

from browsing import chromium, needs_chromium

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def browser():
    with chromium() as opened:
        yield opened


@pytest.fixture
def page(browser):
    """A page on which nothing may go wrong, and from which nothing may be asked elsewhere."""
    opened = browser.new_page()
    opened.set_default_timeout(10_000)
    problems, asked = [], []
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("request", lambda request: asked.append(request.url))
    opened.problems = problems
    yield opened
    assert {url.split("/")[2] for url in asked if url.startswith("http")} <= {opened.served.split("/")[2]}
    opened.close()


@pytest.fixture
def opened(page, listening, plain_view):
    """Opens the page of a model."""

    def at(explainer):
        page.served = listening(explainer, hosts=("127.0.0.1",))
        page.goto(page.served)
        page.wait_for_selector("form label")
        return page

    return at


def drawn(page, name="a"):
    """The numbers that the picture of an input shows."""
    frame = page.frame_locator(f"[data-panel={name}] iframe")
    return json.loads(frame.locator("#numbers").inner_text())


def predicted(page, name="a"):
    return page.locator(f"[data-panel={name}] .predictions")


def test_the_prediction_and_the_picture_change_with_what_is_typed(opened):
    page = opened(StandIn("text", TEXT))
    expect = playwright.expect
    assert "over texts" in page.inner_text("#about")
    page.keyboard.type("a film")  # the first cell has the focus
    expect(predicted(page).locator(".value")).to_have_text("6")
    expect(page.frame_locator("[data-panel=a] iframe").locator("#numbers")).to_contain_text("a film")
    assert drawn(page)["predictions"][0]["value"] == 6
    page.keyboard.type(" to remember")
    expect(predicted(page).locator(".value")).to_have_text("18")
    expect(page.frame_locator("[data-panel=a] iframe").locator("#numbers")).to_contain_text("a film to remember")
    assert page.problems == []


def test_a_prediction_waits_for_the_numbers_beside_the_molecule(opened):
    page = opened(StandIn())
    expect = playwright.expect
    page.get_by_label("smiles").fill("CCO")
    page.wait_for_timeout(400)
    assert predicted(page).inner_text() == ""
    page.get_by_label("temperature / K").fill("300")
    expect(predicted(page).locator(".value")).to_have_text("3")
    expect(predicted(page).locator(".more")).to_contain_text("(0 to 150)")
    page.get_by_label("temperature / K").fill("20")
    expect(predicted(page).locator(".more")).to_contain_text("(0 to 10)")


def test_two_inputs_stand_side_by_side_with_their_difference(opened):
    page = opened(StandIn("text", TEXT))
    expect = playwright.expect
    page.get_by_label("text").fill("short")
    page.get_by_label("compare two inputs").check()
    second = page.locator("[data-panel=b]")
    expect(second.locator("textarea")).to_have_value("short")
    second.locator("textarea").fill("rather long")
    expect(predicted(page, "b").locator(".value")).to_have_text("11")
    expect(page.locator("#difference")).to_have_text("second less first: length: 6")
    boxes = [page.locator(f"[data-panel={name}]").bounding_box() for name in "ab"]
    assert boxes[0]["y"] == boxes[1]["y"] and boxes[0]["x"] < boxes[1]["x"]
    page.get_by_label("compare two inputs").uncheck()
    expect(second).to_be_hidden()
    expect(page.locator("#difference")).to_be_hidden()


def test_the_result_is_downloaded(opened, tmp_path):
    explainer = StandIn("text", TEXT)
    page = opened(explainer)
    page.get_by_label("text").fill("a film")
    page.locator(".downloads button").first.wait_for()
    for label, name in (("numbers (.json)", "explanation_a.json"), ("page (.html)", "explanation_a.html"),
                        ("picture (.svg)", "explanation_a.svg")):  # fmt: skip
        with page.expect_download() as waiting:
            page.get_by_role("button", name=label).click()
        assert waiting.value.suggested_filename == name
        waiting.value.save_as(tmp_path / name)
    assert json.loads((tmp_path / "explanation_a.json").read_text()) == explainer.explain({"text": "a film"}).to_json()
    assert "a film" in (tmp_path / "explanation_a.html").read_text()
    assert (tmp_path / "explanation_a.svg").read_text().startswith("<svg")


def test_what_cannot_be_read_is_said_and_goes_away(opened):
    page = opened(StandIn("text", TEXT))
    expect = playwright.expect
    page.get_by_label("text").fill("bad")
    expect(page.get_by_role("alert")).to_have_text("text: 'bad' cannot be read.")
    assert predicted(page).inner_text() == ""
    page.get_by_label("text").fill("good")
    expect(page.get_by_role("alert")).to_be_hidden()
    expect(predicted(page).locator(".value")).to_have_text("4")


def test_html_that_is_typed_stays_text(opened):
    page = opened(StandIn("text", TEXT))
    expect = playwright.expect
    text = "<img src=x onerror=\"document.title='taken'\"><script>document.title='taken'</script>"
    page.get_by_label("text").fill(text)
    expect(predicted(page).locator(".value")).to_have_text(str(len(text)))
    expect(page.frame_locator("[data-panel=a] iframe").locator("#numbers")).to_contain_text("onerror")
    assert drawn(page)["sources"]["text"] == text
    assert page.title() == "Edgewise: a model that answers"
    assert page.locator("img").count() == 0


def test_it_is_used_by_keyboard_alone(opened):
    page = opened(StandIn("text", TEXT))
    expect = playwright.expect
    page.keyboard.type("word")
    expect(page.locator(".downloads")).to_be_visible()
    reached = []
    for _ in range(8):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("document.activeElement.textContent || document.activeElement.tagName"))
    assert "numbers (.json)" in reached


def test_the_page_asks_for_the_key_and_keeps_it_in_memory(page, listening, plain_view):
    page.served = listening(StandIn("text", TEXT), hosts=("127.0.0.1",), api_key="open sesame")
    page.goto(page.served)
    page.get_by_label("API key").fill("guess")
    page.get_by_role("button", name="open").click()
    page.get_by_text("does not know this key").wait_for()
    page.get_by_label("API key").fill("open sesame")
    page.get_by_role("button", name="open").click()
    page.wait_for_selector("form label textarea")
    page.locator("[data-panel=a] textarea").fill("film")
    page.locator("[data-panel=a] .predictions dd").wait_for()
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [0, 0, ""]
    page.problems[:] = [each for each in page.problems if "401" not in each]
    assert page.problems == []


def test_with_a_key_the_reference_for_programs_is_shown_and_the_page_waits(page, listening, plain_view):
    """The link led to the raw refusal of a request without a key."""
    page.served = listening(StandIn("text", TEXT), hosts=("127.0.0.1",), api_key="open sesame")
    page.goto(page.served)
    page.get_by_label("API key").wait_for()
    page.get_by_role("link", name="for programs").click()
    assert page.evaluate("document.activeElement.name") == "key"
    page.keyboard.type("open sesame")
    page.get_by_role("button", name="open").click()
    page.locator("[data-panel=a] textarea").fill("film")
    page.get_by_role("link", name="for programs").click()
    page.get_by_role("heading", name="POST /predict").wait_for()
    assert "authorization: Bearer KEY" in page.locator("pre").first.inner_text()
    assert not page.locator("[data-panel=a] textarea").is_visible()
    with page.expect_download() as waiting:
        page.get_by_role("link", name="openapi.json").click()
    assert "/predict" in json.loads(waiting.value.path().read_bytes())["paths"]
    page.get_by_role("link", name="Back to the page").click()
    assert page.locator("[data-panel=a] textarea").input_value() == "film"
    assert not page.locator(".manual").count()
    page.problems[:] = [each for each in page.problems if "401" not in each]
    assert page.problems == []


def test_input_that_is_no_number_is_not_a_missing_number(opened):
    """A browser says that the value of such a cell is empty: it was predicted as if the number were missing."""
    page = opened(StandIn("molecule", [MOLECULE[0], {**MOLECULE[1], "may_be_missing": True}]))
    page.get_by_label("temperature / K").fill("1")
    page.get_by_label("smiles").fill("CCO")
    predicted(page).locator(".value").wait_for()
    page.get_by_label("temperature / K").press_sequentially("e")
    playwright.expect(page.locator(".problem")).to_have_text("temperature / K: this is not a number")
    assert predicted(page).inner_text() == ""
    page.get_by_label("temperature / K").press_sequentially("2")
    predicted(page).locator(".value").wait_for()
    assert page.problems == []
