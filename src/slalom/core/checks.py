"""Checks of arguments where they enter the core, and small array functions that its files share.

A check returns a clean array or number, or raises an `InputError` of one line that says what must hold and what it got.
"""

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.sparse import issparse

from slalom.errors import InputError

Floats: TypeAlias = NDArray[np.float64]
Counts: TypeAlias = Any  # ArrayLike, or a sparse array of scipy

LARGEST = 1e150  # score that is explained: its square fits into a float, with room for sums


def real_array(name: str, numbers: ArrayLike, ndim: tuple[int, ...]) -> Floats:
    """Return numbers as finite float64 with one of the allowed numbers of dimensions; `name` is for the message."""
    try:
        array = np.asarray(numbers)
        if array.dtype.kind not in "biufO":
            raise TypeError({"c": "complex numbers", "U": "text"}.get(array.dtype.kind, str(array.dtype)))
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{name} must be an array of real numbers; got {type(numbers).__name__}: {error}") from None
    if array.ndim not in ndim:
        dims = " or ".join(str(d) for d in ndim)
        raise InputError(f"{name} must have {dims} dimension(s); got shape {array.shape}")
    if not np.isfinite(array).all():
        where = np.argwhere(~np.isfinite(array))[0].tolist()
        raise InputError(f"{name} must be finite; got {array[tuple(where)]} at index {where}")
    return array


def row_keys(rows: NDArray[Any]) -> list[bytes]:
    """Return the bytes of each row of an array (m, ...): equal where the rows are."""
    content, size = rows.tobytes(), rows[:1].nbytes
    return [content[start : start + size] for start in range(0, len(content), size)] if size else [b""] * len(rows)


def count_matrix(counts: Counts, n_units: int | None = None) -> Floats:
    """Return counts (m, n_units), from an array or a sparse one: finite, not negative, one column per unit."""
    array = real_array("counts", counts.toarray(order="C") if issparse(counts) else counts, (2,))
    if n_units is not None and array.shape[1] != n_units:
        raise InputError(f"counts must have one column for each of the {n_units} units; got shape {array.shape}")
    if array.min(initial=0.0) < 0:
        row, column = np.argwhere(array < 0)[0].tolist()
        raise InputError(f"counts must not be negative; got {array[row, column]} in row {row}, column {column}")
    return array


def count_vector(counts: ArrayLike | None, n_units: int) -> Floats:
    """Return the counts (n_units,) of one input; None means that every unit is present once."""
    if counts is None:
        return np.ones(n_units)
    row = real_array("counts", counts, (1,))
    return count_matrix(row[None, :], n_units).reshape(n_units)


def checked_groups(groups: ArrayLike, n_units: int) -> NDArray[np.intp]:
    """Return groups (n_units,) that name a group 0..g-1 for each unit, none of them empty."""
    g = np.asarray(groups)
    if g.dtype.kind not in "iu" or g.shape != (n_units,):
        raise InputError(f"groups must be {n_units} integers, one for each unit; got shape {g.shape} of type {g.dtype}")
    if g.min() < 0:
        raise InputError(f"groups must be numbered from 0; got {g.min()}")
    missing = np.setdiff1d(np.arange(min(int(g.max()) + 1, n_units)), g)
    if len(missing):
        raise InputError(f"every group 0..{g.max()} must have a unit; group {missing[0]} has none")
    return g.astype(np.intp)


def check_choice(name: str, choice: object, choices: Iterable[str]) -> None:
    """Raise an InputError where an argument is none of its choices."""
    if choice not in (known := tuple(choices)):
        listed = " or ".join(map(repr, known)) if len(known) == 2 else f"one of {', '.join(map(repr, known))}"
        raise InputError(f"{name} must be {listed}; got {choice!r}")


def is_number(part: object) -> bool:
    """Return whether something is a single real number, of Python or numpy."""
    return isinstance(part, (int, float, np.integer, np.floating)) and not isinstance(part, bool)


def whole_number(name: str, number: object, least: int) -> int:
    """Return an integer of at least `least`, below 2**63; `name` is for the message."""
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)) or number < least:
        raise InputError(f"{name} must be a whole number of at least {least}; got {number!r}", name)
    if number >= 2**63:
        raise InputError(f"{name} must be below 2**63; got {number!r}", name)
    return int(number)


def whole_array(name: str, numbers: ArrayLike, columns: int | None = None, least: int = 0) -> NDArray[np.int64]:
    """Return integers from `least` to 2**31, (m,) or (m, columns); `name` is for the message."""
    shape = (-1,) if columns is None else (-1, columns)
    array = real_array(name, numbers, (1, len(shape)))
    if array.ndim < len(shape) and not array.size:  # no rows
        array = array.reshape(shape)
    if array.shape[1:] != shape[1:] or (array != np.rint(array)).any():
        raise InputError(f"{name} must be whole numbers{'' if columns is None else f', {columns} in each row'}; got others")
    if array.min(initial=least) < least or array.max(initial=least) > 2**31:
        raise InputError(f"{name} must be from {least} to 2**31; got {array.min():g} to {array.max():g}")
    return array.astype(np.int64)


def freeze(instance: object) -> None:
    """Make all arrays among the attributes of a frozen object read-only."""
    for name, part in vars(instance).items():
        if isinstance(part, np.ndarray):
            object.__setattr__(instance, name, read_only(part))


def read_only(array: NDArray[Any]) -> NDArray[Any]:
    """Return a view that cannot be written to."""
    view = array.view()
    view.flags.writeable = False
    return view


def plain(part: Any) -> Any:
    """Return an array or a number of numpy as lists and numbers, tuples entry by entry; anything else as it is."""
    if isinstance(part, tuple):
        return [plain(entry) for entry in part]
    return part.tolist() if isinstance(part, (np.ndarray, np.generic)) else part


def centred(scores: Floats, apart: bool = False) -> Floats:
    """Subtract the mean over the classes (the last axis)."""
    mean = scores.mean(axis=-1, keepdims=True)
    shift = beyond_rounding(mean, scores)
    if apart:
        shift = np.where(np.abs(mean) > 1e-6 * np.abs(scores).max(axis=-1, keepdims=True), mean, shift)
    return np.asarray(scores - shift)


def beyond_rounding(mean: Floats, numbers: Floats) -> Floats:
    """Return the mean of numbers, but 0 where it is rounding of numbers already centred: centring twice changes no bit."""
    return np.where(np.abs(mean) <= 4 * np.finfo(float).eps * np.abs(numbers).max(initial=0.0), 0.0, mean)
