"""LanguageModel: learn a text, write more of it."""

import dataclasses
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import torch

from edgewise.data.text import Tokenizer
from edgewise.errors import DataError, SettingError
from edgewise.estimators.kept import (
    fit_in,
    read_tokenizer,
    read_weights,
    training_metrics,
    undamaged,
    untrained,
    write_model,
)
from edgewise.estimators.language.job import LanguageJob
from edgewise.estimators.learner import Learner
from edgewise.models.generate import generate
from edgewise.models.language import NextTokenModel
from edgewise.models.transformer_settings import SamplingSettings, TransformerSettings
from edgewise.train.device import cpu_threads
from edgewise.train.folder import RunFolder
from edgewise.train.keeper import Report
from edgewise.train.loader import WindowLoader
from edgewise.train.loss import TokenLoss

FORMAT, FORMAT_VERSION = "edgewise language model", 1
WINDOWS_A_BATCH = 64
"""Windows that are read at once where no gradient is wanted."""


@dataclass
class TrainedLanguage:
    """A model with the vocabulary that it was trained with."""

    tokenizer: Tokenizer
    """From text to tokens and back."""
    model: NextTokenModel
    """What was trained."""
    threads: int = 1
    """CPU threads that it computes with."""
    has_end: bool = False
    """Whether it has learned where texts end; one long text has no end."""

    def loss(self, numbers: np.ndarray) -> float:
        """The mean of −ln p over the tokens of a text, read in windows of the model's context."""
        return text_loss(self.model, torch.from_numpy(numbers), self.threads)

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
        # What is unknown cannot be written down.
        unsaid = (self.tokenizer.unknown, None if self.has_end else self.tokenizer.end)
        never = [number for number in unsaid if number is not None]
        with cpu_threads(self.threads):
            for number in generate(model, torch.from_numpy(numbers).to(device), sampling, end=end, never=never):
                written.append(number)
                text = self.tokenizer.decode(written)
                # A character of several bytes, or a space between words, is known only with the token after it.
                if not text.endswith("\ufffd"):
                    yield text[len(shown) :]
                    shown = text
        if written and len(text := self.tokenizer.decode(written)) > len(shown):
            yield text[len(shown) :]

    def read(self, prompt: str) -> np.ndarray:
        """The tokens of a prompt.

        Raises:
            SettingError: it is empty, or has characters or words that the model has never seen.
        """
        if unknown := self.tokenizer.unknown_parts(prompt):
            what = "characters" if self.tokenizer.kind == "characters" else "words"
            shown = ", ".join(repr(part) for part in unknown[:10]) + (", ..." if len(unknown) > 10 else "")
            raise SettingError(f"the prompt has {what} that the model has never seen: {shown}; leave them out.")
        numbers = self.tokenizer.encode(prompt).numbers
        if not len(numbers):
            raise SettingError("the prompt is empty; give the model something to go on from.")
        return numbers

    def cut(self, prompt: str) -> int:
        """How many tokens at the beginning of a prompt the model cannot read, because it learned fewer positions."""
        settings = self.model.settings
        limit = settings.context if settings.position == "learned" else math.inf
        return int(max(0, len(self.read(prompt)) - limit))

    def save(self, folder: RunFolder) -> None:
        """Writes model.safetensors, tokenizer.json and model.json."""
        content = {
            "format": FORMAT,
            "format_version": FORMAT_VERSION,
            "tokens": self.tokenizer.kind,
            "num_tokens": self.model.embedding.num_embeddings,
            "has_end": self.has_end,
            "settings": dataclasses.asdict(self.model.settings),
        }
        write_model(folder, self.model, self.tokenizer, content)

    @classmethod
    def load(cls, folder: RunFolder) -> Self:
        """Reads what `save` wrote; raises RunFolderError where it is damaged or of another format."""
        content = folder.read_model(FORMAT, FORMAT_VERSION)
        with undamaged(folder):
            tokenizer = read_tokenizer(folder, content["tokens"])
            settings = TransformerSettings(**content["settings"])
            model = untrained(lambda: NextTokenModel(content["num_tokens"], settings))
            read_weights(folder, model)
        return cls(tokenizer, model, has_end=content["has_end"])


def text_loss(model: NextTokenModel, numbers: torch.Tensor, threads: int) -> float:
    """The mean of −ln p over all tokens of a text but the first."""
    loss, total, count = TokenLoss(), 0.0, 0
    with torch.no_grad(), cpu_threads(threads):
        for batch in WindowLoader(numbers, model.settings.context, WINDOWS_A_BATCH):
            assert batch.targets is not None
            sums = loss(model(batch), batch.targets)
            total, count = total + float(sums[0]), count + int(sums[1])
    return total / max(count, 1)


def fit_tokens(
    tokenizer: Tokenizer,
    parts: dict[str, np.ndarray],
    job: LanguageJob,
    *,
    folder: RunFolder | None = None,
    resume: bool = False,
    report: Report | None = None,
) -> tuple[TrainedLanguage, dict[str, Any]]:
    """Learns a text, cut up as `tokens_of` does; also the scores of the model beside those of counting pairs of
    tokens."""
    epochs, steps = job.schedule(len(parts["training"]))
    settings = replace(job.train, epochs=epochs)
    assert settings.batch_size is not None
    training, validation = (torch.from_numpy(numbers) for numbers in parts.values())
    context = job.model.context
    model = untrained(lambda: NextTokenModel(len(tokenizer), job.model), settings.seed)
    loaders = (
        WindowLoader(training, context, settings.batch_size, steps, settings.seed),
        WindowLoader(validation, context, WINDOWS_A_BATCH) if len(validation) > 1 else None,
    )
    history = fit_in(folder, model, loaders, settings, resume=resume, report=report).history
    trained = TrainedLanguage(tokenizer, model, settings.threads)
    metrics: dict[str, Any] = {
        "tokens": {"vocabulary": len(tokenizer), **{part: len(numbers) for part, numbers in parts.items()}},
        "steps": epochs * steps,
        **training_metrics(model, history),
    }
    if len(validation) > 1:
        loss = trained.loss(parts["validation"])
        pairs = pair_loss(parts["training"], parts["validation"], len(tokenizer))
        metrics["validation"] = {"loss": loss, "perplexity": math.exp(min(loss, 700.0))}
        metrics["baselines"] = {"pairs": {"validation": {"loss": pairs, "perplexity": math.exp(pairs)}}}
    return trained, metrics


def tokens_of(text: str, job: LanguageJob) -> tuple[Tokenizer, dict[str, np.ndarray]]:
    """The vocabulary of the training part of a text, and the tokens of both parts.

    Raises:
        DataError: the training part is shorter than the model's context.
    """
    cut = round(len(text) * job.split_sizes[0])
    stop = cut + round(len(text) * job.split_sizes[1])
    parts = {"training": text[:cut], "validation": text[cut:stop]}
    tokenizer = Tokenizer.learned([parts["training"]], job.tokens, job.vocabulary_size)
    numbers = {part: tokenizer.encode(words).numbers for part, words in parts.items()}
    needed = job.model.context + 1
    if len(numbers["training"]) < needed:
        raise DataError(
            f"{', '.join(job.data)}: the text has {len(numbers['training'])} tokens to train on, fewer than --context "
            f"+ 1 = {needed}; give a longer text or a smaller --context."
        )
    return tokenizer, numbers


def pair_loss(training: np.ndarray, validation: np.ndarray, num_tokens: int) -> float:
    """The mean of −ln p where p(b | a) comes from counting pairs in the training text, each once more than seen."""
    pairs, counts = np.unique(training[:-1] * num_tokens + training[1:], return_counts=True)
    wanted = validation[:-1] * num_tokens + validation[1:]
    places = np.searchsorted(pairs, wanted).clip(max=len(pairs) - 1)
    seen = np.where(pairs[places] == wanted, counts[places], 0)
    firsts = np.bincount(training[:-1], minlength=num_tokens)[validation[:-1]]
    return float(-np.log((seen + 1) / (firsts + num_tokens)).mean())


class LanguageModel(Learner[TrainedLanguage]):
    """A model of a text, in the habit of scikit-learn.

        LanguageModel(steps=2000).fit(text).generate("ROMEO:")

    Args:
        settings: any field of LanguageJob, TransformerSettings or TrainSettings by its name, or `model`, the name of
            one of `CONFIGURATIONS`.
    """

    kind = TrainedLanguage
    fitted_by = "fit(text)"

    def fit(self, text: str) -> Self:
        """Learns a text, the last part of it for validation.

        Raises:
            DataError: it is shorter than the context.
            SettingError: a setting is not known, or has a value it cannot have.
        """
        from edgewise.estimators.language.job import language_job

        if not isinstance(text, str):
            raise SettingError(f"LanguageModel.fit takes one text, a str, not {type(text).__name__}; join several.")
        job = language_job({**self.settings, "data": ("the text",)}, "LanguageModel")
        self.trained_, self.metrics_ = fit_tokens(*tokens_of(text, job), job)
        return self

    def generate(self, prompt: str, **sampling: Any) -> str:
        """The prompt and what follows it.

        Args:
            prompt: what to go on from.
            sampling: fields of SamplingSettings by their names, such as num_tokens, temperature, top_k and seed.
        """
        return prompt + "".join(self.trained.write(prompt, SamplingSettings(**sampling)))

    def score(self, text: str) -> float:
        """−ln p of each token of another text, negated so that larger is better, on average."""
        trained = self.trained
        return -trained.loss(trained.tokenizer.encode(text).numbers)
