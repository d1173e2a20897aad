"""Bodies that attract and repel each other: systems to simulate, and trajectories by a symplectic integrator.

    v ← v + h/2 a(x);  x ← x + h v;  v ← v + h/2 a(x)        (leapfrog, "kick, drift, kick")

It is reversible and preserves phase-space volume, so that the energy oscillates by O(h²) and does not drift.
Source: Verlet 1967; Hairer, Lubich & Wanner 2003.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np
from jaxtyping import Float

from edgewise.errors import DataError, SettingError

Places = Float[np.ndarray, " trajectory body space"]
Laws = Callable[[Places], tuple[Places, Float[np.ndarray, " trajectory"]]]
"""From positions to the accelerations and the potential energy."""
Extras = TypeVar("Extras")
Pulls = Callable[[Places, Places], tuple[Places, Extras]]
"""From positions and velocities to the accelerations, and whatever else is known then."""


MAX_ROUNDED = 0.01
"""How much of a step may be rounding where steps count as the same."""


@dataclass(frozen=True, eq=False)
class System:
    """Bodies at the beginning, and the law they follow."""

    positions: Places
    """Where they are."""
    velocities: Places
    """How fast they go."""
    masses: Float[np.ndarray, " trajectory body"]
    """How heavy they are."""
    charges: Float[np.ndarray, " trajectory body"]
    """What the law knows of each body: its mass, its charge; 1 where only pairs differ."""
    couplings: Float[np.ndarray, " trajectory body body"]
    """What the law knows of each pair: the product of their charges, or the stiffness of a spring."""
    law: Laws
    """Accelerations and potential energy."""
    names: tuple[str, ...]
    """What the bodies are called."""
    units: dict[str, str]
    """The unit of time, position, velocity, acceleration, mass, charge and energy."""
    described: Mapping[str, object] = field(default_factory=dict)
    """The law in words that a file can keep, as `law_of` reads them; nothing where it has none."""


@dataclass(frozen=True, eq=False)
class Trajectories:
    """What became of a system, at some moments."""

    system: System
    """How it began."""
    times: Float[np.ndarray, " time"]
    """The recorded moments, 0 for the beginning."""
    positions: Float[np.ndarray, " trajectory time body space"]
    """Where the bodies were."""
    velocities: Float[np.ndarray, " trajectory time body space"]
    """How fast they went."""
    accelerations: Float[np.ndarray, " trajectory time body space"]
    """How hard they were pulled, by their masses."""
    time_step: float
    """h of the integrator."""
    energies: Float[np.ndarray, " trajectory time"]
    """Kinetic and potential energy together."""

    @property
    def drift(self) -> Float[np.ndarray, " trajectory"]:
        """How far the energy ever was from its beginning, as a part of the largest kinetic energies of the bodies.

        The energy itself may be nearly zero; what bodies have in motion is what an error is to be compared with.
        """
        return drift_of(self.energies, self.velocities, self.system.masses)


def drift_of(
    energies: Float[np.ndarray, " trajectory time"],
    velocities: Float[np.ndarray, " trajectory time body space"],
    masses: Float[np.ndarray, " trajectory body"],
) -> Float[np.ndarray, " trajectory"]:
    """How far energies ever were from their beginning, as a part of the largest kinetic energies of the bodies."""
    return np.abs(energies - energies[:, :1]).max(-1) / kinetic(velocities, masses[:, None]).max(1).sum(-1)


def kinetic(velocities: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """½ m v² of every body: (*batch, body, space) and (*batch, body) to (*batch, body)."""
    return 0.5 * masses * (velocities**2).sum(-1)


def integrate(system: System, *, time_step: float, num_steps: int, keep_every: int = 1) -> Trajectories:
    """Lets a system run.

    Args:
        system: How it begins.
        time_step: h, in the system's unit of time.
        num_steps: How many.
        keep_every: record every so many steps, the beginning included.

    Raises:
        SettingError: A number is out of range, or a body flies to infinity.
    Cost: O(num_steps · trajectory · body²).
    """
    if not (time_step > 0 and num_steps >= 1 and 1 <= keep_every <= num_steps):
        raise SettingError(
            f"--time-step {time_step:g}, --num-steps {num_steps} and --keep-every {keep_every} do not fit: expected a "
            "step above 0, at least one of them, and one recorded."
        )

    recorded = list(
        leapfrog(
            lambda points, _: system.law(points), system.positions, system.velocities, time_step=time_step,
            num_steps=num_steps, keep_every=keep_every,
        )
    )  # fmt: skip
    positions, velocities, accelerations, potential = (np.stack(parts, axis=1) for parts in zip(*recorded, strict=True))
    if not np.isfinite(positions).all():
        raise SettingError(f"--time-step {time_step:g}: a body flew to infinity; take a smaller step.")

    times = time_step * keep_every * np.arange(len(recorded))
    energies = potential + kinetic(velocities, system.masses[:, None]).sum(-1)
    return Trajectories(system, times, positions, velocities, accelerations, time_step, energies)


def leapfrog(
    pull: Pulls[Extras], positions: Places, velocities: Places, *, time_step: float, num_steps: int, keep_every: int
) -> Iterator[tuple[Places, Places, Places, Extras]]:
    """Positions, velocities and what `pull` gives, at the beginning and after every `keep_every` steps.

    Where the accelerations depend on velocities, those in the middle of the step are handed over, and the scheme is
    symplectic no more.
    """
    coordinates, speeds = positions.copy(), velocities.copy()
    pulls, extras = pull(coordinates, speeds)
    for step in range(num_steps + 1):
        if step % keep_every == 0:
            yield coordinates.copy(), speeds.copy(), pulls, extras
        if step < num_steps:
            speeds += 0.5 * time_step * pulls
            coordinates += time_step * speeds
            pulls, extras = pull(coordinates, speeds)
            speeds += 0.5 * time_step * pulls


def pairs(positions: Places) -> tuple[np.ndarray, np.ndarray]:
    """x_j − x_i (trajectory, i, j, space), and its squared length, 1 from a body to itself."""
    apart = positions[:, None] - positions[:, :, None]
    squared = (apart**2).sum(-1)
    squared += np.eye(positions.shape[1])
    return apart, squared


def gravity(masses: Float[np.ndarray, " trajectory body"], constant: float, softening: float = 0.0) -> Laws:
    """a_i = Σ_j G m_j (x_j − x_i) / (r² + ε²)^{3/2}, from −½ Σ_ij G m_i m_j / √(r² + ε²)."""

    def law(positions: Places) -> tuple[np.ndarray, np.ndarray]:
        apart, squared = pairs(positions)
        near = 1 / np.sqrt(squared + softening**2)
        weight = constant * masses[:, None, :] * near**3
        others = ~np.eye(positions.shape[1], dtype=bool)
        energy = -0.5 * constant * (masses[:, None, :] * masses[:, :, None] * near * others).sum((1, 2))
        return np.einsum("tij,tijs->tis", weight, apart), energy

    return law


def electric(couplings: Float[np.ndarray, " trajectory body body"], largest: float = np.inf) -> Laws:
    """a_i = −Σ_j c_ij (x_j − x_i) / r³, no component beyond `largest`; from ½ Σ_ij c_ij / r. Bodies weigh 1."""
    off = couplings * ~np.eye(couplings.shape[1], dtype=bool)

    def law(positions: Places) -> tuple[np.ndarray, np.ndarray]:
        apart, squared = pairs(positions)
        near = 1 / np.sqrt(squared)
        pulls = -np.einsum("tij,tijs->tis", off * near**3, apart)
        return pulls.clip(-largest, largest), 0.5 * (off * near).sum((1, 2))

    return law


def elastic(couplings: Float[np.ndarray, " trajectory body body"]) -> Laws:
    """a_i = Σ_j k_ij (x_j − x_i), from ¼ Σ_ij k_ij r². Bodies weigh 1, springs have the length 0 at rest."""

    def law(positions: Places) -> tuple[np.ndarray, np.ndarray]:
        apart, squared = pairs(positions)
        off = couplings * ~np.eye(couplings.shape[1], dtype=bool)
        return np.einsum("tij,tijs->tis", off, apart), 0.25 * (off * squared).sum((1, 2))

    return law


def law_of(
    described: Mapping[str, object],
    masses: Float[np.ndarray, " trajectory body"],
    couplings: Float[np.ndarray, " trajectory body body"],
) -> Laws | None:
    """The law that a file describes, such as {"name": "gravity", "constant": 1, "softening": 0.1}.

    Returns:
        None where it is none of gravity, electric and elastic.
    """
    name = described.get("name")
    if name == "gravity":
        return gravity(masses, _number(described, "constant"), _number(described, "softening"))
    if name == "electric":
        return electric(couplings, _number(described, "largest"))

    return elastic(couplings) if name == "elastic" else None


def _number(described: Mapping[str, object], name: str) -> float:
    value = described.get(name)
    if not isinstance(value, int | float):
        raise DataError(f"the law {described['name']}: {name} is {value!r:.60}; expected a number.")
    return float(value)


def differences(
    positions: Float[np.ndarray, " trajectory time body space"],
    velocities: Float[np.ndarray, " trajectory time body space"],
    times: Float[np.ndarray, " time"],
) -> Float[np.ndarray, " trajectory time body space"]:
    """Accelerations out of positions and velocities at evenly spaced moments, h apart.

        a(t) ≈ 2 (x(t+h) − 2 x(t) + x(t−h)) / h² − (v(t+h) − v(t−h)) / 2h,   wrong by O(h⁴)

    Each of the two terms is wrong by O(h²), and what is wrong with them cancels.

    Args:
        positions, velocities: Of the bodies.
        times: In the precision in which they were written, which rounds steps that are the same.

    Returns:
        NaN at the first and the last moment, and everywhere where the moments are not evenly spaced.
    """
    accelerations = np.full(positions.shape, np.nan)
    steps = np.diff(times.astype(np.float64))
    if len(steps) < 2:
        return accelerations
    h = steps.mean()
    rounded = min(2 * float(np.spacing(np.abs(times).max())), MAX_ROUNDED * h)
    if not h > 0 or not np.allclose(steps, h, rtol=1e-5, atol=rounded):
        return accelerations
    x, v = positions.astype(np.float64), velocities.astype(np.float64)
    accelerations[:, 1:-1] = 2 * (x[:, 2:] - 2 * x[:, 1:-1] + x[:, :-2]) / h**2 - (v[:, 2:] - v[:, :-2]) / (2 * h)

    return accelerations


SYSTEMS = ("nbody", "solar", "springs", "charges")
NO_UNITS = dict.fromkeys(("time", "position", "velocity", "acceleration", "mass", "charge", "energy"), "1")
GAUSS = 0.01720209895
"""Gauss's constant: the square root of the sun's G m in AU³ / day²."""
PLANETS = {
    "mercury": (0.38709927, 0.20563593, 7.00497902, 252.25032350, 77.45779628, 48.33076593, 6_023_600),
    "venus": (0.72333566, 0.00677672, 3.39467605, 181.97909950, 131.60246718, 76.67984255, 408_523.71),
    "earth and moon": (1.00000261, 0.01671123, -0.00001531, 100.46457166, 102.93768193, 0.0, 328_900.56),
    "mars": (1.52371034, 0.09339410, 1.84969142, -4.55343205, -23.94362959, 49.55953891, 3_098_708),
    "jupiter": (5.20288700, 0.04838624, 1.30439695, 34.39644051, 14.72847983, 100.47390909, 1047.3486),
    "saturn": (9.53667594, 0.05386179, 2.48599187, 49.95424423, 92.59887831, 113.66242448, 3497.898),
    "uranus": (19.18916464, 0.04725744, 0.77263783, 313.23810451, 170.95427630, 74.01692503, 22902.98),
    "neptune": (30.06992276, 0.00859048, 1.77004347, -55.12002969, 44.96476227, 131.78422574, 19412.24),
}
"""Orbits at J2000 about the sun, ecliptic and equinox of J2000: half the long axis in AU, eccentricity, and in degrees
inclination, mean longitude, longitude of perihelion and of the ascending node; and the sun's mass in the planet's.

Source: Standish & Williams, *Approximate positions of the planets* (JPL), table 1; IAU 1976 to 2009 for the masses.
"""


def system_of(kind: str, num_trajectories: int, num_bodies: int, space_dim: int, seed: int) -> System:
    """A system by its name.

    Args:
        kind: one of `SYSTEMS`.
        num_trajectories: how many beginnings are drawn; the solar system has one.
        num_bodies: of each; the solar system has nine.
        space_dim: 2 or 3; the solar system has 3.
        seed: of the draw.

    Raises:
        SettingError: a number is out of range, or does not fit the solar system.
    """
    if kind not in SYSTEMS:
        raise SettingError(f"{kind!r} is not a system; expected one of {', '.join(SYSTEMS)}.")
    if num_trajectories < 1 or num_bodies < 2 or space_dim not in (2, 3) or seed < 0:
        raise SettingError(
            f"--num-trajectories {num_trajectories}, --num-bodies {num_bodies}, --space-dim {space_dim} and --seed "
            f"{seed}: expected at least 1, at least 2, 2 or 3, and at least 0."
        )
    if kind == "solar":
        return solar_system(num_trajectories, num_bodies, space_dim)

    random = np.random.default_rng(seed)
    shape = (num_trajectories, num_bodies, space_dim)
    return {"nbody": attracting, "springs": hanging, "charges": charged}[kind](shape, random)


def attracting(shape: tuple[int, int, int], random: np.random.Generator) -> System:
    """Bodies of mass 1 under gravity, G = 1, softened by 0.1, seen from their center of mass; normal beginnings."""
    positions, velocities = random.normal(size=shape), random.normal(size=shape)
    velocities -= velocities.mean(axis=1, keepdims=True)
    masses = np.ones(shape[:2])
    described = {"name": "gravity", "constant": 1.0, "softening": 0.1}
    return _system(positions, velocities, masses, masses, _products(masses), _names(shape), NO_UNITS, described)


def hanging(shape: tuple[int, int, int], random: np.random.Generator) -> System:
    """Bodies of which every second pair, drawn at random, hangs on a spring of stiffness 0.1.

    Source: Kipf et al. 2018 (NRI), without its walls.
    """
    upper = np.triu(random.random((shape[0], shape[1], shape[1])) < 0.5, 1)
    springs = 0.1 * (upper | upper.swapaxes(1, 2))
    positions, velocities = 0.5 * random.normal(size=shape), _of_speed(random.normal(size=shape), 0.5)
    ones = np.ones(shape[:2])
    return _system(positions, velocities, ones, ones, springs, _names(shape), NO_UNITS, {"name": "elastic"})


def charged(shape: tuple[int, int, int], random: np.random.Generator) -> System:
    """Bodies of charge +1 or −1, equally likely, that pull and push each other; beginnings normal, of speed 0.5.

    No component of a force is larger than 100, which matters only where bodies nearly meet.
    Source: Satorras et al. 2021, section 5.1, after Kipf et al. 2018: five bodies, steps of 0.001.
    """
    charges = random.choice([-1.0, 1.0], size=shape[:2])
    positions, velocities = random.normal(size=shape), _of_speed(random.normal(size=shape), 0.5)
    ones, described = np.ones(shape[:2]), {"name": "electric", "largest": 100.0}
    return _system(positions, velocities, ones, charges, _products(charges), _names(shape), NO_UNITS, described)


def solar_system(num_trajectories: int, num_bodies: int, space_dim: int) -> System:
    """The sun and its eight planets at J2000 (2000 January 1, 12 h), in AU, days and solar masses."""
    if (num_trajectories, num_bodies, space_dim) != (1, 9, 3):
        raise SettingError(
            "the solar system is one, of nine bodies in three dimensions; leave out --num-trajectories, --num-bodies "
            "and --space-dim."
        )

    states = [np.zeros((2, 3)), *(state_of(*elements[:6]) for elements in PLANETS.values())]
    masses = np.array([[1.0, *(1 / elements[6] for elements in PLANETS.values())]])
    positions, velocities = (np.stack([state[part] for state in states])[None] for part in range(2))
    for parts in (positions, velocities):  # seen from the center of mass, which stays where it is
        parts -= (masses[..., None] * parts).sum(axis=1, keepdims=True) / masses.sum()
    units = {"time": "day", "position": "au", "velocity": "au_per_day", "acceleration": "au_per_day2"}
    units |= {"mass": "solar", "charge": "solar", "energy": "solar_mass_au2_per_day2"}
    described = {"name": "gravity", "constant": GAUSS**2, "softening": 0.0}

    return _system(positions, velocities, masses, masses, _products(masses), ("sun", *PLANETS), units, described)


def state_of(
    half_axis: float, eccentricity: float, inclination: float, longitude: float, perihelion: float, node: float
) -> np.ndarray:
    """(2, 3): position in AU and velocity in AU a day on an orbit about the sun.

    Kepler's equation M = E − e sin E by Newton's method; then the ellipse is turned from its plane into the ecliptic.
    The arguments are those of `PLANETS`.
    """
    tilt, turn, rise = (math.radians(angle) for angle in (inclination, perihelion - node, node))
    mean = math.radians((longitude - perihelion) % 360)
    anomaly = mean + eccentricity * math.sin(mean)
    for _ in range(20):
        error = anomaly - eccentricity * math.sin(anomaly) - mean
        anomaly -= error / (1 - eccentricity * math.cos(anomaly))

    short = math.sqrt(1 - eccentricity**2)
    rate = GAUSS / math.sqrt(half_axis) / (1 - eccentricity * math.cos(anomaly))
    flat = np.array(
        [
            [half_axis * (math.cos(anomaly) - eccentricity), half_axis * short * math.sin(anomaly), 0],
            [-rate * math.sin(anomaly), rate * short * math.cos(anomaly), 0],
        ]
    )

    return flat @ (_about_z(rise) @ _about_x(tilt) @ _about_z(turn)).T


def _about_z(angle: float) -> np.ndarray:
    cos, sin = math.cos(angle), math.sin(angle)
    return np.array([[cos, -sin, 0], [sin, cos, 0], [0, 0, 1]])


def _about_x(angle: float) -> np.ndarray:
    cos, sin = math.cos(angle), math.sin(angle)
    return np.array([[1, 0, 0], [0, cos, -sin], [0, sin, cos]])


def _system(
    positions: np.ndarray,
    velocities: np.ndarray,
    masses: np.ndarray,
    charges: np.ndarray,
    couplings: np.ndarray,
    names: tuple[str, ...],
    units: dict[str, str],
    described: Mapping[str, object],
) -> System:
    """A system and the law that is described."""
    law = law_of(described, masses, couplings)
    assert law is not None
    return System(positions, velocities, masses, charges, couplings, law, names, units, described)


def _products(charges: np.ndarray) -> np.ndarray:
    return charges[:, None] * charges[:, :, None]


def _of_speed(velocities: np.ndarray, speed: float) -> np.ndarray:
    return speed * velocities / np.linalg.norm(velocities, axis=-1, keepdims=True)


def _names(shape: tuple[int, int, int]) -> tuple[str, ...]:
    return tuple(f"body {number}" for number in range(shape[1]))
