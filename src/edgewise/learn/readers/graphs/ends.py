"""Guesses which columns of a table of edges name the two nodes: by the names of columns, then by cells."""

import re
from collections.abc import Callable, Sequence

from edgewise.learn.progress import remark

DIRECTED = (
    ("source", "target"),
    ("source", "destination"),
    ("source", "dest"),
    ("src", "dst"),
    ("src", "dest"),
    ("src", "tgt"),
    ("sender", "receiver"),
    ("from", "to"),
    ("start", "end"),
    ("origin", "destination"),
)
"""Words of two columns of which the first is the sender, in any order."""
PAIRS = (("1", "2"), ("0", "1"), ("a", "b"), ("u", "v"), ("i", "j"), ("first", "second"))
"""Words of two columns that name nodes, in the order of the columns."""
OF_NAMES = frozenset(("node", "id", "name", "vertex", "index", "idx", "no", "number"))
"""Words of a column of names."""
ENTITIES = (
    "account address airport atom author bus city concept customer entity gene item page paper person place player "
    "protein residue router site station stop user"
)
OF_NODES = OF_NAMES.union(ENTITIES.split())
"""Words that may stand beside those of a pair: those of names, and what nodes often are."""
ROWS = "bond edge edges interaction line link links pair record relation row transaction tx unnamed"
OF_ROWS = frozenset(ROWS.split())
"""A column that has one of these words, and beside them those of names alone, numbers the edges."""
SHARE = 0.5
"""The part of the cells of a column that must be names of nodes."""

REMEDY = "If others name the nodes, call them source and target, or train with --edge-columns."
"""What to do where the guess is wrong, in training and for other edges later."""

Share = Callable[[str], float]
"""The part of the cells of a column that are names of nodes."""


def columns_of_ends(
    table: str,
    columns: Sequence[str],
    used: Sequence[str | None],
    share: Share | None,
    named: Sequence[str],
    *,
    are_of_training: bool,
) -> tuple[str, ...]:
    """The columns of sender and receiver: those that are named, else as `ends_of` guesses.

    Args:
        table, columns, used, share: as for `ends_of`.
        named: sender and receiver; empty where no one names them.
        are_of_training: whether `named` are the columns of the training, which the table may lack.
    """
    if named and not (are_of_training and set(named).difference(columns)):
        return tuple(named)
    return ends_of(table, columns, used, share, named)


def ends_of(
    table: str,
    columns: Sequence[str],
    used: Sequence[str | None],
    share: Share | None,
    of_training: Sequence[str] = (),
) -> tuple[str, ...]:
    """The columns of sender and receiver; a note names them where the choice is ambiguous.

    Args:
        table: the file, for the line.
        columns: all of the table, in order.
        used: those that have another role.
        share: the share of cells that name nodes; None where the nodes are not known yet.
        of_training: the columns of the training, which the table lacks; the note is given always then.
    """
    free = [name for name in columns if name not in used]
    likely = at_least_two([name for name in free if not _numbers_rows(name)], free)
    naming = likely
    if share is not None and len(free) > 2:
        naming = [name for name in likely if share(name) >= SHARE]
        naming = at_least_two([name for name in naming if not OF_NAMES.issuperset(words_in(name))], naming)

    ends, source = _by_names(likely, naming, knows_cells=share is not None)
    is_guessed = ends is None and share is None and len(likely) > 2
    if ends is None:
        source = "order" if is_guessed else "names" if share is None else "cells"
        ends = tuple(at_least_two(naming, likely)[:2])
    if of_training or ends != tuple(free[:2]) or is_guessed or (share is not None and len(naming) > 2):
        shown = " to ".join(map(repr, ends))
        say = "says" if source == "order" else "say"
        remedy = REMEDY
        if of_training:
            remedy = f"In the training they went from {' to '.join(map(repr, of_training))}: name the columns alike."
        remark(f"{table}: edges go from column {shown}, as their {source} {say}. {remedy}")

    return ends


def ends_by_name(columns: Sequence[str]) -> tuple[str, ...]:
    """The columns that are those of both ends by their names alone, such as `source` and `target`; none without."""
    return _by_names(columns, columns, knows_cells=False)[0] or ()


def at_least_two(columns: Sequence[str], otherwise: Sequence[str]) -> Sequence[str]:
    """The first columns if they are two or more, else the others."""
    return columns if len(columns) > 1 else otherwise


def _by_names(likely: Sequence[str], naming: Sequence[str], *, knows_cells: bool) -> tuple[tuple[str, ...] | None, str]:
    """Two columns whose names are those of the ends of an edge, None without such; and what says which is the sender.

    Args:
        likely: columns that may be the ends.
        naming: those of them whose cells name nodes, or all.
        knows_cells: whether cells were compared; names with any other words, such as `from_account`, count then.
    """
    for pairs, among, is_free in ((DIRECTED, likely, False), (DIRECTED, naming, knows_cells), (PAIRS, naming, False)):
        for first in among:
            for second in among:
                if _is_pair(words_in(first), words_in(second), pairs, is_free):
                    ends = first, second
                    if pairs is DIRECTED:
                        return ends, "names"
                    return tuple(sorted(ends, key=likely.index)), "names and order"
    return None, "names"


def _is_pair(first: Sequence[str], second: Sequence[str], pairs: Sequence[tuple[str, str]], is_free: bool) -> bool:
    """Whether two names differ in the words of a pair alone; the others say nothing else, unless they are free."""
    both = list(zip(first, second, strict=False))
    differing = [words for words in both if words[0] != words[1]]
    others = {one for one, other in both if one == other}
    is_one = len(first) == len(second) and len(differing) == 1 and differing[0] in pairs
    return is_one and (is_free or others <= OF_NODES)


def _numbers_rows(name: str) -> bool:
    words = set(words_in(name)) - {"0"}
    return bool(words & OF_ROWS) and words <= OF_ROWS | OF_NAMES


def words_in(name: str) -> list[str]:
    """The words of a name in small letters: `sourceId`, `source_id` and `Source ID` have the same."""
    return re.findall(r"[^\W\d_]+|\d+", re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).casefold())
