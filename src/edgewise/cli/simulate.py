"""`edgewise simulate`: bodies that pull and push each other, as a file to learn from."""

import argparse
import io
import sys
from dataclasses import dataclass
from typing import Any

from edgewise.cli.output import check_output, write
from edgewise.formatting import plural
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
class Usual:
    """The defaults of a system."""

    num_trajectories: int
    num_bodies: int
    time_step: float
    num_steps: int
    keep_every: int


USUAL = {
    "nbody": Usual(100, 5, 1e-3, 5000, 100),
    "solar": Usual(1, 9, 1.0, 36525, 10),
    "springs": Usual(100, 5, 1e-2, 5000, 100),
    "charges": Usual(100, 5, 1e-3, 5000, 100),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of the verb."""
    parser.add_argument("system", choices=tuple(USUAL), help="what is simulated")
    parser.add_argument("-o", "--output", required=True, metavar="FILE", help=", ".join(FORMATS))
    for name, kind, text in (
        ("num_trajectories", int, "initial states, drawn at random"),
        ("num_bodies", int, "of each"),
        ("time_step", float, "in the system's unit of time"),
        ("num_steps", int, "of the integrator"),
        ("keep_every", int, "steps between two moments of the file"),
    ):
        usual = ", ".join(f"{system} {getattr(each, name):g}" for system, each in USUAL.items())
        metavar = "N" if kind is int else "X"
        parser.add_argument(f"--{name.replace('_', '-')}", type=kind, metavar=metavar, help=f"{text} ({usual})")
    parser.add_argument("--space-dim", type=int, choices=(2, 3), default=3, help="(default: 3)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the initial states (default: 0)")
    parser.add_argument("--overwrite", action="store_true", help="replace the output file")


def run(arguments: argparse.Namespace) -> int:
    """Simulates, writes, and prints how well the energy was conserved."""
    suffix = check_output(arguments, FORMATS)

    import numpy as np

    from edgewise.learn.readers.motion.dynamics import integrate, system_of

    usual = USUAL[arguments.system]
    chosen = {name: getattr(arguments, name) for name in vars(usual)}
    chosen = {name: getattr(usual, name) if value is None else value for name, value in chosen.items()}
    counts = chosen.pop("num_trajectories"), chosen.pop("num_bodies")
    system = system_of(arguments.system, *counts, arguments.space_dim, arguments.seed)
    with stage("simulating"):
        found = integrate(system, **chosen)
    if suffix == ".npz":
        content: Any = archive(found)
    else:
        content = table(found) if suffix == ".parquet" else table(found).to_csv(index=False)
    write(content, arguments.output, suffix)
    unit = "" if system.units["time"] == "1" else f" {system.units['time']}s"
    say(
        f"{plural(counts[0], 'trajectory', 'trajectories')} of {plural(counts[1], 'body', 'bodies')}, "
        f"{plural(len(found.times), 'moment')} up to time "
        f"{found.times[-1]:g}{unit}: {arguments.output}"
    )
    drift = found.drift
    say(f"energy drift: {np.median(drift):.1e} of the kinetic energy (median), {drift.max():.1e} (largest)")
    if lost := int((drift > 0.01).sum()):
        say(
            f"  {plural(lost, 'trajectory drifts', 'trajectories drift')} by more than 1 %: "
            "bodies nearly met; a smaller --time-step may help"
        )
    return 0


def say(line: str) -> None:
    """Prints a line beside a file that may go to the screen."""
    print(line, file=sys.stderr)


def archive(found: Any) -> bytes:
    """The trajectories as an .npz file."""
    import numpy as np

    from edgewise.learn.readers.motion.motion import arrays_of

    buffer, content = io.BytesIO(), dict[str, Any](arrays_of(found))
    np.savez_compressed(buffer, **content)
    return buffer.getvalue()


def table(found: Any) -> Any:
    """The trajectories as a table: a row for each body and moment."""
    import numpy as np
    import pandas as pd

    system = found.system
    num_trajectories, num_times, num_bodies, space_dim = found.positions.shape

    def named(name: str, unit: str) -> str:
        return name if system.units[unit] == "1" else f"{name}_{system.units[unit]}"

    columns: dict[str, Any] = {
        "trajectory": np.repeat(np.arange(num_trajectories), num_times * num_bodies),
        named("time", "time"): np.tile(np.repeat(found.times, num_bodies), num_trajectories),
        "body": np.tile(np.array(system.names), num_trajectories * num_times),
    }
    for place, axis in enumerate("xyz"[:space_dim]):
        columns[named(axis, "position")] = found.positions[..., place].ravel()
    for place, axis in enumerate("xyz"[:space_dim]):
        columns[named(f"v{axis}", "velocity")] = found.velocities[..., place].ravel()
    # What gravity knows of a body is its mass.
    known = {"mass": system.masses, **({} if system.charges is system.masses else {"charge": system.charges})}
    for name, values in known.items():
        columns[named(name, name)] = np.repeat(values[:, None], num_times, axis=1).ravel()
    return pd.DataFrame(columns)
