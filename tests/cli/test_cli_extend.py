"""What docs/extend.md adds stands in another package, without a line in this one."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

from edgewise import EdgewiseError, Full, attend, choices
from edgewise.errors import SettingError
from edgewise.layers import MultiHeadAttention
from edgewise.learn.companions import COMPANIONS
from edgewise.learn.networks.graph_layers import LAYERS
from edgewise.learn.tasks import registry
from edgewise.learn.training.settings import NUMBER_OUTPUTS

PAGE = Path(__file__).parents[2] / "docs/extend.md"
EXAMPLES = ("gated", "manhattan", "poisson", "nearest", "line")
COMMANDS = """
import json, sys
from edgewise.cli.main import main
for words in json.loads(sys.argv[1]):
    assert main(words) == 0, words
"""
"""Runs several commands in one process."""


def forget():
    """What is known of installed packages."""
    choices.entry_points_of.cache_clear()
    choices._declared.cache_clear()
    for known in (registry.TASKS, choices.SCORES):
        for name in EXAMPLES:
            known.loaded.pop(name, None)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package with all that the page adds; the folder it is in."""
    for name in registry.OWN:  # choices stay as they are at the first import: without those of the package
        registry.settings_of(name)
    blocks = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    entries = re.search(r"^```toml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1].replace('"', "")
    files = {
        **{f"my_package/{name}.py": block for name, block in zip(EXAMPLES, blocks, strict=True)},
        "my_package-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: my_package\nVersion: 1\n",
        "my_package-1.dist-info/entry_points.txt": entries.replace("project.entry-points.", ""),
        "points.csv": "x,y\n" + "".join(f"{x / 20},{1 - x / 10}\n" for x in range(40)),
        "new.csv": "z\n0.5\n",
        "nodes.csv": "id,a,label,count\n" + "".join(f"{n},{n % 7},{'ab'[n % 2]},{n % 5}\n" for n in range(40)),
        "edges.csv": "from,to\n" + "".join(f"{node},{(node + 2) % 40}\n" for node in range(40)),
    }
    for name, content in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(content)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    forget()
    yield tmp_path
    forget()
    for name in [name for name in sys.modules if name.startswith("my_package")]:
        del sys.modules[name]


def run(code, *words):
    """What a new process prints, which finds the package."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([os.getcwd(), *sys.path])}
    done = subprocess.run([sys.executable, "-c", code, *words], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


NODES = "nodes.csv --edges edges.csv --node-column id --epochs 2 --model-dim 8 --no-baselines"
MOLECULES = "molecules.csv --smiles-columns smiles --target-columns y --epochs 2 --model-dim 8 --no-baselines"
RUNS = {
    "layer": f"nodes {NODES} --target-columns label --ignore-columns count --model gated",
    "score": f"nodes {NODES} --target-columns label --ignore-columns count --model attention --score manhattan",
    "output": f"nodes {NODES} --target-columns count --ignore-columns label --model sage --loss-function poisson",
    "companion": f"molecules {MOLECULES} --head-dim 8 --companions nearest",
}
EXPLAINED = {"layer": "3", "score": "3", "output": "3", "companion": "CCO"}


FIT = """
import numpy as np, pandas as pd
from edgewise import MoleculeRegressor
table = pd.read_csv("molecules.csv")
model = MoleculeRegressor(model="gated", companions=["nearest"], epochs=2, model_dim=8, head_dim=8)
np.save("before.npy", model.fit(list(table.smiles), table.y.to_numpy()).predict(list(table.smiles)))
model.save("saved")
"""
LOAD = """
import numpy as np, pandas as pd
from edgewise import MoleculeRegressor
np.save("after.npy", MoleculeRegressor.load("saved").predict(list(pd.read_csv("molecules.csv").smiles)))
"""


@pytest.mark.slow
def test_what_a_package_adds_is_trained_saved_loaded_in_a_new_process_predicted_and_explained(package):
    pytest.importorskip("rdkit")
    from edgewise.learn.readers.molecules.simulate import demo_table

    demo_table(40).rename(columns={"crippen_logp": "y"}).to_csv("molecules.csv", index=False)
    run(COMMANDS + FIT, json.dumps([["train", *words.split(), "-o", name] for name, words in RUNS.items()]))
    commands = []
    for name, words in RUNS.items():
        data = words.split()[1]
        edges = ["--edges", "edges.csv"] if data == "nodes.csv" else []
        commands.append(["predict", name, data, *edges, "-o", f"{name}.csv"])
        commands.append(["explain", name, EXPLAINED[name], "-o", f"{name}.html"])
    run(COMMANDS + LOAD, json.dumps(commands))

    np.testing.assert_array_equal(np.load("after.npy"), np.load("before.npy"))
    assert set(pd.read_csv("layer.csv")["status"]) == {"ok"}
    assert "manhattan" in Path("score/model.json").read_text()
    assert (pd.read_csv("output.csv")["count_pred"] > 0).all()
    assert json.loads(Path("output/metrics.json").read_text())["test"]["count"]["poisson_deviance"] > 0
    shares = json.loads(Path("companion/metrics.json").read_text())["shares"]
    assert shares.keys() == {"network", "nearest"}
    assert "comes from the mean of training molecules with similar descriptors." in Path("companion.html").read_text()


def test_a_score_of_ones_own_is_one_of_the_operator_and_of_layers_by_itself_and_by_name(package):
    from my_package.manhattan import Manhattan

    query, key, value = (torch.randn(5, 4) for _ in range(3))
    expected = (-(query[:, None] - key[None]).abs().sum(-1)).softmax(-1) @ value
    torch.testing.assert_close(attend(query, key, value, Full(), score=Manhattan((), 4)), expected)
    named = MultiHeadAttention(8, 2, score="manhattan")
    given = MultiHeadAttention(8, 2, score=Manhattan((2,), 4))
    given.load_state_dict(named.state_dict())
    nodes = torch.randn(6, 8)
    torch.testing.assert_close(named(nodes), given(nodes))
    named(nodes).sum().backward()
    assert named.score.part.log_weight.grad.abs().sum() > 0
    with pytest.raises(EdgewiseError, match=r"unknown score 'euclid'; expected one of scaled_dot, .*, manhattan"):
        MultiHeadAttention(8, 2, score="euclid")


def test_help_of_what_a_package_adds_stays_free_of_torch(package):
    code = (
        "import sys; from edgewise.cli.main import main; main(['train', '--help']); assert 'torch' not in sys.modules"
    )
    assert "line         a number from another one" in run(code)


def test_a_task_of_another_package_is_listed_trains_predicts_and_opens(package, edgewise):
    _, out, _ = edgewise("train", "--help")
    assert "  line         a number from another one, by a straight line" in out
    code, out, err = edgewise("train", "points.csv", "--input-column", "x", "-o", "run")
    assert code == 0, err
    assert out.startswith("task: line, because --input-column is given\npoints.csv: 0 rejected\n32 training, 4 val")
    assert "edgewise predict run points.csv -o predictions.csv" in out
    code, _, err = edgewise("predict", "run", "new.csv", "--input-column", "z", "-o", "found.csv")
    assert code == 0, err
    assert float((package / "found.csv").read_text().split()[1]) == pytest.approx(0, abs=0.05)
    assert edgewise("report", "run")[0] == 0
    assert "is finished" in edgewise("train", "line", "points.csv", "--resume", "-o", "run")[1]
    assert 'input-column = "x"' in edgewise("defaults", "line")[1]
    assert (
        "--graph-column does nothing for points"
        in edgewise("predict", "run", "new.csv", "--graph-column", "z", "-o", "o.csv")[2]
    )
    assert "holds an line model, which cannot be explained" in edgewise("explain", "run", "1")[2]
    assert "--input-column applies to line only" in edgewise("train", "nodes", "a.csv", "--input-column", "x")[2]


def declared_by(package, line):
    """Has the package declare another entry point of tasks."""
    (package / "my_package-1.dist-info/entry_points.txt").write_text(f"[edgewise.tasks]\n{line}\n")
    forget()


def test_two_tasks_of_one_name_are_an_error(package):
    declared_by(package, "edges = my_package.edges:SETTINGS")
    with pytest.raises(SettingError, match=r"two tasks are called edges, those of edgewise itself and my_p"):
        registry.names()


@pytest.mark.parametrize("known", [LAYERS, choices.SCORES, NUMBER_OUTPUTS, COMPANIONS], ids=lambda known: known.noun)
def test_two_of_one_name_are_an_error(known, package):
    name = next(iter(known.built_in))
    entry_points = f"[{known.group}]\n{name} = my_package.other:THING\n"
    (package / "my_package-1.dist-info/entry_points.txt").write_text(entry_points)
    forget()
    with pytest.raises(SettingError, match=f"two {known.noun}s are called {name}, .* and my_package.other:THING;"):
        known[name + "s"]


def test_a_task_is_called_like_its_entry_point(package):
    declared_by(package, "curve = my_package.line:SETTINGS")
    with pytest.raises(SettingError, match=r"curve = my_package\.line:SETTINGS is called 'line'; expect"):
        registry.settings_of("curve")


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("my_package.gone:SETTINGS", "(ModuleNotFoundError: No module named 'my_package.gone'); correct or remove its"),
        (
            "my_package.line:TASK",
            "(AttributeError: module 'my_package.line' has no attribute 'TASK'",
        ),
        ("my_package.line:LineRunSettings", "is a type, expected a TaskSettings; name the task."),
        (
            "my_package.short:SETTINGS",
            "missing 1 required keyword-only argument: 'example'); correct or remo",
        ),
    ],
)
def test_an_entry_point_that_leads_nowhere_is_named(package, reference, reason, edgewise):
    settings = (package / "my_package/line.py").read_text()
    (package / "my_package/short.py").write_text(re.sub(r"    example=.*\n", "", settings))
    declared_by(package, f"line = {reference}")
    code, _, err = edgewise("train", "--help")
    assert code == 2
    assert f"edgewise.tasks: the entry point line = {reference} " in err
    assert reason in err
