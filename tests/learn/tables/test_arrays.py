"""Arrays in .npz files: what a file declares is checked before memory is taken for it."""

import io
import pickle
import zipfile

import numpy as np
import pytest

from edgewise.errors import DataError, SettingError
from edgewise.learn.memory import available_memory
from edgewise.learn.tables.arrays import read_arrays
from edgewise.learn.tables.options import read_limits

ARRAYS = {
    "a": np.arange(6.0).reshape(2, 3),
    "in_columns": np.asfortranarray(np.arange(6).reshape(2, 3)),
    "words": np.array(["x", "yz"]),
    "empty": np.zeros((0, 4), np.float32),
    "one": np.array(3),
}


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_arrays_as_numpy_reads_them(tmp_path, save):
    save(tmp_path / "a.npz", **ARRAYS)
    found = read_arrays(str(tmp_path / "a.npz"))
    assert found.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(found[name], array)
        assert found[name].dtype == array.dtype
        assert found[name].flags.writeable


def archive(path, entries, compression=zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path, "w", compression) as file:
        for name, content in entries:
            file.writestr(name, content)
    return str(path)


def header(text, numbers=b""):
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + numbers


def shaped(shape, kind="<f8"):
    return header(f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}", bytes(16))


class Bomb:
    def __reduce__(self):
        return (print, ("it ran",))


LIES = {
    "36 TiB": (
        [("a.npy", shaped("(5000000000000,)"))],
        r"declares float64 \(5000000000000,\), 40,000,000,000,000",
    ),
    "negative": ([("a.npy", shaped("(-2,)"))], "a.npy declares"),
    "no bytes": ([("a.npy", shaped("(1000000000000,)", "<U0"))], "a.npy declares"),
    "overflow": ([("a.npy", shaped("(4294967296, 4294967296, 2)"))], "a.npy declares"),
    "objects": (
        [("a.npy", header("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }"))],
        "holds Python objects",
    ),
    "pickled": ([("a.npy", pickle.dumps(Bomb()))], "not a valid .npz file of plain arrays"),
    "twice": ([("a.npy", shaped("(2,)")), ("a.npy", shaped("(2,)"))], "a name occurs twice"),
    "not an array": ([("../../etc/passwd", b"root")], "not a valid .npz file of plain arrays"),
}


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("lie", LIES)
def test_a_file_that_lies_is_refused_before_memory_is_taken(tmp_path, lie, capsys):
    entries, message = LIES[lie]
    with pytest.raises(DataError, match=message):
        read_arrays(archive(tmp_path / "a.npz", entries))
    assert capsys.readouterr().out == ""


def test_a_bomb_is_refused_and_trusted_files_are_not(tmp_path, monkeypatch):
    monkeypatch.setattr("edgewise.learn.tables.options._FREE", 2**20)
    buffer = io.BytesIO()
    np.save(buffer, np.zeros(1_000_000))
    path = archive(tmp_path / "zeros.npz", [("a.npy", buffer.getvalue())])
    with pytest.raises(DataError, match=r"unpack to 8,000,128 or more, over 100 times as many; .* --max-unpack-ratio"):
        read_arrays(path)
    with read_limits(max_unpack_ratio=2000):
        assert read_arrays(path)["a"].shape == (1_000_000,)


def test_more_than_the_free_memory_is_refused(tmp_path, monkeypatch):
    assert available_memory() > 1 << 20
    np.savez(tmp_path / "a.npz", a=np.zeros(1000))
    monkeypatch.setattr("edgewise.learn.tables.arrays.available_memory", lambda: 10_000)
    with pytest.raises(DataError, match=r"unpacks to 0.0 GB, expected at most 0.0; .*, raise --max-unpacked-gb"):
        read_arrays(str(tmp_path / "a.npz"))
    with read_limits(max_unpacked_gb=1):
        assert read_arrays(str(tmp_path / "a.npz"))["a"].shape == (1000,)
    with (
        pytest.raises(SettingError, match="--max-unpacked-gb is 0; expected at least 1"),
        read_limits(max_unpacked_gb=0),
    ):
        pass
