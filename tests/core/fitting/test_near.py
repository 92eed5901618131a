"""The correction near the text: it finds what was planted, and any finite residuals give one or none."""

import numpy as np
import pytest

from slalom.core.fitting.near import _Solver, fit_near
from slalom.core.lengths import Lengths

N = 30


def rows(rng, near=300, far=300, n=N):
    """The whole text, far rows, then rows with 1 to 10 units removed; which rows are near."""
    keep = np.ones((1 + far + near, n), dtype=bool)
    for k in range(1, len(keep)):
        gone = rng.integers(1, 11) if k > far else rng.integers(11, n)
        keep[k, rng.choice(n, gone, replace=False)] = False
    return keep, np.arange(len(keep)) > far


@pytest.mark.parametrize("power", [2, 8, 32])
@pytest.mark.parametrize("classes", [None, 3])
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
    assert found.changes_se.shape == changes.shape


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
        inside.append(np.abs(found.changes - changes) <= 1.96 * found.changes_se)
        wide.append(np.median(found.changes_se) / np.median(np.abs(found.changes - changes)))
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


@pytest.mark.parametrize("scale", [0.0, 1e-300, 1e-150, 1.0, 1e150, 1e300])
@pytest.mark.parametrize("pattern", ["noise", "one", "constant"])
def test_any_finite_residuals_give_a_finite_correction_or_none(scale, pattern):
    rng = np.random.default_rng(5)
    keep, near = rows(rng, near=30, far=20)
    residual = {"noise": rng.normal(size=len(keep)), "one": np.eye(len(keep))[7], "constant": np.ones(len(keep))}[pattern]
    found = fit_near(keep, scale * residual, near, scale * rng.normal(size=N), np.arange(N), np.ones(N, dtype=np.int64))
    if found is not None:
        for part in (found.offset, found.changes, found.changes_se):
            assert np.isfinite(part).all()


def test_the_scale_of_the_residuals_does_not_matter():
    rng = np.random.default_rng(6)
    keep, near = rows(rng, near=60, far=60)
    residual, rho = rng.normal(size=len(keep)), rng.normal(size=N)
    small, large = (
        fit_near(keep, c * residual, near, c * rho, np.arange(N), np.ones(N, dtype=np.int64)) for c in (1.0, 2.0**400)
    )
    np.testing.assert_allclose(large.changes / 2.0**400, small.changes, rtol=1e-9)
    np.testing.assert_allclose(large.changes_se / 2.0**400, small.changes_se, rtol=1e-9)


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


@pytest.mark.parametrize(("m", "n"), [(12, 40), (39, 40)])
def test_few_rows_are_solved_in_their_own_space_with_the_same_result(m, n):
    """Rows of zeros change nothing but the space in which it is solved."""
    rng = np.random.default_rng(m)
    design, target = rng.normal(size=(m, n)), rng.normal(size=(m, 2))
    few, many = _Solver(design, 0.01), _Solver(np.vstack([design, np.zeros((n, n))]), 0.01)
    assert (few.by_rows, many.by_rows) == (True, False)
    line, same = few(target), many(np.vstack([target, np.zeros((n, 2))]))
    np.testing.assert_allclose(line.slopes, same.slopes, rtol=1e-9)
    np.testing.assert_allclose(line.explained, same.explained, rtol=1e-9)
    assert few.log_det == pytest.approx(many.log_det)
    assert line.prior * target.size == pytest.approx(same.prior * (target.size + 2 * n))  # both are the misfit by the strength
