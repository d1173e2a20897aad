"""The Content-Security-Policy of pages: only their own style sheet and script, by hash, without 'unsafe-inline'.

Text of a user can therefore never run as a script or apply as a style.
"""

import base64
import hashlib
from functools import cache
from importlib import resources

ASSETS = "assets"
SCRIPTS = ("draw.js", "numbers.js", "words.js", "molecule.js", "graph.js", "attention.js", "charts.js", "page.js")
"""The files of the script of explanation pages, in order; the last one starts it."""


@cache
def explanation_assets() -> tuple[str, str]:
    """The style sheet and the script of explanation pages."""
    folder = resources.files("edgewise.view").joinpath(ASSETS)
    parts = [folder.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS]
    script = '(() => {\n"use strict";\n' + "\n".join(parts) + "})();\n"
    return folder.joinpath("page.css").read_text(encoding="utf-8"), script


def meta_policy(style: str, script: str | None = None, *, images: bool = False) -> str:
    """The policy of a page as a meta tag, to put before its style sheet and script.

    Args:
        style: the text of its one style sheet.
        script: the text of its one script; None for none.
        images: whether it has images embedded as data.
    """
    rules = ["default-src 'none'", f"style-src {source_of(style)}"]
    if script is not None:
        rules.append(f"script-src {source_of(script)}")
    if images:
        rules.append("img-src data:")
    rules += ["base-uri 'none'", "form-action 'none'"]

    return f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(rules)}">'


def source_of(text: str) -> str:
    """The hash by which a policy allows a style sheet or script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
