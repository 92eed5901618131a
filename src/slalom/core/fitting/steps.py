"""What a step of a fit computes on its device, without a word to the host in between.

    cost = precision sum_k weight_k |F(c_k) - y_k|^2 + strength (|psi|^2 + |rho|^2) + tightness |t|^2 + ...

A step solves (H + damping diag H) step = -gradient, H the Gauss-Newton Hessian, and adds the geodesic acceleration of Transtrum
and Sethna, half the second derivative along the step, which about halves the number of steps.

H has the form [[I x M, B], [B', R]]: M is the same for all K outputs, so each solve costs Cholesky factors of sizes 1 + n
(M) and n + extras (the Schur complement R - sum_k B_k' M^-1 B_k), whatever K is.

The functions that take `knobs` take all numbers that change from call to call in that one array, and give the numbers that the
host decides by in one array: they can be recorded (`recording`). What must be decided on the way is a factor of 0 or 1.
"""

from collections.abc import Iterable
from functools import reduce
from operator import add
from typing import Any, NamedTuple

from slalom.core.fitting.backend import Backend
from slalom.core.fitting.centred import SHARE, Centred, Step
from slalom.core.fitting.marginal import volume
from slalom.core.fitting.memory import Pair, direction, learnt

FLOOR = 1e-13  # relative, on H's diagonal: keeps a Cholesky factor where data and prior leave a direction open
_PROBE = 0.1  # the part of a step at which its second derivative is taken
_TURN = 0.75  # the acceleration may be this part of the step, or the step is too long


class Knobs(NamedTuple):
    """The precisions of psi, of t and of the noise, and two parts of H's diagonal, each 0-d.

    lift is added so that H has factors, damping to make a step shorter.
    """

    strength: Any
    tightness: Any
    precision: Any
    lift: Any = FLOOR
    damping: Any = 0.0


class Priors(NamedTuple):
    """Precisions and means of the scalars (extras,)."""

    precision: Any
    mean: Any


class Tilt(NamedTuple):
    """A point's shape side, t and scalars, and half the slope by the shape (n + extras,) that is added to the cost there."""

    t: Any
    scalars: Any
    force: Any


class System(NamedTuple):
    """The normal equations of one step: M (1 + n)^2, B (K, 1 + n, q), R (q, q), and minus half the gradient."""

    linear: Any
    cross: Any
    shape: Any
    gradient: Step


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
        """Return H^-1 e for the i-th of the shape side."""
        shape = self.shape.T @ self.shape[:, i]
        return Step(-_times(self.linear.T, (self.half @ shape).T), shape)


def _times(matrix: Any, columns: Any) -> Any:
    """Return the product with K columns; one alone is a vector to the libraries, for which they are quicker."""
    return (matrix @ columns[:, 0])[:, None] if columns.shape[1] == 1 else matrix @ columns


# -- the cost ---------------------------------------------------------------------------------------------------------


def terms(point: Centred, priors: Priors, tilt: Tilt | None) -> Any:
    """Return the numbers that the cost of a point is made of (see `ascent.Terms`)."""
    xp, m = point.on.xp, len(point.design.scores)
    square = point.residual**2
    psi, nothing = (point.psi**2).sum(), 0.0 * point.t[0]
    background = share = tilted = nothing
    if point.background:
        psi, share = psi + square[m:].sum(), point.share
        background = 0.5 * xp.log1p(point.odds**2 * (point.weight**2).sum())
    scalars = (priors.precision * (point.scalars - priors.mean) ** 2).sum()
    if tilt is not None:
        n = len(point.t)
        tilted = 2.0 * (tilt.force[:n] @ (point.t - tilt.t) + tilt.force[n:] @ (point.scalars - tilt.scalars))
    return xp.stack(
        ((point.design.weights[:, None] * square[:m]).sum(), psi, (point.t**2).sum(), scalars, tilted, background, share)
    )


def rows(point: Centred, knobs: Knobs) -> Any:
    """Return the precisions of the rows (r, 1)."""
    data = knobs.precision * point.design.weights[:, None]
    return point.on.xp.concatenate((data, 0.0 * data[:1] + knobs.strength), 0) if point.background else data


def descent(point: Centred, knobs: Knobs, priors: Priors, tilt: Tilt | None) -> tuple[Step, Any]:
    """Return minus half the gradient of the cost, and 0 where the share rests on a bound with a lower cost beyond, else 1."""
    n, (linear, shape) = len(point.t), point.pull(rows(point, knobs) * point.residual)
    linear[1:] -= knobs.strength * point.psi
    shape[:n] -= knobs.tightness * point.t
    shape[n:] -= priors.precision * (point.scalars - priors.mean)
    if tilt is not None:
        shape -= tilt.force
    if not point.background:
        return Step(linear, shape), 1.0
    outward = _number(point, point.share >= SHARE[1]) - _number(point, point.share <= SHARE[0])
    free = 1.0 - _number(point, shape[n] * outward > 0)
    shape[n] *= free
    return Step(linear, shape), free


# -- a linearisation --------------------------------------------------------------------------------------------------


def linearise(point: Centred, knobs: Any, priors: Priors, coarse: bool, traces: bool) -> tuple[Any, System, Factors, Any]:
    """Return the rows' precisions, the normal equations and their factors.

    The numbers: the terms; how near the rounding of coarse Gram matrices is to hiding the priors of psi and of t, as the
    largest ratios of their diagonals to the priors; other than 0 where H, with that part of its diagonal added, is not positive
    definite; and with traces what `determined` says.
    """
    given = Knobs(*knobs)
    system, most = equations(point, given, priors, coarse)
    factors, failed = factorise(point.on, system, given.lift)
    numbers = [terms(point, priors, None), point.on.xp.stack((*most, failed))]
    if traces:
        numbers.append(determined(point.on, factors, len(point.t), coarse))
    return rows(point, given), system, factors, point.on.xp.concatenate(numbers)


def equations(point: Centred, given: Knobs, priors: Priors, coarse: bool) -> tuple[System, tuple[Any, Any]]:
    """Return the normal equations, and the largest ratios of Gram matrices to priors."""
    on, n = point.on, len(point.t)
    left, right = point.jacobian(coarse)
    grams = left.T @ left, left.T @ right, total(block.T @ block for block in right)
    linear, cross, shape = (given.precision * on.cast(gram, False) for gram in grams)
    most = diagonal(linear)[1:].max() / given.strength, diagonal(shape)[:n].max() / given.tightness
    if point.background:
        across, along = point.rho_rows()
        linear += given.strength * across[:, None] * across
        cross += given.strength * across[:, None] * along[:, None, :]
        shape += given.strength * (along.T @ along)
    gradient, free = descent(point, given, priors, None)
    if point.background:  # the share is left out where it rests
        cross[:, :, n] *= free
        shape[n] *= free
        shape[:, n] *= free
    diagonal(linear)[1:] += given.strength
    diagonal(shape)[:n] += given.tightness
    diagonal(shape)[n:] += priors.precision
    return System(linear, cross, shape, gradient), most


def factorise(on: Backend, system: System, lift: Any) -> tuple[Factors, Any]:
    """Return the factors of H with a part of its diagonal added, and other than 0 where they do not exist."""
    lower, first = on.whiten(lifted(system.linear, lift))
    half = lower @ system.cross
    schur = system.shape - total(block.T @ block for block in half)
    shape, second = on.whiten(lifted(schur, lift, system.shape))
    return Factors(lower, half, shape, schur), first + second


def determined(on: Backend, factors: Factors, n: int, coarse: bool) -> Any:
    """Return the traces of the covariances of psi and of t, and half the log determinant of H. coarse: in single precision."""
    outputs, log = len(factors.half), on.xp.log
    linear, halves, shape = (on.cast(factor, coarse) for factor in factors[:3])
    open_psi = outputs * (linear[:, 1:] ** 2).sum()
    for half in halves:
        open_psi = open_psi + ((shape @ (half.T @ linear))[:, 1:] ** 2).sum()
    log_det = -outputs * log(diagonal(factors.linear)).sum() - log(diagonal(factors.shape)).sum()
    return on.xp.stack((on.cast(open_psi, False), on.cast((shape[:, :n] ** 2).sum(), False), log_det))


# -- a step -----------------------------------------------------------------------------------------------------------


def advance(point: Centred, knobs: Any, priors: Priors, coarse: bool, whole: bool) -> tuple[Any, System, Factors, Centred, Any]:
    """Return a linearisation and the point after a first attempt at a step from it; the numbers are those of both."""
    force, system, factors, known = linearise(point, knobs, priors, coarse, traces=True)
    moved, numbers = attempt(point, force, system, factors, knobs, priors, None, whole)
    return force, system, factors, moved, point.on.xp.concatenate((known, numbers))


def attempt(
    point: Centred, force: Any, system: System, factors: Factors, knobs: Any, priors: Priors, tilt: Tilt | None, whole: bool
) -> tuple[Centred, Any]:
    """Return the point after a damped step from a linearisation.

    whole: damp both sides, not the shape alone; the other side is linear. The numbers: other than 0 where H so damped is not
    positive definite; other than 0 where the path turns too much for the step; the fall of the cost it promises; the terms.
    """
    on, damping = point.on, Knobs(*knobs).damping
    if whole:
        raised = system._replace(linear=lifted(system.linear, damping), shape=lifted(system.shape, damping))
        used, failed = factorise(on, raised, FLOOR)
    else:
        shape, failed = on.whiten(lifted(factors.schur, damping + FLOOR, system.shape))
        used = factors._replace(shape=shape)
    step = within(point, used, used.solve(system.gradient))
    moved, turns = _accelerated(point, force, system, used, step)
    numbers = on.xp.stack((failed, turns, step.inner(system.gradient)))
    return moved, on.xp.concatenate((numbers, terms(moved, priors, tilt)))


def stride(
    point: Centred,
    last: tuple[Step, Step] | None,
    pairs: tuple[Pair, ...],
    factors: Factors,
    knobs: Any,
    priors: Priors,
    tilt: Tilt | None,
) -> tuple[Step, tuple[Pair, ...], Step, Centred, Step, Any]:
    """Return minus half the gradient, what is known of the curvature, the next quasi-Newton step, and where it leads.

    last: the move that led here and minus half the gradient before it. The move that comes next is its own output, as bounds
    may shorten the step. The numbers: the terms, and the fall of the cost that the step promises.
    """
    downhill, _ = descent(point, Knobs(*knobs), priors, tilt)
    if last is not None:
        pairs = (*pairs, learnt(point.on.xp, last[0], last[1].plus(downhill, -1.0)))
    step = within(point, factors, direction(factors.solve, pairs, downhill))
    moved = point.moved(step)
    numbers = point.on.xp.concatenate((terms(point, priors, tilt), step.inner(downhill)[None]))
    return downhill, pairs, step, moved, moved.since(point), numbers


def pressure(point: Centred, factors: Factors, knobs: Any, coarse: bool) -> Any:
    """Return the force on the shape from integrating out the linear side (`marginal`)."""
    given = Knobs(*knobs)
    return volume(point, given.precision, given.strength, factors.linear, coarse)


def promise(factors: Factors, gradient: Step) -> Any:
    """Return the fall of the cost (1,) that an undamped step promises."""
    return factors.solve(gradient).inner(gradient)[None]


def within(point: Centred, factors: Factors, step: Step) -> Step:
    """Return the best step that takes the share no further than its reach: x - H^-1 e (x_a - bound) / (e' H^-1 e)."""
    if not point.background:
        return step
    n, (low, high) = len(point.t), point.reach
    column, wish = factors.column(n), step.shape[n]
    part = (wish - point.on.xp.clip(wish, low - point.share, high - point.share)) / column.shape[n]
    return step.plus(column, -part)


def _accelerated(point: Centred, force: Any, system: System, factors: Factors, step: Step) -> tuple[Centred, Any]:
    """Return the point after a step and its geodesic acceleration, and other than 0 where that is too large for the step."""
    probe = point.moved(step.times(_PROBE))
    bend = ((point.residual - probe.residual) / _PROBE - point.push(step)) * (-1.0 / _PROBE)
    turn = factors.solve(point.pull(force * bend))
    if point.background:  # a probe that has run into the bound says nothing about the bend
        free = (probe.share > SHARE[0]) & (probe.share < SHARE[1])
        turn = Step(*(point.on.xp.where(free, part, 0.0) for part in turn))
    straight, curved = (
        (diagonal(system.linear)[:, None] * s.linear**2).sum() + diagonal(system.shape) @ s.shape**2 for s in (step, turn)
    )
    fits = _number(point, 4.0 * curved <= _TURN**2 * straight)
    return point.moved(step.plus(turn)), 1.0 - fits


def flat(point: Centred, knobs: Any, priors: Priors, coarse: bool) -> tuple[Centred, Any]:
    """Return the best point of this shape. The numbers: the trace of psi's covariance, half log det M, failure, the terms."""
    on, xp, given = point.on, point.on.xp, Knobs(*knobs)
    left = point.jacobian(coarse, linear_only=True).linear
    linear = given.precision * on.cast(left.T @ left, False)
    if point.background:
        across = point.rho_rows().linear
        linear += given.strength * across[:, None] * across
    diagonal(linear)[1:] += given.strength
    lower, failed = on.whiten(lifted(linear, given.lift))
    step = lower.T @ (lower @ descent(point, given, priors, None)[0].linear)
    best = point.moved(Step(step, 0.0 * xp.concatenate((point.t, point.scalars))))
    half = xp.stack(((lower[:, 1:] ** 2).sum(), -xp.log(diagonal(lower)).sum(), failed))
    return best, xp.concatenate((half, terms(best, priors, None)))


def bends(point: Centred, force: Any, system: System, factors: Factors) -> Any:
    """Return, for a quadratic and a cubic in S on the residuals, their Gram matrix (4 numbers) and their slopes (2).

    The residuals are those after one more Newton step, so that what is left to converge does not count.
    """
    xp, weights = point.on.xp, point.design.weights
    residual = point.residual - point.push(factors.solve(system.gradient))
    there = xp.sign(weights)
    s = point.evidence[:, 0]
    s = s - (s @ there) / there.sum()
    s = s / (((s**2) @ there) / there.sum() + 1e-300) ** 0.5
    nothing = 0.0 * force[len(weights) :, 0]
    curves = [xp.concatenate((s**power, nothing))[:, None] for power in (2, 3)]
    pulls = [point.pull(force * curve) for curve in curves]
    known = [factors.solve(pull) for pull in pulls]
    gram = [
        (one * force * other).sum() - pull.inner(back)
        for one, pull in zip(curves, pulls, strict=True)
        for other, back in zip(curves, known, strict=True)
    ]
    return xp.stack((*gram, *((curve * force * residual).sum() for curve in curves)))


def _number(point: Centred, condition: Any) -> Any:
    """Return 1 where a condition holds, else 0."""
    return point.on.cast(condition, False)


def total(parts: Iterable[Any]) -> Any:
    """Return the sum of one or more arrays."""
    return reduce(add, parts)


def lifted(matrix: Any, part: Any, scale: Any = None) -> Any:
    """Return a matrix with a part of its own diagonal, or of another's, added to its diagonal."""
    found = matrix * 1.0
    diagonal(found)[:] += part * diagonal(matrix if scale is None else scale)
    return found


def diagonal(matrix: Any) -> Any:
    """Return the diagonal of a square matrix that lies in one piece, as a view that can be written to."""
    return matrix.reshape(-1)[:: len(matrix) + 1]
