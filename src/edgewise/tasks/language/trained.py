"""A trained language model with its vocabulary; generates text."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from edgewise.data.texts.tokenizer import Tokenizer, Tokens
from edgewise.errors import SettingError
from edgewise.models.generate import generate
from edgewise.models.language import NextTokenModel
from edgewise.models.text_settings import SamplingSettings, TransformerSettings
from edgewise.tasks.fitted import FittedText
from edgewise.train.device import cpu_threads
from edgewise.train.loader import WindowLoader

WINDOWS_A_BATCH = 64
"""Windows that are read at once where no gradient is wanted."""


@dataclass(kw_only=True)
class TrainedLanguage(FittedText):
    """A model with the vocabulary that it was trained with."""

    FORMAT = "edgewise language model"

    num_tokens: int
    """Tokens that the model has vectors for."""
    settings: TransformerSettings
    """The sizes of the model."""
    has_end: bool = False
    """Whether it has learned where texts end; one long text has no end."""

    @classmethod
    def of(cls, tokenizer: Tokenizer, model: NextTokenModel, *, has_end: bool = False) -> Self:
        """A model that was trained elsewhere."""
        size = model.embedding.num_embeddings
        return cls(
            members=[model],
            tokenizer=tokenizer,
            tokens=tokenizer.kind,
            num_tokens=size,
            settings=model.settings,
            has_end=has_end,
        )

    def loss(self, numbers: np.ndarray) -> float:
        """The mean of −ln p over the tokens of a text, read in windows of the model's context."""
        loader = WindowLoader(torch.from_numpy(numbers), self.model.settings.context, WINDOWS_A_BATCH)
        return self.token_scores(loader)[0]

    def write(self, prompt: str, sampling: SamplingSettings, device: str = "cpu") -> Iterator[str]:
        """What follows the prompt, piece by piece.

        Raises:
            SettingError: the prompt is empty, or has characters or words that the model has never seen.
        """
        numbers = self.read(prompt)
        model = self.model.to(device).eval()
        written: list[int] = []
        shown = ""
        end = self.tokenizer.end if self.has_end else None
        with cpu_threads(self.threads):
            prompt_tokens = torch.from_numpy(numbers).to(device)
            for number in generate(model, prompt_tokens, sampling, end=end, never=self.never):
                written.append(number)
                text = self.tokenizer.decode(written)
                # A character of several bytes, or a space between words, is known only with the token after it.
                if not text.endswith("\ufffd"):
                    yield text[len(shown) :]
                    shown = text
        if written and len(text := self.tokenizer.decode(written)) > len(shown):
            yield text[len(shown) :]

    @property
    def never(self) -> list[int]:
        """The tokens that are never written: what is unknown cannot be, and one long text has no end."""
        unsaid = (self.tokenizer.unknown, None if self.has_end else self.tokenizer.end)
        return [number for number in unsaid if number is not None]

    def read(self, prompt: str) -> np.ndarray:
        """The tokens of a prompt; errors as in `encode`."""
        return self.encode(prompt).numbers

    def encode(self, prompt: str) -> Tokens:
        """The tokens of a prompt, each with its place in it.

        Raises:
            SettingError: it is empty, or has characters or words that the model has never seen.
        """
        if unknown := self.tokenizer.unknown_parts(prompt):
            what = "characters" if self.tokenizer.kind == "characters" else "words"
            shown = ", ".join(repr(part) for part in unknown[:10]) + (", ..." if len(unknown) > 10 else "")
            raise SettingError(f"the prompt has {what} that the model has never seen: {shown}; leave them out.")
        found = self.tokenizer.encode(prompt)
        if not len(found.numbers):
            raise SettingError("the prompt is empty; give the model something to go on from.")
        return found

    @property
    def opening(self) -> str:
        """A prompt that the model can read: a new line, or the first token of a vocabulary that has none."""
        readable = self.tokenizer.encode("\n").numbers
        if len(readable) and not self.tokenizer.unknown_parts("\n"):
            return "\n"
        return self.tokenizer.decode(self.tokenizer.ordinary[:1].tolist())

    def cut(self, prompt: str) -> int:
        """How many tokens at the beginning of a prompt the model cannot read, because it learned fewer positions."""
        return max(0, len(self.read(prompt)) - self.limit)

    @property
    def limit(self) -> int:
        """How many tokens the model can read: the positions that it learned, or any number."""
        settings = self.model.settings
        return settings.context if settings.position == "learned" else sys.maxsize

    def new_member(self) -> NextTokenModel:
        return NextTokenModel(self.num_tokens, self.settings)
