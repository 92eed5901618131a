"""Shapley values of a model, with intervals that do not depend on a surrogate being right."""

from dataclasses import asdict, dataclass
from typing import Any, final

import numpy as np

from slalom.core.checks import Floats, freeze, plain
from slalom.result.plain import number, occurrence

_FEW = 100  # queries below which rare answers are easily missed


@final
@dataclass(frozen=True, eq=False, repr=False)
class CertifiedShapley:
    """Shapley values of the model's own score, from `Explainer.shapley`.

    Where all classes are explained, arrays marked * have a last axis of n_classes.

    Attributes:
        units: Names of the units (n,).
        values: Estimated Shapley values (n,)*; they sum to the score of the whole text less that of the empty one.
        errors: Their standard errors (n,)*.
        interval: 95% intervals (n, 2)*; of width 0 where every part of the text was asked. With fewer than 100 queries they
            are too narrow where answers to a few parts of the text are unlike all others, and none of these was asked.
        queries: Number of distinct queries.
        target: Label of the explained class, or "all".
        labels: Labels of all classes.
        seed: Seed of the queries.
    """

    units: tuple[str, ...]
    values: Floats
    errors: Floats
    interval: Floats
    queries: int
    target: str
    labels: tuple[str, ...]
    seed: int

    def __post_init__(self) -> None:
        freeze(self)

    def __repr__(self) -> str:
        return self.table()

    def table(self, top: int = 20) -> str:
        """Return the strongest units with their values and intervals as text; of several classes, the strongest of each."""
        lines = [f"Shapley values of the model ({self.target}), 95% intervals, {self.queries} queries"]
        n, labels = len(self.units), self.labels if self.values.ndim == 2 else ("",)
        values, interval = self.values.reshape(n, -1), self.interval.reshape(n, 2, -1)
        order = np.argsort(-np.abs(values).max(axis=1), kind="stable")[:top].tolist()
        names = [self.units[i].strip() + occurrence(self.units, i) for i in order]
        for i, name in zip(order, names, strict=True):
            column = int(np.abs(values[i]).argmax())
            value, low, high = (f"{number(x):>8}" for x in (values[i, column], *interval[i, :, column]))
            lines.append(f"{name:<{max(map(len, names))}}  {value}  {low} to {high}  {labels[column]}".rstrip())
        lines += [f"{n - top} more"] if n > top else []
        if self.queries < _FEW and self.errors.any():
            lines.append(f"from {self.queries} queries: where a few parts of the text decide, intervals may be too narrow")
        return "\n".join(lines)

    def to_dict(self) -> dict[str, Any]:
        """Return everything as lists, numbers and strings."""
        return {name: list(part) if isinstance(part, tuple) else plain(part) for name, part in asdict(self).items()}
