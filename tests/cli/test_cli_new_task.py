"""A task is found by what it declares: that of docs/tasks.md, in another package, without a line in this one."""

import re
import sys
from pathlib import Path

import pytest

from edgewise.errors import SettingError
from edgewise.learn.tasks import registry

PAGE = Path(__file__).parents[2] / "docs/tasks.md"


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
    registry.homes.cache_clear()
    yield tmp_path
    registry.homes.cache_clear()
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


def test_two_tasks_of_one_name_are_an_error(package):
    (package / "my_package-1.dist-info/entry_points.txt").write_text("[edgewise.tasks]\nedges = my_package.edges\n")
    with pytest.raises(SettingError, match=r"called edges, those of edgewise\.learn\.tasks\.edges and my_pack"):
        registry.names()


def test_a_task_is_called_like_its_folder(package):
    settings = package / "my_package/line/settings.py"
    settings.write_text(settings.read_text().replace('name="line"', 'name="curve"'))
    with pytest.raises(
        SettingError, match=r"my_package\.line\.settings: the name of the task is 'curve'; expected 'line'"
    ):
        registry.settings_of("line")
