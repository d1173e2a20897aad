"""The attention of a whole model at a glance: a small matrix for each layer and head."""

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np
from jaxtyping import Float, UInt8

from edgewise.errors import ShapeError
from edgewise.explain.explanation import Explanation, Layer

BLUE = (0x1F, 0x86, 0xD0)
"""The color of a weight of 1; smaller ones are more transparent, for light and dark backgrounds."""
GRAY = "#8a93a3"
MAX_CELLS = 64
"""The most cells per side of a table; with more units, neighbors share a cell, which shows the largest weight."""
SIDE, MIN_SIDE, GAP, LEFT, TOP = 84, 12, 8, 96, 24
"""Pixels: of the longer side of a table, at least of the shorter one, between tables, left of and above the tables."""


class Svg(str):
    """SVG as a string, which notebooks show as a picture."""

    def __repr__(self) -> str:
        # Thousands of characters would be unreadable where no picture is shown; `print` still shows them.
        return f"<Svg of {len(self):,} characters>"

    def _repr_svg_(self) -> str:
        return str(self)


def attention_grid(attended: Explanation | Sequence[Layer], num_units: int | None = None) -> Svg:
    """A row for each layer, a column for each head: each table has queries as rows and keys as columns, shaded by the
    weight relative to the largest of the table; a readout is a single row over its units.

    For an explanation of several texts, a table shows only the texts of its layer: in a `cross` layer of a
    translation, the generated tokens (rows) and those of the source (columns).

    Args:
        attended: an explanation, or layers alone, whose tables are all units by all units.
        num_units: for layers alone, the number of units; by default one more than the largest index.

    Raises:
        ShapeError: `layers` is empty, a weight belongs to a unit beyond `num_units`, or `num_units` is given for an
            explanation.

    Cost: an image of at most MAX_CELLS² pixels per head.
    """
    layers = attended.layers if isinstance(attended, Explanation) else attended
    if not layers:
        raise ShapeError("attention_grid: layers is empty; explain a model with attention.")

    if isinstance(attended, Explanation):
        if num_units is not None:
            raise ShapeError("attention_grid: num_units is for layers; an explanation has its own units, drop it.")
        num_units, sides = len(attended.units), [sides_of(attended, layer) for layer in layers]
    else:
        num_units = _num_units(layers, num_units)
        sides = [(range(1) if layer.is_readout else range(num_units), range(num_units)) for layer in layers]

    sizes = [_pixels(layer, *ranges) for layer, ranges in zip(layers, sides, strict=True)]
    columns = max(len(layer.values) for layer in layers)
    width, height = LEFT + columns * (SIDE + GAP), TOP + sum(high + GAP for _, high in sizes)
    words = f"the attention of {len(layers)} layers over {num_units} units"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
        f'font-family="sans-serif" font-size="12" fill="{GRAY}" role="img" aria-label="{words}">'
    ]
    parts += [
        f'<text x="{LEFT + head * (SIDE + GAP) + SIDE // 2}" y="16" text-anchor="middle">head {head + 1}</text>'
        for head in range(columns)
    ]

    top = TOP
    for layer, (rows, senders), size in zip(layers, sides, sizes, strict=True):
        middle = top + size[1] // 2 + 4
        parts.append(f'<text x="{LEFT - GAP}" y="{middle}" text-anchor="end">{escape(layer.name)}</text>')
        for head in range(len(layer.values)):
            shares = head_table(layer, head, rows, senders)
            parts.append(_drawn(f"{layer.name}, head {head + 1}", shares, LEFT + head * (SIDE + GAP), top, size))
        top += size[1] + GAP

    return Svg("".join(parts) + "</svg>")


def sides_of(explanation: Explanation, layer: Layer) -> tuple[range, range]:
    """The ranges of queries and of keys of a layer; a readout has one query.

    The keys are the texts that are attended to, the queries all units from the first to the last that attends; with a
    single text, both are all units.
    """
    units = explanation.units
    if explanation.kind != "text" or len(explanation.sources) < 2 or not len(layer.senders):
        return range(1) if layer.is_readout else range(len(units)), range(len(units))
    texts = {units[sender].source for sender in np.unique(layer.senders).tolist()}
    senders = [index for index, unit in enumerate(units) if unit.source in texts]
    first, last = (0, 0) if layer.is_readout else (int(layer.receivers.min()), int(layer.receivers.max()))
    return range(first, last + 1), range(senders[0], senders[-1] + 1)


def head_table(layer: Layer, head: int, rows: range, columns: range) -> Float[np.ndarray, "receiver sender"]:
    """The weights of a head as a table, at most MAX_CELLS per side; units that share a cell show their largest weight.

    Several edges between the same two units are summed.

    Args:
        layer: the weights.
        head: the index of the head.
        rows: the receivers; a single one for a readout.
        columns: the senders.
    """
    keys, inverse = np.unique(
        (layer.receivers - rows.start) * len(columns) + layer.senders - columns.start, return_inverse=True
    )
    sums = np.bincount(inverse, np.nan_to_num(layer.values[head]), minlength=len(keys))
    cells = [min(len(side), MAX_CELLS) for side in (rows, columns)]
    table = np.zeros(cells)
    row, column = keys // len(columns) * cells[0] // len(rows), keys % len(columns) * cells[1] // len(columns)
    np.maximum.at(table, (row, column), sums)

    return table


def image(shares: Float[np.ndarray, "receiver sender"]) -> bytes:
    """A table as PNG, one pixel per cell: blue, with an opacity relative to the largest value.

    Source: PNG Specification (W3C, 2003): color type 3, 256 steps of opacity in the tRNS chunk, filter 0.
    """
    largest = float(shares.max(initial=0))
    steps: UInt8[np.ndarray, "receiver sender"] = np.round(255 * shares / (largest or 1)).clip(0, 255).astype(np.uint8)
    rows, columns = steps.shape
    lines = b"".join(b"\0" + line.tobytes() for line in steps)
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", columns, rows, 8, 3, 0, 0, 0)),
        (b"PLTE", bytes(BLUE) * 256),
        (b"tRNS", bytes(range(256))),
        (b"IDAT", zlib.compress(lines, 9)),
        (b"IEND", b""),
    ]

    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(content)) + name + content + struct.pack(">I", zlib.crc32(name + content))
        for name, content in chunks
    )


def _num_units(layers: Sequence[Layer], num_units: int | None) -> int:
    """The declared number of units, or one more than the largest index."""
    ends = [end for layer in layers for end in (layer.senders, layer.receivers) if len(end)]
    largest = max((int(end.max()) + 1 for end in ends), default=1)
    if num_units is not None and largest > num_units:
        raise ShapeError(f"attention_grid: unit {largest - 1} has a weight, but num_units is {num_units}.")
    return largest if num_units is None else num_units


def _pixels(layer: Layer, rows: range, columns: range) -> tuple[int, int]:
    """Width and height of a table with square cells, at least wide and high enough for a pointer."""
    if layer.is_readout:
        return SIDE, SIDE // 4
    cell = SIDE / max(len(rows), len(columns))
    return max(MIN_SIDE, round(cell * len(columns))), max(MIN_SIDE, round(cell * len(rows)))


def _drawn(name: str, shares: Float[np.ndarray, "receiver sender"], left: int, top: int, size: tuple[int, int]) -> str:
    """One table as SVG, with a tooltip that names it."""
    box = f'x="{left}" y="{top}" width="{size[0]}" height="{size[1]}"'
    return (
        f"<g><title>{escape(name)}: the largest weight is {shares.max(initial=0):.3g}</title>"
        f'<rect {box} fill="{GRAY}" fill-opacity="0.08" stroke="{GRAY}" stroke-opacity="0.5"/>'
        f'<image {box} preserveAspectRatio="none" image-rendering="pixelated" '
        f'href="data:image/png;base64,{base64.b64encode(image(shares)).decode()}"/></g>'
    )
