"""Language: the next token of a text."""

import math
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import torch
from torch import Tensor

from edgewise.errors import DataError, SettingError
from edgewise.formatting import plural
from edgewise.learn.networks.generate import generate
from edgewise.learn.networks.language import NextTokenModel
from edgewise.learn.networks.text_settings import SamplingSettings, TransformerSettings
from edgewise.learn.progress import remark
from edgewise.learn.readers.texts.tokenizer import Tokenizer, Tokens, read_text
from edgewise.learn.tables.decode import check_files_differ
from edgewise.learn.tables.options import TABLES
from edgewise.learn.tasks.fitted import FittedText
from edgewise.learn.tasks.language.settings import LanguageRunSettings
from edgewise.learn.tasks.scores import command, same
from edgewise.learn.tasks.task import Prepared, Task, training_metrics
from edgewise.learn.tasks.vocabulary import coverage_note
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.document import TRANSIENT
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import Loader, WindowLoader
from edgewise.learn.training.loss import TokenLoss
from edgewise.learn.training.settings import TrainSettings

if TYPE_CHECKING:
    from edgewise.learn.training.training import FitResult


WINDOWS_A_BATCH = 64
"""Windows that are read at once where no gradient is wanted."""


@dataclass(kw_only=True)
class FittedLanguage(FittedText):
    """A model with the vocabulary that it was trained with."""

    FORMAT = LanguageRunSettings.FORMAT

    num_tokens: int
    """Tokens that the model has vectors for."""
    settings: TransformerSettings
    """The sizes of the model."""
    has_end: bool = False
    """Whether it has learned where texts end; one long text has no end."""
    start: dict[str, Tensor] = field(metadata=TRANSIENT, default_factory=dict)
    """The weights before the first step; none where they are drawn."""

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
        """The mean of −ln p over the tokens of a text but the first, read in windows of the model's context.

        Raises:
            DataError: There are fewer than two tokens, so that none is predicted.
        """
        if len(numbers) < 2:
            raise DataError(f"the text has {plural(len(numbers), 'token')}; a score needs two or more.")
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
        absent = (self.tokenizer.unknown, None if self.has_end else self.tokenizer.end)
        return [number for number in absent if number is not None]

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
        model = NextTokenModel(self.num_tokens, self.settings)
        if self.start:
            model.load_state_dict(self.start)
        return model

    def with_context(self, settings: TransformerSettings) -> "FittedLanguage":
        """The same model before it is trained further, with another dropout or a shorter context."""
        weights = self.model.state_dict()
        if settings.position == "learned":
            # The first positions of a table are those of a shorter text.
            weights = {
                name: value[: settings.context] if name.startswith("position.") else value
                for name, value in weights.items()
            }
        return replace(self, members=[], settings=settings, start=weights)


def prepare(settings: LanguageRunSettings) -> Prepared:
    check_files_differ(settings.files)
    for path in settings.files:
        if path.lower().endswith(TABLES):
            remark(
                f"warning: {path} is read as one text, with its first line and its separators; the texts of a "
                "column are learned by edgewise train masked --text-columns"
            )
    validation = None if settings.validation_data is None else read_text(settings.validation_data)
    return prepared(settings, "".join(read_text(path) for path in settings.data), validation)


def prepared(settings: LanguageRunSettings, text: str, validation: str | None = None) -> Prepared:
    """The same of a text, and perhaps another for validation; the vocabulary is that of its training part.

    Raises:
        DataError: the training part is shorter than the model's context.
    """
    cut = round(len(text) * settings.split_sizes[0])
    stop = cut + round(len(text) * settings.split_sizes[1])
    splits = {"training": text[:cut], "validation": text[cut:stop]}
    if validation is not None:
        splits = {"training": text, "validation": validation}
    fitted = untrained(settings, splits["training"])
    tokenizer = fitted.tokenizer
    numbers = {split: tokenizer.encode(words).numbers for split, words in splits.items()}
    needed = settings.model.context + 1
    if len(numbers["training"]) < needed:
        raise DataError(
            f"{', '.join(settings.data)}: the text has {plural(len(numbers['training']), 'token')} to train on, "
            f"fewer than --context + 1 = {needed}; give a longer text or a smaller --context."
        )
    return Prepared(settings, text, numbers, fitted)


def untrained(settings: LanguageRunSettings, text: str) -> FittedLanguage:
    """The model before its first step, with the vocabulary of the training text or of the pretrained model."""
    if settings.pretrained is not None:
        return FittedLanguage.load(RunFolder.finished(settings.pretrained)).with_context(settings.model)
    tokenizer = Tokenizer.learned([text], settings.tokens, settings.vocabulary_size)
    return FittedLanguage(
        tokenizer=tokenizer, tokens=tokenizer.kind, num_tokens=len(tokenizer), settings=settings.model
    )


def recipe(prepared: Prepared) -> TrainSettings:
    epochs, _ = prepared.settings.schedule(len(prepared.splits["training"]))
    return replace(prepared.settings.train, epochs=epochs)


def loaders(prepared: Prepared) -> Callable[[TrainSettings], tuple[Loader, Loader | None]]:
    training, validation = (torch.from_numpy(prepared.splits[split]) for split in ("training", "validation"))
    context = prepared.settings.model.context
    _, steps = prepared.settings.schedule(len(training))

    def of_member(recipe: TrainSettings) -> tuple[Loader, Loader | None]:
        assert recipe.batch_size is not None
        judged = WindowLoader(validation, context, WINDOWS_A_BATCH) if len(validation) > 1 else None
        return WindowLoader(training, context, recipe.batch_size, steps, recipe.seed), judged

    return of_member


def loss(prepared: Prepared) -> TokenLoss:
    return TokenLoss()


def evaluate(prepared: Prepared, results: "list[FitResult]") -> dict[str, Any]:
    """The loss of the validation text, beside that of counting pairs of tokens."""
    fitted, splits = prepared.fitted, prepared.splits
    epochs, steps = prepared.settings.schedule(len(splits["training"]))
    metrics = training_metrics(prepared, results[0])
    del metrics["epochs"]
    counts = {split: len(numbers) for split, numbers in splits.items()}
    metrics |= {"tokens": {"vocabulary": len(fitted.tokenizer), **counts}, "steps": epochs * steps}
    if counts["validation"] > 1:
        loss = fitted.loss(splits["validation"])
        pairs = pair_loss(splits["training"], splits["validation"], len(fitted.tokenizer))
        metrics["validation"] = {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
        metrics["baselines"] = {"pairs": {"validation": {"loss": pairs, "perplexity": math.exp(pairs)}}}
    return metrics


def describe(prepared: Prepared, folder: RunFolder) -> list[str]:
    counts = {part: len(numbers) for part, numbers in prepared.splits.items()}
    lines = [
        f"{', '.join(prepared.settings.data)}: {plural(len(prepared.data), 'character')}; "
        f"{counts['training']:,} training and {plural(counts['validation'], 'validation token')} out of a "
        f"vocabulary of {len(prepared.fitted.tokenizer):,}"
        + ("" if prepared.settings.validation_data is None else f"; validation: {prepared.settings.validation_data}")
    ]
    if not counts["validation"]:
        lines.append("  no validation text: the model is not evaluated")
    return [*lines, *(f"  {note}" for note in (*warnings(prepared), *prepared.decisions))]


def warnings(prepared: Prepared) -> list[str]:
    """Tokens that the vocabulary of a pretrained model lacks."""
    unknown, splits = prepared.fitted.tokenizer.unknown, prepared.splits
    if prepared.settings.pretrained is None or unknown is None:
        return []
    num_unknown = sum(int((numbers == unknown).sum()) for numbers in splits.values())
    note = coverage_note(num_unknown, sum(map(len, splits.values())))
    return [note] if note else []


def title(metrics: dict[str, Any], split: str) -> str:
    return f"validation text: {plural(metrics['tokens']['validation'], 'token')}"


def next_commands(folder: RunFolder) -> list[str]:
    return [command("generate", folder.path)]


def pair_loss(training: np.ndarray, validation: np.ndarray, num_tokens: int) -> float:
    """The mean of −ln p where p(b | a) comes from counting pairs in the training text, each once more than seen."""
    pairs, counts = np.unique(training[:-1] * num_tokens + training[1:], return_counts=True)
    wanted = validation[:-1] * num_tokens + validation[1:]
    places = np.searchsorted(pairs, wanted).clip(max=len(pairs) - 1)
    seen = np.where(pairs[places] == wanted, counts[places], 0)
    firsts = np.bincount(training[:-1], minlength=num_tokens)[validation[:-1]]
    return float(-np.log((seen + 1) / (firsts + num_tokens)).mean())


TASK = Task(
    settings_type=LanguageRunSettings,
    noun="tokens",
    headlines=same("loss", "perplexity"),
    labels={"pairs": "pairs of tokens"},
    prepare=prepare,
    load=FittedLanguage.load,
    prepared=prepared,
    recipe=recipe,
    member_loaders=loaders,
    loss=loss,
    evaluate=evaluate,
    description=describe,
    warnings=warnings,
    title=title,
    further_commands=next_commands,
)
