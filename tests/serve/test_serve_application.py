"""What the served application answers, and how it refuses."""

import json
import logging
from contextlib import closing
from html import unescape
from http.client import HTTPConnection
from urllib.parse import urlsplit

import pytest
from stand_in import MOLECULE, NODE, TEXT, StandIn, molecule_row

from edgewise.errors import SettingError
from edgewise.serve.limits import Limits


def test_rows_are_predicted_in_order(client):
    answer = client().post("/predict", json={"rows": [molecule_row("CCO", 300), molecule_row("C", 10)]})
    assert answer.status_code == 200
    found = answer.json()["rows"]
    assert found == [
        {
            "predictions": [
                {
                    "name": "length",
                    "value": 3,
                    "label": "",
                    "std": None,
                    "ensemble_std": None,
                    "low": 0,
                    "high": 150,
                    "probabilities": {},
                }
            ],
            "status": "ok",
            "error": None,
        },
        {
            "predictions": [
                {
                    "name": "length",
                    "value": 1,
                    "label": "",
                    "std": None,
                    "ensemble_std": None,
                    "low": 0,
                    "high": 5,
                    "probabilities": {},
                }
            ],
            "status": "ok",
            "error": None,
        },
    ]


def test_an_unreadable_row_has_an_error_and_the_others_are_predicted(client):
    rows = [molecule_row(name) for name in ("CC", "bad", "guess")]
    found = client().post("/predict", json={"rows": rows}).json()["rows"]
    reason = "smiles: 'bad' cannot be read."
    assert [len(each["predictions"]) for each in found] == [1, 0, 1]
    assert [each["error"] for each in found] == [None, reason, None]
    assert [each["status"] for each in found] == ["ok", reason, "ok, but guessed"]


def test_where_no_row_can_be_read_the_request_is_refused(client):
    answer = client().post("/predict", json={"rows": [molecule_row("bad")]})
    assert answer.status_code == 422
    assert answer.json() == {"error": "smiles: 'bad' cannot be read.", "where": "rows.0"}


def test_an_explanation_is_the_one_of_the_record(client):
    explainer = StandIn()
    answer = client(explainer).post("/explain", json={"row": molecule_row(), "target": "length", "top": 2})
    assert answer.status_code == 200
    expected = explainer.explain(molecule_row(), target="length", top=2).to_json()
    assert answer.json() == expected
    assert answer.json()["faithfulness"]["agreement"] == {"attention": None}


def test_an_explanation_is_drawn_as_a_page_and_a_picture(client, plain_view):
    asker = client(StandIn("text", TEXT))
    row = {"text": "<script>alert(1)</script>"}
    page = asker.post("/page", json={"row": row})
    assert page.headers["content-type"] == "text/html; charset=utf-8"
    assert "<script>alert" not in page.text
    assert "default-src 'none'" in page.headers["content-security-policy"]
    picture = asker.post("/picture", json={"row": row})
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/svg+xml")
    assert "frame-ancestors 'none'" in picture.headers["content-security-policy"]
    for answer in (page, picture, asker.get("/"), asker.get("/docs"), asker.get("/assets/serve.js")):
        assert "unsafe" not in answer.headers["content-security-policy"]


def test_the_model_endpoint_lists_fields_and_limits(client):
    predicted = client(rows=7).get("/model").json()
    assert predicted["fields"] == [{"name": "smiles", "type": "smiles"}, {"name": "temperature / K", "type": "number"}]
    assert (predicted["kind"], predicted["limits"]["rows"], predicted["facts"]["model"]) == ("molecule", 7, "counting")


REFUSED = [
    ({"rows": []}, "rows"),
    ({}, "rows"),
    ([], None),
    ("", None),
    ("CCO", None),
    ({"rows": [{}]}, "rows.0.smiles"),
    ({"rows": [molecule_row(3)]}, "rows.0.smiles"),
    ({"rows": [molecule_row("")]}, "rows.0.smiles"),
    ({"rows": [molecule_row("C" * 31)]}, "rows.0.smiles"),
    ({"rows": [molecule_row("C", "300")]}, "rows.0.temperature / K"),
    ({"rows": [molecule_row("C", True)]}, "rows.0.temperature / K"),
    ({"rows": [molecule_row("C", None)]}, "rows.0.temperature / K"),
    ({"rows": [molecule_row("C", 10**400)]}, "rows.0.temperature / K"),
    ({"rows": [{**molecule_row(), "more": 1}]}, "rows.0.more"),
    ({"rows": [molecule_row()], "more": 1}, "more"),
    ({"rows": [molecule_row()] * 6}, "rows"),
    ({"rows": {"smiles": "C"}}, "rows"),
]


@pytest.mark.parametrize(("body", "where"), REFUSED, ids=lambda value: str(value)[:40])
def test_what_is_no_row_is_refused_with_its_place(client, body, where):
    explainer = StandIn()
    asker = client(explainer, smiles=30, rows=5)
    answer = asker.post("/predict", json=body)
    assert answer.status_code == 422
    assert answer.json().keys() == {"error", "where"}
    assert answer.json()["where"] == where
    assert explainer.batches == []


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_numbers_that_are_none_are_refused(client, number):
    body = f'{{"rows": [{{"smiles": "C", "temperature / K": {number}}}]}}'
    answer = client().post("/predict", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert answer.json() == {"error": "Input should be a finite number", "where": "rows.0.temperature / K"}


@pytest.mark.parametrize(
    ("asked", "where"),
    [
        ({"target": "depth"}, "target"),
        ({"label": "red"}, "label"),
        ({"top": 0}, "top"),
        ({"top": 1.5}, "top"),
        ({"top": True}, "top"),
        ({"head": 1}, "head"),
    ],
)
def test_what_an_explanation_cannot_be_about_is_refused(client, asked, where):
    answer = client().post("/explain", json={"row": molecule_row(), **asked})
    assert answer.status_code == 422
    assert answer.json()["where"] == where


def test_a_row_that_cannot_be_explained_is_refused(client):
    answer = client().post("/explain", json={"row": molecule_row("bad")})
    assert (answer.status_code, answer.json()) == (422, {"error": "smiles: 'bad' cannot be read.", "where": "row"})


def test_what_is_longer_than_the_model_reads_is_refused(client):
    asker, reason = client(), "the row is too long: 9 tokens, of which the model reads 8."
    for path, body, where in (
        ("/predict", {"rows": [molecule_row("endless")]}, "rows.0"),
        ("/explain", {"row": molecule_row("endless")}, "row"),
    ):
        answer = asker.post(path, json=body)
        assert (answer.status_code, answer.json()) == (422, {"error": reason, "where": where})


def test_what_goes_wrong_inside_stays_inside(client, monkeypatch):
    asker, records = client(), []
    monkeypatch.setattr(logging.getLogger("edgewise.serve"), "handle", records.append)
    for path, body in (("/predict", {"rows": [molecule_row("boom")]}), ("/explain", {"row": molecule_row("boom")})):
        answer = asker.post(path, json=body)
        assert (answer.status_code, answer.json()) == (500, {"error": "internal error", "where": None})
    assert all("RuntimeError" in record.getMessage() for record in records) and len(records) == 2
    assert asker.post("/predict", json={"rows": [molecule_row()]}).status_code == 200


def test_other_places_and_methods_are_errors_of_the_same_kind(client):
    asker = client()
    assert asker.get("/nothing").json() == {"error": "Not Found", "where": None}
    assert asker.get("/assets/../application.py").status_code == 404
    assert asker.get("/assets/..%2fapplication.py").status_code == 404
    answer = asker.get("/predict")
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")
    assert answer.json() == {"error": "Method Not Allowed", "where": None}


def test_unknown_host_names_are_refused(client):
    asker = client(hosts=("127.0.0.1", "localhost", "[::1]"))
    for host, status in (("127.0.0.1:8000", 200), ("LOCALHOST", 200), ("[::1]:80", 200), ("evil.example", 421)):
        assert asker.get("/model", headers={"host": host}).status_code == status
    assert asker.get("/model", headers={"host": ""}).status_code == 421


def test_the_page_and_the_manual_need_nothing_from_elsewhere(client):
    asker = client(StandIn("text", TEXT))
    for path in ("/", "/docs"):
        page = asker.get(path)
        assert page.status_code == 200
        assert "http://" not in page.text.replace("http://testserver", "")
        assert "https://" not in page.text
        assert "default-src 'none'" in page.headers["content-security-policy"]
    for name, kind in (("serve.js", "text/javascript"), ("serve.css", "text/css")):
        asset = asker.get(f"/assets/{name}")
        assert asset.headers["content-type"].startswith(kind)
        assert "http" not in asset.text.replace("https://", "http://").partition("http://")[1]


def test_the_manual_lists_every_question_with_an_example_that_works(client):
    import re
    import shlex

    asker = client(StandIn("molecule"))
    manual = asker.get("/docs").text
    for path in asker.get("/openapi.json").json()["paths"]:
        assert path in manual
    command = shlex.split(unescape(re.search(r"<pre>(curl .*?/predict)</pre>", manual).group(1)))
    body = json.loads(command[command.index("-d") + 1])
    assert asker.post("/predict", json=body).status_code == 200
    assert "rows[].temperature / K" in manual


def test_the_interface_lists_the_refusals_of_requests_without_a_body(client):
    """The documents of GET /model promised 200 alone."""
    asker = client(StandIn(), api_key="open sesame", hosts=("localhost",))
    key = {"authorization": "Bearer open sesame", "host": "localhost"}
    responses = asker.get("/openapi.json", headers=key).json()["paths"]["/model"]["get"]["responses"]
    refused = [
        asker.get("/model", headers={"host": "localhost"}),
        asker.get("/model", headers={**key, "host": "example.org"}),
        asker.get("/model", headers={**key, "x-long": "a" * 20_000}),
    ]
    assert [answer.status_code for answer in refused] == [401, 421, 431]
    assert list(responses) == ["200", "401", "421", "431"]


def test_the_example_of_the_manual_has_a_number_where_it_may_be_missing(client):
    fields = [MOLECULE[0], {**MOLECULE[1], "may_be_missing": True}]
    assert '"temperature / K": 300' in unescape(client(StandIn("molecule", fields)).get("/docs").text)


def test_the_examples_of_the_manual_have_a_key_where_the_server_needs_one(client):
    headers = {"authorization": "Bearer open sesame"}
    manual = unescape(client(StandIn(), api_key="open sesame").get("/docs", headers=headers).text)
    assert "curl -H 'authorization: Bearer KEY' -H 'content-type: application/json' -d" in manual
    assert "sesame" not in manual
    assert "Bearer KEY'" not in unescape(client(StandIn()).get("/docs").text)


def test_a_column_may_be_called_anything(client):
    names = ["model_config", "self", "a b", "<b>", "class"]
    explainer = StandIn("text", [{"name": name, "type": "text"} for name in names])
    explainer._told = lambda row: explainer.batches.append(list(row)) or ()
    asker = client(explainer)
    assert asker.post("/predict", json={"rows": [dict.fromkeys(names, "word")]}).status_code == 200
    assert explainer.batches[-1] == names
    assert "<b>" not in asker.get("/docs").text


def test_a_node_is_named_by_a_string(client):
    asker = client(StandIn("graph", NODE))
    assert asker.post("/predict", json={"rows": [{"id": "7"}]}).status_code == 200
    assert asker.post("/predict", json={"rows": [{"id": 7}]}).status_code == 422


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ({"rows": 0}, "--max-rows is 0; expected at least 1."),
        ({"characters": 0}, "--max-characters is 0; expected at least 1."),
        ({"batch_size": 0}, "--batch-size is 0; expected at least 1."),
        ({"seconds": 0}, "--timeout is 0; expected above 0 and finite."),
        ({"seconds": float("inf")}, "--timeout is inf; expected above 0 and finite."),
        ({"batch_wait": -1}, "--batch-wait-ms is -1; expected at least 0 and finite."),
    ],
)
def test_limits_are_positive(limits, message):
    with pytest.raises(SettingError) as caught:
        Limits(**limits)
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("path", "body", "where"),
    [
        ("/predict", [1], None),
        ("/predict", {"rows": [1]}, "rows.0"),
        ("/explain", {"row": None}, "row"),
    ],
)
def test_what_is_no_object_is_refused_in_words_of_json(client, path, body, where):
    """The reason was pydantic's: "a valid dictionary or instance of Row"."""
    answer = client().post(path, json=body)
    expected = {"error": "expected a JSON object, {…}; GET /docs shows one", "where": where}
    assert (answer.status_code, answer.json()) == (422, expected)


def test_bodies_that_cannot_be_read_say_why(client):
    """Both were "There was an error parsing the body"."""
    packed = client().post(
        "/predict", content=b"\x1f\x8b", headers={"content-type": "application/json", "content-encoding": "gzip"}
    )
    assert (packed.status_code, packed.json()["error"]) == (
        415, "Content-Encoding is gzip; send the JSON as it is, without this header",
    )  # fmt: skip
    digits = client().post(
        "/predict", content=b'{"rows": [' + b"9" * 5000 + b"]}", headers={"content-type": "application/json"}
    )
    assert (digits.status_code, digits.json()["error"]) == (
        400, "the body cannot be read; a number may have too many digits",
    )  # fmt: skip


def test_head_is_answered_as_get_without_the_body(listening):
    """Whatever watches over servers asks so; it was 405."""
    address = urlsplit(listening(StandIn()))
    with closing(HTTPConnection(address.hostname, address.port, timeout=5)) as connection:
        for path, status in (("/model", 200), ("/", 200), ("/predict", 405), ("/none", 404)):
            connection.request("HEAD", path)
            answer = connection.getresponse()
            assert (answer.status, answer.read()) == (status, b"")
