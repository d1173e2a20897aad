"""How a text is learned and continued: what LanguageModel is made of."""

from typing import Any

from edgewise.errors import SettingError, plural
from edgewise.learn.estimators.parameters import naming_parameters, without_flags
from edgewise.learn.estimators.state import Adapter, Estimator, refuse, settings_of, train, warn
from edgewise.learn.networks.text_settings import SamplingSettings
from edgewise.learn.tasks.language.task import TASK, generate_text, mean_loss, prepared
from edgewise.learn.tasks.vocabulary import unknown_notes

LANGUAGE = Adapter(task=TASK, placeholders={"data": ("the text",)})
"""How LanguageModel uses its task."""


@naming_parameters
def fit(estimator: Estimator, X: str, *, y: object, sample_weight: object, validation: str | None) -> None:
    """Learn a text.

    Raises:
        DataError: It is shorter than the context.
        SettingError: A parameter has a value that it cannot have.
    """
    refuse(estimator, y=(y, "a text is its own target"), sample_weight=(sample_weight, "all tokens count the same"))
    _require_text("fit", X)
    if validation is not None:
        _require_text("fit: validation", validation)
    train(estimator, LANGUAGE, prepared(settings_of(estimator, LANGUAGE), X, validation))


@naming_parameters
def generate(estimator: Estimator, prompt: str, **sampling: Any) -> str:
    """The prompt and what follows it; `sampling` are the fields of `SamplingSettings`."""
    trained = estimator.trained
    _require_text("generate", prompt)
    try:
        settings = SamplingSettings(**sampling)
    except SettingError as error:
        raise SettingError(f"generate: {without_flags(str(error), sampling)}") from error
    if num_cut := trained.encoder.num_cut(prompt):
        limit = f"the last {trained.encoder.settings.context:,} are read"
        count = f"the first {plural(num_cut, 'token is', 'tokens are')} left out"
        warn(estimator, "generate", [f"the prompt is longer than the model can read: {count}, {limit}"])
    return prompt + "".join(generate_text(trained, prompt, settings))


@naming_parameters
def score(estimator: Estimator, X: str) -> float:
    """The mean of ln p over the tokens of another text."""
    trained = estimator.trained
    tokenizer = trained.encoder.tokenizer
    _require_text("score", X)
    warn(estimator, "score", unknown_notes(tokenizer, [[X]], "text"))
    return -mean_loss(trained, tokenizer.encode(X).numbers)


def _require_text(method: str, text: object) -> None:
    """Raise SettingError unless it is one text."""
    if not isinstance(text, str):
        raise SettingError(f"LanguageModel.{method} takes one text, a str, not {type(text).__name__}; join several.")
