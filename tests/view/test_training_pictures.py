"""Pictures of a training: the numbers found again in the figures, whatever they are, in the light and in the dark."""

import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from edgewise.view.figure import svg
from edgewise.view.page import Caution, PageTable, Picture, page
from edgewise.view.training import (
    MAX_COUNTED,
    MAX_DOTS,
    draw_confusion,
    draw_coverage,
    draw_losses,
    draw_numbers,
    draw_reliability,
)


def history(train, val):
    return {"epoch": np.arange(1, len(train) + 1), "train_loss": np.array(train), "val_loss": np.array(val)}


def legend_of(holder):
    return [text.get_text() for text in holder.get_texts()]


def test_losses_and_the_best_epoch():
    figure = draw_losses({0: history([3, 2, 1.0], [4, 2, 3.0])})
    train, val, ring = figure.axes[0].get_lines()
    assert train.get_xydata().tolist() == [[1, 3], [2, 2], [3, 1]]
    assert val.get_ydata().tolist() == [4, 2, 3]
    assert ring.get_xydata().tolist() == [[2, 2]]
    assert legend_of(figure.legends[0]) == ["training", "validation"]
    assert figure.axes[0].get_yscale() == "linear"


def test_losses_of_members_of_one_epoch_of_great_range_and_without_validation():
    figure = draw_losses({member: history([100, 1.0], [90, 2.0]) for member in range(3)})
    assert figure.axes[0].get_yscale() == "log"
    assert legend_of(figure.legends[0]) == [
        "training, member 1", "validation, member 1", "training, member 2", "validation, member 2"
    ]  # fmt: skip
    figure = draw_losses({0: history([-1.0], [np.nan])})
    (line,) = figure.axes[0].get_lines()
    assert line.get_marker() == "o", "a line of one point shows nothing"
    assert "</svg>" in svg(draw_losses({0: history([np.nan, np.inf], [np.nan, np.nan])}))


def test_predictions_errors_and_how_often_each_occurs():
    true, predicted = np.array([1.0, 2, 3, 4]), np.array([1.5, 2, 2, 4.5])
    figure = draw_numbers(true, predicted)
    left, middle, right = figure.axes
    np.testing.assert_array_equal(left.get_lines()[1].get_xydata(), np.stack([true, predicted], 1))
    np.testing.assert_array_equal(middle.get_lines()[1].get_xydata(), np.stack([predicted, predicted - true], 1))
    assert sum(patch.get_height() for patch in right.patches) == 4
    assert left.get_xlim() == left.get_ylim()
    assert legend_of(right.get_legend()) == ["median"]


@pytest.mark.parametrize("true", [[2.0], [2.0, 2.0, 2.0], [1e300, -1e300], [1e-12, 2e-12]])
def test_odd_numbers_are_drawn(true):
    true = np.array(true)
    for predicted in (true, true * 1.01):
        assert "</svg>" in svg(draw_numbers(true, predicted))


def test_many_rows_are_one_image():
    true = np.linspace(0, 1, MAX_DOTS + 1)
    drawn = svg(draw_numbers(true, true**2))
    assert "data:image/png" in drawn
    assert len(drawn) < 400_000


def test_coverage_beside_the_promise():
    figure = draw_coverage(np.array([0.5, 0.9]), np.array([0.4, 0.95]), 50, chosen=0.9)
    _, observed, ring = figure.axes[0].get_lines()
    assert observed.get_xydata().tolist() == [[0.5, 0.4], [0.9, 0.95]]
    assert ring.get_xydata().tolist() == [[0.9, 0.95]]
    assert legend_of(figure.axes[0].get_legend()) == ["by chance", "as promised", "observed", "the run's intervals"]
    assert len(draw_coverage(np.array([0.5]), np.array([0.4]), 50).axes[0].get_lines()) == 2


def test_probabilities_beside_what_happened():
    figure = draw_reliability(np.array([0.1, 0.9]), np.array([0.2, 0.8]), np.array([30, 70]), "being $x$")
    above, below = figure.axes
    assert [0.1, 0.2] in [line.tolist() for each in above.get_lines() for line in each.get_xydata()]
    assert [patch.get_height() for patch in below.patches] == [30, 70]
    assert "</svg>" in svg(figure), "a class between dollars is no formula"


def test_a_square_for_each_pair_of_classes():
    counts = np.array([[8, 2], [0, 5]])
    (axes,) = draw_confusion(["<b>", "$x$"], counts).axes
    assert sorted(text.get_text() for text in axes.texts) == ["2", "5", "8"]
    assert [patch.get_alpha() for patch in axes.patches] == pytest.approx([0.08 + 0.92 * s for s in (0.8, 0.2, 1)])
    assert "</svg>" in svg(draw_confusion(["<b>", "$x$"], counts))
    many = np.eye(MAX_COUNTED + 1, dtype=int)
    (axes,) = draw_confusion([f"a rather long name {n}" for n in range(MAX_COUNTED + 1)], many).axes
    assert not axes.texts
    assert axes.get_xticklabels()[0].get_text() == "a rather long n…"


def test_signs_that_the_font_lacks_do_no_harm():
    assert ElementTree.fromstring(svg(draw_confusion(["水", "\N{GRINNING FACE}"], np.eye(2, dtype=int)))) is not None


def test_a_page_for_light_and_dark_with_cautions_and_words():
    drawn = svg(draw_losses({0: history([3, 2.0], [4, 2.0])}))
    table = PageTable("t", ["row", "<i>", "n"], [["1", "<b>&", "2"]], (1,))
    written = page("R", [("One", [Caution("<look>"), Picture(drawn, "c"), table])])
    assert '<p class="caution">&lt;look&gt;</p>' in written
    assert '<td>1</td><td class="words">&lt;b&gt;&amp;</td><td>2</td>' in written
    assert "@media (prefers-color-scheme: dark)" in written
    # What the dark turns round is what figures are drawn with.
    for paint in ('fill="#ffffff"', 'fill="#3b4252"', 'stroke="#3b4252"', 'stroke="#d8dee9"'):
        assert f"[{paint}]" in written
        assert paint in drawn
    assert not re.findall(r'(?:src|href)="(?!#)', written), "nothing is fetched"
    assert "<script" not in written
