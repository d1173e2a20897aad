"""Texts as numbers: characters, words or byte pairs, each with the place in the text that it came from."""

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Int64

from edgewise.choices import TOKEN_KINDS, TokenKind
from edgewise.data.decode import read_decoded
from edgewise.errors import DataError, MissingExtraError, SettingError

try:
    import tokenizers
    from tokenizers import Regex, decoders, models, pre_tokenizers, trainers
except ImportError as error:
    raise MissingExtraError("tokenizers", "text") from error

UNKNOWN, END, END_OF_GPT2 = "<unk>", "<end>", "<|endoftext|>"
"""What stands for characters or words that the vocabulary lacks, and for the end of a text, in ours and in GPT-2."""
CHUNK = 2**16
"""Characters that are turned into tokens at a time, so that a long text shows no long pause and little memory."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """A text as numbers of a vocabulary, and where in the text each came from."""

    numbers: Int64[np.ndarray, " token"]
    """Places in the vocabulary."""
    starts: Int64[np.ndarray, " token"]
    """First character of each."""
    stops: Int64[np.ndarray, " token"]
    """One past the last character of each."""


class Tokenizer:
    """A vocabulary, learned from texts, and the way from text to its numbers and back.

    characters   one token a character
    words        runs of letters and digits, and each other sign; spaces between them are not kept
    bpe          byte pairs, joined as often as the vocabulary has room (Sennrich et al. 2016, on bytes as in GPT-2):
                 nothing is unknown

    It is a Hugging Face tokenizer inside, and is kept in their format.
    """

    def __init__(self, inner: Any, kind: TokenKind):
        self.inner, self.kind = inner, kind
        self.unknown: int | None = inner.token_to_id(UNKNOWN)
        ends = (inner.token_to_id(name) for name in (END, END_OF_GPT2))
        self.end: int | None = next((end for end in ends if end is not None), None)

    @classmethod
    def learned(
        cls, texts: Iterable[str], kind: TokenKind, vocabulary_size: int = 8192, least_count: int = 1
    ) -> "Tokenizer":
        """The vocabulary of some texts.

        Args:
            texts: what to learn from.
            kind: characters, words or bpe.
            vocabulary_size: tokens at most; read for words and bpe.
            least_count: words seen less often are unknown; pairs seen less often are not joined.
        """
        if kind not in TOKEN_KINDS:
            raise SettingError(f"--tokens is {kind!r}; expected one of {', '.join(TOKEN_KINDS)}.")
        if kind == "characters":
            known = [UNKNOWN, END, *sorted(set().union(*map(set, texts)))]
            vocabulary = {token: number for number, token in enumerate(known)}
            inner = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
            inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
            inner.decoder = decoders.Fuse()
            return cls(inner, kind)
        if kind == "words":
            inner = tokenizers.Tokenizer(models.WordLevel(unk_token=UNKNOWN))
            inner.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(r"\w+|[^\w\s]"), "isolated")]
            )
            trainer: Any = trainers.WordLevelTrainer(
                vocab_size=vocabulary_size,
                min_frequency=least_count,
                special_tokens=[UNKNOWN, END],
                show_progress=False,
            )
        else:
            inner = _on_bytes(tokenizers.Tokenizer(models.BPE()))
            alphabet = pre_tokenizers.ByteLevel.alphabet()
            if vocabulary_size < len(alphabet) + 1:
                raise SettingError(
                    f"--vocabulary-size is {vocabulary_size}; byte pairs need at least {len(alphabet) + 1}."
                )
            trainer = trainers.BpeTrainer(
                vocab_size=vocabulary_size,
                min_frequency=max(least_count, 2),
                special_tokens=[END],
                initial_alphabet=alphabet,
                show_progress=False,
            )
        inner.train_from_iterator(texts, trainer)
        return cls(inner, kind)

    def __len__(self) -> int:
        return self.inner.get_vocab_size()

    def encode(self, text: str) -> Tokens:
        """The tokens of a text; what is unknown has the number `unknown`."""
        numbers, starts, stops = [], [], []
        for begin, chunk in chunks(text, whole=self.kind != "characters"):
            found = self.inner.encode(chunk, add_special_tokens=False)
            numbers.append(np.array(found.ids, dtype=np.int64))
            offsets = np.array(found.offsets, dtype=np.int64).reshape(-1, 2) + begin
            starts.append(offsets[:, 0])
            stops.append(offsets[:, 1])
        none = [np.zeros(0, np.int64)]
        return Tokens(*(np.concatenate(parts or none) for parts in (numbers, starts, stops)))

    def unknown_parts(self, text: str) -> list[str]:
        """The parts of a text that the vocabulary lacks, each once, in order."""
        if self.unknown is None:
            return []
        tokens = self.encode(text)
        places = np.flatnonzero(tokens.numbers == self.unknown)
        return list(dict.fromkeys(text[tokens.starts[place] : tokens.stops[place]] for place in places))

    def decode(self, numbers: Sequence[int] | np.ndarray) -> str:
        """The text of some tokens."""
        return self.inner.decode(list(numbers), skip_special_tokens=False)

    @classmethod
    def from_pairs(cls, vocabulary: str, merges: str) -> "Tokenizer":
        """Byte pairs as GPT-2 was published: `vocab.json` and `merges.txt`.

        Raises:
            DataError: a file is something else.
        """
        try:
            inner = tokenizers.Tokenizer(models.BPE(*models.BPE.read_file(vocabulary, merges)))
        except (ValueError, TypeError) as error:
            raise DataError(f"{vocabulary}, {merges}: the tokenizer cannot be read: {error}") from error
        return cls(_on_bytes(inner), "bpe")

    def to_json(self) -> str:
        """Everything it is, as Hugging Face keeps it."""
        return self.inner.to_str()

    @classmethod
    def from_json(cls, content: str, kind: TokenKind) -> "Tokenizer":
        """What `to_json` gave.

        Raises:
            DataError: it is something else.
        """
        try:
            found = json.loads(content)
        except ValueError as error:
            raise DataError(f"the tokenizer cannot be read: {error}") from error
        if not isinstance(found, dict) or "model" not in found:
            raise DataError("the tokenizer cannot be read: it has no model.")
        return cls(tokenizers.Tokenizer.from_str(content), kind)


def _on_bytes(inner: Any) -> Any:
    """A tokenizer that takes the bytes of a text for its letters."""
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return inner


def chunks(text: str, whole: bool) -> Iterator[tuple[int, str]]:
    """A text in pieces with the place where each begins; cut before a space that no word spans, where `whole`."""
    begin = 0
    while begin < len(text):
        stop = min(begin + CHUNK, len(text))
        if whole and stop < len(text):
            space = text.find("\n", stop)
            stop = len(text) if space < 0 else space
        yield begin, text[begin:stop]
        begin = stop


def read_text(path: str) -> str:
    """A text file.

    Raises:
        DataError: it is missing, empty, or not UTF-8; the message names the line and the byte.
    """
    text = read_decoded(path, "text", "a text file")
    if not text.strip():
        raise DataError(f"{path}: the file is empty, expected a text to learn from.")
    return text
