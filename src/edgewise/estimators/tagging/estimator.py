"""Tagger: learn the tag of each word, and tell those of new sentences."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import torch

from edgewise.data.pieces import Piece, pieces_of
from edgewise.data.tags import KEYS, TaggedSentences, names_of, sentences_from_lists
from edgewise.data.text import Tokenizer
from edgewise.errors import DataError, SettingError
from edgewise.estimators.kept import fit_in, read_tokenizer, read_weights, training_metrics, undamaged, write_model
from edgewise.estimators.learner import Learner
from edgewise.estimators.reading import scheduled
from edgewise.estimators.start import started
from edgewise.estimators.tagging.job import TaggingJob, tagging_job
from edgewise.models.tagging import TagModel
from edgewise.models.text_settings import ReaderSettings
from edgewise.models.transformer_settings import TransformerSettings
from edgewise.records import TextBatch
from edgewise.train.device import cpu_threads, pick_device
from edgewise.train.folder import RunFolder
from edgewise.train.keeper import Report
from edgewise.train.loader import RowLoader, seed_of
from edgewise.train.spans import UsualTags, marks_spans, tag_scores

FORMAT, FORMAT_VERSION = "edgewise tagging model", 1
PIECES_A_BATCH = 64
"""Pieces of sentences that are read at once where no gradient is wanted."""
PART_NAMES = {"val": "validation", "test": "test"}
"""The parts that are scored, by the names that `metrics.json` gives them."""


@dataclass
class TrainedTagger:
    """A model, its vocabulary and its tags."""

    tokenizer: Tokenizer
    """From words to tokens."""
    model: TagModel
    """What was trained."""
    tags: tuple[str, ...]
    """Those of the training, in the order of the model's scores."""
    usual: str
    """The most frequent of them: what a word gets that is no token at all, such as a no-break space."""
    names: tuple[str, str] = KEYS
    """What the words and the tags were called in training."""
    threads: int = 1
    """CPU threads that it computes with."""

    @property
    def spans(self) -> bool:
        """Whether the tags mark spans."""
        return marks_spans(self.tags)

    def tag(self, sentences: Sequence[Sequence[str]], device: str = "cpu") -> list[list[str]]:
        """The tag of every word; sentences longer than the model's context are read in pieces."""
        found = [[self.usual] * len(words) for words in sentences]
        context = self.model.settings.context
        pieces = [
            (number, piece)
            for number, words in enumerate(sentences)
            for piece in pieces_of(words, self.tokenizer, context)
        ]
        pieces.sort(key=lambda pair: len(pair[1].numbers))
        self.model.to(device).eval()
        with torch.no_grad(), cpu_threads(self.threads):
            for first in range(0, len(pieces), PIECES_A_BATCH):
                some = pieces[first : first + PIECES_A_BATCH]
                best = self.model(packed([piece for _, piece in some]).to(device)).argmax(-1).cpu().numpy()
                begins = np.cumsum([0, *(len(piece.numbers) for _, piece in some)])
                for (number, piece), begin in zip(some, begins):
                    for told, word in zip(best[piece.firsts + begin], piece.words, strict=True):
                        found[number][word] = self.tags[told]
        self.model.to("cpu")
        return found

    def save(self, folder: RunFolder) -> None:
        """Writes model.safetensors, tokenizer.json and model.json."""
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "tokens": self.tokenizer.kind,
            "tags": list(self.tags),
            "usual": self.usual,
            "names": list(self.names),
            "reader": dataclasses.asdict(self.model.reader),
            "settings": dataclasses.asdict(self.model.settings),
        }
        write_model(folder, self.model, self.tokenizer, content)

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote; raises RunFolderError where it is damaged or of another format."""
        content = folder.read_model(FORMAT, FORMAT_VERSION)
        with undamaged(folder):
            tokenizer, tags = read_tokenizer(folder, content["tokens"]), tuple(content["tags"])
            reader, settings = ReaderSettings(**content["reader"]), TransformerSettings(**content["settings"])
            model = TagModel(len(tokenizer), tokenizer.unknown, len(tags), reader, settings)
            read_weights(folder, model)
            usual, names = content["usual"], tuple(content["names"])
        return cls(tokenizer, model, tags, usual, names)


@dataclass(frozen=True, eq=False)
class TagBatches:
    """Pieces of sentences, each word's tag at its first token."""

    pieces: list[Piece]
    """Those of all sentences."""
    targets: list[np.ndarray]
    """The number of the tag at each token; −1 where no word begins, or where its tag is unknown to the training."""

    def batch(self, rows: np.ndarray) -> TextBatch:
        """Some pieces, packed."""
        targets = torch.from_numpy(np.concatenate([self.targets[row] for row in rows]))
        return dataclasses.replace(packed([self.pieces[row] for row in rows]), targets=targets)


def packed(pieces: Sequence[Piece]) -> TextBatch:
    """Pieces one behind the other."""
    offsets = np.concatenate([[0], np.cumsum([len(piece.numbers) for piece in pieces])])
    return TextBatch(
        torch.from_numpy(np.concatenate([piece.numbers for piece in pieces])), offsets=torch.from_numpy(offsets)
    )


def batches_of(
    sentences: TaggedSentences, rows: np.ndarray, tags: Sequence[str], tokenizer: Tokenizer, context: int
) -> TagBatches:
    """The pieces of some sentences, with the numbers of their tags."""
    number_of = {tag: number for number, tag in enumerate(tags)}
    pieces: list[Piece] = []
    targets: list[np.ndarray] = []
    for row in rows.tolist():
        for piece in pieces_of(sentences.words[row], tokenizer, context):
            told = np.full(len(piece.numbers), -1, dtype=np.int64)
            told[piece.firsts] = [number_of.get(sentences.tags[row][word], -1) for word in piece.words]
            pieces.append(piece)
            targets.append(told)
    return TagBatches(pieces, targets)


def untrained(sentences: TaggedSentences, rows: np.ndarray, job: TaggingJob) -> TrainedTagger:
    """All that is known before the first step: the vocabulary and the tags of the training sentences, and what a masked
    run has learned.

    Raises:
        DataError: There is no training sentence, or one tag alone.
    """
    if not len(rows):
        raise DataError(f"{', '.join(sentences.files)}: no sentence is left for training.")
    words, marks = ([side[row] for row in rows] for side in (sentences.words, sentences.tags))
    tags = sorted({tag for each in marks for tag in each})
    if len(tags) < 2:
        raise DataError(f"{', '.join(sentences.files)}: the only tag is {tags[0]!r}, expected two or more.")
    texts = (" ".join(each) for each in words)
    tokenizer, weights = started(job.from_run, texts, job.tokens, job.vocabulary_size)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(job.train.seed))
        model = TagModel(len(tokenizer), tokenizer.unknown, len(tags), job.reader, job.model)
    if weights:
        model.encoder.load_state_dict(weights)
    names = names_of(job.text_columns, job.target_columns)
    return TrainedTagger(tokenizer, model, tuple(tags), UsualTags(words, marks).usual, names, job.train.threads)


def fit_tags(
    trained: TrainedTagger,
    sentences: TaggedSentences,
    parts: dict[str, np.ndarray],
    job: TaggingJob,
    *,
    folder: RunFolder | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> dict[str, Any]:
    """Learns the tags of the training sentences; returns the scores of the others beside those of usual tags."""
    settings, model = job.train, trained.model
    assert settings.batch_size is not None
    train, val = (
        batches_of(sentences, parts[part], trained.tags, trained.tokenizer, job.model.context)
        for part in ("train", "val")
    )
    loaders = (
        RowLoader(np.arange(len(train.pieces)), train.batch, settings.batch_size, settings.seed),
        RowLoader(np.arange(len(val.pieces)), val.batch, PIECES_A_BATCH),
    )
    result = fit_in(folder, model, loaders, settings, resume=resume, report=report)
    metrics: dict[str, Any] = {
        "rows": {part: len(rows) for part, rows in parts.items()} | {"rejected": len(sentences.rejected)},
        "tokens": {"vocabulary": len(trained.tokenizer)},
        "tags": list(trained.tags),
        "epochs": len(result.history),
        "best_epoch": result.best_epoch,
        **training_metrics(model, result.history),
    }
    known = [[side[row] for row in parts["train"]] for side in (sentences.words, sentences.tags)]
    usual = UsualTags(*known)
    compared: dict[str, Any] = {}
    for part, name in PART_NAMES.items():
        if len(parts[part]):
            words, truths = ([side[row] for row in parts[part]] for side in (sentences.words, sentences.tags))
            metrics[name] = tag_scores(truths, trained.tag(words), spans=trained.spans)
            compared[name] = tag_scores(truths, usual.tag(words), spans=trained.spans)
    metrics["baselines"] = {"usual_tags": compared}
    return metrics


class Tagger(Learner[TrainedTagger]):
    """Tells the tag of each word, such as its part of speech, or whether a name begins at it.

        Tagger(model="lstm").fit(sentences, tags).predict([["Mr", "Lund", "came"]])

    Args:
        settings: any field of TaggingJob, ReaderSettings, TransformerSettings or TrainSettings by its name; `model`,
            the name of a recurrent network or of one of `CONFIGURATIONS`; and validation_size, the part of the
            sentences that is scored instead of learned (default: 0.1).
    """

    kind = TrainedTagger
    fitted_by = "fit(sentences, tags)"

    def fit(self, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> Self:
        """Learns the tags of some sentences.

        Args:
            sentences: the words of each.
            tags: the tag of each word.

        Raises:
            DataError: a sentence has not as many tags as words; the message names it.
            SettingError: a setting is not known, or has a value it cannot have.
        """
        settings = dict(self.settings)
        size = settings.pop("validation_size", 0.1)
        if not 0 <= size < 1:
            raise SettingError(f"validation_size is {size}; expected at least 0 and below 1.")
        read = sentences_from_lists(sentences, tags)
        job = tagging_job({**settings, "data": read.files, "split_sizes": (1 - size, size, 0.0)}, "Tagger")
        parts = read.split(job.split_sizes, job.data_seed)
        job = dataclasses.replace(job, train=scheduled(job.train, max(1, len(parts["train"]))))
        self.trained_ = untrained(read, parts["train"], job)
        self.metrics_ = fit_tags(self.trained_, read, parts, job)
        return self

    def predict(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """The tag of every word of some sentences."""
        read = sentences_from_lists(sentences)
        return self.trained.tag(read.words, pick_device(self.settings.get("device", "auto")))

    def score(self, sentences: Sequence[Sequence[str]], tags: Sequence[Sequence[str]]) -> float:
        """The F1 of the spans; where tags mark none, the part of the words whose tag is right."""
        trained, read = self.trained, sentences_from_lists(sentences, tags)
        scores = tag_scores(read.tags, self.predict(read.words), spans=trained.spans)
        return scores["f1" if trained.spans else "accuracy"]
