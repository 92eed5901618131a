"""The data side of stochastic gradient descent: standardised scores, rows of counts in batches, the loss and its gradient."""

from collections.abc import Iterator
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.core.fitting.problem import Problem

_Rows: TypeAlias = NDArray[np.intp]

_FEW = 1 / 8  # rows with at most this share of the units present are stored as lists of units
_PAIR = 2  # so are single units and pairs, however few units there are
_EXACT = 32  # units up to which a perfect fit takes no time, and may be what the few rows were chosen for


class SparseRows(NamedTuple):
    """A matrix c (m, n) with at most k nonzero entries per row, k small."""

    places: NDArray[np.intp]  # (tables, k, m): flat index of a unit in an array (tables, n)
    counts: Floats | None  # (k, m), zero where a row has fewer than k; None where all are one

    @classmethod
    def of(cls, counts: Any, tables: int) -> "SparseRows | None":
        """List the nonzero entries of an array, sparse or not, by rows; None where there are many."""
        m, n = counts.shape
        most = max(_FEW * n, _PAIR)
        if isinstance(counts, np.ndarray):
            present = counts != 0.0
            if np.count_nonzero(present) > most * m:
                return None
            nonzero = np.flatnonzero(present)
            (rows, columns), times = np.divmod(nonzero, n), counts.take(nonzero)
        else:
            rows, columns, times = np.repeat(np.arange(m), np.diff(counts.indptr)), counts.indices, counts.data
        lengths = np.bincount(rows, minlength=m)
        k = int(lengths.max())
        if k > most:
            return None
        nth = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        units, entries = np.zeros((k, m), dtype=np.intp), np.zeros((k, m))
        np.put(units, nth * m + rows, columns)
        np.put(entries, nth * m + rows, times)
        return cls(np.arange(tables)[:, None, None] * n + units, None if (entries == 1.0).all() else entries)

    @property
    def longest(self) -> int | None:
        """The largest number of units in a row."""
        return int(self.places.shape[1])

    def split(self, order: _Rows, size: int) -> "Iterator[SparseRows]":
        """Yield the rows of an order in batches."""
        return map(SparseRows, _split(self.places, order, size), _split(self.counts, order, size))

    def forth(self, tables: Floats) -> Floats:
        """Return tables @ c.T."""
        entries = tables.take(self.places)
        if self.counts is not None:
            entries *= self.counts
        if entries.shape[1] == 2:  # pairs
            return np.asarray(entries[:, 0] + entries[:, 1])
        return np.asarray(np.add.reduce(entries, axis=1))

    def back(self, sums: Floats, n: int) -> Floats:
        """Return sums @ c."""
        parts = np.empty(self.places.shape)
        parts[:] = sums[:, None]
        if self.counts is not None:
            parts *= self.counts
        return np.asarray(np.bincount(self.places.ravel(), parts.ravel(), len(sums) * n).reshape(-1, n), dtype=float)


class DenseRows(NamedTuple):
    """A matrix c (m, n), stored in full."""

    counts: Floats

    @property
    def longest(self) -> int | None:
        """None: rows are long."""
        return None

    def split(self, order: _Rows, size: int) -> "Iterator[DenseRows]":
        """Yield the rows of an order in batches."""
        for start in range(0, len(order), size):
            yield DenseRows(self.counts[order[start : start + size]])

    def forth(self, tables: Floats) -> Floats:
        """Return tables @ c.T."""
        return np.asarray(tables @ self.counts.T)

    def back(self, sums: Floats, _: int) -> Floats:
        """Return sums @ c."""
        return np.asarray(sums @ self.counts)


class StandardisedData(NamedTuple):
    """Counts (m, n), standardised scores (n_classes, m), their mean and scale, weights (m,). even: all weights are 1."""

    counts: SparseRows | DenseRows
    n_units: int
    scores: Floats
    weights: Floats
    mean: Floats
    scale: float
    even: bool

    @classmethod
    def of(cls, problem: Problem) -> "StandardisedData":
        """Standardise the scores to mean 0 and variance 1 (summed over classes); constant scores only to mean 0."""
        problem.refuse_empty_rows("Sgd")
        y, weights = problem.scores.reshape(len(problem.scores), -1), problem.weights
        mean = np.average(y, axis=0, weights=weights)
        scale = float(np.sqrt(np.average(((y - mean) ** 2).sum(axis=1), weights=weights)))
        scale = scale if scale > 1e-13 * np.abs(y).max() else 1.0
        counts = SparseRows.of(problem.table, y.shape[1] + 1) or DenseRows(problem.counts)
        scores = np.ascontiguousarray((y - mean).T) / scale
        return cls(counts, problem.table.shape[1], scores, weights, mean, scale, bool((weights == 1.0).all()))

    def batches(self, rng: np.random.Generator, size: int) -> "Iterator[StandardisedData]":
        """Yield one epoch of shuffled rows in batches of equal size; a last, smaller batch is dropped."""
        m = len(self.weights)
        size = min(size, m)
        order = rng.permutation(m)[: m - m % size]
        weights = repeat(np.ones(size)) if self.even else _split(self.weights, order, size)
        parts = self.counts.split(order, size), repeat(self.n_units), _split(self.scores, order, size), weights
        return map(StandardisedData, *parts, repeat(self.mean), repeat(self.scale), repeat(self.even))

    @property
    def loose(self) -> bool:
        """Whether there are fewer than two scores per parameter: then a loss near zero says little about new rows."""
        return self.n_units > _EXACT and self.scores.size < 2 * (len(self.scores) + 1) * self.n_units

    @property
    def small(self) -> bool:
        """Whether there are fewer than 16 units in pairs (8, where rows have single units): steps cost next to nothing."""
        return self.counts.longest is not None and self.counts.longest > _FEW * self.n_units

    def loss(self, parameters: Floats) -> float:
        """Return the weighted mean squared error."""
        sums = self.counts.forth(_tables(parameters))
        return self._mean_square(sums[:-1] / sums[-1] - self.scores)

    def _mean_square(self, residual: Floats) -> float:
        square = np.vdot(residual, residual) if self.even else (residual**2 @ self.weights).sum()
        return float(square) / len(self.weights)

    def slope(self, parameters: Floats) -> tuple[float, Floats]:
        """Return the loss and its derivative, shaped as the parameters (n_classes + 1, n)."""
        tables = _tables(parameters)
        sums = self.counts.forth(tables)
        fitted = sums[:-1] / sums[-1]
        pull = np.empty_like(sums)  # of each row on v exp(s) and on exp(s)
        top = np.subtract(fitted, self.scores, pull[:-1])
        loss = self._mean_square(top)
        top /= sums[-1]
        if not self.even:
            top *= self.weights
        np.add.reduce(top * fitted, out=pull[-1])
        gradient = self.counts.back(pull, parameters.shape[1])
        gradient *= tables[-1] * (2.0 / self.scores.shape[1])
        gradient[-1] = np.add.reduce(gradient[:-1] * parameters[:-1]) - gradient[-1]
        return loss, gradient


def _tables(parameters: Floats) -> Floats:
    """Return exp(s) v of every class and exp(s), one below the other."""
    weight: Floats = np.exp(parameters[-1])
    return np.concatenate([parameters[:-1] * weight, weight[None]])


def _split(array: NDArray[Any] | None, order: _Rows, size: int) -> Iterator[Any]:
    """Yield entries along the last axis in a given order, in contiguous batches of equal size; for None, None forever."""
    if array is None:
        yield from repeat(None)
    else:
        ordered = array.take(order, axis=-1)
        yield from np.ascontiguousarray(np.moveaxis(ordered.reshape(*ordered.shape[:-1], -1, size), -2, 0))
