"""Answers from sources over HTTP and in a browser: what comes back is what the library says, within all limits."""

import json
import re
import threading
from contextlib import contextmanager

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

import slalom
from slalom.errors import ModelError
from slalom.render.page.content import content
from slalom.web.access import Access
from tests.cases import cases
from tests.test_answers import ANSWER, SOURCES, Rules
from tests.test_long_contexts import SOURCES as MANY
from tests.test_long_contexts import Rule as LongRule
from tests.test_written_answers import saying
from tests.waiting import DEADLINE, until
from tests.web.opened import Opened
from tests.web.serving import answers, rounds, serving

QUESTION = "What do you know?"
ASKED = {"sources": SOURCES, "question": QUESTION}
PATH = "/api/context"


class Held(Rules):
    """Answers so many prompts, and no more until it is free; fails where the question is odd."""

    def __init__(self, most):
        super().__init__()
        self.most, self.free, self.waits = most, threading.Event(), threading.Event()

    def log_probs(self, prompts, answer, lead):
        if "odd" in prompts[0]:
            raise ModelError("held is out of words")
        if self.asked >= self.most:
            self.waits.set()
            assert self.free.wait(DEADLINE)
        return super().log_probs(prompts, answer, lead)


@pytest.fixture(scope="module")
def client():
    with serving({}, sources=Rules(), characters=3_000) as started:
        yield started


def comparable(explanation):
    plain = json.loads(json.dumps(explanation))
    for part in (plain, *plain.get("details", ())):
        part.pop("seconds", None)
    return plain


def test_the_answer_is_that_of_the_library(client):
    e = slalom.ContextExplainer(Rules(), context=SOURCES)(QUESTION)
    found = client.post(PATH, ASKED).json
    assert comparable(found["explanation"]) == comparable(e.to_dict())
    said = [(s["groups"], s["memory"]) for s in found["content"]["sentences"]]
    assert [(sorted(map(sorted, s.groups)), s.from_memory) for s in e.sentences] == [
        (sorted(group for group, _ in groups), memory) for groups, memory in said
    ]
    ((either, joint),) = said[0][0]
    assert either == [0, 2]
    assert joint == pytest.approx(7.0, abs=0.7)  # -1 with either of them, -8 without both
    text = " ".join(SOURCES)
    as_one = client.post(PATH, {"sources": text, "question": QUESTION, "answer": ANSWER, "queries": 40}).json["explanation"]
    assert (as_one["unit"], as_one["answer"]["generated"]) == ("sentence", False)
    assert as_one["units"] == SOURCES


def test_an_answer_comes_at_once_and_then_round_by_round(client):
    asked = {**ASKED, "seed": 5}
    events = client.stream(asked, PATH)
    names = rounds(events)
    assert names[:2] == ["queued", "answer"]
    assert names[-2:] == ["explanation", "done"]
    assert names.count("explanation") == 2
    assert events[1][1] == {"answer": ANSWER, "generated": True}
    shown = [data for name, data in events if name == "explanation"]
    assert [data["final"] for data in shown] == [False, True]
    assert shown[0]["queries"] < shown[1]["queries"]
    e = slalom.ContextExplainer(Rules(), context=SOURCES, seed=5)(QUESTION)
    expected = json.loads(json.dumps(content(e)))
    assert [s["groups"] for s in shown[1]["content"]["sentences"]] == [s["groups"] for s in expected["sentences"]]


def test_nothing_is_asked_twice():
    model = Rules()
    with serving({}, sources=model) as own:
        *_, queries = (data["queries"] for name, data in own.stream(ASKED, PATH) if name == "explanation")
        assert model.asked == queries
        own.stream(ASKED, PATH)
        assert model.asked == queries


@cases(
    ("changes", "status", "said"),
    [
        ({"sources": "a" * 3_001}, 413, "at most 3,000 characters"),
        ({"sources": ["a" * 1_501, "b" * 1_500]}, 413, "at most 3,000 characters"),
        ({"sources": ["a"] * 2_001}, 400, "at most 2,000 sources; got 2,001"),
        ({"sources": " "}, 400, "a context must be a text"),
        ({"sources": []}, 400, "a context must be a text"),
        ({"question": ""}, 400, "a question is missing"),
        ({"question": "a" * 4_001}, 400, "question"),
        ({"answer": " "}, 400, "an answer must not be empty"),
        ({"queries": 5_001}, 400, "queries must be at most 5,000"),
        ({"unit": "word"}, 400, "unit"),
        ({"model": "m0"}, 400, "is no field of this request"),
    ],
)
def test_limits_and_wrong_fields_are_one_line(client, changes, status, said):
    refused = client.post(PATH, ASKED | changes)
    assert refused.status == status, refused.json
    assert said in refused.json["error"]
    assert "\n" not in refused.json["error"]


def test_a_model_that_fails_ends_the_stream_with_an_error_and_the_server_lives_on():
    with serving({}, sources=Held(1_000)) as own:
        events = own.stream({**ASKED, "question": "Is it odd?"}, PATH)
        assert [name for name, _ in events] == ["queued", "answer", "error"]
        assert events[-1][1] == {"status": 500, "error": "held is out of words"}
        assert own.stream(ASKED, PATH)[-1][0] == "done"


def test_hanging_up_ends_the_questions():
    model = Held(0)
    with serving({}, sources=model) as own:
        queue = own.server.sources.queue
        with own.streaming(ASKED, PATH) as events:
            assert [next(events)[0] for _ in range(2)] == ["queued", "answer"]
            assert model.waits.wait(DEADLINE)
        until(lambda: all(job.cancelled for job in queue._jobs))
        model.free.set()
        until(lambda: len(queue) == 0)
        assert model.asked < 64
        assert own.post(PATH, ASKED).status == 200


@contextmanager
def writing(text, most):
    """A local model that says a text, and waits before the token of this number until it is free."""
    lm, passes = saying(text, prompt="Answer:")
    free, waits = threading.Event(), threading.Event()

    def hold(*_):
        if len(passes) == most:
            waits.set()
            assert free.wait(DEADLINE)

    lm.model.register_forward_pre_hook(hold)
    try:
        yield lm, free, waits, passes
    finally:
        free.set()


def test_the_answer_comes_as_it_is_written():
    with writing(" A clock.", 99) as (lm, *_), serving({}, sources=lm) as own:
        events = own.stream({**ASKED, "queries": 8}, PATH)
        written = [data["answer"] for name, data in events if name == "writing"]
        assert written == ["A", "A c", "A cl", "A clo", "A cloc", "A clock", "A clock."]
        assert rounds(events)[:3] == ["queued", "writing", "answer"]
        assert ("answer", {"answer": "A clock.", "generated": True}) in events
        assert "writing" not in rounds(own.stream({**ASKED, "queries": 8}, PATH)), "it is known"
        given = own.stream({**ASKED, "queries": 8, "answer": "A clock."}, PATH)
        assert rounds(given)[:2] == ["queued", "answer"]
        assert own.post(PATH, {**ASKED, "queries": 8, "seed": 2}).json["explanation"]["answer"]["text"] == "A clock."


def test_hanging_up_ends_the_writing():
    with writing(" A clock that is old", 6) as (lm, free, waits, passes), serving({}, sources=lm) as own:
        queue = own.server.sources.queue
        with own.streaming(ASKED, PATH) as events:
            assert next(events)[0] == "queued"
            assert next(events) == ("writing", {"answer": "A"})
            assert waits.wait(DEADLINE)
        until(lambda: all(job.cancelled for job in queue._jobs))
        free.set()
        until(lambda: len(queue) == 0)
        assert len(passes) == 6, "no further token"
        assert own.post(PATH, {**ASKED, "queries": 8}).json["explanation"]["answer"]["text"] == "A clock that is old"


class Long(LongRule):
    """A rule about many sources in any prompt; answers so many prompts, and no more until it is free."""

    def __init__(self, *rules, most):
        super().__init__(*rules)
        self.most, self.free, self.waits = most, threading.Event(), threading.Event()

    def log_probs(self, prompts, answer, lead):
        if len(self.prompts) >= self.most:
            self.waits.set()
            assert self.free.wait(DEADLINE)
        return super().log_probs(["\n\n".join(["", *re.findall(r"s\d+", prompt)]) for prompt in prompts], answer, lead)


def test_many_sources_come_in_rounds():
    with serving({}, sources=Long("either", most=999)) as own:
        events = own.stream({"sources": MANY, "question": QUESTION}, PATH)
    shown = [data for name, data in events if name == "explanation"]
    assert [data["final"] for data in shown] == [False] * (len(shown) - 1) + [True]
    assert len(shown) > 3
    sizes = [data["content"]["sizes"] for data in shown]
    assert len(sizes[0]) == 8
    assert {sum(part) for part in sizes} == {len(MANY)}
    assert sizes[-1].count(1) >= 2
    assert {"progress"} == {name for name, _ in events} - {"queued", "answer", "writing", "explanation", "done"}
    last = shown[-1]["content"]
    assert [[last["numbers"][i] for i in group] for group, _ in last["sentences"][0]["groups"]] == [["38", "113"]]


def test_a_server_says_what_it_has():
    with serving(answers) as own:
        assert own.post(PATH, ASKED).status == 404
        assert own.get("/api/info").json["sources"] is None
    with serving({}, sources=Rules(), access=Access(token="sesame-open-9")) as own:
        assert own.post(PATH, ASKED).status == 401
        allowed = {"Authorization": "Bearer sesame-open-9"}
        assert own.get("/api/info", **allowed).json["sources"] == {"model": "rules", "remote": False}
        assert "POST /api/context" in own.get("/api/docs", **allowed).body.decode()
        refused = own.post("/api/explain", {"text": "so"}, allowed)
        assert (refused.status, refused.json["error"][:29]) == (400, "this server has no classifier")
        assert own.post(PATH, ASKED, {**allowed, "Origin": "http://evil.example"}).status == 403


class Page(Opened):
    """The sources view that is open."""

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def ask(self, sources=SOURCES):
        self.js("arguments[0].value = arguments[1]", self.one("#ask-sources"), "\n\n".join(sources))
        self.choose("#ask-unit", "paragraph")
        self.one("#ask-question").send_keys(QUESTION)
        self.one(".asking [type=submit]").click()

    def status(self, beginning):
        self.until("return document.getElementById('ask-status').textContent.startsWith(arguments[0])", beginning)

    def gone(self):
        """The sources that are taken out."""
        units = self.all("#sources-text .unit[aria-pressed='true']")
        return {int(name) for unit in units for name in re.findall(r"s(\d+)", unit.get_attribute("textContent"))}

    def lit(self, selector):
        return [int(element.get_attribute("data-k")) for element in self.all(f"{selector}.on")]


@pytest.fixture
def opened(browser):
    with serving(answers, sources=Rules()) as own, Page(browser, own.server.address).watched() as page:
        yield page


def test_the_page_asks_and_shows_what_rests_on_what(opened):
    opened.open()
    opened.one('#views [value="sources"]').click()
    assert not opened.one("#panes").is_displayed()
    opened.ask()
    opened.status("Final")
    assert [span.text for span in opened.all(".cites")] == ["[1] or [3]", opened.all(".cites")[1].text, "memory"]
    assert sorted(opened.all(".cites")[1].text.split(", ")) == ["[4]", "[5]"]
    move = ActionChains(opened.driver)
    move.move_to_element(opened.one(".sentence[data-k='0']")).perform()
    assert opened.lit("#sources-answer-sources button") == [0, 2]
    move.move_to_element(opened.one("#sources-answer-sources button[data-k='4']")).perform()
    assert opened.lit(".sentence") == [1]
    assert opened.one("#sources-answer-said").text == "Sentence 2 rests on [5]."
    opened.one(".sentence[data-k='2']").send_keys(Keys.ENTER)
    assert opened.one(".sentence[data-k='2']").get_attribute("aria-pressed") == "true"
    assert "Score of sentence 3" in opened.one("#sources-head").text
    opened.one(".sentence[data-k='2']").send_keys(Keys.ESCAPE)
    assert "Score of the answer" in opened.one("#sources-head").text
    assert "sources=" in opened.driver.current_url
    opened.driver.refresh()
    opened.until("return window.slalom")
    assert opened.one("#ask-question").get_attribute("value") == QUESTION
    opened.one('#views [value="text"]').click()
    assert opened.one("#panes").is_displayed()


def test_the_view_fits_a_phone_and_axe_finds_nothing_wrong(opened, axe):
    for scheme, width in (("light", 390), ("dark", 1280)):
        opened.media(scheme, width)
        opened.open("#sources=")
        opened.ask()
        opened.status("Final")
        assert opened.js("return document.documentElement.scrollWidth") <= width
        opened.one(".sentence").click()
        assert axe(opened.driver) == []


def test_it_can_be_stopped(browser):
    model = Held(32)
    with serving({}, sources=model) as own, Page(browser, own.server.address).watched() as page:
        page.open()
        assert not page.one("#views").is_displayed()  # it has nothing else
        page.ask()
        page.status("Rough")
        assert model.waits.wait(DEADLINE)
        page.one("#ask-halt").click()
        page.status("Stopped: rough.")
        until(lambda: all(job.cancelled for job in own.server.sources.queue._jobs))
        model.free.set()
        assert page.all(".sentence")
        assert not page.one("#ask-progress").is_displayed()


def test_an_answer_is_seen_as_it_is_written_and_can_be_stopped(browser):
    with (
        writing(" A clock that is old.", 9) as (lm, free, waits, passes),
        serving({}, sources=lm) as own,
        Page(browser, own.server.address).watched() as page,
    ):
        page.open()
        page.ask()
        assert waits.wait(DEADLINE)
        page.until("return document.getElementById('ask-said').textContent === 'A clock'")
        page.status("The model writes its answer")
        assert page.one("#ask-said").get_attribute("aria-busy") == "true"
        page.one("#ask-halt").click()
        page.status("Stopped.")
        assert page.one("#ask-said").text == "A clock"
        until(lambda: all(job.cancelled for job in own.server.sources.queue._jobs))
        free.set()
        until(lambda: len(own.server.sources.queue) == 0)
        assert len(passes) == 9
        page.one(".asking [type=submit]").click()
        page.status("Final")
        assert page.one(".sentence").text.startswith("A clock that is old.")


def test_what_was_taken_out_of_a_long_context_stays_out_in_finer_rounds(browser):
    model = Long("single", most=40)
    with serving({}, sources=model) as own, Page(browser, own.server.address).watched() as page:
        page.open()
        page.ask(MANY)
        assert model.waits.wait(DEADLINE)
        page.status("Rough, in 8 runs of sources, refining: ")
        page.one("#sources-text [data-i='1']").click()
        assert page.gone() == {*range(19, 38)}
        model.free.set()
        page.status("Final")
        assert page.gone() == {*range(19, 38)}
        assert len(page.all("#sources-text .unit")) > 8
