"""Which phrases of the library a picture of a page shows, so that a test can say when the picture is out of date.

A picture of a page cannot be drawn again in a test: that takes four trainings. Its PNG file therefore keeps the fixed
phrases of the library that were visible when it was taken. A phrase that the library no longer has is a page that has
changed since.

    python docs/phrases.py    the phrases of each picture that the library no longer has
"""

import ast
import json
import re
from pathlib import Path

from PIL import Image
from PIL.PngImagePlugin import PngInfo

ROOT = Path(__file__).resolve().parent.parent
SOURCES, PICTURES = ROOT / "src" / "edgewise", ROOT / "docs" / "pictures"
KEYWORD = "edgewise phrases"
"""The name of the text chunk in the PNG file."""
MIN_LETTERS = 12
"""Shorter phrases are words that occur anywhere."""
SCRIPT_STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"|`((?:[^`\\]|\\.)*)`')


def library_phrases() -> set[str]:
    """The fixed texts in the Python code and the page scripts of the library, without the values between them."""
    phrases: set[str] = set()
    for path in SOURCES.rglob("*.py"):
        nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        phrases.update(node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str))
    for path in SOURCES.rglob("*.js"):
        for quoted, template in SCRIPT_STRING.findall(path.read_text(encoding="utf-8")):
            phrases.update(re.split(r"\$\{[^}]*\}", template) if template else [quoted])
    normalized = {" ".join(phrase.split()) for phrase in phrases}
    return {phrase for phrase in normalized if sum(letter.isalpha() for letter in phrase) >= MIN_LETTERS}


def phrases_in(visible_text: str) -> list[str]:
    """The phrases of the library that occur in a text that was visible on a page."""
    text = " ".join(visible_text.split())
    return sorted(phrase for phrase in library_phrases() if phrase in text)


def save_picture(picture: Image.Image, path: Path, visible_text: str) -> None:
    """Write a PNG file that keeps the phrases of the library that it shows."""
    description = PngInfo()
    description.add_itxt(KEYWORD, json.dumps(phrases_in(visible_text), ensure_ascii=False))
    picture.save(path, optimize=True, pnginfo=description)


def stale_phrases(path: Path, current: set[str]) -> list[str]:
    """The phrases that a picture shows and that are not current ones, or parts of them.

    Raises:
        ValueError: the picture keeps no phrases.
    """
    with Image.open(path) as picture:
        shown = picture.info.get(KEYWORD)
    if not shown:
        raise ValueError(f"{path.name} keeps no phrases; take it again with `python docs/screens.py`.")
    written = "\n".join(current)  # a sentence may have come together of two that were apart
    return [phrase for phrase in json.loads(shown) if phrase not in written]


if __name__ == "__main__":
    current_phrases = library_phrases()
    for picture_path in sorted(PICTURES.glob("*.png")):
        print(picture_path.name, stale_phrases(picture_path, current_phrases))
