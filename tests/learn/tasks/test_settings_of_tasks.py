"""Settings of all tasks: what None stands for."""

import pytest

from edgewise import SettingError
from edgewise.learn.tasks.config import default_of, fields, owners_of, with_numbers_of_task
from edgewise.learn.tasks.registry import names, settings_of
from edgewise.learn.training.folder import FILE_SETTINGS


@pytest.mark.parametrize("name", names())
def test_none_is_the_number_of_the_task_or_one_that_the_task_chooses(name):
    run_type = settings_of(name).run_type
    train = default_of(next(field for field in fields(run_type) if field.name == "train"))
    kept = with_numbers_of_task(run_type, {"epochs": None, "batch_size": None, "patience": None, "data": ("x",)})
    chosen_by_task = [name for name in ("epochs", "batch_size") if getattr(train, name) is None]
    assert list(kept) == [*chosen_by_task, "patience", "data"]
    # A language model counts steps, and a step over one graph sees all of it.
    by_task = {
        "molecules": ["epochs", "batch_size"], "graphs": ["epochs", "batch_size"],
        "texts": ["epochs"], "tagging": ["epochs"], "language": ["epochs"],
        "nodes": ["batch_size"], "edges": ["batch_size"], "links": ["batch_size"],
    }  # fmt: skip
    assert chosen_by_task == by_task.get(name, [])


@pytest.mark.parametrize("name", [name for name in names() if settings_of(name).presets])
@pytest.mark.parametrize("model", [["lstm"], {"lstm": 1}, 3, True], ids=str)
def test_a_model_that_is_no_word_is_refused(name, model):
    """Those of texts ended in a TypeError where a configuration file had a list."""
    with pytest.raises(SettingError, match=r"file\.toml has model = .*; expected str\.$"):
        settings_of(name).of({"data": ["a.csv"], "model": model}, "file.toml")


def test_a_run_folder_knows_every_setting_that_names_a_file():
    """Reports left out --validation-data, and its path could not be corrected: the run counted as damaged."""
    fields_of_tasks = [owners_of(settings_of(name).run_type) for name in names()]
    of_files = {
        name for owners in fields_of_tasks for name, (_, field) in owners.items() if field.metadata.get("is_file")
    }
    assert {*FILE_SETTINGS} == {"data", *(name.replace("_", "-") for name in of_files)}
