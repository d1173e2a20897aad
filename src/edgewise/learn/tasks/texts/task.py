"""Texts: numbers or classes of the rows of a table that holds texts."""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch

from edgewise.choices import TokenKind
from edgewise.graph.records import TextRows
from edgewise.learn.engine.workers import Workers
from edgewise.learn.networks.text import TextModel
from edgewise.learn.networks.text_settings import CountSizes, TextSettings, TransformerSettings
from edgewise.learn.networks.word_counts import MAX_PAIRED, WordCounts
from edgewise.learn.readers.texts.script import SCRIPT_SAMPLE, script_note
from edgewise.learn.readers.texts.table import LINES, TextTable, from_lines, read_texts, texts_of
from edgewise.learn.readers.texts.tokenizer import RowTokens, Tokenizer
from edgewise.learn.tables.cell import OK
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.mapped import keys_of
from edgewise.learn.tables.read import Cells, TableChunks
from edgewise.learn.tables.scale import TargetScaler
from edgewise.learn.tables.split import Splits, evenly
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.tasks.chunks import CutCells, RowTask, Tally, predictions, read_rows
from edgewise.learn.tasks.fitted import load_tokenizer, save_tokenizer
from edgewise.learn.tasks.report.leakage import SplitContents, by_key, normalized, text_contents
from edgewise.learn.tasks.table_task import MAX_FITTED, Features, TableTask
from edgewise.learn.tasks.targets import check_same_numbers, num_classes, rows_of, target_fields, target_scale
from edgewise.learn.tasks.task import PredictRequest, Prepared
from edgewise.learn.tasks.texts.settings import TextRunSettings
from edgewise.learn.tasks.trained import FittedTable
from edgewise.learn.tasks.vocabulary import cut_note, started, unknown_tokens
from edgewise.learn.training.baseline import Predictor, fit_mean, fit_words
from edgewise.learn.training.document import TRANSIENT
from edgewise.learn.training.folder import RunFolder


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
    counts: CountSizes | None = None
    """The sizes of the counts of words by class; None where the models have none."""
    counted: dict[str, torch.Tensor] = field(metadata=TRANSIENT, default_factory=dict)
    """The counts that every member begins with."""

    def new_member(self) -> TextModel:
        hidden = self.tokenizer.unknown if self.tokenizer.mask is None else self.tokenizer.mask
        model = TextModel(self.num_tokens, hidden, self.num_outputs, self.text, self.settings, self.counts)
        if self.start:
            model.encoder.load_state_dict(self.start)
        if self.counted and model.counts is not None:
            model.counts.load_state_dict(self.counted)
        return model

    @property
    def model_outputs(self) -> int:
        return self.num_outputs

    @property
    def max_tokens(self) -> int:
        return self.settings.context

    def row_tokens(self, texts: Sequence[str]) -> RowTokens:
        """The tokens of one row as the models read them, with the places they came from."""
        return self.tokenizer.row_of(texts, self.settings.context)

    def batches(self, table: TextTable) -> RowBatches:
        """The rows of a table as the models take them; one that cannot be used has no token."""
        read = table.tokens(self.tokenizer, self.settings.context)

        def batch(rows: np.ndarray) -> TextRows:
            return TextRows(*map(torch.from_numpy, read.packed(rows)))

        return RowBatches.of(table, self.scale, batch)

    def num_cut(self, table: TextTable) -> int:
        """How many texts are longer than the model reads."""
        return table.tokens(self.tokenizer, self.settings.context).num_cut

    def statuses(self, table: TextTable) -> list[str]:
        """The status of each row; see `Tokenizer.status_of`."""
        rows = zip(table.status, table.in_turn(), strict=True)
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


TOKENS = {"characters": "characters", "words": "words", "bpe": "byte pairs", "wordpiece": "word pieces"}
"""Each kind of tokens, in the plural."""


def read_table(settings: TextRunSettings) -> TextTable:
    return read_texts(settings.data, settings.columns, strict=settings.strict)


def resolved(settings: TextRunSettings, table: TextTable, splits: Splits) -> TextRunSettings:
    model, num_columns = settings.model, len(table.columns.text_columns)
    if settings.text.encoder == "transformer" and num_columns > 1 and settings.pretrained is None:
        model = replace(model, num_segments=max(num_columns, model.num_segments))
    of_classes = table.columns.task_type != "regression"
    return replace(settings, model=model, train=settings.scheduled(len(splits.train), of_classes=of_classes))


def untrained(settings: TextRunSettings, table: TextTable, splits: Splits) -> FittedTexts:
    """The model before its first step: the vocabulary of the training rows, or the start of a masked run."""
    known = (text for texts in table.in_turn(splits.train) for text in texts)
    tokenizer, weights = started(
        settings.pretrained, known, settings.tokens, settings.vocabulary_size, settings.lowercase
    )
    fitted = FittedTexts(
        **target_fields(table, settings.coverage),
        tokenizer=tokenizer,
        tokens=tokenizer.kind,
        num_tokens=weights["embedding.weight"].shape[0] if weights else len(tokenizer),
        text=settings.text,
        settings=settings.model,
        scale=target_scale(table, splits.train),
        start=weights,
    )
    if settings.text.word_counts and fitted.task_type != "regression":
        names = [tokenizer.inner.id_to_token(number) or "" for number in range(fitted.num_tokens)]
        rows = splits.train[table.weights[splits.train] > 0]
        texts = table.tokens(tokenizer, settings.model.context).of(rows)
        classes = fitted.num_classes if fitted.task_type == "multiclass" else ()
        targets = torch.from_numpy(table.targets[rows].astype(np.float32))
        counts = WordCounts.counted(names, texts, targets, classes)
        fitted.counts, fitted.counted = counts.sizes, counts.state_dict()
    return fitted


def features(prepared: Prepared) -> Features:
    """The texts, those of several columns joined."""
    return lambda rows: ["\n".join(texts) for texts in prepared.data.contents(rows)]


def baselines(prepared: Prepared, features: Features, fit_trees: Callable[..., Predictor]) -> dict[str, Predictor]:
    """The training mean, and linear models over counts of words and pairs of words."""
    table, rows, classes = prepared.data, prepared.splits.train, num_classes(prepared.data)
    mean, rows = fit_mean(table.targets[rows], table.weights[rows], classes), evenly(rows, MAX_FITTED)
    return {"mean": mean, **fit_words(features(rows), table.targets[rows], table.weights[rows], classes)}


def split_contents(prepared: Prepared) -> SplitContents:
    """The texts of each split, the same and nearly so."""
    table, rows = prepared.data, rows_of(prepared.splits)

    def read(some: np.ndarray) -> Iterator[str]:
        return (normalized("\n".join(texts)) for texts in table.in_turn(some))

    keys = {name: keys_of(read(found)) for name, found in rows.items()}
    texts = by_key(rows, keys, lambda some: list(read(some)))
    return text_contents(table.row_unit, rows, keys, texts)


def notes(prepared: Prepared) -> list[str]:
    """The vocabulary."""
    fitted, settings = prepared.fitted, prepared.settings
    source = "the training rows" if settings.pretrained is None else settings.pretrained
    found = [f"a vocabulary of {len(fitted.tokenizer):,} {TOKENS[fitted.tokenizer.kind]} from {source}"]
    if fitted.counts is not None and len(prepared.splits.train) > MAX_PAIRED:
        found.append(f"pairs of words: the most frequent in {MAX_PAIRED:,} of the training rows, evenly chosen")
    return found


def warnings(prepared: Prepared) -> list[str]:
    """Scripts that have no words between spaces, and how many texts are longer than the model reads."""
    fitted, data = prepared.fitted, prepared.data
    sample = ("\n".join(texts) for texts in data.in_turn(prepared.splits.train[:SCRIPT_SAMPLE]))
    cut = cut_note(fitted.num_cut(data), f"--context {prepared.settings.model.context}")
    found = [*script_note(sample, fitted.tokenizer.kind)]
    return [*found, cut] if cut else found


def open_texts(request: PredictRequest) -> tuple[Any, Any]:
    return read_rows(ROWS, request)


def predict_texts(request: PredictRequest, suffix: str, workers: Workers | None = None) -> Generator[tuple[Any, str]]:
    return predictions(ROWS, request, suffix, workers)


def opened(request: PredictRequest) -> tuple[FittedTexts, Columns]:
    trained = FittedTexts.load(request.run_folder)
    columns = trained.columns.to_predict(text_columns=tuple(request["text_columns"] or trained.columns.text_columns))
    check_same_numbers(columns, trained.columns)
    return trained, columns


def chunks(request: PredictRequest, columns: Columns) -> TableChunks | CutCells:
    if request.data.lower().endswith(LINES):
        return CutCells(from_lines([request.data], columns))
    return TableChunks(request.data)


def table_of(trained: FittedTexts, columns: Columns, cells: Cells, *, strict: bool) -> TextTable:
    return texts_of(cells, columns, strict=strict, need_targets=False)


def tally(trained: FittedTexts, table: TextTable) -> Tally:
    texts = table.contents(np.flatnonzero(table.usable))
    unknown, total = unknown_tokens(trained.tokenizer, (text for found in texts for text in found))
    return Tally(num_cut=trained.num_cut(table), num_unknown=unknown, num_tokens=total)


ROWS = RowTask(opened=opened, chunks=chunks, table_of=table_of, tally=tally)
"""How rows of a file are predicted, each by itself."""

TABLE = TableTask(
    settings_type=TextRunSettings,
    noun="texts",
    read_table=read_table,
    resolved=resolved,
    untrained=untrained,
    load=FittedTexts.load,
    features=features,
    baselines=baselines,
    contents=split_contents,
    notes=notes,
    further_warnings=warnings,
    read=open_texts,
    predict_in_parts=predict_texts,
)

TASK = TABLE.task
