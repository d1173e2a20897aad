"""The readers of tables, graphs, texts, settings and archives, each with a judge of what it read.

The judge of a table is Python's `csv`, row by row; those of texts are a few lines each. A reader that reads something
else than they do, loses a row, or lists none of the rows that it leaves out, has lost data in silence.
"""

import csv
import io
import itertools
import json
import re
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import strategies as st

from attack._damage import Target, arrays_changed, json_changed
from attack._folders import graph_arrays, packed
from edgewise.learn.tables import read
from edgewise.learn.tables.columns import Columns
from edgewise.learn.tables.options import TableFormat
from edgewise.learn.tables.read import Cells, TableChunks, join_cells, read_cells
from edgewise.learn.training.folder import RunFolder, read_json, read_toml

NODES = tuple("abcdefgh")
Read = Callable[[str], Any]

CELLS = st.one_of(
    st.sampled_from(["", "a", "b", "h", "1", "-2.5", "1e3", "nan", "inf", "0,5", "x y", '"', "é", "CCO", "c1ccccc1"]),
    st.text(st.sampled_from('ab1.,;"\n\r\t =\ufeff\u2028é😀'), max_size=8),
)


@st.composite
def tables(draw: Any, header: Sequence[str], delimiter: str = ",") -> bytes:
    """A table as many programs would write it: quotes, line ends, blank lines, a mark, a short row now and then."""
    names = draw(st.one_of(st.just(list(header)), st.lists(CELLS, min_size=1, max_size=4)))
    rows = draw(st.lists(st.lists(CELLS, min_size=len(names), max_size=len(names)), max_size=8))
    buffer = io.StringIO()
    end = draw(st.sampled_from(["\n", "\r\n", "\n", "\r"]))
    quoting = draw(st.sampled_from([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]))
    writer = csv.writer(buffer, delimiter=delimiter, lineterminator=end, quoting=quoting)
    for row in [names, *rows]:
        writer.writerow(row[: draw(st.sampled_from([None, None, None, None, None, -1]))])
        buffer.write(draw(st.sampled_from(["", "", "", "", end, " " + end])))
    text = draw(st.sampled_from(["", "", "\ufeff"])) + buffer.getvalue()
    return (text.rstrip("\r\n") if draw(st.booleans()) else text).encode()


def rows_of(content: bytes, form: TableFormat = TableFormat()) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of a table, by Python's `csv`: the judge."""
    encoding = "utf-8-sig" if form.is_utf8 else form.encoding
    text = io.StringIO(content.decode(encoding).removeprefix("" if form.is_utf8 else "\ufeff"), newline="")
    rows = csv.reader(text, delimiter=form.delimiter or ",", strict=True)
    header = next(row for row in rows if row)
    if len(header) > 1:
        return header, [row for row in rows if len(row) > 1 or "".join(row).strip()]
    found = [row or [""] for row in rows]
    while found and found[-1] == [""]:
        del found[-1]
    return header, found


def check_cells(cells: Cells, content: bytes, form: TableFormat = TableFormat()) -> None:
    """Every cell is read as `csv` reads it; numbers with a decimal comma get a point."""
    header, rows = rows_of(content, form)
    assert list(cells.frame.columns) == header, "another header"
    found = [list(row) for row in zip(*(cells.texts(name) for name in header), strict=True)]
    if form.decimal == ",":
        number = re.compile(r"[-+]?([0-9]+,[0-9]*|,[0-9]+)([eE][-+]?[0-9]+)?")
        rows = [[cell.replace(",", ".") if number.fullmatch(cell.strip()) else cell for cell in row] for row in rows]
    assert found == rows, f"read {found!r:.200}, expected {rows!r:.200}"
    assert (np.diff(cells.lines) > 0).all() and len(cells.lines) == len(rows), "lines out of order"


class Files:
    """Targets that read a file of their own in one folder; another folder for each process."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.targets: list[Target] = []

    def add(self, name: str, content: bytes, read: Read, check: Callable[[Any, bytes], None], **more: Any) -> None:
        """A reader of a path, and the judge of what it read from which content."""
        path = self.folder / name

        def read_and_check(given: bytes) -> None:
            path.write_bytes(given)
            check(read(str(path)), given)

        self.targets.append(Target(name, content, read_and_check, **more))

    def table(self, name: str, content: bytes, read: Read, count: Callable[[Any], int]) -> None:
        """A reader of a table of which every row must be used or listed."""

        def check(found: Any, given: bytes) -> None:
            expected = len(rows_of(given)[1])
            assert count(found) == expected, f"{count(found)} of {expected} rows are accounted for"

        header = next(csv.reader(io.StringIO(content.decode())))
        self.add(name, content, read, check, strategy=tables(header))


def table_targets(folder: Path) -> list[Target]:
    """Tables as cells: of every kind of file, format and encoding."""
    files = Files(folder)
    plain = b'id,word,y\n1,"a, ""b""\nc",0.5\n\n2,,1e3\n3,\xc3\xa9,nan\n'
    files.add("table.csv", plain, read_cells, check_cells, strategy=tables(["id", "word", "y"]))
    one_column = b'word\n\na\n"b\nc"\n"d\ne"\n\n'
    files.add("column.csv", one_column, read_cells, check_cells, strategy=tables(["word"]))
    files.add("chunks.csv", plain, _in_chunks, check_cells, strategy=tables(["id", "word", "y"]))
    comma = TableFormat(delimiter=";", decimal=",")
    files.add(
        "comma.csv",
        b'a;b\n1,5;x\n-0,5;"y;z"\n3;w\n',
        lambda path: read_cells(path, comma),
        lambda cells, given: check_cells(cells, given, comma),
        strategy=tables(["a", "b"], ";"),
    )
    for encoding in ("utf-16", "cp1252"):
        form = TableFormat(encoding=encoding)
        files.add(
            f"{encoding}.csv",
            plain.decode().encode(encoding),
            lambda path, form=form: read_cells(path, form),
            lambda cells, given, form=form: check_cells(cells, given, form),
        )
    frame = read_cells(str(_written(folder / "known.csv", plain))).frame
    for suffix in ("csv.gz", "parquet", "xlsx"):
        path = folder / f"known.{suffix}"
        getattr(frame, {"csv.gz": "to_csv", "parquet": "to_parquet", "xlsx": "to_excel"}[suffix])(path, index=False)
        files.add(f"table.{suffix}", path.read_bytes(), read_cells, lambda cells, _: _whole(cells))
    return files.targets


def _written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def _in_chunks(path: str) -> Cells:
    """A table that is read some rows at a time, as large ones are."""
    before, read.WHOLE_BYTES = read.WHOLE_BYTES, 0
    try:
        return join_cells(list(TableChunks(path, rows=3)))
    finally:
        read.WHOLE_BYTES = before


def _whole(cells: Cells) -> None:
    assert len(cells.lines) == len(cells.frame) > 0


def graph_targets(folder: Path) -> list[Target]:
    """Tables of nodes, edges, graphs, pairs and series, and graphs in archives."""
    from edgewise.interop.graphml import read_graphml
    from edgewise.learn.readers.graphs.edge_data import read_edge_data
    from edgewise.learn.readers.graphs.edges import read_edges
    from edgewise.learn.readers.graphs.file import read_graph_file
    from edgewise.learn.readers.graphs.graphs import read_graphs
    from edgewise.learn.readers.graphs.links import read_pairs_of_nodes
    from edgewise.learn.readers.graphs.names import NodeNames
    from edgewise.learn.readers.graphs.nodes import read_nodes
    from edgewise.learn.readers.graphs.series import read_series
    from edgewise.learn.readers.graphs.source import GraphColumns, GraphSource, GraphsSource

    files, names = Files(folder), NodeNames(NODES)
    links = "".join(f"{a},{b},{place / 2},r\n" for place, (a, b) in enumerate(itertools.pairwise(NODES)))
    edges = _written(folder / "known_edges.csv", f"sender,receiver,w,kind\n{links}".encode())
    nodes = "".join(f"{name},{place},{place / 3},train\n" for place, name in enumerate(NODES))
    many = "".join(f"g{place // 4},{name},{place},{place // 4}\n" for place, name in enumerate(NODES))

    def of_graph(**more: Any) -> Columns:
        return Columns(node_column="id", target_columns=("y",), **more)

    files.table(
        "edges.csv",
        edges.read_bytes(),
        lambda path: read_edges(path, names, "nodes", feature_columns=("w",), type_column="kind"),
        lambda found: len(found) + len(found.rejected),
    )
    files.table(
        "nodes.csv",
        f"id,x,y,split\n{nodes}".encode(),
        lambda path: read_nodes([path], of_graph(splits_column="split"), GraphSource(edges=str(edges))),
        lambda found: len(found.rows),
    )
    source = GraphSource(edge_columns=("sender", "receiver"), edge_feature_columns=("w",))
    files.table(
        "edge_table.csv",
        f"sender,receiver,w,y\n{links.replace(',r', ',1')}".encode(),
        lambda path: read_edge_data([path], of_graph(), source, None),
        lambda found: len(found.rows),
    )
    graphs = GraphColumns(node_column="id", target_columns=("y",))
    within = "".join(f"{a},{b}\n" for a, b in itertools.pairwise(NODES) if NODES.index(b) != 4)
    inside = _written(folder / "known_inside.csv", f"sender,receiver\n{within}".encode())
    files.table(
        "graphs.csv",
        f"graph,id,x,y\n{many}".encode(),
        lambda path: read_graphs([path], graphs, GraphsSource(edges=str(inside))),
        lambda found: int(found.num_nodes.sum()),
    )
    files.table(
        "pairs.csv",
        b"a,b\n" + "".join(f"{a},{b}\n" for a, b in zip(NODES, NODES[2:])).encode(),
        lambda path: read_pairs_of_nodes(path, names),
        lambda found: len(found.status),
    )
    files.table(
        "series.csv",
        b"time,a,b\n1,0.5,1\n2,,3\n3,-1e3,4\n",
        lambda path: read_series(path, None, time_column=None, edge_columns=(), is_directed=False),
        lambda found: len(found.values),
    )

    def check_arrays(found: Any, given: bytes) -> None:
        with np.lib.npyio.NpzFile(io.BytesIO(given)) as arrays:
            assert found.features.shape[0] == len(arrays["x"]), "another number of nodes"
            assert len(found.edges) == arrays["edge_index"].shape[1], "another number of edges"

    arrays = packed(graph_arrays(np.random.default_rng(0), sparse=False))
    files.add("arrays.npz", arrays, read_graph_file, check_arrays, change=arrays_changed)
    written = (
        b'<?xml version="1.0"?><graphml xmlns="http://graphml.graphdrawing.org/xmlns"><key id="w" for="edge" '
        b'attr.name="weight" attr.type="double"/><graph edgedefault="directed"><node id="a"/><node id="b"/>'
        b'<edge source="a" target="b"><data key="w">0.5</data></edge></graph></graphml>'
    )
    files.add("graph.graphml", written, read_graphml, lambda *_: None)
    return files.targets


def molecule_targets(folder: Path) -> list[Target]:
    """A column of SMILES or InChI; molecules that take more than milliseconds say so, and go to a process elsewhere."""
    from edgewise.learn.readers.molecules.data import read_molecules
    from edgewise.learn.readers.molecules.limits import QuickLimits, SlowMoleculeError

    def read(path: str) -> Any:
        columns = Columns(smiles_columns=("smiles",), target_columns=("y",))
        return read_molecules(path, columns, with_descriptors=False, limits=QuickLimits())

    def check(found: Any, given: bytes) -> None:
        assert len(found.rows) == len(rows_of(given)[1]), "a row is lost"
        for graph, status in zip(found.graph_of_row[:, 0].tolist(), found.rows.status, strict=True):
            assert graph >= 0 or status.startswith("smiles: "), f"a row without a molecule is {status!r}"

    content = b"smiles,y\nCCO,1\nc1ccccc1O,2\nC[C@H](N)C(=O)O,3\n[Na+].[Cl-],4\nInChI=1S/CH4/h1H4,5\nF/C=C/F,6\nxx,7\n"
    files = Files(folder)
    files.add("smiles.csv", content, read, check, strategy=tables(["smiles", "y"]), refuses=(SlowMoleculeError,))
    return files.targets


def text_targets(folder: Path) -> list[Target]:
    """Lines of text, aligned lines, tagged words in columns and in objects, and vocabularies."""
    from edgewise.learn.readers.texts.data import read_texts
    from edgewise.learn.readers.texts.pairs import read_corpus, read_pairs
    from edgewise.learn.readers.texts.tags import read_tagged
    from edgewise.learn.readers.texts.tokenizer import Tokenizer
    from edgewise.learn.tasks.tokens import load_tokenizer

    files, lines = Files(folder), st.lists(st.text(st.sampled_from("ab \t\r\n\u2028\x85\x0cé😀\ufeff"), max_size=12))
    text = lines.map(lambda found: "\n".join(found).encode())
    songs = b"a song of ice\n\nand fire\r\n  \nlast"
    columns = Columns(text_columns=("text",), target_columns=())

    def check_lines(found: Any, given: bytes) -> None:
        assert found == _lines(given), f"read {found!r:.200}, expected {_lines(given)!r:.200}"

    files.add(
        "lines.txt",
        songs,
        lambda path: read_texts([path], columns, need_targets=False).rows.cells.frame["text"].tolist(),
        check_lines,
        strategy=text,
    )
    files.add(
        "corpus.txt",
        songs,
        lambda path: read_corpus([path], ()).texts,
        lambda found, given: _equal(found, [line for line in _lines(given) if line.strip()]),
        strategy=text,
    )
    other = _written(folder / "known.de", b"eins\nzwei\ndrei\nvier\nf\xc3\xbcnf\n")
    files.add(
        "pairs.en",
        b"one\ntwo\nthree\nfour\nfive\n",
        lambda path: read_pairs([path, str(other)], (), ()).sources,
        check_lines,
        strategy=text,
    )
    files.table(
        "texts.csv",
        b'text,y\n"a song, of ice",good\nfire,bad\n,good\n',
        lambda path: read_texts([path], Columns(text_columns=("text",), target_columns=("y",), task_type="auto")),
        lambda found: len(found.rows),
    )
    files.add(
        "words.conll",
        b"-DOCSTART- -X- O\n\nEU NNP B-ORG\nrejects VBZ O\n\nPeter NNP B-PER\n",
        lambda path: read_tagged([path]),
        _check_columns,
        strategy=st.lists(st.sampled_from(["a B-X", "b O", "c", "", "\t", "x y I-X", "-DOCSTART- O", "\r", "é O"])).map(
            lambda found: "\n".join(found).encode()
        ),
    )
    value = st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
        max_leaves=6,
    )
    row = st.fixed_dictionaries({"tokens": st.lists(st.text(max_size=4), max_size=4) | value, "tags": value})
    files.add(
        "words.jsonl",
        b'{"tokens": ["EU", "rejects"], "tags": ["B-ORG", "O"]}\n\n{"tokens": ["a"], "tags": ["O"], "id": 3}\n',
        lambda path: read_tagged([path]),
        lambda found, given: _equal(len(found.status), sum(bool(line.strip()) for line in _lines(given))),
        strategy=st.lists(row | value, max_size=5).map(lambda rows: "\n".join(map(json.dumps, rows)).encode()),
    )

    vocabulary = Tokenizer.fit(["a song of ice and fire"] * 3, "bpe", 300)
    files.add(
        "tokenizer.json",
        vocabulary.to_json().encode(),
        lambda path: load_tokenizer(RunFolder(Path(path).parent), "bpe").encode("a song of ice, é 😀").numbers,
        lambda *_: None,
        change=json_changed,
    )
    return files.targets


def _equal(found: Any, expected: Any) -> None:
    assert found == expected, f"read {found!r:.200}, expected {expected!r:.200}"


def _lines(content: bytes) -> list[str]:
    """The lines of a text as every editor counts them; a last one that is empty is none."""
    lines = io.StringIO(content.decode("utf-8-sig"), newline=None).read().split("\n")
    return lines if lines[-1] else lines[:-1]


def _check_columns(found: Any, given: bytes) -> None:
    expected: list[list[str]] = [[]]
    for line in _lines(given):
        cells = [cell for cell in re.split(r"[ \t]+", line) if cell]
        if not cells or cells[0] == "-DOCSTART-":
            expected.append([])
        else:
            expected[-1].append(cells[0])
    expected = [sentence for sentence in expected if sentence]
    good = [sentence for sentence, status in zip(found.words, found.status, strict=True) if status == "ok"]
    assert len(found.words) == len(expected), f"{len(found.words)} of {len(expected)} sentences"
    assert good == [each for each, status in zip(expected, found.status, strict=True) if status == "ok"]


def setting_targets(folder: Path) -> list[Target]:
    """Settings of every task in TOML, and documents in JSON."""
    import tomli_w

    from edgewise.learn.tasks.registry import names, settings_of

    files, kinds = Files(folder), [settings_of(name) for name in names()]
    names = sorted(
        {each.name for kind in kinds for each in fields(kind.run_type)} | {"epochs", "batch-size", "data", "model"}
    )
    value = st.one_of(
        st.booleans(), st.integers(-2, 9), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=5),
        st.lists(st.integers(-2, 9) | st.text(max_size=3), max_size=3),
    )  # fmt: skip
    known = {"data": ["a.csv"], "epochs": 3, "learning-rate": 1e-3, "target-columns": ["y"], "smiles-columns": ["s"]}

    def read(path: str) -> Any:
        found = read_toml(path)
        is_of_molecules = "smiles-columns" in found
        kind = settings_of("molecules") if is_of_molecules else kinds[len(str(found)) % len(kinds)]
        return found, kind.of(found, path)

    files.add(
        "config.toml",
        tomli_w.dumps(known).encode(),
        read,
        lambda found, given: _equal(repr(found[0]), repr(tomllib.loads(given.decode()))),
        strategy=st.dictionaries(st.sampled_from(names), value, max_size=4).map(
            lambda each: tomli_w.dumps(each).encode()
        ),
    )
    document = b'{"format": "edgewise run", "format_version": 1, "sizes": [1, 2.5, null], "name": "\\u00e9"}'
    files.add(
        "document.json",
        document,
        lambda path: read_json(Path(path)),
        lambda found, given: _equal(repr(found), repr(json.loads(given))),
        change=json_changed,
    )
    return files.targets
