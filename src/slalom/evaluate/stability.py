"""Sensitivity to the seed: how much do explanations of one text differ when only the seed differs?

rank      1 - mean over pairs of Spearman(a, b)             0: the same ranks, 1: unrelated ranks
relative  mean over pairs of |a - b| / ((|a| + |b|) / 2)    0: equal, at most 2; | | is the Euclidean norm
"""

from collections.abc import Iterable
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from slalom.core.checks import real_array
from slalom.errors import InputError
from slalom.evaluate.checks import several
from slalom.evaluate.ranks import rank_correlation
from slalom.result import Explanation


class Instability(NamedTuple):
    """How much repetitions of an explanation differ.

    Attributes:
        rank: 1 - mean rank correlation; None where no pair defines it.
        relative: Mean relative difference; None where no pair defines it.
        pairs: Number of pairs.
    """

    rank: float | None
    relative: float | None
    pairs: int


def instability(scores: ArrayLike) -> Instability:
    """Return how much the scores of repeated explanations differ.

    Args:
        scores: Scores (repetitions, n). Pairs with a constant row have no rank correlation, pairs of zeros no relative
            difference; they are left out.

    Raises:
        InputError: If there are fewer than two rows, or no column.

    Example:
        >>> instability([[3.0, 4.0], [-3.0, -4.0]])
        Instability(rank=2.0, relative=2.0, pairs=1)
    """
    rows = real_array("scores", scores, (2,))
    if len(rows) < 2 or rows.shape[1] == 0:
        raise InputError(
            f"scores must have at least two rows, one per repetition, and one column per unit; got shape {rows.shape}"
        )
    ranks, sizes = [], []
    for a, b in combinations(rows, 2):
        if (rank := rank_correlation(a, b)) is not None:
            ranks.append(rank)
        if size := float(np.linalg.norm(a) + np.linalg.norm(b)):
            sizes.append(2.0 * float(np.linalg.norm(a - b)) / size)
    pairs = len(rows) * (len(rows) - 1) // 2
    return Instability(1.0 - float(np.mean(ranks)) if ranks else None, float(np.mean(sizes)) if sizes else None, pairs)


def seed_instability(explanations: Iterable[Explanation], *, score: str = "removal") -> Instability:
    """Return how much explanations of one text with different seeds differ.

    Args:
        explanations: Explanations of one text by one method, with the same units and target.
        score: Name of a score, as `Explanation.scores` takes it.

    Raises:
        InputError: If the explanations differ in more than their seeds, or share a seed.
    """
    repeated = several(explanations)
    kinds = {(e.text, e.units, e.target, e.method) for e in repeated}
    if len(kinds) != 1:
        raise InputError(f"explanations must be of one text, by one method, in the same units, of one target; got {len(kinds)}")
    if len({e.seed for e in repeated}) < len(repeated):
        raise InputError(f"explanations must have different seeds; got {[e.seed for e in repeated]}")
    if repeated[0].values.ndim == 2:
        leading = int(np.argmax(repeated[0].score))
        return instability([e.scores(score, leading) for e in repeated])
    return instability([e.scores(score) for e in repeated])
