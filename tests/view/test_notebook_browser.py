"""Frames and widgets in a real browser, in a page that says of itself what notebooks do, with a stand-in for the model
that Jupyter hands a widget: several beside each other, as dark as the notebook, shut off from it, by keyboard."""

import pytest

pytest.importorskip("matplotlib")

from explanation_cases import text_case

from browsing import chromium, needs_chromium
from edgewise.view.notebook import STYLE, PageFrame, show

pytestmark = needs_chromium
NOTEBOOKS = {
    "JupyterLab": "document.body.dataset.jpThemeLight = String(!isDark)",
    "VS Code": "document.body.className = isDark ? 'vscode-dark' : 'vscode-light'",
    "Colab": "document.documentElement.setAttribute('theme', isDark ? 'dark' : 'light')",
}
"""How a notebook says whether it is dark."""
STAND_IN = """
window.secret = "of the notebook";
window.stand = (traits) => {
  const heard = {};
  return {
    get: (name) => traits[name],
    set: (name, value) => { traits[name] = value; for (const call of heard[`change:${name}`] ?? []) call(); },
    on: (event, call) => { heard[event] = [...(heard[event] ?? []), call]; },
    off: (event, call) => { heard[event] = (heard[event] ?? []).filter((each) => each !== call); },
    heard,
  };
};
"""
"""A model as Jupyter's, whose traits are plain values."""
NOSY = """
<body><script>
let found;
try { found = String(parent.secret); } catch (error) { found = error.name; }
document.body.textContent = found;
</script></body>
"""
"""A page that looks at the notebook around it."""


@pytest.fixture(scope="module", params=[False, True], ids=["light system", "dark system"])
def browser(request):
    # Not the colors that Playwright plays: those it plays to frames, too, whatever the notebook says.
    with chromium(*(["--force-dark-mode"] if request.param else [])) as browser:
        yield browser


@pytest.fixture
def notebook(browser):
    """An empty page as a notebook; whatever the browser complains of fails the test."""
    complaints, context = [], browser.new_context(color_scheme="null")
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.set_content(f"<script>{STAND_IN}</script><main></main>")
    yield page
    context.close()
    assert complaints == []


def set_theme(page, notebook, is_dark):
    page.evaluate(f"(isDark) => {{ {NOTEBOOKS[notebook]}; }}", is_dark)


def wait_for_themes(page, *themes):
    """Until the pages in all frames have these colors."""
    for frame, theme in zip(page.frames[1:], themes, strict=True):
        frame.wait_for_selector(f"html[data-theme={theme}] main[data-ready]", timeout=10_000)


def add_widgets(page, *pages):
    """Widgets of some pages below each other, as Jupyter makes them: one module, a view for each."""
    pytest.importorskip("anywidget")
    from edgewise.view.widget import SCRIPT

    page.evaluate(
        """async ([script, style, pages]) => {
          document.head.append(Object.assign(document.createElement("style"), { textContent: style }));
          const module = await import(URL.createObjectURL(new Blob([script], { type: "text/javascript" })));
          window.models = pages.map((page) => stand({ page, height: 300 }));
          window.ends = models.map((model) => {
            const el = document.createElement("div");
            document.querySelector("main").append(el);
            return module.default.render({ model, el });
          });
        }""",
        [SCRIPT, STYLE, list(pages)],
    )


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_frames_are_as_dark_as_the_notebook_and_not_as_the_system(notebook, name):
    set_theme(notebook, name, True)
    one = show(text_case(), height=300)
    notebook.evaluate(
        "(written) => { document.querySelector('main').innerHTML = written; }", one._repr_html_() + one._repr_html_()
    )
    wait_for_themes(notebook, "dark", "dark")
    set_theme(notebook, name, False)
    wait_for_themes(notebook, "light", "light")


def test_widgets_beside_each_other_do_not_know_of_each_other(notebook):
    page = show(text_case()).page
    set_theme(notebook, "JupyterLab", True)
    add_widgets(notebook, page, page)
    wait_for_themes(notebook, "dark", "dark")
    first, second = notebook.frames[1:]
    first.click("#theme")
    wait_for_themes(notebook, "light", "dark")
    first.select_option('[data-choose="attribution"]', "1")
    assert [frame.input_value('[data-choose="attribution"]') for frame in (first, second)] == ["1", "0"]
    with notebook.expect_download() as waiting:
        second.click('[data-save="input.svg"]')
    assert waiting.value.path().read_bytes().startswith(b"<svg")


def test_a_widget_shows_another_page_at_another_height_and_ends(notebook):
    page = show(text_case()).page
    add_widgets(notebook, page)
    notebook.frames[1].wait_for_selector("main[data-ready]")
    assert notebook.locator("iframe").bounding_box()["height"] == 300
    notebook.evaluate("models[0].set('height', 450)")
    assert notebook.locator("iframe").bounding_box()["height"] == 450
    notebook.evaluate("models[0].set('page', '<p id=other>another</p>')")
    notebook.frames[1].wait_for_selector("#other")
    notebook.evaluate("ends[0]()")
    assert notebook.evaluate("Object.values(models[0].heard).flat().length") == 0


def test_the_controls_are_reached_by_keyboard(notebook):
    add_widgets(notebook, show(text_case()).page)
    frame = notebook.frames[1]
    frame.wait_for_selector("main[data-ready]")
    frame.focus('[data-choose="attribution"]')
    reached = []
    for _ in range(7):
        notebook.keyboard.press("Tab")
        reached.append(frame.evaluate("document.activeElement.dataset.choose ?? document.activeElement.dataset.save"))
    assert reached == ["lines", "layer", "head", "direction", "threshold", "input.svg", "input.png"]


@pytest.mark.parametrize("kind", ["frame", "widget"])
def test_a_page_cannot_reach_the_notebook(notebook, kind):
    if kind == "widget":
        add_widgets(notebook, NOSY)
    else:
        notebook.evaluate(
            "(written) => { document.querySelector('main').innerHTML = written; }", PageFrame(NOSY)._repr_html_()
        )
    notebook.frames[1].wait_for_function("document.body.textContent.trim() === 'SecurityError'")
