"""The numba backend among others: threads, forks, loaders of data, compilers, folders that cannot be used."""

import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from edgewise import Causal, Edges, attend
from edgewise.backends.numba import compiled
from edgewise.backends.numba import threads as pool
from edgewise.neighborhood import jit

SOURCE = Path(__file__).parents[1] / "src"


@pytest.fixture
def two_threads():
    """Two threads, and as many as before when the test ends."""
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def run_script(folder, text, environment=None):
    """Run a program in a process of its own, and give back what it prints."""
    script = folder / "program.py"
    script.write_text(textwrap.dedent(text))
    path = os.pathsep.join([*(environment or {}).get("PYTHONPATH", "").split(os.pathsep), str(SOURCE)])
    settings = os.environ | {"OMP_NUM_THREADS": "1"} | (environment or {}) | {"PYTHONPATH": path.strip(os.pathsep)}
    command = [sys.executable, "-W", "error", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env=settings, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


# Threads.


def test_every_share_is_worked_on_once(two_threads):
    for count in (1, 2, 7):
        torch.set_num_threads(count)
        for num_chunks in (0, 1, 2, 100):
            done = []
            pool.run(lambda number, total, done=done: done.append((number, total)), num_chunks)
            total = max(1, min(count, num_chunks))
            assert sorted(done) == [(number, total) for number in range(total)]


def test_an_error_in_a_worker_thread_is_raised_in_the_caller(two_threads):
    def fail(number, total, which=None):
        if which in (None, number):
            raise ValueError(f"share {number}")

    for which in (None, 0, 1):
        for _ in range(20):
            with pytest.raises(ValueError, match="share"):
                pool.run(lambda number, total, which=which: fail(number, total, which), 2)
    done = []
    pool.run(lambda number, total: done.append(number), 2)
    assert sorted(done) == [0, 1]


def test_work_may_ask_for_work(two_threads):
    done = []

    def outer(number, total):
        pool.run(lambda inner, count: done.append((number, inner)), 2)

    pool.run(outer, 2)
    assert sorted(done) == [(0, 0), (0, 1), (1, 0), (1, 1)]


def test_a_system_that_gives_no_threads(two_threads, monkeypatch):
    def start(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pool, "_helpers", pool.Helpers())
    monkeypatch.setattr(pool.threading.Thread, "start", start)
    done = []
    pool.run(lambda number, total: done.append((number, total)), 2)
    assert done == [(0, 2), (1, 2)]


def test_several_threads_may_attend_at_once(two_threads, monkeypatch):
    from edgewise.backends.numba import edge_kernels

    monkeypatch.setattr(edge_kernels, "CHUNK", 2**12)
    generator = torch.Generator().manual_seed(0)
    edges = Edges(*torch.randint(200, (2, 3000), generator=generator), 200, 200)

    def work(seed):
        x = torch.randn(4, 200, 16, generator=torch.Generator().manual_seed(seed)).requires_grad_()
        outs = [attend(x, x, x, neighborhood, backend="numba") for neighborhood in (edges, Causal())]
        return [*(out.detach() for out in outs), *torch.autograd.grad(sum(out.square().sum() for out in outs), x)]

    alone = [work(seed) for seed in range(24)]
    with ThreadPoolExecutor(6) as threads:
        together = list(threads.map(work, range(24)))
    for ours, theirs in zip(together, alone):
        assert all(torch.equal(x, y) for x, y in zip(ours, theirs))


# Processes.

ATTENDS = """
import torch
from edgewise import Causal, Edges, attend
from edgewise.neighborhood import jit

torch.set_num_threads({threads})
def work(seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(4, 100, 16, generator=generator).requires_grad_()
    edges = Edges(*torch.randint(100, (2, 1500), generator=generator), 100, 100)
    outs = [attend(x, x, x, neighborhood, backend="numba") for neighborhood in (edges, Causal())]
    return torch.cat([*outs, *torch.autograd.grad(sum(out.square().sum() for out in outs), x)])
"""


def test_a_forked_child_attends_as_its_parent_does(tmp_path):
    report = run_script(
        tmp_path,
        ATTENDS.format(threads=2)
        + """
import os, sys, threading, time, warnings
from edgewise.backends.numba import edge_kernels, threads as pool
warnings.simplefilter("ignore")  # newer Pythons warn of a fork beside threads
edge_kernels.CHUNK = 2**10
expected = work()
assert pool.start_team != 0 or len(pool._helpers.threads) == 1
busy = [True]
other = threading.Thread(target=lambda: [work() for _ in iter(lambda: busy[0], False)])
other.start()  # a thread that holds locks of the pool at any time
children = []
for _ in range(5):
    child = os.fork()
    if child == 0:
        assert pool.start_team == 0 and not pool._helpers.threads
        same = torch.equal(work(), expected)
        os._exit(0 if same and len(pool._helpers.threads) == 1 else 1)
    children.append(child)
deadline = time.monotonic() + 60
codes = {}
while len(codes) < len(children) and time.monotonic() < deadline:
    for child in children:
        ended, status = os.waitpid(child, os.WNOHANG) if child not in codes else (0, 0)
        if ended:
            codes[child] = os.waitstatus_to_exitcode(status)
    time.sleep(0.01)
busy[0] = False
other.join()
for child in set(children) - set(codes):
    os.kill(child, 9)
print([codes.get(child, "hangs") for child in children])
""",
    )
    assert report == "[0, 0, 0, 0, 0]\n"


def test_the_workers_of_a_loader_attend(tmp_path):
    report = run_script(
        tmp_path,
        ATTENDS.format(threads=2)
        + """
import warnings
from torch.utils.data import DataLoader, Dataset

class Attended(Dataset):
    def __len__(self):
        return 2

    def __getitem__(self, seed):
        return work(seed).detach()

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    expected = [work(seed) for seed in range(2)]
    for method in ("fork", "spawn", "forkserver"):
        loader = DataLoader(Attended(), batch_size=None, num_workers=1, multiprocessing_context=method, timeout=60)
        print(method, [torch.equal(x, y) for x, y in zip(loader, expected)])
""",
    )
    assert report.splitlines() == [f"{method} [True, True]" for method in ("fork", "spawn", "forkserver")]


def test_a_numba_that_cannot_be_imported_leaves_the_other_backends(tmp_path):
    (tmp_path / "broken" / "numba").mkdir(parents=True)
    (tmp_path / "broken" / "numba" / "__init__.py").write_text('raise ImportError("Numba needs NumPy 3.0 or less")')
    report = run_script(
        tmp_path,
        """
        import torch
        from edgewise import Edges, attend, why
        x = torch.randn(5, 8, requires_grad=True)
        edges = Edges([0, 1, 1], [1, 0, 1], 5, 5)
        attend(x, x, x, edges).sum().backward()
        print(why(x, x, x, edges))
        """,
        {"PYTHONPATH": str(tmp_path / "broken")},
    )
    assert report.startswith("gather runs.")
    assert "numba refuses: numba cannot be imported (Numba needs NumPy 3.0 or less); pip install numba." in report


@pytest.mark.nightly  # everything is compiled once more, for another processor
@pytest.mark.parametrize(
    "neighborhood", ["Edges(*torch.randint(30, (2, 200)), 30, 30)", "Causal()"], ids=["edges", "ranges"]
)
def test_the_processor_may_be_any(tmp_path, neighborhood):
    report = run_script(
        tmp_path,
        f"""
        import torch
        from edgewise import Causal, Edges, Sparsemax, attend

        torch.manual_seed(0)
        x = torch.randn(3, 30, 12, requires_grad=True)
        edges = {neighborhood}

        def work(backend):
            out = attend(x, x, x, edges, normalize=Sparsemax(), backend=backend)
            return out, torch.autograd.grad(out.square().sum(), x)[0]

        for ours, theirs in zip(work("numba"), work("reference")):
            torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)
        from numba import config
        print(config.CPU_NAME)
        """,
        {"NUMBA_CPU_NAME": "generic"},
    )
    assert report == "generic\n"


# Compiled code on disk.


def test_without_a_folder_that_can_be_written_to_kernels_are_compiled_all_the_same(tmp_path):
    (tmp_path / "file").write_text("")
    nowhere = str(tmp_path / "file" / "below")
    report = run_script(
        tmp_path,
        """
        from numba.core import caching

        def refuse(locator):
            raise PermissionError("read-only")

        caching.InTreeCacheLocator.ensure_cache_path = refuse  # the tests may run as a user that may write anywhere
        import torch
        from edgewise import Edges, aggregate
        from edgewise.backends.numba import sums
        aggregate(torch.randn(5, 8), Edges([0, 1, 1], [1, 0, 1], 5, 5), "mean", backend="numba")
        print(sums.sum_rows.compiled.stats.cache_path, len(sums.sum_rows.compiled.signatures))
        """,
        {"HOME": nowhere, "XDG_CACHE_HOME": nowhere, "NUMBA_CACHE_DIR": nowhere},
    )
    assert report == "None 1\n"


def double(first, step, x):
    """What is compiled here."""
    for place in range(first, x.size, step):
        x[place] = 2 * x[place]


def doubled(kernel, dtype):
    """What the kernel makes of four numbers."""
    x = np.arange(1, 5, dtype=dtype)
    kernel.run(x.size, x)
    return x.tolist()


def kept(folder):
    """The names of the files of code."""
    return sorted(path.name for path in folder.rglob("*.nbc"))


@pytest.fixture
def code_folder(tmp_path, monkeypatch):
    """An empty folder where kernels keep their code."""
    from numba import config

    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    return tmp_path


def test_code_is_compiled_once_for_each_kind_of_arguments(code_folder):
    kernel = compiled.kernel(double)
    assert doubled(kernel, np.float32) == doubled(kernel, np.int64) == [2, 4, 6, 8]
    names = kept(code_folder)
    assert len(names) == 2
    again = compiled.kernel(double)
    assert doubled(again, np.float32) == doubled(again, np.int64) == [2, 4, 6, 8]
    assert (again.compiled.stats.cache_hits.total(), again.compiled.stats.cache_misses.total()) == (2, 0)
    assert kept(code_folder) == names


def test_code_of_other_sources_is_neither_used_nor_kept(code_folder, monkeypatch):
    assert doubled(compiled.kernel(double), np.int64) == [2, 4, 6, 8]
    (old,) = kept(code_folder)
    monkeypatch.setattr(compiled, "SOURCES", "other")
    kernel = compiled.kernel(double)
    assert doubled(kernel, np.int64) == [2, 4, 6, 8]
    assert kernel.compiled.stats.cache_misses.total() == 1
    assert len(kept(code_folder)) == 1
    assert kept(code_folder) != [old]


def test_the_stamp_of_the_sources_is_that_of_all_they_say(tmp_path):
    (tmp_path / "one.py").write_text("1")
    (tmp_path / "two.py").write_text("2")
    stamp = compiled.stamp_of(tmp_path)
    (tmp_path / "code.nbc").write_bytes(b"\xff")
    assert compiled.stamp_of(tmp_path) == stamp
    (tmp_path / "two.py").write_text("3")
    assert compiled.stamp_of(tmp_path) != stamp


@pytest.mark.parametrize("damage", [b"", b"\x80\x04", b"nonsense"], ids=str)
def test_a_damaged_file_is_compiled_anew(code_folder, damage):
    assert doubled(compiled.kernel(double), np.int64) == [2, 4, 6, 8]
    (path,) = code_folder.rglob("*.nbc")
    whole = path.read_bytes()
    path.write_bytes(damage)
    assert doubled(compiled.kernel(double), np.int64) == [2, 4, 6, 8]
    assert len(path.read_bytes()) == pytest.approx(len(whole), abs=100)


def test_a_disk_that_is_full(code_folder, monkeypatch):
    def refuse(files, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(jit.CodeFiles, "_open_for_write", refuse)
    assert doubled(compiled.kernel(double), np.int64) == [2, 4, 6, 8]
    assert kept(code_folder) == []


def test_what_two_processes_compile_at_once_stays_apart(code_folder):
    one, other = compiled.kernel(double), compiled.kernel(double)
    loaded = other.compiled._cache._cache_file.load  # what it looked for before the other had saved anything
    assert doubled(one, np.float32) == [2, 4, 6, 8]
    other.compiled._cache._cache_file.load = lambda key: None
    assert doubled(other, np.int64) == [2, 4, 6, 8]
    other.compiled._cache._cache_file.load = loaded
    third = compiled.kernel(double)
    assert doubled(third, np.float32) == doubled(third, np.int64) == [2, 4, 6, 8]
    assert third.compiled.stats.cache_hits.total() == 2


# Compilers.


@pytest.fixture
def forget_compiled_code():
    """torch.compile starts anew, before the test and after it."""
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def layer_on(edgewise, form):
    from edgewise.layers import MultiHeadAttention

    class OnEdges(torch.nn.Module):
        """Tensors in, tensors out."""

        def __init__(self):
            super().__init__()
            self.layer = MultiHeadAttention(8, 2, score="gatv2" if form == "edges" else "additive")

        def forward(self, x, senders, receivers):
            ranges = edgewise.Causal()
            edges = edgewise.Edges(senders, receivers, x.shape[0], x.shape[0]) if form == "edges" else ranges
            return self.layer(x, neighborhood=edges)

    return OnEdges()


def arguments(num_nodes, num_edges):
    return torch.randn(num_nodes, 8), *torch.randint(num_nodes, (2, num_edges))


@pytest.mark.parametrize("form", ["edges", "ranges"])
def test_a_compiled_layer_runs_the_operator_forward_and_backward(plain_edgewise, forget_compiled_code, form):
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    traced = []

    def record(module, inputs):
        traced.append(module.code)
        return make_boxed_func(module.forward)

    layer = layer_on(plain_edgewise, form)
    compiled_layer = torch.compile(layer, fullgraph=True, dynamic=True, backend=aot_autograd(fw_compiler=record))
    for sizes in ((5, 12), (9, 30)):  # none of them the width of a layer, or torch takes them to be one
        tensors = arguments(*sizes)
        out, expected = compiled_layer(*tensors), layer(*tensors)
        torch.testing.assert_close(out, expected)
        ours = torch.autograd.grad(out.square().sum(), list(layer.parameters()))
        theirs = torch.autograd.grad(expected.square().sum(), list(layer.parameters()))
        torch.testing.assert_close(ours, theirs)
    forward, backward = traced
    assert f"edgewise.attend_{form}." in forward
    assert f"edgewise.attend_{form}_backward." in backward


@pytest.mark.parametrize("form", ["edges", "ranges"])
def test_an_exported_layer_runs_the_operator(plain_edgewise, form):
    layer = layer_on(plain_edgewise, form)
    node, edge = torch.export.Dim("node", min=2), torch.export.Dim("edge", min=2)
    sizes = {"x": {0: node}, "senders": {0: edge}, "receivers": {0: edge}}
    program = torch.export.export(layer, arguments(5, 12), dynamic_shapes=sizes)
    assert f"edgewise.attend_{form}." in program.graph_module.code
    for counts in ((9, 40), (3, 2)):
        tensors = arguments(*counts)
        torch.testing.assert_close(program.module()(*tensors), layer(*tensors))


def test_two_processes_that_compile_at_once_leave_each_kind_its_code(code_folder, monkeypatch):
    """Each has looked what is there before the other saved."""
    from numba.core.caching import IndexDataCacheFile

    monkeypatch.setattr(IndexDataCacheFile, "_load_index", lambda file: {})
    ours, theirs = jit.compiled(double), jit.compiled(double)
    ours(0, 1, np.zeros(1, np.float32))
    theirs(0, 1, np.zeros(1, np.int64))
    assert len(kept(code_folder)) == 2
    assert not list(code_folder.rglob("*.nbi"))


def test_code_that_cannot_be_saved_runs_all_the_same(code_folder, monkeypatch):
    def full(file, name, data):
        raise OSError("No space left on device")

    monkeypatch.setattr("numba.core.caching.IndexDataCacheFile._save_data", full)
    x = np.ones(2)
    jit.compiled(double)(0, 1, x)
    assert x.tolist() == [2, 2]
    assert not kept(code_folder)


def test_a_numba_that_keeps_code_in_another_way_does_so_by_itself(code_folder, monkeypatch):
    from numba.core import caching

    assert type(jit.compiled(double)._cache) is jit.CodeCache
    monkeypatch.delattr(caching.IndexDataCacheFile, "_load_data")
    assert type(jit.compiled(double)._cache) is caching.FunctionCache
