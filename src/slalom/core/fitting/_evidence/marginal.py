"""The contribution of the linear side to the shape's probability once it is integrated out.

    log p(shape | y) = -cost(shape, best linear side) / 2 - K log(det M / (1 + |r|^2)) / 2 + ...
    M = precision U'U + strength (I + r r')

Given the shape (t and the share a), S is linear in F and psi, so this is exact but for a link. U has the columns 1 and x_i p_i
/ D, r is the derivative of rho, and 1 + |r|^2 normalises the prior of psi. A joint mode leaves the determinant out: it favours
shapes that one set of psi fits well over shapes that many do, and underestimates deviations and the background. Where the data
determine all psi, log det M = 2 sum_i log p_i + ...; where they determine none, it is constant.

With leverages h_k = (U M^-1 U')_kk (without the level's part) and c_i = (M^-1 U'U)_ii, half its derivative is

    by t_j:  c_j - w_j sum c - (1 - a) sum_k (h_k / D_k) ((c_kj - m_j) p_j - w_j q_k),    by a:  sum_k h_k q_k / D_k

and the same for the row r; w_j = m_j p_j.
"""

from typing import Any, NamedTuple

import numpy as np

from slalom.core.fitting._evidence.coordinates import Centred, Step
from slalom.core.fitting._evidence.objective import StepScalars
from slalom.core.fitting._evidence.triangular import diagonal


class LinearInverse(NamedTuple):
    """M^-1 by lower = L^-1, M = L L'."""

    lower: Any

    def solve(self, right: Step) -> Step:
        """Return M^-1 times the linear side (1 + n, K) of a step; its shape side is passed on."""
        return Step(self.lower.T @ (self.lower @ right.linear), right.shape)

    def without_level(self, right: Any) -> Any:
        """Return the part (n,) of M^-1 (0, right) after the level's."""
        return (self.lower.T @ (self.lower[:, 1:] @ right))[1:]

    @property
    def variances(self) -> Any:
        """The diagonal of M^-1 after the level's entry (n,)."""
        return (self.lower[:, 1:] ** 2).sum(0)

    @property
    def half_log_det(self) -> Any:
        """Half the log determinant of M."""
        return -np.log(diagonal(self.lower)).sum()

    def leverages(self, rows: Any) -> Any:
        """Return the diagonal (m,) of U M^-1 U' without the level's part, for rows U (m, 1 + n)."""
        inner = rows @ self.lower.T
        level = rows[:, 0] * (inner @ self.lower[:, 0])
        return (inner**2).sum(1) - level


def log_det_gradient(point: Centred, known: StepScalars, inverse: LinearInverse) -> Any:
    """Return K / 2 times the derivative of log(det M / (1 + |r|^2)) by the shape side (n + extras,); inverse is that of M.

    The slopes of a link are treated as constant.
    """
    share, strength = point.share, known.strength
    p, q, d = point.attention
    leverage = inverse.leverages(known.precision**0.5 * point.jacobian(linear_only=True).linear) / d
    held = np.sign(point.design.mean) * (1.0 - strength * inverse.variances)  # 0 for a unit that is in no row
    scalars: list[Any] = []
    if share is not None:
        row = point.odds * point.weight
        back = strength * inverse.without_level(row)
        held = held - back * row  # the part that r determines; with it, the rows determine the rest
        back = back - row / (1.0 + row @ row)
        by_share = leverage @ q - (back @ point.weight) / share**2
        scalars = [by_share[None]]
    force = held - point.weight * held.sum()
    force = force - point.rest * (p * (point.design.offsets.T @ leverage) - point.weight * (leverage @ q))
    if share is not None:
        force = force + back * row - (back @ row) * point.weight
    scalars += [0.0 * q[:1]] * (point.extras - len(scalars))
    return point.psi.shape[1] * np.concatenate((force, *scalars))
