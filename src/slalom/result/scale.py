"""How strong the effects of a text are beside what its decision would take: one scale for all colours, and what is known.

    full = max(max_i |effect_i|, SHARE * distance, FLOOR)

distance is how far the score is from another decision: the strongest effect alone would show deciding words in every text.
FLOOR holds for log odds only; other scales have no natural size.
"""

from typing import TYPE_CHECKING

import numpy as np

from slalom.core.checks import Floats
from slalom.result.scores import SCORES

if TYPE_CHECKING:
    from slalom.result.explanation import Explanation

SHARE = 0.2  # of the distance: an effect of this size has the full colour
FLOOR = 0.1  # log odds; 2.5 points of probability where the model is undecided
UNDECIDED = ("output", "log probability", "similarity")  # scales of numbers that decide nothing
SATURATED = 0.05  # of the distance: where all effects are below, no single unit decides


def exclusive(e: "Explanation") -> bool:
    """Return whether a text has one of the labels, as far as its probabilities tell."""
    return e.probabilities is None or abs(float(e.probabilities.sum()) - 1.0) <= 1e-6


def opposite(e: "Explanation", target: str) -> str | None:
    """Return the other of two exclusive classes; None where there are more classes or they are not exclusive."""
    if len(e.labels) != 2 or target not in e.labels or not exclusive(e):
        return None
    return e.labels[1 - e.labels.index(target)]


def threshold(e: "Explanation") -> float | None:
    """Return the score of one target at which the decision changes; None where the score decides nothing.

    It is 0 for two classes and for independent labels. One of several exclusive classes is the most probable one when its odds
    exceed the share r that the strongest other class has among the others; where they keep their proportions, that is at log r.
    """
    if e.scale in UNDECIDED:
        return None
    p = e.probabilities
    if p is None or len(p) < 3 or e.target not in e.labels or not exclusive(e):
        return 0.0
    others = np.delete(p, e.labels.index(e.target))
    return float(np.log(others.max() / others.sum())) if others.max() > 0.0 else 0.0


def lead(scores: Floats, column: int) -> Floats:
    """Return by how much the score of one class exceeds the highest of the others."""
    return np.asarray(scores[:, column] - np.delete(scores, column, axis=1).max(axis=1))


def distance(e: "Explanation", column: int | None) -> float:
    """Return how far the score is from another decision; for an output without one, from the score of no text."""
    if column is not None:
        return abs(float(lead(np.asarray(e.score)[None], column)[0]))
    level = threshold(e)
    return abs(float(e.score) - (float(e.base) if level is None else level))


def full_effect(e: "Explanation", name: str, target: int | str | None) -> float:
    """Return the size of a score that has the full colour: effects are measured by the distance to another decision."""
    strongest = float(np.abs(e.scores(name, target)).max(initial=0.0))
    if not e.signed or not SCORES[name].change:
        return strongest
    floor = FLOOR if e.scale == "log odds" else 0.0
    return max(strongest, floor, SHARE * distance(e, e.column(target)) if SCORES[name].kind == "effect" else 0.0)


def strongest_change(e: "Explanation") -> tuple[float, float]:
    """Return the largest change of the distance to another decision by one removal, and the distance."""
    column, effects = e.column(), e.removal
    if column is not None:
        whole = e.predict(np.ones(len(e.units)))
        effects = lead(whole[None], column) - lead(whole - effects, column)
    return float(np.abs(effects).max(initial=0.0)), distance(e, column)


def saturated(e: "Explanation") -> bool:
    """Return whether no single unit of an Explanation decides: every removal changes less than SATURATED of the distance."""
    change, needed = strongest_change(e) if e.signed else (0.0, 0.0)
    return change < SATURATED * needed


def leading_score(e: "Explanation") -> str:
    """Return the score that is shown first: "shapley" where no single unit decides, or sources may repeat each other."""
    return "shapley" if e.saturated or (e.answer is not None and e.signed) else "removal"
