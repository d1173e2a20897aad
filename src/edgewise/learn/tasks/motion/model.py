"""How moving bodies are predicted: the sizes of the network, the scales of its inputs and outputs, and predictions."""

import math
from dataclasses import dataclass, replace
from typing import Self, TypeAlias

import numpy as np
from jaxtyping import Float64
from torch import nn

from edgewise.errors import DataError, SettingError, plural
from edgewise.learn.batches.bodies import BodyBatch
from edgewise.learn.fitted import Fitted, network_outputs
from edgewise.learn.networks.dynamics import dynamics_model
from edgewise.learn.networks.time_settings import DynamicsSettings, TargetQuantity
from edgewise.learn.readers.motion.motion import Motion, MotionRows, require_masses
from edgewise.learn.tables.magnitude import LARGEST_SINGLE, MIN_SINGLE
from edgewise.learn.tasks.motion.settings import DynamicsRunSettings
from edgewise.learn.training.loss import RelativeLoss, TargetLoss
from edgewise.learn.training.metrics import Scores

ROWS_PER_BATCH = 500
"""Rows that are computed together where no gradient is needed."""

FARTHEST = 1e4
"""How far from the origin positions may be, in units of their spread, where a network takes them as they are: single
precision rounds those farther away by more than a thousandth of the spread."""
SAME_DURATION = 0.05
"""How much the duration of steps may differ from that of the training, as a fraction."""


@dataclass(frozen=True)
class Units:
    """The scales that normalize inputs and outputs of the network. All axes share one, so that the network can be
    equivariant to rotations."""

    length: float
    """The spread of positions."""
    time: float
    """The duration of the first `horizon` steps; for accelerations, chosen so that their root mean square is 1."""
    charges: tuple[float, ...]
    """The largest of each number that is known of a body; the first is its mass."""
    coupling: float
    """The largest number that is known of a pair; for accelerations, the largest strength of a pair divided by the mass
    of the receiver, in units of the largest mass."""

    @classmethod
    def fit(cls, moments: MotionRows) -> Self:
        """Those of the training moments.

        Raises:
            DataError: velocities or accelerations in these units are beyond single precision.
        """
        motion, trajectories = moments.motion, np.unique(moments.trajectory)
        positions = motion.positions[moments.trajectory, moments.moment].astype(np.float64)
        spread = float(np.sqrt(((positions - positions.mean(axis=1, keepdims=True)) ** 2).mean())) or 1.0
        num_charges = motion.charges.shape[-1]
        charges = np.abs(motion.charges[trajectories].astype(np.float64)).reshape(-1, num_charges).max(axis=0)

        if moments.quantity == "positions":
            time = float(motion.times[moments.horizon] - motion.times[0])
            coupling = np.abs(motion.couplings[trajectories]).max()
        else:
            acceleration = float(np.sqrt((moments.targets.astype(np.float64) ** 2).mean()))
            time = (spread / acceleration) ** 0.5 if acceleration else 1.0
            largest_mass = charges[0]  # the first number of a body is its mass
            masses = motion.masses[trajectories] / largest_mass
            coupling = (np.abs(motion.strengths[trajectories]) / masses[..., None]).max()

        units = cls(spread, time or 1.0, tuple(float(largest) or 1.0 for largest in charges), float(coupling) or 1.0)
        for name, unit in (("accelerations", units.length / units.time**2), ("velocities", units.length / units.time)):
            if not MIN_SINGLE <= unit <= LARGEST_SINGLE:
                raise DataError(
                    f"{motion.source}: with positions in units of {units.length:.3g} and times in units of "
                    f"{units.time:.3g}, the spread of the training rows, {name} are in units of {unit:.3g}, beyond "
                    "single precision; give positions or times in other units."
                )
        return units


@dataclass(frozen=True)
class MotionOutput:
    """How outputs of the network become predictions, which are positions `ahead` time steps later, or accelerations:
    prediction = unit · output."""

    units: Units
    """The scales of inputs and outputs."""
    ahead: int
    """How many time steps ahead positions are predicted; 0 for accelerations."""

    @property
    def quantity(self) -> TargetQuantity:
        """What is predicted."""
        return "positions" if self.ahead else "accelerations"

    @property
    def unit(self) -> float:
        """The unit of the predicted values."""
        return self.units.length if self.ahead else self.units.length / self.units.time**2

    def transform(self, batch: BodyBatch) -> BodyBatch:
        """A batch in the units of the network, with the numbers of a body that it knows."""
        units = self.units
        # The first number of a body is its mass, the last its charge, which may be the mass itself.
        charges = batch.charges[:, [0, -1][: len(units.charges)]]
        return replace(
            batch,
            positions=batch.positions / units.length,
            velocities=batch.velocities * (units.time / units.length),
            charges=charges / charges.new_tensor(units.charges),
            couplings=(batch.couplings / units.coupling).to(charges.dtype),
            targets=None if batch.targets is None else batch.targets / self.unit,
            error_scale=None if batch.error_scale is None else batch.error_scale / self.unit,
        )

    def loss(self, settings: DynamicsRunSettings) -> RelativeLoss:
        """What is minimized: errors of positions; of accelerations, errors relative to the scale of each body."""
        return RelativeLoss(TargetLoss("regression", settings.train.loss_function, settings.train.huber_width))

    def metrics(self, predicted: np.ndarray, moments: MotionRows) -> Scores:
        """The mean squared error of a coordinate; and the mean distance from where a body really is, or, for
        accelerations, the root of the mean squared error in units of the body's `error_scale`. None where a prediction
        is not finite.

        Args:
            predicted: `(row, body, space)`.
            moments: the rows, with their targets.
        """
        errors = predicted.astype(np.float64) - moments.targets
        mean_square = finite((errors**2).mean())
        if moments.error_scale is not None:
            relative = errors / moments.error_scale[..., None]
            return {"mse": mean_square, "relative": finite(np.sqrt((relative**2).mean()))}
        return {"mse": mean_square, "distance": finite(np.sqrt((errors**2).sum(-1)).mean())}

    def baselines(self, moments: MotionRows) -> dict[str, np.ndarray]:
        """The simplest predictions: bodies stay, or go straight on; as accelerations, that nothing pulls them."""
        motion, rows = moments.motion, (moments.trajectory, moments.moment)
        if not self.ahead:
            return {"unpulled": np.zeros_like(moments.targets)}
        elapsed = motion.times[moments.moment + moments.horizon] - motion.times[moments.moment]
        positions = motion.positions[rows]
        return {"stays": positions, "straight_on": positions + motion.velocities[rows] * elapsed[:, None, None]}

    def check(self) -> None:
        """Raise DataError unless the units are positive, and the moments ahead are a count."""
        if self.ahead < 0:
            raise DataError(f"ahead is {self.ahead}; expected 0 or more.")
        units = self.units
        if not all(0 < unit < math.inf for unit in (units.length, units.time, units.coupling, *units.charges)):
            raise DataError("units: expected finite numbers above 0.")


@dataclass(frozen=True)
class BodyEncoder:
    """The settings of the network, and the sizes that the training trajectories gave it. Networks take bodies as they
    are, and `MotionOutput` scales them."""

    settings: DynamicsSettings
    """The layers."""
    sizes: tuple[int, int]
    """Dimensions of the space, and how many numbers are known of a body."""

    def new_network(self, output: MotionOutput) -> nn.Module:
        """A network over all pairs of bodies, of each of which one number is known; the same for every `output`."""
        space_dim, num_charges = self.sizes
        return dynamics_model(space_dim, num_charges, 1, self.settings)

    def check_motion(self, motion: Motion) -> None:
        """Raise an error unless these bodies are like those of the training. Charges may be the masses here and not
        there, or there and not here if the network reads no charges.

        Raises:
            SettingError: the space has other dimensions, charges are missing, or were never apart from the masses.
            DataError: accelerations are predicted, and a body weighs nothing.
        """
        (trained_dim, num_trained), space_dim = self.sizes, motion.positions.shape[-1]
        if space_dim != trained_dim:
            raise SettingError(
                f"{motion.source} has {plural(space_dim, 'dimension')}, but the model was trained on {trained_dim}."
            )

        reads_charges = self.settings.model != "forces"
        if reads_charges and num_trained > 1 and "charges" in motion.lacks:
            raise SettingError(f"{motion.source}: the array 'charges' is missing, which the model was trained on.")
        if reads_charges and num_trained < motion.charges.shape[-1]:
            raise SettingError(
                f"{motion.source} has charges that are not the masses, but in the training all charges were the "
                "masses: the model knows nothing of charges; train it on bodies that have such."
            )
        if self.settings.target_quantity == "accelerations":
            require_masses(motion)

    def check_distance(self, motion: Motion, units: Units) -> None:
        """Raise a DataError where bodies are so far from the origin that a network which takes their positions as they
        are cannot tell them apart."""
        farthest = float(np.abs(motion.positions).min(2).max())  # of the nearest body: one may fly away
        if not self.is_invariant and farthest > FARTHEST * units.length:
            raise DataError(
                f"{motion.source}: all bodies of a moment are {farthest:.3g} from the origin, but spread over "
                f"{units.length:.3g}: --model {self.settings.model} takes positions as they are, in single precision, "
                "which cannot tell them apart; subtract a place nearby, or take --model equivariant."
            )

    @property
    def is_invariant(self) -> bool:
        """Whether predictions move with the bodies, so that positions may be counted from anywhere."""
        return self.settings.model != "graph_network"

    def origins(self, moments: MotionRows, rows: np.ndarray) -> Float64[np.ndarray, " row 1 space"]:
        """Where the positions of each row are counted from: the middle of its bodies, so that none are rounded far
        from the origin; the origin itself, where the network takes positions as they are."""
        return moments.centers(rows) * self.is_invariant

    def check(self, output: MotionOutput) -> None:
        """Raise DataError unless the fields fit each other."""
        space_dim, num_charges = self.sizes
        if space_dim < 1 or num_charges != len(output.units.charges):
            raise DataError(f"sizes are {self.sizes}, with {plural(len(output.units.charges), 'charge')}.")
        if self.settings.target_quantity != output.quantity:
            raise DataError(f"ahead is {output.ahead}, but target_quantity is {self.settings.target_quantity}.")


FittedMotion: TypeAlias = Fitted[BodyEncoder, MotionOutput]


def predict(fitted: FittedMotion, moments: MotionRows, device: str = "cpu") -> np.ndarray:
    """`(row, body, space)`: where the bodies of each row will be, or their accelerations, in the unit of the file.

    Raises:
        SettingError: the bodies have other dimensions than those of the training, or their charges do not fit.
        DataError: accelerations are predicted, and a body weighs nothing.
    """
    encoder, output = fitted.encoder, fitted.output
    encoder.check_motion(moments.motion)
    encoder.check_distance(moments.motion, output.units)
    moments = replace(moments, quantity=output.quantity)

    def batch(rows: np.ndarray) -> BodyBatch:
        return output.transform(moments.batch(rows, origins=encoder.origins(moments, rows), with_targets=False))

    outputs = network_outputs(fitted, batch, len(moments.moment), ROWS_PER_BATCH, device)
    _, _, num_bodies, space_dim = moments.motion.positions.shape
    values = [values_of_batch * output.unit for values_of_batch in outputs]
    predicted = np.concatenate([np.zeros((0, space_dim)), *values]).reshape(-1, num_bodies, space_dim)
    return predicted + encoder.origins(moments, np.arange(len(predicted))) if output.ahead else predicted


def finite(value: float | np.floating) -> float | None:
    """A number for JSON, which cannot hold infinities."""
    return float(value) if np.isfinite(value) else None


def notes_of(fitted: FittedMotion, motion: Motion) -> list[str]:
    """What should be known of trajectories that are predicted, a line each: steps of another duration than those of
    the training."""
    ahead, trained = fitted.output.ahead, fitted.output.units.time
    if not ahead or len(motion.times) < 2:
        return []
    elapsed = ahead * float(np.median(np.diff(motion.times)))
    if math.isclose(elapsed, trained, rel_tol=SAME_DURATION):
        return []
    return [
        f"warning: {plural(ahead, 'step lasts', 'steps last')} {elapsed:.3g}, but {trained:.3g} in the training: "
        f"positions are predicted {trained:.3g} later"
    ]
