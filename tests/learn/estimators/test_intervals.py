"""Intervals of new molecules: calibrated on molecules the model has not seen, wider the less similar a row is."""

import json

import numpy as np
import pandas as pd
import pytest
from safetensors.torch import load_file, save_file

from edgewise.cli.main import main
from edgewise.errors import RunFolderError, SettingError
from edgewise.learn.estimators import MoleculeClassifier, MoleculeRegressor
from edgewise.learn.estimators.molecules import MOLECULES
from edgewise.learn.estimators.rows import TrainingColumns
from edgewise.learn.estimators.state import settings_of
from edgewise.learn.tables.split import Splits
from edgewise.learn.tasks import table_task
from edgewise.learn.tasks.explainer import Explainer
from edgewise.learn.tasks.molecules.encoder import MoleculesEncoder
from edgewise.learn.tasks.molecules.task import TABLE
from edgewise.learn.tasks.table_task import TableTask
from edgewise.learn.training.conformal import learn_difficulty
from edgewise.learn.training.folder import RunFolder

CATIONS = ["C" * size + "[NH3+]" for size in range(1, 9)]
ANIONS = ["[Cl-]", "[Br-]", "O=C([O-])C"]
PAIRS = [(cation, anion) for cation in CATIONS for anion in ANIONS]
SMALL = {"epochs": 2, "model_dim": 8, "head_dim": 8, "num_layers": 1, "molecule_descriptors": False, "num_variants": 3}


@pytest.fixture(scope="module")
def table():
    """24 liquids at 5 temperatures; every fourth liquid is in the test rows."""
    random, rows = np.random.default_rng(0), []
    for number, (cation, anion) in enumerate(PAIRS):
        for kelvin in (280.0, 300.0, 320.0, 340.0, 360.0):
            y = len(cation) / 10 + kelvin / 300 + random.normal(scale=0.1)
            rows.append((cation, anion, kelvin, y, "test" if number % 4 == 3 else "train"))
    return pd.DataFrame(rows, columns=["cation", "anion", "kelvin", "y", "part"])


@pytest.fixture(scope="module")
def run(table, tmp_path_factory):
    """A run of an ensemble on it, all by default but the sizes."""
    folder = tmp_path_factory.mktemp("intervals")
    table.to_csv(folder / "data.csv", index=False)
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items() if value is not False]
    columns = "--smiles-columns cation anion --descriptors-columns kelvin --target-columns y --splits-column part"
    words = (
        f"train molecules {folder / 'data.csv'} {columns} --no-molecule-descriptors --ensemble-size 4 --no-baselines"
    )
    assert main([*words.split(), *flags, "-o", str(folder / "run")]) == 0
    return folder / "run"


def test_new_liquids_calibrate_by_default(run, table):
    config, metrics = (run / "config.toml").read_text(), json.loads((run / "metrics.json").read_text())
    assert 'calibration = "group"' in config
    assert metrics["coverage"]["calibration"] == "group"
    assert metrics["coverage"]["width"]["y"] > 0
    curve = metrics["coverage"]["curve"]["y"]
    assert [0.9, metrics["coverage"]["test"]["y"]] in curve
    fitted = TABLE.load(RunFolder(run))
    # 2 of 18 liquids are the validation rows of the first model; the others leave out 2 or more each.
    assert len(fitted.intervals.errors) >= 4 * 2 * 5
    assert len(fitted.encoder.known_rows) == 18, "each liquid that is no test row is known to some model"
    splits = json.loads((run / "splits.json").read_text())
    assert metrics["validation"]["y"]["num_rows"] == len(splits["val"])


def test_predictions_say_how_far_a_row_can_be_trusted(run, tmp_path):
    rows = [
        ("CC[NH3+]", "[Br-]", 300.0),
        ("CC[NH3+]", "[I-]", 300.0),
        ("c1cc[nH+]cc1", "[I-]", 500.0),
        ("CCCC[NH3+]", "[Br-]", 100.0),
        (*PAIRS[3], 300.0),
        ("nothing", "[Cl-]", 300.0),
    ]
    pd.DataFrame(rows, columns=["cation", "anion", "kelvin"]).to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", str(run), str(tmp_path / "new.csv"), "-o", str(tmp_path / "out.csv")]) == 0
    found = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    assert [*found.columns[3:]] == [
        *("y_pred", "y_std", "y_ensemble_std", "y_low", "y_high"),
        *("similarity", "similarity_cation", "similarity_anion", "new", "status"),
    ]
    assert found["new"].tolist()[:4] == ["", "anion", "cation, anion, kelvin", "kelvin"]
    assert found["new"][4] == "combination", "a test liquid of known ions"
    assert found.iloc[5][["similarity", "new"]].tolist() == ["", ""]
    assert found["status"][5].startswith("cation: ")
    similarities = found[["similarity", "similarity_cation", "similarity_anion"]].iloc[:5].astype(float)
    assert similarities.iloc[0].tolist() == [1, 1, 1]
    assert similarities["similarity_anion"][1] < 1 == similarities["similarity_cation"][1]
    assert similarities["similarity"][2] < similarities["similarity"][1] < 1


def test_predictions_of_classes_say_how_new_a_row_is(table, tmp_path):
    classes = table.assign(y=np.where(table["y"] > table["y"].median(), "high", "low"))
    classes.to_csv(tmp_path / "data.csv", index=False)
    flags = [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items() if value is not False]
    words = (
        f"train molecules {tmp_path / 'data.csv'} --smiles-columns cation anion --descriptors-columns kelvin "
        f"--target-columns y --task-type classification --splits-column part --no-molecule-descriptors --no-baselines "
        f"-o {tmp_path / 'run'}"
    )
    assert main([*words.split(), *flags]) == 0
    rows = [(*PAIRS[0], 500.0), ("c1cc[nH+]cc1", "[I-]", 300.0)]
    pd.DataFrame(rows, columns=["cation", "anion", "kelvin"]).to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", str(tmp_path / "run"), str(tmp_path / "new.csv"), "-o", str(tmp_path / "out.csv")]) == 0
    predicted = pd.read_csv(tmp_path / "out.csv", keep_default_na=False)
    assert {"similarity", "similarity_cation", "similarity_anion", "new"} <= {*predicted.columns}
    assert "kelvin" in predicted["new"][0]
    assert predicted["new"][1] == "cation, anion"


def test_all_doors_lead_to_the_same_interval(run, tmp_path):
    """The table, the estimator, the page and the explanation."""
    row = ("CC[NH3+]", "[I-]", 310.0)
    pd.DataFrame([row], columns=["cation", "anion", "kelvin"]).to_csv(tmp_path / "new.csv", index=False)
    assert main(["predict", str(run), str(tmp_path / "new.csv"), "-o", str(tmp_path / "out.csv")]) == 0
    table = pd.read_csv(tmp_path / "out.csv")
    low, high = table["y_low"][0], table["y_high"][0]
    assert low < table["y_pred"][0] < high
    in_python = MoleculeRegressor.load(run).predict_interval([row[:2]], [[row[2]]])
    cells = {"cation": row[0], "anion": row[1], "kelvin": row[2]}
    explainer = Explainer.open(run)
    (served,), explained = explainer.predict([cells])[0], explainer.explain(cells).predictions[0]
    for found in ([each.item() for each in in_python], [served.low, served.high], [explained.low, explained.high]):
        assert found == pytest.approx([low, high], rel=1e-5)


def test_intervals_are_wider_where_rows_are_less_similar(table, tmp_path):
    """Molecules that are unlike others have larger errors here."""
    random = np.random.default_rng(0)
    smiles = ["C" * size + end for size in range(1, 16) for end in ("O", "N", "Cl", "F")]
    odd = ["c1ccccc1" + "C" * size + "S(=O)(=O)N" for size in range(3)] + ["P", "[Se]", "B(O)O", "I", "C#N", "S"]
    y = np.r_[random.normal(scale=0.1, size=len(smiles)), random.normal(scale=5, size=len(odd))]
    model = MoleculeRegressor(**SMALL, calibration="group", ensemble_size=5, validation_size=0.2)
    model.fit([*smiles, *odd], y)
    assert len(model.trained_.intervals.errors) == len(y)
    low, high = model.predict_interval(["CCCCCO", "[SiH4]"])
    assert high[1] - low[1] > 1.5 * (high[0] - low[0])
    narrow = model.predict_interval(["[SiH4]"], coverage=0.5)
    assert narrow[1] - narrow[0] < high[1] - low[1]
    with pytest.raises(SettingError, match="coverage is 'half'; expected a number above 0 and below 1"):
        model.predict_interval(["[SiH4]"], coverage="half")
    model.save(tmp_path / "saved")
    loaded = MoleculeRegressor.load(tmp_path / "saved")
    assert loaded.calibration == "group"
    np.testing.assert_array_equal(loaded.predict_interval(["CCCCCO", "[SiH4]"]), [low, high])
    path = tmp_path / "saved/model.json"
    content = json.loads(path.read_text())
    for key, value in (("calibration", "guess"), ("difficulty", [{"constant": 0, "slopes": [1, 2, 3]}])):
        path.write_text(json.dumps({**content, key: value}))
        with pytest.raises(RunFolderError, match=f"model.json is damaged: {key}"):
            MoleculeRegressor.load(tmp_path / "saved")
    path.write_text(json.dumps(content))
    weights = tmp_path / "saved/model.safetensors"
    tensors = load_file(weights)
    for sigma in (tensors["validation.sigma"][1:], -tensors["validation.sigma"], tensors["validation.sigma"] / 0):
        save_file({**tensors, "validation.sigma": sigma}, weights)
        with pytest.raises(RunFolderError, match=r"validation\.sigma is not a table"):
            MoleculeRegressor.load(tmp_path / "saved")


def test_an_ensemble_of_random_rows_shares_its_validation_rows():
    smiles = ["C" * size + end for size in range(1, 9) for end in ("O", "N")]
    one, three = (MoleculeRegressor(**SMALL, ensemble_size=size).fit(smiles, np.arange(16.0)) for size in (1, 3))
    assert len(one.trained_.intervals.errors) == len(three.trained_.intervals.errors) == 2
    assert one.trained_.encoder.known_rows == three.trained_.encoder.known_rows
    intervals = one.trained_.intervals
    assert (intervals.calibration, intervals.difficulty) == ("random", ()), "two rows teach nothing"


def test_rows_of_random_calibration_have_the_parts_of_their_names(monkeypatch):
    """The parts that σ is learned without follow the names of the groups: same seed, same widths in every version."""
    smiles = ["C" * size + end for size in range(1, 31) for end in ("O", "N", "Cl", "F")]
    targets = np.random.default_rng(0).normal(size=120)
    asked, which, calibrate = [], [], TableTask.calibrate_intervals
    monkeypatch.setattr(table_task, "learn_difficulty", lambda *given: asked.append(given) or learn_difficulty(*given))
    monkeypatch.setattr(TableTask, "calibrate_intervals", lambda *given: which.append(given[1]) or calibrate(*given))
    model = MoleculeRegressor(**SMALL, validation_size=0.5, calibration="random").fit(smiles, targets)
    ((features, errors, _),), rows = asked, which[0].splits.calibrating.tolist()
    assert len(rows) == 60 and max(rows) > 100
    names = sorted(str(row) for row in rows)
    expected = learn_difficulty(features, errors, np.array([names.index(str(row)) for row in rows]))[1]
    assert np.array_equal(model.trained_.intervals.sigma[:, 0], expected)
    assert not np.allclose(expected, learn_difficulty(features, errors)[1]), "another order gives other widths"


def test_classes_have_no_intervals():
    with pytest.raises(SettingError, match="calibration goes with numbers, but the targets are classes"):
        MoleculeClassifier(**SMALL, calibration="group").fit(["C", "CC", "CO", "CCO"] * 3, [0, 1] * 6)


def test_scores_of_training_rows_need_no_similarities(monkeypatch):
    """They would take as long as the square of the rows."""
    counts = []
    similarities = MoleculesEncoder.similarities
    monkeypatch.setattr(
        MoleculesEncoder, "similarities", lambda *given: counts.append(len(given[2])) or similarities(*given)
    )
    smiles = ["C" * size + end for size in range(1, 31) for end in ("O", "N", "Cl", "F")]
    model = MoleculeRegressor(**SMALL, validation_size=0.5)
    model.fit(smiles, np.arange(120.0))
    assert len(model.trained_.intervals.difficulty[0].slopes) == 2
    job = settings_of(model, MOLECULES, task_type="regression")
    columns = TrainingColumns("regression", np.arange(120.0), None, None)
    table = MOLECULES.training_data(job, MOLECULES.inputs(model, smiles, {}), columns)
    splits = Splits(np.arange(100), np.arange(100, 110), np.arange(110, 120))
    prepared = MOLECULES.table_task.prepared(job, table, splits)
    prepared.fitted.members, prepared.fitted.intervals = model.trained_.members, model.trained_.intervals
    counts.clear()
    MOLECULES.task.evaluate(prepared, [])
    assert counts == [10]
