"""LanguageModel: learn a text from Python, generate more of it."""

from typing import Any, Self

from edgewise.errors import SettingError
from edgewise.estimators.learner import Learner
from edgewise.explanation import Explanation
from edgewise.models.text_settings import SamplingSettings
from edgewise.tasks.language.explain import explain_prompt
from edgewise.tasks.language.task import TASK
from edgewise.tasks.language.trained import TrainedLanguage
from edgewise.tasks.run import fit


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
        from edgewise.tasks.language.job import language_job

        if not isinstance(text, str):
            raise SettingError(f"LanguageModel.fit takes one text, a str, not {type(text).__name__}; join several.")
        job = language_job({**self.settings, "data": ("the text",)}, "LanguageModel")
        prepared = TASK.prepared(job, text)
        self.metrics_ = TASK.evaluate(prepared, fit(TASK, prepared))
        self.trained_ = prepared.fitted
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
