"""LanguageModel: learns a text and continues it."""

from typing import Any, Self

from edgewise.errors import SettingError
from edgewise.learn.estimators.estimator import Estimator
from edgewise.learn.estimators.params import old_names
from edgewise.learn.networks.text_settings import CONFIGURATIONS, SamplingSettings
from edgewise.learn.tasks.language.task import TASK, FittedLanguage
from edgewise.learn.tasks.vocabulary import unknown_notes


class LanguageModel(
    Estimator,
    task=TASK,
    fitted_type=FittedLanguage,
    models=CONFIGURATIONS,
    required={"data": ("the text",)},
    keep=("split_sizes",),
    own={"model": None},
):
    """A model of a text, which predicts each token from those before it.

    LanguageModel(steps=2000).fit(text).generate("ROMEO:")
    """

    @old_names
    def fit(self, data: str, y: None = None, *, sample_weight: None = None, validation: str | None = None) -> Self:
        """Learns a text.

        Args:
            data: The text.
            y: Nothing: a text is its own target.
            sample_weight: Refused: all tokens count the same.
            validation: Another text for validation; by default the last part of `data`, see `split_sizes`.

        Raises:
            DataError: It is shorter than the context.
            SettingError: A parameter has a value that it cannot have.
        """
        self._refuse(y=(y, "a text is its own target"), sample_weight=(sample_weight, "all tokens count the same"))
        _require_text("fit", data)
        if validation is not None:
            _require_text("fit: validation", validation)
        return self._train(TASK.prepared(self.settings(), data, validation))

    def generate(self, prompt: str, **sampling: Any) -> str:
        """The prompt and what follows it.

        Args:
            prompt: The text to continue.
            sampling: Fields of `SamplingSettings` by their names, such as num_tokens, temperature, top_k and seed.
        """
        trained = self.trained
        _require_text("generate", prompt)
        if cut := trained.cut(prompt):
            read = f"the last {trained.model.settings.context:,} are read"
            many = f"the first {cut:,} tokens are left out"
            self._warn("generate", [f"the prompt is longer than the model can read: {many}, {read}"])
        return prompt + "".join(trained.write(prompt, SamplingSettings(**sampling)))

    @old_names
    def score(self, data: str, y: None = None) -> float:
        """The mean of ln p over the tokens of another text."""
        trained = self.trained
        _require_text("score", data)
        self._warn("score", unknown_notes(trained.tokenizer, [[data]], "text"))
        return -float(trained.loss(trained.tokenizer.encode(data).numbers))


def _require_text(method: str, held: Any) -> None:
    """Raise SettingError unless it is one text."""
    if not isinstance(held, str):
        raise SettingError(f"LanguageModel.{method} takes one text, a str, not {type(held).__name__}; join several.")
