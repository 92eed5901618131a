"""What holds for every fitter, on data of every kind."""

import numpy as np
import pytest

from slalom.core import Alternating, Joint, Sgd, Slalom, fit
from slalom.core.fitting.problem import Problem
from slalom.errors import InputError
from tests.cases import cases

FITTERS = {
    "joint": Joint(),
    "joint with background": Joint(background=True),
    "joint with link": Joint(link=True),
    "sgd": Sgd(max_steps=300),
    "alternating": Alternating(max_iterations=20),
}
SINGLE_SCORE = {"joint with link"}


def any_problem(seed, classes):
    """Random shapes, kinds of counts, scales from 1e-8 to 1e8, shifts, noise or a planted model, repeated rows, weights."""
    rng = np.random.default_rng(seed)
    n, m = int(rng.integers(1, 25)), int(rng.integers(1, 80))
    counts = [
        (rng.random((m, n)) < rng.uniform(0.05, 0.95)).astype(float),
        rng.integers(0, 4, (m, n)).astype(float),
        rng.gamma(1.0, 1.0, (m, n)),
        np.repeat((rng.random((max(m // 5, 1), n)) < 0.5).astype(float), 5, axis=0),
    ][rng.integers(4)]
    counts[~counts.any(axis=1), 0] = 1.0
    shape = n if classes is None else (n, classes)
    truth = Slalom(rng.normal(size=shape), rng.normal(size=n) * rng.choice([0.1, 1.0, 5.0]))
    scores = truth(counts) if rng.random() < 0.5 else rng.normal(size=truth(counts).shape)
    scores = scores * 10.0 ** rng.integers(-8, 9) + rng.choice([0.0, 1.0, 1e6])
    weights = None if rng.random() < 0.6 else rng.gamma(0.3, 1.0, len(counts)) + 1e-3
    return counts, scores, weights


@cases(
    ("name", "classes"),
    [(name, classes) for name in FITTERS for classes in (None, 3) if not (classes and name in SINGLE_SCORE)],
)
def test_numbers_are_finite_and_the_losses_are_what_the_model_gives(name, classes):
    for seed in range(25):
        counts, scores, weights = any_problem(seed, classes)
        found = fit(counts, scores, FITTERS[name], weights)
        model = found.model
        assert np.isfinite(model.values).all(), seed
        assert np.isfinite(model.importances).all(), seed
        target = scores if classes is None else scores - scores.mean(axis=1, keepdims=True)
        square = (model(counts) - target).reshape(len(counts), -1) ** 2
        assert found.loss == pytest.approx(np.average(square.sum(axis=1), weights=weights), rel=1e-9), seed
        assert found.converged or "Not converged" in found.diagnosis, seed
        for errors, like in ((found.values_se, model.values), (found.importances_se, model.importances)):
            assert errors is None or (errors.shape == like.shape and np.isfinite(errors).all()), seed


@cases("fitter", [Alternating(), Sgd()])
def test_empty_rows_want_another_fitter(fitter):
    with pytest.raises(InputError, match="drop the empty rows or use Joint") as caught:
        fitter.solve(Problem.of([[1, 0], [0, 0]], [1.0, 2.0], None))
    assert "\n" not in str(caught.value)


@cases("name", FITTERS)
def test_a_fit_explains_more_than_a_constant(name):
    for seed in range(10):
        rng = np.random.default_rng(seed)
        truth = Slalom(rng.normal(size=10), rng.normal(size=10))
        counts = (rng.random((150, 10)) < 0.5).astype(float)
        counts[~counts.any(axis=1), 0] = 1.0
        found = fit(counts, truth(counts) + 0.05 * rng.normal(size=150), FITTERS[name])
        assert found.r2 > 0.8, seed


@cases("name", FITTERS)
def test_the_scale_of_the_weights_does_not_matter(name):
    rng = np.random.default_rng(0)
    truth = Slalom(rng.normal(size=8), rng.normal(size=8))
    counts = (rng.random((80, 8)) < 0.5).astype(float)
    counts[~counts.any(axis=1), 0] = 1.0
    scores = truth(counts) + 0.1 * rng.normal(size=80)
    weights = rng.gamma(2.0, 1.0, 80)
    one, other = (fit(counts, scores, FITTERS[name], w).model for w in (weights, 1024.0 * weights))
    np.testing.assert_allclose(one.values, other.values, rtol=1e-6, atol=1e-8)
