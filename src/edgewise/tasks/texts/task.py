"""Texts: numbers or classes of the rows of a table that holds texts."""

import sys
from typing import TYPE_CHECKING, Any

from edgewise.plural import plural
from edgewise.tasks.table_task import TableTask, check_same_numbers
from edgewise.tasks.task import PredictRequest

if TYPE_CHECKING:
    from edgewise.tasks.explainable import Subject
    from edgewise.tasks.run import Run


class TextsTask(TableTask):
    """Numbers or classes of texts."""

    name = "texts"
    format = "edgewise text model"
    noun = "texts"
    reads = ("coverage", "text_columns")

    def job(self, settings: dict[str, Any], source: str) -> "tuple[type[Run], Any]":
        from edgewise.tasks.texts.job import text_job
        from edgewise.tasks.texts.run import TextRun

        return TextRun, text_job(settings, source)

    def read(self, request: PredictRequest) -> tuple[Any, Any]:
        from edgewise.data.texts.table import read_texts
        from edgewise.tasks.texts.trained import TrainedTexts, renamed_texts

        trained = TrainedTexts.load(request.run_folder)
        columns = renamed_texts(trained.columns, request.text_columns)
        check_same_numbers(columns, trained.columns)
        table = read_texts([request.data], columns, strict=request.strict, need_targets=False)
        if cut := trained.batches(table).cut:
            longer = plural(cut, "text has", "texts have")
            print(f"{longer} more than {trained.settings.context} tokens, cut there", file=sys.stderr)
        return trained, table

    def explainable(self) -> "type[Subject]":
        from edgewise.tasks.texts.explainable import TextSubject

        return TextSubject

    def defaults(self) -> tuple[Any, Any]:
        from edgewise.tasks.texts import job

        return job.MODEL, job.RECIPE


TASK = TextsTask()
