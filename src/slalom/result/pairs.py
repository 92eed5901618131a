"""Pairs of units that act together: those that the fit has found, and those next to the whole text.

interaction of i and j  =  predict(all) - predict(without i) - predict(without j) + predict(without both)
"""

from typing import Any, NamedTuple

import numpy as np

from slalom.core import Additive, TwoScale
from slalom.core.checks import plain

_COMBINED = 60  # units whose pairs are looked at


class Pair(NamedTuple):
    """Two units that act together.

    Attributes:
        units: Their indices.
        effect: What both do together beyond what each does alone*: g in g c_i c_j, a number or one per class.
        se: Its standard error*; None where it is unknown.
    """

    units: tuple[int, int]
    effect: float | list[float]
    se: float | list[float] | None


def fitted_pairs(e: Any) -> tuple[Pair, ...]:
    """Return the pairs of the surrogate of an Explanation, strongest first; none where it has no pairs."""
    if not isinstance(e.surrogate, TwoScale):
        return ()
    effects, errors = e.surrogate.effects, e.pairs_se
    size = [float(np.abs(effect).max()) for effect in effects]
    return tuple(
        Pair((int(i), int(j)), plain(effects[k]), None if errors is None else plain(errors[k]))
        for k, (i, j) in ((int(k), e.surrogate.pairs[k]) for k in np.argsort([-x for x in size], kind="stable"))
        if i != j
    )


def interactions(e: Any, k: int, target: int | str | None) -> tuple[Pair, ...]:
    """Return the k strongest interactions of an Explanation next to the whole text."""
    column, n = e.column(target), len(e)
    chosen = np.sort(np.argsort(-np.abs(e.scores("shapley", target)), kind="stable")[:_COMBINED])
    first, second = (chosen[part] for part in np.triu_indices(len(chosen), 1))
    if not len(first) or (n == 2 and e.background is None and not isinstance(e.surrogate, Additive)):
        return ()
    keep = np.ones((1 + n + len(first), n), dtype=bool)
    keep[1 + np.arange(n), np.arange(n)] = False
    keep[1 + n + np.arange(len(first)), first] = keep[1 + n + np.arange(len(first)), second] = False
    predicted = e.predict(keep) if column is None else e.predict(keep)[:, column]
    effects = predicted[0] - predicted[1 + first] - predicted[1 + second] + predicted[1 + n :]
    order = np.argsort(-np.abs(effects), kind="stable")[:k]
    return tuple(Pair((int(first[i]), int(second[i])), float(effects[i]), None) for i in order)
