"""One explanation seen from one class: what every figure needs, as plain arrays (n,)."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.errors import InputError
from slalom.render.charts import full_effect, half_width, label_of
from slalom.render.figures.canvas import shorten
from slalom.result import SCORES, Explanation
from slalom.result.plain import occurrence
from slalom.result.scale import opposite
from slalom.result.wording import score_name

TIMES = "\N{MULTIPLICATION SIGN}"


@final
@dataclass(frozen=True, eq=False)
class View:
    """An explanation, and the column of its arrays that belongs to the target; None where it has one target only."""

    explanation: Explanation
    column: int | None

    @classmethod
    def of(cls, explanation: Explanation, target: int | str | None) -> "View":
        """Return the view of the class with this label or index; None takes the predicted one."""
        return cls(explanation, explanation.column(target))

    @property
    def target(self) -> str:
        """The label of the class."""
        return shorten(self.explanation.target if self.column is None else self.explanation.labels[self.column], 32)

    @property
    def score(self) -> float:
        """The model's own score of the text."""
        return float(self.pick(self.explanation.score))

    @property
    def background(self) -> tuple[float, float] | None:
        """Value and importance of the background."""
        background = self.explanation.background
        return None if background is None else (float(self.pick(background[0])), background[1])

    def scores(self, name: str) -> Floats:
        """Return a score by its name."""
        return self.explanation.scores(name, label_of(self.explanation, self.column))

    def pick(self, per_class: Any) -> Any:
        """Return the part of an array (..., n_classes) that belongs to the class, all of it where there are no classes."""
        return per_class if self.column is None else np.asarray(per_class)[..., self.column]

    def signed(self, score_name: str) -> bool:
        """Return whether the sign of a score means for or against the target."""
        return SCORES[score_name].signed and self.explanation.signed

    @property
    def against(self) -> str:
        """What negative scores are for."""
        other = opposite(self.explanation, self.target)
        return "against" if other is None else f"for “{shorten(other, 20)}”"

    def meaning(self, score_name: str) -> str:
        """Return a description of a score."""
        score = SCORES[score_name]
        if self.explanation.signed or not score.signed:
            return f"{score.label.lower()}: {score.meaning}"
        return f"{shorten(self.explanation.method, 32)}: how much it counts, neither for nor against"

    def write(self, score: float, beside: float | None = None) -> str:
        """Write a score; one that cannot be negative has no plus."""
        written = signed(score, beside)
        return written if self.explanation.signed else written.removeprefix("+")

    def rounded(self, score: Floats) -> Floats:
        """Return a score with 0 where it is nothing but the rounding of numbers of the values' size."""
        return np.where(np.abs(score) <= 1e-13 * np.abs(self.scores("value")).max(), 0.0, score)

    def half_width(self, name: str) -> Floats | None:
        """Return half the 95% interval of a score (n,); None where it is not known."""
        return half_width(self.explanation, name, self.column)

    def full_effect(self, name: str) -> float:
        """Return the size of a score that has the full colour; 1 where all scores are zero."""
        return full_effect(self.explanation, name, self.column) or 1.0

    def doubtful(self, name: str) -> NDArray[np.bool_]:
        """Return which units (n,) are not distinguishable from zero by a score: its 95% interval contains zero.

        None are where intervals are not known, and by attention: an importance of zero is the mean.
        """
        half = self.half_width(name)
        if half is None or not SCORES[name].signed:
            return np.zeros(len(self.explanation), dtype=bool)
        return np.asarray(np.abs(self.scores(name)) <= half)

    def names(self, chosen: list[tuple[int, int]]) -> list[str]:
        """Return the names of units, with the number of the occurrence where there are several, or how many share the score."""
        units, names = self.explanation.units, []
        for i, times in chosen:
            names.append(shorten(units[i]) + (f" {TIMES}{times}" if times > 1 else occurrence(units, i)))
        return names

    def strongest(self, score: Floats, k: int, points: bool = False) -> list[tuple[int, int]]:
        """Return k units and how many there are of each, the largest scores first.

        Occurrences of one name whose parameters and scores are the same are one entry: the first of them.
        """
        e, order = self.explanation, np.argsort(-score, kind="stable")
        own = np.zeros_like(score) if points else np.round(score / (float(np.abs(score).max(initial=0.0)) or 1.0), 9)
        kinds = list(zip(e.units, self.scores("value").tolist(), e.importances.tolist(), own.tolist(), strict=True))
        times, first = Counter(kinds), dict[tuple[str, float, float, float], int]()
        for i in order:
            first.setdefault(kinds[i], int(i))
        return [(i, times[kind]) for kind, i in list(first.items())[:k]]

    def title(self) -> str:
        """Return a description of the prediction."""
        if self.explanation.prediction is None:
            return f"Why “{self.target}”"
        label, share = self.explanation.prediction
        return f"The model predicts “{shorten(label, 32)}”" + ("" if share is None else f" ({percent(share)})")

    def subtitle(self) -> str:
        """Return a description of what the numbers refer to."""
        e = self.explanation
        units = e.unit if len(e) == 1 else f"{e.unit}s"
        named = self.target if e.prediction is None and len(e.labels) == 1 else f"{score_name(e)} of “{self.target}”"
        return f"{named} {signed(self.score)}, {len(e)} {units}"


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


def truth(name: str, value: object) -> bool:
    """Return True or False."""
    if not isinstance(value, (bool, np.bool_)):
        raise InputError(f"{name} must be True or False; got {value!r}")
    return bool(value)
