"""Strict fidelity: does the explanation predict the model's scores when parts of the text are removed?

    near:  MSE = mean over masks of (predicted change - observed change)^2,   change = score(mask) - score(whole text)
    far:   1 - R2 = sum (predicted - observed)^2 / sum (observed - mean observed)^2

The score is the log odds of the target. Near masks remove 1 to K units (SLALOM paper, Figure 6: K = 10, error by the number
of removed units); far masks are subsets of all sizes. Squares are summed over classes. Predictions are those of
`Explanation.predict`; a method whose scores have no sign predicts nothing and is left out.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core.checks import Floats, whole_number
from slalom.errors import InputError
from slalom.evaluate.checks import paired, several
from slalom.explainer import Explainer
from slalom.result import Explanation
from slalom.text.samplers import removed

Keep = NDArray[np.bool_]


class Strict(NamedTuple):
    """How well one explanation predicts its model.

    Attributes:
        near: Mean squared error of the predicted change of the score; None for a text of one unit.
        profile: The same by number of removed units.
        far: 1 - R2 on subsets of all sizes; None where the model's scores are constant.
    """

    near: float | None
    profile: Mapping[int, float]
    far: float | None


def removals(n: int, most: int, per: int, rng: np.random.Generator) -> Keep:
    """Return masks with 1, ..., K = min(most, n - 1) units removed at random.

    Args:
        n: Number of units.
        most: Largest number of units to remove; at least one unit is kept.
        per: Rows per number. Rows are independent and may repeat.
        rng: Random generator.

    Returns:
        Presence (K * per, n); no rows for n = 1.

    Raises:
        InputError: If an argument is out of range.

    Example:
        >>> removals(4, 2, 2, np.random.default_rng(0)).sum(axis=1).tolist()
        [3, 3, 2, 2]
    """
    n, most, per = whole_number("n", n, 1), whole_number("most", most, 1), whole_number("per", per, 1)
    top = min(most, n - 1)
    return removed(n, np.repeat(np.arange(1, top + 1), per), rng) if top else np.zeros((0, n), dtype=bool)


def subsets(n: int, number: int, rng: np.random.Generator) -> Keep:
    """Return masks of random subsets, with sizes drawn uniformly from 1 to n - 1.

    Args:
        n: Number of units.
        number: Number of rows.
        rng: Random generator.

    Returns:
        Presence (number, n); no rows for n = 1.

    Raises:
        InputError: If an argument is out of range.

    Example:
        >>> subsets(4, 3, np.random.default_rng(0)).shape
        (3, 4)
    """
    n, number = whole_number("n", n, 1), whole_number("number", number, 1)
    return removed(n, rng.integers(1, n, number), rng) if n > 1 else np.zeros((0, n), dtype=bool)


def strict_fidelity(predicted: ArrayLike, observed: ArrayLike) -> float:
    """Return the mean squared error of predicted changes of the score; 0 is perfect.

    Args:
        predicted: Predicted changes, (m,) or (m, n_classes).
        observed: Changes of the model's score, of the same shape.

    Raises:
        InputError: If the arrays are empty or differ in shape.

    Example:
        >>> strict_fidelity([1.0, 2.0], [1.0, 4.0])
        2.0
    """
    return float(_squares(predicted, observed).mean())


def fidelity_profile(predicted: ArrayLike, observed: ArrayLike, n_removed: ArrayLike) -> dict[int, float]:
    """Return the mean squared error by number of removed units.

    Args:
        predicted: Predicted changes, (m,) or (m, n_classes).
        observed: Changes of the model's score, of the same shape.
        n_removed: Number of units removed in each row (m,).

    Raises:
        InputError: If the arrays do not fit together.

    Example:
        >>> fidelity_profile([1.0, 2.0, 0.0], [1.0, 4.0, 3.0], [1, 1, 2])
        {1: 2.0, 2: 9.0}
    """
    squares = _squares(predicted, observed)
    numbers = np.asarray(n_removed)
    if numbers.shape != squares.shape or numbers.dtype.kind not in "iu" or (numbers < 1).any():
        raise InputError(f"n_removed must hold {len(squares)} integers of at least 1, one per row; got shape {numbers.shape}")
    return {int(k): float(squares[numbers == k].mean()) for k in np.unique(numbers)}


def unexplained(predicted: ArrayLike, observed: ArrayLike) -> float | None:
    """Return 1 - R2 of predicted scores.

    Args:
        predicted: Predicted scores, (m,) or (m, n_classes).
        observed: Scores of the model, of the same shape.

    Returns:
        0 is perfect, 1 no better than a constant, above 1 worse; None where the observed scores are constant.

    Raises:
        InputError: If the arrays are empty or differ in shape.

    Example:
        >>> unexplained([0.0, 1.0, 2.0], [0.0, 2.0, 4.0])
        0.625
    """
    squares = _squares(predicted, observed)
    truth = np.asarray(observed, dtype=np.float64)
    spread = float(((truth - truth.mean(axis=0)) ** 2).sum())
    return float(squares.sum()) / spread if spread > 1e-20 * float((truth**2).sum()) else None


def masks(text: str, n: int, *, most: int = 10, per: int = 10, number: int = 100, seed: int = 0) -> tuple[Keep, Keep]:
    """Return the removals and subsets that test explanations of a text.

    They depend on the text, n and the seed only, so that every method is tested on the same masks.

    Args:
        text: The text.
        n: Its number of units.
        most: Largest number of units to remove.
        per: Removals per number.
        number: Number of subsets.
        seed: Seed of both.

    Returns:
        Presence of `removals` and of `subsets`.

    Raises:
        InputError: If an argument is out of range.
    """
    if not isinstance(text, str):
        raise InputError(f"a text must be a string; got {type(text).__name__}")
    digest = np.frombuffer(sha256(text.encode("utf-8", "surrogatepass")).digest(), dtype=np.uint32).tolist()
    near, far = (np.random.default_rng([whole_number("seed", seed, 0), kind, *digest]) for kind in (0, 1))
    return removals(n, most, per, near), subsets(n, number, far)


def fidelity(
    explanations: Iterable[Explanation],
    explainer: Explainer,
    *,
    most: int = 10,
    per: int = 10,
    number: int = 100,
    seed: int = 0,
) -> list[Strict | None]:
    """Measure near and far errors of explanations; all queries are sent at once.

    Args:
        explanations: Explanations of any texts by any methods; those of one text in the same units share their queries.
        explainer: An Explainer of the model that was explained.
        most: Near masks have 1 to `most` units removed (the paper: 10).
        per: Near masks per number of removed units (the paper: 100).
        number: Number of far masks.
        seed: Seed of the masks.

    Returns:
        One result per explanation; None where its scores have no sign and predict nothing.

    Raises:
        InputError: If an argument is out of range, or `explainer` has another model.
    """
    items = several(explanations)
    numbers = (
        whole_number("most", most, 1),
        whole_number("per", per, 1),
        whole_number("number", number, 1),
        whole_number("seed", seed, 0),
    )
    first: dict[tuple[object, ...], Explanation] = {}
    for e in items:
        if e.signed:
            first.setdefault(_key(e), e)
    rows = {}
    for key, e in first.items():
        near, far = masks(e.text, len(e), most=numbers[0], per=numbers[1], number=numbers[2], seed=numbers[3])
        rows[key] = np.concatenate([np.ones((1, len(e)), dtype=bool), near, far]), len(near)
    answers = explainer.ask_many(list(first.values()), [keep for keep, _ in rows.values()])
    observed = dict(zip(first, answers, strict=True))
    return [_errors(e, *rows[_key(e)], observed[_key(e)]) if e.signed else None for e in items]


def _key(e: Explanation) -> tuple[object, ...]:
    return e.text, e.units, e.target


def _errors(e: Explanation, keep: Keep, near: int, observed: Floats) -> Strict:
    """Return the errors on rows `keep`: the whole text, then `near` near rows, then the far ones."""
    if not near:
        return Strict(None, {}, None)
    predicted = e.predict(keep)
    change = predicted[1 : 1 + near] - predicted[0], observed[1 : 1 + near] - observed[0]
    profile = fidelity_profile(*change, (~keep[1 : 1 + near]).sum(axis=1))
    return Strict(strict_fidelity(*change), profile, unexplained(predicted[1 + near :], observed[1 + near :]))


def _squares(predicted: ArrayLike, observed: ArrayLike) -> Floats:
    """Return the squared error of each row."""
    guess, truth = paired(("predicted", predicted), ("observed", observed), (1, 2))
    squares = (guess - truth) ** 2
    return np.asarray(squares if squares.ndim == 1 else squares.sum(axis=1))
