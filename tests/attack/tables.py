"""Tables as people write them, with what they must come to: cells, quotes, times, tasks and flags.

Each kind draws inputs whose right outcome is known by how they were drawn. What comes out as something else in silence
is a find; what is refused by an error of the package, or said in a line, is counted as such.
"""

import contextlib
import csv
import io
import random
import string
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

from edgewise.cli.flags import Parser
from edgewise.cli.main import flag_owners, main, parser_of
from edgewise.errors import EdgewiseError
from edgewise.learn.progress import collected_remarks
from edgewise.learn.readers.graphs.series import read_series
from edgewise.learn.tables.labels import choose_task
from edgewise.learn.tables.read import read_cells
from edgewise.learn.tasks.registry import names

CELLS = (
    "", " ", "007", "1e5", "1.50", "+4", ".5", "NA", "nan", "None", "True", "2024-02-29", "01/02/24", "12:30", "-", "?",
    "é", "e\u0301", "\u200b", "日本", "=1+1", "@x", '"', "'", "a,b", "a;b", "a\tb", "a\nb", "a\r\nb", " x ", "1,5",
    "9007199254740993", "1_000", "\ufeff", "\u2028", "#", "\\", "\\N",
)  # fmt: skip
"""What programs write into cells, and others read as something else."""
WORDS = (
    "a",
    "fine",
    "film",
    "with",
    "dull",
    "acting",
    "and",
    "an",
    "end",
    "that",
    "nobody",
    "will",
    "like",
    "or",
    "forget",
)


class FindError(AssertionError):
    """An outcome that is wrong, in silence."""


def text(draw: random.Random) -> str:
    """A few words."""
    return " ".join(draw.choice(WORDS) for _ in range(draw.randrange(2, 9)))


def small_run(folder: Path) -> Path:
    """A run over texts, trained in a moment."""
    rows = [(text(random.Random(number)), "good" if number % 2 else "bad") for number in range(40)]
    write(folder / "texts.csv", [("text", "label"), *rows])
    words = ["--text-columns", "text", "--epochs", "1", "--model-dim", "8", "--num-layers", "1", "--no-baselines"]
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        assert main(["train", "texts", str(folder / "texts.csv"), *words, "-o", str(folder / "run")]) == 0
    return folder / "run"


def write(path: Path, rows: Sequence[Sequence[str]], **form: Any) -> None:
    """A table as Python's `csv` writes it."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file, delimiter="\t" if path.suffix == ".tsv" else ",", **form).writerows(rows)


def cells(draw: random.Random, folder: Path, run: Path) -> str:
    """Columns of a table of any format come back from `predict` byte for byte."""
    columns = {"text": [text(draw) for _ in range(draw.randrange(1, 6))]}
    for number in range(draw.randrange(1, 4)):
        columns[f"column {number}"] = [draw.choice(CELLS) for _ in columns["text"]]
    ends = [draw.choice((".csv", ".tsv", ".parquet")) for _ in range(2)]
    data, out = folder / f"data{ends[0]}", folder / f"out{ends[1]}"
    if ends[0] == ".parquet":
        parquet.write_table(pa.table(columns), data)
    else:
        quoting = draw.choice((csv.QUOTE_MINIMAL, csv.QUOTE_ALL))
        write(data, [[*columns], *zip(*columns.values(), strict=True)], lineterminator=draw.choice(("\n", "\r\n")),
              quoting=quoting)  # fmt: skip
    with contextlib.redirect_stderr(io.StringIO()):
        code = main(["predict", str(run), str(data), "-o", str(out), "--overwrite", "--threads", "1"])
    if code != 0:
        return "refused"
    if ends[1] == ".parquet":
        found = parquet.read_table(out).to_pydict()
    else:
        with open(out, encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file, delimiter="\t" if ends[1] == ".tsv" else ","))
        found = {name: [row[name] for row in rows] for name in columns}
    for name, given in columns.items():
        if found[name] != given:
            raise FindError(f"{ends}: {given!r} came back as {found[name]!r}")
    return "held"


def quotes(draw: random.Random, folder: Path, run: Path) -> str:
    """A quote that opens in one row and closes in a later one is said or refused."""
    rows = [[draw.choice("01"), text(draw)] for _ in range(draw.randrange(12, 40))]
    first, place = draw.randrange(1, 6), draw.randrange(2)
    last = draw.randrange(first + 1, 11)
    rows[first][1], rows[last][1] = f'"{rows[first][1]}', f'{rows[last][1]}"'
    if place:
        rows = [row[::-1] for row in rows]
    path = folder / draw.choice(("quotes.csv", "quotes.tsv"))
    sign = "\t" if path.suffix == ".tsv" else ","
    header = ["text", "label"] if place else ["label", "text"]
    path.write_text("".join(f"{sign.join(row)}\n" for row in [header, *rows]))
    with collected_remarks() as remarks:
        found = read_cells(path)
    if len(found.lines) < len(rows) and not any("reaches over them" in line for line in remarks):
        raise FindError(f"{len(rows) - len(found.lines)} rows are gone: {path.read_text()!r}")
    return "said"


FORMS = (
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%Y-%m-%d", "%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y%m%d", "%b %d %Y",
    "%Y/%m/%d %H:%M", "%Y-%m-%d %H:%M:%S+02:00",
)  # fmt: skip
"""How dates are written."""


def times(draw: random.Random, folder: Path, run: Path) -> str:
    """Dates at equal distances, in any usual writing, are as many steps, and go on as they should."""
    form, count = draw.choice(FORMS), draw.randrange(14, 60)
    start = datetime(draw.randrange(1950, 2040), draw.randrange(1, 13), draw.randrange(1, 29))
    step = timedelta(hours=draw.choice((1, 6, 24, 168))) if "%H" in form else timedelta(days=draw.choice((1, 7)))
    stamps = [(start + place * step).strftime(form) for place in range(count + 3)]
    order = list(range(count))
    if draw.random() < 0.3:
        draw.shuffle(order)
    rows = [("when", "a", "b"), *((stamps[place], str(place), str(-place)) for place in order)]
    write(folder / "series.csv", rows)
    found = read_series(
        str(folder / "series.csv"), None, time_column="when", edge_columns=(), is_directed=False, gaps="error"
    )
    assert found.clock is not None
    after = [found.clock.at(count + place) for place in range(3)]
    if found.values[:, 0].tolist() != list(range(count)):
        raise FindError(f"{form}: another order of {stamps[:3]} …")
    # Where all dates lie in May, nothing says whether the names of months are short.
    is_may = "%b" in form and all(stamp.startswith("May") for stamp in stamps[:count])
    if after != stamps[count:] and not is_may:
        raise FindError(f"{form}: {stamps[count - 1]!r} is followed by {after}, expected {stamps[count:]}")
    return "held"


def tasks(draw: random.Random, folder: Path, run: Path) -> str:
    """A column of targets is classes or numbers as the docs say."""
    pairs = [("0", "1"), ("1.0", "0.0"), ("-1", "1"), ("yes", "no"), ("True", "False"), ("2", "7"), ("A", "b")]
    kind = draw.choice(("two", "ratings", "fractions", "counts", "words"))
    if kind == "two":
        values, expected = draw.choice(pairs), "classification"
    elif kind == "ratings":
        values, expected = [str(draw.randrange(100) + place) for place in range(0, 500, 100)], "multiclass"
    elif kind == "fractions":
        values, expected = [f"{draw.uniform(-9, 9):.3f}" for _ in range(40)], "regression"
    elif kind == "counts":
        values, expected = [str(place * 3) for place in range(60)], "regression"
    else:
        values, expected = ["red", "green", "blue"], "multiclass"
    column = [values[place % len(values)] for place in range(60 * len(values) if kind == "ratings" else 120)]
    column += [""] * draw.randrange(5)
    draw.shuffle(column)
    if (found := choose_task({"y": column}, "data.csv")) != expected:
        raise FindError(f"{kind} {list(values)[:5]} is {found}, expected {expected}")
    return "held"


def flags(draw: random.Random, folder: Path, run: Path) -> str:
    """A flag that a task lacks is named as that of those that have it; and one that none has is not found."""
    task = draw.choice(list(names()))
    if not _PARSERS:
        _PARSERS.update({name: parser_of("train", [name]) for name in names()})
    known = _PARSERS[task].spellings
    every = sorted({flag for parser in _PARSERS.values() for flag in parser.spellings})
    flag = draw.choice([flag for flag in every if flag not in known and not flag.startswith("--no-")])
    if draw.random() < 0.3:
        flag = "--" + "".join(draw.choice(string.ascii_lowercase) for _ in range(9))
    found = _PARSERS[task].unknown_flag_message(flag)
    if flag in every and flag_owners(flag, "train") and "Did you mean" in found:
        raise FindError(f"{task} {flag}: {found}")
    if flag not in every and not found.startswith(f"unknown flag {flag}."):
        raise FindError(f"{task} {flag}: {found}")
    return "held"


_PARSERS: dict[str, Parser] = {}
KINDS: dict[str, Callable[[random.Random, Path, Path], str]] = {
    each.__name__: each for each in (cells, quotes, times, tasks, flags)
}


def attack(run: Path | None, folder: Path, draw: random.Random, seconds: float, most: int) -> dict[str, Any]:
    """Inputs of each kind, `most` of each at most, and what came out.

    Args:
        run: Over texts; without one, there are no cells.
        folder: For files.
        draw: Draws the inputs.
        seconds: For all kinds.
        most: Inputs of each kind.
    """
    counts: dict[str, Counter[str]] = {}
    finds: list[str] = []
    for name, kind in KINDS.items():
        if name == "cells" and run is None:
            continue
        counts[name] = Counter()
        end = time.monotonic() + seconds / len(KINDS)
        while counts[name].total() < most and time.monotonic() < end:
            outcome = "foreign"
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore")
                    outcome = kind(draw, folder, run or folder)
            except EdgewiseError:
                outcome = "refused"
            except Exception as error:  # whatever it is, it is what is looked for
                is_find = isinstance(error, FindError)
                finds.append(str(error) if is_find else traceback.format_exc(limit=-3))
            counts[name][outcome] += 1
    kinds = {name: dict(each) for name, each in counts.items()}
    return {
        "inputs": sum(each.total() for each in counts.values()),
        "foreign": len(finds),
        "kinds": kinds,
        "finds": finds[:20],
    }


def run(minutes: float, seed: int) -> dict[str, Any]:
    """All kinds, each for the same time."""
    with tempfile.TemporaryDirectory() as folder:
        return attack(small_run(Path(folder)), Path(folder), random.Random(seed), minutes * 60, 10**9)
