"""An explanation as a picture file: shaded words, colored atoms, or the neighborhood of a node."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from edgewise.errors import SettingError
from edgewise.explain.explanation import Attribution, Explanation, Layer, TargetPrediction
from edgewise.explain.numbers import formatted, percent
from edgewise.view.explanation import prediction_words
from edgewise.view.figure import INK, PALE, STYLE, Axes, Figure, png, rc_context, svg

try:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import Colormap, LinearSegmentedColormap, Normalize
    from matplotlib.font_manager import FontProperties, findfont, get_font
    from matplotlib.patches import Circle, FancyBboxPatch, PathPatch, Polygon
    from matplotlib.path import Path
    from matplotlib.textpath import TextPath
except ModuleNotFoundError as error:
    from edgewise.errors import MissingExtraError

    raise MissingExtraError("matplotlib", "view") from error

LOWERS, RAISES, SHARE, LINE = "#0072b2", "#d55e00", "#009e73", "#9a5fa8"
MAX_SHADE = 0.72
"""The opacity of the largest value, on which text can still be read."""
WIDTH, LINE_HEIGHT, SIZE = 7.2, 0.34, 11
"""Width of the picture and height of a line in inches, size of letters in points."""
MAX_WORDS = 1500
MAX_PREDICTIONS = 4
"""The most predictions in the line above the picture."""
MAX_LABEL = 48
"""The most characters of a prediction in the line above; a translation is shown in full below."""
MAX_NAMED = 40
"""The most nodes that are named, if there is room."""
LETTER_WIDTH, LETTER_HEIGHT = 0.023, 0.05
"""Size of a letter of a name, in the units of a drawn graph; a unit is 2.9 inches."""
NODE_RADIUS = 0.025
"""Radius of a node, in the same units."""
MAX_NODES = 150
"""The most nodes that are drawn: those nearest to the center, or with the largest values."""


def explanation_svg(explanation: Explanation, *, attribution: str | None = None) -> str:
    """A picture of an explanation as SVG, for a paper or a slide.

    Characters that matplotlib's font does not have become □; `explanation_page` shows them all.

    Args:
        explanation: the explanation to draw.
        attribution: the name of the attribution to color by; by default the first.

    Raises:
        SettingError: no attribution has that name.
        DataError: a molecule's SMILES does not match the atoms of the explanation.
    """
    return svg(draw_explanation(explanation, attribution=attribution))


def explanation_png(explanation: Explanation, *, attribution: str | None = None) -> bytes:
    """The same picture as PNG; arguments and errors as in `explanation_svg`."""
    return png(draw_explanation(explanation, attribution=attribution))


def draw_explanation(explanation: Explanation, *, attribution: str | None = None) -> Figure:
    """The picture as a figure of matplotlib; arguments and errors as in `explanation_svg`."""
    chosen = _chosen(explanation, attribution)
    values = np.zeros(len(explanation.units)) if chosen is None else np.nan_to_num(chosen.values.astype(np.float64))
    largest = float(np.abs(values).max(initial=0.0)) or 1.0
    signed = chosen is not None and chosen.is_signed

    colors, norm = color_map(signed), Normalize(-largest if signed else 0.0, largest)
    shades = colors(norm(values))
    with rc_context(STYLE):
        figure = Figure(figsize=(WIDTH, 1))
        axes = figure.add_axes((0, 0, 1, 1))
        draw = {"text": _draw_words, "molecule": _draw_atoms, "graph": _draw_nodes}[explanation.kind]
        height = draw(axes, explanation, shades)
        figure.set_size_inches(WIDTH, height + 1.35)
        axes.set_position((0, 0.75 / (height + 1.35), 1, height / (height + 1.35)))
        axes.set_axis_off()
        top = 1 - 0.25 / (height + 1.35)
        label = ", ".join(_with_interval(prediction) for prediction in _first_predictions(explanation))
        figure.text(0.015, top, writable(label), fontsize=12, color=INK, va="center", parse_math=False)

        if chosen is not None:
            bar_axes = figure.add_axes((0.03, 0.42 / (height + 1.35), 0.35, 0.12 / (height + 1.35)))
            scale = figure.colorbar(ScalarMappable(norm, colors), cax=bar_axes, orientation="horizontal")
            scale.outline.set_edgecolor(PALE)  # type: ignore[operator]
            words = "" if math.isnan(chosen.baseline) else _sum_words(explanation, chosen)
            label = writable(f"{chosen.name}, of {explanation.explained}{words}")
            figure.text(0.41, 0.48 / (height + 1.35), label, va="center", color=INK, parse_math=False)

    return figure


def _sum_words(explanation: Explanation, attribution: Attribution) -> str:
    """The sum of the values, and what the prediction has without them."""
    total, baseline = formatted(float(np.nansum(attribution.values))), explanation.in_words(attribution.baseline)
    return f"\nsum {total}, baseline {baseline}"


def color_map(is_signed: bool) -> Colormap:
    """From blue (lowers) over white to orange (raises), or from white to green (a share)."""
    ends = [LOWERS, "#ffffff", RAISES] if is_signed else ["#ffffff", SHARE]
    full = LinearSegmentedColormap.from_list("full", ends)
    side = np.linspace(-1, 1, 257) if is_signed else np.linspace(0, 1, 257)
    return LinearSegmentedColormap.from_list(
        "seen", full(MAX_SHADE * side / 2 + 0.5 if is_signed else MAX_SHADE * side)
    )


def _chosen(explanation: Explanation, name: str | None) -> Attribution | None:
    if name is None:
        return explanation.attributions[0] if explanation.attributions else None
    by_name = {attribution.name: attribution for attribution in explanation.attributions}
    if name not in by_name:
        raise SettingError(
            f"attribution is {name!r}, expected one of: {', '.join(by_name) or 'none, it has no attributions'}."
        )
    return by_name[name]


def _first_predictions(explanation: Explanation) -> list[TargetPrediction]:
    """The predictions above the picture: all, or the explained one if there are many."""
    predictions = list(explanation.predictions)
    if len(predictions) <= MAX_PREDICTIONS:
        return predictions
    explained = [
        prediction for prediction in predictions if f"{explanation.explained} = ".startswith(f"{prediction.name} = ")
    ]
    return explained or predictions[:MAX_PREDICTIONS]


def _with_interval(prediction: TargetPrediction) -> str:
    if len(prediction.label) > MAX_LABEL:
        prediction = replace(prediction, label=prediction.label[: MAX_LABEL - 2] + " …")
    if math.isfinite(prediction.low) and math.isfinite(prediction.high):
        low, high = prediction.in_words(prediction.low), prediction.in_words(prediction.high)
        return f"{prediction_words(prediction)} ({low} … {high})"
    share = prediction.probabilities.get(prediction.label)
    return prediction_words(prediction) if share is None else f"{prediction_words(prediction)} ({percent(share)})"


def _segments(explanation: Explanation) -> list[tuple[str, int | None]]:
    """The texts in order, as segments: the text, and its unit, or None for text between units."""
    segments: list[tuple[str, int | None]] = []
    for source, text in explanation.sources.items():
        if segments:
            segments.append(("\n", None))
        unit_numbers = [number for number, unit in enumerate(explanation.units) if unit.source == source]
        position = 0
        for number in sorted(unit_numbers, key=lambda number: explanation.units[number].start):
            unit = explanation.units[number]
            if unit.start >= position:
                segments += [(text[position : unit.start], None), (_visible(text[unit.start : unit.stop]), number)]
                position = unit.stop
        segments.append((text[position:], None))

    segments = [(writable(segment), number) for segment, number in segments if segment]
    return segments if len(segments) <= MAX_WORDS else [*segments[:MAX_WORDS], (" …", None)]


def _visible(text: str) -> str:
    """The text of a unit; the end of a line gets a visible sign."""
    return text if text.strip() else text.replace("\n", "⏎\n")


def writable(text: str) -> str:
    """The text with □ for characters that the font does not have."""
    return "".join(
        character if character == "\n" or _has_glyph(character) else "□" for character in text.replace("\t", " ")
    )


@cache
def _has_glyph(character: str) -> bool:
    return bool(get_font(findfont(FontProperties())).get_char_index(ord(character)))


def _draw_words(axes: Axes, explanation: Explanation, shades: np.ndarray) -> float:
    """Draws words in lines; returns the height in inches."""
    x, line, max_width = 0.0, 0, WIDTH - 0.2
    for text, number in _segments(explanation):
        for part in _lines_of(text):
            if part == "\n":
                x, line = 0.0, line + 1
                continue

            width = _width(part)
            if x + width > max_width and x > 0:
                x, line = 0.0, line + 1
                part = part.lstrip()
                width = _width(part)

            if number is not None and (part.strip() or not text.strip()):
                low = (0.1 + x, -(line + 0.86) * LINE_HEIGHT)
                box_style = {"boxstyle": "round,pad=0,rounding_size=0.04", "facecolor": shades[number], "linewidth": 0}
                axes.add_patch(FancyBboxPatch(low, width, 0.72 * LINE_HEIGHT, **box_style))

            position = 0.1 + x, -(line + 0.62) * LINE_HEIGHT
            axes.text(*position, part, fontsize=SIZE, color=INK, va="baseline", parse_math=False)
            x += width

    height = (line + 1) * LINE_HEIGHT
    axes.set(xlim=(0, WIDTH), ylim=(-height, 0))
    return height


def _lines_of(text: str) -> list[str]:
    """The text split at ends of lines and after spaces, where lines may be broken."""
    parts: list[str] = []
    for number, line in enumerate(text.splitlines() or [""]):
        parts += ["\n"] if number else []
        parts += [word + " " for word in line.split(" ")[:-1]] + line.split(" ")[-1:]
    return [part for part in parts if part] + (["\n"] if text.endswith("\n") else [])


def _width(text: str) -> float:
    """The width of a text in inches, measured with a period after it, as trailing spaces have no width."""
    with_period, period = (
        TextPath((0, 0), content, size=SIZE, usetex=False).get_extents().x1 for content in (text + ".", ".")
    )
    return (with_period - period) / 72


def _draw_atoms(axes: Axes, explanation: Explanation, shades: np.ndarray) -> float:
    """Draws molecules side by side, their atoms on colored disks; returns the height in inches."""
    from edgewise.view.molecule import draw_molecules

    x, highest = 0.0, 1.0
    drawn = draw_molecules(explanation)
    for molecule in drawn:
        place_of_unit = dict(zip(molecule.units, molecule.places + np.array([x, 0]), strict=True))
        for bond in molecule.bonds:
            middle = (place_of_unit[bond[0]] + place_of_unit[bond[1]]) / 2
            for unit in bond:
                corners = _band(place_of_unit[unit], middle, 0.16 * molecule.bond_length)
                axes.add_patch(Polygon(corners, facecolor=shades[unit], linewidth=0))
        for unit, (left, top) in zip(molecule.units, molecule.places):
            disk = Circle((x + left, top), 0.36 * molecule.bond_length, facecolor=shades[unit], linewidth=0)
            axes.add_patch(disk)
        for stroke in molecule.strokes:
            path = _as_path(stroke.d, x)
            colors = {"facecolor": INK if stroke.fill else "none", "edgecolor": INK if stroke.stroke else "none"}
            axes.add_patch(PathPatch(path, **colors, linewidth=0.6 * stroke.thick if stroke.stroke else 0))

        if len(drawn) > 1:
            axes.text(x + 6, -6, writable(molecule.source), fontsize=9, color=INK, parse_math=False)
        x += molecule.width
        highest = max(highest, molecule.height)

    width = max(x, 300.0)
    axes.set(xlim=(0, width), ylim=(highest, -24 if len(drawn) > 1 else 0), aspect="equal")
    return WIDTH * (highest + (24 if len(drawn) > 1 else 0)) / width


def _band(start: np.ndarray, stop: np.ndarray, half_width: float) -> np.ndarray:
    """The corners of a line as wide as twice `half_width`."""
    along = stop - start
    across = np.array([-along[1], along[0]]) * half_width / max(float(np.hypot(*along)), 1e-9)
    return np.stack([start + across, stop + across, stop - across, start - across])


CODES = {"M": (Path.MOVETO,), "L": (Path.LINETO,), "Q": (Path.CURVE3,) * 2, "C": (Path.CURVE4,) * 3}


def _as_path(d: str, right: float) -> Path:
    """An SVG path as a matplotlib path, moved to the right."""
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
    """Draws the nodes around the explained one, with lines as thick as its attention; returns the height in inches."""
    from edgewise.view.layout import lay_out

    ends = [(link.first, link.second) for link in explanation.links]
    centers = [unit for unit in (explanation.center, explanation.other_end) if unit is not None]
    center_pair = [(centers[0], centers[1])] if len(centers) > 1 else []
    layout = lay_out(len(explanation.units), [*ends, *center_pair], explanation.center)

    shown = _shown_nodes(layout.hops, shades)
    positions = layout.places * [1, -1] / max(np.abs(layout.places[sorted(shown)]).max(initial=0.0), 1e-9)
    for first, second in ends:
        if first in shown and second in shown:
            axes.plot(*positions[[first, second]].T, color=PALE, linewidth=0.7, zorder=1)

    layer = next((layer for layer in reversed(explanation.layers) if not layer.is_readout), None)
    for first, second, share in _strongest(layer):
        if first in shown and second in shown:
            axes.plot(
                *positions[[first, second]].T, color=LINE, alpha=0.15 + 0.7 * share, linewidth=3 * share, zorder=2
            )

    for number in sorted(shown):
        is_center = number in centers
        axes.plot(
            *positions[number], marker="o", markersize=13 if is_center else 8, markerfacecolor=shades[number],
            markeredgecolor=INK, markeredgewidth=1.4 if is_center else 0.5, zorder=3,
        )  # fmt: skip

    paleness = shades[:, :3].sum(1)
    labeled = centers + sorted((node for node in shown if node not in centers), key=lambda node: paleness[node])
    names = {number: writable(explanation.units[number].name[:22]) for number in labeled[:MAX_NAMED]}
    for number, (x, y) in label_positions(positions, names, [positions[node] for node in shown]).items():
        axes.text(x, y, names[number], fontsize=8, color=INK, ha="center", va="center", zorder=4, parse_math=False)
    axes.set(xlim=(-1.25, 1.25), ylim=(-1.12, 1.16), aspect="equal")

    return 0.8 * WIDTH


def label_positions(
    positions: np.ndarray, names: Mapping[int, str], nodes: Sequence[np.ndarray] = ()
) -> dict[int, tuple[float, float]]:
    """The center of each label: above its node, else below or beside it, without overlapping other labels or nodes.

    Args:
        positions: `(node, 2)`, positions of all nodes, in the units of the axes.
        names: names of nodes, the most important first; a name without room is left out.
        nodes: positions of the nodes that are drawn.
    """
    boxes = [(x - NODE_RADIUS, y - NODE_RADIUS, x + NODE_RADIUS, y + NODE_RADIUS) for x, y in nodes]
    labels: dict[int, tuple[float, float]] = {}
    for number, name in names.items():
        half, (x, y) = LETTER_WIDTH * len(name) / 2, positions[number]
        for right, up in ((0, 0.075), (0, -0.075), (half + 0.05, 0), (-half - 0.05, 0)):
            left, low = x + right - half, y + up - LETTER_HEIGHT / 2
            box = left, low, left + 2 * half, low + LETTER_HEIGHT
            if not any(_overlap(box, other) for other in boxes):
                boxes.append(box)
                labels[number] = x + right, y + up
                break

    return labels


def _overlap(box: tuple[float, float, float, float], other: tuple[float, float, float, float]) -> bool:
    """Whether two boxes (left, bottom, right, top) overlap."""
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]


def _shown_nodes(hops: np.ndarray, shades: np.ndarray) -> set[int]:
    far = np.where(hops < 0, len(hops), hops)
    paleness = shades[:, :3].sum(1)
    return set(np.lexsort((paleness, far))[:MAX_NODES].tolist())


def _strongest(layer: Layer | None) -> list[tuple[int, int, float]]:
    """The edges of a layer with their mean weight over heads, as a share of the largest, from a tenth on."""
    if layer is None or not layer.senders.size:
        return []
    mean = np.nan_to_num(layer.values.astype(np.float64)).mean(0)
    share = np.where(layer.senders == layer.receivers, 0.0, mean)
    share = share / max(float(share.max()), 1e-12)
    return [(int(layer.senders[e]), int(layer.receivers[e]), float(share[e])) for e in np.flatnonzero(share >= 0.1)]
