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
from slalom.core.fitting.centred import SHARE, Blocks, Centred, Design, Step

_SHARE_PRIOR = (0.5, 12.0)  # mean and precision of the uniform distribution on (0, 1)
_T_PRIOR = 1.0  # a priori the tightness is worth one unit with t^2 = 1
_FLOOR = 1e-13  # relative, on H's diagonal: keeps a Cholesky factor where data and prior leave a direction open
_DAMPING = 1e-3  # at the start
_TRIES = 24  # dampings tried before a point counts as the best there is
_POLISH = 4  # steps at the end, with the precisions fixed
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

    def cost(self, hyper: Hyper) -> float:
        """Return the objective of a Gauss-Newton step."""
        return hyper.precision * self.misfit + hyper.strength * self.psi + hyper.tightness * self.t + self.scalars


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

    def solve(self, right: Step) -> Step:
        """Return H^-1 right."""
        inner = self.linear @ right.linear
        side = right.shape - _total(half.T @ inner[:, k] for k, half in enumerate(self.half))
        shape = self.shape.T @ (self.shape @ side)
        return Step(self.linear.T @ (inner - (self.half @ shape).T), shape)


class Linearised(NamedTuple):
    """A point with all that a step from it needs: roots of the rows' precisions (r,), Jacobian, normal equations, factors."""

    point: Centred
    hyper: Hyper
    root: Any
    blocks: Blocks
    system: System
    factors: Factors


@dataclass(frozen=True, eq=False)
class Candidate:
    """A fitted point, its precisions, the evidence for it, and the factors of H at the last linearisation."""

    point: Centred
    hyper: Hyper
    evidence: float
    iterations: int
    converged: bool
    factors: Factors


@dataclass(eq=False)
class Ascent:
    """The data of a fit, and how a candidate is brought to its highest evidence.

    scores (m, K) and weights (m,) are on the host; design and roots, those of the weights, on their device.
    variance is that of the scores. A candidate is done when an iteration adds less than tolerance to the evidence, per row.
    The last linearisation is kept: the score test for a link and the step after it are at the same point.
    """

    design: Design
    roots: Any
    scores: Floats
    weights: Floats
    variance: float
    tolerance: float
    max_iterations: int
    last: Linearised | None = None

    def climb(
        self, point: Centred, hyper: Hyper, limit: int | None = None, target: float = -np.inf, gone: float = 0.0
    ) -> Candidate:
        """Return the candidate that a start leads to.

        Stops early after `limit` iterations, where `target` is out of reach, or where the share falls below `gone`.
        """
        damping, evidence, converged, iteration = _DAMPING, -np.inf, False, 0
        terms = self.terms(point)
        for iteration in range(1, min(limit or self.max_iterations, self.max_iterations) + 1):
            at = self.linearised(point, hyper)
            moved, terms, damping = self.step(at, terms, damping)
            if moved is None:
                converged = True  # no damping lowers the cost: the point is the best to rounding
                break
            point, before = moved, evidence
            evidence, hyper = self.assess(point, hyper, at.factors, terms)
            gain = evidence - before
            if self.exact(hyper) or (iteration > 3 and abs(gain) < 0.05 + self.tolerance * self.scores.size):
                converged = True
                break
            if iteration > 3 and evidence + 10.0 * gain < target:
                break
            if point.share is not None and point.share < gone:
                break
        return Candidate(point, hyper, evidence, iteration, converged, at.factors)

    def polish(self, found: Candidate) -> Candidate:
        """Return a candidate at the lowest cost for its precisions: what the evidence hardly sees, standard errors do."""
        point, factors, damping = found.point, found.factors, _DAMPING
        terms = self.terms(point)
        for _ in range(_POLISH):
            at = self.linearised(point, found.hyper)
            factors = at.factors
            if _product(factors.solve(at.system.gradient), at.system.gradient) < 0.1:  # what a step would gain
                break
            moved, terms, damping = self.step(at, terms, damping)
            if moved is None:
                break
            point = moved
        return replace(found, point=point, factors=factors)

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
        return Terms(misfit, psi, t, float(precision @ deviation**2))

    # -- one step -----------------------------------------------------------------------------------------------------

    def linearised(self, point: Centred, hyper: Hyper) -> Linearised:
        """Return the linearisation at a point."""
        if self.last is None or self.last.point is not point or self.last.hyper != hyper:
            root = self.root(point, hyper)
            blocks = point.blocks(root)
            system = self.system(point, hyper, blocks)
            self.last = Linearised(point, hyper, root, blocks, system, self.factorise(point, system))
        return self.last

    def root(self, point: Centred, hyper: Hyper) -> Any:
        """Return the roots of the precisions of the rows (r,)."""
        xp = point.on.xp
        root = hyper.precision**0.5 * self.roots
        return root if point.share is None else xp.concatenate((root, 0.0 * root[:1] + hyper.strength**0.5))

    def system(self, point: Centred, hyper: Hyper, blocks: Blocks) -> System:
        """Return the normal equations at a point; the share is left out where it rests on a bound."""
        n, left, right = len(point.t), blocks.linear, blocks.shape
        linear, cross, gradient = left.T @ left, left.T @ right, left.T @ blocks.residual
        shape = _total(block.T @ block for block in right)
        side = _total(block.T @ blocks.residual[:, k] for k, block in enumerate(right))
        diagonal(linear)[1:] += hyper.strength
        gradient[1:] -= hyper.strength * point.psi
        side[:n] -= hyper.tightness * point.t
        priors = self.scalar_priors(point)
        for i, (precision, deviation) in enumerate(zip(*priors, strict=True), start=n):
            side[i] -= float(precision * deviation)
        if point.share is not None and not SHARE[0] < point.share < SHARE[1]:
            outward = -1.0 if point.share <= SHARE[0] else 1.0
            if float(side[n]) * outward > 0:  # at a bound, and the cost falls beyond it
                cross[:, :, n], shape[n], shape[:, n], side[n] = 0.0, 0.0, 0.0, 0.0
        diagonal(shape)[:n] += hyper.tightness
        for i, precision in enumerate(priors[0], start=n):
            shape[i, i] += float(precision)
        return System(linear, cross, shape, Step(gradient, side))

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
                step = used.solve(at.system.gradient)
                moved = self.accelerated(at, used, step)
                if moved is not None:
                    after = self.terms(moved)
            if moved is not None and after.cost(at.hyper) <= cost + 1e-12 * abs(cost):
                ratio = (cost - after.cost(at.hyper)) / max(_product(step, at.system.gradient), 1e-300)
                damping *= max(0.2, 1.0 - (2.0 * min(ratio, 1.0) - 1.0) ** 3)
                return moved, after, max(damping, 1e-12)
            damping, growth = damping * growth, growth * 2.0
        return None, terms, damping

    def accelerated(self, at: Linearised, factors: Factors, step: Step) -> Centred | None:
        """Return the point after a step and its geodesic acceleration; None where the path turns too much for the step."""
        point, blocks, system = at.point, at.blocks, at.system
        probe = point.moved(Step(_PROBE * step.linear, _PROBE * step.shape))
        if probe.share is not None and not SHARE[0] < probe.share < SHARE[1]:
            return point.moved(step)
        along = blocks.linear @ step.linear + (blocks.shape @ step.shape).T
        bend = ((blocks.residual - probe.residual * at.root[:, None]) / _PROBE - along) * (-1.0 / _PROBE)
        side = _total(block.T @ bend[:, k] for k, block in enumerate(blocks.shape))
        turn = factors.solve(Step(blocks.linear.T @ bend, side))
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
        open_psi = outputs * (factors.linear[:, 1:] ** 2).sum()  # trace of the posterior covariance of psi
        for half in factors.half:
            open_psi = open_psi + ((factors.shape @ (half.T @ factors.linear))[:, 1:] ** 2).sum()
        open_t = (factors.shape[:, :n] ** 2).sum()
        log_det = -outputs * xp.log(diagonal(factors.linear)).sum() - xp.log(diagonal(factors.shape)).sum()
        open_psi, open_t, log_det = point.on.floats(open_psi, open_t, log_det)
        evidence = (
            0.5 * n * (outputs * np.log(hyper.strength) + np.log(hyper.tightness))
            + 0.5 * np.log(self.scalar_priors(point)[0]).sum()
            + 0.5 * outputs * (m * np.log(hyper.precision) + np.log(self.weights).sum())
            + outputs * self.log_background(point)
            - 0.5 * terms.cost(hyper)
            - log_det
        )
        fixed_psi = max(n * outputs - hyper.strength * open_psi, 1e-3)
        fixed_t = max(n - hyper.tightness * open_t, 0.0)
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
        _, _, root, blocks, system, factors = self.linearised(point, hyper)
        rest = factors.solve(system.gradient)
        residual = (blocks.residual - blocks.linear @ rest.linear - (blocks.shape @ rest.shape).T)[:m]
        s = point.on.numpy(point.evidence)[:, 0]
        s = (s - s.mean()) / max(float(s.std()), 1e-300)
        curve = point.on.asarray(np.stack([s**2, s**3], axis=1)) * root[:m, None]
        inner = factors.linear @ (blocks.linear[:m].T @ curve)
        outer = factors.shape @ (blocks.shape[0][:m].T @ curve - factors.half[0].T @ inner)
        left = point.on.numpy(curve.T @ curve - inner.T @ inner - outer.T @ outer)
        slope = point.on.numpy(curve.T @ residual)[:, 0]
        left = left + np.diag(1e-9 * np.diag(left) + 1e-300)
        return float(0.5 * slope @ np.linalg.solve(left, slope))


def _total(parts: Iterable[Any]) -> Any:
    """Return the sum of one or more arrays."""
    return reduce(add, parts)


def _product(one: Step, other: Step) -> float:
    """Return the inner product of two steps."""
    return float((one.linear * other.linear).sum() + (one.shape * other.shape).sum())


def _lifted(matrix: Any, part: float, scale: Any = None) -> Any:
    """Return a matrix with a part of its own diagonal, or of another's, added to its diagonal."""
    lifted = matrix * 1.0
    diagonal(lifted)[:] += part * diagonal(matrix if scale is None else scale)
    return lifted


def diagonal(matrix: Any) -> Any:
    """Return the diagonal of a square matrix that lies in one piece, as a view that can be written to."""
    return matrix.reshape(-1)[:: len(matrix) + 1]
