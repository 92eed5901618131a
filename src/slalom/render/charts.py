"""What figures and interactive pages show alike: an explanation seen from one class, limits of the scatter, names of rows."""

from collections import Counter
from dataclasses import dataclass
from typing import Any, NamedTuple, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.evaluate import MEASURES, Compared
from slalom.evaluate.compared import Row
from slalom.result import NORMAL_95, SCORES, Explanation
from slalom.result.plain import occurrence
from slalom.result.scale import opposite
from slalom.result.wording import score_name

TIMES = "\N{MULTIPLICATION SIGN}"
_NEAR = 0.75  # of the range: zero is on an axis if it is no further away


class ScatterFrame(NamedTuple):
    """What the picture of value (x) and importance (y) shows."""

    x: tuple[float, float]  # lowest and highest number, without margins
    y: tuple[float, float]


@final
@dataclass(frozen=True, eq=False)
class View:
    """An explanation, and the column of its arrays that belongs to the class; None where it has one target only."""

    explanation: Explanation
    column: int | None

    @property
    def label(self) -> str | None:
        """The label of the column: an index could be read as a label where labels are numbers."""
        return None if self.column is None else self.explanation.labels[self.column]

    @property
    def target(self) -> str:
        return shorten(self.label or self.explanation.target, 32)

    @property
    def score(self) -> float:
        """The model's own score of the text."""
        return float(self.pick(self.explanation.score))

    def scores(self, name: str) -> Floats:
        return self.explanation.scores(name, self.label)

    def pick(self, per_class: Any) -> Any:
        """Return the part of an array (..., n_classes) that belongs to the class, all of it where there are no classes."""
        return per_class if self.column is None or np.ndim(per_class) == 0 else np.asarray(per_class)[..., self.column]

    def signed(self, score_name: str) -> bool:
        """Return whether the sign of a score means for or against the target."""
        return SCORES[score_name].signed and self.explanation.signed

    def sides(self) -> tuple[str, str]:
        """Return what positive and negative scores are for."""
        other = opposite(self.explanation, self.label or self.explanation.target)
        return f"for “{shorten(self.target, 20)}”", "against" if other is None else f"for “{shorten(other, 20)}”"

    def meaning(self, score_name: str) -> str:
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
        errors = self.explanation.standard_errors(name, self.label)
        return None if errors is None else np.nan_to_num(NORMAL_95 * errors, nan=np.inf, posinf=np.inf)

    def full_effect(self, name: str) -> float:
        """Return the size of a score that has the full colour; 1 where all scores are zero."""
        return self.explanation.full_effect(name, self.label) or 1.0

    def doubtful(self, name: str) -> NDArray[np.bool_]:
        """Return which units (n,) are not distinguishable from zero by a score: its 95% interval contains zero.

        None are where intervals are not known, and by attention: an importance of zero is the mean.
        """
        half = self.half_width(name)
        if half is None or not SCORES[name].signed:
            return np.zeros(len(self.explanation), dtype=bool)
        return np.asarray((half > 0.0) & (np.abs(self.scores(name)) <= half))

    def frame(self) -> ScatterFrame:
        """Return the limits of the scatter: all points are inside."""
        return ScatterFrame(_range(self.scores("value"), 1.0), _range(self.explanation.importances, 0.5))

    def names(self, chosen: list[tuple[int, int]]) -> list[str]:
        """Return the names of units, with the number of the occurrence where there are several, or how many share the score."""
        units = self.explanation.units
        return [shorten(units[i]) + (f" {TIMES}{times}" if times > 1 else occurrence(units, i)) for i, times in chosen]

    def strongest(self, score: Floats, k: int, points: bool = False) -> list[tuple[int, int]]:
        """Return k units and how many there are of each, the largest scores first.

        Occurrences of one name whose parameters and scores are the same are one entry: the first of them. Scores may differ
        where `points` are drawn.
        """
        e, order = self.explanation, np.argsort(-score, kind="stable")
        same = np.zeros_like(score) if points else np.round(score / (float(np.abs(score).max(initial=0.0)) or 1.0), 9)
        kinds = list(zip(e.units, self.scores("value").tolist(), e.importances.tolist(), same.tolist(), strict=True))
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


def _range(numbers: Floats, flat: float) -> tuple[float, float]:
    """Return the lowest and the highest number, and zero if it is near; `flat` is the least width of a range without one."""
    low, high = float(numbers.min()), float(numbers.max())
    near = _NEAR * ((high - low) or max(flat, 1.4 * abs(high)))
    return (min(low, 0.0), max(high, 0.0)) if low - near <= 0.0 <= high + near else (low, high)


def shorten(text: str, most: int = 28) -> str:
    """Return at most a number of characters, with … for the rest."""
    text = " ".join(text.split()) or "␣"
    return text if len(text) <= most else text[: most - 1].rstrip() + "…"


def signed(number: float, beside: float | None = None) -> str:
    """Write a number with its sign, a real minus, and three digits; as many decimals as `beside` has, where it is given."""
    scale = abs(number if beside is None else beside)
    decimals = f".{max(0, 2 - int(np.floor(np.log10(scale))))}f" if 1e-4 <= scale < 1e6 else ".3g"
    return f"{number:+{decimals}}".replace("-", "\N{MINUS SIGN}")


def percent(share: float) -> str:
    """Write a share as a percentage that is never rounded to 0% or 100%."""
    if 0.0 < share < 0.001:
        return "below 0.1%"
    return "above 99.9%" if 0.999 < share < 1.0 else f"{100 * share:.3g}%"


def row_name(compared: Compared, row: Row) -> str:
    """Return the method, with its budget where it was given several."""
    method, budget = row
    several = sum(name == method for name, _ in compared.rows) > 1
    return f"{method} {budget}" if several and budget is not None else method


def measure_label(measure: str) -> str:
    """Return the name with the direction that is better."""
    more = MEASURES[measure][0]
    return measure if more is None else f"{measure} ({'more' if more else 'less'} is better)"
