"""DynamicsModel: moving bodies."""

from typing import Any, Self

import numpy as np

from edgewise.learn.estimators.estimator import Estimator
from edgewise.learn.estimators.labels import r2
from edgewise.learn.estimators.params import AUTO, old_names
from edgewise.learn.networks.time_settings import DYNAMICS_MODELS
from edgewise.learn.readers.motion.motion import Moments, Motion
from edgewise.learn.tasks.motion.task import TASK
from edgewise.learn.tasks.motion.trained import FittedDynamics, Rollout, roll_out


class DynamicsModel(
    Estimator,
    task=TASK,
    fitted_type=FittedDynamics,
    models=({"target_quantity": "accelerations"}, *(name for name in DYNAMICS_MODELS if name != "forces")),
    required={"data": ("the motion",)},
    keep=("split_sizes", "data_seed"),
    own={"model": AUTO, "horizon": AUTO},
):
    """A model of moving bodies: where they will be, or their accelerations.

    DynamicsModel(epochs=100).fit(motion).predict(other)
    """

    @old_names
    def fit(
        self, data: Motion, y: None = None, *, sample_weight: None = None, validation: Motion | None = None
    ) -> Self:
        """Learns trajectories.

        Args:
            data: As `edgewise.learn.readers.motion.motion.read_motion` reads them.
            y: Nothing: the targets are later moments, or the accelerations of the data.
            sample_weight: Refused: all moments count the same.
            validation: Other trajectories for validation; all of `data` then trains. By default see `split_sizes`.

        Raises:
            SettingError: A parameter has a value that it cannot have, or there are fewer moments than it needs.
            DataError: Accelerations are to be learned, and cannot be.
        """
        self._refuse(y=(y, "the data has its targets"), sample_weight=(sample_weight, "all moments count the same"))
        return self._train(TASK.prepared(self.settings(data=(data.source,)), data, validation))

    @old_names
    def predict(self, data: Motion, moment: int = 0) -> np.ndarray:
        """(trajectory, body, space): where the bodies will be, or their accelerations.

        Args:
            data: The bodies.
            moment: The moment that is read, by its number in the file.
        """
        rows = np.arange(len(data.positions))
        # Targets are not read, so that the last moments of a file can be predicted from.
        found: np.ndarray = self.trained.predict(Moments(data, rows, np.full(len(rows), moment), 0))
        return found

    @old_names
    def score(self, data: Motion, y: Any = None, moment: int = 0) -> float:
        """R² over all coordinates of one moment.

        Args:
            data: The bodies.
            y: (trajectory, body, space), as `predict`; by default what the data has.
            moment: The moment that is read.
        """
        trained, rows = self.trained, np.arange(len(data.positions))
        if y is None:
            quantity = trained.settings.target_quantity
            y = Moments(data, rows, np.full(len(rows), moment), trained.ahead, quantity).targets
        found = self.predict(data, moment)
        return r2(np.asarray(y).ravel(), found.ravel(), ["ok"] * found.size)

    @old_names
    def rollout(
        self, data: Motion, num_moments: int | None = None, *, moment: int = 0, time_step: float | None = None
    ) -> Rollout:
        """Simulates the bodies with the learned forces, from one moment of a file on.

        Args:
            data: The bodies; of what comes after `moment`, only the times are read.
            num_moments: How many moments, the first included; None is all that the file has from there on.
            moment: Where the simulation starts.
            time_step: Of the integrator; None is that of the file.

        Raises:
            SettingError: Positions were learned, the moments lie outside the file, or the step is not above 0.
        """
        return roll_out(self.trained, data, num_moments, moment=moment, time_step=time_step)
