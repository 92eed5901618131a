"""From one number a text to a statement: means with standard errors, paired comparisons, several comparisons at once.

    se = sd / sqrt(n),  sd with n - 1        compare: d_i = a_i - b_i, text by text

A text for which a number is None or NaN is left out and counted.
"""

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import wilcoxon

from slalom.core.checks import Floats, real_array
from slalom.errors import InputError
from slalom.evaluate.checks import whole


class Summary(NamedTuple):
    """Mean and standard error over n texts; None where there are too few. missing: texts without a number."""

    mean: float | None
    se: float | None
    n: int
    missing: int


class Comparison(NamedTuple):
    """The difference a - b over n texts that have both numbers.

    difference, se: its mean and standard error. low, high: bootstrap interval of the mean. p: of Wilcoxon's signed-rank test,
    two-sided, 1 where all differences are 0. higher, equal, lower: texts where a is above, at or below b. missing: texts
    left out.
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
    """Return the mean and the standard error of one number a text.

    >>> summarize([1.0, None, 3.0])
    Summary(mean=2.0, se=1.0, n=2, missing=1)
    """
    every = _numbers("values", values)
    there = every[~np.isnan(every)]
    n = len(there)
    return Summary(float(there.mean()) if n else None, _error(there), n, len(every) - n)


def compare(
    a: Iterable[float | None], b: Iterable[float | None], *, level: float = 0.95, resamples: int = 10_000, seed: int = 0
) -> Comparison:
    """Return how method a differs from method b on the same texts, in the same order.

    level: of the interval, percentiles of the means of so many `resamples` of texts, drawn with `seed`.
    """
    first, second = _numbers("a", a), _numbers("b", b)
    if len(first) != len(second):
        raise InputError(f"a and b must be of the same texts; got {len(first)} and {len(second)} numbers")
    if not 0.0 < float(real_array("level", level, (0,))) < 1.0:
        raise InputError(f"level must be between 0 and 1; got {level!r}")
    rng = np.random.default_rng(whole("seed", seed, 0))
    d = first - second
    d = d[~np.isnan(d)]
    n = len(d)
    if n == 0:
        raise InputError(f"a and b must have at least one text with both numbers; got none of {len(first)}")
    resamples = whole("resamples", resamples, 1)
    block = max(1, 4_000_000 // n)  # texts drawn at once
    means = [d[rng.integers(0, n, (min(block, resamples - k), n))].mean(axis=1) for k in range(0, resamples, block)]
    low, high = np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2])
    other = d[d != 0]
    p = float(wilcoxon(other).pvalue) if len(other) else 1.0
    higher, lower = int((d > 0).sum()), int((d < 0).sum())
    missing = len(first) - n
    return Comparison(float(d.mean()), _error(d), float(low), float(high), p, higher, n - higher - lower, lower, n, missing)


def holm(p: ArrayLike) -> Floats:
    """Return p values (k,) corrected for k comparisons by Holm's method: reject where the corrected one is small enough.

    p_(i) -> max over j <= i of min(1, (k - j + 1) p_(j)), from the smallest up.

    >>> holm([0.01, 0.04, 0.03]).round(6).tolist()
    [0.03, 0.06, 0.06]
    """
    given = real_array("p", p, (1,))
    if (given < 0).any() or (given > 1).any():
        raise InputError("p values must be from 0 to 1")
    order, k = np.argsort(given, kind="stable"), len(given)
    corrected = np.empty(k)
    corrected[order] = np.minimum(np.maximum.accumulate((k - np.arange(k)) * given[order]), 1.0)
    return corrected


def _numbers(name: str, values: Iterable[float | None]) -> Floats:
    """Return numbers (n,), NaN where one is missing."""
    try:
        every = np.array([np.nan if value is None else float(value) for value in values], dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise InputError(f"{name} must be numbers, one a text, None where there is none; {error}") from error
    if np.isinf(every).any():
        raise InputError(f"{name} must be finite, or None where there is no number; got an infinite one")
    return every


def _error(there: Floats) -> float | None:
    return float(there.std(ddof=1) / np.sqrt(len(there))) if len(there) > 1 else None
