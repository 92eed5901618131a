"""Every kind of surrogate and part against its formula written out; a new one adds itself to `written` and passes as it is."""

import copy
import json
import math
import pickle
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.sparse import csr_array

from slalom.core import Additive, Beta, Conjunctions, Link, Neighbours, Point, Shifts, Slalom
from slalom.core.kinds import KINDS, from_dict
from slalom.errors import InputError
from tests.cases import cases
from tests.core.written import MEASURES, N, enumerated, parts, surrogates

COUNTS = [np.ones(N), np.array([2.0, 0.0, 1.0, 1.0, 1.0, 3.0])]  # whole, as shifts want them
SAMPLES = [pair for shape in ((), (3,)) for pair in surrogates(np.random.default_rng(0), shape)]
PARTS = [pair for shape in ((), (3,)) for pair in parts(np.random.default_rng(1), shape)]
every_model = cases(("model", "formula"), SAMPLES)
every_part = cases(("part", "formula"), PARTS)
every_input = cases("counts", COUNTS)


def backwards(formula, counts, h=1e-4):
    """The slopes of a formula from the side of fewer units, by a rule of third order."""
    slopes = []
    for step in h * np.eye(N):
        f = [formula(counts - k * step) for k in range(4)]
        slopes.append((11 * f[0] - 18 * f[1] + 9 * f[2] - 2 * f[3]) / (6 * h))
    return np.array(slopes)


# -- all kinds -----------------------------------------------------------------------------------------------


def test_every_kind_is_sampled():
    assert {model.kind for model, _ in SAMPLES} == set(KINDS)
    assert {part.kind for part, _ in PARTS} == {"neighbours", "shifts", "conjunctions"}


@every_model
def test_predictions_are_those_of_the_formula(model, formula):
    rng = np.random.default_rng(1)
    rows = np.vstack([np.ones(N), np.zeros(N), np.eye(N), rng.integers(0, 3, (10, N)), rng.random((10, N))])
    expected = np.array([formula(row) for row in rows])
    np.testing.assert_allclose(model.predict(rows), expected, atol=1e-12)
    np.testing.assert_array_equal(model(csr_array(rows)), model.predict(rows))
    np.testing.assert_allclose(model.empty_score, expected[1], atol=1e-12)
    np.testing.assert_allclose(model.alone(), expected[2 : N + 2] - expected[1], atol=1e-12)
    odds = np.stack([0 * expected, expected], axis=1) if model.n_classes is None else expected
    chances = np.exp(odds) / np.exp(odds).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(model.probabilities(rows), chances, atol=1e-12)
    assert model.predict(np.zeros((0, N))).shape == (0, *model.values.shape[1:])


@every_model
@every_input
def test_removals_and_slopes_are_those_of_the_formula(model, formula, counts):
    removal = [formula(counts) - formula(np.where(np.arange(N) == i, 0.0, counts)) for i in range(N)]
    np.testing.assert_allclose(model.removal(counts), removal, atol=1e-12)
    np.testing.assert_array_equal(model.semivalue(Point(1), counts), model.removal(counts))
    present = counts > 0
    np.testing.assert_allclose(model.gradient(counts)[present], backwards(formula, counts)[present], atol=1e-7)


@every_model
@every_input
def test_semivalues_are_those_of_all_sets(model, formula, counts):
    def score(rows):
        return np.array([formula(row) for row in rows])

    for measure in (*MEASURES, Point(0.3), Point(0)):
        expected = enumerated(score, measure, counts)
        np.testing.assert_allclose(model.semivalue(measure, counts), expected, atol=1e-9, err_msg=str(measure))
    np.testing.assert_allclose(model.shapley(counts).sum(axis=0), formula(counts) - model.empty_score, atol=1e-9)


@every_model
def test_merged_units_go_together(model, formula):
    groups = np.array([0, 1, 0, 2, 2, 0])
    merged = model.merged(groups)
    rows = np.array([[1.0, 1.0, 1.0], [0.0, 0.0, 0.0], [1.0, 0.0, 2.0], [0.0, 0.5, 1.0]])
    assert (type(merged), merged.n_units) == (type(model), 3)
    np.testing.assert_allclose(merged.predict(rows), [formula(row[groups]) for row in rows], atol=1e-12)
    again = merged.merged([0, 1, 0])
    np.testing.assert_allclose(again.predict(rows[:, :2]), [formula(row[[0, 1, 0]][groups]) for row in rows], atol=1e-12)
    for wrong in ([0, 1], np.zeros(N), [0, 0, 0, 0, 0, -1], [0, 0, 0, 0, 0, 2], [[0] * N], [10**15, *[0] * 5]):
        with pytest.raises(InputError, match="group"):
            model.merged(wrong)


@every_model
def test_saved_and_copied_models_are_the_same_bit_by_bit(model, formula):
    saved = json.loads(json.dumps(model.to_dict()))
    rows = np.vstack([COUNTS, np.random.default_rng(1).random((10, N))])
    for back in (
        from_dict({**saved, "text": "further keys are ignored"}),
        pickle.loads(pickle.dumps(model)),
        copy.deepcopy(model),
    ):
        assert type(back) is type(model)
        assert back.to_dict() == model.to_dict()
        np.testing.assert_array_equal(back.predict(rows), model.predict(rows))
        np.testing.assert_array_equal(back.shapley(), model.shapley())
        for array in (back.values, back.importances):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0.0


@every_model
def test_shapes_are_those_of_the_values(model, formula):
    assert model.n_units == N
    assert model.importances.shape == (N,)
    for scores in (model.linear(), model.gradient(), model.removal(), model.shapley()):
        assert scores.shape == model.values.shape
    shares = model.weights(np.vstack(COUNTS))
    if isinstance(model, Slalom):
        weights = np.vstack(COUNTS) * np.exp(model.importances)
        np.testing.assert_allclose(shares, weights / weights.sum(axis=1, keepdims=True), atol=1e-14)
    else:
        assert not shares.any()
    level = 0.7 if model.n_classes is None else np.array([1.0, -2.0, 1.0])
    constant = type(model).constant(N, level)
    np.testing.assert_allclose(constant.predict(np.tri(N, k=-1)), np.broadcast_to(level, (N, *np.shape(level))), atol=1e-12)


@every_model
def test_wrong_counts_and_measures_are_refused(model, formula):
    wrong = (np.ones((1, N + 1)), np.ones(N), -np.ones((1, N)), np.full((1, N), np.nan), [[1], [1, 1]], np.ones((1, N, 1)))
    for counts in wrong:
        for function in (model.predict, model.weights, model.probabilities):
            with pytest.raises(InputError, match=r"^counts must[^\n]*$"):
                function(counts)
    for function in (model.gradient, model.removal, model.shapley):
        with pytest.raises(InputError, match="counts"):
            function(np.ones(N + 1))
    with pytest.raises(InputError, match=r"^measure must be Beta\(a, b\) or Point\(q\); got 0.5$"):
        model.semivalue(0.5)


# -- parts ---------------------------------------------------------------------------------------------------


@every_part
@every_input
def test_parts_are_their_formulas(part, formula, counts):
    rows = np.vstack([counts, np.random.default_rng(2).random((10, N))])
    np.testing.assert_allclose(part(rows), [formula(row) for row in rows], atol=1e-12)
    np.testing.assert_allclose(part.gradient(counts), backwards(formula, counts), atol=1e-7)
    for measure in (*MEASURES, Point(0.3)):
        expected = enumerated(lambda rows: np.array([formula(row) for row in rows]), measure, counts)
        np.testing.assert_allclose(part.semivalue(measure, counts), expected, atol=1e-11)
    assert part(np.zeros((0, N))).shape == (0, *part.class_shape)


@every_part
def test_merged_units_of_parts_join_as_a_whole(part, formula):
    groups, counts = np.array([0, 1, 0, 2, 2, 0]), np.array([1.0, 2.0, 1.0])
    expected = enumerated(lambda rows: np.array([formula(row[groups]) for row in rows]), Beta(2, 1), counts)
    np.testing.assert_allclose(part.merged(groups).semivalue(Beta(2, 1), counts), expected, atol=1e-11)


def test_neighbours_of_whole_units_are_as_far_as_they_differ():
    rng = np.random.default_rng(3)
    asked, rows, rates = rng.random((4, N)) < 0.5, rng.random((20, N)) < 0.5, rng.random(N)
    distances = np.abs(rows[:, None].astype(float) - asked).dot(rates)
    np.testing.assert_allclose(Neighbours(asked, rates, np.eye(4)[2])(rows.astype(float)), np.exp(-distances[:, 2]))


def test_shapley_values_of_the_parts_of_a_long_text_sum_to_its_score():
    rng = np.random.default_rng(4)
    for shape in ((), (3,)):
        n, offsets = 300, rng.normal(size=(20, 24, *shape))
        offsets[:, 0] = 0.0
        shifts = Shifts(n, np.arange(280), np.arange(280) // 14, rng.integers(1, 4, 280), offsets)
        near = Neighbours(rng.random((50, n)) < 0.9, rng.random(n) / 100.0, rng.normal(size=(50, *shape)))
        model = Slalom(rng.normal(size=(n, *shape)), rng.normal(size=n), 0.3, parts=[near, shifts])
        gain = model(np.ones((1, n)))[0] - model.empty_score
        np.testing.assert_allclose(model.shapley().sum(axis=0), gain, atol=1e-9)
        for part in (near, shifts):
            assert np.abs(part.semivalue(Beta(1, 1), np.ones(n))).max() > 1e-5


WRONG_PARTS = [
    (lambda: Conjunctions(2, [[1, -3]], [1.0]), "literals must be from -2"),
    (lambda: Conjunctions(2, [[3, 1]], [1.0]), "literals must be from -2 to 2"),
    (lambda: Conjunctions(2, [[1, 2]], [1.0, 2.0]), "a row for each of 2 effects"),
    (lambda: Conjunctions(2, [1, 2], [1.0, 2.0]), "literals must"),
    (lambda: Shifts(2, [2], [0], [1], [[0.0, 1.0]]), "one unit below 2"),
    (lambda: Shifts(2, [0], [1], [1], [[0.0, 1.0]]), "one knot below 1"),
    (lambda: Shifts(2, [0], [0], [0], [[0.0, 1.0]]), "a size of at least 1"),
    (lambda: Shifts(2, [0], [0, 0], [1], [[0.0, 1.0]]), "for each entry"),
    (lambda: Shifts(2, [0], [0], [1], [[1.0, 0.0]]), "begin with 0"),
    (lambda: Shifts(2, [0], [0], [1], [[0.0]]), "begin with 0"),
    (lambda: Shifts(2, [0], [0], [1], [[0.0, np.nan]]), "offsets must be finite"),
    (lambda: Neighbours([[1, 0]], [1.0], [1.0]), "rows must be one part for each of 1 pulls and have 1 atoms"),
    (lambda: Neighbours([[1, 0]], [1.0, -1.0], [1.0]), "rows must be"),
    (lambda: Neighbours([[1, 0]], [1.0, np.inf], [1.0]), "rates must be finite"),
    (lambda: Neighbours([[1, 0]], [1.0, 1.0], [1.0], [0]), "rows must be"),
    (lambda: Slalom([1.0], [0.0], parts=[PARTS[0][0]]), "parts must be of 1 units"),
    (lambda: Slalom(np.ones((N, 2)), np.zeros(N), parts=[PARTS[0][0]]), "have the classes of the values"),
    (lambda: PARTS[1][0].semivalue(Beta(1, 1), np.full(N, 0.5)), "whole counts"),
]


@cases(("call", "message"), WRONG_PARTS)
def test_parts_that_do_not_fit_are_refused(call, message):
    with pytest.raises(InputError, match=message):
        call()


def test_unknown_kinds_in_files_are_refused():
    with pytest.raises(InputError, match=r"must be one of 'slalom', 'additive'; got 'cubic'; update slalom"):
        from_dict({"kind": "cubic", "values": [1.0]})
    with pytest.raises(InputError, match=r"must be 'neighbours' or 'shifts' or 'conjunctions'; got 'waves'; update slalom"):
        from_dict({**Slalom([1.0], [0.0]).to_dict(), "parts": [{"kind": "waves"}]})


# -- the formula of a Slalom ---------------------------------------------------------------------------------


def test_one_unit_alone_has_its_value_and_the_empty_input_the_bias():
    for kappa in (0.0, 0.3, 1.0):
        model = Slalom([3.0, -2.0, 0.5], [4.0, -4.0, 0.0], kappa, bias=0.25)
        np.testing.assert_allclose(model([*np.eye(3), np.zeros(3)]), [3.25, -1.75, 0.75, 0.25], rtol=1e-14)
        assert model.additive is (kappa == 0.0)
    assert Slalom([1.0], [0.0], 0.019).additive


def test_the_paper_form_of_gradient_and_removal():
    rng = np.random.default_rng(4)
    model = Slalom(rng.normal(size=6), rng.normal(size=6))
    a, f = model.weights(np.ones((1, 6)))[0], model(np.ones((1, 6)))[0]
    np.testing.assert_allclose(model.gradient(), a * (model.values - f), rtol=1e-10)
    np.testing.assert_allclose(model.removal(), a * (model.values - f) / (1 - a), rtol=1e-10)
    np.testing.assert_allclose(model.linear(), model.values * np.exp(model.importances))


def test_without_competition_it_is_additive():
    rng = np.random.default_rng(5)
    effects, counts = rng.normal(size=8), rng.integers(0, 3, (9, 8))
    model, line = Slalom(effects, rng.normal(size=8), 0.0, 0.4), Additive(effects, 0.4)
    np.testing.assert_allclose(model(counts), line(counts), atol=1e-13)
    for one, other in ((model.removal(), line.removal()), (model.gradient(), effects), (model.shapley(), line.shapley())):
        np.testing.assert_allclose(one, other, atol=1e-13)


def test_a_link_bends_between_its_floor_and_ceiling_and_a_long_one_is_none():
    link, s, h = Link(0.3, 0.8), np.linspace(-2.0, 2.0, 9), 1e-6
    np.testing.assert_allclose(link.slope(s), (link(s + h) - link(s - h)) / (2 * h), atol=1e-9)
    plain, counts = Slalom([1.0, -2.0], [0.5, -0.5], 0.5), [[1.0, 2.0], [0.0, 1.0]]
    np.testing.assert_allclose(Slalom([1.0, -2.0], [0.5, -0.5], 0.5, link=(0.0, 1e6))(counts), plain(counts), rtol=1e-10)
    assert abs(Slalom([1e9], [0.0], link=link)([[1.0]])[0] - 1.1) < 1e-15


def test_two_classes_are_one_log_odds_split_in_halves():
    odds, counts = np.array([2.0, -1.0, 0.5]), np.array([[1.0, 0, 0], [1, 1, 1], [0, 2, 1]])
    single = Slalom(odds, [0.3, 0.0, -0.3], 0.6, 0.8)
    double = Slalom(np.stack([-odds / 2, odds / 2], axis=1) + 7.0, [0.3, 0.0, -0.3], 0.6, [1.0, 1.8])
    np.testing.assert_allclose(double(counts)[:, 1] - double(counts)[:, 0], single(counts), rtol=1e-13)
    np.testing.assert_allclose(double.probabilities(counts), single.probabilities(counts), rtol=1e-13)


def test_extreme_scores_have_probabilities_without_overflow():
    single, double = Slalom([-1000.0, 1000.0], [0.0, 0.0]), Slalom([[1000.0, -1000.0]], [0.0])
    np.testing.assert_array_equal(single.probabilities(np.eye(2)), [[1.0, 0.0], [0.0, 1.0]])
    np.testing.assert_array_equal(double.probabilities([[1.0]]), [[1.0, 0.0]])


def precise(values, importances, kappa, counts):
    """A of one row with 60 digits and a boundless exponent."""
    with localcontext() as context:
        context.prec = 60
        weights = [Decimal(float(s)).exp() for s in importances]
        total = sum(Decimal(float(c)) * w for c, w in zip(counts, weights, strict=True))
        power = Decimal(kappa)
        terms = zip(counts, values, weights, strict=True)
        return float(sum(Decimal(float(c)) * Decimal(float(u)) * (w / total) ** power for c, u, w in terms if c))


def test_importances_anywhere_up_to_three_thousand():
    for seed in range(4):
        rng = np.random.default_rng(seed)
        near = rng.choice([-3000.0, -700.0, 0.0, 650.0, 3000.0], 8)  # some units near each other, others worlds apart
        s, u, counts = near + rng.normal(size=8), rng.normal(size=8), rng.integers(0, 3, (10, 8)) + np.eye(8)[np.arange(10) % 8]
        for kappa in (0.02, 0.3, 1.0):
            model = Slalom(u, s, kappa)
            np.testing.assert_allclose(model(counts), [precise(u, s, kappa, row) for row in counts], rtol=1e-9, atol=1e-9)
            assert np.isfinite(model.weights(counts)).all()
    model = Slalom([1.0, 2.0, 3.0], [3000.0, 0.0, -3000.0])
    np.testing.assert_array_equal(model([[0, 0, 1], [0, 1, 1], [1, 1, 1]]), [3.0, 2.0, 1.0])
    np.testing.assert_allclose(model.removal(), [-1.0, 0.0, 0.0], atol=1e-300)


def test_counts_matter_only_by_their_ratios_where_values_are_averaged():
    rng = np.random.default_rng(0)
    model, counts = Slalom(rng.normal(size=6), rng.normal(size=6)), rng.integers(1, 4, (10, 6)).astype(float)
    for scale in (1e-200, 1e-31, 1e31, 1e200):
        np.testing.assert_allclose(model(counts * scale), model(counts), rtol=1e-12)
        np.testing.assert_allclose(model.weights(counts * scale), model.weights(counts), rtol=1e-12)


def test_a_unit_that_is_absent_changes_nothing_however_far_its_importance():
    rng = np.random.default_rng(1)
    u, s, counts = rng.normal(size=5), 3.0 * rng.normal(size=5), rng.integers(1, 4, (10, 5)).astype(float)
    for kappa in (0.3, 1.0):
        for far in (-500.0, -5000.0, 5000.0):
            wider, padded = Slalom(np.append(u, 9.0), np.append(s, far), kappa), np.hstack([counts, np.zeros((10, 1))])
            np.testing.assert_allclose(wider(padded), Slalom(u, s, kappa)(counts), rtol=1e-10)


def test_scores_without_a_number_are_refused_in_one_line():
    with pytest.raises(InputError, match=r"^gradient needs a unit present[^\n]*$"):
        Slalom([1.0, 2.0], [0.0, 0.0]).gradient([0, 0])
    with pytest.raises(InputError, match=r"^linear scores must fit into floats[^\n]*$"):
        Slalom([1.0, 2.0], [2000.0, 0.0]).linear()
    with pytest.raises(InputError, match=r"^gradients at these counts must fit into floats[^\n]*$"):
        Slalom([1.0, 2.0, 4.0], [2000.0, -1000.0, -1000.0]).gradient([0, 1, 1])
    assert Slalom([1.0, 2.0], [0.0, 0.0], 0.0).gradient([0, 0]).tolist() == [1.0, 2.0]


def test_importances_and_classes_are_centred_and_that_changes_no_bit_the_second_time():
    model = Slalom([[1.0, 2.0, 6.0]] * 2, [3.0, 1.0], bias=[0.0, 0.0, 3.0])
    np.testing.assert_allclose(model.values[0], [-2.0, -1.0, 3.0], rtol=1e-15)
    np.testing.assert_allclose(model.bias, [-1.0, -1.0, 2.0], rtol=1e-15)
    assert model.importances.tolist() == [1.0, -1.0]
    rng = np.random.default_rng(0)
    for _ in range(200):
        once = Slalom(rng.normal(size=(3, 3)), rng.normal(size=3) + 1000.0, bias=rng.normal(size=3))
        assert Slalom(**{f: getattr(once, f) for f in ("values", "importances", "bias")}).to_dict() == once.to_dict()


def test_the_callers_arrays_are_neither_changed_nor_frozen_nor_followed():
    given = {"values": np.array([[1.0, 2.0, 6.0]] * 2), "importances": np.array([3.0, 1.0]), "bias": np.array([0.0, 0.0, 3.0])}
    kept = {name: part.copy() for name, part in given.items()}
    model, before = Slalom(**given), Slalom(**kept).to_dict()
    for name, part in given.items():
        np.testing.assert_array_equal(part, kept[name])
        part[:] = 7.0
    assert model.to_dict() == before


TWO, CLASSES = {"values": [1.0, 2.0], "importances": [0.0, 0.0]}, {"values": np.eye(3), "importances": np.zeros(3)}
REFUSED = [
    ({**TWO, "values": [1.0, np.nan]}, r"values must be finite; got nan at index \[1\]"),
    ({**TWO, "values": np.zeros((2, 2, 2))}, "values must have 1 or 2 dimension"),
    ({**TWO, "values": [[1.0], [1.0, 2.0]]}, "values must be an array of real numbers"),
    ({**TWO, "values": ["good", "bad"]}, "values must be an array of real numbers"),
    ({**TWO, "values": np.array([1j, 2.0])}, "values must be .*real"),
    ({**TWO, "values": [[1.0], [2.0]]}, "need >= 2 columns; .*pass a vector"),
    ({**TWO, "importances": [np.inf, 0.0]}, "importances must be finite"),
    ({**TWO, "importances": np.zeros(3)}, "must have one entry for each of n >= 1 units"),
    ({"values": [], "importances": []}, "n >= 1 units"),
    ({**TWO, "competition": 1.5}, "competition must be from 0 to 1; got 1.5"),
    ({**TWO, "competition": -0.1}, "competition must be from 0 to 1"),
    ({**TWO, "competition": np.nan}, "competition must be finite"),
    ({**TWO, "bias": [0.0, 1.0]}, "bias must be a number"),
    ({**CLASSES, "bias": [0.0, 1.0]}, "bias must be a number, or one for each class"),
    ({**TWO, "link": 1.0}, r"link must be a pair \(middle, reach\)"),
    ({**TWO, "link": (0.0, np.nan)}, "link's .* must be finite"),
    ({**TWO, "link": (0.0, 0.0)}, "link's reach must be positive; got 0.0"),
    ({**CLASSES, "link": (0.0, 1.0)}, "a link needs one score per row"),
]


@cases(("arguments", "message"), REFUSED)
def test_arguments_that_make_no_model_are_refused_in_one_line(arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        Slalom(**arguments)
    assert "\n" not in str(caught.value)


@cases(
    ("effects", "base", "message"),
    [
        ([], 0.0, "n >= 1 rows"),
        ([[1.0]], [0.0], ">= 2 columns"),
        ([1.0, np.nan], 0.0, "effects"),
        ([1.0], [0.0, 1.0], r"base must have the shape \(\)"),
        ([[1.0, 2.0]], 0.0, r"base must have the shape \(2,\)"),
    ],
)
def test_effects_that_make_no_additive_model_are_refused(effects, base, message):
    with pytest.raises(InputError, match=message):
        Additive(effects, base)


def test_repeated_units_share_their_parameters():
    rng = np.random.default_rng(6)
    model, units = Slalom(rng.normal(size=4), rng.normal(size=4), 0.4, 0.1, (0.0, 2.0)), np.array([3, 0, 3, 1])
    rows = rng.integers(0, 3, (9, 4)).astype(float)
    expected = model([np.bincount(units, row, minlength=4) for row in rows])
    np.testing.assert_allclose(model.repeated(units)(rows), expected, atol=1e-12)
    assert math.isclose(model.repeated(units).importances.sum(), 0.0, abs_tol=1e-12)
