"""The job: what it learns its scales from, and what it writes down."""

import dataclasses
import math

import numpy as np
import pytest

from edgewise.errors import SettingError
from edgewise.learn.networks.graph_settings import PropertySettings
from edgewise.learn.readers.molecules.data import Columns, molecules_from_arrays
from edgewise.learn.tables.split import Splits
from edgewise.learn.tasks.config import groups_of, job_to_config
from edgewise.learn.tasks.molecules.settings import SETTINGS, PropertyRunSettings
from edgewise.learn.tasks.molecules.task import TABLE, TASK, steps_of
from edgewise.learn.tasks.registry import names, settings_of
from edgewise.learn.training.settings import TrainSettings

SMILES = ["C", "CC", "CCC", "CCO", "CCN", "c1ccccc1O"]


def table_and_splits():
    table = molecules_from_arrays(SMILES, [0.0, 2.0, 4.0, 1e6, 1e6, 1e6], [1.0, 2.0, 3.0, 1e9, 1e9, 1e9])
    return table, Splits(np.array([0, 1, 2]), np.array([3]), np.array([4, 5]))


def test_scales_are_learned_on_training_rows_only():
    table, splits = table_and_splits()
    trained = TABLE.prepared(PropertyRunSettings(("arrays",), table.rows.columns), table, splits).fitted
    assert trained.output.scale.mean == (2.0,)
    assert trained.encoder.scales.condition.mean == (2.0,)
    assert trained.encoder.known_rows == [("C",), ("CC",), ("CCC",)]
    assert trained.encoder.sizes.typical_nodes == 2.0
    names = [field.name for field in dataclasses.fields(trained.encoder.scales.feature)]
    assert "center" in names
    few = molecules_from_arrays(SMILES[:3], [0.0, 2.0, 4.0], [1.0, 2.0, 3.0])
    alone = TABLE.prepared(
        PropertyRunSettings(("arrays",), few.rows.columns), few, Splits(np.arange(3), *[np.arange(0)] * 2)
    ).fitted
    assert trained.encoder.scales == alone.encoder.scales


@pytest.mark.parametrize(
    ("num_rows", "num_molecules", "chosen", "steps"),
    [
        (902, 902, {}, 600),  # few molecules: 40 steps for 64 rows are fewer than 600
        (999, 999, {}, 999 * 40 / 64),
        (1000, 1000, {}, 70 * 1000 / 64),
        (1600, 200, {}, 70 * 1600 / 64),  # rows that share molecules
        (1600, 200, {"has_process": True}, 600),
        (8000, 200, {"has_process": True}, 1500),
        (902, 902, {"is_classification": True}, 240),
        (1600, 1600, {"is_classification": True}, 400),
        (100_000, 100_000, {}, 3000),
    ],
)
def test_steps_fit_the_rows_and_molecules(num_rows, num_molecules, chosen, steps):
    found = steps_of(num_rows, num_molecules, **{"is_classification": False, **chosen})
    train = TrainSettings().resolved(num_rows, num_molecules, steps=found)
    an_epoch = math.ceil(num_rows / train.batch_size)
    assert train.epochs == math.ceil(steps / an_epoch)


@pytest.mark.parametrize(
    ("calibration", "setting", "step", "steps"),
    [
        ("random", {}, 1, 600),
        ("group", {}, 1, 1000),
        ("random", {"companions": ("none",)}, 1, 1000),
        ("random", {}, 0, 1000),
    ],
)
def test_a_process_that_reads_all_rows_spares_steps(calibration, setting, step, steps, monkeypatch):
    """Of known molecules with many rows each; not where it is left out, or learns from some of the rows, and not
    where the rows of a molecule differ by nothing."""
    smiles = ["C" * (1 + row % 5) for row in range(60)]
    table = molecules_from_arrays(smiles, np.arange(60.0), step * np.arange(60.0))
    splits = Splits(np.arange(48), np.arange(48, 54), np.arange(54, 60), calibration=calibration)
    job = PropertyRunSettings(("arrays",), table.rows.columns, **setting)
    chosen = TABLE.prepared(job, table, splits).settings
    has_process = "gaussian-process" in chosen.companions
    assert (chosen.train.epochs, has_process) == (math.ceil(steps / 2), steps == 600)
    monkeypatch.setattr("edgewise.learn.tasks.molecules.companions.PROCESS_ROWS", 47)
    assert TABLE.prepared(job, table, splits).settings.train.epochs == 500


@pytest.mark.parametrize(
    ("calibration", "num_molecules", "head_dropout"),
    [("random", 5, 0.0), ("group", 5, 0.05), ("random", 10, 0.05)],
)
def test_less_is_dropped_of_molecules_known_from_many_rows(calibration, num_molecules, head_dropout):
    """Where new rows are of known molecules; new molecules, as `group` promises them, need the dropout."""
    smiles = ["C" * (1 + row % num_molecules) for row in range(48)]
    table = molecules_from_arrays(smiles, np.arange(48.0), np.arange(48.0))
    splits = Splits(np.arange(40), np.arange(40, 44), np.arange(44, 48), calibration=calibration)
    settings = TABLE.prepared(PropertyRunSettings(("arrays",), table.rows.columns), table, splits).settings
    chosen = settings.model
    assert (chosen.model, chosen.head_dropout) == ("attention", head_dropout)


def test_baselines_see_training_targets_only():
    table, splits = table_and_splits()
    job = PropertyRunSettings(("arrays",), table.rows.columns)
    scores = TABLE.score_baselines(TABLE.prepared(job, table, splits))
    name = table.rows.columns.target_columns[0]
    assert scores["mean"]["test"][name]["mae"] == 1e6 - 2.0
    # A forest averages what it has seen.
    assert scores["forest"]["test"][name]["mae"] >= 1e6 - 4.0
    assert "training" not in scores["mean"]


def test_baselines_are_the_same_while_another_core_computes_them(monkeypatch):
    table, splits = table_and_splits()
    prepared = TABLE.prepared(PropertyRunSettings(("arrays",), table.rows.columns), table, splits)
    monkeypatch.setattr("edgewise.learn.tasks.table_task.available_cores", lambda: 1)
    TASK.start_background(prepared)
    assert not prepared.background  # there is no core for them
    monkeypatch.setattr("edgewise.learn.tasks.table_task.available_cores", lambda: 2)
    TASK.start_background(prepared)
    assert prepared.background["baselines"].result() == TABLE.score_baselines(prepared)


def test_a_job_and_its_configuration_say_the_same():
    job = PropertyRunSettings(
        data=("a.csv",),
        columns=Columns(("cation", "anion"), ("x",), ("kelvin",), group_column="il"),
        model=PropertySettings(num_layers=2, temperature=float("inf")),
        train=TrainSettings(epochs=3, patience=2),
        split_sizes=(0.8, 0.2),
        baselines=False,
    )
    config = job_to_config(job)
    assert SETTINGS.of(config) == job
    assert config["smiles-columns"] == ["cation", "anion"]
    assert "batch-size" not in config
    assert all("_" not in name for name in config)


def test_settings_have_one_name_each():
    for task in names():
        run_type = settings_of(task).run_type
        groups = groups_of(run_type)
        found = [field.name for group in groups.values() for field in dataclasses.fields(group[0])]
        found += [field.name for field in dataclasses.fields(run_type) if field.name not in groups]
        assert len(found) == len(set(found)), task


def test_one_word_may_stand_for_a_list():
    job = SETTINGS.of({"data": "a.csv", "smiles-columns": "smiles", "learning-rate": 1})
    assert (job.data, job.columns.smiles_columns, job.train.learning_rate) == (("a.csv",), ("smiles",), 1.0)


@pytest.mark.parametrize(
    ("columns", "data", "expected"),
    [
        ({}, ("a.csv",), "random"),
        ({"group_column": "g"}, ("a.csv",), "group"),
        ({"splits_column": "s", "group_column": "g"}, ("a.csv",), "column"),
        ({}, ("a.csv", "b.csv"), "file"),
    ],
)
def test_the_split_is_what_the_rest_says(columns, data, expected):
    assert PropertyRunSettings(data, Columns(("smiles",), **columns)).split_kind == expected


def test_heads_that_no_layer_reads_are_refused():
    """They were passed over without a word: dmpnn attends to nothing, and reads its edges out by their mean."""
    given = {"data": "a.csv", "smiles_columns": "smiles", "num_heads": 2}
    with pytest.raises(SettingError, match="--num-heads does nothing with --model dmpnn; leave it out"):
        SETTINGS.of({**given, "model": "dmpnn"})
    assert SETTINGS.of({**given, "model": "dmpnn", "num_heads": 4}).model.num_heads == 4  # as config.toml has it
    for name in ("gcn", "edge_attention", "mat"):
        assert SETTINGS.of({**given, "model": name}).model.num_heads == 2


def test_contradictions_are_refused():
    with pytest.raises(SettingError, match="--split scaffold and --splits-column contradict each other"):
        PropertyRunSettings(("a.csv",), Columns(("smiles",), splits_column="s"), split="scaffold")
    with pytest.raises(SettingError, match="--split random splits one file, but 2 were given"):
        PropertyRunSettings(("a.csv", "b.csv"), Columns(("smiles",)), split="random")
