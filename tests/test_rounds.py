"""Rows that depend on answers: asked in rounds, together with those of other texts, within budgets and limits."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pytest

from slalom import Explainer
from slalom.core import Linear, fit
from slalom.methods import Method, MethodResult
from slalom.pipeline import pipeline
from slalom.text import Scales
from tests.cases import cases
from tests.methods.test_noise import Sampling

N = 30
TEXTS = [" ".join(f"w{(7 * i + k) % 40}" for i in range(N)) for k in range(5)]
PRICES = {"input": 1.0}


def scores(texts):
    """Log odds of the words, -2 where two of them are both there, and a little of the whole."""
    effects = {f"w{i}": float(np.sin(i)) for i in range(40)}
    return [
        sum(effects.get(word, 0.0) for word in text.split())
        - 2.0 * ({"w1", "w8"} <= set(text.split()))
        + 0.05 * np.sin(1e3 * sum(map(ord, text)))
        for text in texts
    ]


def made(model=scores, **options):
    """An explainer, and a list that gets the number of texts of every call of its engine."""
    explainer, calls = Explainer(model, unit="word", **{"output": "log_odds", "queries": 100, "progress": False, **options}), []
    explainer.engine.ended = lambda texts, error: calls.append(texts)
    return explainer, calls


def saved(e):
    return {name: part for name, part in e.to_dict().items() if name != "seconds"}


def removed_alone(e):
    """How many units have the model's own answer about their removal."""
    return int((~np.isnan(e.measured["removal"])).sum())


def test_all_texts_of_a_block_are_asked_in_one_call_per_round(monkeypatch):
    alone, _ = made()
    expected = [saved(alone(text)) for text in TEXTS]
    assert any(e["pairs"] for e in expected)
    explainer, calls = made()
    assert [saved(e) for e in explainer(TEXTS)] == expected
    assert len(calls) == 3, "the plans, the strongest units, pairs"
    monkeypatch.setattr(pipeline, "_BLOCK", 2)
    explainer, calls = made()
    stream = explainer.stream(TEXTS)
    assert saved(next(stream)) == expected[0]
    assert calls[:2] == [5, 2], "the first block does not wait for others"
    assert [saved(e) for e in stream] == expected[1:]
    assert len(calls) <= 1 + 2 * 3


@cases("noise", [0.0, 0.5])
def test_models_are_asked_all_rows_of_the_budget(noise):
    text = " ".join(f"w{i}" for i in range(N))
    explainer, _ = made(Sampling(noise), output=None, queries=150)
    e = explainer(text, pairs=False, check=20)
    assert e.queries == 150 + 20
    if noise:
        assert not e.measured
    else:
        assert removed_alone(e) >= 10
        assert not np.isnan(e.measured["removal"][e.strongest(5)]).any()


def test_rows_that_are_asked_do_not_test():
    explainer, _ = made(queries=80)
    for text in TEXTS:
        e = explainer(text, pairs=False)
        held_out = {int(np.argmin(row)) for row in e.held_out.keep if (~row).sum() == 1}
        assert not held_out & set(np.flatnonzero(~np.isnan(e.measured["removal"])).tolist())


def test_rows_are_asked_where_the_money_suffices():
    plain, _ = made()
    expected = plain(TEXTS[0], pairs=False)
    estimate = made(prices=PRICES)[0].estimate(TEXTS[0])
    for share, number in ((1.0001, removed_alone(expected) - 10), (1.2, removed_alone(expected))):
        explainer, _ = made(prices=PRICES, max_cost=share * estimate.cost)
        e = explainer(TEXTS[0])
        assert removed_alone(e) == number
        assert explainer.engine.spending.spent <= share * estimate.cost
    assert e.removal.tolist() == expected.removal.tolist()


def test_what_follows_is_paid_first(monkeypatch):
    """As many texts are planned at a time as fit into memory; the money of the others is kept for their plans."""
    monkeypatch.setattr(pipeline, "_CELLS", 1)
    cost = made(prices=PRICES)[0].estimate(TEXTS).cost
    explainer, _ = made(prices=PRICES, max_cost=1.05 * cost, identity="scores")
    explanations = explainer(TEXTS)
    assert len(explanations) == len(TEXTS)
    assert explainer.engine.spending.reserved == pytest.approx(0.0, abs=1e-9 * cost)
    asked = [removed_alone(e) for e in explanations]
    assert min(asked) < max(asked) == asked[0], "the first one may ask, as 5% are left"


def test_growing_budgets_keep_the_rows():
    explainer, _ = made(queries="auto", max_queries=200)
    e = explainer(TEXTS[0], pairs=False)
    assert e.stopped == "max_queries, 200, is reached (round 2)"
    assert 190 <= e.queries - len(e.held_out.keep) <= 200, "the strongest units of the first round are not asked again"
    assert not np.isnan(e.measured["removal"][e.strongest(5)]).any()
    assert removed_alone(e) > removed_alone(explainer(TEXTS[0], queries=100, pairs=False))
    assert saved(list(explainer.refine(TEXTS[0], pairs=False))[-1]) == saved(e)


@cases("limit", [None, 125])
def test_refine_ends_with_the_same_explanation(limit):
    explainer, _ = made(max_queries=limit)
    assert saved(list(explainer.refine(TEXTS[0]))[-1]) == saved(explainer(TEXTS[0]))
    assert explainer(TEXTS[0]).queries <= (limit or 1000)


@dataclass(frozen=True)
class InTurn(Method):
    """Least squares of a few subsets; then rows without one unit each, one per round."""

    name: str = "in-turn"
    plans_all: ClassVar[bool] = True

    def further(self, n, budget):
        return 3

    def plan(self, units, budget, rng, empty):
        return Scales().draw(units.type_of_unit, budget - 3, rng, empty)

    def next_rows(self, context):
        state = context.before or 0
        return [[float(i != state) for i in range(len(context.units))]] * (state < 5), state + 1

    def explain(self, context):
        assert [int(np.argmin(row)) for row in context.plan.keep[-3:]] == [0, 1, 2]
        return MethodResult(fit(context.plan.keep.astype(float), context.scores, Linear()).model)


def test_a_method_may_ask_in_several_rounds():
    explainer, calls = made(method=InTurn())
    assert explainer.estimate(TEXTS[0]).further == 3
    assert len(explainer(TEXTS[:3])) == 3
    assert calls == [3] * 4, "the budget ends them"


def test_a_text_that_fails_in_a_later_round_fails_alone():
    calls = []

    def tired(texts):
        if calls and any("end" in text for text in texts):
            raise ValueError("tired")
        return scores(texts)

    explainer = Explainer(tired, output="log_odds", unit="word", queries=100)
    explainer.engine.ended = lambda texts, error: calls.append(texts)
    kept = explainer([TEXTS[0], TEXTS[1] + " end", TEXTS[2]], errors="keep", pairs=False)
    assert [failure.number for failure in kept.failures] == [1]
    assert [removed_alone(e) >= 10 for e in kept] == [True, True]
    assert calls == [3, 3, 1, 1, 1]


def test_a_call_that_ended_early_leaves_no_money_reserved():
    cost = made(prices=PRICES)[0].estimate(TEXTS[0]).cost
    found = []
    for abandoned in (False, True):
        explainer, _ = made(prices=PRICES, max_cost=5 * cost)
        if abandoned:
            rounds = explainer.refine(TEXTS[1], queries=200)
            next(rounds)
            rounds.close()
        e = explainer(TEXTS[0], queries="auto")
        found.append((e.queries, explainer.engine.spending.reserved))
    (most, _), (queries, reserved) = found
    assert queries <= most
    assert "more than is left" not in e.stopped or explainer.engine.spending.spent > 3 * cost
    assert reserved == pytest.approx(0.0, abs=1e-9 * cost)


@pytest.mark.parametrize("call", [1, 2, 3])  # the plans, the strongest units, the pairs
def test_an_interruption_that_a_model_turns_into_an_error_ends_a_call(call):
    calls = [-10]  # the model is tried before

    def interrupted(texts):
        calls[0] += 1
        if calls[0] == call:
            try:
                raise KeyboardInterrupt
            except KeyboardInterrupt as error:
                raise RuntimeError("interrupted") from error
        return scores(texts)

    explainer, _ = made(interrupted)
    calls[0] = 0
    with pytest.raises(KeyboardInterrupt):
        explainer(TEXTS, errors="keep")
