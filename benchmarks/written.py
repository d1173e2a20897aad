"""Tables in the documentation that benchmarks write."""

from pathlib import Path

DOCS = Path(__file__).parents[1] / "docs"


def write_between(begin: str, end: str, text: str, page: str = "scaling.md") -> None:
    """Replaces what stands between two lines of a page."""
    path = DOCS / page
    head, rest = path.read_text().split(begin)
    path.write_text(head + begin + text + end + rest.split(end, 1)[1])
