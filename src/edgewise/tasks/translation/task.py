"""Translation: sentences and their translations."""

from typing import TYPE_CHECKING, Any

from edgewise.plural import plural
from edgewise.tasks.commands import prediction
from edgewise.tasks.scores import ScoreTable, number, training_line
from edgewise.tasks.table_task import unpredicted
from edgewise.tasks.task import PredictRequest, Task
from edgewise.train.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.tasks.explainable import Subject
    from edgewise.tasks.run import Run


class TranslationTask(Task):
    """Sentences to their translations."""

    name = "translation"
    format = "edgewise translation model"
    noun = "translations"
    reads = ("text_columns",)

    def job(self, settings: dict[str, Any], source: str) -> "tuple[type[Run], Any]":
        from edgewise.tasks.translation.job import translation_job
        from edgewise.tasks.translation.run import TranslationRun

        return TranslationRun, translation_job(settings, source)

    def describe(self, run: Any) -> list[str]:
        texts, parts = run.texts, run.parts
        lines = [
            f"{', '.join(texts.files)}: {plural(len(texts.sources), 'pair')}, {len(texts.rejected):,} rejected; a "
            f"vocabulary of {len(run.tokenizer):,} byte pairs"
        ]
        if texts.rejected:
            first, place = texts.rejected[0], run.folder.path / "rejected.csv"
            lines.append(f"  the first in line {first.line}: {first.column}: {first.reason} (all in {place})")
        counts = {part: len(rows) for part, rows in parts.items()}
        tested = plural(counts["test"], "test pair")
        return [*lines, f"{counts['train']:,} training, {counts['val']:,} validation and {tested}"]

    def scores(self, folder: RunFolder) -> list[ScoreTable | str]:
        metrics = folder.read_json("metrics.json")
        found: list[ScoreTable | str] = [training_line(metrics)]
        if "test" in metrics:
            companions = {"edgewise": metrics["test"], "not translated": metrics["baselines"]["copy"]["test"]}
            rows = [[name, number(scores["bleu"]), number(scores.get("loss"))] for name, scores in companions.items()]
            found.insert(0, ScoreTable(plural(metrics["rows"]["test"], "test pair"), ["", "BLEU", "loss"], rows))
        return found

    def next_commands(self, folder: RunFolder) -> list[str]:
        config = folder.read_config()
        # Aligned files come in pairs, of which the first is read.
        data = None if config.get("text-columns") else config["data"][-2]
        return [prediction(config, folder, "translations.csv", data=data)]

    def predict(self, request: PredictRequest, suffix: str) -> tuple[Any, str]:
        """The translations of a column of a table, or of the lines of a text."""
        import pandas as pd

        from edgewise.data.tables.read import check_columns_exist, read_cells
        from edgewise.data.texts.pairs import is_table
        from edgewise.data.texts.tokenizer import read_text
        from edgewise.tasks.texts.tokens import status_of
        from edgewise.tasks.trained import with_columns
        from edgewise.tasks.translation.trained import TrainedTranslation
        from edgewise.train.device import pick_device

        trained = TrainedTranslation.load(request.run_folder)
        trained.threads = request.threads
        if is_table(request.data):
            cells = read_cells(request.data)
            column = (request.text_columns or [trained.names[0]])[0]
            check_columns_exist(cells, (column,))
            frame = cells.frame
        else:
            column = trained.names[0]
            frame = pd.DataFrame({column: read_text(request.data).splitlines()})
        texts = frame[column].tolist()
        found = trained.translate(texts, device=pick_device(request.device))
        statuses = [
            "the text is empty or too long" if translated is None else status_of(trained.tokenizer, [text])
            for text, translated in zip(texts, found, strict=True)
        ]
        added = {f"{trained.names[1]}_pred": [text or "" for text in found], "status": statuses}
        content = with_columns(frame, added, request.data, suffix)
        known = sum(text is not None for text in found)
        return content, f"{known:,} of {plural(len(found), 'row')} translated{unpredicted(len(found) - known)}"

    def explainable(self) -> "type[Subject]":
        from edgewise.tasks.translation.explainable import TranslationSubject

        return TranslationSubject

    def defaults(self) -> tuple[Any, Any]:
        from edgewise.tasks.translation import job

        return job.MODEL, job.RECIPE


TASK = TranslationTask()
