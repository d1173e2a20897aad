"""Numbers of things in messages, and lists of them: `1 node`, `2,000 nodes`, `texts and graphs`."""

from collections.abc import Sequence


def plural(number: int, one: str, many: str | None = None) -> str:
    """A number and what it counts.

    Args:
        number: how many.
        one: what follows 1.
        many: what follows any other number; by default `one` and an s.

    >>> plural(1, "node"), plural(1200, "node"), plural(0, "trajectory", "trajectories")
    ('1 node', '1,200 nodes', '0 trajectories')
    """
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def listed(names: Sequence[str]) -> str:
    """Names in a sentence.

    >>> listed(["texts"]), listed(["texts", "nodes", "graphs"])
    ('texts', 'texts, nodes and graphs')
    """
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]
