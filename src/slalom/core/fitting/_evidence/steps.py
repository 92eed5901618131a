"""One step of a fit.

A step solves (H + damping diag H) step = -gradient, H the Gauss-Newton Hessian of the cost (`objective`), and adds the geodesic
acceleration of Transtrum and Sethna, half the second derivative along the step, which about halves the number of steps.

H has the form [[I x M, B], [B', R]]: M is the same for all K outputs, so each solve costs Cholesky factors of sizes 1 + n
(M) and n + extras (the Schur complement R - sum_k B_k' M^-1 B_k), whatever K is.

Between two linearisations, quasi-Newton steps use the last factors of H, corrected by what the gradients have shown since
(L-BFGS with the Gauss-Newton Hessian as its first guess). Such a step needs a gradient, two products with the design, where a
linearisation needs its Gram matrices: a fiftieth of the work at 200 units and 1000 rows. It also learns the part of the
curvature that Gauss-Newton leaves out.
"""

from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from slalom.core.fitting._evidence.coordinates import SHARE, Centred, Step
from slalom.core.fitting._evidence.marginal import LinearInverse, log_det_gradient
from slalom.core.fitting._evidence.objective import (
    MIN_JITTER,
    Priors,
    StepScalars,
    Tilt,
    descent,
    row_precisions,
    terms,
)
from slalom.core.fitting._evidence.triangular import diagonal, inverse_cholesky
from slalom.core.fitting._lbfgs import two_loop

_PROBE = 0.1  # the fraction of a step at which its second derivative is taken
_MAX_ACCELERATION = 0.75  # relative to the step; beyond, the step is too long


class Factors(NamedTuple):
    """L^-1 of the Cholesky factors of M and of the Schur complement, half = L_M^-1 B, and the Schur complement itself."""

    linear: Any
    half: Any
    shape: Any
    schur: Any

    def whitened(self, right: Step) -> Step:
        """Return the inverse of H's own Cholesky factor, times right."""
        inner = _times(self.linear, right.linear)
        return Step(inner, self.shape @ (right.shape - total(half.T @ inner[:, k] for k, half in enumerate(self.half))))

    def solve(self, right: Step) -> Step:
        """Return H^-1 right."""
        inner, outer = self.whitened(right)
        shape = self.shape.T @ outer
        return Step(_times(self.linear.T, inner - (self.half @ shape).T), shape)

    def column(self, i: int) -> Step:
        """Return H^-1 e for the i-th unit vector e of the shape side."""
        shape = self.shape.T @ self.shape[:, i]
        return Step(-_times(self.linear.T, (self.half @ shape).T), shape)

    def determined(self, n: int) -> Any:
        """Return the traces of the covariances of psi and of t, and half the log determinant of H."""
        (linear, halves, shape, _), outputs = self, len(self.half)
        psi_trace = outputs * (linear[:, 1:] ** 2).sum()
        for half in halves:
            psi_trace = psi_trace + ((shape @ (half.T @ linear))[:, 1:] ** 2).sum()
        log_det = -outputs * np.log(diagonal(self.linear)).sum() - np.log(diagonal(self.shape)).sum()
        return np.stack((psi_trace, (shape[:, :n] ** 2).sum(), log_det))


class System(NamedTuple):
    """The normal equations of one step: M (1 + n)^2, B (K, 1 + n, q), R (q, q), and minus half the gradient."""

    linear: Any
    cross: Any
    shape: Any
    gradient: Step

    def weigh(self, step: Step) -> Any:
        """Return the sum of squares of a step, times the diagonal of H."""
        return (diagonal(self.linear)[:, None] * step.linear**2).sum() + diagonal(self.shape) @ step.shape**2

    def factorise(self, jitter: Any) -> tuple[Factors, Any]:
        """Return the factors of H with jitter on its diagonal, and a number other than 0 where they do not exist."""
        lower, first = inverse_cholesky(raised(self.linear, jitter))
        half = lower @ self.cross
        schur = self.shape - total(block.T @ block for block in half)
        shape, second = inverse_cholesky(raised(schur, jitter, self.shape))
        return Factors(lower, half, shape, schur), first + second

    def damped(self, factors: Any, damping: Any, whole: bool) -> tuple[Factors, Any]:
        """Return the factors of H with damping on its diagonal, of the shape side alone unless whole."""
        if whole:
            linear, shape = raised(self.linear, damping), raised(self.shape, damping)
            return self._replace(linear=linear, shape=shape).factorise(MIN_JITTER)
        shape, failed = inverse_cholesky(raised(factors.schur, damping + MIN_JITTER, self.shape))
        return factors._replace(shape=shape), failed


def _times(matrix: Any, columns: Any) -> Any:
    """Return the product with K columns; a single column is passed as a vector, for which the libraries are faster."""
    return (matrix @ columns[:, 0])[:, None] if columns.shape[1] == 1 else matrix @ columns


# -- a linearisation --------------------------------------------------------------------------------------------------


def linearise(point: Centred, scalars: StepScalars, priors: Priors, traces: bool) -> tuple[Any, System, Factors, Any]:
    """Return the precisions of the residuals, the normal equations and their factors.

    The numbers: the terms; other than 0 where H, with the jitter, is not positive definite; with traces also those of
    `determined`.
    """
    system = equations(point, scalars, priors)
    factors, failed = system.factorise(scalars.jitter)
    numbers = [terms(point, priors, None), [failed]]
    if traces:
        numbers.append(factors.determined(len(point.t)))
    return row_precisions(point, scalars), system, factors, np.concatenate(numbers)


def equations(point: Centred, scalars: StepScalars, priors: Priors) -> System:
    """Return the normal equations."""
    n = len(point.t)
    left, right = point.jacobian()
    grams = left.T @ left, left.T @ right, total(block.T @ block for block in right)
    linear, cross, shape = (scalars.precision * gram for gram in grams)
    if point.background:
        across, along = point.rho_rows()
        linear += scalars.strength * across[:, None] * across
        cross += scalars.strength * across[:, None] * along[:, None, :]
        shape += scalars.strength * (along.T @ along)
    gradient, free = descent(point, scalars, priors, None)
    if point.background:  # a share that rests on its bound is left out
        cross[:, :, n] *= free
        shape[n] *= free
        shape[:, n] *= free
    diagonal(linear)[1:] += scalars.strength
    diagonal(shape)[:n] += scalars.tightness
    diagonal(shape)[n:] += priors.precision
    return System(linear, cross, shape, gradient)


# -- a step -----------------------------------------------------------------------------------------------------------


def linearise_and_step(
    point: Centred, scalars: StepScalars, priors: Priors, whole: bool
) -> tuple[Any, System, Factors, Centred, Any]:
    """Return a linearisation with traces and the point after a first `damped_step` from it; the numbers are those of both."""
    rows, system, factors, known = linearise(point, scalars, priors, traces=True)
    moved, numbers = damped_step(point, rows, system, factors, scalars, priors, None, whole)
    return rows, system, factors, moved, np.concatenate((known, numbers))


def damped_step(
    point: Centred,
    rows: Any,
    system: System,
    factors: Factors,
    scalars: StepScalars,
    priors: Priors,
    tilt: Tilt | None,
    whole: bool,
) -> tuple[Centred, Any]:
    """Return the point after a damped step from a linearisation.

    whole: damp both sides, not the shape alone; the other side is linear. The numbers: other than 0 where the damped H is not
    positive definite; other than 0 where the acceleration is too large for the step; the predicted decrease of the cost; the
    terms.
    """
    used, failed = system.damped(factors, scalars.damping, whole)
    step = within_reach(point, used, used.solve(system.gradient))
    moved, too_long = _accelerated(point, rows, system, used, step)
    numbers = np.stack((failed, too_long, step.inner(system.gradient)))
    return moved, np.concatenate((numbers, terms(moved, priors, tilt)))


def within_reach(point: Centred, factors: Factors, step: Step) -> Step:
    """Return the best step that takes the share no further than its reach: x - H^-1 e (x_a - bound) / (e' H^-1 e)."""
    if not point.background:
        return step
    n, (low, high) = len(point.t), point.reach
    column, wish = factors.column(n), step.shape[n]
    part = (wish - np.clip(wish, low - point.share, high - point.share)) / column.shape[n]
    return step.plus(column, -part)


def _accelerated(point: Centred, rows: Any, system: System, factors: Factors, step: Step) -> tuple[Centred, Any]:
    """Return the point after a step and its geodesic acceleration, and other than 0 where that is too large for the step."""
    probe = point.moved(step.times(_PROBE))
    second = ((point.residual - probe.residual) / _PROBE - point.push(step)) * (-1.0 / _PROBE)
    acceleration = factors.solve(point.pull(rows * second))
    if point.background:  # a probe at the bound says nothing about the second derivative
        free = (probe.share > SHARE[0]) & (probe.share < SHARE[1])
        acceleration = Step(*(np.where(free, part, 0.0) for part in acceleration))
    straight, curved = system.weigh(step), system.weigh(acceleration)
    fits = float(4.0 * curved <= _MAX_ACCELERATION**2 * straight)
    return point.moved(step.plus(acceleration)), 1.0 - fits


# -- quasi-Newton steps -----------------------------------------------------------------------------------------------


class Pair(NamedTuple):
    """A move since the last linearisation, the decrease of minus the gradient along it, and 1 / s'y; 0 to ignore the pair."""

    move: Step
    change: Step
    inverse: Any


def lbfgs_step(
    point: Centred,
    last: tuple[Step, Step] | None,
    pairs: tuple[Pair, ...],
    factors: Factors,
    scalars: StepScalars,
    priors: Priors,
    tilt: Tilt | None,
) -> tuple[Step, tuple[Pair, ...], Step, Centred, Step, Any]:
    """Return minus half the gradient, the pairs with the last move's, the next quasi-Newton step, its end point and its move.

    last: the move that led here and minus half the gradient before it. The next move differs from the step where bounds shorten
    it. The numbers: the terms, and the predicted decrease of the cost.
    """
    (downhill, _) = descent(point, scalars, priors, tilt)
    if last is not None:
        move, change = last[0], last[1].plus(downhill, -1.0)
        curvature = move.inner(change)
        pairs = (*pairs, Pair(move, change, np.where(curvature > 0, 1.0 / curvature, 0.0)))
    step = within_reach(point, factors, two_loop(pairs, downhill, factors.solve, _scaled_inner, Step.plus))
    moved = point.moved(step)
    numbers = np.concatenate((terms(point, priors, tilt), step.inner(downhill)[None]))
    return downhill, pairs, step, moved, moved.since(point), numbers


def _scaled_inner(left: Step, right: Step, factor: Any) -> Any:
    return left.inner(right) * factor


def predicted_decrease(factors: Factors, gradient: Step) -> Any:
    """Return the decrease of the cost (1,) that an undamped step predicts."""
    return factors.solve(gradient).inner(gradient)[None]


# -- the linear side alone, and the link ------------------------------------------------------------------------------


def marginal_force(point: Centred, factors: Factors, scalars: StepScalars) -> Any:
    """Return the slope of the cost by the shape that integrating out the linear side adds (`marginal`)."""
    return log_det_gradient(point, scalars, LinearInverse(factors.linear))


def solve_linear_block(point: Centred, scalars: StepScalars, priors: Priors) -> tuple[Centred, Any]:
    """Return the best point of this shape.

    The numbers: the trace of psi's covariance, half log det M, failure, the terms.
    """
    lower, failed = inverse_cholesky(raised(_linear_gram(point, scalars), scalars.jitter))
    inverse = LinearInverse(lower)
    step = inverse.solve(Step(descent(point, scalars, priors, None)[0].linear, 0.0 * point.t[:0])).linear
    best = point.moved(Step(step, 0.0 * np.concatenate((point.t, point.scalars))))
    numbers = np.stack((inverse.variances.sum(), inverse.half_log_det, failed))
    return best, np.concatenate((numbers, terms(best, priors, None)))


def _linear_gram(point: Centred, scalars: StepScalars) -> Any:
    """Return M."""
    left = point.jacobian(linear_only=True).linear
    linear = scalars.precision * (left.T @ left)
    if point.background:
        across = point.rho_rows().linear
        linear += scalars.strength * across[:, None] * across
    diagonal(linear)[1:] += scalars.strength
    return linear


def link_score_test(point: Centred, rows: Any, system: System, factors: Factors) -> Any:
    """Return, for a quadratic and a cubic in S on the residuals, their Gram matrix (4 numbers) and their slopes (2).

    The residuals are those after one more Newton step, so that incomplete convergence does not count. Rows without a weight do
    not count either.
    """
    weights = point.design.weights
    residual = point.residual - point.push(factors.solve(system.gradient))
    weighted = np.sign(weights)
    s = point.unlinked[:, 0]
    s = s - (s @ weighted) / weighted.sum()
    s = s / (((s**2) @ weighted) / weighted.sum() + 1e-300) ** 0.5
    for_rho = 0.0 * rows[len(weights) :, 0]
    curves = [np.concatenate((s**power, for_rho))[:, None] for power in (2, 3)]
    pulls = [point.pull(rows * curve) for curve in curves]
    solved = [factors.solve(pull) for pull in pulls]
    gram = [
        (left * rows * right).sum() - pull.inner(back)
        for left, pull in zip(curves, pulls, strict=True)
        for right, back in zip(curves, solved, strict=True)
    ]
    return np.stack((*gram, *((curve * rows * residual).sum() for curve in curves)))


def total(parts: Iterable[Any]) -> Any:
    """Return the sum of one or more arrays."""
    return reduce(add, parts)


def raised(matrix: Any, factor: Any, scale: Any = None) -> Any:
    """Return a matrix with a multiple of its own diagonal, or of another matrix's, added to its diagonal."""
    copy = matrix * 1.0
    diagonal(copy)[:] += factor * diagonal(matrix if scale is None else scale)
    return copy
