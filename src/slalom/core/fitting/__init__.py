"""Fit a Slalom to counts and scores: one file per algorithm, one function for all.

`joint` is slalom's own, with `kernels` for what its formula leaves and `noise` for uncertain scores; others are the paper's.
"""

from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike

from slalom.core.checks import Counts
from slalom.core.fitting.alternating import Alternating
from slalom.core.fitting.joint import Joint
from slalom.core.fitting.linear import Linear
from slalom.core.fitting.problem import FALLBACK, Fit, Fitter, Problem
from slalom.core.fitting.sgd import Sgd

__all__ = ["Alternating", "Fit", "Fitter", "Joint", "Linear", "Sgd", "fit"]


_FAILED = f"{FALLBACK} the fit failed numerically; every unit has the mean score instead."


def fit(counts: Counts, scores: ArrayLike, fitter: Fitter | None = None, weights: ArrayLike | None = None) -> Fit:
    """Fit a surrogate to the scores that a model gives to inputs.

    Any finite scores give a fit with finite parameters, predictions of the rows and R2. Where that takes a simpler model than
    the fitter's, `Fit.diagnosis` says so.

    Args:
        counts: How often each unit is in each input, (m, n_units); an array or a sparse array of scipy.
        scores: Scores (m,), or (m, n_classes): logits or log probabilities, which are centred over the classes first.
        fitter: The algorithm. Default: `Joint()`.
        weights: Weights (m,) of the rows, not negative. Default: all equal.

    Returns:
        The fitted model with its loss, R2, standard errors and diagnosis.

    Raises:
        InputError: If shapes or values are out of range, or if the fitter cannot take these data.

    Example:
        >>> import numpy as np
        >>> from slalom.core import Slalom
        >>> truth = Slalom([2.0, -1.0, 0.5], [0.3, -0.3, 0.0])
        >>> counts = np.random.default_rng(0).integers(0, 3, (50, 3)) + np.eye(3)[np.arange(50) % 3]
        >>> result = fit(counts, truth(counts))
        >>> bool(result.r2 > 0.999)
        True
    """
    problem, fitter = Problem.of(counts, scores, weights), Joint() if fitter is None else fitter
    with suppress(ArithmeticError, np.linalg.LinAlgError), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        result = fitter.solve(problem)
        if np.isfinite(result.loss):
            return result
    return problem.constant(_FAILED, kind=fitter.surrogate)
