"""What servers may do: each behaviour ends in a correct explanation or in an error of one line.

The servers are real ones on this machine. Every behaviour is met from the first request on, and again after the probe; the
number of requests is bounded, and the key appears in no message, log, cache or explanation.
"""

import gzip
import json
import logging
import math
import time
import traceback

import numpy as np
import pytest

from slalom.errors import ModelError, SlalomError
from slalom.models import Api, Engine, Queries
from slalom.models.api.probe import TEXT as PROBE
from tests.models.test_api_client import KEY, LABELS, TEMPLATE, completion, listed, odds, text_of
from tests.servers import Served
from tests.waiting import DEADLINE

TEXT = "a good day"
KEEP = np.array([[1, 1, 1], [0, 1, 1], [0, 1, 0], [0, 0, 1]], dtype=bool)
PARTS = ["a good day", "good day", "good", "day"]
MANY = 40  # requests that no behaviour exceeds: a probe, 16 samples, four parts, and attempts
SHORT = 0.3  # seconds for one attempt, where a server is too slow


def chat(body, logprobs=True, **message):
    """The answer of a server with chat and log-probabilities."""
    top = [{"token": token, "logprob": p, "bytes": list(token.encode())} for token, p in listed(text_of(body)).items()]
    entry = {**max(top, key=lambda part: part["logprob"]), "top_logprobs": top}
    said = {"role": "assistant", "content": entry["token"]} | message
    return {"choices": [{"index": 0, "message": said, "logprobs": {"content": [entry]} if logprobs else None}]}


def by_chat(**message):
    def answer(handler, path, body, n):
        return handler.send({}, 404) if path == "/v1/completions" else handler.send(chat(body, **message))

    return answer


def edited(edit):
    """A server whose answers are edited; `edit` returns the new one, or changes the old one."""

    def answer(handler, path, body, n):
        content = completion(body)
        handler.send(edit(content) or content)

    return answer


def choice(**parts):
    return edited(lambda content: content["choices"][0].update(parts))


def top(edit):
    """A server whose listed log-probabilities are edited."""
    return edited(lambda content: edit(content["choices"][0]["logprobs"]["top_logprobs"][0]))


def raw(content, status=200, **headers):
    return lambda handler, path, body, n: handler.send(content, status, **headers)


def written(*parts, wait=0.0):
    """A server that writes bytes of its own and closes the connection."""

    def answer(handler, path, body, n):
        handler.close_connection = True
        for part in parts:
            handler.wfile.write(part)
            time.sleep(wait)

    return answer


def once(fault):
    """A server that fails in the probe, and at a query."""
    return lambda handler, path, body, n: fault(handler, path, body, n) if n in (1, 4) else handler.send(completion(body))


def number(said):
    """A server with another number in place of one log-probability."""

    def answer(handler, path, body, n):
        handler.send(json.dumps(completion(body)).replace(str(math.log(0.2)), said).encode())

    return answer


def whole(body):
    content = json.dumps(completion(body)).encode()
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content)
    return head, content


def cut(handler, path, body, n):
    head, content = whole(body)
    written(head, content[:60])(handler, path, body, n)


def dripped(handler, path, body, n):
    head, content = whole(body)
    written(head, *(content[i : i + 40] for i in range(0, len(content), 40)), wait=0.005)(handler, path, body, n)


def chunked(handler, path, body, n):
    content = whole(body)[1]
    parts = (b"%x\r\n%s\r\n" % (len(part), part) for part in (content[:50], content[50:], b""))
    written(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *parts)(handler, path, body, n)


def slow(handler, path, body, n):
    time.sleep(1.5 * SHORT)


def endless(handler, path, body, n):
    handler.close_connection = True
    handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n")
    while True:  # until the client closes the connection
        handler.wfile.write(b" " * 65536)


def streamed(handler, path, body, n):
    handler.send(b"data: %s\n\ndata: [DONE]\n\n" % json.dumps(completion(body)).encode(), Content_Type="text/event-stream")


def split(listed):
    """List a token twice, with half of its probability each; JSON has objects with equal names."""
    half = listed[" good"] - math.log(2.0)
    return {" good": half, " go": 0.0} | {name: p for name, p in listed.items() if name != " good"}


def twice(handler, path, body, n):
    found = listed(text_of(body))
    entries = [{"token": token, "logprob": p} for token, p in split(found).items()]
    entries[1] = dict(entries[0])
    content = chat(body)
    content["choices"][0]["logprobs"]["content"][0]["top_logprobs"] = entries
    handler.send(content) if path != "/v1/completions" else handler.send({}, 404)


def limited(**headers):
    return raw({"error": {"message": "slow down"}}, 429, **headers)


def refused(handler, path, body, n):
    """An error that repeats the key, and tries to clear the screen."""
    handler.send({"error": {"message": f"\x1b[2J no\n{handler.headers['Authorization']}", "code": "x"}}, 400)


def named(handler, path, body, n):
    handler.send(completion(body) | {"model": "m-2024" if n % 8 < 5 else "another"})


SOUND = {
    "429 with Retry-After": once(limited(Retry_After="0.05")),
    "500 once": once(raw({"error": {"message": "oops"}}, 500)),
    "reset once": once(lambda handler, path, body, n: handler.reset()),
    "cut in the body once": once(cut),
    "truncated JSON once": once(raw(b'{"choices": [{"te')),
    "204 once": once(raw(b"", 204)),
    "too slow once": once(slow),
    "no HTTP once": once(written(b"hello\r\n\r\n")),
    "a slow drip": dripped,
    "chunks": chunked,
    "no usage": edited(lambda content: content.pop("usage") and None),
    "negative usage": edited(lambda content: content.update(usage={"prompt_tokens": -5, "completion_tokens": -1})),
    "usage of another kind": edited(lambda content: content.update(usage=[1, {"prompt_tokens": "many"}])),
    "extra fields": edited(lambda content: content.update(id=7, object=None, system_fingerprint=["x"], error=None)),
    "more choices than asked for": edited(lambda content: content["choices"].append({"text": " bad"})),
    "an unknown finish_reason": choice(finish_reason=17),
    "-9999 for what is not known": top(lambda listed: listed.update({" else": -9999.0})),
    "half a surrogate pair": top(lambda listed: listed.update({"\ud83d": -30.0})),
    "fewer log-probabilities than asked for": top(lambda listed: listed.pop(" so") and None),
    "a token twice": twice,
    "bytes of tokens": by_chat(),
    "reasoning beside the answer": by_chat(reasoning_content="bad? " * 50, reasoning="good?"),
    "tool calls beside the answer": by_chat(tool_calls=[{"type": "function", "function": {"name": "f", "arguments": "{"}}]),
    "an empty refusal": by_chat(refusal=None),
}
BROKEN = {
    "400 with the key": (refused, r"status 400 \(\[2J no Bearer \[key\]\)"),
    "401": (
        raw({"error": {"message": f"wrong key {KEY}"}}, 401),
        "put a valid one into the environment variable OPENAI_API_KEY",
    ),
    "403": (raw({}, 403), "may not use this model"),
    "429 for ever": (limited(Retry_After="3600"), "asks to wait 3600 s"),
    "a reset for ever": (lambda handler, path, body, n: handler.reset(), "could not be reached"),
    "cut for ever": (cut, "could not be reached|malformed JSON"),
    "too slow for ever": (slow, "did not answer within 0.3 s"),
    "nothing": (raw(b""), "answered with nothing"),
    "a stream": (streamed, "malformed JSON"),
    "no choices": (raw({"choices": []}), "without choices"),
    "null text and log-probabilities": (choice(text=None, logprobs=None), "gave no answer to 4 of 4"),
    "a refusal": (by_chat(content=None, refusal="I cannot."), "refuses to answer"),
    "a tool call": (by_chat(content=None, logprobs=False, tool_calls=[{}]), "the model says nothing"),
    "a content filter": (choice(finish_reason="content_filter"), "content filter"),
    "no label": (edited(lambda content: content["choices"].__setitem__(0, {"text": " so", "logprobs": None})), "no label"),
    "NaN": (number("NaN"), "log-probability of nan"),
    "a positive log-probability": (number("7.5"), "log-probability of 7.5"),
    "a string for a log-probability": (number('"-0.1"'), "no number"),
    "probabilities above one": (top(lambda listed: listed.update({" x": -0.1, " y": -0.1})), "add up to"),
    "JSON that is nested": (raw(b"[" * 200_000), "malformed JSON"),
    "a list": (raw([1]), "must answer with a JSON object; got list"),
    "an error with status 200": (raw({"error": {"message": f"no {KEY}\n"}}), r"with an error: no \[key\]"),
    "10 MB": (raw(b" " * 10_000_000), "more than 1 MB"),
    "endless": (endless, "more than 1 MB"),
    "a gzip bomb": (raw(gzip.compress(b" " * 50_000_000), Content_Encoding="gzip"), "malformed JSON"),
    "another model in the middle": (named, "answered as the model"),
}


def scores(server, cache, timeout, attempts):
    """The scores of the four parts, by an engine with a cache."""
    model = Api("m", TEMPLATE, LABELS, server.url, attempts=attempts, timeout=timeout, concurrency=4, samples=4)
    try:
        reading = model.read(TEXT, "cut", np.array([[0, 1], [2, 6], [7, 10]]))
        (answers,) = Engine(model, cache=cache, progress=False)([Queries(reading, KEEP)])
        return model.observe(answers.outputs, 1).scores, model
    finally:
        model.close()


@pytest.fixture(autouse=True)
def _key(monkeypatch, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setattr("openai._base_client.INITIAL_RETRY_DELAY", 0.02)
    caplog.set_level(logging.DEBUG)


def check_secret(caplog, folder, *texts):
    """The key is in nothing that is said, logged or written."""
    said = [text.encode("utf-8", "surrogatepass") for text in (*texts, caplog.text)]
    for content in (*said, *(file.read_bytes() for file in folder.iterdir())):
        assert KEY.encode() not in content
        assert b"SECRET" not in content
    caplog.clear()


def test_sound_servers_give_the_right_scores(tmp_path, caplog):
    for i, (kind, answer) in enumerate(SOUND.items()):
        with Served(lambda handler, path, body, answer=answer: answer(handler, path, body, len(server.asked) - 1)) as server:
            timeout = SHORT if "slow" in kind and "drip" not in kind else DEADLINE
            observed, model = scores(server, None if i % 4 else tmp_path / f"{i}.sqlite", timeout, 6)
            assert len(server.asked) <= MANY, kind
            assert observed == pytest.approx([odds(part) for part in PARTS], abs=1e-6), kind
            assert min(model.usage) >= 0, kind
            check_secret(caplog, tmp_path, repr(model), str(model.client.__dict__))


def test_broken_servers_get_an_error_of_one_line(tmp_path, caplog):
    """From the first request on; some also after the probe, and with a cache."""
    for i, (kind, (answer, message)) in enumerate(BROKEN.items()):
        for late in (False, True) if i % 4 == 0 else (False,):

            def served(handler, path, body, answer=answer, late=late):
                if late and text_of(body) == PROBE:
                    return handler.send(completion(body))
                return answer(handler, path, body, len(server.asked) - 1)

            with Served(served) as server:
                timeout = SHORT if "slow" in kind or "drip" in kind else DEADLINE
                with pytest.raises(SlalomError) as error:
                    scores(server, None if i % 4 else tmp_path / f"{i}{late}.sqlite", timeout, 2)
                said = str(error.value)
                assert isinstance(error.value, ModelError), kind
                assert said.isprintable(), kind
                assert len(said) < 500, kind
                assert len(server.asked) <= MANY, kind
                if not late:
                    error.match(message)
                check_secret(caplog, tmp_path, said, "".join(traceback.format_exception(error.value)))


def test_a_redirect_is_not_followed_and_takes_no_key_along(tmp_path, caplog):
    with Served(lambda handler, path, body: handler.send(completion(body))) as other:
        targets = (other.url, f"{other.url}/completions", other.url.replace("127.0.0.1", "localhost"), "//x.invalid", "")
        for status, target in zip((301, 302, 303, 307, 308), targets, strict=True):
            with Served(lambda handler, *_, s=status, t=target: handler.send(b"", s, Location=t)) as server:
                with pytest.raises(ModelError, match=r"redirects to .*, which is not followed; set base_url") as error:
                    scores(server, tmp_path / "answers", DEADLINE, 2)
                assert len(server.asked) == 1
                check_secret(caplog, tmp_path, str(error.value))
        assert not other.asked
