"""Cross-validation over the nodes of one graph: folds of the nodes that have a target."""

from collections.abc import Iterator, Sized

import numpy as np
from numpy.typing import ArrayLike

from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.estimators.labels import has_target, labels_of, plain_array


class NodeKFold:
    """K folds of the nodes with a target; the other nodes stay in the graph, but in no fold.

    Labels are stratified: each fold has about the same share of each class. Numbers are drawn at random.

        GridSearchCV(NodeClassifier(), {"model": ["gcn", "gat"]}, cv=NodeKFold(5)).fit(GraphNodes(graph), y)

    Args:
        n_splits: The number of folds, at least 2.
        random_state: The seed of the shuffle.
    """

    def __init__(self, n_splits: int = 5, *, random_state: int = 0) -> None:
        if n_splits < 2:
            raise SettingError(f"NodeKFold: n_splits is {n_splits}; expected at least 2.")
        self.n_splits, self.random_state = n_splits, random_state

    def split(self, data: Sized, y: object, groups: ArrayLike | None = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """The rows for training and the rows for the test of each fold.

        Args:
            data: `GraphNodes`, or anything with as many rows.
            y: (node) labels or (node) or (node, target) numbers, missing as in `NodeClassifier.fit`.
            groups: (node); nodes of one group are in one fold.

        Raises:
            DataError: Fewer nodes have a target than there are folds, or y has another length.
        """
        from sklearn.model_selection import GroupKFold, KFold, StratifiedGroupKFold, StratifiedKFold

        y = plain_array(y)
        if len(y) != len(data):
            raise DataError(f"NodeKFold: y has {plural(len(y), 'row')}, but there are {len(data)} nodes.")
        rows = np.flatnonzero(has_target(y))
        if len(rows) < self.n_splits:
            raise DataError(f"NodeKFold: {plural(len(rows), 'node has', 'nodes have')} a target, fewer than folds.")
        is_number = y.ndim == 2 or np.issubdtype(y.dtype, np.floating)
        labels = None if is_number else labels_of(y)[rows].astype(str)
        seed = self.random_state
        if groups is not None:
            groups = np.asarray(groups)[rows]
            splitter = GroupKFold(self.n_splits) if is_number else StratifiedGroupKFold(self.n_splits)
            folds = splitter.split(rows, labels, groups)
        else:
            splitter_type = KFold if is_number else StratifiedKFold
            folds = splitter_type(self.n_splits, shuffle=True, random_state=seed).split(rows, labels)
        for train, test in folds:
            yield rows[train], rows[test]

    def get_n_splits(self, data: object = None, y: object = None, groups: object = None) -> int:
        """How many folds there are."""
        return self.n_splits

    def __repr__(self) -> str:
        return f"NodeKFold({self.n_splits}, random_state={self.random_state})"
