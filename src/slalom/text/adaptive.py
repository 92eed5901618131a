"""Queries chosen by the answers so far: a sequential design.

    F(c) ~ F + J(c) (theta - theta_hat),    theta ~ N(theta_hat, (J'J / noise + 1)^-1)

A part of the budget is asked by a base design and fitted. Around the fit the surrogate is linear in its parameters (a value and
an importance per unit, each in units of its spread), so their posterior is Gaussian. The other rows are taken from a pool of
further rows of the base design, one at a time: the row with the most uncertain prediction, or the row that lowers the mean
variance of the predictions in the pool most. A chosen row updates the posterior by a matrix of rank one.
"""

from dataclasses import dataclass, field
from typing import Literal, final

import numpy as np
from numpy.typing import NDArray

from slalom.core import Joint, Slalom, fit
from slalom.errors import InputError
from slalom.text.samplers import Answered, Keep, QueryPlan, Sampler, Scales, extended

Floats = NDArray[np.float64]
_LEAST_NOISE = 1e-6  # share of the variance of the scores; an exact fit would make all variances 0


@final
@dataclass(frozen=True)
class Adaptive(Sampler):
    """Places a part of the queries where the surrogate of the other part is least certain.

    Args:
        base: Draws the first part, and the rows from which the rest is chosen.
        share: Share of the budget that is asked first, between 0 and 1.
        pool: Rows to choose from, per row that is chosen.
        criterion: "mean" lowers the mean variance of the predictions in the pool (A-optimal), "largest" takes the row with the
            largest variance (D-optimal).

    Raises:
        InputError: If an argument is out of range.

    Example:
        >>> Adaptive().rounds(500)
        (250, 500)
    """

    base: Sampler = field(default_factory=Scales)
    share: float = 0.5
    pool: int = 4
    criterion: Literal["mean", "largest"] = "mean"

    def __post_init__(self) -> None:
        """Check the arguments."""
        if not 0.0 < self.share < 1.0 or not self.pool >= 1:
            raise InputError(f"Adaptive needs 0 < share < 1 and pool >= 1; got {self.share!r} and {self.pool!r}")
        if self.criterion not in ("mean", "largest"):
            raise InputError(f"criterion must be 'mean' or 'largest'; got {self.criterion!r}")

    def draw(self, types: NDArray[np.int64], budget: int, rng: np.random.Generator, empty: bool) -> QueryPlan:
        """Return the queries of the base design."""
        return self.base.draw(types, budget, rng, empty)

    def rounds(self, budget: int) -> tuple[int, ...]:
        """Return the size of the first part, and the budget."""
        return max(round(self.share * budget), 2), budget

    def extend(
        self,
        plan: QueryPlan,
        types: NDArray[np.int64],
        budget: int,
        rng: np.random.Generator,
        empty: bool,
        answered: Answered,
    ) -> QueryPlan:
        """Return the plan with the rows of the pool that tell most; further rows of the base where no posterior is finite."""
        needed = budget - len(plan.keep)
        if needed <= 0:
            return plan
        wide = self.base.extend(plan, types, len(plan.keep) + self.pool * needed, rng, empty, answered)
        pool = wide.keep[len(plan.keep) :]
        if len(pool) > needed:
            chosen = _most_telling(*_known(plan, answered), pool, types, needed, self.criterion)
            if chosen is None:
                return self.base.extend(plan, types, budget, rng, empty, answered)
            pool = pool[np.sort(chosen)]
        rows = QueryPlan(pool, np.ones(len(pool)))
        return extended(plan, lambda _: rows, len(plan.keep) + len(pool), lambda keep: np.ones(len(keep), dtype=bool))


def _known(plan: QueryPlan, answered: Answered) -> tuple[QueryPlan, Floats]:
    """Return the rows whose scores are known, with weights that allow for how well, and these scores."""
    if answered.certainty is None or not (weights := plan.weights * answered.certainty).any():
        return plan, answered.scores
    rows = answered.certainty > 0
    return QueryPlan(plan.keep[rows], weights[rows]), answered.scores[rows]


def _most_telling(
    plan: QueryPlan, scores: Floats, pool: Keep, types: NDArray[np.int64], number: int, criterion: str
) -> NDArray[np.int64] | None:
    """Return the rows of the pool to ask; None where the fit or its posterior leaves the range of floats."""
    scores = _one_score(scores)
    fitted = fit(_counts(plan.keep, types), scores, Joint(), weights=plan.weights).model
    if not isinstance(fitted, Slalom):
        return None
    if fitted.background is None and not pool.any(axis=1).all():  # it says nothing of the empty text
        return None
    with np.errstate(all="ignore"):
        residual = fitted(_counts(plan.keep, types)) - scores
        noise = float(np.average(residual**2, weights=plan.weights)) + _LEAST_NOISE * float(scores.var())
        asked, open_ = (_jacobian(fitted, _counts(keep, types)) for keep in (plan.keep, pool))
        if not (noise > 0.0 and np.isfinite(noise) and np.isfinite(asked).all() and np.isfinite(open_).all()):
            return None
        try:
            covariance = np.linalg.inv(asked.T @ asked / noise + np.eye(asked.shape[1]))
        except np.linalg.LinAlgError:
            return None
    return _greedy(open_, np.asarray(covariance, dtype=np.float64), noise, number, criterion)


def _greedy(rows: Floats, covariance: Floats, noise: float, number: int, criterion: str) -> NDArray[np.int64]:
    """Return the rows (k, d) to ask, one after the other, for a posterior covariance (d, d)."""
    spread = covariance @ (rows.T @ rows / len(rows)) @ covariance  # x' spread x: how much x tells of all rows
    variance, told = _diagonal(rows, covariance), _diagonal(rows, spread)
    chosen: list[int] = []
    for _ in range(number):
        worth = variance if criterion == "largest" else told / (noise + variance)
        worth = np.nan_to_num(worth, nan=-1.0, posinf=-1.0)
        worth[chosen] = -2.0
        chosen.append(best := int(worth.argmax()))
        along, across, share = covariance @ rows[best], spread @ rows[best], 1.0 / (noise + variance[best])
        value, p, r = told[best], rows @ along, rows @ across
        covariance = covariance - share * np.outer(along, along)
        spread = spread - share * (np.outer(along, across) + np.outer(across, along))
        spread = spread + share**2 * value * np.outer(along, along)
        told = np.maximum(told - 2.0 * share * p * r + share**2 * value * p**2, 0.0)
        variance = np.maximum(variance - share * p**2, 0.0)
    return np.array(chosen, dtype=np.int64)


def _jacobian(model: Slalom, counts: Floats) -> Floats:
    """Return the derivatives (m, 1 + 2 n) of the predictions by level, values and importances, in units of their spread."""
    weights = model.weights(counts)
    values, evidence = model.values, model.evidence(counts)
    slope = np.ones(len(counts)) if model.link is None else 1.0 - ((model(counts) - model.link[0]) / model.link[1]) ** 2
    by_value = slope[:, None] * weights * max(float(values.std()), 1e-300)
    by_importance = slope[:, None] * weights * (values - evidence[:, None]) * min(max(float(model.importances.std()), 0.1), 3.0)
    level = np.full((len(counts), 1), float(np.abs(model(counts)).max()))
    return np.concatenate([level, by_value, by_importance], axis=1)


def _diagonal(rows: Floats, matrix: Floats) -> Floats:
    """Return x' M x for each row x."""
    return np.asarray(((rows @ matrix) * rows).sum(axis=1))


def _counts(keep: Keep, types: NDArray[np.int64]) -> Floats:
    """Return how often each parameter (m, n_types) is present."""
    return np.asarray(keep.astype(np.float64) @ np.eye(int(types.max()) + 1)[types])


def _one_score(scores: Floats) -> Floats:
    """Return scores (m,) of a size about one; of several classes, along the direction in which they vary most."""
    scores = scores / max(float(np.abs(scores).max()), np.finfo(np.float64).tiny)
    if scores.ndim == 1:
        return scores
    return np.asarray(scores @ np.linalg.svd(scores - scores.mean(axis=0), full_matrices=False)[2][0])
