"""DynamicsModel: which bodies it takes beside those of its training, and what is refused before it trains."""

from dataclasses import replace

import numpy as np
import pytest

from edgewise import DataError, DynamicsModel, SettingError
from edgewise.learn.readers.motion.dynamics import integrate, system_of
from edgewise.learn.readers.motion.motion import arrays_of, motion_of, read_motion

SMALL = {"epochs": 1, "model_dim": 8, "random_state": 0}


def simulated(kind, num_trajectories=12, space_dim=3):
    return integrate(system_of(kind, num_trajectories, 3, space_dim, 0), time_step=0.005, num_steps=100, keep_every=20)


def written(path, **arrays):
    np.savez(path, **{name: array for name, array in arrays.items() if array is not None})
    return read_motion(str(path))


def part(arrays, chosen):
    """Some trajectories of a file."""
    each = ("positions", "velocities", "accelerations", "masses", "charges", "couplings")
    return arrays | {name: arrays[name][chosen] for name in each}


@pytest.fixture(scope="module")
def charged():
    """The arrays of charged bodies; those trajectories in which all charges are +1, as the masses are."""
    arrays = arrays_of(simulated("charges"))
    positive = np.flatnonzero((arrays["charges"] == 1).all(1))
    assert 0 < len(positive) < 12
    return arrays, positive


@pytest.mark.parametrize("model", ["equivariant", "graph_network"])
def test_charges_that_happen_to_be_the_masses(charged, model, tmp_path):
    """Bodies of charge +1 and mass 1 were refused: a file of them alone was read as one without charges."""
    arrays, positive = charged
    whole, alone = written(tmp_path / "whole.npz", **arrays), written(tmp_path / "alone.npz", **part(arrays, positive))
    assert (whole.charges.shape[-1], alone.charges.shape[-1]) == (2, 1)
    fitted = DynamicsModel(**SMALL, horizon=2, model=model).fit(whole, validation=alone)
    np.testing.assert_allclose(fitted.predict(alone), fitted.predict(whole)[positive], atol=1e-5)
    assert np.isfinite(fitted.score(alone))

    bare = written(tmp_path / "bare.npz", **part(arrays, positive) | {"charges": None})
    with pytest.raises(SettingError, match=r"bare.npz: the array 'charges' is missing, which the model was trained on"):
        fitted.predict(bare)
    fitted = DynamicsModel(**SMALL, horizon=2, model=model).fit(alone)
    with pytest.raises(SettingError, match=r"whole.npz has charges that are not the masses, but in the training all"):
        fitted.predict(whole)


def test_learned_forces_read_charges_from_their_products_alone(charged, tmp_path):
    arrays, positive = charged
    whole, alone = written(tmp_path / "whole.npz", **arrays), written(tmp_path / "alone.npz", **part(arrays, positive))
    bare = written(tmp_path / "bare.npz", **arrays | {"couplings": None})
    for training in (whole, alone):
        fitted = DynamicsModel(**SMALL, target_quantity="accelerations").fit(training)
        expected = fitted.predict(whole)
        np.testing.assert_allclose(fitted.predict(alone), expected[positive], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(fitted.predict(bare), expected, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            fitted.rollout(alone).positions, fitted.rollout(whole).positions[positive], rtol=1e-4, atol=1e-5
        )


def test_a_score_of_accelerations_needs_a_moment_that_has_them(tmp_path):
    """Those made of positions and velocities lack the first moment, which was called an empty y."""
    made = written(tmp_path / "made.npz", **arrays_of(simulated("springs")) | {"accelerations": None})
    fitted = DynamicsModel(**SMALL, target_quantity="accelerations").fit(made)
    for moment in (0, 5):
        with pytest.raises(SettingError, match=rf"^moment {moment}: .* has 6 moments, and accelerations at 1 to 4.$"):
            fitted.score(made, moment=moment)
    targets = made.accelerations[:, 1]
    assert fitted.score(made, moment=1) == pytest.approx(fitted.score(made, targets, moment=1))
    two = written(tmp_path / "two.npz", **{name: getattr(made, name)[:, :2] for name in ("positions", "velocities")})
    with pytest.raises(DataError, match=r"two.npz: the array 'accelerations' is missing, and they can be computed"):
        fitted.score(two, moment=0)


@pytest.mark.parametrize("model", ["equivariant", "graph_network"])
@pytest.mark.parametrize(
    ("kind", "space_dim", "message"),
    [
        ("charges", 2, "the validation has 2 dimensions, but the model was trained on 3"),
        ("charges", 3, "the validation: the array 'charges' is missing, which the model was trained on"),
    ],
)
def test_validation_bodies_are_checked_before_the_training(model, kind, space_dim, message, monkeypatch):
    """They were refused after all epochs, or torch failed on them."""
    training = motion_of(simulated(kind))
    validation = replace(motion_of(simulated(kind, 4, space_dim)), source="the validation")
    if space_dim == 3:
        validation = replace(validation, charges=validation.charges[..., :1], lacks=("charges",))
    monkeypatch.setattr("edgewise.learn.estimators.motion.train", lambda *_: pytest.fail("it trains"))
    with pytest.raises(SettingError, match=message):
        DynamicsModel(**SMALL, horizon=2, model=model).fit(training, validation=validation)
