"""Sentences with a tag for each word, and their chunks of tokens that a model reads at once."""

import json
import math
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int64

from edgewise.errors import DataError, SettingError, plural, refuse_single_text, refuse_table
from edgewise.learn.files import JsonObject, parse_json
from edgewise.learn.progress import note
from edgewise.learn.readers.texts.pairs import FileRows
from edgewise.learn.readers.texts.tokenizer import Tokenizer
from edgewise.learn.tables.cell import OK, Rejection
from edgewise.learn.tables.decode import lines_of, read_decoded

COLUMNS = tuple(name + end for name in (".conll", ".iob", ".bio", ".txt") for end in ("", ".gz"))
"""Files with a word a line, its tag in the last column, and a blank line between sentences."""
OBJECTS = tuple(name + end for name in (".jsonl", ".json") for end in ("", ".gz"))
"""Files with a sentence a line: an object with a list of words and a list of tags."""
LINE_SUFFIXES = (".txt", ".txt.gz")
"""Files of which each line is a sentence, where no tags are needed."""
KEYS = ("tokens", "tags")
"""Default names of the words and the tags."""
DOCUMENT = "-DOCSTART-"
"""The first cell of a line that divides documents; it is not a word."""
# Not str.split: a no-break space is a word of some treebanks.
_CELLS = re.compile(r"[^ \t\r\n]+")


@dataclass(frozen=True, eq=False)
class Sentence:
    """One sentence as written in a file."""

    line: int
    """The line on which it begins; its index in the list where it comes from Python."""
    words: list[str]
    """Its words; none where it cannot be used."""
    tags: list[str]
    """The tag of each word; none where they are not needed."""
    row: JsonObject
    """The whole JSON object; of columns, the words."""
    problem: tuple[int, str, str, str] | None
    """Line, column, value and reason where it cannot be used."""


@dataclass(frozen=True, eq=False, kw_only=True)
class TaggedSentences(FileRows):
    """Sentences, and a tag for each of their words."""

    words: list[list[str]]
    """The words of each; none where it cannot be used."""
    tags: list[list[str]]
    """The tag of each word; none where they were not read."""
    rows: list[JsonObject]
    """The whole JSON object of each; of columns, the words."""


def read_tagged(
    paths: Sequence[str],
    text_columns: Sequence[str] = (),
    target_columns: Sequence[str] = (),
    *,
    default_names: tuple[str, str] = KEYS,
    strict: bool = False,
    need_tags: bool = True,
    known_tags: Collection[str] = (),
) -> TaggedSentences:
    """Read one, two (train, test) or three (train, val, test) files of sentences.

    Args:
        paths: .conll, .iob, .bio, .txt, .jsonl or .json, also with .gz after it. Without tags a .txt has a sentence a
            line, its words between spaces, unless its lines end with `known_tags`.
        text_columns: the key of the words in a JSON object, if it is given.
        target_columns: the key of the tags, if it is given.
        default_names: both where they are not.
        strict: stop at the first sentence that cannot be used.
        need_tags: False reads sentences to be tagged.
        known_tags: those of the model that tags them. A line `# O` before a sentence is a word where its tag is known,
            here or from the file, else a comment; a note counts the comments.

    Raises:
        DataError: a file cannot be used, is empty or without a usable sentence, or `strict` and one cannot be used.
        SettingError: the number of files or columns is another, or columns are named in a file without column names.
    """
    if len(paths) > 3:
        raise SettingError(f"{len(paths)} files were given; expected one, two (train, test) or three.")
    if len(text_columns) > 1 or len(target_columns) > 1:
        raise SettingError("sentences have one key for words and one for tags: --text-columns and --target-columns.")
    names = names_of(text_columns, target_columns, default_names)

    parts: list[list[Sentence]] = []
    for path in paths:
        lower = path.lower()
        if lower.endswith(OBJECTS):
            sentences = list(_from_objects(path, names, need_tags))
        elif text_columns or target_columns:
            raise SettingError(f"{path}: its columns are unnamed; leave out --text-columns and --target-columns.")
        elif lower.endswith(COLUMNS):
            may_be_lines = lower.endswith(LINE_SUFFIXES) and not need_tags
            kind = ("text", "a text file") if may_be_lines else ("CoNLL", "a file of words and tags")
            text = read_decoded(path, *kind)
            are_lines = may_be_lines and not _are_columns(text, known_tags)
            known = {*known_tags, *(tag for part in parts for sentence in part for tag in sentence.tags)}
            columns = _from_columns(path, text, names, need_tags, known)
            sentences = list(_from_lines(text, names) if are_lines else columns)
        else:
            raise DataError(f"{path}: expected a name that ends in {', '.join((*COLUMNS, *OBJECTS))}.")

        if not sentences:
            raise DataError(f"{path}: the file is empty, expected sentences.")
        parts.append(sentences)

    return _together(paths, parts, strict=strict, need_tags=need_tags)


def names_of(
    text_columns: Sequence[str], target_columns: Sequence[str], default_names: tuple[str, str] = KEYS
) -> tuple[str, str]:
    """What the words and the tags are called."""
    return (*text_columns, default_names[0])[0], (*target_columns, default_names[1])[0]


def sentences_from_lists(sentences: Collection[object], tags: Collection[object] | None = None) -> TaggedSentences:
    """Sentences from Python, with the checks of a file.

    Args:
        sentences: the words of each, as a list, tuple or array.
        tags: their tags; None for sentences to be tagged.

    Raises:
        DataError: a sentence cannot be used; the message names it, counted from 0.
    """
    for argument, values in (("sentences", sentences), ("tags", tags)):
        refuse_single_text(argument, values)
        refuse_table(argument, values)
    if tags is not None and len(sentences) != len(tags):
        raise DataError(f"{plural(len(sentences), 'sentence was', 'sentences were')} given, but tags of {len(tags)}.")
    for name, unit, entries in (
        ("sentence", "words", sentences),
        ("the tags of sentence", "tags", () if tags is None else tags),
    ):
        for number, entry in enumerate([] if entries is None else entries):
            if isinstance(entry, str | bytes):
                raise DataError(f"{name} {number} is one text, {_shown(entry)}; expected a list of its {unit}.")

    rows: list[JsonObject] = [{KEYS[0]: _as_list(words)} for words in sentences]
    if tags is not None:
        rows = [{**row, KEYS[1]: _as_list(entry)} for row, entry in zip(rows, tags, strict=True)]
    read_sentences = [_from_row(number, row, KEYS, tags is not None) for number, row in enumerate(rows)]
    for sentence in read_sentences:
        if sentence.problem is not None:
            number, column, _, reason = sentence.problem
            raise DataError(f"sentence {number}: {column}: {reason}.")

    return _together(["the sentences"], [read_sentences], strict=True, need_tags=tags is not None)


@dataclass(frozen=True, eq=False)
class WrittenSentence:
    """A sentence as it was written, and its words."""

    text: str
    """As it came; the words joined by spaces where they came as a list."""
    words: list[str]
    """One or more."""
    starts: Int64[np.ndarray, " word"]
    """The first character of each in the text."""

    @classmethod
    def of(cls, sentence: str | Sequence[str]) -> "WrittenSentence":
        """A text whose words are separated by spaces, as in the lines of a file, or a list of words.

        Raises:
            DataError: the sentence is empty.
        """
        text = sentence if isinstance(sentence, str) else " ".join(sentence)
        if isinstance(sentence, str):
            matches = list(_CELLS.finditer(text))
            words, starts = (
                [match[0] for match in matches],
                np.array([match.start() for match in matches], dtype=np.int64),
            )
        else:
            words = list(sentence)
            starts = np.cumsum([0, *(len(word) + 1 for word in words[:-1])])

        if not words:
            raise DataError("the sentence is empty, expected words.")
        if "" in words:
            raise DataError(f"word {words.index('') + 1} is empty; leave it out.")
        return cls(text, words, starts)

    def names(self) -> list[str]:
        """What the words are called: their place and themselves."""
        return [f"{number} {word}" for number, word in enumerate(self.words, 1)]

    def in_text(self, positions: Int64[np.ndarray, " place"]) -> Int64[np.ndarray, " place"]:
        """Places in the words joined by spaces as places in the text."""
        joined = np.cumsum([0, *(len(word) + 1 for word in self.words[:-1])])
        word = np.searchsorted(joined, positions, side="right") - 1
        return self.starts[word] + positions - joined[word]


def _as_list(words: object) -> object:
    """A list, where it is one of a kind; a text is none, though Python could take it apart."""
    return list(words) if isinstance(words, Iterable) and not isinstance(words, str) else words


def _are_columns(text: str, known_tags: Collection[str]) -> bool:
    """Whether a file without a telling name has a word and its tag a line, as a file for training, and not a sentence.

    Most lines end with a tag that is known. Tags of signs alone do not count: that of a full stop is `.`, with which
    sentences end.
    """
    rows = [cells for line in lines_of(text) if (cells := _CELLS.findall(line))]
    if any(cells[0] == DOCUMENT for cells in rows):
        return True
    telling = {tag for tag in known_tags if any(map(str.isalnum, tag))}
    return 2 * sum(len(cells) > 1 and cells[-1] in telling for cells in rows) > len(rows)


def _from_columns(path: str, text: str, names: tuple[str, str], need_tags: bool, known: set[str]) -> Iterator[Sentence]:
    """The sentences of a file of columns: the word in the first, the tag in the last."""
    width = None
    for block in _blocks(path, text, known):
        problem = None
        for line, cells in block:
            if not need_tags or problem is not None:
                continue
            if len(cells) == 1:
                problem = (line, names[1], cells[0], "one column, expected a word and its tag")
            elif width is not None and len(cells) != width:
                reason = f"{plural(len(cells), 'column')}, but lines before have {width}"
                problem = (line, names[1], " ".join(cells), reason)
            else:
                width = len(cells)
        words, tags = [cells[0] for _, cells in block], [cells[-1] for _, cells in block]
        yield _judged(block[0][0], words, tags if need_tags else [], {names[0]: words}, problem)


def _blocks(path: str, text: str, known_tags: set[str]) -> Iterator[list[tuple[int, list[str]]]]:
    """The lines between blank lines, each with its number and its cells, without comments."""
    rows = [(line, content, _CELLS.findall(content)) for line, content in enumerate(lines_of(text), start=1)]
    if comments := _comments(rows, known_tags):
        note(
            f"{path}: skipped {plural(len(comments), 'comment')} (`# …` before a sentence), line {min(comments)} first."
        )
    block: list[tuple[int, list[str]]] = []
    for line, _, cells in rows:
        if line in comments:
            continue
        if cells and cells[0] != DOCUMENT:
            block.append((line, cells))
        elif block:
            yield block
            block = []
    if block:
        yield block


def _comments(rows: Sequence[tuple[int, str, list[str]]], known_tags: set[str]) -> set[int]:
    """The lines before a sentence that begin with `# `, such as `# id 7 domain=en`, but for a word `#`: its line ends
    with a tag that is known or stands in another line, and is as wide as another one."""
    at_start: list[tuple[int, list[str]]] = []
    others: list[list[str]] = []
    is_start = True
    for line, content, cells in rows:
        # A tab separates the word `#` from its tag.
        if is_start and len(cells) > 1 and content.startswith("# "):
            at_start.append((line, cells))
        elif is_start := not cells or cells[0] == DOCUMENT:
            continue
        else:
            others.append(cells)

    tags, widths = {cells[-1] for cells in others} | known_tags, {len(cells) for cells in others}
    return {line for line, cells in at_start if cells[-1] not in tags or (widths and len(cells) not in widths)}


def _from_lines(text: str, names: tuple[str, str]) -> Iterator[Sentence]:
    """The lines of a text, divided at spaces; a blank one is a sentence of no word."""
    for number, content in enumerate(lines_of(text), start=1):
        words = _CELLS.findall(content)
        yield _judged(number, words, [], {names[0]: words}, None)


def _from_objects(path: str, names: tuple[str, str], need_tags: bool) -> Iterator[Sentence]:
    """The objects of a file of JSON lines; blank lines are passed over."""
    for line, content in enumerate(lines_of(read_decoded(path, "JSON", "a file of JSON lines")), start=1):
        if not content.strip():
            continue
        try:
            row = parse_json(content)
        except (ValueError, RecursionError) as error:
            reason = f"{error.msg}, character {error.colno}" if isinstance(error, json.JSONDecodeError) else error
            raise DataError(f"{path}, line {line}: not JSON ({reason}); expected one object a line.") from error
        yield _from_row(line, row, names, need_tags)


def _from_row(line: int, row: object, names: tuple[str, str], need_tags: bool) -> Sentence:
    """One object, checked."""
    needed = names if need_tags else names[:1]
    if not isinstance(row, dict):
        reason = f"expected an object with {' and '.join(map(repr, needed))}"
        return Sentence(line, [], [], {}, (line, needed[0], _shown(row), reason))

    for name in needed:
        if name not in row:
            reason = f"no key {name!r}; the object has {', '.join(map(repr, row)) or 'none'}"
            return Sentence(line, [], [], row, (line, name, "", reason))
        if not isinstance(row[name], list) or not all(isinstance(entry, str) for entry in row[name]):
            return Sentence(line, [], [], row, (line, name, _shown(row[name]), "expected a list of strings"))

    words, tags = row[names[0]], row[names[1]] if need_tags else []
    problem = None
    if need_tags and len(words) != len(tags):
        problem = (line, names[1], _shown(tags), f"{plural(len(words), 'word')}, but {plural(len(tags), 'tag')}")
    elif need_tags and "" in tags:
        problem = (line, names[1], _shown(tags), f"the tag of word {tags.index('') + 1} is empty")
    elif need_tags and not words:
        problem = (line, names[0], "", "the sentence is empty")
    elif "" in words:
        problem = (line, names[0], _shown(words), f"word {words.index('') + 1} is empty")
    elif any("\ud800" <= sign <= "\udfff" for word in (*words, *tags) for sign in word):
        problem = (line, names[0], _shown(words), "half of a surrogate pair, which is not a character")

    return _judged(line, words, tags, row, problem)


def _judged(
    line: int, words: list[str], tags: list[str], row: JsonObject, problem: tuple[int, str, str, str] | None
) -> Sentence:
    """A sentence; without its words where it cannot be used."""
    return Sentence(line, words, tags, row, None) if problem is None else Sentence(line, [], [], row, problem)


def _shown(value: object) -> str:
    """A value as written in a file, cut where it is long."""
    text = json.dumps(value, default=str)
    return text if len(text) <= 80 else text[:77] + "..."


def _together(
    paths: Sequence[str], parts: Sequence[Sequence[Sentence]], *, strict: bool, need_tags: bool
) -> TaggedSentences:
    """The sentences of all files, those that cannot be used listed."""
    rejected = []
    for path, part in zip(paths, parts, strict=True):
        listed = [Rejection(path, *tagged.problem) for tagged in part if tagged.problem is not None]
        if listed and (strict or (need_tags and len(listed) == len(part))):
            first = listed[0]
            few = "" if strict else f" none of the {len(part)} sentences can be used;"
            raise DataError(f"{path}, line {first.line}:{few} {first.column}: {first.reason}.")
        rejected += listed

    every = [sentence for part in parts for sentence in part]
    return TaggedSentences(
        files=tuple(paths),
        file_of_row=np.repeat(np.arange(len(parts)), [len(part) for part in parts]),
        lines=np.array([sentence.line for sentence in every], dtype=np.int64),
        words=[sentence.words for sentence in every],
        tags=[sentence.tags for sentence in every],
        rows=[sentence.row for sentence in every],
        status=[OK if tagged.problem is None else f"{tagged.problem[1]}: {tagged.problem[3]}" for tagged in every],
        rejected=rejected,
    )


@dataclass(frozen=True, eq=False)
class SentenceChunk:
    """Some words of a sentence that follow each other, as tokens."""

    numbers: Int64[np.ndarray, " token"]
    """Places in the vocabulary."""
    firsts: Int64[np.ndarray, " word"]
    """The first token of each word, counted in the chunk."""
    words: Int64[np.ndarray, " word"]
    """The positions of the words in the sentence; a word without a token is in none."""
    starts: Int64[np.ndarray, " token"]
    """The first character of each token in the words joined by spaces."""
    stops: Int64[np.ndarray, " token"]
    """One past the last."""


def chunks_of(words: Sequence[str], tokenizer: Tokenizer, context: int) -> list[SentenceChunk]:
    """A sentence in chunks of at most `context` tokens, cut before words.

    The words are joined by spaces and encoded together; the first token that overlaps a word represents it. The
    model reads the first `context` tokens of a longer word. Special tokens around a text, BERT's [CLS] and [SEP], are
    added to each chunk, and count.
    """
    tokens = tokenizer.encode(" ".join(words))
    lengths = np.array([len(word) for word in words], dtype=np.int64)
    stops = np.cumsum(lengths + 1) - 1
    starts = stops - lengths

    # The first token that ends after the beginning of a word overlaps it, unless it begins after its end.
    firsts = np.searchsorted(tokens.stops, starts, side="right")
    has_token = firsts < len(tokens.numbers)
    has_token[has_token] = tokens.starts[firsts[has_token]] < stops[has_token]
    word_numbers = np.flatnonzero(has_token)
    firsts = firsts[word_numbers]
    chunks = []

    before, after = int(tokenizer.begin is not None), tokenizer.num_special_tokens - int(tokenizer.begin is not None)
    for begin, stop in _cuts(np.unique(firsts), len(tokens.numbers), max(1, context - tokenizer.num_special_tokens)):
        inside = (firsts >= begin) & (firsts < stop)
        # Special tokens begin where they end.
        ends = tokens.starts[[begin] * before], tokens.stops[[stop - 1] * after]
        sides = [np.concatenate([ends[0], side[begin:stop], ends[1]]) for side in (tokens.starts, tokens.stops)]
        numbers = tokenizer.with_special_tokens(tokens.numbers[begin:stop])
        chunks.append(SentenceChunk(numbers, firsts[inside] - begin + before, word_numbers[inside], *sides))

    return chunks


def _cuts(heads: Int64[np.ndarray, " head"], num_tokens: int, context: int) -> Iterator[tuple[int, int]]:
    """Where chunks begin and stop: of about the same length, so that no word is left alone in the last.

    Args:
        heads: where words begin, ascending.
        num_tokens: of the sentence.
        context: tokens of a chunk, at most.
    """
    begin = 0
    while begin < num_tokens:
        num_left = num_tokens - begin
        if num_left <= context:
            yield begin, num_tokens
            return

        target = begin + math.ceil(num_left / math.ceil(num_left / context))
        later = heads[heads > begin]
        able = later[later <= begin + context]
        if len(able):
            enough = able[able >= target]
            stop = int(enough[0] if len(enough) else able[-1])
            yield begin, stop
            begin = stop
        else:
            # One word is longer than the context: what follows of it is passed over.
            yield begin, begin + context
            begin = int(later[0]) if len(later) else num_tokens
