"""Strict fidelity: does the explanation predict the model's scores when parts of the text are removed?

    near:  MSE = mean over rows of (predicted change - observed change)^2,   change = score(row) - score(whole text)
    far:   1 - R2 = sum (predicted - observed)^2 / sum (observed - mean observed)^2

The score is the log odds of the target. Near rows remove 1 to K units (SLALOM paper, Figure 6: K = 10, error by the number
of removed units); far rows are subsets of all sizes. Squares are summed over classes. Predictions are those of
`Explanation.predict`; a method whose scores have no sign predicts nothing and is left out.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats, whole_number
from slalom.errors import InputError
from slalom.evaluate.checks import several
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


def masks(text: str, n: int, *, most: int = 10, per: int = 10, number: int = 100, seed: int = 0) -> tuple[Keep, Keep]:
    """Return the rows that test explanations of a text.

    They depend on the text, n and the seed only, so that every method is tested on the same rows. Rows may repeat.

    Args:
        text: The text.
        n: Its number of units.
        most: Largest number of units to remove; at least one is kept.
        per: Near rows per number of removed units.
        number: Number of far rows, with sizes drawn uniformly from 1 to n - 1.
        seed: Seed of both.

    Returns:
        Presence of the near rows (most * per, n) and of the far ones (number, n); none where n is 1.

    Raises:
        InputError: If an argument is out of range.
    """
    if not isinstance(text, str):
        raise InputError(f"a text must be a string; got {type(text).__name__}")
    for name, value in (("n", n), ("most", most), ("per", per), ("number", number)):
        whole_number(name, value, 1)
    digest = np.frombuffer(sha256(text.encode("utf-8", "surrogatepass")).digest(), dtype=np.uint32).tolist()
    near, far = (np.random.default_rng([whole_number("seed", seed, 0), kind, *digest]) for kind in (0, 1))
    if n == 1:
        return np.zeros((0, 1), dtype=bool), np.zeros((0, 1), dtype=bool)
    numbers = np.repeat(np.arange(1, min(most, n - 1) + 1), per)
    return removed(n, numbers, near), removed(n, far.integers(1, n, number), far)


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
        most: Near rows have 1 to `most` units removed (the paper: 10).
        per: Near rows per number of removed units (the paper: 100).
        number: Number of far rows.
        seed: Seed of the rows.

    Returns:
        One result per explanation; None where its scores have no sign and predict nothing.

    Raises:
        InputError: If an argument is out of range, or `explainer` has another model.
    """
    items = several(explanations)
    first = {_key(e): e for e in reversed(items) if e.signed}
    rows = {key: masks(e.text, len(e), most=most, per=per, number=number, seed=seed) for key, e in first.items()}
    keeps = [np.concatenate([np.ones((1, len(e)), dtype=bool), *rows[key]]) for key, e in first.items()]
    scores = dict(zip(first, explainer.ask_many(list(first.values()), keeps), strict=True))
    return [_errors(e, *rows[_key(e)], scores[_key(e)]) if e.signed else None for e in items]


def _key(e: Explanation) -> tuple[object, ...]:
    return e.text, e.units, e.target


def _errors(e: Explanation, near: Keep, far: Keep, scores: Floats) -> Strict:
    """Return the errors where the scores are those of the whole text, of the near rows and of the far rows."""
    if not len(near):
        return Strict(None, {}, None)
    whole, observed_near, observed_far = np.split(scores, [1, 1 + len(near)])
    changes = e.predict(near) - e.predict(np.ones(len(e), dtype=bool))
    squares, numbers = _squares(changes - (observed_near - whole)), (~near).sum(axis=1)
    profile = {int(k): float(squares[numbers == k].mean()) for k in np.unique(numbers)}
    variance = float(_squares(observed_far - observed_far.mean(axis=0)).sum())
    constant = variance <= 1e-20 * float((observed_far**2).sum())
    unexplained = None if constant else float(_squares(e.predict(far) - observed_far).sum()) / variance
    return Strict(float(squares.mean()), profile, unexplained)


def _squares(errors: Floats) -> Floats:
    """Return the squared error of each row (m,) of errors (m,) or (m, n_classes)."""
    return np.asarray((errors**2).reshape(len(errors), -1).sum(axis=1))
