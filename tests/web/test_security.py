"""Who may ask: this machine's own pages, and those who know the token."""

import json
import socket
import time
from contextlib import ExitStack, suppress
from http.client import HTTPException

import pytest

from slalom.web.access import Access, is_loopback
from slalom.web.guard import POLICY
from tests.cases import cases
from tests.factories import MARKUP
from tests.waiting import DEADLINE, until
from tests.web.serving import TEXT, answers, serving

TOKEN = "sesame-open-9"
INFO = b"GET /api/info HTTP/1.1\r\nHost: localhost\r\n\r\n"
HEAD = b"POST /api/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


@pytest.fixture(scope="module")
def client():
    with serving() as started:
        yield started


@pytest.fixture(scope="module")
def guarded():
    with serving(access=Access("127.0.0.1", TOKEN)) as started:
        yield started


def test_every_answer_has_the_headers(client):
    found = [
        client.get("/"),
        client.get("/api/info"),
        client.get("/api/nothing"),
        client.get("/api/info", Host="evil.example"),
        client.post("/api/explain", b"{"),
        client.post("/api/explain", {"text": TEXT, "queries": 50}, {"Accept": "text/event-stream"}),
        client.post("/api/download", {"text": TEXT, "queries": 50, "format": "html"}),
    ]
    for answer in found:
        assert answer.headers["content-security-policy"] == POLICY
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["referrer-policy"] == "no-referrer"
        assert answer.headers["x-frame-options"] == "DENY"
        assert answer.headers["cross-origin-opener-policy"] == "same-origin"
        assert answer.headers["cross-origin-resource-policy"] == "same-origin"
        assert "server" not in answer.headers
        assert not [name for name in answer.headers if name.startswith("access-control")]
    assert {answer.headers["cache-control"] for answer in found[1:]} == {"no-store"}


def test_own_names_are_accepted(client):
    for host in ("localhost", f"localhost:{client.port}", f"127.0.0.1:{client.port}", f"[::1]:{client.port}", "LOCALHOST:1"):
        assert client.get("/api/info", Host=host).status == 200


def test_requests_of_the_own_page_and_of_programs_are_accepted(client):
    own = f"http://127.0.0.1:{client.port}"
    with_charset = {"Content-Type": "application/json; charset=utf-8"}
    for headers in ({"Origin": own, "Sec-Fetch-Site": "same-origin"}, {}, {"Sec-Fetch-Site": "none"}, with_charset):
        assert client.post("/api/ask", {"texts": ["x"]}, headers).status == 200


def test_nothing_is_answered_without_the_token(guarded):
    for path in ("/", "/api/info", "/assets/index.html", "/?token=wrong", "/api/info?token=" + TOKEN, "/?token="):
        refused = guarded.get(path)
        assert refused.status == 401, path
        assert refused.headers["www-authenticate"] == "Bearer"
        assert "set-cookie" not in refused.headers
        assert TOKEN.encode() not in refused.body
    assert guarded.post("/api/ask", {"texts": ["x"]}).status == 401
    for wrong in ("Bearer", "Bearer x", f"Basic {TOKEN}", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", "Bearer \xff"):
        assert guarded.post("/api/ask", {"texts": ["x"]}, {"Authorization": wrong}).status == 401


def test_the_token_opens_the_page_and_the_cookie_the_rest(guarded):
    page = guarded.get(f"/?token={TOKEN}")
    assert page.status == 200
    cookie = page.headers["set-cookie"]
    assert {part.strip().lower() for part in cookie.split(";")[1:]} == {"httponly", "samesite=lax", "path=/"}
    pair = cookie.partition(";")[0]
    assert guarded.get("/api/info", Cookie=f"other=1; {pair}").status == 200
    assert guarded.post("/api/ask", {"texts": ["x"]}, {"Cookie": pair}).status == 200
    assert guarded.get("/api/info", Cookie=pair + "x").status == 401
    assert guarded.get("/api/info", Cookie="\x01=;;\xff").status == 401


def test_cookies_of_other_programs_of_the_machine_do_no_harm(guarded):
    """Cookies are those of a host, whatever the port."""
    own = guarded.get(f"/?token={TOKEN}").headers["set-cookie"].partition(";")[0]
    for other in ('a={"json": [1, 2]}', "b", "c=\xe9", "=", 'd="', "bad name=1"):
        for cookie in (f"{own}; {other}", f"{other}; {own}", f"{other};{own};{other}"):
            assert guarded.get("/api/info", Cookie=cookie).status == 200, cookie
    with serving(access=Access(token="another-token")) as second:
        theirs = second.get("/?token=another-token").headers["set-cookie"].partition(";")[0]
        assert theirs.partition("=")[0] != own.partition("=")[0]
        assert second.get("/api/info", Cookie=own).status == 401
        both = f"{own}; {theirs}"
        assert (guarded.get("/api/info", Cookie=both).status, second.get("/api/info", Cookie=both).status) == (200, 200)


def test_programs_send_the_token_as_a_header_and_no_answer_has_it(guarded):
    header = {"Authorization": f"Bearer {TOKEN}"}
    assert guarded.post("/api/ask", {"texts": ["x"]}, header).status == 200
    for answer in (guarded.get("/api/info", **header), guarded.get("/", **header), guarded.get("/api/openapi.json", **header)):
        assert TOKEN.encode() not in answer.body


def test_a_body_that_is_too_large_is_refused_before_it_is_read():
    with serving(body=1000) as own:
        with socket.create_connection(("127.0.0.1", own.port), DEADLINE) as raw:
            raw.sendall(HEAD + b"Content-Length: 9999999999\r\n\r\n")
            assert b" 413 " in raw.recv(65536).split(b"\r\n")[0]
        with socket.create_connection(("127.0.0.1", own.port), DEADLINE) as raw:  # chunks, of no declared length
            raw.sendall(HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + 3 * (b"1f4\r\n" + b"x" * 500 + b"\r\n"))
            assert b" 413 " in raw.recv(65536).split(b"\r\n")[0]
        assert own.post("/api/ask", {"texts": ["x"]}).status == 200


@cases("sent", [b"GET /api/info HT", b"GET /api/info HTTP/1.1\r\nHost: localhost\r\n\r\nGET /api/inf"])
def test_connections_that_ask_for_nothing_are_closed(sent):
    """Such connections in numbers would shut everybody else out; what arrives bit by bit gets no more time."""
    with serving(head_seconds=0.3, connections=8) as client:

        def info():
            """The answer; None where the machine was so busy that this request came too late, too."""
            with suppress(OSError, HTTPException):
                return client.get("/api/info")

        def refused():
            """What a ninth connection is told; False where the machine was so busy that the others were closed before."""
            with ExitStack() as stack:
                idle = [stack.enter_context(socket.create_connection(("127.0.0.1", client.port), DEADLINE)) for _ in range(8)]
                with suppress(ConnectionError):
                    for connection in idle:
                        connection.sendall(sent)
                told = None if sent.endswith(b"inf") else info()  # those that are answered first may be closed by now
                for connection in idle:
                    with suppress(ConnectionError):
                        while connection.recv(65_536):  # until it is closed
                            pass
            return sent.endswith(b"inf") or (told is not None and told.status == 503 and told)

        told = until(refused)
        if told is not True:
            assert told.json == {"error": "too many connections are open; try again in a few seconds"}
            assert told.headers["retry-after"] == "5"
        assert until(info).status == 200


def raw(port, source="127.0.0.1"):
    return socket.create_connection(("127.0.0.1", port), DEADLINE, (source, 0))


def read_all(connection):
    """Everything until the server closes the connection."""
    parts = []
    with suppress(ConnectionError):
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


def test_one_address_cannot_take_all_connections():
    """It is told why, and others are answered meanwhile."""
    with serving(address_connections=8) as client, ExitStack() as stack:
        held = [stack.enter_context(raw(client.port, "127.0.0.2")) for _ in range(8)]
        for _ in range(20):
            with raw(client.port, "127.0.0.2") as refused:
                head, _, body = read_all(refused).partition(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 503 ")
            assert b"retry-after: 5" in head
            assert POLICY.encode() in head
            assert json.loads(body) == {"error": "too many connections from this address are open; try again in a few seconds"}
        assert client.get("/api/info").status == 200
        held[0].close()
        until(lambda: _answered(client.port, "127.0.0.2"))


def _answered(port, source):
    with raw(port, source) as connection, suppress(ConnectionError):
        connection.sendall(b"GET /api/info HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        return read_all(connection).startswith(b"HTTP/1.1 200 ")


def test_a_connection_that_pipelines_many_requests_is_closed():
    with serving(pipelined=4) as client:
        for sent, answered in ((4, 4), (200, 5)):
            with raw(client.port) as connection:
                connection.sendall((sent - 1) * INFO + INFO.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n"))
                assert read_all(connection).count(b"HTTP/1.1 200 OK") == answered
        assert client.get("/api/info").status == 200


def test_a_client_that_does_not_read_is_closed():
    """The answers wait in memory, about 30 MB of them; the server takes no more than its buffers hold, and hangs up."""
    with serving(unread_seconds=0.3, pipelined=10_000) as client, raw(client.port) as connection:
        connection.sendall(400 * INFO.replace(b"/api/info", b"/assets/page.css"))
        held = client.server.server_state.connections
        until(lambda: any(c._unread is not None for c in list(held)))
        assert max(c.transport.get_write_buffer_size() for c in list(held)) < 1_000_000
        until(lambda: not held)
        assert client.get("/api/info").status == 200


def test_a_connection_is_used_again_and_a_slow_answer_is_waited_for():
    """Longer than the head of a request may take."""

    def slow(texts):
        time.sleep(0.5 if "good" in texts else 0.0)
        return answers(texts)

    with serving(slow, head_seconds=0.3) as client:
        connection = client.connection()
        for text in ("good", "bad"):
            body = json.dumps({"texts": [text]}).encode()
            connection.request("POST", "/api/ask", body, {"Content-Type": "application/json"})
            assert json.loads(connection.getresponse().read())["scores"] == answers([text])
            if text == "good":
                time.sleep(0.5)
        connection.close()


def test_many_wrong_numbers_do_not_hold_up_the_server(client):
    """Checking stops at the first: all of them took 20 times as long as reading the body, in which nobody was answered."""
    bodies = (
        b'{"text": "a", "keep": [' + b'["x"],' * 200_000 + b"[1]]}",
        b'{"text": "a", "keep": [[' + b'"x",' * 300_000 + b"1]]}",
    )
    began = time.process_time()
    for body in bodies:
        json.loads(body)
    reading, began = time.process_time() - began, time.process_time()
    for body in bodies:
        answer = client.post("/api/ask", body)
        assert (answer.status, answer.json["error"]) == (400, "keep.0.0: must be 0 or 1; got 'x'; see /api/docs")
    spent = time.process_time() - began
    assert spent < 10 * reading  # seconds of CPU


def test_markup_comes_back_as_json_in_ascii(client):
    """Nothing of a text can be taken for markup or for another event, whatever reads the answer."""
    for seed, accept in enumerate(("application/json", "text/event-stream")):
        answer = client.post("/api/explain", {"text": MARKUP, "queries": 50, "seed": seed}, {"Accept": accept})
        assert answer.status == 200
        assert answer.headers["content-type"].partition(";")[0] == accept
        assert answer.body.isascii()
        if accept == "text/event-stream":
            assert {name for name, _ in answer.events} == {"queued", "progress", "explanation", "done"}
            shown = answer.events[-2][1]["content"]
        else:
            shown = answer.json["content"]
        assert "".join(piece for piece, _ in shown["pieces"]).replace(" ", "") == MARKUP.replace(" ", "")
    page = client.post("/api/download", {"text": MARKUP, "queries": 50, "format": "html"}).body.decode()
    assert "<script>window.hacked" not in page
    assert "<img" not in page


def test_names_of_a_server_for_other_machines():
    everyone = Access("0.0.0.0", TOKEN)
    assert everyone.names("192.168.0.7:8000")
    assert everyone.names("[fe80::1]:8000")
    assert everyone.names(socket.gethostname() + ":8000")
    assert not everyone.names("evil.example:8000")
    named = Access("lab.example", TOKEN)
    assert named.names("LAB.example:8000")
    assert not named.names("192.168.0.7")
    for bad in ("", ":8000", "a:b", "[::1]x", "a:8:9", "localhost:٣"):
        assert not everyone.names(bad), bad


def test_loopback_addresses():
    assert all(map(is_loopback, ("localhost", "127.0.0.1", "::1", "127.9.9.9", "LOCALHOST")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "192.168.0.7", "lab.example", "127.0.0.1.evil.example", "")))
