"""Everything that decides a run over a table of molecules."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from edgewise.data.columns import Columns
from edgewise.data.molecules.limits import MoleculeLimits
from edgewise.models.graph_settings import PropertySettings
from edgewise.tasks.config import arranged
from edgewise.tasks.table_job import TableJob
from edgewise.train.settings import TrainSettings

PARTS = {"columns": Columns, "model": PropertySettings, "train": TrainSettings, "limits": MoleculeLimits}
MISSING = {
    "data": "no data file was given: edgewise train data.csv --smiles-columns smiles --target-columns y "
    "(the file stands before flags that take several values).",
    "smiles_columns": "no --smiles-columns were given; name the column or columns that hold SMILES.",
}
"""What is said where a setting without a default is not given."""


@dataclass(frozen=True)
class PropertyJob(TableJob):
    """One training on a table of molecules."""

    model: PropertySettings = field(default_factory=PropertySettings)
    """The model."""
    molecule_descriptors: bool = True
    """Whether RDKit's descriptors of the whole molecule join the learned vectors, and feed the forest."""
    limits: MoleculeLimits = field(default_factory=MoleculeLimits)
    """The largest molecule, and the longest time for one."""


def job_from_config(config: Mapping[str, Any], source: str = "the settings") -> PropertyJob:
    """The job over molecules that a flat table describes; see `arranged`."""
    own, parts = arranged(config, source, PropertyJob, PARTS, MISSING)
    return PropertyJob(**own, **{part: kind(**parts[part]) for part, kind in PARTS.items()})
