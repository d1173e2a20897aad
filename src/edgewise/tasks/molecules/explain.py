"""One row of molecules, explained: what is told of it, where the model attends, and what changes the prediction."""

from collections.abc import Sequence

import numpy as np
import torch
from jaxtyping import Float

from edgewise.data.molecules.fragments import COMPONENT, fragments
from edgewise.explain.faithfulness import faithfulness
from edgewise.explain.gradients import gradient_times_input, integrated_gradients
from edgewise.explain.occlusion import occlude, share_links
from edgewise.explanation import Attribution, Explanation, Link, Part
from edgewise.tasks.molecules.attention import attention_of
from edgewise.tasks.molecules.curves import curves_of
from edgewise.tasks.molecules.perturbation import Question, Row
from edgewise.tasks.molecules.trained import TrainedProperty
from edgewise.tasks.targets import label_number, target_number, told_of
from edgewise.trace import Trace
from edgewise.train.device import cpu_threads

REMOVAL = (
    "An atom is taken away with its bonds; the features of its neighbors (their hydrogens, their degree, their rings) "
    "stay as they were."
)


def explain_molecule(
    trained: TrainedProperty,
    smiles: Sequence[str],
    conditions: Sequence[float] = (),
    *,
    target: str | None = None,
    label: str | None = None,
) -> Explanation:
    """What a trained ensemble tells of one row, and why.

    Units are the atoms of all molecules, in the order of the SMILES as they came. The number that is explained is the
    target in its own unit, or the probability of a class; it is the average over the members of the ensemble, and so
    is every effect. Where an ensemble attends is said of its first member: heads have no counterpart in another member.

    Args:
        trained: Who predicts.
        smiles: One molecule for each SMILES column of the training; any writing.
        conditions: One number for each condition of the training.
        target: Which target is explained; the first where None.
        label: The probability of which class is explained; the predicted one where None.

    Returns:
        Effects of atoms, bonds and fragments by taking them away; attention, rollout and gradients beside them; curves
        for the conditions; and whether the attributions can be believed.

    Raises:
        DataError: A SMILES or a condition cannot be used, or their number is not that of the training.
        SettingError: There is no such target or class.

    Cost: One prediction an atom, a bond and a fragment, 38 for each way of attribution, and 33 with gradients.
    """
    row = Row.of(trained, smiles, conditions)
    columns = trained.columns
    trace = Trace()
    told = told_of(trained, trained.said(_outputs(trained, row, trace), np.zeros(1, dtype=np.int64), 1))
    place = target_number(trained, target)
    number = label_number(trained, place, label, told[place])
    question = Question(trained, row.batch, place, number)
    attention = attention_of(row, trained.members[0], trace, columns.smiles_columns)
    curves, beyond = curves_of(row, question, columns.descriptors_columns)
    bond_effects = occlude(question.without_bonds, len(row.bonds))
    attributions = (*changes_of(question, row, bond_effects), *attention.shares)
    name = columns.target_columns[place]
    return Explanation(
        kind="molecule",
        title=".".join(row.smiles),
        sources=dict(zip(columns.smiles_columns, row.smiles, strict=True)),
        told=told,
        explained=name if number is None else f"{name} = {trained.classes[name][number]}",
        units=row.units,
        links=tuple(Link(*ends, effect) for ends, effect in zip(row.bonds, bond_effects.tolist(), strict=True)),
        layers=attention.layers,
        attributions=attributions,
        parts=_parts(row, question),
        curves=curves,
        faithfulness=faithfulness(question.without_atoms, attributions, row.num_atoms),
        notes=(*_notes(trained), *attention.notes, *beyond),
    )


def changes_of(
    question: Question, row: Row, bond_effects: Float[np.ndarray, " bond"], steps: int = 32
) -> tuple[Attribution, ...]:
    """How the explained number answers to each atom: to its absence, and to its features, in so many steps."""
    occlusion = occlude(question.without_atoms, row.num_atoms)
    with cpu_threads(question.trained.threads):
        features = question.batch.node_features
        integrated = integrated_gradients(question.of_features, features, steps=steps)
        gradient = gradient_times_input(question.of_features, features)
    return (
        Attribution(
            "occlusion",
            occlusion,
            about="The prediction less the prediction without the atom and its bonds.",
        ),
        Attribution(
            "shared occlusion",
            share_links(occlusion, row.bonds, bond_effects),
            about="Occlusion less half of what each bond of the atom does: occlusion counts with both what two bonded "
            "atoms do together; here each has half.",
        ),
        Attribution(
            "integrated gradients",
            integrated,
            about="The features of each atom times the gradient, along the way from atoms without any feature; the sum "
            "over atoms is the prediction less that of the same bonds between such atoms.",
        ),
        Attribution(
            "gradient × input",
            gradient,
            about="The features of each atom times the gradient: what a small change of them would do.",
        ),
    )


def _outputs(trained: TrainedProperty, row: Row, trace: Trace) -> Float[np.ndarray, " member 1 output"]:
    """What every member says of the row; the first writes down where it attends."""
    with torch.no_grad(), cpu_threads(trained.threads):
        said = [
            trained.finish(member.eval()(row.batch, trace if place == 0 else None).double())
            for place, member in enumerate(trained.members)
        ]
    return torch.stack(said).numpy()


def _parts(row: Row, question: Question) -> tuple[Part, ...]:
    """What the molecules are made of; the whole row is no part of itself."""
    found = [
        (part, tuple(first + atom for atom in part.atoms))
        for molecule, first in zip(row.molecules, row.first_atoms, strict=False)
        for part in fragments(molecule)
    ]
    found = [(part, atoms) for part, atoms in found if part.kind != COMPONENT or len(atoms) < row.num_atoms]
    effects = occlude(question.without_atoms, row.num_atoms, [atoms for _, atoms in found]).tolist()
    return tuple(
        Part(part.name, part.kind, atoms, effect) for (part, atoms), effect in zip(found, effects, strict=True)
    )


def _notes(trained: TrainedProperty) -> list[str]:
    """What stays while something is taken away, and of whom the weights are."""
    notes = [REMOVAL]
    if trained.with_descriptors:
        notes.append(
            "The descriptors of the whole molecule stay, too: what the model reads from them is ascribed to no atom."
        )
    if trained.settings.needs_coordinates:
        notes.append("The atoms that are left stay where they were.")
    if len(trained.members) > 1:
        notes.append(
            f"Attention is that of the first of {len(trained.members)} models; predictions and effects are the mean "
            "of all."
        )
    return notes
