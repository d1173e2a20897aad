"""Explanations in notebooks: the page of `edgewise explain`, in a frame below the cell.

`register()` teaches a notebook to display an `Explanation` at the end of a cell as its page; every class of
`edgewise.learn.estimators` calls it at first use, as does `Explainer.open`. `show(explanation)` does the same at any
time.
"""

import html
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from edgewise.errors import plural
from edgewise.explain.explanation import Explanation

HEIGHT = 680
"""Height of the frame in pixels."""
MAX_PREDICTIONS = 4
"""The most targets that are named in a line."""
STYLE = """
.edgewise-page { width: 100%; border: 0; }
:is(body[data-jp-theme-light="true"], body.vscode-light, html[theme="light"]) .edgewise-page { color-scheme: light; }
:is(body[data-jp-theme-light="false"], body.vscode-dark, html[theme="dark"]) .edgewise-page { color-scheme: dark; }
"""
"""The style of the frame. The page is light or dark like the notebook around it (JupyterLab, nbconvert, VS Code,
Colab), not like the system: browsers apply the color-scheme of a frame to the page in it."""


@dataclass(frozen=True)
class PageFrame:
    """A page in a frame, which isolates its styles and scripts from those of the notebook."""

    page: str = field(repr=False)
    """The HTML of the page."""
    height: int = HEIGHT
    """Height of the frame in pixels."""
    summary: str = "an explanation"
    """A line about the page, which a notebook that is not trusted shows instead."""

    def _repr_html_(self) -> str:
        # No allow-same-origin: no text or file on the page can reach the notebook. Browsers never show the summary in
        # the frame; a notebook that is not trusted removes the frame and shows the summary.
        return (
            f'<style>{STYLE}</style><iframe class="edgewise-page" srcdoc="{html.escape(self.page)}" '
            f'sandbox="allow-scripts allow-downloads" style="height: {self.height}px" title="explanation">'
            f"{html.escape(self.summary)}; trust this notebook, or run the cell, to see its page.</iframe>"
        )


def show(*explanations: Explanation, height: int = HEIGHT) -> PageFrame:
    """A frame with explanations on one page, which a notebook displays at the end of a cell.

    Args:
        explanations: one explanation, or several to compare.
        height: height of the frame in pixels.
    """
    return PageFrame(page_of(explanations), height, summary_of(explanations))


def page_of(explanations: Sequence[Explanation]) -> str:
    """The page of explanations."""
    from edgewise.view.explanation import explanation_page

    return explanation_page(list(explanations))


def register() -> bool:
    """Registers the display of explanations with a running notebook; returns whether there is one. Idempotent.

    IPython is never imported here: if it is not loaded, this is not a notebook.
    """
    loaded: Any = sys.modules.get("IPython")
    shell = None if loaded is None else loaded.get_ipython()
    if shell is None:
        return False
    shell.display_formatter.formatters["text/html"].for_type(Explanation, as_html)
    shell.display_formatter.formatters["text/plain"].for_type(Explanation, print_summary)
    return True


def as_html(explanation: Explanation) -> str:
    """An explanation as a frame with its page."""
    return show(explanation)._repr_html_()


def print_summary(explanation: Explanation, printer: Any, is_cycle: bool) -> None:
    """Prints an explanation in a line, for notebooks that show no HTML."""
    printer.text(f"<{summary_of([explanation])}>")


def summary_of(explanations: Sequence[Explanation]) -> str:
    """Explanations in a line: their number, or the title and predictions of a single one."""
    if len(explanations) != 1:
        return plural(len(explanations), "explanation")
    (only,) = explanations
    predictions = ", ".join(
        f"{prediction.name} = {prediction.label or prediction.in_words(prediction.value)}"
        for prediction in only.predictions[:MAX_PREDICTIONS]
    )
    if len(only.predictions) > MAX_PREDICTIONS:
        predictions += f", and {len(only.predictions) - MAX_PREDICTIONS} more"
    return f"Explanation of {only.title}: {predictions}; {plural(len(only.units), 'unit')}"
