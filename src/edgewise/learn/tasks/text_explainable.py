"""Rows of texts: what is predicted of them, and what the prediction depends on.

Weights are those of the computation that made the prediction; of an ensemble they are its first member's, and all other
numbers are means over the members. Memory stays linear in the length of a text of more than 1,024 tokens; a text of up
to 512 tokens costs a prediction for every token, of longer ones groups are removed.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from edgewise.errors import DataError, plural
from edgewise.explain.explainable import Attended, Attention, Differentiable, Explainable
from edgewise.explain.explanation import Part, TargetPrediction
from edgewise.explain.heads import to_layer
from edgewise.explain.numbers import percent
from edgewise.graph import Trace
from edgewise.learn.batches.tokens import TextRowBatch
from edgewise.learn.companions import COMPANIONS
from edgewise.learn.companions.stack import companions_of, joined, network_of
from edgewise.learn.fitted_table import FittedTable
from edgewise.learn.readers.texts.data import texts_from_arrays, written
from edgewise.learn.readers.texts.tokenizer import RowTokens
from edgewise.learn.tasks.explainable import ExplainableTask, Row, targets_of_table
from edgewise.learn.tasks.explained import Explained, target_predictions
from edgewise.learn.tasks.text_encoder import TextEncoder
from edgewise.learn.tasks.token_explainable import ExplainedTokens, Left, TokenRow, nothing_of
from edgewise.learn.training.folder import RunFolder

ABOUT = "The prediction less the prediction without the token. Tokens that stand for no text always stay, with 0."
"""What the effect of a token is."""


@dataclass(frozen=True, eq=False)
class TextNumber:
    """One prediction for a row of texts, by all members of the ensemble."""

    trained: FittedTable[TextEncoder]
    """The ensemble."""
    tokens: TokenRow
    """The row."""
    nothing: int
    """The token of a text without tokens."""
    traces: Sequence[tuple[Trace, Trace]]
    """The weights of the layers and of the readout of each member, recorded with the prediction."""
    number: Explained
    """The number."""

    @classmethod
    def of(cls, trained: FittedTable[TextEncoder], tokens: TokenRow, target: str | None, label: object) -> Self:
        """The number of a target and a label.

        Raises:
            SettingError: unknown target or class.
        """
        nothing = nothing_of(trained.encoder.tokenizer)
        batch = text_rows(tokens.row, [np.ones(len(tokens), dtype=bool)], nothing)
        traces = [(tokens.new_trace(), Trace()) for _ in trained.members]

        def record(place: int, member: nn.Module) -> Tensor:
            layers, readout = traces[place]
            network = network_of(member)
            return joined(member, network(batch, layers, readout_trace=readout), companion_outputs(member, batch))

        return cls(trained, tokens, nothing, traces, Explained.of(trained, record, target, label))

    def of_left(self, left: Sequence[Left]) -> np.ndarray:
        """The number where some of the tokens are left."""
        return self.number.of_batch(text_rows(self.tokens.row, left, self.nothing))

    def attention(self) -> Attention:
        """The readout attends to tokens, and in a transformer tokens to each other."""
        size, members = len(self.tokens), []
        even = torch.full((size,), 1 / size, dtype=torch.float64)
        for layers, readout in self.traces:
            direct = readout.weights[0].to_dense().mean(0)[0].double() if readout.weights else None
            top = even if direct is None else direct
            members.append(Attended(direct, top, layers.weights if self.tokens.is_followed else ()))

        first, readout = self.traces[0]
        readout_layers = (to_layer(weights, "readout", is_readout=True) for weights in readout.weights)
        return Attention(
            [*self.tokens.layers_of(first.weights), *readout_layers],
            members,
            "Where the readout, which makes one vector of the text, attends: its weights, mean over heads.",
            "Attention through all layers: how much of each token can reach the readout.",
        )

    def of_vectors(self, member: nn.Module) -> Differentiable:
        """The number as a function of the vectors of the tokens, for one member."""
        row, num_tokens = self.tokens.row, len(self.tokens)
        network, companions = network_of(member), companions_of(member)
        batch = text_rows(row, [np.ones(num_tokens, dtype=bool)], self.nothing)
        beside = {name: companion.by_token(batch) for name, companion in companions.items()}
        widths = [network.encoder.embedding.weight.shape[1], *(values.shape[1] for values in beside.values())]

        def function(vectors: Tensor) -> Tensor:
            copies = text_rows(row, [np.ones(num_tokens, dtype=bool)] * len(vectors), self.nothing)
            of_network, *companion_outputs = vectors.flatten(0, 1).split(widths, 1)
            outputs = {
                name: companions[name].of_tokens(values, copies.offsets)
                for name, values in zip(beside, companion_outputs, strict=True)
            }
            return self.number.of_scores(joined(member, network(copies, vectors=of_network), outputs))

        # A token that is hidden in training carries no information; those that stand for no text never do.
        name = "zeros" if network.unknown is None else "that of a hidden token"
        learned = self.tokens.by_vectors(network.encoder.embedding, network.unknown, name, function)
        vectors = torch.cat([network.inputs(batch), *beside.values()], 1).detach()
        assert learned.baseline is not None
        zeros = [torch.zeros_like(values) for values in beside.values()]  # what counts nothing adds nothing
        baseline = torch.where(
            torch.from_numpy(self.tokens.fixed)[:, None], vectors, torch.cat([learned.baseline, *zeros], 1)
        )
        return replace(learned, features=vectors, baseline=baseline)


def companion_outputs(member: nn.Module, batch: TextRowBatch) -> dict[str, Tensor]:
    """What the companions of a member predict, by name."""
    return {name: companion(batch) for name, companion in companions_of(member).items()}


def companion_notes(trained: FittedTable[TextEncoder], shares: Mapping[str, float]) -> list[str]:
    """How much companions count in a prediction, and what of an explanation is theirs."""
    return [f"{percent(shares[name])} {COMPANIONS[name].explained}" for name in trained.companions]


def item(
    trained: FittedTable[TextEncoder], texts: Row, target: str | None, label: object, top: int | None
) -> Explainable:
    """One row of texts.

    Raises:
        DataError: a text is empty, or there are more or fewer than the model reads.
        SettingError: unknown target or class, or `top` is below 1.
    """
    names, encoder = trained.columns.text_columns, trained.encoder
    if len(texts) != len(names):
        raise DataError(
            f"{plural(len(texts), 'text was', 'texts were')} given, but the model reads "
            f"{len(names)}: {', '.join(names)}."
        )
    row = encoder.row_tokens(texts)
    tokens = TokenRow(
        tokenizer=encoder.tokenizer, texts=dict(zip(names, texts, strict=True)), row=row, fixed=row.is_special, top=top
    )
    if not texts_from_arrays(np.array([texts], dtype=object)).rows.usable[0]:
        raise DataError(f"{names[0]}: the text is empty.")

    of_text = TextNumber.of(trained, tokens, target, label)
    return ExplainedTokens(
        tokens=tokens,
        predictions=of_text.number.predictions,
        explained=of_text.number.name,
        predict_left=of_text.of_left,
        attend=of_text.attention,
        derive=lambda: [of_text.of_vectors(member) for member in trained.members],
        about=ABOUT,
        scale=of_text.number.scale,
        more_notes=[*of_text.number.member_notes, *companion_notes(trained, of_text.number.shares)],
        more_parts=columns_of(tokens),
    ).explainable


def columns_of(tokens: TokenRow) -> list[Part]:
    """The columns of a row, where there are several."""
    if len(tokens.texts) == 1:
        return []
    units = [np.flatnonzero((tokens.row.columns == column) & ~tokens.fixed) for column in range(len(tokens.texts))]
    return [
        Part(name, "column", tuple(of_column.tolist()), np.nan)
        for name, of_column in zip(tokens.texts, units, strict=True)
        if len(of_column)
    ]


def text_rows(row: RowTokens, left: Sequence[Left], nothing: int) -> TextRowBatch:
    """A batch of one row several times, with some of its tokens each; `nothing` where none is left."""
    tokens = [row.numbers[stays] if stays.any() else np.array([nothing]) for stays in left]
    columns = [row.columns[stays] if stays.any() else np.zeros(1, dtype=np.int64) for stays in left]
    return TextRowBatch.pack(tokens, columns)


def row_of(texts: object) -> Row:
    """The texts of a row, out of one text or several."""
    return tuple(map(written, texts)) if isinstance(texts, Iterable) and not isinstance(texts, str) else (texts,)


def predict(trained: FittedTable[TextEncoder], rows: Sequence[Row]) -> list[tuple[TargetPrediction, ...]]:
    """The predictions for rows of texts."""
    data = texts_from_arrays(np.array(rows, dtype=object).reshape(len(rows), -1))
    predictions = trained.predict(data)
    return [target_predictions(trained, predictions, row) for row in range(len(rows))]


def unread(trained: FittedTable[TextEncoder], row: Row) -> str:
    """How many tokens of a row are cut off, in words; empty where none is."""
    num_cut, context = trained.encoder.row_tokens(row).num_cut, trained.encoder.settings.context
    return f"{context + num_cut:,} tokens, of which the model reads {context:,}" if num_cut else ""


def explainable_texts(load: Callable[[RunFolder], FittedTable[TextEncoder]]) -> ExplainableTask:
    """A task whose rows are texts.

    Args:
        load: reads the ensemble of a run folder.
    """
    return ExplainableTask(
        load=load,
        kind="text",
        rows_in_words="texts",
        fields=lambda trained: [(name, "text") for name in trained.columns.text_columns],
        targets=targets_of_table,
        model_name=lambda trained: trained.encoder.text.encoder,
        predict=predict,
        item=item,
        statuses=lambda trained, rows: [trained.encoder.tokenizer.status_of(texts) for texts in rows],
        unread=unread,
        coverage=lambda trained: trained.coverage,
        row=row_of,
    )
