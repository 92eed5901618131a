"""Fit values, importances, competition, bias, link and what they leave in one evidence.

    score = F(c) + r(c) + noise,    r ~ GP(0, sum of kernels),    u_i ~ N(0, var_u),  s_i ~ N(0, var_s)

In each step the formula F is replaced by its tangent. Scores are then a sum of Gaussian parts: values, importances, the other
parameters, the kernels of what the formula leaves, and noise that grows with the number of removed units. Their covariance says
where to move the parameters (a damped Gauss-Newton step), and their evidence which variances are likelier (one step of average
information). Where they settle, the same covariance gives the standard error of any prediction, and of any difference of
predictions: they are linear in Gaussian parts.

With several classes, importances, competition and variances are those of the direction in which the scores vary most, and the
other parts are linear: one solve for all classes.
"""

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cholesky, lapack, solve_triangular

from slalom.core.base import Link
from slalom.core.checks import Floats
from slalom.core.fitting.kernels import Keep, Kernel
from slalom.core.fitting.noise import Observed
from slalom.core.fitting.problem import Fit, Fitter, Problem, all_finite
from slalom.core.slalom import Slalom
from slalom.interrupt import check

_STEPS = 14, 40  # at most: with kernels, which take up what is not settled, and without
_WEIGHED = (2, 5)  # steps before which units are weighed by how much they matter
_SIGNS = 64  # by which traces are estimated
_SETTLED = 0.15  # change of the logarithm of a variance, and of a prediction in standard deviations of the scores
_ALONE = 0.3  # how much a unit without an effect matters to the residual, beside the mean of the effects
_VALUES, _IMPORTANCES = 3.0, 1.5  # prior deviations: in those of the scores; of logarithms
COMPETITION_PRIOR = -1.0, 1.5  # mean and deviation of the logit of the competition before any score is known
_FURTHEST = (2.0, 1.5, 1.0)  # a step of importances, of the logit of the competition, of the logarithm of the reach
_LEAST_NOISE = 0.003, 1e-8  # of the variance of the scores: with kernels, and without
_EXPECTED = 0.03  # share of the variance that each kernel and the noise have before any score is known
_CERTAIN = np.array([1.0, 2.0, 1.0 / 6.0])  # precision of the log variances: of values, importances, kernels and noise


@final
@dataclass(frozen=True)
class Joint(Fitter):
    """Fits values, importances, competition, bias and link jointly; nothing needs to be set.

    Args:
        link: Whether scores saturate; only for one score per row, several classes have no link.

    Example:
        >>> from slalom.core import fit
        >>> truth = Slalom([1.0, -2.0, 0.5], [0.3, 0.7, -1.0], competition=0.5)
        >>> counts = np.random.default_rng(0).integers(0, 3, (50, 3))
        >>> fit(counts, truth(counts), Joint(link=False)).model.values.round(2).tolist()
        [1.0, -2.0, 0.5]
    """

    link: bool = True

    def solve(self, problem: Problem) -> Fit:
        if problem.steady or problem.rows_alike:
            return problem.constant()
        rows = problem.weights > 0
        counts, noise = problem.counts[rows], 1.0 / problem.weights[rows]
        found = fitted(counts, Observed(problem.scores[rows]), noise / noise.mean(), link=self.link)
        return problem.fitted(
            found.model,
            converged=found.converged,
            iterations=found.steps,
            values_se=found.errors(Changes.of_values(counts.shape[1])),
            importances_se=found.importances_se,
        )


class Changes(NamedTuple):
    """Differences of predictions: matrix (k, rows) times the scores of rows."""

    counts: Floats  # of the parameters (rows, p)
    keep: Keep  # which units the rows keep (rows, n), for the kernels
    matrix: Floats
    profile: Floats | float = 0.0  # how much more noise than others each row has (rows,); 0: what the surrogate alone says

    @staticmethod
    def of_values(n: int) -> "Changes":
        """Return each parameter alone, less none."""
        return Changes(np.vstack([np.zeros(n), np.eye(n)]), np.zeros((n + 1, 0), bool), np.insert(np.eye(n), 0, -1.0, axis=1))


class Parameters(NamedTuple):
    """The parameters of the formula, for one score."""

    values: Floats
    importances: Floats
    bias: float
    logit: float  # of the competition
    middle: float
    log_reach: float

    @property
    def competition(self) -> float:
        """The competition, between 0 and 1."""
        return float(1.0 / (1.0 + np.exp(-self.logit)))

    def tangent(self, counts: Floats, linked: bool) -> tuple[Floats, Floats]:
        """Return the scores (m,) and their derivatives (m, 2 p + 4) by the parameters, in the order of the fields."""
        kappa, weights = self.competition, np.exp(self.importances)
        total = np.maximum(counts @ weights, 1e-300)
        by_value = counts * weights**kappa / total[:, None] ** kappa
        evidence = by_value @ self.values
        by_importance = kappa * (by_value * self.values - counts * weights * (evidence / total)[:, None])
        by_logit = (by_value @ (self.values * self.importances) - evidence * np.log(total)) * kappa * (1.0 - kappa)
        z, nothing = self.bias + evidence, np.zeros(len(counts))
        if not linked:
            return z, np.column_stack([by_value, by_importance, np.ones(len(counts)), by_logit, nothing, nothing])
        reach = np.exp(self.log_reach)
        x = (z - self.middle) / reach
        bound = np.tanh(x)
        slope = 1.0 - bound**2
        others = [slope, slope * by_logit, bound**2, reach * (bound - x * slope)]
        by = np.column_stack([slope[:, None] * by_value, slope[:, None] * by_importance, *others])
        return self.middle + reach * bound, by

    def evidence(self, counts: Floats) -> Floats:
        """Return A(c) (m,), what the units say together, before bias and link."""
        weights, kappa = np.exp(self.importances), self.competition
        return np.asarray(counts @ (self.values * weights**kappa) / np.maximum(counts @ weights, 1e-300) ** kappa)

    def predict(self, counts: Floats, linked: bool) -> Floats:
        """Return the scores (m,)."""
        z, reach = self.bias + self.evidence(counts), np.exp(self.log_reach)
        return np.asarray(self.middle + reach * np.tanh((z - self.middle) / reach) if linked else z)


class State(NamedTuple):
    """What another fit takes up: a few numbers per unit."""

    theta: Floats  # parameters as they are numbered in the steps (2 p + 4,)
    start: Floats  # their prior means
    log_variances: Floats  # of values, importances, each kernel and noise
    converged: bool  # whether nothing moved any more
    steps: int


class Prior(NamedTuple):
    """What is known of the parameters before a text's own scores, from other texts."""

    means: Floats  # of the parameters as they are numbered in the steps (2 p + 4,)
    scales: Floats  # variances of values and importances (2 p,), relative to those that the fit learns
    others: Floats  # variances of bias, logit of the competition, middle and logarithm of the reach (4,)
    log_variances: Floats  # usual ones of the variances that the fit learns, of both kernels too
    certain: Floats  # how much each of these is worth, as a precision
    spread: float  # standard deviation of scores


class Factor:
    """A covariance by its Cholesky factor, which is written over it."""

    def __init__(self, covariance: Floats) -> None:
        # Of its transpose, which is in the order of LAPACK: no copy.
        self.lower = cholesky(covariance.T, lower=True, overwrite_a=True, check_finite=False)

    def solve(self, columns: Floats) -> Floats:
        """Return the inverse times columns."""
        return np.asarray(lapack.dpotrs(self.lower, columns, lower=1)[0]).reshape(columns.shape)

    def half(self, columns: Floats) -> Floats:
        """Return the inverse of the factor times columns: their products are those with the inverse covariance."""
        return np.asarray(solve_triangular(self.lower, columns, lower=True, check_finite=False))

    def back(self, columns: Floats) -> Floats:
        """Return the transposed inverse of the factor times columns."""
        return np.asarray(solve_triangular(self.lower, columns, lower=True, trans=1, check_finite=False))


class _Search:
    """The parameters and variances as they are fitted to one score per row."""

    def __init__(
        self,
        counts: Floats,
        observed: Observed,
        profile: Floats,
        kernels: Sequence[Kernel],
        kinds: NDArray[np.int64],
        link: bool,
        known: Prior | None = None,
    ) -> None:
        self.counts, self.observed, self.profile, self.kernels, self.kinds = counts, observed, profile, kernels, kinds
        self.linked, self.p, self.steps, self.converged = link, counts.shape[1], 0, False
        self.scores, self.known = observed.start(), np.zeros(len(counts))
        self.before, self.spread = known, known.spread if known else float(self.scores.std()) + 1e-300
        if not observed.exact:
            self.scores, self.known = observed.working(self.scores, np.full(len(counts), self.spread**2))
        centre = float(self.scores.mean())
        reach = 2.0 * float(np.abs(self.scores - centre).max())
        signs = np.random.default_rng(0).integers(0, 2, (len(counts), _SIGNS)) * 2.0 - 1.0
        self.signs = signs / np.sqrt(_SIGNS)
        self.start = np.concatenate([np.zeros(2 * self.p), [centre, COMPETITION_PRIOR[0], centre, np.log(reach + 1e-300)]])
        learnt = np.r_[:2, 2 : 2 + len(kernels), -1]  # without kernels their variances are left out
        self.log_variances = known.log_variances[learnt] if known else np.log(self.expected(0.05, 0.1))
        self.certain = known.certain[learnt] if known else np.repeat(_CERTAIN, [1, 1, len(kernels) + 1])
        self.known_variances = self.log_variances if known else None
        self.start = known.means if known else self.start
        self.theta = self.start

    def expected(self, kernel: float, noise: float) -> Floats:
        """Return variances of values, importances, each kernel and noise; these as shares of that of the scores."""
        sizes = [max(float(np.trace(k.matrix)) / len(self.scores), 1e-12) for k in self.kernels]
        shares = np.array([_VALUES**2, *(kernel / size for size in sizes), noise])
        return np.insert(shares * self.spread**2, 1, _IMPORTANCES**2)

    @property
    def usual(self) -> Floats:
        """Logarithms of variances before any score is known."""
        return np.log(self.expected(_EXPECTED, _EXPECTED)) if self.known_variances is None else self.known_variances

    def parameters(self, theta: Floats) -> Parameters:
        """Return parameters as they are numbered in the steps."""
        u, s, (bias, logit, middle, log_reach) = np.split(theta, [self.p, 2 * self.p])
        return Parameters(u, s, bias, logit, middle, log_reach)

    @property
    def prior(self) -> Floats:
        """Prior variances (2 p + 4,) of the parameters."""
        values, importances = np.exp(self.log_variances[:2])
        if self.before:
            return np.concatenate([self.before.scales * np.repeat([values, importances], self.p), self.before.others])
        wide = [_VALUES**2 * self.spread**2, COMPETITION_PRIOR[1] ** 2, *([self.spread**2, 1.0] if self.linked else [0.0, 0.0])]
        return np.concatenate([np.full(self.p, values), np.full(self.p, importances), wide])

    @property
    def noise(self) -> Floats:
        """Variances (m,) of what is left, known noise included."""
        return np.asarray(np.exp(self.log_variances[-1]) * self.profile + self.known + 1e-10 * self.spread**2)

    def left(self) -> Floats:
        """Return the covariance (m, m) of what the formula leaves."""
        covariance = np.diag(self.noise)
        for variance, kernel in zip(np.exp(self.log_variances[2:-1]), self.kernels, strict=True):
            covariance += variance * kernel.matrix
        return covariance

    def run(self, before: "State | None") -> None:
        """Take steps until nothing moves; only one, where there is a fit of most of the rows and scores are exact."""
        most, settled = _STEPS[0 if self.kernels else 1], _WEIGHED[-1] + 2
        if before is not None:
            self.theta, self.start, self.log_variances, self.converged, self.steps = before
            self.weigh()
            most, settled = 1 if self.observed.exact else most, 0
        for step in range(most):
            check()
            if before is None and step in _WEIGHED and self.kernels:
                self.weigh()
            self.steps += 1
            if self.step() < _SETTLED and step >= settled:
                self.converged = True
                return

    def step(self) -> float:
        """Move the parameters and the variances; return how far."""
        now, p, prior = self.parameters(self.theta), self.p, self.prior
        predicted, by = now.tangent(self.counts, self.linked)
        left = self.left()
        factor = Factor(left + (by * prior) @ by.T)
        pull = factor.solve(self.scores - predicted + by @ (self.theta - self.start))
        moved = self.damped(self.start + prior * (by.T @ pull), prior, left)
        change = float(np.abs(self.parameters(moved).predict(self.counts, self.linked) - predicted).max()) / self.spread
        self.theta = moved
        # The trace of a part within the covariance is the mean of its quadratic form over signs, brought to that covariance.
        turned = np.column_stack([pull, factor.back(self.signs)])
        *variances, noise = np.exp(self.log_variances)
        parts = [part @ (part.T @ turned) for part in (by[:, :p], by[:, p : 2 * p])]
        parts += [kernel.matrix @ turned for kernel in self.kernels]
        parts = [*(v * part for v, part in zip(variances, parts, strict=True)), (noise * self.profile)[:, None] * turned]
        pulled = np.stack([part[:, 0] for part in parts], axis=1)
        trace = np.array([np.vdot(turned[:, 1:], part[:, 1:]) for part in parts])
        slope = 0.5 * (pull @ pulled - trace) - self.certain * (self.log_variances - self.usual)
        bend = 0.5 * pulled.T @ factor.solve(pulled) + np.diag(self.certain + 0.25 * np.minimum(trace, 4.0))
        before, least = self.log_variances, _LEAST_NOISE[0 if self.kernels else 1] * self.spread**2
        self.log_variances = before + np.clip(np.linalg.solve(bend, slope), -1.5, 1.5)
        self.log_variances[-1] = max(self.log_variances[-1], np.log(least))
        if not self.observed.exact:  # where the tangent's predictions were, with what the kernels add
            own = self.noise
            self.scores, self.known = self.observed.working(self.scores - own * pull, own - self.known)
        return max(change, float(np.abs(self.log_variances - before).max()))

    def damped(self, goal: Floats, prior: Floats, left: Floats) -> Floats:
        """Return the parameters on the way to a goal: as far as the tangent holds, and the posterior is higher there."""
        factor, way, free = Factor(left), goal - self.theta, prior > 0.0
        sizes = np.abs(way[self.p : 2 * self.p]).max(), *np.abs(way[[-3, -1]])
        share = min(1.0, *(most / max(float(size), 1e-9) for most, size in zip(_FURTHEST, sizes, strict=True)))

        def cost(theta: Floats) -> float:
            rest = factor.half(self.scores - self.parameters(theta).predict(self.counts, self.linked))
            return float(rest @ rest + ((theta - self.start)[free] ** 2 / prior[free]).sum())

        now = cost(self.theta)
        for trial in share * 0.4 ** np.arange(6):
            if cost(self.theta + trial * way) < now:
                return np.asarray(self.theta + trial * way)
        return self.theta

    def weigh(self) -> None:
        """Let units that matter to the formula matter to the residual."""
        whole = np.bincount(self.kinds, minlength=self.p).astype(float)
        sums = self.parameters(self.theta).evidence(np.vstack([whole, whole - np.eye(self.p)]))
        effects = np.abs(sums[0] - sums[1:])[self.kinds]
        for kernel in self.kernels:
            kernel.weigh(_ALONE + effects / (effects.mean() + 1e-300))


@final
class Fitted:
    """A fitted surrogate (`model`) with its posterior: the errors of any prediction."""

    def __init__(self, search: _Search, scores: Floats, amplitude: Floats) -> None:
        self._search, self._amplitude = search, amplitude
        self.converged, self.steps = search.converged, search.steps
        s, now = search, search.parameters(search.theta)
        predicted, self._by = now.tangent(s.counts, s.linked)
        self._prior, own = s.prior, s.left()
        self._factor = Factor(own + (self._by * self._prior) @ self._by.T)
        self._left = Factor(own)
        link = Link(now.middle, float(np.exp(now.log_reach))) if s.linked else None
        single = scores.ndim == 1
        self.model = self._model(scores, now.values, now.bias, predicted, link) if single else self._linear(scores)

    def part(self, scores: Floats) -> "Fitted":
        """Return the fit of a part (m,) of the scores: only values, bias and the scale of all variances are its own.

        Models of parts that add up to the scores add up to (nearly) this one, but for its link.
        """
        part, y = copy(self), scores - scores.mean()
        part.model, part._amplitude = self._linear(scores), np.sqrt(y @ self._factor.solve(y) / len(y))
        return part

    @cached_property
    def _straight(self) -> tuple[Floats, Floats, Factor]:
        """Derivatives (m, p + 1) by values and bias without the link, their prior, and the covariance by both."""
        s = self._search
        chosen = np.r_[: s.p, 2 * s.p]
        by, prior = s.parameters(s.theta).tangent(s.counts, False)[1][:, chosen], self._prior[chosen]
        return by, prior, Factor(s.left() + (by * prior) @ by.T)

    def _linear(self, scores: Floats) -> Slalom:
        """Return the model of scores (m,) or (m, n_classes), linear in values and bias given importances and competition."""
        by, prior, factor = self._straight
        centre = scores.mean(axis=0)
        solved = (prior * (by.T @ factor.solve(scores - centre)).T).T
        return self._model(scores, solved[:-1], solved[-1] + centre, by @ solved + centre, None)

    def _model(self, scores: Floats, values: Floats, bias: float | Floats, formula: Floats, link: Link | None) -> Slalom:
        """Return a model of scores with a formula, which predicts (m,) or (m, n_classes), and what it leaves."""
        s, now = self._search, self._search.parameters(self._search.theta)
        pulls = self._left.solve(scores - formula)
        variances = np.exp(s.log_variances[2:-1])
        parts = [kernel.part(v * pulls) for v, kernel in zip(variances, s.kernels, strict=True)]
        if not all_finite(values, now.importances, bias, pulls):
            raise ArithmeticError("the fit has left the range of floats")
        return Slalom(values[s.kinds], now.importances[s.kinds], now.competition, bias, link, parts)

    @property
    def state(self) -> State:
        """What a fit of further rows takes up."""
        s = self._search
        return State(s.theta, s.start, s.log_variances, s.converged, s.steps)

    @property
    def importances_se(self) -> Floats:
        """Standard errors (p,) of the importances of the parameters, less their mean."""
        s = self._search
        chosen = slice(s.p, 2 * s.p)
        half = self._factor.half(self._by[:, chosen] * self._prior[chosen])
        covariance = np.diag(self._prior[chosen]) - half.T @ half
        variance = np.diag(covariance) - 2.0 * covariance.mean(axis=0) + covariance.mean()
        return np.asarray(np.sqrt(np.maximum(variance, 0.0)))

    @property
    def competition_se(self) -> float:
        """Standard error of the logit of the competition; that of the prior where the scores say nothing of it."""
        s = self._search
        place = 2 * s.p + 1
        half = self._factor.half(self._by[:, place] * self._prior[place])
        return float(np.sqrt(max(self._prior[place] - half @ half, 0.0)))

    def errors(self, changes: Changes) -> Floats:
        """Return the standard errors of differences of predictions, (k,) or (k, n_classes)."""
        s = self._search
        by = s.parameters(s.theta).tangent(changes.counts, s.linked)[1]
        tangent = changes.matrix @ by
        variance = (tangent**2) @ self._prior + np.exp(s.log_variances[-1]) * (
            changes.matrix**2 @ np.broadcast_to(changes.profile, changes.matrix.shape[1:])
        )
        across = self._by @ (tangent * self._prior).T
        for v, kernel in zip(np.exp(s.log_variances[2:-1]), s.kernels, strict=True):
            shared, own = kernel.of_changes(changes.keep, changes.matrix)
            across += v * shared
            variance += v * own
        half = self._factor.half(across)
        error = np.sqrt(np.maximum(variance - (half**2).sum(axis=0), 1e-12 * s.spread**2))
        return np.asarray(np.multiply.outer(error, self._amplitude))


def fitted(
    counts: Floats,
    observed: Observed,
    profile: Floats,
    kernels: Sequence[Kernel] = (),
    kinds: NDArray[np.int64] | None = None,
    link: bool = True,
    before: State | None = None,
    known: Prior | None = None,
) -> Fitted:
    """Fit a surrogate of n units with p distinct ones.

    Args:
        counts: How often each distinct unit is in each row (m, p).
        observed: The scores of the rows.
        profile: How much more noise than others each row has (m,).
        kernels: Of what the formula leaves, on the same rows.
        kinds: The distinct unit of each unit (n,). Default: all are distinct.
        link: Whether scores saturate; several classes have no link.
        before: State of a fit of most of the rows, which is taken up.
        known: What other texts tell of the parameters; only for one score per row.
    """
    kinds = np.arange(counts.shape[1]) if kinds is None else kinds
    scores = observed.start()
    if scores.ndim == 1:
        search = _Search(counts, observed, profile, kernels, kinds, link, known)
        search.run(before)
        return Fitted(search, search.scores, np.ones(()))
    centred = scores - scores.mean(axis=0)
    direction = np.linalg.svd(centred, full_matrices=False)[2][0]
    main = Observed(scores @ direction, _unknown(observed))
    search = _Search(counts, main, profile, kernels, kinds, link=False)
    search.run(before)
    return Fitted(search, scores, centred.std(axis=0) / search.spread)


def _unknown(observed: Observed) -> Floats | None:
    if observed.exact:
        return None
    return observed.working(observed.start(), np.full(len(observed.scores), float(observed.start().var())))[1]
