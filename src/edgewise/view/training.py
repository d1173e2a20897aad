"""Figures of a training report: losses, predictions against true values, calibration.

They take numbers only, independent of the model.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from edgewise.view.figure import (
    INK,
    STYLE,
    Axes,
    Figure,
    MaxNLocator,
    PercentFormatter,
    color_of,
    plain,
    rc_context,
    tidy,
)

MAX_DOTS = 3_000
"""The most rows drawn as separate shapes; more become one image, so that the page stays small."""
MAX_COUNTED = 12
"""The most classes whose counts are written into the cells."""
MAX_MEMBERS = 9
"""The most ensemble members with different colors."""
Z_95 = 1.96
"""Standard deviations of a two-sided 95 % interval."""


def draw_losses(histories: Mapping[int, Mapping[str, np.ndarray]], unit: str = "epoch") -> Figure:
    """The losses of every ensemble member over the training; a ring marks the lowest validation loss.

    Args:
        histories: by member, `epoch` counted from 1, `step`, `train_loss` and `val_loss`; NaN where one is missing.
        unit: epoch or step, what the training is counted in.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(6.4, 3.4), layout="constrained")
        axes = figure.add_subplot()
        tidy(axes)

        all_losses = [np.nan]
        for index, (member, history) in enumerate(histories.items()):
            color = color_of(index % MAX_MEMBERS)
            end = "" if len(histories) == 1 else f", member {member + 1}"
            for name, label, width, alpha in (
                ("train_loss", "training", 1.0, 0.55),
                ("val_loss", "validation", 1.8, 1.0),
            ):
                losses, marker = history[name], "o" if len(history[unit]) == 1 else None
                all_losses += losses.tolist()
                if np.isfinite(losses).any():
                    axes.plot(
                        history[unit], losses, color=color, linewidth=width, alpha=alpha, marker=marker,
                        linestyle="--" if name == "train_loss" else "-", label=label + end if index < 2 else None,
                    )  # fmt: skip

            if np.isfinite(history["val_loss"]).any():
                best = int(np.nanargmin(history["val_loss"]))
                axes.plot(
                    history[unit][best], history["val_loss"][best], color=color, marker="o", markersize=8,
                    fillstyle="none", linestyle="",
                )  # fmt: skip

        finite = np.array(all_losses)[np.isfinite(all_losses)]
        if len(finite) and finite.min() > 0 and finite.max() > 20 * finite.min():
            axes.set_yscale("log")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.set_xlabel(unit)
        axes.set_ylabel("loss")
        if axes.get_legend_handles_labels()[1]:
            figure.legend(loc="outside right upper")

    return figure


def draw_numbers(true: np.ndarray, predicted: np.ndarray) -> Figure:
    """Predictions over true values with the diagonal; errors over predictions; a histogram of the errors.

    Args:
        true, predicted: (row), finite.
    """
    errors = predicted - true
    with rc_context(STYLE):
        figure = Figure(figsize=(10.4, 3.5), layout="constrained")
        left, middle, right = (figure.add_subplot(1, 3, panel) for panel in (1, 2, 3))
        for axes in (left, middle, right):
            tidy(axes)
        low, high = min(true.min(), predicted.min()), max(true.max(), predicted.max())
        edge = 0.04 * (high - low) or 1.0
        ends = (low - edge, high + edge)
        left.plot(ends, ends, color=INK, alpha=0.3, linewidth=2)
        _dots(left, true, predicted)
        left.set(xlim=ends, ylim=ends, aspect="equal", xlabel="true", ylabel="predicted")
        middle.axhline(0, color=INK, alpha=0.3, linewidth=2)
        _dots(middle, predicted, errors)
        middle.set(xlabel="predicted", ylabel="predicted less true")
        largest = float(np.abs(errors).max()) or 1.0

        # The Freedman–Diaconis rule, but never so many bins that single rows can be seen.
        spread = float(np.subtract(*np.quantile(errors, [0.75, 0.25])))
        width = 2 * spread / len(errors) ** (1 / 3)
        count = int(np.clip(2 * largest / width if width else 10, 8, 50))
        right.hist(errors, bins=count, range=(-largest, largest), color=color_of(0), alpha=0.8)
        right.axvline(0, color=INK, alpha=0.3, linewidth=2)
        right.axvline(float(np.median(errors)), color=color_of(3), linewidth=1.4, label="median")
        right.set(xlabel="predicted less true", ylabel="rows")
        right.yaxis.set_major_locator(MaxNLocator(integer=True))
        right.legend(loc="upper right")

    return figure


def draw_coverage(nominal: np.ndarray, observed: np.ndarray, num_rows: int, chosen: float | None = None) -> Figure:
    """The observed coverage of intervals over the promised one; the pale band is explained by chance.

    The band is c ± 1.96·√(c(1 − c)/n), for n independent rows.

    Args:
        nominal, observed: (step), from 0 to 1.
        num_rows: n.
        chosen: the coverage of the run's own intervals, which is marked.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(4.2, 3.8), layout="constrained")
        axes = figure.add_subplot()
        tidy(axes)
        grid = np.linspace(0, 1, 101)
        half_width = Z_95 * np.sqrt(grid * (1 - grid) / num_rows)
        axes.fill_between(
            grid, grid - half_width, grid + half_width, color=INK, alpha=0.12, linewidth=0, label="by chance"
        )
        axes.plot([0, 1], [0, 1], color=INK, alpha=0.3, linewidth=2, label="as promised")
        axes.plot(nominal, observed, color=color_of(0), marker="o", markersize=4, linewidth=1.2, label="observed")

        if chosen is not None and np.isclose(nominal, chosen).any():
            marked = int(np.isclose(nominal, chosen).argmax())
            axes.plot(
                nominal[marked], observed[marked], color=color_of(3), marker="o", markersize=9, fillstyle="none",
                linestyle="", label="the run's intervals",
            )  # fmt: skip

        _percent_axes(axes, "promised coverage", "values inside")
        axes.legend(loc="upper left")

    return figure


def draw_reliability(mean: np.ndarray, observed: np.ndarray, counts: np.ndarray, about: str) -> Figure:
    """The observed frequency over the predicted probability; below, the number of rows.

    Args:
        mean, observed: (bin), from 0 to 1.
        counts: (bin).
        about: the event whose probability is shown.
    """
    with rc_context(STYLE):
        figure = Figure(figsize=(4.2, 4.4), layout="constrained")
        grid = figure.add_gridspec(2, 1, height_ratios=[4, 1])
        axes = figure.add_subplot(grid[0])
        tidy(axes)
        diagonal = np.linspace(0, 1, 101)
        axes.plot(diagonal, diagonal, color=INK, alpha=0.3, linewidth=2, label="as promised")
        error = Z_95 * np.sqrt(np.maximum(mean * (1 - mean), 0) / counts)
        axes.errorbar(mean, mean, error, color=INK, alpha=0.35, linestyle="", capsize=3, label="by chance")
        axes.plot(mean, observed, color=color_of(0), marker="o", markersize=5, linewidth=1.2, label="observed")
        _percent_axes(axes, "", "how often it was so")
        axes.tick_params(labelbottom=False)
        axes.legend(loc="upper left")
        below = figure.add_subplot(grid[1], sharex=axes)
        tidy(below)
        below.bar(mean, counts, width=0.06, color=color_of(0), alpha=0.8)
        below.set_ylabel("rows")
        below.yaxis.set_major_locator(MaxNLocator(nbins=2, integer=True))
        below.set_xlabel(plain(f"probability of {about}"))

    return figure


def draw_confusion(labels: Sequence[str], counts: np.ndarray) -> Figure:
    """The confusion matrix: one row per true class, shaded by the share of the row.

    Args:
        labels: the classes.
        counts: [true, predicted].
    """
    size = len(labels)
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)

    shown = [plain(label if len(label) <= 16 else f"{label[:15]}…") for label in labels]
    side = min(8.0, 2.2 + 0.42 * size)
    with rc_context(STYLE):
        figure = Figure(figsize=(side + 0.8, side), layout="constrained")
        axes = figure.add_subplot()
        for row, column in np.argwhere(counts > 0):
            share = float(shares[row, column])
            axes.fill(
                [column - 0.5, column + 0.5, column + 0.5, column - 0.5], [row - 0.5, row - 0.5, row + 0.5, row + 0.5],
                color=color_of(0 if row == column else 3), alpha=0.08 + 0.92 * share, linewidth=0,
            )  # fmt: skip
            if size <= MAX_COUNTED:
                ink = "#fefefe" if share > 0.45 else INK
                axes.text(column, row, f"{counts[row, column]:,}", ha="center", va="center", color=ink, fontsize=9)

        axes.set(xlim=(-0.5, size - 0.5), ylim=(size - 0.5, -0.5), aspect="equal", xlabel="predicted", ylabel="true")
        axes.set_xticks(range(size), shown, rotation=0 if size < 4 else 60, ha="center" if size < 4 else "right")
        axes.set_yticks(range(size), shown)
        for label in (*axes.get_xticklabels(), *axes.get_yticklabels()):
            label.set_rotation_mode("anchor")
        axes.spines[["left", "bottom"]].set_visible(False)
        axes.tick_params(length=0)

    return figure


def _dots(axes: Axes, x: np.ndarray, y: np.ndarray) -> None:
    many = len(x) > MAX_DOTS
    axes.plot(
        x, y, color=color_of(0), linestyle="", marker="o", markersize=2 if many else 4, markeredgewidth=0,
        alpha=0.3 if many else 0.65, rasterized=many,
    )  # fmt: skip


def _percent_axes(axes: Axes, x: str, y: str) -> None:
    """Axes from 0 to 1, in percent."""
    axes.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.02), xlabel=x, ylabel=y)
    axes.xaxis.set_major_formatter(PercentFormatter(1))
    axes.yaxis.set_major_formatter(PercentFormatter(1))
