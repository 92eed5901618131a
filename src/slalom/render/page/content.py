"""An explanation as the page needs it: lists, numbers and strings.

The surrogate keeps all its digits, so that the page predicts what `Explanation.predict` predicts. Scores of units are for
reading and have six digits.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from slalom.core.checks import Floats, plain
from slalom.errors import count, plural
from slalom.render.charts import full_effect, label_of, scatter_frame
from slalom.result import NORMAL_95, Explanation, Quality, Score, listed
from slalom.result.codec import FIELDS
from slalom.result.scale import DETERMINED, leading_score, opposite
from slalom.result.wording import fidelity_text, queries_text, score_name
from slalom.text import pieces, printable

_OPENING = 90  # characters of a text in the index


def opening(text: str) -> str:
    """Return the first words of a text on one line."""
    words = printable(" ".join(text[: 4 * _OPENING].split()))
    if len(words) <= _OPENING:
        return words or "(empty)"
    cut = words[:_OPENING]
    return (cut.rsplit(" ", 1)[0] if " " in cut[_OPENING // 2 :] else cut) + " …"


def entry(explanation: Explanation) -> dict[str, Any]:
    """Return the entry of the index: prediction, score of the target or of the leading class, first words."""
    e = explanation
    score = np.atleast_1d(e.score)
    return {
        "opening": opening(e.text if e.answer is None else f"{e.answer.question} {e.answer.text}"),
        "prediction": e.prediction,
        "target": e.target if score.size == 1 else e.labels[e.leading],
        "score": float(score[e.leading]),
        "preview": preview(e),
    }


def preview(explanation: Explanation) -> list[tuple[str, float | None]]:
    """Return the first words of a text with the strengths of their colours, in [-1, 1]; None for what is no unit."""
    e = explanation
    column = None if e.values.ndim == 1 else e.leading
    removal, full = e.scores("removal", label_of(e, column)), full_effect(e, "removal", column) or 1.0
    parts: list[tuple[str, float | None]] = []
    left = _OPENING
    for piece in pieces(e.text, e.spans):
        text = printable(" ".join(f"|{piece.text[: 4 * left]}|".split()))[1:-1]  # white space at the ends becomes one blank
        strength = None if piece.unit is None else float(np.clip(removal[piece.unit] / full, -1.0, 1.0).round(3))
        parts.append((text[:left], strength))
        left -= len(text)
        if left <= 0:
            return [*parts, (" …", None)]
    return parts


def content(explanation: Explanation) -> dict[str, Any]:
    """Return everything that is shown of one text."""
    e = explanation
    return {
        "pieces": [[piece.text, piece.unit] for piece in pieces(e.text, e.spans)],
        "units": e.units,
        "unit": e.unit,
        "surrogate": {
            **e.surrogate.to_dict(),
            "lengths": None if e.lengths is None else e.lengths.offsets.tolist(),
            "sizes": e.sizes.tolist(),
        },
        "scores": [_score(e, *scored) for scored in listed(e)],
        "initial_score": leading_score(e),
        "frames": _frames(e),
        "pairs": _pairs(e),
        "spread": _spread(e),
        "score": plain(e.score),
        "score_name": score_name(e),
        "leading": e.leading,
        "told_apart": not e.additive,
        "signed": e.signed,
        "length_effect": plain(e.length_effect),
        "place_effect": None if e.place_effects is None else plain(np.abs(e.place_effects).max(axis=0)),
        "probabilities": None if e.probabilities is None else _digits(e.probabilities),
        "prediction": e.prediction,
        "target": e.target,
        "labels": e.labels,
        "two_classes": opposite(e, e.labels[0]) is not None,
        "answer": _answer(e),
        "warnings": e.remarks,
        "tested": e.fidelity.statement.replace("R2", "R²"),
        "queries": e.queries,
        "facts": _facts(e),
    }


def _answer(e: Explanation) -> dict[str, Any] | None:
    """Return the question, and the answer before, in and after the part that is explained; None where there is none."""
    a = e.answer
    if a is None:
        return None
    parts = (a.text[: a.start], a.part, a.text[a.stop :])
    return {"question": printable(a.question), "parts": [printable(part) for part in parts], "generated": a.generated}


def _classes(e: Explanation) -> Sequence[int | None]:
    """Return the columns of the classes; None alone where one target is explained."""
    return [None] if e.values.ndim == 1 else range(e.values.shape[1])


def _score(e: Explanation, score: Score, numbers: Floats | None, errors: Floats | None) -> dict[str, Any]:
    """Return a row of the table of scores with numbers, half its 95% intervals, and for each class what has the full colour."""
    full = unknown = None
    if numbers is not None and (score.signed or not e.signed):
        full = [float(f"{full_effect(e, score.name, column):.6g}") for column in _classes(e)]
    if numbers is not None and score.name in DETERMINED and e.signed:
        known = (e.determined(score.name, None if column is None else e.labels[column]) for column in _classes(e))
        unknown = [[] if which is None else np.flatnonzero(~which).tolist() for which in known]
    return {
        "name": score.name,
        "label": score.label,
        "meaning": score.meaning,
        "kind": score.kind,
        "percent": score.percent,
        "numbers": None if numbers is None else _digits(numbers),
        "within": None if errors is None else _half_widths(NORMAL_95 * errors),
        "full": full,
        "unknown": unknown,
    }


def _half_widths(numbers: Floats) -> Any:
    """Return numbers to six digits, as (nested) lists; None for an interval without end."""
    if numbers.ndim > 1:
        return [_half_widths(row) for row in numbers]
    return [float(f"{x:.6g}") if np.isfinite(x) else None for x in numbers.tolist()]


def _frames(e: Explanation) -> list[dict[str, Any]] | None:
    """Return what the scatter shows of each class, by the same rule as the figure; None where there is no scatter."""
    if e.additive:
        return None
    frames = []
    for column in _classes(e):
        x, y, pale = scatter_frame(e, column)
        frames.append({"x": x, "y": y, "pale": np.flatnonzero(pale).tolist()})
    return frames


def _pairs(e: Explanation) -> list[tuple[list[int], Any, Any]]:
    """Return pairs of units that act together: their indices, the effect, and half its 95% interval."""
    return [
        (list(units), _number(effect), None if se is None or not np.isfinite(se).all() else _number(NORMAL_95 * np.asarray(se)))
        for units, effect, se in e.pairs
    ]


def _spread(e: Explanation) -> list[tuple[float, Any]] | None:
    """Return standard errors of predictions by the number of tokens removed, increasing; None where they are not known."""
    if e.spread is None:
        return None
    return [(float(removed), _number(se)) for removed, se in zip(e.spread.removed, e.spread.errors, strict=True)]


def _facts(e: Explanation) -> list[tuple[str, str]]:
    """Return how the explanation was made and how well it predicts the model, as names and values."""
    if not e.signed or not e.fidelity.known:
        fidelity = [("Fidelity", fidelity_text(e))]
    else:
        fidelity = [("Fidelity near the text", _quality(e.fidelity.near)), ("Fidelity, all sizes", _quality(e.fidelity.far))]
    rows = [(row.name, row.fact) for row in FIELDS if row.fact and (e.signed or row.name != "fit_r2")]
    units = ("Units", f"{len(e.units):,} {plural(len(e.units), e.unit)}")
    shown = ((caption, text(getattr(e, name))) for name, (caption, text) in rows)
    return [*fidelity, units, ("Queries", queries_text(e)), *(fact for fact in shown if fact[1])]


def _quality(quality: Quality | None) -> str:
    if quality is None:
        return "not tested (no query was left)"
    return f"R² {quality.shown}, mean squared error {quality.mse:.3g} ({count(quality.queries, 'query')})"


def _number(part: Any) -> Any:
    """Return a number, or one per class, to six digits."""
    numbers = np.asarray(part, dtype=float)
    return _digits(numbers) if numbers.ndim else float(f"{float(numbers):.6g}")


def _digits(numbers: Floats) -> Any:
    """Return numbers to six digits, as (nested) lists."""
    return [_digits(row) for row in numbers] if numbers.ndim > 1 else [float(f"{x:.6g}") for x in numbers.tolist()]
