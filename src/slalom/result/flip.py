"""Flips: a small set of units without which the decision is another one.

The surrogate proposes a set, the model confirms it. Units are ranked by how much their removal moves the predicted score
towards another decision, first in the whole text, then where the decision changes; the set is the shortest prefix that flips
the prediction, less the units that it does not need. A SLALOM is above t exactly where the sum of w_i (v_i - t) over the units
that stay is positive, so that a set of the units with the largest terms is a smallest one; the ranking where the decision
changes is nearly theirs.

Where the model does not agree, it is asked along the same path: prefixes of double size, then halfway between the last that
keeps the decision and the first that flips it. Then units that the set does not need are left out.
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, final

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, softmax

from slalom.core.checks import Floats, real_array, whole_number
from slalom.errors import InputError, count, plural
from slalom.result.plain import number, occurrence, shortened
from slalom.result.scale import exclusive, lead, opposite
from slalom.result.scale import threshold as usual_threshold
from slalom.result.wording import asked, one_unit, prediction_text, score_of

if TYPE_CHECKING:
    from slalom.result.explanation import Explanation

_ROUNDS = 10  # rankings of the units; two or three are usual
_CELLS = 4_000_000  # entries of presence matrices that are predicted at once
_NAMED = 12  # units that a sentence names
_FEW = 3  # units that the first sentence names
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


def propose(e: "Explanation", threshold: float | None = None) -> Flip | None:
    """Return the flip that the surrogate of an Explanation predicts; None where it predicts none."""
    rule = Rule(e, threshold)
    _, units = _proposed(e, rule)
    if not len(units):
        return None
    (reply,) = rule.replies(_scores(e, _without(units, len(e))))
    return Flip(tuple(sorted(units.tolist())), reply.score, label=reply.label)


def confirm(
    e: "Explanation", ask: Callable[[Masks], list[Reply]], empty: bool, threshold: float | None = None, max_queries: int = 50
) -> Flip | None:
    """Return a flip that the model confirms; None where none of the sets flips its decision."""
    search, rule = _Search(ask, len(e), whole_number("max_queries", max_queries, 1)), Rule(e, threshold)
    order, first = _proposed(e, rule)
    order = np.concatenate([first, order[~np.isin(order, first)]])
    size = search.along(order, len(first) or 1, len(e) - (not empty))
    if size is None:
        return None
    units = search.pruned(order[:size])
    score, _, label = search.replies[frozenset(units.tolist())]
    predicted = float(np.ravel(_scores(e, _without(units, len(e))))[rule.column or 0])
    return Flip(tuple(sorted(units.tolist())), predicted, score, True, len(search.replies), label)


def _without(units: Indices, n: int) -> Masks:
    return np.isin(np.arange(n), units, invert=True)[None]


def _scores(e: "Explanation", keep: Masks) -> Floats:
    """Return predicted scores of rows (m, n); of the empty text, where it has no prediction, the base."""
    scores = np.empty((len(keep), *e.values.shape[1:]))
    scores[:] = e.base
    rows = np.flatnonzero(keep.any(axis=1))
    for part in np.array_split(rows, max(1, -(-keep.size // _CELLS))):
        if len(part):
            scores[part] = e.predict(keep[part])
    return scores


def _proposed(e: "Explanation", rule: Rule) -> tuple[Indices, Indices]:
    """Return all units in the order in which they are removed, and those that flip the prediction; if any do."""
    n = len(e)
    keep, order, size = np.ones(n, dtype=bool), np.arange(n), 0
    for _ in range(_ROUNDS):
        toggled = np.concatenate([keep ^ np.eye(n, dtype=bool), keep[None]])
        margins = rule.margins(_scores(e, toggled))
        holds = np.where(keep, margins[-1] - margins[:-1], margins[:-1] - margins[-1])  # margin with it less that without
        ranked = np.argsort(-holds, kind="stable")
        left = np.ones((n, n), dtype=bool)  # row k: without the first k + 1
        left[:, ranked] = ~np.tri(n, dtype=bool)
        scores = _scores(e, left)
        flipped = rule.flipped(scores)
        shorter = int(flipped.argmax()) + 1 if flipped.any() else 0
        if size and not 0 < shorter < size:
            break
        order, size = ranked, shorter
        keep = left[size - 1 if size else int(rule.margins(scores).argmin())]
    search = _Search(lambda keep: rule.replies(_scores(e, keep)), n)
    return order, search.pruned(order[:size])


class _Search:
    """The search for a set along a path by what `ask` answers, within a budget of questions."""

    def __init__(self, ask: Callable[[Masks], list[Reply]], n: int, budget: float = math.inf) -> None:
        self.ask, self.n, self.budget = ask, n, budget
        self.replies: dict[frozenset[int], Reply] = {}

    @property
    def remaining(self) -> float:
        """Number of questions that may still be asked."""
        return self.budget - len(self.replies)

    def flips(self, sets: list[Indices]) -> list[bool]:
        """Return whether the decision changes without each set of units; all are asked at once."""
        names = [frozenset(units.tolist()) for units in sets]
        if new := [name for name in dict.fromkeys(names) if name not in self.replies]:
            keep = np.array([[i not in name for i in range(self.n)] for name in new])
            self.replies |= dict(zip(new, self.ask(keep), strict=True))
        return [self.replies[name].flipped for name in names]

    def along(self, order: Indices, size: int, max_units: int) -> int | None:
        """Return how many units of a path flip the decision; None where no number that was asked does."""
        if max_units < 1:
            return None
        sizes = [min(size, max_units)]
        if self.flips([order[: sizes[0]]])[0]:
            return sizes[0]
        while sizes[-1] < max_units and len(sizes) < self.budget:
            sizes.append(min(2 * sizes[-1], max_units))
        flips = self.flips([order[:k] for k in sizes])
        if not any(flips):
            return None
        high, low = sizes[flips.index(True)], sizes[flips.index(True) - 1]
        while high - low > 1 and self.remaining > 0:
            middle = (low + high) // 2
            high, low = (middle, low) if self.flips([order[:middle]])[0] else (high, middle)
        return high

    def pruned(self, units: Indices) -> Indices:
        """Return the set without units that it does not need, the weakest first, as far as the budget reaches."""
        step = max(1, math.ceil(2 * len(units) / max(self.remaining, 1)))
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


def headline(e: "Explanation") -> str:
    """Return what the model decides, and what would change that, as the first sentences; empty where it decides nothing."""
    if e.prediction is None:
        return ""
    said = f"{prediction_text(e)}."
    if not e.signed:
        return said
    if e.surrogate.values.ndim == 2 or opposite(e, e.target) is not None:
        return f"{said} {_change(e)}"
    # The score of one of several classes, or of one independent label, does not tell the decision: its probability is said.
    return f"{said} {_fall(e)}" if e.scale == "log odds" else said


def _fall(e: "Explanation") -> str:
    (i,) = e.strongest(1)
    share, known = float(expit(float(e.score) - e.removal[i])), "asked" if asked(e, "removal")[i] else "predicted"
    return f"Without {_named(e, i)} {e.target} would be at {share:.0%} ({known})."


def _change(e: "Explanation") -> str:
    """Return what changes the decision: the removal of one unit by the model's own answers, else what is predicted."""
    rule, known = Rule(e, None), np.flatnonzero(asked(e, "removal"))
    scores = e.score - e.removal[known]
    if len(known) and (flips := rule.flipped(scores)).any():
        best = int(np.argmin(np.where(flips, rule.margins(scores), np.inf)))
        return f"Without {_named(e, int(known[best]))} it would be {_said(e, rule, scores[best], 'asked')}."
    flip = propose(e)
    if flip is None or (len(flip.units) == 1 and flip.units[0] in known):
        return "No removal that slalom predicts changes that."
    if len(flip.units) > _FEW:
        return f"It takes the removal of {count(len(flip.units), one_unit(e))} to change that (predicted)."
    left = e.predict(~np.isin(np.arange(len(e)), flip.units))
    return f"Without {' and '.join(_named(e, i) for i in flip.units)} it would be {_said(e, rule, left, 'predicted')}."


def _named(e: "Explanation", i: int) -> str:
    return f"“{' '.join(e.units[i].split()) or e.units[i]}”{occurrence(e.units, i)}"


def _said(e: "Explanation", rule: Rule, score: Any, known: str) -> str:
    """Return the label of a score, how it is known, and its probability: 'positive (asked: 98%)'."""
    (reply,) = rule.replies(np.asarray(score)[None])
    if e.scale != "log odds":
        return f"{reply.label} ({known})"
    share = float(softmax(score).max()) if np.ndim(score) else float(expit(score if reply.label == e.target else -score))
    return f"{reply.label} ({known}: {share:.0%})"


def sentence(e: "Explanation", flip: Flip | None) -> str:
    """Return a flip in words."""
    unit = one_unit(e)
    if flip is None:
        return f"no set of {unit}s that was tried changes the decision"
    times = Counter(" ".join(e.units[i].split()) or e.units[i] for i in flip.units).most_common()
    names = [f'"{shortened(name, _LONGEST)}"' + (f" ({n} times)" if n > 1 else "") for name, n in times[:_NAMED]]
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
