"""The page about a run in a real browser: its policy stops every script and style but its own, and pictures are drawn
all the same, light and dark."""

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from browsing import chromium, needs_chromium
from edgewise.view.figure import svg
from edgewise.view.page import Caution, PageTable, Picture, page
from edgewise.view.training import draw_confusion, draw_coverage, draw_losses, draw_numbers

pytestmark = needs_chromium


@pytest.fixture(scope="module")
def written():
    """A page with every part, one picture of which holds an image."""
    steps, many = np.linspace(0, 1, 9), np.random.default_rng(0).normal(size=4000)
    history = {"epoch": np.arange(1, 4), "train_loss": np.array([3, 2, 1.0]), "val_loss": np.array([4, 3, 2.0])}
    figures = [
        draw_losses({0: history}),
        draw_numbers(many, many + 0.1),
        draw_coverage(steps, steps, 50, 0.5),
        draw_confusion(["a", "b"], np.array([[3, 1], [2, 5]])),
    ]
    parts = [*(Picture(svg(figure), "drawn") for figure in figures), PageTable("t", ["a", "b"], [["1", "2"]], (1,))]
    return page("A run", [("All", [Caution("look"), *parts])])


def colors(browser, path, scheme):
    """The color of the ground and that of a line of the axes, and what the browser complained of."""
    context = browser.new_context(color_scheme=scheme)
    opened, complaints = context.new_page(), []
    opened.on("console", lambda message: complaints.append(message.text))
    opened.on("pageerror", lambda error: complaints.append(str(error)))
    opened.goto(path.as_uri())
    ground = opened.evaluate("getComputedStyle(document.body).backgroundColor")
    line = opened.evaluate("""getComputedStyle(document.querySelector('svg [stroke="#3b4252"]')).stroke""")
    title = opened.title()
    context.close()
    return ground, line, title, complaints


def test_pictures_are_drawn_under_a_policy_that_lets_nothing_else_in(written, tmp_path):
    path = tmp_path / "report.html"
    path.write_text(written)
    attack = "<script>document.title = 'taken over'</script><p style='color: red'>x</p></body>"
    (tmp_path / "attacked.html").write_text(written.replace("</body>", attack))
    with chromium() as browser:
        assert colors(browser, path, "light") == ("rgb(255, 255, 255)", "rgb(59, 66, 82)", "A run", [])
        assert colors(browser, path, "dark") == ("rgb(29, 33, 41)", "rgb(216, 222, 233)", "A run", [])
        *_, title, complaints = colors(browser, tmp_path / "attacked.html", "light")
    assert title == "A run"
    assert len(complaints) == 2
    assert all("Content Security Policy" in each for each in complaints)
