"""Sums over texts for very many keys in bounded memory.

`Sketch` counts occurrences in an array of fixed size: what it says of a key is never too small, so leaving out the keys that it
says are rare loses none that are frequent. `Moments` adds up rows of numbers by key.

    mean = s1 / n,   var = (s2 - s1^2 / n) / (n - 1),   interval: mean +- t_{0.975, n-1} sqrt(var / n)
"""

from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from slalom.core.checks import Floats
from slalom.corpus.words import Keys

_BITS = 24  # of a sketch: 64 MiB
_PENDING = 1_500_000  # rows that wait to be added up
LEVEL = 0.975  # both ends of a 95% interval


class Effect(NamedTuple):
    """Mean effect over texts.

    Attributes:
        texts: Texts that it is a mean of.
        mean: Mean; None without a text.
        sd: Standard deviation over texts; None for fewer than two.
        low: Lower end of the 95% interval of the mean (Student's t); None for fewer than two.
        high: Upper end.
    """

    texts: int
    mean: float | None
    sd: float | None
    low: float | None
    high: float | None


def effect_of(n: float, s1: float, s2: float) -> Effect:
    """Return the mean effect from the number of texts, the sum and the sum of squares.

    Example:
        >>> [round(number, 3) for number in effect_of(3, 6.0, 14.0)]  # of 1, 2 and 3
        [3, 2.0, 1.0, -0.484, 4.484]
    """
    if n < 1:
        return Effect(0, None, None, None, None)
    mean = s1 / n
    if n < 2:
        return Effect(int(n), mean, None, None, None)
    sd = float(np.sqrt(max(s2 - s1 * mean, 0.0) / (n - 1)))
    half = float(interval_half(n, sd * sd))
    return Effect(int(n), mean, sd, mean - half, mean + half)


def interval_half(n: Any, variance: Any) -> Any:
    """Return half the width of the 95% interval of a mean over n texts; infinite for fewer than two."""
    return np.where(n > 1, stdtrit(np.maximum(n - 1, 1), LEVEL) * np.sqrt(variance / np.maximum(n, 1)), np.inf)


class Difference(NamedTuple):
    """The difference of two mean effects.

    Attributes:
        difference: First mean minus second.
        low: Lower end of its 95% interval (Welch).
        high: Upper end.
    """

    difference: float
    low: float
    high: float


def difference(a: Effect, b: Effect) -> Difference | None:
    """Return the difference of two means over disjoint texts, by Welch's method; None for fewer than two texts in one.

    Example:
        >>> [round(number, 3) for number in difference(effect_of(3, 6.0, 14.0), effect_of(3, 0.0, 2.0))]
        [2.0, -0.267, 4.267]
    """
    if a.mean is None or b.mean is None or a.sd is None or b.sd is None:
        return None
    first, second = a.sd**2 / a.texts, b.sd**2 / b.texts
    variance, gap = first + second, a.mean - b.mean
    if variance == 0.0:
        return Difference(gap, gap, gap)
    freedom = variance**2 / (first**2 / (a.texts - 1) + second**2 / (b.texts - 1))
    half = float(stdtrit(freedom, LEVEL)) * variance**0.5
    return Difference(gap, gap - half, gap + half)


@final
class Sketch:
    """Counts occurrences of keys, at least as many as there are."""

    def __init__(self) -> None:
        self._counts = np.zeros(1 << _BITS, dtype=np.uint32)

    def add(self, keys: Keys) -> None:
        """Count keys."""
        np.add.at(self._counts, keys >> np.uint64(64 - _BITS), np.uint32(1))

    def frequent(self, keys: Keys, least: int) -> NDArray[np.bool_]:
        """Return which keys may have occurred so often: all that have, and some others."""
        return np.asarray(self._counts[keys >> np.uint64(64 - _BITS)] >= least)

    def threshold(self, least: int, most: int) -> int:
        """Return the smallest number of occurrences, at least `least`, that at most about `most` keys have reached."""
        frequent = np.sort(self._counts[self._counts >= least])
        return least if len(frequent) <= most else int(frequent[len(frequent) - most - 1]) + 1


@final
class Moments:
    """Sums of rows of numbers by key.

    Args:
        columns: Numbers per row.
    """

    def __init__(self, columns: int) -> None:
        self._keys: list[Keys] = [np.zeros(0, dtype=np.uint64)]
        self._sums: list[Floats] = [np.zeros((0, columns))]
        self._pending = 0

    def add(self, keys: Keys, numbers: Floats) -> None:
        """Add rows (m, columns) to the sums of their keys (m,)."""
        self._keys.append(keys)
        self._sums.append(numbers)
        self._pending += len(keys)
        if self._pending > max(_PENDING, len(self._keys[0])):
            self._compact()

    def _compact(self) -> None:
        keys = np.concatenate(self._keys)
        order = np.argsort(keys, kind="stable")
        keys = keys[order]
        heads = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]])) if len(keys) else np.zeros(0, dtype=np.int64)
        sums = np.concatenate(self._sums)[order]
        self._sums = [np.add.reduceat(sums, heads, axis=0) if len(heads) else sums]
        self._keys, self._pending = [keys[heads]], 0

    def result(self) -> tuple[Keys, Floats]:
        """Return the keys in ascending order (k,) and their sums (k, columns)."""
        self._compact()
        return self._keys[0], self._sums[0]
