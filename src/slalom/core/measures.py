"""Measures that define a semivalue: how likely each other unit is present when unit i joins.

    phi_i = int dmu(q) E[F(C + i) - F(C)],    every other unit is in C with probability q, independently

Uniform on [0, 1] is Shapley, all mass at 1/2 is Banzhaf, all mass at 1 is leave-one-out. Each measure has a quadrature rule
that is exact to rounding for polynomials in q of the degree that n units need.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import lru_cache
from typing import final

import numpy as np
from scipy.linalg import eigh_tridiagonal

from slalom.core.checks import Floats, real_array
from slalom.errors import InputError


class Measure(ABC):
    """A probability measure mu on [0, 1] of q, the probability that each other unit is present when unit i joins."""

    @property
    @abstractmethod
    def all_present(self) -> bool:
        """Whether all other units are present with certainty: all mass at q = 1."""

    @abstractmethod
    def rule(self, n_players: int) -> tuple[Floats, Floats]:
        """Return nodes q < 1 and their weights, exact to rounding for the semivalues of `n_players` units.

        Args:
            n_players: Number of units, the one that joins included.

        Returns:
            Nodes (k,) and weights (k,).
        """


@final
@dataclass(frozen=True)
class Beta(Measure):
    """q ~ Beta(a, b), with a density proportional to q^(a - 1) (1 - q)^(b - 1).

    Beta(1, 1) is Shapley; b > a gives small coalitions more weight. What Kwon and Zou (2022) call Beta(alpha, beta) is
    Beta(a=beta, b=alpha) here.

    Args:
        a: Positive.
        b: Positive.

    Raises:
        InputError: A parameter is not positive.
    """

    a: float
    b: float

    def __post_init__(self) -> None:
        for name, parameter in (("a", self.a), ("b", self.b)):
            if float(real_array(f"{name} of Beta", parameter, (0,))) <= 0:
                raise InputError(f"{name} of Beta must be positive; got {parameter!r} (Beta(1, 1) is Shapley)")

    @property
    def all_present(self) -> bool:
        return False

    def rule(self, n_players: int) -> tuple[Floats, Floats]:
        m = min((n_players + 1) // 2, 4 + int(4.0 * n_players**0.5))
        return _gauss_jacobi(float(self.a), float(self.b), m)


@final
@dataclass(frozen=True)
class Point(Measure):
    """All mass at one q: 1/2 is Banzhaf, 1 is leave-one-out, 0 is each unit on its own.

    Args:
        q: In [0, 1].

    Raises:
        InputError: q is not a probability.
    """

    q: float

    def __post_init__(self) -> None:
        if not 0 <= float(real_array("q of Point", self.q, (0,))) <= 1:
            raise InputError(f"q of Point must lie in [0, 1]; got {self.q!r} (1/2 is Banzhaf, 1 is leave-one-out)")

    @property
    def all_present(self) -> bool:
        return self.q == 1

    def rule(self, n_players: int) -> tuple[Floats, Floats]:
        return np.array([float(self.q)]), np.ones(1)


@lru_cache(maxsize=64)
def _gauss_jacobi(a: float, b: float, m: int) -> tuple[Floats, Floats]:
    """Return the m Gauss nodes in [0, 1) and weights (sum 1) of Beta(a, b), by Golub and Welsch."""
    k = np.arange(1.0, m)
    c = a + b
    diagonal = np.empty(m)
    diagonal[0] = (a - b) / c
    diagonal[1:] = (a - b) / (2.0 * k + c) * ((c - 2.0) / (2.0 * k + c - 2.0))
    # The factor (k + c - 2) / (2 k + c - 3) is 1 at k = 1, also where it reads 0 / 0.
    factor = np.ones(max(m - 1, 0))
    factor[1:] = (k[1:] + c - 2.0) / (2.0 * k[1:] + c - 3.0)
    share = (k + a - 1.0) / (2.0 * k + c - 2.0) * ((k + b - 1.0) / (2.0 * k + c - 2.0))
    off_diagonal = 2.0 * np.sqrt(share * factor * k / (2.0 * k + c - 1.0))
    nodes, vectors = eigh_tridiagonal(diagonal, off_diagonal)
    q = np.clip(0.5 * (1.0 + nodes), 0.0, 1.0 - 2.0**-53)
    weights = vectors[0] ** 2
    q.flags.writeable = weights.flags.writeable = False
    return q, weights
