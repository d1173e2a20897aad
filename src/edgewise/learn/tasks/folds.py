"""Cross-validation: a run for each fold, in its own sub-folder, and the mean and spread of their scores."""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from edgewise.errors import plural
from edgewise.explain.numbers import formatted
from edgewise.learn.engine.workers import Workers
from edgewise.learn.files import JsonObject, csv_rows
from edgewise.learn.tasks.config import check_config, input_files, job_to_config
from edgewise.learn.tasks.content import check_content
from edgewise.learn.tasks.parts import train_folds
from edgewise.learn.tasks.run import Run, read
from edgewise.learn.tasks.scores import ScoreTable
from edgewise.learn.tasks.table_settings import TableRunSettings
from edgewise.learn.tasks.task import Task
from edgewise.learn.training.baseline import labels_of
from edgewise.learn.training.folder import RunFolder, fold_name
from edgewise.learn.training.metrics import HEADLINES

Scores = Mapping[str, JsonObject]
"""By target and score."""


@dataclass(frozen=True)
class CrossValidation:
    """Runs over all folds of all repeats."""

    task: Task
    """What kind of model."""
    settings: TableRunSettings
    """The settings of the whole; `num_folds` is given, and `fold` is None."""
    folder: RunFolder
    """Holds a sub-folder for each fold, and the scores of all."""

    def runs(self) -> list[tuple[TableRunSettings, RunFolder]]:
        """The settings and the folder of each fold."""
        settings, runs = self.settings, []
        for repeat in range(settings.num_repeats):
            for fold in range(settings.num_folds or 0):
                name = fold_name(fold, repeat, settings.num_repeats)
                fold_settings = replace(settings, fold=fold, data_seed=settings.data_seed + repeat)
                runs.append((fold_settings, RunFolder(self.folder.path / name)))
        return runs

    def finish(
        self,
        show: Callable[[Run], None],
        *,
        overwrite: bool = False,
        resume: bool = False,
        workers: Workers | None = None,
    ) -> JsonObject:
        """Trains and scores each fold; finished folds are not trained again where the run is resumed.

        Args:
            show: is called with each run before it is trained.
            overwrite: An earlier run in the folder may be replaced.
            resume: An interrupted run is continued.
            workers: Train the folds side by side; None trains one after the other, here.

        Returns:
            The content of metrics.json.

        Raises:
            RunFolderError: The folder is taken, or the run to be continued has other settings.
        """
        config = job_to_config(self.settings)
        if resume and self.folder.is_started:
            check_config(self.folder, type(self.settings), config)
        for settings, folder in self.runs() if resume else ():
            if folder.is_finished:
                check_content(folder, input_files(settings))
        prepared, (first_settings, first_folder) = None, self.runs()[0]
        if not (resume and self.folder.is_started):
            with self.folder.claimed(overwrite=overwrite, resume=resume):
                prepared = read(self.task, first_settings)  # before an earlier run is removed
                self.folder.begin()
                self.folder.write_config(config)
        left = [(settings, folder) for settings, folder in self.runs() if not (resume and folder.is_finished)]
        if workers is not None:
            train_folds(workers, self.task, left, overwrite=overwrite, resume=resume)
        for settings, folder in left if workers is None else ():
            # The first fold may be finished where only the settings of the whole are gone.
            data = prepared if folder == first_folder else None
            run = Run.prepare(self.task, settings, folder, overwrite=overwrite, resume=resume, prepared=data)
            prepared = data = None
            show(run)
            run.finish()
        names = {folder.path.relative_to(self.folder.path).as_posix(): folder for _, folder in self.runs()}
        folds = [{"folder": name, **folder.read_object("metrics.json")} for name, folder in names.items()]
        metrics: JsonObject = {
            "num_folds": self.settings.num_folds,
            "num_repeats": self.settings.num_repeats,
            "test": summary([fold["test"] for fold in folds]),
            "baselines": baselines_of(folds),
            "folds": folds,
        }
        with self.folder.locked():
            self.folder.write_table("test_predictions.csv", *predictions_of(names))
            self.folder.write_json("metrics.json", metrics)
        return metrics


def predictions_of(folds: Mapping[str, RunFolder]) -> tuple[list[str], Iterator[list[str]]]:
    """The header of the test predictions of all folds below each other, and their rows, each with its fold."""

    def lines(folder: RunFolder) -> Iterator[list[str]]:
        return csv_rows(folder.path / "test_predictions.csv")

    header = next(lines(next(iter(folds.values()))))
    kept = [index for index, name in enumerate(header) if name != "fold"]  # a column of the data without a role
    rows = (
        [name, *(row[index] for index in kept)]
        for name, folder in folds.items()
        for row in itertools.islice(lines(folder), 1, None)
    )
    return ["fold", *(header[index] for index in kept)], rows


def baselines_of(folds: Sequence[JsonObject]) -> JsonObject:
    """The scores of each baseline, over the folds that have it: one whose training rows have a single class lacks a
    baseline that needs two."""
    names = dict.fromkeys(name for fold in folds for name in fold.get("baselines", {}))
    return {
        name: {"test": summary([fold["baselines"][name]["test"] for fold in folds if name in fold["baselines"]])}
        for name in names
    }


def summary(folds: Sequence[Scores]) -> dict[str, JsonObject]:
    """Mean, standard deviation (of a sample) and number of folds of each score of each target; None without values."""
    by_target: dict[str, JsonObject] = {}
    for target in folds[0]:
        by_target[target] = {}
        for name in dict.fromkeys(name for fold in folds for name in fold[target]):
            values = [fold[target][name] for fold in folds if fold[target].get(name) is not None]
            spread = float(np.std(values, ddof=1)) if len(values) > 1 else None
            by_target[target][name] = (
                {"mean": float(np.mean(values)), "std": spread, "folds": len(values)} if values else None
            )
    return by_target


def score_tables(metrics: JsonObject, task_type: str, chosen: Sequence[str] = ()) -> list[ScoreTable]:
    """For each target a row for each fold, and mean ± standard deviation of the model and of its baselines."""
    tables, labels = [], labels_of(task_type)
    names = chosen or HEADLINES[task_type]
    for target, scores in metrics["test"].items():
        rows = [
            [fold["folder"], *(formatted(fold["test"][target].get(name)) for name in names)]
            for fold in metrics["folds"]
        ]
        rows.append(["edgewise", *(spread(scores.get(name)) for name in names)])
        for baseline, of_baseline in metrics["baselines"].items():
            label, num_folds = labels.get(baseline, baseline), len(metrics["folds"])
            if (count := sum(baseline in fold["baselines"] for fold in metrics["folds"])) < num_folds:
                label += f" ({count} of {num_folds} folds)"  # its mean is not to be compared with that of all
            rows.append([label, *(spread(of_baseline["test"][target].get(name)) for name in names)])
        title = f"{target}: test rows of {plural(len(metrics['folds']), 'fold')}, mean ± standard deviation"
        tables.append(ScoreTable(title, ["", *names], rows))
    return tables


def spread(score: JsonObject | None) -> str:
    """A mean and its standard deviation."""
    if score is None:
        return "-"
    return (
        formatted(score["mean"]) if score["std"] is None else f"{formatted(score['mean'])} ± {formatted(score['std'])}"
    )
