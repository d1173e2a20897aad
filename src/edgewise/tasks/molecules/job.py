"""The settings of a run over a table of molecules."""

from dataclasses import dataclass, field

from edgewise.data.molecules.limits import MoleculeLimits
from edgewise.models.graph_settings import PropertySettings
from edgewise.settings import setting
from edgewise.tasks.table_job import TableRunSettings


@dataclass(frozen=True)
class PropertyRunSettings(TableRunSettings):
    """The settings of a run over a table of molecules."""

    SUMMARY = "properties of molecules, from SMILES"
    EXAMPLE = "molecules data.csv --smiles-columns smiles --target-columns y"
    REQUIRED = ("smiles_columns",)
    FOREIGN = dict.fromkeys(("text_columns", "node_column", "node_type_column", "category_columns"), "")

    model: PropertySettings = field(default_factory=PropertySettings)
    """The model."""
    molecule_descriptors: bool = setting(True)
    """Whether RDKit's descriptors of the whole molecule join the learned vectors, and the forest's features."""
    limits: MoleculeLimits = field(default_factory=MoleculeLimits)
    """The largest molecule, and the longest time for one."""


job_from_config = PropertyRunSettings.of
SETTINGS = PropertyRunSettings
