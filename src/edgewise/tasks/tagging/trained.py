"""A trained tagger: its vocabulary, its tags; it tells the tag of each word, and is kept."""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch
from jaxtyping import Float

from edgewise.choices import TokenKind
from edgewise.data.texts.pieces import Piece, pieces_of
from edgewise.data.texts.tags import KEYS
from edgewise.data.texts.tokenizer import Tokenizer
from edgewise.models.text import TagModel
from edgewise.models.text_settings import ReaderSettings, TransformerSettings
from edgewise.progress import counted
from edgewise.records import TextBatch
from edgewise.tasks.checkpoint import read_tokenizer, read_weights, write_model
from edgewise.train.device import cpu_threads
from edgewise.train.folder import RunFolder
from edgewise.train.spans import marks_spans

FORMAT, FORMAT_VERSION = "edgewise tagging model", 1
PIECES_A_BATCH = 64
"""Pieces of sentences that are read at once where no gradient is wanted."""


@dataclass(frozen=True)
class TagDocument:
    """What model.json says of a model of tags, beside its format."""

    tokens: TokenKind
    tags: tuple[str, ...]
    usual: str
    names: tuple[str, str]
    reader: ReaderSettings
    settings: TransformerSettings


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

    @property
    def hidden(self) -> int | None:
        """The token behind which a word is hidden; None where the vocabulary has none."""
        return self.tokenizer.mask if self.tokenizer.unknown is None else self.tokenizer.unknown

    def tag(self, sentences: Sequence[Sequence[str]], device: str = "cpu") -> list[list[str]]:
        """The tag of every word; sentences longer than the model's context are read in pieces."""
        found = [[self.usual] * len(words) for words in sentences]
        for number, piece, scores in self.scores(sentences, device):
            for word, told in zip(piece.words, scores.argmax(-1), strict=True):
                found[number][word] = self.tags[told]
        return found

    def scores(
        self, sentences: Sequence[Sequence[str]], device: str = "cpu"
    ) -> Iterator[tuple[int, Piece, Float[np.ndarray, " word tag"]]]:
        """The pieces of some sentences, the number of the sentence of each, and how well each tag fits each word of
        it before softmax; a word that is no token at all stands in none."""
        context = self.model.settings.context
        pieces = [
            (number, piece)
            for number, words in enumerate(sentences)
            for piece in pieces_of(words, self.tokenizer, context)
        ]
        pieces.sort(key=lambda pair: len(pair[1].numbers))
        self.model.to(device).eval()
        for first in counted(range(0, len(pieces), PIECES_A_BATCH), "predicting"):
            some = pieces[first : first + PIECES_A_BATCH]
            with torch.no_grad(), cpu_threads(self.threads):
                scores = self.model(packed([piece for _, piece in some]).to(device)).cpu().numpy()
            begins = np.cumsum([0, *(len(piece.numbers) for _, piece in some)])
            for (number, piece), begin in zip(some, begins):
                yield number, piece, scores[piece.firsts + begin]
        self.model.to("cpu")

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
        read = folder.read_model(FORMAT, FORMAT_VERSION, TagDocument)
        tokenizer = read_tokenizer(folder, read.tokens)
        sizes = len(tokenizer), tokenizer.unknown, len(read.tags)
        model = read_weights(folder, lambda: TagModel(*sizes, read.reader, read.settings))
        return cls(tokenizer, model, read.tags, read.usual, read.names)


def packed(pieces: Sequence[Piece]) -> TextBatch:
    """Pieces one behind the other."""
    offsets = np.concatenate([[0], np.cumsum([len(piece.numbers) for piece in pieces])])
    return TextBatch(
        torch.from_numpy(np.concatenate([piece.numbers for piece in pieces])), offsets=torch.from_numpy(offsets)
    )
