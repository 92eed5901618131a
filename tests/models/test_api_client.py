"""Requests to servers that are slow, limited, broken or hostile; and keys that never leak."""

import logging
import math
import pickle
import sqlite3
import sys
import threading
import time
import traceback
from importlib import import_module

import numpy as np
import pytest

from slalom import Explainer
from slalom.errors import InputError, MissingExtra, ModelError
from slalom.models import Api, Engine, Queries
from slalom.models.api import Client, Refused
from slalom.models.api.probe import TEXT
from tests.cases import cases
from tests.servers import Served
from tests.waiting import DEADLINE, until

TEMPLATE, LABELS = "{text} ->", ["bad", "good"]
KEY = "sk-test-0123456789-SECRET"
BODY = {"model": "m", "prompt": "a"}


def odds(text):
    """The log odds of "good" that the small servers of these tests give a text."""
    return text.count("good") - 1.5 * text.count("bad") + 0.1 * len(text.split())


def listed(text):
    """Log-probabilities of three tokens: the labels have 80% together."""
    p = 0.8 / (1.0 + math.exp(-odds(text)))
    return {" good": math.log(p), " bad": math.log(0.8 - p), " so": math.log(0.2)}


def text_of(body):
    return (body["prompt"] if "prompt" in body else body["messages"][-1]["content"]).removesuffix(" ->")


def completion(body):
    """The answer of a server with completions and log-probabilities."""
    top = listed(text_of(body))
    best = max(top, key=top.get)
    logprobs = {"tokens": [best], "token_logprobs": [top[best]], "top_logprobs": [top]}
    return {"choices": [{"text": best, "logprobs": logprobs}], "usage": {"prompt_tokens": 3, "completion_tokens": 1}}


def works(handler, path, body):
    handler.send(completion(body))


def model(server, **options):
    return Api("m", TEMPLATE, LABELS, server.url, **{"attempts": 3, "timeout": DEADLINE} | options)


def scores(found, texts):
    with found.session():
        outputs = np.concatenate([found.collect(found.submit([text])) for text in texts])
    return found.observe(outputs, 1).scores


# --- limits and retries ----------------------------------------------------------------------------------------------------


def test_eight_requests_are_in_flight_at_once():
    everyone = threading.Barrier(8, timeout=DEADLINE)

    def answer(handler, path, body):
        if text_of(body) != TEXT:
            everyone.wait()  # answers only when eight are there
        works(handler, path, body)

    with Served(answer) as server:
        found = model(server, concurrency=8)
        reading = found.read("a b c d", "cut", np.array([[0, 1], [2, 3], [4, 5], [6, 7]]))
        keep = np.array([[i >> j & 1 for j in range(4)] for i in range(16)], dtype=bool)
        (answers,) = Engine(found)([Queries(reading, keep)])
        found.close()
    assert server.most == 8
    texts = [" ".join(np.array(list("abcd"))[row]) for row in keep]
    assert found.observe(answers.outputs, 1).scores == pytest.approx([odds(text) for text in texts])


def test_the_error_says_what_happened_after_as_many_requests_as_make_sense():
    for status, error, headers, requests, message in [
        (500, {"message": "out of order"}, {}, 2, r"answers with status 500 \(out of order\) \(2 times\); check that"),
        (429, {"message": "no"}, {"Retry_After": "3600"}, 1, r"status 429 \(no\), and asks to wait 3600 s; run it again later"),
        *((status, {"message": "no"}, {}, 1, f"refuses the request with status {status}.*; ") for status in (400, 401, 404)),
    ]:
        with Served(lambda handler, *_, e=error, s=status, h=headers: handler.send({"error": e}, s, **h)) as server:
            with pytest.raises(ModelError, match=message) as caught:
                Client(server.url, attempts=2).ask("completions", BODY)
            assert len(server.asked) == requests
            assert "\n" not in str(caught.value)
            assert getattr(caught.value, "status", status) == status


@cases("part", ["headers", "body"])
def test_bytes_that_drip_end_at_the_time_limit(part):
    dripped = []

    def answer(handler, path, body):
        handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99999\r\n" + (b"\r\n" if part == "body" else b"X: "))
        while len(dripped) < DEADLINE / 0.05:
            handler.wfile.write(b"a")
            dripped.append(1)
            time.sleep(0.05)

    with Served(answer) as server:
        client = Client(server.url, timeout=0.5, attempts=1)
        with pytest.raises(ModelError, match=r"did not answer within 0\.5 s"):
            client.ask("completions", BODY)
        assert len(dripped) < DEADLINE / 0.05  # it was not waited for
        client.close()


def test_after_an_error_nothing_in_flight_is_repeated():
    """One query is refused for good; others would be repeated for minutes, and those that wait are never asked."""
    letters = "abcdefghijklmnopqrst"

    def asked():
        return {text_of(body) for _, body in server.asked} - {TEXT}

    def answer(handler, path, body):
        if text_of(body) == "b":
            until(lambda: {"a", "c"} <= asked())
            return handler.send({"error": {"message": "no"}}, 400)
        return works(handler, path, body) if text_of(body) == TEXT else handler.send({}, 500)

    with Served(answer) as server:
        found = model(server, attempts=50, concurrency=3)
        reading = found.read(" ".join(letters), "cut", np.array([[2 * i, 2 * i + 1] for i in range(len(letters))]))
        with pytest.raises(Refused, match="status 400"):
            Engine(found)([Queries(reading, np.eye(len(letters), dtype=bool))])
        assert {"a", "b", "c"} <= asked() < set(letters), "few were sent before the error was seen"
        assert len(server.asked) < 30, "50 attempts of each were not made"
        found.close()


# --- addresses -------------------------------------------------------------------------------------------------------


@cases(
    "url",
    [
        "ftp://host/v1",
        "localhost:8080",
        "http://",
        "http://user:pass@host/v1",
        "https://host/v1?key=abc",
        "http://[/v1",
        "http://h:99999",
    ],
)
def test_an_address_that_is_none_is_refused_without_its_secrets(url):
    with pytest.raises(InputError, match="base_url must") as error:
        Client(url)
    assert "pass@" not in str(error.value)
    assert "abc" not in str(error.value)


# --- what servers cannot do ------------------------------------------------------------------------------------------------


def test_a_server_without_completions_is_asked_by_chat():
    def answer(handler, path, body):
        if path == "/v1/completions":
            return handler.send({"error": {"message": "unknown"}}, 404)
        if body.get("top_logprobs", 0) > 5 or "max_tokens" in body:
            return handler.send({"error": {"message": "top_logprobs is at most 5; max_tokens is not supported"}}, 400)
        top = [{"token": t, "logprob": p} for t, p in listed(text_of(body)).items()]
        entry = {**max(top, key=lambda part: part["logprob"]), "top_logprobs": top}
        return handler.send({"choices": [{"message": {"content": entry["token"]}, "logprobs": {"content": [entry]}}]})

    with Served(answer) as server:
        found = model(server)
        assert scores(found, ["good", "bad good"]) == pytest.approx([odds("good"), odds("bad good")])
        way = found.capabilities
        assert (way.chat, way.sampled, way.size, way.requests, way.noise) == (True, False, 5, 7, 0.0)
        assert way.limit == "max_completion_tokens"
        found.close()


@cases("several", [True, False])
def test_a_layer_that_ignores_logprobs_is_sampled(several):
    """Half of the samples say good; one in four refuses."""
    n = 0

    def answer(handler, path, body):
        nonlocal n
        texts = []
        for _ in range(body.get("n", 1) if several else 1):
            n += 1
            texts.append([" good", "Good!", "Bad.", "I am sorry"][n % 4])
        handler.send({"choices": [{"message": {"content": text}} for text in texts]})

    with Served(answer) as server:
        found = Api("m", [{"role": "user", "content": "{text}"}], LABELS, server.url, samples=8, concurrency=1)
        assert found.capabilities.size == (8 if several else 1)
        before = found.usage.requests
        outputs = found.collect(found.submit(["a"]))
        assert found.usage.requests - before == (1 if several else 8)
        observed = found.observe(outputs, 1)
        assert observed.scores == pytest.approx([math.log(5 / 3)]), "4 good and 2 bad of 8"
        assert observed.variance == pytest.approx([1 / 5 + 1 / 3])
        assert found.report(outputs).figures["label share"] == 0.75
        found.close()


def test_noise_is_measured_where_equal_requests_get_different_answers():
    shifts = iter(np.tile([0.1, -0.1], 100))

    def answer(handler, path, body):
        content = completion(body)
        top = content["choices"][0]["logprobs"]["top_logprobs"][0]
        shift = next(shifts)
        p = 0.8 / (1.0 + math.exp(-odds(text_of(body)) - shift))
        top |= {" good": math.log(p), " bad": math.log(0.8 - p)}
        handler.send(content)

    with Served(answer) as server:
        found = model(server, concurrency=1)
        e = Explainer(found, queries=20)("a good day and a bad one")
        assert found.capabilities.noise == pytest.approx(0.01, rel=0.3)
        assert e.figures["noise"] == pytest.approx(0.1, rel=0.2)
        assert [text_of(body) for _, body in server.asked].count(TEXT) == 9, "the probe, and eight repeats"
        assert found.usage.requests == len(server.asked)
        found.close()


def test_a_label_that_is_not_listed_is_spelled_by_the_server():
    """The label has two tokens, and only the first is ever listed."""

    def answer(handler, path, body):
        if body["prompt"].startswith("Answer:"):
            tokens = [" ter", "rible", "\n"]
            tops = [{token: -0.1} for token in tokens]
            return handler.send({"choices": [{"text": "".join(tokens), "logprobs": {"tokens": tokens, "top_logprobs": tops}}]})
        content = completion(body)
        top = content["choices"][0]["logprobs"]["top_logprobs"][0]
        top[" ter"] = top.pop(" bad")
        return handler.send(content)

    with Served(answer) as server:
        found = Api("m", TEMPLATE, ["terrible", "good"], server.url)
        with pytest.warns(UserWarning, match="'terrible' has several tokens; its probability is that of its beginning ' ter'"):
            assert scores(found, ["good"]) == pytest.approx([odds("good")])
        found.close()


def test_a_content_filter_that_is_an_error_is_a_missing_answer():
    def answer(handler, path, body):
        if "bad" in text_of(body):
            return handler.send({"error": {"message": "filtered", "code": "content_filter"}}, 400)
        return works(handler, path, body)

    with Served(answer) as server:
        found = model(server, max_missing=0.4)
        assert scores(found, ["good", "good", "bad"]) == pytest.approx([odds("good")] * 3), "the mean of the others"
        outputs = np.concatenate([found.collect(found.submit([text])) for text in ("good", "bad")])
        assert found.report(outputs).figures["filtered"] == 0.5
        found.close()


def test_without_the_package_the_error_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    monkeypatch.delitem(sys.modules, "slalom.models.api.client")
    with pytest.raises(MissingExtra, match=r"needs openai; install it with: pip install 'slalom-xai\[api\]'"):
        import_module("slalom.models.api.client")


def test_a_server_that_answers_nothing_is_not_paid_for_long():
    """Of two texts, the one without an answer costs one request; parts of the other are asked until it is hopeless."""
    text = "one two three four five six seven eight nine ten eleven"

    def answer(handler, path, body):
        if text_of(body) in (TEXT, text):
            return works(handler, path, body)
        return handler.send({"choices": [{"message": {"content": None, "refusal": "no"}}]})

    with Served(answer) as server:
        found = model(server)
        probe = found.capabilities.requests
        explainer = Explainer(found, queries=10)
        with pytest.raises(ModelError, match=r"no answer to 1 of 1 queries \(refused: 1\); the model refuses") as error:
            explainer("a good day")
        assert "\n" not in str(error.value)
        assert [text_of(body) for _, body in server.asked[probe:]] == ["a good day"]
        with pytest.raises(ModelError, match="answered none of 20 queries; the model refuses"):
            explainer(text, queries=200)
        asked = len(server.asked)
        assert asked <= probe + 1 + 20 + 2 * 8, "20 answers, and what was in flight"
        failed = explainer(["a good day", "a bad day"], errors="keep").failures
        assert ["no answer to 1 of 1" in failure.error for failure in failed] == [True, True]
        assert len(server.asked) <= asked + 1, "the first of them is known"
        found.close()


# --- keys, identities, caches ----------------------------------------------------------------------------------------------


def test_the_key_is_sent_and_appears_nowhere(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    caplog.set_level(logging.DEBUG)
    bad = False

    def answer(handler, path, body):
        said = handler.headers["Authorization"]
        return handler.send({"error": {"message": f"wrong key {said}"}}, 400) if bad else works(handler, path, body)

    with Served(answer) as server:
        found = model(server)
        explainer = Explainer(found, queries=20, cache=tmp_path / "answers")
        e = explainer("a good day and a bad one")
        bad = True
        with pytest.raises(Refused) as error:
            explainer("another text")
        found.close()
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {KEY}"}
    shown = [
        repr(found), repr(found.client), str(found.__dict__), str(found.client.__dict__), found.identity(), e.to_json(),
        str(error.value), "".join(traceback.format_exception(error.value)), caplog.text,
    ]  # fmt: skip
    assert "[key]" in str(error.value)
    written = [part.read_bytes() for part in tmp_path.iterdir()]
    assert written
    for part in [*(text.encode() for text in shown), pickle.dumps(found.client), *written]:
        assert KEY.encode() not in part
        assert b"SECRET" not in part


def test_the_default_key_is_not_sent_in_clear_text_to_another_machine(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert Client("http://127.0.0.1:1/v1")._secret() == KEY
    assert Client("https://example.org/v1")._secret() == KEY
    assert Client("http://example.org/v1")._secret() is None
    assert Client("http://example.org/v1", api_key_env="OPENAI_API_KEY")._secret() == KEY


def test_proxies_and_accounts_of_the_environment_are_not_for_a_server_on_this_machine(monkeypatch):
    with Served(works) as server, Served(works) as proxy:
        monkeypatch.setenv("OPENAI_API_KEY", KEY)
        monkeypatch.setenv("OPENAI_ORG_ID", "org-SECRET")
        monkeypatch.setenv("OPENAI_PROJECT_ID", "project-SECRET")
        for name in ("NO_PROXY", "no_proxy"):
            monkeypatch.delenv(name, raising=False)
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.url.removesuffix("/v1"))
        client = Client(server.url)
        client.ask("completions", BODY)
        client.close()
        assert not proxy.asked
        (headers,) = server.headers
        assert headers.pop("authorization") == f"Bearer {KEY}"
        assert "SECRET" not in str(headers)
        assert server.asked == [("/v1/completions", BODY)]


def test_a_key_that_is_missing_or_malformed_is_an_error_without_it(monkeypatch):
    with pytest.raises(InputError, match="NO_SUCH_KEY is not set"):
        Client("http://127.0.0.1:1/v1", api_key_env="NO_SUCH_KEY")
    monkeypatch.setenv("MY_KEY", "sk-a\nb SECRET")
    with pytest.raises(InputError, match="one line of plain characters") as error:
        Client("http://127.0.0.1:1/v1", api_key_env="MY_KEY")
    assert "SECRET" not in str(error.value)


def test_another_model_in_the_middle_is_an_error_and_not_mixed_into_the_cache(tmp_path):
    """The server names who answers; an explanation is never of two, even where the cache has answers of the first."""
    name, text, count = "m-2024", "a good day and a bad one", 0

    def answer(handler, path, body):
        nonlocal count
        count += 1
        handler.send(completion(body) | {"model": "m-2024" if count <= 15 and name == "m-2024" else "m-2025\n"})

    def explained(cache):
        found = model(server, concurrency=1)
        try:
            return Explainer(found, queries=20, cache=tmp_path / cache)(text)
        finally:
            found.close()

    with Served(answer) as server:
        with pytest.raises(ModelError, match=r"answered as the model 'm-2024', and now as 'm-2025'; name one that") as error:
            explained("old")
        assert "\n" not in str(error.value)
        assert len(server.asked) < 20, "it was not asked on"
        name = "m-2025"
        e = explained("new")
        store = sqlite3.connect(tmp_path / "old")
        kept = sum(row[0] for row in store.execute("select count(*) from answers"))
        store.close()
        assert 0 < kept <= 12, "answers of the first model, those of the probe left out"
        with pytest.raises(ModelError, match=r"answers about this text are of two models .*; use another cache= file"):
            explained("old")
        n = len(server.asked)
        assert explained("new").score == e.score
        assert len(server.asked) == n
        found = model(server, concurrency=1)
        explainer = Explainer(found, queries=20)
        explainer(text)
        name, count = "m-2024", 0
        with pytest.raises(ModelError, match="and now as 'm-2024'"):
            explainer("another good day")
        count = -1000
        assert explainer("another good day").queries > 7, "the next call is of the new model"
        found.close()


def test_two_servers_never_share_answers_and_the_constructor_asks_nothing(tmp_path):
    with Served(works) as first, Served(works) as second:
        for server in (first, second):
            found = model(server)
            explainer = Explainer(found, queries=20, cache=tmp_path / "answers")
            assert not server.asked
            explainer("a good day")
            assert server.asked
            found.close()
        n = len(first.asked)
        found = model(first)
        Explainer(found, queries=20, cache=tmp_path / "answers")("a good day")
        assert len(first.asked) == n, "everything is in the cache, and nothing is probed"


def test_a_model_survives_copies():
    with Served(works) as server:
        found = model(server)
        first = scores(found, ["good"])
        assert first == pytest.approx([odds("good")])
        copy = pickle.loads(pickle.dumps(found))
        assert scores(copy, ["good"]) == first
        found.close()
        assert scores(found, ["good"]) == first, "it connects again"
        found.close()
        copy.close()
