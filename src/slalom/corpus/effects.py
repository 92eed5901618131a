"""Mean effects over texts with their intervals, from sums.

mean = s1 / n,   var = (s2 - s1^2 / n) / (n - 1),   interval: mean +- t_{0.975, n-1} sqrt(var / n)
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtrit

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
