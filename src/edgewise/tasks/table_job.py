"""Everything that decides a run over a table, whatever its rows hold."""

from dataclasses import dataclass, field

from edgewise.data.columns import Columns
from edgewise.errors import SettingError
from edgewise.train.conformal import check_coverage
from edgewise.train.settings import TrainSettings, require, require_one_of

SPLITS = ("random", "scaffold", "group", "column", "file")


@dataclass(frozen=True)
class TableJob:
    """One training on a table: which data, which recipe; what the rows hold and which model, inheritors say."""

    data: tuple[str, ...]
    """The table, or three tables: training, validation and test rows."""
    columns: Columns
    """What each column is."""
    train: TrainSettings = field(default_factory=TrainSettings)
    """The recipe."""
    split: str | None = None
    """random, scaffold, group, column or file. None is what the rest says: a splits column, several files, a group
    column; and random where nothing says anything."""
    split_sizes: tuple[float, ...] = (0.8, 0.1, 0.1)
    """The parts of training, validation and test rows; a part may be zero. Two parts are training and test."""
    data_seed: int = 0
    """Seed of the split."""
    ensemble_size: int = 1
    """How many models are trained from different seeds and averaged."""
    coverage: float = 0.9
    """The promised probability that a value lies within its interval."""
    baselines: bool = True
    """Whether simple models are scored on the same rows."""
    strict: bool = False
    """Whether a bad cell stops the run instead of being listed in `rejected.csv`."""

    def __post_init__(self):
        if self.split is not None:
            require_one_of("--split", self.split, SPLITS)
            if self.columns.splits_column and self.split != "column":
                raise SettingError(f"--split {self.split} and --splits-column contradict each other; give one of them.")
            if len(self.data) > 1 and self.split != "file":
                raise SettingError(f"--split {self.split} parts one file, but {len(self.data)} were given.")
        require("--ensemble-size", self.ensemble_size, self.ensemble_size >= 1, "at least 1")
        require("--data-seed", self.data_seed, self.data_seed >= 0, "at least 0")
        check_coverage(self.coverage)

    @property
    def files(self) -> tuple[str, ...]:
        """All files that are read."""
        return self.data

    @property
    def split_kind(self) -> str:
        """How rows are parted, with nothing left open."""
        if self.split is not None:
            return self.split
        if self.columns.splits_column:
            return "column"
        if len(self.data) > 1:
            return "file"
        return "group" if self.columns.group_column else "random"
