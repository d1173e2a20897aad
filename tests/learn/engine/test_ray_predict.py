"""`edgewise predict --engine ray`: the rows of `--engine local`, each once and in order."""

import pickle
import sys

import pytest

from edgewise.cli.main import main
from edgewise.learn.tasks import chunks

SMILES = ["C" * (1 + n % 5) + end for n in range(6) for end in ("O", "N", "c1ccccc1", "C(=O)O")]


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A trained run, and a table of several chunks with a row that cannot be read."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "train.csv").write_text("smiles,y\n" + "".join(f"{text},{len(text)}\n" for text in SMILES))
    rows = [*SMILES, "no molecule", *SMILES]
    (folder / "new.csv").write_text("key;smiles\n" + "".join(f"{n};{text}\n" for n, text in enumerate(rows)))
    words = [str(folder / "train.csv"), "--smiles-columns", "smiles", "--target-columns", "y", "--model-dim", "8"]
    quick = ["--num-layers", "1", "--epochs", "1", "--no-baselines", "--device", "cpu", "--logger", "csv"]
    assert main(["train", "molecules", *words, *quick, "-o", str(folder / "run")]) == 0
    return folder


def predicted(folder, name, *words):
    table, out = str(folder / "new.csv"), folder / name
    code = main(["predict", str(folder / "run"), table, "--delimiter", ";", "-o", str(out), "--overwrite", *words])
    assert code == 0
    return out.read_text()


@pytest.fixture
def small_chunks(monkeypatch):
    """Chunks of 5 rows."""
    kind = chunks.TableChunks
    monkeypatch.setattr("edgewise.learn.tasks.molecules.task.TableChunks", lambda path: kind(path, rows=5))


def test_workers_predict_the_rows_of_one_process(run, small_chunks, monkeypatch):
    seen = []

    def map_chunks(workers, read, make, name):
        work = make()
        for cells in read():
            seen.append(len(cells.lines))
            yield pickle.loads(pickle.dumps(work(pickle.loads(pickle.dumps(cells)))))

    monkeypatch.setattr(chunks, "map_chunks", map_chunks)
    local = predicted(run, "local.csv")
    assert len(local.splitlines()) == 2 * len(SMILES) + 2
    assert predicted(run, "ray.csv", "--engine", "ray", "--num-workers", "2") == local
    assert seen == [5] * 9 + [4]


@pytest.mark.nightly  # a cluster starts
@pytest.mark.filterwarnings("ignore")  # of Ray, about itself
def test_ray_predicts_the_rows_of_one_process(run):
    pytest.importorskip("ray.data")
    local = predicted(run, "local.csv")
    assert predicted(run, "ray.csv", "--engine", "ray", "--num-workers", "2") == local


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--num-workers", "2"], "--num-workers is a flag of --engine ray; add --engine ray, or drop it."),
        (
            ["--engine", "local", "--ray-address", "localhost:1"],
            "--ray-address is a flag of --engine ray; add --engine ray, or drop it.",
        ),
    ],
)
def test_flags_that_contradict_each_other(run, words, message, capsys):
    assert main(["predict", str(run / "run"), str(run / "new.csv"), "-o", str(run / "out.csv"), *words]) == 2
    assert capsys.readouterr().err == f"edgewise: error: {message}\n"
    assert not (run / "out.csv").exists()


def test_a_missing_ray_names_its_extra(run, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "ray", None)
    words = ["predict", str(run / "run"), str(run / "new.csv"), "--delimiter", ";", "--engine", "ray"]
    assert main([*words, "-o", str(run / "out.csv")]) == 2
    assert "pip install" in (message := capsys.readouterr().err) and "edgewise[ray]" in message
    assert not (run / "out.csv").exists()
