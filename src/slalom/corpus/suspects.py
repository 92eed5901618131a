"""Which keys of a summary are listed, and which are suspected shortcuts (`slalom.corpus.shortcuts` has the formulas)."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, final

import numpy as np

from slalom.core.checks import Floats
from slalom.corpus.counts import Counts
from slalom.corpus.queries import BETWEEN, kind_of
from slalom.corpus.results import KINDS, interval_half
from slalom.corpus.shortcuts import Known, Rival, Suspicion, reliance, representatives, suspicion

Observe: TypeAlias = Callable[[Sequence[int]], None]  # makes the table `seen` of some keys

_SELECTED = 20_000  # keys whose parts and effects by cell are known
_SUSPECTS = 1000  # of which those are shortcuts that stand for themselves


@final
class Selection:
    """The keys that may be listed: those with the largest reliance, and the first of each length in the order of `summary`.

    The connection has the tables `totals` (sums of the keys that occur often enough) and `pieces`; it gets `selected`.

    Attributes:
        sums: Columns of `totals` as arrays; the id of a key is its place in them.
        keys, ids: The selected keys by id, in ascending order, and their ids.
    """

    def __init__(self, connection: Any, sort: str, top: int) -> None:
        self._run, self._top = connection.execute, top
        columns = self._run("SELECT * EXCLUDE key FROM totals ORDER BY id").fetchnumpy()
        self.sums: dict[str, Floats] = {name: np.asarray(column, dtype=np.float64) for name, column in columns.items()}
        self._n, s1 = self.sums["n"], self.sums["s1"]
        self._mean = s1 / np.maximum(self._n, 1)
        self._variance = np.maximum(self.sums["s2"] - s1 * self._mean, 0.0) / np.maximum(self._n - 1, 1)
        self._reliance = reliance(self._n, self._mean, self._variance)
        low = np.abs(self._mean) - interval_half(self._n, self._variance)
        self._order = {"effect": low, "total": np.abs(s1), "texts": self._n}[sort]
        first = [np.argsort(-self._reliance, kind="stable")[:_SELECTED]]
        for length in np.unique(self.sums["length"]):
            inside = np.flatnonzero(self.sums["length"] == length)
            first.append(inside[np.argsort(-self._order[inside], kind="stable")[: 10 * top]])
        self.ids = np.unique(np.concatenate(first))
        self._run("CREATE TABLE selected AS SELECT unnest(?::BIGINT[]) AS id", [self.ids.tolist()])
        self.keys: dict[int, str] = dict(
            self._run("SELECT id, key FROM totals SEMI JOIN selected USING (id) ORDER BY id").fetchall()
        )
        self._parts = self._parts_by_key()

    def _parts_by_key(self) -> dict[int, dict[int, list[int]]]:
        """Return the parts of each key, each with the words (pieces) of the whole that are not in it; those in `totals`."""
        pieces = dict(self._run("SELECT key, pieces FROM pieces").fetchall())
        named = {key: _parts_of(name, pieces.get(name, ())) for key, name in self.keys.items()}
        names = sorted({name for parts in named.values() for part, rest in parts.items() for name in (part, *rest)})
        query = "SELECT key, id FROM totals SEMI JOIN (SELECT unnest(?::VARCHAR[]) AS key) USING (key)"
        ids: dict[str, int] = dict(self._run(query, [names]).fetchall())
        return {
            key: {ids[part]: [ids[name] for name in rest if name in ids] for part, rest in parts.items() if part in ids}
            for key, parts in named.items()
        }

    def listed(self) -> list[int]:
        """Return the first keys of each kind; phrases that a part explains are left out."""
        listed = list[int]()
        for kind in KINDS:
            keys = sorted((key for key, name in self.keys.items() if kind_of(name) == kind), key=lambda key: -self._order[key])
            if kind == "phrase":
                keys = [key for key in keys if not self._known(key).explained_by([*map(self._known, self._parts[key])])]
            listed += keys[: self._top]
        return listed

    def _known(self, key: int) -> Known:
        return Known(float(self._n[key]), float(self._mean[key]))

    def suspects(self, counts: Counts, observe: Observe) -> dict[int, Suspicion]:
        """Return the most suspicious keys that stand for themselves, with the numbers of each."""
        ids, labels, slices = self.ids, None, None
        if counts.target in (gold := counts.sizes.get("gold", {})):
            by_gold, column, known = counts.texts_by_part(ids, "gold"), [*gold].index(counts.target), sum(gold.values())
            rate = gold[counts.target] / known if known else 0.0
            labels = by_gold[:, column], by_gold.sum(axis=1) - by_gold[:, column], rate
        if total := sum((by_slice := counts.sizes.get("slice", {})).values()):
            slices = counts.texts_by_part(ids, "slice"), np.array(list(by_slice.values())) / total
        numbers = suspicion(self._n[ids], self._mean[ids], self._variance[ids], counts.texts, labels=labels, slices=slices)
        order = np.argsort(-numbers.score, kind="stable")
        place = {int(ids[i]): int(i) for i in order[numbers.score[order] > 0][:_SUSPECTS]}
        score = dict(zip(ids.tolist(), numbers.score.tolist(), strict=True))
        alone = representatives(self._rivals([*place, *self._words_of_pieces(place)], score, observe))
        return {key: Suspicion(*(column[i] for column in numbers)) for key, i in place.items() if alone[key]}

    def _words_of_pieces(self, keys: Mapping[int, int]) -> list[int]:
        words = [
            key
            for key, parts in self._parts.items()
            if key not in keys and kind_of(self.keys[key]) == "word" and not parts.keys().isdisjoint(keys)
        ]
        return sorted(words, key=lambda key: -self._reliance[key])[:_SUSPECTS]

    def _rivals(self, keys: Iterable[int], score: Mapping[int, float], observe: Observe) -> dict[int, dict[int, Rival]]:
        """Return for each key its parts, with what they do in its texts and elsewhere."""
        inside = self._inside([(key, part) for key in keys for part in self._parts[key]], observe)
        rivals: dict[int, dict[int, Rival]] = {}
        for key in keys:
            whole, parts = self._known(key), self._parts[key]
            sign = 1.0 if whole.mean >= 0 else -1.0
            sums = {part: inside.get((key, part), (0, 0.0)) for part in parts}
            means = {part: total / n if n else 0.0 for part, (n, total) in sums.items()}
            rivals[key] = {}
            for part, others in parts.items():
                (n, total), known = sums[part], self._known(part)
                without = max(known.texts - n, 0.0)
                elsewhere = (known.texts * known.mean - total) / without if without else 0.0
                rest = sign * max((sign * means[other] for other in others if other in means), default=0.0)
                carried = score.get(part, 0.0) / score[key] if score[key] > 0 else 1.0
                rivals[key][part] = Rival(whole.mean, whole.texts, known.mean, means[part], elsewhere, without, rest, carried)
        return rivals

    def _inside(self, pairs: Sequence[tuple[int, int]], observe: Observe) -> dict[tuple[int, int], tuple[int, float]]:
        """Return for each (whole, part) the number of texts that have both, and the sum of the part's effects there."""
        if not pairs:
            return {}
        ids = [list(column) for column in zip(*pairs, strict=True)]
        self._run("CREATE TABLE pairs AS SELECT unnest(?) AS whole, unnest(?) AS part", ids)
        observe(sorted({key for pair in pairs for key in pair}))
        rows = self._run(
            "SELECT whole, part, count(*), sum(p.y) FROM pairs JOIN seen w ON w.id = whole"
            " JOIN seen p ON p.id = part AND p.number = w.number GROUP BY whole, part"
        ).fetchall()
        return {(whole, part): (n, total) for whole, part, n, total in rows}


def _parts_of(key: str, pieces: Sequence[str]) -> dict[str, list[str]]:
    """Return the shorter phrases and words of a phrase, or the pieces of a word, each with the rest of the whole."""
    if kind_of(key) != "phrase":
        return {piece: [other for other in pieces if other != piece] for piece in pieces}
    words = key.split(BETWEEN)
    return {
        BETWEEN.join(words[i : i + n]): [*words[:i], *words[i + n :]]
        for n in range(1, len(words))
        for i in range(len(words) - n + 1)
    }
