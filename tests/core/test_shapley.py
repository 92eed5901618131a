"""Semivalues against the definition: every coalition is enumerated through `Slalom.evidence` and `Slalom.output`."""

import tracemalloc
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.special import poch
from scipy.stats import binom

from slalom.core.checks import Floats
from slalom.core.measures import Beta, Measure, Point
from slalom.core.shapley import banzhaf, leave_one_out, semivalue, shapley
from slalom.core.slalom import Slalom
from slalom.errors import InputError
from tests.cases import cases

TOLERANCE = 1e-10
MEASURES = (Beta(1, 1), Point(0.5), Beta(2, 3), Beta(0.5, 1), Point(0.3), Point(0), Point(1), Beta(30, 20))


def random_model(
    n: int, spread: float, background: bool, n_classes: int | None = None, link: tuple[float, float] | None = None
) -> Slalom:
    rng = np.random.default_rng([n, int(10 * spread), background])
    values = 0.7 + rng.normal(size=n if n_classes is None else (n, n_classes))
    start = (rng.normal(size=n_classes), spread * rng.normal()) if background else None
    return Slalom(values, spread * rng.normal(size=n), background=start, link=link)


def empty_value(model: Slalom) -> float | Floats:
    return 0.0 if model.background is None else model.background.value


def score(model: Slalom, rows: Floats) -> Floats:
    """F of each row; S(empty) = 0 where there is no background."""
    if model.background is not None:
        return model(rows)
    some = rows.any(axis=1)
    result = np.zeros((len(rows), *model.values.shape[1:]))
    result[some] = model.evidence(rows[some])
    return model.output(result)


def every_coalition(model: Slalom, counts: Floats | None = None) -> tuple[NDArray[np.bool_], Floats]:
    n = model.n_units
    masks = ((np.arange(2**n)[:, None] >> np.arange(n)) & 1).astype(bool)
    return masks, score(model, masks * (np.ones(n) if counts is None else counts))


def chance(measure: Measure, others: int) -> Floats:
    """Probability of one coalition of each size 0..others: int q^k (1 - q)^(others - k) dmu(q)."""
    k = np.arange(others + 1.0)
    if isinstance(measure, Beta):
        a, b = float(measure.a), float(measure.b)
        return np.asarray(poch(a, k) * poch(b, others - k) / poch(a + b, others))
    assert isinstance(measure, Point)
    return np.asarray(measure.q**k * (1.0 - measure.q) ** (others - k))


def enumerated(model: Slalom, measure: Measure, counts: Floats | None = None) -> Floats:
    masks, s = every_coalition(model, counts)
    weight = chance(measure, model.n_units - 1)
    without = [np.flatnonzero(~masks[:, i]) for i in range(model.n_units)]
    return np.array([weight[masks[c].sum(axis=1)] @ (s[c + 2**i] - s[c]) for i, c in enumerate(without)])


def error(got: Floats, expected: Floats) -> float:
    assert got.shape == expected.shape
    assert np.isfinite(got).all()
    return float(np.abs(got - expected).max())


@cases("background", [False, True])
@cases("spread", [0.5, 3.0, 15.0])
@cases("n", range(2, 13))
def test_semivalues_are_those_of_the_definition(n: int, spread: float, background: bool) -> None:
    model = random_model(n, spread, background)
    for measure in MEASURES:
        assert error(semivalue(model, measure), enumerated(model, measure)) <= TOLERANCE, measure
    assert error(shapley(model), enumerated(model, Beta(1, 1))) <= TOLERANCE
    assert error(banzhaf(model), enumerated(model, Point(0.5))) <= TOLERANCE
    assert error(leave_one_out(model), enumerated(model, Point(1))) <= TOLERANCE


@cases("background", [False, True])
def test_semivalues_of_small_games_are_exact_to_rounding(background: bool) -> None:
    model = random_model(8, 2.0, background)
    for measure in (Beta(1, 1), Point(0.5), Beta(2, 3)):
        assert error(semivalue(model, measure), enumerated(model, measure)) <= 2e-14


@cases("background", [False, True])
def test_several_classes_are_one_game_each(background: bool) -> None:
    model = random_model(7, 3.0, background, n_classes=3)
    for measure in MEASURES:
        assert error(semivalue(model, measure), enumerated(model, measure)) <= TOLERANCE


@cases("measure", [Beta(1e-3, 1), Beta(1, 1e-9), Beta(1e-6, 1e-6), Beta(7, 0.1), Point(1 - 1e-10)])
def test_measures_that_crowd_at_an_end(measure: Measure) -> None:
    for background in (False, True):
        model = random_model(9, 4.0, background)
        assert error(semivalue(model, measure), enumerated(model, measure)) <= TOLERANCE


def test_a_narrow_beta_is_a_point() -> None:
    for n, background in ((6, False), (6, True), (300, True)):
        model = random_model(n, 1.0, background)
        assert error(semivalue(model, Beta(1e14, 1e14)), banzhaf(model)) <= TOLERANCE
        assert error(semivalue(model, Point(1 - 1e-13)), leave_one_out(model)) <= TOLERANCE


@cases("background", [False, True])
@cases("n_classes", [None, 3])
def test_shapley_values_share_out_the_evidence_of_5000_units(background: bool, n_classes: int | None) -> None:
    model = random_model(5000, 1.5, background, n_classes=n_classes)
    tracemalloc.start()
    total = shapley(model).sum(axis=0)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.abs(total - (model.evidence(np.ones((1, 5000)))[0] - empty_value(model))).max() <= TOLERANCE
    assert peak < 50e6  # bytes; one (5000, 284) array of all q alone has 11e6


@cases("link", [None, (0.2, 0.5)])
@cases("background", [None, (0.4, 2.0)])
@cases(("n_first", "n_second"), [(40, 60), (3, 297), (250, 250)])
def test_many_units_of_two_kinds(
    n_first: int, n_second: int, background: tuple[float, float] | None, link: tuple[float, float] | None
) -> None:
    """A coalition of two kinds of units is two numbers, so the definition can be summed for many units."""
    v, s = np.array([1.5, -0.7]), np.array([2.0, -1.0])
    kinds = Slalom(v, s, background, link, gamma=1.0)
    i, j = np.meshgrid(np.arange(n_first), np.arange(n_second + 1), indexing="ij")
    rows = np.stack([i.ravel(), j.ravel()], axis=1).astype(float)
    gain = (score(kinds, rows + np.array([1.0, 0.0])) - score(kinds, rows)).reshape(i.shape)

    def average(nodes: Floats, mass: Floats) -> float:
        first = binom.pmf(np.arange(n_first), n_first - 1, nodes[:, None])
        second = binom.pmf(np.arange(n_second + 1), n_second, nodes[:, None])
        return float(((first * mass[:, None]).T @ second * gain).sum())

    n = n_first + n_second
    which = np.repeat([0, 1], [n_first, n_second])
    model = Slalom(v[which], s[which], background, link, gamma=float(s[which].sum()))
    for q in (0.01, 0.5, 0.97):
        expected = average(np.array([q]), np.ones(1))
        assert np.abs(semivalue(model, Point(q))[:n_first] - expected).max() <= TOLERANCE
    nodes, mass = np.polynomial.legendre.leggauss((n + 1) // 2)
    assert np.abs(shapley(model)[:n_first] - average((1 + nodes) / 2, mass / 2)).max() <= TOLERANCE


@cases("n", [2, 3, 10, 150, 5000])
def test_equal_weights_have_a_closed_form(n: int) -> None:
    v = np.random.default_rng(n).normal(size=n)
    h = (1.0 / np.arange(1, n + 1)).sum()
    expected = v * h / n - (h - 1) / (n * (n - 1)) * (v.sum() - v)
    assert error(shapley(Slalom(v, np.zeros(n))), expected) <= 1e-14


def test_one_unit() -> None:
    alone, backed = Slalom([3.0], [5.0]), Slalom([3.0], [0.0], background=(1.0, 0.0))
    for measure in MEASURES:
        assert semivalue(alone, measure) == pytest.approx([3.0], abs=1e-14)
        assert semivalue(backed, measure) == pytest.approx([1.0], abs=1e-14)


@cases("background", [None, (0.5, -3000.0), (0.5, 0.0), (0.5, 3000.0)])
def test_importances_thousands_apart(background: tuple[float, float] | None) -> None:
    s = np.array([3000.0, -3000.0, 0.0, 3000.0, -3000.0, 0.3, 1500.0, -3000.0])
    model = Slalom([1.0, -2.0, 3.0, -4.0, 5.0, -6.0, 7.0, 8.0], s, background=background)
    for measure in MEASURES:
        assert error(semivalue(model, measure), enumerated(model, measure)) <= TOLERANCE, measure


@cases("scale", [1e5, 1e12, 1e250])
def test_importances_infinitely_apart(scale: float) -> None:
    """The heaviest unit present speaks alone: five units, order statistics."""
    model = Slalom([1.0, 2.0, -3.0, 4.0, 5.0], scale * np.array([2.0, -2.0, 0.0, 1.0, -1.0]))
    assert error(shapley(model), enumerated(model, Beta(1, 1))) <= TOLERANCE


def test_a_heavy_background_makes_a_linear_model() -> None:
    effects = np.array([0.3, -1.2, 2.0, 0.7])
    for heavy in (40.0, 100.0, 500.0):
        model = Slalom(effects * np.exp(heavy), np.zeros(4), background=(0.0, heavy))
        for scores in (shapley(model), banzhaf(model), leave_one_out(model)):
            assert scores == pytest.approx(effects, rel=1e-12)


def test_a_light_unit_may_carry_much() -> None:
    model = Slalom([1.0, np.exp(60.0)], [0.0, -60.0], background=(0.0, 0.0), gamma=-60.0)
    assert shapley(model) == pytest.approx([0.25, 0.75], rel=1e-12)
    assert banzhaf(model) == pytest.approx([0.25, 0.75], rel=1e-12)
    assert leave_one_out(model) == pytest.approx([0.0, 0.5], abs=1e-12)


@cases("n", [300, 1000])
def test_thousands_of_nodes_are_walked_in_many_blocks(n: int) -> None:
    rng = np.random.default_rng(n)
    for background in (None, (0.3, 0.0)):
        model = Slalom(rng.normal(size=n), rng.uniform(-3000, 3000, size=n), background=background)
        total = model.evidence(np.ones((1, n)))[0] - empty_value(model)
        assert abs(shapley(model).sum() - total) <= TOLERANCE


@cases("gap", [40.0, 800.0])
def test_leave_one_out_of_a_unit_that_outweighs_the_rest(gap: float) -> None:
    assert leave_one_out(Slalom([5.0, 1.0, 3.0], [gap, 0.0, 0.0])) == pytest.approx([3.0, 0.0, 0.0], abs=1e-14)
    heavy = Slalom([5.0, 1.0, 3.0], [0.0, 0.0, 0.0], background=(2.0, gap))
    assert leave_one_out(heavy) == pytest.approx(np.exp(-gap) * np.array([3.0, -1.0, 1.0]), rel=1e-12)


Function = Callable[[Slalom, Floats | None], Floats]
EVERY: tuple[Function, ...] = (shapley, banzhaf, leave_one_out)


@cases("function", EVERY)
@cases("background", [False, True])
def test_a_player_is_a_unit_with_all_its_copies(function: Function, background: bool) -> None:
    model = random_model(6, 1.0, background)
    counts = np.array([1.0, 2.0, 0.0, 5.0, 1.0, 0.0])
    got = function(model, counts)
    present = counts > 0
    s = model.importances[present] + np.log(counts[present])
    heavier = Slalom(model.values[present], s, background=model.background, gamma=float(s.sum()))
    expected = np.zeros_like(got)
    expected[present] = function(heavier, None)
    assert error(got, expected) <= 1e-13
    measure = Beta(1, 1) if function is shapley else Point(0.5 if function is banzhaf else 1)
    assert error(got, enumerated(model, measure, counts)) <= TOLERANCE


@cases("function", EVERY)
@cases("background", [False, True])
@cases("n_classes", [None, 2])
def test_nobody_present_is_nobody_paid(function: Function, background: bool, n_classes: int | None) -> None:
    model = random_model(3, 1.0, background, n_classes=n_classes)
    assert not function(model, np.zeros(3)).any()
    assert function(model, np.zeros(3)).shape == function(model, None).shape


REACHES = (30.0, 2.0, 0.3, 0.01)  # from a link that hardly bends to one that is a step


@cases("reach", REACHES)
@cases("background", [False, True])
@cases(("n", "spread"), [(1, 1.0), (2, 3.0), (5, 0.5), (8, 15.0), (12, 2.0)])
def test_with_a_link_they_are_those_of_the_score(n: int, spread: float, background: bool, reach: float) -> None:
    model = random_model(n, spread, background, link=(0.4, reach))
    for measure in MEASURES:
        assert error(semivalue(model, measure), enumerated(model, measure)) <= 1e-9 * reach + 1e-10, measure
    base = float(score(model, np.zeros((1, n)))[0])
    assert abs(shapley(model).sum() - (float(score(model, np.ones((1, n)))[0]) - base)) <= 1e-9


def test_with_a_link_counts_and_classes_are_heard() -> None:
    counts = np.array([2.0, 0.0, 1.0, 3.0, 1.0])
    model = random_model(5, 1.0, True, link=(0.0, 1.0))
    assert error(shapley(model, counts), enumerated(model, Beta(1, 1), counts)) <= TOLERANCE
    model = random_model(6, 1.0, True, n_classes=3, link=(0.0, 1.0))
    assert error(shapley(model), enumerated(model, Beta(1, 1))) <= TOLERANCE


def test_with_a_link_importances_may_be_thousands_apart() -> None:
    model = Slalom([2.0, -1.0, 0.5, 3.0], [4000.0, 0.0, -3000.0, 1.0], link=(0.0, 1.5))
    assert error(shapley(model), enumerated(model, Beta(1, 1))) <= TOLERANCE


def test_with_a_link_values_may_be_huge_where_the_background_is_loud() -> None:
    model = Slalom([8585.0, -9000.0, 4000.0, -3.0], np.zeros(4), (0.5, 9.0), (0.0, 1.0))
    assert error(shapley(model), enumerated(model, Beta(1, 1))) <= TOLERANCE


@cases("background", [False, True])
@cases(("n", "spread"), [(90, 3.0), (400, 1.0)])
def test_with_a_link_many_units_share_the_score_out(n: int, spread: float, background: bool) -> None:
    model = random_model(n, spread, background, link=(0.4, 1.5))
    whole, base = (float(score(model, row[None])[0]) for row in (np.ones(n), np.zeros(n)))
    assert abs(shapley(model).sum() - (whole - base)) <= 1e-12


@st.composite
def models(draw: st.DrawFn) -> Slalom:
    n = draw(st.integers(1, 12))
    numbers = st.floats(-10, 10)
    values = draw(st.lists(numbers, min_size=n, max_size=n))
    importances = draw(st.lists(st.floats(-50, 50), min_size=n, max_size=n))
    background = draw(st.none() | st.tuples(numbers, st.floats(-50, 50)))
    return Slalom(values, importances, background=background)


@settings(deadline=None, max_examples=40)
@given(model=models(), seed=st.integers(0, 99), measure=st.sampled_from(MEASURES))
def test_the_order_of_the_units_does_not_matter(model: Slalom, seed: int, measure: Measure) -> None:
    order = np.random.default_rng(seed).permutation(model.n_units)
    moved = Slalom(model.values[order], model.importances[order], background=model.background)
    assert error(semivalue(moved, measure), semivalue(model, measure)[order]) <= 1e-12


@settings(deadline=None, max_examples=40)
@given(model=models(), gamma=st.floats(-3000, 3000), measure=st.sampled_from(MEASURES))
def test_a_constant_added_to_all_importances_cancels(model: Slalom, gamma: float, measure: Measure) -> None:
    moved = Slalom(model.values, model.importances, background=model.background, gamma=gamma)
    assert error(semivalue(moved, measure), semivalue(model, measure)) <= TOLERANCE


@settings(deadline=None, max_examples=40)
@given(model=models())
def test_twins_are_paid_alike(model: Slalom) -> None:
    twice = Slalom(np.tile(model.values, 2), np.tile(model.importances, 2), background=model.background)
    first, second = np.split(shapley(twice), 2)
    assert error(first, second) <= 1e-12


@cases("bad", [-0.1, 1.5, np.nan, np.inf, "half", [0.5]])
def test_a_point_must_be_a_probability(bad: object) -> None:
    with pytest.raises(InputError, match=r"\Aq of Point must[^\n]*\Z"):
        Point(bad)


@cases(("a", "b", "name"), [(0.0, 1.0, "a"), (1.0, -2.0, "b"), (np.inf, 1.0, "a"), (1.0, np.nan, "b")])
def test_a_beta_must_have_positive_parameters(a: float, b: float, name: str) -> None:
    with pytest.raises(InputError, match=rf"\A{name} of Beta must[^\n]*\Z"):
        Beta(a, b)


@cases("function", EVERY)
@cases("bad", [[1.0], [1.0, -1.0], [1.0, np.nan], [[1.0, 1.0]], "ab"])
def test_counts_are_checked(function: Function, bad: Floats) -> None:
    with pytest.raises(InputError, match=r"\Acounts must[^\n]*\Z"):
        function(Slalom([1.0, 2.0], [0.0, 0.0]), bad)


def test_a_measure_is_asked_for() -> None:
    with pytest.raises(InputError, match=r"\Ameasure must be Beta\(a, b\) or Point\(q\); got 0.5\Z"):
        semivalue(Slalom([1.0, 2.0], [0.0, 0.0]), 0.5)
