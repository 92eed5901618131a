"""Our methods and those of the paper: a sampler chooses the queries, a fitter turns their scores into a surrogate.

joint   TwoScales + Joint           subsets of every size, then a correction next to the text (`TwoScale`)
local   Deletions + Joint           1 to 10 units removed: most faithful near the text
eff     Pairs + Sgd                 the paper's SLALOM-eff, equal tokens share their parameters
fidel   Deletions + Alternating     the paper's SLALOM-fidel, likewise

Scores that are noisy or known only between bounds are fitted in a few rounds (`core.fitting.noise`): each round weighs the rows
by how well their scores are known, given the misfit and the predictions of the round before.
"""

from dataclasses import dataclass, replace
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray

from slalom.core import Alternating, Fit, Fitter, Joint, Lengths, Linear, Sgd, Slalom, TwoScale
from slalom.core.checks import Floats
from slalom.core.fitting.near import NearFit, fit_near
from slalom.core.fitting.pairs import FoundPairs
from slalom.core.fitting.problem import explained_share
from slalom.methods.base import Method, MethodContext, MethodResult
from slalom.methods.far import FarFitter, FarRows
from slalom.methods.uncertain import Certainty, UncertainRows
from slalom.models import Observed
from slalom.text import Deletions, Pairs, QueryPlan, Sampler, Scales, TwoScales, Units

_NOISE_ROUNDS = 3  # fits where scores are noisy: the misfit hardly changes afterwards
_BOUND_ROUNDS = 8  # at most, where some are known between bounds


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

    @property
    def finds_pairs(self) -> bool:
        return isinstance(self.sampler, TwoScales)

    def separable(self, n: int, rows: int) -> bool:
        return self.fitter.separable and not self.fitter.is_long(n, rows)

    def seconds(self, n: int, rows: int) -> float:
        return self.fitter.seconds(n, rows)

    def plan(self, units: Units, budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        return self.sampler.draw(units.type_of_unit, budget, rng, empty)

    def explain(self, context: MethodContext) -> MethodResult:
        if context.observed is not None and not context.exact:
            return self._uncertain(context, context.observed)
        return self._explained(context, context.plan, context.scores)[0]

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
        """Fit all parts of the surrogate; return the result without its R2, the fit of the first part and the correction."""
        units = context.units
        far = plan.weights > 0
        if certainty is not None:
            far |= ~plan.keep.any(axis=1)  # an empty text calls for a background, also where its score is not known
        weights = None if certainty is None else certainty.far[far]
        rows = FarRows(units.shared if self.shared else units, plan.keep[far], plan.weights[far], context.seed, weights)
        fitter = FarFitter(self.fitter, self.lengths)
        fitted, length = fitter.fitted(scores[far], rows)
        if rows.units is not units:
            rows, fitted, length = fitter.told_apart(scores[far], rows, fitted, length)
        found = None
        if isinstance(self.sampler, TwoScales) and isinstance(fitted.model, Slalom) and context.pairs:
            found, fitted, length = fitter.with_pairs(scores[far], rows, fitted, length)
        types = rows.units.type_of_unit
        model = fitted.model if rows.units.own else fitted.model.repeated(types)
        result = MethodResult(
            _with_parts(model, units, pairs=found) if found is not None and isinstance(model, Slalom) else model,
            length,
            diagnosis=fitted.diagnosis,
            values_se=None if fitted.values_se is None else fitted.values_se[types],
            importances_se=None if fitted.importances_se is None else fitted.importances_se[types],
        )
        result, near = _with_pair_errors(_with_errors(result, fitted, rows, scores[far]), found), None
        if (2 * plan.keep.sum(axis=1) > len(units)).all():  # deletions say nothing of small subsets (results/core.md)
            result = result._replace(shapley_se=None)
        if isinstance(self.sampler, TwoScales) and isinstance(model, Slalom):
            result, near = _corrected(result, model, plan.keep, scores, units, self.sampler.reach(len(units)), found, certainty)
        return result, fitted, near


def _corrected(
    result: MethodResult,
    model: Slalom,
    keep: NDArray[np.bool_],
    scores: Floats,
    units: Units,
    reach: int,
    pairs: FoundPairs | None,
    certainty: Certainty | None,
) -> tuple[MethodResult, NearFit | None]:
    """Return a result with the correction near the text, up to `reach` units removed; as it is where rows are too few."""
    removed = (~keep).sum(axis=1)
    residual, own = scores - result.predict(keep, units), -result.removal(units)
    weights, noise = (None, 0.0) if certainty is None else (certainty.near, certainty.misfit)
    near = None
    if weights is None or not removed[0]:  # without a score of the whole text nothing says where the correction begins
        close = (removed > 0) & (removed <= reach)
        near = fit_near(keep, residual, close, own, units.type_of_unit, units.sizes, weights, noise)
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
    # Exact scores next to the text tell the effect of the length there with the rest: of its variance the untold share is left.
    open_share = np.sqrt(1.0 - near.told) if weights is None else np.ones(len(units))
    removal_error, gradient_error = _with_slope(
        removal_se, np.hypot(gradient_se, within), near.lengths or result.lengths, units, open_share
    )
    return result._replace(surrogate=surrogate, lengths=lengths, removal_se=removal_error, gradient_se=gradient_error), near


def _with_own(near: Floats, own: Floats | None, fade: Floats, told: Floats) -> Floats:
    """Return standard errors of corrected scores, with those of the surrogate as far as noisy rows do not tell the correction.

    A prior that the noise makes narrow removes the share 1 - told of a correction, and says that nothing is left to correct.
    But what it removes is the error of the surrogate itself.
    """
    if own is None:
        return near
    left, seen = ((part * error.T).T for part, error in ((1.0 - fade * told, own), (np.sqrt(told), near)))
    return np.maximum(near, np.hypot(left, seen))


def _with_parts(model: Slalom, units: Units, near: NearFit | None = None, pairs: FoundPairs | None = None) -> TwoScale:
    """Return a Slalom with a correction near the text and pairs."""
    changes = np.zeros_like(model.values) if near is None else near.changes
    level = changes.sum(axis=0) if near is None else near.offset + changes.sum(axis=0)
    both, effects = ((), ()) if pairs is None else (pairs.units, pairs.effects)
    power, shifts = (1, None) if near is None else (near.power, near.shifts)
    return TwoScale(model, level, changes, units.sizes / units.sizes.sum(), power, both, effects, shifts)


def _with_errors(result: MethodResult, fitted: Fit, rows: FarRows, scores: Floats) -> MethodResult:
    """Return a result with the standard errors of the scores of all units; as it is where the fitter has none.

    Removal and gradient include those of the effect of the length, which is the same for all units of one size. Over a Shapley
    value it is averaged over all lengths, where it is well determined.
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
    removal: Floats | None, gradient: Floats | None, length: Lengths | None, units: Units, share: Floats | float = 1.0
) -> tuple[Floats | None, Floats | None]:
    """Return the standard errors of removal and gradient with that of the effect of the length, or the share (n,) of it."""
    slope_se = None if length is None else length.slope_se
    if slope_se is None:
        return removal, gradient
    wide, long = (  # b is a random walk over short distances
        None if error is None else np.hypot(error, (share * slope_se * units.sizes**power).reshape(-1, *[1] * (error.ndim - 1)))
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
