"""Small functions that results share: numbers as text, presence of units, versions."""

from collections.abc import Mapping, Sequence
from functools import cache
from importlib import metadata
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.errors import InputError

NORMAL_95 = NormalDist().inv_cdf(0.975)  # half the width of a 95% interval, in standard errors: 1.96
_CLASSES = 4  # that are named where all are explained


def number(value: Any, labels: Sequence[str] = ()) -> str:
    """Format a score with its sign; of one per class the strongest, with the names of their classes.

    Example:
        >>> number(0.5), number([0.5, -1.0], ["sport", "arts"]), number([1, 2, 3, 4, 5], "abcde")
        ('+0.500', 'arts -1.00, sport +0.50', 'e +5.00, d +4.00, c +3.00, b +2.00, 1 more')
    """
    if np.ndim(value) == 0:
        return f"{float(value):+.3f}"
    numbers = np.round(value, 2) + 0.0
    order = np.argsort(-np.abs(numbers), kind="stable")
    more = [f"{len(order) - _CLASSES} more"] if len(order) > _CLASSES else []
    return ", ".join([*(f"{labels[c]} {numbers[c]:+.2f}" for c in order[:_CLASSES]), *more])


def occurrence(units: Sequence[str], i: int) -> str:
    """Return what tells a unit from others of its name.

    Example:
        >>> [f"{unit}{occurrence('to be or not to be'.split(), i)}" for i, unit in enumerate(["to", "be", "or"])]
        ['to (1)', 'be (1)', 'or']
    """
    return f" ({units[: i + 1].count(units[i])})" if units.count(units[i]) > 1 else ""


def shortened(name: str, most: int) -> str:
    """Return a name of so many characters at most."""
    return name if len(name) <= most else f"{name[: most - 1]}…"


def presence(keep: ArrayLike, n: int) -> NDArray[np.bool_]:
    """Return which of n units are present, (m, n) or (n,): booleans, or 0 and 1, checked."""
    try:
        mask = np.asarray(keep)
    except ValueError as error:
        raise InputError(f"keep must be an array (m, {n}); its rows differ in length") from error
    if mask.ndim not in (1, 2) or mask.shape[-1] != n:
        raise InputError(f"keep must have shape (m, {n}), one column for each unit; got {mask.shape}")
    if mask.dtype != bool and not (mask.dtype.kind in "iuf" and np.isin(mask, (0, 1)).all()):
        raise InputError("keep must hold True and False, or 1 and 0: whether each unit is kept; it holds something else")
    return mask.astype(bool)


@cache
def versions(*packages: str) -> Mapping[str, str]:
    """Return the versions of the packages that are installed, by name."""
    installed = {}
    for package in packages:
        try:
            installed[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return installed


def normal_quantile(level: float) -> float:
    """Return how many standard errors an interval reaches to each side."""
    if not 0.0 < level < 1.0:
        raise InputError(f"level must be a number between 0 and 1, such as 0.95; got {level!r}")
    return NormalDist().inv_cdf(0.5 + 0.5 * level)


def duration(seconds: float) -> str:
    """Return a time as text, without exponents.

    Example:
        >>> duration(0.0312), duration(1.26), duration(130.4), duration(3120)
        ('0.031 s', '1.3 s', '130 s', '52 min')
    """
    if seconds >= 599.5:
        return f"{seconds / 60:.0f} min"
    return f"{seconds:.2g} s" if seconds < 99.5 else f"{seconds:.0f} s"
