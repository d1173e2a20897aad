"""Points of an integral that are computed together, as copies of a text, give what each gives alone."""

import numpy as np
import pytest
from test_explained_translation import KINDS, translation_model

from edgewise.learn.tasks import token_explainable
from explain_cases import (
    SONG,
    explain_prompt,
    explain_sentence,
    explain_text,
    explain_translation,
    language_model,
    tagger,
    text_model,
)

GRADIENTS = {"methods": ["integrated gradients", "gradient × input"]}
EXPLAINED = {
    "language": lambda: explain_prompt(language_model(), SONG[:6], **GRADIENTS),
    "tagging": lambda: explain_sentence(tagger(), "the film was great .", **GRADIENTS),
    "tagging, hidden words": lambda: explain_sentence(tagger("bpe"), "the film was great .", **GRADIENTS),
    "text": lambda: explain_text(text_model(members=2), "the film was great", **GRADIENTS),
    "two texts, recurrent": lambda: explain_text(
        text_model(columns=2, encoder="lstm"), ("the film", "was great"), **GRADIENTS
    ),
    **{
        kind: lambda kind=kind: explain_translation(translation_model(kind), "a red dog runs", **GRADIENTS)
        for kind in KINDS
    },
    "one token": lambda: explain_translation(translation_model(), "a red dog runs", target=2, **GRADIENTS),
}


BY_NIGHT = ("bahdanau", "local")
"""Recurrent translators like "lstm" and "looks once", whose gradients take longest."""


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=[pytest.mark.nightly] * (kind in BY_NIGHT)) for kind in EXPLAINED]
)
def test_they_stay_apart(kind, monkeypatch):
    found = []
    for tokens in (1, 40, 2**12):  # a copy at a time; some, and fewer in the end; all
        monkeypatch.setattr(token_explainable, "GRADIENT_TOKENS", tokens)
        values = {each.name: each.values for each in EXPLAINED[kind]().attributions}
        found.append([values["integrated gradients"], values["gradient × input"]])
    assert np.nanmax(np.abs(found[0][0])) > 1e-4
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], atol=1e-5)
