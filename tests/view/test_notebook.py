"""Explanations in notebooks: what IPython is handed, that a page cannot reach the notebook, the widget's traits."""

import html
import re
import sys
from types import ModuleType

import pytest

from edgewise.explain.explanation import Explanation, TargetPrediction, Unit
from edgewise.view import notebook
from edgewise.view.notebook import PageFrame, register, show

HOSTILE = '"></iframe><script>alert(1)</script>'


def explained(title="CCO"):
    return Explanation("text", title, {"text": title}, (TargetPrediction("y", 1.25),), "y", (Unit("a"), Unit("b")))


def test_the_real_page_is_framed():
    pytest.importorskip("edgewise.view.explanation")
    text = "good <b>film"
    units = (Unit("good", "text", 0, 4), Unit("film", "text", 8, 12))
    written = show(Explanation("text", text, {"text": text}, (TargetPrediction("y", 1.25),), "y", units))._repr_html_()
    (inside,) = re.findall('srcdoc="([^"]*)"', written)
    assert html.unescape(inside).startswith("<!")
    assert "film" in inside
    assert written.index(inside) + len(inside) < written.index("</iframe>")


@pytest.fixture
def page(monkeypatch):
    """A page that says what it was made of, in place of the real one, which takes its time."""
    fake = ModuleType("edgewise.view.explanation")
    fake.explanation_page = lambda explanations: "<p>" + "&amp;".join(each.title for each in explanations) + "</p>"
    monkeypatch.setitem(sys.modules, "edgewise.view.explanation", fake)


def test_a_frame_holds_the_page_and_nothing_gets_out(page):
    written = show(explained(HOSTILE), explained("b"), height=99)._repr_html_()
    assert written.count("<iframe") == written.count("</iframe>") == 1
    assert "<script>" not in written
    (inside,) = re.findall('srcdoc="([^"]*)"', written)
    assert html.unescape(inside) == f"<p>{HOSTILE}&amp;b</p>"
    assert 'sandbox="allow-scripts allow-downloads"' in written
    assert "height: 99px" in written
    assert PageFrame("x").height == notebook.HEIGHT
    assert len(repr(PageFrame("x" * 1000))) < 100, "the page is not kept twice in a notebook's file"


def without_frames(written):
    """What a notebook that is not trusted leaves of HTML: no style, no frame, but the words in it."""
    cleaned = re.sub("<style>.*?</style>", "", written, flags=re.DOTALL)
    return html.unescape(re.sub("</?iframe[^>]*>", "", cleaned))


def test_a_notebook_that_is_not_trusted_shows_words(page):
    said = without_frames(show(explained("one < two"))._repr_html_())
    assert said == "Explanation of one < two: y = 1.25; 2 units; trust this notebook, or run the cell, to see its page."
    assert without_frames(show(explained("a"), explained("b"))._repr_html_()).startswith("2 explanations; trust this")
    predicted = tuple(TargetPrediction(str(number), 1.0, "O") for number in range(30))
    many = Explanation("text", "x", {"text": "x"}, predicted, "0", (Unit("x"),))
    assert notebook.summary_of([many]) == "Explanation of x: 0 = O, 1 = O, 2 = O, 3 = O, and 26 more; 1 unit"


def test_a_notebook_shows_an_explanation_as_its_page(page):
    interactive = pytest.importorskip("IPython.core.interactiveshell").InteractiveShell
    assert register() is False, "there is no notebook yet"
    shell = interactive.instance()
    try:
        assert register() is True
        assert register() is True
        shell.user_ns["found"] = explained("one < two")
        shell.run_cell("result = found\nfound", store_history=False)
        data, _ = shell.display_formatter.format(shell.user_ns["result"])
        assert html.unescape(re.findall('srcdoc="([^"]*)"', data["text/html"])[0]) == "<p>one < two</p>"
        assert data["text/plain"] == "<Explanation of one < two: y = 1.25; 2 units>"
        shell.run_cell("from edgewise.neighborhood import Causal\ndrawn = Causal().draw(2)", store_history=False)
        data, _ = shell.display_formatter.format(shell.user_ns["drawn"])
        assert data["image/svg+xml"].startswith("<svg")
    finally:
        interactive.clear_instance()


def test_loading_an_estimator_or_explainer_registers_the_notebook(monkeypatch, tmp_path):
    import edgewise.learn.estimators
    from edgewise.errors import RunFolderError
    from edgewise.learn.tasks import explainer as explaining

    called = []
    for module in (notebook, explaining):
        monkeypatch.setattr(module, "register", lambda: called.append(1))
    assert edgewise.learn.estimators.LanguageModel.__name__ == "LanguageModel"
    assert called == [1]
    with pytest.raises(RunFolderError):
        explaining.Explainer.open(tmp_path)
    assert called == [1, 1]


def test_the_widget_draws_what_it_is_given_and_then_something_else(page):
    pytest.importorskip("anywidget")
    from traitlets import TraitError

    from edgewise.view.widget import ExplanationWidget

    widget = ExplanationWidget(explained("a"), height=300)
    assert (widget.page, widget.height) == ("<p>a</p>", 300)
    sent = []
    widget.observe(lambda change: sent.append(change["new"]), "page")
    widget.explanations = (explained("b"), explained("c"))
    assert sent == ["<p>b&amp;c</p>"] == [widget.page]
    state = widget.get_state()
    assert state["page"] == widget.page
    assert "explanations" not in state, "the browser gets the page alone"
    assert "srcdoc" in state["_esm"]
    assert "allow-same-origin" not in state["_esm"]
    assert "color-scheme" in state["_css"]
    assert repr(widget) == "<ExplanationWidget: 2 explanations>", "which is what stays without a kernel"
    widget.explanations = ()
    assert widget.page == ""
    with pytest.raises(TraitError, match="explanations holds str, expected Explanation"):
        widget.explanations = ("no",)
    with pytest.raises(TraitError):
        widget.height = 0
    with pytest.raises(TraitError):
        widget.page = "other"
