"""Explanations in notebooks: the page that `edgewise explain` writes, in a frame of its own below the cell.

An `Explanation` knows no page. A notebook learns once how explanations look, by `register()`, which every class of
`edgewise.learn.estimators` calls at first use, and `Explainer.open`; an explanation at the end of a cell is
then its page. Anywhere else, and before, `show(explanation)` gives the same.
"""

import html
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from edgewise.explain.explanation import Explanation
from edgewise.formatting import plural

HEIGHT = 680
"""Pixels of the frame."""
MAX_PREDICTIONS = 4
"""Targets that are named in a line."""
STYLE = """
.edgewise-page { width: 100%; border: 0; }
:is(body[data-jp-theme-light="true"], body.vscode-light, html[theme="light"]) .edgewise-page { color-scheme: light; }
:is(body[data-jp-theme-light="false"], body.vscode-dark, html[theme="dark"]) .edgewise-page { color-scheme: dark; }
"""
"""Of the frame. The page is as light or dark as the notebook around it (JupyterLab and what nbconvert
writes, VS Code, Colab), and not as the system: browsers give a page in a frame the frame's own color-scheme."""


@dataclass(frozen=True)
class Frame:
    """A page in a frame: its styles and scripts do not reach the notebook, nor those of the notebook the page."""

    page: str = field(repr=False)
    """The page."""
    height: int = HEIGHT
    """Of the frame, in pixels."""
    words: str = "an explanation"
    """What the page shows, in a line: all that there is of it in a notebook that is not trusted."""

    def _repr_html_(self) -> str:
        # No allow-same-origin: what stands in a text or a file cannot reach the notebook, whatever it holds. Browsers
        # never show the words in the frame; a notebook that is not trusted takes the frame away, and leaves the words.
        return (
            f'<style>{STYLE}</style><iframe class="edgewise-page" srcdoc="{html.escape(self.page)}" '
            f'sandbox="allow-scripts allow-downloads" style="height: {self.height}px" title="explanation">'
            f"{html.escape(self.words)}; trust this notebook, or run the cell, to see its page.</iframe>"
        )


def show(*explanations: Explanation, height: int = HEIGHT) -> Frame:
    """Explanations on one page, for the end of a cell.

    Args:
        explanations: one, or several to compare.
        height: of the frame in pixels.
    """
    return Frame(page_of(explanations), height, words_of(explanations))


def page_of(explanations: Sequence[Explanation]) -> str:
    """The page of explanations."""
    from edgewise.view.explanation import explanation_page

    return explanation_page(list(explanations))


def register() -> bool:
    """Registers with a running notebook how explanations look; whether there is one. Doing it again changes nothing.

    IPython is not loaded for it: where nobody has, there is no notebook.
    """
    loaded: Any = sys.modules.get("IPython")
    shell = None if loaded is None else loaded.get_ipython()
    if shell is None:
        return False
    shell.display_formatter.formatters["text/html"].for_type(Explanation, as_html)
    shell.display_formatter.formatters["text/plain"].for_type(Explanation, as_words)
    return True


def as_html(explanation: Explanation) -> str:
    """An explanation as the frame around its page."""
    return show(explanation)._repr_html_()


def as_words(explanation: Explanation, printer: Any, is_cycle: bool) -> None:
    """An explanation in a line, where a notebook shows no pages, into IPython's printer."""
    printer.text(f"<{words_of([explanation])}>")


def words_of(explanations: Sequence[Explanation]) -> str:
    """Explanations in a line: their titles, and the predictions of a single one."""
    if len(explanations) != 1:
        return plural(len(explanations), "explanation")
    (only,) = explanations
    predictions = ", ".join(
        f"{each.name} = {each.label or format(each.value, '.5g')}" for each in only.predictions[:MAX_PREDICTIONS]
    )
    if len(only.predictions) > MAX_PREDICTIONS:
        predictions += f", and {len(only.predictions) - MAX_PREDICTIONS} more"
    number = len(only.units)
    return f"Explanation of {only.title}: {predictions}; {number} unit{'s' * (number != 1)}"
