"""Standard errors that take neither the spread of the importances nor the background's share for known.

    var g = sum_j w_j (var_j g + (g_j - g)^2) + (2 / gamma) (dg / dlog strength)^2
    w_j ~ q_j p(tightness_j, a_j | y) / N(x_j; 0, 1) N(y_j; 0, 1)

One Gaussian at the mode (`errors`) misses two things where data are weak. The value of a quiet unit is pulled to the common
mean, and there it does not depend to first order on the tightness of the importances; but its spread does: if importances may
be looser, the unit may be quieter yet, and its value anywhere. And the background's share a has a long tail towards one, along
which all deviations grow as 1 / (1 - a).

So both are integrated over, in the way of Rue, Martino and Chopin (2009): at the nodes j of a Gauss-Hermite rule, x_j in log
tightness and y_j in log(a / (1 - a)), with weights q_j, the importances are fitted anew with the linear side integrated out
(`marginal`). There the posterior is a Gaussian, with the bend of `errors`, and its evidence weighs the node. The estimate g
stays at the mode: how far the nodes lie from it counts as error.

Three nodes for each of the two make nine short fits, about twice the work of the fit itself, so this is for small problems,
where the doubt is large. Nodes for the strength as well would triple the work and add 3 to 8% to the errors of the values;
its doubt is taken to first order.
"""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import product as pairs

import numpy as np

from slalom.core.checks import Floats
from slalom.core.fitting import steps
from slalom.core.fitting.ascent import T_PRIOR, Ascent, Candidate, Hyper
from slalom.core.fitting.centred import SHARE, Centred, Step
from slalom.core.fitting.errors import Errors, pulls, standard_errors
from slalom.core.fitting.steps import FLOOR, Knobs, diagonal

_NODES = ((-(3.0**0.5), 1.0 / 6.0), (0.0, 2.0 / 3.0), (3.0**0.5, 1.0 / 6.0))  # exact to the fifth power under N(0, 1)
_WIDEST = 2.0  # standard deviation of a share's log odds, beyond which a Gaussian at the mode says nothing of it
_TRIES = 4  # lengths of a step
_MOST = 64  # units: with more of them nine factorisations take longer than the fit


def mixed(ascent: Ascent, best: Candidate) -> bool:
    """Return whether a candidate is worth the work: not where it is large, exact, or has a link."""
    return not (ascent.large or ascent.units > _MOST or best.point.linked or ascent.exact(best.hyper))


def mixed_errors(ascent: Ascent, best: Candidate, basis: Floats | None) -> Errors:
    """Return the errors of a polished candidate on the host that is `mixed`."""
    found = [(node, weight) for node, weight in _nodes(ascent, best) if np.isfinite(weight)]
    if not found:
        return standard_errors(best, basis)
    weights = np.exp(np.array([weight for _, weight in found]) - max(weight for _, weight in found))
    centre = _numbers(best.point, basis)
    first = standard_errors(best, basis, about=("strength",))
    variance = _flat(first) ** 2 - _flat(standard_errors(best, basis, about=())) ** 2
    for (node, _), weight in zip(found, weights / weights.sum(), strict=True):
        square = _flat(standard_errors(node, basis, about=())) ** 2 + (_flat(_numbers(node.point, basis)) - _flat(centre)) ** 2
        variance += weight * square
    return _shaped(np.sqrt(variance), first)


def _nodes(ascent: Ascent, best: Candidate) -> Iterator[tuple[Candidate, float]]:
    """Yield the nodes and the logs of their weights."""
    point, hyper, factors, n = best.point, best.hyper, best.factors, len(best.point.t)
    ascent.tilt = None
    loosened = factors.solve(pulls(point, *hyper[:2])[1])
    spread = (2.0 / (best.fixed[1] + T_PRIOR)) ** 0.5
    column = factors.column(n) if point.background else None
    for (x, p), (y, q) in pairs(_NODES, _NODES if column is not None else [(0.0, 1.0)]):
        log_ratio = spread * x
        there = hyper._replace(tightness=hyper.tightness * float(np.exp(log_ratio)))
        step, scalars, log_odds = loosened.times(-log_ratio), point.scalars, 0.0
        if column is not None:
            rate, moved = point.share * point.rest, float(step.shape[n])
            width = min(float(column.shape[n]) ** 0.5 / rate, _WIDEST)
            share = float(np.clip(_logistic(np.log(point.share / point.rest) + moved / rate + width * y), *SHARE))
            log_odds = float(np.log(share * (1.0 - share)))  # the density of the log odds from that of the share
            step = step.plus(column, (share - point.share - moved) / float(column.shape[n]))
            scalars = np.array([share])
        start = replace(point.moved(step), scalars=scalars)
        with suppress(ArithmeticError):
            node = _refitted(ascent, best, start, there)
            yield node, node.evidence + log_odds + float(np.log(p * q)) + 0.5 * (x**2 + y**2)


def _refitted(ascent: Ascent, best: Candidate, point: Centred, hyper: Hyper) -> Candidate:
    """Return the candidate after one step from a start, its share held; its evidence is but for a constant."""
    n = len(point.t)
    point, _, density = ascent.flat(point, hyper)
    for last in (False, True):
        system, _ = steps.equations(point, Knobs(*hyper), ascent.priors(point), coarse=False)
        system.cross[:, :, n:], system.shape[n:], system.shape[:, n:] = 0.0, 0.0, 0.0
        diagonal(system.shape)[n:] = 1.0
        factors, failed = steps.factorise(point.on, system, FLOOR)
        if failed:
            raise ArithmeticError("the normal equations are not positive definite")
        if last:
            break
        descent = system.gradient.shape - ascent.volume(point, hyper, factors)
        descent[n:] = 0.0
        step = factors.solve(Step(system.gradient.linear, descent))
        for part in 0.3 ** np.arange(_TRIES):
            held = replace(point.moved(step.times(float(part))), scalars=point.scalars)
            moved, _, higher = ascent.flat(held, hyper)
            if higher >= density:
                point, density = moved, higher
                break
    evidence = density + 0.5 * (n + T_PRIOR) * np.log(hyper.tightness) - 0.5 * T_PRIOR * hyper.tightness
    evidence += float(np.log(diagonal(factors.shape)[:n]).sum())
    factors.shape[n:], factors.shape[:, n:] = 0.0, 0.0  # the share is known here
    return replace(best, point=point, hyper=hyper, evidence=float(evidence), factors=factors)


def _logistic(x: float) -> float:
    return float(0.5 + 0.5 * np.tanh(0.5 * x))


def _numbers(point: Centred, basis: Floats | None) -> Errors:
    """Return the quantities whose errors are asked for, in the errors' own form; importances less their mean."""
    mix, mean, background = np.ones((1, 1)) if basis is None else basis, point.t.mean(), None
    if point.background:
        value, importance = point.outside
        background = (value @ mix.T, float(importance - mean))
    return Errors(point.values @ mix.T, point.t - mean, background)


def _flat(numbers: Errors) -> Floats:
    """Return all numbers in a row."""
    parts = [numbers.values, numbers.importances, *(numbers.background or ())]
    return np.concatenate([np.ravel(part) for part in parts])


def _shaped(row: Floats, like: Errors) -> Errors:
    """Return a row of numbers in the form of others."""
    size, n = like.values.size, len(like.importances)
    values, importances, rest = row[:size].reshape(like.values.shape), row[size : size + n], row[size + n :]
    if like.background is None:
        return Errors(values, importances, None)
    value = float(rest[0]) if np.ndim(like.background[0]) == 0 else rest[:-1]
    return Errors(values, importances, (value, float(rest[-1])))
