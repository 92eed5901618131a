"""Standard errors that treat neither the spread of the importances nor the background's share as known.

    var g = sum_j w_j (var_j g + (g_j - g)^2) + (2 / gamma) (dg / dlog strength)^2
    w_j ~ q_j p(tightness_j, a_j | y) / N(x_j; 0, 1) N(y_j; 0, 1)

One Gaussian at the mode (`errors`) misses two things where data are weak. The value of a unit with a small effect is pulled to
the common mean, where it does not depend to first order on the tightness of the importances. But its spread does: with looser
importances the unit's weight may be still smaller, and its value almost anywhere. And the background's share a has a long tail
towards one, along which all deviations grow as 1 / (1 - a).

Both are therefore integrated over, as in Rue, Martino and Chopin (2009): at the nodes j of a Gauss-Hermite rule, x_j in log
tightness and y_j in log(a / (1 - a)), with weights q_j, the importances are refitted with the linear side integrated out
(`marginal`). At a node the posterior is a Gaussian, with the curvature term of `errors`, weighted by its evidence. The estimate
g stays at the mode: the distance of the nodes from it counts as error.

Three nodes for each of the two make nine short fits, about twice the work of the fit itself, so this is for small problems,
where the uncertainty is large. Nodes for the strength as well would triple the work and add 3 to 8% to the errors of the
values; its uncertainty is taken to first order.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product

import numpy as np

from slalom.core.checks import Floats
from slalom.core.fitting._evidence import steps
from slalom.core.fitting._evidence.coordinates import SHARE, Centred, Step
from slalom.core.fitting._evidence.draws import MAX_WIDTH
from slalom.core.fitting._evidence.errors import Errors, pulls, standard_errors
from slalom.core.fitting._evidence.objective import MIN_JITTER, Hyper, StepScalars
from slalom.core.fitting._evidence.solver import T_PRIOR, Candidate, Solver
from slalom.core.fitting._evidence.triangular import diagonal

_NODES = ((-(3.0**0.5), 1.0 / 6.0), (0.0, 2.0 / 3.0), (3.0**0.5, 1.0 / 6.0))  # exact to the fifth power under N(0, 1)
_STEP_LENGTHS = 4  # tried
_MAX_UNITS = 64  # with more, nine factorisations take longer than the fit
_MAX_ENTRIES = 50_000  # of the counts; with more the data determine tightness and share


def worth_mixing(solver: Solver, best: Candidate) -> bool:
    """Return whether mixed errors are worth their time: not for a problem that is large or exact, or has a link."""
    entries = solver.units * len(solver.scores)
    large = solver.units > _MAX_UNITS or entries >= _MAX_ENTRIES
    return not (large or best.point.linked or solver.exact(best.hyper))


def mixture(solver: Solver, best: Candidate) -> list[tuple[Candidate, float]]:
    """Return the nodes of a polished candidate on the host that is `worth_mixing`, with weights of sum one; may be empty."""
    nodes = [(node, log_weight) for node, log_weight in _nodes(solver, best) if np.isfinite(log_weight)]
    weights = np.exp(np.array([weight for _, weight in nodes]) - max((weight for _, weight in nodes), default=0.0))
    return [(node, float(weight)) for (node, _), weight in zip(nodes, weights / weights.sum(), strict=True)]


def mixed_errors(solver: Solver, best: Candidate, basis: Floats | None, nodes: list[tuple[Candidate, float]]) -> Errors:
    """Return the errors of a candidate from its `mixture`."""
    if not nodes:
        return standard_errors(best, basis)

    def variance_of(candidate: Candidate) -> Floats:
        return _in_a_row(standard_errors(candidate, basis, about=())) ** 2

    centre = _in_a_row(_estimates(best.point, basis))
    first = standard_errors(best, basis, about=("strength",))
    variance = _in_a_row(first) ** 2 - variance_of(best)
    for node, weight in nodes:
        variance += weight * (variance_of(node) + (_in_a_row(_estimates(node.point, basis)) - centre) ** 2)
    return _shaped_like(first, np.sqrt(variance))


def _nodes(solver: Solver, best: Candidate) -> Iterator[tuple[Candidate, float]]:
    """Yield the nodes and the logs of their weights."""
    point, hyper, factors, n = best.point, best.hyper, best.factors, len(best.point.t)
    solver.tilt = None
    by_tightness = factors.solve(pulls(point, *hyper[:2])[1])
    spread = (2.0 / (best.determined[1] + T_PRIOR)) ** 0.5
    column = factors.column(n) if point.background else None
    for (x, p), (y, q) in product(_NODES, _NODES if column is not None else [(0.0, 1.0)]):
        log_ratio = spread * x
        looser = hyper._replace(tightness=hyper.tightness * float(np.exp(log_ratio)))
        step, scalars, log_odds = by_tightness.times(-log_ratio), point.scalars, 0.0
        if column is not None:
            rate, moved = point.share * point.rest, float(step.shape[n])
            width = min(float(column.shape[n]) ** 0.5 / rate, MAX_WIDTH)
            share = float(np.clip(_logistic(np.log(point.share / point.rest) + moved / rate + width * y), *SHARE))
            log_odds = float(np.log(share * (1.0 - share)))  # the density of the log odds from that of the share
            step = step.plus(column, (share - point.share - moved) / float(column.shape[n]))
            scalars = np.array([share])
        start = replace(point.moved(step), scalars=scalars)
        with suppress(ArithmeticError):
            node = _refitted(solver, best, start, looser)
            yield node, node.evidence + log_odds + float(np.log(p * q)) + 0.5 * (x**2 + y**2)


def _refitted(solver: Solver, best: Candidate, point: Centred, hyper: Hyper) -> Candidate:
    """Return the candidate after one step from a start, its share fixed; its evidence is up to a constant."""
    n = len(point.t)
    point, _, density = solver.solve_linear_block(point, hyper)
    for last in (False, True):
        system = steps.equations(point, StepScalars(*hyper), solver.priors(point))
        system.cross[:, :, n:], system.shape[n:], system.shape[:, n:] = 0.0, 0.0, 0.0
        diagonal(system.shape)[n:] = 1.0
        factors, failed = system.factorise(MIN_JITTER)
        if failed:
            raise ArithmeticError("the normal equations are not positive definite")
        if last:
            break
        descent = system.gradient.shape - solver.marginal_force(point, hyper, factors)
        descent[n:] = 0.0
        step = factors.solve(Step(system.gradient.linear, descent))
        for part in 0.3 ** np.arange(_STEP_LENGTHS):
            trial = replace(point.moved(step.times(float(part))), scalars=point.scalars)
            moved, _, higher = solver.solve_linear_block(trial, hyper)
            if higher >= density:
                point, density = moved, higher
                break
    evidence = density + 0.5 * (n + T_PRIOR) * np.log(hyper.tightness) - 0.5 * T_PRIOR * hyper.tightness
    evidence += float(np.log(diagonal(factors.shape)[:n]).sum())
    factors.shape[n:], factors.shape[:, n:] = 0.0, 0.0  # the share is fixed at a node
    return replace(best, point=point, hyper=hyper, evidence=float(evidence), factors=factors)


def _logistic(x: float) -> float:
    return float(0.5 + 0.5 * np.tanh(0.5 * x))


def _estimates(point: Centred, basis: Floats | None) -> Errors:
    """Return the quantities that the errors belong to, in the same form; importances are relative to their mean."""
    mix = np.ones((1, 1)) if basis is None else basis
    return Errors(point.values @ mix.T, point.t - point.t.mean())


def _in_a_row(numbers: Errors) -> Floats:
    """Return all numbers as one array."""
    return np.concatenate([np.ravel(part) for part in numbers])


def _shaped_like(like: Errors, row: Floats) -> Errors:
    """Return the numbers of a row in the form of others."""
    size = like.values.size
    return Errors(row[:size].reshape(like.values.shape), row[size:])
