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
from slalom.errors import InputError
from slalom.result.plain import number
from slalom.result.scale import exclusive, lead
from slalom.result.scale import threshold as usual_threshold
from slalom.result.wording import score_of

if TYPE_CHECKING:
    from slalom.result.explanation import Explanation

_TINY = 12  # units: all subsets are tried
_ROUNDS = 10  # rankings of the units; two or three are usual
_CELLS = 4_000_000  # entries of presence matrices that are predicted at once
_NAMED = 12  # units that a sentence names
_LONGEST = 40  # characters of a name in it

Masks: TypeAlias = NDArray[np.bool_]


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
    """What the model says about parts of a text.

    Attributes:
        scores: The score of the target, or of the leading class (m,).
        flipped: Whether the decision is another one than that of the whole text (m,).
        labels: The label of each part, or None (m,).
    """

    scores: Floats
    flipped: Masks
    labels: list[str | None]


class Rule:
    """Which scores are another decision than that of the whole text.

    Args:
        e: The Explanation.
        threshold: Score of the target that separates two decisions. Default: where the label changes.

    Raises:
        InputError: The score decides nothing.
    """

    def __init__(self, e: "Explanation", threshold: float | None = None) -> None:
        if not e.signed:
            raise InputError(f"the scores of {e.method} have no sign and predict no decision; use a method such as 'joint'")
        self.explanation = e
        self.column: int | None = None
        if e.values.ndim == 2:
            if threshold is not None:
                raise InputError(
                    f"a threshold is for one target, this explanation is of all classes; got {threshold!r}; leave it out"
                )
            self.column = int(np.argmax(e.score))
            return
        level = usual_threshold(e) if threshold is None else threshold
        if level is None:
            raise InputError(
                "this model gives a number and no decision; give the number that separates two: flip(threshold=...)"
            )
        self.threshold = float(real_array("threshold", level, (0,)))
        self.first_of_two = len(e.labels) == 2 and e.target == e.labels[0]  # a tie is the first class
        self.named = threshold is None and e.label is not None and exclusive(e)
        self.above = bool(self.is_above(np.array([e.score]))[0])
        unknown = threshold is None and len(e.labels) > 2 and e.probabilities is None and e.label is not None
        if unknown and self.above != (e.label == e.target):
            raise InputError(f"the score of {e.target!r} alone does not tell the label; explain with target='all'")

    def is_above(self, scores: Floats) -> Masks:
        """Return whether the decision is for the target (m,), for its scores (m,)."""
        return np.asarray(scores >= self.threshold if self.first_of_two else scores > self.threshold)

    def flipped(self, scores: Floats) -> Masks:
        """Return whether scores (m,) or (m, n_classes) are another decision (m,)."""
        if self.column is not None:
            return np.asarray(scores.argmax(axis=1) != self.column)
        return np.asarray(self.is_above(scores) != self.above)

    def margins(self, scores: Floats) -> Floats:
        """Return how far scores (m,) or (m, n_classes) are from another decision (m,): about 0 or less where they are one."""
        if self.column is not None:
            return lead(scores, self.column)
        return (1.0 if self.above else -1.0) * (scores - self.threshold)

    def reply(self, scores: Floats) -> Reply:
        """Return what scores (m,) or (m, n_classes) say, labels included where they tell them."""
        labels: list[str | None] = [None] * len(scores)
        names = self.explanation.labels
        if self.column is not None:
            labels = [names[c] for c in scores.argmax(axis=1)]
            return Reply(scores[:, self.column], self.flipped(scores), labels)
        if self.named:
            target = self.explanation.target
            other = next(name for name in names if name != target) if len(names) == 2 else None
            labels = [target if above else other for above in self.is_above(scores)]
        return Reply(scores, self.flipped(scores), labels)


class _Path(NamedTuple):
    """All units in the order in which they are removed, and how many of the first flip the prediction; None where none do."""

    order: NDArray[np.int64]
    size: int | None


def propose(e: "Explanation", threshold: float | None = None) -> Flip | None:
    """Return the flip that the surrogate of an Explanation predicts; None where it predicts none."""
    search = _Search(e, Rule(e, threshold))
    path = search.path()
    return None if path.size is None else search.flip(path.order[: path.size])


def confirm(
    e: "Explanation", ask: Callable[[Masks], Reply], empty: bool, threshold: float | None = None, max_queries: int = 50
) -> Flip | None:
    """Return a flip that the model confirms; None where none of the sets flips its decision."""
    whole_number("max_queries", max_queries, 1)
    search = _Search(e, Rule(e, threshold))
    path = search.path()
    asked = _Asked(ask, len(e), max_queries)
    size = asked.along(path, len(e) - (not empty))
    if size is None:
        return None
    units = asked.pruned(path.order[:size])
    reply = asked.replies[frozenset(units.tolist())]
    return Flip(
        tuple(sorted(units.tolist())),
        search.predicted(units),
        asked=float(reply.scores[0]),
        confirmed=True,
        queries=asked.queries,
        label=reply.labels[0],
    )


class _Search:
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
            order = np.argsort(-self._towards(keep), kind="stable")
            prefixes = _prefixes(order)
            margins, flipped = self.evaluate(~prefixes)
            size = int(flipped.argmax()) + 1 if flipped.any() else None
            if best.size is None or (size is not None and size < best.size):
                best = _Path(order, size)
            keep = ~prefixes[int(margins.argmin()) if size is None else size - 1]
        chosen = self._tried_all() if self.n <= _TINY else None if best.size is None else self._pruned(best.order[: best.size])
        if chosen is None:
            return best
        rest = np.setdiff1d(best.order, chosen)
        without = np.ones(self.n, dtype=bool)
        without[chosen] = False
        towards = self._towards(without)
        rest = rest[np.argsort(-towards[rest], kind="stable")]
        return _Path(np.concatenate([chosen[np.argsort(-towards[chosen], kind="stable")], rest]), len(chosen))

    def predicted(self, units: NDArray[np.int64]) -> float:
        """Return the predicted score without these units; of the empty text, where it has no prediction, the base."""
        keep = np.isin(np.arange(self.n), units, invert=True)
        score = self.e.predict(keep) if self.empty or keep.any() else self.e.base
        return float(np.atleast_1d(score)[self.rule.column or 0])

    def flip(self, units: NDArray[np.int64]) -> Flip:
        """Return the flip of the prediction without these units."""
        scores = self.e.predict(np.isin(np.arange(self.n), units, invert=True)[None])
        return Flip(tuple(sorted(units.tolist())), self.predicted(units), label=self.rule.reply(scores).labels[0])

    def _towards(self, keep: Masks) -> Floats:
        """Return by how much each unit holds the decision, beside the units that stay: margin with it less margin without."""
        toggled = np.repeat(keep[None], self.n, axis=0)
        np.fill_diagonal(toggled, ~keep)
        margins, _ = self.evaluate(np.concatenate([toggled, keep[None]]))
        change = np.nan_to_num(margins[-1] - margins[:-1], nan=0.0, posinf=0.0, neginf=0.0)
        return np.asarray(np.where(keep, change, -change))

    def _tried_all(self) -> NDArray[np.int64] | None:
        """Return the smallest set, of several the one that leads furthest, by trying all."""
        removed = (np.arange(1, 2**self.n)[:, None] >> np.arange(self.n)) % 2 == 1
        margins, flipped = self.evaluate(~removed)
        if not flipped.any():
            return None
        sizes = np.where(flipped, removed.sum(axis=1), self.n + 1)
        best = np.flatnonzero(sizes == sizes.min())
        return np.flatnonzero(removed[best[margins[best].argmin()]])

    def _pruned(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the set without the units that it does not need."""
        while len(units) > 1:
            keep = np.ones((len(units), self.n), dtype=bool)
            keep[:, units] = np.eye(len(units), dtype=bool)
            margins, flipped = self.evaluate(keep)
            if not flipped.any():
                break
            units = np.delete(units, int(np.where(flipped, margins, np.inf).argmin()))
        return units


class _Asked:
    """What the model was asked, with a budget."""

    def __init__(self, ask: Callable[[Masks], Reply], n: int, budget: int) -> None:
        self.ask, self.n, self.budget = ask, n, budget
        self.replies: dict[frozenset[int], Reply] = {}

    @property
    def queries(self) -> int:
        """Number of queries so far."""
        return len(self.replies)

    @property
    def left(self) -> int:
        """Number of queries that are left."""
        return self.budget - self.queries

    def flips(self, sets: list[NDArray[np.int64]]) -> list[bool]:
        """Return whether the model's decision changes without each set of units; all are asked at once."""
        names = [frozenset(units.tolist()) for units in sets]
        new = [name for name in dict.fromkeys(names) if name not in self.replies]
        if new:
            keep = np.array([[i not in name for i in range(self.n)] for name in new])
            reply = self.ask(keep)
            for row, name in enumerate(new):
                part = slice(row, row + 1)
                self.replies[name] = Reply(reply.scores[part], reply.flipped[part], reply.labels[part])
        return [bool(self.replies[name].flipped[0]) for name in names]

    def along(self, path: _Path, most: int) -> int | None:
        """Return how many units of the path flip the decision, at most `most`; None where no number that was asked does."""
        if most < 1:
            return None
        size = min(path.size or 1, most)
        if self.flips([path.order[:size]])[0]:
            return size
        sizes = [size]
        while sizes[-1] < most and len(sizes) < self.budget:
            sizes.append(min(2 * sizes[-1], most))
        flips = dict(zip(sizes, self.flips([path.order[:k] for k in sizes]), strict=True))
        if not any(flips.values()) and self.left > 0:
            others = [k for k in range(1, most + 1) if k not in flips]
            evenly = np.linspace(0, len(others) - 1, min(self.left, len(others))).astype(int).tolist()
            more = sorted({others[i] for i in evenly})
            flips |= dict(zip(more, self.flips([path.order[:k] for k in more]), strict=True))
        if not any(flips.values()):
            return None
        high = min(k for k, flip in flips.items() if flip)
        low = max((k for k in flips if k < high), default=0)
        while high - low > 1 and self.left > 0:
            middle = (low + high) // 2
            if self.flips([path.order[:middle]])[0]:
                high = middle
            else:
                low = middle
        return high

    def pruned(self, units: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the set without units that it does not need, the weakest first, as far as the budget reaches."""
        step = max(1, -(-2 * len(units) // max(self.left, 1)))
        while True:
            start = len(units)
            while start > 0 and self.left > 0 and len(units) > 1:
                begin = max(start - step, 0)
                smaller = np.delete(units, np.arange(begin, start))
                if len(smaller) and self.flips([smaller])[0]:
                    units = smaller
                start = begin
            if step == 1:
                return units
            step = max(1, step // 2)


def _prefixes(order: NDArray[np.int64]) -> Masks:
    """Return which units (n, n) are among the first 1, ..., n of an order."""
    result = np.empty((len(order), len(order)), dtype=bool)
    result[:, order] = np.tri(len(order), dtype=bool)
    return result


def sentence(e: "Explanation", flip: Flip | None) -> str:
    """Return a flip in words."""
    unit = "token" if e.unit == "type" else e.unit
    if flip is None:
        return f"no set of {unit}s that was tried changes the decision"
    names = Counter(" ".join(e.units[i].split()) or e.units[i] for i in flip.units)
    shown = [
        f'"{_shortened(name)}"' + (f" ({times} times)" if times > 1 else "") for name, times in names.most_common()[:_NAMED]
    ]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    about = e.target if e.values.ndim == 1 else e.labels[int(np.argmax(e.score))]
    before = float(np.atleast_1d(e.score)[0 if e.values.ndim == 1 else int(np.argmax(e.score))])
    after = flip.predicted if flip.asked is None else flip.asked
    predicted = flip.asked is None
    if flip.label is None:
        says = "the surrogate predicts another decision" if predicted else "the model decides otherwise"
    else:
        says = f"the {'surrogate predicts' if predicted else 'model says'} {flip.label}"
    units = unit if len(e) == 1 else f"{unit}s"
    cost = f"; {flip.queries} more {'query' if flip.queries == 1 else 'queries'}" if flip.queries else ""
    return (
        f"without {', '.join(shown)}{more} ({len(flip.units)} of {len(e)} {units}) {says}:"
        f" {score_of(e, about)} {number(before)} to {number(after)}{cost}"
    )


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
