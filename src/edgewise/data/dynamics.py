"""Bodies that pull and push each other: trajectories by a symplectic integrator, with the energy they should keep.

    v ← v + h/2 a(x);  x ← x + h v;  v ← v + h/2 a(x)        (leapfrog, "kick, drift, kick")

It is reversible and keeps phase-space volume, so that the energy swings by O(h²) and does not run away.
Source: Verlet 1967; Hairer, Lubich & Wanner 2003.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from edgewise.errors import SettingError

Places = Float[np.ndarray, " trajectory body space"]
Laws = Callable[[Places], tuple[Places, Float[np.ndarray, " trajectory"]]]
"""From positions to the accelerations and the potential energy."""


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
    """The unit of time, position, velocity, mass, charge and energy."""


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
    energies: Float[np.ndarray, " trajectory time"]
    """Kinetic and potential energy together."""

    @property
    def drift(self) -> Float[np.ndarray, " trajectory"]:
        """How far the energy ever was from its beginning, as a part of the largest kinetic energies of the bodies.

        The energy itself may be nearly zero; what bodies have in motion is what an error is to be compared with.
        """
        motion = 0.5 * (self.system.masses * (self.velocities**2).sum(-1).swapaxes(1, 2).max(-1)).sum(-1)
        return np.abs(self.energies - self.energies[:, :1]).max(-1) / motion


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
    places, speeds = system.positions.copy(), system.velocities.copy()
    pulls, potential = system.law(places)
    kept: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
    for step in range(num_steps + 1):
        if step % keep_every == 0:
            energy = potential + 0.5 * (system.masses * (speeds**2).sum(-1)).sum(-1)
            kept.append((places.copy(), speeds.copy(), energy))
        speeds += 0.5 * time_step * pulls
        places += time_step * speeds
        pulls, potential = system.law(places)
        speeds += 0.5 * time_step * pulls
    positions, velocities, energies = (np.stack(parts, axis=1) for parts in zip(*kept, strict=True))
    if not np.isfinite(positions).all():
        raise SettingError(f"--time-step {time_step:g}: a body flew to infinity; take a smaller step.")
    times = time_step * keep_every * np.arange(len(kept))
    return Trajectories(system, times, positions, velocities, energies)


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
