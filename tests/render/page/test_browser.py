"""The page in a real browser: what it predicts, how its parts are linked, that no text can run as code."""

import json
from dataclasses import replace
from functools import partial
from itertools import product

import numpy as np
import pytest
from scipy.special import expit, softmax
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from slalom import Explainer, Explanations
from slalom.core import Additive, Linear, Slalom
from slalom.methods import SurrogateMethod
from slalom.render import charts
from slalom.render.page import page
from slalom.result import NORMAL_95, SCORES, Failure, Spread
from slalom.text import Scales
from slalom.theory.oracle import Oracle
from tests.cases import cases
from tests.factories import (
    MARKUP,
    fitted,
    fitted_classes,
    full_of_markup,
    in_order,
    random_explanation,
    with_errors,
    with_pairs,
    with_se,
    with_shifts,
)
from tests.web.opened import Opened


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

    def texts(self, selector):
        return [" ".join(element.text.split()) for element in self.all(selector)]

    def unit(self, i):
        return self.one(f'.unit[data-i="{i}"]')

    def score(self, name):
        self.one(f'input[value="{name}"]').click()

    def hover(self, element):
        self.js("arguments[0].scrollIntoView({block: 'center'})", element)
        ActionChains(self.driver).move_to_element(element).perform()

    def press(self, *keys):
        actions = ActionChains(self.driver)
        for key in keys:
            actions.send_keys(key)
        actions.perform()

    def width(self, pixels):
        size = {"width": pixels, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

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
    problems = [entry for entry in browser.get_log("browser") if "favicon" not in entry["message"]]
    assert not problems


def number(text):
    return float(text.replace("−", "-").replace("+", ""))


def far_apart():
    e = random_explanation()
    return replace(e, surrogate=Slalom(e.values, 300 * e.importances))


def merged(**kind):
    """Three words as one unit each, of several tokens."""
    e = random_explanation(unit="token", **kind)
    spans = e.spans.copy()
    spans[1::3, 0] -= 1  # every third word is glued to the one before
    return replace(e, spans=spans).merge("word")


def typed(method, **options):
    """Equal tokens share their parameters."""
    text = "good bad good film bad good end end"
    weights = {"good": 2.0, "bad": -3.0, "film": 0.5}
    model = Oracle(weights, {"bad": 1.0}, (0.1, 0.5))
    return Explainer(model, output="log_odds", queries=80, method=method, unit="type", progress=False, **options)(text)


PARTS = {
    "plain": {"background": False, "link": False},
    "background": {"link": False},
    "link": {"background": False},
    "background and link": {},
    "additive": {"additive": True},
}
OPTIONS = {
    f"{name}, {classes or 1} classes, lengths {lengths}": {"classes": classes, "lengths": lengths, **parts}
    for name, parts in PARTS.items()
    for classes in (None, 3)
    for lengths in (False, True, "clipped")
}
SURROGATES = {name: partial(random_explanation, **options) for name, options in OPTIONS.items()}
KINDS = SURROGATES | {
    "fitted": fitted,
    "fitted classes": fitted_classes,
    "importances far apart": far_apart,
    "shifts": lambda: with_shifts(random_explanation(lengths=True)),
    "shifts, classes": lambda: with_shifts(random_explanation(classes=3)),
    "shifts, merged": lambda: with_shifts(random_explanation(unit="token")).merge("word"),
    "merged": lambda: fitted().merge("sentence"),
    "merged, lengths": lambda: merged(lengths=True),
    "merged classes": lambda: merged(classes=3, lengths=True),
    "merged additive": lambda: merged(additive=True, lengths=True),
    "typed": lambda: typed("joint"),
    "typed, eff": lambda: typed("eff"),
    "typed, additive": lambda: typed("ridge"),
    "typed, additive, lengths": lambda: typed(SurrogateMethod("ridge with lengths", Scales(), Linear(), lengths=1)),
}


@cases("kind", KINDS)
def test_the_page_predicts_what_python_predicts(view, kind):
    e = KINDS[kind]()
    rng = np.random.default_rng(0)
    keep = rng.random((60, len(e))) < rng.random((60, 1))
    keep[0], keep[1] = True, False
    if e.background is None and not isinstance(e.surrogate, Additive):  # nothing at all has no prediction
        keep[np.arange(60), rng.integers(0, len(e), 60)] = True
    view.open([e])
    predicted = np.array(view.js("return arguments[0].map(keep => slalom.predict(keep))", keep.astype(int).tolist()))
    expected = e.predict(keep)
    assert np.abs(predicted - expected.reshape(len(keep), -1)).max() < 1e-9
    chances = np.array(view.js("return arguments[0].map(slalom.probabilities)", predicted.tolist()))
    assert np.allclose(chances, softmax(expected, axis=1) if expected.ndim == 2 else expit(expected)[:, None], atol=1e-12)
    removed = np.ones(len(e), dtype=bool)
    for i in rng.permutation(len(e))[: len(e) // 2].tolist():  # as a reader does it, one click after the other
        view.js("document.querySelector(`.unit[data-i='${arguments[0]}']`).click()", i)
        removed[i] = False
    shown = view.js("return slalom.predict(slalom.state.keep)")
    assert np.abs(np.array(shown) - np.atleast_1d(e.predict(removed))).max() < 1e-9


def test_the_kinds_cover_every_part_of_a_surrogate():
    parts = {
        (
            type(e.surrogate).__name__,
            e.background is not None,
            e.surrogate.link is not None,
            e.lengths is not None,
            e.values.ndim,
        )
        for e in (make() for make in SURROGATES.values())
    }
    slaloms = set(product(["Slalom"], [False, True], [False, True], [False, True], [1, 2]))
    assert parts == slaloms | set(product(["Additive"], [False], [False], [False, True], [1, 2]))


def test_the_head_says_what_was_predicted(view):
    e = fitted()
    head = view.open([e]).one("#head").text
    label, chance = e.prediction
    assert label in head
    assert f"{100 * chance:.1f} %" in head
    assert e.target in head
    assert number(view.one("#score").text) == pytest.approx(e.score, abs=1e-3)
    assert "R²" in view.one("#facts").text
    assert view.one("nav").is_displayed() is False


def test_a_click_takes_a_word_away_and_the_prediction_follows(view):
    e = random_explanation(lengths=True)
    view.open([e])
    keep = np.ones(len(e))

    def check():
        assert number(view.one("#now").text) == pytest.approx(float(e.predict(keep)), abs=6e-4)
        assert view.one("#now-probability").text == f"{100 * expit(float(e.predict(keep))):.1f} %"
        shown = [unit.get_attribute("aria-pressed") == "false" for unit in view.all(".unit")]
        assert shown == keep.astype(bool).tolist()

    check()
    for i in (3, 7, 3):
        view.unit(i).click()
        keep[i] = 1 - keep[i]
        check()
    assert "line-through" in view.unit(7).value_of_css_property("text-decoration")
    assert "gone" in view.one('circle[data-i="7"]').get_attribute("class")
    assert "gone" in view.one('tr[data-i="7"]').get_attribute("class")
    view.one("#restore").click()
    keep[:] = 1
    check()
    assert not view.one("#restore").is_enabled()


def test_with_nothing_left_it_says_that_nothing_is_defined(view):
    view.open([random_explanation(n=2, background=False)])
    for i in range(2):
        view.unit(i).click()
    assert view.one("#now").text == "not defined"
    assert "NaN" not in view.one("main").text
    view.open([random_explanation(n=1)])
    view.unit(0).click()
    assert number(view.one("#now").text) == pytest.approx(float(random_explanation(n=1).predict([0])), abs=6e-4)


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
    return view.js("return [...document.querySelectorAll('#table tbody tr[data-i]')].map(r => Number(r.dataset.i))")


LISTED = [name for name, score in SCORES.items() if score.listed]


def unknown(e, name, target=None):
    """Which units have a score that is too uncertain to show."""
    return ~e.determined(name, target) if name in ("value", "importance") else np.zeros(len(e), dtype=bool)


def test_sorting_sorts(view):
    e = with_errors(fitted())
    view.open([e])
    signed = {"Removal": e.removal, "Value": e.values, "Linear": e.linear, "Gradient": e.gradient, "Shapley": e.shapley()}
    names = view.js("return [...document.querySelectorAll('#table thead button')].map(b => b.textContent)")
    assert names == ["Unit", *(SCORES[name].label for name in LISTED)]

    def rounded(name, numbers):
        return np.array([float(f"{x:.6g}") for x in numbers])

    def known(name, numbers):
        """The part of a number that is known: what counts where the queries may not determine it."""
        if name not in ("Value", "Linear"):
            return np.abs(numbers)
        low, high = e.interval(name.lower()).T
        return np.abs(numbers) * np.minimum(1, np.abs(numbers) / ((high - low) / 2))

    assert view.one("#table thead th:nth-child(2)").get_attribute("aria-sort") == "other"
    assert rows(view) == e.strongest(len(e))  # by strength of effect, whatever its sign
    view.js("document.querySelector('#table thead button').click()")
    assert rows(view) == list(range(len(e)))
    for name, numbers in (signed | {"Importance": e.importances, "Weight": e.weights}).items():
        head = view.one(f"#table thead th:nth-child({names.index(name) + 1})")
        shown = rounded(name, numbers)
        ways = {"descending": -shown, "ascending": shown}
        if name in signed:
            ways = {"other": -known(name, shown)} | ways
        for way, ranked in ways.items():
            view.js("arguments[0].click()", head.find_element(By.TAG_NAME, "button"))
            assert head.get_attribute("aria-sort") == way
            order = np.argsort(np.where(unknown(e, name.lower()), np.inf, ranked), kind="stable")
            assert rows(view) == order.tolist(), (name, way)
        assert len(view.all("#table thead [aria-sort]")) == 1


def test_the_table_of_a_saturated_text_is_sorted_by_the_score_that_leads(view):
    e = random_explanation()
    e = replace(e, surrogate=Slalom(e.values, e.importances, (9.0, 2.0)), score=500.0)
    assert e.saturated
    assert (ranked := np.argsort(-np.abs(e.shapley()), kind="stable").tolist()) != e.strongest(len(e))
    view.open([e, fitted(), e])
    assert rows(view) == ranked
    assert view.one("#table thead th[aria-sort]").text.split()[0] == "Shapley"
    view.one("#next").click()
    assert rows(view) == fitted().strongest(len(fitted()))  # each text by its own score
    view.js("document.querySelectorAll('#table thead button')[1].click()")  # from here on by the removal, from the highest
    view.one("#next").click()
    assert rows(view) == np.argsort(-e.removal, kind="stable").tolist()


def test_units_of_one_name_are_numbered_in_the_table(view):
    view.open([in_order(["so", "good", "so", "bad"], [1.0, 3.0, 2.0, -2.0], [0.0, 0.1, 0.2, 0.3])])
    names = view.js(
        "return [...document.querySelectorAll('#table tbody th')].map(r => [Number(r.parentNode.dataset.i), r.textContent])"
    )
    assert [name for _, name in sorted(names)] == ["so (1)", "good", "so (2)", "bad"]


def plus_minus(cell):
    """The number and the half interval of a cell such as "+1.2 ± 0.3"."""
    text = cell.split("±")
    return number(text[0]), number(text[1]) if len(text) > 1 else None


@cases("make", [fitted, lambda: random_explanation(classes=3)], ids=["one", "classes"])
def test_numbers_and_intervals_on_the_page_are_those_of_python(view, make):
    e = with_errors(make())
    view.open([e])
    for target in [None] if e.values.ndim == 1 else range(e.values.shape[1]):
        if target is not None:
            view.one(f'#class option[value="{target}"]').click()
        cells = view.js(
            "return [...document.querySelectorAll('#table tbody tr[data-i]')].map(r => [Number(r.dataset.i),"
            " [...r.querySelectorAll('td')].map(c => [c.textContent, c.classList.contains('doubt')])])"
        )
        assert len(cells) == len(e)
        columns = {name: at for at, name in enumerate(LISTED) if name != "weight"}
        for name, at in columns.items():
            scores, interval = e.scores(name, target), e.interval(name, target=target)
            hidden = unknown(e, name, target)
            unit = 10.0 ** (np.floor(np.log10(np.abs(scores[~hidden]).max())) - 2)  # of the last digit
            certain = e.certain(name=name, target=target)
            for i, row in cells:
                if hidden[i]:
                    assert row[at] == ["too uncertain to show", True]
                    continue
                shown, within = plus_minus(row[at][0])
                assert shown == pytest.approx(scores[i], abs=0.51 * unit)
                if name in ("removal", "value", "importance"):
                    assert within == pytest.approx(np.diff(interval[i])[0] / 2, abs=0.51 * unit)
                else:
                    assert within is None
                assert row[at][1] == (name != "importance" and not certain[i])
        view.hover(view.one("#facts-title"))
        view.hover(view.unit(0))
        tip = dict(zip(view.texts("#tip dt"), view.texts("#tip dd"), strict=True))
        for name in columns:
            if unknown(e, name, target)[0]:
                assert tip[name.capitalize()] == "too uncertain to show"
                continue
            shown, within = plus_minus(tip[name.capitalize()])
            half = np.diff(e.interval(name, target=target)[0])[0] / 2
            assert shown == pytest.approx(e.scores(name, target)[0], abs=0.006 * max(half, abs(e.scores(name, target)[0])))
            assert within == pytest.approx(half, abs=0.006 * max(half, abs(e.scores(name, target)[0])))
        assert "± 95% interval" in view.one("#tip p").text


@cases("classes", [None, 3])
def test_what_the_terminal_calls_not_determined_is_so_on_the_page(view, classes):
    wide, loud = np.where(np.arange(6) < 3, 0.1, 90.0), np.array([0.1, 99.0, 0.1, 0.1, 0.1, 0.1])
    se = wide if classes is None else np.tile(wide[:, None], classes)
    e = with_se(random_explanation(6, classes=classes), value=se, importance=loud)
    view.open([e])
    if classes:
        view.one('#class option[value="1"]').click()
    target = 1 if classes else None
    hidden = {name: np.flatnonzero(unknown(e, name, target)).tolist() for name in ("value", "importance")}
    assert hidden == {"value": [3, 4, 5], "importance": [1]}

    def shown(at):
        cells = (
            "[...document.querySelectorAll('#table tbody tr[data-i]')].map(r => [Number(r.dataset.i), r.cells[%d].textContent])"
        )
        return view.js(f"return {cells % at}")

    for at, name in ((1 + LISTED.index(name), name) for name in ("value", "importance")):
        assert sorted(i for i, cell in shown(at) if cell == "too uncertain to show") == hidden[name]
        for _ in range(3 if name == "value" else 2):  # whatever the way, they come last
            view.js(f"document.querySelectorAll('#table thead button')[{at}].click()")
            assert [i for i, _ in shown(at)][-len(hidden[name]) :] == hidden[name]
        view.score(name)
        bars = view.js("return [...document.querySelectorAll('#strongest li')].map(r => Number(r.dataset.i))")
        assert not set(bars) & set(hidden[name])
        assert len(bars) == 6 - len(hidden[name])
    view.hover(view.unit(4))
    tip = dict(zip(view.texts("#tip dt"), view.texts("#tip dd"), strict=True))
    assert tip["Value"] == "too uncertain to show"
    assert "±" in tip["Importance"]
    view.open([with_se(e, value=np.full_like(se, 1e4))])
    view.score("value")
    assert view.one("#strongest-title").text == "Strongest by value: too uncertain to show"


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


def test_units_that_are_not_told_from_zero_are_hatched_with_a_legend(view):
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
    sure = with_se(e, **{name: np.full(len(e), 1e-9) for name in ("removal", "linear", "gradient", "shapley", "value")})
    view.open([sure])
    assert not view.all(".unsure:not(.help *)")
    assert not view.one("#table-doubt").is_displayed()
    assert view.one("#table-se").is_displayed()


def test_values_that_nobody_knows_are_on_the_edge_of_the_scatter(view):
    names = ["dull", "best", "things", "half", "years", "."]
    values, se = np.array([-8.4, 16.1, 1.0, -26.3, 23.8, 60.0]), np.array([0.6, 6.0, 2.0, 70.0, 130.0, 1e4])
    e = with_se(in_order(names, values, [3.9, 2.0, 1.1, 0.8, 0.6, -1.0], se=se), importance=np.full(6, 0.3))
    view.open([e])
    frame = charts.View(e, None).frame()
    pad = 0.08 * (frame.x[1] - frame.x[0])
    low, high = frame.x[0] - pad, frame.x[1] + pad
    shapes = view.js(
        "return [...document.querySelectorAll('.dots [data-i]')].map(c => [Number(c.dataset.i), c.tagName,"
        " c.classList.contains('pale'), c.getBoundingClientRect().x + c.getBoundingClientRect().width / 2])"
    )
    left, right = view.js(
        "return [...document.querySelectorAll('.grid line:not(.zero)')].map(l => l.getBoundingClientRect())"
        ".filter(b => b.width > 50).map(b => [b.left, b.right])[0]"
    )
    for i, shape, pale, x in shapes:
        inside = low <= values[i] <= high
        assert shape == ("circle" if inside else "path")
        assert pale == frame.pale[i]
        at = left + (values[i] - low) / (high - low) * (right - left)
        assert x == pytest.approx(at if inside else (left if values[i] < 0 else right), abs=1 if inside else 8)
    assert "Pale (3 of 6)" in view.one("#scatter-pale").text
    assert "triangle" in view.one("#scatter-pale").text
    labels = view.js(
        "return [...document.querySelectorAll('.labels text')].map(t => [t.textContent, t.classList.contains('pale')])"
    )
    assert ["dull", False] in labels
    assert ["best", False] in labels
    assert ["half", True] in labels
    assert all(name != "." for name, _ in labels)
    view.js("document.querySelector('.dots path[data-i=\"3\"]').focus()")
    assert view.linked() == [3, 3, 3]


@cases("by", ["focus", "pointer"])
def test_the_unit_that_is_looked_at_stays_so_when_the_window_is_resized(view, by):
    view.width(1280)
    view.open([fitted()])
    if by == "focus":
        view.js("document.querySelector('.dots [data-i=\"1\"]').focus()")
    else:
        view.hover(view.unit(1))
    assert view.linked() == [1, 1, 1]
    before = view.one("#scatter svg").get_attribute("width")
    view.width(1100)
    view.until("return document.querySelector('#scatter svg').getAttribute('width') !== arguments[0]", before)
    view.until("return document.querySelector('.ring').dataset.i === '1'")
    assert view.linked()[1] == 1
    if by == "focus":
        view.until('return document.activeElement === document.querySelector(\'.dots [data-i="1"][tabindex="0"]\')')
        assert view.linked() == [1, 1, 1]
        assert len(view.all(".dots [tabindex='0']")) == 1


def test_units_that_act_together_have_a_card_where_there_are_any(view):
    e = in_order(["not", "good", "so", "so"], [-1.0, 3.0, 1.0, 2.0], np.zeros(4))
    view.open([e])
    assert not view.one("#pairs-card").is_displayed()
    view.open([with_pairs(e, [((2, 1), 0.5, 0.1), ((0, 1), -2.04, 0.4), ((1, 3), 0.1, 0.2)])])
    assert view.one("#pairs-title").text == "Words that act together"
    assert view.texts("#pairs .name") == ["not + good", "so (1) + good", "good + so (2)"]
    cells = [plus_minus(text) for text in view.texts("#pairs td")]
    half = 100 * NORMAL_95 * np.array([0.4, 0.1, 0.2])
    assert np.allclose(cells, np.stack([[-2.04, 0.5, 0.1], half.round() / 100], axis=1))
    kinds = view.js("return [...document.querySelectorAll('#pairs .stem')].map(s => s.className)")
    assert [("unsure" in kind, "against" in kind) for kind in kinds] == [(False, True), (False, False), (True, False)]
    view.hover(view.one("#pairs tr"))
    assert view.js("return [...document.querySelectorAll('.unit.on')].map(u => Number(u.dataset.i))") == [0, 1]
    effects, errors = np.array([1.0, -3.0, 2.0]), np.array([0.1, 0.2, 0.3])
    view.open([with_pairs(random_explanation(classes=3), [((0, 1), effects, errors)])])
    for c in range(3):
        view.one(f'#class option[value="{c}"]').click()
        assert plus_minus(view.one("#pairs td").text) == pytest.approx((effects[c], NORMAL_95 * errors[c]), abs=0.005)


def test_the_prediction_has_an_interval_between_the_knots_of_its_errors(view):
    e = random_explanation(n=6)
    view.open([e])
    assert not view.all("#now-within")
    knots = [(0, 0.1), (2, 0.5), (5, 0.8)]
    e = replace(e, spread=Spread(*(np.array(part, dtype=float) for part in zip(*knots, strict=True))))
    e = with_se(e, removal=np.array([0.01, 0.3, 0.01, 2.0, 0.01, 0.01]))
    view.open([e])
    removed, wider = 0, []
    for i in [None, *range(6)]:
        if i is not None:
            view.unit(i).click()
            removed += int(e.sizes[i])
        keep = np.array([j not in range(-1 if i is None else i + 1) for j in range(6)])
        expected = float(np.diff(e.predict_interval(keep))[0]) / 2
        wider.append(expected / (NORMAL_95 * np.interp(removed, *zip(*knots, strict=True))))
        assert plus_minus(view.one("#now-within").text.replace("±", "0 ±"))[1] == pytest.approx(expected, abs=6e-4)
        now = float(e.predict(keep))
        left, width = view.js(
            "return ['left', 'width'].map(side => parseFloat(document.querySelector('.track .whisker').style[side]))"
        )
        assert left == pytest.approx(100 * expit(now - expected), abs=0.01)
        assert left + width == pytest.approx(100 * expit(now + expected), abs=0.01)
    assert "the whisker" in view.one("#bars-help").text
    assert removed > 5  # beyond the last knot as well
    assert min(wider) == pytest.approx(1.0)
    assert max(wider) > 1.2  # by the errors of single removals
    several = random_explanation(n=4, classes=2)
    several = replace(several, spread=Spread(np.array([0.0, 9.0]), np.array([[0.1, 0.3], [0.2, 0.9]])))
    view.open([several])
    for c in range(2):
        view.one(f'#class option[value="{c}"]').click()
        assert view.one("#now-within").text == f"± {NORMAL_95 * (0.1, 0.3)[c]:.3f}"
    assert not view.all(".track .whisker")


def test_the_chosen_score_colours_the_text(view):
    e = fitted()
    view.open([e])

    def washes():
        return view.js(
            "return slalom.state.spans.map(s => [s.className.replace('unit','').trim(), +s.style.getPropertyValue('--t')])"
        )

    scores = {"removal": e.removal, "linear": e.linear, "gradient": e.gradient, "shapley": e.shapley(), "value": e.values}
    for name, numbers in scores.items():
        view.score(name)
        top = e.full_effect(name)
        for (side, share), x in zip(washes(), numbers, strict=True):
            assert ("against" if x < 0 else "for") in side.split()
            assert share == pytest.approx(abs(x) / top, abs=1e-3)
    i = int(np.argmax(np.abs(e.values)))
    strongest = view.unit(i).value_of_css_property("background-color")
    assert strongest == ("rgba(33, 102, 172, 0.6)" if e.values[i] > 0 else "rgba(217, 95, 2, 0.6)")
    view.score("importance")
    assert {side for side, _ in washes()} == {"neutral"}
    assert np.argmax([share for _, share in washes()]) == np.argmax(e.importances)
    assert "louder" in view.one("#legend").text


def test_colours_are_shares_of_what_has_the_full_colour(view):
    e = replace(fitted())
    full = 2 * np.abs(e.removal).max()
    object.__setattr__(e, "full_effect", lambda name, target: full if name == "removal" else 0.5 * np.abs(e.values).max())
    view.open([e])
    for name, expected in (("removal", np.abs(e.removal) / full), ("value", np.abs(e.values) / (0.5 * np.abs(e.values).max()))):
        view.score(name)
        shares = view.js("return slalom.state.spans.map(s => +s.style.getPropertyValue('--t'))")
        assert np.allclose(shares, np.minimum(expected, 1), atol=1e-3)


def test_scores_without_a_sign_have_one_colour_and_predict_nothing(view):
    e = random_explanation(additive=True)
    effects = np.abs(e.values)
    e = replace(e, surrogate=Additive(effects, 0.0), method="attention", signed=False)
    view.open([e, fitted()])
    colours = {unit.value_of_css_property("background-color").rsplit(",", 1)[0] for unit in view.all(".unit")}
    assert colours == {"rgba(118, 81, 160"}
    shares = view.js("return slalom.state.spans.map(s => +s.style.getPropertyValue('--t'))")
    assert np.allclose(shares, effects / effects.max(), atol=1e-3)
    assert "neither for nor against" in view.one("#legend").text
    assert view.js("return document.querySelectorAll('#table .plus, #table .minus').length") == 0
    assert view.js("return [...document.querySelectorAll('thead button')].map(b => b.textContent)") == ["Unit", "Score"]
    assert "+" not in view.one("#table tbody").text
    assert not view.one("#live").is_displayed()
    view.unit(0).click()
    assert view.js("return slalom.state.keep[0]") == 1
    view.one("#next").click()  # the next text has signs
    assert view.one("#live").is_displayed()
    assert len(view.all("#scores input")) == len(LISTED)


def test_failures_are_shown_below_the_texts(view):
    e = random_explanation()
    view.open(Explanations([e, Failure(1, MARKUP, "InputError: <i>empty</i>"), e]))
    view.one("#failed").click()
    assert view.one("#failures").is_displayed()
    assert "2. </script>" in view.one("#failures dt").text
    assert view.one("#failures dd").text == "InputError: <i>empty</i>"
    assert view.js("return window.hacked") is None
    view.open([e])
    assert not view.all("#failures, #failed")


def test_several_classes_have_a_selector_and_all_probabilities(view):
    e = fitted_classes()
    view.open([e])
    leading = int(np.argmax(e.score))
    assert view.one("#class").get_attribute("value") == str(leading)
    assert e.prediction[0] in view.one("#head").text
    other = (leading + 1) % 3
    view.one(f'#class option[value="{other}"]').click()
    assert number(view.one("#score").text) == pytest.approx(e.score[other], abs=1e-3)
    view.unit(0).click()
    keep = np.ones(len(e))
    keep[0] = 0
    now = e.predict(keep)
    assert number(view.one("#now").text) == pytest.approx(now[other], abs=6e-4)
    shares = {
        row.find_element(By.CSS_SELECTOR, ".label").text: row.find_element(By.CSS_SELECTOR, ".share").text
        for row in view.all(".prob")
    }
    expected = {label: p for label, p in zip(e.labels, softmax(now), strict=True) if 0.0005 < p < 0.9995}
    assert expected
    for label, p in expected.items():
        assert shares[label] == f"{100 * p:.1f} %"


def test_all_classes_are_seen_at_a_glance(view):
    e = with_errors(random_explanation(n=14, classes=3))
    view.open([e])
    columns = np.argsort(-e.score, kind="stable")
    assert view.js("return [...document.querySelectorAll('#classes thead bdi')].map(b => b.textContent)") == [
        e.labels[c] for c in columns
    ]
    rows = view.js(
        "return [...document.querySelectorAll('#classes tr[data-i]')].map(r => [Number(r.dataset.i),"
        " [...r.querySelectorAll('td span')].map(s => [s.textContent, s.className, +s.style.getPropertyValue('--t')])])"
    )
    sizes = np.abs(e.removal).max(axis=1)
    assert [i for i, _ in rows] == np.argsort(-sizes, kind="stable")[:10].tolist()
    unit = 10.0 ** (np.floor(np.log10(sizes.max())) - 2)
    for i, cells in rows:
        for c, (text, side, strength) in zip(columns, cells, strict=True):
            assert number(text) == pytest.approx(e.removal[i, c], abs=0.51 * unit)
            assert ("against" in side) == (e.removal[i, c] < 0)
            assert ("unsure" in side) == (not e.certain(target=int(c))[i])
            assert strength == pytest.approx(abs(e.removal[i, c]) / sizes.max(), abs=1e-3)
    view.js(f"document.querySelector('#classes [data-c=\"{columns[2]}\"]').click()")
    assert view.one("#class").get_attribute("value") == str(columns[2])
    assert number(view.one("#score").text) == pytest.approx(e.score[columns[2]], abs=1e-3)
    view.open([fitted()])
    assert not view.one("#classes-card").is_displayed()


def test_the_strongest_units_have_bars_beside_the_text(view):
    e = with_errors(fitted())
    view.open([e])
    for name in ("removal", "value"):
        view.score(name)
        scores, interval = e.scores(name), e.interval(name)
        half = np.diff(interval, axis=1)[:, 0] / 2
        sizes = np.abs(scores) * (np.minimum(1, np.abs(scores) / half) if name == "value" else 1)
        sizes[unknown(e, name)] = -1
        rows = view.js(
            "return [...document.querySelectorAll('#strongest li')].map(r => [Number(r.dataset.i),"
            " r.querySelector('.number').textContent])"
        )
        assert [i for i, _ in rows] == np.argsort(-sizes, kind="stable")[:8].tolist()[: len(rows)]
        unit = 10.0 ** (np.floor(np.log10(np.abs(scores[~unknown(e, name)]).max())) - 2)
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


def test_intervals_are_drawn_in_the_scatter_where_points_are_determined(view):
    values, se = np.array([-8.0, 6.0, 1.0, 60.0]), np.array([0.5, 1.0, 0.8, 1e4])
    e = with_se(in_order(["dull", "best", "so", "odd"], values, [2.0, 1.0, 0.5, -1.0], se=se), importance=np.full(4, 0.2))
    view.open([e])
    frame = charts.View(e, None).frame()
    paths = view.js(
        "return [...document.querySelectorAll('.crosses path')].map(p => p.getBoundingClientRect())"
        ".map(b => [b.left, b.right, b.top, b.bottom])"
    )
    assert len(paths) == 4 - frame.pale.sum() == 3
    left, right = view.js(
        "return [...document.querySelectorAll('.grid line:not(.zero)')].map(l => l.getBoundingClientRect())"
        ".filter(b => b.width > 50).map(b => [b.left, b.right])[0]"
    )
    pad = 0.08 * (frame.x[1] - frame.x[0])
    scale = (right - left) / (frame.x[1] - frame.x[0] + 2 * pad)
    for i, path in enumerate(paths):
        ends = left + (values[i] + NORMAL_95 * se[i] * np.array([-1, 1]) - frame.x[0] + pad) * scale
        assert path[:2] == pytest.approx(np.clip(ends, left, right), abs=1)
    assert view.one("#scatter-within").is_displayed()
    view.js("document.querySelector('.dots [data-i=\"3\"]').focus()")
    assert view.linked() == [3, 3, 3]


def test_the_table_comes_first_where_the_scatter_determines_little(view):
    def order(se):
        e = in_order(["dull", "best", "so", "odd"], [-8.0, 6.0, 1.0, 3.0], [2.0, 1.0, 0.5, -1.0], se=np.array(se))
        view.open([with_se(e, importance=np.full(4, 0.2))])
        return view.one("#table-card").rect["y"] < view.one("#scatter-card").rect["y"] or (
            view.one("#table-card").rect["x"] < view.one("#scatter-card").rect["x"]
        )

    assert not order([0.1, 0.1, 0.1, 0.1])
    assert order([0.1, 1e4, 1e4, 1e4])


def test_a_page_opens_on_the_score_that_its_text_names(view):
    e = fitted()
    html = page([e])
    assert '"signed":true' in html
    view.file.write_text(html.replace('"signed":true', '"initial_score":"shapley","signed":true'), encoding="utf-8")
    view.driver.get(view.file.as_uri())
    assert view.js("return slalom.state.score") == "shapley"
    assert view.one("#strongest-title").text == "Strongest by shapley"
    view.open([e])
    assert view.js("return slalom.state.score") == "removal"


def test_axe_finds_nothing_wrong(view, axe):
    view.open([with_errors(fitted())])
    view.unit(0).click()
    view.hover(view.unit(1))
    assert axe(view.driver) == []
    view.open(Explanations([fitted_classes(), fitted(), Failure(2, MARKUP, "InputError: empty")]))
    assert axe(view.driver) == []
    view.prefer("dark")
    for explanations in ([with_errors(fitted())], [fitted_classes(), fitted()]):
        view.open(explanations)
        assert axe(view.driver, "color-contrast") == []


def test_no_text_can_run(view):
    view.open([full_of_markup(), fitted()])
    for name in ("shapley", "removal"):
        view.score(name)
    view.hover(view.unit(1))
    view.unit(1).click()
    assert view.js("return document.querySelectorAll('img, main script, nav script').length") == 0
    assert view.js("return window.hacked") is None
    assert view.js("return document.getElementById('text').textContent") == MARKUP
    view.driver.switch_to.default_content()  # an alert would raise here


def test_an_index_leads_to_every_text(view):
    texts = ["good film, bad end", "dull dull film", "a good good song", "bad\nand dull"]
    explanations = Explanations([fitted(text) for text in texts])
    view.open(explanations, "#text-3")
    shown = "return document.getElementById('text').textContent"
    assert view.js(shown) == texts[2]
    links = view.all("#index-list a")
    assert len(links) == 4
    for e, link in zip(explanations, links, strict=True):
        assert e.prediction[0] in link.text
        assert number(link.find_element(By.CSS_SELECTOR, ".score").text) == pytest.approx(e.score, abs=6e-3)
        assert " ".join(e.text.split()) in link.text
    links[1].click()
    view.until(f"{shown} === arguments[0]", texts[1])
    assert view.driver.current_url.endswith("#text-2")
    assert [link.get_attribute("aria-current") for link in links] == [None, "true", None, None]
    view.unit(0).click()
    twice = "document.querySelector('#next').click(); document.querySelector('#next').click()"
    view.js(twice)  # faster than the address changes
    assert view.js(shown) == texts[3]
    view.one("#previous").click()
    assert view.js(shown) == texts[2]
    view.one("#previous").click()
    assert view.js("return slalom.state.keep[0]") == 0  # it remembers what was taken away
    view.driver.back()
    view.until(f"{shown} === arguments[0]", texts[2])
    links[3].send_keys(Keys.ENTER)
    view.until(f"{shown} === arguments[0]", texts[3])
    assert not view.one("#next").is_enabled()
    view.open(explanations, "#text-99")
    assert view.js(shown) == texts[0]


def test_texts_are_found_by_their_words_and_previewed_in_colour(view):
    texts = ["good film, bad end " + "and so on " * 30 + "Zebra", "dull dull film", "a good good song", "bad\nand dull"]
    explanations = Explanations([fitted(text) for text in texts])
    view.open(explanations)
    for e, item in zip(explanations, view.all("#index-list li"), strict=True):
        parts = item.find_elements(By.CSS_SELECTOR, ".preview span")
        assert " ".join(e.text.split())[:12] in " ".join(item.text.split())
        for part in parts:
            i = e.units.index(part.text)
            assert ("against" in part.get_attribute("class")) == (e.removal[i] < 0)
            strength = view.js("return +arguments[0].style.getPropertyValue('--t')", part)
            assert strength == pytest.approx(abs(e.removal[i]) / e.full_effect(), abs=0.02)
        assert parts
    search = view.one("#search")
    for wanted, found, said in (
        ("ZEBRA", [0], "1 of 4"),
        ("good film", [0], "1 of 4"),
        ("dull", [1, 3], "2 of 4"),
        ("xyz", [], "No text has these words."),
    ):
        search.clear()
        search.send_keys(wanted)
        assert [k for k, item in enumerate(view.all("#index-list li")) if item.is_displayed()] == found
        assert view.one("#found").text == said
    search.clear()
    search.send_keys(" ")
    assert len([item for item in view.all("#index-list li") if item.is_displayed()]) == 4


ODD = ["שלום! עולם טוב", "one\r\ntwo! \r\n\r\nthree\rfour", "👍🏽 👩‍👩‍👧! é", "!", "  ! \t\n", "a \ud83d b!"]


def test_odd_texts_are_shown_whole(view):
    def shout(texts):
        return [float(t.count("!")) for t in texts]

    explain = Explainer(shout, output="log_odds", queries=60)
    for text in ODD:
        view.open([explain(text)])
        shown = view.js("return JSON.stringify(document.getElementById('text').textContent)")
        assert json.loads(shown) == text.replace("\r\n", "\n").replace("\r", "\n")
    view.open([explain(ODD[0])])
    assert view.one("#text").value_of_css_property("direction") == "rtl"
    e = explain("one two three!")
    same = replace(e, spans=np.array([[0, 3], [0, 3], [5, 5], [4, 13]][: len(e)]))
    view.open([same])
    assert len(view.all(".unit")) == len(e)
    assert all(unit.size["width"] > 0 for unit in view.all(".unit"))
    assert view.js("return document.getElementById('text').textContent") == e.text
    view.open(
        [
            replace(
                fitted(),
                errors={},
                held_out=None,
                label=None,
                probabilities=None,
                diagnosis="Odd.",
                cut=3,
            )
        ]
    )
    assert "not known" in view.one("#head").text
    assert "Odd." in view.one("#warnings").text
    assert "±" not in view.one("#table").text


def test_text_stays_readable_in_light_and_dark(view):
    def luminance(rgb):
        linear = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in np.array(rgb) / 255]
        return float(np.dot(linear, [0.2126, 0.7152, 0.0722]))

    def colours(selector):
        """Of all such elements: the colour of the text and of what is behind it."""
        found = view.js(
            "return [...document.querySelectorAll(arguments[0])].map(e => getComputedStyle(e))"
            ".map(style => [style.color, style.backgroundColor])",
            selector,
        )
        return [[[float(part) for part in text[text.index("(") + 1 : -1].split(",")] for text in pair] for pair in found]

    def contrast(one, other):
        dark, light = sorted([luminance(one[:3]), luminance(other[:3])])
        return (light + 0.05) / (dark + 0.05)

    e = fitted()
    view.prefer("dark")
    view.open([e])
    theme = "return document.documentElement.dataset.theme"
    assert view.js(theme) == "dark"
    for wanted in ("dark", "light"):
        if view.js(theme) != wanted:
            view.one("#theme").click()
        assert view.js(theme) == wanted
        paper = colours(".card")[0][1]
        for name in ("value", "importance"):
            view.score(name)
            for ink, (*wash, alpha) in colours(".unit"):
                assert contrast(ink, [alpha * c + (1 - alpha) * p for c, p in zip(wash, paper, strict=False)]) >= 4.5
        for selector in (".help", ".minus", ".plus", ".means", ".share", "td", "dt"):
            assert contrast(colours(selector)[0][0], paper) >= 4.5
    view.prefer("light")
    view.open([e])
    assert view.js(theme) == "light"
    view.prefer("dark")
    WebDriverWait(view.driver, 5).until(lambda _: view.js(theme) == "dark")


@cases("width", [360, 390, 800, 900])
def test_the_table_fits_and_shows_the_chosen_score(view, width):
    view.width(width)
    view.open([random_explanation(n=60, link=False, seed=3)])
    for score in ("removal", "value", "importance", "shapley"):
        view.js("document.querySelector(`.switch input[value=${arguments[0]}]`).click()", score)
        assert view.js("const t = document.querySelector('.scroll'); return t.scrollWidth - t.clientWidth") == 0
        heads = "return [...document.querySelectorAll('.scroll thead th')].filter(h => h.offsetWidth).map(h => h.textContent)"
        shown = [head.lower() for head in view.js(heads)]
        cells = view.js("return [...document.querySelector('.scroll tr[data-i]').children].filter(c => c.offsetWidth).length")
        assert len(shown) == cells
        assert shown[:2] == ["unit", "removal"]
        assert any(score in head for head in shown)
        assert (len(shown) <= 3) == (width < 840)


def test_labels_in_the_scatter_do_not_overlap_and_nothing_sticks_out(view):
    for width in (360, 1280):
        view.width(width)
        for e in (fitted(), random_explanation(n=300, link=False, seed=3), random_explanation(n=5, classes=3)):
            view.open([e, e])
            assert view.js("return document.documentElement.scrollWidth") <= width
            boxes = view.js(
                "return [...document.querySelectorAll('.labels text, .background text')].map(t => t.getBoundingClientRect())"
                ".map(b => [b.left, b.top, b.right, b.bottom])"
            )
            assert boxes
            for i, a in enumerate(boxes):
                for b in boxes[:i]:
                    assert min(a[2], b[2]) - max(a[0], b[0]) < 3 or min(a[3], b[3]) - max(a[1], b[1]) < 3


def test_of_long_texts_and_many_texts_only_what_is_in_sight_is_drawn(view):
    long = random_explanation(n=5000, link=False)
    view.open([long])
    assert view.js("return document.querySelectorAll('tbody tr').length") < 100
    assert view.js("return document.querySelectorAll('circle[data-i]').length") == 5000
    view.js("document.querySelectorAll('.unit')[4000].click()")
    assert view.js("return document.querySelectorAll('.unit')[4000].getAttribute('aria-pressed')") == "true"
    view.js("document.querySelectorAll('.unit')[4321].dispatchEvent(new PointerEvent('pointerover', {bubbles: true}))")
    WebDriverWait(view.driver, 20).until(lambda _: view.linked() == [4321] * 3)  # the table scrolls to it
    view.open([random_explanation(n=300, link=False, seed=i) for i in range(3)] * 10)
    assert view.js("return document.querySelectorAll('.unit').length") == 300  # only the text that is shown is drawn


def test_on_paper_the_page_is_light_and_has_every_row(view):
    view.open([random_explanation(n=400, link=False)])
    view.one("#theme").click()
    view.js("window.dispatchEvent(new Event('beforeprint'))")
    assert view.js("return document.documentElement.dataset.theme") == "light"
    assert view.js("return document.querySelectorAll('tbody tr[data-i]').length") == 400
    view.js("window.dispatchEvent(new Event('afterprint'))")
    assert view.js("return document.documentElement.dataset.theme") == "dark"
    assert view.js("return document.querySelectorAll('tbody tr[data-i]').length") < 200


def test_the_answer_stands_beside_its_sources(view):
    from slalom.result import Answer  # noqa: PLC0415

    e = replace(fitted(), scale="log probability", unit="sentence", label=None, probabilities=None)
    e = replace(e, answer=Answer("Is <b>it</b> so?", "It is. It <i>was</i>.", 7, 21, True, 4))
    view.open([e])
    assert view.one("#question").text == "Is <b>it</b> so?"
    assert view.one("#answer").text == "It is. It <i>was</i>."
    assert view.one("#answer mark").text == "It <i>was</i>."
    assert "written by the model" in view.one("#head").text
    assert view.one("#text-title").text == "Sources"
    assert number(view.one("#score").text) == pytest.approx(e.score, abs=1e-3)
    view.open([fitted()])
    assert view.one("#text-title").text == "Text"
    assert not view.all("#answer")


def test_a_model_that_answers_with_a_number_has_no_class(view):
    def stars(texts):
        return [3.5 * ("good" in text) + len(text.split()) for text in texts]

    explainer = Explainer(stars, output="scores", labels=["stars"])
    view.open([explainer("a good film it is")])
    assert view.one("#head").text.split("\n") == ["The model's number (stars)", "+8.500"]
    assert "raises stars" in view.one("#legend").text
    assert "lowers stars" in view.one("#legend").text
    assert "not known" not in view.one("#head").text
