"""A table of molecules: the cells of a file read as molecules, targets, conditions and weights, row by row."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from jaxtyping import Float64, Int64

from edgewise.errors import DataError, refuse_single_text
from edgewise.learn.progress import stage
from edgewise.learn.readers.molecules.distinct import DistinctMolecules
from edgewise.learn.readers.molecules.feature import Chem
from edgewise.learn.readers.molecules.limits import MoleculeLimits
from edgewise.learn.readers.molecules.molecule import INCHI, as_smiles, is_inchi
from edgewise.learn.readers.molecules.store import MoleculeStore
from edgewise.learn.tables.cell import Problems, distinct, pa, read_numbers
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.labels import Classes
from edgewise.learn.tables.mapped import growing_texts, parts, with_column
from edgewise.learn.tables.read import Cells, Values, check_columns_exist
from edgewise.learn.tables.rows import Contents, Rows, cells_and_columns, checked_rows, read_files

__all__ = ["Columns", "MoleculeData", "molecules_from_arrays", "read_molecules"]


@dataclass(frozen=True, eq=False)
class MoleculeData:
    """The rows of one or several files of molecules."""

    rows: Rows
    """A row for each molecule, or combination of molecules."""
    store: MoleculeStore
    """Every distinct molecule once."""
    graph_of_row: Int64[np.ndarray, " row component"]
    """The molecule of each SMILES column in the store; -1 where it cannot be read."""
    conditions: Float64[np.ndarray, " row condition"]
    """Conditions of the row in their raw units; NaN where unreadable."""


def read_molecules(
    paths: str | Path | Sequence[str | Path],
    columns: Columns,
    *,
    strict: bool = False,
    need_targets: bool = True,
    classes: Classes | None = None,
    with_descriptors: bool | Sequence[str] = True,
    limits: MoleculeLimits = MoleculeLimits(),
) -> MoleculeData:
    """Read one or several files of molecules as one table; rows that cannot be used are marked, not dropped.

    Args:
        paths: .csv, .tsv, .csv.gz, .tsv.gz, .xlsx or .parquet, with the same columns.
        columns: the role of each column. A cell of a SMILES column that begins with `InChI=` is read as an InChI.
        strict: stop at the first row that cannot be used.
        need_targets: False reads rows to predict: targets, weights, splits and groups may be absent or unreadable.
        classes: names of the classes that a trained model knows; by default those that occur.
        with_descriptors: compute RDKit's whole-molecule descriptors (a millisecond for each distinct molecule);
            or the names of those to compute.
        limits: the largest molecule, and the longest time for one; a row beyond them cannot be used.

    Returns:
        The table. An empty target cell is missing; a row whose targets are all missing cannot be trained on.

    Raises:
        DataError: a file cannot be used as a whole, two files have different columns, or `strict` and a row cannot be
            used.
    """
    files = [paths] if isinstance(paths, str | Path) else paths
    cells, columns = read_files(files, columns, need_targets, may_map=True)
    return _interpret(cells, columns, strict, need_targets, classes, with_descriptors, limits)


def molecules_from_cells(
    cells: Cells,
    columns: Columns,
    *,
    strict: bool = False,
    need_targets: bool = True,
    with_descriptors: bool | Sequence[str] = True,
    limits: MoleculeLimits = MoleculeLimits(),
) -> MoleculeData:
    """The same for cells in memory, such as a chunk of a file; the columns with targets named."""
    check_columns_exist(cells, columns.inputs)
    return _interpret(cells, columns, strict, need_targets, None, with_descriptors, limits)


def molecules_from_arrays(
    smiles: Values,
    targets: Values | None = None,
    conditions: Values | None = None,
    weights: Values | None = None,
    groups: Values | None = None,
    *,
    task_type: str = "regression",
    classes: Classes | None = None,
    strict: bool = False,
    with_descriptors: bool | Sequence[str] = True,
    limits: MoleculeLimits = MoleculeLimits(),
    missing: str = "impute",
) -> MoleculeData:
    """A table from arrays, with the checks of a file.

    Args:
        smiles: `(row,)` or `(row, component)` strings, or molecules of RDKit.
        targets: `(row,)` or `(row, target)`; NaN or None is missing; None altogether for rows to predict.
        conditions: `(row,)` or `(row, condition)` numbers.
        weights: `(row,)` numbers, zero or more.
        groups: `(row,)` labels.
        task_type, classes, strict, with_descriptors, limits, missing: as in `Columns` and `read_molecules`.

    Returns:
        A table whose columns are called `smiles` (`smiles_1`, `smiles_2`, ...), `target...`, `condition...`,
        `weight` and `group`.

    Raises:
        DataError: the arrays have different lengths or a wrong number of axes, or no row can be used.
    """
    arrays = {
        "smiles": _written(smiles),
        "target": targets,
        "condition": conditions,
        "weight": weights,
        "group": groups,
    }
    cells, columns_of, others = cells_and_columns(arrays, numbers=("condition",))
    columns = Columns(
        smiles_columns=columns_of["smiles"],
        target_columns=columns_of.get("target", ()),
        descriptors_columns=columns_of.get("condition", ()),
        task_type=task_type,
        missing=missing,
        **others,
    )

    return _interpret(cells, columns, strict, targets is not None, classes, with_descriptors, limits)


def _written(smiles: Values) -> Values:
    """The column with molecules of RDKit replaced by SMILES."""
    refuse_single_text("smiles", smiles)
    rows = smiles if isinstance(smiles, np.ndarray) else np.asarray(smiles, dtype=object)
    if not any(isinstance(entry, Chem.Mol) for entry in rows.flat):
        return smiles
    written = [Chem.MolToSmiles(entry) if isinstance(entry, Chem.Mol) else entry for entry in rows.flat]
    return np.array(written, dtype=object).reshape(rows.shape)


def _interpret(
    cells: Cells,
    columns: Columns,
    strict: bool,
    need_targets: bool,
    classes: Classes | None,
    with_descriptors: bool | Sequence[str],
    limits: MoleculeLimits,
) -> MoleculeData:
    """The cells as molecules and numbers; a row is usable when every cell it needs can be read."""
    problems = Problems()
    # The table keeps the cells as written in the file, for the output of its rows.
    smiles = _inchi_as_smiles(cells, columns.smiles_columns, problems, limits)
    store, graph_of_row = _read_molecules(smiles, columns.smiles_columns, problems, with_descriptors, limits)
    conditions = [
        read_numbers(cells.frame[column], column, problems, may_be_missing=columns.imputes)
        for column in columns.descriptors_columns
    ]
    cells = replace(cells, mapped=(*cells.mapped, *store.mapped))
    contents = _contents(store, graph_of_row)
    return MoleculeData(
        rows=checked_rows(cells, columns, problems, contents, classes, strict=strict, need_targets=need_targets),
        store=store,
        graph_of_row=graph_of_row,
        conditions=np.stack([*conditions], axis=1) if conditions else np.zeros((len(cells.frame), 0)),
    )


def _contents(store: MoleculeStore, graph_of_row: Int64[np.ndarray, " row component"]) -> Contents:
    """Rows are the same where all their molecules are."""

    @cache
    def key_of_row() -> Int64[np.ndarray, " row"]:
        if graph_of_row.shape[1] == 1:
            return graph_of_row[:, 0]
        return np.unique(graph_of_row, axis=0, return_inverse=True)[1].reshape(-1)

    return Contents(
        noun="molecules",
        names=lambda rows: [str(tuple(graphs)) for graphs in graph_of_row[rows].tolist()],
        keys=lambda rows: key_of_row()[rows],
        num_distinct=len(store),
        row_noun=None if graph_of_row.shape[1] == 1 else "combinations of molecules",
        scaffolds=lambda rows: _scaffolds(store, graph_of_row[rows]),
    )


def _scaffolds(store: MoleculeStore, graph_of_row: Int64[np.ndarray, " row component"]) -> list[str]:
    """The Murcko scaffolds of the molecules of each row; without rings, the molecules themselves.

    Molecules without a ring have nothing in common for that: as one scaffold they would be half of some tables.
    """
    columns = [store.scaffolds(graphs) for graphs in graph_of_row.T]
    # Rows of one scaffold share the text.
    joined: dict[tuple[str, ...], str] = {}
    scaffold_of_row = [joined.setdefault(scaffolds, " ".join(scaffolds)) for scaffolds in zip(*columns, strict=True)]

    smiles_of_graphs: dict[tuple[int, ...], str] = {}
    for row in [row for row, scaffold in enumerate(scaffold_of_row) if not scaffold.strip()]:
        graphs = tuple(graph_of_row[row].tolist())
        smiles = " ".join(store.canonical[graph] for graph in graphs)
        scaffold_of_row[row] = smiles_of_graphs.setdefault(graphs, smiles)
    return scaffold_of_row


def _inchi_as_smiles(
    cells: Cells, smiles_columns: tuple[str, ...], problems: Problems, limits: MoleculeLimits
) -> Cells:
    """The cells with InChI replaced by canonical SMILES; unreadable ones stay, and are added to `problems`."""
    for column in smiles_columns:
        if not any(pa.compute.any(pa.compute.match_substring(part, INCHI)).as_py() for _, part in parts(cells, column)):
            continue
        converted = growing_texts(is_mapped=bool(cells.mapped))
        for start, part in parts(cells, column):
            texts, codes = distinct(part)
            reasons: dict[int, str] = {}
            for index in [index for index, text in enumerate(texts) if is_inchi(text)]:
                try:
                    texts[index] = as_smiles(texts[index], limits.max_atoms)
                except DataError as error:
                    reasons[index] = str(error).rstrip(".")
            for row in np.flatnonzero(np.isin(codes, list(reasons))).tolist():
                problems.add(start + row, column, texts[codes[row]], reasons[codes[row]])
            converted.append(pa.array(texts, pa.large_string()).take(pa.array(codes)))

        cells = with_column(cells, column, converted)

    return cells


def _read_molecules(
    cells: Cells,
    smiles_columns: tuple[str, ...],
    problems: Problems,
    with_descriptors: bool | Sequence[str],
    limits: MoleculeLimits,
) -> tuple[MoleculeStore, Int64[np.ndarray, " row component"]]:
    molecules = DistinctMolecules(limits, with_descriptors=with_descriptors, is_mapped=bool(cells.mapped))
    graph_of_row = np.empty((len(cells.lines), len(smiles_columns)), dtype=np.int64)
    with stage("reading molecules", graph_of_row.size) as current:
        for component, column in enumerate(smiles_columns):
            for start, part in parts(cells, column):
                done = current.done
                texts, codes = distinct(part)
                graphs, reasons = molecules.add(texts, current)
                graphs_of_chunk = graph_of_row[start : start + len(part), component]
                graphs_of_chunk[:] = graphs[codes]
                for row in np.flatnonzero(graphs_of_chunk < 0).tolist():
                    text = texts[codes[row]]
                    problems.add(start + row, column, text, reasons[text].rstrip("."))
                current.done = done + len(part)

    return MoleculeStore.of(molecules), graph_of_row
