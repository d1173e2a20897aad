"""A run over series on a graph: read them, learn what comes, score, in a run folder."""

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from edgewise.data.graphs.series import Series, parted, read_series
from edgewise.tasks.config import begin
from edgewise.tasks.forecast.fit import fit_series
from edgewise.tasks.forecast.job import ForecastJob
from edgewise.tasks.forecast.trained import TrainedForecast
from edgewise.tasks.run import Run
from edgewise.train.folder import RunFolder


@dataclass(frozen=True)
class ForecastRun(Run):
    """A run over series on a graph."""

    job: ForecastJob
    """What is to be done."""
    series: Series
    """The series."""
    parts: dict[str, np.ndarray]
    """Where the stretches of each part start."""

    @classmethod
    def begun(cls, job: ForecastJob, folder: RunFolder, resume: bool) -> Self:
        """The run, its files read and its folder begun."""
        graph = job.graph
        series = read_series(
            job.data[0],
            graph.edges,
            time_column=job.time_column,
            edge_columns=graph.edge_columns,
            is_directed=graph.directed,
        )
        parts = parted(series, job.model.context, job.model.horizon, job.split_sizes)
        rows = {part: starts.tolist() for part, starts in parts.items()}
        continues = begin(folder, job, resume=resume, rows=rows, rejected=series.edges.rejected, files=job.files)
        return cls(folder, continues, job, series, parts)

    def learned(self) -> tuple[TrainedForecast, dict[str, Any]]:
        """What has been trained, and its scores."""
        return fit_series(self.series, self.parts, self.job, folder=self.folder, resume=self.resume)
