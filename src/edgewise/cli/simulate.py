"""`edgewise simulate`: simulated bodies with forces between them, as a file to train on."""

import argparse
import io
import sys
from dataclasses import dataclass
from typing import Any

from edgewise.cli.output import check_output, write
from edgewise.errors import plural
from edgewise.learn.progress import stage
from edgewise.learn.tables.options import WRITTEN_TABLES

DESCRIPTION = (
    "Simulate bodies by a symplectic integrator and write where they were, how fast they went, and their energy: nbody "
    "(gravity), solar (the sun and its planets from J2000 on), springs, charges. An .npz file holds arrays "
    "(trajectory, time, body, space) and their units; a table has a row for each body and moment, and units in the "
    "names of its columns."
)
FORMATS = (".npz", *WRITTEN_TABLES)


@dataclass(frozen=True)
class Defaults:
    """The defaults of a system."""

    num_trajectories: int
    num_bodies: int
    time_step: float
    num_steps: int
    keep_every: int


DEFAULTS = {
    "nbody": Defaults(100, 5, 1e-3, 5000, 100),
    "solar": Defaults(1, 9, 1.0, 36525, 10),
    "springs": Defaults(100, 5, 1e-2, 5000, 100),
    "charges": Defaults(100, 5, 1e-3, 5000, 100),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    parser.add_argument("system", choices=tuple(DEFAULTS), help="what is simulated")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help=", ".join(FORMATS))
    for name, value_type, text in (
        ("num_trajectories", int, "initial states, drawn at random"),
        ("num_bodies", int, "of each"),
        ("time_step", float, "in the system's unit of time"),
        ("num_steps", int, "of the integrator"),
        ("keep_every", int, "steps between two moments of the file"),
    ):
        defaults = ", ".join(
            f"{system} {getattr(system_defaults, name):g}" for system, system_defaults in DEFAULTS.items()
        )
        metavar = "N" if value_type is int else "X"
        parser.add_argument(
            f"--{name.replace('_', '-')}", type=value_type, metavar=metavar, help=f"{text} ({defaults})"
        )

    parser.add_argument("--space-dim", type=int, choices=(2, 3), default=3, help="(default: 3)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the initial states (default: 0)")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file")


def run(arguments: argparse.Namespace) -> int:
    """Simulates, writes, and prints how well the energy was conserved."""
    suffix = check_output(arguments, FORMATS)

    import numpy as np

    from edgewise.learn.readers.motion.dynamics import integrate, system_of

    defaults = DEFAULTS[arguments.system]
    options = {name: getattr(arguments, name) for name in vars(defaults)}
    options = {name: getattr(defaults, name) if value is None else value for name, value in options.items()}
    counts = options.pop("num_trajectories"), options.pop("num_bodies")
    system = system_of(arguments.system, *counts, arguments.space_dim, arguments.seed)
    with stage("simulating"):
        trajectories = integrate(system, **options)

    if suffix == ".npz":
        content: Any = archive(trajectories)
    else:
        content = table(trajectories) if suffix == ".parquet" else table(trajectories).to_csv(index=False)

    write(content, arguments.output, suffix)
    unit = "" if system.units["time"] == "1" else f" {system.units['time']}s"
    say(
        f"{plural(counts[0], 'trajectory', 'trajectories')} of {plural(counts[1], 'body', 'bodies')}, "
        f"{plural(len(trajectories.times), 'moment')} up to time "
        f"{trajectories.times[-1]:g}{unit}: {arguments.output}"
    )
    drift = trajectories.drift
    say(f"energy drift: {np.median(drift):.1e} of the kinetic energy (median), {drift.max():.1e} (largest)")

    if num_inaccurate := int((drift > 0.01).sum()):
        say(
            f"  {plural(num_inaccurate, 'trajectory drifts', 'trajectories drift')} by more than 1 %: "
            "bodies nearly met; a smaller --time-step may help"
        )

    return 0


def say(line: str) -> None:
    """Prints a line to stderr, as the file may go to stdout."""
    print(line, file=sys.stderr)


def archive(trajectories: Any) -> bytes:
    """The trajectories as an .npz file."""
    import numpy as np

    from edgewise.learn.readers.motion.motion import arrays_of

    buffer, content = io.BytesIO(), dict[str, Any](arrays_of(trajectories))
    np.savez_compressed(buffer, **content)
    return buffer.getvalue()


def table(trajectories: Any) -> Any:
    """The trajectories as a table: a row for each body and moment."""
    import numpy as np
    import pandas as pd

    system = trajectories.system
    num_trajectories, num_times, num_bodies, space_dim = trajectories.positions.shape

    def named(name: str, unit: str) -> str:
        return name if system.units[unit] == "1" else f"{name}_{system.units[unit]}"

    columns: dict[str, Any] = {
        "trajectory": np.repeat(np.arange(num_trajectories), num_times * num_bodies),
        named("time", "time"): np.tile(np.repeat(trajectories.times, num_bodies), num_trajectories),
        "body": np.tile(np.array(system.names), num_trajectories * num_times),
    }
    for dimension, axis in enumerate("xyz"[:space_dim]):
        columns[named(axis, "position")] = trajectories.positions[..., dimension].ravel()
    for dimension, axis in enumerate("xyz"[:space_dim]):
        columns[named(f"v{axis}", "velocity")] = trajectories.velocities[..., dimension].ravel()

    # Under gravity the mass of a body is also its charge.
    properties = {"mass": system.masses, **({} if system.charges is system.masses else {"charge": system.charges})}
    for name, values in properties.items():
        columns[named(name, name)] = np.repeat(values[:, None], num_times, axis=1).ravel()
    return pd.DataFrame(columns)
