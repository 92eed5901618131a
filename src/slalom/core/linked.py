"""Semivalues of the score of a Slalom with a link: a sum of ratio games, as the evidence itself is one.

    F = m + a tanh((S - m) / a),    tanh x = sum_k g_k Re 1 / (x - i c_k)

The sum is the continued fraction of tanh by Gauss, truncated: the poles +- i c_k and the g_k > 0 are nodes and weights of a
Gauss rule, so they come from a tridiagonal matrix. Few of them suffice: with X = max |S - m| / a, 4 for X = 2 and 24 for
X = 100. With the pole z = m + i a c_k each term is a ratio of sums over the units, like S:

    1 / (S - z) = (w_0 + sum_j w_j) / (w_0 (v_0 - z) + sum_j w_j (v_j - z))

that is, the evidence of a SLALOM with the values 1 / (v_j - z) and the complex weights omega_j = i w_j (v_j - z), whose real
parts a c_k w_j are positive. The integrals of `shapley` hold for such weights unchanged. Only the rule in t needs more
nodes: 1 / Z = int exp(-t Z) dt with |arg Z| <= pi / 2 - theta, theta = atan(c_k / X), errs by exp(-2 pi theta / h).
"""

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh_tridiagonal
from scipy.special import logsumexp

from slalom.core.checks import Floats
from slalom.core.measures import Measure
from slalom.errors import InputError

_ERROR = 1e-12  # of the expansion of tanh and of the rule in t
_START = -3.0  # first node of the rule in t, as in `shapley`
_GONE = 45.0  # real part of t omega from which on exp(-t omega) is zero
_STEEPEST = 1e5  # evidence in units of the reach, times the spread of the log weights: more would take minutes
_VANISHED = 50.0  # exponent of a product that is zero
_SMOOTH = 8  # nodes q for a product that hardly depends on it
_EXACT = 79  # units up to which a rule is that of a polynomial: k nodes for 2 k - 1 units
_TOGETHER = 1600  # units times nodes t that share nodes q
_GRID = 400  # points at which the expansion of tanh is checked
_BLOCK = 2**15  # numbers in one block of (t, unit, q): fits a cache


class Players(NamedTuple):
    """The units of a game and what is always present.

    Attributes:
        v: Values (n,).
        s: Log weights (n,).
        empty: Evidence of the empty input.
        background: Log weight of the background; -inf without one.
    """

    v: Floats
    s: Floats
    empty: float
    background: float


def linked_semivalue(players: Players, measure: Measure, middle: float, reach: float) -> Floats:
    """Return the semivalues (n,) of m + a tanh((S - m) / a), to 1e-10 of the reach a."""
    v, v0, n = players.v, players.empty, len(players.v)
    low, high = (sign * _highest_evidence(players._replace(v=sign * v, empty=sign * v0)) for sign in (-1.0, 1.0))
    furthest = max(abs(low - middle), abs(high - middle)) / reach
    spread = float(np.ptp(np.append(players.s, players.background if np.isfinite(players.background) else players.s[0])))
    if not furthest * (_GONE + spread) < _STEEPEST:
        raise InputError(f"Shapley values need a link of larger reach: the evidence goes to {furthest:.3g} times its reach")
    has_background = players.background > -np.inf
    none_present = 0.0 if has_background else measure.none_present(n - 1)
    phi = np.zeros(n)
    for c, g in zip(*_poles(furthest), strict=True):
        z = middle + 1j * reach * c
        values = (v0 - v) / ((v - z) * (v0 - z))  # 1 / (v - z) less that of the empty input
        alone = none_present * values
        if not has_background:
            values = values - values.mean()
        term = alone + _ratio_game(values, players, z, measure, float(np.arctan2(c, furthest)))
        phi += reach**2 * g * term.real
    return phi


def _highest_evidence(players: Players) -> float:
    """Return the highest evidence of any input, which contains the units with the highest values."""
    order = np.argsort(-players.v)
    v, s = np.append(players.empty, players.v[order]), np.append(players.background, players.s[order])
    weight = np.exp(s - s.max())
    with np.errstate(invalid="ignore", divide="ignore"):
        averages = np.cumsum(weight * v) / np.cumsum(weight)
    return max(float(np.nanmax(averages)), players.empty, float(v[1]) if players.background == -np.inf else -np.inf)


def _ratio_game(values: Floats, players: Players, z: complex, measure: Measure, theta: float) -> Floats:
    """Return the semivalues (n,), complex, of the game sum_j omega_j values_j / (omega_0 + sum_j omega_j)."""
    ratio, ratio_0 = 1j * (players.v - z), 1j * (players.empty - z)  # omega / w; the real part of all is that of -i z
    bound = float(np.log(_GONE / z.imag))  # of log(t w): beyond it exp(-t omega) is zero
    log_sizes = np.append(players.s + np.log(np.abs(ratio)), players.background + np.log(abs(ratio_0)))
    size = float(logsumexp(log_sizes))
    slowest = players.background if players.background > -np.inf else float(players.s.min())
    step = min(2.0 * np.pi * theta / -np.log(_ERROR), 0.5)
    tau = np.arange(_START, bound - slowest + size + step, step)
    log_t, dt = tau - np.exp(-tau) - size, step * (1.0 + np.exp(-tau))
    phi = np.zeros(len(values), dtype=complex)
    start, ahead = 0, max(4, _TOGETHER // len(values))
    while start < len(tau):
        q, mass, rows = _nodes(players, ratio, bound, log_t[start : start + ahead], measure)
        block = slice(start, start + rows)
        start += rows
        tw = np.exp(np.minimum(log_t[block, None] + players.s, bound)) * ratio
        constant = np.exp(np.minimum(log_t[block, None] + players.background, bound)) * ratio_0
        y, rate = -np.expm1(-tw), tw * np.exp(-tw)
        p = y[:, :, None] * -q
        p += 1.0
        product = p.prod(axis=1) * np.exp(-constant) * dt[block, None] * mass
        np.reciprocal(p, out=p)
        flow = np.stack([rate, rate * values], axis=1) @ p * q  # t A and t B of `shapley`
        flow[:, 0] += constant
        flow *= product[:, None]
        push = np.einsum("tk,tkc->kc", y, p @ flow.transpose(0, 2, 1))
        phi += values * push[:, 0] - push[:, 1]
    return phi


def _nodes(
    players: Players, ratio: NDArray[np.complexfloating[Any, Any]], bound: float, log_t: Floats, measure: Measure
) -> tuple[Floats, Floats, int]:
    """Return nodes q and their weights for the next nodes of t, and how many of those fit into one block.

    In q the product of the 1 - y q is as smooth as exp(-q Y), with Y the sum of |y|: a small t needs few nodes. A large one
    needs few as well: |1 - y q| <= exp(-q (1 - |exp(-t omega)|)), so that the product is zero from some q on.
    """
    n = len(ratio)
    gone = np.exp(-np.exp(np.minimum(log_t[[0, -1], None] + players.s, bound)) * ratio)
    few = _SMOOTH + int(4.0 * np.abs(1.0 - gone[1]).sum() ** 0.5)
    q, mass = measure.rule(2 * few - 1 if 2 * few <= min(n, _EXACT) else n)
    falling = float((1.0 - np.abs(gone[0])).sum()) - 2.0  # but for two units, by which the product is divided
    used = int(np.searchsorted(q * falling, _VANISHED))
    return q[:used], mass[:used], min(len(log_t), max(1, _BLOCK // max(1, n * used)))


def _poles(furthest: float) -> tuple[Floats, Floats]:
    """Return c and g of the shortest expansion of tanh with an error below `_ERROR` up to x = furthest."""
    x = np.linspace(0.0, furthest, _GRID)
    truth, k = np.tanh(x), 2
    while True:
        c, g = _expansion(k)
        if np.abs((x[:, None] / (x[:, None] ** 2 + c**2)) @ g - truth).max() < _ERROR or k >= 512:
            return c, g
        k += 1 + k // 8


@lru_cache(maxsize=64)
def _expansion(k: int) -> tuple[Floats, Floats]:
    """Return k poles c and their weights g: tanh x = x / (1 + x^2 / (3 + x^2 / (5 + ...))), truncated after 2 k steps."""
    odd = 2.0 * np.arange(1, 2 * k) - 1.0
    a = 1.0 / (odd * (odd + 2.0))
    diagonal = np.concatenate([a[:1], a[1:-1:2] + a[2::2]])
    nodes, vectors = eigh_tridiagonal(diagonal, np.sqrt(a[0:-1:2] * a[1::2]))
    return nodes**-0.5, vectors[0] ** 2 / nodes
