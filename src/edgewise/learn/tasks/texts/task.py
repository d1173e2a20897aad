"""Texts: numbers or classes of the rows of a table that holds texts."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from torch import Tensor

from edgewise.choices import TokenKind
from edgewise.learn.batches.tokens import TextRowBatch
from edgewise.learn.companions import WORD_COUNTS
from edgewise.learn.companions.word_counts import MAX_PAIRED, WordCounts
from edgewise.learn.fitted_table import ROWS_PER_BATCH, FittedTable
from edgewise.learn.networks.text import TextModel
from edgewise.learn.networks.text_settings import TextSettings, TransformerSettings
from edgewise.learn.outputs import Targets
from edgewise.learn.readers.texts.data import LINE_SUFFIXES, TextData, from_lines, read_texts, texts_from_cells
from edgewise.learn.readers.texts.script import SCRIPT_SAMPLE, script_note
from edgewise.learn.readers.texts.tokenizer import ALL_UNKNOWN, RowTokens, Tokenizer
from edgewise.learn.tables.cell import OK
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.mapped import keys_of
from edgewise.learn.tables.read import Cells, TableChunks
from edgewise.learn.tables.scale import TargetScaler
from edgewise.learn.tables.split import Splits, evenly_spaced
from edgewise.learn.tasks.batches import RowBatches
from edgewise.learn.tasks.chunks import CutCells, Tally
from edgewise.learn.tasks.companions import CompanionKind, FittingRows, Fresh
from edgewise.learn.tasks.pretrained import scheduled
from edgewise.learn.tasks.report.leakage import SplitContents, by_key, normalized, text_contents
from edgewise.learn.tasks.table_task import MAX_FITTED, Features, TableTask
from edgewise.learn.tasks.targets import check_same_numbers, num_classes, rows_of, targets_of
from edgewise.learn.tasks.task import PredictRequest, Prepared, RowTask
from edgewise.learn.tasks.texts.settings import SETTINGS, TextRunSettings
from edgewise.learn.tasks.tokens import TOKENIZER
from edgewise.learn.tasks.vocabulary import cut_note, tokenizer_and_weights
from edgewise.learn.training.baseline import Predictor, fit_mean, fit_words
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.document import TRANSIENT


@dataclass(frozen=True)
class TextsEncoder:
    """What the training texts fixed: their vocabulary, and the sizes of the network."""

    tokenizer: Tokenizer = field(metadata=TOKENIZER)
    """From text to tokens."""
    tokens: TokenKind
    """What a text is cut into."""
    num_tokens: int
    """Tokens that the networks have vectors for: those of the tokenizer, and any that stand unused behind them."""
    text: TextSettings
    """What reads, and how one vector is made of all."""
    settings: TransformerSettings
    """The sizes of what reads."""
    start: dict[str, torch.Tensor] = field(metadata=TRANSIENT, default_factory=dict)
    """Weights that every member's encoder begins with."""

    @property
    def rows_per_batch(self) -> int:
        """Rows that are computed together where no gradient is wanted."""
        return ROWS_PER_BATCH

    @property
    def max_tokens(self) -> int:
        """Tokens of a row that the networks read."""
        return self.settings.context

    def new_network(self, output: Targets) -> TextModel:
        """What reads texts, with its start."""
        hidden = self.tokenizer.unknown if self.tokenizer.mask is None else self.tokenizer.mask
        model = TextModel(self.num_tokens, hidden, output.num_outputs, self.text, self.settings)
        if self.start:
            model.encoder.load_state_dict(self.start)
        return model

    def row_tokens(self, texts: Sequence[str]) -> RowTokens:
        """The tokens of one row as the networks read them, with the places they came from."""
        return self.tokenizer.row_of(texts, self.settings.context)

    def batches(self, data: TextData, scale: TargetScaler | None) -> RowBatches:
        """The rows of a table as the networks take them; one that cannot be used is without tokens."""
        tokens = data.tokens(self.tokenizer, self.settings.context)

        def batch(rows: np.ndarray) -> TextRowBatch:
            return TextRowBatch(*map(torch.from_numpy, tokens.packed(rows)))

        return RowBatches.of(data.rows, scale, batch)

    def num_cut(self, data: TextData) -> int:
        """How many texts are longer than the networks read."""
        return data.tokens(self.tokenizer, self.settings.context).num_cut

    def statuses(self, data: TextData) -> list[str]:
        """The status of each row; see `Tokenizer.status_of`."""
        tokens = data.tokens(self.tokenizer, self.settings.context)
        is_unknown = (tokens.num_of_texts > 0) & (tokens.num_unknown == tokens.num_of_texts)
        rows = zip(data.rows.status, is_unknown.tolist(), strict=True)
        return [ALL_UNKNOWN if all_unknown and status == OK else status for status, all_unknown in rows]

    def check(self, output: Targets) -> None:
        """Nothing is left to check: the weights fit the sizes, or are refused."""


TOKENS = {"characters": "characters", "words": "words", "bpe": "byte pairs", "wordpiece": "word pieces"}
"""Each kind of tokens, in the plural."""


def read_data(settings: TextRunSettings) -> TextData:
    return read_texts(settings.data, settings.columns, strict=settings.strict)


def resolved(settings: TextRunSettings, data: TextData, splits: Splits) -> TextRunSettings:
    model, num_columns = settings.model, len(data.rows.columns.text_columns)
    if settings.text.encoder == "transformer" and num_columns > 1 and settings.pretrained is None:
        model = replace(model, num_segments=max(num_columns, model.num_segments))
    companions = resolved_companions(settings)
    return replace(settings, model=model, train=scheduled(settings.train, len(splits.train)), companions=companions)


def resolved_companions(settings: TextRunSettings) -> tuple[str, ...]:
    """What stands beside the network: what was asked for, else counts of words."""
    if settings.companions is None:
        return (WORD_COUNTS,)
    return tuple(name for name in settings.companions if name != "none")


def encode(settings: TextRunSettings, data: TextData, splits: Splits) -> tuple[TextsEncoder, Targets]:
    """The vocabulary of the training rows, or the weights and the vocabulary of a masked run."""
    texts_of_training = (text for texts in data.iter_texts(splits.train) for text in texts)
    tokenizer, weights = tokenizer_and_weights(
        settings.pretrained, texts_of_training, settings.tokens, settings.vocabulary_size, settings.lowercase
    )
    num_tokens = weights["embedding.weight"].shape[0] if weights else len(tokenizer)
    output = targets_of(data.rows, splits.train, data.rows.columns)
    return TextsEncoder(tokenizer, tokenizer.kind, num_tokens, settings.text, settings.model, weights), output


def count_words(fitted: FittedTable[TextsEncoder], data: TextData, fitting: FittingRows) -> Fresh:
    """Counts of the words of some rows."""
    encoder, output = fitted.encoder, fitted.output
    names = [encoder.tokenizer.inner.id_to_token(number) or "" for number in range(encoder.num_tokens)]

    def counted(rows: np.ndarray) -> WordCounts:
        rows = rows[data.rows.weights[rows] > 0]
        texts = data.tokens(encoder.tokenizer, encoder.settings.context).of(rows)
        targets = data.rows.targets[rows] if output.scale is None else output.scale.transform(data.rows.targets[rows])
        values, weights = (torch.from_numpy(array.astype(np.float32)) for array in (targets, data.rows.weights[rows]))
        with cpu_threads(fitted.threads):
            return WordCounts.learned(names, texts, values, weights, fitting.loss)

    return Fresh(counted(fitting.rows), lambda: counted(np.union1d(fitting.rows, fitting.validation)))


def empty_counts(encoder: TextsEncoder, tensors: Mapping[str, Tensor], output: Targets) -> WordCounts:
    """Counts of the sizes that their saved tensors have."""
    return WordCounts.from_tensors(tensors, encoder.num_tokens, output.num_outputs)


COUNTS_OF_WORDS = CompanionKind(
    name=WORD_COUNTS,
    fit=count_words,
    empty=empty_counts,
    explained="of a prediction are those of a linear model over counts of words, their stems and pairs. Where a token "
    "is removed, the pairs around it are, too; gradients see what each token adds; attention is the network's.",
    reads=TextsEncoder,
)


def features(prepared: Prepared) -> Features:
    """The texts, those of several columns joined."""
    return lambda rows: ["\n".join(texts) for texts in prepared.data.of_rows(rows)]


def baselines(prepared: Prepared, features: Features, fit_trees: Callable[..., Predictor]) -> dict[str, Predictor]:
    """The training mean, and linear models over counts of words and pairs of words."""
    table, rows, classes = prepared.data.rows, prepared.splits.train, num_classes(prepared.data.rows)
    mean, rows = fit_mean(table.targets[rows], table.weights[rows], classes), evenly_spaced(rows, MAX_FITTED)
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


def opened(request: PredictRequest) -> tuple[FittedTable[TextsEncoder], Columns]:
    trained = TABLE.load(request.run_folder)
    columns = trained.columns.to_predict(text_columns=tuple(request["text_columns"] or trained.columns.text_columns))
    check_same_numbers(columns, trained.columns)
    return trained, columns


def chunks(request: PredictRequest, columns: Columns) -> TableChunks | CutCells:
    if request.data.lower().endswith(LINE_SUFFIXES):
        return CutCells(from_lines([request.data], columns))
    return TableChunks(request.data)


def from_cells(trained: FittedTable[TextsEncoder], columns: Columns, cells: Cells, *, strict: bool) -> TextData:
    return texts_from_cells(cells, columns, strict=strict, need_targets=False)


def tally(trained: FittedTable[TextsEncoder], data: TextData) -> Tally:
    tokens = data.tokens(trained.encoder.tokenizer, trained.encoder.max_tokens)
    num_tokens, num_unknown = int(tokens.num_of_texts.sum()), int(tokens.num_unknown.sum())
    return Tally(num_cut=tokens.num_cut, num_tokens=num_tokens, num_unknown=num_unknown)


ROWS = RowTask(opened=opened, chunks=chunks, from_cells=from_cells, tally=tally)
"""How rows of a file are predicted, each by itself."""

TABLE = TableTask(
    settings=SETTINGS,
    noun="texts",
    explainable="edgewise.learn.tasks.texts.explainable:EXPLAINABLE",
    read_data=read_data,
    resolved=resolved,
    companions=True,
    encoder=TextsEncoder,
    encode=encode,
    features=features,
    baselines=baselines,
    contents=split_contents,
    notes=notes,
    further_warnings=warnings,
    rows=ROWS,
)

TASK = TABLE.task
