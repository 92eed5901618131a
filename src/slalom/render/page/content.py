"""An explanation as the page needs it: lists, numbers and strings.

The surrogate keeps all its digits, so that the page predicts what `Explanation.predict` predicts. Scores of units are for
reading and have six digits.
"""

from dataclasses import replace
from typing import Any

import numpy as np

from slalom.core.checks import Floats, plain
from slalom.errors import count, plural
from slalom.render.charts import View
from slalom.render.page.parts import rounded
from slalom.result import NORMAL_95, AnswerSentence, Explanation, Quality, Score, listed
from slalom.result.codec import FIELDS
from slalom.result.scale import leading_score, opposite
from slalom.result.wording import competition_text, fidelity_text, queries_text, score_name, source_names, source_numbers
from slalom.text import pieces, printable

_OPENING = 90  # characters of a text in the index
_SHARED = ("pieces", "units", "sizes", "numbers", "unit", "answer", "sentences")  # what sentences of an answer have in common


def opening(text: str) -> str:
    """Return the first words of a text on one line."""
    words = printable(" ".join(text[: 4 * _OPENING].split()))
    if len(words) <= _OPENING:
        return words or "(empty)"
    cut = words[:_OPENING]
    return (cut.rsplit(" ", 1)[0] if " " in cut[_OPENING // 2 :] else cut) + " …"


def entry(e: Explanation) -> dict[str, Any]:
    """Return the entry of the index: prediction, score of the target or of the leading class, first words."""
    view = View(e, e.column())
    return {
        "opening": opening(e.text if e.answer is None else f"{e.answer.question} {e.answer.text}"),
        "prediction": e.prediction,
        "target": view.label or e.target,
        "score": view.score,
        "preview": preview(view),
    }


def preview(view: View) -> list[tuple[str, float | None]]:
    """Return the first words of a text with the strengths of their colours, in [-1, 1]; None for what is no unit."""
    e = view.explanation
    strengths = np.clip(view.scores("removal") / view.full_effect("removal"), -1.0, 1.0).round(3)
    parts: list[tuple[str, float | None]] = []
    room = _OPENING
    for piece in pieces(e.text, e.spans):
        text = printable(" ".join(f"|{piece.text[: 4 * room]}|".split()))[1:-1]  # white space at the ends becomes one blank
        parts.append((text[:room], None if piece.unit is None else float(strengths[piece.unit])))
        room -= len(text)
        if room <= 0:
            return [*parts, (" …", None)]
    return parts


def content(e: Explanation, part: bool = False) -> dict[str, Any]:
    """Return everything that is shown of one text, or of a part of an answer beside the whole."""
    views = [View(e, column) for column in ([None] if e.values.ndim == 1 else range(e.values.shape[1]))]
    cut, fields = cut_text(e)
    return {
        "pieces": cut,
        **({"fields": rounded(fields)} if fields else {}),
        "headline": e.headline,
        "competition": competition_text(e),
        "units": source_names(e) if e.answer else e.units,
        "numbers": source_numbers(e) if e.answer else None,
        "sizes": e.sizes.tolist(),
        "unit": e.unit,
        "surrogate": e.surrogate.to_dict(),
        "scores": [_score(views, *scored) for scored in listed(e)],
        "initial_score": leading_score(e),
        "frames": None if e.additive else [view.frame()._asdict() for view in views],
        "pairs": [(list(pair.units), _digits(pair.effect), _half_width(pair.se)) for pair in e.pairs],
        "spread": None if e.spread is None else list(zip(*map(_digits, (e.spread.removed, e.spread.errors)), strict=True)),
        "score": plain(e.score),
        "score_name": score_name(e),
        "leading": e.leading,
        "told_apart": not e.additive,
        "signed": e.signed,
        "place_effect": None if e.place_effects is None else plain(np.abs(e.place_effects).max(axis=0)),
        "probabilities": None if e.probabilities is None else _digits(e.probabilities),
        "prediction": e.prediction,
        "target": e.target,
        "labels": e.labels,
        "two_classes": opposite(e, e.labels[0]) is not None,
        "answer": _answer(e),
        "sentences": [] if part else [_sentence(sentence, e) for sentence in e.sentences],
        "warnings": e.remarks,
        "tested": e.fidelity.statement.replace("R2", "R²"),
        "queries": e.queries,
        "facts": _facts(e),
    }


def cut_text(e: Explanation) -> tuple[list[list[Any]], list[tuple[Any, ...]]]:
    """Return the pieces of the text, [text, unit or None], and the fields of a record, (name, units, removal, Shapley values).

    The piece before the value of a field has its number as a third entry. What is not known is None.
    """
    n, given = len(e), e.record.fields if e.record else ()
    leads = zip((0, *(field.end for field in given)), (field.start for field in given), strict=False)
    cut = pieces(e.text, np.array([*e.spans.tolist(), *leads], dtype=np.int64))
    effects = {f.name: (f.units, plain(f.removal), plain(f.shapley) if e.signed else None) for f in e.fields}
    fields = [(field.name, *effects.get(field.name, ((), None, None))) for field in given]
    return [[text, i] if i is None or i < n else [text, None, i - n] for text, i in cut], fields


def _answer(e: Explanation) -> dict[str, Any] | None:
    a = e.answer
    if a is None:
        return None
    return {"question": printable(a.question), "pieces": cut_answer(e), "generated": a.generated}


def cut_answer(e: Explanation) -> list[tuple[str, int | None]]:
    """Return the pieces of the answer, each with the number of its sentence; None for what is not explained."""
    spans = np.array([(s.start, s.stop) for s in e.sentences], dtype=np.int64)
    return [(printable(text), k) for text, k in pieces(e.answer.text if e.answer else "", spans)]


def _sentence(s: AnswerSentence, whole: Explanation) -> dict[str, Any]:
    """Return a sentence of an answer: what it rests on, with the joint effect of each group, and its own explanation."""
    own, spans = s.explanation, np.array([(word.start, word.stop) for word in s.words], dtype=np.int64).reshape(-1, 2) - s.start
    return {
        **_rests(s),
        "pieces": [(printable(text), k) for text, k in pieces(s.text, spans)],
        "words": [
            _rests(word) | {"effects": _digits(word.effects), "within": _half_width(word.explanation.standard_errors())}
            for word in s.words
        ],
        "content": None if own is whole else {k: part for k, part in content(own, part=True).items() if k not in _SHARED},
    }


def _rests(s: AnswerSentence) -> dict[str, Any]:
    return {
        "groups": [(sorted(group), _digits(s.effect(group))) for group in s.groups],
        "memory": s.from_memory,
        "score": _digits(s.score),
        "without": _digits(s.without),
    }


def _score(views: list[View], score: Score, numbers: Floats | None, errors: Floats | None) -> dict[str, Any]:
    """Return a row of the table of scores with numbers, half its 95% intervals, and for each class what has the full colour."""
    e, full = views[0].explanation, None
    if (how := e.settings.get("removal")) and e.signed and score.name == "removal":
        score = replace(score, meaning=f"{score.meaning} ({how})")
    if numbers is not None and (score.signed or not e.signed):
        full = [_digits(e.full_effect(score.name, view.label)) for view in views]
    return {
        **{name: getattr(score, name) for name in ("name", "label", "meaning", "kind", "percent")},
        "numbers": None if numbers is None else _digits(numbers),
        "within": None if errors is None else _half_width(errors),
        "full": full,
    }


def _facts(e: Explanation) -> list[tuple[str, str]]:
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


def _half_width(errors: Any) -> Any:
    """Return half the 95% intervals; None where they are not known."""
    return None if errors is None else _digits(NORMAL_95 * np.asarray(errors))


def _digits(numbers: Any) -> Any:
    """Return a number, or numbers as (nested) lists, to six digits; None for those without end."""
    return rounded(np.asarray(numbers, dtype=np.float64).tolist())
