"""Tagging: a tag for each word of a sentence."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Float

from edgewise.errors import DataError
from edgewise.formatting import plural
from edgewise.graph.records import TextBatch
from edgewise.learn.networks.text import TagModel
from edgewise.learn.networks.text_settings import ReaderSettings, TransformerSettings
from edgewise.learn.progress import counted, note
from edgewise.learn.readers.texts.tags import KEYS, SentenceChunk, TaggedSentences, chunks_of, names_of, read_tagged
from edgewise.learn.tables.cell import OK
from edgewise.learn.tasks.fitted import FittedText
from edgewise.learn.tasks.pretrained import scheduled
from edgewise.learn.tasks.scores import ScoreTable, same, score_table
from edgewise.learn.tasks.tagging.settings import TaggingRunSettings
from edgewise.learn.tasks.task import PredictRequest, Prepared, Task, training_metrics
from edgewise.learn.tasks.vocabulary import coverage_warning, started
from edgewise.learn.training.device import cpu_threads, pick_device
from edgewise.learn.training.document import TRANSIENT
from edgewise.learn.training.folder import RunFolder, json_lines
from edgewise.learn.training.loader import Loader, RowLoader
from edgewise.learn.training.loss import TokenLoss
from edgewise.learn.training.spans import UsualTags, marks_spans, tag_scores

if TYPE_CHECKING:
    from edgewise.learn.training.training import FitResult


PIECES_A_BATCH = 64
"""Pieces of sentences that are read at once where no gradient is wanted."""


@dataclass(kw_only=True)
class FittedTagger(FittedText):
    """A model, its vocabulary and its tags."""

    FORMAT = TaggingRunSettings.FORMAT

    reader: ReaderSettings
    """The encoder."""
    settings: TransformerSettings
    """The sizes of the encoder."""
    start: dict[str, torch.Tensor] = field(metadata=TRANSIENT, default_factory=dict)
    """Weights that the encoder begins with."""
    tags: tuple[str, ...]
    """Those of the training, in the order of the model's scores."""
    usual: str
    """The most frequent of them: what a word gets that is no token at all, such as a no-break space."""
    names: tuple[str, str] = KEYS
    """What the words and the tags were called in training."""

    @property
    def spans(self) -> bool:
        """Whether the tags mark spans."""
        return marks_spans(self.tags)

    @property
    def hidden(self) -> int | None:
        """The token behind which a word is hidden; None where the vocabulary has none."""
        return self.tokenizer.mask if self.tokenizer.unknown is None else self.tokenizer.unknown

    def tag(self, sentences: Sequence[Sequence[str]], device: str = "cpu") -> list[list[str]]:
        """The tag of every word; sentences longer than the model's context are read in pieces."""
        found = [[self.usual] * len(words) for words in sentences]
        for number, piece, scores in self.scores(sentences, device):
            for word, tag in zip(piece.words, scores.argmax(-1), strict=True):
                found[number][word] = self.tags[tag]
        return found

    def scores(
        self, sentences: Sequence[Sequence[str]], device: str = "cpu"
    ) -> Iterator[tuple[int, SentenceChunk, Float[np.ndarray, " word tag"]]]:
        """The pieces of some sentences, the number of the sentence of each, and how well each tag fits each word of
        it before softmax; a word that is no token at all stands in none."""
        context = self.model.settings.context
        pieces = [
            (number, piece)
            for number, words in enumerate(sentences)
            for piece in chunks_of(words, self.tokenizer, context)
        ]
        pieces.sort(key=lambda pair: len(pair[1].numbers))
        self.model.to(device).eval()
        for first in counted(range(0, len(pieces), PIECES_A_BATCH), "predicting"):
            some = pieces[first : first + PIECES_A_BATCH]
            with torch.no_grad(), cpu_threads(self.threads):
                scores = self.model(TextBatch.packed([piece.numbers for _, piece in some]).to(device)).cpu().numpy()
            begins = np.cumsum([0, *(len(piece.numbers) for _, piece in some)])
            for (number, piece), begin in zip(some, begins):
                yield number, piece, scores[piece.firsts + begin]
        self.model.to("cpu")

    def new_member(self) -> TagModel:
        model = TagModel(len(self.tokenizer), self.tokenizer.unknown, len(self.tags), self.reader, self.settings)
        if self.start:
            model.encoder.load_state_dict(self.start)
        return model


def tag_loader(
    fitted: FittedTagger, sentences: TaggedSentences, rows: np.ndarray, batch_size: int, seed: int | None = None
) -> RowLoader:
    """The batches of some sentences in chunks; the target at the first token of each word is the number of its tag.

    It is −1 at other tokens, and where no training sentence has the tag.
    """
    number_of = {tag: number for number, tag in enumerate(fitted.tags)}
    chunks: list[SentenceChunk] = []
    targets: list[np.ndarray] = []
    for row in rows.tolist():
        for chunk in chunks_of(sentences.words[row], fitted.tokenizer, fitted.settings.context):
            chunks.append(chunk)
            targets.append(np.full(len(chunk.numbers), -1, dtype=np.int64))
            targets[-1][chunk.firsts] = [number_of.get(sentences.tags[row][word], -1) for word in chunk.words]

    def batch(places: np.ndarray) -> TextBatch:
        wanted = torch.from_numpy(np.concatenate([targets[place] for place in places]))
        return replace(TextBatch.packed([chunks[place].numbers for place in places]), targets=wanted)

    return RowLoader(np.arange(len(chunks)), batch, batch_size, seed)


HEADLINES = {True: same("f1", "precision", "recall", "accuracy"), False: same("accuracy", "f1_macro")}
"""The scores that tables show, for tags that mark spans and for others."""


def prepare(settings: TaggingRunSettings) -> Prepared:
    sentences = read_tagged(settings.data, settings.text_columns, settings.target_columns, strict=settings.strict)
    return prepared(settings, sentences)


def prepared(
    settings: TaggingRunSettings, sentences: TaggedSentences, splits: dict[str, np.ndarray] | None = None
) -> Prepared:
    """The same of sentences that are read; the vocabulary and the tags are those of the training sentences.

    Raises:
        DataError: There is no training sentence, or one tag alone.
    """
    splits = splits or sentences.split(settings.split_sizes, settings.data_seed)
    if not len(splits["train"]):
        raise DataError(f"{', '.join(sentences.files)}: no sentence is left for training.")
    words, tags_of = contents(sentences, splits["train"])
    tags = sorted({tag for each in tags_of for tag in each})
    if len(tags) < 2:
        raise DataError(f"{', '.join(sentences.files)}: the only tag is {tags[0]!r}, expected two or more.")
    texts = (" ".join(each) for each in words)
    tokenizer, weights = started(
        settings.pretrained, texts, settings.tokens, settings.vocabulary_size, settings.lowercase
    )
    fitted = FittedTagger(
        tokenizer=tokenizer,
        tokens=tokenizer.kind,
        tags=tuple(tags),
        usual=UsualTags(words, tags_of).usual,
        names=names_of(settings.text_columns, settings.target_columns),
        reader=settings.reader,
        settings=settings.model,
        start=weights,
    )
    settings = replace(settings, train=scheduled(settings.train, len(splits["train"])))
    rows = {split: found.tolist() for split, found in splits.items()}
    return Prepared(settings, sentences, splits, fitted, rows, sentences.rejected)


def loader(prepared: Prepared, split: str, batch_size: int, seed: int | None) -> Loader:
    return tag_loader(prepared.fitted, prepared.data, prepared.splits[split], batch_size, seed)


def loss(prepared: Prepared) -> TokenLoss:
    return TokenLoss()


def evaluate(prepared: Prepared, results: "list[FitResult]") -> dict[str, Any]:
    """The scores of validation and test sentences, beside those of each word's most frequent tag."""
    fitted, sentences, splits = prepared.fitted, prepared.data, prepared.splits
    metrics: dict[str, Any] = {
        "rows": {split: len(rows) for split, rows in splits.items()} | {"rejected": len(sentences.rejected)},
        "tokens": {"vocabulary": len(fitted.tokenizer)},
        "tags": list(fitted.tags),
        **training_metrics(prepared, results[0]),
        "baselines": {"usual_tags": {}},
    }
    usual = UsualTags(*contents(sentences, splits["train"]))
    for split, name in (("val", "validation"), ("test", "test")):
        if len(splits[split]):
            words, tags = contents(sentences, splits[split])
            metrics[name] = tag_scores(tags, fitted.tag(words), spans=fitted.spans)
            compared = tag_scores(tags, usual.tag(words), spans=fitted.spans)
            metrics["baselines"]["usual_tags"][name] = compared
    return metrics


def write_predictions(prepared: Prepared, folder: RunFolder, metrics: dict[str, Any]) -> None:
    """Writes the test sentences with their tags and the predicted ones."""
    fitted = prepared.fitted
    words, tags = contents(prepared.data, prepared.splits["test"])
    names = (*fitted.names, f"{fitted.names[1]}_pred")
    rows = [dict(zip(names, each, strict=True)) for each in zip(words, tags, fitted.tag(words), strict=True)]
    if rows:
        folder.write("test_predictions.jsonl", json_lines(rows).encode())


def row_text(prepared: Prepared) -> Callable[[int], str]:
    return lambda row: " ".join(prepared.data.words[row])


def opening(prepared: Prepared) -> str:
    sentences, fitted = prepared.data, prepared.fitted
    return (
        f"{', '.join(sentences.files)}: {plural(len(sentences.words), 'sentence')}, "
        f"{len(sentences.rejected):,} rejected; "
        f"{plural(len(fitted.tags), 'tag')}, a vocabulary of {len(fitted.tokenizer):,}"
    )


def warnings(prepared: Prepared) -> list[str]:
    """Tags that no training sentence has."""
    if not (count := num_unknown(prepared)):
        return []
    return [f"{plural(count, 'word to be scored has', 'words to be scored have')} a tag that no training sentence has"]


def score_tables(metrics: dict[str, Any], split: str) -> list[ScoreTable | str]:
    scores = metrics[split]
    title = f"{plural(scores['num_sentences'], split + ' sentence')}, {plural(scores['num_words'], 'word')}"
    types = scores.get("types", {})
    found: list[ScoreTable | str] = [
        score_table(title, TASK.scores_of_models(metrics, split), HEADLINES["types" in scores])
    ]
    if types:
        shown = same("f1", "precision", "recall", "support") | {"support": "spans"}
        found.append(score_table(plural(scores["num_spans"], "span"), types, shown))
    return found


def predict(request: PredictRequest, suffix: str) -> tuple[Any, str]:
    """The tag of each word of a file of sentences."""
    trained = FittedTagger.load(request.run_folder)
    trained.threads = request.threads
    sentences = read_tagged(
        [request.data], request["text_columns"] or (), usual=trained.names, strict=request.strict, need_tags=False
    )
    added = f"{trained.names[1]}_pred"
    for name in (added, "status"):
        if any(name in row for row in sentences.rows):
            raise DataError(f"{request.data} already has the key {name!r}, which predictions need; rename it.")
    if warning := coverage_warning(trained.tokenizer, (word for words in sentences.words for word in words)):
        note(warning)
    tags = trained.tag(sentences.words, pick_device(request.device))
    if suffix.startswith(".jsonl"):
        pairs = zip(sentences.words, sentences.status, strict=True)
        statuses = [trained.tokenizer.status_of(words) if status == OK else status for words, status in pairs]
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


def contents(sentences: TaggedSentences, rows: np.ndarray) -> tuple[list[Any], list[Any]]:
    """The words and the tags of some sentences."""
    return [sentences.words[row] for row in rows], [sentences.tags[row] for row in rows]


def num_unknown(prepared: Prepared) -> int:
    """Words of validation and test sentences whose tag no training sentence has."""
    known = set(prepared.fitted.tags)
    rows = [row for split in ("val", "test") for row in prepared.splits[split]]
    return sum(tag not in known for row in rows for tag in prepared.data.tags[row])


def columns(sentences: Any, tags: list[list[str]]) -> str:
    """A word and its tag a line, a blank line behind each sentence."""
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


TASK = Task(
    settings_type=TaggingRunSettings,
    noun="tags",
    scored_together=PIECES_A_BATCH,
    labels={"usual_tags": "each word's most frequent tag"},
    row_texts="sentence",
    units=("sentence",),
    output="tagged.jsonl",
    output_formats=(".jsonl", ".jsonl.gz", ".conll", ".conll.gz"),
    prepare=prepare,
    load=FittedTagger.load,
    prepared=prepared,
    loader=loader,
    loss=loss,
    evaluate=evaluate,
    write_predictions=write_predictions,
    row_text=row_text,
    opening=opening,
    warnings=warnings,
    score_tables=score_tables,
    predict=predict,
)
