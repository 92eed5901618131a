"""Whether units that look the same also do the same.

    e = sum_i p_i (d_i - mean of d over the units of the same type) + noise,        p_i = x_i / (1 + sum x),  d_i ~ N(0, tau^2)

Equal words mostly do the same wherever they stand, and a surrogate in which they share value and importance has fewer
parameters: with few queries it is much closer to the model. But words can depend on their neighbours, or on their place. e is
what such a surrogate leaves of the scores, x_i the presence of unit i, p_i its share of an attention that is equal for all: a
surrogate that explains differences by its attention would hide them in rows where a unit has little of it.

Units that differ get parameters of their own: those whose difference from their type correlates with e far beyond chance, and
those with a clear d where the d of all together raise the evidence (`_evidence.ridge`).
"""

from contextlib import suppress

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import helmert
from scipy.special import ndtri

from slalom.core.checks import Floats
from slalom.core.fitting._evidence.ridge import ridge

_NOTABLE = 1.5  # mean of squared correlations with e, in units of their noise: below, evidence is not asked
_MARGIN = 6.0  # nats of evidence that differences within types must add
_OWN = 0.5  # of the largest z^2 of a type: a unit that differs makes its mean differ, and so the others
_CHANCE = 0.01  # of taking a unit for different where none is
_STRONG = 0.8  # share of the residuals' variance that strong differences leave, at most
_MANY = 0.1  # share of the units of shared types: if more of them differ, all are taken to


def told_apart(
    keep: NDArray[np.bool_], types: NDArray[np.int64], residual: Floats, weights: Floats
) -> NDArray[np.int64] | None:
    """Return types in which units that differ from others of their type have types of their own; None where none do.

    Example:
        >>> rng, types = np.random.default_rng(0), np.arange(20) // 2
        >>> keep = rng.random((300, 20)) < 0.5
        >>> told_apart(keep, types, keep[:, 4] - 0.5 + rng.normal(size=300), np.ones(300)).tolist()
        [0, 0, 1, 1, 9, 10, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8]
    """
    rows = weights > 0
    if len(np.unique(types)) == len(types) or not residual[rows].any():
        return None
    with suppress(np.linalg.LinAlgError), np.errstate(all="ignore"):
        apart = _different(keep[rows], types, residual[rows], weights[rows] / weights[rows].mean())
        if apart.any():
            numbers = np.where(apart, len(types) + np.arange(len(types)), types)
            return np.unique(numbers, return_inverse=True)[1].astype(np.int64)
    return None


def _different(keep: NDArray[np.bool_], types: NDArray[np.int64], residual: Floats, w: Floats) -> NDArray[np.bool_]:
    """Return which units (n,) differ from others of their type; w (m,) are the weights, with a mean of one."""
    shared = np.bincount(types)[types] > 1
    types = np.unique(types[shared], return_inverse=True)[1]
    number = np.bincount(types)
    share = keep[:, shared] / (1.0 + keep.sum(axis=1, keepdims=True))
    contrasts = share - (share @ (np.eye(len(number)) / number)[types])[:, types]
    apart = np.zeros(len(shared), dtype=bool)
    e = residual.reshape(len(share), -1)
    if e.shape[1] > 1:
        e = e @ helmert(e.shape[1]).T
    alone = float((w[:, None] * e**2).sum()) / e.size
    size = alone * (w @ contrasts**2)
    square = ((contrasts.T * w) @ e) ** 2 / np.where(size > 0.0, size, np.inf)[:, None]
    least = ndtri(0.5 * _CHANCE / square.size) ** 2
    apart[shared] = single = _outstanding(square, types, least)
    if not square.mean() > _NOTABLE and not single.any():  # mostly so
        return apart
    found = ridge(contrasts, e, w, intercept=False)
    without = -0.5 * e.size * (np.log(alone) + 1.0) + 0.5 * e.shape[1] * float(np.log(w).sum())
    if not found.evidence > without + _MARGIN:
        return apart
    unknown = found.prior * np.maximum(1.0 - 1.0 / number[types] - found.explained, 1e-12)
    clear = single | _outstanding(found.slopes**2 / unknown[:, None], types, least)
    all_differ = found.noise < _STRONG * alone and not 0.0 < clear.mean() < _MANY
    apart[shared] = all_differ | clear
    return apart


def _outstanding(square: Floats, types: NDArray[np.int64], least: float) -> NDArray[np.bool_]:
    """Return which units (n,) have a large z^2 (n, K), for themselves and not for others of their type that differ."""
    strength, top = square.max(axis=1), np.zeros(types.max() + 1)
    np.maximum.at(top, types, strength)
    return np.asarray((strength > least) & (strength > _OWN * top[types]))
