"""DynamicsModel: moving bodies from Python."""

from typing import Self

import numpy as np

from edgewise.data.motion.motion import Moments, Motion
from edgewise.estimators.learner import Learner
from edgewise.tasks.motion.job import dynamics_job
from edgewise.tasks.motion.rollout import Rollout, roll_out
from edgewise.tasks.motion.task import TASK
from edgewise.tasks.motion.trained import TrainedDynamics
from edgewise.tasks.run import fit


class DynamicsModel(Learner[TrainedDynamics]):
    """A model of moving bodies, in the habit of scikit-learn.

        DynamicsModel(epochs=100).fit(motion).predict(other)

    Args:
        settings: any field of DynamicsJob, DynamicsSettings or TrainSettings by its name.
    """

    kind = TrainedDynamics
    fitted_by = "fit(motion)"

    def fit(self, motion: Motion) -> Self:
        """Learns trajectories, as `edgewise.data.motion.motion.read_motion` reads them.

        Raises:
            SettingError: a setting is not known, or the motion has fewer moments than it asks for.
        DataError: accelerations are to be learned, and cannot be.
        """
        job = dynamics_job({**self.settings, "data": (motion.source,)}, "DynamicsModel")
        prepared = TASK.prepared(job, motion)
        self.metrics_ = TASK.evaluate(prepared, fit(TASK, prepared))
        self.trained_ = prepared.fitted
        return self

    def predict(self, motion: Motion, moment: int = 0) -> np.ndarray:
        """(trajectory, body, space): where the bodies will be, `ahead` moments after one of the file; or, where that is
        told, their accelerations at it."""
        trajectories = np.arange(len(motion.positions))
        # Nothing is told of what comes after: the last moments of a file may be read too.
        return self.trained.predict(Moments(motion, trajectories, np.full(len(trajectories), moment), 0))

    def rollout(
        self, motion: Motion, num_moments: int | None = None, *, moment: int = 0, time_step: float | None = None
    ) -> Rollout:
        """Lets the bodies run on by what was learned, from one moment of a file on.

        Args:
            motion: the bodies; of what comes after `moment`, only the times are read.
            num_moments: how many are told, the first included; None is all that the file has from there on.
            moment: where they begin.
            time_step: of the integrator; None is that of the file.

        Raises:
            SettingError: positions were learned, the moments lie outside the file, or the step is not above 0.
        """
        return roll_out(self.trained, motion, num_moments, moment=moment, time_step=time_step)
