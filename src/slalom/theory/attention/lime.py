"""The limit of LIME's regression for many samples, and an approximation of it.

    minimise  sum_m pi(m) / n  E_m[(f(z) - i - sum_j beta_j z_j)^2],    m = 0 .. n - 1 words kept,
    pi(m) = exp(-(100 (1 - sqrt(m / n)))^2 / (2 width^2)),    width = 25, as in the package

LIME draws the number of words to remove uniformly from 1 .. n, then which; its kernel is one of the cosine distance. With
the moments A_p of the kernel and y_0 = E[f], y_j = E[z_j f] the normal equations are

    A_0 i + A_1 sum beta = y_0,    A_1 i + (A_1 - A_2) beta_j + A_2 sum beta = y_j

`limit` has the exact moments, `bernoulli` those of words that are kept independently with probability q. Theorem 5.1 of
Lopardo, Precioso & Garreau 2024 as printed (`forms.lime_printed`) is neither.
"""

import numpy as np
from numpy.polynomial.legendre import leggauss

from slalom.core import Additive
from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.theory.attention.game import RatioGame

_WIDTH = 25.0  # of the kernel, the default of the lime package


def limit(game: RatioGame) -> Additive:
    """Return the exact limit of LIME: effects (n,), and the intercept as base. It costs O(n^2).

    A single word is kept in none of LIME's samples except the text itself; its effect is then f(text) - f(replaced).
    """
    n = _players(game)
    if n == 1:
        replaced, present = game(np.array([[False], [True]]))
        return Additive([present - replaced], replaced)
    m = np.arange(n + 1)
    kernel = np.where(m < n, _kernel(m / n) / n, 0.0)
    share = m / n
    pairs = share * (m - 1) / (n - 1)
    return _solved(game.averages_by_size(kernel), float(kernel.sum()), float(kernel @ share), float(kernel @ pairs))


def bernoulli(game: RatioGame) -> Additive:
    """Return the same for words that are kept independently, with a probability q uniform in [0, 1]. It costs O(n sqrt(n)).

    Then A_1 - A_2 = int pi(q) q (1 - q) dq, and differences of effects are those of semivalues with that density.
    """
    n = _players(game)
    nodes, weights = leggauss(16 + int(8.0 * n**0.5))
    root, weights = (nodes + 1.0) / 2.0, weights / 2.0  # q = root^2, in which the kernel is smooth
    q = root**2
    kernel = _kernel(q) * weights * 2.0 * root
    means, rise = game.averages_by_probability(q, kernel * q * (1.0 - q))
    moments = float(kernel @ means), float(kernel @ (q * means)) + rise
    return _solved(moments, float(kernel.sum()), float(kernel @ q), float(kernel @ q**2))


def _players(game: RatioGame) -> int:
    if not game.n:
        raise InputError("LIME needs at least one word; this text has none")
    return game.n


def _kernel(share: Floats) -> Floats:
    return np.asarray(np.exp(-((100.0 * (1.0 - np.sqrt(share))) ** 2) / (2.0 * _WIDTH**2)))


def _solved(moments: tuple[float, Floats], a0: float, a1: float, a2: float) -> Additive:
    """Solve the normal equations; their sum over the words has two unknowns, the intercept and the sum of the effects."""
    y0, y = moments
    n = len(y)
    intercept, total = np.linalg.solve([[a0, a1], [n * a1, a1 + (n - 1) * a2]], [y0, y.sum()])
    return Additive((y - a1 * intercept - a2 * total) / (a1 - a2), float(intercept))
