"""Alternating least squares, the paper's Algorithm 2 (SLALOM-fidel), made exact on noise-free data.

    v step    v = argmin_v  sum_k weight_k |sum_j a_kj v_j - y_k|^2,    a_kj = c_kj w_j / D_k,    w = exp(s)
    s step    w = argmin_w  sum_k weight_k |sum_j c_kj w_j (v_j - y_k)|^2 / D_k^2,    w_j >= floor, mean w = 1

y are the scores and D_k = sum_j c_kj w_j with the w before the step. What departs from the paper, and why:

- Its s step, equation 76, has no D_k, so that long rows dominate. With D_k the linearised residual is the
  true one at the current s.
- Its s step keeps v fixed; then v and s hold each other back, and hundreds of rounds are not enough. Here v
  follows: what a change of v would repair is projected out of the residual first. Noise-free data then need
  one round, and a second one for the last digits.
- With noise, 76 has its minimum elsewhere than the true loss. When its step no longer helps, Gauss-Newton
  steps on the true residual follow: the same bounded least squares, with the fitted F_k in the place of y_k.
- A step counts only if the true loss after the v step falls; else Gauss-Newton steps are cut, and given up at
  last. So the model returned is the best one seen.
- Its constraint 79, |w|_1 >= n, is there to exclude w = 0. A factor on w cancels, so the mean of w is held
  at one.
- The scores are centred first: a constant added to them moves all values alike. Where the data leave values
  open, those nearest to the mean score are returned (minimum norm); where they leave s open, it moves as
  little as it can.

There is no background and no link: an empty row has no value, and a linear model is out of reach, as a unit
has the same score alone and repeated (`Joint` has both).
"""

from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from scipy.optimize import nnls

from slalom.core.checks import Floats
from slalom.core.fitting.problem import Fit, Fitter, Problem
from slalom.core.surrogate import Slalom
from slalom.errors import InputError

# How much an s step prefers not to move, relative to the size of its matrix.
_INERTIA = 1e-7


@final
@dataclass(frozen=True)
class Alternating(Fitter):
    """Alternate v steps and s steps until the loss stops falling.

    max_iterations: at most so many s steps. tolerance: a step must lower the loss by more than this fraction,
    and the fit has converged when none does. floor: the least exp(s) of a unit, relative to the mean of
    exp(s).

    >>> truth = Slalom(values=[1.0, -2.0, 0.5], importances=[0.3, 0.7, -1.0])
    >>> counts = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1]]
    >>> fit = Alternating().solve(Problem.of(counts, truth(counts), None))
    >>> fit.model.values.round(6).tolist(), fit.model.importances.round(6).tolist()
    ([1.0, -2.0, 0.5], [0.3, 0.7, -1.0])
    """

    max_iterations: int = 100
    tolerance: float = 1e-6
    floor: float = 1e-4

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        if not self.max_iterations >= 1:
            raise InputError(f"max_iterations must be at least 1; got {self.max_iterations!r}")
        if not 0 <= self.tolerance < 1:
            raise InputError(f"tolerance must lie in [0, 1); got {self.tolerance!r}")
        if not 0 < self.floor < 1:
            raise InputError(f"floor must lie in (0, 1), the mean of exp(s) being 1; got {self.floor!r}")

    def solve(self, problem: Problem) -> Fit:
        """Return the best model found; InputError where a row is empty."""
        data = _Data.of(problem)
        state, iterations, converged = _value_step(data, np.ones(data.counts.shape[1])), 0, False
        for step, cuts in ((_paper_step, 1), (_newton_step, 6)):
            converged = state.loss <= data.rounding
            while not converged and iterations < self.max_iterations:
                better = self._improved(data, state, step(data, state, self.floor), cuts)
                converged = better is None or better.loss <= data.rounding
                state, iterations = better or state, iterations + 1
        values = state.values + data.mean
        model = Slalom(values if problem.scores.ndim == 2 else values[:, 0], np.log(state.w))
        return problem.fitted(model, converged=converged, iterations=iterations, note=self._remark(state))

    def _improved(self, data: "_Data", state: "_State", goal: Floats, cuts: int) -> "_State | None":
        """Return the first state on the way back from the goal that lowers the true loss, if any."""
        for k in range(cuts):
            w = state.w + 0.25**k * (goal - state.w)
            trial = _value_step(data, w / w.mean())
            if trial.loss < (1.0 - self.tolerance) * state.loss:
                return trial
        return None

    def _remark(self, state: "_State") -> str:
        """Say how many units are pressed against the floor, if any."""
        low = int((state.w <= 2 * self.floor).sum())
        if not low:
            return ""
        return (
            f"{low} of {len(state.w)} importances are at the floor, where values are hardly determined;"
            " a fit with a background (Joint) may suit these data better."
        )


class _Data(NamedTuple):
    """Counts (m, n), centred scores (m, n_classes), root of the weights (m, 1), mean of the scores."""

    counts: Floats
    scores: Floats
    root: Floats
    mean: Floats
    rounding: float

    @classmethod
    def of(cls, problem: Problem) -> "_Data":
        """Centre the scores; a loss below `rounding` is zero but for the rounding of the scores."""
        problem.refuse_empty_rows("Alternating")
        y, weights = problem.scores.reshape(len(problem.scores), -1), problem.weights
        mean = np.average(y, axis=0, weights=weights)
        rounding = float((64 * np.finfo(float).eps) ** 2 * (weights[:, None] * y**2).sum())
        return cls(problem.counts, y - mean, np.sqrt(weights)[:, None], mean, rounding)


class _State(NamedTuple):
    """exp(s) with mean one, the best values for it, and what the next s step needs of the v step."""

    w: Floats  # (n,)
    values: Floats  # (n, n_classes)
    attention: Floats  # (m, n), each row times the root of its weight
    basis: Floats  # orthonormal columns that span those of `attention`
    fitted: Floats  # (m, n_classes)
    residual: Floats  # (m, n_classes), each row times the root of its weight
    loss: float


def _value_step(data: _Data, w: Floats) -> _State:
    """Fix s and fit v by least squares of minimum norm."""
    shares = data.counts * w
    shares /= shares.sum(axis=1, keepdims=True)
    attention = data.root * shares
    left, size, right = np.linalg.svd(attention, full_matrices=False)
    rank = int((size > size[0] * max(attention.shape) * np.finfo(float).eps).sum())
    basis = left[:, :rank]
    values = right[:rank].T @ (basis.T @ (data.root * data.scores) / size[:rank, None])
    fitted = shares @ values
    residual = data.root * (fitted - data.scores)
    return _State(w, values, attention, basis, fitted, residual, float((residual**2).sum()))


def _paper_step(data: _Data, state: _State, floor: float) -> Floats:
    """Return the w that minimises the linearised residual of equation 76."""
    return _bounded_step(state, data.scores, np.zeros_like(state.residual), floor)


def _newton_step(_: _Data, state: _State, floor: float) -> Floats:
    """Return the w that minimises the true residual to first order."""
    return _bounded_step(state, state.fitted, state.residual, floor)


def _bounded_step(state: _State, target: Floats, offset: Floats, floor: float) -> Floats:
    """Minimise |P diag(target) attention u - offset|^2 over w u >= floor, P taking off what v can repair."""
    n, rows = len(state.w), []
    for aim, rest in zip(target.T, offset.T, strict=True):
        matrix = aim[:, None] * state.attention
        matrix -= state.basis @ (state.basis.T @ matrix)
        rows.append(np.column_stack([matrix, rest]))
    triangle = np.asarray(np.linalg.qr(np.concatenate(rows), mode="r"))
    size = np.linalg.norm(triangle[:, :n])
    if size == 0.0:
        return state.w
    matrix = np.concatenate([triangle[:, :n] / size, [state.w / n], _INERTIA * np.eye(n)])
    aim = np.concatenate([triangle[:, n] / size, [1.0], np.full(n, _INERTIA)])
    least = floor / state.w
    try:
        factors = least + nnls(matrix, aim - matrix @ least, maxiter=10 * n)[0]
    except RuntimeError:  # too many iterations: the clipped free solution still points the way
        factors = np.linalg.lstsq(matrix, aim)[0].clip(least)
    return np.asarray(state.w * factors)
