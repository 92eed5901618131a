"""Area over the perturbation curve: what happens to the predicted class when the top units are removed, or kept alone?

    deletion  (comprehensiveness) = p(text) - mean_k p(text without its top k)     higher is better
    insertion (sufficiency)       = p(text) - mean_k p(its top k alone)            lower is better

p is the probability of the class that the model predicts for the whole text. The numbers k are fractions of the n units, as in
ERASER (DeYoung et al., 2020: 1, 5, 10, 20 and 50%, rounded up), or every `step`-th number from `step` to below n. The ERASER
paper also counts k = 0, which would scale the deletion by 5/6; here the mean is over the stated k only.

Units are ranked by their scores for the predicted class, highest first (removal; Shapley values for the surrogate of `joint`
and its parts, as up to half of the text goes at once); importances and methods without signs by magnitude. Units with equal
scores keep the order of the text.
"""

from collections.abc import Iterable, Sequence
from math import ceil
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from slalom.core.checks import Floats, real_array, whole_number
from slalom.errors import InputError
from slalom.evaluate.checks import magnitude, ranking_score, several, unsigned
from slalom.explainer import Explainer
from slalom.result import Explanation

ERASER = (0.01, 0.05, 0.1, 0.2, 0.5)


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
        score: Name of a score, as `Explanation.scores` takes it. Default: "shapley" for a surrogate with parts (`joint`), whose
            removal tells of one unit at a time, else "removal".
        fractions: Fractions of the units to remove or keep. A fraction of 1 queries the empty text, which not every model
            can answer.
        step: Use every `step`-th number of units in place of the fractions; the code of the SLALOM paper uses 5.

    Returns:
        One result per explanation; None for a text of one unit.

    Raises:
        InputError: If an argument is out of range, the model has no probabilities, or an explanation is not of the predicted
            class.
    """
    head = explainer.model.head
    if not head.probabilistic:
        raise InputError(f"{explainer.model.name} has no probabilities, which this measure needs; use a model that has them")
    items, exclusive = several(explanations), head.kind == "classes"
    plans = dict[int, tuple[Explanation, NDArray[np.int64], NDArray[np.bool_]]]()
    for i, e in enumerate(items):
        if len(e) > 1:
            numbers = numbers_of(len(e), fractions, step)
            plans[i] = e, numbers, perturbed(_ranking_scores(e, score or ranking_score(e), exclusive), numbers)
    answers = explainer.ask_many([e for e, _, _ in plans.values()], [keep for _, _, keep in plans.values()])
    results: list[Perturbation | None] = [None] * len(items)
    for (i, (e, numbers, _)), scores in zip(plans.items(), answers, strict=True):
        side = _side(e, exclusive)
        p = expit(side * scores) if scores.ndim == 1 else softmax(scores, axis=1)[:, side]
        deleted, inserted = np.split(p[1:], 2)
        areas = float(p[0] - deleted.mean()), float(p[0] - inserted.mean())
        results[i] = Perturbation(*areas, float(p[0]), numbers, deleted, inserted)
    return results


def numbers_of(n: int, fractions: Sequence[float] = ERASER, step: int | None = None) -> NDArray[np.int64]:
    """Return the numbers (k,) of n > 1 units of the fractions, rounded up; or step, 2 step, ... below n, at least n - 1."""
    if step is not None:
        return np.arange(min(whole_number("step", step, 1), n - 1), n, step)
    shares = real_array("fractions", fractions, (1,))
    if len(shares) == 0 or (shares <= 0).any() or (shares > 1).any():
        raise InputError(f"fractions must be one or more numbers above 0, at most 1; got {fractions!r}")
    return np.array([n if f == 1 else min(ceil(f * n - 1e-9), n - 1) for f in shares.tolist()], dtype=np.int64)


def perturbed(scores: Floats, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
    """Return rows (1 + 2 k, n): all units, then all without the top ones by their scores (n,), then those alone."""
    rank = np.empty(len(scores), dtype=np.int64)
    rank[np.argsort(-scores, kind="stable")] = np.arange(len(scores))
    top = rank < numbers[:, None]
    return np.concatenate([np.ones((1, len(scores)), dtype=bool), ~top, top])


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
