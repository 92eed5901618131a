"""The live page in a real browser, with a real server: what is shown is what Python says, and nothing of a text is markup."""

import contextlib
import json
import re
import threading
import time
from pathlib import Path
from urllib.parse import urlsplit

import numpy as np
import pytest
from scipy.special import expit
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

import slalom
from slalom.render.page import VIEWER
from tests.cases import cases
from tests.factories import MARKUP
from tests.waiting import DEADLINE, until
from tests.web.opened import Opened

pytest.importorskip("fastapi", reason="fastapi is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from slalom.web.access import Access
from tests.web.reviews import explainers as of_records
from tests.web.serving import serving

SENTENCE = "The first half is dull. The second half is one of the best things I have seen in years."
TOPICS = {"good": [2, -1, 0], "bad": [-1, 2, 0], "ball": [-1, 0, 3], "team": [0, 0, 2]}


class Slow:
    """Counts exclamation marks, slowly, and remembers what it was asked; while it is held it answers nothing."""

    def __init__(self):
        self.asked, self.pause, self.free = [], 0.004, threading.Event()
        self.free.set()

    @contextlib.contextmanager
    def at(self, pause):
        """Another time per text."""
        self.pause, before = pause, self.pause
        try:
            yield
        finally:
            self.pause = before

    @contextlib.contextmanager
    def held(self):
        """No answers."""
        self.free.clear()
        try:
            yield
        finally:
            self.free.set()

    def __call__(self, texts):
        assert self.free.wait(DEADLINE)
        self.asked += texts
        time.sleep(self.pause * len(texts))
        return [text.count("!") - 0.5 * ("well" in text) for text in texts]


def topics(texts):
    return [np.sum([TOPICS.get(word, [0, 0, 0]) for word in text.lower().split()] + [[0, 0, 0]], axis=0) for text in texts]


def broken(texts):
    if any("boom" in text for text in texts):
        raise RuntimeError("out of <b>memory</b>")
    return [0.0 for _ in texts]


def explainers(slow):
    named = {"output": "log_odds", "labels": ["calm", "loud"], "progress": False}
    return {
        "sentiment": slalom.Explainer(progress=False),
        "topics": slalom.Explainer(topics, output="logits", labels=["praise", "blame", "sport"], progress=False),
        "slow": slalom.Explainer(slow, **named),
        "broken": slalom.Explainer(broken, **named),
    }


@pytest.fixture(scope="module")
def slow():
    return Slow()


@pytest.fixture(scope="module")
def models(slow):
    return explainers(slow)


@pytest.fixture(scope="module")
def server(models):
    with serving(models, characters=60_000, units=6_000) as client:
        yield client.server


class Live(Opened):
    """The page that is open."""

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def text(self, selector):
        return " ".join(self.one(selector).text.split())

    def state(self, state, panes=1):
        self.until(
            "return document.querySelectorAll(`.pane[data-state=${arguments[0]}]`).length === arguments[1]", state, panes
        )

    def explain(self, text, model="sentiment", **settings):
        """Open the page at a text, and wait for the last round."""
        fields = {"text": text, "model": model, **settings}
        self.open("#" + "&".join(f"{name}={_quoted(value)}" for name, value in fields.items()))
        self.state("done")
        return self

    def type(self, text):
        self.one("#my-text").send_keys(text)

    def unit(self, name):
        return next(unit for unit in self.all(".unit") if unit.text == name)

    def gone(self):
        return self.js("return slalom.panes[0].keep.flatMap((kept, i) => kept ? [] : [i])")

    def answered(self):
        self.until("return Boolean(document.querySelector('#verdict'))")

    def press(self, *keys):
        actions = ActionChains(self.driver)
        for key in keys:
            actions.send_keys(key)
        actions.perform()


def _quoted(value):
    from urllib.parse import quote  # noqa: PLC0415

    return quote(str(value), safe="")


def number(text):
    return float(text.replace("−", "-").replace("+", ""))


@pytest.fixture
def live(browser, server):
    with Live(browser, server.address).watched() as shown:
        yield shown


@pytest.fixture(scope="module")
def explained(models):
    """The explanation of the sentence that the page shows."""
    return models["sentiment"](SENTENCE, unit="word")


# --- assets


def test_the_page_has_every_script_of_the_viewer_in_order():
    folders = [Path(slalom.__file__).parent / package / "assets" for package in ("web", "render/page")]
    page = (folders[0] / "index.html").read_text(encoding="utf-8")
    named = [part.split('"')[0].rsplit("/", 1)[1] for part in page.split('<script defer src="')[1:]]
    assert named[: len(VIEWER)] == list(VIEWER)
    assert all(any((folder / name).is_file() for folder in folders) for name in named)
    assert "style=" not in page
    assert "http" not in page  # nothing from elsewhere


# --- from typing to an explanation


def test_at_first_the_page_says_what_to_do(live):
    live.open()
    assert "Why did the model" in live.text(".hero")
    assert live.js("return document.activeElement.id") == "my-text"
    assert not live.one("#my-result").is_displayed()
    assert len(live.all(".example")) >= 2
    example = live.one(".example").text
    live.one(".example").click()
    live.state("done")
    assert live.one("#my-text").get_attribute("value") == example
    assert live.js("return document.getElementById('text').textContent") == example
    assert not live.all(".first")
    live.until("return document.title.startsWith(`${slalom.panes[0].content.prediction[0]}: `)")


def test_colours_come_rough_at_first_and_are_refined(live, server, explained):
    server.models[0]._recent.clear()  # what another test has asked for comes at once
    live.open()
    live.js(
        "window.seen = []; new MutationObserver(() => { const said = document.querySelector('#my-status').textContent;"
        " if (said !== seen.at(-1)) seen.push(said); }).observe(document.querySelector('#my-status'), {childList: true});"
        " window.tested = []; new MutationObserver(() => tested.push(document.querySelector('#my-figures').textContent))"
        ".observe(document.querySelector('#my-figures'), {childList: true})"
    )
    live.type(SENTENCE[:-1])
    live.type(SENTENCE[-1])
    live.state("done")
    seen = live.js("return seen")
    assert seen[0] == "Explains when you pause."
    assert any(
        re.fullmatch(r"Rough, refining: [0-9]+ of [0-9]+ questions to the model(, about .* left)?\.", said) for said in seen
    )
    assert seen[-1] == f"Final: {explained.queries} questions to the model."
    assert live.js("return tested")[0].startswith("not tested yet: R² comes with the next round")
    figures = live.text("#my-figures")
    assert figures.startswith(explained.fidelity.statement.replace("R2", "R²"))
    half = (explained.interval()[:, 1] - explained.interval()[:, 0]) / 2
    widths = figures.split("median interval")[1].split("→")
    assert len(widths) > 1
    assert number(widths[-1].split("±")[1]) == pytest.approx(np.sort(half)[(len(half) - 1) // 2], abs=0.006)
    assert max(number(width.split("±")[1]) for width in widths[:-1]) > number(widths[-1].split("±")[1])
    shown = live.js("return slalom.panes[0].content.scores[0].numbers")
    assert np.allclose(shown, explained.removal, rtol=1e-5)
    shares = live.js("return slalom.panes[0].viewer.text.spans.map(s => +s.style.getPropertyValue('--t'))")
    assert np.allclose(shares, np.minimum(1, np.abs(explained.removal) / explained.full_effect()), atol=1e-3)
    assert not live.one("#my-progress").is_displayed()
    assert live.js("const table = document.querySelector('#table'); return table.scrollWidth - table.clientWidth") == 0


def test_typing_on_cancels_what_is_running(live, server, slow):
    queue, before = next(served.queue for served in server.models if served.id == "slow"), len(slow.asked)
    live.open("#text=" + _quoted("one! two! three! four! five! six!") + "&model=slow&queries=2000")
    live.until("return Number(document.querySelector('#my-progress').getAttribute('aria-valuenow')) > 0")
    live.js(
        "const pane = document.querySelector('.pane'); window.states = []; new MutationObserver(() =>"
        " states.push(`${pane.dataset.state} ${pane.classList.contains('stale')}`)).observe(pane, {attributes: true})"
    )
    live.type(" And well done")
    live.state("running")
    assert "typing true" in live.js("return states")
    live.choose("#my-queries", "100")
    live.state("done")
    assert live.js("return document.getElementById('text').textContent").endswith("And well done")
    until(lambda: len(queue) == 0)
    assert len(slow.asked) - before < 2000  # neither of the first two explanations has gone on: together they ask 4,000


def test_no_text_can_run(live):
    live.explain(MARKUP, "topics", unit="token", queries=60)
    live.js("document.querySelector('.unit').click()")
    live.answered()
    assert live.js("return document.getElementById('text').textContent") == MARKUP
    assert live.js("return document.querySelectorAll('main img, main script').length") == 0
    live.one("#visits summary").click()
    live.js("document.querySelector('.unit:nth-of-type(2)').dispatchEvent(new MouseEvent('dblclick', {bubbles: true}))")
    live.press(MARKUP, Keys.ENTER)
    live.until("return document.querySelector('#my-swapped .number')")


@cases(("text", "direction"), [("שלום! עולם טוב, באמת", "rtl"), ("好きです! 本当に! 映画は良い", "ltr")])
def test_other_scripts_are_at_home(live, text, direction):
    live.explain(text, "slow", queries=20)
    assert live.js("return document.getElementById('text').textContent") == text
    assert live.one("#text").value_of_css_property("direction") == direction
    assert live.one("#my-text").value_of_css_property("direction") == direction
    assert live.js("return document.documentElement.scrollWidth") <= 1280
    first, second = live.js("return slalom.panes[0].viewer.text.order.slice(0, 2).map(s => Number(s.dataset.i))")
    live.js("document.querySelector('.unit').focus()")
    live.press(Keys.ARROW_LEFT if direction == "rtl" else Keys.ARROW_RIGHT, Keys.ENTER)
    assert live.gone() == [second]
    assert first != second


@pytest.fixture
def quick(slow):
    with slow.at(0.0):
        yield


@pytest.mark.usefixtures("quick")
def test_long_texts_are_announced_and_can_be_stopped(live):
    live.open("#model=slow&text=" + "%20".join(f"word{i}" if i % 10 else f"word{i}!" for i in range(1000)))
    live.until("return !document.querySelector('#my-proposal').hidden")
    assert "1,100 words: the computation alone takes about 15 s." in live.text("#my-proposal")
    live.one("#my-halt").click()
    live.state("stopped")
    assert live.text("#my-status").startswith("Stopped")
    assert not live.one("#my-halt").is_displayed()
    assert live.js("return document.activeElement.id") == "my-again"
    live.one("#my-again").click()
    live.until("return !document.querySelector('#my-proposal').hidden")
    live.one("#my-proposal button").click()
    live.state("done")
    assert live.js("return slalom.panes[0].content.units.length") == 101
    assert live.js("return slalom.panes[0].asked.unit") == "sentence"


@pytest.mark.usefixtures("quick")
def test_texts_that_take_minutes_are_explained_by_sentences_unless_words_are_chosen(live):
    def write(n):
        text = " ".join(f"word{i}." if i % 20 == 0 else f"word{i}" for i in range(n))
        live.js("const box = slalom.panes[0].ui.text; box.value = arguments[0]; box.dispatchEvent(new Event('input'))", text)

    def asked(unit, state="done"):
        live.until(f"return slalom.panes[0].asked.unit === '{unit}' && slalom.panes[0].root.dataset.state === '{state}'")

    live.open("#model=slow&text=hello!")
    live.state("done")
    write(4000)
    asked("sentence")
    assert live.js("return slalom.panes[0].content.units.length") == 201
    assert live.js("return slalom.panes[0].ui.unit.value") == "sentence"
    assert re.fullmatch(
        r"By words the computation alone would take about \d+ (s|minutes) \(4,\d+ words\)\. This is by sentences\."
        r"\s+Explain by words\s+Linear by words: quicker",
        live.text("#my-shortened"),
    )
    live.one("#my-shortened button").click()
    asked("word", "running")
    assert not live.one("#my-shortened").is_displayed()
    live.until("return !document.querySelector('#my-proposal').hidden")
    live.one("#my-halt").click()
    live.state("stopped")
    write(5)
    asked("word")


# --- asking the model


def test_a_click_shows_the_guess_at_once_and_then_the_models_answer(live, models, explained):
    live.explain(SENTENCE)
    tried = []
    for words in (["dull"], ["dull", "best"]):
        live.unit(words[-1]).click()
        keep = np.array([unit not in words for unit in explained.units])
        guess, half = float(explained.predict(keep)), float(np.diff(explained.predict_interval(keep))[0]) / 2
        assert number(live.one("#now").text) == pytest.approx(guess, abs=6e-4)  # before the model was asked
        live.answered()
        answer = float(models["sentiment"].ask(explained, keep))
        assert number(live.one("#model-now").text) == pytest.approx(answer, abs=6e-4)
        assert live.one("#model-probability").text == f"{100 * expit(answer):.1f} %"
        right = abs(answer - guess) <= half
        tried.append((right, abs(answer - guess)))
        where = "within" if right else "outside"
        assert live.text("#verdict") == f"{'✓' if right else '✗'} differs by {abs(answer - guess):.3f}, {where} the interval"
    rights, mean = sum(right for right, _ in tried), np.mean([difference for _, difference in tried])
    said = f"Right in {rights} of 2: the model's answer was within the 95% interval of the guess."
    assert live.text("#my-tally") == f"{said} Mean absolute difference {mean:.3f} (log odds)."
    live.unit("best").click()
    live.answered()
    assert "of 2:" in live.text("#my-tally")  # the same removal counts once
    live.one("#restore").click()
    assert not live.all("#model-now")


def test_a_phrase_is_removed_together(live, explained):
    live.explain(SENTENCE)
    live.js("document.getElementById('text').scrollIntoView({block: 'center'})")
    ActionChains(live.driver).move_to_element(live.unit("best")).click_and_hold().move_to_element(
        live.unit("things")
    ).release().perform()
    phrase = [explained.units.index("best"), explained.units.index("things")]
    assert live.gone() == phrase
    keep = ~np.isin(np.arange(len(explained)), phrase)
    assert number(live.one("#now").text) == pytest.approx(float(explained.predict(keep)), abs=6e-4)
    live.answered()
    live.one("#restore").click()
    assert live.gone() == []
    live.js("document.querySelectorAll('.unit')[arguments[0]].focus()", phrase[0])
    ActionChains(live.driver).key_down(Keys.SHIFT).send_keys(Keys.ARROW_RIGHT).key_up(Keys.SHIFT).send_keys(
        Keys.ENTER
    ).perform()
    assert live.gone() == phrase
    live.answered()


def test_text_numbers_and_card_describe_the_same_edited_text(live, models):
    """A replaced word and a removed one, in either order, from a link too; undoing both brings back the whole text."""
    live.explain(SENTENCE)
    assert live.text("#legend").startswith("for positive for negative ")  # two classes: nothing is against one of them only
    live.js("arguments[0].focus()", live.unit("dull"))
    live.press("r")
    live.press("brilliant", Keys.ENTER)
    live.js("arguments[0].focus()", live.unit("best"))
    live.press(" ")
    edited = " ".join(word for word in SENTENCE.replace("dull", "brilliant").split() if word != "best")
    (score,), (decision,) = models["sentiment"].decide([edited])
    (whole,), _ = models["sentiment"].decide([SENTENCE])

    def check():
        lead = "With “brilliant” instead of “dull”, without “best”"
        live.until(
            "const card = document.querySelector('#my-swapped');"
            " return card?.querySelector('.number') && card.textContent.startsWith(arguments[0])",
            lead,
        )
        said = live.text("#my-swapped")
        assert said.startswith(f"{lead} the model says {decision.label}")
        assert "All other words are there." in said
        assert number(live.one("#my-swapped .number").text) == pytest.approx(float(score), abs=6e-4)
        change = re.search(r"log odds, (\S+) compared with the whole text", said).group(1)
        assert number(change) == pytest.approx(float(score - whole), abs=2e-3)
        assert live.gone() == [live.js("return slalom.panes[0].content.units.indexOf('best')")]
        assert live.unit("brilliant").is_displayed()
        for other in ("#live-said", "#bars"):  # they speak of removals from the explained text
            assert not live.one(other).is_displayed()

    check()
    live.until("return location.hash.includes('replaced') && location.hash.includes('removed')")
    link = live.driver.current_url
    next(button for button in live.all("#my-swapped button") if button.text == "Undo").click()
    assert (live.gone(), live.text("#my-swapped")) == ([], "")
    assert live.unit("dull").is_displayed()
    assert live.one("#live-said").text.startswith("slalom's prediction, whole text")
    live.driver.get("about:blank")
    live.driver.get(link)
    check()
    live.js("arguments[0].focus()", live.unit("brilliant"))
    live.press(" ")  # without the replaced word there is no replacement, and slalom predicts again
    live.until("return document.getElementById('live-said').textContent.startsWith(\"slalom's prediction without 2 words\")")
    live.until("return document.getElementById('model-now').textContent !== '…'")
    assert live.text("#my-swapped") == ""
    assert "compared with the whole text" in live.one("#change").text


def test_the_fewest_words_that_flip_the_decision_are_struck_out(live, models, explained):
    flip = models["sentiment"].flip(explained)
    assert flip is not None
    live.explain(SENTENCE)
    live.one("#my-flip").click()
    live.until("return document.querySelector('#my-flipped b')")
    said = live.text("#my-flipped")
    names = [f"“{explained.units[i]}”" for i in flip.units]
    assert said.startswith(
        f"Without {' and '.join(names)} the model decides {flip.label} instead of {explained.label}: log odds"
    )
    assert f"→ {flip.asked:+.3f}".replace("-", "−") in said
    assert "Confirmed by the model" in said
    assert live.gone() == sorted(flip.units)
    assert all("line-through" in live.all(".unit")[i].value_of_css_property("text-decoration") for i in flip.units)
    live.answered()
    assert number(live.one("#model-now").text) == pytest.approx(flip.asked, abs=6e-4)
    live.explain("well then", "slow")  # nothing flips it
    live.one("#my-flip").click()
    live.until("return document.querySelector('#my-flipped').textContent.startsWith('No few words')")


# --- two at once, settings, history, links


def test_two_texts_or_two_models_stand_side_by_side(live, models):
    live.explain("good ball and bad team!", "topics", unit="word")
    live.one("#compare").click()
    live.state("done", 2)
    assert live.one("#second-my-model").get_attribute("value") == "slow"
    left, right = (element.rect for element in live.all(".pane"))
    assert left["x"] + left["width"] <= right["x"]
    assert live.js("return slalom.panes.map(p => p.content.labels.length)") == [3, 2]
    live.one("#second-my-text").clear()
    live.one("#second-my-text").send_keys("well! then")
    live.until("return document.getElementById('second-text').textContent === 'well! then'")
    assert live.js("return document.getElementById('text').textContent") == "good ball and bad team!"
    ids = live.js("return [...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    live.until("return location.hash.includes('text2=well')")
    link = live.driver.current_url
    live.one("#second-my-close").click()
    assert len(live.all(".pane")) == 1
    live.driver.get("about:blank")
    live.driver.get(link)
    live.state("done", 2)
    live.media(width=390)
    top, below = (element.rect for element in live.all(".pane"))
    assert below["y"] >= top["y"] + top["height"]


def test_records_have_a_box_per_field(browser):
    served = of_records()
    with serving(served) as client, Live(browser, client.server.address).watched() as live:

        def boxes():
            return live.all("#my-fields textarea, #my-fields input")

        def link_again():
            live.until("return location.hash.includes('fields=')")
            link = live.driver.current_url
            live.driver.get("about:blank")
            live.driver.get(link)
            live.state("done")
            return [box.get_attribute("value") for box in boxes()]

        live.open()
        assert [label.text for label in live.all("#my-fields label")] == ["title", "stars"]
        assert not live.one("#my-text").is_displayed()
        boxes()[0].send_keys("good but dull fun")
        live.state("empty")
        assert live.text("#my-status") == "Explains when every field is filled in."
        boxes()[1].send_keys("4")
        live.state("done")
        e = served["reviews"]({"title": "good but dull fun", "stars": 4}, unit="word")
        assert live.js("return slalom.panes[0].content.units") == list(e.units)
        assert [caption.text for caption in live.all(".caption")] == ["title", "stars"]
        live.unit("dull").click()
        live.answered()
        assert link_again() == ["good but dull fun", "4"]
        live.answered()
        assert live.gone() == [2]
        live.js("slalom.panes[0].swap(1, 'no')")  # beside the word that is gone
        expected = served["reviews"].decide([{"title": "good no fun", "stars": 4}])[0][0]
        live.until("return document.querySelector('#my-swapped .number')")
        assert number(live.one("#my-swapped .number").text) == pytest.approx(expected, rel=0.01)

        live.choose("#my-model", "pairs")
        live.choose("#my-form", "pair")
        assert boxes()[0].get_attribute("value") == "good but dull fun"
        boxes()[1].clear()
        boxes()[1].send_keys("no dull day")
        live.state("done")
        assert link_again() == ["good but dull fun", "no dull day"]
        assert [caption.text for caption in live.all(".caption")] == ["text 1", "text 2"]
        assert live.js("return slalom.panes[0].content.score") == 1.0
        live.one("#visits summary").click()
        next(entry for entry in live.all("#visits-list button") if "stars" in entry.text).click()
        live.until("return slalom.panes[0].asked?.model === 'reviews'")
        live.state("done")
        assert [box.get_attribute("value") for box in boxes()] == ["good but dull fun", "4"]
        live.one("#compare").click()
        live.state("done", 2)
        assert live.js("return slalom.panes[1].subject.text") == ["good but dull fun", "4"]


def test_settings_are_in_plain_words_and_are_used(live, models):
    live.explain("good ball and bad team!", "topics")
    labels = [element.text for element in live.all(".setting > span") if element.is_displayed()]
    assert labels == ["Model", "Method", "Parts", "Class", "Questions"]
    assert "SLALOM: Value and importance of every word" in live.text("#my-note")
    assert live.one("#my-target").get_attribute("value") == "all"
    assert "All classes at a glance" in live.text("#classes-card")
    e = models["topics"]("good ball and bad team!", unit="word", target="all")
    cells = live.js(
        "return [...document.querySelectorAll('#classes tr[data-i]')].map(r => [Number(r.dataset.i),"
        " [...r.querySelectorAll('td')].map(c => c.textContent)])"
    )
    columns = np.argsort(-e.score, kind="stable")
    for i, row in cells:
        assert [number(cell) for cell in row] == pytest.approx(e.removal[i, columns].tolist(), abs=0.006)
    live.one("#classes button[aria-pressed=false]").click()
    assert live.text("#head").count(e.labels[columns[1]]) == 1
    live.choose("#my-target", "blame")
    live.state("done")
    assert live.js("return slalom.panes[0].content.target") == "blame"
    live.choose("#my-method", "leave-one-out")
    live.state("done")
    assert "leave-one-out: the change of the score when each unit is removed" in live.text("#my-note")
    assert live.one("#my-queries").get_attribute("disabled")
    live.js("document.querySelector('.unit').click()")  # without intervals a guess is right on the same side of zero
    live.answered()
    assert live.text("#verdict").endswith("of zero")
    assert "guess and answer were on the same side of zero" in live.text("#my-tally")


def test_the_history_of_the_visit_leads_back(live):
    live.explain("well! well!", "slow", queries=60)
    live.explain(SENTENCE)
    live.one("#visits summary").click()
    entries = live.all("#visits-list button")
    assert SENTENCE[:40] in " ".join(entries[0].text.split())
    assert "dull" in [part.text for part in live.all("#visits-list li:first-child .preview .against")]
    older = next(entry for entry in entries if "well!" in entry.text)
    older.click()
    live.until("return document.getElementById('text').textContent === 'well! well!'")
    live.state("done")
    assert live.one("#my-model").get_attribute("value") == "slow"
    live.driver.refresh()
    live.state("done")
    live.one("#visits summary").click()
    assert len(live.all("#visits-list button")) >= 2
    live.one("#forget").click()
    assert not live.one("#visits").is_displayed()


def test_a_link_that_names_no_class_and_no_score_is_of_the_first_ones(live):
    live.explain(SENTENCE, target="negative", queries=60, score="shapley")
    assert live.js("return slalom.panes[0].viewer.state.score") == "shapley"
    live.js("location.hash = '#text=A+good+film&queries=60'")
    live.until("return document.getElementById('text').textContent === 'A good film'")
    live.state("done")
    assert live.js("return slalom.panes[0].asked.target") is None
    assert live.js("const { state } = slalom.panes[0].viewer; return state.score === state.text.initial_score")
    assert "target" not in live.js("return location.hash")


def test_a_link_holds_everything(live):
    live.explain(SENTENCE, target="negative", queries=100, seed=7)
    live.one('input[value="shapley"]').click()
    live.unit("dull").click()
    live.answered()
    live.until("return location.hash.includes('score=shapley') && location.hash.includes('removed=4')")
    link = live.driver.current_url
    before = live.js(
        "const { score, scores } = slalom.panes[0].content;"
        " return [score, scores[1].numbers, document.querySelector('#model-now').textContent]"
    )
    assert urlsplit(link).query == ""  # the text stays in the fragment, which is not sent
    live.driver.get("about:blank")
    live.driver.get(link)
    live.until("return Boolean(window.slalom)")
    live.answered()
    assert live.js("return slalom.panes[0].subject") == {
        "text": SENTENCE,
        "model": "sentiment",
        "method": "joint",
        "unit": "word",
        "queries": 100,
        "target": "negative",
        "seed": 7,
    }
    after = live.js(
        "const { score, scores } = slalom.panes[0].content;"
        " return [score, scores[1].numbers, document.querySelector('#model-now').textContent]"
    )
    assert after == before
    assert live.gone() == [4]
    assert live.js("return slalom.panes[0].viewer.state.score") == "shapley"
    live.js("Object.defineProperty(navigator, 'clipboard', {value: {writeText: async text => { window.copied = text; }}})")
    live.one("#my-link").click()
    live.until("return window.copied !== undefined")
    assert live.js("return window.copied") == link
    assert "The link is copied" in live.text("#toast")


def test_no_link_and_no_history_holds_the_token_and_the_page_says_where_texts_go(browser, slow, models):
    with serving({"slow": models["slow"]}, access=Access(token="sesame-open-9"), remote=True) as client:
        page = Live(browser, client.server.address).open("#text=hello!")
        page.until("return slalom.panes[0].final")
        assert page.js("return location.search") == ""
        assert "sesame" not in page.js("return location.href")
        browser.refresh()  # the cookie is enough
        page.until("return window.slalom && slalom.panes[0].final")
        assert page.js("return slalom.panes[0].ui.text.value") == "hello!"
        about = page.js("return document.getElementById('about').textContent")
        assert "this server sends your texts to the API of the model." in about
        browser.delete_all_cookies()


def test_everything_can_be_taken_along(live, explained, tmp_path):
    pytest.importorskip("matplotlib", reason="matplotlib is not installed")
    live.explain(SENTENCE)
    live.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    for name in ("json", "bar.svg"):
        shown, _, kind = name.rpartition(".")
        live.js("arguments[0].click()", live.one(f'[data-format="{kind}"]' + (f'[data-picture="{shown}"]' if shown else "")))
        file = tmp_path / f"explanation{f'-{shown}' if shown else ''}.{kind}"
        WebDriverWait(live.driver, DEADLINE).until(lambda _, file=file: file.exists() and file.stat().st_size > 200)
    saved = slalom.load(tmp_path / "explanation.json")
    np.testing.assert_allclose(saved.removal, explained.removal, rtol=1e-4, atol=1e-5)  # batches differ, and so the last digits
    live.one("#my-python").click()
    live.until("return document.querySelector('#code').open")
    code = live.js("return document.querySelector('#code-text').textContent")
    made = {}
    exec(code.replace("(model)", "()").replace("print(e)", ""), made)
    np.testing.assert_allclose(made["e"].removal, explained.removal, rtol=1e-4, atol=1e-5)
    live.press(Keys.ESCAPE)
    assert not live.js("return document.querySelector('#code').open")


# --- when something is wrong


def test_errors_are_one_line(live):
    live.open("#text=boom&model=broken")
    live.state("error")
    said = live.text("#my-error")
    assert "out of <b>memory</b>" in said
    assert "Traceback" not in said
    assert not live.one("#my-result").is_displayed()
    live.choose("#my-model", "slow")
    live.state("done")
    assert not live.one("#my-error").is_displayed()
    live.js("arguments[0].value = 'a'.repeat(60001); arguments[0].dispatchEvent(new Event('input'))", live.one("#my-text"))
    live.state("error")
    assert live.text("#my-error") == "A text can have 60,000 characters; this one has 60,001."
    live.driver.get_log("browser")  # the browser notes the status 500


def test_a_busy_server_is_asked_again(browser, slow, models):
    with serving({"slow": models["slow"]}, waiting=1, workers=1) as busy:
        live = Live(browser, busy.server.address)
        with slow.held():
            live.open("#text=well!%20one%20two%20three&text2=then!%20one%20two%20three")
            said = live.until("return document.querySelector('.pane[data-state=busy] .status')?.textContent")
        assert "The server is busy; trying again in" in said
        live.state("done", 2)
    browser.get("about:blank")
    browser.get_log("browser")


def test_when_the_server_is_gone_the_page_waits_and_goes_on(browser, models):
    models = {"slow": models["slow"]}
    with serving(models) as client:
        live = Live(browser, client.server.address)
        live.open()
    live.type("well! well!")
    live.state("lost")
    assert live.text("#offline") == "The server does not answer. Start it again with slalom serve; this page goes on by itself."
    with serving(models, port=client.port):
        live.state("done")
        assert not live.one("#offline").is_displayed()
    browser.get("about:blank")
    browser.get_log("browser")


# --- for everyone


def test_axe_finds_nothing_wrong(live, axe):
    live.explain(SENTENCE)
    live.unit("dull").click()
    live.answered()
    live.one("#my-flip").click()
    live.until("return document.querySelector('#my-flipped b')")
    assert axe(live.driver) == []
    live.media("dark")
    assert axe(live.driver, "color-contrast") == []  # the other rules do not depend on it
    live.media()
    live.explain("good ball and bad team!", "topics")
    live.one("#compare").click()
    live.state("done", 2)
    live.js("document.querySelector('#second-text .unit').dispatchEvent(new MouseEvent('dblclick', {bubbles: true}))")
    live.one("#visits summary").click()
    assert axe(live.driver) == []


def test_nothing_sticks_out_on_small_screens(live):
    width = 320
    live.media(width=width)
    for make in (live.open, lambda: live.explain(SENTENCE), lambda: live.explain("good ball and bad team!", "topics")):
        make()
        assert live.js("return document.documentElement.scrollWidth") <= width
    live.one("#visits summary").click()
    assert live.js("return document.documentElement.scrollWidth") <= width
    assert live.one("#visits .menu-body").rect["x"] >= 0


def test_everything_works_with_the_keyboard(live):
    live.open()
    live.type(SENTENCE)
    ActionChains(live.driver).key_down(Keys.CONTROL).send_keys(Keys.ENTER).key_up(Keys.CONTROL).perform()
    live.state("done")
    reached = []
    for _ in range(40):
        live.press(Keys.TAB)
        reached.append(live.js("const e = document.activeElement; return e.id || e.className || e.tagName"))
        if reached[-1].startswith("unit"):
            break
    order = [
        name
        for name in reached
        if name in ("my-model", "my-method", "my-unit", "my-queries", "my-flip", "my-link", "my-python")
    ]
    assert order == ["my-model", "my-method", "my-unit", "my-queries", "my-flip", "my-link", "my-python"]
    assert reached[-1].startswith("unit")
    live.press(Keys.ENTER)
    live.answered()
    assert live.js("return document.querySelector('#live-said').getAttribute('aria-live')") == "polite"
    assert json.loads(live.js("return JSON.stringify(slalom.panes[0].keep)"))[0] == 0
