"""How trajectories of bodies are learned: what DynamicsModel is made of."""

import numpy as np

from edgewise.errors import SettingError, plural
from edgewise.learn.estimators.labels import r2
from edgewise.learn.estimators.numbers import as_numbers
from edgewise.learn.estimators.parameters import naming_parameters
from edgewise.learn.estimators.state import Adapter, Estimator, refuse, settings_of, train, warn
from edgewise.learn.readers.motion.motion import Motion, MotionRows, pulled_moments, require_pulled
from edgewise.learn.tasks.motion import model
from edgewise.learn.tasks.motion.forces import Rollout, roll_out
from edgewise.learn.tasks.motion.task import TASK, prepared

MOTION = Adapter(task=TASK, placeholders={"data": ("the motion",)})
"""How DynamicsModel uses its task."""


@naming_parameters
def fit(estimator: Estimator, X: Motion, *, y: object, sample_weight: object, validation: Motion | None) -> None:
    """Learn trajectories.

    Raises:
        SettingError: A parameter has a value that it cannot have, or there are fewer moments than it needs.
        DataError: Accelerations are to be learned, and cannot be.
    """
    refuse(estimator, y=(y, "the data has its targets"), sample_weight=(sample_weight, "all moments count the same"))
    job = settings_of(estimator, MOTION, data=(X.source,))
    train(estimator, MOTION, prepared(job, X, validation))


@naming_parameters
def predict(estimator: Estimator, X: Motion, moment: int) -> np.ndarray:
    """(trajectory, body, space): where the bodies will be, or their accelerations.

    Raises:
        SettingError: X lacks the moment.
    """
    _check_moment(X, moment)
    rows = np.arange(len(X.positions))
    warn(estimator, "predict", model.notes_of(estimator.trained, X))
    # Targets are not read, so that the last moments of a file can be predicted from.
    return model.predict(estimator.trained, MotionRows(X, rows, np.full(len(rows), moment), 0))


@naming_parameters
def score(estimator: Estimator, X: Motion, y: object, moment: int) -> float:
    """R² over all coordinates of one moment; the targets are by default what X has.

    Raises:
        SettingError: X lacks the moment, or one that is as much later as the model predicts, or accelerations at it.
        DataError: X lacks accelerations to compare with.
    """
    output, rows = estimator.trained.output, np.arange(len(X.positions))
    if y is None:
        _check_moment(X, moment, output.ahead)
        if output.quantity == "accelerations":
            require_pulled(X, pulled_moments(X), moment, "moment")
        y = MotionRows(X, rows, np.full(len(rows), moment), output.ahead, output.quantity).targets
    predicted = predict(estimator, X, moment)
    return r2(as_numbers("y", y).ravel(), predicted.ravel(), ["ok"] * predicted.size)


def _check_moment(motion: Motion, moment: int, ahead: int = 0) -> None:
    """Raise a SettingError unless a file has a moment, and the one that is some moments ahead of it."""
    num_times = motion.positions.shape[1]
    if not 0 <= moment < num_times - ahead:
        later = f", of which the last {ahead} lack a target" * bool(ahead)
        raise SettingError(
            f"moment {moment}: {motion.source} has {plural(num_times, 'moment')}, 0 to {num_times - 1}{later}."
        )


@naming_parameters
def rollout(
    estimator: Estimator, X: Motion, num_moments: int | None, *, moment: int, time_step: float | None
) -> Rollout:
    """Simulate the bodies with the learned forces, from one moment of a file on."""
    return roll_out(estimator.trained, X, num_moments, moment=moment, time_step=time_step)
