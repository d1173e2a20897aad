"""Trained models served: the answers are theirs, and the pictures are the real ones."""

from pathlib import Path

import numpy as np
import pytest

from browsing import chromium, needs_chromium
from edgewise.errors import DataError
from edgewise.learn.estimators import LanguageModel, MoleculeRegressor, Tagger, TextClassifier, Translator
from edgewise.learn.readers.texts.tokenizer import ALL_UNKNOWN
from edgewise.learn.tasks.explainer import Explainer
from edgewise.learn.tasks.links.explainable import explain_link, predict_links
from edgewise.learn.training.folder import RunFolder
from edgewise.serve.worker import predict_or_reason
from explain_cases import TAGS, language_model, link_model, tagger
from trained_runs import TEXTS as TRAINED_TEXTS

TEXTS = list(TRAINED_TEXTS)


@pytest.fixture(scope="module")
def reader(trained_run):
    """A model of texts, and the folder that it was saved in."""
    return TextClassifier.load(trained_run("texts")), trained_run("texts")


@pytest.fixture(scope="module")
def chemist(trained_run):
    """A model of molecules, and the folder that it was saved in."""
    return MoleculeRegressor.load(trained_run("molecules")), trained_run("molecules")


@pytest.fixture(scope="module")
def translator(trained_run):
    """A model that translates, and the folder that it was saved in."""
    return Translator.load(trained_run("translations")), trained_run("translations")


def test_served_predictions_of_texts_equal_the_model(client, reader):
    model, folder = reader
    explainer = Explainer.open(folder)
    (field,) = explainer.fields
    asker = client(explainer)
    answer = asker.post("/predict", json={"rows": [{field["name"]: text} for text in TEXTS]})
    predicted = [each["predictions"][0]["probabilities"] for each in answer.json()["rows"]]
    expected = model.predict_proba(TEXTS)
    assert model.classes_.tolist() == list(predicted[0])
    np.testing.assert_allclose([list(each.values()) for each in predicted], expected, rtol=0, atol=1e-6)
    row = {field["name"]: TEXTS[1]}
    assert asker.post("/explain", json={"row": row}).json() == explainer.explain(row).to_json()
    assert asker.post("/explain", json={"row": row, "label": "mediocre"}).status_code == 422
    assert asker.post("/explain", json={"row": row, "label": "bad"}).json()["explained"].endswith("= bad")


def test_a_translation_is_served_and_any_token_of_it_explained(client, translator):
    model, folder = translator
    explainer = Explainer.open(folder)
    asker = client(explainer)
    assert asker.get("/model").json()["facts"]["open"] == ["target"]
    answer = asker.post("/predict", json={"rows": [{"source": text} for text in TEXTS] + [{"source": " "}]}).json()
    assert [row["predictions"][0]["label"] for row in answer["rows"][:-1]] == model.predict(TEXTS)
    assert answer["rows"][-1]["error"] == "source: the text is empty."
    row = {"source": TEXTS[0]}
    assert asker.post("/explain", json={"row": row}).json() == explainer.explain(row).to_json()
    found = asker.post("/explain", json={"row": row, "target": "0"}).json()
    assert found["explained"].startswith("p of ")
    refused = asker.post("/explain", json={"row": row, "target": "<b>"})
    assert (refused.status_code, refused.json()["where"]) == (422, "row")
    assert "target is '<b>'; expected translation, or of its tokens one of 0 " in refused.json()["error"]
    for body in ({"row": row, "target": "x" * 201}, {"row": row, "target": 1}, {"row": row, "label": "good"}):
        assert asker.post("/explain", json=body).status_code == 422
    answer = asker.post("/explain", json={"row": {"source": "film " * 50}})
    assert answer.json()["error"].endswith(" tokens, of which the model reads 23.")


def test_a_row_of_unknown_words_alone_has_the_status_of_the_command_line(client, reader, marker, translator):
    for _, folder in (reader, marker, translator):
        explainer = Explainer.open(folder)
        (field,) = explainer.fields
        rows = [{field["name"]: text} for text in ("a film", "\u0416\u0416")]
        found = client(explainer).post("/predict", json={"rows": rows}).json()["rows"]
        knows_bytes = explainer.facts["task"] == "translation"
        assert [row["status"] for row in found] == ["ok", "ok" if knows_bytes else ALL_UNKNOWN]
        assert [row["error"] for row in found] == [None, None]
        assert all(row["predictions"] for row in found)


def test_a_text_longer_than_the_model_reads_is_refused(client, reader):
    explainer = Explainer.open(reader[1])
    name = explainer.fields[0]["name"]
    answer = client(explainer).post("/predict", json={"rows": [{name: "fine " * 50}, {name: "fine"}]})
    first, second = answer.json()["rows"]
    assert (first["predictions"], second["error"]) == ([], None)
    assert first["error"].startswith("the row is too long: ")
    assert first["error"].endswith(" tokens, of which the model reads 12.")


def test_of_molecules_one_that_cannot_be_read_fails_alone(client, chemist):
    model, folder = chemist
    explainer = Explainer.open(folder)
    name = explainer.fields[0]["name"]
    smiles = ["CCO", "C(", "c1ccccc1", "", "N", "CC\u041e", "C(" + "\xe9" * 300]
    found = predict_or_reason(explainer, [{name: text} for text in smiles])
    assert [isinstance(each, DataError) for each in found] == [False, True, False, True, False, True, True]
    expected = model.predict(["CCO", "c1ccccc1", "N"])
    np.testing.assert_allclose([found[place].predictions[0].value for place in (0, 2, 4)], expected, rtol=1e-5)
    answer = client(explainer).post("/predict", json={"rows": [{name: "C("}]})
    assert answer.status_code == 422
    assert str(folder) not in answer.text
    bad = [smiles[0], *smiles[-2:]]
    answer = client(explainer).post("/predict", json={"rows": [{name: text} for text in bad]})
    rows = answer.json()["rows"]
    assert [row["error"] is None for row in rows] == [True, False, False]
    assert "character 3 is U+041E (CYRILLIC CAPITAL LETTER O)" in rows[1]["error"]


def test_null_is_a_number_that_the_model_fills(client, tmp_path):
    small = {"epochs": 1, "model_dim": 8, "num_heads": 2, "num_layers": 1, "head_dim": 8, "num_variants": 2}
    heat = np.arange(10.0)[:, None]
    model = MoleculeRegressor(**small, molecule_descriptors=False)
    model.fit(["C" * (size + 1) for size in range(10)], np.arange(10.0), conditions=heat).save(tmp_path / "run")
    asker = client(Explainer.open(tmp_path / "run"))
    smiles, number = asker.get("/model").json()["fields"]
    assert (number["type"], number["may_be_missing"]) == ("number", True)
    rows = [{smiles["name"]: "CCO", number["name"]: value} for value in (None, 4.5)]
    missing, known = asker.post("/predict", json={"rows": rows}).json()["rows"]
    assert known["status"] == "ok"
    assert missing["status"] == f"ok, but {number['name']!r} is missing, filled with the median"
    with pytest.warns(UserWarning, match="predict: 1 row lacks something"):
        (expected,) = model.predict(["CCO"], conditions=np.array([[np.nan]]))
    assert missing["predictions"][0]["value"] == pytest.approx(expected)
    assert asker.post("/explain", json={"row": rows[0]}).status_code == 200


def test_a_number_that_no_training_row_had_is_not_filled(client, tmp_path):
    small = {"epochs": 1, "model_dim": 8, "num_heads": 2, "num_layers": 1, "head_dim": 8, "num_variants": 2}
    heat = np.stack([np.arange(10.0), np.full(10, np.nan)], axis=1)
    model = MoleculeRegressor(**small, molecule_descriptors=False)
    with pytest.warns(UserWarning, match="condition_2"):
        model.fit(["C" * (size + 1) for size in range(10)], np.arange(10.0), conditions=heat).save(tmp_path / "run")
    asker = client(Explainer.open(tmp_path / "run"))
    smiles, first, second = (field["name"] for field in asker.get("/model").json()["fields"])
    rows = [{smiles: "CCO", first: 4.5, second: None}, {smiles: "CCO", first: None, second: None}]
    known, missing = asker.post("/predict", json={"rows": rows}).json()["rows"]
    assert known["status"] == "ok"
    assert missing["status"] == f"ok, but {first!r} is missing, filled with the median"
    notes = asker.post("/explain", json={"row": rows[1]}).json()["notes"]
    assert [note for note in notes if second in note] == [
        f"{second} is the same in all training rows, so that the model ignores it."
    ]


def test_links_are_served_and_explained_as_in_python(client, tmp_path):
    trained = link_model("gat")
    trained.save(RunFolder(tmp_path / "run"))
    asker = client(Explainer.open(tmp_path / "run"))
    about = asker.get("/model").json()
    assert [field["name"] for field in about["fields"]] == ["sender", "receiver"]
    assert (about["facts"]["task"], about["facts"]["targets"]) == ("link", ["link_prob"])
    assert about["facts"]["rows"] == "the links of a graph"
    assert asker.get("/openapi.json").json()["info"]["description"] == "A trained model over the links of a graph."
    edges = trained.encoder.graph.edges
    ends = [(int(edges.senders[0]), int(edges.receivers[0])), (0, 1)]
    rows = [{"sender": f"n{one}", "receiver": f"n{other}"} for one, other in ends]
    predicted = [each["predictions"][0]["value"] for each in asker.post("/predict", json={"rows": rows}).json()["rows"]]
    np.testing.assert_allclose(predicted, predict_links(trained, *zip(*ends, strict=True)), atol=1e-6)
    found = asker.post("/explain", json={"row": rows[0]}).json()
    assert found == explain_link(trained, *ends[0]).to_json()
    assert (found["center"], found["other_end"], found["predictions"][0]["value"]) == (
        0,
        1,
        pytest.approx(predicted[0], abs=1e-6),
    )
    assert asker.post("/page", json={"row": rows[0]}).status_code == 200
    for row in ({**rows[0], "sender": "zoe"}, {"sender": "n1", "receiver": "n1"}, {"sender": "n1"}):
        answer = asker.post("/explain", json={"row": row})
        assert answer.status_code == 422
        assert str(tmp_path) not in answer.text


def test_edges_are_served_and_explained_as_in_python(client, monkeypatch):
    folder = Path(__file__).parents[1] / "frozen/0.2.0/edges"
    monkeypatch.chdir(folder)
    explainer = Explainer.open("run")
    asker = client(explainer)
    about = asker.get("/model").json()
    assert [(field["name"], field["type"]) for field in about["fields"]] == [("from", "node"), ("to", "node")]
    assert (about["facts"]["rows"], about["facts"]["classes"]) == ("the edges of a graph", {"safe": ["no", "yes"]})
    row = {"from": "n34", "to": "n8"}
    (predicted,) = asker.post("/predict", json={"rows": [row]}).json()["rows"]
    found = asker.post("/explain", json={"row": row}).json()
    assert found == explainer.explain(row).to_json()
    assert (found["title"], found["center"], found["other_end"]) == ("n34 – n8", 0, 1)
    assert found["predictions"][0]["probabilities"]["yes"] == pytest.approx(
        predicted["predictions"][0]["probabilities"]["yes"], abs=1e-6
    )
    assert asker.post("/page", json={"row": row}).status_code == 200
    answer = asker.post("/explain", json={"row": {**row, "to": "zoe"}})
    assert (answer.status_code, "there is no node" in answer.text) == (422, True)


@pytest.fixture(scope="module")
def writer(tmp_path_factory):
    """A model of the next character, which reads twelve, and the folder that it was saved in."""
    model = LanguageModel()
    model.trained_ = language_model(position="learned", context=12)
    folder = tmp_path_factory.mktemp("writer") / "run"
    model.save(folder)
    return model, folder


@pytest.fixture(scope="module")
def marker(tmp_path_factory):
    """A model that tags words, and the folder that it was saved in."""
    model = Tagger()
    model.trained_ = tagger()
    folder = tmp_path_factory.mktemp("marker") / "run"
    model.save(folder)
    return model, folder


def test_the_next_token_is_served_and_explained(client, writer):
    model, folder = writer
    explainer = Explainer.open(folder)
    asker = client(explainer)
    predicted = asker.get("/model").json()
    assert predicted["fields"] == [{"name": "text", "type": "text"}]
    assert (predicted["facts"]["task"], predicted["facts"]["targets"]) == ("language", ["next token"])
    answer = asker.post("/predict", json={"rows": [{"text": text} for text in ("the cat", "XY", "a" * 13, " ")]})
    first, unknown, long, space = answer.json()["rows"]
    assert first["predictions"][0]["label"] == model.explain("the cat").predictions[0].label
    assert first["predictions"][0]["probabilities"] == pytest.approx(
        model.explain("the cat").predictions[0].probabilities, abs=1e-6
    )
    assert "never seen: 'X', 'Y'" in unknown["error"]
    assert long["error"] == "the row is too long: 13 tokens, of which the last 12 are read."
    assert space["predictions"]
    asked = {"row": {"text": "the cat"}, "label": " "}
    assert asker.post("/explain", json=asked).json() == model.explain("the cat", label=" ").to_json()
    refused = asker.post("/explain", json={**asked, "label": "the"})
    assert (refused.status_code, refused.json()["where"]) == (422, "row")
    assert "which is 3 tokens" in refused.json()["error"]
    assert asker.post("/explain", json={**asked, "label": "x" * 201}).status_code == 422
    assert asker.post("/explain", json={**asked, "target": "text"}).status_code == 422


def test_tags_are_served_and_explained(client, marker):
    model, folder = marker
    asker = client(Explainer.open(folder))
    facts = asker.get("/model").json()["facts"]
    assert (facts["task"], facts["classes"]) == ("tagging", {"tags": list(TAGS)})
    row, nothing = {"tokens": "the film was great"}, {"tokens": "\n"}
    first, second = asker.post("/predict", json={"rows": [row, nothing]}).json()["rows"]
    assert [each["label"] for each in first["predictions"]] == model.predict([["the", "film", "was", "great"]])[0]
    assert second["error"] == "tokens: the text is empty."
    asked = {"row": row, "target": "film", "label": "O", "top": 2}
    expected = model.explain(row["tokens"], target="film", label="O", top=2)
    assert asker.post("/explain", json=asked).json() == expected.to_json()
    assert asker.post("/page", json=asked).text.startswith("<!DOCTYPE html>")
    assert "one of 1 the" in asker.post("/explain", json={**asked, "target": "plot"}).json()["error"]
    assert asker.post("/explain", json={**asked, "label": "X"}).status_code == 422


@needs_chromium
def test_what_is_listed_nowhere_is_typed(listening, writer, marker):
    with chromium() as browser:
        cases = [
            (writer, "the\ncat", "class", "o", "next token = o"),
            (marker, "the film was great .", "explained", "film", "2 film = "),
        ]
        for (_, folder), text, name, word, explained in cases:
            page = browser.new_page()
            problems = []
            page.on("pageerror", lambda error, into=problems: into.append(str(error)))
            page.goto(listening(Explainer.open(folder), hosts=("127.0.0.1",)))
            page.locator("textarea").fill(text)
            page.locator(f"input[name='{name}']").fill(word)
            title = page.frame_locator("iframe").get_by_text(f"What matters for {explained}")
            title.wait_for(timeout=20_000)
            page.locator("#compare").check()
            page.locator("textarea").nth(1).fill(f"{text[:-1]}t")
            page.locator("#difference").filter(has_text=":").wait_for(timeout=20_000)
            assert problems == []
            page.close()


@needs_chromium
def test_the_real_picture_opens_in_its_frame(listening, reader, chemist):
    with chromium() as browser:
        for (_, folder), text in ((reader, "a fine film"), (chemist, "CCO")):
            page = browser.new_page()
            problems = []
            page.on("console", lambda message, into=problems: into.append(message.text))
            page.on("pageerror", lambda error, into=problems: into.append(str(error)))
            page.goto(listening(Explainer.open(folder), hosts=("127.0.0.1",)))
            page.locator("textarea").fill(text)
            frame = page.frame_locator("iframe")
            frame.locator("svg").first.wait_for(timeout=20_000)
            assert text in frame.locator("body").inner_text()
            page.get_by_text("for programs").click()
            page.locator("body.manual").wait_for()
            assert problems == []
            page.close()
