"""Our methods and those of the paper: a sampler chooses the queries, a fitter turns their scores into a surrogate.

joint   TwoScales + Joint           subsets of every size, then a correction next to the text (`TwoScale`)
local   Deletions + Joint           1 to 10 units removed: most faithful near the text
eff     Pairs + Sgd                 the paper's SLALOM-eff, equal tokens share their parameters
fidel   Deletions + Alternating     the paper's SLALOM-fidel, likewise
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from slalom.core import Alternating, Fit, Fitter, Joint, Lengths, Linear, Sgd, Slalom, TwoScale, fit, fit_lengths
from slalom.core.checks import Floats
from slalom.core.fitting.near import fit_near
from slalom.core.fitting.problem import explained_share
from slalom.methods.base import Method, MethodContext, MethodResult
from slalom.text import Deletions, Pairs, QueryPlan, Sampler, Scales, TwoScales, Units


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

    def explain(self, context: MethodContext) -> MethodResult:
        """Fit the surrogate, the effect of the input length and, with rows of `TwoScales`, the correction near the text."""
        plan, units, scores = context.plan, context.units, context.scores
        far = plan.weights > 0
        fitted, length = self._fitted(units, plan.keep[far], scores[far], plan.weights[far], context.seed)
        types = units.type_of_unit
        model = fitted.model if units.n_types == len(units) else fitted.model.repeated(types)
        result = MethodResult(
            model,
            length,
            diagnosis=fitted.diagnosis,
            values_se=None if fitted.values_se is None else fitted.values_se[types],
            importances_se=None if fitted.importances_se is None else fitted.importances_se[types],
        )
        if isinstance(self.sampler, TwoScales) and isinstance(model, Slalom):
            result = _corrected(result, model, plan.keep, scores, units, self.sampler.reach(len(units)))
        predicted = result.predict(plan.keep, units)
        return result._replace(r2=explained_share(predicted, scores, np.where(far, plan.weights, 1.0)))

    def _fitted(
        self, units: Units, keep: NDArray[np.bool_], scores: Floats, weights: Floats, seed: int
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
    result: MethodResult, model: Slalom, keep: NDArray[np.bool_], scores: Floats, units: Units, reach: int
) -> MethodResult:
    """Return a result with the correction near the text, up to `reach` units removed; as it is where rows are too few."""
    removed = (~keep).sum(axis=1)
    changes = -result.removal(units)
    residual = scores - result.predict(keep, units)
    near = fit_near(keep, residual, (removed > 0) & (removed <= reach), changes, units.type_of_unit, units.sizes)
    if near is None:
        return result
    shares = units.sizes / units.sizes.sum()
    surrogate = TwoScale(model, near.offset + near.changes.sum(axis=0), near.changes, shares, near.power)
    lengths = result.lengths if near.lengths is None else near.lengths.plus(result.lengths)
    fade = ((1.0 - shares) ** near.power * near.changes_se.T).T
    return result._replace(surrogate=surrogate, lengths=lengths, removal_se=fade, gradient_se=near.changes_se)


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
RIDGE = (
    SurrogateMethod("ridge", Deletions(), Linear(), summary="ridge regression on 1 to 10 units removed"),
    SurrogateMethod("ridge-scales", Scales(), Linear(), summary="ridge regression on subsets of every size"),
)
