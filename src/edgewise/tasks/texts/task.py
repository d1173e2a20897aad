"""Texts: numbers or classes of the rows of a table that holds texts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from edgewise.choices import TokenKind
from edgewise.data.scale import TargetScaler
from edgewise.data.split import Splits
from edgewise.data.tables.cell import OK
from edgewise.data.texts.table import TextTable, read_texts
from edgewise.data.texts.tokenizer import RowTokens, Tokenizer
from edgewise.models.text import TextModel
from edgewise.models.text_settings import TextSettings, TransformerSettings
from edgewise.plural import plural
from edgewise.progress import note
from edgewise.records import TextRows
from edgewise.tasks.batches import RowBatches
from edgewise.tasks.fitted import load_tokenizer, save_tokenizer
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
from edgewise.tasks.texts.settings import TextRunSettings
from edgewise.tasks.trained import FittedTable
from edgewise.tasks.vocabulary import coverage_warning, started
from edgewise.train.baseline import Baseline, fit_mean, fit_words
from edgewise.train.document import TRANSIENT
from edgewise.train.folder import RunFolder


@dataclass(kw_only=True)
class FittedTexts(FittedTable):
    """A trained ensemble over texts."""

    FORMAT = TextRunSettings.FORMAT

    tokenizer: Tokenizer = field(metadata=TRANSIENT)
    """From text to tokens."""
    tokens: TokenKind
    """What a text is cut into."""
    num_tokens: int
    """Tokens that the models have vectors for: those of the tokenizer, and any that stand unused behind them."""
    text: TextSettings
    """What reads, and how one vector is made of all."""
    settings: TransformerSettings
    """The sizes of what reads."""
    scale: TargetScaler | None
    """Of the targets; None for classes."""
    start: dict[str, torch.Tensor] = field(metadata=TRANSIENT, default_factory=dict)
    """Weights that every member's encoder begins with."""

    def new_member(self) -> TextModel:
        hidden = self.tokenizer.unknown if self.tokenizer.mask is None else self.tokenizer.mask
        model = TextModel(self.num_tokens, hidden, self.num_outputs, self.text, self.settings)
        if self.start:
            model.encoder.load_state_dict(self.start)
        return model

    @property
    def model_outputs(self) -> int:
        return self.num_outputs

    def row_tokens(self, texts: Sequence[str]) -> RowTokens:
        """The tokens of one row as the models read them, with the places they came from."""
        return self.tokenizer.row_of(texts, self.settings.context)

    def batches(self, table: TextTable) -> RowBatches:
        """The rows of a table as the models take them; one that cannot be used has no token."""
        read = [self.row_tokens(texts) for texts in usable_texts(table)]

        def batch(rows: np.ndarray) -> TextRows:
            return TextRows.packed([read[row].numbers for row in rows], [read[row].columns for row in rows])

        return RowBatches.of(table, self.scale, batch)

    def cut_note(self, table: TextTable, limit: str) -> str:
        """How many texts are longer than the model reads, in words; empty where none is."""
        if not (cut := sum(self.row_tokens(texts).num_cut > 0 for texts in usable_texts(table))):
            return ""
        return f"{plural(cut, 'text has', 'texts have')} more than {limit} tokens, cut there"

    def statuses(self, table: TextTable) -> list[str]:
        """The status of each row; see `Tokenizer.status_of`."""
        rows = zip(table.status, table.texts, strict=True)
        return [self.tokenizer.status_of(texts) if status == OK else status for status, texts in rows]

    def save_parts(self, folder: RunFolder) -> dict[str, torch.Tensor]:
        """Writes tokenizer.json."""
        save_tokenizer(folder, self.tokenizer)
        return super().save_parts(folder)

    @classmethod
    def load_parts(
        cls, folder: RunFolder, values: Mapping[str, Any], tensors: dict[str, torch.Tensor]
    ) -> dict[str, Any]:
        """The errors, and the vocabulary in tokenizer.json."""
        tokenizer = load_tokenizer(folder, values["tokens"], values["num_tokens"])
        return {**super().load_parts(folder, values, tensors), "tokenizer": tokenizer}


def usable_texts(table: TextTable) -> Iterator[Sequence[str]]:
    """The texts of each row; empty ones where the row cannot be used."""
    for texts, is_usable in zip(table.texts, table.usable, strict=True):
        yield texts if is_usable else [""] * len(texts)


TOKENS = {"characters": "characters", "words": "words", "bpe": "byte pairs", "wordpiece": "word pieces"}
"""Each kind of tokens, in the plural."""


class TextsTask(TableTask):
    """Numbers or classes of texts."""

    settings_type = TextRunSettings
    noun = "texts"

    def read_table(self, settings: TextRunSettings) -> TextTable:
        return read_texts(settings.data, settings.columns, strict=settings.strict)

    def resolved(self, settings: TextRunSettings, table: TextTable, splits: Splits) -> TextRunSettings:
        model, num_columns = settings.model, len(table.columns.text_columns)
        if settings.text.encoder == "transformer" and num_columns > 1 and settings.pretrained is None:
            model = replace(model, num_segments=max(num_columns, model.num_segments))
        return replace(settings, model=model, train=settings.scheduled(len(splits.train)))

    def untrained(self, settings: TextRunSettings, table: TextTable, splits: Splits) -> FittedTexts:
        """The model before its first step: the vocabulary of the training rows, or the start of a masked run."""
        known = (text for texts in table.contents(splits.train) for text in texts)
        tokenizer, weights = started(settings.pretrained, known, settings.tokens, settings.vocabulary_size)
        return FittedTexts(
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
        cut = fitted.cut_note(prepared.data, f"--context {settings.model.context}")
        return [*found, cut] if cut else found

    def read(self, request: PredictRequest) -> tuple[Any, Any]:
        trained = FittedTexts.load(request.run_folder)
        columns = trained.columns.to_predict(
            text_columns=tuple(request["text_columns"] or trained.columns.text_columns)
        )
        check_same_numbers(columns, trained.columns)
        table = read_texts([request.data], columns, strict=request.strict, need_targets=False)
        if cut := trained.cut_note(table, str(trained.settings.context)):
            note(cut)
        texts = table.contents(np.flatnonzero(table.usable))
        if warning := coverage_warning(trained.tokenizer, (text for found in texts for text in found)):
            note(warning)
        return trained, table


TASK = TextsTask()
