"""Rows of a corpus as the page shows them: an entry of the list, and one text whole."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from slalom.core.checks import Floats
from slalom.corpus.counts import label_of
from slalom.corpus.folder import Folder
from slalom.corpus.parts import part_file
from slalom.corpus.table import EXPLAINED, GIVEN
from slalom.errors import InputError, ModelError, one_line
from slalom.render.page.content import content
from slalom.result import NORMAL_95, Explanation
from slalom.text import pieces, printable
from slalom.web.corpus_scan import Facts, Hit
from slalom.web.failures import NotFound

_PREVIEWED = 220  # characters of a text in the list
_ENTRY = ("number", "id", "status", "error", "text", "label", "probability", "target", "score", "near_r2", "units", "starts",
          "ends", "removal")  # fmt: skip
_TEXT = (*_ENTRY, "n_units", "removal_se", "far_r2", "queries", "remarks")


def entries(folder: Folder, hits: Sequence[Hit], facts: Facts) -> tuple[list[dict[str, Any]], set[int]]:
    """Return texts as the list shows them, in the order of the hits, and the damaged parts, which are left out."""
    by_part: dict[int, list[int]] = {}
    for hit in hits:
        by_part.setdefault(hit.number // facts.part_size, []).append(hit.number % facts.part_size)
    columns = [*_ENTRY, *(GIVEN + name for name in facts.keep)]
    found: dict[int, dict[str, Any]] = {}
    damaged = set[int]()
    for part, places in by_part.items():
        try:
            rows = read_rows(folder, part, places, columns)
        except InputError:
            damaged.add(part)
            continue
        found |= {part * facts.part_size + place: row for place, row in rows.items()}
    return [_entry(found[hit.number], hit.effect, facts) for hit in hits if hit.number in found], damaged


def read_rows(folder: Folder, part: int, places: Iterable[int], columns: Sequence[str]) -> dict[int, dict[str, Any]]:
    """Return some rows of a part by their places; those that it does not have are left out."""
    wanted, before = sorted(set(places)), 0
    found: dict[int, dict[str, Any]] = {}
    with part_file(folder, part) as file:
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            inside = [place for place in wanted if before <= place < before + rows]
            if inside:
                table = file.read_row_group(group, list(columns)).take([place - before for place in inside])
                found |= dict(zip(inside, table.to_pylist(), strict=True))
            before += rows
    return found


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
    part, place = divmod(number, facts.part_size)
    if number < 0 or part not in set(parts):
        raise NotFound(f"text {number} is not in the corpus, or not yet")
    columns = [*_TEXT, *(GIVEN + name for name in facts.keep), *(["explanation"] if full else [])]
    try:
        row = read_rows(folder, part, [place], columns).get(place)
        if row is None:
            raise NotFound(f"text {number} is not in the corpus, or not yet")
        stored = row.get("explanation")
        e = None if stored is None else Explanation.from_dict(json.loads(stored))
    except (OSError, ValueError, KeyError) as error:
        if isinstance(error, NotFound):
            raise
        again = "the command that began the corpus explains it again"
        raise ModelError(f"part {part} of the corpus is damaged; {again}") from error
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
