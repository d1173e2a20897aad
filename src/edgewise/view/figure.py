"""What all figures share: colors that everyone can distinguish, units in words, SVG and PNG out of a figure."""

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
"""After Okabe & Ito 2008, who chose them for eyes that mix up red and green; repeated where more are needed."""
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
DOTS_AN_INCH = 200
_MATPLOTLIB_STYLE = '<style type="text/css">*{stroke-linejoin: round; stroke-linecap: butt}</style>'
"""What matplotlib repeats at every line of a picture; here the root element has it once, in attributes."""
SIGNS = {"2": "²", "3": "³"}


def color_of(place: int) -> str:
    """The color of the thing at this place."""
    return COLORS[place % len(COLORS)]


def with_unit(name: str, unit: str) -> str:
    """A name and its unit in brackets, `au_per_day2` becoming au/day²; the name alone where there is no unit."""
    shown = unit.replace("_per_", "/").replace("_", " ")
    shown = "".join(SIGNS.get(sign, sign) if before.isalpha() else sign for before, sign in zip(" " + shown, shown))
    return name if unit in ("", "1") else f"{name} ({shown})"


def plain(words: str) -> str:
    """Words as matplotlib writes them as they are: a dollar sign begins no formula."""
    return words.replace("$", r"\$")


def tidy(axes: Axes) -> None:
    """A pale grid behind what is drawn."""
    axes.grid(visible=True, color=PALE, linewidth=0.6)
    axes.set_axisbelow(True)


def in_powers(axes: Axes, least: float, most: float) -> None:
    """A logarithmic x axis with plain numbers on it: 1, 2 and 5 of each power of ten, or the powers where many are.

    Args:
        axes: what it belongs to.
        least, most: of the numbers that are drawn, above 0.
    """
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if most < 1000 * least else (1,)))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def svg(figure: Figure) -> str:
    """A figure as SVG, without a date; a sign that its font lacks is an empty box.

    Colors and widths are attributes: a page whose policy allows no inline style shows them, too.
    """
    buffer = io.StringIO()
    with rc_context(STYLE), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    drawn = buffer.getvalue().replace(_MATPLOTLIB_STYLE, "")
    drawn = drawn.replace("<svg ", '<svg stroke-linejoin="round" stroke-linecap="butt" ', 1)
    return re.sub(r' style="([^"]*)"', lambda found: attributes(found[1]), drawn)


def attributes(style: str) -> str:
    """An inline style of matplotlib's as presentation attributes."""
    pairs = (part.split(":", 1) for part in style.split(";") if part.strip())
    return "".join(f' {name.strip()}="{value.strip()}"' for name, value in pairs)


def png(figure: Figure) -> bytes:
    """A figure as PNG."""
    buffer = io.BytesIO()
    with rc_context(STYLE):
        figure.savefig(buffer, format="png", bbox_inches="tight", dpi=DOTS_AN_INCH)
    return buffer.getvalue()
