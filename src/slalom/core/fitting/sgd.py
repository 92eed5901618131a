"""Stochastic gradient descent, the paper's Algorithm 1 (SLALOM-eff).

    loss(v, s) = mean_k weight_k |F(c_k) - y_k|^2  over a minibatch
    dF/dv_i = a_i,    dF/ds_i = a_i (v_i - F),    a_i = c_i exp(s_i) / sum_j c_j exp(s_j)

It starts from v = 0 and s = 0, as the paper does. What departs from the paper:

- The scores are brought to mean 0 and variance 1 first and the values brought back at the end. F moves and
  stretches with v, so this only lets one learning rate suit all scores.
- Rows are drawn without replacement, an epoch at a time, and after each epoch the loss on all rows is looked
  at. When it has not fallen by 1% in `patience` steps, the learning rate is halved; after `halvings` of them
  the fit is over. The paper takes a fixed number of steps. The best iterate is returned, not the last.
- Both averages of Adam reach back 20 steps (0.95): faster here than the usual 0.9 and 0.999.

`converged` says that the loss has stopped falling, not that the data determine every parameter: descent is
slow along flat valleys (many units in every row). There is no background and no link: an empty row has no
value, and a linear model is out of reach, as a unit has the same score alone and repeated (`Joint` has both).
Parameters that the data leave open stay where they started: at the mean score, and at s = 0.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.core.fitting.problem import Fit, Fitter, Problem
from slalom.core.surrogate import Slalom
from slalom.errors import InputError

_Rows: TypeAlias = NDArray[np.intp]

_GAIN = 0.01  # the least relative fall of the loss that counts as one
_MEMORY = 0.95  # of both moments of Adam
_RATES = {"adam": 0.05, "sgd": 1.0}


@final
@dataclass(frozen=True)
class Sgd(Fitter):
    """Minibatch descent on v and s together.

    learning_rate: of the first steps, for scores of variance one; None takes 0.05 for adam and 1 for sgd.
    max_steps: at most so many minibatches (a begun epoch is finished). tolerance: converged at this share of
    the scores' variance. patience, halvings: converged, too, when the learning rate has been halved
    `halvings` times, each time after `patience` steps without a gain. seed: of the order of the rows; the
    same seed gives the same fit.

    >>> truth = Slalom(values=[1.0, -2.0, 0.5], importances=[0.3, 0.7, -1.0])
    >>> counts = [[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0], [0, 1, 1]]
    >>> fit = Sgd().solve(Problem.of(counts, truth(counts), None))
    >>> fit.model.values.round(2).tolist(), fit.model.importances.round(2).tolist()
    ([1.0, -2.0, 0.5], [0.3, 0.7, -1.0])
    """

    learning_rate: float | None = None
    batch_size: int = 64
    max_steps: int = 12_000
    optimizer: Literal["adam", "sgd"] = "adam"
    tolerance: float = 1e-11
    patience: int = 300
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

    def solve(self, problem: Problem) -> Fit:
        """Return the best model found; InputError where a row is empty."""
        data = _Data.of(problem)
        with np.errstate(over="ignore", invalid="ignore"):
            parameters, steps, converged = self._descend(data)
        values = parameters[:, :-1] * data.scale + data.mean
        model = Slalom(values if problem.scores.ndim == 2 else values[:, 0], parameters[:, -1])
        return problem.fitted(model, converged=converged, iterations=steps, limit="max_steps")

    def _descend(self, data: "_Data") -> tuple[Floats, int, bool]:
        """Return the best v and s (n, n_classes + 1), the steps taken and whether they sufficed."""
        now = best = np.zeros((data.counts.shape[1], data.scores.shape[1] + 1))
        lowest = level = data.loss(now)
        rate = self.learning_rate or _RATES[self.optimizer]
        direction = _adam() if self.optimizer == "adam" else _plain
        rng, steps, mark, halved = np.random.default_rng(self.seed), 0, 0, 0
        while lowest > self.tolerance and halved < self.halvings:
            if steps >= self.max_steps:
                return best, steps, False
            for rows in _batches(rng, len(data.counts), self.batch_size):
                now = now - rate * direction(data.gradient(now, rows))
                steps += 1
            loss = data.loss(now)
            if loss < lowest:
                best, lowest = now, loss
            if loss < (1.0 - _GAIN) * level:
                level, mark = loss, steps
            elif steps - mark >= self.patience or not np.isfinite(loss):
                rate, halved, level, mark = rate / 2, halved + 1, lowest, steps
                now = now if loss < 10 * lowest else best
        return best, steps, True


class _Data(NamedTuple):
    """Counts (m, n), standardised scores (m, n_classes), weights (m,) of mean 1, and the way back."""

    counts: Floats
    scores: Floats
    weights: Floats
    mean: Floats
    scale: float

    @classmethod
    def of(cls, problem: Problem) -> "_Data":
        """Bring the scores to mean 0 and variance 1 (summed over classes); constant scores only to mean 0."""
        problem.refuse_empty_rows("Sgd")
        y, weights = problem.scores.reshape(len(problem.scores), -1), problem.weights
        mean = np.average(y, axis=0, weights=weights)
        scale = float(np.sqrt(np.average(((y - mean) ** 2).sum(axis=1), weights=weights)))
        scale = scale if scale > 1e-13 * np.abs(y).max() else 1.0
        return cls(problem.counts, (y - mean) / scale, weights, mean, scale)

    def loss(self, parameters: Floats) -> float:
        """Return the weighted mean squared error on all rows."""
        v, w = parameters[:, :-1], np.exp(parameters[:, -1:])
        residual = self.counts @ (w * v) / (self.counts @ w) - self.scores
        return float(self.weights @ (residual**2).sum(axis=1)) / len(self.weights)

    def gradient(self, parameters: Floats, rows: _Rows) -> Floats:
        """Return the derivative of the loss on some rows, shaped as the parameters."""
        counts, v, w = self.counts[rows], parameters[:, :-1], np.exp(parameters[:, -1:])
        sums = counts @ np.concatenate([w * v, w], axis=1)
        fitted = sums[:, :-1] / sums[:, -1:]
        pull = 2.0 / len(rows) * self.weights[rows, None] * (fitted - self.scores[rows]) / sums[:, -1:]
        spread = (pull * fitted).sum(axis=1, keepdims=True)
        back = w * (counts.T @ np.concatenate([pull, spread], axis=1))
        back[:, -1] = (back[:, :-1] * v).sum(axis=1) - back[:, -1]
        return np.asarray(back)


def _batches(rng: np.random.Generator, n_rows: int, size: int) -> Iterator[_Rows]:
    """Yield one epoch of shuffled row numbers in batches of one size; a last, smaller batch is left out."""
    order, size = rng.permutation(n_rows), min(size, n_rows)
    for start in range(0, n_rows - size + 1, size):
        yield order[start : start + size]


def _plain(gradient: Floats) -> Floats:
    """Go down the gradient itself."""
    return gradient


def _adam() -> Callable[[Floats], Floats]:
    """Return a function with a memory: gradients in, Adam's directions out."""
    first: Floats | float = 0.0
    second: Floats | float = 0.0
    steps = 0

    def direction(gradient: Floats) -> Floats:
        nonlocal first, second, steps
        steps += 1
        first = _MEMORY * first + (1.0 - _MEMORY) * gradient
        second = _MEMORY * second + (1.0 - _MEMORY) * gradient**2
        unbias = 1.0 - _MEMORY**steps
        return np.asarray(first / unbias / (np.sqrt(second / unbias) + 1e-12))

    return direction
