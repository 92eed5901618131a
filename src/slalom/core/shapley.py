"""Exact Shapley values, Banzhaf values and other semivalues of a SLALOM surrogate, without sampling.

    phi_i = int dmu(q) E[F(C + i) - F(C)],    every other unit is in C with probability q, independently

F is the score, in log odds. The functions at the top take any surrogate; the algorithm below them is that of a Slalom without a
link, whose score is the evidence S. With a link, `linked` uses the same integrals with complex weights.

A measure mu on [0, 1] defines the semivalue: uniform is Shapley, all mass at 1/2 is Banzhaf, all mass at 1 is
leave-one-out. With 1/z = int_0^inf exp(-t z) dt the expectation factorises over the units, and an integration
by parts gives

    phi_i = int dmu(q) int_0^inf dt exp(-t w_0) P (y_i / p_i) [u_i (w_0 + A) - B]  +  e_i

    x_k = exp(-t w_k),  y_k = 1 - x_k,  p_k = 1 - q y_k,  P = prod_k p_k,  u = v - v_0
    A = sum_k q w_k x_k / p_k,    B = sum_k q w_k u_k x_k / p_k

e_i is 0 with a background and v_i int (1 - q)^(n - 1) dmu(q) without one (w_0 = 0; u is v less any constant).

The empty input has S = v_0, the value of the background; without a background it has S = 0. A player is a unit with all its
c_i copies, so its weight is c_i w_i; a unit with c_i = 0 is not a player and gets 0.

The quadrature is exact to rounding and costs about n sqrt(n) log(spread of the weights):

- q: the inner integral is a polynomial of degree n - 1 in q whose Bernstein coefficients are bounded. On the
  ellipse of radius exp(b) around [0, 1] it is at most cosh(b)^(n - 1), so m Gauss nodes err by about
  exp(-2 m^2 / n): 4 sqrt(n) nodes leave 1e-14, and ceil(n / 2) nothing. The nodes are those of mu itself, so
  a density that is singular at the ends costs no more.
- t: the trapezoid rule in tau, where log t = tau - exp(-tau) - log W and W = w_0 + sum_k w_k. It errs by
  about exp(-pi^2 / h) of 1 / z for every z in (0, W]; the term exp(-tau) only makes the side t -> 0 short.
- At one t a unit is gone (x = 0), faint (y = t w) or near; only the near ones are computed one by one, always
  as functions of log t + s. Importances thousands apart are therefore exact and cheap.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp

from slalom.core.base import Surrogate
from slalom.core.checks import Floats, centred, count_vector
from slalom.core.linked import Players, linked_semivalue
from slalom.core.measures import Measure, Point

_STEP = 0.25  # h of the trapezoid rule: exp(-pi^2 / h) is 7e-18
_START = -3.0  # where it starts: the integrand falls like t^2, and t W = exp(-23) there
_GONE = 4.5  # log(t w) from which on exp(-t w) is zero, even beside 1 - q
_FAINT = -45.0  # log(t w) up to which exp(-t w) is 1 - t w, and n t w is zero beside 1
_APART = 800.0  # a gap of log weights like infinity: exp(-800) is zero
_LOST = 1e-22  # a product P this small ends the integral over t
_BLOCK = 2**17  # numbers in one block of (t, unit, q): fits a cache


def shapley(model: Surrogate, counts: ArrayLike | None = None) -> Floats:
    """Return the Shapley values of the score F.

        phi_i = sum_C |C|! (n - 1 - |C|)! / n!  [F(C + i) - F(C)]

    They sum to F(counts) - F(empty), in log odds. Without a link they are exact to rounding (relative to the largest value);
    with one, to 1e-10 of its reach. F(empty) is that of the background; without a background it is the score of the evidence
    0.

    Args:
        model: Any surrogate.
        counts: How often each unit is present in the explained input (n_units,). Default: once. A unit with count 0 gets 0.

    Returns:
        (n_units,) or (n_units, n_classes).

    Example:
        >>> from slalom.core import Slalom
        >>> shapley(Slalom([2.0, -1.0], [0.0, 0.0])).round(12).tolist()
        [1.75, -1.25]
    """
    return model.shapley(counts)


def banzhaf(model: Surrogate, counts: ArrayLike | None = None) -> Floats:
    """Return the Banzhaf values of the score F.

        phi_i = 2^(1 - n) sum_C [F(C + i) - F(C)]

    Args:
        model: Any surrogate.
        counts: As in `shapley`.

    Returns:
        (n_units,) or (n_units, n_classes), as accurate as `shapley`.

    Example:
        With two units Banzhaf and Shapley are the same:

        >>> from slalom.core import Slalom
        >>> banzhaf(Slalom([2.0, -1.0], [0.0, 0.0])).round(12).tolist()
        [1.75, -1.25]
    """
    return model.semivalue(Point(0.5), counts)


def leave_one_out(model: Surrogate, counts: ArrayLike | None = None) -> Floats:
    """Return what the score F loses with one unit and all its copies: the semivalue with all mass at q = 1.

    Args:
        model: Any surrogate.
        counts: As in `shapley`.

    Returns:
        `model.removal(counts)`, (n_units,) or (n_units, n_classes).

    Example:
        >>> from slalom.core import Slalom
        >>> leave_one_out(Slalom([2.0, -1.0], [0.0, 0.0])).tolist()
        [1.5, -1.5]
    """
    return model.removal(counts)


def semivalue(model: Surrogate, measure: Measure, counts: ArrayLike | None = None) -> Floats:
    """Return the semivalues of the score F under a measure.

        phi_i = int dmu(q) E[F(C + i) - F(C)],    every other unit is in C with probability q

    Args:
        model: Any surrogate.
        measure: `Beta(a, b)` or `Point(q)`.
        counts: As in `shapley`.

    Returns:
        (n_units,) or (n_units, n_classes), as accurate as `shapley`.

    Raises:
        InputError: `measure` is something else.

    Example:
        >>> from slalom.core import Slalom
        >>> semivalue(Slalom([2.0, -1.0, 0.0], [0.0, 0.0, 0.0]), Point(0.0)).tolist()
        [2.0, -1.0, 0.0]
    """
    return model.semivalue(measure, counts)


def slalom_semivalue(model: Surrogate, measure: Measure, counts: ArrayLike | None) -> Floats:
    """Return the semivalues of a Slalom, for a measure that is not all at q = 1."""
    game = _game(model, counts)
    if game.n == 0:
        return game.spread(game.u)
    if model.link is not None:
        middles, reaches = (np.broadcast_to(part, game.centre.shape) for part in model.link)
        level = game.centre if game.background > -np.inf else np.zeros_like(game.centre)  # the evidence of the empty input
        per_class = [
            linked_semivalue(Players(u + centre, game.s, empty, game.background), measure, float(middle), float(reach))
            for u, centre, empty, middle, reach in zip(game.u.T, game.centre, level, middles, reaches, strict=True)
        ]
        phi = np.stack(per_class, axis=1)
        return game.spread(phi if game.flat else centred(phi))
    columns = np.vstack([np.ones(game.n), game.u.T])
    phi = np.zeros_like(game.u)
    for b in _blocks(game, *measure.rule(game.n)):
        gone, near, faint = slice(b.first), slice(b.first, b.last), slice(b.last, None)
        # t A and t B, then t (w_0 + A) and t B with all weights: shape (T, 1 + n_classes, Q)
        flow = (b.rate[:, None, :] * columns[:, near]) @ b.inverse
        flow += np.multiply.outer(b.growth, columns[:, faint] @ b.faint)[:, :, None]
        flow *= b.q
        flow[:, 0] += b.constant[:, None]
        flow *= b.weight[:, None, :]
        push = np.einsum("tk,tkc->kc", b.y, b.inverse @ flow.transpose(0, 2, 1))
        phi[near] += game.u[near] * push[:, :1] - push[:, 1:]
        phi[gone] += game.u[gone] * push[:1, :1] - push[:1, 1:]
        push = b.growth @ flow.sum(axis=2)
        phi[faint] += b.faint[:, None] * (game.u[faint] * push[0] - push[1:])
    if game.background == -np.inf:
        phi += measure.none_present(game.n - 1) * (game.u + game.centre)
    return game.spread(phi)


class _Game(NamedTuple):
    """The players, heaviest first: values u = v - centre (n, n_classes) and log weights s (n,).

    `background` is the background's log weight, -inf without one; with one, the centre is its value.
    """

    u: Floats
    s: Floats
    centre: Floats
    background: float
    order: NDArray[np.intp]
    n_units: int
    flat: bool

    @property
    def n(self) -> int:
        return len(self.s)

    @property
    def present(self) -> Floats:
        """The log weights of the players, and of the background if there is one."""
        return np.append(self.s, self.background) if self.background > -np.inf else self.s

    def spread(self, scores: Floats) -> Floats:
        """Return the players' scores (n, n_classes) in the order and shape of the model's values."""
        result = np.zeros((self.n_units, scores.shape[1]))
        result[self.order] = scores
        return result[:, 0] if self.flat else result


def _game(model: Surrogate, counts: ArrayLike | None) -> _Game:
    c = count_vector(counts, model.n_units)
    players = np.flatnonzero(c)
    s = model.importances[players] + np.log(c[players])
    order = np.argsort(-s, kind="stable")
    s, players = s[order], players[order]
    v = model.values.reshape(model.n_units, -1)[players]
    if model.background is None:
        centre, background, s = v.sum(axis=0) / max(1, len(v)), -np.inf, _closer(s)
    else:
        centre = np.atleast_1d(model.background.value)
        closer = _closer(np.append(s, model.background.importance))
        s, background = closer[:-1], float(closer[-1])
    return _Game(v - centre, s, centre, background, players, model.n_units, model.values.ndim == 1)


def _closer(s: Floats) -> Floats:
    """Narrow gaps between log weights that no sum can tell from infinity; then log t + s keeps its digits."""
    order = np.argsort(-s, kind="stable")
    gaps = -np.diff(s[order])
    if gaps.max(initial=0.0) <= _APART:
        return s
    result = np.zeros_like(s)
    result[order[1:]] = -np.cumsum(np.minimum(gaps, _APART))
    return result


class _Block(NamedTuple):
    """What the integrands share on a block of nodes t (T,) and q (Q,).

    weight (T, Q) is P times the factors of the background and of the quadrature; constant (T,) is t w_0. The K players
    first:last are near: inverse (T, K, Q) is 1 / p, y (T, K) is 1 - x, rate (T, K) is t w x. Those from `last` on are faint:
    p = 1, and y = t w is the outer product of growth (T,) and faint. Those before `first` are gone; then player `first` is gone
    too and stands for them all: x = 0, y = 1, p = 1 - q.
    """

    q: Floats
    weight: Floats
    inverse: Floats
    y: Floats
    rate: Floats
    constant: Floats
    growth: Floats
    faint: Floats
    first: int
    last: int


def _blocks(game: _Game, q: Floats, mass: Floats) -> Iterator[_Block]:
    """Yield the nodes t in ascending order, with all q, in blocks of bounded size; drop a q when its P has vanished."""
    log_t, step = _times(game)
    n_gone = np.maximum(np.searchsorted(-game.s, log_t - _GONE) - 1, 0)  # one of them stays, to stand for all
    near = np.searchsorted(-game.s, log_t - _FAINT)
    start, size = 0, len(log_t)
    while start < len(log_t) and len(q):
        size = min(2 * size, len(log_t) - start)
        while size > 1 and size * len(q) * (near[start + size - 1] - n_gone[start]) > _BLOCK:
            size //= 2
        now, start = slice(start, start + size), start + size
        first, last = int(n_gone[now][0]), int(near[now][-1])
        growth, faint = np.exp(log_t[now] - log_t[now][-1]), np.exp(log_t[now][-1] + game.s[last:])
        # Nothing changes beyond log(t w) = 6; the bound keeps exp from overflowing.
        tw = np.exp(np.minimum(log_t[now, None] + game.s[first:last], 6.0))
        constant = np.exp(np.minimum(log_t[now] + game.background, 6.0))
        y, rate = -np.expm1(-tw), tw * np.exp(-tw)
        decay = np.exp(-constant)[:, None]
        width = max(1, _BLOCK // max(1, y.size))
        alive = np.ones(len(q), dtype=bool)
        for offset in range(0, len(q), width):
            part = slice(offset, offset + width)
            p = np.multiply(y[:, :, None], -q[part])
            p += 1.0
            product = p.prod(axis=1) * (1.0 - q[part]) ** first * decay
            alive[part] = product[-1] > _LOST * (1.0 - q[part]) ** 2
            np.divide(1.0, p, out=p)
            weight = product * step[now, None] * mass[part]
            yield _Block(q[part], weight, p, y, rate, constant, growth, faint, first, last)
        q, mass = q[alive], mass[alive]


def _times(game: _Game) -> tuple[Floats, Floats]:
    """Return the nodes log t (ascending) at which some term is not zero to rounding, and their steps."""
    log_w = float(logsumexp(game.present))
    # Each weight matters for log t + s in (_FAINT, _GONE); windows that touch are one stretch of nodes.
    centres = np.sort(-game.present)
    gaps = np.flatnonzero(np.diff(centres) > _GONE - _FAINT)
    begins = centres[np.append(0, gaps + 1)] + _FAINT
    ends = np.minimum(centres[np.append(gaps, len(centres) - 1)], -game.background) + _GONE
    first, last = (np.ceil((edges + log_w - _START) / _STEP) for edges in (begins, ends))
    steps = [np.arange(max(0.0, i), j + 1.0) for i, j in zip(first, last, strict=True)]
    tau = _START + _STEP * np.concatenate(steps)
    return tau - np.exp(-tau) - log_w, _STEP * (1.0 + np.exp(-tau))
