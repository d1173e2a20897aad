"""Language: the next token of a text."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch

from edgewise.data.texts.tokenizer import Tokenizer, read_text
from edgewise.errors import DataError
from edgewise.models.text_settings import TransformerSettings
from edgewise.plural import plural
from edgewise.tasks.commands import command
from edgewise.tasks.language.job import RECIPE, LanguageJob
from edgewise.tasks.language.trained import WINDOWS_A_BATCH, TrainedLanguage
from edgewise.tasks.scores import same
from edgewise.tasks.task import Prepared, Task, training_metrics
from edgewise.train.folder import RunFolder
from edgewise.train.loader import Loader, WindowLoader
from edgewise.train.loss import TokenLoss
from edgewise.train.settings import TrainSettings

if TYPE_CHECKING:
    from edgewise.tasks.explainable import ExplainableModel
    from edgewise.train.training import FitResult


class LanguageTask(Task):
    """The next token of a text."""

    name = "language"
    job_type = LanguageJob
    usual = TransformerSettings(), RECIPE
    format = TrainedLanguage.FORMAT
    noun = "tokens"
    headlines = same("loss", "perplexity")
    labels: ClassVar = {"pairs": "pairs of tokens"}

    def prepare(self, settings: LanguageJob) -> Prepared:
        return self.prepared(settings, "".join(read_text(path) for path in settings.data))

    def prepared(self, settings: LanguageJob, text: str, validation: str | None = None) -> Prepared:
        """The same of a text, and perhaps another for validation; the vocabulary is that of its training part.

        Raises:
            DataError: the training part is shorter than the model's context.
        """
        cut = round(len(text) * settings.split_sizes[0])
        stop = cut + round(len(text) * settings.split_sizes[1])
        splits = {"training": text[:cut], "validation": text[cut:stop]}
        if validation is not None:
            splits = {"training": text, "validation": validation}
        tokenizer = Tokenizer.learned([splits["training"]], settings.tokens, settings.vocabulary_size)
        numbers = {split: tokenizer.encode(words).numbers for split, words in splits.items()}
        needed = settings.model.context + 1
        if len(numbers["training"]) < needed:
            raise DataError(
                f"{', '.join(settings.data)}: the text has {plural(len(numbers['training']), 'token')} to train on, "
                f"fewer than --context + 1 = {needed}; give a longer text or a smaller --context."
            )
        fitted = TrainedLanguage(
            tokenizer=tokenizer, tokens=tokenizer.kind, num_tokens=len(tokenizer), settings=settings.model
        )
        return Prepared(settings, text, numbers, fitted)

    def recipe(self, prepared: Prepared) -> TrainSettings:
        epochs, _ = prepared.settings.schedule(len(prepared.splits["training"]))
        return replace(super().recipe(prepared), epochs=epochs)

    def loaders(self, prepared: Prepared) -> Callable[[TrainSettings], tuple[Loader, Loader | None]]:
        training, validation = (torch.from_numpy(prepared.splits[split]) for split in ("training", "validation"))
        context = prepared.settings.model.context
        _, steps = prepared.settings.schedule(len(training))

        def of_member(recipe: TrainSettings) -> tuple[Loader, Loader | None]:
            assert recipe.batch_size is not None
            judged = WindowLoader(validation, context, WINDOWS_A_BATCH) if len(validation) > 1 else None
            return WindowLoader(training, context, recipe.batch_size, steps, recipe.seed), judged

        return of_member

    def loss(self, prepared: Prepared) -> TokenLoss:
        return TokenLoss()

    def evaluate(self, prepared: Prepared, results: "list[FitResult]") -> dict[str, Any]:
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

    def describe(self, prepared: Prepared, folder: RunFolder) -> list[str]:
        counts = {part: len(numbers) for part, numbers in prepared.splits.items()}
        lines = [
            f"{', '.join(prepared.settings.data)}: {plural(len(prepared.data), 'character')}; "
            f"{counts['training']:,} training and {plural(counts['validation'], 'validation token')} out of a "
            f"vocabulary of {len(prepared.fitted.tokenizer):,}"
        ]
        if not counts["validation"]:
            lines.append("  no validation text: the model is not evaluated")
        return lines

    def title(self, metrics: dict[str, Any], split: str) -> str:
        return f"validation text: {plural(metrics['tokens']['validation'], 'token')}"

    def next_commands(self, folder: RunFolder) -> list[str]:
        return [command("generate", folder.path)]

    def explainable(self) -> "type[ExplainableModel]":
        from edgewise.tasks.language.explainable import ExplainablePrompts

        return ExplainablePrompts


def pair_loss(training: np.ndarray, validation: np.ndarray, num_tokens: int) -> float:
    """The mean of −ln p where p(b | a) comes from counting pairs in the training text, each once more than seen."""
    pairs, counts = np.unique(training[:-1] * num_tokens + training[1:], return_counts=True)
    wanted = validation[:-1] * num_tokens + validation[1:]
    places = np.searchsorted(pairs, wanted).clip(max=len(pairs) - 1)
    seen = np.where(pairs[places] == wanted, counts[places], 0)
    firsts = np.bincount(training[:-1], minlength=num_tokens)[validation[:-1]]
    return float(-np.log((seen + 1) / (firsts + num_tokens)).mean())


TASK = LanguageTask()
