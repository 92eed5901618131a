"""Exact recovery: planted parameters, counted queries, and answers that no SLALOM gives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from slalom.core.recovery import recover
from slalom.core.slalom import Slalom
from slalom.errors import InputError, ModelError
from tests.cases import cases


class Oracle:
    """A model that answers queries exactly, or as `changed` says, and remembers what it was asked."""

    def __init__(self, model, changed=None):
        self.model, self.changed, self.calls = model, changed or {}, []

    def __call__(self, rows):
        self.calls.append(list(rows))
        counts = np.stack([np.bincount(row, minlength=self.model.n_units) for row in rows])
        return np.array([self.changed.get(row, y) for row, y in zip(rows, self.model(counts), strict=True)])


def test_a_thousand_units_in_1999_queries():
    rng = np.random.default_rng(0)
    truth = Slalom(rng.normal(size=1000), 2.0 * rng.normal(size=1000))
    oracle = Oracle(truth)
    found = recover(oracle, 1000)
    asked = [row for rows in oracle.calls for row in rows]
    assert len(oracle.calls) == 2
    assert len(asked) == len(set(asked)) == found.queries == 1999
    assert sorted(map(len, asked)) == [1] * 1000 + [2] * 999
    assert np.abs(found.model.values - truth.values).max() <= 1e-8
    assert np.abs(found.model.importances - truth.importances).max() <= 1e-6
    assert (found.status == "recovered").all()
    assert found.diagnosis == ""


@settings(deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([-2.0, 0.0, 0.25, 1.0, 1.0 + 1e-9]), st.floats(-8, 8)),
        min_size=2,
        max_size=9,
    )
)
def test_ties_and_near_ties_are_recovered(pairs):
    v, s = map(np.array, zip(*pairs, strict=True))
    truth = Slalom(v, s)
    oracle = Oracle(truth)
    found = recover(oracle, len(v), tolerance=1e-15)
    np.testing.assert_array_equal(found.model.values, v)
    if len(set(v)) == 1:
        assert (found.status == "constant").all()
        assert found.queries == len(oracle.calls[0]) == len(v)
    elif np.ptp(v) > 1e-6:
        np.testing.assert_allclose(found.model.importances, truth.importances, atol=1e-6)
        assert found.queries == sum(map(len, oracle.calls)) == 2 * len(v) - 1


def test_the_sign_of_the_importances():
    """G of the pair is 3/4 of the way to unit 0, so unit 0 weighs three times as much."""
    found = recover(lambda rows: [{(0,): 4.0, (1,): 0.0, (0, 1): 3.0}[row] for row in rows], 2)
    np.testing.assert_allclose(found.model.importances, np.array([1, -1]) * np.log(3) / 2, rtol=1e-14)
    assert sorted(found.g.tolist()) == [0.25, 0.5]


@cases("scale", [1e-15, 1e9])
@cases("offset", [0.0, 100.0])
def test_small_and_large_values(scale, offset):
    rng = np.random.default_rng(2)
    truth = Slalom(scale * (rng.normal(size=30) + offset), rng.normal(size=30))
    found = recover(Oracle(truth), 30)
    assert (found.status == "recovered").all()
    np.testing.assert_allclose(found.model.importances, truth.importances, atol=1e-9)


@cases("values", [[0.7], [0.3, 0.3, 0.3], [0.1 + 0.2, 0.3, 0.3], [0.0, 0.0]])
def test_a_constant_model_is_said_to_be_constant(values):
    oracle = Oracle(Slalom(values, np.arange(len(values))))
    found = recover(oracle, len(values))
    assert found.model.values.tolist() == values
    assert not found.model.importances.any()
    assert set(found.status) == {"constant"}
    assert found.queries == len(values) == sum(map(len, oracle.calls))
    assert "importances are arbitrary" in found.diagnosis


def example():
    """theta is unit 0 (the most outlying value), theta' unit 4; unit 1 is near theta: paired with unit 4."""
    return Slalom([5.0, 4.5, 1.0, 0.5, 0.0], [0.2, -0.4, 0.3, -0.6, 0.5])


@cases(("answer", "extreme"), [(0.9, np.max), (5.3, np.min)])
def test_an_inexplicable_pair_is_clipped_and_the_rest_is_exact(answer, extreme):
    """Unit 2 (value 1) with unit 0 (value 5) answers outside [1, 5]; below 1 it is all-important."""
    truth = example()
    found = recover(Oracle(truth, {(0, 2): answer}), 5)
    s, rest = found.model.importances, [0, 1, 3, 4]
    assert found.status.tolist() == ["recovered", "recovered", "inexplicable", "recovered", "recovered"]
    np.testing.assert_allclose(np.diff(s[rest]), np.diff(truth.importances[rest]), atol=1e-12)
    assert s[2] == extreme(s[rest])
    assert not 0 <= found.g[2] <= 1
    assert "1 of 5 units (2) inexplicable" in found.diagnosis
    assert found.queries == 9


@cases("answer", [-1.0, 6.0])
def test_an_inexplicable_pair_of_the_references(answer):
    truth = example()
    found = recover(Oracle(truth, {(0, 4): answer}), 5)
    s = found.model.importances
    assert found.status.tolist() == ["recovered", "inexplicable", "recovered", "recovered", "inexplicable"]
    np.testing.assert_allclose(np.diff(s[[0, 2, 3]]), np.diff(truth.importances[[0, 2, 3]]), atol=1e-12)
    assert s[1] - s[4] == pytest.approx(truth.importances[1] - truth.importances[4], abs=1e-12)
    assert s[4] == (s[[0, 2, 3]].max() if answer < 0 else s[[0, 2, 3]].min())


@settings(deadline=None)
@given(st.integers(1, 8), st.integers(0, 10**6), st.sampled_from([1.0, 1e-8, 1e8]))
def test_whatever_the_model_answers_the_result_is_finite(n, seed, scale):
    rng = np.random.default_rng(seed)
    found = recover(lambda rows: scale * rng.choice([-1.0, 0.0, 0.5, 2.0], size=len(rows)), n)
    assert np.isfinite(found.model.values).all()
    assert np.isfinite(found.model.importances).all()
    assert np.isfinite(found.g).all()
    assert bool(found.diagnosis) == bool((found.status != "recovered").any())


def test_a_pair_decided_by_one_unit_is_saturated():
    """exp(-60) is lost in the answer to the pair; the importance is a bound and says so."""
    truth = Slalom([1.0, 0.0, -1.5], [30.0, -30.0, 0.0])
    found = recover(Oracle(truth), 3)
    assert found.status.tolist() == ["saturated", "saturated", "recovered"]
    s = found.model.importances - found.model.importances[2]
    assert 20 < s[0] < 30
    assert -30 < s[1] < -20
    assert "importances are bounds" in found.diagnosis


def test_single_precision_wants_a_larger_tolerance():
    truth = Slalom([1.0, 0.1, -1.5], [8.0, -9.0, 1.0])
    oracle = Oracle(truth)

    def rounded(rows):
        return oracle(rows).astype(np.float32)

    found = recover(rounded, 3, tolerance=1e-6)
    assert "inexplicable" not in found.status
    np.testing.assert_allclose(found.model.importances, truth.importances, atol=0.2)


def test_what_is_always_there_breaks_the_recovery():
    """Documented: single queries of a model that sees one more unit are not pure, so the values come out wrong."""
    truth = Slalom([2.0, -1.0, 0.5, 0.0], [0.5, 0.0, -0.5, 0.0])

    def answers(rows):
        return truth([np.append(np.bincount(row, minlength=3), 1.0) for row in rows])

    assert np.abs(recover(answers, 3).model.values - truth.values[:3]).max() > 0.3


@cases(
    ("answer", "message"),
    [
        (
            lambda rows: np.zeros((len(rows), 2)),
            r"one log odds for each of the 3 sequences \[\(0,\), \(1,\), \(2,\)\]",
        ),
        (lambda rows: np.zeros(len(rows) + 1), r"shape \(3,\); got shape \(4,\)"),
        (lambda rows: 0.0, r"got shape \(\)"),
        (lambda rows: None, r"must return|finite"),
        (lambda rows: ["high"] * len(rows), "must return an array of log odds"),
        (
            lambda rows: [float(row == (1,)) for row in rows[:-1]] + [np.nan],
            r"got nan for the sequence \(2,\)",
        ),
        (
            lambda rows: np.where([len(row) == 2 for row in rows], np.inf, np.arange(len(rows))),
            r"got inf for the sequence \(0, [12]\)",
        ),
    ],
)
def test_unusable_answers_name_the_query(answer, message):
    with pytest.raises(ModelError, match=message) as caught:
        recover(answer, 3)
    assert "\n" not in str(caught.value)


@cases(
    ("arguments", "message"),
    [
        ({"n_units": 0}, "n_units must be a whole number of at least 1; got 0"),
        ({"n_units": 2.0}, "n_units must be a whole number of at least 1; got 2.0"),
        ({"n_units": 2, "tolerance": -1.0}, "tolerance must lie in"),
        ({"n_units": 2, "tolerance": 0.5}, "tolerance must lie in"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(InputError, match=message) as caught:
        recover(lambda rows: np.zeros(len(rows)), **arguments)
    assert "\n" not in str(caught.value)
