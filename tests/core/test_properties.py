"""What must hold for every surrogate, and for every fit of one."""

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from slalom.core import Joint, Slalom, fit
from slalom.core.fitting._evidence.ridge import ridge
from slalom.core.fitting.problem import Problem
from tests.cases import cases

EASY = settings(derandomize=True, max_examples=100, deadline=None)
HARD = settings(derandomize=True, max_examples=12, deadline=None)

SIZES = st.floats(-8.0, 8.0)


class Case(NamedTuple):
    """The parts of a model, and counts (m, n) for it."""

    values: np.ndarray
    importances: np.ndarray
    background: tuple | None
    link: tuple | None
    counts: np.ndarray

    @property
    def model(self):
        return Slalom(self.values, self.importances, self.background, self.link)

    @property
    def scale(self):
        level = 0.0 if self.background is None else np.abs(self.background[0]).max()
        return 1.0 + max(np.abs(self.values).max(), level)


EITHER, NEVER, ALWAYS = st.booleans(), st.just(False), st.just(True)
ANY = st.sampled_from([None, None, 2, 3])


@st.composite
def surrogates(draw, background=EITHER, link=EITHER, classes=ANY, n=None):
    n = draw(st.integers(1, 6)) if n is None else n
    k = draw(classes)
    one = () if k is None else (k,)
    with_background = draw(background)
    level = draw(arrays(float, one, elements=SIZES))
    counts = draw(arrays(float, (3, n), elements=st.sampled_from([0.0, 0.25, 1.0, 1.0, 2.0, 7.0])))
    if not with_background:
        counts[:, draw(st.integers(0, n - 1))] += 1.0
    bend = None
    if draw(link):
        bend = (
            draw(arrays(float, one, elements=SIZES)),
            draw(arrays(float, one, elements=st.floats(0.25, 8.0))),
        )
    return Case(
        draw(arrays(float, (n, *one), elements=SIZES)),
        draw(arrays(float, n, elements=SIZES)),
        (level, draw(SIZES)) if with_background else None,
        bend,
        counts,
    )


# -- the surrogate -------------------------------------------------------------------------------------------


@EASY
@given(surrogates(), st.floats(-50.0, 50.0))
def test_a_shift_of_all_importances_changes_nothing(case, shift):
    background = None if case.background is None else (case.background[0], case.background[1] + shift)
    moved = Slalom(case.values, case.importances + shift, background, case.link)
    np.testing.assert_allclose(moved(case.counts), case.model(case.counts), atol=1e-11 * case.scale)


@EASY
@given(surrogates(), st.randoms(use_true_random=False))
def test_the_order_of_the_units_does_not_matter(case, random):
    p = np.array(random.sample(range(len(case.values)), len(case.values)))
    permuted = Slalom(case.values[p], case.importances[p], case.background, case.link)
    np.testing.assert_allclose(permuted(case.counts[:, p]), case.model(case.counts), atol=1e-12 * case.scale)
    np.testing.assert_allclose(permuted.weights(case.counts[:, p]), case.model.weights(case.counts)[:, p], atol=1e-13)


@EASY
@given(surrogates(), st.integers(0, 5))
def test_a_unit_twice_is_a_count_of_two(case, unit):
    unit %= len(case.values)
    twin = Slalom(
        np.concatenate([case.values, case.values[unit : unit + 1]]),
        np.append(case.importances, case.importances[unit]),
        case.background,
        case.link,
    )
    doubled = case.counts.copy()
    doubled[:, unit] *= 2.0
    columns = np.hstack([case.counts, case.counts[:, unit : unit + 1]])
    np.testing.assert_allclose(twin(columns), case.model(doubled), atol=1e-12 * case.scale)


@EASY
@given(surrogates(), st.lists(st.integers(0, 5), min_size=6, max_size=6))
def test_merging_units_leaves_the_full_input_alone(case, names):
    n = len(case.values)
    _, groups = np.unique(names[:n], return_inverse=True)
    merged = case.model.merged(groups)
    full, size = np.ones((1, n)), merged.n_units
    np.testing.assert_allclose(merged(np.ones((1, size))), case.model(full), atol=1e-12 * case.scale)
    np.testing.assert_allclose(merged.evidence(3 * np.ones((1, size))), case.model.evidence(3 * full), atol=1e-10)


@EASY
@given(surrogates(background=NEVER))
def test_the_attention_sums_to_one_without_a_background(case):
    weights = case.model.weights(case.counts)
    assert (weights >= 0).all()
    np.testing.assert_allclose(weights.sum(axis=1), 1.0, rtol=1e-14)


@EASY
@given(surrogates(background=ALWAYS))
def test_the_attention_and_that_of_the_background_sum_to_one(case):
    model = case.model
    total = model.weights(case.counts).sum(axis=1)
    assert (total <= 1 + 1e-15).all()
    mass = (case.counts * np.exp(case.importances)).sum(axis=1)
    np.testing.assert_allclose(total, mass / (mass + np.exp(case.background[1])), rtol=1e-12)


@EASY
@given(surrogates())
def test_the_evidence_lies_between_the_values_present(case):
    model, slack = case.model, 1e-13 * case.scale
    for counts, evidence in zip(case.counts, model.evidence(case.counts), strict=True):
        present = model.values[counts > 0]
        if model.background is not None:
            present = np.concatenate([present, np.asarray(model.background.value)[None]])
        assert (present.min(axis=0) - slack <= evidence).all()
        assert (evidence <= present.max(axis=0) + slack).all()


@EASY
@given(surrogates(background=NEVER))
def test_the_size_of_the_counts_has_no_slope_without_a_background(case):
    for counts in case.counts:
        slopes = case.model.gradient(counts)
        parts = (counts * slopes.T).T
        np.testing.assert_allclose(parts.sum(axis=0), 0.0, atol=1e-12 * max(1.0, np.abs(parts).max()))


@EASY
@given(surrogates(link=NEVER, classes=st.none()), SIZES)
def test_a_constant_added_to_all_values_is_added_to_the_score(case, shift):
    background = None if case.background is None else (case.background[0] + shift, case.background[1])
    moved = Slalom(case.values + shift, case.importances, background)
    np.testing.assert_allclose(moved(case.counts), case.model(case.counts) + shift, atol=1e-12 * case.scale)


@EASY
@given(surrogates(link=NEVER), st.floats(-4.0, 4.0))
def test_scaled_values_scale_the_score(case, factor):
    background = None if case.background is None else (case.background[0] * factor, case.background[1])
    scaled = Slalom(case.values * factor, case.importances, background)
    expected = case.model(case.counts) * factor
    np.testing.assert_allclose(scaled(case.counts), expected, atol=1e-12 * case.scale)


# -- the joint fit -------------------------------------------------------------------------------------------


@st.composite
def planted(draw):
    """A model of 5 units and 80 rows of counts on which its scores are known without noise."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    kind = draw(st.sampled_from(["plain", "background", "classes", "link"]))
    one = 3 if kind == "classes" else None
    values = rng.normal(size=5 if one is None else (5, 3))
    background = None if kind == "plain" else (rng.normal(size=one), 0.3)
    counts = rng.integers(0, 3, (80, 5)) + np.eye(5)[np.arange(80) % 5]
    model = Slalom(values, 0.7 * rng.normal(size=5), background, (0.0, 1.0) if kind == "link" else None)
    return model, counts


def close(found, expected):
    np.testing.assert_allclose(found, expected, atol=1e-6 * max(1.0, np.abs(expected).max()))


@HARD
@given(planted(), st.randoms(use_true_random=False))
def test_joint_follows_a_permutation_of_the_units(case, random):
    truth, counts = case
    p = np.array(random.sample(range(5), 5))
    one = fit(counts, truth(counts), Joint()).model
    two = fit(counts[:, p], truth(counts), Joint()).model
    np.testing.assert_allclose(one(counts), truth(counts), atol=1e-4)
    close(two.values, one.values[p])
    close(two.importances, one.importances[p])
    assert (one.background is None, one.link is None) == (two.background is None, two.link is None)


@HARD
@given(planted())
def test_joint_follows_an_affine_change_of_the_scores(case):
    truth, counts = case
    shift = 3.0 if truth.n_classes is None else 0.0  # a shift of all classes is centred away
    one = fit(counts, truth(counts), Joint()).model
    two = fit(counts, 2 * truth(counts) + 3.0, Joint()).model
    close(two.values, 2 * one.values + shift)
    close(two.importances, one.importances)
    assert (one.background is None, one.link is None) == (two.background is None, two.link is None)
    if truth.background is not None:  # else what is left of one has no weight, and any value
        close(two.background.value, 2 * np.asarray(one.background.value) + shift)
        close(two.background.importance, one.background.importance)
    if truth.link is not None:
        close(two.link.middle, 2 * one.link.middle + 3.0)
        close(two.link.reach, 2 * one.link.reach)


# -- weights -------------------------------------------------------------------------------------------------


@st.composite
def weighted(draw, noise):
    """Counts, scores (m, 2), integer weights 1 to 4, and the row numbers repeated as often as these say."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    m, n = draw(st.integers(12, 30)), draw(st.integers(1, 8))
    counts = rng.integers(0, 3, (m, n)).astype(float)
    scores = 0.5 + counts @ rng.normal(size=(n, 2)) + noise * rng.normal(size=(m, 2))
    weights = rng.integers(1, 5, m)
    return counts, scores, weights.astype(float), np.repeat(np.arange(m), weights)


@EASY
@given(weighted(noise=1.0), surrogates(background=ALWAYS, classes=st.just(2), n=8))
def test_a_weighted_row_costs_as_much_as_its_repetitions(data, case):
    counts, scores, weights, rows = data
    model = case.model.merged(np.arange(8) % counts.shape[1])
    one, two = Problem.of(counts, scores, weights), Problem.of(counts[rows], scores[rows], None)
    np.testing.assert_allclose(one.loss(model), two.loss(model), rtol=1e-12)
    r2 = [p.fitted(model, converged=True, iterations=1).r2 for p in (one, two)]
    np.testing.assert_allclose(*r2, rtol=1e-11, atol=1e-11)  # r2 is a difference from one


@EASY
@given(weighted(noise=1.0))
def test_a_weighted_row_pulls_the_level_of_a_ridge_as_its_repetitions_do(data):
    # Not the slopes: a row repeated is more data than a row with a large weight, so the strengths differ.
    counts, scores, weights, rows = data
    one = ridge(counts, scores, weights)
    two = ridge(counts[rows], scores[rows], np.ones(len(rows)))
    np.testing.assert_allclose(one.centre, two.centre, rtol=1e-13)
    np.testing.assert_allclose(one.level, two.level, rtol=1e-11, atol=1e-13)


@EASY
@given(weighted(noise=0.0))
def test_a_weighted_row_gives_the_slopes_of_its_repetitions_where_no_noise_hides_them(data):
    counts, scores, weights, rows = data
    one = ridge(counts, scores, weights)
    two = ridge(counts[rows], scores[rows], np.ones(len(rows)))
    np.testing.assert_allclose(one.slopes, two.slopes, atol=1e-8)


@EASY
@given(weighted(noise=1.0), st.floats(0.01, 100.0))
def test_only_the_ratios_of_the_weights_matter_to_the_slopes(data, factor):
    counts, scores, weights, _ = data
    one = ridge(counts, scores, weights)
    two = ridge(counts, scores, factor * weights)
    np.testing.assert_allclose(two.slopes, one.slopes, atol=1e-9)
    np.testing.assert_allclose(two.noise, factor * one.noise, rtol=1e-9)
    np.testing.assert_allclose(two.evidence, one.evidence, rtol=1e-9)


@cases("shape", [(60, 6), (20, 30)])
def test_a_row_of_weight_zero_is_no_row(shape):
    rng = np.random.default_rng(0)
    m, n = shape
    counts = rng.integers(0, 2, (m + 15, n)) + np.eye(n)[np.arange(m + 15) % n]
    scores = counts @ rng.normal(size=n) / counts.sum(axis=1) + 0.3 * rng.normal(size=m + 15)
    weights = np.where(np.arange(m + 15) < m, rng.uniform(0.5, 2.0, m + 15), 0.0)
    with_them = fit(counts, scores, Joint(), weights=weights)
    without = fit(counts[:m], scores[:m], Joint(), weights=weights[:m])
    np.testing.assert_allclose(with_them.model.values, without.model.values, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(with_them.model.importances, without.model.importances, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose([with_them.loss, with_them.r2], [without.loss, without.r2], rtol=1e-4)
