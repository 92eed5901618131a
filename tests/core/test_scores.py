"""Scores of units against finite differences, brute force over model calls, and closed forms."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom.core.slalom import Slalom
from slalom.errors import InputError
from tests.cases import cases
from tests.factories import random_slalom as planted

KINDS = [
    {"classes": classes, "background": background, "link": link}
    for classes in (None, 3)
    for background in (False, True)
    for link in (False, True)
]


def at(model, counts):
    """F of one input; the empty input of a model without background has S = 0."""
    if model.background is None and not np.any(counts):
        return model.output(np.zeros(model.values.shape[1:]))
    return model(np.asarray(counts, dtype=float)[None])[0]


def slope(model, counts, unit, h=1e-4):
    """dF/dc by a one-sided rule of third order, so that it works at count 0 too."""
    f = [at(model, counts + k * h * np.eye(len(counts))[unit]) for k in range(4)]
    return (-11 * f[0] + 18 * f[1] - 9 * f[2] + 2 * f[3]) / (6 * h)


@cases("kind", KINDS)
@cases("counts", [np.ones(6), np.array([2.0, 0.0, 1.0, 0.5, 0.0, 3.0])])
def test_gradient_is_the_derivative_with_respect_to_the_counts(kind, counts):
    model = planted(1, **kind)
    expected = np.stack([slope(model, counts, i) for i in range(6)])
    assert model.gradient(counts).shape == model.values.shape
    np.testing.assert_allclose(model.gradient(counts), expected, atol=1e-9)


@cases("kind", KINDS)
@cases("counts", [np.ones(6), np.array([2.0, 0.0, 1.0, 0.5, 0.0, 3.0])])
def test_removal_is_the_difference_of_two_model_calls(kind, counts):
    model = planted(2, **kind)
    expected = [at(model, counts) - at(model, np.where(np.arange(6) == i, 0.0, counts)) for i in range(6)]
    np.testing.assert_allclose(model.removal(counts), expected, atol=1e-13)
    assert not model.removal(counts)[counts == 0].any()


@cases("kind", KINDS)
def test_counts_of_one_are_the_default(kind):
    model = planted(3, **kind)
    np.testing.assert_array_equal(model.gradient(), model.gradient(np.ones(6)))
    np.testing.assert_array_equal(model.removal(), model.removal(np.ones(6)))


def test_the_paper_form_of_gradient_and_removal():
    model = planted(4)
    a, f = model.weights(np.ones((1, 6)))[0], model(np.ones((1, 6)))[0]
    np.testing.assert_allclose(model.gradient(), a * (model.values - f), rtol=1e-12)
    np.testing.assert_allclose(model.removal(), a * (model.values - f) / (1 - a), rtol=1e-12)
    assert abs(model.gradient().sum()) < 1e-14


@cases("kind", KINDS)
def test_removing_the_only_unit_compares_with_the_empty_input(kind):
    model = planted(5, **kind)
    only = np.array([0.0, 0.0, 2.0, 0.0, 0.0, 0.0])
    got = model.removal(only)
    np.testing.assert_allclose(got[2], at(model, only) - at(model, np.zeros(6)), atol=1e-14)
    assert not np.delete(got, 2, axis=0).any()


@cases("kind", KINDS)
def test_removal_from_the_empty_input_is_zero(kind):
    assert not planted(5, **kind).removal(np.zeros(6)).any()


def test_gradient_at_the_empty_input_needs_a_background():
    model = planted(6, background=True)
    ratio = np.exp(model.importances - model.background.importance)
    expected = ratio * (model.values - model.background.value)
    np.testing.assert_allclose(model.gradient(np.zeros(6)), expected, rtol=1e-12)
    with pytest.raises(InputError, match=r"^gradient needs a unit present .*$"):
        planted(6).gradient(np.zeros(6))


def test_one_unit_takes_nearly_all_the_attention():
    """Weights 1 and e^-60: 1 - a_i is e^-60 for the heavy unit, which 1.0 - a_i would round to 0."""
    model, light = Slalom([1.5, -0.5], [30.0, -30.0]), np.exp(-60.0)
    np.testing.assert_allclose(model.gradient(), [2 * light, -2 * light], rtol=1e-12)
    np.testing.assert_allclose(model.removal(), [2.0, -2 * light], rtol=1e-12)


def test_small_changes_pass_the_link_without_losing_digits():
    light, link = np.exp(-60.0), (0.2, 0.7)
    model = Slalom([0.5, -0.5], [30.0, -30.0], link=link)
    slope = 1 - np.tanh((0.5 - 0.2) / 0.7) ** 2
    np.testing.assert_allclose(model.removal()[1], -light * slope, rtol=1e-12)


def test_importances_too_far_apart_for_exp_alone():
    model = Slalom([1.0, 2.0, 4.0], [2000.0, -1000.0, -1000.0])
    np.testing.assert_allclose(model.removal(), [1.0 - 3.0, 0.0, 0.0], atol=1e-300)
    assert not model.gradient().any()
    with pytest.raises(InputError, match="overflow at unit 0; use removal") as caught:
        model.gradient([0, 1, 1])
    assert "\n" not in str(caught.value)


def test_a_unit_of_the_same_value_changes_nothing_however_heavy():
    assert Slalom([2.0, 2.0], [1000.0, -1000.0]).gradient([0, 1]).tolist() == [0.0, 0.0]


def test_linear_is_the_value_times_the_weight_whatever_background_and_link():
    for kind in KINDS:
        model = planted(7, **kind)
        weights = np.exp(model.importances).reshape(-1, *[1] * (model.values.ndim - 1))
        np.testing.assert_array_equal(model.linear(), model.values * weights)


def test_linear_scales_with_gamma():
    model = planted(7, n=5)
    scaled = Slalom(model.values, model.importances, gamma=5 * np.log(2.0))
    np.testing.assert_allclose(scaled.linear(), 2 * model.linear(), rtol=1e-12)


def test_linear_overflow_is_an_error_and_underflow_is_zero():
    with pytest.raises(InputError, match="overflow at unit 1; use removal") as caught:
        Slalom([1.0, 1.0], [-3000.0, 3000.0]).linear()
    assert "\n" not in str(caught.value)
    assert Slalom([1.0, 0.0], [-3000.0, 3000.0]).linear().tolist() == [0.0, 0.0]


@cases("score", [Slalom.gradient, Slalom.removal])
@cases("counts", [np.ones(5), np.ones((1, 6)), -np.ones(6), np.full(6, np.nan)])
def test_wrong_counts(score, counts):
    with pytest.raises(InputError, match="counts must") as caught:
        score(planted(1), counts)
    assert "\n" not in str(caught.value)


@st.composite
def grouped(draw):
    n = draw(st.integers(1, 8))
    first = draw(st.integers(1, n))
    rest = draw(st.lists(st.integers(0, first - 1), min_size=n - first, max_size=n - first))
    groups = draw(st.permutations(list(range(first)) + rest))
    kind = draw(st.sampled_from(KINDS))
    model = planted(draw(st.integers(0, 10**6)), n=n, gamma=draw(st.sampled_from([0.0, 2.0])), **kind)
    stretched = Slalom(
        model.values,
        model.importances * draw(st.sampled_from([1.0, 300.0])),
        model.background,
        model.link,
        model.gamma,
    )
    return stretched, np.array(groups)


@settings(deadline=None)
@given(grouped(), st.integers(0, 3))
def test_merging_keeps_the_output_where_groups_stay_whole(case, repeats):
    model, groups = case
    merged = model.merged(groups)
    per_group = np.array([[1.0 + (repeats * k) % 3 for k in range(groups.max() + 1)]])
    np.testing.assert_allclose(merged(per_group), model(per_group[:, groups]), atol=1e-10)
    assert (merged.link is None) == (model.link is None)
    if model.link is not None:
        np.testing.assert_array_equal(merged.link.middle, model.link.middle)
        np.testing.assert_array_equal(merged.link.reach, model.link.reach)
    assert merged.importances.sum() == pytest.approx(model.gamma, abs=1e-9)


@settings(deadline=None)
@given(grouped(), st.floats(-3, 3))
def test_merging_commutes_with_a_shift_of_the_values(case, shift):
    """With one log odds and no link, all values (and v_0) plus a constant move every merged value by it."""
    model, groups = case
    if model.values.ndim == 2:
        return
    background = None
    if model.background is not None:
        background = (model.background.value + shift, model.background.importance)
    moved = Slalom(model.values + shift, model.importances, background, gamma=model.gamma).merged(groups)
    np.testing.assert_allclose(moved.values, model.merged(groups).values + shift, atol=1e-10)
    np.testing.assert_allclose(moved.importances, model.merged(groups).importances, atol=1e-10)


@settings(deadline=None)
@given(grouped())
def test_merging_in_two_steps_is_merging_once(case):
    model, groups = case
    coarse = np.arange(groups.max() + 1) // 2
    twice, once = model.merged(groups).merged(coarse), model.merged(coarse[groups])
    np.testing.assert_allclose(twice.values, once.values, atol=1e-10)
    np.testing.assert_allclose(twice.importances, once.importances, atol=1e-9)


def test_merging_by_hand():
    merged = Slalom([1.0, 4.0, 2.0], np.log([1.0, 2.0, 5.0])).merged([1, 1, 0])
    np.testing.assert_allclose(merged.values, [2.0, 3.0])
    np.testing.assert_allclose(np.diff(merged.importances), np.log(3.0) - np.log(5.0))


@cases(
    ("groups", "message"),
    [
        ([0, 1], "groups must be 3 integers"),
        ([0.0, 1.0, 1.0], "groups must be 3 integers"),
        ([True, False, False], "groups must be 3 integers"),
        (["a", "b", "c"], "groups must be 3 integers"),
        ([[0, 0, 1]], "groups must be 3 integers"),
        ([0, -1, 1], "numbered from 0; got -1"),
        ([0, 2, 2], "group 1 has none"),
        ([1, 1, 1], "group 0 has none"),
        ([0, 1, 10**15], "group 2 has none"),
    ],
)
def test_wrong_groups(groups, message):
    with pytest.raises(InputError, match=message) as caught:
        planted(1, n=3).merged(groups)
    assert "\n" not in str(caught.value)
