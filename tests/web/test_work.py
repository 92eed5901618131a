"""Work in turns: fairness, cancellation, full queues, and models that fail, hang or answer nonsense."""

import json
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import groupby

import pytest

from slalom.interrupt import Interrupted
from slalom.methods import joint
from tests.waiting import DEADLINE, until
from tests.web.serving import TEXT, answers, rounds, serving

LONG = " ".join(f"word{i}" for i in range(40))


class Paced:
    """Answers after some time per text, and notes what it was asked; from a number of texts on it waits until that is raised.

    The time per text keeps the lots of a job small. Tests compare numbers of texts, never times.
    """

    def __init__(self, seconds, hold=math.inf):
        self.seconds, self.hold, self.texts, self.changed = seconds, hold, [], threading.Condition()

    @property
    def asked(self):
        return len(self.texts)

    def __call__(self, texts):
        time.sleep(self.seconds * len(texts))
        with self.changed:
            self.texts += texts
            assert self.changed.wait_for(lambda: self.asked < self.hold, DEADLINE)
        return answers(texts)

    def wait(self):
        """Wait until the model waits."""
        until(lambda: self.asked >= self.hold)

    def release(self, hold=math.inf):
        """Let it go on, to another number of texts."""
        with self.changed:
            self.hold = hold
            self.changed.notify_all()

    @contextmanager
    def held(self, queue):
        """Hold the model while the block hangs up, and until the server has noticed; then wait for the end of the work."""
        self.wait()
        yield
        until(lambda: all(job.cancelled for job in queue._jobs))
        self.release()
        until(lambda: len(queue) == 0)


class Gate:
    """Answers whole texts at once, but holds up those with the word `wait` until it is opened."""

    def __init__(self):
        self.open, self.waiting, self.asked = threading.Event(), threading.Event(), 0

    def __call__(self, texts):
        self.asked += len(texts)
        if any("wait" in text for text in texts):
            self.waiting.set()
            assert self.open.wait(DEADLINE)
        return answers(texts)


def test_hanging_up_cancels_the_work():
    model = Paced(0.001, hold=300)
    with serving(model) as client:
        with client.streaming({"text": LONG, "queries": 4000}) as events:
            while next(events)[0] != "explanation":
                pass
            model.wait()
        with model.held(client.server.models[0].queue):
            pass
        asked = model.asked
        assert asked < 2000
        time.sleep(0.1)
        assert model.asked == asked, "nothing more is asked"
        assert client.post("/api/ask", {"texts": ["good"]}).json["scores"] == [1.75]


def test_hanging_up_ends_a_fit(monkeypatch):
    """It takes no step more, and its worker is free."""
    begun, noticed, ends, solve = threading.Event(), threading.Event(), [], joint.fitted

    def held(*parts, **options):
        begun.set()
        assert noticed.wait(DEADLINE)
        try:
            found = solve(*parts, **options)
        except Interrupted:
            ends.append("interrupted")
            raise
        ends.append("whole")
        return found

    with serving(workers=1) as client:
        queue, connection = client.server.models[0].queue, client.connection()
        body = json.dumps({"text": 60 * f"{TEXT} ", "unit": "word", "queries": 700})
        with monkeypatch.context() as patch:
            patch.setattr(joint, "fitted", held)
            connection.request("POST", "/api/explain", body, {"Content-Type": "application/json"})
            assert begun.wait(DEADLINE)
            connection.close()
            until(lambda: all(job.cancelled for job in queue._jobs))
            noticed.set()
            until(lambda: len(queue) == 0)
        assert ends == ["interrupted"]
        assert client.post("/api/explain", {"text": TEXT, "queries": 50}).status == 200


def test_hanging_up_while_nothing_is_sent_frees_the_place():
    gate = Gate()
    with serving(gate, workers=1, waiting=2) as client, ThreadPoolExecutor(1) as pool:
        held = pool.submit(client.post, "/api/ask", {"texts": ["wait"]})
        assert gate.waiting.wait(DEADLINE)
        with client.streaming({"text": TEXT, "queries": 50}) as events:
            assert next(events) == ("queued", {"position": 0})
            assert client.post("/api/ask", {"texts": ["x"]}).status == 429
        jobs = client.server.models[0].queue._jobs
        until(lambda: sum(not job.cancelled for job in jobs) == 1)
        gate.open.set()
        assert held.result().status == 200
        until(lambda: not jobs)


def test_a_long_text_does_not_hold_up_a_short_one():
    """One thread works for all; a short text that comes later is asked about long before a long one is through."""
    model = Paced(0.001, hold=100)
    with serving(model, workers=1) as client, ThreadPoolExecutor(2) as pool:
        long = pool.submit(client.post, "/api/explain", {"text": LONG, "queries": 1000})
        model.wait()
        short = pool.submit(client.post, "/api/explain", {"text": TEXT, "queries": 50})
        until(lambda: len(client.server.models[0].queue) == 2)
        model.release()
        assert short.result().status == long.result().status == 200
    of_the_long = [i for i, text in enumerate(model.texts) if "word" in text]
    last = max(i for i, text in enumerate(model.texts) if text and "word" not in text)
    assert sum(i < last for i in of_the_long) < 0.7 * len(of_the_long)


def test_a_long_question_does_not_hold_up_a_short_one():
    """The model answers it in turns, and other questions in between; hanging up ends it."""
    model = Paced(0.002)
    one_by_one = {"text": TEXT, "method": "leave-one-out"}
    rows = [[int(k >> bit & 1) for bit in range(len(TEXT.split()))] for k in range(1, 401)]
    long = {**one_by_one, "keep": rows}
    with serving(model) as client:
        assert client.post("/api/explain", one_by_one).status == 200
        asked, queue = model.asked, client.server.models[0].queue
        client.server.models[0].explainer.engine.turn_seconds = 0.1
        model.hold = asked + 1
        with closing(client.connection()) as connection, ThreadPoolExecutor(1) as pool:
            connection.request("POST", "/api/ask", json.dumps(long).encode(), {"Content-Type": "application/json"})
            model.wait()
            short = pool.submit(client.post, "/api/ask", {"texts": ["a bad end"]})
            until(lambda: len(queue) == 2)
            model.release(asked + 200)  # of 400: it waits again, and until then the short one must have had its turn
            assert short.result().json["scores"] == [-3.25]
            with model.held(queue):
                connection.close()
        assert model.asked < asked + 300


def test_a_long_method_does_not_hold_up_a_short_question_and_ends_with_its_visitor():
    """lime asks for all its rows at once; the model answers them in turns, and nothing more after a hang-up."""
    pytest.importorskip("lime")
    model = Paced(0.001, hold=60)
    with serving(model) as client:
        queue = client.server.models[0].queue
        with closing(client.connection()) as connection, ThreadPoolExecutor(1) as pool:
            body = json.dumps({"text": LONG, "method": "lime", "queries": 3000})
            connection.request("POST", "/api/explain", body, {"Content-Type": "application/json"})
            model.wait()
            short = pool.submit(client.post, "/api/ask", {"texts": ["a bad end"]})
            until(lambda: len(queue) == 2)
            model.release(model.asked + 400)
            assert short.result().json["scores"] == [-3.25]
            model.wait()
            with model.held(queue):
                connection.close()
        assert model.asked < 1000
        assert client.post("/api/ask", {"texts": ["good"]}).json["scores"] == [1.75]


def test_long_fits_leave_a_worker_for_others(monkeypatch):
    """A fast model answers at once, so that jobs are new when their long fits begin; four workers would all be taken."""
    begun, ready, solve = [], threading.Event(), joint.fitted

    def held(*parts, **options):
        begun.append(parts)
        assert ready.wait(DEADLINE)
        return solve(*parts, **options)

    monkeypatch.setattr(joint, "fitted", held)
    monkeypatch.setattr(joint.JointMethod, "seconds", lambda *_: 30.0)
    with serving() as client, ThreadPoolExecutor(6) as pool:
        text = 12 * f"{TEXT} "  # long enough for an estimate
        long = [pool.submit(client.post, "/api/explain", {"text": text, "queries": 60, "seed": i}) for i in range(6)]
        until(lambda: len(begun) == 3)
        assert client.post("/api/ask", {"texts": ["a bad end"]}).json["scores"] == [-3.25]
        assert len(begun) == 3
        ready.set()
        assert {job.result().status for job in long} == {200}


def test_requests_take_turns():
    """Of four explanations and a question that comes last, the question does not come last."""
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
        assert gate.waiting.wait(DEADLINE)
        queue = client.server.models[0].queue
        jobs = []
        for i in range(4):
            jobs.append(pool.submit(client.post, "/api/explain", {"text": f"first{i} a good film", "queries": 50}))
            until(lambda i=i: len(queue) == 2 + i)
        jobs.append(pool.submit(client.post, "/api/ask", {"texts": ["second"]}))
        until(lambda: len(queue) == 6)
        gate.open.set()
        assert {job.result().status for job in [waits, *jobs]} == {200}
    jobs_in_order = [name for name, _ in groupby(order)]  # a step may ask several times
    assert jobs_in_order.index("second") <= 4, "after one step of each of the others, at most"


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
        assert gate.waiting.wait(DEADLINE)
        second = pool.submit(client.post, "/api/ask", {"texts": ["x"]})
        until(lambda: len(client.server.models[0].queue) == 2)
        with client.streaming({"text": TEXT, "queries": 50}) as events:
            assert next(events) == ("queued", {"position": 1})
            gate.open.set()
            assert rounds(events) == ["progress", "explanation", "done"]
        assert first.result().status == second.result().status == 200


def test_one_model_does_not_hold_up_another():
    gate = Gate()
    with serving(gate, answers, workers=1) as client, ThreadPoolExecutor(1) as pool:
        held = pool.submit(client.post, "/api/ask", {"texts": ["wait"]})
        assert gate.waiting.wait(DEADLINE)
        assert client.post("/api/explain", {"text": TEXT, "queries": 50, "model": "m1"}).status == 200
        gate.open.set()
        assert held.result().status == 200


def raising(error):
    def model(texts):
        if any("crash" in text for text in texts):
            raise error
        return answers(texts)

    return model


def test_models_that_raise_or_answer_nonsense_are_an_error_in_one_line_and_the_server_lives_on(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-1234")
    errors = (RuntimeError("401 for sk-very-secret-1234\n"), ValueError("x" * 5000), SystemExit(3), StopIteration())
    nonsense = [lambda texts, odd=odd: [odd if "crash" in text else 1.0 for text in texts] for odd in (float("nan"), "text")]
    with serving(*map(raising, errors), *nonsense) as client:
        for served in client.server.models:
            subject = {"text": "a crash", "model": served.id}
            for path, body in (("/api/explain", subject), ("/api/ask", {"texts": ["crash"], "model": served.id})):
                failed = client.post(path, body)
                assert failed.status == 500, served.id
                assert "\n" not in failed.json["error"]
                assert len(failed.json["error"]) < 500
                assert b"sk-very-secret-1234" not in failed.body
            name, data = client.stream(subject)[-1]
            assert (name, data["status"]) == ("error", 500)
            assert client.post("/api/ask", {"texts": ["good"], "model": served.id}).status == 200
            until(lambda served=served: len(served.queue) == 0)


def test_a_model_that_hangs_is_given_up_and_the_server_lives_on():
    gate = Gate()
    with serving(gate, answers, seconds=0.5, workers=2) as client:
        late = client.post("/api/ask", {"texts": ["wait"]})
        assert late.status == 503
        assert "longer than 0.5 s" in late.json["error"]
        assert client.stream({"text": "please wait", "queries": 50})[-1][1]["status"] == 503
        assert client.get("/api/info").status == 200
        # half a second is short for a busy machine: what is given up is asked again
        until(lambda: client.post("/api/ask", {"texts": ["good"], "model": "m1"}).json.get("scores") == [1.75])
        gate.open.set()
        until(lambda: len(client.server.models[0].queue) == 0)
        until(lambda: client.post("/api/ask", {"texts": ["good"]}).json.get("scores") == [1.75])


def test_stopping_ends_open_streams():
    gate = Gate()
    with serving(gate) as client:
        with client.streaming({"text": "please wait " + LONG, "queries": 4000}) as events:
            assert next(events)[0] == "queued"
            assert gate.waiting.wait(DEADLINE)
            client.server.stop()
            assert list(events)[-1] == ("error", {"status": 503, "error": "the server is stopping"})
        gate.open.set()


def test_many_requests_leave_nothing_behind():
    before = threading.active_count()
    with serving() as client, ThreadPoolExecutor(8) as pool:
        subjects = [{"text": f"{TEXT} {i}", "queries": 50} for i in range(8)]
        statuses = [answer.status for answer in pool.map(lambda s: client.post("/api/explain", s), subjects)]
        assert statuses == [200] * 8
        queue = client.server.models[0].queue
        until(lambda: len(queue) == 0)
        assert not queue._waiting
        assert threading.active_count() < before + 25
