"""Stochastic gradient descent, the paper's Algorithm 1 (SLALOM-eff).

    loss(v, s) = mean_k weight_k |F(c_k) - y_k|^2  over a minibatch
    dF/dv_i = a_i,    dF/ds_i = a_i (v_i - F),    a_i = c_i exp(s_i) / sum_j c_j exp(s_j)

It starts from v = 0 and s = 0, as the paper does. What departs from the paper:

- The scores are standardised to mean 0 and variance 1 first, and the values transformed back at the end. F is equivariant in
  v, so this only makes one learning rate suit all scores.
- Rows are drawn without replacement, one epoch at a time, and the loss on all rows is computed after each epoch. When it has
  not fallen by 0.5% in `patience` steps (four times as many where rows have many units or the loss is nearly zero), the
  parameters are averaged over these steps (Polyak and Ruppert), which removes most of the noise of minibatches, and the
  learning rate is halved. The fit ends after `halvings` of them, or when the loss is not near zero and the last halving has
  gained less than 1%. The paper takes a fixed number of steps. The best point is returned, not the last.
- Where rows have few units present, only those are visited. Where they are at most four (pairs), a step with all rows takes
  hardly longer than a minibatch: as soon as an epoch no longer reduces the loss to a fifth, L-BFGS with all rows takes over and
  needs a tenth of the steps. It ends when 4 steps have not lowered the loss by 2% (16, where the loss is high or nearly zero;
  16 and 0.01%, where there are fewer than 16 units).
  Minibatches continue as long as they have not left the start, which may be a saddle. With few rows (fewer than two scores per
  parameter, more than 32 units) L-BFGS ends at a loss of 0.3% of the variance: nearer to the start predicts new rows better.
- Adam averages over 10 and 20 steps (0.9, 0.95): faster here than the usual 0.9 and 0.999.

`converged` means that the loss has stopped falling, not that the data determine every parameter: descent is slow along flat
valleys (many units in every row). Parameters that the data leave open stay where they started: at the mean score, and at s = 0.
There is no background and no link (see `alternating`).
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple, final

import numpy as np

from slalom.core.checks import Floats, check_choice
from slalom.core.fitting._minibatches import StandardisedData
from slalom.core.fitting.problem import Fit, Fitter, Problem, sound
from slalom.core.slalom import Slalom
from slalom.errors import InputError

_GAIN = 0.005  # the least relative fall of the loss that counts as one
_MIN_HALVING_GAIN = 0.01  # the least relative fall of the lowest loss after which the rate is halved once more
_STILL = 1.5  # below this multiple of the lowest loss, steps that no longer lower it are only noise
_VALLEY = 4  # factor of the patience in flat valleys: near zero loss, or where rows have many units
_SHORT = 4  # units per row up to which a step with all rows takes hardly longer than a minibatch
_FALL = 1 / 5  # short rows: an epoch that does not reduce the loss to this share is the last one
_LEFT_START = 0.9  # the loss below which minibatches have left the start, a saddle where single units have little effect
_DIVERGED = 2.0  # the loss above which minibatches have diverged
_MEMORIES = (0.9, 0.95)  # decay of the two moments of Adam
_RATES = {"adam": 0.15, "sgd": 1.0}
_CLOSE = 0.003  # a loss below this share of the variance may still fall to zero
_HIGH = 0.2  # a loss above this share of the variance may be that of a saddle
_LAST = (4, 0.02)  # L-BFGS: steps, and relative fall of the loss; it ends after that many steps without it
_LONGER = 4  # factor of these steps where the loss is high or nearly zero, and for small problems
_LEAST_OF_SMALL = 0.0001  # relative fall of the loss of small problems, which minibatches would bring as far
_MEMORY = 5  # pairs that L-BFGS keeps


class _Descent(NamedTuple):
    """Where a descent is: v and s (n_classes + 1, n), their loss, the steps so far, and whether they converged."""

    parameters: Floats
    loss: float
    steps: int
    converged: bool


@final
@dataclass(frozen=True)
class Sgd(Fitter):
    """Fits values and importances by minibatch descent; data with at most four units per row are finished by L-BFGS.

    Args:
        learning_rate: Of the first steps, for scores of variance one. None takes 0.15 for "adam" and 1 for "sgd".
        batch_size: Rows per minibatch.
        max_steps: Limit for minibatches and L-BFGS steps together; an epoch that has begun is finished.
        optimizer: "adam" or "sgd".
        tolerance: The fit has converged when the loss is below this share of the scores' variance.
        patience: Steps without a gain after which the learning rate is halved.
        halvings: The fit has also converged after this many halvings, or when one has gained little.
        seed: Of the order of the rows; the same seed gives the same fit.

    Raises:
        InputError: If an option is out of range.

    Example:
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
        check_choice("optimizer", self.optimizer, _RATES)
        if self.learning_rate is not None and not 0 < self.learning_rate < np.inf:
            raise InputError(f"learning_rate must be positive and finite, or None; got {self.learning_rate!r}")
        for name in ("batch_size", "max_steps", "patience", "halvings"):
            if not getattr(self, name) >= 1:
                raise InputError(f"{name} must be at least 1; got {getattr(self, name)!r}")
        if not 0 <= self.tolerance < 1:
            raise InputError(f"tolerance must lie in [0, 1); got {self.tolerance!r}")

    def seeded(self, seed: int) -> "Sgd":
        return replace(self, seed=seed)

    def solve(self, problem: Problem) -> Fit:
        data = StandardisedData.of(problem)
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            end, finished = self._minibatches(data)
            finished = finished or end.steps >= self.max_steps
            return _fit(problem, data, end if finished else self._all_rows(data, end))

    def _minibatches(self, data: StandardisedData) -> tuple[_Descent, bool]:
        """Return the best parameters of minibatches, and whether these are the end; else L-BFGS continues from there."""
        now = np.zeros((len(data.scores) + 1, data.n_units))
        best, lowest, before = now.copy(), data.loss(now), np.inf
        level, rate = lowest, self.learning_rate or _RATES[self.optimizer]
        direction, valley = self._direction(), _VALLEY * self.patience
        longest = data.counts.longest
        patience = valley if longest is None else self.patience
        short = longest is not None and longest <= _SHORT
        rng, steps, mark, halved, total = np.random.default_rng(self.seed), 0, 0, 0, np.zeros_like(now)
        while lowest > self.tolerance and halved < self.halvings:
            if steps >= self.max_steps:
                return _Descent(best, lowest, steps, False), True
            for batch in data.batches(rng, self.batch_size):
                now -= direction(batch.slope(now)[1], rate)
                total += now
                steps += 1
            enough, loss = _FALL * lowest, data.loss(now)
            if loss < lowest:
                best, lowest = now.copy(), loss
            if short and not loss < enough and (lowest < _LEFT_START or not loss < _DIVERGED):
                return _Descent(best, lowest, steps, False), False
            if loss < (1.0 - _GAIN) * level:
                level, mark, total = loss, steps, np.zeros_like(now)
            elif steps - mark >= (valley if lowest < _CLOSE else patience) or not np.isfinite(loss):
                if calm := loss < 10.0 * lowest:
                    mean = total / (steps - mark)
                    still = loss < _STILL * lowest
                    if (loss := data.loss(mean)) < lowest:
                        best, lowest = mean, loss
                    if still and lowest > max((1.0 - _MIN_HALVING_GAIN) * before, _CLOSE):
                        break
                rate, halved, level, before, mark = rate / 2, halved + 1, lowest, lowest, steps
                now, total = best.copy(), np.zeros_like(now)
                if not calm:
                    direction = self._direction()
        return _Descent(best, lowest, steps, True), True

    def _all_rows(self, data: StandardisedData, start: _Descent) -> _Descent:
        """Continue by L-BFGS with all rows until the loss stops falling."""
        from scipy.optimize import minimize  # noqa: PLC0415  (slow to import)

        floor, losses = max(self.tolerance, _CLOSE) if data.loose else self.tolerance, [start.loss]
        last, fall = _LAST

        def after_a_step(intermediate_result: Any) -> None:
            losses.append(loss := float(intermediate_result.fun))
            soon = not data.small and (data.loose or _CLOSE <= loss < _HIGH)
            steps, least = (last, fall) if soon else (_LONGER * last, _LEAST_OF_SMALL if data.small else fall)
            if loss <= floor or (len(losses) > steps and loss > (1.0 - least) * losses[-1 - steps]):
                raise StopIteration

        def slope(parameters: Floats) -> tuple[float, Floats]:
            loss, gradient = data.slope(parameters.reshape(start.parameters.shape))
            return loss, gradient.ravel()

        limit = self.max_steps - start.steps
        options = {"maxiter": limit, "maxfun": 20 * limit + 20, "maxcor": _MEMORY, "ftol": 0.0, "gtol": 0.0}
        end = minimize(slope, start.parameters.ravel(), jac=True, method="L-BFGS-B", callback=after_a_step, options=options)
        steps, found = start.steps + len(losses) - 1, end.x.reshape(start.parameters.shape)
        converged = steps < self.max_steps or float(end.fun) <= floor
        better = bool(end.fun <= start.loss)
        return _Descent(found, float(end.fun), steps, converged) if better else start._replace(converged=converged)

    def _direction(self) -> Callable[[Floats, float], Floats]:
        """Return the function from gradients and a learning rate to steps, with empty averages."""
        return _adam() if self.optimizer == "adam" else np.multiply


def _fit(problem: Problem, data: StandardisedData, end: _Descent) -> Fit:
    """Return the fit of standardised parameters; ArithmeticError where it is worse than the mean score."""
    values = end.parameters[:-1].T * data.scale + data.mean
    model = Slalom(values if problem.scores.ndim == 2 else values[:, 0], end.parameters[-1])
    known = end.loss * data.scale**2 if problem.scores.ndim == 1 else None  # a model of several classes has centred values
    return sound(problem.fitted(model, converged=end.converged, iterations=end.steps, loss=known, limit="max_steps"))


def _adam() -> Callable[[Floats, float], Floats]:
    """Return a function with state from gradients and a learning rate to Adam's steps.

    Its averages are kept as unscaled sums; the learning rate compensates for it.
    """
    (short, long), steps = _MEMORIES, 0
    first: Floats | float = 0.0
    second: Floats | float = 0.0

    def direction(gradient: Floats, rate: float) -> Floats:
        nonlocal first, second, steps
        steps += 1
        first, second = first * short + gradient, second * long + gradient * gradient
        rate = rate * (1.0 - short) / (1.0 - short**steps) * ((1.0 - long**steps) / (1.0 - long)) ** 0.5
        return np.asarray(first / (np.sqrt(second) + 1e-12) * rate)

    return direction
