"""The surrogate against its formula, written out term by term in exact or high-precision arithmetic."""

import math
from dataclasses import FrozenInstanceError
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from slalom.core import Background, Link, Slalom
from slalom.errors import InputError
from tests.cases import cases


def naive(values, importances, counts, background=None):
    """S of one row of counts, for one class, as the definition reads; 60 digits and a boundless exponent."""
    with localcontext() as context:
        context.prec = 60
        above = below = Decimal(0)
        for v, s, c in zip(values, importances, counts, strict=True):
            weight = Decimal(float(c)) * Decimal(float(s)).exp()
            above, below = above + weight * Decimal(float(v)), below + weight
        if background is not None:
            weight = Decimal(float(background[1])).exp()
            above, below = above + weight * Decimal(float(background[0])), below + weight
        return float(above / below)


def naive_rows(values, importances, counts, background=None):
    return [naive(values, importances, row, background) for row in counts]


# -- known answers -------------------------------------------------------------------------------------------

WEIGHTS = [Fraction(1), Fraction(3), Fraction(1, 2), Fraction(5, 4)]
VALUES = [Fraction(2), Fraction(-1), Fraction(7, 2), Fraction(1, 8)]
ROWS = [
    [1, 0, 0, 0],
    [0, 1, 0, 0],
    [1, 1, 1, 1],
    [2, 0, 3, 1],
    [0, 7, 0, 1],
    [0, 0, Fraction(1, 2), Fraction(1, 4)],
]


def exact(row, background=None):
    above = sum(c * w * v for c, w, v in zip(row, WEIGHTS, VALUES, strict=True))
    below = sum(c * w for c, w in zip(row, WEIGHTS, strict=True))
    if background is not None:
        value, weight = background
        above, below = above + weight * value, below + weight
    return above / below


def floats(fractions):
    return np.array([[float(x) for x in row] for row in fractions])


@cases("background", [None, (Fraction(-3, 4), Fraction(5, 2))])
def test_the_score_is_the_weighted_mean_in_exact_fractions(background):
    model = Slalom(
        [float(v) for v in VALUES],
        [math.log(w) for w in WEIGHTS],
        background=None if background is None else (float(background[0]), math.log(background[1])),
    )
    expected = [float(exact(row, background)) for row in ROWS]
    np.testing.assert_allclose(model(floats(ROWS)), expected, rtol=1e-14)
    np.testing.assert_array_equal(model.evidence(floats(ROWS)), model(floats(ROWS)))


@cases("background", [None, (Fraction(-3, 4), Fraction(5, 2))])
def test_the_weights_are_the_shares_of_the_units(background):
    outside = 0 if background is None else background[1]
    model = Slalom(
        [float(v) for v in VALUES],
        [math.log(w) for w in WEIGHTS],
        background=None if background is None else (float(background[0]), math.log(background[1])),
    )
    expected = []
    for row in ROWS:
        below = outside + sum(c * w for c, w in zip(row, WEIGHTS, strict=True))
        expected.append([float(c * w / below) for c, w in zip(row, WEIGHTS, strict=True)])
    np.testing.assert_allclose(model.weights(floats(ROWS)), expected, rtol=1e-14)


def test_the_link_bends_the_evidence_between_its_floor_and_ceiling():
    plain = Slalom([5.0, -3.0, 0.25], [0.1, 0.2, -0.3])
    model = Slalom([5.0, -3.0, 0.25], [0.1, 0.2, -0.3], link=(0.5, 1.5))
    counts = np.array([[1.0, 0, 0], [0, 1, 0], [0, 0, 1], [2, 1, 1]])
    expected = [0.5 + 1.5 * math.tanh((s - 0.5) / 1.5) for s in plain(counts)]
    np.testing.assert_allclose(model(counts), expected, rtol=1e-14)
    np.testing.assert_array_equal(model.evidence(counts), plain(counts))
    np.testing.assert_array_equal(model.output(plain(counts)), model(counts))


def test_the_slope_of_the_link_is_its_derivative():
    link, s, h = Link(0.3, 0.8), np.linspace(-2.0, 2.0, 9), 1e-6
    np.testing.assert_allclose(link.slope(s), (link(s + h) - link(s - h)) / (2 * h), atol=1e-9)
    np.testing.assert_allclose(link.slope(np.array(0.3)), 1.0, rtol=0, atol=0)


def test_a_link_with_a_long_reach_is_none():
    counts = np.array([[1.0, 2.0], [0.0, 1.0]])
    linked, plain = Slalom([1.0, -2.0], [0.5, -0.5], link=(0.0, 1e6)), Slalom([1.0, -2.0], [0.5, -0.5])
    np.testing.assert_allclose(linked(counts), plain(counts), rtol=1e-11)


def test_one_unit_alone_has_its_own_value():
    model = Slalom([3.0, -2.0, 0.5], [4.0, -4.0, 0.0])
    np.testing.assert_allclose(model(5.0 * np.eye(3)), [3.0, -2.0, 0.5], rtol=1e-15)


# -- several classes -----------------------------------------------------------------------------------------

CLASS_VALUES = np.array([[1.0, 2.0, 6.0], [-1.0, 0.5, 2.0], [4.0, -4.0, 3.0], [0.0, 0.0, 0.0]])
CLASS_IMPORTANCES = np.array([0.5, -0.25, 1.0, -1.25])
CLASS_COUNTS = np.array([[1.0, 0, 0, 0], [1, 1, 1, 1], [0, 2, 0, 0.5], [3, 0, 1, 1]])
CLASS_BACKGROUND = (np.array([0.3, -0.6, 1.2]), 0.7)
CLASS_LINK = (np.array([0.1, 0.0, -0.2]), np.array([0.5, 1.0, 2.0]))


def direct_classes(background=None, link=None):
    """The centred logits by loops over rows and classes."""
    v = [[x - sum(row) / 3 for x in row] for row in CLASS_VALUES.tolist()]
    scores = []
    for counts in CLASS_COUNTS:
        logits = []
        for k in range(3):
            level = None if background is None else (background[0][k] - sum(background[0]) / 3, background[1])
            s = naive([row[k] for row in v], CLASS_IMPORTANCES, counts, level)
            logits.append(s if link is None else link[0][k] + link[1][k] * math.tanh((s - link[0][k]) / link[1][k]))
        scores.append([x - sum(logits) / 3 for x in logits])
    return scores


@cases("background", [None, CLASS_BACKGROUND])
@cases("link", [None, CLASS_LINK])
def test_several_classes_give_centred_logits_and_their_softmax(background, link):
    given = [part if part is None else (part[0].copy(), np.copy(part[1])) for part in (background, link)]
    model = Slalom(CLASS_VALUES, CLASS_IMPORTANCES, background=given[0], link=given[1])
    expected = direct_classes(background, link)
    assert model.n_classes == 3
    np.testing.assert_allclose(model(CLASS_COUNTS), expected, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(model(CLASS_COUNTS).sum(axis=1), 0.0, atol=1e-14)
    exponentials = [[math.exp(x) for x in row] for row in expected]
    chances = [[x / sum(row) for x in row] for row in exponentials]
    np.testing.assert_allclose(model.probabilities(CLASS_COUNTS), chances, rtol=1e-12)


def test_values_and_the_value_of_the_background_are_centred_over_the_classes():
    model = Slalom(CLASS_VALUES, CLASS_IMPORTANCES, background=([1.0, 2.0, 6.0], 0.0))
    np.testing.assert_allclose(model.values[0], [-2.0, -1.0, 3.0], rtol=1e-15)
    np.testing.assert_allclose(model.values.sum(axis=1), 0.0, atol=1e-15)
    np.testing.assert_allclose(model.background.value, [-2.0, -1.0, 3.0], rtol=1e-15)


def test_a_single_number_serves_all_classes():
    one = Slalom(CLASS_VALUES, CLASS_IMPORTANCES, background=(2.0, 0.1), link=(0.2, 0.9))
    many = Slalom(CLASS_VALUES, CLASS_IMPORTANCES, background=([2.0] * 3, 0.1), link=([0.2] * 3, [0.9] * 3))
    np.testing.assert_array_equal(one(CLASS_COUNTS), many(CLASS_COUNTS))
    np.testing.assert_array_equal(one.background.value, np.zeros(3))


def test_a_constant_added_to_all_classes_of_a_unit_changes_nothing():
    moved = Slalom(CLASS_VALUES + np.array([[1.0], [-2.0], [3.0], [0.5]]), CLASS_IMPORTANCES)
    np.testing.assert_allclose(moved(CLASS_COUNTS), Slalom(CLASS_VALUES, CLASS_IMPORTANCES)(CLASS_COUNTS), atol=1e-14)


def test_two_classes_are_one_log_odds_split_in_halves():
    odds = np.array([2.0, -1.0, 0.5])
    single = Slalom(odds, [0.3, 0.0, -0.3])
    double = Slalom(np.stack([-odds / 2, odds / 2], axis=1), [0.3, 0.0, -0.3])
    counts = np.array([[1.0, 0, 0], [1, 1, 1], [0, 2, 1]])
    np.testing.assert_allclose(double(counts)[:, 1] - double(counts)[:, 0], single(counts), rtol=1e-14)
    np.testing.assert_allclose(double.probabilities(counts), single.probabilities(counts), rtol=1e-14)


def test_binary_probabilities_have_two_columns_that_sum_to_one():
    model = Slalom([2.0, -1.0], [0.0, 0.0])
    chances = model.probabilities([[1, 0], [0, 1], [1, 1]])
    assert model.n_classes is None
    assert chances.shape == (3, 2)
    np.testing.assert_allclose(chances[:, 1], [1 / (1 + math.exp(-f)) for f in (2.0, -1.0, 0.5)], rtol=1e-14)
    np.testing.assert_allclose(chances.sum(axis=1), 1.0, rtol=1e-15)


def test_extreme_scores_have_probabilities_without_overflow():
    single, double = Slalom([-1000.0, 1000.0], [0.0, 0.0]), Slalom([[1000.0, -1000.0]], [0.0])
    np.testing.assert_array_equal(single.probabilities(np.eye(2)), [[1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(double.probabilities([[1.0]]), [[1.0, 0.0]])


# -- gamma ---------------------------------------------------------------------------------------------------


@cases("gamma", [0.0, 1.0, -7.5])
def test_importances_are_stored_with_the_sum_gamma_and_the_background_moves_along(gamma):
    given = np.array([3.0, -1.0, 0.5, 9.0])
    model = Slalom([1.0, 2.0, 3.0, 4.0], given, background=(0.5, 2.0), gamma=gamma)
    assert model.gamma == gamma
    np.testing.assert_allclose(model.importances.sum(), gamma, atol=1e-14)
    np.testing.assert_allclose(np.diff(model.importances), np.diff(given), rtol=1e-14)
    np.testing.assert_allclose(model.background.importance - model.importances[0], 2.0 - 3.0, rtol=1e-14)


def test_gamma_does_not_change_the_scores():
    rows = np.array([[1.0, 0, 2], [0, 1, 1], [0, 0, 0]])
    one, two = (Slalom([1.0, -2.0, 3.0], [0.5, 0.1, 2.0], background=(0.5, 1.0), gamma=g) for g in (0.0, 11.0))
    np.testing.assert_allclose(one(rows), two(rows), rtol=1e-14)


# -- stability -----------------------------------------------------------------------------------------------


@cases("seed", range(6))
@cases("with_background", [False, True])
def test_importances_anywhere_up_to_three_thousand(seed, with_background):
    rng = np.random.default_rng(seed)
    near = rng.choice([-3000.0, -700.0, 0.0, 650.0, 3000.0], 8)  # some units near each other, others worlds apart
    s, v = np.clip(near + rng.normal(size=8), -3000.0, 3000.0), rng.normal(size=8)
    counts = rng.integers(0, 3, (20, 8)) + np.eye(8)[np.arange(20) % 8]
    background = (0.7, float(rng.choice(near) + rng.normal())) if with_background else None
    model = Slalom(v, s, background=background)
    np.testing.assert_allclose(model(counts), naive_rows(v, s, counts, background), rtol=1e-9, atol=1e-9)
    assert np.isfinite(model.weights(counts)).all()


def test_the_most_important_unit_present_decides_alone():
    model = Slalom([1.0, 2.0, 3.0], [3000.0, 0.0, -3000.0])
    np.testing.assert_array_equal(model([[0, 0, 1], [0, 1, 1], [1, 1, 1]]), [3.0, 2.0, 1.0])


@cases("importance", [-3000.0, -1000.0, -700.0, -1.0, 0.0, 800.0, 3000.0])
def test_the_empty_row_has_the_value_of_the_background_however_faint_it_is(importance):
    model = Slalom([1.0, -2.0], [0.3, -0.3], background=(0.6, importance))
    np.testing.assert_array_equal(model([[0, 0]]), [0.6])
    np.testing.assert_array_equal(model.weights([[0, 0]]), [[0.0, 0.0]])


def test_the_empty_row_of_several_classes_has_the_values_of_the_background():
    model = Slalom(CLASS_VALUES, CLASS_IMPORTANCES, background=([1.0, 2.0, 6.0], 0.0))
    np.testing.assert_allclose(model(np.zeros((1, 4))), [[-2.0, -1.0, 3.0]], rtol=1e-15)


def test_the_empty_row_passes_the_link():
    model = Slalom([1.0, -2.0], [0.0, 0.0], background=(0.6, 0.0), link=(0.1, 2.0))
    np.testing.assert_allclose(model([[0, 0]]), [0.1 + 2.0 * math.tanh(0.25)], rtol=1e-15)


@cases("background", [None, (0.5, -800.0), (0.5, 0.0), (0.5, 800.0)])
def test_huge_and_tiny_counts(background):
    v, s = [1.0, -2.0, 4.0], [0.0, 1.0, -1.0]
    counts = [
        [1e300, 2e300, 1e-300],
        [0, 0, 1e-300],
        [1e-300, 3e-300, 0],
        [1e300, 0, 1],
        [5e-324, 0, 0],
        [1e308] * 3,
    ]
    model = Slalom(v, s, background=background)
    np.testing.assert_allclose(model(counts), naive_rows(v, s, counts, background), rtol=1e-10)


@cases("scale", [1e-29, 1e-31, 1e29, 1e31, 1e200])
def test_counts_matter_only_by_their_ratios_on_both_paths(scale):
    rng = np.random.default_rng(0)
    model = Slalom(rng.normal(size=6), rng.normal(size=6))
    counts = rng.integers(1, 4, (10, 6)).astype(float)
    np.testing.assert_allclose(model(counts * scale), model(counts), rtol=1e-12)
    np.testing.assert_allclose(model.weights(counts * scale), model.weights(counts), rtol=1e-12)


@cases("background", [None, (0.4, 2.0)])
@cases("far", [-500.0, -5000.0, 5000.0])
def test_a_unit_that_is_absent_changes_nothing_however_far_its_importance(background, far):
    rng = np.random.default_rng(1)
    v, s, counts = rng.normal(size=5), 3.0 * rng.normal(size=5), rng.integers(1, 4, (10, 5)).astype(float)
    model = Slalom(v, s, background=background)
    wider = Slalom(np.append(v, 9.0), np.append(s, far), background=background)
    padded = np.hstack([counts, np.zeros((10, 1))])
    np.testing.assert_allclose(wider(padded), model(counts), rtol=1e-10)
    np.testing.assert_allclose(wider.weights(padded)[:, :5], model.weights(counts), rtol=1e-10)


# -- frozen --------------------------------------------------------------------------------------------------


def full_model():
    return Slalom(
        CLASS_VALUES.copy(),
        CLASS_IMPORTANCES.copy(),
        background=(np.array([0.3, -0.6, 1.2]), 0.7),
        link=(np.array([0.1, 0.0, -0.2]), np.array([0.5, 1.0, 2.0])),
    )


@cases("name", ["values", "importances", "background", "link", "gamma", "anything"])
def test_attributes_cannot_be_changed(name):
    with pytest.raises(FrozenInstanceError):
        setattr(full_model(), name, None)


@cases("part", ["values", "importances", "background.value", "link.middle", "link.reach"])
def test_arrays_of_a_model_cannot_be_changed(part):
    array = full_model()
    for name in part.split("."):
        array = getattr(array, name)
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 5.0


def test_background_and_link_are_frozen_pairs():
    model = full_model()
    assert isinstance(model.background, Background)
    assert isinstance(model.link, Link)
    for pair, name in ((model.background, "importance"), (model.link, "reach")):
        with pytest.raises(AttributeError):
            setattr(pair, name, 1.0)


GIVEN = ("values", "importances", "level", "middle", "reach")


def given_arrays():
    parts = (CLASS_VALUES, CLASS_IMPORTANCES, np.array([0.3, -0.6, 1.2]), *CLASS_LINK)
    return {name: part.copy() for name, part in zip(GIVEN, parts, strict=True)}


def model_of(given):
    return Slalom(
        given["values"],
        given["importances"],
        background=(given["level"], 0.7),
        link=(given["middle"], given["reach"]),
        gamma=2.0,
    )


@cases("name", GIVEN)
def test_the_callers_arrays_are_neither_changed_nor_frozen(name):
    given = given_arrays()
    model_of(given)
    np.testing.assert_array_equal(given[name], given_arrays()[name])
    assert given[name].flags.writeable


def test_the_callers_values_of_one_log_odds_are_neither_frozen_nor_followed():
    values = np.array([1.0, -2.0])
    model = Slalom(values, [0.0, 0.0])
    values[:] = 7.0
    np.testing.assert_array_equal(model.values, [1.0, -2.0])


@cases("name", GIVEN)
def test_a_model_does_not_follow_the_callers_arrays(name):
    given = {key: np.stack([part, part]) for key, part in given_arrays().items()}
    model = model_of({key: pair[0] for key, pair in given.items()})
    before = model(CLASS_COUNTS)
    given[name][:] = 7.0  # through the base of the view that was passed
    np.testing.assert_array_equal(model(CLASS_COUNTS), before)


def test_counts_are_not_changed():
    counts = CLASS_COUNTS.copy()
    full_model()(counts)
    np.testing.assert_array_equal(counts, CLASS_COUNTS)
    assert counts.flags.writeable


# -- refusals ------------------------------------------------------------------------------------------------


def refused(match, call):
    with pytest.raises(InputError, match=match) as caught:
        call()
    assert "\n" not in str(caught.value)
    assert isinstance(caught.value, ValueError)


TWO = {"values": [1.0, 2.0], "importances": [0.0, 0.0]}
CLASSES = {"values": np.eye(3), "importances": np.zeros(3)}

PARTS = {
    "values with NaN": ({**TWO, "values": [1.0, np.nan]}, r"values must be finite; got nan at index \[1\]"),
    "values with inf": ({**TWO, "values": [np.inf, 1.0]}, r"values must be finite; got inf at index \[0\]"),
    "values 3-D": ({**TWO, "values": np.zeros((2, 2, 2))}, "values must have 1 or 2 dimension"),
    "values 0-D": ({**TWO, "values": 1.0}, "values must have 1 or 2 dimension"),
    "values ragged": ({**TWO, "values": [[1.0], [1.0, 2.0]]}, "values must be an array of real numbers"),
    "values of words": ({**TWO, "values": ["good", "bad"]}, "values must be an array of real numbers"),
    "values complex": ({**TWO, "values": np.array([1j, 2.0])}, "values must be .*real"),
    "one class": ({**TWO, "values": [[1.0], [2.0]]}, "need >= 2 columns; .*pass a vector"),
    "importances NaN": ({**TWO, "importances": [np.nan, 0.0]}, "importances must be finite"),
    "importances 2-D": ({**TWO, "importances": np.zeros((2, 1))}, "importances must have 1 dimension"),
    "more importances": ({**TWO, "importances": np.zeros(3)}, "must have one entry for each of n >= 1 units"),
    "fewer importances": ({**CLASSES, "importances": np.zeros(2)}, "must have one entry for each"),
    "no units": ({"values": [], "importances": []}, "n >= 1 units"),
    "no units, classes": ({"values": np.zeros((0, 2)), "importances": []}, "n >= 1 units"),
    "gamma NaN": ({**TWO, "gamma": np.nan}, "gamma must be finite"),
    "gamma a vector": ({**TWO, "gamma": [0.0, 1.0]}, "gamma must have 0 dimension"),
    "background a number": ({**TWO, "background": 1.0}, r"background must be a pair \(value, importance\)"),
    "background a triple": ({**TWO, "background": (1.0, 2.0, 3.0)}, "background must be a pair"),
    "background a large array": ({**TWO, "background": np.zeros((30, 30))}, "background must be a pair"),
    "background NaN": ({**TWO, "background": (np.nan, 0.0)}, "background's value must be finite"),
    "background never": ({**TWO, "background": (0.0, -np.inf)}, "background's importance must be finite"),
    "background importances": (
        {**TWO, "background": (0.0, [0.0, 1.0])},
        "background's importance must have 0",
    ),
    "background of classes": (
        {**TWO, "background": ([0.0, 1.0], 0.0)},
        "background's value must be a number",
    ),
    "background short": ({**CLASSES, "background": ([0.0, 1.0], 0.0)}, "one entry for each of the 3 classes"),
    "link a number": ({**TWO, "link": 1.0}, r"link must be a pair \(middle, reach\)"),
    "link NaN": ({**TWO, "link": (0.0, np.nan)}, "link's .* must be finite"),
    "link of classes": ({**TWO, "link": (0.0, [1.0, 1.0])}, "link's .* must be a number"),
    "link short": ({**CLASSES, "link": ([0.0, 1.0], 1.0)}, "one entry for each of the 3 classes"),
    "link 2-D": ({**CLASSES, "link": (np.zeros((3, 3)), 1.0)}, "link's .* must have 0 or 1 dimension"),
    "reach zero": ({**TWO, "link": (0.0, 0.0)}, "link's reach must be positive; got 0.0"),
    "reach negative": ({**TWO, "link": (0.0, -1.0)}, "link's reach must be positive; got -1.0"),
    "one reach zero": ({**CLASSES, "link": (0.0, [1.0, 0.0, 1.0])}, "link's reach must be positive"),
    "many reaches": (
        {"values": np.eye(40), "importances": np.zeros(40), "link": (0.0, np.linspace(-1.0, 1.0, 40))},
        "link's reach must be positive",
    ),
}


@cases("name", PARTS)
def test_parts_that_make_no_model_are_refused_in_one_line(name):
    arguments, match = PARTS[name]
    refused(match, lambda: Slalom(**arguments))


COUNTS = {
    "negative": ([[1, 0], [0, -0.5]], r"counts must not be negative; got -0.5 in row 1, column 1"),
    "NaN": ([[1, np.nan]], r"counts must be finite; got nan at index \[0, 1\]"),
    "infinite": ([[1, 1], [np.inf, 1]], r"counts must be finite; got inf at index \[1, 0\]"),
    "one row as a vector": ([1, 1], r"counts must have 2 dimension\(s\); got shape \(2,\)"),
    "a number": (1.0, "counts must have 2 dimension"),
    "three dimensions": (np.ones((1, 2, 1)), "counts must have 2 dimension"),
    "too narrow": (np.ones((3, 1)), r"one column for each of the 2 units; got shape \(3, 1\)"),
    "too wide": (np.ones((3, 3)), r"one column for each of the 2 units; got shape \(3, 3\)"),
    "ragged": ([[1], [1, 1]], "counts must be an array of real numbers"),
}


@cases("method", ["__call__", "evidence", "weights", "probabilities"])
@cases("name", COUNTS)
def test_counts_that_make_no_sense_are_refused_in_one_line(name, method):
    counts, match = COUNTS[name]
    refused(match, lambda: getattr(Slalom(**TWO), method)(counts))


@cases("method", ["__call__", "evidence", "weights", "probabilities"])
def test_an_empty_row_needs_a_background(method):
    refused(
        "every row of counts must have a unit present when there is no background; row 1 is empty",
        lambda: getattr(Slalom(**TWO), method)([[1, 0], [0, 0], [0, 0]]),
    )


def test_no_rows_give_no_scores():
    assert Slalom(**TWO)(np.zeros((0, 2))).shape == (0,)
    assert Slalom(**CLASSES)(np.zeros((0, 3))).shape == (0, 3)


def test_building_a_model_from_its_own_parts_changes_no_bit():
    rng = np.random.default_rng(0)
    for shift in (0.0, 5.0, 1000.0):
        for _ in range(200):
            once = Slalom(rng.normal(size=3), rng.normal(size=3) + shift, (0.3, shift))
            twice = Slalom(once.values, once.importances, once.background)
            assert (once.importances == twice.importances).all()
            assert once.background == twice.background
