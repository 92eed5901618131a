"""Climb the evidence: damped Gauss-Newton steps (`steps`) in turn with updates of the three precisions.

    evidence = (log of the priors' and the noise's densities at the point) - log det(H) / 2,    H = Gauss-Newton Hessian

The precisions follow MacKay's fixed point: strength = (number of psi that the data determine) / |psi|^2, and likewise for the
others. What is computed on the device is in `steps`; here is what the host decides.
"""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from slalom.core.checks import Floats
from slalom.core.fitting import steps
from slalom.core.fitting.backend import Backend
from slalom.core.fitting.centred import Centred, Design, Step
from slalom.core.fitting.steps import FLOOR, Factors, Priors, System, Tilt

_SHARE_PRIOR = (0.5, 12.0)  # mean and precision of the uniform distribution on (0, 1)
T_PRIOR = 1.0  # a priori the tightness is worth one unit with t^2 = 1
_DAMPING = 1e-3  # at the start
_TRIES = 24  # dampings tried before a point counts as the best there is
_POLISH = 3  # steps at the end, with the precisions fixed
_COARSE = 1e5  # how far single precision may go: H's diagonal over the priors' precisions
_SETTLE = 12  # quasi-Newton steps in a row
_SETTLED = 0.005  # the gain of a step, per parameter, that is not worth making


class Hyper(NamedTuple):
    """The precisions of psi, of t and of the noise."""

    strength: float
    tightness: float
    precision: float


class Terms(NamedTuple):
    """What the cost is made of: weighted squared residuals, |psi|^2 + |rho|^2, |t|^2, the scalars' penalty, the tilt's part.

    And what else the host wants to know of a point: the log of what normalises the prior of psi with the observation rho = 0 in
    it, and the background's share; both 0 without a background.
    """

    misfit: float
    psi: float
    t: float
    scalars: float
    tilt: float
    background: float
    share: float

    def cost(self, hyper: Hyper) -> float:
        """Return the objective of a Gauss-Newton step."""
        return hyper.precision * self.misfit + hyper.strength * self.psi + hyper.tightness * self.t + self.scalars + self.tilt


class Linearised(NamedTuple):
    """A point with all that a step from it needs: precisions of the rows (r, 1), normal equations, factors.

    traces: those of `steps.determined`, where they were asked for. tried: a damping and what `steps.attempt` gives for it.
    """

    point: Centred
    hyper: Hyper
    rows: Any
    system: System
    factors: Factors
    exact: bool
    terms: Terms
    traces: list[float]
    tried: tuple[float, Centred, list[float]] | None


@dataclass(frozen=True, eq=False)
class Candidate:
    """A fitted point, its precisions, the evidence for it, and the factors of H at the last linearisation.

    damping, gain: of the last iteration. fixed: how many of the psi and how many of the t the data determine. before: the
    linearisation that the last step was made from, where there was one.
    """

    point: Centred
    hyper: Hyper
    evidence: float
    terms: Terms
    iterations: int
    converged: bool
    damping: float
    gain: float
    factors: Factors
    fixed: tuple[float, float]
    before: Linearised | None = None
    polished: bool = False


def hopeless(evidence: float, gain: float, target: float) -> bool:
    """Return whether ten more iterations that gain as much as the last do not reach a target."""
    return evidence + 10.0 * gain < target


def _raised(lift: float) -> float:
    """Return a larger part of H's diagonal to add; ArithmeticError where the whole of it was not enough."""
    if lift >= 1.0:
        raise ArithmeticError("the normal equations are not positive definite")
    return lift * 100.0


@dataclass(eq=False)
class Ascent:
    """The data of a fit, and how a candidate is brought to its highest evidence.

    scores (m, K) and weights (m,) are on the host; the design is on its device, and may be filled up with rows and units that
    say nothing. units: those of the problem. variance is that of the scores. A candidate is done when an iteration adds less
    than tolerance to the evidence, per row.
    large: whether linearisations are what takes the time. coarse: whether Gram matrices may be of single precision.
    The last linearisation is kept: the score test for a link and the errors are at the same point. lift: the part of H's
    diagonal that was added there.
    """

    design: Design
    on: Backend
    scores: Floats
    weights: Floats
    units: int
    variance: float
    tolerance: float
    max_iterations: int
    large: bool = False
    coarse: bool = False
    tilt: Tilt | None = None
    last: Linearised | None = None
    lift: float = FLOOR
    sent: dict[tuple[bool, bool], Priors] = field(default_factory=dict)  # to the device

    def climb(
        self,
        point: Centred,
        hyper: Hyper,
        limit: int | None = None,
        target: float = -np.inf,
        gone: float = 0.0,
        evidence: float = -np.inf,
        before: Candidate | None = None,
    ) -> Candidate:
        """Return the candidate that a start, of this evidence if known, leads to; `before` is a climb that is gone on with.

        Stops early after `limit` iterations, where `target` is out of reach, or where the share falls below `gone`.
        """
        start = _DAMPING, np.inf, 0
        if before is not None:
            start, evidence = (before.damping, before.gain, before.iterations), before.evidence
        (damping, gain, iteration), converged = start, False
        for iteration in range(start[-1] + 1, min(limit or self.max_iterations, self.max_iterations) + 1):
            at = self.linearised(point, hyper, traces=True, damping=damping)
            moved, terms, damping = self.step(at, damping)
            if moved is None:
                converged = True  # no damping lowers the cost: the point is the best to rounding
                break
            point, lower, last = moved, evidence, gain
            evidence, hyper = self.assess(at, terms)
            gain = evidence - lower
            if self.exact(hyper) or self.done(iteration, gain, last):
                converged = True
                break
            if iteration > 3 and hopeless(evidence, gain, target):
                break
            if point.background and terms.share < gone:
                break
        climbed = iteration, converged, damping, gain
        return Candidate(point, hyper, evidence, terms, *climbed, at.factors, self.traced(at)[0], at)

    def polish(self, found: Candidate) -> Candidate:
        """Return a candidate at the mode of its shape's own probability, the linear side integrated out (`marginal`).

        It moves values and importances by a good part of a standard error. The precisions stay: found at this mode they are
        unstable on saturated classifiers. A large problem stays at the joint mode: the way on costs a third of the fit. So does
        one whose way leads out of the bulk of the posterior, where the slope that it follows is that of another place.
        """
        self.tilt, at = None, None
        bulk = found.terms.cost(found.hyper) + 2.0 * self.units
        with suppress(ArithmeticError):
            at = self.linearised(self.marginal_mode(found), found.hyper, exact=True, traces=True)
        self.tilt = None
        if at is None or not at.terms.cost(found.hyper) < bulk:
            at = self.linearised(found.point, found.hyper, exact=True, traces=True)
        fixed = self.traced(at)[0]
        return replace(found, point=at.point, terms=at.terms, factors=at.factors, fixed=fixed, polished=True)

    def marginal_mode(self, found: Candidate) -> Centred:
        """Return the point that the slopes of the marginal probability lead to; ArithmeticError where they lead nowhere."""
        point, hyper, factors, damping = found.point, found.hyper, found.factors, _DAMPING
        if not self.large:
            self.tilt = Tilt(point.t, point.scalars, self.volume(point, hyper, factors))
        point, helps = self.settle(factors, hyper, point)
        for _ in range(_POLISH):
            at = self.linearised(point, hyper, exact=self.large)
            if not self.large:
                at = self.leaning(at)
            factors = at.factors
            if self.on.floats(self.on.recorded(steps.promise)(factors, at.system.gradient))[0] < self.little:
                break
            moved, _, damping = self.step(at, damping)
            if moved is None:
                break
            point, helps = self.settle(factors, hyper, moved) if helps else (moved, False)
        return point

    def volume(self, point: Centred, hyper: Hyper, factors: Factors) -> Any:
        """Return the force on the shape from integrating out the linear side."""
        return self.on.recorded(steps.pressure)(point, factors, self.knobs(hyper), self.coarse)

    def leaning(self, at: Linearised) -> Linearised:
        """Add to the cost, as a slope at this point, what integrating out the linear side adds."""
        force, (linear, shape) = self.volume(at.point, at.hyper, at.factors), at.system.gradient
        self.tilt = Tilt(at.point.t, at.point.scalars, force)
        gradient = Step(linear, shape - force)
        return at._replace(system=at.system._replace(gradient=gradient), tried=None)

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

    def priors(self, point: Centred) -> Priors:
        """Return the priors of the scalars that a point has."""
        key = point.background, point.linked
        if key not in self.sent:
            self.sent[key] = Priors(*map(self.on.asarray, self.scalar_priors(*key)))
        return self.sent[key]

    def scalar_priors(self, background: bool, linked: bool) -> Floats:
        """Return precisions and means (2, extras) of the share and the link's two numbers, where they are there."""
        middle, reach = self.held
        share = [_SHARE_PRIOR[::-1]] if background else []
        link = [(1.0 / reach**2, middle), (1.0, -np.log(reach))] if linked else []
        return np.array([*share, *link]).reshape(-1, 2).T.copy()

    @cached_property
    def held(self) -> tuple[float, float]:
        """Middle and reach of the link that just holds the scores."""
        low, high = float(self.scores.min()), float(self.scores.max())
        return (high + low) / 2, 1.05 * (high - low) / 2

    def knobs(self, hyper: Hyper, lift: float = FLOOR, damping: float = 0.0) -> Any:
        """Bring the numbers of a step to the device."""
        return self.on.numbers(*hyper, lift, damping)

    # -- one step -----------------------------------------------------------------------------------------------------

    def flat(self, point: Centred, hyper: Hyper) -> tuple[Centred, Hyper, float]:
        """Return the best point of this shape, its precisions, and the evidence for the shape, but for a constant."""
        (n, outputs), lift = point.psi.shape, FLOOR
        while True:
            best, numbers = self.on.recorded(steps.flat)(point, self.knobs(hyper, lift), self.priors(point), self.coarse)
            open_psi, log_det, failed, *rest = found = self.on.floats(numbers)
            if not failed and np.isfinite(found).all():
                break
            if self.coarse:
                self.coarse = False  # rounding has hidden the prior
            else:
                lift = _raised(lift)
        terms = Terms(*rest)
        evidence = outputs * (terms.background - log_det) - 0.5 * terms.cost(hyper)
        known = max(n - hyper.strength * open_psi, 1e-3) * outputs
        free = max(self.scores.size - outputs - known, 0.02 * self.scores.size)
        strength = known / max(terms.psi, 1e-30 * self.variance)
        return best, Hyper(strength, hyper.tightness, free / max(terms.misfit, 1e-24 * self.variance)), evidence

    def linearised(
        self, point: Centred, hyper: Hyper, exact: bool = False, traces: bool = False, damping: float | None = None
    ) -> Linearised:
        """Return the linearisation at a point; unless exact, its Gram matrices may be of single precision.

        That is good enough where rounding cannot hide the priors. What is added to H's diagonal grows until H has factors.
        With a damping a step is tried at once.
        """
        last = self.last
        if last is not None and last.point is point and last.hyper == hyper and (last.exact or not exact):
            return last
        self.tilt, lift, coarse, tried = None, FLOOR, self.coarse and not exact, None
        priors, number = self.priors(point), len(Terms._fields)
        while True:
            if damping is None:
                linearise = self.on.recorded(steps.linearise)
                rows, system, factors, numbers = linearise(point, self.knobs(hyper, lift), priors, coarse, traces)
            else:
                advance, knobs = self.on.recorded(steps.advance), self.knobs(hyper, lift, damping)
                rows, system, factors, moved, numbers = advance(point, knobs, priors, coarse, damping >= 1.0)
            found = self.on.floats(numbers)
            terms, (psi, t, failed, *traced) = Terms(*found[:number]), found[number:]
            if damping is not None:
                traced, tried = traced[:3], (damping, moved, traced[3:])
            if coarse and not max(psi, t) < _COARSE:
                self.coarse = coarse = False
            elif not failed and np.isfinite((*terms, *traced)).all():
                exact, self.lift = exact or not self.coarse, lift
                self.last = Linearised(point, hyper, rows, system, factors, exact, terms, traced, tried)
                return self.last
            else:
                lift = _raised(lift)

    def step(self, at: Linearised, damping: float) -> tuple[Centred | None, Terms, float]:
        """Return the next point, its terms and the next damping (Nielsen's rule); None where no damping helps."""
        cost, growth = at.terms.cost(at.hyper), 2.0
        for _ in range(_TRIES):
            moved, (failed, turns, promise, *rest) = self.attempt(at, damping)
            terms = Terms(*rest)
            if not (failed or turns) and terms.cost(at.hyper) <= cost + 1e-12 * abs(cost):
                ratio = (cost - terms.cost(at.hyper)) / max(promise, 1e-300)
                damping *= max(0.2, 1.0 - (2.0 * min(ratio, 1.0) - 1.0) ** 3)
                return moved, terms, max(damping, 1e-12)
            damping, growth = damping * growth, growth * 2.0
        return None, at.terms, damping

    def attempt(self, at: Linearised, damping: float) -> tuple[Centred, list[float]]:
        """Return the point after a damped step, and the numbers of `steps.attempt`."""
        if at.tried is not None and at.tried[0] == damping:
            return at.tried[1:]
        attempt, knobs, whole = self.on.recorded(steps.attempt), self.knobs(at.hyper, damping=damping), damping >= 1.0
        moved, numbers = attempt(at.point, at.rows, at.system, at.factors, knobs, self.priors(at.point), self.tilt, whole)
        return moved, self.on.floats(numbers)

    @cached_property
    def little(self) -> float:
        """The gain of a step that takes the parameters a fourteenth of a standard error on average."""
        return _SETTLED * float(self.units * (1 + self.scores.shape[1]))

    def settle(self, factors: Factors, hyper: Hyper, point: Centred) -> tuple[Centred, bool]:
        """Go on with factors of nearby, by quasi-Newton steps, until one promises little or does not keep what it promises.

        Returns, too, whether this helps: not where already the first step does not keep what it promises.
        """
        stride, more = self.on.recorded(steps.stride), (factors, self.knobs(hyper), self.priors(point), self.tilt)
        descent, pairs, step, ahead, move, numbers = stride(point, None, (), *more)
        *terms, promise = self.on.floats(numbers)
        cost, start = Terms(*terms).cost(hyper), point
        for _ in range(_SETTLE):
            if not promise > self.little:
                break
            for part in (1.0, 0.3, 0.1):
                if part < 1.0:
                    ahead = point.moved(step.times(part))
                    move = ahead.since(point)
                found = stride(ahead, (move, descent), pairs, *more)
                *terms, next_promise = self.on.floats(found[-1])
                after = Terms(*terms).cost(hyper)
                if after < cost - 0.1 * part * promise:
                    break
            else:
                return point, point is not start
            point, cost, promise = ahead, after, next_promise
            descent, pairs, step, ahead, move, _ = found
        return point, True

    # -- the evidence -------------------------------------------------------------------------------------------------

    def assess(self, at: Linearised, terms: Terms) -> tuple[float, Hyper]:
        """Return the evidence at a point, with H of the linearisation before it, and the precisions that raise it."""
        (m, outputs), n, hyper, extras = self.scores.shape, len(self.design.mean), at.hyper, at.point.extras
        (fixed_psi, fixed_t), log_det = self.traced(at)
        evidence = (
            0.5 * n * (outputs * np.log(hyper.strength) + np.log(hyper.tightness))
            + 0.5 * np.log(self.scalar_priors(at.point.background, at.point.linked)[0]).sum()
            + 0.5 * outputs * (m * np.log(hyper.precision) + np.log(self.weights).sum())
            + outputs * terms.background
            - 0.5 * (terms.cost(hyper) - terms.tilt)
            - log_det
        )
        free = m * outputs - (outputs + fixed_psi + fixed_t + extras)
        return float(evidence), Hyper(
            fixed_psi / max(terms.psi, 1e-30 * self.variance),
            (fixed_t + T_PRIOR) / (terms.t + T_PRIOR),
            min(max(free, 0.02 * m * outputs) / max(terms.misfit, 1e-300), 1e26 / self.variance),
        )

    def traced(self, at: Linearised) -> tuple[tuple[float, float], float]:
        """Return how many of the psi and how many of the t the data determine, and half the log determinant of H."""
        n, outputs = at.point.psi.shape
        traces = at.traces or self.on.floats(self.on.recorded(steps.determined)(self.on, at.factors, n, False))
        open_psi, open_t, log_det = traces
        psi, t = n * outputs - at.hyper.strength * open_psi, n - at.hyper.tightness * open_t
        return (max(psi, 1e-3), max(t, 0.0)), log_det

    def bends(self, found: Candidate) -> float:
        """Return the nats that a quadratic and a cubic in S would gain on the residuals: the score test for a link."""
        return self.bends_at(self.linearised(found.point, found.hyper, exact=True))

    def bends_at(self, at: Linearised) -> float:
        """Return the same at a linearisation."""
        numbers = self.on.numpy(self.on.recorded(steps.bends)(at.point, at.rows, at.system, at.factors))
        left, slope = numbers[:4].reshape(2, 2), numbers[4:]
        left = left + np.diag(1e-9 * np.diag(left) + 1e-300)
        try:
            return float(0.5 * slope @ np.linalg.solve(left, slope))
        except np.linalg.LinAlgError:
            return 0.0  # S does not vary
