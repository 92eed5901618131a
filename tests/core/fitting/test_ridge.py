"""Ridge regression by evidence against dense normal densities, planted slopes and cross-validation."""

import numpy as np
from scipy.optimize import brentq

from slalom.core.fitting._evidence.ridge import ridge
from tests.cases import cases


def sample(seed, m, n, outputs=1, *, noise=1.0):
    """Counts (m, n), scores (m, outputs) of a planted linear model, weights, slopes and level."""
    rng = np.random.default_rng(seed)
    counts = (rng.random((m, n)) < 0.5).astype(float)
    slopes, level = rng.normal(size=(n, outputs)), rng.normal(size=outputs)
    scores = level + counts @ slopes + noise * rng.normal(size=(m, outputs))
    return counts, scores, rng.uniform(0.3, 3.0, m), slopes, level


# -- the evidence --------------------------------------------------------------------------------------------


class Dense:
    """log p(scores | strength, noise): slopes integrated over their prior, the level over the whole line.

    With R = diag(1 / weight) + X X' / strength it is, an output, -[(m - 1) log(2 pi noise) + log|R|
    + log(1'R^-1 1) + y'Py / noise] / 2, where P = R^-1 - R^-1 1 1'R^-1 / (1'R^-1 1). The code leaves the
    2 pi out.
    """

    def __init__(self, counts, scores, weights):
        self.counts, self.scores, self.weights = counts, scores, weights
        self.free = (len(scores) - 1) * scores.shape[1]

    def parts(self, strength):
        covariance = np.diag(1.0 / self.weights) + self.counts @ self.counts.T / strength
        inverse = np.linalg.inv(covariance)
        ones = inverse.sum(axis=1)
        precision = inverse - np.outer(ones, ones) / ones.sum()
        misfit = float(np.einsum("mk,ml,lk->", self.scores, precision, self.scores))
        return misfit, np.linalg.slogdet(covariance)[1] + np.log(ones.sum())

    def log_density(self, strength, noise):
        misfit, volume = self.parts(strength)
        return -0.5 * (self.free * np.log(noise) + self.scores.shape[1] * volume + misfit / noise)

    def best(self, strength):
        return self.log_density(strength, self.parts(strength)[0] / self.free)


EVIDENCE_CASES = [(30, 8, 1), (30, 8, 3), (12, 12, 1), (13, 12, 2), (20, 30, 2), (16, 24, 3)]


@cases(("m", "n", "outputs"), EVIDENCE_CASES)
@cases("seed", range(3))
def test_the_evidence_is_the_log_marginal_likelihood_at_its_own_strength_and_noise(m, n, outputs, seed):
    counts, scores, weights, _, _ = sample(seed, m, n, outputs, noise=4.0)
    found, dense = ridge(counts, scores, weights), Dense(counts, scores, weights)

    def gap(log_strength):  # the best noise grows with the strength, so the noise tells the strength
        return dense.parts(np.exp(log_strength))[0] / dense.free - found.noise

    strength = np.exp(brentq(gap, np.log(1e-8), np.log(1e9), xtol=1e-13))
    np.testing.assert_allclose(found.evidence, dense.log_density(strength, found.noise), atol=1e-9)


@cases(("m", "n", "outputs"), EVIDENCE_CASES)
def test_no_strength_and_noise_are_much_more_probable_than_those_found(m, n, outputs):
    counts, scores, weights, _, _ = sample(4, m, n, outputs, noise=4.0)
    found, dense = ridge(counts, scores, weights), Dense(counts, scores, weights)
    highest = max(dense.best(strength) for strength in np.geomspace(1e-4, 1e6, 400))
    assert highest - 0.2 < found.evidence < highest + 1e-3


# -- planted data --------------------------------------------------------------------------------------------


@cases("outputs", [1, 3])
@cases("with_weights", [False, True])
def test_linear_data_without_noise_are_recovered(outputs, with_weights):
    counts, scores, weights, slopes, level = sample(0, 60, 12, outputs, noise=0.0)
    found = ridge(counts, scores, weights if with_weights else np.ones(60))
    np.testing.assert_allclose(found.slopes, slopes, atol=1e-8)
    np.testing.assert_allclose(found(np.zeros((1, 12)))[0], level, atol=1e-8)
    np.testing.assert_allclose(found(counts), scores, atol=1e-8)
    assert found.noise < 1e-8 * scores.var()


def test_the_prediction_at_the_centre_is_the_weighted_mean():
    counts, scores, weights, _, _ = sample(1, 20, 5, 2)
    found = ridge(counts, scores, weights)
    np.testing.assert_allclose(found.centre, np.average(counts, axis=0, weights=weights), rtol=1e-13)
    np.testing.assert_allclose(found.level, np.average(scores, axis=0, weights=weights), rtol=1e-13)
    np.testing.assert_allclose(found(found.centre[None])[0], found.level, rtol=1e-13)


def test_the_noise_is_found_where_there_are_many_rows():
    counts, scores, _, slopes, _ = sample(2, 4000, 5, noise=0.7)
    found = ridge(counts, scores, np.ones(4000))
    np.testing.assert_allclose(found.noise, 0.49, rtol=0.1)
    np.testing.assert_allclose(found.slopes, slopes, atol=0.12)


def test_a_weight_is_the_precision_of_a_row():
    counts, scores, _, slopes, _ = sample(3, 200, 5, noise=0.0)
    rng = np.random.default_rng(0)
    bad = np.arange(200) % 2 == 0
    scores = scores + np.where(bad, 30.0, 0.01)[:, None] * rng.normal(size=(200, 1))
    weighted = ridge(counts, scores, np.where(bad, 30.0**-2, 0.01**-2))
    alike = ridge(counts, scores, np.ones(200))
    assert np.abs(weighted.slopes - slopes).max() < 0.01
    assert np.abs(alike.slopes - slopes).max() > 0.1
    np.testing.assert_allclose(weighted.noise, 1.0, rtol=0.3)


def test_scores_and_slopes_change_their_unit_together():
    counts, scores, weights, _, _ = sample(5, 25, 10)
    one, two = (ridge(counts, factor * scores, weights) for factor in (1.0, 1e-3))
    np.testing.assert_allclose(two.slopes, 1e-3 * one.slopes, rtol=1e-9)
    np.testing.assert_allclose(two.noise, 1e-6 * one.noise, rtol=1e-9)
    np.testing.assert_allclose(two.evidence - one.evidence, 24 * np.log(1e3), rtol=1e-9)


def test_scores_without_signal_have_slopes_near_zero():
    rng = np.random.default_rng(6)
    counts, scores = rng.integers(0, 2, (200, 20)).astype(float), rng.normal(size=(200, 1))
    free = np.linalg.lstsq(counts - counts.mean(0), scores, rcond=None)[0]
    assert np.abs(ridge(counts, scores, np.ones(200)).slopes).max() < 0.5 * np.abs(free).max()


# -- the two branches: the Gram matrix of the units where n <= m, of the rows where n > m --------------------


@cases("outputs", [1, 2])
def test_units_that_never_occur_change_nothing_on_either_side_of_n_equal_m(outputs):
    counts, scores, weights, _, _ = sample(7, 30, 20, outputs, noise=2.0)
    few = ridge(counts, scores, weights)
    many = ridge(np.hstack([counts, np.zeros((30, 25))]), scores, weights)  # 45 units, 30 rows
    np.testing.assert_allclose(many.slopes[:20], few.slopes, atol=1e-9)
    np.testing.assert_allclose(many.slopes[20:], 0.0, atol=1e-12)
    np.testing.assert_allclose([many.noise, many.evidence], [few.noise, few.evidence], rtol=1e-9)


@cases("outputs", [1, 2])
def test_units_given_twice_share_their_slope_on_either_side_of_n_equal_m(outputs):
    counts, scores, weights, _, _ = sample(8, 30, 20, outputs, noise=2.0)
    few = ridge(counts, scores, weights)
    many = ridge(np.hstack([counts, counts]), scores, weights)  # 40 units, 30 rows
    np.testing.assert_allclose(many.slopes, np.vstack([few.slopes, few.slopes]) / 2, atol=1e-9)
    np.testing.assert_allclose([many.noise, many.evidence], [few.noise, few.evidence], rtol=1e-9)


# -- prediction ----------------------------------------------------------------------------------------------


def cross_validated(counts, scores):
    """Ridge regression with the strength of generalised cross-validation: centre, level, slopes."""
    centre, level = counts.mean(axis=0), scores.mean()
    u, d, vt = np.linalg.svd(counts - centre, full_matrices=False)
    along, power = u.T @ (scores - level), ((scores - level) ** 2).sum()
    best, slopes = np.inf, np.zeros(len(centre))
    for strength in np.geomspace(1e-6, 1e4, 61) * (d**2).mean():
        kept = d**2 / (d**2 + strength)
        left = power - (along**2).sum() + (((1 - kept) * along) ** 2).sum()
        criterion = left / (len(scores) - 1 - kept.sum()) ** 2
        if criterion < best:
            best, slopes = criterion, vt.T @ (d / (d**2 + strength) * along)
    return centre, level, slopes


@cases("ratio", [0.5, 1, 2, 5])
def test_predictions_are_not_worse_than_those_of_cross_validation(ratio):
    n, ours, theirs = 40, 0.0, 0.0
    m = int(ratio * n)
    for seed in range(30):
        counts, scores, _, slopes, level = sample(seed, m, n, noise=1.0)
        held_out = sample(seed + 1000, 200, n)[0]
        truth = level + held_out @ slopes
        found = ridge(counts, scores, np.ones(m))
        centre, mean, effect = cross_validated(counts, scores[:, 0])
        ours += ((found(held_out) - truth) ** 2).mean()
        theirs += ((mean + (held_out - centre) @ effect - truth[:, 0]) ** 2).mean()
    assert ours <= 1.05 * theirs
