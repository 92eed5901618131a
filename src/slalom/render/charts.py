"""What figures and interactive pages show alike: limits of the scatter, what is known of a number, pairs, names of rows."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.evaluate import MEASURES, Compared
from slalom.result import NORMAL_95, Explanation

_MOST = 0.5  # of the attention of the units: what the limits must hold to be followed
_NEAR = 0.75  # of the range: zero is on an axis if it is no further away

Row = tuple[str, int | str | None]  # a method and its budget, which may be "auto"


class ScatterFrame(NamedTuple):
    """What the picture of value (x) and importance (y) shows.

    Attributes:
        x, y: Lowest and highest number that must be inside, without margins; units outside are at the edge.
        pale: Units whose value or importance the queries do not determine (n,).
    """

    x: tuple[float, float]
    y: tuple[float, float]
    pale: NDArray[np.bool_]


def scatter_frame(e: Explanation, column: int | None = None) -> ScatterFrame:
    """Return the limits of the picture, so that values that nobody knows do not decide them.

    Values ask for room by their `known_part`. Where these limits hold less than half of the units' attention, all values are
    inside. All importances are.
    """
    values, weights = e.scores("value", label_of(e, column)), e.weights
    low, high = x = _range(known_part(values, half_width(e, "value", column)), 1.0)
    if weights[(low <= values) & (values <= high)].sum() < _MOST * weights.sum():
        x = _range(values, 1.0)
    return ScatterFrame(x, _range(e.importances, 0.5), ~_determined(e, column))


def _determined(e: Explanation, column: int | None) -> NDArray[np.bool_]:
    """Return which units (n,) have a value and an importance that the queries determine; all where nothing is known of it."""
    known = (e.determined(name, label_of(e, column)) for name in ("value", "importance"))
    return np.asarray(np.all([np.ones(len(e), dtype=bool), *(part for part in known if part is not None)], axis=0))


def half_width(e: Explanation, name: str, column: int | None = None) -> Floats | None:
    """Return half the 95% intervals of a score (n,); None where they are not known."""
    errors = e.standard_errors(name, label_of(e, column))
    return None if errors is None else np.nan_to_num(NORMAL_95 * errors, nan=np.inf, posinf=np.inf)


def full_effect(e: Explanation, name: str, column: int | None = None) -> float:
    """Return the size of a score that has the full colour, `Explanation.full_effect`."""
    return e.full_effect(name, label_of(e, column))


def label_of(e: Explanation, column: int | None) -> str | None:
    """Return the label of a column: an index could be read as a label where labels are numbers."""
    return None if column is None else e.labels[column]


def known_part(numbers: Floats, half: Floats | None) -> Floats:
    """Return how much of each number is known: x min(1, |x| / h), all of it where the interval x +- h does not contain zero.

    >>> known_part(np.array([8.0, -20.0, 3.0]), np.array([1.0, 40.0, np.inf])).tolist()
    [8.0, -10.0, 0.0]
    """
    if half is None:
        return numbers
    share = np.divide(np.abs(numbers), half, out=np.ones_like(numbers), where=~(half <= np.abs(numbers)))
    return np.asarray(numbers * np.nan_to_num(share))


def _range(numbers: Floats, flat: float) -> tuple[float, float]:
    """Return the lowest and the highest number, and zero if it is near; `flat` is the least width of a range without one."""
    low, high = float(numbers.min()), float(numbers.max())
    near = _NEAR * ((high - low) or max(flat, 1.4 * abs(high)))
    return (min(low, 0.0), max(high, 0.0)) if low - near <= 0.0 <= high + near else (low, high)


class PairBar(NamedTuple):
    """Two units that act together.

    Attributes:
        units: Their indices.
        effect: Effect of both beyond the sum of their own effects.
        half_width: Half its 95% interval.
    """

    units: tuple[int, int]
    effect: float
    half_width: float


def pair_bars(pairs: Sequence[Any], column: int | None = None) -> list[PairBar]:
    """Return pairs of units as bars, the strongest first.

    >>> [bar.units for bar in pair_bars([((0, 1), 0.5, 0.1), ((1, 3), -2.0, 0.2)])]
    [(1, 3), (0, 1)]
    """

    def number(part: Any) -> float:
        return float(part if column is None or np.ndim(part) == 0 else part[column])

    bars = [
        PairBar((int(i), int(j)), number(effect), 0.0 if se is None else NORMAL_95 * number(se)) for (i, j), effect, se in pairs
    ]
    return sorted(bars, key=lambda pair: -abs(pair.effect))


def row_name(compared: Compared, row: Row) -> str:
    """Return the method, with its budget where it was given several."""
    method, budget = row
    several = sum(name == method for name, _ in compared.rows) > 1
    return f"{method} {budget}" if several and budget is not None else method


def measure_label(measure: str) -> str:
    """Return the name with the direction that is better."""
    more = MEASURES[measure][0]
    return measure if more is None else f"{measure} ({'more' if more else 'less'} is better)"
