"""From rows to scores: log odds of the labels, how well they are known, and what a reader must know of them."""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from slalom.core.checks import Floats
from slalom.models.api.answers import KNOWN, Mode, Outcome, Rows
from slalom.models.base import Observed, Report
from slalom.models.head import Head
from slalom.models.prompts import LOW_SHARE

MISSING_ADVICE = {
    Outcome.REFUSED: "the model refuses to answer; word the template otherwise, or use another model",
    Outcome.FILTERED: "the server's content filter stops the answer; use another text or server",
    Outcome.EMPTY: "the model says nothing; word the template otherwise (models that reason first need tokens=2000 in Python)",
    Outcome.MALFORMED: "the answer has no log-probabilities; use another mode=",
    Outcome.NO_LABEL: "no label is listed; ask for one in the template, add examples, set spellings=True or (in Python) top=",
}
_HOW = {
    Mode.COMPLETIONS: "log-probabilities of completions, {size:.0f} per token",
    Mode.CHAT: "log-probabilities of chat answers, {size:.0f} per token",
    Mode.SAMPLE: "counts of labels among {size:.0f} samples, with their noise",
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
    low, high, n = rows.low, rows.high, rows.low.shape[1]
    with np.errstate(divide="ignore", invalid="ignore"):
        if target == "all":
            least, most = (
                np.stack([((n - 1) * a[:, c] - np.delete(b, c, axis=1).sum(axis=1)) / n for c in range(n)], axis=1)
                for a, b in ((np.log(low), np.log(high)), (np.log(high), np.log(low)))
            )
            return least, most
        others = [i for i in range(n) if i != target]
        least, most = (np.log(a[:, target]) - np.log(b[:, others].sum(axis=1)) for a, b in ((low, high), (high, low)))
        return least, most


def _variance(rows: Rows, target: int | Literal["all"]) -> Floats | None:
    """Return the variances of scores (m,): of the counts of samples, and of repeats; None where scores are exact.

    Repeats have the variances of log odds. Scores of all labels are log-probabilities less their mean, which vary less:
    by (1 - 1/n)^2 for two labels, and for n equally probable ones.
    """
    counts, n = rows.counts, rows.counts.shape[1]
    if counts.any():
        inverse = 1.0 / (counts + 1.0)
        if target == "all":
            return np.asarray((1.0 - 1.0 / n) * inverse.mean(axis=1))
        others = counts.sum(axis=1) - counts[:, target]
        return np.asarray(inverse[:, target] + 1.0 / (others + n - 1.0))
    measured = rows.spread[(rows.spread >= 0.0).all(axis=1)]
    if not len(measured):
        return None
    noise = measured.mean(axis=0)
    one = noise.mean() * (1.0 - 1.0 / n) ** 2 if target == "all" else noise[target]
    return np.full(len(counts), float(one))


def why_missing(outcomes: Floats) -> tuple[str, str]:
    """Return how many queries have no answer for which reason, and advice for the most frequent one."""
    counts = {kind: int((outcomes == kind).sum()) for kind in MISSING_ADVICE}
    said = ", ".join(f"{kind.title}: {n}" for kind, n in counts.items() if n)
    return said, MISSING_ADVICE[max(counts, key=lambda kind: counts[kind])]


def report(rows: Rows) -> Report:
    """Return what a reader must know of the answers about one text."""
    answered, figures = rows.outcome == Outcome.ANSWERED, dict[str, float]()
    notes = [f"The scores are {_HOW[Mode(int(rows.mode[0]))].format(size=rows.size[0])}."]
    if (rows.mode != rows.mode[0]).any() or (rows.size != rows.size[0]).any():
        notes.append("Answers in the cache were asked for in different ways; use mode= and another cache file.")
    if answered.any():
        figures["label share"] = share = float(rows.share[answered].mean())
        if share < LOW_SHARE:
            notes.append(f"Only {share:.0%} of the probability is on the labels; ask for them in the template or add examples.")
    censored = rows.censored[answered] == 1.0
    figures["censored"] = float(censored.mean()) if len(censored) else 0.0
    notes += _notes_on_bounds(rows.low[answered], rows.high[answered], censored)
    measured = rows.spread[(rows.spread >= 0.0).all(axis=1)]
    if len(measured):
        figures["noise"] = float(np.sqrt(measured.mean()))
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
