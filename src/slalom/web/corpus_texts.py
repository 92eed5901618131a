"""The texts of a corpus as the page shows them: found and sorted by DuckDB, a page of a list, and one text whole."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import Any, TypeAlias, final

import numpy as np
from starlette.exceptions import HTTPException

from slalom.corpus.folder import Folder
from slalom.corpus.queries import BETWEEN, PIECE, Parts, connect, identifier, literal, occurrences, truth
from slalom.corpus.table import EXPLAINED, GIVEN, LONGEST
from slalom.errors import InputError, ModelError, one_line
from slalom.render.page.content import content
from slalom.result import NORMAL_95, Explanation
from slalom.text import pieces, printable, simple_words
from slalom.web.schema import CorpusQuery

MAX_HITS = 10_000  # texts that a search keeps, so the largest offset of a page
_PREVIEWED = 220  # characters of a text in the list
_ENTRY = ("number", "id", "status", "error", "text", "label", "probability", "target", "score", "near_r2", "units", "starts",
          "ends", "removal")  # fmt: skip
_TEXT = (*_ENTRY, "removal_se", "far_r2", "queries", "remarks", "explanation")


_ORDERS = {  # title, and what is sorted by: the largest comes first, NULL last
    "number": ("Source order", "-number"),
    "score": ("Highest score", "score"),
    "-score": ("Lowest score", "-score"),
    "probability": ("Most certain", "probability"),
    "-probability": ("Least certain", "-probability"),
    "effect": ("Strongest effect", "coalesce(abs(effect), list_max(list_transform(removal, lambda x: abs(x))))"),
    "fidelity": ("Best fidelity", "near_r2"),
    "-fidelity": ("Worst fidelity", "-near_r2"),
    "wrong": ("Wrong predictions first", "2 * (truth != label)::INT + coalesce(probability, 0)"),
}


Hit: TypeAlias = tuple[int, float | None]  # number, and effect of the word
Hits: TypeAlias = tuple[int, Sequence[Hit]]  # how many texts match, and the first of them


@final
@dataclass(frozen=True)
class Texts:
    """The texts of a corpus."""

    folder: Folder
    labels: tuple[str, ...]  # of the model
    keep: tuple[str, ...]  # kept columns
    gold: str | None  # the one with the true labels
    part_size: int
    characters: int  # of a text that are shown at most

    @property
    def orders(self) -> dict[str, str]:
        return {name: title for name, (title, _) in _ORDERS.items() if self.gold is not None or name != "wrong"}

    def find(self, query: CorpusQuery, parts: Sequence[int]) -> Hits:
        if query.sort not in self.orders:
            why = "; wrong needs a kept column with true labels (--gold)" if query.sort in _ORDERS else ""
            raise InputError(f"sort must be one of {', '.join(self.orders)}; got {query.sort[:40]!r}{why}")
        conditions, values = ["true"], dict[str, str]()
        if query.slice:
            # a name may have an equals sign
            column = max((name for name in self.keep if query.slice.startswith(f"{name}=")), key=len, default=None)
            if column is None:
                kept = ", ".join(self.keep) or "none; --keep NAME of slalom corpus run keeps one"
                raise InputError(f"slice must be COLUMN=VALUE with a kept column ({kept}); got {query.slice[:60]!r}")
            conditions.append(f"{identifier(GIVEN + column)} = $value")
            values["value"] = query.slice[len(column) + 1 :]
        if query.target:  # effects of other classes mean something else
            conditions.append(f"status = {literal(EXPLAINED)} AND target = $target")
            values["target"] = query.target
        if query.search:
            conditions.append("(contains(lower(text), lower($search)) OR contains(lower(id), lower($search)))")
            values["search"] = query.search
        keys = _keys(query.word) if query.word else []
        values |= {f"key{i}": key for i, (_, key) in enumerate(keys)}
        if not parts:
            return 0, []
        with closing(connect()) as connection:
            texts = f"SELECT * FROM {Parts(connection, self.folder, parts).source()} WHERE {' AND '.join(conditions)}"
            with_effect = f"SELECT *, NULL::DOUBLE AS effect FROM ({texts})"
            if keys:
                places = " UNION ALL ".join(
                    f"SELECT number, effect FROM ({occurrences(texts, length)} AND key = $key{i})"
                    for i, (length, _) in enumerate(keys)
                )
                effects = f"SELECT number, avg(effect) AS effect FROM ({places}) GROUP BY number"
                with_effect = f"SELECT * FROM ({effects}) JOIN ({texts}) USING (number)"
            ranked = f"SELECT *, {truth(self.labels, self.gold)} AS truth FROM ({with_effect})"
            first = f"ORDER BY {_ORDERS[query.sort][1]} DESC NULLS LAST, number LIMIT {MAX_HITS}"
            hits = connection.execute(f"SELECT number, effect, count(*) OVER () FROM ({ranked}) {first}", values).fetchall()
        return hits[0][2] if hits else 0, [(number, effect) for number, effect, _ in hits]

    def entries(self, hits: Sequence[Hit]) -> list[dict[str, Any]]:
        """Return texts as the list shows them, in the order of the hits; those that are not there are left out."""
        rows = self._rows([number for number, _ in hits], _ENTRY)
        return [self._entry(rows[number], effect) for number, effect in hits if number in rows]

    def _rows(self, numbers: Sequence[int], columns: Sequence[str]) -> dict[int, dict[str, Any]]:
        parts = sorted({number // self.part_size for number in numbers})
        if not parts:
            return {}
        names = [*columns, *(GIVEN + name for name in self.keep)]
        with closing(connect()) as connection:
            source = Parts(connection, self.folder, parts).source()
            columns = f"{', '.join(map(identifier, names))}, {truth(self.labels, self.gold)}"
            query = f"SELECT {columns} FROM {source} WHERE number IN (SELECT unnest(?::BIGINT[]))"
            rows = connection.execute(query, [list(numbers)]).fetchall()
        return {row[names.index("number")]: dict(zip([*names, "truth"], row, strict=True)) for row in rows}

    def _entry(self, row: Mapping[str, Any], effect: float | None) -> dict[str, Any]:
        entry = self._facts(row) | {"effect": effect, "strongest": None}
        if row["status"] != EXPLAINED:
            return entry | {"preview": [(printable((row["text"] or "")[:_PREVIEWED]), None)]}
        removal, full = row["removal"], _full(row)
        preview = [
            (printable(text), None if unit is None else round(removal[unit] / full, 3))
            for text, unit in _pieces(row, _PREVIEWED)
        ]
        if len(row["text"] or "") > _PREVIEWED:
            preview.append((" …", None))
        if removal:
            top = int(np.argmax(np.abs(removal)))
            entry["strongest"] = {"unit": printable(row["units"][top])[:60], "effect": removal[top]}
        return entry | {"preview": preview}

    def _facts(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the table knows of a text besides its units."""
        gold = row["truth"]
        return {name: row[name] for name in ("number", "status", "label", "probability", "target", "score")} | {
            "id": printable(row["id"])[:200],
            "error": None if row["error"] is None else printable(row["error"])[:500],
            "fidelity": row["near_r2"],
            "gold": gold,
            "wrong": None if gold is None or row["label"] is None else gold != row["label"],
            "given": {name: None if row[GIVEN + name] is None else printable(row[GIVEN + name])[:200] for name in self.keep},
        }

    def whole(self, number: int, parts: Sequence[int]) -> dict[str, Any]:
        """Return a text whole: as its stored explanation shows it, or with the effects of its units."""
        part = number // self.part_size
        try:
            row = self._rows([number], _TEXT).get(number) if part in parts else None
            stored = None if row is None else row["explanation"]
            e = None if stored is None else Explanation.from_dict(json.loads(stored))
        except (OSError, ValueError, KeyError) as error:
            again = "the command that began the corpus explains it again"
            raise ModelError(f"part {part} of the corpus is damaged; {again}") from error
        if row is None:
            raise HTTPException(404, f"text {number} is not in the corpus, or not yet")
        return self._facts(row) | {
            "text": None if row["text"] is None else printable(row["text"][: self.characters]),
            "cut": row["text"] is not None and len(row["text"]) > self.characters,
            "content": None if e is None else content(e),
            "effects": None if e is not None or row["status"] != EXPLAINED else self._effects(row),
        }

    def _effects(self, row: Mapping[str, Any]) -> dict[str, Any]:
        errors = row["removal_se"]
        return {
            "pieces": [(printable(text), unit) for text, unit in _pieces(row, self.characters)],
            "units": [printable(name) for name in row["units"]],
            "removal": row["removal"],
            "full": _full(row),
            "within": None if errors is None else [None if se is None else NORMAL_95 * se for se in errors],
            "fidelity": {"near": row["near_r2"], "far": row["far_r2"]},
            "queries": row["queries"],
            "remarks": [one_line(remark) for remark in row["remarks"] or ()],
        }


def _keys(word: str) -> list[tuple[int, str]]:
    """Return length and key of the word, phrase or piece that a summary may show by a name.

    Example:
        >>> _keys("Good  film")
        [(1, 'good film'), (0, '\\x1egood film'), (2, 'good\\x1ffilm')]
    """
    name = " ".join(word.split()).lower()
    cut = {tuple(name[a:b] for a, b in simple_words(name).tolist()), tuple(name.split())}
    phrases = sorted((len(words), BETWEEN.join(words)) for words in cut if 1 < len(words) <= LONGEST)
    return [(1, name), (0, PIECE + name), *phrases]


def _full(row: Mapping[str, Any]) -> float:
    """Return the effect that has the full colour: the strongest of the text; the numbers beside it say how strong that is."""
    return float(np.abs(row["removal"]).max(initial=0.0)) or 1.0


def _pieces(row: Mapping[str, Any], most: int) -> list[tuple[str, int | None]]:
    """Return the beginning of a text, cut at its units; the names of the units where texts were not kept."""
    if row["text"] is None:
        named: list[tuple[str, int | None]] = []
        for unit, name in enumerate(row["units"][:most]):
            named += [(name, unit), (" ", None)]
        return named[:-1]
    spans = np.minimum(np.stack([row["starts"], row["ends"]], axis=1).reshape(-1, 2), most)
    return [(piece.text, piece.unit) for piece in pieces(row["text"][:most], spans) if piece.text]
