"""Pairs of an explanation: planted ones are found, listed with the model's own answers, and part of every score and file."""

import zlib

import numpy as np
import pytest

import slalom
from slalom.core import Slalom

WORDS = ("this", "film", "was", "not", "a", "very", "good", "one", "and", "its", "end", "is", "dull", "but", "fun")
TEXT = " ".join(WORDS)


def model(texts):
    """Log odds of the words, and -3 where "not" and "good" are both there."""
    effects = {"good": 2.0, "not": -0.5, "dull": -1.0, "fun": 1.0}
    return [
        sum(effects.get(w, 0.0) for w in text.split())
        + (-3.0 if {"not", "good"} <= set(text.split()) else 0.0)
        + 0.05 * np.sin(1e3 * sum(map(ord, text)))
        for text in texts
    ]


@pytest.fixture(scope="module")
def explainer():
    return slalom.Explainer(model, output="log_odds", unit="word", queries=300)


@pytest.fixture(scope="module")
def e(explainer):
    return explainer(TEXT)


def four_combinations(explainer, e, i, j):
    """What the model says: F(all) - F(without i) - F(without j) + F(without both)."""
    keep = np.ones((4, len(e)), dtype=bool)
    keep[1, i] = keep[2, j] = keep[3, i] = keep[3, j] = False
    whole, *without = explainer.ask(e, keep)
    return whole - without[0] - without[1] + without[2]


def test_a_pair_has_the_effect_that_the_model_gives_it(e, explainer):
    assert [e.units[i] for i in e.pairs[0].units] == ["not", "good"]
    assert e.pairs[0].effect == pytest.approx(-3.0, abs=0.2)
    assert len(e.pairs) == 1  # the others are noise
    for pair in e.pairs:
        assert pair.effect == pytest.approx(four_combinations(explainer, e, *pair.units), abs=1e-12)
        assert pair.se is None  # the model's own answers


def test_pairs_do_not_depend_on_the_seed_or_the_budget():
    explainer = slalom.Explainer(progress=False)
    for text, first, second, seed, queries in (
        ("This is not a good film at all.", "not", "good", 1, 120),
        ("It lacks heart and fails to entertain.", "lacks", "fails", 0, 200),
    ):
        e = explainer(text, seed=seed, queries=queries)
        pair = e.pairs[0]
        assert tuple(e.units[i] for i in pair.units) == (first, second)
        assert pair.effect == pytest.approx(four_combinations(explainer, e, *pair.units), abs=1e-5)


def test_the_queries_about_pairs_are_counted_and_respect_the_limit():
    asked = []

    def counting(texts):
        asked.extend(texts)
        return model(texts)

    explainer = slalom.Explainer(counting, output="log_odds", unit="word", queries=100)
    asked.clear()  # what finds out the number of outputs
    e = explainer(TEXT)
    assert e.queries == len(set(asked))
    assert [e.units[i] for i in e.pairs[0].units] == ["not", "good"]
    without = explainer(TEXT, pairs=False)
    assert 0 < e.queries - without.queries <= 12
    assert explainer(TEXT, max_queries=without.queries).pairs == ()
    last = list(explainer.refine(TEXT))[-1]
    assert (last.pairs, last.queries) == (e.pairs, e.queries)


def test_a_pair_is_part_of_predictions_and_removals(e, explainer):
    rng = np.random.default_rng(0)
    keep = rng.random((200, len(e))) < 0.6
    keep[:, 0] = True
    asked = explainer.ask(e, keep)
    assert np.mean((e.predict(keep) - asked) ** 2) < 0.01 * asked.var()
    i, j = e.units.index("not"), e.units.index("good")
    rows = np.ones((4, len(e)), dtype=bool)
    rows[1, i] = rows[2, j] = rows[3, i] = rows[3, j] = False
    whole, one, other, both = e.predict(rows)
    assert whole - one - other + both == pytest.approx(-3.0, abs=0.3)
    assert whole == pytest.approx(e.score, abs=0.02)
    assert e.removal[i] == pytest.approx(float(e.score - explainer.ask(e, rows[1])), abs=1e-9)  # the model's own answer
    assert e.shapley().sum() == pytest.approx(float(whole - e.base), abs=0.01)
    without = explainer(TEXT, pairs=False)
    assert without.pairs == ()
    assert without.settings["pairs"] is False


def test_pairs_are_saved_and_merged(e):
    back = slalom.Explanation.from_dict(e.to_dict())
    assert back.pairs == e.pairs
    merged = e.merge("sentence")
    assert merged.pairs == ()  # both words are in one sentence
    np.testing.assert_allclose(merged.predict([[1.0]]), e.predict([np.ones(len(e))]), atol=1e-9)


def test_a_pair_in_a_model_of_competition_is_found_with_its_effect():
    n, rng = 30, np.random.default_rng(10)
    planted = Slalom(2.0 * rng.normal(size=n), rng.normal(size=n), 0.3)
    words = [f"w{i}" for i in range(n)]

    def noisy(texts):
        keep = np.array([[word in text.split() for word in words] for text in texts], dtype=float)
        noise = [np.random.default_rng(zlib.crc32(text.encode())).normal() for text in texts]
        return planted(keep) + 2.0 * keep[:, 3] * keep[:, 7] + 0.05 * np.array(noise)

    explainer = slalom.Explainer(noisy, output="log_odds", queries=500)
    e = explainer(" ".join(words))
    assert e.pairs[0].units == (3, 7)
    rows = np.ones((4, n))
    rows[1, 3] = rows[2, 7] = rows[3, 3] = rows[3, 7] = 0.0
    expected = 2.0 + planted(rows) @ [1.0, -1.0, -1.0, 1.0]
    assert e.pairs[0].effect == pytest.approx(expected, abs=0.3)


def test_a_model_that_fails_at_pairs_loses_no_explanation():
    e = slalom.Explainer(model, output="log_odds", unit="word", queries=100)(TEXT)
    asked, limit = [], e.queries - e.pair_queries

    def tired(texts):
        asked.extend(texts)
        if len(asked) > limit + 2:  # two strings find out what it returns
            raise RuntimeError("out of memory")
        return model(texts)

    kept = slalom.Explainer(tired, output="log_odds", unit="word", queries=100)(TEXT)
    assert kept.pairs == ()
    np.testing.assert_array_equal(kept.removal, e.removal)
    assert "Pairs could not be checked" in kept.notes[-1]
    assert "out of memory" in kept.notes[-1]
    limited = slalom.Explainer(model, output="log_odds", unit="word", queries=100, prices={"input": 1.0}, max_cost=1.0)
    assert limited.estimate(TEXT).further == limited(TEXT).pair_queries == 0


def test_very_few_queries_give_no_intervals():
    explainer = slalom.Explainer(model, output="log_odds", unit="word")
    assert explainer(TEXT, queries=10).interval() is None  # fewer than units
    assert explainer(TEXT, queries=30).interval() is not None
    assert explainer("not good", queries=30).interval() is not None  # few, but all there are
