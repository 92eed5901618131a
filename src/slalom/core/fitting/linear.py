"""Ridge regression, the strongest linear peer: an additive surrogate whose strength the evidence chooses.

    y = b + sum_i c_i e_i + noise,    e_i ~ N(0, tau^2)

tau and the noise maximise the probability of the data with the effects integrated out, as `Joint` has it in its linear limit.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy.linalg import helmert

from slalom.core.additive import Additive
from slalom.core.base import Surrogate
from slalom.core.fitting.backend import backend
from slalom.core.fitting.problem import Fit, Fitter, Problem, all_finite, sound
from slalom.core.fitting.ridge import ridge


@final
@dataclass(frozen=True)
class Linear(Fitter):
    """Fit an Additive by ridge regression."""

    surrogate: ClassVar[type[Surrogate]] = Additive

    def solve(self, problem: Problem) -> Fit:
        """Return the ridge regression of the rows that have a weight."""
        seen = problem.weights > 0
        several = problem.scores.ndim == 2
        basis = helmert(problem.scores.shape[1]).T if several else np.ones((1, 1))
        scores = (problem.scores if several else problem.scores[:, None])[seen] @ basis
        if problem.steady or problem.rows_alike:
            return problem.constant(kind=self.surrogate)
        on = backend("cpu")
        line = ridge(on.asarray(problem.counts[seen]), scores, problem.weights[seen] / problem.weights[seen].mean(), on)
        slopes, base = line.slopes @ basis.T, (line.level - line.centre @ line.slopes) @ basis.T
        if not all_finite(slopes, base):
            raise ArithmeticError("the ridge regression has left the range of floats")
        model = Additive(slopes, base) if several else Additive(slopes[:, 0], base[0])
        return sound(problem.fitted(model, converged=True, iterations=1))
