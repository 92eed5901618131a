"""Any finite scores give a fit: no exception, no number that is not finite, and every fallback is named in the diagnosis."""

import numpy as np
import pytest

from slalom.core import Alternating, Joint, Linear, Sgd, Slalom, fit
from slalom.core.fitting import joint
from slalom.core.fitting._evidence import steps
from slalom.core.fitting._evidence.steps import System
from slalom.core.fitting.problem import FALLBACK, Problem
from slalom.errors import InputError
from tests.cases import cases
from tests.factories import benchmark

hostile = benchmark("hostile")

LARGEST = np.finfo(float).max
PUBLIC = [Joint(), Joint(background=False), Joint(link=True), Linear(), Alternating(), Sgd(max_steps=300)]


def planted(m=60, n=6, classes=None, seed=0):
    """Counts with some rows of weight zero, scores below 1, and the weights."""
    rng = np.random.default_rng(seed)
    shape = (n,) if classes is None else (n, classes)
    counts = (rng.random((m, n)) < 0.5).astype(float)
    counts[:, 0] = 1.0
    scores = Slalom(rng.normal(size=shape), rng.normal(size=n))(counts)
    scores = scores + 0.05 * rng.normal(size=scores.shape)
    weights = np.where(np.arange(m) % 10 == 3, 0.0, 1.0 + np.arange(m) % 3)
    return counts, 0.9 * scores / np.abs(scores).max(), weights


# -- the benchmark, shortened ----------------------------------------------------------------------------------


@cases("start", [0, 10_000, 20_000, 30_000])
def test_fits_of_hostile_data_are_finite(start):
    results = [hostile.tried(seed) for seed in range(start, start + 80)]
    assert [(r.seed, r.kinds, r.exception, r.wrong) for r in results if r.exception or r.wrong] == []


def test_a_seed_draws_one_case_and_every_fitter_is_drawn():
    one, again = hostile.drawn(7), hostile.drawn(7)
    np.testing.assert_array_equal(one.scores, again.scores)
    assert {hostile.drawn(seed).kinds["fitter"] for seed in range(120)} == set(hostile.FITTERS)


# -- small effects beside a large level --------------------------------------------------------------------------


def deletions(n=256, m=200):
    """A text less 1 to 10 units, the whole text counting as much as all deletions, and additive scores around 5.4."""
    rng = np.random.default_rng(0)
    gone = rng.random((m, n)).argsort(axis=1) < np.r_[0, rng.integers(1, 11, m - 1)][:, None]
    counts, weights = 1.0 - gone, np.r_[m - 1.0, np.ones(m - 1)]
    effects = np.where(rng.random(n) < 0.1, rng.normal(size=n), 0.0)
    scores = 5.4 + 1e-4 * (counts - 1.0) @ effects
    return counts, scores, weights


def test_small_effects_beside_a_large_level_are_found():
    counts, scores, weights = deletions()
    found = fit(counts, scores, Joint(link=False), weights)
    assert found.r2 > 0.99
    assert FALLBACK not in found.diagnosis
    np.testing.assert_allclose(found.model(counts[:1]), 5.4, atol=1e-6)


# -- scores of any size -----------------------------------------------------------------------------------------------


def test_scores_that_cannot_be_squared_are_refused():
    with pytest.raises(InputError, match=r"scores must be at most 1e\+150; got 1e\+151"):
        fit(np.eye(2), [1.0, 1e151])


@cases("fitter", PUBLIC, ids=repr)
@cases("sentinel", [1e300, -LARGEST])
def test_scores_of_rows_without_a_weight_do_not_matter_however_large(fitter, sentinel):
    counts, scores, weights = planted()
    kept = fit(counts, np.where(weights > 0, scores, 0.0), fitter, weights)
    found = fit(counts, np.where(weights > 0, scores, sentinel), fitter, weights)
    np.testing.assert_array_equal(found.model(counts), kept.model(counts))
    assert (found.loss, found.r2) == (kept.loss, kept.r2)


@cases("sentinel", [1e17, 1e120])
def test_one_row_of_large_scores_leaves_the_others_centred(sentinel):
    counts, scores, _ = planted(classes=3)
    raised = scores + np.linspace(-1.0, 1.0, 60)[:, None]  # a constant on all logits of a row cancels
    raised[7] = sentinel, 0.0, 0.0
    problem = Problem.of(counts, raised, None)
    np.testing.assert_allclose(problem.scores[:7], (scores - scores.mean(axis=1, keepdims=True))[:7], atol=1e-15)
    np.testing.assert_allclose(problem.scores[7], np.array([2.0, -1.0, -1.0]) * sentinel / 3, rtol=1e-15)


def test_weights_of_any_size_are_relative():
    counts, scores, weights = planted()
    plain = fit(counts, scores, Joint(), weights)
    for power in (1021, -1000):
        found = fit(counts, scores, Joint(), np.ldexp(weights, power))
        np.testing.assert_array_equal(found.model.values, plain.model.values)


# -- scores that do not vary ------------------------------------------------------------------------------------------


@cases("fitter", PUBLIC, ids=repr)
@cases("level", [0.0, 5.4, -1e8, 1e140, 1e-300])
def test_constant_scores_of_any_size_are_that_constant(fitter, level):
    counts, _, weights = planted()
    found = fit(counts, np.full(len(counts), level), fitter, weights)
    np.testing.assert_allclose(found.model(counts), level, rtol=1e-12)
    assert found.r2 == 1.0
    assert found.diagnosis.startswith("The scores are the same for every row")


@cases("classes", [2, 3, 5])
def test_what_is_left_of_a_large_common_score_is_rounding(classes):
    """1e8 on all logits leaves multiples of 1.5e-8: noise of 1e-7 is little more."""
    rng = np.random.default_rng(0)
    found = fit(planted()[0], 1e8 + 1e-7 * rng.normal(size=(60, classes)))
    assert found.diagnosis.startswith("The scores are the same for every row")
    assert found.r2 == 1.0


# -- the fallbacks ----------------------------------------------------------------------------------------------------


def no_factors(matrix):
    return np.full_like(matrix, np.nan), np.float64(1.0)


@cases("classes", [None, 3])
def test_without_normal_equations_it_is_ridge_regression(monkeypatch, classes):
    counts, scores, weights = planted(classes=classes)
    linear = fit(counts, scores, Linear(), weights)
    monkeypatch.setattr(steps, "inverse_cholesky", no_factors)
    found = fit(counts, scores, Joint(), weights)
    assert f"{FALLBACK} the fit failed numerically; ridge regression gives one number per word" in found.diagnosis
    assert found.values_se is None
    np.testing.assert_allclose(found.model(counts), linear.model(counts), atol=0.02 * np.sqrt(linear.loss))


def test_without_normal_equations_and_background_it_is_the_mean_score(monkeypatch):
    counts, scores, weights = planted()
    monkeypatch.setattr(steps, "inverse_cholesky", no_factors)
    found = fit(counts, scores, Joint(background=False), weights)
    assert f"{FALLBACK} the fit and ridge regression failed numerically; every unit has the mean score" in found.diagnosis
    np.testing.assert_allclose(found.model(counts), np.average(scores, weights=weights), rtol=1e-12)
    assert found.r2 == pytest.approx(0.0, abs=1e-12)


def test_without_a_background_the_importances_are_equal_where_they_cannot_be_fitted(monkeypatch):
    counts, scores, weights = planted()
    monkeypatch.setattr(joint._Search, "finish", lambda *given: (_ for _ in ()).throw(ArithmeticError("no")))
    found = fit(counts, scores, Joint(background=False), weights)
    assert "all importances are taken as equal" in found.diagnosis
    np.testing.assert_array_equal(found.model.importances, np.zeros(6))
    assert found.r2 > 0.1


def test_without_eigenvalues_it_is_the_mean_score(monkeypatch):
    def no_eigenvalues(*given):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    counts, scores, weights = planted()
    monkeypatch.setattr(np.linalg, "eigh", no_eigenvalues)
    for fitter in (Joint(), Linear()):
        found = fit(counts, scores, fitter, weights)
        assert "failed numerically; every unit has the mean score" in found.diagnosis
        np.testing.assert_allclose(found.model(counts), np.average(scores, weights=weights), rtol=1e-12)


def test_a_part_of_the_diagonal_that_shows_is_named(monkeypatch):
    factorise = System.factorise

    def strict(system, jitter):
        factors, failed = factorise(system, jitter)
        return factors, failed + float(jitter < 1e-5)

    counts, scores, weights = planted()
    plain = fit(counts, scores, Joint(), weights)
    assert FALLBACK not in plain.diagnosis
    monkeypatch.setattr(System, "factorise", strict)
    found = fit(counts, scores, Joint(), weights)
    assert f"{FALLBACK} the normal equations were nearly singular; 1e-05 of their diagonal was added" in found.diagnosis
    assert found.r2 == pytest.approx(plain.r2, abs=0.02)


def test_standard_errors_that_are_not_finite_are_left_out_with_a_word():
    problem = Problem.of(np.eye(3), [1.0, 2.0, 4.0], None)
    model, errors = Slalom([1.0, 2.0, 4.0], np.zeros(3)), np.array([0.1, np.inf, 0.1])
    found = problem.fitted(model, converged=True, iterations=1, values_se=errors, importances_se=np.ones(3))
    assert found.values_se is None
    assert found.importances_se is None
    assert found.diagnosis.endswith("the standard errors are beyond the range of floats and are left out.")


# -- two classes ------------------------------------------------------------------------------------------------------


def test_two_classes_that_saturate_are_the_log_odds_cut_in_half():
    rng = np.random.default_rng(12)
    counts = (rng.random((600, 20)).argsort(axis=1) < rng.integers(1, 21, 600)[:, None]).astype(float)
    truth = Slalom(4 * rng.normal(size=20), 0.7 * rng.normal(size=20), (0.0, 2.0), (0.3, 0.8))
    y = truth(counts) + 0.01 * rng.normal(size=600)
    single, double = fit(counts, y), fit(counts, np.stack([-y / 2, y / 2], axis=1))
    assert single.model.link is not None
    assert double.model.link is not None
    np.testing.assert_allclose(double.model(counts)[:, 1], single.model(counts) / 2, atol=2e-3)
    assert double.r2 == pytest.approx(single.r2, abs=1e-4)
