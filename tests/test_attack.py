"""The attack on files in a bounded form; `make attack` runs it for minutes."""

import random

import pytest

from attack import files

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
