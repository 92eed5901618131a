"""Alternating least squares: planted parameters, the true optimum under noise, and what it cannot do."""

import numpy as np
import pytest
from scipy.optimize import least_squares, nnls

from slalom.core.fitting import alternating
from slalom.core.fitting.alternating import (
    Alternating,
    _pivoted,
)
from slalom.core.fitting.problem import Problem
from slalom.core.slalom import Slalom
from slalom.errors import InputError
from tests.cases import cases
from tests.factories import deletions, pairs, planted, subsets
from tests.factories import parameter_error as error


@cases("design", [subsets, pairs, deletions])
@cases("n", [10, 20])
@cases("seed", range(4))
def test_planted_parameters_are_recovered(design, n, seed):
    rng = np.random.default_rng(seed)
    truth = planted(rng, n)
    counts = design(rng, 12 * n, n)
    fit = Alternating().solve(Problem.of(counts, truth(counts), None))
    assert error(fit.model, truth) <= 1e-6
    assert fit.converged
    assert fit.iterations <= 5
    assert fit.r2 == pytest.approx(1.0, abs=1e-12)
    assert fit.loss == pytest.approx(0.0, abs=1e-20)
    assert fit.diagnosis == ""


@cases("design", [subsets, pairs])
def test_several_classes_share_the_importances(design):
    rng = np.random.default_rng(2)
    truth = planted(rng, 12, classes=3)
    counts = design(rng, 60, 12)  # fewer rows than one class alone would need to be safe
    fit = Alternating().solve(Problem.of(counts, truth(counts), None))
    assert fit.model.values.shape == (12, 3)
    assert error(fit.model, truth) <= 1e-6


def best_near(truth, counts, scores):
    """The loss that a general solver reaches from the planted parameters."""
    n = truth.n_units

    def residual(x):
        return Slalom(x[:n], x[n:])(counts) - scores

    return 2 * least_squares(residual, np.r_[truth.values, truth.importances]).cost / len(scores)


@cases("design", [subsets, pairs])
@cases("seed", range(3))
def test_with_noise_the_loss_is_that_of_a_general_solver(design, seed):
    rng = np.random.default_rng(seed)
    truth = planted(rng, 8)
    counts = design(rng, 200, 8)
    scores = truth(counts) + 0.05 * rng.normal(size=200)
    fit = Alternating().solve(Problem.of(counts, scores, None))
    assert fit.converged
    assert fit.loss <= (1 + 1e-4) * best_near(truth, counts, scores)


@cases("seed", range(3))
def test_no_iteration_makes_the_model_worse(seed):
    rng = np.random.default_rng(seed)
    counts = subsets(rng, 60, 12)
    problem = Problem.of(counts, rng.normal(size=60), None)
    shares = counts / counts.sum(axis=1, keepdims=True)
    flat = shares @ np.linalg.lstsq(shares, problem.scores)[0] - problem.scores
    losses = [np.mean(flat**2)] + [Alternating(max_iterations=k).solve(problem).loss for k in range(1, 12)]
    assert losses[-1] < 0.99 * losses[0]
    assert (np.diff(losses) <= 1e-9 * losses[0]).all()


def test_weights_are_repeated_rows():
    rng = np.random.default_rng(4)
    counts = pairs(rng, 120, 8)
    scores = planted(rng, 8)(counts) + 0.2 * rng.normal(size=120)
    times = rng.integers(0, 4, size=120)
    weighted = Alternating().solve(Problem.of(counts, scores, times))
    repeated = Alternating().solve(Problem.of(counts.repeat(times, axis=0), scores.repeat(times), None))
    plain = Alternating().solve(Problem.of(counts, scores, None))
    assert error(weighted.model, repeated.model) <= 1e-6
    assert weighted.loss == pytest.approx(repeated.loss, rel=1e-9)
    assert error(weighted.model, plain.model) > 1e-2


def test_units_never_seen_or_never_apart_get_the_mean_and_equal_parts():
    rng = np.random.default_rng(8)
    truth = planted(rng, 4)
    counts = np.zeros((200, 7))
    counts[:, :4] = subsets(rng, 200, 4)
    scores = truth(counts[:, :4])
    counts[:, 4] = counts[:, 3]  # never apart from unit 3; units 5 and 6 are never seen
    fit = Alternating().solve(Problem.of(counts, scores, None))
    assert fit.r2 == pytest.approx(1.0, abs=1e-12)
    assert fit.model.values[3] == pytest.approx(fit.model.values[4])
    assert fit.model.importances[3] == pytest.approx(fit.model.importances[4])
    np.testing.assert_allclose(fit.model.values[5:], scores.mean())
    assert "never present" in fit.diagnosis


def test_a_linear_model_is_out_of_reach():
    """Documented: a unit alone, twice and three times has one score, whatever v and s."""
    fit = Alternating().solve(Problem.of([[1], [2], [3]], [1.0, 2.0, 3.0], None))
    assert fit.model.values.tolist() == pytest.approx([2.0])
    assert fit.loss == pytest.approx(2 / 3)
    assert fit.r2 == pytest.approx(0.0, abs=1e-12)


def test_the_floor_bounds_the_importances_and_is_reported():
    truth = Slalom([1.0, -1.0, 5.0, 0.5], [3.0, 2.0, -9.0, 4.0])
    counts = subsets(np.random.default_rng(11), 80, 4)
    low = Alternating(floor=1e-3).solve(Problem.of(counts, truth(counts), None))
    weights = np.exp(low.model.importances)
    assert weights.min() / weights.mean() == pytest.approx(1e-3, rel=0.05)
    assert "1 of 4 importances are at the floor" in low.diagnosis
    lower = Alternating(floor=1e-8).solve(Problem.of(counts, truth(counts), None))
    assert error(lower.model, truth) <= 1e-6
    assert lower.diagnosis == ""


def test_an_unfinished_fit_says_so():
    rng = np.random.default_rng(12)
    counts = pairs(rng, 100, 10)
    problem = Problem.of(counts, planted(rng, 10)(counts) + rng.normal(size=100), None)
    short, full = Alternating(max_iterations=2).solve(problem), Alternating().solve(problem)
    assert (short.converged, short.iterations) == (False, 2)
    assert "Not converged after 2 iterations" in short.diagnosis
    assert full.converged
    assert 2 < full.iterations < 100
    assert "Not converged" not in full.diagnosis


@cases(
    "wrong",
    [{"max_iterations": 0}, {"tolerance": -1.0}, {"tolerance": np.nan}, {"floor": 0.0}, {"floor": 1.0}],
)
def test_wrong_hyper_parameters(wrong):
    with pytest.raises(InputError, match=f"^{next(iter(wrong))} must") as caught:
        Alternating(**wrong)
    assert "\n" not in str(caught.value)


def tied_deletions(rng, m, n):
    """Equal tokens share a column: counts above one."""
    times = rng.integers(1, 4, n)
    gone = np.stack([rng.choice(n, 5) for _ in range(m)])
    return np.maximum(times - (gone[:, :, None] == np.arange(n)).sum(axis=1), 0.0)


def real_like(rng, n, m, classes=None):
    """Deletions scored by a model with noise and interactions that no SLALOM has; random weights."""
    counts = tied_deletions(rng, m, n)
    effect = rng.normal(size=(n, classes or 1)) ** 3
    scores = np.tanh((counts - counts.max(axis=0)) @ effect) + 0.1 * rng.normal(size=(m, classes or 1))
    return Problem.of(counts, scores[:, 0] if classes is None else scores, rng.gamma(2.0, 1.0, m))


def test_products_end_where_orthogonal_columns_do(monkeypatch):
    problem = real_like(np.random.default_rng(16), 40, 600)
    quick = Alternating().solve(problem)
    monkeypatch.setattr(alternating, "_pivoted", lambda *_: None)
    by_nnls = Alternating().solve(problem)
    monkeypatch.setattr(alternating, "_value_step_by_products", lambda *_: None)
    exact = Alternating(tolerance=1e-8).solve(problem)
    assert "at the floor" in quick.diagnosis
    assert by_nnls.loss == pytest.approx(quick.loss, rel=1e-6)
    assert quick.loss == pytest.approx(exact.loss, rel=1e-4)


@cases("seed", range(5))
def test_block_pivoting_is_bounded_least_squares(seed):
    rng = np.random.default_rng(seed)
    matrix, aim = rng.normal(size=(60, 30)) * np.exp(rng.normal(size=30)), rng.normal(size=60)
    for free in (np.zeros(30, dtype=bool), np.ones(30, dtype=bool), rng.random(30) < 0.5):
        got = _pivoted(matrix.T @ matrix, matrix.T @ aim, free)
        np.testing.assert_allclose(got, nnls(matrix, aim)[0], atol=1e-9)


def test_once_is_a_single_alternation():
    rng = np.random.default_rng(3)
    counts = subsets(rng, 200, 10)
    problem = Problem.of(counts, planted(rng, 10)(counts) + 0.5 * rng.normal(size=len(counts)), None)
    one, every = (Alternating(once=once).solve(problem) for once in (True, False))
    assert (one.iterations, one.converged) == (1, True)
    assert every.iterations > 1
    assert every.loss < one.loss == Alternating(max_iterations=1).solve(problem).loss
