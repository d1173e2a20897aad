"""A trained translation model with its vocabulary."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

from edgewise.choices import TokenKind
from edgewise.errors import DataError, MissingExtraError
from edgewise.models.beam import translate
from edgewise.models.text_settings import BeamSettings, RecurrentSettings, TransformerSettings
from edgewise.models.translation import RecurrentTranslationModel, TranslationModel, Writer
from edgewise.progress import counted
from edgewise.records import PairBatch
from edgewise.tasks.fitted import FittedText
from edgewise.train.device import cpu_threads
from edgewise.train.loader import LengthLoader

TEXTS_A_BATCH = 64
"""Texts that are translated at once."""


@dataclass(kw_only=True)
class TrainedTranslation(FittedText):
    """A model, its vocabulary, and the names of what it reads and writes."""

    FORMAT = "edgewise translation model"
    FORMAT_VERSION = 2  # version 1 did not name the kind of the model, which was a transformer

    tokens: TokenKind = "bpe"
    num_tokens: int
    """Tokens that the model has vectors for."""
    kind: Literal["transformer", "recurrent"] = "transformer"
    """What the model is."""
    settings: TransformerSettings | RecurrentSettings
    """The sizes of the model."""
    names: tuple[str, str] = ("source", "target")
    """The columns of the table it was trained on."""
    beam: BeamSettings = field(default_factory=BeamSettings)
    """How translations are searched for."""

    @property
    def end(self) -> int:
        """The token that ends a text, and begins it."""
        assert self.tokenizer.end is not None
        return self.tokenizer.end

    def translate(self, texts: Sequence[str], device: str = "cpu") -> list[str | None]:
        """The translation of each text; None where one is empty or longer than the model reads."""
        written = self.write(texts, device)
        return [None if numbers is None else self.tokenizer.decode(numbers) for numbers in written]

    def write(self, texts: Sequence[str], device: str = "cpu") -> list[list[int] | None]:
        """The tokens of the translation of each text, without its end; None where a text cannot be translated."""
        tokens = [self.tokenizer.encode(text).numbers for text in texts]
        found: list[list[int] | None] = [None] * len(texts)
        able = [row for row, numbers in enumerate(tokens) if 0 < len(numbers) < self.model.settings.context]
        able.sort(key=lambda row: len(tokens[row]))
        self.model.to(device).eval()
        with cpu_threads(self.threads):
            for first in counted(range(0, len(able), TEXTS_A_BATCH), "translating"):
                rows = able[first : first + TEXTS_A_BATCH]
                source, lengths = padded([with_end(tokens[row], self.end) for row in rows], self.end)
                ends = self.end, self.end
                written = translate(self.model, source.to(device), lengths.to(device), *ends, self.beam)
                for row, numbers in zip(rows, written, strict=True):
                    found[row] = numbers
        self.model.to("cpu")
        return found

    def new_member(self) -> Writer:
        if isinstance(self.settings, RecurrentSettings):
            return RecurrentTranslationModel(self.num_tokens, self.settings)
        return TranslationModel(self.num_tokens, self.settings)

    def check(self) -> None:
        """Raise DataError unless the settings are those of the kind."""
        if (self.kind == "recurrent") != isinstance(self.settings, RecurrentSettings):
            raise DataError(f"settings are not those of a {self.kind} model.")


def with_end(numbers: np.ndarray, end: int) -> np.ndarray:
    """The tokens of a text, and its end."""
    return np.append(numbers, end)


def decoder_input(numbers: np.ndarray, end: int) -> np.ndarray:
    """What is read while some tokens are written: the beginning, and all but the last."""
    return np.concatenate([[end], numbers[:-1]]).astype(np.int64)


def padded(texts: Sequence[np.ndarray], filling: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Texts of different lengths as one table, and their lengths."""
    lengths = torch.tensor([len(text) for text in texts], dtype=torch.int64)
    table = torch.full((len(texts), int(lengths.max())), filling, dtype=torch.int64)
    for row, text in enumerate(texts):
        table[row, : len(text)] = torch.from_numpy(text)
    return table, lengths


@dataclass(frozen=True, eq=False)
class TokenPairs:
    """Texts and translations as tokens, and the batches of some of them."""

    sources: list[np.ndarray]
    """Tokens of each text, the end included."""
    targets: list[np.ndarray]
    """Tokens of each translation, the end included."""
    end: int
    """The token that ends a text, and begins it."""

    def loader(self, rows: np.ndarray, batch_size: int, seed: int | None = None) -> LengthLoader:
        """The batches of some rows; a row takes as much of a batch as the longer of its two texts."""
        lengths = np.array([max(len(self.sources[row]), len(self.targets[row])) for row in rows], dtype=np.int64)
        return LengthLoader(lengths, lambda places: self.batch(rows[places]), batch_size, seed)

    def batch(self, rows: np.ndarray) -> PairBatch:
        """Some rows, padded."""
        source, source_lengths = padded([self.sources[row] for row in rows], self.end)
        written = [self.targets[row] for row in rows]
        tokens, _ = padded([decoder_input(text, self.end) for text in written], self.end)
        targets, _ = padded(written, -1)
        return PairBatch(source, source_lengths, tokens, targets)


def bleu(written: Sequence[str], right: Sequence[str]) -> float:
    """sacreBLEU's corpus score of translations, cased, by its tokenizer 13a (Post 2018)."""
    try:
        import sacrebleu
    except ImportError as error:
        raise MissingExtraError("sacrebleu", "text") from error
    score = sacrebleu.corpus_bleu(list(written), [list(right)]).score
    if not math.isfinite(score):
        raise DataError("the translations cannot be scored: there is no text.")
    return round(score, 2)
