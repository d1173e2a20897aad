"""Links: pairs of connected nodes, their splits, pairs without a link, and tables of pairs to predict."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Int64

from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.readers.graphs.edges import EdgeList, share_of_nodes
from edgewise.learn.readers.graphs.ends import columns_of_ends
from edgewise.learn.readers.graphs.names import NodeNames, RowLabels
from edgewise.learn.tables.cell import OK
from edgewise.learn.tables.read import check_columns_exist, pd, read_cells
from edgewise.learn.tables.split import CARVED_SHARE, SPLITS, WORDS, divide_rows


@dataclass(frozen=True)
class PairNumbers:
    """All pairs of different nodes, numbered from 0.

        both ways, i < j    j (j − 1) / 2 + i
        one way, i → j      i (n − 1) + j − [j > i]

    >>> PairNumbers(4, False).of(np.array([3, 0]), np.array([1, 1])).tolist()
    [4, 0]
    """

    num_nodes: int
    """n."""
    is_directed: bool
    """Whether i → j and j → i are two pairs."""

    @property
    def total(self) -> int:
        """How many there are."""
        return self.num_nodes * (self.num_nodes - 1) // (1 if self.is_directed else 2)

    def of(
        self, senders: Int64[np.ndarray, " pair"], receivers: Int64[np.ndarray, " pair"]
    ) -> Int64[np.ndarray, " pair"]:
        """The number of each pair; no node may be paired with itself."""
        if self.is_directed:
            return senders * (self.num_nodes - 1) + receivers - (receivers > senders)
        smaller, larger = np.minimum(senders, receivers), np.maximum(senders, receivers)
        return larger * (larger - 1) // 2 + smaller

    def ends(
        self, numbers: Int64[np.ndarray, " pair"]
    ) -> tuple[Int64[np.ndarray, " pair"], Int64[np.ndarray, " pair"]]:
        """Sender and receiver of each pair; for undirected pairs, the smaller first."""
        if self.is_directed:
            senders, skipped = np.divmod(numbers, self.num_nodes - 1)
            return senders, skipped + (skipped >= senders)
        larger = ((1 + np.sqrt(8.0 * numbers + 1)) / 2).astype(np.int64)
        # The root is rounded: of very large numbers it may lie one off.
        larger -= larger * (larger - 1) // 2 > numbers
        larger += larger * (larger + 1) // 2 <= numbers
        return numbers - larger * (larger - 1) // 2, larger

    def outside(
        self, excluded: Int64[np.ndarray, " excluded"], ranks: Int64[np.ndarray, " pair"]
    ) -> Int64[np.ndarray, " pair"]:
        """The pairs at given ranks among the ascending pair numbers that are not excluded.

        The r-th number that is missing from k_0 < k_1 < … is r + |{i : k_i − i ≤ r}|: so many excluded ones are
        smaller. So a draw of ranks is a draw of pairs, exactly uniform, however many are excluded.

        Args:
            excluded: ascending, each once.
            ranks: from 0 to below total − excluded.

        Cost: O(pair · log excluded).

        >>> PairNumbers(4, False).outside(np.array([0, 2, 3]), np.array([0, 1, 2])).tolist()
        [1, 4, 5]
        """
        return ranks + np.searchsorted(excluded - np.arange(len(excluded)), ranks, side="right")


@dataclass(frozen=True, eq=False)
class Links:
    """Every pair of different nodes that at least one edge joins, once; i → j and j → i are one link, unless the graph
    is directed."""

    numbers: Int64[np.ndarray, " link"]
    """Each pair by its number, ascending."""
    of_edge: Int64[np.ndarray, " edge"]
    """The link of each edge; −1 for a loop, which is not a link."""
    pairs: PairNumbers
    """How pairs are numbered."""

    @classmethod
    def of(cls, edges: EdgeList, num_nodes: int, is_directed: bool, *, allow_empty: bool = False) -> "Links":
        """Those of some edges.

        Raises:
            DataError: there are none, unless `allow_empty`.
        """
        pairs = PairNumbers(num_nodes, is_directed)
        apart = edges.senders != edges.receivers
        if not apart.any() and not allow_empty:
            raise DataError(
                f"no links: {plural(len(edges), 'edge')}, all self-loops; expected edges between different nodes."
            )

        numbers, link_of_pair = np.unique(pairs.of(edges.senders[apart], edges.receivers[apart]), return_inverse=True)
        of_edge = np.full(len(edges), -1)
        of_edge[apart] = link_of_pair
        return cls(numbers, of_edge, pairs)

    def __len__(self) -> int:
        return len(self.numbers)

    def edge_mask(self, link_mask: Bool[np.ndarray, " link"]) -> Bool[np.ndarray, " edge"]:
        """Which edges belong to some links: in both directions, repeated ones included, and every loop."""
        return np.append(link_mask, True)[self.of_edge]  # the last stands for loops, whose link is −1

    def contain(self, numbers: Int64[np.ndarray, " pair"]) -> Bool[np.ndarray, " pair"]:
        """Which pairs are links."""
        if not len(self):
            return np.zeros(len(numbers), dtype=bool)
        position = np.searchsorted(self.numbers, numbers).clip(max=len(self) - 1)
        return self.numbers[position] == numbers


@dataclass(frozen=True, eq=False)
class LinkSplits:
    """The links of training, validation and test, and pairs without a link as negatives."""

    train: Int64[np.ndarray, " train_link"]
    """Links of the training, ascending."""
    val: Int64[np.ndarray, " val_link"]
    """Links of the validation (early stopping); no message is passed along them."""
    test: Int64[np.ndarray, " test_link"]
    """Links of the test; no message is passed along them."""
    val_negatives: Int64[np.ndarray, " val_negative"]
    """Pairs that are not links, by their numbers, all different, none of them in the test."""
    test_negatives: Int64[np.ndarray, " test_negative"]
    """The same for the test."""
    message_passing: Bool[np.ndarray, " link"]
    """Links along which messages are passed: those of the training split, and those without a split."""

    @classmethod
    def of(
        cls, links: Links, split_of_link: Int64[np.ndarray, " link"], negatives_per_link: int = 1, seed: int = 0
    ) -> "LinkSplits":
        """The splits, and `negatives_per_link` pairs that are not links for each validation and test link, drawn
        uniformly from all pairs that are not links of the whole graph.

        Args:
            links: all of the graph.
            split_of_link: 0 training, 1 validation, 2 test, −1 none.
            negatives_per_link: pairs that are not links for each link.
            seed: of the draw.

        Raises:
            DataError: too few pairs of the graph are not links.
        """
        train, val, test = (np.flatnonzero(split_of_link == part) for part in range(3))
        num_negatives, num_non_links = negatives_per_link * (len(val) + len(test)), links.pairs.total - len(links)
        if num_non_links < max(num_negatives, 1):
            raise DataError(
                f"{num_non_links:,} of {plural(links.pairs.total, 'pair')} of nodes are not links, but "
                f"{max(num_negatives, 1):,} are needed "
                f"beside {len(val):,} validation and {plural(len(test), 'test link')}; nearly "
                "everything is connected: make "
                "these splits smaller, or leave edges out."
            )

        random = np.random.default_rng([seed, 1])  # other numbers than those that draw the splits
        negatives = links.pairs.outside(links.numbers, random.choice(num_non_links, num_negatives, replace=False))
        val_negatives, test_negatives = np.split(negatives, [negatives_per_link * len(val)])
        return cls(train, val, test, val_negatives, test_negatives, split_of_link < 1)


def random_splits(links: Links, sizes: Sequence[float], seed: int) -> Int64[np.ndarray, " link"]:
    """A random split of the links; all edges between two nodes are one link, and so in one split.

    Args:
        links: the links.
        sizes: shares of training, validation and test links, that sum to 1.
        seed: of the draw.

    Raises:
        DataError: there are too few for every split.
    """
    split_of_link = np.zeros(len(links), dtype=np.int64)
    groups = divide_rows(np.arange(len(links)), tuple(sizes), np.random.default_rng(seed), "links")
    for part, group in enumerate(groups):
        split_of_link[group] = part
    return split_of_link


def named_splits(links: Links, words: RowLabels, seed: int) -> Int64[np.ndarray, " link"]:
    """The split of each link by the words of its edges; −1 where they are empty.

    Where no link is in val, a tenth of the training links becomes it.

    Args:
        links: those of the listed edges, and of the reverse edges that were added after them.
        words: train, val, test or nothing, for each edge.
        seed: of the draw of validation links.

    Raises:
        DataError: a word is none of these, two edges of one link lie in different splits, or no link is left for the
            training.
    """
    split_of_link, first = np.full(len(links), -1), np.full(len(links), -1)
    for edge, word in enumerate(words.names):
        link, part = links.of_edge[edge], WORDS.get(word.strip().lower(), -1)
        if word.strip() and part < 0:
            raise DataError(
                f"{words.place(edge)}: {word!r} is not a split, expected {', '.join(SPLITS)}, or nothing for none."
            )
        if link >= 0 and first[link] < 0:
            split_of_link[link], first[link] = part, edge
        elif link >= 0 and split_of_link[link] != part:
            first_edge = int(first[link])
            raise DataError(
                f"{words.place(edge)}: {word!r}, but {words.names[first_edge]!r} at {words.place(first_edge)}, which "
                "joins the same nodes; all edges of one link must lie in one split."
            )

    if not (train := np.flatnonzero(split_of_link == 0)).size:
        raise DataError(f"{words.place(0)}: neither this edge nor any other between two nodes is in train.")
    if not (split_of_link == 1).any():
        shares = (1 - CARVED_SHARE, CARVED_SHARE, 0.0)
        split_of_link[divide_rows(train, shares, np.random.default_rng(seed), "training links")[1]] = 1

    return split_of_link


def split_labels(edges: EdgeList, column: str) -> RowLabels:
    """The words in the column of the splits, which was read with the edges.

    Raises:
        SettingError: the edges are not in a table.
    """
    if edges.splits is None:
        raise SettingError(
            f"--splits-column {column} names a column of the table of edges, but the edges are in the "
            "file of the graph; leave it out to draw the splits."
        )
    return edges.splits


@dataclass(frozen=True, eq=False)
class PairData:
    """Rows with the names of two nodes, unusable ones included."""

    source: str
    """The file."""
    frame: pd.DataFrame
    """All cells as the strings they are in the file."""
    senders: Int64[np.ndarray, " row"]
    """The first node of each row, −1 where there is none."""
    receivers: Int64[np.ndarray, " row"]
    """The second."""
    status: list[str]
    """`ok`, or the column and the reason why a prediction is missing."""

    @property
    def usable(self) -> Bool[np.ndarray, " row"]:
        """True for rows that can be predicted."""
        return np.array([status == OK for status in self.status], dtype=bool)

    @property
    def num_rows(self) -> int:
        """The number of rows in the file."""
        return len(self.status)


def read_pairs_of_nodes(
    path: str, nodes: NodeNames, pair_columns: Sequence[str] = (), *, strict: bool = False
) -> PairData:
    """Read pairs of nodes.

    Args:
        path: .csv, .tsv, .csv.gz, .tsv.gz, .xlsx or .parquet.
        nodes: those of the graph by their names.
        pair_columns: sender and receiver in the training; where the table lacks them, as `ends_of` guesses.
        strict: stop at the first row that names no two nodes.

    Raises:
        DataError: the file cannot be used as a whole; or a row, or none of them, names two nodes.
    """
    cells = read_cells(path)
    share = share_of_nodes(cells, nodes)
    names = columns_of_ends(path, list(cells.frame.columns), (), share, pair_columns, are_of_training=True)
    if len(names) != 2:
        raise DataError(
            f"{path}: {plural(len(names), 'column names', 'columns name')} nodes, expected two: the nodes of each pair."
        )

    check_columns_exist(cells, names)
    ends = np.stack([nodes.places(cells.frame[column]) for column in names])
    status = [OK] * len(cells.frame)
    for row in np.flatnonzero((ends < 0).any(0) | (ends[0] == ends[1])).tolist():
        column = names[0] if ends[0, row] < 0 else names[1]
        name = cells.frame[column].iloc[row].strip()
        if (ends[:, row] >= 0).all():
            reason = f"{name!r} and itself are not a link"
        else:
            reason = f"{name!r} is not a node of the graph{nodes.hint(name)}" if name else "the cell names no node"
        status[row] = f"{column}: {reason}"
        if strict:
            line = cells.lines[row]
            raise DataError(f"{path}, line {line}, {status[row]}; fix the row, or drop --strict to skip it.")

    if all(row_status != OK for row_status in status):
        raise DataError(f"{path}, line {cells.lines[0]}, {status[0]}; none of the rows names two nodes.")
    return PairData(path, cells.as_written, ends[0], ends[1], status)
