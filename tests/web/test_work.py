"""Work in turns: fairness, cancellation, full queues, and models that fail, hang or answer nonsense."""

import asyncio
import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from slalom.web.work import Job, Queue
from tests.web.serving import TEXT, answers, serving

LONG = " ".join(f"word{i}" for i in range(40))


def until(condition, seconds=10.0):
    """Wait for a condition."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "this did not happen"
        time.sleep(0.01)


class Slow:
    """Answers after some time per text; counts what it was asked."""

    def __init__(self, seconds):
        self.seconds, self.asked = seconds, 0

    def __call__(self, texts):
        time.sleep(self.seconds * len(texts))
        self.asked += len(texts)
        return answers(texts)


class Gate:
    """Answers whole texts at once, but holds up those with the word `wait` until it is opened."""

    def __init__(self):
        self.open, self.waiting, self.asked = threading.Event(), threading.Event(), 0

    def __call__(self, texts):
        self.asked += len(texts)
        if any("wait" in text for text in texts):
            self.waiting.set()
            assert self.open.wait(20)
        return answers(texts)


def test_hanging_up_cancels_the_work():
    model = Slow(0.002)
    with serving(model) as client:
        with client.streaming({"text": LONG, "queries": 4000}) as events:
            for name, _ in events:
                if name == "explanation":
                    break
        queue = client.server.models[0].queue
        until(lambda: len(queue) == 0)
        asked = model.asked
        assert asked < 2000
        time.sleep(0.1)
        assert model.asked == asked, "nothing more is asked"
        assert client.post("/api/ask", {"texts": ["good"]}).json["scores"] == [1.75]


def test_hanging_up_ends_a_fit():
    """A fit of 900 units takes half a minute; its worker is free within a step."""
    with serving(workers=1) as client:
        (served,) = client.server.models
        began = time.monotonic()
        with client.streaming({"text": " ".join(f"word{i}" for i in range(900)), "unit": "word", "queries": 900}) as events:
            while (event := next(events))[0] != "progress":
                pass
            assert event[1]["queries"] >= 50
        until(lambda: len(served.queue) == 0, 20)
        assert client.post("/api/explain", {"text": TEXT, "queries": 50}).status == 200
        assert time.monotonic() - began < 25


def test_hanging_up_cancels_a_request_without_events():
    model = Slow(0.002)
    with serving(model) as client:
        connection = client.connection()
        body = json.dumps({"text": LONG, "queries": 4000})
        connection.request("POST", "/api/explain", body, {"Content-Type": "application/json"})
        until(lambda: model.asked > 50)
        connection.close()
        until(lambda: len(client.server.models[0].queue) == 0)
        assert model.asked < 3000


def test_hanging_up_while_nothing_is_sent_frees_the_place():
    gate = Gate()
    with serving(gate, workers=1, waiting=2) as client, ThreadPoolExecutor(1) as pool:
        held = pool.submit(client.post, "/api/ask", {"texts": ["wait"]})
        gate.waiting.wait(10)
        with client.streaming({"text": TEXT, "queries": 50}) as events:
            assert next(events) == ("queued", {"position": 0})
            assert client.post("/api/ask", {"texts": ["x"]}).status == 429
        jobs = client.server.models[0].queue._jobs
        until(lambda: sum(not job.cancelled for job in jobs) == 1)
        gate.open.set()
        assert held.result().status == 200
        until(lambda: not jobs)


def test_new_jobs_go_first_and_old_ones_go_on():
    done, ready = [], threading.Event()

    async def run():
        queue = Queue("test", 1, 100)

        def hold():
            assert ready.wait(10)
            yield None

        def steps(name, number):
            for _ in range(number):
                done.append(name)
                yield name

        held = Job("held", hold())
        queue.submit(held)
        jobs = [Job(f"new {i}", steps("new", 3)) for i in range(4)] + [Job("old", steps("old", 5))]
        jobs[-1].seconds = 100.0
        for job in jobs:
            queue.submit(job)
        ready.set()
        for job in jobs:
            _ = [message async for message in job.messages(10)]
        queue.stop()

    asyncio.run(run())
    assert done.count("new") == 12
    assert done.count("old") == 5
    assert done[:2] == ["new", "new"]
    assert 0 < done.index("old") <= 3, "one of four turns"
    assert "new" not in done[-1:], "what is left of the old one comes last"


def test_a_long_text_does_not_hold_up_a_short_one():
    """One thread works for all; a short text that comes later is done long before a long one."""
    with serving(Slow(0.001), workers=1) as client, ThreadPoolExecutor(2) as pool:
        times = {}

        def explain(name, subject):
            client.post("/api/explain", subject)
            times[name] = time.monotonic()

        long = pool.submit(explain, "long", {"text": LONG, "queries": 3000})
        until(lambda: len(client.server.models[0].queue) == 1)
        began = time.monotonic()
        pool.submit(explain, "short", {"text": TEXT, "queries": 50}).result()
        assert not long.done()
        long.result()
    assert times["short"] < times["long"]
    assert times["short"] - began < 0.7 * (times["long"] - began)


@pytest.mark.parametrize("kind", ["texts", "keep"])
def test_a_long_question_does_not_hold_up_a_short_one(kind):
    """Its rows are asked in lots, and other questions in between; hanging up ends it."""
    model = Slow(0.02)
    one_by_one = {"text": TEXT, "method": "leave-one-out"}
    rows = [[int(k >> bit & 1) for bit in range(len(TEXT.split()))] for k in range(1, 401)]
    long = {"texts": [f"good {i}" for i in range(400)]} if kind == "texts" else {**one_by_one, "keep": rows}
    with serving(model) as client:
        assert client.post("/api/explain", one_by_one).status == 200
        asked = model.asked
        with closing(client.connection()) as connection:
            connection.request("POST", "/api/ask", json.dumps(long).encode(), {"Content-Type": "application/json"})
            until(lambda: model.asked > asked)
            began = time.monotonic()
            assert client.post("/api/ask", {"texts": ["a bad end"]}).json["scores"] == [-3.25]
            assert time.monotonic() - began < 4.0  # all rows take 8 s
        until(lambda: len(client.server.models[0].queue) == 0)
        assert model.asked < 400


def test_clients_take_turns():
    """Of one client's four jobs and another's one, that of the other does not come last."""
    order = []

    def noting(texts):
        order.extend({text.split()[0] for text in texts if text.startswith(("first", "second"))})
        time.sleep(0.01)
        return answers(texts)

    gate = Gate()

    def model(texts):
        return gate(texts) if any("wait" in text for text in texts) else noting(texts)

    with serving(model, workers=1) as client, ThreadPoolExecutor(8) as pool:
        waits = pool.submit(client.post, "/api/ask", {"texts": ["wait"]})
        gate.waiting.wait(10)
        queue = client.server.models[0].queue
        jobs = []
        for i in range(4):
            jobs.append(pool.submit(client.post, "/api/explain", {"text": f"first{i} a good film", "queries": 50}))
            until(lambda i=i: len(queue) == 2 + i)
        jobs.append(pool.submit(client.post, "/api/ask", {"texts": ["second"]}))
        until(lambda: len(queue) == 6)
        gate.open.set()
        assert {job.result().status for job in [waits, *jobs]} == {200}
    assert order.index("second") <= 4, "after one step of each of the others, at most"


def test_a_full_queue_says_when_to_come_back():
    gate = Gate()
    with serving(gate, workers=1, waiting=3) as client, ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(client.post, "/api/ask", {"texts": [f"wait {i}"]}) for i in range(3)]
        until(lambda: len(client.server.models[0].queue) == 3)
        for path, body in (("/api/ask", {"texts": ["x"]}), ("/api/explain", {"text": TEXT}), ("/api/flip", {"text": TEXT})):
            refused = client.post(path, body)
            assert refused.status == 429
            assert int(refused.headers["retry-after"]) >= 1
            assert "3 requests are waiting" in refused.json["error"]
        assert client.post("/api/explain", {"text": TEXT}, {"Accept": "text/event-stream"}).status == 429
        assert client.get("/api/info").status == 200, "the page still answers"
        gate.open.set()
        assert [job.result().status for job in jobs] == [200] * 3
        assert client.post("/api/ask", {"texts": ["x"]}).status == 200


def test_a_queue_tells_its_position():
    gate = Gate()
    with serving(gate, workers=1) as client, ThreadPoolExecutor(4) as pool:
        first = pool.submit(client.post, "/api/ask", {"texts": ["wait"]})
        gate.waiting.wait(10)
        second = pool.submit(client.post, "/api/ask", {"texts": ["x"]})
        until(lambda: len(client.server.models[0].queue) == 2)
        with client.streaming({"text": TEXT, "queries": 50}) as events:
            assert next(events) == ("queued", {"position": 1})
            gate.open.set()
            assert [name for name, _ in events] == ["progress", "progress", "explanation", "done"]
        assert first.result().status == second.result().status == 200


def test_one_model_does_not_hold_up_another():
    gate = Gate()
    with serving(gate, answers, workers=1) as client, ThreadPoolExecutor(1) as pool:
        held = pool.submit(client.post, "/api/ask", {"texts": ["wait"]})
        gate.waiting.wait(10)
        assert client.post("/api/explain", {"text": TEXT, "queries": 50, "model": "m1"}).status == 200
        gate.open.set()
        assert held.result().status == 200


def raising(error):
    def model(texts):
        if any("crash" in text for text in texts):
            raise error
        return answers(texts)

    return model


@pytest.mark.parametrize(
    "error",
    [RuntimeError("CUDA:\n assert"), ValueError("x" * 5000), KeyError("a"), MemoryError(), SystemExit(3), StopIteration()],
    ids=lambda e: type(e).__name__,
)
def test_a_model_that_raises_answers_500_in_one_line_and_the_server_lives_on(error):
    with serving(raising(error)) as client:
        for path, body in (
            ("/api/explain", {"text": "a crash"}),
            ("/api/ask", {"texts": ["crash"]}),
            ("/api/flip", {"text": "crash"}),
        ):
            failed = client.post(path, body)
            assert failed.status == 500
            assert "\n" not in failed.json["error"]
            assert len(failed.json["error"]) < 500
        name, data = client.stream({"text": "a crash"})[-1]
        assert name == "error"
        assert data["status"] == 500
        assert client.post("/api/ask", {"texts": ["good"]}).json["scores"] == [1.75]
        until(lambda: len(client.server.models[0].queue) == 0)


def test_an_error_of_a_model_has_no_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-1234")
    with serving(raising(RuntimeError("401 for sk-very-secret-1234"))) as client:
        failed = client.post("/api/ask", {"texts": ["crash"]})
        assert failed.status == 500
        assert b"sk-very-secret-1234" not in failed.body


@pytest.mark.parametrize("nonsense", [float("nan"), float("inf"), 1e200, "text", None])
def test_nonsense_answers_are_an_error_of_the_model(nonsense):
    with serving(lambda texts: [nonsense if "odd" in text else 1.0 for text in texts]) as client:
        failed = client.post("/api/explain", {"text": "something odd here", "queries": 50})
        assert failed.status == 500
        assert "\n" not in failed.json["error"]
        assert client.post("/api/ask", {"texts": ["fine"]}).status == 200


def test_a_model_that_hangs_is_given_up_and_the_server_lives_on():
    gate = Gate()
    with serving(gate, answers, seconds=0.5, workers=2) as client:
        began = time.monotonic()
        late = client.post("/api/ask", {"texts": ["wait"]})
        assert late.status == 503
        assert "longer than 0.5 s" in late.json["error"]
        assert time.monotonic() - began < 5
        assert client.stream({"text": "please wait", "queries": 50})[-1][1]["status"] == 503
        assert client.get("/api/info").status == 200
        assert client.post("/api/ask", {"texts": ["good"], "model": "m1"}).json["scores"] == [1.75]
        gate.open.set()
        until(lambda: len(client.server.models[0].queue) == 0)
        assert client.post("/api/ask", {"texts": ["good"]}).json["scores"] == [1.75]


def test_stopping_ends_open_streams():
    gate = Gate()
    with serving(gate) as client:
        with client.streaming({"text": "please wait " + LONG, "queries": 4000}) as events:
            assert next(events)[0] == "queued"
            gate.waiting.wait(10)
            client.server.stop()
            assert list(events)[-1] == ("error", {"status": 503, "error": "the server is stopping"})
        gate.open.set()


def test_many_requests_leave_nothing_behind():
    with serving() as client, ThreadPoolExecutor(8) as pool:
        subjects = [{"text": f"{TEXT} {i}", "queries": 50} for i in range(24)]
        statuses = [answer.status for answer in pool.map(lambda s: client.post("/api/explain", s), subjects)]
        assert statuses == [200] * 24
        queue = client.server.models[0].queue
        until(lambda: len(queue) == 0)
        assert not queue._new
        assert not queue._old
        assert threading.active_count() < 30
