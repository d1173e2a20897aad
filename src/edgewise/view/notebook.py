"""Explanations in notebooks: the page that `edgewise explain` writes, in a frame of its own below the cell.

An `Explanation` knows no page. The notebook is told once how explanations look, by `register()`, which every face of
`edgewise.estimators` calls when it is first asked for; an explanation at the end of a cell is then its page. Anywhere
else, and before, `show(explanation)` gives the same.
"""

import html
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from edgewise.explanation import Explanation

HEIGHT = 680
"""Pixels of the frame."""


@dataclass(frozen=True)
class Frame:
    """A page in a frame: its styles and scripts do not reach the notebook, nor those of the notebook the page."""

    page: str
    """The page."""
    height: int = HEIGHT
    """Of the frame, in pixels."""

    def _repr_html_(self) -> str:
        # No allow-same-origin: what stands in a text or a file cannot reach the notebook, whatever it holds.
        return (
            f'<iframe srcdoc="{html.escape(self.page)}" sandbox="allow-scripts allow-downloads" '
            f'style="width: 100%; height: {self.height}px; border: 0" title="explanation"></iframe>'
        )


def show(*explanations: Explanation, height: int = HEIGHT) -> Frame:
    """Explanations on one page, for the end of a cell.

    Args:
        explanations: one, or several to compare.
        height: of the frame in pixels.
    """
    return Frame(page_of(explanations), height)


def page_of(explanations: Sequence[Explanation]) -> str:
    """The page of explanations."""
    from edgewise.view.explanation import explanation_page

    return explanation_page(list(explanations))


def register() -> bool:
    """Tells a running notebook how explanations look; whether there is one. Doing it again changes nothing.

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
    told = ", ".join(f"{told.name} = {told.label or format(told.value, '.5g')}" for told in explanation.told)
    printer.text(f"<Explanation of {explanation.title}: {told}; {len(explanation.units)} units>")
