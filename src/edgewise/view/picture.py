"""One picture of an explanation, as a file: words shaded, atoms colored, the neighborhood of a node."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from edgewise.errors import SettingError
from edgewise.explain.explanation import Attribution, Explanation, Layer, TargetPrediction
from edgewise.formatting import formatted, percent
from edgewise.view.explanation import prediction_words
from edgewise.view.figure import INK, PALE, STYLE, Axes, Figure, png, rc_context, svg

try:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
    from matplotlib.font_manager import FontProperties, findfont, get_font
    from matplotlib.patches import Circle, FancyBboxPatch, PathPatch
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath
except ModuleNotFoundError as error:
    from edgewise.errors import MissingExtraError

    raise MissingExtraError("matplotlib", "view") from error

LOWERS, RAISES, SHARE, LINE = "#0072b2", "#d55e00", "#009e73", "#9a5fa8"
DENSEST = 0.72
"""How much of the color there is at the largest value: text on it can still be read."""
WIDTH, LINE_HEIGHT, SIZE = 7.2, 0.34, 11
"""Of the page in inches, of a line of words, and of its letters in points."""
MAX_WORDS = 1500
MAX_PREDICTIONS = 4
"""Predictions that have room in a line above the picture."""
MAX_LABEL = 48
"""Characters of a prediction that fit in the line above; a translation stands below it in full."""
MAX_NAMED = 40
"""Nodes that are named, as far as there is room."""
LETTER_WIDTH, LETTER_HEIGHT = 0.023, 0.05
"""Of a name, in the units of a drawn graph, one of which is 2.9 inches."""
NODE_RADIUS = 0.025
"""In the same units."""
MAX_NODES = 150
"""Of a large graph, the nodes nearest to its center, or with the largest values, are drawn."""


def explanation_svg(explanation: Explanation, *, attribution: str | None = None) -> str:
    """A picture of an explanation as SVG, for a paper or a slide.

    Characters that matplotlib's font does not have become □; the page of `explanation_page` shows them all.

    Args:
        explanation: what is drawn.
        attribution: the name of the one whose values are the colors; without one, the first.

    Raises:
        SettingError: there is no attribution of that name.
        DataError: a molecule's SMILES does not have the atoms that the explanation speaks of.
    """
    return svg(draw_explanation(explanation, attribution=attribution))


def explanation_png(explanation: Explanation, *, attribution: str | None = None) -> bytes:
    """The same picture as PNG; arguments and errors as in `explanation_svg`."""
    return png(draw_explanation(explanation, attribution=attribution))


def draw_explanation(explanation: Explanation, *, attribution: str | None = None) -> Figure:
    """The picture as a figure of matplotlib; arguments and errors as in `explanation_svg`."""
    chosen = _chosen(explanation, attribution)
    values = np.zeros(len(explanation.units)) if chosen is None else np.nan_to_num(chosen.values.astype(np.float64))
    most = float(np.abs(values).max(initial=0.0)) or 1.0
    signed = chosen is not None and chosen.is_signed
    colors, norm = color_map(signed), Normalize(-most if signed else 0.0, most)
    shades = colors(norm(values))
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 1))
        axes = figure.add_axes((0, 0, 1, 1))
        drawn = {"text": _draw_words, "molecule": _draw_atoms, "graph": _draw_nodes}[explanation.kind]
        height = drawn(axes, explanation, shades)
        figure.set_size_inches(WIDTH, height + 1.35)
        axes.set_position((0, 0.75 / (height + 1.35), 1, height / (height + 1.35)))
        axes.set_axis_off()
        top = 1 - 0.25 / (height + 1.35)
        line = ", ".join(_with_interval(one) for one in _first_predictions(explanation))
        figure.text(0.015, top, writable(line), fontsize=12, color=INK, va="center", parse_math=False)
        if chosen is not None:
            bar = figure.add_axes((0.03, 0.42 / (height + 1.35), 0.35, 0.12 / (height + 1.35)))
            scale = figure.colorbar(ScalarMappable(norm, colors), cax=bar, orientation="horizontal")
            scale.outline.set_edgecolor(PALE)  # type: ignore[operator]
            line = writable(f"{chosen.name}, of {explanation.explained}")
            figure.text(0.41, 0.48 / (height + 1.35), line, va="center", color=INK, parse_math=False)
    return figure


def color_map(is_signed: bool) -> Colormap:
    """From blue (lowers) over white to orange (raises), or from white to green (a share)."""
    ends = [LOWERS, "#ffffff", RAISES] if is_signed else ["#ffffff", SHARE]
    full = LinearSegmentedColormap.from_list("full", ends)
    side = np.linspace(-1, 1, 257) if is_signed else np.linspace(0, 1, 257)
    return LinearSegmentedColormap.from_list("seen", full(DENSEST * side / 2 + 0.5 if is_signed else DENSEST * side))


def _chosen(explanation: Explanation, name: str | None) -> Attribution | None:
    if name is None:
        return explanation.attributions[0] if explanation.attributions else None
    known = {each.name: each for each in explanation.attributions}
    if name not in known:
        raise SettingError(f"attribution is {name!r}, expected one of: {', '.join(known) or 'none, there are none'}.")
    return known[name]


def _first_predictions(explanation: Explanation) -> list[TargetPrediction]:
    """The predictions above the picture: all, or of many the explained one."""
    predictions = list(explanation.predictions)
    if len(predictions) <= MAX_PREDICTIONS:
        return predictions
    explained = [each for each in predictions if f"{explanation.explained} = ".startswith(f"{each.name} = ")]
    return explained or predictions[:MAX_PREDICTIONS]


def _with_interval(one: TargetPrediction) -> str:
    if len(one.label) > MAX_LABEL:
        one = replace(one, label=one.label[: MAX_LABEL - 2] + " …")
    if math.isfinite(one.low) and math.isfinite(one.high):
        return f"{prediction_words(one)} ({formatted(one.low)} … {formatted(one.high)})"
    share = one.probabilities.get(one.label)
    return prediction_words(one) if share is None else f"{prediction_words(one)} ({percent(share)})"


def _pieces(explanation: Explanation) -> list[tuple[str, int | None]]:
    """The texts from front to back: what is written, and which unit it is, None for what lies between units."""
    pieces: list[tuple[str, int | None]] = []
    for source, text in explanation.sources.items():
        if pieces:
            pieces.append(("\n", None))
        own = [number for number, unit in enumerate(explanation.units) if unit.source == source]
        at = 0
        for number in sorted(own, key=lambda number: explanation.units[number].start):
            unit = explanation.units[number]
            if unit.start >= at:
                pieces += [(text[at : unit.start], None), (_seen(text[unit.start : unit.stop]), number)]
                at = unit.stop
        pieces.append((text[at:], None))
    pieces = [(writable(piece), number) for piece, number in pieces if piece]
    return pieces if len(pieces) <= MAX_WORDS else [*pieces[:MAX_WORDS], (" …", None)]


def _seen(text: str) -> str:
    """The text of a unit; with a sign where it is nothing but the end of a line."""
    return text if text.strip() else text.replace("\n", "⏎\n")


def writable(text: str) -> str:
    """A text in the characters that the font has, □ for the others."""
    return "".join(each if each == "\n" or _has(each) else "□" for each in text.replace("\t", " "))


@cache
def _has(character: str) -> bool:
    return bool(get_font(findfont(FontProperties())).get_char_index(ord(character)))


def _draw_words(axes: Axes, explanation: Explanation, shades: np.ndarray) -> float:
    """Words from left to right in lines; returns the height in inches."""
    x, line, room = 0.0, 0, WIDTH - 0.2
    for text, number in _pieces(explanation):
        for part in _lines_of(text):
            if part == "\n":
                x, line = 0.0, line + 1
                continue
            width = _width(part)
            if x + width > room and x > 0:
                x, line = 0.0, line + 1
                part = part.lstrip()
                width = _width(part)
            if number is not None and (part.strip() or not text.strip()):
                low = (0.1 + x, -(line + 0.86) * LINE_HEIGHT)
                look = {"boxstyle": "round,pad=0,rounding_size=0.04", "facecolor": shades[number], "linewidth": 0}
                axes.add_patch(FancyBboxPatch(low, width, 0.72 * LINE_HEIGHT, **look))
            place = 0.1 + x, -(line + 0.62) * LINE_HEIGHT
            axes.text(*place, part, fontsize=SIZE, color=INK, va="baseline", parse_math=False)
            x += width
    height = (line + 1) * LINE_HEIGHT
    axes.set(xlim=(0, WIDTH), ylim=(-height, 0))
    return height


def _lines_of(text: str) -> list[str]:
    """A text cut before and after the ends of lines and behind spaces, where lines may be broken."""
    parts: list[str] = []
    for number, line in enumerate(text.splitlines() or [""]):
        parts += ["\n"] if number else []
        parts += [word + " " for word in line.split(" ")[:-1]] + line.split(" ")[-1:]
    return [part for part in parts if part] + (["\n"] if text.endswith("\n") else [])


def _width(text: str) -> float:
    """How wide a text is, in inches; a point stands behind it, as spaces at the end have no width of their own."""
    both, point = (TextPath((0, 0), written, size=SIZE, usetex=False).get_extents().x1 for written in (text + ".", "."))
    return (both - point) / 72


def _draw_atoms(axes: Axes, explanation: Explanation, shades: np.ndarray) -> float:
    """Molecules beside each other, their atoms on colored disks; returns the height in inches."""
    from edgewise.view.molecule import draw_molecules

    x, highest = 0.0, 1.0
    drawn = draw_molecules(explanation)
    for molecule in drawn:
        for unit, (left, top) in zip(molecule.units, molecule.places):
            disk = Circle((x + left, top), 0.36 * molecule.bond_length, facecolor=shades[unit], linewidth=0)
            axes.add_patch(disk)
        for stroke in molecule.strokes:
            path = _as_path(stroke.d, x)
            look = {"facecolor": INK if stroke.fill else "none", "edgecolor": INK if stroke.stroke else "none"}
            axes.add_patch(PathPatch(path, **look, linewidth=0.6 * stroke.thick if stroke.stroke else 0))
        if len(drawn) > 1:
            axes.text(x + 6, -6, writable(molecule.source), fontsize=9, color=INK, parse_math=False)
        x += molecule.width
        highest = max(highest, molecule.height)
    width = max(x, 300.0)
    axes.set(xlim=(0, width), ylim=(highest, -24 if len(drawn) > 1 else 0), aspect="equal")
    return WIDTH * (highest + (24 if len(drawn) > 1 else 0)) / width


CODES = {"M": (Path.MOVETO,), "L": (Path.LINETO,), "Q": (Path.CURVE3,) * 2, "C": (Path.CURVE4,) * 3}


def _as_path(d: str, right: float) -> Path:
    """A path of SVG as one of matplotlib, moved to the right."""
    from edgewise.view.molecule import steps_of

    points: list[np.ndarray] = []
    codes: list[np.uint8] = []
    for command, pairs in steps_of(d):
        if command == "Z":
            points.append(np.zeros((1, 2)))
            codes.append(Path.CLOSEPOLY)
        else:
            points.append(pairs + np.array([right, 0]))
            codes += [code for _ in range(len(pairs) // len(CODES[command])) for code in CODES[command]]
    return Path(np.concatenate(points), codes)


def _draw_nodes(axes: Axes, explanation: Explanation, shades: np.ndarray) -> float:
    """Nodes around the one that is explained, lines as thick as it is attended to; returns the height in inches."""
    from edgewise.view.layout import lay_out

    ends = [(link.first, link.second) for link in explanation.links]
    centers = [unit for unit in (explanation.center, explanation.other_end) if unit is not None]
    together = [(centers[0], centers[1])] if len(centers) > 1 else []
    layout = lay_out(len(explanation.units), [*ends, *together], explanation.center)
    shown = _shown_nodes(explanation, layout.hops, shades)
    places = layout.places * [1, -1] / max(np.abs(layout.places[sorted(shown)]).max(initial=0.0), 1e-9)
    for first, second in ends:
        if first in shown and second in shown:
            axes.plot(*places[[first, second]].T, color=PALE, linewidth=0.7, zorder=1)
    layer = next((each for each in reversed(explanation.layers) if not each.is_readout), None)
    for first, second, share in _strongest(layer):
        if first in shown and second in shown:
            axes.plot(*places[[first, second]].T, color=LINE, alpha=0.15 + 0.7 * share, linewidth=3 * share, zorder=2)
    for number in sorted(shown):
        is_center = number in centers
        axes.plot(
            *places[number], marker="o", markersize=13 if is_center else 8, markerfacecolor=shades[number],
            markeredgecolor=INK, markeredgewidth=1.4 if is_center else 0.5, zorder=3,
        )  # fmt: skip
    paleness = shades[:, :3].sum(1)
    named = centers + sorted((each for each in shown if each not in centers), key=lambda each: paleness[each])
    names = {number: writable(explanation.units[number].name[:22]) for number in named[:MAX_NAMED]}
    for number, (x, y) in label_places(places, names, [places[each] for each in shown]).items():
        axes.text(x, y, names[number], fontsize=8, color=INK, ha="center", va="center", zorder=4, parse_math=False)
    axes.set(xlim=(-1.25, 1.25), ylim=(-1.12, 1.16), aspect="equal")
    return 0.8 * WIDTH


def label_places(
    places: np.ndarray, names: Mapping[int, str], nodes: Sequence[np.ndarray] = ()
) -> dict[int, tuple[float, float]]:
    """Where the middle of each name stands: above its node, else below or beside it, over no other name and no node.

    Args:
        places: `(node, 2)`, of all nodes, in the units of the axes.
        names: of the nodes that may have one, the most important first; where there is no room, a later one has none.
        nodes: the places of those that are drawn.
    """
    boxes = [(x - NODE_RADIUS, y - NODE_RADIUS, x + NODE_RADIUS, y + NODE_RADIUS) for x, y in nodes]
    found: dict[int, tuple[float, float]] = {}
    for number, name in names.items():
        half, (x, y) = LETTER_WIDTH * len(name) / 2, places[number]
        for right, up in ((0, 0.075), (0, -0.075), (half + 0.05, 0), (-half - 0.05, 0)):
            left, low = x + right - half, y + up - LETTER_HEIGHT / 2
            box = left, low, left + 2 * half, low + LETTER_HEIGHT
            if not any(_overlap(box, other) for other in boxes):
                boxes.append(box)
                found[number] = x + right, y + up
                break
    return found


def _overlap(one: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    """Whether two boxes (left, bottom, right, top) have points in common."""
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]


def _shown_nodes(explanation: Explanation, hops: np.ndarray, shades: np.ndarray) -> set[int]:
    far = np.where(hops < 0, len(hops), hops)
    paleness = shades[:, :3].sum(1)
    return set(np.lexsort((paleness, far))[:MAX_NODES].tolist())


def _strongest(layer: Layer | None) -> list[tuple[int, int, float]]:
    """The edges of a layer with their mean weight over heads, as a share of the largest; none below a tenth."""
    if layer is None or not layer.senders.size:
        return []
    mean = np.nan_to_num(layer.values.astype(np.float64)).mean(0)
    share = np.where(layer.senders == layer.receivers, 0.0, mean)
    share = share / max(float(share.max()), 1e-12)
    return [(int(layer.senders[e]), int(layer.receivers[e]), float(share[e])) for e in np.flatnonzero(share >= 0.1)]
