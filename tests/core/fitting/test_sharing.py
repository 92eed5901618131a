"""Units of one type are told apart where the scores say so, and only there."""

import numpy as np

from slalom.core import Joint, Slalom, fit
from slalom.core.fitting.sharing import told_apart
from tests.cases import cases

N, WORDS = 60, 40


def text(seed, own=0.0, m=500, classes=None):
    """Rows of a text whose units of one type are alike, but for a share of units of their own; and the fit of the types."""
    rng = np.random.default_rng([1, seed])
    types = np.unique(rng.integers(0, WORDS, N), return_inverse=True)[1]
    shape = (N,) if classes is None else (N, classes)
    values, importances = rng.normal(size=shape)[types], rng.normal(size=N)[types]
    differs = rng.random(N) < own
    values[differs], importances[differs] = rng.normal(size=shape)[differs], rng.normal(size=N)[differs]
    keep = rng.random((m, N)) < rng.random((m, 1)) ** 1.5
    scores = Slalom(values, importances, (np.zeros(shape[1:]), 1.0))(keep)
    scores = scores + 0.1 * scores.std() * rng.normal(size=scores.shape)
    return keep, types, scores


def parted(keep, types, scores, weights=None):
    """The types after those are told apart that differ."""
    weights = np.ones(len(keep)) if weights is None else weights
    counts = keep @ np.eye(types.max() + 1)[types]
    model = fit(counts, scores, Joint(), weights=weights).model
    return told_apart(keep, types, scores - model(counts), weights)


@cases("classes", [None, 3])
def test_equal_units_that_do_the_same_stay_together(classes):
    found = [parted(*text(seed, m=300, classes=classes)) for seed in range(10)]
    assert sum(types is not None for types in found) <= 1


@cases("classes", [None, 3])
def test_a_unit_that_differs_gets_a_type_of_its_own(classes):
    for seed in range(5):
        keep, types, scores = text(seed, m=1000, classes=classes)
        number = np.bincount(types)
        odd = int(np.flatnonzero(number[types] >= 3)[0])
        scores = scores + (3.0 * keep[:, odd] / (3.0 + keep.sum(axis=1))).reshape(-1, *[1] * (scores.ndim - 1)) * (
            1.0 if classes is None else np.array([1.0, -1.0, 0.0])
        )
        found = parted(keep, types, scores)
        assert np.bincount(found)[found[odd]] == 1
        others = np.arange(N) != odd
        same = found[:, None] == found
        assert (same == (types[:, None] == types))[np.ix_(others, others)].mean() > 0.99


def test_where_units_do_not_go_by_their_type_all_are_told_apart():
    for seed in range(5):
        keep, types, scores = text(seed, own=1.0)
        for _ in range(3):
            if len(np.unique(types)) < N:
                types = parted(keep, types, scores)
        assert len(np.unique(types)) == N


def test_the_size_of_scores_and_rows_without_a_weight_change_nothing():
    keep, types, scores = text(0, own=0.1, m=1000)
    counts = keep @ np.eye(types.max() + 1)[types]
    model, ones = fit(counts, scores, Joint()).model, np.ones(len(keep))
    residual = scores - model(counts)
    expected = told_apart(keep, types, residual, ones)
    assert len(np.unique(expected)) > len(np.unique(types))
    for scale in (1e-100, 1e100):
        np.testing.assert_array_equal(told_apart(keep, types, scale * residual, 7.0 * ones), expected)
    more = np.random.default_rng(0).random((50, N)) < 0.5
    found = told_apart(np.vstack([keep, more]), types, np.append(residual, 10.0 * np.ones(50)), np.append(ones, np.zeros(50)))
    np.testing.assert_array_equal(found, expected)


def test_nothing_is_told_apart_without_equal_units_or_without_residuals():
    keep, types, scores = text(0)
    assert told_apart(keep, types, 0.0 * scores, np.ones(len(keep))) is None
    assert told_apart(keep, np.arange(N), scores, np.ones(len(keep))) is None


@cases("scale", [5e-324, 1e-300, 1e-150, 1.0, 1e150])
@cases("pattern", ["noise", "one", "constant", "unit"])
@cases("weighted", [False, True])
def test_any_finite_residuals_give_types_or_none(scale, pattern, weighted):
    rng = np.random.default_rng(2)
    keep, types = rng.random((80, 30)) < 0.3, np.arange(30) % 7
    weights = 10.0 ** rng.uniform(-300, 0, 80) if weighted else np.ones(80)
    residual = {"noise": rng.normal(size=80), "one": np.eye(80)[7], "constant": np.ones(80), "unit": keep[:, 3] - 0.3}[pattern]
    found = told_apart(keep, types, scale * residual, weights)
    assert found is None or (found.shape == (30,) and set(found.tolist()) == set(range(found.max() + 1)))
    assert told_apart(np.zeros_like(keep), types, scale * residual, weights) is None
