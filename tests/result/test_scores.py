"""Scores are what their formulas say, for all surrogates, links, parts, classes and merges.

Whatever shows or saves them has the numbers of the table SCORES.
"""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from slalom.core import Slalom
from slalom.corpus.table import SourceRow, explained_row, schema, table
from slalom.errors import InputError
from slalom.render.page.content import content
from slalom.result import SCORES, Explanation, listed
from tests.cases import cases
from tests.factories import (
    explained,
    fitted,
    fitted_classes,
    random_additive,
    random_explanation,
    random_slalom,
    with_errors,
    with_parts,
)

TEXT = "ab cd ef. Gh ij kl"
SPANS = np.array([[0, 1], [1, 2], [3, 5], [6, 8], [8, 9], [10, 12], [13, 15], [16, 18]])  # the first word has two
N = len(SPANS)
KINDS = {"plain": {"competition": 1.0}, "adding": {"competition": 0.0}, "linked": {"link": True}, "additive": {}}


def made(kind, parts, classes):
    seed = [len(kind), parts, classes or 0]
    if kind == "additive":
        surrogate = random_additive(seed, N, classes=classes)
    else:
        surrogate = random_slalom(seed, N, classes=classes, **KINDS[kind])
    score = 0.0 if classes is None else np.zeros(classes)
    e = explained(surrogate, TEXT, SPANS, unit="token", score=score)
    return with_parts(e) if parts else e


def merges(e):
    return (e, e.merge("word"), e.merge("sentence"))


CASES = [case for case in product(KINDS, (False, True), (None, 3)) if case[:2] != ("additive", True)]


@cases("kind, parts, classes", CASES)
def test_removal_is_the_change_of_the_prediction(kind, parts, classes):
    for e in merges(made(kind, parts, classes)):
        everything = e.predict(np.ones(len(e)))
        change = everything - e.predict(1 - np.eye(len(e)))
        assert np.allclose(e.removal, change, rtol=0, atol=1e-12)
        assert np.allclose(e.scores("removal"), e.removal if classes is None else e.removal[:, 0], rtol=0, atol=0)


@cases("kind, parts, classes", CASES)
def test_gradient_is_the_slope_of_the_prediction(kind, parts, classes):
    h = 1e-6
    for e in merges(made(kind, parts, classes)):
        ones = np.ones((1, len(e)))
        slopes = (e.surrogate(ones) - e.surrogate(ones - h * np.eye(len(e)))) / h
        assert np.allclose(e.gradient, slopes, rtol=0, atol=1e-4)


@cases("kind, parts, classes", CASES)
def test_shapley_and_banzhaf_values_are_those_of_the_prediction(kind, parts, classes):
    for e in merges(made(kind, parts, classes)):
        n = len(e)
        masks = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
        scores = e.predict(masks)
        weights = np.array([1.0 / (n * np.prod([(n - 1 - k) / (k + 1) for k in range(size)])) for size in range(n)])
        for i in range(n):
            without = np.flatnonzero(masks[:, i] == 0)
            expected = weights[masks[without].sum(axis=1)] @ (scores[without + 2**i] - scores[without])
            assert np.allclose(e.shapley()[i], expected, rtol=0, atol=1e-9)
            banzhaf = (scores[without + 2**i] - scores[without]).mean(axis=0)
            assert np.allclose(e.all_classes("banzhaf")[i], banzhaf, rtol=0, atol=1e-9)
        assert np.allclose(e.shapley().sum(axis=0), e.predict(np.ones(n)) - e.base, rtol=0, atol=1e-9)


@cases("kind, parts, classes", CASES)
def test_merged_units_predict_the_same_and_the_base_is_the_empty_text(kind, parts, classes):
    e = made(kind, parts, classes)
    words = e.merge("word")
    keep = np.array([[1, 0, 1, 1, 0, 1, 0], [0, 1, 1, 0, 0, 0, 1]])
    tokens = keep[:, [0, 0, 1, 2, 3, 4, 5, 6]]
    assert (len(words), len(e.merge("sentence"))) == (7, 2)
    assert np.allclose(words.predict(keep), e.predict(tokens), rtol=0, atol=1e-12)
    assert np.allclose(e.base, e.predict(np.zeros(N)), rtol=0, atol=1e-12)


@cases("classes", [None, 3])
def test_what_places_do_is_told(classes):
    e = with_parts(made("linked", False, classes))
    neighbours, _ = e.surrogate.parts
    s = e.surrogate
    without = replace(e, surrogate=Slalom(s.values, s.importances, s.competition, s.bias, s.link, [neighbours]))
    np.testing.assert_allclose(e.place_effects, e.removal - without.removal, atol=1e-12)
    assert without.place_effects is None


def test_the_models_own_answers_come_first():
    e = made("linked", True, None)
    own = {"removal": np.where(np.arange(N) < 3, 9.0, np.nan), "value": np.where(np.arange(N) == 1, -7.0, np.nan)}
    asked = replace(e, measured=own)
    np.testing.assert_array_equal(asked.removal, [9.0] * 3 + e.removal[3:].tolist())
    np.testing.assert_array_equal(asked.values, [e.values[0], -7.0, *e.values[2:]])
    back = Explanation.from_dict(asked.to_dict())
    np.testing.assert_array_equal(back.removal, asked.removal)
    np.testing.assert_array_equal(back.measured["value"], own["value"])
    assert asked.merge("word").measured == {}


def test_values_are_what_units_say_alone():
    for e in (made("linked", True, None), made("adding", True, 3), made("additive", False, None)):
        np.testing.assert_allclose(e.values, e.predict(np.eye(N)) - e.base, atol=1e-12)


def expected(e):
    """The listed scores that mean something, and their standard errors, by name."""
    if not e.signed:
        return {"removal": (np.abs(e.removal), None)}
    names = [name for name, score in SCORES.items() if score.listed and not (e.additive and name in ("importance", "weight"))]
    return {name: (e.all_classes(name), e.errors.get(name)) for name in names}


def check_consumers(e):
    """Every consumer has the numbers of every listed score, and the standard errors that are known."""
    scores, classes = expected(e), e.labels if e.values.ndim == 2 else (None,)
    saved, shown = e.to_dict(), {score["name"]: score for score in content(e)["scores"]}
    frame = e.to_pandas()
    assert {name for name, numbers in saved["scores"].items() if numbers is not None} == set(scores)
    assert [scored.score.name for scored in listed(e) if scored.numbers is not None] == list(scores)
    for name, (numbers, errors) in scores.items():
        np.testing.assert_array_equal(saved["scores"][name], numbers)
        np.testing.assert_allclose(shown[name]["numbers"], numbers, rtol=1e-5)
        assert (shown[name]["within"] is None) == (errors is None)
        for c, label in enumerate(classes):
            column = numbers if numbers.ndim == 1 else numbers[:, c]
            if e.signed:
                np.testing.assert_array_equal(e.scores(name, label), column)
            if errors is not None:
                half = np.ptp(e.interval(name, target=label), axis=1) / 2
                part = np.array(shown[name]["within"])
                np.testing.assert_allclose(part if part.ndim == 1 else part[:, c], half, rtol=1e-5)
            title = name if e.signed else "strength"
            np.testing.assert_array_equal(frame[title if numbers.ndim == 1 else f"{title}[{e.labels[c]}]"], column)
        if errors is not None:
            np.testing.assert_array_equal(saved["errors"][name], errors)
    back = Explanation.from_dict(saved)
    assert {name: part.tolist() for name, part in back.errors.items()} == saved["errors"]
    assert back.to_dict() == saved
    if e.values.ndim == 1:
        row = table([explained_row(SourceRow(0, "a", e.text, {}), e, full=True)]).to_pylist()[0]
        for name, (numbers, errors) in scores.items():
            np.testing.assert_array_equal(np.float32(row[name]), numbers.astype(np.float32))
            assert (row[f"{name}_se"] is None) == (errors is None)


def test_everything_that_shows_or_saves_scores_has_those_of_the_table():
    signless = replace(random_explanation(additive=True), signed=False, method="attention")
    kinds = fitted(), with_errors(fitted()), with_errors(fitted_classes()), with_errors(random_explanation(classes=3))
    for e in (*kinds, fitted().merge("sentence"), random_explanation(additive=True), signless):
        check_consumers(e)


def test_a_new_score_is_one_row(monkeypatch):
    monkeypatch.setitem(SCORES, "banzhaf", replace(SCORES["banzhaf"], listed=True))
    e = with_errors(fitted())
    e = replace(e, errors={**e.errors, "banzhaf": e.errors["shapley"]})
    check_consumers(e)
    assert {"banzhaf", "banzhaf_se"} <= set(schema().names)
    assert "banzhaf" in expected(e)
    assert e.plot.bar(score="banzhaf").axes[0].get_xlabel().startswith("banzhaf: what it adds")


def test_scores_that_leave_the_range_of_floats_are_null():
    e = explained(Slalom([1.0, 2.0], [800.0, -800.0]), "ab", [[0, 1], [1, 2]])
    assert e.to_dict()["scores"]["linear"] is None
    assert e.to_pandas()["linear"].isna().all()
    with pytest.raises(InputError):
        e.scores("linear")
