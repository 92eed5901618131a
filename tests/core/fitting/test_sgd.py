"""Stochastic gradient descent: planted parameters, its gradient, its stopping, and what it cannot do."""

from unittest.mock import patch

import numpy as np
import pytest
from scipy.optimize import minimize

from slalom.core.fitting._minibatches import DenseRows, SparseRows, StandardisedData
from slalom.core.fitting.problem import Problem
from slalom.core.fitting.sgd import Sgd
from slalom.core.slalom import Slalom
from slalom.errors import InputError
from tests.cases import cases
from tests.factories import pairs, planted, subsets
from tests.factories import parameter_error as error


@cases("design", [subsets, pairs])
@cases("seed", range(4))
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


def test_large_problems_of_pairs():
    rng = np.random.default_rng(0)
    truth = planted(rng, 200)
    counts = pairs(rng, 1000, 200)
    fit = Sgd().solve(Problem.of(counts, truth(counts), None))
    assert fit.r2 > 1 - 1e-6
    assert np.median(np.abs(fit.model.importances - truth.importances)) <= 1e-2


def test_the_scale_of_the_scores_does_not_matter():
    rng = np.random.default_rng(1)
    truth = planted(rng, 10)
    counts = pairs(rng, 100, 10)
    fit = Sgd().solve(Problem.of(counts, 1e4 * truth(counts) - 3e5, None))
    np.testing.assert_allclose(fit.model.values, 1e4 * truth.values - 3e5, atol=1e2)
    np.testing.assert_allclose(fit.model.importances, truth.importances, atol=1e-2)


def test_several_classes_share_the_importances():
    rng = np.random.default_rng(2)
    truth = planted(rng, 12, classes=3)
    counts = pairs(rng, 200, 12)
    fit = Sgd().solve(Problem.of(counts, truth(counts), None))
    assert fit.model.values.shape == (12, 3)
    assert error(fit.model, truth) <= 1e-2


@cases("classes", [None, 3])
def test_the_gradient_is_that_of_the_loss(classes):
    rng = np.random.default_rng(3)
    counts = subsets(rng, 30, 6)
    scores = rng.normal(size=30 if classes is None else (30, classes))
    data = StandardisedData.of(Problem.of(counts, scores, rng.random(30)))
    at = rng.normal(size=(1 + (classes or 1), 6))
    loss, got = data.slope(at)
    assert loss == pytest.approx(data.loss(at), rel=1e-12)
    for where in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[where] = 1e-6
        assert got[where] == pytest.approx((data.loss(at + step) - data.loss(at - step)) / 2e-6, abs=1e-8)


@cases("classes", [None, 3])
def test_rows_as_lists_of_units_and_as_they_are_give_the_same(classes):
    """Rows of one to three units, some of them repeated, beside rows of weight zero."""
    rng = np.random.default_rng(16)
    counts = np.zeros((50, 30))
    for row in counts:
        row[rng.choice(30, rng.integers(1, 4), replace=False)] = rng.integers(1, 4)
    scores = rng.normal(size=50 if classes is None else (50, classes))
    listed = StandardisedData.of(Problem.of(counts, scores, rng.integers(0, 3, 50)))
    full = listed._replace(counts=DenseRows(counts))
    assert isinstance(listed.counts, SparseRows)
    at = rng.normal(size=(1 + (classes or 1), 30))
    assert listed.loss(at) == pytest.approx(full.loss(at), rel=1e-12)
    pairs_of_batches = list(zip(*(data.batches(np.random.default_rng(0), 20) for data in (listed, full)), strict=True))
    assert len(pairs_of_batches) == 2
    for one, other in pairs_of_batches:
        np.testing.assert_allclose(one.slope(at)[1], other.slope(at)[1], rtol=1e-9, atol=1e-14)


def test_the_batches_of_an_epoch_hold_different_rows_and_their_gradients_add_up():
    """Without a last, smaller batch the mean gradient of an epoch is that of all rows."""
    rng = np.random.default_rng(18)
    data = StandardisedData.of(Problem.of(pairs(rng, 60, 20), rng.normal(size=60), rng.random(60)))
    at = rng.normal(size=(2, 20))
    batches = list(data.batches(rng, 20))
    np.testing.assert_allclose(sum(batch.slope(at)[1] for batch in batches) / 3, data.slope(at)[1], atol=1e-14)


def test_the_loss_is_that_of_the_model():
    rng = np.random.default_rng(4)
    counts = subsets(rng, 30, 6)
    problem = Problem.of(counts, rng.normal(size=30), rng.random(30))
    data, at = StandardisedData.of(problem), rng.normal(size=(2, 6))
    model = Slalom(at[0] * data.scale + data.mean, at[1])
    assert data.loss(at) * data.scale**2 == pytest.approx(problem.loss(model))


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


def test_plain_descent_gets_there_more_slowly():
    rng = np.random.default_rng(6)
    truth = planted(rng, 10)
    counts = subsets(rng, 150, 10)
    problem = Problem.of(counts, truth(counts), None)
    plain = Sgd(optimizer="sgd", max_steps=4000).solve(problem)
    assert plain.r2 > 0.999
    assert Sgd(max_steps=4000).solve(problem).loss < plain.loss


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


def test_adam_recovers_from_a_divergence():
    """Nothing of the steps that led to infinity is remembered; what comes next is still rough, but no standstill."""
    rng = np.random.default_rng(7)
    counts = pairs(rng, 128, 8)
    problem = Problem.of(counts, planted(rng, 8)(counts), None)
    assert Sgd(learning_rate=1e4, halvings=30).solve(problem).r2 > 0.5


def test_noise_ends_soon_where_rows_are_pairs():
    rng = np.random.default_rng(17)
    counts = pairs(rng, 3000, 100)
    truth = planted(rng, 100)
    problem = Problem.of(counts, truth(counts) + 0.3 * rng.normal(size=3000), None)
    soon, late = Sgd().solve(problem), Sgd(batch_size=64, learning_rate=0.05, patience=300).solve(problem)
    assert soon.converged
    assert soon.iterations < 1000
    assert soon.loss < 1.01 * late.loss


def test_the_mean_of_the_last_steps_is_better_than_any_of_them():
    """Where minibatches are noisy: halving the learning rate until nothing is gained takes twice the steps to get there."""
    rng = np.random.default_rng(19)
    counts = subsets(rng, 3000, 12)
    problem = Problem.of(counts, planted(rng, 12)(counts) + rng.normal(size=3000), None)
    once = Sgd(halvings=1).solve(problem)
    least = Sgd(patience=500).solve(problem).loss
    assert once.iterations < 500
    assert once.loss < 1.005 * least


def lowest(problem):
    """The least loss that scipy finds from the same start, given all the time it wants."""
    data = StandardisedData.of(problem)
    shape = len(data.scores) + 1, data.n_units

    def slope(flat):
        loss, gradient = data.slope(flat.reshape(shape))
        return loss, gradient.ravel()

    options = {"maxiter": 5000, "maxfun": 10_000, "ftol": 1e-14, "gtol": 1e-10}
    found = minimize(slope, np.zeros(shape).ravel(), jac=True, method="L-BFGS-B", options=options)
    return found.fun * data.scale**2


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
    assert fit.loss <= 1.03 * lowest(problem)
    assert fit.loss == pytest.approx(problem.loss(fit.model), rel=1e-9)


@cases("n", [1, 2, 3, 8, 15])
def test_pairs_of_few_units_are_finished_as_well_as_by_minibatches(n):
    """With fewer than 16 units pairs are no small share of a row; as lists they take a tenth of the steps."""
    rng = np.random.default_rng(n)
    losses = []
    for _ in range(12):
        counts = pairs(rng, 100, n) if n > 1 else np.ones((100, 1))
        counts[:n] = np.eye(n)
        problem = Problem.of(counts, planted(rng, n)(counts) + 0.3 * rng.normal(size=100), None)
        fit = Sgd().solve(problem)
        with patch.object(SparseRows, "of", return_value=None):
            dense = Sgd().solve(problem)
        assert fit.iterations < max(0.4 * dense.iterations, 10)
        losses.append([fit.loss, dense.loss])
    listed, dense = np.array(losses).T
    assert listed.mean() <= 1.0005 * dense.mean()
    assert (listed <= 1.003 * dense).mean() >= 0.9  # another minimum is found now and then


def test_rows_of_more_than_two_of_few_units_stay_as_they_are():
    rng = np.random.default_rng(5)
    assert SparseRows.of(pairs(rng, 20, 9), 2) is not None
    counts = pairs(rng, 20, 9)
    counts[3, :3] = 1.0
    assert SparseRows.of(counts, 2) is None
    assert StandardisedData.of(Problem.of(pairs(rng, 20, 9), rng.normal(size=20), None)).small
    assert not StandardisedData.of(Problem.of(pairs(rng, 20, 16), rng.normal(size=20), None)).small


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


def test_importances_that_want_to_be_infinite_stay_finite():
    """A unit that takes all the weight in each of its pairs."""
    rng = np.random.default_rng(23)
    truth = Slalom(rng.normal(size=30), np.where(np.arange(30) == 4, 900.0, 0.0))
    counts = pairs(rng, 600, 30)
    fit = Sgd().solve(Problem.of(counts, truth(counts), None))
    assert np.isfinite(fit.model.importances).all()
    assert fit.model.importances.argmax() == 4
    assert fit.r2 > 1 - 1e-6


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


def test_nothing_to_learn_is_a_fit_too():
    """Every row comes twice, with opposite scores: the slope is zero at the start."""
    counts = np.repeat(np.kron(np.eye(8), np.ones((1, 2))), 2, axis=0)
    fit = Sgd().solve(Problem.of(counts, np.tile([1.0, -1.0], 8), None))
    assert fit.converged
    assert fit.r2 == pytest.approx(0.0, abs=1e-12)
    assert np.isfinite(fit.model.values).all()


def test_slopes_that_are_no_numbers_end_the_fit():
    """Counts so small that their sums have no inverse: nothing can be learnt, but it must end."""
    first, second = np.triu_indices(16, 1)
    counts = np.zeros((len(first), 16))
    counts[np.arange(len(first)), first] = counts[np.arange(len(first)), second] = 1e-309
    fit = Sgd().solve(Problem.of(counts, np.random.default_rng(0).normal(size=len(first)), None))
    assert np.isfinite(fit.model.values).all()


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


def test_an_unfinished_fit_says_so():
    rng = np.random.default_rng(10)
    counts = pairs(rng, 128, 8)
    fit = Sgd(max_steps=10).solve(Problem.of(counts, planted(rng, 8)(counts), None))
    assert (fit.converged, fit.iterations) == (False, 10)
    assert "Not converged after 10 iterations; raise max_steps" in fit.diagnosis


def test_noise_ends_by_halving_the_learning_rate():
    rng = np.random.default_rng(11)
    counts = pairs(rng, 200, 8)
    truth = planted(rng, 8)
    problem = Problem.of(counts, truth(counts) + 0.1 * rng.normal(size=200), None)
    fit = Sgd().solve(problem)
    assert fit.converged
    assert fit.iterations < 8000
    assert fit.loss <= problem.loss(truth)
    assert fit.diagnosis == ""


@cases("score", [0.0, 0.1, -1e6])
def test_constant_scores(score):
    counts = subsets(np.random.default_rng(12), 50, 5)
    fit = Sgd().solve(Problem.of(counts, np.full(50, score), None))
    np.testing.assert_allclose(fit.model.values, score, rtol=1e-12)
    np.testing.assert_allclose(fit.model.importances, 0.0, atol=1e-12)
    assert (fit.converged, fit.iterations) == (True, 0)
    assert "constant" in fit.diagnosis


def test_all_rows_alike():
    scores = np.random.default_rng(13).normal(size=20)
    fit = Sgd().solve(Problem.of(np.ones((20, 4)), scores, None))
    np.testing.assert_allclose(fit.model.values, scores.mean(), atol=1e-6)
    np.testing.assert_allclose(fit.model.importances, 0.0, atol=1e-6)
    assert "alike" in fit.diagnosis


def test_units_never_seen_stay_at_the_mean():
    rng = np.random.default_rng(14)
    counts = np.zeros((100, 6))
    counts[:, :4] = subsets(rng, 100, 4)
    scores = planted(rng, 4)(counts[:, :4])
    fit = Sgd().solve(Problem.of(counts, scores, None))
    np.testing.assert_allclose(fit.model.values[4:], scores.mean())
    assert "never present" in fit.diagnosis


def test_a_linear_model_is_out_of_reach():
    """Documented: a unit alone, twice and three times has one score, whatever v and s."""
    fit = Sgd().solve(Problem.of([[1], [2], [3]], [1.0, 2.0, 3.0], None))
    assert fit.model.values.tolist() == pytest.approx([2.0])
    assert fit.r2 == pytest.approx(0.0, abs=1e-12)


def test_a_linear_model_of_many_units_is_out_of_reach_too():
    rng = np.random.default_rng(15)
    counts = subsets(rng, 300, 8)
    scores = counts @ np.arange(1.0, 9.0)
    assert Sgd().solve(Problem.of(counts, scores, None)).r2 < 0.5


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


@cases("seed", range(3))
def test_few_rows_are_not_fitted_to_the_last_digit(seed):
    """With more parameters than rows the way to zero loss is long and leads away from the truth."""
    rng = np.random.default_rng(seed)
    truth = Slalom(rng.normal(0.0, 2.0, 120), rng.normal(0.0, 0.7, 120))
    few, fresh = pairs(rng, 200, 120), pairs(rng, 2000, 120)
    noise = rng.normal(0.0, 0.1, 200)
    fit = Sgd().solve(Problem.of(few, truth(few) + noise, None))
    with patch("slalom.core.fitting._minibatches._EXACT", 1000):
        perfect = Sgd().solve(Problem.of(few, truth(few) + noise, None))
    assert fit.converged
    assert fit.iterations < perfect.iterations / 3
    assert ((fit.model(fresh) - truth(fresh)) ** 2).mean() < ((perfect.model(fresh) - truth(fresh)) ** 2).mean()


def test_the_number_of_steps_does_not_peak_where_rows_are_as_many_as_parameters():
    rng = np.random.default_rng(0)
    truth = Slalom(rng.normal(0.0, 2.0, 120), rng.normal(0.0, 0.7, 120))
    every = pairs(rng, 1000, 120)
    scores = truth(every) + rng.normal(0.0, 0.1, len(every))
    steps = [Sgd().solve(Problem.of(every[:m], scores[:m], None)).iterations for m in (60, 120, 240, 480, 1000)]
    assert max(steps[:4]) <= 3 * steps[4]
