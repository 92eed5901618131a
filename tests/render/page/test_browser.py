"""The page in a real browser: what it predicts, how its parts are linked, that no text can run as code."""

import base64
import json
from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit, softmax
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from slalom import Explainer, Explanations
from slalom.core import Additive
from slalom.render import charts
from slalom.render.page import page
from slalom.render.palette import THEMES, hexadecimal
from slalom.result import NORMAL_95, SCORES, Answer, Failure, Spread
from tests.factories import (
    MARKUP,
    film_record,
    fitted,
    fitted_classes,
    full_of_markup,
    in_order,
    random_explanation,
    with_errors,
    with_pairs,
    with_parts,
    with_se,
)
from tests.side_by_side import compared, record
from tests.test_answer_words import explained as words_explained
from tests.test_answers import explained as answer_explained
from tests.web.opened import Opened

ROWS = "[...document.querySelectorAll('#table tbody tr[data-i]')]"
LISTED = [name for name, score in SCORES.items() if score.listed]
UNKNOWN = "too uncertain to show"


class View(Opened):
    """A page that is open."""

    def __init__(self, driver, file):
        super().__init__(driver, file.as_uri())
        self.file = file

    def open(self, explanations, anchor=""):
        self.file.write_text(page(explanations), encoding="utf-8")
        return super().open(anchor)

    def all(self, selector):
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def each(self, selector, code):
        """What a script returns of each element `e`."""
        return self.js(f"return [...document.querySelectorAll(arguments[0])].map(e => {code})", selector)

    def texts(self, selector):
        return [" ".join(text.split()) for text in self.each(selector, "e.innerText")]

    def unit(self, i):
        return self.one(f'.unit[data-i="{i}"]')

    def score(self, name):
        self.one(f'input[value="{name}"]').click()

    def hover(self, element):
        self.js("arguments[0].scrollIntoView({block: 'center'})", element)
        ActionChains(self.driver).move_to_element(element).perform()

    def press(self, *keys):
        ActionChains(self.driver).send_keys(*keys).perform()

    def width(self, pixels):
        size = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def choose(self, column):
        self.one(f'#class option[value="{column}"]').click()

    def tip(self):
        return dict(zip(self.texts("#tip dt"), self.texts("#tip dd"), strict=True))

    def linked(self):
        """The unit that is looked at: in the text, in the scatter, in the table."""
        return self.js(
            "return [document.querySelector('.unit.on')?.dataset.i,"
            " document.querySelector('.ring').style.display === 'none' ? undefined : document.querySelector('.ring').dataset.i,"
            " document.querySelector('tbody tr.on')?.dataset.i].map(i => i === undefined ? null : Number(i))"
        )


@pytest.fixture
def view(browser, tmp_path):
    shown = View(browser, tmp_path / "page.html")
    shown.prefer("light")
    shown.width(1280)
    yield shown
    assert not [entry for entry in browser.get_log("browser") if "favicon" not in entry["message"]]


def number(text):
    return float(text.replace("−", "-").replace("+", ""))


def plus_minus(cell):
    """The number and the half interval of a cell such as "+1.2 ± 0.3"."""
    text = cell.split("±")
    return number(text[0]), number(text[1]) if len(text) > 1 else None


def test_the_page_predicts_what_python_predicts(view):
    """The formula is held to Python's by tests/core/test_vectors.py; here: what the page makes of an explanation."""
    for e in (
        fitted(),
        with_parts(random_explanation(classes=3)),
        with_parts(random_explanation(unit="token")).merge("word"),
        random_explanation(additive=True),
    ):
        rng = np.random.default_rng(0)
        keep = rng.random((20, len(e))) < 0.6
        keep[0] = False
        view.open([e])
        predicted = np.array(view.js("return arguments[0].map(keep => slalom.predict(keep))", keep.astype(int).tolist()))
        expected = e.predict(keep)
        assert np.abs(predicted - expected.reshape(len(keep), -1)).max() < 1e-9
        chances = np.array(view.js("return arguments[0].map(slalom.probabilities)", predicted.tolist()))
        assert np.allclose(chances, softmax(expected, axis=1) if expected.ndim == 2 else expit(expected)[:, None], atol=1e-12)
        view.js("arguments[0].forEach(i => document.querySelector(`.unit[data-i='${i}']`).click())", [0, 2])
        shown = view.js("return slalom.predict(slalom.state.keep)")
        assert np.abs(np.array(shown) - np.atleast_1d(e.predict(~np.isin(np.arange(len(e)), [0, 2])))).max() < 1e-9


def test_the_head_says_what_was_predicted(view):
    e = fitted()
    head = view.open([e]).one("#head").text
    label, chance = e.prediction
    assert {label, f"{100 * chance:.1f} %", e.target} <= set(head.split("\n"))
    assert number(view.one("#score").text) == pytest.approx(e.score, abs=1e-3)
    assert "R²" in view.one("#facts").text
    assert view.one("nav").is_displayed() is False
    bare = replace(fitted(), errors={}, held_out=None, label=None, probabilities=None, diagnosis="Odd.", cut=3)
    assert "not known" in view.open([bare]).one("#head").text
    assert "Odd." in view.one("#warnings").text
    assert "±" not in view.one("#table").text
    explainer = Explainer(lambda ts: [3.5 * ("good" in t) + len(t.split()) for t in ts], output="scores", labels=["stars"])
    view.open([explainer("a good film it is")])  # a model that answers with a number has no class
    assert view.one("#head").text.split("\n") == ["The model's number (stars)", "+8.500"]
    assert {"raises stars", "lowers stars"} <= set(view.texts("#legend .key"))
    e = replace(fitted(), scale="log probability", unit="sentence", label=None, probabilities=None)
    e = replace(e, answer=Answer("Is <b>it</b> so?", "It is. It <i>was</i>.", 7, 21, True, 4))
    view.open([e])
    assert view.one("#answer-question").text == "Is <b>it</b> so?"
    assert view.one("#answer-text").text.startswith("It is. It <i>was</i>.")
    assert view.one(".sentence").text.startswith("It <i>was</i>.")
    assert "written by the model" in view.one("#answer-card").text
    assert view.one("#text-title").text == "Sources"


def test_a_sentence_of_an_answer_lights_its_sources_and_a_source_its_sentences(view):
    _, e = answer_explained()
    view.open([e])
    lit = lambda selector: [int(k) for k in view.each(f"{selector}.on", "e.dataset.k")]  # noqa: E731
    strength = "Number(getComputedStyle(e).getPropertyValue('--t'))"
    for k, s in enumerate(e.sentences):
        view.hover(view.one(f".sentence[data-k='{k}']"))
        assert lit("#answer-sources button") == sorted(s.sources)
        assert lit(".sentence") == [k]
        shares = view.each("#answer-sources button", strength)
        rest = [t for i, t in enumerate(shares) if i not in s.sources]
        assert min([shares[i] for i in s.sources], default=1.0) > 0.8
        assert max(rest) < 0.2
    for i in range(len(e)):
        view.hover(view.one(f"#answer-sources button[data-k='{i}']"))
        assert lit(".sentence") == [k for k, s in enumerate(e.sentences) if i in s.sources]
        assert view.one(f'.unit[data-i="{i}"]').get_attribute("class").split()[-1] == "on"
    assert view.texts("#answer-said") == ["No sentence rests on [6]."]
    view.hover(view.one("#text-title"))
    assert not lit(".sentence")
    view.unit(3).click()  # removed from all sentences
    gone = [i != 3 for i in range(len(e))]
    bob = e.sentences[1]
    view.one(".sentence[data-k='1']").click()
    assert number(view.one("#score").text) == pytest.approx(bob.score, abs=1e-3)
    assert number(view.one("#now").text) == pytest.approx(float(bob.predict(gone)), abs=1e-3)
    assert lit("#answer-sources button") == [3, 4]
    full = bob.explanation.full_effect("shapley")
    colours = np.clip(bob.explanation.scores("shapley") / full, -1, 1)
    assert view.each("#text .unit", strength) == pytest.approx(np.abs(colours), abs=2e-3)
    view.press(Keys.ESCAPE)
    assert number(view.one("#score").text) == pytest.approx(e.score, abs=1e-3)
    assert number(view.one("#now").text) == pytest.approx(float(e.predict(gone)), abs=1e-3)
    view.press(Keys.ENTER)  # the sentence has the focus
    assert view.one(".sentence[data-k='1']").get_attribute("aria-pressed") == "true"


def test_a_word_of_an_answer_lights_its_sources_by_mouse_and_keys(view):
    _, e = words_explained()
    view.open([e])
    listed = "#answer-sources button.on"
    for k, s in enumerate(e.sentences):
        for w, word in enumerate(s.words):
            view.hover(view.one(f".sentence[data-k='{k}'] .word[data-w='{w}']"))
            assert [int(i) for i in view.each(listed, "e.dataset.k")] == sorted(word.sources)
            assert view.texts(".word.on") == [word.text]
            assert view.texts("#answer-said")[0].startswith(f"“{word.text}” rests on ")
    assert view.texts(".word.rests") == [word.text for s in e.sentences for word in s.words if word.sources]
    view.hover(view.one("#text-title"))
    assert not view.texts(".word.on")
    view.js("document.querySelector(`.sentence[data-k='1']`).focus()")
    assert view.texts("#answer-said")[0].startswith("Sentence 2 rests on ")
    words = [word.text for word in e.sentences[1].words]
    for key, lit in ((Keys.ARROW_RIGHT, words[0]), (Keys.ARROW_RIGHT, words[1]), (Keys.ARROW_LEFT, words[0])):
        view.press(key)
        assert view.texts(".word.on") == [lit]
    view.press(Keys.ARROW_LEFT)  # the sentence again
    assert not view.texts(".word.on")
    assert [int(i) for i in view.each(listed, "e.dataset.k")] == sorted(e.sentences[1].sources)
    view.js("document.querySelector('#answer-text').dir = 'rtl'")
    view.press(Keys.ARROW_LEFT)  # onwards, from right to left
    assert view.texts(".word.on") == words[:1]
    view.hover(view.one("#answer-sources button"))
    assert not view.texts(".word.on"), "what lights up is about the source"
    assert view.texts(listed)[0].startswith("[1]")


def test_a_click_removes_a_word_and_the_prediction_follows(view):
    e = with_parts(random_explanation())
    view.open([e])
    keep = np.ones(len(e))
    for i in (3, 7, 3):
        view.unit(i).click()
        keep[i] = 1 - keep[i]
        assert number(view.one("#now").text) == pytest.approx(float(e.predict(keep)), abs=6e-4)
        assert view.one("#now-probability").text == f"{100 * expit(float(e.predict(keep))):.1f} %"
        assert view.each(".unit", "e.getAttribute('aria-pressed') === 'false'") == keep.astype(bool).tolist()
    assert "line-through" in view.unit(7).value_of_css_property("text-decoration")
    assert all("gone" in view.one(f'{part}[data-i="7"]').get_attribute("class") for part in ("circle", "tr"))
    view.one("#restore").click()
    assert view.js("return slalom.state.keep") == [1] * len(e)
    assert not view.one("#restore").is_enabled()
    alone = random_explanation(n=1)
    view.open([alone])
    view.unit(0).click()  # nothing is left
    assert number(view.one("#now").text) == pytest.approx(alone.base, abs=6e-4)


def test_text_scatter_and_table_are_linked_by_hover(view):
    e = fitted()
    view.open([e])
    (i,) = e.strongest(1)
    view.hover(view.unit(i))
    assert view.linked() == [i, i, i]
    tip = view.one("#tip")
    assert tip.is_displayed()
    assert e.units[i] in tip.text
    assert "Removal" in tip.text
    view.hover(view.one(f'circle[data-i="{i}"]'))
    assert view.linked() == [i, i, i]
    row = view.all("tbody tr[data-i]")[2]
    view.hover(row)
    assert view.linked() == [int(row.get_attribute("data-i"))] * 3
    view.hover(view.one("#facts-title"))
    assert view.linked() == [None, None, None]
    assert not tip.is_displayed()


def test_everything_works_with_the_keyboard(view):
    e = random_explanation()
    view.open([e])
    view.js("document.querySelector('.unit').focus()")
    view.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert view.linked() == [2, 2, 2]
    assert view.js("return document.activeElement.getAttribute('aria-describedby')") == "tip"
    view.press(Keys.SPACE, Keys.ARROW_LEFT, Keys.ENTER)
    keep = np.ones(len(e))
    keep[[1, 2]] = 0
    assert view.js("return slalom.state.keep") == keep.tolist()
    assert number(view.one("#now").text) == pytest.approx(float(e.predict(keep)), abs=6e-4)
    assert view.one("#tip").is_displayed()
    view.press(Keys.ESCAPE)
    assert not view.one("#tip").is_displayed()
    assert view.js("return document.querySelectorAll('.unit[tabindex=\"0\"]').length") == 1

    view.js("document.querySelector('circle[tabindex=\"0\"]').focus()")
    by_value = np.argsort(e.values, kind="stable")
    assert view.linked() == [by_value[0]] * 3
    view.press(Keys.ARROW_RIGHT)
    assert view.linked() == [by_value[1]] * 3

    view.js("document.querySelector('thead th:nth-child(2) button').focus()")
    view.press(Keys.ENTER)
    assert view.one("thead th:nth-child(2)").get_attribute("aria-sort") == "descending"  # by strength before
    view.js("document.querySelector('tbody tr[tabindex=\"0\"]').focus()")
    at = view.linked()[2]
    view.press(Keys.ARROW_DOWN)
    ranks = np.argsort(-e.removal, kind="stable").tolist()
    assert view.linked() == [ranks[ranks.index(at) + 1]] * 3


def rows(view):
    return view.js(f"return {ROWS}.map(r => Number(r.dataset.i))")


def test_sorting_sorts(view):
    e = with_errors(fitted())
    view.open([e])
    names = view.each("#table thead button", "e.textContent")
    assert names == ["Unit", *(SCORES[name].label for name in LISTED)]
    assert view.one("#table thead th:nth-child(2)").get_attribute("aria-sort") == "other"
    assert rows(view) == e.strongest(len(e))  # by strength of effect, whatever its sign
    view.js("document.querySelector('#table thead button').click()")
    assert rows(view) == list(range(len(e)))
    for name in ("removal", "value", "shapley", "importance"):
        head = view.one(f"#table thead th:nth-child({names.index(SCORES[name].label) + 1})")
        numbers = np.array([float(f"{x:.6g}") for x in e.scores(name)])
        ways = {"descending": -numbers, "ascending": numbers}
        if name != "importance":
            ways = {"other": -np.abs(numbers)} | ways
        for way, ranked in ways.items():
            view.js("arguments[0].click()", head.find_element(By.TAG_NAME, "button"))
            assert head.get_attribute("aria-sort") == way
            assert rows(view) == np.argsort(ranked, kind="stable").tolist(), (name, way)
    saturated = random_explanation()
    saturated = replace(saturated, measured={}, score=500.0)
    ranked = np.argsort(-np.abs(saturated.shapley()), kind="stable").tolist()
    assert saturated.saturated
    assert ranked != saturated.strongest(len(saturated))
    view.open([saturated, fitted(), saturated])
    assert rows(view) == ranked
    assert view.one("#table thead th[aria-sort]").text.split()[0] == "Shapley"
    view.one("#next").click()
    assert rows(view) == fitted().strongest(len(fitted()))  # each text by its own score
    view.js("document.querySelectorAll('#table thead button')[1].click()")  # from here on by the removal, from the highest
    view.one("#next").click()
    assert rows(view) == np.argsort(-saturated.removal, kind="stable").tolist()


def test_numbers_and_intervals_on_the_page_are_those_of_python(view):
    for e, target in ((with_errors(fitted()), None), (with_errors(random_explanation(classes=3)), 1)):
        view.open([e])
        if target is not None:
            view.choose(target)
        cells = view.js(
            f"return {ROWS}.map(r => [Number(r.dataset.i),"
            " [...r.querySelectorAll('td')].map(c => [c.textContent, c.classList.contains('doubt')])])"
        )
        assert len(cells) == len(e)
        view.hover(view.unit(0))
        tip = view.tip()
        assert "± 95% interval" in view.one("#tip p").text
        for at, name in enumerate(LISTED):
            if name == "weight":
                continue
            scores, half = e.scores(name, target), np.diff(e.interval(name, target=target), axis=1)[:, 0] / 2
            certain = e.certain(name=name, target=target)
            unit = 10.0 ** (np.floor(np.log10(np.abs(scores).max())) - 2)  # of the last digit
            for i, row in cells:
                shown, within = plus_minus(row[at][0])
                assert shown == pytest.approx(scores[i], abs=0.51 * unit)
                assert within == (
                    pytest.approx(half[i], abs=0.51 * unit) if name in ("removal", "linear", "value", "importance") else None
                )
                assert row[at][1] == (name != "importance" and not certain[i])
            said = pytest.approx((scores[0], half[0]), abs=0.006 * max(half[0], abs(scores[0])))
            assert plus_minus(tip[name.capitalize()]) == said
    view.open([in_order(["so", "good", "so", "bad"], [1.0, 3.0, 2.0, -2.0], [0.0, 0.1, 0.2, 0.3])])
    names = dict(view.js(f"return {ROWS}.map(r => [r.dataset.i, r.querySelector('th').textContent])"))
    assert [names[str(i)] for i in range(4)] == ["so (1)", "good", "so (2)", "bad"]


def test_bars_in_the_table_have_whiskers_where_the_intervals_are(view):
    e = with_errors(fitted())
    view.open([e])
    drawn = view.js(
        "return [...document.querySelectorAll('#table tbody tr[data-i]')].map(r => [Number(r.dataset.i),"
        " ...['.zero', '.stem', '.whisker'].map(c => r.querySelector('.mini ' + c)).map(p => [parseFloat(p.style.left),"
        " parseFloat(p.style.width), p.className])])"
    )
    low, high = e.interval().T
    bars = np.append(e.removal, 0.0)
    reach = 0.5 * np.ptp(bars)
    ends = np.clip([low, high], bars.min() - reach, bars.max() + reach)
    start, span = min(ends.min(), bars.min()), np.ptp(np.append(ends, bars))
    for i, (zero, _, _), (left, width, kind), (whisker, length, _) in drawn:
        assert zero == pytest.approx(100 * -start / span, abs=0.02)
        assert left == pytest.approx(100 * (min(e.removal[i], 0) - start) / span, abs=0.02)
        assert width == pytest.approx(100 * abs(e.removal[i]) / span, abs=0.02)
        assert whisker == pytest.approx(100 * (ends[0, i] - start) / span, abs=0.02)
        assert length == pytest.approx(100 * (ends[1, i] - ends[0, i]) / span, abs=0.02)
        assert ("unsure" in kind) == (not e.certain()[i])
        assert ("against" in kind) == (e.removal[i] < 0)
    exact = fitted()
    exact = with_se(exact, removal=None, value=None, importance=None)
    view.open([exact])
    assert len(view.all("#table .stem")) == len(exact)
    assert not view.all("#table .whisker, #table .unsure")


def test_units_that_are_not_distinguishable_from_zero_are_hatched_with_a_legend(view):
    e = with_errors(fitted())
    view.open([e])
    for name in ("removal", "shapley", "value"):
        view.score(name)
        hatched = view.js("return slalom.state.spans.map(s => s.classList.contains('unsure'))")
        assert hatched == (~e.certain(name=name)).tolist()
        assert any(hatched)
        assert "not distinguishable from zero" in view.one("#legend").text
    assert "grey numbers" in view.one("#table-se").text
    view.score("importance")
    assert not view.all(".unit.unsure")
    assert "not distinguishable from zero" not in view.one("#legend").text
    e = random_explanation()
    sure = with_se(e, **{name: np.full(len(e), 1e-9) for name in ("removal", "linear", "gradient", "shapley", "value")})
    view.open([sure])
    assert not view.all(".unsure:not(.help *)")
    assert not view.one("#table-doubt").is_displayed()
    assert view.one("#table-se").is_displayed()


def test_the_scatter_has_all_units_with_intervals(view):
    values, se = np.array([-8.4, 16.1, 1.0, -2.3]), np.array([0.6, 6.0, 2.0, 70.0])
    e = in_order(["dull", "best", "things", "half"], values, [3.9, 2.0, 1.1, 0.8], se=se)
    view.open([with_se(e, importance=np.full(4, 0.3))])
    frame = charts.View(e, None).frame()
    pad = 0.08 * (frame.x[1] - frame.x[0])
    low, high = frame.x[0] - pad, frame.x[1] + pad
    left, right = next(
        (x, x + w)
        for x, w in view.each(".grid line:not(.zero)", "[e.getBoundingClientRect().x, e.getBoundingClientRect().width]")
        if w > 50
    )

    def at(x):
        return left + (x - low) / (high - low) * (right - left)

    box = "e.getBoundingClientRect()"
    for i, x in view.each(".dots [data-i]", f"[Number(e.dataset.i), {box}.x + {box}.width / 2]"):
        assert x == pytest.approx(at(values[i]), abs=1)
    for cross, v, error in zip(view.each(".crosses path", f"[{box}.left, {box}.right]"), values, se, strict=True):
        assert cross == pytest.approx(np.clip(at(v + NORMAL_95 * error * np.array([-1, 1])), left, right), abs=1)
    assert view.one("#scatter-within").is_displayed()
    assert {"dull", "best"} <= set(view.each(".labels text", "e.textContent"))


def test_the_models_own_answers_are_marked(view):
    view.open([fitted()])
    assert view.one("#headline").text.startswith(fitted().prediction[0])
    cells = view.each("#table td:nth-child(2)", "e.textContent")
    assert sum("asked" in cell for cell in cells) == np.isfinite(fitted().measured["removal"]).sum() > 0
    assert "asked are the model's own answers" in view.one("#table-se").text


def test_the_unit_that_is_looked_at_stays_so_when_the_window_is_resized(view):
    for focus in (True, False):
        view.width(1280)
        view.open([fitted()])
        if focus:
            view.js("document.querySelector('.dots [data-i=\"1\"]').focus()")
        else:
            view.hover(view.unit(1))
        assert view.linked() == [1, 1, 1]
        before = view.one("#scatter svg").get_attribute("width")
        view.width(1100)
        view.until("return document.querySelector('#scatter svg').getAttribute('width') !== arguments[0]", before)
        view.until("return document.querySelector('.ring').dataset.i === '1'")
        if focus:
            view.until('return document.activeElement === document.querySelector(\'.dots [data-i="1"][tabindex="0"]\')')
            assert view.linked() == [1, 1, 1]


def test_units_that_act_together_have_a_card_where_there_are_any(view):
    effects, errors = np.array([1.0, -3.0, 2.0]), np.array([0.1, 0.2, 0.3])
    view.open([with_pairs(random_explanation(classes=3), [((0, 1), effects, errors)])])
    view.choose(1)
    assert plus_minus(view.one("#pairs td").text) == pytest.approx((-3.0, NORMAL_95 * 0.2), abs=0.005)
    e = in_order(["not", "good", "so", "so"], [-1.0, 3.0, 1.0, 2.0], np.zeros(4))
    view.open([with_pairs(e, [((2, 1), 0.5, 0.1), ((0, 1), -2.04, 0.4), ((1, 3), 0.1, 0.2)])])
    assert view.one("#pairs-title").text == "Words that act together"
    assert view.texts("#pairs .name") == ["not + good", "so (1) + good", "good + so (2)"]
    cells = [plus_minus(text) for text in view.texts("#pairs td")]
    half = 100 * NORMAL_95 * np.array([0.4, 0.1, 0.2])
    assert np.allclose(cells, np.stack([[-2.04, 0.5, 0.1], half.round() / 100], axis=1))
    kinds = view.each("#pairs .stem", "e.className")
    assert [("unsure" in kind, "against" in kind) for kind in kinds] == [(False, True), (False, False), (True, False)]
    view.hover(view.one("#pairs tr"))
    assert view.each(".unit.on", "Number(e.dataset.i)") == [0, 1]
    view.open([e])
    assert not view.one("#pairs-card").is_displayed()


def test_the_prediction_has_an_interval_between_the_knots_of_its_errors(view):
    knots = [(0, 0.1), (2, 0.5), (5, 0.8)]
    e = replace(random_explanation(n=6), spread=Spread(*(np.array(part, dtype=float) for part in zip(*knots, strict=True))))
    e = with_se(e, removal=np.array([0.01, 0.3, 0.01, 2.0, 0.01, 0.01]))
    view.open([e])
    keep = np.ones(6, dtype=bool)
    for i in range(6):
        view.unit(i).click()
        keep[i] = False
        expected, now = float(np.diff(e.predict_interval(keep))[0]) / 2, float(e.predict(keep))
        assert plus_minus(view.one("#now-within").text.replace("±", "0 ±"))[1] == pytest.approx(expected, abs=6e-4)
        left, width = view.js(
            "return ['left', 'width'].map(side => parseFloat(document.querySelector('.track .whisker').style[side]))"
        )
        assert (left, left + width) == pytest.approx((100 * expit(now - expected), 100 * expit(now + expected)), abs=0.01)
    assert "the whisker" in view.one("#bars-help").text
    several = random_explanation(n=4, classes=2)
    view.open([replace(several, spread=Spread(np.array([0.0, 9.0]), np.array([[0.1, 0.3], [0.2, 0.9]])))])
    view.choose(1)
    assert view.one("#now-within").text == f"± {NORMAL_95 * 0.3:.3f}"
    assert not view.all(".track .whisker")
    view.open([several])
    assert not view.all("#now-within")


def test_the_chosen_score_colours_the_text(view):
    e = replace(fitted())
    full = 2 * np.abs(e.removal).max()
    object.__setattr__(e, "full_effect", lambda name, target: full if name == "removal" else np.abs(e.scores(name)).max())
    view.open([e])
    washes = "return slalom.state.spans.map(s => [s.className.replace('unit','').trim(), +s.style.getPropertyValue('--t')])"
    for name in ("removal", "shapley", "value"):
        view.score(name)
        for (side, share), x in zip(view.js(washes), e.scores(name), strict=True):
            assert ("against" if x < 0 else "for") in side.split()
            assert share == pytest.approx(abs(x) / e.full_effect(name, None), abs=1e-3)
    i = int(np.argmax(np.abs(e.values)))
    strongest = view.unit(i).value_of_css_property("background-color")
    assert strongest == ("rgba(33, 102, 172, 0.6)" if e.values[i] > 0 else "rgba(217, 95, 2, 0.6)")
    view.score("importance")
    assert {side for side, _ in view.js(washes)} == {"neutral"}
    assert np.argmax([share for _, share in view.js(washes)]) == np.argmax(e.importances)
    assert "louder" in view.one("#legend").text
    view.file.write_text(page([e]).replace('"initial_score":"removal"', '"initial_score":"shapley"'), encoding="utf-8")
    view.driver.get(view.file.as_uri())  # a text names the score to open on
    assert view.js("return slalom.state.score") == "shapley"
    assert view.one("#strongest-title").text == "Strongest by shapley"


def test_scores_without_a_sign_have_one_colour_and_predict_nothing(view):
    e = random_explanation(additive=True)
    effects = np.abs(e.values)
    e = replace(e, surrogate=Additive(effects, 0.0), method="attention", signed=False)
    view.open([e, fitted()])
    colours = view.each(".unit", "getComputedStyle(e).backgroundColor")
    assert {colour.rsplit(",", 1)[0] for colour in colours} == {"rgba(118, 81, 160"}
    shares = view.js("return slalom.state.spans.map(s => +s.style.getPropertyValue('--t'))")
    assert np.allclose(shares, effects / effects.max(), atol=1e-3)
    assert "neither for nor against" in view.one("#legend").text
    assert not view.all("#table .plus, #table .minus")
    assert view.each("thead button", "e.textContent") == ["Unit", "Score"]
    assert "+" not in view.one("#table tbody").text
    assert not view.one("#live").is_displayed()
    view.unit(0).click()
    assert view.js("return slalom.state.keep[0]") == 1
    view.one("#next").click()  # the next text has signs
    assert view.one("#live").is_displayed()
    assert len(view.all("#scores input")) == len(LISTED)


def test_several_classes_are_seen_at_a_glance_with_a_selector_and_all_probabilities(view):
    e = with_errors(random_explanation(n=14, classes=3))
    view.open([e])
    columns = np.argsort(-e.score, kind="stable")
    assert view.one("#class").get_attribute("value") == str(columns[0])
    assert view.each("#classes thead bdi", "e.textContent") == [e.labels[c] for c in columns]
    cells = "[...e.querySelectorAll('td span')].map(s => [s.textContent, s.className, +s.style.getPropertyValue('--t')])"
    shown = view.each("#classes tr[data-i]", f"[Number(e.dataset.i), {cells}]")
    sizes = np.abs(e.removal).max(axis=1)
    assert [i for i, _ in shown] == np.argsort(-sizes, kind="stable")[:10].tolist()
    unit = 10.0 ** (np.floor(np.log10(sizes.max())) - 2)
    for i, row in shown:
        for c, (text, side, strength) in zip(columns, row, strict=True):
            assert number(text) == pytest.approx(e.removal[i, c], abs=0.51 * unit)
            assert ("against" in side, "unsure" in side) == (e.removal[i, c] < 0, not e.certain(target=int(c))[i])
            assert strength == pytest.approx(abs(e.removal[i, c]) / sizes.max(), abs=1e-3)
    view.js(f"document.querySelector('#classes [data-c=\"{columns[2]}\"]').click()")
    assert view.one("#class").get_attribute("value") == str(columns[2])
    assert number(view.one("#score").text) == pytest.approx(e.score[columns[2]], abs=1e-3)
    view.unit(0).click()
    now = e.predict(np.arange(14) > 0)
    assert number(view.one("#now").text) == pytest.approx(now[columns[2]], abs=6e-4)
    shares = dict(view.each(".prob", "[e.querySelector('.label').innerText, e.querySelector('.share').innerText]"))
    assert shares == {label: f"{100 * p:.1f} %" for label, p in zip(e.labels, softmax(now), strict=True)}
    view.open([fitted()])
    assert not view.one("#classes-card").is_displayed()


def test_the_strongest_units_have_bars_beside_the_text(view):
    e = with_errors(fitted())
    view.open([e])
    for name in ("removal", "value"):
        view.score(name)
        scores, interval = e.scores(name), e.interval(name)
        half = np.diff(interval, axis=1)[:, 0] / 2
        sizes = np.abs(scores)
        rows = view.js(
            "return [...document.querySelectorAll('#strongest li')].map(r => [Number(r.dataset.i),"
            " r.querySelector('.number').textContent])"
        )
        assert [i for i, _ in rows] == np.argsort(-sizes, kind="stable")[:8].tolist()[: len(rows)]
        unit = 10.0 ** (np.floor(np.log10(np.abs(scores).max())) - 2)
        for i, text in rows:
            assert plus_minus(text) == pytest.approx((scores[i], half[i]), abs=0.51 * unit)
        assert view.one("#strongest-title").text == f"Strongest by {name}"
        assert len(view.all("#strongest .whisker")) == len(rows)
    (i,) = e.strongest(1)
    view.score("removal")
    view.hover(view.one(f'#strongest [data-i="{i}"]'))
    assert view.linked() == [i, i, i]
    view.one(f'#strongest [data-i="{i}"]').click()
    assert view.js("return slalom.state.keep[arguments[0]]", i) == 0


def sums_of(view):
    """What each block of a field says: name, removal that was asked, sum of Shapley values."""
    blocks = view.each(
        ".field", "[e.querySelector('.caption').textContent, ...[...e.querySelectorAll('.sums b')].map(b => b.textContent)]"
    )
    return [(name, number(removal), number(shapley)) for name, removal, shapley in blocks]


def test_fields_are_blocks_with_the_sums_of_python(view):
    for e, column in ((film_record(), None), (film_record("all"), 0), (film_record("all"), 2)):
        view.open([e])
        if column is not None:
            view.choose(column)
        expected = [(f.name, *(float(np.ravel(x)[column or 0]) for x in (f.removal, f.shapley))) for f in e.fields]
        for shown, (name, *effects) in zip(sums_of(view), expected, strict=True):
            assert shown[0] == name
            assert shown[1:] == pytest.approx(effects, abs=6e-3)
        sides = view.each(".sums .stem", "e.classList.contains('against')")
        assert sides == [x < 0 for _, *effects in expected for x in effects]
        assert view.each(".value", "e.textContent") == [str(field.value) for field in e.record.fields]
        assert not view.all("#text b b, .caption b")
    assert all("asked" in text for text in view.texts(".sums > span:first-child"))
    assert view.one("#field-help").is_displayed()
    view.width(390)
    assert view.js("return document.documentElement.scrollWidth") <= 390
    view.open([fitted()])
    assert not view.all(".field, .caption")
    assert not view.one("#field-help").is_displayed()


def test_a_click_on_the_name_of_a_field_removes_it(view):
    e = film_record()
    view.open([e])
    (first, *_), (caption, *_) = (view.all(selector) for selector in (".unit", ".caption"))
    keep = np.ones(len(e))
    for element, removed in (
        (caption, e.fields[0].units),
        (caption, ()),
        (first, (0,)),
        (caption, e.fields[0].units),
        (first, (1, 2)),
    ):
        element.click()
        keep[:] = 1
        keep[list(removed)] = 0
        assert view.js("return slalom.state.keep") == keep.tolist()
        assert number(view.one("#now").text) == pytest.approx(float(e.predict(keep)), abs=6e-4)
        assert (caption.get_attribute("aria-pressed") == "true") == (len(removed) == 3)
    caption.send_keys(Keys.ENTER)
    assert view.js("return slalom.state.keep") == (~np.isin(np.arange(len(e)), e.fields[0].units)).astype(int).tolist()


def test_axe_finds_nothing_wrong(view, axe):
    view.open([film_record("all")])
    assert axe(view.driver) == []
    view.open([with_errors(fitted())])
    view.unit(0).click()
    view.hover(view.unit(1))
    assert axe(view.driver) == []
    view.open(Explanations([fitted_classes(), fitted(), Failure(2, MARKUP, "InputError: empty")]))
    assert axe(view.driver) == []
    view.prefer("dark")
    view.open([fitted_classes(), fitted()])
    assert axe(view.driver, "color-contrast") == []


def test_no_text_can_run(view):
    view.open(Explanations([full_of_markup(), Failure(1, MARKUP, "InputError: <i>empty</i>"), fitted()]))
    for name in ("shapley", "removal"):
        view.score(name)
    view.hover(view.unit(1))
    view.unit(1).click()
    view.one("#failed").click()
    assert "2. </script>" in view.one("#failures dt").text
    assert view.one("#failures dd").text == "InputError: <i>empty</i>"
    assert not view.all("img, main script, nav script")
    assert view.js("return window.hacked") is None
    assert view.js("return document.getElementById('text').textContent") == MARKUP
    view.driver.switch_to.default_content()  # an alert would raise here


def test_an_index_leads_to_every_text_and_finds_them_by_their_words(view):
    texts = ["good film, bad end " + "and so on " * 30 + "Zebra", "dull dull film", "a good good song", "bad\nand dull"]
    explanations = Explanations([fitted(text) for text in texts])
    view.open(explanations, "#text-3")
    shown = "return document.getElementById('text').textContent"
    assert view.js(shown) == texts[2]
    links = view.all("#index-list a")
    previews = (
        "[...e.querySelectorAll('.preview span')].map(s => [s.textContent, s.className, +s.style.getPropertyValue('--t')])"
    )
    for e, said, score, parts in zip(
        explanations,
        view.texts("#index-list a"),
        view.texts("#index-list .score"),
        view.each("#index-list a", previews),
        strict=True,
    ):
        assert e.prediction[0] in said
        assert number(score) == pytest.approx(e.score, abs=6e-3)
        assert " ".join(e.text.split())[:12] in said
        assert parts
        for name, side, strength in parts:
            i = e.units.index(name)
            assert ("against" in side) == (e.removal[i] < 0)
            assert strength == pytest.approx(abs(e.removal[i]) / e.full_effect(), abs=0.02)
    links[1].click()
    view.until(f"{shown} === arguments[0]", texts[1])
    assert view.driver.current_url.endswith("#text-2")
    assert [link.get_attribute("aria-current") for link in links] == [None, "true", None, None]
    view.unit(0).click()
    view.js(
        "document.querySelector('#next').click(); document.querySelector('#next').click()"
    )  # faster than the address changes
    assert view.js(shown) == texts[3]
    assert not view.one("#next").is_enabled()
    view.one("#previous").click()
    view.one("#previous").click()
    assert view.js("return slalom.state.keep[0]") == 0  # it remembers what was removed
    view.driver.back()
    view.until(f"{shown} === arguments[0]", texts[2])
    search = view.one("#search")
    for query, matches, said in (("ZEBRA", [0], "1 of 4"), ("dull", [1, 3], "2 of 4"), ("xyz", [], "No text has these words.")):
        search.clear()
        search.send_keys(query)
        assert [k for k, item in enumerate(view.all("#index-list li")) if item.is_displayed()] == matches
        assert view.one("#found").text == said
    view.open(explanations, "#text-99")
    assert view.js(shown) == texts[0]


def test_odd_texts_are_shown_whole(view):
    odd = ["שלום! עולם טוב", "one\r\ntwo! \r\n\r\nthree\rfour", "👍🏽 👩‍👩‍👧! é", "  ! \t\n", "a \ud83d b!"]
    explain = Explainer(lambda texts: [float(t.count("!")) for t in texts], output="log_odds", queries=30)
    view.open([explain(text) for text in odd])
    assert view.one("#text").value_of_css_property("direction") == "rtl"
    for text in odd:
        shown = json.loads(view.js("return JSON.stringify(document.getElementById('text').textContent)"))
        assert shown == text.replace("\r\n", "\n").replace("\r", "\n")
        view.js("document.querySelector('#next').click()")
    e = explain("one two three!")
    view.open([replace(e, spans=np.array([[0, 3], [0, 3], [5, 5], [4, 13]][: len(e)]))])
    widths = view.each(".unit", "e.offsetWidth")
    assert len(widths) == len(e)
    assert min(widths) > 0
    assert view.js("return document.getElementById('text').textContent") == e.text


def test_the_theme_is_the_systems_until_the_button_says_otherwise(view):
    theme = "return document.documentElement.dataset.theme"
    view.prefer("dark")
    view.open([random_explanation(n=400, link=False)])
    assert view.js(theme) == "dark"
    view.prefer("light")
    view.until(f"{theme} === 'light'")
    view.one("#theme").click()
    assert view.js(theme) == "dark"
    view.js("window.dispatchEvent(new Event('beforeprint'))")  # on paper it is light, and has every row
    assert view.js(theme) == "light"
    assert len(rows(view)) == 400
    view.js("window.dispatchEvent(new Event('afterprint'))")
    assert view.js(theme) == "dark"
    assert len(rows(view)) < 200


def test_on_every_width_nothing_overlaps_or_sticks_out_and_the_chosen_score_is_in_the_table(view):
    for width in (360, 800, 1280):
        view.width(width)
        view.open([random_explanation(n=60, link=False, seed=3), random_explanation(n=5, classes=3)])
        for score in ("removal", "value", "shapley"):
            view.js("document.querySelector(`.switch input[value=${arguments[0]}]`).click()", score)
            assert view.js("const t = document.querySelector('.scroll'); return t.scrollWidth - t.clientWidth") == 0
            shown = [head.lower() for head, w in view.each(".scroll thead th", "[e.textContent, e.offsetWidth]") if w]
            cells = view.js(
                "return [...document.querySelector('.scroll tr[data-i]').children].filter(c => c.offsetWidth).length"
            )
            assert len(shown) == cells
            assert shown[:2] == ["unit", "removal"]
            assert any(score in head for head in shown)
            assert (len(shown) <= 3) == (width < 840)
        for _ in range(2):
            assert view.js("return document.documentElement.scrollWidth") <= width
            box = "(b => [b.left, b.top, b.right, b.bottom])(e.getBoundingClientRect())"
            boxes = view.each(".labels text", box)
            assert boxes
            for i, a in enumerate(boxes):
                for b in boxes[:i]:
                    assert min(a[2], b[2]) - max(a[0], b[0]) < 3 or min(a[3], b[3]) - max(a[1], b[1]) < 3
            view.js("document.querySelector('#next').click()")


def test_of_long_texts_only_the_rows_in_sight_are_drawn(view):
    view.open([random_explanation(n=3000, link=False)])
    assert len(rows(view)) < 100
    assert view.js("return document.querySelectorAll('circle[data-i]').length") == 3000
    view.js("document.querySelectorAll('.unit')[2321].dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))")
    view.until("return document.querySelector('tbody tr.on')?.dataset.i === '2321'")  # the table scrolls to it
    assert view.linked() == [2321] * 3


def test_the_page_of_a_comparison_is_light_and_dark(view):
    records = [record(text, name, 100, near) for text in (0, 1) for name, near in (("joint", 0.1), ("lime", 0.4))]
    compared(records, ("near", "queries", "seconds")).to_html(view.file)
    for theme in THEMES.values():
        view.prefer(theme.name)
        view.driver.get(view.file.as_uri())
        colour, widths, source = view.js(
            "const images = [...document.images]; return [getComputedStyle(document.body).backgroundColor,"
            " images.map((image) => image.naturalWidth), images[0].currentSrc]"
        )
        assert colour == f"rgb({', '.join(str(round(255 * part)) for part in theme.page)})"
        assert len(widths) == 3
        assert min(widths) > 300
        assert hexadecimal(theme.paper) in base64.b64decode(source.partition(",")[2]).decode()
        assert view.js("return document.documentElement.scrollWidth <= innerWidth")
