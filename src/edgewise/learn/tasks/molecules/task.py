"""Molecules: numbers or classes of the rows of a table that holds SMILES."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.companions import FOREST, GAUSSIAN_PROCESS, STRUCTURE_NETWORK
from edgewise.learn.files import copied_rows
from edgewise.learn.memory import available_memory
from edgewise.learn.networks.graph_settings import MANY_MOLECULES, PropertySizes
from edgewise.learn.outputs import Targets
from edgewise.learn.readers.molecules.data import MoleculeData, molecules_from_cells, read_molecules
from edgewise.learn.readers.molecules.descriptor import DESCRIPTOR_NAMES
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.impute import filled_notes
from edgewise.learn.tables.read import Cells, TableChunks
from edgewise.learn.tables.scale import ColumnScaler, DescriptorScaler, TargetScaler
from edgewise.learn.tables.split import Splits, evenly_spaced
from edgewise.learn.tasks.chunks import Tally
from edgewise.learn.tasks.molecules.companions import FOREST_ROWS, max_process_rows
from edgewise.learn.tasks.molecules.encoder import (
    MAX_KNOWN,
    FittedMolecules,
    MoleculeScales,
    MoleculesEncoder,
    distinct_rows,
    molecules_of,
)
from edgewise.learn.tasks.molecules.settings import SETTINGS, PropertyRunSettings
from edgewise.learn.tasks.report.leakage import SplitContents, by_key, molecule_contents
from edgewise.learn.tasks.table_notes import constant_features
from edgewise.learn.tasks.table_task import Features, TableTask, contents_of_rows
from edgewise.learn.tasks.targets import MAX_FITTED, check_same_numbers, targets_of
from edgewise.learn.tasks.task import PredictRequest, Prepared, RowTask
from edgewise.learn.training.baseline import FiniteFeatures
from edgewise.learn.training.settings import Steps, share_molecules

MAX_BOUNDS_WIDTH = 1e4
"""The most standard deviations of the training targets that bounds may be apart: between wider bounds, single precision
hardly separates the targets."""
STEPS_OF_CLASSES, STEPS_OF_FEW_MOLECULES, STEPS_WITH_PROCESS = Steps(16, 240), Steps(40, 600), Steps(12, 600)
"""Steps of a training: for classes, whose validation loss rises again with more; for numbers of few molecules, which
gain nothing from more; and beside a Gaussian process that has learned from all rows, where more than twice the steps
gain 1%. Found on validation rows, see docs/experiments/molecule_networks.md and conditions.md."""


def steps_of(num_rows: int, num_molecules: int, *, is_classification: bool, has_process: bool = False) -> Steps:
    """How many steps a table of molecules is trained for.

    Args:
        num_rows: training rows.
        num_molecules: distinct molecules in them.
        is_classification: whether classes are learned.
        has_process: whether molecules have many rows each, and a Gaussian process learns from all of them.
    """
    if is_classification:
        return STEPS_OF_CLASSES
    if has_process:
        return STEPS_WITH_PROCESS
    is_small = num_molecules < MANY_MOLECULES and not share_molecules(num_rows, num_molecules)
    return STEPS_OF_FEW_MOLECULES if is_small else Steps()


def check_memory_of_gaussian_process(num_rows: int) -> None:
    """Raise SettingError where the covariance of so many rows does not fit into memory, before the training starts."""
    from edgewise.learn.training.estimate import in_bytes

    needed, available = 8 * num_rows**2, available_memory()
    if available is not None and needed > available:
        raise SettingError(
            f"the Gaussian process beside the network needs {in_bytes(needed)} of memory for the covariance of "
            f"{num_rows:,} rows, but only {in_bytes(available)} are available. Leave it out with --companions none, or "
            "go on anyway with --no-memory-check."
        )


def read_data(settings: PropertyRunSettings) -> MoleculeData:
    return read_molecules(
        list(settings.data),
        settings.columns,
        strict=settings.strict,
        with_descriptors=settings.molecule_descriptors,
        limits=settings.limits,
    )


def resolved(settings: PropertyRunSettings, data: MoleculeData, splits: Splits) -> PropertyRunSettings:
    num_molecules = len(np.unique(data.graph_of_row[splits.train]))
    is_classification = data.rows.columns.task_type != "regression"
    shared_molecules = share_molecules(len(splits.train), num_molecules)
    known_molecules = splits.calibration == "random" and shared_molecules
    companions = resolved_companions(
        settings,
        data,
        splits,
        num_molecules=num_molecules,
        known_molecules=known_molecules,
    )
    reads_all = len(splits.train) <= max_process_rows(data.rows.targets.shape[1])
    has_process = GAUSSIAN_PROCESS in companions and reads_all and shared_molecules
    steps = steps_of(len(splits.train), num_molecules, is_classification=is_classification, has_process=has_process)
    train = settings.train.resolved(len(splits.train), num_molecules, steps=steps)
    assert train.batch_size is not None
    model = settings.model.resolved(
        train.batch_size,
        num_molecules,
        is_classification=is_classification,
        known_molecules=known_molecules,
    )
    return replace(settings, model=model, train=train, companions=companions)


def resolved_companions(
    settings: PropertyRunSettings,
    data: MoleculeData,
    splits: Splits,
    *,
    num_molecules: int,
    known_molecules: bool,
) -> tuple[str, ...]:
    """The companions of the network: those that the settings name, else those that help tables of this kind.

    Args:
        settings: those of the run.
        data: the rows.
        splits: which of them train.
        num_molecules: distinct molecules in the training rows.
        known_molecules: whether they have many rows each, and rows to predict are expected to be of them.

    Raises:
        SettingError: a named companion cannot predict such targets, or does not fit into memory.
    """
    is_regression, num_rows = data.rows.columns.task_type == "regression", len(splits.train)
    max_rows = max_process_rows(data.rows.targets.shape[1])
    if settings.companions is None:
        conditions = data.conditions[splits.train]
        conditions_vary = bool((np.fmax.reduce(conditions, axis=0) > np.fmin.reduce(conditions, axis=0)).any())
        kind = GAUSSIAN_PROCESS if is_regression else FOREST
        if not is_regression:
            is_helpful = settings.class_weight is None and num_rows < FOREST_ROWS
        elif not share_molecules(num_rows, num_molecules):
            is_helpful = num_rows <= max_rows
        elif known_molecules:
            is_helpful = conditions_vary
        else:
            kind, is_helpful = STRUCTURE_NETWORK, num_molecules < MANY_MOLECULES
        companions: tuple[str, ...] = (kind,) if is_helpful and settings.molecule_descriptors else ()
    else:
        companions = tuple(name for name in settings.companions if name != "none")
        if is_regression and FOREST in companions:
            raise SettingError(f"--companions {FOREST} predicts classes, but the targets are numbers; leave it out.")
        if not is_regression and GAUSSIAN_PROCESS in companions:
            raise SettingError(
                f"--companions {GAUSSIAN_PROCESS} predicts numbers, but the targets are classes; leave it out."
            )
    if GAUSSIAN_PROCESS in companions and settings.train.check_memory:
        check_memory_of_gaussian_process(min(num_rows + len(splits.val), max_rows))
    return companions


def encode(settings: PropertyRunSettings, data: MoleculeData, splits: Splits) -> tuple[MoleculesEncoder, Targets]:
    """The sizes, scales and molecules of the training rows."""
    rows, store, columns = splits.train, data.store, data.rows.columns
    graphs = np.unique(data.graph_of_row[rows])
    output = replace(targets_of(data.rows, rows, columns), bounds=settings.bounds)
    scales = MoleculeScales(
        DescriptorScaler.fit(store.graph_features.numpy(), evenly_spaced(graphs, MAX_KNOWN)),
        ColumnScaler.fit(data.conditions, rows, data.rows.cell_names(rows, columns.descriptors_columns)),
    )
    sizes = PropertySizes(
        num_node_features=store.node_types.shape[1],
        num_edge_features=store.edge_types.shape[1],
        num_global_features=store.graph_features.shape[1],
        num_components=data.graph_of_row.shape[1],
        num_conditions=scales.condition.num_features,
        num_outputs=output.num_outputs,
        typical_nodes=float(np.diff(store.node_offsets.numpy())[graphs].mean()),
    )
    if settings.bounds and output.scale is not None:
        learned = np.sort(np.concatenate([splits.train, splits.val]))
        low, high = scaled_bounds(settings.bounds, data, learned, output.scale)
        sizes = replace(sizes, low=low, high=high)

    distinct = distinct_rows(data, rows)
    encoder = MoleculesEncoder(
        columns=columns,
        sizes=sizes,
        settings=settings.model,
        scales=scales,
        known_rows=molecules_of(data, evenly_spaced(distinct, MAX_KNOWN)),
        num_known=len(distinct) if len(distinct) > MAX_KNOWN else None,
        descriptors=list(DESCRIPTOR_NAMES) if sizes.num_global_features else [],
        limits=settings.limits,
    )
    return encoder, output


def features(prepared: Prepared) -> Features:
    """What the random forest baseline reads of rows: RDKit's descriptors and the conditions, arbitrary numbers for rows
    that cannot be used."""
    data = prepared.data

    def unscaled(rows: np.ndarray) -> np.ndarray:
        graphs = data.graph_of_row[rows].reshape(-1)
        descriptors = copied_rows(data.store.graph_features.numpy(), graphs).reshape(len(rows), -1)
        return np.concatenate([descriptors, data.conditions[rows]], axis=1)

    fitted_rows = unscaled(evenly_spaced(prepared.splits.train, MAX_FITTED))
    if not fitted_rows.shape[1]:
        return unscaled
    finite = FiniteFeatures.fit(fitted_rows)
    return lambda rows: finite(unscaled(rows))


def split_contents(prepared: Prepared) -> SplitContents:
    """The molecules of each split, the same and nearly so."""
    data, split = prepared.data, contents_of_rows(prepared)
    molecules = by_key(split.rows, split.contents, lambda rows: molecules_of(data, rows))
    return molecule_contents(split.noun, split.rows, split.contents, molecules)


def warnings(prepared: Prepared) -> list[str]:
    """Conditions that are missing or do not vary, and molecules whose conformer was not found at the first attempt."""
    scaler, names = prepared.fitted.encoder.scales.condition, prepared.fitted.columns.descriptors_columns
    data = prepared.data
    is_missing = np.isnan(data.conditions[data.rows.usable])
    lines = filled_notes(is_missing.sum(axis=0), list(map(repr, names)), "rows", len(is_missing))
    lines += constant_features(scaler, list(map(repr, names)), "training rows")
    conformers = data.store.conformer_note if prepared.settings.model.needs_coordinates else ""
    return [*lines, *([f"conformers: {conformers}"] if conformers else [])]


def notes(prepared: Prepared) -> list[str]:
    """How the conditions are scaled, and what must be known of targets and molecules."""
    conditions = prepared.fitted.encoder.scales.condition.note(prepared.fitted.columns.descriptors_columns)
    notes = [f"conditions, scaled: {conditions}"] if conditions else []
    targets, settings = prepared.data.rows.targets[prepared.splits.train], prepared.settings
    if prepared.fitted.task_type == "regression" and not settings.bounds and could_be_fractions(targets):
        notes.append("all training targets lie between 0 and 1; if all must, --bounds 0 1 keeps predictions there")
    chosen, noun = f"{MAX_KNOWN:,} of the {{:,}} different {{}} of the training rows, evenly chosen", "molecules"
    if (count := len(np.unique(prepared.data.graph_of_row[prepared.splits.train]))) > MAX_KNOWN:
        notes.append(f"the spread of descriptors is that of {chosen.format(count, noun)}")
    if (num_known := prepared.fitted.encoder.num_known) is not None:
        noun = prepared.data.rows.row_noun
        notes.append(f"new {noun} will be compared with {chosen.format(num_known, noun)}")
    return notes


def opened(request: PredictRequest) -> tuple[FittedMolecules, Columns]:
    trained = TABLE.load(request.run_folder)
    columns = columns_to_predict(trained.columns, request["smiles_columns"], request["descriptors_columns"])
    check_same_numbers(columns, trained.columns)
    limits = trained.encoder.limits.changed(
        max_atoms=request["max_atoms"], molecule_timeout=request["molecule_timeout"]
    )
    trained.encoder = replace(trained.encoder, limits=limits)
    return trained, columns


def chunks(request: PredictRequest, columns: Columns) -> TableChunks:
    return TableChunks(request.data)


def from_cells(trained: FittedMolecules, columns: Columns, cells: Cells, *, strict: bool) -> MoleculeData:
    return molecules_from_cells(
        cells,
        columns,
        strict=strict,
        need_targets=False,
        with_descriptors=trained.encoder.descriptors,
        limits=trained.encoder.limits,
    )


def tally(trained: FittedMolecules, data: MoleculeData) -> Tally:
    if not trained.encoder.settings.needs_coordinates:
        return Tally()
    store = data.store
    molecules = zip(store.canonical, store.conformers, store.smiles, strict=True)
    return Tally(
        conformers={key: (conformer.how, text) for key, conformer, text in molecules if conformer.how != "relaxed"}
    )


def scaled_bounds(
    bounds: tuple[float, ...], data: MoleculeData, rows: np.ndarray, scaler: TargetScaler
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """The bounds of the targets in model units.

    Args:
        bounds: The lowest and the highest number that a target can have.
        data: The data.
        rows: Those of training and validation, whose targets must lie between the bounds.
        scaler: The scaler of the targets.

    Raises:
        DataError: A target lies beyond them; the message names its line.
    """
    targets = data.rows.targets[rows]
    beyond = np.argwhere((targets < bounds[0]) | (targets > bounds[1]))
    cell_name = data.rows.cell_names(rows, data.rows.columns.target_columns)
    for row, column in beyond[:1].tolist():
        raise DataError(
            f"{cell_name(row, column)}: {targets[row, column]:.6g} lies beyond --bounds "
            f"{bounds[0]:g} {bounds[1]:g}; {plural(len(beyond), 'target does', 'targets do')}."
        )
    for name, std in zip(data.rows.columns.target_columns, scaler.std, strict=True):
        if bounds[1] - bounds[0] > MAX_BOUNDS_WIDTH * std:
            raise DataError(
                f"{data.rows.source}, column {name!r}: --bounds {bounds[0]:g} {bounds[1]:g} are "
                f"{(bounds[1] - bounds[0]) / std:.1g} times as far apart as the standard deviation of the training "
                f"targets, {std:.3g}, so that a model cannot tell these apart; give bounds nearer to the targets, or "
                "leave them out."
            )
    ends = scaler.transform(np.array(bounds, dtype=np.float64)[:, None].repeat(targets.shape[1], axis=1))
    return tuple(ends[0].tolist()), tuple(ends[1].tolist())


def could_be_fractions(targets: np.ndarray) -> bool:
    """Whether all known targets lie between 0 and 1, and some between them."""
    values = targets[~np.isnan(targets)]
    return bool(len(values) and values.min() >= 0 and values.max() <= 1 and ((values > 0) & (values < 1)).any())


def columns_to_predict(columns: Columns, smiles: Sequence[str] | None, descriptors: Sequence[str] | None) -> Columns:
    """The columns of a file to be predicted: no targets, and other names where they are given."""
    return columns.to_predict(
        smiles_columns=tuple(smiles or columns.smiles_columns),
        descriptors_columns=tuple(descriptors or columns.descriptors_columns),
    )


ROWS = RowTask(opened=opened, chunks=chunks, from_cells=from_cells, tally=tally)
"""How rows of a file are predicted, each by itself."""

TABLE = TableTask(
    settings=SETTINGS,
    noun="molecules",
    explainable="edgewise.learn.tasks.molecules.explainable:EXPLAINABLE",
    fits_trees_in_background=True,
    read_data=read_data,
    resolved=resolved,
    companions=True,
    encoder=MoleculesEncoder,
    encode=encode,
    features=features,
    contents=split_contents,
    further_warnings=warnings,
    notes=notes,
    rows=ROWS,
)

TASK = TABLE.task
