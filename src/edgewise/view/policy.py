"""What a page may load and run: its own style sheet and script, named by their hashes, and nothing else.

A Content-Security-Policy without 'unsafe-inline': whatever a text of a user holds, it becomes no script and no style.
"""

import base64
import hashlib
from functools import cache
from importlib import resources

ASSETS = "assets"
SCRIPTS = ("draw.js", "numbers.js", "words.js", "molecule.js", "graph.js", "attention.js", "charts.js", "page.js")
"""In this order they are the one script of a page of explanations; the last begins."""


@cache
def explanation_assets() -> tuple[str, str]:
    """The style sheet and the script of a page of explanations."""
    folder = resources.files("edgewise.view").joinpath(ASSETS)
    parts = [folder.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS]
    script = '(() => {\n"use strict";\n' + "\n".join(parts) + "})();\n"
    return folder.joinpath("page.css").read_text(encoding="utf-8"), script


def meta_policy(style: str, script: str | None = None, *, images: bool = False) -> str:
    """The policy of a page as the tag that stands before its style sheet and script.

    Args:
        style: the text of its one style sheet.
        script: the text of its one script; None where it has none.
        images: whether it holds images, which stand in it as data.
    """
    rules = ["default-src 'none'", f"style-src {source_of(style)}"]
    if script is not None:
        rules.append(f"script-src {source_of(script)}")
    if images:
        rules.append("img-src data:")
    rules += ["base-uri 'none'", "form-action 'none'"]
    return f'<meta http-equiv="Content-Security-Policy" content="{"; ".join(rules)}">'


def source_of(text: str) -> str:
    """A style sheet or a script as policies name it: by its hash."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
