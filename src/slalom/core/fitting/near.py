"""What a surrogate of all sizes misses next to the whole text, fitted to its residuals.

    e = x^p (r_0 + sum_{i removed} d_i) + b(l) + noise,        d_i ~ N(alpha rho_i, tau^2)

e is the residual of the surrogate, x the share of the text that is kept, r_0 the residual at the whole text, so that the text
itself is met exactly, and b an offset by the length. rho_i is the surrogate's own change by the removal of unit i: where a
score saturates at the whole text, all these changes are too large by the same factor, and alpha is near -1.

d is fitted to the rows near the text; tau and the noise maximise the evidence (`_evidence.ridge`). The power p maximises that
evidence plus the log likelihood of the far rows, on which the correction must not harm the surrogate.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert

from slalom.core.checks import Floats
from slalom.core.fitting._arrays.backend import NumpyBackend
from slalom.core.fitting._evidence.errors import MAX_SHRINKAGE
from slalom.core.fitting._evidence.ridge import Ridge, ridge
from slalom.core.lengths import Lengths, fit_lengths

_POWERS = (2, 8, 32)
_ROUNDS = 3  # alternations of changes and length offsets
_LEAST_ROWS = 8


class NearFit(NamedTuple):
    """The correction next to the whole text.

    Attributes:
        offset: r_0, () or (n_classes,).
        changes: d (n,) or (n, n_classes).
        power: p.
        lengths: b; None where there is none.
        changes_se: Standard errors of d, of the same shape.
    """

    offset: Floats
    changes: Floats
    power: int
    lengths: Lengths | None
    changes_se: Floats


def fit_near(
    keep: NDArray[np.bool_],
    residual: Floats,
    near: NDArray[np.bool_],
    rho: Floats,
    types: NDArray[np.int64],
    sizes: NDArray[np.int64],
) -> NearFit | None:
    """Fit the correction to the residuals of a surrogate.

    Args:
        keep: Presence of units (m, n); row 0 is the whole text.
        residual: What the surrogate leaves unexplained, (m,) or (m, n_classes).
        near: Which rows (m,) are near the text; the others are far from it.
        rho: The surrogate's change by the removal of each unit, (n,) or (n, n_classes).
        types: Parameter of each unit (n,); units of one type share their d.
        sizes: Number of atoms of each unit (n,).

    Returns:
        The correction; None where too few rows are near.
    """
    several = residual.ndim == 2
    basis = helmert(residual.shape[1]).T if several else np.ones((1, 1))  # (C, K), orthonormal
    e, own = (part.reshape(len(part), -1) @ basis for part in (residual, rho))
    near = near & (np.arange(len(near)) > 0)
    if near.sum() < _LEAST_ROWS:
        return None
    atoms, longest = keep @ sizes, int(sizes.sum())
    rows = _Rows(atoms / longest, (~keep).astype(np.float64), near, types, own)
    lengths: Lengths | None = None
    best = max((rows.corrected(e, power) for power in _POWERS), key=lambda fit: fit.log_probability)
    for _ in range(_ROUNDS):
        offsets = fit_lengths(atoms[near], (e - rows.correction(best))[near], longest)
        if offsets is None:
            break
        lengths, best = offsets, rows.corrected(e - offsets(atoms), best.power)
    if lengths is not None:
        lengths = Lengths(lengths.offsets @ basis.T if several else lengths.offsets[:, 0])
    offset, changes = best.offset @ basis.T, best.changes @ basis.T
    errors = np.outer(best.errors, np.sqrt((basis**2).sum(axis=1)))
    if not several:
        offset, changes, errors = offset[0], changes[:, 0], errors[:, 0]
    return NearFit(np.asarray(offset), changes, best.power, lengths, errors)


class _Correction(NamedTuple):
    """r_0 (K,), d (n, K) and its errors (n,) at one power, and the log probability of all rows."""

    power: int
    offset: Floats
    changes: Floats
    errors: Floats
    log_probability: float


class _Rows(NamedTuple):
    """Share kept (m,), which units are gone (m, n), which rows are near (m,); types (n,) and rho (n, K) of the units."""

    kept: Floats
    gone: Floats
    near: NDArray[np.bool_]
    types: NDArray[np.int64]
    rho: Floats

    def corrected(self, e: Floats, power: int) -> _Correction:
        """Return the correction of residuals (m, K) at a power."""
        fade, near, offset = self.kept[:, None] ** power, self.near, e[0]
        left = (e - fade * offset)[near]
        own = (fade * (self.gone @ self.rho))[near]
        square = (own**2).sum(axis=0)
        alpha = (own * left).sum(axis=0) / np.where(square > 0.0, square, np.inf)
        n_types = int(self.types.max()) + 1
        design = self.gone[near] if n_types == len(self.types) else self.gone[near] @ np.eye(n_types)[self.types]
        line: Ridge = ridge(fade[near] * design, left - alpha * own, np.ones(len(left)), NumpyBackend(), intercept=False)
        changes = alpha * self.rho + line.slopes[self.types]
        errors = _with_shrinkage(line)[self.types]
        trial = _Correction(power, offset, changes, errors, line.evidence)
        far = ~near & (np.arange(len(near)) > 0)
        noise = float((e[far] ** 2).mean()) if far.any() else 0.0
        if noise:
            misfit = float(((e - self.correction(trial))[far] ** 2).sum()) / noise
            trial = trial._replace(log_probability=line.evidence - 0.5 * misfit)
        return trial

    def correction(self, fit: _Correction) -> Floats:
        """Return x^p (r_0 + sum d) of all rows (m, K)."""
        return self.kept[:, None] ** fit.power * (fit.offset + self.gone @ fit.changes)


def _with_shrinkage(line: Ridge) -> Floats:
    """Return standard errors (n,) of slopes that allow for their shrinkage by the prior, as `_evidence.errors` does."""
    unknown = np.clip(1.0 - line.explained, 0.0, 1.0)
    share = np.minimum(unknown, MAX_SHRINKAGE)
    deviation = np.sqrt((line.slopes**2).mean(axis=1))
    return np.asarray(np.hypot(np.sqrt(line.prior * unknown), deviation * share / (1.0 - share)))
