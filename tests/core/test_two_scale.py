"""The two-scale surrogate beyond the contract of surrogates: many units, high powers, wrong arguments."""

import copy
import pickle

import numpy as np
import pytest

from slalom.core import Beta, Slalom, TwoScale, two_scale
from slalom.core.measures import Point
from slalom.errors import InputError
from tests.cases import cases


def model(n, power, rng, shares=None, pairs=()):
    far = Slalom(rng.normal(size=n), rng.normal(size=n), (0.3, 0.5))
    shares = np.full(n, 1.0 / n) if shares is None else shares
    return TwoScale(far, rng.normal(), rng.normal(size=n), shares, power, pairs, rng.normal(size=len(pairs)))


@cases("power", [1, 2, 8, 32, 64])
@cases("n", [1, 2, 40, 300])
def test_shapley_values_sum_to_the_score(power, n):
    rng = np.random.default_rng([power, n])
    surrogate = model(n, power, rng, rng.dirichlet(np.ones(n)), [(0, n - 1)])
    gain = surrogate(np.ones((1, n)))[0] - surrogate.empty_score
    np.testing.assert_allclose(surrogate.shapley().sum(), gain, atol=1e-11 * n)


@cases("power", [2, 32, 64])
def test_semivalues_of_many_units_are_those_of_sampled_coalitions(power):
    """With equal shares x depends on the number of units alone: the expectation is a sum over binomial numbers."""
    n, rng = 60, np.random.default_rng(power)
    surrogate = model(n, power, rng)
    near = surrogate.near
    q = 0.9
    k = np.arange(n)  # how many of the others are present
    log_binomial = np.array([np.sum(np.log(np.arange(n - 1, n - 1 - j, -1))) - np.sum(np.log(np.arange(1, j + 1))) for j in k])
    chance = np.exp(log_binomial + k * np.log(q) + (n - 1 - k) * np.log(1 - q))
    d = near.changes
    others = d.sum() - d
    inside = others[:, None] * k / (n - 1)  # the expected sum of d over the k present others
    gain = ((k + 1) / n) ** power * (near.level - inside - d[:, None]) - (k / n) ** power * (near.level - inside)
    expected = gain @ chance + surrogate.far.semivalue(Point(q))
    np.testing.assert_allclose(surrogate.semivalue(Point(q)), expected, atol=1e-11)


def test_the_correction_is_what_its_docstring_says():
    rng = np.random.default_rng(0)
    n, power = 7, 5
    surrogate = model(n, power, rng)
    keep = rng.integers(0, 2, (50, n))
    near = surrogate.near
    removed = (1 - keep) @ near.changes
    expected = surrogate.far(keep) + keep.mean(axis=1) ** power * (near.offset + removed)
    np.testing.assert_allclose(surrogate(keep), expected, atol=1e-13)


def test_a_unit_without_a_share_is_possible():
    surrogate = TwoScale(Slalom([1.0, 2.0], [0.0, 0.0], (0.0, 0.0)), 0.5, [0.1, 0.2], [0.0, 0.0], 3)
    np.testing.assert_allclose(surrogate.shapley(), surrogate.far.shapley(), atol=1e-14)
    assert surrogate.semivalue(Beta(2, 1), [0, 0]).tolist() == [0.0, 0.0]


def test_copies_are_read_only():
    surrogate = model(4, 2, np.random.default_rng(1), pairs=[(0, 1)])
    for again in (pickle.loads(pickle.dumps(surrogate)), copy.deepcopy(surrogate)):
        for array in (again.near.changes, again.near.shares, again.pairs, again.effects, again.values):
            assert not array.flags.writeable
        np.testing.assert_array_equal(again(np.ones((1, 4))), surrogate(np.ones((1, 4))))


@cases(
    ("change", "message"),
    [
        ({"level": [1.0, 2.0]}, "level, changes and shares must have the shapes"),
        ({"changes": [1.0]}, "level, changes and shares must have the shapes"),
        ({"shares": [1.0, -1.0]}, "shares must not be negative"),
        ({"power": 0}, "power must be"),
        ({"power": 65}, "power must be at most 64"),
        ({"pairs": [(0, 2)], "effects": [1.0]}, "indices of 2 units"),
        ({"pairs": [(0, 1)], "effects": [1.0, 2.0]}, "with one effect each"),
        ({"changes": [np.nan, 1.0]}, "changes"),
    ],
)
def test_wrong_parameters_are_refused(change, message):
    arguments = {"level": 0.0, "changes": [0.0, 0.0], "shares": [0.5, 0.5], "power": 2} | change
    with pytest.raises(InputError, match=message):
        TwoScale(Slalom([1.0, 2.0], [0.0, 0.0]), **arguments)


def test_many_classes_are_taken_in_parts_that_fit_into_memory(monkeypatch):
    rng = np.random.default_rng(5)
    n, classes = 6, 7
    far = Slalom(rng.normal(size=(n, classes)), rng.normal(size=n), (np.zeros(classes), 0.0))
    surrogate = TwoScale(far, rng.normal(size=classes), rng.normal(size=(n, classes)), rng.dirichlet(np.ones(n)), 4)
    whole = surrogate.shapley()
    largest, terms = [], two_scale.Near._terms
    monkeypatch.setattr(two_scale, "_TERMS", 1000)
    monkeypatch.setattr(two_scale.Near, "_terms", lambda *args: (found := terms(*args), largest.append(found.pull.size))[0])
    np.testing.assert_allclose(surrogate.shapley(), whole, rtol=0, atol=1e-13)
    assert len(largest) > 1
    assert max(largest) <= 1000


def test_merged_units_are_one_pair_however_many_of_their_parts_are():
    rng = np.random.default_rng(4)
    surrogate = model(5, 3, rng, pairs=[(0, 3), (1, 4), (0, 1), (2, 3)])
    merged = surrogate.merged([0, 0, 1, 2, 2])  # the first two pairs are of the first group and the last
    first, second, within, third = surrogate.effects
    assert dict(zip(map(tuple, merged.pairs.tolist()), merged.effects, strict=True)) == {
        (0, 2): first + second, (0, 0): within, (1, 2): third
    }  # fmt: skip
    for counts in ([1, 1, 1], [1, 0, 1], [0, 1, 1]):
        parts = np.array(counts)[[0, 0, 1, 2, 2]]
        np.testing.assert_allclose(merged(np.array([counts])), surrogate(parts[None]), atol=1e-12)
