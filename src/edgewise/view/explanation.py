"""Explanations as a page: one HTML file that opens without a network, and in which one can look around."""

import html
import json
from collections.abc import Sequence
from typing import Any

from edgewise.errors import SettingError
from edgewise.explain.explanation import Explanation, TargetPrediction
from edgewise.formatting import formatted
from edgewise.view.layout import lay_out
from edgewise.view.policy import explanation_assets, meta_policy


def explanation_page(explanations: Sequence[Explanation], *, title: str | None = None) -> str:
    """One HTML file with everything in it: pictures to look around in, of one explanation or several.

    Nothing is loaded from anywhere, and the page's own policy (Content-Security-Policy) allows no script or style but
    its two, by their hashes. The numbers stand in it as JSON, exactly `Explanation.to_json()`; texts of users become
    text on the page and nothing else.

    Args:
        explanations: at least one; with several, the page has a list to choose from.
        title: of the page; without one, that of the only explanation.

    Returns:
        The file's text.

    Raises:
        SettingError: there is no explanation.
        DataError: a molecule's SMILES does not have the atoms that the explanation speaks of.
    """
    if not explanations:
        raise SettingError("explanation_page: explanations is empty, expected at least one.")
    named = title if title is not None else explanations[0].title if len(explanations) == 1 else "Explanations"
    named = named.encode("utf-8", "replace").decode()  # halves of characters cannot be written to a file
    contents = [
        {"title": each.title, "predictions": ", ".join(prediction_words(one) for one in each.predictions)}
        for each in explanations
    ]
    blocks = [_block("contents", {"title": named, "explanations": contents})]
    for number, each in enumerate(explanations):
        blocks += [_block(f"explanation-{number}", each.to_json()), _block(f"drawing-{number}", _drawing(each))]
    style, script = explanation_assets()
    return "\n".join(
        [
            "<!DOCTYPE html>",
            '<html lang="en">',
            '<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">',
            meta_policy(style, script),
            f"<title>{html.escape(named)}</title>",
            f"<style>{style}</style></head>",
            "<body><header></header><main></main>",
            "<noscript>The pictures on this page are drawn by its own script, which is switched off.</noscript>",
            *blocks,
            f"<script>{script}</script>",
            "</body></html>\n",
        ]
    )


def prediction_words(one: TargetPrediction) -> str:
    """What is predicted of a target in a few words: `y = 3.14`, `mood = good`."""
    return f"{one.name} = {one.label or formatted(one.value)}"


def _drawing(explanation: Explanation) -> dict[str, Any]:
    """What the page needs besides the numbers: where atoms and nodes are."""
    if explanation.kind == "molecule":
        from edgewise.view.molecule import draw_molecules

        return {"molecules": [each.to_json() for each in draw_molecules(explanation)]}
    if explanation.kind == "graph":
        ends = [(link.first, link.second) for link in explanation.links]
        if explanation.center is not None and explanation.other_end is not None:
            ends.append((explanation.center, explanation.other_end))  # the two explained units
        return {"graph": lay_out(len(explanation.units), ends, explanation.center).to_json()}
    return {}


def _block(name: str, value: Any) -> str:
    """JSON that no browser takes for anything else: without `<` it can neither end the block nor begin a comment."""
    written = json.dumps(value, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return f'<script type="application/json" id="{name}">{written}</script>'
