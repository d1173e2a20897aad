"""The command line by task: help, inference, flags of other tasks, other and old names; settings declared once."""

import dataclasses
import time

import pandas as pd
import pytest

from cli_tables import SMALL, molecules, write_csv
from edgewise.cli.fingerprint import WITHOUT_VECTORS
from edgewise.cli.training import all_flags, job_of
from edgewise.errors import SettingError
from edgewise.learn.networks.graph_layers import LAYERS, layers_for
from edgewise.learn.networks.graph_settings import NodeSettings
from edgewise.learn.settings import check_value, helps, spelled
from edgewise.learn.tasks.config import defaults_of, groups_of
from edgewise.learn.tasks.registry import names, settings_of, task
from edgewise.learn.training.document import read_value, to_document


def test_the_help_of_train_fits_on_a_screen_and_shows_every_task(edgewise):
    code, out, _ = edgewise("train", "--help")
    assert code == 0
    assert len(out.splitlines()) <= 60
    for name in names():
        assert f"edgewise train {settings_of(name).example}" in out
        assert settings_of(name).summary in out
    assert "--learning-rate" in out and "--readout" not in out


@pytest.mark.parametrize("name", names())
def test_the_help_of_a_task_shows_its_flags_and_no_others(edgewise, name):
    code, out, _ = edgewise("train", name, "--help")
    shown = {word.strip(",") for word in out.split() if word.startswith("--")}
    own = set(all_flags(name).values())
    assert code == 0
    assert own <= shown
    others = {flag for other in names() for flag in all_flags(other).values()} - own
    assert not shown & (others - {"--task-type", "--model"})


def test_the_flags_of_every_task_in_the_help_of_train_are_flags(edgewise):
    """--check-memory stood there, the setting's name in Python; its flag is --memory-check."""
    flags = edgewise("train", "--help")[1].partition("--split-sizes")[2].split()
    assert "--memory-check" in flags
    for name in names():
        text = edgewise("train", name, "--help")[1]
        assert [flag for flag in flags if f"  {flag}" not in text] == []
    assert "Did you mean --check-memory" not in edgewise("train", "molecules", "a.csv", "--check-memory")[2]


@pytest.mark.parametrize("name", names())
def test_the_help_of_a_task_says_whose_defaults_it_shows(edgewise, name):
    """Those of hop_attention stood there as if those of all layers, and 2048 beside a number that fits the data."""
    text = " ".join(edgewise("train", name, "--help")[1].split())
    assert ("those of the default model; another may have its own" in text) == ("--model " in text)
    defaults = {setting: value for setting, value in defaults_of(settings_of(name)).items() if value is not None}
    for setting in {"epochs", "batch_size"} & defaults.keys():
        help_of_setting = text.partition(f" {spelled(setting)} N ")[2].partition(" --")[0]
        assert f"(default: {defaults[setting]}" in help_of_setting and "fits the data" not in help_of_setting


def test_the_help_says_which_tasks_need_target_columns(edgewise, tmp_path):
    """That every column without another role is the default stood in the help of nodes and graphs, which refuse it."""
    frame = pd.DataFrame({"id": [0, 1], "y": [1.0, 2.0], "graph": [0, 0]})
    frame.to_csv(tmp_path / "nodes.csv", index=False)
    pd.DataFrame({"graph": [0], "from": [0], "to": [1]}).to_csv(tmp_path / "edges.csv", index=False)
    for name in ("nodes", "graphs"):
        words = " ".join(edgewise("train", name, "--help")[1].split())
        assert "for nodes and graphs it must be given (also --target-column)" in words
        run = ("--edges", tmp_path / "edges.csv", "-o", tmp_path / "run")
        assert "no --target-columns were given" in edgewise("train", name, tmp_path / "nodes.csv", *run)[2]


@pytest.mark.parametrize(
    ("name", "layers"), [("nodes", "nodes"), ("graphs", "graphs"), ("links", "links"), ("edges", "links")]
)
def test_a_task_has_the_flags_that_one_of_its_layers_reads(name, layers):
    readable = {setting for layer in layers_for(layers) for setting in LAYERS[layer].readable(layers)}
    of_layers = {field.name for field in dataclasses.fields(NodeSettings)}
    assert of_layers & all_flags(name).keys() == of_layers & readable


def test_the_help_of_fingerprint_has_flags_of_tasks_with_vectors_only(edgewise):
    assert {name for name in names() if task(name).open_rows is None} == set(WITHOUT_VECTORS)
    shown = {word.strip(",") for word in edgewise("fingerprint", "--help")[1].split() if word.startswith("--")}
    assert "--graphs" in shown and "--gaps" not in shown


def test_every_setting_has_a_help_and_a_default_that_it_allows():
    for name in names():
        run_type = settings_of(name).run_type
        owners = [run_type, *(group_type for types in groups_of(run_type).values() for group_type in types)]
        for owner in owners:
            for field in dataclasses.fields(owner):
                assert helps(owner).get(field.name), (owner, field.name)
                if field.default is not dataclasses.MISSING and not dataclasses.is_dataclass(field.type):
                    check_value(field, field.default)


def test_the_defaults_of_a_task_are_a_configuration_file(edgewise, tmp_path):
    code, out, _ = edgewise("defaults", "molecules")
    (tmp_path / "own.toml").write_text(out)
    assert code == 0
    assert "# SMILES or InChI of the molecules" in out
    data = write_csv(tmp_path / "data.csv", {"smiles": molecules(), "y": range(40)})
    words = ["train", "molecules", data, "--config-path", tmp_path / "own.toml", "--smiles-columns", "smiles"]
    code, out, err = edgewise(*words, *SMALL, "--epochs", 1, "-o", tmp_path / "run")
    assert code == 0, err
    for name in names():
        assert f"edgewise train {name}" in edgewise("defaults", name)[1]
    assert edgewise("defaults")[1].startswith("Defaults by task")


def test_help_is_quick(edgewise):
    import os
    import subprocess
    import sys

    words = [sys.executable, "-X", "importtime", "-m", "edgewise.cli.main", "train", "--help"]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True, env=dict(os.environ)).stderr
    modules = {line.split("|")[-1].strip() for line in loaded.splitlines()}
    assert not modules & {"torch", "pandas", "pyarrow", "numpy", "rdkit", "scipy", "lightning"}
    began = time.process_time()
    edgewise("train", "--help")
    assert time.process_time() - began < 0.3


def test_the_task_is_inferred_and_named(edgewise, tmp_path):
    data = write_csv(tmp_path / "data.csv", {"smiles": molecules(), "y": range(40)})
    words = [data, "--smiles-columns", "smiles", *SMALL, "--epochs", 1, "--no-baselines"]
    code, out, _ = edgewise("train", *words, "-o", tmp_path / "inferred")
    assert (code, out.splitlines()[0]) == (0, "task: molecules, because --smiles-columns is given")
    code, out, _ = edgewise("train", "molecules", *words, "-o", tmp_path / "named")
    assert code == 0 and "task:" not in out
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("inferred", "named")]
    assert weights[0] == weights[1]


def test_a_file_that_is_called_like_a_task_is_not_swallowed(edgewise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "nodes").write_text("a,b\n1,2\n")
    code, _, err = edgewise("train", "nodes", "--target-columns", "a")
    assert code == 2
    assert "nodes is a task and a file here: write ./nodes for the file" in err
    _, _, err = edgewise("train", "nodes", "nodes.csv", "--edges", "edges.csv")
    assert "nodes is read as the task; write ./nodes for the file" in err
    assert "./nodes: its name ends in" in edgewise("train", "./nodes", "--smiles-columns", "a")[2]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("molecules a.csv --readout mean", "--readout applies to graphs and texts only"),
        ("molecules a.csv --learning-rat 1", "Did you mean --learning-rate?"),
        (
            "a.csv --smiles-columns s --readout mean",
            "the task is molecules: --readout applies to graphs and texts only",
        ),
        ("a.csv --smiles-columns s --block-sizes 3", "Did you mean --block-size?"),
        ("links a.csv --weight-column w", "--weight-column applies to edges, graphs, molecules, nodes and texts only"),
        (
            "nodes a.csv --edges e.csv --task-type link",
            "--task-type is 'link'; for nodes expected one of regression, classification, multiclass, auto. "
            "link is a task of its own: edgewise train links nodes.csv --edges edges.csv",
        ),
        (
            "texts a.csv --text-columns t --task-type masked",
            "for texts expected one of regression, classification, multiclass, auto. "
            "masked is a task of its own: edgewise train masked texts.txt",
        ),
        ("a.csv --text-columns t --task-type tagging --edges e.csv", "the task is tagging: --edges applies to"),
        ("a.csv --text-columns t --task-type translations", "Did you mean translation?"),
        ("a.csv --smiles-columns s --task-type links", "links is a task of its own: edgewise train links nodes.csv"),
        (
            "masked a.txt --task-type regression",
            "--task-type is 'regression'; for masked expected masked, or nothing. "
            "regression is a task type of edges, graphs, molecules, nodes and texts.",
        ),
        ("molecules a.csv --smiles-columns s --task-type multi-class", "Did you mean multiclass?"),
        ("molecules --smiles-columns s", "no data file was given: edgewise train molecules data.csv"),
        ("molecules a.csv", "no --smiles-columns were given"),
        ("molecules a.csv --smiles-columns s --epochs 0", "--epochs is 0; expected at least 1"),
        ("molecules a.csv --smiles-columns s --epochs x", "argument --epochs: invalid int value: 'x'"),
    ],
)
def test_wrong_words(edgewise, tmp_path, words, message):
    code, out, err = edgewise("train", *words.split(), "-o", tmp_path / "run")
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1


def test_an_unknown_verb(edgewise):
    code, _, err = edgewise("trian")
    assert code == 2
    assert "unknown verb trian. Did you mean train?" in err


def test_names_of_other_programs_mean_the_same(edgewise, tmp_path):
    data = write_csv(tmp_path / "data.csv", {"smiles": molecules(), "y": range(40)})
    ours = ["--learning-rate", 1e-3, "--num-layers", 1, "--model-dim", 8, "--split", "random"]
    theirs = ["--lr", 1e-3, "--depth", 1, "--message-hidden-dim", 8, "--split-type", "random"]
    shared = ["--smiles-columns", "smiles", "--num-heads", 1, "--head-dim", 8, "--epochs", 1, "--no-baselines"]
    assert edgewise("train", data, *shared, *ours, "-o", tmp_path / "ours")[0] == 0
    assert edgewise("train", "molecules", "--data-path", data, *shared, *theirs, "-o", tmp_path / "theirs")[0] == 0
    configs = [(tmp_path / name / "config.toml").read_text() for name in ("ours", "theirs")]
    assert configs[0] == configs[1]


def test_bounds_refuse_what_is_no_number():
    with pytest.raises(SettingError, match="--learning-rate is nan; expected above 0 and finite"):
        settings_of("molecules").of({"data": "a.csv", "smiles_columns": "s", "learning_rate": float("nan")})
    with pytest.raises(SettingError, match="the settings has compile = 'yes'; expected bool"):
        settings_of("molecules").of({"data": "a.csv", "smiles_columns": "s", "compile": "yes"})
    assert defaults_of(settings_of("nodes"))["learning_rate"] == 1e-2


def test_a_name_that_is_a_setting_is_never_an_old_one(edgewise, tmp_path):
    """`seed` and `score` are old names of constructor parameters only: files and flags have them as they are."""
    settings = NodeSettings(model="attention", score="gat")
    assert read_value(NodeSettings, to_document(settings), "settings") == settings
    data = write_csv(tmp_path / "data.csv", {"smiles": molecules(), "y": range(40)})
    words = ["train", "molecules", data, "--smiles-columns", "smiles", *SMALL, "--epochs", 1, "--no-baselines"]
    assert edgewise(*words, "--seed", 3, "--score", "dot", "-o", tmp_path / "run")[0] == 0
    again = ["train", "--config-path", tmp_path / "run/config.toml", "-o", tmp_path / "again"]
    code, _, err = edgewise(*again)
    assert code == 0, err
    weights = [(tmp_path / name / "model.safetensors").read_bytes() for name in ("run", "again")]
    assert weights[0] == weights[1]
    assert edgewise("predict", tmp_path / "run", data, "-o", tmp_path / "new.csv")[0] == 0


def test_a_misspelled_task_or_flag_is_called_one(edgewise, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, err = edgewise("train", "text", "reviews.csv")
    assert (code, "text is neither a task nor a file. Did you mean texts? The tasks are" in err) == (2, True), err
    code, _, err = edgewise(
        "train", "molecules", "a.csv", "--smiles_columns", "s", "--num-fold", 3, "--nothing-like-it"
    )
    assert code == 2
    assert "unknown flag --smiles_columns. Did you mean --smiles-columns?" in err
    assert "unknown flag --num-fold. Did you mean --num-folds?" in err
    assert "unknown flag --nothing-like-it." in err
    code, _, err = edgewise("train", "a.csv", "--smiles_columns", "s")
    assert (code, "Did you mean --smiles-columns?" in err) == (2, True), err


@pytest.mark.parametrize(
    ("words", "messages"),
    [
        ("train language a.txt --num-folds 5",
         ["--num-folds applies to edges, graphs, molecules, nodes and texts only."]),
        ("train molecules a.csv --top 3 --epoch 3", ["--top is a flag of edgewise explain.",
                                                     "unknown flag --epoch. Did you mean --epochs?"]),
        ("train nodes a.csv --smiles-columns s --horizon 3",
         ["--smiles-columns applies to molecules only.", "--horizon applies to forecast and motion only."]),
        # What is missing is said after what is misspelled: -o is required here.
        ("predict run a.csv --outptu b.csv --num-folds 5", ["unknown flag --outptu. Did you mean --output?",
                                                            "--num-folds is a flag of edgewise train."]),
        ("explain run --epochs=3 --foo", ["--epochs is a flag of edgewise train.", "unknown flag --foo."]),
        ("predict run a.csv b.csv -o c.csv", ["unexpected word b.csv, behind all that is expected."]),
        ("--epochs 3", ["--epochs is a flag of edgewise train."]),
        ("train a.csv --smiles-columns s --readout mean --horizon 3",
         ["the task is molecules: --readout applies to graphs and texts only. "
          "--horizon applies to forecast and motion only."]),
    ],
)  # fmt: skip
def test_a_flag_of_another_task_or_verb_is_called_that(edgewise, words, messages):
    code, out, err = edgewise(*words.split())
    assert (code, out) == (2, "")
    assert all(message in err for message in messages), err
    assert err.count("Did you mean") == sum("Did you mean" in message for message in messages)
    assert "required" not in err


def test_all_unknown_settings_of_a_file_are_named(edgewise, tmp_path):
    (tmp_path / "run.toml").write_text('data = ["a.csv"]\nsmiles-columns = ["s"]\nepoch = 3\nhead-dims = 3\n')
    _, _, err = edgewise("train", "molecules", "--config-path", tmp_path / "run.toml")
    assert "unknown setting 'epoch'. Did you mean --epochs?" in err and "Did you mean --head-dim?" in err


@pytest.mark.parametrize(
    ("key", "value", "setting"), [("memory-check", "false", "check_memory"), ("lr", "0.5", "learning_rate")]
)
def test_a_file_of_settings_names_them_by_their_flags(tmp_path, key, value, setting):
    """Both were refused as unknown, though the help says: flags without their dashes."""
    config = tmp_path / "run.toml"
    config.write_text(f'data = ["a.csv"]\nsmiles-columns = ["s"]\n{key} = {value}\n')
    settings = job_of({"config_path": str(config), "task": "molecules"})[0]
    job = settings_of("molecules").of(settings, str(config))
    assert getattr(job.train, setting) == {"false": False, "0.5": 0.5}[value]


def test_a_file_that_gives_one_setting_by_two_names_is_refused(edgewise, tmp_path):
    (tmp_path / "run.toml").write_text('data = ["a.csv"]\nlr = 0.5\nlearning-rate = 0.5\n')
    _, _, err = edgewise("train", "molecules", "--config-path", tmp_path / "run.toml")
    assert "has 'lr' and 'learning-rate', which are one setting; keep one of them." in err


def test_an_unknown_setting_of_a_file_is_named_as_it_stands_there(edgewise, tmp_path):
    (tmp_path / "run.toml").write_text('data = ["a.csv"]\ncheck-memry = false\n')
    _, _, err = edgewise("train", "molecules", "--config-path", tmp_path / "run.toml")
    assert "has the unknown setting 'check-memry'. Did you mean --memory-check?" in err


def test_a_file_of_settings_whose_data_is_a_number_is_refused(edgewise, tmp_path):
    (tmp_path / "run.toml").write_text('data = [5]\ntarget-columns = ["y"]\n')
    code, _, err = edgewise("train", "nodes", "--config-path", tmp_path / "run.toml")
    assert (code, "Traceback" in err, err.startswith("edgewise: error: ")) == (2, False, True)


def test_a_negative_number_with_an_exponent_is_a_value(edgewise):
    _, _, err = edgewise("train", "molecules", "a.csv", "--smiles-columns", "s", "--bounds", "-1e3", "-2.5E-4")
    assert "a.csv" in err and "--bounds" not in err, err
