"""The grid of layers and heads: the drawn opacities are the weights, found again in the images."""

import base64
import re
import struct
import xml.etree.ElementTree as ElementTree
import zlib

import numpy as np
import pytest
from explanation_cases import molecule_case, text_case, translation_case

from edgewise.errors import ShapeError
from edgewise.explain.explanation import Explanation, Layer, TargetPrediction, Unit
from edgewise.view.grid import BLUE, MAX_CELLS, Svg, attention_grid, head_table, image, sides_of


def pixels(png):
    """(row, column): the opacities of a PNG of one color, each chunk checked."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    place, chunks = 8, {}
    while place < len(png):
        (length,) = struct.unpack(">I", png[place : place + 4])
        name, content = png[place + 4 : place + 8], png[place + 8 : place + 8 + length]
        assert struct.unpack(">I", png[place + 8 + length : place + 12 + length])[0] == zlib.crc32(name + content)
        chunks[name], place = content, place + 12 + length
    columns, rows = struct.unpack(">II", chunks[b"IHDR"][:8])
    assert chunks[b"PLTE"] == bytes(BLUE) * 256
    lines = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(rows, columns + 1)
    assert not lines[:, 0].any()
    return np.frombuffer(chunks[b"tRNS"], np.uint8)[lines[:, 1:]]


def images(svg):
    return [pixels(base64.b64decode(found)) for found in re.findall(r'base64,([^"]+)"', svg)]


def dense(weights, name="layer 1"):
    """A layer in which everyone may attend to everyone: (head, receiver, sender)."""
    receivers, senders = np.indices(weights.shape[1:]).reshape(2, -1)
    return Layer(name, senders, receivers, weights.reshape(len(weights), -1))


def test_a_table_for_each_head_and_the_weights_in_it():
    rng = np.random.default_rng(0)
    one, other = rng.dirichlet(np.ones(5), (3, 5)), rng.dirichlet(np.ones(5), (2, 5))
    readout = Layer("readout", np.arange(5), np.zeros(5, np.int64), rng.dirichlet(np.ones(5), 2), is_readout=True)
    drawn = attention_grid([dense(one), dense(other, "layer <2>"), readout])
    tables = images(drawn)
    assert [table.shape for table in tables] == [(5, 5)] * 5 + [(1, 5)] * 2
    for table, weights in zip(tables, [*one, *other, *readout.values[:, None]], strict=True):
        np.testing.assert_allclose(table / 255, weights / weights.max(), atol=0.5 / 255 + 1e-9)
    root = ElementTree.fromstring(drawn)
    words = [each.text for each in root.findall("{http://www.w3.org/2000/svg}text")]
    assert words == ["head 1", "head 2", "head 3", "layer 1", "layer <2>", "readout"]
    titles = [each.text for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[0] == f"layer 1, head 1: the largest weight is {one[0].max():.3g}"
    assert drawn._repr_svg_() == drawn
    assert isinstance(drawn, Svg)


def test_edges_by_hand():
    # 0 and 1 send to 2; one of them twice.
    layer = Layer("layer 1", np.array([0, 1, 1]), np.array([2, 2, 2]), np.array([[0.5, 0.25, 0.25]]))
    np.testing.assert_array_equal(
        head_table(layer, 0, range(4), range(4)), [[0] * 4, [0] * 4, [0.5, 0.5, 0, 0], [0] * 4]
    )
    assert images(attention_grid([layer]))[0].shape == (3, 3), "as many as are spoken of"
    assert images(attention_grid([layer], 4))[0].shape == (4, 4)


def test_many_units_share_cells_and_the_strongest_shows():
    size = 1000
    weights = np.full((1, size), 1e-4)
    weights[0, 700] = 0.9
    layer = Layer("layer 1", np.arange(size), np.full(size, 333), weights)
    table = head_table(layer, 0, range(size), range(size))
    assert table.shape == (MAX_CELLS, MAX_CELLS)
    row, column = 333 * MAX_CELLS // size, 700 * MAX_CELLS // size
    assert table[row, column] == 0.9
    assert np.count_nonzero(table) == MAX_CELLS
    assert len(attention_grid([layer])) < 5_000


def test_nothing_to_attend_to_is_an_empty_table():
    nobody = Layer("layer 1", np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros((2, 0)))
    assert [table.tolist() for table in images(attention_grid([nobody]))] == [[[0]], [[0]]]
    nothing = Layer("layer 1", np.array([0]), np.array([0]), np.array([[np.nan]]))
    assert pixels(image(head_table(nothing, 0, range(1), range(1)))).tolist() == [[0]]


def sizes(svg):
    return [tuple(map(int, found)) for found in re.findall(r'<image [^>]*width="(\d+)" height="(\d+)"', svg)]


def test_a_translation_shows_the_texts_that_a_layer_goes_between():
    explanation = translation_case()
    source = sum(unit.source == "source" for unit in explanation.units)
    written = len(explanation.units) - source
    # In the decoder of this case, the first word of the translation attends to nothing.
    expected = {"encoder 1": (source, source), "decoder 1": (written - 1, written), "cross 1": (written, source)}
    drawn = attention_grid(explanation)
    found = iter(zip(images(drawn), sizes(drawn), strict=True))
    for layer in explanation.layers:
        rows, columns = sides_of(explanation, layer)
        assert (len(rows), len(columns)) == expected[layer.name]
        for values in layer.values:
            whole = np.zeros((len(explanation.units),) * 2)
            whole[layer.receivers, layer.senders] = values
            table, (wide, high) = next(found)
            np.testing.assert_allclose(table / 255, whole[np.ix_(rows, columns)] / whole.max(), atol=0.002)
            assert wide / high == pytest.approx(len(columns) / len(rows), rel=0.03), "its cells are squares"
    assert next(found, None) is None
    assert all(table.shape[0] == table.shape[1] for table in images(attention_grid(explanation.layers)))


def test_of_one_text_a_molecule_and_a_readout_everyone_is_shown():
    for explanation in (text_case(), molecule_case()):
        places = range(len(explanation.units))
        for layer in explanation.layers:
            assert sides_of(explanation, layer) == (range(1) if layer.is_readout else places, places)


def test_a_thin_table_is_seen_still():
    units = (*[Unit("a", "en")] * 300, Unit("b", "de"))
    across = Layer("cross 1", np.arange(300), np.full(300, 300), np.full((1, 300), 1 / 300))
    explanation = Explanation(
        "text", "a", {"en": "a", "de": "b"}, (TargetPrediction("y", 1.0),), "y", units, layers=(across,)
    )
    assert sizes(attention_grid(explanation)) == [(84, 12)]


def test_what_is_no_picture_says_how_long_it_is():
    drawn = attention_grid([dense(np.ones((1, 2, 2)))])
    assert repr(drawn) == f"<Svg of {len(drawn):,} characters>"


def test_what_cannot_be_drawn():
    with pytest.raises(ShapeError, match="num_units is for layers; an explanation has its own units"):
        attention_grid(text_case(), 3)
    layer = Layer("layer 1", np.array([4]), np.array([0]), np.array([[1.0]]))
    with pytest.raises(ShapeError, match="unit 4 has a weight, but num_units is 3"):
        attention_grid([layer], 3)
    with pytest.raises(ShapeError, match="layers is empty"):
        attention_grid([])
