"""Standard errors of scores: coverage, the draws against their covariance, Shapley against exact ones, scaling, odd data."""

import numpy as np
import pytest

from slalom.core import Joint, Slalom, fit
from slalom.core.fitting import joint
from slalom.core.fitting._evidence import draws
from slalom.core.fitting.posterior import Posterior, ScoreErrors, with_shrinkage
from tests.cases import cases
from tests.factories import planted

SCORES = ScoreErrors._fields


def design(n, m, rng):
    """Subsets of every size."""
    ranks = rng.random((m, n)).argsort(axis=1).argsort(axis=1)
    return (ranks < rng.integers(1, n + 1, m)[:, None]).astype(float)


def fitted(n=20, m=300, noise=0.1, classes=None, background=(0.3, 1.0), seed=0, fitter=None, scale=1.0):
    """A planted model, its counts and the fit of its noisy scores."""
    rng = np.random.default_rng(seed)
    truth = planted(rng, n, classes, background)
    counts = design(n, m, rng)
    scores = truth(counts)
    scores = scores + noise * scores.std() * rng.normal(size=scores.shape)
    return truth, counts, fit(counts, scale * scores, fitter or Joint())


def models(posterior):
    """The Slaloms of a posterior, the estimate first."""
    for k, (values, importances) in enumerate(zip(posterior.values, posterior.importances, strict=True)):
        background = None if posterior.background is None else tuple(part[k] for part in posterior.background)
        link = None if posterior.link is None else tuple(part[k] for part in posterior.link)
        if posterior.single and background is not None:
            background = background[0][0], background[1]
        yield Slalom(values[:, 0] if posterior.single else values, importances, background, link)


def error(scores):
    """The standard errors that draws (1 + draws, n) of a score give, without a shrinkage."""
    return np.sort(np.abs(scores[1:] - scores[0]), axis=0)[151] / 1.959964


def spread(scores):
    """The same with the shrinkage."""
    alone = error(scores)
    return with_shrinkage(alone, scores[0], 1.0 / np.mean(scores[0] ** 2 + alone**2))


@cases(
    ("n", "m", "background", "noise", "fits"),
    [
        (20, 200, None, 0.1, 25),
        (20, 200, (0.3, 1.6), 0.1, 25),
        (20, 200, (0.3, 1.6), 0.5, 25),
        (80, 640, (0.3, 3.0), 0.1, 8),
        (80, 640, None, 0.5, 8),
    ],
)
def test_intervals_of_the_scores_cover_what_they_promise(n, m, background, noise, fits):
    inside = {name: [] for name in SCORES}
    for seed in range(fits):
        truth, _, found = fitted(n, m, noise, background=background, seed=seed)
        errors = found.posterior.errors()
        for name in SCORES:
            apart = np.abs(getattr(found.model, name)() - getattr(truth, name)())
            inside[name].append(np.mean(apart <= 1.96 * getattr(errors, name)))
    for name in SCORES:
        assert 0.90 <= np.mean(inside[name]) <= 0.985, name


@cases("classes", [None, 3])
@cases("background", [None, (0.3, 1.0)])
def test_linear_gradient_and_removal_are_those_of_the_drawn_models(classes, background):
    if classes and background:
        background = (np.array([0.3, 0.2, -0.5]), 1.0)
    found = fitted(12, 300, classes=classes, background=background)[2]
    errors = found.posterior.errors()
    for name in ("linear", "gradient", "removal"):
        drawn = np.array([getattr(model, name)() for model in models(found.posterior)])
        columns = drawn[:, :, None] if classes is None else drawn
        rule = error if name == "linear" else spread
        expected = np.stack([rule(columns[:, :, c]) for c in range(columns.shape[2])], axis=1)
        np.testing.assert_allclose(getattr(errors, name), expected[:, 0] if classes is None else expected, rtol=1e-6)


def test_the_scale_of_linear_scores_is_at_most_three_times_the_estimate():
    """In all draws one of three units weighs exp(-6): the scale is 2.002 / exp(-2), not 3; the sum of weights 2.002, not 3."""
    importances = np.zeros((160, 3))
    importances[1:, 2] = -6.0
    found = Posterior(np.tile([[1.0], [2.0], [0.0]], (160, 1, 1)), importances, None, None, single=True).errors()
    drawn = 3.0 * 3.0 / (2.0 + np.exp(-6.0))
    np.testing.assert_allclose(found.linear, np.array([1.0, 2.0, 0.0]) * (drawn - 1.0) / 1.959964, rtol=1e-6)


@cases("link", [None, (0.3, 0.8)])
def test_a_link_is_part_of_gradient_and_removal(link):
    rng = np.random.default_rng(12)
    truth = planted(rng, 20, background=(0.0, 2.0), link=link, spread=0.7)
    steep = Slalom(4 * truth.values, truth.importances, truth.background, truth.link)
    counts = design(20, 600, rng)
    found = fit(counts, steep(counts) + 0.01 * rng.normal(size=600))
    assert (found.model.link is None) == (link is None)
    errors = found.posterior.errors()
    for name in ("gradient", "removal"):
        drawn = np.array([getattr(model, name)() for model in models(found.posterior)])
        np.testing.assert_allclose(getattr(errors, name), spread(drawn), rtol=1e-6)


@cases(("n", "background"), [(20, None), (20, (0.3, 1.0)), (60, (0.3, 3.0)), (100, None)])
def test_shapley_errors_are_near_those_of_exact_shapley_values(n, background):
    found = fitted(n, 8 * n, background=background, seed=1)[2]
    exact = spread(np.array([model.shapley() for model in models(found.posterior)]))
    ratio = found.posterior.errors().shapley / exact
    assert abs(np.median(ratio) - 1.0) < 0.1
    assert np.mean(np.abs(ratio - 1.0) < 0.2) > 0.8


def test_shapley_errors_with_a_link_are_near_those_of_exact_shapley_values():
    rng = np.random.default_rng(12)
    truth = planted(rng, 40, background=(0.0, 3.0), link=(0.3, 0.8), spread=0.7)
    steep = Slalom(4 * truth.values, truth.importances, truth.background, truth.link)
    counts = design(40, 800, rng)
    found = fit(counts, steep(counts) + 0.01 * rng.normal(size=800))
    exact = spread(np.array([model.shapley() for model in models(found.posterior)]))
    assert found.model.link is not None
    assert abs(np.median(found.posterior.errors().shapley / exact) - 1.0) < 0.15


@cases(("n", "m", "noise"), [(8, 160, 0.3), (30, 400, 0.2)])
def test_errors_hold_and_stay_small_where_a_unit_saturates_the_score(n, m, noise):
    """Its value is known from one side only; a Gaussian goes to both, and had Shapley values of 3 with errors of 28."""
    inside, largest = [], []
    for seed in range(12):
        rng = np.random.default_rng(seed)
        values = 6 * n * rng.normal(size=n)
        values[:2] = 50 * n, -30 * n
        truth = Slalom(values, 0.5 * rng.normal(size=n), (0.0, np.log(4.5 * n)), (0.0, 4.0))
        counts = design(n, m, rng)
        found = fit(counts, truth(counts) + noise * rng.normal(size=m))
        if found.model.link is not None:
            error = found.posterior.errors().shapley
            inside.append(np.mean(np.abs(found.model.shapley() - truth.shapley()) <= 1.96 * error))
            largest.append(error.max())
    assert len(inside) >= 9
    assert np.mean(inside) >= 0.92
    assert max(largest) < 0.5


def test_draws_with_a_link_do_not_contradict_the_rows():
    rng = np.random.default_rng(3)
    truth = Slalom([400.0, -240.0, 30.0, -50.0, 60.0, 10.0, -20.0, 40.0], np.zeros(8), (0.0, 3.6), (0.0, 4.0))
    counts = design(8, 160, rng)
    scores = truth(counts) + 0.3 * rng.normal(size=160)
    found = fit(counts, scores)
    predicted = np.array([model(counts) for model in models(found.posterior)])
    noise = np.mean((scores - predicted[0]) ** 2) / found.free
    parameters = (1.0 - found.free) * len(counts)
    square = ((predicted[1:] - predicted[0]) ** 2).sum(axis=1) / noise
    assert found.model.link is not None
    assert 0.5 * parameters < np.median(square) < 2.0 * parameters
    assert np.quantile(square, 0.94) < 3.0 * parameters + 10.0


def test_the_draws_of_effects_have_the_covariance_of_the_normal_equations(monkeypatch):
    """By finite differences of the removal effects along every column of H^-1/2, for data that leave little room for skew."""
    monkeypatch.setattr(joint, "worth_mixing", lambda *given: False)
    found = fitted(10, 3000, noise=0.05)[2]
    best, _, basis, _ = found.draw.args
    point, factors, n = best.point, best.factors, 10

    def removal(move):
        shape, linear = move
        scalars = point.scalars + shape[n:]
        parts = (point.level + linear[:1], point.psi + linear[1:, None], point.t + shape[:n], scalars)
        drawn = draws._posterior(point, tuple(part[None] for part in parts), basis)
        return list(models(drawn))[1].removal()

    step, centre = 1e-4, found.model.removal()
    columns = []
    for column in factors.shape:
        columns.append((column, -(factors.half[0] @ column) @ factors.linear))
    columns += [(np.zeros(len(factors.shape)), column) for column in factors.linear]
    slopes = [(removal((step * shape, step * linear)) - centre) / step for shape, linear in columns]
    expected = np.sqrt(np.sum(np.square(slopes), axis=0))
    drawn = np.array([model.removal() for model in models(found.posterior)])
    np.testing.assert_allclose(drawn[1:].std(axis=0), expected, rtol=0.2)
    assert np.mean(drawn[1:].std(axis=0) / expected) == pytest.approx(1.0, abs=0.07)


def test_draws_are_made_when_they_are_asked_for(monkeypatch):
    made = []
    monkeypatch.setattr(joint, "drawn", lambda *given: made.append(1) or draws.drawn(*given))
    counts = np.random.default_rng(0).integers(0, 3, (80, 5)) + np.eye(5)[np.arange(80) % 5]
    scores = counts @ np.arange(5.0) / counts.sum(axis=1)
    found, large = (fit(counts, factor * scores) for factor in (1.0, 2.0**300))
    assert not made
    assert found.posterior is found.posterior
    assert len(made) == 1
    np.testing.assert_allclose(2.0**-300 * large.posterior.values[0], found.posterior.values[0], rtol=1e-6, atol=1e-9)


def test_errors_shrink_with_the_square_root_of_the_rows():
    few, many = (fitted(10, m, noise=0.1, seed=2)[2].posterior.errors() for m in (800, 12_800))
    for name in SCORES:
        assert np.median(getattr(few, name) / getattr(many, name)) == pytest.approx(4.0, rel=0.25), name


@cases("scale", [8.0, 2.0**100, 2.0**-100])
def test_errors_are_on_the_scale_of_the_scores(scale):
    plain, scaled = (fitted(scale=s)[2].posterior.errors() for s in (1.0, scale))
    for name in SCORES:
        np.testing.assert_allclose(getattr(scaled, name), scale * getattr(plain, name), rtol=1e-3)


def test_the_same_data_give_the_same_errors_bit_by_bit():
    one, other = (fitted()[2].posterior.errors() for _ in range(2))
    for name in SCORES:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


@cases("background", [None, (0.3, 1.0)])
@cases("classes", [None, 3])
def test_repeated_units_have_the_errors_of_the_repeated_model(background, classes):
    if classes and background:
        background = (np.array([0.3, 0.2, -0.5]), 1.0)
    posterior = fitted(8, 300, classes=classes, background=background)[2].posterior
    types = np.array([0, 1, 2, 3, 4, 5, 6, 7, 3, 3, 0])
    repeated = Posterior(
        posterior.values[:, types], posterior.importances[:, types], posterior.background, posterior.link, posterior.single
    )
    tied, single = posterior.errors(np.bincount(types)), repeated.errors()
    for name in SCORES:
        np.testing.assert_allclose(getattr(tied, name)[types], getattr(single, name), rtol=1e-9)


HOSTILE = {
    "constant scores": (np.eye(4), np.ones(4)),
    "one unit": (np.array([[0.0], [1.0], [0.0], [1.0]]), np.array([0.0, 1.0, 0.1, 1.1])),
    "one unit, always present": (np.array([[1.0], [2.0], [3.0], [1.0]]), np.array([0.0, 1.0, 0.1, 1.1])),
    "two rows": (np.eye(2), np.array([0.0, 1.0])),
    "huge scores": (
        np.random.default_rng(0).integers(0, 2, (60, 5)) + 0.0,
        1e150 / 5 * np.random.default_rng(1).normal(size=60),
    ),
    "tiny scores": (np.random.default_rng(0).integers(0, 2, (60, 5)) + 0.0, 1e-300 * np.random.default_rng(1).normal(size=60)),
    "huge counts": (1e12 * np.random.default_rng(0).random((60, 5)), np.random.default_rng(1).normal(size=60)),
    "a unit in no row": (np.r_[np.eye(4), np.ones((1, 4))] * [1, 1, 1, 0], np.arange(5.0)),
    "more units than rows": (np.random.default_rng(0).integers(0, 2, (10, 40)) + 0.0, np.random.default_rng(1).normal(size=10)),
    "three classes": (np.random.default_rng(0).integers(0, 3, (50, 6)) + 0.0, np.random.default_rng(1).normal(size=(50, 3))),
    "one row that differs": (np.ones((40, 3)) - np.eye(40, 3), 1e8 * (np.arange(40) == 0)),
}


@cases("name", HOSTILE)
def test_hostile_data_give_finite_errors_or_none(name):
    counts, scores = HOSTILE[name]
    found = fit(counts, scores)
    if found.posterior is None:
        return
    for errors in found.posterior.errors():
        assert errors is None or (errors.shape == found.model.values.shape and np.isfinite(errors).all())


def test_without_noise_the_errors_vanish():
    truth, _, found = fitted(15, 300, noise=0.0)
    errors = found.posterior.errors()
    for name in SCORES:
        assert (getattr(errors, name) <= 1e-4 * np.abs(getattr(truth, name)()).max()).all(), name


def noisy_by_size(seed, more):
    """A fit of rows whose noise is `more` times as large below the median size, and what it leaves of their scores."""
    rng = np.random.default_rng(seed)
    counts = (rng.random((600, 12)) < rng.uniform(0.05, 0.95, (600, 1))).astype(float)
    truth = Slalom(rng.normal(size=12), 0.5 * rng.normal(size=12), (0.2, 1.0))
    few = counts.sum(axis=1) < np.median(counts.sum(axis=1))
    scores = truth(counts) + 0.05 * np.where(few, more, 1.0) * rng.normal(size=600)
    found = fit(counts, scores)
    return found, counts, scores - found.model(counts), truth


def test_the_factor_of_the_misfit_is_that_of_the_leverages():
    """Equal noise gives a factor near one; h is computed anew, from the predictions of single draws."""
    for more, low, high in ((1.0, 1.0, 1.08), (5.0, 1.1, 1.6)):
        factors = []
        for seed in range(4):
            found, counts, left, _ = noisy_by_size(seed, more)
            factors.append(found.posterior.misfit_factor(counts, left, np.ones(600), found.free))
        assert low <= np.mean(factors) <= high
    models_ = [np.asarray(model(counts)) for model in models(found.posterior)][1::5]
    h = np.var(models_, axis=0, ddof=1)
    noise = (left**2).mean() / found.free
    expected = np.sqrt((h * left**2 / (1.0 - np.minimum(h / noise, 0.7))).sum() / h.sum() / noise)
    assert factors[-1] == pytest.approx(expected, rel=1e-9)
    scaled = found.posterior.misfit_factor(counts, left, np.full(600, 7.0), found.free)
    assert scaled == pytest.approx(expected, rel=1e-9)
    plain, wide = (found.posterior.errors(factor=factor) for factor in (1.0, expected))
    np.testing.assert_allclose(wide.shapley, expected * plain.shapley)


def test_errors_hold_where_rows_that_tell_most_fit_worst():
    inside = {False: [], True: []}
    for seed in range(12):
        found, counts, left, truth = noisy_by_size(seed, 5.0)
        factor = found.posterior.misfit_factor(counts, left, np.ones(600), found.free)
        for wide, held in inside.items():
            error = found.posterior.errors(factor=factor if wide else 1.0).shapley
            held.append(np.abs(found.model.shapley() - truth.shapley()) <= 1.96 * error)
    assert np.mean(inside[True]) > 0.9
    assert np.mean(inside[True]) > np.mean(inside[False])


def test_without_a_residual_the_factor_is_one():
    found, counts, left, _ = noisy_by_size(0, 1.0)
    assert found.posterior.misfit_factor(counts, 0.0 * left, np.ones(600), found.free) == 1.0
