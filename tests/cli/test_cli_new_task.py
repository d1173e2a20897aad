"""A task is found by what it declares: that of docs/tasks.md, in another package, without a line in this one."""

import re
import sys
from pathlib import Path

import pytest

from edgewise import choices
from edgewise.errors import SettingError
from edgewise.learn.tasks import registry

PAGE = Path(__file__).parents[2] / "docs/tasks.md"


def forget():
    """What is known of installed packages."""
    choices.entry_points_of.cache_clear()
    choices._declared.cache_clear()
    registry.TASKS.loaded.pop("line", None)


@pytest.fixture
def package(tmp_path, monkeypatch):
    """An installed package with the task of the page; the folder it is in."""
    settings, task = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    entry = re.search(r"^```toml\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)[1]
    files = {
        "my_package/line/settings.py": settings,
        "my_package/line/task.py": task,
        "my_package-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: my_package\nVersion: 1\n",
        "my_package-1.dist-info/entry_points.txt": re.sub(r'.*"(.*)"\]', r"[\1]", entry).replace('"', ""),
        "points.csv": "x,y\n" + "".join(f"{x / 20},{1 - x / 10}\n" for x in range(40)),
        "new.csv": "z\n0.5\n",
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


def test_a_task_is_called_like_its_entry_point(package):
    declared_by(package, "curve = my_package.line.settings:SETTINGS")
    with pytest.raises(SettingError, match=r"curve = my_package\.line\.settings:SETTINGS is called 'line'; expect"):
        registry.settings_of("curve")


@pytest.mark.parametrize(
    ("reference", "reason"),
    [
        ("my_package.gone:SETTINGS", "(ModuleNotFoundError: No module named 'my_package.gone'); correct or remove its"),
        (
            "my_package.line.settings:TASK",
            "(AttributeError: module 'my_package.line.settings' has no attribute 'TASK'",
        ),
        ("my_package.line.settings:LineRunSettings", "is a type, expected a TaskSettings; name the task."),
        (
            "my_package.short:SETTINGS",
            "missing 1 required keyword-only argument: 'example'); correct or remo",
        ),
    ],
)
def test_an_entry_point_that_leads_nowhere_is_named(package, reference, reason, edgewise):
    settings = (package / "my_package/line/settings.py").read_text()
    (package / "my_package/short.py").write_text(re.sub(r"    example=.*\n", "", settings))
    declared_by(package, f"line = {reference}")
    code, _, err = edgewise("train", "--help")
    assert code == 2
    assert f"edgewise.tasks: the entry point line = {reference} " in err
    assert reason in err
