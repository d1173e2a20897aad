"""The public interface: names, signatures, docstrings. A change here is a change for users."""

import ast
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import edgewise
from edgewise import layers
from edgewise.layers import MultiHeadAttention
from edgewise.learn.tasks.registry import OWN, settings_of

ROOT = Path(__file__).parent.parent
NAMES = [
    "Additive",
    "Bilinear",
    "Causal",
    "Constant",
    "Cosine",
    "DataError",
    "Distance",
    "Dot",
    "Edges",
    "EdgewiseError",
    "Entmax15",
    "Full",
    "GAT",
    "GATv2",
    "Graph",
    "Hardmax",
    "Identity",
    "Lengths",
    "Mask",
    "Mean",
    "MeanConvolution",
    "MissingExtraError",
    "MultiHeadAttention",
    "Readout",
    "ResidualBlock",
    "RunFolderError",
    "ScaledDot",
    "Segments",
    "SettingError",
    "ShapeError",
    "Sigmoid",
    "Softmax",
    "Sparsemax",
    "SymmetricConvolution",
    "Trace",
    "UnsupportedError",
    "WriteError",
    "WeightedGraph",
    "Weights",
    "Window",
    "__version__",
    "aggregate",
    "attend",
    "attention_weights",
    "capture",
    "why",
]

ESTIMATORS = [
    "DynamicsModel",
    "EdgeClassifier",
    "EdgeRegressor",
    "Forecaster",
    "GraphClassifier",
    "GraphEdges",
    "GraphNodes",
    "GraphRegressor",
    "LanguageModel",
    "LinkPredictor",
    "MoleculeClassifier",
    "MoleculeRegressor",
    "NodeClassifier",
    "NodeKFold",
    "NodeRegressor",
    "Tagger",
    "TextClassifier",
    "TextRegressor",
    "Translator",
]

LAYERS = [
    "ALiBi",
    "Bodies",
    "Cache",
    "DirectedMessages",
    "EdgeAttention",
    "EdgeUpdate",
    "EquivariantLayer",
    "GatedGraphAttention",
    "GlobalUpdate",
    "GraphAttention",
    "GraphFeatures",
    "GraphGRU",
    "GraphNetwork",
    "GraphPosition",
    "HopAttention",
    "IsomorphismConvolution",
    "LearnedGlobals",
    "LearnedPosition",
    "MeanConvolution",
    "MoleculeAttention",
    "MultiHeadAttention",
    "NeighborConvolution",
    "NodeStatistics",
    "NodeUpdate",
    "PairForce",
    "PairPosition",
    "Readout",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "RelationalAttention",
    "RelationalConvolution",
    "ResidualBlock",
    "RotaryPosition",
    "ShawPosition",
    "SinusoidalPosition",
    "SymmetricConvolution",
    "T5Position",
    "TypedLinear",
]

# name (positional) or name= (positional with a default) or *name= (by keyword only)
ATTEND = (
    "query key value neighborhood= *score= *normalize= *bias= *edge_key= *edge_value= *edge_rows= *dropout= *backend="
)
SIGNATURES = {
    edgewise.attend: ATTEND,
    edgewise.attention_weights: (
        "query key neighborhood= *score= *normalize= *bias= *edge_key= *edge_rows= *top= *queries="
    ),
    edgewise.aggregate: "value neighborhood= how= *edge_value= *num_queries= *backend=",
    edgewise.why: ATTEND,
    MultiHeadAttention.forward: (
        "self query key= value= neighborhood= *edge_features= *edge_rows= *positions= *key_positions= *cache= *trace="
    ),
    edgewise.Edges: "senders receivers num_senders num_receivers",
    edgewise.Lengths: "key_lengths query_lengths=",
    edgewise.Segments: "query_offsets key_offsets=",
    edgewise.Mask: "mask",
    edgewise.Causal: "align=",
    edgewise.Window: "before after align=",
    edgewise.Softmax: "temperature=",
    edgewise.Distance: "kind= length=",
    edgewise.GATv2: "vector negative_slope=",
    edgewise.GAT: "query_vector key_vector negative_slope=",
    edgewise.Additive: "vector activation=",
    edgewise.Constant: "edge_weight=",
}


def written(function):
    words = []
    for name, parameter in inspect.signature(function).parameters.items():
        star = "*" if parameter.kind is inspect.Parameter.KEYWORD_ONLY else ""
        words.append(star + name + ("=" if parameter.default is not inspect.Parameter.empty else ""))
    return " ".join(words)


def test_the_names():
    declared = {each for name in OWN for each in settings_of(name).estimators}  # a new task adds its own
    assert sorted(edgewise.__all__) == sorted([*NAMES, *{*ESTIMATORS, *declared}])
    assert sorted(dir(edgewise)) == sorted(edgewise.__all__)
    assert all(getattr(edgewise, name) is not None for name in NAMES)
    assert sorted(layers.__all__) == LAYERS


@pytest.mark.parametrize("function", SIGNATURES, ids=lambda f: f.__qualname__)
def test_the_signatures(function):
    assert written(function) == SIGNATURES[function]


def test_the_defaults():
    defaults = {n: p.default for n, p in inspect.signature(edgewise.attend).parameters.items()}
    assert isinstance(defaults["neighborhood"], edgewise.Full)
    assert isinstance(defaults["score"], edgewise.ScaledDot)
    assert defaults["score"].scale is None
    assert isinstance(defaults["normalize"], edgewise.Softmax)
    assert defaults["normalize"].temperature == 1.0
    assert (defaults["dropout"], defaults["backend"]) == (0.0, "auto")


@pytest.mark.parametrize("name", [name for name in NAMES if name != "__version__"])
def test_everything_public_is_documented(name):
    value = getattr(edgewise, name)
    assert len(inspect.getdoc(value)) > 20
    if inspect.isclass(value):
        for part, member in vars(value).items():
            if part.startswith("_") or not (inspect.isfunction(member) or isinstance(member, property | classmethod)):
                continue
            assert inspect.getdoc(getattr(value, part)), f"{name}.{part} has no docstring"


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'edgewise' has no attribute 'attention'"):
        _ = edgewise.attention


ORDERS = [
    "from edgewise import attend",
    "import edgewise.attend; from edgewise import attend",
    "import edgewise.layers; from edgewise import attend",
    "from edgewise import Edges; from edgewise import attend",
    "from edgewise.attend import attend; import edgewise; assert edgewise.attend is attend",
    "import edgewise; attend = edgewise.attend; import edgewise.attend; assert edgewise.attend is attend",
    "from edgewise import *",
]
MINIMAL = """
import sys
sys.modules["rdkit"] = None  # as if it were not installed
from edgewise import *
import edgewise
assert callable(attend) and "MoleculeRegressor" not in edgewise.__all__ and "MoleculeRegressor" in dir(edgewise)
try:
    edgewise.MoleculeRegressor().fit(["C"], [1.0])
except MissingExtraError as error:
    print(error)
"""
AFRESH = """
import sys, types
for lines in sys.argv[1:]:
    for name in [name for name in sys.modules if name.split(".")[0] == "edgewise"]:
        del sys.modules[name]
    names = {}
    exec(lines, names)
    assert isinstance(names["attend"], types.FunctionType), lines
"""


def test_attend_is_the_function_in_whatever_order_modules_are_imported():
    command = [sys.executable, "-W", "error", "-c", AFRESH, *ORDERS]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_the_extras_a_star_brings_the_operator():
    done = subprocess.run([sys.executable, "-c", MINIMAL], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("rdkit is not installed: pip install")


def test_every_public_name_is_exported_as_strict_type_checkers_want_it():
    """PEP 484: `from m import X as X` exports X; without `as` a strict checker says that it is not exported."""
    exported = set()
    for path in ("src/edgewise/__init__.py", "src/edgewise/learn/estimators/__init__.py"):
        (block,) = (node for node in ast.parse((ROOT / path).read_text()).body if isinstance(node, ast.If))
        for statement in block.body:
            assert isinstance(statement, ast.ImportFrom)
            exported |= {alias.asname for alias in statement.names if alias.name == alias.asname}
    assert set(edgewise.__all__) - {"__version__"} <= exported


@pytest.mark.nightly
def test_a_strict_type_checker_accepts_the_code_of_the_readme(tmp_path):
    code = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert code
    (tmp_path / "readme.py").write_text("\n".join(code))
    environment = os.environ | {"MYPYPATH": str(ROOT / "src"), "MYPY_CACHE_DIR": str(tmp_path / "cache")}
    words = [sys.executable, "-m", "mypy", "--strict", "--ignore-missing-imports", "--follow-imports=silent"]
    run = subprocess.run(
        [*words, "--disable-error-code=name-defined", "readme.py"], cwd=tmp_path, env=environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout
