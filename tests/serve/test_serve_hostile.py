"""Hostile input changes nothing but its own answer."""

import http.client
import json
import socket
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from stand_in import TEXT, StandIn, molecule_row

from edgewise.serve.bounds import nesting

JSON = {"content-type": "application/json"}
DEEP = 100_000
BODIES = {
    "not JSON": (b"{", 400),
    "nothing": (b"", 422),
    "deep lists": (b"[" * DEEP + b"]" * DEEP, 400),
    "deep lists, open": (b"[" * DEEP, 400),
    "deep objects": (b'{"rows":' * DEEP + b"1" + b"}" * DEEP, 400),
    "deep in a row": (b'{"rows": [{"smiles": ' + b"[" * DEEP + b"]" * DEEP + b"}]}", 400),
    "many quotes": (b'{"rows": "' + b'\\"' * 400_000, 400),
    "an endless number": (b'{"rows": [{"smiles": "C", "temperature / K": ' + b"9" * 500_000 + b"}]}", 400),
    "half a character": (rb'{"rows": [{"smiles": "\ud800", "temperature / K": 1}]}', 422),
    "half a character for a name": (rb'{"rows": [{"\ud800": 1}]}', 422),
    "a key twice": (b'{"rows": [{"smiles": "C", "smiles": "CC", "temperature / K": 1}]}', 400),
    "a key twice behind many": (b'{"rows": [{' + b"".join(b'"%d": 0, ' % n for n in range(50_000)) + b'"7": 1}]}', 400),
    "no UTF-8": (b'{"rows": [{"smiles": "\xff", "temperature / K": 1}]}', 400),
    "a million characters": (json.dumps({"rows": [molecule_row("C" * 1_000_000)]}).encode(), 422),
    "too long a body": (json.dumps({"rows": [molecule_row("C" * 1_100_000)]}).encode(), 413),
    "a long list": (json.dumps({"rows": [0] * 300_000}).encode(), 422),
    "many rows": (json.dumps({"rows": [molecule_row()] * 10_000}).encode(), 422),
    "many names": (json.dumps({"rows": [{str(n): 0 for n in range(50_000)}]}).encode(), 422),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_hostile_body_is_refused_in_no_time(client, name):
    body, status = BODIES[name]
    explainer = StandIn()
    asker = client(explainer)
    began = time.perf_counter()
    answer = asker.post("/predict", content=body, headers=JSON)
    assert time.perf_counter() - began < 5
    assert answer.status_code == status
    assert answer.json()["error"]
    assert len(answer.content) < 2000
    assert explainer.batches == []
    assert asker.post("/predict", json={"rows": [molecule_row()]}).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"])
def test_what_is_not_called_json_is_refused(client, kind):
    body = json.dumps({"rows": [molecule_row()]})
    asker = client()
    foreign = {"content-type": kind, "origin": "https://example.org"}
    answer = asker.post("/predict", content=body, headers=foreign)
    assert (answer.status_code, answer.json()["where"]) == (415, None)
    # A program that is no browser names no other site; it may send what `curl -d` sends.
    is_form = kind == "application/x-www-form-urlencoded"
    assert asker.post("/predict", content=body, headers={"content-type": kind}).status_code == (200 if is_form else 415)
    assert asker.post("/predict", content=body, headers={**foreign, "origin": "null"}).status_code == 415
    site = {"content-type": kind, "sec-fetch-site": "cross-site"}
    assert asker.post("/predict", content=body, headers=site).status_code == 415


def test_headers_that_come_at_once_are_bounded_too(client):
    asker = client()
    assert asker.get("/model", headers={"x": "a" * 10_000}).status_code == 200
    for long in ({"x": "a" * 17_000}, {f"x{n}": "a" * 100 for n in range(200)}):
        answer = asker.get("/model", headers=long)
        assert (answer.status_code, "longer than 16,384 bytes" in answer.json()["error"]) == (431, True)
    assert asker.get("/model?" + "a" * 17_000).status_code == 431
    assert asker.post("/predict", json={"rows": [molecule_row()]}, headers={"x": "a" * 100_000}).status_code == 431


@pytest.mark.parametrize("bad", ["", None, 7, ["C"], "C" * 3000])
def test_a_bad_cell_costs_its_own_row_only(client, bad):
    rows = [molecule_row() for _ in range(10)]
    rows[3] = {**rows[3], "smiles": bad}
    answer = client().post("/predict", json={"rows": rows})
    assert answer.status_code == 200
    found = answer.json()["rows"]
    assert [bool(row["predictions"]) for row in found] == [n != 3 for n in range(10)]
    assert found[3]["status"] == found[3]["error"]
    assert found[3]["error"].startswith("smiles: ")
    alone = client().post("/predict", json={"rows": [rows[3]]})
    assert (alone.status_code, alone.json()["where"]) == (422, "rows.0.smiles")


@pytest.mark.parametrize("row", [None, 7, "CCO", {}, {"smiles": "C", "other": 1}])
def test_a_row_that_is_none_costs_itself_only(client, row):
    found = client().post("/predict", json={"rows": [molecule_row(), row]}).json()["rows"]
    assert [bool(each["predictions"]) for each in found] == [True, False]
    assert found[1]["error"]


def test_html_in_a_text_stays_text(client):
    text = "<img src=x onerror=alert(1)>\u0000\u202e'\"--"
    found = client(StandIn("text", TEXT)).post("/explain", json={"row": {"text": text}})
    assert found.headers["content-type"] == "application/json"
    assert found.json()["sources"] == {"text": text}


def test_where_an_error_is_names_no_more_than_a_name(client):
    answer = client().post("/predict", json={"rows": [{**molecule_row(), "<script>" + "x" * 5000: 1}]})
    assert answer.status_code == 422
    assert len(answer.json()["where"]) < 100


def test_depth_is_counted_outside_strings():
    assert nesting(b"1", 9) == 0
    assert nesting(b'["[[[[", "\\"[[[", {"a": []}]', 9) == 3
    assert nesting(b"[][][]", 9) == 1
    assert nesting(b"[" * 50, 9) == 10
    assert nesting(b'"' + b'\\"' * 1_000_000, 9) == 0


def spoken(address, message, *, pause=0.0, timeout=20):
    """The answer of a server to bytes."""
    place = urlsplit(address)
    with socket.create_connection((place.hostname, place.port), timeout=timeout) as connection:
        connection.sendall(message)
        time.sleep(pause)
        return connection.recv(100_000)


def head(length, path="/predict", more=""):
    return f"POST {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{more}{length}\r\n\r\n".encode()


def test_a_body_is_measured_while_it_comes(listening):
    address = listening(StandIn(), body=1000, seconds=1)
    assert b" 413 " in spoken(address, head("content-length: 2000"))
    chunk = b"3e8\r\n" + b" " * 1000 + b"\r\n"
    assert b" 413 " in spoken(address, head("transfer-encoding: chunked") + chunk * 3)
    assert b" 408 " in spoken(address, head("content-length: 500") + b"{")
    with socket.create_connection((urlsplit(address).hostname, urlsplit(address).port)) as connection:
        connection.sendall(head("content-length: 500") + b"{")  # and goes away
    body = json.dumps({"rows": [molecule_row()]}).encode()
    assert b" 200 " in spoken(address, head(f"content-length: {len(body)}") + body)


def test_slow_work_is_given_up_and_others_are_answered(listening):
    import httpx

    explainer = StandIn()
    address = listening(explainer, seconds=0.5)
    explainer.gate.clear()
    answer = httpx.post(f"{address}/predict", json={"rows": [molecule_row()]}, timeout=20)
    assert (answer.status_code, answer.json()) == (
        504,
        {"error": "the request takes longer than 0.5 seconds", "where": None},
    )
    explainer.gate.set()
    assert httpx.post(f"{address}/predict", json={"rows": [molecule_row()]}, timeout=20).status_code == 200


def test_headers_must_come_in_time_however_slowly_they_drip(listening):
    address = listening(StandIn(), header_seconds=0.5)
    place = urlsplit(address)
    began = time.monotonic()
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        for part in (b"GET /model HTTP/1.1\r\n", b"host: x\r\n", b"a: b\r\n", b"c: d\r\n"):
            connection.sendall(part)
            time.sleep(0.1)
        assert b" 408 " in connection.recv(1000)
        assert connection.recv(1000) == b""
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        connection.sendall(b"GET /assets/serve.css HTTP/1.1\r\nhost: x\r\n\r\n")
        while b"}\n" not in connection.recv(100_000)[-3:]:
            pass
        connection.sendall(b"GET /model HTTP")  # the second request on it does not come to its end either
        assert b" 408 " in connection.recv(1000)
    assert time.monotonic() - began < 15


def test_a_client_that_asks_again_keeps_its_connection_beside_idle_ones(listening):
    address = listening(StandIn(), connections=8)
    place = urlsplit(address)
    with ExitStack() as stack:
        client = http.client.HTTPConnection(place.hostname, place.port, timeout=20)
        stack.callback(client.close)
        for _ in range(3):
            client.request("GET", "/model")
            assert client.getresponse().read()
            for _ in range(20):
                stack.enter_context(socket.create_connection((place.hostname, place.port), timeout=20))
            time.sleep(0.1)


def test_idle_connections_make_room_for_those_that_ask(listening):
    import httpx

    address = listening(StandIn(), connections=8)
    place = urlsplit(address)
    idle = [socket.create_connection((place.hostname, place.port), timeout=20) for _ in range(40)]
    assert httpx.post(f"{address}/predict", json={"rows": [molecule_row()]}, timeout=20).status_code == 200
    time.sleep(0.1)
    still_open = 0
    for each in idle:
        each.setblocking(False)
        try:
            each.recv(1)
        except BlockingIOError:
            still_open += 1
        except ConnectionResetError:
            pass
        each.close()
    assert still_open <= 8


def test_work_of_cancelled_requests_is_not_done(listening):
    import httpx

    explainer = StandIn()
    address = listening(explainer, batch_size=1)
    explainer.gate.clear()
    place = urlsplit(address)
    body = json.dumps({"rows": [molecule_row("C" * size) for size in range(1, 26)]}).encode()
    with socket.create_connection((place.hostname, place.port), timeout=20) as connection:
        connection.sendall(head(f"content-length: {len(body)}") + body)
        while not explainer.batches:
            time.sleep(0.01)
    time.sleep(0.2)
    explainer.gate.set()
    assert httpx.post(f"{address}/predict", json={"rows": [molecule_row()]}, timeout=20).status_code == 200
    assert explainer.batches == [1, 1], "24 rows of the client that left"


def test_the_names_of_the_server_are_a_list(client):
    asker = client(hosts=("models.example.org", "*.example.net", "ip"))
    wanted = {
        "models.example.org": 200,
        "MODELS.example.org:8000": 200,
        "a.b.example.net": 200,
        "10.0.0.7:80": 200,
        "[fe80::1]:80": 200,
        "example.net": 421,
        "evil.example": 421,
        "models.example.org.evil.example": 421,
        "10.0.0.7.evil.example": 421,
        "": 421,
    }
    assert {host: asker.get("/model", headers={"host": host}).status_code for host in wanted} == wanted


def test_without_the_key_there_is_only_the_page(client):
    asker = client(api_key="open sesame")
    assert [asker.get(path).status_code for path in ("/", "/assets/serve.js")] == [200, 200]
    for path in ("/model", "/docs", "/openapi.json", "/assets/../model"):
        assert asker.get(path).status_code in (401, 404)
    row = {"rows": [molecule_row()]}
    for given in ({}, {"authorization": "Bearer open"}, {"authorization": "Basic open sesame"}, {"x": "open sesame"}):
        answer = asker.post("/predict", json=row, headers=given)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
        assert "sesame" not in answer.text
    assert asker.post("/predict", json=row, headers={"authorization": "bearer open sesame"}).status_code == 200


def test_rows_that_are_not_ascii_leave_the_others_alone(client):
    rows = [molecule_row(name) for name in ("CC", "CC\U0001f600bad", "C(" + "\u00e9" * 1000 + "bad", "CCC")]
    answer = client().post("/predict", json={"rows": rows})
    assert [len(each["predictions"]) for each in answer.json()["rows"]] == [1, 0, 0, 1]
