"""Explanations as data frames: one row per unit, or per unit and class."""

from typing import TYPE_CHECKING, Any

import numpy as np

from slalom.core.checks import Floats
from slalom.errors import require
from slalom.result.scores import Score, listed

if TYPE_CHECKING:
    from slalom.result.explanation import Explanation


def pandas() -> Any:
    """Return the module pandas."""
    with require("to_pandas", "pandas"):
        import pandas as module  # noqa: PLC0415
    return module


def frame(columns: dict[str, Any]) -> Any:
    """Return a data frame of the columns that are not None."""
    return pandas().DataFrame({name: column for name, column in columns.items() if column is not None})


def columns(e: "Explanation", tidy: bool = False) -> dict[str, Any]:
    """Return the columns of an Explanation, tidy: with a row per unit and class; None for those that it lacks."""
    labels = e.labels if e.values.ndim == 2 else (e.target,)
    result: dict[str, Any] = {"unit": list(e.units), "start": e.spans[:, 0], "end": e.spans[:, 1]}
    if e.record is not None:
        result = {"field": np.array(e.record.names, dtype=object)[e.record.field_of(e.spans)], **result}
    if tidy:
        result = {name: np.repeat(column, len(labels)) for name, column in result.items()}
        result["class"] = list(labels) * len(e)
    for score, numbers, errors in listed(e):
        name = score.name if e.signed else "strength"
        for title, column in ((name, _unknown(e, score) if numbers is None else numbers), (f"{name}_se", errors)):
            if column is None or (column.ndim == 1 and not tidy):
                result[title] = column
            elif tidy:
                result[title] = np.repeat(column, len(labels)) if column.ndim == 1 else column.reshape(-1)
            else:
                result |= {f"{title}[{label}]": column[:, c] for c, label in enumerate(labels)}
    return result


def _unknown(e: "Explanation", score: Score) -> Floats:
    return np.full(e.values.shape if score.signed else len(e), np.nan)
