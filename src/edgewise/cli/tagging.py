"""`edgewise train` and `predict` for tags: what they print and write."""

import argparse
import sys
from typing import TYPE_CHECKING, Any

from edgewise.cli.next_step import prediction, print_next
from edgewise.cli.output import check_output, write
from edgewise.cli.report import number, print_table, training_line
from edgewise.plural import plural
from edgewise.train.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.tasks.tagging.run import TaggingRun

FORMATS = (".jsonl", ".jsonl.gz", ".conll", ".conll.gz")
HEADLINES = {True: ("f1", "precision", "recall", "accuracy"), False: ("accuracy", "f1_macro")}
"""The scores that tables show, for tags that mark spans and for others."""


def asked(settings: dict[str, Any], source: str) -> "tuple[type[TaggingRun], Any]":
    """The kind of run, and its job."""
    from edgewise.tasks.tagging.job import tagging_job
    from edgewise.tasks.tagging.run import TaggingRun

    return TaggingRun, tagging_job(settings, source)


def print_data(run: "TaggingRun") -> None:
    """The sentences in a few lines: what was rejected and why, the parts."""
    sentences, parts, trained = run.sentences, run.parts, run.trained
    print(
        f"{', '.join(sentences.files)}: {plural(len(sentences.words), 'sentence')}, "
        f"{len(sentences.rejected):,} rejected; "
        f"{plural(len(trained.tags), 'tag')}, a vocabulary of {len(trained.tokenizer):,}"
    )
    if sentences.rejected:
        first = sentences.rejected[0]
        place = run.folder.path / "rejected.csv"
        print(f"  the first in line {first.line}: {first.column}: {first.reason} (all in {place})")
    counts = {part: len(rows) for part, rows in parts.items()}
    print(f"{counts['train']:,} training, {counts['val']:,} validation and {plural(counts['test'], 'test sentence')}")
    if run.num_unknown:
        print(
            f"  {plural(run.num_unknown, 'word to be scored has', 'words to be scored have')} a "
            "tag that no training sentence has"
        )


def print_scores(folder: RunFolder) -> None:
    """The scores of a finished run beside usual tags, those of each type, and the next command."""
    metrics = folder.read_json("metrics.json")
    part = next((name for name in ("test", "validation") if name in metrics), None)
    if part is not None:
        scores, usual = metrics[part], metrics["baselines"]["usual_tags"][part]
        headlines = HEADLINES["types" in scores]
        print_table(
            f"{plural(scores['num_sentences'], part + ' sentence')}, {plural(scores['num_words'], 'word')}",
            ["", *headlines],
            [
                [label, *(number(of[name]) for name in headlines)]
                for label, of in {"edgewise": scores, "each word's most frequent tag": usual}.items()
            ],
        )
        if types := scores.get("types"):
            names = ("f1", "precision", "recall")
            print_table(
                plural(scores["num_spans"], "span"),
                ["", *names, "spans"],
                [[name, *(number(of[each]) for each in names), f"{of['support']:,}"] for name, of in types.items()],
            )
    print(training_line(metrics))
    print_next(folder, prediction(folder.read_config(), folder, "tagged.jsonl"))


def predict(arguments: argparse.Namespace) -> int:
    """Tags the words of a file of sentences."""
    suffix = check_output(arguments, FORMATS)

    from edgewise.data.cell import OK
    from edgewise.data.tags import read_tagged
    from edgewise.errors import DataError
    from edgewise.tasks.tagging.trained import TrainedTagger
    from edgewise.tasks.texts.tokens import status_of
    from edgewise.train.device import pick_device
    from edgewise.train.folder import json_lines
    from edgewise.train.settings import require

    require("--threads", arguments.threads, arguments.threads >= 1, "at least 1")
    trained = TrainedTagger.load(RunFolder.finished(arguments.folder))
    trained.threads = arguments.threads
    sentences = read_tagged(
        [arguments.data], arguments.text_columns or (), usual=trained.names, strict=arguments.strict, need_tags=False
    )
    told = f"{trained.names[1]}_pred"
    for name in (told, "status"):
        if any(name in row for row in sentences.rows):
            raise DataError(f"{arguments.data} already has the key {name!r}, which predictions need; rename it.")
    tags = trained.tag(sentences.words, pick_device(arguments.device))
    if suffix.startswith(".jsonl"):
        pairs = zip(sentences.words, sentences.status, strict=True)
        statuses = [status_of(trained.tokenizer, words) if status == OK else status for words, status in pairs]
        rows = zip(sentences.rows, tags, statuses, sentences.status, strict=True)
        content = json_lines(
            {**row, told: each if read == OK else None, "status": status} for row, each, status, read in rows
        )
    else:
        content = columns(sentences, tags)
    write(content, arguments.output, suffix)
    known = sum(status == OK for status in sentences.status)
    summary = f"{known:,} of {plural(len(tags), 'sentence')} tagged"
    if known < len(tags):
        first = sentences.rejected[0]
        summary += f"; the first that could not be in line {first.line}: {first.column}: {first.reason}"
    print(f"{summary}: {arguments.output}", file=sys.stderr)
    return 0


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
