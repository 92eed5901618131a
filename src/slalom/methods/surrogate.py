"""Our methods and those of the paper: a sampler chooses the queries, a fitter turns their scores into a surrogate.

joint   TwoScales + Joint           subsets of every size, then a correction next to the text (`TwoScale`)
local   Deletions + Joint           1 to 10 units removed: most faithful near the text
eff     Pairs + Sgd                 the paper's SLALOM-eff, equal tokens share their parameters
fidel   Deletions + Alternating     the paper's SLALOM-fidel, likewise
"""

from dataclasses import dataclass, replace
from typing import final

import numpy as np
from numpy.typing import NDArray

from slalom.core import Alternating, Fit, Fitter, Joint, Lengths, Linear, Sgd, Slalom, TwoScale, fit, fit_lengths
from slalom.core.checks import Floats
from slalom.core.fitting.near import NearFit, fit_near
from slalom.core.fitting.pairs import FoundPairs, find_pairs
from slalom.core.fitting.problem import explained_share
from slalom.methods.base import Method, MethodContext, MethodResult
from slalom.text import Answered, Deletions, Pairs, QueryPlan, Sampler, Scales, TwoScales, Units

_LEAST_PAIR = 0.05  # of the standard deviation of the scores: weaker pairs are left out
_PAIR_ROUNDS = 4  # fits without the pairs, and of the pairs to what is left; mostly one is enough


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
    check: int = 100
    summary: str = ""

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

    def explain(self, context: MethodContext) -> MethodResult:
        """Fit the surrogate and the effect of the input length; with rows of `TwoScales` also pairs, and the correction."""
        plan, units, scores = context.plan, context.units, context.scores
        far, types = plan.weights > 0, units.type_of_unit
        rows = units, plan.keep[far], plan.weights[far], context.seed
        fitted, length = self._fitted(scores[far], *rows)
        found = None
        if isinstance(self.sampler, TwoScales) and isinstance(fitted.model, Slalom) and context.pairs:
            found, fitted, length = self._with_pairs(fitted, length, scores[far], *rows)
        model = fitted.model if units.n_types == len(units) else fitted.model.repeated(types)
        result = MethodResult(
            _with_parts(model, units, pairs=found) if found is not None and isinstance(model, Slalom) else model,
            length,
            diagnosis=fitted.diagnosis,
            values_se=None if fitted.values_se is None else fitted.values_se[types],
            importances_se=None if fitted.importances_se is None else fitted.importances_se[types],
            pairs_se=None if found is None else found.errors,
        )
        result = _with_errors(result, fitted, units)
        if isinstance(self.sampler, TwoScales) and isinstance(model, Slalom):
            result = _corrected(result, model, plan.keep, scores, units, self.sampler.reach(len(units)), found)
        predicted = result.predict(plan.keep, units)
        return result._replace(r2=explained_share(predicted, scores, np.where(far, plan.weights, 1.0)))

    def _with_pairs(
        self,
        fitted: Fit,
        length: Lengths | None,
        scores: Floats,
        units: Units,
        keep: NDArray[np.bool_],
        weights: Floats,
        seed: int,
    ) -> tuple[FoundPairs | None, Fit, Lengths | None]:
        """Find pairs in the residuals of a fit, and fit again without what they do; None where there are none."""

        def residual(scores: Floats) -> Floats:
            left = scores - fitted.model(units.counts(keep))
            return left if length is None else left - length(units.lengths(keep))

        found = find_pairs(keep, residual(scores), least=_LEAST_PAIR * float(scores.std()))
        if not len(found.units):
            return None, fitted, length
        for _ in range(_PAIR_ROUNDS):
            alone = scores - found.predict(keep)
            fitted, length = self._fitted(alone, units, keep, weights, seed)
            before, found = found, found.updated(keep, residual(alone))
            if (np.abs(found.effects - before.effects) <= found.errors).all():
                break
        return found, fitted, length

    def _fitted(
        self, scores: Floats, units: Units, keep: NDArray[np.bool_], weights: Floats, seed: int
    ) -> tuple[Fit, Lengths | None]:
        """Fit the surrogate and, in alternation, the effect of the input length to its residuals."""
        counts, fitter = units.counts(keep), self.fitter.seeded(seed)
        fitted, length = fit(counts, scores, fitter, weights=weights), None
        sizes, longest = units.lengths(keep), int(units.sizes.sum())
        for left in reversed(range(self.lengths)):
            length = fit_lengths(sizes, scores - fitted.model(counts), longest)
            if length is None or not left:
                break
            fitted = fit(counts, scores - length(sizes), fitter, weights=weights)
        return fitted, length


def _corrected(
    result: MethodResult,
    model: Slalom,
    keep: NDArray[np.bool_],
    scores: Floats,
    units: Units,
    reach: int,
    pairs: FoundPairs | None,
) -> MethodResult:
    """Return a result with the correction near the text, up to `reach` units removed; as it is where rows are too few."""
    removed = (~keep).sum(axis=1)
    residual = scores - result.predict(keep, units)
    near = fit_near(keep, residual, (removed > 0) & (removed <= reach), -result.removal(units), units.type_of_unit, units.sizes)
    if near is None:
        return result
    lengths = result.lengths if near.lengths is None else near.lengths.plus(result.lengths)
    fade = (1.0 - units.sizes / units.sizes.sum()) ** near.power
    return result._replace(
        surrogate=_with_parts(model, units, near, pairs),
        lengths=lengths,
        removal_se=(fade * near.changes_se.T).T,
        gradient_se=near.changes_se,
    )


def _with_parts(model: Slalom, units: Units, near: NearFit | None = None, pairs: FoundPairs | None = None) -> TwoScale:
    """Return a Slalom with a correction near the text and pairs."""
    changes = np.zeros_like(model.values) if near is None else near.changes
    level = changes.sum(axis=0) if near is None else near.offset + changes.sum(axis=0)
    together = () if pairs is None else (pairs.units, pairs.effects)
    return TwoScale(model, level, changes, units.sizes / units.sizes.sum(), 1 if near is None else near.power, *together)


def _with_errors(result: MethodResult, fitted: Fit, units: Units) -> MethodResult:
    """Return a result with the standard errors of the scores of all units; as it is where the fitter has none.

    Removal and gradient include those of the effect of the length, which is the same for all units of one size. Over a Shapley
    value it is averaged over all lengths, where it is well determined.

    Args:
        result: The result of the fit, with the effect of the length.
        fitted: The fit of one set of parameters for each type of unit.
        units: The units of the text.
    """
    if fitted.posterior is None:
        return result
    types, length = units.type_of_unit, result.lengths
    errors = fitted.posterior.errors(np.bincount(types, minlength=units.n_types))
    linear, gradient, removal, shapley = (None if error is None else error[types] for error in errors)
    if length is not None and length.slope_se is not None:  # b is a random walk over short distances
        removal, gradient = (
            None
            if error is None
            else np.hypot(error, (length.slope_se * units.sizes**power).reshape(-1, *[1] * (error.ndim - 1)))
            for error, power in ((removal, 0.5), (gradient, 1.0))
        )
    return result._replace(linear_se=linear, gradient_se=gradient, removal_se=removal, shapley_se=shapley)


OURS = (
    SurrogateMethod(
        "joint", TwoScales(), Joint(), lengths=1, summary="SLALOM for subsets of every size, corrected near the text"
    ),
    SurrogateMethod("local", Deletions(), Joint(), lengths=2, summary="the same on 1 to 10 units removed: best near the text"),
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
