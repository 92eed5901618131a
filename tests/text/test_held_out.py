"""Held-out queries of short texts: enough of them for an R2, or none."""

import numpy as np

import slalom
from slalom.result.fidelity import LEAST_QUERIES
from slalom.result.wording import all_asked, fidelity_text
from slalom.text import QueryPlan, query_keys, reserved
from slalom.text.held_out import LEAST
from tests.cases import cases

WORDS = ["alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet", "kilo", "lima"]
VALUES = dict(zip(WORDS, 2.0 * np.random.default_rng(0).normal(size=12), strict=True))


def answers(texts):
    """A weighted mean of word values, with a pair."""
    scores = []
    for text in texts:
        words = [word for word in text.split() if word in VALUES]
        pair = 0.3 * ("alpha" in words and "charlie" in words)
        scores.append(sum(VALUES[word] for word in words) / (2 + len(words)) + pair)
    return scores


@cases("n", [1, 2, 5, 6, 12])
def test_short_texts_are_tested_or_say_why_not(n):
    e = slalom.Explainer(answers, output="log_odds", progress=False)(" ".join(WORDS[:n]))
    assert e.queries <= 2**n
    for q in e.fidelity:
        assert q is None or (q.r2 is None) == (q.queries < LEAST_QUERIES)
        assert q is None or q.r2 is None or q.r2 > 0.5
    if n < 6:
        assert e.fidelity == (None, None)
        assert e.queries == 2**n
        assert all_asked(e)
        exact = "the surrogate is exact" if e.fit_r2 > 1 - 1e-9 else f"R2 = {e.fit_r2:.3f}"
        assert f"all parts of this text ({2**n}) were asked and fitted" in fidelity_text(e)
        assert exact in fidelity_text(e)
    else:
        assert all(q.r2 is not None for q in e.fidelity)


def test_one_word_is_exact():
    e = slalom.Explainer(answers, output="log_odds", progress=False)("alpha")
    np.testing.assert_allclose(e.predict([[1], [0]]), answers(["alpha", ""]), atol=1e-5)
    assert e.removal[0] == answers(["alpha"])[0] - answers([""])[0]  # the model's own answers
    assert "all parts of this text (2) were asked and fitted" in fidelity_text(e)


@cases("names", [WORDS[:7], ["very", "very", "good", "film", "and", "so", "on", "it"]])
def test_reserved_rows_are_not_fitted(names):
    n = len(names)
    every = (np.arange(1, 2**n)[:, None] >> np.arange(n)) & 1 == 1
    plan, near, far = reserved(QueryPlan(every, np.ones(len(every))), names, 20, np.random.default_rng(0))
    assert len(near) == len(far) == 10 >= LEAST
    assert ((~near).sum(axis=1) <= n // 2).all()
    assert ((~near).sum(axis=1) > 1).all()
    assert not near.all(axis=1).any()
    fitted, held = set(query_keys(plan.keep, names)), query_keys(np.concatenate([near, far]), names)
    assert not fitted & set(held)
    assert len(set(held)) == 20
    assert fitted | set(held) == set(query_keys(every, names))
    assert plan.keep.all(axis=1).sum() == 1


def test_long_texts_and_open_plans_are_left_as_they_are():
    plan = QueryPlan(np.ones((1, 10), dtype=bool), np.ones(1))
    assert reserved(plan, WORDS[:10], 20, np.random.default_rng(0))[0] is plan
