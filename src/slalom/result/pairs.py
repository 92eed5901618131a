"""Pairs of units that act together, next to the whole text.

effect of i and j  =  F(all) - F(without i) - F(without j) + F(without both)

`Explanation.interactions` computes it from predictions; `Explanation.pairs` has the strongest, with F asked of the model.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats, plain

if TYPE_CHECKING:
    from slalom.result.explanation import Explanation

_COMBINED = 60  # units whose pairs are looked at
_CHECKED, _PER_PAIR = 4, 25  # pairs that the model is asked about: at most, and queries of the budget for each of them
_LEAST = 0.1  # smallest effect that is listed, as a share of the effect with the full colour


class Pair(NamedTuple):
    """Two units that act together.

    Attributes:
        units: Their indices.
        effect: F(all) - F(without i) - F(without j) + F(without both)*, a number or one per class.
        se: Its standard error*, where the model's answers are noisy; None where they are exact, and for predictions.
    """

    units: tuple[int, int]
    effect: float | list[float]
    se: float | list[float] | None


def interactions(e: "Explanation", k: int, target: int | str | None) -> tuple[Pair, ...]:
    """Return the k strongest predicted interactions of an Explanation next to the whole text."""
    column, n = e.column(target), len(e)
    chosen = np.arange(n)
    if n > _COMBINED:
        sizes = [np.abs(e.scores(name, target)) for name in ("removal", "value")]  # each may miss what the other finds
        size = sum(own / max(float(own.max()), 1e-300) for own in sizes)
        chosen = np.sort(np.argsort(-size, kind="stable")[:_COMBINED])
    first, second = (chosen[part] for part in np.triu_indices(len(chosen), 1))
    if not len(first):
        return ()
    keep = np.ones((1 + n + len(first), n), dtype=bool)
    keep[1 + np.arange(n), np.arange(n)] = False
    keep[1 + n + np.arange(len(first)), first] = keep[1 + n + np.arange(len(first)), second] = False
    predicted = e.predict(keep) if column is None else e.predict(keep)[:, column]
    effects = predicted[0] - predicted[1 + first] - predicted[1 + second] + predicted[1 + n :]
    order = np.argsort(-np.abs(effects), kind="stable")[:k]
    return tuple(Pair((int(first[i]), int(second[i])), float(effects[i]), None) for i in order)


def pairs_to_check(e: "Explanation", budget: int) -> list[tuple[int, int]]:
    """Return the pairs of an Explanation that are worth asking the model about, the strongest first."""
    least = 0.5 * _LEAST * e.full_effect()
    pairs = interactions(e, _number_of_pairs(budget), None)
    return [pair.units for pair in pairs if np.abs(pair.effect) >= least]


def most_checks(asked: int, n: int, budget: int) -> int:
    """Return how many queries `combinations` may need, where so many parts of n units have been asked."""
    return min(3 * _number_of_pairs(budget), max((1 << min(n, 62)) - asked, 0))


def _number_of_pairs(budget: int) -> int:
    return min(_CHECKED, budget // _PER_PAIR)


def combinations(pairs: Iterable[tuple[int, int]], n: int) -> NDArray[np.bool_]:
    """Return the rows (3 k, n) without the first, without the second and without both units of k pairs."""
    rows = [np.isin(np.arange(n), gone, invert=True) for i, j in pairs for gone in ((i,), (j,), (i, j))]
    return np.array(rows, dtype=bool).reshape(-1, n)


def measured_pairs(
    e: "Explanation", pairs: list[tuple[int, int]], scores: Floats, variance: Floats | None, known: NDArray[np.bool_]
) -> tuple[Pair, ...]:
    """Return the pairs whose measured effect is worth a line, strongest first."""
    first, second, both = (scores[1 + part :: 3] for part in range(3))
    effects, column, least = scores[0] - first - second + both, e.column(), _LEAST * e.full_effect()
    size = np.abs(effects if column is None else effects[:, column])
    doubt = np.zeros(len(pairs)) if variance is None else np.sqrt(variance[0] + variance[1:].reshape(-1, 3).sum(axis=1))
    listed = (size >= least) & (size > 1.96 * doubt) & known[0] & known[1:].reshape(-1, 3).all(axis=1)
    order = np.argsort(-size, kind="stable")
    return tuple(Pair(pairs[k], plain(effects[k]), None if variance is None else float(doubt[k])) for k in order[listed[order]])
