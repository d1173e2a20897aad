"""A page of tables, sentences and pictures in one HTML file that needs nothing else."""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #2e3440; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; } h2 { font-size: 1.15rem; margin-top: 2.2rem; }
table { border-collapse: collapse; } caption { text-align: left; color: #5b6579; }
th, td { padding: 0.2rem 1rem 0.2rem 0; text-align: right; border-bottom: 1px solid #d8dee9; font-weight: normal; }
th:first-child, td:first-child { text-align: left; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; }
figcaption { color: #5b6579; font-size: 0.9rem; }
"""


@dataclass(frozen=True)
class Picture:
    """A picture and what stands below it."""

    svg: str
    """The picture."""
    caption: str
    """What it shows."""


@dataclass(frozen=True)
class Table:
    """Rows of words below a header."""

    caption: str
    """What it shows."""
    header: Sequence[str]
    """The words above the columns."""
    rows: Sequence[Sequence[str]]
    """The words of each row."""


Part = str | Picture | Table
"""A sentence, a picture or a table."""


def page(title: str, sections: Sequence[tuple[str, Sequence[Part]]]) -> str:
    """An HTML page.

    Args:
        title: of the page.
        sections: the heading and the parts of each.
    """
    body = [f"<h1>{html.escape(title)}</h1>"]
    for number, (heading, parts) in enumerate(sections):
        body.append(f"<h2>{html.escape(heading)}</h2>")
        body += [_written(part, f"s{number}p{place}-") for place, part in enumerate(parts)]
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{html.escape(title)}</title>\n'
        f"<style>{STYLE}</style></head>\n<body>\n" + "\n".join(body) + "\n</body>\n</html>\n"
    )


def _written(part: Part, prefix: str) -> str:
    if isinstance(part, str):
        return f"<p>{html.escape(part)}</p>"
    if isinstance(part, Picture):
        drawn = _inline(part.svg, prefix)
        return f"<figure>{drawn}<figcaption>{html.escape(part.caption)}</figcaption></figure>"
    header = "".join(f"<th>{html.escape(name)}</th>" for name in part.header)
    rows = "\n".join("<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in part.rows)
    return f"<table><caption>{html.escape(part.caption)}</caption>\n<tr>{header}</tr>\n{rows}\n</table>"


def _inline(svg: str, prefix: str) -> str:
    """The svg element, its ids made its own: two pictures on a page must not mean each other's."""
    drawn = svg[svg.index("<svg") :]
    drawn = re.sub(r'\bid="', f'id="{prefix}', drawn)
    return re.sub(r'(url\(#|href="#)', rf"\g<1>{prefix}", drawn)
