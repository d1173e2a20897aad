"""A task over the rows of a table, whatever they hold: what its run prints, and how it predicts."""

from abc import abstractmethod
from collections import Counter
from typing import TYPE_CHECKING, Any

from edgewise.errors import SettingError
from edgewise.plural import plural
from edgewise.progress import stage
from edgewise.tasks.commands import prediction
from edgewise.tasks.scores import ScoreTable, number
from edgewise.tasks.task import PredictRequest, Task
from edgewise.train.baseline import LABELS
from edgewise.train.folder import RunFolder
from edgewise.train.metrics import HEADLINES

if TYPE_CHECKING:
    from edgewise.tasks.report.judged import Labels, Numbers

PARTS = ("test", "validation", "training")
"""The rows whose scores are shown: the first of these that there are."""


class TableTask(Task):
    """A task over the rows of a table."""

    @abstractmethod
    def read(self, request: PredictRequest) -> tuple[Any, Any]:
        """The trained ensemble, and the table with the columns it needs."""

    def describe(self, run: Any) -> list[str]:
        table, splits, job = run.table, run.splits, run.job
        lines = [
            f"{table.source}: {plural(table.num_rows, 'row')}, "
            f"{plural(table.num_distinct, 'distinct ' + table.unit.removesuffix('s'))}, "
            f"{plural(len(table.rejected), 'row')} rejected"
        ]
        for column, count in Counter(rejection.column for rejection in table.rejected).items():
            first = next(rejection for rejection in table.rejected if rejection.column == column)
            lines.append(
                f"  {count:,} for column {column!r}, the first in line {first.line}: {first.reason} "
                f"(all in {run.folder.path / 'rejected.csv'})"
            )
        lines.append(
            f"{len(splits.train):,} training, {len(splits.val):,} validation and "
            f"{plural(len(splits.test), 'test row')} (split: {job.split_kind})"
        )
        if splits.leakage:
            lines.append(f"  {splits.leakage:,} {table.row_unit} are in training and test rows alike")
        if not len(splits.val):
            lines.append("  no validation rows: the last epoch is kept, and there are no intervals")
        return [*lines, *(f"  {note}" for note in (*table.notes, *run.notes()))]

    def scores(self, folder: RunFolder) -> list[ScoreTable | str]:
        metrics = folder.read_json("metrics.json")
        part = next((name for name in PARTS if metrics.get(name)), PARTS[-1])
        headlines = HEADLINES[folder.read_config().get("task-type", "regression")]
        found: list[ScoreTable | str] = []
        for target, scores in metrics[part].items():
            companions = {"edgewise": scores}
            for name, label in LABELS.items():
                known = metrics.get("baselines", {}).get(name, {}).get(part, {})
                if target in known:
                    companions[label] = known[target]
            rows = [[label, *(number(of.get(name)) for name in headlines)] for label, of in companions.items()]
            title = f"{target}: {plural(scores['num_rows'], f'{part} row')}"
            found.append(ScoreTable(title, ["", *headlines], rows))
            covered = metrics.get("coverage", {}).get("test", {}).get(target) if part == "test" else None
            if covered is not None:
                promised = metrics["coverage"]["promised"]
                found.append(f"{covered:.1%} of these values lie within their interval ({promised:.0%} were promised)")
        return found

    def next_commands(self, folder: RunFolder) -> list[str]:
        return [prediction(folder.read_config(), folder, "predictions.csv")]

    def test_targets(self, folder: RunFolder) -> "list[Numbers | Labels]":
        from edgewise.tasks.report.judged import judged_targets

        return judged_targets(folder)

    def predict(self, request: PredictRequest, suffix: str) -> tuple[Any, str]:
        with stage(f"reading {request.data}"):
            trained, table = self.read(request)
        trained.threads = request.threads

        import numpy as np

        from edgewise.tasks.trained import prediction_columns, with_columns
        from edgewise.train.conformal import check_coverage
        from edgewise.train.device import pick_device

        if request.coverage is not None:
            check_coverage(request.coverage)
        found = trained.predict(table, coverage=request.coverage, device=pick_device(request.device))
        added: dict[str, Any] = prediction_columns(trained, found)
        added |= trained.more_columns(table)
        added["status"] = trained.statuses(table)
        content = with_columns(table.frame, added, request.data, suffix)
        known = int(np.sum(table.usable))
        summary = f"{known:,} of {plural(table.num_rows, 'row')} predicted"
        if doubtful := sum(status != read for status, read in zip(added["status"], table.status, strict=True)):
            summary += f", {doubtful:,} of them from unknown words alone"
        return content, summary + unpredicted(table.num_rows - known)


def unpredicted(count: int) -> str:
    """The end of a summary that counts the rows without a prediction."""
    return f"; {count:,} could not be, and say why in the column 'status'" if count else ""


def check_same_numbers(columns: Any, known: Any) -> None:
    """Raise SettingError where a role has more or fewer columns than in training."""
    for role in ("smiles_columns", "text_columns", "descriptors_columns"):
        new, old = getattr(columns, role), getattr(known, role)
        if len(new) != len(old):
            flag = f"--{role.replace('_', '-')}"
            raise SettingError(f"{flag} names {len(new)}, but the model was trained on {len(old)}: {', '.join(old)}.")
