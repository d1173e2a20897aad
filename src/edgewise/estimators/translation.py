"""Translator: sentences and their translations from Python."""

from typing import Self

import numpy as np

from edgewise.data.texts.pairs import Texts, check_pairs, check_texts, pairs_of
from edgewise.errors import DataError, SettingError
from edgewise.estimators.learner import Learner
from edgewise.explanation import Explanation
from edgewise.tasks.run import fit
from edgewise.tasks.translation.explain import explain_translation
from edgewise.tasks.translation.job import translation_job
from edgewise.tasks.translation.task import TASK
from edgewise.tasks.translation.trained import TrainedTranslation, bleu
from edgewise.train.device import pick_device

OF_FILES = {"data", "text_columns", "target_columns", "split_sizes", "data_seed"}
"""Settings of a run over files, which texts in memory have no use for."""


class Translator(Learner[TrainedTranslation]):
    """Learns from texts and their translations to translate, in the habit of scikit-learn.

        Translator(model="lstm", epochs=20).fit(english, german).predict(["a dog runs"])

    Args:
        settings: any field of TranslationJob, TrainSettings, BeamSettings and of the model's settings
            (TransformerSettings or RecurrentSettings) by its name; or `model`, one of "lstm", "gru" and "rnn" or the
            name of one of `CONFIGURATIONS`. Without it the model is a transformer.
    """

    kind = TrainedTranslation
    fitted_by = "fit(sources, targets)"
    own_settings = ()

    def fit(
        self,
        sources: Texts,
        targets: Texts,
        validation: tuple[Texts, Texts] | None = None,
    ) -> Self:
        """Learns to turn each source into its target.

        Args:
            sources: what is read.
            targets: what is written, one a source.
            validation: sources and targets that choose the epoch; without them the last one stays.

        Raises:
            DataError: a text is empty, no text at all, or longer than the context; the message says which.
            SettingError: a setting is not known, or has a value it cannot have.
        """
        if own := OF_FILES & self.settings.keys():
            raise SettingError(
                f"Translator: {min(own)} is of runs over files; hand texts to fit, those to choose by as validation."
            )
        job = translation_job({**self.settings, "data": ("the texts",)}, "Translator")
        parts = {"fit": (sources, targets)} | ({} if validation is None else {"validation": validation})
        texts = pairs_of(parts)
        rows = {"train": np.flatnonzero(texts.file_of_row == 0), "val": np.flatnonzero(texts.file_of_row == 1)}
        prepared = TASK.prepared(job, texts, rows)
        if prepared.rejected:
            first = prepared.rejected[0]
            raise DataError(f"{first.file}: number {first.line}: the {first.column} cannot be used: {first.reason}.")
        self.metrics_ = TASK.evaluate(prepared, fit(TASK, prepared))
        self.trained_ = prepared.fitted
        return self

    def predict(self, texts: Texts) -> list[str | None]:
        """The translation of each text; None where one is empty or longer than the model reads."""
        check_texts("predict", texts)
        return self.trained.translate(list(texts), pick_device(self.settings.get("device", "auto")))

    def explain(self, text: str, *, target: str | int | None = None, top: int | None = None) -> Explanation:
        """One sentence, explained: where the model looks as it writes, and what of the sentence changes what it tells
        of its translation; see `explain_translation`.

        Args:
            text: the sentence.
            target: a token of the translation, or its place counted from 0; the whole translation by default.
            top: how many of the strongest weights of each token are kept.
        """
        return explain_translation(self.trained, text, target=target, top=top)

    def score(self, sources: Texts, targets: Texts) -> float:
        """The BLEU of the translations of some sources, 0 to 100; what cannot be translated counts as an empty text."""
        check_pairs("score", sources, targets)
        return bleu([text or "" for text in self.predict(sources)], targets)
