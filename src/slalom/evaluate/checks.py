"""Checks of the arguments of metrics, the score that ranks units, and the magnitude of scores."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import ArrayLike

from slalom.core import Slalom
from slalom.core.checks import Floats, real_array
from slalom.errors import InputError
from slalom.result import Explanation
from slalom.result.scores import score_named


def several(explanations: Iterable[Explanation]) -> list[Explanation]:
    """Return explanations as a list."""
    if isinstance(explanations, Explanation):
        raise InputError("explanations must be several, in a list; put a single one into brackets")
    items = list(explanations)
    for number, e in enumerate(items):
        if not isinstance(e, Explanation):
            raise InputError(f"explanations must be of the class Explanation; got {type(e).__name__} at index {number}")
    return items


def paired(first: tuple[str, ArrayLike], second: tuple[str, ArrayLike]) -> tuple[Floats, Floats]:
    """Return two named arrays (n,) of the same length, finite and not empty."""
    a, b = real_array(*first, (1,)), real_array(*second, (1,))
    if a.shape != b.shape or a.size == 0:
        raise InputError(f"{first[0]} and {second[0]} must have the same shape and not be empty; got {a.shape} and {b.shape}")
    return a, b


def unsigned(explanation: Explanation, score: str) -> bool:
    """Return whether a score has no sign: importances, and all scores of a method without signs."""
    return not (score_named(score).signed and explanation.signed)


def ranking_score(explanation: Explanation) -> str:
    """Return the score that ranks the units of an explanation: "shapley" for a surrogate with parts, else "removal".

    The removal of such a surrogate (`joint`) is about one unit at a time, next to the text.
    """
    return "shapley" if isinstance(explanation.surrogate, Slalom) and explanation.surrogate.parts else "removal"


def magnitude(explanation: Explanation, score: str = "removal") -> Floats:
    """Return how strongly each unit matters, regardless of sign: |score|.

    Args:
        score: Name of a score, as `Explanation.scores` takes it. Importances are logarithms and returned unchanged.

    Returns:
        Magnitudes (n,); of the leading class where all classes are explained.
    """
    scores = explanation.scores(score)
    return np.abs(scores) if score_named(score).signed else scores
