"""The page as a file: nothing from outside, nothing but text out of what users wrote, the numbers as they are."""

import base64
import hashlib
import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("rdkit")

from explanation_cases import (
    ALL_CASES,
    HOSTILE,
    IONS,
    graph_case,
    hostile_case,
    molecule_case,
    text_case,
    translation_case,
)

from edgewise.errors import DataError, SettingError
from edgewise.explain.explanation import Explanation, Link, TargetPrediction, Unit
from edgewise.view.explanation import explanation_page
from edgewise.view.layout import lay_out
from edgewise.view.molecule import draw_molecules
from edgewise.view.picture import color_map, draw_explanation, explanation_png, explanation_svg


class Reader(HTMLParser):
    """The tags of a page, and the text in each script and style by its id or name."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts, self.within = [], {}, None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.within = dict(attrs).get("id", tag) if tag in ("script", "style", "title") else None

    def handle_endtag(self, tag):
        self.within = None

    def handle_data(self, data):
        if self.within:
            self.texts[self.within] = self.texts.get(self.within, "") + data


@pytest.mark.parametrize("name", ALL_CASES)
def test_the_page_holds_the_numbers_and_loads_nothing(name):
    explanation = ALL_CASES[name]()
    page = explanation_page([explanation])
    reader = Reader(page)
    assert json.loads(reader.texts["explanation-0"]) == explanation.to_json()
    assert reader.texts["title"] == explanation.title
    assert set(re.findall(r"https?://[^\s\"'<]+", page)) == {"http://www.w3.org/2000/svg"}
    assert not {"src", "href"} & {attribute for _, attributes in reader.tags for attribute in attributes}
    assert not {"link", "img", "iframe", "object"} & {tag for tag, _ in reader.tags}


def test_the_policy_allows_the_two_blocks_and_no_other():
    reader = Reader(explanation_page([text_case()]))
    [policy] = [found["content"] for tag, found in reader.tags if found.get("http-equiv") == "Content-Security-Policy"]
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert allowed["default-src"] == "'none'"
    for name in ("script", "style"):
        digest = base64.b64encode(hashlib.sha256(reader.texts[name].encode()).digest()).decode()
        assert allowed[f"{name}-src"] == f"'sha256-{digest}'"


def test_what_users_write_stays_text():
    page = explanation_page([hostile_case(), text_case()], title=HOSTILE)
    tags = [tag for tag, _ in Reader(page).tags]
    harmless = [tag for tag, _ in Reader(explanation_page([text_case(), text_case()])).tags]
    assert tags == harmless
    assert json.loads(Reader(page).texts["explanation-0"]) == hostile_case().to_json()
    assert "<!--" not in page
    assert "innerHTML" not in page


def test_halves_of_characters_can_be_written_to_a_file():
    explanation = text_case("A \ud83d half")
    assert explanation_page([explanation]).encode()


def test_several_explanations_and_none():
    reader = Reader(explanation_page([text_case(), graph_case()]))
    contents = json.loads(reader.texts["contents"])
    assert [each["predictions"] for each in contents["explanations"]] == ["mood = good", "topic = theory"]
    assert {"explanation-0", "explanation-1", "drawing-0", "drawing-1"} <= set(reader.texts)
    with pytest.raises(SettingError, match=r"^explanation_page: explanations is empty, expected at least one\.$"):
        explanation_page([])


def test_molecules_are_drawn_with_their_atoms_where_the_halos_are():
    cation, anion = draw_molecules(molecule_case())
    assert (cation.source, anion.source) == tuple(IONS)
    assert cation.units == tuple(range(10))
    assert set(anion.bonds) == {(10, 11), (11, 12), (11, 13), (11, 14)}
    for drawn in (cation, anion):
        assert (drawn.places > 0).all()
        assert (drawn.places < [drawn.width, drawn.height]).all()
        lengths = [
            np.linalg.norm(drawn.places[a - drawn.units[0]] - drawn.places[b - drawn.units[0]]) for a, b in drawn.bonds
        ]
        assert np.mean(lengths) == pytest.approx(drawn.bond_length)
        assert len(drawn.strokes) >= len(drawn.bonds)
    # The letters of boron and its fluorines, each over its atom.
    letters = [stroke for stroke in anion.strokes if stroke.fill]
    for atom in anion.places:
        middles = [np.array(re.findall(r"[\d.]+", each.d), dtype=float).reshape(-1, 2).mean(0) for each in letters]
        assert min(np.linalg.norm(middle - atom) for middle in middles) < 0.4 * anion.bond_length


def test_a_lone_atom_has_room():
    salt = Explanation(
        "molecule", "Cl", {"anion": "[Cl-]"}, (TargetPrediction("y", 1.0),), "y", (Unit("Cl", "anion", 0, 5),)
    )
    [drawn] = draw_molecules(salt)
    assert (drawn.places > 0.6 * drawn.bond_length).all()
    assert drawn.bonds == ()
    assert explanation_page([salt])


def test_a_molecule_with_other_atoms_is_refused():
    wrong = Explanation(
        "molecule", "CO", {"smiles": "CO"}, (TargetPrediction("y", 1.0),), "y", (Unit("C", "smiles", 0, 1),)
    )
    with pytest.raises(
        DataError, match=r"^smiles: 'CO' has 2 atoms, but the explanation has 1 units; expected one unit per atom"
    ):
        explanation_page([wrong])
    broken = Explanation(
        "molecule", "C(", {"smiles": "C("}, (TargetPrediction("y", 1.0),), "y", (Unit("C", "smiles", 0, 1),)
    )
    with pytest.raises(DataError, match=r"^smiles: 'C\(' is not a SMILES that RDKit can read\.$"):
        explanation_page([broken])


def test_rings_are_as_far_as_the_node_is_away():
    # 0 – 1 – 2, 0 – 3, and 4 – 5 apart.
    layout = lay_out(6, [(0, 1), (1, 2), (3, 0), (4, 5), (1, 1), (1, 0)], center=0)
    assert layout.hops.tolist() == [0, 1, 2, 1, -1, -1]
    radius = np.linalg.norm(layout.places, axis=1)
    assert radius[0] == 0
    assert radius[1] == pytest.approx(radius[3])
    assert 0 < radius[1] < radius[2] < radius[4] == pytest.approx(1)
    assert layout.groups.size == 0


def test_a_large_graph_is_grouped_by_rings_and_nodes_do_not_lie_on_each_other():
    case = graph_case(3000)
    ends = [(link.first, link.second) for link in case.links]
    layout = lay_out(3000, ends, 0)
    again = lay_out(3000, list(reversed(ends)), 0)
    np.testing.assert_array_equal(layout.places, again.places)
    assert layout.groups.max() < 200
    assert np.bincount(layout.groups).min() >= 1
    for group in range(layout.groups.max() + 1):
        assert len(set(layout.hops[layout.groups == group])) == 1
    away = np.linalg.norm(layout.places[:, None, :] - layout.places[None, :, :], axis=-1) + 9 * np.eye(3000)
    assert np.median(away.min(1)) > 0.3 / np.sqrt(3000)


@pytest.mark.parametrize("num_nodes", [0, 1, 2, 30])
def test_without_a_center_springs_spread_the_nodes(num_nodes):
    ring = [(node, (node + 1) % num_nodes) for node in range(num_nodes)]
    layout = lay_out(num_nodes, ring)
    assert layout.places.shape == (num_nodes, 2)
    assert np.isfinite(layout.places).all()
    assert (np.linalg.norm(layout.places, axis=1) <= 1 + 1e-9).all()
    if num_nodes == 30:
        edge = np.linalg.norm(layout.places - np.roll(layout.places, 1, axis=0), axis=1)
        assert edge.max() < 3 * np.median(edge)


@pytest.mark.parametrize("name", ALL_CASES)
def test_pictures_are_files_that_others_open(name):
    explanation = ALL_CASES[name]()
    drawn = explanation_svg(explanation)
    assert ElementTree.fromstring(drawn).tag == "{http://www.w3.org/2000/svg}svg"
    assert drawn == explanation_svg(explanation)
    assert explanation_png(explanation, attribution=explanation.attributions[1].name)[:8] == b"\x89PNG\r\n\x1a\n"


def test_words_are_shaded_by_their_numbers():
    explanation = text_case()
    figure = draw_explanation(explanation, attribution="occlusion")
    values = explanation.attributions[0].values
    expected = color_map(True)(0.5 + values / np.abs(values).max() / 2)
    np.testing.assert_allclose([patch.get_facecolor() for patch in figure.axes[0].patches], expected, atol=0.01)
    assert "mood = good (90%)" in [text.get_text() for text in figure.texts]


def test_a_long_prediction_is_cut_in_the_sentence_and_shown_in_full_below():
    predicted = "Ein roter Hund läuft im Schnee und noch viel weiter als man sehen kann."
    figure = draw_explanation(translation_case(predicted=predicted))
    said = "translation = Ein roter Hund läuft im Schnee und noch viel w …, mean ln p = -0.4000"
    assert said in [text.get_text() for text in figure.texts]
    assert "kann" in "".join(text.get_text() for text in figure.axes[0].texts)


def test_an_attribution_that_is_not_there_is_refused():
    with pytest.raises(SettingError, match=r"^attribution is 'shap', expected one of: occlusion, attention\.$"):
        explanation_svg(text_case(), attribution="shap")


def test_both_ends_of_a_link_stand_together_and_are_marked():
    found = replace(graph_case(4), links=(Link(0, 1), Link(2, 3)), other_end=3)
    page = explanation_page([found])
    drawing = json.loads(page.split('id="drawing-0">')[1].split("</script>")[0])["graph"]
    assert (drawing["hops"][0], drawing["hops"][3], drawing["hops"][2]) == (0, 1, 2)
    assert "explanation.other_end" in page
