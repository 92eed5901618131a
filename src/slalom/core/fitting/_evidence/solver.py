"""Maximise the evidence: damped Gauss-Newton steps (`steps`) alternate with updates of the three precisions.

    evidence = (log of the priors' and the noise's densities at the point) - log det(H) / 2,    H = Gauss-Newton Hessian

The precisions follow MacKay's fixed point: strength = (number of psi that the data determine) / |psi|^2, and likewise for the
others. `steps` has the arithmetic of a step; this file has the decisions.
"""

from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from slalom.core.checks import Floats
from slalom.core.fitting._evidence import steps
from slalom.core.fitting._evidence.coordinates import Centred, Design, Step
from slalom.core.fitting._evidence.objective import MIN_JITTER, Hyper, Priors, StepScalars, Terms, Tilt
from slalom.core.fitting._evidence.steps import Factors, System
from slalom.interrupt import check

_SHARE_PRIOR = (0.5, 12.0)  # mean and precision of the uniform distribution on (0, 1)
T_PRIOR = 1.0  # the prior of the tightness counts as one unit with t^2 = 1
_DAMPING = 1e-3  # at the start
_MAX_DAMPINGS = 24  # tried before a point counts as the optimum
_POLISH_STEPS = 3  # at the end, with the precisions fixed
_MAX_LBFGS_STEPS = 12  # in a row
_NEGLIGIBLE = 0.005  # decrease of the cost per parameter that is not worth a step


class Linearised(NamedTuple):
    """A point with all that a step from it needs: precisions of the residuals (r, 1), normal equations, factors.

    traces: those of `steps.determined`, if computed. tried: a damping and the result of `steps.damped_step` with it.
    """

    point: Centred
    hyper: Hyper
    rows: Any
    system: System
    factors: Any
    terms: Terms
    traces: list[float]
    tried: tuple[float, Centred, list[float]] | None


@dataclass(frozen=True, eq=False)
class Candidate:
    """A fitted point, its precisions and evidence, and the factors of H at the last linearisation.

    damping, gain: of the last iteration. determined: the number of psi and of t that the data determine. before: the
    linearisation of the last step, if any.
    """

    point: Centred
    hyper: Hyper
    evidence: float
    terms: Terms
    iterations: int
    converged: bool
    damping: float
    gain: float
    factors: Any
    determined: tuple[float, float]
    before: Linearised | None = None
    polished: bool = False


def out_of_reach(evidence: float, gain: float, target: float) -> bool:
    """Return whether ten more iterations with the gain of the last one miss a target."""
    return evidence + 10.0 * gain < target


def _next_jitter(jitter: float) -> float:
    """Return a larger jitter; ArithmeticError where the whole diagonal of H was not enough."""
    if jitter >= 1.0:
        raise ArithmeticError("the normal equations are not positive definite")
    return jitter * 100.0


@dataclass(eq=False)
class Solver:
    """The data of a fit, and the steps that bring a candidate to its highest evidence.

    scores (m, K), weights (m,). variance: of the scores.
    tolerance: a candidate has converged when an iteration adds less than this to the evidence, per row. The last
    linearisation is kept: the score test for a link and the errors are at the same point. jitter: the multiple of H's diagonal
    that was added there. iterations: of all candidates.
    """

    design: Design
    scores: Floats
    weights: Floats
    variance: float
    tolerance: float
    max_iterations: int
    tilt: Tilt | None = None
    last: Linearised | None = None
    jitter: float = MIN_JITTER
    iterations: int = 0
    priors_by_kind: dict[tuple[bool, bool], Priors] = field(default_factory=dict)

    @property
    def units(self) -> int:
        """The number of units of the problem."""
        return len(self.design.mean)

    def maximise_evidence(
        self,
        point: Centred,
        hyper: Hyper,
        limit: int | None = None,
        target: float = -np.inf,
        min_share: float = 0.0,
        evidence: float = -np.inf,
        resume: Candidate | None = None,
    ) -> Candidate:
        """Return the candidate that a start leads to; `resume` is a candidate of an earlier call to continue from.

        Stops early after `limit` iterations, where `target` is out of reach, or where the share falls below `min_share`.
        evidence: that of the start, if known.
        """
        start = _DAMPING, np.inf, 0
        if resume is not None:
            start, evidence = (resume.damping, resume.gain, resume.iterations), resume.evidence
        (damping, gain, iteration), converged = start, False
        for iteration in range(start[-1] + 1, min(limit or self.max_iterations, self.max_iterations) + 1):
            at = self.linearised(point, hyper, traces=True, damping=damping)
            moved, terms, damping = self.step(at, damping)
            if moved is None:
                converged = True  # no damping lowers the cost: the point is optimal up to rounding
                break
            point, lower, last = moved, evidence, gain
            evidence, hyper = self.assess(at, terms)
            gain = evidence - lower
            if self.exact(hyper) or self.done(iteration, gain, last, point.linked):
                converged = True
                break
            if iteration > 3 and out_of_reach(evidence, max(gain, last), target):
                break
            if point.background and terms.share < min_share:
                break
        self.iterations += iteration - start[-1]
        progress = iteration, converged, damping, gain
        return Candidate(point, hyper, evidence, terms, *progress, at.factors, self.traced(at)[0], at)

    def polish(self, candidate: Candidate) -> Candidate:
        """Return a candidate at the mode of its shape's own probability, the linear side integrated out (`marginal`).

        This moves values and importances by a good part of a standard error. The precisions stay: optimised at this mode they
        are unstable on saturated classifiers. A candidate stays at the joint mode where its path leaves the bulk of the
        posterior: there the slope that it follows no longer holds.
        """
        self.tilt, at = None, None
        bulk = candidate.terms.cost(candidate.hyper) + 2.0 * self.units
        with suppress(ArithmeticError):
            at = self.linearised(self.marginal_mode(candidate), candidate.hyper, traces=True)
        self.tilt = None
        if at is None or not at.terms.cost(candidate.hyper) < bulk:
            at = self.linearised(candidate.point, candidate.hyper, traces=True)
        determined = self.traced(at)[0]
        return replace(
            candidate,
            point=at.point,
            terms=at.terms,
            factors=at.factors,
            determined=determined,
            polished=True,
        )

    def marginal_mode(self, candidate: Candidate) -> Centred:
        """Return the mode of the marginal probability near a candidate; ArithmeticError where there is none."""
        point, hyper, factors, damping = candidate.point, candidate.hyper, candidate.factors, _DAMPING
        self.tilt = Tilt(point.t, point.scalars, self.marginal_force(point, hyper, factors))
        point, helps = self.quasi_newton(factors, hyper, point)
        for _ in range(_POLISH_STEPS):
            at = self.tilted(self.linearised(point, hyper))
            factors = at.factors
            decrease = steps.predicted_decrease(factors, at.system.gradient)
            if decrease < self.negligible:
                break
            moved, _, damping = self.step(at, damping)
            if moved is None:
                break
            point, helps = self.quasi_newton(factors, hyper, moved) if helps else (moved, False)
        return point

    def marginal_force(self, point: Centred, hyper: Hyper, factors: Factors) -> Any:
        """Return the slope by the shape that integrating out the linear side adds."""
        return steps.marginal_force(point, factors, self.step_scalars(hyper))

    def tilted(self, at: Linearised) -> Linearised:
        """Add that slope to the cost, as a linear term around this point."""
        force, (linear, shape) = self.marginal_force(at.point, at.hyper, at.factors), at.system.gradient
        self.tilt = Tilt(at.point.t, at.point.scalars, force)
        gradient = Step(linear, shape - force)
        return at._replace(system=at.system._replace(gradient=gradient), tried=None)

    def done(self, iteration: int, gain: float, last: float, linked: bool) -> bool:
        """Whether an iteration gains less than the tolerance, or all further ones do if gains shrink as the last two did.

        With a link gains may grow again, so that the last two say nothing about further ones.
        """
        enough = 0.05 + self.tolerance * self.scores.size
        if iteration > 3 and abs(gain) < enough:
            return True
        return not linked and iteration > 2 and 0.0 < gain < min(3.0 * enough, last) and gain**2 < enough * (last - gain)

    def exact(self, hyper: Hyper) -> bool:
        """Whether the noise is at the level of rounding."""
        return 1.0 / hyper.precision <= 1e-22 * self.variance

    # -- the cost -----------------------------------------------------------------------------------------------------

    def priors(self, point: Centred) -> Priors:
        """Return the priors of a point's scalars."""
        key = point.background, point.linked
        if key not in self.priors_by_kind:
            self.priors_by_kind[key] = Priors(*self.scalar_priors(*key))
        return self.priors_by_kind[key]

    def scalar_priors(self, background: bool, linked: bool) -> Floats:
        """Return precisions and means (2, extras) of the share and of the link's two numbers, where they exist."""
        middle, reach = self.link_range
        share = [_SHARE_PRIOR[::-1]] if background else []
        link = [(1.0 / reach**2, middle), (1.0, -np.log(reach))] if linked else []
        return np.array([*share, *link]).reshape(-1, 2).T.copy()

    @cached_property
    def link_range(self) -> tuple[float, float]:
        """Middle and reach of the narrowest link that contains the scores."""
        low, high = float(self.scores.min()), float(self.scores.max())
        return (high + low) / 2, 1.05 * (high - low) / 2

    def step_scalars(self, hyper: Hyper, jitter: float = MIN_JITTER, damping: float = 0.0) -> StepScalars:
        """Return the numbers of a step."""
        return StepScalars(*hyper, jitter, damping)

    # -- one step -----------------------------------------------------------------------------------------------------

    def solve_linear_block(self, point: Centred, hyper: Hyper) -> tuple[Centred, Hyper, float]:
        """Return the best point of this shape, its precisions, and the evidence for the shape up to a constant."""
        (n, outputs), jitter, solve = point.psi.shape, MIN_JITTER, steps.solve_linear_block
        while True:
            best, array = solve(point, self.step_scalars(hyper, jitter), self.priors(point))
            psi_trace, log_det, failed, *rest = numbers = array.tolist()
            if not failed and np.isfinite(numbers).all():
                break
            jitter = _next_jitter(jitter)
        terms = Terms(*rest)
        evidence = outputs * (terms.background - log_det) - 0.5 * terms.cost(hyper)
        determined = max(n - hyper.strength * psi_trace, 1e-3) * outputs
        free = max(self.scores.size - outputs - determined, 0.02 * self.scores.size)
        strength = determined / max(terms.psi, 1e-30 * self.variance)
        return best, Hyper(strength, hyper.tightness, free / max(terms.misfit, 1e-24 * self.variance)), evidence

    def linearised(self, point: Centred, hyper: Hyper, traces: bool = False, damping: float | None = None) -> Linearised:
        """Return the linearisation at a point; the jitter grows until H has factors.

        With a damping, a step is tried in the same call.
        """
        last = self.last
        if last is not None and last.point is point and last.hyper == hyper:
            return last
        check()
        self.tilt, jitter, tried, priors, n_terms = None, MIN_JITTER, None, self.priors(point), len(Terms._fields)
        while True:
            if damping is None:
                linearise = steps.linearise
                rows, system, factors, array = linearise(point, self.step_scalars(hyper, jitter), priors, traces)
            else:
                both, scalars = steps.linearise_and_step, self.step_scalars(hyper, jitter, damping)
                rows, system, factors, moved, array = both(point, scalars, priors, damping >= 1.0)
            numbers = array.tolist()
            terms, (failed, *traced) = Terms(*numbers[:n_terms]), numbers[n_terms:]
            if damping is not None:
                traced, tried = traced[:3], (damping, moved, traced[3:])
            if not failed and np.isfinite((*terms, *traced)).all():
                self.jitter = jitter
                self.last = Linearised(point, hyper, rows, system, factors, terms, traced, tried)
                return self.last
            jitter = _next_jitter(jitter)

    def step(self, at: Linearised, damping: float) -> tuple[Centred | None, Terms, float]:
        """Return the next point, its terms and the next damping (Nielsen's rule); None where no damping helps."""
        cost, growth = at.terms.cost(at.hyper), 2.0
        for _ in range(_MAX_DAMPINGS):
            moved, (failed, too_long, predicted, *rest) = self.damped_step(at, damping)
            terms = Terms(*rest)
            if not (failed or too_long) and terms.cost(at.hyper) <= cost + 1e-12 * abs(cost):
                ratio = (cost - terms.cost(at.hyper)) / max(predicted, 1e-300)
                damping *= max(0.2, 1.0 - (2.0 * min(ratio, 1.0) - 1.0) ** 3)
                return moved, terms, max(damping, 1e-12)
            damping, growth = damping * growth, growth * 2.0
        return None, at.terms, damping

    def damped_step(self, at: Linearised, damping: float) -> tuple[Centred, list[float]]:
        """Return the point after a damped step, and the numbers of `steps.damped_step`."""
        if at.tried is not None and at.tried[0] == damping:
            return at.tried[1:]
        attempt, scalars = steps.damped_step, self.step_scalars(at.hyper, damping=damping)
        equations, priors = (at.rows, at.system, at.factors), self.priors(at.point)
        moved, numbers = attempt(at.point, *equations, scalars, priors, self.tilt, damping >= 1.0)
        return moved, numbers.tolist()

    @cached_property
    def negligible(self) -> float:
        """The decrease of a step that moves the parameters by a fourteenth of a standard error on average."""
        return _NEGLIGIBLE * float(self.units * (1 + self.scores.shape[1]))

    def quasi_newton(self, factors: Factors, hyper: Hyper, point: Centred) -> tuple[Centred, bool]:
        """Take L-BFGS steps with the factors of a nearby point, until the predicted decrease is negligible or not reached.

        Returns the point, and whether this is worth repeating: not where already the first step misses its prediction.
        """
        lbfgs_step = steps.lbfgs_step
        fixed = factors, self.step_scalars(hyper), self.priors(point), self.tilt
        descent, pairs, step, ahead, move, numbers = lbfgs_step(point, None, (), *fixed)
        *terms, predicted = numbers.tolist()
        cost, start = Terms(*terms).cost(hyper), point
        for _ in range(_MAX_LBFGS_STEPS):
            if not predicted > self.negligible:
                break
            for part in (1.0, 0.3, 0.1):
                if part < 1.0:
                    ahead = point.moved(step.times(part))
                    move = ahead.since(point)
                after = lbfgs_step(ahead, (move, descent), pairs, *fixed)
                *terms, next_predicted = after[-1].tolist()
                lower = Terms(*terms).cost(hyper)
                if lower < cost - 0.1 * part * predicted:
                    break
            else:
                return point, point is not start
            point, cost, predicted = ahead, lower, next_predicted
            descent, pairs, step, ahead, move, _ = after
        return point, True

    # -- the evidence -------------------------------------------------------------------------------------------------

    def assess(self, at: Linearised, terms: Terms) -> tuple[float, Hyper]:
        """Return the evidence at a point, with H of the linearisation before it, and the precisions that raise it."""
        (m, outputs), n, hyper, extras = self.scores.shape, len(self.design.mean), at.hyper, at.point.extras
        (determined_psi, determined_t), log_det = self.traced(at)
        evidence = (
            0.5 * n * (outputs * np.log(hyper.strength) + np.log(hyper.tightness))
            + 0.5 * np.log(self.scalar_priors(at.point.background, at.point.linked)[0]).sum()
            + 0.5 * outputs * (m * np.log(hyper.precision) + np.log(self.weights).sum())
            + outputs * terms.background
            - 0.5 * (terms.cost(hyper) - terms.tilt)
            - log_det
        )
        free = m * outputs - (outputs + determined_psi + determined_t + extras)
        return float(evidence), Hyper(
            determined_psi / max(terms.psi, 1e-30 * self.variance),
            (determined_t + T_PRIOR) / (terms.t + T_PRIOR),
            min(max(free, 0.02 * m * outputs) / max(terms.misfit, 1e-300), 1e26 / self.variance),
        )

    def traced(self, at: Linearised) -> tuple[tuple[float, float], float]:
        """Return how many of the psi and how many of the t the data determine, and half the log determinant of H."""
        n, outputs = at.point.psi.shape
        traces = at.traces
        if not traces:
            traces = at.factors.determined(n).tolist()
        psi_trace, t_trace, log_det = traces
        psi, t = n * outputs - at.hyper.strength * psi_trace, n - at.hyper.tightness * t_trace
        return (max(psi, 1e-3), max(t, 0.0)), log_det

    def link_score_test(self, at: Linearised) -> float:
        """Return the nats that a quadratic and a cubic in S would gain on the residuals: the score test for a link."""
        test = steps.link_score_test
        numbers = test(at.point, at.rows, at.system, at.factors)
        gram, slope = numbers[:4].reshape(2, 2), numbers[4:]
        gram = gram + np.diag(1e-9 * np.diag(gram) + 1e-300)
        try:
            return float(0.5 * slope @ np.linalg.solve(gram, slope))
        except np.linalg.LinAlgError:
            return 0.0  # S does not vary
