"""Scripts that put no spaces between words."""

import re
from collections.abc import Iterable
from itertools import islice

from edgewise.choices import TokenKind
from edgewise.errors import plural

UNSPACED = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]"
)
"""A letter of a script that is written without spaces between words: Thai, Lao, Burmese, Khmer, Japanese, Chinese."""
MAX_UNSPACED, SCRIPT_SAMPLE = 0.5, 1000
"""The share of such letters above which words are not separated by spaces, and the texts that are sampled."""


def script_note(texts: Iterable[str], tokens: TokenKind) -> list[str]:
    """A warning where words are looked for in texts of a script that puts no spaces between them; else nothing."""
    if tokens != "words":
        return []
    sample = list(islice(texts, SCRIPT_SAMPLE))
    count = sum(len(UNSPACED.findall(text)) > MAX_UNSPACED * len("".join(text.split())) for text in sample)
    if count <= MAX_UNSPACED * len(sample):
        return []
    return [
        f"warning: {count:,} of {plural(len(sample), 'text')} are written without spaces between words, so --tokens "
        "words reads whole sentences as one token; use --tokens characters or bpe"
    ]
