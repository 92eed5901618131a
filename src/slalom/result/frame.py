"""Explanations as data frames: one row per unit."""

from typing import Any

import numpy as np

from slalom.errors import require


def pandas() -> Any:
    """Return the module pandas."""
    with require("to_pandas", "pandas"):
        import pandas as module  # noqa: PLC0415
    return module


def frame(columns: dict[str, Any]) -> Any:
    """Return a data frame of the columns that are not None."""
    return pandas().DataFrame({name: column for name, column in columns.items() if column is not None})


def columns(e: Any) -> dict[str, Any]:
    """Return the columns of an Explanation; None for those that it lacks."""
    known = np.nan if e.additive else 1.0  # value, importance and linear scores are unknown where units are additive
    scores = {
        "value": known * e.values,
        "value_se": None if e.values_se is None else known * e.values_se,
        "removal": e.removal,
        "linear": known * e.linear,
    }
    result: dict[str, Any] = {"unit": list(e.units), "start": e.spans[:, 0], "end": e.spans[:, 1]}
    for name, score in scores.items():
        if score is None or score.ndim == 1:
            result[name] = score
        else:
            result |= {f"{name}[{label}]": score[:, c] for c, label in enumerate(e.labels)}
    error = None if e.importances_se is None else known * e.importances_se
    return result | {"importance": known * e.importances, "importance_se": error, "weight": e.weights}
