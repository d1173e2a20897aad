"""What all tests share: shapes checked as annotated, few threads, the folder of real data."""

import gc
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import hypothesis
import jaxtyping
import pytest
import torch

import checker
from compile_cache import use_cache
from cpu_time import CpuTimes
from trained_runs import TrainedRuns, shared_folder

if not torch.cuda.is_available():
    # Kernels for CUDA run in triton's interpreter then, which must be asked for before anyone imports triton.
    os.environ["TRITON_INTERPRET"] = "1"
# Features of molecules are computed in tests, not read from the cache of whoever runs them.
os.environ["EDGEWISE_CACHE"] = ""

# Named one by one: the checker breaks the bytecode of compiled kernels, whose modules must never stand here.
CHECKED = [
    "edgewise.attend",
    "edgewise.backends.call",
    "edgewise.backends.dots",
    "edgewise.backends.gather",
    "edgewise.backends.members",
    "edgewise.backends.reference",
    "edgewise.backends.rows",
    "edgewise.backends.sdpa",
    "edgewise.backends.varlen",
    "edgewise.backends.weigh",
    "edgewise.explain",
    "edgewise.graph",
    "edgewise.layers",
    "edgewise.learn.batches",
    "edgewise.learn.networks",
    "edgewise.learn.readers",
    "edgewise.learn.tables",
    "edgewise.neighborhood.checks",
    "edgewise.neighborhood.drawing",
    "edgewise.neighborhood.extended",
    "edgewise.neighborhood.given",
    "edgewise.neighborhood.index",
    "edgewise.neighborhood.mask",
    "edgewise.neighborhood.pairs",
    "edgewise.neighborhood.plan",
    "edgewise.neighborhood.ranges",
    "edgewise.neighborhood.rows",
    "edgewise.neighborhood.types",
    "edgewise.normalize",
    "edgewise.score",
    "edgewise.testing",
]
_PLAIN: dict[str, ModuleType] = {}
jaxtyping.jaxtyped = checker.decorator  # what the hook writes above every function, looked up when a module is loaded
use_cache()
_HOOK = [jaxtyping.install_import_hook(CHECKED, "checker.check")]

torch.set_num_threads(1)
hypothesis.settings.register_profile("edgewise", deadline=None, max_examples=30, database=None, derandomize=True)
hypothesis.settings.load_profile("edgewise")
gc.set_threshold(20_000, 20, 20)  # compiling kernels makes many objects, and no rubbish


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--cpu-times", metavar="FILE", type=Path, help="write the processor seconds of each file of tests")


def pytest_configure(config: pytest.Config) -> None:
    if path := config.getoption("--cpu-times"):
        config.pluginmanager.register(CpuTimes(config, path))


def pytest_collection_finish() -> None:
    """Modules imported by now stay alive: the garbage collector need not scan them again and again."""
    gc.collect()
    gc.freeze()


BY_NIGHT = ("cli", "frozen", "serve", "view")
"""Folders of tests where shapes are checked by night only: by day the same functions are checked in all others."""


@pytest.fixture(autouse=True)
def shapes_by_day(request: pytest.FixtureRequest) -> Iterator[None]:
    """The checker looks away in the tests of command lines, servers and pages, but for those of all tests."""
    checker.begin_test()
    is_off = request.path.parent.name in BY_NIGHT and "not nightly" in request.config.option.markexpr
    if is_off:
        jaxtyping.config.update("jaxtyping_disable", True)
    yield
    if is_off:
        jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session", autouse=True)
def short_waits() -> Iterator[None]:
    """Files are not forced to the disk, and forests have few trees and no process of their own.

    Tests end processes, never the machine: without `fsync` they see the same files, and a run writes several an epoch.
    A forest of hundreds of trees, or a process for it, takes longer than a small model takes to train.
    """
    from edgewise.learn.training import baseline  # below the hook that checks shapes

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        # Who has imported it by now has it under a name of its own.
        users = baseline, sys.modules.get("edgewise.learn.tasks.molecules.companions", baseline)
        for module in users:
            patch.setattr(module, "num_trees", lambda *sizes: 20)
        patch.setattr(baseline.BackgroundForest, "fit", baseline.fit_forest)
        yield


@pytest.fixture(scope="session", autouse=True)
def rough_paths() -> Iterator[int]:
    """Integrated gradients look at few points of each path; how many they look at otherwise.

    A network that has hardly been trained is rough along all of them, and most explanations are not about it.
    """
    from edgewise.explain import gradients  # below the hook that checks shapes

    refinement = gradients.MAX_REFINEMENT
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gradients, "MAX_REFINEMENT", 1)
        yield refinement


@pytest.fixture
def refined_paths(rough_paths: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They look at as many as ever."""
    monkeypatch.setattr("edgewise.explain.gradients.MAX_REFINEMENT", rough_paths)


@pytest.fixture(scope="session")
def trained_run(tmp_path_factory: pytest.TempPathFactory) -> TrainedRuns:
    """Run folders by their kind, see `trained_runs.KINDS`: trained once, for all tests that only read them."""
    return TrainedRuns(shared_folder(tmp_path_factory))


@pytest.fixture
def shapes_unchecked() -> Iterator[None]:
    """The checker looks away: for tests of our own error messages, and of arguments wider than the annotation."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="module")
def plain_edgewise() -> Iterator[ModuleType]:
    """The library loaded once more without the checker, which torch.compile and torch.export cannot trace.

    One copy for all files of tests: what was compiled of a file holds the modules that it was compiled with.
    """
    _forget_modules()
    checked = {name: sys.modules[name] for name in _loaded_twice()}
    for name in checked:
        del sys.modules[name]
    sys.modules.update(_PLAIN)
    _HOOK.pop().uninstall()
    import edgewise

    yield edgewise
    for name in _loaded_twice():
        _PLAIN[name] = sys.modules.pop(name)
    sys.modules.update(checked)
    _HOOK.append(jaxtyping.install_import_hook(CHECKED, "checker.check"))
    _forget_modules()


def _forget_modules() -> None:
    """Torch's compiler remembers modules by their names, also those of masks that it makes FlexAttention with: the
    graph of one copy would be guarded by modules of the other."""
    if compiler := sys.modules.get("torch._dynamo.symbolic_convert"):
        compiler._import_module.cache_clear()


def _loaded_twice() -> list[str]:
    """The modules of the library, but the kernels: code for the types of one copy fits no other."""
    kernels = ("edgewise.neighborhood.operator", "edgewise.backends.autograd", "edgewise.backends.numba.")
    loaded = [name for name in sys.modules if name.split(".")[0] == "edgewise"]
    return [name for name in loaded if not name.startswith(kernels) or name.endswith(".layout")]


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of real data sets, named by the environment variable EDGEWISE_DATA."""
    folder = os.environ.get("EDGEWISE_DATA")
    if not folder:
        pytest.skip("the environment variable EDGEWISE_DATA does not name the folder of data sets")
    path = Path(folder)
    if not path.is_dir():
        pytest.skip(f"EDGEWISE_DATA names {folder}, which is no folder")
    return path
