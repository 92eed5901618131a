"""Checks of what enters a metric, and which of the scores of an explanation it looks at."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from slalom.core.checks import Floats, real_array
from slalom.errors import InputError
from slalom.result import Explanation


def whole(name: str, number: object, least: int) -> int:
    """Return an integer that is not below `least`."""
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < least:
        raise InputError(f"{name} must be an integer of at least {least}; got {number!r}")
    return int(number)


def several(explanations: Iterable[Explanation]) -> list[Explanation]:
    """Return explanations as a list."""
    if isinstance(explanations, Explanation):
        raise InputError("explanations must be several, in a list; put a single one into brackets")
    found = list(explanations)
    for number, one in enumerate(found):
        if not isinstance(one, Explanation):
            raise InputError(f"explanations must be of the class Explanation; got {type(one).__name__} at index {number}")
    return found


def paired(first: tuple[str, ArrayLike], second: tuple[str, ArrayLike], ndim: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Return two named arrays of one shape, finite and not empty."""
    a, b = real_array(*first, ndim), real_array(*second, ndim)
    if a.shape != b.shape or a.size == 0:
        raise InputError(f"{first[0]} and {second[0]} must have one shape and not be empty; got {a.shape} and {b.shape}")
    return a, b


def unsigned(explanation: Explanation, score: str) -> bool:
    """Return whether a score has no direction: importances, and all scores of a method without signs."""
    return score == "importance" or not explanation.signed


def magnitude(explanation: Explanation, score: str = "removal") -> Floats:
    """Return how strongly each unit (n,) matters, whatever its direction: |score|.

    An importance is taken as it is: it is a logarithm, and a low one does not matter. Of several classes it is the leading one.
    """
    scores = explanation.scores(score)
    return scores if score == "importance" else np.abs(scores)
