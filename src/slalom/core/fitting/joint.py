"""Fit values, importances, background and link jointly; the data choose the strength of the priors and the model.

    v_i ~ N(mean, tau^2),    s_i ~ N(0, sigma^2),    y = F(c) + noise

The priors shrink towards the linear limit, ridge regression, as far as the data allow: tau, sigma and the noise are those
that maximise the evidence, the probability of the data with all parameters integrated out (`_evidence.solver`). The same
evidence decides between the candidates: the linear limit, SLALOM with a background, without one, with a saturating link. The
inverse Gauss-Newton Hessian is the posterior covariance, which gives the standard errors.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import ClassVar, final

import numpy as np
from scipy.linalg import helmert

from slalom.core.checks import Floats
from slalom.core.fitting._evidence.coordinates import SHARE, Centred, Design
from slalom.core.fitting._evidence.draws import SomeRows, drawn
from slalom.core.fitting._evidence.errors import standard_errors, widened
from slalom.core.fitting._evidence.mixture import mixed_errors, mixture, worth_mixing
from slalom.core.fitting._evidence.objective import Hyper
from slalom.core.fitting._evidence.ridge import Ridge, ridge
from slalom.core.fitting._evidence.solver import Candidate, Solver, out_of_reach
from slalom.core.fitting.problem import FALLBACK, Fit, Fitter, Problem, all_finite, sound
from slalom.core.slalom import Slalom
from slalom.errors import InputError

_FIRST_LOOK = 5  # iterations before the first score test for a link
_MARGIN = 5.0  # nats by which a richer model must beat the linear limit
_LINK_NATS = 15.0  # predicted gain from which a link is tried
_CLEAR = 3.0  # a test that is this factor above or below is not repeated
_WIDE = 1.3  # reach of a link at its start, relative to the narrowest one that contains the scores
_UNEXPLAINED = 1e-8  # share of the variance below which nothing is left for a link to explain
_FAINT = 0.1  # with a share below this the fit is repeated without a background
_VANISHED = 0.01  # and with a share below this at once
_LINEAR_REST = 0.01  # most that the linear limit leaves to the units, so that they hardly compete (`Slalom.additive`)
_SHARES = (0.1, 0.01)  # of the background, tried in turn after a half
# Seconds of one core. Measured with 1,000 queries: 4 for 500 units, 10 for 800, 13 for 1,000, 18 for 2,000, 48 for 3,000, 189
# for 5,000; with 60 queries 38 for 3,000 units.
_STEP_SECONDS = 1.5e-8  # per row and pair of units, or of rows where these are fewer
_UNIT_SECONDS = 1.4e-9  # per cubed unit
_REPORTED_JITTER = 1e-6  # a larger multiple of the normal equations' diagonal is mentioned in the diagnosis
_RIDGE = f"{FALLBACK} the fit failed numerically; ridge regression gives one number per word, without standard errors."
_EQUAL = f"{FALLBACK} the fit failed numerically; all importances are taken as equal, without standard errors."
_JITTER = f"{FALLBACK} the normal equations were nearly singular; {{:.0e}} of their diagonal was added to solve them."
_CONSTANT = f"{FALLBACK} the fit and ridge regression failed numerically; every unit has the mean score instead."
_LINEAR = (
    "The queries do not tell importances apart: read one number per unit, its effect (removal or gradient); value and"
    " importance have no meaning of their own here."
)


@final
@dataclass(frozen=True)
class Joint(Fitter):
    """Fits values, importances, background and link jointly; the defaults suit ordinary use.

    Where the normal equations have no solution, more is added to their diagonal; then ridge regression is returned, then the
    mean score. `Fit.diagnosis` says which.

    Args:
        background: Whether the model has a background. None lets the data decide.
        link: Whether the model has a saturating link; only for one score per row. None lets the data decide for one score per
            row; several classes get none.
        max_iterations: Limit for each candidate model, at least 1.
        tolerance: A candidate has converged when an iteration adds less than this to the evidence, per row.

    Raises:
        InputError: If max_iterations or tolerance is out of range.

    Example:
        >>> from slalom.core import fit
        >>> truth = Slalom(values=[1.0, -2.0, 0.5], importances=[0.3, 0.7, -1.0])
        >>> counts = np.random.default_rng(0).integers(0, 3, (50, 3)) + np.eye(3)[np.arange(50) % 3]
        >>> fit(counts, truth(counts), Joint(background=False)).model.values.round(4).tolist()
        [1.0, -2.0, 0.5]
    """

    background: bool | None = None
    link: bool | None = None
    max_iterations: int = 100
    tolerance: float = 5e-3
    separable: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not self.max_iterations >= 1:
            raise InputError(f"max_iterations must be at least 1; got {self.max_iterations!r}")
        if not 0 <= self.tolerance < np.inf:
            raise InputError(f"tolerance must be finite and not negative; got {self.tolerance!r}")

    def seconds(self, n: int, rows: int) -> float:
        return _STEP_SECONDS * min(n, rows) ** 2 * rows + _UNIT_SECONDS * n**3

    def solve(self, problem: Problem) -> Fit:
        if self.background is False:
            problem.refuse_empty_rows("Joint(background=False)")
        if self.link and problem.scores.ndim == 2:
            raise InputError("Joint(link=True) needs one score per row; with several classes use link=None")
        if problem.steady or problem.rows_alike:
            return problem.constant()
        if problem.counts.shape[1] == 1 and problem.empty_rows and len(np.unique(problem.counts)) == 2:
            return _single(problem)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            for search in (_Search.fit, _Search.linear):
                with suppress(ArithmeticError, np.linalg.LinAlgError):
                    return search(_Search(self, problem))
        return problem.constant(_CONSTANT)


def _single(problem: Problem) -> Fit:
    """Return the fit of one unit that is present or absent: background and unit get equal importance.

    F(0) = v_0 and F(c) = (v_0 + c v) / (1 + c), so v = F(c) + (F(c) - v_0) / c.
    """
    present = problem.counts[:, 0] > 0
    empty, full = (np.average(problem.scores[x], axis=0, weights=problem.weights[x]) for x in (~present, present))
    values = (full + (full - empty) / problem.counts.max())[None]
    if not all_finite(values):
        raise ArithmeticError("the value is beyond the range of floats")
    note = "With one unit its value cannot be told from its importance; they are taken as equal."
    return problem.fitted(Slalom(values, [0.0], (empty, 0.0)), converged=True, iterations=0, note=note)


class _Search:
    """One solve: chooses the candidate models to fit, and turns the best into a `Fit`."""

    def __init__(self, options: Joint, problem: Problem) -> None:
        self.options, self.problem = options, problem
        single = problem.scores.ndim == 1
        self.basis: Floats | None = None if single else helmert(problem.scores.shape[1]).T  # (C, K), orthonormal
        weighted = problem.weights > 0
        self.counts = problem.counts if weighted.all() else problem.counts[weighted]
        self.weights = problem.weights[weighted] / problem.weights[weighted].mean()
        self.scores = (problem.scores[:, None] if self.basis is None else problem.scores @ self.basis)[weighted]
        self.weighted = Problem(self.counts, self.scores, self.weights)
        self.line = ridge(self.counts, self.scores, self.weights)
        centre = self.line.centre
        design = Design(self.counts, self.counts - centre, centre, self.scores, self.weights, np.sqrt(self.weights))
        variance, limits = self.weighted.spread, (options.tolerance, options.max_iterations)
        self.solver = Solver(design, self.scores, self.weights, variance, *limits)

    @cached_property
    def lengths_vary(self) -> bool:
        """Whether inputs differ in length: where they do not, the units can take over the background's part."""
        totals = self.counts.sum(axis=1)
        return float(np.ptp(totals)) > 1e-9 * float(totals.max())

    def fit(self) -> Fit:
        """Fit the candidates that the options and the data call for; return the best."""
        options = self.options
        with_background = options.background is True or (options.background is None and self.lengths_vary)
        self.may_drop = options.background is None and with_background and not self.problem.empty_rows
        if options.link:
            best = self.without_faint_background(self.solver.maximise_evidence(*self.linked_start(with_background)))
        else:
            best = self.plain_or_linked(with_background)
            if options.background is not False and best.evidence < self.line.evidence + _MARGIN:
                best = self.linear_limit(with_background)
        return self.finish(best)

    def plain_or_linked(self, with_background: bool) -> Candidate:
        """Return the better of the models without and, where the residuals call for it, with a link."""
        min_share = _VANISHED if self.may_drop else 0.0
        start = self.start(self.line, with_background)
        if with_background:
            start = self.best_share(*start)
        plain = self.without_faint_background(self.solver.maximise_evidence(*start, limit=_FIRST_LOOK, min_share=min_share))
        plain, linked = self.with_link(plain, with_background)
        target = -np.inf if linked is None else linked.evidence
        unfinished = not plain.converged and plain.iterations < self.options.max_iterations
        if unfinished and not out_of_reach(plain.evidence, plain.gain, target):
            start = plain.point, plain.hyper
            plain = self.without_faint_background(self.solver.maximise_evidence(*start, target=target, resume=plain))
            if linked is None:
                plain, linked = self.with_link(plain, with_background)
        return plain if linked is None else max(plain, linked, key=_evidence)

    def with_link(self, plain: Candidate, with_background: bool) -> tuple[Candidate, Candidate | None]:
        """Return a model without a link, and one with a link where a score test calls for it.

        The linearisation before the last step mostly gives a clear answer. Where it does not, the test is repeated at the point
        itself. If the model has converged it is polished first: the linearisation then serves both.
        """
        if self.options.link is not None or self.scores.shape[1] > 1:
            return plain, None
        if 1.0 / plain.hyper.precision < _UNEXPLAINED * self.solver.variance:
            return plain, None
        first = _LINK_NATS if plain.before is None else self.solver.link_score_test(plain.before)
        if first <= _CLEAR * _LINK_NATS:
            if plain.converged:
                plain = self.solver.polish(plain)
            if first < _LINK_NATS / _CLEAR:
                return plain, None
            at = self.solver.linearised(plain.point, plain.hyper)
            if not self.solver.link_score_test(at) > _LINK_NATS:
                return plain, None
        similar = plain.point.background == with_background  # a background that is faint without a link may be needed with one
        start = self.linked_from(plain) if similar else self.linked_start(with_background)
        linked = self.solver.maximise_evidence(*start, target=plain.evidence)
        return plain, self.without_faint_background(linked)

    def without_faint_background(self, candidate: Candidate) -> Candidate:
        """Return a candidate, or the same without its background where that is faint and the evidence is higher so."""
        if not (self.may_drop and candidate.point.background and candidate.terms.share <= _FAINT):
            return candidate
        psi = candidate.point.psi / candidate.point.rest
        point = replace(candidate.point, psi=psi, scalars=candidate.point.scalars[1:], background=False)
        without = self.solver.maximise_evidence(point, candidate.hyper, target=candidate.evidence, evidence=candidate.evidence)
        return max(candidate, without, key=_evidence)

    def start(self, line: Ridge, with_background: bool, link: tuple[float, float] | None = None) -> tuple[Centred, Hyper]:
        """Return the point that agrees with a ridge regression at the mean input: equal weights, half on the background."""
        total = float(line.centre.sum())
        psi = total * line.slopes
        if not with_background:
            psi = psi - (line.centre @ psi) / total  # the level is then S at the mean input
        variance = self.solver.variance
        point = Centred(
            line.level,
            psi,
            np.zeros(len(psi)),
            np.array([*([0.5] if with_background else []), *(link or ())]),
            with_background,
            link is not None,
            self.solver.design,
        )
        noise = line.noise
        if link is not None:
            noise = self.weighted.mean_square(point.residual[: len(self.scores)])
        size = max(float((psi**2).mean()), 1e-30 * variance)
        hyper = Hyper(1.0 / size, 4.0, 1.0 / max(noise, 1e-24 * variance))
        return point, hyper

    def best_share(self, point: Centred, hyper: Hyper) -> tuple[Centred, Hyper]:
        """Return the start whose share makes equal weights most probable."""
        best = self.solver.solve_linear_block(point, hyper)
        for share in _SHARES:
            trial = self.solver.solve_linear_block(replace(point, scalars=np.array([share])), hyper)
            if not trial[2] > best[2]:
                break
            best = trial
        return best[:2]

    def linked_from(self, plain: Candidate) -> tuple[Centred, Hyper]:
        """Return a model without a link as the start of one with a link, which is a little wider than the scores.

        From ridge regression (`linked_start`) the evidence rises unevenly, and pauses or falls long before its maximum.
        """
        middle, reach = self.solver.link_range
        scalars = [*plain.point.scalars, middle, -np.log(_WIDE * reach)]
        return replace(plain.point, scalars=np.array(scalars), linked=True), plain.hyper

    def linked_start(self, with_background: bool) -> tuple[Centred, Hyper]:
        """Return a point with the narrowest link that contains the scores: ridge regression on the scores before that link."""
        middle, reach = self.solver.link_range
        inner = (self.scores - middle) / reach
        pull = self.weights * (1.0 - inner[:, 0] ** 2) ** 2
        line = ridge(self.counts, middle + reach * np.arctanh(inner), pull)
        line = line._replace(level=line(self.line.centre[None])[0], centre=self.line.centre)
        return self.start(line, with_background, (middle, float(-np.log(reach))))

    def linear_limit(self, with_background: bool) -> Candidate:
        """Return ridge regression as a SLALOM: the background is so large that the curvature is below the noise."""
        point, hyper = self.limit_point(with_background)
        hyper = hyper._replace(tightness=1.0)
        at = self.solver.linearised(point, hyper, traces=True)
        return Candidate(point, hyper, self.line.evidence, at.terms, 0, True, 0.0, 0.0, at.factors, self.solver.traced(at)[0])

    def limit_point(self, with_background: bool) -> tuple[Centred, Hyper]:
        """Return the point of the linear limit, and the precisions of its start."""
        point, hyper = self.start(self.line, with_background)
        if with_background:  # without one all inputs have the same length, where equal weights are linear already
            p, q, _ = point.attention
            curvature = (point.x @ (p[:, None] * point.psi)) * q[:, None]
            rest = 0.01 * self.line.noise**0.5 / max(float((curvature**2).sum(1).max()) ** 0.5, 1e-300)
            share = 1.0 - float(np.clip(rest, 1.0 - SHARE[1], _LINEAR_REST))
            point = replace(point, scalars=np.array([share]))
        return point, hyper

    # -- the result ---------------------------------------------------------------------------------------------------

    def finish(self, best: Candidate) -> Fit:
        """Turn the best candidate into a Slalom with standard errors."""
        linear = best.iterations == 0
        if not (linear or best.polished):
            best = self.solver.polish(best)
        point = best.point
        nodes: list[tuple[Candidate, float]] = []
        if linear or not worth_mixing(self.solver, best):
            errors = standard_errors(best, self.basis)
        else:
            nodes = mixture(self.solver, best)
            errors = mixed_errors(self.solver, best, self.basis, nodes)
        errors = widened(errors, point, best.hyper.strength, best.hyper.tightness, self.basis)
        rows = SomeRows.of(self.counts, self.weights, best) if point.linked else None
        jitter = self.solver.jitter
        notes = (_LINEAR if linear else "", _JITTER.format(jitter) if jitter > _REPORTED_JITTER else "")
        fitted = self.problem.fitted(
            self.model(point),
            converged=best.converged,
            iterations=self.solver.iterations,
            note=" ".join(part for part in notes if part),
            values_se=errors.values,
            importances_se=errors.importances,
            draw=partial(drawn, replace(best, before=None), nodes, self.basis, rows),
        )
        free = min(fitted.loss * best.hyper.precision / self.scores.shape[1], 1.0)
        return sound(replace(fitted, free=free, evidence=best.evidence))

    def linear(self) -> Fit:
        """Return the linear limit without standard errors; it needs no factors beyond those of the ridge regression."""
        equal = self.options.background is False and self.lengths_vary
        if equal:
            point = self.solver.solve_linear_block(*self.start(self.line, with_background=False))[0]
        else:
            point = self.limit_point(self.options.background is True or self.lengths_vary)[0]
        model = self.model(point)
        return sound(self.problem.fitted(model, converged=True, iterations=1, note=_EQUAL if equal else _RIDGE))

    def model(self, point: Centred) -> Slalom:
        """Return the Slalom of a point; ArithmeticError where it is not finite."""
        values, background, link = self.classes(point.values), None, None
        if point.background:
            value, importance = point.outside
            background = (self.classes(value), float(importance))
        if point.linked:
            middle, reach = point.scalars[-2:-1], np.exp(-point.scalars[-1:])
            link = self.classes(middle), np.abs(self.classes(reach))
        if not all_finite(values, point.t, *(background or ()), *(link or ())) or (link and not np.all(link[1])):
            raise ArithmeticError("the parameters are beyond the range of floats")
        return Slalom(values, point.t, background, link)

    def classes(self, outputs: Floats) -> Floats:
        """Return outputs (..., K) as a single number, or as centred scores of the classes."""
        return outputs[..., 0] if self.basis is None else outputs @ self.basis.T


def _evidence(candidate: Candidate) -> float:
    return candidate.evidence
