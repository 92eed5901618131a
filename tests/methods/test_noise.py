"""Fits of scores that are noisy, known only between bounds, or missing."""

import json
from contextlib import nullcontext

import numpy as np
import pytest

import slalom
from slalom.core import Slalom
from slalom.methods import MethodContext
from slalom.methods import method as find_method
from slalom.models import Observed
from slalom.models.base import Model
from slalom.models.callable import StringReading
from slalom.models.head import Head
from slalom.result import Explanation, quality
from slalom.text import units
from tests.cases import cases

N = 20


def text_of(n=N):
    words = [f"w{i}" for i in range(n)]
    ends = np.cumsum([len(word) + 1 for word in words]) - 1
    spans = np.stack([ends - [len(word) for word in words], ends], axis=1)
    return units(" ".join(words), "token", tuple(words), spans, np.arange(n))


def planted(seed, n=N):
    rng = np.random.default_rng(seed)
    return Slalom(rng.normal(size=n), rng.normal(size=n), 0.3)


def planned(name, seed=0, queries=200, n=N):
    return find_method(name).plan(text_of(n), queries, np.random.default_rng(seed), True)


def explained(name, plan, scores, observed, seed=0, pairs=True):
    whole, text = (
        int(np.flatnonzero(plan.keep.all(axis=1))[0]) if plan.keep.all(axis=1).any() else 0,
        text_of(plan.keep.shape[1]),
    )
    context = MethodContext(None, None, text, plan, scores, scores[whole], 0, len(plan.keep), seed, None, pairs, observed)
    return find_method(name).explain(context)


# --- fits


@cases("name", ["joint", "local"])
def test_exact_scores_give_the_same_bits_with_and_without_observed(name):
    plan = planned(name)
    scores = planted(0)(plan.keep.astype(float))
    plain, given = (explained(name, plan, scores, observed) for observed in (None, Observed(scores)))
    assert plain.surrogate.to_dict() == given.surrogate.to_dict()
    assert plain.r2 == given.r2
    for one, other in zip(plain, given, strict=True):
        if isinstance(one, np.ndarray):
            np.testing.assert_array_equal(one, other)


def test_noise_of_known_size_costs_less_where_rows_are_weighed():
    """Every second row has a noise of 1.5 log odds, which the variances say."""
    errors = np.zeros(2)
    for seed in range(3):
        rng, truth, plan = np.random.default_rng(seed), planted(seed), planned("local", seed)
        variance = np.where(np.arange(len(plan.keep)) % 2, 2.25, 0.01)
        scores = truth(plan.keep.astype(float)) + np.sqrt(variance) * rng.normal(size=len(variance))
        for i, observed in enumerate((Observed(scores, variance), None)):
            removal = explained("local", plan, scores, observed, seed).surrogate.removal()
            errors[i] += np.mean((removal - truth.removal()) ** 2)
    assert errors[0] < 0.7 * errors[1]


def test_few_samples_do_not_shrink_large_effects_and_intervals_hold():
    """Five words of 20 add 1 or 1.5 log odds, the others nothing; 16 samples a row, read as the API reads them."""
    effects = np.zeros(N)
    effects[[1, 4, 8, 12, 15]] = 1.5, -1.0, 1.0, -1.5, 1.0
    strong, found = effects != 0.0, []
    for seed in range(4):
        plan = planned("joint", seed)
        scores = plan.keep @ effects - 0.5 * effects.sum()
        hits = np.random.default_rng(seed).binomial(16, 1.0 / (1.0 + np.exp(-scores))).astype(float)
        y, variance = np.log((hits + 1.0) / (17.0 - hits)), 1.0 / (hits + 1.0) + 1.0 / (17.0 - hits)
        result = explained("joint", plan, y, Observed(y, variance, None, None, hits, np.full(len(y), 16.0)), seed)
        off = result.surrogate.removal() - effects
        held = np.abs(off) <= 1.96 * result.errors["removal"]
        found.append((1.0 + off[strong] @ effects[strong] / (effects @ effects), held[strong].mean(), held[~strong].mean()))
        assert not result.measured  # noisy answers do not replace predictions
    recovered, held_strong, held_others = np.mean(found, axis=0)
    assert 0.85 < recovered < 1.1
    assert held_strong >= 0.8
    assert held_others >= 0.88


@cases(("name", "classes"), [("joint", None), ("local", 3)])
def test_a_refused_answer_has_no_influence(name, classes):
    plan = planned(name, queries=80)
    scores = planted(0)(plan.keep.astype(float))
    scores = scores if classes is None else np.stack([scores, -scores, 0.5 * scores], axis=1)
    refused = np.arange(len(scores)) % 7 == 3
    refused |= ~plan.keep.any(axis=1)
    refused &= ~plan.keep.all(axis=1)
    results = []
    for filler in (0.0, 50.0):
        y = np.where(refused if classes is None else refused[:, None], filler, scores)
        known = y if classes is None else np.zeros(len(y))
        observed = Observed(y, None, np.where(refused, -np.inf, known), np.where(refused, np.inf, known))
        results.append(explained(name, plan, y, observed))
    assert results[0].surrogate.to_dict() == results[1].surrogate.to_dict()
    assert results[0].r2 == results[1].r2 > 0.95
    assert np.isfinite(results[0].surrogate.predict(plan.keep[refused])).all()  # the empty text too


def test_nothing_known_gives_a_constant():
    plan = planned("joint")
    scores = np.zeros(len(plan.keep))
    result = explained("joint", plan, scores, Observed(scores, None, scores - np.inf, scores + np.inf))
    assert np.ptp(result.surrogate.predict(plan.keep)) < 1e-9


# --- through the pipeline


class Sampling(Model):
    """A SLALOM of words that answers with noise of a known variance; some answers are refused."""

    def __init__(self, noise=0.5, refuse=0.0):
        self.head, self.name, self.truth = Head("score", ("0", "1")), "sampling", planted(3)
        self.noise, self.refuse = noise, refuse

    @property
    def n_columns(self):
        return 2

    def read(self, text, long, spans):
        return StringReading(text, spans, True)

    def identity(self):
        return None

    def session(self):
        return nullcontext()

    def batch_rows(self, length):
        return 64

    def shrink(self):
        pass

    def submit(self, inputs):
        rows = []
        for text in inputs:
            present = np.isin([f"w{i}" for i in range(N)], text.split())
            rng = np.random.default_rng([*text.encode()])
            answered = rng.random() >= self.refuse or present.all()
            rows.append((self.truth(present[None].astype(float))[0] + self.noise * rng.normal(), float(answered)))
        return np.array(rows)

    def collect(self, handle):
        return handle

    def observe(self, outputs, target):
        scores, refused = outputs[:, 0], outputs[:, 1] == 0.0
        variance = np.full(len(scores), self.noise**2) if self.noise else None
        if not refused.any():
            return Observed(scores, variance)
        scores = np.where(refused, 0.0, scores)
        return Observed(scores, variance, np.where(refused, -np.inf, scores), np.where(refused, np.inf, scores))


TEXT = " ".join(f"w{i}" for i in range(N))


def test_ceiling_is_that_of_the_formula_and_is_shown_and_saved():
    e = slalom.Explainer(Sampling(0.5), unit="word", queries=200, check=100)(TEXT)
    tested = e.held_out
    for q, rows in ((e.fidelity.near, slice(0, tested.near)), (e.fidelity.far, slice(tested.near, None))):
        scores = tested.scores[rows]
        assert q.ceiling == pytest.approx(max(1.0 - 0.25 / scores.var(), 0.0))
        assert q.r2 == pytest.approx(1.0 - np.mean((e.predict(tested.keep[rows]) - scores) ** 2) / scores.var())
        assert q.r2 < q.ceiling + 0.2
        assert f"{q.r2:.2f} of about {q.ceiling:.2f} at best" in repr(e)
    again = Explanation.from_dict(json.loads(e.to_json()))
    assert again.fidelity == e.fidelity


def test_refused_answers_do_not_count_in_fidelity():
    clean, refusing = (
        slalom.Explainer(Sampling(0.0, refuse), unit="word", queries=200, check=100)(TEXT) for refuse in (0.0, 0.3)
    )
    left = len(refusing.held_out.scores)
    assert 50 < left < 90
    assert refusing.fidelity.near.queries + refusing.fidelity.far.queries == left
    known = {row.tobytes(): score for row, score in zip(clean.held_out.keep, clean.held_out.scores, strict=True)}
    assert all(
        known[row.tobytes()] == score for row, score in zip(refusing.held_out.keep, refusing.held_out.scores, strict=True)
    )
    assert refusing.fidelity.far.r2 > 0.95


def test_auto_budget_works_with_noise_and_refusals():
    e = slalom.Explainer(Sampling(0.5, 0.2), unit="word", queries="auto", max_queries=200, method="ridge")(TEXT)
    assert e.stopped
    assert e.fidelity.far.ceiling is not None


def test_a_ceiling_of_nothing_is_no_ratio():
    answers = np.arange(9.0)
    noisy = quality(answers + 3.0, answers, np.full(9, 7.0))
    assert (noisy.ceiling, noisy.shown) == (0.0, "-0.35 (the answers vary no more than their noise)")
    assert quality(answers + 3.0, answers, np.full(9, 6.0)).shown == "-0.35 of about 0.10 at best"


def test_few_answers_get_no_r2():
    q = quality(np.arange(7.0), np.arange(7.0) + 0.5)
    assert (q.r2, q.mse, q.shown) == (None, 0.25, "unknown, as it needs 8 queries")
    assert quality(np.arange(8.0), np.arange(8.0) + 0.5).r2 is not None
