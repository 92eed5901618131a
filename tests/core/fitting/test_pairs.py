"""Pairs of units: a planted one is found, none is found where there is none, and effects are those planted."""

import numpy as np

from slalom.core.fitting.pairs import _Candidates, find_pairs, pair_effects
from tests.cases import cases


def subsets(rng, m=600, n=40):
    return rng.random((m, n)) < rng.uniform(0.1, 0.9, (m, 1))


@cases("classes", [None, 3])
def test_planted_pairs_are_found_with_their_effects(classes):
    rng = np.random.default_rng(0)
    keep = subsets(rng)
    shape = () if classes is None else (classes,)
    f = keep - keep.mean(axis=1, keepdims=True)
    effects = np.array([2.0, -1.0]).reshape(2, *[1] * len(shape)) * (np.ones(shape) if classes is None else [1.0, -0.5, -0.5])
    residual = np.multiply.outer(f[:, 3] * f[:, 17], effects[0]) + np.multiply.outer(f[:, 5] * f[:, 6], effects[1])
    residual = residual + 0.1 * rng.normal(size=residual.shape)
    found = find_pairs(keep, residual)
    assert found.units.tolist() == [[3, 17], [5, 6]]
    assert found.effects.shape == found.errors.shape == (2, *shape)
    assert (np.abs(found.effects - effects) < 4 * found.errors).all()
    np.testing.assert_allclose(
        found.predict(keep[:1])[0],
        sum(g for (i, j), g in zip(found.units, found.effects, strict=True) if keep[0, i] and keep[0, j]),
    )


def test_noise_has_no_pairs_whatever_its_variance():
    count = 0
    for seed in range(60):
        rng = np.random.default_rng([1, seed])
        keep = subsets(rng, m=300, n=30)
        count += len(find_pairs(keep, rng.normal(size=300) * np.exp(2.0 * keep.mean(axis=1))).units)
    assert count <= 1


def test_effects_are_those_of_weighted_least_squares():
    """With residuals of one variance for all sizes the weights are equal, and effects are those of numpy's lstsq."""
    rng = np.random.default_rng(2)
    keep = subsets(rng, m=19)  # too few rows for several variances
    residual = rng.normal(size=19)
    f = keep - keep.mean(axis=1, keepdims=True)
    design = np.stack([f[:, 0] * f[:, 1], f[:, 2] * f[:, 3]], axis=1)
    effects, errors = pair_effects(keep, residual, [(0, 1), (2, 3)])
    np.testing.assert_allclose(effects[:, 0], np.linalg.lstsq(design, residual)[0], atol=1e-12)
    left = residual - design @ effects[:, 0]
    inverse = np.linalg.inv(design.T @ design)
    robust = inverse @ (design.T * left**2) @ design @ inverse
    np.testing.assert_allclose(errors[:, 0], np.sqrt(np.diag(robust)), rtol=1e-10)


@cases("n", [12, 40])
def test_evidence_is_the_formula_at_the_first_look_and_afterwards(n):
    rng = np.random.default_rng(5)
    keep = subsets(rng, m=200, n=n)
    deviation = keep - keep.mean(axis=1, keepdims=True)
    candidates = _Candidates(deviation)
    assert len(candidates.pairs) == 0
    for seed in range(2):
        w, e = np.random.default_rng(seed).uniform(0.5, 1.0, 200), np.random.default_rng(seed).normal(size=(200, 2))
        found = candidates.evidence(w, e)
        f = deviation[:, candidates.pairs[:, 0]] * deviation[:, candidates.pairs[:, 1]]
        expected = sum((f.T @ (w * column)) ** 2 / (f.T**2 @ (w * column) ** 2) for column in e.T)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-4)
    assert len(found) == min(n * (n - 1) // 2, 256)
    assert (candidates.pairs[:, 0] < candidates.pairs[:, 1]).all()


def test_the_first_look_keeps_the_strongest_pairs():
    rng = np.random.default_rng(6)
    keep = subsets(rng)
    deviation = keep - keep.mean(axis=1, keepdims=True)
    candidates, e = _Candidates(deviation), rng.normal(size=(600, 1))
    kept = candidates.evidence(np.ones(600), e)
    f = np.einsum("mi,mj->ijm", deviation, deviation)
    of_all = (f @ e[:, 0]) ** 2 / (f**2 @ e[:, 0] ** 2)
    strongest = np.sort(of_all[np.triu_indices(40, 1)])[::-1][:256]
    np.testing.assert_allclose(np.sort(kept)[::-1], strongest, rtol=1e-2)


def test_a_search_ends_with_as_many_pairs_as_are_asked_for():
    rng = np.random.default_rng(7)
    keep = subsets(rng)
    f = keep - keep.mean(axis=1, keepdims=True)
    residual = sum((5 - k) * f[:, 2 * k] * f[:, 2 * k + 1] for k in range(5)) + 0.05 * rng.normal(size=600)
    found = find_pairs(keep, residual).units.tolist()
    assert sorted(found) == [[2 * k, 2 * k + 1] for k in range(5)]
    assert find_pairs(keep, residual, most=3).units.tolist() == found[:3]


def test_pairs_that_are_never_seen_apart_are_not_told():
    rng = np.random.default_rng(3)
    keep = subsets(rng)
    keep[:, 1] = keep[:, 0]
    f = keep - keep.mean(axis=1, keepdims=True)
    found = find_pairs(keep, f[:, 0] * f[:, 1] + 0.01 * rng.normal(size=len(keep)))
    assert [0, 1] not in found.units.tolist()


@cases("residual", [np.zeros(50), np.full(50, 1e-300), np.eye(50)[3], np.full(50, 1e140)])
def test_any_finite_residuals_give_finite_pairs(residual):
    keep = subsets(np.random.default_rng(4), m=50, n=12)
    found = find_pairs(keep, residual)
    assert np.isfinite(found.effects).all()
    assert np.isfinite(found.errors).all()
