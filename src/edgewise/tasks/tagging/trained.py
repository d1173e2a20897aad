"""A trained tagger: its vocabulary and its tags; predicts the tag of each word."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from jaxtyping import Float

from edgewise.data.texts.tags import KEYS, Chunk, TaggedSentences, chunks_of
from edgewise.data.texts.tokenizer import Tokenizer
from edgewise.models.text import TagModel
from edgewise.models.text_settings import ReaderSettings, TransformerSettings
from edgewise.progress import counted
from edgewise.records import TextBatch
from edgewise.tasks.fitted import FittedText
from edgewise.train.device import cpu_threads
from edgewise.train.document import TRANSIENT
from edgewise.train.spans import marks_spans

PIECES_A_BATCH = 64
"""Pieces of sentences that are read at once where no gradient is wanted."""


@dataclass(kw_only=True)
class TrainedTagger(FittedText):
    """A model, its vocabulary and its tags."""

    FORMAT = "edgewise tagging model"

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
    ) -> Iterator[tuple[int, Chunk, Float[np.ndarray, " word tag"]]]:
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


@dataclass(frozen=True, eq=False)
class TagBatches:
    """Pieces of sentences, each word's tag at its first token."""

    pieces: list[Chunk]
    """Those of all sentences."""
    targets: list[np.ndarray]
    """The number of the tag at each token; −1 where no word begins, or where its tag is unknown to the training."""

    def batch(self, rows: np.ndarray) -> TextBatch:
        """Some pieces, packed."""
        targets = torch.from_numpy(np.concatenate([self.targets[row] for row in rows]))
        return dataclasses.replace(TextBatch.packed([self.pieces[row].numbers for row in rows]), targets=targets)


def batches_of(
    sentences: TaggedSentences, rows: np.ndarray, tags: Sequence[str], tokenizer: Tokenizer, context: int
) -> TagBatches:
    """The pieces of some sentences, with the numbers of their tags."""
    number_of = {tag: number for number, tag in enumerate(tags)}
    pieces: list[Chunk] = []
    targets: list[np.ndarray] = []
    for row in rows.tolist():
        for piece in chunks_of(sentences.words[row], tokenizer, context):
            targets_of_piece = np.full(len(piece.numbers), -1, dtype=np.int64)
            targets_of_piece[piece.firsts] = [number_of.get(sentences.tags[row][word], -1) for word in piece.words]
            pieces.append(piece)
            targets.append(targets_of_piece)
    return TagBatches(pieces, targets)
