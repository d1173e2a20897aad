"""Links: the pairs of nodes that are connected, the part each is told in, and pairs that are none."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from edgewise.data.graphs.edges import EdgeList
from edgewise.data.graphs.names import RowLabels
from edgewise.data.graphs.pair_numbers import PairNumbers
from edgewise.data.split import CARVED_SHARE, PARTS, WORDS, divide_rows
from edgewise.errors import DataError, SettingError
from edgewise.plural import plural


@dataclass(frozen=True, eq=False)
class Links:
    """Every pair of different nodes that at least one edge joins, once; both ways are one link, unless edges are one
    way."""

    numbers: Int64[np.ndarray, " link"]
    """Each pair by its number, ascending."""
    of_edge: Int64[np.ndarray, " edge"]
    """The link that each edge is; −1 for a loop, which is none."""
    pairs: PairNumbers
    """How pairs are numbered."""

    @classmethod
    def of(cls, edges: EdgeList, num_nodes: int, is_directed: bool) -> "Links":
        """Those of some edges.

        Raises:
            DataError: there are none.
        """
        pairs = PairNumbers(num_nodes, is_directed)
        apart = edges.senders != edges.receivers
        if not apart.any():
            raise DataError(
                f"there are no links: {plural(len(edges), 'edge')}, all of them loops; expected edges between nodes."
            )
        numbers, places = np.unique(pairs.of(edges.senders[apart], edges.receivers[apart]), return_inverse=True)
        of_edge = np.full(len(edges), -1)
        of_edge[apart] = places
        return cls(numbers, of_edge, pairs)

    def __len__(self) -> int:
        return len(self.numbers)

    def edges_of(self, are_seen: Bool[np.ndarray, " link"]) -> Bool[np.ndarray, " edge"]:
        """Which edges a graph of some links has: theirs, whichever way and however often, and every loop."""
        return np.append(are_seen, True)[self.of_edge]

    def know(self, numbers: Int64[np.ndarray, " pair"]) -> Bool[np.ndarray, " pair"]:
        """Which pairs are links."""
        place = np.searchsorted(self.numbers, numbers).clip(max=len(self) - 1)
        return self.numbers[place] == numbers


@dataclass(frozen=True, eq=False)
class LinkParts:
    """The links that train, choose and judge a model, and the pairs that are none which it must tell them from."""

    train: Int64[np.ndarray, " train_link"]
    """Links that are learned, ascending."""
    val: Int64[np.ndarray, " val_link"]
    """Links that choose the epoch; no message goes along them."""
    test: Int64[np.ndarray, " test_link"]
    """Links that judge; no message goes along them."""
    val_others: Int64[np.ndarray, " val_other"]
    """Pairs that are no link, by their numbers, all different, none of them in the test."""
    test_others: Int64[np.ndarray, " test_other"]
    """The same for the test."""
    seen: Bool[np.ndarray, " link"]
    """Links along which messages go: those of the training, and those of no part."""

    @classmethod
    def of(
        cls, links: Links, part_of_link: Int64[np.ndarray, " link"], others_a_link: int = 1, seed: int = 0
    ) -> "LinkParts":
        """The parts, and `others_a_link` pairs that are no link for each validation and test link, drawn from all
        pairs that are no link of the whole graph with the same probability.

        Args:
            links: all of the graph.
            part_of_link: 0 training, 1 validation, 2 test, −1 none.
            others_a_link: pairs that are no link for each link.
            seed: of the draw.

        Raises:
            DataError: too few pairs of the graph are no link.
        """
        train, val, test = (np.flatnonzero(part_of_link == part) for part in range(3))
        wanted, missing = others_a_link * (len(val) + len(test)), links.pairs.total - len(links)
        if missing < max(wanted, 1):
            raise DataError(
                f"{missing:,} of {plural(links.pairs.total, 'pair')} of nodes are no link, but "
                f"{max(wanted, 1):,} are needed "
                f"beside {len(val):,} validation and {plural(len(test), 'test link')}; nearly "
                "everything is connected: make "
                "these parts smaller, or leave edges out."
            )
        random = np.random.default_rng([seed, 1])
        others = links.pairs.outside(links.numbers, random.choice(missing, wanted, replace=False))
        val_others, test_others = np.split(others, [others_a_link * len(val)])
        return cls(train, val, test, val_others, test_others, part_of_link < 1)


def drawn_parts(links: Links, sizes: Sequence[float], seed: int) -> Int64[np.ndarray, " link"]:
    """The part of each link, drawn at random: all edges between two nodes are one link, and so in one part.

    Args:
        links: those to be parted.
        sizes: parts of training, validation and test links, that sum to 1.
        seed: of the draw.

    Raises:
        DataError: there are too few for every part.
    """
    found = np.zeros(len(links), dtype=np.int64)
    groups = divide_rows(np.arange(len(links)), tuple(sizes), np.random.default_rng(seed), "links")
    for part, group in enumerate(groups):
        found[group] = part
    return found


def named_parts(links: Links, words: RowLabels, seed: int) -> Int64[np.ndarray, " link"]:
    """The part of each link as words say it, one for each edge; −1 where they are empty.

    Where none says val, a tenth of the training links becomes it.

    Args:
        links: those of the edges, and of edges that were added behind them.
        words: train, val, test or nothing, for each edge.
        seed: of the draw of validation links.

    Raises:
        DataError: a word is none of these, two edges of one link lie in different parts, or no link is left for the
            training.
    """
    found, first = np.full(len(links), -1), np.full(len(links), -1)
    for edge, word in enumerate(words.names):
        link, part = links.of_edge[edge], WORDS.get(word.strip().lower(), -1)
        if word.strip() and part < 0:
            raise DataError(
                f"{words.place(edge)}: {word!r} is no part, expected {', '.join(PARTS)}, or nothing for none."
            )
        if link >= 0 and first[link] < 0:
            found[link], first[link] = part, edge
        elif link >= 0 and found[link] != part:
            other = int(first[link])
            raise DataError(
                f"{words.place(edge)}: {word!r}, but {words.names[other]!r} at {words.place(other)}, which "
                "joins the same nodes; all edges of one link must lie in one part."
            )
    if not (train := np.flatnonzero(found == 0)).size:
        raise DataError(f"{words.place(0)}: neither this edge nor any other between two nodes says train.")
    if not (found == 1).any():
        shares = (1 - CARVED_SHARE, CARVED_SHARE, 0.0)
        found[divide_rows(train, shares, np.random.default_rng(seed), "training links")[1]] = 1
    return found


def splits_of(edges: EdgeList, column: str) -> RowLabels:
    """The words in the column of the splits, which was read with the edges.

    Raises:
        SettingError: the edges stand in no table.
    """
    if edges.splits is None:
        raise SettingError(
            f"--splits-column {column} names a column of the table of edges, and there is none: the edges stand in the "
            "file of the graph; leave it out to draw the parts."
        )
    return edges.splits
