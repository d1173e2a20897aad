"""Molecules: numbers or classes of the rows of a table that holds SMILES."""

import sys
from typing import TYPE_CHECKING, Any

from edgewise.tasks.table_task import TableTask, check_same_numbers
from edgewise.tasks.task import PredictRequest

if TYPE_CHECKING:
    from edgewise.tasks.explainable import Subject
    from edgewise.tasks.run import Run


class MoleculesTask(TableTask):
    """Numbers or classes of molecules."""

    name = "molecules"
    format = "edgewise property model"
    noun = "molecules"
    reads = ("coverage", "smiles_columns", "descriptors_columns", "max_atoms", "molecule_timeout")

    def job(self, settings: dict[str, Any], source: str) -> "tuple[type[Run], Any]":
        from edgewise.tasks.molecules.job import job_from_config
        from edgewise.tasks.molecules.run import PropertyRun

        return PropertyRun, job_from_config(settings, source)

    def read(self, request: PredictRequest) -> tuple[Any, Any]:
        from edgewise.data.molecules.table import read_table
        from edgewise.tasks.molecules.trained import TrainedProperty, renamed

        trained = TrainedProperty.load(request.run_folder)
        columns = renamed(trained.columns, request.smiles_columns, request.descriptors_columns)
        check_same_numbers(columns, trained.columns)
        trained.limits = trained.limits.changed(max_atoms=request.max_atoms, molecule_timeout=request.molecule_timeout)
        options: dict[str, Any] = {
            "strict": request.strict,
            "need_targets": False,
            "with_descriptors": trained.with_descriptors,
        }
        table = read_table(request.data, columns, **options, limits=trained.limits)
        if trained.settings.needs_coordinates and (note := table.store.conformer_note):
            print(f"conformers: {note}", file=sys.stderr)
        return trained, table

    def explainable(self) -> "type[Subject]":
        from edgewise.tasks.molecules.explainable import MoleculeSubject

        return MoleculeSubject

    def defaults(self) -> tuple[Any, Any]:
        from edgewise.models.graph_settings import PropertySettings
        from edgewise.train.settings import TrainSettings

        return PropertySettings(), TrainSettings()


TASK = MoleculesTask()
