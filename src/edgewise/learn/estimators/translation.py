"""Translator: texts and their translations."""

from typing import Any, Self

import numpy as np

from edgewise.choices import CELLS
from edgewise.errors import DataError
from edgewise.formatting import plural
from edgewise.learn.estimators.estimator import Estimator
from edgewise.learn.estimators.params import old_names
from edgewise.learn.networks.text_settings import CONFIGURATIONS
from edgewise.learn.readers.texts.pairs import Texts, check_pairs, check_texts, pairs_of
from edgewise.learn.tasks.translation.task import TASK, FittedTranslation, bleu
from edgewise.learn.tasks.vocabulary import unknown_notes


class Translator(
    Estimator,
    task=TASK,
    fitted_type=FittedTranslation,
    models=(*CELLS, *CONFIGURATIONS),
    required={"data": ("the texts",)},
    own={"model": None},
    positional={"fit": ("validation",)},
):
    """Learns to translate from texts and their translations.

        Translator(model="lstm", epochs=20).fit(english, german).predict(["a dog runs"])

    `model` is lstm, gru, rnn or the name of a transformer; without it the model is a transformer.
    """

    @old_names
    def fit(self, data: Texts, y: Texts, *old: Any, sample_weight: None = None, validation: Any = None) -> Self:
        """Learns to translate.

        Args:
            data: The texts that are read.
            y: Their translations.
            old: The validation.
            sample_weight: Refused: all texts count the same.
            validation: (texts, translations) that choose the epoch, or (text) True for those of `data`; without them
                the weights of the last epoch are the result.

        Raises:
            DataError: A text is empty, no text at all, or longer than the context; the message names it.
            SettingError: A parameter has a value that it cannot have.
        """
        self._refuse(sample_weight=(sample_weight, "all texts count the same"))
        validation = self._named("fit", old, {"validation": validation}).get("validation")
        job = self.settings()
        if validation is not None and not isinstance(validation, tuple):
            mask = np.asarray(validation, dtype=bool)
            check_pairs("fit", data, y)
            if mask.shape != (len(data),):
                raise DataError(f"fit: validation is {mask.shape}; expected a mask ({len(data)},).")
            data, y, validation = _where(~mask, data), _where(~mask, y), (_where(mask, data), _where(mask, y))
        texts = pairs_of({"fit": (data, y)} | ({} if validation is None else {"validation": validation}))
        rows = {"train": np.flatnonzero(texts.file_of_row == 0), "val": np.flatnonzero(texts.file_of_row == 1)}
        prepared = TASK.prepared(job, texts, rows)
        if prepared.rejected:
            first = prepared.rejected[0]
            raise DataError(f"{first.file}: number {first.line}: the {first.column} cannot be used: {first.reason}.")
        return self._train(prepared)

    @old_names
    def predict(self, data: Texts) -> list[str | None]:
        """The translation of each text; None where one is empty or longer than the model reads."""
        check_texts("predict", data)
        trained, texts = self.trained, list(data)
        found: list[str | None] = trained.translate(texts, self._device)
        notes = unknown_notes(trained.tokenizer, [[text] for text in texts], "text")
        if unread := [row for row, text in enumerate(found) if text is None]:
            few = f"{len(unread):,} of {plural(len(texts), 'text')} {'is' if len(unread) == 1 else 'are'}"
            notes.append(f"{few} empty or too long, and None in place of a translation, the first of them {unread[0]}")
        self._warn("predict", notes)
        return found

    @old_names
    def score(self, data: Texts, y: Texts) -> float:
        """The BLEU of the translations, 0 to 100; what cannot be translated counts as an empty text."""
        check_pairs("score", data, y)
        return bleu([text or "" for text in self.predict(data)], y)


def _where(mask: np.ndarray, texts: Texts) -> list[str]:
    """Some of the texts."""
    return [text for text, is_taken in zip(texts, mask) if is_taken]
