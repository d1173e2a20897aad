"""Bodies that pull and push each other: trajectories by a symplectic integrator, with the energy they should keep.

    v ← v + h/2 a(x);  x ← x + h v;  v ← v + h/2 a(x)        (leapfrog, "kick, drift, kick")

It is reversible and keeps phase-space volume, so that the energy swings by O(h²) and does not run away.
Source: Verlet 1967; Hairer, Lubich & Wanner 2003.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from jaxtyping import Float

from edgewise.errors import SettingError

Places = Float[np.ndarray, " trajectory body space"]
Laws = Callable[[Places], tuple[Places, Float[np.ndarray, " trajectory"]]]
"""From positions to the accelerations and the potential energy."""
Pulls = Callable[[Places, Places], tuple[Places, Any]]
"""From positions and velocities to the accelerations, and whatever else is known then."""


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
    described: Mapping[str, Any] = field(default_factory=dict)
    """The law in words that a file can keep, as `law_of` reads them; nothing where it has none."""


@dataclass(frozen=True, eq=False)
class Trajectories:
    """What became of a system, at some moments."""

    system: System
    """How it began."""
    times: Float[np.ndarray, " time"]
    """The moments that are kept, 0 for the beginning."""
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
        keep_every: Moments that are kept: every so many steps, the beginning included.

    Raises:
        SettingError: A number is out of range, or a body flies to infinity.
    Cost: O(num_steps · trajectory · body²).
    """
    if not (time_step > 0 and num_steps >= 1 and 1 <= keep_every <= num_steps):
        raise SettingError(
            f"--time-step {time_step:g}, --num-steps {num_steps} and --keep-every {keep_every} do not fit: expected a "
            "step above 0, at least one of them, and one kept."
        )
    kept = list(
        leapfrog(
            lambda places, _: system.law(places), system.positions, system.velocities, time_step=time_step,
            num_steps=num_steps, keep_every=keep_every,
        )
    )  # fmt: skip
    positions, velocities, accelerations, potential = (np.stack(parts, axis=1) for parts in zip(*kept, strict=True))
    if not np.isfinite(positions).all():
        raise SettingError(f"--time-step {time_step:g}: a body flew to infinity; take a smaller step.")
    times = time_step * keep_every * np.arange(len(kept))
    energies = potential + kinetic(velocities, system.masses[:, None]).sum(-1)
    return Trajectories(system, times, positions, velocities, accelerations, time_step, energies)


def leapfrog(
    pull: Pulls, positions: Places, velocities: Places, *, time_step: float, num_steps: int, keep_every: int
) -> Iterator[tuple[Places, Places, Places, Any]]:
    """Positions, velocities and what `pull` gives, at the beginning and after every `keep_every` steps.

    Where the accelerations depend on velocities, those in the middle of the step are handed over, and the scheme is
    symplectic no more.
    """
    places, speeds = positions.copy(), velocities.copy()
    pulls, known = pull(places, speeds)
    for step in range(num_steps + 1):
        if step % keep_every == 0:
            yield places.copy(), speeds.copy(), pulls, known
        if step < num_steps:
            speeds += 0.5 * time_step * pulls
            places += time_step * speeds
            pulls, known = pull(places, speeds)
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
    """a_i = Σ_j k_ij (x_j − x_i), from ¼ Σ_ij k_ij r². Bodies weigh 1, springs have no length at rest."""

    def law(positions: Places) -> tuple[np.ndarray, np.ndarray]:
        apart, squared = pairs(positions)
        off = couplings * ~np.eye(couplings.shape[1], dtype=bool)
        return np.einsum("tij,tijs->tis", off, apart), 0.25 * (off * squared).sum((1, 2))

    return law


def law_of(
    described: Mapping[str, Any],
    masses: Float[np.ndarray, " trajectory body"],
    couplings: Float[np.ndarray, " trajectory body body"],
) -> Laws | None:
    """The law that a file describes, such as {"name": "gravity", "constant": 1, "softening": 0.1}.

    Returns:
        None where it is none of gravity, electric and elastic.
    """
    name = described.get("name")
    if name == "gravity":
        return gravity(masses, float(described["constant"]), float(described["softening"]))
    if name == "electric":
        return electric(couplings, float(described["largest"]))
    return elastic(couplings) if name == "elastic" else None


def differences(
    positions: Float[np.ndarray, " trajectory time body space"],
    velocities: Float[np.ndarray, " trajectory time body space"],
    times: Float[np.ndarray, " time"],
) -> Float[np.ndarray, " trajectory time body space"]:
    """Accelerations out of positions and velocities at evenly spaced moments, h apart.

        a(t) ≈ 2 (x(t+h) − 2 x(t) + x(t−h)) / h² − (v(t+h) − v(t−h)) / 2h,   wrong by O(h⁴)

    Each of the two terms is wrong by O(h²), and what is wrong with them cancels.

    Returns:
        NaN at the first and the last moment, and everywhere where the moments are not evenly spaced.
    """
    found = np.full(positions.shape, np.nan)
    steps = np.diff(times)
    if len(steps) < 2 or not steps[0] > 0 or not np.allclose(steps, steps[0], rtol=1e-5, atol=0):
        return found
    h = (times[-1] - times[0]) / len(steps)
    x, v = positions.astype(np.float64), velocities.astype(np.float64)
    found[:, 1:-1] = 2 * (x[:, 2:] - 2 * x[:, 1:-1] + x[:, :-2]) / h**2 - (v[:, 2:] - v[:, :-2]) / (2 * h)
    return found
