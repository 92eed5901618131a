"""ContextCite: a lasso on random halves of the units.

    minimise over w and b:   sum_k (y_k / t - b - sum_i w_i z_ki)^2 / (2 m) + lambda sum_i |w_i|

Cohen-Wang, Shah, Georgiev, Madry: ContextCite: Attributing Model Generation to Context (arXiv 2409.00729, 2024). Every unit is
kept with probability one half, independently of the others. As the authors do, units are standardised (z), scores are divided
by the number t of tokens of the answer (1 for other models), lambda is 0.01, and the weights are scaled back. Their score is
the logit of the probability of the answer; here it is the score of the model, for an answer its log probability. The two
differ by log(1 - p), which matters where p is near 1. Of `lasso`, the linear model of other comparisons, lambda is chosen by
cross-validation.
"""

import warnings
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from slalom.core import Additive
from slalom.errors import require
from slalom.methods.base import Method, MethodContext, MethodResult
from slalom.models.continuation import Continuation
from slalom.text import Halves, QueryPlan, Units

_FOLDS = 5
_ITERATIONS = 10_000


@final
@dataclass(frozen=True)
class ContextCite(Method):
    """The method of ContextCite: random halves of the units, and a lasso.

    Args:
        strength: lambda. None: by 5-fold cross-validation, as LassoCV of scikit-learn does it.
    """

    strength: float | None = 0.01
    name: str = "context-cite"
    summary: str = "ContextCite: a lasso on random halves of the units"
    extra: ClassVar[str | None] = "sklearn"
    plans_all: ClassVar[bool] = True

    def plan(self, units: Units, budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        return Halves().draw(units.type_of_unit, budget, rng, empty)

    def explain(self, context: MethodContext) -> MethodResult:
        target, model = context.one_class(self.name), context.model
        length = model.parts[model.head.labels[target]].n_tokens if isinstance(model, Continuation) else 1
        keep, scores = context.plan.keep.astype(np.float64), context.scores
        level = float(scores.mean())
        effects = np.zeros(keep.shape[1])
        varied = np.flatnonzero(keep.std(axis=0) > 0.0)
        lasso = self._lasso(len(keep), context.seed % 2**32)
        if len(varied):
            deviation = keep[:, varied].std(axis=0)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # a fit that has not quite converged
                lasso.fit((keep[:, varied] - keep[:, varied].mean(axis=0)) / deviation, (scores - level) / length)
            effects[varied] = lasso.coef_ * length / deviation
        effects = context.shared(effects)
        return MethodResult(Additive(effects, level - float(keep.mean(axis=0) @ effects)))

    def _lasso(self, rows: int, seed: int) -> Any:
        with require(self.name, "sklearn", "scikit-learn"):
            from sklearn.linear_model import Lasso, LassoCV  # noqa: PLC0415
        if self.strength is None and rows >= _FOLDS:
            return LassoCV(cv=_FOLDS, random_state=seed, max_iter=_ITERATIONS)
        strength = ContextCite.strength if self.strength is None else self.strength
        return Lasso(strength, random_state=seed, max_iter=_ITERATIONS)


LASSO = ContextCite(None, "lasso", "a lasso on random halves of the units, by cross-validation: the linear peer of ProxySPEX")
