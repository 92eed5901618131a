"""Climb the evidence: damped Gauss-Newton steps in turn with updates of the three precisions.

    cost = precision sum_k weight_k |F(c_k) - y_k|^2 + strength (|psi|^2 + |rho|^2) + tightness |t|^2 + ...
    evidence = (log of the priors' and the noise's densities at the point) - log det(H) / 2,    H = Gauss-Newton Hessian

A step solves (H + damping diag H) step = -gradient, and adds the geodesic acceleration of Transtrum and Sethna, half the
second derivative along the step, which about halves the number of steps. The precisions follow MacKay's fixed point:
strength = (number of psi that the data determine) / |psi|^2, and likewise for the others.

H has the form [[I x M, B], [B', R]]: M is the same for all K outputs, so each solve costs Cholesky factors of sizes 1 + n
(M) and n + extras (the Schur complement R - sum_k B_k' M^-1 B_k), whatever K is.
"""

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from operator import add
from typing import Any, NamedTuple

import numpy as np

from slalom.core.checks import Floats
from slalom.core.fitting.centred import SHARE, Centred, Design, Step
from slalom.core.fitting.marginal import volume
from slalom.core.fitting.memory import Memory, plus, product

_SHARE_PRIOR = (0.5, 12.0)  # mean and precision of the uniform distribution on (0, 1)
_T_PRIOR = 1.0  # a priori the tightness is worth one unit with t^2 = 1
_FLOOR = 1e-13  # relative, on H's diagonal: keeps a Cholesky factor where data and prior leave a direction open
_DAMPING = 1e-3  # at the start
_TRIES = 24  # dampings tried before a point counts as the best there is
_POLISH = 3  # steps at the end, with the precisions fixed
_COARSE = 1e5  # how far single precision may go: H's diagonal over the priors' precisions
_SETTLE = 12  # quasi-Newton steps in a row
_SETTLED = 0.005  # the gain of a step, per parameter, that is not worth making
_PROBE = 0.1  # the part of a step at which its second derivative is taken
_TURN = 0.75  # the acceleration may be this part of the step, or the step is too long


class Hyper(NamedTuple):
    """The precisions of psi, of t and of the noise."""

    strength: float
    tightness: float
    precision: float


class Terms(NamedTuple):
    """What the cost is made of: weighted squared residuals, |psi|^2 + |rho|^2, |t|^2, and the scalars' penalty."""

    misfit: float
    psi: float
    t: float
    scalars: float
    tilt: float  # see Ascent.leaning

    def cost(self, hyper: Hyper) -> float:
        """Return the objective of a Gauss-Newton step."""
        return hyper.precision * self.misfit + hyper.strength * self.psi + hyper.tightness * self.t + self.scalars + self.tilt


class System(NamedTuple):
    """The normal equations of one step: M (1 + n)^2, B (K, 1 + n, q), R (q, q), and the two gradients."""

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
        inner = self.linear @ right.linear
        return Step(inner, self.shape @ (right.shape - _total(half.T @ inner[:, k] for k, half in enumerate(self.half))))

    def solve(self, right: Step) -> Step:
        """Return H^-1 right."""
        inner, outer = self.whitened(right)
        shape = self.shape.T @ outer
        return Step(self.linear.T @ (inner - (self.half @ shape).T), shape)

    def determined(self, hyper: Hyper, n: int) -> tuple[float, float]:
        """Return how many of the psi and how many of the t the data determine, by the traces of their covariances."""
        outputs = len(self.half)
        open_psi = outputs * (self.linear[:, 1:] ** 2).sum()
        for half in self.half:
            open_psi = open_psi + ((self.shape @ (half.T @ self.linear))[:, 1:] ** 2).sum()
        open_t = (self.shape[:, :n] ** 2).sum()
        return max(n * outputs - hyper.strength * float(open_psi), 1e-3), max(n - hyper.tightness * float(open_t), 0.0)


class Linearised(NamedTuple):
    """A point with all that a step from it needs: precisions of the rows (r,), normal equations, factors."""

    point: Centred
    hyper: Hyper
    rows: Any
    system: System
    factors: Factors
    exact: bool


@dataclass(frozen=True, eq=False)
class Candidate:
    """A fitted point, its precisions, the evidence for it, and the factors of H at the last linearisation."""

    point: Centred
    hyper: Hyper
    evidence: float
    iterations: int
    converged: bool
    factors: Factors
    polished: bool = False


@dataclass(eq=False)
class Ascent:
    """The data of a fit, and how a candidate is brought to its highest evidence.

    scores (m, K) and weights (m,) are on the host; the design is on its device.
    variance is that of the scores. A candidate is done when an iteration adds less than tolerance to the evidence, per row.
    large: whether linearisations are what takes the time. coarse: whether Gram matrices may be of single precision.
    tilt: a point and half the slope by the shape that is added to the cost there.
    The last linearisation is kept: the score test for a link and the errors are at the same point.
    """

    design: Design
    scores: Floats
    weights: Floats
    variance: float
    tolerance: float
    max_iterations: int
    large: bool = False
    coarse: bool = False
    tilt: tuple[Centred, Any] | None = None
    last: Linearised | None = None

    def climb(
        self,
        point: Centred,
        hyper: Hyper,
        limit: int | None = None,
        target: float = -np.inf,
        gone: float = 0.0,
        evidence: float = -np.inf,
    ) -> Candidate:
        """Return the candidate that a start, of this evidence if known, leads to.

        Stops early after `limit` iterations, where `target` is out of reach, or where the share falls below `gone`.
        """
        damping, gain, converged, iteration = _DAMPING, np.inf, False, 0
        for iteration in range(1, min(limit or self.max_iterations, self.max_iterations) + 1):
            at = self.linearised(point, hyper)
            moved, terms, damping = self.step(at, self.terms(point), damping)
            if moved is None:
                converged = True  # no damping lowers the cost: the point is the best to rounding
                break
            point, before, last = moved, evidence, gain
            evidence, hyper = self.assess(point, hyper, at.factors, terms)
            gain = evidence - before
            if self.exact(hyper) or self.done(iteration, gain, last):
                converged = True
                break
            if iteration > 3 and evidence + 10.0 * gain < target:
                break
            if point.share is not None and point.share < gone:
                break
        return Candidate(point, hyper, evidence, iteration, converged, at.factors)

    def polish(self, found: Candidate) -> Candidate:
        """Return a candidate at the mode of its shape's own probability, the linear side integrated out (`marginal`).

        It moves values and importances by a good part of a standard error. The precisions stay: found at this mode they are
        unstable on saturated classifiers. A large problem stays at the joint mode: the way on costs a third of the fit. So does
        one whose way leads out of the bulk of the posterior, where the slope that it follows is that of another place.
        """
        self.tilt = None
        bulk = self.terms(found.point).cost(found.hyper) + 2.0 * len(found.point.t)
        try:
            point = self.marginal_mode(found)
        except ArithmeticError:
            point = found.point
        self.tilt = None
        if not self.terms(point).cost(found.hyper) < bulk:
            point = found.point
        factors = self.linearised(point, found.hyper, exact=True).factors
        return replace(found, point=point, factors=factors, polished=True)

    def marginal_mode(self, found: Candidate) -> Centred:
        """Return the point that the slopes of the marginal probability lead to; ArithmeticError where they lead nowhere."""
        point, hyper, factors, damping = found.point, found.hyper, found.factors, _DAMPING
        if not self.large:
            self.tilt = point, self.volume(point, hyper, factors)
        point, _ = self.settle(factors, hyper, point)
        for _ in range(_POLISH):
            at = self.linearised(point, hyper, exact=self.large)
            if not self.large:
                at = self.leaning(at)
            factors, gradient = at.factors, at.system.gradient
            if product(factors.solve(gradient), gradient) < self.little(point):
                break
            moved, _, damping = self.step(at, self.terms(point), damping)
            if moved is None:
                break
            point, _ = self.settle(factors, hyper, moved)
        return point

    def volume(self, point: Centred, hyper: Hyper, factors: Factors) -> Any:
        """Return the force on the shape from integrating out the linear side."""
        return volume(point, hyper.precision, hyper.strength, factors.linear, self.coarse)

    def leaning(self, at: Linearised) -> Linearised:
        """Add to the cost, as a slope at this point, what integrating out the linear side adds."""
        force = self.volume(at.point, at.hyper, at.factors)
        self.tilt = at.point, force
        gradient = Step(at.system.gradient.linear, at.system.gradient.shape - force)
        return at._replace(system=at.system._replace(gradient=gradient))

    def done(self, iteration: int, gain: float, last: float) -> bool:
        """Whether an iteration gains less than the tolerance, or all to come do if they go on shrinking as the last two did."""
        enough = 0.05 + self.tolerance * self.scores.size
        if iteration > 3 and abs(gain) < enough:
            return True
        return iteration > 2 and 0.0 < gain < min(3.0 * enough, last) and gain**2 < enough * (last - gain)

    def exact(self, hyper: Hyper) -> bool:
        """Whether the noise is at the level of rounding."""
        return 1.0 / hyper.precision <= 1e-22 * self.variance

    # -- the cost -----------------------------------------------------------------------------------------------------

    def scalar_priors(self, point: Centred) -> tuple[Floats, Floats]:
        """Return precisions and deviations from the prior means of the share and the link's two numbers."""
        precision, deviation = [], []
        if point.share is not None:
            precision.append(_SHARE_PRIOR[1])
            deviation.append(point.share - _SHARE_PRIOR[0])
        if point.link is not None:
            middle, reach = self.held
            precision += [1.0 / reach**2, 1.0]
            deviation += [point.link[0] - middle, point.link[1] + np.log(reach)]
        return np.array(precision), np.array(deviation)

    @cached_property
    def held(self) -> tuple[float, float]:
        """Middle and reach of the link that just holds the scores."""
        low, high = float(self.scores.min()), float(self.scores.max())
        return (high + low) / 2, 1.05 * (high - low) / 2

    def terms(self, point: Centred) -> Terms:
        """Return what the cost at a point is made of."""
        m = len(self.scores)
        square = point.residual**2
        psi = (point.psi**2).sum() + (0.0 if point.share is None else square[m:].sum())
        misfit, psi, t = point.on.floats((self.design.weights @ square[:m]).sum(), psi, (point.t**2).sum())
        precision, deviation = self.scalar_priors(point)
        tilt = 0.0
        if self.tilt is not None:
            start, force = self.tilt
            tilt = 2.0 * float(force @ point.since(start).shape)
        return Terms(misfit, psi, t, float(precision @ deviation**2), tilt)

    # -- one step -----------------------------------------------------------------------------------------------------

    def flat(self, point: Centred, hyper: Hyper) -> tuple[Centred, Hyper, float]:
        """Return the best point of this shape, its precisions, and the evidence for the shape, but for a constant."""
        rows, n = self.rows(point, hyper), len(point.t)
        left = point.jacobian(self.coarse, linear_only=True).linear
        linear = hyper.precision * point.on.cast(left.T @ left, False)
        if point.share is not None:
            across = point.rho_rows().linear
            linear += hyper.strength * across[:, None] * across
        diagonal(linear)[1:] += hyper.strength
        lower = point.on.whiten(_lifted(linear, _FLOOR))
        right = self.descent(point, hyper, rows)[0].linear
        step = lower.T @ (lower @ right)
        point = replace(point, level=point.level + step[0], psi=point.psi + step[1:])
        terms, outputs = self.terms(point), point.psi.shape[1]
        open_psi, log_det = point.on.floats((lower[:, 1:] ** 2).sum(), -point.on.xp.log(diagonal(lower)).sum())
        evidence = outputs * (self.log_background(point) - log_det) - 0.5 * terms.cost(hyper)
        fixed = max(n - hyper.strength * open_psi, 1e-3) * outputs
        free = max(self.scores.size - outputs - fixed, 0.02 * self.scores.size)
        strength = fixed / max(terms.psi, 1e-30 * self.variance)
        return point, Hyper(strength, hyper.tightness, free / max(terms.misfit, 1e-24 * self.variance)), evidence

    def linearised(self, point: Centred, hyper: Hyper, exact: bool = False) -> Linearised:
        """Return the linearisation at a point; unless exact, its Gram matrices may be of single precision."""
        last = self.last
        if last is None or last.point is not point or last.hyper != hyper or (exact and not last.exact):
            rows, self.tilt = self.rows(point, hyper), None
            system = self.system(point, hyper, rows, exact)
            factors = self.factorise(point, system)
            self.last = last = Linearised(point, hyper, rows, system, factors, exact or not self.coarse)
        return last

    def rows(self, point: Centred, hyper: Hyper) -> Any:
        """Return the precisions of the rows (r, 1)."""
        rows = hyper.precision * self.design.weights[:, None]
        return rows if point.share is None else point.on.xp.concatenate((rows, 0.0 * rows[:1] + hyper.strength), 0)

    def system(self, point: Centred, hyper: Hyper, rows: Any, exact: bool) -> System:
        """Return the normal equations at a point; the share is left out where it rests on a bound.

        Gram matrices of single precision are good enough where rounding cannot hide the priors.
        """
        n, coarse = len(point.t), not exact and self.coarse
        left, right = point.jacobian(coarse)
        grams = left.T @ left, left.T @ right, _total(block.T @ block for block in right)
        linear, cross, shape = (hyper.precision * point.on.cast(gram, False) for gram in grams)
        if coarse:
            most = point.on.floats(diagonal(linear)[1:].max() / hyper.strength, diagonal(shape)[:n].max() / hyper.tightness)
            if not max(most) < _COARSE:
                self.coarse = False
                return self.system(point, hyper, rows, exact)
        if point.share is not None:
            across, along = point.rho_rows()
            linear += hyper.strength * across[:, None] * across
            cross += hyper.strength * across[:, None] * along[:, None, :]
            shape += hyper.strength * (along.T @ along)
        gradient, resting = self.descent(point, hyper, rows)
        if resting:
            cross[:, :, n], shape[n], shape[:, n] = 0.0, 0.0, 0.0
        diagonal(linear)[1:] += hyper.strength
        diagonal(shape)[:n] += hyper.tightness
        for i, precision in enumerate(self.scalar_priors(point)[0], start=n):
            shape[i, i] += float(precision)
        return System(linear, cross, shape, gradient)

    def descent(self, point: Centred, hyper: Hyper, rows: Any) -> tuple[Step, bool]:
        """Return minus half the gradient of the cost, and whether the share rests on a bound beyond which the cost falls."""
        n, (linear, shape) = len(point.t), point.pull(rows * point.residual)
        linear[1:] -= hyper.strength * point.psi
        shape[:n] -= hyper.tightness * point.t
        for i, (precision, deviation) in enumerate(zip(*self.scalar_priors(point), strict=True), start=n):
            shape[i] -= float(precision * deviation)
        if self.tilt is not None:
            shape -= self.tilt[1]
        resting = False
        if point.share is not None and not SHARE[0] < point.share < SHARE[1]:
            outward = -1.0 if point.share <= SHARE[0] else 1.0
            resting = float(shape[n]) * outward > 0
            if resting:
                shape[n] = 0.0
        return Step(linear, shape), resting

    def factorise(self, point: Centred, system: System, floor: float = _FLOOR) -> Factors:
        """Return the factors of H, its diagonal raised by a part that grows until they exist."""
        try:
            lower = point.on.whiten(_lifted(system.linear, floor))
            half = lower @ system.cross
            schur = system.shape - _total(block.T @ block for block in half)
            return Factors(lower, half, point.on.whiten(_lifted(schur, floor, system.shape)), schur)
        except ArithmeticError:
            if not floor < 1.0:
                raise
            return self.factorise(point, system, 100.0 * floor)

    def damped(self, at: Linearised, damping: float) -> Factors:
        """Return the factors of H + damping diag H; a small damping acts on the shape side alone, the other is linear."""
        if damping >= 1.0:
            linear, shape = _lifted(at.system.linear, damping), _lifted(at.system.shape, damping)
            return self.factorise(at.point, at.system._replace(linear=linear, shape=shape))
        lifted = _lifted(at.factors.schur, damping + _FLOOR, at.system.shape)
        return at.factors._replace(shape=at.point.on.whiten(lifted))

    def step(self, at: Linearised, terms: Terms, damping: float) -> tuple[Centred | None, Terms, float]:
        """Return the next point, its terms and the next damping (Nielsen's rule); None where no damping helps."""
        cost, growth = terms.cost(at.hyper), 2.0
        for _ in range(_TRIES):
            moved, after = None, terms
            with suppress(ArithmeticError):
                used = self.damped(at, damping)
                step = self.within(at.point, used, used.solve(at.system.gradient))
                moved = self.accelerated(at, used, step)
                if moved is not None:
                    after = self.terms(moved)
            if moved is not None and after.cost(at.hyper) <= cost + 1e-12 * abs(cost):
                ratio = (cost - after.cost(at.hyper)) / max(product(step, at.system.gradient), 1e-300)
                damping *= max(0.2, 1.0 - (2.0 * min(ratio, 1.0) - 1.0) ** 3)
                return moved, after, max(damping, 1e-12)
            damping, growth = damping * growth, growth * 2.0
        return None, terms, damping

    def within(self, point: Centred, factors: Factors, step: Step) -> Step:
        """Return the best step that takes the share no further than its reach: x - H^-1 e (x_a - bound) / (e' H^-1 e)."""
        if point.share is None:
            return step
        n, (low, high) = len(point.t), point.reach
        wish = float(step.shape[n])
        bound = min(max(wish, low - point.share), high - point.share)
        if bound == wish:
            return step
        column = factors.shape.T @ factors.shape[:, n]
        linear = -(factors.linear.T @ (factors.half @ column).T)
        part = (wish - bound) / float(column[n])
        return plus(step, -part, Step(linear, column))

    def little(self, point: Centred) -> float:
        """Return the gain of a step that takes the parameters a fourteenth of a standard error on average."""
        n, outputs = point.psi.shape
        return _SETTLED * float(n * (1 + outputs))

    def settle(self, factors: Factors, hyper: Hyper, point: Centred) -> tuple[Centred, Terms]:
        """Go on with factors of nearby, by quasi-Newton steps, until one promises little or does not keep what it promises."""
        memory, rows, terms = Memory(factors.solve), self.rows(point, hyper), self.terms(point)
        cost = terms.cost(hyper)
        descent, _ = self.descent(point, hyper, rows)
        for _ in range(_SETTLE):
            step = self.within(point, factors, memory.direction(descent))
            promise = product(step, descent)
            if not promise > self.little(point):
                break
            start, before = point, descent
            for part in (1.0, 0.3, 0.1):
                moved = start.moved(Step(part * step.linear, part * step.shape))
                after = self.terms(moved)
                if after.cost(hyper) < cost - 0.1 * part * promise:
                    break
            else:
                break
            point, terms, cost = moved, after, after.cost(hyper)
            descent, _ = self.descent(point, hyper, rows)
            memory.learn(point.since(start), plus(before, -1.0, descent))
        return point, terms

    def accelerated(self, at: Linearised, factors: Factors, step: Step) -> Centred | None:
        """Return the point after a step and its geodesic acceleration; None where the path turns too much for the step."""
        point, system = at.point, at.system
        probe = point.moved(Step(_PROBE * step.linear, _PROBE * step.shape))
        if probe.share is not None and not SHARE[0] < probe.share < SHARE[1]:
            return point.moved(step)
        bend = ((point.residual - probe.residual) / _PROBE - point.push(step)) * (-1.0 / _PROBE)
        turn = factors.solve(point.pull(at.rows * bend))
        sizes = [(diagonal(system.linear) @ s.linear**2).sum() + diagonal(system.shape) @ s.shape**2 for s in (step, turn)]
        straight, curved = point.on.floats(*sizes)
        if not 2.0 * curved**0.5 <= _TURN * straight**0.5:
            return None
        return point.moved(Step(step.linear + turn.linear, step.shape + turn.shape))

    # -- the evidence -------------------------------------------------------------------------------------------------

    def assess(self, point: Centred, hyper: Hyper, factors: Factors, terms: Terms) -> tuple[float, Hyper]:
        """Return the evidence at a point, with H of the last linearisation, and the precisions that raise it."""
        xp, n = point.on.xp, len(point.t)
        m, outputs = self.scores.shape
        fixed_psi, fixed_t = factors.determined(hyper, n)
        log_det = float(-outputs * xp.log(diagonal(factors.linear)).sum() - xp.log(diagonal(factors.shape)).sum())
        evidence = (
            0.5 * n * (outputs * np.log(hyper.strength) + np.log(hyper.tightness))
            + 0.5 * np.log(self.scalar_priors(point)[0]).sum()
            + 0.5 * outputs * (m * np.log(hyper.precision) + np.log(self.weights).sum())
            + outputs * self.log_background(point)
            - 0.5 * (terms.cost(hyper) - terms.tilt)
            - log_det
        )
        free = m * outputs - (outputs + fixed_psi + fixed_t + point.extras)
        return float(evidence), Hyper(
            fixed_psi / max(terms.psi, 1e-30 * self.variance),
            (fixed_t + _T_PRIOR) / (terms.t + _T_PRIOR),
            min(max(free, 0.02 * m * outputs) / max(terms.misfit, 1e-300), 1e26 / self.variance),
        )

    def log_background(self, point: Centred) -> float:
        """Return the log of what normalises the prior of psi with the observation rho = 0 in it."""
        if point.share is None:
            return 0.0
        return 0.5 * float(np.log1p((point.rest / point.share) ** 2 * float((point.weight**2).sum())))

    def bends(self, found: Candidate) -> float:
        """Return the nats that a quadratic and a cubic in S would gain on the residuals: the score test for a link.

        The residuals are those after one more Newton step, so that what is left to converge does not count.
        """
        point, hyper, m = found.point, found.hyper, len(self.scores)
        _, _, rows, system, factors, _ = self.linearised(point, hyper, exact=True)
        residual = point.residual - point.push(factors.solve(system.gradient))
        s = point.on.numpy(point.evidence)[:, 0]
        s = (s - s.mean()) / max(float(s.std()), 1e-300)
        curves = [point.on.asarray(np.concatenate((s**power, np.zeros(len(rows) - m)))[:, None]) for power in (2, 3)]
        pulls = [point.pull(rows * curve) for curve in curves]
        known = [factors.solve(pull) for pull in pulls]
        left = np.array([[float((a * rows * b).sum()) for b in curves] for a in curves])
        left -= np.array([[product(a, b) for b in known] for a in pulls])
        slope = np.array([float((curve * rows * residual).sum()) for curve in curves])
        left = left + np.diag(1e-9 * np.diag(left) + 1e-300)
        return float(0.5 * slope @ np.linalg.solve(left, slope))


def _total(parts: Iterable[Any]) -> Any:
    """Return the sum of one or more arrays."""
    return reduce(add, parts)


def _lifted(matrix: Any, part: float, scale: Any = None) -> Any:
    """Return a matrix with a part of its own diagonal, or of another's, added to its diagonal."""
    lifted = matrix * 1.0
    diagonal(lifted)[:] += part * diagonal(matrix if scale is None else scale)
    return lifted


def diagonal(matrix: Any) -> Any:
    """Return the diagonal of a square matrix that lies in one piece, as a view that can be written to."""
    return matrix.reshape(-1)[:: len(matrix) + 1]
