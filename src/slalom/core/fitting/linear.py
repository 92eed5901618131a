"""Ridge regression, the linear baseline: an additive surrogate with the regularisation chosen by the evidence.

    y = b + sum_i c_i e_i + noise,    e_i ~ N(0, tau^2)

tau and the noise maximise the probability of the data with the effects integrated out.
"""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from scipy.linalg import helmert

from slalom.core.additive import Additive
from slalom.core.base import Surrogate
from slalom.core.fitting.problem import Fit, Fitter, Problem, all_finite, sound
from slalom.core.fitting.ridge import ridge


@final
@dataclass(frozen=True)
class Linear(Fitter):
    """Fits an `Additive` by ridge regression; nothing needs to be set.

    Example:
        >>> from slalom.core import fit
        >>> counts = np.random.default_rng(0).integers(0, 2, (50, 3))
        >>> fit(counts, counts @ [1.0, -2.0, 0.5], Linear()).model.effects.round(4).tolist()
        [1.0, -2.0, 0.5]
    """

    surrogate: ClassVar[type[Surrogate]] = Additive

    def solve(self, problem: Problem) -> Fit:
        weighted = problem.weights > 0
        several = problem.scores.ndim == 2
        basis = helmert(problem.scores.shape[1]).T if several else np.ones((1, 1))
        scores = (problem.scores if several else problem.scores[:, None])[weighted] @ basis
        if problem.steady or problem.rows_alike:
            return problem.constant(kind=self.surrogate)
        weights = problem.weights[weighted]
        line = ridge(problem.counts[weighted], scores, weights / weights.mean())
        slopes, base = line.slopes @ basis.T, (line.level - line.centre @ line.slopes) @ basis.T
        if not all_finite(slopes, base):
            raise ArithmeticError("the ridge regression has left the range of floats")
        model = Additive(slopes, base) if several else Additive(slopes[:, 0], base[0])
        return sound(problem.fitted(model, converged=True, iterations=1))
