"""Explanations as data frames: one row per unit, or per unit and class."""

from typing import Any

import numpy as np

from slalom.errors import require
from slalom.result.codec import FIELDS

_CHANGES = ("removal_se", "gradient_se", "shapley_se")  # of scores that have a meaning where units are additive, and a sign


def pandas() -> Any:
    """Return the module pandas."""
    with require("to_pandas", "pandas"):
        import pandas as module  # noqa: PLC0415
    return module


def frame(columns: dict[str, Any]) -> Any:
    """Return a data frame of the columns that are not None."""
    return pandas().DataFrame({name: column for name, column in columns.items() if column is not None})


def columns(e: Any, tidy: bool = False) -> dict[str, Any]:
    """Return the columns of an Explanation, tidy: with a row per unit and class; None for those that it lacks."""
    known = np.nan if e.additive else 1.0  # value, importance and linear scores are unknown where units are additive
    scores: dict[str, Any] = {
        "value": known * e.values,
        "removal" if e.signed else "strength": e.removal if e.signed else np.abs(e.removal),
        "linear": known * e.linear,
        "gradient": e.gradient if e.signed else None,
        "shapley": e.shapley() if e.signed else None,
        "importance": known * e.importances,
        "weight": e.weights,
    }
    for row in FIELDS:
        if row.column is not None and (e.signed or row.column not in _CHANGES):
            numbers = getattr(e, row.name)
            scores[row.column] = numbers if numbers is None or row.column in _CHANGES else known * numbers
    places = {name: place for place, name in enumerate(scores)}
    result: dict[str, Any] = {"unit": list(e.units), "start": e.spans[:, 0], "end": e.spans[:, 1]}
    labels = e.labels if e.values.ndim == 2 else (e.target,)
    if tidy:
        result = {name: np.repeat(column, len(labels)) for name, column in result.items()}
        result["class"] = list(labels) * len(e)
    for name in sorted(scores, key=lambda name: places.get(name.removesuffix("_se"), 1)):  # a standard error after its score
        score = scores[name]
        if score is None:
            result[name] = None
        elif tidy:
            result[name] = np.repeat(score, len(labels)) if score.ndim == 1 else score.reshape(-1)
        elif score.ndim == 1:
            result[name] = score
        else:
            result |= {f"{name}[{label}]": score[:, c] for c, label in enumerate(labels)}
    return result
