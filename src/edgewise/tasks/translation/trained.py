"""A trained translation with its vocabulary: translates, is kept in a run folder, and read again."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import numpy as np
import torch

from edgewise.data.texts.tokenizer import Tokenizer
from edgewise.models.beam import translate
from edgewise.models.recurrent_translation import RecurrentTranslationModel
from edgewise.models.text_settings import BeamSettings, RecurrentSettings, TransformerSettings
from edgewise.models.translation import TranslationModel
from edgewise.progress import counted
from edgewise.tasks.checkpoint import read_tokenizer, read_weights, write_model
from edgewise.tasks.translation.job import ModelSettings
from edgewise.train.device import cpu_threads
from edgewise.train.document import read_part
from edgewise.train.folder import RunFolder
from edgewise.train.loader import seed_of

FORMAT, FORMAT_VERSION = "edgewise translation model", 2
"""Version 1 did not name the kind of the model, which was a transformer."""
SETTINGS: dict[str, type[ModelSettings]] = {"transformer": TransformerSettings, "recurrent": RecurrentSettings}
"""What a model of each kind is made of."""
TEXTS_A_BATCH = 64
"""Texts that are translated at once."""


@dataclass(frozen=True)
class TranslationDocument:
    """What model.json says of a model of translations, beside its format."""

    num_tokens: int
    names: tuple[str, str]
    settings: dict[str, Any]
    kind: Literal["transformer", "recurrent"] = "transformer"
    beam: BeamSettings = field(default_factory=BeamSettings)


@dataclass
class TrainedTranslation:
    """A model, its vocabulary, and the names of what it reads and writes."""

    tokenizer: Tokenizer
    """From text to tokens and back, the same for both languages."""
    model: TranslationModel | RecurrentTranslationModel
    """What was trained."""
    names: tuple[str, str] = ("source", "target")
    """The columns of the table it was trained on."""
    threads: int = 1
    """CPU threads that it computes with."""
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

    @property
    def kind(self) -> str:
        """What the model is: `transformer` or `recurrent`."""
        return next(kind for kind, made_of in SETTINGS.items() if isinstance(self.model.settings, made_of))

    def save(self, folder: RunFolder) -> None:
        """Writes model.safetensors, tokenizer.json and model.json."""
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "num_tokens": self.model.embedding.num_embeddings,
            "names": list(self.names),
            "kind": self.kind,
            "settings": dataclasses.asdict(self.model.settings),
            "beam": dataclasses.asdict(self.beam),
        }
        write_model(folder, self.model, self.tokenizer, content)

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote; raises RunFolderError where it is damaged or of another format."""
        read = folder.read_model(FORMAT, FORMAT_VERSION, TranslationDocument)
        settings = read_part(SETTINGS[read.kind], read.settings, "settings", folder.path / "model.json")
        tokenizer = read_tokenizer(folder, "bpe", read.num_tokens)
        model = read_weights(folder, lambda: untrained(read.num_tokens, settings, seed=0))
        return cls(tokenizer, model, read.names, beam=read.beam)


def with_end(numbers: np.ndarray, end: int) -> np.ndarray:
    """The tokens of a text, and its end."""
    return np.append(numbers, end)


def padded(texts: Sequence[np.ndarray], filling: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Texts of different lengths as one table, and their lengths."""
    lengths = torch.tensor([len(text) for text in texts], dtype=torch.int64)
    table = torch.full((len(texts), int(lengths.max())), filling, dtype=torch.int64)
    for row, text in enumerate(texts):
        table[row, : len(text)] = torch.from_numpy(text)
    return table, lengths


def untrained(num_tokens: int, settings: ModelSettings, seed: int) -> TranslationModel | RecurrentTranslationModel:
    """A model before its first step."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(seed))
        if isinstance(settings, RecurrentSettings):
            return RecurrentTranslationModel(num_tokens, settings)
        return TranslationModel(num_tokens, settings)
