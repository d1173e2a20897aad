"""How texts and their translations are learned: what Translator is made of."""

import numpy as np

from edgewise.errors import DataError, plural
from edgewise.learn.estimators.names import pair_of
from edgewise.learn.estimators.numbers import mask_of
from edgewise.learn.estimators.parameters import naming_parameters
from edgewise.learn.estimators.state import Adapter, Estimator, device_of, refuse, settings_of, train, warn
from edgewise.learn.readers.texts.pairs import Texts, check_pairs, check_texts, pairs_of
from edgewise.learn.tasks.translation.task import TASK, bleu, prepared, translate_texts
from edgewise.learn.tasks.vocabulary import unknown_notes

TRANSLATIONS = Adapter(task=TASK, placeholders={"data": ("the texts",)})
"""How Translator uses its task."""


@naming_parameters
def fit(estimator: Estimator, X: Texts, y: Texts, *, sample_weight: object, validation: object) -> None:
    """Learn to translate.

    Raises:
        DataError: A text is empty, no text at all, or longer than the context; the message names it.
        SettingError: A parameter has a value that it cannot have.
    """
    refuse(estimator, sample_weight=(sample_weight, "all texts count the same"))
    job = settings_of(estimator, TRANSLATIONS)
    _require_translations("fit", y)
    if validation is not None and not isinstance(validation, tuple):
        check_pairs("fit", X, y)
        mask = mask_of("validation", validation, len(X))
        X, y, validation = _where(~mask, X), _where(~mask, y), (_where(mask, X), _where(mask, y))

    parts = {"fit": (X, y)} | ({} if validation is None else {"validation": pair_of(validation)})
    _require_translations("validation", parts.get("validation", (X, y))[1])
    texts = pairs_of(parts)
    rows = {"train": np.flatnonzero(texts.file_of_row == 0), "val": np.flatnonzero(texts.file_of_row == 1)}
    training = prepared(job, texts, rows)
    if training.rejected:
        first = training.rejected[0]
        raise DataError(f"{first.file}: number {first.line}: the {first.column} cannot be used: {first.reason}.")
    train(estimator, TRANSLATIONS, training)


@naming_parameters
def predict(estimator: Estimator, X: Texts) -> list[str | None]:
    """The translation of each text; None where one is empty or longer than the model reads."""
    check_texts("predict", X)
    trained, texts = estimator.trained, list(X)
    translations = translate_texts(trained, texts, device_of(estimator))
    notes = unknown_notes(trained.encoder.tokenizer, [[text] for text in texts], "text")
    if unread := [row for row, text in enumerate(translations) if text is None]:
        count = f"{len(unread):,} of {plural(len(texts), 'text')} {'is' if len(unread) == 1 else 'are'}"
        notes.append(f"{count} empty or too long, and None in place of a translation, the first of them {unread[0]}")
    warn(estimator, "predict", notes)
    return translations


@naming_parameters
def score(estimator: Estimator, X: Texts, y: Texts) -> float:
    """The BLEU of the translations, 0 to 100; what cannot be translated counts as an empty text."""
    _require_translations("score", y)
    check_pairs("score", X, y)
    return bleu([text or "" for text in predict(estimator, X)], y)


def _require_translations(name: str, y: object) -> None:
    """Raise DataError where y is missing."""
    if y is None:
        raise DataError(f"{name}: y is None; expected the translation of each text.")


def _where(mask: np.ndarray, texts: Texts) -> list[str]:
    """Some of the texts."""
    return [text for text, is_taken in zip(texts, mask) if is_taken]
