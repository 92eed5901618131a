"""Fit a Slalom to counts and scores: one algorithm a file, one function for all."""

from contextlib import suppress

import numpy as np
from numpy.typing import ArrayLike

from slalom.core.checks import Counts
from slalom.core.fitting._arrays.backend import release_memory
from slalom.core.fitting.alternating import Alternating
from slalom.core.fitting.joint import Joint
from slalom.core.fitting.linear import Linear
from slalom.core.fitting.problem import FALLBACK, Fit, Fitter, Problem
from slalom.core.fitting.sgd import Sgd

__all__ = ["Alternating", "Fit", "Fitter", "Joint", "Linear", "Sgd", "fit", "release_memory"]

_FAILED = f"{FALLBACK} the fit failed numerically; every unit has the mean score instead."


def fit(counts: Counts, scores: ArrayLike, fitter: Fitter | None = None, weights: ArrayLike | None = None) -> Fit:
    """Fit a Slalom to scores (m,) or (m, n_classes) of counts (m, n_units); the default fitter is `Joint()`.

    Counts may be a sparse array of scipy. Scores of several classes are logits (or log probabilities) and are centred over the
    classes first. Weights (m,) say how much a row counts.

    Any finite scores give a fit with finite parameters, predictions of the rows and r2. Where that takes a simpler model than
    the fitter's, `Fit.diagnosis` says so.

    >>> import numpy as np
    >>> from slalom.core import Slalom
    >>> truth = Slalom([2.0, -1.0, 0.5], [0.3, -0.3, 0.0])
    >>> counts = np.random.default_rng(0).integers(0, 3, (50, 3)) + np.eye(3)[np.arange(50) % 3]
    >>> found = fit(counts, truth(counts))
    >>> found.converged, np.allclose(found.model.values, truth.values, atol=1e-6)
    (True, True)
    """
    fitter = Joint() if fitter is None else fitter
    problem = Problem.of(counts, scores, weights)
    power = problem.power
    problem, found = problem.scaled(power), None
    with suppress(ArithmeticError, np.linalg.LinAlgError), np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        found = fitter.solve(problem)
    if found is None or not np.isfinite(found.loss):
        found = problem.constant(_FAILED, additive=isinstance(fitter, Linear))
    return problem.unscaled(found, power)
