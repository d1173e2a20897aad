"""Language: the next token of a text."""

from typing import TYPE_CHECKING, Any

from edgewise.plural import plural
from edgewise.tasks.commands import command
from edgewise.tasks.scores import ScoreTable, number, training_line
from edgewise.tasks.task import Task
from edgewise.train.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.tasks.explainable import Subject
    from edgewise.tasks.run import Run


class LanguageTask(Task):
    """The next token of a text."""

    name = "language"
    format = "edgewise language model"
    noun = "tokens"

    def job(self, settings: dict[str, Any], source: str) -> "tuple[type[Run], Any]":
        from edgewise.tasks.language.job import language_job
        from edgewise.tasks.language.run import LanguageRun

        return LanguageRun, language_job(settings, source)

    def describe(self, run: Any) -> list[str]:
        counts = {part: len(numbers) for part, numbers in run.parts.items()}
        lines = [
            f"{', '.join(run.job.data)}: {plural(run.num_characters, 'character')}; {counts['training']:,} training "
            f"and {plural(counts['validation'], 'validation token')} out of a vocabulary of {len(run.tokenizer):,}"
        ]
        if not counts["validation"]:
            lines.append("  no validation text: nothing says how good the model is")
        return lines

    def scores(self, folder: RunFolder) -> list[ScoreTable | str]:
        metrics = folder.read_json("metrics.json")
        found: list[ScoreTable | str] = [training_line(metrics)]
        if "validation" in metrics:
            pairs = metrics["baselines"]["pairs"]["validation"]
            companions = {"edgewise": metrics["validation"], "pairs of tokens": pairs}
            title = f"validation text: {plural(metrics['tokens']['validation'], 'token')}"
            rows = [[name, number(scores["loss"]), number(scores["perplexity"])] for name, scores in companions.items()]
            found.insert(0, ScoreTable(title, ["", "loss", "perplexity"], rows))
        return found

    def next_commands(self, folder: RunFolder) -> list[str]:
        return [command("generate", folder.path)]

    def explainable(self) -> "type[Subject]":
        from edgewise.tasks.language.explainable import PromptSubject

        return PromptSubject

    def defaults(self) -> tuple[Any, Any]:
        from edgewise.models.text_settings import TransformerSettings
        from edgewise.tasks.language.job import RECIPE

        return TransformerSettings(), RECIPE


TASK = LanguageTask()
