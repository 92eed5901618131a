"""Shapley values, Banzhaf values and other semivalues of the formula of a Slalom.

    phi_i = int dmu(q) E[F(C + i) - F(C)],    every other unit is in C with probability q, independently

A measure mu on [0, 1] defines the semivalue: uniform is Shapley, all mass at 1/2 is Banzhaf. A player is a unit with all its
copies; one with count 0 gets 0.

Without a link they are exact. With W^-kappa = 1 / Gamma(kappa) int_0^inf t^(kappa - 1) exp(-t W) dt the expectation is a
product over the units:

    phi_i = u_i + 1 / Gamma(kappa) int dmu(q) int_0^inf dt t^(kappa - 1) [u_i w_i^kappa x_i (P_i - 1) - (1 - x_i) P_i B_i]

    x_k = exp(-t w_k),  f_k = 1 - q + q x_k,  P_i = prod_(k != i) f_k,  B_i = sum_(k != i) q u_k w_k^kappa x_k / f_k

The inner integral is a polynomial in q, for which mu has a Gauss rule; in log t the trapezoid rule errs by exp(-pi^2 / h).

With a link the subsets of up to 16 players are all taken. For more the semivalues of the link's best line are exact, and those
of what bends are averaged over orders of the units (over random sets for another measure than Shapley's), always the same ones.
In explanations the error is below 0.5% of the largest value, where the scores of most sets are at the link's ends a few
percent. Shapley values still sum to F(c) - F(empty).
"""

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.special import gamma, logsumexp

from slalom.core.base import Link
from slalom.core.checks import Floats
from slalom.core.measures import Beta, Measure

if TYPE_CHECKING:
    from slalom.core.slalom import Slalom

_STEP = 0.3  # h of the rule in log t
_FIRST, _LAST = -36.0, 3.8  # log t, less the logarithms of the whole weight and of the smallest one: nothing is beyond
_NOTHING = 50.0  # logarithm of a share, times kappa, from which a unit adds nothing beside a heavier one
_BLOCK = 2**19  # numbers in one block
_ENUMERATED = 16  # players, at most, whose subsets are all taken
_ORDERS = 2**18  # units in all orders that are averaged over


def semivalues(model: "Slalom", measure: Measure, c: Floats) -> Floats:
    """Return the semivalues of the formula of a Slalom, (n_units,) or (n_units, n_classes), for a measure not all at q = 1.

    Args:
        model: The surrogate.
        measure: Probabilities of the other units.
        c: The input (n_units,).
    """
    result, players = np.zeros_like(model.values), np.flatnonzero(c)
    if not len(players):
        return result
    kappa, count = model.competition, c[players]
    s = _without_gaps(model.importances[players] + np.log(count), kappa)
    u = (count ** (1.0 - kappa) * model.values[players].T).T.reshape(len(players), -1)
    if model.link is None:
        phi = _straight(u, s, kappa, measure)
    elif len(players) <= _ENUMERATED:
        phi = _enumerated(model.repeated(players), measure, count)
    else:
        phi = _sampled(u[:, 0], s, kappa, float(model.bias), model.link, measure)
    result[players] = phi.reshape(len(players), *model.values.shape[1:])
    return result


def _straight(u: Floats, s: Floats, kappa: float, measure: Measure) -> Floats:
    """Return the semivalues (n, k) of A for values u (n, k) and logarithms s (n,) of weights."""
    n, phi = len(u), u.copy()
    if kappa == 0.0 or n == 1:
        return phi
    q, mass = measure.rule(n)
    log_t = np.arange(_FIRST - logsumexp(s), _LAST - s.min(), _STEP)
    size = max(1, _BLOCK // (n * len(q)))
    for log_tw in (np.add.outer(log_t[k : k + size], s) for k in range(0, len(log_t), size)):  # (t, n)
        with np.errstate(over="ignore"):
            tw = np.exp(log_tw)
            pull = _STEP / gamma(kappa) * np.exp(kappa * log_tw - tw)  # t^kappa w^kappa x
        joins = -np.expm1(-tw)  # 1 - x
        f = 1.0 - np.multiply.outer(q, joins)  # (q, t, n)
        others = np.exp(np.log(f).sum(axis=2, keepdims=True)) / f  # P_i
        drawn = np.einsum("q,ti,qti->i", mass, pull, others - 1.0, optimize=True)
        phi += (drawn * u.T).T
        each = q[:, None, None] * pull / f
        push = mass[:, None, None] * joins * others
        phi -= np.einsum("qti,qtk->ik", push, each @ u, optimize=True) - ((push * each).sum(axis=(0, 1)) * u.T).T
    return phi


def _enumerated(model: "Slalom", measure: Measure, count: Floats) -> Floats:
    """Return the semivalues (n,) by all sets of units."""
    n = len(count)
    inside = (np.arange(2**n)[:, None] >> np.arange(n) & 1).astype(bool)
    scores, sizes = model.formula(inside * count), inside.sum(axis=1)
    q, mass = measure.rule(n)
    chance = np.array([mass @ (q**k * (1.0 - q) ** (n - 1 - k)) for k in range(n)])
    return np.array([(scores[inside[:, i]] - scores[~inside[:, i]]) @ chance[sizes[~inside[:, i]]] for i in range(n)])


def _sampled(u: Floats, s: Floats, kappa: float, bias: float, link: Link, measure: Measure) -> Floats:
    """Return the semivalues (n,) of link(b + A): those of its best line, and of what bends averaged over orders or sets."""
    n, w = len(u), np.exp(s - s.max())
    pull, rng, number = u * w**kappa, np.random.default_rng(0), max(_ORDERS // n, 64)

    def bent(own: Any, total: Any, line: float) -> Floats:
        """Return the score of sets with these sums of pulls and weights, less that of the line."""
        evidence = own / np.maximum(total, 1e-300) ** kappa
        return np.asarray(link(bias + evidence) - line * evidence)

    def slope(own: Floats, total: Floats) -> float:
        return float(link.slope(bias + own / np.maximum(total, 1e-300) ** kappa).mean())

    if measure == Beta(1.0, 1.0):
        half = rng.permuted(np.tile(np.arange(n), (number // 2, 1)), axis=1)
        orders = np.concatenate([half, half[:, ::-1]])
        own, total = (np.cumsum(part[orders], axis=1) for part in (pull, w))
        line = slope(own, total)
        gains = np.diff(bent(own, total, line), axis=1, prepend=float(link(np.array(bias))))
        phi = np.zeros(n)
        np.add.at(phi, orders, gains)
        phi /= len(orders)
    else:
        nodes, mass = measure.rule(n)
        others = rng.random((number, n)) < rng.choice(nodes, number, p=mass / mass.sum())[:, None]
        own, total = (others @ pull)[:, None] - others * pull, (others @ w)[:, None] - others * w
        line = slope(own, total)
        phi = (bent(own + pull, total + w, line) - bent(own, total, line)).mean(axis=0)
    return np.asarray(phi + line * _straight(u[:, None], s, kappa, measure)[:, 0])


def _without_gaps(s: Floats, kappa: float) -> Floats:
    """Return logarithms of weights (n,) that give the same scores to rounding, however far those given are apart."""
    order = np.argsort(s)
    steps = np.minimum(np.diff(s[order]), _NOTHING / max(kappa, 1e-2))
    near = np.empty_like(s)
    near[order] = np.concatenate([[0.0], np.cumsum(steps)])
    return near
