"""Our methods and those of the paper: a sampler chooses the queries, a fitter turns their scores into a surrogate.

joint   TwoScales + Joint           subsets of every size, then a correction next to the text (`TwoScale`)
local   Deletions + Joint           1 to 10 units removed: most faithful near the text
eff     Pairs + Sgd                 the paper's SLALOM-eff, equal tokens share their parameters
fidel   Deletions + Alternating     the paper's SLALOM-fidel, likewise

Scores that are noisy or known only between bounds are fitted in a few rounds (`core.fitting.noise`): each round weighs the rows
by how well their scores are known, given the misfit and the predictions of the round before.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import ClassVar, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from slalom.core import Alternating, Fit, Fitter, Joint, Lengths, Linear, Sgd, Slalom, TwoScale, fit, fit_lengths, fit_many
from slalom.core.checks import Counts, Floats
from slalom.core.fitting.near import NearFit, fit_near
from slalom.core.fitting.pairs import FoundPairs, Reading, find_pairs
from slalom.core.fitting.posterior import NORMAL_QUANTILE
from slalom.core.fitting.problem import explained_share
from slalom.core.fitting.response import response
from slalom.core.fitting.sharing import told_apart
from slalom.methods.base import Method, MethodContext, MethodResult
from slalom.methods.uncertain import Certainty, UncertainRows
from slalom.models import Observed
from slalom.text import Answered, Deletions, Pairs, QueryPlan, Sampler, Scales, TwoScales, Units
from slalom.threads import one_blas_thread

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
_NOISE_ROUNDS = 3  # fits where scores are noisy: the misfit hardly changes afterwards
_BOUND_ROUNDS = 8  # at most, where some are known between bounds
_SMALL = 1e8  # rows times squared units, up to which a second BLAS thread saves less than a third of the time


@final
@dataclass(frozen=True)
class SurrogateMethod(Method):
    """Fits a surrogate to the scores of sampled queries.

    Args:
        name: Name of the method.
        sampler: Chooses the queries.
        fitter: Fits the surrogate.
        unit: Default unit.
        lengths: Rounds of length-offset fitting; 0 disables it.
        shared: Whether equal units share value and importance, but for those that the scores tell apart.
        check: Largest default number of held-out queries.
        summary: One line on what it does.

    Example:
        >>> SurrogateMethod("ridge on all sizes", Scales(), Linear()).name
        'ridge on all sizes'
    """

    name: str
    sampler: Sampler
    fitter: Fitter
    unit: str = "token"
    lengths: int = 0
    shared: bool = False
    check: int = 100
    summary: str = ""
    plans_all: ClassVar[bool] = True

    def seconds(self, n: int, rows: int) -> float:
        """Return about how long the fit takes."""
        return self.fitter.seconds(n, rows)

    def plan(self, units: Units, budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        """Return the queries of the sampler."""
        return self.sampler.draw(units.type_of_unit, budget, rng, empty)

    def extend(
        self, plan: QueryPlan, units: Units, budget: int, rng: np.random.Generator, empty: bool, answered: Answered
    ) -> QueryPlan:
        """Return the plan with further queries of the sampler."""
        return self.sampler.extend(plan, units.type_of_unit, budget, rng, empty, answered)

    def rounds(self, budget: int) -> tuple[int, ...]:
        """Return the rounds of the sampler."""
        return self.sampler.rounds(budget)

    def prepare(self, contexts: Sequence[MethodContext]) -> Sequence[MethodContext]:
        """Fit the surrogates of exact scores at once, where the fitter is faster that way."""
        if not self.fitter.together:
            return contexts
        data = []
        for context in contexts:
            if context.exact:
                far = context.plan.weights > 0
                data.append((context.units.counts(context.plan.keep[far]), context.scores[far], context.plan.weights[far]))
        with one_blas_thread():
            fits = iter(fit_many(data, self.fitter.seeded(contexts[0].seed)))
        return [replace(context, fitted=next(fits)) if context.exact else context for context in contexts]

    def explain(self, context: MethodContext) -> MethodResult:
        """Fit the surrogate and the effect of the input length; with rows of `TwoScales` also pairs, and the correction."""
        m, n = context.plan.keep.shape
        with one_blas_thread(m * n**2 < _SMALL):
            if context.observed is not None and not context.exact:
                return self._uncertain(context, context.observed)
            return self._exact(context)

    def _exact(self, context: MethodContext) -> MethodResult:
        """Fit scores that are known exactly."""
        plan, scores = context.plan, context.scores
        result = self._explained(context, plan, scores)[0]
        predicted = result.predict(plan.keep, context.units)
        return result._replace(r2=explained_share(predicted, scores, np.where(plan.weights > 0, plan.weights, 1.0)))

    def _uncertain(self, context: MethodContext, observed: Observed) -> MethodResult:
        """Fit scores that are noisy or between bounds, in rounds."""
        rows = UncertainRows(context.plan, observed, self._near_rows(context))
        for number in range(_BOUND_ROUNDS):
            result, fitted, near = self._explained(context, rows.plan, rows.scores, rows.certainty)
            settled = rows.update(result.predict(context.plan.keep, context.units), fitted, near)
            if number + 1 >= _NOISE_ROUNDS and settled:
                break
        plan, known = context.plan, rows.known
        if not known.any():  # the scores within the bounds are all there is
            known = ~known
        predicted = result.predict(plan.keep[known], context.units)
        weights = np.where(plan.weights > 0, plan.weights, 1.0)[known]
        return result._replace(r2=explained_share(predicted, observed.scores[known], weights))

    def _near_rows(self, context: MethodContext) -> NDArray[np.bool_]:
        """Return which rows (m,) of the plan the correction near the text is fitted to."""
        removed = (~context.plan.keep).sum(axis=1)
        if not isinstance(self.sampler, TwoScales):
            return np.zeros(len(removed), dtype=bool)
        return np.asarray((removed > 0) & (removed <= self.sampler.reach(len(context.units))))

    def _explained(
        self, context: MethodContext, plan: QueryPlan, scores: Floats, certainty: Certainty | None = None
    ) -> tuple[MethodResult, Fit, NearFit | None]:
        """Fit all parts of the surrogate; return the result without its R2, the fit of the first part and the correction.

        Args:
            context: The text.
            plan: The rows to fit, those of `context` or some of them, with their weights.
            scores: Their scores.
            certainty: How well scores are known; None: exactly.
        """
        units = context.units
        far = plan.weights > 0
        if certainty is not None:
            far |= ~plan.keep.any(axis=1)  # an empty text calls for a background, also where its score is not known
        weights = None if certainty is None else certainty.far[far]
        rows = _FarRows(units.shared if self.shared else units, plan.keep[far], plan.weights[far], context.seed, weights)
        fitted, length = self._fitted(scores[far], rows, context.fitted)
        if rows.units is not units:
            rows, fitted, length = self._told_apart(rows, fitted, length, scores[far])
        found = None
        if isinstance(self.sampler, TwoScales) and isinstance(fitted.model, Slalom) and context.pairs:
            found, fitted, length = self._with_pairs(fitted, length, scores[far], rows)
        types = rows.units.type_of_unit
        model = fitted.model if rows.units.own else fitted.model.repeated(types)
        result = MethodResult(
            _with_parts(model, units, pairs=found) if found is not None and isinstance(model, Slalom) else model,
            length,
            diagnosis=fitted.diagnosis,
            values_se=None if fitted.values_se is None else fitted.values_se[types],
            importances_se=None if fitted.importances_se is None else fitted.importances_se[types],
            pairs_se=None if found is None else found.errors,
        )
        result, near = _with_pair_errors(_with_errors(result, fitted, rows, scores[far]), found), None
        if (2 * plan.keep.sum(axis=1) > len(units)).all():  # deletions say nothing of small subsets (docs/results/core.md)
            result = result._replace(shapley_se=None)
        if isinstance(self.sampler, TwoScales) and isinstance(model, Slalom):
            reach, weights = self.sampler.reach(len(units)), None if certainty is None else certainty.near
            result, near = _corrected(result, model, plan.keep, scores, units, reach, found, weights)
        return result, fitted, near

    def _told_apart(
        self, rows: "_FarRows", fitted: Fit, length: Lengths | None, scores: Floats
    ) -> tuple["_FarRows", Fit, Lengths | None]:
        """Fit again with parameters of their own for units that differ from equal ones, as long as that raises the evidence.

        For a short text, where a fit takes little time, all are given their own and the better of both fits is kept.
        """
        if len(rows.units) <= _SHORT and _leaves_something(fitted):
            own = rows.with_types(np.arange(len(rows.units)))
            alone = self._fitted(scores, own)
            if _expected_loss(alone[0]) < _CLOSER * _expected_loss(fitted):
                return own, *alone
        for _ in range(_SHARING_ROUNDS):
            types = None
            if _leaves_something(fitted):
                types = told_apart(rows.keep, rows.units.type_of_unit, rows.left(scores, fitted, length), rows.weights)
            if types is None:
                break
            apart = rows.with_types(types)
            trial = self._fitted(scores, apart)
            if not _evidence(trial[0]) > _evidence(fitted):
                break
            rows, (fitted, length) = apart, trial
        return rows, fitted, length

    def _with_pairs(
        self, fitted: Fit, length: Lengths | None, scores: Floats, rows: "_FarRows"
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

    def _straight_pairs(self, scores: Floats, rows: "_FarRows") -> FoundPairs:
        """Return the strongest pairs beside a linear model, whose weights cannot hide a pair."""
        line = fit(rows.counts, scores, Linear(), weights=rows.weights)
        found = find_pairs(rows.keep, rows.left(scores, line, None), rows.reading(scores, line))
        return found.chosen(np.arange(len(found.units)) < _STRAIGHT_PAIRS)

    def _settled(self, starts: list[FoundPairs], scores: Floats, rows: "_FarRows") -> tuple[FoundPairs, Fit, Lengths | None]:
        """Fit the surrogate and the effects of pairs in alternation, from the best of some starts.

        A step that leaves more of the scores unexplained is halved. Pairs that are not told from zero are dropped.
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

    def _beside(self, pairs: FoundPairs, scores: Floats, rows: "_FarRows") -> "_Beside":
        """Fit the surrogate beside pairs."""
        alone = scores - pairs.predict(rows.keep)
        fitted, length = self._fitted(alone, rows)
        residual = rows.left(alone, fitted, length)
        with np.errstate(over="ignore", invalid="ignore"):
            square = (residual**2).reshape(len(residual), -1).sum(axis=1)
            misfit = float(np.average(square, weights=rows.weights))
        return _Beside(pairs, fitted, length, residual, misfit)

    def _fitted(self, scores: Floats, rows: "_FarRows", first: Fit | None = None) -> tuple[Fit, Lengths | None]:
        """Fit the surrogate and, in alternation, the effect of the input length to its residuals.

        The first fit may be there already.
        """
        if first is not None and not self.lengths:
            return first, None
        counts, fitter, weights = rows.counts, self.fitter.seeded(rows.seed), rows.weights
        fitted, length = fit(counts, scores, fitter, weights=weights) if first is None else first, None
        sizes, longest = rows.units.lengths(rows.keep), int(rows.units.sizes.sum())
        for left in reversed(range(self.lengths)):
            length = fit_lengths(sizes, scores - fitted.model(counts), longest, rows.certainty)
            if length is None or not left:
                break
            fitted = fit(counts, scores - length(sizes), fitter, weights=weights)
        return fitted, length


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
class _FarRows:
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

    def with_types(self, types: NDArray[np.int64]) -> "_FarRows":
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


def _corrected(
    result: MethodResult,
    model: Slalom,
    keep: NDArray[np.bool_],
    scores: Floats,
    units: Units,
    reach: int,
    pairs: FoundPairs | None,
    weights: Floats | None,
) -> tuple[MethodResult, NearFit | None]:
    """Return a result with the correction near the text, up to `reach` units removed; as it is where rows are too few."""
    removed = (~keep).sum(axis=1)
    residual, own = scores - result.predict(keep, units), -result.removal(units)
    near = None
    if weights is None or not removed[0]:  # without a score of the whole text nothing says where the correction begins
        close = (removed > 0) & (removed <= reach)
        near = fit_near(keep, residual, close, own, units.type_of_unit, units.sizes, weights)
    if near is None:
        return result, None
    lengths = result.lengths if near.lengths is None else near.lengths.plus(result.lengths)
    removal_se, gradient_se = near.removal_se, near.gradient_se
    if weights is not None:
        fade = (1.0 - units.sizes / units.sizes.sum()) ** near.power
        removal_se = _with_own(removal_se, result.removal_se, fade, near.told)
        gradient_se = _with_own(gradient_se, result.gradient_se, np.ones(len(fade)), near.told)
    surrogate, whole = _with_parts(model, units, near, pairs), np.ones(len(units))
    # The rows tell what whole units do. How the correction falls within a unit is assumed: another power says otherwise.
    within = surrogate.near.gradient(whole) - surrogate.near.removal(whole)
    removal_error, gradient_error = _with_slope(
        removal_se, np.hypot(gradient_se, within), near.lengths or result.lengths, units
    )
    return result._replace(surrogate=surrogate, lengths=lengths, removal_se=removal_error, gradient_se=gradient_error), near


def _with_own(near: Floats, own: Floats | None, fade: Floats, told: Floats) -> Floats:
    """Return standard errors of corrected scores, with those of the surrogate as far as noisy rows do not tell the correction.

    A prior that the noise makes narrow removes the share 1 - told of a correction, and says that nothing is left to correct.
    But what it removes is the error of the surrogate itself.

    Args:
        near: Errors by the correction alone, (n,) or (n, n_classes).
        own: Errors of the surrogate's scores; None: not known.
        fade: What the correction is multiplied with, (n,).
        told: Share of the correction that the rows tell, (n,).
    """
    if own is None:
        return near
    left, seen = ((part * error.T).T for part, error in ((1.0 - fade * told, own), (np.sqrt(told), near)))
    return np.maximum(near, np.hypot(left, seen))


def _deviation(scores: Floats, weights: Floats | None) -> float:
    """Return the standard deviation of scores, those of all classes taken together."""
    if weights is None:
        return float(scores.std())
    mean = np.average(scores, axis=0, weights=weights)
    return float(np.sqrt(np.average(((scores - mean) ** 2).reshape(len(scores), -1).mean(axis=1), weights=weights)))


def _with_parts(model: Slalom, units: Units, near: NearFit | None = None, pairs: FoundPairs | None = None) -> TwoScale:
    """Return a Slalom with a correction near the text and pairs."""
    changes = np.zeros_like(model.values) if near is None else near.changes
    level = changes.sum(axis=0) if near is None else near.offset + changes.sum(axis=0)
    both, effects = ((), ()) if pairs is None else (pairs.units, pairs.effects)
    power, shifts = (1, None) if near is None else (near.power, near.shifts)
    return TwoScale(model, level, changes, units.sizes / units.sizes.sum(), power, both, effects, shifts)


def _with_errors(result: MethodResult, fitted: Fit, rows: _FarRows, scores: Floats) -> MethodResult:
    """Return a result with the standard errors of the scores of all units; as it is where the fitter has none.

    Removal and gradient include those of the effect of the length, which is the same for all units of one size. Over a Shapley
    value it is averaged over all lengths, where it is well determined.

    Args:
        result: The result of the fit, with the effect of the length.
        fitted: The fit of one set of parameters for each type of unit.
        rows: The rows that were fitted.
        scores: Their scores.
    """
    if fitted.posterior is None:
        return result
    units, length = rows.units, result.lengths
    types, posterior = units.type_of_unit, fitted.posterior
    residual = scores - result.predict(rows.keep, units)
    factor = posterior.misfit_factor(rows.counts, residual, rows.weights, fitted.free or 1.0)
    errors = posterior.errors(np.bincount(types, minlength=units.n_types), factor)
    linear, gradient, removal, shapley = (None if error is None else error[types] for error in errors)
    removal, gradient = _with_slope(removal, gradient, length, units)
    return result._replace(linear_se=linear, gradient_se=gradient, removal_se=removal, shapley_se=shapley)


def _with_pair_errors(result: MethodResult, pairs: FoundPairs | None) -> MethodResult:
    """Return a result with errors of Shapley values that have those of pairs: each unit of a pair gets half of its effect."""
    if pairs is None or result.shapley_se is None:
        return result
    variance = result.shapley_se**2
    for unit in pairs.units.T:
        np.add.at(variance, unit, (0.5 * pairs.errors) ** 2)
    return result._replace(shapley_se=np.sqrt(variance))


def _with_slope(
    removal: Floats | None, gradient: Floats | None, length: Lengths | None, units: Units
) -> tuple[Floats | None, Floats | None]:
    """Return the standard errors of removal and gradient with those of the effect of the length."""
    slope_se = None if length is None else length.slope_se
    if slope_se is None:
        return removal, gradient
    wide, long = (  # b is a random walk over short distances
        None if error is None else np.hypot(error, (slope_se * units.sizes**power).reshape(-1, *[1] * (error.ndim - 1)))
        for error, power in ((removal, 0.5), (gradient, 1.0))
    )
    return wide, long


OURS = (
    SurrogateMethod(
        "joint",
        TwoScales(),
        Joint(),
        lengths=1,
        shared=True,
        summary="SLALOM for subsets of every size, corrected near the text",
    ),
    SurrogateMethod("local", Deletions(), Joint(), lengths=2, summary="the same on 1 to 10 units removed: small changes only"),
    SurrogateMethod("eff", Pairs(), Sgd(), unit="type", check=20, summary="the paper's SLALOM-eff: pairs of tokens, fast"),
    SurrogateMethod(
        "fidel",
        Deletions(most=5, repeats=True),
        Alternating(once=True, floor=0.1),
        unit="type",
        summary="the paper's SLALOM-fidel: up to 5 tokens removed",
    ),
)
# joint for few units: there a deletion is no small change, and its score tells of the whole surrogate.
FEW_UNITS, JOINT_OF_FEW = 12, replace(OURS[0], sampler=TwoScales(near_weight=1.0))
RIDGE = (
    SurrogateMethod("ridge", Deletions(), Linear(), summary="ridge regression on 1 to 10 units removed"),
    SurrogateMethod("ridge-scales", Scales(), Linear(), summary="ridge regression on subsets of every size"),
)
