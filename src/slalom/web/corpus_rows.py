"""Rows of a corpus as the page shows them: an entry of the list, and one text whole."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from slalom.core.checks import Floats
from slalom.corpus.counts import label_of
from slalom.corpus.folder import Folder
from slalom.corpus.table import EXPLAINED, GIVEN
from slalom.errors import ModelError, one_line
from slalom.render.page.content import content
from slalom.result import NORMAL_95, Explanation
from slalom.text import pieces, printable
from slalom.web.corpus_search import Facts, rows
from slalom.web.failures import NotFound

_PREVIEWED = 220  # characters of a text in the list
_ENTRY = ("number", "id", "status", "error", "text", "label", "probability", "target", "score", "near_r2", "units", "starts",
          "ends", "removal")  # fmt: skip
_TEXT = (*_ENTRY, "n_units", "removal_se", "far_r2", "queries", "remarks")


def entries(folder: Folder, hits: Sequence[tuple[int, float | None]], facts: Facts) -> list[dict[str, Any]]:
    """Return texts as the list shows them, in the order of the hits: number, and effect of the word that was looked for."""
    found = rows(folder, facts.part_size, [number for number, _ in hits], [*_ENTRY, *(GIVEN + name for name in facts.keep)])
    return [_entry(found[number], effect, facts) for number, effect in hits if number in found]


def _entry(row: Mapping[str, Any], effect: float | None, facts: Facts) -> dict[str, Any]:
    entry = _facts(row, facts)
    if row["status"] != EXPLAINED:
        text = printable(" ".join((row["text"] or "")[: 2 * _PREVIEWED].split()))[:_PREVIEWED]
        return entry | {"effect": None, "strongest": None, "preview": [(text, None)]}
    removal = np.asarray(row["removal"], dtype=float)
    top = int(np.argmax(np.abs(removal))) if len(removal) else None
    strongest = None if top is None else {"unit": printable(row["units"][top])[:60], "effect": _number(removal[top])}
    return entry | {"effect": _number(effect), "strongest": strongest, "preview": _preview(row, removal)}


def _facts(row: Mapping[str, Any], facts: Facts) -> dict[str, Any]:
    """Return what the table knows of a text besides its units."""
    gold = None if facts.gold is None else label_of(row[GIVEN + facts.gold], facts.labels)
    return {
        "number": row["number"],
        "id": printable(row["id"])[:200],
        "status": row["status"],
        "error": None if row["error"] is None else printable(row["error"])[:500],
        "label": row["label"],
        "probability": _number(row["probability"]),
        "target": row["target"],
        "score": _number(row["score"]),
        "fidelity": _number(row["near_r2"]),
        "gold": gold,
        "wrong": None if gold is None or row["label"] is None else gold != row["label"],
        "given": {name: None if row[GIVEN + name] is None else printable(row[GIVEN + name])[:200] for name in facts.keep},
    }


def _full(removal: Floats) -> float:
    """Return the effect that has the full colour: the strongest of the text; the numbers beside it say how strong that is."""
    return float(np.abs(removal).max(initial=0.0)) or 1.0


def _preview(row: Mapping[str, Any], removal: Floats) -> list[tuple[str, float | None]]:
    """Return the first words of a text with the strengths of their colours."""
    full = _full(removal)
    parts: list[tuple[str, float | None]] = []
    left = _PREVIEWED
    for text, unit in _pieces(row, 4 * _PREVIEWED):
        shown = printable(" ".join(f"|{text[: 4 * left]}|".split()))[1:-1]  # white space at the ends becomes one blank
        parts.append((shown[:left], None if unit is None else round(float(removal[unit]) / full, 3)))
        left -= len(shown)
        if left <= 0:
            return [*parts, (" …", None)]
    return parts


def _pieces(row: Mapping[str, Any], most: int) -> list[tuple[str, int | None]]:
    """Return the beginning of a text, cut at its units; the names of the units where texts were not kept."""
    if row["text"] is None:
        named: list[tuple[str, int | None]] = []
        for unit, name in enumerate(row["units"][:most]):
            named += [(name, unit), (" ", None)]
        return named[:-1]
    spans = np.stack([row["starts"], row["ends"]], axis=1).reshape(-1, 2)
    seen = np.flatnonzero(spans[:, 0] < most)
    cut = pieces(row["text"][:most], np.minimum(spans[seen], most))
    return [(piece.text, None if piece.unit is None else int(seen[piece.unit])) for piece in cut]


def whole_text(folder: Folder, parts: Iterable[int], number: int, facts: Facts, full: bool, most: int) -> dict[str, Any]:
    """Return a text whole: as its stored explanation shows it, or with the effects of its units."""
    part = number // facts.part_size
    if number < 0 or part not in set(parts):
        raise NotFound(f"text {number} is not in the corpus, or not yet")
    columns = [*_TEXT, *(GIVEN + name for name in facts.keep), *(["explanation"] if full else [])]
    try:
        row = rows(folder, facts.part_size, [number], columns).get(number)
        stored = None if row is None else row.get("explanation")
        e = None if stored is None else Explanation.from_dict(json.loads(stored))
    except (OSError, ValueError, KeyError) as error:
        again = "the command that began the corpus explains it again"
        raise ModelError(f"part {part} of the corpus is damaged; {again}") from error
    if row is None:
        raise NotFound(f"text {number} is not in the corpus, or not yet")
    shown = _facts(row, facts) | {
        "text": None if row["text"] is None else printable(row["text"][:most]),
        "cut": row["text"] is not None and len(row["text"]) > most,
        "content": None if e is None else content(e),
        "effects": None,
    }
    return shown if row["status"] != EXPLAINED or e is not None else shown | {"effects": _effects(row, most)}


def _effects(row: Mapping[str, Any], most: int) -> dict[str, Any]:
    """Return the units of a text with their effects."""
    cut = [(printable(text), unit) for text, unit in _pieces(row, most)]
    shown = 1 + max((unit for _, unit in cut if unit is not None), default=-1)
    errors = row["removal_se"]
    return {
        "pieces": cut,
        "units": [printable(name) for name in row["units"][:shown]],
        "removal": [_number(effect) for effect in row["removal"][:shown]],
        "full": _full(np.asarray(row["removal"], dtype=float)),
        "within": None if errors is None else [_number(NORMAL_95 * se) if se is not None else None for se in errors[:shown]],
        "fidelity": {"near": _number(row["near_r2"]), "far": _number(row["far_r2"])},
        "queries": row["queries"],
        "remarks": [one_line(remark) for remark in row["remarks"] or ()],
    }


def _number(x: float | None) -> float | None:
    """Return a number to six digits; None where it is none."""
    return None if x is None or not np.isfinite(x) else float(f"{x:.6g}")
