"""A Gaussian process as a sum of parts with variances of their own, chosen by the evidence.

    y = sum_j Phi_j w_j + noise,    w_j ~ N(0, ratio_j noise),    K = I + sum_j ratio_j Phi_j Phi_j'

The log evidence is -1/2 (log det K + m log y'K^-1 y) for each output, the noise at its maximum. The ratios come from Newton
steps with the average information in place of the Hessian, as in restricted maximum likelihood: it needs no more than K^-1, and
a handful of steps.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple, final

import numpy as np

from slalom.core.checks import Floats
from slalom.core.fitting._evidence.triangular import cholesky, inverse_lower, solve_lower

_STEPS = 12
_LONGEST = 2.0  # of a step, in the log of a ratio
_RANGE = (-14.0, 14.0)
_NO_FACTORS = "the covariance of the rows near the text has no factors"
_GAIN = 0.1  # nats of a step with which the search ends
_SHORT = 0.5  # such a step, whose gain is what it was predicted to be


class Ratios(NamedTuple):
    """Ratios of the variances to the noise, one for each part, and their log evidence."""

    ratios: Floats
    evidence: float


def search(parts: Sequence[Floats], y: Floats, start: Floats) -> Ratios:
    """Return the ratios with the highest evidence."""
    grams = [part @ part.T for part in parts]
    logs = np.clip(np.log(start), *_RANGE)
    at = _information(grams, y, logs)
    for _ in range(_STEPS):
        if at is None:
            raise ArithmeticError(_NO_FACTORS)
        step = np.clip(np.linalg.solve(at.curvature, at.slope), -_LONGEST, _LONGEST)
        predicted = 0.5 * float(at.slope @ step)
        if 0.0 <= predicted < _GAIN and np.abs(step).max() < _SHORT:
            logs, at = np.clip(logs + step, *_RANGE), at._replace(evidence=at.evidence + predicted)
            break
        gain = -np.inf
        for _ in range(3):  # shorter steps
            trial = np.clip(logs + step, *_RANGE)
            ahead = _information(grams, y, trial)
            gain = -np.inf if ahead is None else ahead.evidence - at.evidence
            if gain >= 0.0:
                break
            step = step / 4.0
        if not gain >= 0.0:
            break
        logs, at = trial, ahead
        if gain < _GAIN:
            break
    assert at is not None
    return Ratios(np.exp(logs), at.evidence)


class _At(NamedTuple):
    """The log evidence at a point, its slope by the logs of the ratios, and the average information."""

    evidence: float
    slope: Floats
    curvature: Floats


def _information(grams: list[Floats], y: Floats, logs: Floats) -> _At | None:
    m, outputs = y.shape
    scaled = [np.exp(log) * gram for log, gram in zip(logs, grams, strict=True)]
    covariance = np.eye(m)
    for part in scaled:
        covariance += part
    factor = _cholesky(covariance)
    if factor is None:
        return None
    lower = inverse_lower(factor)
    half = lower @ y
    power = float((half**2).sum())
    if not power > 0.0:
        return None
    noise, solved = power / y.size, lower.T @ half
    inverse = lower.T @ lower
    pulled = [part @ solved for part in scaled]
    slope = np.array(
        [
            0.5 * (float((solved * pull).sum()) / noise - outputs * float(np.vdot(inverse, part)))
            for part, pull in zip(scaled, pulled, strict=True)
        ]
    )
    along = np.stack([(lower @ pull).ravel() for pull in pulled], axis=1)
    curvature = 0.5 * along.T @ along / noise
    curvature.flat[:: len(logs) + 1] += 1e-6 * max(float(np.trace(curvature)), 1.0) + 0.05
    evidence = outputs * float(np.log(np.diag(lower)).sum()) - 0.5 * y.size * np.log(power)
    return _At(evidence, slope, curvature)


@final
class Process:
    """The posterior of a Gaussian process with known ratios.

    Works in the space of the rows or of the features, whichever is smaller.

    Args:
        features: Phi (m, q), each part times the root of its ratio.
        y: The data (m, K).
        least: The least noise variance, if known.

    Attributes:
        weights: The posterior mean of the features' weights (q, K).
        noise: The noise variance.
        evidence: The log evidence, up to a constant of the number of rows.
    """

    def __init__(self, features: Floats, y: Floats, least: float = 0.0) -> None:
        m, q = features.shape
        self._by_rows, self._features = m < q, features
        gram = features @ features.T if self._by_rows else features.T @ features
        gram.flat[:: len(gram) + 1] += 1.0
        factor = _cholesky(gram)
        if factor is None:
            raise ArithmeticError(_NO_FACTORS)
        self._lower = factor
        half = self._whitened(y if self._by_rows else features.T @ y)
        solved = solve_lower(self._lower, half, transposed=True)
        self.weights = features.T @ solved if self._by_rows else solved
        left = float((half**2).sum()) if self._by_rows else float((y**2).sum()) - float((half**2).sum())
        self.noise = max(max(left, 1e-24 * float((y**2).sum()) + 1e-300) / y.size, least)
        log_det = 2.0 * float(np.log(np.diag(self._lower)).sum())
        self.evidence: float = -0.5 * (y.shape[1] * log_det + y.size * float(np.log(self.noise)))

    @cached_property
    def free(self) -> Floats:
        """How free of the features each row is (m,): the diagonal of K^-1."""
        if not self._by_rows:
            return np.asarray(np.maximum(1.0 - (self._whitened(self._features.T) ** 2).sum(axis=0), 0.0))
        inverse = inverse_lower(self._lower)
        return np.asarray((inverse**2).sum(axis=0))

    def misfit(self, y: Floats) -> Floats:
        """Return the mean squared residuals (m,) of the data (m, K), as large on average as the noise in every row."""
        left = y - self._features @ self.weights
        return np.asarray((left**2).mean(axis=1) / np.maximum(self.free, 1e-12))

    def coordinates(self, features: Floats) -> Floats:
        """Return what `variance` needs of further rows (k, q); it is linear in them, with one column for each, (r, k)."""
        return self._whitened((features @ self._features.T).T if self._by_rows else features.T)

    def coordinates_of_weights(self, number: int) -> Floats:
        """Return the coordinates (r, number) of rows that have a 1 in one feature, of the first features."""
        return self._whitened(self._features[:, :number] if self._by_rows else np.eye(len(self._lower), number))

    def variance(self, coordinates: Floats, squares: Floats) -> Floats:
        """Return the posterior variance (k,) of further rows, without their noise."""
        known = np.einsum("rk,rk->k", coordinates, coordinates)
        return np.asarray(self.noise * (np.maximum(squares - known, 0.0) if self._by_rows else known))

    def _whitened(self, columns: Floats) -> Floats:
        return solve_lower(self._lower, columns)


def _cholesky(matrix: Floats) -> Floats | None:
    """Return the lower Cholesky factor; None where there is none."""
    factor = cholesky(matrix)
    return None if factor is None or not np.isfinite(factor[-1, -1]) else factor
