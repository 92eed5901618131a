"""Ridge regression with the strength that makes the data most probable.

    y = level + (c - centre) b + noise,    b ~ N(0, noise / strength),    level free, or 0 without an intercept

The marginal likelihood of the strength is a sum over the eigenvalues of the centred Gram matrix, so one decomposition serves
all strengths. The slopes are averaged over the strengths, each weighted by how probable it makes the data: unlike the
strength of generalised cross-validation that does not collapse where there are about as many rows as units.
"""

from typing import NamedTuple

import numpy as np

from slalom.core.checks import Floats

_STRENGTHS = np.geomspace(1e-10, 1e3, 79)


class Ridge(NamedTuple):
    """y = level + (c - centre) slopes."""

    centre: Floats  # (n,)
    level: Floats  # (K,)
    slopes: Floats  # (n, K)


def ridge(counts: Floats, scores: Floats, weights: Floats) -> Ridge:
    """Fit scores (m, K) on counts (m, n).

    The K outputs share strength and noise; a row has the noise variance noise / weight, weight > 0.
    """
    m, outputs = scores.shape
    total = float(weights.sum())
    centre, level = (weights / total) @ counts, weights @ scores / total
    root = np.sqrt(weights)[:, None]
    y = (scores - level) * root
    values, along, basis = _spectrum((counts - centre) * root, y)
    strengths = _STRENGTHS * max(float(values.mean()) if len(values) else 0.0, 1e-300)
    # |V'X'y|^2 per eigenvalue: the squared residuals are |y|^2 - sum square / (value + strength)
    square = (along**2).sum(axis=1)
    power = float((y**2).sum())
    misfit = power - (square / (values + strengths[:, None])).sum(axis=1)
    misfit = np.maximum(misfit, 1e-24 * power + 1e-300)
    free = max((m - 1) * outputs, 1)
    shrink = np.log1p(values / strengths[:, None]).sum(axis=1)
    profile = -0.5 * outputs * shrink - 0.5 * free * np.log(misfit)
    best = int(profile.argmax())
    chance = np.exp(profile - profile[best])
    chance /= chance.sum()
    shrinkage = chance @ (1.0 / (values + strengths[:, None]))
    return Ridge(centre, level, basis @ (along * shrinkage[:, None]))


def _spectrum(x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
    """Return eigenvalues of X'X, V'X'y and V, from whichever Gram matrix is smaller."""
    m, n = x.shape
    if n <= m:
        values, basis = np.linalg.eigh(x.T @ x)
        return np.maximum(values, 0.0), basis.T @ (x.T @ y), basis
    values, left = np.linalg.eigh(x @ x.T)  # X'U = V sqrt(values)
    keep = values > values[-1] * 1e-13
    values, left = values[keep], left[:, keep]
    root = np.sqrt(values)
    return values, root[:, None] * (left.T @ y), (x.T @ left) / root
