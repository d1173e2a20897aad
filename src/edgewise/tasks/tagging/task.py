"""Tagging: a tag for each word of a sentence."""

from typing import TYPE_CHECKING, Any

from edgewise.plural import plural
from edgewise.tasks.commands import prediction
from edgewise.tasks.scores import ScoreTable, number, training_line
from edgewise.tasks.task import PredictRequest, Task
from edgewise.train.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.tasks.explainable import Subject
    from edgewise.tasks.run import Run

HEADLINES = {True: ("f1", "precision", "recall", "accuracy"), False: ("accuracy", "f1_macro")}
"""The scores that tables show, for tags that mark spans and for others."""


class TaggingTask(Task):
    """Sentences, and the tag of each of their words."""

    name = "tagging"
    format = "edgewise tagging model"
    noun = "tags"
    reads = ("text_columns",)
    output_formats = (".jsonl", ".jsonl.gz", ".conll", ".conll.gz")

    def job(self, settings: dict[str, Any], source: str) -> "tuple[type[Run], Any]":
        from edgewise.tasks.tagging.job import tagging_job
        from edgewise.tasks.tagging.run import TaggingRun

        return TaggingRun, tagging_job(settings, source)

    def describe(self, run: Any) -> list[str]:
        sentences, parts, trained = run.sentences, run.parts, run.trained
        lines = [
            f"{', '.join(sentences.files)}: {plural(len(sentences.words), 'sentence')}, "
            f"{len(sentences.rejected):,} rejected; "
            f"{plural(len(trained.tags), 'tag')}, a vocabulary of {len(trained.tokenizer):,}"
        ]
        if sentences.rejected:
            first, place = sentences.rejected[0], run.folder.path / "rejected.csv"
            lines.append(f"  the first in line {first.line}: {first.column}: {first.reason} (all in {place})")
        counts = {part: len(rows) for part, rows in parts.items()}
        tested = plural(counts["test"], "test sentence")
        lines.append(f"{counts['train']:,} training, {counts['val']:,} validation and {tested}")
        if run.num_unknown:
            words = plural(run.num_unknown, "word to be scored has", "words to be scored have")
            lines.append(f"  {words} a tag that no training sentence has")
        return lines

    def scores(self, folder: RunFolder) -> list[ScoreTable | str]:
        metrics = folder.read_json("metrics.json")
        found: list[ScoreTable | str] = []
        part = next((name for name in ("test", "validation") if name in metrics), None)
        if part is not None:
            scores, usual = metrics[part], metrics["baselines"]["usual_tags"][part]
            headlines = HEADLINES["types" in scores]
            companions = {"edgewise": scores, "each word's most frequent tag": usual}
            title = f"{plural(scores['num_sentences'], part + ' sentence')}, {plural(scores['num_words'], 'word')}"
            rows = [[label, *(number(of[name]) for name in headlines)] for label, of in companions.items()]
            found.append(ScoreTable(title, ["", *headlines], rows))
            if types := scores.get("types"):
                names = ("f1", "precision", "recall")
                rows = [[tag, *(number(of[name]) for name in names), f"{of['support']:,}"] for tag, of in types.items()]
                found.append(ScoreTable(plural(scores["num_spans"], "span"), ["", *names, "spans"], rows))
        return [*found, training_line(metrics)]

    def next_commands(self, folder: RunFolder) -> list[str]:
        return [prediction(folder.read_config(), folder, "tagged.jsonl")]

    def predict(self, request: PredictRequest, suffix: str) -> tuple[Any, str]:
        """The tag of each word of a file of sentences."""
        from edgewise.data.tables.cell import OK
        from edgewise.data.texts.tags import read_tagged
        from edgewise.errors import DataError
        from edgewise.tasks.tagging.trained import TrainedTagger
        from edgewise.tasks.texts.tokens import status_of
        from edgewise.train.device import pick_device
        from edgewise.train.folder import json_lines

        trained = TrainedTagger.load(request.run_folder)
        trained.threads = request.threads
        sentences = read_tagged(
            [request.data], request.text_columns or (), usual=trained.names, strict=request.strict, need_tags=False
        )
        added = f"{trained.names[1]}_pred"
        for name in (added, "status"):
            if any(name in row for row in sentences.rows):
                raise DataError(f"{request.data} already has the key {name!r}, which predictions need; rename it.")
        tags = trained.tag(sentences.words, pick_device(request.device))
        if suffix.startswith(".jsonl"):
            pairs = zip(sentences.words, sentences.status, strict=True)
            statuses = [status_of(trained.tokenizer, words) if status == OK else status for words, status in pairs]
            rows = zip(sentences.rows, tags, statuses, sentences.status, strict=True)
            content = json_lines(
                {**row, added: each if read == OK else None, "status": status} for row, each, status, read in rows
            )
        else:
            content = columns(sentences, tags)
        known = sum(status == OK for status in sentences.status)
        summary = f"{known:,} of {plural(len(tags), 'sentence')} tagged"
        if known < len(tags):
            first = sentences.rejected[0]
            summary += f"; the first that could not be in line {first.line}: {first.column}: {first.reason}"
        return content, summary

    def explainable(self) -> "type[Subject]":
        from edgewise.tasks.tagging.explainable import SentenceSubject

        return SentenceSubject

    def defaults(self) -> tuple[Any, Any]:
        from edgewise.tasks.tagging import job

        return job.MODEL, job.RECIPE


def columns(sentences: Any, tags: list[list[str]]) -> str:
    """A word and its tag a line, a blank line behind each sentence."""
    from edgewise.errors import DataError

    written = []
    for line, words, each in zip(sentences.lines, sentences.words, tags, strict=True):
        for word, tag in zip(words, each, strict=True):
            if any(not part or set(part) & set(" \t\r\n") for part in (word, tag)):
                raise DataError(
                    f"{sentences.files[0]}, line {line}: {word!r} with the tag {tag!r} cannot stand in columns, which "
                    "spaces part; write .jsonl."
                )
            written.append(f"{word} {tag}\n")
        if words:
            written.append("\n")
    return "".join(written)


TASK = TaggingTask()
