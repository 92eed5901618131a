"""Whatever is sent, the server answers with a status below 500 and goes on; benchmarks/serve.py sends more of it."""

import http.client
import json
import random
import socket

import pytest

from tests.factories import MARKUP, ODD_WORDS
from tests.web.serving import TEXT, serving

ROUTES = ("/api/explain", "/api/ask", "/api/flip", "/api/download", "/api/methods")


@pytest.fixture(scope="module")
def client():
    with serving() as started:
        yield started


def random_json(rng, depth=0):
    """Any JSON, with names of our fields among its keys."""
    names = ("text", "keep", "texts", "model", "method", "unit", "queries", "target", "seed", "format", "x")
    kinds = ["number", "string", "constant"] + ["list", "object"] * (depth < 3)
    match rng.choice(kinds):
        case "number":
            return rng.choice([0, 1, -1, 2**70, 1e308, 0.5, 50, rng.randrange(100)])
        case "string":
            return rng.choice(["", "html", "joint", "word", "all", *ODD_WORDS, MARKUP, "\x00", "m0"])
        case "constant":
            return rng.choice([None, True, False])
        case "list":
            return [random_json(rng, depth + 1) for _ in range(rng.randrange(4))]
        case _:
            return {rng.choice(names): random_json(rng, depth + 1) for _ in range(rng.randrange(5))}


def test_random_bytes_and_random_json(client):
    rng = random.Random(1)
    connection = client.connection()
    statuses = set()
    for i in range(300):
        path = rng.choice(ROUTES)
        body = rng.randbytes(rng.randrange(200)) if i % 3 else json.dumps(random_json(rng)).encode()
        connection.request("POST", path, body, {"Content-Type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        statuses.add(response.status)
        assert response.status < 500, (path, body, answer)
        if response.status != 200:
            assert list(json.loads(answer)) == ["error"]
    connection.close()
    assert 400 in statuses
    assert client.post("/api/ask", {"texts": ["good"]}).json["scores"] == [1.75]


def test_random_paths_and_queries(client):
    rng = random.Random(2)
    connection = client.connection()
    for _ in range(150):
        alphabet = "abcxyz/.%?&=;#+-_~!$'()*,:@0123456789ABCDEF"
        path = rng.choice(["/", "/assets/", "/api/", "/api/info"]) + "".join(rng.choices(alphabet, k=rng.randrange(30)))
        connection.request("GET", path)
        response = connection.getresponse()
        response.read()
        assert response.status < 500, path
    connection.close()


def test_bytes_that_are_no_requests(client):
    rng = random.Random(3)
    for i in range(60):
        with socket.create_connection(("127.0.0.1", client.port), 5) as raw:
            raw.settimeout(5)
            noise = rng.randbytes(rng.randrange(1, 400))
            start = (
                b"",
                b"GET / HTTP/1.1\r\nHost: localhost\r\n",
                b"POST /api/ask HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n",
            )
            try:
                raw.sendall(start[i % 3] + noise + b"\r\n\r\n")
                raw.shutdown(socket.SHUT_WR)
                answer = raw.recv(65536)
            except OSError:
                continue
            assert not answer.startswith(b"HTTP/1.1 5"), (noise, answer)
    assert client.get("/api/info").status == 200


@pytest.mark.parametrize("unit", ["word", "token", "sentence", "type"])
def test_odd_texts_are_explained_or_refused(client, unit):
    texts = [
        *ODD_WORDS,
        " ".join(word for word in ODD_WORDS if word.isprintable()),
        MARKUP,
        "\u202eabc\u202c \u2066x\u2069 \ufeff",
        "a\u0301" * 20,
        "\x00\x01\x02 \x7f\x85",
        "👩‍👩‍👧‍👦 🏳️‍🌈 " * 3,
        "ก" * 50,
        "event: done\ndata: {}\n\nevent: explanation\r\rdata: x",
    ]
    for text in texts:
        answer = client.post("/api/explain", {"text": text, "unit": unit, "queries": 50}, {"Accept": "text/event-stream"})
        assert answer.status in (200, 400), text
        if answer.status == 400:
            continue
        names = [name for name, _ in answer.events]
        assert names[0] == "queued"
        assert names[-1] in ("done", "error")
        assert set(names) <= {"queued", "progress", "explanation", "done", "error"}
        if names[-1] == "error":
            assert answer.events[-1][1]["status"] == 400
        for kind in ("html", "csv", "json", "python"):
            file = client.post("/api/download", {"text": text, "unit": unit, "queries": 50, "format": kind})
            assert file.status == (200 if names[-1] == "done" else 400), (text, kind, file.body[:200])


def test_headers_that_are_too_long_are_refused(client):
    connection = client.connection()
    try:
        connection.request("GET", "/api/info", headers={"X-Long": "x" * 200_000})
        assert connection.getresponse().status in (400, 431)
    except (OSError, http.client.HTTPException):
        pass  # it hung up
    finally:
        connection.close()
    assert client.post("/api/ask", {"texts": [TEXT]}).status == 200
