"""Flips: a smallest set of units without which the decision is another one.

The surrogate proposes a set, the model confirms it. Units are ranked by how much their removal moves the predicted score
towards another decision, first in the whole text, then at the set found so far, where the decision changes; the set is the
shortest prefix of that path that flips the prediction, less the units that it does not need. A SLALOM is above t exactly where
the sum of w_i (v_i - t) over the units that stay is positive, so that a set of the units with the largest terms is a smallest
one; the ranking where the decision changes is nearly theirs.

Where the model does not agree, it is asked along the same path: prefixes of double size, then halfway between the last that
keeps the decision and the first that flips it. Then units that the set does not need are left out.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats, real_array, whole_number
from slalom.errors import InputError, count, plural
from slalom.result.plain import number
from slalom.result.scale import exclusive, lead
from slalom.result.scale import threshold as usual_threshold
from slalom.result.wording import one_unit, score_of

if TYPE_CHECKING:
    from slalom.result.explanation import Explanation

_TINY = 12  # units: all subsets are tried
_ROUNDS = 10  # rankings of the units; two or three are usual
_CELLS = 4_000_000  # entries of presence matrices that are predicted at once
_NAMED = 12  # units that a sentence names
_LONGEST = 40  # characters of a name in it

Masks: TypeAlias = NDArray[np.bool_]
Indices: TypeAlias = NDArray[np.int64]


@final
@dataclass(frozen=True)
class Flip:
    """A set of units without which the decision is another one.

    Attributes:
        units: Indices of the units, in the order of the text.
        predicted: The predicted score without them: of the target, or of the class that the model gives the whole text.
        asked: The model's own score without them; None where it was not asked.
        confirmed: Whether the model's decision changes without them.
        queries: Number of queries to the model that it took.
        label: The label without them; None where the score of one target does not tell it.
    """

    units: tuple[int, ...]
    predicted: float
    asked: float | None = None
    confirmed: bool = False
    queries: int = 0
    label: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return everything as numbers and strings."""
        return asdict(self) | {"units": list(self.units)}


class Reply(NamedTuple):
    """What the model says about a part of a text: the score of the target, or of the leading class."""

    score: float
    flipped: bool
    label: str | None


class Rule:
    """Which scores are another decision than that of the whole text; `threshold` separates the decisions about one target."""

    def __init__(self, e: "Explanation", threshold: float | None = None) -> None:
        if not e.signed:
            raise InputError(f"the scores of {e.method} have no sign and predict no decision; use a method such as 'joint'")
        self.e = e
        self.column: int | None = None
        if e.values.ndim == 2:
            if threshold is not None:
                why = "a threshold is for one target, this explanation is of all classes"
                raise InputError(f"{why}; got {threshold!r}; leave it out")
            self.column = int(np.argmax(e.score))
            return
        level = usual_threshold(e) if threshold is None else threshold
        if level is None:
            advice = "give the number that separates two: flip(threshold=...)"
            raise InputError(f"this model gives a number and no decision; {advice}")
        self.threshold = float(real_array("threshold", level, (0,)))
        self.tie_is_target = len(e.labels) == 2 and e.target == e.labels[0]  # a tie is the first class
        self.tells_label = threshold is None and e.label is not None and exclusive(e)
        self.above = bool(self._above(np.array([e.score]))[0])
        undecided = threshold is None and len(e.labels) > 2 and e.probabilities is None and e.label is not None
        if undecided and self.above != (e.label == e.target):
            raise InputError(f"the score of {e.target!r} alone does not tell the label; explain with target='all'")

    def _above(self, scores: Floats) -> Masks:
        return np.asarray(scores >= self.threshold if self.tie_is_target else scores > self.threshold)

    def flipped(self, scores: Floats) -> Masks:
        """Return whether scores (m,) or (m, n_classes) are another decision (m,)."""
        if self.column is not None:
            return np.asarray(scores.argmax(axis=1) != self.column)
        return np.asarray(self._above(scores) != self.above)

    def margins(self, scores: Floats) -> Floats:
        """Return how far scores (m,) or (m, n_classes) are from another decision (m,): about 0 or less where they are one."""
        if self.column is not None:
            return lead(scores, self.column)
        return (1.0 if self.above else -1.0) * (scores - self.threshold)

    def replies(self, scores: Floats) -> list[Reply]:
        """Return what each of the scores (m,) or (m, n_classes) says."""
        names = self.e.labels
        labels: list[str | None] = [None] * len(scores)
        if self.column is not None:
            labels = [names[c] for c in scores.argmax(axis=1)]
            scores = scores[:, self.column]
            flipped = [label != names[self.column] for label in labels]
            return [Reply(*row) for row in zip(scores.tolist(), flipped, labels, strict=True)]
        if self.tells_label:
            other = next((name for name in names if name != self.e.target), None) if len(names) == 2 else None
            labels = [self.e.target if above else other for above in self._above(scores)]
        return [Reply(*row) for row in zip(scores.tolist(), self.flipped(scores).tolist(), labels, strict=True)]


class _Path(NamedTuple):
    """All units in the order in which they are removed, and how many of the first flip the prediction; None where none do."""

    order: Indices
    size: int | None


def propose(e: "Explanation", threshold: float | None = None) -> Flip | None:
    """Return the flip that the surrogate of an Explanation predicts; None where it predicts none."""
    surrogate = _Predictions(e, Rule(e, threshold))
    order, size = surrogate.path()
    return None if size is None else surrogate.flip(order[:size])


def confirm(
    e: "Explanation",
    ask: Callable[[Masks], list[Reply]],
    empty: bool,
    threshold: float | None = None,
    max_queries: int = 50,
) -> Flip | None:
    """Return a flip that the model confirms; None where none of the sets flips its decision."""
    whole_number("max_queries", max_queries, 1)
    surrogate = _Predictions(e, Rule(e, threshold))
    path, answers = surrogate.path(), _Answers(ask, len(e), max_queries)
    size = answers.along(path, len(e) - (not empty))
    if size is None:
        return None
    units = answers.pruned(path.order[:size])
    score, _, label = answers.replies[frozenset(units.tolist())]
    return Flip(tuple(sorted(units.tolist())), surrogate.score(units), score, True, len(answers.replies), label)


class _Predictions:
    """The search for a set by predictions alone."""

    def __init__(self, e: "Explanation", rule: Rule) -> None:
        self.e, self.rule, self.n = e, rule, len(e)
        try:
            self.empty = bool(np.isfinite(e.predict(np.zeros(self.n))).all())
        except InputError:  # there is no background: the empty text has no prediction
            self.empty = False

    def evaluate(self, keep: Masks) -> tuple[Floats, Masks]:
        """Return the margins and whether the prediction is another decision, for presence of units (m, n)."""
        margins, flipped = np.full(len(keep), np.inf), np.zeros(len(keep), dtype=bool)
        rows = np.arange(len(keep)) if self.empty else np.flatnonzero(keep.any(axis=1))
        for part in np.array_split(rows, max(1, -(-rows.size * self.n // _CELLS))):
            if len(part):
                scores = self.e.predict(keep[part])
                margins[part], flipped[part] = self.rule.margins(scores), self.rule.flipped(scores)
        return margins, flipped

    def path(self) -> _Path:
        """Return the units in the order of their removal."""
        keep, best = np.ones(self.n, dtype=bool), _Path(np.arange(self.n), None)
        seen: set[bytes] = set()
        while keep.tobytes() not in seen and len(seen) < _ROUNDS:
            seen.add(keep.tobytes())
            order = self._ranked(np.arange(self.n), keep)
            left = np.ones((self.n, self.n), dtype=bool)  # row k: without the first k + 1 of the order
            left[:, order] = ~np.tri(self.n, dtype=bool)
            margins, flipped = self.evaluate(left)
            size = int(flipped.argmax()) + 1 if flipped.any() else None
            if best.size is None or (size is not None and size < best.size):
                best = _Path(order, size)
            keep = left[int(margins.argmin()) if size is None else size - 1]
        if self.n > _TINY and best.size is None:
            return best
        units = self._smallest() if self.n <= _TINY else self._pruned(best.order[: best.size])
        if units is None:
            return best
        without = self._without(units)
        others = self._ranked(np.setdiff1d(best.order, units), without)
        return _Path(np.concatenate([self._ranked(units, without), others]), len(units))

    def score(self, units: Indices) -> float:
        """Return the predicted score without these units; of the empty text, where it has no prediction, the base."""
        keep = self._without(units)
        score = self.e.predict(keep) if self.empty or keep.any() else self.e.base
        return float(np.atleast_1d(score)[self.rule.column or 0])

    def flip(self, units: Indices) -> Flip:
        """Return the flip of the prediction without these units."""
        (reply,) = self.rule.replies(self.e.predict(self._without(units)[None]))
        return Flip(tuple(sorted(units.tolist())), reply.score, label=reply.label)

    def _without(self, units: Indices) -> Masks:
        return np.isin(np.arange(self.n), units, invert=True)

    def _ranked(self, units: Indices, keep: Masks) -> Indices:
        """Return units by how much each holds the decision beside the units that stay: margin with it less margin without."""
        toggled = np.repeat(keep[None], self.n, axis=0)
        np.fill_diagonal(toggled, ~keep)
        margins, _ = self.evaluate(np.concatenate([toggled, keep[None]]))
        change = np.nan_to_num(margins[-1] - margins[:-1], nan=0.0, posinf=0.0, neginf=0.0)
        return units[np.argsort(-np.where(keep, change, -change)[units], kind="stable")]

    def _smallest(self) -> Indices | None:
        """Return the smallest set, of several the one that leads furthest, by trying all."""
        removed = (np.arange(1, 2**self.n)[:, None] >> np.arange(self.n)) % 2 == 1
        margins, flipped = self.evaluate(~removed)
        if not flipped.any():
            return None
        sizes = np.where(flipped, removed.sum(axis=1), self.n + 1)
        return np.flatnonzero(removed[np.lexsort((margins, sizes))[0]])

    def _pruned(self, units: Indices) -> Indices:
        """Return the set without the units that it does not need."""
        while len(units) > 1:
            keep = np.ones((len(units), self.n), dtype=bool)
            keep[:, units] = np.eye(len(units), dtype=bool)
            margins, flipped = self.evaluate(keep)
            if not flipped.any():
                break
            units = np.delete(units, int(np.where(flipped, margins, np.inf).argmin()))
        return units


class _Answers:
    """The search for a set by the model's answers, within a budget of queries."""

    def __init__(self, ask: Callable[[Masks], list[Reply]], n: int, budget: int) -> None:
        self.ask, self.n, self.budget = ask, n, budget
        self.replies: dict[frozenset[int], Reply] = {}

    @property
    def remaining(self) -> int:
        """Number of queries that may still be asked."""
        return self.budget - len(self.replies)

    def flips(self, sets: list[Indices]) -> list[bool]:
        """Return whether the model's decision changes without each set of units; all are asked at once."""
        names = [frozenset(units.tolist()) for units in sets]
        if new := [name for name in dict.fromkeys(names) if name not in self.replies]:
            keep = np.array([[i not in name for i in range(self.n)] for name in new])
            self.replies |= dict(zip(new, self.ask(keep), strict=True))
        return [self.replies[name].flipped for name in names]

    def along(self, path: _Path, max_units: int) -> int | None:
        """Return how many units of the path flip the decision; None where no number that was asked does."""
        if max_units < 1:
            return None
        sizes = [min(path.size or 1, max_units)]
        if self.flips([path.order[: sizes[0]]])[0]:
            return sizes[0]
        while sizes[-1] < max_units and len(sizes) < self.budget:
            sizes.append(min(2 * sizes[-1], max_units))
        flips = self.flips([path.order[:k] for k in sizes])
        if not any(flips):
            return None
        high, low = sizes[flips.index(True)], sizes[flips.index(True) - 1]
        while high - low > 1 and self.remaining > 0:
            middle = (low + high) // 2
            high, low = (middle, low) if self.flips([path.order[:middle]])[0] else (high, middle)
        return high

    def pruned(self, units: Indices) -> Indices:
        """Return the set without units that it does not need, the weakest first, as far as the budget reaches."""
        step = max(1, -(-2 * len(units) // max(self.remaining, 1)))
        while step:
            end = len(units)
            while end > 0 and self.remaining > 0 and len(units) > 1:
                start = max(end - step, 0)
                fewer = np.delete(units, np.arange(start, end))
                if len(fewer) and self.flips([fewer])[0]:
                    units = fewer
                end = start
            step //= 2
        return units


def sentence(e: "Explanation", flip: Flip | None) -> str:
    """Return a flip in words."""
    unit = one_unit(e)
    if flip is None:
        return f"no set of {unit}s that was tried changes the decision"
    times = Counter(" ".join(e.units[i].split()) or e.units[i] for i in flip.units).most_common()
    names = [f'"{_shortened(name)}"' + (f" ({n} times)" if n > 1 else "") for name, n in times[:_NAMED]]
    more = f" and {len(times) - _NAMED} more" if len(times) > _NAMED else ""
    column = int(np.argmax(e.score))
    about = e.target if e.values.ndim == 1 else e.labels[column]
    if flip.asked is None:
        says = "the surrogate predicts" + (" another decision" if flip.label is None else f" {flip.label}")
    else:
        says = "the model decides otherwise" if flip.label is None else f"the model says {flip.label}"
    cost = f"; {flip.queries} more {plural(flip.queries, 'query')}" if flip.queries else ""
    after = flip.predicted if flip.asked is None else flip.asked
    return (
        f"without {', '.join(names)}{more} ({len(flip.units)} of {count(len(e), unit)}) {says}:"
        f" {score_of(e, about)} {number(np.atleast_1d(e.score)[column])} to {number(after)}{cost}"
    )


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
