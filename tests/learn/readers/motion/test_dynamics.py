"""Bodies in motion: by hand, by Kepler, by loops; energy, momentum and the way back."""

import math

import numpy as np
import pytest

from edgewise.errors import SettingError
from edgewise.learn.readers.motion.dynamics import (
    GAUSS,
    NO_UNITS,
    PLANETS,
    SYSTEMS,
    System,
    differences,
    elastic,
    electric,
    gravity,
    integrate,
    law_of,
    leapfrog,
    system_of,
)


def two(positions, velocities, law):
    ones = np.ones((1, 2))
    places, speeds = np.array([positions], dtype=float), np.array([velocities], dtype=float)
    return System(places, speeds, ones, ones, np.ones((1, 2, 2)), law, ("a", "b"), NO_UNITS)


def test_two_bodies_on_a_circle():
    """Masses 1 at distance 2: G m / 4 = v² / 1, so v = ½ and a turn takes 4π."""
    system = two([[1, 0], [-1, 0]], [[0, 0.5], [0, -0.5]], gravity(np.ones((1, 2)), 1.0))
    found = integrate(system, time_step=4 * math.pi / 10_000, num_steps=10_000, keep_every=2_500)
    np.testing.assert_allclose(found.positions[0, 1, 0], [0, 1], atol=1e-5)
    np.testing.assert_allclose(found.positions[0, 4], [[1, 0], [-1, 0]], atol=1e-5)
    np.testing.assert_allclose(found.energies, 0.25 - 0.5, atol=1e-6)
    np.testing.assert_allclose(found.times, math.pi * np.arange(5))


def test_two_bodies_on_a_spring():
    """x swings as cos(√(2k) t)."""
    springs = np.array([[[0, 0.5], [0.5, 0]]])
    found = integrate(two([[1, 0], [-1, 0]], np.zeros((2, 2)), elastic(springs)), time_step=1e-3, num_steps=2_000)
    np.testing.assert_allclose(found.positions[0, :, 0, 0], np.cos(found.times), atol=1e-5)
    np.testing.assert_allclose(found.energies, 0.5 * 0.5 * 4, atol=1e-6)


def test_charges_by_loops():
    system = system_of("charges", 3, 4, 3, 0)
    pulls, energy = system.law(system.positions)
    for trajectory in range(3):
        potential = 0.0
        for i in range(4):
            pull = np.zeros(3)
            for j in range(4):
                if i != j:
                    apart = system.positions[trajectory, i] - system.positions[trajectory, j]
                    product = system.charges[trajectory, i] * system.charges[trajectory, j]
                    pull += product * apart / np.linalg.norm(apart) ** 3
                    potential += 0.5 * product / np.linalg.norm(apart)
            np.testing.assert_allclose(pulls[trajectory, i], pull)
        assert energy[trajectory] == pytest.approx(potential)
    near = np.array([[[0.0, 0], [0.01, 0]]])
    alike = electric(np.ones((1, 2, 2)), 100.0)(near)[0]
    np.testing.assert_allclose(alike, [[[-100, 0], [100, 0]]]), "10,000 is cut"
    assert set(np.unique(system.charges)) == {-1, 1}
    np.testing.assert_allclose(np.linalg.norm(system.velocities, axis=-1), 0.5)


@pytest.mark.parametrize("kind", SYSTEMS)
def test_energy_and_momentum_are_kept_and_the_way_leads_back(kind):
    counts = (1, 9, 3) if kind == "solar" else (20, 5, 3)
    system = system_of(kind, *counts, 1)
    step = {"time_step": 5.0, "num_steps": 400} if kind == "solar" else {"time_step": 5e-4, "num_steps": 400}
    found = integrate(system, keep_every=100, **step)
    assert np.median(found.drift) < 1e-4
    momentum = (system.masses[:, None, :, None] * found.velocities).sum(2)
    np.testing.assert_allclose(momentum, momentum[:, :1].repeat(5, axis=1), atol=1e-10)
    ends = found.positions[:, -1], -found.velocities[:, -1]
    back = System(*ends, system.masses, system.charges, system.couplings, system.law, system.names, system.units)
    again = integrate(back, keep_every=400, **step)
    np.testing.assert_allclose(again.positions[:, -1], system.positions, atol=1e-6)


@pytest.mark.parametrize("kind", SYSTEMS)
def test_accelerations_that_are_kept_are_those_of_the_law_and_of_the_law_that_is_described(kind):
    system = system_of(kind, *((1, 9, 3) if kind == "solar" else (3, 4, 2)), 0)
    found = integrate(system, time_step=1e-3, num_steps=20, keep_every=5)
    described = law_of(system.described, system.masses, system.couplings)
    for law in (system.law, described):
        for moment in range(5):
            np.testing.assert_array_equal(found.accelerations[:, moment], law(found.positions[:, moment])[0])


def test_an_unknown_law_is_none():
    assert law_of({}, np.ones((1, 2)), np.ones((1, 2, 2))) is None
    assert law_of({"name": "magnetic"}, np.ones((1, 2)), np.ones((1, 2, 2))) is None


def test_differences_are_right_up_to_the_fifth_power():
    """x = t⁵ and x = t⁴ have accelerations 20 t³ and 12 t², whatever the step; of x = t⁶, h⁴ is left."""
    times = np.arange(-2, 3) * 0.5
    positions, velocities, accelerations = (
        np.stack([a * times ** (5 - down), b * times ** (4 - down)], -1)[None, :, None]
        for down, a, b in ((0, 1, 1), (1, 5, 4), (2, 20, 12))
    )
    found = differences(positions, velocities, times)
    assert np.isnan(found[:, [0, -1]]).all()
    np.testing.assert_allclose(found[:, 1:-1], accelerations[:, 1:-1], atol=1e-12)
    sixth = [power[None, :, None, None] for power in (times**6, 6 * times**5, 30 * times**4)]
    off = (differences(sixth[0], sixth[1], times) - sixth[2])[0, 1:-1, 0, 0]
    np.testing.assert_allclose(off, -2 * 0.5**4, atol=1e-12)


def test_differences_of_a_circle_and_where_there_are_none():
    times = np.arange(50) * 0.1
    positions = np.stack([np.cos(times), np.sin(times)], -1)[None, :, None]
    velocities = np.stack([-np.sin(times), np.cos(times)], -1)[None, :, None]
    np.testing.assert_allclose(differences(positions, velocities, times)[:, 1:-1], -positions[:, 1:-1], atol=1e-6)
    for moments in (times**2, times[::-1]):
        assert np.isnan(differences(positions, velocities, moments)).all()
    assert np.isnan(differences(positions[:, :2], velocities[:, :2], times[:2])).all()


def test_differences_at_times_that_their_precision_rounds():
    """Steps of 0.01 are rounded to 0.00999832 and 0.01000023 by single precision at 16; they count as even."""
    times = (np.arange(2000) * 0.01).astype(np.float32)
    assert not np.allclose(np.diff(times.astype(float)), 0.01, rtol=1e-5, atol=0)
    exact = np.arange(2000) * 0.01
    positions, velocities = (values[None, :, None, None] for values in (exact**2, 2 * exact))
    np.testing.assert_allclose(differences(positions, velocities, times)[:, 1:-1], 2, rtol=1e-5)
    assert np.isnan(differences(positions, velocities, times.astype(float))).all(), "no rounding of double precision"
    uneven = times + np.where(np.arange(2000) == 1500, 5e-5, 0).astype(np.float32)
    coarse = 2.0**20 + np.cumsum([0, 0.25, 0.25, 0.125]).astype(np.float32)  # single precision there has steps of 0.125
    for moments in (uneven, coarse):
        assert np.isnan(differences(positions[:, : len(moments)], velocities[:, : len(moments)], moments)).all()


def test_pulls_that_depend_on_velocities():
    """A drag a = −v: v = exp(−t)."""
    one = np.ones((1, 1, 1))
    *_, (_, speeds, pulls, known) = leapfrog(
        lambda x, v: (-v, "said"), 0 * one, one, time_step=1e-3, num_steps=1_000, keep_every=500
    )
    assert float(speeds[0, 0, 0]) == pytest.approx(math.exp(-1), rel=1e-3)
    assert (float(pulls[0, 0, 0]), known) == (pytest.approx(-math.exp(-1), rel=1e-3), "said")


def test_half_the_step_is_a_quarter_of_the_error():
    system = system_of("nbody", 5, 4, 3, 3)
    errors = []
    exact = integrate(system, time_step=1e-4, num_steps=5_000, keep_every=5_000).positions[:, -1]
    for steps in (50, 100):
        found = integrate(system, time_step=0.5 / steps, num_steps=steps, keep_every=steps).positions[:, -1]
        errors.append(np.abs(found - exact).max())
    assert 3 < errors[0] / errors[1] < 5


def test_planets_obey_kepler():
    system = system_of("solar", 1, 9, 3, 0)
    from_sun = system.positions[0, 1:] - system.positions[0, 0]
    speeds = system.velocities[0, 1:] - system.velocities[0, 0]
    for place, (half_axis, eccentricity, inclination, *_) in enumerate(PLANETS.values()):
        x, v = from_sun[place], speeds[place]
        distance = np.linalg.norm(x)
        # Vis-viva, and the orbit's plane and ellipse out of position and velocity.
        assert v @ v == pytest.approx(GAUSS**2 * (2 / distance - 1 / half_axis), rel=1e-9)
        spin = np.cross(x, v)
        assert math.degrees(math.acos(spin[2] / np.linalg.norm(spin))) == pytest.approx(abs(inclination), abs=1e-5)
        oval = np.cross(v, spin) / GAUSS**2 - x / distance
        assert np.linalg.norm(oval) == pytest.approx(eccentricity, rel=1e-6)
    # On 2000 January 1 the sun stood near ecliptic longitude 280.5°, so the earth is opposite.
    assert math.degrees(math.atan2(from_sun[2][1], from_sun[2][0])) % 360 == pytest.approx(100.4, abs=0.5)
    year = integrate(system, time_step=365.25636 / 2_000, num_steps=2_000, keep_every=2_000)
    moved = year.positions[0, 1, 3] - year.positions[0, 1, 0] - from_sun[2]
    assert np.linalg.norm(moved) < 2e-3, "after a sidereal year the earth is back but for the pull of the others"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("comets", 1, 5, 3, 0), "'comets' is not a system; expected one of nbody, solar"),
        (("solar", 2, 9, 3, 0), "the solar system is one, of nine bodies"),
        (("nbody", 0, 5, 3, 0), "--num-trajectories 0"),
        (("springs", 1, 1, 3, 0), "--num-bodies 1"),
        (("charges", 1, 5, 4, 0), "--space-dim 4"),
    ],
)
def test_systems_that_are_refused(words, message):
    with pytest.raises(SettingError, match=message):
        system_of(*words)


def test_steps_that_are_refused():
    system = system_of("nbody", 1, 2, 2, 0)
    for step in ({"time_step": 0, "num_steps": 5}, {"time_step": 1, "num_steps": 5, "keep_every": 6}):
        with pytest.raises(SettingError, match="do not fit"):
            integrate(system, **step)
    wild = two([[1, 0], [-1, 0]], np.zeros((2, 2)), elastic(np.array([[[0, 1e9], [1e9, 0]]])))
    with np.errstate(all="ignore"), pytest.raises(SettingError, match="a body flew to infinity; take a smaller step"):
        integrate(wild, time_step=10.0, num_steps=2_000)
