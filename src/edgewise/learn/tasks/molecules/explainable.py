"""Rows of molecules and numbers, as the methods of explanation and an `Explainer` see them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor, nn

from edgewise.errors import DataError
from edgewise.explain.explainable import Attended, Attention, Differentiable, Explainable, UnitLinks, each_alone
from edgewise.explain.explanation import Curve, Layer, Part, TargetPrediction
from edgewise.explain.methods import METHODS
from edgewise.explain.numbers import formatted
from edgewise.explain.rank import spearman
from edgewise.graph import Batch, Supervision, Trace, Weights
from edgewise.learn.companions import COMPANIONS
from edgewise.learn.companions.stack import network_of
from edgewise.learn.companions.substructures import with_substructures
from edgewise.learn.files import JsonObject
from edgewise.learn.networks.molecule_transformer import MoleculeTransformer
from edgewise.learn.networks.property import GraphEncoder
from edgewise.learn.readers.graphs.union import copies
from edgewise.learn.readers.molecules.bounded import conformers
from edgewise.learn.readers.molecules.conformer import conformer_status
from edgewise.learn.readers.molecules.data import MoleculeData, molecules_from_arrays
from edgewise.learn.readers.molecules.fragments import COMPONENT, fragments
from edgewise.learn.readers.molecules.molecule import as_smiles, canonical_smiles
from edgewise.learn.tables.cell import OK
from edgewise.learn.tasks.explainable import ExplainableTask, explaining, targets_of_table
from edgewise.learn.tasks.explainable import Row as Values
from edgewise.learn.tasks.explained import Explained, target_predictions
from edgewise.learn.tasks.molecules.curves import curves_of
from edgewise.learn.tasks.molecules.encoder import FittedMolecules
from edgewise.learn.tasks.molecules.removal import ChangedRow
from edgewise.learn.tasks.molecules.row import Row
from edgewise.learn.tasks.molecules.task import TABLE
from edgewise.learn.training.device import cpu_threads

ABOUT = "How much {} attends to each atom{}; a share of each molecule's attention."


def attention_of(row: Row, model: torch.nn.Module, trace: Trace, columns: tuple[str, ...]) -> Attention:
    """The attention that a model recorded while it predicted a row.

    Args:
        row: the row.
        model: one member of the ensemble.
        trace: what it recorded.
        columns: what the molecules of a row are called.
    """
    if isinstance(model.encoder, MoleculeTransformer):
        return _of_transformer(row, trace)
    *between, readout = trace.weights
    layers = [_layer(f"layer {number}", weights) for number, weights in enumerate(between, start=1)]
    firsts = row.first_atoms
    for number, column in enumerate(columns):
        is_of_molecule = (readout.senders >= firsts[number]) & (readout.senders < firsts[number + 1])
        part = Weights(
            readout.senders[is_of_molecule],
            readout.receivers[is_of_molecule] * 0,
            readout.values[:, is_of_molecule],
            row.num_atoms,
            1,
        )
        name = "readout" if len(columns) == 1 else f"readout of {column}"
        layers.append(replace(_layer(name, part), is_readout=True))
    share = readout.values.double().mean(0)
    share = share.new_zeros(row.num_atoms).index_add(0, readout.senders, share)
    notes, through = [], between
    direct: torch.Tensor | None = share
    if isinstance(model.encoder, GraphEncoder) and model.encoder.settings.spec.over_edges:
        direct, layers = None, layers[: len(between)]  # the mean reads out all atoms alike: it says nothing of them
        if between:
            notes.append("Bonds attend to the bonds before them: a weight leads two bonds far. The mean reads out.")
        else:
            notes.append("Messages go along bonds and atoms are read out by their mean: nothing attends.")
    elif not between:
        notes.append(
            "The layers are convolutions, which weigh neighbors by their number alone: only the readout attends."
        )
    elif any(not bool((weights.values >= 0).all()) for weights in between):
        notes.append("Some weights are negative, so they are not shares and rollout is undefined.")
        through = []
    about = ABOUT.format("the readout", ", mean of its heads"), ABOUT.format("the readout", " through all layers")
    return Attention(layers, [Attended(direct, share, through)], *about, notes=notes)


def _of_transformer(row: Row, trace: Trace) -> Attention:
    """The same where atoms attend to all atoms and a dummy, and the readout is their mean."""
    offsets = row.batch.graph.offsets
    assert offsets is not None
    graphs = torch.repeat_interleave(torch.arange(len(offsets) - 1), offsets.diff())
    # Each dummy stands after the atoms of its molecule.
    of_atom = torch.arange(row.num_atoms) + graphs
    unit = torch.full((row.num_atoms + len(offsets) - 1,), -1).scatter(0, of_atom, torch.arange(row.num_atoms))
    sizes, layers = offsets.diff() + 1, []
    evenly = torch.repeat_interleave(1 / sizes.double(), sizes)
    for number, weights in enumerate(trace.weights, start=1):
        atoms = (unit[weights.senders] >= 0) & (unit[weights.receivers] >= 0)
        ends = unit[weights.senders[atoms]], unit[weights.receivers[atoms]]
        part = Weights(*ends, weights.values[:, atoms], row.num_atoms, row.num_atoms)
        layers.append(_layer(f"layer {number}", part))
    last = trace.weights[-1]
    seen = evenly[last.receivers] * last.values.double().mean(0)
    direct = torch.zeros(len(unit), dtype=torch.float64).index_add(0, last.senders, seen)
    notes = [
        "The weights are those of the attention, before distances and bonds are mixed in.",
        "Each molecule has a dummy atom, too, which is not shown: the attention to it is missing in the sums.",
        "The atoms are read out by their mean: the readout does not attend.",
    ]
    attended = Attended(direct, evenly, trace.weights, positions=of_atom)
    about = (
        ABOUT.format("the mean of all atoms", " in the last layer, mean of its heads"),
        ABOUT.format("the mean of all atoms", " through all layers"),
    )
    return Attention(layers, [attended], *about, notes=notes)


def _layer(name: str, weights: Weights) -> Layer:
    ends = weights.senders.numpy(), weights.receivers.numpy()
    return Layer(name, *ends, weights.values.detach().double().numpy())


GRADIENT_ATOMS = 2**12
"""Atoms that are computed together where gradients go back through them."""
METHODS_OF_MOLECULES = ("removal", "attention", "rollout")
"""The methods that are applied by default."""
COMPARED_METHODS = (
    *METHODS_OF_MOLECULES,
    "occlusion",
    "shared occlusion",
    "integrated gradients",
    "gradient × input",
)
"""The methods that `recovery` compares."""
BUDGET = 24
"""Predictions that the curves of faithfulness take: each is of another molecule, whose descriptors are computed."""
REMOVAL = (
    "Where atoms or bonds are removed, hydrogen takes their place, and the whole model predicts the molecule that is "
    "left: its graph, its descriptors and its substructures are made again."
)


@dataclass(frozen=True, eq=False)
class ExplainedRow:
    """One row of molecules, and predictions without some of it."""

    trained: FittedMolecules
    """The ensemble."""
    row: Row
    """The molecules and numbers."""
    explained: Explained
    """The number that is explained."""
    traced: Trace
    """What the first member recorded."""
    molecules: Sequence[tuple[str, ...]]
    """The molecules in one writing, as the training rows are known."""
    similarities: Mapping[str, np.ndarray]
    """How similar the row is to training rows."""

    @property
    def num_atoms(self) -> int:
        """Atoms of all molecules."""
        return self.row.num_atoms

    @cached_property
    def changed(self) -> ChangedRow:
        """The row with other molecules."""
        return ChangedRow(self.trained, self.row, self.explained)

    def _copies(self, atoms: np.ndarray) -> Batch:
        """Copies of the row, whose substructures are counted again."""
        batch, count = copies(self.row.batch, atoms), self.trained.encoder.num_substructures
        return with_substructures(batch, count) if count else batch

    def links(self) -> UnitLinks:
        """Bonds; bond b is edges 2b and 2b + 1."""
        bonds = self.row.bonds
        return UnitLinks(
            bonds, [np.array([2 * bond, 2 * bond + 1]) for bond in range(len(bonds))], self.changed.without_edges
        )

    def differentiable(self) -> list[Differentiable]:
        """By the features of the atoms."""
        words = ("the features of the atom", "atoms without features")
        features, batch_size = self.row.batch.graph.node_features, max(1, GRADIENT_ATOMS // max(1, self.num_atoms))
        assert isinstance(features, Tensor)
        return [
            Differentiable(partial(self._of_features, member), features, words=words, batch_size=batch_size)
            for member in self.trained.members
        ]

    def _of_features(self, member: nn.Module, features: Tensor) -> Tensor:
        batch = self._copies(np.ones(features.shape[:2], dtype=bool))
        return self.explained.of_scores(member(batch.with_node_features(features.flatten(0, 1))).double())

    def attention(self) -> Attention:
        """The layers in which atoms attend to each other, then the readout of each molecule."""
        network, columns = network_of(self.trained.members[0]), self.trained.columns.smiles_columns
        return attention_of(self.row, network, self.traced, columns)

    def parts(self) -> list[Part]:
        """What the molecules are made of, without the row as a whole."""
        fragments_of_row = [
            (part, tuple(first + atom for atom in part.atoms))
            for molecule, first in zip(self.row.molecules, self.row.first_atoms, strict=False)
            for part in fragments(molecule)
        ]
        return [
            Part(part.name, part.kind, atoms, np.nan)
            for part, atoms in fragments_of_row
            if part.kind != COMPONENT or len(atoms) < self.num_atoms
        ]

    @cached_property
    def drawn(self) -> tuple[tuple[Curve, ...], tuple[str, ...]]:
        """Curves, and notes on them."""
        scaler = self.trained.encoder.scales.condition
        return curves_of(self.row, scaler, self.trained.columns.descriptors_columns, self.at_conditions)

    def curves(self) -> Sequence[Curve]:
        """The prediction over each condition."""
        return self.drawn[0]

    def at_conditions(self, raw: Float[np.ndarray, " step condition"]) -> np.ndarray:
        """The number of the same molecules under other conditions, in their raw units."""
        scaled = self.trained.encoder.scales.condition.transform(raw).astype(np.float32)
        batch = self.row.batch
        graph_of_row = batch.supervision.graph_of_row
        assert graph_of_row is not None
        rows = Supervision(graph_of_row=graph_of_row.expand(len(raw), -1), row_features=torch.from_numpy(scaled))
        return self.explained.of_batch(replace(batch, supervision=rows))

    def describe(self, item: Explainable) -> JsonObject:
        """The molecules and their atoms."""
        trained, row, notes = self.trained, self.row, [REMOVAL]
        for name in trained.companions:
            notes.append(f"{self.explained.shares[name]:.0%} {COMPANIONS[name].explained}")
        if trained.companions:
            notes.append("Gradients and attention see the network alone.")
        if len(trained.members) > 1:
            notes.append(
                f"Attention is that of the first of {len(trained.members)} models; predictions and effects are the "
                "mean of all."
            )
        (new,) = trained.encoder.unseen_parts_of(self.molecules, np.array([row.conditions]).reshape(1, -1))
        near = f"The similarity to the nearest training row is {formatted(float(self.similarities['similarity'][0]))}"
        notes.append(f"{near}; new: {new}." if new else f"{near}; nothing is new.")
        return {
            "kind": "molecule",
            "title": ".".join(row.smiles),
            "sources": dict(zip(trained.columns.smiles_columns, row.smiles, strict=True)),
            "predictions": self.explained.predictions,
            "explained": self.explained.name,
            "units": row.units,
            "notes": (*notes, *item.attention.notes, *self.drawn[1]),
        }


def molecule_item(
    trained: FittedMolecules,
    smiles: Sequence[str],
    conditions: Sequence[float] = (),
    *,
    target: str | None = None,
    label: str | None = None,
) -> Explainable:
    """The prediction of a trained ensemble for one row of molecules, and why.

    Units are the atoms of all molecules, in the order of the SMILES as they came. The number that is explained is the
    target in its own unit, or the probability of a class; it is the average over the members of the ensemble, and so
    is every effect. Attention is that of the first member: heads of different members do not correspond.

    Args:
        trained: the ensemble.
        smiles: one molecule for each SMILES column of the training, in any writing.
        conditions: one number for each condition.
        target: which target is explained; the first where None.
        label: the probability of which class is explained; the predicted one where None.

    Raises:
        DataError: a SMILES or a condition cannot be used, or their number is not that of the training.
        SettingError: unknown target or class.

    Cost: one prediction a bond and a fragment, up to 64 for `removal`, 24 for the curves, and up to 512
        with gradients.
    """
    row, trace = Row.of(trained, smiles, conditions), Trace()
    molecules = [tuple(map(canonical_smiles, row.smiles))]
    similarities = trained.encoder.similarities_of(molecules)
    explained = Explained.of(
        trained,
        lambda number, member: member(row.batch, trace if number == 0 else None),
        target,
        label,
        similarities,
    )
    of_row = ExplainedRow(trained, row, explained, trace, molecules, similarities)
    return Explainable(
        num_units=row.num_atoms,
        about="The prediction less the prediction without the atom, in whose place there is hydrogen.",
        groups=each_alone(row.num_atoms),
        predict=of_row.changed.without_atoms,
        contributions=of_row.changed.contributions,
        budget=BUDGET,
        attend=of_row.attention,
        differentiable=of_row.differentiable,
        describe=of_row.describe,
        methods=METHODS_OF_MOLECULES,
        scale=explained.scale,
        links=of_row.links,
        parts=of_row.parts,
        curves=of_row.curves,
    )


explain_molecule = explaining(molecule_item)


def set_limits(trained: FittedMolecules, max_atoms: int | None, molecule_timeout: float | None) -> None:
    """Change the limits of molecules, those that are given."""
    limits = trained.encoder.limits.changed(max_atoms=max_atoms, molecule_timeout=molecule_timeout)
    trained.encoder = replace(trained.encoder, limits=limits)


def quick(trained: FittedMolecules) -> FittedMolecules:
    """The same model, for which a molecule that may take long is an error."""
    return replace(trained, encoder=replace(trained.encoder, limits=trained.encoder.limits.quick))


def fields(trained: FittedMolecules) -> list[tuple[str, str]]:
    """The columns of molecules, then those of numbers."""
    columns = trained.columns
    numbers = [(name, "number") for name in columns.descriptors_columns]
    return [*((name, "smiles") for name in columns.smiles_columns), *numbers]


def conditions_of(trained: FittedMolecules, rows: Sequence[Values]) -> Float[np.ndarray, " row condition"]:
    """The numbers of each row; NaN where one is missing."""
    size = len(trained.columns.smiles_columns)
    return np.array([row[size:] for row in rows], dtype=np.float64).reshape(len(rows), -1)


def smiles_of(trained: FittedMolecules, row: Values) -> list[str]:
    """The molecules of a row, an InChI as SMILES."""
    texts = row[: len(trained.columns.smiles_columns)]
    return [as_smiles(text, trained.encoder.limits.max_atoms) for text in texts]


def read(trained: FittedMolecules, rows: Sequence[Values]) -> MoleculeData:
    """Rows of molecules; a `DataError` names the first that cannot be read."""
    size = len(trained.columns.smiles_columns)
    smiles = np.array([row[:size] for row in rows], dtype=object).reshape(len(rows), -1)
    numbers = conditions_of(trained, rows)
    data = molecules_from_arrays(
        smiles,
        conditions=numbers if numbers.shape[1] else None,
        with_descriptors=trained.encoder.descriptors,
        limits=trained.encoder.limits,
    )
    for row in np.flatnonzero(~data.rows.usable).tolist():
        # Columns of arrays are called smiles_1, smiles_2, …: the row knows them by other names.
        column, _, reason = data.rows.status[row].partition(": ")
        names = dict(zip(data.rows.columns.inputs, (name for name, _ in fields(trained)), strict=True))
        where = f"row {row}: " if len(rows) > 1 else ""
        raise DataError(f"{where}{names.get(column, column)}: {reason[:300]}.")

    return data


def predict(trained: FittedMolecules, rows: Sequence[Values]) -> list[tuple[TargetPrediction, ...]]:
    """The predictions for molecules; raises as `read`."""
    predictions = trained.predict(read(trained, rows))
    return [target_predictions(trained, predictions, row) for row in range(len(rows))]


def statuses(trained: FittedMolecules, rows: Sequence[Values]) -> list[str]:
    """Whether each molecule has coordinates, where the model reads them, and which numbers are filled."""
    names, encoder = trained.columns.smiles_columns, trained.encoder
    statuses = [OK] * len(rows)
    if encoder.settings.needs_coordinates:
        embedded = [conformers(smiles_of(trained, row), encoder.limits) for row in rows]
        statuses = [conformer_status([conformer.how for conformer in of_row], names) for of_row in embedded]
    return encoder.with_filled(statuses, conditions_of(trained, rows))


def item(trained: FittedMolecules, row: Values, target: str | None, label: object, top: int | None) -> Explainable:
    """The molecules of one row; all weights are listed, as atoms are few."""
    read(trained, [row])  # raises where a value cannot be read
    return molecule_item(
        trained,
        smiles_of(trained, row),
        row[len(trained.columns.smiles_columns) :],
        target=target,
        label=None if label is None else str(label),
    )


def recovery(trained: FittedMolecules, contributions: Mapping[str, Float[np.ndarray, " atom"]]) -> dict[str, float]:
    """Spearman's rank correlation over the atoms of a molecule of each attribution and the truth, mean over molecules.

    Args:
        trained: A model with one target and one SMILES column.
        contributions: What each atom of a molecule adds to the target, by the SMILES of the molecule. Molecules whose
            atoms all add the same say nothing and are left out.

    Returns:
        The mean by the name of the attribution, the best first. A molecule whose atoms all get the same attribution
        counts as 0.
    """
    correlations: dict[str, list[float]] = {}
    for smiles, true in contributions.items():
        if len(np.unique(true)) < 2:
            continue
        item = molecule_item(trained, (smiles,))
        with cpu_threads(trained.threads):
            attributions = [METHODS[name].attribute(item) for name in COMPARED_METHODS]
        for attribution in attributions:
            if attribution is not None:
                correlations.setdefault(attribution.name, []).append(
                    float(np.nan_to_num(spearman(attribution.values, true)))
                )
    means = {name: float(np.mean(values)) for name, values in correlations.items()}
    return dict(sorted(means.items(), key=lambda item: -item[1]))


EXPLAINABLE = ExplainableTask(
    load=TABLE.load,
    kind="molecule",
    rows_in_words="molecules",
    fields=fields,
    targets=targets_of_table,
    model_name=lambda trained: trained.encoder.settings.model or "",
    predict=predict,
    item=item,
    statuses=statuses,
    fills_numbers=lambda trained: bool(trained.encoder.scales.condition.imputer.median),
    coverage=lambda trained: trained.coverage,
    set_limits=set_limits,
    quick=quick,
)
