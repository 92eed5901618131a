"""Statistics over texts: means with standard errors, paired comparisons, correction for several comparisons.

    se = sd / sqrt(n),  sd with n - 1        95% interval: mean +- t_(n-1)(0.975) se
    compare_paired: d_i = a_i - b_i, text by text

Texts whose number is None or NaN are left out and counted as missing.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import t, wilcoxon

from slalom.core.checks import Floats, real_array
from slalom.errors import InputError

_RESAMPLES = 10_000  # of the texts, for an interval


class Summary(NamedTuple):
    """Mean and standard error over texts.

    Attributes:
        mean: Mean; None without any number.
        se: Standard error of the mean; None for fewer than two numbers.
        n: Texts with a number.
        missing: Texts without one.
    """

    mean: float | None
    se: float | None
    n: int
    missing: int

    @property
    def half_width(self) -> float | None:
        """Half the 95% interval of the mean, by Student's t with n - 1 degrees of freedom; None for fewer than two numbers."""
        return None if self.se is None else float(t.ppf(0.975, self.n - 1)) * self.se


class PairedComparison(NamedTuple):
    """The difference a - b over the texts that have both numbers.

    Attributes:
        difference: Mean difference.
        se: Its standard error; None for one text.
        low: Lower end of the 95% bootstrap interval of the mean.
        high: Upper end.
        p: Two-sided p value of Wilcoxon's signed-rank test; 1 where all differences are 0.
        higher: Texts where a is above b, where they are equal, where a is below b, with both numbers, and left out.
    """

    difference: float
    se: float | None
    low: float
    high: float
    p: float
    higher: int
    equal: int
    lower: int
    n: int
    missing: int


def summarize(values: Iterable[float | None]) -> Summary:
    """Return the mean and the standard error of one number per text; None or NaN where there is none.

    Raises:
        InputError: If a value is not a number, or infinite.

    Example:
        >>> summarize([1.0, None, 3.0])
        Summary(mean=2.0, se=1.0, n=2, missing=1)
        >>> round(summarize([1.0, 2.0, 3.0]).half_width, 3)  # 4.30 standard errors; 1.96 of many texts
        2.484
    """
    numbers = _numbers("values", values)
    present = numbers[~np.isnan(numbers)]
    n = len(present)
    return Summary(float(present.mean()) if n else None, _standard_error(present), n, len(numbers) - n)


def compare_paired(a: Iterable[float | None], b: Iterable[float | None]) -> PairedComparison:
    """Return how two methods differ on the same texts.

    Args:
        a: One number per text, of the first method.
        b: Those of the second method, in the same order.

    Raises:
        InputError: If there is no text with both numbers.

    Example:
        >>> pair = compare_paired([2.0, 3.0, 5.0], [1.0, 1.0, 1.0])
        >>> pair.higher, round(pair.difference, 3)
        (3, 2.333)
    """
    first, second = _numbers("a", a), _numbers("b", b)
    if len(first) != len(second):
        raise InputError(f"a and b must be of the same texts; got {len(first)} and {len(second)} numbers")
    d = first - second
    d = d[~np.isnan(d)]
    n = len(d)
    if n == 0:
        raise InputError(f"a and b must have at least one text with both numbers; got none of {len(first)}")
    rng, block = np.random.default_rng(0), max(1, 4_000_000 // n)  # texts drawn at once
    means = [d[rng.integers(0, n, (min(block, _RESAMPLES - k), n))].mean(axis=1) for k in range(0, _RESAMPLES, block)]
    low, high = np.quantile(np.concatenate(means), [0.025, 0.975]).tolist()
    p = float(wilcoxon(d[d != 0]).pvalue) if d.any() else 1.0
    higher, equal, lower = int((d > 0).sum()), int((d == 0).sum()), int((d < 0).sum())
    return PairedComparison(float(d.mean()), _standard_error(d), low, high, p, higher, equal, lower, n, len(first) - n)


def holm(p: ArrayLike) -> Floats:
    """Return p values (k,) corrected for several comparisons by Holm's method.

        p_(i) -> max over j <= i of min(1, (k - j + 1) p_(j)), from the smallest up

    Raises:
        InputError: If a value is outside 0 to 1.

    Example:
        >>> holm([0.01, 0.04, 0.03]).round(6).tolist()
        [0.03, 0.06, 0.06]
    """
    values = real_array("p", p, (1,))
    if (values < 0).any() or (values > 1).any():
        raise InputError("p values must be from 0 to 1")
    order, k = np.argsort(values, kind="stable"), len(values)
    corrected = np.empty(k)
    corrected[order] = np.minimum(np.maximum.accumulate((k - np.arange(k)) * values[order]), 1.0)
    return corrected


def _numbers(name: str, values: Iterable[float | None]) -> Floats:
    """Return numbers (n,), NaN where one is missing."""
    try:
        numbers = np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers, one per text, None where there is none; {error}") from error
    if np.isinf(numbers).any():
        raise InputError(f"{name} must be finite, or None where there is no number; got an infinite one")
    return numbers


def _standard_error(numbers: Floats) -> float | None:
    return float(numbers.std(ddof=1) / np.sqrt(len(numbers))) if len(numbers) > 1 else None
