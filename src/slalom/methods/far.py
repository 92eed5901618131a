"""The part of a surrogate for subsets of all sizes: `FarFitter` fits it to `FarRows`.

fitted        the surrogate and, in alternation, the effect of the input length
told_apart    again, with parameters of their own for units that differ from equal ones
with_pairs    again, beside pairs that are found in what the fit leaves
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from slalom.core import Fit, Fitter, Lengths, Linear, fit, fit_lengths
from slalom.core.checks import Counts, Floats
from slalom.core.fitting.pairs import FoundPairs, Reading, find_pairs
from slalom.core.fitting.posterior import NORMAL_QUANTILE
from slalom.core.fitting.response import response
from slalom.core.fitting.sharing import told_apart
from slalom.text import Units

_LEAST_PAIR = 0.05  # of the standard deviation of the scores: weaker pairs are left out
_PAIR_ROUNDS = 5  # fits without the pairs, and of the pairs to what is left; mostly one or two are enough
_WIDEST_PAIR = 2.0  # of this standard deviation: that of the prior of an effect
_PAIR_SETTLED = 0.5  # standard errors: a smaller change of an effect ends the rounds
_FEW_TYPES = 128  # above, asking of every text what its fit takes over would cost a fifth of the fit
_HALVINGS = 3  # of a step that does not help
_STRAIGHT_PAIRS = 3  # that are tried as another start
_SEARCHES = 3  # for pairs, at most
_EXACT = 1e-12  # unexplained share of the variance that is due to rounding
_SHORT = 64  # units of a text that is fitted with and without shared parameters
_CLOSER = 0.9  # of the expected loss: with this, parameters are not shared
_SHARING_ROUNDS = 3  # fits with units told apart; mostly none is needed


@final
@dataclass(frozen=True)
class FarFitter:
    """Fits a surrogate to rows of all sizes.

    Args:
        fitter: Fits the surrogate.
        lengths: Rounds of length-offset fitting; 0 disables it.
    """

    fitter: Fitter
    lengths: int

    def fitted(self, scores: Floats, rows: "FarRows") -> tuple[Fit, Lengths | None]:
        """Fit the surrogate and, in alternation, the effect of the input length to its residuals."""
        counts, fitter, weights = rows.counts, self.fitter.seeded(rows.seed), rows.weights
        fitted, length = fit(counts, scores, fitter, weights=weights), None
        sizes, longest = rows.units.lengths(rows.keep), int(rows.units.sizes.sum())
        for left in reversed(range(self.lengths)):
            length = fit_lengths(sizes, scores - fitted.model(counts), longest, rows.certainty)
            if length is None or not left:
                break
            fitted = fit(counts, scores - length(sizes), fitter, weights=weights)
        return fitted, length

    def told_apart(
        self, scores: Floats, rows: "FarRows", fitted: Fit, length: Lengths | None
    ) -> tuple["FarRows", Fit, Lengths | None]:
        """Fit again with parameters of their own for units that differ from equal ones, as long as that raises the evidence.

        For a short text, where a fit takes little time, all are given their own and the better of both fits is kept.
        """
        if len(rows.units) <= _SHORT and _leaves_something(fitted):
            own = rows.with_types(np.arange(len(rows.units)))
            alone = self.fitted(scores, own)
            if _expected_loss(alone[0]) < _CLOSER * _expected_loss(fitted):
                return own, *alone
        for _ in range(_SHARING_ROUNDS):
            types = None
            if _leaves_something(fitted):
                types = told_apart(rows.keep, rows.units.type_of_unit, rows.left(scores, fitted, length), rows.weights)
            if types is None:
                break
            apart = rows.with_types(types)
            trial = self.fitted(scores, apart)
            if not _evidence(trial[0]) > _evidence(fitted):
                break
            rows, (fitted, length) = apart, trial
        return rows, fitted, length

    def with_pairs(
        self, scores: Floats, rows: "FarRows", fitted: Fit, length: Lengths | None
    ) -> tuple[FoundPairs | None, Fit, Lengths | None]:
        """Find pairs in the residuals of a fit, and fit again without what they do; None where there are none.

        Then pairs are looked for once more: a fit that had to do without a strong pair has residuals that look like others.
        """
        first = fitted, length
        reading = rows.reading(scores, fitted if rows.units.n_types <= _FEW_TYPES else None)
        found = find_pairs(rows.keep, rows.left(scores, fitted, length), reading)
        starts = list[FoundPairs]()
        if len(found.units):
            straight = self._straight_pairs(scores, rows)
            starts = [found] if set(straight.named) == set(found.named) else [found, straight]
        for left in reversed(range(_SEARCHES)):
            if starts:
                found, fitted, length = self._settled(starts, scores, rows)
            if not len(found.units):
                return None, *first
            if not left:
                break
            reading, alone = rows.reading(scores, fitted), rows.left(scores - found.predict(rows.keep), fitted, length)
            again = find_pairs(rows.keep, alone + reading.passed_on(rows.keep, found.named, found.effects), reading)
            if not len(again.units) or set(again.named) == set(found.named):
                break
            starts = [again]
        return found, fitted, length

    def _straight_pairs(self, scores: Floats, rows: "FarRows") -> FoundPairs:
        """Return the strongest pairs beside a linear model, whose weights cannot hide a pair."""
        line = fit(rows.counts, scores, Linear(), weights=rows.weights)
        return find_pairs(rows.keep, rows.left(scores, line, None), rows.reading(scores, line), _STRAIGHT_PAIRS)

    def _settled(self, starts: list[FoundPairs], scores: Floats, rows: "FarRows") -> tuple[FoundPairs, Fit, Lengths | None]:
        """Fit the surrogate and the effects of pairs in alternation, from the best of some starts.

        A step that leaves more of the scores unexplained is halved. Pairs that are not distinguishable from zero are dropped.
        """
        best = min((self._beside(start, scores, rows) for start in starts if len(start.units)), key=_misfit)
        worse = 1.0 + 2.0 / len(scores)  # a nat of the likelihood
        for left in reversed(range(_PAIR_ROUNDS)):
            found, trial = best.pairs.updated(rows.keep, best.residual, rows.reading(scores, best.fitted)), None
            settled = bool((np.abs(found.effects - best.pairs.effects) <= _PAIR_SETTLED * found.errors).all())
            moved, longer = found, np.inf
            for _ in range(0 if settled or not left else _HALVINGS):
                trial = self._beside(moved, scores, rows)
                if trial.misfit <= worse * best.misfit:
                    break
                rising = 4.0 * trial.misfit - longer >= 3.0 * best.misfit  # a parabola through both steps, from the start on
                moved, longer, trial = moved._replace(effects=0.5 * (best.pairs.effects + moved.effects)), trial.misfit, None
                if rising:
                    break
            if trial is None:  # this is as good as it gets
                found = found if settled else found._replace(effects=best.pairs.effects)
                certain = np.abs(found.effects) > NORMAL_QUANTILE * found.errors
                told = np.asarray(certain.reshape(len(certain), -1).any(axis=1))
                if told.all() or not told.any():
                    return found.chosen(told), best.fitted, best.length
                trial = self._beside(found.chosen(told), scores, rows)
            best = trial
        return best.pairs, best.fitted, best.length

    def _beside(self, pairs: FoundPairs, scores: Floats, rows: "FarRows") -> "_Beside":
        """Fit the surrogate beside pairs."""
        alone = scores - pairs.predict(rows.keep)
        fitted, length = self.fitted(alone, rows)
        residual = rows.left(alone, fitted, length)
        with np.errstate(over="ignore", invalid="ignore"):
            square = (residual**2).reshape(len(residual), -1).sum(axis=1)
            misfit = float(np.average(square, weights=rows.weights))
        return _Beside(pairs, fitted, length, residual, misfit)


def _evidence(fit: Fit) -> float:
    """Return the log evidence; minus infinity for a simpler model that was fallen back on."""
    return -np.inf if fit.evidence is None else fit.evidence


def _leaves_something(fit: Fit) -> bool:
    """Return whether a fit that has an evidence leaves more of the scores than rounding."""
    return fit.evidence is not None and fit.r2 <= 1.0 - _EXACT


def _expected_loss(fit: Fit) -> float:
    """Return the loss that is to be expected on other rows, by generalised cross-validation."""
    return fit.loss / (fit.free or 1.0) ** 2


class _Beside(NamedTuple):
    """A surrogate that was fitted beside pairs, what both leave, and its weighted mean square."""

    pairs: FoundPairs
    fitted: Fit
    length: Lengths | None
    residual: Floats
    misfit: float


def _misfit(part: _Beside) -> float:
    return part.misfit


@final
@dataclass(frozen=True, eq=False)
class FarRows:
    """The rows of the fit of all sizes.

    Args:
        units: The units of the text.
        keep: Which of them are present (m, n).
        weights: Weights (m,) of the rows in the fit.
        seed: Seed of the fitter.
        certainty: How well the scores are known (m,); None: exactly.
    """

    units: Units
    keep: NDArray[np.bool_]
    weights: Floats
    seed: int
    certainty: Floats | None

    @cached_property
    def counts(self) -> Counts:
        """Counts of the types of units (m, n_types); a sparse array where few are present."""
        return self.units.counts(self.keep)

    def with_types(self, types: NDArray[np.int64]) -> "FarRows":
        """Return the same rows with other types of the units (n,)."""
        return replace(self, units=replace(self.units, type_of_unit=types))

    def left(self, scores: Floats, fitted: Fit, length: Lengths | None) -> Floats:
        """Return what a fit and the effect of the length leave of the scores."""
        left = scores - fitted.model(self.counts)
        return left if length is None else left - length(self.units.lengths(self.keep))

    def reading(self, scores: Floats, fitted: Fit | None) -> Reading:
        """Return how to find pairs in what a fit leaves of the scores; None: as if the fit took over nothing of them."""
        deviation = _deviation(scores, self.certainty)
        answer = None if fitted is None else response(fitted, self.counts, self.weights)
        return Reading(_WIDEST_PAIR * deviation, _LEAST_PAIR * deviation, self.certainty, answer)


def _deviation(scores: Floats, weights: Floats | None) -> float:
    """Return the standard deviation of scores, those of all classes taken together."""
    if weights is None:
        return float(scores.std())
    mean = np.average(scores, axis=0, weights=weights)
    return float(np.sqrt(np.average(((scores - mean) ** 2).reshape(len(scores), -1).mean(axis=1), weights=weights)))
