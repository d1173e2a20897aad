"""The page of explanations in a real browser."""

import pytest
from page_reading import READY

from browsing import chromium


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture
def opened(browser, tmp_path):
    """Opens a page of explanations; whatever the browser complains of fails the test."""
    from edgewise.view.explanation import explanation_page

    complaints, contexts = [], []

    def open_page(*explanations, color_scheme="light", width=1280, **details):
        path = tmp_path / "report.html"
        path.write_text(explanation_page(explanations, **details), encoding="utf-8")
        contexts.append(browser.new_context(color_scheme=color_scheme, viewport={"width": width, "height": 900}))
        page = contexts[-1].new_page()
        page.on(
            "console", lambda message: complaints.append(message.text) if message.type in ("error", "warning") else None
        )
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(dialog.message))
        page.on(
            "request",
            lambda asked: complaints.append(asked.url) if not asked.url.startswith(("file:", "blob:")) else None,
        )
        page.goto(path.as_uri())
        page.wait_for_selector(READY)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []
