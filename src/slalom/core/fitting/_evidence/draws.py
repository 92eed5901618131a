"""Draws from the joint posterior of all parameters: a Gaussian at the mode, bent where the posterior is.

    x = mode + L^-T z + sum_h sqrt(2 / gamma_h) z_h H^-1 (derivative of the gradient by log h),    H = L L',  z ~ N(0, 1)

The second term is the uncertainty of the priors' precisions h, as in `errors`. Where there is a mixture (`mixture`), each of
its nodes gets its share of the draws.

Effects are nearly Gaussian, values and weights are not. Let x_i be the change of a unit's log weight, log p_i. Where the data
determine its effect p_i psi_i, psi_i follows not the line -psi_i x_i but psi_i exp(-x_i); where the prior does, it does not
depend on x_i. With f the prior's share of the precision of psi_i given the weight, and r the Gaussian's move of psi_i less the
part that this explains, a draw is

    psi = mode (1 + (1 - f) (exp(-x) - 1)) + r / sqrt(f + (1 - f) exp(2 x))

Weights are skewed. With psi_i integrated out, the density of t_i = t + x by itself is

    log p(x) = -K / 2 log l - |psi|^2 strength / (2 (1 - f) l) - tightness (t + x)^2 / 2 - rest(x),    l = f + (1 - f) exp(2 x)

rest is what the attention of the unit does to the effects of the others: such that the variance at the mode is the Gaussian's,
and its slope such that the mode is one. The draws get these distributions one by one, their ranks stay those of the Gaussian
(a Gaussian copula), and psi moves along so that the effect stays. It matters for v exp(s), whose scale depends on all weights:
a mode has too few small weights, because for the weight of a unit without a visible effect any small number will do. A joint
mode also has a tightness that is too high, so it is drawn as well, from the product of these densities over the units.

The background's share is drawn on the scale of its log odds.

With a link, the data may know a unit from one side only: it saturates the score, as it would with twice its value, but not with
half of it. A Gaussian goes to both sides. Such draws contradict the rows that were fitted: they change the predictions by much
more than the parameters' share of the noise (`SomeRows`). Where more than a few do, all are drawn anew with effects that stay
Gaussian (f = 0, weights as they come), and those that contradict the rows are left out. v exp(s) still has the first draws: its
scale depends on small weights, of which the rows say nothing.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from slalom.core.checks import Floats
from slalom.core.fitting._evidence.coordinates import Centred
from slalom.core.fitting._evidence.errors import PRECISIONS, pulls
from slalom.core.fitting._evidence.solver import T_PRIOR, Candidate
from slalom.core.fitting.posterior import Posterior

MAX_WIDTH = 2.0  # standard deviation of a share's log odds, beyond which a Gaussian at the mode says nothing about it
_DRAWS = 159  # the 152nd is then the 95% quantile
_SEED = 0
_LEAST_VARIANCE = 1e-30  # of a log weight; that of a single unit does not vary
_GRID = np.linspace(-6.0, 6.0, 49)[:, None]  # of a log weight, in units of its width
_ROWS = 128  # that draws are compared with
_EVERY = 4  # one draw of so many tells how many contradict the rows
_CONTRADICTED = 0.05  # share of such draws that changes no quantile that is used
_ROUNDS = 8  # of draws that leave out those
_LEAST_DRAWS = 40  # that tell a 95% quantile
_RATIOS = np.exp(np.linspace(-0.7, 0.7, 5))  # of the tightness to that of the mode; beyond, the strength would change too


_Draws = tuple[Floats, Floats, Floats, Floats]  # level (size, K), psi (size, n, K), t (size, n), scalars (size, extras)


class SomeRows(NamedTuple):
    """Some of the fitted rows: counts (m, n), weights over the noise (m,), and how far from the estimate draws may be there."""

    counts: Floats
    weights: Floats
    limit: float

    @classmethod
    def of(cls, counts: Floats, weights: Floats, candidate: Candidate) -> "SomeRows":
        """Return evenly spaced rows of a fit.

        In the posterior the square distance is on average the number of parameters that the data determine, if all rows are
        there. The bent draws of fits without saturation have 1.3 times that in most fits, seldom twice.
        """
        some = slice(None, None, -(-len(counts) // _ROWS))
        share = len(counts[some]) / len(counts)
        parameters = sum(candidate.determined) + 1 + candidate.point.extras
        return cls(counts[some], candidate.hyper.precision * weights[some], 2.0 * parameters * share + 10.0)

    def contradict(self, posterior: Posterior) -> NDArray[np.bool_]:
        """Return which draws of a single score are too far from the estimate (draws,)."""
        predicted = next(posterior.predictions(self.counts))
        return np.asarray(~((predicted[1:] - predicted[0]) ** 2 @ self.weights <= self.limit))


def drawn(
    best: Candidate, nodes: Sequence[tuple[Candidate, float]], basis: Floats | None, rows: SomeRows | None
) -> Posterior | None:
    """Return the posterior of a candidate on the host; None where a draw is not finite.

    nodes: a mixture and its weights, which sum to one; empty: one Gaussian at the candidate. basis (C, K) maps outputs to
    classes; None: a single score. rows: what draws must not contradict, where there is a link.
    """
    rng, point = np.random.default_rng(_SEED), best.point
    with np.errstate(all="ignore"):
        if nodes:
            sizes = _shared_out(_DRAWS, np.array([weight for _, weight in nodes]))
            chosen = [(node, size) for (node, _), size in zip(nodes, sizes, strict=True) if size]
            parts = [_bent(node, _gaussian(node, size, rng, mixed=True), _RATIOS[2:3]) for node, size in chosen]
            return _finite(_posterior(point, _joined(parts), basis))
        moves = _gaussian(best, _DRAWS, rng, mixed=False)
        posterior = _finite(_posterior(point, _bent(best, moves, _RATIOS), basis))
        if rows is None or posterior is None:
            return posterior
        some = np.append(0, np.arange(1, 1 + _DRAWS, _EVERY))
        if rows.contradict(posterior.some(some)).mean() <= _CONTRADICTED:
            return posterior
        agreeing = _finite(_without_contradiction(best, moves, rng, rows, basis))
        if agreeing is None or len(agreeing.values) <= _LEAST_DRAWS:
            return posterior
        return replace(agreeing, skewed=posterior)


def _shared_out(number: int, weights: Floats) -> list[int]:
    """Return whole numbers that sum to a number and are proportional to weights."""
    return [int(part) for part in np.diff(np.round(number * np.cumsum(weights) / weights.sum()), prepend=0.0)]


def _without_contradiction(
    candidate: Candidate, moves: tuple[Floats, Floats], rng: np.random.Generator, rows: SomeRows, basis: Floats | None
) -> Posterior:
    """Return draws with Gaussian effects, from these moves and more, that do not contradict the rows; as many, or fewer."""
    size, missing = len(moves[0]), len(moves[0])
    kept: list[_Draws] = []
    for _ in range(_ROUNDS):
        level, psi, t, scalars = draws = _bent(candidate, moves, None)
        fine = ~rows.contradict(_posterior(candidate.point, draws, basis))
        kept.append((level[fine], psi[fine], t[fine], scalars[fine]))
        missing -= int(fine.sum())
        if missing <= 0:
            break
        moves = _gaussian(candidate, min(2 * missing + 8, size), rng, mixed=False)
    level, psi, t, scalars = _joined(kept)
    return _posterior(candidate.point, (level[:size], psi[:size], t[:size], scalars[:size]), basis)


def _joined(parts: Sequence[_Draws]) -> _Draws:
    """Return all draws together."""
    level, psi, t, scalars = (np.concatenate(part) for part in zip(*parts, strict=True))
    return level, psi, t, scalars


def _gaussian(candidate: Candidate, size: int, rng: np.random.Generator, mixed: bool) -> tuple[Floats, Floats]:
    """Return Gaussian moves of the shape side (size, n + extras) and of the linear side (K, size, 1 + n).

    mixed: whether the candidate is a node of a mixture, which has integrated over the tightness.
    """
    point, factors, hyper = candidate.point, candidate.factors, candidate.hyper
    shape = rng.standard_normal((size, len(factors.shape))) @ factors.shape
    linear = np.stack(
        [(rng.standard_normal((size, 1 + len(point.t))) - shape @ half.T) @ factors.linear for half in factors.half]
    )
    counted = (candidate.determined[0], candidate.determined[1] + T_PRIOR)
    for name, pull, count in zip(PRECISIONS, pulls(point, *hyper[:2]), counted, strict=True):
        if name == "strength" or not mixed:
            move, along = factors.solve(pull), rng.standard_normal(size) * (2.0 / max(count, 1.0)) ** 0.5
            shape += np.outer(along, move.shape)
            linear += along[:, None] * move.linear.T[:, None]
    return shape, linear


def _bent(candidate: Candidate, gaussian: tuple[Floats, Floats], ratios: Floats | None) -> _Draws:
    """Return draws from Gaussian moves.

    ratios: of the tightness to that of the candidate, for the skew of the weights; None: effects stay Gaussian.
    """
    point, factors, (shape, linear) = candidate.point, candidate.factors, gaussian
    n, moves = len(point.t), linear[:, :, 1:]
    change = shape[:, :n] - (shape[:, :n] @ point.weight)[:, None]  # of log p, to first order
    centre, plain = point.psi.T[:, None], point.t + shape[:, :n]
    ratio = _weight_ratios(point, plain)  # exp(x)
    if ratios is None:
        t, psi = plain, (centre + moves + centre * change) / ratio
    else:
        slope = (moves * change).sum(axis=1) / np.maximum((change**2).sum(axis=0), 1e-300)
        left = moves - slope[:, None] * change
        prior = np.clip(candidate.hyper.strength * (left**2).mean(axis=(0, 1)), 1e-12, 1.0 - 1e-9)
        data = 1.0 - prior
        t = point.t + _skewed(candidate, change, prior, ratios)
        psi = centre * (prior + data / ratio) + (moves + data * centre * change) / np.sqrt(prior + data * ratio**2)
        psi *= ratio / _weight_ratios(point, t)
    scalars = point.scalars + shape[:, n:]
    if point.background:
        scalars[:, 0] = _share(point, shape[:, n], float((factors.shape[:, n] ** 2).sum()))
    return point.level + linear[:, :, 0].T, np.moveaxis(psi, 0, 2), t, scalars


def _weight_ratios(point: Centred, t: Floats) -> Floats:
    """Return p of draws of t (size, n), relative to that of the point."""
    weights = np.exp(t - t.max(axis=1, keepdims=True))
    return np.asarray(weights / ((weights @ point.design.mean)[:, None] * point.p))


def _skewed(candidate: Candidate, change: Floats, prior: Floats, ratios: Floats) -> Floats:
    """Return changes of log weights (size, n) that are distributed as above, ranked as the Gaussian ones.

    prior: f. ratios: of the tightness to that of the candidate.
    """
    point, shape, (strength, tightness, _), (n, outputs) = (
        candidate.point,
        candidate.factors.shape,
        candidate.hyper,
        candidate.point.psi.shape,
    )
    variance = ((shape[:, :n] - (shape[:, :n] @ point.weight)[:, None]) ** 2).sum(axis=0)
    variance = np.maximum(variance, _LEAST_VARIANCE)
    power, data = strength * (point.psi**2).sum(axis=1), 1.0 - prior
    extra = np.maximum(1.0 / variance - tightness - power * data, 0.0)
    pull = power - tightness * point.t - (outputs * data if candidate.polished else 0.0)
    x = _GRID * np.minimum((tightness + extra) ** -0.5, 3.0 * variance**0.5)
    loose = prior + data * np.exp(2.0 * x)
    weight = np.expm1(x) if candidate.polished else x  # what the rest is quadratic in
    log_density = -0.5 * (outputs * np.log(loose) + power / (data * loose) + extra * weight**2) - pull * weight
    tights = tightness * ratios
    density = log_density - 0.5 * tights[:, None, None] * (point.t + x) ** 2
    top = density.max(axis=1, keepdims=True)
    np.exp(density - top, out=density)
    total = density.sum(axis=1, keepdims=True)
    evidence = (np.log(total) + top).sum(axis=(1, 2)) + 0.5 * (n + T_PRIOR) * np.log(tights) - 0.5 * T_PRIOR * tights
    below = (np.cumsum(density, axis=1) - 0.5 * density) / total
    rank, parts, start = ndtr(change / np.sqrt(variance)), [], 0
    for cumulative, number in zip(below, _shared_out(len(change), np.exp(evidence - evidence.max())), strict=True):
        parts.append(_quantiles(rank[start : start + number], cumulative, x))
        start += number
    return np.concatenate(parts)


def _quantiles(levels: Floats, cumulative: Floats, x: Floats) -> Floats:
    """Return x at levels (size, n) of n cumulative distributions, all by one call of np.interp: it shifts each by its index."""
    shift = np.arange(levels.shape[1])[:, None]
    inside = np.clip(levels, cumulative[0], cumulative[-1]).T + shift
    return np.interp(inside.ravel(), (cumulative.T + shift).ravel(), x.T.ravel()).reshape(inside.shape).T


def _share(point: Centred, moves: Floats, variance: float) -> Floats:
    """Return the background's share after moves (size,) of this variance, on the scale of its log odds."""
    rate = max(point.share * point.rest, variance**0.5 / MAX_WIDTH)
    return np.asarray(0.5 + 0.5 * np.tanh(0.5 * (np.log(point.share / point.rest) + moves / rate)))


def _posterior(point: Centred, draws: _Draws, basis: Floats | None) -> Posterior:
    """Return a point and draws around it in the parameters of a Slalom."""
    level, psi, t, scalars = _joined([(point.level[None], point.psi[None], point.t[None], point.scalars[None]), draws])
    mix = np.ones((1, 1)) if basis is None else basis
    rest, background, link = np.ones(len(t)), None, None
    if point.background:
        share, rest = scalars[:, 0], 1.0 - scalars[:, 0]
        top = t.max(axis=1)
        weights = np.exp(t - top[:, None]) * point.design.mean
        total = weights.sum(axis=1)
        z = np.einsum("ki,kio->ko", weights, psi) / total[:, None]
        background = (level - z / share[:, None]) @ mix.T, np.log(share / rest) + top + np.log(total)
    if point.linked:
        link = scalars[:, -2], np.exp(-scalars[:, -1])
    values = (level[:, None] + psi / rest[:, None, None]) @ mix.T
    return Posterior(values, t, background, link, basis is None)


def _finite(posterior: Posterior) -> Posterior | None:
    """Return the posterior; None where a draw is not finite."""
    parts = (posterior.values, posterior.importances, *(posterior.background or ()), *(posterior.link or ()))
    return posterior if all(np.isfinite(part).all() for part in parts) else None
