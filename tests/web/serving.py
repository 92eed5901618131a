"""A real server on a free port, for tests, and a client that says exactly what it sends."""

import http.client
import json
import threading
from contextlib import contextmanager
from itertools import groupby

from slalom import Explainer
from slalom.web.access import Access, Limits, listen
from slalom.web.served import Served
from slalom.web.server import Server
from slalom.web.sources import ServedSources
from tests.waiting import DEADLINE, until

TEXT = "a good film with one bad end and a great cast"
WORDS = {"good": 2.0, "bad": -3.0, "great": 1.5}


def score(text):
    """A known answer: the sum of the words' effects, in log odds."""
    return sum(WORDS.get(word, 0.0) for word in text.split()) - 0.25


def answers(texts):
    return [score(text) for text in texts]


def explainer(model=answers, **options):
    return Explainer(model, output="log_odds", labels=["no", "yes"], identity="test", **options)


@contextmanager
def serving(*models, access=None, corpus=None, sources=None, port=0, remote=False, **limits):
    """Start a server and yield a client.

    Models are callables or explainers, as m0, m1, ..., or one dictionary of them; a corpus is (folder, options); sources are
    for a language model.
    """
    bounds, access = Limits(**limits), access or Access()
    named = (
        models[0] if models and isinstance(models[0], dict) else {f"m{i}": one for i, one in enumerate(models or (answers,))}
    )
    ready = {name: model if isinstance(model, Explainer) else explainer(model) for name, model in named.items()}
    served = [Served(name, one, bounds, remote=remote) for name, one in ready.items()]
    shown = None
    if corpus is not None:
        from slalom.web.corpus import ServedCorpus  # noqa: PLC0415

        shown = ServedCorpus(corpus[0], served, bounds, **corpus[1])
    asked = None if sources is None else ServedSources(sources.name, sources, bounds, remote)
    server = Server(served, access, bounds, listen(access.host, port), shown, asked)
    thread = threading.Thread(target=server.run_until_stopped, daemon=True)
    thread.start()
    client = Client(server)
    try:
        until(lambda: server.started)
        yield client
    finally:
        server.stop()
        thread.join(DEADLINE)
        assert not thread.is_alive(), "the server did not stop"


class Answer:
    """Status, headers and body."""

    def __init__(self, response):
        self.status, self.headers, self.body = (
            response.status,
            {k.lower(): v for k, v in response.getheaders()},
            response.read(),
        )

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def events(self):
        return list(parsed_events(self.body.decode().splitlines()))


def parsed_events(lines):
    """Server-sent events as (name, data)."""
    name = None
    for line in lines:
        if line.startswith("event: "):
            name = line.removeprefix("event: ")
        elif line.startswith("data: "):
            yield name, json.loads(line.removeprefix("data: "))


def rounds(events):
    """Names of events; several reports of progress in sequence are one: a slow machine asks in smaller lots."""
    return [name for name, _ in groupby(name for name, _ in events)]


class Client:
    """Requests to a server; each has a connection of its own."""

    def __init__(self, server):
        self.server, self.port = server, server.port

    def connection(self, timeout=DEADLINE):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    def request(self, method, path, body=None, headers=None):
        connection = self.connection()
        try:
            connection.request(method, path, body, headers or {})
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def get(self, path, **headers):
        return self.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})

    def post(self, path, body, headers=None):
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        return self.request("POST", path, sent, {"Content-Type": "application/json", **(headers or {})})

    def stream(self, subject, path="/api/explain"):
        """All events of an explanation."""
        return self.post(path, subject, {"Accept": "text/event-stream"}).events

    @contextmanager
    def streaming(self, subject, path="/api/explain"):
        """An explanation whose events are read one by one; leaving the block hangs up."""
        connection = self.connection()
        body = json.dumps(subject).encode()
        connection.request("POST", path, body, {"Content-Type": "application/json", "Accept": "text/event-stream"})
        response = connection.getresponse()
        assert response.status == 200
        lines = (line.decode().rstrip("\n") for line in response)
        try:
            yield parsed_events(lines)
        finally:
            response.close()
            connection.close()
