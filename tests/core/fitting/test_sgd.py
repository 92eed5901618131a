"""Stochastic gradient descent: planted parameters, its stopping, and what it cannot do."""

import numpy as np
import pytest

from slalom.core.fitting.problem import Problem
from slalom.core.fitting.sgd import Sgd
from slalom.errors import InputError
from tests.cases import cases
from tests.factories import pairs, planted, subsets
from tests.factories import parameter_error as error


@cases(("design", "seed"), [(subsets, 0), (pairs, 1)])
def test_planted_parameters_are_recovered(design, seed):
    rng = np.random.default_rng(seed)
    truth = planted(rng, 20)
    counts = design(rng, 400, 20)
    fit = Sgd().solve(Problem.of(counts, truth(counts), None))
    assert error(fit.model, truth) <= 1e-2
    assert fit.converged
    assert 0 < fit.iterations < 12_000
    assert fit.r2 == pytest.approx(1.0, abs=1e-8)
    assert fit.diagnosis == ""


def test_several_classes_share_the_importances():
    rng = np.random.default_rng(2)
    truth = planted(rng, 12, classes=3)
    counts = pairs(rng, 200, 12)
    fit = Sgd().solve(Problem.of(counts, truth(counts), None))
    assert fit.model.values.shape == (12, 3)
    assert error(fit.model, truth) <= 1e-2


def test_weights_are_repeated_rows():
    """With all rows in one batch nothing is random but the order of sums."""
    rng = np.random.default_rng(5)
    counts = pairs(rng, 120, 8)
    scores = planted(rng, 8)(counts) + 0.2 * rng.normal(size=120)
    times = rng.integers(0, 4, size=120)
    fitter = Sgd(batch_size=10_000, max_steps=1000)
    weighted = fitter.solve(Problem.of(counts, scores, times))
    repeated = fitter.solve(Problem.of(counts.repeat(times, axis=0), scores.repeat(times), None))
    plain = fitter.solve(Problem.of(counts, scores, None))
    assert error(weighted.model, repeated.model) <= 1e-6
    assert weighted.loss == pytest.approx(repeated.loss, rel=1e-9)
    assert error(weighted.model, plain.model) > 1e-2


def test_weights_count_in_minibatches_too():
    """Two units with scores that disagree: the weighted mean is the answer."""
    counts = np.tile([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], (50, 1))
    scores = np.tile([0.0, 4.0, 9.0], 50)
    fit = Sgd(batch_size=16).solve(Problem.of(counts, scores, np.tile([3.0, 1.0, 1.0], 50)))
    np.testing.assert_allclose(fit.model.values, [1.0, 9.0], atol=0.05)


@cases("optimizer", ["adam", "sgd"])
def test_a_learning_rate_far_too_high_is_survived(optimizer):
    rng = np.random.default_rng(7)
    counts = pairs(rng, 100, 8)
    problem = Problem.of(counts, planted(rng, 8)(counts), None)
    fit = Sgd(optimizer=optimizer, learning_rate=1e200, max_steps=2000).solve(problem)
    assert np.isfinite(fit.model.values).all()
    assert np.isfinite(fit.model.importances).all()
    assert fit.r2 >= -1e-12  # no worse than the start


def test_a_divergence_is_noticed_at_once_and_halves_the_learning_rate():
    """Eight halvings of 500 end at 2, too few steps for waiting `patience` steps each time."""
    rng = np.random.default_rng(7)
    counts = pairs(rng, 128, 8)
    problem = Problem.of(counts, planted(rng, 8)(counts), None)
    fit = Sgd(optimizer="sgd", learning_rate=500.0, patience=1000, max_steps=6000).solve(problem)
    assert fit.r2 > 0.99


def test_the_mean_of_the_last_steps_is_better_than_any_of_them():
    """Where minibatches are noisy: halving the learning rate until nothing is gained takes twice the steps to get there."""
    rng = np.random.default_rng(19)
    counts = subsets(rng, 3000, 12)
    problem = Problem.of(counts, planted(rng, 12)(counts) + rng.normal(size=3000), None)
    once = Sgd(halvings=1).solve(problem)
    least = Sgd(patience=500).solve(problem).loss
    assert once.iterations < 500
    assert once.loss < 1.005 * least


@cases("classes", [None, 3])
def test_short_rows_are_finished_with_all_of_them(classes):
    """Some forty steps to within 3% of the least loss: an epoch of minibatches is thirteen."""
    rng = np.random.default_rng(20)
    counts = pairs(rng, 5000, 120)
    truth = planted(rng, 120, classes)
    scores = truth(counts) + 0.4 * rng.normal(size=truth(counts).shape)
    problem = Problem.of(counts, scores, rng.integers(1, 4, 5000))
    fit = Sgd().solve(problem)
    assert (fit.converged, fit.diagnosis) == (True, "")
    assert 13 < fit.iterations < 80
    assert fit.loss <= 1.03 * Sgd(batch_size=128, learning_rate=0.05, patience=300).solve(problem).loss
    assert fit.loss == pytest.approx(problem.loss(fit.model), rel=1e-9)


def test_the_finish_begins_at_the_start_where_minibatches_lead_nowhere():
    rng = np.random.default_rng(21)
    counts = pairs(rng, 2000, 40)
    problem = Problem.of(counts, planted(rng, 40)(counts), None)
    for rate in (1e4, 1e200):
        fit = Sgd(learning_rate=rate).solve(problem)
        assert fit.converged
        assert fit.r2 > 1 - 1e-8


def test_the_finish_stops_at_the_limit_and_says_so():
    rng = np.random.default_rng(22)
    counts = pairs(rng, 384, 40)
    problem = Problem.of(counts, planted(rng, 40)(counts), None)
    losses = []
    for most in (1, 5, 20):
        fit = Sgd(max_steps=most).solve(problem)
        assert (fit.converged, fit.iterations) == (False, most)
        assert f"Not converged after {most} iterations; raise max_steps" in fit.diagnosis
        losses.append(fit.loss)
    assert losses[0] > losses[1] > losses[2]


@cases("noise", [0.0, 0.03, 0.3, 1.0])
def test_the_start_is_a_saddle_where_units_do_little_alone(noise):
    """Scores that are what two units are to each other: alike or not. The first steps hardly lower the loss."""
    rng = np.random.default_rng(1)
    first, second = np.triu_indices(40, 1)
    counts = np.zeros((len(first), 40))
    counts[np.arange(len(first)), first] = counts[np.arange(len(first)), second] = 1.0
    effects = rng.normal(size=40)
    scores = np.where((first + second) % 2 == 0, 1.0, -1.0) + noise * (effects[first] + effects[second]) / 2
    assert Sgd().solve(Problem.of(counts, scores, None)).r2 > 0.38


def test_the_best_iterate_is_returned():
    """Steps of a size that makes the loss jump about: no longer run is worse than a shorter one."""
    rng = np.random.default_rng(8)
    counts = pairs(rng, 100, 8)
    problem = Problem.of(counts, planted(rng, 8)(counts), None)
    losses = [Sgd(learning_rate=2.0, patience=10_000, max_steps=k).solve(problem).loss for k in range(1, 60, 4)]
    assert (np.diff(losses) <= 1e-15).all()
    assert len(set(losses)) > 2


def test_a_seed_makes_the_fit_repeatable():
    rng = np.random.default_rng(9)
    counts = pairs(rng, 100, 8)
    problem = Problem.of(counts, rng.normal(size=100), None)
    first, again, other = (Sgd(max_steps=300, seed=seed).solve(problem).model.values for seed in (1, 1, 2))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


@cases(
    "wrong",
    [
        {"learning_rate": 0.0},
        {"learning_rate": np.inf},
        {"batch_size": 0},
        {"max_steps": 0},
        {"patience": 0},
        {"halvings": 0},
        {"tolerance": -1.0},
        {"optimizer": "rmsprop"},
    ],
)
def test_wrong_hyper_parameters(wrong):
    with pytest.raises(InputError, match=f"^{next(iter(wrong))} must") as caught:
        Sgd(**wrong)
    assert "\n" not in str(caught.value)
