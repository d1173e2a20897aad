"""Texts: numbers or classes of the rows of a table that holds texts."""

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from edgewise.errors import SettingError, plural
from edgewise.learn.companions import WORD_COUNTS
from edgewise.learn.companions.word_counts import MAX_PAIRED
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.outputs import Targets
from edgewise.learn.readers.texts.data import LINE_SUFFIXES, TextData, from_lines, read_texts, texts_from_cells
from edgewise.learn.readers.texts.script import SCRIPT_SAMPLE, script_note
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.mapped import keys_of
from edgewise.learn.tables.read import Cells, TableChunks
from edgewise.learn.tables.split import Splits
from edgewise.learn.tasks.chunks import CutCells, Tally
from edgewise.learn.tasks.pretrained import with_schedule
from edgewise.learn.tasks.report.leakage import SplitContents, by_key, normalized, text_contents
from edgewise.learn.tasks.table_task import Features, TableTask
from edgewise.learn.tasks.targets import check_same_numbers, num_classes, rows_of, rows_to_fit, targets_of
from edgewise.learn.tasks.task import PredictRequest, Prepared, RowTask
from edgewise.learn.tasks.text_encoder import TextEncoder
from edgewise.learn.tasks.text_explainable import explainable_texts
from edgewise.learn.tasks.texts.settings import SETTINGS, TextRunSettings
from edgewise.learn.tasks.vocabulary import cut_note, tokenizer_and_weights
from edgewise.learn.training.baseline import Predictor, fit_mean, fit_words

TOKENS = {"characters": "characters", "words": "words", "bpe": "byte pairs", "wordpiece": "word pieces"}
"""Each kind of tokens, in the plural."""


def read_data(settings: TextRunSettings) -> TextData:
    return read_texts(settings.data, settings.columns, strict=settings.strict)


def resolved(settings: TextRunSettings, data: TextData, splits: Splits) -> TextRunSettings:
    model, num_columns = settings.model, len(data.rows.columns.text_columns)
    if settings.pretrained is not None and 0 < model.num_segments < num_columns:
        raise SettingError(
            f"--pretrained {settings.pretrained} has embeddings for {plural(model.num_segments, 'column')} of texts, "
            f"but there are {num_columns}; leave some out, or join them."
        )
    if settings.text.encoder == "transformer" and num_columns > 1 and settings.pretrained is None:
        model = replace(model, num_segments=max(num_columns, model.num_segments))
    chosen = (WORD_COUNTS,) if settings.companions is None else settings.companions
    companions = tuple(name for name in chosen if name != "none")
    return replace(settings, model=model, train=with_schedule(settings.train, len(splits.train)), companions=companions)


def encode(settings: TextRunSettings, data: TextData, splits: Splits) -> tuple[TextEncoder, Targets]:
    """The vocabulary of the training rows, or the weights and the vocabulary of a masked run."""
    texts_of_training = (text for texts in data.iter_texts(splits.train) for text in texts)
    tokenizer, weights = tokenizer_and_weights(
        settings.pretrained, texts_of_training, settings.tokens, settings.vocabulary_size, settings.lowercase
    )
    num_tokens = weights["embedding.weight"].shape[0] if weights else len(tokenizer)
    output = targets_of(data.rows, splits.train, data.rows.columns)
    return TextEncoder(tokenizer, tokenizer.kind, num_tokens, settings.text, settings.model, weights), output


def features(prepared: Prepared) -> Features:
    """The texts, those of several columns joined."""
    return lambda rows: ["\n".join(texts) for texts in prepared.data.of_rows(rows)]


def baselines(prepared: Prepared, features: Features, fit_trees: Callable[..., Predictor]) -> dict[str, Predictor]:
    """The training mean, and linear models over counts of words and pairs of words."""
    table, rows, classes = prepared.data.rows, prepared.splits.train, num_classes(prepared.data.rows)
    mean, rows = fit_mean(table.targets[rows], table.weights[rows], classes), rows_to_fit(table, rows)
    return {"mean": mean, **fit_words(features(rows), table.targets[rows], table.weights[rows], classes)}


def split_contents(prepared: Prepared) -> SplitContents:
    """The texts of each split, the same and nearly so."""
    data, rows = prepared.data, rows_of(prepared.splits)

    def read(rows_to_read: np.ndarray) -> Iterator[str]:
        return (normalized("\n".join(texts)) for texts in data.iter_texts(rows_to_read))

    keys = {split: keys_of(read(split_rows)) for split, split_rows in rows.items()}
    texts = by_key(rows, keys, lambda rows_to_read: list(read(rows_to_read)))
    return text_contents(data.rows.row_noun, rows, keys, texts)


def notes(prepared: Prepared) -> list[str]:
    """The vocabulary."""
    encoder, settings = prepared.fitted.encoder, prepared.settings
    source = "the training rows" if settings.pretrained is None else settings.pretrained
    lines = [f"a vocabulary of {len(encoder.tokenizer):,} {TOKENS[encoder.tokenizer.kind]} from {source}"]
    if WORD_COUNTS in settings.companions and len(prepared.splits.train) > MAX_PAIRED:
        lines.append(f"pairs of words: the most frequent in {MAX_PAIRED:,} of the training rows, evenly chosen")
    return lines


def warnings(prepared: Prepared) -> list[str]:
    """Scripts that do not separate words by spaces, and how many texts are longer than the model reads."""
    encoder, data = prepared.fitted.encoder, prepared.data
    sample = ("\n".join(texts) for texts in data.iter_texts(prepared.splits.train[:SCRIPT_SAMPLE]))
    cut = cut_note(encoder.num_cut(data), f"--context {prepared.settings.model.context}")
    return [*script_note(sample, encoder.tokenizer.kind), *([cut] if cut else [])]


def opened(request: PredictRequest) -> tuple[FittedTable[TextEncoder], Columns]:
    trained = TABLE.load(request.run_folder)
    columns = trained.columns.to_predict(text_columns=tuple(request["text_columns"] or trained.columns.text_columns))
    check_same_numbers(columns, trained.columns)
    return trained, columns


def chunks(request: PredictRequest, columns: Columns) -> TableChunks | CutCells:
    if request.data.lower().endswith(LINE_SUFFIXES):
        return CutCells(from_lines([request.data], columns))
    return TableChunks(request.data)


def from_cells(trained: FittedTable[TextEncoder], columns: Columns, cells: Cells, *, strict: bool) -> TextData:
    return texts_from_cells(cells, columns, strict=strict, need_targets=False)


def tally(trained: FittedTable[TextEncoder], data: TextData) -> Tally:
    context = trained.encoder.settings.context
    tokens = data.tokens(trained.encoder.tokenizer, context)
    num_tokens, num_unknown = int(tokens.num_of_texts.sum()), int(tokens.num_unknown.sum())
    return Tally(num_cut=tokens.num_cut, context=context, num_tokens=num_tokens, num_unknown=num_unknown)


TABLE = TableTask(
    settings=SETTINGS,
    noun="texts",
    explainable="edgewise.learn.tasks.texts.task:EXPLAINABLE",
    read_data=read_data,
    resolved=resolved,
    companions=True,
    encoder=TextEncoder,
    encode=encode,
    features=features,
    baselines=baselines,
    contents=split_contents,
    notes=notes,
    further_warnings=warnings,
    rows=RowTask(opened=opened, chunks=chunks, from_cells=from_cells, tally=tally),
)

TASK = TABLE.task
EXPLAINABLE = explainable_texts(TABLE.load)
