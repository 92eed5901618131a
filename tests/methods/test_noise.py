"""Fits of scores that are noisy, known only between bounds, or missing."""

import json
from contextlib import nullcontext

import numpy as np
import pytest
from scipy.stats import binom, norm

import slalom
from slalom.core import Slalom
from slalom.core.fitting.noise import imputed, misfit_variance, truncated_normal, working
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
    return Slalom(2.0 * rng.normal(size=n), 1.5 * rng.normal(size=n), background=(0.0, 1.0))


def planned(name, seed=0, queries=200, n=N):
    return find_method(name).plan(text_of(n), queries, np.random.default_rng(seed), True)


def explained(name, plan, scores, observed, seed=0, pairs=True):
    whole, text = (
        int(np.flatnonzero(plan.keep.all(axis=1))[0]) if plan.keep.all(axis=1).any() else 0,
        text_of(plan.keep.shape[1]),
    )
    context = MethodContext(None, None, text, plan, scores, scores[whole], 0, len(plan.keep), seed, None, pairs, observed)
    return find_method(name).explain(context)


def sampled(rng, scores, draws=16):
    hits = rng.binomial(draws, 1.0 / (1.0 + np.exp(-scores)))
    return np.log((hits + 0.5) / (draws - hits + 0.5)), 1.0 / (hits + 0.5) + 1.0 / (draws - hits + 0.5)


# --- the parts


def test_truncated_normal_stays_between_far_and_narrow_bounds():
    lower, upper = np.array([50.0, -60.0, 0.2, -np.inf]), np.array([51.0, -50.0, 0.2 + 1e-9, np.inf])
    expected, variance = truncated_normal(np.zeros(4), np.ones(4), lower, upper)
    assert ((expected >= lower) & (expected <= upper)).all()
    assert (variance >= 0.0).all()
    assert (expected[3], variance[3]) == (0.0, 1.0)


def test_working_scores_and_weights_give_slope_and_curvature_of_the_likelihood():
    def between(mean):
        return np.log(norm.cdf((1.5 - mean) / 0.7) - norm.cdf((-0.2 - mean) / 0.7))

    def counted(mean):
        return binom.logpmf(3, 16, 1.0 / (1.0 + np.exp(-mean)))

    mean, step = 0.9, 1e-4
    score, weight = imputed(np.array([mean]), np.array([0.7]), np.array([-0.2]), np.array([1.5]))
    other, variance = working(np.array([mean]), np.array([3.0]), np.array([16.0]))
    for log_likelihood, y, precision in ((between, score[0], weight[0] / 0.49), (counted, other[0], 1.0 / variance[0])):
        slope = (log_likelihood(mean + step) - log_likelihood(mean - step)) / (2 * step)
        curvature = (log_likelihood(mean + step) - 2 * log_likelihood(mean) + log_likelihood(mean - step)) / step**2
        assert np.isclose(precision * (y - mean), slope, rtol=1e-5)
        assert np.isclose(-precision, curvature, rtol=1e-4)


def test_steps_of_impossible_draws_are_bounded_and_point_the_right_way():
    score, variance = working(np.array([-40.0, 40.0]), np.array([16.0, 0.0]), np.array([16.0, 16.0]))
    assert (score - np.array([-40.0, 40.0])).tolist() == [64.0, -64.0]
    assert variance.tolist() == [4.0, 4.0]


def test_misfit_is_what_residuals_have_beyond_the_noise():
    rng = np.random.default_rng(0)
    variance, design = rng.uniform(0.1, 2.0, 20_000), rng.uniform(0.5, 3.0, 20_000)
    residual = rng.normal(size=20_000) * np.sqrt(0.3 / design + variance)
    assert abs(misfit_variance(residual, variance, design, 1.0) - 0.3) < 0.03
    assert misfit_variance(0.1 * residual, variance, design, 1.0) == pytest.approx(1e-3 * np.median(variance), rel=1e-6)


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
    for seed in range(2):
        rng, truth, plan = np.random.default_rng(seed), planted(seed), planned("local", seed)
        variance = np.where(np.arange(len(plan.keep)) % 2, 2.25, 0.01)
        scores = truth(plan.keep.astype(float)) + np.sqrt(variance) * rng.normal(size=len(variance))
        for i, observed in enumerate((Observed(scores, variance), None)):
            removal = explained("local", plan, scores, observed, seed).removal(text_of())
            errors[i] += np.mean((removal - truth.removal()) ** 2)
    assert errors[0] < 0.7 * errors[1]


def test_noise_is_not_extrapolated_from_rows_of_many_removals_to_single_ones():
    """Where a SLALOM is the truth, the correction of 16 samples a row must do little harm."""
    errors = np.zeros(2)
    for seed in range(3):
        rng, truth = np.random.default_rng(seed), planted(seed, 40)
        plan = planned("joint", rng, n=40)
        scores, variance = sampled(rng, truth(plan.keep.astype(float)))
        result = explained("joint", plan, scores, Observed(scores, variance), seed, pairs=False)
        for i, removal in enumerate((result.removal(text_of(40)), result.surrogate.far.removal())):
            errors[i] += np.mean((removal - truth.removal()) ** 2)
    assert errors[0] < 1.1 * errors[1]


def test_samples_that_are_all_alike_tell_no_effects_near_the_text():
    """All of 16 samples are hits wherever fewer than 12 of 60 units are removed: what the draws differ in is not known."""
    rng = np.random.default_rng(0)
    plan = planned("joint", rng, 400, 60)
    scores = 9.0 * plan.keep.mean(axis=1) - 3.0 + 0.3 * plan.keep[:, 7]
    hits = np.where(plan.keep.mean(axis=1) > 0.8, 16.0, rng.binomial(16, 1.0 / (1.0 + np.exp(-scores))))
    y, variance = np.log((hits + 1.0) / (17.0 - hits)), 1.0 / (hits + 1.0) + 1.0 / (17.0 - hits)
    result = explained("joint", plan, y, Observed(y, variance, None, None, hits, 0.0 * y + 16.0), pairs=False)
    truth = 9.0 / 60 + 0.3 * (np.arange(60) == 7)
    held = np.abs(result.removal(text_of(60)) - truth) <= 1.96 * result.removal_se
    assert held.mean() > 0.75  # with the noise that rows which are all alike seem to have: none


def test_few_samples_do_not_shrink_large_effects_and_intervals_hold():
    """Five words of 20 add 1 or 1.5 log odds, the others nothing; 16 samples a row, read as the API reads them."""
    effects = np.zeros(N)
    effects[[1, 4, 8, 12, 15]] = 1.5, -1.0, 1.0, -1.5, 1.0
    strong, kinds = effects != 0.0, {"counts": [], "variances": []}
    for seed in range(3):
        plan = planned("joint", seed)
        scores = plan.keep @ effects - 0.5 * effects.sum()
        hits = np.random.default_rng(seed).binomial(16, 1.0 / (1.0 + np.exp(-scores))).astype(float)
        y, variance = np.log((hits + 1.0) / (17.0 - hits)), 1.0 / (hits + 1.0) + 1.0 / (17.0 - hits)
        for kind, draws in (("counts", (None, None, hits, np.full(len(y), 16.0))), ("variances", ())):
            result = explained("joint", plan, y, Observed(y, variance, *draws), seed)
            off = result.removal(text_of()) - effects
            held = np.abs(off) <= 1.96 * result.removal_se
            recovered = 1.0 + off[strong] @ effects[strong] / (effects @ effects)
            kinds[kind].append((recovered, held[strong].mean(), held[~strong].mean(), np.mean(off**2)))
    counts, variances = (np.mean(kinds[kind], axis=0) for kind in kinds)
    assert 0.88 < counts[0] < 1.1
    assert variances[0] < 0.85
    assert counts[1] >= 0.85 > variances[1]
    assert counts[2] > 0.8
    assert counts[3] < variances[3]


def test_counts_of_refused_answers_have_no_influence():
    plan = planned("joint")
    hits = np.random.default_rng(0).binomial(16, 1.0 / (1.0 + np.exp(-planted(0)(plan.keep.astype(float))))).astype(float)
    lost = (np.arange(len(hits)) % 7 == 3) & ~plan.keep.all(axis=1)
    draws, results = np.where(lost, 0.0, 16.0), []
    for filler in (0.0, 50.0):
        y = np.where(lost, filler, np.log((hits + 1.0) / (17.0 - hits)))
        bounds = np.where(lost, -np.inf, y), np.where(lost, np.inf, y)
        variance = 1.0 / (hits + 1.0) + 1.0 / (17.0 - hits)
        results.append(explained("joint", plan, y, Observed(y, variance, *bounds, np.where(lost, 0.0, hits), draws)))
    assert results[0].surrogate.to_dict() == results[1].surrogate.to_dict()


def test_bounds_cost_less_than_filling_them_in():
    errors = np.zeros(2)
    for seed in range(2):
        truth, plan = planted(seed), planned("local", seed)
        exact = truth(plan.keep.astype(float)) + 0.1 * np.random.default_rng(seed).normal(size=len(plan.keep))
        bound = np.quantile(exact, 0.3)
        filled = np.maximum(exact, bound)
        bounded = Observed(filled, None, np.where(exact < bound, -np.inf, exact), filled)
        for i, observed in enumerate((bounded, None)):
            removal = explained("local", plan, filled, observed, seed).removal(text_of())
            errors[i] += np.mean((removal - truth.removal()) ** 2)
    assert errors[0] < 0.5 * errors[1]


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
    predicted = results[0].predict(plan.keep[refused], text_of())  # the empty text too
    assert np.isfinite(predicted).all()


def test_nothing_known_gives_a_constant():
    plan = planned("joint")
    scores = np.zeros(len(plan.keep))
    result = explained("joint", plan, scores, Observed(scores, None, scores - np.inf, scores + np.inf))
    assert np.ptp(result.predict(plan.keep, text_of())) < 1e-9


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
