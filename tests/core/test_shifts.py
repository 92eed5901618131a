"""The effect of places, checked by its formula and by enumeration."""

import copy
import json
import pickle
from itertools import product

import numpy as np
import pytest

from slalom.core import Slalom, TwoScale
from slalom.core.kinds import from_dict
from slalom.core.measures import Beta, Point
from slalom.core.shifts import Shifts
from slalom.errors import InputError
from tests.cases import cases

N = 6


def sample(classes, rng):
    """Units of one to three atoms, one of them around a knot and one after the last."""
    shape = (3, 6) if classes is None else (3, 6, classes)
    offsets = rng.normal(size=shape)
    offsets[:, 0] = 0.0
    if classes:
        offsets -= offsets.mean(axis=2, keepdims=True)
    return Shifts(N, [0, 1, 2, 2, 3, 4], [0, 0, 0, 1, 1, 2], [1, 2, 1, 1, 3, 1], offsets)


def formula(shifts, counts):
    """h of each knot, looked up for the atoms that are missing before it."""
    total = 0.0
    for g, table in enumerate(shifts.offsets):
        entries = zip(shifts.units, shifts.knots, shifts.sizes, strict=True)
        missing = max(sum(size * (1 - counts[unit]) for unit, knot, size in entries if knot <= g), 0)
        total = total + (table[int(missing)] if missing < len(table) else 0.0 * table[0])
    return total


def two_scale(classes, rng):
    shape = () if classes is None else (classes,)
    far = Slalom(rng.normal(size=(N, *shape)), rng.normal(size=N), (rng.normal(size=shape), 0.2))
    return TwoScale(
        far, rng.normal(size=shape), rng.normal(size=(N, *shape)), np.full(N, 1 / N), 3, shifts=sample(classes, rng)
    )


@cases("classes", [None, 3])
def test_offsets_are_those_of_the_formula(classes):
    shifts = sample(classes, np.random.default_rng(0))
    rows = np.array([*product([0, 1], repeat=N), [2, 1, 0, 1, 3, 0]], dtype=float)
    np.testing.assert_allclose(shifts(rows), [formula(shifts, row) for row in rows], atol=1e-14)
    assert not np.any(shifts(np.ones((1, N))))


@cases("classes", [None, 3])
@cases("counts", [np.ones(N), np.array([1.0, 0, 1, 1, 0, 1])])
def test_removal_and_gradient_are_differences(classes, counts):
    shifts = sample(classes, np.random.default_rng(1))
    here = shifts(counts[None])[0]
    without = np.array([here - shifts((counts * (np.arange(N) != i))[None])[0] for i in range(N)])
    np.testing.assert_allclose(shifts.removal(counts), without, atol=1e-14)
    less = np.array([(here - shifts((counts - 1e-3 * (np.arange(N) == i))[None])[0]) / 1e-3 for i in range(N)])
    np.testing.assert_allclose(shifts.gradient(counts), less, atol=1e-10)


@cases("classes", [None, 3])
@cases("measure", [Beta(1, 1), Beta(3, 1), Point(0.7)])
@cases("counts", [np.ones(N), np.array([1.0, 0, 2, 1, 0, 1])])
def test_semivalues_are_those_of_enumeration(classes, measure, counts):
    shifts = sample(classes, np.random.default_rng(2))
    players = np.flatnonzero(counts)
    q, mass = measure.rule(len(players))
    expected = np.zeros((N, *shifts.offsets.shape[2:]))
    for i in players:
        others = players[players != i]
        for there in product([0, 1], repeat=len(others)):
            k = sum(there)
            chance = (mass * q**k * (1 - q) ** (len(others) - k)).sum()
            row = np.zeros(N)
            row[others] = counts[others] * there
            with_it = row.copy()
            with_it[i] = counts[i]
            expected[i] += chance * (formula(shifts, with_it) - formula(shifts, row))
    np.testing.assert_allclose(shifts.semivalue(measure, counts), expected, atol=1e-12)


@cases("classes", [None, 3])
def test_shapley_values_of_a_long_text_sum_to_its_score(classes):
    rng = np.random.default_rng(4)
    n, shape = 300, () if classes is None else (classes,)
    offsets = rng.normal(size=(20, 24, *shape))
    offsets[:, 0] = 0.0
    sizes = rng.integers(1, 4, n)
    shifts = Shifts(n, np.arange(280), np.arange(280) // 14, sizes[:280], offsets)
    far = Slalom(rng.normal(size=(n, *shape)), rng.normal(size=n), (np.zeros(shape), 0.0))
    model = TwoScale(far, np.zeros(shape), np.zeros((n, *shape)), sizes / sizes.sum(), 2, shifts=shifts)
    gain = model(np.ones((1, n)))[0] - model.empty_score
    np.testing.assert_allclose(model.shapley().sum(axis=0), gain, atol=1e-10)
    units = shifts.semivalue(Beta(1, 1), np.ones(n))
    assert np.abs(units).max() > 1e-4  # some of it is left: prefixes of a few atoms have an effect where all is removed


@cases("classes", [None, 3])
def test_merged_units_are_present_together(classes):
    model = two_scale(classes, np.random.default_rng(5))
    groups = np.array([0, 1, 1, 0, 2, 2])
    rows = np.array([*product([0, 1], repeat=3)], dtype=float)
    np.testing.assert_allclose(model.merged(groups)(rows), model(rows[:, groups]), atol=1e-12)


def test_repeated_units_have_the_entries_of_theirs():
    shifts = sample(None, np.random.default_rng(6))
    again = shifts.repeated(np.array([2, 2, 5, 0]))
    counts = np.array([[1.0, 0.0, 1.0, 1.0], [0.0, 1.0, 1.0, 0.0]])
    expected = [formula(again, row) for row in counts]
    np.testing.assert_allclose(again(counts), expected, atol=1e-14)
    assert (again.n_units, again.units.tolist(), again.sizes.tolist()) == (4, [0, 0, 1, 1, 3], [1, 1, 1, 1, 1])


@cases("classes", [None, 3])
def test_scores_of_the_whole_surrogate_agree_with_its_predictions(classes):
    model = two_scale(classes, np.random.default_rng(7))
    rows = np.vstack([np.ones(N), 1.0 - np.eye(N)])
    scores = model(rows)
    np.testing.assert_allclose(model.removal(), scores[0] - scores[1:], atol=1e-12)
    np.testing.assert_allclose(model.empty_score, model(np.zeros((1, N)))[0], atol=1e-12)
    np.testing.assert_allclose(model.shapley().sum(axis=0), scores[0] - model.empty_score, atol=1e-12)
    plain = TwoScale(
        model.far, model.near.level, model.near.changes, model.near.shares, model.near.power, model.pairs, model.effects
    )
    np.testing.assert_allclose(scores - plain(rows), model.shifts(rows), atol=1e-12)


@cases("classes", [None, 3])
def test_files_copies_and_scales(classes):
    model = two_scale(classes, np.random.default_rng(8))
    rows = np.array([*product([0, 1], repeat=N)], dtype=float)
    loaded = from_dict(json.loads(json.dumps(model.to_dict())))
    for again in (loaded, pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
        np.testing.assert_array_equal(again(rows), model(rows))
        assert not again.shifts.offsets.flags.writeable
    old = model.to_dict()
    del old["shifts"]
    assert from_dict(old).shifts is None


@cases(
    ("change", "message"),
    [
        ({"units": [2]}, "one unit below 2"),
        ({"knots": [1]}, "one knot below 1"),
        ({"sizes": [0]}, "a size of at least 1"),
        ({"knots": [0, 0]}, "for each entry"),
        ({"offsets": [[1.0, 0.0]]}, "begin with 0"),
        ({"offsets": [[0.0]]}, "begin with 0"),
        ({"offsets": [[0.0, np.nan]]}, "offsets"),
    ],
)
def test_wrong_arguments_are_refused(change, message):
    with pytest.raises(InputError, match=message):
        Shifts(2, **({"units": [0], "knots": [0], "sizes": [1], "offsets": [[0.0, 1.0]]} | change))


def test_what_does_not_fit_is_refused():
    shifts = sample(None, np.random.default_rng(9))
    with pytest.raises(InputError, match="shifts must be those of 2 units"):
        TwoScale(Slalom([1.0, 2.0], [0.0, 0.0]), 0.0, [0.0, 0.0], [0.5, 0.5], 2, shifts=shifts)
    with pytest.raises(InputError, match="whole counts"):
        shifts.semivalue(Beta(1, 1), np.full(N, 0.5))
