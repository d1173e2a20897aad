"""Draws docs/pictures/neighborhoods.svg, the picture in the README, from the neighborhoods themselves.

python docs/picture.py
"""

import sys
from pathlib import Path

import matplotlib

matplotlib.use("svg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch

from edgewise import Causal, Edges, Full, Segments, Window
from edgewise.neighborhood import Neighborhood

NUM_NODES = 7
RING = Edges([0, 1, 2, 3, 4, 2, 5], [1, 2, 3, 4, 0, 5, 6], NUM_NODES, NUM_NODES).undirected()
PANELS: list[tuple[str, str, Neighborhood]] = [
    ("Full()", "everyone", Full()),
    ("Causal()", "a sentence, read forward", Causal()),
    ("Window(1, 1)", "near neighbors", Window(1, 1)),
    ("Segments([0, 3, 7])", "two texts, packed", Segments([0, 3, 7])),
    ("Edges(…)", "a molecule: its bonds", RING),
]
INK, WORD, EDGE = "#3b4252", "#2a7f9e", "#d08b2c"


def draw_arcs(axes: Axes, neighborhood: Neighborhood) -> None:
    """Every pair as an arc from sender to receiver, over the nodes in a row."""
    edges = neighborhood.to_edges(NUM_NODES, NUM_NODES)
    for sender, receiver in zip(edges.senders.tolist(), edges.receivers.tolist()):
        if sender != receiver:
            bend = "arc3,rad=-0.55" if sender < receiver else "arc3,rad=0.55"
            arrow = FancyArrowPatch(
                (sender, 0), (receiver, 0), connectionstyle=bend, arrowstyle="-", color=EDGE, lw=1, alpha=0.75
            )
            axes.add_patch(arrow)
    axes.scatter(range(NUM_NODES), [0] * NUM_NODES, s=70, color=WORD, zorder=3)
    axes.set(xlim=(-0.7, NUM_NODES - 0.3), ylim=(-0.6, 2.4), aspect="equal")
    axes.axis("off")


def draw_table(axes: Axes, neighborhood: Neighborhood) -> None:
    """The same pairs as a table: a row a query, a column a key."""
    mask = neighborhood.to_mask(NUM_NODES, NUM_NODES)
    for query in range(NUM_NODES):
        for key in range(NUM_NODES):
            filled = bool(mask[query, key])
            axes.add_patch(
                plt.Rectangle((key, query), 0.88, 0.88, color=WORD if filled else "#e5e9f0", alpha=0.9 if filled else 1)
            )
    axes.set(xlim=(-0.2, NUM_NODES + 0.1), ylim=(NUM_NODES + 0.1, -0.2), aspect="equal")
    axes.axis("off")


def main(path: Path) -> None:
    """Write the picture."""
    # Without a date and with fixed ids the file changes only when the picture does.
    plt.rcParams.update({"font.family": "sans-serif", "svg.hashsalt": "edgewise", "svg.fonttype": "path"})
    figure, axes = plt.subplots(2, len(PANELS), figsize=(12, 4.6), height_ratios=[1, 1.7])
    for column, (code, words, neighborhood) in enumerate(PANELS):
        draw_arcs(axes[0, column], neighborhood)
        draw_table(axes[1, column], neighborhood)
        axes[0, column].set_title(code, family="monospace", fontsize=11, color=INK)
        axes[1, column].text(NUM_NODES / 2, NUM_NODES + 0.7, words, ha="center", va="top", fontsize=10, color=INK)
    figure.subplots_adjust(left=0.01, right=0.99, top=0.92, bottom=0.08, wspace=0.06, hspace=0.02)
    figure.savefig(path, metadata={"Date": None}, facecolor="white")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "pictures" / "neighborhoods.svg")
