"""An attention mask as text, which notebooks show as squares."""

import math
from html import escape

from jaxtyping import Bool
from torch import Tensor

ATTENDS, MASKED = "■", "·"
SQUARE, GAP, MARGIN = 14, 2, 20
"""Pixels of a square, between squares, and of the margin around a table."""
MAX_SIDE, MAX_MEMBERS = 96, 8
"""The most queries or keys, and members of a batch, that are drawn; beyond, notebooks show the text."""
# Both are visible on light and dark backgrounds.
BLUE, GRAY = "#2a7fbf", "#8a93a3"


class Drawing(str):
    """Queries as lines, keys as columns, ■ where the query may attend to the key; members follow each other.

    It is a plain string when printed or compared. A notebook shows squares, keys from left to right and queries from
    top to bottom, up to `MAX_SIDE` per side and `MAX_MEMBERS` members.
    """

    @classmethod
    def of(cls, mask: Bool[Tensor, " *batch query key"]) -> "Drawing":
        """The drawing of a table, True where the query may attend to the key."""
        members = mask.reshape(math.prod(mask.shape[:-2]), *mask.shape[-2:]).tolist()
        pages = [
            "\n".join(" ".join(ATTENDS if cell else MASKED for cell in row) for row in member) for member in members
        ]
        return cls("\n\n".join(pages))

    def __repr__(self) -> str:
        # The lines themselves, not `'■ ·\\n■ ■'`, for prompts and untrusted notebooks.
        return str(self)

    def _repr_svg_(self) -> str | None:
        """The squares as SVG; None, so that the text is shown, if there are too many or none."""
        members = [[line.split(" ") for line in member.splitlines()] for member in self.split("\n\n")]
        rows, columns = len(members[0]), len(members[0][0]) if members[0] else 0
        if not 0 < rows <= MAX_SIDE or not 0 < columns <= MAX_SIDE or len(members) > MAX_MEMBERS:
            return None

        words = f"{rows} {'query' if rows == 1 else 'queries'} × {columns} {'key' if columns == 1 else 'keys'}"
        words += f", {len(members)} members" if len(members) > 1 else ""
        step = SQUARE + GAP
        width = max(MARGIN + (columns * step + MARGIN) * len(members), 7 * len(words) + 2 * MARGIN)
        height = MARGIN + rows * step + MARGIN
        drawn = "".join(
            f'<g transform="translate({MARGIN + number * (columns * step + MARGIN)} {MARGIN // 2})">'
            f"{_squares(member)}</g>"
            for number, member in enumerate(members)
        )

        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" role="img" aria-label="{escape(words)}">{drawn}'
            f'<text x="{MARGIN}" y="{height - 6}" font-family="sans-serif" font-size="12" fill="{GRAY}">'
            f"{escape(words)}</text></svg>"
        )


def _squares(rows: list[list[str]]) -> str:
    """A square for each cell of a table; its title explains it."""
    paints = {ATTENDS: f'fill="{BLUE}"', MASKED: f'fill="none" stroke="{GRAY}" stroke-opacity="0.5"'}
    titles = {ATTENDS: "attends", MASKED: "does not attend"}
    return "".join(
        f'<rect x="{column * (SQUARE + GAP)}" y="{row * (SQUARE + GAP)}" width="{SQUARE}" height="{SQUARE}" rx="2" '
        f"{paints[cell]}><title>query {row} {titles[cell]} to key {column}</title></rect>"
        for row, cells in enumerate(rows)
        for column, cell in enumerate(cells)
    )
