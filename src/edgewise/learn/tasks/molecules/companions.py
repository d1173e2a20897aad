"""The companions of molecules: a random forest for classes, a Gaussian process for numbers.

Both read the descriptors of molecules, counts of their substructures, and conditions.
"""

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from torch import Tensor

from edgewise.graph import Batch
from edgewise.learn.companions import FOREST, GAUSSIAN_PROCESS
from edgewise.learn.companions.forest import Forest
from edgewise.learn.companions.gaussian_process import GaussianProcess
from edgewise.learn.companions.substructures import features_of, with_substructures
from edgewise.learn.outputs import Targets
from edgewise.learn.readers.molecules.data import MoleculeData
from edgewise.learn.tables.split import evenly_spaced
from edgewise.learn.tasks.companions import CompanionKind, FittingRows, Fresh, target_weights
from edgewise.learn.tasks.molecules.encoder import (
    ROWS_IN_MEMORY,
    FittedMolecules,
    MoleculesEncoder,
)
from edgewise.learn.training.baseline import fit_forest, num_trees

NUM_SUBSTRUCTURES = 2048
"""Kinds of substructures that are counted."""
FOREST_ROWS = 10_000
"""Training rows from which on a network of classes stands alone: the sets that were compared have up to 2,000."""
PROCESS_ROWS = 9216
"""Rows that a Gaussian process learns from at most: a covariance of so many takes 0.7 GB, and seconds to solve."""


def counting(encoder: MoleculesEncoder) -> MoleculesEncoder:
    """The encoder, which counts substructures, too."""
    return replace(encoder, num_substructures=NUM_SUBSTRUCTURES)


def known(batch: object) -> np.ndarray:
    """`(row, feature)`: what trees read of a batch."""
    assert isinstance(batch, Batch)
    return features_of(batch).numpy()


def grow_forest(fitted: FittedMolecules, data: MoleculeData, fitting: FittingRows) -> Fresh:
    """A random forest over all that is known of some rows."""

    def grown(rows: np.ndarray) -> Forest:
        batches = fitted.batches(data)
        parts = [rows[start : start + ROWS_IN_MEMORY] for start in range(0, len(rows), ROWS_IN_MEMORY)]
        features = np.concatenate([known(batches.batch(part)) for part in parts])
        # Most substructures are rare, and a tree tries few of them at a time.
        num_classes = fitted.num_classes
        trees = num_trees(len(rows), math.isqrt(features.shape[1]), len(num_classes))
        targets, weights = data.rows.targets[rows], target_weights(data, rows, fitting.loss)
        forests = fit_forest(features, targets, weights, num_classes, seed=fitting.recipe.seed, trees=trees)
        return Forest.from_scikit_learn(forests.models, num_classes, is_binary=fitted.task_type == "classification")

    more = evenly_spaced(fitting.validation, max(0, FOREST_ROWS - len(fitting.rows)))
    return Fresh(grown(fitting.rows), lambda: grown(np.union1d(fitting.rows, more)))


def fit_process(fitted: FittedMolecules, data: MoleculeData, fitting: FittingRows) -> Fresh:
    """The Gaussian process of some rows; of many, of some that are chosen at random."""
    encoder, scale, rows = fitted.encoder, fitted.output.scale, fitting.rows
    assert scale is not None
    most, random = max_process_rows(data.rows.targets.shape[1]), np.random.default_rng(fitting.recipe.seed)
    if len(rows) > most:
        rows = np.sort(random.permutation(rows)[:most])
    validation = np.sort(random.permutation(fitting.validation)[: most - len(rows)])
    rows = np.concatenate([rows, validation])

    store = data.store.with_scale(encoder.scales.feature.transform)
    batch = store.batch(data.graph_of_row[rows], encoder.scales.condition.transform(data.conditions[rows]))
    process = GaussianProcess.fit(
        with_substructures(batch, encoder.num_substructures),
        scale.transform(data.rows.targets[rows]),
        data.rows.weights[rows],
        fitting.recipe.seed,
        num_validation=len(validation),
        limits=encoder.limits_of_outputs,
    )

    def with_validation() -> GaussianProcess:
        process.learn_later()
        return process

    return Fresh(process, with_validation)


def max_process_rows(num_targets: int) -> int:
    """The most rows that a Gaussian process learns from: the cost of its Cholesky factors, rows³ · targets, is that of
    `PROCESS_ROWS` with one target."""
    return int(PROCESS_ROWS / num_targets ** (1 / 3))


def empty_forest(encoder: MoleculesEncoder, tensors: Mapping[str, Tensor], output: Targets) -> Forest:
    """A forest of the sizes that its saved tensors have."""
    is_binary = output.task_type == "classification"
    return Forest.from_tensors(tensors, encoder.row_sizes.num_features, output.num_classes, is_binary=is_binary)


def empty_process(encoder: MoleculesEncoder, tensors: Mapping[str, Tensor], output: Targets) -> GaussianProcess:
    """A process of the sizes that its saved tensors have."""
    return GaussianProcess.from_tensors(tensors, encoder.row_sizes, output.num_outputs, encoder.limits_of_outputs)


FOREST_OF_CLASSES = CompanionKind(
    name=FOREST,
    fit=grow_forest,
    empty=empty_forest,
    explained="of a prediction comes from a random forest over these descriptors, the conditions and counts of "
    "substructures.",
    encoder_type=MoleculesEncoder,
    encoder=counting,
)
PROCESS_OF_NUMBERS = CompanionKind(
    name=GAUSSIAN_PROCESS,
    fit=fit_process,
    empty=empty_process,
    explained="of a prediction comes from a Gaussian process over these descriptors, the conditions and counts of "
    "substructures.",
    encoder_type=MoleculesEncoder,
    encoder=counting,
)
