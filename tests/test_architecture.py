"""Arrows point down: who may import whom, read from the source; and what `import edgewise` costs."""

import ast
import functools
import subprocess
import sys
from pathlib import Path

import pytest

from edgewise.graph.forms import LIBRARIES, converter

SOURCE = Path(__file__).parents[1] / "src" / "edgewise"

LEVELS = [
    {"__main__"},
    {"cli"},
    {"serve"},
    {"learn.estimators", "testing"},
    {"learn.tasks"},
    {"learn.fitted_table"},
    {"learn.fitted"},
    {"learn.intervals", "learn.outputs"},
    {"learn.training", "learn.pretrained"},
    {"learn.readers", "learn.networks", "learn.companions"},
    {"learn.tables"},
    {"learn.batches", "learn.engine"},
    {"learn.files", "learn.memory", "learn.process", "learn.progress", "learn.settings"},
    # Here the lower story ends.
    {"view", "interop"},
    {"explain"},
    {"layers"},
    {"attend"},
    {"backends"},
    {"sampling"},
    {"score", "normalize"},
    {"graph"},
    {"neighborhood"},
    {"choices"},
    {"errors"},
]
"""From top to bottom; a room may import rooms below its own."""

NEVER = {
    "learn.readers": {"attend", "backends", "layers", "score", "normalize"},
    "learn.tables": {"attend", "backends", "layers", "score", "normalize", "graph"},
    "view": {"layers", "attend", "backends"},
    "learn.training": {"learn.readers", "learn.tables", "learn.networks"},
}
"""Rooms that a room may not import even where they lie below it, or beside it."""

HEAVY = [
    "rdkit",
    "lightning",
    "numba",
    "pandas",
    "sklearn",
    "scipy",
    "torchmetrics",
    "matplotlib",
    "anywidget",
    "IPython",
    "triton",
    "tokenizers",
    "torch_geometric",
    "fastapi",
    "pydantic",
    "uvicorn",
    "ray",
]


def files():
    return sorted(SOURCE.rglob("*.py"))


def room_of_module(module):
    """The first name behind `edgewise`; inside the upper story the first two."""
    names = module.split(".")[1:]
    return ".".join(names[: 2 if names[:1] == ["learn"] else 1])


def room_of(path):
    return room_of_module(module_of(path))


def module_of(path):
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@functools.cache
def imports(path):
    """Every module a file imports, also inside functions, as (module, name) with name None for `import module`."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {(alias.name, None) for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            found |= {(node.module, alias.name) for alias in node.names}
    return found


def arrows():
    """(from module, to module) for every import of one file of the library by another."""
    known = {module_of(path) for path in files()}
    found = set()
    for path in files():
        if path == SOURCE / "__init__.py":
            continue
        for module, name in imports(path):
            if module.split(".")[0] != "edgewise":
                continue
            full = f"{module}.{name}"
            found.add((module_of(path), full if full in known else module))
    return found


def level(room):
    return next(n for n, rooms in enumerate(LEVELS) if room in rooms)


def test_every_room_has_its_place():
    rooms = {room_of(path) for path in files()} - {"", "learn"}
    assert rooms <= set().union(*LEVELS)


def test_arrows_point_down():
    wrong = []
    for importer, imported in sorted(arrows()):
        above, below = room_of_module(importer), room_of_module(imported)
        if not below:
            wrong.append(f"{importer} imports names from edgewise itself; name the module they live in")
        elif above != below and (level(above) >= level(below) or below in NEVER.get(above, ())):
            wrong.append(f"{importer} imports {imported}")
    assert wrong == []


def test_the_one_arrow_up_is_a_name_in_a_table():
    """`Graph.of` and `Graph.to_…` reach the converters above them by name, when they are called."""
    by_name = {module_of(path) for path in files() if "import_module(" in path.read_text()}
    lists_of_names = {"edgewise", "edgewise.backends.kernels", "edgewise.cli.main"}
    lists_of_names |= {"edgewise.learn.estimators", "edgewise.choices"}
    assert by_name <= lists_of_names
    loading = {module_of(path) for path in files() if ("edgewise.choices", "load") in imports(path)}
    assert loading == {"edgewise.graph.forms", "edgewise.learn.tasks.registry"}
    for library in LIBRARIES:
        assert callable(converter("from", library)) and callable(converter("to", library))


def test_no_two_files_need_each_other():
    below = {}
    for importer, imported in arrows():
        below.setdefault(importer, set()).add(imported)

    cleared = set()

    def reach(module, path):
        assert module not in path, f"a circle: {' > '.join([*path, module])}"
        if module in cleared:  # no circle goes through it, whichever way it was come to
            return
        for other in sorted(below.get(module, ())):
            if not module.startswith(f"{other}."):  # a package's own files are listed in its __init__
                reach(other, [*path, module])
        cleared.add(module)

    for module in sorted(below):
        reach(module, [])


def test_backends_do_not_import_each_other():
    names = {"reference", "gather", "sdpa", "varlen", "flex", "numba", "triton"}
    pairs = {(a.split(".")[-1], b.split(".")[-1]) for a, b in arrows() if a.startswith("edgewise.backends.")}
    assert {(a, b) for a, b in pairs if a in names and b in names} == set()


def test_names_of_files_say_what_is_in_them():
    banned = {"utils", "util", "common", "base", "helpers", "helper", "misc", "core"}
    assert [str(path) for path in files() if banned & set(path.relative_to(SOURCE).with_suffix("").parts)] == []


@pytest.mark.parametrize("path", files(), ids=lambda path: str(path.relative_to(SOURCE)))
def test_rooms_are_small_and_say_what_they_are(path):
    text = path.read_text()
    assert len(text.splitlines()) <= 450 or ": written by docs/" in text.splitlines()[0]
    tree = ast.parse(text)
    assert text == "" or ast.get_docstring(tree)
    assert "from __future__" not in text
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler):
            caught = ast.unparse(node.type) if node.type else "everything"
            assert caught not in ("everything", "Exception", "BaseException"), f"line {node.lineno} catches {caught}"


def test_a_folder_has_two_files_or_folders():
    folders = {path.parent for path in files()}
    for folder in folders - {SOURCE}:
        modules = [path for path in folder.glob("*.py") if path.name != "__init__.py"]
        packages = [other for other in folders if other.parent == folder]
        assert len(modules) + len(packages) >= 2, folder


def test_importing_the_operator_and_its_layers_loads_nothing_heavy():
    code = (
        "import torch, sys; before = set(sys.modules); import edgewise, edgewise.layers, edgewise.learn.estimators;"
        "[getattr(edgewise, name) for name in set(edgewise.__all__) - set(edgewise.learn.estimators.__all__)]"
    )
    report = "print(*sorted({name.split('.')[0] for name in set(sys.modules) - before}))"
    command = [sys.executable, "-W", "error", "-c", f"{code}; {report}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stdout.split())
    assert "edgewise" in loaded
    assert loaded & set(HEAVY) == set()


def test_importing_the_package_alone_does_not_even_load_torch():
    code = "import sys, edgewise; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) & {"torch", "numpy", *HEAVY} == set()


def test_lightning_is_for_training_only():
    users = {room_of(path) for path in files() for module, _ in imports(path) if module.split(".")[0] == "lightning"}
    assert users <= {"learn.training"}
