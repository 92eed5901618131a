"""The two kernels of what the formula leaves: a Gaussian process on the parts of a text.

Each is a class with the same methods: `weigh` (by how much the units matter), `between` (covariances of rows), `part` (the mean
of the process as a part of the surrogate).
"""

from abc import ABC, abstractmethod
from typing import final

import numpy as np
from numpy.typing import NDArray

from slalom.core.base import Part
from slalom.core.checks import Floats
from slalom.core.neighbours import Neighbours
from slalom.core.shifts import Shifts

Keep = NDArray[np.bool_]

_FORGET = 0.3  # share of all units, weighted by how much they matter, by which rows of correlation 1/e differ
_KNOTS = 24  # places of a text, at most
_REACH = 1.5  # missing atoms after which the effect of a place is another one
_FURTHEST = 40  # missing atoms, at most, that have an effect of their own
_AROUND = 2  # units on each side of a place that say how much it matters
_MAIN = 0.01  # of the largest eigenvalue of the process of a place: smaller ones are left out


class Kernel(ABC):
    """A covariance of what the formula leaves.

    Args:
        keep: The rows that were asked (m, n): which units they keep.
        sizes: Number of atoms of each unit (n,).
    """

    def __init__(self, keep: Keep, sizes: NDArray[np.int64]) -> None:
        self.keep, self.sizes = keep, sizes
        self.weigh(np.ones(keep.shape[1]))

    def weigh(self, matter: Floats) -> None:
        """Set how much each unit matters (n,), and the covariances of the asked rows."""
        self.matter = matter
        self.matrix = self.between(self.keep, self.keep)

    @abstractmethod
    def between(self, a: Keep, b: Keep) -> Floats:
        """Return covariances (rows of a, rows of b)."""

    def of_changes(self, keep: Keep, matrix: Floats) -> tuple[Floats, Floats]:
        """Return covariances (asked rows, k) of k differences, matrix (k, rows) times rows, and their variances (k,)."""
        own = matrix @ self.between(keep, keep)
        return self.between(self.keep, keep) @ matrix.T, np.einsum("ij,ij->i", own, matrix)

    @abstractmethod
    def part(self, pulls: Floats) -> Part:
        """Return the mean of the process: covariances with the asked rows, times pulls (m,) or (m, n_classes)."""


@final
class NeighbourKernel(Kernel):
    """Rows with nearly the same units have nearly the same residual: exp(-weighted share of the units by which they differ)."""

    def between(self, a: Keep, b: Keep) -> Floats:
        rates, x, y = self._rates, a.astype(float), b.astype(float)
        apart = (x @ rates)[:, None] + y @ rates
        apart -= 2.0 * (x * rates) @ y.T
        return np.asarray(np.exp(-apart, out=apart))

    @property
    def _rates(self) -> Floats:
        return np.asarray(self.matter / (_FORGET * self.matter.sum()))

    def part(self, pulls: Floats) -> Neighbours:
        return Neighbours(self.keep, self._rates, pulls)


@final
class PlaceKernel(Kernel):
    """Words that move to another place because others before them are gone.

    A knot is a place in the text. That r atoms before it are missing has an effect h(r), which begins at h(0) = 0 and forgets
    where it was after a few atoms; its variance is in proportion to how much the units around the knot matter.
    """

    def __init__(self, keep: Keep, sizes: NDArray[np.int64]) -> None:
        n = keep.shape[1]
        self.knots = np.unique(np.linspace(1, max(n - 1, 1), min(_KNOTS, max(n - 1, 1))).round().astype(np.int64))
        r = np.arange(1, _FURTHEST + 1) / _REACH
        variances, basis = np.linalg.eigh(np.exp(-np.abs(r[:, None] - r)) - np.exp(-(r[:, None] + r)))
        main = variances > _MAIN * variances[-1]
        nothing = np.zeros((1, int(main.sum())))
        self.by_number = np.concatenate([nothing, basis[:, main] * np.sqrt(variances[main]), nothing])  # of 0, ... missing
        super().__init__(keep, sizes)

    def weigh(self, matter: Floats) -> None:
        around = np.array([matter[max(knot - _AROUND, 0) : knot + _AROUND + 1].mean() for knot in self.knots])
        self.scale = np.sqrt(around / around.sum())
        self.matter, self.asked = matter, self.features(self.keep)
        self.matrix = self.asked @ self.asked.T

    def features(self, keep: Keep) -> Floats:
        """Return features (m, q) whose products are the covariances."""
        missing = np.cumsum(~keep * self.sizes, axis=1)[:, self.knots - 1]
        features = self.by_number[np.minimum(missing, _FURTHEST + 1)] * self.scale[:, None]
        return np.asarray(features.reshape(len(keep), -1))

    def between(self, a: Keep, b: Keep) -> Floats:
        return self.features(a) @ self.features(b).T

    def of_changes(self, keep: Keep, matrix: Floats) -> tuple[Floats, Floats]:
        changes = matrix @ self.features(keep)
        return self.asked @ changes.T, (changes**2).sum(axis=1)

    def part(self, pulls: Floats) -> Shifts:
        n, classes = self.keep.shape[1], pulls.shape[1:]
        pulled = (self.asked.T @ pulls).reshape(len(self.knots), self.by_number.shape[1], *classes)
        offsets = np.tensordot(pulled, self.by_number[:-1], axes=(1, 1))  # (knots, [classes,] numbers)
        offsets = np.moveaxis(offsets, -1, 1) * self.scale.reshape(-1, 1, *(1 for _ in classes))
        before = np.arange(n)[np.arange(n) < self.knots[-1]]
        return Shifts(n, before, np.searchsorted(self.knots, before, side="right"), self.sizes[before], offsets)
