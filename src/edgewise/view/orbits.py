"""Real and predicted orbits of bodies: paths in a plane, and the distance between the two over time."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from edgewise.view.figure import INK, STYLE, Axes, Figure, Line2D, color_of, plain, rc_context, tidy, with_unit

MAX_PANELS, MAX_NAMES = 4, 12
FINE = 8
"""Points per time step along a smooth path."""
FAR_RATIO, ZOOM_MARGIN = 4.0, 1.15
"""How many times farther than the median the farthest body must go for the inner bodies to get a panel; its margin."""
MAX_TURNS = 3
"""Turns of a body beyond which only the last one is drawn."""
MAX_DISTANCE = 1e6
"""How many times farther than real bodies predicted ones are drawn."""
LEGEND_WIDTH = 2.3


@dataclass(frozen=True, eq=False)
class Orbits:
    """Real and predicted trajectories of bodies; the first two axes of space are drawn."""

    times: np.ndarray
    """(time)."""
    real: np.ndarray
    """(trajectory, time, body, space): real positions."""
    predicted: np.ndarray
    """(trajectory, time, body, space): predicted positions."""
    names: tuple[str, ...]
    """The names of the bodies."""
    numbers: tuple[int, ...]
    """The numbers of the trajectories."""
    length_unit: str = ""
    """The unit of positions."""
    time_unit: str = ""
    """The unit of times."""
    real_velocities: np.ndarray | None = None
    """(trajectory, time, body, space): real velocities, for smooth paths."""
    predicted_velocities: np.ndarray | None = None
    """Predicted velocities; None if each time was predicted separately, so that they do not form a path."""


def draw_orbits(orbits: Orbits) -> Figure:
    """Paths of the bodies, with a panel for each of the first trajectories; a single trajectory of very different
    distances gets a second panel for the inner half. Pale bands are real, thin lines predicted; only the last turn of
    bodies that revolve often is drawn."""
    panels: list[tuple[int, float | None, str]] = [
        (panel, None, f"trajectory {number}") for panel, number in enumerate(orbits.numbers[:MAX_PANELS])
    ]
    if len(orbits.numbers) == 1:
        reach = inner_reach(orbits.real[0])
        panels = [(0, None, "all bodies" if reach else ""), *([(0, reach, "the inner ones")] if reach else [])]

    columns = min(2, len(panels))
    rows = -(-len(panels) // columns)
    with rc_context(STYLE):
        figure = Figure(figsize=(4.2 * columns + LEGEND_WIDTH, 4.3 * rows), layout="constrained")
        for panel, (trajectory, reach, title) in enumerate(panels):
            axes = figure.add_subplot(rows, columns, panel + 1)
            _draw_panel(axes, orbits, trajectory, reach)
            axes.set_title(title)
        figure.legend(handles=_legend(orbits), loc="outside right upper")

    return figure


def inner_reach(real: np.ndarray) -> float | None:
    """The distance from the center that the inner half of the bodies reaches; None if the others go hardly farther.

    Args:
        real: (time, body, space).
    """
    distances = np.sqrt((_flat(real - _middle(real)) ** 2).sum(-1)).max(0)
    median = float(np.median(distances))
    return ZOOM_MARGIN * median if median and distances.max() > FAR_RATIO * median else None


def draw_apart(orbits: Orbits) -> Figure:
    """The distance between predicted and real positions over time: a line per body for a single trajectory, else the
    median and quartiles over all."""
    with np.errstate(over="ignore", invalid="ignore"):
        distances = np.sqrt(((orbits.predicted - orbits.real) ** 2).sum(-1))
    times = orbits.times[1:] - orbits.times[0]  # both begin at the same position
    with rc_context(STYLE):
        figure = Figure(figsize=(6.4, 3.6), layout="constrained")
        axes = figure.add_subplot()
        tidy(axes)
        if len(distances) == 1:
            for body, name in enumerate(orbits.names):
                line = drawable(distances[0, 1:, body], orbits.real)
                label = _label(name) if body < MAX_NAMES else None
                axes.plot(times, line, color=color_of(body), linewidth=1.1, label=label)
        else:
            all_distances = np.nan_to_num(distances.swapaxes(1, 2).reshape(-1, distances.shape[1])[:, 1:], nan=np.inf)
            low, middle, high = drawable(
                np.quantile(all_distances, [0.25, 0.5, 0.75], axis=0, method="nearest"), orbits.real
            )
            axes.fill_between(times, low, high, color=color_of(0), alpha=0.2, linewidth=0, label="middle half")
            axes.plot(times, middle, color=color_of(0), linewidth=1.6, label="median of all bodies")

        axes.set_yscale("log")
        axes.set_xlabel(with_unit("time since the beginning", orbits.time_unit))
        axes.set_ylabel(with_unit("predicted from real, distance", orbits.length_unit))
        figure.legend(loc="outside right upper")

    return figure


def _draw_panel(axes: Axes, orbits: Orbits, trajectory: int, reach: float | None) -> None:
    tidy(axes)
    real, predicted = orbits.real[trajectory], orbits.predicted[trajectory]
    moving = [None if v is None else v[trajectory] for v in (orbits.real_velocities, orbits.predicted_velocities)]

    path = smooth(orbits.times, real, moving[0])
    paths = drawable(smooth(orbits.times, predicted, moving[1]), real)
    for body in range(real.shape[1]):
        color, first = color_of(body), last_turn(_flat(path[:, body]))
        axes.plot(*_flat(path[first:, body]).T, color=color, alpha=0.3, linewidth=3.2, solid_capstyle="round")
        if moving[1] is None:
            if len(path) == 1:  # a line of one point is invisible
                axes.plot(*_flat(path[:, body]).T, color=color, alpha=0.3, marker="o", markersize=6)
            axes.plot(*_flat(paths[:, body]).T, color=color, linestyle="", marker="x", markersize=4)
            continue
        axes.plot(*_flat(paths[first:, body]).T, color=color, linewidth=0.9)
        axes.plot(*_flat(real[-1, body]), color=color, marker="o", markersize=9, fillstyle="none", alpha=0.6)
        axes.plot(*_flat(paths[-1, body]), color=color, marker="o", markersize=4)

    low, high = (getattr(_flat(path), name)(axis=(0, 1)) for name in ("min", "max"))
    middle, half = ((low + high) / 2, 1.08 * (high - low).max() / 2) if reach is None else (_flat(_middle(real)), reach)
    half = half or 1.0
    axes.set(xlim=(middle[0] - half, middle[0] + half), ylim=(middle[1] - half, middle[1] + half), aspect="equal")
    axes.set_xlabel(with_unit("x", orbits.length_unit))
    if real.shape[-1] > 1:
        axes.set_ylabel(with_unit("y", orbits.length_unit))
    else:
        axes.set_yticks([])


def last_turn(path: np.ndarray) -> int:
    """The index in a path from which it is one turn long; 0 if there are only a few turns.

    Args:
        path: (time, axis).
    """
    lengths = np.sqrt((np.diff(path, axis=0) ** 2).sum(-1))
    turn = np.pi * (path.max(0) - path.min(0)).max()
    if lengths.sum() <= MAX_TURNS * turn:
        return 0
    return int(np.flatnonzero(lengths[::-1].cumsum()[::-1] <= turn)[0])


def smooth(times: np.ndarray, positions: np.ndarray, velocities: np.ndarray | None) -> np.ndarray:
    """Interpolates between the times by cubic Hermite splines.

    Args:
        times: (time).
        positions: (time, body, space).
        velocities: (time, body, space); None returns the positions unchanged.
    """
    if velocities is None or len(times) < 2:
        return positions

    t = (np.arange(FINE) / FINE)[:, None, None]
    steps = np.diff(times)[:, None, None, None]
    x, y, v, w = (array[:, None] for array in (positions[:-1], positions[1:], velocities[:-1], velocities[1:]))
    with np.errstate(over="ignore", invalid="ignore"):
        interpolated = (
            (2 * t**3 - 3 * t**2 + 1) * x + (t**3 - 2 * t**2 + t) * steps * v
            + (3 * t**2 - 2 * t**3) * y + (t**3 - t**2) * steps * w
        )  # fmt: skip

    return np.concatenate([interpolated.reshape(-1, *positions.shape[1:]), positions[-1:]])


def drawable(values: np.ndarray, real: np.ndarray) -> np.ndarray:
    """Values that can be drawn beside real ones: those of bodies that escaped to (almost) infinity become NaN."""
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(values) <= MAX_DISTANCE * np.abs(real).max(), values, np.nan)


def _legend(orbits: Orbits) -> list[Line2D]:
    is_path = orbits.predicted_velocities is not None
    ink: dict[str, Any] = {"color": INK}
    style: dict[str, Any] = {"linewidth": 0.9} if is_path else {"linestyle": "", "marker": "x", "markersize": 4}
    handles = [
        Line2D([], [], **ink, alpha=0.3, linewidth=3.2, label="real"),
        Line2D([], [], **ink, **style, label="predicted"),
    ]

    if is_path:
        end: dict[str, Any] = {"linestyle": "", "marker": "o"}
        handles += [
            Line2D([], [], **ink, **end, markersize=9, fillstyle="none", alpha=0.6, label="real, at the end"),
            Line2D([], [], **ink, **end, markersize=4, label="predicted, at the end"),
        ]

    named_bodies = enumerate(orbits.names[:MAX_NAMES])
    handles += [Line2D([], [], color=color_of(body), linewidth=3, label=_label(name)) for body, name in named_bodies]
    if len(orbits.names) > MAX_NAMES:
        handles.append(Line2D([], [], linestyle="", label=f"and {len(orbits.names) - MAX_NAMES} more"))
    return handles


def _flat(positions: np.ndarray) -> np.ndarray:
    """The first two axes of space; on a line the second is 0."""
    has_second = positions.shape[-1] > 1
    return positions[..., :2] if has_second else np.concatenate([positions, np.zeros_like(positions)], axis=-1)


def _middle(real: np.ndarray) -> np.ndarray:
    """The median position of the bodies, robust against a few far ones."""
    return np.median(real, axis=(0, 1))


def _label(name: str) -> str:
    """The name of a body for a legend, which leaves out those that begin with an underscore."""
    return plain(f" {name}" if name.startswith("_") else name)
