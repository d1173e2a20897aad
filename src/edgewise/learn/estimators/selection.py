"""Cross-validation over the nodes of one graph: folds of the nodes that have a target."""

from collections.abc import Iterator, Sized

import numpy as np
from numpy.typing import ArrayLike

from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.estimators.labels import has_label, is_known, plain_array
from edgewise.learn.estimators.state import warn_caller


class NodeKFold:
    """K folds of the nodes with a target; the other nodes stay in the graph, but in no fold.

    Labels are stratified: each fold has about the same share of each class. Numbers are drawn at random: those with
    fractions, those of several targets, and those of which none occurs as often as there are folds.

        GridSearchCV(NodeClassifier(), {"model": ["gcn", "gat"]}, cv=NodeKFold(5)).fit(GraphNodes(graph), y)

    Args:
        n_splits: The number of folds, at least 2.
        random_state: The seed of the shuffle. Of groups it is which of those alike, in size and labels, share a fold.
    """

    def __init__(self, n_splits: int = 5, *, random_state: int = 0) -> None:
        if n_splits < 2:
            raise SettingError(f"NodeKFold: n_splits is {n_splits}; expected at least 2.")
        self.n_splits, self.random_state = n_splits, random_state

    def split(self, data: Sized, y: object, groups: ArrayLike | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The rows for training and the rows for the test of each fold.

        Args:
            data: `GraphNodes`, or anything with as many rows.
            y: (node) or (node, target), labels or numbers, missing as in `NodeClassifier.fit`. A warning says how many
                nodes are in no fold because −1 is read as no label; −1.0 is a number.
            groups: (node); nodes of one group are in one fold.

        Raises:
            DataError: Fewer nodes have a target than there are folds, or y has another length.
        """
        from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

        y = plain_array(y)
        if len(y) != len(data):
            raise DataError(f"NodeKFold: y has {plural(len(y), 'row')}, but there are {len(data)} nodes.")
        rows, labels = _targets(y, self.n_splits)
        if len(rows) < self.n_splits:
            raise DataError(f"NodeKFold: {plural(len(rows), 'node has', 'nodes have')} a target, fewer than folds.")
        seed = self.random_state
        if groups is not None:
            groups = _shuffled_groups(np.asarray(groups)[rows], seed)
            splitter = GroupKFold(self.n_splits) if labels is None else StratifiedGroupKFold(self.n_splits)
            folds = splitter.split(rows, labels, groups)
        else:
            splitter_type = KFold if labels is None else StratifiedKFold
            folds = splitter_type(self.n_splits, shuffle=True, random_state=seed).split(rows, labels)
        for train, test in folds:
            yield rows[train], rows[test]

    def get_n_splits(self, data: object = None, y: object = None, groups: object = None) -> int:
        """How many folds there are."""
        return self.n_splits

    def __repr__(self) -> str:
        return f"NodeKFold({self.n_splits}, random_state={self.random_state})"


def _shuffled_groups(groups: np.ndarray, seed: int) -> np.ndarray:
    """The group of each row by a number, in a random order: of groups alike, the folds take the first numbers first."""
    from sklearn.utils import check_array

    names, group_of_row = np.unique(check_array(groups, ensure_2d=False, dtype=None), return_inverse=True)
    numbers: np.ndarray = np.random.default_rng(seed).permutation(len(names))[group_of_row]
    return numbers


def _targets(y: np.ndarray, n_splits: int) -> tuple[np.ndarray, np.ndarray | None]:
    """The nodes with a target, and their labels as text; None where the targets are numbers."""
    y = y[:, 0] if y.ndim == 2 and y.shape[1] == 1 else y
    if y.ndim > 1:
        return np.flatnonzero(np.any([has_label(column) for column in y.T], axis=0)), None
    has_value = has_label(y)
    values = np.array(y[has_value].tolist())  # one type, where a gap makes objects of whole numbers
    has_target = has_value.copy()
    if values.dtype.kind == "i":
        has_target[has_value] = is_known(values)
        values = np.array(y[has_target].tolist())

    is_label = values.dtype.kind in "biuU" or (values.dtype.kind == "f" and not (values % 1).any())
    if not is_label or np.unique(values, return_counts=True)[1].max(initial=0) < n_splits:
        return np.flatnonzero(has_value), None
    if num_left_out := int((has_value & ~has_target).sum()):
        warn_caller(
            f"NodeKFold: {plural(num_left_out, 'node has', 'nodes have')} the label -1, read as no label, and "
            f"{'is' if num_left_out == 1 else 'are'} in no fold; where -1 is a number, give -1.0 with the others."
        )
    return np.flatnonzero(has_target), values.astype(str)
