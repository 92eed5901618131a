"""The correction near the text: it finds what was planted, and any finite residuals give one or none."""

import numpy as np
import pytest

from slalom.core.fitting._evidence.process import Process, search
from slalom.core.fitting.near import fit_near
from slalom.core.lengths import Lengths
from slalom.core.two_scale import Near
from tests.cases import cases

N = 30


def rows(rng, near=300, far=300, n=N):
    """The whole text, far rows, then rows with 1 to 10 units removed; which rows are near."""
    keep = np.ones((1 + far + near, n), dtype=bool)
    for k in range(1, len(keep)):
        gone = rng.integers(1, 11) if k > far else rng.integers(11, n)
        keep[k, rng.choice(n, gone, replace=False)] = False
    return keep, np.arange(len(keep)) > far


@cases("power", [2, 8, 32])
@cases("classes", [None, 3])
def test_a_planted_correction_is_found(power, classes):
    rng = np.random.default_rng(power)
    n = 4 * power + 20  # high powers are for long texts
    keep, near = rows(rng, near=3 * n, n=n)
    shape = () if classes is None else (classes,)
    offset, changes = rng.normal(size=shape), rng.normal(size=(n, *shape))
    if classes:
        offset, changes = offset - offset.mean(), changes - changes.mean(axis=1, keepdims=True)
    fade = keep.mean(axis=1) ** power
    residual = ((offset + (~keep).astype(float) @ changes).T * fade).T
    found = fit_near(keep, residual, near, np.ones((n, *shape)), np.arange(n), np.ones(n, dtype=np.int64))
    assert found.power == power
    np.testing.assert_allclose(found.offset, offset, atol=1e-2)  # a small part may be an offset by the length
    np.testing.assert_allclose(found.changes, changes, atol=1e-2)
    assert found.removal_se.shape == changes.shape


def test_the_whole_text_is_met_exactly_with_length_offsets():
    rng = np.random.default_rng(1)
    keep, near = rows(rng)
    lengths = keep.sum(axis=1)
    residual = 0.4 + 0.2 * np.sin(3.0 * lengths) + 0.01 * rng.normal(size=len(keep))
    found = fit_near(keep, residual, near, rng.normal(size=N), np.arange(N), np.ones(N, dtype=np.int64))
    assert isinstance(found.lengths, Lengths)
    assert found.offset + found.lengths.offsets[-1] == pytest.approx(residual[0], abs=1e-12)


def test_saturated_changes_are_scaled_down_together():
    """Where the surrogate's own changes are ten times too large, the correction takes nine tenths of each off."""
    rng = np.random.default_rng(2)
    keep, near = rows(rng, near=40)
    rho = rng.normal(size=N)
    residual = keep.mean(axis=1) ** 2 * (-0.9 * ((~keep) @ rho))
    found = fit_near(keep, residual, near, rho, np.arange(N), np.ones(N, dtype=np.int64))
    np.testing.assert_allclose(found.changes, -0.9 * rho, atol=1e-6)


def test_a_change_that_all_units_share_is_found_from_few_rows():
    """With fewer rows than units, an unseen unit gets the mean change and not 0."""
    rng = np.random.default_rng(3)
    keep, near = rows(rng, near=12)
    residual = keep.mean(axis=1) ** 2 * (-0.7 * (~keep).sum(axis=1))
    found = fit_near(keep, residual, near, rng.normal(size=N), np.arange(N), np.ones(N, dtype=np.int64))
    np.testing.assert_allclose(found.changes, -0.7, atol=1e-6)


def test_intervals_contain_the_planted_changes():
    inside, wide = [], []
    for seed in range(40):
        rng = np.random.default_rng([3, seed])
        keep, near = rows(rng, near=150)
        changes = rng.normal(size=N) * 0.3
        residual = keep.mean(axis=1) ** 2 * ((~keep) @ changes) + 0.3 * rng.normal(size=len(keep)) * (keep.mean(axis=1) < 1)
        found = fit_near(keep, residual, near, np.zeros(N), np.arange(N), np.ones(N, dtype=np.int64))
        inside.append(np.abs(found.changes - changes) <= 1.96 * found.removal_se)
        wide.append(np.median(found.removal_se) / np.median(np.abs(found.changes - changes)))
    assert 0.9 <= np.mean(inside) <= 0.985
    assert np.mean(wide) < 2.5  # the median error of a normal variable is 0.67 standard errors


def test_units_of_one_type_share_their_change():
    rng = np.random.default_rng(4)
    keep, near = rows(rng)
    types = np.arange(N) // 2
    changes = rng.normal(size=N // 2)[types]
    residual = keep.mean(axis=1) ** 2 * ((~keep) @ changes)
    found = fit_near(keep, residual, near, np.zeros(N), types, np.ones(N, dtype=np.int64))
    np.testing.assert_array_equal(found.changes[::2], found.changes[1::2])
    np.testing.assert_allclose(found.changes, changes, atol=1e-4)


@cases("scale", [0.0, 1e-300, 1e-150, 1.0, 1e150])
@cases("pattern", ["noise", "one", "constant"])
def test_any_finite_residuals_give_a_finite_correction_or_none(scale, pattern):
    rng = np.random.default_rng(5)
    keep, near = rows(rng, near=30, far=20)
    residual = {"noise": rng.normal(size=len(keep)), "one": np.eye(len(keep))[7], "constant": np.ones(len(keep))}[pattern]
    found = fit_near(keep, scale * residual, near, scale * rng.normal(size=N), np.arange(N), np.ones(N, dtype=np.int64))
    if found is not None:
        for part in (found.offset, found.changes, found.removal_se):
            assert np.isfinite(part).all()


def test_the_scale_of_the_residuals_does_not_matter():
    rng = np.random.default_rng(6)
    keep, near = rows(rng, near=60, far=60)
    residual, rho = rng.normal(size=len(keep)), rng.normal(size=N)
    small, large = (
        fit_near(keep, c * residual, near, c * rho, np.arange(N), np.ones(N, dtype=np.int64)) for c in (1.0, 2.0**200)
    )
    np.testing.assert_allclose(large.changes / 2.0**200, small.changes, rtol=1e-9)
    np.testing.assert_allclose(large.removal_se / 2.0**200, small.removal_se, rtol=1e-9)


def test_too_few_near_rows_give_none():
    keep = np.ones((5, N), dtype=bool)
    assert fit_near(keep, np.ones(5), np.ones(5, dtype=bool), np.ones(N), np.arange(N), np.ones(N, dtype=np.int64)) is None


def test_short_texts_do_not_extrapolate_to_single_removals():
    """Rows with two or three of seven units removed must not decide the rest by a power that is nearly zero on them."""
    rng = np.random.default_rng(7)
    keep = np.ones((30, 7), dtype=bool)
    for row in keep[1:]:
        row[rng.choice(7, rng.integers(2, 4), replace=False)] = False
    rho = np.array([0.0, 2.4, 0.0, -2.5, 0.0, 0.04, 0.0])
    residual = 0.1 * rng.normal(size=30)
    residual[0] = 0.0
    found = fit_near(keep, residual, np.arange(30) > 0, rho, np.arange(7), np.ones(7, dtype=np.int64))
    assert found.power == 2
    assert np.abs(found.changes).max() < 1.0


def variances(process, rows):
    return process.variance(process.coordinates(rows), (rows**2).sum(axis=1))


@cases(("m", "n"), [(12, 40), (39, 40)])
def test_few_rows_are_solved_in_their_own_space_with_the_same_result(m, n):
    """Rows of zeros change nothing but the space in which it is solved."""
    rng = np.random.default_rng(m)
    features, y, more = rng.normal(size=(m, n)), rng.normal(size=(m, 2)), rng.normal(size=(5, n))
    few, many = Process(features, y), Process(np.vstack([features, np.zeros((n, n))]), np.vstack([y, np.zeros((n, 2))]))
    np.testing.assert_allclose(few.weights, many.weights, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(few.noise * y.size, many.noise * (y.size + 2 * n))
    for process in (few, many):
        np.testing.assert_allclose(process.coordinates(np.eye(3, n)), process.coordinates_of_weights(3), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(variances(few, more) / few.noise, variances(many, more) / many.noise, rtol=1e-9)
    np.testing.assert_allclose(np.append(few.free, np.ones(n)), many.free, rtol=1e-9)
    np.testing.assert_allclose(few.misfit(y), many.misfit(np.vstack([y, np.zeros((n, 2))]))[:m], rtol=1e-9)


def test_the_posterior_is_that_of_bayes_rule():
    """Mean and covariance of weights with a standard normal prior, and the density of the data as a Gaussian."""
    rng = np.random.default_rng(0)
    features, y, more = rng.normal(size=(30, 8)), rng.normal(size=(30, 1)), rng.normal(size=(4, 8))
    process = Process(features, y)
    precision = np.eye(8) + features.T @ features
    np.testing.assert_allclose(process.weights, np.linalg.solve(precision, features.T @ y), rtol=1e-10)
    np.testing.assert_allclose(
        variances(process, more), process.noise * np.diag(more @ np.linalg.solve(precision, more.T)), rtol=1e-10
    )
    covariance = np.eye(30) + features @ features.T
    assert process.noise == pytest.approx(float((y * np.linalg.solve(covariance, y)).sum()) / 30)
    expected = -0.5 * (np.linalg.slogdet(covariance)[1] + 30 * np.log(process.noise))
    assert process.evidence == pytest.approx(expected)
    inverse = np.linalg.inv(covariance)
    np.testing.assert_allclose(process.free, np.diag(inverse), rtol=1e-10)
    np.testing.assert_allclose(process.misfit(y), (inverse @ y)[:, 0] ** 2 / np.diag(inverse), rtol=1e-9)


def test_ratios_maximise_the_evidence():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=(60, 20)), rng.normal(size=(60, 5))
    y = first @ rng.normal(size=(20, 1)) * 0.7 + second @ rng.normal(size=(5, 1)) * 2.0 + rng.normal(size=(60, 1))

    def evidence(ratios):
        return Process(np.hstack([np.sqrt(r) * part for r, part in zip(ratios, (first, second), strict=True)]), y).evidence

    found = search([first, second], y, np.array([0.3, 0.3]))
    best = evidence(found.ratios)
    for factor in ([1.2, 1.0], [0.8, 1.0], [1.0, 1.4], [1.0, 0.7]):
        assert evidence(found.ratios * factor) < best + 0.01
    assert found.evidence - search([first, second], y, np.array([5.0, 0.01])).evidence == pytest.approx(0.0, abs=0.1)


def shifted(keep, sizes, place):
    """What it does that a unit, read at another place, has another score."""
    missing = (~keep[:, :place]) @ sizes[:place]
    return np.array([0.0, 0.8, -0.5, 0.6, -0.9, 0.4, -0.2, *np.zeros(200)])[missing]


@cases("classes", [None, 3])
@cases("weighted", [False, True])
def test_the_effect_of_a_shift_is_found(classes, weighted):
    rng = np.random.default_rng(8)
    n = 60
    keep, near = rows(rng, near=400, far=100, n=n)
    sizes = rng.integers(1, 3, n)
    changes, factor = rng.normal(size=n), np.ones(1) if classes is None else np.array([1.0, -1.0, 0.0])
    close = keep.mean(axis=1) ** 2 * ((~keep) @ changes) + shifted(keep, sizes, 40) * near
    residual = np.outer(close + 0.05 * rng.normal(size=len(keep)) * (np.arange(len(keep)) > 0), factor)
    residual = residual[:, 0] if classes is None else residual
    weights = np.ones(len(keep)) if weighted else None
    rho = np.zeros((n,) if classes is None else (n, classes))
    found = fit_near(keep, residual, near, rho, np.arange(n), sizes, weights)
    assert found.shifts is not None
    new, close = rows(rng, near=300, far=1, n=n)
    new = new[close]
    part = found.shifts(new.astype(float)).reshape(len(new), -1)[:, 0]
    part -= part.mean()
    expected = shifted(new, sizes, 40)
    expected -= expected.mean()
    assert np.corrcoef(part, expected)[0, 1] > 0.8
    removed = new.mean(axis=1) ** found.power * ((~new) @ found.changes.reshape(n, -1)[:, 0] + np.ravel(found.offset)[0])
    lengths = 0.0 if found.lengths is None else found.lengths(new @ sizes).reshape(len(new), -1)[:, 0]
    truth = new.mean(axis=1) ** 2 * ((~new) @ changes) + shifted(new, sizes, 40)
    left = truth - removed - lengths - found.shifts(new.astype(float)).reshape(len(new), -1)[:, 0]
    assert np.var(left) < 0.15 * np.var(truth - removed)
    far = found.shifts((rng.random((50, n)) < 0.3).astype(float))
    assert np.abs(far).max() < 0.5 * np.abs(expected).max()  # far from the text only the first knots are left


def test_scores_without_places_get_no_shifts():
    count = 0
    for seed in range(20):
        rng = np.random.default_rng([9, seed])
        keep, near = rows(rng, near=200, far=50)
        changes = rng.normal(size=N)
        residual = keep.mean(axis=1) ** 2 * ((~keep) @ changes) + 0.3 * rng.normal(size=len(keep))
        residual[0] = 0.0
        found = fit_near(keep, residual, near, np.zeros(N), np.arange(N), np.ones(N, dtype=np.int64))
        count += found.shifts is not None
    assert count <= 1


def test_errors_of_removals_hold_with_shifts():
    inside = []
    for seed in range(12):
        rng = np.random.default_rng([10, seed])
        n = 40
        keep, near = rows(rng, near=200, far=30, n=n)
        changes, sizes = rng.normal(size=n) * 0.3, np.ones(n, dtype=np.int64)
        steps = 0.5 * rng.normal(size=12)
        steps[0] = 0.0

        def truth(keep, steps=steps, changes=changes):
            missing = (~keep[:, :25]).sum(axis=1).clip(max=11)
            return keep.mean(axis=1) ** 2 * ((~keep) @ changes) + steps[missing]

        residual = truth(keep) + 0.1 * rng.normal(size=len(keep))
        residual[0] = 0.0
        found = fit_near(keep, residual, near, np.zeros(n), np.arange(n), sizes)
        single = ~np.eye(n, dtype=bool)
        predicted = (1 - 1 / n) ** found.power * (found.offset + found.changes)
        predicted = predicted + (0.0 if found.shifts is None else found.shifts(single.astype(float)))
        predicted = predicted + (0.0 if found.lengths is None else found.lengths(np.full(n, n - 1)))
        inside.append(np.abs(predicted - truth(single)) <= 1.96 * found.removal_se)
    assert 0.88 <= np.mean(inside) <= 0.99


@cases("noisy", [False, True])
def test_errors_of_gradients_hold_for_long_units(noisy):
    """A gradient is p t_i r_0 - d_i: d does not fade as in a removal, and r_0 has an error where the text's score has one."""
    sizes = np.ones(N, dtype=np.int64)
    sizes[:3] = 12
    shares, inside, by_removal = sizes / sizes.sum(), [], []
    for seed in range(40):
        rng = np.random.default_rng([7, seed])
        keep, near = rows(rng, near=200, far=100)
        changes, noise = 0.3 * rng.normal(size=N), 0.3 * rng.normal(size=len(keep))
        noise[0] *= noisy
        residual = (keep @ shares) ** 2 * (1.0 + (~keep) @ changes) + noise
        weights = np.ones(len(keep)) if noisy else None
        found = fit_near(keep, residual, near, rng.normal(size=N), np.arange(N), sizes, weights)
        slopes = (
            Near(offset + d.sum(), d, shares, power).gradient(np.ones(N))
            for offset, d, power in ((found.offset, found.changes, found.power), (1.0, changes, 2))
        )
        apart = np.abs(next(slopes) - next(slopes))[:3]
        inside.append(apart <= 1.96 * found.gradient_se[:3])
        by_removal.append(apart <= 1.96 * found.removal_se[:3])
    assert 0.9 <= np.mean(inside) <= 0.985
    assert np.mean(by_removal) < np.mean(inside) - 0.04
