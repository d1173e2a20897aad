"""Learning a text: its tokens, the training, the scores beside those of counted pairs of tokens."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from edgewise.data.texts.tokenizer import Tokenizer
from edgewise.errors import DataError
from edgewise.models.language import NextTokenModel
from edgewise.plural import plural
from edgewise.tasks.checkpoint import (
    fit_in,
    training_metrics,
    untrained,
)
from edgewise.tasks.language.job import LanguageJob
from edgewise.tasks.language.trained import WINDOWS_A_BATCH, TrainedLanguage
from edgewise.train.folder import RunFolder
from edgewise.train.loader import WindowLoader


def fit_tokens(
    tokenizer: Tokenizer,
    parts: dict[str, np.ndarray],
    job: LanguageJob,
    *,
    folder: RunFolder | None = None,
    resume: bool = False,
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
    history = fit_in(folder, model, loaders, settings, resume=resume).history
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
            f"{', '.join(job.data)}: the text has {plural(len(numbers['training']), 'token')} to "
            "train on, fewer than --context "
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
