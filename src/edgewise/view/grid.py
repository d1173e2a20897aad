"""The attention of a whole model at a glance: a small table for each layer and head."""

import base64
import struct
import zlib
from collections.abc import Sequence
from html import escape

import numpy as np
from jaxtyping import Float, UInt8

from edgewise.errors import ShapeError
from edgewise.explanation import Layer

BLUE = (0x1F, 0x86, 0xD0)
"""The color of a weight of 1; smaller ones are more transparent, so that white and black grounds serve alike."""
GRAY = "#8a93a3"
MOST_CELLS = 64
"""Units a side of a table that are drawn each for itself; of more, neighbors share a cell and the largest shows."""
SIDE, GAP, LEFT, TOP = 84, 8, 96, 24
"""Pixels of a table, between tables, and for the names at the left and above."""


class Svg(str):
    """SVG as a string, which notebooks show as the picture it is."""

    def _repr_svg_(self) -> str:
        return str(self)


def attention_grid(layers: Sequence[Layer], num_units: int | None = None) -> Svg:
    """A row for each layer, a column for each head: in a table, who attends (from top to bottom) to whom (from left to
    right), as dark as the weight is beside the largest of its table; a readout is one row over its units.

    Args:
        layers: as in `Explanation.layers`.
        num_units: how many there are; by default, as many as are attended to or attend.

    Raises:
        ShapeError: there is no layer, or a weight belongs to a unit beyond `num_units`.

    Cost: an image of at most MOST_CELLS² pixels a head.
    """
    if not layers:
        raise ShapeError("attention_grid: there is no layer; explain a model that has attention.")
    found = max((int(ends.max()) + 1 for layer in layers for ends in _ends(layer) if len(ends)), default=1)
    num_units = found if num_units is None else num_units
    if found > num_units:
        raise ShapeError(f"attention_grid: unit {found - 1} has a weight, but num_units is {num_units}.")
    columns = max(len(layer.values) for layer in layers)
    heights = [SIDE // 4 if layer.is_readout else SIDE for layer in layers]
    width, height = LEFT + columns * (SIDE + GAP), TOP + sum(each + GAP for each in heights)
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
    for layer, each in zip(layers, heights, strict=True):
        parts.append(f'<text x="{LEFT - GAP}" y="{top + each // 2 + 4}" text-anchor="end">{escape(layer.name)}</text>')
        for head in range(len(layer.values)):
            left, shares = LEFT + head * (SIDE + GAP), head_table(layer, head, num_units)
            title = f"{escape(layer.name)}, head {head + 1}: the largest weight is {shares.max(initial=0):.3g}"
            parts.append(
                f'<g><title>{title}</title><rect x="{left}" y="{top}" width="{SIDE}" height="{each}" fill="{GRAY}" '
                f'fill-opacity="0.08" stroke="{GRAY}" stroke-opacity="0.5"/><image x="{left}" y="{top}" '
                f'width="{SIDE}" height="{each}" preserveAspectRatio="none" style="image-rendering:pixelated" '
                f'href="data:image/png;base64,{base64.b64encode(image(shares)).decode()}"/></g>'
            )
        top += each + GAP
    return Svg("".join(parts) + "</svg>")


def head_table(layer: Layer, head: int, num_units: int) -> Float[np.ndarray, "receiver sender"]:
    """The weights of a head as a table, at most MOST_CELLS a side; what shares a cell shows its largest.

    Several edges between the same two units count together. A readout has one receiver.
    """
    receivers = 1 if layer.is_readout else num_units
    keys, place = np.unique(layer.receivers * num_units + layer.senders, return_inverse=True)
    sums = np.bincount(place, np.nan_to_num(layer.values[head]), minlength=len(keys))
    cells = [min(size, MOST_CELLS) for size in (receivers, num_units)]
    table = np.zeros(cells)
    rows, columns = keys // num_units * cells[0] // receivers, keys % num_units * cells[1] // num_units
    np.maximum.at(table, (rows, columns), sums)
    return table


def image(shares: Float[np.ndarray, "receiver sender"]) -> bytes:
    """A table as PNG, a pixel a cell: blue, the more opaque the larger beside the largest.

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


def _ends(layer: Layer) -> tuple[np.ndarray, np.ndarray]:
    return layer.senders, layer.receivers
