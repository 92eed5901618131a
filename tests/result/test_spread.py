"""Errors of predictions by size: what they are computed from, and that intervals contain the model's own scores."""

import numpy as np
import pytest

import slalom
from slalom.errors import InputError
from slalom.result import Spread, spread_of
from slalom.result.spread import prediction_variance


def test_errors_are_those_of_the_held_out_queries():
    rng = np.random.default_rng(0)
    removed = rng.integers(1, 100, 4000)
    truth = 0.2 + 0.01 * removed
    held_out = np.arange(4000) % 2 == 0
    residual = truth * rng.normal(size=4000) * np.where(held_out, 1.5, 1.0)  # the fitted rows are predicted too well
    found = spread_of(removed, residual, held_out)
    np.testing.assert_allclose(found(np.array([20, 50, 80])), 1.5 * (0.2 + 0.01 * np.array([20, 50, 80])), rtol=0.1)


def test_between_two_numbers_errors_are_linear():
    spread = Spread(np.array([0.0, 10.0]), np.array([[0.0, 1.0], [2.0, 3.0]]))
    np.testing.assert_allclose(spread(np.array([0.0, 5.0, 40.0])), [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0]])


def test_too_few_held_out_queries_tell_nothing():
    assert spread_of(np.arange(30), np.ones(30), np.arange(30) < 9) is None
    assert spread_of(np.arange(30), np.full(30, 1e200), np.arange(30) < 15) is None


def test_the_variance_of_small_removals_is_in_proportion_to_them():
    removed = np.repeat([0, 5, 10], [1, 40, 40])
    held_out, residual = np.arange(81) % 4 == 3, np.where(removed == 0, 0.0, np.where(removed == 5, 1.0, 2.0))
    found = spread_of(removed, residual, held_out)
    np.testing.assert_allclose(found(np.array([0, 5, 10])), [0.0, 1.0, 2.0], atol=1e-5)
    assert found.removed.tolist() == [0.0, 5.0, 10.0]
    removed = np.repeat([0, 1, 4, 6, 10], [1, 9, 30, 30, 30])  # 1 has too few rows for a bin of its own
    residual = np.sqrt(removed)
    held_out = (np.arange(100) % 4 == 3) & (removed > 1)
    found = spread_of(removed, residual, held_out)
    np.testing.assert_allclose(found(np.array([1, 2])) ** 2 / found(np.array([2, 4])) ** 2, [0.5, 0.5], rtol=0.1)


def test_many_small_removals_say_nothing_of_larger_ones():
    removed = np.repeat([0, 1, 4, 6], [1, 25, 60, 60])
    residual = np.where(removed > 1, np.sqrt(removed), 1e-3 * removed)
    found = spread_of(removed, residual, (np.arange(146) % 4 == 3) & (removed > 1))
    assert found(np.array([1]))[0] == pytest.approx(1e-3, rel=1e-2)
    np.testing.assert_allclose(found(np.array([2, 4, 6])), np.sqrt([2, 4, 6]), rtol=0.1)


def noisy(texts):
    """Log odds with a part for each word, one interaction and what nobody can predict."""
    effects = {"good": 2.0, "bad": -2.0, "not": -1.0, "very": 0.5}
    return [
        sum(effects.get(w, 0.1) for w in text.split())
        + ("not" in text.split() and "good" in text.split()) * -3.0
        + 0.3 * np.sin(1e4 * sum(map(ord, text)))
        for text in texts
    ]


def test_intervals_contain_the_scores_of_the_model():
    explainer = slalom.Explainer(noisy, output="log_odds", unit="word", queries=400)
    text = "this was not a very good film and the last part of it was bad but some of the rest was fun"
    e = explainer(text)
    keep = np.random.default_rng(1).random((300, len(e))) < np.random.default_rng(2).random((300, 1))
    keep[:, 0] = True
    ends = e.predict_interval(keep)
    inside = (ends[:, 0] <= (asked := explainer.ask(e, keep))) & (asked <= ends[:, 1])
    assert 0.88 <= inside.mean() <= 0.995
    np.testing.assert_allclose(ends.mean(axis=1), e.predict(keep))
    np.testing.assert_allclose(
        np.ptp(e.predict_interval(keep, 0.5), axis=1) * 1.959964 / 0.6744898, np.ptp(ends, axis=1), rtol=1e-6
    )
    np.testing.assert_allclose(e.predict_interval(keep[0]), ends[0], rtol=1e-12)
    back = slalom.Explanation.from_dict(e.to_dict())
    np.testing.assert_array_equal(back.predict_interval(keep), ends)
    with pytest.raises(InputError, match="level must be"):
        e.predict_interval(keep, 1.5)
    assert explainer(text, check=0).predict_interval(keep) is None


def test_an_interval_is_as_wide_as_the_change_and_the_removals_ask_for():
    """By hand: spread 0.2 for one removed atom; changes 1 and 3, so that the typical square is 5; removal_se 0.1 and 0.5."""
    spread, gone = Spread(np.array([0.0, 1.0]), np.array([0.0, 0.2])), np.array([[False, False], [True, False], [False, True]])
    removal = np.array([1.0, 3.0])
    variance = prediction_variance(spread, gone, np.ones(2, dtype=int), np.array([0.0, 1.0, 3.0]), removal, None)
    np.testing.assert_allclose(variance, [0.0, 0.04, 0.04 * (0.5 + 0.5 * 9 / 5)])
    wide = prediction_variance(spread, gone, np.ones(2, dtype=int), np.array([0.0, 1.0, 3.0]), removal, np.array([0.1, 0.5]))
    np.testing.assert_allclose(wide, [0.0, 0.04, 0.25])


def test_intervals_of_single_removals_hold_the_answers_of_a_classifier():
    """The bundled classifier: of the removals of single words, and of the ten strongest of each text."""
    explainer = slalom.Explainer(progress=False)
    inside, strongest = [], []
    for text in (
        "The first half is dull. The second half is one of the best things I have seen in years.",
        "I went in with low hopes, and the opening was slow, but the cast is wonderful and the last scene made me cry.",
    ):
        e = explainer(text, queries=200)
        keep = ~np.eye(len(e), dtype=bool)
        low, high = e.predict_interval(keep).T
        held = (low <= (asked := explainer.ask(e, keep))) & (asked <= high)
        inside += held.tolist()
        strongest += held[e.strongest(10)].tolist()
    assert np.mean(inside) >= 0.9
    assert np.mean(strongest) >= 0.85
