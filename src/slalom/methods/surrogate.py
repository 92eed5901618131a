"""Our methods and those of the paper: a sampler chooses the queries, a fitter turns their scores into a surrogate.

joint   Scales + Joint              subsets of every size, background, link
local   Deletions + Joint           1 to 10 units removed: most faithful near the text
eff     Pairs + Sgd                 the paper's SLALOM-eff, equal tokens share their parameters
fidel   Deletions + Alternating     the paper's SLALOM-fidel, likewise
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from slalom.core import Alternating, Fit, Fitter, Joint, Lengths, Linear, Sgd, fit, fit_lengths
from slalom.core.checks import Floats
from slalom.core.fitting.problem import explained_share
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
        """Fit the surrogate and, in alternation, the effect of the input length to its residuals."""
        plan, units, scores = context.plan, context.units, context.scores
        counts, fitter = units.counts(plan.keep), self.fitter.seeded(context.seed)
        fitted, length = fit(counts, scores, fitter, weights=plan.weights), None
        r2, types = fitted.r2, units.type_of_unit
        if self.lengths:
            sizes, longest, rounds = units.lengths(plan.keep), int(units.sizes.sum()), self.lengths
            while True:
                predicted = fitted.model(counts)
                length = fit_lengths(sizes, scores - predicted, longest)
                rounds -= 1
                if length is None or not rounds:
                    break
                fitted = fit(counts, scores - length(sizes), fitter, weights=plan.weights)
            r2 = explained_share(predicted if length is None else predicted + length(sizes), scores, plan.weights)
        return MethodResult(
            fitted.model if units.n_types == len(units) else fitted.model.repeated(types),
            length,
            r2,
            fitted.diagnosis,
            None if fitted.values_se is None else fitted.values_se[types],
            None if fitted.importances_se is None else fitted.importances_se[types],
            **score_errors(fitted, units, length),
        )


def score_errors(fitted: Fit, units: Units, length: Lengths | None) -> dict[str, Floats | None]:
    """Return the standard errors of the scores of all units, as fields of a `MethodResult`; none where the fitter has none.

    Removal and gradient include those of the effect of the length, which is the same for all units of one size. Over a Shapley
    value it is averaged over all lengths, where it is well determined.

    Args:
        fitted: The fit of one set of parameters for each type of unit.
        units: The units of the text.
        length: The effect of the length; None: no effect.
    """
    if fitted.posterior is None:
        return {}
    types = units.type_of_unit
    errors = fitted.posterior.errors(np.bincount(types, minlength=units.n_types))
    fields = {f"{name}_se": None if error is None else error[types] for name, error in errors._asdict().items()}
    if length is not None and length.slope_se is not None:
        for name, power in (("removal_se", 0.5), ("gradient_se", 1.0)):  # b is a random walk over short distances
            error = fields[name]
            if error is not None:
                more = length.slope_se * units.sizes**power
                fields[name] = np.hypot(error, more if error.ndim == 1 else more[:, None])
    return fields


OURS = (
    SurrogateMethod("joint", Scales(), Joint(), lengths=1, summary="SLALOM with background and link, subsets of every size"),
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
