"""Joint: planted answers, data of every kind, equivariance, and a posterior that is that of the Gaussian it says."""

import numpy as np
import pytest

from slalom.core import Joint, Linear, Link, Observed, Slalom, fit
from slalom.core.fitting.joint import Changes, fitted
from slalom.core.fitting.kernels import NeighbourKernel, PlaceKernel
from tests.cases import cases
from tests.factories import deletions, pairs, subsets


def sizes(rng, m, n):
    """Counts (m, n) of subsets of every size, the empty one included."""
    return (rng.random((m, n)).argsort(axis=1) < rng.integers(0, n + 1, m)[:, None]).astype(float)


def planted(rng, n, kappa, classes=None, link=None, spread=1.0):
    shape = (n,) if classes is None else (n, classes)
    return Slalom(rng.normal(size=shape), spread * rng.normal(size=n), kappa, rng.normal(size=shape[1:]), link)


def noisy(scores, share, rng):
    return scores + share * scores.std() * rng.normal(size=scores.shape)


def unexplained(model, truth, rows):
    return np.mean((model(rows) - truth(rows)) ** 2) / truth(rows).var()


# -- planted answers -----------------------------------------------------------------------------------------


@cases(("kappa", "link"), [(0.1, None), (0.3, None), (0.7, None), (1.0, None), (0.1, (0.3, 3.0)), (0.3, (0.3, 3.0))])
def test_planted_parameters_are_recovered_without_noise(kappa, link):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        truth, counts = planted(rng, 12, kappa, link=link), sizes(rng, 200, 12)
        found = fit(counts, truth(counts))
        np.testing.assert_allclose(found.model(counts), truth(counts), atol=1e-3)
        np.testing.assert_allclose(found.model.competition, kappa, atol=1e-3)
        np.testing.assert_allclose(found.model.values, truth.values, atol=0.01)
        np.testing.assert_allclose(found.model.importances, truth.importances, atol=0.02)
        assert (found.converged, found.diagnosis) == (True, "")


def test_a_linear_model_has_no_competition():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth, counts = planted(rng, 12, 0.0), sizes(rng, 200, 12)
        found = fit(counts, truth(counts))
        assert found.model.additive
        np.testing.assert_allclose(found.model.values, truth.values, atol=0.01)
        np.testing.assert_allclose(found.model.bias, truth.bias, atol=0.01)


@cases("kappa", [0.0, 0.3, 1.0])
def test_planted_parameters_are_recovered_with_noise(kappa):
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth, counts, fresh = planted(rng, 20, kappa, spread=0.7), sizes(rng, 400, 20), sizes(rng, 300, 20)
        counts[:20] = np.eye(20)
        found = fit(counts, noisy(truth(counts), 0.1, rng))
        assert unexplained(found.model, truth, fresh) < 0.005
        assert abs(found.model.competition - kappa) < 0.1
        assert np.corrcoef(found.model.values, truth.values)[0, 1] > 0.98
        if kappa:
            assert np.corrcoef(found.model.importances, truth.importances)[0, 1] > (0.7 if kappa < 1 else 0.95)


@cases("design", [subsets, pairs, deletions])
def test_other_designs_predict_their_own_kind(design):
    rng = np.random.default_rng(5)
    truth, counts, fresh = planted(rng, 20, 0.4), design(rng, 300, 20), design(rng, 300, 20)
    assert unexplained(fit(counts, truth(counts)).model, truth, fresh) < 1e-3


def test_counts_above_one_are_fitted():
    rng = np.random.default_rng(6)
    truth, counts = planted(rng, 8, 0.5), rng.integers(0, 4, (200, 8)).astype(float)
    counts[0] = 0.0
    found = fit(counts, truth(counts))
    np.testing.assert_allclose(found.model(counts), truth(counts), atol=1e-3)
    np.testing.assert_allclose(found.model.values, truth.values, atol=0.01)


def test_a_link_is_found_and_is_worth_it():
    rng = np.random.default_rng(12)
    truth, counts = planted(rng, 20, 0.2, link=(0.3, 1.5)), sizes(rng, 500, 20)
    scores = truth(counts) + 0.01 * rng.normal(size=500)
    linked, plain = fit(counts, scores), fit(counts, scores, Joint(link=False))
    assert linked.model.link.middle == pytest.approx(0.3, abs=0.1)
    assert linked.model.link.reach == pytest.approx(1.5, abs=0.1)
    assert plain.model.link is None
    assert linked.loss < 0.5 * plain.loss


def test_several_classes_share_importances_and_competition():
    for seed in range(3):
        rng = np.random.default_rng(seed)
        truth, counts = planted(rng, 12, 0.5, classes=4), sizes(rng, 300, 12)
        found = fit(counts, truth(counts) + 3.0)  # a constant on all logits cancels
        assert found.model.values.shape == found.values_se.shape == (12, 4)
        assert found.model.link is None
        np.testing.assert_allclose(found.model.values.sum(axis=1), 0.0, atol=1e-12)
        np.testing.assert_allclose(found.model.values, truth.values, atol=0.15)
        assert unexplained(found.model, truth, sizes(rng, 300, 12)) < 1e-3
        assert abs(found.model.competition - 0.5) < 0.05


def test_two_classes_are_the_log_odds_cut_in_half():
    rng = np.random.default_rng(8)
    truth, counts = planted(rng, 10, 0.4), sizes(rng, 150, 10)
    y = noisy(truth(counts), 0.1, rng)
    single, double = fit(counts, y, Joint(link=False)), fit(counts, np.stack([-y / 2, y / 2], axis=1))
    np.testing.assert_allclose(double.model.values[:, 1], single.model.values / 2, atol=0.02)
    np.testing.assert_allclose(double.model.importances, single.model.importances, atol=0.05)
    np.testing.assert_allclose(double.values_se[:, 1], single.values_se / 2, rtol=0.1)


def test_it_is_not_worse_than_ridge_regression_with_few_queries():
    for kappa in (0.1, 0.3):
        for m in (15, 60, 150):
            errors = []
            for seed in range(6):
                rng = np.random.default_rng(seed)
                truth, counts, fresh = planted(rng, 30, kappa), sizes(rng, m, 30), sizes(rng, 300, 30)
                y = noisy(truth(counts), 0.1, rng)
                errors.append([unexplained(fit(counts, y, fitter).model, truth, fresh) for fitter in (Joint(), Linear())])
            ours, ridge = np.mean(errors, axis=0)
            assert ours <= ridge, (kappa, m)


# -- data of every kind --------------------------------------------------------------------------------------


def test_equal_units_share_their_parameters():
    rng = np.random.default_rng(0)
    kinds = np.array([0, 1, 0, 2, 3, 1, 4, 5])
    truth, keep = planted(rng, 6, 0.4), sizes(rng, 120, 8).astype(bool)
    counts = keep @ np.eye(6)[kinds]
    kernels = [kernel(keep, np.ones(8, dtype=np.int64)) for kernel in (NeighbourKernel, PlaceKernel)]
    model = fitted(counts, Observed(truth(counts)), np.ones(120), kernels, kinds).model
    assert model.n_units == 8
    for one, other in ((0, 2), (1, 5)):
        assert model.values[one] == model.values[other]
        assert model.importances[one] == model.importances[other]
    assert unexplained(model, lambda rows: truth(rows @ np.eye(6)[kinds]), sizes(rng, 300, 8)) < 0.01


def test_one_unit_constant_scores_and_alike_rows():
    found = fit(np.array([[0.0], [1.0], [1.0]]), [0.5, 2.0, 2.1])
    np.testing.assert_allclose(found.model([[0.0], [1.0]]), [0.5, 2.05], atol=0.05)
    counts = sizes(np.random.default_rng(0), 20, 5)
    for classes in ((), (3,)):
        level = np.broadcast_to(np.array([2.5, -1.0, 0.0])[: 3 if classes else 1].reshape(classes), (20, *classes))
        constant = fit(counts, level)
        np.testing.assert_allclose(constant.model(counts), level - (0.5 if classes else 0.0), atol=1e-12)
        assert constant.diagnosis.startswith("The scores are the same for every row")
        assert constant.r2 == 1.0
    alike = fit(np.ones((6, 3)), np.arange(6.0))
    assert alike.diagnosis.startswith("All rows of counts are alike")
    np.testing.assert_allclose(alike.model(np.ones((1, 3))), 2.5)


def test_many_more_units_than_rows_and_rows_that_repeat():
    rng = np.random.default_rng(17)
    found = fit(sizes(rng, 7, 100), rng.normal(size=7))
    assert np.isfinite(found.model.values).all()
    assert np.isfinite(found.values_se).all()
    truth, counts = planted(rng, 8, 0.4), sizes(rng, 80, 8)
    y = noisy(truth(counts), 0.1, rng)
    once, twice = fit(counts, y), fit(np.repeat(counts, 2, axis=0), np.repeat(y, 2))
    assert unexplained(twice.model, once.model, sizes(rng, 300, 8)) < 0.01


def test_weights_are_precisions():
    rng = np.random.default_rng(14)
    truth, counts = planted(rng, 8, 0.4), sizes(rng, 100, 8)
    y = noisy(truth(counts), 0.05, rng)
    y[80:] = 1e3
    kept, whole = fit(counts[:80], y[:80]), fit(counts, y, weights=np.where(np.arange(100) < 80, 2.5, 0.0))
    np.testing.assert_allclose(whole.model.values, kept.model.values, rtol=1e-7, atol=1e-9)
    assert whole.loss == pytest.approx(kept.loss)
    first = np.arange(100) < 20
    random = rng.normal(size=100)
    error = [np.mean((fit(counts, random, weights=w).model(counts) - random)[first] ** 2) for w in (None, 1.0 + 99.0 * first)]
    assert error[1] < 0.8 * error[0]


# -- scales, shifts and orders -------------------------------------------------------------------------------


@cases("link", [False, True])
@cases("classes", [None, 3])
def test_fits_follow_the_scores_and_the_order_of_the_units(classes, link):
    rng = np.random.default_rng(3)
    truth, counts = planted(rng, 8, 0.4, classes), sizes(rng, 100, 8)
    y = noisy(truth(counts), 0.1, rng)
    one = fit(counts, y, Joint(link=link))
    for scale, shift in ((1e6, 0.0), (1e-6, 0.0), (1.0, 1e3), (1e100, 0.0), (1e-100, 0.0), (-1.0, 0.0)):
        two = fit(counts, scale * y + shift, Joint(link=link))
        moved = 0.0 if classes else shift
        close = {"rtol": 1e-4, "atol": 1e-4}
        np.testing.assert_allclose((two.model(counts) - moved) / scale, one.model(counts), err_msg=str((scale, shift)), **close)
        np.testing.assert_allclose(two.model.values / scale, one.model.values, **close)
        np.testing.assert_allclose(two.model.importances, one.model.importances, rtol=1e-3, atol=1e-3)
        np.testing.assert_allclose(two.values_se / abs(scale), one.values_se, rtol=1e-3)
    order = rng.permutation(8)
    two = fit(counts[:, order], y, Joint(link=link))
    np.testing.assert_allclose(two.model.values, one.model.values[order], atol=1e-5)
    np.testing.assert_allclose(two.model.importances, one.model.importances[order], atol=1e-5)
    np.testing.assert_array_equal(fit(counts.copy(), y.copy(), Joint(link=link)).model.values, one.model.values)


# -- the posterior -------------------------------------------------------------------------------------------


def predicted(theta, p, linked, counts):
    u, s, (bias, logit, middle, log_reach) = np.split(theta, [p, 2 * p])
    return Slalom(u, s, 1.0 / (1.0 + np.exp(-logit)), bias, Link(middle, np.exp(log_reach)) if linked else None)(counts)


def slopes(theta, p, linked, counts, h=1e-6):
    steps = h * np.eye(len(theta))
    difference = [predicted(theta + d, p, linked, counts) - predicted(theta - d, p, linked, counts) for d in steps]
    return np.array(difference).T / (2 * h)


@cases("linked", [False, True])
@cases("with_kernels", [False, True])
@cases("variance", [None, 0.04])
def test_errors_are_those_of_the_gaussian_written_out(linked, with_kernels, variance):
    rng = np.random.default_rng(1)
    n, m = 5, 30
    keep, profile = sizes(rng, m, n).astype(bool), rng.uniform(0.5, 2.0, m)
    counts = keep.astype(float)
    y = planted(rng, n, 0.4, link=(0.3, 3.0))(counts) + 0.3 * counts[:, 0] * counts[:, 1] + 0.05 * rng.normal(size=m)
    atoms = rng.integers(1, 4, n)
    kernels = [kernel(keep, atoms) for kernel in (NeighbourKernel, PlaceKernel)] if with_kernels else []
    known = np.zeros(m) if variance is None else np.full(m, variance)
    found = fitted(counts, Observed(y, None if variance is None else known), profile, kernels, link=linked)
    theta, _, log_variances, *_ = found.state
    variances, spread = np.exp(log_variances), y.var()
    wide = [9.0 * spread, 1.5**2, *([spread, 1.0] if linked else [0.0, 0.0])]
    prior = np.concatenate([np.full(n, variances[0]), np.full(n, variances[1]), wide])
    asked = sizes(rng, 7, n).astype(bool)
    both = np.concatenate([keep, asked])
    by = slopes(theta, n, linked, both.astype(float))
    covariance = (by * prior) @ by.T
    covariance += sum(v * kernel.between(both, both) for v, kernel in zip(variances[2:-1], kernels, strict=True))
    noise = np.diag(variances[-1] * profile + known + 1e-10 * spread)
    to = covariance[m:, :m]
    after = covariance[m:, m:] - to @ np.linalg.solve(covariance[:m, :m] + noise, to.T)
    matrix = rng.normal(size=(4, 7))
    expected = np.sqrt(np.diag(matrix @ after @ matrix.T))
    np.testing.assert_allclose(found.errors(Changes(asked.astype(float), asked, matrix)), expected, rtol=1e-3)


def test_the_mean_is_that_of_the_gaussian_written_out():
    """The parts of the surrogate are the mean of the process, given what the formula leaves."""
    rng = np.random.default_rng(2)
    keep = sizes(rng, 40, 6).astype(bool)
    counts, sizes_of = keep.astype(float), np.ones(6, dtype=np.int64)
    y = planted(rng, 6, 0.4)(counts) + counts[:, 0] * counts[:, 1]
    kernels = [kernel(keep, sizes_of) for kernel in (NeighbourKernel, PlaceKernel)]
    found = fitted(counts, Observed(y), np.ones(40), kernels)
    variances, rows = np.exp(found.state[2]), sizes(rng, 50, 6).astype(bool)
    left = y - found.model.formula(counts)
    covariance = sum(v * kernel.matrix for v, kernel in zip(variances[2:-1], kernels, strict=True))
    pulls = np.linalg.solve(covariance + (variances[-1] + 1e-10 * y.var()) * np.eye(40), left)
    process = sum(v * kernel.between(rows, keep) for v, kernel in zip(variances[2:-1], kernels, strict=True)) @ pulls
    np.testing.assert_allclose(found.model(rows.astype(float)), found.model.formula(rows.astype(float)) + process, atol=1e-6)


@cases(("kappa", "noise"), [(0.3, 0.1), (0.3, 0.3), (1.0, 0.1), (0.0, 0.2)])
def test_intervals_of_values_and_removals_hold_the_truth(kappa, noise):
    inside = []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n, m = 12, 150
        truth, keep = planted(rng, n, kappa), sizes(rng, m, n).astype(bool)
        counts = keep.astype(float)
        found = fitted(counts, Observed(noisy(truth(counts), noise, rng)), np.ones(m), [NeighbourKernel(keep, np.ones(n, int))])
        rows = np.vstack([np.ones(n, bool), ~np.eye(n, dtype=bool)])
        removal = Changes(rows.astype(float), rows, np.hstack([np.ones((n, 1)), -np.eye(n)]))
        alone = np.vstack([np.zeros(n, bool), np.eye(n, dtype=bool)])
        value = Changes(alone.astype(float), alone, np.hstack([-np.ones((n, 1)), np.eye(n)]))
        pairs_of = ((found.model.removal(), truth.removal(), removal), (found.model.alone(), truth.alone(), value))
        inside.append([np.abs(one - other) <= 1.96 * found.errors(change) for one, other, change in pairs_of])
    coverage = np.mean(inside, axis=(0, 2))
    assert (coverage >= 0.88).all(), coverage


def test_a_fit_is_taken_up_with_further_rows():
    rng = np.random.default_rng(4)
    truth, counts = planted(rng, 8, 0.4), sizes(rng, 120, 8)
    y = noisy(truth(counts), 0.05, rng)
    first = fitted(counts[:110], Observed(y[:110]), np.ones(110))
    taken_up, anew = (fitted(counts, Observed(y), np.ones(120), before=state) for state in (first.state, None))
    assert taken_up.steps == first.steps + 1
    assert unexplained(taken_up.model, anew.model, sizes(rng, 300, 8)) < 1e-3


def test_a_fit_of_samples_is_taken_up_until_it_settles():
    """16 samples a row: their working scores are those of the new fit's predictions."""
    rng = np.random.default_rng(5)
    truth, counts = planted(rng, 8, 0.4), sizes(rng, 120, 8)
    hits = rng.binomial(16, 1.0 / (1.0 + np.exp(-truth(counts)))).astype(float)
    y, variance = np.log((hits + 1.0) / (17.0 - hits)), 1.0 / (hits + 1.0) + 1.0 / (17.0 - hits)
    observed = Observed(y, variance, None, None, hits, np.full(120, 16.0))
    first = fitted(counts[:110], observed.rows(slice(110)), np.ones(110))
    taken_up, anew = (fitted(counts, observed, np.ones(120), before=state) for state in (first.state, None))
    assert taken_up.converged
    assert taken_up.steps < first.steps + anew.steps
    assert unexplained(taken_up.model, anew.model, sizes(rng, 300, 8)) < 0.01


def test_many_units_are_fitted_until_they_settle():
    left = []
    for seed in (1, 6):  # with 14 steps 0.018 is left
        rng = np.random.default_rng(seed)
        truth, counts, fresh = planted(rng, 100, 1.0), deletions(rng, 400, 100), deletions(rng, 200, 100)
        left.append(unexplained(fit(counts, noisy(truth(counts), 0.1, rng)).model, truth, fresh))
    assert np.mean(left) < 0.01
