"""A random forest over the features of a row, as tensors that are saved with the weights of a network."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.errors import DataError
from edgewise.graph import Batch
from edgewise.learn.companions.substructures import features_of

if TYPE_CHECKING:
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.tree._tree import Tree

MIN_PROBABILITY = 1e-4
"""The smallest probability: a forest that is certain may be wrong, and its logarithm must be finite."""


class Forest(nn.Module):
    """The average prediction of decision trees, for classes: p(x) = Σ_t p_t(the leaf of x in tree t) / trees.

    It learns nothing from gradients: `from_scikit_learn` takes trees that scikit-learn has fitted.

    Args:
        num_features: numbers of a row.
        num_nodes: inner nodes and leaves of all trees.
        num_trees: trees for each target.
        num_targets: how many targets have trees.
        num_outputs: outputs of a row.
        is_binary: whether an output is the log-odds of a target, else the logarithm of the probability of a class.

    Source: Breiman 2001.
    """

    feature: Tensor
    threshold: Tensor
    branches: Tensor
    roots: Tensor
    values: Tensor

    def __init__(
        self,
        num_features: int,
        num_nodes: int,
        num_trees: int,
        num_targets: int,
        num_outputs: int,
        *,
        is_binary: bool,
    ):
        super().__init__()
        self.num_features, self.num_trees, self.is_binary = num_features, num_trees, is_binary
        self.register_buffer("feature", torch.zeros(num_nodes, dtype=torch.int32))
        self.register_buffer("threshold", torch.zeros(num_nodes))
        self.register_buffer("branches", torch.zeros(num_nodes, 2, dtype=torch.int32))
        self.register_buffer("roots", torch.zeros(num_targets * num_trees, dtype=torch.int32))
        self.register_buffer("values", torch.zeros(num_nodes, num_outputs))

    @classmethod
    def from_scikit_learn(
        cls, forests: "Sequence[RandomForestClassifier]", num_classes: Sequence[int], *, is_binary: bool
    ) -> "Forest":
        """The trees of a `RandomForestClassifier` for each target, whose classes are numbers.

        Args:
            forests: one for each target, with as many trees each.
            num_classes: of each target.
            is_binary: as for the module.
        """
        num_outputs = len(forests) if is_binary else sum(num_classes)
        trees, starts, start = [], [], 0
        for target, forest in enumerate(forests):
            labels = forest.classes_.astype(np.int64)
            # For two classes, the output is that of the second.
            columns = np.where(labels == 1, target, num_outputs) if is_binary else labels + sum(num_classes[:target])
            for tree in forest.estimators_:
                trees.append(_arrays(tree.tree_, start, columns, num_outputs))
                starts.append(start)
                start += tree.tree_.node_count

        sizes = forests[0].n_features_in_, start, len(starts) // len(forests), len(forests), num_outputs
        module = cls(*sizes, is_binary=is_binary)
        module.roots.copy_(torch.tensor(starts))
        for name in trees[0]:
            getattr(module, name).copy_(torch.from_numpy(np.concatenate([tree[name] for tree in trees])))
        return module

    @classmethod
    def from_tensors(
        cls, tensors: Mapping[str, Tensor], num_features: int, num_targets: int, *, is_binary: bool
    ) -> "Forest":
        """A forest of the sizes that its saved tensors have, still empty."""
        num_nodes, num_outputs = tensors["values"].shape
        num_trees = len(tensors["roots"]) // num_targets
        return cls(num_features, num_nodes, num_trees, num_targets, num_outputs, is_binary=is_binary)

    def check(self) -> None:
        """Raise DataError unless every walk from a root ends at a leaf, and reads only numbers that a row has."""
        node_numbers = torch.arange(len(self.feature)).unsqueeze(1)
        is_leaf = (self.branches == node_numbers).all(1, keepdim=True)
        if not ((self.branches > node_numbers) | is_leaf).all() or not (self.branches < len(self.feature)).all():
            raise DataError("the branches of a tree do not lead on to its leaves.")
        for name, values, end in (
            ("roots", self.roots, len(self.feature)),
            ("feature", self.feature, self.num_features),
        ):
            if not ((values >= 0) & (values < end)).all() or not values.numel():
                raise DataError(f"forest.{name} is beyond 0 to {end - 1}.")
        if not ((self.values >= 0) & (self.values <= 1)).all():
            raise DataError("forest.values are not probabilities.")

    def forward(self, batch: Batch) -> Float[Tensor, " row output"]:
        """The logits of each row, whose probabilities are those of the forest."""
        return self.logits(features_of(batch))

    def logits(self, rows: Float[Tensor, " row feature"]) -> Float[Tensor, " row output"]:
        """The same of rows that are numbers."""
        nodes = self.roots.long().expand(len(rows), -1)
        while True:
            goes_right = rows.gather(1, self.feature[nodes].long()) > self.threshold[nodes]
            next_nodes = self.branches[nodes].gather(2, goes_right.long().unsqueeze(2)).squeeze(2).long()
            if torch.equal(next_nodes, nodes):
                break
            nodes = next_nodes
        probabilities = (self.values[nodes].sum(1) / self.num_trees).clamp(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
        return probabilities.logit() if self.is_binary else probabilities.log()


def _arrays(tree: "Tree", start: int, columns: np.ndarray, num_outputs: int) -> dict[str, np.ndarray]:
    """The buffers of one tree, whose nodes are counted from `start`; class c is output `columns[c]`, or beyond all."""
    node_numbers = np.arange(start, start + tree.node_count)
    branches = np.stack([tree.children_left, tree.children_right], axis=1) + start
    is_leaf = tree.children_left < 0
    branches[is_leaf] = node_numbers[is_leaf, None]  # a leaf leads to itself
    values = np.zeros((tree.node_count, num_outputs + 1))
    values[:, columns] = tree.value[:, 0] / tree.value[:, 0].sum(axis=1, keepdims=True)
    feature = np.where(is_leaf, 0, tree.feature)
    return {"feature": feature, "threshold": tree.threshold, "branches": branches, "values": values[:, :num_outputs]}
