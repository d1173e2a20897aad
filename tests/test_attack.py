"""The attack on files in a bounded form; `make attack` runs it for minutes."""

import random

import pytest

from attack import files
from edgewise.errors import RunFolderError
from edgewise.tasks.explainer import num_training_rows
from edgewise.tasks.report.sections import write_report
from edgewise.train.folder import RunFolder

pytestmark = pytest.mark.usefixtures("shapes_unchecked")


def test_no_damaged_file_raises_anything_but_our_own_errors(tmp_path):
    targets = [*files.array_targets(tmp_path), *files.model_targets(tmp_path), *files.folder_targets(tmp_path)]
    for target in targets:
        target.read(target.content)  # as it is, each can be read
    found = files.attack(targets, 2.5, random.Random(0), most=1500)
    assert found["foreign"] == 0, found["examples"]
    assert found["ours"] > 0.5 * found["inputs"]


def test_no_damaged_checkpoint_raises_anything_but_our_own_errors(tmp_path):
    targets = files.checkpoint_targets(tmp_path)
    for target in targets:
        target.read(target.content)
    found = files.attack(targets, 2.5, random.Random(0), most=60)
    assert found["foreign"] == 0, found["examples"]
    assert found["ours"] > 0


def test_a_page_about_damaged_results_is_an_error_of_ours(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.begin()
    run.write_config({"data": ["a.csv"]})
    for name, content in {"model.json": {"format": "edgewise text model"}, "metrics.json": 3}.items():
        run.write_json(name, content)
    with pytest.raises(RunFolderError, match="run holds a damaged file of results"):
        write_report(run)


@pytest.mark.parametrize("damage", [3, {"train": 3}, {"train": ["a"]}])
def test_damaged_splits_are_an_error_of_ours(tmp_path, damage):
    run = RunFolder(tmp_path / "run")
    run.write_json("splits.json", damage)
    with pytest.raises(RunFolderError, match=r"splits\.json is damaged: .* expected"):
        num_training_rows(run)
