"""A self-contained HTML page of tables, sentences and pictures, light or dark like the reader's system. Its policy
allows no script, its own style only, and embedded images."""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

from edgewise.view.policy import meta_policy

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; color: #2e3440; background: #ffffff; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
div { overflow-x: auto; } table { border-collapse: collapse; margin: 0.5rem 0; min-width: 24rem; }
caption { text-align: left; color: #5b6579; }
th, td { padding: 0.2rem 1rem 0.2rem 0; text-align: right; border-bottom: 1px solid #d8dee9; font-weight: normal;
  vertical-align: top; }
th { color: #5b6579; } th:first-child, td:first-child, .words { text-align: left; }
td.words { min-width: 6rem; max-width: 30rem; overflow-wrap: anywhere; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
figcaption { color: #5b6579; font-size: 0.9rem; }
.caution { border-left: 4px solid #d55e00; padding: 0.2rem 0 0.2rem 0.8rem; }
@media (prefers-color-scheme: dark) {
  body { color: #e5e9f0; background: #1d2129; }
  caption, figcaption, th { color: #a3adbf; } th, td { border-color: #3b4252; }
  figure svg [fill="#ffffff"] { fill: none; }
  figure svg [fill="#3b4252"] { fill: #d8dee9; }
  figure svg [stroke="#3b4252"] { stroke: #d8dee9; }
  figure svg [stroke="#d8dee9"] { stroke: #3b4252; }
  figure svg [fill="#000000"] { fill: #eceff4; }
  figure svg [stroke="#000000"] { stroke: #eceff4; }
  figure svg [fill="#0072b2"] { fill: #4ba6e0; }
  figure svg [stroke="#0072b2"] { stroke: #4ba6e0; }
}
"""
"""Dark mode inverts the colors of `view.figure`: ink, pale grid, white background, black; its blue is paler."""


@dataclass(frozen=True)
class Picture:
    """A picture and its caption."""

    svg: str
    """The picture as SVG."""
    caption: str
    """What it shows."""


@dataclass(frozen=True)
class PageTable:
    """A table of a page."""

    caption: str
    """What it shows."""
    header: Sequence[str]
    """The names of the columns."""
    rows: Sequence[Sequence[str]]
    """The cells of each row."""
    words: Sequence[int] = ()
    """The columns of text, aligned left like the first one; numbers are aligned right."""


@dataclass(frozen=True)
class Caution:
    """A highlighted warning."""

    text: str
    """The sentence."""


Part = str | Picture | PageTable | Caution
"""A sentence, a picture, a table or a warning."""


def page(title: str, sections: Sequence[tuple[str, Sequence[Part]]]) -> str:
    """An HTML page.

    Args:
        title: title of the page.
        sections: the heading and the parts of each.
    """
    body = [f"<h1>{html.escape(title)}</h1>"]
    for number, (heading, parts) in enumerate(sections):
        body.append(f"<h2>{html.escape(heading)}</h2>")
        body += [_written(part, f"s{number}p{part_number}-") for part_number, part in enumerate(parts)]

    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8">'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><title>{html.escape(title)}</title>\n'
        f"{meta_policy(STYLE, images=True)}\n<style>{STYLE}</style></head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _written(part: Part, prefix: str) -> str:
    if isinstance(part, str):
        return f"<p>{html.escape(part)}</p>"
    if isinstance(part, Caution):
        return f'<p class="caution">{html.escape(part.text)}</p>'
    if isinstance(part, Picture):
        svg, caption = _inline(part.svg, prefix), html.escape(part.caption)
        return f'<figure role="img" aria-label="{caption}">{svg}<figcaption>{caption}</figcaption></figure>'
    header = _cells("th", part.header, part.words)
    rows = "\n".join(f"<tr>{_cells('td', row, part.words)}</tr>" for row in part.rows)
    return f"<div><table><caption>{html.escape(part.caption)}</caption>\n<tr>{header}</tr>\n{rows}\n</table></div>"


def _cells(tag: str, cells: Sequence[str], words: Sequence[int]) -> str:
    attributes = [' class="words"' if column in words else "" for column in range(len(cells))]
    return "".join(
        f"<{tag}{attribute}>{html.escape(cell)}</{tag}>" for attribute, cell in zip(attributes, cells, strict=True)
    )


def _inline(svg: str, prefix: str) -> str:
    """The svg element with prefixed ids, so that ids of two pictures on a page differ."""
    drawn = svg[svg.index("<svg") :]
    drawn = re.sub(r'\bid="', f'id="{prefix}', drawn)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}", drawn)
