"""How well attributions recover what is known: the contributions of atoms to a target that is their sum."""

from collections.abc import Mapping

import numpy as np
from jaxtyping import Float

from edgewise.explain.methods import METHODS
from edgewise.rank import spearman
from edgewise.tasks.molecules.explainable import MoleculeItem
from edgewise.tasks.molecules.row import Row
from edgewise.tasks.molecules.trained import FittedProperty
from edgewise.train.device import cpu_threads


class QuickItem(MoleculeItem):
    """Half of the points of an integral: an order needs no sum to the last digit."""

    points = 16  # type: ignore[assignment]


def recovery(trained: FittedProperty, contributions: Mapping[str, Float[np.ndarray, " atom"]]) -> dict[str, float]:
    """Spearman's rank correlation over the atoms of a molecule of each attribution and the truth, mean over molecules.

    Args:
        trained: A model with one target and one SMILES column.
        contributions: What each atom of a molecule adds to the target, by the SMILES of the molecule. Molecules whose
            atoms all add the same say nothing and are left out.

    Returns:
        The mean by the name of the attribution, the best first; where an attribution has no order, as it gives all
        atoms of a molecule the same number, it has recovered nothing there, which counts as 0.
    """
    found: dict[str, list[float]] = {}
    for smiles, true in contributions.items():
        if len(np.unique(true)) < 2:
            continue
        item = QuickItem(trained, Row.of(trained, (smiles,)))
        with cpu_threads(trained.threads):
            attributions = [METHODS[name].attribute(item) for name in item.methods]
        for each in attributions:
            if each is not None:
                found.setdefault(each.name, []).append(float(np.nan_to_num(spearman(each.values, true))))
    means = {name: float(np.mean(each)) for name, each in found.items()}
    return dict(sorted(means.items(), key=lambda item: -item[1]))
