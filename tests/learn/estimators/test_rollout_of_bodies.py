"""Learned forces let run and read off: with the law itself as the model, by hand, and what is refused."""

import math

import numpy as np
import pytest
import torch

from edgewise import DataError, DynamicsModel, SettingError
from edgewise.cli.simulate import archive
from edgewise.learn.networks.time_settings import DynamicsSettings
from edgewise.learn.readers.motion.dynamics import SYSTEMS, System, integrate, law_of, system_of
from edgewise.learn.readers.motion.motion import Motion, MotionRows, read_motion, split_moments
from edgewise.learn.tasks.motion.forces import (
    exponent,
    read_off,
    roll_out,
    rollout_metrics,
    strongest_pair,
    write_rollout,
)
from edgewise.learn.tasks.motion.model import BodyEncoder, FittedMotion, MotionOutput, Units
from edgewise.learn.tasks.motion.settings import SETTINGS
from edgewise.learn.training.folder import RunFolder

STEP = 2.0**-7
"""A step that adds up without rounding."""


class TheLaw(torch.nn.Module):
    """The law of a file where the model would be, in the units of the model."""

    def __init__(self, motion, trajectories, units):
        super().__init__()
        couplings = motion.couplings[trajectories].astype(np.float64)
        self.law = law_of(motion.law, motion.masses[trajectories], couplings)
        self.output, self.shape = MotionOutput(units, 0), (len(trajectories), *motion.positions.shape[2:])

    def forward(self, batch):
        positions = (batch.positions.double() * self.output.units.length).reshape(self.shape).numpy()
        return torch.from_numpy(self.law(positions)[0] / self.output.unit).flatten(0, 1)


def knowing(motion, trajectories=None, units=None):
    """A model that knows the law of a file."""
    trajectories = np.arange(len(motion.positions)) if trajectories is None else trajectories
    num_charges = motion.charges.shape[-1]
    units = units or Units(1.0, 1.0, (1.0,) * num_charges, 1.0)
    settings = DynamicsSettings(model="forces", target_quantity="accelerations")
    encoder = BodyEncoder(settings, (motion.positions.shape[-1], num_charges))
    law = TheLaw(motion, trajectories, units)
    return FittedMotion(format=SETTINGS.format, encoder=encoder, output=law.output, members=[law])


def written(found, tmp_path):
    (tmp_path / "motion.npz").write_bytes(archive(found))
    return read_motion(str(tmp_path / "motion.npz"))


def file_of(kind, tmp_path, **steps):
    counts = (1, 9, 3) if kind == "solar" else (4, 3, 3)
    return written(integrate(system_of(kind, *counts, 0), **{"time_step": STEP, **steps}), tmp_path)


def simulated(motion, moment, num_moments, keep_every):
    """The simulator, from a moment of a file on."""
    places, speeds = (part[:, moment].astype(np.float64) for part in (motion.positions, motion.velocities))
    masses, couplings = motion.masses, motion.couplings.astype(np.float64)
    law = law_of(motion.law, masses, couplings)
    system = System(places, speeds, masses, masses, couplings, law, motion.names, {})
    steps = {"num_steps": keep_every * (num_moments - 1), "keep_every": keep_every}
    return integrate(system, time_step=motion.time_step, **steps)


@pytest.mark.parametrize("kind", SYSTEMS)
def test_with_the_law_as_the_model_it_is_the_simulator_bit_for_bit(kind, tmp_path):
    motion = file_of(kind, tmp_path, num_steps=80, keep_every=8)
    found, expected = roll_out(knowing(motion), motion, 6, moment=3), simulated(motion, 3, 6, 8)
    np.testing.assert_array_equal(found.positions, expected.positions)
    np.testing.assert_array_equal(found.velocities, expected.velocities)
    np.testing.assert_array_equal(found.times, motion.times[3:9])


def test_the_units_of_a_model_and_the_trajectories_that_are_followed_change_nothing(tmp_path):
    motion = file_of("charges", tmp_path, num_steps=40, keep_every=8)
    chosen, expected = np.array([3, 1]), simulated(motion, 0, 6, 8)
    model = knowing(motion, chosen, Units(3.0, 0.7, (2.0, 5.0), 4.0))
    found = roll_out(model, motion, trajectories=chosen)
    np.testing.assert_allclose(found.positions, expected.positions[chosen], rtol=1e-9)
    np.testing.assert_array_equal(found.trajectories, chosen)


def test_two_bodies_on_a_circle_by_hand():
    """Masses 1 at distance 2: G m / 4 = v² / 1, so v = ½, and a turn takes 4π."""
    positions, velocities = np.zeros((2, 1, 5, 2, 2), dtype=np.float32)
    positions[0, 0, :, 0], velocities[0, 0, :, 1] = (1, -1), (0.5, -0.5)
    ones, law = np.ones((1, 2, 1), dtype=np.float32), {"name": "gravity", "constant": 1.0, "softening": 0.0}
    times = math.pi * np.arange(5)
    motion = Motion("memory", positions, velocities, times, ones, np.ones((1, 2, 2), dtype=np.float32), {}, law=law)
    found = roll_out(knowing(motion), motion, time_step=math.pi / 500)
    circle = np.stack([[np.cos(times / 2), np.sin(times / 2)], [-np.cos(times / 2), -np.sin(times / 2)]])
    np.testing.assert_allclose(found.positions[0], circle.transpose(2, 0, 1), atol=1e-4)
    # Without a step, a tenth of a quarter turn is one: coarse, and still a circle.
    coarse = roll_out(knowing(motion), motion).positions
    np.testing.assert_allclose(np.linalg.norm(coarse, axis=-1), 1, atol=0.02)
    # What comes after the moment from which it runs is not read: zeros stand there.
    scores = rollout_metrics(found, motion, 0)
    assert scores["energy_drift"] < 1e-5
    assert scores["distance"] == pytest.approx(1, abs=1e-4)


def test_what_is_compared(tmp_path):
    motion = file_of("nbody", tmp_path, num_steps=160, keep_every=8)
    found = roll_out(knowing(motion), motion, moment=2)
    scores = rollout_metrics(found, motion, 2)
    assert (scores["trajectories"], scores["moments"], scores["time"]) == (4, 19, 18 * 8 * STEP)
    assert scores["distance"] < 1e-4 < 0.1 < scores["distance_straight_on"]
    assert scores["energy_drift"] == pytest.approx(scores["energy_drift_of_the_file"], rel=1e-2)
    # The energy of the simulator and the one that is computed here are the same.
    with np.load(tmp_path / "motion.npz") as file:
        drift = np.abs(file["energies"][:, 2:] - file["energies"][:, 2:3]).max(-1)
        motions = 0.5 * (file["velocities"][:, 2:] ** 2).sum(-1).max(1).sum(-1)
    assert scores["energy_drift_of_the_file"] == pytest.approx(np.median(drift / motions), rel=1e-2)


def test_the_law_without_couplings(tmp_path):
    """Charges stand for the couplings of the electric law, which counted as zeros in the energy; nothing stands for
    the stiffnesses of springs, and the products of masses stood for them."""
    for kind in ("charges", "springs"):
        motion = file_of(kind, tmp_path, num_steps=80, keep_every=8)
        with np.load(tmp_path / "motion.npz") as file:
            np.savez(tmp_path / "bare.npz", **{name: file[name] for name in file.files if name != "couplings"})
        bare = read_motion(str(tmp_path / "bare.npz"))
        run = roll_out(knowing(motion), motion)
        expected, found = rollout_metrics(run, motion, 0), rollout_metrics(run, bare, 0)
        assert expected["energy_drift"] is not None
        for name in ("energy_drift", "energy_drift_of_the_file"):
            assert found[name] == (pytest.approx(expected[name], rel=1e-6) if kind == "charges" else None)
        training = split_moments(bare, None, 0, (0.5, 0.25, 0.25), 0, "accelerations")["train"]
        model = knowing(motion)
        model.model.law, model.model.shape = law_of(motion.law, np.ones((60, 2)), np.ones((60, 2, 2))), (60, 2, 3)
        assert (read_off(model, training).law is None) == (kind == "springs")


@pytest.mark.parametrize("left_out", [(), ("couplings",), ("couplings", "charges", "masses")])
def test_a_rollout_is_written_with_all_that_its_file_says_of_the_bodies(left_out, tmp_path):
    """Charges, couplings and the law were left out: whoever read the file predicted bodies without them."""
    file_of("charges", tmp_path, num_steps=80, keep_every=8)
    with np.load(tmp_path / "motion.npz") as file:
        np.savez(tmp_path / "part.npz", **{name: file[name] for name in file.files if name not in left_out})
    motion = read_motion(str(tmp_path / "part.npz"))
    test = MotionRows(motion, np.array([1, 3]), np.array([2, 2]), 0, "accelerations")
    (tmp_path / "run").mkdir()
    write_rollout(knowing(motion, np.array([1, 3])), test, RunFolder(tmp_path / "run"))
    found = read_motion(str(tmp_path / "run" / "rollout.npz"))
    np.testing.assert_array_equal(found.charges, motion.charges[[1, 3]])
    np.testing.assert_array_equal(found.couplings, motion.couplings[[1, 3]])
    np.testing.assert_array_equal(found.strengths, motion.strengths[[1, 3]])
    assert (found.law, found.names, found.units) == (motion.law, motion.names, motion.units)
    assert set(found.lacks) == {*left_out, "accelerations"}


class Explosion(torch.nn.Module):
    def forward(self, batch):
        return batch.positions.exp().exp()


def test_bodies_that_fly_to_infinity_are_no_numbers(tmp_path):
    motion = file_of("nbody", tmp_path, num_steps=800, keep_every=40)
    model = knowing(motion)
    model.members = [Explosion()]
    scores = rollout_metrics(roll_out(model, motion), motion, 0)
    assert (scores["distance"], scores["energy_drift"]) == (None, None)
    assert scores["spread"] > 0


@pytest.mark.parametrize(("kind", "power"), [("nbody", -2), ("solar", -2), ("springs", 1), ("charges", -2)])
def test_the_law_is_read_off_of_a_model_that_knows_it(kind, power, tmp_path):
    motion = file_of(kind, tmp_path, num_steps=80, keep_every=8)
    part = split_moments(motion, None, 0, (0.5, 0.25, 0.25), 0, "accelerations")["train"]
    receiver, sender, trajectory = strongest_pair(motion)
    model = knowing(motion)
    # Two bodies alone, sixty times: the prediction is that of the pair, not of the file's bodies.
    law, pair = motion.law, [receiver, sender]
    masses = np.repeat(motion.masses[[trajectory]][:, pair], 60, 0)
    couplings = np.repeat(motion.couplings[[trajectory]][:, pair][:, :, pair].astype(np.float64), 60, 0)
    model.model.law, model.model.shape = law_of(law, masses, couplings), (60, 2, 3)
    pull = read_off(model, part)
    np.testing.assert_allclose(pull.learned, pull.law, rtol=1e-6)
    scores = pull.scores()
    soft = 0.3 if kind == "nbody" else 1e-4  # softened by 0.1
    for name in ("learned", "law"):
        assert scores[name]["exponent"] == pytest.approx(power, abs=soft)
        assert scores[name]["plus_minus"] < soft
    assert scores["largest_error"] < 1e-6
    assert scores["nearest"] < scores["farthest"]
    if kind == "solar":
        assert (pull.sender, pull.receiver) == ("sun", "jupiter")
        assert scores["nearest"] == pytest.approx(0.47, abs=0.02), "Mercury"
        assert scores["farthest"] == pytest.approx(30.1, abs=0.1), "Neptune"
        # G m of the sun by r².
        np.testing.assert_allclose(pull.law * pull.distances**2, 0.01720209895**2, rtol=1e-6)


def test_exponents_by_hand():
    r = np.geomspace(0.1, 10, 60)
    assert exponent(r, 3 * r**-2.5) == {"exponent": pytest.approx(-2.5), "plus_minus": pytest.approx(0, abs=1e-9)}
    assert exponent(r, -(r**1.0))["exponent"] == pytest.approx(1)
    # Half of the way flat, half falling with r⁻²: slopes 0, 0, about −1, −2, −2.
    bent = exponent(r, np.where(r < 1, 1, r**-2.0))
    assert -1.3 < bent["exponent"] < -0.9
    assert bent["plus_minus"] == pytest.approx(1, abs=0.05)
    assert exponent(r, r - 1) is None
    assert exponent(r, 0 * r) is None


def test_nothing_is_read_off_where_nothing_is_coupled(tmp_path):
    motion = file_of("springs", tmp_path, num_steps=8)
    motion.couplings[:] = 0
    part = split_moments(motion, None, 0, (0.5, 0.25, 0.25), 0, "accelerations")["train"]
    assert read_off(knowing(motion), part) is None


@pytest.fixture(scope="module")
def planets(tmp_path_factory):
    """A solar system of ten years, and a model that was trained on six of them for a short time."""
    folder = tmp_path_factory.mktemp("planets")
    system = system_of("solar", 1, 9, 3, 0)
    motion = written(integrate(system, time_step=2.0, num_steps=1_800, keep_every=5), folder)
    model = DynamicsModel(target_quantity="accelerations", epochs=40, model_dim=32, batch_size=20, learning_rate=1e-2)
    return motion, model.fit(motion)


def test_the_law_of_gravity_is_learned_from_the_planets(planets):
    motion, model = planets
    assert model.trained.encoder.settings.model == "forces"
    assert model.metrics_["test"]["relative"] < 0.03
    assert model.metrics_["baselines"]["unpulled"]["test"]["relative"] == pytest.approx(1, abs=0.02)
    part = split_moments(motion, None, 0, (0.6, 0.2, 0.2), 0, "accelerations")["train"]
    assert read_off(model.trained, part).scores()["learned"]["exponent"] == pytest.approx(-2, abs=0.05)


def test_the_face_in_python(planets, tmp_path):
    motion, model = planets
    pulls = model.predict(motion, 7)
    one = MotionRows(motion, np.array([0]), np.array([7]), 0, "accelerations")
    assert model.trained.output.metrics(pulls, one)["relative"] < 0.05
    found = model.rollout(motion, 5, moment=10)
    assert found.positions.shape == (1, 5, 9, 3)
    np.testing.assert_array_equal(found.positions[:, 0], motion.positions[:, 10])
    assert np.abs(found.positions - motion.positions[:, 10:15]).max() < 0.03
    assert model.rollout(motion, moment=355).times.tolist() == motion.times[355:].tolist()
    model.save(tmp_path / "kept")
    again = DynamicsModel.load(tmp_path / "kept")
    np.testing.assert_array_equal(again.rollout(motion, 3).positions, model.rollout(motion, 3).positions)
    assert next(model.trained.model.parameters()).dtype == torch.float32, "as it was before it ran"


def test_rollouts_that_are_refused(planets):
    motion, model = planets
    for words, message in [
        ({"moment": -1}, "moment -1 and num_moments None: .* has 361 moments, 0 to 360"),
        ({"moment": 361}, "moment 361"),
        ({"num_moments": 0}, "num_moments 0"),
        ({"num_moments": 10, "moment": 355}, "moment 355 and num_moments 10"),
        ({"time_step": 0.0}, "time_step is 0; expected a number above 0"),
    ]:
        with pytest.raises(SettingError, match=message):
            model.rollout(motion, **words)
    light = Motion(
        "light", motion.positions, motion.velocities, motion.times, 0 * motion.charges, motion.couplings, {}
    )  # fmt: skip
    for tell in (model.rollout, model.predict):
        with pytest.raises(DataError, match="light: masses holds a number that is not above 0"):
            tell(light)


def test_a_model_that_predicts_positions_cannot_roll_out(planets):
    motion, _ = planets
    model = DynamicsModel(epochs=1, model_dim=8, num_layers=1, batch_size=200).fit(motion)
    with pytest.raises(SettingError, match="a model of positions predicts no velocities"):
        model.rollout(motion)


def test_settings_of_accelerations():
    job = SETTINGS.of({"data": "x.npz", "target_quantity": "accelerations"})
    assert (job.model.model, job.horizon, job.train.learning_rate) == ("forces", 0, 5e-3)
    job = SETTINGS.of({"data": "x.npz", "target_quantity": "accelerations", "model": "equivariant"})
    assert (job.model.num_layers, job.horizon, job.train.learning_rate) == (4, 0, 1e-3)
    job = SETTINGS.of({"data": "x.npz"})
    assert (job.model.model, job.model.target_quantity, job.horizon) == ("equivariant", "positions", 10)
    for config, message in [
        (
            {"target_quantity": "accelerations", "horizon": 10},
            "--horizon 10 does nothing with --target-quantity acc",
        ),
        (
            {"target_quantity": "speeds"},
            "--target-quantity is 'speeds'; expected one of positions, acc",
        ),
        ({"model": "forces"}, "--model forces goes with --target-quantity accelerations"),
        ({"target_quantity": "accelerations", "num_layers": 3}, "--num-layers does nothing with --model forces"),
    ]:
        with pytest.raises(SettingError, match=message):
            SETTINGS.of({"data": "x.npz", **config})


def test_what_masked_positions_hide_is_not_scored(tmp_path):
    motion = file_of("nbody", tmp_path, num_steps=16, keep_every=8)
    model = DynamicsModel()
    model.trained_ = knowing(motion)
    expected = model.predict(motion, moment=1)
    shown = np.ma.array(expected, mask=False)
    shown[0, 0, 0] = np.ma.masked
    shown.data[0, 0, 0] = 1e9
    assert model.score(motion, shown, moment=1) == 1.0
