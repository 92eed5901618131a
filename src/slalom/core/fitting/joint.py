"""Values, importances, background and link fitted at once; the data choose the strength of the priors and the model.

    v_i ~ N(mean, tau^2),    s_i ~ N(0, sigma^2),    y = F(c) + noise

The priors shrink towards the linear limit, ridge regression, as far as the data allow: tau, sigma and the noise are those
that maximise the evidence, the probability of the data with all parameters integrated out (`ascent`). The same evidence
decides between the candidates: the linear limit, SLALOM with a background, without one, with a saturating link. The inverse
Gauss-Newton Hessian is the posterior covariance, which gives the standard errors.
"""

from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import final

import numpy as np
from scipy.linalg import helmert

from slalom.core.checks import Floats
from slalom.core.fitting.ascent import Ascent, Candidate, Hyper, hopeless
from slalom.core.fitting.backend import Backend, NumpyBackend, backend
from slalom.core.fitting.centred import SHARE, Centred, Design
from slalom.core.fitting.errors import standard_errors, widened
from slalom.core.fitting.mixture import mixed, mixed_errors
from slalom.core.fitting.problem import FALLBACK, Fit, Fitter, Problem, all_finite, sound
from slalom.core.fitting.ridge import Ridge, ridge
from slalom.core.fitting.steps import Factors
from slalom.core.surrogate import Slalom
from slalom.errors import InputError

_WORTH_A_GPU = 60_000  # n (m + 2 n): below, launching the steps takes longer than computing them
_FIRST_LOOK = 5  # iterations after which it is asked whether the scores saturate
_MARGIN = 5.0  # nats by which a richer model must beat the linear limit
_BENT = 15.0  # nats that a curve in S must promise before a link is tried
_CLEAR = 3.0  # times as many, or as few, leave no doubt
_FAINT = 0.1  # a background with a smaller share than this may be none at all
_LARGE = 50_000  # elements of counts from which single precision saves more than it costs
_SHARES = (0.1, 0.01)  # of the background, tried in turn after a half
_NOTICED = 1e-6  # a larger part of the normal equations' diagonal that was added to them is worth a word
_GONE = 0.01  # and with a smaller share than this the question is asked at once
_REPEATED = f"{FALLBACK} single precision or the GPU was not enough; the fit was repeated in double precision on the CPU."
_RIDGE = f"{FALLBACK} the fit failed numerically; this is ridge regression written as a SLALOM, without standard errors."
_EQUAL = f"{FALLBACK} the fit failed numerically; all importances are taken as equal, without standard errors."
_LIFTED = f"{FALLBACK} the normal equations were nearly singular; {{:.0e}} of their diagonal was added to solve them."
_CONSTANT = f"{FALLBACK} the fit and ridge regression failed numerically; every unit has the mean score instead."
_LINEAR = (
    "The data do not tell the importances apart: this is ridge regression written as a SLALOM, and only the effects of"
    " the units (the gradient and removal scores) mean something."
)


@final
@dataclass(frozen=True)
class Joint(Fitter):
    """Fit values, importances, background and link together; nothing needs to be set for ordinary use.

    background: True, False, or None to let the data decide. link: the same for one score a row; two classes get one where
    the data ask for it, more get none. max_iterations: of each candidate. tolerance: a candidate is done when an iteration
    adds less than this to the evidence, per row. device: "cpu", "cuda", or "auto" for CUDA where torch is loaded and sees one
    and the problem is large enough to gain by it.

    Where the normal equations have no solution, more is added to their diagonal; then the fit is repeated in double precision
    on the CPU, then ridge regression is returned, then the mean score. The diagnosis says which.
    """

    background: bool | None = None
    link: bool | None = None
    max_iterations: int = 100
    tolerance: float = 5e-3
    device: str = "auto"

    def __post_init__(self) -> None:
        """Check the numbers."""
        if not self.max_iterations >= 1:
            raise InputError(f"max_iterations must be at least 1; got {self.max_iterations!r}")
        if not 0 <= self.tolerance < np.inf:
            raise InputError(f"tolerance must be finite and not negative; got {self.tolerance!r}")

    def solve(self, problem: Problem) -> Fit:
        """Return the candidate with the highest evidence."""
        if self.background is False:
            problem.refuse_empty_rows("Joint(background=False)")
        if self.link and problem.scores.ndim == 2:
            raise InputError("Joint(link=True) needs one score a row; with several classes use link=None")
        if problem.steady or problem.rows_alike:
            return problem.constant()
        if problem.counts.shape[1] == 1 and problem.empty_rows and len(np.unique(problem.counts)) == 2:
            return _single(problem)
        m, n = problem.counts.shape
        small = self.device == "auto" and n * (m + 2 * n) < _WORTH_A_GPU
        on = backend("cpu" if small else self.device)
        with suppress(*on.failures), on.session():
            return _Search(self, problem, on).fit()
        exact, on = isinstance(on, NumpyBackend) and problem.counts.size < _LARGE, NumpyBackend()
        with suppress(*on.failures), on.session():
            search = _Search(self, problem, on, coarse=False)
            if not exact:
                with suppress(*on.failures):
                    return search.fit(_REPEATED)
            return search.linear()
        return problem.constant(_CONSTANT)


def _single(problem: Problem) -> Fit:
    """Return the fit of one unit, there or not: background and unit of equal importance take the two mean scores.

    F(0) = v_0 and F(c) = (v_0 + c v) / (1 + c), so v = F(c) + (F(c) - v_0) / c.
    """
    there = problem.counts[:, 0] > 0
    empty, full = (np.average(problem.scores[x], axis=0, weights=problem.weights[x]) for x in (~there, there))
    values = (full + (full - empty) / problem.counts.max())[None]
    if not all_finite(values):
        raise ArithmeticError("the value is beyond the range of floats")
    note = "With one unit its value cannot be told from its importance; they are taken as equal."
    return problem.fitted(Slalom(values, [0.0], (empty, 0.0)), converged=True, iterations=0, note=note)


class _Search:
    """One solve: which candidates are tried, and what becomes of the best."""

    def __init__(self, options: Joint, problem: Problem, on: Backend, coarse: bool = True) -> None:
        self.options, self.problem, self.on = options, problem, on
        single = problem.scores.ndim == 1
        self.basis: Floats | None = None if single else helmert(problem.scores.shape[1]).T  # (C, K), orthonormal
        seen = problem.weights > 0
        self.counts = problem.counts if seen.all() else problem.counts[seen]
        self.weights = problem.weights[seen] / problem.weights[seen].mean()
        self.scores = (problem.scores[:, None] if self.basis is None else problem.scores @ self.basis)[seen]
        self.seen = Problem(self.counts, self.scores, self.weights)
        self.rows = self.on.asarray(self.counts)
        self.line = ridge(self.rows, self.scores, self.weights, self.on)
        self.more = self.on.spare(*self.counts.shape)
        (rows, units), fill, centre = self.more, self.on.fill, self.on.asarray(self.line.centre)
        scores, weights, roots = map(self.on.asarray, (self.scores, self.weights, np.sqrt(self.weights)))
        design = Design(
            fill(self.rows, rows, units),
            fill(self.rows - centre, rows, units),
            fill(centre, units),
            fill(scores, rows, 0),
            fill(weights, rows),
            fill(roots, rows),
        )
        variance, limits = self.seen.spread, (options.tolerance, options.max_iterations)
        self.ascent = Ascent(design, self.on, self.scores, self.weights, len(self.line.centre), variance, *limits)
        self.ascent.large = self.counts.size >= _LARGE
        self.ascent.coarse = coarse and self.ascent.large
        self.iterations = 0

    def climb(
        self,
        start: tuple[Centred, Hyper],
        limit: int | None = None,
        target: float = -np.inf,
        gone: float = 0.0,
        evidence: float = -np.inf,
        before: Candidate | None = None,
    ) -> Candidate:
        """Climb from a start and count the iterations."""
        found = self.ascent.climb(*start, limit, target, gone, evidence, before)
        self.iterations += found.iterations - (before.iterations if before else 0)
        return found

    @cached_property
    def told_apart(self) -> bool:
        """Whether inputs differ in length: where they do not, a background can be shared out among the units."""
        totals = self.counts.sum(axis=1)
        return float(np.ptp(totals)) > 1e-9 * float(totals.max())

    def fit(self, note: str = "") -> Fit:
        """Try the candidates that the options and the data call for; return the best."""
        options = self.options
        with_background = options.background is True or (options.background is None and self.told_apart)
        self.may_drop = options.background is None and with_background and not self.problem.empty_rows
        if options.link:
            best = self.or_bare(self.climb(self.linked_start(with_background)))
        else:
            best = self.plain_or_linked(with_background)
            if options.background is not False and best.evidence < self.line.evidence + _MARGIN:
                best = self.linear_limit(with_background)
        return self.finish(best, note)

    def plain_or_linked(self, with_background: bool) -> Candidate:
        """Return the better of the models without and, where the residuals ask for it, with a link."""
        gone = _GONE if self.may_drop else 0.0
        start = self.start(self.line, with_background)
        if with_background:
            start = self.best_share(*start)
        plain = self.or_bare(self.climb(start, limit=_FIRST_LOOK, gone=gone))
        plain, linked = self.tested(plain, with_background)
        target = -np.inf if linked is None else linked.evidence
        open_ = not plain.converged and plain.iterations < self.options.max_iterations
        if open_ and not hopeless(plain.evidence, plain.gain, target):
            start = plain.point, plain.hyper
            plain = self.or_bare(self.climb(start, target=target, before=plain))
            if linked is None:
                plain, linked = self.tested(plain, with_background)
        return plain if linked is None else max(plain, linked, key=_evidence)

    def tested(self, plain: Candidate, with_background: bool) -> tuple[Candidate, Candidate | None]:
        """Return a model without a link, and one with a link where its residuals ask for it.

        Before its last step they mostly say clearly whether they do. Where not, they are asked at the point itself, which is
        polished first if it is to stay: its linearisation serves both.
        """
        if self.options.link is not None or self.scores.shape[1] > 1:
            return plain, None
        first = _BENT if plain.before is None else self.ascent.bends_at(plain.before)
        if first <= _CLEAR * _BENT:
            if plain.converged:
                plain = self.ascent.polish(plain)
            if first < _BENT / _CLEAR or not self.ascent.bends(plain) > _BENT:
                return plain, None
        return plain, self.or_bare(self.climb(self.linked_start(with_background), target=plain.evidence))

    def or_bare(self, found: Candidate) -> Candidate:
        """Return a candidate, or the same without its background where that is faint and the evidence is higher so."""
        if not (self.may_drop and found.point.background and found.terms.share <= _FAINT):
            return found
        inside = found.point.psi / found.point.rest
        point = replace(found.point, psi=inside, scalars=found.point.scalars[1:], background=False)
        return max(found, self.climb((point, found.hyper), target=found.evidence, evidence=found.evidence), key=_evidence)

    def start(self, line: Ridge, with_background: bool, link: tuple[float, float] | None = None) -> tuple[Centred, Hyper]:
        """Return the point that agrees with a ridge regression at the mean input: equal weights, half of them outside."""
        total = float(line.centre.sum())
        psi = total * line.slopes
        if not with_background:
            psi = psi - (line.centre @ psi) / total  # then the level is S at the mean input
        put, variance, (_, units) = self.on.asarray, self.ascent.variance, self.more
        deviations, t = self.on.fill(put(psi), units, 0), self.on.fill(put(np.zeros(len(psi))), units)
        scalars = put(np.array([*([0.5] if with_background else []), *(link or ())]))
        level, design = put(line.level), self.ascent.design
        point = Centred(level, deviations, t, scalars, with_background, link is not None, design, self.on)
        noise = line.noise
        if link is not None:
            residual = self.on.numpy(point.residual)[: len(self.scores)]
            noise = self.seen.mean_square(residual)
        size = max(float((psi**2).mean()), 1e-30 * variance)
        hyper = Hyper(1.0 / size, 4.0, 1.0 / max(noise, 1e-24 * variance))
        return point, hyper

    def best_share(self, point: Centred, hyper: Hyper) -> tuple[Centred, Hyper]:
        """Return the start whose share makes equal weights most probable."""
        best = self.ascent.flat(point, hyper)
        for share in _SHARES:
            tried = self.ascent.flat(replace(point, scalars=self.on.asarray(np.array([share]))), hyper)
            if not tried[2] > best[2]:
                break
            best = tried
        return best[:2]

    def linked_start(self, with_background: bool) -> tuple[Centred, Hyper]:
        """Return a point whose link just holds the scores, by a ridge regression on the scores taken back through it."""
        middle, reach = self.ascent.held
        inner = (self.scores - middle) / reach
        pull = self.weights * (1.0 - inner[:, 0] ** 2) ** 2
        line = ridge(self.rows, middle + reach * np.arctanh(inner), pull, self.on)
        line = line._replace(level=line(self.line.centre[None])[0], centre=self.line.centre)
        return self.start(line, with_background, (middle, float(-np.log(reach))))

    def linear_limit(self, with_background: bool) -> Candidate:
        """Return ridge regression as a SLALOM: so large a background that the curvature drowns in the noise."""
        point, hyper = self.limit_point(with_background)
        hyper = hyper._replace(tightness=1.0)
        at = self.ascent.linearised(point, hyper, exact=True, traces=True)
        return Candidate(point, hyper, self.line.evidence, at.terms, 0, True, 0.0, 0.0, at.factors, self.ascent.traced(at)[0])

    def limit_point(self, with_background: bool) -> tuple[Centred, Hyper]:
        """Return the point of the linear limit, and the precisions of its start."""
        point, hyper = self.start(self.line, with_background)
        if with_background:  # without one all inputs have one length, where equal weights are linear already
            p, q, _ = point.attention
            bend = (point.x @ (p[:, None] * point.psi)) * q[:, None]
            rest = 0.01 * self.line.noise**0.5 / max(float((bend**2).sum(1).max()) ** 0.5, 1e-300)
            share = 1.0 - float(np.clip(rest, 1.0 - SHARE[1], 0.5))
            point = replace(point, scalars=self.on.asarray(np.array([share])))
        return point, hyper

    # -- the result ---------------------------------------------------------------------------------------------------

    def finish(self, best: Candidate, note: str) -> Fit:
        """Turn the best candidate into a Slalom with standard errors; note is what else there is to say."""
        linear = best.iterations == 0
        if not (linear or best.polished):
            best = self.ascent.polish(best)
        if linear or not mixed(self.ascent, best):
            errors, point = standard_errors(best, self.basis, units=self.ascent.units), self.brought(best.point)
        else:
            point = replace(self.brought(best.point), design=self.at_home.design)
            best = replace(best, point=point, factors=self.factors(best))
            with self.at_home.on.session():
                errors = mixed_errors(self.at_home, best, self.basis)
        errors = widened(errors, point, best.hyper.strength, best.hyper.tightness, self.basis)
        lift = self.ascent.lift
        notes = (_LINEAR if linear else "", note, _LIFTED.format(lift) if lift > _NOTICED else "")
        return sound(
            self.problem.fitted(
                self.model(point),
                converged=best.converged,
                iterations=self.iterations,
                note=" ".join(part for part in notes if part),
                values_se=errors.values,
                importances_se=errors.importances,
                background_se=errors.background,
            )
        )

    def linear(self) -> Fit:
        """Return the linear limit without standard errors: nothing is factorised but what the ridge regression has."""
        equal = self.options.background is False and self.told_apart
        if equal:
            point = self.ascent.flat(*self.start(self.line, with_background=False))[0]
        else:
            point = self.limit_point(self.options.background is True or self.told_apart)[0]
        model = self.model(self.brought(point))
        return sound(self.problem.fitted(model, converged=True, iterations=1, note=_EQUAL if equal else _RIDGE))

    @cached_property
    def at_home(self) -> Ascent:
        """The ascent on the host, with nothing filled up."""
        if isinstance(self.on, NumpyBackend):
            return self.ascent
        centre = self.line.centre
        design = Design(self.counts, self.counts - centre, centre, self.scores, self.weights, np.sqrt(self.weights))
        return replace(self.ascent, design=design, on=NumpyBackend(), tilt=None, last=None, sent={})

    def brought(self, point: Centred) -> Centred:
        """Return a point on the host, without what the arrays were filled up with."""
        n, numpy, on = self.ascent.units, self.on.numpy, NumpyBackend()
        level, psi, t, scalars = map(numpy, (point.level, point.psi, point.t, point.scalars))
        design = Design(None, None, self.line.centre, None, None, None)
        return replace(point, level=level, psi=psi[:n], t=t[:n], scalars=scalars, design=design, on=on)

    def factors(self, best: Candidate) -> Factors:
        """Return the factors of a candidate on the host, without what was filled up: it is tied to nothing else."""
        n, (linear, half, shape, schur) = self.ascent.units, map(self.on.numpy, best.factors)
        there = np.r_[:n, len(best.point.t) : len(shape)]  # of the shape side
        return Factors(
            linear[: 1 + n, : 1 + n], half[:, : 1 + n][:, :, there], shape[np.ix_(there, there)], schur[np.ix_(there, there)]
        )

    def model(self, point: Centred) -> Slalom:
        """Return the Slalom of a point of the host; ArithmeticError where that is not finite."""
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
