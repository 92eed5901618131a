"""Ratio games: the output of an attention head when some words are replaced, and its exact averages.

    f(z) = (g_0 v_0 + sum_j z_j g_j v_j + (1 - z_j) h_j u_j) / (g_0 + sum_j z_j g_j + (1 - z_j) h_j),    z in {0, 1}^n

Player j has the weight g_j and the value v_j where it is present, h_j and u_j where it is replaced; g_0, v_0 belong to what is
always present. A network with several heads is the mean of their games, and every average is linear in f. With
1/x = int exp(-t x) dt,

    E[f] = int_0^inf dt exp(-t g_0) E[(numerator) prod_j exp(-t (z_j g_j + (1 - z_j) h_j))]

factorises over players that are present independently of each other (`averages_by_probability`), and becomes a recursion over
them where their number is fixed (`averages_by_size`). t is integrated by the trapezoid rule in tau, log t = tau - exp(-tau) -
log(largest denominator), with a relative error of about exp(-pi^2 / step) in every 1/x. Weights enter as log t + log weight, so
nothing overflows.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp

from slalom.core.checks import Floats
from slalom.core.measures import Measure, Point
from slalom.result import presence

_STEP = 0.25  # of the trapezoid rule: exp(-pi^2 / 0.25) is 7e-18
_START = -3.6  # where it starts: t times the largest denominator is exp(-40) there
_END = 3.8  # where it ends, after the smallest denominator: exp(-exp(3.8)) is 3e-20
_MOST = 300.0  # t times a weight is cut here: exp(-300) is zero beside anything
_BLOCK = 2**18  # numbers in one block of (t, q, player)


@final
@dataclass(frozen=True, eq=False)
class RatioGame:
    """The games of K heads with n players.

    Attributes:
        log_present: log g, (K, n); logarithms, so that weights may differ by any number of orders of magnitude.
        present: v, (K, n).
        log_replaced: log h, (K, n).
        replaced: u, (K, n).
        log_base: log g_0, (K,).
        base: v_0, (K,).
    """

    log_present: Floats
    present: Floats
    log_replaced: Floats
    replaced: Floats
    log_base: Floats
    base: Floats

    @property
    def n(self) -> int:
        """Number of players."""
        return int(self.present.shape[1])

    def __call__(self, keep: ArrayLike) -> Floats:
        """Return f (m,), the mean over the heads, for presence of players (m, n)."""
        z = np.atleast_2d(presence(keep, self.n)).astype(bool)
        total = np.zeros(len(z))
        for log_present, present, log_replaced, replaced, log_base, base in self._heads():
            logs = np.column_stack([np.where(z, log_present, log_replaced), np.full(len(z), log_base)])
            w = np.exp(logs - logs.max(axis=1, keepdims=True))
            total += (w * np.column_stack([np.where(z, present, replaced), np.full(len(z), base)])).sum(axis=1) / w.sum(axis=1)
        return total / len(self.base)

    def semivalue(self, measure: Measure) -> Floats:
        """Return int dmu(q) E[f | z_i = 1] - E[f | z_i = 0] (n,), the others present with a probability q of this measure."""
        if isinstance(measure, Point) and measure.q in (0.0, 1.0):
            alone, whole = np.eye(self.n, dtype=bool), np.ones((1, self.n), dtype=bool)
            return self(alone) - self(~whole) if measure.q == 0 else np.asarray(self(whole) - self(~alone))
        return self.averages_by_probability(*measure.rule(self.n))[1] if self.n else np.zeros(0)

    def averages_by_probability(self, q: Floats, weights: Floats) -> tuple[Floats, Floats]:
        """Return E[f] (Q,) at each probability q in (0, 1), and sum_q weights_q (E[f | z_i = 1] - E[f | z_i = 0]) (n,).

        With x = exp(-t g), y = exp(-t h), m = q x + (1 - q) y, P = exp(-t g_0) prod_j m_j, a = g v, b = h u,
        S = sum_j (q a_j x_j + (1 - q) b_j y_j) / m_j, and values counted from v_0:

            E[f] = int dt P S,    difference_i = int dt P [ (x_i - y_i) S / m_i + (a_i - b_i) x_i y_i / m_i^2 ]
        """
        means, phi = np.zeros(len(q)), np.zeros(self.n)
        for head in self._quadratures():
            rows = max(_BLOCK // max(len(q) * self.n, 1), 1)
            for start in range(0, len(head.weight), rows):
                part = head.part(slice(start, start + rows))
                m = part.y[:, None, :] + q[:, None] * (part.x - part.y)[:, None, :]  # (T, Q, n)
                P = (part.weight * np.exp(-part.base))[:, None] * m.prod(axis=2)
                inverse = np.reciprocal(m, out=m)
                a, b = part.a * part.x, part.b * part.y
                flow = inverse @ np.stack([b, a - b], axis=2)  # (T, Q, 2)
                S = flow[:, :, 0] + q * flow[:, :, 1]
                means += (P * S).sum(axis=0)
                share = P * weights
                phi += ((part.x - part.y) * np.einsum("tq,tqn->tn", share * S, inverse)).sum(axis=0)
                inverse *= inverse
                phi += ((part.a - part.b) * part.x * part.y * np.einsum("tq,tqn->tn", share, inverse)).sum(axis=0)
            means += head.shift
        return means / len(self.base), phi / len(self.base)

    def averages_by_size(self, weights: Floats) -> tuple[float, Floats]:
        """Return sum_m weights_m E_m[f] and sum_m weights_m E_m[z_j f] (n,), where E_m is over the subsets of m players.

        A recursion over the players: F_k(m) is the mean of prod_j x_j^z_j y_j^(1 - z_j) over the subsets of m of the first k,
        and its adjoint is the contribution of the players after them; both carry the numerator along.

            F_k(m) = (1 - m / k) y_k F_(k-1)(m) + (m / k) x_k F_(k-1)(m - 1)
        """
        n, total, each = self.n, 0.0, np.zeros(self.n)
        for head in self._quadratures():
            T = len(head.weight)
            before = [np.stack([np.ones((T, 1)), np.zeros((T, 1))])]  # F after k players (T, k + 1), and with the numerator
            for k in range(1, n + 1):
                (stay, come), (x, y, a, b), (plain, full) = _chances(k), head.player(k - 1), before[-1]
                grown = np.zeros((2, T, k + 1))
                grown[0, :, :-1], grown[1, :, :-1] = stay * y * plain, stay * y * (full + b * plain)
                grown[0, :, 1:] += come * x * plain
                grown[1, :, 1:] += come * x * (full + a * plain)
                before.append(grown)
            scale = (head.weight * np.exp(-head.base))[:, None]
            total += float((scale * before.pop()[1] * weights).sum()) + head.shift * float(weights.sum())
            after = np.stack([scale * weights, np.zeros((T, n + 1))])  # the adjoint, and with the numerator of those after
            for k in range(n, 0, -1):
                (stay, come), (x, y, a, b), (plain, full) = _chances(k), head.player(k - 1), before.pop()
                present, replaced = come * x * after[:, :, 1:], stay * y * after[:, :, :-1]
                each[k - 1] += float((present[0] * (full + a * plain) + present[1] * plain).sum())
                after = present + replaced
                after[1] += a * present[0] + b * replaced[0]
            each += head.shift * float(weights @ np.arange(n + 1)) / max(n, 1)
        return total / len(self.base), each / len(self.base)

    def _heads(self) -> "Iterator[tuple[Floats, Floats, Floats, Floats, float, float]]":
        yield from zip(self.log_present, self.present, self.log_replaced, self.replaced, self.log_base, self.base, strict=True)

    def _quadratures(self) -> "Iterator[_Quadrature]":
        """Yield the nodes of each head; values are relative to that of the base, to keep the digits of small differences."""
        for log_present, present, log_replaced, replaced, log_base, base in self._heads():
            largest = logsumexp(np.append(np.maximum(log_present, log_replaced), log_base))
            smallest = logsumexp(np.append(np.minimum(log_present, log_replaced), log_base))
            tau = np.arange(_START, _END + largest - smallest + _STEP, _STEP)
            log_t = (tau - np.exp(-tau) - largest)[:, None]
            g, h, base_t = (np.exp((log_t + part).clip(max=np.log(_MOST))) for part in (log_present, log_replaced, log_base))
            yield _Quadrature(
                _STEP * (1.0 + np.exp(-tau)), np.exp(-g), np.exp(-h), g * (present - base), h * (replaced - base),
                base_t[:, 0], float(base),
            )  # fmt: skip


class _Quadrature(NamedTuple):
    """Nodes t (T,) of one head: weight (T,) of dt / t; x = exp(-t g), y = exp(-t h) (T, n); base (T,) is t g_0.

    a = t g (v - shift), b = t h (u - shift) (T, n). shift: v_0, from which all values are counted.
    """

    weight: Floats
    x: Floats
    y: Floats
    a: Floats
    b: Floats
    base: Floats
    shift: float

    def player(self, j: int) -> tuple[Floats, Floats, Floats, Floats]:
        """Return x, y, a, b of one player, (T, 1) each."""
        return self.x[:, j, None], self.y[:, j, None], self.a[:, j, None], self.b[:, j, None]

    def part(self, rows: slice) -> "_Quadrature":
        """Return some of the nodes."""
        return _Quadrature(
            self.weight[rows], self.x[rows], self.y[rows], self.a[rows], self.b[rows], self.base[rows], self.shift
        )


def _chances(k: int) -> tuple[Floats, Floats]:
    """Return the coefficients of F(m) of the first k - 1 players, m < k, in F(m) and F(m + 1) of the first k."""
    m = np.arange(k)
    return 1.0 - m / k, (m + 1.0) / k
