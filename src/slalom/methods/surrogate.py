"""Our methods and the paper's: a sampler chooses what is asked, a fitter turns the answers into a surrogate.

joint   Scales + Joint              subsets of every size, background, link
local   Deletions + Joint           1 to 10 units removed: most faithful near the text
eff     Pairs + Sgd                 the paper's SLALOM-eff, equal tokens share their parameters
fidel   Deletions + Alternating     the paper's SLALOM-fidel, likewise
"""

from dataclasses import dataclass
from typing import final

import numpy as np

from slalom.core import Alternating, Fitter, Joint, Linear, Sgd, fit, fit_lengths
from slalom.core.fitting.problem import explained_share
from slalom.methods.base import Method, MethodContext, MethodResult
from slalom.text import Deletions, Pairs, QueryPlan, Sampler, Scales, Units


@final
@dataclass(frozen=True)
class SurrogateMethod(Method):
    """Fits a surrogate to the answers to a plan of queries.

    Args:
        name: What it is called.
        sampler: What is asked.
        fitter: How it is fitted.
        unit: The unit that it takes by default.
        lengths: Rounds of length-offset fitting; 0 disables it.
        check: How many further queries test the fit at most, by default.
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
        """Let the sampler choose."""
        return self.sampler.draw(units.type_of_unit, budget, rng, empty)

    def explain(self, context: MethodContext) -> MethodResult:
        """Fit the surrogate, and the effect of the length to what it leaves over, in turn."""
        plan, units, scores = context.plan, context.units, context.scores
        counts, fitter = units.counts(plan.keep), self.fitter.seeded(context.seed)
        found, length = fit(counts, scores, fitter, weights=plan.weights), None
        r2, own = found.r2, units.type_of_unit
        if self.lengths:
            sizes, longest, turns = units.lengths(plan.keep), int(units.sizes.sum()), self.lengths
            while True:
                guess = found.model(counts)
                length = fit_lengths(sizes, scores - guess, longest)
                turns -= 1
                if length is None or not turns:
                    break
                found = fit(counts, scores - length(sizes), fitter, weights=plan.weights)
            r2 = explained_share(guess if length is None else guess + length(sizes), scores, plan.weights)
        return MethodResult(
            found.model if units.n_types == len(units) else found.model.repeated(own),
            length,
            r2,
            found.diagnosis,
            None if found.values_se is None else found.values_se[own],
            None if found.importances_se is None else found.importances_se[own],
        )


OURS = (
    SurrogateMethod("joint", Scales(), Joint(), lengths=1, summary="SLALOM with background and link, subsets of every size"),
    SurrogateMethod(
        "local", Deletions(), Joint(), lengths=2, summary="the same from 1 to 10 units removed: best near the text"
    ),
    SurrogateMethod("eff", Pairs(), Sgd(), unit="type", check=20, summary="the paper's SLALOM-eff: pairs of tokens, quick"),
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
