"""The normal equations of a step in the space of the rows, for one output and fewer rows than units.

    H = [[u'u, u'J], [J'u, D + J'J]]        u (r,): the level's column; J (r, q): those of psi, t and the scalars; D: the priors
    S = D + P'P,    P = J - u (u'J) / u'u   the level, which has no prior, is eliminated
    S^-1 = D^-1 - D^-1 P' (I + P D^-1 P')^-1 P D^-1

Rows are those of the data, times the roots of their precisions, and that of rho. A linearisation factorises one matrix (r, r)
instead of two (n, n): with 150 rows and 300 units it takes a tenth of the work. It is less accurate where the data determine a
direction much better than the prior, by the ratio of the two. So solutions are refined once, and beyond `MAX_RATIO` the solver
returns to the space of the units. Errors and draws need factors of H itself, and are computed there too.
"""

from typing import Any, NamedTuple

from slalom.core.fitting._arrays.backend import Backend, diagonal
from slalom.core.fitting._evidence.coordinates import Centred, Step
from slalom.core.fitting._evidence.objective import MIN_JITTER, Priors, StepScalars, descent

MAX_RATIO = 1e8  # of the squares of J's columns to their priors


class RowInverse(NamedTuple):
    """H^-1: u'u, J'u, P, D and the inverse of L, L L' = I + P D^-1 P'. units: the number of psi."""

    backend: Backend
    units: int
    size: Any
    cross: Any
    rows: Any
    prior: Any
    lower: Any

    @classmethod
    def of(
        cls, backend: Backend, units: int, level: Any, rows: Any, prior: Any, damping: Any = 0.0
    ) -> "tuple[RowInverse, Any]":
        """Return the inverse, and a number other than 0 where it does not exist. damping: of u'u, relative to it."""
        size, cross = level @ level, level @ rows
        left = (damping / (1.0 + damping)) ** 0.5  # so that P'P = J'J - J'u u'J / (u'u (1 + damping))
        projected = rows - level[:, None] * (cross * ((1.0 - left) / size))
        lower, failed = backend.inverse_cholesky(_plus_one_gram(projected * prior**-0.5))
        return cls(backend, units, (1.0 + damping) * size, cross, projected, prior, lower), failed

    def solve(self, right: Step) -> Step:
        """Return H^-1 right."""
        first, rest = right.linear[0, 0], self.backend.xp.concatenate((right.linear[1:, 0], right.shape))
        solved = self.without_level(rest - self.cross * (first / self.size))
        return self._step((first - self.cross @ solved) / self.size, solved)

    def column(self, i: int) -> Step:
        """Return H^-1 e for the i-th unit vector e of the shape side."""
        unit = 0.0 * self.prior
        unit[self.units + i] += 1.0
        solved = self.without_level(unit)
        return self._step(-(self.cross @ solved) / self.size, solved)

    def _step(self, level: Any, rest: Any) -> Step:
        return Step(self.backend.xp.concatenate((level[None], rest[: self.units]))[:, None], rest[self.units :])

    def without_level(self, right: Any) -> Any:
        """Return S^-1 right (q,)."""
        first = self._once(right)
        return first + self._once(right - self.prior * first - (self.rows @ first) @ self.rows)

    def _once(self, right: Any) -> Any:
        scaled = right / self.prior
        return scaled - ((self.lower.T @ (self.lower @ (self.rows @ scaled))) @ self.rows) / self.prior

    @property
    def variances(self) -> Any:
        """The diagonal of S^-1 (q,)."""
        return (1.0 - ((self.lower @ self.rows) ** 2).sum(0) / self.prior) / self.prior

    @property
    def half_log_det(self) -> Any:
        """Half the log determinant of H."""
        log = self.backend.xp.log
        return 0.5 * (log(self.size) + log(self.prior).sum()) - log(diagonal(self.lower)).sum()

    def determined(self, backend: Backend, n: int, _: bool) -> Any:
        """Return the traces of the covariances of psi and of t, and half the log determinant of H."""
        variances = self.variances
        return backend.xp.stack((variances[:n].sum(), variances[n : 2 * n].sum(), self.half_log_det))

    def linear_side(self, _: Centred, __: bool) -> "RowInverse":
        """Return the inverse of the linear side's own part of H."""
        rows, n = self.rows[:, : self.units], self.units
        lower, _ = self.backend.inverse_cholesky(_plus_one_gram(rows * self.prior[:n] ** -0.5))
        return self._replace(cross=self.cross[:n], rows=rows, prior=self.prior[:n], lower=lower)

    def leverages(self, rows: Any) -> Any:
        """Return the diagonal (m,) of U M^-1 U' without the level's part, for rows U (m, 1 + n) and the linear side M."""
        scaled = (rows[:, 1:] - rows[:, :1] * (self.cross / self.size)) / self.prior
        solved = scaled - ((scaled @ self.rows.T) @ (self.lower.T @ (self.lower @ self.rows))) / self.prior
        return (solved * rows[:, 1:]).sum(1)


def _plus_one_gram(rows: Any) -> Any:
    """Return I + rows rows'."""
    gram = rows @ rows.T
    diagonal(gram)[:] += 1.0
    return gram


class RowSystem(NamedTuple):
    """u (r,), J (r, q), D (q,), the diagonal of H after the level's entry (q,), and minus half the gradient."""

    level: Any
    rows: Any
    prior: Any
    sizes: Any
    gradient: Step

    def weigh(self, step: Step) -> Any:
        """Return the sum of squares of a step, times the diagonal of H."""
        n = len(step.linear) - 1
        first, rest = (self.level @ self.level) * step.linear[0, 0] ** 2, self.sizes[:n] @ step.linear[1:, 0] ** 2
        return first + rest + self.sizes[n:] @ step.shape**2

    def factorise(self, backend: Backend, jitter: Any) -> tuple[RowInverse, Any]:
        """Return the inverse of H with jitter on its diagonal, and a number other than 0 where it does not exist."""
        n = len(self.gradient.linear) - 1
        return RowInverse.of(backend, n, self.level, self.rows, self.prior + jitter * self.sizes)

    def damped(self, backend: Backend, _: Any, damping: Any, whole: bool) -> tuple[RowInverse, Any]:
        """Return the inverse of H with damping on its diagonal, of the shape side alone unless whole."""
        n, prior = len(self.gradient.linear) - 1, self.prior + MIN_JITTER * self.sizes
        prior[0 if whole else n :] += damping * self.sizes[0 if whole else n :]
        return RowInverse.of(backend, n, self.level, self.rows, prior, damping if whole else 0.0)


def row_equations(point: Centred, scalars: StepScalars, priors: Priors) -> tuple[RowSystem, tuple[Any, Any]]:
    """Return the normal equations, and the largest ratios of the squares of J's columns to the priors of psi and of t."""
    join, n = point.backend.xp.concatenate, len(point.t)
    left, right = point.jacobian(coarse=False)
    rows = scalars.precision**0.5 * join((left[:, 1:], right[0]), 1)
    level = scalars.precision**0.5 * left[:, 0]
    squares = (rows**2).sum(0)
    ratios = squares[:n].max() / scalars.strength, squares[n : 2 * n].max() / scalars.tightness
    gradient, free = descent(point, scalars, priors, None)
    if point.background:
        across, along = point.rho_rows()
        rho = scalars.strength**0.5 * join((across[1:], along[0]))
        rows, level, squares = join((rows, rho[None]), 0), join((level, across[:1])), squares + rho**2
        rows[:, 2 * n] *= free  # a share that rests on its bound is left out
        squares[2 * n] *= free
    ones = 0.0 * point.t + 1.0
    prior = join((scalars.strength * ones, scalars.tightness * ones, priors.precision))
    return RowSystem(level, rows, prior, squares + prior, gradient), ratios


def linear_inverse(point: Centred, scalars: StepScalars) -> tuple[RowInverse, Any, Any]:
    """Return the inverse of the linear side's own part of H, failure as in `RowInverse.of`, and the ratio to the prior."""
    join = point.backend.xp.concatenate
    left = scalars.precision**0.5 * point.jacobian(coarse=False, linear_only=True).linear
    rows, level = left[:, 1:], left[:, 0]
    squares = (rows**2).sum(0)
    if point.background:
        across = scalars.strength**0.5 * point.rho_rows().linear
        rows, level, squares = join((rows, across[None, 1:]), 0), join((level, across[:1])), squares + across[1:] ** 2
    prior = scalars.strength + scalars.jitter * (squares + scalars.strength)
    return *RowInverse.of(point.backend, len(point.t), level, rows, prior), squares.max() / scalars.strength
