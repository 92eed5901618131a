"""Scores that are noisy, or known only to lie between two bounds.

A row whose noise is known has this variance beside that of what no part of the surrogate explains.

A score between two bounds is replaced by the score and the variance that give the likelihood of its interval the same slope and
curvature at the prediction mu of the last step, whose error has the variance s^2:

    E, V = mean and variance of N(mu, s^2) between the bounds,  weight = 1 - V / s^2,  score = mu + (E - mu) / weight

A score that is the log odds of a label with h hits among k samples is noisy in a way that depends on the score. It comes from
the binomial likelihood at the prediction mu of the last step, with p = 1 / (1 + exp(-mu)):

    variance = 1 / (k p (1 - p)),    score = mu + (h - k p) / (k p (1 - p))
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_ndtr

from slalom.core.checks import Floats

_LEAST_WEIGHT = 0.1  # of a row between bounds; one that tells less counts as unknown
_LEAST_INFORMATION = 0.25  # k p (1 - p) is not taken to be smaller: a shorter step towards the same maximum
_TAILS = 30.0  # standard deviations beyond which an interval is taken as a point at its nearer bound
UNKNOWN = 1e6  # times the variance of the scores: the noise of a row that tells nothing


class Observed(NamedTuple):
    """Scores as a model gave them, and how well they are known.

    Attributes:
        scores: The scores (m,), or (m, n_classes) of all classes.
        variance: Variance of each score (m,): the noise of a model that answers differently each time. None: exact.
        lower, upper: Bounds of scores that are known only to lie between them, infinite where there is none; equal to the
            score where it is known. Of the shape of the scores; with scores of all classes they may be (m,), and then say
            only which rows are known: those with equal bounds. None: all are known.
        hits, draws: Where scores are the log odds of a label among samples: in how many (m,) it came, of how many (m,).
            Scores and variances are then the beginning; a fit by the likelihood of the counts uses these. None: no samples.
    """

    scores: Floats
    variance: Floats | None = None
    lower: Floats | None = None
    upper: Floats | None = None
    hits: Floats | None = None
    draws: Floats | None = None

    @property
    def exact(self) -> bool:
        """Whether all scores are known without noise."""
        return self.variance is None and self.lower is None and self.upper is None

    @property
    def known(self) -> NDArray[np.bool_]:
        """Which scores (m,) are known, if with noise: those whose bounds are equal."""
        if self.lower is None or self.upper is None:
            return np.ones(len(self.scores), dtype=bool)
        return np.asarray(~(self.lower < self.upper).reshape(len(self.scores), -1).any(axis=1))

    def rows(self, chosen: "slice | NDArray[Any]") -> "Observed":
        """Return some of the scores, and how well they are known."""
        return Observed(*(None if part is None else part[chosen] for part in self))  # type: ignore[arg-type]

    def start(self) -> Floats:
        """Return scores to begin with: a number within the bounds where there are bounds."""
        if self.lower is None or self.upper is None or self.lower.shape != self.scores.shape:
            known = self.known
            filled = self.scores.copy()
            filled[~known] = filled[known].mean(axis=0) if known.any() else 0.0
            return filled
        return np.where(self.lower < self.upper, finite_bound(self.lower, self.upper), self.scores)

    def working(self, mean: Floats, noise: Floats) -> tuple[Floats, Floats]:
        """Return scores and known variances (m,) that stand for what is known.

        Args:
            mean: Predictions, as the scores.
            noise: Variances (m,) of what the surrogate does not explain.
        """
        scores, variance = self.start(), np.zeros(len(mean)) if self.variance is None else self.variance.copy()
        if self.hits is not None and self.draws is not None and scores.ndim == 1:
            rows = self.known & (self.draws > 0)
            scores[rows], variance[rows] = working(mean[rows], self.hits[rows], self.draws[rows])
        if self.lower is None or self.upper is None:
            return scores, variance
        unknown = UNKNOWN * (float(np.var(scores)) + float(noise.mean()))
        if self.lower.shape != scores.shape:
            return scores, np.where(self.known, variance, unknown)
        total = noise + variance
        sd = np.broadcast_to(np.sqrt(total).reshape(-1, *[1] * (scores.ndim - 1)), scores.shape)
        filled, weights = imputed(mean, sd, self.lower, self.upper)
        weight = weights.reshape(len(weights), -1).min(axis=1)
        told = np.where(weight > 0.0, weight, 1.0)
        scores = np.where(self.lower < self.upper, filled, scores)
        return scores, np.where(weight > 0.0, variance + total * (1.0 / told - 1.0), unknown)


def imputed(mean: Floats, sd: Floats, lower: Floats, upper: Floats) -> tuple[Floats, Floats]:
    """Return scores (m,) in place of intervals, and weights (m,), from 0 (nothing is known) to 1 (the score is known).

    Example:
        >>> imputed(np.zeros(3), np.ones(3), np.array([2.0, -np.inf, -np.inf]), np.array([2.0, 0.0, np.inf]))
        (array([ 2.        , -1.25331414,  0.        ]), array([1.        , 0.63661977, 0.        ]))
    """
    known = lower >= upper
    expected, variance = truncated_normal(mean, sd, lower, upper)
    weight = np.where(known, 1.0, np.clip(1.0 - variance / sd**2, 0.0, 1.0))
    weight[weight < _LEAST_WEIGHT] = 0.0
    step = (expected - mean) / np.where(weight > 0.0, weight, 1.0)
    return np.where(known, lower, np.where(weight > 0.0, mean + step, mean)), weight


def working(mean: Floats, hits: Floats, draws: Floats) -> tuple[Floats, Floats]:
    """Return the scores and variances (m,) that give the likelihood of counts the same slope and curvature at a prediction.

    Example:
        >>> working(np.zeros(2), np.array([4.0, 8.0]), np.array([16.0, 16.0]))
        (array([-1.,  0.]), array([0.25, 0.25]))
    """
    p = expit(mean)
    information = np.maximum(draws * p * (1.0 - p), _LEAST_INFORMATION)
    return mean + (hits - draws * p) / information, 1.0 / information


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


def finite_bound(lower: Floats, upper: Floats) -> Floats:
    """Return a number within each interval to begin with: the middle, the only bound, or 0 where there is none."""
    with np.errstate(invalid="ignore"):
        middle = 0.5 * (lower + upper)
    return np.select([np.isfinite(middle), np.isfinite(upper), np.isfinite(lower)], [middle, upper, lower], 0.0)
