"""Files of trajectories: what is read, which moments are learned from, what is refused."""

import json
from dataclasses import fields

import numpy as np
import pytest
import torch

from edgewise.cli.simulate import archive
from edgewise.errors import DataError, SettingError
from edgewise.learn.readers.motion.dynamics import SYSTEMS, differences, integrate, system_of
from edgewise.learn.readers.motion.motion import MotionRows, read_motion, split_moments
from edgewise.learn.readers.motion.motion import motion_of as without_file

RANDOM = np.random.default_rng(0)
FILE = {
    "positions": RANDOM.normal(size=(10, 6, 3, 2)),
    "velocities": RANDOM.normal(size=(10, 6, 3, 2)),
    "times": np.arange(6) / 2,
    "masses": np.ones((10, 3)),
    "charges": RANDOM.choice([-1.0, 1], (10, 3)),
    "couplings": RANDOM.normal(size=(10, 3, 3)),
    "units": np.array(json.dumps({"time": "day"})),
}


def motion_of(tmp_path, **change):
    path = tmp_path / "motion.npz"
    np.savez(path, **{name: array for name, array in {**FILE, **change}.items() if array is not None})
    return read_motion(str(path))


def test_a_batch_by_hand(tmp_path):
    motion = motion_of(tmp_path)
    assert motion.charges.shape == (10, 3, 2)
    assert motion.units == {"time": "day"}
    batch = MotionRows(motion, np.array([4, 7]), np.array([1, 0]), 3).batch(np.array([1, 0]))
    for first, trajectory, moment in ((0, 7, 0), (3, 4, 1)):
        rows = slice(first, first + 3)
        np.testing.assert_array_equal(batch.positions[rows], motion.positions[trajectory, moment].astype(np.float32))
        np.testing.assert_array_equal(batch.velocities[rows], motion.velocities[trajectory, moment])
        np.testing.assert_array_equal(batch.targets[rows], motion.positions[trajectory, moment + 3].astype(np.float32))
        np.testing.assert_array_equal(batch.charges[rows], motion.charges[trajectory])
    assert batch.edges.num_edges == 12
    for sender, receiver, coupling in zip(batch.edges.senders, batch.edges.receivers, batch.couplings, strict=True):
        assert sender // 3 == receiver // 3
        assert sender != receiver
        trajectory = (7, 4)[int(sender) // 3]
        assert float(coupling) == motion.couplings[trajectory, int(receiver) % 3, int(sender) % 3]


def test_positions_counted_from_the_middle_of_their_bodies(tmp_path):
    far = FILE["positions"] + 2.0**30
    motion, rows = motion_of(tmp_path, positions=far), np.array([1, 0])
    moments = MotionRows(motion, np.array([4, 7]), np.array([1, 0]), 3)
    batch = moments.batch(rows, origins=moments.centers(rows))
    for first, trajectory, moment in ((0, 7, 0), (3, 4, 1)):
        for values, at in ((batch.positions, moment), (batch.targets, moment + 3)):
            expected = far[trajectory, at] - far[trajectory, moment].mean(0)
            np.testing.assert_allclose(values[first : first + 3], expected, atol=1e-6)
            assert values.dtype == torch.float32
    single = motion_of(tmp_path, positions=FILE["positions"].astype(np.float32))
    assert (motion.positions.dtype, single.positions.dtype) == (np.float64, np.float32)


def test_what_a_file_may_lack(tmp_path):
    motion = motion_of(tmp_path, times=None, masses=None, charges=None, couplings=None, units=None)
    assert motion.times.tolist() == [0, 1, 2, 3, 4, 5]
    assert motion.charges.tolist() == np.ones((10, 3, 1)).tolist()
    assert not motion.couplings.any()
    assert motion_of(tmp_path, charges=np.ones((10, 3))).charges.shape == (10, 3, 1), "charges that are the masses"


def test_what_forces_are_counted_in(tmp_path):
    """Couplings; else products of charges; else of masses."""
    product = FILE["charges"][:, :, None] * FILE["charges"][:, None]
    masses = RANDOM.uniform(1, 2, (10, 3))
    for change, expected in [
        ({}, FILE["couplings"]),
        ({"couplings": None, "masses": masses}, product),
        ({"couplings": None, "masses": masses, "charges": None}, masses[:, :, None] * masses[:, None]),
        ({"couplings": None, "masses": None, "charges": None}, np.ones((10, 3, 3))),
    ]:
        motion = motion_of(tmp_path, **change)
        np.testing.assert_allclose(motion.strengths, expected, rtol=1e-6)
        batch = MotionRows(motion, np.array([4]), np.array([1]), 0, "accelerations").batch(np.array([0]))
        senders, receivers = motion.pairs
        np.testing.assert_allclose(batch.couplings[:, 0], expected[4, receivers, senders], rtol=1e-6)


def test_accelerations_of_the_file_or_made_of_it(tmp_path):
    given = RANDOM.normal(size=(10, 6, 3, 2))
    names = np.array(["sun", "earth", "moon"])
    motion = motion_of(tmp_path, accelerations=given, names=names, time_step=np.array(0.25))
    np.testing.assert_array_equal(motion.accelerations, given.astype(np.float32))
    assert (motion.names, motion.time_step, motion.lacks) == (("sun", "earth", "moon"), 0.25, ())
    made = motion_of(tmp_path, masses=None)
    assert (made.names, made.time_step, made.lacks) == (
        ("body 0", "body 1", "body 2"), None, ("accelerations", "masses")
    )  # fmt: skip
    expected = differences(FILE["positions"], FILE["velocities"], FILE["times"])
    np.testing.assert_allclose(made.accelerations, expected, rtol=1e-6)
    parts = split_moments(made, None, 0, (0.6, 0.2, 0.2), 0, "accelerations")
    assert set(parts["test"].moment.tolist()) == {1, 2, 3, 4}, "not at the ends"
    np.testing.assert_array_equal(parts["val"].targets[0], made.accelerations[parts["val"].trajectory[0], 1])


def test_times_in_single_precision_are_evenly_spaced(tmp_path):
    """Steps of 0.01 were called uneven, because single precision rounds them at 16."""
    ticks = np.arange(2000)
    zeros = np.zeros((1, 2000, 2, 2))
    file = {"masses": None, "charges": None, "couplings": None, "positions": zeros, "velocities": zeros}
    for times in ((0.01 * ticks).astype(np.float32), 0.01 * ticks, ticks):
        motion = motion_of(tmp_path, **file, times=times)
        assert motion.times.dtype == np.float64
        assert np.isfinite(motion.accelerations[:, 1:-1]).all()


@pytest.mark.parametrize("kind", SYSTEMS)
def test_a_simulated_system_is_what_its_file_says(kind, tmp_path):
    counts = (1, 9, 3) if kind == "solar" else (3, 4, 2)
    found = integrate(system_of(kind, *counts, 0), time_step=0.01, num_steps=20, keep_every=5)
    (tmp_path / "file.npz").write_bytes(archive(found))
    one, other = without_file(found), read_motion(str(tmp_path / "file.npz"))
    for field in fields(one):
        if field.name != "source":
            np.testing.assert_array_equal(getattr(one, field.name), getattr(other, field.name))
    np.testing.assert_allclose(one.accelerations, found.accelerations, rtol=1e-6)
    assert (one.names, one.law, one.time_step) == (found.system.names, found.system.described, 0.01)
    np.testing.assert_allclose(one.masses, found.system.masses, rtol=1e-7)


def test_errors_of_a_body_are_measured_in_its_own_pulls(tmp_path):
    pulls = RANDOM.normal(size=(10, 6, 3, 2)) * np.array([0, 1, 1e4])[:, None]
    part = split_moments(motion_of(tmp_path, accelerations=pulls), None, 0, (0.6, 0.2, 0.2), 0, "accelerations")[
        "train"
    ]
    rows = np.flatnonzero(part.trajectory == part.trajectory[-1])
    own = np.sqrt((pulls[part.trajectory[-1]] ** 2).mean((0, 2)))
    np.testing.assert_allclose(part.error_scale[rows][:, 1:], np.repeat(own[None, 1:], 6, 0), rtol=1e-5)
    np.testing.assert_array_equal(part.error_scale[:, 0], part.error_scale[:, 1:].min(), "a body that nothing pulls")
    batch = part.batch(rows[:1])
    np.testing.assert_allclose(batch.weights, 1 / part.error_scale[rows[0]], rtol=1e-6)
    still = split_moments(motion_of(tmp_path, accelerations=0 * pulls), None, 0, (0.6, 0.2, 0.2), 0, "accelerations")
    assert (still["train"].error_scale == 1).all(), "nothing pulls anything"
    assert split_moments(motion_of(tmp_path), None, 2, (0.6, 0.2, 0.2), 0)["train"].batch(np.array([0])).weights is None


@pytest.mark.parametrize(
    ("change", "start", "message"),
    [
        ({"times": np.arange(6) ** 2}, None, "array 'accelerations' is missing, and they can be computed"),
        ({}, 0, "--start 0: .* has 6 moments, and accelerations at 1 to 4"),
        ({"masses": np.zeros((10, 3))}, None, "masses holds a number that is not above 0"),
    ],
)
def test_accelerations_that_cannot_be_predicted(tmp_path, change, start, message):
    with pytest.raises((DataError, SettingError), match=message):
        split_moments(motion_of(tmp_path, **change), start, 0, (0.6, 0.2, 0.2), 0, "accelerations")


def test_whole_trajectories_are_parted(tmp_path):
    parts = split_moments(motion_of(tmp_path), None, 2, (0.6, 0.2, 0.2), 0)
    assert [len(part.moment) for part in parts.values()] == [24, 8, 8]
    seen = [set(part.trajectory.tolist()) for part in parts.values()]
    assert seen[0] | seen[1] | seen[2] == set(range(10))
    assert not seen[0] & seen[1] and not seen[0] & seen[2] and not seen[1] & seen[2]
    one = split_moments(motion_of(tmp_path), 3, 2, (0.6, 0.2, 0.2), 0)
    assert [len(part.moment) for part in one.values()] == [6, 2, 2]
    assert set(one["train"].moment.tolist()) == {3}


def test_every_time_step_of_the_training_trajectories_can_be_used(tmp_path):
    sizes, motion = (0.6, 0.2, 0.2), motion_of(tmp_path)
    usual, every = (split_moments(motion, 3, 2, sizes, 0, every_start=each) for each in (False, True))
    assert every["train"].trajectory.tolist() == np.repeat(np.unique(usual["train"].trajectory), 4).tolist()
    assert every["train"].moment.tolist() == [0, 1, 2, 3] * 6
    for part in ("val", "test"):
        assert every[part].moment.tolist() == usual[part].moment.tolist() == [3, 3]
        assert every[part].trajectory.tolist() == usual[part].trajectory.tolist()
    with pytest.raises(SettingError, match="--every-start does nothing where there is no --start"):
        split_moments(motion, None, 2, sizes, 0, every_start=True)
    alone = {name: array[:1] for name, array in FILE.items() if name not in ("times", "units")}
    with pytest.raises(SettingError, match="--every-start does nothing where there is one trajectory"):
        split_moments(motion_of(tmp_path, **alone), 3, 2, sizes, 0, every_start=True)


def test_one_trajectory_is_parted_by_time(tmp_path):
    one = {name: array[:1] for name, array in FILE.items() if name not in ("times", "units")}
    wide = {name: np.repeat(array, 5, axis=1) for name, array in one.items() if array.ndim == 4}
    parts = split_moments(motion_of(tmp_path, **{**one, **wide, "times": np.arange(30)}), None, 2, (0.5, 0.25, 0.25), 0)
    predicted = {part: {*moments.moment.tolist(), *(moments.moment + 2).tolist()} for part, moments in parts.items()}
    assert not predicted["train"] & predicted["val"] and not predicted["val"] & predicted["test"]
    assert max(predicted["test"]) == 29


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"velocities": None}, "the array 'velocities' is missing; the file has positions, times"),
        ({"positions": np.zeros((6, 3, 2))}, r"positions is \(6, 3, 2\), expected \(trajectory, time, body, space\)"),
        ({"positions": np.zeros((10, 6, 1, 2))}, "with two bodies or more"),
        ({"velocities": np.zeros((10, 6, 3, 3))}, r"velocities is \(10, 6, 3, 3\), but positions needs"),
        ({"masses": np.ones((10, 4))}, r"masses is \(10, 4\), but positions needs \(10, 3\)"),
        ({"couplings": np.full((10, 3, 3), np.inf)}, "couplings holds NaN or an infinite number"),
        ({"positions": np.full((10, 6, 3, 2), np.nan)}, "positions holds NaN or an infinite number"),
        ({"units": np.array("days")}, "units is not JSON"),
        ({"law": np.array("1/r")}, "law is not JSON"),
        ({"accelerations": np.zeros((10, 6, 3))}, r"accelerations is \(10, 6, 3\), but positions needs"),
        ({"accelerations": np.full((10, 6, 3, 2), np.inf)}, "accelerations holds NaN or an infinite number"),
        ({"names": np.array(["sun"])}, r"names is \(1,\), but positions needs \(3,\)"),
        ({"time_step": np.array(0.0)}, "time_step is 0.0, expected a number above 0"),
    ],
)
def test_files_that_are_refused(tmp_path, change, message):
    with pytest.raises(DataError, match=message):
        motion_of(tmp_path, **change)


@pytest.mark.parametrize(("start", "ahead"), [(None, 6), (None, 0), (5, 1), (-1, 1)])
def test_moments_that_are_not_there(tmp_path, start, ahead):
    with pytest.raises(SettingError, match=rf"--horizon {ahead}.*has 6 moments, 0 to 5"):
        split_moments(motion_of(tmp_path), start, ahead, (0.6, 0.2, 0.2), 0)
