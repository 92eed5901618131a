"""Semivalues of the formula against the definition: all sets of units, by the surrogate's own predictions."""

import numpy as np
import pytest
from scipy.stats import binom

from slalom.core import Beta, Point, Slalom
from slalom.errors import InputError
from tests.cases import cases
from tests.core.written import COMPETITIONS, enumerated

ALL = (Beta(1, 1), Point(0.5), Point(0.3), Point(0), Point(1), Beta(2, 1), Beta(0.5, 1), Beta(30, 20))
SHAPLEY = Beta(1, 1)


def model(n, spread, kappa, classes=None, link=None):
    rng = np.random.default_rng([n, int(10 * spread)])
    shape = n if classes is None else (n, classes)
    return Slalom(0.7 + rng.normal(size=shape), spread * rng.normal(size=n), kappa, rng.normal(size=classes), link)


def error(found, expected):
    assert found.shape == expected.shape
    assert np.isfinite(found).all()
    return np.abs(found - expected).max()


@cases("kappa", COMPETITIONS)
@cases("spread", [0.5, 3.0, 15.0, 100.0])
@cases("n", [1, 2, 5, 9])
def test_they_are_those_of_the_definition(n, spread, kappa):
    for classes in (None, 3) if n == 5 else (None,):
        m = model(n, spread, kappa, classes)
        for measure in ALL:
            assert error(m.semivalue(measure), enumerated(m, measure, np.ones(n))) <= 1e-8, (measure, classes)


@cases("kappa", COMPETITIONS)
def test_a_player_is_a_unit_with_all_its_copies(kappa):
    counts = np.array([1.0, 2.0, 0.0, 5.0, 0.25, 0.0])
    for link in (None, (0.1, 1.5)):
        m = model(6, 1.0, kappa, link=link)
        for measure in ALL:
            assert error(m.semivalue(measure, counts), enumerated(m, measure, counts)) <= 1e-8, (measure, link)
        assert not m.shapley(np.zeros(6)).any()


@cases("measure", [Beta(1e-3, 1), Beta(1, 1e-9), Beta(1e-6, 1e-6), Beta(7, 0.1), Point(1 - 1e-10)])
def test_measures_that_crowd_at_an_end(measure):
    for kappa in COMPETITIONS:
        m = model(8, 4.0, kappa)
        assert error(m.semivalue(measure), enumerated(m, measure, np.ones(8))) <= 1e-8


def test_a_narrow_beta_is_a_point():
    for n, kappa in ((6, 1.0), (6, 0.3), (300, 0.3)):
        m = model(n, 1.0, kappa)
        assert error(m.semivalue(Beta(1e14, 1e14)), m.semivalue(Point(0.5))) <= 1e-8
        assert error(m.semivalue(Point(1 - 1e-13)), m.removal()) <= 1e-8


def test_importances_thousands_apart():
    s = np.array([3000.0, -3000.0, 0.0, 3000.0, -3000.0, 0.3, 1500.0, -3000.0])
    for kappa in (0.3, 1.0):
        m = Slalom([1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0, 8.0], s, kappa)
        for measure in ALL:
            assert error(m.semivalue(measure), enumerated(m, measure, np.ones(8))) <= 1e-8, (measure, kappa)


@cases("n", [2, 3, 10, 150, 500])
def test_equal_weights_of_the_paper_have_a_closed_form(n):
    u = np.random.default_rng(n).normal(size=n)
    h = (1.0 / np.arange(1, n + 1)).sum()
    expected = u * h / n - (h - 1) / (n * (n - 1)) * (u.sum() - u)
    assert error(Slalom(u, np.zeros(n)).shapley(), expected) <= 1e-10


@cases(("n_first", "n_second"), [(40, 60), (3, 97)])
def test_many_units_of_two_kinds(n_first, n_second):
    """A set of two kinds of units is two numbers, so the definition can be summed for many units."""
    n, which = n_first + n_second, np.repeat([0, 1], [n_first, n_second])
    i, j = np.meshgrid(np.arange(n_first), np.arange(n_second + 1), indexing="ij")
    rows = np.stack([i.ravel(), j.ravel()], axis=1).astype(float)
    q, mass = np.polynomial.legendre.leggauss((n + 1) // 2)
    q = (1 + q) / 2
    first = binom.pmf(np.arange(n_first), n_first - 1, q[:, None])
    second = binom.pmf(np.arange(n_second + 1), n_second, q[:, None])
    chances = (first * (mass / 2)[:, None]).T @ second
    for kappa in (0.3, 1.0):
        kinds = Slalom([1.5, -0.7], [1.5, -1.5], kappa, 0.4)
        gain = (kinds(rows + np.array([1.0, 0.0])) - kinds(rows)).reshape(i.shape)
        found = Slalom(kinds.values[which], kinds.importances[which], kappa, 0.4).shapley()
        assert np.abs(found[:n_first] - (chances * gain).sum()).max() <= 1e-8


@cases("kappa", [0.02, 0.3, 1.0])
def test_values_of_long_texts_sum_to_the_score(kappa):
    for n, spread, classes in ((300, 1.5, None), (100, 1.5, 3), (40, 300.0, None)):
        m = model(n, spread, kappa, classes)
        np.testing.assert_allclose(m.shapley().sum(axis=0), m(np.ones((1, n)))[0] - m.empty_score, atol=1e-8 * n**0.5)


# -- with a link ---------------------------------------------------------------------------------------------


@cases("reach", [30.0, 2.0, 0.3])
@cases("kappa", COMPETITIONS)
def test_with_a_link_they_are_those_of_the_score(kappa, reach):
    for n, spread in ((1, 1.0), (2, 3.0), (5, 15.0), (12, 2.0), (15, 1.0)):
        m = model(n, spread, kappa, link=(0.4, reach))
        for measure in ALL if n < 12 else (SHAPLEY, Point(0.3)) if n < 15 else (Point(0.5),):
            assert error(m.semivalue(measure), enumerated(m, measure, np.ones(n))) <= 1e-9, (n, measure)


@cases(("kappa", "reach"), [(0.0, 12.0), (0.2, 6.0), (1.0, 1.5)])
def test_with_a_link_and_more_units_they_are_within_half_a_percent(kappa, reach):
    m = model(17, 1.0, kappa, link=(0.4, reach))
    for measure in (SHAPLEY, Point(0.5)):
        expected = enumerated(m, measure, np.ones(17))
        assert error(m.semivalue(measure), expected) <= 0.005 * np.abs(expected).max(), measure
    np.testing.assert_array_equal(m.shapley(), m.shapley())


@cases("kappa", COMPETITIONS)
def test_with_a_link_they_sum_to_the_score_however_many_units(kappa):
    for n, spread in ((15, 3.0), (90, 3.0), (400, 1.0)):
        m = model(n, spread, kappa, link=(0.4, 1.5))
        assert abs(m.shapley().sum() - (m(np.ones((1, n)))[0] - m.empty_score)) <= 1e-9


# -- symmetries ----------------------------------------------------------------------------------------------


@cases("seed", range(20))
def test_order_constants_and_twins(seed):
    rng = np.random.default_rng(seed)
    n, kappa, measure = int(rng.integers(1, 12)), float(rng.choice(COMPETITIONS)), ALL[rng.integers(len(ALL))]
    m = Slalom(rng.uniform(-10, 10, n), rng.uniform(-50, 50, n), kappa)
    order = rng.permutation(n)
    moved = Slalom(m.values[order], m.importances[order] + rng.uniform(-3000, 3000), kappa)
    assert error(moved.semivalue(measure), m.semivalue(measure)[order]) <= 1e-8
    twice = Slalom(np.tile(m.values, 2), np.tile(m.importances, 2), kappa)
    first, second = np.split(twice.semivalue(measure), 2)
    assert error(first, second) <= 1e-10


@cases("bad", [-0.1, 1.5, np.nan, np.inf, "half", [0.5]])
def test_a_point_must_be_a_probability(bad):
    with pytest.raises(InputError, match=r"\Aq of Point must[^\n]*\Z"):
        Point(bad)


@cases(("a", "b", "name"), [(0.0, 1.0, "a"), (1.0, -2.0, "b"), (np.inf, 1.0, "a"), (1.0, np.nan, "b")])
def test_a_beta_must_have_positive_parameters(a, b, name):
    with pytest.raises(InputError, match=rf"\A{name} of Beta must[^\n]*\Z"):
        Beta(a, b)
