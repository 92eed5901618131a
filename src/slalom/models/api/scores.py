"""From rows to scores: log odds of the labels, how well they are known, and what a reader must know of them."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slalom.core import Observed
from slalom.core.checks import Floats
from slalom.models.api.answers import KNOWN, Outcome, Rows
from slalom.models.base import Report
from slalom.models.head import Head
from slalom.models.prompts import LOW_SHARE

MISSING_ADVICE = {
    Outcome.REFUSED: "the model refuses to answer; word the template otherwise, or use another model",
    Outcome.FILTERED: "the server's content filter stops the answer; use another text or server",
    Outcome.EMPTY: "the model says nothing; word the template otherwise (models that reason first need tokens=2000 in Python)",
    Outcome.MALFORMED: "the answer has no log-probabilities; use another mode=",
    Outcome.NO_LABEL: "no label is listed; ask for one in the template, add examples, set spellings=True or (in Python) top=",
}


def observed(rows: Rows, head: Head, target: int | Literal["all"]) -> Observed:
    """Return the scores of a target. A query without an answer has infinite bounds, and the mean of the others as its score."""
    answered = rows.outcome == Outcome.ANSWERED
    scores = head.scores(rows.log_p, target)

    def each(queries: NDArray[np.bool_]) -> NDArray[np.bool_]:
        return queries if scores.ndim == 1 else queries[:, None]

    if not answered.all():
        scores = np.where(each(answered), scores, scores[answered].mean(axis=0))
    low, high = _bounds(rows, target)
    low, high = np.where(each(answered), low, -np.inf), np.where(each(answered), high, np.inf)
    close = (high - low < KNOWN) | each(answered & (rows.censored == 0.0))
    bounds = (None, None) if close.all() else (np.where(close, scores, low), np.where(close, scores, high))
    counts = rows.counts
    samples = (None, None) if target == "all" or not counts.any() else (counts[:, target], counts.sum(axis=1))
    return Observed(scores, _variance(rows, target), *bounds, *samples)


def _bounds(rows: Rows, target: int | Literal["all"]) -> tuple[Floats, Floats]:
    """Return the least and the largest scores, of the shape of the scores, that the bounds of the probabilities allow."""
    n = rows.low.shape[1]

    def extreme(p: Floats, q: Floats) -> Floats:
        """Return the scores where the target has the probability p, and the others have q."""
        if target == "all":
            p, q = np.log(p), np.log(q)
            return np.stack([((n - 1) * p[:, c] - np.delete(q, c, axis=1).sum(axis=1)) / n for c in range(n)], axis=1)
        return np.asarray(np.log(p[:, target]) - np.log(np.delete(q, target, axis=1).sum(axis=1)))

    with np.errstate(divide="ignore", invalid="ignore"):
        return extreme(rows.low, rows.high), extreme(rows.high, rows.low)


def _variance(rows: Rows, target: int | Literal["all"]) -> Floats | None:
    """Return the variances of scores (m,): of the counts of samples, or of equal requests; None where scores are exact.

    Scores of all labels are log-probabilities less their mean, which vary less than log odds: by (1 - 1/n)^2 for two labels,
    and for n equally probable ones.
    """
    counts, n = rows.counts, rows.counts.shape[1]
    if counts.any():
        inverse = 1.0 / (counts + 1.0)
        if target == "all":
            return np.asarray((1.0 - 1.0 / n) * inverse.mean(axis=1))
        others = counts.sum(axis=1) - counts[:, target]
        return np.asarray(inverse[:, target] + 1.0 / (others + n - 1.0))
    if not rows.noise.any():
        return None
    return np.full(len(counts), rows.noise.mean() * ((1.0 - 1.0 / n) ** 2 if target == "all" else 1.0))


def why_missing(outcomes: Floats) -> tuple[str, str]:
    """Return how many queries have no answer for which reason, and advice for the most frequent one."""
    counts = {kind: int((outcomes == kind).sum()) for kind in MISSING_ADVICE}
    said = ", ".join(f"{kind.title}: {n}" for kind, n in counts.items() if n)
    return said, MISSING_ADVICE[max(counts, key=lambda kind: counts[kind])]


def report(rows: Rows) -> Report:
    """Return what a reader must know of the answers about one text."""
    answered, figures, how = rows.outcome == Outcome.ANSWERED, dict[str, float](), int(rows.how[0])
    kind = f"log-probabilities, {how} per token" if how > 0 else f"counts of labels among {-how} samples, with their noise"
    notes = [f"The scores are {kind}."]
    if (rows.how != how).any():
        notes.append("Answers in the cache were asked for in different ways; use mode= and another cache file.")
    if answered.any():
        figures["label share"] = share = float(rows.share[answered].mean())
        if share < LOW_SHARE:
            notes.append(f"Only {share:.0%} of the probability is on the labels; ask for them in the template or add examples.")
    censored = rows.censored[answered] == 1.0
    figures["censored"] = float(censored.mean()) if len(censored) else 0.0
    notes += _notes_on_bounds(rows.low[answered], rows.high[answered], censored)
    if rows.noise.any():
        figures["noise"] = float(np.sqrt(rows.noise.mean()))
        notes.append(f"Equal requests get answers that differ by {figures['noise']:.2g} log odds (standard deviation).")
    figures |= {kind.title: float(share) for kind in MISSING_ADVICE if (share := (rows.outcome == kind).mean())}
    if not answered.all():
        why = why_missing(rows.outcome)[0]
        notes.append(f"{(~answered).sum()} of {len(answered)} queries have no answer and no weight ({why}).")
    return Report(figures, tuple(notes))


def _notes_on_bounds(low: Floats, high: Floats, censored: NDArray[np.bool_]) -> Sequence[str]:
    notes = []
    more = float((high[~censored] / low[~censored]).max(initial=1.0) - 1.0)
    if more > KNOWN:
        notes.append(f"Spellings that are not among the listed tokens could add at most {more:.0%} to a label's probability.")
    if censored.any():
        notes.append(
            f"In {censored.sum()} of {len(censored)} queries a label or a spelling of it is not among the listed tokens; the"
            " score has bounds."
        )
    if 2 * censored.sum() > len(censored):
        advice = "ask for more log-probabilities (top= in Python) or spellings=False"
        notes.append(f"Few or no queries are left to test it; {advice}.")
    return notes
