"""Texts as numbers: characters, words or byte pairs, each with the place in the text that it came from."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import TracebackType

import numpy as np
from jaxtyping import Bool, Int64

from edgewise.choices import TOKEN_KINDS, TokenKind
from edgewise.errors import DataError, MissingExtraError, SettingError, refuse_half_characters
from edgewise.learn.files import parse_json
from edgewise.learn.readers.texts.accents import composing, is_joined, with_accents, without_composing
from edgewise.learn.tables.cell import OK
from edgewise.learn.tables.decode import read_decoded
from edgewise.learn.tables.options import TableFormat

try:
    import tokenizers
    from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, processors, trainers
except ImportError as error:
    raise MissingExtraError("tokenizers", "text") from error

UNKNOWN, END, MASK = "<unk>", "<end>", "<mask>"
"""The tokens for unknown characters or words, for the end of a text, and for a masked token."""
END_OF_GPT2, END_OF_SENTENCE = "<|endoftext|>", "</s>"
UNKNOWN_OF_BERT, BEGIN_OF_BERT, END_OF_BERT = "[UNK]", "[CLS]", "[SEP]"
MASK_OF_BERT, PADDING_OF_BERT = "[MASK]", "[PAD]"
SIGNS = {" ": "␣", "\t": "⇥", "\n": "⏎"}
"""Visible signs for invisible characters."""
TRIAL = "Edge 1.\n"
"""What a vocabulary that was read must be able to cut into tokens."""
ALL_UNKNOWN = "ok, but no word of it is in the vocabulary: the prediction knows nothing of the text"
"""The status of a row that is predicted from unknown tokens alone."""
CHUNK = 2**16
"""Characters that are turned into tokens at a time, so that a long text shows no long pause and little memory."""
LINE_END = re.compile(r"(?<=[\S\x1c-\x1f])[^\S\x1c-\x1f]*\n")
"""The end of a line with all spaces before it: byte pairs join spaces, so that no cut may stand between them. The
control characters are spaces to Python alone."""


@dataclass(frozen=True, eq=False)
class Tokens:
    """A text as numbers of a vocabulary, and where in the text each came from."""

    numbers: Int64[np.ndarray, " token"]
    """Places in the vocabulary."""
    starts: Int64[np.ndarray, " token"]
    """First character of each."""
    stops: Int64[np.ndarray, " token"]
    """One past the last character of each."""


@dataclass(frozen=True, eq=False)
class RowTokens:
    """The tokens of a row of texts, those of several columns one after the other."""

    numbers: Int64[np.ndarray, " token"]
    """Places in the vocabulary."""
    columns: Int64[np.ndarray, " token"]
    """The column of each, counted from 0."""
    starts: Int64[np.ndarray, " token"]
    """Its first character in the text of that column."""
    stops: Int64[np.ndarray, " token"]
    """One past the last; the start, for a token without text."""
    num_cut: int = 0
    """How many more there are, which the model does not read."""
    num_of_texts: int = 0
    """Tokens of the texts themselves, those that are cut among them and special tokens around them not."""
    num_unknown: int = 0
    """Those of them that are out of vocabulary."""

    def __len__(self) -> int:
        return len(self.numbers)

    @property
    def is_special(self) -> Bool[np.ndarray, " token"]:
        """Which are special tokens: the beginning, the end."""
        return self.starts == self.stops

    @property
    def places(self) -> Sequence[np.ndarray]:
        """Number, column, start and stop of each."""
        return self.numbers, self.columns, self.starts, self.stops


class Tokenizer:
    """A vocabulary, learned from texts, and the way from text to its numbers and back.

    characters   one token a character
    words        runs of letters and digits, and each other sign; spaces between them are dropped
    bpe          byte pairs, joined as often as the vocabulary has room (Sennrich et al. 2016, on bytes as in GPT-2):
                 nothing is unknown
    wordpiece    the longest pieces of words that the vocabulary has, as in BERT; read from checkpoints, not learned

    It is a Hugging Face tokenizer inside, and is saved in their format.
    """

    def __init__(self, inner: tokenizers.Tokenizer, kind: TokenKind):
        # A checkpoint may ask for texts to be cut or filled up, which nothing here expects.
        inner.no_truncation()
        inner.no_padding()
        self.inner, self.kind = inner, kind
        self.unknown = self._first(UNKNOWN, UNKNOWN_OF_BERT)
        """What the vocabulary lacks; None where it lacks nothing."""
        self.begin = self._first(BEGIN_OF_BERT)
        """The token before a text; None without one."""
        self.end = self._first(END, END_OF_GPT2, END_OF_BERT, END_OF_SENTENCE)
        """The token at the end of a text; None without one."""
        self.mask = self._first(MASK, MASK_OF_BERT)
        """The token for a masked one; None without one."""
        self.padding = self._first(PADDING_OF_BERT)
        """What others fill texts up with; None where there is none."""

    def _first(self, *names: str) -> int | None:
        """The first of some tokens that the vocabulary has."""
        numbers = (self.inner.token_to_id(name) for name in names)
        return next((number for number in numbers if number is not None), None)

    @property
    def ordinary(self) -> Int64[np.ndarray, " ordinary"]:
        """The tokens of text: all but the special tokens for the unknown, an end, a mask, and the like."""
        special = {number for number, token in self.inner.get_added_tokens_decoder().items() if token.special}
        named = (self.unknown, self.begin, self.end, self.mask, self.padding)
        special |= {number for number in named if number is not None}
        return np.array(sorted(set(self.inner.get_vocab().values()) - special), dtype=np.int64)

    @classmethod
    def fit(
        cls,
        texts: Iterable[str],
        kind: TokenKind,
        vocabulary_size: int = 8192,
        min_count: int = 1,
        *,
        special: Sequence[str] = (),
        lowercase: bool = False,
    ) -> "Tokenizer":
        """The vocabulary of some texts.

        Args:
            texts: what to learn from.
            kind: characters, words or bpe.
            vocabulary_size: tokens at most; read for words and bpe.
            min_count: words seen less often are unknown; pairs seen less often are not joined.
            special: further special tokens, such as `MASK`.
            lowercase: whether texts are lowercased.

        For characters and words, a letter with its accent is the same in NFC (one character) and in NFD (two). For
        words and byte pairs, a special token is read where a text has its name, such as the `<unk>` of WikiText.
        """
        if kind not in TOKEN_KINDS:
            raise SettingError(f"--tokens is {kind!r}; expected one of {', '.join(TOKEN_KINDS)}.")
        texts = list(texts)
        for text in texts:
            refuse_half_characters("a text", text)
        if kind == "characters":
            normalizer = composing(lowercase)
            characters = set().union(*(_normalized(text, normalizer, lowercase=lowercase) for text in texts))
            tokens = [UNKNOWN, END, *special, *sorted(characters)]
            vocabulary = {token: number for number, token in enumerate(tokens)}
            inner = tokenizers.Tokenizer(models.WordLevel(vocabulary, unk_token=UNKNOWN))
            inner.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
            inner.decoder = decoders.Fuse()
            inner.normalizer = normalizer
            return cls(inner, kind)

        if kind == "words":
            inner = tokenizers.Tokenizer(models.WordLevel(unk_token=UNKNOWN))
            inner.pre_tokenizer = pre_tokenizers.Sequence(
                [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Split(Regex(r"\w+|[^\w\s]"), "isolated")]
            )
            trainer: trainers.Trainer = trainers.WordLevelTrainer(
                vocab_size=vocabulary_size,
                min_frequency=min_count,
                special_tokens=[UNKNOWN, END, *special],
                show_progress=False,
            )
        else:
            inner = _on_bytes(tokenizers.Tokenizer(models.BPE()))
            alphabet = pre_tokenizers.ByteLevel.alphabet()
            needed = len(alphabet) + 1 + len(special)
            if vocabulary_size < needed:
                raise SettingError(f"--vocabulary-size is {vocabulary_size}; byte pairs need at least {needed}.")
            trainer = trainers.BpeTrainer(
                vocab_size=vocabulary_size,
                min_frequency=max(min_count, 2),
                special_tokens=[END, *special],
                initial_alphabet=alphabet,
                show_progress=False,
            )

        if kind == "words":
            inner.normalizer = composing(lowercase)
        elif lowercase:
            inner.normalizer = normalizers.Lowercase()
        inner.train_from_iterator(texts, trainer)
        return cls(inner, kind)

    def __len__(self) -> int:
        return self.inner.get_vocab_size()

    @property
    def largest(self) -> int:
        """The largest number of a token; −1 where there is none."""
        return max(self.inner.get_vocab().values(), default=-1)

    def encode(self, text: str) -> Tokens:
        """The tokens of a text; what is unknown has the number `unknown`."""
        refuse_half_characters("the text", text)
        numbers, starts, stops = [], [], []
        for begin, chunk in [(0, text)] if self._adds_space else chunks(text, whole=self.kind != "characters"):
            is_composed = unicodedata.is_normalized("NFC", chunk)
            inner = self._plain if is_composed else self.inner
            encoding = inner.encode(chunk, add_special_tokens=False)
            numbers.append(np.array(encoding.ids, dtype=np.int64))
            offsets = np.array(encoding.offsets, dtype=np.int64).reshape(-1, 2)
            if not is_composed:
                offsets[:, 1] = with_accents(chunk, offsets)
            starts.append(offsets[:, 0] + begin)
            stops.append(offsets[:, 1] + begin)
        none = [np.zeros(0, np.int64)]
        return Tokens(*(np.concatenate(parts or none) for parts in (numbers, starts, stops)))

    @cached_property
    def _adds_space(self) -> bool:
        """Whether a space is put before a text, as a choice of GPT-2 is: each chunk of a long text would get one."""
        text = "a" if self.inner.normalizer is None else self.inner.normalizer.normalize_str("a")
        pre_tokenizer = self.inner.pre_tokenizer
        words = [(text, None)] if pre_tokenizer is None else pre_tokenizer.pre_tokenize_str(text)
        return "".join(word for word, _ in words) != "a"

    @cached_property
    def _plain(self) -> tokenizers.Tokenizer:
        """The same for texts that are in NFC already."""
        return without_composing(self.inner)

    def status_of(self, texts: Iterable[str]) -> str:
        """The status of a row of texts: `OK`, or `ALL_UNKNOWN` where none of its words is in the vocabulary."""
        numbers = np.concatenate([np.zeros(0, np.int64), *(self.encode(text).numbers for text in texts)])
        return ALL_UNKNOWN if len(numbers) and (numbers == self.unknown).all() else OK

    @property
    def num_special_tokens(self) -> int:
        """Special tokens around each text: a beginning and an end where the vocabulary has a beginning (BERT)."""
        return 0 if self.begin is None else 1 + (self.end is not None)

    def with_special_tokens(self, numbers: np.ndarray) -> Int64[np.ndarray, " token"]:
        """The tokens of a text with the special tokens around it."""
        if self.begin is None:
            return numbers
        return np.concatenate([[self.begin], numbers, [] if self.end is None else [self.end]]).astype(np.int64)

    def row_of(self, texts: Sequence[str], context: int) -> "RowTokens":
        """The first `context` tokens of some texts, each with its end, where the vocabulary has one."""
        tokens_of_texts = [self.encode(text) for text in texts]
        parts = []
        for index, (text, tokens) in enumerate(zip(texts, tokens_of_texts, strict=True)):
            begin = [] if self.begin is None or index else [(self.begin, 0, 0)]
            end = [] if self.end is None else [(self.end, len(text), len(text))]
            body = np.stack([tokens.numbers, tokens.starts, tokens.stops], axis=1)
            parts.append(np.concatenate([np.array(entries, np.int64).reshape(-1, 3) for entries in (begin, body, end)]))
        columns = np.repeat(np.arange(len(parts)), [len(part) for part in parts])
        numbers, starts, stops = np.concatenate(parts)[:context].T.copy()
        num_unknown = sum(int(np.count_nonzero(tokens.numbers == self.unknown)) for tokens in tokens_of_texts)
        num_of_texts = sum(len(tokens.numbers) for tokens in tokens_of_texts)
        num_cut = max(0, len(columns) - context)
        return RowTokens(numbers, columns[:context], starts, stops, num_cut, num_of_texts, num_unknown)

    def unknown_parts(self, text: str) -> list[str]:
        """The parts of a text that the vocabulary lacks, each once, in order."""
        if self.unknown is None:
            return []
        tokens = self.encode(text)
        positions = np.flatnonzero(tokens.numbers == self.unknown)
        return list(dict.fromkeys(text[tokens.starts[position] : tokens.stops[position]] for position in positions))

    def decode(self, numbers: Sequence[int] | np.ndarray) -> str:
        """The text of some tokens."""
        return self.inner.decode(list(numbers), skip_special_tokens=False)

    def written(self, number: int) -> str:
        """How one token is displayed: its text with signs for invisible characters; bytes that are not text as
        hexadecimal numbers."""
        text = self.decode([number])
        # A token may cover part of a multi-byte character.
        if "\ufffd" in text and self.kind == "bpe":
            letters = _byte_letters()
            token = self.inner.id_to_token(number) or ""
            if all(letter in letters for letter in token):
                return f"bytes {bytes(letters[letter] for letter in token).hex(' ')}"
        return visible(text)

    @classmethod
    def from_pairs(cls, vocabulary: str, merges: str) -> "Tokenizer":
        """Byte pairs as GPT-2 was published: `vocab.json` and `merges.txt`.

        Raises:
            DataError: a file is something else.
        """
        try:
            with _Readable():
                inner = tokenizers.Tokenizer(models.BPE(*models.BPE.read_file(vocabulary, merges)))
        except (DataError, ValueError, TypeError) as error:
            raise DataError(f"{vocabulary}, {merges}: {error}") from error
        return cls(_on_bytes(inner), "bpe")

    @classmethod
    def from_word_pieces(
        cls, vocabulary: str, lowercase: bool = True, strip_accents: bool | None = None
    ) -> "Tokenizer":
        """Pieces of words as BERT was published: `vocab.txt`, a token a line; those within a word begin with `##`.

        Args:
            vocabulary: the file.
            lowercase: whether texts are written small before they are cut.
            strip_accents: whether é becomes e; None does so where texts are written small.

        Raises:
            DataError: the file is something else.
        """
        content = read_decoded(vocabulary, "text", "a vocabulary", TableFormat())
        tokens = [line.removesuffix("\r") for line in content.removesuffix("\n").split("\n")]
        numbers = {token: number for number, token in enumerate(tokens)}
        if len(numbers) < len(tokens) or UNKNOWN_OF_BERT not in numbers:
            problem = "a token occurs twice" if len(numbers) < len(tokens) else f"{UNKNOWN_OF_BERT} is missing"
            raise DataError(f"{vocabulary}: the tokenizer cannot be read: {problem}.")

        inner = tokenizers.Tokenizer(models.WordPiece(numbers, unk_token=UNKNOWN_OF_BERT))
        inner.normalizer = normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)
        inner.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
        inner.decoder = decoders.WordPiece()
        names = (UNKNOWN_OF_BERT, BEGIN_OF_BERT, END_OF_BERT, MASK_OF_BERT, PADDING_OF_BERT)

        inner.add_special_tokens([name for name in names if name in numbers])
        if BEGIN_OF_BERT in numbers and END_OF_BERT in numbers:  # for other readers; nothing here uses it
            ends = ((name, numbers[name]) for name in (END_OF_BERT, BEGIN_OF_BERT))
            inner.post_processor = processors.BertProcessing(*ends)
        return cls(inner, "wordpiece")

    def to_json(self) -> str:
        """Everything it is, in the format of Hugging Face."""
        return self.inner.to_str()

    @classmethod
    def from_json(cls, content: str, kind: TokenKind | None = None) -> "Tokenizer":
        """What `to_json` gave, or another library wrote; without a kind the content decides.

        Raises:
            DataError: it is something else.
        """
        try:
            content_of_file = parse_json(content)
        except (ValueError, RecursionError) as error:
            raise DataError(f"the tokenizer cannot be read: {error}") from error

        if not isinstance(content_of_file, dict) or not isinstance(content_of_file.get("model"), dict):
            raise DataError("the tokenizer cannot be read: its model is missing.")
        kind = _kind_of(content_of_file) if kind is None else kind
        with _Readable():
            read = cls(tokenizers.Tokenizer.from_str(content), kind)
            read.decode(read.encode(TRIAL).numbers)  # parts that do not fit each other fail only here

        return read


class _Readable:
    """Makes errors of the tokenizers library DataErrors; it raises bare `Exception`, and Rust's panics."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        if kind is Exception or (kind is not None and kind.__name__ == "PanicException"):
            raise DataError(f"the tokenizer cannot be read: {error}") from error


def _kind_of(content: Mapping[str, object]) -> TokenKind:
    """The kind of a tokenizer by its content, where it does not name it."""
    parts = (content.get("model"), content.get("pre_tokenizer"))
    model, pre_tokenizer = (part if isinstance(part, dict) else {} for part in parts)
    if "merges" in model:
        return "bpe"
    if "max_input_chars_per_word" in model:
        return "wordpiece"
    if model.get("type") != "WordLevel":
        raise DataError(f"the tokenizer cannot be read: its model is {model.get('type')!r}.")
    return "characters" if pre_tokenizer.get("type") == "Split" else "words"


def _byte_letters() -> dict[str, int]:
    """The letter of each byte in a vocabulary of byte pairs, as in GPT-2."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in printable} | {chr(256 + number): byte for number, byte in enumerate(others)}


def visible(text: str) -> str:
    """A text with a sign for each space, tab and end of a line, and an escape for each other invisible sign.

    >>> visible(" to be,\\nor\\u200b")
    '␣to␣be,⏎or\\\\u200b'
    """
    signs = (SIGNS.get(sign, sign) for sign in text)
    return "".join(sign if sign.isprintable() else ascii(sign)[1:-1] for sign in signs)


def _normalized(text: str, normalizer: normalizers.Normalizer, *, lowercase: bool) -> Iterable[str]:
    """The characters of a text as a normalizer leaves them, each at least once."""
    if not lowercase and unicodedata.is_normalized("NFC", text):
        return text
    return (character for _, chunk in chunks(text, whole=False) for character in normalizer.normalize_str(chunk))


def _on_bytes(inner: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    """A tokenizer that takes the bytes of a text for its letters."""
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    return inner


def chunks(text: str, whole: bool) -> Iterator[tuple[int, str]]:
    """A text in pieces with the place where each begins; cut before the spaces of the end of a line, where `whole`, and
    else between two characters that do not belong together as a letter and its accent do."""
    begin = 0
    while begin < len(text):
        stop = min(begin + CHUNK, len(text))
        if whole and stop < len(text):
            line_end = LINE_END.search(text, stop)
            stop = len(text) if line_end is None else line_end.start()
        while stop < len(text) and is_joined(text[stop - 1 : stop + 1]):
            stop += 1
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
