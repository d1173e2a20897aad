"""Texts: numbers or classes of the rows of a table that holds texts."""

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from edgewise.data.columns import Columns
from edgewise.data.split import Splits
from edgewise.data.texts.table import TextTable, read_texts
from edgewise.plural import plural
from edgewise.progress import note
from edgewise.tasks.report.leakage import SplitContents, text_contents
from edgewise.tasks.table_task import (
    Features,
    TableTask,
    check_same_numbers,
    num_classes,
    rows_of,
    target_fields,
    target_scale,
)
from edgewise.tasks.task import PredictRequest, Prepared
from edgewise.tasks.texts.job import MODEL, RECIPE, TextJob, text_job
from edgewise.tasks.texts.trained import TrainedTexts
from edgewise.tasks.vocabulary import coverage_warning, started
from edgewise.train.baseline import Baseline, fit_mean, fit_words

if TYPE_CHECKING:
    from edgewise.tasks.explainable import ExplainableModel

TOKENS = {"characters": "characters", "words": "words", "bpe": "byte pairs", "wordpiece": "word pieces"}
"""Each kind of tokens, in the plural."""


class TextsTask(TableTask):
    """Numbers or classes of texts."""

    name = "texts"
    usual = MODEL, RECIPE
    format = TrainedTexts.FORMAT
    noun = "texts"
    reads = ("coverage", "text_columns")

    def job(self, settings: dict[str, Any], source: str) -> TextJob:
        return text_job(settings, source)

    def read_table(self, settings: TextJob) -> TextTable:
        return read_texts(settings.data, settings.columns, strict=settings.strict)

    def resolved(self, settings: TextJob, table: TextTable, splits: Splits) -> TextJob:
        model, num_columns = settings.model, len(table.columns.text_columns)
        if settings.text.encoder == "transformer" and num_columns > 1 and settings.pretrained is None:
            model = replace(model, num_segments=max(num_columns, model.num_segments))
        return replace(settings, model=model, train=settings.scheduled(len(splits.train)))

    def untrained(self, settings: TextJob, table: TextTable, splits: Splits) -> TrainedTexts:
        """The model before its first step: the vocabulary of the training rows, or the start of a masked run."""
        known = (text for texts in table.contents(splits.train) for text in texts)
        tokenizer, weights = started(settings.pretrained, known, settings.tokens, settings.vocabulary_size)
        return TrainedTexts(
            **target_fields(table, settings.coverage),
            tokenizer=tokenizer,
            tokens=tokenizer.kind,
            num_tokens=weights["embedding.weight"].shape[0] if weights else len(tokenizer),
            text=settings.text,
            settings=settings.model,
            scale=target_scale(table, splits.train),
            start=weights,
        )

    def features(self, prepared: Prepared) -> Features:
        """The texts, those of several columns joined."""
        return lambda rows: ["\n".join(texts) for texts in prepared.data.contents(rows)]

    def baselines(self, prepared: Prepared, features: Features) -> dict[str, Baseline]:
        """The training mean, and linear models over counts of words and pairs of words."""
        table, rows, classes = prepared.data, prepared.splits.train, num_classes(prepared.data)
        targets, weights = table.targets[rows], table.weights[rows]
        return {"mean": fit_mean(targets, weights, classes)} | fit_words(features(rows), targets, weights, classes)

    def split_contents(self, prepared: Prepared) -> SplitContents:
        """The texts of each split, the same and nearly so."""
        features, rows = self.features(prepared), rows_of(prepared.splits)
        assert prepared.rows is not None
        contents = {name: features(found) for name, found in rows.items()}
        return text_contents(prepared.data.row_unit, prepared.rows, contents)

    def notes(self, prepared: Prepared) -> list[str]:
        """The vocabulary, and how many texts are longer than the model reads."""
        fitted, settings = prepared.fitted, prepared.settings
        source = "the training rows" if settings.pretrained is None else settings.pretrained
        found = [f"a vocabulary of {len(fitted.tokenizer):,} {TOKENS[fitted.tokenizer.kind]} from {source}"]
        if cut := fitted.batches(prepared.data).cut:
            longer = plural(cut, "text has", "texts have")
            found.append(f"{longer} more than --context {settings.model.context} tokens, cut there")
        return found

    def read(self, request: PredictRequest) -> tuple[Any, Any]:
        trained = TrainedTexts.load(request.run_folder)
        columns = renamed_texts(trained.columns, request.text_columns)
        check_same_numbers(columns, trained.columns)
        table = read_texts([request.data], columns, strict=request.strict, need_targets=False)
        if cut := trained.batches(table).cut:
            longer = plural(cut, "text has", "texts have")
            note(f"{longer} more than {trained.settings.context} tokens, cut there")
        texts = table.contents(np.flatnonzero(table.usable))
        if warning := coverage_warning(trained.tokenizer, (text for found in texts for text in found)):
            note(warning)
        return trained, table

    def explainable(self) -> "type[ExplainableModel]":
        from edgewise.tasks.texts.explainable import ExplainableTexts

        return ExplainableTexts


def renamed_texts(columns: Columns, texts: Any) -> Columns:
    """The columns of a file to be predicted: no targets, and other names of texts where they are given."""
    return columns.to_predict(
        text_columns=tuple(texts or columns.text_columns),
    )


TASK = TextsTask()
