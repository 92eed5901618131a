"""The methods of the paper, and ridge regression: a sampler chooses the queries, a fitter turns their scores into a surrogate.

eff     Pairs + Sgd                 the paper's SLALOM-eff, equal tokens share their parameters
fidel   Deletions + Alternating     the paper's SLALOM-fidel, likewise
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from slalom.core import Alternating, Fitter, Linear, Sgd, fit
from slalom.methods.base import Method, MethodContext, MethodResult
from slalom.text import Deletions, Pairs, QueryPlan, Sampler, Scales, Units


@final
@dataclass(frozen=True)
class SurrogateMethod(Method):
    """Fits a surrogate to the scores of sampled queries.

    Args:
        name: Name of the method.
        sampler: Chooses the queries.
        fitter: Fits the surrogate.
        unit: Default unit.
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
    check: int = 100
    summary: str = ""
    plans_all: ClassVar[bool] = True

    def plan(self, units: Units, budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        return self.sampler.draw(units.type_of_unit, budget, rng, empty)

    def explain(self, context: MethodContext) -> MethodResult:
        plan, types = context.plan, context.units.type_of_unit
        scores, weights = context.scores, plan.weights
        if context.observed is not None:  # the paper's fits take numbers: scores between bounds count as nothing
            scores = context.observed.start()
            known = context.observed.known
            weights = np.where(known, weights, 0.0) if (known & (weights > 0)).any() else weights
        fitted = fit(context.units.counts(plan.keep), scores, self.fitter.seeded(context.seed), weights=weights)
        model = fitted.model
        if not context.units.own:
            model = model.repeated(types)
        errors = {"value": fitted.values_se, "importance": fitted.importances_se}
        known_errors = {name: error[types] for name, error in errors.items() if error is not None}
        return MethodResult(model, fitted.r2, fitted.diagnosis, known_errors)


PAPER = (
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
