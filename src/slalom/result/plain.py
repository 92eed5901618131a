"""Small things that results need: numbers in words, presence of units, data frames, files."""

from collections.abc import Mapping
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from slalom.errors import InputError, require
from slalom.files import write_text

NORMAL_95 = 1.96  # standard errors in half of a 95% interval


def number(value: Any) -> str:
    """Write a score with its sign, or one per class."""
    numbers = np.atleast_1d(value)
    return f"{numbers[0]:+.3f}" if len(numbers) == 1 else "(" + ", ".join(f"{x:+.2f}" for x in numbers) + ")"


def written(page: str, path: str | Path | None) -> str:
    """Return a page, and write it to a file where one is named."""
    if path is not None:
        write_text(path, page)
    return page


def pandas() -> Any:
    """Return the module pandas; MissingExtra where it is not installed."""
    with require("to_pandas", "pandas"):
        import pandas as found  # noqa: PLC0415
    return found


def frame(columns: dict[str, Any]) -> Any:
    """Return a data frame of those columns that there are."""
    return pandas().DataFrame({name: column for name, column in columns.items() if column is not None})


def presence(keep: ArrayLike, n: int) -> NDArray[np.bool_]:
    """Return presence of n units as an array (m, n) or (n,); InputError where it is not that."""
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
    """Return the versions of those packages that are installed."""
    found = {}
    for package in packages:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
