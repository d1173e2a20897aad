"""LanguageModel: learn a text, write more of it."""

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
import torch

from edgewise.data.text import Tokenizer
from edgewise.errors import DataError, SettingError
from edgewise.estimators.kept import (
    fit_in,
    training_metrics,
    untrained,
)
from edgewise.estimators.language.explain import explain_prompt
from edgewise.estimators.language.job import LanguageJob
from edgewise.estimators.language.trained import WINDOWS_A_BATCH, TrainedLanguage
from edgewise.estimators.learner import Learner
from edgewise.explanation import Explanation
from edgewise.models.language import NextTokenModel
from edgewise.models.transformer_settings import SamplingSettings
from edgewise.plural import plural
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

    def explain(self, prompt: str, *, label: str | None = None, top: int | None = None) -> Explanation:
        """Which token follows a prompt, where the model attends, and what changes it; see `explain_prompt`.

        Args:
            prompt: what to go on from.
            label: the token whose probability is explained; the most probable one by default.
            top: how many of the strongest weights of each token are kept.
        """
        return explain_prompt(self.trained, prompt, label=label, top=top)

    def score(self, text: str) -> float:
        """−ln p of each token of another text, negated so that larger is better, on average."""
        trained = self.trained
        return -trained.loss(trained.tokenizer.encode(text).numbers)
