"""Area over the perturbation curve: what happens to the predicted class when the top units are removed, or kept alone?

    deletion  (comprehensiveness) = p(text) - mean_k p(text without its top k)     higher is better
    insertion (sufficiency)       = p(text) - mean_k p(its top k alone)            lower is better

p is the probability of the class that the model predicts for the whole text. The numbers k are fractions of the n units, as in
ERASER (DeYoung et al., 2020: 1, 5, 10, 20 and 50%, rounded up), or every `step`-th number from `step` to below n. The ERASER
paper also counts k = 0, which would scale the deletion by 5/6; here the mean is over the stated k only.

Units are ranked by their scores for the predicted class, highest first (removal; Shapley values for the two-scale surrogate of
`joint`, as up to half of the text goes at once); importances and methods without signs by magnitude. Units with equal scores
keep the order of the text.
"""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax

from slalom.core.checks import Floats, real_array, whole_number
from slalom.errors import InputError
from slalom.evaluate.checks import magnitude, ranking_score, several, unsigned
from slalom.explainer import Explainer
from slalom.result import Explanation

ERASER = (0.01, 0.05, 0.1, 0.2, 0.5)

Keep = NDArray[np.bool_]


class Perturbation(NamedTuple):
    """Deletion and insertion of one explanation, with their curves.

    Attributes:
        deletion: Mean drop of the probability without the top units.
        insertion: Mean drop of the probability with the top units alone.
        probability: Probability of the predicted class for the whole text.
        numbers: Numbers (k,) of units removed or kept.
        deleted: Probabilities (k,) without the top units.
        inserted: Probabilities (k,) with the top units alone.
    """

    deletion: float
    insertion: float
    probability: float
    numbers: NDArray[np.int64]
    deleted: Floats
    inserted: Floats


def fractions_of(n: int, fractions: Sequence[float] = ERASER) -> NDArray[np.int64]:
    """Return the number of units of each fraction, rounded up.

    Args:
        n: Number of units, at least 2.
        fractions: Fractions (k,) above 0, at most 1. Below 1 the number stays below n.

    Returns:
        Numbers (k,).

    Raises:
        InputError: If n or a fraction is out of range.

    Example:
        >>> fractions_of(30).tolist()
        [1, 2, 3, 6, 15]
    """
    n = whole_number("n", n, 2)
    shares = real_array("fractions", fractions, (1,))
    if len(shares) == 0 or (shares <= 0).any() or (shares > 1).any():
        raise InputError(f"fractions must be one or more numbers above 0, at most 1; got {fractions!r}")
    return np.array([n if f == 1 else min(ceil(f * n - 1e-9), n - 1) for f in shares.tolist()], dtype=np.int64)


def steps_of(n: int, step: int = 1) -> NDArray[np.int64]:
    """Return the numbers step, 2 step, ... below n, or n - 1 where there is none.

    Args:
        n: Number of units, at least 2.
        step: Distance between the numbers.

    Returns:
        Numbers (k,).

    Raises:
        InputError: If an argument is out of range.

    Example:
        >>> steps_of(12, 5).tolist(), steps_of(4, 5).tolist()
        ([5, 10], [3])
    """
    n, step = whole_number("n", n, 2), whole_number("step", step, 1)
    return np.arange(step, n, step, dtype=np.int64) if step < n else np.array([n - 1], dtype=np.int64)


def insertion_masks(scores: ArrayLike, numbers: ArrayLike) -> Keep:
    """Return masks that keep the units with the highest scores alone.

    Args:
        scores: Scores (n,).
        numbers: Numbers of units to keep (k,).

    Returns:
        Presence (k, n).

    Raises:
        InputError: If a number is not an integer from 0 to n.

    Example:
        >>> insertion_masks([0.1, 3.0, 2.0], [1, 2]).astype(int).tolist()
        [[0, 1, 0], [0, 1, 1]]
    """
    values = real_array("scores", scores, (1,))
    sizes, n = np.asarray(numbers), len(values)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 0).any() or (sizes > n).any():
        raise InputError(f"numbers must be a list of integers from 0 to {n}, the number of units; got {numbers!r}")
    rank = np.empty(n, dtype=np.int64)
    rank[np.argsort(-values, kind="stable")] = np.arange(n)
    return np.asarray(rank[None, :] < sizes[:, None])


def deletion_masks(scores: ArrayLike, numbers: ArrayLike) -> Keep:
    """Return masks without the units with the highest scores.

    Args:
        scores: Scores (n,).
        numbers: Numbers of units to remove (k,).

    Returns:
        Presence (k, n).

    Raises:
        InputError: If a number is not an integer from 0 to n.

    Example:
        >>> deletion_masks([0.1, 3.0, 2.0], [1, 2]).astype(int).tolist()
        [[1, 0, 1], [1, 0, 0]]
    """
    return ~insertion_masks(scores, numbers)


def aopc(probability: float, curve: ArrayLike) -> float:
    """Return the mean drop of a probability along a curve.

    Args:
        probability: Probability of the whole text.
        curve: Probabilities (k,) of its perturbations.

    Raises:
        InputError: If a number is not a probability, or the curve is empty.

    Example:
        >>> round(aopc(0.9, [0.5, 0.3]), 6)
        0.5
    """
    points = real_array("curve", curve, (1,))
    full = float(real_array("probability", probability, (0,)))
    if len(points) == 0 or not 0 <= min(full, points.min()) <= max(full, points.max()) <= 1:
        raise InputError("probability and curve must be probabilities from 0 to 1, at least one in the curve")
    return float((full - points).mean())


def perturbation(
    explanations: Iterable[Explanation],
    explainer: Explainer,
    *,
    score: str | None = None,
    fractions: Sequence[float] = ERASER,
    step: int | None = None,
) -> list[Perturbation | None]:
    """Measure deletion and insertion of explanations; all queries are sent at once.

    Args:
        explanations: Explanations of any texts by any methods.
        explainer: An Explainer of the model that was explained.
        score: Name of a score, as `Explanation.scores` takes it. Default: "shapley" for a two-scale surrogate (`joint`), whose
            removal tells of one unit at a time, else "removal".
        fractions: Fractions of the units to remove or keep. A fraction of 1 queries the empty text, which not every model
            can answer.
        step: Use every `step`-th number of units in place of the fractions; the code of the SLALOM paper uses 5.

    Returns:
        One result per explanation; None for a text of one unit.

    Raises:
        InputError: If the model has no probabilities, or an explanation is not of the predicted class.
    """
    items = several(explanations)
    if not explainer.model.head.probabilistic:
        raise InputError(f"{explainer.model.name} has no probabilities, which this measure needs; use a model that has them")
    exclusive = explainer.model.head.kind == "classes"
    several_units = [e for e in items if len(e) > 1]
    plans: list[tuple[NDArray[np.int64], Keep]] = []
    for e in several_units:
        numbers = fractions_of(len(e), fractions) if step is None else steps_of(len(e), step)
        order = _ranking_scores(e, score or ranking_score(e), exclusive)
        whole_text = np.ones((1, len(e)), dtype=bool)
        plans.append((numbers, np.concatenate([whole_text, deletion_masks(order, numbers), insertion_masks(order, numbers)])))
    answers = explainer.ask_many(several_units, [keep for _, keep in plans])
    results: dict[int, Perturbation] = {}
    for e, (numbers, _), scores in zip(several_units, plans, answers, strict=True):
        p = _probabilities(scores, _side(e, exclusive))
        deleted, inserted = p[1 : 1 + len(numbers)], p[1 + len(numbers) :]
        results[id(e)] = Perturbation(aopc(p[0], deleted), aopc(p[0], inserted), float(p[0]), numbers, deleted, inserted)
    return [results.get(id(e)) for e in items]


def _side(e: Explanation, exclusive: bool) -> int:
    """Return 1 where the model predicts the target, else -1; of all classes, the column of the predicted one."""
    if e.values.ndim == 2:
        return int(np.argmax(e.score))
    if exclusive and len(e.labels) > 2:
        if e.prediction is not None and e.prediction[0] != e.target:
            raise InputError(
                f"the model predicts {e.prediction[0]!r}, and this explanation is of {e.target!r}, one of several classes;"
                " explain the predicted class (target=None) or all (target='all')"
            )
        return 1
    return 1 if float(e.score) >= 0 else -1


def _ranking_scores(e: Explanation, score: str, exclusive: bool) -> Floats:
    if unsigned(e, score):
        return magnitude(e, score)
    side = _side(e, exclusive)
    return e.scores(score, side) if e.values.ndim == 2 else side * e.scores(score)


def _probabilities(scores: Floats, side: int) -> Floats:
    """Return the probability of the predicted class from log odds (m,) or centred logits (m, n_classes)."""
    return np.asarray(expit(side * scores) if scores.ndim == 1 else softmax(scores, axis=1)[:, side])
