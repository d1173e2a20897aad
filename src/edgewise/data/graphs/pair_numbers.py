"""All pairs of different nodes, numbered, so that they can be looked up, and drawn from where no link is."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64


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
        """Sender and receiver of each pair; the smaller of both first, where it goes both ways."""
        if self.is_directed:
            senders, rest = np.divmod(numbers, self.num_nodes - 1)
            return senders, rest + (rest >= senders)
        larger = ((1 + np.sqrt(8.0 * numbers + 1)) / 2).astype(np.int64)
        # The root is rounded: of very large numbers it may lie one off.
        larger -= larger * (larger - 1) // 2 > numbers
        larger += larger * (larger + 1) // 2 <= numbers
        return numbers - larger * (larger - 1) // 2, larger

    def outside(
        self, known: Int64[np.ndarray, " known"], places: Int64[np.ndarray, " pair"]
    ) -> Int64[np.ndarray, " pair"]:
        """The numbers that stand at some places in the ascending row of those that are not known.

        The r-th number that is missing from k_0 < k_1 < … is r + |{i : k_i − i ≤ r}|: as many known ones stand before
        it. So a draw of places is a draw of pairs, exactly uniform, however many are known.

        Args:
            known: ascending, each once.
            places: from 0 to below total − known.

        Cost: O(pair · log known).

        >>> PairNumbers(4, False).outside(np.array([0, 2, 3]), np.array([0, 1, 2])).tolist()
        [1, 4, 5]
        """
        return places + np.searchsorted(known - np.arange(len(known)), places, side="right")
