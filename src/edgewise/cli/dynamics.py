"""`edgewise train` and `predict` over moving bodies: what they print and write."""

import argparse
import io
import sys
from typing import TYPE_CHECKING, Any

from edgewise.cli.output import check_output, write
from edgewise.cli.report import number, print_table
from edgewise.train.folder import RunFolder

if TYPE_CHECKING:
    from edgewise.estimators.dynamics.run import DynamicsRun


def asked(settings: dict[str, Any], source: str) -> "tuple[type[DynamicsRun], Any]":
    """The kind of run, and its job."""
    from edgewise.estimators.dynamics.job import dynamics_job
    from edgewise.estimators.dynamics.run import DynamicsRun

    return DynamicsRun, dynamics_job(settings, source)


def print_data(run: "DynamicsRun") -> None:
    """The trajectories in two lines."""
    num_trajectories, num_times, num_bodies, space_dim = run.motion.positions.shape
    counts = {part: len(moments.moment) for part, moments in run.parts.items()}
    print(
        f"{run.motion.source}: {num_trajectories:,} trajectories of {num_bodies} bodies in {space_dim} dimensions, "
        f"{num_times:,} moments"
    )
    print(
        f"{counts['train']:,} training, {counts['val']:,} validation and {counts['test']:,} test moments, each told "
        f"{run.job.ahead} moments ahead"
    )
    if not counts["val"]:
        print("  no validation moments: the last epoch is kept")


def print_scores(folder: RunFolder) -> None:
    """The scores of a finished run beside bodies that stay or go straight on, and the next command."""
    metrics = folder.read_json("metrics.json")
    if "test" in metrics:
        beside = metrics["baselines"]
        rows = {
            "edgewise": metrics["test"],
            "goes straight on": beside["straight_on"]["test"],
            "stays": beside["stays"]["test"],
        }
        print_table(
            f"{metrics['rows']['test']:,} test moments",
            ["", "mean squared error", "mean distance"],
            [[name, number(of["mse"]), number(of["distance"])] for name, of in rows.items()],
        )
    print(f"{metrics['parameters']:,} parameters, {metrics['epochs']} epochs in {metrics['training_seconds']:.0f} s")
    print(f"The run is in {folder.path}. Next: edgewise predict {folder.path} motion.npz -o later.npz")


def predict(arguments: argparse.Namespace) -> int:
    """Tells where the bodies of a file will be, from each of its moments on."""
    check_output(arguments, (".npz",))

    import numpy as np

    from edgewise.data.motion import Moments, read_motion
    from edgewise.estimators.dynamics.estimator import TrainedDynamics
    from edgewise.train.device import pick_device
    from edgewise.train.settings import require

    require("--threads", arguments.threads, arguments.threads >= 1, "at least 1")
    trained = TrainedDynamics.load(RunFolder.finished(arguments.folder))
    trained.threads = arguments.threads
    motion = read_motion(arguments.data)
    num_trajectories, num_times = motion.positions.shape[:2]
    rows = np.repeat(np.arange(num_trajectories), num_times), np.tile(np.arange(num_times), num_trajectories)
    found = trained.told(Moments(motion, *rows, 0), pick_device(arguments.device))
    buffer = io.BytesIO()
    np.savez_compressed(
        buffer, positions_pred=found.reshape(motion.positions.shape).astype(np.float32), ahead=np.array(trained.ahead)
    )
    write(buffer.getvalue(), arguments.output, ".npz")
    print(
        f"positions {trained.ahead} moments after each of {num_times:,} moments of {num_trajectories:,} trajectories: "
        f"{arguments.output}",
        file=sys.stderr,
    )
    return 0
