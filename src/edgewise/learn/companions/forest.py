"""A random forest over the features of a row, as tensors that are saved with the weights of a network."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float, Int64
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
        num_classes: of each target.
        is_binary: whether an output is the log-odds of a target, else the logarithm of the probability of a class.

    Cost: O(row · tree · depth) time, O(node · classes of the largest target) memory.
    Source: Breiman 2001.
    """

    feature: Tensor
    threshold: Tensor
    branches: Tensor
    roots: Tensor
    values: Tensor

    def __init__(
        self, num_features: int, num_nodes: int, num_trees: int, num_classes: Sequence[int], *, is_binary: bool
    ):
        super().__init__()
        self.num_features, self.num_trees, self.is_binary = num_features, num_trees, is_binary
        self.num_values = [1] * len(num_classes) if is_binary else list(num_classes)
        self.register_buffer("feature", torch.zeros(num_nodes, dtype=torch.int32))
        self.register_buffer("threshold", torch.zeros(num_nodes))
        self.register_buffer("branches", torch.zeros(num_nodes, 2, dtype=torch.int32))
        self.register_buffer("roots", torch.zeros(len(num_classes) * num_trees, dtype=torch.int32))
        self.register_buffer("values", torch.zeros(num_nodes, max(self.num_values)))

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
        num_values = 1 if is_binary else max(num_classes)
        trees, starts, start = [], [], 0
        for forest in forests:
            labels = forest.classes_.astype(np.int64)
            # Of two classes, the value is the probability of the second.
            columns = np.where(labels == 1, 0, num_values) if is_binary else labels
            for tree in forest.estimators_:
                trees.append(_arrays(tree.tree_, start, columns, num_values))
                starts.append(start)
                start += tree.tree_.node_count

        num_trees = len(starts) // len(forests)
        module = cls(forests[0].n_features_in_, start, num_trees, num_classes, is_binary=is_binary)
        module.roots.copy_(torch.tensor(starts))
        for name in trees[0]:
            getattr(module, name).copy_(torch.from_numpy(np.concatenate([tree[name] for tree in trees])))
        return module

    @classmethod
    def from_tensors(
        cls, tensors: Mapping[str, Tensor], num_features: int, num_classes: Sequence[int], *, is_binary: bool
    ) -> "Forest":
        """A forest of the sizes that its saved tensors have, still empty."""
        num_trees = len(tensors["roots"]) // len(num_classes)
        return cls(num_features, len(tensors["values"]), num_trees, num_classes, is_binary=is_binary)

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
        of_trees = self.values[self.leaves(rows)].unflatten(1, (-1, self.num_trees)).sum(2)
        of_targets = [values[:, :count] for values, count in zip(of_trees.unbind(1), self.num_values, strict=True)]
        probabilities = torch.cat(of_targets, 1).div(self.num_trees).clamp(MIN_PROBABILITY, 1 - MIN_PROBABILITY)
        return probabilities.logit() if self.is_binary else probabilities.log()

    def leaves(self, rows: Float[Tensor, " row feature"]) -> Int64[Tensor, " row tree"]:
        """The leaf that each row reaches in each tree."""
        from edgewise.learn.companions.trees import find_leaves

        leaves = torch.empty(len(rows), len(self.roots), dtype=torch.int64)
        tables = rows.detach().float(), self.feature, self.threshold, self.branches, self.roots
        find_leaves(*(table.cpu().contiguous().numpy() for table in tables), leaves.numpy())
        return leaves.to(rows.device)


def _arrays(tree: "Tree", start: int, columns: np.ndarray, num_values: int) -> dict[str, np.ndarray]:
    """The buffers of one tree, whose nodes are counted from `start`; class c is value `columns[c]`, or beyond all."""
    node_numbers = np.arange(start, start + tree.node_count)
    branches = np.stack([tree.children_left, tree.children_right], axis=1) + start
    is_leaf = tree.children_left < 0
    branches[is_leaf] = node_numbers[is_leaf, None]  # a leaf leads to itself
    values = np.zeros((tree.node_count, num_values + 1))
    values[:, columns] = tree.value[:, 0] / tree.value[:, 0].sum(axis=1, keepdims=True)
    feature = np.where(is_leaf, 0, tree.feature)
    return {"feature": feature, "threshold": tree.threshold, "branches": branches, "values": values[:, :num_values]}
