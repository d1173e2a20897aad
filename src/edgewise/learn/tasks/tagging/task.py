"""Tagging: a tag for each word of a sentence."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from jaxtyping import Float

from edgewise.choices import TokenKind
from edgewise.errors import DataError, plural
from edgewise.learn.batches.tokens import TokenBatch
from edgewise.learn.files import JsonObject
from edgewise.learn.fitted import Fitted
from edgewise.learn.networks.text import TagModel
from edgewise.learn.networks.text_settings import ReaderSettings, TransformerSettings
from edgewise.learn.progress import counted, note
from edgewise.learn.readers.texts.tags import KEYS, SentenceChunk, TaggedSentences, chunks_of, names_of, read_tagged
from edgewise.learn.readers.texts.tokenizer import Tokenizer
from edgewise.learn.tables.cell import OK
from edgewise.learn.tasks.pretrained import with_schedule
from edgewise.learn.tasks.report.leakage import SplitContents, contents_of_texts
from edgewise.learn.tasks.scores import ScoreTable, by_own_name, score_table
from edgewise.learn.tasks.tagging.settings import SETTINGS, TaggingRunSettings
from edgewise.learn.tasks.task import PredictRequest, Prepared, Task, Written, by_split, training_metrics
from edgewise.learn.tasks.tokens import TOKENIZER
from edgewise.learn.tasks.vocabulary import coverage_warning, tokenizer_and_weights
from edgewise.learn.training.checkpoint import FitResult
from edgewise.learn.training.device import cpu_threads, pick_device
from edgewise.learn.training.document import TRANSIENT
from edgewise.learn.training.folder import RunFolder, json_lines
from edgewise.learn.training.loader import Loader, RowLoader
from edgewise.learn.training.loss import TokenLoss
from edgewise.learn.training.spans import UsualTags, marks_spans, tag_scores

CHUNKS_PER_BATCH = 64
"""Chunks of sentences that are read at once where no gradient is wanted."""


@dataclass(frozen=True)
class Tags:
    """A score for each tag at the first token of each word: p(tag | sentence) = softmax(scores)."""

    tags: tuple[str, ...]
    """Those of the training, in the order of the scores."""
    usual: str
    """The most frequent of them: the tag of a word without tokens, such as a no-break space."""
    names: tuple[str, str] = KEYS
    """What the words and the tags were called in training."""

    @property
    def mark_spans(self) -> bool:
        """Whether the tags mark spans."""
        return marks_spans(self.tags)

    def loss(self, settings: TaggingRunSettings) -> TokenLoss:
        """−ln p of the tags."""
        return TokenLoss()

    def targets(self, tags: Sequence[str]) -> list[int]:
        """The number of each tag; −1 where no training sentence has the tag."""
        number_of_tag = {tag: number for number, tag in enumerate(self.tags)}
        return [number_of_tag.get(tag, -1) for tag in tags]

    def metrics(self, tags: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> JsonObject:
        """The scores of some sentences."""
        return tag_scores(tags, predicted, spans=self.mark_spans)

    def check(self) -> None:
        """Raise DataError unless the usual tag is one of the tags."""
        if self.usual not in self.tags:
            raise DataError(f"usual is {self.usual[:60]!r}, which is not one of the tags.")


@dataclass(frozen=True)
class TaggingEncoder:
    """The vocabulary of the training sentences, and the sizes of the network."""

    tokenizer: Tokenizer = field(metadata=TOKENIZER)
    """From text to tokens and back."""
    tokens: TokenKind
    """What a text is cut into."""
    reader: ReaderSettings
    """The encoder of a sentence."""
    settings: TransformerSettings
    """The architecture of the encoder."""
    num_tokens: int | None = None
    """Tokens that the network has vectors for: those of the tokenizer, and any unused ones after them; None is those of
    the tokenizer."""
    start: dict[str, torch.Tensor] = field(metadata=TRANSIENT, default_factory=dict)
    """Initial weights of the encoder."""

    @property
    def hiding_token(self) -> int | None:
        """The token that hides a word; None where the vocabulary has none."""
        return self.tokenizer.mask if self.tokenizer.unknown is None else self.tokenizer.unknown

    def new_network(self, output: Tags) -> TagModel:
        """A network that scores each tag for each token."""
        num_tokens = len(self.tokenizer) if self.num_tokens is None else self.num_tokens
        network = TagModel(num_tokens, self.hiding_token, len(output.tags), self.reader, self.settings)
        if self.start:
            network.encoder.load_state_dict(self.start)
        return network

    def chunks(self, words: Sequence[str]) -> list[SentenceChunk]:
        """The tokens of a sentence in chunks that the network reads at once."""
        return chunks_of(words, self.tokenizer, self.settings.context)

    def check(self, output: Tags) -> None:
        """Nothing is left to check: the weights fit the sizes, or are refused."""


FittedTagger: TypeAlias = Fitted[TaggingEncoder, Tags]
load = partial(FittedTagger.load, format=SETTINGS.format, encoder=TaggingEncoder, output=Tags)
"""Reads the model of a run folder."""


def tag(fitted: FittedTagger, sentences: Sequence[Sequence[str]], device: str = "cpu") -> list[list[str]]:
    """The tag of every word; sentences longer than the model's context are read in chunks."""
    output = fitted.output
    tags = [[output.usual] * len(words) for words in sentences]
    for sentence, chunk, scores in scores_of_chunks(fitted, sentences, device):
        for word, number in zip(chunk.words, scores.argmax(-1), strict=True):
            tags[sentence][word] = output.tags[number]
    return tags


def scores_of_chunks(
    fitted: FittedTagger, sentences: Sequence[Sequence[str]], device: str = "cpu"
) -> Iterator[tuple[int, SentenceChunk, Float[np.ndarray, " word tag"]]]:
    """The chunks of some sentences, the number of the sentence of each, and how well each tag fits each word of it
    before softmax; a word without tokens appears in none."""
    chunks = [(number, chunk) for number, words in enumerate(sentences) for chunk in fitted.encoder.chunks(words)]
    chunks.sort(key=lambda numbered: len(numbered[1].numbers))
    network = fitted.model.to(device).eval()
    for first in counted(range(0, len(chunks), CHUNKS_PER_BATCH), "predicting"):
        batch = chunks[first : first + CHUNKS_PER_BATCH]
        with torch.no_grad(), cpu_threads(fitted.threads):
            scores = network(TokenBatch.pack([chunk.numbers for _, chunk in batch]).to(device)).cpu().numpy()
        starts = np.cumsum([0, *(len(chunk.numbers) for _, chunk in batch)])
        for (number, chunk), start in zip(batch, starts):
            yield number, chunk, scores[chunk.firsts + start]
    network.to("cpu")


def tag_loader(
    fitted: FittedTagger, sentences: TaggedSentences, rows: np.ndarray, batch_size: int, seed: int | None = None
) -> RowLoader:
    """The batches of some sentences in chunks; the target at the first token of each word is the number of its tag.

    It is −1 at other tokens, and where no training sentence has the tag.
    """
    chunks: list[SentenceChunk] = []
    targets: list[np.ndarray] = []
    for row in rows.tolist():
        numbers = np.array(fitted.output.targets(sentences.tags[row]), dtype=np.int64)
        for chunk in fitted.encoder.chunks(sentences.words[row]):
            chunks.append(chunk)
            targets.append(np.full(len(chunk.numbers), -1, dtype=np.int64))
            targets[-1][chunk.firsts] = numbers[chunk.words]

    def batch(rows_of_batch: np.ndarray) -> TokenBatch:
        targets_of_batch = torch.from_numpy(np.concatenate([targets[row] for row in rows_of_batch]))
        return replace(TokenBatch.pack([chunks[row].numbers for row in rows_of_batch]), targets=targets_of_batch)

    return RowLoader(np.arange(len(chunks)), batch, batch_size, seed)


HEADLINES = {True: by_own_name("f1", "precision", "recall", "accuracy"), False: by_own_name("accuracy", "f1_macro")}
"""The scores that tables show, for tags that mark spans and for others."""


PreparedSentences: TypeAlias = Prepared[TaggingRunSettings, TaggedSentences, dict[str, np.ndarray], FittedTagger]
"""Sentences that are read and split."""


def prepare(settings: TaggingRunSettings) -> PreparedSentences:
    sentences = read_tagged(settings.data, settings.text_columns, settings.target_columns, strict=settings.strict)
    return prepared(settings, sentences)


def prepared(
    settings: TaggingRunSettings, sentences: TaggedSentences, splits: dict[str, np.ndarray] | None = None
) -> PreparedSentences:
    """The same of sentences that are read; the vocabulary and the tags are those of the training sentences.

    Raises:
        DataError: No training sentence, or only one tag.
    """
    splits = splits or sentences.split(settings.split_sizes, settings.data_seed)
    if not len(splits["train"]):
        raise DataError(f"{', '.join(sentences.files)}: no sentence is left for training.")
    words, tags_of_sentences = contents(sentences, splits["train"])
    tags = sorted(set().union(*tags_of_sentences))
    if len(tags) < 2:
        raise DataError(f"{', '.join(sentences.files)}: the only tag is {tags[0]!r}, expected two or more.")

    texts = (" ".join(sentence) for sentence in words)
    tokenizer, weights = tokenizer_and_weights(
        settings.pretrained, texts, settings.tokens, settings.vocabulary_size, settings.lowercase
    )
    num_tokens = weights["embedding.weight"].shape[0] if weights else len(tokenizer)
    encoder = TaggingEncoder(tokenizer, tokenizer.kind, settings.reader, settings.model, num_tokens, weights)
    usual = UsualTags(words, tags_of_sentences).usual
    output = Tags(tuple(tags), usual, names_of(settings.text_columns, settings.target_columns))
    fitted = Fitted(format=SETTINGS.format, encoder=encoder, output=output)

    settings = replace(settings, train=with_schedule(settings.train, len(splits["train"])))
    rows = {split: split_rows.tolist() for split, split_rows in splits.items()}
    return Prepared(settings, sentences, splits, fitted, rows, sentences.rejected)


def loader(prepared: PreparedSentences, split: str, batch_size: int, seed: int | None) -> Loader:
    size = batch_size if split == "train" else CHUNKS_PER_BATCH
    return tag_loader(prepared.fitted, prepared.data, prepared.splits[split], size, seed)


def evaluate(prepared: PreparedSentences, results: list[FitResult]) -> JsonObject:
    """The scores of validation and test sentences, beside those of each word's most frequent tag."""
    fitted, sentences, splits = prepared.fitted, prepared.data, prepared.splits
    metrics: JsonObject = {
        "rows": {split: len(rows) for split, rows in splits.items()} | {"rejected": len(sentences.rejected)},
        "tokens": {"vocabulary": len(fitted.encoder.tokenizer)},
        "tags": list(fitted.output.tags),
        **training_metrics(prepared, results[0]),
        "baselines": {"usual_tags": {}},
    }
    usual = UsualTags(*contents(sentences, splits["train"]))
    for split, name in (("val", "validation"), ("test", "test")):
        if len(splits[split]):
            words, tags = contents(sentences, splits[split])
            metrics[name] = fitted.output.metrics(tags, tag(fitted, words))
            metrics["baselines"]["usual_tags"][name] = fitted.output.metrics(tags, usual.tag(words))
    return metrics


def write_predictions(prepared: PreparedSentences, folder: RunFolder, metrics: JsonObject) -> None:
    """Writes the test sentences with their tags and the predicted ones."""
    fitted = prepared.fitted
    words, tags = contents(prepared.data, prepared.splits["test"])
    keys = (*fitted.output.names, f"{fitted.output.names[1]}_pred")
    rows = [dict(zip(keys, row, strict=True)) for row in zip(words, tags, tag(fitted, words), strict=True)]
    if rows:
        folder.write("test_predictions.jsonl", json_lines(rows).encode())


def split_contents(prepared: PreparedSentences) -> SplitContents:
    """The sentences of each split."""
    words = prepared.data.words
    return contents_of_texts("sentences", prepared.rows, lambda row: " ".join(words[row]))


def describe(prepared: PreparedSentences, folder: RunFolder) -> list[str]:
    sentences, fitted = prepared.data, prepared.fitted
    counts = f"{plural(len(sentences.words), 'sentence')}, {len(sentences.rejected):,} rejected"
    learned = f"{plural(len(fitted.output.tags), 'tag')}, a vocabulary of {len(fitted.encoder.tokenizer):,}"
    return TASK.describe_rows(prepared, folder, f"{', '.join(sentences.files)}: {counts}; {learned}", "sentence")


def warnings(prepared: PreparedSentences) -> list[str]:
    """Tags that no training sentence has."""
    if not (count := num_unknown(prepared)):
        return []
    return [f"{plural(count, 'word to be scored has', 'words to be scored have')} a tag that no training sentence has"]


def score_tables(metrics: JsonObject, split: str) -> list[ScoreTable | str]:
    scores = metrics[split]
    title = f"{plural(scores['num_sentences'], split + ' sentence')}, {plural(scores['num_words'], 'word')}"
    tables: list[ScoreTable | str] = [
        score_table(title, TASK.scores_of_models(metrics, split), HEADLINES["types" in scores])
    ]
    if scores.get("types"):
        headlines = by_own_name("f1", "precision", "recall", "support") | {"support": "spans"}
        tables.append(score_table(plural(scores["num_spans"], "span"), scores["types"], headlines))
    return tables


def predict(request: PredictRequest, suffix: str) -> tuple[Written, str]:
    """The tag of each word of a file of sentences."""
    trained = load(request.run_folder)
    trained.threads = request.threads
    names, tokenizer = trained.output.names, trained.encoder.tokenizer
    sentences = read_tagged(
        [request.data],
        request["text_columns"] or (),
        default_names=names,
        strict=request.strict,
        need_tags=False,
        known_tags=trained.output.tags,
    )
    key = f"{names[1]}_pred"
    for name in (key, "status"):
        if any(name in row for row in sentences.rows):
            raise DataError(
                f"{request.data} already has the key {name!r}, which predictions need; give it another name."
            )
    if warning := coverage_warning(tokenizer, (word for words in sentences.words for word in words)):
        note(warning)

    tags = tag(trained, sentences.words, pick_device(request.device))
    if suffix.startswith(".jsonl"):
        content = json_lines(
            {**row, key: tags_of_row, "status": tokenizer.status_of(words)}
            if status == OK
            else {**row, key: None, "status": status}
            for row, words, tags_of_row, status in zip(
                sentences.rows, sentences.words, tags, sentences.status, strict=True
            )
        )
    else:
        content = columns(sentences, tags)

    num_tagged = sum(status == OK for status in sentences.status)
    summary = f"{num_tagged:,} of {plural(len(tags), 'sentence')} tagged"
    if num_tagged < len(tags):
        first = sentences.rejected[0]
        summary += f"; the first that could not be in line {first.line}: {first.column}: {first.reason}"
    return content, summary


def contents(sentences: TaggedSentences, rows: np.ndarray) -> tuple[list[list[str]], list[list[str]]]:
    """The words and the tags of some sentences."""
    return [sentences.words[row] for row in rows], [sentences.tags[row] for row in rows]


def num_unknown(prepared: PreparedSentences) -> int:
    """Words of validation and test sentences whose tag no training sentence has."""
    rows = [row for split in ("val", "test") for row in prepared.splits[split]]
    return sum(prepared.fitted.output.targets(prepared.data.tags[row]).count(-1) for row in rows)


def columns(sentences: TaggedSentences, tags: list[list[str]]) -> str:
    """A word and its tag a line, a blank line after each sentence."""
    lines = []
    for line, words, tags_of_words in zip(sentences.lines, sentences.words, tags, strict=True):
        for word, tag_of_word in zip(words, tags_of_words, strict=True):
            if any(not cell or set(cell) & set(" \t\r\n") for cell in (word, tag_of_word)):
                raise DataError(
                    f"{sentences.files[0]}, line {line}: {word!r} with the tag {tag_of_word!r} cannot be written in "
                    "columns that spaces separate; write .jsonl."
                )
            lines.append(f"{word} {tag_of_word}\n")
        if words:
            lines.append("\n")
    return "".join(lines)


TASK = Task(
    settings=SETTINGS,
    noun="tags",
    explainable="edgewise.learn.tasks.tagging.explainable:EXPLAINABLE",
    labels={"usual_tags": "each word's most frequent tag"},
    output="tagged.jsonl",
    output_formats=(".jsonl", ".jsonl.gz", ".conll", ".conll.gz"),
    prepare=prepare,
    load=load,
    loaders=by_split(loader),
    evaluate=evaluate,
    write_predictions=write_predictions,
    split_contents=split_contents,
    description=describe,
    warnings=warnings,
    score_tables=score_tables,
    predict=predict,
)
