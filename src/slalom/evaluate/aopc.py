"""Area over the perturbation curve: what becomes of the predicted class when the units that matter most go, or stay alone?

    deletion  (comprehensiveness) = p(text) - mean_k p(text without its top k)     higher is better
    insertion (sufficiency)       = p(text) - mean_k p(its top k alone)            lower is better

p is the probability of the class that the model predicts for the whole text. The numbers k are fractions of the n units, as in
ERASER (DeYoung et al., 2020: 1, 5, 10, 20 and 50%, rounded up), or every `step`-th number from `step` to below n. ERASER's text
also counts k = 0 among the bins, which would scale the deletion by 5/6; here the mean is over the stated k alone.

Units are ranked by scores that speak for the predicted class, highest first; importances and methods without signs by their
strength. Units of equal score go in the order of the text.
"""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import expit, softmax

from slalom.core.checks import Floats, real_array
from slalom.errors import InputError
from slalom.evaluate.checks import magnitude, several, unsigned, whole
from slalom.explainer import Explainer
from slalom.result import Explanation

ERASER = (0.01, 0.05, 0.1, 0.2, 0.5)

Keep = NDArray[np.bool_]


class Perturbation(NamedTuple):
    """Both areas of one explanation, and the curves (k,) of probabilities that they come from.

    numbers (k,): how many units were removed or kept. probability: of the predicted class for the whole text.
    """

    deletion: float
    insertion: float
    probability: float
    numbers: NDArray[np.int64]
    deleted: Floats
    inserted: Floats


def fractions_of(n: int, fractions: Sequence[float] = ERASER) -> NDArray[np.int64]:
    """Return how many of n >= 2 units each fraction is: rounded up, and below n for a fraction below 1.

    >>> fractions_of(30).tolist()
    [1, 2, 3, 6, 15]
    """
    n = whole("n", n, 2)
    given = real_array("fractions", fractions, (1,))
    if len(given) == 0 or (given <= 0).any() or (given > 1).any():
        raise InputError(f"fractions must be one or more numbers above 0, at most 1; got {fractions!r}")
    return np.array([n if f == 1 else min(ceil(f * n - 1e-9), n - 1) for f in given.tolist()], dtype=np.int64)


def steps_of(n: int, step: int = 1) -> NDArray[np.int64]:
    """Return the numbers step, 2 step, ... below n >= 2; n - 1 alone where there is none.

    >>> steps_of(12, 5).tolist(), steps_of(4, 5).tolist()
    ([5, 10], [3])
    """
    n, step = whole("n", n, 2), whole("step", step, 1)
    return np.arange(step, n, step, dtype=np.int64) if step < n else np.array([n - 1], dtype=np.int64)


def insertion_masks(scores: ArrayLike, numbers: ArrayLike) -> Keep:
    """Return presence (k, n) of the units with the highest scores (n,) alone, as many as `numbers` (k,) says.

    >>> insertion_masks([0.1, 3.0, 2.0], [1, 2]).astype(int).tolist()
    [[0, 1, 0], [0, 1, 1]]
    """
    given = real_array("scores", scores, (1,))
    sizes, n = np.asarray(numbers), len(given)
    if sizes.ndim != 1 or sizes.dtype.kind not in "iu" or (sizes < 0).any() or (sizes > n).any():
        raise InputError(f"numbers must be a list of integers from 0 to {n}, the number of units; got {numbers!r}")
    place = np.empty(n, dtype=np.int64)
    place[np.argsort(-given, kind="stable")] = np.arange(n)
    return np.asarray(place[None, :] < sizes[:, None])


def deletion_masks(scores: ArrayLike, numbers: ArrayLike) -> Keep:
    """Return presence (k, n) without the units of the highest scores (n,), as many as `numbers` (k,) says.

    >>> deletion_masks([0.1, 3.0, 2.0], [1, 2]).astype(int).tolist()
    [[1, 0, 1], [1, 0, 0]]
    """
    return ~insertion_masks(scores, numbers)


def aopc(probability: float, curve: ArrayLike) -> float:
    """Return the mean drop from the probability of the whole text to those of a curve (k,).

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
    score: str = "removal",
    fractions: Sequence[float] = ERASER,
    step: int | None = None,
) -> list[Perturbation | None]:
    """Return deletion and insertion of each explanation; None where its text has one unit only.

    explanations: of any texts by any methods; `explainer` holds the model that was explained, which is asked once about all of
    them. score: as `Explanation.scores` takes it. step: takes every so-many-th number of units in place of the fractions, much
    as the code of the SLALOM paper does (5). A fraction of 1 asks about no unit at all, which not every model can answer.
    """
    given = several(explanations)
    if not explainer.model.head.probabilistic:
        raise InputError(f"{explainer.model.name} has no probabilities, which this measure is about; use a model that has them")
    exclusive = explainer.model.head.kind == "classes"
    long = [one for one in given if len(one) > 1]
    plans: list[tuple[NDArray[np.int64], Keep]] = []
    for one in long:
        numbers = fractions_of(len(one), fractions) if step is None else steps_of(len(one), step)
        order = _order(one, score, exclusive)
        whole_text = np.ones((1, len(one)), dtype=bool)
        plans.append((numbers, np.concatenate([whole_text, deletion_masks(order, numbers), insertion_masks(order, numbers)])))
    found: dict[int, Perturbation] = {}
    for one, (numbers, _), scores in zip(long, plans, explainer.ask_many(long, [keep for _, keep in plans]), strict=True):
        p = _probabilities(scores, _side(one, exclusive))
        gone, kept = p[1 : 1 + len(numbers)], p[1 + len(numbers) :]
        found[id(one)] = Perturbation(aopc(p[0], gone), aopc(p[0], kept), float(p[0]), numbers, gone, kept)
    return [found.get(id(one)) for one in given]


def _side(one: Explanation, exclusive: bool) -> int:
    """Return 1 where the model predicts the target, -1 where it predicts the opposite; the first column, of all classes."""
    if one.values.ndim == 2:
        return int(np.argmax(one.score))
    if exclusive and len(one.labels) > 2:
        if one.prediction is not None and one.prediction[0] != one.target:
            raise InputError(
                f"the model predicts {one.prediction[0]!r}, and this explanation is of {one.target!r}, one of several classes;"
                " explain the predicted class (target=None) or all (target='all')"
            )
        return 1
    return 1 if float(one.score) >= 0 else -1


def _order(one: Explanation, score: str, exclusive: bool) -> Floats:
    """Return what the units are ranked by."""
    if unsigned(one, score):
        return magnitude(one, score)
    side = _side(one, exclusive)
    return one.scores(score, side) if one.values.ndim == 2 else side * one.scores(score)


def _probabilities(scores: Floats, side: int) -> Floats:
    """Return the probability of the predicted class from log odds (m,), or from centred logits (m, n_classes)."""
    return np.asarray(expit(side * scores) if scores.ndim == 1 else softmax(scores, axis=1)[:, side])
