"""Whatever is sent, the server answers with a status below 500 and goes on: 123 hostile requests, and random ones."""

import contextlib
import json
import random
import socket

import pytest

from tests.factories import MARKUP, ODD_WORDS
from tests.waiting import DEADLINE
from tests.web.serving import serving

ROUTES = ("/api/explain", "/api/ask", "/api/flip", "/api/download")


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
    for i in range(45):
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


def test_odd_texts_are_explained_or_refused(client):
    unit = "word"
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
        answer = client.post("/api/explain", {"text": text, "unit": unit, "queries": 20}, {"Accept": "text/event-stream"})
        assert answer.status in (200, 400), text
        if answer.status == 400:
            continue
        names = [name for name, _ in answer.events]
        assert names[0] == "queued"
        assert names[-1] in ("done", "error")
        assert set(names) <= {"queued", "progress", "explanation", "done", "error"}
        if names[-1] == "error":
            assert answer.events[-1][1]["status"] == 400
        for kind in ("csv", "python"):
            file = client.post("/api/download", {"text": text, "unit": unit, "queries": 20, "format": kind})
            assert file.status == (200 if names[-1] == "done" else 400), (text, kind, file.body[:200])


def hostile_requests():
    """Names and bytes of requests that must be refused or closed; there are 123."""
    host, json_type = b"Host: localhost\r\n", b"Content-Type: application/json\r\n"

    def head(line, *headers, body=b""):
        return line + b" HTTP/1.1\r\n" + b"".join(header + b"\r\n" for header in headers) + b"\r\n" + body

    def post(body, path=b"/api/explain", *headers):
        length = b"Content-Length: %d" % len(body)
        return head(b"POST " + path, b"Host: localhost", b"Content-Type: application/json", length, *headers, body=body)

    found = []
    for name in (b"evil.example", b"localhost.evil.example", b"127.0.0.1@evil.example", b"", b"localhost:x", b"[::1",
                 b"0.0.0.0",
                 b"169.254.169.254", b"localhost\t.evil", b"\xff", b"a" * 5000):  # fmt: skip
        found.append((b"host " + name[:30], head(b"GET /api/info", b"Host: " + name)))
    found += [
        (b"no host", head(b"GET /api/info")),
        (b"two hosts", head(b"GET /api/info", b"Host: localhost", b"Host: localhost")),
        (b"1.0 without host", b"GET / HTTP/1.0\r\n\r\n"),
        (b"absolute form", head(b"GET http://evil.example/", b"Host: evil.example")),
    ]
    for origin in (b"http://evil.example", b"null", b"file://", b"http://localhost:1", b"http://localhost.evil.example", b"*",
                   b"javascript:alert(1)", b"\xff\xfe"):  # fmt: skip
        found.append((b"origin " + origin, post(b'{"text": "a"}', b"/api/explain", b"Origin: " + origin)))
    found += [
        (b"site " + site, post(b'{"text": "a"}', b"/api/ask", b"Sec-Fetch-Site: " + site)) for site in (b"cross-site", b"x")
    ]
    for method in (b"PUT", b"DELETE", b"PATCH", b"TRACE", b"CONNECT", b"OPTIONS", b"PROPFIND", b"get", b"X" * 300):
        found.append((b"method " + method[:9], head(method + b" /api/explain", b"Host: localhost")))
    found.append((b"HEAD of a POST", head(b"HEAD /api/explain", b"Host: localhost", b"Connection: close")))
    for kind in (b"text/plain", b"multipart/form-data; boundary=x", b"application/x-www-form-urlencoded", b"application/xml",
                 b"application/jsonp", b"", b"application/json, text/plain"):  # fmt: skip
        length = b"Content-Length: 13"
        sent = head(b"POST /api/explain", b"Host: localhost", b"Content-Type: " + kind, length, body=b'{"text": "a"}')
        found.append((b"type " + kind, sent))
    for path in (b"/../../etc/passwd", b"/assets/../app.py", b"/assets/..%2f..%2fapp.py", b"/assets/%2e%2e/%2e%2e/etc/passwd",
                 b"/assets/....//....//etc/passwd", b"/assets/%00", b"/assets/..\\..\\app.py", b"/assets//etc/passwd",
                 b"/assets/index.html%00.js", b"/%c0%ae%c0%ae/etc/passwd", b"/.git/config", b"/api/", b"/api/corpus/text/1",
                 b"/api/nothing?" + b"a=b&" * 2000, b"/" + b"a" * 60_000):  # fmt: skip
        found.append((b"path " + path[:40], head(b"GET " + path, b"Host: localhost")))
    bodies = (
        b"", b"{", b"[]", b"null", b"1", b'"text"', b"\xff\xfe{}", b'{"text": "\xc3\x28"}', b"\xef\xbb\xbf{}", b"{}",
        b'{"text": 1}',
        b'{"text": null}', b'{"text": ["a"]}', b'{"text": ""}', b'{"text": "   "}', b'{"text": "a", "queries": -1}',
        b'{"text": "a", "queries": 0}', b'{"text": "a", "queries": 1e400}', b'{"text": "a", "queries": NaN}',
        b'{"text": "a", "queries": Infinity}', b'{"text": "a", "queries": 99999999999999999999}',
        b'{"text": "a", "queries": "50"}',
        b'{"text": "a", "queries": true}', b'{"text": "a", "queries": 50.5}', b'{"text": "a", "seed": -1}',
        b'{"text": "a", "seed": 1e999}', b'{"text": "a", "method": "__import__"}', b'{"text": "a", "method": "context-cite"}',
        b'{"text": "a", "unit": "../.."}', b'{"text": "a", "model": "m9"}', b'{"text": "a", "target": "nothing"}',
        b'{"text": "a", "__proto__": {"x": 1}}', b'{"text": "a", "extra": 1}', b'{"text": "\\ud800"}',
        b"[" * 100_000, b'{"a":' * 50_000, b'{"text": "' + b"a" * 60_000 + b'"}', b"{" + b'"x": 1,' * 1000 + b'"text": "a"}',
        b"x" * 2_000_001,
    )  # fmt: skip
    found += [(b"explain " + body[:40], post(body)) for body in bodies]
    for body in (b'{"texts": []}', b'{"texts": [1]}', b'{"keep": [[1]]}', b'{"text": "a b", "keep": [[2, 0]]}',
                 b'{"text": "a b", "keep": [[1]]}', b'{"text": "a", "keep": [[1]], "texts": ["a"]}',
                 b'{"texts": [' + b'"a",' * 1000 + b'"a"]}'):  # fmt: skip
        found.append((b"ask " + body[:40], post(body, b"/api/ask")))
    for body in (b'{"text": "a", "format": "exe"}', b'{"text": "a", "format": "../x"}', b'{"text": "a"}'):
        found.append((b"download " + body, post(body, b"/api/download")))
    start = b"POST /api/ask HTTP/1.1\r\n" + host + json_type
    smuggled = b"GET /api/info HTTP/1.1\r\nHost: evil.example\r\n\r\n"
    found += [
        (b"two lengths", start + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\n{}   " + smuggled),
        (b"length and chunks", start + b"Content-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + smuggled),
        (b"bad chunks", start + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n"),
        (b"endless chunk", start + b"Transfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n{}"),
        (b"unknown coding", start + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
        (b"negative length", start + b"Content-Length: -1\r\n\r\n"),
        (b"length in words", start + b"Content-Length: ten\r\n\r\n"),
        (b"folded header", b"GET / HTTP/1.1\r\nHost: evil\r\n .example\r\n\r\n"),
        (b"space before colon", b"GET / HTTP/1.1\r\nHost : localhost\r\n\r\n"),
        (b"huge header", b"GET / HTTP/1.1\r\n" + host + b"X: " + b"x" * 200_000 + b"\r\n\r\n"),
        (b"many headers", b"GET / HTTP/1.1\r\n" + host + b"X: y\r\n" * 20_000 + b"\r\n"),
        (b"NUL in a header", b"GET / HTTP/1.1\r\n" + host + b"X: a\x00b\r\n\r\n"),
        (b"HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"),
        (b"TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 200),
        (b"slow body", start + b"Content-Length: 100\r\n\r\n{"),
        (b"slow head", b"GET / HTTP/1.1\r\nHost: local"),
        (b"websocket elsewhere", head(b"GET /api/socket", b"Host: localhost", b"Upgrade: websocket", b"Connection: Upgrade",
                                      b"Sec-WebSocket-Version: 13", b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==")),
    ]  # fmt: skip
    return found


def test_hostile_requests_are_refused_and_the_server_goes_on(capfd):
    requests = hostile_requests()
    assert len(requests) == len(dict(requests)) == 123
    with serving(head_seconds=0.3, body_seconds=0.3) as client:
        for name, sent in requests:
            answer = b""
            with socket.create_connection(("127.0.0.1", client.port), DEADLINE) as raw, contextlib.suppress(ConnectionError):
                raw.sendall(sent)
                while part := raw.recv(65_536):
                    answer += part
                    if b"\r\n\r\n" in answer and b"connection: close" not in answer.lower():
                        break
            status = answer.split(b" ", 2)[1:2]
            assert status == [] or status[0].startswith(b"4"), (name, answer[:300])
            assert b"Traceback" not in answer, name
        assert client.post("/api/ask", {"texts": ["good"]}).json["scores"] == [1.75]
    assert "Traceback" not in "".join(capfd.readouterr())
