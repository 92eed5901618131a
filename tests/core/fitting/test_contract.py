"""What holds for every fitter, on data of every kind: a finite fit, honest numbers, no exception."""

import numpy as np
import pytest

from slalom.core import Alternating, Joint, Linear, Sgd, Slalom, fit
from slalom.core.fitting.problem import FALLBACK, Problem
from slalom.errors import InputError
from tests.cases import cases

FITTERS = {
    "joint": Joint(),
    "joint without link": Joint(link=False),
    "linear": Linear(),
    "sgd": Sgd(max_steps=200),
    "alternating": Alternating(max_iterations=20),
}
PAPER = ("sgd", "alternating")  # no empty rows
SCORES = {
    "ordinary": lambda y, rng: y + 0.1 * rng.normal(size=y.shape),
    "no noise": lambda y, rng: y,
    "constant": lambda y, rng: np.full(y.shape, rng.choice([0.0, 5.4, -1e-9, 1e9])),
    "nearly constant": lambda y, rng: 5.4 + 10.0 ** rng.uniform(-9, -3) * y,
    "at the rounding of a large mean": lambda y, rng: 1e8 + 10.0 ** rng.uniform(-9, -5) * rng.normal(size=y.shape),
    "one outlier": lambda y, rng: (
        y + 10.0 ** rng.uniform(3, 140) * (np.arange(y.size) == rng.integers(y.size)).reshape(y.shape)
    ),
    "small or large": lambda y, rng: 10.0 ** rng.uniform(-120, 140) * (y + 0.1 * rng.normal(size=y.shape)),
    "of all sizes": lambda y, rng: y * 10.0 ** rng.uniform(-100, 140, y.shape),
    "saturated": lambda y, rng: 40.0 * np.tanh(10.0 ** rng.uniform(0, 3) * y),
    "two values": lambda y, rng: np.where(y > np.median(y), 2.5, -1.0),
    "mere noise": lambda y, rng: rng.normal(size=y.shape),
    "heavy tails": lambda y, rng: rng.standard_cauchy(y.shape) ** 3,
}
ROWS = {
    "half of the units": lambda m, n, rng: (rng.random((m, n)) < 0.5).astype(float),
    "counts up to 5": lambda m, n, rng: rng.integers(0, 6, (m, n)).astype(float),
    "counts of all sizes": lambda m, n, rng: (rng.random((m, n)) < 0.5) * 10.0 ** rng.uniform(-6, 6, (m, n)),
    "all alike": lambda m, n, rng: np.tile((rng.random(n) < 0.5).astype(float), (m, 1)),
    "rows that repeat": lambda m, n, rng: np.repeat((rng.random((-(-m // 5), n)) < 0.5).astype(float), 5, axis=0),
    "never or always": lambda m, n, rng: (rng.random((m, n)) < rng.choice([0.0, 0.5, 1.0], n)).astype(float),
}
WEIGHTS = {
    "none": lambda m, rng: None,
    "one heavy": lambda m, rng: np.where(np.arange(m) == 0, max(m - 1.0, 1.0), 1.0),
    "with zeros": lambda m, rng: np.where(np.arange(m) == rng.integers(m), 1.0, rng.integers(0, 2, m)),
    "of all sizes": lambda m, rng: 10.0 ** rng.uniform(-12, 12, m),
}


def drawn(seed, name):
    """Counts, scores and weights of a seed, and what they are."""
    rng = np.random.default_rng(seed)
    kinds = [str(rng.choice(list(table))) for table in (SCORES, ROWS, WEIGHTS)]
    n, classes = int(np.exp(rng.uniform(0.0, np.log(30.0)))), None if rng.random() < 0.6 else 3
    counts = ROWS[kinds[1]](int(rng.integers(1, 3 * n + 10)), n, rng)
    if name in PAPER:
        counts[~counts.any(axis=1), 0] = 1.0
    shape = n if classes is None else (n, classes)
    y = Slalom(rng.normal(size=shape), rng.normal(size=n), float(rng.random()))(counts)
    y = y / max(np.abs(y).max(), 1e-9)
    return counts, SCORES[kinds[0]](y, rng), WEIGHTS[kinds[2]](len(counts), rng), kinds


@cases("name", FITTERS)
def test_any_data_give_a_finite_fit_and_the_loss_that_the_model_has(name):
    for seed in range(36):
        counts, scores, weights, kinds = drawn(seed, name)
        try:
            found = fit(counts, scores, FITTERS[name], weights)
            problem, model = Problem.of(counts, scores, weights), found.model
            assert np.isfinite([*model.values.ravel(), *model.importances, *model(counts).ravel(), found.r2]).all()
            assert found.loss == pytest.approx(problem.loss(model), rel=1e-9, abs=1e-20 * problem.size)
            assert found.r2 <= 1.0
            assert found.r2 > -0.5 or "Not converged" in found.diagnosis or FALLBACK in found.diagnosis
            assert found.converged or "Not converged" in found.diagnosis
            for errors, like in ((found.values_se, model.values), (found.importances_se, model.importances)):
                assert errors is None or (errors.shape == like.shape and np.isfinite(errors).all())
        except BaseException as error:
            error.add_note(f"seed {seed}: {kinds}, counts {counts.shape}, scores {scores.shape}")
            raise


@cases("fitter", [Alternating(), Sgd()])
def test_empty_rows_want_another_fitter(fitter):
    with pytest.raises(InputError, match="drop the empty rows or use Joint") as caught:
        fitter.solve(Problem.of([[1, 0], [0, 0]], [1.0, 2.0], None))
    assert "\n" not in str(caught.value)


@cases("name", FITTERS)
def test_a_fit_explains_more_than_a_constant_and_only_the_ratios_of_weights_matter(name):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        truth, counts = Slalom(rng.normal(size=10), rng.normal(size=10)), (rng.random((150, 10)) < 0.5).astype(float)
        counts[~counts.any(axis=1), 0] = 1.0
        scores, weights = truth(counts) + 0.05 * rng.normal(size=150), rng.gamma(2.0, 1.0, 150)
        one, other = (fit(counts, scores, FITTERS[name], w) for w in (weights, 1024.0 * weights))
        assert one.r2 > 0.6, seed
        np.testing.assert_allclose(one.model.values, other.model.values, rtol=1e-6, atol=1e-8)


@cases("name", FITTERS)
def test_rows_without_a_weight_do_not_matter_however_large_their_scores(name):
    counts, scores, _, _ = drawn(1, "sgd")
    weights = np.arange(len(counts)) % 4 != 3
    kept = fit(counts, np.where(weights, scores.T, 0.0).T, FITTERS[name], weights)
    for sentinel in (1e300, -np.finfo(float).max):
        found = fit(counts, np.where(weights, scores.T, sentinel).T, FITTERS[name], weights)
        np.testing.assert_array_equal(found.model(counts), kept.model(counts))
        assert (found.loss, found.r2) == (kept.loss, kept.r2)


@cases("name", FITTERS)
@cases("level", [0.0, 5.4, -1e8, 1e140, 1e-300])
def test_constant_scores_of_any_size_are_that_constant(name, level):
    counts = np.vstack([np.eye(6), np.tri(6)])
    found = fit(counts, np.full(12, level), FITTERS[name])
    np.testing.assert_allclose(found.model(counts), level, rtol=1e-12)
    assert found.r2 == 1.0
    assert found.diagnosis.startswith("The scores are the same for every row")


def test_scores_that_cannot_be_squared_are_refused():
    with pytest.raises(InputError, match=r"scores must be at most 1e\+150; got 1e\+151"):
        fit(np.eye(2), [1.0, 1e151])


@cases("classes", [2, 3, 5])
def test_what_is_left_of_a_large_common_score_is_rounding(classes):
    """1e8 on all logits leaves multiples of 1.5e-8: noise of 1e-7 is little more."""
    rng = np.random.default_rng(0)
    found = fit((rng.random((60, 6)) < 0.5).astype(float), 1e8 + 1e-7 * rng.normal(size=(60, classes)))
    assert found.diagnosis.startswith("The scores are the same for every row")
    assert found.r2 == 1.0
    raised = rng.normal(size=(60, 3))
    raised[7] = 1e17, 0.0, 0.0
    problem = Problem.of(np.ones((60, 1)), raised, None)
    np.testing.assert_allclose(problem.scores[:7], (raised - raised.mean(axis=1, keepdims=True))[:7], atol=1e-15)
    np.testing.assert_allclose(problem.scores[7], np.array([2.0, -1.0, -1.0]) * 1e17 / 3, rtol=1e-15)


def test_a_fit_that_fails_is_the_mean_score_and_says_so(monkeypatch):
    def no_eigenvalues(*given):
        raise np.linalg.LinAlgError("Eigenvalues did not converge")

    rng = np.random.default_rng(0)
    counts, scores = (rng.random((60, 6)) < 0.5).astype(float), rng.normal(size=60)
    monkeypatch.setattr(np.linalg, "eigh", no_eigenvalues)
    found = fit(counts, scores, Linear())
    assert f"{FALLBACK} the fit failed numerically; every unit has the mean score" in found.diagnosis
    np.testing.assert_allclose(found.model(counts), scores.mean(), rtol=1e-12)


def test_standard_errors_that_are_not_finite_are_left_out_with_a_word():
    problem = Problem.of(np.eye(3), [1.0, 2.0, 4.0], None)
    model, errors = Slalom([1.0, 2.0, 4.0], np.zeros(3)), np.array([0.1, np.inf, 0.1])
    found = problem.fitted(model, converged=True, iterations=1, values_se=errors, importances_se=np.ones(3))
    assert found.values_se is None
    assert found.importances_se is None
    assert found.diagnosis.endswith("the standard errors are beyond the range of floats and are left out.")
