"""A force over the distance: what was learned, beside the law."""

import numpy as np

from edgewise.view.figure import INK, STYLE, Figure, color_of, in_powers, rc_context, tidy, with_unit

Fit = tuple[float, float] | None
"""An exponent, and ±; None where no power fits."""


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
    """Learned pulls over distances, both in logarithm, with the law and, where they fall, a line ∝ 1/r² if that is not
    the law; below, how far they are from the law.

    Where a pull changes its sign there is no logarithm of it: it is drawn as it is.

    Args:
        distances: (distance).
        learned: (distance), above 0 towards the other body.
        law: the same by the law.
        title: above the figure.
        fits: exponents that were fitted to the learned pulls and to the law, and how much each varies, for the legend.
        length_unit, pull_unit: of distances and pulls.
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
        kind = "pull" if not has_sign or learned[0] > 0 else "push"
        axes.set_ylabel(with_unit(kind, pull_unit))
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
    """Whether a law is 1/r² itself, so that its own line adds nothing."""
    if law is None:
        return False
    product = law * distances**2
    return bool(np.allclose(product, product[0], rtol=1e-3))


def _words(name: str, fit: Fit) -> str:
    return name if fit is None else rf"{name} $r^{{{fit[0]:.3f}\,\pm\,{fit[1]:.3g}}}$"
