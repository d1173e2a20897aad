"""Every flag of every task of `edgewise train`: its help shows what the command does."""

import re
import shlex
import tomllib
from contextlib import nullcontext

import pytest

from cli_tables import write_csv
from edgewise.cli.flags import help_text
from edgewise.cli.train import parser_of
from edgewise.cli.training import COMMAND
from edgewise.errors import SettingError
from edgewise.learn.tasks.config import flat_settings
from edgewise.learn.tasks.registry import names, settings_of


def settings_with(task, *flags):
    """The settings of the command that stands as the example of a task, with further flags."""
    declared = settings_of(task)
    typed = vars(parser_of((task,)).parse_args([*shlex.split(declared.example), *flags]))
    return flat_settings(declared.of({name: value for name, value in typed.items() if name not in COMMAND}))


def shown_defaults(task):
    """The flags of a task whose help says a default, as words that set it."""
    for action in parser_of((task,))._actions:
        default = re.search(r"default: (.*?)(?:; also|\)$)", action.help or "")
        if default and action.dest not in COMMAND:
            flag = action.option_strings[-1 if default[1] == "no" else 0]
            yield [flag] if action.nargs == 0 else [flag, *default[1].split()]


@pytest.mark.parametrize("task", names())
def test_the_help_shows_what_a_flag_is_where_it_is_not_typed(task):
    """--missing was shown to be `drop`, --task-type `regression`, and --epochs of nodes 200."""
    usual = settings_with(task)
    for flag in shown_defaults(task):
        try:
            assert settings_with(task, *flag) == usual, flag
        except (SettingError, AssertionError):  # one of a model that is not the usual one
            assert task == "translation", flag
            assert settings_with(task, "--model", "lstm", *flag) == settings_with(task, "--model", "lstm")


@pytest.mark.parametrize("task", names())
def test_the_help_shows_a_default_wherever_there_is_one(task):
    usual, shown = settings_with(task), {flag[0] for flag in shown_defaults(task)}
    words = shlex.split(settings_of(task).example)
    for action in parser_of((task,))._actions:
        is_open = usual.get(action.dest) in (None, (), False) or not {*words}.isdisjoint(action.option_strings)
        if action.dest != "data" and not is_open and "SUPPRESS" not in action.help:
            assert shown & {*action.option_strings}, action.dest


@pytest.mark.parametrize("task", names())
def test_the_help_says_one_default_and_says_it_in_sentences(task):
    """--patience was shown as `the default runs all epochs (default: 100)`, and `None` cannot be typed."""
    for action in parser_of((task,))._actions:
        text = action.help or ""
        assert not re.search(r"(?i)\bdefault\b.*\(default: ", text), text
        assert not re.search(r"\bNone\b|\. the default", text), text


@pytest.mark.parametrize(
    ("text", "default", "shown"),
    [
        ("Stop early; None runs all epochs.", 100, "Stop early (default: 100)"),
        ("Stop early; None runs all epochs.", None, "Stop early; the default runs all epochs"),
        ("A column. None keeps the order.", None, "A column. The default keeps the order"),
        ("Dropout. None is 0.05, for classes 0.1. As usual.", 0.2, "Dropout. As usual (default: 0.2)"),
    ],
)
def test_what_the_help_says_of_none(text, default, shown):
    assert help_text(text, default) == shown


@pytest.mark.parametrize("task", names())
def test_a_file_of_the_defaults_changes_nothing(edgewise, task):
    """The file of nodes had another recipe, and that of a translation ended in an error."""
    stored = tomllib.loads(edgewise("defaults", task)[1])
    declared = settings_of(task)
    required = dict.fromkeys(("data", *declared.required), ("a",))
    assert declared.of({**stored, **required}) == declared.of(required)


TEXTS = "texts {folder}/texts.csv --text-columns text --target-columns label --context 8 --model-dim 8 --epochs 1"


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ("--coverage 0.5", "--coverage goes with numbers, but the targets are classes, which have no intervals"),
        ("--loss-function mae", "--loss-function goes with numbers, but the targets are classes, which are learned by"),
        ("--huber-width 2", "--huber-width goes with numbers, but the targets are classes"),
        ("--huber-width 2 --loss-function mae", "--huber-width goes with --loss-function huber, not with mae."),
        ("--split-sizes 0.5 0.25 0.25 --splits-column split", "--split-sizes divides one file, but the data has its"),
        ("--missing drop", "--missing applies to edges, graphs, links, molecules and nodes only."),
    ],
)
def test_a_flag_that_would_do_nothing_is_refused(edgewise, tmp_path, flags, message):
    """Each of them trained as if it were not there."""
    write_csv(tmp_path / "texts.csv", {"text": ["a good film", "a bad film"] * 10, "label": ["yes", "no"] * 10})
    words = [*TEXTS.format(folder=tmp_path).split(), *flags.split()]
    code, _, err = edgewise("train", *words, "-o", tmp_path / "run")
    assert (code, message in err) == (2, True), err


def test_predictions_of_classes_have_no_coverage(edgewise, tmp_path, trained_run):
    data = trained_run("texts").parent / "texts.csv"
    code, _, err = edgewise("predict", trained_run("texts"), data, "--coverage", "0.5", "-o", tmp_path / "new.csv")
    assert (code, "--coverage goes with numbers, but the model predicts classes" in err) == (2, True), err


def test_sizes_of_splits_are_refused_where_files_are_the_splits():
    sizes = ("--split-sizes", "0.5", "0.25", "0.25")
    with pytest.raises(SettingError, match="--split-sizes divides one file, but the data has its splits"):
        settings_with("tagging", *sizes)
    for files, is_divided in (("a.en a.de", True), ("a.csv b.csv", False), ("a.en a.de b.en b.de", False)):
        config = {"data": tuple(files.split()), "split_sizes": (0.5, 0.25, 0.25)}
        with nullcontext() if is_divided else pytest.raises(SettingError, match="--split-sizes divides one file"):
            settings_of("translation").of(config)
