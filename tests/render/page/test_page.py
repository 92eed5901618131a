"""What is in the file, without a browser."""

import base64
import hashlib
import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import product

import numpy as np
import pytest

from slalom import Explanations
from slalom.core import Slalom
from slalom.core.kinds import from_dict
from slalom.errors import InputError
from slalom.render.charts import View
from slalom.render.page import page
from slalom.render.page.content import content
from slalom.result import NORMAL_95, Failure, Fidelity, Quality, Spread, listed
from tests.cases import cases
from tests.factories import (
    MARKUP,
    MARKUP_LABELS,
    explained,
    explanation,
    film_record,
    fitted,
    fitted_classes,
    full_of_markup,
    random_explanation,
    with_errors,
    with_pairs,
    with_parts,
    with_se,
)


class Reader(HTMLParser):
    """The elements of a page and what the script and style blocks hold."""

    def __init__(self, source):
        super().__init__()
        self.elements, self.blocks, self.inside, self.text = [], [], None, ""
        self.feed(source)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        self.inside = (tag, dict(attrs)) if tag in ("script", "style", "title") else None

    def handle_endtag(self, tag):
        self.inside = None

    def handle_data(self, data):
        if self.inside:
            self.blocks.append((*self.inside, data))
        else:
            self.text += data

    def tags(self, *names):
        return [tag for tag, _ in self.elements if tag in names]

    def data(self):
        return [json.loads(block) for tag, attrs, block in self.blocks if attrs.get("type") == "application/json"]


def test_the_page_loads_nothing_from_anywhere():
    source = page([fitted(), fitted_classes()])
    for tag, attrs in Reader(source).elements:
        assert "src" not in attrs
        assert tag not in ("link", "iframe", "object", "embed", "base", "form")
        assert attrs.get("href", "#").startswith("#")
        assert not any(name.startswith("on") or name == "style" for name in attrs), attrs
    assert "@import" not in source
    assert "url(" not in source
    assert set(re.findall(r"https?://[^\"' ]+", source)) == {"http://www.w3.org/2000/svg"}  # a name, not an address
    for forbidden in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "fetch(", "XMLHttpRequest"):
        assert forbidden not in source


def test_the_policy_allows_this_script_and_this_style_only():
    reader = Reader(page([fitted()]))
    (policy,) = [attrs["content"] for tag, attrs in reader.elements if attrs.get("http-equiv") == "Content-Security-Policy"]
    assert policy.startswith("default-src 'none';")
    assert "unsafe" not in policy
    for kind in ("script", "style"):
        (code,) = [block for tag, attrs, block in reader.blocks if tag == kind and "type" not in attrs]
        digest = base64.b64encode(hashlib.sha256(code.encode()).digest()).decode()
        assert f"{kind}-src 'sha256-{digest}'" in policy


def test_markup_in_data_stays_data():
    reader = Reader(page([full_of_markup(), fitted()], title=MARKUP))
    allowed = Reader(page([random_explanation(), random_explanation()]))
    assert [tag for tag, _ in reader.elements] == [tag for tag, _ in allowed.elements]
    index, shown, _ = reader.data()
    assert index[0]["prediction"][0] in MARKUP_LABELS
    assert "".join(text for text, _ in shown["pieces"]) == MARKUP
    assert any("<script>window.hacked=5</script>" in said for _, said in shown["facts"])
    assert "<img src=x onerror=window.hacked=6>" in shown["warnings"]
    for _, attrs, block in reader.blocks:
        if attrs.get("type"):
            assert not re.search(r"[<>&\u2028\u2029]", block)


SLALOMS = {
    "fitted": fitted,
    "classes": fitted_classes,
    "markup": full_of_markup,
    "parts": lambda: with_parts(random_explanation()),
    "classes, parts": lambda: with_parts(random_explanation(classes=3)),
}


def scores_of(shown):
    return {score["name"]: score for score in shown["scores"]}


@cases("make", SLALOMS.values(), ids=list(SLALOMS))
def test_the_surrogate_is_in_the_page_bit_by_bit(make):
    e = make()
    (_, shown) = Reader(page([e])).data()
    given = shown["surrogate"]
    back = from_dict(given)
    assert np.array_equal(back.values, e.surrogate.values)
    assert np.array_equal(back.importances, e.importances)
    keep = np.random.default_rng(0).random((20, len(e))) < 0.6
    keep[:, 0] = True
    assert np.array_equal(back(keep.astype(float)), e.surrogate(keep.astype(float)))
    assert shown["sizes"] == e.sizes.tolist()
    for row, scored in zip(shown["scores"], listed(e), strict=True):
        assert row["name"] == scored.score.name
        assert (row["numbers"] is None) == (scored.numbers is None)
        assert scored.numbers is None or np.allclose(row["numbers"], scored.numbers, rtol=1e-5, atol=0)
    assert sorted(unit for _, unit in shown["pieces"] if unit is not None) == list(range(len(e)))


def test_what_is_not_known_is_said_so_or_left_out():
    bare = replace(fitted(), label=None, probabilities=None, held_out=None, errors={})
    bare = bare.merge("sentence")
    (index, shown) = Reader(page([bare])).data()
    assert index[0]["prediction"] is None
    assert all(score["within"] is None for score in shown["scores"])
    assert shown["spread"] is None
    assert shown["pairs"] == []
    assert ["Fidelity", "not tested for sentences, which were merged from tokens"] in shown["facts"]
    huge = explained(Slalom([1.0, 2.0], [800.0, -800.0]), "ab", [[0, 1], [1, 2]])
    (_, shown) = Reader(page([huge])).data()
    assert scores_of(shown)["linear"]["numbers"] is None
    assert len(scores_of(shown)["removal"]["numbers"]) == 2


@cases("make", [fitted, fitted_classes], ids=["one", "classes"])
def test_intervals_in_the_page_are_those_of_python(make):
    e = with_errors(make())
    shown = Reader(page([e])).data()[1]
    known = {scored.score.name for scored in listed(e) if scored.errors is not None}
    assert {name for name, score in scores_of(shown).items() if score["within"] is not None} == known
    targets = [None] if e.values.ndim == 1 else range(e.values.shape[1])
    for name, (c, target) in product(known, enumerate(targets)):
        within = np.array(scores_of(shown)[name]["within"])
        within = within[:, c] if within.ndim == 2 else within
        low, high = e.interval(name, target=target).T
        assert np.allclose(within, (high - low) / 2, rtol=1e-5, atol=0)


@cases("make", [fitted, lambda: random_explanation(classes=3)], ids=["one", "classes"])
def test_the_scatter_of_the_page_has_the_limits_of_the_figure(make):
    e = make()
    frames = Reader(page([e])).data()[1]["frames"]
    targets = [None] if e.values.ndim == 1 else range(e.values.shape[1])
    for frame, target in zip(frames, targets, strict=True):
        ours = View(e, target).frame()
        assert np.allclose((frame["x"], frame["y"]), (ours.x, ours.y))
        figure = e.plot.scatter(target=target)
        for (low, high), drawn in ((frame["x"], figure.axes[0].get_xlim()), (frame["y"], figure.axes[0].get_ylim())):
            assert drawn[0] <= low - 0.09 * (high - low) + 1e-9
            assert drawn[1] >= high + 0.09 * (high - low) - 1e-9
    assert Reader(page([explanation("a b c", [1.0, 2.0, 3.0])])).data()[1]["frames"] is None


def test_the_page_says_which_score_has_the_full_colour():
    e = random_explanation(classes=3)
    scores = scores_of(Reader(page([e])).data()[1])
    for name in ("removal", "linear", "gradient", "shapley", "value"):
        assert np.allclose(scores[name]["full"], [e.full_effect(name, label) for label in e.labels], rtol=1e-5)


@cases(("strongest", "score"), [(0.049, "shapley"), (0.051, "removal")])
def test_a_text_in_which_no_single_unit_decides_opens_on_shapley_values(strongest, score):
    e = replace(explanation("a b c", [strongest, 0.0, 0.0]), score=1.0)
    assert e.saturated is (score == "shapley")
    assert Reader(page([e])).data()[1]["initial_score"] == score


def test_an_interval_without_end_is_null():
    e = with_se(random_explanation(n=3), value=np.array([1.0, np.inf, np.nan]))
    shown = Reader(page([e])).data()[1]
    assert scores_of(shown)["value"]["within"] == [pytest.approx(NORMAL_95, rel=1e-5), None, None]


def test_pairs_and_spread_are_in_the_page_where_they_exist():
    e = with_pairs(random_explanation(), [((3, 0), -1.0, 0.2), ((1, 2), 0.5, 0.1)])
    e = replace(e, spread=Spread(np.array([0.0, 3.0]), np.array([0.1, 0.4])))
    shown = Reader(page([e])).data()[1]
    assert shown["pairs"] == [
        [[3, 0], -1.0, pytest.approx(0.2 * NORMAL_95, rel=1e-5)],
        [[1, 2], 0.5, pytest.approx(0.1 * NORMAL_95, rel=1e-5)],
    ]
    assert shown["spread"] == [[0, 0.1], [3, 0.4]]
    several = with_pairs(random_explanation(classes=3), [((0, 1), np.array([1.0, 2.0, -3.0]), np.array([0.1, 0.2, 0.3]))])
    ((units, effect, within),) = Reader(page([several])).data()[1]["pairs"]
    assert (units, effect) == ([0, 1], [1.0, 2.0, -3.0])
    assert np.allclose(within, NORMAL_95 * np.array([0.1, 0.2, 0.3]), rtol=1e-5)


def test_facts_and_warnings():
    tested = Fidelity(Quality(0.91, 0.0123, 40), Quality(None, 0.5, 30))
    e = random_explanation(cut=7, diagnosis="It is odd.", fidelity=tested, queries=1234, tokens=98765, seconds=1.5)
    shown = Reader(page([e])).data()[1]
    facts = dict(shown["facts"])
    assert facts["Fidelity near the text"] == "R² 0.91, mean squared error 0.0123 (40 queries)"
    assert facts["Fidelity, all sizes"] == "R² undefined, mean squared error 0.5 (30 queries)"
    assert (facts["Queries"], facts["Tokens read"], facts["Time"]) == ("1164 queries + 70 to test", "98,765", "1.5 s")
    assert shown["warnings"] == ["The model cannot see the last 7 tokens of this text; they were cut.", "It is odd."]


def test_titles_come_from_the_text_or_the_user():
    def titled(source):
        return next(block for tag, _, block in Reader(source).blocks if tag == "title")

    assert titled(page([random_explanation()])).startswith("w0 w1 w2")
    assert titled(page([random_explanation(n=200)])).endswith(" …")
    assert titled(page([random_explanation(), random_explanation()])) == "Explanations of 2 texts"
    assert titled(page([random_explanation()], title="Mine")) == "Mine"


def test_what_cannot_be_encoded_does_no_harm(tmp_path):
    odd = replace(random_explanation(), text="\ud83d" + random_explanation().text[1:])
    Explanations([odd]).to_html(tmp_path / "odd.html")
    source = (tmp_path / "odd.html").read_text(encoding="utf-8")
    assert Reader(source).data()[1]["pieces"][0][0][0] == "\ud83d"


def test_failures_are_listed_with_their_numbers_and_errors():
    failures = [Failure(1, MARKUP, "InputError: <b>too long</b>"), Failure(3, "", "InputError: empty")]
    source = page(Explanations([random_explanation(), *failures, random_explanation()]))
    reader = Reader(source)
    assert reader.tags("img", "b") == Reader(page([random_explanation()] * 2)).tags("img", "b")
    text = " ".join(reader.text.split())
    assert "Texts without an explanation" in text
    assert "2. </script><script>window.hacked=1</script>" in text
    assert "InputError: <b>too long</b>" in text
    assert "4. (empty)InputError: empty" in text
    assert "2 failed" in text
    assert "Texts without an explanation" not in page(Explanations([random_explanation()] * 2))


def test_pages_of_nothing_are_refused():
    with pytest.raises(InputError, match="at least one explanation"):
        page([])


def test_shapley_values_are_computed_once_for_all_parts_of_a_page(monkeypatch):
    """They take longer than all other scores together where a text is long."""
    e = random_explanation(40, link=True)
    calls, own = [], type(e.surrogate).shapley
    monkeypatch.setattr(type(e.surrogate), "shapley", lambda *given: calls.append(1) or own(*given))
    before = e.shapley()
    content(e), page([e])
    assert len(calls) == 1
    assert e.shapley() is before
    assert not before.flags.writeable


def test_a_record_has_its_fields_and_a_plain_text_has_none():
    e = film_record("all")
    shown = Reader(page([e])).data()[1]
    assert "".join(piece[0] for piece in shown["pieces"]) == e.text
    assert [piece for piece in shown["pieces"] if len(piece) == 3] == [
        ["<b>title</b>: ", None, 0],
        ["\nbody: ", None, 1],
        ["\nstars: ", None, 2],
    ]
    for field, (name, units, removal, shapley) in zip(e.fields, shown["fields"], strict=True):
        assert (name, tuple(units)) == (field.name, field.units)
        assert removal == pytest.approx(field.removal, rel=1e-5, abs=1e-12)
        assert shapley == pytest.approx(field.shapley, rel=1e-5, abs=1e-12)
    assert Reader(page([replace(e, signed=False)])).data()[1]["fields"][0][3] is None  # such values sum to nothing
    plain = Reader(page([fitted()])).data()[1]
    assert "fields" not in plain
    assert {len(piece) for piece in plain["pieces"]} == {2}


def test_how_units_are_removed_is_said_where_removal_is():
    masked = replace(fitted(), settings={"removal": "mask"})
    plain, shown = (scores_of(Reader(page([e])).data()[1]) for e in (fitted(), masked))
    assert shown["removal"]["meaning"] == f"{plain['removal']['meaning']} (mask)"
    assert all(shown[name]["meaning"] == plain[name]["meaning"] for name in shown if name != "removal")
