"""`edgewise predict` chunk by chunk: the file is the same as in one piece, and a fault leaves none."""

import csv
import gzip
import pickle
import sys

import pandas as pd
import pytest
from test_cli_full_disk import files_of_at_most

from cli_tables import read_csv, write_csv
from edgewise.learn.tables.read import TableChunks, read_cells
from edgewise.learn.tasks.chunks import ChunkPredictor, Tally
from edgewise.learn.tasks.task import PredictRequest

SMILES = ["CCO", "CCN", "C(", "c1ccccc1", "CC(=O)O", "", "CCO", "CCCC", "C1CC1", "OCC"]


@pytest.fixture
def new(tmp_path):
    """Molecules that come again in later chunks, and rows that cannot be read."""
    return write_csv(tmp_path / "new.csv", {"id": [str(n) for n in range(30)], "smiles": SMILES * 3})


@pytest.fixture
def in_chunks(monkeypatch):
    """From the rows of a chunk on, files are read in such chunks."""

    def of_rows(rows):
        monkeypatch.setattr("edgewise.learn.tables.read.WHOLE_BYTES", 0)
        monkeypatch.setattr("edgewise.learn.tables.read.CHUNK_ROWS", rows)

    return of_rows


def test_every_kind_of_file_is_the_same_in_chunks(trained, edgewise, new, tmp_path, in_chunks):
    names = ["out.csv", "out.tsv", "out.csv.gz", "out.parquet"]
    pd.read_csv(new, dtype=str, keep_default_na=False).to_parquet(new.with_suffix(".parquet"))
    for folder, rows in (("whole", 100), ("chunks", 7)):
        (tmp_path / folder).mkdir()
        in_chunks(rows)
        for name in names:
            data = new.with_suffix(".parquet") if name.endswith("parquet") else new
            code, _, err = edgewise("predict", trained, data, "-o", tmp_path / folder / name)
            assert (code, "24 of 30 rows predicted; 6 could not be" in err) == (0, True)
    whole, chunks = tmp_path / "whole", tmp_path / "chunks"
    assert [row["id"] for row in read_csv(chunks / "out.csv")] == [str(place) for place in range(30)]
    # The last digit of a prediction depends on which rows are computed together.
    about = {"check_exact": False, "rtol": 1e-5}
    pd.testing.assert_frame_equal(pd.read_csv(chunks / "out.csv"), pd.read_csv(whole / "out.csv"), **about)
    pd.testing.assert_frame_equal(
        pd.read_parquet(chunks / "out.parquet"), pd.read_parquet(whole / "out.parquet"), **about
    )
    content = (chunks / "out.csv").read_text()
    pd.testing.assert_frame_equal(pd.read_csv(chunks / "out.tsv", sep="\t"), pd.read_csv(chunks / "out.csv"))
    assert gzip.decompress((chunks / "out.csv.gz").read_bytes()).decode() == content
    assert edgewise("predict", trained, new, "-o", "-")[1] == content


def test_a_parquet_file_of_one_chunk_is_as_pandas_writes_it(trained, edgewise, new, tmp_path):
    assert edgewise("predict", trained, new, "-o", tmp_path / "out.parquet")[0] == 0
    frame = pd.read_parquet(tmp_path / "out.parquet")
    frame.to_parquet(tmp_path / "again.parquet", index=False)
    assert (tmp_path / "out.parquet").read_bytes() == (tmp_path / "again.parquet").read_bytes()


def test_what_fails_in_a_later_chunk_leaves_no_output(trained, edgewise, new, tmp_path, in_chunks):
    in_chunks(7)
    places = tmp_path / "out"
    places.mkdir()
    content = new.read_text()
    new.write_text(content + "31,C,C\n")
    code, _, err = edgewise("predict", trained, new, "-o", places / "out.csv")
    assert (code, "new.csv, line 32: 3 cells, but the header has 2 columns" in err) == (2, True)
    new.write_text(content)
    code, _, err = edgewise("predict", trained, new, "-o", places / "out.csv", "--strict")
    assert (code, "new.csv, row 3 (line 4), column 'smiles'" in err) == (2, True)
    new.write_text(content.replace(",C(\n", ",C\n"))
    code, _, err = edgewise("predict", trained, new, "-o", places / "out.csv", "--strict")
    assert (code, "new.csv, row 6 (line 7), column 'smiles'" in err) == (2, True)
    new.write_text(content)
    for name in ("out.csv", "out.csv.gz", "out.parquet"):
        with files_of_at_most(1500 if name == "out.csv" else 300):
            code, _, err = edgewise("predict", trained, new, "-o", places / name)
        assert code == 2 and f"{name} cannot be written: File too large; free some space" in err
    assert list(places.iterdir()) == []


def test_the_row_of_a_bad_cell_is_counted_over_all_chunks(trained, edgewise, tmp_path, in_chunks):
    in_chunks(2)
    data = write_csv(tmp_path / "new.csv", {"smiles": ["C", "CC", "CCC", "CCCC", "C("]})
    code, _, err = edgewise("predict", trained, data, "-o", tmp_path / "out.csv", "--strict")
    assert (code, "new.csv, row 5 (line 6), column 'smiles'" in err) == (2, True)


def test_a_reader_that_goes_away_ends_the_work(trained, edgewise, new, monkeypatch, in_chunks):
    in_chunks(7)
    written, write = [], sys.stdout.write

    def closed_after_one(text):
        if written:
            raise BrokenPipeError
        written.append(text)
        return write(text)

    predicted = []
    predict = ChunkPredictor.predict
    monkeypatch.setattr(ChunkPredictor, "predict", lambda self, cells: predicted.append(1) or predict(self, cells))
    monkeypatch.setattr("sys.stdout.write", closed_after_one)
    code, _, err = edgewise("predict", trained, new, "-o", "-")
    assert (code, err, len(predicted)) == (141, "", 2)


def test_chunks_and_what_predicts_them_travel_to_other_processes(trained, new, monkeypatch):
    request = pickle.loads(pickle.dumps(PredictRequest(folder=str(trained), data=str(new))))
    from edgewise.learn.tasks.registry import task_of

    predictor = ChunkPredictor(task_of(request.run_folder).rows, request)
    found = [pickle.loads(pickle.dumps(predictor.predict(cells))) for cells in TableChunks(new, 20)]
    assert [part.tally.num_rows for part in found] == [20, 10]
    assert sum((part.tally for part in found), Tally()).summary.startswith("24 of 30 rows predicted")
    assert next(iter(found[0].added)) == "y_pred"


def test_notes_are_those_of_all_chunks():
    first = Tally(5, 4, 1, num_cut=1, context=64, num_tokens=100, num_unknown=1, conformers={"C": ("retried", "[CH4]")})
    second = Tally(5, 5, 0, num_cut=1, context=64, num_tokens=100, num_unknown=40, conformers={"C": ("retried", "C")})
    both = first + second
    assert list((first + Tally(conformers={"O": ("flat", "O"), "C": ("flat", "C")})).conformers) == ["C", "O"]
    assert both.summary == (
        "9 of 10 rows predicted, 1 of them from unknown words alone; "
        "1 could not be, and says why in the column 'status'"
    )
    assert both.notes == [
        "conformers: 1 embedded at the second try (first [CH4])",
        "2 texts have more than 64 tokens, cut there",
        "warning: 41 of 200 tokens (20.5%) are out of vocabulary and are read as <unk>: are these texts like those of "
        "the training?",
    ]
    assert (Tally() + Tally(num_tokens=100, num_unknown=10)).notes == []


def test_long_cells_and_carriage_returns_come_back_as_they_were(trained, edgewise, tmp_path):
    limit, notes = csv.field_size_limit(), ["x\ry", "z" * 200_000, "\r", "=1", "a\tb"]
    data = tmp_path / "new.csv"
    lines = "".join(f'C,"{note}"\n' for note in notes)
    data.write_text(f"smiles,note\n{lines}", newline="")
    for name, flags in (("out.csv", []), ("out.tsv", []), ("escaped.csv", ["--escape-formulas"])):
        assert edgewise("predict", trained, data, "-o", tmp_path / name, *flags)[0] == 0
        found = read_cells(tmp_path / name).texts("note")
        assert found == (["x\ry", notes[1], "'\r", "'=1", "a\tb"] if flags else notes)
    assert csv.field_size_limit() == limit
