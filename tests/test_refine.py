"""Explanations in rounds: the last one is that of a call, each query is asked once, and every round is tested."""

from itertools import pairwise

import numpy as np
import pytest

from slalom import Explainer
from slalom.errors import InputError, ModelError
from slalom.result.wording import fidelity_text
from tests.cases import cases
from tests.oracle import Oracle

TEXT = "a good film with one bad end and a great cast that made it work in spite of all its many flaws"
VALUES = {"good": 3.0, "bad": -5.0, "great": 4.0, "flaws": -2.0, "work": 1.0}
LOUD = {"good": 1.0, "bad": 1.5, "great": 1.2, "flaws": 0.7, "a": -1.0}


def explainer(**options):
    return Explainer(Oracle(VALUES, LOUD, bias=0.3), output="log_odds", **options)


def saved(e):
    return {name: part for name, part in e.to_dict().items() if name != "seconds"}


class Three:
    """Three classes, by words that are there."""

    def __call__(self, texts):
        return np.array([[t.count("good") - t.count("bad"), 0.5 * t.count("great"), 0.1 * len(t.split())] for t in texts])


@cases(
    "options",
    [
        {},
        {"method": "ridge", "unit": "word", "queries": 330, "seed": 5, "check": 40},
        {"method": "eff", "queries": 120},
        {"method": "ridge", "queries": "auto", "max_queries": 400},
        {"method": "leave-one-out"},
        {"method": "ridge", "queries": 60, "check": 0},
    ],
    ids=str,
)
def test_the_last_round_is_what_a_call_returns_bit_by_bit(options):
    rounds = list(explainer().refine(TEXT, **options))
    assert saved(rounds[-1]) == saved(explainer()(TEXT, **options))


def test_all_classes_are_refined_too():
    rounds = list(Explainer(Three(), output="logits", queries=120, method="ridge").refine(TEXT, target="all"))
    assert len(rounds) == 2
    assert saved(rounds[-1]) == saved(Explainer(Three(), output="logits", queries=120, method="ridge")(TEXT, target="all"))


def test_rounds_double_and_every_query_is_asked_once():
    oracle = Oracle(VALUES, LOUD, bias=0.3)
    refined = Explainer(oracle, output="log_odds", queries=400, identity="oracle", method="ridge-scales")
    before = len(oracle.received)
    rounds = list(refined.refine(TEXT))
    asked = oracle.received[before:]
    assert len(asked) == len(set(asked)) == rounds[-1].queries
    tested = rounds[-1].held_out.keep.shape[0]
    assert [e.queries for e in rounds] == [50, 100 + tested, 200 + tested, 400 + tested]


def test_every_round_has_intervals_and_all_but_the_first_are_tested_by_the_same_rows():
    oracle = Oracle(VALUES, LOUD, bias=0.3)

    def wavering(texts):
        return np.array(oracle(texts)) + [0.02 * np.sin(1e3 * sum(map(ord, text))) for text in texts]

    rounds = list(Explainer(wavering, output="log_odds", queries=200).refine(TEXT))
    assert rounds[0].held_out is None
    assert fidelity_text(rounds[0]) == "not tested"
    for e in rounds:
        assert e.errors["removal"] is not None
        assert np.isfinite(e.errors["removal"]).all()
    for e in rounds[1:]:
        assert e.fidelity.near is not None
        assert e.fidelity.far is not None
        assert np.array_equal(e.held_out.keep, rounds[-1].held_out.keep)
        assert np.array_equal(e.held_out.scores, rounds[-1].held_out.scores)
        assert e.score == rounds[-1].score
        assert e.label == rounds[-1].label


def test_a_first_round_is_as_good_as_a_plan_of_its_own_size():
    """Beginnings of a large plan are plans: the whole text and the empty one, all sizes, and few rows without a weight."""
    errors, oracle = [], Oracle(VALUES, LOUD, bias=0.3)
    for seed in range(3):
        first = next(explainer(queries=200, check=0).refine(TEXT, seed=seed))
        alone = explainer(queries=50, check=0)(TEXT, seed=seed)
        truth, tests = oracle.surrogate(list(alone.units)), np.random.default_rng(seed).random((100, len(alone))) < 0.5
        errors.append([np.mean((e.predict(tests) - truth(tests.astype(float))) ** 2) for e in (first, alone)])
    first, alone = np.median(errors, axis=0)
    assert first < 2.0 * alone


def test_methods_that_choose_their_queries_have_one_round():
    assert len(list(explainer().refine(TEXT, method="leave-one-out"))) == 1
    assert len(list(explainer().refine(TEXT, queries=50))) == 1


def test_a_closed_generator_asks_nothing_more():
    oracle = Oracle(VALUES, LOUD, bias=0.3)
    refined = Explainer(oracle, output="log_odds", queries=400)
    rounds = refined.refine(TEXT)
    first = next(rounds)
    asked = len(oracle.received)
    rounds.close()
    assert len(oracle.received) == asked
    assert first.queries < 100


def test_steps_come_after_lots_of_queries_and_count_them():
    refined = explainer(queries=400, method="ridge-scales")
    steps = list(refined.steps(TEXT, seconds=1e-9))  # lots of 50, the smallest
    assert [step.explanation is not None for step in steps].count(True) == 4
    asking = [step for step in steps if step.explanation is None]
    assert len(asking) == 9, "50 in the first round, 40 + 50 in two lots, 100 and 200 in lots of 50"
    assert [step.queries for step in asking] == sorted({step.queries for step in asking})
    assert {step.of for step in steps} == {steps[-1].queries}
    assert [step.final for step in steps].index(True) == len(steps) - 1
    for step, following in pairwise(steps):
        assert (following.explanation is not None) == (step.answered and step.explanation is None)
    assert saved(steps[-1].explanation) == saved(refined(TEXT))


def test_errors_come_before_any_query():
    oracle = Oracle(VALUES, LOUD, bias=0.3)
    refined = Explainer(oracle, output="log_odds")
    asked = len(oracle.received)
    for options in ({"target": "nothing"}, {"first": 1}, {"unit": "page"}):
        with pytest.raises(InputError):
            next(refined.refine(TEXT, **options))
    with pytest.raises(InputError, match="at least one"):
        next(refined.refine(""))
    assert len(oracle.received) == asked


def test_a_model_that_fails_in_a_later_round_raises():
    calls = []

    def fails(texts):
        calls.append(len(texts))
        return [np.nan if len(calls) > 2 else float(len(t)) for t in texts]

    rounds = Explainer(fails, output="log_odds", queries=200).refine(TEXT)
    with pytest.raises(ModelError, match="NaN"):
        list(rounds)


def test_decide_is_what_the_model_says_of_whole_texts():
    refined = explainer()
    scores, decisions = refined.decide([TEXT, "bad", ""])
    e = refined(TEXT)
    assert scores[0] == e.score
    assert decisions[0].label == e.label
    assert [d.label for d in decisions[1:]] == ["0", "1"]
    keep = [[1] * len(e), [0] * len(e)]
    scores, decisions = refined.decide_parts(e, keep)
    assert scores.tolist() == refined.ask(e, keep).tolist()
    assert [d.label for d in decisions] == [e.label, "1"]
    with pytest.raises(InputError, match="not a class"):
        refined.decide(["x"], "nothing")
