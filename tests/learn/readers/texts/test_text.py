"""Tokens: there and back, spans into the source, what is unknown; and files that are no text."""

import gzip
import unicodedata

import hypothesis.strategies as st
import pytest
from hypothesis import given
from tokenizers.pre_tokenizers import ByteLevel

from edgewise import DataError, SettingError
from edgewise.learn.readers.texts import tokenizer as text_module
from edgewise.learn.readers.texts.script import script_note
from edgewise.learn.readers.texts.tokenizer import MASK, Tokenizer, read_text
from edgewise.learn.tasks.language.settings import SETTINGS as LANGUAGE
from edgewise.learn.tasks.masked.settings import SETTINGS as MASKED
from edgewise.learn.tasks.tagging.settings import SETTINGS as TAGGING
from edgewise.learn.tasks.texts.settings import SETTINGS as TEXTS

POEM = "The cat sat.\nThe dog, the cat: naïve — 日本!\n\nSat?  cat"


@pytest.fixture(params=["characters", "words", "bpe"])
def tokenizer(request):
    return Tokenizer.fit([POEM], request.param, vocabulary_size=300)


def test_every_token_knows_where_it_came_from(tokenizer):
    tokens = tokenizer.encode(POEM)
    spans = [POEM[start:stop] for start, stop in zip(tokens.starts, tokens.stops)]
    if tokenizer.kind == "words":
        assert spans == [
            "The",
            "cat",
            "sat",
            ".",
            "The",
            "dog",
            ",",
            "the",
            "cat",
            ":",
            "naïve",
            "—",
            "日本",
            "!",
            "Sat",
            "?",
            "cat",
        ]
    elif tokenizer.kind == "characters":
        assert "".join(spans) == POEM
    else:  # the bytes of one sign share its span
        assert set("".join(spans)) == set(POEM)
        assert tokens.stops[-1] == len(POEM)
    assert (tokens.numbers < len(tokenizer)).all()


@pytest.mark.parametrize("kind", ["characters", "bpe"])
def test_there_and_back(kind):
    tokenizer = Tokenizer.fit([POEM], kind, vocabulary_size=300)
    assert tokenizer.decode(tokenizer.encode(POEM).numbers) == POEM


@given(st.text())
def test_byte_pairs_can_say_everything(words):
    tokenizer = Tokenizer.fit([POEM], "bpe", vocabulary_size=300)
    assert tokenizer.unknown_parts(words) == []
    assert tokenizer.decode(tokenizer.encode(words).numbers) == words


def test_byte_pairs_are_joined_where_they_are_frequent():
    tokenizer = Tokenizer.fit(["low lower lowest low low"], "bpe", vocabulary_size=260)
    assert len(tokenizer.encode("low").numbers) == 1


def test_what_is_unknown_is_said():
    tokenizer = Tokenizer.fit(["abc cab"], "characters")
    assert tokenizer.unknown_parts("abcx y x") == ["x", "y"]
    assert (tokenizer.encode("ax").numbers == [tokenizer.encode("a").numbers[0], tokenizer.unknown]).all()
    assert Tokenizer.fit(["abc cab"], "words").unknown_parts("cab abd") == ["abd"]


def test_words_that_are_rare_are_unknown():
    tokenizer = Tokenizer.fit(["a a b b c"], "words", min_count=2)
    assert tokenizer.unknown_parts("a b c") == ["c"]
    assert len(Tokenizer.fit(["a a a b b c"], "words", vocabulary_size=4)) == 4


def test_a_long_text_is_read_in_pieces_and_nothing_is_lost(tokenizer, monkeypatch):
    long = POEM * 5
    whole = tokenizer.encode(long)
    monkeypatch.setattr(text_module, "CHUNK", 7)
    pieces = tokenizer.encode(long)
    assert pieces.starts.tolist() == whole.starts.tolist()
    assert pieces.numbers.tolist() == whole.numbers.tolist()


@pytest.mark.parametrize("separator", ["\n\n\n", " \n \n ", "\t\r\n\r\n", "!\x1c\n"])
def test_spaces_at_the_ends_of_lines_stay_together_in_pieces(separator, monkeypatch):
    """A piece began within them, and joined others than the whole text does."""
    long = separator.join("abcde"[: 1 + line % 5] for line in range(40))
    tokenizer = Tokenizer.fit([long], "bpe", vocabulary_size=300)
    whole = tokenizer.encode(long)
    assert (whole.stops - whole.starts).max() > 1
    for size in range(3, 12):
        monkeypatch.setattr(text_module, "CHUNK", size)
        assert len(list(text_module.chunks(long, whole=True))) > 1
        assert tokenizer.encode(long).numbers.tolist() == whole.numbers.tolist()


def test_a_space_before_a_text_is_put_before_the_first_piece_alone(monkeypatch):
    tokenizer = Tokenizer.fit([POEM], "bpe", vocabulary_size=300)
    tokenizer.inner.pre_tokenizer = ByteLevel(add_prefix_space=True)
    whole = tokenizer.encode(POEM)
    monkeypatch.setattr(text_module, "CHUNK", 7)
    assert tokenizer.encode(POEM).numbers.tolist() == whole.numbers.tolist()


def test_it_is_the_same_after_it_was_kept(tokenizer):
    again = Tokenizer.from_json(tokenizer.to_json(), tokenizer.kind)
    assert (again.encode(POEM).numbers == tokenizer.encode(POEM).numbers).all()
    assert (again.end, again.unknown, len(again)) == (tokenizer.end, tokenizer.unknown, len(tokenizer))


def test_nothing_has_no_tokens(tokenizer):
    assert tokenizer.encode("").numbers.shape == (0,)
    assert tokenizer.decode([]) == ""


@pytest.mark.parametrize(
    ("kind", "size", "message"), [("syllables", 9, "characters, words, bpe"), ("bpe", 9, "at least 257")]
)
def test_vocabularies_that_cannot_be(kind, size, message, shapes_unchecked):
    with pytest.raises(SettingError, match=message):
        Tokenizer.fit([POEM], kind, vocabulary_size=size)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "the file is empty"),
        (b" \n\n", "the file is empty"),
        (b"one\ntwo\xff\n", "line 2: byte 0xff at offset 7 is not UTF-8"),
        (b"\xef\xbb\xbfone\n\xe4\n", "line 2: byte 0xe4 at offset 7"),
        (b"one\n\0", "line 2: not a text file, it holds a zero byte"),
        (b"\xff\xfeo\0", "text in UTF-16"),
        (b"\x1f\x8babc", "let its name end in .txt.gz"),
    ],
)
def test_files_that_are_no_text(tmp_path, content, message):
    path = tmp_path / "book.txt"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_text(str(path))


def test_files_that_are_not_there(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        read_text(str(tmp_path / "book.txt"))
    with pytest.raises(DataError, match="is a folder"):
        read_text(str(tmp_path))


def test_texts_with_a_mark_and_compressed_ones(tmp_path):
    (tmp_path / "a.txt").write_bytes("\ufeffÄ\r\n".encode())
    assert read_text(str(tmp_path / "a.txt")) == "Ä\r\n"
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress("Ä\n".encode()))
    assert read_text(str(tmp_path / "a.txt.gz")) == "Ä\n"


def test_a_vocabulary_has_a_mask_token_only_on_request(tokenizer):
    masked = Tokenizer.fit([POEM], tokenizer.kind, vocabulary_size=300, special=(MASK,))
    assert tokenizer.mask is None
    assert masked.inner.id_to_token(masked.mask) == MASK
    special = {"characters": ["<unk>", "<end>", MASK], "words": ["<unk>", "<end>", MASK], "bpe": ["<end>", MASK]}
    assert [masked.inner.id_to_token(number) for number in range(len(masked) - len(masked.ordinary))] == special[
        masked.kind
    ]
    assert masked.ordinary.tolist() == list(range(len(special[masked.kind]), len(masked)))
    again = Tokenizer.from_json(masked.to_json(), masked.kind)
    assert (again.mask, again.ordinary.tolist()) == (masked.mask, masked.ordinary.tolist())
    with pytest.raises(SettingError, match="at least 258"):
        Tokenizer.fit([POEM], "bpe", vocabulary_size=257, special=(MASK,))


def test_the_name_of_a_special_token_in_a_text_is_that_token():
    """As Hugging Face reads it: WikiText has <unk> for rare words, and a masked model is given <mask> to fill in."""
    words, pairs, letters = (
        Tokenizer.fit(["a b"], kind, 300, special=(MASK,)) for kind in ("words", "bpe", "characters")
    )
    numbers = words.encode("a <unk> b <mask><end>").numbers.tolist()
    assert numbers[1:2] + numbers[3:] == [words.unknown, words.mask, words.end]
    assert pairs.encode("a<mask>b<end>").numbers.tolist()[1::2] == [pairs.mask, pairs.end]
    assert len(letters.encode("<end>").numbers) == 5


@pytest.mark.parametrize("kind", ["characters", "words", "bpe"])
def test_lower_case_is_a_choice_of_the_vocabulary_and_offsets_stay_those_of_the_text(kind):
    learned = Tokenizer.fit(["The cat", "a CAT and the dog"], kind, 300, lowercase=True)
    upper, lower = learned.encode("THE Cat"), learned.encode("the cat")
    assert upper.numbers.tolist() == lower.numbers.tolist()
    assert (upper.starts.tolist(), upper.stops.tolist()) == (lower.starts.tolist(), lower.stops.tolist())
    assert not learned.unknown_parts("THE DOG")
    again = Tokenizer.from_json(learned.to_json())
    assert again.encode("THE Cat").numbers.tolist() == lower.numbers.tolist()
    cased = Tokenizer.fit(["The cat", "a CAT and the dog"], kind, 300)
    assert cased.encode("CAT").numbers.tolist() != cased.encode("cat").numbers.tolist()


def test_texts_without_spaces_are_warned_of_where_words_are_tokens():
    chinese, english = ["这部电影很好看", "这部电影不好看"], ["a good film", "a bad film 好"]
    (warning,) = script_note(chinese, "words")
    assert "2 of 2 texts" in warning and "--tokens characters or bpe" in warning
    assert script_note(chinese, "characters") == script_note(english, "words") == script_note([], "words") == []


@pytest.mark.parametrize("settings", [TEXTS, TAGGING, LANGUAGE, MASKED], ids=lambda settings: settings.name)
def test_the_size_of_a_vocabulary_of_characters_is_refused(settings):
    """It was passed over without a word, for a language model also where no tokens were named."""
    values = {"data": ("a.csv",), "tokens": "characters", "vocabulary_size": 50}
    values |= {"text_columns": ("text",)} if settings is TEXTS else {}
    with pytest.raises(SettingError, match="--vocabulary-size does nothing with --tokens characters"):
        settings.of(values)
    with pytest.raises(SettingError, match="--vocabulary-size does nothing with --tokens characters"):
        LANGUAGE.of({"data": ("book.txt",), "vocabulary_size": 50})
    assert settings.of({**values, "tokens": "bpe"}).vocabulary_size == 50


@pytest.mark.parametrize(("name", "value"), [("lowercase", True), ("tokens", "bpe"), ("vocabulary_size", 500)])
def test_choices_of_a_vocabulary_beside_a_pretrained_one_are_refused(name, value):
    """All but lower case were passed over without a word."""
    flag = "--" + name.replace("_", "-")
    for settings in (TEXTS, TAGGING, LANGUAGE):
        if name == "lowercase" and settings is LANGUAGE:
            continue
        values = {"data": ("a.csv",), "text_columns": ("text",), "pretrained": "run", name: value}
        values = {name: value for name, value in values.items() if name != "text_columns" or settings is TEXTS}
        with pytest.raises(SettingError, match=f"{flag} does not change the vocabulary that --pretrained run brings"):
            settings.of(values)


@pytest.mark.parametrize("lowercase", [False, True])
@pytest.mark.parametrize("kind", ["words", "characters"])
def test_a_letter_and_its_accent_are_one_letter_however_they_are_written(kind, lowercase):
    one, two = (unicodedata.normalize(form, "café été 한글 q\u0303") for form in ("NFC", "NFD"))
    tokenizers = [Tokenizer.fit([text], kind, lowercase=lowercase) for text in (one, two)]
    assert tokenizers[0].inner.get_vocab() == tokenizers[1].inner.get_vocab()
    for tokenizer in tokenizers:
        for text in (one, two, f"{one} <unk>q<end>"):
            assert tokenizer.encode(text).numbers.tolist() == tokenizer.inner.encode(text).ids
        joined, apart = tokenizer.encode(one), tokenizer.encode(two)
        assert joined.numbers.tolist() == apart.numbers.tolist()
        assert tokenizer.unknown not in joined.numbers
        parts = [
            [text[start:stop] for start, stop in zip(tokens.starts, tokens.stops)]
            for text, tokens in ((one, joined), (two, apart))
        ]
        assert parts[0] == [unicodedata.normalize("NFC", part) for part in parts[1]]
        assert "".join(parts[1]).replace(" ", "") == two.replace(" ", "")
