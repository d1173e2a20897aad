"""Nodes by their names: the same places, whether names are looked up by their letters or by a number in them."""

import random

import pyarrow as pa
import pytest

from edgewise.learn.readers.graphs.names import NodeNames

ODD = ["0", "-1", "007", "node007", "9223372036854775807", "node9999999999999999999", "a", " 3", "+4", "", "1e3"]
ODD += ["n", "node", "é", "nodenode4", "node-3", "node 3", "node\u0663", "noda4"]


@pytest.mark.parametrize("beginning", ["", "node", "é", "7x", " ", "-", "0"])
@pytest.mark.parametrize("graphs", [False, True])
def test_places_are_those_of_the_same_names_in_a_list(beginning, graphs):
    chosen = random.Random(f"{beginning}{graphs}")

    def column(share: float) -> list[str]:
        rows = range(chosen.randint(0, 12))
        return [chosen.choice(ODD) if chosen.random() < share else f"{beginning}{chosen.randint(0, 30)}" for _ in rows]

    for share in [0, 0, 0.1, 0.3] * 30:
        names, wanted = list(dict.fromkeys(text.strip() for text in column(share))), column(share)
        homes, of_wanted = (["g1" if graphs and number % 2 else "g" for number in range(12)] for _ in range(2))
        nodes = list(zip(homes, names, strict=False))
        named = [(home, text.strip()) for home, text in zip(of_wanted, wanted, strict=False)]
        expected = [nodes.index(node) if node in nodes else -1 for node in named]
        known = NodeNames(names, homes[: len(names)]) if graphs else NodeNames(names)
        found = known.places(wanted, of_wanted[: len(wanted)]) if graphs else known.places(wanted)
        assert found.tolist() == expected


@pytest.mark.parametrize("beginning", ["", "node"])
def test_numbers_in_names_are_looked_up_without_comparing_letters(monkeypatch, beginning):
    names = NodeNames([f"{beginning}{number}" for number in (12, 7, 9, 10)])

    def compared(*_):
        raise AssertionError("names were compared letter by letter")

    monkeypatch.setattr(pa.compute, "index_in", compared)
    assert names.places([f"{beginning}{number}" for number in (10, 11, 7, 6, 1000)]).tolist() == [3, -1, 1, -1, -1]
