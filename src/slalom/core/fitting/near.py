"""What a surrogate of all sizes misses next to the whole text, fitted to its residuals.

    e = x^p (r_0 + sum_{i removed} d_i) + b(l) + noise,        d_i ~ N(mu + alpha rho_i, tau^2 g_i^2)

e is the residual of the surrogate, x the share of the text that is kept, r_0 the residual at the whole text, so that the text
itself is met exactly, and b an offset by the length. rho_i is the surrogate's own change by the removal of unit i: where a
score saturates at the whole text, all these changes are too large by the same factor, and alpha is near -1. mu is what the
removal of any unit does. Units that matter to the surrogate are more likely to matter here: g_i^2 = (1 + |rho_i| / mean) / 2.

mu and alpha are fitted first, by least squares, then d to what they leave of the rows near the text; tau and the noise maximise
the evidence (`_evidence.ridge`). The power p maximises that evidence plus the log likelihood of the far rows, on which the
correction must not harm the surrogate.

Where scores have a noise of their own, rows have weights and the whole text is one of them: r_0 is then fitted together with d,
with a prior that is wide beside that of d, and has a standard error.
"""

from contextlib import suppress
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

from slalom.core.checks import Floats, exponent, times_power
from slalom.core.fitting._arrays.backend import NumpyBackend
from slalom.core.fitting._evidence.ridge import ridge
from slalom.core.fitting.problem import all_finite
from slalom.core.lengths import Lengths, fit_lengths

_POWERS = (8, 2, 32)  # the strength of the first serves all
_ROUNDS = 2  # alternations of changes and length offsets
_LEAST_ROWS = 8
_WIDE = 5.0  # prior standard deviation of r_0, in units of that of d, where it is not known exactly
_CLEAR = 2.0  # squared standard errors by which mu and alpha are shrunk where scores are noisy
_MAX_SHRINKAGE = 0.5  # share of a change that the standard errors take the prior to remove


class NearFit(NamedTuple):
    """The correction next to the whole text.

    Attributes:
        offset: r_0, () or (n_classes,).
        changes: d (n,) or (n, n_classes).
        power: p.
        lengths: b; None where there is none.
        changes_se: Standard errors of d, of the same shape.
        offset_se: Standard error of r_0, of the same shape; None where the text is met exactly.
        free: Share of the near rows that d leaves free.
        told: Share (n,) of each d that the near rows tell, from 0 to 1; the prior removes the rest.
    """

    offset: Floats
    changes: Floats
    power: int
    lengths: Lengths | None
    changes_se: Floats
    offset_se: Floats | None = None
    free: float = 1.0
    told: Floats | None = None

    def rescaled(self, power: int) -> "NearFit | None":
        """Return the correction of residuals that are 2**power times as large; None where it is not finite."""
        parts = [times_power(np.asarray(part), power) for part in (self.offset, self.changes, self.changes_se)]
        offsets = None if self.lengths is None else times_power(self.lengths.offsets, power)
        offset_se = None if self.offset_se is None else times_power(np.asarray(self.offset_se), power)
        if not all_finite(*parts, offsets, offset_se):
            return None
        slope_se = (
            None if self.lengths is None or self.lengths.slope_se is None else float(np.ldexp(self.lengths.slope_se, power))
        )
        lengths = None if offsets is None else Lengths(offsets, slope_se)
        return NearFit(parts[0], parts[1], self.power, lengths, parts[2], offset_se, self.free, self.told)


def fit_near(
    keep: NDArray[np.bool_],
    residual: Floats,
    near: NDArray[np.bool_],
    rho: Floats,
    types: NDArray[np.int64],
    sizes: NDArray[np.int64],
    weights: Floats | None = None,
) -> NearFit | None:
    """Fit the correction to the residuals of a surrogate.

    Args:
        keep: Presence of units (m, n); row 0 is the whole text.
        residual: What the surrogate leaves unexplained, (m,) or (m, n_classes).
        near: Which rows (m,) are near the text; the others are far from it.
        rho: The surrogate's change by the removal of each unit, (n,) or (n, n_classes).
        types: Parameter of each unit (n,); units of one type share their d.
        sizes: Number of atoms of each unit (n,).
        weights: Weights (m,) of the rows, above 0, in inverse proportion to their noise; that of the whole text may be far
            above the others. Default: the text is met exactly, the other rows are alike.

    Returns:
        The correction; None where too few rows are near, or the residuals are beyond what can be fitted.
    """
    power = exponent(residual)
    with suppress(ArithmeticError, np.linalg.LinAlgError), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        fit = _fit(keep, times_power(residual, -power), near, times_power(rho, -power), types, sizes, weights)
        return None if fit is None else fit.rescaled(power)
    return None


def _fit(
    keep: NDArray[np.bool_],
    residual: Floats,
    near: NDArray[np.bool_],
    rho: Floats,
    types: NDArray[np.int64],
    sizes: NDArray[np.int64],
    weights: Floats | None,
) -> NearFit | None:
    several = residual.ndim == 2
    basis = helmert(residual.shape[1]).T if several else np.ones((1, 1))  # (C, K), orthonormal
    e, own = (part.reshape(len(part), -1) @ basis for part in (residual, rho))
    near = near & (np.arange(len(near)) > 0)
    if near.sum() < _LEAST_ROWS:
        return None
    gone, longest = (~keep).astype(np.float64), int(sizes.sum())
    atoms = longest - (gone @ sizes.astype(np.float64)).astype(np.int64)  # integers are multiplied without BLAS
    rows = _Rows(atoms / longest, gone, near, types, own, weights)
    lengths: Lengths | None = None
    # A power must not fade so fast that rows of a few removals say nothing about single ones.
    powers = [power for power in _POWERS if power == min(_POWERS) or 4 * power <= keep.shape[1]]
    first = rows.corrected(e, powers[0])
    power = max((rows.corrected(e, power, first.strength) for power in powers), key=lambda fit: fit.log_probability).power
    best = first if power == first.power else rows.corrected(e, power)
    strength = best.strength
    for _ in range(_ROUNDS):
        offsets = fit_lengths(
            atoms[near], (e - rows.correction(best))[near], longest, None if weights is None else weights[near]
        )
        if offsets is None:
            break
        lengths, best = offsets, rows.corrected(e - offsets(atoms), power, strength)
    if lengths is not None:
        lengths = Lengths(lengths.offsets @ basis.T if several else lengths.offsets[:, 0], lengths.slope_se)
    offset, changes = best.offset @ basis.T, best.changes @ basis.T
    errors = np.outer(best.errors, np.sqrt((basis**2).sum(axis=1)))
    offset_se = None if best.offset_error is None else best.offset_error * np.sqrt((basis**2).sum(axis=1))
    if not several:
        offset, changes, errors = offset[0], changes[:, 0], errors[:, 0]
        offset_se = None if offset_se is None else offset_se[0]
    return NearFit(np.asarray(offset), changes, best.power, lengths, errors, offset_se, best.free, best.told)


class _Correction(NamedTuple):
    """r_0 (K,), d (n, K) and its errors (n,) at one power.

    strength is that of the ridge regression relative to the design's size, log_probability that of all rows, free the share of
    the near rows that d leaves free, offset_error that of r_0 where it is fitted, told the share (n,) of d that the rows tell.
    """

    power: int
    offset: Floats
    changes: Floats
    errors: Floats
    strength: float
    log_probability: float
    free: float
    offset_error: float | None
    told: Floats


class _Rows:
    """The rows: the share kept (m,), which units are gone (m, n) and which rows are near (m,); rho (n, K) of the units.

    With weights (m,) the whole text is one of the fitted rows, and r_0 the first column of the design.
    """

    def __init__(
        self,
        kept: Floats,
        gone: Floats,
        near: NDArray[np.bool_],
        types: NDArray[np.int64],
        rho: Floats,
        weights: Floats | None = None,
    ) -> None:
        self.kept, self.gone, self.near, self.types, self.rho = kept[:, None], gone, near, types, rho
        self.far = ~near & (np.arange(len(near)) > 0)
        self.weights = weights
        self.fitted = near if weights is None else near | (np.arange(len(near)) == 0)
        self.own, self.number = (gone @ rho)[self.fitted], gone[self.fitted].sum(axis=1)
        n_types = int(types.max()) + 1
        self.design = gone[self.fitted] if n_types == len(types) else gone[self.fitted] @ np.eye(n_types)[types]
        if weights is not None:
            self.root = np.sqrt(weights[self.fitted] / weights[near].mean())[:, None]
            self.design = np.concatenate([np.full((len(self.design), 1), _WIDE), self.design], axis=1)
        self.scale = _prior_scale(rho, types)
        self.design[:, -n_types:] *= self.scale
        self.solvers = dict[tuple[int, float], _Solver]()

    def corrected(self, e: Floats, power: int, strength: float | None = None) -> _Correction:
        """Return the correction of residuals (m, K) at a power; a known strength saves the search for one."""
        fade, offset = self.kept[self.fitted] ** power, e[0]
        if self.weights is None:
            left = e[self.fitted] - fade * offset
        else:
            fade = self.root * fade
            left = self.root * e[self.fitted]
        target, common, variance = self._common(fade, left)
        if strength is None:
            design = fade * self.design
            found = ridge(design, target, np.ones(len(target)), NumpyBackend(), intercept=False)
            line = _Line(found.slopes, found.evidence, found.prior, found.explained)
            strength = found.noise / found.prior / (float((design**2).sum()) or 1.0)
        else:
            key = power, strength
            if key not in self.solvers:
                self.solvers[key] = _Solver(fade * self.design, strength)
            line = self.solvers[key](target)
        slopes, errors, offset_error, told = line.slopes, line.errors, None, np.clip(line.explained, 0.0, 1.0)
        if self.weights is not None:
            offset, slopes, offset_error, errors = _WIDE * slopes[0], slopes[1:], _WIDE * float(errors[0]), errors[1:]
            told = told[1:]
        changes = common + (slopes * self.scale[:, None])[self.types]
        errors = np.hypot((errors * self.scale)[self.types], np.sqrt(variance))
        free = 1.0 - min(float(line.explained.sum()) / len(target), 0.98)
        fit = _Correction(power, offset, changes, errors, strength, line.evidence, free, offset_error, told[self.types])
        weights = np.ones(1) if self.weights is None else self.weights[self.far][:, None]
        noise = float((weights * e[self.far] ** 2).mean()) if self.far.any() else 0.0
        if noise:
            misfit = float((weights * (e - self.correction(fit))[self.far] ** 2).sum()) / noise
            fit = fit._replace(log_probability=line.evidence - 0.5 * misfit)
        return fit

    def _common(self, fade: Floats, left: Floats) -> tuple[Floats, Floats, Floats]:
        """Return what mu + alpha rho leaves of the rows `left` (m, K), and this for each unit (n, K) with its variance (n,)."""
        target, common, variance = np.empty_like(left), np.empty_like(self.rho), np.zeros(len(self.rho))
        for k, rho in enumerate(self.rho.T):
            columns = fade * np.stack([self.number, self.own[:, k]], axis=1)
            slopes, covariance = _least_squares(columns, left[:, k], None if self.weights is None else fade)
            unit = np.stack([np.ones_like(rho), rho], axis=1)
            target[:, k], common[:, k] = left[:, k] - columns @ slopes, unit @ slopes
            variance = np.maximum(variance, ((unit @ covariance) * unit).sum(axis=1))
        return target, common, variance

    def correction(self, fit: _Correction) -> Floats:
        """Return x^p (r_0 + sum d) of all rows (m, K)."""
        return self.kept**fit.power * (fit.offset + self.gone @ fit.changes)


def _least_squares(x: Floats, y: Floats, beside: Floats | None) -> tuple[Floats, Floats]:
    """Return the slopes (q,) of y (m,) on columns x (m, q) and their covariance; columns that say the same share a slope.

    Beside a further column (m, 1), where scores are noisy, the slopes are shrunk towards 0 by their noise.
    """
    size = np.sqrt((x**2).sum(axis=0))
    x = x / np.where(size > 0.0, size, 1.0)
    if beside is not None:
        beside = beside / np.sqrt((beside**2).sum())
        x, y = x - beside @ (beside.T @ x), y - beside[:, 0] * float(beside[:, 0] @ y)
    inverse = np.linalg.pinv(x.T @ x, rcond=1e-10, hermitian=True)
    slopes = inverse @ (x.T @ y)
    left = y - x @ slopes
    noise = float(left @ left) / max(len(y) - x.shape[1] - int(beside is not None), 1)
    if beside is not None:
        along = x @ slopes
        slopes = slopes * max(1.0 - _CLEAR * x.shape[1] * noise / max(float(along @ along), 1e-300), 0.0)
    scale = np.where(size > 0.0, 1.0 / np.where(size > 0.0, size, 1.0), 0.0)
    return scale * slopes, noise * inverse * np.outer(scale, scale)


def _prior_scale(rho: Floats, types: NDArray[np.int64]) -> Floats:
    """Return g of each type: how large a change is before it is measured, beside that of others."""
    size = np.bincount(types, np.sqrt((rho**2).sum(axis=1))) / np.bincount(types)
    mean = float(size.mean())
    return np.sqrt(0.5 + 0.5 * size / mean) if mean > 0.0 else np.ones_like(size)


class _Line(NamedTuple):
    """Slopes (n, K) of a ridge regression, its log evidence, and the errors' ingredients as in `Ridge`."""

    slopes: Floats
    evidence: float
    prior: float
    explained: Floats

    @property
    def errors(self) -> Floats:
        """Standard errors (n,) that allow for the shrinkage by the prior, as in `_evidence.errors`."""
        unknown = np.clip(1.0 - self.explained, 0.0, 1.0)
        share = np.minimum(unknown, _MAX_SHRINKAGE)
        deviation = np.sqrt((self.slopes**2).mean(axis=1))
        return np.asarray(np.hypot(np.sqrt(self.prior * unknown), deviation * share / (1.0 - share)))


class _Solver:
    """Ridge regression through the origin, of a strength relative to the size of the design X (m, n).

    With fewer rows than units it works in the space of the rows: X'(XX' + strength)^-1 = (X'X + strength)^-1 X'.
    """

    def __init__(self, design: Floats, strength: float) -> None:
        m, n = design.shape
        self.design, self.by_rows = design, m < n
        gram = design @ design.T if self.by_rows else design.T @ design
        self.strength = strength * (float(np.trace(gram)) or 1.0)
        gram.flat[:: len(gram) + 1] += self.strength
        self.lower, failed = NumpyBackend().inverse_cholesky(gram)
        if failed:
            raise ArithmeticError("the normal equations near the text have no solution")
        self.log_det = -2.0 * float(np.log(np.diag(self.lower)).sum()) - len(gram) * np.log(self.strength)
        if self.by_rows:
            self.explained = ((self.lower @ design) ** 2).sum(axis=0)
        else:
            self.explained = 1.0 - self.strength * (self.lower**2).sum(axis=0)

    def __call__(self, target: Floats) -> _Line:
        """Return the regression of targets (m, K)."""
        power = float((target**2).sum())
        half = self.lower @ (target if self.by_rows else self.design.T @ target)
        left = self.strength * float((half**2).sum()) if self.by_rows else power - float((half**2).sum())
        misfit = max(left, 1e-24 * power + 1e-300)
        slopes = self.lower.T @ half
        evidence = -0.5 * (target.shape[1] * self.log_det + target.size * np.log(misfit))
        slopes = self.design.T @ slopes if self.by_rows else slopes
        return _Line(slopes, evidence, misfit / target.size / self.strength, self.explained)
