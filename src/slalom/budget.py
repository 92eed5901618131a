"""Budgets that grow in rounds: how large the next round is, and when to stop.

    round 1    100 queries, or one per unit
    round r    twice as many as in round r - 1; the answers so far are kept
    stop       the held-out error no longer falls, or the intervals are as narrow as the tolerance, or max_queries

The held-out queries are the same in all rounds, so the errors of two rounds are compared row by row:

    gain = 1 - sum after / sum before,    standard error = sd(after - (1 - gain) before) / (sqrt(rows) mean before)

Errors near the text and far from it have different sizes. To pool them, both are divided by their mean before.
"""

from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats, is_number, row_keys, whole_number
from slalom.errors import InputError
from slalom.result import NORMAL_95, Explanation

AUTO = "auto"
CHECK = 100  # held-out queries by default: fewer do not show a gain of 10%
_FIRST = 100
_GROWTH = 2
_GAIN = 0.1  # a round that doubles the queries and lowers the error by less than this is the last
_ROUNDS = 3  # before the error may be said to fall no longer: one comparison alone is wrong too often
_NEGLIGIBLE = 1e-3  # a share of the variance that is not worth another round
_STRONGEST = 10  # units whose intervals must be within the tolerance


@final
@dataclass(frozen=True)
class Goal:
    """When a budget that grows is large enough, checked."""

    tolerance: float | None = None  # half-width of the intervals of the strongest units; None: until the error no longer falls
    most: int = 5000  # queries of the method

    def __post_init__(self) -> None:
        tolerance = self.tolerance
        if tolerance is not None and not (is_number(tolerance) and 0 < tolerance < np.inf):
            message = f"tolerance must be a number above 0, in units of the score, such as 0.1; got {tolerance!r}"
            raise InputError(message, "tolerance")
        whole_number("max_queries", self.most, 2)

    def first(self, n: int) -> int:
        """Return the budget of the first round, for n units: with fewer rows than units the error may not fall at once."""
        return min(max(_FIRST, n), self.most)

    def after(self, budget: int, asked: int) -> int:
        """Return the budget of the next round; at most `budget` where there is none."""
        return min(_GROWTH * budget, self.most - asked)

    def reached(self, before: Explanation | None, after: Explanation, rounds: int) -> str:
        """Return why the last round was enough, in words; empty where another one is worth it."""
        if before is not None and after.queries == before.queries:
            return "no other query is left"
        if self.tolerance is not None and (distance := self._distance(after)) is not None and distance <= self.tolerance:
            return self._compared(after)
        if self.tolerance is not None and "removal" in after.errors:
            return ""
        if untestable := _untestable(after):
            return untestable
        if before is None or rounds < _ROUNDS or falls(before, after):
            return ""
        return "; ".join(filter(None, ("the held-out error no longer falls", self._compared(after))))

    def exhausted(self, after: Explanation) -> str:
        """Return that max_queries has ended the rounds, and how far the tolerance is."""
        return "; ".join(filter(None, (f"max_queries, {self.most}, is reached", self._compared(after))))

    @staticmethod
    def _distance(e: Explanation) -> float | None:
        """Return what the tolerance is compared with: the width of intervals, or else the held-out error near the text."""
        if "removal" in e.errors:
            return half_width(e)
        return None if e.fidelity.near is None else e.fidelity.near.mse**0.5

    def _compared(self, e: Explanation) -> str:
        """Return that number in words, beside the tolerance; empty where there is none."""
        distance = self._distance(e)
        if self.tolerance is None or distance is None:
            return ""
        beside = f"{distance:.2g}, the tolerance is {self.tolerance:g}"
        if "removal" not in e.errors:
            return f"the held-out error near the text is {beside} ({e.method} has no standard errors)"
        return f"the 95% intervals of the strongest units are within ±{beside}"


def half_width(e: Explanation) -> float | None:
    """Return the largest half-width of the 95% intervals of `removal` among the ten strongest units; None without errors."""
    if "removal" not in e.errors:
        return None
    return float(NORMAL_95 * e.errors["removal"][e.strongest(_STRONGEST)].max())


def falls(before: Explanation, after: Explanation) -> bool:
    """Return whether the last round has lowered the held-out error: in both places together, or clearly in one.

    A place where the explanation predicts worse than the mean answer does not count, unless there is no other: `local` does
    not learn what subsets of all sizes do.
    """
    places = squared_errors(before, after)
    useful = [quality is not None and not quality.below_zero for quality in after.fidelity]
    chosen = [place for place, good in zip(places, useful, strict=True) if len(place[0]) and (good or not any(useful))]
    scaled = [(old / old.mean(), new / old.mean()) for old, new in chosen if old.any()]
    if not scaled:
        return False
    pooled = [np.concatenate(part) for part in zip(*scaled, strict=True)]
    gains = [(*gain(*pooled), 1.0), *((*gain(*place), 2.0) for place in scaled)]
    return any(share > _GAIN and share > errors * se for share, se, errors in gains)


def gain(before: Floats, after: Floats) -> tuple[float, float]:
    """Return by which share squared errors (k,) are smaller after a round, and its standard error.

    Example:
        >>> gain(np.array([1.0, 1.0, 2.0]), np.array([0.5, 0.5, 1.0]))
        (0.5, 0.0)
    """
    ratio = float(after.sum() / before.sum())
    spread = float((after - ratio * before).std(ddof=1)) if len(before) > 1 else np.inf
    return 1.0 - ratio, spread / (len(before) ** 0.5 * float(before.mean()))


def squared_errors(before: Explanation, after: Explanation) -> list[tuple[Floats, Floats]]:
    """Return the squared errors of two explanations on the rows held out from both, near the text and far from it.

    Near the text they are errors of the change from the whole text, as in `Fidelity`.
    """
    if before.held_out is None or after.held_out is None:
        return [(np.zeros(0), np.zeros(0))] * 2
    tested, known = after.held_out, set(row_keys(before.held_out.keep))
    both = np.array([key in known for key in row_keys(tested.keep)], dtype=bool)
    near = np.arange(len(both)) < tested.near
    squares = [_squares(e, tested.keep, tested.scores, near) for e in (before, after)]
    return [(squares[0][rows], squares[1][rows]) for rows in (both & near, both & ~near)]


def _squares(e: Explanation, keep: NDArray[np.bool_], scores: Floats, near: NDArray[np.bool_]) -> Floats:
    error = e.predict(keep) - scores
    if e.fidelity.near is None or e.fidelity.near.ceiling is None:  # else the score of the whole text is noisy, too
        error[near] -= e.predict(np.ones(len(e), dtype=bool)) - e.score
    return np.asarray(error**2 if error.ndim == 1 else (error**2).sum(axis=1))


def _untestable(e: Explanation) -> str:
    """Return why held-out queries say nothing more: there are none, or the error is negligible; empty where they do."""
    if not e.fidelity.known:
        return "no query is left to test it" if e.signed else "scores without a sign cannot be tested"
    if all(q.few for q, _ in e.fidelity.known):
        return "too few queries are left to test it"
    negligible = all(q.r2 is None or q.r2 > 1.0 - _NEGLIGIBLE for q, _ in e.fidelity.known)
    return "the held-out error is negligible" if negligible else ""
