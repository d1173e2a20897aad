"""Explanations as an interactive page: one HTML file that opens without a network."""

import html
import json
from collections.abc import Sequence
from typing import Any

from edgewise.errors import SettingError
from edgewise.explain.explanation import Explanation, TargetPrediction
from edgewise.view.layout import lay_out
from edgewise.view.policy import explanation_assets, meta_policy


def explanation_page(explanations: Sequence[Explanation], *, title: str | None = None) -> str:
    """A self-contained HTML file with interactive pictures of one or several explanations.

    The page loads nothing, and its Content-Security-Policy allows only its own script and style, by their hashes. The
    numbers are embedded as JSON, exactly `Explanation.to_json()`; texts of users are shown as text only.

    Args:
        explanations: at least one; with several, the page has a list to choose from.
        title: title of the page; by default that of a single explanation.

    Returns:
        The file's text.

    Raises:
        SettingError: `explanations` is empty.
        DataError: a molecule's SMILES does not match the atoms of the explanation.
    """
    if not explanations:
        raise SettingError("explanation_page: explanations is empty, expected at least one.")

    page_title = title if title is not None else explanations[0].title if len(explanations) == 1 else "Explanations"
    page_title = page_title.encode("utf-8", "replace").decode()  # lone surrogates cannot be written to a file
    contents = [
        {
            "title": explanation.title,
            "predictions": ", ".join(prediction_words(prediction) for prediction in explanation.predictions),
        }
        for explanation in explanations
    ]

    blocks = [_block("contents", {"title": page_title, "explanations": contents})]
    for number, explanation in enumerate(explanations):
        blocks += [_block(f"explanation-{number}", explanation.to_json())]
        blocks += [_block(f"drawing-{number}", _drawing(explanation))]

    style, script = explanation_assets()
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
            meta_policy(style, script),
            f"<title>{html.escape(page_title)}</title>",
            f"<style>{style}</style></head>",
            "<body><header></header><main></main>",
            "<noscript>The pictures on this page are drawn by its own script, which is switched off.</noscript>",
            *blocks,
            f"<script>{script}</script>",
            "</body></html>\n",
        ]
    )


def prediction_words(prediction: TargetPrediction) -> str:
    """The prediction of a target in a few words: `y = 3.14`, `mood = good`."""
    return f"{prediction.name} = {prediction.label or prediction.in_words(prediction.value)}"


def _drawing(explanation: Explanation) -> dict[str, Any]:
    """The positions of atoms or nodes, which the page needs besides the numbers."""
    if explanation.kind == "molecule":
        from edgewise.view.molecule import draw_molecules

        return {"molecules": [molecule.to_json() for molecule in draw_molecules(explanation)]}
    if explanation.kind == "graph":
        ends = [(link.first, link.second) for link in explanation.links]
        if explanation.center is not None and explanation.other_end is not None:
            ends.append((explanation.center, explanation.other_end))  # the two explained units
        return {"graph": lay_out(len(explanation.units), ends, explanation.center).to_json()}
    return {}


def _block(name: str, value: Any) -> str:
    """A block of JSON; without `<` it can neither end the block nor begin a comment."""
    content = json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{content}</script>'
