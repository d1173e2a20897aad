"""The settings of a run over a table of molecules."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from edgewise.errors import SettingError
from edgewise.learn.companions import COMPANIONS, FOREST, GAUSSIAN_PROCESS, STRUCTURE_NETWORK
from edgewise.learn.networks.graph_layers import LAYERS
from edgewise.learn.networks.graph_settings import PropertySettings
from edgewise.learn.readers.molecules.limits import MoleculeLimits
from edgewise.learn.settings import setting
from edgewise.learn.tasks.config import Sign, TaskSettings, Values
from edgewise.learn.tasks.graph_settings import check_model_reads
from edgewise.learn.tasks.table_settings import ROW_DEFAULTS, TableRunSettings, check_companions


@dataclass(frozen=True)
class PropertyRunSettings(TableRunSettings):
    """The settings of a run over a table of molecules."""

    model: PropertySettings = field(default_factory=PropertySettings)
    """The model."""
    molecule_descriptors: bool = setting(True)
    """Whether RDKit's descriptors of the whole molecule join the learned vectors, and the forest's features."""
    bounds: tuple[float, ...] = setting((), metavar="BOUND")
    """The lowest and the highest number that a target can have, such as 0 and 1 for fractions: predictions and
    intervals stay between them. Without them predictions may lie anywhere."""
    companions: tuple[str, ...] | None = setting(
        None, choices=("none", GAUSSIAN_PROCESS, FOREST, STRUCTURE_NETWORK, *COMPANIONS.added)
    )
    """What predicts beside the network, with the weight that predicts the validation rows best: gaussian-process, for
    numbers, and forest, a random forest for classes, from descriptors, counts of substructures and conditions;
    structure-network, a second network that reads structures and conditions without descriptors, and is trained for
    fewer steps with more dropout; or none. All are fitted again afterwards, to training and validation rows. By default
    numbers have a Gaussian process where at most 9,216 rows train (4,608 for 8 targets). Where molecules have many rows
    each, it learns from so many rows of more, and is left out without conditions; if new rows are of new molecules, it
    is left out, too, and a structure network stands there in sets of fewer than 1,000 molecules. Classes have a forest
    where fewer than 10,000 rows train and no class weighs more than another."""
    limits: MoleculeLimits = field(default_factory=MoleculeLimits)
    """The largest molecule, and the longest time for one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_companions(self.companions)
        are_two = len(self.bounds) == 2 and all(type(bound) in (int, float) for bound in self.bounds)
        if self.bounds and not (are_two and -math.inf < self.bounds[0] < self.bounds[1] < math.inf):
            listed = " ".join(map(str, self.bounds))
            raise SettingError(f"--bounds is {listed}; expected two numbers, the lower one first: --bounds 0 1.")


def check_heads_are_read(run: Values, groups: Mapping[str, Values]) -> Values:
    """Raise SettingError where heads are given, and neither the layer nor the readout has any: messages that edges
    carry are read out by their mean."""
    name = groups["model"].get("model")
    if name is not None and LAYERS[name].over_edges and "num_heads" not in LAYERS[name].reads:
        defaults = PropertySettings()
        check_model_reads(groups["model"], defaults, [other for other in vars(defaults) if other != "num_heads"], name)
    return {}


SETTINGS = TaskSettings(
    name="molecules",
    task="edgewise.learn.tasks.molecules.task:TASK",
    run_type=PropertyRunSettings,
    format="edgewise property model",
    summary="properties of molecules, from SMILES",
    example="molecules data.csv --smiles-columns smiles --target-columns y",
    signs=(Sign(strength=1, flag="smiles_columns"),),
    predict_flags=("coverage", "smiles_columns", "descriptors_columns", "max_atoms", "molecule_timeout", "show_parts"),
    estimators=("MoleculeClassifier", "MoleculeRegressor"),
    defaults=ROW_DEFAULTS,
    required=("smiles_columns",),
    unused=dict.fromkeys(("text_columns", "node_column", "node_type_column", "category_columns"), ""),
    derive=check_heads_are_read,
)
