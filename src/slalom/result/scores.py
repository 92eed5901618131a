"""The scores of units, one row each. What shows, saves or explains scores reads this table, so that a new score is a new row.

Pages, figures, data frames, the terminal, JSON files and the tables of corpora have the listed scores in this order, by these
names. Standard errors are `Explanation.errors`, by the same names; a 95% interval reaches 1.96 of them to each side.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NamedTuple, final

import numpy as np

from slalom.core import Point
from slalom.core.checks import Floats, check_choice
from slalom.errors import InputError

if TYPE_CHECKING:
    from slalom.result.explanation import Explanation


@final
@dataclass(frozen=True)
class Score:
    """A score of units.

    Attributes:
        name: In Python, files, tables and on the command line.
        label: Its title.
        meaning: What it says of a unit: the rest of a sentence in which "the score" is what the model says.
        kind: An "effect" or a "share" is made of changes of the predicted score; a "parameter" and "attention" are not known
            where units are additive. Only attention has no sign. Colours measure effects by what another decision takes.
        compute: From an Explanation to numbers (n,), or (n, n_classes) where the classes differ.
        listed: Whether pages, files and tables have it; the others are computed on request.
        percent: Whether it is written as a percentage.
    """

    name: str
    label: str
    meaning: str
    kind: Literal["effect", "share", "parameter", "attention"]
    compute: "Callable[[Explanation], Floats]"
    listed: bool = True
    percent: bool = False

    @property
    def signed(self) -> bool:
        """Whether its sign means for or against the target, and zero means nothing."""
        return self.kind != "attention"

    @property
    def change(self) -> bool:
        """Whether it is made of changes of the predicted score."""
        return self.kind in ("effect", "share")


def removal(e: "Explanation") -> Floats:
    """Return predict(all) - predict(all but the unit); the model's own answer where the unit was removed alone."""
    return _own(e, "removal", e.surrogate.removal())


def value(e: "Explanation") -> Floats:
    """Return predict(the unit alone) - predict(nothing); the model's own answer where it was asked alone."""
    return _own(e, "value", e.surrogate.alone())


def _own(e: "Explanation", name: str, predicted: Floats) -> Floats:
    measured = e.measured.get(name)
    return predicted if measured is None else np.where(np.isnan(measured), predicted, measured)


def shapley(e: "Explanation") -> Floats:
    """Return the Shapley values of the prediction."""
    return e.surrogate.shapley()


def banzhaf(e: "Explanation") -> Floats:
    """Return the Banzhaf values of the prediction: the mean of predict(C + i) - predict(C) over all sets C of other units."""
    return e.surrogate.semivalue(Point(0.5))


def gradient(e: "Explanation") -> Floats:
    """Return the derivative of the prediction by the presence of each unit."""
    return e.surrogate.gradient()


def weight(e: "Explanation") -> Floats:
    """Return the shares of attention in the whole text."""
    return np.asarray(e.surrogate.weights(np.ones((1, len(e.units))))[0])


SCORES = {
    score.name: score
    for score in (
        Score("removal", "Removal", "by how much the score falls without it", "effect", removal),
        Score("shapley", "Shapley", "its share of the score, averaged over all orders of adding units", "share", shapley),
        Score("banzhaf", "Banzhaf", "what it adds to the score, averaged over all sets of others", "share", banzhaf, False),
        Score("gradient", "Gradient", "the derivative of the score by its presence", "effect", gradient),
        Score("linear", "Linear", "its value times exp(competition x importance)", "parameter", lambda e: e.surrogate.linear()),
        Score("value", "Value", "what it says alone: the score of it alone minus that of the empty text", "parameter", value),
        Score(
            "importance",
            "Importance",
            "its weight against the others, as a logarithm: one more counts e = 2.7 times as much, the mean is 0",
            "attention",
            lambda e: e.importances,
        ),
        Score("weight", "Weight", "its share of the attention in the whole text", "attention", weight, percent=True),
    )
}


def score_named(name: str) -> Score:
    """Return a score by its name."""
    check_choice("a score", name, SCORES)
    return SCORES[name]


_STRENGTH = "how much it counts, neither for nor against"  # what the scores of a method without signs mean


class Scored(NamedTuple):
    """A listed score of one explanation; its numbers are None where it means nothing here, its errors where not known."""

    score: Score
    numbers: Floats | None
    errors: Floats | None


def listed(e: "Explanation", shares: bool = True) -> Iterator[Scored]:
    """Yield the listed scores of an explanation; of a method without signs the first alone.

    Without `shares` those are left out that take longer than all the others: they are integrals.
    """
    for score in SCORES.values():
        if not e.signed:
            yield Scored(replace(score, label="Score", meaning=_STRENGTH, kind="attention"), np.abs(score.compute(e)), None)
            return
        if score.listed and (shares or score.kind != "share"):
            numbers = _defined(e, score)
            yield Scored(score, numbers, None if numbers is None else e.errors.get(score.name))


def _defined(e: "Explanation", score: Score) -> Floats | None:
    if e.additive and score.name in ("importance", "weight"):
        return None
    try:
        return e.all_classes(score.name)
    except InputError:  # linear scores of very unequal importances leave the range of floats
        return None
