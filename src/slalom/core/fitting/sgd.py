"""Stochastic gradient descent, the paper's Algorithm 1 (SLALOM-eff).

    loss(v, s) = mean_k weight_k |F(c_k) - y_k|^2  over a minibatch
    dF/dv_i = a_i,    dF/ds_i = a_i (v_i - F),    a_i = c_i exp(s_i) / sum_j c_j exp(s_j)

It starts from v = 0 and s = 0, as the paper does. What departs from the paper:

- The scores are brought to mean 0 and variance 1 first and the values brought back at the end. F moves and
  stretches with v, so this only lets one learning rate suit all scores.
- Rows are drawn without replacement, an epoch at a time, and after each epoch the loss on all rows is looked at. When it
  has not fallen by 0.5% in `patience` steps (four times as many where rows have many units or the loss is nearly zero), the
  parameters are averaged over these steps (Polyak and Ruppert), which takes out most of the noise of minibatches, and the
  learning rate is halved. The fit is over after `halvings` of them, or when the loss is not near zero and the last halving
  has won less than 1%. The paper takes a fixed number of steps. The best point is returned, not the last.
- Where rows have few units present, only those are visited. Where they are at most four (pairs), all rows together take
  hardly longer than a minibatch: as soon as an epoch no longer brings the loss down to a fifth, the rest of the way is gone
  with all rows (L-BFGS), in a tenth of the steps. It ends when 4 steps have not lowered the loss by 2% (16, where the loss
  is high or nearly zero). Minibatches go on while they have not left the start, which may be a saddle.
- Adam's averages reach back 10 and 20 steps (0.9, 0.95): faster here than the usual 0.9 and 0.999.

`converged` says that the loss has stopped falling, not that the data determine every parameter: descent is
slow along flat valleys (many units in every row). There is no background and no link: an empty row has no
value, and a linear model is out of reach, as a unit has the same score alone and repeated (`Joint` has both).
Parameters that the data leave open stay where they started: at the mean score, and at s = 0.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from itertools import repeat
from typing import Any, Literal, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.core.fitting._lbfgs import two_loop
from slalom.core.fitting.problem import Fit, Fitter, Problem, sound
from slalom.core.surrogate import Slalom
from slalom.errors import InputError

_Rows: TypeAlias = NDArray[np.intp]

_GAIN = 0.005  # the least relative fall of the loss that counts as one
_WORTH = 0.01  # the least relative fall of the lowest loss that makes a further halving worth trying
_STILL = 1.5  # times the lowest loss, below which steps that no longer lower it lie still
_CLOSE = 0.003  # a loss below this share of the variance may yet fall to zero
_VALLEY = 4  # times the patience in flat valleys: near such an end, or where rows have many units
_SHORT = 4  # rows of at most so many units: all of them take hardly longer than a minibatch
_FALL = 1 / 5  # short rows: an epoch that does not bring the loss down to this share is the last one
_FOUND = 0.9  # the loss below which minibatches have left the start, a saddle where units do little alone
_LOST = 2.0  # the loss above which they lead nowhere
_LAST = (4, 0.02)  # with all rows: so many steps without that relative fall of the loss are the last
_HIGH = 0.2  # a loss above this share of the variance may be that of a saddle
_LONGER = 4  # times as many steps in these cases
_MEMORY = 5  # steps that L-BFGS remembers
_ARMIJO = 1e-4  # share of the promised fall that a step must bring
_TINY = 1e-10  # steps and curvatures that are rounding
_MEMORIES = (0.9, 0.95)  # of the two moments of Adam
_RATES = {"adam": 0.15, "sgd": 1.0}
_FEW = 1 / 8  # rows with no more than this share of the units present are kept as lists of units


@final
@dataclass(frozen=True)
class Sgd(Fitter):
    """Minibatch descent on v and s together; rows of at most four units are finished with all of them at once.

    learning_rate: of the first steps, for scores of variance one; None takes 0.15 for adam and 1 for sgd.
    max_steps: at most so many minibatches and steps with all rows (a begun epoch is finished). tolerance: converged at this
    share of the scores' variance. patience, halvings: converged, too, when the learning rate has been halved
    `halvings` times, each time after `patience` steps without a gain, or when a halving has gained little; short rows that
    are finished with all of them have a rule of their own (see above).
    seed: of the order of the rows; the same seed gives the same fit.

    >>> truth = Slalom(values=[1.0, -2.0, 0.5], importances=[0.3, 0.7, -1.0])
    >>> counts = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1]]
    >>> fit = Sgd().solve(Problem.of(counts, truth(counts), None))
    >>> fit.model.values.round(2).tolist(), fit.model.importances.round(2).tolist()
    ([1.0, -2.0, 0.5], [0.3, 0.7, -1.0])
    """

    learning_rate: float | None = None
    batch_size: int = 384
    max_steps: int = 12_000
    optimizer: Literal["adam", "sgd"] = "adam"
    tolerance: float = 1e-11
    patience: int = 40
    halvings: int = 10
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the hyper-parameters."""
        if self.optimizer not in _RATES:
            raise InputError(f"optimizer must be 'adam' or 'sgd'; got {self.optimizer!r}")
        if self.learning_rate is not None and not 0 < self.learning_rate < np.inf:
            raise InputError(f"learning_rate must be positive and finite, or None; got {self.learning_rate!r}")
        for name in ("batch_size", "max_steps", "patience", "halvings"):
            if not getattr(self, name) >= 1:
                raise InputError(f"{name} must be at least 1; got {getattr(self, name)!r}")
        if not 0 <= self.tolerance < 1:
            raise InputError(f"tolerance must lie in [0, 1); got {self.tolerance!r}")

    def seeded(self, seed: int) -> "Sgd":
        """Return the fitter with this seed."""
        return replace(self, seed=seed)

    def solve(self, problem: Problem) -> Fit:
        """Return the best model found; InputError where a row is empty."""
        data = _Data.of(problem)
        with np.errstate(over="ignore", invalid="ignore"):
            parameters, loss, steps, converged = self._descend(data)
        values = parameters[:-1].T * data.scale + data.mean
        model = Slalom(values if problem.scores.ndim == 2 else values[:, 0], parameters[-1])
        known = loss * data.scale**2 if problem.scores.ndim == 1 else None  # a model of several classes has centred values
        return sound(problem.fitted(model, converged=converged, iterations=steps, loss=known, limit="max_steps"))

    def _descend(self, data: "_Data") -> tuple[Floats, float, int, bool]:
        """Return the best v and s (n_classes + 1, n), their loss, the steps taken and whether they sufficed."""
        now = np.zeros((len(data.scores) + 1, data.n_units))
        best, lowest, before = now.copy(), data.loss(now), np.inf
        level, rate = lowest, self.learning_rate or _RATES[self.optimizer]
        direction, valley = self._direction(), _VALLEY * self.patience
        patience = self.patience if isinstance(data.counts, _Listed) else valley
        short = isinstance(data.counts, _Listed) and data.counts.places.shape[1] <= _SHORT
        rng, steps, mark, halved, total = np.random.default_rng(self.seed), 0, 0, 0, np.zeros_like(now)
        while lowest > self.tolerance and halved < self.halvings:
            if steps >= self.max_steps:
                return best, lowest, steps, False
            for batch in data.batches(rng, self.batch_size):
                now -= direction(batch.slope(now)[1], rate)
                total += now
                steps += 1
            enough, loss = _FALL * lowest, data.loss(now)
            if loss < lowest:
                best, lowest = now.copy(), loss
            if short and not loss < enough and (lowest < _FOUND or not loss < _LOST):
                return self._finish(data, best, steps)
            if loss < (1.0 - _GAIN) * level:
                level, mark, total = loss, steps, np.zeros_like(now)
            elif steps - mark >= (valley if lowest < _CLOSE else patience) or not np.isfinite(loss):
                if calm := loss < 10.0 * lowest:
                    mean = total / (steps - mark)
                    still = loss < _STILL * lowest
                    if (loss := data.loss(mean)) < lowest:
                        best, lowest = mean, loss
                    if still and lowest > max((1.0 - _WORTH) * before, _CLOSE):
                        break
                rate, halved, level, before, mark = rate / 2, halved + 1, lowest, lowest, steps
                now, total = best.copy(), np.zeros_like(now)
                if not calm:
                    direction = self._direction()
        return best, lowest, steps, True

    def _finish(self, data: "_Data", start: Floats, steps: int) -> tuple[Floats, float, int, bool]:
        """Go on with all rows from the best point of so many minibatches; return what `_descend` does."""
        now, (loss, slope), losses, (last, fall) = start, data.slope(start), list[float](), _LAST
        memory: deque[tuple[Floats, Floats, float]] = deque(maxlen=_MEMORY)
        while loss > self.tolerance:
            if steps >= self.max_steps:
                return now, loss, steps, False
            direction = _quasi_newton(slope, memory)
            lean, size = float(np.vdot(slope, direction)), 1.0 if memory else 1.0 / max(float(np.linalg.norm(slope)), _TINY)
            if not lean > 0.0:  # flat, or rounding
                return now, loss, steps, True
            while not ((new := data.slope(there := now - size * direction))[0] <= loss - _ARMIJO * size * lean):
                size *= min(max(0.5 * size * lean / (new[0] - loss + size * lean), 0.1), 0.5) if np.isfinite(new[0]) else 0.1
                if not size > _TINY:  # rounding
                    return now, loss, steps, True
            step, change = there - now, new[1] - slope
            if (bend := float(np.vdot(step, change))) > _TINY * np.vdot(change, change):
                memory.append((step, change, bend))
            now, (loss, slope), steps = there, new, steps + 1
            losses.append(loss)
            back = last if _CLOSE <= loss < _HIGH else last * _LONGER
            if len(losses) > back and loss > (1.0 - fall) * losses[-1 - back]:
                break
        return now, loss, steps, True

    def _direction(self) -> Callable[[Floats, float], Floats]:
        """Return the way from gradients and a learning rate to steps, with nothing remembered yet."""
        return _adam() if self.optimizer == "adam" else np.multiply


class _Listed(NamedTuple):
    """A matrix c (m, n) with few entries other than zero in a row, at most k of them."""

    places: NDArray[np.intp]  # (tables, k, m): where a unit stands in (tables, n)
    counts: Floats | None  # (k, m), zero where a row has fewer than k; None where all are one

    @classmethod
    def of(cls, counts: Any, tables: int) -> "_Listed | None":
        """List the entries of an array, sparse or not, row by row; None where there are many."""
        m, n = counts.shape
        if isinstance(counts, np.ndarray):
            present = counts != 0.0
            if np.count_nonzero(present) > _FEW * counts.size:
                return None
            found = np.flatnonzero(present)
            (rows, columns), times = np.divmod(found, n), counts.take(found)
        else:
            rows, columns, times = np.repeat(np.arange(m), np.diff(counts.indptr)), counts.indices, counts.data
        lengths = np.bincount(rows, minlength=m)
        k = int(lengths.max())
        if k > _FEW * n:
            return None
        nth = np.arange(len(rows)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        units, entries = np.zeros((k, m), dtype=np.intp), np.zeros((k, m))
        np.put(units, nth * m + rows, columns)
        np.put(entries, nth * m + rows, times)
        return cls(np.arange(tables)[:, None, None] * n + units, None if (entries == 1.0).all() else entries)

    def split(self, order: _Rows, size: int) -> "Iterator[_Listed]":
        """Yield the rows of an order in batches."""
        return map(_Listed, _split(self.places, order, size), _split(self.counts, order, size))

    def forth(self, tables: Floats) -> Floats:
        """Return tables @ c.T."""
        found = tables.take(self.places)
        if self.counts is not None:
            found *= self.counts
        if found.shape[1] == 2:  # pairs
            return np.asarray(found[:, 0] + found[:, 1])
        return np.asarray(np.add.reduce(found, axis=1))

    def back(self, sums: Floats, n: int) -> Floats:
        """Return sums @ c."""
        parts = np.empty(self.places.shape)
        parts[:] = sums[:, None]
        if self.counts is not None:
            parts *= self.counts
        return np.asarray(np.bincount(self.places.ravel(), parts.ravel(), len(sums) * n).reshape(-1, n), dtype=float)


class _Full(NamedTuple):
    """A matrix c (m, n) as it is."""

    counts: Floats

    def split(self, order: _Rows, size: int) -> "Iterator[_Full]":
        """Yield the rows of an order in batches."""
        for start in range(0, len(order), size):
            yield _Full(self.counts[order[start : start + size]])

    def forth(self, tables: Floats) -> Floats:
        """Return tables @ c.T."""
        return np.asarray(tables @ self.counts.T)

    def back(self, sums: Floats, _: int) -> Floats:
        """Return sums @ c."""
        return np.asarray(sums @ self.counts)


class _Data(NamedTuple):
    """Counts (m, n), standardised scores (n_classes, m), weights (m,) of mean 1, and the way back. even: all weights are 1."""

    counts: _Listed | _Full
    n_units: int
    scores: Floats
    weights: Floats
    mean: Floats
    scale: float
    even: bool

    @classmethod
    def of(cls, problem: Problem) -> "_Data":
        """Bring the scores to mean 0 and variance 1 (summed over classes); constant scores only to mean 0."""
        problem.refuse_empty_rows("Sgd")
        y, weights = problem.scores.reshape(len(problem.scores), -1), problem.weights
        mean = np.average(y, axis=0, weights=weights)
        scale = float(np.sqrt(np.average(((y - mean) ** 2).sum(axis=1), weights=weights)))
        scale = scale if scale > 1e-13 * np.abs(y).max() else 1.0
        counts = _Listed.of(problem.table, y.shape[1] + 1) or _Full(problem.counts)
        scores = np.ascontiguousarray((y - mean).T) / scale
        return cls(counts, problem.table.shape[1], scores, weights, mean, scale, bool((weights == 1.0).all()))

    def batches(self, rng: np.random.Generator, size: int) -> "Iterator[_Data]":
        """Yield one epoch of shuffled rows in batches of one size; a last, smaller batch is left out."""
        m = len(self.weights)
        size = min(size, m)
        order = rng.permutation(m)[: m - m % size]
        weights = repeat(np.ones(size)) if self.even else _split(self.weights, order, size)
        parts = self.counts.split(order, size), repeat(self.n_units), _split(self.scores, order, size), weights
        return map(_Data, *parts, repeat(self.mean), repeat(self.scale), repeat(self.even))

    def loss(self, parameters: Floats) -> float:
        """Return the weighted mean squared error."""
        sums = self.counts.forth(_tables(parameters))
        return self._mean_square(sums[:-1] / sums[-1] - self.scores)

    def _mean_square(self, residual: Floats) -> float:
        square = np.vdot(residual, residual) if self.even else (residual**2 @ self.weights).sum()
        return float(square) / len(self.weights)

    def slope(self, parameters: Floats) -> tuple[float, Floats]:
        """Return the loss and its derivative, shaped as the parameters.

        Small arrays: what takes time is the number of calls.
        """
        tables, values = _tables(parameters), parameters[:-1]
        sums = self.counts.forth(tables)
        bottom, weight, pull = sums[-1], tables[-1], np.empty_like(sums)
        top, fitted = pull[:-1], sums[:-1]
        fitted /= bottom
        np.subtract(fitted, self.scores, top)
        loss = self._mean_square(top)
        top /= bottom
        if not self.even:
            top *= self.weights
        _summed(top, fitted, pull[-1:])
        gradient = self.counts.back(pull, self.n_units)
        weight *= 2.0 / pull.shape[1]
        gradient *= weight
        last = gradient[-1:]
        np.subtract(_summed(gradient[:-1], values, tables[:1]), last, last)  # the tables are no longer needed
        return loss, gradient


def _summed(one: Floats, other: Floats, out: Floats) -> Floats:
    """Put the sum over classes of a product (n_classes, m) into an array (1, m), and return it."""
    if len(one) == 1:
        return np.multiply(one, other, out)
    return np.add.reduce(one * other, axis=0, keepdims=True, out=out)


def _tables(parameters: Floats) -> Floats:
    """Return exp(s) v of every class and exp(s), one below the other."""
    tables = np.empty_like(parameters)
    weight = tables[-1]
    np.exp(parameters[-1], weight)
    np.multiply(parameters[:-1], weight, tables[:-1])
    return tables


def _split(array: NDArray[Any] | None, order: _Rows, size: int) -> Iterator[Any]:
    """Yield the entries of an order along the last axis in batches of one size, each in one piece; None over and over."""
    if array is None:
        yield from repeat(None)
    else:
        found = array.take(order, axis=-1)
        yield from np.ascontiguousarray(np.moveaxis(found.reshape(*found.shape[:-1], -1, size), -2, 0))


def _quasi_newton(slope: Floats, memory: "deque[tuple[Floats, Floats, float]]") -> Floats:
    """Return H^-1 slope by L-BFGS, H^-1 starting from the identity times the scale of the last pair."""

    def scaled(vector: Floats) -> Floats:
        if not memory:
            return vector
        _, change, curvature = memory[-1]
        return vector * (curvature / np.vdot(change, change))

    return two_loop(memory, slope, scaled, lambda a, b, curvature: np.vdot(a, b) / curvature, lambda a, b, f: a + f * b)


def _adam() -> Callable[[Floats, float], Floats]:
    """Return a function with a memory: gradients and a learning rate in, Adam's steps out (in the place of the gradients).

    The sums of the memory are not scaled; the learning rate makes up for it.
    """
    (short, long), steps = _MEMORIES, 0
    first: Floats | None = None
    second: Floats | None = None

    def direction(gradient: Floats, rate: float) -> Floats:
        nonlocal first, second, steps
        if first is None or second is None:
            first, second = np.zeros_like(gradient), np.zeros_like(gradient)
        steps += 1
        first *= short
        first += gradient
        gradient *= gradient
        second *= long
        second += gradient
        np.sqrt(second, out=gradient)
        gradient += 1e-12
        np.divide(first, gradient, out=gradient)
        gradient *= rate * (1.0 - short) / (1.0 - short**steps) * ((1.0 - long**steps) / (1.0 - long)) ** 0.5
        return gradient

    return direction
