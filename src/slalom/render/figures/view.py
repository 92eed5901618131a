"""One explanation seen from one class: what every picture needs, as plain arrays (n,)."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, final

import numpy as np

from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.render.figures.canvas import shorten
from slalom.result import NORMAL_95, Explanation

TIMES = "\N{MULTIPLICATION SIGN}"


@final
@dataclass(frozen=True, eq=False)
class View:
    """values, importances, weights, removal (n,), their standard errors where known, and the model's score of one target."""

    of: Explanation
    column: int | None

    @classmethod
    def on(cls, explanation: Explanation, target: int | str | None) -> "View":
        """Look at an explanation from the class with this label or index; None takes the predicted one."""
        return cls(explanation, explanation.column(target))

    @property
    def target(self) -> str:
        """The label of the class."""
        return shorten(self.of.target if self.column is None else self.of.labels[self.column], 32)

    @property
    def score(self) -> float:
        """The model's own score of the text."""
        return float(self.pick(self.of.score))

    @property
    def background(self) -> tuple[float, float] | None:
        """Value and importance of the background."""
        return None if self.of.background is None else (float(self.pick(self.of.background[0])), self.of.background[1])

    @property
    def values_se(self) -> Floats | None:
        """Standard errors of the values."""
        return None if self.of.values_se is None else self.pick(self.of.values_se)

    def scores(self, name: str) -> Floats:
        """Return a score by its name."""
        return self.of.scores(name, self.column)

    def pick(self, per_class: Any) -> Any:
        """Return the part of an array (..., n_classes) that belongs to the class, all of it where there are no classes."""
        return per_class if self.column is None else np.asarray(per_class)[..., self.column]

    def rounded(self, score: Floats) -> Floats:
        """Return a score with 0 where it is nothing but the rounding of numbers of the values' size."""
        return np.where(np.abs(score) <= 1e-13 * np.abs(self.scores("value")).max(), 0.0, score)

    def half_width(self, name: str) -> Floats | None:
        """Return half the 95% interval of "value" or "importance"; None where it is not known."""
        se = {"value": self.values_se, "importance": self.of.importances_se}.get(name)
        return None if se is None else NORMAL_95 * se

    def strongest(self, score: Floats, k: int) -> list[tuple[int, int]]:
        """Return k units and how many there are of each, the largest scores first.

        Occurrences that share their name and their parameters are one entry: the first of them.
        """
        seen: Counter[tuple[str, float, float]] = Counter()
        first: dict[tuple[str, float, float], int] = {}
        kinds = list(zip(self.of.units, self.scores("value").tolist(), self.of.importances.tolist(), strict=True))
        for i, kind in enumerate(kinds):
            seen[kind] += 1
            first.setdefault(kind, i)
        order = [int(i) for i in np.argsort(-score, kind="stable") if first[kinds[i]] == i]
        return [(i, seen[kinds[i]]) for i in order[:k]]

    def title(self) -> str:
        """Say what was decided."""
        found = self.of.prediction
        if found is None:
            return f"What speaks for “{self.target}”"
        share = "" if found[1] is None else f" ({percent(found[1])})"
        return f"The model says “{shorten(found[0], 32)}”{share}"

    def subtitle(self) -> str:
        """Say what the numbers belong to."""
        plural = "" if len(self.of) == 1 else "s"
        return f"{self.of.score_name} of “{self.target}” {signed(self.score)}, {len(self.of)} {self.of.unit}{plural}"


def signed(number: float, beside: float | None = None) -> str:
    """Write a number with its sign, a real minus, and three digits; as many decimals as `beside` has, where it is given."""
    scale = abs(number if beside is None else beside)
    if not 1e-4 <= scale < 1e6:
        return f"{number:+.3g}".replace("-", "\N{MINUS SIGN}")
    return f"{number:+.{max(0, 2 - int(np.floor(np.log10(scale))))}f}".replace("-", "\N{MINUS SIGN}")


def percent(share: float) -> str:
    """Write a share as a percentage that is never rounded to 0% or 100%."""
    if 0.0 < share < 0.001:
        return "below 0.1%"
    if 0.999 < share < 1.0:
        return "above 99.9%"
    return f"{100 * share:.3g}%"


def count(name: str, given: object, least: int) -> int:
    """Return a whole number that is at least so large."""
    if isinstance(given, bool) or not isinstance(given, (int, np.integer)) or given < least:
        raise InputError(f"{name} must be a whole number >= {least}; got {given!r}")
    return int(given)


def truth(name: str, given: object) -> bool:
    """Return True or False."""
    if not isinstance(given, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False; got {given!r}")
    return bool(given)
