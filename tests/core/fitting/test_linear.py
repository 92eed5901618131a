"""Ridge regression by evidence: planted slopes, closed forms, and cross-validation as a rival."""

import numpy as np

from slalom.core import Linear, fit
from slalom.core.fitting.ridge import ridge
from tests.cases import cases


def sample(seed, m, n, outputs=1, *, noise=1.0):
    """Counts (m, n), scores (m, outputs) of a planted linear model, weights, slopes and level."""
    rng = np.random.default_rng(seed)
    counts = (rng.random((m, n)) < 0.5).astype(float)
    slopes, level = rng.normal(size=(n, outputs)), rng.normal(size=outputs)
    scores = level + counts @ slopes + noise * rng.normal(size=(m, outputs))
    return counts, scores, rng.uniform(0.3, 3.0, m), slopes, level


def predicted(found, counts):
    return found.level + (counts - found.centre) @ found.slopes


@cases("outputs", [1, 3])
@cases(("m", "n"), [(60, 12), (25, 12)])
def test_linear_data_without_noise_are_recovered(m, n, outputs):
    counts, scores, weights, slopes, level = sample(0, m, n, outputs, noise=0.0)
    found = ridge(counts, scores, weights)
    np.testing.assert_allclose(found.slopes, slopes, atol=1e-6)
    np.testing.assert_allclose(predicted(found, np.zeros((1, n)))[0], level, atol=1e-6)


def test_the_surrogate_has_the_slopes_and_classes_are_centred():
    counts, scores, weights, slopes, level = sample(1, 80, 6, 3, noise=0.0)
    one, three = fit(counts, scores[:, 0], Linear(), weights).model, fit(counts, scores, Linear(), weights).model
    np.testing.assert_allclose(one.effects, slopes[:, 0], atol=1e-6)
    np.testing.assert_allclose(three.effects, slopes - slopes.mean(axis=1, keepdims=True), atol=1e-6)
    np.testing.assert_allclose(three.base, level - level.mean(), atol=1e-6)


def test_a_weight_is_the_precision_of_a_row():
    counts, scores, _, slopes, _ = sample(3, 200, 5, noise=0.0)
    bad = np.arange(200) % 2 == 0
    scores = scores + np.where(bad, 30.0, 0.01)[:, None] * np.random.default_rng(0).normal(size=(200, 1))
    assert np.abs(ridge(counts, scores, np.where(bad, 30.0**-2, 0.01**-2)).slopes - slopes).max() < 0.01
    assert np.abs(ridge(counts, scores, np.ones(200)).slopes - slopes).max() > 0.1


def test_slopes_follow_scores_and_only_the_ratios_of_weights_matter():
    counts, scores, weights, _, _ = sample(5, 25, 10)
    one, two = (ridge(counts, factor * scores, weights) for factor in (1.0, 1e-3))
    np.testing.assert_allclose(two.slopes, 1e-3 * one.slopes, rtol=1e-9)
    np.testing.assert_allclose(ridge(counts, scores, 7.0 * weights).slopes, one.slopes, atol=1e-9)
    np.testing.assert_allclose(predicted(one, one.centre[None])[0], np.average(scores, axis=0, weights=weights), rtol=1e-13)


def test_scores_without_signal_have_slopes_near_zero():
    rng = np.random.default_rng(6)
    counts, scores = rng.integers(0, 2, (200, 20)).astype(float), rng.normal(size=(200, 1))
    free = np.linalg.lstsq(counts - counts.mean(0), scores, rcond=None)[0]
    assert np.abs(ridge(counts, scores, np.ones(200)).slopes).max() < 0.5 * np.abs(free).max()


@cases("outputs", [1, 2])
def test_units_that_never_occur_or_occur_twice_change_little_on_either_side_of_n_equal_m(outputs):
    counts, scores, weights, _, _ = sample(7, 30, 20, outputs, noise=2.0)
    few = ridge(counts, scores, weights)
    wide = ridge(np.hstack([counts, np.zeros((30, 25))]), scores, weights)  # 45 units, 30 rows
    np.testing.assert_allclose(wide.slopes[:20], few.slopes, atol=0.1)
    np.testing.assert_allclose(wide.slopes[20:], 0.0, atol=1e-12)
    twice = ridge(np.hstack([counts, counts]), scores, weights)
    np.testing.assert_allclose(twice.slopes[:20], twice.slopes[20:], atol=1e-9)


def cross_validated(counts, scores):
    """Ridge regression with the strength of generalised cross-validation: its predictions as a function."""
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
    return lambda rows: level + (rows - centre) @ slopes


@cases("ratio", [0.5, 1, 2, 5])
def test_predictions_are_not_worse_than_those_of_cross_validation(ratio):
    n, ours, theirs = 40, 0.0, 0.0
    m = int(ratio * n)
    for seed in range(30):
        counts, scores, _, slopes, level = sample(seed, m, n)
        held_out = sample(seed + 1000, 200, n)[0]
        truth = level + held_out @ slopes
        ours += ((predicted(ridge(counts, scores, np.ones(m)), held_out) - truth) ** 2).mean()
        theirs += ((cross_validated(counts, scores[:, 0])(held_out) - truth[:, 0]) ** 2).mean()
    assert ours <= 1.05 * theirs
