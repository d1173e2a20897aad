"""How well attributions recover what is known: the contributions of atoms to a target that is their sum."""

from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float

from edgewise.explain.occlusion import occlude
from edgewise.rank import spearman
from edgewise.tasks.molecules.attention import attention_of
from edgewise.tasks.molecules.explain import changes_of
from edgewise.tasks.molecules.perturbation import Question, Row
from edgewise.tasks.molecules.trained import TrainedProperty
from edgewise.trace import Trace
from edgewise.train.device import cpu_threads

STEPS = 16
"""Of integrated gradients: half of what an explanation takes, as an order needs no sum to the last digit."""


def recovery(trained: TrainedProperty, contributions: Mapping[str, Float[np.ndarray, " atom"]]) -> dict[str, float]:
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
        row = Row.of(trained, (smiles,))
        trace = Trace()
        with torch.no_grad(), cpu_threads(trained.threads):
            trained.members[0].eval()(row.batch, trace)
        attention = attention_of(row, trained.members[0], trace, trained.columns.smiles_columns)
        question = Question(trained, row.batch, 0, None)
        changes = changes_of(question, row, occlude(question.without_bonds, len(row.bonds)), STEPS)
        for each in (*changes, *attention.shares):
            found.setdefault(each.name, []).append(float(np.nan_to_num(spearman(each.values, true))))
    means = {name: float(np.mean(each)) for name, each in found.items()}
    return dict(sorted(means.items(), key=lambda item: -item[1]))
