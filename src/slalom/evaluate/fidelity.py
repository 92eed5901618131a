"""Strict fidelity: does the explanation predict, in numbers, what the model does when parts of the text are gone?

    near:  MSE = mean over masks of (predicted change - observed change)^2,   change = score(mask) - score(whole text)
    far:   1 - R2 = sum (predicted - observed)^2 / sum (observed - mean observed)^2

The score is the log odds of the target. Near masks lack 1 to K units (Figure 6 of the SLALOM paper: K = 10, error by the number
of removed units); far masks are subsets of all sizes. Of several classes the squares are added up. Predictions are those of
`Explanation.predict`; a method whose scores have no sign predicts nothing and is left out.
"""

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.evaluate.checks import paired, several, whole
from slalom.explainer import Explainer
from slalom.result import Explanation
from slalom.text.samplers import removed

Keep = NDArray[np.bool_]


class Strict(NamedTuple):
    """How well one explanation predicts its model.

    near: mean squared error of the change of the score, None where the text has one unit only. profile: the same for each
    number of removed units. far: 1 - R2 on subsets of all sizes, None where the model's answers do not vary.
    """

    near: float | None
    profile: Mapping[int, float]
    far: float | None


def removals(n: int, most: int, per: int, rng: np.random.Generator) -> Keep:
    """Return presence (K per, n) with 1, ..., K = min(most, n - 1) of n units removed at random, `per` rows of each number.

    Rows are independent: one may come twice. At least one unit is always left; of a single unit there are no rows.

    >>> removals(4, 2, 2, np.random.default_rng(0)).sum(axis=1).tolist()
    [3, 3, 2, 2]
    """
    n, most, per = whole("n", n, 1), whole("most", most, 1), whole("per", per, 1)
    top = min(most, n - 1)
    return removed(n, np.repeat(np.arange(1, top + 1), per), rng) if top else np.zeros((0, n), dtype=bool)


def subsets(n: int, number: int, rng: np.random.Generator) -> Keep:
    """Return presence (number, n) of random subsets, their sizes drawn evenly from 1 to n - 1; of a single unit no rows."""
    n, number = whole("n", n, 1), whole("number", number, 1)
    return removed(n, rng.integers(1, n, number), rng) if n > 1 else np.zeros((0, n), dtype=bool)


def strict_fidelity(predicted: ArrayLike, observed: ArrayLike) -> float:
    """Return the mean squared error of predicted changes of the score (m,) or (m, n_classes); 0 is perfect.

    >>> strict_fidelity([1.0, 2.0], [1.0, 4.0])
    2.0
    """
    return float(_squares(predicted, observed).mean())


def fidelity_profile(predicted: ArrayLike, observed: ArrayLike, gone: ArrayLike) -> dict[int, float]:
    """Return the mean squared error for each number of removed units; gone (m,): how many each row lacks.

    >>> fidelity_profile([1.0, 2.0, 0.0], [1.0, 4.0, 3.0], [1, 1, 2])
    {1: 2.0, 2: 9.0}
    """
    squares = _squares(predicted, observed)
    numbers = np.asarray(gone)
    if numbers.shape != squares.shape or numbers.dtype.kind not in "iu" or (numbers < 1).any():
        raise InputError(f"gone must hold {len(squares)} integers of at least 1, one a row; got shape {numbers.shape}")
    return {int(k): float(squares[numbers == k].mean()) for k in np.unique(numbers)}


def unexplained(predicted: ArrayLike, observed: ArrayLike) -> float | None:
    """Return 1 - R2 of predicted scores (m,) or (m, n_classes): 0 is perfect, 1 no better than a constant, above 1 worse.

    None where the observed scores do not vary.

    >>> unexplained([0.0, 1.0, 2.0], [0.0, 2.0, 4.0])
    0.625
    """
    squares = _squares(predicted, observed)
    truth = np.asarray(observed, dtype=np.float64)
    spread = float(((truth - truth.mean(axis=0)) ** 2).sum())
    return float(squares.sum()) / spread if spread > 1e-20 * float((truth**2).sum()) else None


def masks(text: str, n: int, *, most: int = 10, per: int = 10, number: int = 100, seed: int = 0) -> tuple[Keep, Keep]:
    """Return the removals and the subsets that test explanations of a text with n units.

    They depend on the text, n and the seed: every method is tested by the same ones, whatever its own seed.
    """
    if not isinstance(text, str):
        raise InputError(f"a text must be a string; got {type(text).__name__}")
    digest = np.frombuffer(sha256(text.encode("utf-8", "surrogatepass")).digest(), dtype=np.uint32).tolist()
    near, far = (np.random.default_rng([whole("seed", seed, 0), kind, *digest]) for kind in (0, 1))
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
    """Return near and far errors of each explanation; None where its scores have no sign, as they then predict nothing.

    explanations: of any texts by any methods; `explainer` holds the model that was explained. All queries go to it at once, and
    methods that explain one text in the same units share them. most, per: 1 to `most` units removed, `per` times each (the
    paper: 10 and 100). number: of subsets. seed: of both.
    """
    given = several(explanations)
    numbers = whole("most", most, 1), whole("per", per, 1), whole("number", number, 1), whole("seed", seed, 0)
    first: dict[tuple[object, ...], Explanation] = {}
    for one in given:
        if one.signed:
            first.setdefault(_key(one), one)
    rows = {}
    for key, one in first.items():
        near, far = masks(one.text, len(one), most=numbers[0], per=numbers[1], number=numbers[2], seed=numbers[3])
        rows[key] = np.concatenate([np.ones((1, len(one)), dtype=bool), near, far]), len(near)
    answers = explainer.ask_many(list(first.values()), [keep for keep, _ in rows.values()])
    observed = dict(zip(first, answers, strict=True))
    return [_judged(one, *rows[_key(one)], observed[_key(one)]) if one.signed else None for one in given]


def _key(one: Explanation) -> tuple[object, ...]:
    return one.text, one.units, one.target


def _judged(one: Explanation, keep: Keep, near: int, observed: Floats) -> Strict:
    """Row 0 is the whole text, then come the near rows, then the far ones."""
    if not near:
        return Strict(None, {}, None)
    predicted = one.predict(keep)
    change = predicted[1 : 1 + near] - predicted[0], observed[1 : 1 + near] - observed[0]
    profile = fidelity_profile(*change, (~keep[1 : 1 + near]).sum(axis=1))
    return Strict(strict_fidelity(*change), profile, unexplained(predicted[1 + near :], observed[1 + near :]))


def _squares(predicted: ArrayLike, observed: ArrayLike) -> Floats:
    """Return the squared error of each row."""
    guess, truth = paired(("predicted", predicted), ("observed", observed), (1, 2))
    squares = (guess - truth) ** 2
    return np.asarray(squares if squares.ndim == 1 else squares.sum(axis=1))
