"""Scores that are noisy or known only between bounds: what stands for them, and fits of them."""

import numpy as np
import pytest
from scipy.stats import binom, norm

from slalom.core import Observed, Slalom
from slalom.core.fitting.joint import fitted
from slalom.core.fitting.noise import imputed, truncated_normal, working


def planted(rng, n=10, m=200):
    counts = (rng.random((m, n)) < rng.random((m, 1))).astype(float)
    truth = Slalom(2.0 * rng.normal(size=n), rng.normal(size=n), 0.3)
    return truth, counts, truth(counts)


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


def test_observed_scores_in_place_of_counts_and_bounds():
    mean, noise = np.array([0.0, 0.0, 0.3]), np.full(3, 1.0)
    counted = Observed(np.zeros(3), np.ones(3), hits=np.array([4.0, 8.0, 8.0]), draws=np.array([16.0, 16.0, 0.0]))
    scores, variance = counted.working(mean, noise)
    assert scores.tolist() == [-1.0, 0.0, 0.0]
    assert variance.tolist() == [0.25, 0.25, 1.0]  # no draws: the score that was given
    bounded = Observed(np.array([2.0, 0.0, 0.0]), None, np.array([2.0, -np.inf, -np.inf]), np.array([2.0, 0.0, np.inf]))
    assert bounded.known.tolist() == [True, False, False]
    scores, variance = bounded.working(np.zeros(3), noise)
    weight = 2.0 / np.pi  # of a half line at its end
    np.testing.assert_allclose(scores[:2], [2.0, -np.sqrt(2.0 / np.pi) / weight])
    np.testing.assert_allclose(variance[:2], [0.0, 1.0 / weight - 1.0])
    assert variance[2] > 1e5  # nothing is known
    assert Observed(np.zeros(3)).exact
    assert not bounded.exact
    np.testing.assert_array_equal(bounded.rows(np.array([1])).upper, [0.0])


def test_a_fit_with_bounds_predicts_inside_most_of_them():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        _, counts, scores = planted(rng)
        hidden = rng.random(200) < 0.5
        width = scores.std() * rng.uniform(0.1, 1.0, 200)
        lower, upper = np.where(hidden, scores - width * rng.random(200), scores), np.where(hidden, scores + width, scores)
        model = fitted(counts, Observed(scores, None, lower, upper), np.ones(200)).model
        predicted, slack = model(counts), 0.02 * scores.std()
        assert np.mean((predicted >= lower - slack) & (predicted <= upper + slack)) > 0.95
        assert np.mean((predicted - scores) ** 2) < 0.01 * scores.var()


def test_rows_of_which_nothing_is_known_have_no_influence():
    rng = np.random.default_rng(1)
    _, counts, scores = planted(rng)
    lost, models = np.arange(200) % 5 == 0, []
    for filler in (0.0, 50.0):
        y = np.where(lost, filler, scores)
        observed = Observed(y, None, np.where(lost, -np.inf, y), np.where(lost, np.inf, y))
        models.append(fitted(counts, observed, np.ones(200)).model)
    assert models[0].to_dict() == models[1].to_dict()
    assert np.mean((models[0](counts) - scores) ** 2) < 0.01 * scores.var()


def test_noise_of_known_size_and_counts_cost_less_where_they_are_told():
    errors = []
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth, counts, scores = planted(rng)
        variance = np.where(np.arange(200) % 2, 2.25, 0.01)
        y = scores + np.sqrt(variance) * rng.normal(size=200)
        told, untold = (fitted(counts, Observed(y, v), np.ones(200)).model.removal() for v in (variance, None))
        errors.append([np.mean((found - truth.removal()) ** 2) for found in (told, untold)])
    told, untold = np.mean(errors, axis=0)
    assert told < 0.7 * untold


def test_counts_of_samples_recover_what_they_were_drawn_from():
    rng = np.random.default_rng(0)
    _, counts, scores = planted(rng, m=400)
    hits = rng.binomial(16, 1.0 / (1.0 + np.exp(-scores))).astype(float)
    y, variance = np.log((hits + 1.0) / (17.0 - hits)), 1.0 / (hits + 1.0) + 1.0 / (17.0 - hits)
    exact = Observed(y, variance, hits=hits, draws=np.full(400, 16.0))
    model = fitted(counts, exact, np.ones(400)).model
    off = model(counts) - scores
    assert np.mean(off**2) < 0.06 * scores.var()
    assert (scores @ model(counts)) / (scores @ scores) == pytest.approx(1.0, abs=0.1)  # large scores are not shrunk
