"""Sentences with tags: columns and JSON lines, what is refused and what is listed; and sentences in pieces."""

import gzip
import json
from types import SimpleNamespace

import numpy as np
import pytest

from edgewise import DataError, SettingError
from edgewise.learn.progress import monitored
from edgewise.learn.readers.texts.tags import WrittenSentence, chunks_of, read_tagged, sentences_from_lists
from edgewise.learn.readers.texts.tokenizer import Tokenizer

CONLL = """-DOCSTART- -X- O O

EU NNP B-ORG
rejects\tVBZ\tO

Peter NNP B-PER
\t
Lund NNP B-LOC"""
WORDS = [["EU", "rejects"], ["Peter"], ["Lund"]]
TAGS = [["B-ORG", "O"], ["B-PER"], ["B-LOC"]]


def write(path, content):
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def lines(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize("name", ["a.conll", "a.IOB", "a.bio", "a.txt"])
@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_columns(tmp_path, name, end):
    read = read_tagged([write(tmp_path / name, CONLL.replace("\n", end))])
    assert (read.words, read.tags) == (WORDS, TAGS)
    assert read.lines.tolist() == [3, 6, 8]
    assert read.rejected == []


@pytest.mark.parametrize("name", ["a.jsonl", "a.json"])
def test_objects(tmp_path, name):
    rows = [{"tokens": words, "tags": tags} for words, tags in zip(WORDS, TAGS)]
    content = lines(rows[0]) + "\n" + lines(*rows[1:])
    read = read_tagged([write(tmp_path / name, content)])
    assert (read.words, read.tags, read.lines.tolist()) == (WORDS, TAGS, [1, 3, 4])
    packed = read_tagged([write(tmp_path / f"{name}.gz", gzip.compress(content.encode()))])
    assert packed.words == WORDS
    other = content.replace("tokens", "words").replace("tags", "ner")
    assert read_tagged([write(tmp_path / name, other)], ["words"], ["ner"]).tags == TAGS


def test_a_no_break_space_is_a_word_and_a_line_separator_ends_no_line(tmp_path):
    read = read_tagged([write(tmp_path / "a.conll", "a X\n\u00a0 Y\nb\u2028c Z\n")])
    assert read.words == [["a", "\u00a0", "b\u2028c"]]


def test_files_are_parts(tmp_path):
    paths = [write(tmp_path / f"{part}.conll", f"{part} X\n\nmore Y\n") for part in "abc"]
    two, three = read_tagged(paths[:2]), read_tagged(paths)
    sizes = (0.8, 0.1, 0.1)
    assert {part: rows.tolist() for part, rows in two.split(sizes, 0).items()} == {
        "train": [0, 1],
        "val": [],
        "test": [2, 3],
    }
    assert [rows.tolist() for rows in three.split(sizes, 0).values()] == [[0, 1], [2, 3], [4, 5]]
    one = read_tagged([write(tmp_path / "one.conll", "a X\n\n" * 20)])
    parts = one.split(sizes, 3)
    assert [len(rows) for rows in parts.values()] == [16, 2, 2]
    assert sorted(np.concatenate(list(parts.values())).tolist()) == list(range(20))
    assert one.split(sizes, 4)["test"].tolist() != parts["test"].tolist()


GOOD = {"tokens": ["a"], "tags": ["X"]}


@pytest.mark.parametrize(
    ("row", "column", "reason"),
    [
        ({"tags": ["X"]}, "tokens", "no key 'tokens'; the object has 'tags'"),
        ({"tokens": ["a"]}, "tags", "no key 'tags'; the object has 'tokens'"),
        ({}, "tokens", "no key 'tokens'; the object has none"),
        (["a"], "tokens", "expected an object with 'tokens' and 'tags'"),
        ({"tokens": "a", "tags": ["X"]}, "tokens", "expected a list of strings"),
        ({"tokens": ["a"], "tags": [3]}, "tags", "expected a list of strings"),
        ({"tokens": ["a", "b"], "tags": ["X"]}, "tags", "2 words, but 1 tag"),
        ({"tokens": ["a"], "tags": [""]}, "tags", "the tag of word 1 is empty"),
        ({"tokens": [], "tags": []}, "tokens", "the sentence is empty"),
        ({"tokens": ["\ud800"], "tags": ["X"]}, "tokens", "half of a surrogate pair, which is not a character"),
    ],
)
def test_objects_that_are_listed(tmp_path, row, column, reason):
    path = write(tmp_path / "a.jsonl", lines(GOOD, row, GOOD))
    read = read_tagged([path])
    (rejected,) = read.rejected
    assert (rejected.file, rejected.line, rejected.column, rejected.reason) == (path, 2, column, reason)
    assert read.status == ["ok", f"{column}: {reason}", "ok"]
    assert read.words == [["a"], [], ["a"]]
    assert read.split((1, 0, 0), 0)["train"].tolist() == [0, 2]
    with pytest.raises(DataError, match=r"a\.jsonl, line 2: "):
        read_tagged([path], strict=True)
    with pytest.raises(DataError, match=r"a\.jsonl, line 1: none of the 1 sentences can be used"):
        read_tagged([write(tmp_path / "a.jsonl", lines(row))])


def test_comments_before_a_sentence_are_no_words(tmp_path):
    """`# id 7 domain=en` became the word `#` with the tag `domain=en` where rows have four columns."""
    rows = "# id 7 domain=en\n# two lines\nEU _ _ B-ORG\n# _ _ O\n\n\n# id 8 domain=en\n\n# _ _ O\n1 _ _ O\n"
    read = read_tagged([write(tmp_path / "a.conll", rows)])
    assert (read.words, read.tags) == ([["EU", "#"], ["#", "1"]], [["B-ORG", "O"], ["O", "O"]])
    assert (read.lines.tolist(), read.rejected) == ([3, 9], [])
    untagged = read_tagged([write(tmp_path / "b.conll", "# id 7\nEU\n\n#\n1\n")], need_tags=False)
    assert untagged.words == [["EU"], ["#", "1"]]


def test_a_word_that_is_a_number_sign_is_no_comment(tmp_path):
    """A sentence lost its first word where no other line had the tag of that word; in predict nearly always."""
    tabs = write(tmp_path / "tabs.conll", "we\tPRON\nlike\tVERB\n\n#\tHASH\nwe\tPRON\n\n#\tHASH\n")
    assert read_tagged([tabs]).words == [["we", "like"], ["#", "we"], ["#"]]
    assert read_tagged([tabs], need_tags=False).words == [["we", "like"], ["#", "we"], ["#"]]

    train = write(tmp_path / "train.conll", "we PRON\n# HASH\n\n# HASH\n\n# id 7\nwe PRON\n")
    new = write(tmp_path / "new.conll", "# HASH\nwe PRON\n\n# id 8\nlike VERB\n")
    assert read_tagged([train, new]).words == [["we", "#"], ["#"], ["we"], ["#", "we"], ["like"]]
    assert read_tagged([new], need_tags=False, known_tags=["HASH"]).words == [["#", "we"], ["like"]]
    alone = write(tmp_path / "alone.conll", "# HASH\n")
    assert read_tagged([alone], need_tags=False, known_tags=["HASH"]).words == [["#"]]


def test_comments_are_counted_in_a_note(tmp_path):
    notes = []
    monitor = SimpleNamespace(note=notes.append)
    path = write(tmp_path / "a.conll", "we PRON\n\n# id 7\n# two\nwe PRON\n")
    with monitored(monitor):
        assert read_tagged([path]).words == [["we"], ["we"]]
        read_tagged([write(tmp_path / "b.conll", "we PRON\n# HASH\n")])
    assert notes == [f"{path}: skipped 2 comments (`# …` before a sentence), line 3 first."]


@pytest.mark.parametrize(
    ("content", "known_tags", "words"),
    [
        (
            "EU NNP B-ORG\nrejects VBZ O\n\nPeter NNP B-NEW\nx\n\nin IN O\n",
            ["B-ORG", "O"],
            [["EU", "rejects"], ["Peter", "x"], ["in"]],
        ),
        (CONLL, ["LOC"], WORDS),
        ("I see .\nHe ran .\n", ["PRP", "VBZ", "."], [["I", "see", "."], ["He", "ran", "."]]),
        ("Type O\nis rare here\n", ["X", "O"], [["Type", "O"], ["is", "rare", "here"]]),
        ("O\nO\n", ["X", "O"], [["O"], ["O"]]),
    ],
)
def test_a_text_whose_lines_end_with_tags_has_columns(tmp_path, content, known_tags, words):
    """A tagger that was trained on a .txt of columns took the columns and tags of such a file for words."""
    path = write(tmp_path / "a.txt", content)
    assert read_tagged([path], need_tags=False, known_tags=known_tags).words == words


def test_columns_that_are_listed(tmp_path):
    path = write(tmp_path / "a.conll", "a N X\nb N Y\n\nc N X\nd\n\ne X\n")
    read = read_tagged([path])
    assert [(each.line, each.value, each.reason) for each in read.rejected] == [
        (5, "d", "one column, expected a word and its tag"),
        (7, "e X", "2 columns, but lines before have 3"),
    ]
    assert read.words == [["a", "b"], [], []]
    with pytest.raises(DataError, match=r"line 5: tags: one column"):
        read_tagged([path], strict=True)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.conll", "", "the file is empty"),
        ("a.conll", "\n-DOCSTART- O\n\n", "the file is empty"),
        ("a.jsonl", "\n", "the file is empty"),
        ("a.conll", "a X\n\nb\xff Y".encode("latin-1"), "line 3: byte 0xff at offset 6 is not UTF-8"),
        ("a.conll", "a\n\nb\n", "line 1: none of the 2 sentences can be used; tags: one column"),
        ("a.jsonl", lines(GOOD) + "{'a'}\n", "line 2: not JSON .Expecting property name.*character 2.; expected one"),
        ("a.jsonl", "[" * 100_000, "line 1: not JSON"),
        ("a.jsonl", b"PK\x03\x04", "not a JSON file but an Excel workbook"),
        ("a.conll", b"\x1f\x8b", "let its name end in .conll.gz"),
        ("a.csv", "a,X\n", "expected a name that ends in .conll"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, name, content, message):
    with pytest.raises(DataError, match=message):
        read_tagged([write(tmp_path / name, content)])


def test_settings_that_cannot_be(tmp_path):
    path = write(tmp_path / "a.conll", CONLL)
    for arguments, message in [
        (([path] * 4,), "4 files were given"),
        (([path], ["word"]), "its columns are unnamed"),
        (([path], ["a", "b"]), "one key for words"),
    ]:
        with pytest.raises(SettingError, match=message):
            read_tagged(*arguments)
    with pytest.raises(DataError, match="no such file"):
        read_tagged([str(tmp_path / "none.conll")])


def test_sentences_to_be_tagged(tmp_path):
    text = read_tagged([write(tmp_path / "a.txt", "the  cat\n\nsat\n")], need_tags=False)
    assert text.words == [["the", "cat"], [], ["sat"]]
    columns = read_tagged([write(tmp_path / "a.conll", "the\ncat N\n\nsat\n")], need_tags=False)
    assert (columns.words, columns.rejected) == ([["the", "cat"], ["sat"]], [])
    rows = [{"id": 1, "tokens": ["a"]}, {"tokens": []}, {"id": 3}]
    objects = read_tagged([write(tmp_path / "a.jsonl", lines(*rows))], need_tags=False)
    assert objects.rows == rows
    assert objects.status[:2] == ["ok", "ok"]
    assert objects.rejected[0].reason == "no key 'tokens'; the object has 'id'"


def test_sentences_from_python():
    read = sentences_from_lists([("a", "b"), np.array(["c"])], [["X", "Y"], ["X"]])
    assert (read.words, read.tags) == ([["a", "b"], ["c"]], [["X", "Y"], ["X"]])
    for sentences, tags, message in [
        ([["a"]], [["X"], ["X"]], "1 sentence was given, but tags of 2"),
        ([["a"], ["b", "c"]], [["X"], ["X"]], "sentence 1: tags: 2 words, but 1 tag"),
        (["a b"], None, "expected a list of its words"),
        ([3], None, "expected a list of strings"),
    ]:
        with pytest.raises(DataError, match=message):
            sentences_from_lists(sentences, tags)


SENTENCE = ["The", "naïve", "cat's", "\u00a0", "mat", "日本", "."]


@pytest.fixture(params=["characters", "words", "bpe"])
def tokenizer(request):
    return Tokenizer.fit([" ".join(SENTENCE)], request.param, vocabulary_size=262)


def test_a_word_without_a_token_shifts_no_other(tokenizer):
    (piece,) = chunks_of(SENTENCE, tokenizer, 100)
    tokens, text = tokenizer.encode(" ".join(SENTENCE)), " ".join(SENTENCE)
    expected = [0, 1, 2, 4, 5, 6] if tokenizer.kind == "words" else list(range(7))
    assert piece.words.tolist() == expected
    for first, word in zip(piece.firsts, piece.words):
        # Byte pairs take the space before a word with it.
        assert text[tokens.starts[first] :].lstrip(" ").startswith(SENTENCE[word][0])
    assert chunks_of([], tokenizer, 5) == []


@pytest.mark.parametrize("context", [1, 2, 3, 4, 7, 11, 200])
def test_pieces_lose_no_word(tokenizer, context):
    words = [*SENTENCE, "mat", "cat's"] * 3
    (whole,) = chunks_of(words, tokenizer, 10_000)
    pieces = chunks_of(words, tokenizer, context)
    assert np.concatenate([piece.words for piece in pieces]).tolist() == whole.words.tolist()
    for piece in pieces:
        assert 0 < len(piece.numbers) <= context
        assert (piece.firsts < len(piece.numbers)).all()
        begin = whole.firsts[whole.words == piece.words[0]][0]
        read = whole.numbers[begin : begin + len(piece.numbers) - piece.firsts[0]]
        assert piece.numbers[piece.firsts[0] :].tolist() == read.tolist()


def test_pieces_are_about_equally_long():
    words = [f"w{number}" for number in range(21)]
    tokenizer = Tokenizer.fit([" ".join(words)], "words")
    assert [len(piece.numbers) for piece in chunks_of(words, tokenizer, 10)] == [7, 7, 7]


def test_a_key_that_stands_twice_in_an_object_is_refused(tmp_path):
    """Python took the last one without a word."""
    path = write(
        tmp_path / "a.jsonl", '{"tokens": ["a"], "tags": ["O"]}\n{"tokens": ["a"], "tags": ["X"], "tags": ["O"]}\n'
    )
    with pytest.raises(DataError, match=r"line 2: not JSON .the key 'tags' stands twice in one object."):
        read_tagged([path])


def test_an_empty_word_gets_no_tag(tmp_path):
    path = write(
        tmp_path / "a.jsonl", lines({"tokens": ["a", ""], "tags": ["O", "X"]}, {"tokens": ["a"], "tags": ["O"]})
    )
    assert read_tagged([path]).status == ["tokens: word 2 is empty", "ok"]
    with pytest.raises(DataError, match="sentence 1: tokens: word 1 is empty"):
        sentences_from_lists([["a"], [""]])
    with pytest.raises(DataError, match="word 2 is empty; leave it out"):
        WrittenSentence.of(["a", ""])
