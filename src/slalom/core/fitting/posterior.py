"""Standard errors of the scores of units, from draws of all parameters at once.

    se_i = (95% quantile of |score_i(draw) - score_i(estimate)|) / 1.96

Value and importance of a unit are correlated: with weak data only their product is determined, which is what the scores are
made of. Errors of v and s cannot be added up, so the scores are computed for draws of the joint posterior (`_evidence.draws`).
The quantile makes estimate +- 1.96 se hold 95% of the draws, also where these are skewed or have heavy tails.

v exp(s) is the contribution w v of a unit, w its attention in the whole text, times a scale that is the same for all units:
the sum of all weights, the background's too, over the geometric mean of the units'. Contributions are determined by the data.
The scale hardly is where the weights of many units can be anything small, and the draws overstate it: with more queries it
seldom turns out to be more than three times the estimate. So draws go no further.

Shapley values of all draws would take too long exactly. For their standard errors the coalitions of k others are replaced by
all others at the fraction q = k / (n - 1) of their weight:

    phi_i ~ (1 / n) sum_{k < n} [F(q others + i) - F(q others)]

k = 0 is exact, and the sum over k > 0 an integral over log k with a few Gauss-Legendre nodes. Two corrections allow for the
spread of the coalitions of one size. Without a link, 1 / (sum of weights) is larger on average than at the average weight. With
one, the average of tanh over a normal distribution is a wider tanh.

Last comes the shrinkage, as for values and importances (`_evidence.errors`): the priors shrink a unit's score d by the share
k = se^2 / (variance of the scores over the units), so d k / (1 - k) is added to the error, in quadrature. Not so for v exp(s),
where the error of the scale is in proportion to d.

All this takes the noise as equal for all rows. But what a surrogate misses of a real model is largest in some of them. If these
are the rows that tell most, errors are larger (`Posterior.misfit_factor`):

    factor^2 = sum_k h_k e_k^2 / (1 - h_k) / (noise sum_k h_k)

e_k are the residuals, h_k the leverages of the rows: the variances of their predictions over the noise. Equal noise leaves
e_k^2 = noise (1 - h_k) on average, and a factor of one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slalom.core.base import weighted_average
from slalom.core.checks import Counts, Floats, count_matrix

LEVEL = 0.95  # of the intervals that standard errors are made for
NORMAL_QUANTILE = 1.959964  # of a normal distribution, for this level
MAX_SHRINKAGE = 0.9  # share of a deviation that the correction takes the prior to remove
_NODES = 4  # of the integral over log k
_EVERY = 5  # one draw of so many tells the leverages; they are ordered by their precisions
_MAX_LEVERAGE = 0.7  # beyond, draws and the nonlinear model do not tell 1 - h
_MAX_SCALE = 3.0  # of v exp(s) in a draw, relative to the estimate
_EXCESS = 0.5  # of the relative variance of a sum of weights; 1 to second order, less beyond, as measured against exact values


class ScoreErrors(NamedTuple):
    """Standard errors of the scores, shaped as the values: (n,) or (n, n_classes); None where one is not finite."""

    linear: Floats | None
    gradient: Floats | None
    removal: Floats | None
    shapley: Floats | None


@dataclass(frozen=True, eq=False)
class Posterior:
    """Draws of the parameters of a Slalom; the first is the estimate itself.

    Args:
        values: v (1 + draws, n, C); C = 1 where there is a single score.
        importances: s (1 + draws, n), with any sum.
        background: v_0 (1 + draws, C) and s_0 (1 + draws,); None where there is none.
        link: Middle and reach of the link, (1 + draws,) each; None where there is none. Only for a single score.
        single: Whether there is a single score, so that results have no axis of classes.
        skewed: Draws for v exp(s), whose scale depends on the distribution of small weights; None: these.
    """

    values: Floats
    importances: Floats
    background: tuple[Floats, Floats] | None
    link: tuple[Floats, Floats] | None
    single: bool
    skewed: "Posterior | None" = None

    def errors(self, times: NDArray[np.int64] | None = None, factor: float = 1.0) -> ScoreErrors:
        """Return the standard errors of the scores of the whole text."""
        number = np.ones(self.values.shape[1]) if times is None else np.asarray(times, dtype=np.float64)
        with np.errstate(all="ignore"):
            weights, columns = _Weights.of(self, number), []
            linear = (self.skewed or self)._linear(number)
            for c in range(self.values.shape[2]):
                errors = [_error(linear[:, :, c]), *(_spread(score, number) for score in self._scores(c, weights, number))]
                columns.append([factor * error for error in errors])
        stacked = [np.stack(column, axis=1) for column in zip(*columns, strict=True)]
        return ScoreErrors(*(_checked(array[:, 0] if self.single else array) for array in stacked))

    def misfit_factor(self, counts: Counts, residual: Floats, weights: Floats, free: float) -> float:
        """Return by how much errors are larger because the rows that tell most fit worse; at least 1."""
        draws = self.some(slice(1, None, _EVERY))
        with np.errstate(all="ignore"):
            square = weights * (residual.reshape(len(residual), -1) ** 2).sum(axis=1)
            noise, pull = (
                float(square.sum()) / (free * max(int((weights > 0).sum()), 1)),
                weights * sum(predicted.var(axis=0, ddof=1) for predicted in draws.predictions(count_matrix(counts))),
            )
            left = 1.0 - np.minimum(pull / noise, _MAX_LEVERAGE)
            factor = float(np.sqrt((pull @ (square / left)) / (noise * pull.sum())))
        return max(factor, 1.0) if np.isfinite(factor) else 1.0

    def some(self, which: slice | NDArray[np.int64]) -> "Posterior":
        """Return some of the draws."""
        background, link = (None if part is None else (part[0][which], part[1][which]) for part in (self.background, self.link))
        return Posterior(self.values[which], self.importances[which], background, link, self.single)

    def predictions(self, counts: Floats) -> Iterator[Floats]:
        """Yield the predictions (1 + draws, m) of each class."""
        for c in range(self.values.shape[2]):
            background = None if self.background is None else (self.background[0][:, c], self.background[1])
            yield self._linked(weighted_average(counts, self.values[:, :, c], self.importances, background)[0])

    def _linear(self, number: Floats) -> Floats:
        """Return the draws (1 + draws, n, C) of v exp(s), up to a factor."""
        weights = _Weights.of(self, number)
        scale = np.minimum(weights.scale, _MAX_SCALE * weights.scale[0]) / weights.total
        return np.asarray((scale[:, None] * weights.units)[:, :, None] * self.values)

    def _scores(self, c: int, weights: "_Weights", number: Floats) -> tuple[Floats, Floats, Floats]:
        """Return the draws (1 + draws, n) of gradient, removal and Shapley scores, of one class."""
        v, w, rest, total = self.values[:, :, c], weights.units, weights.background, weights.total
        push = w * v
        constant = 0.0 * rest if self.background is None else rest * self.background[0][:, c]
        numerator = push @ number + constant
        evidence = numerator / total
        slopes = (push - w * evidence[:, None]) / total[:, None]
        others = total[:, None] - w
        change = np.where(others > 1e-12 * total[:, None], slopes * total[:, None] / others, evidence[:, None])
        if self.link is not None:
            change = self._linked(evidence[:, None]) - self._linked(evidence[:, None] - change)
            slopes = slopes * (1.0 - np.tanh((evidence - self.link[0]) / self.link[1]) ** 2)[:, None]
        return slopes, change, self._shapley(v, w, rest, total, constant, numerator, number)

    def _shapley(
        self, v: Floats, w: Floats, rest: Floats, total: Floats, constant: Floats, numerator: Floats, number: Floats
    ) -> Floats:
        """Return the draws of the approximate Shapley values; the sums are those of `_scores`.

        With B and A the sums of weights and of weights times values at the fraction q, B - q w and A - q w v are those of the
        others, and S with the unit less S without it is w (v B - A) / ((B - q w) (B + (1 - q) w)).
        """
        phi, square = np.zeros_like(v), w**2
        squares = square @ number, (square * v) @ number, (square * v**2) @ number
        for q, mass in zip(*_rule(int(number.sum())), strict=True):
            if q == 0.0 and self.background is None:
                phi += mass * (v if self.link is None else self._linked(v) - self._linked(0.0 * w[:, :1]))
                continue
            below, above = rest + q * (total - rest), constant + q * (numerator - constant)
            varied = max(q * (1.0 - q), 0.0)
            own = q * w
            others = below[:, None] - own
            change = v * below[:, None]
            change -= above[:, None]
            change *= w
            change /= others
            np.add(others, w, out=own)
            change /= own
            excess = varied * squares[0][:, None] / own**2  # relative variance of the sum of weights
            change *= 1.0 + _EXCESS * np.minimum(excess, 1.0)
            if self.link is not None:
                evidence = above / below
                spread = varied * (squares[2] - 2.0 * evidence * squares[1] + evidence**2 * squares[0]) / below**2
                without = (above[:, None] - q * w * v) / others
                change = self._linked(without + change, spread) - self._linked(without, spread)
            change *= mass
            phi += change
        return phi

    def _linked(self, evidence: Floats, spread: Floats | float = 0.0) -> Floats:
        """Return F of evidence (1 + draws, ...), on average if the evidence has a variance (1 + draws,)."""
        if self.link is None:
            return evidence
        middle, reach = self.link
        inner = reach * np.sqrt(1.0 + 0.5 * np.pi * spread / reach**2)
        return np.asarray(middle[:, None] + reach[:, None] * np.tanh((evidence - middle[:, None]) / inner[:, None]))


class _Weights(NamedTuple):
    """The weights of units (1 + draws, n) and background (1 + draws,), their sum, and that over the units' geometric mean."""

    units: Floats
    background: Floats
    total: Floats
    scale: Floats

    @classmethod
    def of(cls, posterior: Posterior, number: Floats) -> "_Weights":
        s = posterior.importances
        s0 = np.full(len(s), -np.inf) if posterior.background is None else posterior.background[1]
        top = np.maximum(s.max(axis=1), s0)
        units, rest = np.exp(s - top[:, None]), np.exp(s0 - top)
        total = units @ number + rest
        return cls(units, rest, total, total * np.exp(top - s @ number / number.sum()))


@lru_cache(maxsize=256)
def _rule(n: int) -> tuple[Floats, Floats]:
    """Return the fractions k / (n - 1) of the others and their masses, for n units."""
    if n <= _NODES:
        return np.arange(n) / max(n - 1, 1), np.full(n, 1.0 / n)
    nodes, masses = np.polynomial.legendre.leggauss(_NODES)
    low, high = np.log(0.5), np.log(n - 0.5)
    k = np.exp(low + 0.5 * (high - low) * (1.0 + nodes))
    masses = 0.5 * (high - low) * masses * k
    return np.append(0.0, k / (n - 1)), np.append(1.0, masses * (n - 1) / masses.sum()) / n


def _spread(draws: Floats, number: Floats) -> Floats:
    """Return standard errors (n,) of scores from the estimate and draws (1 + draws, n), with the shrinkage."""
    error = _error(draws)
    variance = np.average(draws[0] ** 2 + error**2, weights=number)
    return with_shrinkage(error, draws[0], 1.0 / max(float(variance), 1e-300))


def _error(draws: Floats) -> Floats:
    """Return standard errors (n,) from the estimate and draws (1 + draws, n)."""
    distance = np.abs(draws[1:] - draws[0])
    place = round(LEVEL * (len(distance) + 1)) - 1
    return np.asarray(np.partition(distance, place, axis=0)[place] / NORMAL_QUANTILE)


def with_shrinkage(error: Floats, deviation: Floats, precision: float | Floats) -> Floats:
    """Return errors that allow for the shrinkage of deviations by a prior of this precision."""
    share = np.clip(precision * error**2, 0.0, MAX_SHRINKAGE)
    return np.asarray(np.hypot(error, deviation * share / (1.0 - share)))


def _checked(errors: Floats) -> Floats | None:
    return errors if np.isfinite(errors).all() else None
