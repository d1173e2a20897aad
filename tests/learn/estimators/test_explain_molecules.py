"""Molecules explained: the explained value is the prediction, and every effect is a difference of two predictions."""

import copy
import json
import math
import pickle

import numpy as np
import pandas as pd
import pytest
import torch
from rdkit import Chem

from edgewise.errors import DataError, SettingError
from edgewise.explain.additive import contributions
from edgewise.explain.rank import spearman
from edgewise.learn.estimators import MoleculeClassifier, MoleculeRegressor
from edgewise.learn.estimators.molecules import MOLECULES
from edgewise.learn.estimators.row_methods import predictions
from edgewise.learn.readers.molecules.limits import MoleculeLimits
from edgewise.learn.readers.molecules.molecule import read_molecule
from edgewise.learn.readers.molecules.simulate import atom_contributions, demo_table
from edgewise.learn.readers.molecules.variants import variants
from edgewise.learn.tasks.explained import Explained
from edgewise.learn.tasks.explainer import Explainer
from edgewise.learn.tasks.molecules.explainable import explain_molecule, recovery
from edgewise.learn.tasks.molecules.known import MAX_PREDICTIONS, KnownSample, environments_of_row
from edgewise.learn.tasks.molecules.removal import noise_of
from edgewise.learn.tasks.molecules.row import Row
from edgewise.view.molecule import draw_molecules

SMALL = {
    "epochs": 2,
    "model_dim": 8,
    "num_heads": 2,
    "num_layers": 2,
    "head_dim": 8,
    "num_variants": 2,
    "device": "cpu",
}
ENDS = ("O", "N", "Cl", "C(=O)O", "c1ccccc1")
SMILES = [f"{'C' * (1 + number // 5)}{ENDS[number % 5]}" for number in range(40)]
LENGTHS = np.array([float(len(text)) for text in SMILES])
ONE = "CC(=O)Nc1ccccc1"
GRADIENTS = ["integrated gradients", "gradient × input"]
SIGNED = ["removal", "occlusion", "shared occlusion", *GRADIENTS]
ATTENTION = ["attention", "rollout"]


@pytest.fixture(scope="module")
def ensemble() -> MoleculeRegressor:
    """Two members without descriptors."""
    return MoleculeRegressor(**SMALL, ensemble_size=2, validation_size=0.3, molecule_descriptors=False).fit(
        SMILES, LENGTHS
    )


@pytest.fixture(scope="module")
def pairs() -> MoleculeRegressor:
    """Cations and anions, with descriptors, at a temperature, a pressure and a constant."""
    rows = [(text, "[Cl-]" if row % 2 else "[Br-]") for row, text in enumerate(SMILES)]
    numbers = np.stack([300.0 + np.arange(40), 10.0 ** (np.arange(40) % 4), np.full(40, 5.0)], axis=1)
    with pytest.warns(UserWarning, match="'condition_3' has one value in all training rows"):
        return MoleculeRegressor(**SMALL).fit(rows, np.stack([LENGTHS, -LENGTHS], axis=1), conditions=numbers)


def named(explanation):
    return {each.name: each.values for each in explanation.attributions}


def test_the_explanation_shows_the_prediction(ensemble):
    found = ensemble.explain(ONE)
    (predicted,) = found.predictions
    low, high = ensemble.predict_interval([ONE])
    assert (predicted.name, predicted.value) == ("target", pytest.approx(ensemble.predict([ONE])[0], rel=1e-6))
    assert (predicted.low, predicted.high) == pytest.approx((low[0], high[0]), rel=1e-6)
    assert predicted.std == pytest.approx(predictions(ensemble, MOLECULES, [ONE], {}).targets[0].std[0], rel=1e-4)
    assert (found.kind, found.title, found.sources) == ("molecule", ONE, {"smiles": ONE})
    assert found.explained == "target"
    json.dumps(found.to_json(), allow_nan=False)


def test_units_are_atoms_and_know_their_characters(ensemble):
    found = ensemble.explain("[H]OC([Na])Cl")
    assert [unit.name for unit in found.units] == ["O", "C", "Na", "Cl"]
    assert ["[H]OC([Na])Cl"[unit.start : unit.stop] for unit in found.units] == ["O", "C", "[Na]", "Cl"]
    assert {unit.source for unit in found.units} == {"smiles"}
    assert [(link.first, link.second) for link in found.links] == [(0, 1), (1, 2), (1, 3)]


def test_every_effect_is_a_difference_of_two_predictions(ensemble):
    """Atoms, bonds and parts taken out by hand: the model predicts the molecules that are left."""
    found = ensemble.explain(ONE, methods=["occlusion"])
    (full,) = ensemble.predict([ONE])
    # CC(=O)Nc1ccccc1 without each atom
    left = ["O=CNc1ccccc1", "C.O.Nc1ccccc1", "CCNc1ccccc1", "CC=O.c1ccccc1", "CC(N)=O.C=CC=CC=C"]
    expected = full - ensemble.predict(left)
    np.testing.assert_allclose(named(found)["occlusion"][:4], expected[:4], atol=1e-5)
    bonds = ["C.O=CNc1ccccc1", "O.CCNc1ccccc1", "CC=O.Nc1ccccc1", "CC(N)=O.c1ccccc1"]
    ends = [(0, 1), (1, 2), (1, 3), (3, 4)]
    effects = {(link.first, link.second): link.effect for link in found.links}
    np.testing.assert_allclose([effects[pair] for pair in ends], full - ensemble.predict(bonds), atol=1e-5)
    parts = {part.name: part.effect for part in found.parts}
    by_hand = full - ensemble.predict(["CC(N)=O", "C.c1ccccc1"])
    np.testing.assert_allclose([parts["c1ccccc1"], parts["amide"]], by_hand, atol=1e-5)
    assert {part.kind for part in found.parts} == {"ring", "functional group", "BRICS"}


def test_descriptors_and_companions_are_part_of_every_effect():
    """A model that is a Gaussian process for the most part: what it adds changes with the molecule."""
    regressor = MoleculeRegressor(**SMALL, companions=["gaussian-process"]).fit(SMILES, LENGTHS)
    found = regressor.explain("CCCO", methods=["removal", "occlusion"])
    full, without = regressor.predict(["CCCO", "CCC"])
    assert named(found)["occlusion"][3] == pytest.approx(full - without, abs=1e-4)
    removal = found.attributions[0]
    assert removal.values.sum() + removal.baseline == pytest.approx(full, abs=1e-4)


def test_integrated_gradients_are_complete(ensemble):
    trained = ensemble.trained_
    found = explain_molecule(trained, (ONE,), methods=GRADIENTS)
    batch = Row.of(trained, (ONE,)).batch
    explained = Explained(trained, 0, None)
    nothing = explained.of_batch(batch.with_node_features(torch.zeros_like(batch.graph.node_features)))[0]
    assert named(found)["integrated gradients"].sum() == pytest.approx(found.predictions[0].value - nothing, abs=1e-4)


def test_layers_are_those_of_the_first_member_and_shares_sum_to_one(ensemble):
    found = ensemble.explain(ONE)
    assert [layer.name for layer in found.layers] == ["layer 1", "layer 2", "readout"]
    for layer in found.layers:
        num_receivers = 1 if layer.is_readout else 10
        sums = np.zeros((2, num_receivers))
        np.add.at(sums, (slice(None), layer.receivers), layer.values)
        np.testing.assert_allclose(sums, 1, rtol=1e-5)
    shares = named(found)
    assert [each.name for each in found.attributions] == ["removal", *ATTENTION]
    assert [each.is_signed for each in found.attributions] == [True, False, False]
    assert shares["attention"].sum() == pytest.approx(1, rel=1e-5)
    assert shares["rollout"].sum() == pytest.approx(1, rel=1e-5)
    np.testing.assert_allclose(shares["attention"], found.layers[-1].values.mean(0), rtol=1e-6)
    assert any("first of 2 models" in note for note in found.notes)


def test_faithfulness_is_printed_with_every_explanation(ensemble):
    found = ensemble.explain(ONE).faithfulness
    assert [removal.method for removal in found.removals] == ["removal", *ATTENTION, "random"]
    assert set(found.agreement) == set(ATTENTION) and np.isfinite(list(found.agreement.values())).all()
    assert all(len(removal.shares) == 5 for removal in found.removals)
    assert found.removals[0].deletion[0] == pytest.approx(ensemble.predict([ONE])[0], rel=1e-5)


def test_the_writing_changes_nothing_but_the_order(ensemble):
    methods = [*SIGNED, *ATTENTION]
    first, second = (ensemble.explain(text, methods=methods) for text in ("CCCO", "OCCC"))
    for name, values in named(first).items():
        np.testing.assert_allclose(values, named(second)[name][::-1], atol=1e-5)


def test_atom_map_numbers_are_shown_and_change_nothing(ensemble):
    numbered = "[CH3:1][C@H:4]([OH:2])[CH3:3]"
    mapped, plain = (ensemble.explain(text, methods=SIGNED) for text in (numbered, "CC(O)C"))
    assert (mapped.title, mapped.sources) == (numbered, {"smiles": numbered})
    assert [numbered[unit.start : unit.stop] for unit in mapped.units][:2] == ["[CH3:1]", "[C@H:4]"]
    for name, values in named(plain).items():
        np.testing.assert_allclose(named(mapped)[name], values, atol=1e-5)
    assert [link.effect for link in mapped.links] == pytest.approx([link.effect for link in plain.links], abs=1e-5)
    (drawn,) = draw_molecules(mapped)
    assert drawn.bonds == ((0, 1), (1, 2), (1, 3))


def test_two_molecules_and_conditions(pairs):
    found = pairs.explain([("CCCCO", "[Cl-]")], conditions=[310.0, 50.0, 5.0], target="target_2")
    value = pairs.predict([("CCCCO", "[Cl-]")], [[310.0, 50.0, 5.0]])[0]
    assert [predicted.value for predicted in found.predictions] == pytest.approx(value.tolist(), rel=1e-5)
    assert (found.explained, found.title) == ("target_2", "CCCCO.[Cl-]")
    assert [unit.source for unit in found.units] == ["smiles_1"] * 5 + ["smiles_2"]
    assert (found.units[5].name, found.units[5].start, found.units[5].stop) == ("Cl", 0, 5)
    assert [layer.name for layer in found.layers][2:] == ["readout of smiles_1", "readout of smiles_2"]
    assert all(layer.receivers.max() == 0 for layer in found.layers[2:])
    assert [part.units for part in found.parts if part.kind == "component"] == [(0, 1, 2, 3, 4), (5,)]
    kelvin, pressure = found.curves
    assert (kelvin.name, kelvin.here, kelvin.at[0], kelvin.at[-1]) == ("condition_1", 310, 300, 339)
    assert np.diff(np.log(pressure.at)) == pytest.approx(np.full(40, math.log(1000) / 40))
    rows = [("CCCCO", "[Cl-]")] * 41
    numbers = np.stack([kelvin.at, np.full(41, 50.0), np.full(41, 5.0)], axis=1)
    np.testing.assert_allclose(kelvin.predictions, pairs.predict(rows, numbers)[:, 1], rtol=1e-4)
    assert any("condition_3 is the same in all training rows" in note for note in found.notes)
    assert any("descriptors and its substructures are made again" in note for note in found.notes)


def test_two_molecules_that_are_the_same_are_two(pairs):
    found = pairs.explain([("CCO", "OCC")], conditions=[310.0, 50.0, 5.0])
    assert [unit.name for unit in found.units] == ["C", "C", "O", "O", "C", "C"]
    assert found.predictions[0].value == pytest.approx(pairs.predict([("CCO", "OCC")], [[310, 50, 5]])[0, 0], rel=1e-5)


def test_conditions_beyond_the_training_are_said(pairs):
    found = pairs.explain([("CCO", "[Cl-]")], conditions=[400.0, 50.0, 5.0])
    assert found.curves[0].at[-1] == 400
    assert "condition_1 is 400, beyond what training rows have: 300 to 339." in found.notes


@pytest.mark.parametrize("labels", [np.where(LENGTHS > 6, "long", "short"), np.arange(40) % 3], ids=["two", "three"])
def test_of_classes_the_probability_is_explained(labels):
    classifier = MoleculeClassifier(**SMALL, molecule_descriptors=False).fit(SMILES, labels)
    found = classifier.explain(ONE)
    probabilities = classifier.predict_proba([ONE])[0]
    (predicted,) = found.predictions
    assert list(predicted.probabilities.values()) == pytest.approx(probabilities.tolist(), rel=1e-5)
    assert predicted.label == str(classifier.predict([ONE])[0])
    assert found.explained == f"target = {predicted.label}"
    effects = 0
    for number, label in enumerate(classifier.classes_.tolist()):
        each = classifier.explain(ONE, label=label, methods=["occlusion", "removal"])
        assert each.explained == f"target = {label}"
        assert each.faithfulness.removals[0].deletion[0] == pytest.approx(probabilities[number], rel=1e-5)
        effects = effects + named(each)["occlusion"]
        removal = each.attributions[1]
        assert removal.values.sum() + removal.baseline == pytest.approx(probabilities[number], rel=1e-5)
    # What one class loses the others win.
    np.testing.assert_allclose(effects, 0, atol=1e-6)
    with pytest.raises(SettingError, match="label is 'huge'; the classes of target are"):
        classifier.explain(ONE, label="huge")


@pytest.mark.parametrize("model", ["gat", "gatv2", "gcn", "sage", "gin"])
def test_every_layer_can_be_explained(model):
    found = MoleculeRegressor(model=model, **SMALL).fit(SMILES, LENGTHS).explain(ONE)
    is_convolution = model in ("gcn", "sage", "gin")
    assert len(found.layers) == (1 if is_convolution else 3)
    assert ("rollout" in named(found)) == (not is_convolution)
    assert any("convolutions" in note for note in found.notes) == is_convolution
    assert all(np.isfinite(values).all() for values in named(found).values())


def test_messages_without_attention_have_no_attribution_by_attention():
    sizes = {name: size for name, size in SMALL.items() if name != "num_heads"}
    model = MoleculeRegressor(**sizes, model="dmpnn", molecule_descriptors=False).fit(SMILES, LENGTHS)
    found = model.explain(ONE)
    assert list(named(found)) == ["removal"]
    assert found.layers == ()
    assert any("nothing attends" in note for note in found.notes)
    assert "attention" not in recovery(model.trained_, {ONE: np.arange(10.0)})


def test_the_transformer_and_its_dummy():
    regressor = MoleculeRegressor(model="mat", **SMALL).fit(SMILES[:12], LENGTHS[:12])
    found = regressor.explain("CCO")
    assert found.predictions[0].value == pytest.approx(regressor.predict(["CCO"])[0], rel=1e-5)
    assert [layer.name for layer in found.layers] == ["layer 1", "layer 2"]
    for layer in found.layers:
        assert layer.values.shape == (2, 9)
        sums = np.zeros((2, 3))
        np.add.at(sums, (slice(None), layer.receivers), layer.values)
        assert (sums < 1).all() and (sums > 0.1).all()
    shares = named(found)
    # The rest is with the dummy.
    assert 0.1 < shares["attention"].sum() < 1 and 0.1 < shares["rollout"].sum() < 1
    assert any("dummy" in note for note in found.notes)


def test_weights_that_are_no_shares_have_no_rollout():
    found = MoleculeRegressor(normalize="identity", **SMALL).fit(SMILES, LENGTHS).explain(ONE)
    assert "rollout" not in named(found)
    assert any("negative" in note for note in found.notes)


def test_molecules_without_bonds(ensemble):
    found = ensemble.explain("O")
    assert (found.links, found.parts) == ((), ())
    (effect,) = named(found)["removal"]
    assert effect + found.attributions[0].baseline == pytest.approx(found.predictions[0].value, abs=1e-6)
    # Two atoms of one molecule that nothing connects are its components.
    assert [part.kind for part in ensemble.explain("O.N").parts] == ["component", "component"]


@pytest.mark.parametrize(
    "smiles", ["C", "[Na+].[Cl-]", "C" * 200, "C[C@H](N)C(=O)[O-].[K+]", "F/C=C/Cl", "[H][H]", "C[N+](=O)[O-]", "C*"]
)
def test_every_molecule_is_explained_by_finite_numbers(ensemble, smiles):
    found = ensemble.explain(smiles)
    removal = found.attributions[0]
    assert np.isfinite(removal.values).all() and len(removal.values) == len(found.units)
    assert removal.values.sum() + removal.baseline == pytest.approx(found.predictions[0].value, abs=1e-5)
    assert np.isfinite([part.effect for part in found.parts] + [link.effect for link in found.links]).all()


def test_a_part_of_an_anion_is_not_the_whole_cell(ensemble):
    """Perchlorate without an oxygen is chlorate, and its cation stays."""
    occluded = named(ensemble.explain("[Na+].[O-]Cl(=O)(=O)=O", methods=["occlusion"]))["occlusion"]
    whole, part = (ensemble.predict([text])[0] for text in ("[Na+].[O-]Cl(=O)(=O)=O", "[Na+].[O-][Cl+2]([O-])[O-]"))
    np.testing.assert_allclose(occluded[[1, 3, 4, 5]], whole - part, atol=1e-5)


def test_training_molecules_may_be_larger_than_those_that_are_explained(ensemble, tmp_path):
    ensemble.save(tmp_path / "run")
    limited = Explainer.open(tmp_path / "run", max_atoms=3)
    removal = limited.explain({"smiles": "CCO"}).attributions[0]
    np.testing.assert_array_equal(removal.values, ensemble.explain("CCO").attributions[0].values)
    with pytest.raises(DataError, match="more than 3"):
        limited.explain({"smiles": "CCCO"})


def test_the_strongest_weights_of_each_atom_are_shown(ensemble, tmp_path):
    ensemble.save(tmp_path / "run")
    row, methods = {"smiles": "CC(C)(C)O"}, ["attention", "rollout"]
    every, few = (Explainer.open(tmp_path / "run").explain(row, methods=methods, top=top) for top in (None, 1))
    for whole, layer in zip(every.layers, few.layers, strict=True):
        if layer.is_readout:
            np.testing.assert_array_equal(layer.values, whole.values)
            continue
        for head in range(len(layer.values)):
            for atom in range(5):
                shown = layer.values[head][layer.receivers == atom]
                assert shown[shown > 0].tolist() == [whole.values[head][whole.receivers == atom].max()]
    np.testing.assert_array_equal(every.attributions[1].values, few.attributions[1].values)


def test_it_is_the_same_after_saving(ensemble, tmp_path):
    ensemble.save(tmp_path / "run")
    again = MoleculeRegressor.load(tmp_path / "run").explain(ONE)
    assert json.dumps(again.to_json()) == json.dumps(ensemble.explain(ONE).to_json())


def test_it_is_pickled_after_an_explanation(ensemble):
    """It held the sample of known rows, whose functions cannot be pickled."""
    first = ensemble.explain(ONE)
    for again in (pickle.loads(pickle.dumps(ensemble)), copy.deepcopy(ensemble)):
        assert json.dumps(again.explain(ONE).to_json()) == json.dumps(first.to_json())


@pytest.mark.parametrize("text", ["InChI=1S/C2H6O/c1-2-3/h3H,2H2,1H3", Chem.MolFromSmiles("CCO"), b"CCO"])
def test_one_molecule_is_explained_in_each_form_that_is_predicted(ensemble, text):
    expected = ensemble.explain("CCO", methods=["attention"])
    for item in ([text], pd.DataFrame({"smiles": [text]}), *([] if isinstance(text, bytes) else [text])):
        found = ensemble.explain(item, methods=["attention"])
        assert (found.title, str(found.predictions)) == ("CCO", str(expected.predictions))
    assert ensemble.predict([text])[0] == pytest.approx(expected.predictions[0].value, rel=1e-6)


@pytest.mark.parametrize("text", ["InChI=1S/ClH/h1H/p-1", Chem.MolFromSmiles("[Cl-]")])
def test_a_molecule_beside_another_is_explained_in_each_form(pairs, text):
    found = pairs.explain([("CCO", text)], conditions=[310.0, 50.0, 5.0], methods=["attention"])
    assert found.sources == {"smiles_1": "CCO", "smiles_2": "[Cl-]"}


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ([None], "explain: smiles: The SMILES is empty"),
        (["InChI=1"], "explain: smiles: 'InChI=1' is not an InChI that RDKit can read"),
        ([5], "explain: smiles: '5' is not a SMILES"),
        (5, "X is a int, where a sequence is expected"),
    ],
)
def test_what_is_no_molecule_is_said(ensemble, item, message):
    with pytest.raises(DataError, match=message):
        ensemble.explain(item)


@pytest.mark.parametrize(
    ("smiles", "conditions", "words", "error", "message"),
    [
        (("CCO", "C"), (), {}, DataError, "explain: 2 SMILES, but the model was trained on 1: smiles."),
        (("CCO",), (1.0,), {}, DataError, "explain: 1 conditions, but the model was trained on 0: none."),
        (("C1CC",), (), {}, DataError, "is not a SMILES that RDKit can read"),
        (("",), (), {}, DataError, "The SMILES is empty"),
        (("CCO",), (), {"target": "z"}, SettingError, "target is 'z'; the model predicts target."),
        (("CCO",), (), {"label": "a"}, SettingError, "target is a number and has no classes; leave it out."),
    ],
)
def test_what_cannot_be_explained_is_said(ensemble, smiles, conditions, words, error, message):
    with pytest.raises(error, match=message):
        explain_molecule(ensemble.trained_, smiles, conditions, **words)


def test_one_row_and_finite_conditions(ensemble, pairs):
    with pytest.raises(DataError, match="explain: X has 2 rows; an explanation is of one"):
        ensemble.explain(["CCO", "C"])
    with pytest.raises(DataError, match="explain: condition_1 is inf, expected a finite number"):
        pairs.explain([("CCO", "C")], conditions=[math.inf, 1.0, 1.0])


@pytest.mark.parametrize("together", [1, 5])
def test_points_of_an_integral_that_are_computed_together_stay_apart(ensemble, monkeypatch, together):
    expected = named(ensemble.explain("CC(=O)O", methods=GRADIENTS))
    monkeypatch.setattr("edgewise.learn.tasks.molecules.explainable.GRADIENT_ATOMS", 4 * together)
    found = named(ensemble.explain("CC(=O)O", methods=GRADIENTS))
    for name in GRADIENTS:
        assert np.abs(expected[name]).max() > 1e-3
        np.testing.assert_allclose(found[name], expected[name], atol=1e-5)


def test_a_sum_over_atoms_is_explained_by_its_terms():
    """Where each element adds a number of its own, and where RDKit's Crippen logP predicts, hydrogens included."""
    table = demo_table(240, seed=3).smiles.tolist()
    texts, known = table[:20], table[20:]
    sample = KnownSample.of([(text,) for text in known], (), MoleculeLimits())
    numbers = np.random.default_rng(0).normal(size=120)

    def by_element(text):
        return np.array([numbers[atom.GetAtomicNum()] for atom in read_molecule(text).GetAtoms()])

    def of(terms):
        scores, errors = [], []
        for text in texts:
            rows = [text, *variants(read_molecule(text))]
            atoms = [environments_of_row((row,)) for row in rows]
            predictions, of_known = (np.array([terms(row).sum() for row in each]) for each in (rows, known))
            found = contributions(atoms, predictions, noise_of(atoms), sample.inputs, of_known)
            assert found.values.sum() + found.baseline == pytest.approx(predictions[0], abs=1e-9)
            if len(set(terms(text))) > 1:
                scores.append(spearman(found.values, terms(text)))
            errors.extend(np.abs(found.values - terms(text)))
        return np.mean(scores), np.mean(errors)

    assert of(by_element)[1] < 0.1  # of numbers that spread by 1
    # Crippen's own way to share between neighbors, such as C and O of a carbonyl, does not follow from sums.
    assert of(atom_contributions)[0] > 0.8


def test_recovery_is_the_mean_correlation_with_the_truth(ensemble):
    """An oxygen counts five, every other atom one."""
    true = {
        text: np.array([5.0 if atom.GetSymbol() == "O" else 1.0 for atom in read_molecule(text).GetAtoms()])
        for text in ("CCCO", "CC(=O)OC")
    }
    found = recovery(ensemble.trained_, true)
    assert set(found) == {*SIGNED, *ATTENTION}
    assert list(found.values()) == sorted(found.values(), reverse=True)
    explained = {text: named(ensemble.explain(text, methods=list(found))) for text in true}
    for name, mean in found.items():
        each = [spearman(explained[text][name], true[text]) for text in true]
        assert mean == pytest.approx(np.mean(each), abs=1e-6)
    # Molecules whose atoms all add the same say nothing.
    assert recovery(ensemble.trained_, {"CCC": np.ones(3), **true}) == found


def test_a_sample_remembers_the_last_predictions_alone():
    """A server that explains rows of ever new conditions does not grow."""
    sample, asked = KnownSample.of([("CCO",)], (), MoleculeLimits()), []
    for number in [*range(MAX_PREDICTIONS + 3), MAX_PREDICTIONS + 2]:
        asked.append(number)
        values = sample.predicted(number, lambda data: np.full(len(data.rows), asked.pop(), dtype=np.float64))
        assert values.tolist() == [number]
    assert asked == [MAX_PREDICTIONS + 2]  # the last one was known
    assert len(sample.predictions) == MAX_PREDICTIONS
