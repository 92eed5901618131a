"""L-BFGS of many problems with short rows at once, in lockstep.

    parameters  (K,)    of P problems, one after the other
    losses      (P,)

One problem is a few hundred numbers, so a step costs the time of its numpy calls, not of its arithmetic. Here every call
serves all problems: each round evaluates one trial point of each problem, and each problem decides by itself whether it
accepts the trial, tries a shorter step or ends. Problems that have ended are dropped as soon as they are a quarter of all.

A problem ends at the same numbers, bit by bit, whatever others it is solved with: sums run over its own entries in their own
order, and all else is elementwise. A single fit is a lockstep of one.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.core.fitting._lbfgs import two_loop
from slalom.core.fitting._minibatches import SparseRows, StandardisedData, slope

CLOSE = 0.003  # a loss below this share of the variance may still fall to zero
_LAST = (4, 0.02)  # number of steps and relative fall of the loss: a problem ends after that many steps without it
_HIGH = 0.2  # a loss above this share of the variance may be that of a saddle
_LONGER = 4  # factor of the number of steps in these cases, and for small problems
_LEAST_OF_SMALL = 0.0001  # relative fall of the loss of small problems, which minibatches would bring as far
_MEMORY = 5  # pairs that L-BFGS keeps
_ARMIJO = 1e-4  # share of the predicted decrease that a step must reach
_TINY = 1e-10  # steps and curvatures below this are rounding
_ENDED = 0.25  # share of problems that have ended at which these are dropped
_TOGETHER = 2**14  # parameters of problems that are solved together: their arrays then stay in the cache

_Flags = NDArray[np.bool_]


class Descent(NamedTuple):
    """Where a descent is: v and s (n_classes + 1, n), their loss, the steps so far, and whether they converged."""

    parameters: Floats
    loss: float
    steps: int
    converged: bool


def finish(data: Sequence[StandardisedData], starts: Sequence[Descent], tolerance: float, max_steps: int) -> list[Descent]:
    """Continue descents with all rows until their losses stop falling.

    Args:
        data: The problems; their rows are `SparseRows`.
        starts: Where each begins.
        tolerance: The loss at which a problem has converged.
        max_steps: Limit of the steps, those of the start included.

    Returns:
        The end of each descent, in the order of the problems.
    """
    ends = list(starts)
    for group in _groups(data):
        lockstep = _Lockstep([data[i] for i in group], [starts[i] for i in group], tolerance, max_steps)
        for i, end in zip(group, lockstep.run(), strict=True):
            ends[i] = end
    return ends


def _groups(data: Sequence[StandardisedData]) -> list[list[int]]:
    """Return the numbers of problems that can be joined: of equal numbers of classes and of units per row, not too many."""
    groups: list[list[int]] = []
    last: dict[tuple[int, int | None], tuple[list[int], int]] = {}
    for i, problem in enumerate(data):
        shape, size = (len(problem.scores), problem.counts.longest), problem.n_units * (len(problem.scores) + 1)
        group, total = last.get(shape, ([], _TOGETHER))
        if total + size > _TOGETHER:
            groups.append(group := [])
            total = 0
        group.append(i)
        last[shape] = group, total + size
    return groups


@final
class _Joined:
    """The data of several problems one after the other: P problems, N units and M rows in all.

    Attributes:
        sizes: Number of parameters of each problem (P,).
        firsts: Place of the first of them in a vector (K,) of all parameters (P,).
    """

    def __init__(self, data: Sequence[StandardisedData]) -> None:
        tables, n, m = len(data[0].scores) + 1, [d.n_units for d in data], [len(d.weights) for d in data]
        units, rows = np.cumsum([0, *n[:-1]]), np.cumsum([0, *m[:-1]])
        self.sizes, self.firsts = tables * np.array(n), tables * units
        self._rows, self._first_rows = np.array(m, dtype=np.float64), rows
        self._tables, self._places, self._back = tables, None, None
        if len(data) > 1:  # parameters lie by problems and then by classes, those of `slope` by classes and then by problems
            unit = np.arange(sum(n)) - np.repeat(units, n) + np.repeat(self.firsts, n)
            self._places = unit + np.arange(tables)[:, None] * np.repeat(n, n)
            self._back = np.argsort(self._places.ravel())
        self._counts = _joined_rows([d.counts for d in data], units, n)
        self._scores = _end_to_end([d.scores for d in data])
        self._weights = None if all(d.even for d in data) else _end_to_end([d.weights for d in data])
        self._factor = 2.0 / self._rows if len(n) == 1 else np.repeat(2.0 / self._rows, n)

    def spread(self, numbers: NDArray[Any]) -> NDArray[Any]:
        """Repeat numbers (P,) of problems for their parameters (K,), or leave that to broadcasting."""
        return numbers if len(numbers) == 1 else np.repeat(numbers, self.sizes)

    def dot(self, left: Floats, right: Floats) -> Floats:
        """Return the products (P,) of vectors (K,)."""
        return np.add.reduceat(left * right, self.firsts)

    def slope(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Return the losses (P,) and their derivatives (K,)."""
        by_class = parameters.reshape(self._tables, -1) if self._places is None else parameters.take(self._places)
        losses, gradient = slope(self._counts, self._scores, self._weights, self._factor, self._mean_squares, by_class)
        return losses, gradient.ravel() if self._back is None else gradient.take(self._back)

    def _mean_squares(self, residual: Floats) -> Floats:
        squares = residual * residual
        total = squares[0]
        for of_class in squares[1:]:  # np.add.reduce has another order where there is one row
            total = total + of_class
        if self._weights is not None:
            total *= self._weights
        return np.add.reduceat(total, self._first_rows) / self._rows


def _joined_rows(counts: Sequence[Any], units: NDArray[np.intp], n: Sequence[int]) -> SparseRows:
    """Join rows of equal length; `units` are the first units of the problems, n their numbers of units."""
    if len(counts) == 1:
        return SparseRows(*counts[0])
    table = np.arange(len(counts[0].places))[:, None, None]
    places = [c.places + (first + table * (sum(n) - k)) for c, first, k in zip(counts, units.tolist(), n, strict=True)]
    if all(c.counts is None for c in counts):
        return SparseRows(_end_to_end(places), None)
    times = [np.ones(c.places.shape[1:]) if c.counts is None else c.counts for c in counts]
    return SparseRows(_end_to_end(places), _end_to_end(times))


def _end_to_end(arrays: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays, axis=-1)


def _some(flags: _Flags) -> bool:
    return bool(np.count_nonzero(flags))  # much faster than any() and all() for small arrays


def _all(flags: _Flags) -> bool:
    return int(np.count_nonzero(flags)) == len(flags)


@final
class _Lockstep:
    """The state of the problems that are still going; numbers of single problems are arrays (P,)."""

    def __init__(self, data: Sequence[StandardisedData], starts: Sequence[Descent], tolerance: float, max_steps: int) -> None:
        self.data, self.max_steps = list(data), max_steps
        self.joined = _Joined(data)
        self.numbers = np.arange(len(data))
        self.alive = np.ones(len(data), dtype=bool)
        self.loose, self.small = np.array([d.loose for d in data]), np.array([d.small for d in data])
        self.floor = np.where(self.loose, max(tolerance, CLOSE), tolerance)
        self.now = np.concatenate([start.parameters.ravel() for start in starts])
        self.loss, self.slope = self.joined.slope(self.now)
        self.steps = np.array([start.steps for start in starts])
        self.history = np.full((_LAST[0] * _LONGER + 1, len(data)), np.inf)  # losses after the last steps, newest first
        self.memory = _Memory(self.joined)
        self.ends = list(starts)

    def run(self) -> list[Descent]:
        """Return the end of each problem."""
        fresh = self.alive  # which problems are at a new point; the others try a shorter step
        size, most = np.ones(len(self.data)), int(self.steps.max())
        while True:
            direction = self.memory.quasi_newton(self.joined, self.slope)
            fall = self.joined.dot(self.slope, direction)
            high = self.loss > self.floor
            if most >= self.max_steps:
                self._end(high & (self.steps >= self.max_steps), converged=False)
            self._end(~(high & (fall > 0.0)), converged=True)  # low enough; flat, or rounding
            if not (left := np.count_nonzero(self.alive)):
                return self.ends
            if left <= (1.0 - _ENDED) * len(self.alive):
                kept, entries = self.alive, np.repeat(self.alive, self.joined.sizes)
                fresh, size, fall, direction = fresh[kept], size[kept], fall[kept], direction[entries]
                self._keep(kept, entries)
            size = self._sizes(fresh, size)
            trial = self.now - self.joined.spread(size) * direction
            loss, slope = self.joined.slope(trial)
            foreseen = size * fall
            fresh = self.alive & (loss <= self.loss - _ARMIJO * foreseen)
            moved = fresh | ~self.alive
            if not _all(moved):
                share = 0.5 * foreseen / (loss - self.loss + foreseen)
                share = np.where(np.isfinite(loss), np.minimum(np.maximum(share, 0.1), 0.5), 0.1)
                size = np.where(moved, size, size * share)
                self._end(~(moved | (size > _TINY)), converged=True)  # rounding
            if _some(fresh):
                self._move(moved, trial, loss, slope)
                self._end_still(fresh)
                most += 1

    def _sizes(self, fresh: _Flags, size: Floats) -> Floats:
        """Return the sizes of the next trials: at a new point 1, but without a memory that of a step of length 1."""
        first: float | Floats = 1.0
        if not _all(self.memory.filled):
            length = np.sqrt(self.joined.dot(self.slope, self.slope))
            first = np.where(self.memory.filled, 1.0, 1.0 / np.maximum(length, _TINY))
        return np.where(fresh, first, size)

    def _move(self, moved: _Flags, trial: Floats, loss: Floats, slope: Floats) -> None:
        """Take the trial points of some problems."""
        step, change = trial - self.now, slope - self.slope
        self.memory.add(self.joined, moved, step, change)
        if _all(moved):
            self.now, self.loss, self.slope = trial, loss, slope
            self.history[1:] = self.history[:-1]
            self.history[0] = loss
        else:
            entries = self.joined.spread(moved)
            np.copyto(self.now, trial, where=entries)
            np.copyto(self.slope, slope, where=entries)
            np.copyto(self.loss, loss, where=moved)
            np.copyto(self.history[1:], self.history[:-1].copy(), where=moved)
            np.copyto(self.history[0], loss, where=moved)
        self.steps = self.steps + moved

    def _end_still(self, fresh: _Flags) -> None:
        """End the problems whose losses have not fallen in the last steps."""
        last, least = _LAST
        still = fresh & (self.loss > (1.0 - least) * self.history[last])
        if _some(still):  # losses only fall: else they have fallen in more steps, too
            soon = ~self.small & (self.loose | ((self.loss >= CLOSE) & (self.loss < _HIGH)))
            fall = np.where(self.small, _LEAST_OF_SMALL, least)
            still &= soon | (self.loss > (1.0 - fall) * self.history[last * _LONGER])
            self._end(still, converged=True)

    def _end(self, ended: _Flags, converged: bool) -> None:
        """Note the end of some problems."""
        ended = ended & self.alive
        if not _some(ended):
            return
        firsts, sizes = self.joined.firsts, self.joined.sizes
        for i in np.flatnonzero(ended).tolist():
            parameters = self.now[firsts[i] : firsts[i] + sizes[i]].reshape(-1, self.data[i].n_units).copy()
            self.ends[self.numbers[i]] = Descent(parameters, float(self.loss[i]), int(self.steps[i]), converged)
        self.alive = self.alive & ~ended

    def _keep(self, kept: _Flags, entries: _Flags) -> None:
        """Drop all problems but some, whose parameters are given too."""
        self.data = [self.data[i] for i in np.flatnonzero(kept)]
        self.joined = _Joined(self.data)
        self.numbers, self.alive, self.loose, self.small, self.floor = (
            part[kept] for part in (self.numbers, self.alive, self.loose, self.small, self.floor)
        )
        self.loss, self.steps, self.history = self.loss[kept], self.steps[kept], self.history[:, kept]
        self.now, self.slope = self.now[entries], self.slope[entries]
        self.memory.keep(kept, entries)


@final
class _Memory:
    """The last pairs of steps and changes of the slope of each problem."""

    def __init__(self, joined: _Joined) -> None:
        n_problems = len(joined.sizes)
        self.pairs: list[tuple[Floats, Floats, Floats]] = []  # newest first: steps, changes, their products (infinite: none)
        self.scale = np.ones(n_problems)  # of the first inverse Hessian: that of the newest pair
        self.filled = np.zeros(n_problems, dtype=bool)  # which problems have a pair

    def quasi_newton(self, joined: _Joined, slope: Floats) -> Floats:
        """Return H^-1 slope by L-BFGS; the first H^-1 is the identity, scaled by the newest pair."""

        def scaled(vector: Floats) -> Floats:
            vector *= joined.spread(self.scale)
            return vector

        def share(left: Floats, right: Floats, product: Floats) -> Floats:
            return joined.dot(left, right) / product

        def plus(vector: Floats, other: Floats, factor: Floats) -> Floats:
            vector += joined.spread(factor) * other
            return vector

        return two_loop(self.pairs[::-1], slope.copy(), scaled, share, plus)

    def add(self, joined: _Joined, moved: _Flags, step: Floats, change: Floats) -> None:
        """Add the pairs of the problems that have moved, where their curvature is more than rounding."""
        product, square = joined.dot(step, change), joined.dot(change, change)
        added = moved & (product > _TINY * square)
        np.copyto(self.scale, product / square, where=added)
        self.filled = self.filled | added
        if _all(added):
            self.pairs = [(step, change, product), *self.pairs[: _MEMORY - 1]]
        elif _some(added):
            if len(self.pairs) < _MEMORY:
                self.pairs.append((np.zeros_like(step), np.zeros_like(step), np.full_like(product, np.inf)))
            entries = joined.spread(added)
            pairs = [*self.pairs[::-1], (step, change, product)]
            for older, newer in pairwise(pairs):
                for target, source, where in zip(older, newer, (entries, entries, added), strict=True):
                    np.copyto(target, source, where=where)

    def keep(self, kept: _Flags, entries: _Flags) -> None:
        """Drop all problems but some, whose parameters are given too."""
        self.pairs = [(step[entries], change[entries], product[kept]) for step, change, product in self.pairs]
        self.scale, self.filled = self.scale[kept], self.filled[kept]
