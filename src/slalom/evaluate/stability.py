"""Sensitivity to the seed: how much do explanations of one text differ that ought to be the same?

rank      1 - mean over pairs of Spearman(a, b)                 0 where all rank alike, 1 where ranks have nothing in common
relative  mean over pairs of |a - b| / ((|a| + |b|) / 2)        0 where all are equal, at most 2; | | is the Euclidean norm
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
    """How much repetitions differ, in rank and in size; None where no pair defines it. pairs: how many there are."""

    rank: float | None
    relative: float | None
    pairs: int


def instability(scores: ArrayLike) -> Instability:
    """Return how much the rows of scores (repetitions, n) differ.

    Spearman is not defined for a pair with a constant row, nor the relative difference of two rows of zeros: such pairs are
    left out.

    >>> instability([[3.0, 4.0], [-3.0, -4.0]])
    Instability(rank=2.0, relative=2.0, pairs=1)
    """
    given = real_array("scores", scores, (2,))
    if len(given) < 2 or given.shape[1] == 0:
        raise InputError(f"scores must have at least two rows, one a repetition, and a column a unit; got shape {given.shape}")
    ranks, sizes = [], []
    for a, b in combinations(given, 2):
        if (rank := rank_correlation(a, b)) is not None:
            ranks.append(rank)
        if size := float(np.linalg.norm(a) + np.linalg.norm(b)):
            sizes.append(2.0 * float(np.linalg.norm(a - b)) / size)
    pairs = len(given) * (len(given) - 1) // 2
    return Instability(1.0 - float(np.mean(ranks)) if ranks else None, float(np.mean(sizes)) if sizes else None, pairs)


def seed_instability(explanations: Iterable[Explanation], *, score: str = "removal") -> Instability:
    """Return how much explanations of one text with different seeds differ: same method, units, target and budget."""
    given = several(explanations)
    kinds = {(one.text, one.units, one.target, one.method) for one in given}
    if len(kinds) != 1:
        raise InputError(f"explanations must be of one text, by one method, in the same units, of one target; got {len(kinds)}")
    if len({one.seed for one in given}) < len(given):
        raise InputError(f"explanations must have different seeds; got {[one.seed for one in given]}")
    if given[0].values.ndim == 2:
        leading = int(np.argmax(given[0].score))
        return instability([one.scores(score, leading) for one in given])
    return instability([one.scores(score) for one in given])
