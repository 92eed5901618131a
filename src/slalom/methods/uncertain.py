"""Rows of a plan whose scores are noisy, or known only between bounds, as the next round of a fit takes them."""

from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from slalom.core import Fit
from slalom.core.checks import Floats
from slalom.core.fitting.near import NearFit
from slalom.core.fitting.noise import finite_bound, imputed, misfit_variance, working
from slalom.models import Observed
from slalom.text import QueryPlan

_UNKNOWN = 1e-12  # weight of a row that is needed but tells nothing
_KNOWN = 1e-2  # of the misfit: the least variance of the whole text, which the correction near it meets
_FEW_FREE = 0.25  # least share of rows that parameters are taken to leave free, for fitters that do not say
_SETTLED = 0.1  # of a standard deviation: the largest change of a prediction of a row between bounds that ends the rounds


class Certainty(NamedTuple):
    """Weights (m,) of rows by how well their scores are known: those of the fit of all sizes, those of the correction.

    misfit: The variance that a row of the correction has beside its noise; with a weight w it has misfit / w in all.
    """

    far: Floats
    near: Floats
    misfit: float


@final
class UncertainRows:
    """The rows of a plan whose scores are noisy or between bounds, as the next round fits them.

    Args:
        plan: The plan, m rows.
        observed: Their scores.
        near: Which rows (m,) are those of the correction near the text.

    Attributes:
        known: Which scores (m,) of the plan are known, if with noise.
        plan: The rows that have a weight in the next round, and their weights in the fit of all sizes.
        scores: Their scores, with numbers in place of intervals.
        certainty: How well they are known.
    """

    def __init__(self, plan: QueryPlan, observed: Observed, near: NDArray[np.bool_]) -> None:
        self.all, self.observed, self.near, self.known = plan, observed, near, observed.known
        m = len(plan.keep)
        self.variance = np.zeros(m) if observed.variance is None else observed.variance.copy()
        self.counted = None if observed.draws is None else self.known & (observed.draws > 0)
        self.between = None
        if observed.lower is not None and observed.upper is not None and observed.lower.shape == observed.scores.shape:
            self.between = observed.lower, observed.upper
        numbers, weights = observed.scores.copy(), self.known.astype(np.float64)
        if self.known.any():
            numbers[~self.known] = numbers[self.known].mean(axis=0)
        if self.between is not None:
            numbers = np.where(self.between[0] < self.between[1], finite_bound(*self.between), numbers)
            weights = np.where(np.isfinite(self.between[0]) | np.isfinite(self.between[1]), 1.0, 0.0)
            weights = weights.reshape(m, -1).min(axis=1)
        self.numbers, self.weights, self.before = numbers, weights, numbers
        start = float(np.median(self.variance[self.known])) if self.known.any() else 0.0
        start = max(start, 0.01 * float(np.var(numbers[weights > 0])) if weights.any() else 1.0, 1e-300)
        self.misfit = [start, start]  # of all rows, and of those near the text after the correction
        self._choose()

    def _choose(self) -> None:
        """Set the rows and their weights."""
        rows = (self.weights > 0) | ~self.all.keep.any(axis=1)
        rows |= not (self.weights * self.all.weights).any()  # nothing is known: any number will do
        keep, variance, design = self.all.keep[rows], self.variance[rows], self.all.weights[rows]
        told, (far, near) = np.maximum(self.weights[rows], _UNKNOWN), self.misfit
        fitted = np.where(design > 0, told * far / (far / np.where(design > 0, design, 1.0) + variance), 0.0)
        close, whole = told * near / (near + variance), keep.all(axis=1)
        close[whole] = told[whole] * near / (_KNOWN * near + variance[whole])
        self.plan, self.scores = QueryPlan(keep, fitted), self.numbers[rows]
        self.certainty = Certainty(told * far / (far + variance), close, near)

    def update(self, predicted: Floats, fitted: Fit, near: NearFit | None) -> bool:
        """Take the misfit and the numbers in place of intervals from a fit; return whether these have settled."""
        scores, design = self._weigh(predicted), self.all.weights
        residual = scores - predicted
        n_parameters = 2 * self.all.keep.shape[1]
        for close, free in ((0, fitted.free), (1, None if near is None else near.free)):
            rows = self.known & (self.near & (near is not None) if close else design > 0)
            if rows.sum() > 1:
                share = max(1.0 - n_parameters / rows.sum(), _FEW_FREE) if free is None else free
                weights = np.ones(int(rows.sum())) if close else design[rows]
                self.misfit[close] = misfit_variance(residual[rows], self.variance[rows], weights, share)
        settled = True
        if self.counted is not None:
            self.numbers = scores
        if self.between is not None:
            misfit = np.where(self.near, self.misfit[1], self.misfit[0])
            sd = np.sqrt(misfit + self.variance)
            sd = sd if predicted.ndim == 1 else np.repeat(sd[:, None], predicted.shape[1], axis=1)
            filled, weights = imputed(predicted, sd, *self.between)
            self.weights = weights.reshape(len(weights), -1).min(axis=1)
            open_ = self.between[0] < self.between[1]
            self.numbers = np.where(open_, filled, scores)
            told = open_ & (np.isfinite(self.between[0]) | np.isfinite(self.between[1]))  # others change nothing
            settled = bool((np.abs(predicted - self.before)[told] <= _SETTLED * sd[told]).all())
            self.before = predicted
        self._choose()
        return settled

    def _weigh(self, predicted: Floats) -> Floats:
        """Return the scores; those that are counts of samples, and their variances, as the predictions let them appear."""
        rows, hits, draws = self.counted, self.observed.hits, self.observed.draws
        if rows is None or hits is None or draws is None:
            return self.observed.scores
        scores = self.observed.scores.copy()
        scores[rows], self.variance[rows] = working(predicted[rows], hits[rows], draws[rows])
        return scores
