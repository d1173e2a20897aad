"""Lines and cells as texts: which count, where they stand, how they are parted."""

import gzip

import numpy as np
import pytest

from edgewise import DataError, SettingError
from edgewise.learn.readers.texts.pairs import read_corpus

TABLE = "title,text,stars\nGood,I liked it.,5\n,No title.,3\nBad, ,1\n"


@pytest.fixture
def table(tmp_path):
    path = tmp_path / "reviews.csv"
    path.write_text(TABLE)
    return str(path)


def test_every_line_that_is_not_blank_is_a_text(tmp_path):
    (tmp_path / "a.txt").write_bytes("one two\r\n\n  \nthree\x85four\n".encode())
    (tmp_path / "b.txt.gz").write_bytes(gzip.compress(b"five"))
    found = read_corpus([str(tmp_path / "a.txt"), str(tmp_path / "b.txt.gz")], ())
    assert found.texts == ["one two", "three\x85four", "five"]
    assert found.row_of_text.tolist() == [0, 3, 5]
    assert found.rejected == []


def test_every_cell_that_is_not_empty_is_a_text(table):
    found = read_corpus([table, table], ("title", "text"))
    assert found.texts == ["Good", "I liked it.", "No title.", "Bad"] * 2
    assert found.row_of_text.tolist() == [0, 0, 1, 2, 3, 3, 4, 5]
    listed = [(each.line, each.column, each.value, each.reason) for each in found.rejected]
    assert listed == [(3, "title", "", "the text is empty"), (4, "text", " ", "the text is empty")] * 2


def test_texts_of_one_row_stay_together(tmp_path):
    (tmp_path / "a.csv").write_text("a,b\n" + "".join(f"{row},{row}\n" for row in range(50)))
    found = read_corpus([str(tmp_path / "a.csv")], ("a", "b"))
    parts = found.split((0.8, 0.1), seed=0)
    assert [len(rows) for rows in parts.values()] == [40, 5]
    assert len(np.intersect1d(*parts.values())) == 0
    for rows in parts.values():
        assert found.of_rows(rows) == [str(row) for row in rows for _ in range(2)]
    assert found.split((0.8, 0.1), seed=0)["val"].tolist() == parts["val"].tolist()
    assert found.split((0.8, 0.1), seed=1)["val"].tolist() != parts["val"].tolist()


def test_what_cannot_be_read(table, tmp_path):
    text = tmp_path / "a.txt"
    text.write_text("one\n")
    (tmp_path / "empty.csv").write_text('a,b\n"",1\n" ",2\n')
    cases = [
        ([table], ("txt",), DataError, r"no column 'txt' \(did you mean 'text'\?\)"),
        ([str(tmp_path / "empty.csv")], ("a",), DataError, "every cell of 'a' is empty"),
        ([table], (), SettingError, "name the columns that hold texts: --text-columns"),
        ([table], ("text", "text"), SettingError, "names 'text' twice"),
        ([str(text)], ("text",), SettingError, "is a text file"),
        ([str(text), table], ("text",), SettingError, "files of one kind"),
    ]
    for paths, columns, kind, message in cases:
        with pytest.raises(kind, match=message):
            read_corpus(paths, columns)
