"""Shared by all figures: colors for color-blind readers, units in words, and figures as SVG and PNG."""

import io
import re
import warnings
from typing import Any

from edgewise.errors import MissingExtraError

try:
    from matplotlib import rc_context
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D as Line2D
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
    from matplotlib.ticker import MaxNLocator as MaxNLocator
    from matplotlib.ticker import PercentFormatter as PercentFormatter
except ModuleNotFoundError as error:
    raise MissingExtraError("matplotlib", "view") from error

COLORS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#56b4e9", "#cc79a7", "#7f7f7f", "#000000", "#b8a000")
"""After Okabe & Ito 2008, distinguishable for color-blind readers; repeated if more are needed."""
INK, PALE = "#3b4252", "#d8dee9"
STYLE: Any = {
    "font.family": "sans-serif",
    "font.size": 10,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlecolor": INK,
    "axes.titlesize": 10,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "svg.fonttype": "path",
    "svg.hashsalt": "edgewise",
    "path.simplify_threshold": 0.3,
}
"""Fixed, so that a file changes only when the picture does."""
DOTS_PER_INCH = 200
_MATPLOTLIB_STYLE = '<style type="text/css">*{stroke-linejoin: round; stroke-linecap: butt}</style>'
"""The style that matplotlib repeats for every line; here the root element has it once, as attributes."""
SIGNS = {"2": "²", "3": "³"}


def color_of(index: int) -> str:
    """The color of the item at this index."""
    return COLORS[index % len(COLORS)]


def with_unit(name: str, unit: str) -> str:
    """A name and its unit in brackets, `au_per_day2` becoming au/day²; the name alone without a unit."""
    shown = unit.replace("_per_", "/").replace("_", " ")
    shown = "".join(
        SIGNS.get(character, character) if previous.isalpha() else character
        for previous, character in zip(" " + shown, shown)
    )
    return name if unit in ("", "1") else f"{name} ({shown})"


def plain(words: str) -> str:
    """Escapes text for matplotlib, in which a dollar sign begins a formula."""
    return words.replace("$", r"\$")


def tidy(axes: Axes) -> None:
    """Draws a pale grid in the background."""
    axes.grid(visible=True, color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)


def in_powers(axes: Axes, low: float, high: float) -> None:
    """A logarithmic x axis with plain numbers: 1, 2 and 5 times powers of ten, or the powers alone.

    Args:
        axes: the axes to change.
        low, high: the range of the data, above 0.
    """
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 1000 * low else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def svg(figure: Figure) -> str:
    """A figure as SVG, without a date; a character that the font lacks becomes an empty box.

    Colors and widths are attributes: a page whose policy forbids inline styles shows them, too.
    """
    buffer = io.StringIO()
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    drawn = buffer.getvalue().replace(_MATPLOTLIB_STYLE, "")
    drawn = drawn.replace("<svg ", '<svg stroke-linejoin="round" stroke-linecap="butt" ', 1)
    return re.sub(r' style="([^"]*)"', lambda match: attributes(match[1]), drawn)


def attributes(style: str) -> str:
    """An inline style of matplotlib as presentation attributes."""
    pairs = (part.split(":", 1) for part in style.split(";") if part.strip())
    return "".join(f' {name.strip()}="{value.strip()}"' for name, value in pairs)


def png(figure: Figure) -> bytes:
    """A figure as PNG."""
    buffer = io.BytesIO()
    with rc_context(STYLE):
        figure.savefig(buffer, format="png", bbox_inches="tight", dpi=DOTS_PER_INCH)
    return buffer.getvalue()
