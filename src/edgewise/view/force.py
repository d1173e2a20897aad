"""A learned force over the distance, beside the true law."""

import numpy as np

from edgewise.view.figure import INK, STYLE, Figure, color_of, in_powers, rc_context, tidy, with_unit

Fit = tuple[float, float] | None
"""An exponent and its uncertainty; None if no power law fits."""


def draw_force(
    distances: np.ndarray,
    learned: np.ndarray,
    law: np.ndarray | None = None,
    *,
    title: str = "",
    fits: tuple[Fit, Fit] = (None, None),
    length_unit: str = "",
    pull_unit: str = "",
) -> Figure:
    """Learned forces over distances on logarithmic axes, with the law and, for falling forces, a line ∝ 1/r²
    unless that is the law; below, the deviation from the law. A force that changes its sign is drawn on a linear axis.

    Args:
        distances: (distance).
        learned: (distance), positive towards the other body.
        law: the forces of the law.
        title: title of the figure.
        fits: exponents fitted to the learned forces and to the law, with their uncertainty, for the legend.
        length_unit, pull_unit: units of distances and forces.
    """
    has_sign = bool(np.all(learned > 0) or np.all(learned < 0))
    compares = law is not None and bool(np.all(law != 0))
    size = np.abs if has_sign else np.asarray
    with rc_context(STYLE):
        figure = Figure(figsize=(5.6, 5.0 if compares else 3.8), layout="constrained")
        grid = figure.add_gridspec(2 if compares else 1, 1, height_ratios=[3, 1] if compares else [1])
        axes = figure.add_subplot(grid[0])
        tidy(axes)
        if law is not None:
            axes.plot(distances, size(law), color=INK, alpha=0.3, linewidth=4, label=_words("the law", fits[1]))

        if has_sign and abs(learned[-1]) < abs(learned[0]) and not _is_square(distances, law):
            middle = len(distances) // 2
            guide = abs(learned[middle]) * (distances[middle] / distances) ** 2
            axes.plot(distances, guide, color=INK, linestyle=(0, (1, 2)), linewidth=1.1, label="∝ 1/r²")

        axes.plot(
            distances, size(learned), color=color_of(0), marker="o", markersize=3, linewidth=0.8,
            label=_words("learned", fits[0]),
        )  # fmt: skip
        in_powers(axes, distances[0], distances[-1])
        if has_sign:
            axes.set_yscale("log")
        direction = "pull" if not has_sign or learned[0] > 0 else "push"
        axes.set_ylabel(with_unit(direction, pull_unit))
        axes.set_title(title)

        lowest = axes
        if compares:
            lowest = figure.add_subplot(grid[1], sharex=axes)
            tidy(lowest)
            axes.tick_params(labelbottom=False)
            lowest.axhline(0, color=INK, alpha=0.3, linewidth=2)
            lowest.plot(
                distances, 100 * (learned / law - 1), color=color_of(0), marker="o", markersize=3, linewidth=0.8
            )
            lowest.set_ylabel("off the law (%)")

        lowest.set_xlabel(with_unit("distance r", length_unit))
        figure.legend(*axes.get_legend_handles_labels(), loc="outside upper right", ncols=3)

    return figure


def _is_square(distances: np.ndarray, law: np.ndarray | None) -> bool:
    """Whether the law is 1/r² itself, so that a guide line adds nothing."""
    if law is None:
        return False
    product = law * distances**2
    return bool(np.allclose(product, product[0], rtol=1e-3))


def _words(name: str, fit: Fit) -> str:
    return name if fit is None else rf"{name} $r^{{{fit[0]:.3f}\,\pm\,{fit[1]:.3g}}}$"
