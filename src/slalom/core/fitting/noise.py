"""Scores that are noisy, or known only to lie between two bounds.

    y_i = F(c_i) + misfit + noise,    misfit ~ N(0, tau^2 / a_i),    noise ~ N(0, variance_i)

a_i is the weight that the design gives to row i. A row then has the precision 1 / (tau^2 / a_i + variance_i): the whole text,
which a design may count a hundred times, counts at most as much as its noise allows. tau^2 is the number at which the squared
residuals of a fit are what these variances let one expect (the estimator of Paule and Mandel):

    mean_i  r_i^2 / (tau^2 / a_i + variance_i) = free,    free = share of the rows that the parameters leave free

A score between two bounds is replaced by the score and the weight that give the likelihood of its interval the same slope and
curvature at the prediction mu of the last fit, with s^2 = tau^2 + variance:

    E, V = mean and variance of N(mu, s^2) between the bounds
    weight = 1 - V / s^2,    score = mu + (E - mu) / weight

These are the steps of Newton's method for the likelihood; where they settle, weight (score - mu) = E - mu, as in imputation of
the expected score (EM), but in fewer steps, and standard errors count the row as what it tells. A row without bounds has the
weight 0.

A score that is the log odds of a label with h hits among k samples is noisy in a way that depends on the score. Variances from
the counts make extreme draws look uncertain, and shrink large effects. So the next fit takes score and variance from the
binomial likelihood at the prediction mu of the last one (iteratively re-weighted least squares), p = 1 / (1 + exp(-mu)):

    variance = 1 / (k p (1 - p)),    score = mu + (h - k p) / (k p (1 - p))
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr

from slalom.core.checks import Floats

_LEAST_WEIGHT = 0.1  # of a row between bounds; one that tells less is left out
_LEAST_MISFIT = 1e-3  # of the median variance: tau^2 is not taken to be smaller
_LEAST_INFORMATION = 0.25  # k p (1 - p) is not taken to be smaller: a shorter step towards the same maximum
_HALVINGS = 60
_TAILS = 30.0  # standard deviations beyond which an interval is taken as a point at its nearer bound


class Imputed(NamedTuple):
    """Scores (m,) in place of intervals, and their weights (m,), from 0 (nothing is known) to 1 (the score is known)."""

    scores: Floats
    weights: Floats


def misfit_variance(residual: Floats, variance: Floats, design: Floats, free: float) -> float:
    """Return tau^2, the variance that residuals have beyond the noise of the scores.

    Example:
        >>> round(misfit_variance(np.array([3.0, -3.0]), np.array([5.0, 5.0]), np.ones(2), 1.0), 9)
        4.0
    """
    square = residual.reshape(len(residual), -1) ** 2
    square = square.mean(axis=1)
    floor = _LEAST_MISFIT * float(np.median(variance)) + 1e-12 * float(square.mean()) + 1e-300
    low, high = floor, floor + float((design * square).max()) / max(free, 1e-3)

    def excess(tau: float) -> float:
        return float((square / (tau / design + variance)).mean()) - free

    if excess(low) <= 0.0:
        return floor
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if excess(middle) > 0.0 else (low, middle)
    return 0.5 * (low + high)


def imputed(mean: Floats, sd: Floats, lower: Floats, upper: Floats) -> Imputed:
    """Return scores and weights in place of intervals.

    Example:
        >>> imputed(np.zeros(3), np.ones(3), np.array([2.0, -np.inf, -np.inf]), np.array([2.0, 0.0, np.inf]))
        Imputed(scores=array([ 2.        , -1.25331414,  0.        ]), weights=array([1.        , 0.63661977, 0.        ]))
    """
    known = lower >= upper
    expected, variance = truncated_normal(mean, sd, lower, upper)
    weight = np.where(known, 1.0, np.clip(1.0 - variance / sd**2, 0.0, 1.0))
    weight[weight < _LEAST_WEIGHT] = 0.0
    step = (expected - mean) / np.where(weight > 0.0, weight, 1.0)
    return Imputed(np.where(known, lower, np.where(weight > 0.0, mean + step, mean)), weight)


class Working(NamedTuple):
    """Scores (m,) and variances (m,) in place of counts."""

    scores: Floats
    variance: Floats


def working(mean: Floats, hits: Floats, draws: Floats) -> Working:
    """Return the scores and variances that give the likelihood of counts the same slope and curvature at a prediction.

    Example:
        >>> working(np.zeros(2), np.array([4.0, 8.0]), np.array([16.0, 16.0]))
        Working(scores=array([-1.,  0.]), variance=array([0.25, 0.25]))
    """
    p = expit(mean)
    information = np.maximum(draws * p * (1.0 - p), _LEAST_INFORMATION)
    return Working(mean + (hits - draws * p) / information, 1.0 / information)


def truncated_normal(mean: Floats, sd: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return mean and variance of a normal distribution between two bounds.

    Example:
        >>> [part.round(3).tolist() for part in truncated_normal(np.zeros(1), np.ones(1), np.zeros(1), np.array([np.inf]))]
        [[0.798], [0.363]]
    """
    a, b = (lower - mean) / sd, (upper - mean) / sd
    flip = a > -b  # work in the left tail, where log_ndtr is accurate
    a, b = np.where(flip, -b, a), np.where(flip, -a, b)
    far = b < -_TAILS  # the mass is next to b
    with np.errstate(all="ignore"):
        ca, cb = np.maximum(a, -1e6), np.clip(b, -_TAILS, 1e6)
        ca = np.minimum(ca, cb)
        log_mass = log_ndtr(cb) + np.log1p(-np.exp(np.minimum(log_ndtr(ca) - log_ndtr(cb), -1e-300)))
        at_a, at_b = (np.exp(-0.5 * x**2 - 0.5 * np.log(2.0 * np.pi) - log_mass) for x in (ca, cb))
        shift = at_a - at_b
        spread = 1.0 + ca * at_a - cb * at_b - shift**2
    narrow = ~(cb - ca > 1e-3)  # differences of densities lose their digits; the distribution is uniform there
    middle = np.where(np.isfinite(a), 0.5 * (ca + cb), cb)
    shift = np.where(far, b + 1.0 / np.minimum(b, -1.0), np.where(narrow, middle, shift))
    spread = np.where(far, 0.0, np.where(narrow, (cb - ca) ** 2 / 12.0, spread))
    shift = np.clip(shift, a, b)
    return mean + sd * np.where(flip, -shift, shift), sd**2 * np.clip(spread, 0.0, 1.0)


def finite_bound(lower: Floats, upper: Floats) -> NDArray[np.float64]:
    """Return a number within each interval to begin with: the middle, the only bound, or 0 where there is none."""
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (lower + upper)
    return np.select([np.isfinite(middle), np.isfinite(upper), np.isfinite(lower)], [middle, upper, lower], 0.0)
