"""Masked: hidden tokens of texts, to start other models from."""

from typing import TYPE_CHECKING, Any

from edgewise.errors import SettingError
from edgewise.plural import plural
from edgewise.tasks.commands import command, free_name
from edgewise.tasks.scores import ScoreTable, number, training_line
from edgewise.tasks.task import PredictRequest, Task
from edgewise.train.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.tasks.run import Run

SCORES = ("loss", "perplexity", "accuracy")


class MaskedTask(Task):
    """Hidden tokens of texts."""

    name = "masked"
    format = "edgewise masked model"
    noun = "hidden tokens"
    reads = ("text_columns",)

    def job(self, settings: dict[str, Any], source: str) -> "tuple[type[Run], Any]":
        from edgewise.tasks.masked.job import masked_job
        from edgewise.tasks.masked.run import MaskedRun

        return MaskedRun, masked_job(settings, source)

    def describe(self, run: Any) -> list[str]:
        texts, train, val = run.texts, run.parts["train"], run.parts["val"]
        rejected = f", {plural(len(texts.rejected), 'empty cell')} rejected" if texts.rejected else ""
        lines = [
            f"{', '.join(texts.files)}: {plural(len(texts.texts), 'text')}{rejected}; a vocabulary of "
            f"{len(run.tokenizer):,}"
        ]
        if texts.rejected:
            first, place = texts.rejected[0], run.folder.path / "rejected.csv"
            lines.append(f"  the first in line {first.line}, column {first.column!r} (all in {place})")
        lines.append(
            f"{train.num_texts:,} training and {plural(val.num_texts, 'validation text')}; {len(train.numbers):,} and "
            f"{plural(len(val.numbers), 'token')}"
        )
        if cut := train.num_cut + val.num_cut:
            longer = plural(cut, "text is", "texts are")
            lines.append(f"  {longer} longer than --context {run.job.model.context} and read in pieces of that length")
        if not val.num_texts:
            lines.append("  no validation texts: nothing says how good the model is")
        return lines

    def scores(self, folder: RunFolder) -> list[ScoreTable | str]:
        metrics = folder.read_json("metrics.json")
        found: list[ScoreTable | str] = [training_line(metrics)]
        if "validation" in metrics:
            known = metrics["baselines"]["frequency"]["validation"]
            companions = {"edgewise": metrics["validation"], "most frequent": known}
            title = f"validation texts: {plural(metrics['tokens']['hidden'], 'hidden token')}"
            rows = [[name, *(number(scores[what]) for what in SCORES)] for name, scores in companions.items()]
            found.insert(0, ScoreTable(title, ["", *SCORES], rows))
        return found

    def next_commands(self, folder: RunFolder) -> list[str]:
        data = folder.read_config()["data"][-1]
        return [command("fingerprint", folder.path, data, "-o", free_name("vectors.npz"))]

    def read(self, request: PredictRequest) -> tuple[Any, Any]:
        """The trained model, and the table, or the lines, with the columns it has read."""
        from edgewise.data.columns import Columns
        from edgewise.data.texts.table import LINES, read_texts
        from edgewise.tasks.masked.trained import TrainedMasked

        folder = request.run_folder
        trained, names = TrainedMasked.load(folder), request.text_columns
        if not names and (folder.path / "config.toml").is_file():
            names = folder.read_config().get("text-columns")
        if request.data.lower().endswith(LINES):
            names = ["text"]
        elif not names:
            raise SettingError(f"{request.data} is a table; name the columns that hold texts: --text-columns text.")
        columns = Columns(text_columns=tuple(names))
        return trained, read_texts([request.data], columns, strict=request.strict, need_targets=False)

    def defaults(self) -> tuple[Any, Any]:
        from edgewise.tasks.masked import job

        return job.MODEL, job.RECIPE


TASK = MaskedTask()
