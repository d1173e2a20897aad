"""Language: the next token of a text."""

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from edgewise.choices import TokenKind
from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.files import JsonObject
from edgewise.learn.fitted import Fitted
from edgewise.learn.networks.generate import generate
from edgewise.learn.networks.language import NextTokenModel
from edgewise.learn.networks.text_settings import SamplingSettings, TransformerSettings
from edgewise.learn.progress import remark
from edgewise.learn.readers.texts.tokenizer import Tokenizer, Tokens, read_text
from edgewise.learn.tables.decode import check_files_differ
from edgewise.learn.tables.options import TABLES
from edgewise.learn.tasks.config import input_files
from edgewise.learn.tasks.language.settings import SETTINGS, LanguageRunSettings
from edgewise.learn.tasks.scores import ScoreTable, by_own_name, command
from edgewise.learn.tasks.task import Prepared, Task, training_metrics
from edgewise.learn.tasks.tokens import TOKENIZER, perplexity, token_scores
from edgewise.learn.tasks.vocabulary import coverage_note
from edgewise.learn.training.checkpoint import FitResult
from edgewise.learn.training.device import cpu_threads
from edgewise.learn.training.document import TRANSIENT
from edgewise.learn.training.folder import RunFolder
from edgewise.learn.training.loader import Loader, WindowLoader
from edgewise.learn.training.loss import TokenLoss
from edgewise.learn.training.settings import TrainSettings

WINDOWS_PER_BATCH = 64
"""Windows that are read at once where no gradient is wanted."""
MAX_SHOWN = 10
"""Unknown parts of a prompt that a message lists."""


@dataclass(frozen=True)
class NextToken:
    """A score for each token of the vocabulary: p(next token | those before it) = softmax(scores)."""

    has_end: bool = False
    """Whether it has learned where texts end; one long text never does."""

    def loss(self, settings: LanguageRunSettings) -> TokenLoss:
        """−ln p of the next token."""
        return TokenLoss()

    def end(self, tokenizer: Tokenizer) -> int | None:
        """The token with which a written text ends; None where it goes on."""
        return tokenizer.end if self.has_end else None

    def never_written(self, tokenizer: Tokenizer) -> list[int]:
        """The tokens that are never written: what is unknown cannot be, and one long text never ends."""
        absent = (tokenizer.unknown, None if self.has_end else tokenizer.end)
        return [number for number in absent if number is not None]

    def metrics(self, loss: float) -> dict[str, float]:
        """The scores of a text, for metrics.json."""
        return {"loss": loss, "perplexity": perplexity(loss)}

    def baselines(self, training: np.ndarray, validation: np.ndarray, num_tokens: int) -> JsonObject:
        """The scores of counting pairs of tokens."""
        return {"pairs": {"validation": self.metrics(pair_loss(training, validation, num_tokens))}}

    def check(self) -> None:
        """Nothing is left to check."""


@dataclass(frozen=True)
class LanguageEncoder:
    """The vocabulary of the training text, and the sizes of the network."""

    tokenizer: Tokenizer = field(metadata=TOKENIZER)
    """From text to tokens and back."""
    tokens: TokenKind
    """What a text is cut into."""
    num_tokens: int
    """Tokens that the network has vectors for."""
    settings: TransformerSettings
    """The sizes of the network."""
    start: dict[str, Tensor] = field(metadata=TRANSIENT, default_factory=dict)
    """The weights before the first step; none where they are drawn."""

    @property
    def max_tokens(self) -> int:
        """How many tokens the network can read: the positions that it learned, or any number."""
        return self.settings.context if self.settings.position == "learned" else sys.maxsize

    @property
    def default_prompt(self) -> str:
        """A prompt that the network can read: a new line, or the first token of a vocabulary that has none."""
        if len(self.tokenizer.encode("\n").numbers) and not self.tokenizer.unknown_parts("\n"):
            return "\n"
        return self.tokenizer.decode(self.tokenizer.ordinary[:1].tolist())

    def new_network(self, output: NextToken) -> NextTokenModel:
        """A decoder with a score for each token of the vocabulary."""
        network = NextTokenModel(self.num_tokens, self.settings)
        if self.start:
            network.load_state_dict(self.start)
        return network

    def prompt_tokens(self, prompt: str) -> Tokens:
        """The tokens of a prompt, each with its place in it.

        Raises:
            SettingError: it is empty, or has characters or words that are out of vocabulary.
        """
        if unknown := self.tokenizer.unknown_parts(prompt):
            unit = "characters" if self.tokenizer.kind == "characters" else "words"
            shown = ", ".join(map(repr, unknown[:MAX_SHOWN])) + (", ..." if len(unknown) > MAX_SHOWN else "")
            raise SettingError(f"the prompt has {unit} that the model has never seen: {shown}; leave them out.")

        tokens = self.tokenizer.encode(prompt)
        if not len(tokens.numbers):
            raise SettingError("the prompt is empty; give the model something to go on from.")
        return tokens

    def num_cut(self, prompt: str) -> int:
        """How many tokens at the beginning of a prompt the network cannot read, because it learned fewer positions."""
        return max(0, len(self.prompt_tokens(prompt).numbers) - self.max_tokens)

    def check(self, output: NextToken) -> None:
        """Nothing is left to check: the weights fit the sizes, or are refused."""


FittedLanguage: TypeAlias = Fitted[LanguageEncoder, NextToken]
load = partial(FittedLanguage.load, format=SETTINGS.format, encoder=LanguageEncoder, output=NextToken)
"""Reads the model of a run folder."""


def from_network(tokenizer: Tokenizer, network: NextTokenModel, *, has_end: bool = False) -> FittedLanguage:
    """A model that was trained elsewhere."""
    encoder = LanguageEncoder(tokenizer, tokenizer.kind, network.embedding.num_embeddings, network.settings)
    return Fitted(format=SETTINGS.format, encoder=encoder, output=NextToken(has_end), members=[network])


def to_fine_tune(fitted: FittedLanguage, settings: TransformerSettings) -> FittedLanguage:
    """The same model before it is trained further, with another dropout or a shorter context."""
    weights = fitted.model.state_dict()
    if settings.position == "learned":
        # The first positions of a table are those of a shorter text.
        weights = {
            name: value[: settings.context] if name.startswith("position.") else value
            for name, value in weights.items()
        }
    return replace(fitted, members=[], encoder=replace(fitted.encoder, settings=settings, start=weights))


def mean_loss(fitted: FittedLanguage, numbers: np.ndarray) -> float:
    """The mean of −ln p over the tokens of a text but the first, read in windows of the model's context.

    Raises:
        DataError: There are fewer than two tokens, so that none is predicted.
    """
    if len(numbers) < 2:
        raise DataError(f"the text has {plural(len(numbers), 'token')}; a score needs two or more.")
    loader = WindowLoader(torch.from_numpy(numbers), fitted.encoder.settings.context, WINDOWS_PER_BATCH)
    return token_scores(fitted, loader).loss


def generate_text(
    fitted: FittedLanguage, prompt: str, sampling: SamplingSettings, device: str = "cpu"
) -> Iterator[str]:
    """What follows the prompt, part by part. Words are joined by spaces, the first of them to the prompt.

    Raises:
        SettingError: the prompt is empty, or has characters or words that the model has never seen.
    """
    tokenizer, output = fitted.encoder.tokenizer, fitted.output
    prompt_tokens = torch.from_numpy(fitted.encoder.prompt_tokens(prompt).numbers).to(device)
    network = fitted.model.to(device).eval()
    end, never = output.end(tokenizer), output.never_written(tokenizer)

    first = " " if tokenizer.kind == "words" and not prompt[-1].isspace() else ""
    written: list[int] = []
    shown = ""
    with cpu_threads(fitted.threads):
        for number in generate(network, prompt_tokens, sampling, end_token=end, forbidden=never):
            written.append(number)
            text = first + tokenizer.decode(written)
            # A character of several bytes, or a space between words, is known only with the token after it.
            if not text.endswith("\ufffd"):
                yield text[len(shown) :]
                shown = text
    if written and len(text := first + tokenizer.decode(written)) > len(shown):
        yield text[len(shown) :]


PreparedText: TypeAlias = Prepared[LanguageRunSettings, str, dict[str, np.ndarray], FittedLanguage]
"""A text that is read; the tokens of each split."""


def prepare(settings: LanguageRunSettings) -> PreparedText:
    check_files_differ(input_files(settings))
    for path in input_files(settings):
        if path.lower().endswith(TABLES):
            remark(
                f"warning: {path} is read as one text, with its first line and its separators; the texts of a "
                "column are learned by edgewise train masked --text-columns"
            )
    validation = None if settings.validation_data is None else read_text(settings.validation_data)
    return prepared(settings, "".join(map(read_text, settings.data)), validation)


def prepared(settings: LanguageRunSettings, text: str, validation: str | None = None) -> PreparedText:
    """The same of a text, and perhaps another for validation; the vocabulary is that of its training part.

    Raises:
        DataError: the training part is shorter than the model's context.
    """
    cut = round(len(text) * settings.split_sizes[0])
    stop = round(len(text) * sum(settings.split_sizes))
    splits = {"training": text[:cut], "validation": text[cut:stop]}
    if validation is not None:
        splits = {"training": text, "validation": validation}

    fitted = untrained(settings, splits["training"])
    tokenizer = fitted.encoder.tokenizer
    numbers = {split: tokenizer.encode(text_of_split).numbers for split, text_of_split in splits.items()}
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
        return to_fine_tune(load(RunFolder.finished(settings.pretrained)), settings.model)
    tokenizer = Tokenizer.fit([text], settings.tokens, settings.vocabulary_size)
    encoder = LanguageEncoder(tokenizer, tokenizer.kind, len(tokenizer), settings.model)
    return Fitted(format=SETTINGS.format, encoder=encoder, output=NextToken())


def recipe(prepared: PreparedText) -> TrainSettings:
    epochs, _ = prepared.settings.schedule(len(prepared.splits["training"]))
    return replace(prepared.settings.train, epochs=epochs)


def loaders(prepared: PreparedText) -> Callable[[TrainSettings], tuple[Loader, Loader | None]]:
    training, validation = (torch.from_numpy(prepared.splits[split]) for split in ("training", "validation"))
    context = prepared.settings.model.context
    _, steps = prepared.settings.schedule(len(training))

    def of_member(recipe: TrainSettings) -> tuple[Loader, Loader | None]:
        assert recipe.batch_size is not None
        validation_loader = WindowLoader(validation, context, WINDOWS_PER_BATCH) if len(validation) > 1 else None
        return WindowLoader(training, context, recipe.batch_size, steps, recipe.seed), validation_loader

    return of_member


def evaluate(prepared: PreparedText, results: list[FitResult]) -> JsonObject:
    """The loss of the validation text, beside that of counting pairs of tokens."""
    fitted, splits = prepared.fitted, prepared.splits
    metrics = training_metrics(prepared, results[0], "step")

    counts = {split: len(numbers) for split, numbers in splits.items()}
    num_tokens = len(fitted.encoder.tokenizer)
    metrics["tokens"] = {"vocabulary": num_tokens, **counts}
    if counts["validation"] > 1:
        metrics["validation"] = fitted.output.metrics(mean_loss(fitted, splits["validation"]))
        metrics["baselines"] = fitted.output.baselines(splits["training"], splits["validation"], num_tokens)
    return metrics


def describe(prepared: PreparedText, folder: RunFolder) -> list[str]:
    counts = {split: len(numbers) for split, numbers in prepared.splits.items()}
    lines = [
        f"{', '.join(prepared.settings.data)}: {plural(len(prepared.data), 'character')}; "
        f"{counts['training']:,} training and {plural(counts['validation'], 'validation token')} out of a "
        f"vocabulary of {len(prepared.fitted.encoder.tokenizer):,}"
        + ("" if prepared.settings.validation_data is None else f"; validation: {prepared.settings.validation_data}")
    ]
    if not counts["validation"]:
        lines.append("  no validation text: the model is not evaluated")
    return [*lines, *(f"  {note}" for note in warnings(prepared))]


def warnings(prepared: PreparedText) -> list[str]:
    """Tokens that the vocabulary of a pretrained model lacks."""
    unknown, splits = prepared.fitted.encoder.tokenizer.unknown, prepared.splits
    if prepared.settings.pretrained is None or unknown is None:
        return []
    num_unknown = sum(int((numbers == unknown).sum()) for numbers in splits.values())
    note = coverage_note(num_unknown, sum(map(len, splits.values())))
    return [note] if note else []


def score_tables(metrics: JsonObject, split: str) -> list[ScoreTable | str]:
    return TASK.score_table(metrics, split, f"validation text: {plural(metrics['tokens']['validation'], 'token')}")


def next_commands(folder: RunFolder) -> list[str]:
    return [command("generate", folder.path)]


def pair_loss(training: np.ndarray, validation: np.ndarray, num_tokens: int) -> float:
    """The mean of −ln p where p(b | a) comes from counting pairs in the training text, each once more than seen."""
    pairs, counts = np.unique(training[:-1] * num_tokens + training[1:], return_counts=True)
    validation_pairs = validation[:-1] * num_tokens + validation[1:]
    candidates = np.searchsorted(pairs, validation_pairs).clip(max=len(pairs) - 1)
    seen = np.where(pairs[candidates] == validation_pairs, counts[candidates], 0)
    firsts = np.bincount(training[:-1], minlength=num_tokens)[validation[:-1]]
    return float(-np.log((seen + 1) / (firsts + num_tokens)).mean())


TASK = Task(
    settings=SETTINGS,
    noun="tokens",
    explainable="edgewise.learn.tasks.language.explainable:EXPLAINABLE",
    headlines=by_own_name("loss", "perplexity"),
    labels={"pairs": "pairs of tokens"},
    prepare=prepare,
    load=load,
    recipe=recipe,
    loaders=loaders,
    evaluate=evaluate,
    description=describe,
    warnings=warnings,
    score_tables=score_tables,
    further_commands=next_commands,
)
